"""Quasi-Newton steps from the optimum of a sample; with a penalty each pass also proves its point.

BFGS (Nocedal and Wright 2006, "Numerical Optimization", equation 6.17) from the curvature that the
sample has there: each step shrinks the gradient about as much as that curvature is right. It runs
in coordinates in which that is the identity, by triangular solves of vectors: LAPACK wakes threads
for a matrix, see `_linalg.lower_inverse`. Shapes as in `_passes`, of one score.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _loops
from jaxlin._linalg import dot
from jaxlin._smooth import _iterate, _light
from jaxlin._smooth._frame import Problem
from jaxlin._smooth._passes import Point
from jaxlin._smooth._record import Spec

# What is left of a step that was too long, and where shorter ones are no use.
SHORTER, SHORTEST = 1 / 4, 2.0**-20
# Curvature so many times less than expected is taken to be less in all directions, as it is where
# scores grow without end (Oren and Luenberger 1974, "Self-scaling variable metric algorithms").
LOST = 2.0
# A step along which the gradient hardly changes, as a part of what was expected, says nothing.
LEAST_CHANGE = 1e-3


class Run(NamedTuple):
    """A run between two passes, in the coordinates in which it was begun with the identity.

    slope: `(p,)`, the gradient at the point
    inverse: `(p, p)`, about that of the Hessian
    length: `()`, of its step, to try next
    """

    point: Point
    slope: jax.Array
    inverse: jax.Array
    length: jax.Array
    steps: jax.Array
    stalled: jax.Array


def descend(
    spec: Spec,
    problem: Problem,
    start: jax.Array,
    curved: jax.Array,
    tol: jax.Array,
    cap: jax.Array,
    patience: int | None = None,
) -> tuple[Point, jax.Array]:
    """Minimise J until the residual is at most `tol` or falls no more; no verdict.

    Args:
      spec: the loss and the static choices.
      problem: of stopped gradients.
      start: `(1, p)`.
      curved: `(p, p)`, about the Hessian there, positive definite.
      tol: bound on the residual.
      cap: on the steps.
      patience: steps from which on a run is left whose residual was not halved by each, on average.

    Returns:
      The point and the steps.
    """
    whole = _linalg.factor(curved)

    def half(point: Point) -> jax.Array:
        return _linalg.half_solve(whole, point.grad[0])

    def advance(run: Run) -> Run:
        point, slope, length = run.point, run.slope, run.length
        along = -length * dot(run.inverse, slope)
        expected = -jnp.sum(slope * along)
        step = _linalg.other_half(whole, along)
        trial = _light.light(spec, problem, point.theta + step[None])
        verdict = _iterate.judge(
            (point.value, point.residual),
            (trial.value, trial.residual),
            (1 - length / 2) * expected,
            length,
            trial.noise,
        )
        accept = jax.lax.optimization_barrier(verdict.accept)
        found = trial, half(trial)
        change = found[1] - slope
        point, slope = jax.tree.map(functools.partial(jnp.where, accept), found, (point, slope))
        return Run(
            point=point,
            slope=slope,
            inverse=_updated(run.inverse, along, change, length * expected),
            length=jnp.where(accept, 1, SHORTER * length),
            steps=run.steps + accept.astype(jnp.int32),
            stalled=verdict.stalled | (length < SHORTEST),
        )

    first = _light.light(spec, problem, start)

    def unfinished(run: Run) -> jax.Array:
        fine = jnp.isfinite(run.point.value) & ~run.stalled
        if patience is not None:
            halved = first.residual * jnp.exp2(-run.steps.astype(tol.dtype))
            fine &= (run.steps < patience) | (run.point.residual <= halved)
        return (run.point.residual > tol) & (run.steps < cap) & fine

    init = Run(
        point=first,
        slope=half(first),
        inverse=jnp.eye(start.size, dtype=start.dtype),
        length=jnp.ones_like(first.value),
        steps=jnp.int32(0),
        stalled=jnp.bool_(False),
    )
    run = jax.lax.while_loop(unfinished, *_loops.steady(advance, init))
    return run.point, run.steps


def _updated(
    inverse: jax.Array, step: jax.Array, change: jax.Array, expected: jax.Array
) -> jax.Array:
    """The inverse that takes the gradient's `change (p,)` to the `step (p,)`.

    As it was where these are not of a convex function, or the change along the step is next to
    nothing beside the `expected`.
    """
    along = jnp.sum(step * change)
    sound = (along > LEAST_CHANGE * expected) & jnp.isfinite(along)
    along = jnp.where(sound, along, 1)
    image = dot(inverse, change)
    grow = along / jnp.where(sound, jnp.sum(change * image), 1)
    grow = jnp.where(grow > LOST, grow, 1)
    inverse, image = grow * inverse, grow * image
    stretch = (1 + jnp.sum(change * image) / along) / along
    mixed = image[:, None] * step[None, :] / along
    moved = inverse + stretch * (step[:, None] * step[None, :]) - mixed - mixed.T
    return jnp.where(sound & jnp.all(jnp.isfinite(moved)), moved, inverse / grow)

"""Proximal Newton: a step is to the minimum of J's quadratic at a point, and the kinks as they are.

It minimises J and the kinks' value (Lee, Sun and Saunders 2014, "Proximal Newton-type
methods for minimizing composite functions"). As in `_newton` a turn is one pass over the rows,
which judges the step of the last turn and measures what the next is made of. Shapes as in
`_passes`.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlin._base import _loops
from jaxlin._nonsmooth import _kinks, _quadratic
from jaxlin._nonsmooth._kinks import Kinks
from jaxlin._smooth import _passes
from jaxlin._smooth._frame import Problem
from jaxlin._smooth._record import Spec

# Of the fall that a step promises what is asked, and units of rounding that hide one.
DECREASE, NOISE_ULPS = 0.1, 4
# A refused step is tried again this much shorter, and how short it may become.
SHORTER, SHORTEST = 0.3, 1e-6


class Run(NamedTuple):
    """Where a fit is after so many turns, of which the first begins.

    theta: `(m p,)`
    value: `()`, with the kinks' part
    point, hess: as of `_passes.measure`, at theta
    moved: `(m p,)`, the last step that was taken and led elsewhere
    target: `(m p,)`, where the step leads, by its `length ()`
    promised: `()`, the fall that the quadratic promises there
    steps: `()`, those that were taken
    near: whether a step more ends where the objective has no more to fall
    """

    turn: jax.Array
    theta: jax.Array
    value: jax.Array
    point: _passes.Point
    hess: jax.Array
    moved: jax.Array
    target: jax.Array
    length: jax.Array
    promised: jax.Array
    steps: jax.Array
    near: jax.Array
    done: jax.Array


def descend(
    spec: Spec, problem: Problem, kinks: Kinks, start: jax.Array, tol: jax.Array, cap: jax.Array
) -> Run:
    """Step by step, until what a step promises is below `tol` squared of the objective.

    A step more, which has not been measured, is then the run's `target`.

    Args:
      kinks: of `(m p,)`.
      start: `(m, p)`.
      cap: on the steps.
    """
    measure = measured(spec, problem, start.shape)

    def turn(run):
        return advance(run, measure, kinks, tol)

    def more(run):
        return unfinished(run, problem, cap)

    return jax.lax.while_loop(more, *_loops.steady(turn, begin(measure, start)))


def measured(spec: Spec, problem: Problem, shape: tuple[int, ...]) -> Callable:
    """`theta (m p,) -> (point, hess)`, by one pass."""
    columns = _passes.held_columns(problem)
    return lambda theta: _passes.measure(spec, problem, theta.reshape(shape), columns)


def unfinished(run: Run, problem: Problem, cap: jax.Array) -> jax.Array:
    more = (run.steps < cap) & ~run.done & jnp.any(problem.used)
    return (run.turn == 0) | more


def begin(measure: Callable, start: jax.Array) -> Run:
    """Before the first turn, which comes to `start` from an infinite objective."""
    theta = start.reshape(-1)
    point, hess = jax.tree.map(
        lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(measure, theta)
    )
    nothing, unknown = jnp.int32(0), jnp.full((), jnp.inf, theta.dtype)
    return Run(
        turn=nothing,
        theta=theta,
        value=unknown,
        point=point,
        hess=hess,
        moved=jnp.zeros_like(theta),
        target=theta,
        length=jnp.ones((), theta.dtype),
        promised=jnp.zeros((), theta.dtype),
        steps=nothing,
        near=jnp.bool_(False),
        done=jnp.bool_(False),
    )


def advance(run: Run, measure: Callable, kinks: Kinks, tol: jax.Array) -> Run:
    dtype = run.theta.dtype

    def violation(point, theta):
        return _kinks.violation(kinks, point.grad.reshape(-1), theta)

    # By the target itself where the step is whole: its zeros are exact.
    part = run.theta + run.length * (run.target - run.theta)
    theta = jnp.where(run.length < 1, part, run.target)
    point, hess = measure(theta)
    value = point.value + _kinks.value(kinks, theta)
    noise = NOISE_ULPS * float(jnp.finfo(dtype).eps) * jnp.abs(run.value)
    fell = value <= run.value - DECREASE * run.length * run.promised
    # Within rounding a fall is told by what is amiss.
    better = jnp.sum(violation(point, theta) ** 2) < jnp.sum(violation(run.point, run.theta) ** 2)
    level = (value <= run.value + noise) & better
    accept = (fell | level) & jnp.isfinite(value) & jnp.all(jnp.isfinite(hess))

    def taken(new, old):
        return jnp.where(accept, new, old)

    moved = jnp.where(jnp.any(theta != run.theta), theta - run.theta, run.moved)
    moved, theta, value = taken(moved, run.moved), taken(theta, run.theta), taken(value, run.value)
    point, hess = jax.tree.map(taken, (point, hess), (run.point, run.hess))
    grad = point.grad.reshape(-1)
    target, found = _quadratic.minimum(hess, grad, theta, kinks)
    parts = _kinks.slope(kinks, target) * target - _kinks.slope(kinks, theta) * theta
    promised = -jnp.sum(grad * (target - theta) + parts)
    length = jnp.where(accept, 1, SHORTER * run.length)
    near = accept & found & (promised <= tol**2 * jnp.abs(value))
    return Run(
        turn=run.turn + 1,
        theta=theta,
        value=value,
        point=point,
        hess=hess,
        moved=moved,
        target=target,
        length=length.astype(dtype),
        promised=promised,
        steps=run.steps + (accept & (run.turn > 0)).astype(jnp.int32),
        near=near,
        # What is free separates the classes: the optimum is at infinity.
        done=near | (length < SHORTEST) | ~jnp.isfinite(value) | (point.short == 0),
    )

"""Of many features those that may count: the others stay at 0 until a pass over x asks for them.

A round fits what is not 0 and the features whose condition at 0 is violated most, a set of fixed
size, by `_proximal`; then a pass over x judges them all (Massias, Gramfort and Salmon 2018, "Celer:
a fast solver for the lasso with dual extrapolation"). Should more features count than the set
holds, those left out keep their weights for a round. Shapes as in `_passes`.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _loops
from jaxlin._linalg import dot
from jaxlin._nonsmooth import _proximal, _quadratic
from jaxlin._smooth import _frame, _light
from jaxlin._smooth._frame import Problem
from jaxlin._smooth._record import Spec

# Coordinates up to which all are fitted at once, or after all, if more count than a set holds; and
# those of a set, of some features at least.
ALL, AFTER_ALL, SOME, LEAST = 512, 2048, 256, 16
ROUNDS = 50
# The part of the bound on the gap that a condition at 0 may be violated by.
ENOUGH = 0.1


class Found(NamedTuple):
    """Where the rounds ended.

    theta: `(m, p)`, by a last step that is not measured
    before: `(m, p)`, without it
    part, at: the last set's Problem, and which coordinates of p `(q,)` it is of
    run: the last round's
    steps: of all rounds
    """

    theta: jax.Array
    before: jax.Array
    part: Problem
    at: jax.Array
    run: _proximal.Run
    steps: jax.Array


def descend(
    spec: Spec, problem: Problem, l1: jax.Array, start: jax.Array, tol: jax.Array, cap: jax.Array
) -> Found:
    """As `_proximal.descend`, of all features at once where they are few."""
    m, p = start.shape
    if m * p <= ALL:
        return at_once(spec, problem, l1, start, tol, cap)
    d, size = problem.centre.size, features(start.shape)
    each = l1.reshape(m, p)

    def turn(carry):
        i, theta, _, _, steps, _ = carry
        slope = _light.light(spec, problem, theta).grad
        size_of = jnp.where(each > 0, each, 1)
        amiss = jnp.max(_quadratic.violation(slope, theta, each) / size_of, axis=0)
        held = jnp.any(theta != 0, axis=0) | problem.free
        # What is not 0 before all else; if that is too many, what is most amiss.
        first = held & ((jnp.sum(held) <= size) | problem.free)
        order = jnp.where(first, jnp.inf, amiss)
        at = _frame.with_bias(jax.lax.top_k(order[:d], size)[1], d, p > d)
        part, own = _part(problem, at, theta), each[:, at].reshape(-1)
        left = jnp.maximum(cap - steps, 0)
        run = _proximal.descend(spec, part, own, theta[:, at], tol, left)
        theta = theta.at[:, at].set(_end(run, theta[:, at]))
        more = jnp.max(jnp.where(first, 0, amiss)) > ENOUGH * tol
        more = (i == 0) | (more & (run.steps > 0))
        if may_be_crowded(start.shape):
            more &= jnp.sum(held) <= size
        return i + 1, theta, at, run, steps + run.steps, more

    def unfinished(carry):
        i, *_, steps, more = carry
        return more & (i < ROUNDS) & ((i == 0) | (steps < cap))

    none = jnp.int32(0)
    shapes = jax.eval_shape(lambda: turn((none, start, None, None, none, True)))
    init = none, start, *_loops.filled(shapes[2:4], 0), none, jnp.bool_(True)
    found = jax.lax.while_loop(unfinished, *_loops.steady(turn, init))
    _, theta, at, run, steps, _ = found
    # Not carried, as rows that are dealt would make all that is beside them each device's own.
    before = theta.at[:, at].set(run.theta.reshape(len(theta), -1))
    return Found(theta, before, _part(problem, at, theta), at, run, steps)


def at_once(
    spec: Spec, problem: Problem, l1: jax.Array, start: jax.Array, tol: jax.Array, cap: jax.Array
) -> Found:
    """Of all features."""
    run = _proximal.descend(spec, problem, l1, start, tol, cap)
    before, at = run.theta.reshape(start.shape), jnp.arange(start.shape[1])
    return Found(_end(run, start), before, problem, at, run, run.steps)


def features(shape: tuple[int, ...]) -> int:
    """Of a set, for theta of this shape `(m, p)`."""
    m, p = shape
    return min(p - 1, max(LEAST, SOME // m))


def may_be_crowded(shape: tuple[int, ...]) -> bool:
    """Whether all features may be fitted at once where more count than a set holds."""
    return ALL < math.prod(shape) <= AFTER_ALL


def is_crowded(theta: jax.Array) -> jax.Array:
    return jnp.sum(jnp.any(theta != 0, axis=0)) > features(theta.shape)


def _end(run: _proximal.Run, like: jax.Array) -> jax.Array:
    """Where a run ended: one step more, whose zeros are exact, where that is the last."""
    return jnp.where(run.near, run.target, run.theta).reshape(like.shape)


def _part(problem: Problem, index: jax.Array, theta: jax.Array) -> Problem:
    """The problem of some coordinates, the others fixed at theta."""
    d, rows = problem.centre.size, problem.rows
    some = index[: index.size - (problem.spread.size - d)]
    outside = theta.at[:, index].set(0)

    def scores(problem, outside):
        return _frame.products(problem, outside.T)

    shape = jax.eval_shape(scores, problem, outside)
    none = jnp.zeros(shape.shape, shape.dtype)
    moved = _linalg.when(jnp.any(outside != 0), scores, none, (problem, outside))
    moved = moved[:, 0] if problem.basis is None else dot(moved, problem.basis.T)
    if rows.offset is not None:
        moved = moved + rows.offset
    mask = rows.feature_mask
    rows = rows._replace(
        x=jnp.take(rows.x, some, axis=1),
        offset=moved,
        feature_mask=None if mask is None else mask[some],
        unit=None if rows.unit is None else rows.unit[some],
    )
    return problem._replace(
        rows=rows,
        centre=problem.centre[some],
        scale=problem.scale[some],
        spread=problem.spread[index],
        shift=problem.shift[index],
        unit=problem.unit[index],
        penalty=problem.penalty[index],
        sizes=problem.sizes[:, index],
        free=problem.free[index],
        idle=problem.idle[some],
    )

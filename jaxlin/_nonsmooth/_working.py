"""Of many features those that may count: the others stay at 0 until a pass over x asks for them.

A round fits what is not 0 and the features whose condition at 0 is violated most, a set of fixed
size, by `_proximal`; then a pass over x judges them all (Massias, Gramfort and Salmon 2018, "Celer:
a fast solver for the lasso with dual extrapolation"). Should more features count than the set
holds, those left out keep their weights for a round, as does a group of which not all have room.
Shapes as in `_passes`.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _loops
from jaxlin._linalg import dot
from jaxlin._nonsmooth import _kinks, _proximal
from jaxlin._nonsmooth._kinks import Kinks
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
    part, kinks, at: the last set's, and which coordinates of p `(q,)` they are of
    run: the last round's
    steps: of all rounds
    """

    theta: jax.Array
    before: jax.Array
    part: Problem
    kinks: Kinks
    at: jax.Array
    run: _proximal.Run
    steps: jax.Array


def descend(
    spec: Spec, problem: Problem, kinks: Kinks, start: jax.Array, tol: jax.Array, cap: jax.Array
) -> Found:
    """As `_proximal.descend`, of all features at once where they are few."""
    m, p = start.shape
    if m * p <= ALL:
        return at_once(spec, problem, kinks, start, tol, cap)
    d, size = problem.centre.size, features(start.shape)

    def by_feature(of_each):
        return of_each.reshape(m, p)

    def turn(carry):
        i, theta, _, _, steps, _ = carry
        flat, slope = theta.reshape(-1), _light.light(spec, problem, theta).grad.reshape(-1)
        size_of = jnp.where(kinks.l1 > 0, kinks.l1, 1)
        amiss = jnp.max(by_feature(_kinks.violation(kinks, slope, flat) / size_of), axis=0)
        held = jnp.any(by_feature(_kinks.sizes(kinks, flat) > 0), axis=0) | problem.free
        # What is not 0 before all else; if that is too many, what is most amiss.
        first = held & ((jnp.sum(held) <= size) | problem.free)
        order = jnp.where(first, jnp.inf, amiss)
        at = _frame.with_bias(jax.lax.top_k(order[:d], size)[1], d, p > d)
        whole = _whole(kinks, at, (m, p))
        part = _part(problem, at, theta, whole)
        left = jnp.maximum(cap - steps, 0)
        run = _proximal.descend(spec, part, _of_part(kinks, at, whole, p), theta[:, at], tol, left)
        theta = _back(theta, at, whole, _end(run, (m, at.size)))
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
    whole = _whole(kinks, at, (m, p))
    before = _back(theta, at, whole, run.theta.reshape(m, -1))
    part = _part(problem, at, theta, whole)
    return Found(theta, before, part, _of_part(kinks, at, whole, p), at, run, steps)


def at_once(
    spec: Spec, problem: Problem, kinks: Kinks, start: jax.Array, tol: jax.Array, cap: jax.Array
) -> Found:
    """Of all features."""
    run = _proximal.descend(spec, problem, kinks, start, tol, cap)
    m, p = start.shape
    return of_all(problem, kinks, (m, p), run)


def of_all(problem: Problem, kinks: Kinks, shape: tuple[int, int], run: _proximal.Run) -> Found:
    """Where a run of all features has ended."""
    theta, before, at = _end(run, shape), run.theta.reshape(shape), jnp.arange(shape[1])
    return Found(theta, before, problem, kinks, at, run, run.steps)


def features(shape: tuple[int, ...]) -> int:
    """Of a set, for theta of this shape `(m, p)`."""
    m, p = shape
    return min(p - 1, max(LEAST, SOME // m))


def may_be_crowded(shape: tuple[int, ...]) -> bool:
    """Whether all features may be fitted at once where more count than a set holds."""
    return ALL < math.prod(shape) <= AFTER_ALL


def is_crowded(theta: jax.Array) -> jax.Array:
    return jnp.sum(jnp.any(theta != 0, axis=0)) > features(theta.shape)


def _end(run: _proximal.Run, shape: tuple[int, int]) -> jax.Array:
    """Where a run ended: one step more, whose zeros are exact, where that is the last."""
    return jnp.where(run.near, run.target, run.theta).reshape(shape)


def _whole(kinks: Kinks, at: jax.Array, shape: tuple[int, int]) -> jax.Array:
    """Which of some coordinates `(q,)` are of groups of which all are among them."""
    if kinks.group is None:
        return jnp.ones(at.size, bool)
    m, p = shape
    outside = jnp.broadcast_to(jnp.ones(p, bool).at[at].set(False), (m, p))
    return ~jnp.any(_kinks.any_of(kinks, outside.reshape(-1)).reshape(m, p)[:, at], axis=0)


def _of_part(kinks: Kinks, at: jax.Array, whole: jax.Array, p: int) -> Kinks:
    index = at[None, :] + p * jnp.arange(kinks.l1.size // p, dtype=at.dtype)[:, None]
    return _kinks.some(kinks, index.reshape(-1), jnp.broadcast_to(whole, index.shape).reshape(-1))


def _back(theta: jax.Array, at: jax.Array, whole: jax.Array, new: jax.Array) -> jax.Array:
    """theta with what a set has found."""
    return theta.at[:, at].set(jnp.where(whole[None, :], new, theta[:, at]))


def _part(problem: Problem, index: jax.Array, theta: jax.Array, whole: jax.Array) -> Problem:
    """The problem of some coordinates, the others, and those not `whole`, fixed at theta."""
    d, rows = problem.centre.size, problem.rows
    some = index[: index.size - (problem.spread.size - d)]
    outside = _back(theta, index, whole, jnp.zeros_like(theta[:, index]))

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
        spread=jnp.where(whole, problem.spread[index], 0),
        shift=problem.shift[index],
        unit=problem.unit[index],
        penalty=problem.penalty[index],
        sizes=problem.sizes[:, index],
        free=problem.free[index],
        idle=problem.idle[some],
    )

"""Scores of rows at a point, and what their labels agree with."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._data import _fold, _rows
from jaxlin._smooth import _frame
from jaxlin._smooth._frame import Problem
from jaxlin._smooth._record import Agreement, Spec


def scored(problem: Problem, block: _rows.Rows, u: jax.Array) -> jax.Array:
    """The scores `(rows, K)` of `u (rows, m)`, with offset; 0 in rows without weight."""
    return live(block, moved(block, _frame.scores(problem, u)))


def scores_of(problem: Problem, block: _rows.Rows, z: Any, theta: jax.Array) -> jax.Array:
    """The scores `(rows, K)` of theta, with offset, in one product; see `live`."""
    scores = _frame.times(z, spread_rows(problem, _frame.of_basis(problem, theta)[None]))
    if problem.basis is not None:
        scores = scores + _frame.never(problem)[None, :]
    return moved(block, scores)


def in_front(problem: Problem, block: _rows.Rows, scores: jax.Array) -> jax.Array:
    """Scores `(K, rows)` with offset, those of absent classes as they are to be."""
    if problem.basis is not None:
        scores = scores + _frame.never(problem)[:, None]
    if block.offset is not None:
        scores = scores + block.offset.reshape(scores.shape[1], -1).T
    return scores


def live(block: _rows.Rows, scores: jax.Array) -> jax.Array:
    """0 in rows without weight, where scores could overflow."""
    return jnp.where((block.weight > 0)[:, None], scores, 0)


def moved(block: _rows.Rows, scores: jax.Array) -> jax.Array:
    return scores if block.offset is None else scores + block.offset.reshape(scores.shape)


def agreed(spec: Spec, problem: Problem, block: _rows.Rows, u: jax.Array) -> Agreement:
    """What `u (rows, ..., m)` without offset agrees with, `(rows, ..., q)`."""

    def of_row(u, y):
        scores = _frame.scores(problem, u.reshape(-1, u.shape[-1]))
        return jax.vmap(spec.loss.agreement, in_axes=(0, None))(scores, y)

    flat = jax.vmap(of_row)(u, block.y)
    return jax.tree.map(lambda a: a.reshape(*u.shape[:-1], -1), flat)


def short(spec: Spec, problem: Problem, block: _rows.Rows, u: jax.Array, least) -> jax.Array:
    """How many rows do not agree with their `u (rows, m)` by more than `least`.

    A count, because a sum over rows is a product, and a minimum is not.
    """
    value, _, tight, inert = agreed(spec, problem, block, u)
    clear = jnp.all(inert | (~tight & (value > least)), axis=1)
    return _linalg.inner((block.weight > 0).astype(u.dtype), (~clear).astype(u.dtype))


def extremes(spec: Spec, problem: Problem, theta: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The least agreement with the scores of theta, offsets left out, and their largest size."""

    def maxima(block):
        u = images(problem, _frame.columns(problem, block), theta[None])
        value, _, tight, inert = agreed(spec, problem, block, u)
        margin = jnp.where(inert, jnp.inf, jnp.where(tight, -jnp.abs(value), value))
        both = jnp.stack([-jnp.min(margin, axis=1), jnp.max(jnp.abs(u), axis=1)], axis=1)
        return (), jnp.max(jnp.where((block.weight > 0)[:, None], both, -jnp.inf), axis=0)

    _, (worst, reach) = _fold.fold(maxima, problem.rows)
    return -worst, reach


def images(problem: Problem, z: Any, thetas: jax.Array) -> jax.Array:
    """Scores `(rows, s m)` of thetas `(s, m, p)`.

    The product is taken the other way round, so that lanes that share z have each its scores in
    one piece.
    """
    return _frame.across(spread_rows(problem, thetas).T, z).T


def spread_rows(problem: Problem, thetas: jax.Array) -> jax.Array:
    """Thetas `(s, m, p)` as columns `(p, s m)` that a row of the frame is multiplied with."""
    return (thetas * problem.spread[None, None, :]).reshape(-1, problem.spread.size).T


def rounding_of_scores(problem: Problem, theta: jax.Array) -> jax.Array:
    """Twice the rounding of the frame, of a score in it, and of the bias that leaves it."""
    largest = jnp.sum(jnp.abs(theta) * problem.sizes[1][None, :])
    return (theta.size + 4) * jnp.finfo(theta.dtype).eps * largest


def slopes(spec: Spec, problem: Problem, block: _rows.Rows, theta: jax.Array) -> jax.Array:
    """The weighted slope of each row's loss in its scores, `(rows, K)`."""
    scores = scores_of(problem, block, _frame.columns(problem, block), theta)
    slope = jax.vmap(jax.grad(spec.loss.value))(live(block, scores), block.y)
    return block.weight[:, None] * slope

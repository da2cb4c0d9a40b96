"""Rows at the level of their scores, and what areas and curves are sums of.

A sort of single integers takes a third of the time of one that tells where each came from. So the
scores are sorted as integers, and each row is found again among them: at the first of its equals,
where all that they weigh is added up.

Shapes: `n` examples, `k` classes.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlin._base import _codes
from jaxlin._scores import _judged
from jaxlin._scores._judged import Judged


class Levels(NamedTuple):
    """The scores from the lowest to the highest; the highest also in place of those absent.

    place: `(n,)`, where the score of each row is, the first place of equal scores; of a row that is
      absent the first place that is not below it, n if none is
    scores: `(n,)`, at each place
    """

    place: jax.Array
    scores: jax.Array

    def total(self, a: jax.Array) -> jax.Array:
        """The sums `(n,)` of `a (n,)` over the rows of each place."""
        return jnp.zeros_like(a).at[self.place].add(a)


def levels(scores: jax.Array, absent: jax.Array | None = None) -> Levels:
    """The levels of `scores (n,)`, those of rows that are `absent (n,)` told apart if it is given.

    Where a place is only to add up what rows weigh, it need not be given: lanes that differ in
    weights then share one sort, and a row that gains weight does so at a level of its own.
    """
    integer = jnp.dtype(f"int{8 * scores.dtype.itemsize}")
    keys = ordered = _flipped(_bits(scores, integer))
    if absent is not None:
        highest = jnp.max(jnp.where(absent, jnp.iinfo(integer).min, keys))
        ordered = jnp.where(absent, highest, keys)
    ordered = jax.lax.sort(ordered, is_stable=False)
    place = jnp.searchsorted(ordered, keys).astype(jnp.int32)
    values = jax.lax.bitcast_convert_type(_flipped(ordered), scores.dtype)
    return Levels(place, values)


def _bits(scores, integer):
    scores = jnp.where(scores == 0, 0, jax.lax.stop_gradient(scores))  # -0 is 0
    return jax.lax.bitcast_convert_type(scores, integer)


def _flipped(bits: jax.Array) -> jax.Array:
    """The bits of floats as integers of their order; done twice, the bits again."""
    return jnp.where(bits < 0, bits ^ jnp.iinfo(bits.dtype).max, bits)


class Counts(NamedTuple):
    """What is predicted class 1 where each score is enough for it, from high to low.

    thresholds: `(n,)`, the scores; of rows without weight the lowest, at the end
    true, false: `(n,)`, weight of class 1 and of class 0 with that score or more
    rows: their judgement
    """

    thresholds: jax.Array
    true: jax.Array
    false: jax.Array
    rows: Judged


def counts(scores: jax.Array, y: jax.Array, sample_weight: jax.Array | None) -> Counts:
    """For `(n,)` scores, or `(n, 2)`, of which the difference counts."""
    rows = _judged.judged(binary(scores), y, sample_weight)
    at = levels(-rows.scores, rows.weight == 0)
    # Of the places of rows that are absent the last is beyond all thresholds.
    at = at._replace(place=jnp.minimum(at.place, len(at.place) - 1))
    return Counts(-at.scores, *passed(at, rows), rows)


def passed(at: Levels, rows: Judged) -> tuple[jax.Array, jax.Array]:
    """The weight `(n,)` of class 1, and of class 0, up to each place."""
    weight = _judged.scaled(rows.weight)
    of_one, of_zero = (jnp.where(side, weight, 0) for side in (rows.y > 0, rows.y == 0))
    return jnp.cumsum(at.total(of_one)), jnp.cumsum(at.total(of_zero))


def binary(scores: jax.Array) -> jax.Array:
    return scores[:, 1] - scores[:, 0] if scores.ndim == 2 else scores


def wins(scores: jax.Array, of_class: jax.Array) -> jax.Array:
    """How much of a class is above each row, `(n,)`, and half of what equals it.

    Args:
      scores: `(n,)`.
      of_class: `(n,)`, weights of the rows of that class.
    """
    at = levels(-scores)
    here = at.total(of_class)
    return (jnp.cumsum(here) - here / 2)[at.place]


def pairs_won(scores: jax.Array, rows: Judged, k: int) -> tuple[jax.Array, jax.Array]:
    """`(k, k)`: how often a row of the class of the line is above one of the column's, by scores
    `(n, k)` of the line; and the classes' weights `(k,)`."""
    weight = _judged.scaled(rows.weight)
    members = jnp.where(_codes.members(rows.y, k), weight[:, None], 0)
    won = jax.vmap(wins, in_axes=1)(scores, members)
    return jnp.matmul(won, members, precision=jax.lax.Precision.HIGHEST), jnp.sum(members, axis=0)


def log_odds(scores: jax.Array) -> jax.Array:
    """log p_c / (1 - p_c), p the softmax of `scores: (n, k)`: the same for equal probabilities."""
    # In the order of their values, sums are the same whatever the order of the classes.
    ordered = jnp.sort(scores, axis=1)
    top, others = ordered[:, -1:], ordered[:, :-1]
    rest = jax.nn.logsumexp(others, axis=1, keepdims=True)
    whole = jnp.logaddexp(top, rest)
    chance = jnp.exp(scores - whole)
    known = scores - whole - jnp.log1p(-jnp.where(scores == top, 0, chance))
    return jnp.where(scores == top, top - rest, known)

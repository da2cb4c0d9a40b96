"""Probabilities in bins, and how often what they are of has occurred there.

Shapes: `n` examples, `k` classes, `b` bins.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlin._base import _codes
from jaxlin._scores import _judged
from jaxlin._scores._judged import Judged

Bins = Callable[..., jax.Array]
# Units of rounding within which a share of the weight is one that a bin is to end at.
ULPS = 8


class Binned(NamedTuple):
    """What is in each bin.

    predicted, observed: `(b,)`, means; 0 where it is empty
    weight: `(b,)`, in units of the largest of a row
    """

    predicted: jax.Array
    observed: jax.Array
    weight: jax.Array


def binned(p: jax.Array, hit: jax.Array, rows: Judged, bins: Bins, num_bins: int) -> Binned:
    """The rows by `bins(p, num_bins=, sample_weight=)`, their means of `p` and of `hit (n,)`."""
    weight = _judged.scaled(rows.weight)
    place = bins(p, num_bins=num_bins, sample_weight=weight)
    each = jnp.stack([weight, weight * p, weight * hit.astype(p.dtype)])
    total, *sums = jnp.zeros((3, num_bins), p.dtype).at[:, place].add(each)
    predicted, observed = (a / jnp.where(total > 0, total, 1) for a in sums)
    return Binned(predicted, observed, total)


def confidence(rows: Judged) -> tuple[jax.Array, jax.Array]:
    """The probability `(n,)` of class 1, or of the class predicted of several; and if it was so."""
    if rows.scores.ndim == 1:
        return jax.nn.sigmoid(rows.scores), rows.y > 0
    best = jnp.max(jax.nn.softmax(rows.scores, axis=1), axis=1)
    return best, _judged.predicted(rows.scores) == rows.y


def chances(rows: Judged) -> tuple[jax.Array, jax.Array]:
    """The probability `(k, n)` of each class, of class 1 alone for `(n,)`, and whether it is so."""
    if rows.scores.ndim == 1:
        return jax.nn.sigmoid(rows.scores)[None, :], (rows.y > 0)[None, :]
    k = rows.scores.shape[1]
    return jax.nn.softmax(rows.scores, axis=1).T, _codes.members(rows.y, k).T


def by_width(p: jax.Array, num_bins: int) -> jax.Array:
    return _beyond(p, jnp.linspace(0, 1, num_bins + 1, dtype=p.dtype)[1:-1])


def by_mass(p: jax.Array, weight: jax.Array, num_bins: int) -> jax.Array:
    values, weight = jax.lax.sort_key_val(p, weight)
    part = jnp.cumsum(weight)
    ends = jnp.arange(1, num_bins, dtype=p.dtype) / num_bins - ULPS * jnp.finfo(p.dtype).eps
    return _beyond(p, values[jnp.sum(part[None, :-1] < ends[:, None] * part[-1], axis=1)])


def _beyond(p: jax.Array, edges: jax.Array) -> jax.Array:
    """How many of the edges each is beyond."""
    return jnp.sum(p[:, None] > edges[None, :], axis=1, dtype=jnp.int32)

"""Closed forms of many labellings of the same rows: what a permutation test fits again and again.

Labels move no row, so the total scatter T of the rows is factored once for all labellings, and of
each only the class sums are taken, which for many together are one product with x. T is what the
normal equations of least squares hold; the scatter within classes, of LDA, is T less a matrix of
rank k - 1, by Woodbury's formula (Treder 2018, "Cross-validation in high-dimensional spaces: a
lifeline for least-squares models and multi-class LDA").

A fit offers this in a line of `OFFERS`. Shapes: `n` rows, `d` features, `k` classes.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlin import _checks, _rows
from jaxlin._linalg import dot

# Of x, which is held centred and in the working dtype beside itself.
MOST_ENTRIES = 4_000_000
# The variance of the rows is at least this part of the square that it is a difference from.
LEAST_SPREAD = 1 / 16


class Still(NamedTuple):
    """What the labels of some rows do not change.

    weight: `(n,)`, sum one
    total: `()`, the sum of the weights as given
    mean: `(d,)`, of the rows; `origin (d,)`, the point that they are held about
    scatter: `(d, d)`, of all rows about their mean
    sound: `()` bool, whether the data are valid, and the scatter more than rounding
    """

    weight: jax.Array
    total: jax.Array
    mean: jax.Array
    origin: jax.Array
    scatter: jax.Array
    sound: jax.Array


class Sums(NamedTuple):
    """What a labelling adds: of each class its part of the weight, its rows, and its sum.

    share: `(k,)`; rows: `(k,)`, how many have weight
    moved: `(k, d)`, the weighted sum of its rows, about the mean of all
    """

    share: jax.Array
    rows: jax.Array
    moved: jax.Array


class Offer(NamedTuple):
    """How a fit is done for many labellings.

    factors: `(still, k, **options) -> factors`, once for all
    fit: `(still, factors, sums, **options) -> (params, sound)`; where not sound, fit as usual
    options: the names that it understands, none of them with a function as value
    """

    factors: Callable[..., Any]
    fit: Callable[..., tuple[Any, jax.Array]]
    options: frozenset[str]


OFFERS: dict[Callable, Offer] = {}


def offered(fit: Callable, x: jax.Array, options: dict[str, Any]) -> Offer | None:
    """How the fit is done for many labellings, if it is."""
    offer = OFFERS.get(fit)
    if offer is None or not offer.options >= options.keys() or x.size > MOST_ENTRIES:
        return None
    return None if any(callable(value) for value in options.values()) else offer


def centred(x: jax.Array, y: jax.Array, sample_weight: Any, k: int) -> tuple[jax.Array, jax.Array]:
    """The rows about their mean, 0 where they may not be felt, and the mean."""
    rows, *_ = _rows.prepare(_checks.table(x, y, sample_weight=sample_weight), num_classes=k)
    clean = _rows.clean(rows).x
    origin = dot(rows.weight, clean)
    return jnp.where(rows.ok[:, None], clean - origin[None, :], 0), origin


def still(
    held: jax.Array, origin: jax.Array, x: jax.Array, y: jax.Array, weight: jax.Array, k: int
) -> Still:
    """What the labels do not change, of the rows `held` about `origin`, in these weights."""
    table = _checks.table(x, y, sample_weight=weight)
    rows, total, valid = _rows.prepare(table, num_classes=k)
    mean = dot(rows.weight, held)
    square = dot((held * rows.weight[:, None]).T, held)
    scatter = square - mean[:, None] * mean[None, :]
    apart = jnp.diagonal(scatter) >= LEAST_SPREAD * jnp.diagonal(square)
    return Still(rows.weight, total, mean, origin, scatter, valid & jnp.all(apart))


def sums(at: Still, held: jax.Array, y: jax.Array, k: int) -> Sums:
    """What the labelling `y (n,)` adds."""
    inside = y[None, :] == jnp.arange(k, dtype=y.dtype)[:, None]
    member = jnp.where(inside, at.weight[None, :], 0)
    share = jnp.sum(member, axis=1)
    moved = dot(member[:-1], held) - share[:-1, None] * at.mean[None, :]
    # About the mean of all rows they sum to 0.
    moved = jnp.concatenate([moved, -jnp.sum(moved, axis=0, keepdims=True)])
    return Sums(share, jnp.sum(member > 0, axis=1, dtype=jnp.int32), moved)

"""Closed forms of many fits to the same rows, which labels or weights tell apart.

Labels move no row, so the total scatter T of the rows is factored once for all labellings, and of
each only the class sums are taken, which for many together are one product with x. T is what the
normal equations of least squares hold; the scatter within classes, of LDA, is T less a matrix of
rank k - 1, by Woodbury's formula (Treder 2018, "Cross-validation in high-dimensional spaces: a
lifeline for least-squares models and multi-class LDA").

Weights do change the scatter, but as sums of the same products of columns, so that the statistics
of folds or draws are one product of all their weights with those.

A fit declares its `Offer` in `_traits`. Shapes: `n` rows, `d` features, `k` classes.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin._base import _checks, _codes, _traits
from jaxlin._data import _prepare, _rows
from jaxlin._linalg import dot
from jaxlin._moments import _scatter
from jaxlin.types import Info, Status

# Of x, or of the products of its columns, which are held in the working dtype beside it.
MOST_ENTRIES = 4_000_000
# A variance is at least this part of the square that it is a difference from.
LEAST_SPREAD = 1 / 16


class Offer(NamedTuple):
    """How a fit is done for many labellings, or weights, or both. Where not sound, fit as usual.

    options: the names that it understands
    factors: `(still, held, k, **options) -> factors`, once for all labellings
    relabelled: `(still, held, factors, sums, **options) -> (params, objective, sound)`
    reweighed: `(scatter, valid, source, **options) -> (params, info, sound)`
    per_class: whether that takes a scatter per class
    functions: those that may be the value of an option, for many labellings
    late: options whose number `relabelled` asks for, and `factors` at most how large it is
    """

    options: frozenset[str]
    factors: Callable[..., Any] | None
    relabelled: Callable[..., tuple[Any, jax.Array, jax.Array]] | None
    reweighed: Callable[..., tuple[Any, Any, jax.Array]]
    per_class: bool = False
    functions: frozenset[Callable[..., Any]] = frozenset()
    late: frozenset[str] = frozenset()


def offered(
    fit: Callable, options: dict[str, Any], *, labels: bool
) -> tuple[Offer, dict[str, Any]] | None:
    """How the fit is done with these options for many, if it is, and all options that it has.

    For many `labels`, or else for many weights. Options of a `functools.partial` count too, where
    they go by name.
    """
    fit, options = _traits.bare(fit, options)
    offer = _traits.of(fit).many
    if offer is None or not offer.options >= options.keys():
        return None
    given = {value for value in options.values() if callable(value)}
    if (labels and offer.factors is None) or not given <= (offer.functions if labels else set()):
        return None
    return offer, options


def settled(info: Info) -> jax.Array:
    """Whether products alone settle it: rows are looked at where columns depend on each other."""
    status = info.status
    dependent = (status >= Status.QUASI_SEPARABLE) & (status <= Status.SEPARABLE)
    return (status != Status.RANK_DEFICIENT) & ~dependent


# --- other labels --------------------------------------------------------------------------------


class Still(NamedTuple):
    """What the labels of some rows do not change.

    weight: `(n,)`, sum one
    total: `()`, the sum of the weights as given
    mean: `(d,)`, of the rows; `origin (d,)`, the point that they are held about
    unit: `(d,)`, what columns are multiplied with first, see `_scatter`
    scatter: `(d, d)`, of all rows about their mean
    sound: `()` bool, whether the data are valid, and the scatter more than rounding
    """

    weight: jax.Array
    total: jax.Array
    mean: jax.Array
    origin: jax.Array
    unit: jax.Array
    scatter: jax.Array
    sound: jax.Array


class Sums(NamedTuple):
    """What a labelling adds: of each class its part of the weight, its rows, and its sum.

    share: `(k,)`; rows: `(k,)`, how many have weight
    moved: `(k, d)`, the weighted sum of its rows, about the mean of all
    member: `(k, n)`, the weights of its rows, 0 of the others
    """

    share: jax.Array
    rows: jax.Array
    moved: jax.Array
    member: jax.Array


class Held(NamedTuple):
    """Rows in `unit (d,)` about `origin (d,)`: `x (n, d)`, 0 where they may not be felt."""

    x: jax.Array
    origin: jax.Array
    unit: jax.Array


def centred(x: jax.Array, y: jax.Array, seen: jax.Array, k: int) -> Held:
    """The rows about the mean of those `seen (n,)`."""
    rows = _felt(x, y, seen, k)
    clean = _rows.clean(rows).x
    origin = dot(rows.weight, clean) / jnp.maximum(jnp.sum(rows.weight), 1)
    return Held(jnp.where(rows.ok[:, None], clean - origin[None, :], 0), origin, rows.unit)


def _felt(x: jax.Array, y: jax.Array, seen: jax.Array, k: int) -> _rows.Rows:
    """The rows in units, of weight 1 where they are seen and hold what may be."""
    rows, *_ = _prepare.prepare(_checks.table(x, y), num_classes=k)
    return _scatter.in_units(rows._replace(weight=(rows.ok & seen).astype(rows.weight.dtype)))


def _apart(left: jax.Array, before: jax.Array) -> jax.Array:
    """Whether variances keep their digits as differences from squares, and as numbers.

    In units of all rows they may be small where a few have weight.
    """
    limits = jnp.finfo(left.dtype)
    lost = (before > 0) & (before < float(limits.tiny / limits.eps))
    return jnp.all((left >= LEAST_SPREAD * before) & ~lost)


def still(held: Held, x: jax.Array, y: jax.Array, weight: jax.Array, k: int) -> Still:
    """What the labels do not change, in these weights."""
    table = _checks.table(x, y, sample_weight=weight)
    rows, total, valid = _prepare.prepare(table, num_classes=k)
    mean = dot(rows.weight, held.x)
    square = dot((held.x * rows.weight[:, None]).T, held.x)
    scatter = square - mean[:, None] * mean[None, :]
    scatter = (scatter + scatter.T) / 2  # products round apart above and below the diagonal
    sound = valid & _apart(jnp.diagonal(scatter), jnp.diagonal(square))
    return Still(rows.weight, total, mean, held.origin, held.unit, scatter, sound)


def sums(at: Still, held: Held, y: jax.Array, k: int) -> Sums:
    """What the labelling `y (n,)` adds."""
    member = jnp.where(_codes.members(y, k).T, at.weight[None, :], 0)
    share = jnp.sum(member, axis=1)
    moved = dot(member[:-1], held.x) - share[:-1, None] * at.mean[None, :]
    # About the mean of all rows they sum to 0.
    moved = jnp.concatenate([moved, -jnp.sum(moved, axis=0, keepdims=True)])
    return Sums(share, jnp.sum(member > 0, axis=1, dtype=jnp.int32), moved, member)


# --- other weights -------------------------------------------------------------------------------


class Shared(NamedTuple):
    """What the weights of some rows do not change.

    unit: `(d,)`, what columns are multiplied with first
    origin: `(d,)`, one of the rows; near `(k, d)`, a point near each class, less it
    apart: `(n, d)`, each row less its class's point; pairs: the products of its columns, `(n, r)`
    member: `(n, k)`, 1 in the column of its class
    """

    unit: jax.Array
    origin: jax.Array
    near: jax.Array
    apart: jax.Array
    pairs: jax.Array
    member: jax.Array


def fits_in(x: jax.Array) -> bool:
    """Whether the products of the columns may be held."""
    n, d = x.shape
    return n * d * (d + 1) // 2 <= MOST_ENTRIES


def shared(x: jax.Array, y: jax.Array, seen: jax.Array, k: int) -> Shared:
    """What no weights change, if only rows `seen (n,)` have some."""
    rows = _felt(x, y, seen, k)
    clean, ok = _rows.clean(rows).x, rows.ok[:, None]
    # Differences from a row are exactly 0 where a column holds one value.
    origin = jax.lax.stop_gradient(clean[jnp.argmax(rows.weight)])
    apart = jnp.where(ok, clean - origin[None, :], 0)
    inside = rows.y[:, None] == jnp.arange(k, dtype=rows.y.dtype)[None, :]
    member = (inside & ok).astype(clean.dtype)
    part = member * rows.weight[:, None]
    size = jnp.sum(part, axis=0)[:, None]
    near = jax.lax.stop_gradient(dot(part.T, apart) / jnp.where(size > 0, size, 1))
    apart = jnp.where(ok, apart - near[rows.y], 0)
    first, second = np.triu_indices(x.shape[1])
    return Shared(rows.unit, origin, near, apart, apart[:, first] * apart[:, second], member)


def scatter_of(
    at: Shared, x: jax.Array, y: jax.Array, weight: jax.Array, per_class: bool
) -> tuple[_scatter.Scatter, jax.Array, jax.Array, jax.Array]:
    """The statistics in these weights, divided by their sum.

    Returns:
      `(scatter, total, valid, sound)`: also the sum, whether the data are valid, and whether the
      scatter is more than rounding.
    """
    k, d = at.near.shape
    rows, total, valid = _prepare.prepare(_checks.table(x, y, sample_weight=weight), num_classes=k)
    member = at.member * rows.weight[:, None]
    sums = jnp.concatenate([dot(member.T, at.apart), jnp.sum(member, axis=0)[:, None]], axis=1)
    pairs = dot(member.T, at.pairs) if per_class else dot(rows.weight, at.pairs)
    first, second = np.triu_indices(d)
    index = np.zeros((d, d), int)
    index[first, second] = index[second, first] = np.arange(first.size)
    count = jnp.sum(member > 0, axis=0, dtype=jnp.int32)
    each = pairs[..., index]
    found = _scatter.about(at.origin[None, :] + at.near, (each, sums, count), at.unit)
    left, before = (jnp.diagonal(a, axis1=-2, axis2=-1) for a in (found.scatter, each))
    return found, total, valid, _apart(left, before)

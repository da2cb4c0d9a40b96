"""Class weights, means and scatter in one pass: what every closed form is made of.

Parts are centred where they are made and merged by Chan, Golub and LeVeque's formula (1983), so
that data at 1e8 keep the digits they have. Means are kept as an offset from a centre near the
data, whose difference from any other part's centre is exact. Shapes: `n` rows, `d` features, `k`
classes.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlin import _rows
from jaxlin._linalg import dot


class Scatter(NamedTuple):
    """Statistics of some rows.

    weight: `(k,)`, the sum of the weights of each class
    rows: `(k,)`, the number of its rows with weight
    centre: `(d,)`, a point near the rows
    offset: `(k, d)`, mean of the class less the centre; 0 without weight
    scatter: `(d, d)`, or per class `(k, d, d)`: weighted products of deviations from class means
    """

    weight: jax.Array
    rows: jax.Array
    centre: jax.Array
    offset: jax.Array
    scatter: jax.Array


def of_rows(rows: _rows.Rows, k: int, *, per_class: bool) -> Scatter:
    """The statistics of prepared rows, whose weights sum to one."""
    classes = jnp.arange(k, dtype=rows.y.dtype)

    def part(block):
        # By what a row holds, not by its weight, whose derivative is wanted at 0 too.
        inside = (block.y[:, None] == classes[None, :]) & block.ok[:, None]
        return _part(block.x, inside, block.weight, per_class), ()

    return _merge(part, rows)


def _merge(part, rows):
    # Products of more rows use the cores better; but no more than a part of x's own size.
    n, d = rows.x.shape
    entries = max(_rows.BLOCK_ENTRIES, min(4 * _rows.BLOCK_ENTRIES, n * d // 32))
    return _rows.merge(part, lambda a, b: (combine(a[0], b[0]), ()), rows, entries=entries)[0]


def of_columns(rows: _rows.Rows) -> Scatter:
    """The statistics of x with the targets y as one more column, all rows as one class."""

    def part(block):
        columns = jnp.concatenate([block.x, block.y[:, None]], axis=1)
        return _part(columns, block.ok[:, None], block.weight, per_class=False), ()

    return _merge(part, rows)


def of_moments(moments: Any, *kinds: type) -> Scatter:
    """The statistics that moments hold, about a centre near them; a TypeError for other kinds."""
    if kinds and not isinstance(moments, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"moments: expected {names}, got {type(moments).__name__}")
    return _centred(*moments)


@jax.jit
def _centred(weight, rows, mean, scatter):
    total = jnp.sum(weight)
    share = weight / jnp.where(total > 0, total, 1)
    centre = jax.lax.stop_gradient(dot(share, mean))
    offset = jnp.where((rows > 0)[:, None], mean - centre[None, :], 0)
    return Scatter(weight, rows, centre, offset, scatter)


def _part(x: jax.Array, inside: jax.Array, weight: jax.Array, per_class: bool) -> Scatter:
    member = jnp.where(inside, weight[:, None], 0)
    sizes = jnp.sum(member, axis=0)
    total = jnp.sum(sizes)
    # Where it is cut off from the weights' derivative, any centre is as good as another.
    centre = jax.lax.stop_gradient(dot(weight, x) / jnp.where(total > 0, total, 1))
    z = jnp.where(jnp.any(inside, axis=1)[:, None], x - centre[None, :], 0)
    offset = dot(member.T, z) / jnp.where(sizes > 0, sizes, 1)[:, None]
    z = z - dot(inside.astype(x.dtype), offset)
    if not per_class:
        scatter = dot((z * weight[:, None]).T, z)
    else:
        n, d = x.shape
        each = (member[:, :, None] * z[:, None, :]).reshape(n, -1)
        scatter = dot(each.T, z).reshape(-1, d, d)
    present = inside & (weight > 0)[:, None]
    return Scatter(sizes, jnp.sum(present, axis=0, dtype=jnp.int32), centre, offset, scatter)


def combine(a: Scatter, b: Scatter) -> Scatter:
    """The statistics of both together; either may be empty."""
    weight = a.weight + b.weight
    centre = jnp.where(jnp.any(a.rows > 0), a.centre, b.centre)
    moved = jnp.where((b.rows > 0)[:, None], b.offset + (b.centre - centre)[None, :], 0)
    apart = jnp.where((a.rows > 0)[:, None], moved - a.offset, moved)
    share = b.weight / jnp.where(weight > 0, weight, 1)
    offset = a.offset + share[:, None] * apart
    return Scatter(
        weight=weight,
        rows=a.rows + b.rows,
        centre=centre,
        offset=offset,
        scatter=a.scatter + b.scatter + _spread(a.weight * share, apart, a.scatter.ndim == 3),
    )


def remove(whole: Scatter, part: Scatter) -> Scatter:
    """The statistics of what is left of `whole` without `part`."""
    weight = jnp.maximum(whole.weight - part.weight, 0)
    rows = whole.rows - part.rows
    left = (rows > 0)[:, None]
    moved = part.offset + (part.centre - whole.centre)[None, :]
    share = part.weight / jnp.where(weight > 0, weight, 1)
    apart = jnp.where(left & (part.rows > 0)[:, None], whole.offset - moved, 0)
    offset = jnp.where(left, whole.offset + share[:, None] * apart, 0)
    # The rest lies at `apart * (1 + share)` from the part.
    lost = _spread(part.weight * (1 + share), apart, whole.scatter.ndim == 3)
    return Scatter(
        weight=jnp.where(rows > 0, weight, 0),
        rows=rows,
        centre=whole.centre,
        offset=offset,
        scatter=whole.scatter - part.scatter - lost,
    )


def tied(s: Scatter) -> Scatter:
    """The classes' scatter added up."""
    return s if s.scatter.ndim == 2 else s._replace(scatter=jnp.sum(s.scatter, axis=0))


def mean(s: Scatter) -> jax.Array:
    """The mean of all rows, less the centre."""
    total = jnp.sum(s.weight)
    return dot(s.weight, s.offset) / jnp.where(total > 0, total, 1)


def total(s: Scatter) -> jax.Array:
    """The scatter of all rows about their common mean, `(d, d)`."""
    return tied(s).scatter + _spread(s.weight, s.offset - mean(s)[None, :], False)


def means(s: Scatter) -> jax.Array:
    """The class means, `(k, d)`; 0 without weight."""
    return jnp.where((s.rows > 0)[:, None], s.centre[None, :] + s.offset, 0)


def _spread(weight: jax.Array, vectors: jax.Array, per_class: bool) -> jax.Array:
    """The weighted outer products of vectors, `(k, d, d)`, or their sum."""
    if per_class:
        return weight[:, None, None] * vectors[:, :, None] * vectors[:, None, :]
    return dot((weight[:, None] * vectors).T, vectors)

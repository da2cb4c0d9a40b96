"""Statistics of each class, column by column: means, and squares about them."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlin._base import _mesh
from jaxlin._data import _entries, _fold, _rows
from jaxlin._linalg import dot
from jaxlin._moments import _scatter


class Columns(NamedTuple):
    """Of rows in the user's units: as `moments.ColumnMoments`.

    weight: `(k,)`, the sum of the weights of each class
    rows: `(k,)`, the number of its rows with weight
    mean, scatter: `(k, d)`, and the weighted squares of what is left; 0 without weight
    """

    weight: jax.Array
    rows: jax.Array
    mean: jax.Array
    scatter: jax.Array


def of_rows(rows: _rows.Rows, k: int, total: jax.Array) -> _scatter.Scatter:
    """In the rows' units, weights of this sum, the scatter `(k, d)`.

    In two passes, the second about the means, so that of a column of one value nothing is left
    but 0.
    """
    near = _one_of_each(rows, k)

    def sums(block):
        z = jnp.where(block.ok[:, None], block.x - near[block.y], 0)
        member = _scatter.members(block, k)
        return (dot(member.T, z), jnp.sum(member, axis=0), _scatter.rows_with(member)), ()

    (moved, weight, count), _ = _fold.fold(sums, rows)
    moved = moved / jnp.where(weight > 0, weight, 1)[:, None]
    mean = near + moved

    def squares(block):
        z = jnp.where(block.ok[:, None], (block.x - near[block.y]) - moved[block.y], 0)
        return dot(_scatter.members(block, k).T, z * z), ()

    scatter, _ = _fold.fold(squares, rows)
    centre = jax.lax.stop_gradient(dot(weight, near) / jnp.where(total > 0, jnp.sum(weight), 1))
    offset = jnp.where((count > 0)[:, None], mean - centre[None, :], 0)
    return _scatter.Scatter(weight * total, count, centre, offset, scatter * total, rows.unit)


def of_table(rows: _rows.Rows, k: int, total: jax.Array) -> Columns:
    """The means of a table whose zeros are not held, weights of this sum; no scatter."""

    def sums(block):
        member = _scatter.members(block, k)
        held = _entries.along(member.T, block.entries)
        return (held, jnp.sum(member, axis=0), _scatter.rows_with(member)), ()

    (held, weight, count), _ = _fold.fold(sums, rows, _rows.pass_entries(rows.x))
    mean = held / jnp.where(weight > 0, weight, 1)[:, None]
    return Columns(weight * total, count, mean, jnp.zeros_like(mean))


def in_users_units(s: _scatter.Scatter) -> tuple[Columns, jax.Array]:
    """Of the statistics of `of_rows`; and whether the dtype holds the digits of the scatter."""
    scatter = s.scatter / s.unit[None, :] / s.unit[None, :]
    least = float(jnp.finfo(scatter.dtype).tiny)
    held = jnp.isfinite(scatter) & ((s.scatter == 0) | (scatter >= least))
    return Columns(s.weight, s.rows, _scatter.given_means(s), scatter), jnp.all(held)


def combine(a: Columns, b: Columns) -> Columns:
    """The statistics of both together; either may be empty."""
    weight = a.weight + b.weight
    share = b.weight / jnp.where(weight > 0, weight, 1)
    both = (a.rows > 0) & (b.rows > 0)
    apart = jnp.where(both[:, None], b.mean - a.mean, 0)
    mean = jnp.where((a.rows > 0)[:, None], a.mean + share[:, None] * apart, b.mean)
    between = (a.weight * share)[:, None] * apart**2
    return Columns(weight, a.rows + b.rows, mean, a.scatter + b.scatter + between)


def remove(whole: Columns, part: Columns) -> Columns:
    """The statistics of what is left of `whole` without `part`."""
    rows = whole.rows - part.rows
    left = (rows > 0)[:, None]
    weight = jnp.where(rows > 0, jnp.maximum(whole.weight - part.weight, 0), 0)
    share = part.weight / jnp.where(weight > 0, weight, 1)
    apart = jnp.where(left & (part.rows > 0)[:, None], whole.mean - part.mean, 0)
    mean = jnp.where(left, whole.mean + share[:, None] * apart, 0)
    # The rest lies at `apart * (1 + share)` from the part.
    between = (part.weight * (1 + share))[:, None] * apart**2
    scatter = jnp.where(left, jnp.maximum(whole.scatter - part.scatter - between, 0), 0)
    return Columns(weight, rows, mean, scatter)


def _one_of_each(rows: _rows.Rows, k: int) -> jax.Array:
    """A row of each class, `(k, d)`, or 0: any will do, and equal numbers less it are 0."""
    whole = _scatter.members(rows, k)
    here = jnp.any(whole > 0, axis=0).astype(whole.dtype)
    one = _rows.clean(_rows.take(rows, jnp.argmax(whole, axis=0))).x * here[:, None]
    (here, one), _ = _mesh.across((here, one), (), rows.axis)
    return jax.lax.stop_gradient(one / jnp.where(here > 0, here, 1)[:, None])

"""Class weights, means and scatter in one pass: what every closed form is made of.

Products are taken about a point near each class, and merged by Chan, Golub and LeVeque's formula
(1983), so that data at 1e8 keep the digits they have. Means are kept as an offset from a centre
near the data, whose difference from any other part's centre is exact. `_statistics` has the same of
data whose rows count the same, in less time.

Products of columns leave the range of a dtype long before the columns do. So each column is taken
times a power of two, its unit, which makes its entries about 1 and changes no digit; all that is
made of the statistics is in these units, and only what is handed out is turned back.
Shapes: `n` rows, `d` features, `k` classes.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _checks, _mesh, _platform
from jaxlin._data import _fold, _rows
from jaxlin._linalg import dot

# Rows whose means the statistics are taken about.
SAMPLE_ROWS = 2048
# Deviations below this many units of eps of what they are of may be rounding: the rows are looked
# at. Sums of 100,000 equal numbers are off by hundreds.
DOUBTFUL_ULPS = 1024
# Means of equal numbers that differ by no more than this many are one number.
MEAN_ULPS = 16
# Numbers that differ by no more than this many are one number.
EQUAL_ULPS = 2
# Rows in a block of one class, at least: below this a block is mostly overhead.
MIN_CLASS_BLOCK = 64


class Scatter(NamedTuple):
    """Statistics of some rows, their columns in units.

    weight: `(k,)`, the sum of the weights of each class
    rows: `(k,)`, the number of its rows with weight
    centre: `(d,)`, a point near the rows
    offset: `(k, d)`, mean of the class less the centre; 0 without weight
    scatter: `(d, d)`, or per class `(k, d, d)`: weighted products of deviations from class means
    unit: `(d,)`, powers of two: what each column has been multiplied with
    """

    weight: jax.Array
    rows: jax.Array
    centre: jax.Array
    offset: jax.Array
    scatter: jax.Array
    unit: jax.Array


def unit_of(size: jax.Array) -> jax.Array:
    """The power of two that makes of `size (d,)`, not negative, one near 1; of 0 the largest.

    Bounded, so that a row without weight cannot overflow in the units of those with.
    """
    most = _checks.safe_range(size.dtype)
    power = jnp.minimum(1 / _linalg.power_of_two(size), most)
    return jax.lax.stop_gradient(jnp.where(size > 0, power, most))


def in_units(rows: _rows.Rows) -> _rows.Rows:
    """The rows, each column times the power of two that makes of its mean size about 1."""

    def size(block):
        return dot(block.weight, jnp.abs(block.x)), ()

    bare = jax.lax.stop_gradient(rows._replace(offset=None))
    return rows._replace(unit=unit_of(_fold.fold(size, bare)[0]))


def in_own_units(s: Scatter) -> Scatter:
    """The statistics in units that they tell themselves, those of their means and spreads."""
    total = jnp.sum(s.weight)
    spread = jnp.sqrt(jnp.diagonal(s.scatter, axis1=-2, axis2=-1) / jnp.where(total > 0, total, 1))
    return rescaled(s, unit_of(jnp.maximum(jnp.max(_size(s), axis=0), _over_classes(spread))))


def _over_classes(a: jax.Array) -> jax.Array:
    return jnp.max(a, axis=0) if a.ndim == 2 else a


def rescaled(s: Scatter, by: jax.Array) -> Scatter:
    """The same statistics, in units that are `by (d,)`, powers of two, times as large."""
    return s._replace(
        centre=s.centre * by,
        offset=s.offset * by[None, :],
        scatter=_linalg.on_both_sides(s.scatter, by),
        unit=s.unit * by,
    )


def of_rows(rows: _rows.Rows, k: int, *, per_class: bool) -> Scatter:
    """The statistics of prepared rows, whose weights sum to one."""
    return without_rounding(_of_rows(rows, k, per_class), rows, lambda block: block.x)


def _of_rows(rows: _rows.Rows, k: int, per_class: bool) -> Scatter:
    n, d = rows.x.shape
    entries = block_entries(n, d)
    size = _rows.block_rows(d, entries)
    if n < 2 * size and rows.axis.name is None:
        return _at_once(rows, k, per_class)
    near = points_near(rows, k)
    if per_class:
        return about(near, of_each_class(rows, near), rows.unit)

    def sums(block):
        z = jnp.where(block.ok[:, None], block.x - near[block.y], 0)
        member = members(block, k)
        left = jnp.concatenate([z * block.weight[:, None], member], axis=1)
        return (dot(left.T, _with_one(z)), rows_with(member)), ()

    (products, count), _ = _fold.fold(sums, rows, entries)
    return about(near, (products[:d, :d], products[d:], count), rows.unit)


def without_rounding(
    s: Scatter, rows: _rows.Rows, columns: Callable[[_rows.Rows], jax.Array]
) -> Scatter:
    """The same, of columns that hold one value in each class, whatever rounding made of that.

    Their scatter is 0, and their means are the values.
    """
    eps = float(jnp.finfo(s.scatter.dtype).eps)
    level = _level(s, DOUBTFUL_ULPS)
    level = level if s.scatter.ndim == 3 else jnp.sum(level, axis=0)
    left = jnp.diagonal(s.scatter, axis1=-2, axis2=-1)
    doubtful = (left <= level) & (left != 0)

    def constant(rows):
        def ends(block):
            values = columns(block)
            both = jnp.stack([values, -values], axis=1)
            own = block.y if len(s.rows) > 1 else jnp.zeros(block.y.shape, jnp.int32)
            return (), largest_of_each_class(both, block.weight, own, len(s.rows))

        _, ends_of_all = _fold.fold(ends, rows, _rows.BLOCK_ENTRIES // 4)
        most, less = ends_of_all[:, 0], ends_of_all[:, 1]
        same = most + less <= EQUAL_ULPS * eps * jnp.maximum(jnp.abs(most), jnp.abs(less))
        same |= (s.rows == 0)[:, None]
        return same if s.scatter.ndim == 3 else jnp.all(same, axis=0), most

    bare = jax.lax.stop_gradient(rows._replace(offset=None))
    nothing = jnp.zeros_like(doubtful), jnp.zeros_like(s.offset)
    same, value = _linalg.when(jnp.any(doubtful), constant, nothing, (bare,))
    flat = doubtful & same
    here = jnp.broadcast_to(flat, s.offset.shape) & (s.rows > 0)[:, None]
    rounded = jnp.where(here, s.offset - (value - s.centre[None, :]), 0)
    offset = s.offset - jax.lax.stop_gradient(rounded)
    return s._replace(offset=offset, scatter=_without(s.scatter, flat))


def largest_of_each_class(values: jax.Array, weight: jax.Array, y: jax.Array, k: int) -> jax.Array:
    """The largest `(k, ...)` of values `(rows, ...)` over the rows of each class with weight."""
    seen = (weight > 0).reshape((-1,) + (1,) * (values.ndim - 1))
    return jax.ops.segment_max(jnp.where(seen, values, -jnp.inf), y, num_segments=k)


def _level(s: Scatter, ulps: float) -> jax.Array:
    """What of each class's scatter `(k, d)` rounding of so many ulps may be."""
    eps = float(jnp.finfo(s.scatter.dtype).eps)
    return s.weight[:, None] * (ulps * eps * _size(s)) ** 2


def _size(s: Scatter) -> jax.Array:
    """What the means are rounded by, `(k, d)`."""
    return jnp.abs(s.centre)[None, :] + jnp.abs(s.offset)


@jax.custom_jvp
def _without(scatter: jax.Array, flat: jax.Array) -> jax.Array:
    """0 in the rows and columns of a scatter that are `flat`, and its derivatives as they are."""
    return jnp.where(flat[..., :, None] | flat[..., None, :], 0, scatter)


@_without.defjvp
def _(primals, tangents):
    return _without(*primals), tangents[0]


def _at_once(rows, k, per_class):
    """The statistics of rows of one block: class means first, then products about them."""
    (_, d), ok = rows.x.shape, rows.ok[:, None]
    x = _rows.clean(rows).x
    # Any row will do, and differences from it are exact where it matters.
    centre = jax.lax.stop_gradient(x[jnp.argmax(rows.weight)])
    z = jnp.where(ok, x - centre[None, :], 0)
    member = members(rows, k)
    weight = jnp.sum(member, axis=0)
    offset = dot(member.T, z) / jnp.where(weight > 0, weight, 1)[:, None]
    z = jnp.where(ok, z - offset[rows.y], 0)
    if per_class:
        each = (member[:, :, None] * z[:, None, :]).reshape(len(z), -1)
        scatter = dot(each.T, z).reshape(k, d, d)
    else:
        scatter = dot((z * rows.weight[:, None]).T, z)
    return Scatter(weight, rows_with(member), centre, offset, scatter, rows.unit)


def of_columns(rows: _rows.Rows) -> Scatter:
    """The statistics of x with the targets y as one more column, all rows as one class."""
    own = unit_of(_mesh.sum_rows(rows.weight * jnp.abs(rows.y), rows.axis))
    rows = rows._replace(y=rows.y * own)
    one = rows._replace(y=jnp.zeros(rows.y.shape, jnp.int32))
    target = one._replace(x=rows.y[:, None], feature_mask=None, unit=None)
    near = jnp.concatenate([points_near(one, 1), points_near(target, 1)], axis=1)

    def columns(block):
        return jnp.concatenate([block.x, block.y[:, None]], axis=1)

    def sums(block):
        return _of_one_class(block, columns(block) - near), ()

    (products, count), _ = _fold.fold(sums, rows, block_entries(*rows.x.shape))
    unit = jnp.append(rows.unit, own)
    found = about(near, (products[:-1, :-1], products[-1:], count[None]), unit)
    return without_rounding(found, rows, columns)


def of_each_class(rows, near, equal=False):
    """What `about` takes, from blocks of one class each; rows that are `equal` count as one."""
    (n, d), k = rows.x.shape, len(near)
    size = _rows.block_rows(d, block_entries(n, d)) // 2

    def products(block, c):
        return _of_one_class(block, block.x - near[c][None, :], equal)

    most = max(n // k, MIN_CLASS_BLOCK)
    whole, count = _fold.fold_by_class(products, rows, k, min(size, most))
    return whole[:, :-1, :-1], whole[:, -1], count


def _of_one_class(block, z, equal=False):
    z = jnp.where(block.ok[:, None], _with_one(z), 0)
    left = z if equal else z * block.weight[:, None]
    return dot(left.T, z), rows_with(block.weight)


def _with_one(z: jax.Array) -> jax.Array:
    return jnp.concatenate([z, jnp.ones_like(z[:, :1])], axis=1)


def rows_with(weight: jax.Array) -> jax.Array:
    return jnp.sum(weight > 0, axis=0, dtype=jnp.int32)


def members(rows: _rows.Rows, k: int) -> jax.Array:
    """Each row's weight in the column of its class, `(rows, k)`."""
    # By what a row holds, not by its weight, whose derivative is wanted at 0 too.
    inside = (rows.y[:, None] == jnp.arange(k, dtype=rows.y.dtype)[None, :]) & rows.ok[:, None]
    return jnp.where(inside, rows.weight[:, None], 0)


def points_near(rows: _rows.Rows, k: int) -> jax.Array:
    """A point near each class, `(k, d)`: the mean of its rows in a sample, or one of its rows.

    Sums of products about a class's own mean, or near it, cancel nothing. Any point will do as far
    as derivatives go.
    """
    sample = _rows.clean(_rows.sample(rows, SAMPLE_ROWS))
    member = members(sample, k)
    # The sample may hold nothing of a small class.
    whole = members(rows, k)
    here = jnp.any(whole > 0, axis=0).astype(whole.dtype)
    one = _rows.clean(_rows.take(rows, jnp.argmax(whole, axis=0))).x * here[:, None]
    sums = jnp.sum(member, axis=0), dot(member.T, sample.x), here, one
    (size, own, here, one), _ = _mesh.across(sums, (), rows.axis)
    own = own / jnp.where(size > 0, size, 1)[:, None]
    one = one / jnp.where(here > 0, here, 1)[:, None]
    return jax.lax.stop_gradient(jnp.where((size > 0)[:, None], own, one))


def about(near, sums, unit) -> Scatter:
    """The statistics, from `(scatter, sums, count)` about `near`, all in these units.

    sums: `(k, d + 1)`, each class's sum of deviations from its point, and its weight
    """
    scatter, sums, count = sums
    weight = sums[:, -1]
    moved = sums[:, :-1] / jnp.where(weight > 0, weight, 1)[:, None]
    total = jax.lax.stop_gradient(jnp.sum(weight))
    share = jax.lax.stop_gradient(weight) / jnp.where(total > 0, total, 1)
    centre = dot(share, near)
    offset = jnp.where((count > 0)[:, None], (near - centre[None, :]) + moved, 0)
    return Scatter(
        weight=weight,
        rows=count,
        centre=centre,
        offset=offset,
        scatter=scatter - _spread(weight, moved, scatter.ndim == 3),
        unit=unit,
    )


def block_entries(n: int, d: int) -> int:
    """Entries of x in a block whose products are taken."""
    # Products of more rows use the cores better; but no more than a part of x's own size.
    return max(_rows.BLOCK_ENTRIES, min(2 * _rows.BLOCK_ENTRIES, n * d // 32))


def of_moments(moments: Any, *kinds: type) -> Scatter:
    """The statistics that moments hold, about a centre near them; a TypeError for other kinds."""
    if kinds and not isinstance(moments, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"moments: expected {names}, got {type(moments).__name__}")
    return _centred(*moments)


@_platform.jit
def _centred(weight, rows, mean, scatter):
    total = jnp.sum(weight)
    share = weight / jnp.where(total > 0, total, 1)
    centre = jax.lax.stop_gradient(dot(share, mean))
    offset = jnp.where((rows > 0)[:, None], mean - centre[None, :], 0)
    return in_own_units(Scatter(weight, rows, centre, offset, scatter, jnp.ones_like(centre)))


def _in_common_units(*both: Scatter) -> list[Scatter]:
    """In those of the part whose numbers are larger, column by column."""
    unit = functools.reduce(jnp.minimum, [s.unit for s in both])
    return [rescaled(s, unit / s.unit) for s in both]


def combine(a: Scatter, b: Scatter) -> Scatter:
    """The statistics of both together; either may be empty."""
    a, b = _in_common_units(a, b)
    weight = a.weight + b.weight
    centre = jnp.where(jnp.any(a.rows > 0), a.centre, b.centre)
    moved = jnp.where((b.rows > 0)[:, None], b.offset + (b.centre - centre)[None, :], 0)
    apart = jnp.where((a.rows > 0)[:, None], _told_apart(a, b, moved - a.offset), moved)
    share = b.weight / jnp.where(weight > 0, weight, 1)
    offset = a.offset + share[:, None] * apart
    return Scatter(
        weight=weight,
        rows=a.rows + b.rows,
        centre=centre,
        offset=offset,
        scatter=a.scatter + b.scatter + _spread(a.weight * share, apart, a.scatter.ndim == 3),
        unit=a.unit,
    )


def _told_apart(a: Scatter, b: Scatter, apart: jax.Array) -> jax.Array:
    """How far the means are `apart (k, d)`; 0 where both are of equal numbers that may be one."""
    eps = float(jnp.finfo(apart.dtype).eps)
    near = jnp.abs(apart) <= 2 * EQUAL_ULPS * eps * jnp.maximum(_size(a), _size(b))
    both = [jnp.diagonal(s.scatter, axis1=-2, axis2=-1) == 0 for s in (a, b)]
    flat = jnp.broadcast_to(both[0] & both[1], apart.shape)
    return apart - jax.lax.stop_gradient(jnp.where(near & flat, apart, 0))


def remove(whole: Scatter, part: Scatter) -> Scatter:
    """The statistics of what is left of `whole` without `part`."""
    whole, part = _in_common_units(whole, part)
    weight = jnp.maximum(whole.weight - part.weight, 0)
    rows = whole.rows - part.rows
    left = (rows > 0)[:, None]
    moved = part.offset + (part.centre - whole.centre)[None, :]
    share = part.weight / jnp.where(weight > 0, weight, 1)
    apart = _told_apart(whole, part, whole.offset - moved)
    apart = jnp.where(left & (part.rows > 0)[:, None], apart, 0)
    offset = jnp.where(left, whole.offset + share[:, None] * apart, 0)
    # The rest lies at `apart * (1 + share)` from the part.
    lost = _spread(part.weight * (1 + share), apart, whole.scatter.ndim == 3)
    return Scatter(
        weight=jnp.where(rows > 0, weight, 0),
        rows=rows,
        centre=whole.centre,
        offset=offset,
        scatter=whole.scatter - part.scatter - lost,
        unit=whole.unit,
    )


def tied(s: Scatter) -> Scatter:
    """The classes' scatter added up."""
    return s if s.scatter.ndim == 2 else s._replace(scatter=jnp.sum(s.scatter, axis=0))


def mean(s: Scatter) -> jax.Array:
    """The mean of all rows, less the centre."""
    total = jnp.sum(s.weight)
    return dot(s.weight, s.offset) / jnp.where(total > 0, total, 1)


def total(s: Scatter) -> jax.Array:
    """The scatter of all rows about their common mean, `(d, d)`.

    Where the classes hold one value each, and these differ by rounding, it is one value.
    """
    within = tied(s).scatter
    between = _spread(s.weight, s.offset - mean(s)[None, :], False)
    one = jnp.diagonal(between) <= jnp.sum(_level(s, MEAN_ULPS), axis=0)
    return _without(within + between, one & (jnp.diagonal(within) == 0))


def means(s: Scatter) -> jax.Array:
    """The class means, `(k, d)`; 0 without weight."""
    return jnp.where((s.rows > 0)[:, None], s.centre[None, :] + s.offset, 0)


def given_means(s: Scatter) -> jax.Array:
    """The same in the user's units."""
    return means(s) / s.unit[None, :]


def _spread(weight: jax.Array, vectors: jax.Array, per_class: bool) -> jax.Array:
    """The weighted outer products of vectors, `(k, d, d)`, or their sum."""
    if per_class:
        return weight[:, None, None] * vectors[:, :, None] * vectors[:, None, :]
    return dot((weight[:, None] * vectors).T, vectors)

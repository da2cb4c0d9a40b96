"""Class statistics of data, the quickest way that is sound: what every closed form starts with.

Where all rows count the same, and there are many, or many lanes of few, products are taken of x as
it lies, about 0, and x is not looked at first. What comes of that is kept where 0 is near enough,
the columns are far from dependent, and all of x is seen to be numbers in range, and so are their
products; `_scatter`'s own pass does the rest, and all derivatives.
Shapes: `n` rows, `d` features, `k` classes.
"""

import math

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _batched, _checks
from jaxlin._data import _prepare, _rows
from jaxlin._linalg import _implicit, dot
from jaxlin._moments import _scatter
from jaxlin._moments._scatter import Scatter

# Products about 0, of x as it lies, where no column's mean square is so many times its variance
# within the classes, so that four bits cancel at most. They are summed over parts of the rows of at
# most so many, and classes are so many times fewer than columns: each holds numbers per row.
NEAR, PLAIN_ROWS, PLAIN_SHARE = 16, 12_500, 7
# Columns from which the rows' order, and what both ways hold of each, is a small part of x.
CLASS_COLUMNS = 32
# Entries of x in all lanes of few rows from which that is done for them too.
MANY_ENTRIES = 100_000


def of_data(
    data: _checks.Table, k: int | None, *, per_class: bool = False
) -> tuple[Scatter, _rows.Rows, jax.Array, jax.Array]:
    """The statistics of data as checked, or of x and the targets y as columns, without a k.

    Returns:
      `(s, rows, total, valid)`, s of weights that sum to one, the others as `_prepare.prepare` has
      them; the rows, and the targets among columns, are in the units of s.
    """

    # Without x, which would be copied into what they return.
    def safe(data):
        rows, total, valid = _prepare.prepare(data, num_classes=k)
        own = _scatter.in_units(rows)
        s = _scatter.of_columns(own) if k is None else _scatter.of_rows(own, k, per_class=per_class)
        return s, rows._replace(x=rows.x[:0]), total, valid

    def quick(data):
        rows, total, valid = _prepare.prepare(data, num_classes=k, trusted=True)
        if k is None:
            s, sound = _plain_columns(rows)
        elif per_class:
            s, sound = _equal_by_class(rows, k), True
        else:
            s, sound = _plain(rows, k)
        sound &= _within_range(s, len(rows.y))
        return (s, rows._replace(x=rows.x[:0]), total, valid), sound

    s, rows, total, valid = _quicker(quick, safe, data, k or 1, per_class)(data)
    d = data.x.shape[1]
    if k is None:
        rows = rows._replace(y=rows.y * s.unit[d])
    return s, rows._replace(x=data.x, unit=s.unit[:d]), total, valid


def _quicker(quick, safe, data, k, per_class):
    """`quick` where it is sound and worth its compilation, else `safe`."""
    (n, d), dtype = data.x.shape, data.x.dtype
    plain = data.sample_weight is None and data.feature_mask is None and not data.axis.name
    if not plain or dtype != _checks.working_dtype(data.x):
        return safe
    few = n < 2 * _rows.block_rows(d, _scatter.block_entries(n, d))
    if per_class:
        worth = not few and d >= CLASS_COLUMNS
    else:
        worth = (k if few else PLAIN_SHARE * (k + 1)) <= d and _parts(n) is not None
    if not worth:
        return safe

    def either(data):
        found, sound = quick(data)
        return _linalg.when(~sound, safe, found, (data,))

    many = jax.custom_batching.custom_vmap(safe)

    @many.def_vmap
    def _(axis_size, in_batched, data):
        f = either if axis_size * n * d >= MANY_ENTRIES else safe
        found = _batched.each(f, axis_size, in_batched)(data)
        return found, _batched.all_of(found)

    f = many if few else either
    return lambda data: _implicit.derived(safe, f(jax.lax.stop_gradient(data)), (data,))


def _parts(n: int) -> int | None:
    """Into how many equal parts so many rows go, none too large for the digits of their sums."""
    least = -(-n // PLAIN_ROWS)
    return next((parts for parts in range(least, 8 * least) if n % parts == 0), None)


def _products(rows: _rows.Rows, beside: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`x' x` and `beside' x`, weighted; beside is `(parts, m, rows of a part)`."""
    x, weight = rows.x, rows.weight[0]
    if len(beside) == 1:  # one axis less, or lanes of few rows are copied
        return weight * dot(x.T, x), weight * dot(beside[0], x)
    x = x.reshape(len(beside), -1, x.shape[1])
    gram = jnp.sum(dot(jnp.swapaxes(x, 1, 2), x), axis=0)
    return weight * gram, weight * jnp.sum(dot(beside, x), axis=0)


def _plain(rows, k):
    """The statistics from x as it lies, and whether they have their digits."""
    (n, d), weight = rows.x.shape, rows.weight[0]
    own = rows.y.reshape(_parts(n), 1, -1) == jnp.arange(k, dtype=rows.y.dtype)[None, :, None]
    count = jnp.sum(own, axis=(0, 2), dtype=jnp.int32)
    gram, sums = _products(rows, own.astype(weight.dtype))
    sums = jnp.concatenate([sums, weight * count[:, None].astype(weight.dtype)], axis=1)
    count = jnp.where(weight > 0, count, 0)
    s = _about(jnp.zeros((k, d), gram.dtype), (gram, sums, count))
    return s, _is_near(gram, s)


def _about(near, sums):
    """The statistics in the user's units."""
    return _scatter.about(near, sums, jnp.ones_like(near[0]))


def _plain_columns(rows):
    """As `_plain`, x and the targets y as columns of one class."""
    (n, d), weight = rows.x.shape, rows.weight[0]
    level = jnp.mean(rows.y)
    t = (rows.y - level).reshape(_parts(n), 1, -1)
    gram, (cross, sums) = _products(rows, jnp.concatenate([t, jnp.ones_like(t)], axis=1))
    square = weight * _linalg.inner(t.reshape(-1), t.reshape(-1))
    gram = jnp.block([[gram, cross[:, None]], [cross[None, :], square[None, None]]])
    near = jnp.zeros((1, d + 1), gram.dtype).at[0, d].set(level)
    sums = jnp.concatenate([sums, weight * jnp.stack([jnp.sum(t), jnp.asarray(n, t.dtype)])])
    count = jnp.where(weight > 0, jnp.full(1, n, jnp.int32), 0)
    s = _about(near, (gram, sums[None], count))
    return s, _is_near(gram, s)


def _equal_by_class(rows, k):
    """The statistics per class of rows that all count the same."""
    near, weight = _scatter.points_near(rows, k), rows.weight[0]
    scatter, sums, count = _scatter.of_each_class(rows, near, equal=True)
    s = _about(near, (scatter * weight, sums * weight, jnp.where(weight > 0, count, 0)))
    return _scatter.without_rounding(s, rows, lambda block: block.x)


def _within_range(s: Scatter, n: int) -> jax.Array:
    """Whether no entry of x can be beyond the range of data, so many rows all counting the same.

    Nor can products of deviations be: where nothing is left of them the means tell their size.
    """
    scatter = jnp.diagonal(s.scatter, axis1=-2, axis2=-1).reshape(-1, s.centre.size)
    level = jnp.abs(s.centre)[None, :] + jnp.abs(s.offset)
    most = _checks.safe_range(level.dtype)
    small = jnp.maximum(scatter, jnp.where(scatter == 0, level, 0) ** 2) < 1 / most
    small &= (s.rows > 0)[:, None]
    return jnp.all(level + jnp.sqrt(n * scatter) <= most) & ~jnp.any(small)


def _is_near(gram: jax.Array, s: Scatter) -> jax.Array:
    """Whether all columns are near what `gram` is about, and far from dependent: False for NaN.

    Products that lost some digits cannot tell whether columns depend on each other.
    """
    near = jnp.all(jnp.diagonal(gram) <= NEAR * jnp.diagonal(s.scatter))
    eps = float(jnp.finfo(gram.dtype).eps)
    return near & (_linalg.factor(s.scatter).pivot >= math.sqrt(eps))

"""Rows of a fit, whose weights sum to one, and parts of them.

What may not be felt is removed here, once: rows that hold NaN, Inf or values beyond the dtype's
safe range become zeros inside each block (never in a copy of x), and rows without weight
contribute nothing. Shapes: `n` rows, `d` features, `k` classes.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin._base import _loops, _mesh, _platform
from jaxlin._base._checks import Axis, safe_range, working_dtype
from jaxlin._data import _entries, _stream
from jaxlin.sparse import Padded, Sparse

# A block of x of about this many entries leaves room in a core's cache for what is made of it. This
# and all such numbers are a CPU's, see `block_rows`.
BLOCK_ENTRIES = 50_000
MIN_BLOCK_ROWS, SHRUNK = 256, 4
# Up to so many columns a reduction along rows is quicker than a product, which wants them written.
FEW_COLUMNS = 16
WIDENS_BFLOAT16 = jax.__version_info__ < (0, 11)


class Rows(NamedTuple):
    """Data ready to be folded over.

    x: `(n, d)` as it is in memory, or a table of `sparse`, of which `clean` blocks are dense
    y: `(n,)` int32 in 0..k-1, or soft labels; 0 where no class
    weight: `(n,)`, nonnegative, sum 1 (or 0 throughout for invalid data)
    offset: `(n,)`, `(n, k)` or None; 0 where not finite
    ok: `(n,)`, whether the row is finite, within the safe range, and its label a class
    feature_mask: `(d,)` or None
    axis: over whose devices the rows are dealt: n is the number of those that are here
    framed: `(n, p)` or None; what x is in the frame of a fit, where that is held, see `_frame`
    unit: `(d,)` or None; powers of two that columns of x are multiplied with where it is clean
    entries: a Padded or None; in a clean block what x is made of, for what does not want it dense
    """

    x: jax.Array
    y: jax.Array
    weight: jax.Array
    offset: jax.Array | None
    ok: jax.Array
    feature_mask: jax.Array | None
    axis: Axis = Axis()
    framed: jax.Array | None = None
    unit: Any = None
    entries: Any = None


class Streamed(NamedTuple):
    """Rows that are read block by block: in the place of `Rows` wherever they are folded over.

    x: what is known of them
    scale: `()`, what a weight is multiplied with, so that they sum to one; 0 for invalid data
    classes: `(k,)`, the part of the weight that is of each
    first: `(d,)`, a clean row with weight
    some: a sample that holds a row of every class with weight
    target: `()`, which column of many labels these are of; None for the one there is, or, of
      weights, for their mean
    """

    x: _stream.Stream
    scale: jax.Array
    classes: jax.Array
    first: jax.Array
    some: Rows
    feature_mask: jax.Array | None
    target: jax.Array | None = None
    offset: None = None
    axis: Axis = Axis()


def where(keep: jax.Array, rows: Rows) -> Rows:
    """The rows, without any weight unless `keep ()`."""
    if isinstance(rows, Streamed):
        return rows._replace(scale=jnp.where(keep, rows.scale, 0), some=where(keep, rows.some))
    return rows._replace(weight=jnp.where(keep, rows.weight, 0))


def alike(rows: Rows, feature_mask: jax.Array | None) -> Rows:
    """The same x in rows that are alike, for lanes that share it: of one weight, and no label."""
    if isinstance(rows, Streamed):
        both, one = jnp.full(2, 0.5), jnp.ones((), working_dtype(rows.x))
        return rows._replace(classes=both, scale=one, some=None, target=None)
    n, _ = rows.x.shape
    part = 1 / (n * _mesh.devices(rows.axis))
    return Rows(
        x=rows.x,
        y=jnp.zeros(n, jnp.int32),
        weight=jnp.full(n, part, working_dtype(rows.x)),
        offset=None,
        ok=usable(rows.x, feature_mask),
        feature_mask=feature_mask,
        axis=rows.axis,
    )


def one_row(rows: Rows) -> jax.Array:
    """A clean row with weight, `(d,)`, the same for all devices; any row where there is none."""
    if isinstance(rows, Streamed):
        return rows.first
    bare = rows._replace(offset=None)
    own = clean(take(bare, jnp.argmax(rows.weight)[None])).x[0]
    if rows.axis.name is None:
        return own
    # The first device that has one speaks.
    place = _mesh.devices(rows.axis) - jax.lax.axis_index(rows.axis.name)
    rank = jnp.where(jnp.any(rows.weight > 0), place, 0)
    first = _mesh.across((), rank.astype(own.dtype), rows.axis)[1] == rank.astype(own.dtype)
    return _mesh.across(jnp.where(first & (rank > 0), own, 0), (), rows.axis)[0]


def is_one_block(rows: Rows, entries: int) -> bool:
    """Whether a fold takes all rows at once."""
    n, d = rows.x.shape
    return n < 2 * block_rows(d, entries)


def block_rows(d: int, entries: int = BLOCK_ENTRIES) -> int:
    """Rows in a block of `d` columns that has `entries` on a CPU; fewer than two make one."""
    # Of fewer entries a fold makes the more.
    least = MIN_BLOCK_ROWS if SHRUNK * entries >= BLOCK_ENTRIES else MIN_BLOCK_ROWS // SHRUNK
    return max(least, _platform.enlarged(entries) // max(d, 1))


def pass_entries(x: Any, dense: int = BLOCK_ENTRIES) -> int:
    """Entries of x, zeros counted, in a block of a pass that makes a table no dense array."""
    if not isinstance(x, Sparse):
        return dense
    places = jax.eval_shape(lambda x: x.padded(), x).indices.shape[-1]
    return _entries.block_entries(x.shape, places)


def map_blocks(f: Callable[[Any], jax.Array], rows: Any, entries: int = BLOCK_ENTRIES) -> jax.Array:
    """`f` of each block of the leading axis, so that what is made of x stays in cache."""
    n, d = jax.tree.leaves(rows)[0].shape
    size = block_rows(d, entries)
    if n < 2 * size:
        return f(rows)

    def take(start):
        return jax.tree.map(lambda a: _part(a, start, size), rows)

    def step(whole, i):
        start = jnp.minimum(i * size, n - size)
        return jax.lax.dynamic_update_slice_in_dim(whole, f(take(start)), start, 0), None

    whole = _loops.filled(jax.eval_shape(lambda: f(take(0))[0]), 0, n)
    # A scan, which has a derivative in reverse.
    return jax.lax.scan(step, whole, jnp.arange(-(-n // size)))[0]


def take(rows: Rows, at: Any, size: int | None = None) -> Rows:
    """The `size` rows from `at`, or, without a size, the rows at the indices `at`."""
    part = jax.tree.map(lambda a: _part(a, at, size), without_columns(rows))
    return with_columns_of(rows, part)


def without_columns(rows: Rows) -> Rows:
    """What is known of each row, and not of each column."""
    return rows._replace(feature_mask=None, unit=None)


def with_columns_of(rows: Rows, part: Rows) -> Rows:
    return part._replace(feature_mask=rows.feature_mask, unit=rows.unit)


def sample(rows: Rows, most: int) -> Rows:
    """At most so many of all rows, those that are here: all, or at the golden ratio's.

    These are spread evenly, and in step with no period that rows or labels may have; in the order
    of the rows, which are read in half the time.
    """
    if isinstance(rows, Streamed):
        return sample(rows.some, most)
    at = places(rows, most)
    return rows if at is None else take(rows, at)


def places(rows: Rows, most: int) -> jax.Array | None:
    """Which rows a sample is of, `(most,)`, or None for all."""
    n, most = rows.x.shape[0], -(-most // _mesh.devices(rows.axis))
    if n <= most:
        return None
    golden = (math.sqrt(5) - 1) / 2
    at = np.sort(np.floor(n * (np.arange(most) * golden % 1)))
    return jnp.asarray(at, jnp.int32)


def clean(block: Rows) -> Rows:
    """The rows with x in the working dtype, in their units, and 0 where it may not be felt."""
    if isinstance(block.x, Sparse):
        entries = _working(block.x.padded(), working_dtype(block.x))
        entries = _entries.clean(entries, block.ok, block.feature_mask)
        return block._replace(x=entries.to_dense(), entries=entries)
    keep = block.ok[:, None]
    if block.feature_mask is not None:
        keep = keep & block.feature_mask[None, :]
    x = block.x.astype(working_dtype(block.x))
    if block.unit is not None:
        x = x * block.unit[None, :]
    return block._replace(x=jnp.where(keep, x, 0), unit=None)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _part(a: jax.Array, at: jax.Array, size: int | None) -> jax.Array:
    """The `size` rows of `a` from `at`, or, without a size, the rows `at`.

    Some versions of XLA have no slices of bfloat16 on a CPU, and would widen all of `a` before a
    loop that takes them; there its bits are copied instead.
    """
    if a.dtype != jnp.bfloat16 or not WIDENS_BFLOAT16:
        return _rows_at(a, at, size)
    bits = jax.lax.bitcast_convert_type(a, jnp.uint16)
    return jax.lax.bitcast_convert_type(_rows_at(bits, at, size), a.dtype)


@_part.defjvp
def _(size, primals, tangents):
    a, at = primals
    return _part(a, at, size), _rows_at(tangents[0], at, size)


def _rows_at(a: jax.Array, at: jax.Array, size: int | None) -> jax.Array:
    return a[at] if size is None else jax.lax.dynamic_slice_in_dim(a, at, size)


def usable(x: jax.Array, feature_mask: jax.Array | None) -> jax.Array:
    dtype = working_dtype(x)
    if isinstance(x, Sparse):
        return _entries.usable(_working(x.padded(), dtype), feature_mask)

    def of_block(block):
        fine = jnp.abs(block.astype(dtype)) <= safe_range(dtype)  # False for NaN
        if feature_mask is not None:
            fine |= ~feature_mask[None, :]
        if x.shape[1] <= FEW_COLUMNS:
            return jnp.all(fine, axis=1)
        # Along long rows a product is made by vectors, and nothing else.
        faults = jnp.where(fine, 0, 1).astype(dtype)
        return faults @ jnp.ones(x.shape[1], dtype) == 0

    # Of which booleans are made; or, by some compilers, numbers, and then a small part of x.
    entries = max(BLOCK_ENTRIES, min(4 * BLOCK_ENTRIES, x.size // 20))
    return map_blocks(of_block, x, entries)


def _working(x: Padded, dtype: Any) -> Padded:
    return Padded(x.indices, x.values.astype(dtype), x.num_features)


def finite(x: Any) -> jax.Array:
    """Which rows hold numbers alone, however large: `(n,)`."""
    return jnp.all(jnp.isfinite(x.padded().values if isinstance(x, Sparse) else x), axis=1)


def only(x: Any, keep: jax.Array) -> Any:
    """x, 0 in the rows that are not to be kept."""
    if isinstance(x, Sparse):
        return _entries.clean(x.padded(), keep, None)
    return jnp.where(keep[:, None], x, 0)


def has_label(y: jax.Array, num_classes: int | None) -> jax.Array:
    if num_classes is None:
        return jnp.isfinite(y)
    if not jnp.issubdtype(y.dtype, jnp.floating):
        return (y >= 0) & (y < num_classes)
    inside = (y >= 0) & (y <= 1)
    return inside if y.ndim == 1 else jnp.all(inside, 1) & (jnp.abs(jnp.sum(y, 1) - 1) <= 1e-3)


def codes(y: jax.Array, num_classes: int | None) -> jax.Array:
    # Clipped in y's own dtype: a cast to int32 first could wrap a large label into the range.
    top = min((num_classes or 1) - 1, jnp.iinfo(y.dtype).max)
    return jnp.clip(y, 0, top).astype(jnp.int32)

"""The one fold over rows: every gradient, Hessian and moment of the package goes through it.

Rows may be dealt over the devices of a mesh axis. The only collectives of the package are here: a
pass sums its blocks where they are, and then all devices' sums in one all-reduce. What comes of it
is the same on every device, and so is all that follows.

Rows travel as `Rows`, whose weights sum to one. What may not be felt is removed here, once: rows
that hold NaN, Inf or values beyond the dtype's safe range become zeros inside each block (never
in a copy of x), and rows without weight contribute nothing. Blocks keep the temporaries of a pass
in cache. Shapes: `n` rows, `d` features, `k` classes.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from jaxlin._base import _loops, _platform
from jaxlin._base._checks import Axis, Table, safe_range, working_dtype
from jaxlin._data import _stream

# A block of x of about this many entries leaves room in a core's cache for what is made of it. This
# and all such numbers are a CPU's, see `block_rows`.
BLOCK_ENTRIES = 50_000
MIN_BLOCK_ROWS, SHRUNK = 256, 4
# Entries that a fold by entries sums side by side, which cores share, and how many times as many in
# a turn.
SIDE_ENTRIES, SIDES = 16_000, 8
# Up to so many columns a reduction along rows is quicker than a product, which wants them written.
FEW_COLUMNS = 16
# Of a row in so many lanes, which is worth a turn of a loop.
ROW_ENTRIES = 256
# Entries whose columns may be sorted for the sake of lanes, and places in the order that are tried.
RANKED_ENTRIES, RANKS = 10_000, 20
# Numbers that the maximum of a vector is taken of at once.
BESIDE = 16
SHRINK = 2.0**-8
# Integers are summed over devices by their digits, exactly for up to so many devices.
RADIX = 4096
WIDENS_BFLOAT16 = jax.__version_info__ < (0, 11)


class Rows(NamedTuple):
    """Data ready to be folded over.

    x: `(n, d)` as it is in memory
    y: `(n,)` int32 in 0..k-1, or soft labels; 0 where no class
    weight: `(n,)`, nonnegative, sum 1 (or 0 throughout for invalid data)
    offset: `(n,)`, `(n, k)` or None; 0 where not finite
    ok: `(n,)`, whether the row is finite, within the safe range, and its label a class
    feature_mask: `(d,)` or None
    axis: over whose devices the rows are dealt: n is the number of those that are here
    framed: `(n, p)` or None; what x is in the frame of a fit, where that is held, see `_frame`
    unit: `(d,)` or None; powers of two that columns of x are multiplied with where it is clean
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


class Streamed(NamedTuple):
    """Rows that are read block by block: in the place of `Rows` wherever they are folded over.

    x: what is known of them
    scale: `()`, what a weight is multiplied with, so that they sum to one; 0 for invalid data
    classes: `(k,)`, which have weight
    first: `(d,)`, a clean row with weight
    some: a sample that holds a row of every class with weight
    """

    x: _stream.Stream
    scale: jax.Array
    classes: jax.Array
    first: jax.Array
    some: Rows
    feature_mask: jax.Array | None
    offset: None = None
    axis: Axis = Axis()


def prepare(
    data: Table,
    *,
    num_classes: int | None,
    offset: jax.Array | None = None,
    trusted: bool = False,
) -> tuple[Rows, jax.Array, jax.Array]:
    """Normalise the weights, find what may not be felt, and judge the data.

    Args:
      data: checked arguments.
      num_classes: k, or None for regression targets.
      offset: `(n,)` or `(n, k)`, finite wherever there is weight.
      trusted: x is taken to hold numbers alone, and not looked at.

    Returns:
      `(rows, total, valid)`: the rows, the sum of the weights, and whether the data are usable;
      if they are not, all weights are 0, so that a lane of them does no harm and little work.
    """
    # Data that a program closes over are constants of it: what is made of them is not to be made
    # while it is compiled, which takes the compiler a hundred times as long.
    hold = jax.lax.optimization_barrier
    data = data._replace(x=hold(data.x), y=hold(data.y))
    n, _ = data.x.shape
    dtype = working_dtype(data.x)
    given = jnp.ones(n, dtype) if data.sample_weight is None else data.sample_weight
    ok = jnp.ones(n, bool) if trusted else _usable(data.x, data.feature_mask)
    # A row that holds no numbers has no derivative in its weight: 0 by convention.
    given = jnp.where(ok, given, jax.lax.stop_gradient(given))
    # Shrunk, exactly, so that neither their sum nor the reciprocal of the largest overflows.
    given = given * SHRINK
    present = given != 0
    label_fits = _label_fits(data.y, num_classes)
    fine = jnp.where(present, ok & label_fits, True) & (given >= 0)
    if offset is not None:
        finite = jnp.isfinite(offset) if offset.ndim == 1 else jnp.all(jnp.isfinite(offset), 1)
        fine &= ~present | finite
        offset = where_rows(finite, offset)
        ok &= finite
    # Divided by the largest first, so that the sum cannot overflow; what is divided by cancels, and
    # with it its derivative. One row at fault makes the largest infinite.
    largest = _largest_of(jax.lax.stop_gradient(jnp.where(fine, given, jnp.inf)))
    _, largest = across((), largest, data.axis)
    faultless = jnp.isfinite(largest)
    largest = jnp.where((largest > 0) & faultless, largest, 1)
    total = sum_rows(given / largest, data.axis)
    valid = faultless & (total > 0) & jnp.isfinite(total)
    # Guarded, so that a lane that is not valid leaves no NaN in derivatives either.
    weight = given / largest / jnp.where(valid, total, 1)
    weight = jnp.where(valid, weight, 0)
    y = data.y if jnp.issubdtype(data.y.dtype, jnp.floating) else _codes(data.y, num_classes)
    rows = Rows(
        x=data.x,
        # Absent rows keep a label that fits: the derivative in their weight is the true one.
        y=where_rows(label_fits, y),
        weight=weight,
        offset=offset,
        ok=ok & label_fits,
        feature_mask=data.feature_mask,
        axis=data.axis,
    )
    return rows, total * largest / SHRINK, valid


def fold(
    f: Callable[[Rows], tuple[Any, Any]], rows: Rows, entries: int = BLOCK_ENTRIES
) -> tuple[Any, Any]:
    """Fold `f` over blocks of rows.

    Args:
      f: maps a block, whose x is clean and in the working dtype, to `(sums, maxima)`, two pytrees
        of arrays (either may be `()`) in which a row of weight 0 must not be felt.
      rows: the whole.
      entries: of x in a block.

    Returns:
      `(sums, maxima)` over all rows.
    """
    if isinstance(rows, Streamed):
        return _fold_stream(f, rows, entries)
    sums, maxima = _fold_here(f, rows, entries)
    return across(sums, maxima, rows.axis)


def _fold_stream(f, rows, entries):
    def of_block(i):
        x, y, weight = _stream.read(rows.x, i)
        k = rows.classes.shape[0]
        fits = _label_fits(y, k)
        soft = jnp.issubdtype(y.dtype, jnp.floating)
        block = Rows(
            x=x,
            y=where_rows(fits, y if soft else _codes(y, k)),
            weight=weight * rows.scale,
            offset=None,
            ok=_usable(x, rows.feature_mask) & fits,
            feature_mask=rows.feature_mask,
        )
        return _fold_here(f, block, entries)

    sums, maxima = jax.eval_shape(of_block, jnp.int32(0))
    return _scan(
        lambda i: of_block(i.astype(jnp.int32)),
        rows.x.form.blocks,
        sums,
        _loops.filled(maxima, -jnp.inf),
        _largest,
    )


def _fold_here(f, rows, entries):
    if is_one_block(rows, entries):
        return f(clean(rows))
    n, d = rows.x.shape
    size = block_rows(d, entries)
    sums, maxima = jax.eval_shape(lambda r: f(clean(r)), take(rows, 0, size))
    return _scan(
        lambda i: f(_block(rows, i, size)[1]),
        -(-n // size),
        sums,
        _loops.filled(maxima, -jnp.inf),
        _largest,
    )


def _scan(of_block, blocks: int, sums: Any, rest: Any, join: Callable) -> tuple[Any, Any]:
    """Over i the sums, of these shapes, and `rest` joined with the other that `of_block(i)` gives.

    A sum of one number travels as an array of one. As a number the compiler would start a block's
    product of two vectors from the sum so far, and of a million terms in float32 lose a thousandth.
    """

    def arrays(sums):
        return jax.tree.map(jnp.atleast_1d, sums)

    def step(carry, i):
        added, other = of_block(i)
        return (jax.tree.map(jnp.add, carry[0], arrays(added)), join(carry[1], other)), None

    init = arrays(_loops.filled(sums, 0)), rest
    (total, rest), _ = jax.lax.scan(step, init, jnp.arange(blocks))
    return jax.tree.map(lambda a, like: a.reshape(like.shape), total, sums), rest


def _largest(a: Any, b: Any) -> Any:
    return jax.tree.map(jnp.maximum, a, b)


def _block(rows: Rows, i: jax.Array, size: int) -> tuple[jax.Array, Rows]:
    """Where block i starts, and the block.

    The last overlaps the one before; the rows seen already lose their weight.
    """
    n, _ = rows.x.shape
    start = jnp.minimum(i * size, n - size)
    block = take(rows, start, size)
    unseen = start + jnp.arange(size) >= i * size
    return start, clean(block._replace(weight=jnp.where(unseen, block.weight, 0)))


def fold_and_map(f: Callable[[Rows], tuple[Any, jax.Array]], rows: Rows) -> tuple[Any, jax.Array]:
    """As `fold`, for `f` that maps a block to `(sums, each)`, an array of its rows beside the sums.

    Rows of weight 0 are in that too, and in the last block are some that have weight elsewhere.

    Returns:
      The sums over all rows, and `each` of them, of those that are here.
    """
    n, d = rows.x.shape
    size = block_rows(d)
    if n < 2 * size:
        sums, whole = f(clean(rows))
        return across(sums, (), rows.axis)[0], whole

    def of_first(rows):
        sums, each = f(clean(rows))
        return sums, each[0]

    sums, of_row = jax.eval_shape(of_first, take(rows, 0, size))
    rest = _loops.filled(of_row, 0, n)

    def of_block(i):
        start, block = _block(rows, i, size)
        added, each = f(block)
        return added, (start, each)

    def put(whole, new):
        start, each = new
        return jax.lax.dynamic_update_slice_in_dim(whole, each, start, 0)

    sums, whole = _scan(of_block, -(-n // size), sums, rest, put)
    return across(sums, (), rows.axis)[0], whole


def is_long(rows: Rows) -> bool:
    """Whether a fold by entries takes more than a turn."""
    return not isinstance(rows, Streamed) and rows.x.shape[0] > SIDES * _side_rows(rows)


def _side_rows(rows: Rows) -> int:
    return max(1, _platform.enlarged(SIDE_ENTRIES) // max(rows.x.shape[1], 1))


def fold_entries(f: Callable[[Rows], tuple[Any, Any]], rows: Rows) -> tuple[Any, Any]:
    """As `fold`, for `f` that gives the terms of each row, arrays `(rows, ...)`, not their sums.

    For rows that are `is_long`. Only the sums of some rows side by side are written, where a
    product, or a maximum down a column, wants its operand in memory: several times as fast where
    lanes do not share x.
    """
    side = _side_rows(rows)
    turns = -(-rows.x.shape[0] // (SIDES * side))

    def step(carry, i):
        for j in range(SIDES):
            _, block = _block(rows, SIDES * i + j, side)
            sums, maxima = f(block)
            carry = jax.tree.map(jnp.add, carry[0], sums), _largest(carry[1], maxima)
        return carry, None

    sums, maxima = jax.eval_shape(lambda r: f(clean(r)), take(rows, 0, side))
    init = _loops.filled(sums, 0), _loops.filled(maxima, -jnp.inf)
    (sums, maxima), _ = jax.lax.scan(step, init, jnp.arange(turns))
    sums, maxima = (
        jax.tree.map(functools.partial(over, axis=0), each)
        for over, each in ((jnp.sum, sums), (jnp.max, maxima))
    )
    return across(sums, maxima, rows.axis)


def across(sums: Any, maxima: Any, axis: Axis) -> tuple[Any, Any]:
    """Sums and maxima over all devices, in one all-reduce: maxima travel as a table of each's.

    Floats are of one dtype; integers are not negative.
    """
    if axis.name is None:
        return sums, maxima
    leaves, tree = jax.tree.flatten(sums)
    whole = [jnp.issubdtype(a.dtype, jnp.integer) for a in leaves]
    dtype = next((a.dtype for a in jax.tree.leaves((sums, maxima)) if a.dtype.kind == "f"), float)

    def digits(a):
        # Of integers, so that their sums are exact.
        return jnp.stack([a % RADIX, a // RADIX]).astype(dtype)

    added, back = ravel_pytree([digits(a) if w else a for a, w in zip(leaves, whole, strict=True)])
    largest, back_maxima = ravel_pytree(maxima)
    table = where_rows(_is_here(axis), largest[None, :])
    reduced = jax.lax.psum(
        jnp.concatenate([a.reshape(-1).astype(dtype) for a in (added, table)]), axis.name
    )
    sums = [
        (a[0].astype(b.dtype) + RADIX * a[1].astype(b.dtype)) if w else a
        for a, b, w in zip(
            back(reduced[: added.size].astype(added.dtype)), leaves, whole, strict=True
        )
    ]
    table = reduced[added.size :].astype(largest.dtype).reshape(table.shape)
    return jax.tree.unflatten(tree, sums), back_maxima(jnp.max(table, axis=0))


def devices(axis: Axis) -> int:
    """How many shards of rows there are."""
    return 1 if axis.name is None else jax.lax.axis_size(axis.name)


def gathered(a: jax.Array, axis: Axis) -> jax.Array:
    """The few rows of `a` of every device, one under the other."""
    if axis.name is None:
        return a
    table = where_rows(_is_here(axis), a[None])
    return jax.lax.psum(table, axis.name).reshape(-1, *a.shape[1:])


def _is_here(axis: Axis) -> jax.Array:
    return jnp.arange(devices(axis), dtype=jnp.int32) == jax.lax.axis_index(axis.name)


def sum_rows(a: jax.Array, axis: Axis) -> jax.Array:
    """The sum over the leading axis, and over all devices."""
    return across(jnp.sum(a, axis=0), (), axis)[0]


def any_rows(a: jax.Array, axis: Axis) -> jax.Array:
    """Whether any row has it, of `(n, ...)` bool."""
    here = jnp.any(a, axis=0)
    if axis.name is None:
        return here
    return across((), here.astype(jnp.float32), axis)[1] > 0


def present(rows: Rows, k: int) -> jax.Array:
    """Which of k classes have weight, `(k,)`; a soft label is of all that it gives a part."""
    if isinstance(rows, Streamed):
        return rows.classes

    def here(block):
        return (), _some(block.weight > 0, _members(block.y, k)).astype(block.weight.dtype)

    # By blocks, because which rows a class has is written out.
    return fold(here, rows._replace(offset=None))[1] > 0


def _members(y: jax.Array, k: int) -> jax.Array:
    """Which rows are of each of k classes, in part at least: `(n, k)`."""
    if y.ndim == 2:
        return y > 0
    if jnp.issubdtype(y.dtype, jnp.floating):
        return jnp.stack([y < 1, y > 0], axis=1)
    return y[:, None] == jnp.arange(k, dtype=y.dtype)[None, :]


@jax.custom_batching.custom_vmap
def _some(held: jax.Array, of: jax.Array) -> jax.Array:
    """Which columns of `of (n, k)` any of the rows `held (n,)` has, `(k,)`; bool all."""
    return jnp.any(of & held[:, None], axis=0)


@_some.def_vmap
def _(axis_size, in_batched, held, of):
    """How many: lanes that share `of` are rows of one product."""
    if in_batched[1]:
        each = jax.vmap(_some.fun, in_axes=[0 if batched else None for batched in in_batched])
        return each(held, of), True
    return held.astype(jnp.float32) @ of.astype(jnp.float32) > 0, True


@jax.custom_batching.custom_vmap
def largest(weight: jax.Array, a: jax.Array) -> jax.Array:
    """The largest of each column of `a (n, d)`, not negative, over the rows with weight, or 0."""
    return jnp.max(jnp.where((weight > 0)[:, None], a, 0), axis=0)


@largest.def_vmap
def _(axis_size, in_batched, weight, a):
    """Lanes that share `a` go row by row, or column by column: it is not copied for each.

    Along a row of lanes a maximum is made by vectors, along a lane's rows it is not. An accelerator
    has no use for as many turns as there are rows. Of few entries the largest are looked at first.
    """
    if in_batched[1]:
        each = jax.vmap(largest.fun, in_axes=[0 if batched else None for batched in in_batched])
        return each(weight, a), True
    held = weight > 0
    if not (_platform.on_cpu() and axis_size * a.shape[1] >= ROW_ENTRIES):
        found = jax.lax.map(lambda column: jnp.max(jnp.where(held, column[None, :], 0), 1), a.T)
        return found.T, True
    if a.size > RANKED_ENTRIES:
        return _largest_by_rows(held, a), True
    found, missed = _largest_by_rank(held, a)

    def by_rows(_):
        return _largest_by_rows(held, a), jnp.bool_(False)

    # A loop, not a branch: of lanes of such lanes a branch would be taken always.
    init = found, missed
    return jax.lax.while_loop(lambda carry: carry[1], *_loops.steady(by_rows, init))[0], True


def _largest_by_rows(held: jax.Array, a: jax.Array) -> jax.Array:
    """`largest` for the rows `held (lanes, n)`, in a turn a row."""

    def step(most, of_row):
        held, row = of_row
        return jnp.maximum(most, jnp.where(held[None, :], row[:, None], 0)), None

    nothing = jnp.zeros((a.shape[1], held.shape[0]), a.dtype)
    found, _ = jax.lax.scan(*_loops.steady_scan(step, nothing, (held.T, a)), (held.T, a))
    return found.T


def _largest_by_rank(held: jax.Array, a: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The same, and whether a lane holds rows but none of the RANKS that are largest in a column.

    The row of rank r counts 2^-r: the sum of those that a lane holds, which float32 has exactly,
    tells the first of them.
    """
    n, d = a.shape
    ranks = min(n, RANKS)
    top, at = jax.lax.top_k(a.T, ranks)
    counts = np.ldexp(np.float32(1), -np.arange(ranks))  # exactly, which the compiler's exp2 is not
    table = jnp.zeros((n, d + 1), jnp.float32).at[:, d].set(1)
    table = table.at[at, jnp.arange(d)[:, None]].set(counts[None, :])
    sums = held.astype(jnp.float32) @ table
    found = jnp.zeros((held.shape[0], d), a.dtype)
    for rank in range(ranks):
        first = sums[:, :d] >= 2.0**-rank
        found = jnp.maximum(found, jnp.where(first, top[:, rank][None, :], 0))
    return found, jnp.any((sums[:, :d] == 0) & (sums[:, d:] > 0))


def where(keep: jax.Array, rows: Rows) -> Rows:
    """The rows, without any weight unless `keep ()`."""
    if isinstance(rows, Streamed):
        return rows._replace(scale=jnp.where(keep, rows.scale, 0), some=where(keep, rows.some))
    return rows._replace(weight=jnp.where(keep, rows.weight, 0))


def one_row(rows: Rows) -> jax.Array:
    """A clean row with weight, `(d,)`, the same for all devices; any row where there is none."""
    if isinstance(rows, Streamed):
        return rows.first
    bare = rows._replace(offset=None)
    own = clean(take(bare, jnp.argmax(rows.weight)[None])).x[0]
    if rows.axis.name is None:
        return own
    # The first device that has one speaks.
    place = devices(rows.axis) - jax.lax.axis_index(rows.axis.name)
    rank = jnp.where(jnp.any(rows.weight > 0), place, 0)
    first = across((), rank.astype(own.dtype), rows.axis)[1] == rank.astype(own.dtype)
    return across(jnp.where(first & (rank > 0), own, 0), (), rows.axis)[0]


def is_one_block(rows: Rows, entries: int) -> bool:
    """Whether a fold takes all rows at once."""
    n, d = rows.x.shape
    return n < 2 * block_rows(d, entries)


def block_rows(d: int, entries: int = BLOCK_ENTRIES) -> int:
    """Rows in a block of `d` columns that has `entries` on a CPU; fewer than two make one."""
    # Of fewer entries a fold makes the more.
    least = MIN_BLOCK_ROWS if SHRUNK * entries >= BLOCK_ENTRIES else MIN_BLOCK_ROWS // SHRUNK
    return max(least, _platform.enlarged(entries) // max(d, 1))


def fold_by_class(f: Callable[[Rows, jax.Array], Any], rows: Rows, k: int, size: int) -> Any:
    """The sum of `f` over the rows of each class.

    Blocks of one class each cost what all rows at once do, where a pass that tells the classes
    apart inside a block costs k times that.

    Args:
      f: maps a block, as in `fold`, whose rows that are `ok` are of one class, and that class, to
        a pytree of arrays in which a row of weight 0 must not be felt.
      rows: the whole, y class indices.
      k: number of classes.
      size: rows in a block.

    Returns:
      Sums, with a leading axis of k.
    """
    n, _ = rows.x.shape
    order, ends = _sorted_by_class(rows.y, k)
    starts = jnp.concatenate([jnp.zeros(1, jnp.int32), ends[:-1]])
    blocks = -(-(ends - starts) // size)
    last = jnp.cumsum(blocks)

    def of_block(i):
        c = jnp.minimum(jnp.searchsorted(last, i, side="right"), k - 1)
        at = starts[c] + (i - last[c] + blocks[c]) * size + jnp.arange(size, dtype=jnp.int32)
        inside = at < ends[c]
        block = take(rows, order[jnp.minimum(at, n - 1)])
        weight = jnp.where(inside, block.weight, 0)
        return c, f(clean(block._replace(ok=block.ok & inside, weight=weight)), c)

    # Two at a time: a core works on each.
    def step(sums, i):
        c, added = jax.vmap(of_block)(i)
        return jax.tree.map(lambda a, b: a.at[c].add(b), sums, added), None

    init = _loops.filled(jax.eval_shape(lambda: of_block(jnp.int32(0))[1]), 0, k)
    pairs = -(-(n // size + k) // 2)
    each = jnp.arange(2 * pairs, dtype=jnp.int32).reshape(pairs, 2)
    sums = jax.lax.scan(step, init, each)[0]
    return across(sums, (), rows.axis)[0]


def _sorted_by_class(y: jax.Array, k: int) -> tuple[jax.Array, jax.Array]:
    """The rows in the order of their classes, and where each class ends, `(k,)`."""
    n = y.shape[0]
    if n * (k + 1) < 2**32:
        # One sort of numbers that hold both is several times as fast as a sort of pairs.
        both = jnp.sort(y.astype(jnp.uint32) * n + jnp.arange(n, dtype=jnp.uint32))
        order = (both % n).astype(jnp.int32)
    else:
        order = jnp.argsort(y, stable=True)
    classes = jnp.arange(k, dtype=y.dtype)
    return order, jnp.searchsorted(y[order], classes, side="right").astype(jnp.int32)


def map_rows(f: Callable[[Rows], jax.Array], rows: Rows, entries: int = BLOCK_ENTRIES) -> jax.Array:
    """`f` of each clean block `(rows, ...)`, of `entries` of x, as one with a leading axis of n."""

    def of_block(block):
        return f(clean(_with_columns_of(rows, block)))

    return _map_blocks(of_block, _without_columns(rows), entries)


def _map_blocks(
    f: Callable[[Any], jax.Array], rows: Any, entries: int = BLOCK_ENTRIES
) -> jax.Array:
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
    part = jax.tree.map(lambda a: _part(a, at, size), _without_columns(rows))
    return _with_columns_of(rows, part)


def _without_columns(rows: Rows) -> Rows:
    """What is known of each row, and not of each column."""
    return rows._replace(feature_mask=None, unit=None)


def _with_columns_of(rows: Rows, part: Rows) -> Rows:
    return part._replace(feature_mask=rows.feature_mask, unit=rows.unit)


def sample(rows: Rows, most: int) -> Rows:
    """At most so many of all rows, those that are here: all, or at the golden ratio's.

    These are spread evenly, and in step with no period that rows or labels may have; in the order
    of the rows, which are read in half the time.
    """
    if isinstance(rows, Streamed):
        return sample(rows.some, most)
    at = _places(rows, most)
    return rows if at is None else take(rows, at)


def map_sample(f: Callable[[Rows], jax.Array], rows: Rows, most: int) -> jax.Array:
    """As `map_rows`, of the rows of `sample`, whose x is not copied as a whole."""
    at = _places(rows, most)
    if at is None:
        return map_rows(f, rows)

    def of_block(at):
        return f(clean(take(rows, at[:, 0])))

    return _map_blocks(of_block, at[:, None], BLOCK_ENTRIES // max(rows.x.shape[1], 1))


def _places(rows: Rows, most: int) -> jax.Array | None:
    """Which rows a sample is of, `(most,)`, or None for all."""
    n, most = rows.x.shape[0], -(-most // devices(rows.axis))
    if n <= most:
        return None
    golden = (math.sqrt(5) - 1) / 2
    at = np.sort(np.floor(n * (np.arange(most) * golden % 1)))
    return jnp.asarray(at, jnp.int32)


def clean(block: Rows) -> Rows:
    """The rows with x in the working dtype, in their units, and 0 where it may not be felt."""
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


def _usable(x: jax.Array, feature_mask: jax.Array | None) -> jax.Array:
    dtype = working_dtype(x)

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
    return _map_blocks(of_block, x, entries)


def _largest_of(a: jax.Array) -> jax.Array:
    """The largest of `(n,)`, not negative: of numbers side by side, which is quicker."""
    whole = a.size - a.size % BESIDE
    beside = jnp.max(a[:whole].reshape(-1, BESIDE), axis=0, initial=0)
    return jnp.maximum(jnp.max(beside), jnp.max(a[whole:], initial=0))


def _label_fits(y: jax.Array, num_classes: int | None) -> jax.Array:
    if num_classes is None:
        return jnp.isfinite(y)
    if not jnp.issubdtype(y.dtype, jnp.floating):
        return (y >= 0) & (y < num_classes)
    inside = (y >= 0) & (y <= 1)
    return inside if y.ndim == 1 else jnp.all(inside, 1) & (jnp.abs(jnp.sum(y, 1) - 1) <= 1e-3)


def _codes(y: jax.Array, num_classes: int | None) -> jax.Array:
    # Clipped in y's own dtype: a cast to int32 first could wrap a large label into the range.
    top = min((num_classes or 1) - 1, jnp.iinfo(y.dtype).max)
    return jnp.clip(y, 0, top).astype(jnp.int32)


def where_rows(keep: jax.Array, a: jax.Array) -> jax.Array:
    """`a` in the rows to `keep: (n,)`, 0 in the others."""
    return jnp.where(keep.reshape(keep.shape + (1,) * (a.ndim - 1)), a, 0)

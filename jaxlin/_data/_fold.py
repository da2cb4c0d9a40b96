"""The one fold over rows: every gradient, Hessian and moment of the package goes through it.

Blocks keep the temporaries of a pass in cache. Rows may be dealt over the devices of a mesh axis: a
pass sums its blocks where they are, and then all devices' sums in one all-reduce. What comes of it
is the same on every device, and so is all that follows. Shapes: `n` rows, `d` features, `k`
classes.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxlin._base import _loops, _mesh, _platform
from jaxlin._data import _rows, _stream
from jaxlin._data._rows import Rows, Streamed

# Entries that a fold by entries sums side by side, which cores share, and how many times as many in
# a turn.
SIDE_ENTRIES, SIDES = 16_000, 8


def fold(
    f: Callable[[Rows], tuple[Any, Any]], rows: Rows, entries: int = _rows.BLOCK_ENTRIES
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
    return _mesh.across(sums, maxima, rows.axis)


def _fold_stream(f, rows, entries):
    def of_block(i):
        x, y, weight = _stream.read(rows.x, i)
        y, weight = _of_target(rows, y), _of_target(rows, weight)
        k = rows.classes.shape[0]
        fits = _rows.has_label(y, k)
        soft = jnp.issubdtype(y.dtype, jnp.floating)
        block = Rows(
            x=x,
            y=_mesh.where_rows(fits, y) if soft else _rows.codes(y, k),
            weight=weight * rows.scale,
            offset=None,
            # Of x alone: a row with weight has a label, and lanes of many labels share x.
            ok=_rows.usable(x, rows.feature_mask),
            feature_mask=rows.feature_mask,
        )
        return _fold_here(f, block, entries)

    sums, maxima = jax.eval_shape(of_block, jnp.int32(0))
    return _scan(
        lambda i: of_block(i.astype(jnp.int32)),
        rows.x.form.blocks,
        sums,
        _loops.filled(maxima, -jnp.inf),
        _larger,
    )


def _of_target(rows: Streamed, a: jax.Array) -> jax.Array:
    """Labels, or weights, of the target that the rows are of."""
    if a.ndim == 1 or not rows.x.form.targets:
        return a
    if rows.target is not None:
        return a[:, rows.target]
    return jnp.mean(a, axis=1) if jnp.issubdtype(a.dtype, jnp.floating) else a[:, 0]


def _fold_here(f, rows, entries):
    if _rows.is_one_block(rows, entries):
        return f(_rows.clean(rows))
    n, d = rows.x.shape
    size = _rows.block_rows(d, entries)
    sums, maxima = jax.eval_shape(lambda r: f(_rows.clean(r)), _rows.take(rows, 0, size))
    return _scan(
        lambda i: f(_block(rows, i, size)[1]),
        -(-n // size),
        sums,
        _loops.filled(maxima, -jnp.inf),
        _larger,
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


def _larger(a: Any, b: Any) -> Any:
    return jax.tree.map(jnp.maximum, a, b)


def _block(rows: Rows, i: jax.Array, size: int) -> tuple[jax.Array, Rows]:
    """Where block i starts, and the block.

    The last overlaps the one before; the rows seen already lose their weight.
    """
    n, _ = rows.x.shape
    start = jnp.minimum(i * size, n - size)
    block = _rows.take(rows, start, size)
    unseen = start + jnp.arange(size) >= i * size
    return start, _rows.clean(block._replace(weight=jnp.where(unseen, block.weight, 0)))


def fold_and_map(
    f: Callable[[Rows], tuple[Any, jax.Array]], rows: Rows, entries: int = _rows.BLOCK_ENTRIES
) -> tuple[Any, jax.Array]:
    """As `fold`, for `f` that maps a block to `(sums, each)`, an array of its rows beside the sums.

    Rows of weight 0 are in that too, and in the last block are some that have weight elsewhere.

    Returns:
      The sums over all rows, and `each` of them, of those that are here.
    """
    n, d = rows.x.shape
    size = _rows.block_rows(d, entries)
    if n < 2 * size:
        sums, whole = f(_rows.clean(rows))
        return _mesh.across(sums, (), rows.axis)[0], whole

    def of_first(rows):
        sums, each = f(_rows.clean(rows))
        return sums, each[0]

    sums, of_row = jax.eval_shape(of_first, _rows.take(rows, 0, size))
    rest = _loops.filled(of_row, 0, n)

    def of_block(i):
        start, block = _block(rows, i, size)
        added, each = f(block)
        return added, (start, each)

    def put(whole, new):
        start, each = new
        return jax.lax.dynamic_update_slice_in_dim(whole, each, start, 0)

    sums, whole = _scan(of_block, -(-n // size), sums, rest, put)
    return _mesh.across(sums, (), rows.axis)[0], whole


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
            carry = jax.tree.map(jnp.add, carry[0], sums), _larger(carry[1], maxima)
        return carry, None

    sums, maxima = jax.eval_shape(lambda r: f(_rows.clean(r)), _rows.take(rows, 0, side))
    init = _loops.filled(sums, 0), _loops.filled(maxima, -jnp.inf)
    (sums, maxima), _ = jax.lax.scan(step, init, jnp.arange(turns))
    sums, maxima = (
        jax.tree.map(functools.partial(over, axis=0), each)
        for over, each in ((jnp.sum, sums), (jnp.max, maxima))
    )
    return _mesh.across(sums, maxima, rows.axis)


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
        block = _rows.take(rows, order[jnp.minimum(at, n - 1)])
        weight = jnp.where(inside, block.weight, 0)
        return c, f(_rows.clean(block._replace(ok=block.ok & inside, weight=weight)), c)

    # Two at a time: a core works on each.
    def step(sums, i):
        c, added = jax.vmap(of_block)(i)
        return jax.tree.map(lambda a, b: a.at[c].add(b), sums, added), None

    init = _loops.filled(jax.eval_shape(lambda: of_block(jnp.int32(0))[1]), 0, k)
    pairs = -(-(n // size + k) // 2)
    each = jnp.arange(2 * pairs, dtype=jnp.int32).reshape(pairs, 2)
    sums = jax.lax.scan(step, init, each)[0]
    return _mesh.across(sums, (), rows.axis)[0]


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


def map_rows(
    f: Callable[[Rows], jax.Array], rows: Rows, entries: int = _rows.BLOCK_ENTRIES
) -> jax.Array:
    """`f` of each clean block `(rows, ...)`, of `entries` of x, as one with a leading axis of n."""

    def of_block(block):
        return f(_rows.clean(_rows.with_columns_of(rows, block)))

    return _rows.map_blocks(of_block, _rows.without_columns(rows), entries)


def map_sample(f: Callable[[Rows], jax.Array], rows: Rows, most: int) -> jax.Array:
    """As `map_rows`, of the rows of `sample`, whose x is not copied as a whole."""
    at = _rows.places(rows, most)
    if at is None:
        return map_rows(f, rows)

    def of_block(at):
        return f(_rows.clean(_rows.take(rows, at[:, 0])))

    return _rows.map_blocks(of_block, at[:, None], _rows.BLOCK_ENTRIES // max(rows.x.shape[1], 1))

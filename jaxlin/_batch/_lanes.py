"""Many fits as one program: lanes, so many at a time that what they hold stays small.

A vmap holds every lane at once, and its loop turns until the slowest is done. Chunks of lanes bound
both: their arrays stay in cache, and a straggler keeps its own chunk waiting only.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxlin._base import _batched, _checks, _loops, _platform
from jaxlin._linalg import _implicit

# Of what a chunk works on: lanes of one fit read x together, and each holds some columns of n rows.
CHUNK_BYTES = 8 * 2**20
COLUMNS = 8
MOST = 1024
# Of x in a chunk of lanes that each have their own: half as many in float64 as in float32.
OWN_BYTES = 2 * 2**20
# Of what programs of many fits hold at a time, as lanes of one vmap: each with its own x, or all
# with one, whose products they share.
PROGRAMS_BYTES = {True: 64 * 2**20, False: 512 * 2**20}


def chunk_size(batch_size: Any, lanes: int, each: int, room: int = CHUNK_BYTES) -> int:
    """Lanes at a time, of so many bytes each: as given, or those that a chunk has room for."""
    if batch_size is None:
        return max(1, min(lanes, *map(_platform.enlarged, (MOST, room // each))))
    size = _checks.static(batch_size, int, "batch_size")
    if size < 1:
        raise ValueError(f"batch_size: expected a positive integer, got {size}")
    return min(size, lanes)


def lane_bytes(n: int, d: int, dtype: Any, *, together: bool = False) -> int:
    """What a lane holds: some columns of n rows, and Hessians unless lanes are found together."""
    return max(1, jnp.dtype(dtype).itemsize * (COLUMNS * n + 4 * d * (1 if together else d)))


def own_size(entries: int, dtype: Any) -> int:
    """Lanes at a time that each have so many entries of x, or 0 where one is too large."""
    return OWN_BYTES // max(entries * jnp.dtype(dtype).itemsize, 1)


def even_size(count: int, entries: int, dtype: Any) -> int:
    """Of so many lanes those that go at a time: a part of all, if one is near `own_size`."""
    return _even(count, own_size(entries, dtype))


def _even(count: int, size: int) -> int:
    size = max(1, min(count, size))
    return next((s for s in range(size, size // 4, -1) if count % s == 0), size)


def chunked(f: Callable, lanes: Any, size: int, quick: Callable | None = None) -> Any:
    """`f` over the leading axis of every leaf, `size` lanes at a time in one compiled loop.

    `quick` returns what f does, and whether that is sound: where it is not, f goes over the lane. A
    lane that is sound has the same value whatever its neighbours need. Then there is no reverse
    mode.
    """
    count = jax.tree.leaves(lanes)[0].shape[0]
    run: Callable = jax.vmap(quick or f)
    if size < count:
        by_one = functools.partial(jax.lax.map, quick or f)
        run = by_one if size == 1 else functools.partial(in_turn, run, size=size)
    return run(lanes) if quick is None else _finished(f, lanes, *run(lanes))


def _finished(f: Callable, lanes: Any, found: Any, sound: jax.Array) -> Any:
    """`found`, in its place what f returns of lanes that are not sound, one by one."""
    order, count = jnp.argsort(sound, stable=True), jnp.sum(~sound)

    def turn(carry):
        i, found = carry
        usual = f(jax.tree.map(lambda a: a[order[i]], lanes))
        return i + 1, jax.tree.map(lambda a, b: a.at[order[i]].set(b), found, usual)

    init = jnp.zeros_like(count), found
    return jax.lax.while_loop(lambda carry: carry[0] < count, *_loops.steady(turn, init))[1]


def in_turn(f: Callable, lanes: Any, size: int) -> Any:
    """`f` of `size` of the lanes, no more than there are, and then of the next.

    Or of a few less, so that the chunks are even. The last is filled up with lanes of that before,
    so that one program does for all.
    """
    count = jax.tree.leaves(lanes)[0].shape[0]
    chunks = -(-count // size)
    size = -(-count // chunks)

    def step(_, start):
        return None, f(jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, start, size), lanes))

    starts = jnp.minimum(size * jnp.arange(chunks), count - size)
    _, found = jax.lax.scan(step, None, starts)
    twice = chunks * size - count

    def joined(a):
        head = a[:-1].reshape(-1, *a.shape[2:])
        return jnp.concatenate([head, a[-1, twice:]])

    return jax.tree.map(joined, found)


def in_chunks(f: Callable[..., tuple[Any, Any]]) -> Callable[..., tuple[Any, Any]]:
    """`f(data, *others) -> (shared, own)`, whose lanes go chunk by chunk where they are many.

    A lane is a row of many small arrays, which then stay in cache, and a straggler keeps its own
    chunk waiting only. Where several devices might hold the lanes, or one has no such cache, they
    go at once. Not to be differentiated.

    Args:
      f: `shared` is the same for all lanes that share `data.x`.
    """
    many = jax.custom_batching.custom_vmap(f)

    @many.def_vmap
    def _(axis_size, in_batched, *operands):
        apart = bool(in_batched[0].x)
        entries, dtype = operands[0].x[0].size, _checks.working_dtype(operands[0].x)
        size = own_size(entries, dtype) if apart else 0
        if axis_size <= size or size < 2 or not _platform.on_one_cpu():
            out = (0 if apart else None, 0)
            found = _batched.each(f, axis_size, in_batched, out_axes=out)(*operands)
        else:
            own, joined = _apart(in_batched, operands)
            lane = jax.vmap(lambda own: f(*joined(own)))
            found = in_turn(lane, own, even_size(axis_size, entries, dtype))
        shared, own = found
        return found, (_batched.all_of(shared, apart), _batched.all_of(own))

    return many


def _apart(in_batched: Any, operands: Any) -> tuple[list[jax.Array], Callable]:
    """Those leaves of the operands that are mapped, and what makes operands of such leaves."""
    leaves, tree = jax.tree.flatten(operands)
    mine = jax.tree.leaves(in_batched)

    def joined(own):
        each = iter(own)
        filled = [next(each) if m else leaf for m, leaf in zip(mine, leaves, strict=True)]
        return jax.tree.unflatten(tree, filled)

    return [leaf for m, leaf in zip(mine, leaves, strict=True) if m], joined


def bounded(
    f: Callable[..., Any], size: int, plain: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """`f(data, *others)`, a program of many fits to `data[0]`, its own lanes few at a time.

    So what a vmap of it holds has a bound, whoever maps, and so has a vmap of that. Derivatives
    are of all lanes at once, as reverse mode knows no rule of ours for a vmap.

    Args:
      f: it closes over nothing that is traced.
      size: what it holds, in bytes.
      plain: what is differentiated in its place, if it has no reverse mode.
    """
    program = jax.jit(f)  # traced once, however it is mapped
    run = jax.custom_jvp(_in_bounds(program, size))
    run.defjvp(lambda primals, tangents: jax.jvp(plain or program, primals, tangents))
    return run


def _in_bounds(program, size):
    run = jax.custom_batching.custom_vmap(program)

    @run.def_vmap
    def _(axis_size, in_batched, *operands):
        axes = tuple(map(_batched.axes_of, in_batched))
        own, joined = _apart(in_batched, operands)
        room = _platform.enlarged(PROGRAMS_BYTES[in_batched[0][0]])
        most = _even(axis_size, room // size)

        def together(own):
            many = jax.vmap(program, in_axes=axes)
            return _in_bounds(many, most * size)(*joined(own))

        if jax.device_count() > 1:  # which may hold some of the lanes each
            found = jax.vmap(program, in_axes=axes)(*operands)
        elif most == axis_size:
            found = together(own)
        elif most == 1:
            found = jax.lax.map(lambda own: run(*joined(own)), own)
        else:
            found = in_turn(together, own, most)
        return found, _batched.all_of(found)

    return run


def of_closed_form(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f(data, *others)`, a closed form, its lanes `in_chunks`, with the derivatives of f."""
    many = in_chunks(lambda *operands: ((), f(*operands)))

    def fit(*operands):
        return _implicit.derived(f, many(*jax.lax.stop_gradient(operands))[1], operands)

    return fit


def mean_of(values: jax.Array, *, axis: int = 0) -> tuple[jax.Array, jax.Array]:
    """Mean and its standard error over the folds that were judged, which are not NaN."""
    judged = ~jnp.isnan(values)
    count = jnp.sum(judged, axis=axis)
    total = jnp.maximum(count, 1).astype(values.dtype)
    mean = jnp.sum(jnp.where(judged, values, 0), axis=axis) / total
    away = jnp.where(judged, values - jnp.expand_dims(mean, axis), 0)
    spare = jnp.maximum(count - 1, 1).astype(values.dtype)
    error = jnp.sqrt(jnp.sum(away**2, axis=axis) / spare / total)
    return jnp.where(count > 0, mean, jnp.nan), jnp.where(count > 1, error, jnp.nan)

"""The largest of rows that have weight, in lanes too."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin._base import _batched, _loops, _platform

# Of a row in so many lanes, which is worth a turn of a loop.
ROW_ENTRIES = 256
# Entries whose columns may be sorted for the sake of lanes, and places in the order that are tried.
RANKED_ENTRIES, RANKS = 10_000, 20


def members(y: jax.Array, k: int) -> jax.Array:
    """Which rows are of each of k classes, in part at least: `(n, k)`."""
    if y.ndim == 2:
        return y > 0
    if jnp.issubdtype(y.dtype, jnp.floating):
        return jnp.stack([y < 1, y > 0], axis=1)
    return y[:, None] == jnp.arange(k, dtype=y.dtype)[None, :]


@jax.custom_batching.custom_vmap
def some(held: jax.Array, of: jax.Array) -> jax.Array:
    """Which columns of `of (n, k)` any of the rows `held (n,)` has, `(k,)`; bool all."""
    return jnp.any(of & held[:, None], axis=0)


@some.def_vmap
def _(axis_size, in_batched, held, of):
    """How many: lanes that share `of` are rows of one product."""
    if in_batched[1]:
        return _batched.each(some.fun, axis_size, in_batched)(held, of), True
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
        return _batched.each(largest.fun, axis_size, in_batched)(weight, a), True
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

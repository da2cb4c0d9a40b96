"""Pool adjacent violators: which neighbours have one value in an isotonic regression."""

import jax
import jax.numpy as jnp

from jaxlin._base import _batched


@jax.custom_batching.custom_vmap
def increasing(weight: jax.Array, total: jax.Array) -> jax.Array:
    """Which pool each place is in, `(n,)` int32, numbered from 0 (Ayer et al., 1955).

    A pool's value is total / weight, over all its places; values increase from pool to pool. Pools
    lie on a stack: the last takes in the one below it while that has no smaller value, and else the
    next place begins a pool. That is at most 2 n turns of a few instructions.

    Args:
      weight: `(n,)`; a place without weight is in the pool of the one before it.
      total: `(n,)`, 0 where there is no weight.
    """
    n = len(weight)
    if n > 1 / jnp.finfo(weight.dtype).eps:  # places are kept beside the sums, in their dtype
        raise ValueError(
            f"scores: expected at most {1 / jnp.finfo(weight.dtype).eps:.0f} rows of "
            f"{weight.dtype}, got {n}; float64 takes more"
        )

    def turn(carry):
        i, top, last, below = carry
        under = jax.lax.dynamic_slice(below, (top, jnp.zeros_like(top)), (1, 3))[0]
        # Written beneath what was read, so that XLA keeps one buffer: it would copy all of it at
        # each turn, were the read fused with what follows, or free to come after the write.
        under = jax.lax.cond(top >= 0, lambda a: a, lambda a: -a, under)
        written = jnp.where(jnp.isnan(under), under, last)
        below = jax.lax.dynamic_update_slice(below, written[None], (top + 1, jnp.zeros_like(top)))
        merge = (top > 0) & (under[1] * last[0] >= last[1] * under[0])
        following = jnp.stack([weight[i % n], total[i % n], i.astype(weight.dtype)])
        last = jnp.where(
            merge, jnp.stack([last[0] + under[0], last[1] + under[1], under[2]]), following
        )
        return jnp.where(merge, i, i + 1), jnp.where(merge, top - 1, top + 1), last, below

    below = jnp.zeros((n + 2, 3), weight.dtype)  # the lowest of which is no pool
    first = jnp.stack([weight[0], total[0], jnp.zeros_like(weight[0])])
    start = jnp.ones((), jnp.int32), jnp.zeros((), jnp.int32), first, below
    _, top, _, below = jax.lax.while_loop(lambda carry: carry[0] <= n, turn, start)
    there = (jnp.arange(n + 2, dtype=jnp.int32) <= top)[1:]
    begins = jnp.where(there, below[1:, 2], n).astype(jnp.int32)
    marks = jnp.zeros(n + 1, jnp.int32).at[begins].max(1)[:n]
    return jnp.cumsum(marks).astype(jnp.int32) - 1


@increasing.def_vmap
def _(axis_size, in_batched, weight, total):
    """One after the other: side by side each would wait for the slowest, and copy its stack."""
    lanes = (
        a if mapped else jnp.broadcast_to(a, (axis_size, *a.shape))
        for a, mapped in zip((weight, total), in_batched, strict=True)
    )
    found = jax.lax.map(lambda lane: increasing(*lane), tuple(lanes))
    return found, _batched.all_of(found)

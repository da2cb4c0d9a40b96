"""Sums and maxima over the devices that hold one fit's rows: the package's only collectives."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from jaxlin._base._checks import Axis

# Integers are summed over devices by their digits, exactly for up to so many devices.
RADIX = 4096


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


def where_rows(keep: jax.Array, a: jax.Array) -> jax.Array:
    """`a` in the rows to `keep: (n,)`, 0 in the others."""
    return jnp.where(keep.reshape(keep.shape + (1,) * (a.ndim - 1)), a, 0)

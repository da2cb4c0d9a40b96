"""Products with a table whose zeros are not held: rows are gathered, and columns scattered to.

Both in one loop over the entries, which is what the compiler makes of them: as quick as scipy's
products, and the scatter twice as quick as gathers from a copy of x that is sorted by columns.
Shapes: `x` a Padded of n rows and d columns, of indices that are in range.
"""

import jax
import jax.numpy as jnp

from jaxlin._base._checks import safe_range
from jaxlin.sparse import Padded

# What is promised, `padded` has seen to.
IN_RANGE = "promise_in_bounds"
# Entries in a block of a pass, which stay in cache; as many as columns at least, as of each block
# are made all of these.
BLOCK = 2**17


def across(thetas: jax.Array, x: Padded) -> jax.Array:
    """`thetas (q, d)` times each row: `(q, n)`."""

    def one(theta):
        return jnp.sum(x.values * theta.at[x.indices].get(mode=IN_RANGE), axis=1)

    # In turn: a row's entries in all of them at once are read five times as slowly.
    return one(thetas[0])[None] if len(thetas) == 1 else jax.lax.map(one, thetas)


def along(pulls: jax.Array, x: Padded, power: int = 1) -> jax.Array:
    """The sum of the rows, their entries to a power, by each of `pulls (q, n)`: `(q, d)`."""

    def one(pull):
        zeros = jnp.zeros(x.num_features, pull.dtype)
        return zeros.at[x.indices].add(x.values**power * pull[:, None], mode=IN_RANGE)

    return one(pulls[0])[None] if len(pulls) == 1 else jax.lax.map(one, pulls)


def largest(weight: jax.Array, x: Padded, sign: int) -> jax.Array:
    """The largest entry of each column times `sign` in the rows with weight, or -inf: `(d,)`.

    Of those that are not 0, as places that are left over hold zeros of any column.
    """
    held = (weight > 0)[:, None] & (x.values != 0)
    most = jnp.full(x.num_features, -jnp.inf, x.dtype)
    return most.at[x.indices].max(jnp.where(held, sign * x.values, -jnp.inf), mode=IN_RANGE)


def count(weight: jax.Array, x: Padded) -> jax.Array:
    """How many entries each column has in the rows with weight, int32 `(d,)`."""
    held = (weight > 0)[:, None] & (x.values != 0)
    none = jnp.zeros(x.num_features, jnp.int32)
    return none.at[x.indices].add(held.astype(jnp.int32), mode=IN_RANGE)


def away(weight: jax.Array, x: Padded, mean: jax.Array) -> jax.Array:
    """The weighted squares of each column's entries that are not 0 about its mean, `(d,)`."""
    apart = jnp.where(x.values != 0, x.values - mean[x.indices], 0)
    return along(weight[None], Padded(x.indices, apart, x.num_features), 2)[0]


def usable(x: Padded, feature_mask: jax.Array | None) -> jax.Array:
    """Which rows hold numbers in the safe range, and nothing else that is not masked, `(n,)`."""
    fine = jnp.abs(x.values) <= safe_range(x.dtype)  # False for NaN
    if feature_mask is not None:
        fine |= ~feature_mask[x.indices]
    return jnp.all(fine, axis=1)


def clean(x: Padded, ok: jax.Array, feature_mask: jax.Array | None) -> Padded:
    """The rows that are `ok (n,)`, without what is masked; 0 elsewhere."""
    keep = ok[:, None]
    if feature_mask is not None:
        keep = keep & feature_mask[x.indices]
    return Padded(x.indices, jnp.where(keep, x.values, 0), x.num_features)


def block_entries(shape: tuple[int, int], places: int) -> int:
    """Of a dense x of this shape in a block that holds so many entries of this one."""
    d = shape[1]
    rows = max(1, max(BLOCK, d) // max(places, 1))
    return rows * d

"""The programs that deal rows into folds, draw them, and move labels, for `resample`.

Each takes what `resample` has checked. Shapes: `n` rows, `k` classes; weights are `(lanes, n)`.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin._base import _codes, _mesh

# Rows whose number is packed with a random one, a power of two.
MOST_PACKED = 1024
# Sums of squares of shares, of at most 1, that are one but for rounding.
TIED = 1e-6


@functools.partial(jax.jit, static_argnums=(1, 2))
def kfold(key, n, folds):
    return _training_weights(jax.random.permutation(key, n) % folds, folds)


@functools.partial(jax.jit, static_argnums=2)
def stratified_kfold(key, y, folds):
    shuffled = jax.random.permutation(key, len(y))
    by_class = shuffled[jnp.argsort(y[shuffled], stable=True)]
    place = jnp.argsort(by_class)  # the inverse permutation: where each row came to lie
    return _training_weights(place % folds, folds)


@functools.partial(jax.jit, static_argnums=2)
def group_kfold(key, groups, folds):
    n, rank = groups.shape[0], ranks(groups)
    size = jnp.zeros(n, jnp.int32).at[rank].add(1)

    def deal(total, group):
        fold = jnp.argmin(total).astype(jnp.int32)
        return total.at[fold].add(size[group]), fold

    drawn = jnp.arange(n) if key is None else jax.random.permutation(key, n)
    largest_first = drawn[jnp.argsort(-size[drawn], stable=True)]
    _, dealt = jax.lax.scan(deal, jnp.zeros(folds, jnp.int32), largest_first)
    fold = jnp.zeros(n, jnp.int32).at[largest_first].set(dealt)
    return _training_weights(fold[rank], folds)


@functools.partial(jax.jit, static_argnums=(3, 4))
def stratified_group_kfold(key, y, groups, folds, k):
    n, rank = groups.shape[0], ranks(groups)
    members = _codes.members(y, k).astype(jnp.result_type(float))
    share = members / jnp.maximum(jnp.sum(members, axis=0), 1)[None, :]
    of_group = jnp.zeros((n, k), share.dtype).at[rank].add(share)

    def deal(total, group):
        # The variance over the folds changes by the square of the fold that takes the group, and
        # of equals it goes where there is least.
        more = jnp.sum((total + of_group[group][None, :]) ** 2 - total**2, axis=1)
        least = more <= jnp.min(more) + TIED
        fold = jnp.argmin(jnp.where(least, jnp.sum(total, axis=1), jnp.inf)).astype(jnp.int32)
        return total.at[fold].add(of_group[group]), fold

    drawn = jax.random.permutation(key, n)
    spread = jnp.max(of_group, axis=1) - jnp.min(of_group, axis=1)
    first = drawn[jnp.argsort(-spread[drawn], stable=True)]
    _, dealt = jax.lax.scan(deal, jnp.zeros((folds, k), share.dtype), first)
    return _training_weights(jnp.zeros(n, jnp.int32).at[first].set(dealt)[rank], folds)


@functools.partial(jax.jit, static_argnums=(1, 2))
def bootstrap(key, n, draws, groups=None):
    rank = jnp.arange(n, dtype=jnp.int32) if groups is None else ranks(groups)
    count = n if groups is None else jnp.max(rank) + 1

    def draw(key):
        drawn = jax.random.randint(key, (n,), 0, count)
        one = (jnp.arange(n, dtype=jnp.int32) < count).astype(jnp.result_type(float))
        times = jnp.zeros(n, one.dtype).at[drawn].add(one)
        return times if groups is None else times[rank]

    return jax.vmap(draw)(jax.random.split(key, draws))


@functools.partial(jax.jit, static_argnums=(1, 2))
def bayesian_bootstrap(key, n, draws, groups=None):
    weights = jax.random.exponential(key, (draws, n), jnp.result_type(float))
    weights = weights if groups is None else weights[:, ranks(groups)]
    return weights * (n / jnp.sum(weights, axis=1, keepdims=True))


@functools.partial(jax.jit, static_argnums=(2, 3))
def balanced(y, weight, k, axis):
    members = _codes.members(y, k)
    share = jnp.sum(jnp.where(members, weight[:, None], 0), axis=0)
    share, _ = _mesh.across(share, (), axis)
    present = jnp.maximum(jnp.sum(share > 0), 1).astype(weight.dtype)
    factor = jnp.sum(share) / present / jnp.where(share > 0, share, 1)
    # What is wrong with the data a fit is to say, of the data as they are.
    factor = jnp.where((share > 0) & jnp.isfinite(factor) & jnp.all(weight >= 0), factor, 1)
    own = jnp.sum(jnp.where(members, factor[None, :], 0), axis=1)
    return weight * jnp.where(jnp.any(members, axis=1), own, 1)


@functools.partial(jax.jit, static_argnums=4)
def permutations(key, y, strata, groups, draws):
    return jax.vmap(lambda key: permuted(key, y, strata, groups))(jax.random.split(key, draws))


def permuted(
    key: jax.Array, y: jax.Array, strata: jax.Array | None, groups: jax.Array | None = None
) -> jax.Array:
    """y with its entries moved at random within strata, those of a group together."""
    if groups is not None:
        return _permuted_groups(key, y, strata, groups)
    order = _shuffled(key, y.shape[0])
    if strata is None:
        return y[order]
    # The places of each stratum in their order, and its rows in the order drawn.
    places = jnp.argsort(strata, stable=True)
    drawn = order[jnp.argsort(strata[order], stable=True)]
    return jnp.zeros_like(y).at[places].set(y[drawn])


def _permuted_groups(key, y, strata, groups):
    n = y.shape[0]
    strata = jnp.zeros(n, jnp.int32) if strata is None else ranks(strata)
    # What of a group is in another stratum is another group.
    group = ranks(strata, groups)
    size = jnp.zeros(n, jnp.int32).at[group].add(1)
    first, rows = jnp.cumsum(size) - size, jnp.argsort(group, stable=True)
    place = (
        jnp.zeros(n, jnp.int32).at[rows].set(jnp.arange(n, dtype=jnp.int32) - first[group[rows]])
    )
    # Labels that are one in each group go anywhere; others to groups of as many rows.
    alike = jnp.all(y == y[rows[first[group]]])
    kind = jnp.full(n, n, jnp.int32).at[group].set(strata)
    kind = ranks(kind, jnp.where(alike, 0, size))
    given = permuted(key, jnp.arange(n, dtype=jnp.int32), kind)[group]
    return y[rows[first[given] + place % size[given]]]


def _shuffled(key: jax.Array, n: int) -> jax.Array:
    """The numbers below n in random order.

    A sort of single numbers is five times as fast as jax's, of pairs: so where there is room, the
    number is in the last bits of a random one. Two tie in the others once in four million pairs.
    """
    if n > MOST_PACKED:
        return jax.random.permutation(key, n)
    last = MOST_PACKED - 1
    drawn = jax.random.bits(key, (n,), jnp.uint32) & jnp.uint32(~np.uint32(last))
    return (jnp.sort(drawn | jnp.arange(n, dtype=jnp.uint32)) & last).astype(jnp.int32)


def ranks(*values: jax.Array) -> jax.Array:
    """The different values, or tuples of them, numbered from 0 in their order: `(n,)`, int32."""
    order = jnp.lexsort(values[::-1])
    steps = functools.reduce(jnp.logical_or, (jnp.diff(a[order]) != 0 for a in values))
    new = jnp.concatenate([jnp.zeros(1, bool), steps])
    return jnp.zeros(len(order), jnp.int32).at[order].set(jnp.cumsum(new).astype(jnp.int32))


def _training_weights(fold: jax.Array, folds: int) -> jax.Array:
    """`(folds, n)`: 0 where `fold: (n,)` says that a row is held out, else 1."""
    index = jnp.arange(folds, dtype=fold.dtype)
    return (fold[None, :] != index[:, None]).astype(jnp.result_type(float))

"""What a user gives as l1 and groups: a penalty on the sizes of weights, or of groups of them."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin._base import _checks
from jaxlin._linalg import power_of_two


class Size(NamedTuple):
    """A penalty on sizes.

    l1: `(d,)`, of each feature or its group
    groups: `(d,)` int32, which is that, or None
    """

    l1: jax.Array
    groups: jax.Array | None = None


def is_asked(l1: Any, groups: Any, num_groups: Any) -> bool:
    """Whether there are to be kinks."""
    if l1 is None and not (groups is None and num_groups is None):
        raise ValueError("groups: expected l1 too, the penalty on their sizes")
    return l1 is not None


def of(l1: Any, groups: Any, num_groups: Any, d: int, dtype: Any) -> Size:
    """What is given as l1, one number, or one for each feature or group."""
    if groups is None:
        if num_groups is not None:
            raise ValueError("num_groups: without groups, one number for each feature")
        return Size(_checks.penalty(l1, d, dtype, "l1"))
    known = _checks.concrete(groups)
    groups = np.asarray(groups) if known else _checks.array(groups, "groups")
    if groups.shape != (d,) or not jnp.issubdtype(groups.dtype, jnp.integer):
        raise ValueError(
            f"groups: expected integers, one for each feature, shape ({d},), got "
            f"{groups.dtype} of shape {groups.shape}"
        )
    if num_groups is None:
        if not known:
            raise TypeError("num_groups: expected a static integer where groups are traced")
        num_groups = 1 + int(np.max(groups, initial=0))
    count = _checks.static(num_groups, int, "num_groups")
    if count < 1:
        raise ValueError(f"num_groups: expected a positive integer, got {count}")
    outside = (groups < 0) | (groups >= count)
    if known and np.any(outside):
        at = int(np.argmax(outside))
        raise ValueError(f"groups: {int(groups[at])} at {at} is outside 0..{count - 1}")
    each = _checks.penalty(l1, count, dtype, "l1")
    # On the host while they are there, where they may have more bits than jax has.
    where = np.where if known else jnp.where
    groups = jnp.asarray(where(outside, 0, groups).astype(np.int32))
    return Size(jnp.where(outside, jnp.nan, jnp.asarray(each)[groups]), groups)


def value(size: Size, weights: jax.Array) -> jax.Array:
    """sum_j l1_j |w_j|, or sum_g l1_g |w_g|, of weights `(d,)` or `(k, d)`."""
    weights = jnp.atleast_2d(weights)
    if size.groups is None:
        return jnp.sum(size.l1 * jnp.sum(jnp.abs(weights), axis=0))
    # Each feature has a share of its group's norm, by its squares.
    norm = norms(size.groups, weights)
    share = weights * (weights / jnp.where(norm > 0, norm, 1)[None, :])
    return jnp.sum(size.l1 * jnp.sum(share, axis=0))


def norms(groups: jax.Array | None, weights: jax.Array) -> jax.Array:
    """The size of each weight, or `(d,)` of each feature's group, over all classes."""
    if groups is None:
        return jnp.abs(weights)
    weights = jnp.atleast_2d(weights)
    # Told by the first feature of the same group, as there may be more numbers than features.
    order = jnp.argsort(groups)
    first = jnp.searchsorted(groups[order], groups)
    # In units of the largest, whose square may be no number.
    size = jnp.max(jnp.abs(jax.lax.stop_gradient(weights)), axis=0)
    largest = jax.ops.segment_max(size, first, groups.size)[first]
    some = largest != 0
    unit = power_of_two(jnp.where(some, largest, 1))
    squares = jnp.sum((weights / unit[None, :]) ** 2, axis=0)
    total = jax.ops.segment_sum(squares, first, groups.size)[first]
    return jnp.where(some, unit * jnp.sqrt(jnp.where(some, total, 1)), 0)

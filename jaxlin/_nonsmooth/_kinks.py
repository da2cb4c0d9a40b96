"""Penalties that are not smooth at 0: of each weight, l1_j |w_j|, or of groups, l1_g |w_g|.

|w_g| is Euclid's norm of a group's weights; a weight alone is a group of one. The frame's
coordinates are weights in units, `ratio` times a number that a group has in common, which is in l1.

Shapes: `q` coordinates. What a group has, each of its coordinates has.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlin._linalg import dot

# Coordinates that have a number for each pair of them.
FEW = 2048


class Kinks(NamedTuple):
    """Penalties, nonnegative, 0 of what is free or out of play.

    group: `(q,)` int32 from 0 without gaps, or None where each coordinate is alone
    ratio: `(q,)` positive, or None
    same: `(q, q)`, 1 where two coordinates are of one group, or None: so many are told by numbers
    """

    l1: jax.Array
    group: Any = None
    ratio: Any = None
    same: Any = None


def of_groups(l1: jax.Array, group: jax.Array, unit: jax.Array) -> Kinks:
    """Of groups told apart by any numbers `(q,)`.

    A weight is `unit (q,)` times its coordinate, and out of play where that is 0.
    """
    alone = (unit == 0) | (l1 == 0)
    number = jnp.arange(group.size, dtype=group.dtype)
    # By sorting: those alone after all groups, each with a number of its own.
    order = jnp.lexsort((jnp.where(alone, number, 0), group, alone))
    known = jnp.stack([alone.astype(group.dtype), jnp.where(alone, number, group)])[:, order]
    new = jnp.any(known[:, 1:] != known[:, :-1], axis=0)
    rank = jnp.cumsum(jnp.concatenate([jnp.zeros(1, bool), new]))
    group = jnp.zeros(group.size, jnp.int32).at[order].set(rank.astype(jnp.int32))
    largest = jax.ops.segment_max(unit, group, group.size)[group]
    whole = jnp.where(alone, 1, largest)
    ratio = jnp.where(alone, 1, unit / whole)
    same = None
    if group.size <= FEW:  # products are quicker than sums by number
        same = (group[:, None] == group[None, :]).astype(l1.dtype)
    return Kinks(jnp.where(unit == 0, 0, l1 * whole), group, ratio, same)


def some(kinks: Kinks, index: jax.Array, whole: jax.Array) -> Kinks:
    """Of some coordinates `index (r,)`; those that are not `whole (r,)` are out of play."""
    if kinks.group is None:
        return Kinks(jnp.where(whole, kinks.l1[index], 0))
    l1 = jnp.where(whole, kinks.l1[index], 0)
    return of_groups(l1, kinks.group[index], jnp.where(whole, kinks.ratio[index], 0))


def sizes(kinks: Kinks, theta: jax.Array) -> jax.Array:
    """The norm of each coordinate's group."""
    return jnp.abs(theta) if kinks.group is None else _norm(kinks, kinks.ratio * theta)


def pulls(kinks: Kinks, slope: jax.Array) -> jax.Array:
    """The dual norm of each coordinate's group: the kinks hold what has none beyond l1."""
    return jnp.abs(slope) if kinks.group is None else _norm(kinks, slope / kinks.ratio)


def slope(kinks: Kinks, theta: jax.Array) -> jax.Array:
    """Of the penalties, where they have one, and 0 where they have none."""
    if kinks.group is None:
        return kinks.l1 * jnp.sign(theta)
    size = sizes(kinks, theta)
    return kinks.l1 * kinks.ratio * (kinks.ratio * theta / jnp.where(size > 0, size, 1))


def curvature(kinks: Kinks, theta: jax.Array, along: float | jax.Array = 0) -> jax.Array | None:
    """The second derivatives `(q, q)` likewise, or None: there are none.

    They are l1 over the norm across a group's weights, and 0 `along` them; with 1 in that place
    they are those of a parabola that is nowhere below the norm.
    """
    if kinks.group is None:
        return None
    size = sizes(kinks, theta)
    per_size = jnp.where(size > 0, kinks.l1 / jnp.where(size > 0, size, 1), 0)
    toward = kinks.ratio * (kinks.ratio * theta / jnp.where(size > 0, size, 1))
    across = jnp.where(together(kinks), toward[:, None] * toward[None, :], 0)
    return per_size[:, None] * (jnp.diag(kinks.ratio**2) - (1 - along) * across)


def value(kinks: Kinks, theta: jax.Array) -> jax.Array:
    return jnp.sum(slope(kinks, theta) * theta)


def held(kinks: Kinks, slope: jax.Array, firm: jax.Array) -> jax.Array:
    """The part of a slope that the kinks hold, of dual norm l1 at most; where `firm`, all of it."""
    l1 = kinks.l1
    if kinks.group is None:
        return jnp.where(firm, slope, jnp.clip(slope, -l1, l1))
    taken = pulls(kinks, jnp.where(firm, slope, 0)) / jnp.where(l1 > 0, l1, 1)
    room = l1 * jnp.sqrt(jnp.maximum(1 - taken**2, 0))
    size = pulls(kinks, jnp.where(firm, 0, slope))
    part = jnp.where(size > room, room / jnp.where(size > 0, size, 1), 1)
    return jnp.where(firm, slope, part * slope)


def violation(kinks: Kinks, smooth: jax.Array, theta: jax.Array) -> jax.Array:
    """The least subgradient's size, with the slope of the smooth part."""
    away = sizes(kinks, theta) > 0
    size = pulls(kinks, smooth + slope(kinks, theta))
    return jnp.where(away, size, jnp.maximum(size - kinks.l1, 0))


def together(kinks: Kinks) -> jax.Array:
    """`(q, q)`, whether two coordinates are of one group."""
    return kinks.group[:, None] == kinks.group[None, :]


def any_of(kinks: Kinks, such: jax.Array) -> jax.Array:
    """Whether any of each coordinate's group is `such (q,)`."""
    if kinks.group is None:
        return such
    return jax.ops.segment_max(such.astype(jnp.int32), kinks.group, such.size)[kinks.group] > 0


def _norm(kinks: Kinks, a: jax.Array) -> jax.Array:
    # Or squares of what is small would be 0.
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(a), initial=0))
    unit = jnp.where(largest > 0, largest, 1)
    squares = (a / unit) ** 2
    if kinks.same is None:
        squares = jax.ops.segment_sum(squares, kinks.group, a.size)[kinks.group]
    else:
        squares = dot(kinks.same, squares)
    # What is no number stays none: it is not within any bound.
    none = squares == 0
    return jnp.where(none, 0, unit * jnp.sqrt(jnp.where(none, 1, squares)))

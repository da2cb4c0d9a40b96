"""Visits: one row after the other, and at each mistake the plane moves.

A lane's visit is a few operations on d numbers, and most of its time is overhead. Of many lanes the
last axis is that of lanes, so that each operation is one of vectors over all: of the rows once for
a whole loop of epochs (`lanes_last`), and of the rest at each epoch (`walk`).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlin._base import _batched, _loops
from jaxlin.types import Hyperplane

# So many lanes fill the vectors that a visit of all is made of.
MANY_LANES = 16


class Visits(NamedTuple):
    """What the visits of an epoch read; of many lanes the last axis, but in an x that they share.

    x: `(n, d)`
    weight: `(n,)`, scaled by a power of two to less than 2, so that integers stay exact
    sign: `(n,)`, t where there is weight, 0 elsewhere
    rate: `(n,)`, step * weight * t
    feature_mask: `(d,)` or None
    bias: `()` bool
    """

    x: jax.Array
    weight: jax.Array
    sign: jax.Array
    rate: jax.Array
    feature_mask: jax.Array | None
    bias: jax.Array


def each_alone(
    observe: Callable, visits: Visits, start: Hyperplane, seen: Any, picks: Any = None
) -> tuple[Hyperplane, jax.Array, Any]:
    """One epoch: n visits, after each `seen = observe(seen, start, plane, wrong, weight)`.

    Args:
      observe: the last axis of all that it is given is that of lanes, where there are lanes.
      visits: what is read, of n rows and d features.
      start: the plane before the first, weights `(d,)` and bias `()`.
      seen: a pytree, what was observed before.
      picks: `(n,)`, the rows to visit; by default each in its turn.

    Returns:
      The plane after the last, the number `()` int32 of mistakes, and what was seen.
    """
    dtype = visits.rate.dtype

    # The index is the loop's own, not a carry: under vmap a visit then slices instead of gathering.
    def visit(i, carry):
        plane, mistakes, seen = carry
        i = i if picks is None else picks[i]
        row = jax.lax.dynamic_index_in_dim(visits.x, i, keepdims=False).astype(dtype)
        row = row.reshape(row.shape + (1,) * (plane.weights.ndim - row.ndim))
        if visits.feature_mask is not None:
            row = jnp.where(visits.feature_mask, row, 0)
        score = jnp.sum(row * plane.weights, axis=0) + plane.bias
        sign, rate = visits.sign[i], visits.rate[i]
        wrong = (sign * score <= 0) & (sign != 0)
        weights = jnp.where(wrong[None], plane.weights + rate[None] * row, plane.weights)
        moved = jnp.where(wrong & visits.bias, plane.bias + rate, plane.bias)
        plane = Hyperplane(weights=weights, bias=moved)
        seen = observe(seen, start, plane, wrong, visits.weight[i])
        return plane, mistakes + wrong.astype(jnp.int32), seen

    carry = start, jnp.zeros(start.bias.shape, jnp.int32), seen
    return jax.lax.fori_loop(0, visits.x.shape[0], *_loops.steady_fori(visit, carry))


def walk(
    observe: Callable, visits: Visits, start: Hyperplane, seen: Any, picks: Any = None
) -> tuple[Hyperplane, jax.Array, Any]:
    """As `each_alone`, of many lanes as vectors over them. Not to be differentiated."""
    alone = partial(each_alone, observe)
    if picks is not None:
        return alone(visits, start, seen, picks)
    many = jax.custom_batching.custom_vmap(alone)

    @many.def_vmap
    def _(axis_size, in_batched, *operands):
        if axis_size < MANY_LANES:
            return _vmapped(alone, axis_size, in_batched, operands)
        visits, *carry = jax.tree.map(partial(_last, axis_size), operands, tuple(in_batched))
        if not in_batched[0].x:
            visits = visits._replace(x=operands[0].x)
        found = jax.tree.map(lambda a: jnp.moveaxis(a, -1, 0), alone(visits, *carry))
        return found, _batched.all_of(found)

    return many(visits, start, seen)


def lanes_last(f: Callable) -> Callable:
    """`f(visits, *others)`; of many lanes the visits are laid out once as `walk` will want them.

    Not to be differentiated.
    """
    many = jax.custom_batching.custom_vmap(f)

    @many.def_vmap
    def _(axis_size, in_batched, visits, *others):
        first = 0
        if axis_size >= MANY_LANES:
            first = -1
            visits = jax.tree.map(
                lambda a, b: jnp.moveaxis(a, 0, -1) if b else a, visits, in_batched[0]
            )
        return _vmapped(f, axis_size, in_batched, (visits, *others), first)

    return many


def _vmapped(f, axis_size, in_batched, operands, first=0):
    """`f` under a plain vmap, as a rule returns it; lanes of the first operand are at `first`."""
    axes = _batched.axes_of(in_batched[0], first), *map(_batched.axes_of, in_batched[1:])
    found = jax.vmap(f, in_axes=axes, axis_size=axis_size)(*operands)
    return found, _batched.all_of(found)


def _last(axis_size, a, batched):
    a = jnp.asarray(a)
    if batched:
        return jnp.moveaxis(a, 0, -1)
    return jnp.broadcast_to(a[..., None], (*a.shape, axis_size))


def either(condition: jax.Array, this: Hyperplane, that: Hyperplane) -> Hyperplane:
    """One plane or the other; the last axis is of lanes, if there are any."""
    return Hyperplane(
        weights=jnp.where(condition[None], this.weights, that.weights),
        bias=jnp.where(condition, this.bias, that.bias),
    )

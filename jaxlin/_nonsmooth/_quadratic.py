"""The minimum of a quadratic and of kinks: what a proximal Newton step asks for.

min over u of g . (u - at) + (u - at)' H (u - at) / 2 + the kinks' value, H positive semidefinite.

Coordinates, or groups, take turns (Friedman, Hastie and Tibshirani 2010, "Regularization paths for
generalized linear models via coordinate descent"), which finds what is 0; after each round those
that are not 0 leap to the minimum of their orthant, or as far as the first of them that becomes 0.
Those of groups, whose norms are curved, go Newton's way, as far as it leads down. Each lowers the
sum, and once the zeros are right the leaps end it.

Shapes: `p` coordinates.
"""

import functools

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _loops
from jaxlin._linalg import dot
from jaxlin._nonsmooth import _kinks
from jaxlin._nonsmooth._kinks import Kinks

# Rounds, at most, and leaps in each; and the part of the first violation at which they end.
ROUNDS, LEAPS, ENOUGH = 5, 16, 1e-6
# Units of rounding of what a violation is the difference of, below which there is none.
FLOOR_ULPS = 8
# Added to the unit diagonal of what the leap divides by, in units of rounding: of columns that
# depend on each other any solution will do.
RIDGE_ULPS = 64
# Halvings of a leap of groups, of which the longest is taken whose slope is this part of the first.
HALVINGS, FLATTER = 12, 0.5


def minimum(
    hess: jax.Array, grad: jax.Array, at: jax.Array, kinks: Kinks
) -> tuple[jax.Array, jax.Array]:
    """u `(p,)`, its zeros exact, and whether it is the minimum, or only on the way.

    Args:
      hess: `(p, p)`, of a coordinate out of play the identity's.
      grad: `(p,)`, g; 0 out of play.
      at: `(p,)`; 0 out of play.
    """
    diagonal = jnp.diagonal(hess)
    eps = float(jnp.finfo(grad.dtype).eps)
    curve = jnp.maximum(diagonal, eps * jnp.max(diagonal))
    floor = FLOOR_ULPS * eps * (kinks.l1 + jnp.abs(grad) + dot(jnp.abs(hess), jnp.abs(at)))
    per_unit = jax.lax.rsqrt(curve)
    if kinks.group is None:
        sweep, leaps = functools.partial(_sweep, hess, curve), functools.partial(_leaps, hess)
    else:
        bound = _bound(hess, kinks)
        sweep = functools.partial(_sweep_of_groups, hess, bound)
        leaps = functools.partial(_leaps_of_groups, hess)
        floor, per_unit = _kinks.pulls(kinks, floor), jax.lax.rsqrt(bound)

    def worst(u, slope):
        amiss = _kinks.violation(kinks, slope, u)
        return jnp.max(jnp.maximum(amiss - floor, 0) * per_unit)

    def unfinished(carry):
        i, _, _, left = carry
        return (i < ROUNDS) & (left > 0)

    first = worst(at, grad)

    def round_of(carry):
        i, u, slope, _ = carry
        u, slope = leaps(kinks, *sweep(kinks, u, slope))
        left = worst(u, slope)
        return i + 1, u, slope, jnp.where(left > ENOUGH * first, left, 0)

    init = jnp.int32(0), at, grad, first
    _, u, _, left = jax.lax.while_loop(unfinished, *_loops.steady(round_of, init))
    return u, left == 0


def shrunk(a: jax.Array, by: jax.Array) -> jax.Array:
    """`a` brought nearer to 0, and no further."""
    return jnp.sign(a) * jnp.maximum(jnp.abs(a) - by, 0)


def _sweep(hess, curve, kinks, u, slope):
    """Each coordinate to its own minimum, one after the other."""
    l1 = kinks.l1

    def one(j, carry):
        u, slope = carry
        new = shrunk(curve[j] * u[j] - slope[j], l1[j]) / curve[j]
        return u.at[j].set(new), slope + (new - u[j]) * hess[j]

    return jax.lax.fori_loop(0, u.size, *_loops.steady_fori(one, (u, slope)))


def _leaps(hess, kinks, u, slope):
    """Those that are not 0 to the minimum of their orthant, or as many as become 0 on the way."""

    def unfinished(carry):
        i, _, _, whole = carry
        return (i < LEAPS) & ~whole

    def turn(carry):
        i, u, slope, _ = carry
        return i + 1, *_leap(hess, kinks.l1, u, slope)

    init = jnp.int32(0), u, slope, jnp.bool_(False)
    return jax.lax.while_loop(unfinished, *_loops.steady(turn, init))[1:3]


def _leap(hess, l1, u, slope):
    """To the minimum of the orthant, or to the first kink; and whether it was the whole way."""
    held = (u != 0) | (l1 == 0)
    among = held[:, None] & held[None, :]
    ridge = RIDGE_ULPS * float(jnp.finfo(u.dtype).eps)
    factor = _linalg.factor(jnp.where(among, hess, jnp.eye(u.size, dtype=u.dtype)), ridge)
    sign = jnp.sign(u)
    move = -_linalg.solve(factor, jnp.where(held, slope + l1 * sign, 0))
    crosses = (l1 > 0) & held & ((u + move) * sign < 0)
    part = jnp.where(crosses, -u / jnp.where(crosses, move, 1), jnp.inf)
    length = jnp.minimum(1, jnp.min(part))
    new = jnp.where(part <= length, 0, u + length * move)
    sound = jnp.all(jnp.isfinite(new))
    new = jnp.where(sound & held, new, u)
    return new, slope + dot(hess, new - u), ~sound | (length >= 1)


def _bound(hess, kinks):
    """A bound of each group's curvature in the weights that its norm is of."""
    ratio, same = kinks.ratio, _kinks.together(kinks)
    rows = jnp.sum(jnp.where(same, jnp.abs(hess) / ratio[None, :], 0), axis=1) / ratio
    largest = jax.ops.segment_max(rows, kinks.group, rows.size)[kinks.group]
    return jnp.maximum(largest, float(jnp.finfo(rows.dtype).eps) * jnp.max(largest))


def _sweep_of_groups(hess, bound, kinks, u, slope):
    """Each group to 0 where that is its minimum, else lower; one after the other."""
    ratio = kinks.ratio

    def one(i, carry):
        u, slope = carry
        among = kinks.group == i
        at_zero = jnp.where(among, slope - dot(hess, jnp.where(among, u, 0)), 0)
        stays = jnp.linalg.norm(at_zero / ratio) <= kinks.l1
        moved = jnp.where(among, ratio * u - slope / (ratio * bound), 0)
        size = jnp.linalg.norm(moved)
        part = jnp.maximum(1 - kinks.l1 / (bound * jnp.where(size > 0, size, 1)), 0)
        new = jnp.where(among, jnp.where(stays, 0, part * moved / ratio), u)
        return new, slope + dot(hess, new - u)

    count = jnp.max(kinks.group) + 1
    return jax.lax.fori_loop(0, count, *_loops.steady_fori(one, (u, slope)))


def _leaps_of_groups(hess, kinks, u, slope):
    """Newton's steps of the groups that are not 0."""
    held = (_kinks.sizes(kinks, u) > 0) | (kinks.l1 == 0)
    among, eye = held[:, None] & held[None, :], jnp.eye(u.size, dtype=u.dtype)
    eps = float(jnp.finfo(u.dtype).eps)
    lengths = 0.5 ** jnp.arange(HALVINGS, dtype=u.dtype)

    def unfinished(carry):
        i, _, _, whole = carry
        return (i < LEAPS) & ~whole

    def turn(carry):
        i, u, slope, _ = carry
        curve = jnp.where(among, hess + _kinks.curvature(kinks, u), eye)
        pull = jnp.where(held, slope + _kinks.slope(kinks, u), 0)
        move = -_linalg.solve(_linalg.factor(curve, RIDGE_ULPS * eps), pull)
        turned = dot(hess, move)

        def along(length):
            there = slope + length * turned + _kinks.slope(kinks, u + length * move)
            return jnp.sum(there * move)

        first, slopes = jnp.sum(pull * move), jax.vmap(along)(lengths)
        fine = slopes <= -FLATTER * first
        length = jnp.where(jnp.any(fine), lengths[jnp.argmax(fine)], 0)
        new = u + length * move
        sound = jnp.all(jnp.isfinite(new)) & (first < 0)
        new = jnp.where(sound & held, new, u)
        noise = FLOOR_ULPS * eps * (kinks.l1 + jnp.abs(slope) + dot(jnp.abs(hess), jnp.abs(u)))
        near = (length >= 1) & (jnp.abs(slopes[0]) <= ENOUGH**2 * -first)
        near |= jnp.all(jnp.abs(pull) <= noise)
        return i + 1, new, slope + dot(hess, new - u), ~sound | near | (length == 0)

    init = jnp.int32(0), u, slope, jnp.bool_(False)
    return jax.lax.while_loop(unfinished, *_loops.steady(turn, init))[1:3]

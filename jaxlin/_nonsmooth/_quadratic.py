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
# Newton's steps to the length of a group.
LENGTHS = 12


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
        bound = _diagonal_bound(hess, kinks)
        sweep = functools.partial(_sweep_of_groups, hess, bound)
        leaps = functools.partial(_leaps_of_groups, hess)
        floor, per_unit = _kinks.pulls(kinks, floor), 1 / _kinks.pulls(kinks, jnp.sqrt(bound))

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


def _diagonal_bound(hess, kinks):
    """A diagonal matrix that is no less than each group's part of the Hessian, `(p,)`."""
    rows = jnp.sum(jnp.where(_kinks.together(kinks), jnp.abs(hess), 0), axis=1)
    return jnp.maximum(rows, float(jnp.finfo(rows.dtype).eps) * jnp.max(rows))


def _sweep_of_groups(hess, bound, kinks, u, slope):
    """Each group to 0 where that is its minimum, else lower; one after the other."""
    l1, ratio = kinks.l1, kinks.ratio

    def one(i, carry):
        u, slope = carry
        among = kinks.group == i
        at_zero = jnp.where(among, slope - dot(hess, jnp.where(among, u, 0)), 0)
        stays = jnp.linalg.norm(at_zero / ratio) <= l1
        lower = _shrunk(bound, jnp.where(among, bound * u - slope, 0), ratio, l1)
        new = jnp.where(among, jnp.where(stays, 0, lower), u)
        return new, slope + dot(hess, new - u)

    count = jnp.max(kinks.group) + 1
    return jax.lax.fori_loop(0, count, *_loops.steady_fori(one, (u, slope)))


def _shrunk(bound, pull, ratio, l1):
    """The minimum over u of sum_j bound_j u_j^2 / 2 - pull_j u_j, and of l1 |ratio u|, one group's.

    With its length v, u_j = pull_j v / (bound_j v + l1 ratio_j^2), and the length of ratio u is v:
    in v the reciprocal of the quotient is concave, and Newton's method comes from below.
    """

    def step(_, length):
        below = bound * length + l1 * ratio**2
        part = ratio * pull / jnp.where(below > 0, below, 1)
        size = jnp.linalg.norm(part)
        change = jnp.sum(part**2 * bound / jnp.where(below > 0, below, 1))
        more = (size - 1) * size**2 / jnp.where(change > 0, change, 1)
        return length + jnp.where(jnp.isfinite(more), jnp.maximum(more, 0), 0)

    nothing = jnp.zeros((), pull.dtype)
    length = jax.lax.fori_loop(0, LENGTHS, *_loops.steady_fori(step, nothing))
    below = bound * length + l1 * ratio**2
    return jnp.where(l1 > 0, pull * length / jnp.where(below > 0, below, 1), pull / bound)


def _leaps_of_groups(hess, kinks, u, slope):
    """Newton's steps of the groups that are not 0.

    One that must be shortened, as it leads a group across 0, is followed by one to the minimum with
    parabolas in place of the norms, which leads none there (Hunter and Li 2005, "Variable selection
    using MM algorithms").
    """
    held = (_kinks.sizes(kinks, u) > 0) | (kinks.l1 == 0)
    among, eye = held[:, None] & held[None, :], jnp.eye(u.size, dtype=u.dtype)
    eps = float(jnp.finfo(u.dtype).eps)
    lengths = 0.5 ** jnp.arange(HALVINGS, dtype=u.dtype)

    def unfinished(carry):
        i, _, _, _, done = carry
        return (i < LEAPS) & ~done

    def turn(carry):
        i, u, slope, safe, _ = carry
        curve = jnp.where(among, hess + _kinks.curvature(kinks, u, safe), eye)
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
        stuck = ~sound | ((length == 0) & (safe > 0))
        shortened = ((length < 1) & (safe == 0)).astype(u.dtype)
        return i + 1, new, slope + dot(hess, new - u), shortened, stuck | near

    init = jnp.int32(0), u, slope, jnp.zeros((), u.dtype), jnp.bool_(False)
    return jax.lax.while_loop(unfinished, *_loops.steady(turn, init))[1:3]

"""The minimum of a quadratic and a weighted sum of sizes: what a proximal Newton step asks for.

min over u of g . (u - at) + (u - at)' H (u - at) / 2 + sum_j l1_j |u_j|, H positive semidefinite.

Coordinates take turns (Friedman, Hastie and Tibshirani 2010, "Regularization paths for generalized
linear models via coordinate descent"), which finds what is 0; after each round those that are not 0
leap to the minimum of their orthant, or as far as the first of them that becomes 0. Either lowers
the sum, and once the zeros are right the leap ends it.

Shapes: `p` coordinates.
"""

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _loops
from jaxlin._linalg import dot

# Rounds, at most, and leaps in each; and the part of the first violation at which they end.
ROUNDS, LEAPS, ENOUGH = 5, 16, 1e-6
# Units of rounding of what a violation is the difference of, below which there is none.
FLOOR_ULPS = 8
# Added to the unit diagonal of what the leap divides by, in units of rounding: of columns that
# depend on each other any solution will do.
RIDGE_ULPS = 64


def minimum(
    hess: jax.Array, grad: jax.Array, at: jax.Array, l1: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """u `(p,)`, its zeros exact, and whether it is the minimum, or only on the way.

    Args:
      hess: `(p, p)`, of a coordinate out of play the identity's.
      grad: `(p,)`, g; 0 out of play.
      at: `(p,)`; 0 out of play.
      l1: `(p,)`, nonnegative.
    """
    diagonal = jnp.diagonal(hess)
    eps = float(jnp.finfo(grad.dtype).eps)
    curve = jnp.maximum(diagonal, eps * jnp.max(diagonal))
    floor = FLOOR_ULPS * eps * (l1 + jnp.abs(grad) + dot(jnp.abs(hess), jnp.abs(at)))
    per_unit = jax.lax.rsqrt(curve)

    def worst(u, slope):
        return jnp.max(jnp.maximum(violation(slope, u, l1) - floor, 0) * per_unit)

    def unfinished(carry):
        i, _, _, left = carry
        return (i < ROUNDS) & (left > 0)

    first = worst(at, grad)

    def round_of(carry):
        i, u, slope, _ = carry
        u, slope = _leaps(hess, l1, *_sweep(hess, curve, l1, u, slope))
        left = worst(u, slope)
        return i + 1, u, slope, jnp.where(left > ENOUGH * first, left, 0)

    init = jnp.int32(0), at, grad, first
    _, u, _, left = jax.lax.while_loop(unfinished, *_loops.steady(round_of, init))
    return u, left == 0


def violation(slope: jax.Array, u: jax.Array, l1: jax.Array) -> jax.Array:
    """The least subgradient's size at u, of the smooth part's `slope` there."""
    return jnp.where(u != 0, jnp.abs(slope + l1 * jnp.sign(u)), jnp.maximum(jnp.abs(slope) - l1, 0))


def shrunk(a: jax.Array, by: jax.Array) -> jax.Array:
    """`a` brought nearer to 0, and no further."""
    return jnp.sign(a) * jnp.maximum(jnp.abs(a) - by, 0)


def _sweep(hess, curve, l1, u, slope):
    """Each coordinate to its own minimum, one after the other."""

    def one(j, carry):
        u, slope = carry
        new = shrunk(curve[j] * u[j] - slope[j], l1[j]) / curve[j]
        return u.at[j].set(new), slope + (new - u[j]) * hess[j]

    return jax.lax.fori_loop(0, u.size, *_loops.steady_fori(one, (u, slope)))


def _leaps(hess, l1, u, slope):
    """Those that are not 0 to the minimum of their orthant, or as many as become 0 on the way."""

    def unfinished(carry):
        i, _, _, whole = carry
        return (i < LEAPS) & ~whole

    def turn(carry):
        i, u, slope, _ = carry
        return i + 1, *_leap(hess, l1, u, slope)

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

"""Tails of a sum of independent 0/1 labels times known numbers, far out and of few labels 1.

By the saddlepoint (Barndorff-Nielsen 1990; Dey, Schmidt, Abecasis and Lee 2017): where the tilted
sum has its mean at the value asked for. Shapes: `n` rows.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy import special

from jaxlin._linalg import _implicit, inner

# Within so many standard deviations the normal distribution is taken.
NORMAL_WITHIN = 2
MAX_STEPS = 200


class Sum(NamedTuple):
    """sum_i weight_i g_i (y_i - p_i), y_i being 1 with probability p_i = sigmoid(score_i).

    g, score, weight: `(n,)`
    """

    g: jax.Array
    score: jax.Array
    weight: jax.Array

    def slope(self, t: jax.Array) -> jax.Array:
        """The mean of the sum where its density is tilted by exp(t sum)."""
        up = jax.nn.sigmoid(self.score + t * self.g) - jax.nn.sigmoid(self.score)
        return inner(self.weight * self.g, up)

    def curve(self, t: jax.Array) -> jax.Array:
        """And its variance."""
        p = jax.nn.sigmoid(self.score + t * self.g)
        return inner(self.weight * self.g**2, p * (1 - p))

    def log_moment(self, t: jax.Array) -> jax.Array:
        """log E exp(t sum)."""
        up = jax.nn.softplus(self.score + t * self.g) - jax.nn.softplus(self.score)
        return inner(self.weight, up - t * self.g * jax.nn.sigmoid(self.score))


def two_sided(of: Sum, value: jax.Array) -> jax.Array:
    """The probability that the sum is at least as far from 0; NaN where no search ends."""
    sides = jnp.array([1, -1], value.dtype)
    tails = jax.vmap(lambda side: _tail(of._replace(g=side * of.g), jnp.abs(value)))(sides)
    z = jnp.abs(value) / jnp.sqrt(of.curve(jnp.zeros_like(value)))
    normal = special.erfc(z / jnp.sqrt(jnp.array(2, z.dtype)))
    return jnp.where(z <= NORMAL_WITHIN, normal, jnp.sum(tails))


def _tail(of: Sum, value: jax.Array) -> jax.Array:
    """The probability that the sum is at least `value`, positive."""
    found, known = _tilt(*jax.lax.stop_gradient((of, value)))
    # A number, so that no derivative of what is not told is NaN.
    found = jnp.where(known, found, 1)
    t = _implicit.root(_excess, None, (of, value), found[None], known)[0]
    rest = t * value - of.log_moment(t)
    sound = known & (rest > 0)
    w = jnp.sqrt(2 * jnp.where(sound, rest, 1))
    v = t * jnp.sqrt(of.curve(t))
    tail = special.erfc((w + jnp.log(v / w) / w) / jnp.sqrt(jnp.array(2, w.dtype))) / 2
    return jnp.where(sound, tail, jnp.nan)


def _excess(data, t):
    of, value = data
    return (of.slope(t[0]) - value)[None]


def _tilt(of, value):
    """t > 0 at which the tilted mean is the value, and whether it was found: Newton's steps between
    a t too small and one too large, doubled until there is one."""
    eps = float(jnp.finfo(value.dtype).eps)

    def going(state):
        _, t, left, steps = state
        lost = jnp.isnan(left) | ~jnp.isfinite(t)
        return (steps < MAX_STEPS) & ~lost & ~(jnp.abs(left) <= 16 * eps * value)

    def turn(state):
        (low, high), t, _, steps = state
        left = of.slope(t) - value
        low, high = jnp.where(left < 0, t, low), jnp.where(left < 0, high, t)
        ahead = t - left / of.curve(t)
        middle = jnp.where(jnp.isinf(high), 2 * t, (low + high) / 2)
        inside = (ahead > low) & (ahead < jnp.minimum(high, 4 * t))
        stays = jnp.abs(left) <= 16 * eps * value
        return (low, high), jnp.where(stays, t, jnp.where(inside, ahead, middle)), left, steps + 1

    zero = jnp.zeros_like(value)
    start = value / of.curve(zero)
    endless = zero + jnp.inf
    state = (zero, endless), start, endless, jnp.zeros((), jnp.int32)
    _, t, left, _ = jax.lax.while_loop(going, turn, state)
    # A sum in rounding may be no nearer than this.
    return t, jnp.isfinite(t) & (t > 0) & (jnp.abs(left) <= eps**0.5 * value)


def two_sided_of_columns(g: jax.Array, score: jax.Array, weight: jax.Array, values: jax.Array):
    """`two_sided` of each column of `g (n, c)` and its value: `(c,)`."""
    return jax.vmap(lambda g, value: two_sided(Sum(g, score, weight), value), (1, 0))(g, values)

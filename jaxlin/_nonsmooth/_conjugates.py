"""The conjugates of the losses: how far slopes are from those that a loss has at some scores.

An `excess` is f(s) + f*(a) - s . a of scores `(K,)`, slopes `(K,)` and a label: nonnegative, and 0
where the slopes are the loss's own. See `_duality`.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlin import losses
from jaxlin._smooth import _record

# Beyond the domain of a conjugate by more units of rounding than these it is infinite.
OUTSIDE_ULPS = 4


class Conjugate(NamedTuple):
    """What the record of a loss has beside what smooth fits want, in its words."""

    excess: Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
    steepest: float
    attained: bool = False

    def beside(self, loss: _record.Loss) -> _record.Loss:
        return loss._replace(**self._asdict())


def squares(scores: jax.Array, y: jax.Array) -> jax.Array:
    """Half the squared distance of a score from a number, or of scores from class indicators."""
    return jnp.sum((scores - _target(scores, y)) ** 2) / 2


def _target(scores: jax.Array, y: jax.Array) -> jax.Array:
    numbers = jnp.issubdtype(y.dtype, jnp.floating)
    return y[None] if numbers else jax.nn.one_hot(y, scores.size, dtype=scores.dtype)


def _squares(scores: jax.Array, slope: jax.Array, y: jax.Array) -> jax.Array:
    """The conjugate is |slope + t|^2 / 2 - |t|^2 / 2."""
    return squares(scores - slope, y)


def _squared_hinge(scores: jax.Array, slope: jax.Array, y: jax.Array) -> jax.Array:
    """The conjugate at a slope of -a t is a^2 / 4 - a."""
    sign = jnp.where(y > 0, 1, -1).astype(scores.dtype)
    short, pull = 1 - sign * scores[0], -sign * slope[0]
    over = jnp.maximum(short, 0)
    return (over - pull / 2) ** 2 + pull * (over - short)


def _logistic(scores: jax.Array, slope: jax.Array, y: jax.Array) -> jax.Array:
    asked = slope[0] + y.astype(slope.dtype)
    both = jnp.stack([asked, 1 - asked])
    return _of_shares(losses.logistic(scores[0], y), both, scores[0] * slope[0])


def _softmax(scores: jax.Array, slope: jax.Array, y: jax.Array) -> jax.Array:
    target = y if y.ndim else jax.nn.one_hot(y, scores.size, dtype=scores.dtype)
    pulled = jnp.sum(jnp.where(slope == 0, 0, scores) * slope)
    return _of_shares(losses.softmax(scores, y), slope + target, pulled)


def _of_shares(value: jax.Array, shares: jax.Array, pulled: jax.Array) -> jax.Array:
    """The conjugate is minus the entropy of the probabilities that the slope says."""
    parts = jnp.clip(shares, 0, 1)
    entropy = -jnp.sum(jax.scipy.special.xlogy(parts, parts))
    # Of no probabilities it is infinite, beyond rounding.
    outside = jnp.min(shares) < -OUTSIDE_ULPS * float(jnp.finfo(shares.dtype).eps)
    return jnp.where(outside, jnp.inf, value - entropy - pulled)


LOGISTIC = Conjugate(_logistic, steepest=1 / 4)
SOFTMAX = Conjugate(_softmax, steepest=1 / 2)
SQUARED_HINGE = Conjugate(_squared_hinge, steepest=2.0, attained=True)
SQUARES = Conjugate(_squares, steepest=1.0, attained=True)


@functools.cache
def record_of(loss: losses.Loss) -> _record.Loss:
    """Of one of the public losses, as much as a duality gap asks for."""
    if loss not in _KNOWN:
        raise ValueError(
            "loss: expected one of those that fits with l1 minimise, losses.logistic, softmax, "
            f"squared_hinge or squared, got {getattr(loss, '__name__', loss)}"
        )
    value, conjugate = _KNOWN[loss]

    def curvature(scores: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.trace(jax.hessian(value)(scores, y))

    joint = loss is losses.softmax
    return conjugate.beside(_record.Loss(value, curvature, _record.nothing, joint=joint))


def _of_one(loss: losses.Loss) -> losses.Loss:
    return lambda scores, y: loss(scores[0], y)


_KNOWN: dict[Any, tuple[losses.Loss, Conjugate]] = {
    losses.logistic: (_of_one(losses.logistic), LOGISTIC),
    losses.softmax: (losses.softmax, SOFTMAX),
    losses.squared_hinge: (_of_one(losses.squared_hinge), SQUARED_HINGE),
    losses.squared: (squares, SQUARES),
}

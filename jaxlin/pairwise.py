"""One plane per pair of classes, as one-vs-one fits return them: every plane votes.

Pair (i, j), i < j in lexicographic order, votes for j where its score is positive and for i
otherwise. Class i wins when all its pairs say so. Ties in votes go to the larger summed score, the
sum over its pairs of how far each is in its favour, and then to the lower class.

A pair of which one class is absent has weights 0 and a bias of 2^508, in float32 of 2^60, in favour
of the other: its vote counts, its size does not.

Shapes: `d` features, `k` classes, `p` = k (k - 1) / 2 pairs.
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin import linear
from jaxlin._base import _checks
from jaxlin.types import Hyperplane, Pairwise


def scores(params: Pairwise, x: Any) -> jax.Array:
    """The votes of each class with the rule for ties folded in: the largest wins.

    Args:
      params: a Pairwise.
      x: `(..., d)`.

    Returns:
      `(..., k)`: votes + r / k, r being the number of classes with a smaller summed score.

    Raises:
      TypeError: the params are of another type.
      ValueError: shapes that do not fit, or a number of planes that is none of pairs.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import pairwise
      >>> from jaxlin.types import Pairwise
      >>> cycle = Pairwise(weights=jnp.zeros((3, 1)), bias=jnp.array([1.0, -3.0, 2.5]))
      >>> pairwise.votes(cycle, jnp.array([0.0])).tolist()
      [1, 1, 1]
      >>> (3 * pairwise.scores(cycle, jnp.array([0.0]))).round().tolist()
      [5.0, 3.0, 4.0]
    """
    return _scores(*_checked(params, x))


def votes(params: Pairwise, x: Any) -> jax.Array:
    """How many pairs vote for each class.

    Args:
      params: a Pairwise.
      x: `(..., d)`.

    Returns:
      int32 `(..., k)`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import pairwise
      >>> from jaxlin.types import Pairwise
      >>> params = Pairwise(weights=jnp.ones((3, 1)), bias=jnp.array([0.0, -1.0, -2.0]))
      >>> pairwise.votes(params, jnp.array([[-1.0], [0.5], [3.0]])).tolist()
      [[2, 1, 0], [1, 2, 0], [0, 1, 2]]
    """
    return _votes(*_checked(params, x))


def predict(params: Pairwise, x: Any) -> jax.Array:
    """The class with the most votes; ties as said above.

    Args:
      params: a Pairwise.
      x: `(..., d)`.

    Returns:
      int32 class indices `(...)`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import pairwise
      >>> from jaxlin.types import Pairwise
      >>> params = Pairwise(weights=jnp.ones((3, 1)), bias=jnp.array([0.0, -1.0, -2.0]))
      >>> pairwise.predict(params, jnp.array([[-1.0], [0.5], [3.0]])).tolist()
      [0, 1, 2]
    """
    return _predict(*_checked(params, x))


def pairs(k: int) -> tuple[np.ndarray, np.ndarray]:
    """The classes of each pair.

    Args:
      k: the number of classes.

    Returns:
      `(i (p,), j (p,))`, i < j in lexicographic order.

    Example:
      >>> from jaxlin import pairwise
      >>> [a.tolist() for a in pairwise.pairs(3)]
      [[0, 0, 1], [1, 2, 2]]
    """
    first, second = np.triu_indices(k, 1)
    return first.astype(np.int32), second.astype(np.int32)


def _checked(params: Pairwise, x: Any) -> tuple[Pairwise, jax.Array]:
    if not isinstance(params, Pairwise):
        raise TypeError(f"params: expected a Pairwise, got {type(params).__name__}")
    weights = jnp.asarray(params.weights)
    bias = jnp.asarray(params.bias)
    if weights.ndim != 2 or bias.shape != weights.shape[:1]:
        raise ValueError(
            "params: expected a Pairwise of weights (p, d) and bias (p,), "
            f"got {weights.shape} and {bias.shape}; for lanes use jax.vmap"
        )
    count = weights.shape[0]
    if math.isqrt(8 * count + 1) ** 2 != 8 * count + 1 or not count:
        raise ValueError(f"params: expected k (k - 1) / 2 planes for k classes, got {count}")
    return Pairwise(weights=weights, bias=bias), _checks.array(x, "x")


def _margins(params: Pairwise, x: jax.Array) -> jax.Array:
    """`(..., p)`, positive for the second class of the pair."""
    planes = jax.vmap(linear.scores, in_axes=(0, None), out_axes=-1)
    return planes(Hyperplane(weights=params.weights, bias=params.bias), x)


def _for_classes(of_pairs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """What the second and what the first class of each pair gets of `(..., p)`, `(..., k)` each."""
    count = of_pairs.shape[-1]
    k = (1 + math.isqrt(8 * count + 1)) // 2
    first, second = (jnp.asarray(np.eye(k)[at], of_pairs.dtype) for at in pairs(k))
    exact = functools.partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
    return exact(of_pairs, second), exact(of_pairs, first)


@jax.jit
def _votes(params, x):
    won = (_margins(params, x) > 0).astype(params.weights.dtype)
    second, first = _for_classes(won)[0], _for_classes(1 - won)[1]
    return (second + first).astype(jnp.int32)


@jax.jit
def _scores(params, x):
    margins = _margins(params, x)
    far = jnp.abs(params.bias) >= _checks.safe_range(params.bias.dtype)
    alone = far & jnp.all(params.weights == 0, axis=1)
    second, first = _for_classes(jnp.where(alone, 0, margins))
    total = second - first
    below = jnp.sum(total[..., None, :] < total[..., :, None], axis=-1)
    counted = _votes(params, x)
    k = counted.shape[-1]
    lost = jnp.any(jnp.isnan(margins), axis=-1, keepdims=True)
    return jnp.where(lost, jnp.nan, counted.astype(total.dtype) + below.astype(total.dtype) / k)


@jax.jit
def _predict(params, x):
    return jnp.argmax(_scores(params, x), axis=-1).astype(jnp.int32)

"""Quadratic classifiers: the scores of a Quadratic, what they predict, and probabilities.

s_c(x) = x' A_c x + w_c . x + b_c, and the largest wins; the form of `qda` and of
`gaussian.to_quadratic`, whose scores are log-odds up to a part that all classes share. Forms are
computed for all rows at once. Shapes: `d` features, `k` classes, `...` any leading axes.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp

from jaxlin._base import _checks
from jaxlin._linalg import dot
from jaxlin.types import Quadratic


def scores(params: Quadratic, x: Any) -> jax.Array:
    """The scores s_c = x' A_c x + w_c . x + b_c.

    Args:
      params: a Quadratic.
      x: `(..., d)`.

    Returns:
      `(..., k)`. O(k d^2) an example.

    Raises:
      ValueError: shapes that do not fit.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import quadratic
      >>> from jaxlin.types import Quadratic
      >>> bowl = Quadratic(
      ...     quadratic=jnp.array([[[0.0]], [[1.0]]]),
      ...     weights=jnp.zeros((2, 1)),
      ...     bias=jnp.array([0.0, -4.0]),
      ... )
      >>> quadratic.scores(bowl, jnp.array([3.0])).tolist()
      [0.0, 5.0]
    """
    matrix, weights, bias = (jnp.asarray(a) for a in params)
    if matrix.ndim != 3 or weights.shape != matrix.shape[:2] or bias.shape != weights.shape[:1]:
        raise ValueError(
            "params: expected a Quadratic of quadratic (k, d, d), weights (k, d) and bias (k,), "
            f"got {matrix.shape}, {weights.shape} and {bias.shape}; jax.vmap over a leading axis"
        )
    x = _checks.real(x, "x")
    if x.ndim < 1 or x.shape[-1] != weights.shape[-1]:
        raise ValueError(f"x: expected shape (..., {weights.shape[-1]}), got {x.shape}")
    dtype = _checks.wider(_checks.working_dtype(x), _checks.working_dtype(weights))
    return _scores(*(a.astype(dtype) for a in (matrix, weights, bias, x)))


@jax.jit
def _scores(matrix, weights, bias, x):
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])

    def of_class(one):
        matrix, weights, bias = one
        return jnp.sum((dot(rows, matrix) + weights[None, :]) * rows, axis=1) + bias

    each = jax.lax.map(of_class, (matrix, weights, bias))
    return jnp.moveaxis(each, 0, -1).reshape(*x.shape[:-1], len(bias))


def predict(params: Quadratic, x: Any) -> jax.Array:
    """The class of the largest score; ties go to the lowest class.

    Args:
      params: a Quadratic.
      x: `(..., d)`.

    Returns:
      int32 `(...)`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import quadratic
      >>> from jaxlin.types import Quadratic
      >>> same = Quadratic(jnp.zeros((2, 1, 1)), jnp.zeros((2, 1)), jnp.zeros(2))
      >>> quadratic.predict(same, jnp.array([3.0])).item()
      0
    """
    return jnp.argmax(scores(params, x), axis=-1).astype(jnp.int32)


def probabilities(params: Quadratic, x: Any) -> jax.Array:
    """The softmax of the scores.

    Args:
      params: a Quadratic.
      x: `(..., d)`.

    Returns:
      `(..., k)`, rows summing to 1.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import quadratic
      >>> from jaxlin.types import Quadratic
      >>> same = Quadratic(jnp.zeros((2, 1, 1)), jnp.zeros((2, 1)), jnp.zeros(2))
      >>> quadratic.probabilities(same, jnp.array([3.0])).tolist()
      [0.5, 0.5]
    """
    return jax.nn.softmax(scores(params, x), axis=-1)


def log_probabilities(params: Quadratic, x: Any) -> jax.Array:
    """The logarithm of `probabilities`, accurate where they underflow.

    Args:
      params: a Quadratic.
      x: `(..., d)`.

    Returns:
      `(..., k)`, in nats.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import quadratic
      >>> from jaxlin.types import Quadratic
      >>> far = Quadratic(jnp.zeros((2, 1, 1)), jnp.array([[0.0], [1e4]]), jnp.zeros(2))
      >>> quadratic.log_probabilities(far, jnp.array([1.0]))[0].item()
      -10000.0
    """
    return jax.nn.log_softmax(scores(params, x), axis=-1)

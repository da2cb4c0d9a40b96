"""The four verbs over params of any type: `jaxlin.scores`, `predict` and the probabilities.

The type of the params says which model they are, so code that takes "a fitted classifier" needs
to know no more. Each model module is registered in one line of `_MODELS`.
"""

from types import ModuleType
from typing import Any

import jax

from jaxlin import gaussian, linear, ordinal, pairwise, quadratic
from jaxlin.types import (
    DiagonalGaussian,
    Gaussian,
    Hyperplane,
    Linear,
    Ordinal,
    Pairwise,
    Quadratic,
    TiedGaussian,
)

_MODELS: dict[type, ModuleType] = {
    Hyperplane: linear,
    Linear: linear,
    Pairwise: pairwise,
    Ordinal: ordinal,
    Quadratic: quadratic,
    Gaussian: gaussian,
    TiedGaussian: gaussian,
    DiagonalGaussian: gaussian,
}


def scores(params: Any, x: Any) -> jax.Array:
    """The scores of each example under params of any type.

    Args:
      params: as a fit returned them.
      x: `(..., d)`.

    Returns:
      `(...)` for a Hyperplane, else `(..., k)`.

    Raises:
      TypeError: the params are of no type that jaxlin knows.

    Example:
      >>> import jax.numpy as jnp
      >>> import jaxlin
      >>> plane = jaxlin.Hyperplane(weights=jnp.array([2.0]), bias=jnp.array(1.0))
      >>> jaxlin.scores(plane, jnp.array([[1.0], [-1.0]])).tolist()
      [3.0, -1.0]
    """
    return _model(params).scores(params, x)


def predict(params: Any, x: Any) -> jax.Array:
    """The predicted class of each example under params of any type.

    Args:
      params: as a fit returned them.
      x: `(..., d)`.

    Returns:
      int32 class indices `(...)`; ties go to the lower class.

    Raises:
      TypeError: the params are of no type that jaxlin knows.

    Example:
      >>> import jax.numpy as jnp
      >>> import jaxlin
      >>> plane = jaxlin.Hyperplane(weights=jnp.array([2.0]), bias=jnp.array(1.0))
      >>> jaxlin.predict(plane, jnp.array([[1.0], [-1.0]])).tolist()
      [1, 0]
    """
    return _model(params).predict(params, x)


def probabilities(params: Any, x: Any) -> jax.Array:
    """The class probabilities of each example; meaningful where the scores are log-odds.

    Args:
      params: as a fit returned them.
      x: `(..., d)`.

    Returns:
      `(..., k)`, k = 2 for a Hyperplane.

    Raises:
      TypeError: the params are of no type that jaxlin knows, or a Pairwise.

    Example:
      >>> import jax.numpy as jnp
      >>> import jaxlin
      >>> plane = jaxlin.Hyperplane(weights=jnp.array([2.0]), bias=jnp.array(0.0))
      >>> jaxlin.probabilities(plane, jnp.array([0.0])).tolist()
      [0.5, 0.5]
    """
    return _verb(params, "probabilities")(params, x)


def log_probabilities(params: Any, x: Any) -> jax.Array:
    """The logarithm of `probabilities`, accurate where they underflow.

    Args:
      params: as a fit returned them.
      x: `(..., d)`.

    Returns:
      `(..., k)`, in nats.

    Raises:
      TypeError: the params are of no type that jaxlin knows.

    Example:
      >>> import jax.numpy as jnp
      >>> import jaxlin
      >>> plane = jaxlin.Hyperplane(weights=jnp.array([1e4]), bias=jnp.array(0.0))
      >>> jaxlin.log_probabilities(plane, jnp.array([1.0]))[0].item()
      -10000.0
    """
    return _verb(params, "log_probabilities")(params, x)


def _verb(params: Any, name: str) -> Any:
    model = _model(params)
    if not hasattr(model, name):
        raise TypeError(f"params: a {type(params).__name__} votes, and has no {name}")
    return getattr(model, name)


def _model(params: Any) -> ModuleType:
    try:
        return _MODELS[type(params)]
    except KeyError:
        known = ", ".join(kind.__name__ for kind in _MODELS)
        raise TypeError(f"params: expected {known}, got {type(params).__name__}") from None

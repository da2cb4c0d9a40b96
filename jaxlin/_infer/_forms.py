"""Params as a vector, and whether a covariance is of the form in which they are."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from jaxlin._base import _checks
from jaxlin.types import Linear


def flat(params: Any, covariance: Any) -> tuple[jax.Array, Callable]:
    flat, back = ravel_pytree(jax.tree.map(lambda a: _checks.real(a, "params"), params))
    if np.shape(covariance) != (flat.size, flat.size):
        raise ValueError(
            f"covariance: expected shape {(flat.size, flat.size)} for these params, "
            f"got {np.shape(covariance)}"
        )
    return flat, back


def of_one_form(params: Any, covariance: Any) -> jax.Array:
    """The covariance; NaN where it is of softmax's params in another form than these are.

    One whose scores sum to zero has sums of no variance; one of a reference, a class of none.
    """
    covariance = jnp.asarray(covariance)
    if not isinstance(params, Linear) or np.ndim(params.weights) != 2:
        return covariance
    here = ~jnp.isneginf(jnp.asarray(params.bias))
    numbers = jnp.column_stack([jnp.asarray(params.weights), jnp.where(here, params.bias, 0)])
    numbers = jnp.where(here[:, None], numbers, 0).astype(covariance.dtype)
    k, d = np.shape(params.weights)
    order = jnp.column_stack([jnp.arange(k * d).reshape(k, d), k * d + jnp.arange(k)])
    error = jnp.sqrt(jnp.maximum(jnp.diagonal(covariance)[order], 0))
    of_sums = jax.vmap(lambda i: jnp.sum(covariance[i][:, i]), in_axes=1)(order)
    small = math.sqrt(float(jnp.finfo(covariance.dtype).eps))
    size = jnp.sum(error, axis=0)
    symmetric = jnp.any(size > 0) & jnp.all(jnp.abs(of_sums) <= small * size**2)
    off = jnp.abs(jnp.sum(numbers, axis=0)) > small * (jnp.sum(jnp.abs(numbers), axis=0) + size)
    still = here & jnp.all(error == 0, axis=1) & jnp.any(size > 0)
    other = symmetric & jnp.any(off) | jnp.any(still & jnp.any(numbers != 0, axis=1))
    return jnp.where(other, jnp.nan, covariance)

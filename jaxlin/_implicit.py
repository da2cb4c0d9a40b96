"""The derivative of a minimum with respect to the data: the implicit function theorem, once.

At the minimum the gradient F(point, data) is 0, so d point = -H^-1 dF, whatever steps led there.
The solver runs on stopped gradients and its answer is handed to `root`, which returns it
unchanged and attaches that derivative.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxlin import _linalg


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def root(
    gradient: Callable[[Any, jax.Array], jax.Array],
    symmetric: bool,
    data: Any,
    point: jax.Array,
    proper: jax.Array,
) -> jax.Array:
    """`point (p,)`, differentiable in `data`; nothing is traced for that unless it is asked for.

    Args:
      gradient: `(data, (p,)) -> (p,)`, zero at the minimum; it closes over no array.
      symmetric: whether its Jacobian is, and may be singular: then the solution of least norm is
        taken. If not, it must be regular.
      data: a pytree, all that the minimum depends on.
      point: the minimum, as a solver verified it.
      proper: `()` bool, whether it is one. If not, derivatives are NaN where they are used, and 0
        where they were masked before use.
    """
    return point


@root.defjvp
def _(gradient, symmetric, primals, tangents):
    data, point, proper = primals
    # Through itself, for derivatives of derivatives.
    found = root(gradient, symmetric, data, point, proper)
    _, moved = jax.jvp(lambda data: gradient(data, found), (data,), (tangents[0],))
    jacobian = jax.jacfwd(functools.partial(gradient, data))(found)
    return found, -_solved(jacobian, symmetric, moved, proper)


def root_of_closure(
    gradient: Callable[[jax.Array], jax.Array], point: jax.Array, proper: jax.Array
) -> jax.Array:
    """As a symmetric `root`, for a gradient that closes over what the minimum depends on."""

    def tangent_solve(linear, b):
        return _solved(jax.jacfwd(linear)(jnp.zeros_like(b)), True, b, proper)

    return jax.lax.custom_root(
        gradient, jax.lax.stop_gradient(point), lambda _, found: found, tangent_solve
    )


def _solved(jacobian: jax.Array, symmetric: bool, b: jax.Array, proper: jax.Array) -> jax.Array:
    if symmetric:
        jacobian = (jacobian + jacobian.T) / 2

    def solve_of(a):
        def solve(_, b):
            solution = _linalg.least_solve(a, b) if symmetric else jnp.linalg.solve(a, b)
            return jnp.where(proper, solution, jnp.where(jnp.any(b != 0), jnp.nan, 0.0))

        return solve

    return jax.lax.custom_linear_solve(
        lambda v: _linalg.dot(jacobian, v),
        b,
        solve_of(jacobian),
        transpose_solve=solve_of(jacobian.T),
        symmetric=symmetric,
    )


def guard(value: jax.Array, proper: jax.Array) -> jax.Array:
    """`value` where `proper`, else NaN, and so are its derivatives where they are used.

    Where they were masked before use they are 0, and a value of exactly 0 stays 0.
    """

    def solve(_, b):
        return jnp.where(proper | (b == 0), b, jnp.nan)

    return jax.lax.custom_linear_solve(lambda v: v, value, solve, symmetric=True)


def probe(tree: Any, dtype: Any) -> jax.Array:
    """Zero, whose derivative in every float of `tree` is 1: carries to them what `guard` says."""
    floats = [a for a in jax.tree.leaves(tree) if jnp.issubdtype(jnp.result_type(a), jnp.floating)]
    return sum((_zero(a).astype(dtype) for a in floats), jnp.zeros((), dtype))


@jax.custom_jvp
def _zero(a: jax.Array) -> jax.Array:
    return jnp.zeros((), a.dtype)


@_zero.defjvp
def _(primals, tangents):
    return _zero(*primals), jnp.sum(tangents[0])

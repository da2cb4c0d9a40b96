"""The derivative of a minimum with respect to the data: the implicit function theorem, once.

At the minimum the gradient F(point, data) is 0, so d point = -H^-1 dF, whatever steps led there.
The solver runs on stopped gradients and its answer is handed to `root`, which returns it
unchanged and attaches that derivative.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from jaxlin import _linalg
from jaxlin._base import _checks, _mesh

# Beyond so many coordinates the Jacobian is not formed: products with it solve the system.
DENSE_LIMIT = 1024
CG_STEPS = 2000


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def root(
    gradient: Callable[[Any, jax.Array], jax.Array],
    hessian: Callable[[jax.Array, Any], jax.Array] | None,
    data: Any,
    point: jax.Array,
    proper: jax.Array,
) -> jax.Array:
    """`point (p,)`, differentiable in `data`; nothing is traced for that unless it is asked for.

    Args:
      gradient: `(data, (p,)) -> (p,)`, zero at the minimum; it closes over no array.
      hessian: `((p,), data) -> (p, p)`, its Jacobian, positive semidefinite: where it is singular
        the solution of least norm is taken. It need not be differentiable. Or None for one that is
        not symmetric, and regular.
      data: a pytree, all that the minimum depends on.
      point: the minimum, as a solver verified it.
      proper: `()` bool, whether it is one. If not, derivatives are NaN where they are used, and 0
        where they were masked before use.
    """
    return point


@root.defjvp
def _(gradient, hessian, primals, tangents):
    data, point, proper = primals
    # Through itself, for derivatives of derivatives.
    found = root(gradient, hessian, data, point, proper)
    _, moved = jax.jvp(lambda data: gradient(data, found), (data,), (tangents[0],))
    of_point = functools.partial(gradient, data)
    if hessian is None:
        return found, -_solved(jax.jacfwd(of_point)(found), False, moved, proper)

    def product(v):
        return jax.jvp(of_point, (found,), (v,))[1]

    shared = bool(_checks.axes_in(data))
    if shared:
        # A product may close over nothing of which each device has its own.
        matrix = _jacobian(gradient, hessian, data, found)

        def product(v):
            return _linalg.dot(matrix, v)

    if found.size > DENSE_LIMIT and not shared:
        return found, -_solved_by_products(product, moved, proper)
    dense = hessian(*jax.lax.stop_gradient((found, data)))

    def solve(_, b):
        solution = _linalg.semidefinite_solve(dense, b)
        return jnp.where(proper, solution, jnp.where(jnp.any(b != 0), jnp.nan, 0.0))

    return found, -jax.lax.custom_linear_solve(product, moved, solve, symmetric=True)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def envelope(
    objective: Callable[[Any, jax.Array], jax.Array],
    data: Any,
    point: jax.Array,
    value: jax.Array,
    proper: jax.Array,
) -> jax.Array:
    """`value ()`, the least of an objective: its derivative in `data` is that at a fixed point.

    As the objective has no slope in the point. Nothing is traced for it unless it is asked for.

    Args:
      objective: `(data, (p,)) -> ()`; it closes over no array.
      data: a pytree, all that the objective depends on.
      point: the minimum, of `root`, by which the derivative has derivatives.
      value: what the objective is there, as a solver has it.
      proper: as of `root`.
    """
    return value


@envelope.defjvp
def _(objective, primals, tangents):
    data, point, _, proper = primals
    _, moved = jax.jvp(lambda data: objective(data, point), (data,), (tangents[0],))
    return envelope(objective, *primals), guard(moved, proper)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _jacobian(gradient, hessian, data, point):
    """`hessian(point, data)`, differentiable as the Jacobian of the gradient, by p passes."""
    return hessian(point, data)


@_jacobian.defjvp
def _(gradient, hessian, primals, tangents):
    def whole(data, point):
        return jax.jacfwd(functools.partial(gradient, data))(point)

    moved = jax.jvp(whole, primals, tangents)[1]
    return _jacobian(gradient, hessian, *primals), moved


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


def _solved_by_products(product: Callable, b: jax.Array, proper: jax.Array) -> jax.Array:
    """As `_solved`, by conjugate gradients, where the Jacobian would be too large to hold."""
    eps = float(jnp.finfo(b.dtype).eps)

    def solve(product, b):
        solution, _ = jax.scipy.sparse.linalg.cg(
            product, b, tol=eps ** (3 / 4), atol=0.0, maxiter=CG_STEPS
        )
        left = jnp.linalg.norm(product(solution) - b)
        # What has not converged is no derivative.
        found = proper & (left <= math.sqrt(eps) * jnp.linalg.norm(b))
        return jnp.where(found, solution, jnp.where(jnp.any(b != 0), jnp.nan, 0.0))

    return jax.lax.custom_linear_solve(product, b, solve, symmetric=True)


def guard(value: jax.Array, proper: jax.Array) -> jax.Array:
    """`value` where `proper`, else NaN, and so are its derivatives where they are used.

    Where they were masked before use they are 0, and a value of exactly 0 stays 0.
    """

    def solve(_, b):
        return jnp.where(proper | (b == 0), b, jnp.nan)

    return jax.lax.custom_linear_solve(lambda v: v, value, solve, symmetric=True)


def probe(tree: Any, proper: jax.Array, dtype: Any) -> jax.Array:
    """Zero; where not `proper` its derivative in every float of `tree` is 1.

    So it carries to them what `guard` says.
    """
    floats = [a for a in jax.tree.leaves(tree) if jnp.issubdtype(jnp.result_type(a), jnp.floating)]
    felt = sum((_zero(a).astype(dtype) for a in floats), jnp.zeros((), dtype))
    for axis in _checks.axes_in(tree):
        felt, _ = _mesh.across(felt, (), axis)
    return jnp.where(proper, 0, felt)


def guarded(params: Any, proper: jax.Array, given: Any, instead: Any = None) -> Any:
    """`params` where proper, else `instead`, or NaN; and there NaN are derivatives in `given`.

    Where what comes of it was masked before use they are 0.
    """

    felt = probe(given, proper, jax.tree.leaves(params)[0].dtype)

    def one(leaf, other):
        fine = guard(jnp.where(proper, leaf, 0) + felt, proper)
        return fine + jax.lax.stop_gradient(jnp.where(proper, 0, other))

    if instead is None:
        instead = jax.tree.map(lambda a: jnp.full_like(a, jnp.nan), params)
    return jax.tree.map(one, params, instead)


def told(info: Any, proper: jax.Array, given: Any) -> Any:
    """The Info, whose derivatives in what was `given` are NaN but of a proper objective.

    As in `guarded`, they are so where they are used.
    """
    return info._replace(
        objective=guarded(info.objective, proper, given, info.objective),
        residual=guarded(info.residual, proper & False, given, info.residual),
    )


def where(keep: jax.Array, params: Any) -> Any:
    """`params` where they are to be kept, else NaN."""
    return jax.tree.map(lambda a: jnp.where(keep, a, jnp.nan), params)


def _no_transpose(*_: Any) -> Any:
    raise NotImplementedError(
        "reverse mode (jax.grad, jax.jacrev) of a fit whose derivatives are those of its steps, as "
        "of the perceptron, the hinge and a hard margin: these go forward only, by jax.jvp or "
        "jax.jacfwd; svm.fit with losses.squared_hinge and logistic.fit have both"
    )


# The identity, of tangents: no function that jax offers has a transpose of its own and lanes.
_forward = Primitive("forward_mode_only")
_forward.def_impl(lambda a: a)
_forward.def_abstract_eval(lambda a: a)
ad.primitive_jvps[_forward] = lambda a, t: (
    _forward.bind(*a),
    _forward.bind(ad.instantiate_zeros(*t)),
)
ad.primitive_transposes[_forward] = _no_transpose
batching.defvectorized(_forward)
mlir.register_lowering(_forward, lambda _, a: [a])


@jax.custom_jvp
def _zero(a: jax.Array) -> jax.Array:
    # By way of `a`: under vmap jax 0.10 expects lanes of the value where the derivative has them.
    return (jnp.any(a > 0) & False).astype(a.dtype)


@_zero.defjvp
def _(primals, tangents):
    return _zero(*primals), jnp.sum(tangents[0])


def derived(
    f: Callable[..., Any], found: Any, operands: tuple[Any, ...], *, by_steps: bool = False
) -> Any:
    """What was `found` without derivatives, with those of `f(*operands)`, which it is.

    `by_steps`: whether f is a loop of as many steps as it takes, which has no reverse mode.
    """
    leaves, tree = jax.tree.flatten(jax.lax.stop_gradient(found))

    def of_numbers(leaves):
        return [leaf for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.inexact)]

    @jax.custom_jvp
    def followed(numbers, operands):
        return numbers

    @followed.defjvp
    def _(primals, tangents):
        both = jax.jvp(lambda *o: of_numbers(jax.tree.leaves(f(*o))), primals[1], tangents[1])
        # Known where the tangents are not, as in reverse mode: which so comes as far as to be told.
        return (followed(*primals), [_forward.bind(a) for a in both[1]]) if by_steps else both

    numbers = iter(followed(of_numbers(leaves), operands))
    return jax.tree.unflatten(tree, [next(numbers) if of_numbers([a]) else a for a in leaves])

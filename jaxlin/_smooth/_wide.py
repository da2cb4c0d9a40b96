"""A penalised fit of more features than rows, in the space of its rows.

At the optimum of J each penalised coordinate is theta = -P^-1 Z' r, P the penalties and r the
weighted slopes `(n, m)` of the rows' losses in their scores u: so u = b - K r, K = Z P^-1 Z', and
sum_i r_i = 0 if there is a bias b. The steps are Newton's by products with K, see `_dual`; where
these come to nothing, or to begin elsewhere than at 0, they are those of the fit of n features L,
Z P^-1/2 = L Q', with a penalty of 1, which has the same scores (Hastie and Tibshirani 2004,
"Efficient quadratic regularization for expression arrays"): of Cholesky's L, K = L L', or, where
that is none or leads nowhere, of that of QR, which does not square the data's condition. The point
is judged in the features' own space; and the derivative is that of the two equations for u and b.
Shapes as in `_passes`.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _loops, _mesh
from jaxlin._data import _rows
from jaxlin._linalg import _implicit, dot
from jaxlin._smooth import _dual, _frame, _light, _newton
from jaxlin._smooth._frame import Problem
from jaxlin._smooth._newton import Outcome
from jaxlin._smooth._record import Spec
from jaxlin.types import Linear

# Steps that make up for the rounding of K, at most.
REFINEMENTS = 10
# Added to K's diagonal, in units of its rounding: what it does not see is else hidden in rounding.
RIDGE_ULPS = 8
# Trials by products before a factor has its turn.
MOST_TRIALS = 50


class _Space(NamedTuple):
    """root: `(d,)`, P^-1/2; half: `(n, d)`, Z P^-1/2; kernel: `(n, n)`, K."""

    root: jax.Array
    half: jax.Array
    kernel: jax.Array


class _Basis(NamedTuple):
    """Q = half' turn.

    features, turn: `(n, n)`, L and what turns half; 0 if not `sound`
    half: `(n, d)`
    """

    features: jax.Array
    turn: jax.Array
    half: jax.Array
    sound: jax.Array


def solve(
    spec: Spec, problem: Problem, start: jax.Array | None, tol: jax.Array, cap: jax.Array
) -> Outcome:
    """Minimise J where every penalty is positive.

    Args:
      spec: the loss and the static choices.
      problem: of stopped gradients.
      start: `(m, p)`, or None for 0.
      tol: bound on the residual.
      cap: on the steps.

    Returns:
      What the run came to.
    """
    space = _space(problem)
    if start is None:
        found = _by_products(spec, problem, space, tol, jnp.minimum(cap, MOST_TRIALS))
    else:
        found = _by_factor(spec, problem, _of_kernel(space), start, tol, cap, jnp.int32(0))
    passed = found.certified & (found.point.residual <= tol)
    unproved = ~passed & (found.trials < cap)
    if not spec.complete:
        return found._replace(unsettled=unproved)

    def by_factor(problem, half, found, tol, cap):
        start = jnp.where(found.certified, found.point.theta, 0)
        new = _by_factor(spec, problem, _of_features(half), start, tol, cap, found.trials)
        # Where neither came to an end the lower one is returned, or that which is a number.
        passed = new.certified & (new.point.residual <= tol)
        value, other = new.point.value, found.point.value
        return _newton.where(passed | (value < other) | jnp.isnan(other), new, found)

    return _linalg.when(unproved, by_factor, found, (problem, space.half, found, tol, cap))


def _space(problem: Problem) -> _Space:
    root = jnp.sqrt(_inverse_penalty(problem))
    # What a row without weight holds may overflow. Made once: the product would make it twice.
    half = _mesh.where_rows(problem.rows.weight > 0, _features(problem) * root[None, :])
    half = jax.lax.optimization_barrier(half)
    kernel = dot(half, half.T)
    ridge = RIDGE_ULPS * float(jnp.finfo(kernel.dtype).eps)
    return _Space(root, half, kernel + jnp.diag(ridge * jnp.diagonal(kernel)))


def _theta(spec: Spec, space: _Space, point: _dual.Point) -> jax.Array:
    """`(m, p)`."""
    return _joined(spec, dot(point.alpha, space.half) * space.root[None, :], point.bias)


def _joined(spec: Spec, weights: jax.Array, bias: jax.Array) -> jax.Array:
    # Where a loop's body holds an array of no entries, jax 0.10 to 0.12 lose what LAPACK is told.
    return jnp.concatenate([weights, bias[:, None]], axis=1) if spec.bias else weights


def _by_products(spec, problem, space, tol, cap) -> Outcome:
    """By `_dual`, and as K has rounded the data some steps more from what these say."""
    run = _dual.begin(spec, problem, space.kernel, tol)

    def judged(dual):
        return _light.light(spec, problem, _theta(spec, space, dual))

    def refined(carry):
        point, dual, _, left = carry
        u = dot(dot(dual.alpha, space.half), space.half.T) + dual.bias[:, None]
        exact = _dual.look(run, dual.alpha, dual.bias, u)
        moved = _dual.moved(run, exact, _dual.direction(run, exact), 1.0)
        trial = judged(moved)
        better = trial.residual < point.residual
        point, dual = _newton.where(better, (trial, moved), (point, dual))
        return point, dual, better, left - 1

    dual, steps, trials, near = _dual.descend(run, cap)

    def unfinished(carry):
        point, _, better, left = carry
        rough = (point.residual > tol) | (spec.polished & (left == REFINEMENTS))
        return rough & better & (left > 0)

    init = judged(dual), dual, near, REFINEMENTS
    point, *_ = jax.lax.while_loop(unfinished, *_loops.steady(refined, init))
    never = jnp.bool_(False)
    return Outcome(
        point=point,
        steps=steps,
        trials=trials,
        certified=near,
        deficient=never,
        separated=never,
        quasi=never,
        unsettled=never,
    )


def _of_kernel(space: _Space) -> _Basis:
    """By Cholesky's factor, which rounding may have left none."""
    eps, n = float(jnp.finfo(space.kernel.dtype).eps), len(space.kernel)
    whole = _linalg.factor(space.kernel, eps * n)
    found = whole.lower / whole.scale[:, None], _linalg.lower_inverse(whole.lower, whole.scale).T
    sound = ~jnp.isnan(whole.pivot)
    lower, turn = (jnp.where(sound, a, 0) for a in found)
    return _Basis(lower, turn, space.half, sound)


def _of_features(half: jax.Array) -> _Basis:
    q, r = jnp.linalg.qr(half.T)
    return _Basis(r.T, jnp.eye(len(r), dtype=r.dtype), q.T, jnp.bool_(True))


def _by_factor(spec, problem, basis, start, tol, cap, before) -> Outcome:
    """By `_newton` on the features L of the rows."""
    d, root = problem.centre.size, jnp.sqrt(_inverse_penalty(problem))
    rows = problem.rows._replace(x=basis.features, feature_mask=None)
    ones = jnp.ones(len(basis.features), basis.features.dtype)
    reduced = _frame.make(rows, ones, spec.bias, problem.basis)
    held = dot(start[:, :d] / jnp.where(root > 0, root, 1)[None, :], basis.half.T)
    weights = dot(held, basis.turn)
    bias = start[:, d] if spec.bias else jnp.zeros_like(weights[:, 0])
    init = jax.tree.map(lambda a: _frame.of_basis(problem, a), Linear(weights, bias))
    first = _frame.enter(reduced, init, spec.bias)
    origin = _light.value_at_origin(spec, problem)
    run = _newton.descend(
        # It ends a step after the residual has passed, at the floor: of what is proved below.
        spec._replace(complete=False, polished=True),
        reduced,
        first,
        origin,
        tol / 16,
        cap,
        before,
        doubted=True,
    )

    def recover(coordinates):
        """Theta of the reduced fit's, not from r, whose rounding K would amplify."""
        plane = _frame.leave(reduced._replace(basis=None), coordinates, spec.bias)
        turned = dot(plane.weights, basis.turn.T)
        return _joined(spec, dot(turned, basis.half) * root[None, :], plane.bias)

    def refined(carry):
        """A Newton step from the gradient in the features' own space: L has rounded the data."""
        point, _, left = carry
        _, transpose = jax.vjp(recover, first)
        (grad,) = transpose(point.grad)
        step = recover(-_linalg.solve(run.whole, grad.reshape(-1)).reshape(first.shape))
        trial = _light.light(spec, problem, point.theta + step)
        better = trial.residual < point.residual
        point = jax.tree.map(functools.partial(jnp.where, better), trial, point)
        return point, better, left - 1

    point = _light.light(spec, problem, recover(run.point.theta))
    point, *_ = jax.lax.while_loop(
        lambda carry: (carry[0].residual > tol) & carry[1] & (carry[2] > 0),
        *_loops.steady(refined, (point, jnp.bool_(True), REFINEMENTS)),
    )
    never, root = jnp.bool_(False), _linalg.inverse_root(run.whole)
    return Outcome(
        point=point,
        steps=run.steps,
        trials=run.trials - 1,
        # The optimum is finite, but not near if the penalties are next to nothing.
        certified=basis.sound
        & _newton.is_certified(spec, reduced, root, _newton.decrement_of(run)),
        deficient=never,
        separated=never,
        quasi=never,
        unsettled=never,
    )


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def differentiable(spec: Spec, problem: Problem, theta: jax.Array, proper: jax.Array) -> jax.Array:
    """The optimum `theta (m, p)`, differentiable in everything that the problem holds."""
    return theta


@differentiable.defjvp
def _(spec, primals, tangents):
    problem, theta, proper = primals
    moved = functools.partial(_moved, spec, theta=theta, proper=proper)
    # Through itself, for derivatives of derivatives.
    found = differentiable(spec, problem, theta, proper)
    return found, jax.jvp(moved, (problem,), (tangents[0],))[1]


def _moved(spec: Spec, problem: Problem, theta: jax.Array, proper: jax.Array) -> jax.Array:
    """About theta, through the equations for u and b: where the data move it."""
    d = problem.centre.size
    features = _features(problem)
    inverse = _inverse_penalty(problem)
    kernel = dot(features * inverse[None, :], features.T)
    n = kernel.shape[0]
    still = jax.lax.stop_gradient(features)
    bias = theta[:, d:].T
    scores = dot(still, theta[:, :d].T) + jnp.sum(bias, axis=0)[None, :]
    # Those of rows without weight can overflow.
    state = jnp.concatenate([jnp.where(jnp.isfinite(scores), scores, 0), bias])
    equations, data = functools.partial(_equations, spec), (problem, kernel)
    flat = _implicit.root(equations, None, data, state.reshape(-1), proper)
    u, bias = jnp.split(flat.reshape(state.shape), [n])
    weights = -inverse[None, :] * dot(_pull(spec, problem, u).T, features)
    return jnp.concatenate([weights, bias.T], axis=1)


def _equations(spec: Spec, data: tuple[Problem, jax.Array], flat: jax.Array) -> jax.Array:
    """What is 0 at the optimum, of u and b: `(n m,)`, and m more with a bias."""
    problem, kernel = data
    n = kernel.shape[0]
    u, bias = jnp.split(flat.reshape(-1, problem.used.size), [n])
    pull = _pull(spec, problem, u)
    first = u + dot(kernel, pull)
    if not spec.bias:
        return first.reshape(-1)
    balance = jnp.where(problem.used, jnp.sum(pull, axis=0), bias[0])
    return jnp.concatenate([first - bias, balance[None, :]]).reshape(-1)


def _pull(spec: Spec, problem: Problem, u: jax.Array) -> jax.Array:
    """The weighted slopes of the losses in u, `(n, m)`."""
    rows = problem.rows
    scores = _frame.scores(problem, u)
    if rows.offset is not None:
        scores = scores + rows.offset.reshape(u.shape[0], -1)
    slope = jax.vmap(jax.grad(spec.loss.value))(_mesh.where_rows(rows.ok, scores), rows.y)
    return _frame.in_basis(problem, rows.weight[:, None] * _mesh.where_rows(rows.ok, slope))


def _features(problem: Problem) -> jax.Array:
    """What theta is multiplied with, `(n, d)`; 0 in columns out of play."""
    d = problem.centre.size
    z = _frame.columns(problem, _rows.clean(problem.rows))[:, :d] * problem.spread[None, :d]
    return _mesh.where_rows(problem.rows.ok, z)


def _inverse_penalty(problem: Problem) -> jax.Array:
    d = problem.centre.size
    used = (problem.spread[:d] > 0) & (problem.penalty[:d] > 0)
    return jnp.where(used, 1 / jnp.where(used, problem.penalty[:d], 1), 0)

"""The engine behind a fit with kinks: frame, solver, certificate, derivative.

A fit minimises sum_i c_i loss(s_i, y_i) + sum_j (l2_j |w_j|^2 / 2 + l1_j |w_j|_1), as those of
`_risk` with kinks at 0, in the same frame; of k classes the scores are not those that sum to zero,
since the kinks know each class's weights. `residual` is the relative duality gap at the returned
params. Shapes as in `_passes`.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _checks, _loops
from jaxlin._batch import _lanes
from jaxlin._data import _prepare, _rows
from jaxlin._linalg import _implicit, dot
from jaxlin._nonsmooth import _duality, _working
from jaxlin._smooth import _frame, _light, _passes, _proof, _risk, _scoring
from jaxlin._smooth._frame import Problem
from jaxlin._smooth._record import Spec
from jaxlin.types import Hyperplane, Info, Linear, Status

STEPS = 100


def arranged(spec: Spec, l2: jax.Array, l1: Any, tol: Any, max_steps: Any) -> tuple[Spec, tuple]:
    """The Spec, and what is given beside a smooth fit's: `(l1 (d,), tol, max_steps)`."""
    (d,), dtype = l2.shape, l2.dtype
    if spec.solver is not None:
        raise ValueError("solver: not with l1, whose kinks none of them knows")
    l1 = _checks.penalty(l1, d, dtype, "l1")
    known = _risk.penalised(l2, dtype, l1)
    if tol is None:
        tol = 1e-8 if jnp.dtype(dtype).itemsize > 4 else 1e-5
    steps = _checks.count(STEPS if max_steps is None else max_steps, "max_steps")
    return spec._replace(penalised=known), (l1, _checks.tolerance(tol, dtype), steps)


@functools.partial(jax.jit, static_argnums=(0, 1))
def plane(spec, k, data, l2, offset, init, l1, tol, max_steps):
    """A Hyperplane and an Info, of two classes, or of numbers where k is None."""
    rows, valid = _prepared(spec, k, data, l2, l1, offset, tol, max_steps)
    start = None if init is None else jax.tree.map(lambda a: a[None], Linear(*init))
    valid, start = _risk.begin(spec, rows, valid, start)
    zero, one = (valid, valid) if k is None else _prepare.present(rows, 2)
    found, info = fit(spec, rows, zero & one, l2, l1, start, tol, max_steps)
    params = Hyperplane(weights=found.weights[0], bias=found.bias[0])
    limit = _risk.limit_of(one, spec.bias, l2.dtype)
    return _risk.in_place(params, info, limit, valid, zero & one, (data, l2, l1, offset))


@functools.partial(jax.jit, static_argnums=(0, 1))
def planes(spec, k, data, l2, offset, init, l1, tol, max_steps):
    """A Linear and an Info, of k classes."""
    rows, valid = _prepared(spec, k, data, l2, l1, offset, tol, max_steps)
    present = _prepare.present(rows, k)
    if init is not None:
        bias = jnp.where(present, init.bias, 0)
        init = Linear(weights=jnp.where(present[:, None], init.weights, 0), bias=bias)
    valid, init = _risk.begin(spec, rows, valid, init)
    usable = jnp.sum(present) > 1
    basis = jnp.diag(present.astype(l2.dtype))
    params, info = fit(spec, rows, usable, l2, l1, init, tol, max_steps, basis)
    params = _of_least_norm(params, present, l1)
    nothing = jax.tree.map(jnp.zeros_like, params)
    given = data, l2, l1, offset
    params, info = _risk.in_place(params, info, nothing, valid, usable, given)
    bias = jnp.where(present, 0, -jnp.inf).astype(l2.dtype) + params.bias
    return params._replace(bias=bias), info


def _of_least_norm(params: Linear, present: jax.Array, l1: jax.Array) -> Linear:
    """Of params of the same probabilities and objective those of least norm.

    All classes' weights of a feature may be moved alike; under a kink as far as half of them stay
    on either side of 0, which is between the middle two.
    """
    share = present.astype(l1.dtype) / jnp.maximum(jnp.sum(present), 1).astype(l1.dtype)
    mean = dot(share, params.weights)
    low, high = _middle(params.weights, present)
    by = jnp.where(l1 > 0, jnp.clip(mean, low, high), mean)
    weights = jnp.where(present[:, None], params.weights - by[None, :], 0)
    return Linear(weights, jnp.where(present, params.bias - dot(share, params.bias), 0))


def _middle(weights: jax.Array, present: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Of each feature those of the middle two of the classes present, or of the middle one."""
    order = jnp.sort(jnp.where(present[:, None], weights, jnp.inf), axis=0)
    count = jnp.maximum(jnp.sum(present), 1)
    return order[(count - 1) // 2], order[count // 2]


def _apart(problem: Problem, l1: jax.Array, theta: jax.Array) -> jax.Array:
    """theta with no class at its kink for no reason.

    Under l1 alone all classes' weights of a feature may be moved alike between the middle two. At
    the middle of that no slope is at a bound that is not felt.
    """
    if problem.basis is None:
        return theta
    low, high = _middle(theta, problem.used)
    by = jnp.where(problem.penalty > 0, 0, low / 2 + high / 2)
    return jnp.where(l1.reshape(theta.shape) > 0, theta - by[None, :], theta)


def _prepared(spec, k, data, l2, l1, offset, tol, max_steps):
    rows, valid = _risk.prepare(spec, data, k, offset, l2, tol, max_steps)
    return rows, valid & jnp.all((l1 >= 0) & jnp.isfinite(l1))


def fit(
    spec: Spec,
    rows: _rows.Rows,
    usable: jax.Array,
    l2: jax.Array,
    l1: jax.Array,
    init: Linear | None,
    tol: jax.Array,
    max_steps: jax.Array,
    basis: jax.Array | None = None,
) -> tuple[Linear, Info]:
    """As `_risk.fit`; l1 `(d,)` of each feature's weights, basis a diagonal or None."""
    l2, l1 = (jnp.where((a >= 0) & jnp.isfinite(a), a, 1) for a in (l2, l1))
    tol = jnp.where(tol >= 0, tol, jnp.inf)

    def solved(rows, l2, l1, init, tol, max_steps, basis, usable):
        problem = _frame.make(rows, l2, spec.bias, basis)
        felt = _felt(problem, l1)
        problem = problem._replace(used=problem.used & usable, free=problem.free & (felt == 0))
        found = _solved(spec, problem, _of_all(problem, felt), init, tol, max_steps)
        return (problem.centre, problem.scale), (problem[3:], found)

    if not isinstance(rows, _rows.Streamed) and rows.axis.name is None:
        solved = _lanes.in_chunks(solved)
    operands = jax.lax.stop_gradient((rows, l2, l1, init, tol, max_steps, basis, usable))
    shared, (rest, (theta, told, info)) = solved(*operands)
    problem = Problem(operands[0], *shared, *rest)
    live, flat = _frame.live(problem, rows, l2), theta.reshape(-1)
    data = live, _of_all(live, _felt(live, l1)), jnp.sign(flat)
    # Elsewhere there may be a kink, where there is no derivative.
    proper = usable & (info.status <= Status.RANK_DEFICIENT) & told
    gradient, hessian = functools.partial(_gradient, spec), functools.partial(_hessian, spec)
    flat = _implicit.root(gradient, hessian, data, flat, proper)
    value, proper = functools.partial(_value, spec), usable & (info.status <= Status.MAX_STEPS)
    objective = _implicit.envelope(value, data, flat, info.objective, proper)
    params = _frame.left(problem, flat.reshape(theta.shape), spec.bias)
    return params, info._replace(objective=objective)


def _felt(problem: Problem, l1: jax.Array) -> jax.Array:
    """l1 as theta feels it, `(p,)`, where it does; 0 for biases."""
    factor, bias = _frame.unscaled(problem), problem.spread.size > problem.centre.size
    return _frame.with_bias(l1 * jnp.where(factor > 0, factor, 1), 0, bias)


def _of_all(problem: Problem, each: jax.Array) -> jax.Array:
    """What is `each (p,)` feature's for all of theta, `(m p,)`; 0 out of play."""
    return jnp.where(_frame.inert(problem), 0, each[None, :]).reshape(-1)


def _solved(spec, problem, l1, init, tol, max_steps):
    """theta, whether which of it are 0 and the others' signs are for sure, and an Info."""
    start = _frame.enter(problem, init, spec.bias)
    found = _working.descend(spec, problem, l1, start, tol, max_steps)
    said = _judged(spec, problem, l1, tol, max_steps, found)
    if not _working.may_be_crowded(start.shape):
        return said

    def after_all(problem, l1, theta, tol, max_steps):
        found = _working.at_once(spec, problem, l1, theta, tol, max_steps)
        return _judged(spec, problem, l1, tol, max_steps, found)

    operands = problem, l1, found.theta, tol, max_steps
    return _linalg.when(_working.is_crowded(found.theta), after_all, said, operands)


def _judged(spec, problem, l1, tol, max_steps, found):
    """What `_solved` returns: where a run ended, or if that proves too little, where it was before.

    A step that has not been measured can lead uphill, where a loss has corners in its slope.
    """

    def said(theta):
        return _said(spec, problem, l1, tol, max_steps, found, theta)

    def attempt(carry):
        i, _ = carry
        return i + 1, said(jnp.where(i == 0, found.theta, found.before))

    def unfinished(carry):
        i, (_, _, info) = carry
        return (i == 0) | ((i == 1) & ~(info.residual <= tol))

    init = jnp.int32(0), _loops.filled(jax.eval_shape(said, found.theta), 0)
    return jax.lax.while_loop(unfinished, *_loops.steady(attempt, init))[1]


def _said(spec, problem, l1, tol, max_steps, found, theta):
    run, at = found.run, found.at
    theta = _apart(problem, l1, theta)
    ground = _duality.ground(spec, found.part, theta[:, at], run)
    moved = jnp.zeros_like(theta).at[:, at].set(ground.moved.reshape(len(theta), -1))
    bound = _duality.proved(spec, problem, l1, theta, moved.reshape(-1))
    zero, away = (a.reshape(theta.shape) for a in (bound.zero, jnp.zeros_like(bound.zero)))
    known = _duality.support(
        found.part,
        theta[:, at].reshape(-1),
        run,
        zero[:, at].reshape(-1),
        bound.gap * bound.primal,
    )
    away = away.at[:, at].set(known.away.reshape(len(theta), -1))
    deficient = known.deficient | jnp.any(problem.idle & problem.free[: problem.idle.size])
    separated = run.point.short == 0
    status = jnp.where(deficient, Status.RANK_DEFICIENT, Status.CONVERGED)
    unproved = jnp.where(found.steps < max_steps, Status.STALLED, Status.MAX_STEPS)
    # A gap tells nothing of what is free and at 0, which a set must hold to make its slope 0.
    unseen = jnp.any((problem.free & (problem.spread > 0)).at[at].set(False))
    status = jnp.where((bound.gap <= tol) & ground.attained & ~unseen, status, unproved)
    if not (spec.loss.attained or spec.penalised):
        step = run.moved.reshape(len(theta), -1)
        tail = 4 * jnp.sqrt(jnp.finfo(step.dtype).eps)

        def recedes(part, point, step, tail):
            # A direction that no score sees leads nowhere.
            free = jnp.where(part.free[None, :], step, 0)
            drop, reach = _scoring.extremes(spec, part, free)
            unopposed = (reach > 0) & (drop >= -tail * reach)
            return unopposed & _proof.recedes(spec, part, point, step, tail)

        operands = found.part, run.point, step, tail
        asked = ~(ground.attained | separated)
        quasi = _linalg.when(asked, recedes, jnp.bool_(False), operands)
        status = jnp.where(quasi, Status.QUASI_SEPARABLE, status)
        status = jnp.where(separated, Status.SEPARABLE, status)
    # Where the optimum is at infinity the penalised weights vanish beside the others.
    theta = jnp.where(separated & ~problem.free[None, :], 0, theta)
    objective = jnp.where(separated, 0, bound.primal)
    info = Info(status.astype(jnp.int32), found.steps, objective, bound.gap)
    told = jnp.all(zero | (away & (theta != 0)) | problem.free[None, :])
    return theta, told, info


def _gradient(spec: Spec, data: Any, flat: jax.Array) -> jax.Array:
    """0 at the optimum, of its own orthant; what is 0 gives itself back."""
    problem, l1, sign = data
    grad = _light.flat_gradient(spec, problem, flat) + l1 * sign
    return jnp.where(_moves(problem, l1, sign), grad, flat)


def _hessian(spec: Spec, flat: jax.Array, data: Any) -> jax.Array:
    problem, l1, sign = data
    theta = flat.reshape(-1, problem.spread.size)
    among = _moves(problem, l1, sign)
    hess = _passes.measure(spec, problem, theta)[1]
    return jnp.where(among[:, None] & among[None, :], hess, jnp.eye(flat.size, dtype=flat.dtype))


def _moves(problem, l1, sign):
    return ((sign != 0) | (l1 == 0)) & ~_frame.inert(problem).reshape(-1)


def _value(spec: Spec, data: Any, flat: jax.Array) -> jax.Array:
    problem, l1, sign = data
    return _light.flat_value(spec, problem, flat) + jnp.sum(l1 * sign * flat)

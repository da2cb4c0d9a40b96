"""The engine behind a fit with kinks: frame, solver, certificate, derivative.

A fit minimises sum_i c_i loss(s_i, y_i) + sum_j (l2_j |w_j|^2 / 2 + l1_j |w_j|_1), or of groups of
features sum_g l1_g |w_g|, as those of `_risk` with kinks at 0, in the same frame; of k classes the
scores are not those that sum to zero, since the kinks know each class's weights. `residual` is the
relative duality gap at the returned params. Shapes as in `_passes`.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _checks, _lean, _loops, _platform, _traced
from jaxlin._batch import _lanes
from jaxlin._data import _prepare, _rows
from jaxlin._linalg import _implicit, dot
from jaxlin._nonsmooth import _duality, _kinks, _size, _working
from jaxlin._nonsmooth._kinks import Kinks
from jaxlin._nonsmooth._size import Size
from jaxlin._smooth import _frame, _light, _passes, _proof, _risk, _scoring
from jaxlin._smooth._frame import Problem
from jaxlin._smooth._record import Spec
from jaxlin.types import Hyperplane, Info, Linear, Status

STEPS = 100


def arranged(
    spec: Spec, l2: jax.Array, l1: Any, groups: Any, num_groups: Any, tol: Any, max_steps: Any
) -> tuple[Spec, tuple]:
    """The Spec, and what is given beside a smooth fit's: `(Size, tol, max_steps)`."""
    (d,), dtype = l2.shape, l2.dtype
    if spec.solver is not None:
        raise ValueError("solver: not with l1, whose kinks none of them knows")
    size = _size.of(l1, groups, num_groups, d, dtype)
    l1 = size.l1
    known = _risk.penalised(l2, dtype, l1)
    if tol is None:
        tol = 1e-8 if jnp.dtype(dtype).itemsize > 4 else 1e-5
    steps = _checks.count(STEPS if max_steps is None else max_steps, "max_steps")
    return spec._replace(penalised=known), (size, _checks.tolerance(tol, dtype), steps)


def run(program: Any, spec: Spec, k: Any, data: _checks.Table, *rest: Any) -> Any:
    """What `program`, one of those below, finds, as `_risk.run`."""
    lean = spec._replace(complete=False)
    if _lean.how() is None:
        return _risk.tried(program, spec, lean, k, data, *rest)
    (params, info), unsettled = _traced.anywhere(program)(lean, k, data, *rest)
    return params, _lean.told(info, unsettled)


@functools.partial(_platform.jit, static_argnums=(0, 1))
def plane(spec, k, data, l2, offset, init, size, tol, max_steps):
    """A Hyperplane and an Info, of two classes, or of numbers where k is None.

    And whether only the complete program can tell, as all that `run` takes. Without kinks, and a
    cap, where `size` and it are None.
    """
    rows, valid = _prepared(spec, k, data, l2, size, offset, tol, max_steps)
    start = None if init is None else jax.tree.map(lambda a: a[None], Linear(*init))
    valid, start = _risk.begin(spec, rows, valid, start)
    zero, one = (valid, valid) if k is None else _prepare.present(rows, 2)
    found, info, unsettled = fit(spec, rows, zero & one, l2, size, start, tol, max_steps)
    params = Hyperplane(weights=found.weights[0], bias=found.bias[0])
    limit = _risk.limit_of(one, spec.bias, l2.dtype)
    given = data, l2, size, offset
    return _risk.in_place(params, info, limit, valid, zero & one, given), unsettled & valid


@functools.partial(_platform.jit, static_argnums=(0, 1))
def planes(spec, k, data, l2, offset, init, size, tol, max_steps):
    """A Linear and an Info, of k classes."""
    rows, valid = _prepared(spec, k, data, l2, size, offset, tol, max_steps)
    present = _prepare.present(rows, k)
    if init is not None:
        bias = jnp.where(present, init.bias, 0)
        init = Linear(weights=jnp.where(present[:, None], init.weights, 0), bias=bias)
    valid, init = _risk.begin(spec, rows, valid, init)
    several = jnp.sum(present) > 1
    usable = several | (not spec.loss.joint)
    basis = own_scores(spec, present, l2.dtype)
    params, info, unsettled = fit(spec, rows, usable, l2, size, init, tol, max_steps, basis)
    if spec.loss.joint:
        params = of_least_norm(params, present, size)
    nothing = jax.tree.map(jnp.zeros_like, params)
    given = data, l2, size, offset
    params, info = _risk.in_place(params, info, nothing, valid, usable, given)
    status = jnp.where(several | ~valid, info.status, Status.CLASS_TOO_SMALL)
    info = info._replace(status=status.astype(jnp.int32))
    bias = jnp.where(present, 0, -jnp.inf).astype(l2.dtype) + params.bias
    return (params._replace(bias=bias), info), unsettled & valid


@functools.partial(_platform.jit, static_argnums=(0, 1))
def proved_zero(spec, k, data, l2, offset, params, size):
    """Which weights are 0 at every optimum, by what params prove, and whether the data are valid.

    k is that of `planes`, or 2 of two classes, or None of numbers, as in `plane`.
    """
    rows, valid = _prepared(spec, k, data, l2, size, offset, jnp.ones((), l2.dtype), 0)
    params, basis = jax.tree.map(jnp.atleast_1d, Linear(*params)), None
    weights = params.weights.reshape(-1, l2.size)
    if len(weights) > 1:
        present = _prepare.present(rows, k)
        weights = jnp.where(present[:, None], weights, 0)
        params = params._replace(bias=jnp.where(present, params.bias, 0))
        basis = own_scores(spec, present, l2.dtype)
    if rows.feature_mask is not None:
        weights = jnp.where(rows.feature_mask[None, :], weights, 0)
    fine = valid & jnp.all(jnp.isfinite(weights)) & jnp.all(jnp.isfinite(params.bias))
    l2, l1 = (jnp.where(fine, a, 1) for a in (l2, size.l1))
    size = size._replace(l1=l1)
    problem = posed(spec, rows, l2, size, basis)
    kinks = kinks_of(problem, size)
    theta = _frame.enter(problem, Linear(weights, params.bias), spec.bias)
    theta = _apart(spec, problem, kinks, jnp.where(fine, theta, 0))
    steps = jnp.int32(0)
    found = _working.descend(spec, problem, kinks, theta, jnp.ones((), l2.dtype), steps)
    moved = _duality.ground(spec, found.part, theta[:, found.at], found.run).moved
    moved = jnp.zeros_like(theta).at[:, found.at].set(moved.reshape(len(theta), -1))
    zero = _duality.proved(spec, problem, kinks, theta, moved.reshape(-1)).zero
    return fine & zero.reshape(theta.shape)[:, : l2.size], valid


def own_scores(spec: Spec, present: jax.Array, dtype: Any) -> jax.Array:
    """Each class's own score: of those present, or of all where none depends on another's."""
    return jnp.diag((present | (not spec.loss.joint)).astype(dtype))


def of_least_norm(params: Linear, present: jax.Array, size: Size) -> Linear:
    """Of params of the same probabilities and objective those of least norm.

    All classes' weights of a feature may be moved alike; under a kink as far as half of them stay
    on either side of 0, which is between the middle two. Those of groups are shortest so.
    """
    dtype = size.l1.dtype
    share = present.astype(dtype) / jnp.maximum(jnp.sum(present), 1).astype(dtype)
    mean = dot(share, params.weights)
    low, high = _middle(params.weights, present)
    alone = (size.l1 > 0) & (size.groups is None)
    by = jnp.where(alone, jnp.clip(mean, low, high), mean)
    weights = jnp.where(present[:, None], params.weights - by[None, :], 0)
    return Linear(weights, jnp.where(present, params.bias - dot(share, params.bias), 0))


def _middle(weights: jax.Array, present: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Of each feature those of the middle two of the classes present, or of the middle one."""
    order = jnp.sort(jnp.where(present[:, None], weights, jnp.inf), axis=0)
    count = jnp.maximum(jnp.sum(present), 1)
    return order[(count - 1) // 2], order[count // 2]


def _apart(spec: Spec, problem: Problem, kinks: Kinks, theta: jax.Array) -> jax.Array:
    """theta with no class at its kink for no reason.

    Under l1 alone all classes' weights of a feature may be moved alike between the middle two. At
    the middle of that no slope is at a bound that is not felt.
    """
    if kinks.group is not None or not spec.loss.joint:
        return theta
    low, high = _middle(theta, problem.used)
    by = jnp.where(problem.penalty > 0, 0, low / 2 + high / 2)
    return jnp.where(kinks.l1.reshape(theta.shape) > 0, theta - by[None, :], theta)


def _prepared(spec, k, data, l2, size, offset, tol, max_steps):
    rows, valid = _risk.prepare(spec, data, k, offset, l2, tol, max_steps)
    if size is None:
        return rows, valid
    return rows, valid & jnp.all((size.l1 >= 0) & jnp.isfinite(size.l1))


def fit(
    spec: Spec,
    rows: _rows.Rows,
    usable: jax.Array,
    l2: jax.Array,
    size: Size | None,
    init: Linear | None,
    tol: jax.Array,
    max_steps: jax.Array | None,
    basis: jax.Array | None = None,
) -> tuple[Linear, Info, jax.Array]:
    """As `_risk.fit`; basis a diagonal or None."""
    if size is None:
        return _risk.fit(
            spec,
            rows,
            usable=usable,
            l2=l2,
            init=init,
            tol=tol,
            max_steps=max_steps,
            basis=basis,
        )
    l2, l1 = (jnp.where((a >= 0) & jnp.isfinite(a), a, 1) for a in (l2, size.l1))
    size = size._replace(l1=l1)
    tol = jnp.where(tol >= 0, tol, jnp.inf)

    def solved(rows, l2, size, init, tol, max_steps, basis, usable):
        problem = posed(spec, rows, l2, size, basis)
        problem = problem._replace(used=problem.used & usable)
        found = _solved(spec, problem, kinks_of(problem, size), init, tol, max_steps)
        return (problem.centre, problem.scale), (problem[3:], found)

    if not isinstance(rows, _rows.Streamed) and rows.axis.name is None:
        solved = _lanes.in_chunks(solved)
    operands = jax.lax.stop_gradient((rows, l2, size, init, tol, max_steps, basis, usable))
    shared, (rest, (theta, (told, unsure), info, unsettled)) = solved(*operands)
    problem = Problem(operands[0], *shared, *rest)
    if not spec.complete:  # the call is eager: not differentiated
        return _frame.left(problem, theta, spec.bias), info, unsettled & usable
    live, flat = _frame.live(problem, rows, l2), theta.reshape(-1)
    kinks = kinks_of(live, size)
    data = live, kinks, _moves(live, kinks, flat), unsure.reshape(-1)
    # Elsewhere there may be a kink, where there is no derivative.
    proper = usable & (info.status <= Status.RANK_DEFICIENT) & told
    gradient, hessian = functools.partial(_gradient, spec), functools.partial(_hessian, spec)
    flat = _implicit.root(gradient, hessian, data, flat, proper)
    value, proper = functools.partial(_value, spec), usable & (info.status <= Status.MAX_STEPS)
    objective = _implicit.envelope(value, data, flat, info.objective, proper)
    params = _frame.left(problem, flat.reshape(theta.shape), spec.bias)
    return params, info._replace(objective=objective), jnp.bool_(False)


def posed(spec, rows, l2, size, basis):
    """The problem, of which only that is free which has no penalty of either kind."""
    problem = _frame.make(rows, l2, spec.bias, basis)
    return problem._replace(free=problem.free & (_felt(problem, size.l1) == 0))


def _felt(problem: Problem, l1: jax.Array) -> jax.Array:
    """l1 as theta feels it, `(p,)`, where it does; 0 for biases."""
    factor, bias = _frame.unscaled(problem), problem.spread.size > problem.centre.size
    return _frame.with_bias(l1 * jnp.where(factor > 0, factor, 1), 0, bias)


def kinks_of(problem: Problem, size: Size) -> Kinks:
    """Of all of theta, `(m p,)`."""
    inert = _frame.inert(problem)

    def of_all(each):
        return jnp.where(inert, 0, each[None, :]).reshape(-1)

    if size.groups is None:
        return Kinks(of_all(_felt(problem, size.l1)))
    bias = problem.spread.size > problem.centre.size
    unit = _frame.with_bias(_frame.unscaled(problem), 1, bias)
    groups = jnp.broadcast_to(_frame.with_bias(size.groups, 0, bias), inert.shape)
    l1 = _frame.with_bias(size.l1, 0, bias)
    return _kinks.of_groups(of_all(l1), groups.reshape(-1), of_all(unit))


def _solved(spec, problem, kinks, init, tol, max_steps):
    """theta, what is for sure of it, an Info, and whether only the complete program can tell.

    Whether which of it are 0 and the others' signs are; and which `(m, p)` are 0 that need not be.
    """
    start = _frame.enter(problem, init, spec.bias)
    found = _working.descend(spec, problem, kinks, start, tol, max_steps)
    said = judged(spec, problem, kinks, tol, max_steps, found)
    if not _working.may_be_crowded(start.shape):
        return said

    def after_all(problem, kinks, theta, tol, max_steps):
        found = _working.at_once(spec, problem, kinks, theta, tol, max_steps)
        return judged(spec, problem, kinks, tol, max_steps, found)

    operands = problem, kinks, found.theta, tol, max_steps
    theta, told, info, unsettled = said
    crowded = _working.is_crowded(found.theta)
    if kinks.group is not None:
        crowded |= info.status == Status.STALLED  # by a group for which no set has room
    if not spec.complete:
        return theta, told, info, unsettled | crowded
    return _linalg.when(crowded, after_all, said, operands)


def judged(spec, problem, kinks, tol, max_steps, found):
    """What `_solved` returns: where a run ended, or if that proves too little, where it was before.

    A step that has not been measured can lead uphill, where a loss has corners in its slope.
    """

    def said(theta):
        return _said(spec, problem, kinks, tol, max_steps, found, theta)

    def attempt(carry):
        i, _ = carry
        return i + 1, said(jnp.where(i == 0, found.theta, found.before))

    def unfinished(carry):
        i, (_, _, info, _) = carry
        return (i == 0) | ((i == 1) & ~(info.residual <= tol))

    init = jnp.int32(0), _loops.filled(jax.eval_shape(said, found.theta), 0)
    return jax.lax.while_loop(unfinished, *_loops.steady(attempt, init))[1]


def _said(spec, problem, kinks, tol, max_steps, found, theta):
    run, at = found.run, found.at
    theta = _apart(spec, problem, kinks, theta)
    ground = _duality.ground(spec, found.part, theta[:, at], run)
    moved = jnp.zeros_like(theta).at[:, at].set(ground.moved.reshape(len(theta), -1))
    bound = _duality.proved(spec, problem, kinks, theta, moved.reshape(-1))
    zero, away = (a.reshape(theta.shape) for a in (bound.zero, jnp.zeros_like(bound.zero)))
    known = _duality.support(
        spec,
        found.part,
        found.kinks,
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
    unsettled = jnp.bool_(False)
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
        if spec.complete:
            quasi = _linalg.when(asked, recedes, jnp.bool_(False), operands)
            status = jnp.where(quasi, Status.QUASI_SEPARABLE, status)
        else:
            unsettled = asked
        status = jnp.where(separated, Status.SEPARABLE, status)
    # Where the optimum is at infinity the penalised weights vanish beside the others.
    theta = jnp.where(separated & ~problem.free[None, :], 0, theta)
    objective = jnp.where(separated, 0, bound.primal)
    info = Info(status.astype(jnp.int32), found.steps, objective, bound.gap)
    at_optimum = away & (_kinks.sizes(kinks, theta.reshape(-1)) > 0).reshape(theta.shape)
    smooth = (kinks.l1 == 0).reshape(theta.shape)
    told = jnp.all(zero | at_optimum | smooth)
    unsure = (theta == 0) & ~(zero | smooth)
    return theta, (told, unsure), info, unsettled


def _gradient(spec: Spec, data: Any, flat: jax.Array) -> jax.Array:
    """0 at the optimum, of what is not 0 there; what is gives itself back, and moves nothing else.

    So its derivative is symmetric, as `_implicit.root` takes it to be. What is `unsure` may be at
    either edge of its kink: it depends on all that moves it, so that it has no derivative.
    """
    problem, kinks, moves, unsure = data
    some = jnp.where(moves, flat, 0)
    grad = _light.flat_gradient(spec, problem, some) + _kinks.slope(kinks, some)
    return jnp.where(moves | unsure, grad + jnp.where(unsure, kinks.l1, 0), flat)


def _hessian(spec: Spec, flat: jax.Array, data: Any) -> jax.Array:
    problem, kinks, moves, _ = data
    hess = _passes.measure(spec, problem, flat.reshape(-1, problem.spread.size))[1]
    curve = _kinks.curvature(kinks, flat)
    hess = hess if curve is None else hess + curve
    return jnp.where(moves[:, None] & moves[None, :], hess, jnp.eye(flat.size, dtype=flat.dtype))


def _moves(problem, kinks, flat):
    away = (_kinks.sizes(kinks, flat) > 0) | (kinks.l1 == 0)
    return away & ~_frame.inert(problem).reshape(-1)


def _value(spec: Spec, data: Any, flat: jax.Array) -> jax.Array:
    problem, kinks, *_ = data
    return _light.flat_value(spec, problem, flat) + _kinks.value(kinks, flat)

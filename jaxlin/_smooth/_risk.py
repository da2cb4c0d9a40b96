"""The engine behind every smooth loss of linear scores: frame, solver, certificate, derivative.

A fit minimises J = sum_i c_i loss(s_i, y_i) + 1/2 sum_j l2_j |w_j|^2, s_i = W x_i + b + o_i, the
weights c summing to one. It runs in a frame where columns are centred (with a bias) and scaled by
powers of two to about unit variance, both exact to undo, so raw units of any size are solved alike,
and where the scores of k classes are those that sum to zero. Newton's loop carries its own proof.

`residual`: the largest absolute entry of J's gradient for centred columns of unit variance, never
less than the rounding bound of that sum at the returned params. Shapes as in `_passes`.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin import _linalg, solvers
from jaxlin._base import _batched, _checks, _lean, _loops, _mesh, _platform, _traced
from jaxlin._batch import _lanes
from jaxlin._data import _prepare, _rows
from jaxlin._linalg import _implicit
from jaxlin._smooth import (
    _axes,
    _frame,
    _light,
    _matrix_free,
    _mixed,
    _newton,
    _passes,
    _plan,
    _sampled,
    _together,
    _wide,
)
from jaxlin._smooth._frame import Problem
from jaxlin._smooth._plan import Method, Space
from jaxlin._smooth._record import Spec
from jaxlin.types import Hyperplane, Info, Linear, Status

# Of so few entries a fit is a fraction of a millisecond however it is compiled.
FEW_ENTRIES = 2048
# So many lanes are worth a fit before them.
MANY_LANES = 64


def check_solver(solver: Any) -> solvers.Solver | None:
    if not (solver is None or callable(solver)):
        raise TypeError(f"solver: expected a function like solvers.newton, got {solver!r}")
    return solver


def check_init(init: Any, kind: Any, shape: tuple[int, ...], d: int, dtype: Any) -> Any:
    """`init` as params of a `kind`, whose bias has this shape."""
    if init is None:
        return None
    if not isinstance(init, kind):
        raise TypeError(f"init: expected a {kind.__name__}, got {type(init).__name__}")
    return kind(
        weights=_checks.shaped(init.weights, (*shape, d), dtype, "init.weights"),
        bias=_checks.shaped(init.bias, shape, dtype, "init.bias"),
    )


def penalised(l2: Any, dtype: Any, l1: Any = 0.0) -> bool | None:
    """Whether every feature has a penalty; None where that is not known when it is traced."""
    for given in (l2, l1):
        if isinstance(given, jax.core.Tracer) or not getattr(given, "is_fully_addressable", True):
            return None
    squares, sizes = (np.asarray(a).astype(dtype) > 0 for a in (l2, l1))
    return bool(np.all(squares | sizes))


def named(init: Any) -> dict[str, Any]:
    """The parts of `init` by the names that messages call them."""
    return {} if init is None else {"init.weights": init.weights, "init.bias": init.bias}


def prepare(
    spec: Spec,
    data: _checks.Table,
    num_classes: int,
    offset: jax.Array | None,
    l2: jax.Array,
    tol: jax.Array,
    max_steps: jax.Array | None,
) -> tuple[_rows.Rows, jax.Array]:
    """The rows, without weight unless they are valid, and whether all is.

    What else is given makes no difference to them, or lanes of it would no longer share them.
    """
    rows, _, valid = _prepare.prepare(
        data, num_classes=num_classes, offset=offset, trusted=spec.trusted
    )
    valid &= jnp.all((l2 >= 0) & jnp.isfinite(l2)) & (tol >= 0)
    if max_steps is not None:
        valid &= max_steps >= 0
    return rows, valid


def begin(
    spec: Spec, rows: _rows.Rows, valid: jax.Array, init: Linear | None
) -> tuple[jax.Array, Linear | None]:
    """Whether all is valid, once the params to start from are judged too, and these."""
    if init is None:
        return valid, None
    if rows.feature_mask is not None:
        masked = jnp.where(rows.feature_mask[None, :], init.weights, 0)
        init = init._replace(weights=masked)
    valid &= jnp.all(jnp.isfinite(init.weights))
    if spec.bias:
        valid &= jnp.all(jnp.isfinite(init.bias))
    return valid, jax.tree.map(lambda a: jnp.where(valid, a, 0), init)


def in_place(params, info: Info, limit, valid: jax.Array, usable: jax.Array, given: Any = None):
    """Put the limit in place where classes are too few, and NaN where the data are not valid.

    Derivatives in what was `given`, if it is told, are NaN there where they are used.
    """
    alone, fine = valid & ~usable, valid & usable

    def target(value, limit):
        return jnp.where(valid, jnp.where(alone, limit, value), jnp.nan)

    status = jnp.where(alone, Status.CLASS_TOO_SMALL, info.status)
    status = jnp.where(valid, status, Status.INVALID_DATA).astype(jnp.int32)
    objective, residual = target(info.objective, 0.0), target(info.residual, 0.0)
    steps = jnp.where(valid, info.steps, 0)
    instead = jax.tree.map(target, params, limit)
    info = Info(status, steps, objective, residual)
    if given is not None:
        instead = _implicit.guarded(params, fine, given, instead)
        info = _implicit.told(info, fine, given)
    return instead, info


def run(program: Any, spec: Spec, k: int, data: _checks.Table, l2: jax.Array, *rest: Any) -> Any:
    """`program(spec, k, data, l2, *rest)`, which returns its result and whether it is unsettled.

    What a program holds is compiled whether it is used or not, and most problems need none of the
    proofs for singular Hessians and for optima at infinity. Without them that takes half as long;
    so an eager call tries it first; of few entries, compiled for this call and not for thousands to
    come. Traced, the program must be complete, unless many fits are to be `_lean`.
    """
    planned = functools.partial(
        _plan.plan,
        shape=data.x.shape,
        m=k - 1,
        devices=_devices(data),
        sparse=_frame.is_sparse(data),
    )
    if planned(spec._replace(penalised=None)).space is Space.FEATURES:
        spec = spec._replace(penalised=spec.penalised or None)  # the same program
    positive = _lean.how()
    if positive is not None:
        spec = spec._replace(complete=False, penalised=positive or spec.penalised)
        (params, info), unsettled = _traced.anywhere(program)(spec, k, data, l2, *rest)
        if positive:  # a penalty may have been multiplied by what is too small for it
            unsettled |= ~jnp.all(l2 > 0)
        return params, _lean.told(info, unsettled)
    plan, lean = planned(spec), None
    if plan.lean:
        trusted = data.x.size > _plan.NEWTON_ENTRIES
        lean = spec._replace(complete=False, trusted=trusted)
        if plan.method is Method.NEWTON:
            lean = lean._replace(penalised=None)  # the same program
    return tried(program, spec, lean, k, data, l2, *rest)


def tried(program: Any, spec: Spec, lean: Spec | None, k: Any, data: _checks.Table, *rest: Any):
    """As `run`: by a Spec that is `lean` first, if there is one and the call is eager."""
    if not _checks.concrete((data, rest)):
        return _traced.anywhere(program)(spec, k, data, *rest)[0]
    if data.x.size <= FEW_ENTRIES and _platform.on_cpu():
        program = _platform.quickly(program)
    if lean is not None:
        found, unsettled = program(lean, k, data, *rest)
        if _checks.concrete(unsettled) and not unsettled:
            return found
    return program(spec, k, data, *rest)[0]


def fit(
    spec: Spec,
    rows: _rows.Rows,
    *,
    usable: jax.Array,
    l2: jax.Array,
    init: Linear | None,
    tol: jax.Array,
    max_steps: jax.Array | None,
    basis: jax.Array | None = None,
) -> tuple[Linear, Info, jax.Array]:
    """Minimise J from `init` (or 0) and prove it.

    Args:
      spec: the loss and the static choices.
      rows: prepared data.
      usable: whether there is a problem at all; if not, what comes back is replaced.
      l2: `(d,)`, nonnegative.
      init: params in the user's units, weights `(K, d)` and bias `(K,)`, or None.
      tol: bound on `residual`.
      max_steps: cap on the steps, or None for the solver's default.
      basis: `(K, K - 1)`, see `_frame.class_basis`, or None for one score.

    Returns:
      `(params, info, unsettled)`: the K scores' weights and biases, an Info of status CONVERGED to
      SEPARABLE, and whether only the complete program can tell; a lane of no weight returns
      quickly.
    """
    # A lane that is not valid is to be little work. Not by lane, which would tell lanes apart that
    # share them.
    l2 = jnp.where((l2 >= 0) & jnp.isfinite(l2), l2, 1)
    tol = jnp.where(tol >= 0, tol, jnp.inf)
    arguments = (init, tol, max_steps, basis, usable)
    by_rows = functools.partial(_solved_by_rows, spec)
    by_features = functools.partial(_solved_by_features, spec)
    m = 1 if basis is None else basis.shape[1]
    sparse = _frame.is_sparse(rows)
    space = _plan.plan(spec, rows.x.shape, m, devices=_devices(rows), sparse=sparse).space
    if space is Space.FEATURES:
        problem, found = _framed(spec, by_features, rows, l2, *arguments)
        return _left_by_features(spec, problem, rows, usable, l2, found)
    if space is Space.ROWS:
        problem, found = _framed(spec, by_rows, rows, l2, *arguments)
        return _left_by_rows(spec, problem, rows, usable, l2, found)
    # Each does its part on the rows of a lane that are its own, and nothing without.
    penalised = jnp.all(l2 > 0)
    few, many = _rows.where(penalised, rows), _rows.where(~penalised, rows)
    alone = jnp.where(penalised, l2, 1)
    wide, (theta, *said) = _framed(spec, by_rows, few, alone, *arguments)
    tall, found = _framed(spec, by_features, many, l2, *arguments)
    return jax.tree.map(
        functools.partial(jnp.where, penalised),
        _left_by_rows(spec, wide, few, usable & penalised, alone, (theta, *said)),
        _left_by_features(spec, tall, many, usable & ~penalised, l2, found),
    )


def _solved_by_rows(spec, problem, init, tol, max_steps):
    """theta, an Info, and that all is told, where every l2 is positive: by Newton's on the rows."""
    cap = jnp.int32(_plan.NEWTON_STEPS) if max_steps is None else max_steps
    start = None if init is None else _frame.enter(problem, init, spec.bias)
    outcome = _wide.solve(spec, problem, start, tol, cap)
    theta = outcome.point.theta
    return theta, _info(outcome, tol, cap), outcome.unsettled


def _left_by_rows(spec, problem, rows, usable, l2, found):
    """What `fit` returns, with its derivatives."""
    theta, info, unsettled = found
    if spec.complete:
        live = _frame.live(problem, rows, l2)
        proper = usable & (info.status <= Status.MAX_STEPS)
        theta = _wide.differentiable(spec, live, theta, proper)
        info = _with_objective(spec, info, live, theta, proper)
    return _frame.left(problem, theta, spec.bias), info, unsettled & usable


def _left_by_features(spec, problem, rows, usable, l2, found):
    """What `fit` returns, with its derivatives."""
    theta, info, unsettled = found
    if spec.complete:  # without, the call is eager: not differentiated
        live = _frame.live(problem, rows, l2)
        proper = usable & (info.status <= Status.MAX_STEPS)
        gradient = functools.partial(_light.flat_gradient, spec)
        hessian = _passes.hessian(spec)
        flat = _implicit.root(gradient, hessian, live, theta.reshape(-1), proper)
        theta = flat.reshape(theta.shape)
        info = _with_objective(spec, info, live, theta, proper)
    return _frame.left(problem, theta, spec.bias), info, unsettled & usable


def _with_objective(spec, info, live, theta, proper):
    value = functools.partial(_light.flat_value, spec)
    arguments = live, theta.reshape(-1), info.objective, proper
    return info._replace(objective=_implicit.envelope(value, *arguments))


def _framed(spec, solve, rows, l2, init, tol, max_steps, basis, usable):
    """The problem, and `solve(problem, init, tol, max_steps)`, lanes chunk by chunk.

    Neither has a derivative.
    """

    def solved(rows, l2, init, tol, max_steps, basis, usable, **options):
        problem = _frame.make(rows, l2, spec.bias, basis)
        problem = problem._replace(used=problem.used & usable)
        if not spec.trusted:
            found = solve(problem, init, tol, max_steps, **options)
        else:
            sound = _frame.empty_unless_bounded(problem)
            theta, info, unsettled = solve(sound, init, tol, max_steps, **options)
            found = theta, info, unsettled | ~problem.bounded
        return (problem.centre, problem.scale), (problem[3:], found)

    if _frame.is_sparse(rows):
        solved = jax.custom_batching.sequential_vmap(solved)  # each lane reads the entries itself
    elif not isinstance(rows, _rows.Streamed) and rows.axis.name is None:
        solved = _lanes.in_chunks(_from_one_start(spec, solved))
    operands = jax.lax.stop_gradient((rows, l2, init, tol, max_steps, basis, usable))
    shared, (rest, found) = solved(*operands)
    return Problem(operands[0], *shared, *rest), found


def _from_one_start(spec, solved):
    """`solved`, whose lanes, if many and alike in all but their weights, begin by one fit.

    It is of equal weights, so that no lane is felt in another, and is not near separation; a lane
    begins some cheap steps from it.
    """
    many = jax.custom_batching.custom_vmap(solved)

    @many.def_vmap
    def _(axis_size, in_batched, rows, l2, init, *others):
        batched, *_ = in_batched
        *_, basis, _ = others
        apart = bool(batched.x)
        k, m = (2, 1) if basis is None else basis.shape[-2:]
        each = batched._replace(weight=False), in_batched[1]
        plan = _plan.plan(spec, rows.x.shape[-2:], m, shared=not apart)
        newton = plan.method is Method.NEWTON
        f = functools.partial(solved, plan=plan) if newton else solved
        if axis_size >= MANY_LANES and init is None and not any(jax.tree.leaves(each)) and newton:
            ok = rows.ok.astype(rows.weight.dtype)
            equal = rows._replace(weight=ok / jnp.maximum(jnp.sum(ok), 1))
            if basis is not None:
                basis = _frame.class_basis(_prepare.present(equal, k), equal.weight.dtype)
            problem = _frame.make(equal, l2, spec.bias, basis)
            theta, hess, _, found = _sampled.descended(
                spec, problem, _frame.enter(problem, None, True), None
            )
            theta = jnp.where(found, theta, 0)
            root = _linalg.inverse_root(_linalg.factor(hess))
            whole, *whence = jax.tree.map(_linalg.narrow, (_frame.held(problem), theta, root))

            def near(weight):
                lane = whole._replace(rows=whole.rows._replace(weight=_linalg.narrow(weight)))
                moved = _sampled.chords(spec, lane, *whence).astype(theta.dtype)
                return _frame.leave(problem, jnp.where(found, moved, theta), spec.bias)

            init = jax.vmap(near)(rows.weight)
            in_batched = [*in_batched[:2], _batched.all_of(init), *in_batched[3:]]
            f = functools.partial(f, doubted=False)
        lanes = _batched.each(f, axis_size, in_batched, out_axes=(0 if apart else None, 0))
        shared, own = lanes(rows, l2, init, *others)
        return (shared, own), (_batched.all_of(shared, apart), _batched.all_of(own))

    return many


def _solved_by_features(spec, problem, init, tol, max_steps, *, doubted=True, plan=None):
    """theta, an Info, and whether only the complete program can tell.

    An init that is not `doubted` is no worse a place to begin than 0. `plan`: of these lanes, or
    None, of one fit.
    """
    counted = max_steps is not None
    if plan is None:
        plan = _plan.plan(
            spec,
            problem.rows.x.shape,
            problem.used.size,
            devices=_devices(problem.rows),
            counted=counted,
            dealt=_loops.varies(problem),
            begun=init is not None,
            sparse=_frame.is_sparse(problem.rows),
        )
    newton = plan.method is Method.NEWTON
    start = _frame.enter(problem, init, spec.bias)
    doubted = doubted and init is not None

    def caps():
        # Made where they are used: a function of lanes may close over nothing that is traced.
        cap = max_steps if counted else jnp.int32(plan.steps)
        return cap, cap + plan.more

    def alone(problem, start, tol):
        cap, last = caps()
        if not newton:
            return _matrix_free.solve(spec, plan, problem, start, tol, cap, last, init is not None)
        if doubted:
            origin = _light.value_at_origin(spec, problem)
            return _newton.solve(spec, problem, start, origin, tol, cap, jnp.int32(0))
        if not counted:
            return _mixed.solve(spec, problem, start, tol, cap)
        return _newton.undoubted(spec, problem, start, tol, cap, jnp.int32(0))

    if not counted:

        def finish(problem, start, tol, steps):
            if not plan.finished:
                cap, last = caps()
                found = _matrix_free.solve(spec, plan, problem, start, tol, cap, last, True)
                return found._replace(steps=found.steps + steps)
            most = steps + _plan.NEWTON_STEPS
            found = _newton.undoubted(spec, problem, start, tol, most, steps)
            # As of a single fit, whose solver has no Hessian that would prove more.
            proved = jnp.bool_(False) if newton else _matrix_free.is_coercive(problem)
            return found._replace(certified=found.certified | proved)

        turns = _axes.TURNS[plan.finished and spec.complete]
        outcome = _together.solve(spec, problem, start, tol, alone, finish, turns)
    else:
        outcome = alone(problem, start, tol)
    return *said(problem, outcome, tol, caps()[1]), outcome.unsettled


def said(problem: Problem, outcome: _newton.Outcome, tol, cap) -> tuple[jax.Array, Info]:
    """theta, and what is said of it."""
    # Where the optimum is at infinity the penalised weights vanish beside the others.
    found = outcome.point.theta
    found = jnp.where(outcome.separated & ~problem.free[None, :], 0, found)
    return found, _info(outcome, tol, cap)


def _info(outcome: _newton.Outcome, tol: jax.Array, cap: jax.Array) -> Info:
    point = outcome.point
    residual = jnp.maximum(point.residual, point.noise)
    # Where the run saw a separation the penalised weights were dropped: no longer what was proved.
    passed = (residual <= tol) & outcome.certified & ~outcome.separated
    status = jnp.where(outcome.deficient, Status.RANK_DEFICIENT, Status.CONVERGED)
    unproved = jnp.where(outcome.trials < cap, Status.STALLED, Status.MAX_STEPS)
    status = jnp.where(passed, status, unproved)
    status = jnp.where(outcome.quasi & ~passed, Status.QUASI_SEPARABLE, status)
    status = jnp.where(outcome.separated, Status.SEPARABLE, status)
    objective = jnp.where(outcome.separated, 0, point.value)
    return Info(status.astype(jnp.int32), outcome.steps, objective, residual)


def _devices(rows: _rows.Rows | _checks.Table) -> int | None:
    return _mesh.devices(rows.axis) if rows.axis.name else None


def limit_of(one: jax.Array, bias: bool, dtype: Any) -> Hyperplane:
    """The plane for rows of one class, class 1 or not."""
    lost = jnp.asarray(0.0 if bias else jnp.nan, dtype)
    return Hyperplane(weights=lost, bias=lost + jnp.where(one, jnp.inf, -jnp.inf).astype(dtype))

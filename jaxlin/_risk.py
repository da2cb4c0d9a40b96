"""The engine behind every smooth loss of linear scores: frame, solver, certificate, derivative.

A fit minimises J = sum_i c_i loss(s_i, y_i) + 1/2 sum_j l2_j |w_j|^2, s_i = W x_i + b + o_i, the
weights c summing to one. It runs in a frame where columns are centred (with a bias) and scaled by
powers of two to about unit variance, both exact to undo, so raw units of any size are solved alike,
and where the scores of k classes are those that sum to zero. Newton's loop carries its own proof.

`residual`: the largest absolute entry of J's gradient for centred columns of unit variance, never
less than the rounding bound of that sum at the returned params. Shapes as in `_passes`.
"""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin import _checks, _frame, _implicit, _iterate, _linalg, _passes, _proof, _rows, solvers
from jaxlin._frame import Problem
from jaxlin._passes import Point, Spec
from jaxlin.types import Info, Linear, Status

# A finite optimum is proved below 1; the rest is for rounding.
CERTIFICATE = 0.1
# Scores of this size are certain of their class; a start of such scores is poor unless optimal.
FAR = 10.0
# Up to this many coordinates the default is Newton's method, and L-BFGS beyond.
NEWTON_LIMIT = 256
# Up to this many, an optimum found without a Hessian is finished and proved with one.
DENSE_LIMIT = 1024
# Caps on the steps unless the user gives one.
NEWTON_STEPS, OTHER_STEPS = 100, 1000
# Rows per coordinate that a preconditioner is made of.
SAMPLES_PER_COORDINATE = 32
# A squared pivot below this many units of p * eps may be rounding: the columns are looked at.
PIVOT_ULPS = 16


class _Outcome(NamedTuple):
    """What a run came to, and what was proved about it.

    steps, trials: points that were taken, and all that were tried, which the cap is on
    unsettled: whether only the complete program can tell
    """

    point: Point
    steps: jax.Array
    trials: jax.Array
    certified: jax.Array
    deficient: jax.Array
    separated: jax.Array
    quasi: jax.Array
    unsettled: jax.Array


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


def named(init: Any) -> dict[str, Any]:
    """The parts of `init` by the names that messages call them."""
    return {} if init is None else {"init.weights": init.weights, "init.bias": init.bias}


def prepare(
    data: _checks.Table,
    num_classes: int,
    offset: jax.Array | None,
    l2: jax.Array,
    tol: jax.Array,
    max_steps: jax.Array | None,
) -> tuple[_rows.Rows, jax.Array]:
    """The rows, without weight unless all is valid, and whether it is."""
    rows, _, valid = _rows.prepare(data, num_classes=num_classes, offset=offset)
    valid &= jnp.all((l2 >= 0) & jnp.isfinite(l2)) & (tol >= 0)
    if max_steps is not None:
        valid &= max_steps >= 0
    return rows._replace(weight=jnp.where(valid, rows.weight, 0)), valid


def begin(
    spec: Spec, rows: _rows.Rows, valid: jax.Array, init: Linear | None
) -> tuple[_rows.Rows, jax.Array, Linear | None]:
    """As `prepare`, once the params to start from are judged too."""
    if init is None:
        return rows, valid, None
    if rows.feature_mask is not None:
        masked = jnp.where(rows.feature_mask[None, :], init.weights, 0)
        init = init._replace(weights=masked)
    valid &= jnp.all(jnp.isfinite(init.weights))
    if spec.bias:
        valid &= jnp.all(jnp.isfinite(init.bias))
    init = jax.tree.map(lambda a: jnp.where(valid, a, 0), init)
    return rows._replace(weight=jnp.where(valid, rows.weight, 0)), valid, init


def in_place(params, info: Info, limit, valid: jax.Array, usable: jax.Array):
    """Put the limit in place where classes are too few, and NaN where the data are not valid.

    By adding a constant, so that the derivative stays what the engine says of a failed fit.
    """
    alone = valid & ~usable

    def placed(value, limit):
        target = jnp.where(valid, jnp.where(alone, limit, value), jnp.nan)
        return value + jax.lax.stop_gradient(jnp.where(valid & ~alone, 0, target - value))

    status = jnp.where(alone, Status.CLASS_TOO_SMALL, info.status)
    status = jnp.where(valid, status, Status.INVALID_DATA).astype(jnp.int32)
    objective, residual = placed(info.objective, 0.0), placed(info.residual, 0.0)
    steps = jnp.where(valid, info.steps, 0)
    return jax.tree.map(placed, params, limit), Info(status, steps, objective, residual)


def run(program: Any, spec: Spec, k: int, data: _checks.Table, l2: jax.Array, *rest: Any) -> Any:
    """`program(spec, k, data, l2, *rest)`, which returns its result and whether it is unsettled.

    What a program holds is compiled whether it is used or not, and most problems need none of the
    proofs for singular Hessians and for optima at infinity. Without them that takes half as long;
    so an eager call tries it first. Traced, the program must be complete.
    """
    needs_newton = _is_newton(spec, data.x.shape[1], k - 1)
    if _checks.concrete((data, l2, rest)) and (needs_newton or np.all(np.asarray(l2) > 0)):
        found, unsettled = program(spec._replace(complete=False), k, data, l2, *rest)
        if not unsettled:
            return found
    return program(spec, k, data, l2, *rest)[0]


def fit(
    spec: Spec,
    rows: _rows.Rows,
    *,
    valid: jax.Array,
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
      valid: whether the data are.
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
    l2 = jnp.where(valid, l2, 0)
    m = 1 if basis is None else basis.shape[1]
    newton = _is_newton(spec, rows.x.shape[1], m)
    cap = jnp.int32(NEWTON_STEPS if newton else OTHER_STEPS) if max_steps is None else max_steps
    problem = _frame.make(jax.lax.stop_gradient(rows), jax.lax.stop_gradient(l2), spec.bias, basis)
    start = _frame.enter(problem, init, spec.bias)
    # The proof of what another solver found has steps of its own, unless the user counts them.
    more = max_steps is None and not newton and start.size <= DENSE_LIMIT
    last = cap + NEWTON_STEPS if more else cap
    if newton:
        unknown = jnp.full((), jnp.inf, start.dtype)
        origin = unknown if init is None else _passes.value_at_origin(spec, problem)
        outcome = _newton(spec, problem, start, origin, tol, cap, jnp.int32(0))
    else:
        outcome = _finish(spec, problem, start, tol, cap, last)
    # Where the optimum is at infinity the penalised weights vanish beside the others.
    found = outcome.point.theta
    found = jnp.where(outcome.separated & ~problem.free[None, :], 0, found)
    found = _linalg.after(outcome.certified, found)
    info = _info(outcome, tol, last)
    if not spec.complete:  # an eager call's, not differentiated
        return _frame.leave(problem, found, spec.bias), info, outcome.unsettled & valid & usable
    live = problem._replace(rows=rows, penalty=_frame.penalty(l2, problem.scale, problem.spread))
    proper = usable & (info.status <= Status.MAX_STEPS)

    def gradient(flat):
        return _passes.gradient(spec, live, flat.reshape(found.shape)).reshape(-1)

    theta = _implicit.root(gradient, found.reshape(-1), proper).reshape(found.shape)
    return _frame.leave(problem, theta, spec.bias), info, jnp.bool_(False)


def _info(outcome: _Outcome, tol: jax.Array, cap: jax.Array) -> Info:
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


def _is_newton(spec: Spec, d: int, m: int) -> bool:
    if spec.solver is None:
        return m * (d + spec.bias) <= NEWTON_LIMIT
    return spec.solver is solvers.newton


# --- Newton's method with its proof --------------------------------------------------------------


class _Run(NamedTuple):
    """Newton's loop: the best point so far, and the step from it to try next.

    whole: the factor of the Hessian there, damped
    """

    point: Point
    hess: jax.Array
    whole: _linalg.Factor
    step: jax.Array
    damping: jax.Array
    steps: jax.Array
    trials: jax.Array
    passed: jax.Array
    done: jax.Array
    quasi: jax.Array


def _newton(spec, problem, start, origin, tol, cap, before) -> _Outcome:
    """Damped Newton steps until the optimum is proved, or shown to be at infinity.

    The first trial is the start, taken if it is no worse than 0, where J is `origin`. After the
    residual has passed, one more step is tried: the method converges quadratically, so it ends at
    the floor of the dtype. `before` are steps that led to the start, and count.
    """
    # In the tail a step is the direction to infinity up to the larger of exp(-score) and
    # eps exp(score): at best the root of eps.
    tail = 4 * jnp.sqrt(jnp.finfo(start.dtype).eps)
    never = jnp.bool_(False)

    def advance(run: _Run) -> _Run:
        point, step = run.point, run.step
        flat = step.reshape(-1)
        trial, hess, drop, reach = _passes.measure(spec, problem, point.theta + step, step)
        curvature = _linalg.form(run.hess, flat)
        verdict = _iterate.judge(
            (point.value, point.residual),
            (trial.value, trial.residual),
            -jnp.sum(point.grad * step) - curvature / 2,
            run.damping,
            trial.noise,
        )
        held = _linalg.form(hess, flat) >= _iterate.CURVATURE_HELD * curvature
        # Far out the loss is a polyhedron, on which Newton's method zigzags: not a place to start.
        wild = (trial.reach > FAR) & (trial.residual > jnp.sqrt(tol)) & (run.trials == before)
        # The barrier keeps the compiler from computing the verdict anew for every field.
        accept = jax.lax.optimization_barrier(verdict.accept & ~wild)
        point, hess = _where(accept, (trial, hess), (point, run.hess))
        small = point.residual <= tol
        following, whole = _iterate.newton_step(hess, point.grad.reshape(-1), verdict.damping)
        quasi = _linalg.after(following, small & ~held & (reach > 0) & (drop >= -tail * reach))
        if spec.complete:
            recedes = functools.partial(_proof.recedes, spec)
            quasi = _linalg.when(quasi, recedes, never, (problem, point, step, tail))
        passed = small & held
        done = verdict.stalled | (passed & run.passed) | quasi | (point.margin > 0)
        done |= point.residual == 0
        return _Run(
            point=point,
            hess=hess,
            whole=whole,
            step=following.reshape(step.shape),
            damping=verdict.damping,
            # The start itself is no step.
            steps=run.steps + (accept & (run.trials > before)).astype(jnp.int32),
            trials=run.trials + 1,
            passed=passed,
            done=done,
            quasi=quasi,
        )

    nothing = jnp.zeros((start.size, start.size), start.dtype)
    run = _Run(
        point=_passes.origin(problem, origin),
        hess=nothing,
        whole=_linalg.Factor(nothing, jnp.zeros(start.size, start.dtype), jnp.zeros_like(origin)),
        step=start,
        damping=jnp.full((), _iterate.LEAST_DAMPING, start.dtype),
        steps=before,
        trials=before,
        passed=never,
        done=never,
        quasi=never,
    )

    def unfinished(run: _Run) -> jax.Array:
        # A start that is refused leaves the origin unmeasured: one trial more than there are steps.
        unknown = jnp.isinf(run.point.residual).astype(jnp.int32)
        return ~run.done & (run.trials <= cap + unknown)

    run = jax.lax.while_loop(unfinished, advance, run)
    return _prove(spec, problem, run._replace(trials=jnp.minimum(run.trials, cap + 1)), tol)


def _prove(spec: Spec, problem: Problem, run: _Run, tol: jax.Array) -> _Outcome:
    """The certificate at the last point, and, of many optima, the one of least norm."""
    size, point = run.step.size, run.point
    separated = point.margin > 0
    # The loop's own factor will do if neither rounding nor damping can be felt in it.
    least = PIVOT_ULPS * size * jnp.finfo(run.hess.dtype).eps
    damped = run.damping * jnp.max(jnp.abs(point.grad), initial=0) * jnp.max(run.whole.scale**2)
    sound = run.whole.pivot >= least + PIVOT_ULPS * damped
    unsettled = ~sound & ~separated & (point.residual <= tol)
    proof = _proof.Proof(
        whole=run.whole,
        decrement=jnp.sqrt(jnp.maximum(-jnp.sum(point.grad * run.step), 0)),
        sound=sound,
        excess=jnp.zeros_like(point.theta),
        noise=jnp.zeros_like(point.noise),
        deficient=jnp.bool_(False),
    )
    if spec.complete:
        on_range = functools.partial(_proof.on_range, least=least)
        proof = _linalg.when(unsettled, on_range, proof, (problem, point, run.hess))
    leverage = _proof.leverage(spec, problem, _linalg.after(proof.excess, proof.whole))
    certified = (proof.decrement * leverage <= CERTIFICATE) & proof.sound
    point = point._replace(theta=point.theta - proof.excess, noise=point.noise + proof.noise)
    deficient = proof.deficient | jnp.any(problem.idle)
    return _Outcome(
        point=point,
        steps=run.steps,
        trials=run.trials - 1,
        certified=certified,
        deficient=deficient,
        separated=separated,
        quasi=run.quasi,
        unsettled=jnp.bool_(False) if spec.complete else unsettled | run.quasi,
    )


def _where(condition: jax.Array, this: Any, that: Any) -> Any:
    return jax.tree.map(functools.partial(jnp.where, condition), this, that)


# --- other solvers -------------------------------------------------------------------------------


def _finish(spec, problem, start, tol, cap, last) -> _Outcome:
    """Run the solver, then prove its point; with a Hessian, if it takes one and one fits."""
    solver = solvers.lbfgs if spec.solver is None else spec.solver
    flat, steps = _iterate.warm_up(
        solver,
        _passes.objective(spec),
        start.reshape(-1),
        (problem,),
        hessian=_passes.hessian(spec),
        precondition=_preconditioner(spec, problem, start),
        # Its gradient is of other coordinates than the residual, which can be larger.
        tol=tol / (1 + math.sqrt(start.shape[0])),
        max_steps=cap,
    )
    theta = flat.reshape(start.shape)
    point = _passes.light(spec, problem, theta)
    never = jnp.bool_(False)
    # A penalty on every weight leaves only the bias free, which two classes hold.
    coercive = ~jnp.any(problem.free[: problem.centre.size]) & ~jnp.any(problem.idle)
    outcome = _Outcome(point, steps, steps, coercive, never, point.margin > 0, never, never)
    if start.size > DENSE_LIMIT:
        return outcome
    if not spec.complete:
        return outcome._replace(unsettled=_open(outcome, tol) & (steps < last))
    # Far out in the tail of separable data rounding hides the direction that Newton's method shows
    # on the way there; hence twice: from the solver's point, and if that proves nothing, from afar.
    starts, origin = jnp.stack([theta, start]), _passes.value_at_origin(spec, problem)

    def attempt(carry):
        outcome, i = carry
        return _newton(spec, problem, starts[i], origin, tol, last, outcome.trials), i + 1

    def more(carry):
        outcome, i = carry
        return _open(outcome, tol) & (outcome.trials < last) & (i < 2)

    return jax.lax.while_loop(more, attempt, (outcome, jnp.int32(0)))[0]


def _open(outcome: _Outcome, tol: jax.Array) -> jax.Array:
    """Whether nothing is proved yet."""
    passed = outcome.certified & (outcome.point.residual <= tol)
    return ~(passed | outcome.separated | outcome.quasi) & jnp.isfinite(outcome.point.value)


def _preconditioner(spec: Spec, problem: Problem, theta: jax.Array) -> jax.Array | None:
    """About the Hessian where every score is 0, `(p, p)`, the same for each degree of freedom.

    From a sample of the rows: that costs a step or two, and saves the time of many.
    """
    p = theta.shape[1]
    if p > DENSE_LIMIT:
        return None
    bare = problem.rows._replace(offset=None)
    sample = _rows.sample(bare, SAMPLES_PER_COORDINATE * p)
    total = jnp.sum(sample.weight)
    sample = sample._replace(weight=sample.weight / jnp.where(total > 0, total, 1))
    return _passes.curvature_at_zero(spec, problem._replace(rows=sample))

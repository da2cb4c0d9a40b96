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
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin import (
    _checks,
    _frame,
    _implicit,
    _iterate,
    _lanes,
    _linalg,
    _loops,
    _mixed,
    _newton,
    _passes,
    _platform,
    _proof,
    _quasi,
    _rows,
    _sampled,
    _truncated,
    _wide,
    solvers,
)
from jaxlin._frame import Problem
from jaxlin._passes import Spec
from jaxlin.types import Hyperplane, Info, Linear, Status

# Up to this many coordinates the default is Newton's method, and L-BFGS beyond.
NEWTON_LIMIT = 256
# With more entries of x than this a solver without Hessian is 2 to 4 times as fast.
NEWTON_ENTRIES = 100_000
# Or with more than this where no penalty is known to see to an optimum: its proof is compiled too.
DOUBTFUL_ENTRIES = 1_000_000
# Up to this many, an optimum found without a Hessian is finished and proved with one.
DENSE_LIMIT = 1024
# Of so few entries a fit is a fraction of a millisecond however it is compiled.
FEW_ENTRIES = 2048
# So many lanes are worth a fit before them.
MANY_LANES = 64
# Steps of L-BFGS that know the diagonal of the Hessian alone: about twice what such a fit needs.
SIMPLE_STEPS = 24
# Caps on the steps unless the user gives one; and, where there may be no optimum, of the default
# before it turns to Newton's method, which tells. That is twice what other fits need.
NEWTON_STEPS, OTHER_STEPS, DOUBTFUL_STEPS = 100, 1000, 50
# Where no penalty holds the params the default goes on to this part of tol, towards the floor of
# the dtype, which Newton's method reaches by a step more.
POLISHED = 1 / 16


class Smooth(NamedTuple):
    """What a method is, to the engine.

    joint: whether its params are of k classes at once
    """

    loss: Callable[..., jax.Array]
    curvature: Callable[..., jax.Array] | None
    agreement: Callable[..., _passes.Agreement]
    joint: bool


# The methods of this engine, by their fit.
SMOOTH: dict[Callable, Smooth] = {}


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


def penalised(l2: Any, dtype: Any) -> bool | None:
    """Whether every l2 is positive; None where that is not known when the program is traced."""
    if isinstance(l2, jax.core.Tracer) or not getattr(l2, "is_fully_addressable", True):
        return None
    return bool(np.all(np.asarray(l2).astype(dtype) > 0))


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
    trusted = _is_trusted(spec, data)
    rows, _, valid = _rows.prepare(data, num_classes=num_classes, offset=offset, trusted=trusted)
    valid &= jnp.all((l2 >= 0) & jnp.isfinite(l2)) & (tol >= 0)
    if max_steps is not None:
        valid &= max_steps >= 0
    return rows, valid


def _is_trusted(spec: Spec, rows: _rows.Rows | _checks.Table) -> bool:
    """Whether x is read once less, as what is no number in it is seen as the frame is made.

    What the others are then is for the complete program to tell.
    """
    return not spec.complete and rows.x.size > NEWTON_ENTRIES


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
    if given is not None:
        instead = _implicit.guarded(params, fine, given, instead)
    return instead, Info(status, steps, objective, residual)


def run(program: Any, spec: Spec, k: int, data: _checks.Table, l2: jax.Array, *rest: Any) -> Any:
    """`program(spec, k, data, l2, *rest)`, which returns its result and whether it is unsettled.

    What a program holds is compiled whether it is used or not, and most problems need none of the
    proofs for singular Hessians and for optima at infinity. Without them that takes half as long;
    so an eager call tries it first; of few entries, compiled for this call and not for thousands to
    come. Traced, the program must be complete.
    """
    wide = _is_wide(spec, data, k - 1)
    if not wide:
        spec = spec._replace(penalised=spec.penalised or None)  # the same program
    if not _checks.concrete((data, l2, rest)):
        return program(spec, k, data, l2, *rest)[0]
    if data.x.size <= FEW_ENTRIES and _platform.on_cpu():
        program = _platform.quickly(program)
    newton = is_newton(spec, data.x.shape, k - 1)
    proved_by_part = spec.solver is None and data.x.size > DOUBTFUL_ENTRIES
    if spec.penalised or newton or proved_by_part:
        lean = spec._replace(complete=False)
        if newton:
            lean = lean._replace(penalised=None)  # the same program
        found, unsettled = program(lean, k, data, l2, *rest)
        if _checks.concrete(unsettled) and not unsettled:
            return found
    return program(spec, k, data, l2, *rest)[0]


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
    if not _is_wide(spec, rows, m) or spec.penalised is False:
        problem, found = _framed(spec, by_features, rows, l2, *arguments)
        return _left_by_features(spec, problem, rows, usable, l2, found)
    if spec.penalised:
        problem, found = _framed(spec, by_rows, rows, l2, *arguments)
        return _left_by_rows(spec, problem, rows, usable, l2, found)
    # Each does its part on the rows of a lane that are its own, and nothing without. One after the
    # other, and of the derivatives LAPACK does only the first: see `_linalg.after`.
    penalised = jnp.all(l2 > 0)
    few, many = _rows.where(penalised, rows), _rows.where(~penalised, rows)
    alone = jnp.where(penalised, l2, 1)
    wide, (theta, *said) = _framed(spec, by_rows, few, alone, *arguments)
    tall, found = _framed(spec, by_features, many, _linalg.after((theta, said), l2), *arguments)
    theta = _linalg.after(found, theta)
    return jax.tree.map(
        functools.partial(jnp.where, penalised),
        _left_by_rows(spec, wide, few, usable & penalised, alone, (theta, *said)),
        _left_by_features(spec, tall, many, usable & ~penalised, l2, found, by_products=True),
    )


def _solved_by_rows(spec, problem, init, tol, max_steps):
    """theta, an Info, and that all is told, where every l2 is positive: by Newton's on the rows."""
    cap = jnp.int32(NEWTON_STEPS) if max_steps is None else max_steps
    start = None if init is None else _frame.enter(problem, init, spec.bias)
    outcome = _wide.solve(spec, problem, start, tol, cap)
    theta = _linalg.after(outcome.certified, outcome.point.theta)
    return theta, _info(outcome, tol, cap), outcome.unsettled


def _left_by_rows(spec, problem, rows, usable, l2, found):
    """What `fit` returns, with its derivatives."""
    theta, info, unsettled = found
    if spec.complete:
        proper = usable & (info.status <= Status.MAX_STEPS)
        theta = _wide.differentiable(spec, _frame.live(problem, rows, l2), theta, proper)
    return _frame.leave(problem, theta, spec.bias), info, unsettled & usable


def _left_by_features(spec, problem, rows, usable, l2, found, *, by_products=False):
    """What `fit` returns, with its derivatives."""
    theta, info, unsettled = found
    if spec.complete:  # without, the call is eager: not differentiated
        live = _frame.live(problem, rows, l2)
        proper = usable & (info.status <= Status.MAX_STEPS)
        gradient = functools.partial(_passes.flat_gradient, spec)
        hessian = _passes.hessian(spec)
        flat = _implicit.root(gradient, hessian, live, theta.reshape(-1), proper, by_products)
        theta = flat.reshape(theta.shape)
    return _frame.leave(problem, theta, spec.bias), info, unsettled & usable


def _framed(spec, solve, rows, l2, init, tol, max_steps, basis, usable):
    """The problem, and `solve(problem, init, tol, max_steps)`, lanes chunk by chunk.

    Neither has a derivative.
    """

    def solved(rows, l2, init, tol, max_steps, basis, usable, **options):
        problem = _frame.make(rows, l2, spec.bias, basis)
        problem = problem._replace(used=problem.used & usable)
        if not _is_trusted(spec, rows):
            found = solve(problem, init, tol, max_steps, **options)
        else:
            sound = _frame.empty_unless_bounded(problem)
            theta, info, unsettled = solve(sound, init, tol, max_steps, **options)
            found = theta, info, unsettled | ~problem.bounded
        return (problem.centre, problem.scale), (problem[3:], found)

    if not isinstance(rows, _rows.Streamed) and rows.axis.name is None:
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
        # Lanes of one x share the products of its columns, and Newton's method is the quickest.
        alike = m == 1 and not apart and rows.x.shape[-1] < _passes.SHARED_LIMIT
        large = bool(spec.penalised) and not alike
        newton = is_newton(spec, rows.x.shape[-2:], m, large=large)
        f = functools.partial(solved, large=large) if newton else solved
        if axis_size >= MANY_LANES and init is None and not any(jax.tree.leaves(each)) and newton:
            ok = rows.ok.astype(rows.weight.dtype)
            equal = rows._replace(weight=ok / jnp.maximum(jnp.sum(ok), 1))
            if basis is not None:
                basis = _frame.class_basis(_rows.present(equal, k), equal.weight.dtype)
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
            in_batched = [*in_batched[:2], jax.tree.map(lambda _: True, init), *in_batched[3:]]
            f = functools.partial(f, doubted=False)
        axes = jax.tree.map(lambda batched: 0 if batched else None, tuple(in_batched))
        out = (0 if apart else None, 0)
        found = jax.vmap(f, in_axes=axes, out_axes=out, axis_size=axis_size)(
            rows, l2, init, *others
        )
        shared, own = found
        return found, (jax.tree.map(lambda _: apart, shared), jax.tree.map(lambda _: True, own))

    return many


def _solved_by_features(spec, problem, init, tol, max_steps, *, doubted=True, large=None):
    """theta, an Info, and whether only the complete program can tell.

    An init that is not `doubted` is no worse a place to begin than 0. `large` is as of `is_newton`.
    """
    n, d = problem.rows.x.shape
    if large is None:
        # Newton's method alone makes the most of few steps, and of rows or lanes over a mesh axis.
        dealt = problem.rows.axis.name is not None or _loops.varies(problem)
        large = bool(spec.penalised) or (max_steps is None and not dealt)
    newton = is_newton(spec, (n, d), problem.used.size, large=large)
    start = _frame.enter(problem, init, spec.bias)
    most = NEWTON_STEPS if newton or is_truncated(spec) else OTHER_STEPS
    if not newton and _is_doubtful(spec, start):
        most = DOUBTFUL_STEPS
    cap = jnp.int32(most) if max_steps is None else max_steps
    # The proof of what another solver found has steps of its own, unless the user counts them.
    more = max_steps is None and not newton and start.size <= DENSE_LIMIT
    last = cap + NEWTON_STEPS if more else cap
    if newton:
        doubted = doubted and init is not None
        if doubted:
            origin = _passes.value_at_origin(spec, problem)
            outcome = _newton.solve(spec, problem, start, origin, tol, cap, jnp.int32(0))
        elif max_steps is None:
            outcome = _mixed.solve(spec, problem, start, tol, cap)
        else:
            outcome = _newton.undoubted(spec, problem, start, tol, cap, jnp.int32(0))
    else:
        outcome = _finish(spec, problem, start, tol, cap, last, init is not None)
    return *said(problem, outcome, tol, last), outcome.unsettled


def said(problem: Problem, outcome: _newton.Outcome, tol, cap) -> tuple[jax.Array, Info]:
    """theta, and what is said of it."""
    # Where the optimum is at infinity the penalised weights vanish beside the others.
    found = outcome.point.theta
    found = jnp.where(outcome.separated & ~problem.free[None, :], 0, found)
    return _linalg.after(outcome.certified, found), _info(outcome, tol, cap)


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


def _is_wide(spec: Spec, rows: _rows.Rows | _checks.Table, m: int) -> bool:
    """Whether the rows are few beside the features: the default then works in their space."""
    n, d = rows.x.shape
    if spec.solver is not None or is_newton(spec, (n, d), m) or rows.axis.name is not None:
        return False
    return n < d and m * (n + spec.bias) <= DENSE_LIMIT


def is_newton(spec: Spec, shape: tuple[int, ...], m: int, *, large: bool = True) -> bool:
    """Whether the solver is Newton's method with a Hessian.

    large: whether a large x is for another, which takes more passes over it
    """
    n, d = shape
    if spec.solver is not None:
        return spec.solver is solvers.newton
    entries = NEWTON_ENTRIES if spec.penalised else DOUBTFUL_ENTRIES
    return m * (d + spec.bias) <= NEWTON_LIMIT and not (large and n * d > entries)


def is_truncated(spec: Spec) -> bool:
    """Whether the default, where it is not Newton's method with a Hessian, is that without."""
    return spec.solver is None and spec.bend is not None


# --- other solvers -------------------------------------------------------------------------------


def _finish(spec, problem, start, tol, cap, last, doubted) -> _newton.Outcome:
    """Run the solver, then prove its point; with a Hessian, if it takes one and one fits."""
    doubtful = _is_doubtful(spec, start)
    most = jnp.minimum(cap, DOUBTFUL_STEPS) if doubtful else cap
    outcome = _found(spec, problem, start, tol, most, doubted)
    if start.size > DENSE_LIMIT:
        return outcome
    if doubtful:
        outcome = _proved_by_part(spec, problem, outcome, tol)
    if not spec.complete:
        return outcome._replace(unsettled=is_open(outcome, tol) & (outcome.trials < last))
    # Far out in the tail of separable data rounding hides the direction that Newton's method shows
    # on the way there; hence twice: from the solver's point, and if that proves nothing, from afar.
    starts, origin = jnp.stack([outcome.point.theta, start]), _passes.value_at_origin(spec, problem)

    def attempt(carry):
        found, i = carry
        # Half of what is left is for each.
        most = jnp.where(i == 0, (found.trials + last) // 2, last)
        found = _newton.solve(spec, problem, starts[i], origin, tol, most, found.trials)
        # Where a penalty proves that there is an optimum no step need prove it.
        return found._replace(certified=found.certified | outcome.certified), i + 1

    def more(carry):
        found, i = carry
        return is_open(found, tol) & (found.trials < last) & (i < 2)

    return jax.lax.while_loop(more, *_loops.steady(attempt, (outcome, jnp.int32(0))))[0]


def _is_doubtful(spec: Spec, start: jax.Array) -> bool:
    """Whether a default without Hessian is asked for what may have no optimum, and one can tell."""
    return spec.solver is None and not spec.penalised and start.size <= DENSE_LIMIT


def _proved_by_part(spec, problem, outcome, tol) -> _newton.Outcome:
    """`outcome`, proved if the curvature of some of the rows does, or that of all: see `_proof`."""

    def by(part_of, problem, point):
        part = part_of(problem)
        _, hess = _passes.measure(_unasked(spec), part, point.theta)
        proof = _proof.undamped(part, point, hess, least=_newton.least_eigenvalue(point.theta))
        decrement = jnp.hypot(proof.decrement, _proof.hidden(problem, point, proof.root))
        return _newton.is_certified(spec, part, proof.root, decrement) & proof.sound

    passed = (outcome.point.residual <= tol) & is_open(outcome, tol)
    proved = jnp.bool_(False)
    # In single precision, of correlated columns, some are too few.
    for part_of in (_sampled.part_of_proof, lambda problem: problem):
        by_part = functools.partial(by, part_of)
        proved = _linalg.when(passed & ~proved, by_part, proved, (problem, outcome.point))
    deficient = proved & jnp.any(problem.idle)
    return outcome._replace(certified=outcome.certified | proved, deficient=deficient)


def _unasked(spec: Spec) -> Spec:
    """Of passes that do not ask whether a plane separates the classes, which costs as much again.

    What they find is proved afterwards, where that matters.
    """
    return spec._replace(penalised=True)


def _found(spec, problem, start, tol, cap, doubted) -> _newton.Outcome:
    """Where the solver ends, and what one pass says of it."""
    # A solver's last pass is not the one that is judged, and rounds otherwise.
    further = spec.solver is None and not spec.penalised and spec.polished
    below = (POLISHED if further else 0.9) * tol
    # Here it is the one, where all weights are penalised.
    enough = tol if spec.penalised else below
    if _has_optimum(spec, problem, start) and not doubted:
        theta, curved = _sampled.optimum(_unasked(spec), problem)
        if not spec.penalised:
            # A sample that is nearly separated leaves all to Newton's method.
            told = jnp.any(theta != 0) | ~jnp.any(problem.free[: problem.centre.size])
            cap = jnp.where(told, cap, 0)
        found = _quasi.descend(_unasked(spec), problem, theta, curved, enough, cap)
        return _outcome(problem, *found)
    if is_truncated(spec):
        point, steps, spent = _truncated.descend(spec, problem, start, enough, cap, doubted=doubted)
        if not spec.penalised and start.size > NEWTON_LIMIT:  # of fewer Newton's method soon tells
            point = _passes.light(spec, problem, point.theta)
        return _outcome(problem, point, steps)._replace(trials=jnp.where(spent, cap, steps))
    if doubted:
        value, origin = _passes.objective(spec), _passes.value_at_origin(spec, problem)
        start = jnp.where(value(start.reshape(-1), problem) <= origin, start, 0)
    solver = solvers.lbfgs if spec.solver is None else spec.solver
    if _loops.varies(problem, problem.rows.axis.name):
        raise TypeError(
            f"solver: the line search of {solver.__name__} does not take lanes that are dealt over "
            "a mesh axis; solvers.newton does"
        )

    def run(begin, most, **units):
        flat, steps, arrived = _iterate.warm_up(
            solver,
            _passes.objective(spec),
            begin.reshape(-1),
            (problem,),
            hessian=_passes.hessian(spec),
            size=lambda grad: _passes.residual(problem, grad.reshape(start.shape)),
            # Its gradient is of other coordinates than the residual, which can be larger.
            slack=slack(start.shape[0]),
            tol=below,
            max_steps=most,
            **units,
        )
        return flat.reshape(start.shape), steps, arrived

    if _may_be_simple(spec, problem, start):
        theta, steps = _simply(spec, problem, start, run, cap)
    else:
        precondition, lower = preconditioner(spec, problem), None
        if precondition is None and not isinstance(problem.rows, _rows.Streamed):
            lower = jnp.sqrt(_sampled.diagonal(spec, problem))
        theta, steps, _ = run(start, cap, precondition=precondition, lower=lower)
    return without_hessian(spec, problem, theta, steps)


def _may_be_simple(spec: Spec, problem: Problem, start: jax.Array) -> bool:
    """Whether a fit that knows the diagonal of its Hessian alone may be quick."""
    dense = not isinstance(problem.rows, _rows.Streamed) and _sampled.is_dense(problem)
    return spec.solver is None and dense and not _has_optimum(spec, problem, start)


def _simply(spec, problem, start, run, cap):
    """`run` in units of the Hessian's diagonal where columns look independent, for some steps.

    Where they do not, or it has not arrived, in units of a sample's Hessian.
    """

    def of_sample(problem):
        return jnp.linalg.cholesky(_curvature(spec, problem))

    def attempt(carry):
        theta, steps, turn = carry
        diagonal = jnp.diag(jnp.sqrt(_sampled.diagonal(spec, problem)))
        lower = _linalg.when(turn > 0, of_sample, diagonal, (problem,))
        most = jnp.where(turn > 0, cap - steps, jnp.minimum(cap, SIMPLE_STEPS))
        theta, more, arrived = run(theta, most, lower=lower)
        return theta, steps + more, jnp.where(arrived | (turn > 0), 2, 1)

    turn = jnp.where(_sampled.are_independent(problem), 0, 1)
    init = start, jnp.int32(0), turn
    theta, steps, _ = jax.lax.while_loop(lambda c: c[2] < 2, *_loops.steady(attempt, init))
    return theta, steps


def slack(m: int) -> float:
    """How much smaller than the residual a solver's own is to be."""
    return 1 + math.sqrt(m)


def limit_of(one: jax.Array, bias: bool, dtype: Any) -> Hyperplane:
    """The plane for rows of one class, class 1 or not."""
    lost = jnp.asarray(0.0 if bias else jnp.nan, dtype)
    return Hyperplane(weights=lost, bias=lost + jnp.where(one, jnp.inf, -jnp.inf).astype(dtype))


def without_hessian(spec, problem, theta, steps) -> _newton.Outcome:
    """What one pass says of a point that another solver found."""
    return _outcome(problem, _passes.light(spec, problem, theta), steps)


def _outcome(problem: Problem, point: _passes.Point, steps: jax.Array) -> _newton.Outcome:
    """What is proved of a point whose Hessian is not known."""
    never = jnp.bool_(False)
    # A penalty on every weight leaves only the bias free, which two classes hold.
    coercive = ~jnp.any(problem.free[: problem.centre.size]) & ~jnp.any(problem.idle)
    return _newton.Outcome(point, steps, steps, coercive, never, point.short == 0, never, never)


def is_open(outcome: _newton.Outcome, tol: jax.Array) -> jax.Array:
    """Whether nothing is proved yet."""
    passed = outcome.certified & (outcome.point.residual <= tol)
    return ~(passed | outcome.separated | outcome.quasi) & jnp.isfinite(outcome.point.value)


def _has_optimum(spec: Spec, problem: Problem, start: jax.Array) -> bool:
    """Whether that of a sample is worth what it costs."""
    few = start.size <= NEWTON_LIMIT and _sampled.spares(problem)
    return bool(spec.solver is None and few and start.shape[0] == 1)


def preconditioner(spec: Spec, problem: Problem) -> jax.Array | None:
    """Of a solver that starts at 0, `(p, p)`."""
    return _curvature(spec, problem) if _sampled.is_dense(problem) else None


def _curvature(spec: Spec, problem: Problem) -> jax.Array:
    """About the Hessian where every score is 0, `(p, p)`, the same for each degree of freedom."""
    plain = _sampled.without_offset(problem)
    origin = jnp.zeros((problem.used.size, problem.spread.size), problem.spread.dtype)
    return _sampled.curvature(spec, plain, origin, _sampled.FEW_ROWS)

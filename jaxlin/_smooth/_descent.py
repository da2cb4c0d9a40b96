"""Newton's method and L-BFGS over a stream, step by step, as `_risk` takes them in one program.

Each step is a compiled program that asks the host for block after block; between two of them the
host has all there is to know, a `State`. Shapes as in `_passes`.
"""

import contextlib
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin import solvers
from jaxlin._base import _checks, _platform, _traits
from jaxlin._data import _prepare, _rows, _stream
from jaxlin._files import _source
from jaxlin._smooth import (
    _frame,
    _iterate,
    _light,
    _matrix_free,
    _newton,
    _passes,
    _plan,
    _record,
    _risk,
)
from jaxlin.types import Hyperplane, Linear


class State(NamedTuple):
    """A run between two passes.

    about: what it is a run of: the data's shape and weight, and the options
    stage: "lbfgs" or "newton"
    leaves: the arrays of the solver's own state
    steps: `()`
    residual: `()`, as in Info; while L-BFGS runs, in its own coordinates
    """

    about: dict[str, Any]
    stage: str
    leaves: list[Any]
    steps: Any
    residual: Any


class _Run(NamedTuple):
    """What stays as it is during a run.

    lower: of the preconditioner, or None
    cap, last: on the steps, and on these with those that prove
    """

    problem: _frame.Problem
    lower: jax.Array | None
    tol: jax.Array
    cap: jax.Array
    last: jax.Array


def fit(
    fit,
    source,
    k,
    kept,
    bar,
    *,
    l2=0.0,
    solver=None,
    bias=True,
    feature_mask=None,
    tol=None,
    max_steps=None,
):
    """`(params, info)` of `fit`, which has a loss, to a source; see `streaming.fit`.

    kept: an `_archive.Kept`, of States.
    """
    loss = _traits.of(fit).loss
    with opened(source, k, loss.joint, feature_mask, kept) as (found, reader, rows):
        dtype = rows.scale.dtype
        spec = spec_of(loss, solver, bias, _risk.penalised(l2, dtype), tol)
        if spec.solver not in (None, solvers.newton, solvers.lbfgs):
            raise TypeError("solver: a stream takes solvers.newton or solvers.lbfgs")
        penalty = _checks.penalty(l2, found.d, dtype)
        tolerance = _checks.tolerance(tol, dtype)
        check_numbers(l2=penalty, tol=tolerance, max_steps=max_steps)
        present = found.classes > 0
        m = max(found.k - 1, 1)
        counted = max_steps is not None
        plan = _plan.plan(spec, (found.n, found.d), m, counted=counted, streamed=True)
        cap = _checks.count(max_steps if counted else plan.steps, "max_steps")
        problem = _problem(spec, rows, penalty, present if loss.joint else None)
        last = cap + plan.more
        lower = _lower(spec, plan, problem)
        name = str(getattr(solver, "__name__", None))
        known = about(fit, found, dtype, l2, feature_mask, [bias, name, float(tolerance)])
        run = _Run(problem, lower, tolerance, jnp.int32(cap), jnp.int32(last))
        outcome = _solved(spec, plan, run, Drive(kept, known, bar, reader))
        return returned(spec, problem, outcome, tolerance, run.last, present)


@contextlib.contextmanager
def opened(source, k, joint, feature_mask, kept):
    """`(index, reader, rows)` of a source while it is read."""
    found = _source.index(source, k if joint else 2, feature_mask, soft=True, digest=kept.known)
    check_kind(found, joint)
    with _source.reader_of(source, found, feature_mask) as reader:
        yield found, reader, streamed(reader, found, feature_mask)


def spec_of(loss, solver, bias, penalised, tol) -> _record.Spec:
    return _record.Spec(
        loss=loss,
        solver=_risk.check_solver(solver),
        bias=_checks.static(bias, bool, "bias"),
        penalised=penalised,
        polished=tol is None,
    )


def check_kind(found: _source.Index, joint: bool) -> None:
    if found.labels and (found.labels > 1) != joint:
        raise ValueError(f"y: expected soft labels of shape {'(n, k)' if joint else '(n,)'}")


def check_numbers(**given: Any) -> None:
    for name, value in given.items():
        if value is not None and not np.all((np.asarray(value) >= 0) & np.isfinite(value)):
            raise ValueError(f"{name}: expected finite numbers >= 0, got {np.asarray(value)}")


def about(fit, found: _source.Index, dtype, l2, feature_mask, options) -> dict[str, Any]:
    """What a State is of."""
    return {
        "fit": f"{fit.__module__}.{fit.__name__}",
        "shape": [found.n, found.d, found.k, found.targets],
        "dtype": str(dtype),
        "weight": found.total.tolist(),
        "digest": found.digest,
        "l2": np.asarray(l2, float).tolist(),
        "mask": None if feature_mask is None else np.asarray(feature_mask).tolist(),
        "options": options,
    }


class Drive:
    """Goes through the steps of a run, each a program, and tells of each."""

    def __init__(self, kept, about, bar, reader):
        state = kept.state
        if state is not None and not isinstance(state, State):
            raise ValueError(f"state: expected a State, got {type(state).__name__}")
        if state is not None and dict(state.about) != about:
            other = [name for name, value in about.items() if state.about.get(name) != value]
            raise ValueError(f"state: of another run, whose {', '.join(other)} differ")
        self.state, self._about = state, about
        self._kept, self._bar, self._reader = kept, bar, reader

    def through(self, stage: str, step, more, carry, said):
        """`carry` after all steps of a stage, from where the state is if that is of it.

        `said(carry)`: the steps, and the residual.
        """
        if self.state is not None and self.state.stage == stage:
            carry = jax.tree.unflatten(jax.tree.structure(carry), self.state.leaves)
            self.state = None
        while more(carry):
            carry = jax.block_until_ready(step(carry))
            steps, left = said(carry)
            self._kept.follow(State(self._about, stage, jax.tree.leaves(carry), steps, left))
            self._bar.moved(self._reader.passes, residual=float(left))
        return carry


def _solved(spec, plan, run, drive: Drive) -> _newton.Outcome:
    """Step by step, each a State: L-BFGS if it is to be, then Newton's method, which proves."""
    start = jnp.zeros((run.problem.used.size, run.problem.spread.size), run.tol.dtype)
    outcome, trials, newton = None, np.int32(0), plan.method is _plan.Method.NEWTON
    if not newton:
        carry = _lbfgs_first(spec, run)
        if drive.state is None or drive.state.stage == "lbfgs":
            carry = drive.through(
                "lbfgs",
                functools.partial(_lbfgs_step, spec, run),
                functools.partial(_lbfgs_unfinished, spec, run),
                carry,
                functools.partial(_lbfgs_said, spec, run),
            )
            outcome = _lbfgs_outcome(spec, run, carry)
            finished = not _matrix_free.is_open(outcome, run.tol)
            if finished or not plan.finished:
                return outcome
            start, trials = outcome.point.theta, outcome.trials
    doubted = not newton
    begun = _begun(spec, doubted, run, start, trials)
    carry = begun, jnp.asarray(trials), jnp.bool_(spec.polished)
    while True:
        carry = drive.through(
            "newton",
            functools.partial(_newton_step, spec, doubted, run),
            lambda carry: bool(_newton.unfinished(carry[0], run.last)),
            carry,
            lambda carry: (carry[0].steps, carry[0].point.residual),
        )
        outcome = _proved(spec, run, carry)
        if carry[2] or not _newton.is_open(outcome, run.tol):
            return outcome
        carry = carry[0]._replace(done=jnp.bool_(False)), carry[1], jnp.bool_(True)


@functools.partial(_platform.jit, static_argnums=0)
def _problem(spec, rows, l2, present):
    basis = None if present is None else _frame.class_basis(present, l2.dtype)
    return _frame.make(rows, l2, spec.bias, basis)


@functools.partial(_platform.jit, static_argnums=(0, 1))
def _lower(spec, plan, problem):
    if plan.method is _plan.Method.NEWTON or plan.units is not _plan.Units.MATRIX:
        return None
    return jnp.linalg.cholesky(_matrix_free.curvature(spec, problem))


@functools.partial(_platform.jit, static_argnums=(0, 1))
def _begun(spec, doubted, run, start, trials):
    unknown = jnp.full((), jnp.inf, start.dtype)
    origin = _light.value_at_origin(spec, run.problem) if doubted else unknown
    return _newton.begin(run.problem, start, origin, trials)


@functools.partial(_platform.jit, static_argnums=(0, 1))
def _newton_step(spec, doubted, run, carry):
    point, before, polished = carry
    step = functools.partial(_newton.advance, spec, doubted, run.problem, None, run.tol)
    return step(before, polished, point), before, polished


@functools.partial(_platform.jit, static_argnums=0)
def _proved(spec, run, carry):
    ended, _, polished = carry
    ended = ended._replace(trials=jnp.minimum(ended.trials, run.last + 1))
    return _newton.prove(spec, run.problem, ended, run.tol, polished)


def _loop(spec, run):
    """L-BFGS on flat thetas, as `_risk` runs it."""
    method = _iterate.LBFGS
    start = jnp.zeros(run.problem.used.size * run.problem.spread.size, run.tol.dtype)
    frame = _iterate.Frame.of(
        _light.objective(spec), start, (run.problem,), _passes.hessian(spec), None
    )._replace(lower=run.lower)
    options = {name: jnp.asarray(value, start.dtype) for name, value in method.defaults}
    tol = run.tol / _matrix_free.slack(run.problem.used.size)
    return frame, _iterate.loop_of(method, frame, options, tol, run.cap)


@functools.partial(_platform.jit, static_argnums=0)
def _lbfgs_first(spec, run):
    return _loop(spec, run)[1][2]()


@functools.partial(_platform.jit, static_argnums=0)
def _lbfgs_step(spec, run, carry):
    return _loop(spec, run)[1][1](carry)


@functools.partial(_platform.jit, static_argnums=0)
def _lbfgs_unfinished(spec, run, carry):
    return _loop(spec, run)[1][0](carry)


@functools.partial(_platform.jit, static_argnums=0)
def _lbfgs_said(spec, run, carry):
    return carry[1], _loop(spec, run)[0].residual(carry[0].grad)


@functools.partial(_platform.jit, static_argnums=0)
def _lbfgs_outcome(spec, run, carry):
    frame, _ = _loop(spec, run)
    theta = frame.leave(carry[0].point).reshape(run.problem.used.size, -1)
    return _matrix_free.without_hessian(spec, run.problem, theta, carry[1])


@functools.partial(_platform.jit, static_argnums=0)
def returned(spec, problem, outcome, tol, last, present):
    """`(params, info)` of a fit of whose classes some are `present (k,)`."""
    theta, info = _risk.said(problem, outcome, tol, last)
    return placed(spec, _frame.left(problem, theta, spec.bias), info, present)


def placed(spec, params, info, present):
    """The params as the fit returns them, and their Info; `_frame.left`'s are a Linear."""
    usable, valid = jnp.sum(present) > 1, jnp.bool_(True)
    dtype = params.bias.dtype
    if spec.loss.joint:
        limit = jax.tree.map(jnp.zeros_like, params)
        params, info = _risk.in_place(params, info, limit, valid, usable)
        absent = jnp.where(present, 0, -jnp.inf).astype(dtype)
        return Linear(weights=params.weights, bias=params.bias + absent), info
    plane = Hyperplane(weights=params.weights[0], bias=params.bias[0])
    return _risk.in_place(plane, info, _risk.limit_of(present[1], spec.bias, dtype), valid, usable)


def streamed(reader: _stream.Reader, found: _source.Index, feature_mask: Any) -> _rows.Streamed:
    """The rows of a reader; of many targets, whichever: a lane says of which it is."""
    x, y, weight = found.some
    if found.targets:
        y = np.clip(y[:, 0], 0, 1)
    if weight is not None and weight.ndim == 2:
        weight = weight.mean(axis=1)
    mask = _checks.mask_of(feature_mask, found.d)
    data = _checks.table(
        x, y, sample_weight=weight, feature_mask=mask, soft=True, num_classes=_source.columns_of(y)
    )
    some, *_ = _prepare.prepare(data, num_classes=found.k)
    first = jnp.asarray(found.first)
    classes = found.classes[0] if found.targets else found.classes
    return _rows.Streamed(
        x=reader.stream(),
        scale=jnp.ones((), _checks.working_dtype(first)),
        classes=jnp.asarray(classes, _checks.working_dtype(first)),
        first=first if mask is None else jnp.where(mask, first, 0),
        some=some,
        feature_mask=mask,
    )

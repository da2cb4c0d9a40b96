"""Newton's method for many lanes of float64 by way of float32, which takes a CPU half the time.

Steps are taken in float32, and curvature is found there. What is said of a point is found in
float64, and the point refined with the factor of float32 until it passes (Higham 2002, "Accuracy
and stability of numerical algorithms", chapter 12). The certificate, see `_proof`, then is of a
gradient in float64 and of a Hessian in float32, which serves where it is regular by float32's
rounding, and where no score that it was made of is rounded by more than a little: else the two are
of different points. A lane that fails in any of this is solved in float64, as if it had not been
led. Shapes as in `_passes`.
"""

import functools

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _batched, _loops, _mesh, _platform
from jaxlin._data import _rows
from jaxlin._smooth import _frame, _light, _newton, _plan, _scoring
from jaxlin._smooth._frame import Problem
from jaxlin._smooth._newton import Outcome
from jaxlin._smooth._passes import Point
from jaxlin._smooth._record import Spec

# The least residual that is asked of float32, and points after it that are tried in float64.
TOL, REFINEMENTS = 1e-5, 3
# Scores that are known to this much tell a row's curvature to a tenth.
SCORE = 0.1


def solve(
    spec: Spec, problem: Problem, start: jax.Array, tol: jax.Array, cap: jax.Array
) -> Outcome:
    """As `_newton.undoubted`; lanes of a vmap by way of float32, where that pays."""

    @jax.custom_batching.custom_vmap
    def either(problem, start, tol, cap):
        return _newton.undoubted(spec, problem, start, tol, cap, jnp.int32(0))

    @either.def_vmap
    def _(axis_size, in_batched, *operands):
        mixed = _platform.on_cpu() and _pays(operands[0], axis_size, in_batched[0])
        f = functools.partial(_by_single, spec) if mixed else either.fun
        found = _batched.each(f, axis_size, in_batched)(*operands)
        return found, _batched.all_of(found)

    return either(problem, start, tol, cap)


def _pays(problem: Problem, lanes: int, batched: Problem) -> bool:
    """Whether so many lanes are worth it, and their columns may be held in float32."""
    rows, own = problem.rows, batched.rows
    if isinstance(rows, _rows.Streamed) or rows.axis.name is not None or _loops.varies(problem):
        return False  # or lanes are dealt over a mesh axis
    # Columns are shared where lanes are of other weights alone.
    shared = not (own.x or own.ok or own.feature_mask)
    return _plan.in_single(lanes, rows.x.shape[-2:], problem.spread.dtype, shared=shared)


def _by_single(spec, problem, start, tol, cap):
    x, framed = problem.rows.x, _frame.columns(problem, _rows.clean(problem.rows))
    narrow, begin, least = jax.tree.map(_linalg.narrow, (problem, start, jnp.maximum(tol / 2, TOL)))
    # Nothing reads x, which is not copied in float32 either.
    narrow = narrow._replace(rows=narrow.rows._replace(x=x, framed=_linalg.narrow(framed)))
    unknown = jnp.full((), jnp.inf, least.dtype)
    lean = spec._replace(complete=False, polished=False)
    run = _newton.descend(lean, narrow, begin, unknown, least, cap, jnp.int32(0), doubted=False)
    led = ((run.passed > 0) & ~run.quasi) | (run.point.short == 0)
    begin = jnp.where(led, run.point.theta.astype(start.dtype), start)
    point, decrement, more = _refined(spec, problem, begin, run.whole, tol, led)
    steps = jnp.where(led, run.steps, 0) + more
    root = _linalg.inverse_root(run.whole)
    sound = _newton.is_sound(run, root)
    separated = point.short == 0
    sound &= _rounding_of_scores(narrow, run.point.theta) <= SCORE
    certified = _newton.is_certified(spec, narrow, root, decrement) & sound & led
    outcome = Outcome(
        point=point,
        steps=steps,
        trials=steps,
        certified=certified,
        deficient=jnp.any(problem.idle),
        separated=separated,
        quasi=jnp.bool_(False),
        unsettled=jnp.bool_(False),
    )
    left = ~(separated | (certified & (point.residual <= tol)))
    alone = functools.partial(_newton.undoubted, spec)
    return _linalg.when(left, alone, outcome, (problem, start, tol, cap, jnp.int32(0)))


def _rounding_of_scores(problem: Problem, theta: jax.Array) -> jax.Array:
    rounding, rows = _scoring.rounding_of_scores(problem, theta), problem.rows
    if rows.offset is None:
        return rounding
    largest = jnp.max(jnp.abs(_mesh.where_rows(rows.weight > 0, rows.offset)))
    return rounding + jnp.finfo(theta.dtype).eps * largest


def _refined(spec, problem, begin, whole, tol, led) -> tuple[Point, jax.Array, jax.Array]:
    """The point, the decrement where it began, and the steps from there."""

    def advance(carry):
        point, step, decrement, i, taken, _ = carry
        trial = _light.light(spec, problem, point.theta + step)
        better = trial.residual < point.residual
        point = _newton.where(better, trial, point)
        grad = _linalg.narrow(point.grad)
        step = -_linalg.solve(whole, grad.reshape(-1)).reshape(grad.shape)
        slope = jnp.sqrt(jnp.maximum(-jnp.sum(grad * step), 0))
        decrement = jnp.where(i == 0, slope, decrement)
        taken += (better & (i > 0)).astype(jnp.int32)
        wanted = (point.residual > tol) | spec.polished
        more = led & better & wanted & (point.short > 0) & (i < REFINEMENTS)
        return point, step.astype(begin.dtype), decrement, i + 1, taken, more

    # The first trial is where it begins: that far from 0, of which nothing is known.
    unknown, none = jnp.full((), jnp.inf, begin.dtype), jnp.int32(0)
    first = _light.origin(problem, unknown)
    init = first, begin, _linalg.narrow(unknown), none, none, jnp.bool_(True)
    point, _, decrement, _, taken, _ = jax.lax.while_loop(
        lambda carry: carry[-1], *_loops.steady(advance, init)
    )
    return point, decrement, taken

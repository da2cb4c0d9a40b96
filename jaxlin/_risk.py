"""The engine behind every smooth loss of linear scores: frame, solver, certificate, derivative.

A fit minimises J = sum_i c_i loss(x_i . w + b + o_i, y_i) + 1/2 sum_j l2_j w_j^2, the weights c
summing to one. It runs in a frame where columns are centred (with a bias) and scaled by powers of
two to about unit variance, both exact to undo, so raw units of any size are solved alike.

Newton's loop carries its own proof. If a direction existed along which J falls for ever, then at
every point decrement * max_i |x_i|_{H^-1} >= 1, decrement^2 = g' H^-1 g; so a product of at most
1/10 proves a finite optimum. Where the Hessian is singular because the *columns* are (checked on
the data, not on the Hessian, whose tails vanish under separation too), the proof is given on their
range, and the answer is the minimiser of least norm.

`residual`: the largest absolute entry of J's gradient for centred columns of unit variance, never
less than the rounding bound of that sum at the returned params.
Shapes: `n` rows, `d` features, `p` = d + 1 coordinates with a bias, else d.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlin import _checks, _implicit, _linalg, _rows, solvers
from jaxlin._linalg import dot
from jaxlin.types import Hyperplane, Info, Status

Margins = Callable[[jax.Array, jax.Array], jax.Array]

# A finite optimum is proved below 1; the rest is for rounding.
CERTIFICATE = 0.1
# Up to this many coordinates the default is Newton's method, and L-BFGS beyond.
NEWTON_LIMIT = 256
# Up to this many, an optimum found without a Hessian is finished and proved with one.
DENSE_LIMIT = 1024
# A squared pivot below this many units of p * eps may be rounding: the columns are looked at.
PIVOT_ULPS = 16
# Products of p terms are trusted beyond this many units of p * eps of their magnitude.
ROUNDING_ULPS = 16
# Rows sampled for the frame of an x that many lanes share.
SAMPLE_ROWS = 64


class Spec(NamedTuple):
    """What is static about a fit.

    loss: `f(score, y)` of one example, smooth and convex in its score
    margins: `f(scores, y)`, at least 0 where the score agrees with every class that y allows
    solver: of `solvers`, or None for the default by size
    bias: whether there is one
    """

    loss: Callable[[jax.Array, jax.Array], jax.Array]
    margins: Margins
    solver: solvers.Solver | None
    bias: bool


class _Problem(NamedTuple):
    """The rows and the frame: score = ((x - centre) * scale) . (spread * u) + v, theta = (u, v).

    centre, scale: `(d,)`, the same for all lanes that share x
    spread: `(d,)`, powers of two, 0 for a column out of play (masked or constant)
    shift, unit: `(d,)`, mean and 1 / standard deviation of the columns that u sees
    penalty: `(d,)`, l2 on u; free: `(p,)`, coordinates in play without penalty
    idle: `(d,)`, columns that are asked for but hold one value, and have no penalty
    """

    rows: _rows.Rows
    centre: jax.Array
    scale: jax.Array
    spread: jax.Array
    shift: jax.Array
    unit: jax.Array
    penalty: jax.Array
    free: jax.Array
    idle: jax.Array


class _Point(NamedTuple):
    """J at theta. noise: the rounding bound of the gradient's sum; the rest as in `_measure`."""

    theta: jax.Array
    value: jax.Array
    grad: jax.Array
    residual: jax.Array
    noise: jax.Array
    margin: jax.Array


class _Outcome(NamedTuple):
    """What a run came to, and what was proved about it."""

    point: _Point
    steps: jax.Array
    certified: jax.Array
    deficient: jax.Array
    separated: jax.Array
    quasi: jax.Array


def fit(
    spec: Spec,
    rows: _rows.Rows,
    *,
    l2: jax.Array,
    init: Hyperplane | None,
    tol: jax.Array,
    max_steps: jax.Array | None,
) -> tuple[Hyperplane, Info]:
    """Minimise J from `init` (or 0) and prove it.

    Args:
      spec: the loss and the static choices.
      rows: prepared data.
      l2: `(d,)`, nonnegative.
      init: params in the user's units, or None.
      tol: bound on `residual`.
      max_steps: cap on the steps, or None for the solver's default.

    Returns:
      `(params, info)`, of status CONVERGED to SEPARABLE; a lane of no weight returns quickly.
    """
    newton = _is_newton(spec, rows.x.shape[1])
    cap = jnp.int32(100 if newton else 1000) if max_steps is None else max_steps
    problem = _frame(jax.lax.stop_gradient(rows), jax.lax.stop_gradient(l2), spec.bias)
    start = _enter(problem, init, spec.bias)
    if newton:
        outcome = _newton(spec, problem, start, tol, cap, jnp.int32(0))
    else:
        outcome = _finish(spec, problem, start, tol, cap)
    live = problem._replace(rows=rows, penalty=l2 * _unscaled(problem) ** 2)
    theta = _implicit.root(lambda at: _gradient(spec, live, at), outcome.point.theta)
    params = _leave(problem, theta, spec.bias)
    separated = _linalg.when(
        outcome.separated,
        lambda _: _separates(spec, problem, jax.lax.stop_gradient(params)),
        jnp.bool_(False),
    )
    return params, _info(outcome, separated, tol, cap)


def _info(outcome: _Outcome, separated: jax.Array, tol: jax.Array, cap: jax.Array) -> Info:
    point = outcome.point
    residual = jnp.maximum(point.residual, point.noise)
    passed = (residual <= tol) & outcome.certified
    status = jnp.where(outcome.deficient, Status.RANK_DEFICIENT, Status.CONVERGED)
    unproved = jnp.where(outcome.steps < cap, Status.STALLED, Status.MAX_STEPS)
    status = jnp.where(passed, status, unproved)
    status = jnp.where(outcome.quasi & ~passed, Status.QUASI_SEPARABLE, status)
    status = jnp.where(separated, Status.SEPARABLE, status)
    objective = jnp.where(separated, 0, point.value)
    return Info(status.astype(jnp.int32), outcome.steps, objective, residual)


def _is_newton(spec: Spec, d: int) -> bool:
    if spec.solver is None:
        return d + spec.bias <= NEWTON_LIMIT
    return spec.solver is solvers.newton


# --- the frame -----------------------------------------------------------------------------------


@jax.custom_batching.custom_vmap
def _centre_and_scale(rows: _rows.Rows) -> tuple[jax.Array, jax.Array]:
    """The weighted mean of each column, and a power of two that brings it near one."""

    def moments(block):
        present = (block.weight > 0)[:, None]
        return dot(block.weight, block.x), jnp.max(jnp.where(present, jnp.abs(block.x), 0), axis=0)

    mean, largest = _rows.fold(moments, rows)
    return mean, _scale(largest)


@_centre_and_scale.def_vmap
def _(axis_size, in_batched, rows):
    """Lanes that share x share the frame, or `x - centre` would become one copy per lane.

    What they share cannot depend on their weights: the centre is the median of a sample of rows,
    so that a few rows of junk that no lane gives weight do not move it.
    """
    if in_batched[0].x:
        axes = jax.tree.map(lambda batched: 0 if batched else None, in_batched[0])
        each = jax.vmap(_centre_and_scale.fun, in_axes=(axes,), axis_size=axis_size)
        return each(rows), (True, True)
    n, _ = rows.x.shape
    dtype = _checks.working_dtype(rows.x)
    safe = jnp.abs(rows.x.astype(dtype)) <= _checks.safe_range(dtype)
    largest = jnp.max(jnp.where(safe, jnp.abs(rows.x.astype(dtype)), 0), axis=0)
    sample = slice(None, None, max(1, n // SAMPLE_ROWS))
    middle = jnp.nanmedian(jnp.where(safe[sample], rows.x[sample].astype(dtype), jnp.nan), axis=0)
    return (jnp.nan_to_num(middle), _scale(largest)), (False, False)


def _scale(largest: jax.Array) -> jax.Array:
    # Bounded, so that a row without weight cannot overflow in the frame of those with.
    return jnp.minimum(1 / _linalg.power_of_two(largest), _checks.safe_range(largest.dtype))


def _frame(rows: _rows.Rows, l2: jax.Array, bias: bool) -> _Problem:
    centre, scale = _centre_and_scale(rows)
    centre = centre if bias else jnp.zeros_like(centre)

    def moments(block):
        z = (block.x - centre[None, :]) * scale[None, :]
        present = (block.weight > 0)[:, None]
        return (
            (dot(block.weight, z), dot(block.weight, z * z)),
            jnp.max(jnp.where(present, jnp.abs(z), 0), axis=0),
        )

    (mean, square), largest = _rows.fold(moments, rows)
    eps = jnp.finfo(centre.dtype).eps
    # Rounding of the mean is all that is left of a column of one value.
    in_play = largest > 4 * eps * jnp.abs(centre * scale)
    idle = ~in_play & (l2 == 0)
    if rows.feature_mask is not None:
        in_play &= rows.feature_mask
        idle &= rows.feature_mask
    mean = mean if bias else jnp.zeros_like(mean)
    deviation = jnp.sqrt(jnp.maximum(square - mean**2, eps * square))
    deviation = jnp.where(in_play & (deviation > 0), deviation, 1)
    spread = jnp.where(in_play, 1 / _linalg.power_of_two(deviation), 0)
    free = (l2 == 0) & in_play
    return _Problem(
        rows=rows,
        centre=centre,
        scale=scale,
        spread=spread,
        shift=mean * spread,
        unit=jnp.where(in_play, 1 / jnp.where(in_play, deviation * spread, 1), 0),
        penalty=l2 * (scale * spread) ** 2,
        free=jnp.concatenate([free, jnp.ones(int(bias), bool)]),
        idle=idle,
    )


def _unscaled(problem: _Problem) -> jax.Array:
    """The factor from u to weights in the user's units."""
    return problem.scale * problem.spread


def _enter(problem: _Problem, init: Hyperplane | None, bias: bool) -> jax.Array:
    """theta of the user's params; a column out of play starts, and stays, at 0."""
    d = problem.spread.shape[0]
    if init is None:
        return jnp.zeros(d + bias, problem.spread.dtype)
    factor = _unscaled(problem)
    u = jnp.where(factor > 0, init.weights / jnp.where(factor > 0, factor, 1), 0)
    v = (init.bias + dot(problem.centre, init.weights))[None]
    return jax.lax.stop_gradient(jnp.concatenate([u, v]) if bias else u)


def _leave(problem: _Problem, theta: jax.Array, bias: bool) -> Hyperplane:
    d = problem.spread.shape[0]
    weights = theta[:d] * _unscaled(problem)
    if not bias:
        return Hyperplane(weights=weights, bias=jnp.zeros((), theta.dtype))
    return Hyperplane(weights=weights, bias=theta[d] - dot(problem.centre, weights))


def _columns(problem: _Problem, block: _rows.Rows) -> jax.Array:
    """The block in the frame that all lanes share, `(rows, d)`."""
    return (block.x - problem.centre[None, :]) * problem.scale[None, :]


def _affine(problem: _Problem, z: jax.Array, thetas: jax.Array) -> jax.Array:
    """The scores of q points `thetas: (q, p)`, `(rows, q)`, in one product."""
    d = z.shape[1]
    scores = dot(z, (thetas[:, :d] * problem.spread[None, :]).T)
    return scores if thetas.shape[1] == d else scores + thetas[None, :, d]


def _joined(problem: _Problem, columns: jax.Array, last: jax.Array, bias: bool) -> jax.Array:
    """A gradient in theta from its sums over z and over 1."""
    columns = columns * problem.spread
    return jnp.concatenate([columns, last[None]]) if bias else columns


# --- passes over the data ------------------------------------------------------------------------


def _scored(spec: Spec, block: _rows.Rows, scores: jax.Array) -> jax.Array:
    """Scores with their offset; 0 in rows without weight, where they could overflow."""
    if block.offset is not None:
        scores = scores + block.offset
    return jnp.where(block.weight > 0, scores, 0)


def _light(spec: Spec, problem: _Problem, theta: jax.Array) -> _Point:
    """One pass without the Hessian."""

    def sums(block):
        z = _columns(problem, block)
        both = _affine(problem, z, jnp.stack([theta, jnp.where(problem.free, theta, 0)]))
        scores = _scored(spec, block, both[:, 0])
        value, slope = jax.vmap(jax.value_and_grad(spec.loss))(scores, block.y)
        curve = block.weight * jax.vmap(jax.hessian(spec.loss))(scores, block.y)
        pull = block.weight * slope
        margins = jnp.where(block.weight > 0, spec.margins(both[:, 1], block.y), jnp.inf)
        return (
            jnp.sum(block.weight * value),
            dot(pull, z),
            jnp.sum(pull),
            jnp.sum(block.weight * slope**2),
            jnp.sum(curve * jnp.abs(scores)),
            jnp.sum(curve),
        ), (jnp.max(-margins), jnp.max(jnp.abs(both[:, 1])))

    return _assemble(spec, problem, theta, *_rows.fold(sums, problem.rows))


def _assemble(spec, problem, theta, sums, maxima) -> _Point:
    d = problem.spread.shape[0]
    value, columns, last, square, tilt, curve = sums
    u = theta[:d]
    value = value + dot(problem.penalty, u * u) / 2
    grad = _joined(problem, columns, last, spec.bias)
    grad = grad.at[:d].add(problem.penalty * u)
    eps = jnp.finfo(theta.dtype).eps
    # The bias of the user's units holds centre . weights, and rounds with its size.
    carried = dot(jnp.abs(problem.centre), jnp.abs(u * _unscaled(problem)))
    size = carried + (jnp.abs(theta[d]) if spec.bias else 0)
    worst, reach = maxima
    slack = ROUNDING_ULPS * theta.size * eps * (reach + size)
    return _Point(
        theta=theta,
        value=value,
        grad=grad,
        residual=_residual(spec, problem, grad),
        noise=eps * (jnp.sqrt(square) + tilt + curve * size),
        margin=-worst - slack,
    )


def _residual(spec: Spec, problem: _Problem, grad: jax.Array) -> jax.Array:
    d = problem.spread.shape[0]
    if not spec.bias:
        return jnp.max(jnp.abs(grad * problem.unit), initial=0)
    centred = (grad[:d] - problem.shift * grad[d]) * problem.unit
    return jnp.maximum(jnp.max(jnp.abs(centred), initial=0), jnp.abs(grad[d]))


def _gradient(spec: Spec, problem: _Problem, theta: jax.Array) -> jax.Array:
    """dJ/dtheta, differentiable in everything; coordinates out of play give themselves back."""
    d = problem.spread.shape[0]

    def sums(block):
        z = _columns(problem, block)
        scores = _scored(spec, block, _affine(problem, z, theta[None, :])[:, 0])
        pull = block.weight * jax.vmap(jax.grad(spec.loss))(scores, block.y)
        return (dot(pull, z), jnp.sum(pull)), ()

    (columns, last), _ = _rows.fold(sums, problem.rows)
    grad = _joined(problem, columns, last, spec.bias)
    u = theta[:d]
    return grad.at[:d].add(jnp.where(problem.spread > 0, problem.penalty * u, u))


@functools.cache
def _objective(spec: Spec) -> Callable[[jax.Array, _Problem], jax.Array]:
    """J as a solver takes it, value and gradient from the same pass. Not differentiable in data."""

    @jax.custom_jvp
    def objective(theta, problem):
        return _light(spec, problem, theta).value

    @objective.defjvp
    def _(primals, tangents):
        point = _light(spec, primals[1], primals[0])
        return point.value, dot(point.grad, tangents[0])

    return objective


@functools.cache
def _hessian(spec: Spec) -> Callable[[jax.Array, _Problem], jax.Array]:
    def hessian(theta, problem):
        return _measure(spec, problem, theta, jnp.zeros_like(theta))[1]

    return hessian


def _measure(spec: Spec, problem: _Problem, theta: jax.Array, step: jax.Array):
    """One pass with the Hessian, X'DX.

    Args:
      step: `(p,)`, the step that led here.

    Returns:
      `(point, hessian, drop, reach)`: the least margin and the largest size of the scores of
      `step` alone, its penalised coordinates left out.
    """

    def sums(block):
        z = _columns(problem, block)
        freed = jnp.where(problem.free[None, :], jnp.stack([theta, step]), 0)
        s = _affine(problem, z, jnp.concatenate([theta[None], freed]))
        scores = _scored(spec, block, s[:, 0])
        present = block.weight > 0
        value, slope = jax.vmap(jax.value_and_grad(spec.loss))(scores, block.y)
        curve = block.weight * jax.vmap(jax.hessian(spec.loss))(scores, block.y)
        pull = block.weight * slope
        margin = jnp.where(present, spec.margins(s[:, 1], block.y), jnp.inf)
        drop = jnp.where(present, spec.margins(s[:, 2], block.y), jnp.inf)
        sums = (
            jnp.sum(block.weight * value),
            dot(pull, z),
            jnp.sum(pull),
            jnp.sum(block.weight * slope**2),
            jnp.sum(curve * jnp.abs(scores)),
            jnp.sum(curve),
        )
        far = jnp.where(present[:, None], jnp.abs(s[:, 1:]), 0)
        return (
            (sums, dot((z * curve[:, None]).T, z), dot(curve, z)),
            (jnp.max(-margin), jnp.max(far[:, 0]), jnp.max(-drop), jnp.max(far[:, 1])),
        )

    (sums_, square, cross), (worst, far, fall, reach) = _rows.fold(sums, problem.rows)
    point = _assemble(spec, problem, theta, sums_, (worst, far))
    return point, _curvature(spec, problem, square, cross, sums_[5]), -fall, reach


def _curvature(spec, problem, square, cross, total) -> jax.Array:
    """The Hessian in theta; a coordinate out of play has curvature 1 and stands alone."""
    spread = problem.spread
    corner = square * spread[:, None] * spread[None, :]
    corner += jnp.diag(jnp.where(spread > 0, problem.penalty, 1))
    if not spec.bias:
        return corner
    edge = (cross * spread)[:, None]
    return jnp.block([[corner, edge], [edge.T, total[None, None]]])


# --- Newton's method with its proof --------------------------------------------------------------


class _Run(NamedTuple):
    point: _Point
    hess: jax.Array
    damping: jax.Array
    steps: jax.Array
    done: jax.Array
    quasi: jax.Array


def _where(condition: jax.Array, this: Any, that: Any) -> Any:
    return jax.tree.map(functools.partial(jnp.where, condition), this, that)


def _newton(spec, problem, start, tol, cap, steps) -> _Outcome:
    """Damped Newton steps until the optimum is proved, or shown to be at infinity."""
    quasi_slack = 4 * jnp.sqrt(jnp.finfo(start.dtype).eps)

    def advance(run: _Run) -> _Run:
        point = run.point
        step = solvers.newton_step(run.hess, point.grad, run.damping)
        trial, hess, drop, reach = _measure(spec, problem, point.theta + step, step)
        curvature = step @ run.hess @ step
        verdict = solvers.judge(
            (point.value, point.residual),
            (trial.value, trial.residual),
            -(point.grad @ step) - curvature / 2,
            run.damping,
        )
        held = step @ hess @ step >= solvers.CURVATURE_HELD * curvature
        after: _Point = _where(verdict.accept, trial, point)
        small = after.residual <= tol
        quasi = small & ~held & (reach > 0) & (drop >= -quasi_slack * reach)
        done = verdict.stalled | (small & held) | quasi | (after.margin > 0)
        hess = jnp.where(verdict.accept, hess, run.hess)
        return _Run(after, hess, verdict.damping, run.steps + 1, done, quasi)

    point, hess, _, _ = _measure(spec, problem, start, jnp.zeros_like(start))
    damping = jnp.full((), solvers.FIRST_DAMPING, start.dtype)
    done = (point.margin > 0) | (point.residual == 0) | ~jnp.isfinite(point.value)
    run = _Run(point, hess, damping, steps, done, jnp.bool_(False))
    run = jax.lax.while_loop(lambda r: ~r.done & (r.steps < cap), advance, run)
    return _prove(spec, problem, run, tol)


def _prove(spec: Spec, problem: _Problem, run: _Run, tol: jax.Array) -> _Outcome:
    """The certificate at the last point, and one more Newton step where that is better."""
    p = run.point.theta.size
    separated = run.point.margin > 0
    threshold = PIVOT_ULPS * p * jnp.finfo(run.hess.dtype).eps
    plain = _linalg.factor(run.hess)
    sound = plain.pivot >= threshold
    nothing = jnp.zeros((p, problem.spread.size), run.hess.dtype)
    null = _linalg.when(
        ~sound & ~separated & (run.point.residual <= tol),
        lambda _: _null_space(spec, problem),
        nothing,
    )
    typical = jnp.trace(run.hess) / p
    size = jnp.sum(null * null, axis=0)
    lifted = null * jnp.sqrt(typical / jnp.where(size > 0, size, 1))[None, :]
    whole = _linalg.factor(run.hess + dot(lifted, lifted.T))
    sound |= whole.pivot >= threshold
    leverage = _leverage(spec, problem, whole)
    decrement = jnp.linalg.norm(_linalg.half_solve(whole, run.point.grad))
    certified = sound & (decrement * leverage <= CERTIFICATE)
    deficient = jnp.any(size > 0)
    step = -_linalg.solve(whole, run.point.grad)
    polished = _light(spec, problem, _least_norm(spec, problem, run.point.theta + step, null))
    better = certified & (
        (polished.residual < run.point.residual)
        | (deficient & (polished.residual <= jnp.maximum(tol, run.point.residual)))
    )
    point = _where(better, polished, run.point)
    certified &= better | ~deficient
    deficient |= jnp.any(problem.idle)
    return _Outcome(point, run.steps, certified, deficient, separated, run.quasi)


def _leverage(spec: Spec, problem: _Problem, whole: _linalg.Factor) -> jax.Array:
    """max_i |x_i|_{H^-1} over the rows with weight, x_i with the column of ones."""

    def maxima(block):
        z = _columns(problem, block) * problem.spread[None, :]
        if spec.bias:
            z = jnp.concatenate([z, jnp.ones_like(z[:, :1])], axis=1)
        square = jnp.sum(_linalg.half_solve(whole, z.T) ** 2, axis=0)
        return (), jnp.max(jnp.where(block.weight > 0, square, 0))

    _, largest = _rows.fold(maxima, problem.rows)
    return jnp.sqrt(largest)


def _standard(problem: _Problem, block: _rows.Rows) -> jax.Array:
    """The block with columns of this lane's own mean 0 and variance 1; 0 out of play."""
    z = _columns(problem, block) * problem.spread[None, :]
    return (z - problem.shift[None, :]) * problem.unit[None, :]


def _null_space(spec: Spec, problem: _Problem) -> jax.Array:
    """Directions of theta that no row and no penalty sees, as columns `(p, d)`, the others 0.

    Small eigenvalues of X'X only nominate a direction, because X'X has the square of the data's
    condition. It is then cleaned of the other directions by a product with the data themselves,
    and kept if no row sees more of it than its own rounding.
    """
    d = problem.spread.shape[0]
    eps = jnp.finfo(problem.spread.dtype).eps
    held = jnp.where((problem.spread > 0) & (problem.penalty == 0), 0, 1)

    def scatter(block):
        z = _standard(problem, block)
        return dot((z * block.weight[:, None]).T, z), ()

    square, _ = _rows.fold(scatter, problem.rows)
    values, vectors = jnp.linalg.eigh(square + jnp.diag(held.astype(square.dtype)))
    small = values <= ROUNDING_ULPS * d * eps * jnp.max(values, initial=0)
    null = jnp.where(small[None, :], vectors, 0)
    rest = jnp.where(small[None, :], 0, vectors)

    def seen(block):
        z = _standard(problem, block)
        return dot((z * block.weight[:, None]).T, dot(z, null)), ()

    image, _ = _rows.fold(seen, problem.rows)
    image = image + held[:, None] * null
    inverse = jnp.where(small, 0, 1 / jnp.where(small, 1, values))
    null = null - dot(rest, inverse[:, None] * dot(rest.T, image))

    def excess(block):
        z = _standard(problem, block)
        raw = jnp.abs(block.x) * (problem.scale * problem.spread * problem.unit)[None, :]
        bound = ROUNDING_ULPS * d * eps * dot(raw + jnp.abs(z), jnp.abs(null))
        over = jnp.where((block.weight > 0)[:, None], jnp.abs(dot(z, null)) - bound, 0)
        return (), jnp.max(over, axis=0)

    _, over = _rows.fold(excess, problem.rows)
    null = jnp.where((small & (over <= 0))[None, :], null, 0) * problem.unit[:, None]
    if not spec.bias:
        return null
    return jnp.concatenate([null, -dot(problem.shift, null)[None, :]])


def _least_norm(spec: Spec, problem: _Problem, theta: jax.Array, null: jax.Array) -> jax.Array:
    """Remove from the weights, in the user's units, what lies in the null space."""
    d = problem.spread.shape[0]
    factor = _unscaled(problem)
    raw = null[:d] * factor[:, None]
    size = jnp.linalg.norm(raw, axis=0)
    raw = raw / jnp.where(size > 0, size, 1)[None, :]
    gram = dot(raw.T, raw) + jnp.diag(jnp.where(size > 0, 0, 1).astype(raw.dtype))
    amount = _linalg.solve(_linalg.factor(gram), dot(raw.T, theta[:d] * factor))
    per_size = amount / jnp.where(size > 0, size, 1)
    return theta - dot(null, per_size)


# --- other solvers -------------------------------------------------------------------------------


def _finish(spec, problem, start, tol, cap) -> _Outcome:
    """Run the solver, then prove its point; with a Hessian, if it takes one and one fits."""
    p = start.size
    solver = solvers.lbfgs if spec.solver is None else spec.solver
    dense = p <= DENSE_LIMIT
    theta, steps = solvers.warm_up(
        solver,
        _objective(spec),
        start,
        (problem,),
        hessian=_hessian(spec),
        precondition=_first_curvature(spec, problem, start) if dense else None,
        tol=tol,
        max_steps=cap,
    )
    point = _light(spec, problem, theta)
    never = jnp.bool_(False)
    # A penalty on every weight leaves only the bias free, which two classes hold.
    coercive = ~jnp.any(problem.free[: problem.spread.size]) & ~jnp.any(problem.idle)
    outcome = _Outcome(point, steps, coercive, never, point.margin > 0, never)
    if not dense:
        return outcome
    # Far out in the tail of separable data rounding hides the direction that Newton's method shows
    # on the way there; hence twice: from the solver's point, and if that proves nothing, from afar.
    for again in (theta, start):
        outcome = _linalg.when(
            _open(outcome, tol) & (outcome.steps < cap),
            lambda o, again=again: _newton(spec, problem, again, tol, cap, o.steps),
            outcome,
        )
    return outcome


def _open(outcome: _Outcome, tol: jax.Array) -> jax.Array:
    """Whether nothing is proved yet."""
    passed = outcome.certified & (outcome.point.residual <= tol)
    return ~(passed | outcome.separated | outcome.quasi) & jnp.isfinite(outcome.point.value)


def _first_curvature(spec: Spec, problem: _Problem, theta: jax.Array) -> jax.Array:
    """The Hessian where every score is 0, whose curvature bounds the logistic loss's."""
    eps = jnp.finfo(theta.dtype).eps
    bare = problem._replace(rows=problem.rows._replace(offset=None))
    hess = _hessian(spec)(jnp.zeros_like(theta), bare)
    return hess + jnp.diag(jnp.sqrt(eps) * jnp.diagonal(hess) + jnp.finfo(theta.dtype).tiny)


def _separates(spec: Spec, problem: _Problem, params: Hyperplane) -> jax.Array:
    """Whether the returned params, in the user's units, separate beyond rounding."""
    d = problem.spread.shape[0]
    eps = jnp.finfo(params.weights.dtype).eps
    weights = jnp.where(problem.penalty == 0, params.weights, 0)

    def worst(block):
        scores = dot(block.x, weights) + params.bias
        size = dot(jnp.abs(block.x), jnp.abs(weights)) + jnp.abs(params.bias)
        margins = spec.margins(scores, block.y) - 4 * (d + 2) * eps * size
        return (), jnp.max(jnp.where(block.weight > 0, -margins, -jnp.inf))

    _, largest = _rows.fold(worst, problem.rows)
    return largest < 0

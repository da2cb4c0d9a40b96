"""Classes in order, told apart by one score: the cumulative logit, its proof and its verdict.

Between classes lie borders, of which a row's score s has the log odds s + border that its class is
above. A row takes the border below its class and that above it, as two examples of logistic
regression, one passed and one not; what is left of its loss is of the class alone,
-log(1 - exp(-gap)) of the two borders' distance. theta holds the weights in the frame, then one
number for each border that there is.

Shapes: `n` examples, `d` features, `k` classes, `p` = d + k - 1.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from jaxlin import _linalg
from jaxlin._base import _loops, _mesh, _platform
from jaxlin._data import _fold, _prepare, _rows
from jaxlin._linalg import _implicit, dot
from jaxlin._smooth import _frame, _iterate, _newton, _passes, _plan, _proof, _record, _risk
from jaxlin.types import Info, Ordinal, Status

# decrement * leverage is below this at an optimum, and 1 where there is none, see `_proof`.
PROOF = 0.1
# How far params may be from the minimum, in standard errors.
NEAR = 0.05
# A square of the decrement is small beside this times the root of eps.
NEAR_ENOUGH = 1.0
# Borders begin at least so many units of rounding apart.
APART_ULPS = 64
# In the place of a border that every row has passed; less it, of one that none has.
PASSED = 1e30
# Of rows that take two borders each, told apart as two classes.
TWO = _record.Spec(_record.LOGISTIC, solver=None, bias=False)


class Borders(NamedTuple):
    """Which borders there are: below each class in their order, and last above all.

    A class without weight takes no room: the borders on its two sides are one, or none.

    present: `(k,)`, the classes with weight
    of: `(k + 1, k - 1)`, 0 or 1, which number of theta each is
    beyond: `(k + 1,)`, 0, or +-PASSED where there is none
    """

    present: jax.Array
    of: jax.Array
    beyond: jax.Array


class Model(NamedTuple):
    """What J is of beside theta; null `(p, d)`, the directions that nothing sees, as columns."""

    problem: _frame.Problem
    borders: Borders
    null: jax.Array


class Point(NamedTuple):
    """J at theta `(p,)`, with its gradient `(p,)` and its Hessian `(p, p)`."""

    theta: jax.Array
    value: jax.Array
    grad: jax.Array
    hess: jax.Array
    residual: jax.Array


class Run(NamedTuple):
    """Newton's loop: the best point so far, and the step from it to try next.

    passed: whether the point before was below tol too
    """

    point: Point
    step: jax.Array
    damping: jax.Array
    trials: jax.Array
    steps: jax.Array
    passed: jax.Array
    stalled: jax.Array


@functools.partial(_platform.jit, static_argnums=(0, 1))
def fit(k, complete, data, l2, offset, tol, max_steps):
    """`((params, info), unsettled)`, which is whether only a `complete` fit can tell."""
    rows, _, valid = _prepare.prepare(data, num_classes=k, offset=offset)
    valid &= jnp.all((l2 >= 0) & jnp.isfinite(l2)) & (tol >= 0) & (max_steps >= 0)
    rows, penalty = _rows.where(valid, rows), jnp.where(valid, l2, 1)
    present = _prepare.present(rows, k)
    usable = valid & (jnp.sum(present) > 1)
    model = _model(rows, penalty, present, usable, complete)
    still = jax.lax.stop_gradient(model)
    run = _descended(still, tol, jnp.where(usable, max_steps, 0))
    point = run.point
    decrement, leverage, regular = _judged(still, point)
    residual = jnp.maximum(point.residual, _noise(still, point))
    passed = (residual <= tol) & regular & (decrement * leverage <= PROOF)
    deficient = jnp.any(still.problem.idle) | jnp.any(still.null != 0)
    status = jnp.where(deficient, Status.RANK_DEFICIENT, Status.CONVERGED)
    ended = run.trials <= max_steps
    unproved = jnp.where(ended, Status.STALLED, Status.MAX_STEPS)
    open_still = usable & ended & ~passed
    said = jnp.where(passed, status, unproved).astype(jnp.int32), point.theta
    if complete:
        said = _linalg.when(open_still, _verdict, said, (still, *said, tol))
    status, theta = said
    proper = usable & (status <= Status.MAX_STEPS)
    theta = _implicit.root(_slope, _bend, model, theta, proper)
    objective = jnp.where(status >= Status.QUASI_SEPARABLE, 0, point.value)
    objective = _implicit.envelope(_least, model, theta, objective, proper)
    if complete:
        theta = theta - _proof.least_norm_excess(still.problem, theta[None, :], still.null)[0]
    info = Info(status, jnp.maximum(run.steps, 0), objective, residual)
    params = _leave(still, theta)
    limit = Ordinal(jnp.zeros_like(l2), jax.lax.stop_gradient(params.thresholds))
    found = _risk.in_place(params, info, limit, valid, usable, (data, l2, offset))
    return found, open_still


def _descended(model: Model, tol: jax.Array, max_steps: jax.Array) -> Run:
    """Damped Newton steps until the residual passes, near the optimum, and one more for all digits.

    The first trial is the start.
    """
    start = _start(model)
    dtype, p = start.dtype, start.size
    worst = jnp.full((), jnp.inf, dtype)
    nothing = Point(jnp.zeros(p, dtype), worst, jnp.zeros(p, dtype), jnp.eye(p, dtype=dtype), worst)
    none, never = jnp.int32(0), jnp.bool_(False)
    damping = jnp.full((), _iterate.FIRST_DAMPING, dtype)
    init = Run(nothing, start, damping, none, none - 1, never, never)

    def unfinished(run):
        return ~(run.passed | run.stalled) & (run.trials <= max_steps)

    def advance(run):
        point, step = run.point, run.step
        trial = _measured(model, point.theta + step)
        verdict = _iterate.judge(
            (point.value, point.residual),
            (trial.value, trial.residual),
            -jnp.sum(point.grad * step) - _linalg.form(point.hess, step) / 2,
            run.damping,
        )
        accept = jax.lax.optimization_barrier(verdict.accept)
        best = _newton.where(accept, trial, point)
        step, _ = _iterate.newton_step(best.hess, best.grad, verdict.damping)
        near = -jnp.sum(best.grad * step) <= NEAR_ENOUGH * float(jnp.finfo(dtype).eps) ** 0.5
        return Run(
            point=best,
            step=step,
            damping=verdict.damping,
            trials=run.trials + 1,
            steps=run.steps + accept.astype(jnp.int32),
            passed=(point.residual <= tol) & (best.residual <= tol) & near,
            # A start that has no number leads nowhere.
            stalled=verdict.stalled | (best.residual == 0) | ~jnp.isfinite(best.value),
        )

    return jax.lax.while_loop(unfinished, *_loops.steady(advance, init))


@functools.partial(_platform.jit, static_argnums=(0, 1))
def covariance(k, check, data, l2, offset, params):
    """Of the flat params, `(p, p)`: NaN unless they are the minimum, if that is to be checked."""
    rows, total, valid = _prepare.prepare(data, num_classes=k, offset=offset)
    valid &= jnp.all((l2 >= 0) & jnp.isfinite(l2))
    rows, penalty = _rows.where(valid, rows), jnp.where(valid, l2, 1)
    present = _prepare.present(rows, k)
    valid &= jnp.sum(present) > 1
    model = _model(rows, penalty, present, valid, complete=False)
    theta = _enter(model, params)
    valid &= jnp.all(jnp.isfinite(theta))
    theta = jnp.where(valid, theta, 0)
    point = _measured(model, theta)
    factor = _linalg.factor(point.hess)
    decrement, leverage, regular = _judged(model, point)
    valid &= regular & ~jnp.any(model.problem.idle)
    if check:
        eps = float(jnp.finfo(theta.dtype).eps)
        near = jnp.maximum(NEAR / jnp.sqrt(jnp.where(valid, total, 1)), 16 * eps ** (2 / 3))
        valid &= decrement <= jnp.minimum(near, eps ** (1 / 3))
        valid &= decrement * leverage <= PROOF
    back = jax.jacfwd(lambda theta: ravel_pytree(_leave(model, theta))[0])(theta)
    half = _linalg.half_solve(factor, back.T) / jnp.sqrt(jnp.where(total > 0, total, 1))
    return _implicit.guarded(dot(half.T, half), valid, (data, l2, offset, params))


def log_probabilities(score: jax.Array, lower: jax.Array, upper: jax.Array) -> jax.Array:
    """Of scores `(...)` that each class `(k,)` lies between its two thresholds: `(..., k)`."""
    apart = upper > lower
    share = jnp.where(apart, jnp.log(-jnp.expm1(-jnp.where(apart, upper - lower, 1))), -jnp.inf)
    lower, upper, share = (a.reshape(*(1,) * score.ndim, -1) for a in (lower, upper, share))
    # The difference of two sigmoids is a product of three terms.
    passed = jax.nn.log_sigmoid(score[..., None] - lower)
    return passed + jax.nn.log_sigmoid(upper - score[..., None]) + share


def _model(rows, l2, present, usable, complete) -> Model:
    rows_, l2_ = jax.lax.stop_gradient((rows, l2))
    problem = _frame.make(rows_, l2_, True)
    problem = problem._replace(spread=jnp.where(usable, problem.spread, 0))
    (d,), k = l2.shape, present.size
    between = _borders(present, l2.dtype)
    null = jnp.zeros((d + k - 1, d), l2.dtype)
    if complete:
        plane = _proof.null_space(problem)
        held = jnp.any(between.of != 0, axis=0)
        null = jnp.concatenate([plane[:d], jnp.where(held[:, None], plane[d:], 0)])
    return Model(_frame.live(problem, rows, l2), between, null)


def _borders(present: jax.Array, dtype: Any) -> Borders:
    k = present.size
    index = jnp.arange(k, dtype=jnp.int32)
    # A border is told by the last class below it.
    last = jax.lax.cummax(jnp.where(present, index, -1))
    last = jnp.concatenate([jnp.full(1, -1, jnp.int32), last])
    below, above = last >= 0, last < last[-1]
    of = (below & above)[:, None] & (last[:, None] == index[None, :-1])
    beyond = jnp.where(below, jnp.where(above, 0, -PASSED), PASSED)
    return Borders(present, of.astype(dtype), beyond.astype(dtype))


def _start(model: Model) -> jax.Array:
    """The minimum of those without weights: of each border the log odds of the classes above it.

    Of a class that is too rare to tell its borders apart, a little apart.
    """
    rows, (present, of, _) = model.problem.rows, model.borders
    share, _ = _fold.fold(
        lambda block: (dot(block.weight, _members(block, present.size)), ()), rows
    )
    share = jnp.where(present, share, 0)
    below = jnp.concatenate([jnp.zeros(1, share.dtype), jnp.cumsum(share)])
    above = jnp.concatenate([jnp.cumsum(share[::-1])[::-1], jnp.zeros(1, share.dtype)])
    inside = jnp.any(of != 0, axis=1)
    odds = jnp.where(inside, above, 1) / jnp.where(inside, below, 1)
    # Each number is that of its first border: the one above a class that is present.
    first = of[1:] * present.astype(of.dtype)[:, None]
    cuts = dot(first.T, jnp.log(odds)[1:])
    least = APART_ULPS * float(jnp.finfo(cuts.dtype).eps) * (1 + jnp.max(jnp.abs(cuts), initial=0))
    cuts = cuts - least * jnp.cumsum(jnp.any(of != 0, axis=0).astype(cuts.dtype))
    return jnp.concatenate([jnp.zeros(model.problem.centre.size, cuts.dtype), cuts])


def _members(block: _rows.Rows, k: int) -> jax.Array:
    return jax.nn.one_hot(block.y, k, dtype=block.weight.dtype)


def _seen(model: Model, theta: jax.Array, block: _rows.Rows) -> tuple[jax.Array, ...]:
    """Of a block its columns `(rows, d)`, its classes `(rows, k)`, and each row's two log odds."""
    problem, (present, of, beyond), _ = model
    d = problem.centre.size
    z = _frame.columns(problem, block)[:, :d] * problem.spread[None, :d]
    member = _members(block, present.size)
    at = dot(of, theta[d:]) + beyond
    score = dot(z, theta[:d])
    if block.offset is not None:
        score = score + block.offset
    score = _mesh.where_rows(block.ok, score)
    return z, member, score + dot(member, at[:-1]), score + dot(member, at[1:])


def _measured(model: Model, theta: jax.Array) -> Point:
    """J in one pass; infinite where borders are not in order."""
    problem, borders, _ = model
    (d,), k = problem.centre.shape, borders.present.size
    of_row = functools.partial(_record.of_one_score, _record.LOGISTIC.value)

    def sums(block):
        z, member, low, high = _seen(model, theta, block)
        ends = jnp.concatenate([low, high])[:, None]
        label = jnp.concatenate([jnp.ones_like(low), jnp.zeros_like(high)])
        lost, pull, bend = (a.reshape(2, -1) for a in of_row(ends, label))
        each = jnp.concatenate([bend, pull, lost]) * block.weight[None, :]
        each = jnp.where(block.ok[None, :], each, 0).T
        low, high, pulled = each[:, :1], each[:, 1:2], each[:, 2:3] + each[:, 3:4]
        across = jnp.concatenate([z * (low + high), low * member, high * member, pulled], axis=1)
        whole = jnp.concatenate([each, block.weight[:, None]], axis=1)
        return (dot(z.T, across), dot(member.T, whole)), ()

    (along, of_class), _ = _fold.fold(sums, problem.rows)
    low, high, pull_low, pull_high, *lost, share = of_class.T
    value, pull, bend = _of_gaps(model, theta, share)
    below, above = borders.of[:-1], borders.of[1:]
    between = below - above
    cross = dot(along[:, d : d + k], below) + dot(along[:, d + k : d + 2 * k], above)
    cuts = dot((below * low[:, None]).T, below) + dot((above * high[:, None]).T, above)
    cuts = cuts + dot((between * bend[:, None]).T, between)
    pulled = dot(pull_low, below) + dot(pull_high, above) + dot(pull, between)
    unseen, penalty = _unseen(model), problem.penalty[:d]
    grad = jnp.concatenate([along[:, -1] + penalty * theta[:d], pulled]) + dot(unseen, theta)
    hess = jnp.block([[along[:, :d] + jnp.diag(penalty), cross], [cross.T, cuts]]) + unseen
    held = _linalg.form(unseen, theta) + jnp.sum(penalty * theta[:d] ** 2)
    value = value + jnp.sum(lost[0] + lost[1]) + held / 2
    return Point(theta, value, grad, hess, _residual(model, grad))


def _of_gaps(model: Model, theta: jax.Array, share: jax.Array) -> tuple[jax.Array, ...]:
    """What J has of the gaps alone, `()`, and its derivatives in each, `(k,)`."""
    present = model.borders.present
    gap = _gaps(model, theta)
    apart = present & (gap > 0)
    gap, share = jnp.where(apart, gap, 1), jnp.where(apart, share, 0)
    left, taken = jnp.exp(-gap), -jnp.expm1(-gap)
    value = -jnp.sum(share * jnp.log(taken))
    value = jnp.where(jnp.any(present & ~apart), jnp.inf, value)
    return value, -share * left / taken, share * left / taken**2


def _gaps(model: Model, theta: jax.Array) -> jax.Array:
    """The distance of each class's two borders, `(k,)`."""
    _, of, beyond = model.borders
    return -jnp.diff(dot(of, theta[model.problem.centre.size :]) + beyond)


def _unseen(model: Model) -> jax.Array:
    """What holds at 0 the numbers out of play, and what no row sees."""
    d = model.problem.centre.size
    held = jnp.any(model.borders.of != 0, axis=0)
    play = jnp.concatenate([model.problem.spread[:d] > 0, held])
    return jnp.diag(jnp.where(play, 0, 1).astype(model.null.dtype)) + dot(model.null, model.null.T)


def _bend(theta: jax.Array, model: Model) -> jax.Array:
    return _measured(model, theta).hess


def _slope(model: Model, theta: jax.Array) -> jax.Array:
    return _measured(model, theta).grad


def _least(model: Model, theta: jax.Array) -> jax.Array:
    return _measured(model, theta).value


def _residual(model: Model, grad: jax.Array) -> jax.Array:
    d = model.problem.centre.size
    # Moving a weight of a centred column moves every border against it.
    plane = jnp.append(grad[:d], jnp.sum(grad[d:]))
    of_borders = _linalg.largest(jnp.abs(grad[d:]))
    return jnp.maximum(_passes.residual(model.problem, plane[None, :]), of_borders)


def _noise(model: Model, point: Point) -> jax.Array:
    """What rounding the thresholds, in the user's units, may change the residual by.

    As if all moved alike. How far apart they are is then rounded too, but that is felt by the rows
    between them alone: by less, the fewer they are.
    """
    d, eps = model.problem.centre.size, float(jnp.finfo(point.theta.dtype).eps)
    held = jnp.any(model.borders.of != 0, axis=0)
    size = jnp.abs(_leave(model, point.theta).thresholds)
    lost = eps * jnp.max(jnp.where(jnp.isfinite(size), size, 0), initial=0)
    return _residual(model, lost * jnp.abs(dot(point.hess[:, d:], held.astype(lost.dtype))))


def _judged(model: Model, point: Point) -> tuple[jax.Array, ...]:
    """The decrement, the largest leverage, and whether the Hessian has full rank.

    If a direction v tells the classes apart without end, each term f of J has, with r its row or
    the difference of two borders over 1 - exp(-gap), |f''| (r v)^2 <= |f'| |r v| max |r v|. So
    decrement * max |r|_{H^-1} >= 1, as for one border.
    """
    (problem, borders, _), theta = model, point.theta
    d, p = problem.centre.size, theta.size
    factor = _linalg.factor(point.hess)
    root = _linalg.inverse_root(factor)
    decrement = jnp.linalg.norm(dot(root, point.grad))
    eps = float(jnp.finfo(theta.dtype).eps)
    regular = _linalg.least_eigenvalue(factor, root) > _linalg.RANK_ULPS * p * eps
    there = jnp.any(borders.of != 0, axis=1)
    at = dot(borders.of, root[:, d:].T)

    def maxima(block):
        z, member, _, _ = _seen(model, theta, block)
        along = dot(z, root[:, :d].T)

        def longest(at, there):
            square = jnp.sum((along + dot(member, at)) ** 2, axis=1)
            held = (block.weight > 0) & (dot(member, there.astype(z.dtype)) > 0)
            return jnp.max(jnp.where(held, square, 0))

        return (), jnp.maximum(longest(at[:-1], there[:-1]), longest(at[1:], there[1:]))

    _, square = _fold.fold(maxima, problem.rows)
    middle = there[:-1] & there[1:] & borders.present
    gap = jnp.where(middle, _gaps(model, theta), 1)
    apart = jnp.linalg.norm(jnp.diff(at, axis=0), axis=1) / -jnp.expm1(-gap)
    leverage = jnp.maximum(jnp.sqrt(square), jnp.max(jnp.where(middle, apart, 0)))
    return decrement, leverage, regular


def _verdict(model: Model, status, theta, tol):
    """Whether the optimum is at infinity; and theta, or one by which every row is in its class.

    It is, in the same directions, where that of logistic regression is, to twice the rows: each
    with either of its borders, which it is to have passed and not.
    """
    problem, borders, _ = model
    rows, d = _rows.clean(problem.rows), problem.centre.size
    z, member, *_ = _seen(model, theta, rows)
    ends = [dot(member, of) for of in (borders.of[:-1], borders.of[1:])]
    weight = jnp.concatenate([jnp.where(jnp.any(e != 0, 1), rows.weight, 0) for e in ends])
    total = _mesh.sum_rows(weight, rows.axis)
    twice = rows._replace(
        x=jnp.concatenate([jnp.concatenate([z, e], axis=1) for e in ends]),
        y=jnp.repeat(jnp.array([1, 0], jnp.int32), len(z)),
        weight=weight / jnp.where(total > 0, total, 1),
        ok=jnp.tile(rows.ok, 2),
        offset=None if rows.offset is None else jnp.tile(rows.offset, 2),
        feature_mask=None,
    )
    l2 = jnp.concatenate([problem.penalty[:d], jnp.zeros(theta.size - d, theta.dtype)])
    both = _frame.make(twice, l2, False)
    cap, begin = jnp.int32(_plan.NEWTON_STEPS), jnp.zeros_like(theta)[None, :]
    outcome = _newton.undoubted(TWO, both, begin, tol, cap, jnp.int32(0))
    found, info = _risk.said(both, outcome, tol, cap)
    status = jnp.where(info.status >= Status.QUASI_SEPARABLE, info.status, status)
    apart = found[0] * _frame.unscaled(both)
    side = jnp.where(twice.y > 0, 1, -1).astype(z.dtype) * dot(twice.x, apart)
    shift = 0 if twice.offset is None else jnp.abs(twice.offset)
    # So far that its own class is the likeliest of each, as it is from log 2 on.
    far = jnp.where(weight > 0, (1 + shift) / jnp.where(side > 0, side, 1), 0)
    _, most = _mesh.across((), jnp.max(far), rows.axis)
    return status, jnp.where(status == Status.SEPARABLE, apart * jnp.maximum(most, 1), theta)


def _enter(model: Model, params: Ordinal) -> jax.Array:
    problem, (present, of, _), _ = model
    factor = _frame.unscaled(problem)
    weights = jnp.where(factor > 0, params.weights / jnp.where(factor > 0, factor, 1), 0)
    first = jnp.any(of[1:-1] != 0, axis=1) & present[:-1]
    moved = dot(factor * weights, problem.centre) - jnp.where(first, params.thresholds, 0)
    return jnp.concatenate([weights, jnp.where(first, moved, 0)])


def _leave(model: Model, theta: jax.Array) -> Ordinal:
    problem, (_, of, beyond), _ = model
    d = problem.centre.size
    cuts = dot(of[1:-1], theta[d:])
    each = jnp.concatenate([jnp.broadcast_to(theta[:d], (cuts.size, d)), cuts[:, None]], axis=1)
    found = _frame.left(problem, each, True)
    there = beyond[1:-1] == 0
    return Ordinal(
        found.weights[0], jnp.where(there, -found.bias, -jnp.sign(beyond[1:-1]) * jnp.inf)
    )

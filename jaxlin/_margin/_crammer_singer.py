"""An interior point method for the margin of k classes at once (Crammer and Singer, 2001).

Over rows x_i of weight c_i and class y_i it minimises sum_i c_i (max_r (e_ir + s_ir) - s_i,y_i)
+ 1/2 sum_r theta_r' P theta_r, s_ir = theta_r . x_i, where e_ir is 1 but for r = y_i, where it
is 0. With the maximum as a variable, eta_i, and slacks z_ir = eta_i - e_ir - s_ir >= 0, the duals
of a row are nonnegative and of sum 1, like probabilities, and at the optimum

    P theta_r = sum_i c_i ([r = y_i] - a_ir) x_i,  a_ir z_ir = 0.

Newton's method on these, with the products held at a target that falls (Mehrotra, 1992), has the
matrix of softmax regression, D_i - D_i 1 1' D_i / 1' D_i 1 for each row, D_i = diag(a_i / z_i).

The duality gap is a sum of terms that cannot be negative. Duals are made exactly feasible for it:
those of a class sum to the weight of the class, or its bias has no minimum.

Shapes: `n` rows, `k` classes, `m` = k - 1, `p` coordinates; theta is `(m, p)` in the basis of
scores that sum to zero, see `_frame`.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin import _linalg
from jaxlin._base import _loops, _mesh
from jaxlin._data import _fold, _rows
from jaxlin._linalg import dot
from jaxlin._smooth import _frame, _passes
from jaxlin._smooth._frame import Problem
from jaxlin.types import Linear

# Part of the way to the boundary that a step goes.
REACH = 0.99
# Steps without progress after which there is none to come: where the gap is below the root of eps,
# about the floor, and above it.
PATIENCE, ABOVE = 6, 12
LEAST_STEP = 1e-6
# Products that fall to this part of themselves are progress too.
FALLING = 0.95
# The loop aims at this part of the tolerance, as the returned params are rounded once more.
AIM = 0.25
# Units of the size of the matrix times eps that keep it factorable.
RIDGE_ULPS = 4.0


# Duals are moved by at most this part of themselves to be feasible.
MOST_MOVED = 0.5
# Weights of classes are sums known to so many units of rounding.
ROUNDED_ULPS = 64


class Bound(NamedTuple):
    """What theta and feasible duals prove.

    theta: `(m, p)`
    dual: `(n, k)`, feasible
    gap: `()`, primal less dual, relative to the primal
    primal: `()`
    """

    theta: jax.Array
    dual: jax.Array
    gap: jax.Array
    primal: jax.Array


class _Task(NamedTuple):
    """The problem as the loop sees it.

    basis: `(k, m)`, the problem's
    truth: `(n, k)`, one-hot
    live: `(n, k)` bool, the classes present, in rows with weight
    share: `(k,)`, the weight of each class
    pull: `(m, p)`, sum_i c_i onehot(y_i) x_i; mean: `(p,)`, sum_i c_i x_i
    """

    problem: Problem
    basis: jax.Array
    truth: jax.Array
    live: jax.Array
    share: jax.Array
    pull: jax.Array
    mean: jax.Array


class _State(NamedTuple):
    """A point strictly inside, and the step from it.

    theta: `(m, p)`; dual, slack: `(n, k)`, a and z; top: `(n,)`, eta; step: what is added to them
    mean: `()`, of the products a z, the least so far
    """

    theta: jax.Array
    dual: jax.Array
    slack: jax.Array
    top: jax.Array
    step: tuple[jax.Array, ...]
    mean: jax.Array
    best: Bound
    steps: jax.Array
    idle: jax.Array
    done: jax.Array


def solve(problem: Problem, tol: jax.Array, cap: jax.Array) -> tuple[Bound, jax.Array]:
    """Minimise, until the relative gap is at most `tol` or cannot fall.

    Args:
      problem: rows of classes `(n,)`, with a basis.
      tol: bound on the relative duality gap.
      cap: on the steps.

    Returns:
      The best pair found, and the steps.
    """
    n, d = problem.rows.x.shape
    if n < d:
        reduced, back = _frame.in_row_space(problem)
        best, steps = solve(reduced, tol, cap)
        return best._replace(theta=back(best.theta)), steps
    task = _task(problem)
    run = jax.lax.while_loop(
        lambda state: ~state.done & (state.steps < cap),
        *_loops.steady(functools.partial(_advance, task, tol), _start(task)),
    )
    return run.best, run.steps


def proved(
    problem: Problem,
    params: Linear,
    own: jax.Array,
    dual: jax.Array,
    slack: jax.Array,
    tol: jax.Array,
) -> Bound:
    """What params and `dual` prove, computed anew, whatever was lost by rounding the scores.

    Where that is not `tol` the scores are computed in twice the digits. In working precision a
    score has the roundings of the columns, of its product, and of what it is then added to.

    Args:
      own, slack: `(k, p)`, of the params in the frame, their biases being within `(k,)`.
    """
    task, eps = _task(problem), jnp.finfo(own.dtype).eps
    theta = dot(task.basis.T, own)
    residue = _sums(task, _residue(task, dual))
    scores, size = _frame.sized_products(problem, own.T)
    doubt = slack[None, :] + eps * (theta.shape[1] / 2 + 3) * size
    found = _bound(task, theta, 1 - task.truth + scores, dual, residue, doubt)

    def exactly(problem, params, own, dual, residue):
        task = _task(problem)
        scores, lost = _frame.long_scores(problem, params)
        base, rest = (jnp.sum(task.truth * a, axis=1, keepdims=True) for a in (scores, lost))
        apart = scores - base
        # What the difference has lost (Knuth's sum of two).
        part = apart - scores
        lost = lost - rest + ((scores - (apart - part)) - (base + part))
        asked = (1 - task.truth + apart) + lost
        largest = dot(jnp.abs(own), problem.sizes[1])
        unseen = 2 * eps**2 * _linalg.long_ulps(own.shape[1]) * jnp.max(largest)
        doubt = unseen + eps * jnp.abs(asked)
        theta = dot(task.basis.T, own)
        return _bound(task, theta, asked, dual, residue, doubt)

    operands = problem, params, own, dual, residue
    return _linalg.when(~(found.gap <= tol), exactly, found, operands)


def _task(problem: Problem) -> _Task:
    rows, basis = problem.rows, problem.basis
    if basis is None:
        raise TypeError("problem.basis: expected that of several scores, got None")
    present = jnp.any(basis != 0, axis=1)
    truth = rows.y[:, None] == jnp.arange(present.size, dtype=rows.y.dtype)[None, :]
    live = (rows.weight > 0)[:, None] & present[None, :]
    truth = (truth & live).astype(basis.dtype)
    weighted = rows.weight[:, None] * truth
    nothing = jnp.zeros_like(problem.spread)
    task = _Task(problem, basis, truth, live, jnp.sum(weighted, axis=0), nothing, nothing)
    pull = _sums(task, weighted)
    return task._replace(pull=dot(basis.T, pull), mean=jnp.sum(pull, axis=0))


def _scores(task: _Task, theta: jax.Array) -> jax.Array:
    """`(n, k)`."""
    return dot(_frame.products(task.problem, theta.T), task.basis.T)


def _residue(task: _Task, dual: jax.Array) -> jax.Array:
    """c (onehot(y) - a) in the basis, `(n, m)`."""
    return dot(task.problem.rows.weight[:, None] * _given_up(task, dual), task.basis)


def _given_up(task: _Task, dual: jax.Array) -> jax.Array:
    """onehot(y) - a, `(n, k)`, where a row's own a is what the others leave of 1.

    Stored, it is near 1 and has lost most of the digits of that difference, which may be all that
    holds theta; the others have theirs.
    """
    others = jnp.where(task.truth > 0, 0, dual)
    return jnp.where(task.truth > 0, jnp.sum(others, axis=1, keepdims=True), -others)


def _sums(task: _Task, columns: jax.Array, ratio: jax.Array | None = None):
    """Products `(q, p)` of columns `(n, q)` with the rows; with D `(n, k)` also the matrix of D."""
    problem, q = task.problem, columns.shape[1]
    m = problem.used.size

    def products(block):
        z = _frame.columns(problem, block)
        given = _mesh.where_rows(block.weight > 0, block.y)
        left = given[:, :q]
        if ratio is not None:
            curve = _curvature(task.basis, given[:, q:])
            curved = (z[:, None, :] * curve[:, :, None]).reshape(z.shape[0], -1)
            left = jnp.concatenate([left, curved], axis=1)
        return dot(left.T, z), ()

    given = columns if ratio is None else jnp.concatenate([columns, ratio], axis=1)
    entries = _rows.BLOCK_ENTRIES // (1 if ratio is None else max(1, m * (m + 1) // 4))
    total, _ = _fold.fold(products, problem.rows._replace(y=given), entries)
    sums = total[:q] * problem.spread[None, :]
    if ratio is None:
        return sums
    p = problem.spread.size
    return sums, _passes.hessian_of(problem, total[q:].reshape(-1, p, p), m)


def _curvature(basis: jax.Array, ratio: jax.Array) -> jax.Array:
    """D - D 1 1' D / 1' D 1 of each row of `ratio (rows, k)` in the basis, `(rows, m (m + 1) / 2)`.

    The upper triangles, as sums over pairs of classes of d_r d_q / 1' D 1 (b_r - b_q)(b_r - b_q)':
    nothing cancels, though one d may be 1e16 times the others.
    """
    k, m = basis.shape
    r, q = np.triu_indices(k, 1)
    first, second = np.triu_indices(m)
    total = jnp.sum(ratio, axis=1, keepdims=True)
    pairs = ratio[:, r] * (ratio[:, q] / jnp.where(total > 0, total, 1))
    apart = basis[r] - basis[q]
    return dot(pairs, apart[:, first] * apart[:, second])


def _feasible(task: _Task, dual: jax.Array) -> jax.Array:
    """Positive duals `(n, k)` of sum 1 in each row and, with a bias, of each class its weight.

    For that a row moves by a_r (l_r - a . l), with multipliers l of the classes: by more where it
    is undecided, and no dual by more than a part of itself.
    """
    problem, basis = task.problem, task.basis
    total = jnp.sum(dual, axis=1, keepdims=True)
    dual = dual / jnp.where(total > 0, total, 1)
    if problem.spread.size == problem.centre.size:
        return dual
    c = problem.rows.weight[:, None]
    owed = jnp.sum(c * _given_up(task, dual), axis=0)
    inside = dot(dual, basis)
    spread = dot(basis.T, (task.share - owed)[:, None] * basis) - dot((c * inside).T, inside)
    spread = spread + jnp.diag(jnp.where(problem.used, 0, 1).astype(spread.dtype))
    lent = RIDGE_ULPS * float(jnp.finfo(dual.dtype).eps) * basis.shape[0]
    multiplier = _linalg.solve(_linalg.factor(spread, lent), dot(basis.T, owed))
    part = dot(basis, multiplier)[None, :] - dot(inside, multiplier)[:, None]
    small = jnp.max(jnp.abs(jnp.where(task.live, part, 0))) <= MOST_MOVED
    return jnp.where(small, dual * (1 + jnp.where(task.live, part, 0)), dual)


def _bound(task, theta, asked, dual, residue, doubt=0.0) -> Bound:
    """The gap of theta and duals, from the products with both at hand.

    Args:
      asked: `(n, k)`, e + s of theta, but for what may be added to a row's.
      dual: `(n, k)`, nonnegative; a row's own is what the others leave of 1.
      residue: `(m, p)`, the products of `_residue`.
      doubt: `(n, k)`, within which of that the gap holds whatever it is.
    """
    problem, live = task.problem, task.live
    c, basis, penalty = problem.rows.weight, task.basis, problem.penalty[None, :]
    held = penalty > 0
    if problem.spread.size > problem.centre.size:
        # Unless it is rounding, what a class is owed comes by a shift of all rows alike, and by so
        # much of the classes' weights, which are feasible, as keeps all positive.
        owed = jnp.sum(c[:, None] * _given_up(task, dual), axis=0)
        mixed = jnp.max(jnp.abs(owed) / jnp.where(task.share > 0, task.share, 1))
        felt = mixed > ROUNDED_ULPS * jnp.finfo(theta.dtype).eps
        owed, mixed = jnp.where(felt, owed, 0), jnp.where(felt, jnp.minimum(mixed, 1), 0)
        dual = (1 - mixed) * (dual + owed[None, :]) + mixed * task.share[None, :]
        dual = jnp.where(live, jnp.maximum(dual, 0), 0)

        def outer(shift):
            return dot(shift, basis)[:, None] * task.mean[None, :]

        residue = (1 - mixed) * (residue - outer(owed)) + mixed * (task.pull - outer(task.share))
        owed = jnp.sum(c[:, None] * _given_up(task, dual), axis=0)
        left = jnp.abs(jnp.sum(dot(basis, theta[:, -1]) * owed))
    else:
        left = jnp.zeros((), theta.dtype)
    weights = jnp.where(held, theta, 0)
    reached = jnp.where(held, residue / jnp.where(held, penalty, 1), 0)
    asked = jnp.where(live, asked, -jnp.inf)
    top = jnp.max(asked, axis=1, keepdims=True)
    # The worst for the duals' choice of classes: of one more, and of the others less.
    felt = jnp.sum(dual * doubt, axis=1, keepdims=True)
    worst = jnp.max(asked + (1 - 2 * dual) * doubt, axis=1, keepdims=True) + felt
    missing = jnp.sum(c[:, None] * dual * jnp.where(live, worst - asked, 0))
    cost = jnp.where(c > 0, top[:, 0] - jnp.sum(jnp.where(task.truth > 0, asked, 0), axis=1), 0)
    primal = jnp.sum(c * cost) + jnp.sum(penalty * weights**2) / 2
    tail = jnp.sum(penalty * (weights - reached) ** 2) / 2
    found = (missing + tail + left) / jnp.maximum(primal, jnp.finfo(theta.dtype).tiny)
    found = jnp.maximum(found, 4 * jnp.finfo(theta.dtype).eps)
    # A penalty that has vanished in the frame bounds nothing.
    features = jnp.arange(problem.spread.size) < problem.centre.size
    loose = jnp.any((problem.spread > 0) & ~(problem.penalty > 0) & features)
    found = jnp.where(jnp.isfinite(found) & ~loose, found, jnp.inf)
    return Bound(theta, dual, found, primal)


def _start(task: _Task) -> _State:
    """theta is 0, and a row's duals the weights of the classes: feasible."""
    theta = jnp.zeros_like(task.pull)
    dual = jnp.where(task.live, task.share[None, :], 0)
    slack = jnp.where(task.live, 1 + task.truth, 1)
    top = jnp.full(slack.shape[0], 2, theta.dtype)
    infinite = jnp.full((), jnp.inf, theta.dtype)
    return _State(
        theta=theta,
        dual=dual,
        slack=slack,
        top=top,
        step=jax.tree.map(jnp.zeros_like, (theta, dual, slack, top)),
        mean=infinite,
        best=Bound(theta, dual, infinite, infinite),
        steps=jnp.int32(-1),  # the first turn stays where it is
        idle=jnp.int32(0),
        done=jnp.bool_(False),
    )


def _advance(task: _Task, tol: jax.Array, state: _State) -> _State:
    """Move by the step at hand, judge the point, and make the next step."""
    problem, live = task.problem, task.live
    c = problem.rows.weight[:, None]
    present = jnp.sum(jnp.any(task.basis != 0, axis=1))
    dtype = state.theta.dtype
    eps, tiny = jnp.finfo(dtype).eps, jnp.finfo(dtype).tiny
    held = state.theta, state.dual, state.slack, state.top
    theta, a, z, top = (at + moved for at, moved in zip(held, state.step, strict=True))
    a, z = (jnp.where(live, jnp.maximum(v, tiny), out) for v, out in ((a, 0), (z, 1)))
    a = _feasible(task, a)
    ratio = a / z
    whole_ratio = jnp.sum(ratio, axis=1, keepdims=True)
    whole_ratio = jnp.where(whole_ratio > 0, whole_ratio, 1)
    scores = _scores(task, theta)
    off = jnp.where(live, z - (top[:, None] - (1 - task.truth) - scores), 0)

    def steered(product):
        """What the duals move by if theta stays, and the part of it before the sum is kept."""
        free = ratio * off - product / z
        sum_free = jnp.sum(free, axis=1, keepdims=True)
        return free - ratio * (sum_free / whole_ratio), sum_free

    def forced(change):
        return dot(c * change, task.basis)

    def moves(product, sum_free, moved):
        """The step of every part of the state, and how far it may go."""
        ds = _scores(task, moved)
        dtop = (sum_free + jnp.sum(ratio * ds, axis=1, keepdims=True)) / whole_ratio
        dz = jnp.where(live, dtop - ds - off, 0)
        da = -product / z - ratio * dz
        limits = [
            jnp.where(live & (d < 0), -v / jnp.where(d < 0, d, 1), jnp.inf)
            for v, d in ((a, da), (z, dz))
        ]
        reach = jnp.minimum(*(jnp.min(limit, initial=jnp.inf) for limit in limits))
        return (moved, da, dz, dtop[:, 0]), reach

    def mean_of(a, z):
        return jnp.sum(c * a * z) / jnp.maximum(present, 1).astype(dtype)

    # Predictor: the products' target is 0.
    product = a * z
    change, sum_free = steered(product)
    columns = jnp.concatenate([_residue(task, a), forced(change)], axis=1)
    sums, hess = _sums(task, columns, c * ratio)
    m = theta.shape[0]
    bound = _bound(task, theta, 1 - task.truth + scores, a, sums[:m])
    better = bound.gap < state.best.gap
    now = mean_of(a, z)
    best = jax.tree.map(functools.partial(jnp.where, better), bound, state.best)
    whole = _linalg.factor(hess, RIDGE_ULPS * float(eps) * theta.size)
    ground = sums[:m] - problem.penalty[None, :] * theta

    def solution(force):
        force = force.reshape(-1)
        found = _linalg.solve(whole, force)
        found = found + _linalg.solve(whole, force - dot(hess, found))
        return jnp.where(_frame.inert(problem), 0, found.reshape(theta.shape))

    (_, da, dz, _), reach = moves(product, sum_free, solution(ground - sums[m:]))
    reach = jnp.minimum(1, reach)
    ahead = mean_of(a + reach * da, z + reach * dz)
    target = now * (ahead / jnp.where(now > 0, now, 1)) ** 3
    # Corrector: towards the target, with what the predictor left out.
    product = jnp.where(live, product + da * dz - target, 0)
    change, sum_free = steered(product)
    step, reach = moves(product, sum_free, solution(ground - _sums(task, forced(change))))
    reach = jnp.minimum(1, REACH * reach)
    step = jax.tree.map(lambda d: reach * d, step)
    # While products fall the gap, which theta's own duals make, may rise.
    falling = (now < FALLING * state.mean) & (now > eps * best.primal)
    idle = jnp.where(better | falling, 0, state.idle + 1)
    done = ~jnp.all(jnp.isfinite(step[0])) | (best.gap <= AIM * tol)
    patience = jnp.where(best.gap < jnp.sqrt(eps), PATIENCE, ABOVE)
    done |= (idle >= patience) | (reach < LEAST_STEP)
    least = jnp.minimum(now, state.mean)
    return _State(theta, a, z, top, step, least, best, state.steps + 1, idle, done)

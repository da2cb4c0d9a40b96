"""A primal-dual interior point method for planes of large margin, and the duality gap it ends with.

Over rows A_i = t_i (x_i, 1) of weight c_i, margins m = A theta and P the penalties, it minimises
sum_i c_i loss(m_i) + 1/2 theta' P theta, where the loss of a soft margin is the hinge xi or its
square xi^2, xi >= 1 - m >= -z, and a hard margin allows no xi. With duals 0 <= a (<= 1 for the
hinge, where a is 1 once xi > 0; xi = a / 2 for its square) the optimum satisfies

    P theta = A'(c a),  m + xi - z = 1,  a z = 0,  (1 - a) xi = 0.

Newton's method on these equations, with the products held at a target that falls, needs a factor
of P + A' diag(c / D) A alone, one for Mehrotra's predictor and corrector (1992, "On the
implementation of a primal-dual interior point method"). The methods differ in one term of D.

What counts is the duality gap: any theta and any feasible a bound the optimum from above and from
below. It is summed from terms that cannot be negative, so nothing cancels.

Shapes: `n` rows, `p` coordinates of theta, in the frame of `_frame` with one score.
"""

import enum
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlin import _frame, _linalg, _rows
from jaxlin._frame import Problem
from jaxlin._linalg import dot

# Part of the way to the boundary that a step goes.
REACH = 0.99
# Steps without a smaller gap after which there is none to come.
PATIENCE = 6
LEAST_STEP = 1e-6
# Units of p * eps that keep the matrix factorable.
RIDGE_ULPS = 4.0
# Units of p * eps of the largest row below which the hulls of two classes touch.
TOUCH_ULPS = 8.0
POLISHES = 3
# The loop aims at this part of the tolerance, as the returned params are rounded once more.
AIM = 0.25
# Units of eps that a soft margin's plane is tried to be longer by: short of a margin of 1 rounding
# costs more than beyond it.
LONGER_ULPS = (0.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


class Kind(enum.Enum):
    """What a margin below 1 costs: itself, its square, or more than anything."""

    HINGE = enum.auto()
    SQUARED = enum.auto()
    HARD = enum.auto()


class Bound(NamedTuple):
    """What a pair of theta and a feasible a proves.

    theta: `(p,)`, the pair's, of a hard margin scaled to margins of at least 1
    dual: `(n,)`, the feasible a; of a hard margin scaled to sum c a = 1
    gap: `()`, primal less dual, relative to the primal; infinite if theta separates nothing
    primal: `()`
    low, high: `()`, of a hard margin: least margin over the norm of the weights, and the distance
      that the duals prove it cannot exceed
    """

    theta: jax.Array
    dual: jax.Array
    gap: jax.Array
    primal: jax.Array
    low: jax.Array
    high: jax.Array


class Outcome(NamedTuple):
    """The best pair of a run.

    touching: whether the hulls of the classes touch: no plane separates them
    """

    bound: Bound
    steps: jax.Array
    touching: jax.Array


class _State(NamedTuple):
    """A point strictly inside, and the step from it.

    theta: `(p,)`; margins, dual, slack, excess: `(n,)`, m, a, z, xi; step: what is added to them
    """

    theta: jax.Array
    margins: jax.Array
    dual: jax.Array
    slack: jax.Array
    excess: jax.Array
    step: tuple[jax.Array, ...]
    best: Bound
    steps: jax.Array
    idle: jax.Array
    done: jax.Array


class _Task(NamedTuple):
    """The problem as the loop sees it.

    sign, weight: `(n,)`, t, and c of sum 1; penalty, bias: `(p,)`, and which coordinate it is
    touch: `()`, the distance of two hulls that rounding cannot tell from 0
    """

    problem: Problem
    sign: jax.Array
    weight: jax.Array
    penalty: jax.Array
    bias: jax.Array
    touch: jax.Array


def solve(kind: Kind, problem: Problem, tol: jax.Array, cap: jax.Array) -> Outcome:
    """Minimise, until the relative gap is at most `tol` or cannot fall.

    Args:
      kind: static.
      problem: rows with y in {0, 1} and weights; a hard margin counts rows with weight alike.
      tol: bound on the relative duality gap.
      cap: on the steps.

    Returns:
      The best pair found.
    """
    n, d = problem.rows.x.shape
    if n < d:
        reduced, back = _frame.in_row_space(problem)
        outcome = solve(kind, reduced, tol, cap)
        theta = back(outcome.bound.theta[None])[0]
        return outcome._replace(bound=outcome.bound._replace(theta=theta))
    task = _task(kind, problem)
    run = jax.lax.while_loop(
        lambda state: ~state.done & (state.steps < cap),
        functools.partial(_advance, kind, task, tol),
        _start(kind, task),
    )
    best, touching = run.best, jnp.bool_(False)
    if kind is Kind.HARD:
        best, touching = _closed(task, best)
    return Outcome(best, run.steps, touching)


def lengthened(kind: Kind, problem: Problem, theta: jax.Array, dual: jax.Array) -> jax.Array:
    """Theta, or a little more of it, whichever the duals prove to be nearer to the optimum."""
    task = _task(kind, problem)
    margins = task.sign * _frame.products(problem, theta[:, None])[:, 0]
    pulled = _pulls(task, dual)

    def times(factor):
        return _bound(kind, task, factor * theta, factor * margins, dual, pulled).gap

    factors = 1 + jnp.finfo(theta.dtype).eps * jnp.asarray(LONGER_ULPS, theta.dtype)
    return theta * factors[jnp.argmin(jax.vmap(times)(factors))]


def gap(kind: Kind, problem: Problem, theta: jax.Array, dual: jax.Array, slack: jax.Array) -> Bound:
    """What a pair proves, computed anew, with whatever bias within `slack` of theta's.

    As the objective is convex in the bias, the ends are the worst.
    """
    task = _task(kind, problem)
    margins = task.sign * _frame.products(problem, theta[:, None])[:, 0]
    pulled = _pulls(task, dual)

    def at(move):
        moved = margins + task.sign * move
        return _bound(
            kind, task, theta + jnp.where(task.bias, move, 0), moved, dual, pulled, centred=False
        )

    ends = jax.vmap(at)(jnp.stack([-slack, slack]))
    return jax.tree.map(lambda a: a[jnp.argmax(ends.gap)], ends)


def _task(kind: Kind, problem: Problem) -> _Task:
    rows = problem.rows
    weight = rows.weight
    if kind is Kind.HARD:
        live = (weight > 0).astype(weight.dtype)
        weight = live / jnp.maximum(jnp.sum(live), 1)
    sign = jnp.where(rows.y > 0, 1, -1).astype(weight.dtype)
    bias = jnp.arange(problem.spread.size) >= problem.centre.size
    ulps = TOUCH_ULPS * bias.size * float(jnp.finfo(weight.dtype).eps)
    touch = ulps * _radius(problem) if kind is Kind.HARD else jnp.zeros((), weight.dtype)
    return _Task(problem, sign, weight, problem.penalty, bias, touch)


def _sums(task: _Task, columns: jax.Array, curve: jax.Array | None = None):
    """Products `(q, p)` of columns `(n, q)` with the rows; with a curve also X' diag(curve) X."""
    problem = task.problem
    given = columns if curve is None else jnp.concatenate([columns, curve[:, None]], axis=1)

    def products(block):
        z = _frame.columns(problem, block)
        given = _rows.where_rows(block.weight > 0, block.y)
        if curve is None:
            return dot(given.T, z), ()
        left = jnp.concatenate([given[:, :-1], z * given[:, -1:]], axis=1)
        return dot(left.T, z), ()

    total, _ = _rows.fold(products, problem.rows._replace(y=given))
    total = total * problem.spread[None, :]
    if curve is None:
        return total
    q = columns.shape[1]
    return total[:q], total[q:] * problem.spread[:, None]


def _pulls(task: _Task, dual: jax.Array) -> jax.Array:
    """A'(c a) of the rows of each class, `(2, p)`."""
    return _sums(task, _of_classes(task, dual))


def _of_classes(task: _Task, dual: jax.Array) -> jax.Array:
    """c a t of the rows of one class and of the other, `(n, 2)`."""
    pull = task.weight * dual * task.sign
    positive = task.sign > 0
    return jnp.stack([jnp.where(positive, pull, 0), jnp.where(positive, 0, pull)], axis=1)


def _bound(kind, task, theta, margins, dual, pulled, *, centred=True) -> Bound:
    """The gap of theta and of `dual` made feasible, from the products with both at hand.

    The plane of a hard margin is moved to the middle of the classes if it is to be `centred`.
    """
    c, t, penalty = task.weight, task.sign, task.penalty
    held = penalty > 0
    if task.problem.spread.size > task.problem.centre.size:
        # The heavier class is scaled down, so that sum c a t = 0.
        above, below = (jnp.sum(jnp.where(side, c * dual, 0)) for side in (t > 0, t < 0))
        lesser = jnp.minimum(above, below)
        parts = jnp.stack([lesser / jnp.where(a > 0, a, 1) for a in (above, below)])
    else:
        parts = jnp.ones(2, dual.dtype)
    dual = dual * jnp.where(t > 0, parts[0], parts[1])
    pull = jnp.sum(parts[:, None] * pulled, axis=0)
    total = jnp.sum(c * dual)
    weights = jnp.where(held, theta, 0)
    size = jnp.sum(penalty * weights**2)
    reached = jnp.where(held, pull / jnp.where(held, penalty, 1), 0)
    infinite = jnp.full((), jnp.inf, theta.dtype)
    low = high = infinite
    if kind is Kind.HARD:
        live = c > 0
        first, second = (
            jnp.min(jnp.where(live & side, margins, jnp.inf)) for side in (t > 0, t < 0)
        )
        if centred and task.problem.spread.size > task.problem.centre.size:
            least, turn = (first + second) / 2, (second - first) / 2
        else:
            least, turn = jnp.minimum(first, second), jnp.zeros_like(first)
        low = least / jnp.sqrt(jnp.where(size > 0, size, 1))
        length = jnp.sum(penalty * reached**2)
        high = jnp.sqrt(length) / jnp.where(total > 0, total, 1)
        grown = 1 / jnp.where(least > 0, least, 1)
        theta = jnp.where(task.bias, theta + turn, theta) * grown
        margins, weights = (margins + t * turn) * grown, weights * grown
        # Of all multiples of a the one that proves most.
        most = total / jnp.where(length > 0, length, 1)
        reached, primal = reached * most, size * grown**2 / 2
        missing = most * jnp.sum(jnp.where(live, c * dual * (margins - 1), 0))
        dual = dual / jnp.where(total > 0, total, 1)
    else:
        short = 1 - margins
        over, under = jnp.maximum(short, 0), jnp.maximum(-short, 0)
        if kind is Kind.HINGE:
            each, cost = (1 - dual) * over + dual * under, over
        else:
            square = jnp.where(short > 0, (short - dual / 2) ** 2, dual**2 / 4 + dual * under)
            each, cost = square, over**2
        missing = jnp.sum(jnp.where(c > 0, c * each, 0))
        primal = jnp.sum(jnp.where(c > 0, c * cost, 0)) + size / 2
        # What is left of the sum is rounding.
        missing += jnp.abs(jnp.sum(jnp.where(task.bias, theta, 0)) * jnp.sum(c * dual * t))
    tail = jnp.sum(penalty * (weights - reached) ** 2) / 2
    found = (missing + tail) / jnp.maximum(primal, jnp.finfo(theta.dtype).tiny)
    found = jnp.maximum(found, 4 * jnp.finfo(theta.dtype).eps)
    # A penalty that has vanished in the frame bounds nothing.
    loose = jnp.any((task.problem.spread > 0) & ~held & ~task.bias)
    high = jnp.where(loose, infinite, high)
    found = jnp.where(jnp.isfinite(found) & ~loose, found, infinite)
    if kind is Kind.HARD:
        found = jnp.where((low > 0) & (length > 0), found, infinite)
        primal = jnp.where(low > 0, primal, infinite)
    return Bound(theta, dual, found, primal, low, high)


def _start(kind: Kind, task: _Task) -> _State:
    n, p = task.sign.size, task.penalty.size
    dtype = task.weight.dtype
    nothing, ones = jnp.zeros(p, dtype), jnp.ones(n, dtype)
    infinite = jnp.full((), jnp.inf, dtype)
    if kind is Kind.HARD:
        dual = ones
    else:
        positive = task.sign > 0
        above = jnp.sum(jnp.where(positive, task.weight, 0))
        below = jnp.sum(jnp.where(positive, 0, task.weight))
        own = jnp.where(positive, above, below)
        dual = jnp.minimum(above, below) / jnp.where(own > 0, own, 1) / 2
        dual = jnp.where(task.weight > 0, dual, 0.5)
    excess = 2 * ones if kind is Kind.HINGE else jnp.zeros_like(ones)
    zeros = jnp.zeros_like(ones)
    return _State(
        theta=nothing,
        margins=zeros,
        dual=dual,
        slack=ones,
        excess=excess,
        step=(nothing, zeros, zeros, zeros, zeros),
        best=Bound(nothing, dual, infinite, infinite, -infinite, infinite),
        steps=jnp.int32(-1),  # the first turn stays where it is
        idle=jnp.int32(0),
        done=jnp.bool_(False),
    )


def _advance(kind: Kind, task: _Task, tol: jax.Array, state: _State) -> _State:
    """Move by the step at hand, judge the point, and make the next step."""
    c, live = task.weight, task.weight > 0
    eps, tiny = jnp.finfo(c.dtype).eps, jnp.finfo(c.dtype).tiny
    theta, m, a, z, xi = (
        held + moved
        for held, moved in zip(
            (state.theta, state.margins, state.dual, state.slack, state.excess),
            state.step,
            strict=True,
        )
    )
    a, z, xi = (jnp.maximum(v, tiny) for v in (a, z, xi))
    if kind is Kind.HINGE:
        a = jnp.minimum(a, 1 - eps / 2)
    rest = 1 - a
    # D, and what (1 - a) xi adds to it; xi = a / 2 of the squared hinge is eliminated.
    if kind is Kind.HINGE:
        spread, own = z / a + xi / rest, xi
    elif kind is Kind.SQUARED:
        spread, own = z / a + 0.5, a / 2
    else:
        spread, own = z / a, jnp.zeros_like(a)
    curve = jnp.where(live, c / spread, 0)

    def steering(rho):
        return (task.sign * curve * jnp.where(live, rho, 0))[:, None]

    # Predictor: the products' target is 0.
    rho = 1 - m if kind is not Kind.SQUARED else 1 - m - own
    columns = jnp.concatenate([_of_classes(task, a), steering(rho)], axis=1)
    pulled, square = _sums(task, columns, curve)
    best, better = _better(kind, state.best, _bound(kind, task, theta, m, a, pulled[:2]))
    alone = jnp.where(task.problem.spread > 0, task.penalty, 1)
    hess = square + jnp.diag(alone)
    whole = _linalg.factor(hess, RIDGE_ULPS * float(eps) * theta.size)
    ground = -(task.penalty * theta - jnp.sum(pulled[:2], axis=0))

    # For four systems the inverse of L is less work than as many pairs of triangular solves.
    half = _linalg.half_solve(whole, jnp.eye(theta.size, dtype=theta.dtype))

    def solution(force):
        first = dot(half.T, dot(half, force))
        return first + dot(half.T, dot(half, force - dot(hess, first)))

    def moves(moved, dm, r_a, r_b, rho):
        """The step of every part of the state, and how far it may go."""
        da = (rho - dm) / spread
        dz = -(r_a + z * da) / a
        dxi = (xi * da - r_b) / rest if kind is Kind.HINGE else jnp.zeros_like(da)
        pairs = [(a, da), (z, dz)]
        if kind is Kind.HINGE:
            pairs += [(rest, -da), (xi, dxi)]
        limits = [jnp.where(live & (d < 0), -v / jnp.where(d < 0, d, 1), jnp.inf) for v, d in pairs]
        reach = functools.reduce(jnp.minimum, [jnp.min(limit, initial=jnp.inf) for limit in limits])
        return (moved, dm, da, dz, dxi), reach

    def products_mean(a, z, xi):
        inside = a * z + (1 - a) * xi if kind is Kind.HINGE else a * z
        return jnp.sum(jnp.where(live, c * inside, 0)) / (2 if kind is Kind.HINGE else 1)

    moved = solution(ground + pulled[2])
    fresh = _frame.products(task.problem, jnp.stack([theta, moved], axis=1)) * task.sign[:, None]
    m, dm = fresh[:, 0], fresh[:, 1]
    (_, _, da, dz, dxi), reach = moves(moved, dm, a * z, rest * xi, rho)
    reach = jnp.minimum(1, reach)
    now = products_mean(a, z, xi)
    ahead = products_mean(a + reach * da, z + reach * dz, xi + reach * dxi)
    target = now * (ahead / jnp.where(now > 0, now, 1)) ** 3
    # Corrector: towards the target, with what the predictor left out.
    r_a = a * z + da * dz - target
    r_b = rest * xi - da * dxi - target
    rho = 1 + z - m - own - r_a / a
    if kind is Kind.HINGE:
        rho = rho + r_b / rest
    (force,) = _sums(task, steering(rho))
    moved = solution(ground + force)
    dm = _frame.products(task.problem, moved[:, None])[:, 0] * task.sign
    step, reach = moves(moved, dm, r_a, r_b, rho)
    reach = jnp.minimum(1, REACH * reach)
    step = tuple(reach * d for d in step)
    sound = jnp.all(jnp.isfinite(step[0]))
    idle = jnp.where(better, 0, state.idle + 1)
    done = ~sound | (best.gap <= AIM * tol) | (idle >= PATIENCE) | (reach < LEAST_STEP)
    if kind is Kind.HARD:
        done |= (best.low <= 0) & (best.high <= task.touch)
    return _State(
        theta=theta,
        margins=m,
        dual=a,
        slack=z,
        excess=xi,
        step=tuple(jnp.where(live, d, 0) if d.shape == c.shape else d for d in step),
        best=best,
        steps=state.steps + 1,
        idle=idle,
        done=done,
    )


def _better(kind: Kind, best: Bound, new: Bound) -> tuple[Bound, jax.Array]:
    """The better of two pairs; of a hard margin, of two planes and of two duals."""
    if kind is not Kind.HARD:
        better = new.gap < best.gap
        return jax.tree.map(functools.partial(jnp.where, better), new, best), better
    # Within rounding the later is the more exact.
    ulps = 4 * jnp.finfo(new.low.dtype).eps
    plane = new.low >= best.low - ulps * jnp.abs(best.low)
    dual = new.high <= best.high + ulps * best.high
    better = (new.low > best.low) | (new.high < best.high)
    low, high = jnp.maximum(new.low, best.low), jnp.minimum(new.high, best.high)
    ratio = low / jnp.where(high > 0, high, 1)
    found = Bound(
        theta=jnp.where(plane, new.theta, best.theta),
        dual=jnp.where(dual, new.dual, best.dual),
        gap=jnp.where((low > 0) & (high > 0), 1 - ratio**2, jnp.inf),
        primal=jnp.where(plane, new.primal, best.primal),
        low=low,
        high=high,
    )
    return found, better


def _radius(problem: Problem) -> jax.Array:
    """The norm of the largest row in the frame, as the weights measure it."""
    held = problem.penalty > 0
    inverse = jnp.where(held, 1 / jnp.where(held, problem.penalty, 1), 0) * problem.spread**2

    def largest(block):
        z = _frame.columns(problem, block)
        square = jnp.sum(z * z * inverse[None, :], axis=1)
        return (), jnp.max(jnp.where(block.weight > 0, square, 0))

    return jnp.sqrt(_rows.fold(largest, problem.rows)[1])


def _closed(task: _Task, best: Bound) -> tuple[Bound, jax.Array]:
    """The duals moved by as little as closes the distance, where rows are not separated.

    lambda - W A (A' W A)^-1 A' lambda, W = diag(lambda^2), keeps them positive.
    """

    def polish(_, dual):
        weight = task.weight * dual
        share = weight / jnp.maximum(jnp.sum(weight), jnp.finfo(weight.dtype).tiny)
        (pull,), square = _sums(task, (share * task.sign)[:, None], share**2)
        alone = jnp.where(task.problem.spread > 0, 0, 1).astype(weight.dtype)
        eps = float(jnp.finfo(weight.dtype).eps)
        whole = _linalg.factor(square + jnp.diag(alone), RIDGE_ULPS * eps * pull.size)
        moved = task.sign * _frame.products(task.problem, _linalg.solve(whole, pull)[:, None])[:, 0]
        return jnp.where(task.weight > 0, jnp.maximum(share - share**2 * moved, 0), 0)

    def closed(dual):
        new = jax.lax.fori_loop(0, POLISHES, polish, dual)
        scaled = new * jnp.maximum(jnp.sum(task.weight > 0), 1).astype(new.dtype)
        found = _bound(
            Kind.HARD, task, best.theta, jnp.ones_like(new), scaled, _pulls(task, scaled)
        )
        better = found.high < best.high
        return jnp.where(better, scaled, dual), jnp.where(better, found.high, best.high)

    dual, high = _linalg.when(~(best.low > 0), closed, (best.dual, best.high), (best.dual,))
    touching = (best.low <= 0) & (high <= task.touch)
    return best._replace(dual=dual, high=high), touching

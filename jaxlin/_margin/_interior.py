"""A primal-dual interior point method for planes of large margin.

Over rows A_i = t_i (x_i, 1) of weight c_i, margins m = A theta and P the penalties, it minimises
sum_i c_i loss(m_i) + 1/2 theta' P theta, where the loss of a soft margin is the hinge xi or its
square xi^2, xi >= 1 - m >= -z, and a hard margin allows no xi. With duals 0 <= a (<= 1 for the
hinge, where a is 1 once xi > 0; xi = a / 2 for its square) the optimum satisfies

    P theta = A'(c a),  m + xi - z = 1,  a z = 0,  (1 - a) xi = 0.

Newton's method on these equations, with the products held at a target that falls, needs a factor
of P + A' diag(c / D) A alone, one for Mehrotra's predictor and corrector (1992, "On the
implementation of a primal-dual interior point method"). The methods differ in one term of D.

What counts is the duality gap of the best pair met, see `_gap`. The hinge begins on the central
path, at the plane of least squares; the others, and it where that misses the tolerance, at 0.

Shapes: `n` rows, `p` coordinates of theta, in the frame of `_frame` with one score.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _loops, _platform
from jaxlin._linalg import dot
from jaxlin._margin import _gap
from jaxlin._margin._gap import Bound, Kind, Task
from jaxlin._smooth import _frame, _passes
from jaxlin._smooth._frame import Problem

# Part of the way to the boundary that a step goes.
REACH = 0.99
# Steps without progress after which there is none to come: where the gap is below the root of eps,
# about the floor, and above it.
PATIENCE, ABOVE = 3, 12
LEAST_STEP = 1e-6
# Products that fall to this part of themselves are progress too.
FALLING = 0.95
# The products at the start, in units of how far margins are from 1, and the least: with less, rows
# that are few but heavy take long. And the multiples of a plane of which it takes the best.
FIRST_MEAN, LEAST_MEAN = 0.4, 0.1
MULTIPLES = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
# Units of p * eps that keep the matrix factorable.
RIDGE_ULPS = 1.0
POLISHES = 3  # of the duals that show that hulls touch
# The loop aims at this part of the tolerance, as the returned params are rounded once more; below
# the other it ends where a step gains nothing.
AIM, ENOUGH = 0.25, 0.9
# With so many entries of x a fit of float64 aims at this gap in float32, or at that it is asked
# for, and goes on from there if that comes as near as so many times the gap.
SINGLE_ENTRIES, SINGLE_GAP, NEAR = 200_000, 1e-5, 10


class Outcome(NamedTuple):
    """The best pair of a run.

    touching: whether the hulls of the classes touch: no plane separates them
    """

    bound: Bound
    steps: jax.Array
    touching: jax.Array


# With a step carried beside the point a turn begins with ten copies, of which the runtime of a CPU
# gives some to a second thread, and waking it takes as long as half the turn.
class State(NamedTuple):
    """A point strictly inside.

    theta: `(p,)`; margins, dual, slack, excess: `(n,)`, m, a, z, xi
    mean: `()`, of the products that are to be 0, the least so far
    """

    theta: jax.Array
    margins: jax.Array
    dual: jax.Array
    slack: jax.Array
    excess: jax.Array
    mean: jax.Array
    best: Bound
    steps: jax.Array
    idle: jax.Array
    done: jax.Array


def solve(
    kind: Kind,
    problem: Problem,
    tol: jax.Array,
    cap: jax.Array,
    begin: State | None = None,
    anew: jax.Array | bool = True,
) -> Outcome:
    """Minimise, until the relative gap is at most `tol` or cannot fall.

    Args:
      kind: static.
      problem: rows with y in {0, 1} and weights; a hard margin counts rows with weight alike.
      tol: bound on the relative duality gap.
      cap: on the steps.
      begin: where the hinge begins, if not at `near_least_squares`; not with more features than
        rows.
      anew: whether the hinge begins at `start` where that has come to nothing.

    Returns:
      The best pair found.
    """
    n, d = problem.rows.x.shape
    if n < d:
        reduced, back = _frame.in_row_space(problem)
        outcome = _solved(kind, _task_of(kind, reduced), tol, cap, begin, anew)
        task, theta = _task_of(kind, problem), back(outcome.bound.theta[None])[0]
    else:
        task = _task_of(kind, problem)
        outcome = _solved(kind, task, tol, cap, begin, anew)
        theta = outcome.bound.theta
    # In float64 rounding is far below what is asked for by default.
    if kind is Kind.HINGE and theta.dtype == jnp.float32:
        theta = _gap.lengthened(task, theta, outcome.bound.dual)
    return outcome._replace(bound=outcome.bound._replace(theta=theta))


def _solved(kind, task, tol, cap, begin, anew) -> Outcome:
    if kind is Kind.HINGE:
        run = _tried(task, tol, cap, near_least_squares(task) if begin is None else begin, anew)
    else:
        run = _run(kind, task, tol, start(kind, task), cap)
    best, touching = run.best, jnp.bool_(False)
    if kind is Kind.HARD:
        best, touching = _closed(task, best)
    return Outcome(best, run.steps, touching)


def begins_in_single(kind: Kind, problem: Problem) -> bool:
    """Whether it is of float64, and large enough for first steps in float32 to pay."""
    (n, d), framed = problem.rows.x.shape, problem.rows.framed
    if kind is Kind.HARD or framed is None or n < d or not _platform.on_cpu():
        return False
    return framed.dtype == jnp.float64 and framed.size >= SINGLE_ENTRIES


def led(
    kind: Kind, problem: Problem, tol: jax.Array, cap: jax.Array
) -> tuple[State, State, jax.Array]:
    """Where to begin: by way of float32, on one's own, and whether the former is near an optimum.

    In float32 the rounding of that gap is hardly felt. Where it does not come near, nothing is led.
    """
    task = _task_of(kind, problem)
    narrow = functools.partial(jax.tree.map, _linalg.narrow)
    small, aim = narrow(task), _linalg.narrow(jnp.maximum(AIM * tol, SINGLE_GAP))
    first, wide = near_least_squares(small), start(kind, task)
    found = _run(kind, small, aim / AIM, first, cap)
    # The margins of `alone` are those of float32: its first turn is no proof, see `_gap.proved`.
    alone, run = (
        jax.tree.map(lambda a, like: a.astype(like.dtype), state, wide) for state in (first, found)
    )
    there = alone._replace(
        theta=run.theta,
        margins=_frame.products(problem, run.theta[:, None])[:, 0] * task.sign,
        dual=run.dual,
        slack=run.slack,
        excess=run.excess,
        best=alone.best._replace(theta=run.best.theta, dual=run.best.dual),
        steps=run.steps,
    )
    near = (found.best.gap <= NEAR * aim) & jnp.all(jnp.isfinite(there.margins))
    return jax.tree.map(functools.partial(jnp.where, near), there, alone), alone, near


def _task_of(kind: Kind, problem: Problem) -> Task:
    return _gap.task_of(kind, problem)._replace(columns=_passes.held_columns(problem))


def _run(kind: Kind, task: Task, tol: jax.Array, begin: State, cap: jax.Array) -> State:
    return jax.lax.while_loop(
        lambda state: ~state.done & (state.steps < cap),
        *_loops.steady(functools.partial(_advance, kind, task, tol), begin),
    )


def _tried(task, tol, cap, begin: State, anew: jax.Array | bool) -> State:
    """The hinge from `begin`, and if that comes to nothing perhaps `anew` from `start`.

    The better of both, and the steps of the last.
    """
    plain = start(Kind.HINGE, task)

    def attempt(carry):
        state, turn = carry
        first = jax.tree.map(functools.partial(jnp.where, turn == 0), state, plain)
        run = _run(Kind.HINGE, task, tol, first, cap)
        return run._replace(best=_better(Kind.HINGE, state.best, run.best)[0]), turn + 1

    def unfinished(carry):
        state, turn = carry
        missed = ~(state.best.gap <= tol) & (state.steps < cap)
        return (turn == 0) | ((turn == 1) & anew & missed)

    return jax.lax.while_loop(unfinished, *_loops.steady(attempt, (begin, jnp.int32(0))))[0]


def start(kind: Kind, task: Task) -> State:
    """Inside, with a plane of no weights."""
    n, p = task.sign.size, task.penalty.size
    dtype = task.weight.dtype
    nothing, ones, zeros = (jnp.full(m, v, dtype) for m, v in ((p, 0), (n, 1), (n, 0)))
    infinite = jnp.full((), jnp.inf, dtype)
    dual = ones
    if kind is not Kind.HARD:
        above, below, own = _class_weights(task)
        dual = jnp.where(task.weight > 0, jnp.minimum(above, below) / own / 2, 0.5)
    return State(
        theta=nothing,
        margins=zeros,
        dual=dual,
        slack=ones,
        excess=2 * ones if kind is Kind.HINGE else zeros,
        mean=infinite,
        best=Bound(nothing, dual, infinite, infinite, -infinite, infinite, infinite),
        steps=jnp.int32(-1),  # the first turn judges the start
        idle=jnp.int32(0),
        done=jnp.bool_(False),
    )


def _class_weights(task: Task) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The weight of each class, and of a row's own, `(n,)`."""
    positive = task.sign > 0
    above = jnp.sum(jnp.where(positive, task.weight, 0))
    below = jnp.sum(jnp.where(positive, 0, task.weight))
    own = jnp.where(positive, above, below)
    return above, below, jnp.where(own > 0, own, 1)


def near_least_squares(task: Task) -> State:
    """Inside, with a plane that is soon had, some steps nearer to an optimum of the hinge.

    It is that whose margins are nearest to 1, the classes weighing alike, times what costs the
    hinge least. Its duals, z and xi have the same products in every row.
    """
    *_, own = _class_weights(task)
    weight = task.weight / own
    square, (pulled,) = _gap.square_and_sums(task, weight, (weight * task.sign)[None])
    alone = jnp.where(task.problem.spread > 0, task.penalty, 1)
    eps = float(jnp.finfo(weight.dtype).eps)
    whole = _linalg.factor(square + jnp.diag(alone), RIDGE_ULPS * eps * pulled.size)
    theta = _linalg.solve(whole, pulled)
    theta = jnp.where(jnp.all(jnp.isfinite(theta)), theta, 0)
    margins = _gap.products(task, theta[None])[0] * task.sign
    margins = jnp.where(task.weight > 0, margins, 0)
    times = jnp.asarray(MULTIPLES, theta.dtype)
    costs = dot(jnp.maximum(1 - times[:, None] * margins[None, :], 0), task.weight)
    costs = costs + times**2 * (jnp.sum(task.penalty * theta**2) / 2)
    best = times[jnp.argmin(costs)]
    theta, margins = best * theta, best * margins
    far = margins - 1
    mean = jnp.maximum(FIRST_MEAN * _linalg.inner(weight, jnp.abs(far)) / 2, LEAST_MEAN)
    # With these two z and xi are right for any mean, and nothing cancels.
    large = (jnp.sqrt(far**2 + 4 * mean**2) + jnp.abs(far)) / 2
    small = mean**2 / large
    slack = mean + jnp.where(far > 0, large, small)
    excess = mean + jnp.where(far > 0, small, large)
    dual, slack, excess = _inside(Kind.HINGE, mean / slack, slack, excess)
    return start(Kind.HINGE, task)._replace(
        theta=theta, margins=margins, dual=dual, slack=slack, excess=excess
    )


def _inside(kind: Kind, *point: jax.Array) -> tuple[jax.Array, ...]:
    """a, z and xi, kept inside where rounding has put them on the boundary."""
    tiny, eps = jnp.finfo(point[0].dtype).tiny, jnp.finfo(point[0].dtype).eps
    a, z, xi = (jnp.maximum(v, tiny) for v in point)
    return jnp.minimum(a, 1 - eps / 2) if kind is Kind.HINGE else a, z, xi


def _advance(kind: Kind, task: Task, tol: jax.Array, state: State) -> State:
    """Judge the point, and step from it."""
    c, live = task.weight, task.weight > 0
    eps = jnp.finfo(c.dtype).eps
    theta, m, a, z, xi = state.theta, state.margins, state.dual, state.slack, state.excess
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
        return (task.sign * curve * jnp.where(live, rho, 0))[None]

    # Predictor: the products' target is 0.
    rho = 1 - m if kind is not Kind.SQUARED else 1 - m - own
    pulls = jnp.concatenate([_gap.of_classes(task, a), steering(rho)])
    square, pulled = _gap.square_and_sums(task, curve, pulls)
    best, better = _better(kind, state.best, _gap.bound(kind, task, theta, m, a, pulled[:2]))
    alone = jnp.where(task.problem.spread > 0, task.penalty, 1)
    hess = square + jnp.diag(alone)
    whole = _linalg.factor(hess, RIDGE_ULPS * float(eps) * theta.size)
    ground = -(task.penalty * theta - jnp.sum(pulled[:2], axis=0))

    def solution(force):
        first = _linalg.solve(whole, force)
        return first + _linalg.solve(whole, force - dot(hess, first))

    def moves(moved, dm, r_a, r_b, rho):
        """The step of every part of the state, and how far it may go."""
        da = (rho - dm) / spread
        dz = -(r_a + z * da) / a
        dxi = (xi * da - r_b) / rest if kind is Kind.HINGE else jnp.zeros_like(da)
        pairs = [(a, da), (z, dz)]
        if kind is Kind.HINGE:
            pairs += [(rest, -da), (xi, dxi)]
        limits = [jnp.where(live & (d < 0), -v / jnp.where(d < 0, d, 1), jnp.inf) for v, d in pairs]
        reach = jnp.min(functools.reduce(jnp.minimum, limits), initial=jnp.inf)
        return (moved, dm, da, dz, dxi), reach

    def products_mean(a, z, xi):
        inside = a * z + (1 - a) * xi if kind is Kind.HINGE else a * z
        return jnp.sum(jnp.where(live, c * inside, 0)) / (2 if kind is Kind.HINGE else 1)

    moved = _linalg.solve(whole, ground + pulled[2])  # it is only looked at where that leads
    m, dm = _gap.products(task, jnp.stack([theta, moved])) * task.sign[None, :]
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
    (force,) = _gap.sums(task, steering(rho))
    moved = solution(ground + force)
    dm = _gap.products(task, moved[None])[0] * task.sign
    step, reach = moves(moved, dm, r_a, r_b, rho)
    reach = jnp.minimum(1, REACH * reach)
    sound = jnp.all(jnp.isfinite(step[0]))
    falling = (now <= FALLING * state.mean) & (now > eps * best.primal)
    idle = jnp.where(better | falling, 0, state.idle + 1)
    patience = jnp.where(best.gap < jnp.sqrt(eps), PATIENCE, ABOVE)
    done = ~sound | (best.gap <= AIM * tol) | (idle >= patience) | (reach < LEAST_STEP)
    done |= ~better & (best.gap <= ENOUGH * tol)
    if kind is Kind.HARD:
        done |= (best.low <= 0) & (best.apart <= task.touch)
    m, a, z, xi = (
        jnp.where(live, held + reach * moved, held)
        for held, moved in zip((m, a, z, xi), step[1:], strict=True)
    )
    a, z, xi = _inside(kind, a, z, xi)
    return State(
        theta=theta + reach * step[0],
        margins=m,
        dual=a,
        slack=z,
        excess=xi,
        mean=jnp.minimum(now, state.mean),
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
        apart=jnp.where(dual, new.apart, best.apart),
    )
    return found, better


def _closed(task: Task, best: Bound) -> tuple[Bound, jax.Array]:
    """The duals moved by as little as closes the distance, where rows are not separated.

    lambda - W A (A' W A)^-1 A' lambda, W = diag(lambda^2), keeps them positive.
    """

    def polish(_, dual):
        weight = task.weight * dual
        share = weight / jnp.maximum(jnp.sum(weight), jnp.finfo(weight.dtype).tiny)
        (pull,) = _gap.sums(task, (share * task.sign)[None])
        square = _gap.square(task, jnp.where(task.weight > 0, share**2, 0))
        alone = jnp.where(task.problem.spread > 0, 0, 1).astype(weight.dtype)
        eps = float(jnp.finfo(weight.dtype).eps)
        whole = _linalg.factor(square + jnp.diag(alone), RIDGE_ULPS * eps * pull.size)
        moved = task.sign * _frame.products(task.problem, _linalg.solve(whole, pull)[:, None])[:, 0]
        return jnp.where(task.weight > 0, jnp.maximum(share - share**2 * moved, 0), 0)

    def closed(dual):
        new = jax.lax.fori_loop(0, POLISHES, polish, dual)
        scaled = new * jnp.maximum(jnp.sum(task.weight > 0), 1).astype(new.dtype)
        found = _gap.bound(
            Kind.HARD, task, best.theta, jnp.ones_like(new), scaled, _gap.pulls(task, scaled)
        )
        better = found.apart < best.apart
        return jnp.where(better, scaled, dual), jnp.where(better, found.apart, best.apart)

    dual, apart = _linalg.when(~(best.low > 0), closed, (best.dual, best.apart), (best.dual,))
    touching = (best.low <= 0) & (apart <= task.touch)
    return best._replace(dual=dual, apart=apart), touching

"""Newton's method for a smooth fit, which carries its own proof: steps, and what they came to.

Shapes as in `_passes`.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _loops, _traced
from jaxlin._smooth import _iterate, _light, _passes, _proof, _scoring
from jaxlin._smooth._frame import Problem
from jaxlin._smooth._passes import Point
from jaxlin._smooth._record import Spec

# A finite optimum is proved below 1; the rest is for rounding.
CERTIFICATE = 0.1
# Scores of this size are certain of their class; a start so far is poor unless optimal or chosen.
FAR = 10.0
# Trials after which a start that is far from an optimum still is given up.
LOST = 50
# An eigenvalue below this many units of p * eps may be rounding: the columns are looked at.
RANK_ULPS = 16
# Columns of a squared pivot below this are nearly dependent: how such a run ends, rounding decides.
PLAIN_PIVOT = 1e-3
# The bound of the leverage is seldom so many times the least that it can be.
CORRELATED = 10.0
# Points in a row below tol, after which a loop ends that waits for a plain proof.
PATIENCE = 3


class Outcome(NamedTuple):
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


class Run(NamedTuple):
    """Newton's loop: the best point so far, and the step from it to try next.

    whole: the factor of the Hessian there, damped
    passed: how many points in a row have been below tol
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


def undoubted(spec, problem, start, tol, cap, before) -> Outcome:
    """`solve` from a start of our own choice: whatever is found is no worse."""
    unknown = jnp.full((), jnp.inf, start.dtype)
    return solve(spec, problem, start, unknown, tol, cap, before, doubted=False)


@_traced.once("spec", "doubted")
def solve(spec, problem, start, origin, tol, cap, before, *, doubted=True) -> Outcome:
    """Damped Newton steps until the optimum is proved, or shown to be at infinity."""
    if spec.polished:
        run = descend(spec, problem, start, origin, tol, cap, before, doubted=doubted)
        return prove(spec, problem, run, tol)
    columns = _passes.held_columns(problem)

    def attempt(carry):
        run, _, polished, _ = carry
        step = functools.partial(advance, spec, doubted, problem, columns, tol, before, polished)
        run = _run_on(step, run, cap)
        outcome = prove(spec, problem, run, tol, polished)
        more = ~polished & is_open(outcome, tol)
        return run._replace(done=run.done & ~more), outcome, jnp.bool_(True), more

    first, never = begin(problem, start, origin, before), jnp.bool_(False)
    nothing = jax.eval_shape(functools.partial(prove, spec, problem), first, tol, never)
    init = first, _loops.filled(nothing, 0), never, jnp.bool_(True)
    return jax.lax.while_loop(lambda carry: carry[3], *_loops.steady(attempt, init))[1]


def is_open(outcome: Outcome, tol: jax.Array) -> jax.Array:
    """Whether a run ended because the residual passed, and the proof asks for more steps."""
    passed = outcome.point.residual <= tol
    return passed & ~(outcome.certified | outcome.quasi | outcome.separated)


def descend(spec, problem, start, origin, tol, cap, before, *, doubted) -> Run:
    """The steps without the proof.

    The first trial is the start, taken if it is no worse than 0, where J is `origin`; a `doubted`
    one, which is not our own choice, is given up for 0 where it leads nowhere. After the residual
    has passed, one more step is tried if it is to be `polished`: the method converges
    quadratically, so it ends at the floor of the dtype. `before` are steps that led to the start,
    and count.
    """
    columns, polished = _passes.held_columns(problem), jnp.bool_(spec.polished)
    step = functools.partial(advance, spec, doubted, problem, columns, tol, before, polished)
    return _run_on(step, begin(problem, start, origin, before), cap)


def _run_on(step, run: Run, cap: jax.Array) -> Run:
    run = jax.lax.while_loop(lambda run: unfinished(run, cap), *_loops.steady(step, run))
    return run._replace(trials=jnp.minimum(run.trials, cap + 1))


def begin(problem: Problem, start: jax.Array, origin: jax.Array, before: jax.Array) -> Run:
    """Before the first trial."""
    never = jnp.bool_(False)
    nothing = jnp.zeros((start.size, start.size), start.dtype)
    return Run(
        point=_light.origin(problem, origin),
        hess=nothing,
        whole=_linalg.Factor(nothing, jnp.zeros(start.size, start.dtype), jnp.zeros_like(origin)),
        step=start,
        damping=jnp.full((), _iterate.FIRST_DAMPING, start.dtype),
        steps=before,
        trials=before,
        passed=jnp.int32(0),
        done=never,
        quasi=never,
    )


def unfinished(run: Run, cap: jax.Array) -> jax.Array:
    # A start that is refused leaves the origin unmeasured: one trial more than there are steps.
    unknown = jnp.isinf(run.point.residual).astype(jnp.int32)
    return ~run.done & (run.trials <= cap + unknown)


def advance(spec, doubted, problem, columns, tol, before, polished, run: Run) -> Run:
    """One trial: a pass over the rows."""
    point, step = run.point, run.step
    flat = step.reshape(-1)
    # In the tail a step is the direction to infinity up to the larger of exp(-score) and
    # eps exp(score): at best the root of eps.
    tail = 4 * jnp.sqrt(jnp.finfo(flat.dtype).eps)
    trial, hess = _passes.measure(spec, problem, point.theta + step, columns)
    curvature = _linalg.form(run.hess, flat)
    # What is known of J at 0 is rounded otherwise than a pass there.
    there = jnp.isinf(point.residual) & ~jnp.any(point.theta + step != 0)
    verdict = _iterate.judge(
        (jnp.where(there, trial.value, point.value), point.residual),
        (trial.value, trial.residual),
        -jnp.sum(point.grad * step) - curvature / 2,
        run.damping,
        trial.noise,
    )
    held = _linalg.form(hess, flat) >= _iterate.CURVATURE_HELD * curvature
    kept, accept = (point, run.hess), verdict.accept
    if doubted:
        # Far out the loss is a polyhedron, on which Newton's method zigzags: no place to start, but
        # where J is much less than at 0.
        first, late = run.trials == before, run.trials == before + LOST
        poor = late | (trial.value > point.value / 2)
        asked = (first | late) & poor & (trial.residual > jnp.sqrt(tol))

        def distant(problem, theta):
            return _scoring.extremes(spec, problem, theta)[1] > FAR

        wild = _linalg.when(asked, distant, jnp.bool_(False), (problem, trial.theta))
        lost = wild & late
        accept &= ~wild
        infinite = jnp.full_like(point.value, jnp.inf)
        nowhere = (_light.origin(problem, infinite), jnp.zeros_like(hess))
        kept = where(lost, nowhere, kept)
        damping = jnp.where(lost, _iterate.FIRST_DAMPING, verdict.damping)
        verdict = verdict._replace(damping=damping, stalled=verdict.stalled & ~lost)
    # The barrier keeps the compiler from computing the verdict anew for every field.
    accept = jax.lax.optimization_barrier(accept)
    point, hess = where(accept, (trial, hess), kept)
    small = point.residual <= tol
    following, whole = _iterate.newton_step(hess, point.grad.reshape(-1), verdict.damping)
    # Nearer to infinity than that, rounding hides the direction again.
    far = point.residual <= jnp.maximum(tol, 4 * tail)
    if spec.penalised:
        quasi = jnp.bool_(False)  # no direction leads to infinity
    else:

        def unopposed(problem, step):
            # A direction that no score sees leads nowhere, such as 0 where all is penalised.
            free = jnp.where(problem.free[None, :], step, 0)
            drop, reach = _scoring.extremes(spec, problem, free)
            return (reach > 0) & (drop >= -tail * reach)

        quasi = _linalg.when(far & ~held, unopposed, jnp.bool_(False), (problem, step))
        if spec.complete:
            recedes = functools.partial(_proof.recedes, spec)
            quasi = _linalg.when(quasi, recedes, jnp.bool_(False), (problem, point, step, tail))
    passed = jnp.where(small & held, run.passed + 1, 0)
    enough = passed >= 1
    if doubted and not spec.polished:
        # Begun near the optimum, it may pass before the proof does, which a step more cures.
        slope = jnp.sum(point.grad.reshape(-1) * following)
        least = _proof.least_leverage(problem, whole)
        plain = slope >= -((CERTIFICATE / CORRELATED / least) ** 2)
        enough = enough & plain | (passed >= PATIENCE)
    enough = jnp.where(polished, passed >= 2, enough)
    done = verdict.stalled | enough | quasi | (point.short == 0)
    done |= point.residual == 0
    following = following.reshape(step.shape)
    if spec.loss.log_odds and problem.rows.offset is None:
        # Of columns nearly dependent the step is what damping makes of it.
        regular = there & (whole.pivot >= PLAIN_PIVOT)
        following = jnp.where(regular, _lengthened(problem, point.grad, following), following)
    return Run(
        point=point,
        hess=hess,
        whole=whole,
        step=following,
        damping=verdict.damping,
        # The start itself is no step, nor is 0 where that was refused.
        steps=run.steps + (accept & (run.trials > before) & ~there).astype(jnp.int32),
        trials=run.trials + 1,
        passed=passed,
        done=done,
        quasi=quasi,
    )


def _lengthened(problem: Problem, grad: jax.Array, step: jax.Array) -> jax.Array:
    """A Newton step `(1, p)` of log odds from where all are 0, about as long as to the optimum.

    It is a regression of the labels -1 and 1, whose mean square it brings down by a share R^2, the
    fall of J that Newton's method expects, twice. For Gaussian classes of one covariance it has the
    optimum's direction, and 1 - R^2 of its length (Haggstrom 1983, "Logistic regression and
    discriminant analysis by ordinary least squares"). Under a penalty the slope of the loss along
    the step is taken for a parabola, of the right slope and curvature at 0 and of 0 where a loss
    alone would have its optimum; that of the penalty is linear. The result is at most twice the
    step, so that J is no more than at 0: a row's curvature is largest there.
    """
    gain = -jnp.sum(grad * step)
    part = 1 - jnp.sum(problem.penalty[None, :] * step**2) / jnp.where(gain > 0, gain, 1)
    share = jnp.minimum(gain, part / 2)
    return 2 / (1 + jnp.sqrt(jnp.maximum(1 - 4 * share * (part - share), 0))) * step


def prove(
    spec: Spec, problem: Problem, run: Run, tol: jax.Array, polished: jax.Array | bool = True
) -> Outcome:
    """The certificate at the last point, and, of many optima, the one of least norm.

    A Hessian that is nearly singular is looked at in a run that is `polished`: in any other it may
    be no more than damped, which a step more cures.
    """
    point = run.point
    separated = point.short == 0
    root = _linalg.inverse_root(run.whole)
    sound = is_sound(run, root)
    unsettled = ~sound & ~separated & (point.residual <= tol)
    proof = _proof.Proof(
        root=root,
        decrement=decrement_of(run),
        sound=sound,
        excess=jnp.zeros_like(point.theta),
        noise=jnp.zeros_like(point.noise),
        deficient=jnp.bool_(False),
    )
    if spec.complete:
        prove = _proof.undamped if spec.penalised else _proof.on_range
        prove = functools.partial(prove, least=least_eigenvalue(run.step))
        proof = _linalg.when(unsettled & polished, prove, proof, (problem, point, run.hess))
    certified = is_certified(spec, problem, proof.root, proof.decrement) & proof.sound
    point = point._replace(theta=point.theta - proof.excess, noise=point.noise + proof.noise)
    deficient = proof.deficient | jnp.any(problem.idle)
    return Outcome(
        point=point,
        steps=run.steps,
        trials=run.trials - 1,
        certified=certified,
        deficient=deficient,
        separated=separated,
        quasi=run.quasi,
        unsettled=jnp.bool_(False) if spec.complete else unsettled | run.quasi,
    )


def is_sound(run: Run, root: jax.Array) -> jax.Array:
    """Whether neither rounding nor damping can be felt in the loop's own factor, of this root."""
    damped = run.damping * _linalg.largest(jnp.abs(run.point.grad)) * jnp.max(run.whole.scale**2)
    least = least_eigenvalue(run.step) + RANK_ULPS * damped
    return _linalg.least_eigenvalue(run.whole, root) >= least


def least_eigenvalue(theta: jax.Array) -> float:
    """Below it an eigenvalue of a Hessian there may be rounding."""
    return RANK_ULPS * theta.size * float(jnp.finfo(theta.dtype).eps)


def decrement_of(run: Run) -> jax.Array:
    """sqrt(g' H^-1 g) where a run ended."""
    return jnp.sqrt(jnp.maximum(-jnp.sum(run.point.grad * run.step), 0))


def is_certified(spec: Spec, problem: Problem, root: jax.Array, decrement: jax.Array) -> jax.Array:
    """Whether a finite optimum is proved to be near, see `_proof`; `root` R is of R'R = H^-1."""

    def looked_at(problem, root, decrement):
        return decrement * _proof.leverage(spec, problem, root) <= CERTIFICATE

    # Most optima are met so closely that no pass over the rows is needed to see it.
    near = decrement * _proof.leverage_bound(problem, root) <= CERTIFICATE
    return _linalg.when(~near, looked_at, near, (problem, root, decrement))


def where(condition: jax.Array, this: Any, that: Any) -> Any:
    """`this` where the condition `()` holds, else `that`, leaf by leaf."""
    return jax.tree.map(functools.partial(jnp.where, condition), this, that)

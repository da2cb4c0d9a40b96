"""Smooth fits that are found without a Hessian, and what proves them.

Where rows are many a Hessian costs as much as many gradients. The optimum is then found without:
from that of a sample by BFGS, by products with the Hessian, by L-BFGS, or by the user's solver. A
penalty on every weight proves that it is the one optimum; else the Hessian of some of the rows may,
or Newton's method goes on from there. Shapes as in `_passes`.
"""

import functools
import math

import jax
import jax.numpy as jnp

from jaxlin import _linalg, solvers
from jaxlin._base import _checks, _loops
from jaxlin._smooth import (
    _iterate,
    _light,
    _newton,
    _passes,
    _plan,
    _proof,
    _quasi,
    _sampled,
    _truncated,
)
from jaxlin._smooth._frame import Problem
from jaxlin._smooth._plan import Method, Plan, Units
from jaxlin._smooth._record import Spec

# Steps of L-BFGS that know the diagonal of the Hessian alone: about twice what such a fit needs.
SIMPLE_STEPS = 24
# Where no penalty holds the params the default goes on to this part of tol, towards the floor of
# the dtype, which Newton's method reaches by a step more.
POLISHED = 1 / 16


def solve(
    spec: Spec,
    plan: Plan,
    problem: Problem,
    start: jax.Array,
    tol: jax.Array,
    cap: jax.Array,
    last: jax.Array,
    doubted: bool,
) -> _newton.Outcome:
    """Run the solver, then prove its point; with a Hessian, if it takes one and one fits.

    Args:
      spec: the loss and the static choices.
      plan: of a method that is not Newton's.
      problem: of stopped gradients.
      start: `(m, p)`.
      tol: bound on the residual.
      cap: on the solver's steps.
      last: on all steps, those of the proof included.
      doubted: whether 0 may be a better start.
    """
    most = jnp.minimum(cap, _plan.DOUBTFUL_STEPS) if plan.doubtful else cap
    outcome = _found(spec, plan, problem, start, tol, most, doubted)
    if not plan.finished:
        return outcome
    if plan.doubtful:
        outcome = _proved_by_part(spec, problem, outcome, tol)
    if not spec.complete:
        return outcome._replace(unsettled=is_open(outcome, tol) & (outcome.trials < last))
    # Far out in the tail of separable data rounding hides the direction that Newton's method shows
    # on the way there; hence twice: from the solver's point, and if that proves nothing, from afar.
    starts, origin = jnp.stack([outcome.point.theta, start]), _light.value_at_origin(spec, problem)

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


def _found(spec, plan, problem, start, tol, cap, doubted) -> _newton.Outcome:
    """Where the solver ends, and what one pass says of it."""
    # A solver's last pass is not the one that is judged, and rounds otherwise.
    further = spec.solver is None and not spec.penalised and (spec.polished or plan.doubtful)
    if plan.doubtful:
        # Steps are cheaper than the proof by all rows, which that by some spares: at a tol of 1e-5
        # softmax of 100,000 x 60, 8 classes, took 4.5 times as long as at the default's.
        tol = jnp.minimum(tol, _checks.tolerance(None, start.dtype))
    below = (POLISHED if further else 0.9) * tol
    # Here it is the one, where all weights are penalised.
    enough = tol if spec.penalised else below
    if plan.method is Method.SAMPLED:
        theta, curved = _sampled.optimum(_unasked(spec), problem)
        if not spec.penalised:
            # A sample that is nearly separated leaves all to Newton's method.
            told = jnp.any(theta != 0) | ~jnp.any(problem.free[: problem.centre.size])
            cap = jnp.where(told, cap, 0)
        found = _quasi.descend(_unasked(spec), problem, theta, curved, enough, cap)
        return _outcome(problem, *found)
    if plan.method is Method.NEWTON_CG:
        point, steps, spent = _truncated.descend(spec, problem, start, enough, cap, doubted=doubted)
        # Of fewer coordinates Newton's method soon tells.
        if not spec.penalised and start.size > _plan.NEWTON_LIMIT:
            point = _light.light(spec, problem, point.theta)
        return _outcome(problem, point, steps)._replace(trials=jnp.where(spent, cap, steps))
    if doubted:
        value, origin = _light.objective(spec), _light.value_at_origin(spec, problem)
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
            _light.objective(spec),
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

    if plan.units is Units.DIAGONAL_FIRST:
        theta, steps = _simply(spec, problem, start, run, cap)
    else:
        theta, steps, _ = run(start, cap, **units(spec, plan, problem))
    return without_hessian(spec, problem, theta, steps)


def _simply(spec, problem, start, run, cap):
    """`run` in units of the Hessian's diagonal where columns look independent, for some steps.

    Where they do not, or it has not arrived, in units of a sample's Hessian.
    """

    def of_sample(problem):
        return jnp.linalg.cholesky(curvature(spec, problem))

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


def without_hessian(spec, problem, theta, steps) -> _newton.Outcome:
    """What one pass says of a point that another solver found."""
    return _outcome(problem, _light.light(spec, problem, theta), steps)


def _outcome(problem: Problem, point: _passes.Point, steps: jax.Array) -> _newton.Outcome:
    """What is proved of a point whose Hessian is not known."""
    never = jnp.bool_(False)
    proved = is_coercive(problem)
    return _newton.Outcome(point, steps, steps, proved, never, point.short == 0, never, never)


def is_coercive(problem: Problem) -> jax.Array:
    """Whether a penalty on every weight proves one optimum: two classes hold the bias."""
    return ~jnp.any(problem.free[: problem.centre.size]) & ~jnp.any(problem.idle)


def is_open(outcome: _newton.Outcome, tol: jax.Array) -> jax.Array:
    """Whether nothing is proved yet."""
    passed = outcome.certified & (outcome.point.residual <= tol)
    return ~(passed | outcome.separated | outcome.quasi) & jnp.isfinite(outcome.point.value)


def units(spec: Spec, plan: Plan, problem: Problem) -> dict[str, jax.Array]:
    """Those of a solver that starts at 0: a matrix `(p, p)`, or the root of the diagonal."""
    if plan.units is Units.MATRIX:
        return {"precondition": curvature(spec, problem)}
    return {"lower": jnp.sqrt(_sampled.diagonal(spec, problem))}


def curvature(spec: Spec, problem: Problem) -> jax.Array:
    """About the Hessian where every score is 0, `(p, p)`, the same for each degree of freedom."""
    plain = _sampled.without_offset(problem)
    origin = jnp.zeros((problem.used.size, problem.spread.size), problem.spread.dtype)
    return _sampled.curvature(spec, plain, origin, _sampled.FEW_ROWS)

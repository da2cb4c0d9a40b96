"""The plane of large margin in the user's units, by the method that suits its loss, and its proof.

The hinge and the hard margin are found by the interior point method of `_interior`. The squared
hinge is smooth, its gradient piecewise linear: Newton's method ends after a few steps on the piece
that holds the optimum (Keerthi and DeCoste, 2005, "A modified finite Newton method for fast
solution of large scale linear SVMs"); where it does not, the interior point method does. Of many
rows a sample's optimum and curvature lead there without another Hessian, as in `_quasi`, but where
that is slow. Its optimum has a derivative.

Shapes: `n` rows, `d` features; theta is `(1, p)` in the frame of `_frame`.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlin import _linalg, losses
from jaxlin._base import _batched, _loops
from jaxlin._data import _fold
from jaxlin._linalg import _implicit, dot
from jaxlin._margin import _gap, _interior
from jaxlin._margin._gap import Bound, Kind
from jaxlin._smooth import _frame, _light, _newton, _passes, _plan, _quasi, _record, _sampled
from jaxlin._smooth._frame import Problem
from jaxlin.types import Linear

# Of more entries of x the optimum of a sample is worth what is compiled for it; so many steps from
# there tell whether they are worth their while, and no more are made without Hessians.
MANY_ENTRIES, PATIENCE, MOST_PASSES = 1_000_000, 5, 24


class Plane(NamedTuple):
    """What was found.

    params: of one score
    bound: what is proved of them
    touching: whether no plane separates the classes
    unsettled: whether only the complete program can tell
    """

    params: Linear
    bound: Bound
    steps: jax.Array
    touching: jax.Array
    unsettled: jax.Array


def solve(
    kind: Kind, bias: bool, complete: bool, problem: Problem, tol: jax.Array, cap: jax.Array
) -> Plane:
    """The plane of largest margin.

    Args:
      kind: static.
      bias: static.
      complete: static, whether the program holds the interior point method for the squared hinge.
      problem: rows of y in {0, 1}, of both classes, and weights; a hard margin counts rows alike.
      tol: bound on the relative duality gap.
      cap: on the steps.
    """
    never = jnp.bool_(False)
    if kind is Kind.SQUARED:
        return _of_squares(bias, complete, problem, tol, cap)
    problem, grown = _alike(problem) if kind is Kind.HARD else (problem, 1)
    problem = _frame.held(problem)
    # The objective of a hard margin may be scaled, as columns of about unit variance want it.
    root = jax.lax.rsqrt(problem.penalty) / jnp.maximum(problem.unit, 1)
    least = jnp.min(jnp.where(problem.penalty > 0, root, jnp.inf), initial=jnp.inf) ** 2
    scale = jnp.where((least > 0) & (least < jnp.inf) & (kind is Kind.HARD), least, 1)
    scaled = problem._replace(penalty=problem.penalty * scale)

    def plane_from(begin: _interior.State | None, anew: jax.Array | bool) -> Plane:
        bound, steps, touching = _interior.solve(kind, scaled, tol, cap, begin, anew)
        params, bound = _returned(kind, bias, problem, bound.theta, tol, bound.dual)
        bound = bound._replace(primal=bound.primal * grown * grown)
        return Plane(params, bound, steps, touching, never)

    if not _interior.begins_in_single(kind, scaled):
        return plane_from(None, True)
    led, alone, near = _interior.led(kind, scaled, tol, cap)

    # From where float32 leads; and if that proves too little, as if it had not been. As a loop, in
    # which the method is compiled once.
    def attempt(carry):
        _, turn = carry
        begin = jax.tree.map(functools.partial(jnp.where, turn == 0), led, alone)
        return plane_from(begin, (turn > 0) | ~near), turn + 1

    def unfinished(carry):
        plane, turn = carry
        return (turn == 0) | ((turn == 1) & near & ~(plane.bound.gap <= tol))

    nothing = _loops.filled(jax.eval_shape(plane_from, alone, near), 0)
    return jax.lax.while_loop(unfinished, *_loops.steady(attempt, (nothing, jnp.int32(0))))[0]


def _alike(problem: Problem) -> tuple[Problem, jax.Array]:
    """A hard margin whose weights are measured in a unit near them, so that none leaves the range.

    Returns:
      The problem, and that unit.
    """
    d, factor = problem.centre.size, _frame.unscaled(problem)
    unit = jnp.max(factor, initial=0)
    unit = jnp.where(unit > 0, unit, 1)
    penalty = problem.penalty.at[:d].set((factor / unit) ** 2)
    return problem._replace(penalty=penalty), unit


def _returned(kind, bias, problem, theta, tol, dual=None) -> tuple[Linear, Bound]:
    """The params, and what is proved of them as they are, the rounding of their bias included."""
    params, (theta,), (slack,) = _frame.settled(problem, theta[None], bias)
    if dual is None:
        dual = _gap.of_squares(problem, theta)
    return params, _gap.proved(kind, problem, params, theta, dual, slack, tol)


def _of_squares(bias, complete, problem, tol, cap) -> Plane:
    """The squared hinge: of many rows from the optimum of a sample, in lanes from 0."""
    by_newton: Callable[..., Plane] = functools.partial(_by_newton, bias, complete)
    nothing = jnp.zeros((1, problem.spread.size), problem.spread.dtype), jnp.int32(0)
    many = problem.rows.x.size > MANY_ENTRIES and problem.rows.axis.name is None
    if not (many and _plan.spares(len(problem.rows.x), problem.spread.size)):
        return by_newton(problem, tol, cap, *nothing)

    @jax.custom_batching.custom_vmap
    def alone(problem, tol, cap):
        start, curved = _sampled.optimum(_spec(bias), problem)
        if problem.rows.x.shape[1] < _light.PLAIN_COLUMNS:  # a Hessian costs little more
            return by_newton(problem, tol, cap, start, jnp.int32(0))
        found = _by_passes(bias, problem, tol, cap, start, curved)
        if not complete:
            return found
        operands = problem, tol, cap, start, found.steps
        return _linalg.when(found.unsettled, by_newton, found, operands)

    @alone.def_vmap
    def _(axis_size, in_batched, *operands):
        if not any(jax.tree.leaves(in_batched)):  # only tangents are of lanes
            found = alone.fun(*operands)
            return found, _batched.all_of(found, False)
        lanes = _batched.each(lambda *own: by_newton(*own, *nothing), axis_size, in_batched)
        found = lanes(*operands)
        return found, _batched.all_of(found)

    return alone(problem, tol, cap)


def _by_passes(bias, problem, tol, cap, start, curved) -> Plane:
    """From `start (1, p)`, near which the Hessian is about `curved (p, p)`, without another."""
    eps = float(jnp.finfo(tol.dtype).eps)
    # The gap is about the gradient's square over the penalty.
    least = jnp.min(jnp.where(problem.penalty > 0, problem.penalty, jnp.inf))
    enough = jnp.clip(jnp.sqrt(tol * least) / 4, 8 * eps, eps**0.75)
    most = jnp.minimum(cap, MOST_PASSES)
    point, steps = _quasi.descend(_spec(bias), problem, start, curved, enough, most, PATIENCE)
    params, bound = _returned(Kind.SQUARED, bias, problem, point.theta[0], tol)
    # A gap hardly feels a direction of little curvature.
    settled = (bound.gap <= tol) & (point.residual <= jnp.maximum(enough, point.noise))
    return Plane(params, bound, steps, jnp.bool_(False), ~settled)


def _by_newton(bias, complete, problem, tol, cap, start, before) -> Plane:
    """From `start (1, p)`, after `before` steps."""
    single = tol.dtype.itemsize <= 4
    kind, spec = Kind.SQUARED, _spec(bias, polished=single)
    (n, d), shared = problem.rows.x.shape, problem.rows.axis.name is not None
    work, back = problem, lambda theta: theta
    if n < d and not shared:
        work, back = _frame.in_row_space(problem)
        start = jnp.zeros((1, work.spread.size), start.dtype)
    # The gap is of the order of the square of the gradient. Of that little is rounding in double
    # precision; in single a step past it is worth its while.
    floor = jnp.asarray(float(jnp.finfo(tol.dtype).eps) ** (2 / 3 if single else 5 / 6), tol.dtype)
    origin = _light.value_at_origin(spec, work)
    run = _newton.descend(spec, work, start, origin, floor, cap, before, doubted=False)
    params, bound = _returned(kind, bias, problem, back(run.point.theta)[0], tol)
    found = Plane(params, bound, run.steps, jnp.bool_(False), ~(bound.gap <= tol))
    if not complete or shared:  # the other method is no sum over rows
        return found

    def more(problem, found):
        bound, steps, _ = _interior.solve(kind, problem, tol, cap)
        params, bound = _returned(kind, bias, problem, bound.theta, tol, bound.dual)
        better = bound.gap < found.bound.gap
        this, that = (params, bound), (found.params, found.bound)
        params, bound = jax.tree.map(functools.partial(jnp.where, better), this, that)
        return found._replace(params=params, bound=bound, steps=jnp.maximum(found.steps, steps))

    # A lane without rows has nothing to find.
    needed = found.unsettled & jnp.any(problem.rows.weight > 0)
    found = _linalg.when(needed, more, found, (problem, found))
    return found._replace(unsettled=jnp.bool_(False))


def differentiable(
    bias: bool, problem: Problem, params: Linear, value: jax.Array, proper: jax.Array
) -> tuple[Linear, jax.Array, jax.Array]:
    """Params of the squared hinge, its duals `(n,)` and objective, with their derivatives.

    Args:
      bias: static.
      problem: whose rows and penalty are what is to be differentiated in.
      params: the optimum, as `solve` returned it.
      value: `()`, the objective there.
      proper: whether it is one.
    """
    still = jax.lax.stop_gradient(problem)
    theta = _frame.enter(still, params, bias)
    spec = _spec(bias)
    gradient = functools.partial(_light.flat_gradient, spec)
    hessian = _passes.hessian(spec)
    flat = _implicit.root(gradient, hessian, problem, theta.reshape(-1), proper)
    of_rows = functools.partial(_light.flat_value, spec)
    value = _implicit.envelope(of_rows, problem, flat, value, proper)
    moved = _frame.leave(still, flat.reshape(theta.shape), bias)
    params = jax.tree.map(lambda a, b: a + (b - jax.lax.stop_gradient(b)), params, moved)
    plane = params.weights[0], params.bias[0]
    scores = _fold.map_rows(lambda block: dot(block.x, plane[0]) + plane[1], problem.rows)
    sign = jnp.where(problem.rows.y > 0, 1, -1).astype(scores.dtype)
    return params, 2 * jnp.maximum(1 - sign * scores, 0), value


def _spec(bias: bool, *, polished: bool = True) -> _record.Spec:
    return _record.Spec(
        loss=LOSS,
        solver=None,
        bias=bias,
        complete=False,
        penalised=True,
        polished=polished,
    )


def _squared_hinge(scores: jax.Array, y: jax.Array) -> jax.Array:
    return losses.squared_hinge(scores[0], y)


def _curvature(scores: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.full((), 2, scores.dtype)


LOSS = _record.Loss(_squared_hinge, _curvature, _record.nothing)

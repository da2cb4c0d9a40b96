"""Newton's method by conjugate gradients, for Hessians that are too large to form.

A step solves H s = -g no further than it pays (Dembo and Steihaug 1983, "Truncated-Newton
algorithms for unconstrained optimization"), by products with H, each a pass over the rows. The
preconditioner is the mean over the degrees of freedom of H's diagonal blocks, one `(p, p)` matrix
for all of them, made anew at each step: where rows are nearly separated few of them have any
curvature left, and nothing that was known at 0 is of use.

Of many rows H is at first that of a part of them, in float32, which costs little beside J and its
gradient (Byrd, Chin, Neveitt and Nocedal 2011, "On the use of stochastic Hessian information in
optimization methods for machine learning"). Shapes as in `_passes`.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _loops, _mesh
from jaxlin._data import _fold, _rows
from jaxlin._linalg import dot
from jaxlin._smooth import _frame, _iterate, _light, _passes, _record, _sampled, _scoring
from jaxlin._smooth._frame import Problem
from jaxlin._smooth._record import Bend, Spec

# Up to so many entries the columns of the frame are held, not made anew in each pass.
HELD_ENTRIES = 2**18
# With so many columns per score three copies of what is kept of the scores are a fifth of x.
COLUMNS_PER_SCORE = 16
# Of a part of the rows what is kept is no more than this part of all of x.
KEPT_PART = 64
# Numbers that a pass makes for each score of a row.
OF_SCORE = 6
# Products within one step, and in a run for each step that it may take.
MOST_PRODUCTS, PRODUCTS = 200, 20
HALVINGS = 20
# Of tol, which a step need not go below: the rest is for what the Hessian does not tell.
OVER = 1 / 4
# What a step of a rough Hessian leaves of g's square; the minimum of a part of the rows is sought
# to this by the square root of their number, in so many steps.
ROUGH_GOAL, ROUGH_TOL, ROUGH_STEPS = 0.003, 0.25, 10


class Point(NamedTuple):
    """What a pass says of J at theta.

    kept: `(K, n)`, what the curvature of the rows is made of, or `(K, 0)`: made anew when needed
    """

    seen: _passes.Point
    kept: jax.Array

    @property
    def theta(self) -> jax.Array:
        return self.seen.theta


class _Run(NamedTuple):
    """What a run is of.

    keeps: whether its points hold what their curvature is made of
    rough: whether it is of a part of the rows, which stays small beside x
    """

    spec: Spec
    problem: Problem
    bend: Bend
    keeps: bool
    rough: bool = False

    @property
    def at_once(self) -> bool:
        """Whether all rows are one block, whose columns are held."""
        rows, p = self.problem.rows, self.problem.spread.size
        few = not self.rough and rows.x.shape[0] * p <= HELD_ENTRIES
        return rows.framed is not None and few

    @property
    def entries(self) -> int:
        """Of x in a block, beside which it makes several numbers for each score."""
        d, scores = self.problem.centre.size, self.problem.used.size + 1
        if _frame.is_sparse(self.problem.rows):
            return _rows.pass_entries(self.problem.rows.x)
        return _light.light_entries(self.problem) * d // (d + OF_SCORE * scores)

    def fold(self, f, kept: jax.Array):
        """The sums over the rows of `f(z, block, kept)`."""
        problem, rows = self.problem, self.problem.rows
        if self.at_once:
            return _mesh.across(f(rows.framed, rows, kept), (), rows.axis)[0]
        if kept.shape[1] == 0:
            return _fold.fold(
                lambda b: (f(_frame.view(problem, b), b, kept), ()), rows, self.entries
            )[0]

        def of_block(block):
            return f(_frame.view(problem, block), block, block.offset.T), ()

        # It travels in the place of the offset.
        entries = _rows.pass_entries(rows.x)
        return _fold.fold(of_block, rows._replace(offset=kept.T), entries)[0]

    def fold_and_map(self, f):
        """The sums over the rows of the first that `f(z, block)` returns, and all of the second."""
        problem, rows = self.problem, self.problem.rows
        if self.at_once:
            sums, each = f(rows.framed, rows)
            return _mesh.across(sums, (), rows.axis)[0], each

        def of_block(block):
            sums, each = f(_frame.view(problem, block), block)
            return sums, each.T

        sums, each = _fold.fold_and_map(of_block, rows, _rows.pass_entries(rows.x))
        return sums, each.T


def descend(
    spec: Spec,
    problem: Problem,
    start: jax.Array,
    tol: jax.Array,
    cap: jax.Array,
    *,
    doubted: bool,
) -> tuple[_passes.Point, jax.Array, jax.Array]:
    """Minimise J until the residual is at most `tol` or falls no more; no verdict.

    Of many rows a part is minimised first, if `start` is 0, and products are with the Hessian of
    that part until a step of these gains little.

    Args:
      spec: the loss and the static choices.
      problem: of stopped gradients.
      start: `(m, p)`; a `doubted` one is taken if it is no worse than 0, others are 0.
      tol: bound on the residual.
      cap: on the steps, and by that on the products.

    Returns:
      The point, of which `short` is not known unless `spec.penalised`, the steps, and whether it
      ran out of these or of products.
    """
    run, part = _run(spec, problem), _part(spec, problem, start.shape[0])
    if part is not None and spec.penalised and not doubted:
        enough = jnp.maximum(tol, ROUGH_TOL / math.sqrt(part.problem.rows.x.shape[0]))
        begin, enough = (a.astype(part.problem.spread.dtype) for a in (start, enough))
        begun = _descend(part, None, look(part, begin), enough, jnp.minimum(cap, ROUGH_STEPS))
        start = begun[0].theta.astype(start.dtype)
    point = look(run, start)
    if doubted or part is not None:
        worse = ~(point.seen.value <= _light.value_at_origin(spec, problem))
        point = _linalg.when(
            worse, lambda p, t: look(_run(spec, p), t), point, (problem, jnp.zeros_like(start))
        )
    return _descend(run, part, point, tol, cap)


def _run(spec: Spec, problem: Problem) -> _Run:
    n, d = problem.rows.x.shape
    if n * problem.spread.size <= HELD_ENTRIES:
        problem = _frame.held(problem)
    return _of(spec, problem, max(HELD_ENTRIES, n * d // COLUMNS_PER_SCORE))


def _of(spec: Spec, problem: Problem, room: int) -> _Run:
    """A run whose points hold what their curvature is made of, if it has room for so many."""
    kept = problem.rows.x.shape[0] * (problem.used.size + 1)
    # Not where rows are dealt over devices: all that a loop carries would vary as they do.
    keeps = kept <= room and problem.rows.axis.name is None
    return _Run(spec, problem, _record.bend_of(spec.loss), keeps)


def _part(spec: Spec, problem: Problem, m: int) -> _Run | None:
    """A run of some of the rows, if these are many."""
    rough = _sampled.rough(spec, problem, m)
    if rough is None:
        return None
    return _of(spec, rough, problem.rows.x.size // KEPT_PART)._replace(rough=True)


def _descend(run: _Run, part: _Run | None, point: Point, tol, cap):
    """`descend` from a point, with products over a part of the rows, if there is one."""
    allowed = PRODUCTS * jnp.minimum(cap, jnp.iinfo(jnp.int32).max // PRODUCTS)

    enough = tol * OVER

    def of_all(problem, point, most):
        return direction(run._replace(problem=problem), point, most, enough)

    def towards(point, most, whole):
        if part is None:
            return direction(run, point, most, enough)
        seen = jax.tree.map(lambda a: a.astype(part.problem.spread.dtype), point.seen)
        there = Point(seen, look(part, seen.theta).kept)
        most_here = jnp.where(whole, 0, most)
        step, products = direction(
            part, there, most_here, enough.astype(seen.value.dtype), ROUGH_GOAL
        )
        roughly = step.astype(point.theta.dtype), products
        return _linalg.when(whole, of_all, roughly, (run.problem, point, most))

    def advance(carry):
        before, steps, products, _, whole = carry
        step, more = towards(before, jnp.minimum(MOST_PRODUCTS, allowed - products), whole)
        point, moved = search(run, before, step)
        gained = moved & (point.seen.residual <= before.seen.residual / 2)
        stalled, whole = whole & ~moved, whole | ~gained
        return point, steps + moved.astype(jnp.int32), products + more, stalled, whole

    def unfinished(carry):
        (seen, _), steps, products, stalled, _ = carry
        left = (steps < cap) & (products < allowed)
        return (seen.residual > tol) & ~stalled & left & jnp.isfinite(seen.value)

    never, none = jnp.bool_(False), jnp.int32(0)
    init = point, none, none, never, jnp.bool_(part is None)
    point, steps, products, *_ = jax.lax.while_loop(unfinished, *_loops.steady(advance, init))
    return point.seen, steps, (steps >= cap) | (products >= allowed)


def look(run: _Run, theta: jax.Array) -> Point:
    """J at theta, and what the products there need."""
    problem, bend = run.problem, run.bend

    def of_block(z, block):
        scores = _scores(problem, block, z, theta)
        value, slope, kept = bend.sides(scores, block.y)
        pull = block.weight[None, :] * slope
        curve = block.weight * jnp.sum(bend.diagonal(kept), axis=0)
        squares = block.weight, jnp.sum(slope**2, axis=0)
        terms = _passes.totals(block, value, squares, curve, _passes.sizes(scores, axis=0))
        return (_frame.along(pull, z), jnp.stack(terms)), kept

    if run.keeps:
        (pulled, terms), kept = run.fold_and_map(of_block)
    else:
        kept = jnp.zeros((problem.used.size + 1, 0), theta.dtype)
        pulled, terms = run.fold(lambda z, block, _: of_block(z, block)[0], kept)
    columns = _frame.in_basis(problem, pulled.T).T
    return Point(_passes.assemble(problem, theta, columns, terms), kept)


def _scores(problem: Problem, block: _rows.Rows, z: jax.Array, theta: jax.Array) -> jax.Array:
    """As `_scoring.scores_of` where there is weight, `(K, rows)`: vectors want the rows last."""
    columns = _scoring.spread_rows(problem, _frame.of_basis(problem, theta)[None])
    scores = _scoring.in_front(problem, block, _frame.across(columns.T, z))
    # Without weight are also rows of the last block that were in the one before.
    fine = (block.weight > 0)[None, :] | (jnp.abs(scores) <= -_frame.NEVER)
    return jnp.where(fine, scores, 0)


def product(run: _Run, point: Point, step: jax.Array) -> jax.Array:
    """H at the point times a step `(m, p)`."""
    problem, bend = run.problem, run.bend
    columns = _scoring.spread_rows(problem, _frame.of_basis(problem, step)[None])

    def sums(z, block, kept):
        if kept.shape[1] == 0:
            *_, kept = bend.sides(_scores(problem, block, z, point.theta), block.y)
        curved = bend.product(kept, _frame.across(columns.T, z))
        # Where there is no weight there may be no number.
        weight = block.weight[None, :]
        return _frame.along(jnp.where(weight > 0, weight * curved, 0), z)

    pulled = run.fold(sums, point.kept)
    return _passes.gradient_of(problem, step, _frame.in_basis(problem, pulled.T).T)


def direction(
    run: _Run, point: Point, most: jax.Array, enough: jax.Array, part: float | None = None
) -> tuple[jax.Array, jax.Array]:
    """About -H^-1 g `(m, p)` by conjugate gradients, and how many products it took.

    It ends where the residual of the equations is `enough`; or its square, in the norm of the
    preconditioner, below a `part` of g's, by default one that falls with g: the steps then converge
    faster than linearly.
    """
    inverse = preconditioner(run.spec, run.problem, point.theta)

    def preconditioned(left):
        return dot(left, inverse) if inverse.ndim == 2 else left * inverse[None, :]

    left = -point.seen.grad
    along = preconditioned(left)
    size = jnp.sum(left * along)
    goal = (jnp.minimum(0.25, jnp.sqrt(size)) if part is None else part) * size
    # Of the curvature that the preconditioner, whose ridge is as large, expects: less is rounding.
    least = jnp.sqrt(jnp.finfo(size.dtype).eps)

    def advance(carry):
        step, left, along, size, expected, i, _ = carry
        curved = product(run, point, along)
        bend = jnp.sum(along * curved)
        sound = bend > least * expected
        # Without curvature from the first the step is the preconditioned gradient's.
        ahead = jnp.where(sound, size / jnp.where(sound, bend, 1), (i == 0).astype(size.dtype))
        step, left = step + ahead * along, left - ahead * curved
        ready = preconditioned(left)
        following = jnp.sum(left * ready)
        more = following / size
        expected = following + more**2 * expected
        return step, left, ready + more * along, following, expected, i + 1, sound

    def unfinished(carry):
        _, left, _, size, _, i, sound = carry
        open_still = (size > goal) & (_passes.residual(run.problem, left) > enough)
        return open_still & sound & (i < most)

    init = (jnp.zeros_like(left), left, along, size, size, jnp.int32(0), jnp.bool_(True))
    step, *_, i, _ = jax.lax.while_loop(unfinished, *_loops.steady(advance, init))
    return step, i


def search(run: _Run, point: Point, step: jax.Array) -> tuple[Point, jax.Array]:
    """The first of the step, its half, its quarter and so on that is good, and whether one is."""
    slope = -jnp.sum(point.seen.grad * step)

    def advance(carry):
        _, length, _, _ = carry
        trial = look(run, point.theta + length * step)
        verdict = _iterate.judge(
            (point.seen.value, point.seen.residual),
            (trial.seen.value, trial.seen.residual),
            length * (1 - length / 2) * slope,
            length,
        )
        return trial, length / 2, verdict.accept, verdict.accept | verdict.stalled

    def unfinished(carry):
        _, length, _, done = carry
        return ~done & (length > 2.0**-HALVINGS)

    never = jnp.bool_(False)
    init = (point, jnp.ones_like(point.seen.value), never, never)
    trial, _, moved, _ = jax.lax.while_loop(unfinished, *_loops.steady(advance, init))
    return jax.tree.map(lambda a, b: jnp.where(moved, a, b), trial, point), moved


def preconditioner(spec: Spec, problem: Problem, theta: jax.Array) -> jax.Array:
    """About the mean of H's diagonal blocks inverted, `(p, p)`, or of its diagonal, `(p,)`."""
    if not _sampled.is_dense(problem):
        diagonal = _passes.mean_diagonal(spec, problem, theta)
        return 1 / (diagonal + _passes.regular(problem, diagonal))
    root = _linalg.inverse_root(_linalg.factor(_sampled.curvature(spec, problem, theta)))
    return dot(root.T, root)

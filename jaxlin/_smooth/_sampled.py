"""What some of the rows say of J: about where it is least, and how it curves there.

A solver that begins there, in units of that curvature, goes over all rows a handful of times; the
sample costs as much as one or two of these. Nothing is concluded from it. Shapes as in `_passes`.
"""

import math

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _loops, _mesh
from jaxlin._data import _fold, _rows
from jaxlin._linalg import dot
from jaxlin._smooth import _frame, _iterate, _light, _passes, _plan
from jaxlin._smooth._frame import Problem
from jaxlin._smooth._record import Spec

# Rows per coordinate that it is made of: a fifth of all, but no fewer and no more than these; or a
# few, where it costs as much as several steps.
FEW_ROWS, LEAST_ROWS, MOST_ROWS = 8, 16, 32
# Rows per coordinate that an optimum is found of; a first one of fewer, and then of this part of
# all if that is more.
FIRST_ROWS, OPTIMUM_ROWS, PART = 32, 64, 16
# The residual there is of the sample's, and Newton's method one step from its optimum.
TOL, STEPS = 1e-2, 20
# A rough Hessian is of this part of the rows, if these are so many per coordinate of theta; or of
# half of it, where columns of float32 are so few that a number for each row is much beside x.
ROUGH_PART, ROUGH_ROWS, NARROW = 8, 16, 24
# This part is enough for a proof, for which curvature need not be known, only be there.
PROOF_PART = 128
# A column is hardly seen whose square is that of no more than so many rows.
SEEN_ROWS = 16
# Columns are as good as independent where the eigenvalues of their correlations have no more than
# this variance, as many of pairs of so many rows tell: the curvature of a sample has as much.
INDEPENDENT, PAIRED_ROWS = 1 / 8, 256
# Chords, and the square of the decrement up to which they are tried: of n draws of n rows it is
# about p / n.
CHORDS, SHORT = 4, 1 / 4
# With less than this of the curvature at 0 the sample is nearly separated, and all need not be.
LEAST_CURVE = 1 / 32


def of(problem: Problem, count: int) -> Problem:
    """The problem of so many of the rows, or of all if these are fewer."""
    sample = _rows.sample(problem.rows, count)
    total = _mesh.sum_rows(sample.weight, sample.axis)
    weight = sample.weight / jnp.where(total > 0, total, 1)
    return problem._replace(rows=sample._replace(weight=weight))


def without_offset(problem: Problem) -> Problem:
    """As it is where every score is 0."""
    rows = problem.rows
    if rows.offset is None:
        return problem
    return problem._replace(rows=rows._replace(offset=jnp.zeros_like(rows.offset)))


def _all(problem: Problem) -> int:
    return problem.rows.x.shape[0] * _mesh.devices(problem.rows.axis)


def optimum(spec: Spec, problem: Problem) -> tuple[jax.Array, jax.Array]:
    """About where the J of one score is least, by Newton's method, and the curvature there.

    As of `curvature`, for theta `(1, p)`. Where a sample is nearly separated, and in columns that
    it has hardly seen, it cannot tell, because all rows need not be as it: theta is 0.
    """
    p = problem.spread.size
    nothing = jnp.zeros((1, p), problem.spread.dtype)
    first = of(problem, FIRST_ROWS * p)
    theta, _, curve, found = descended(spec, first, nothing, None)
    count = max(OPTIMUM_ROWS * p, _all(problem) // PART)
    sample = of(problem, count)
    # The sample's optimum is no nearer to that of all than this.
    tol = max(TOL, math.sqrt(p / count) / 2)
    theta, hess, _, found = descended(spec, sample, jnp.where(found, theta, 0), curve, tol)
    unpenalised = jnp.where(problem.spread > 0, problem.penalty, 1)
    curved, few = _whole(problem, sample, hess - jnp.diag(unpenalised))
    curved = _linalg.when(
        ~found, lambda p: curvature(spec, without_offset(p), nothing), curved, (problem,)
    )
    return jnp.where(found & ~few, theta, 0), curved


def descended(spec, sample, start, at_zero, tol=TOL):
    """Where Newton's method ends, the Hessian a step before, the curve at the start, and if found.

    It ends a step after the residual is at most tol. It is not found where too little of the curve
    `at_zero` is left, by default that of the start.
    """
    damping = jnp.asarray(_iterate.FIRST_DAMPING, start.dtype)

    def advance(carry):
        theta, i, _, hess, first = carry
        point, hess = _passes.measure(spec, sample, theta)
        step, _ = _iterate.newton_step(hess, point.grad.reshape(-1), damping)
        first = jnp.where(i == 0, point.curve, first)
        return theta + step.reshape(theta.shape), i + 1, (point.residual, point.curve), hess, first

    def unfinished(carry):
        _, i, (residual, _), *_ = carry
        return (i < STEPS) & ~(residual <= tol)

    p = start.size
    unknown = jnp.full((), jnp.inf, start.dtype)
    init = start, jnp.int32(0), (unknown, unknown), jnp.zeros((p, p), start.dtype), unknown
    theta, _, (residual, curve), hess, first = jax.lax.while_loop(
        unfinished, *_loops.steady(advance, init)
    )
    least = LEAST_CURVE * (first if at_zero is None else at_zero)
    found = (residual <= tol) & (curve >= least) & jnp.all(jnp.isfinite(theta))
    return theta, hess, first, found


def chords(spec: Spec, problem: Problem, theta: jax.Array, root: jax.Array) -> jax.Array:
    """Some steps from theta with the Hessian H of another problem there, R'R = H^-1 of `root` R.

    Together they cost what one of Newton's does. One that leads so far that H is hardly this
    problem's own is not taken.
    """

    def step(_, theta):
        half = dot(root, _light.flat_gradient(spec, problem, theta.reshape(-1)))
        short = jnp.sum(half**2) <= SHORT
        return theta - jnp.where(short, dot(root.T, half), 0).reshape(theta.shape)

    return jax.lax.fori_loop(0, CHORDS, *_loops.steady_fori(step, theta))


def rough(spec: Spec, problem: Problem, m: int) -> Problem | None:
    """One of a part of the rows and about the same Hessian, or None where rows are few.

    What the part has hardly seen of a column is a penalty there. It is in float32 if that is to be
    held, which does for what is nowhere trusted.
    """
    p = problem.spread.size
    narrow = p <= NARROW and problem.spread.dtype == jnp.float32
    rows = _all(problem) // (2 * ROUGH_PART if narrow else ROUGH_PART)
    if isinstance(problem.rows, _rows.Streamed) or rows < ROUGH_ROWS * m * p:
        return None
    sample = _held(problem, of(problem, rows), rows)
    dtype = sample.spread.dtype
    diagonal = _passes.mean_diagonal(spec, sample, jnp.zeros((m, p), dtype))
    _, missed = _unseen(problem, sample, diagonal.astype(problem.spread.dtype))
    return sample._replace(penalty=(problem.penalty + missed).astype(dtype))


def _held(problem: Problem, sample: Problem, count: int) -> Problem:
    """The sample of so many rows in float32, its columns held and not its x, if they may be."""
    if sample.rows.x.size > _frame.HELD_ENTRIES or _frame.is_sparse(sample.rows):
        return sample

    def columns(block):
        return _linalg.narrow(_frame.columns(problem, block))

    framed = _fold.map_sample(columns, problem.rows, count)
    # Nothing reads x any more, which is but a shape.
    rows = sample.rows._replace(x=jnp.zeros_like(sample.rows.x), framed=framed)
    return jax.tree.map(_linalg.narrow, sample._replace(rows=rows))


def is_dense(problem: Problem) -> bool:
    """Whether the curvature is a matrix, and not a diagonal or nothing."""
    return not _frame.is_sparse(problem.rows) and _plan.has_matrix(
        _all(problem), problem.spread.size
    )


def are_independent(problem: Problem) -> jax.Array:
    """Whether the columns look as if the Hessian were about its diagonal.

    The mean square of the correlations' eigenvalues is that of the inner products of standard rows,
    which two rows estimate without bias, and d / n more for n rows themselves.
    """
    sample = of(problem, PAIRED_ROWS).rows
    z = _frame.standard(problem, _rows.clean(sample))
    both = sample.weight[:, None] * sample.weight[None, :]
    both = jnp.where(jnp.eye(len(z), dtype=bool), 0, both)
    sums = jnp.sum(both * dot(z, z.T) ** 2), jnp.sum(both)
    (square, pairs), _ = _mesh.across(sums, (), sample.axis)
    d = jnp.sum(problem.unit[: z.shape[1]] > 0).astype(z.dtype)
    spread = square / jnp.where(pairs * d > 0, pairs * d, 1) - 1
    return spread + d / _all(problem) <= INDEPENDENT


def diagonal(spec: Spec, problem: Problem) -> jax.Array:
    """The mean over the degrees of freedom of the Hessian's diagonal at 0, `(p,)`, regular."""
    square = _second_moments(problem) * _light.curve_at_origin(spec, without_offset(problem))
    return square + _passes.regular(problem, square)


def curvature(spec: Spec, problem: Problem, theta: jax.Array, least: int = LEAST_ROWS) -> jax.Array:
    """About the mean of the Hessian's diagonal blocks at theta, `(p, p)`, regular.

    Where the sample has hardly seen a column, such as one of few entries that are not 0, its
    curvature goes by the square of all that it holds.
    """
    p = problem.spread.size
    sample = of(problem, min(MOST_ROWS * p, max(least * p, _all(problem) // 5)))
    return _whole(problem, sample, _passes.mean_curvature(spec, sample, theta))[0]


def part_of_proof(problem: Problem) -> Problem:
    """That of some of the rows as they are: no direction has more curvature in these than in all.

    Each row's part of J is convex, and of as many degrees of freedom as theta has per coordinate.
    """
    count = max(LEAST_ROWS * problem.spread.size, _all(problem) // PROOF_PART)
    return problem._replace(rows=_rows.sample(problem.rows, count))


def _whole(problem: Problem, sample: Problem, curved: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The sample's curvature without penalty as that of all rows, and the columns hardly seen."""
    diagonal = jnp.diagonal(curved)
    few, missed = _unseen(problem, sample, diagonal)
    whole = jnp.where(few, 0, diagonal) + missed
    apart = jnp.where(few[:, None] | few[None, :], 0, curved - jnp.diag(diagonal))
    return apart + jnp.diag(whole + _passes.regular(problem, whole)), few


def _unseen(problem: Problem, sample: Problem, diagonal: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Columns hardly seen, and the curvature of each that the sample's `diagonal` is without."""

    def squares(block):
        z, weight = _frame.view(problem, block), block.weight
        if isinstance(z, _frame.View):
            return (
                _frame.powers(weight[None], z, 2)[0],
                _frame.powers(weight[None] ** 2, z, 4)[0],
            ), ()
        square = z**2
        return (dot(weight, square), dot(weight**2, square**2)), ()

    (seen, fourth), _ = _fold.fold(squares, sample.rows, _rows.pass_entries(sample.rows.x))
    part = sample.rows.x.shape[0] < problem.rows.x.shape[0]
    few = (seen**2 <= SEEN_ROWS * fourth) & part
    seen = seen.astype(problem.spread.dtype)
    seen = problem.spread**2 * seen
    square, total = _second_moments(problem), jnp.sum(seen)
    per_square = jnp.where(total > 0, jnp.sum(diagonal) / jnp.where(total > 0, total, 1), 1)
    missed = jnp.where(square > 2 * seen, square - seen, 0)
    return few, per_square * jnp.where(few, square, missed)


def _second_moments(problem: Problem) -> jax.Array:
    """The mean square of each column that theta sees, `(p,)`."""
    held = jnp.where(problem.unit > 0, 1 / jnp.where(problem.unit > 0, problem.unit, 1), 0)
    return held**2 + problem.shift**2

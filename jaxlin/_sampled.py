"""What some of the rows say of J: about where it is least, and how it curves there.

A solver that begins there, in units of that curvature, goes over all rows a handful of times; the
sample costs as much as one or two of these. Nothing is concluded from it. Shapes as in `_passes`.
"""

import jax
import jax.numpy as jnp

from jaxlin import _frame, _iterate, _loops, _passes, _rows
from jaxlin._frame import Problem
from jaxlin._linalg import dot
from jaxlin._passes import Spec

# Up to so many coordinates of a row the curvature is a matrix.
MATRIX_LIMIT = 1024
# Rows per coordinate that it is made of: a third of all, but no fewer and no more than these.
LEAST_ROWS, MOST_ROWS = 16, 32
# Rows per coordinate that an optimum is found of, if all are so many times as many.
OPTIMUM_ROWS, SPARED = 64, 8
# The residual over all rows is larger than this there.
TOL, STEPS = 1e-3, 20
# With less than this of the curvature at 0 the sample is nearly separated, and all need not be.
LEAST_CURVE = 1 / 32


def of(problem: Problem, count: int) -> Problem:
    """The problem of so many of the rows, or of all if these are fewer."""
    sample = _rows.sample(problem.rows, count)
    total = _rows.sum_rows(sample.weight, sample.axis)
    weight = sample.weight / jnp.where(total > 0, total, 1)
    return problem._replace(rows=sample._replace(weight=weight))


def without_offset(problem: Problem, keep: jax.Array) -> Problem:
    """The problem with an offset of 0, unless it is to `keep` its own."""
    rows = problem.rows
    if rows.offset is None:
        return problem
    return problem._replace(rows=rows._replace(offset=jnp.where(keep, rows.offset, 0)))


def spares(problem: Problem) -> bool:
    """Whether the sample that an optimum is found of is a small part of all rows."""
    streamed = isinstance(problem.rows, _rows.Streamed)
    return not streamed and _all(problem) >= SPARED * _count(problem)


def _all(problem: Problem) -> int:
    return problem.rows.x.shape[0] * _rows.devices(problem.rows.axis)


def _count(problem: Problem) -> int:
    return OPTIMUM_ROWS * problem.used.size * problem.spread.size


def optimum(spec: Spec, problem: Problem) -> tuple[jax.Array, jax.Array]:
    """About where J is least, `(m, p)`, by Newton's method, and whether a sample can tell.

    Where it is nearly separated it does not tell, and that is 0: all rows need not be.
    """
    sample = of(problem, _count(problem))
    damping = jnp.asarray(_iterate.FIRST_DAMPING, problem.spread.dtype)

    def advance(carry):
        step, i, before, first = carry
        point, hess = _passes.measure(spec, sample, before.theta + step)
        following, _ = _iterate.newton_step(hess, point.grad.reshape(-1), damping)
        first = jnp.where(i == 0, point.curve, first)
        return following.reshape(step.shape), i + 1, point, first

    def unfinished(carry):
        _, i, point, _ = carry
        return (i < STEPS) & ~(point.residual <= TOL)

    origin = _passes.origin(problem, jnp.full((), jnp.inf, problem.spread.dtype))
    init = origin.theta, jnp.int32(0), origin, origin.curve
    *_, point, first = jax.lax.while_loop(unfinished, *_loops.steady(advance, init))
    found = (point.residual <= TOL) & (point.curve >= LEAST_CURVE * first)
    return jnp.where(found, point.theta, 0), found


def is_dense(problem: Problem) -> bool:
    """Whether the curvature is a matrix, and not a diagonal or nothing."""
    return problem.spread.size <= min(MATRIX_LIMIT, _all(problem))


def curvature(spec: Spec, problem: Problem, theta: jax.Array) -> jax.Array:
    """About the mean of the Hessian's diagonal blocks at theta, `(p, p)`, regular.

    Where the sample has hardly seen a column, such as one of few entries that are not 0, its
    curvature goes by the square of all that it holds.
    """
    p = problem.spread.size
    sample = of(problem, min(MOST_ROWS * p, max(LEAST_ROWS * p, _all(problem) // 3)))
    curved = _passes.mean_curvature(spec, sample, theta)
    diagonal = jnp.diagonal(curved)

    def squares(block):
        z = _frame.columns(problem, block)
        return dot(block.weight, z * z), ()

    seen = problem.spread**2 * _rows.fold(squares, sample.rows)[0]
    held = jnp.where(problem.unit > 0, 1 / jnp.where(problem.unit > 0, problem.unit, 1), 0)
    square, total = held**2 + problem.shift**2, jnp.sum(seen)
    per_square = jnp.where(total > 0, jnp.sum(diagonal) / jnp.where(total > 0, total, 1), 1)
    missed = jnp.where(square > 2 * seen, per_square * (square - seen), 0)
    return curved + jnp.diag(missed + _passes.regular(problem, diagonal + missed))

"""Logistic regression with Jeffreys' prior: Firth's estimate, its test and its intervals.

What is minimised is the mean loss less half the log determinant of the information over the sum of
the weights. Shapes: `n` examples, `d` features, `p` coordinates of the frame.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from jaxlin import _linalg, losses, solvers
from jaxlin._base import _mesh, _platform
from jaxlin._data import _fold, _prepare, _rows
from jaxlin._linalg import _implicit, dot
from jaxlin._smooth import _frame, _passes, _proof
from jaxlin.types import Hyperplane, Info, Status

# The residual, of centred columns of unit variance, is at most about so much more than the gradient
# entries of the frame, whose columns are nearly so.
SLACK = 8
# So many rows, at most, have a number for each pair of them.
PAIRED_ROWS = 2048


@functools.partial(_platform.jit, static_argnums=(0, 1))
def fit(bias, complete, data, offset, held, tol, max_steps):
    """`(params, info)`; whether columns are collinear, which a `complete` fit takes into account;
    and what is minimised, but for a term of the columns' units."""
    rows, total, valid = _prepare.prepare(data, num_classes=2, offset=offset)
    valid &= (tol >= 0) & (max_steps >= 0)
    rows = _rows.where(valid, rows)
    # A lane that is not valid has no column in play, and so a minimum.
    total = jnp.where(valid, total, 1)
    (_, d), dtype = rows.x.shape, rows.weight.dtype
    no_penalty = jnp.zeros(d, dtype)
    problem = _frame.make(jax.lax.stop_gradient(rows), no_penalty, bias)
    problem = problem._replace(spread=jnp.where(valid, problem.spread, 0))
    p = problem.spread.size
    null = _proof.null_space(problem) if complete else jnp.zeros((p, d), dtype)
    held = None if held is None else _frame.with_bias(held, False, bias)
    arguments = (_frame.live(problem, rows, no_penalty), total, null, held)
    theta, info = solvers.newton(
        _jeffreys,
        jnp.zeros(p, dtype),
        jax.lax.stop_gradient(arguments),
        hessian=_jeffreys_hessian if _by_pairs(rows, p) else None,
        tol=tol / SLACK,
        max_steps=jnp.where(valid, max_steps, 0),
    )
    # An information that has no factor, singular to rounding, is no place to start.
    begun = info.status != Status.INVALID_DATA
    theta = jnp.where(begun, theta, 0)
    bend = _bend_by_pairs if _by_pairs(rows, p) else _bend
    theta = _implicit.root(_slope, bend, arguments, theta, begun)
    objective = _implicit.envelope(_least, arguments, theta, info.objective, begun)
    still = jax.lax.stop_gradient((theta, *arguments))
    residual = _passes.residual(problem, jax.grad(_jeffreys)(*still)[None, :])
    residual = jnp.where(begun, residual, jnp.inf)
    found: Any = theta
    if complete:
        deficient = jnp.any(null != 0)
        excess = _proof.least_norm_excess(problem, still[0][None, :], null)[0]
        # What is held stays so, whatever is collinear with it.
        found = theta - (excess if held is None else jnp.where(jnp.any(held), 0, excess))
    else:
        eps = float(jnp.finfo(dtype).eps)
        least = _linalg.least_eigenvalue(_linalg.factor(_information(*still[:4])))
        deficient = ~(least > _linalg.RANK_ULPS * p * eps)
    deficient |= jnp.any(problem.idle)
    passed = (info.status == Status.CONVERGED) & (residual <= tol)
    status = jnp.where(deficient, Status.RANK_DEFICIENT, Status.CONVERGED)
    unproved = jnp.where(info.steps < max_steps, Status.STALLED, Status.MAX_STEPS)
    status = jnp.where(passed, status, unproved)
    # The determinant in the user's units and of sums.
    units = jnp.log(jnp.where(problem.spread[:d] > 0, _frame.unscaled(problem), 1))
    number = jnp.sum(problem.spread > 0).astype(dtype)
    objective = jnp.where(begun, objective, jnp.inf)
    moved = jnp.sum(units) - number * jnp.log(total) / 2
    said = Info(
        status=jnp.where(valid, status, Status.INVALID_DATA).astype(jnp.int32),
        steps=info.steps,
        objective=jnp.where(valid, objective + moved / total, jnp.nan),
        residual=jnp.where(valid, residual, jnp.nan),
    )
    found = _frame.leave(problem, found[None, :], bias)
    params = Hyperplane(weights=found.weights[0], bias=found.bias[0])
    given = data, offset
    said = _implicit.told(said, valid, given)
    own = _implicit.guarded(objective, valid, given)
    return (_implicit.guarded(params, valid, given), said), deficient & valid, own


def _information(theta: jax.Array, problem: Any, total: jax.Array, null: jax.Array) -> jax.Array:
    """The mean curvature of the loss, `(p, p)`, in the frame; 1 where no row sees anything."""
    return _mean_loss(theta, problem)[1] + _unseen(problem, null)


def _jeffreys(
    theta: jax.Array, problem: Any, total: jax.Array, null: jax.Array, held: jax.Array | None
) -> jax.Array:
    """Mean loss less half the log determinant of the information over `total`."""
    theta, away = _free(theta, held)
    value, curvature = _mean_loss(theta, problem)
    unseen = _unseen(problem, null)
    # By the inverse, whose derivatives of any order are products.
    _, log_determinant = _linalg.inverse(curvature + unseen)
    # What no row sees is held at 0.
    return value - log_determinant / (2 * total) + _linalg.form(unseen, theta) / 2 + away


def _free(theta: jax.Array, held: jax.Array | None) -> tuple[jax.Array, Any]:
    """theta with 0 where it is held, and what draws it there."""
    if held is None:
        return theta, 0
    return jnp.where(held, 0, theta), jnp.sum(jnp.where(held, theta, 0) ** 2) / 2


def _least(data: Any, theta: jax.Array) -> jax.Array:
    return _jeffreys(theta, *data)


def _slope(data: Any, theta: jax.Array) -> jax.Array:
    return jax.grad(_jeffreys)(theta, *data)


def _bend(theta: jax.Array, data: Any) -> jax.Array:
    return jax.hessian(_jeffreys)(theta, *data)


def _bend_by_pairs(theta: jax.Array, data: Any) -> jax.Array:
    return _jeffreys_hessian(theta, *data)


def _by_pairs(rows: _rows.Rows, p: int) -> bool:
    """Whether rows are so few that a number for each pair of them is less than one of p^3."""
    return len(rows.x) <= min(p**2, PAIRED_ROWS) and rows.axis.name is None


def _jeffreys_hessian(
    theta: jax.Array, problem: Any, total: jax.Array, null: jax.Array, held: jax.Array | None
) -> jax.Array:
    """`jax.hessian` of `_jeffreys`, by pairs of rows.

    With P the inverse of the information sum_i c_i z_i z_i', whose c are functions of the scores,
    the log determinant has the slope sum_i c'_i (z_i' P z_i) z_i, and so the second derivatives
    sum_i c''_i (z_i' P z_i) z_i z_i' - sum_ij c'_i c'_j (z_i' P z_j)^2 z_i z_j'.
    """
    rows, (theta, _) = _rows.clean(problem.rows), _free(theta, held)
    z = _frame.columns(problem, rows) * problem.spread[None, :]
    scores = dot(z, theta) + (0 if rows.offset is None else rows.offset)
    probability = jax.nn.sigmoid(_mesh.where_rows(rows.ok, scores))
    share = probability * (1 - probability)
    curve = rows.weight * share
    first, second = curve * (1 - 2 * probability), curve * (1 - 6 * share)
    information = dot((z * curve[:, None]).T, z) + _unseen(problem, null)
    inverse, _ = _linalg.inverse(information)
    pairs = dot(dot(z, inverse), z.T)
    pulled = z * first[:, None]
    bend = dot((z * (second * jnp.diagonal(pairs))[:, None]).T, z)
    bend -= dot(pulled.T, dot(pairs**2, pulled))
    found = information - bend / (2 * total)
    if held is None:
        return found
    return jnp.where(held[:, None] | held[None, :], jnp.diag(held).astype(found.dtype), found)


def _unseen(problem, null):
    alone = jnp.where(problem.spread > 0, 0, 1).astype(null.dtype)
    return jnp.diag(alone) + dot(null, null.T)


def _mean_loss(theta, problem):
    """The loss and its curvature, in one pass."""

    def sums(block):
        z = _frame.columns(problem, block) * problem.spread[None, :]
        scores = dot(z, theta)
        if block.offset is not None:
            scores = scores + block.offset
        scores = _mesh.where_rows(block.ok, scores)
        value = _mesh.where_rows(block.ok, losses.logistic(scores, block.y))
        curve = block.weight * jax.vmap(jax.hessian(losses.logistic))(scores, block.y)
        return (jnp.sum(block.weight * value), dot((z * curve[:, None]).T, z)), ()

    return _fold.fold(sums, problem.rows)[0]

"""The passes of a smooth fit over its rows: J, its gradient, its Hessian, and their rounding.

J(theta) = sum_i c_i loss(B theta z_i + o_i, y_i) + 1/2 sum_j penalty_j |theta_j|^2 over rows z_i in
the frame. B is the identity for one score, and for k classes an orthonormal basis of the scores
that sum to zero, so that nothing is left undetermined. The Hessian is assembled from the curvature
of each row's loss in its scores.

Shapes: `n` rows, `d` features, `p` coordinates of a row (d, and one for a bias), `m` degrees of
freedom of the scores, `K` scores: m = K = 1 for a plane, else m = K - 1. theta is `(m, p)`, and
flat, `m p`, for linear algebra.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin import _linalg
from jaxlin._data import _fold, _rows
from jaxlin._linalg import dot
from jaxlin._smooth import _frame, _record, _scoring
from jaxlin._smooth._frame import Problem
from jaxlin._smooth._record import Spec

# The sums of a pass, and the scores they are made of, are trusted to so many units of rounding.
NOISE_ULPS = 4
# Up to so many columns the products of all pairs of them fit in cache.
SHARED_LIMIT = 64
# Up to so many entries of the curved columns products are quicker with rows as columns: 1.3 to 3
# times in float32, 1.1 to 2 in float64.
ACROSS_ENTRIES = 50_000


class Point(NamedTuple):
    """J at theta.

    grad: `(m, p)`
    noise: `()`, the rounding bound of the residual
    curve: `()`, the mean second derivative of the loss
    short: `()`, how many rows the unpenalised part of theta does not clearly agree with, or whether
      there are any
    """

    theta: jax.Array
    value: jax.Array
    grad: jax.Array
    residual: jax.Array
    noise: jax.Array
    curve: jax.Array
    short: jax.Array


def per_row(
    block: _rows.Rows, scores: jax.Array, value: jax.Array, slope: jax.Array, curve: jax.Array
) -> tuple[jax.Array, list[jax.Array]]:
    """Of `derivatives`: weighted slope of each row's loss `(rows, K)`, and the rows' `totals`."""
    pull = block.weight[:, None] * slope
    squares = pull.reshape(-1), slope.reshape(-1)
    return pull, totals(block, value, squares, block.weight * curve, sizes(scores, axis=1))


def totals(block: _rows.Rows, value, squares, curve, size) -> list[jax.Array]:
    """J's loss, the square of the gradient's rounding, the scores' tilt of it, and the curvature.

    They are products, which the compiler reads from arrays that it makes by vectors; a sum it makes
    entry by entry.

    Args:
      block: whose weights are used.
      value: `(rows,)`, each row's loss.
      squares: two arrays whose inner product is the weighted square of the slopes.
      curve: `(rows,)`, the weighted trace of each row's second derivatives.
      size: `(rows,)`, see `sizes`.
    """
    pairs = (block.weight, value), squares, (curve, size), (curve, jnp.ones_like(curve))
    return [_linalg.inner(*pair) for pair in pairs]


def sizes(scores: jax.Array, axis: int) -> jax.Array:
    """The largest size of each row's scores, of the classes that are present."""
    return jnp.max(jnp.abs(jnp.where(scores <= _frame.NEVER / 2, 0, scores)), axis=axis)


def held_columns(problem: Problem) -> jax.Array | None:
    """The frame's columns of few rows, `(p, n)`, to be made once for many passes, or None."""
    rows, entries = problem.rows, _curved_entries(problem.used.size)
    if isinstance(rows, _rows.Streamed) or not _rows.is_one_block(rows, entries):
        return None
    return _frame.columns(problem, _rows.clean(rows)).T


def measure(
    spec: Spec, problem: Problem, theta: jax.Array, columns: jax.Array | None = None
) -> tuple[Point, jax.Array]:
    """J at theta `(m, p)` with its Hessian `(m p, m p)`, in one pass; see `held_columns`."""
    m, p = theta.shape
    first, second = np.triu_indices(m)

    def sums(block):
        z = _frame.columns(problem, block) if columns is None else columns.T
        scores, freed = seen(spec, problem, block, z, theta)
        if problem.basis is None:  # the trace is all of it
            found = _record.of_one_score(spec.loss.value, scores, block.y)
            bend = (block.weight * found[2])[:, None]
        else:
            found = _record.derivatives(spec.loss, scores, block.y)
            bend = _curvature(spec, problem, block, scores)[:, first, second]
        pull, terms = rest(spec, problem, block, theta, scores, freed, found)
        return (products(z, bend, pull), terms), ()

    (product, terms), _ = _fold.fold(sums, problem.rows, _curved_entries(m))
    pairs = first.size * p
    hess = hessian_of(problem, product[:pairs].reshape(-1, p, p), m)
    return assemble(problem, theta, product[pairs:], terms), hess


def _curved_entries(m: int) -> int:
    """Of x in a block: each column is there once per pair of degrees, and is to stay in cache."""
    return _rows.BLOCK_ENTRIES // max(1, m * (m + 1) // 4)


def seen(spec, problem, block, z, theta) -> tuple[jax.Array, jax.Array | None]:
    """Scores `(rows, K)` of theta, and images `(rows, m)` of its part that may be unpenalised."""
    m, _ = theta.shape
    thetas = [theta]
    if not spec.penalised:
        thetas.append(jnp.where(problem.free[None, :], theta, 0))
    u = _scoring.images(problem, z, jnp.stack(thetas))
    return _scoring.scored(problem, block, u[:, :m]), None if spec.penalised else u[:, m:]


def rest(spec, problem, block, theta, scores, freed, found) -> tuple[jax.Array, jax.Array]:
    """Slopes in the degrees of freedom, and the sums over the rows, see `per_row` and `short`."""
    pull, terms = per_row(block, scores, *found)
    if freed is not None:
        least = _scoring.rounding_of_scores(problem, theta)
        terms.append(_scoring.short(spec, problem, block, freed, least))
    return _frame.in_basis(problem, pull), jnp.stack(terms)


@jax.custom_batching.custom_vmap
def products(z: jax.Array, curve: jax.Array, rest: jax.Array) -> jax.Array:
    """z' diag(curve) z for each column of `curve (rows, r)`, and rest' z, as rows of one product.

    All in one: each reduction of its own is compiled for as long as it. But not of many columns,
    which one array of all would hold twice.
    """
    if z.size * curve.shape[1] <= ACROSS_ENTRIES:
        return _products_across(z, curve, rest)
    curved = (z[:, None, :] * curve[:, :, None]).reshape(z.shape[0], -1)
    if rest.shape[1] > 1:
        return jnp.concatenate([dot(curved.T, z), dot(rest.T, z)])
    return dot(jnp.concatenate([curved, rest], axis=1).T, z)


@products.def_vmap
def _(axis_size, in_batched, z, curve, rest):
    """Lanes that share x share the products of its columns, and each is one row of a product."""
    if not any(in_batched):  # only tangents are of lanes
        return products.fun(z, curve, rest), False
    n, p = z.shape[-2:]
    curve, rest = (
        a if batched else jnp.broadcast_to(a[None], (axis_size, *a.shape))
        for a, batched in zip((curve, rest), in_batched[1:], strict=True)
    )
    if in_batched[0] or p > SHARED_LIMIT:
        return _products_across(z.reshape(-1, n, p), curve, rest), True
    first, second = np.triu_indices(p)
    index = np.zeros((p, p), int)
    index[first, second] = index[second, first] = np.arange(first.size)
    pairs = dot(jnp.swapaxes(curve, 1, 2).reshape(-1, n), z[:, first] * z[:, second])
    square = pairs[:, index].reshape(axis_size, -1, p)
    sums = dot(jnp.swapaxes(rest, 1, 2).reshape(-1, n), z)
    return jnp.concatenate([square, sums.reshape(axis_size, -1, p)], axis=1), True


def _products_across(z: jax.Array, curve: jax.Array, rest: jax.Array) -> jax.Array:
    """As `products`, and of lanes, with rows as columns, which batches well."""
    across, n = jnp.swapaxes(z, -1, -2), z.shape[-2]
    curved = jnp.swapaxes(curve, -1, -2)[..., None, :] * across[..., None, :, :]
    curved = curved.reshape(*curve.shape[:-2], -1, n)
    if rest.shape[-1] == 1:  # the product of a vector is quick by itself
        sums = jnp.swapaxes(dot(across, rest), -1, -2)
        return jnp.concatenate([dot(curved, z), sums], axis=-2)
    rest = jnp.broadcast_to(jnp.swapaxes(rest, -1, -2), (*curved.shape[:-2], rest.shape[-1], n))
    return dot(jnp.concatenate([curved, rest], axis=-2), z)


def _curvature(spec: Spec, problem: Problem, block: _rows.Rows, scores: jax.Array) -> jax.Array:
    """The weighted second derivatives of each row's loss in the basis, `(rows, m, m)`."""
    curve = jax.vmap(jax.hessian(spec.loss.value))(scores, block.y)
    curve = _frame.in_basis(problem, jnp.swapaxes(_frame.in_basis(problem, curve), 1, 2))
    return block.weight[:, None, None] * curve


def hessian_of(problem: Problem, blocks: jax.Array, m: int) -> jax.Array:
    """The Hessian `(m p, m p)` of sums of curved rows, see `whole`, and of the penalty."""
    scale = problem.spread[:, None] * problem.spread[None, :]
    # A coordinate out of play has curvature 1 and stands alone.
    diagonal = jnp.where(_frame.inert(problem), 1, problem.penalty[None, :])
    return _linalg.raised(whole(blocks * scale[None], m), diagonal.reshape(1, -1))


def whole(blocks: jax.Array, m: int) -> jax.Array:
    """The symmetric `(m p, m p)` of the blocks of its upper triangle, `(m (m + 1) / 2, p, p)`."""
    first, second = np.triu_indices(m)
    index = np.zeros((m, m), int)
    index[first, second] = index[second, first] = np.arange(first.size)
    size = m * blocks.shape[-1]
    return jnp.swapaxes(blocks[index], 1, 2).reshape(size, size)


def assemble(problem: Problem, theta: jax.Array, columns: jax.Array, terms: jax.Array) -> Point:
    """The point, of the products of slopes with the columns, and of the sums of `rest`."""
    grad = gradient_of(problem, theta, columns)
    value, square, tilt, curve, *counted = terms
    eps = jnp.finfo(theta.dtype).eps
    # Where all weights have a penalty only the biases are free, which no two classes agree with.
    unclear = counted[0] if counted else jnp.any(problem.used).astype(theta.dtype)
    # What rounds all scores alike: the bias in the frame, in each of them; and in the user's units,
    # where it is rounded once, see `_frame.left`.
    biases = _frame.of_basis(problem, _frame.offsets(problem, theta))
    own = jnp.sum(jnp.abs(theta[:, problem.centre.size :]))
    moved = NOISE_ULPS * own + jnp.max(jnp.abs(biases))
    return Point(
        theta=theta,
        value=value + jnp.sum(problem.penalty[None, :] * theta**2) / 2,
        grad=grad,
        residual=residual(problem, grad),
        noise=eps * (NOISE_ULPS * (jnp.sqrt(square) + tilt) + curve * moved),
        curve=curve,
        short=unclear,
    )


def gradient_of(problem: Problem, theta: jax.Array, columns: jax.Array) -> jax.Array:
    return columns * problem.spread[None, :] + problem.penalty[None, :] * theta


def residual(problem: Problem, grad: jax.Array) -> jax.Array:
    """The largest entry of the gradient in the scores, for centred columns of unit variance."""
    d = problem.centre.size
    # Moving a weight of a centred column moves the bias against it.
    last = grad[:, d:] if grad.shape[1] > d else jnp.zeros_like(grad[:, :1])
    centred = grad - problem.shift[None, :] * last
    return _linalg.largest(jnp.abs(_frame.of_basis(problem, centred) * problem.unit[None, :]))


def mean_curvature(spec: Spec, problem: Problem, theta: jax.Array) -> jax.Array:
    """The mean over the degrees of freedom of the loss's part of the Hessian's blocks, `(p, p)`."""
    scale = problem.spread[:, None] * problem.spread[None, :]
    return scale * _curved(spec, problem, theta, lambda z, curve: dot((z * curve[:, None]).T, z))


def mean_diagonal(spec: Spec, problem: Problem, theta: jax.Array) -> jax.Array:
    """The diagonal of `mean_curvature`, `(p,)`."""

    def product(z, curve):
        if isinstance(z, _frame.View):
            return _frame.powers(curve[None], z, 2)[0]
        return jnp.sum(z * curve[:, None] * z, 0)

    return problem.spread**2 * _curved(spec, problem, theta, product, _frame.view)


def _curved(spec, problem, theta, product, columns=_frame.columns):
    """The sum over the rows of `product(z, curve)`, per degree of freedom.

    The trace of a row's second derivatives is the same in all scores and in the basis.
    """

    def sums(block):
        z = columns(problem, block)
        scores = _scoring.live(block, _scoring.scores_of(problem, block, z, theta))
        return product(z, block.weight * _record.derivatives(spec.loss, scores, block.y)[2]), ()

    used = jnp.maximum(jnp.sum(problem.used), 1).astype(theta.dtype)
    entries = _rows.BLOCK_ENTRIES
    if columns is _frame.view:
        entries = _rows.pass_entries(problem.rows.x)
    return _fold.fold(sums, problem.rows, entries)[0] / used


def regular(problem: Problem, diagonal: jax.Array) -> jax.Array:
    """What is added to a diagonal of curvature: penalties, and enough to have an inverse."""
    info = jnp.finfo(diagonal.dtype)
    ridge = problem.penalty + jnp.sqrt(info.eps) * diagonal + info.tiny
    # A coordinate out of play has curvature 1 and stands alone.
    return jnp.where(problem.spread > 0, ridge, 1)


@functools.cache
def hessian(spec: Spec) -> Callable[[jax.Array, Problem], jax.Array]:
    """The Hessian at a flat theta, as a solver takes it."""

    def hessian(flat, problem):
        theta = flat.reshape(-1, problem.spread.size)
        return measure(spec, problem, theta)[1]

    return hessian

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

from jaxlin import _linalg, solvers
from jaxlin._base import _mesh
from jaxlin._data import _fold, _rows
from jaxlin._linalg import dot
from jaxlin._smooth import _frame
from jaxlin._smooth._frame import Problem

# The sums of a pass, and the scores they are made of, are trusted to so many units of rounding.
NOISE_ULPS = 4
# Up to so many columns the products of all pairs of them fit in cache.
SHARED_LIMIT = 64
# Up to so many entries of the curved columns products are quicker with rows as columns: 1.3 to 3
# times in float32, 1.1 to 2 in float64.
ACROSS_ENTRIES = 50_000
# Entries of x in a block of a pass without Hessian: half as many keep only one of two cores busy.
LIGHT_ENTRIES = 2 * _rows.BLOCK_ENTRIES
# An x of so many entries, and of so many columns (of fewer, three numbers for each row are much
# beside x), whose means are no more than so many deviations from 0, is multiplied as it lies.
PLAIN_ENTRIES, PLAIN_COLUMNS, PLAIN_CENTRE = 4 * LIGHT_ENTRIES, 24, 8


class Agreement(NamedTuple):
    """What scores `(K,)` should satisfy, as numbers `(q,)` linear in them.

    value: nonnegative where the scores agree with the label
    sign: the derivative of each value in the score of the same index
    tight: bool, must be 0, because the label allows several classes
    inert: bool, says nothing
    """

    value: jax.Array
    sign: jax.Array
    tight: jax.Array
    inert: jax.Array


class Bend(NamedTuple):
    """A loss and its derivatives in the scores of many rows at once, as vectors want them.

    sides: `f(scores (K, rows), y)` -> the loss `(rows,)`, its slope `(K, rows)`, and what its
      second derivatives are made of, `kept (K, rows)`
    product: `f(kept, moved (K, rows))` -> `(K, rows)`, these times a move of the scores
    diagonal: `f(kept)` -> `(K, rows)`, of these
    """

    sides: Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array, jax.Array]]
    product: Callable[[jax.Array, jax.Array], jax.Array]
    diagonal: Callable[[jax.Array], jax.Array]


class Spec(NamedTuple):
    """What is static about a fit.

    loss: `f(scores (K,), y)` of one example, smooth and convex
    curvature: `f(scores (K,), y)`, the trace of its second derivatives or a bound of it; None for
      the second derivative of one score
    agreement: `f(scores (K,), y)` -> Agreement; an absent class's score is `_frame.NEVER`
    solver: of `solvers`, or None for the default by size
    bias: whether there is one
    complete: whether the program holds the paths that few problems take, or only says that one is
      needed
    penalised: whether every l2 is positive, where that matters and is known
    bend: or None, and then large problems are not solved by products with the Hessian
    polished: whether Newton's method tries a step after the residual has passed
    log_odds: whether the one score is the log odds of class 1, and the loss that of its probability
    """

    loss: Callable[[jax.Array, jax.Array], jax.Array]
    curvature: Callable[[jax.Array, jax.Array], jax.Array] | None
    agreement: Callable[[jax.Array, jax.Array], Agreement]
    solver: solvers.Solver | None
    bias: bool
    complete: bool = True
    penalised: bool | None = None
    bend: Bend | None = None
    polished: bool = True
    log_odds: bool = False


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


def scored(problem: Problem, block: _rows.Rows, u: jax.Array) -> jax.Array:
    """The scores `(rows, K)` of `u (rows, m)`, with offset; 0 in rows without weight."""
    return live(block, _moved(block, _frame.scores(problem, u)))


def scores_of(problem: Problem, block: _rows.Rows, z: jax.Array, theta: jax.Array) -> jax.Array:
    """The scores `(rows, K)` of theta, with offset, in one product; see `live`."""
    scores = dot(z, spread_rows(problem, _frame.of_basis(problem, theta)[None]))
    if problem.basis is not None:
        scores = scores + _frame.never(problem)[None, :]
    return _moved(block, scores)


def bend_of(spec: Spec) -> Bend:
    """The spec's own, or that of any loss of one score."""
    if spec.bend is not None:
        return spec.bend

    def sides(scores, y):
        value, slope, curve = derivatives(spec, scores.T, y)
        return value, slope.T, curve[None]

    return Bend(sides, jnp.multiply, lambda kept: kept)


def in_front(problem: Problem, block: _rows.Rows, scores: jax.Array) -> jax.Array:
    """Scores `(K, rows)` with offset, those of absent classes as they are to be."""
    if problem.basis is not None:
        scores = scores + _frame.never(problem)[:, None]
    if block.offset is not None:
        scores = scores + block.offset.reshape(scores.shape[1], -1).T
    return scores


def live(block: _rows.Rows, scores: jax.Array) -> jax.Array:
    """0 in rows without weight, where scores could overflow."""
    return jnp.where((block.weight > 0)[:, None], scores, 0)


def _moved(block: _rows.Rows, scores: jax.Array) -> jax.Array:
    return scores if block.offset is None else scores + block.offset.reshape(scores.shape)


def derivatives(
    spec: Spec, scores: jax.Array, y: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Each row's loss `(rows,)`, its slope `(rows, K)`, and `spec.curvature (rows,)`."""
    if spec.curvature is None:
        return _of_one_score(spec, scores, y)
    value, slope = jax.vmap(jax.value_and_grad(spec.loss))(scores, y)
    return value, slope, jax.vmap(spec.curvature)(scores, y)


def _of_one_score(spec, scores, y):
    """As `derivatives`, with the second derivative.

    All three at once. Each alone would begin from y, which loops hold for each alone, and so would
    take an exponential of its own.
    """

    def of_row(scores, y):
        def with_slope(scores):
            value, slope = jax.value_and_grad(spec.loss)(scores, y)
            return value, (value, slope)

        curve, (value, slope) = jax.hessian(with_slope, has_aux=True)(scores)
        return value, slope, curve[0, 0]

    return jax.vmap(of_row)(scores, y)


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


def agreed(spec: Spec, problem: Problem, block: _rows.Rows, u: jax.Array) -> Agreement:
    """What `u (rows, ..., m)` without offset agrees with, `(rows, ..., q)`."""

    def of_row(u, y):
        scores = _frame.scores(problem, u.reshape(-1, u.shape[-1]))
        return jax.vmap(spec.agreement, in_axes=(0, None))(scores, y)

    flat = jax.vmap(of_row)(u, block.y)
    return jax.tree.map(lambda a: a.reshape(*u.shape[:-1], -1), flat)


def short(spec: Spec, problem: Problem, block: _rows.Rows, u: jax.Array, least) -> jax.Array:
    """How many rows do not agree with their `u (rows, m)` by more than `least`.

    A count, because a sum over rows is a product, and a minimum is not.
    """
    value, _, tight, inert = agreed(spec, problem, block, u)
    clear = jnp.all(inert | (~tight & (value > least)), axis=1)
    return _linalg.inner((block.weight > 0).astype(u.dtype), (~clear).astype(u.dtype))


def extremes(spec: Spec, problem: Problem, theta: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The least agreement with the scores of theta, offsets left out, and their largest size."""

    def maxima(block):
        u = _images(problem, _frame.columns(problem, block), theta[None])
        value, _, tight, inert = agreed(spec, problem, block, u)
        margin = jnp.where(inert, jnp.inf, jnp.where(tight, -jnp.abs(value), value))
        both = jnp.stack([-jnp.min(margin, axis=1), jnp.max(jnp.abs(u), axis=1)], axis=1)
        return (), jnp.max(jnp.where((block.weight > 0)[:, None], both, -jnp.inf), axis=0)

    _, (worst, reach) = _fold.fold(maxima, problem.rows)
    return -worst, reach


def _images(problem: Problem, z: jax.Array, thetas: jax.Array) -> jax.Array:
    """Scores `(rows, s m)` of thetas `(s, m, p)`.

    The product is taken the other way round, so that lanes that share z have each its scores in
    one piece.
    """
    return dot(spread_rows(problem, thetas).T, z.T).T


def spread_rows(problem: Problem, thetas: jax.Array) -> jax.Array:
    """Thetas `(s, m, p)` as columns `(p, s m)` that a row of the frame is multiplied with."""
    return (thetas * problem.spread[None, None, :]).reshape(-1, problem.spread.size).T


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
        scores, freed = _seen(spec, problem, block, z, theta)
        if problem.basis is None:  # the trace is all of it
            found = _of_one_score(spec, scores, block.y)
            bend = (block.weight * found[2])[:, None]
        else:
            found = derivatives(spec, scores, block.y)
            bend = _curvature(spec, problem, block, scores)[:, first, second]
        pull, terms = _rest(spec, problem, block, theta, scores, freed, found)
        return (products(z, bend, pull), terms), ()

    (product, terms), _ = _fold.fold(sums, problem.rows, _curved_entries(m))
    pairs = first.size * p
    hess = hessian_of(problem, product[:pairs].reshape(-1, p, p), m)
    return assemble(problem, theta, product[pairs:], terms), hess


def _curved_entries(m: int) -> int:
    """Of x in a block: each column is there once per pair of degrees, and is to stay in cache."""
    return _rows.BLOCK_ENTRIES // max(1, m * (m + 1) // 4)


def _seen(spec, problem, block, z, theta) -> tuple[jax.Array, jax.Array | None]:
    """Scores `(rows, K)` of theta, and images `(rows, m)` of its part that may be unpenalised."""
    m, _ = theta.shape
    thetas = [theta]
    if not spec.penalised:
        thetas.append(jnp.where(problem.free[None, :], theta, 0))
    u = _images(problem, z, jnp.stack(thetas))
    return scored(problem, block, u[:, :m]), None if spec.penalised else u[:, m:]


def _rest(spec, problem, block, theta, scores, freed, found) -> tuple[jax.Array, jax.Array]:
    """Slopes in the degrees of freedom, and the sums over the rows, see `per_row` and `short`."""
    pull, terms = per_row(block, scores, *found)
    if freed is not None:
        terms.append(short(spec, problem, block, freed, rounding_of_scores(problem, theta)))
    return _frame.in_basis(problem, pull), jnp.stack(terms)


def rounding_of_scores(problem: Problem, theta: jax.Array) -> jax.Array:
    """Twice the rounding of the frame, of a score in it, and of the bias that leaves it."""
    largest = jnp.sum(jnp.abs(theta) * problem.sizes[1][None, :])
    return (theta.size + 4) * jnp.finfo(theta.dtype).eps * largest


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
    curve = jax.vmap(jax.hessian(spec.loss))(scores, block.y)
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


def light(spec: Spec, problem: Problem, theta: jax.Array) -> Point:
    """J without its Hessian, in one pass."""
    # Else the free part of theta has scores of its own.
    if spec.penalised and _may_be_plain(problem):
        return _alone(_light_at_once, _light_by_blocks)(spec, problem, theta)
    return _light_by_blocks(spec, problem, theta)


def light_entries(problem: Problem) -> int:
    """Of x in a block of a pass without Hessian: more of many, for the products' sake."""
    if isinstance(problem.rows, _rows.Streamed):
        return LIGHT_ENTRIES
    return max(LIGHT_ENTRIES, min(4 * LIGHT_ENTRIES, problem.rows.x.size // 32))


def _light_by_blocks(spec, problem, theta):
    def sums(block):
        z = _frame.columns(problem, block)
        scores, freed = _seen(spec, problem, block, z, theta)
        found = derivatives(spec, scores, block.y)
        pull, terms = _rest(spec, problem, block, theta, scores, freed, found)
        return (_pulled(pull, z), terms), ()

    return assemble(problem, theta, *_fold.fold(sums, problem.rows, light_entries(problem))[0])


def _light_at_once(spec, problem, theta):
    rows = problem.rows
    scores = _scores_at_once(problem, theta.reshape(-1))
    found = derivatives(spec, scores, rows.y)
    pull, terms = _rest(spec, problem, rows, theta, scores, None, found)
    return assemble(problem, theta, _columns_at_once(problem, pull[:, 0])[None], terms)


def _pulled(pull: jax.Array, z: jax.Array) -> jax.Array:
    """The sum of z over the rows, by each column of `pull`: `(columns, p)`.

    For one alone the compiler is told of a vector: of a matrix it would use half the cores.
    """
    return dot(pull.T, z) if pull.shape[1] > 1 else dot(pull[:, 0], z)[None]


def assemble(problem: Problem, theta: jax.Array, columns: jax.Array, terms: jax.Array) -> Point:
    """The point, of the products of slopes with the columns, and of the sums of `_rest`."""
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


def flat_gradient(spec: Spec, problem: Problem, flat: jax.Array) -> jax.Array:
    """dJ/dtheta, differentiable in everything; coordinates out of play give themselves back."""
    theta = flat.reshape(-1, problem.spread.size)

    def sums(block):
        z, scores = _row_scores(problem, block, theta)
        slope = jax.vmap(jax.grad(spec.loss))(scores, block.y)
        pull = block.weight[:, None] * jnp.where(block.ok[:, None], slope, 0)
        return dot(_frame.in_basis(problem, pull).T, z), ()

    columns, _ = _fold.fold(sums, problem.rows)
    grad = gradient_of(problem, theta, columns)
    return jnp.where(_frame.inert(problem), theta, grad).reshape(-1)


def flat_value(spec: Spec, problem: Problem, flat: jax.Array) -> jax.Array:
    """J, differentiable in everything."""
    theta = flat.reshape(-1, problem.spread.size)

    def sums(block):
        _, scores = _row_scores(problem, block, theta)
        value = jax.vmap(spec.loss)(scores, block.y)
        return jnp.sum(block.weight * jnp.where(block.ok, value, 0)), ()

    value, _ = _fold.fold(sums, problem.rows)
    return value + jnp.sum(problem.penalty[None, :] * theta**2) / 2


def _row_scores(
    problem: Problem, block: _rows.Rows, theta: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The columns, and the scores `(rows, K)` of theta.

    Masked by what a row holds, not by its weight, whose derivative is wanted at 0 too.
    """
    z = _frame.columns(problem, block)
    scores = _frame.scores(problem, dot(z, spread_rows(problem, theta[None])))
    return z, _mesh.where_rows(block.ok, _moved(block, scores))


@functools.cache
def objective(spec: Spec) -> Callable[[jax.Array, Problem], jax.Array]:
    """J of a flat theta, as a solver takes it, value and gradient from the same pass.

    Not differentiable in the data.
    """

    @jax.custom_vjp
    def objective(theta, problem):
        return _value_and_gradient(spec, problem, theta)[0]

    def forward(theta, problem):
        return _value_and_gradient(spec, problem, theta)

    def backward(grad, tangent):
        return grad * tangent, None

    objective.defvjp(forward, backward)
    # A line search may try points of another dtype.
    return lambda theta, problem: objective(theta.astype(problem.spread.dtype), problem)


def _value_and_gradient(spec, problem, flat):
    if _may_be_plain(problem):
        return _alone(_at_once, _by_blocks)(spec, problem, flat)
    return _by_blocks(spec, problem, flat)


def _may_be_plain(problem: Problem) -> bool:
    """Whether all of x might be multiplied as it lies, and held a number for each row."""
    rows = problem.rows
    if isinstance(rows, _rows.Streamed) or rows.axis.name is not None or problem.basis is not None:
        return False
    as_it_is = rows.x.dtype == problem.spread.dtype and rows.feature_mask is None
    return as_it_is and rows.x.size >= PLAIN_ENTRIES and rows.x.shape[1] >= PLAIN_COLUMNS


def _alone(at_once, by_blocks):
    """The pass `at_once`, twice as fast, where there are no lanes and the rows are fit for it."""

    def either(spec, problem, theta):
        blocks = functools.partial(by_blocks, spec)

        @jax.custom_batching.custom_vmap
        def alone(problem, theta):
            plain = jnp.all(problem.rows.ok) & jnp.all(problem.sizes[0] <= PLAIN_CENTRE)
            found = at_once(spec, problem, theta)
            return _linalg.when(~plain, blocks, found, (problem, theta))

        @alone.def_vmap
        def _(axis_size, in_batched, problem, theta):
            axes = jax.tree.map(lambda batched: 0 if batched else None, tuple(in_batched))
            found = jax.vmap(blocks, in_axes=axes, axis_size=axis_size)(problem, theta)
            return found, jax.tree.map(lambda _: True, found)

        return alone(problem, theta)

    return either


def _at_once(spec, problem, flat):
    """From x as it lies, one score a row."""
    rows = problem.rows
    scores = _scores_at_once(problem, flat)
    value, slope = jax.vmap(jax.value_and_grad(spec.loss))(scores, rows.y)
    grad = _columns_at_once(problem, rows.weight * slope[:, 0])
    value = _linalg.inner(rows.weight, value) + jnp.sum(problem.penalty * flat**2) / 2
    return value, gradient_of(problem, flat[None], grad[None])[0]


def _scores_at_once(problem: Problem, flat: jax.Array) -> jax.Array:
    """`(n, 1)`, with offset."""
    rows, d = problem.rows, problem.centre.size
    along = flat[:d] * _frame.unscaled(problem)
    bias = jnp.sum(flat[d:]) - dot(along, problem.centre)
    return live(rows, _moved(rows, (dot(rows.x, along) + bias)[:, None]))


def _columns_at_once(problem: Problem, pull: jax.Array) -> jax.Array:
    """The sum of the frame's columns over the rows by `pull (n,)`: `(p,)`."""
    total = jnp.sum(pull)
    moved = _linalg.combination(pull, problem.rows.x) - total * problem.centre
    return _frame.with_bias(moved * problem.scale, total, problem.spread.size > moved.size)


def _by_blocks(spec, problem, flat):
    theta = flat.reshape(-1, problem.spread.size)

    def sums(block):
        z = _frame.columns(problem, block)
        scores = live(block, scores_of(problem, block, z, theta))
        value, slope = jax.vmap(jax.value_and_grad(spec.loss))(scores, block.y)
        return (jnp.sum(block.weight * value), _pulled(block.weight[:, None] * slope, z)), ()

    (value, columns), _ = _fold.fold(sums, problem.rows, light_entries(problem))
    value = value + jnp.sum(problem.penalty[None, :] * theta**2) / 2
    grad = gradient_of(problem, theta, _frame.in_basis(problem, columns.T).T)
    return value, grad.reshape(-1)


def mean_curvature(spec: Spec, problem: Problem, theta: jax.Array) -> jax.Array:
    """The mean over the degrees of freedom of the loss's part of the Hessian's blocks, `(p, p)`."""
    scale = problem.spread[:, None] * problem.spread[None, :]
    return scale * _curved(spec, problem, theta, lambda z, curve: dot((z * curve[:, None]).T, z))


def mean_diagonal(spec: Spec, problem: Problem, theta: jax.Array) -> jax.Array:
    """The diagonal of `mean_curvature`, `(p,)`."""
    return problem.spread**2 * _curved(
        spec, problem, theta, lambda z, curve: jnp.sum(z * curve[:, None] * z, 0)
    )


def _curved(spec, problem, theta, product):
    """The sum over the rows of `product(z, curve)`, per degree of freedom.

    The trace of a row's second derivatives is the same in all scores and in the basis.
    """

    def sums(block):
        z = _frame.columns(problem, block)
        scores = live(block, scores_of(problem, block, z, theta))
        return product(z, block.weight * derivatives(spec, scores, block.y)[2]), ()

    used = jnp.maximum(jnp.sum(problem.used), 1).astype(theta.dtype)
    return _fold.fold(sums, problem.rows)[0] / used


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


def value_at_origin(spec: Spec, problem: Problem) -> jax.Array:
    """J where theta is 0, which needs no pass over x."""
    return _mean_at_origin(spec.loss, problem)


def curve_at_origin(spec: Spec, problem: Problem) -> jax.Array:
    """The loss's mean second derivative, per degree of freedom, where theta is 0."""
    used = jnp.maximum(jnp.sum(problem.used), 1).astype(problem.spread.dtype)

    def of_row(scores, y):
        return derivatives(spec, scores[None], y[None])[2][0]

    return _mean_at_origin(of_row, problem) / used


def _mean_at_origin(f: Callable, problem: Problem) -> jax.Array:
    rows, dtype = problem.rows, problem.spread.dtype
    hard = not isinstance(rows, _rows.Streamed) and rows.y.dtype == jnp.int32
    if hard and rows.offset is None:
        # All rows of a class are alike.
        k = 2 if problem.basis is None else len(problem.basis)
        scores = _frame.scores(problem, jnp.zeros((1, problem.used.size), dtype))[0]
        of_class = jax.vmap(f, in_axes=(None, 0))(scores, jnp.arange(k, dtype=jnp.int32))

        def sums(block):
            return _linalg.inner(block.weight, of_class[block.y]), ()

        return _fold.fold(sums, rows, light_entries(problem))[0]

    def sums_of_each(block):
        nothing = jnp.zeros((block.weight.size, problem.used.size), dtype)
        each = jax.vmap(f)(scored(problem, block, nothing), block.y)
        return jnp.sum(block.weight * each), ()

    return _fold.fold(sums_of_each, rows)[0]


def origin(problem: Problem, value: jax.Array) -> Point:
    """theta = 0 before anything but its objective is known; infinite: any other is better."""
    unknown = jnp.full((), jnp.inf, problem.spread.dtype)
    nothing = jnp.zeros((problem.used.size, problem.spread.size), problem.spread.dtype)
    return Point(
        theta=nothing,
        value=value,
        grad=nothing,
        residual=unknown,
        noise=unknown,
        curve=unknown,
        short=unknown,
    )


def slopes(spec: Spec, problem: Problem, block: _rows.Rows, theta: jax.Array) -> jax.Array:
    """The weighted slope of each row's loss in its scores, `(rows, K)`."""
    scores = scores_of(problem, block, _frame.columns(problem, block), theta)
    slope = jax.vmap(jax.grad(spec.loss))(live(block, scores), block.y)
    return block.weight[:, None] * slope

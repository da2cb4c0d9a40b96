"""Passes without a Hessian: value and gradient, by blocks or with x as it lies."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _batched, _mesh
from jaxlin._data import _fold, _rows
from jaxlin._linalg import dot
from jaxlin._smooth import _frame, _passes, _record, _scoring
from jaxlin._smooth._frame import Problem
from jaxlin._smooth._passes import Point
from jaxlin._smooth._record import Spec

# Entries of x in a block of a pass without Hessian: half as many keep only one of two cores busy.
LIGHT_ENTRIES = 2 * _rows.BLOCK_ENTRIES
# An x of so many entries, and of so many columns (of fewer, three numbers for each row are much
# beside x), whose means are no more than so many deviations from 0, is multiplied as it lies.
PLAIN_ENTRIES, PLAIN_COLUMNS, PLAIN_CENTRE = 4 * LIGHT_ENTRIES, 24, 8


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
    if _frame.is_sparse(problem.rows):
        return _rows.pass_entries(problem.rows.x)
    return max(LIGHT_ENTRIES, min(4 * LIGHT_ENTRIES, problem.rows.x.size // 32))


def _light_by_blocks(spec, problem, theta):
    def sums(block):
        z = _frame.view(problem, block)
        scores, freed = _passes.seen(spec, problem, block, z, theta)
        found = _record.derivatives(spec.loss, scores, block.y)
        pull, terms = _passes.rest(spec, problem, block, theta, scores, freed, found)
        return (_pulled(pull, z), terms), ()

    (columns, terms), _ = _fold.fold(sums, problem.rows, light_entries(problem))
    return _passes.assemble(problem, theta, columns, terms)


def _light_at_once(spec, problem, theta):
    rows = problem.rows
    scores = _scores_at_once(problem, theta.reshape(-1))
    found = _record.derivatives(spec.loss, scores, rows.y)
    pull, terms = _passes.rest(spec, problem, rows, theta, scores, None, found)
    return _passes.assemble(problem, theta, _columns_at_once(problem, pull[:, 0])[None], terms)


def _pulled(pull: jax.Array, z: Any) -> jax.Array:
    """The sum of z over the rows, by each column of `pull`: `(columns, p)`.

    For one alone the compiler is told of a vector: of a matrix it would use half the cores.
    """
    if isinstance(z, _frame.View):
        return _frame.along(pull.T, z)
    return dot(pull.T, z) if pull.shape[1] > 1 else dot(pull[:, 0], z)[None]


def flat_gradient(spec: Spec, problem: Problem, flat: jax.Array) -> jax.Array:
    """dJ/dtheta, differentiable in everything; coordinates out of play give themselves back."""
    theta = flat.reshape(-1, problem.spread.size)

    def sums(block):
        z, scores = _row_scores(problem, block, theta)
        slope = jax.vmap(jax.grad(spec.loss.value))(scores, block.y)
        pull = block.weight[:, None] * jnp.where(block.ok[:, None], slope, 0)
        return _frame.along(_frame.in_basis(problem, pull).T, z), ()

    columns, _ = _fold.fold(sums, problem.rows, _rows.pass_entries(problem.rows.x))
    grad = _passes.gradient_of(problem, theta, columns)
    return jnp.where(_frame.inert(problem), theta, grad).reshape(-1)


def flat_value(spec: Spec, problem: Problem, flat: jax.Array) -> jax.Array:
    """J, differentiable in everything."""
    theta = flat.reshape(-1, problem.spread.size)

    def sums(block):
        _, scores = _row_scores(problem, block, theta)
        value = jax.vmap(spec.loss.value)(scores, block.y)
        return jnp.sum(block.weight * jnp.where(block.ok, value, 0)), ()

    value, _ = _fold.fold(sums, problem.rows, _rows.pass_entries(problem.rows.x))
    return value + jnp.sum(problem.penalty[None, :] * theta**2) / 2


def _row_scores(problem: Problem, block: _rows.Rows, theta: jax.Array) -> tuple[Any, jax.Array]:
    """The columns, and the scores `(rows, K)` of theta.

    Masked by what a row holds, not by its weight, whose derivative is wanted at 0 too.
    """
    z = _frame.view(problem, block)
    scores = _frame.scores(problem, _frame.times(z, _scoring.spread_rows(problem, theta[None])))
    return z, _mesh.where_rows(block.ok, _scoring.moved(block, scores))


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
    if _frame.is_sparse(rows):
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
            found = _batched.each(blocks, axis_size, in_batched)(problem, theta)
            return found, _batched.all_of(found)

        return alone(problem, theta)

    return either


def _at_once(spec, problem, flat):
    """From x as it lies, one score a row."""
    rows = problem.rows
    scores = _scores_at_once(problem, flat)
    value, slope = jax.vmap(jax.value_and_grad(spec.loss.value))(scores, rows.y)
    grad = _columns_at_once(problem, rows.weight * slope[:, 0])
    value = _linalg.inner(rows.weight, value) + jnp.sum(problem.penalty * flat**2) / 2
    return value, _passes.gradient_of(problem, flat[None], grad[None])[0]


def _scores_at_once(problem: Problem, flat: jax.Array) -> jax.Array:
    """`(n, 1)`, with offset."""
    rows, d = problem.rows, problem.centre.size
    along = flat[:d] * _frame.unscaled(problem)
    bias = jnp.sum(flat[d:]) - dot(along, problem.centre)
    return _scoring.live(rows, _scoring.moved(rows, (dot(rows.x, along) + bias)[:, None]))


def _columns_at_once(problem: Problem, pull: jax.Array) -> jax.Array:
    """The sum of the frame's columns over the rows by `pull (n,)`: `(p,)`."""
    total = jnp.sum(pull)
    moved = _linalg.combination(pull, problem.rows.x) - total * problem.centre
    return _frame.with_bias(moved * problem.scale, total, problem.spread.size > moved.size)


def _by_blocks(spec, problem, flat):
    theta = flat.reshape(-1, problem.spread.size)

    def sums(block):
        z = _frame.view(problem, block)
        scores = _scoring.live(block, _scoring.scores_of(problem, block, z, theta))
        value, slope = jax.vmap(jax.value_and_grad(spec.loss.value))(scores, block.y)
        return (jnp.sum(block.weight * value), _pulled(block.weight[:, None] * slope, z)), ()

    (value, columns), _ = _fold.fold(sums, problem.rows, light_entries(problem))
    value = value + jnp.sum(problem.penalty[None, :] * theta**2) / 2
    grad = _passes.gradient_of(problem, theta, _frame.in_basis(problem, columns.T).T)
    return value, grad.reshape(-1)


def value_at_origin(spec: Spec, problem: Problem) -> jax.Array:
    """J where theta is 0, which needs no pass over x."""
    return _mean_at_origin(spec.loss.value, problem)


def curve_at_origin(spec: Spec, problem: Problem) -> jax.Array:
    """The loss's mean second derivative, per degree of freedom, where theta is 0."""
    used = jnp.maximum(jnp.sum(problem.used), 1).astype(problem.spread.dtype)

    def of_row(scores, y):
        return _record.derivatives(spec.loss, scores[None], y[None])[2][0]

    return _mean_at_origin(of_row, problem) / used


def _mean_at_origin(f: Callable, problem: Problem) -> jax.Array:
    rows, dtype = problem.rows, problem.spread.dtype
    parts = rows.classes * rows.scale if isinstance(rows, _rows.Streamed) else None
    soft = rows.x.form.labels if isinstance(rows, _rows.Streamed) else rows.y.dtype != jnp.int32
    if not soft and rows.offset is None:
        # All rows of a class are alike.
        k = 2 if problem.basis is None else len(problem.basis)
        scores = _frame.scores(problem, jnp.zeros((1, problem.used.size), dtype))[0]
        of_class = jax.vmap(f, in_axes=(None, 0))(scores, jnp.arange(k, dtype=jnp.int32))
        if parts is not None:
            return _linalg.inner(parts, of_class)

        def sums(block):
            return _linalg.inner(block.weight, of_class[block.y]), ()

        return _fold.fold(sums, rows, light_entries(problem))[0]

    def sums_of_each(block):
        nothing = jnp.zeros((block.weight.size, problem.used.size), dtype)
        each = jax.vmap(f)(_scoring.scored(problem, block, nothing), block.y)
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

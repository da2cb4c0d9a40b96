"""Params as an estimate: the derivatives of J at them, row by row, and whether they minimise it.

J = sum_i c_i loss(s_i, y_i) + 1/2 sum_j l2_j |w_j|^2 as a fit minimises it, c the weights over
their sum, is looked at anew, in the frame of `_frame`. What is asked for may be differentiated.
Shapes as in `_passes`, and `P` the size of the params: flat they are weights row by row, then bias.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from jaxlin import _linalg, losses
from jaxlin._base import _checks, _codes, _mesh
from jaxlin._data import _fold, _prepare, _rows
from jaxlin._linalg import _implicit, dot
from jaxlin._smooth import _frame, _iterate, _passes
from jaxlin._smooth._frame import Problem
from jaxlin.types import Hyperplane, Linear

# decrement * leverage is below this at an optimum, and 1 where there is none, see `_proof`.
PROOF = 0.1
# How far params may be from the minimum, in standard errors.
NEAR = 0.05


class Model(NamedTuple):
    """What is static.

    loss: `f(scores, y)` of one example
    bias: whether there is one
    binary: whether there is one score, a number to the loss
    check: whether params that are not the minimum say nothing
    """

    loss: Callable[[jax.Array, jax.Array], jax.Array]
    bias: bool
    binary: bool
    check: bool

    def of_scores(self, scores: jax.Array, y: jax.Array) -> jax.Array:
        """The loss of one example's scores, `(K,)`."""
        return self.loss(scores[0] if self.binary else scores, y)


def of_numbers(score: jax.Array, t: jax.Array) -> jax.Array:
    """What `losses.squared` is of one row's number t in place of a class, as `regress` has them."""
    return (score - t) ** 2 / 2


class Given(NamedTuple):
    """Arguments of checked shapes; params have zeros where they are out of play.

    reference: the class whose score is 0 in the form asked for, or None for a sum of 0
    """

    params: Hyperplane | Linear
    data: _checks.Table
    l2: jax.Array
    offset: jax.Array | None
    reference: jax.Array | None = None


class Estimate(NamedTuple):
    """Params and what J is like about them.

    total: `()`, the sum of the weights
    number: `()`, the number of rows with weight
    theta: `(m, p)`, the params in the frame
    factor: of the Hessian of J in the frame, `(m p, m p)`: L L'
    parts: `(p, m m p)`, what a column of a row has of L^-1 times the derivatives of its u
    back: `(P, m p)`, the derivative of the flat params in theta, in the form asked for
    of_form: `()`, whether the params are of the form of which `back` is, or one is asked for
    regular: `()`, whether the data are valid and the Hessian has full rank
    optimal: `()`, whether moreover the params are the one finite minimum of J
    """

    problem: Problem
    total: jax.Array
    number: jax.Array
    theta: jax.Array
    factor: _linalg.Factor
    parts: jax.Array
    back: jax.Array
    of_form: jax.Array
    regular: jax.Array
    optimal: jax.Array


def asked(
    loss: Any,
    params: Any,
    x: Any,
    y: Any,
    bias: Any,
    check: Any,
    l2: Any,
    sample_weight: Any,
    feature_mask: Any,
    offset: Any,
    reference: Any = None,
) -> tuple[Model, Given]:
    """The arguments that all of `inference` takes, checked."""
    k = number_of_scores(params)
    kinds = {"sample_weight": sample_weight, "feature_mask": feature_mask}
    if k is None and loss is losses.squared and _is_float(y):
        loss = of_numbers
        data = _checks.targets(x, y, **kinds)
    else:
        data = _checks.table(x, y, soft=True, num_classes=k, **kinds)
    (n, d), dtype = data.x.shape, _checks.working_dtype(data.x)
    lead = () if k is None else (k,)
    arguments = Given(
        params=checked(params, d, dtype),
        data=data,
        l2=_checks.penalty(l2, d, dtype),
        offset=_checks.optional(offset, (n, *lead), dtype, "offset"),
        reference=reference_of(reference, k),
    )
    if not callable(loss):
        raise TypeError(f"loss: expected a function like losses.logistic, got {loss!r}")
    model = Model(
        loss=loss,
        bias=_checks.static(bias, bool, "bias"),
        binary=k is None,
        check=_checks.static(check, bool, "check"),
    )
    return model, arguments


def reference_of(reference: Any, k: int | None) -> jax.Array | None:
    """The index of a class of a Linear; k if a traced one is none."""
    if reference is None:
        return None
    if k is None:
        raise TypeError("reference: a Hyperplane has none, its class 0 has score 0")
    index, lost = _codes.class_index(reference, k, "reference")
    return jnp.where(jnp.isnan(lost), k, index).astype(jnp.int32)


def number_of_scores(params: Any) -> int | None:
    """k of a Linear, None for a Hyperplane, and a TypeError for anything else."""
    if not isinstance(params, Hyperplane | Linear):
        raise TypeError(f"params: expected a Hyperplane or a Linear, got {type(params).__name__}")
    return len(params.bias) if isinstance(params, Linear) else None


def checked(params: Any, d: int, dtype: Any, name: str = "params") -> Any:
    """The params in `dtype`, of d features."""
    lead, width = np.shape(params.bias), np.shape(params.weights)[-1:]
    if width and width[0] < d:
        raise ValueError(
            f"{name}.weights: expected shape {(*lead, d)}, got {np.shape(params.weights)}; a model "
            "of fewer columns is a fit to all of x with feature_mask, False where one is left out"
        )
    return type(params)(
        weights=_checks.shaped(params.weights, (*lead, d), dtype, f"{name}.weights"),
        bias=_checks.shaped(params.bias, lead, dtype, f"{name}.bias"),
    )


def at(model: Model, arguments: Given) -> Estimate:
    """Look at the params."""
    params, data, l2, offset, reference = arguments
    k = None if isinstance(params, Hyperplane) else len(params.bias)
    classes = None if model.loss is of_numbers else k or 2
    rows, total, valid = _prepare.prepare(data, num_classes=classes, offset=offset)
    valid &= jnp.all((l2 >= 0) & jnp.isfinite(l2))
    present = jnp.ones(1, bool) if k is None else ~jnp.isneginf(params.bias)
    valid &= (k is None) | (jnp.sum(present) > 1)
    problem = _make(rows, jnp.where(valid, l2, 0), model.bias, None if k is None else present)
    theta = enter(problem, params)
    valid &= jnp.all(jnp.isfinite(theta))
    theta = jnp.where(valid, theta, 0)
    gradient, hess, problem = _derivatives(model, problem, theta)
    factor = _linalg.factor(hess)
    eps = float(jnp.finfo(theta.dtype).eps)
    regular = valid & ~jnp.any(problem.idle)
    decrement = jnp.linalg.norm(_linalg.half_solve(factor, gradient.reshape(-1)))
    step = -_linalg.solve(factor, gradient.reshape(-1)).reshape(theta.shape)
    # Near in standard errors, or as near as a fit comes in this precision.
    near = jnp.maximum(NEAR / jnp.sqrt(total), 16 * eps ** (2 / 3))
    m, p = theta.shape
    root = _linalg.inverse_root(factor)
    least = _linalg.least_eigenvalue(factor, root)
    regular &= least >= _linalg.RANK_ULPS * theta.size * eps
    parts = root.T.reshape(m, p, m * p) * problem.spread[None, :, None]
    found = Estimate(
        problem=problem,
        total=total,
        number=jnp.sum(rows.weight > 0).astype(theta.dtype),
        theta=theta,
        factor=factor,
        parts=jnp.swapaxes(parts, 0, 1).reshape(p, -1),
        back=_back(model, problem, params, reference),
        of_form=jnp.bool_(True),
        regular=regular,
        optimal=regular,
    )
    proved = decrement * _largest_leverage(found) <= PROOF
    close = decrement <= jnp.minimum(near, eps ** (1 / 3))
    held = _curvature_holds(model, problem, theta, step)
    if k is not None and reference is None:
        found = found._replace(of_form=problem.used[0] | _sums_to_zero(theta[0], theta[1:]))
    return found._replace(optimal=regular & proved & close & held)


def _sums_to_zero(along: jax.Array, theta: jax.Array) -> jax.Array:
    """Whether scores sum to zero, given what params have `along` the sum `(p,)`, and the others."""
    eps = jnp.finfo(theta.dtype).eps
    size = jnp.max(jnp.abs(theta), initial=0)
    return jnp.max(jnp.abs(along)) <= jnp.sqrt(eps) * size + 64 * eps


def is_symmetric(problem: Problem, params: Linear, present: jax.Array) -> jax.Array:
    """Whether the scores of params sum to zero over the classes present, or are no numbers."""
    along = present.astype(problem.spread.dtype)[:, None]
    along = along * jax.lax.rsqrt(jnp.maximum(jnp.sum(along), 1))
    own = enter(problem._replace(basis=along), params)[0]
    return _sums_to_zero(own, enter(problem, params)) | ~jnp.all(jnp.isfinite(own))


def in_form(params: Linear, present: jax.Array, reference: jax.Array) -> Linear:
    """Params, or derivatives of them, in the form in which class `reference` has score 0.

    0 for a class that is absent; NaN throughout if the reference is.
    """
    k = present.size
    at = jnp.minimum(reference, k - 1)
    lost = jnp.where((reference < k) & present[at], 0, jnp.nan).astype(params.bias.dtype)

    def one(a):
        here = present.reshape(-1, *(1,) * (a.ndim - 1))
        return jnp.where(here, a - a[at][None], 0) + lost

    return jax.tree.map(one, params)


def _curvature_holds(model: Model, problem: Problem, theta: jax.Array, step: jax.Array):
    """Whether the curvature along the Newton step stays: far out in a tail it falls with it."""
    size = jnp.max(jnp.abs(step))
    unit = step / jnp.where(size > 0, size, 1)

    def sums(block):
        z, *_, before = _row_derivatives(model, problem, theta, block)
        *_, after = _row_derivatives(model, problem, theta + step, block)
        u = dot(z, (unit * problem.spread[None, :]).T)
        curves = jnp.stack([before, after], axis=1)
        forms = jnp.sum(u[:, None, :, None] * curves * u[:, None, None, :], axis=(2, 3))
        return jnp.sum(block.weight[:, None] * forms, axis=0), ()

    (before, after), _ = _fold.fold(sums, problem.rows)
    penalty = jnp.sum(problem.penalty[None, :] * unit**2)
    return after + penalty >= _iterate.CURVATURE_HELD * (before + penalty)


def whole(model: Model, e: Estimate, block: _rows.Rows) -> tuple[jax.Array, ...]:
    """Of a block: columns `(rows, p)`, scores, slopes in u `(rows, m)`, curvatures `(rows, m, m)`.

    Of rows that are not usable slope and curvature are 0.
    """
    return _row_derivatives(model, e.problem, e.theta, block)


def half_images(e: Estimate, z: jax.Array) -> jax.Array:
    """L^-1 of each row's derivative of u, `(rows, m, m p)`: of squares that are leverages."""
    m, p = e.theta.shape
    return dot(z, e.parts).reshape(-1, m, m * p)


def gradients(e: Estimate, z: jax.Array, slope: jax.Array) -> jax.Array:
    """Each row's gradient of its loss in theta, `(rows, m p)`."""
    z = z * e.problem.spread[None, :]
    return (slope[:, :, None] * z[:, None, :]).reshape(len(z), -1)


def pull_of_penalty(e: Estimate) -> jax.Array:
    """The gradient of the penalty in theta, `(m p,)`."""
    pull = e.problem.penalty[None, :] * e.theta
    return jnp.where(_frame.inert(e.problem), 0, pull).reshape(-1)


def half_back(e: Estimate) -> jax.Array:
    """L^-1 back', `(m p, P)`: back H^-1 back' is its square."""
    return _linalg.half_solve(e.factor, e.back.T)


def said(value: Any, proper: jax.Array) -> Any:
    """`value` where it is proper, NaN where not, and so its derivatives."""

    def one(a):
        return jnp.where(proper, _implicit.guard(a, proper), jnp.nan)

    return jax.tree.map(one, value)


def proper(model: Model, e: Estimate) -> jax.Array:
    """Whether what is said of them means something."""
    return e.optimal if model.check else e.regular


def known(left: jax.Array) -> jax.Array:
    """One minus a leverage; NaN where it is next to 0, and what is left of it rounding."""
    return jnp.where(left > math.sqrt(float(jnp.finfo(left.dtype).eps)), left, jnp.nan)


def enter(problem: Problem, params: Hyperplane | Linear) -> jax.Array:
    """theta `(m, p)` of params; absent classes and columns out of play are left out."""
    d = problem.centre.size
    weights = jnp.reshape(params.weights, (-1, d))
    bias = jnp.reshape(params.bias, -1)
    if problem.rows.feature_mask is not None:
        weights = jnp.where(problem.rows.feature_mask[None, :], weights, 0)
    if problem.basis is not None:
        here = jnp.any(problem.basis != 0, axis=1)
        weights = jnp.where(here[:, None], weights, 0)
        bias = jnp.where(here, bias, 0)
    moved = bias + dot(weights, problem.centre)
    if problem.basis is not None:
        weights, moved = dot(problem.basis.T, weights), dot(problem.basis.T, moved)
    factor = _frame.unscaled(problem)
    theta = jnp.where(factor > 0, weights / jnp.where(factor > 0, factor, 1)[None, :], weights)
    return jnp.concatenate([theta, moved[:, None]], axis=1)[:, : problem.spread.size]


def _make(rows: _rows.Rows, l2: jax.Array, bias: bool, present: jax.Array | None) -> Problem:
    """The problem, its scores in a basis whose first direction is the sum of all."""
    dtype = l2.dtype
    basis = None
    if present is not None:
        share = jax.lax.rsqrt(jnp.maximum(jnp.sum(present), 1).astype(dtype))
        along = jnp.where(present, share, 0)[:, None]
        basis = jnp.concatenate([along, _frame.class_basis(present, dtype)], axis=1)
    still = jax.lax.stop_gradient((rows, l2))
    problem = _frame.make(*still, bias, basis)
    # A constant column under a penalty is estimated too: to be 0.
    d = l2.size
    held = (problem.spread[:d] == 0) & (still[1] > 0)
    if rows.feature_mask is not None:
        held &= rows.feature_mask
    spread = jnp.where(_frame.with_bias(held, False, bias), 1, problem.spread)
    return _frame.live(problem._replace(spread=spread), rows, l2)


def _row_derivatives(model, problem, theta, block):
    z = _frame.columns(problem, block)
    u = dot(z, (theta * problem.spread[None, :]).T)
    scores = _frame.scores(problem, u)
    if block.offset is not None:
        scores = scores + block.offset.reshape(u.shape[0], -1)
    scores = _mesh.where_rows(block.ok, scores)
    slope = _mesh.where_rows(block.ok, jax.vmap(jax.grad(model.of_scores))(scores, block.y))
    curve = _mesh.where_rows(block.ok, jax.vmap(jax.hessian(model.of_scores))(scores, block.y))
    curve = _frame.in_basis(problem, jnp.swapaxes(_frame.in_basis(problem, curve), 1, 2))
    return z, scores, _frame.in_basis(problem, slope), curve


def _derivatives(model, problem, theta):
    """`(gradient (m, p), Hessian (m p, m p), problem)`, now without a direction no loss sees."""
    m, p = theta.shape
    first, second = np.triu_indices(m)

    def sums(block):
        z, _, slope, curve = _row_derivatives(model, problem, theta, block)
        curve = block.weight[:, None, None] * curve
        each = (z[:, None, :] * curve[:, first, second][:, :, None]).reshape(len(z), -1)
        pull = block.weight[:, None] * slope
        around = jnp.stack([curve[:, 0, 0], jnp.trace(curve, axis1=1, axis2=2)], axis=1)
        return (dot(each.T, z), dot(pull.T, z), jnp.sum(around, axis=0)), ()

    (square, columns, around), _ = _fold.fold(sums, problem.rows)
    if problem.basis is not None:
        # Softmax does not see a number added to all scores.
        seen = around[0] > jnp.sqrt(jnp.finfo(theta.dtype).eps) * around[1]
        used = problem.used & (seen | (jnp.arange(m) > 0))
        problem = problem._replace(used=used)
    gradient = columns * problem.spread[None, :] + problem.penalty[None, :] * theta
    gradient = jnp.where(_frame.inert(problem), 0, gradient)
    hess = _passes.hessian_of(problem, square.reshape(-1, p, p), m)
    play = ~_frame.inert(problem).reshape(-1)
    hess = jnp.where(play[:, None] & play[None, :] | jnp.eye(m * p, dtype=bool), hess, 0)
    return gradient, hess, problem


def _back(model, problem, params, reference):
    m, p = problem.used.size, problem.spread.size
    play = ~_frame.inert(problem)

    def flat(theta):
        found = _frame.leave(problem, jnp.where(play, theta.reshape(m, p), 0), model.bias)
        if reference is not None:
            found = in_form(found, jnp.any(problem.basis != 0, axis=1), reference)
        return ravel_pytree(found)[0]

    return jax.vmap(flat)(jnp.eye(m * p, dtype=problem.spread.dtype)).T


def _largest_leverage(e: Estimate) -> jax.Array:
    """An upper bound of the leverage of every row with weight."""
    m = e.theta.shape[0]

    def maxima(block):
        image = half_images(e, _frame.columns(e.problem, block))
        # Differences of two scores are sqrt(2) long in the basis.
        square = (1 + (m > 1)) * jnp.sum(image**2, axis=(1, 2))
        return (), jnp.max(jnp.where(block.weight > 0, square, 0))

    entries = _rows.BLOCK_ENTRIES // max(1, m * m)
    return jnp.sqrt(_fold.fold(maxima, e.problem.rows, entries)[1])


def _is_float(y: Any) -> bool:
    return jnp.issubdtype(_checks.array(y, "y").dtype, jnp.floating)

"""Support vector machines: the plane of largest margin, soft or hard, with a gap that proves it.

The soft margin minimises sum_i c_i loss(t_i s_i) + l2/2 ||w||^2 over planes s = w . x + b, where
t = 2 y - 1, the weights c sum to one, and the loss is the hinge max(0, 1 - t s) or its square
(Cortes and Vapnik, 1995). In the words of LIBSVM C = 1 / (l2 n), or `losses.C_from_l2`; as there
the bias is not penalised, while LIBLINEAR, and scikit-learn's LinearSVC with it, penalises its own.
The hard margin minimises ||w||^2 / 2 subject to t s >= 1 for every row: of all planes that separate
the classes the one farthest from both, the Perceptron of optimal stability.

`residual` is the relative duality gap: how far the objective of the returned params can be above
the optimum, relative to itself, as a feasible point of the dual problem proves. CONVERGED means
that it is at most `tol`. Where no plane separates the classes the hard margin says NOT_SEPARABLE,
and `farkas` returns the proof.

Choose the hinge for few support vectors and robustness to mistaken labels, its square for speed.
Neither gives probabilities: see `logistic`. It fails to converge (STALLED) where l2 is so small
beside the squared size of a row that rounding decides: in float32 below about 1e-6 of it; and in
float32 a tenth to half of the fits of about as few rows as features end at a gap of 1e-5 to 1e-4.
What rounding can hide of the margins is part of the gap; where that decides, they are computed once
more in twice the digits.

The hinge and the hard margin are found by an interior point method: a dozen steps of O(n d^2) each,
whatever l2; with fewer rows than features of O(n^3) after one QR decomposition. The squared hinge
is found by Newton's method, some five steps of as much. Of over 1,000,000 entries and 512 rows per
coefficient it begins at the optimum of a sample, and with 24 features or more goes on by BFGS, of
O(n d) a step, until that is slow; lanes of a vmap and rows over a mesh begin at 0. k classes at
once are found as the hinge is. For the hinge and the hard margin of two classes the columns of an x
of up to 2^23 entries are held once more, centred and scaled, while the fit runs.

The squared hinge has a derivative by the implicit function theorem in x, sample_weight and l2, in
either mode. The other fits have none in reverse mode: it raises. In forward mode theirs is that of
the iteration, and NaN in a weight of 0.

Shapes: `n` examples, `d` features.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxlin import linear, losses
from jaxlin._base import _checks, _invalid, _platform, _traits, _words
from jaxlin._batch import _lanes
from jaxlin._data import _prepare
from jaxlin._linalg import _implicit, dot
from jaxlin._margin import _crammer_singer, _margin
from jaxlin._margin._gap import Kind
from jaxlin._nonsmooth import _conjugates, _kinked, _size
from jaxlin._smooth import _frame, _record, _risk
from jaxlin.types import Hyperplane, Info, Linear, Status

SOFT_STEPS, HARD_STEPS = 60, 100
_KINDS = {losses.hinge: Kind.HINGE, losses.squared_hinge: Kind.SQUARED}


@_words.a_fit
def fit(
    x: Any,
    y: Any,
    *,
    l2: Any,
    l1: Any = None,
    groups: Any = None,
    num_groups: int | None = None,
    loss: Callable = losses.hinge,
    sample_weight: Any = None,
    feature_mask: Any = None,
    bias: bool = True,
    tol: Any = None,
    max_steps: Any = None,
    axis_name: str | None = None,
) -> tuple[Hyperplane, Info]:
    """The soft margin.

    Args:
      x: `(n, d)`.
      y: `(n,)` in {0, 1}.
      l2: positive, a number or `(d,)`, one per feature; beside l1 it may be 0.
      l1: with `losses.squared_hinge` a penalty l1 |w|_1, a number or `(d,)`, which makes some
        weights exactly 0.
      groups: `(d,)` integers in 0..g-1, which group each feature is of. The penalty is then
        sum_g l1_g |w_g|, Euclid's norm of a group's weights, l1 a number or `(g,)`.
      num_groups: g, static; eagerly by default 1 + the largest.
      loss: static, `losses.hinge` or `losses.squared_hinge`.
      sample_weight: `(n,)`, nonnegative; a weight of 2 is the row twice.
      feature_mask: `(d,)` bool; the coefficient of a masked column is 0.
      bias: static; False fixes it at 0.
      tol: bound on the relative duality gap; by default 1e-8, or 1e-5 in float32.
      max_steps: cap on the steps; by default 60. A large fit of the hinge in float64 takes the
        first in float32, on a CPU; where these lead nowhere they are not counted. Nor are those
        of a hinge that missed `tol`, before it begins anew elsewhere.
      axis_name: static; the mesh axis over which the rows are dealt, inside `jax.shard_map`: see
        `distributed`.

    Returns:
      `(params, info)`, a Hyperplane and an Info: CONVERGED, STALLED, MAX_STEPS, INVALID_DATA, or
      CLASS_TOO_SMALL with fewer than two classes, where the plane has weights 0.

    Raises:
      ValueError: shapes that do not fit; eagerly also data that are not valid, and an l2 of 0.
      TypeError: dtypes or static arguments of the wrong kind.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import svm
      >>> x = jnp.array([[0.0], [1.0], [3.0], [4.0]])
      >>> y = jnp.array([0, 0, 1, 1])
      >>> params, info = svm.fit(x, y, l2=0.01)
      >>> params.weights.round(3).tolist(), params.bias.round(3).item(), info.status.item()
      ([1.0], -2.0, 0)
    """
    if axis_name is not None and loss is losses.hinge:
        raise ValueError("axis_name: rows can be dealt out for losses.squared_hinge only")
    options = sample_weight, feature_mask, bias, tol, max_steps, axis_name
    if _size.is_asked(l1, groups, num_groups):
        return _sparse_soft(x, y, l2, (l1, groups, num_groups), loss, *options)
    params, _, info = _soft(x, y, l2, loss, *options)
    return params, info


@_words.a_fit
def fit_dual(
    x: Any,
    y: Any,
    *,
    l2: Any,
    loss: Callable = losses.hinge,
    sample_weight: Any = None,
    feature_mask: Any = None,
    bias: bool = True,
    tol: Any = None,
    max_steps: Any = None,
) -> tuple[jax.Array, Info]:
    """The dual variables of the soft margin: how hard each row pulls at the plane.

    Args:
      x, y, loss, sample_weight, feature_mask, bias, tol, max_steps: as in `fit`.
      l2: positive, a number.

    Returns:
      `(alphas (n,), info)`: w = sum_i alphas_i t_i x_i within the gap, sum_i alphas_i t_i = 0 (with
      a bias), and 0 <= alphas_i, for the hinge <= C_i = c_i / l2, as in LIBSVM. The info is that of
      `fit`.

    Raises:
      ValueError: as `fit`.
      TypeError: as `fit`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import svm
      >>> x = jnp.array([[0.0], [1.0], [3.0], [4.0]])
      >>> alphas, _ = svm.fit_dual(x, jnp.array([0, 0, 1, 1]), l2=0.01)
      >>> alphas.round(3).tolist()
      [0.0, 0.5, 0.5, 0.0]
    """
    if jnp.ndim(l2) != 0:
        raise ValueError(f"l2: expected a number, got shape {jnp.shape(l2)}")
    _, duals, info = _soft(x, y, l2, loss, sample_weight, feature_mask, bias, tol, max_steps)
    return duals, info


@_words.a_fit
def fit_hard_margin(
    x: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    feature_mask: Any = None,
    bias: bool = True,
    tol: Any = None,
    max_steps: Any = None,
) -> tuple[Hyperplane, Info]:
    """The hard margin: the plane farthest from both classes, t s >= 1 in every row.

    Args:
      x: `(n, d)`.
      y: `(n,)` in {0, 1}.
      sample_weight: `(n,)`; only whether a weight is 0 counts.
      feature_mask: `(d,)` bool; the coefficient of a masked column is 0.
      bias: static; False fixes it at 0.
      tol: bound on the relative duality gap; by default 1e-12, or 1e-5 in float32.
      max_steps: cap on the steps; by default 100.

    Returns:
      `(params, info)`, a Hyperplane and an Info, whose objective is ||w||^2 / 2; the margin is
      `linear.margin(params, x, y)`, or 1 / ||w||. NOT_SEPARABLE says that no plane separates the
      classes by more than rounding, each column in its own unit (see `farkas`), the params then
      being the best met; STALLED that neither could be shown.

    Raises:
      ValueError: shapes that do not fit; eagerly also data that are not valid.
      TypeError: dtypes or static arguments of the wrong kind.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import svm
      >>> x = jnp.array([[0.0], [1.0], [3.0], [4.0]])
      >>> params, info = svm.fit_hard_margin(x, jnp.array([0, 0, 1, 1]))
      >>> params.weights.round(3).tolist(), params.bias.round(3).item(), info.status.item()
      ([1.0], -2.0, 0)
    """
    params, _, info = _hard(x, y, sample_weight, feature_mask, bias, tol, max_steps)
    return params, info


@_words.a_fit
def fit_crammer_singer(
    x: Any,
    y: Any,
    *,
    l2: Any,
    num_classes: int | None = None,
    sample_weight: Any = None,
    feature_mask: Any = None,
    bias: bool = True,
    tol: Any = None,
    max_steps: Any = None,
) -> tuple[Linear, Info]:
    """The soft margin of k classes at once (Crammer and Singer, 2001).

    It minimises sum_i c_i losses.multiclass_hinge(s_i, y_i) + l2/2 ||W||^2, s_i = W x_i + b: a row
    costs nothing once its class is ahead of every other by 1. The biases are not penalised. Two
    classes are the hinge of `fit` with l2/2. One plane per class by `multiclass.one_vs_rest(fit)`
    is k small problems; this is one with a (k - 1)(d + 1)-sized matrix, O(n k^2 d^2) a step.

    Args:
      x: `(n, d)`.
      y: `(n,)` class indices.
      l2: positive, a number or `(d,)`, one per feature.
      num_classes: k, static; eagerly by default 1 + the largest label with weight.
      sample_weight: `(n,)`, nonnegative; a weight of 2 is the row twice.
      feature_mask: `(d,)` bool; the weights of a masked column are 0.
      bias: static; False fixes it at 0.
      tol: bound on the relative duality gap; by default 1e-8, or 1e-5 in float32.
      max_steps: cap on the steps; by default 60.

    Returns:
      `(params, info)`, a Linear whose weights and biases sum to zero over the classes present, and
      an Info as of `fit`. An absent class has weights 0 and bias -inf.

    Raises:
      ValueError: shapes that do not fit; eagerly also data that are not valid, and an l2 of 0.
      TypeError: dtypes or static arguments of the wrong kind.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import svm
      >>> x = jnp.array([[0.0], [1.0], [3.0], [4.0], [6.0], [7.0]])
      >>> y = jnp.array([0, 0, 1, 1, 2, 2])
      >>> params, info = svm.fit_crammer_singer(x, y, l2=0.01)
      >>> (params.weights.round(3) + 0).tolist(), info.status.item()  # + 0 makes -0 a 0
      ([[-1.0], [0.0], [1.0]], 0)
    """
    k = _checks.number_of_classes(num_classes, y, sample_weight)
    if k < 2:
        raise ValueError(f"num_classes: expected at least 2, got {k}")
    data = _table(x, y, sample_weight=sample_weight, feature_mask=feature_mask, num_classes=k)
    dtype = _checks.working_dtype(data.x)
    params, info = _fit_joint(
        k,
        _checks.static(bias, bool, "bias"),
        data,
        _checks.penalty(l2, data.x.shape[1], dtype),
        _tolerance(tol, dtype, 1e-8),
        _checks.count(SOFT_STEPS if max_steps is None else max_steps, "max_steps"),
    )
    _raise_if_soft_is_invalid(info, data, l2, tol, max_steps, num_classes=k)
    return params, info


def farkas(
    x: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    feature_mask: Any = None,
    bias: bool = True,
    max_steps: Any = None,
) -> jax.Array:
    """The weights that prove that no plane separates the classes (Farkas' lemma).

    Args:
      x, y, sample_weight, feature_mask, bias, max_steps: as in `fit_hard_margin`.

    Returns:
      lambda `(n,)`, nonnegative and of sum 1, with sum_i lambda_i t_i (x_i, 1) = 0 to rounding: a
      point that the convex hulls of both classes share. NaN where it was not found, as where the
      classes are separable.

    Raises:
      ValueError: as `fit_hard_margin`.
      TypeError: as `fit_hard_margin`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import svm
      >>> x = jnp.array([[0.0], [1.0], [3.0], [4.0]])
      >>> proof = svm.farkas(x, jnp.array([0, 1, 1, 0]))
      >>> signs = jnp.array([-1, 1, 1, -1])
      >>> bool(jnp.abs(jnp.sum(signs * proof * x[:, 0])) < 1e-6), proof.sum().round(3).item()
      (True, 1.0)
    """
    return _hard(x, y, sample_weight, feature_mask, bias, None, max_steps)[1]


def support(params: Hyperplane, x: Any, y: Any) -> jax.Array:
    """Which rows are support vectors: on the margin, inside of it, or on the wrong side.

    Args:
      params: a Hyperplane.
      x: `(n, d)`.
      y: `(n,)` in {0, 1}.

    Returns:
      `(n,)` bool: t s <= 1, within the root of the dtype's rounding of the terms of s.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import svm
      >>> x, y = jnp.array([[0.0], [1.0], [3.0], [4.0]]), jnp.array([0, 0, 1, 1])
      >>> params, _ = svm.fit_hard_margin(x, y)
      >>> svm.support(params, x, y).tolist()
      [False, True, True, False]
    """
    data = _checks.table(x, y)
    scores = linear.scores(params, data.x)
    agreed = jnp.where(data.y > 0, scores, -scores)
    weights, bias = (jnp.abs(a).astype(scores.dtype) for a in params)
    size = dot(jnp.abs(data.x).astype(scores.dtype), weights) + bias
    return agreed <= 1 + jnp.sqrt(jnp.finfo(scores.dtype).eps) * jnp.maximum(size, 1)


def _table(x, y, **options) -> _checks.Table:
    data = _checks.table(x, y, **options)
    if data.x.shape[1] == 0:
        raise ValueError(f"x: expected at least one feature, got shape {data.x.shape}")
    return data


def _soft(x, y, l2, loss, sample_weight, feature_mask, bias, tol, max_steps, axis_name=None):
    data = _table(x, y, sample_weight=sample_weight, feature_mask=feature_mask, axis_name=axis_name)
    dtype = _checks.working_dtype(data.x)
    if loss not in _KINDS:
        raise TypeError(f"loss: expected losses.hinge or losses.squared_hinge, got {loss!r}")
    params, duals, info = _run(
        _KINDS[loss],
        _checks.static(bias, bool, "bias"),
        data,
        _checks.penalty(l2, data.x.shape[1], dtype),
        _tolerance(tol, dtype, 1e-8),
        _checks.count(SOFT_STEPS if max_steps is None else max_steps, "max_steps"),
    )
    _raise_if_soft_is_invalid(info, data, l2, tol, max_steps)
    return params, duals, info


def _sparse_soft(
    x, y, l2, size, loss, sample_weight, feature_mask, bias, tol, max_steps, axis_name
):
    if loss is not losses.squared_hinge:
        raise ValueError("l1: with loss=losses.squared_hinge only")
    data = _table(x, y, sample_weight=sample_weight, feature_mask=feature_mask, axis_name=axis_name)
    penalty = _checks.penalty(l2, data.x.shape[1], _checks.working_dtype(data.x))
    spec = _record.Spec(_LOSS, solver=None, bias=_checks.static(bias, bool, "bias"))
    l1, groups, num_groups = size
    spec, rest = _kinked.arranged(spec, penalty, l1, groups, num_groups, tol, max_steps)
    params, info = _kinked.run(_kinked.plane, spec, 2, data, penalty, None, None, *rest)
    given = {"l2": l2, "l1": l1, "tol": tol, "max_steps": max_steps}
    _invalid.raise_if_invalid(info, data, nonnegative=given)
    return params, info


def _raise_if_soft_is_invalid(info, data, l2, tol, max_steps, **options):
    _invalid.raise_if_invalid(
        info,
        data,
        nonnegative={"tol": tol, "max_steps": max_steps},
        positive={"l2": (l2, "without a penalty the margin is hard: see svm.fit_hard_margin")},
        **options,
    )


def _hard(x, y, sample_weight, feature_mask, bias, tol, max_steps):
    data = _table(x, y, sample_weight=sample_weight, feature_mask=feature_mask)
    dtype = _checks.working_dtype(data.x)
    params, duals, info = _run(
        Kind.HARD,
        _checks.static(bias, bool, "bias"),
        data,
        jnp.ones(data.x.shape[1], dtype),
        _tolerance(tol, dtype, 1e-12),
        _checks.count(HARD_STEPS if max_steps is None else max_steps, "max_steps"),
    )
    _invalid.raise_if_invalid(info, data, nonnegative={"tol": tol, "max_steps": max_steps})
    return params, duals, info


def _tolerance(tol: Any, dtype: Any, double: float) -> jax.Array:
    if tol is None:
        tol = double if jnp.dtype(dtype).itemsize > 4 else 1e-5
    return _checks.tolerance(tol, dtype)


def _run(kind, bias, *arguments):
    """`_fit`, by way of a program that is half as long where that may do, see `_risk.run`."""
    if kind is Kind.SQUARED and _checks.concrete(arguments):
        found, unsettled = _fit(kind, bias, False, *arguments)
        if _checks.concrete(unsettled) and not unsettled:
            return found
    return _fit(kind, bias, True, *arguments)[0]


@functools.partial(_platform.jit, static_argnums=(0, 1, 2))
def _fit(kind, bias, complete, data, l2, tol, max_steps):
    rows, _, valid = _prepare.prepare(data, num_classes=2)
    valid &= jnp.all((l2 > 0) & jnp.isfinite(l2)) & (tol >= 0) & (max_steps >= 0)
    zero, one = _prepare.present(rows, 2)
    usable = valid & zero & one
    rows = rows._replace(weight=jnp.where(usable, rows.weight, 0))
    l2 = jnp.where(valid, l2, 1)
    smooth = kind is Kind.SQUARED
    if not smooth:
        rows = _without_slope_at_0(rows)
    if kind is Kind.HARD:  # which has no penalty that would scale its columns
        l2 = jnp.zeros_like(l2)

    def solved(rows, l2, tol, max_steps):
        problem = _frame.make(*jax.lax.stop_gradient((rows, l2)), bias)
        problem = _frame.live(problem, rows, l2)
        found = _margin.solve(kind, bias, complete, problem, tol, max_steps)
        return (problem.centre, problem.scale), (problem[3:], found)

    many = solved if rows.axis.name is not None else _lanes.in_chunks(solved)
    operands = rows, l2, tol, max_steps
    still = jax.lax.stop_gradient(operands)
    found = many(*still)
    if not smooth:
        found = _implicit.derived(solved, found, operands, by_steps=True)
    shared, (rest, found) = found
    problem = _frame.Problem(rows, *shared, *rest)
    params, dual, primal = found.params, found.bound.dual, found.bound.primal
    if smooth and complete:  # without, the call is eager: not differentiated
        live = _frame.live(problem, rows, l2)
        params, moved, primal = _margin.differentiable(bias, live, params, primal, usable)
        dual = dual + (moved - jax.lax.stop_gradient(moved))
    stalled = jnp.where(found.steps < max_steps, Status.STALLED, Status.MAX_STEPS)
    status = jnp.where(found.bound.gap <= tol, Status.CONVERGED, stalled)
    status = jnp.where(found.touching, Status.NOT_SEPARABLE, status)
    alone = jnp.where(one, 1, -1).astype(l2.dtype) if bias else jnp.zeros((), l2.dtype)
    limit = Hyperplane(weights=jnp.zeros((), l2.dtype), bias=alone)
    primal, gap = (jnp.where(usable, a, 0) for a in (primal, found.bound.gap))
    info = Info(status, found.steps, primal, gap)
    plane = Hyperplane(weights=params.weights[0], bias=params.bias[0])
    given = (data, l2) if kind is Kind.SQUARED else None
    plane, info = _risk.in_place(plane, info, limit, valid, usable, given)
    if kind is Kind.HARD:
        weight = jnp.where(rows.weight > 0, dual, 0)
        duals = jnp.where(found.touching & usable, weight / jnp.sum(weight), jnp.nan)
    else:
        alphas = rows.weight * dual / jnp.max(l2)
        duals, _ = _risk.in_place(alphas, info, jnp.zeros((), l2.dtype), valid, usable, given)
    return (plane, duals, info), found.unsettled & usable


def _without_slope_at_0(rows):
    """The iteration leaves rows without weight out, so its derivative in that is none."""
    return rows._replace(weight=_implicit.guard(rows.weight, rows.weight > 0))


@functools.partial(_platform.jit, static_argnums=(0, 1))
def _fit_joint(k, bias, data, l2, tol, max_steps):
    rows, _, valid = _prepare.prepare(data, num_classes=k)
    valid &= jnp.all((l2 > 0) & jnp.isfinite(l2)) & (tol >= 0) & (max_steps >= 0)
    truth = rows.y[:, None] == jnp.arange(k, dtype=rows.y.dtype)[None, :]
    present = jnp.any(truth & (rows.weight > 0)[:, None], axis=0)
    usable = valid & (jnp.sum(present) > 1)
    rows = rows._replace(weight=jnp.where(usable, rows.weight, 0))
    rows = _without_slope_at_0(rows)
    basis = _frame.class_basis(present, l2.dtype)
    l2 = jnp.where(valid, l2, 1)
    problem = _frame.make(*jax.lax.stop_gradient((rows, l2)), bias, basis)
    problem = _frame.live(problem, rows, l2)
    operands, solve = (problem, tol, max_steps), _crammer_singer.solve
    still = jax.lax.stop_gradient(operands)
    best, steps = _implicit.derived(solve, solve(*still), operands, by_steps=True)
    found, own, slack = _frame.settled(problem, best.theta, bias)
    bound = _crammer_singer.proved(problem, found, own, best.dual, slack, tol)
    stalled = jnp.where(steps < max_steps, Status.STALLED, Status.MAX_STEPS)
    status = jnp.where(bound.gap <= tol, Status.CONVERGED, stalled)
    nothing = jax.tree.map(jnp.zeros_like, found)
    primal, gap = (jnp.where(usable, a, 0) for a in (bound.primal, bound.gap))
    info = Info(status, steps, primal, gap)
    params, info = _risk.in_place(found, info, nothing, valid, usable)
    params = params._replace(bias=params.bias + jnp.where(present, 0, -jnp.inf).astype(l2.dtype))
    return params, info


_LOSS = _conjugates.SQUARED_HINGE.beside(_margin.LOSS)
_traits.declare(fit, fit_dual, fit_hard_margin, fit_crammer_singer, skips=True)

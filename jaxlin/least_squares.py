"""Classification by regression: least squares on indicators of the classes, or on their numbers.

`fit` regresses the one-hot rows on x (Hastie, Tibshirani and Friedman, section 4.2): the mean of
|s(x) - e_y|^2 / 2 plus l2/2 |W|^2, the bias not penalised, and the largest score wins. Quick, and
the simplest there is; with three classes or more in a row it masks the middle one, which `lda` does
not. `regress` fits numbers; with the classes' numbers as targets, `round_predict` rounds.

Solved from centred statistics; where columns are correlated, or explain nearly everything, with one
pass of refinement over the data, which keeps the digits that the normal equations lose. Where
columns are dependent and not penalised, the weights of least norm, RANK_DEFICIENT; where rounding
hides whether they are (a column leaves the span of others in its ninth digit only), weights that
fit about as well, STALLED; and STALLED where data lie so far from 0, beside their spread, that the
bias cannot be written well enough. `residual` is 0; `objective` is what is minimised.

A ridge head in the inner loop of meta-learning: features trained so that a head fitted to a few
rows of a task is right about others.

>>> import jax
>>> import jax.numpy as jnp
>>> from jaxlin import least_squares, losses
>>> tasks = jax.random.normal(jax.random.key(0), (20, 30, 4))
>>> labels = (jnp.sin(3 * tasks[:, :, 0]) > 0).astype(int)
>>> def mistaken(layer, x, y):
...     features = jnp.sin(x @ layer)
...     head, info = least_squares.fit(features[:15], y[:15], num_classes=2, l2=0.01)
...     return losses.objective(losses.squared, head, features[15:], y[15:])
>>> def total(layer):
...     return jnp.mean(jax.vmap(mistaken, in_axes=(None, 0, 0))(layer, tasks, labels))
>>> step = jax.jit(lambda layer: layer - jax.grad(total)(layer))
>>> layer = start = jax.random.normal(jax.random.key(1), (4, 6))
>>> for _ in range(100):
...     layer = step(layer)
>>> (total(layer) < 0.7 * total(start)).item()
True

Shapes: `n` examples, `d` features, `k` classes.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlin import _linalg, linear
from jaxlin._base import _checks, _codes, _invalid, _mesh, _platform, _traits, _words
from jaxlin._batch import _lanes
from jaxlin._data import _fold
from jaxlin._linalg import _implicit, dot
from jaxlin._moments import _bayes, _closed_form, _scatter, _statistics
from jaxlin._nonsmooth import _conjugates, _kinked, _size
from jaxlin._smooth import _record, _risk
from jaxlin.moments import ClassMoments, RegressionMoments, TiedMoments, tied
from jaxlin.sparse import Sparse
from jaxlin.types import Hyperplane, Info, Linear, Status

# Squared pivots, and unexplained parts of the targets, from which the normal equations keep all but
# about a digit.
WELL_CONDITIONED = 1 / 16


@_words.a_fit
def fit(
    x: Any,
    y: Any,
    *,
    num_classes: int | None = None,
    l2: Any = 0.0,
    l1: Any = None,
    groups: Any = None,
    num_groups: int | None = None,
    sample_weight: Any = None,
    feature_mask: Any = None,
    bias: bool = True,
    axis_name: str | None = None,
) -> tuple[Linear, Info]:
    """Fit the classes' indicators by least squares.

    Args:
      x: `(n, d)`, or a table of `sparse`.
      y: `(n,)` class indices.
      num_classes: k, static; eagerly by default 1 + the largest label with weight.
      l2: `()` or `(d,)`, nonnegative; ridge regression.
      l1: `()` or `(d,)`, nonnegative: a penalty l1 |W|_1, as of `regress`.
      groups: `(d,)` integers in 0..g-1: the penalty is then sum_g l1_g |W_g|, Euclid's norm of the
        weights that all classes have for a group, l1 a scalar or `(g,)`.
      num_groups: g, static; eagerly by default 1 + the largest.
      sample_weight: `(n,)`, nonnegative; a row of weight 2 is the row twice.
      feature_mask: `(d,)` bool; a masked column has weight 0.
      bias: static; False fixes it at 0.
      axis_name: static; the mesh axis over which the rows are dealt, inside `jax.shard_map`: see
        `distributed`.

    Returns:
      `(params, info)`, a Linear and an Info of status CONVERGED, RANK_DEFICIENT, STALLED (columns
      may depend on each other, or only nearly), CLASS_TOO_SMALL or INVALID_DATA. An absent class
      has weights 0 and bias -inf. O(n d^2).

    Raises:
      ValueError: shapes that do not fit; eagerly also data that are not valid.
      TypeError: dtypes or static arguments of the wrong kind.

    Differentiable in x, sample_weight, l2 and l1, in that as `regress` is.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import least_squares
      >>> x = jnp.array([[0.0], [1.0], [2.0], [3.0]])
      >>> params, info = least_squares.fit(x, jnp.array([0, 0, 1, 1]))
      >>> params.weights.round(3).tolist(), params.bias.round(3).tolist()
      ([[-0.4], [0.4]], [1.1, -0.1])
    """
    asked = _size.is_asked(l1, groups, num_groups)
    data = _checks.table(
        x,
        y,
        sample_weight=sample_weight,
        feature_mask=feature_mask,
        axis_name=axis_name,
        sparse=not asked,
    )
    k = _checks.number_of_classes(num_classes, y, sample_weight)
    bias = _checks.static(bias, bool, "bias")
    l2 = _checks.penalty(l2, data.x.shape[1], _checks.working_dtype(data.x))
    if asked:
        spec = _record.Spec(_LOSS, solver=None, bias=bias)
        spec, rest = _kinked.arranged(spec, l2, l1, groups, num_groups, None, None)
        params, info = _kinked.run(_kinked.planes, spec, k, data, l2, None, None, *rest)
    elif isinstance(data.x, Sparse):
        params, info = _of_table(k, bias, data, l2)
    else:
        params, info = _fit(k, bias, data, l2)
    given = {"l2": l2, "l1": l1}
    _invalid.raise_if_invalid(info, data, num_classes=k, nonnegative=given)
    return params, info


def fit_from_moments(
    moments_of_data: TiedMoments | ClassMoments, *, l2: Any = 0.0, bias: bool = True
) -> tuple[Linear, Info]:
    """Fit the classes' indicators from merged statistics instead of data.

    Args:
      moments_of_data: of `moments.tied` or `moments.per_class`.
      l2: `()` or `(d,)`.
      bias: static.

    Returns:
      `(params, info)`, as `fit` returns them, without the pass of refinement.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import least_squares, moments
      >>> m = moments.tied(jnp.array([[0.0], [1.0], [2.0], [3.0]]), jnp.array([0, 0, 1, 1]))
      >>> least_squares.fit_from_moments(m)[0].bias.round(3).tolist()
      [1.1, -0.1]
    """
    s = _scatter.of_moments(moments_of_data, TiedMoments, ClassMoments)
    l2 = _checks.penalty(l2, s.centre.shape[0], s.weight.dtype)
    return _from_moments(_checks.static(bias, bool, "bias"), s, l2)


@_words.a_fit
def regress(
    x: Any,
    t: Any,
    *,
    l2: Any = 0.0,
    l1: Any = None,
    groups: Any = None,
    num_groups: int | None = None,
    sample_weight: Any = None,
    feature_mask: Any = None,
    bias: bool = True,
    axis_name: str | None = None,
) -> tuple[Hyperplane, Info]:
    """Fit numbers by least squares: the mean of (w . x + b - t)^2 / 2 + l2/2 |w|^2 + l1 |w|_1.

    Args:
      x: `(n, d)`, or a table of `sparse`.
      t: `(n,)` real targets, such as the numbers of the classes.
      l2: `()` or `(d,)`, nonnegative.
      l1: `()` or `(d,)`, nonnegative: the lasso, and with l2 the elastic net. Some weights are then
        exactly 0, `residual` is the relative duality gap, and STALLED says that it is above 1e-8,
        or 1e-5 in float32.
      groups: `(d,)` integers in 0..g-1, which group each feature is of: the group lasso, of
        sum_g l1_g |w_g|, Euclid's norm of a group's weights, l1 a scalar or `(g,)`.
      num_groups: g, static; eagerly by default 1 + the largest.
      sample_weight: `(n,)`, nonnegative.
      feature_mask: `(d,)` bool; a masked column has weight 0.
      bias: static; False fixes it at 0.
      axis_name: static; the mesh axis over which the rows are dealt, inside `jax.shard_map`: see
        `distributed`.

    Returns:
      `(params, info)`, a Hyperplane whose scores are the fitted numbers, and an Info of status
      CONVERGED, RANK_DEFICIENT, STALLED or INVALID_DATA. O(n d^2).

    Raises:
      ValueError: shapes that do not fit; eagerly also data that are not valid.

    Differentiable in x, t, sample_weight, l2 and l1; with l1 what is 0 stays so, and derivatives
    are NaN where it is not proved that it does.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import least_squares
      >>> params, info = least_squares.regress(jnp.array([[0.0], [1.0]]), jnp.array([1.0, 3.0]))
      >>> params.weights.round(3).tolist(), params.bias.round(3).item()
      ([2.0], 1.0)
    """
    asked = _size.is_asked(l1, groups, num_groups)
    data = _checks.targets(
        x,
        t,
        sample_weight=sample_weight,
        feature_mask=feature_mask,
        axis_name=axis_name,
        sparse=not asked,
    )
    bias = _checks.static(bias, bool, "bias")
    l2 = _checks.penalty(l2, data.x.shape[1], _checks.working_dtype(data.x))
    if asked:
        spec = _record.Spec(_LOSS, solver=None, bias=bias)
        spec, rest = _kinked.arranged(spec, l2, l1, groups, num_groups, None, None)
        params, info = _kinked.run(_kinked.plane, spec, None, data, l2, None, None, *rest)
    elif isinstance(data.x, Sparse):
        params, info = _of_table(None, bias, data, l2)
    else:
        params, info = _regress(bias, data, l2)
    given = {"l2": l2, "l1": l1}
    _invalid.raise_if_invalid(info, data, num_classes=None, nonnegative=given)
    return params, info


def regress_from_moments(
    moments_of_data: RegressionMoments, *, l2: Any = 0.0, bias: bool = True
) -> tuple[Hyperplane, Info]:
    """Fit numbers from merged statistics instead of data.

    Args:
      moments_of_data: of `moments.regression`.
      l2: `()` or `(d,)`.
      bias: static.

    Returns:
      `(params, info)`, as `regress` returns them, without the pass of refinement.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import least_squares, moments
      >>> m = moments.regression(jnp.array([[0.0], [1.0]]), jnp.array([1.0, 3.0]))
      >>> least_squares.regress_from_moments(m)[0].weights.round(3).tolist()
      [2.0]
    """
    s = _scatter.of_moments(moments_of_data, RegressionMoments)
    l2 = _checks.penalty(l2, s.centre.shape[0] - 1, s.weight.dtype)
    return _regress_from_moments(_checks.static(bias, bool, "bias"), s, l2)


def round_predict(params: Hyperplane, x: Any, *, num_classes: int) -> jax.Array:
    """The class whose number is nearest to the score; half way goes to the lower.

    Args:
      params: a Hyperplane, fitted by `regress` to the numbers of the classes.
      x: `(..., d)`.
      num_classes: k, static.

    Returns:
      int32 `(...)` in 0..k-1.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import least_squares
      >>> from jaxlin.types import Hyperplane
      >>> line = Hyperplane(weights=jnp.array([1.0]), bias=jnp.array(0.0))
      >>> x = jnp.array([[-3.0], [0.6], [1.5], [9.0]])
      >>> least_squares.round_predict(line, x, num_classes=3).tolist()
      [0, 1, 1, 2]
    """
    k = _checks.number_of_classes(num_classes, 0)
    return jnp.clip(jnp.ceil(linear.scores(params, x) - 0.5), 0, k - 1).astype(jnp.int32)


def sum_of_squares(
    params: Hyperplane | Linear, x: Any, y: Any, *, sample_weight: Any = None
) -> jax.Array:
    """The weighted sum of squared errors: (s - t)^2, or |s - e_y|^2 for a Linear.

    Args:
      params: a Hyperplane or a Linear.
      x: `(n, d)`.
      y: `(n,)` real targets for a Hyperplane, class indices for a Linear.
      sample_weight: `(n,)`; rows of weight 0 are absent.

    Returns:
      `()`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import least_squares
      >>> from jaxlin.types import Hyperplane
      >>> line = Hyperplane(weights=jnp.array([1.0]), bias=jnp.array(0.0))
      >>> x = jnp.array([[1.0], [2.0]])
      >>> least_squares.sum_of_squares(line, x, jnp.array([0.0, 4.0])).item()
      5.0
    """
    _checks.refuse_other_rows(x=x, y=y, sample_weight=sample_weight)
    scores = linear.scores(params, x)
    if scores.ndim == 1:
        error = (scores - _checks.shaped(y, scores.shape, scores.dtype, "y")) ** 2
    else:
        data = _checks.table(x, y)
        error = jnp.sum((scores - _one_hot(data.y, scores.shape[1], scores.dtype)) ** 2, axis=1)
    if sample_weight is None:
        return jnp.sum(error)
    weight = _checks.shaped(sample_weight, error.shape, error.dtype, "sample_weight")
    felt = (weight != 0) | jnp.isfinite(error)
    return jnp.sum(weight * jnp.where(felt, error, 0))


def _one_hot(y: jax.Array, k: int, dtype: Any) -> jax.Array:
    return _codes.members(y, k).astype(dtype)


@functools.partial(_platform.jit, static_argnums=(0, 1))
def _fit(k, bias, data, l2):
    @_lanes.of_closed_form
    def fit(data, l2):
        s, rows, _, valid = _statistics.of_data(data, k)
        valid &= jnp.all((l2 >= 0) & jnp.isfinite(l2))

        def targets(block):
            return _one_hot(block.y, k, l2.dtype)

        felt = jnp.where(valid, l2, 0)
        s, rows, felt = _in_units_of(felt, s, rows)
        found = _solve(_class_system(s, bias), felt, data.feature_mask, s.unit)
        found = _refine(found, rows, felt, targets, bias)
        return _as_linear(found, s, valid, bias, (data, l2), rows)

    return fit(data, l2)


def _of_table(k, bias, data, l2):
    """Of a table whose zeros are not held, by steps; of k classes, or of numbers where it is None.

    Numbers are centred, which the bias undoes, and brought near 1, by which residuals are measured.
    """
    spec = _record.Spec(_LOSS, solver=None, bias=bias, penalised=_risk.penalised(l2, l2.dtype))
    rest = l2, None, None, None, _checks.tolerance(None, l2.dtype), None
    if k is not None:
        return _kinked.run(_kinked.planes, spec, k, data, *rest)
    t, weight = data.y, data.sample_weight
    live = jax.lax.stop_gradient(jnp.isfinite(t) & (True if weight is None else weight > 0))
    known = jax.lax.stop_gradient(jnp.where(live, t, 0))
    sums = jnp.sum(known), jnp.sum(live.astype(t.dtype))
    (total, count), _ = _mesh.across(sums, (), data.axis)
    centre = total / jnp.maximum(count, 1) if bias else jnp.zeros_like(count)
    largest = jnp.max(jnp.where(live, jnp.abs(known - centre), 0))
    unit = _linalg.power_of_two(_mesh.across((), largest, data.axis)[1])
    data = data._replace(y=(t - centre) / unit)
    params, info = _kinked.run(_kinked.plane, spec, k, data, *rest)
    params = Hyperplane(weights=params.weights * unit, bias=params.bias * unit + centre)
    return params, info._replace(objective=info.objective * unit**2, residual=info.residual * unit)


@functools.partial(_platform.jit, static_argnums=0)
def _from_moments(bias, s, l2):
    s, valid = _per_unit(_scatter.tied(s))
    valid &= jnp.all((l2 >= 0) & jnp.isfinite(l2))
    source = s, l2
    s, _, felt = _in_units_of(jnp.where(valid, l2, 0), s)
    found = _solve(_class_system(s, bias), felt, None, s.unit)
    return _as_linear(found, s, valid, bias, source)


@functools.partial(_platform.jit, static_argnums=0)
def _regress(bias, data, l2):
    @_lanes.of_closed_form
    def fit(data, l2):
        s, rows, _, valid = _statistics.of_data(data, None)
        rows = rows._replace(y=jnp.where(rows.ok, rows.y, 0))
        valid &= jnp.all((l2 >= 0) & jnp.isfinite(l2))
        felt = jnp.where(valid, l2, 0)
        s, rows, felt = _in_units_of(felt, s, rows)
        found = _solve(_number_system(s, bias), felt, data.feature_mask, s.unit[:-1])
        found = _refine(found, rows, felt, lambda block: block.y[:, None], bias)
        return _as_hyperplane(found, s, valid, bias, (data, l2), rows)

    return fit(data, l2)


@functools.partial(_platform.jit, static_argnums=0)
def _regress_from_moments(bias, s, l2):
    s, valid = _per_unit(s)
    valid &= jnp.all((l2 >= 0) & jnp.isfinite(l2))
    source = s, l2
    s, _, felt = _in_units_of(jnp.where(valid, l2, 0), s)
    found = _solve(_number_system(s, bias), felt, None, s.unit[:-1])
    return _as_hyperplane(found, s, valid, bias, source)


def _in_units_of(l2, s, rows=None):
    """The statistics, the rows and the penalty in units in which no penalty is far beyond 1."""
    d = l2.shape[0]
    size = jnp.maximum(jnp.sqrt(jax.lax.stop_gradient(l2)) * s.unit[:d], 1)
    by = jnp.ones_like(s.unit).at[:d].set(1 / _linalg.power_of_two(size))
    s = _scatter.rescaled(s, by)
    unit = s.unit[:d]
    return s, None if rows is None else rows._replace(unit=unit), l2 * unit * unit


def _per_unit(s: _scatter.Scatter) -> tuple[_scatter.Scatter, jax.Array]:
    """The statistics for weights that sum to one, and whether there is anything to solve."""
    total = jnp.sum(s.weight)
    valid = jnp.all(jnp.isfinite(s.scatter)) & jnp.isfinite(total) & (total > 0)
    part = jnp.where(valid, 1 / jnp.where(valid, total, 1), 0)
    return s._replace(weight=s.weight * part, scatter=s.scatter * part), valid


def _class_system(s, bias):
    """The normal equations of the indicators: gram `(d, d)`, cross `(k, d)`, square, mean, centre.

    square: the mean of |e_y|^2 about `level (k,)`, what is left when all weights are 0.
    """
    mean = _scatter.mean(s)
    cross = s.weight[:, None] * (s.offset - mean[None, :])
    share = s.weight
    if bias:
        return _scatter.total(s), cross, jnp.sum(share) - jnp.sum(share**2), share, s.centre + mean
    centre = s.centre + mean
    gram = _scatter.total(s) + centre[:, None] * centre[None, :]
    cross = cross + share[:, None] * centre[None, :]
    return gram, cross, jnp.sum(share), jnp.zeros_like(share), jnp.zeros_like(centre)


def _number_system(s, bias):
    centre = s.centre + _scatter.mean(s)
    whole = s.scatter
    if not bias:
        whole = whole + centre[:, None] * centre[None, :]
        centre = jnp.zeros_like(centre)
    return whole[:-1, :-1], whole[None, -1, :-1], whole[-1, -1], centre[None, -1], centre[:-1]


class _Found(NamedTuple):
    """The solution of the normal equations: weights `(m, d)`, level `(m,)` at centre `(d,)`.

    rough: `()` bool, whether the equations may have lost more than a digit of what the data hold
    spread: `()`, of the targets
    """

    weights: jax.Array
    level: jax.Array
    centre: jax.Array
    inverse: _linalg.Inverse
    objective: jax.Array
    rough: jax.Array
    spread: jax.Array


def _solve(system, l2, mask, unit) -> _Found:
    whole = system[0] + jnp.diag(l2)
    return _solved(system, _linalg.pseudo_inverse(whole, mask, unit=unit))


def _solved(system, inverse) -> _Found:
    _, cross, square, level, centre = system
    weights = _linalg.refined(inverse, cross)
    left = jnp.maximum(square - jnp.sum(weights * cross), 0)
    rough = ~(inverse.pivot >= WELL_CONDITIONED) | (left < WELL_CONDITIONED * square)
    spread = jnp.sqrt(jnp.maximum(square, 0))
    return _Found(weights, level, centre, inverse, left / 2, rough, spread)


def _refine(found: _Found, rows, l2, targets, bias) -> _Found:
    """One step of Newton's method with the residuals of the data themselves, where it can tell."""
    entries = _scatter.block_entries(*rows.x.shape)

    def step(rows, still, inverse, l2):
        line = jnp.concatenate([still.weights, still.level[:, None]], axis=1)

        def errors(block):
            z = block.x - still.centre[None, :]
            z = jnp.concatenate([z, jnp.ones((len(z), 1), z.dtype)], axis=1)
            error = targets(block) - dot(z, line.T)
            error = jnp.where((block.weight > 0)[:, None], error, 0)
            pull = error * block.weight[:, None]
            return (dot(pull.T, z), jnp.sum(pull * error)), ()

        (pull, square), _ = _fold.fold(errors, rows, entries)
        moved = dot(pull[:, :-1] - still.weights * l2[None, :], inverse)
        return moved, pull[:, -1], (square + jnp.sum(l2[None, :] * still.weights**2)) / 2

    still = found._replace(inverse=None)  # type: ignore[arg-type] # only its matrix is wanted
    still, inverse, rows, l2 = jax.lax.stop_gradient((still, found.inverse.matrix, rows, l2))
    nothing = jnp.zeros_like(still.weights), jnp.zeros_like(still.level), still.objective
    moved, shift, objective = _linalg.when(still.rough, step, nothing, (rows, still, inverse, l2))
    return found._replace(
        weights=found.weights + moved,
        level=found.level + shift if bias else found.level,
        objective=found.objective + jax.lax.stop_gradient(objective - found.objective),
    )


def _as_linear(found, s, valid, bias, source, rows=None):
    weights, level, centre, inverse, objective, _, spread = found
    present = s.rows > 0
    weights = jnp.where(present[:, None], weights, 0)
    given = weights * s.unit[None, :]
    intercept = level - dot(weights, centre) if bias else jnp.zeros_like(level)
    intercept = jnp.where(present, intercept, -jnp.inf)
    coarse = _bayes.is_coarse(dot(jnp.abs(weights), jnp.abs(centre)), spread)
    coarse |= ~jnp.all(jnp.isfinite(jax.lax.stop_gradient(given)))
    solved = _bayes.solved(inverse, rows, 1, coarse=coarse, centred=bias)
    info = _bayes.verdict(s, valid, jnp.bool_(False), solved, objective)
    params = Linear(weights=given, bias=intercept)
    return _bayes.settled(params, info, valid, source)


def _as_hyperplane(found, s, valid, bias, source, rows=None):
    weights, level, centre, inverse, objective, _, spread = found
    intercept = level - dot(weights, centre) if bias else jnp.zeros_like(level)
    coarse = _bayes.is_coarse(dot(jnp.abs(weights), jnp.abs(centre)), spread)
    unit, own = s.unit[:-1], s.unit[-1]
    params = Hyperplane(weights=weights[0] * unit / own, bias=intercept[0] / own)
    objective = objective / own / own
    told = jnp.sum(params.weights) + objective
    coarse |= ~jnp.isfinite(jax.lax.stop_gradient(told))
    solved = _bayes.solved(inverse, rows, 1, coarse=coarse, centred=bias)
    status = jnp.where(valid, solved, Status.INVALID_DATA).astype(jnp.int32)
    nan = jnp.where(valid, 0, jnp.nan).astype(objective.dtype)
    info = Info(status, jnp.int32(0), objective + nan, nan)
    return _implicit.guarded(params, valid, source), _implicit.told(info, valid, source)


# --- many fits to the same rows ------------------------------------------------------------------


class _Factors(NamedTuple):
    """The normal equations' matrix, its inverse with the penalty, and the rows' mean.

    valid: `()` bool, whether the penalty is
    """

    gram: jax.Array
    inverse: _linalg.Inverse
    mean: jax.Array
    unit: jax.Array
    valid: jax.Array


def _factors(
    at: _closed_form.Still, held, k: int, *, num_classes=None, l2=0.0, bias=True
) -> _Factors:
    l2 = _checks.penalty(l2, at.mean.shape[0], at.mean.dtype)
    mean = at.origin + at.mean
    gram, felt = at.scatter, l2 * at.unit * at.unit
    if not _checks.static(bias, bool, "bias"):
        gram = gram + mean[:, None] * mean[None, :]
    whole = gram + jnp.diag(felt)
    valid = jnp.all((l2 >= 0) & jnp.isfinite(felt))
    inverse = _linalg.pseudo_inverse(whole, unit=at.unit)
    return _Factors(gram, inverse, mean, at.unit, valid)


def _relabelled(
    at: _closed_form.Still, held, factors: _Factors, sums: _closed_form.Sums, *, bias=True, **_
) -> tuple[Linear, jax.Array, jax.Array]:
    """The fit: labels are on one side of the normal equations only."""
    gram, inverse, mean, unit, valid = factors
    share, cross = sums.share, sums.moved
    if bias:
        system = gram, cross, jnp.sum(share) - jnp.sum(share**2), share, mean
    else:
        cross = cross + share[:, None] * mean[None, :]
        system = gram, cross, jnp.sum(share), jnp.zeros_like(share), jnp.zeros_like(mean)
    found = _solved(system, inverse)
    intercept = found.level - dot(found.weights, found.centre)
    sound = at.sound & valid & ~found.rough & jnp.all(sums.rows > 0)
    params = Linear(weights=found.weights * unit[None, :], bias=intercept)
    return params, found.objective, sound


def _reweighed(s, valid, source, *, num_classes=None, l2=0.0, bias=True):
    bias = _checks.static(bias, bool, "bias")
    s, _ = _per_unit(s)
    l2 = _checks.penalty(l2, s.centre.shape[0], s.weight.dtype)
    valid &= jnp.all((l2 >= 0) & jnp.isfinite(l2))
    s, _, felt = _in_units_of(jnp.where(valid, l2, 0), s)
    found = _solve(_class_system(s, bias), felt, None, s.unit)
    params, info = _as_linear(found, s, valid, bias, (source, l2))
    return params, info, ~(found.rough & valid) & (info.status != Status.RANK_DEFICIENT)


_OFFER = _closed_form.Offer(
    frozenset({"num_classes", "l2", "bias"}), _factors, _relabelled, _reweighed
)


def _curvature(scores: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.full((), scores.size, scores.dtype)


_LOSS = _conjugates.SQUARES.beside(_record.Loss(_conjugates.squares, _curvature, _record.nothing))
_traits.declare(fit, many=_OFFER, moments=(tied, fit_from_moments))

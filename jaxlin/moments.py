"""Statistics of data that merge: class weights, means, and centred scatter.

The closed forms (`least_squares`, `lda`, `qda`, `gaussian`) need nothing else of the data. So data
that are spread over files, machines or time are fitted by merging what each part says, and a fold
is left out by subtracting it. Scatter is centred where it is made and merged by the formula of
Chan, Golub and LeVeque (1983), not from raw squares: data at 1e8 keep their digits.

Data that are not valid (NaN where there is weight, a label that is no class) raise eagerly; under a
transformation every entry is NaN, and a fit from such moments is INVALID_DATA. So do columns whose
scatter the dtype does not hold, which in float32 is so where it is below 2e-33, but not 0, or
beyond 3e38: such as they are times a power of two no digit is lost. Of what is merged every entry
is NaN then.
Shapes: `n` examples, `d` features, `k` classes.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _checks, _invalid, _platform
from jaxlin._data import _prepare
from jaxlin._moments import _bayes, _columns, _scatter, _statistics
from jaxlin._moments._scatter import Scatter
from jaxlin.types import Info, Status


class TiedMoments(NamedTuple):
    """The classes' weights and means, and their scatter added up.

    weight: `(k,)`, sums of weights
    rows: `(k,)` int32, rows of positive weight
    mean: `(k, d)`, 0 without weight
    scatter: `(d, d)`, the sum of w (x - mean)(x - mean)'
    """

    weight: jax.Array
    rows: jax.Array
    mean: jax.Array
    scatter: jax.Array


class ClassMoments(NamedTuple):
    """The classes' weights, means and scatter, each class by itself.

    weight: `(k,)`, sums of weights
    rows: `(k,)` int32, rows of positive weight
    mean: `(k, d)`, 0 without weight
    scatter: `(k, d, d)`
    """

    weight: jax.Array
    rows: jax.Array
    mean: jax.Array
    scatter: jax.Array


class RegressionMoments(NamedTuple):
    """Weight, mean and scatter of the features with the target as one more, the last.

    weight: `(1,)`
    rows: `(1,)` int32
    mean: `(1, d + 1)`
    scatter: `(d + 1, d + 1)`
    """

    weight: jax.Array
    rows: jax.Array
    mean: jax.Array
    scatter: jax.Array


class ColumnMoments(NamedTuple):
    """The classes' weights and means, and the squares about them, each column by itself.

    weight: `(k,)`, sums of weights
    rows: `(k,)` int32, rows of positive weight
    mean: `(k, d)`, 0 without weight
    scatter: `(k, d)`, the sums of w (x - mean)^2
    """

    weight: jax.Array
    rows: jax.Array
    mean: jax.Array
    scatter: jax.Array


Moments = TiedMoments | ClassMoments | RegressionMoments | ColumnMoments


def tied(
    x: Any,
    y: Any,
    *,
    num_classes: int | None = None,
    sample_weight: Any = None,
    feature_mask: Any = None,
    axis_name: str | None = None,
) -> TiedMoments:
    """Class weights and means, and one scatter within the classes: for `lda`, `least_squares`.

    Args:
      x: `(n, d)`.
      y: `(n,)` class indices.
      num_classes: k, static; eagerly by default 1 + the largest label with weight.
      sample_weight: `(n,)`, nonnegative.
      feature_mask: `(d,)` bool; a masked column is 0 throughout.
      axis_name: static; the mesh axis over which the rows are dealt, inside `jax.shard_map`: see
        `distributed`.

    Returns:
      TiedMoments. O(n d^2), one pass over x.

    Raises:
      ValueError: shapes that do not fit; eagerly also data that are not valid.
      TypeError: dtypes of the wrong kind.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import moments
      >>> m = moments.tied(jnp.array([[0.0], [2.0], [5.0]]), jnp.array([0, 0, 1]))
      >>> m.weight.tolist(), m.mean.round(6).tolist(), m.scatter.round(6).tolist()
      ([2.0, 1.0], [[1.0], [5.0]], [[2.0]])
    """
    return TiedMoments(
        *_of_classes(False, x, y, num_classes, sample_weight, feature_mask, axis_name)
    )


def per_class(
    x: Any,
    y: Any,
    *,
    num_classes: int | None = None,
    sample_weight: Any = None,
    feature_mask: Any = None,
    axis_name: str | None = None,
) -> ClassMoments:
    """Class weights, means and scatter, each class by itself: for `qda`, `gaussian`.

    Args:
      x: `(n, d)`.
      y: `(n,)` class indices.
      num_classes: k, static; eagerly by default 1 + the largest label with weight.
      sample_weight: `(n,)`, nonnegative.
      feature_mask: `(d,)` bool; a masked column is 0 throughout.
      axis_name: static; the mesh axis over which the rows are dealt, inside `jax.shard_map`: see
        `distributed`.

    Returns:
      ClassMoments. O(n k d^2), one pass over x.

    Raises:
      ValueError: shapes that do not fit; eagerly also data that are not valid.
      TypeError: dtypes of the wrong kind.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import moments
      >>> m = moments.per_class(jnp.array([[0.0], [2.0], [5.0]]), jnp.array([0, 0, 1]))
      >>> m.scatter.tolist()
      [[[2.0]], [[0.0]]]
    """
    return ClassMoments(
        *_of_classes(True, x, y, num_classes, sample_weight, feature_mask, axis_name)
    )


def per_column(
    x: Any,
    y: Any,
    *,
    num_classes: int | None = None,
    sample_weight: Any = None,
    feature_mask: Any = None,
    axis_name: str | None = None,
) -> ColumnMoments:
    """Class weights and means, and squares column by column: for `naive_bayes`.

    Args:
      x: `(n, d)`.
      y: `(n,)` class indices.
      num_classes: k, static; eagerly by default 1 + the largest label with weight.
      sample_weight: `(n,)`, nonnegative.
      feature_mask: `(d,)` bool; a masked column is 0 throughout.
      axis_name: static; the mesh axis over which the rows are dealt, inside `jax.shard_map`: see
        `distributed`.

    Returns:
      ColumnMoments. O(n k d), two passes over x.

    Raises:
      ValueError: shapes that do not fit; eagerly also data that are not valid.
      TypeError: dtypes of the wrong kind.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import moments
      >>> m = moments.per_column(jnp.array([[0.0], [2.0], [5.0]]), jnp.array([0, 0, 1]))
      >>> m.mean.tolist(), m.scatter.tolist()
      ([[1.0], [5.0]], [[2.0], [0.0]])
    """
    data = _checks.table(
        x, y, sample_weight=sample_weight, feature_mask=feature_mask, axis_name=axis_name
    )
    k = _checks.number_of_classes(num_classes, y, sample_weight)
    columns, info = _of_columns(data, k)
    _invalid.raise_if_invalid(info, data, num_classes=k)
    return ColumnMoments(*columns)


def from_data(
    x: Any,
    y: Any,
    *,
    num_classes: int | None = None,
    sample_weight: Any = None,
    feature_mask: Any = None,
    axis_name: str | None = None,
) -> ClassMoments:
    """The moments that every classifier can be fitted from: those of `per_class`.

    Args:
      x: `(n, d)`.
      y: `(n,)` class indices.
      num_classes: k, static; eagerly by default 1 + the largest label with weight.
      sample_weight: `(n,)`, nonnegative.
      feature_mask: `(d,)` bool; a masked column is 0 throughout.
      axis_name: static; the mesh axis over which the rows are dealt, inside `jax.shard_map`: see
        `distributed`.

    Returns:
      ClassMoments. Where no method needs a covariance per class, `tied` is k times quicker.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import moments
      >>> moments.from_data(jnp.array([[0.0], [2.0]]), jnp.array([0, 1])).rows.tolist()
      [1, 1]
    """
    return per_class(
        x,
        y,
        num_classes=num_classes,
        sample_weight=sample_weight,
        feature_mask=feature_mask,
        axis_name=axis_name,
    )


def regression(
    x: Any,
    t: Any,
    *,
    sample_weight: Any = None,
    feature_mask: Any = None,
    axis_name: str | None = None,
) -> RegressionMoments:
    """Weight, mean and scatter of features and a number to predict: for `least_squares.regress`.

    Args:
      x: `(n, d)`.
      t: `(n,)` real targets.
      sample_weight: `(n,)`, nonnegative.
      feature_mask: `(d,)` bool; a masked column is 0 throughout.
      axis_name: static; the mesh axis over which the rows are dealt, inside `jax.shard_map`: see
        `distributed`.

    Returns:
      RegressionMoments. O(n d^2), one pass over x.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import moments
      >>> m = moments.regression(jnp.array([[0.0], [2.0]]), jnp.array([1.0, 5.0]))
      >>> m.mean.tolist(), m.scatter.tolist()
      ([[1.0, 3.0]], [[2.0, 4.0], [4.0, 8.0]])
    """
    data = _checks.targets(
        x, t, sample_weight=sample_weight, feature_mask=feature_mask, axis_name=axis_name
    )
    s, info = _regression(data)
    _invalid.raise_if_invalid(info, data, num_classes=None)
    return RegressionMoments(*s)


def merge(a: Moments, b: Moments) -> Moments:
    """The moments of both parts together; either may be empty.

    Args:
      a, b: of one type and shape.

    Returns:
      The same type. Any split of rows, merged in any order, gives the whole's to rounding.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import moments
      >>> x, y = jnp.array([[0.0], [2.0], [5.0]]), jnp.array([0, 0, 1])
      >>> parts = [moments.tied(x[i:i+1], y[i:i+1], num_classes=2) for i in range(3)]
      >>> moments.merge(moments.merge(parts[0], parts[1]), parts[2]).scatter.tolist()
      [[2.0]]
    """
    _alike(a, b)
    if isinstance(a, ColumnMoments):
        return ColumnMoments(*_columns.combine(_columns.Columns(*a), _columns.Columns(*b)))
    return type(a)(*_merge(_scatter.of_moments(a), _scatter.of_moments(b)))


def subtract(whole: Moments, part: Moments) -> Moments:
    """The moments of what is left of `whole` when `part`, once merged into it, is taken out.

    Args:
      whole, part: of one type and shape.

    Returns:
      The same type. What is left is rounded with the size of the whole.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import moments
      >>> x, y = jnp.array([[0.0], [2.0], [5.0]]), jnp.array([0, 0, 1])
      >>> whole, part = moments.tied(x, y), moments.tied(x[2:], y[2:], num_classes=2)
      >>> moments.subtract(whole, part).weight.tolist()
      [2.0, 0.0]
    """
    _alike(whole, part)
    if isinstance(whole, ColumnMoments):
        return ColumnMoments(*_columns.remove(_columns.Columns(*whole), _columns.Columns(*part)))
    return type(whole)(*_subtract(_scatter.of_moments(whole), _scatter.of_moments(part)))


def _require(moments: Any, kind: Any) -> None:
    if not isinstance(moments, kind):
        raise TypeError(f"moments: expected those of jaxlin.moments, got {type(moments).__name__}")


def _alike(a: Moments, b: Moments) -> None:
    _require(a, Moments)
    if type(a) is not type(b):
        raise TypeError(f"expected moments of one type, got {type(a)} and {type(b)}")
    if jnp.shape(a.mean) != jnp.shape(b.mean):
        raise ValueError(
            f"expected moments of one shape, got means {jnp.shape(a.mean)} and {jnp.shape(b.mean)}"
        )


def _of_classes(per_class, x, y, num_classes, sample_weight, feature_mask, axis_name):
    data = _checks.table(
        x, y, sample_weight=sample_weight, feature_mask=feature_mask, axis_name=axis_name
    )
    k = _checks.number_of_classes(num_classes, y, sample_weight)
    moments, info = _classes(data, k, per_class)
    _invalid.raise_if_invalid(info, data, num_classes=k)
    return moments


@functools.partial(_platform.jit, static_argnums=(1, 2))
def _classes(data, k, per_class):
    s, valid, _ = _bayes.of_data(data, k, per_class=per_class)
    return _shown(s, valid)


@functools.partial(_platform.jit, static_argnums=1)
def _of_columns(data, k):
    rows, total, valid = _prepare.prepare(data, num_classes=k)
    s = _columns.of_rows(_scatter.in_units(rows), k, jnp.where(valid, total, 0))
    columns, held = _columns.in_users_units(s)
    return _told(*columns, valid & held)


@_platform.jit
def _regression(data):
    s, _, total, valid = _statistics.of_data(data, None)
    total = jnp.where(valid, total, 0)
    return _shown(s._replace(weight=s.weight * total, scatter=s.scatter * total), valid)


def _shown(s: Scatter, valid: jax.Array) -> tuple[tuple, Info]:
    weight, rows, means, scatter = _plain(s)
    return _told(weight, rows, means, scatter, valid)


def _told(weight, rows, means, scatter, valid) -> tuple[tuple, Info]:
    valid &= jnp.isfinite(jnp.sum(weight))
    nan = jnp.where(valid, 0, jnp.nan).astype(weight.dtype)
    status = jnp.where(valid, Status.CONVERGED, Status.INVALID_DATA).astype(jnp.int32)
    return (weight + nan, rows, means + nan, scatter + nan), Info(status, jnp.int32(0), nan, nan)


@_platform.jit
def _merge(a, b):
    return _plain(_scatter.combine(a, b))


@_platform.jit
def _subtract(whole, part):
    return _plain(_scatter.remove(whole, part))


def _plain(s: Scatter) -> tuple:
    """In the user's units; NaN where the dtype does not hold the digits of the scatter there."""
    scatter, held = _linalg.turned(s.scatter, 1 / s.unit)
    nan = jnp.where(jnp.all(held), 0, jnp.nan).astype(scatter.dtype)
    return s.weight + nan, s.rows, _scatter.given_means(s) + nan, scatter + nan

"""Resampling as weights: a fold is a vector of zeros and ones, never a copy of the data.

Whatever leaves rows out or counts them twice is one more row of a `(lanes, n)` array of training
weights, so that all folds are one vmapped fit over a shared `x`. `kfold` and `stratified_kfold`
make such weights, `cross_validate` judges any fit with them. Shapes: `n` examples, `d` features,
`k` classes.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin import _checks, _dispatch, _options
from jaxlin.types import Info, Status

Fit = Callable[..., tuple[Any, Info]]
Metric = Callable[..., jax.Array]


def kfold(key: jax.Array, n: int, *, folds: int) -> jax.Array:
    """Deal `n` rows at random into folds of equal size, give or take one.

    Args:
      key: a PRNG key.
      n: the number of rows, static.
      folds: the number of folds, static, from 2 to n.

    Returns:
      Training weights `(folds, n)` in the default float dtype: 1 trains, 0 is held out. Every
      row is held out exactly once.

    Raises:
      ValueError: `folds` is not from 2 to n.

    Example:
      >>> import jax
      >>> from jaxlin import resample
      >>> weights = resample.kfold(jax.random.key(0), 6, folds=3)
      >>> weights.sum(0).tolist(), weights.sum(1).tolist()
      ([2.0, 2.0, 2.0, 2.0, 2.0, 2.0], [4.0, 4.0, 4.0])
    """
    n = _checks.static(n, int, "n")
    return _kfold(key, n, _number_of_folds(folds, n))


def stratified_kfold(key: jax.Array, y: Any, *, folds: int) -> jax.Array:
    """Deal the rows of each class at random and evenly into folds.

    The shuffled rows are sorted by class and dealt in turn, as cards are, without a new start at
    each class: so neither the counts of a class nor the sizes of the folds differ by more than
    one. A class with fewer rows than there are folds is held out by as many folds as it has rows.

    Args:
      key: a PRNG key.
      y: `(n,)` class indices; they may be traced.
      folds: the number of folds, static, from 2 to n.

    Returns:
      Training weights `(folds, n)` in the default float dtype: 1 trains, 0 is held out. Every
      row is held out exactly once.

    Raises:
      ValueError: `folds` is not from 2 to n.
      TypeError: y holds no integers or bools.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from jaxlin import resample
      >>> y = jnp.array([0, 0, 1, 1, 1, 1])
      >>> weights = resample.stratified_kfold(jax.random.key(0), y, folds=2)
      >>> weights[:, y == 1].sum(1).tolist()
      [2.0, 2.0]
    """
    y = _checks.array(y, "y")
    _checks.refuse_inexact(y)
    if y.ndim != 1:
        raise ValueError(f"y: expected shape (n,), got {y.shape}")
    return _stratified_kfold(key, y, _number_of_folds(folds, len(y)))


def cross_validate(
    fit: Fit,
    metric: Metric,
    x: Any,
    y: Any,
    weights: Any,
    *,
    held_out: Any = None,
    sample_weight: Any = None,
    batch_size: int | None = None,
    **options: Any,
) -> tuple[jax.Array, Info]:
    """Judge a fit on the rows that each fold holds out.

    Fold i trains on `sample_weight * weights[i]` and is judged on the rows where `weights[i]` is
    0. The folds are one vmap, compiled once per fit, metric and shapes: give functions with a
    name, since a lambda made anew compiles anew.

    Args:
      fit: `fit(x, y, *, sample_weight, ...) -> (params, Info)`, of this package or your own.
      metric: `metric(scores, y, *, sample_weight)`, such as `metrics.accuracy`; the scores are
        those of `jaxlin.scores`, with `offset` added where that is among the options.
      x: `(n, d)`.
      y: `(n,)`, or what the fit takes.
      weights: `(folds, n)` training weights, as `stratified_kfold` makes them.
      held_out: `(folds, n)`, nonzero where a fold is judged; by default where `weights` is 0.
      sample_weight: `(n,)`; a row of weight 0 neither trains nor judges.
      batch_size: how many folds to run at a time, to bound memory; all at once by default.
      **options: handed to the fit unchanged. `num_classes` may be left out, eagerly.

    Returns:
      `(values, info)`: the metric of each fold `(folds,)`, followed by the metric's own axes if
      it has any, and NaN where a fold holds nothing out or its fit is INVALID_DATA; and the
      Info of each fold.

    Raises:
      ValueError: shapes do not agree; eagerly also when the data or an option are invalid.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from jaxlin import metrics, perceptron, resample
      >>> x, y = jnp.array([[-3.0], [-2.0], [2.0], [3.0]]), jnp.array([0, 0, 1, 1])
      >>> folds = resample.stratified_kfold(jax.random.key(0), y, folds=2)
      >>> values, info = resample.cross_validate(perceptron.fit, metrics.accuracy, x, y, folds)
      >>> values.tolist()
      [1.0, 1.0]
    """
    x = _checks.matrix(x)
    n, _ = x.shape
    dtype = _checks.working_dtype(x)
    y = _checks.array(y, "y")
    if y.shape[:1] != (n,):
        raise ValueError(f"y: expected one label per row of x, shape ({n},), got {y.shape}")
    weights = _per_fold(weights, n, dtype, "weights")
    if held_out is not None:
        held_out = _checks.shaped(held_out, weights.shape, dtype, "held_out")
    sample_weight = _checks.optional(sample_weight, (n,), dtype, "sample_weight")
    options = _options.with_classes(fit, options, y, sample_weight)
    split = _options.split(options, dtype)
    values, info = _cross_validate(
        fit,
        metric,
        split.static,
        _batch_size(batch_size),
        (x, y, sample_weight, split.traced),
        weights,
        held_out,
    )
    _raise_if_invalid(fit, info, x, y, weights, sample_weight, options)
    return values, info


@functools.partial(jax.jit, static_argnums=(1, 2))
def _kfold(key, n, folds):
    return _training_weights(jax.random.permutation(key, n) % folds, folds)


@functools.partial(jax.jit, static_argnums=2)
def _stratified_kfold(key, y, folds):
    shuffled = jax.random.permutation(key, len(y))
    by_class = shuffled[jnp.argsort(y[shuffled], stable=True)]
    place = jnp.argsort(by_class)  # the inverse permutation: where each row came to lie
    return _training_weights(place % folds, folds)


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _cross_validate(fit, metric, static, batch_size, data, weights, held_out):
    x, y, sample_weight, traced = data
    options = _options.join(_options.Options(static, traced))

    def one_fold(fold):
        weight, judged = fold
        judged = (weight == 0 if judged is None else judged != 0).astype(weight.dtype)
        if sample_weight is not None:
            weight, judged = weight * sample_weight, judged * sample_weight
        params, info = fit(x, y, sample_weight=weight, **options)
        scores = _with_offset(_dispatch.scores(params, x), options.get("offset"))
        value = _checks.real(metric(scores, y, sample_weight=judged), "metric")
        meaningful = jnp.any(judged != 0) & (info.status != Status.INVALID_DATA)
        return jnp.where(meaningful, value, jnp.nan), info

    return _map(one_fold, (weights, held_out), batch_size)


def _map(f: Callable, lanes: Any, batch_size: int | None) -> Any:
    """`f` over the leading axis, all lanes at once or `batch_size` at a time."""
    if batch_size is None:
        return jax.vmap(f)(lanes)
    return jax.lax.map(f, lanes, batch_size=None if batch_size == 1 else batch_size)


def _with_offset(scores: jax.Array, offset: jax.Array | None) -> jax.Array:
    if offset is None:
        return scores
    return scores + (offset[:, None] if offset.ndim < scores.ndim else offset)


def _training_weights(fold: jax.Array, folds: int) -> jax.Array:
    """`(folds, n)`: 0 where `fold: (n,)` says that a row is held out, else 1."""
    index = jnp.arange(folds, dtype=fold.dtype)
    return (fold[None, :] != index[:, None]).astype(jnp.result_type(float))


def _number_of_folds(folds: Any, n: int) -> int:
    folds = _checks.static(folds, int, "folds")
    if not 2 <= folds <= n:
        raise ValueError(f"folds: expected from 2 to {n}, the number of rows, got {folds}")
    return folds


def _per_fold(weights: Any, n: int, dtype: Any, name: str) -> jax.Array:
    weights = _checks.real(weights, name)
    if weights.ndim != 2 or weights.shape[1] != n:
        raise ValueError(f"{name}: expected shape (folds, {n}), got {weights.shape}")
    return weights.astype(dtype)


def _batch_size(batch_size: Any) -> int | None:
    if batch_size is None:
        return None
    size = _checks.static(batch_size, int, "batch_size")
    if size < 1:
        raise ValueError(f"batch_size: expected a positive integer, got {size}")
    return size


def _raise_if_invalid(fit, info, x, y, weights, sample_weight, options):
    """Let the fit of the first invalid fold say in its own words what is wrong."""
    status = info.status
    if not _checks.concrete(status):
        return
    invalid = np.flatnonzero(np.asarray(status) == Status.INVALID_DATA)
    if not invalid.size:
        return
    lane = int(invalid[0])
    weight = weights[lane] if sample_weight is None else weights[lane] * sample_weight
    try:
        fit(x, y, sample_weight=weight, **options)
    except ValueError as error:
        raise ValueError(f"fold {lane} of {len(weights)}: {error}") from None
    raise ValueError(f"fold {lane} of {len(weights)}: the data are not valid")

"""Linear probes: many binary concepts, penalties and layers over one table of features.

A probe asks what can be read off a representation by a plane: a concept per column of `y`, a
penalty chosen by held-out rows, again for every layer of a network. `sweep` fits all of them, and
`select` chooses each concept's penalty and says what the held-out rows have shown; with a key it
does the same for labels dealt at random, the control that tells what a probe learns by itself.

`x` is one `(n, d)` table, or one of each layer `(layers, n, d)`, in half precision if that is how
it lies; `y` is `(n,)` classes, or `(n, t)` binary targets. Leading axes of what is returned are
layer, target, penalty, each only where given. Every lane says its own status, and equals the fit
alone to rounding: a target without positives is CLASS_TOO_SMALL, and its neighbours are untouched.

The targets and penalties of a layer are found together, in products of x with all of them; closed
forms (`lda.fit`, `least_squares.fit`) make the statistics of x once for all targets. Layers come
one after the other, and what a layer holds beside x does not grow with the number of targets.

Of an x on disk a block is in memory at a time, and a pass over it serves as many targets and
penalties as hold half a gigabyte: a thousand fits of 4,096 columns. Lanes that may have no optimum,
for want of a penalty, go one by one; closed forms take a pass for each target.

Of the directions that are found, that of `lda.fit` at a shrinkage of 1 is the difference of the
means, and `linear.patterns` says what moves with the score.

Shapes: `n` examples, `d` features, `t` targets, `p` penalties.
"""

import contextlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin._base import _archive, _checks, _options, _words
from jaxlin._batch import _folds, _lanes, _sweeps
from jaxlin._batch._folds import Fit, Metric
from jaxlin._files import _bar
from jaxlin._moments import _closed_form
from jaxlin._smooth import _streamed_probes
from jaxlin.types import Info, Status


class Report(NamedTuple):
    """What the held-out rows have shown.

    values: `(layers, t, p)`, the mean of the metric over the folds that could be judged; NaN where
      none could
    errors: `(layers, t, p)`, its standard error; NaN with fewer than two such folds
    status: `(layers, t, p)`, the largest of the fits of all folds and of all rows
    l2: `(layers, t)`, the penalty chosen, or the shrinkage; NaN where nothing could be judged
    shuffled: the same for labels dealt at random, or None
    """

    values: jax.Array
    errors: jax.Array
    status: jax.Array
    l2: jax.Array
    shuffled: Any = None


@_options.explained
def sweep(
    fit: Fit,
    x: Any,
    y: Any,
    *,
    l2: Any = None,
    shrinkage: Any = None,
    sample_weight: Any = None,
    checkpoint: Any = None,
    progress: bool = False,
    **options: Any,
) -> tuple[Any, Info]:
    """Fit every layer, target and penalty.

    Args:
      fit: `fit(x, y, *, l2, ...) -> (params, Info)`, of this package or your own.
      x: `(n, d)` or `(layers, n, d)`; or a stream: a memory map, the path of an `.npy` file, a list
        of such paths, whose rows follow each other, or a source of `streaming`.
      y: `(n,)` class indices, or `(n, t)` targets in {0, 1}; None for a source, which brings its
        own.
      l2: penalties `(p,)`, or a number, for fits that take `l2`.
      shrinkage: the same for fits that take `shrinkage`, in place of `l2`.
      sample_weight: `(n,)`, or `(n, t)`: a row of weight 0 has no label of that target.
      checkpoint: of a stream, a path, to which the state is written after each pass of the lanes
        that go together; if it is there already, the run goes on from it. Not for closed forms.
      progress: of a stream, whether to show a bar of passes and residual, which takes tqdm.
      **options: handed to the fit, numbers among them traced. `num_classes` may be left out,
        eagerly, and is 2 where there are targets.

    Returns:
      `(params, info)`, each with leading axes layer, target, penalty, each only where given.

    Raises:
      TypeError: the fit has no such penalty; labels of several targets are no integers.
      ValueError: shapes do not agree; eagerly also data or options that are invalid.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import logistic, probes
      >>> x = jnp.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]])
      >>> y = jnp.array([[0, 1], [1, 0], [0, 1], [1, 0]])
      >>> params, info = probes.sweep(logistic.fit, x, y, l2=jnp.array([1.0, 0.1, 0.01]))
      >>> params.weights.shape, info.status.tolist()
      ((2, 3, 2), [[0, 0, 0], [0, 0, 0]])
    """
    source = _streamed_probes.source_of(x, y, sample_weight)
    if source is not None:
        swept, values = _swept(fit, l2, shrinkage)
        kept = _archive.Kept(checkpoint)
        with contextlib.closing(_bar.Bar(progress)) as bar:
            return _streamed_probes.sweep(fit, source, swept, values, kept, bar, options)
    if checkpoint is not None or progress:
        raise TypeError("checkpoint, progress: of a stream; this x is in memory")
    job, given = _job(fit, x, y, None, l2, shrinkage, sample_weight, None, options)
    single = given.values.ndim == 0
    given = given._replace(values=jnp.atleast_1d(given.values))
    params, info = _sweeps.sweep(_sweeps.of_size(job, given), given)
    _raise_if_invalid(job, given, info.status)
    if not single:
        return params, info
    axis = given.x.ndim - 2 + given.y.ndim - 1
    return jax.tree.map(lambda a: jnp.squeeze(a, axis), (params, info))


@_options.explained
def select(
    fit: Fit,
    metric: Metric,
    x: Any,
    y: Any,
    weights: Any,
    *,
    l2: Any = None,
    shrinkage: Any = None,
    key: jax.Array | None = None,
    larger_is_better: bool | None = None,
    one_standard_error: bool = False,
    sample_weight: Any = None,
    progress: bool = False,
    **options: Any,
) -> tuple[Any, Info, Report]:
    """Choose the penalty of every layer and target by held-out rows, and fit all rows with it.

    The choice is that of `resample.select`: the best mean over the folds, of equals the strongest
    penalty, or by the rule of one standard error the strongest within one of the best.

    Args:
      fit: `fit(x, y, *, l2, ...) -> (params, Info)`, of this package or your own.
      metric: `metric(scores, y, *, sample_weight)` -> a number, such as `metrics.roc_auc`.
      x: `(n, d)` or `(layers, n, d)`, or a stream, as `sweep` takes it, of which the folds come one
        after the other.
      y: `(n,)` class indices, or `(n, t)` targets in {0, 1}; None for a source.
      weights: `(folds, n)` training weights, as `resample.stratified_kfold` or `group_kfold` makes
        them, or `(n,)` of one split: 1 trains, 0 is held out.
      l2: `(p,)` penalties, for fits that take `l2`.
      shrinkage: the same for fits that take `shrinkage`, in place of `l2`.
      key: a PRNG key; `report.shuffled` is then the report for labels dealt at random among the
        rows of each target that have weight, alike in all layers.
      larger_is_better: static; False for a loss. By default so for `metrics.log_loss` and
        `metrics.brier`, and True for any other metric.
      one_standard_error: static, whether that rule decides.
      sample_weight: `(n,)`, or `(n, t)`: a row of weight 0 has no label of that target, neither to
        train nor to be judged by.
      progress: of a stream, as in `sweep`.
      **options: handed to the fit, numbers among them traced. `num_classes` may be left out,
        eagerly, and is 2 where there are targets.

    Returns:
      `(params, info, report)`: the fits to all rows with the penalties chosen, leading axes layer
      and target, each only where given; and a Report, whose values have the penalties last. Where
      no penalty could be judged l2 is NaN, and so are the params, of status INVALID_DATA; of a
      target of one class they are their limit, of status CLASS_TOO_SMALL.

    Raises:
      TypeError: the fit has no such penalty; labels of several targets are no integers.
      ValueError: shapes do not agree; the metric is no single number; eagerly also data or options
        that are invalid.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from jaxlin import logistic, metrics, probes, resample
      >>> x = jax.random.normal(jax.random.key(0), (2, 60, 3))  # two layers
      >>> y = jnp.stack([x[0, :, 0] > 0, x[1, :, 1] > 0], axis=1)
      >>> folds = resample.kfold(jax.random.key(1), 60, folds=5)
      >>> params, info, report = probes.select(
      ...     logistic.fit, metrics.roc_auc, x, y, folds, l2=jnp.array([1.0, 0.1]))
      >>> report.values.shape, (report.values.max(2) > 0.9).tolist()
      ((2, 2, 2), [[True, False], [False, True]])
    """
    _words.refuse_other_metric(metric)
    source = _streamed_probes.source_of(x, y, sample_weight)
    larger = bool(_folds.larger_is_better(metric, larger_is_better))
    rule = larger, bool(one_standard_error)
    if source is not None:
        swept, values = _swept(fit, l2, shrinkage)
        _several(swept, values)
        choice = _streamed_probes.Choice(metric, _split_of(weights), rule, key)
        with contextlib.closing(_bar.Bar(progress)) as bar:
            several = _streamed_probes.select(fit, source, swept, values, choice, bar, options)
        found, shuffled = several
        return found.params, found.info, _reported(found, shuffled)
    if progress:
        raise TypeError("progress: of a stream; this x is in memory")
    job, given = _job(fit, x, y, weights, l2, shrinkage, sample_weight, key, options)
    _several(job.swept, given.values)
    job = job._replace(metric=metric, rule=rule)
    found, shuffled = _sweeps.select(_sweeps.of_size(job, given), given)
    _raise_if_invalid(job, given, found.infos.status)
    return found.params, found.info, _reported(found, shuffled)


def _split_of(weights: Any) -> np.ndarray:
    """Training weights `(folds, n)` of rows that are not in memory."""
    _words.refuse_splits(weights, "weights")
    return np.atleast_2d(np.asarray(_checks.real(weights, "weights")))


def _several(swept: str, values: jax.Array) -> None:
    if values.ndim != 1:
        raise ValueError(f"{swept}: expected shape (p,), got {values.shape}")


def _reported(found: _folds.Selected, shuffled: _folds.Selected | None) -> Report:
    return _report(found, None if shuffled is None else _report(shuffled, None))


def _report(found: _folds.Selected, shuffled: Report | None) -> Report:
    told = jnp.any(jnp.isfinite(found.values), axis=-2, keepdims=True)
    mean, error = _lanes.mean_of(jnp.where(told, found.values, jnp.nan), axis=-1)
    status = jnp.max(found.infos.status, axis=-1)
    (penalty,) = found.penalty.values()
    return Report(mean, error, status, penalty, shuffled)


def _job(
    fit, x, y, weights, l2, shrinkage, sample_weight, key, options
) -> tuple[_sweeps.Job, _sweeps.Given]:
    """The arguments, checked."""
    _words.refuse_no_fit(fit)
    _checks.refuse_other_rows(x=x, y=y, sample_weight=sample_weight)
    x = _checks.real(x, "x")
    if x.ndim not in (2, 3):
        raise ValueError(f"x: expected shape (n, d) or (layers, n, d), got {x.shape}")
    n, dtype = x.shape[-2], _checks.working_dtype(x)
    y = _checks.array(y, "y")
    if y.ndim not in (1, 2) or len(y) != n:
        raise ValueError(f"y: expected shape ({n},) or ({n}, t), got {y.shape}")
    if y.ndim == 2:
        _checks.refuse_inexact(y)
        y = y.T.astype(jnp.int32) if y.dtype == jnp.bool_ else y.T
    if sample_weight is not None:
        sample_weight = _checks.real(sample_weight, "sample_weight").astype(dtype)
        if sample_weight.shape not in ((n,), y.shape[::-1]):
            said = f"({n},)" + (f" or {y.shape[::-1]}" if y.ndim == 2 else "")
            raise ValueError(f"sample_weight: expected shape {said}, got {sample_weight.shape}")
        sample_weight = sample_weight.T
    if weights is not None:
        _words.refuse_splits(weights, "weights")
        weights = _folds.per_lane(jnp.atleast_2d(weights), n, dtype, "weights")
    swept, values = _swept(fit, l2, shrinkage)
    values = values.astype(dtype)
    if y.ndim == 2 and _options.takes(fit, "num_classes"):
        options = {"num_classes": 2} | options
    seen = None if sample_weight is None or sample_weight.ndim == 2 else sample_weight
    options = _options.with_classes(fit, options, y.reshape(-1), seen if y.ndim == 1 else None)
    split = _options.split(options, dtype)
    shared = sample_weight is None or sample_weight.ndim == 1
    several = y.ndim == 2 and len(y) > 1
    offered = _closed_form.offered(fit, options, labels=True) if shared and several else None
    closed = offered is not None and swept in offered[0].options
    together = _folds.goes_together(fit, x, options)
    job = _sweeps.Job(fit, split.static, swept, closed, together)
    return job, _sweeps.Given(x, y, sample_weight, values, split.traced, weights, key)


def _swept(fit, l2, shrinkage) -> tuple[str, jax.Array]:
    """The name and values of the penalty that is given."""
    given = {"l2": l2, "shrinkage": shrinkage}
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        raise TypeError("l2, shrinkage: expected one of them, the penalties to go through")
    (name,) = names
    if not _options.takes(fit, name, among_others=True):
        raise TypeError(f"fit: expected a fit with an argument {name}")
    values = _checks.real(given[name], name)
    if values.ndim > 1 or not values.size:
        raise ValueError(f"{name}: expected a number or shape (p,), got {values.shape}")
    return name, values


def _raise_if_invalid(job: _sweeps.Job, given: _sweeps.Given, status: jax.Array) -> None:
    """Let the fit of the first invalid lane say in its own words what is wrong.

    Args:
      status: `(layers, t, p)`, each only where given, of a selection with the folds behind.
    """
    if not _checks.concrete(status) or not np.any(np.asarray(status) == Status.INVALID_DATA):
        return
    lead = np.asarray(status).reshape(*status.shape[: given.x.ndim + given.y.ndim - 3 + 1], -1)
    at = tuple(np.argwhere(lead == Status.INVALID_DATA)[0])
    names = ["layer"] * (given.x.ndim - 2) + ["target"] * (given.y.ndim - 1) + [job.swept]
    where = ", ".join(f"{name} {i}" for name, i in zip(names, at, strict=False))
    x = given.x[at[0]] if given.x.ndim == 3 else given.x
    y, weight = given.y, given.sample_weight
    target = at[given.x.ndim - 2] if y.ndim == 2 else None
    y = y if target is None else y[target]
    weight = weight if weight is None or weight.ndim == 1 else weight[target]
    options = _options.join(_options.Options(job.options, given.traced))
    options[job.swept] = given.values[at[len(names) - 1]]
    if weight is not None:
        options["sample_weight"] = weight
    try:
        job.fit(x, y, **options)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    raise ValueError(f"{where}: the data are not valid")

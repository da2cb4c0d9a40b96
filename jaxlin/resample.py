"""Resampling as weights: a fold is a vector of zeros and ones, never a copy of the data.

Whatever leaves rows out or counts them twice is one more row of a `(lanes, n)` array of training
weights, so that all folds are one vmapped fit over a shared `x`. The first functions here make such
weights: `kfold`, `bootstrap` and their like. The others run any fit with them: `refit`,
`cross_validate`, `held_out_scores`, `permutation_test`, `regularization_path`, `select`. What is to
be learned from a fold's training rows alone is part of the fit: `on_standardized`, `on_balanced`.

All run under jit and on further vmapped axes. Many lanes run so many at a time that what they hold
stays in cache, chosen from the shapes unless `batch_size` says so. A `jax.vmap` of these functions
has a bound too: the lanes that it adds go a few at a time where together they would hold more, or,
by closed forms, one by one. A bare `jax.vmap` of a fit holds every lane at once. Options of a fit
go as keywords, so that one compile serves all their values: a lambda made anew compiles anew.
To leave out each group by itself, index: `leave_one_out(num_runs)[:, run]`.

Closed forms take the statistics of all lanes from one product, exactly: `lda.fit`, `qda.fit` and
`least_squares.fit` in `refit` and `cross_validate`, the first and the last also in
`permutation_test`, where labels move no row and each fold is factored once. A chunk of lanes is
fitted as usual where this would cost digits, and all are with a large x, a `feature_mask`, a
function among the options, or (permutations apart) fewer than 256 lanes.

Shapes: `n` examples, `d` features, `k` classes.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin._base import _checks, _codes, _options, _platform, _words
from jaxlin._batch import _draws, _folds, _paths, _prepared
from jaxlin._batch._folds import Fit, Metric
from jaxlin.types import Info

# So many lanes of like penalties at once: the loop turns until the slowest is done.
LIKE_LANES = 64
# Units of rounding within which two values are one: closed forms and fits differ by some.
TIED_ULPS = 100


@_words.keyed
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
    return _draws.kfold(key, n, _number_of_folds(folds, n))


@_words.keyed
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
    y = _codes.ids(y, "y", words="integer or bool class indices, got dtype")
    return _draws.stratified_kfold(key, y, _number_of_folds(folds, len(y)))


def group_kfold(groups: Any, *, folds: int, key: jax.Array | None = None) -> jax.Array:
    """Deal whole groups of rows into folds: no group is in training and held out at once.

    The largest group first, each into the fold with the fewest rows so far.

    Args:
      groups: `(n,)` integers of any size, equal for rows of one group; they may be traced.
      folds: the number of folds, static, from 2 to n.
      key: a PRNG key, by which groups of one size are dealt at random; without it in the order of
        their numbers.

    Returns:
      Training weights `(folds, n)`: 1 trains, 0 is held out. With fewer groups than folds some hold
      nothing out.

    Raises:
      ValueError: `folds` is not from 2 to n.
      TypeError: groups holds no integers.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import resample
      >>> resample.group_kfold(jnp.array([7, 7, 3, 3, 5]), folds=2).tolist()
      [[1.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0, 1.0]]
    """
    groups = _codes.ids(groups, "groups")
    return _draws.group_kfold(key, groups, _number_of_folds(folds, len(groups)))


@_words.keyed
def stratified_group_kfold(
    key: jax.Array, y: Any, groups: Any, *, folds: int, num_classes: int | None = None
) -> jax.Array:
    """Deal whole groups of rows into folds, so that each has its share of every class.

    The group whose classes are the least even first, each into the fold that makes the classes'
    shares vary least over the folds; of equals into the one with the least.

    Args:
      key: a PRNG key: the order of groups that are as even as each other.
      y: `(n,)` class indices.
      groups: `(n,)` integers of any size, equal for rows of one group; they may be traced.
      folds: the number of folds, static, from 2 to n.
      num_classes: k, static; eagerly by default 1 + the largest label.

    Returns:
      Training weights `(folds, n)`: 1 trains, 0 is held out. With fewer groups than folds some hold
      nothing out.

    Raises:
      ValueError: `folds` is not from 2 to n, or shapes do not agree.
      TypeError: y or groups hold no integers.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from jaxlin import resample
      >>> y, groups = jnp.array([0, 0, 0, 0, 1, 1, 1, 1]), jnp.array([0, 0, 1, 1, 2, 2, 3, 3])
      >>> weights = resample.stratified_group_kfold(jax.random.key(0), y, groups, folds=2)
      >>> weights[:, y == 1].sum(1).tolist(), weights.sum(1).tolist()
      ([2.0, 2.0], [4.0, 4.0])
    """
    y = _checks.array(y, "y")
    _checks.refuse_inexact(y)
    groups = _rows_of(groups, y, "groups")
    k = _checks.number_of_classes(num_classes, y)
    return _draws.stratified_group_kfold(key, y, groups, _number_of_folds(folds, len(y)), k)


def leave_one_out(n: int) -> jax.Array:
    """Hold out every row by itself.

    Args:
      n: the number of rows, static, at least 2.

    Returns:
      Training weights `(n, n)`: 1 less the identity.

    Raises:
      ValueError: `n` is less than 2.

    Example:
      >>> from jaxlin import resample
      >>> resample.leave_one_out(3).tolist()
      [[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    """
    n = _at_least(n, 2, "n")
    return 1 - jnp.eye(n)


@_words.keyed
def bootstrap(key: jax.Array, n: int, *, draws: int, groups: Any = None) -> jax.Array:
    """How often each row occurs among n rows drawn with replacement (Efron, 1979).

    Args:
      key: a PRNG key.
      n: the number of rows, static.
      draws: the number of samples, static.
      groups: `(n,)` integers of any size: whole groups are drawn, as many as there are.

    Returns:
      Counts `(draws, n)` in the default float dtype; each row sums to n, unless groups are of
      different sizes.

    Raises:
      ValueError: `n` or `draws` is less than 1.

    Example:
      >>> import jax
      >>> from jaxlin import resample
      >>> resample.bootstrap(jax.random.key(0), 5, draws=3).sum(1).tolist()
      [5.0, 5.0, 5.0]
    """
    n = _at_least(n, 1, "n")
    groups = _rows_of(groups, range(n), "groups")
    return _draws.bootstrap(key, n, _at_least(draws, 1, "draws"), groups)


@_words.keyed
def bayesian_bootstrap(key: jax.Array, n: int, *, draws: int, groups: Any = None) -> jax.Array:
    """Weights of rows drawn from a flat Dirichlet distribution (Rubin, 1981).

    Smooth where `bootstrap` counts: no row vanishes, and no class does.

    Args:
      key: a PRNG key.
      n: the number of rows, static.
      draws: the number of samples, static.
      groups: `(n,)` integers of any size: the rows of a group have one weight.

    Returns:
      Positive weights `(draws, n)` in the default float dtype; each row sums to n.

    Raises:
      ValueError: `n` or `draws` is less than 1.

    Example:
      >>> import jax
      >>> from jaxlin import resample
      >>> resample.bayesian_bootstrap(jax.random.key(0), 4, draws=2).sum(1).round(5).tolist()
      [4.0, 4.0]
    """
    n = _at_least(n, 1, "n")
    groups = _rows_of(groups, range(n), "groups")
    return _draws.bayesian_bootstrap(key, n, _at_least(draws, 1, "draws"), groups)


def balanced(y: Any, *, num_classes: int | None = None, sample_weight: Any = None) -> jax.Array:
    """Weights that give every class that is present the same total.

    For one fit to all rows. The factors are those of all rows, so in a fold the classes are not
    balanced among its training rows; and as `sample_weight` of `cross_validate` and its like the
    weights would count in the metric too. Inside folds take `on_balanced`.

    Args:
      y: `(n,)` class indices.
      num_classes: k, static; eagerly by default 1 + the largest label.
      sample_weight: `(n,)`, weights to be balanced; 1 by default.

    Returns:
      `(n,)`: `sample_weight` times a factor per class, of the same sum; unchanged where a label is
      outside of the classes, or a weight is not valid.

    Raises:
      ValueError: shapes that do not fit.
      TypeError: y holds no integers or bools.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import resample
      >>> resample.balanced(jnp.array([0, 0, 0, 1])).round(3).tolist()
      [0.667, 0.667, 0.667, 2.0]
    """
    y = _checks.array(y, "y")
    _checks.refuse_inexact(y)
    if y.ndim != 1:
        raise ValueError(f"y: expected shape (n,), got {y.shape}")
    dtype = jnp.result_type(float)
    if sample_weight is not None:
        dtype = _checks.working_dtype(_checks.real(sample_weight, "sample_weight"))
    weight = _checks.optional(sample_weight, y.shape, dtype, "sample_weight")
    k = _checks.number_of_classes(num_classes, y, sample_weight)
    weight = jnp.ones(y.shape, dtype) if weight is None else weight
    return _draws.balanced(y, weight, k, _checks.Axis())


@_words.keyed
def permutations(
    key: jax.Array, y: Any, *, draws: int, strata: Any = None, groups: Any = None
) -> jax.Array:
    """The labels dealt out anew, among all rows, within each stratum, or by whole groups.

    Where every group has one label, groups exchange it whatever their sizes. Otherwise groups with
    as many rows exchange their labels in the order of their rows.

    Args:
      key: a PRNG key.
      y: `(n,)`, or `(n, k)` soft labels.
      draws: the number of permutations, static.
      strata: `(n,)` integers of any size: labels move between rows of the same number only.
      groups: `(n,)` integers of any size: the labels of a group move together; the rows of a group
        that are in another stratum are another group.

    Returns:
      `(draws, *y.shape)`.

    Raises:
      ValueError: shapes that do not fit, or labels that jax's integers cannot hold.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from jaxlin import resample
      >>> y, strata = jnp.array([0, 0, 1, 2, 2, 3]), jnp.array([0, 0, 0, 1, 1, 1])
      >>> dealt = resample.permutations(jax.random.key(0), y, draws=4, strata=strata)
      >>> dealt.shape, bool((dealt[:, :3] < 2).all()), dealt.sum(1).tolist()
      ((4, 6), True, [8, 8, 8, 8])
    """
    y = _codes.exactly(y, "y")
    if y.ndim < 1:
        raise ValueError(f"y: expected shape (n,), got {y.shape}")
    strata, groups = (
        _rows_of(ids, y, name) for ids, name in ((strata, "strata"), (groups, "groups"))
    )
    return _draws.permutations(key, y, strata, groups, _at_least(draws, 1, "draws"))


def pad(datasets: Any) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Problems of different sizes as one batch, for one program.

    Args:
      datasets: pairs of `x (n_i, d_i)` and `y (n_i,)`.

    Returns:
      `(x (lanes, n, d), y (lanes, n), sample_weight (lanes, n), feature_mask (lanes, d))`, n and d
      the largest there are: rows that are not there have weight 0, columns that are not there are
      masked. Every fit gives a lane what it would give the dataset by itself.

    Raises:
      ValueError: no dataset, shapes that do not fit, or labels that jax's integers cannot hold.

    Example:
      >>> from functools import partial
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from jaxlin import lda, resample
      >>> one = jnp.array([[0.0], [1.0], [4.0], [5.0]]), jnp.array([0, 0, 1, 1])
      >>> two = jnp.array([[0.0, 1.0], [1.0, 0.0], [4.0, 4.0]]), jnp.array([0, 0, 1])
      >>> x, y, weight, mask = resample.pad([one, two])
      >>> fit = jax.vmap(lambda x, y, w, m: lda.fit(
      ...     x, y, sample_weight=w, feature_mask=m, num_classes=2))
      >>> params, info = fit(x, y, weight, mask)
      >>> params.weights.shape, params.weights[0, :, 1].tolist()
      ((2, 2, 2), [0.0, 0.0])
    """
    datasets = list(datasets)
    for x, y in datasets:
        _checks.refuse_other_rows(x=x, y=y)
    tables = [(_checks.matrix(x), _codes.exactly(y, "y")) for x, y in datasets]
    if not tables:
        raise ValueError("datasets: expected at least one")
    for x, y in tables:
        if y.shape != x.shape[:1]:
            raise ValueError(f"y: expected shape {x.shape[:1]}, got {y.shape}")
    n, d = (max(x.shape[axis] for x, _ in tables) for axis in (0, 1))
    dtype = jnp.result_type(*(x.dtype for x, _ in tables))
    labels = jnp.result_type(*(y.dtype for _, y in tables))

    def filled(a, shape, dtype):
        return jnp.pad(a.astype(dtype), [(0, m - h) for m, h in zip(shape, a.shape, strict=True)])

    weight = _checks.working_dtype(jnp.zeros((), dtype))
    return (
        jnp.stack([filled(x, (n, d), dtype) for x, _ in tables]),
        jnp.stack([filled(y, (n,), labels) for _, y in tables]),
        jnp.stack([(jnp.arange(n) < len(x)).astype(weight) for x, _ in tables]),
        jnp.stack([jnp.arange(d) < x.shape[1] for x, _ in tables]),
    )


@_options.explained
def refit(
    fit: Fit, x: Any, y: Any, weights: Any, *, batch_size: int | None = None, **options: Any
) -> tuple[Any, Info]:
    """One fit per row of weights, in bounded memory.

    Numbers among the options are traced, so that one program serves a sweep. What is part of the
    fit, as `functools.partial(logistic.fit, l2=0.1)`, is known when it is compiled, and where that
    penalty is positive the program is smaller and up to a third faster.

    Args:
      fit: `fit(x, y, *, sample_weight, ...) -> (params, Info)`, of this package or your own.
      x: `(n, d)`, shared by all lanes.
      y: `(n,)`, or what the fit takes.
      weights: `(lanes, n)`, of `bootstrap` or any other.
      batch_size: lanes at a time; by default chosen from the shapes.
      **options: handed to the fit, numbers among them traced: `functools.partial(fit, ...)` keeps
        them static. `num_classes` may be left out, eagerly.

    Returns:
      `(params, info)`, each with a leading axis of lanes.

    Raises:
      ValueError: shapes do not agree; eagerly also where a lane's data or an option are invalid.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from jaxlin import least_squares, resample
      >>> x, y = jnp.array([[0.0], [1.0], [2.0], [3.0]]), jnp.array([0, 1, 0, 1])
      >>> weights = resample.bayesian_bootstrap(jax.random.key(0), 4, draws=100)
      >>> params, info = resample.refit(least_squares.fit, x, y, weights, l2=0.1)
      >>> params.weights.shape, bool((info.status == 0).all())
      ((100, 2, 1), True)
    """
    problem = _folds.given(fit, x, y, weights, None, options)
    size = _folds.at_once(problem, problem.folds, batch_size)
    closed = _folds.by_weights(fit, problem.options, problem.data[0], problem.folds) is not None
    static = (fit, problem.static, size)
    found, info = _folds.run(_folds.refit, static, problem, size, closed, problem.weights)
    _folds.raise_if_invalid(fit, info, problem)
    return found, info


@_options.explained
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
) -> tuple[Any, Info]:
    """Judge a fit on the rows that each fold holds out.

    Fold i trains on `sample_weight * weights[i]` and is judged on the rows where `weights[i]` is
    0. Compiled once per fit, metric and shapes: give functions with a name, since a lambda made
    anew compiles anew. Several metrics are one metric that returns a dict or a tuple of them: so
    they share one program and its fits.

    Args:
      fit: `fit(x, y, *, sample_weight, ...) -> (params, Info)`, of this package or your own.
      metric: `metric(scores, y, *, sample_weight)`, such as `metrics.accuracy`; the scores are
        those of `jaxlin.scores`, with `offset` added where that is among the options. It returns a
        number, an array, or a tree of them: a dict, a tuple.
      x: `(n, d)`.
      y: `(n,)`, or what the fit takes.
      weights: `(folds, n)` training weights, as `stratified_kfold` makes them.
      held_out: `(folds, n)`, nonzero where a fold is judged; by default where `weights` is 0.
      sample_weight: `(n,)`; a row counts as much in the metric as in the fit, and one of weight 0
        in neither. Weights that are for the fit alone are made inside it: see `on_balanced`.
      batch_size: folds at a time; by default chosen from the shapes.
      **options: handed to the fit, numbers among them traced: `functools.partial(fit, ...)` keeps
        them static. `num_classes` may be left out, eagerly.

    Returns:
      `(values, info)`: the metric of each fold `(folds,)`, followed by the metric's own axes if
      it has any, in a tree as the metric's, and NaN where a fold holds nothing out or its fit is
      INVALID_DATA; and the Info of each fold.

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
      >>> def both(*args, **w):
      ...     return {"right": metrics.accuracy(*args, **w), "auc": metrics.roc_auc(*args, **w)}
      >>> values, info = resample.cross_validate(perceptron.fit, both, x, y, folds)
      >>> values["right"].tolist(), values["auc"].tolist()
      ([1.0, 1.0], [1.0, 1.0])
    """
    _words.refuse_other_metric(metric)
    given = (fit, x, y, weights, held_out, sample_weight, batch_size, options)
    problem, held_out, size, closed = _folds_of(*given)
    static, lanes = (fit, metric, problem.static, size), (problem.weights, held_out)
    values, info = _folds.run(_folds.cross_validate, static, problem, size, closed, *lanes)
    _folds.raise_if_invalid(fit, info, problem)
    return values, info


@_options.explained
def held_out_scores(
    fit: Fit,
    x: Any,
    y: Any,
    weights: Any,
    *,
    held_out: Any = None,
    sample_weight: Any = None,
    batch_size: int | None = None,
    **options: Any,
) -> tuple[jax.Array, Info]:
    """The score of each row by the fold that left it out.

    What a metric or a calibration of all rows needs, such as the area under the curve where every
    fold holds out one row: `metrics.roc_auc(scores, y)`. Scores of several folds are those of
    several fits, whose thresholds may differ.

    Args:
      fit, x, y, weights, held_out, sample_weight, batch_size: as in `cross_validate`.
      **options: handed to the fit, numbers among them traced: `functools.partial(fit, ...)` keeps
        them static. `num_classes` may be left out, eagerly.

    Returns:
      `(scores, info)`: `(n,)`, or `(n, k)`, those of `jaxlin.scores`, with `offset` added where
      that is among the options; of a row held out by several folds the mean, of one that none
      holds out NaN, and so where the fit is INVALID_DATA; and the Info of each fold.

    Raises:
      ValueError: as `cross_validate`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import lda, metrics, resample
      >>> x, y = jnp.arange(8.0)[:, None], jnp.array([0, 0, 0, 1, 0, 1, 1, 1])
      >>> folds = resample.leave_one_out(8)
      >>> scores, info = resample.held_out_scores(lda.fit, x, y, folds, num_classes=2)
      >>> float(metrics.roc_auc(scores, y))
      0.8125
    """
    given = (fit, x, y, weights, held_out, sample_weight, batch_size, options)
    problem, held_out, size, closed = _folds_of(*given)
    static, lanes = (fit, problem.static, size), (problem.weights, held_out)
    scores, info = _folds.run(_folds.held_out_scores, static, problem, size, closed, *lanes)
    _folds.raise_if_invalid(fit, info, problem)
    return scores, info


@_options.explained
@_words.keyed
def permutation_test(
    key: jax.Array,
    fit: Fit,
    metric: Metric,
    x: Any,
    y: Any,
    weights: Any,
    *,
    draws: int,
    strata: Any = None,
    groups: Any = None,
    larger_is_better: Any = None,
    sample_weight: Any = None,
    batch_size: int | None = None,
    **options: Any,
) -> tuple[Any, Any, Any]:
    """How often labels dealt at random are predicted as well as those observed.

    The value is the mean of the metric over the folds; the null distribution is the same with the
    labels of the rows that have weight permuted. The same key permutes every lane of a vmap alike,
    so that `maximum_statistic` corrects for the many datasets of a vmap.

    Args:
      key: a PRNG key.
      fit, metric, x, y, weights, sample_weight: as in `cross_validate`.
      draws: the number of permutations, static.
      strata, groups: `(n,)` integers of any size, as in `permutations`.
      larger_is_better: static; False for a loss, and a tree of bools for a tree of metrics of both
        kinds. By default as `select` has it.
      batch_size: permutations at a time; by default chosen from the shapes.
      **options: handed to the fit, numbers among them traced: `functools.partial(fit, ...)` keeps
        them static. `num_classes` may be left out, eagerly.

    Returns:
      `(value (), null (draws,), p_value ())`, p = (1 + draws at least as good) / (1 + draws)
      (Phipson and Smyth, 2010), where a draw worse by no more than 100 units of rounding is as
      good; NaN where no fold could be judged, and a draw that could not be counts as one at least
      as good. Of a metric that returns a tree each is such a tree.

    Raises:
      ValueError: as `cross_validate`.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from jaxlin import least_squares, metrics, resample
      >>> key, x = jax.random.key(0), jnp.arange(12.0)[:, None]
      >>> y = jnp.arange(12) // 6
      >>> folds = resample.stratified_kfold(key, y, folds=3)
      >>> value, null, p = resample.permutation_test(
      ...     key, least_squares.fit, metrics.accuracy, x, y, folds, draws=99)
      >>> value.item(), null.shape, p.item() < 0.1
      (1.0, (99,), True)
    """
    _words.refuse_other_metric(metric)
    problem = _folds.given(fit, x, y, weights, sample_weight, options)
    strata, groups = (
        _rows_of(ids, x, name) for ids, name in ((strata, "strata"), (groups, "groups"))
    )
    draws, folds = _at_least(draws, 1, "draws"), problem.folds
    closed = _folds.by_labels(fit, problem.options, problem.data[0]) is not None
    if batch_size is None:
        # A closed form has no Hessian to hold, and fewer columns.
        most = _folds.at_once(problem, draws * folds, None) * (4 if closed else 1)
        batch_size = max(1, most // folds)
    size = _folds.at_once(problem, draws, batch_size)
    static = (fit, metric, problem.static, draws, size)
    arguments = (problem.weights, key, strata, groups)
    found = _folds.run(_folds.permutation_test, static, problem, size * folds, closed, *arguments)
    value, info = jax.tree.map(lambda a: a[0], found)
    null = jax.tree.map(lambda a: a[1:], found[0])
    _folds.raise_if_invalid(fit, info, problem)
    larger = jax.tree.broadcast(_folds.larger_is_better(metric, larger_is_better), value)
    return value, null, jax.tree.map(_p_value, value, null, larger)


@functools.partial(jax.jit, static_argnames="larger_is_better")
def maximum_statistic(values: Any, null: Any, *, larger_is_better: bool = True) -> jax.Array:
    """P-values of many tests at once, by the largest value of each draw (Westfall, Young, 1993).

    p_j = (1 + draws whose largest value over all tests is at least values_j) / (1 + draws). The
    chance that any of them is at most alpha where there is nothing to find is at most alpha,
    however the tests depend on each other. The draws must be the same relabelling in every test: a
    vmap of `permutation_test` over datasets, with one key, makes such ones.

    Args:
      values: `(...)`, one for each test.
      null: `(..., draws)`.
      larger_is_better: static; False for a loss, of which the least counts.

    Returns:
      `(...)`, NaN where a value is NaN: such a test is left out. A draw worse by no more than 100
      units of rounding is as good, and one that is NaN in all tests too.

    Raises:
      ValueError: shapes that do not agree.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import resample
      >>> values, null = jnp.array([0.9, 0.6]), jnp.array([[0.5, 0.7, 0.6], [0.4, 0.5, 0.8]])
      >>> resample.maximum_statistic(values, null).tolist()
      [0.25, 0.75]
    """
    values, null = _checks.real(values, "values"), _checks.real(null, "null")
    if null.ndim != values.ndim + 1 or null.shape[:-1] != values.shape:
        raise ValueError(f"null: expected shape {values.shape} and draws, got {null.shape}")
    left_out = jnp.isnan(values)[..., None] | jnp.isnan(null)
    worst = -jnp.inf if larger_is_better else jnp.inf
    null = jnp.where(left_out, worst, null).reshape(-1, null.shape[-1])
    best = jnp.max(null, axis=0) if larger_is_better else jnp.min(null, axis=0)
    best = jnp.where(best == worst, jnp.nan, best)
    best = best.reshape(-1, *(1,) * values.ndim)
    return _p_value(values, best, larger_is_better)


@_options.explained
def regularization_path(
    fit: Fit,
    x: Any,
    y: Any,
    *,
    l2: Any = None,
    l1: Any = None,
    batch_size: int | None = None,
    **options: Any,
) -> tuple[Any, Info]:
    """One fit per penalty, from strong to weak, each started where those before it lead.

    Args:
      fit: `fit(x, y, *, l2, ...) -> (params, Info)`.
      x, y: the data.
      l2, l1: `(m,)` penalties, or `(m, d)`, one per feature; in any order. Both of one length are
        m pairs, of an elastic net; one number goes with all of the other.
      batch_size: penalties at a time, each of another piece of the path; by default chosen from
        the shapes.
      **options: handed to the fit unchanged; `sample_weight` too.

    Returns:
      `(params, info)`, each with a leading axis in the order of the penalties.

    Raises:
      TypeError: the fit has no penalty.
      ValueError: shapes do not agree; eagerly also data or options that are invalid.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import logistic, resample
      >>> x, y = jnp.array([[0.0], [1.0], [2.0], [3.0]]), jnp.array([0, 1, 0, 1])
      >>> l2 = jnp.array([10.0, 1.0, 0.1])
      >>> params, info = resample.regularization_path(logistic.fit, x, y, l2=l2)
      >>> params.weights[:, 0].round(3).tolist()
      [0.024, 0.191, 0.637]
    """
    sample_weight = options.pop("sample_weight", None)
    penalties, options = _penalties(fit, options, l2=l2, l1=l1)
    problem = _folds.given(fit, x, y, None, sample_weight, options, penalties)
    size = _folds.at_once(problem, _count(penalties), batch_size)
    alone = batch_size is None and not problem.together
    if alone and _platform.on_one_cpu() and _folds.is_warm(fit, problem.options):
        size = min(_folds.SIDE_BY_SIDE, size)
    static = (fit, problem.static, size)
    penalties = jax.tree.map(lambda a: a.astype(problem.dtype), penalties)
    l2 = penalties.get("l2")
    params, info = _folds.run(_folds.path, static, problem, size, False, penalties, l2=l2)
    _folds.raise_if_invalid(fit, info, problem, penalties)
    return params, info


@_options.explained
def select(
    fit: Fit,
    metric: Metric,
    x: Any,
    y: Any,
    weights: Any,
    *,
    l2: Any = None,
    l1: Any = None,
    larger_is_better: bool | None = None,
    one_standard_error: bool = False,
    pooled: bool = False,
    sample_weight: Any = None,
    batch_size: int | None = None,
    **options: Any,
) -> tuple[Any, Info, Any]:
    """Choose the penalty by cross-validation, and fit all rows with it.

    The best is the mean of the metric, one number, over the folds that hold something out; of
    equals it is the strongest penalty. By the rule of one standard error (Breiman et al., 1984) it
    is the strongest whose mean is within one standard error of the best. Fits that take an `init`
    begin, fold by fold, where those of stronger penalties lead.

    A fold tells nothing, and is left out, where its value is NaN (the area under the curve of one
    class) or where it is infinite for every penalty (the log loss of a class that the fold does not
    train on). If nothing is left, or the mean is infinite for every penalty, there is no choice.

    Args:
      fit, metric, x, y, weights, sample_weight: as in `cross_validate`.
      l2, l1: `(m,)` penalties, or `(m, d)`, one per feature; in any order. Both of one length are
        m pairs, of an elastic net; one number goes with all of the other.
      larger_is_better: static; False for a loss. By default so for the losses of `metrics`
        (`log_loss`, `brier`, `expected_cost`, `calibration_error`), and True for any other metric.
      one_standard_error: static, whether that rule decides.
      pooled: static, whether the scores of all folds are judged together, as by the area under the
        curve where each fold holds out one row; a row that several hold out by its mean score.
      batch_size: fits at a time; by default chosen from the shapes.
      **options: handed to the fit, numbers among them traced: `functools.partial(fit, ...)` keeps
        them static. `num_classes` may be left out, eagerly.

    Returns:
      `(params, info, l2)`: the fit to all rows, and the penalty it was made with, `()` or `(d,)`;
      l1 of these, or of both a dict by name. Nested selection is a vmap over `sample_weight`.

      Where no penalty could be judged both are NaN, and the status INVALID_DATA, or of one class
      CLASS_TOO_SMALL, with params at their limit; eagerly it raises.

    Raises:
      TypeError: the fit has no penalty.
      ValueError: as `cross_validate`; where the metric is no single number, as which of several
        is to choose is not known: choose by one, and `cross_validate` by all at the penalty chosen;
        eagerly also where no penalty could be judged.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from jaxlin import logistic, metrics, resample
      >>> x, y = jnp.arange(12.0)[:, None], jnp.array([0, 0, 1, 0, 0, 0, 1, 1, 0, 1, 1, 1])
      >>> folds = resample.stratified_kfold(jax.random.key(0), y, folds=3)
      >>> l2 = jnp.array([100.0, 1.0, 0.01])
      >>> params, info, best = resample.select(
      ...     logistic.fit, metrics.log_loss, x, y, folds, l2=l2)
      >>> round(best.item(), 3), info.status.item()
      (1.0, 0)
    """
    _words.refuse_other_metric(metric)
    penalties, options = _penalties(fit, options, l2=l2, l1=l1)
    problem = _folds.given(fit, x, y, weights, sample_weight, options, penalties)
    penalties = jax.tree.map(lambda a: a.astype(problem.dtype), penalties)
    if pooled and one_standard_error:
        raise ValueError("pooled: one value has no standard error; leave one_standard_error out")
    larger = bool(_folds.larger_is_better(metric, larger_is_better))
    rule = (larger, bool(one_standard_error))
    # A fit of all rows to each penalty is one fold more, and no program of its own.
    most = at_once = _folds.at_once(problem, _count(penalties) * (1 + problem.folds), batch_size)
    if batch_size is None and _platform.on_one_cpu() and not problem.together:
        most = min(LIKE_LANES, most)
        at_once = min(_folds.SIDE_BY_SIDE, most) if _folds.is_warm(fit, problem.options) else most
    static = (fit, metric, problem.static, rule, most, at_once)
    others, l2 = (problem.weights, penalties), penalties.get("l2")
    choose = _folds.select_by_pooled if pooled else _folds.select
    found = _folds.run(choose, static, problem, at_once, False, *others, l2=l2)
    infos = jax.tree.map(lambda a: a[:, :-1], found.infos)
    each = jax.tree.map(lambda a: jnp.repeat(a, problem.folds, axis=0), penalties)
    _folds.raise_if_invalid(fit, infos, problem, each)
    _paths.raise_if_unjudged(found.values, found.judged)
    chosen = found.penalty if len(penalties) > 1 else next(iter(found.penalty.values()))
    return found.params, found.info, chosen


def on_standardized(fit: Fit) -> Fit:
    """Make a fit that standardises the columns inside, and returns params in the units of x.

    The mean and deviation are those of the training weights, so that no fold sees what it holds
    out. A fit with a penalty gets `l2` times each column's variance, and x stays as it is: with a
    bias the same optimum, without one columns are scaled but not centred. Any other fit gets
    standardised columns. As the params are in the units of x, a column far from 0 (years) costs
    digits all the same: a fit that is STALLED in float32 for that ends in float64.

    Args:
      fit: `fit(x, y, *, sample_weight, ...) -> (params, Info)`, whose params are a Hyperplane, a
        Linear or a Pairwise.

    Returns:
      `fit(x, y, *, sample_weight=None, feature_mask=None, **options)`, which returns what `fit`
      does. The same function is returned for the same `fit`.

    Raises:
      TypeError: (from the returned fit) the params are of another type.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import logistic, resample
      >>> x, y = jnp.array([[0.0], [100.0], [200.0], [300.0]]), jnp.array([0, 1, 0, 1])
      >>> params, _ = resample.on_standardized(logistic.fit)(x, y, l2=0.1)
      >>> scaled, _ = logistic.fit((x - 150) / 111.8034, y, l2=0.1)
      >>> bool(abs(111.8034 * params.weights - scaled.weights)[0] < 1e-4)
      True
    """
    return _prepared.on_standardized(fit)


def on_balanced(fit: Fit) -> Fit:
    """Make a fit that gives every class the same total of training weights.

    As `balanced`, but by the weights that the fit is called with: so in a fold the classes are
    balanced as they are among its training rows, which is scikit-learn's `class_weight="balanced"`,
    and the weights of the rows that judge stay as they are. Of both,
    `on_standardized(on_balanced(fit))` is scikit-learn's pipeline, whose mean and deviation are
    those of the rows as they are.

    Args:
      fit: `fit(x, y, *, sample_weight, ...) -> (params, Info)`, to class indices. A fit without an
        argument `num_classes` is taken for one of two classes.

    Returns:
      `fit(x, y, *, sample_weight=None, **options)`, which returns what `fit` does. The same
      function is returned for the same `fit`.

    Raises:
      TypeError: (from the returned fit) y holds no integers or bools.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import logistic, resample
      >>> x, y = jnp.array([[0.0], [1.0], [2.0], [3.0], [4.0]]), jnp.array([0, 1, 0, 0, 1])
      >>> params, _ = resample.on_balanced(logistic.fit)(x, y, l2=0.1)
      >>> weighed, _ = logistic.fit(x, y, l2=0.1, sample_weight=resample.balanced(y))
      >>> bool(abs(params.weights - weighed.weights)[0] < 1e-5)
      True
    """
    return _prepared.on_balanced(fit)


def _folds_of(fit: Fit, *given: Any) -> tuple:
    """What a fold is run on, which rows judge it, how many go at once, and if by closed forms."""
    x, y, weights, held_out, sample_weight, batch_size, options = given
    problem = _folds.given(fit, x, y, weights, sample_weight, options)
    if held_out is not None:
        shape = (problem.folds, len(problem.data[0]))
        held_out = _checks.shaped(held_out, shape, problem.dtype, "held_out")
    size = _folds.at_once(problem, problem.folds, batch_size)
    closed = _folds.by_weights(fit, problem.options, problem.data[0], problem.folds) is not None
    return problem, held_out, size, closed


def _rows_of(ids: Any, rows: Any, name: str) -> jax.Array | None:
    """Ids of rows, one for each of `rows`, if there are any."""
    if ids is None:
        return None
    ids, n = _codes.ids(ids, name), np.shape(rows)[0]
    if ids.shape != (n,):
        raise ValueError(f"{name}: expected shape ({n},), got {ids.shape}")
    return ids


def _at_least(value: Any, least: int, name: str) -> int:
    value = _checks.static(value, int, name)
    if value < least:
        raise ValueError(f"{name}: expected at least {least}, got {value}")
    return value


def _p_value(value: jax.Array, null: jax.Array, larger: bool) -> jax.Array:
    """The part of the draws, this one among them, that are at least as good."""
    # The same labels, dealt otherwise, may be judged by sums that round otherwise.
    near = TIED_ULPS * jnp.finfo(value.dtype).eps * jnp.where(jnp.isinf(value), 0, jnp.abs(value))
    good = null >= (value - near)[None] if larger else null <= (value + near)[None]
    beaten = jnp.sum(good | jnp.isnan(null), axis=0)
    p_value = (1 + beaten.astype(value.dtype)) / (1 + len(null))
    return jnp.where(jnp.isnan(value), jnp.nan, p_value)


def _penalties(fit: Fit, options: dict[str, Any], **given: Any) -> tuple[dict, dict]:
    """Those that are swept, by name, and the options with the others."""
    _words.refuse_no_fit(fit)
    given = {name: value for name, value in given.items() if value is not None}
    if not given:
        raise TypeError("l2, l1: expected penalties of shape (m,) or (m, d) of either")
    for name in given:
        if not _options.takes(fit, name):
            raise TypeError(f"fit: expected a fit with an argument {name}")
    values = {name: _checks.real(value, name) for name, value in given.items()}
    swept = {name: a for name, a in values.items() if a.ndim or len(values) == 1}
    for name, a in swept.items():
        if a.ndim not in (1, 2) or not a.shape[0]:
            raise ValueError(f"{name}: expected penalties of shape (m,) or (m, d), got {a.shape}")
    counts = {len(a) for a in swept.values()}
    if len(counts) != 1:
        shapes = ", ".join(f"{name} {a.shape}" for name, a in values.items())
        raise ValueError(f"l2, l1: expected as many of both, or one number and many, got {shapes}")
    return swept, options | {name: a for name, a in values.items() if name not in swept}


def _count(penalties: dict[str, jax.Array]) -> int:
    return len(next(iter(penalties.values())))


def _number_of_folds(folds: Any, n: int) -> int:
    folds = _checks.static(folds, int, "folds")
    if not 2 <= folds <= n:
        raise ValueError(f"folds: expected from 2 to {n}, the number of rows, got {folds}")
    return folds

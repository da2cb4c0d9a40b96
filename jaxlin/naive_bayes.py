"""Naive Bayes: within a class every column is independent of every other.

Closed forms from counts and means, O(n d): for text, categories and many thousands of columns,
where they are the first thing to try. Their probabilities are too sure of themselves, as columns
that say the same are counted twice: `calibration` mends that. `logistic` learns from the same
columns what they tell together.

- `fit_bernoulli`: columns of 0 and 1, such as whether a word occurs;
- `fit_multinomial`: counts, such as how often; `fit_complement`: the same, for classes of very
  different sizes;
- `fit_categorical`: one-hot columns of several categories, see `features.one_hot`;
- `fit_gaussian`: numbers; a mean and a variance per class and column.

All but the last are linear: their scores are log p(x, c) less what all classes share. Counts are
smoothed by `alpha`, as if every value had been seen so often besides (Lidstone; 1 is Laplace's).

`residual` is 0; `objective` is minus the mean score of the rows' own class. The status is
CONVERGED; CLASS_TOO_SMALL where fewer than two classes have weight; of `fit_gaussian` without
smoothing QUASI_SEPARABLE where a column does not vary in a class, and the likelihood has no bound.

Shapes: `n` examples, `d` features, `k` classes.
"""

import functools
from typing import Any

import jax.numpy as jnp

from jaxlin._base import _checks, _invalid, _traits, _words
from jaxlin._moments import _bayes, _columns, _naive
from jaxlin._moments._naive import Given, Kind
from jaxlin._nonsmooth import _size
from jaxlin.moments import ColumnMoments, per_column
from jaxlin.types import DiagonalGaussian, Info, Linear


@_words.a_fit
def fit_bernoulli(
    x: Any,
    y: Any,
    *,
    num_classes: int | None = None,
    alpha: Any = 1.0,
    priors: Any = None,
    sample_weight: Any = None,
    feature_mask: Any = None,
    axis_name: str | None = None,
) -> tuple[Linear, Info]:
    """Fit columns of 0 and 1, each by its frequency in each class.

    p_cj = (N_cj + alpha) / (N_c + 2 alpha), with N_cj the weight of the rows of class c in which
    column j is 1, and N_c of all of them.

    Args:
      x: `(n, d)` in {0, 1}, or parts in between.
      y: `(n,)` class indices.
      num_classes: k, static; eagerly by default 1 + the largest label with weight.
      alpha: `()`, positive; how often each value is taken to have been seen besides.
      priors: `(k,)`, nonnegative, divided by their sum over the classes present; by default each
        class's part of the weight.
      sample_weight: `(n,)`, nonnegative; a row of weight 2 is the row twice.
      feature_mask: `(d,)` bool; a masked column has weight 0.
      axis_name: static; the mesh axis over which the rows are dealt, inside `jax.shard_map`: see
        `distributed`.

    Returns:
      `(params, info)`, a Linear whose scores are log p(x, c), and an Info. An absent class has
      weights 0 and bias -inf.

    Raises:
      ValueError: shapes that do not fit; eagerly also data that are not valid.
      TypeError: dtypes or static arguments of the wrong kind.

    Differentiable in x, sample_weight, alpha and priors.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import linear, naive_bayes
      >>> x, y = jnp.array([[1, 0], [1, 1], [0, 1], [0, 1]]), jnp.array([0, 0, 1, 1])
      >>> params, info = naive_bayes.fit_bernoulli(x, y)
      >>> linear.probabilities(params, jnp.array([1.0, 0.0])).round(2).tolist()
      [0.86, 0.14]
    """
    return _fit(
        Kind.BERNOULLI,
        x,
        y,
        num_classes,
        {"alpha": alpha},
        priors,
        sample_weight,
        feature_mask,
        axis_name,
    )


@_words.a_fit
def fit_multinomial(
    x: Any,
    y: Any,
    *,
    num_classes: int | None = None,
    alpha: Any = 1.0,
    priors: Any = None,
    sample_weight: Any = None,
    feature_mask: Any = None,
    axis_name: str | None = None,
) -> tuple[Linear, Info]:
    """Fit counts: each class draws from the columns by frequencies of its own.

    weights_cj = log((N_cj + alpha) / sum_j (N_cj + alpha)), with N_cj the sum of column j over the
    rows of class c.

    Args:
      x: `(n, d)`, nonnegative: counts, or parts of them, as tf-idf has.
      y: `(n,)` class indices.
      num_classes: k, static; eagerly by default 1 + the largest label with weight.
      alpha: `()`, positive; what every N_cj is raised by.
      priors: `(k,)`, as in `fit_bernoulli`.
      sample_weight: `(n,)`, nonnegative; a row of weight 2 is the row twice.
      feature_mask: `(d,)` bool; a masked column has weight 0 and no part in the sums.
      axis_name: static; the mesh axis over which the rows are dealt, inside `jax.shard_map`: see
        `distributed`.

    Returns:
      `(params, info)`, a Linear whose scores are log p(x, c) but for the multinomial coefficient,
      and an Info. An absent class has weights 0 and bias -inf.

    Raises:
      ValueError: shapes that do not fit; eagerly also data that are not valid.
      TypeError: dtypes or static arguments of the wrong kind.

    Differentiable in x, sample_weight, alpha and priors.

    Example: two words in four texts.
      >>> import jax.numpy as jnp
      >>> from jaxlin import linear, naive_bayes
      >>> x, y = jnp.array([[3, 0], [2, 1], [0, 2], [1, 3]]), jnp.array([0, 0, 1, 1])
      >>> params, info = naive_bayes.fit_multinomial(x, y)
      >>> jnp.exp(params.weights).round(2).tolist()
      [[0.75, 0.25], [0.25, 0.75]]
    """
    return _fit(
        Kind.MULTINOMIAL,
        x,
        y,
        num_classes,
        {"alpha": alpha},
        priors,
        sample_weight,
        feature_mask,
        axis_name,
    )


@_words.a_fit
def fit_categorical(
    x: Any,
    y: Any,
    *,
    groups: Any,
    num_groups: int | None = None,
    num_classes: int | None = None,
    alpha: Any = 1.0,
    priors: Any = None,
    sample_weight: Any = None,
    feature_mask: Any = None,
    axis_name: str | None = None,
) -> tuple[Linear, Info]:
    """Fit categories as one-hot columns: each category by its values' frequencies in each class.

    As `fit_multinomial`, with sums over the columns of the same category.

    Args:
      x: `(n, d)`, a column for each value of each category, as of `features.one_hot`.
      y: `(n,)` class indices.
      groups: `(d,)` integers in 0..g-1, the category that each column is of.
      num_groups: g, static; eagerly by default 1 + the largest.
      num_classes: k, static; eagerly by default 1 + the largest label with weight.
      alpha: `()`, positive; how often each value is taken to have been seen besides.
      priors: `(k,)`, as in `fit_bernoulli`.
      sample_weight: `(n,)`, nonnegative; a row of weight 2 is the row twice.
      feature_mask: `(d,)` bool; a masked column has weight 0 and no part in the sums.
      axis_name: static; the mesh axis over which the rows are dealt, inside `jax.shard_map`: see
        `distributed`.

    Returns:
      `(params, info)`, a Linear whose scores are log p(x, c), and an Info. An absent class has
      weights 0 and bias -inf.

    Raises:
      ValueError: shapes that do not fit; eagerly also data that are not valid.
      TypeError: dtypes or static arguments of the wrong kind.

    Differentiable in x, sample_weight, alpha and priors.

    Example: a category of two values, and one of three.
      >>> import jax.numpy as jnp
      >>> from jaxlin import features, naive_bayes
      >>> codes, y = jnp.array([[0, 2], [0, 1], [1, 0], [1, 0]]), jnp.array([0, 0, 1, 1])
      >>> x = features.one_hot(codes, sizes=(2, 3))
      >>> params, info = naive_bayes.fit_categorical(x, y, groups=jnp.array([0, 0, 1, 1, 1]))
      >>> jnp.exp(params.weights).round(2).tolist()
      [[0.75, 0.25, 0.2, 0.4, 0.4], [0.25, 0.75, 0.6, 0.2, 0.2]]
    """
    return _fit(
        Kind.MULTINOMIAL,
        x,
        y,
        num_classes,
        {"alpha": alpha},
        priors,
        sample_weight,
        feature_mask,
        axis_name,
        (groups, num_groups),
    )


@_words.a_fit
def fit_complement(
    x: Any,
    y: Any,
    *,
    num_classes: int | None = None,
    alpha: Any = 1.0,
    normed: bool = False,
    sample_weight: Any = None,
    feature_mask: Any = None,
    axis_name: str | None = None,
) -> tuple[Linear, Info]:
    """Fit counts by what the other classes hold, for classes of very different sizes.

    weights_cj = -log of column j's part of the counts outside of class c, each raised by alpha
    (Rennie, Shih, Teevan and Karger 2003). Scores have no prior, and are no log probabilities.

    Args:
      x: `(n, d)`, nonnegative: counts, or parts of them.
      y: `(n,)` class indices.
      num_classes: k, static; eagerly by default 1 + the largest label with weight.
      alpha: `()`, positive; what every count is raised by.
      normed: static; whether each class's weights are divided by their sum.
      sample_weight: `(n,)`, nonnegative; a row of weight 2 is the row twice.
      feature_mask: `(d,)` bool; a masked column has weight 0 and no part in the sums.
      axis_name: static; the mesh axis over which the rows are dealt, inside `jax.shard_map`: see
        `distributed`.

    Returns:
      `(params, info)`, a Linear of biases 0, and an Info. An absent class has weights 0 and bias
      -inf.

    Raises:
      ValueError: shapes that do not fit; eagerly also data that are not valid.
      TypeError: dtypes or static arguments of the wrong kind.

    Differentiable in x, sample_weight and alpha.

    Example: class 1 has one text.
      >>> import jax.numpy as jnp
      >>> from jaxlin import linear, naive_bayes
      >>> x, y = jnp.array([[3, 0], [2, 1], [0, 2]]), jnp.array([0, 0, 1])
      >>> params, info = naive_bayes.fit_complement(x, y)
      >>> linear.predict(params, jnp.array([[2.0, 0.0], [0.0, 1.0]])).tolist()
      [0, 1]
    """
    normed = _checks.static(normed, bool, "normed")
    return _fit(
        Kind.NORMED if normed else Kind.COMPLEMENT,
        x,
        y,
        num_classes,
        {"alpha": alpha},
        None,
        sample_weight,
        feature_mask,
        axis_name,
    )


@_words.a_fit
def fit_gaussian(
    x: Any,
    y: Any,
    *,
    num_classes: int | None = None,
    smoothing: Any = 1e-9,
    priors: Any = None,
    sample_weight: Any = None,
    feature_mask: Any = None,
    axis_name: str | None = None,
) -> tuple[DiagonalGaussian, Info]:
    """Fit numbers, each column normal in each class, with a mean and a variance of its own.

    `gaussian` has the verbs of the result: `log_joint`, `log_density`, `sample`, `to_quadratic`.

    Args:
      x: `(n, d)`.
      y: `(n,)` class indices.
      num_classes: k, static; eagerly by default 1 + the largest label with weight.
      smoothing: `()`, nonnegative; all variances are raised by this part of the largest variance of
        a column over all rows, which depends on the columns' units.
      priors: `(k,)`, as in `fit_bernoulli`.
      sample_weight: `(n,)`, nonnegative; a row of weight 2 is the row twice.
      feature_mask: `(d,)` bool; a masked column has mean and variance 0, and is not seen.
      axis_name: static; the mesh axis over which the rows are dealt, inside `jax.shard_map`: see
        `distributed`.

    Returns:
      `(params, info)`, a DiagonalGaussian and an Info. An absent class has prior 0. Variances
      are maximum likelihood's, divided by the weight of the class.

    Raises:
      ValueError: shapes that do not fit; eagerly also data that are not valid.
      TypeError: dtypes or static arguments of the wrong kind.

    Differentiable in x, sample_weight, smoothing and priors.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import naive_bayes
      >>> x, y = jnp.array([[-1.0], [1.0], [1.0], [5.0]]), jnp.array([0, 0, 1, 1])
      >>> params, info = naive_bayes.fit_gaussian(x, y)
      >>> params.means.tolist(), params.variances.round(3).tolist()
      ([[0.0], [3.0]], [[1.0], [4.0]])
    """
    return _fit(
        Kind.GAUSSIAN,
        x,
        y,
        num_classes,
        {"smoothing": smoothing},
        priors,
        sample_weight,
        feature_mask,
        axis_name,
    )


def fit_from_moments(
    fit: Any, moments_of_data: ColumnMoments, **options: Any
) -> tuple[Linear | DiagonalGaussian, Info]:
    """Any fit of this module from merged statistics instead of data.

    Of data that are no counts only means out of range are seen.

    Args:
      fit: static; `fit_bernoulli`, `fit_multinomial`, `fit_categorical`, `fit_complement` or
        `fit_gaussian`.
      moments_of_data: of `moments.per_column`.
      options: of that fit: `alpha` or `smoothing`, `priors`, `groups`, `normed`.

    Returns:
      `(params, info)`, as the fit returns them.

    Raises:
      TypeError: another fit, other moments, or options that the fit has not.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import moments, naive_bayes
      >>> x, y = jnp.array([[3, 0], [2, 1], [0, 2], [1, 3]]), jnp.array([0, 0, 1, 1])
      >>> parts = [moments.per_column(x[i:i+2], y[i:i+2], num_classes=2) for i in (0, 2)]
      >>> whole = moments.merge(*parts)
      >>> params, info = naive_bayes.fit_from_moments(naive_bayes.fit_multinomial, whole)
      >>> jnp.exp(params.weights).round(2).tolist()
      [[0.75, 0.25], [0.25, 0.75]]
    """
    if fit not in _KINDS:
        names = ", ".join(f.__name__ for f in _KINDS)
        raise TypeError(f"fit: expected one of {names} of naive_bayes, got {fit!r}")
    if not isinstance(moments_of_data, ColumnMoments):
        raise TypeError(
            f"moments_of_data: expected ColumnMoments, got {type(moments_of_data).__name__}"
        )
    kind, known = _KINDS[fit]
    for name in options.keys() - known:
        raise TypeError(f"naive_bayes.{fit.__name__}: no option {name!r} for moments")
    if options.pop("normed", False):
        kind = Kind.NORMED
    k, d = jnp.shape(moments_of_data.mean)
    groups = options.pop("groups", None), options.pop("num_groups", None)
    priors = options.pop("priors", None)
    default = 1e-9 if kind is Kind.GAUSSIAN else 1.0
    number = next(iter(options.items()), ("alpha", default))
    given = _given(moments_of_data.mean.dtype, k, d, dict([number]), priors, groups)
    return _naive.of_moments(kind, _columns.Columns(*map(jnp.asarray, moments_of_data)), given)


def _given(dtype, k, d, number, priors, groups) -> Given:
    [(name, value)] = number.items()
    ids, count = groups
    if ids is not None:
        ids = _size.of(1.0, ids, count, d, dtype)
    return Given(
        _checks.scalar(value, dtype, name),
        None if ids is None else ids.groups,
        _bayes.options(dtype, k, priors=priors),
    )


def _fit(
    kind, x, y, num_classes, number, priors, sample_weight, feature_mask, axis_name, groups=None
) -> Any:
    data = _checks.table(
        x,
        y,
        sample_weight=sample_weight,
        feature_mask=feature_mask,
        axis_name=axis_name,
        sparse=kind is not Kind.GAUSSIAN,
    )
    k = _checks.number_of_classes(num_classes, y, sample_weight)
    dtype = _checks.working_dtype(data.x)
    given = _given(dtype, k, data.x.shape[1], number, priors, groups or (None, None))
    params, info = _naive.of_rows(kind, k, data, given)
    [(name, value)] = number.items()
    positive = {name: (value, "next to nothing is 1e-10")}
    _invalid.raise_if_invalid(
        info,
        data,
        num_classes=k,
        positive=None if kind is Kind.GAUSSIAN else positive,
        nonnegative={"priors": priors} | (number if kind is Kind.GAUSSIAN else {}),
        of_x=kind.value[:2],
    )
    return params, info


_COUNTS = frozenset({"alpha", "priors"})
_KINDS = {
    fit_bernoulli: (Kind.BERNOULLI, _COUNTS),
    fit_multinomial: (Kind.MULTINOMIAL, _COUNTS),
    fit_categorical: (Kind.MULTINOMIAL, _COUNTS | {"groups", "num_groups"}),
    fit_complement: (Kind.COMPLEMENT, frozenset({"alpha", "normed"})),
    fit_gaussian: (Kind.GAUSSIAN, frozenset({"smoothing", "priors"})),
}


def _offer(fit: Any) -> None:
    finish = functools.partial(fit_from_moments, fit)
    _traits.declare(
        fit,
        counts=fit is not fit_gaussian,
        log_odds=fit is not fit_complement,
        moments=(per_column, finish),
    )


for _each in _KINDS:
    _offer(_each)

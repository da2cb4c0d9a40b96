"""From scores to probabilities: a temperature, Platt's sigmoid, isotonic regression.

A calibrator is fitted to the scores of rows that the classifier was not fitted to, as
`resample.held_out_scores` gives them: `params, info = fit_...(scores, y)`. Then
`probabilities(params, scores)` are those of new scores, and `scores(params, scores)` their
log-odds, which every metric takes. `fit_cross` does all of it for a classifier.

- `fit_temperature` divides the scores of all classes by one number, and so changes no prediction:
  for models whose scores are log-odds, but too sure of themselves.
- `fit_platt` is the logistic regression of the label on the score: for scores that are no
  log-odds, of a perceptron or a support vector machine.
- `fit_isotonic` asks no more than that a larger score is no less likely class 1. It needs more
  rows, about a thousand, and knows only as many probabilities as it has steps.

Scores are `(n,)` of class 1, or `(n, k)`, as `jaxlin.scores` gives them. Of `(n, k)`, Platt's
sigmoid and isotonic regression tell each class from all others, and what they say is divided by
its sum (Zadrozny and Elkan, 2002). Those that have a minimum have its derivatives in scores and
weights. A row of weight 0 is absent, whatever it holds.

`residual`: the largest entry of the gradient, for scores of unit size; of isotonic regression 0.
`objective`: the mean log loss; of isotonic regression the mean of (value - y)^2.
Shapes: `n` examples, `k` classes.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlin import resample
from jaxlin._base import _checks, _options
from jaxlin._scores import _calibrators, _judged
from jaxlin.types import Info


class Temperature(NamedTuple):
    """Scores are divided by it before the softmax, or the sigmoid.

    temperature: `()`, positive; inf where scores tell less than nothing
    """

    temperature: jax.Array


class Platt(NamedTuple):
    """The probability of class 1 is sigmoid(slope s + intercept); of k classes one for each.

    slope: `()` or `(k,)`
    intercept: `()` or `(k,)`
    """

    slope: jax.Array
    intercept: jax.Array


class Isotonic(NamedTuple):
    """The probability of class 1 is a value at each knot, and between two on the line through them.

    knots: `(n,)` or `(k, n)`, scores from the lowest to the highest
    values: `(n,)` or `(k, n)`, which do not decrease
    """

    knots: jax.Array
    values: jax.Array


class Calibrated(NamedTuple):
    """A classifier and what makes probabilities of its scores.

    params: as its fit returned them
    calibrator: a Temperature, Platt or Isotonic
    """

    params: Any
    calibrator: Any


def fit_temperature(scores: Any, y: Any, *, sample_weight: Any = None) -> tuple[Temperature, Info]:
    """The T > 0 for which softmax(scores / T) has the least mean log loss (Guo et al., 2017).

    Of `(n,)` scores it is sigmoid(scores / T).

    Args:
      scores: `(n,)` or `(n, k)`, log-odds; -inf for classes that are absent.
      y: `(n,)` class indices.
      sample_weight: `(n,)`.

    Returns:
      `(Temperature, info)`. Where the true class has the largest score in all rows T goes to 0, and
      the status is SEPARABLE, or QUASI_SEPARABLE if some tie. Where scores tell less than nothing T
      is inf: all classes are equally likely.

    Raises:
      ValueError: shapes do not agree; eagerly also where scores, labels or weights are invalid.
      TypeError: the scores are integers, or the labels are not.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import calibration
      >>> scores, y = jnp.array([-4.0, -4.0, -4.0, 4.0, 4.0, 4.0]), jnp.array([0, 0, 1, 0, 1, 1])
      >>> params, info = calibration.fit_temperature(scores, y)
      >>> round(float(params.temperature), 3)  # 4 / log 2
      5.771
    """
    given = _judged.checked(scores, y, sample_weight)
    slope, info = _calibrators.temperature(*given)
    _judged.raise_if_invalid(info, *given)
    return Temperature(1 / slope), info


def fit_platt(
    scores: Any, y: Any, *, smoothed: bool = False, sample_weight: Any = None
) -> tuple[Platt, Info]:
    """The sigmoid(slope s + intercept) of least mean log loss (Platt, 1999).

    Args:
      scores: `(n,)` of class 1, or `(n, k)`.
      y: `(n,)` class indices.
      smoothed: static; True for Platt's targets, (n1 + 1) / (n1 + 2) for the n1 rows of class 1 and
        1 / (n0 + 2) for the others, with which the slope stays finite. scikit-learn has these.
      sample_weight: `(n,)`.

    Returns:
      `(Platt, info)`. Where a threshold separates the classes the slope has no finite optimum, and
      the status is SEPARABLE or QUASI_SEPARABLE; RANK_DEFICIENT where all scores are one;
      CLASS_TOO_SMALL where a class has no weight. Of k classes the largest status.

    Raises:
      ValueError: shapes do not agree; eagerly also where scores, labels or weights are invalid.
      TypeError: the scores are integers, or the labels are not.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import calibration
      >>> scores, y = jnp.array([-1.0, -1.0, -1.0, 1.0, 1.0, 1.0]), jnp.array([0, 0, 1, 0, 1, 1])
      >>> params, info = calibration.fit_platt(scores, y)
      >>> calibration.probabilities(params, scores)[:, 1].round(3).tolist()[2:4]
      [0.333, 0.667]
    """
    given = _judged.checked(scores, y, sample_weight)
    found, info = _each_class(_calibrators.platt, *given, bool(smoothed))
    return Platt(*found), info


def fit_isotonic(scores: Any, y: Any, *, sample_weight: Any = None) -> tuple[Isotonic, Info]:
    """The function of the score that does not decrease with the least sum of w (f(s) - y)^2.

    It is found by pooling adjacent violators (Ayer et al., 1955).

    Args:
      scores: `(n,)` of class 1, or `(n, k)`.
      y: `(n,)` class indices.
      sample_weight: `(n,)`.

    Returns:
      `(Isotonic, info)`. CLASS_TOO_SMALL where a class has no weight; of k classes the largest
      status. Cost: O(n log n), a sort. Its derivative is that of the values in the weights.

    Raises:
      ValueError: shapes do not agree, or more than 8 million rows in float32; eagerly also where
        scores, labels or weights are invalid.
      TypeError: the scores are integers, or the labels are not.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import calibration
      >>> scores, y = jnp.array([0.0, 1.0, 2.0, 3.0]), jnp.array([0, 1, 0, 1])
      >>> params, info = calibration.fit_isotonic(scores, y)
      >>> params.values.tolist()
      [0.0, 0.5, 0.5, 1.0]
    """
    given = _judged.checked(scores, y, sample_weight)
    found, info = _each_class(_calibrators.isotonic, *given)
    return Isotonic(*found), info


@_options.explained
def fit_cross(
    fit: Callable[..., tuple[Any, Info]],
    calibrate: Callable[..., tuple[Any, Info]],
    x: Any,
    y: Any,
    weights: Any,
    *,
    sample_weight: Any = None,
    batch_size: int | None = None,
    **options: Any,
) -> tuple[Calibrated, Info]:
    """Fit a classifier to all rows, and a calibrator to the scores of rows that folds left out.

    As scikit-learn's CalibratedClassifierCV with `ensemble=False`. Probabilities of new rows are
    `probabilities(model.calibrator, jaxlin.scores(model.params, x))`.

    Args:
      fit: `fit(x, y, *, sample_weight, ...) -> (params, Info)`.
      calibrate: `fit_temperature`, `fit_platt`, `fit_isotonic`, or a function like them.
      x, y, weights, sample_weight, batch_size: as in `resample.held_out_scores`. A row that no fold
        holds out has no part in the calibration.
      **options: handed to the fit, numbers among them traced. `num_classes` may be left out,
        eagerly.

    Returns:
      `(Calibrated, info)`: the largest status, residual and number of steps of the folds, the
      calibrator and the final fit, and the calibrator's objective.

    Raises:
      ValueError: as `resample.cross_validate`.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from jaxlin import calibration, logistic, resample
      >>> x, y = jnp.arange(12.0)[:, None], jnp.array([0, 0, 1, 0, 0, 0, 1, 1, 0, 1, 1, 1])
      >>> folds = resample.stratified_kfold(jax.random.key(0), y, folds=3)
      >>> model, info = calibration.fit_cross(
      ...     logistic.fit, calibration.fit_temperature, x, y, folds, l2=0.1)
      >>> model.params.weights.shape, model.calibrator.temperature.shape, info.status.item()
      ((1,), (), 0)
    """
    given = {"sample_weight": sample_weight} | options
    held, infos = resample.held_out_scores(fit, x, y, weights, batch_size=batch_size, **given)
    known = ~jnp.isnan(held if held.ndim == 1 else held[:, 0])
    weight = _checks.optional(sample_weight, known.shape, held.dtype, "sample_weight")
    weight = jnp.ones(known.shape, held.dtype) if weight is None else weight
    # Where a fold is invalid its rows are not known, and the status says so.
    weight = jnp.where(known, weight, 0)
    calibrator, of_scores = calibrate(held, y, sample_weight=weight)
    params, whole = fit(x, y, **given)
    parts = [*(jax.tree.map(jnp.max, (infos, whole))), of_scores]
    most = jax.tree.map(lambda *a: jnp.max(jnp.stack(a)), *parts)
    return Calibrated(params, calibrator), most._replace(objective=of_scores.objective)


def probabilities(params: Any, scores: Any) -> jax.Array:
    """The probabilities of the classes, of scores.

    Args:
      params: a Temperature, Platt or Isotonic, as a fit returned it.
      scores: `(n,)` of class 1 or `(n, k)`, as it was fitted to.

    Returns:
      `(n, k)`, k = 2 for `(n,)`.

    Raises:
      TypeError: params of another type.
      ValueError: scores of another number of classes.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import calibration
      >>> params = calibration.Temperature(jnp.array(2.0))
      >>> calibration.probabilities(params, jnp.array([0.0])).tolist()
      [[0.5, 0.5]]
    """
    given = _of_params(params, scores)
    if isinstance(params, Temperature):
        return _calibrators.tempered(*params, given)
    each = _calibrators.sigmoids if isinstance(params, Platt) else _calibrators.steps
    return _calibrators.divided(each(*params, given))


def scores(params: Any, scores: Any) -> jax.Array:
    """Calibrated scores, of scores: log-odds, as the metrics take them.

    Args:
      params: a Temperature, Platt or Isotonic, as a fit returned it.
      scores: `(n,)` of class 1 or `(n, k)`, as it was fitted to.

    Returns:
      `(n,)`, log p / (1 - p); or `(n, k)`, log p. Infinite where an isotonic p is 0 or 1.

    Raises:
      TypeError: params of another type.
      ValueError: scores of another number of classes.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import calibration
      >>> params = calibration.Temperature(jnp.array(2.0))
      >>> calibration.scores(params, jnp.array([3.0])).tolist()
      [1.5]
    """
    given = _of_params(params, scores)
    if isinstance(params, Temperature):
        return _calibrators.cooled(*params, given)
    if isinstance(params, Platt) and given.ndim == 1:
        return params.slope * given + params.intercept
    chance = probabilities(params, given)
    return jnp.log(chance) if given.ndim == 2 else jnp.log(chance[:, 1]) - jnp.log(chance[:, 0])


def _of_params(params: Any, scores: Any) -> jax.Array:
    if not isinstance(params, Temperature | Platt | Isotonic):
        raise TypeError(
            f"params: expected a Temperature, Platt or Isotonic, got {type(params).__name__}"
        )
    scores = _checks.array(scores, "scores")
    scores = scores.astype(_checks.working_dtype(scores))
    if isinstance(params, Temperature):
        known = scores.ndim in (1, 2) and jnp.ndim(params.temperature) == 0
        expected = "(n,) or (n, k), for a temperature of shape ()"
    else:
        lead = (
            jnp.shape(params[0])[:1] if jnp.ndim(params[0]) > isinstance(params, Isotonic) else ()
        )
        known = scores.ndim == 1 + len(lead) and scores.shape[1:] == lead
        expected = f"(n, {lead[0]})" if lead else "(n,)"
    if not known:
        raise ValueError(f"scores: expected shape {expected}, got {scores.shape}")
    return scores


def _each_class(program: Callable, scores: Any, y: Any, weight: Any, *static: Any) -> tuple:
    """Of `(n, k)` scores each class against all others, and one Info of all."""
    if scores.ndim == 1:
        found, info = program(scores, y, weight, *static)
    else:
        found, info = _calibrators.of_classes(program, scores, y, weight, *static)
    _judged.raise_if_invalid(info, scores, y, weight)
    return found, info

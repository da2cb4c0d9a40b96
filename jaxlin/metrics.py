"""How good scores are, given the truth: accuracy, areas, curves, costs, calibration.

Every metric is `f(scores, y, *, sample_weight)`: scores `(n,)` of class 1 or `(n, k)`, as
`jaxlin.scores` gives them, before the class indices `y: (n,)` (scikit-learn has y first). So each
that returns one number can be handed to `resample.cross_validate` and `resample.select`.

- Of predictions: `accuracy`, `balanced_accuracy`, `f_beta`, `matthews`, `confusion`,
  `expected_cost`. The predicted class is [s > 0], or the lowest index of the largest score;
  predicted classes themselves are told by their integer (or bool) dtype.
- Of probabilities: `log_loss`, `brier`, `brier_parts`, `calibration_error`, `calibration_curve`
  read scores as log-odds: of logistic, softmax, lda, the Gaussian models and what `calibration`
  returns, not of a perceptron or a support vector machine.
- Of the order of the scores: `roc_auc`, `roc_auc_one_vs_rest`, `roc_auc_one_vs_one`,
  `average_precision`, `roc_curve`, `precision_recall_curve`, `best_threshold`.

A row of weight 0 is absent, whatever it holds. The result is NaN where it has no meaning: no
weight at all, a negative weight, and in a row of positive weight a NaN score or a label outside
the classes. All are jitted; weights may be vmapped over. Where `(n, k)` scores are too large to
hold, `losses.objective(losses.zero_one, params, x, y)` goes block by block.
Shapes: `n` examples, `k` classes, `b` bins.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlin._base import _checks
from jaxlin._scores import _bins, _judged, _measures


class Curve(NamedTuple):
    """What is predicted class 1 where a score is at least a threshold, from high to low.

    Rows of equal score are one point, repeated; rows without weight repeat the last.

    false_positive_rate: `(n + 1,)`, the share of class 0 that is; the first is 0
    true_positive_rate: `(n + 1,)`, the share of class 1 that is; the first is 0
    thresholds: `(n + 1,)`, the scores; the first is inf
    """

    false_positive_rate: jax.Array
    true_positive_rate: jax.Array
    thresholds: jax.Array


class PrecisionRecall(NamedTuple):
    """What is predicted class 1 where a score is at least a threshold, from high to low.

    Rows of equal score are one point, repeated; rows without weight repeat the last.

    precision: `(n + 1,)`, the share of class 1 in it; the first, of none, is 1
    recall: `(n + 1,)`, the share of class 1 that is in it; the first is 0
    thresholds: `(n + 1,)`, the scores; the first is inf
    """

    precision: jax.Array
    recall: jax.Array
    thresholds: jax.Array


class Reliability(NamedTuple):
    """How often what is predicted with some probability occurs, bin by bin.

    predicted: `(b,)`, the mean probability; NaN where a bin is empty
    observed: `(b,)`, how often it was so; NaN where a bin is empty
    weight: `(b,)`, the weight of the rows in it
    """

    predicted: jax.Array
    observed: jax.Array
    weight: jax.Array


class BrierParts(NamedTuple):
    """The Brier score in three: it is reliability - resolution + uncertainty.

    reliability: `()`, the mean of (predicted - observed)^2 over the bins: 0 where calibrated
    resolution: `()`, the mean of (observed - base rate)^2: how far the bins are told apart
    uncertainty: `()`, the Brier score of the base rates
    """

    reliability: jax.Array
    resolution: jax.Array
    uncertainty: jax.Array


def accuracy(scores: Any, y: Any, *, sample_weight: Any = None) -> jax.Array:
    """The share of right predictions: sum_i w_i [prediction_i = y_i] / sum_i w_i.

    Args:
      scores: `(n,)` or `(n, k)`; or predicted classes, integer `(n,)`.
      y: `(n,)` class indices.
      sample_weight: `(n,)`.

    Returns:
      `()`, in [0, 1].

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import metrics
      >>> y = jnp.array([0, 1, 1, 1])
      >>> float(metrics.accuracy(jnp.array([-1.0, 2.0, 0.0, 3.0]), y))
      0.75
      >>> float(metrics.accuracy(jnp.array([0, 1, 0, 0]), y))
      0.5
    """
    return _measures.accuracy(*_judged.checked(scores, y, sample_weight, classes=True))


def log_loss(scores: Any, y: Any, *, sample_weight: Any = None) -> jax.Array:
    """The mean of -log p(y), p the sigmoid or softmax of the scores.

    Computed from the scores, so that no probability underflows and none needs to be clipped.

    Args:
      scores: `(n,)` or `(n, k)`, log-odds.
      y: `(n,)` class indices.
      sample_weight: `(n,)`.

    Returns:
      `()`, in nats; inf where a class of score -inf is the truth.

    Raises:
      TypeError: the scores are integers, or the labels are not.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import metrics
      >>> float(metrics.log_loss(jnp.array([1e4, 1e4]), jnp.array([1, 0])))
      5000.0
    """
    return _measures.log_loss(*_judged.checked(scores, y, sample_weight))


def brier(scores: Any, y: Any, *, sample_weight: Any = None) -> jax.Array:
    """The mean squared error of the probabilities (Brier, 1950).

    For `(n,)` scores the mean of (p - y)^2, p the sigmoid: in [0, 1]. For `(n, k)` the mean of
    sum_c (p_c - [c = y])^2, p the softmax: in [0, 2], and for k = 2 twice the binary form.

    Args:
      scores: `(n,)` or `(n, k)`, log-odds.
      y: `(n,)` class indices.
      sample_weight: `(n,)`.

    Returns:
      `()`.

    Raises:
      TypeError: the scores are integers, or the labels are not.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import metrics
      >>> float(metrics.brier(jnp.zeros(2), jnp.array([1, 0])))
      0.25
      >>> float(metrics.brier(jnp.zeros((2, 2)), jnp.array([1, 0])))
      0.5
    """
    return _measures.brier(*_judged.checked(scores, y, sample_weight))


def roc_auc(scores: Any, y: Any, *, sample_weight: Any = None) -> jax.Array:
    """The area under the ROC curve: P(s+ > s-) + P(s+ = s-) / 2 (Hanley and McNeil, 1982).

    s+ and s- are the scores of a random row of class 1 and of class 0, drawn by weight.

    Args:
      scores: `(n,)`, or `(n, 2)`, of which the difference s_1 - s_0 counts.
      y: `(n,)` in {0, 1}.
      sample_weight: `(n,)`.

    Returns:
      `()`, in [0, 1]; NaN where a class has no weight. Cost: O(n log n), a sort.

    Raises:
      TypeError: the scores are integers, or the labels are not.
      ValueError: there are more than two classes.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import metrics
      >>> float(metrics.roc_auc(jnp.array([0.1, 0.4, 0.4, 0.9]), jnp.array([0, 0, 1, 1])))
      0.875
    """
    return _measures.roc_auc(*_of_two(scores, y, sample_weight))


def confusion(
    scores: Any, y: Any, *, num_classes: int | None = None, sample_weight: Any = None
) -> jax.Array:
    """The weight of the rows of each class, by the class that was predicted.

    Args:
      scores: `(n,)` or `(n, k)`; or predicted classes, integer `(n,)`.
      y: `(n,)` class indices.
      num_classes: k, static; by default as many as there are scores, and for predicted classes
        (eagerly only) 1 + the largest that occurs.
      sample_weight: `(n,)`.

    Returns:
      `(k, k)`: a row for each true class, a column for each predicted one; NaN where a row of
      positive weight has either outside the classes.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import metrics
      >>> y = jnp.array([0, 1, 1, 1])
      >>> metrics.confusion(jnp.array([0, 1, 1, 0]), y, num_classes=2).tolist()
      [[1.0, 0.0], [1.0, 2.0]]
    """
    return _measures.confusion(*_of_classes(scores, y, num_classes, sample_weight))


def balanced_accuracy(
    scores: Any, y: Any, *, num_classes: int | None = None, sample_weight: Any = None
) -> jax.Array:
    """The mean over the classes that are present of the share that is predicted right.

    Args:
      scores: `(n,)` or `(n, k)`; or predicted classes, integer `(n,)`.
      y: `(n,)` class indices.
      num_classes: as in `confusion`.
      sample_weight: `(n,)`.

    Returns:
      `()`, in [0, 1].

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import metrics
      >>> y = jnp.array([0, 1, 1, 1])
      >>> float(metrics.balanced_accuracy(jnp.array([1.0, 2.0, 0.5, 3.0]), y))
      0.5
    """
    return _measures.balanced_accuracy(*_of_classes(scores, y, num_classes, sample_weight))


def f_beta(
    scores: Any,
    y: Any,
    *,
    beta: Any = 1.0,
    num_classes: int | None = None,
    sample_weight: Any = None,
) -> jax.Array:
    """(1 + beta^2) TP / ((1 + beta^2) TP + beta^2 FN + FP) (van Rijsbergen, 1979).

    Recall counts beta times as much as precision; at 1 it is their harmonic mean. With two classes
    that of class 1; with more the mean of each class against the others, over those that occur in
    the truth or among the predictions.

    Args:
      scores: `(n,)` or `(n, k)`; or predicted classes, integer `(n,)`.
      y: `(n,)` class indices.
      beta: `()`, positive.
      num_classes: as in `confusion`.
      sample_weight: `(n,)`.

    Returns:
      `()`, in [0, 1]; NaN where class 1 of two occurs neither in the truth nor as a prediction.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import metrics
      >>> y = jnp.array([0, 0, 1, 1])
      >>> float(metrics.f_beta(jnp.array([1.0, -1.0, 2.0, -2.0]), y))
      0.5
    """
    *given, k = _of_classes(scores, y, num_classes, sample_weight)
    return _measures.f_beta(*given, _checks.real(beta, "beta"), k)


def matthews(
    scores: Any, y: Any, *, num_classes: int | None = None, sample_weight: Any = None
) -> jax.Array:
    """The correlation of truth and prediction (Matthews, 1975; for k classes Gorodkin, 2004).

    (c s - sum_c p_c t_c) / sqrt((s^2 - sum_c p_c^2) (s^2 - sum_c t_c^2)), where s is the weight
    of all rows, c of those that are right, t_c of class c and p_c of what is predicted class c.

    Args:
      scores: `(n,)` or `(n, k)`; or predicted classes, integer `(n,)`.
      y: `(n,)` class indices.
      num_classes: as in `confusion`.
      sample_weight: `(n,)`.

    Returns:
      `()`, in [-1, 1]; 0 where all predictions are one class, NaN where the truth is.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import metrics
      >>> y = jnp.array([0, 0, 1, 1])
      >>> round(float(metrics.matthews(jnp.array([-1.0, -1.0, 2.0, 2.0]), y)), 9)
      1.0
    """
    return _measures.matthews(*_of_classes(scores, y, num_classes, sample_weight))


def expected_cost(scores: Any, y: Any, *, costs: Any, sample_weight: Any = None) -> jax.Array:
    """The mean cost of the predictions: sum_i w_i costs[y_i, prediction_i] / sum_i w_i.

    Args:
      scores: `(n,)` or `(n, k)`; or predicted classes, integer `(n,)`.
      y: `(n,)` class indices.
      costs: `(k, k)`, a row for each true class, a column for each prediction.
      sample_weight: `(n,)`.

    Returns:
      `()`.

    Raises:
      ValueError: the costs are not of as many classes as the scores.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import metrics
      >>> costs = jnp.array([[0.0, 1.0], [5.0, 0.0]])
      >>> scores, y = jnp.array([1.0, -1.0, -1.0, 2.0]), jnp.array([0, 0, 1, 1])
      >>> float(metrics.expected_cost(scores, y, costs=costs))
      1.5
    """
    scores, y, sample_weight = _judged.checked(scores, y, sample_weight, classes=True)
    return _measures.expected_cost(scores, y, sample_weight, _costs(costs, _judged.width(scores)))


def best_threshold(
    scores: Any, y: Any, *, costs: Any, sample_weight: Any = None
) -> tuple[jax.Array, jax.Array]:
    """The threshold on the scores at which predicting class 1 above it costs least.

    It lies midway between two scores; of thresholds that cost the same it is the highest. Of a
    Hyperplane `params`, `params._replace(bias=params.bias - threshold)` predicts so. Choose it on
    other rows than those the scores were fitted to: `resample.held_out_scores`.

    Args:
      scores: `(n,)`, or `(n, 2)`, of which the difference s_1 - s_0 counts.
      y: `(n,)` in {0, 1}.
      costs: `(2, 2)`, a row for each true class, a column for each prediction.
      sample_weight: `(n,)`.

    Returns:
      `(threshold (), cost ())`: inf or -inf where one prediction for all rows costs least, and the
      mean cost there.

    Raises:
      TypeError: the scores are integers, or the labels are not.
      ValueError: there are more than two classes.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import metrics
      >>> costs = jnp.array([[0.0, 1.0], [5.0, 0.0]])
      >>> scores, y = jnp.array([1.0, -2.0, -1.0, 2.0]), jnp.array([0, 0, 1, 1])
      >>> [float(a) for a in metrics.best_threshold(scores, y, costs=costs)]
      [-1.5, 0.25]
    """
    scores, y, sample_weight = _of_two(scores, y, sample_weight)
    return _measures.best_threshold(scores, y, sample_weight, _costs(costs, 2))


def roc_auc_one_vs_rest(scores: Any, y: Any, *, sample_weight: Any = None) -> jax.Array:
    """The mean over classes of the area that tells one class from all others.

    The rows are ranked by the log-odds of the class, log p_c / (1 - p_c), p the softmax of the
    scores. Of two classes it is `roc_auc`.

    Args:
      scores: `(n, k)`.
      y: `(n,)` class indices.
      sample_weight: `(n,)`.

    Returns:
      `()`, in [0, 1]; a class without weight is left out, and one class alone gives NaN. Cost:
      O(k n log n), k sorts.

    Raises:
      TypeError: the scores are integers, or the labels are not.
      ValueError: the scores are not `(n, k)`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import metrics
      >>> y = jnp.array([0, 1, 2])
      >>> float(metrics.roc_auc_one_vs_rest(jnp.eye(3), y))
      1.0
    """
    return _measures.one_vs_rest(*_of_many(scores, y, sample_weight))


def roc_auc_one_vs_one(scores: Any, y: Any, *, sample_weight: Any = None) -> jax.Array:
    """The mean over ordered pairs (i, j) of the area that tells class i from j (Hand, Till, 2001).

    The rows of the two classes are ranked by the log-odds of class i, log p_i / (1 - p_i), p the
    softmax of the scores. No share of a class matters. Of two classes it is `roc_auc`.

    Args:
      scores: `(n, k)`.
      y: `(n,)` class indices.
      sample_weight: `(n,)`.

    Returns:
      `()`, in [0, 1]; a class without weight is left out, and one class alone gives NaN. Cost:
      O(k n log n + n k^2), k sorts.

    Raises:
      TypeError: the scores are integers, or the labels are not.
      ValueError: the scores are not `(n, k)`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import metrics
      >>> y = jnp.array([0, 1, 2])
      >>> float(metrics.roc_auc_one_vs_one(jnp.eye(3), y))
      1.0
    """
    return _measures.one_vs_one(*_of_many(scores, y, sample_weight))


def average_precision(scores: Any, y: Any, *, sample_weight: Any = None) -> jax.Array:
    """The sum of (recall_i - recall_(i-1)) precision_i over the thresholds, from high to low.

    Args:
      scores: `(n,)`, or `(n, 2)`, of which the difference s_1 - s_0 counts.
      y: `(n,)` in {0, 1}.
      sample_weight: `(n,)`.

    Returns:
      `()`, in [0, 1]; NaN where class 1 has no weight.

    Raises:
      TypeError: the scores are integers, or the labels are not.
      ValueError: there are more than two classes.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import metrics
      >>> scores, y = jnp.array([0.1, 0.4, 0.35, 0.8]), jnp.array([0, 0, 1, 1])
      >>> round(float(metrics.average_precision(scores, y)), 4)
      0.8333
    """
    return _measures.average_precision(*_of_two(scores, y, sample_weight))


def roc_curve(scores: Any, y: Any, *, sample_weight: Any = None) -> Curve:
    """The ROC curve: the share of class 1 that is found over the share of class 0 taken for it.

    Args:
      scores: `(n,)`, or `(n, 2)`, of which the difference s_1 - s_0 counts.
      y: `(n,)` in {0, 1}.
      sample_weight: `(n,)`.

    Returns:
      A Curve of n + 1 points; NaN where a class has no weight.

    Raises:
      TypeError: the scores are integers, or the labels are not.
      ValueError: there are more than two classes.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import metrics
      >>> curve = metrics.roc_curve(jnp.array([0.1, 0.4, 0.4, 0.9]), jnp.array([0, 0, 1, 1]))
      >>> curve.true_positive_rate.tolist(), curve.false_positive_rate.tolist()
      ([0.0, 0.5, 1.0, 1.0, 1.0], [0.0, 0.0, 0.5, 0.5, 1.0])
    """
    return Curve(*_measures.roc_curve(*_of_two(scores, y, sample_weight)))


def precision_recall_curve(scores: Any, y: Any, *, sample_weight: Any = None) -> PrecisionRecall:
    """Precision over recall: how much of what is taken for class 1 is, over how much is found.

    Args:
      scores: `(n,)`, or `(n, 2)`, of which the difference s_1 - s_0 counts.
      y: `(n,)` in {0, 1}.
      sample_weight: `(n,)`.

    Returns:
      A PrecisionRecall of n + 1 points; NaN where class 1 has no weight.

    Raises:
      TypeError: the scores are integers, or the labels are not.
      ValueError: there are more than two classes.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import metrics
      >>> curve = metrics.precision_recall_curve(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1]))
      >>> curve.recall.tolist(), curve.precision.round(3).tolist()
      ([0.0, 0.5, 0.5, 1.0], [1.0, 1.0, 0.5, 0.667])
    """
    return PrecisionRecall(*_measures.precision_recall_curve(*_of_two(scores, y, sample_weight)))


def equal_width(p: Any, *, num_bins: int, sample_weight: Any = None) -> jax.Array:
    """Bins of equal width: the i-th is (i / b, (i + 1) / b], and the first has 0 too.

    Args:
      p: `(n,)` probabilities.
      num_bins: b, static.
      sample_weight: not used.

    Returns:
      `(n,)`, which bin each is in.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import metrics
      >>> metrics.equal_width(jnp.array([0.0, 0.5, 0.6, 1.0]), num_bins=2).tolist()
      [0, 0, 1, 1]
    """
    return _bins.by_width(_checks.real(p, "p"), num_bins)


def equal_mass(p: Any, *, num_bins: int, sample_weight: Any = None) -> jax.Array:
    """Bins of equal weight: the i-th ends where i + 1 of b parts of the weight are no larger.

    Equal probabilities are in one bin.

    Args:
      p: `(n,)` probabilities.
      num_bins: b, static.
      sample_weight: `(n,)`.

    Returns:
      `(n,)`, which bin each is in.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import metrics
      >>> metrics.equal_mass(jnp.array([0.1, 0.2, 0.3, 0.9]), num_bins=2).tolist()
      [0, 0, 1, 1]
    """
    p = _checks.real(p, "p")
    weight = _checks.optional(sample_weight, p.shape, p.dtype, "sample_weight")
    return _bins.by_mass(p, jnp.ones_like(p) if weight is None else weight, num_bins)


def calibration_curve(
    scores: Any,
    y: Any,
    *,
    num_bins: int = 10,
    bins: Callable[..., jax.Array] = equal_width,
    sample_weight: Any = None,
) -> Reliability:
    """How often class 1 occurs where it is predicted with probability p (DeGroot, Fienberg, 1983).

    Of `(n, k)` scores p is the probability of the class predicted, and what occurs is that it is
    right (Guo et al., 2017).

    Args:
      scores: `(n,)` or `(n, k)`, log-odds.
      y: `(n,)` class indices.
      num_bins: b, static.
      bins: static, `equal_width`, `equal_mass`, or a function that is called as they are.
      sample_weight: `(n,)`.

    Returns:
      A Reliability of b bins.

    Raises:
      TypeError: the scores are integers, or the labels are not.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import metrics
      >>> scores, y = jnp.array([-2.0, -2.0, 2.0, 2.0]), jnp.array([0, 1, 1, 1])
      >>> curve = metrics.calibration_curve(scores, y, num_bins=2)
      >>> curve.predicted.round(2).tolist(), curve.observed.tolist()
      ([0.12, 0.88], [0.5, 1.0])
    """
    return Reliability(
        *_measures.calibration_curve(*_judged.checked(scores, y, sample_weight), bins, num_bins)
    )


def calibration_error(
    scores: Any,
    y: Any,
    *,
    num_bins: int = 15,
    bins: Callable[..., jax.Array] = equal_width,
    power: int = 1,
    debiased: bool = False,
    sample_weight: Any = None,
) -> jax.Array:
    """The mean over bins of |predicted - observed|, by weight: the expected calibration error.

    Its `power`-th root of the mean `power`-th power; predicted and observed as in
    `calibration_curve` (Naeini et al., 2015; Guo et al., 2017). Of few rows a bin it is too large,
    as chance is counted too. `debiased` takes the variance of what was observed,
    observed (1 - observed) / (weight - 1), from each square (Kumar et al., 2019).

    Args:
      scores: `(n,)` or `(n, k)`, log-odds.
      y: `(n,)` class indices.
      num_bins: b, static.
      bins: static, `equal_width`, `equal_mass`, or a function that is called as they are.
      power: static, 1 or 2.
      debiased: static, of power 2; bins of a weight of 1 or less are left out.
      sample_weight: `(n,)`; where `debiased` it counts rows.

    Returns:
      `()`, in [0, 1]; 0 where what is left without the variance is negative.

    Raises:
      TypeError: the scores are integers, or the labels are not.
      ValueError: another power, or `debiased` of power 1.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import metrics
      >>> scores, y = jnp.array([-2.0, -2.0, 2.0, 2.0]), jnp.array([0, 1, 1, 1])
      >>> round(float(metrics.calibration_error(scores, y)), 3)
      0.25
    """
    if power not in (1, 2):
        raise ValueError(f"power: expected 1 or 2, got {power}")
    if debiased and power == 1:
        raise ValueError("debiased: only squares have a variance to take; give power=2")
    data = _judged.checked(scores, y, sample_weight)
    return _measures.calibration_error(*data, bins, num_bins, power, bool(debiased))


def brier_parts(
    scores: Any,
    y: Any,
    *,
    num_bins: int = 10,
    bins: Callable[..., jax.Array] = equal_width,
    sample_weight: Any = None,
) -> BrierParts:
    """The Brier score of binned probabilities as reliability - resolution + uncertainty.

    Each row's probability is taken to be the mean of its bin (Murphy, 1973). Of `(n, k)` scores
    each part is the sum over the classes, as the Brier score is.

    Args:
      scores: `(n,)` or `(n, k)`, log-odds.
      y: `(n,)` class indices.
      num_bins: b, static.
      bins: static, `equal_width`, `equal_mass`, or a function that is called as they are.
      sample_weight: `(n,)`.

    Returns:
      BrierParts.

    Raises:
      TypeError: the scores are integers, or the labels are not.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import metrics
      >>> scores, y = jnp.array([-2.0, -2.0, 2.0, 2.0]), jnp.array([0, 1, 1, 1])
      >>> parts = metrics.brier_parts(scores, y)
      >>> [round(float(part), 4) for part in parts]
      [0.0796, 0.0625, 0.1875]
    """
    return BrierParts(
        *_measures.brier_parts(*_judged.checked(scores, y, sample_weight), bins, num_bins)
    )


def _of_two(scores: Any, y: Any, sample_weight: Any) -> tuple:
    scores, y, sample_weight = _judged.checked(scores, y, sample_weight)
    if scores.ndim == 2 and scores.shape[1] != 2:
        raise ValueError(f"scores: expected shape (n,) or (n, 2), got {scores.shape}")
    return scores, y, sample_weight


def _of_many(scores: Any, y: Any, sample_weight: Any) -> tuple:
    scores, y, sample_weight = _judged.checked(scores, y, sample_weight)
    if scores.ndim != 2 or scores.shape[1] < 2:
        raise ValueError(f"scores: expected shape (n, k), got {scores.shape}")
    return scores, y, sample_weight


def _of_classes(scores: Any, y: Any, num_classes: int | None, sample_weight: Any) -> tuple:
    """Checked, and k."""
    scores, y, sample_weight = _judged.checked(scores, y, sample_weight, classes=True)
    if num_classes is None and not _judged.are_classes(scores):
        num_classes = _judged.width(scores)
    elif num_classes is None:
        found = [_checks.number_of_classes(None, each, sample_weight) for each in (scores, y)]
        num_classes = max(found)
    return scores, y, sample_weight, _checks.number_of_classes(num_classes, y)


def _costs(costs: Any, k: int | None) -> jax.Array:
    costs = _checks.real(costs, "costs")
    if costs.ndim != 2 or costs.shape[0] != costs.shape[1] or k not in (None, len(costs)):
        expected = "(k, k)" if k is None else f"({k}, {k})"
        raise ValueError(f"costs: expected shape {expected}, got {costs.shape}")
    return costs

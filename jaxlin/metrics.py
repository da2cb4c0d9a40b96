"""How good scores are, given the truth: accuracy, log loss, Brier score, ROC area, confusion.

Every metric is `f(scores, y, *, sample_weight)`: scores `(n,)` of class 1 or `(n, k)`, as
`jaxlin.scores` gives them, before the class indices `y: (n,)` (scikit-learn has y first). So each
can be handed to `resample.cross_validate`. The predicted class is [s > 0], or the lowest index of
the largest score. `accuracy` and `confusion` also take predicted classes, told by their integer
(or bool) dtype. `log_loss` and `brier` read scores as log-odds: of logistic, softmax, lda and the
Gaussian models, not of a perceptron or a support vector machine.

A row of weight 0 is absent, whatever it holds. The result is NaN where it has no meaning: no
weight at all, a negative weight, and in a row of positive weight a NaN score or a label outside
the classes. All are jitted; weights may be vmapped over. Where `(n, k)` scores are too large to
hold, `losses.objective(losses.zero_one, params, x, y)` goes block by block.
Shapes: `n` examples, `k` classes.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin import losses
from jaxlin._base import _checks
from jaxlin._base._mesh import where_rows


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
    return _accuracy(*_checked(scores, y, sample_weight, classes=True))


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
    return _log_loss(*_checked(scores, y, sample_weight))


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
    return _brier(*_checked(scores, y, sample_weight))


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
    scores, y, sample_weight = _checked(scores, y, sample_weight)
    if scores.ndim == 2 and scores.shape[1] != 2:
        raise ValueError(f"scores: expected shape (n,) or (n, 2), got {scores.shape}")
    return _roc_auc(scores, y, sample_weight)


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
    scores, y, sample_weight = _checked(scores, y, sample_weight, classes=True)
    if num_classes is None and not _are_classes(scores):
        num_classes = _width(scores)
    elif num_classes is None:
        found = [_checks.number_of_classes(None, each, sample_weight) for each in (scores, y)]
        num_classes = max(found)
    k = _checks.number_of_classes(num_classes, y)
    return _confusion(scores, y, sample_weight, k)


class _Judged(NamedTuple):
    """Scores and labels in which nothing can hurt.

    scores: `(n,)`, `(n, k)`, or predicted classes; 0 in rows that are not sound
    y: `(n,)` int32, 0 in rows that are not sound
    weight: `(n,)`, 0 in rows that are not sound
    valid: `()`, whether the rows of weight are sound and there are some
    """

    scores: jax.Array
    y: jax.Array
    weight: jax.Array
    valid: jax.Array


@jax.jit
def _accuracy(scores, y, sample_weight):
    rows = _judged(scores, y, sample_weight)
    return _mean((_predicted(rows.scores) == rows.y).astype(rows.weight.dtype), rows)


@jax.jit
def _log_loss(scores, y, sample_weight):
    rows = _judged(scores, y, sample_weight)
    loss = losses.logistic if scores.ndim == 1 else losses.softmax
    return _mean(loss(rows.scores, rows.y), rows)


@jax.jit
def _brier(scores, y, sample_weight):
    rows = _judged(scores, y, sample_weight)
    if scores.ndim == 1:
        # 1 - p as a sigmoid of its own, which does not cancel.
        wrong = jax.nn.sigmoid(jnp.where(rows.y > 0, -rows.scores, rows.scores))
        return _mean(wrong**2, rows)
    truth = jax.nn.one_hot(rows.y, scores.shape[1], dtype=rows.scores.dtype)
    return _mean(jnp.sum((jax.nn.softmax(rows.scores, axis=1) - truth) ** 2, axis=1), rows)


@jax.jit
def _roc_auc(scores, y, sample_weight):
    if scores.ndim == 2:
        scores = scores[:, 1] - scores[:, 0]
    rows = _judged(scores, y, sample_weight)
    order = jnp.argsort(rows.scores)
    s, positive = rows.scores[order], rows.y[order] > 0
    weight = _scaled(rows.weight)[order]
    of_positives = jnp.where(positive, weight, 0)
    of_negatives = jnp.where(positive, 0, weight)
    below = jnp.concatenate([jnp.zeros_like(weight[:1]), jnp.cumsum(of_negatives)])
    # Among equal scores, half of the negatives count as below.
    first, last = _runs(s)
    wins = jnp.sum(of_positives * (below[first] + below[last]) / 2)
    pairs = jnp.sum(of_positives) * jnp.sum(of_negatives)
    defined = rows.valid & (pairs > 0)
    return jnp.where(defined, wins / jnp.where(defined, pairs, 1), jnp.nan)


@functools.partial(jax.jit, static_argnums=3)
def _confusion(scores, y, sample_weight, num_classes):
    rows = _judged(scores, y, sample_weight, num_classes)
    counts = jnp.zeros((num_classes, num_classes), rows.weight.dtype)
    counts = counts.at[rows.y, _predicted(rows.scores)].add(rows.weight)
    return jnp.where(rows.valid, counts, jnp.nan)


def _judged(scores, y, sample_weight, num_classes=None) -> _Judged:
    dtype = jnp.result_type(float) if _are_classes(scores) else scores.dtype
    weight = jnp.ones(len(y), dtype) if sample_weight is None else sample_weight
    sound = _label_in(y, num_classes or _width(scores))
    if _are_classes(scores):
        sound &= _label_in(scores, num_classes) if num_classes else True
        scores = _int32(scores)
    else:
        is_nan = jnp.isnan(scores)
        sound &= ~(is_nan if scores.ndim == 1 else jnp.any(is_nan, axis=1))
        sound &= _predicted(scores) < num_classes if num_classes else True
    fine = jnp.where(weight != 0, sound & (weight > 0) & jnp.isfinite(weight), True)
    return _Judged(
        scores=where_rows(sound, scores),
        y=where_rows(sound, _int32(y)),
        weight=where_rows(sound, weight),
        valid=jnp.all(fine) & jnp.any(weight > 0),
    )


def _mean(values: jax.Array, rows: _Judged) -> jax.Array:
    """The weighted mean of values that may be infinite where there is no weight."""
    values = jnp.where((rows.weight > 0) | jnp.isfinite(values), values, 0)
    weight = _scaled(rows.weight)
    total = jnp.where(rows.valid, jnp.sum(weight), 1)
    return jnp.where(rows.valid, jnp.sum(weight * values) / total, jnp.nan)


def _runs(s: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Where the run of equal values that each of the sorted `s: (n,)` is in begins and ends."""
    places = jnp.arange(len(s))
    steps = s[1:] != s[:-1]
    starts, ends = (jnp.pad(steps, pad, constant_values=True) for pad in ((1, 0), (0, 1)))
    first = jax.lax.cummax(jnp.where(starts, places, 0))
    return first, jax.lax.cummin(jnp.where(ends, places + 1, len(s)), reverse=True)


def _scaled(weight: jax.Array) -> jax.Array:
    """Divided by the largest, so that sums and their products stay within the dtype."""
    largest = jnp.max(weight, initial=0)
    return weight / jnp.where(largest > 0, largest, 1)


def _predicted(scores: jax.Array) -> jax.Array:
    if _are_classes(scores):
        return scores
    return (scores > 0 if scores.ndim == 1 else jnp.argmax(scores, axis=1)).astype(jnp.int32)


def _are_classes(scores: jax.Array) -> bool:
    return not jnp.issubdtype(scores.dtype, jnp.floating)


def _width(scores: jax.Array) -> int | None:
    """k as the scores have it, or None for predicted classes."""
    if _are_classes(scores):
        return None
    return 2 if scores.ndim == 1 else scores.shape[1]


def _label_in(y: jax.Array, num_classes: int | None) -> jax.Array:
    y = _int32(y)
    return (y >= 0) & (y < num_classes) if num_classes else y >= 0


def _int32(y: jax.Array) -> jax.Array:
    """Saturated first: a plain cast could wrap a large label into the classes."""
    if y.dtype == jnp.bool_:
        return y.astype(jnp.int32)
    own, limits = jnp.iinfo(y.dtype), np.iinfo(np.int32)
    return jnp.clip(y, max(own.min, limits.min), min(own.max, limits.max)).astype(jnp.int32)


def _checked(
    scores: Any, y: Any, sample_weight: Any, *, classes: bool = False
) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    """Shapes and dtypes, in Python; scores in their working dtype."""
    _checks.refuse_other_rows(scores=scores, y=y, sample_weight=sample_weight)
    scores = _checks.array(scores, "scores")
    if not _are_classes(scores):
        scores = scores.astype(_checks.working_dtype(scores))
    elif not classes:
        raise TypeError(
            f"scores: expected floats, got dtype {scores.dtype}; "
            "predicted classes are for metrics.accuracy and metrics.confusion"
        )
    if scores.ndim not in ((1,) if _are_classes(scores) else (1, 2)):
        expected = "(n,), predicted classes" if _are_classes(scores) else "(n,) or (n, k)"
        raise ValueError(f"scores: expected shape {expected}, got {scores.shape}")
    n = len(scores)
    dtype = jnp.result_type(float) if _are_classes(scores) else scores.dtype
    y = _checks.array(y, "y")
    _checks.refuse_inexact(y)
    if y.shape != (n,):
        raise ValueError(f"y: expected shape ({n},), one class index per score, got {y.shape}")
    return scores, y, _checks.optional(sample_weight, (n,), dtype, "sample_weight")

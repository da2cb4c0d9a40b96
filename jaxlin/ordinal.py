"""Ordinal logistic regression: k classes in order, told apart by one plane and k - 1 thresholds.

P(y <= j | x) = sigmoid(thresholds[j] - weights . x): the odds of being above any threshold grow by
the same factor exp(weights) for each unit of x, hence "proportional odds" (McCullagh 1980; R's
`MASS::polr`, Stata's `ologit`). Labels say which class is higher than which: 0 < 1 < ... < k - 1.

Choose it for grades, stages and answers from "never" to "always", where `softmax` spends k - 1
times as many weights and `least_squares.regress` takes the steps for equal. With two classes it is
`logistic`. It fails, and says so, as that does: where the classes lie one behind another along some
direction, without a row out of place, weights go to infinity (SEPARABLE, or QUASI_SEPARABLE if some
rows lie on the thresholds); collinear columns leave many optima (RANK_DEFICIENT); of columns whose
offset dwarfs their spread the dtype does not hold the thresholds (STALLED: standardise first).

`residual` is the largest absolute entry of the gradient of the mean objective, for centred columns
of unit mean square and for thresholds; `objective` is the mean objective, 0 when SEPARABLE.

Shapes: `n` examples, `d` features, `k` classes.
"""

from typing import Any

import jax
import jax.numpy as jnp

from jaxlin._base import _checks, _invalid, _traits, _words
from jaxlin._linalg import dot
from jaxlin._smooth import _ordered
from jaxlin.types import Info, Ordinal


@_words.a_fit
def fit(
    x: Any,
    y: Any,
    *,
    num_classes: int | None = None,
    l2: Any = 0.0,
    sample_weight: Any = None,
    feature_mask: Any = None,
    offset: Any = None,
    tol: Any = None,
    max_steps: Any = 100,
    axis_name: str | None = None,
) -> tuple[Ordinal, Info]:
    """Fit by maximum likelihood: min_w,t - sum_i c_i log P(y_i | x_i) + l2/2 |w|^2.

    P(y <= j | x_i) = sigmoid(t_j - w . x_i - offset_i), and c are the weights divided by their sum.
    By Newton-Raphson, O(n (d + k)^2) a step.

    Args:
      x: `(n, d)`, in any units.
      y: `(n,)` class indices, in their order.
      num_classes: k, static; eagerly by default 1 + the largest label with weight.
      l2: penalty, a scalar or one per feature `(d,)`; 0 is maximum likelihood.
      sample_weight: `(n,)`, nonnegative; a row of weight 0 is absent whatever it holds.
      feature_mask: `(d,)` bool; a masked column has coefficient 0 whatever it holds.
      offset: `(n,)`, added to w . x.
      tol: bound on the residual; by default eps^(2/3), 4e-11, or 2e-5 in float32.
      max_steps: cap on the steps.
      axis_name: static; the mesh axis over which the rows are dealt, inside `jax.shard_map`: see
        `distributed`.

    Returns:
      `(params, info)`, an Ordinal and an Info of any status but NOT_SEPARABLE. A class without
      weight has no room: the thresholds on its two sides are equal, or infinite at the ends. With
      fewer than two classes the status is CLASS_TOO_SMALL and weights are 0.

    Raises:
      ValueError: shapes that do not fit; eagerly also data that are not valid.
      TypeError: dtypes or static arguments of the wrong kind.

    Differentiable by the implicit function theorem in x, l2, sample_weight and offset.

    Example: a threshold for each step, one weight for all.
      >>> import jax.numpy as jnp
      >>> from jaxlin import ordinal
      >>> x = jnp.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
      >>> params, info = ordinal.fit(x, jnp.array([0, 1, 0, 2, 1, 2]))
      >>> params.weights.round(3).tolist(), params.thresholds.round(3).tolist()
      ([1.06], [1.447, 3.851])
    """
    data = _checks.table(
        x, y, sample_weight=sample_weight, feature_mask=feature_mask, axis_name=axis_name
    )
    k = _checks.number_of_classes(num_classes, y, sample_weight)
    (n, d), dtype = data.x.shape, _checks.working_dtype(data.x)
    arguments = (
        data,
        _checks.penalty(l2, d, dtype),
        _checks.optional(offset, (n,), dtype, "offset"),
        _checks.tolerance(tol, dtype),
        _checks.count(max_steps, "max_steps"),
    )
    # Most data have an optimum: an eager call tries the program that assumes it first.
    complete = not _checks.concrete(arguments)
    (params, info), unsettled = _ordered.fit(k, complete, *arguments)
    if not complete and unsettled:
        (params, info), _ = _ordered.fit(k, True, *arguments)
    _invalid.raise_if_invalid(
        info,
        data,
        num_classes=k,
        nonnegative={"l2": l2, "tol": tol, "max_steps": max_steps},
        finite={"offset": offset},
    )
    return params, info


def covariance(
    params: Ordinal,
    x: Any,
    y: Any,
    *,
    l2: Any = 0.0,
    sample_weight: Any = None,
    feature_mask: Any = None,
    offset: Any = None,
    check: bool = True,
) -> jax.Array:
    """The covariance of the params: the inverse of the observed information.

    What is made of it is in `inference`: `standard_errors`, `wald`, `confidence_intervals`,
    `delta`, all `f(params, covariance)`.

    Args:
      params: an Ordinal, as `fit` returned it.
      x: `(n, d)`.
      y: `(n,)` class indices.
      l2: as of the fit.
      sample_weight: `(n,)`, which count rows.
      feature_mask: `(d,)` bool, as of the fit.
      offset: `(n,)`, as of the fit.
      check: static; whether params that are not the optimum of these arguments give NaN.

    Returns:
      `(p, p)`, of the weights, then the thresholds; 0 for what is fixed, NaN where the params are
      no optimum or it is not unique.

    Raises:
      TypeError: the params are no Ordinal.
      ValueError: shapes that do not fit.

    Differentiable in the params, x, sample_weight, l2 and offset.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import inference, ordinal
      >>> x = jnp.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
      >>> y = jnp.array([0, 1, 0, 2, 1, 2])
      >>> params, info = ordinal.fit(x, y)
      >>> errors = inference.standard_errors(params, ordinal.covariance(params, x, y))
      >>> errors.weights.round(3).tolist()
      [0.662]
    """
    k = _number_of_classes(params)
    kinds = {"sample_weight": sample_weight, "feature_mask": feature_mask}
    data = _checks.table(x, y, num_classes=k, **kinds)
    (n, d), dtype = data.x.shape, _checks.working_dtype(data.x)
    return _ordered.covariance(
        k,
        _checks.static(check, bool, "check"),
        data,
        _checks.penalty(l2, d, dtype),
        _checks.optional(offset, (n,), dtype, "offset"),
        Ordinal(
            _checks.shaped(params.weights, (d,), dtype, "params.weights"),
            _checks.shaped(params.thresholds, (k - 1,), dtype, "params.thresholds"),
        ),
    )


def scores(params: Ordinal, x: Any) -> jax.Array:
    """The log probabilities of the classes, by which metrics judge them.

    Args:
      params: an Ordinal.
      x: `(..., d)`.

    Returns:
      `(..., k)`, in nats.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import ordinal
      >>> from jaxlin.types import Ordinal
      >>> params = Ordinal(weights=jnp.array([1.0]), thresholds=jnp.array([0.0, 1e4]))
      >>> [round(s, 3) for s in ordinal.scores(params, jnp.array([0.0])).tolist()]
      [-0.693, -0.693, -10000.0]
    """
    k, x = _number_of_classes(params), _checks.array(x, "x")
    x = x.astype(_checks.working_dtype(x))
    weights = _checks.shaped(params.weights, (x.shape[-1],), x.dtype, "params.weights")
    thresholds = _checks.shaped(params.thresholds, (k - 1,), x.dtype, "params.thresholds")
    ends = jnp.full(1, jnp.inf, x.dtype)
    upper, lower = jnp.append(thresholds, ends), jnp.concatenate([-ends, thresholds])
    return _ordered.log_probabilities(dot(x, weights), lower, upper)


def predict(params: Ordinal, x: Any) -> jax.Array:
    """The likeliest class of each example; of equal ones the lowest.

    Args:
      params: an Ordinal.
      x: `(..., d)`.

    Returns:
      int32 class indices `(...)`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import ordinal
      >>> from jaxlin.types import Ordinal
      >>> params = Ordinal(weights=jnp.array([1.0]), thresholds=jnp.array([-1.0, 1.0]))
      >>> ordinal.predict(params, jnp.array([[-2.0], [0.0], [2.0]])).tolist()
      [0, 1, 2]
    """
    return jnp.argmax(scores(params, x), axis=-1).astype(jnp.int32)


def probabilities(params: Ordinal, x: Any) -> jax.Array:
    """The class probabilities P(y = j | x).

    Args:
      params: an Ordinal.
      x: `(..., d)`.

    Returns:
      `(..., k)`, rows summing to 1.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import ordinal
      >>> from jaxlin.types import Ordinal
      >>> params = Ordinal(weights=jnp.array([1.0]), thresholds=jnp.array([-1.0, 1.0]))
      >>> ordinal.probabilities(params, jnp.array([0.0])).round(3).tolist()
      [0.269, 0.462, 0.269]
    """
    return jnp.exp(scores(params, x))


def log_probabilities(params: Ordinal, x: Any) -> jax.Array:
    """The logarithm of `probabilities`, accurate where they underflow: the same as `scores`.

    Args:
      params: an Ordinal.
      x: `(..., d)`.

    Returns:
      `(..., k)`, in nats.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import ordinal
      >>> from jaxlin.types import Ordinal
      >>> params = Ordinal(weights=jnp.array([1.0]), thresholds=jnp.array([0.0]))
      >>> ordinal.log_probabilities(params, jnp.array([1e4]))[0].item()
      -10000.0
    """
    return scores(params, x)


def _number_of_classes(params: Any) -> int:
    if not isinstance(params, Ordinal):
        raise TypeError(f"params: expected an Ordinal, got {type(params).__name__}")
    return len(params.thresholds) + 1


def _nothing(k: int, d: int, dtype: Any) -> Ordinal:
    return Ordinal(weights=jnp.zeros(d, dtype), thresholds=jnp.zeros(k - 1, dtype))


_traits.declare(fit, log_odds=True, skips=True, nothing=_nothing)

"""Quadratic discriminant analysis: Bayes' rule for Gaussian classes, each with its covariance.

s_c(x) = -(x - m_c)' S_c^-1 (x - m_c) / 2 - log det S_c / 2 + log prior_c, a quadratic in x (Hastie,
Tibshirani and Friedman, section 4.3). Regularised (Friedman 1989): `pooling` moves each covariance
toward the common one, `shrinkage` then toward a multiple of the identity. Choose it over `lda`
where the classes differ in shape and each has many more rows than features.

A class with no more rows than features has no covariance of its own: CLASS_TOO_SMALL and NaN,
unless pooled, or shrunk from a scatter that is not 0, as that of one row is. Columns that are
constant or duplicated in all of the data are RANK_DEFICIENT: the form and the determinant are those
of the range. A class that does not vary in a direction in which another does, or in which their
means differ, has a density without bound there: QUASI_SEPARABLE, or SEPARABLE where such directions
tell all classes apart. It is given a small variance there, so that it has the rows on its plane and
no others. Where rounding hides whether they are, STALLED, see `lda`;
and so where data lie far from 0 beside their spread, as squares of that ratio cancel in a score.
INVALID_DATA too where the dtype does not hold the form: it has the units of x to the power -2, and
in float32 a column whose standard deviation is beyond 2e16, or below 6e-20, needs other units.
`residual` is 0, `objective` minus the mean log likelihood, -inf where that has no bound.
Shapes: `n` examples, `d` features, `k` classes.
"""

import functools
from typing import Any

import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _checks, _invalid, _platform, _traits, _words
from jaxlin._batch import _lanes
from jaxlin._linalg import dot
from jaxlin._moments import _bayes, _closed_form, _flat, _scatter
from jaxlin.moments import ClassMoments, per_class
from jaxlin.types import Info, Quadratic


@_words.a_fit
def fit(
    x: Any,
    y: Any,
    *,
    num_classes: int | None = None,
    priors: Any = None,
    pooling: Any = 0.0,
    shrinkage: Any = 0.0,
    divisor: str = "n",
    sample_weight: Any = None,
    feature_mask: Any = None,
    axis_name: str | None = None,
) -> tuple[Quadratic, Info]:
    """Fit by quadratic discriminant analysis.

    Args:
      x: `(n, d)`.
      y: `(n,)` class indices.
      num_classes: k, static; eagerly by default 1 + the largest label with weight.
      priors: `(k,)`, nonnegative, divided by their sum over the classes present; by default each
        class's part of the weight.
      pooling: in [0, 1], toward the covariance that the classes share; applied first.
      shrinkage: in [0, 1], toward the identity of the same trace; or a function of `(x, y, *,
        sample_weight)` that returns it.
      divisor: of each class's scatter, static: "n" (maximum likelihood) or "n_k-1".
      sample_weight: `(n,)`, nonnegative; a row of weight 2 is the row twice.
      feature_mask: `(d,)` bool; a masked column has no part in anything.
      axis_name: static; the mesh axis over which the rows are dealt, inside `jax.shard_map`: see
        `distributed`.

    Returns:
      `(params, info)`, a Quadratic and an Info of status CONVERGED, RANK_DEFICIENT, STALLED (a
      covariance may be singular, or only nearly), QUASI_SEPARABLE, SEPARABLE, CLASS_TOO_SMALL or
      INVALID_DATA. An absent class has bias -inf, all else 0. O(n k d^2).

    Raises:
      ValueError: shapes that do not fit; eagerly also data that are not valid.
      TypeError: dtypes or static arguments of the wrong kind.

    Differentiable in x, sample_weight, priors, pooling and shrinkage.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import qda
      >>> x = jnp.array([[-1.0], [1.0], [1.0], [5.0]])
      >>> params, info = qda.fit(x, jnp.array([0, 0, 1, 1]))
      >>> params.quadratic.round(3).tolist(), params.weights.round(3).tolist()
      ([[[-0.5]], [[-0.125]]], [[0.0], [0.75]])
    """
    data = _checks.table(
        x, y, sample_weight=sample_weight, feature_mask=feature_mask, axis_name=axis_name
    )
    k = _checks.number_of_classes(num_classes, y, sample_weight)
    divisor = _bayes.check_divisor(divisor, _bayes.CLASS_DIVISORS)
    amount = _bayes.shrinkage_of(shrinkage, x, y, sample_weight, feature_mask, axis_name)
    dtype = _checks.working_dtype(data.x)
    given = _bayes.options(dtype, k, priors=priors, shrinkage=amount, pooling=pooling)
    params, info = _fit(k, divisor, data, given)
    _invalid.raise_if_invalid(
        info,
        data,
        num_classes=k,
        nonnegative={"priors": priors},
        fractions={"shrinkage": amount, "pooling": pooling},
    )
    return params, info


def fit_from_moments(
    moments_of_data: ClassMoments,
    *,
    priors: Any = None,
    pooling: Any = 0.0,
    shrinkage: Any = 0.0,
    divisor: str = "n",
) -> tuple[Quadratic, Info]:
    """Fit from merged statistics instead of data.

    Args:
      moments_of_data: of `moments.per_class`.
      priors: `(k,)`, or None.
      pooling: in [0, 1].
      shrinkage: in [0, 1], a number.
      divisor: "n" or "n_k-1".

    Returns:
      `(params, info)`, as `fit` returns them.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import moments, qda
      >>> x = jnp.array([[-1.0], [1.0], [1.0], [5.0]])
      >>> params, info = qda.fit_from_moments(moments.per_class(x, jnp.array([0, 0, 1, 1])))
      >>> params.weights.round(3).tolist()
      [[0.0], [0.75]]
    """
    divisor = _bayes.check_divisor(divisor, _bayes.CLASS_DIVISORS)
    s = _scatter.of_moments(moments_of_data, ClassMoments)
    given = _bayes.options(
        s.weight.dtype, len(s.weight), priors=priors, shrinkage=shrinkage, pooling=pooling
    )
    return _from_moments(divisor, s, given)


@functools.partial(_platform.jit, static_argnums=(0, 1))
def _fit(k, divisor, data, given):
    @_lanes.of_closed_form
    def fit(data, given):
        s, valid, rows = _bayes.of_data(data, k, per_class=True)
        return _discriminants(divisor, s, valid, given, data.feature_mask, data, rows)

    return fit(data, given)


@functools.partial(_platform.jit, static_argnums=0)
def _from_moments(divisor, s, given):
    return _discriminants(divisor, s, _bayes.valid_moments(s), given, None, s)


def _discriminants(divisor, s, valid, given, mask, source, rows=None):
    valid &= _bayes.valid_options(given, s)
    priors = _bayes.class_priors(given, s)
    covariances = _bayes.class_covariances(s, divisor, given, mask)
    present = s.rows > 0
    seen, within = rows is not None, _bayes.tied_covariance(s, "n", _bayes.Options(), mask)
    inverses = _flat.class_inverses(covariances, s, within, mask, seen=seen)
    d = _bayes.number_of_features(s, mask)
    deficient = (inverses.deficient | (inverses.told > 0)) & present
    lacking = _bayes.few_rows(s, given, mask)
    few = lacking | (deficient & (s.rows.astype(d.dtype) <= d))
    matrix = jnp.where(present[:, None, None], inverses.matrix, 0)
    means = _scatter.means(s)
    weights = jnp.sum(matrix * means[:, None, :], axis=2)
    form = jnp.sum(weights * means, axis=1)
    bias = jnp.log(jnp.where(priors > 0, priors, 1)) - (form + inverses.log_determinant) / 2
    bias = jnp.where(present & (priors > 0), bias, -jnp.inf)
    form, held = _linalg.turned(matrix, s.unit)
    # Of a class that is too small it may be rounding, or NaN.
    valid &= jnp.all(held | few)
    params = Quadratic(quadratic=-form / 2, weights=weights * s.unit[None, :], bias=bias)
    objective = _bayes.class_negative_log_likelihood(s, priors, inverses, d)
    terms = jnp.abs(means)[:, None, :] * jnp.abs(matrix) * jnp.abs(means)[:, :, None]
    apart = s.offset - dot(priors, s.offset)[None, :]
    spread = jnp.sum(dot(matrix, apart[:, :, None])[..., 0] * apart, axis=1)
    coarse = _bayes.is_coarse(jnp.sum(terms, axis=(1, 2)), jnp.max(spread, initial=0) + d)
    told = _flat.status(inverses, present)
    solved = _bayes.solved(inverses, rows, len(means), told=told, coarse=coarse)
    info = _bayes.verdict(s, valid, jnp.any(few), solved, objective)
    return _bayes.settled(params, info, valid & ~jnp.any(few), (source, given))


# --- many fits to the same rows ------------------------------------------------------------------


def _reweighed(
    s, valid, source, *, num_classes=None, priors=None, pooling=0.0, shrinkage=0.0, divisor="n"
):
    divisor = _bayes.check_divisor(divisor, _bayes.CLASS_DIVISORS)
    k, dtype = len(s.weight), s.weight.dtype
    given = _bayes.options(dtype, k, priors=priors, shrinkage=shrinkage, pooling=pooling)
    params, info = _discriminants(divisor, s, valid, given, None, source)
    return params, info, _closed_form.settled(info)


_OFFER = _closed_form.Offer(
    frozenset({"num_classes", "priors", "pooling", "shrinkage", "divisor"}),
    factors=None,
    relabelled=None,
    reweighed=_reweighed,
    per_class=True,
)

_traits.declare(fit, many=_OFFER, log_odds=True, moments=(per_class, fit_from_moments))

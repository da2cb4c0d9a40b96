"""How sure an estimate is: standard errors, tests, intervals, and what single rows do to it.

For params that minimise J = sum_i c_i loss(s_i, y_i) + l2/2 |w|^2, c being the weights over their
sum W, as the penalised fits do. With `losses.logistic` or `losses.softmax` and no penalty that is
maximum likelihood, and `covariance` is the inverse of the observed information; under a penalty
it is that of Laplace's approximation. `sandwich` asks less of the model. What tests and intervals
need is `(params, covariance)`, so they take either, or your own.

A covariance is a matrix `(P, P)` over the flat params: `jax.flatten_util.ravel_pytree(params)`,
weights row by row, then bias. What was not estimated has none: rows and columns of masked features,
of an absent class, and of a bias that was fixed at 0 are 0. Softmax's scores sum to zero, and so
do the rows and columns of its covariance; `reference=c` gives that of the form in which class c
has score 0, which belongs to `softmax.to_reference(params, c)`. The two are other numbers: params
of one form beside a covariance of the other give NaN.

The gradient is recomputed. Params that are not the finite minimum of J for the arguments given (the
classes are separable, columns are collinear, an `l2`, a weight or an offset was forgotten) give NaN
throughout: so the status of a fit carries over. Near enough is 0.05 standard errors, or what a
fit can reach in the precision. `check=False` is for estimates of another equation, such as
`logistic.fit_firth`. Weights count rows, except in `sandwich`.

The training rows whose weight the loss of other rows depends on most; one label is wrong:

>>> import jax
>>> import jax.numpy as jnp
>>> from jaxlin import inference, logistic, losses
>>> x = jax.random.normal(jax.random.key(0), (200, 3))
>>> y = (x[:, 0] + 0.3 * jax.random.normal(jax.random.key(1), (200,)) > 0).astype(int)
>>> far = int(jnp.argmax(x[:100, 0]))
>>> y = y.at[far].set(0)
>>> params, info = logistic.fit(x[:100], y[:100], l2=0.01)
>>> moves = inference.influence(losses.logistic, params, x[:100], y[:100], l2=0.01)
>>> loss = jax.grad(lambda p: losses.objective(losses.logistic, p, x[100:], y[100:]))(params)
>>> harm = moves.weights @ loss.weights + moves.bias * loss.bias
>>> int(jnp.argmax(harm)) == far
True

Shapes: `n` examples, `d` features, `k` classes, `P` params.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy import special

from jaxlin import _linalg, losses
from jaxlin._base import _checks, _codes, _invalid, _mesh, _platform
from jaxlin._batch import _draws
from jaxlin._data import _fold, _prepare, _rows
from jaxlin._infer import _diagnostics, _estimate, _profiles, _separation
from jaxlin._linalg import _implicit, dot
from jaxlin._nonsmooth import _conjugates, _sparse
from jaxlin._smooth import _frame, _record
from jaxlin.losses import Loss
from jaxlin.types import Hyperplane, Info, Linear, Status

KINDS = ("HC0", "HC1", "HC2", "HC3")


class Wald(NamedTuple):
    """Tests of single coefficients, each of the type of the params.

    statistic: the estimate over its standard error
    p_value: two-sided, by the normal distribution
    """

    statistic: Any
    p_value: Any


class ChiSquared(NamedTuple):
    """A test of several restrictions at once.

    statistic: `()`
    degrees: `()`, of freedom
    p_value: `()`, by the chi-squared distribution
    """

    statistic: jax.Array
    degrees: jax.Array
    p_value: jax.Array


class Separation(NamedTuple):
    """Whether the estimate without a penalty is finite, and what proves it.

    status: `()`, SEPARABLE (completely), QUASI_SEPARABLE, NOT_SEPARABLE (the classes overlap: the
      estimate is finite), CLASS_TOO_SMALL, INVALID_DATA, or STALLED if rounding hides which
    direction: params along which the likelihood rises for ever; 0 if the classes overlap; NaN
      where the status is none of the first three
    coefficients: of the type of the params: 0 where a coefficient is finite, else infinity with the
      sign with which it grows along the direction; NaN where it does not grow along this one, but
      along others, and where the direction is
    on_plane: `(n,)` bool, the rows on the plane of every such direction; or `(n, k)`, the classes
      that no direction tells from the row's own
    multipliers: `(n,)`, nonnegative, 0 but for rows that span all that are on the plane, such that
      sum_i multipliers_i t_i (x_i, 1) = 0; or `(n, k)`, sum_ic multipliers_ic (e_y - e_c) x_i' = 0
    """

    status: jax.Array
    direction: Any
    coefficients: Any
    on_plane: jax.Array
    multipliers: jax.Array


def covariance(
    loss: Loss,
    params: Hyperplane | Linear,
    x: Any,
    y: Any,
    *,
    l2: Any = 0.0,
    sample_weight: Any = None,
    feature_mask: Any = None,
    offset: Any = None,
    bias: bool = True,
    reference: Any = None,
    check: bool = True,
) -> jax.Array:
    """The inverse of the Hessian of W J: the covariance of a maximum-likelihood estimate.

    Args:
      loss: `f(scores, y)` of one example, minus its log likelihood.
      params: a Hyperplane or a Linear that minimises J.
      x: `(n, d)`.
      y: `(n,)` class indices, or soft labels where the loss takes them.
      l2: as the fit had it, a scalar or `(d,)`.
      sample_weight: `(n,)`, as the fit had it; counts of rows.
      feature_mask: `(d,)` bool, as the fit had it.
      offset: `(n,)` or `(n, k)`, as the fit had it.
      bias: static; False if the fit had none.
      reference: of a Linear, the class whose score is 0 in the form that is asked for, as in
        `softmax.to_reference`; by default the scores sum to zero. The params may be of any form.
      check: static; False takes params as they are, minimum or not.

    Returns:
      `(P, P)`; NaN throughout if the params are not the minimum, or of softmax in another
      form than that of a fit while no `reference` is given. O(n P^2).

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import inference, logistic, losses
      >>> x, y = jnp.array([[0.0], [1.0], [2.0], [3.0]]), jnp.array([0, 1, 0, 1])
      >>> params, _ = logistic.fit(x, y)
      >>> inference.covariance(losses.logistic, params, x, y).round(2).tolist()
      [[1.18, -1.77], [-1.77, 3.9]]
    """
    arguments = _estimate.given(
        params,
        x,
        y,
        l2=l2,
        sample_weight=sample_weight,
        feature_mask=feature_mask,
        offset=offset,
        reference=reference,
    )
    return _covariance(_model(loss, params, bias), _checks.static(check, bool, "check"), arguments)


def sandwich(
    loss: Loss,
    params: Hyperplane | Linear,
    x: Any,
    y: Any,
    *,
    kind: str | None = None,
    clusters: Any = None,
    num_clusters: int | None = None,
    l2: Any = 0.0,
    sample_weight: Any = None,
    feature_mask: Any = None,
    offset: Any = None,
    bias: bool = True,
    reference: Any = None,
    check: bool = True,
) -> jax.Array:
    """The covariance that holds though the model may not: A^-1 B A^-1 (Huber 1967; White 1980).

    A is the Hessian of W J, B the sum over rows of g g', g the gradient of a row's loss times its
    weight; with clusters, of their sums over each cluster. So a weight of 2 is one row that counts
    twice (sampling, or inverse probability), and not two rows that are independent.

    Args:
      loss: `f(scores, y)` of one example.
      params: a Hyperplane or a Linear that minimises J.
      x: `(n, d)`.
      y: `(n,)` class indices, or soft labels where the loss takes them.
      kind: static. "HC0": as above, the default. "HC1": times n / (n - p), n being the rows with
        weight and p the coefficients; with clusters times G / (G - 1) (n - 1) / (n - p), for the G
        clusters that have weight, and there the default. "HC2" and "HC3", of a Hyperplane without
        clusters: g divided by the root of 1 - h, or by 1 - h, with h_i = D_i x_i' A^-1 x_i
        (MacKinnon and White 1985).
      clusters: `(n,)` integers of any size, equal for rows of one cluster, or None.
      num_clusters: static, at least as many as have rows with weight; eagerly by default so many.
      l2: as the fit had it, a scalar or `(d,)`.
      sample_weight: `(n,)`, as the fit had it.
      feature_mask: `(d,)` bool, as the fit had it.
      offset: `(n,)` or `(n, k)`, as the fit had it.
      bias: static; False if the fit had none.
      reference: of a Linear, the class whose score is 0 in the form that is asked for, as in
        `softmax.to_reference`; by default the scores sum to zero. The params may be of any form.
      check: static; False takes params as they are, minimum or not.

    Returns:
      `(P, P)`; NaN as `covariance` has it, and of traced clusters also if there are more than
      `num_clusters`.

    Raises:
      ValueError: a kind that is not defined for these params or with clusters; eagerly also too
        small a `num_clusters`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import inference, logistic, losses
      >>> x, y = jnp.array([[0.0], [1.0], [2.0], [3.0]]), jnp.array([0, 1, 0, 1])
      >>> params, _ = logistic.fit(x, y)
      >>> robust = inference.sandwich(losses.logistic, params, x, y)
      >>> inference.standard_errors(params, robust).weights.round(2).tolist()
      [0.72]
    """
    kind = _kind(kind, params, clusters is not None)
    arguments = _estimate.given(
        params,
        x,
        y,
        l2=l2,
        sample_weight=sample_weight,
        feature_mask=feature_mask,
        offset=offset,
        reference=reference,
    )
    n, groups = len(arguments.data.x), None
    if clusters is not None:
        groups = _codes.ids(clusters, "clusters")
        if groups.shape != (n,):
            raise ValueError(f"clusters: expected shape ({n},), got {groups.shape}")
        num_clusters = _number_of_clusters(num_clusters, groups, arguments.data.sample_weight)
    check = _checks.static(check, bool, "check")
    return _sandwich(_model(loss, params, bias), kind, num_clusters, check, arguments, groups)


def standard_errors(params: Any, covariance: Any) -> Any:
    """The square roots of the variances.

    Args:
      params: a pytree of P numbers.
      covariance: `(P, P)`.

    Returns:
      The type of the params; 0 for what was not estimated.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import inference
      >>> inference.standard_errors(jnp.array([3.0, 0.5]), jnp.diag(jnp.array([4.0, 0.25])))
      Array([2. , 0.5], dtype=float64)
    """
    flat, back = _flat(params, covariance)
    variance = jnp.diagonal(_of_one_form(params, covariance)).astype(flat.dtype)
    # The root of 0 has an infinite derivative.
    here = variance != 0
    return back(jnp.where(here, jnp.sqrt(jnp.where(here, variance, 1)), 0))


def wald(params: Any, covariance: Any) -> Wald:
    """Test of each coefficient for being 0: z = estimate / standard error (Wald 1943).

    Args:
      params: a pytree of P numbers.
      covariance: `(P, P)`.

    Returns:
      A Wald; NaN for what was not estimated.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import inference
      >>> test = inference.wald(jnp.array([3.92]), jnp.array([[4.0]]))
      >>> test.statistic.round(2).tolist(), test.p_value.round(3).tolist()
      ([1.96], [0.05])
    """
    flat, back = _flat(params, covariance)
    error, _ = ravel_pytree(standard_errors(params, covariance))
    here = error != 0
    z = jnp.where(here, flat / jnp.where(here, error, 1), jnp.nan)
    return Wald(statistic=back(z), p_value=back(special.erfc(jnp.abs(z) / math.sqrt(2))))


def wald_joint(function: Callable[[Any], Any], params: Any, covariance: Any) -> ChiSquared:
    """Test that f(params) = 0, of q numbers at once: f' C^-1 f, C the covariance of f by `delta`.

    Args:
      function: `f(params)`, a pytree of q numbers without redundancy.
      params: a pytree of P numbers.
      covariance: `(P, P)`.

    Returns:
      A ChiSquared of q degrees of freedom; NaN where C is singular.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import inference
      >>> test = inference.wald_joint(lambda w: w, jnp.array([2.0, 2.0]), jnp.eye(2))
      >>> test.statistic.item(), int(test.degrees), f"{test.p_value:.3f}"
      (8.0, 2, '0.018')
    """
    value, _ = ravel_pytree(function(params))
    spread = delta(function, params, covariance)
    factor = _linalg.factor(spread)
    least = _linalg.least_eigenvalue(factor)
    sound = least >= _linalg.RANK_ULPS * value.size * jnp.finfo(spread.dtype).eps
    statistic = jnp.sum(_linalg.half_solve(factor, value) ** 2)
    return _chi_squared(jnp.where(sound, statistic, jnp.nan), jnp.asarray(float(value.size)))


def confidence_intervals(params: Any, covariance: Any, *, level: Any = 0.95) -> tuple[Any, Any]:
    """Wald's intervals: estimate -+ z standard errors, z the normal quantile of (1 + level) / 2.

    Args:
      params: a pytree of P numbers.
      covariance: `(P, P)`.
      level: `()`, between 0 and 1, the probability that an interval covers its coefficient.

    Returns:
      `(lower, upper)`, each of the type of the params; NaN of a traced level outside of (0, 1).

    Raises:
      ValueError: a level outside of (0, 1); 95 is 0.95.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import inference
      >>> lower, upper = inference.confidence_intervals(jnp.array([3.0]), jnp.array([[4.0]]))
      >>> lower.round(2).tolist(), upper.round(2).tolist()
      ([-0.92], [6.92])
    """
    flat, back = _flat(params, covariance)
    error, _ = ravel_pytree(standard_errors(params, covariance))
    level = jnp.where(_proper_level(level, flat.dtype), level, jnp.nan).astype(flat.dtype)
    reach = special.ndtri((1 + level) / 2) * error
    return back(flat - reach), back(flat + reach)


def delta(function: Callable[[Any], Any], params: Any, covariance: Any) -> jax.Array:
    """The covariance of a function of the params, to first order: F C F', F its derivative.

    Args:
      function: `f(params)`, a pytree of q numbers, differentiable at the params.
      params: a pytree of P numbers.
      covariance: `(P, P)`.

    Returns:
      `(q, q)`, so that `standard_errors(f(params), delta(f, params, covariance))` is of the type
      of what f returns.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import inference
      >>> inference.delta(lambda w: w[0] / w[1], jnp.array([4.0, 2.0]), jnp.eye(2)).tolist()
      [[1.25]]
    """
    flat, back = _flat(params, covariance)
    slope = jax.jacfwd(lambda flat: ravel_pytree(function(back(flat)))[0])(flat)
    return dot(dot(slope, _of_one_form(params, covariance)), slope.T)


def likelihood_ratio(
    loss: Loss,
    params: Hyperplane | Linear,
    null_params: Hyperplane | Linear,
    x: Any,
    y: Any,
    *,
    degrees: Any = None,
    sample_weight: Any = None,
    feature_mask: Any = None,
    offset: Any = None,
    bias: bool = True,
    check: bool = True,
) -> ChiSquared:
    """Test of a restriction: twice the sum of the rows' log likelihood ratios (Wilks 1938).

    The differences are taken row by row, which keeps the digits that two large sums would cancel.

    Args:
      loss: `f(scores, y)` of one example, minus its log likelihood.
      params: the estimate without the restriction, and without a penalty.
      null_params: the estimate under it, of the same type; say, by a `feature_mask`.
      x: `(n, d)`.
      y: `(n,)` class indices, or soft labels where the loss takes them.
      degrees: of freedom, the number of restrictions; by default how many weights are 0 under the
        restriction and not without, those of a feature counting one less than there are classes.
      sample_weight: `(n,)`, as the fits had it; counts of rows.
      feature_mask: `(d,)` bool, as the fit without the restriction had it.
      offset: `(n,)` or `(n, k)`, as the fits had it.
      bias: static; False if the fits had none.
      check: static; False takes params as they are, minimum or not.

    Returns:
      A ChiSquared; NaN if `params` are not the minimum.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import inference, logistic, losses
      >>> x = jnp.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
      >>> y = jnp.array([0, 0, 1, 0, 1, 1])
      >>> params, _ = logistic.fit(x, y)
      >>> null, _ = logistic.fit(x, y, feature_mask=jnp.array([False]))
      >>> test = inference.likelihood_ratio(losses.logistic, params, null, x, y)
      >>> f"{test.statistic:.3f}", int(test.degrees), f"{test.p_value:.3f}"
      ('3.362', 1, '0.067')
    """
    if type(params) is not type(null_params):
        raise TypeError(
            f"null_params: expected a {type(params).__name__}, got {type(null_params).__name__}"
        )
    keywords = dict(l2=0.0, sample_weight=sample_weight, feature_mask=feature_mask, offset=offset)
    arguments = _estimate.given(params, x, y, **keywords)
    d, dtype = arguments.data.x.shape[1], arguments.params.weights.dtype
    null = _estimate.checked(null_params, d, dtype, "null_params")
    if degrees is not None:
        degrees = _checks.scalar(degrees, null.weights.dtype, "degrees")
    check = _checks.static(check, bool, "check")
    return _likelihood_ratio(_model(loss, params, bias), check, arguments, null, degrees)


def score_test(
    loss: Loss,
    params: Hyperplane,
    x: Any,
    y: Any,
    extra: Any,
    *,
    sample_weight: Any = None,
    feature_mask: Any = None,
    offset: Any = None,
    bias: bool = True,
    check: bool = True,
) -> ChiSquared:
    """Test of each of many columns, added to the fitted null by itself (Rao 1948).

    U^2 / V with U = sum_i w_i r_i g_i, r the residuals of the null, and V the variance of U, given
    the columns of x: no fit for any column, so all cost a few products with `extra`, as scans of
    genomes have them. To first order it is the likelihood ratio of the fit with the column.

    Args:
      loss: `f(score, y)` of one example, minus its log likelihood.
      params: the estimate of the null, a Hyperplane, without a penalty.
      x: `(n, d)`, the columns of the null.
      y: `(n,)` class indices, or soft labels where the loss takes them.
      extra: `(n, c)` columns to be tried, or `(n,)`, one.
      sample_weight: `(n,)`, as the fit had it; counts of rows.
      feature_mask, offset, bias: as the fit had them.
      check: static; False takes params as they are, minimum or not.

    Returns:
      A ChiSquared of `(c,)` entries, each of one degree, or of `()`; NaN as `covariance` has it,
      for a column that those of x give, and for one that is no number where a row has weight.

    Raises:
      TypeError: params of several scores.
      ValueError: shapes that do not fit.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import inference, logistic, losses
      >>> x = jnp.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
      >>> y = jnp.array([0, 0, 1, 0, 1, 1])
      >>> null, _ = logistic.fit(x, y)
      >>> test = inference.score_test(losses.logistic, null, x, y, jnp.cos(x * jnp.arange(1, 4)))
      >>> test.statistic.shape, test.p_value.shape
      ((3,), (3,))
    """
    if not isinstance(params, Hyperplane):
        raise TypeError(f"params: expected a Hyperplane, got {type(params).__name__}")
    _checks.refuse_other_rows(x=x, extra=extra)
    keywords = dict(l2=0.0, sample_weight=sample_weight, feature_mask=feature_mask, offset=offset)
    arguments = _estimate.given(params, x, y, **keywords)
    extra, n = _checks.real(extra, "extra"), len(arguments.data.x)
    if extra.ndim not in (1, 2) or len(extra) != n:
        raise ValueError(f"extra: expected shape ({n}, c) or ({n},), got {extra.shape}")
    check, model = _checks.static(check, bool, "check"), _model(loss, params, bias)
    columns = extra.reshape(n, -1)
    statistic = _diagnostics.score_test(model, check, arguments, columns)
    found = _chi_squared(statistic, jnp.ones_like(statistic))
    return found if extra.ndim == 2 else jax.tree.map(lambda a: a[0], found)


def firth_test(
    x: Any,
    y: Any,
    *,
    columns: Any,
    sample_weight: Any = None,
    feature_mask: Any = None,
    offset: Any = None,
    bias: bool = True,
    tol: Any = None,
    max_steps: Any = 100,
) -> ChiSquared:
    """Test of coefficients of `logistic.fit_firth`, by the ratio of penalised likelihoods.

    The statistic is twice what the logarithm of the penalised likelihood loses where they are 0.

    The columns stay part of the information in Jeffreys' prior (Heinze and Schemper 2002), as R's
    logistf has it. A fit without the columns, or `likelihood_ratio`, gives
    other numbers.

    Args:
      x: `(n, d)`.
      y: `(n,)` in {0, 1}, or float probabilities in [0, 1].
      columns: which coefficients are 0 under the null: `(d,)` bool, or the index of one or more.
      sample_weight, feature_mask, offset, bias, tol, max_steps: as in `logistic.fit_firth`.

    Returns:
      A ChiSquared of as many degrees as there are columns tested; NaN unless both fits are
      CONVERGED.

    Raises:
      ValueError: shapes that do not fit, or a column that is not there; eagerly also data that are
        not valid.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import inference
      >>> x = jnp.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0], [4.0, 1.0], [5.0, 1.0]])
      >>> test = inference.firth_test(x, jnp.array([0, 0, 1, 0, 1, 1]), columns=0)
      >>> f"{test.statistic:.3f}", f"{test.p_value:.3f}"
      ('1.606', '0.205')
    """
    data, *arguments = _firth_arguments(x, y, sample_weight, feature_mask, offset, tol, max_steps)
    columns = _columns(columns, data.x.shape[1])
    bias = _checks.bias_of(bias, data)
    statistic, degrees, status = _profiles.ratio(bias, data, arguments[0], columns, *arguments[1:])
    _refuse_invalid(status, data, offset, tol, max_steps)
    return _chi_squared(statistic, degrees)


def firth_intervals(
    x: Any,
    y: Any,
    *,
    level: Any = 0.95,
    sample_weight: Any = None,
    feature_mask: Any = None,
    offset: Any = None,
    bias: bool = True,
    tol: Any = None,
    max_steps: Any = 100,
) -> tuple[Hyperplane, Hyperplane]:
    """Intervals of the coefficients of `logistic.fit_firth`: what `firth_test` does not reject.

    The profile of the penalised likelihood (Heinze and Schemper 2002), as R's logistf has it: of
    few rows, or of classes that are nearly separable, it is far from symmetric, and intervals of
    standard errors are wrong.

    Args:
      x: `(n, d)`.
      y: `(n,)` in {0, 1}, or float probabilities in [0, 1].
      level: how often they are to hold the true value.
      sample_weight, feature_mask, offset, bias, tol, max_steps: as in `logistic.fit_firth`.

    Returns:
      `(lower, upper)`, Hyperplanes; 0 where a coefficient was fixed at 0, NaN where a fit was not
      CONVERGED.

    Raises:
      ValueError: shapes that do not fit; eagerly also data or a level that are not valid.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import inference
      >>> x, y = jnp.array([[0.0], [1.0], [2.0], [3.0]]), jnp.array([0, 0, 1, 1])
      >>> lower, upper = inference.firth_intervals(x, y)
      >>> f"{lower.weights[0]:.2f} to {upper.weights[0]:.2f}"
      '-0.35 to 6.70'
    """
    data, *arguments = _firth_arguments(x, y, sample_weight, feature_mask, offset, tol, max_steps)
    dtype, d = _checks.working_dtype(data.x), data.x.shape[1]
    proper = _proper_level(level, dtype)
    level = jnp.asarray(level, dtype)
    bias = _checks.bias_of(bias, data)

    def limits(bias, data, columns):
        offset, *end = arguments
        found, whole = _profiles.limits(bias, data, offset, level, jnp.asarray(columns), *end)
        _refuse_invalid(whole.status, data, *given)
        return jnp.where(proper, found, jnp.nan)

    given = offset, tol, max_steps
    weights = limits(bias, data, np.arange(d))
    shifts = jnp.zeros(2, dtype)
    if bias:
        # The constant as a column like others.
        ones = jnp.ones((len(data.x), 1), data.x.dtype)
        mask = data.feature_mask
        mask = None if mask is None else jnp.append(mask, True)
        data = data._replace(x=jnp.concatenate([data.x, ones], axis=1), feature_mask=mask)
        shifts = limits(False, data, np.array([d]))[:, 0]
    lower, upper = (Hyperplane(weights=weights[i], bias=shifts[i]) for i in range(2))
    return lower, upper


def influence(
    loss: Loss,
    params: Hyperplane | Linear,
    x: Any,
    y: Any,
    *,
    l2: Any = 0.0,
    sample_weight: Any = None,
    feature_mask: Any = None,
    offset: Any = None,
    bias: bool = True,
    reference: Any = None,
    check: bool = True,
) -> Any:
    """How the estimate moves with the weight of each row: d params / d weight_i.

    -A^-1 (g_i + l2 w), A being the Hessian of W J and g_i the gradient of the row's loss (Cook and
    Weisberg 1982; Koh and Liang 2017): what `jax.jacrev` of the fit says, for all rows by one
    factor. To leave row i out moves the params by about `-weight_i` times this.

    Args:
      loss: `f(scores, y)` of one example.
      params: a Hyperplane or a Linear that minimises J.
      x: `(n, d)`.
      y: `(n,)` class indices, or soft labels where the loss takes them.
      l2: as the fit had it, a scalar or `(d,)`.
      sample_weight: `(n,)`, as the fit had it.
      feature_mask: `(d,)` bool, as the fit had it.
      offset: `(n,)` or `(n, k)`, as the fit had it.
      bias: static; False if the fit had none.
      reference: of a Linear, the class whose score is 0 in the form that is asked for, as in
        `softmax.to_reference`; by default the scores sum to zero. The params may be of any form.
      check: static; False takes params as they are, minimum or not.

    Returns:
      The type of the params with a leading axis of n, NaN as `covariance` has it. A row of
      weight 0 says what it would do; 0 if it holds NaN.

    Example: the row that pulls hardest on a slope.
      >>> import jax.numpy as jnp
      >>> from jaxlin import inference, logistic, losses
      >>> x = jnp.array([[0.0], [1.0], [2.0], [3.0], [9.0]])
      >>> y = jnp.array([0, 0, 1, 1, 0])
      >>> params, _ = logistic.fit(x, y, l2=0.01)
      >>> pulls = inference.influence(losses.logistic, params, x, y, l2=0.01).weights[:, 0]
      >>> int(jnp.argmax(jnp.abs(pulls)))
      4
    """
    arguments = _estimate.given(
        params,
        x,
        y,
        l2=l2,
        sample_weight=sample_weight,
        feature_mask=feature_mask,
        offset=offset,
        reference=reference,
    )
    return _influence(_model(loss, params, bias), _checks.static(check, bool, "check"), arguments)


def leverage(
    loss: Loss,
    params: Hyperplane | Linear,
    x: Any,
    y: Any,
    *,
    l2: Any = 0.0,
    sample_weight: Any = None,
    feature_mask: Any = None,
    offset: Any = None,
    bias: bool = True,
    check: bool = True,
) -> jax.Array:
    """How much of its own score each row decides: h_i = weight_i D_i z_i' A^-1 z_i.

    A is the Hessian of W J, D the curvature of a row's loss in its score and z_i = (x_i, 1): the
    diagonal of the hat matrix (Pregibon 1981), R's `hatvalues`. Without a penalty they sum to the
    number of coefficients. Of several scores it is the trace.

    Args:
      loss: `f(scores, y)` of one example.
      params: a Hyperplane or a Linear that minimises J.
      x: `(n, d)`.
      y: `(n,)` class indices, or soft labels where the loss takes them.
      l2, sample_weight, feature_mask, offset, bias: as the fit had them.
      check: static; False takes params as they are, minimum or not.

    Returns:
      `(n,)`, from 0 to 1; NaN as `covariance` has it. A row of weight 0 has none.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import inference, logistic, losses
      >>> x, y = jnp.array([[0.0], [1.0], [2.0], [9.0]]), jnp.array([0, 1, 0, 1])
      >>> params, _ = logistic.fit(x, y)
      >>> found = inference.leverage(losses.logistic, params, x, y)
      >>> [f"{h:.2f}" for h in found]
      ['0.44', '0.35', '0.40', '0.81']
    """
    arguments = _estimate.given(
        params,
        x,
        y,
        l2=l2,
        sample_weight=sample_weight,
        feature_mask=feature_mask,
        offset=offset,
    )
    check = _checks.static(check, bool, "check")
    return _diagnostics.leverage(_model(loss, params, bias), check, arguments)


def cooks_distance(
    loss: Loss,
    params: Hyperplane | Linear,
    x: Any,
    y: Any,
    *,
    l2: Any = 0.0,
    sample_weight: Any = None,
    feature_mask: Any = None,
    offset: Any = None,
    bias: bool = True,
    check: bool = True,
) -> jax.Array:
    """How far the estimate moves if a row is left out, in its own uncertainty (Cook 1977).

    (b - b_i)' A (b - b_i) / P, with one Newton step from the estimate b to b_i (Pregibon 1981), A
    the Hessian of W J and P the number of coefficients. For a plane that is r_i^2 h_i / (1 - h_i)^2
    / P, r being Pearson's residual and h the leverage.

    Args:
      loss, params, x, y, l2, sample_weight, feature_mask, offset, bias, check: as in `leverage`;
        a row is left out with its whole weight.

    Returns:
      `(n,)`; NaN as `covariance` has it, and where no estimate without the row exists nearby
      (leverage 1).

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import inference, logistic, losses
      >>> x, y = jnp.array([[0.0], [1.0], [2.0], [9.0]]), jnp.array([0, 1, 0, 1])
      >>> params, _ = logistic.fit(x, y)
      >>> distance = inference.cooks_distance(losses.logistic, params, x, y)
      >>> int(jnp.argmax(distance))
      1
    """
    arguments = _estimate.given(
        params,
        x,
        y,
        l2=l2,
        sample_weight=sample_weight,
        feature_mask=feature_mask,
        offset=offset,
    )
    check = _checks.static(check, bool, "check")
    return _diagnostics.cooks_distance(_model(loss, params, bias), check, arguments)


def dfbetas(
    loss: Loss,
    params: Hyperplane | Linear,
    x: Any,
    y: Any,
    *,
    l2: Any = 0.0,
    sample_weight: Any = None,
    feature_mask: Any = None,
    offset: Any = None,
    bias: bool = True,
    reference: Any = None,
    check: bool = True,
) -> Any:
    """How many standard errors each coefficient loses if a row is left out.

    (b - b_i) / standard error, by one Newton step as in `cooks_distance` (Belsley, Kuh and Welsch
    1980); `influence` is its derivative in the weight, in the coefficients' own units.

    Args:
      loss, params, x, y, l2, sample_weight, feature_mask, offset, bias, check: as in `leverage`;
        a row is left out with its whole weight.
      reference: as in `influence`.

    Returns:
      The type of the params with a leading axis of n; 0 for what was not estimated; NaN as in
      `cooks_distance`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import inference, logistic, losses
      >>> x, y = jnp.array([[0.0], [1.0], [2.0], [9.0]]), jnp.array([0, 1, 0, 1])
      >>> params, _ = logistic.fit(x, y)
      >>> moves = inference.dfbetas(losses.logistic, params, x, y)
      >>> moves.weights.shape, moves.bias.shape
      ((4, 1), (4,))
    """
    arguments = _estimate.given(
        params,
        x,
        y,
        l2=l2,
        sample_weight=sample_weight,
        feature_mask=feature_mask,
        offset=offset,
        reference=reference,
    )
    check = _checks.static(check, bool, "check")
    return _diagnostics.dfbetas(_model(loss, params, bias), check, arguments)


def response(loss: Loss, score: Any, y: Any) -> jax.Array:
    """A kind of `residuals`: minus the slope of the loss in the score, y - p for `losses.logistic`.

    Args:
      loss: `f(score, y)` of one example.
      score: `()`.
      y: `()`, its label.

    Returns:
      `()`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import inference, losses
      >>> inference.response(losses.logistic, jnp.array(0.0), jnp.array(1)).item()
      0.5
    """
    return -jax.grad(loss)(score, y)


def pearson(loss: Loss, score: Any, y: Any) -> jax.Array:
    """A kind of `residuals`: in standard deviations, (y - p) / sqrt(p (1 - p)).

    Of any loss minus its slope in the score over the root of its curvature.

    Args:
      loss: `f(score, y)` of one example.
      score: `()`.
      y: `()`, its label.

    Returns:
      `()`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import inference, losses
      >>> inference.pearson(losses.logistic, jnp.array(0.0), jnp.array(1)).item()
      1.0
    """
    found = response(loss, score, y)
    curve = jax.grad(jax.grad(loss))(score, y)
    return found / jnp.sqrt(jnp.where(found == 0, 1, curve))


def deviance(loss: Loss, score: Any, y: Any) -> jax.Array:
    """A kind of `residuals`: the root of the row's part of the deviance, with the sign of y - p.

    The loss is taken from the least that it can be, which is not 0 for a soft label of
    `losses.logistic`.

    Args:
      loss: `f(score, y)` of one example.
      score: `()`.
      y: `()`, its label.

    Returns:
      `()`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import inference, losses
      >>> inference.deviance(losses.logistic, jnp.array(0.0), jnp.array(1)).round(3).item()
      1.177
    """
    value = loss(score, y)
    if jnp.issubdtype(jnp.result_type(y), jnp.floating):
        value = value + special.xlogy(y, y) + special.xlogy(1 - y, 1 - y)
    above = value > 0
    size = jnp.where(above, jnp.sqrt(2 * jnp.where(above, value, 1)), 0)
    return jnp.sign(response(loss, score, y)) * size


def residuals(
    loss: Loss,
    params: Hyperplane,
    x: Any,
    y: Any,
    *,
    kind: Callable[[Loss, jax.Array, jax.Array], jax.Array] = pearson,
    l2: Any = 0.0,
    sample_weight: Any = None,
    feature_mask: Any = None,
    offset: Any = None,
    bias: bool = True,
    check: bool = True,
) -> jax.Array:
    """What each row has that the estimate did not say, of one of the rows that it counts for.

    Args:
      loss: `f(score, y)` of one example.
      params: a Hyperplane that minimises J.
      x: `(n, d)`.
      y: `(n,)` class indices, or soft labels where the loss takes them.
      kind: static; `pearson`, `deviance` or `response`, or a function of a row like them.
      l2, sample_weight, feature_mask, offset, bias: as the fit had them.
      check: static; False takes params as they are, minimum or not.

    Returns:
      `(n,)`; NaN as `covariance` has it, and for rows that hold no numbers.

    Raises:
      TypeError: params of several scores, whose rows have a residual for each.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import inference, logistic, losses
      >>> x, y = jnp.array([[0.0], [1.0], [2.0], [9.0]]), jnp.array([0, 1, 0, 1])
      >>> params, _ = logistic.fit(x, y)
      >>> found = inference.residuals(losses.logistic, params, x, y)
      >>> [f"{r:.2f}" for r in found]
      ['-0.55', '1.40', '-0.93', '0.17']
      >>> found = inference.residuals(losses.logistic, params, x, y, kind=inference.deviance)
      >>> [f"{r:.2f}" for r in found]
      ['-0.72', '1.48', '-1.11', '0.24']
    """
    if not isinstance(params, Hyperplane):
        raise TypeError(f"params: expected a Hyperplane, got {type(params).__name__}")
    if not callable(kind):
        raise TypeError(f"kind: expected inference.pearson, deviance or response, got {kind!r}")
    arguments = _estimate.given(
        params,
        x,
        y,
        l2=l2,
        sample_weight=sample_weight,
        feature_mask=feature_mask,
        offset=offset,
    )
    check = _checks.static(check, bool, "check")
    return _diagnostics.residuals(_model(loss, params, bias), kind, check, arguments)


def approximate_leave_one_out(
    loss: Loss,
    params: Hyperplane | Linear,
    x: Any,
    y: Any,
    *,
    l2: Any = 0.0,
    sample_weight: Any = None,
    feature_mask: Any = None,
    offset: Any = None,
    bias: bool = True,
    check: bool = True,
) -> jax.Array:
    """The score of each row under the fit without it, by one Newton step from the fit with it.

    s_i + (I - H_i C_i)^-1 (H_i g_i + x_i' A^-1 l2 w weight_i), with leverage H_i = weight_i x_i'
    A^-1 x_i, and g_i, C_i the slope and curvature of the row's loss in its scores (Pregibon 1981;
    Rad and Maleki 2020). The mean loss over the rows is leave-one-out cross-validation for the
    price of one fit: near n exact refits while no row dominates.

    Args:
      loss: `f(scores, y)` of one example.
      params: a Hyperplane or a Linear that minimises J.
      x: `(n, d)`.
      y: `(n,)` class indices, or soft labels where the loss takes them.
      l2: as the fit had it, a scalar or `(d,)`.
      sample_weight: `(n,)`, as the fit had it; a row is left out with its whole weight.
      feature_mask: `(d,)` bool, as the fit had it.
      offset: `(n,)` or `(n, k)`, as the fit had it; part of the scores.
      bias: static; False if the fit had none.
      check: static; False takes params as they are, minimum or not.

    Returns:
      Scores, `(n,)` for a Hyperplane or `(n, k)`, -inf for an absent class; NaN where no fit
      without the row exists nearby (leverage 1).

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import inference, logistic, losses
      >>> x, y = jnp.array([[0.0], [1.0], [2.0], [3.0]]), jnp.array([0, 1, 0, 1])
      >>> params, _ = logistic.fit(x, y, l2=0.1)
      >>> left_out = inference.approximate_leave_one_out(losses.logistic, params, x, y, l2=0.1)
      >>> f"{losses.logistic(left_out, y).mean():.2f}"
      '1.33'
    """
    arguments = _estimate.given(
        params,
        x,
        y,
        l2=l2,
        sample_weight=sample_weight,
        feature_mask=feature_mask,
        offset=offset,
    )
    return _left_out(_model(loss, params, bias), _checks.static(check, bool, "check"), arguments)


def separation(
    params: Hyperplane | Linear,
    x: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    feature_mask: Any = None,
    bias: bool = True,
    reference: Any = None,
) -> Separation:
    """Whether some plane separates the classes, completely or with rows on it.

    Then the likelihood has no maximum (Albert and Anderson 1984; Konis 2007 by linear programming).
    Decided anew from the data, whatever the params are: they say of which form the estimate is,
    and where to start. Finitely many steps of O(n P), each decision proved to rounding: a
    direction that meets every row off the plane, and a positive combination of rows that is 0. Rows
    count as on the plane that are off it by no more than the rounding of x, seen in twice the
    digits. Where others are near it the status is STALLED; float64 tells more than float32.

    Args:
      params: a Hyperplane or a Linear, as a fit returned it.
      x: `(n, d)`.
      y: `(n,)` class indices.
      sample_weight: `(n,)`; a row of weight 0 is absent.
      feature_mask: `(d,)` bool, as the fit had it.
      bias: static; False if the fit had none.
      reference: of a Linear, the class whose score is 0 in the form that is asked for, as in
        `softmax.to_reference`; by default the scores sum to zero.

    Returns:
      A Separation. Where the classes are separable completely the direction is one of many. Of a
      Linear in another form than that of a fit the coefficients are NaN without a `reference`.

    Example: the coefficient of x is infinite, rows at 5 being of both classes.
      >>> import jax.numpy as jnp
      >>> from jaxlin import inference, logistic
      >>> x, y = jnp.array([[4.0], [5.0], [5.0], [7.0]]), jnp.array([0, 0, 1, 1])
      >>> params, _ = logistic.fit(x, y)
      >>> found = inference.separation(params, x, y)
      >>> found.status.item(), found.coefficients.weights.tolist(), found.on_plane.tolist()
      (4, [inf], [False, True, True, False])
    """
    k = _estimate.number_of_scores(params)
    data = _checks.table(x, y, sample_weight=sample_weight, feature_mask=feature_mask)
    dtype = _checks.working_dtype(data.x)
    params = _estimate.checked(params, data.x.shape[1], dtype)
    reference = _estimate.reference_of(reference, k)
    found = _separation_of(_checks.static(bias, bool, "bias"), params, data, reference)
    nothing = jnp.zeros((), dtype)
    info = Info(found.status, jnp.int32(0), nothing, nothing)
    _invalid.raise_if_invalid(info, data, num_classes=k or 2)
    return found


def proved_zero(
    loss: Loss,
    params: Hyperplane | Linear,
    x: Any,
    y: Any,
    *,
    l1: Any,
    l2: Any = 0.0,
    groups: Any = None,
    num_groups: int | None = None,
    sample_weight: Any = None,
    feature_mask: Any = None,
    offset: Any = None,
    bias: bool = True,
) -> jax.Array:
    """Which weights are 0 at the optimum of a fit with l1, whatever rounding and `tol` left of it.

    A weight that a fit says is 0 is 0 near the optimum. Params give a bound of how far the slopes
    of the loss can be from those of the optimum, by the root of the duality gap, and a weight whose
    slope stays below l1 all that way is 0 there (Fercoq, Gramfort and Salmon 2015, "Mind the
    duality gap: safer rules for the lasso"; Ndiaye, Fercoq, Gramfort and Salmon 2017, "Gap safe
    screening rules for sparsity enforcing penalties"). Any params will do, such as those of a
    stronger penalty: the nearer to the optimum, the more is proved.

    Args:
      loss: `losses.logistic`, `losses.softmax`, `losses.squared_hinge`, or `losses.squared`: of
        `least_squares.fit`, or of `regress` where y are floats.
      params: a Hyperplane or a Linear.
      x: `(n, d)`.
      y: `(n,)`, or `(n, k)` soft labels, as the fit had it.
      l1, l2, groups, num_groups: as the fit had them.
      sample_weight: `(n,)`, as the fit had it.
      feature_mask: `(d,)` bool, as the fit had it; a masked column has weight 0.
      offset: `(n,)` or `(n, k)`, as the fit had it.
      bias: static; False if the fit had none.

    Returns:
      Bool, of the shape of the weights. False is not known. False throughout where params are not
      finite.

    Raises:
      ValueError: a loss that is none of these; eagerly also data that are not valid.

    Example:
      >>> import jax
      >>> from jaxlin import inference, logistic, losses
      >>> x = jax.random.normal(jax.random.key(0), (200, 5))
      >>> y = (x[:, 0] > 0.5).astype(int)
      >>> params, _ = logistic.fit(x, y, l1=0.1)
      >>> inference.proved_zero(losses.logistic, params, x, y, l1=0.1).tolist()
      [False, True, True, True, True]
    """
    record = _conjugates.record_of(loss)
    k = _estimate.number_of_scores(params)
    numbers = loss is losses.squared and k is None
    kinds = {"sample_weight": sample_weight, "feature_mask": feature_mask}
    if numbers:
        data = _checks.targets(x, y, **kinds)
    else:
        soft = loss in (losses.logistic, losses.softmax)
        data = _checks.table(x, y, soft=soft, num_classes=k, **kinds)
    (n, d), dtype = data.x.shape, _checks.working_dtype(data.x)
    spec = _record.Spec(record, solver=None, bias=_checks.static(bias, bool, "bias"))
    penalty = _checks.penalty(l2, d, dtype)
    spec, (size, *_) = _sparse.arranged(spec, penalty, l1, groups, num_groups, None, None)
    lead = () if k is None else (k,)
    found, valid = _sparse.proved_zero(
        spec,
        None if numbers else k or 2,
        data,
        penalty,
        _checks.optional(offset, (n, *lead), dtype, "offset"),
        _estimate.checked(params, d, dtype),
        size,
    )
    status = jnp.where(valid, Status.CONVERGED, Status.INVALID_DATA).astype(jnp.int32)
    _invalid.raise_if_invalid(
        Info(status, jnp.int32(0), jnp.zeros((), dtype), jnp.zeros((), dtype)),
        data,
        num_classes=None if numbers else k or 2,
        nonnegative={"l1": l1, "l2": l2},
        finite={"offset": offset},
    )
    return found[0] if k is None else found


def aliased(
    x: Any, *, sample_weight: Any = None, feature_mask: Any = None, bias: bool = True
) -> jax.Array:
    """Which columns those before them give: what R's `glm` has no coefficient for, NA.

    Without them a fit that is RANK_DEFICIENT, of one optimum among many, has a single one with the
    same scores: `feature_mask=~aliased(x)`. A column counts as given where what is left of it, of
    variance 1, is within the rounding that makes a fit RANK_DEFICIENT. O(n d^2).

    Args:
      x: `(n, d)`.
      sample_weight: `(n,)`; a row of weight 0 is absent.
      feature_mask: `(d,)` bool, as the fit had it; a masked column gives nothing, nor is it given.
      bias: static; False if the fit had none. With a bias a constant column is given.

    Returns:
      `(d,)` bool; False throughout where the data are not valid.

    Raises:
      ValueError: shapes that do not fit; eagerly also data that are not valid.

    Example: the third column is the sum of the first two.
      >>> import jax.numpy as jnp
      >>> from jaxlin import inference
      >>> x = jnp.array([[1.0, 2.0, 3.0], [0.0, 1.0, 1.0], [4.0, 1.0, 5.0], [2.0, 2.0, 4.0]])
      >>> inference.aliased(x).tolist()
      [False, False, True]
    """
    x = _checks.matrix(x)
    none = jnp.zeros(len(x), jnp.int32)
    data = _checks.table(x, none, sample_weight=sample_weight, feature_mask=feature_mask)
    found, valid = _aliased(_checks.static(bias, bool, "bias"), data)
    nothing = jnp.zeros((), _checks.working_dtype(x))
    status = jnp.where(valid, Status.CONVERGED, Status.INVALID_DATA)
    _invalid.raise_if_invalid(Info(status, jnp.int32(0), nothing, nothing), data)
    return found


def _firth_arguments(x, y, sample_weight, feature_mask, offset, tol, max_steps):
    data = _checks.table(x, y, sample_weight=sample_weight, feature_mask=feature_mask, soft=True)
    dtype = _checks.working_dtype(data.x)
    return (
        data,
        _checks.optional(offset, (len(data.x),), dtype, "offset"),
        _checks.tolerance(tol, dtype),
        _checks.count(max_steps, "max_steps"),
    )


def _refuse_invalid(status, data, offset, tol, max_steps):
    status = jnp.max(status)
    zero = jnp.zeros(())
    info = Info(status, status, zero, zero)
    nonnegative = {"tol": tol, "max_steps": max_steps}
    _invalid.raise_if_invalid(info, data, nonnegative=nonnegative, finite={"offset": offset})


def _columns(columns: Any, d: int) -> jax.Array:
    """Which of d columns are meant, `(d,)` bool: given so, or by their indices."""
    columns = _checks.array(columns, "columns")
    if columns.dtype == jnp.bool_:
        return jnp.asarray(_checks.mask_of(columns, d, "columns"))
    if columns.ndim > 1 or not jnp.issubdtype(columns.dtype, jnp.integer):
        raise TypeError(
            f"columns: expected (d,) bool or indices (c,), got {columns.dtype} {columns.shape}"
        )
    out = (columns < 0) | (columns >= d)
    if _checks.concrete(out) and np.any(np.asarray(out)):
        raise ValueError(f"columns: expected indices in 0..{d - 1}, got {columns.tolist()}")
    return jnp.zeros(d, bool).at[jnp.where(out, d, columns)].set(True)


def _model(loss: Loss, params: Any, bias: bool) -> _estimate.Model:
    if not callable(loss):
        raise TypeError(f"loss: expected a function like losses.logistic, got {loss!r}")
    bias = _checks.static(bias, bool, "bias")
    return _estimate.Model(loss=loss, bias=bias, binary=isinstance(params, Hyperplane))


def _kind(kind: str | None, params: Any, clustered: bool) -> str:
    if kind is None:
        return "HC1" if clustered else "HC0"
    if kind not in KINDS:
        raise ValueError(f"kind: expected one of {', '.join(KINDS)}, got {kind!r}")
    if kind in KINDS[2:] and (clustered or not isinstance(params, Hyperplane)):
        raise ValueError(f"kind: {kind} is for a Hyperplane without clusters")
    return kind


def _number_of_clusters(
    num_clusters: Any, clusters: jax.Array, sample_weight: jax.Array | None
) -> int:
    """As given, or how many different clusters have rows with weight; not less than that."""
    if num_clusters is not None:
        num_clusters = _checks.static(num_clusters, int, "num_clusters")
    if not _checks.concrete((clusters, sample_weight)):
        if num_clusters is None:
            words = "expected a static integer under a transformation, got None"
            raise TypeError(f"num_clusters: {words}")
        return num_clusters
    ids = np.asarray(clusters)
    if sample_weight is not None:
        ids = ids[np.asarray(sample_weight) != 0]
    found = max(1, len(np.unique(ids)))
    if num_clusters is not None and num_clusters < found:
        words = f"expected at least {found}, the clusters with rows"
        raise ValueError(f"num_clusters: {words}, got {num_clusters}")
    return found if num_clusters is None else num_clusters


def _flat(params: Any, covariance: Any) -> tuple[jax.Array, Callable]:
    flat, back = ravel_pytree(jax.tree.map(lambda a: _checks.real(a, "params"), params))
    if np.shape(covariance) != (flat.size, flat.size):
        raise ValueError(
            f"covariance: expected shape {(flat.size, flat.size)} for these params, "
            f"got {np.shape(covariance)}"
        )
    return flat, back


def _of_one_form(params: Any, covariance: Any) -> jax.Array:
    """The covariance; NaN where it is of softmax's params in another form than these are.

    One whose scores sum to zero has sums of no variance; one of a reference, a class of none.
    """
    covariance = jnp.asarray(covariance)
    if not isinstance(params, Linear) or np.ndim(params.weights) != 2:
        return covariance
    here = ~jnp.isneginf(jnp.asarray(params.bias))
    numbers = jnp.column_stack([jnp.asarray(params.weights), jnp.where(here, params.bias, 0)])
    numbers = jnp.where(here[:, None], numbers, 0).astype(covariance.dtype)
    k, d = np.shape(params.weights)
    order = jnp.column_stack([jnp.arange(k * d).reshape(k, d), k * d + jnp.arange(k)])
    error = jnp.sqrt(jnp.maximum(jnp.diagonal(covariance)[order], 0))
    of_sums = jax.vmap(lambda i: jnp.sum(covariance[i][:, i]), in_axes=1)(order)
    small = math.sqrt(float(jnp.finfo(covariance.dtype).eps))
    size = jnp.sum(error, axis=0)
    symmetric = jnp.any(size > 0) & jnp.all(jnp.abs(of_sums) <= small * size**2)
    off = jnp.abs(jnp.sum(numbers, axis=0)) > small * (jnp.sum(jnp.abs(numbers), axis=0) + size)
    still = here & jnp.all(error == 0, axis=1) & jnp.any(size > 0)
    other = symmetric & jnp.any(off) | jnp.any(still & jnp.any(numbers != 0, axis=1))
    return jnp.where(other, jnp.nan, covariance)


def _proper_level(level: Any, dtype: Any) -> jax.Array:
    """Whether it is a probability between 0 and 1; a ValueError where it is known and not."""
    proper = (jnp.asarray(level, dtype) > 0) & (jnp.asarray(level, dtype) < 1)
    if _checks.concrete(proper) and not np.all(np.asarray(proper)):
        raise ValueError(f"level: expected a probability between 0 and 1, as 0.95, got {level}")
    return proper


def _chi_squared(statistic: jax.Array, degrees: jax.Array) -> ChiSquared:
    degrees = degrees.astype(statistic.dtype)
    above = jnp.maximum(statistic, 0)
    p_value = special.gammaincc(degrees / 2, above / 2)
    return ChiSquared(statistic, degrees, jnp.where(degrees > 0, p_value, jnp.nan))


@functools.partial(_platform.jit, static_argnums=0)
def _aliased(bias, data):
    data = jax.lax.stop_gradient(data)
    rows, _, valid = _prepare.prepare(data, num_classes=2)
    _, d = data.x.shape
    problem = _frame.make(rows, jnp.zeros(d, rows.weight.dtype), bias)
    z = _frame.standard(problem, _rows.clean(rows))
    z = _mesh.where_rows(rows.weight > 0, jnp.sqrt(rows.weight)[:, None] * z)
    asked = jnp.ones(d, bool) if rows.feature_mask is None else rows.feature_mask
    return valid & asked & _linalg.given_by_those_before(z), valid


@functools.partial(_platform.jit, static_argnums=(0, 1))
def _covariance(model, check, arguments):
    e = _estimate.at(model, arguments)
    half = _estimate.half_back(e)
    return _estimate.said(dot(half.T, half) / e.total, _estimate.proper(e, check) & e.of_form)


@functools.partial(_platform.jit, static_argnums=(0, 1, 2, 3))
def _sandwich(model, kind, num_clusters, check, arguments, clusters):
    e = _estimate.at(model, arguments)

    def pulls(block):
        z, _, slope, curve = _estimate.whole(model, e, block)
        pull = block.weight[:, None] * slope
        if kind in ("HC2", "HC3"):
            lever = jnp.sum(_estimate.half_images(e, z) ** 2, axis=(1, 2))
            left = _estimate.known(1 - block.weight * curve[:, 0, 0] * lever)
            pull = pull / (jnp.sqrt(left) if kind == "HC2" else left)[:, None]
        return _estimate.gradients(e, z, pull)

    if clusters is None:

        def squares(block):
            each = pulls(block)
            return dot(each.T, each), ()

        square, _ = _fold.fold(squares, e.problem.rows)
        groups, ok = None, jnp.bool_(True)
    else:
        # The numbers of those that have rows with weight; others have no part.
        here = e.problem.rows.weight > 0
        clusters = _draws.ranks(jnp.where(here, clusters, clusters[jnp.argmax(here)]))
        ok = jnp.all(clusters < num_clusters)
        sums, sizes = _cluster_sums(e, pulls, clusters, num_clusters)
        square, groups = dot(sums.T, sums), jnp.sum(sizes > 0).astype(sums.dtype)
    half = _linalg.solve(e.factor, e.back.T)
    factor = jnp.ones((), half.dtype)
    if kind == "HC1":
        free = jnp.sum(~_frame.inert(e.problem)).astype(half.dtype)
        factor = e.number / (e.number - free)
        if groups is not None:
            factor = groups / (groups - 1) * (e.number - 1) / (e.number - free)
    found = factor * dot(half.T, dot(square, half))
    return _estimate.said((found + found.T) / 2, _estimate.proper(e, check) & e.of_form & ok)


def _cluster_sums(e, pulls, clusters, num_clusters):
    rows = e.problem.rows
    each = _fold.map_rows(pulls, rows)
    total = functools.partial(jax.ops.segment_sum, segment_ids=clusters, num_segments=num_clusters)
    return total(each), total((rows.weight > 0).astype(each.dtype))


@functools.partial(_platform.jit, static_argnums=(0, 1))
def _likelihood_ratio(model, check, arguments, null, degrees):
    e = _estimate.at(model, arguments)
    other = e._replace(theta=_estimate.enter(e.problem, null))

    def differences(block):
        full, restricted = (_estimate.whole(model, each, block)[1] for each in (e, other))
        each = jax.vmap(model.of_scores)(restricted, block.y)
        each = each - jax.vmap(model.of_scores)(full, block.y)
        # Not by the weight alone, in which a row has a derivative at 0 too.
        felt = (block.weight > 0) | jnp.isfinite(each)
        return jnp.sum(block.weight * jnp.where(felt, each, 0)), ()

    gain, _ = _fold.fold(differences, e.problem.rows)
    statistic = _estimate.said(2 * e.total * gain, _estimate.proper(e, check))
    if degrees is None:
        seen = jnp.bool_(e.problem.basis is None) | e.problem.used[0]
        full, fewer = _centred(seen, arguments.params, null)
        degrees = _restrictions(full, fewer, statistic.dtype)
    return _chi_squared(statistic, degrees)


def _centred(seen, *several):
    """Params of softmax in one form, whose weights sum to zero: a 0 of a reference restricts none.

    `seen`: whether the loss sees a number added to all scores, so that there are no forms.
    """

    def one(params):
        if params.weights.ndim == 1:
            return params
        here = ~jnp.isneginf(params.bias)[:, None]
        weights = jnp.where(here, params.weights, 0)
        total, size = jnp.sum(weights, axis=0), jnp.sum(jnp.abs(weights), axis=0)
        off = jnp.abs(total) > math.sqrt(float(jnp.finfo(size.dtype).eps)) * size
        mean = total / jnp.maximum(jnp.sum(here), 1).astype(total.dtype)
        moved = jnp.where(here & off[None, :] & ~seen, weights - mean[None, :], weights)
        return params._replace(weights=moved)

    return map(one, several)


def _restrictions(params, null, dtype):
    """How many weights are 0 in `null` only; the classes' sum to zero, so one follows."""
    lost = (null.weights == 0) & (params.weights != 0)
    number = jnp.sum(lost, axis=tuple(range(lost.ndim - 1)))
    if lost.ndim == 2:
        number = jnp.minimum(number, jnp.sum(~jnp.isneginf(params.bias)) - 1)
    return jnp.sum(number).astype(dtype)


@functools.partial(_platform.jit, static_argnums=(0, 1))
def _influence(model, check, arguments):
    e = _estimate.at(model, arguments)
    rows = e.problem.rows
    solved = _linalg.solve(e.factor, e.back.T)
    held = dot(_estimate.pull_of_penalty(e), solved)

    def of_block(block):
        z, _, slope, _ = _estimate.whole(model, e, block)
        moved = dot(_estimate.gradients(e, z, slope), solved) + held[None, :]
        return _mesh.where_rows(block.ok, -moved / e.total)

    flat = _fold.map_rows(of_block, rows)
    _, back = ravel_pytree(arguments.params)
    return jax.vmap(back)(_estimate.said(flat, _estimate.proper(e, check) & e.of_form))


@functools.partial(_platform.jit, static_argnums=(0, 1))
def _left_out(model, check, arguments):
    e = _estimate.at(model, arguments)
    rows = e.problem.rows
    m, _ = e.theta.shape
    held = _linalg.half_solve(e.factor, _estimate.pull_of_penalty(e))

    def of_block(block):
        z, scores, slope, curve = _estimate.whole(model, e, block)
        half = _estimate.half_images(e, z)
        lever = block.weight[:, None, None] * dot(half, jnp.swapaxes(half, 1, 2))
        moved = jnp.sum(lever * slope[:, None, :], axis=2) + block.weight[:, None] * dot(half, held)
        left = jnp.eye(m, dtype=z.dtype)[None] - dot(lever, curve)
        if m == 1:
            step = moved / _estimate.known(left[:, 0])
        else:
            # Its eigenvalues are in (0, 1]: the least is at least the determinant.
            sound = _estimate.known(jnp.linalg.det(left))
            step = jnp.linalg.solve(left, moved[:, :, None])[:, :, 0]
            step = jnp.where(jnp.isnan(sound)[:, None], jnp.nan, step)
        away = step if e.problem.basis is None else dot(step, e.problem.basis.T)
        return scores + away

    left_out = _estimate.said(_fold.map_rows(of_block, rows), _estimate.proper(e, check))
    if e.problem.basis is None:
        return left_out[:, 0]
    absent = ~jnp.any(e.problem.basis != 0, axis=1)
    return jnp.where(absent[None, :], -jnp.inf, left_out)


@functools.partial(_platform.jit, static_argnums=0)
def _separation_of(bias, params, data, reference):
    # A verdict has no derivative.
    params, data = jax.lax.stop_gradient((params, data))
    k = len(params.bias) if isinstance(params, Linear) else None
    (_, d), dtype = data.x.shape, params.weights.dtype
    rows, _, valid = _prepare.prepare(data, num_classes=k or 2)
    classes = jnp.arange(k or 2, dtype=rows.y.dtype)
    here = rows.weight > 0
    present = jnp.any(here[:, None] & (rows.y[:, None] == classes[None, :]), axis=0)
    basis = None if k is None else _frame.class_basis(present, dtype)
    problem = _frame.make(rows, jnp.zeros(d, dtype), bias, basis)
    z = _frame.standard(problem, _rows.clean(rows))
    z = jnp.concatenate([z, jnp.ones((len(z), int(bias)), dtype)], axis=1)
    if basis is None:
        contrasts, live = (2 * rows.y - 1).astype(dtype)[:, None, None], here[:, None]
        wanted = contrasts
    else:
        eye = jnp.eye(k, dtype=dtype)
        wanted = eye[rows.y][:, None, :] - eye[None]
        contrasts = basis[rows.y][:, None, :] - basis[None, :, :]
        live = here[:, None] & present[None, :] & (rows.y[:, None] != classes[None, :])
    start = _estimate.enter(problem, params)
    if bias:
        start = start.at[:, d].add(dot(start[:, :d], problem.shift[:d]))
    unit = problem.unit[None, :]
    start = jnp.where(unit > 0, start / jnp.where(unit > 0, unit, 1), 0)
    start = jnp.where(jnp.all(jnp.isfinite(start)), start, 0)
    demands = _separation.Demands(_mesh.where_rows(here, z), contrasts, live)
    found = _separation.decide(demands, start.reshape(-1))
    flat, back = _to_user_units(problem, z, bias)
    used = jnp.repeat(problem.used, z.shape[1])
    seen = _separation.Seen(_rows.clean(rows).x, flat, wanted, used)
    proved = found.proved & _separation.is_exact(seen, demands, found)
    of_form = jnp.bool_(True)
    if reference is not None:

        def moved(column):
            return ravel_pytree(_estimate.in_form(back(column), present, reference))[0]

        flat = jax.vmap(moved, in_axes=1, out_axes=1)(flat)
    elif k is not None:
        of_form = _estimate.is_symmetric(problem, params, present)
    direction, growing = _in_user_units(problem, z, found, flat, back)
    growing = jax.tree.map(lambda a: jnp.where(of_form, a, jnp.nan), growing)
    held, multipliers = found.held, found.multipliers
    if k is None:
        direction, growing = (
            Hyperplane(weights=a.weights[0], bias=a.bias[0]) for a in (direction, growing)
        )
        held, multipliers = held[:, 0], multipliers[:, 0]
    status = jnp.where(jnp.any(held), Status.QUASI_SEPARABLE, Status.SEPARABLE)
    status = jnp.where(jnp.any(found.direction != 0), status, Status.NOT_SEPARABLE)
    status = jnp.where(proved, status, Status.STALLED)
    status = jnp.where(jnp.sum(present) > 1, status, Status.CLASS_TOO_SMALL)
    status = jnp.where(valid, status, Status.INVALID_DATA).astype(jnp.int32)
    # What is 0 reads as finite: of no verdict nothing is told.
    told = proved & valid & (jnp.sum(present) > 1)
    direction, growing = _implicit.where(told, (direction, growing))
    return Separation(status, direction, growing, held, multipliers)


def _to_user_units(problem, z, bias):
    """From directions, for standard columns, to params: a matrix `(., P)`, and back to a tree."""
    d, (m, p) = problem.centre.size, (problem.used.size, z.shape[1])

    def leave(theta):
        theta = theta.reshape(m, p) * problem.unit[None, :]
        if bias:
            theta = theta.at[:, d].add(-dot(theta[:, :d], problem.shift[:d]))
        return _frame.leave(problem, theta, bias)

    each = jnp.eye(m * p, dtype=z.dtype)
    flat = jax.vmap(lambda theta: ravel_pytree(leave(theta))[0])(each).T
    return flat, ravel_pytree(leave(each[0]))[1]


def _in_user_units(problem, z, found, flat, back):
    """Of the direction, for standard columns: `(direction, coefficients)` as params."""
    m, p = problem.used.size, z.shape[1]
    # The directions that some row sees, less those that rows hold.
    values, vectors = _linalg.eigh(dot(z.T, z))
    eps = float(jnp.finfo(z.dtype).eps)
    seen = values > _linalg.RANK_ULPS * p * eps * jnp.max(values)
    vectors = jnp.where(seen[None, :], vectors, 0)
    open_to = jnp.kron(jnp.diag(problem.used.astype(z.dtype)), dot(vectors, vectors.T))
    reach = jnp.linalg.norm(dot(flat, open_to - found.span), axis=1)
    tiny = _separation.ZERO_ULPS * m * p * eps
    fixed = (reach <= tiny * jnp.linalg.norm(flat, axis=1)) | ~jnp.any(found.direction != 0)
    direction = dot(flat, found.direction)
    size = dot(jnp.abs(flat), jnp.abs(found.direction))
    direction = jnp.where(fixed | (jnp.abs(direction) <= tiny * size), 0, direction)
    growing = jnp.where(direction == 0, jnp.nan, jnp.copysign(jnp.inf, direction))
    direction = direction / jnp.maximum(jnp.max(jnp.abs(direction)), jnp.finfo(z.dtype).tiny)
    return back(direction), back(jnp.where(fixed, 0, growing))

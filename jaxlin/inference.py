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
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy import special

from jaxlin import _linalg, losses
from jaxlin._base import _checks, _codes, _invalid, _platform, _words
from jaxlin._infer import (
    _covariances,
    _diagnostics,
    _estimate,
    _forms,
    _goodness,
    _profiles,
    _report,
    _restrictions,
    _table,
    _verdict,
)
from jaxlin._linalg import dot
from jaxlin._nonsmooth import _conjugates, _kinked
from jaxlin._smooth import _record
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


class Summary(NamedTuple):
    """A report of an estimate, which `print` shows as a table if there is one of them.

    params: the coefficients; of separable classes infinity with the sign of those that grow without
      end, and NaN for the others
    standard_errors, statistic, p_value, lower, upper: of the type of the params, `statistic` being
      z, or t for least squares, and the last two the limits of the intervals of `level`
    odds_ratio: of the type of the params, how the odds multiply with each unit; None for least
      squares
    level: `()`
    number: `()`, the sum of the weights
    events: `()`, the weight of class 1, or `(k,)`, of each class; None for least squares
    degrees: `()`, how many coefficients there are; with l2 how many it leaves, tr(A^-1 A_0) for the
      Hessians A with it and A_0 without
    log_likelihood, null_log_likelihood: `()`, the second without any column but the constant
    aic, bic: `()`, 2 degrees, or log(number) degrees, less twice the log likelihood
    r_squared: `()`, McFadden's 1 - log_likelihood / null_log_likelihood; of least squares the share
      of the variance
    status: `()`, CONVERGED, or why there are no numbers
    """

    params: Any
    standard_errors: Any
    statistic: Any
    p_value: Any
    lower: Any
    upper: Any
    odds_ratio: Any
    level: jax.Array
    number: jax.Array
    events: jax.Array | None
    degrees: jax.Array
    log_likelihood: jax.Array
    null_log_likelihood: jax.Array
    aic: jax.Array
    bic: jax.Array
    r_squared: jax.Array
    status: jax.Array

    def table(
        self, *, names: Sequence[Any] | None = None, classes: Sequence[Any] | None = None
    ) -> str:
        """The text that `print` shows, with names of the columns `(d,)` and of the classes `(k,)`.

        Of one estimate; one of many is `jax.tree.map(lambda a: a[i], summary)`.
        """
        return _table.text(self, names, classes)

    def __str__(self) -> str:
        one = not isinstance(self.status, jax.core.Tracer) and np.shape(self.status) == ()
        return self.table() if one else repr(self)


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
    asked = _estimate.asked(
        loss, params, x, y, bias, check, l2, sample_weight, feature_mask, offset, reference
    )
    return _covariances.covariance(*asked)


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
        clusters that have weight, and there the default. "HC2" and "HC3": g divided by the root of
        1 - h, or by 1 - h, with h_i = D_i x_i' A^-1 x_i, of a Hyperplane (MacKinnon and White
        1985). With clusters, "CR2" and "CR3": h is the matrix A_g A^-1, A_g being what the rows of
        the cluster add to A (Bell and McCaffrey 2002). "HC3" is then the sum of the squares of the
        steps that leave out a cluster; it needs memory for G P^2 numbers, as "HC2" does.
      clusters: None, or `(n,)` integers of any size, equal for rows of one cluster; or `(n, r)`, of
        rows that depend on each other if they agree in any of the r: the sum over each, less those
        over the pairs, and so on (Cameron, Gelbach and Miller 2011), of which variances of few
        clusters can be negative.
      num_clusters: static, at least as many as have rows with weight, in each of the r; eagerly by
        default so many.
      l2: as the fit had it, a scalar or `(d,)`.
      sample_weight: `(n,)`, as the fit had it.
      feature_mask: `(d,)` bool, as the fit had it.
      offset: `(n,)` or `(n, k)`, as the fit had it.
      bias: static; False if the fit had none.
      reference: of a Linear, the class whose score is 0 in the form that is asked for, as in
        `softmax.to_reference`; by default the scores sum to zero. The params may be of any form.
      check: static; False takes params as they are, minimum or not.

    Returns:
      `(P, P)`; NaN as `covariance` has it, of traced clusters also if there are more than
      `num_clusters`, and of "HC2" and "HC3" where a row or a cluster alone decides a coefficient.
      R's `vcovCL` has the same numbers for least squares; its "HC2" and "HC3" of other models are
      not the steps that leave out a cluster, and are slightly different.

    Raises:
      ValueError: a kind that is not defined for these params; eagerly also too small a
        `num_clusters`.

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
    asked = _estimate.asked(
        loss, params, x, y, bias, check, l2, sample_weight, feature_mask, offset, reference
    )
    model, arguments = asked
    ways = None
    if clusters is not None:
        ways = _ways(clusters, len(arguments.data.x))
        num_clusters = _number_of_clusters(num_clusters, ways, arguments.data.sample_weight)
    return _covariances.sandwich(model, kind, num_clusters, arguments, ways)


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
    flat, back = _forms.flat(params, covariance)
    variance = jnp.diagonal(_forms.of_one_form(params, covariance)).astype(flat.dtype)
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
    flat, back = _forms.flat(params, covariance)
    error, _ = ravel_pytree(standard_errors(params, covariance))
    here = error != 0
    z = jnp.where(here, flat / jnp.where(here, error, 1), jnp.nan)
    return Wald(statistic=back(z), p_value=back(_two_sided(z)))


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
    flat, back = _forms.flat(params, covariance)
    error, _ = ravel_pytree(standard_errors(params, covariance))
    level = jnp.where(_proper_level(level, flat.dtype), level, jnp.nan).astype(flat.dtype)
    reach = _reach(level) * error
    return back(flat - reach), back(flat + reach)


def summary(
    loss: Loss,
    params: Hyperplane | Linear,
    x: Any,
    y: Any,
    *,
    level: Any = 0.95,
    l2: Any = 0.0,
    sample_weight: Any = None,
    feature_mask: Any = None,
    offset: Any = None,
    bias: bool = True,
    reference: Any = None,
) -> Summary:
    """The table of a regression: coefficients, their errors and tests, and how well they say y.

    Errors and tests are those of `covariance`, times the residual variance RSS / (n - degrees) for
    least squares, whose statistics are Student's t. Print it, or `table(names=...)`.

    Args:
      loss: `losses.logistic`, `losses.softmax`, or `losses.squared` with float y.
      params: a Hyperplane or a Linear that minimises J.
      x: `(n, d)`.
      y: `(n,)` class indices, soft labels, or numbers, as the fit had it.
      level: `()`, between 0 and 1, of the intervals.
      l2, sample_weight, feature_mask, offset, bias: as the fit had them; weights count rows.
      reference: of a Linear, the class whose score is 0 in the form that is shown; by default the
        scores sum to zero.

    Returns:
      A Summary; NaN wherever a number would mean nothing. The status is CONVERGED if the params are
      the minimum, what `separation` says if there is none, and else STALLED: not the minimum for
      these arguments, or one among many.

    Raises:
      ValueError: another loss; eagerly also a level outside of (0, 1).

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import inference, logistic, losses
      >>> x = jnp.array([[1.0], [2.0], [3.0], [4.0], [5.0], [6.0]])
      >>> y = jnp.array([0, 0, 1, 0, 1, 1])
      >>> params, _ = logistic.fit(x, y)
      >>> print(inference.summary(losses.logistic, params, x, y).table(names=["dose"]))
            estimate  std. error       z       p  lower 95%  upper 95%  odds ratio
      bias    -4.249       3.388  -1.254  0.2098     -10.89      2.391     0.01428
      dose     1.214      0.9126    1.33  0.1834    -0.5746      3.003       3.367
      <BLANKLINE>
      rows 6   events 3   coefficients 2
      log likelihood -2.47799   of the constant alone -4.15888
      AIC 8.95597   BIC 8.53949   McFadden R^2 0.40417
      CONVERGED: the optimum: residual <= tol, and a finite optimum is proved
    """
    asked = _estimate.asked(
        loss, params, x, y, bias, True, l2, sample_weight, feature_mask, offset, reference
    )
    model, arguments = asked
    if model.loss not in (losses.logistic, losses.softmax, _estimate.of_numbers):
        raise ValueError(
            "loss: expected losses.logistic, losses.softmax, or losses.squared with float y, got "
            f"{getattr(loss, '__name__', loss)}"
        )
    dtype = arguments.params.weights.dtype
    level = jnp.where(_proper_level(level, dtype), jnp.asarray(level, dtype), jnp.nan)
    found = _summary(model, arguments, level)
    optimal = found.status == Status.CONVERGED
    known = _checks.concrete(optimal) and bool(jnp.all(optimal))
    # Numbers and soft labels have classes that nothing separates.
    if known or jnp.issubdtype(arguments.data.y.dtype, jnp.floating):
        return found
    told = separation(
        params,
        x,
        y,
        sample_weight=sample_weight,
        feature_mask=feature_mask,
        bias=bias,
        reference=reference,
    )
    return _with_separation(found, told, jnp.any(arguments.l2 > 0))


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
    flat, back = _forms.flat(params, covariance)
    slope = jax.jacfwd(lambda flat: ravel_pytree(function(back(flat)))[0])(flat)
    return dot(dot(slope, _forms.of_one_form(params, covariance)), slope.T)


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
    asked = _estimate.asked(
        loss, params, x, y, bias, check, 0.0, sample_weight, feature_mask, offset
    )
    model, arguments = asked
    d, dtype = arguments.data.x.shape[1], arguments.params.weights.dtype
    null = _estimate.checked(null_params, d, dtype, "null_params")
    if degrees is not None:
        degrees = _checks.scalar(degrees, null.weights.dtype, "degrees")
    return _chi_squared(*_restrictions.likelihood_ratio(model, arguments, null, degrees))


def score_test(
    loss: Loss,
    params: Hyperplane,
    x: Any,
    y: Any,
    extra: Any,
    *,
    refined: int = 0,
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
      refined: static, of how many columns, those with the largest statistics, the p-value is by
        saddlepoint (Dey, Schmidt, Abecasis and Lee 2017). It is right where events are rare and the
        chi-squared distribution is not, which has p-values too small by powers of ten. Of
        `losses.logistic` and labels 0 and 1, at the price of about a hundred products each.
      sample_weight: `(n,)`, as the fit had it; counts of rows.
      feature_mask, offset, bias: as the fit had them.
      check: static; False takes params as they are, minimum or not.

    Returns:
      A ChiSquared of `(c,)` entries, each of one degree, or of `()`; NaN as `covariance` has it,
      for a column that those of x give, and for one that is no number where a row has weight.
      Of more columns than memory holds call it for each block; of the few that stand out
      `firth_test` of x beside the column has estimates that are finite.

    Raises:
      TypeError: params of several scores.
      ValueError: shapes that do not fit, more `refined` than there are columns, or another loss.

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
    _one_score(params, "params")
    _checks.refuse_other_rows(x=x, extra=extra)
    asked = _estimate.asked(
        loss, params, x, y, bias, check, 0.0, sample_weight, feature_mask, offset
    )
    model, arguments = asked
    extra, n = _checks.real(extra, "extra"), len(arguments.data.x)
    if extra.ndim not in (1, 2) or len(extra) != n:
        raise ValueError(f"extra: expected shape ({n}, c) or ({n},), got {extra.shape}")
    columns = extra.reshape(n, -1)
    refined = _checks.static(refined, int, "refined")
    if not 0 <= refined <= columns.shape[1]:
        raise ValueError(f"refined: expected from 0 to {columns.shape[1]}, got {refined}")
    if refined and loss is not losses.logistic:
        raise ValueError("refined: only of losses.logistic is the distribution known")
    statistic, p_value = _restrictions.score_test(model, refined, arguments, columns)
    found = ChiSquared(statistic, jnp.ones_like(statistic), p_value)
    return found if extra.ndim == 2 else jax.tree.map(lambda a: a[0], found)


@_words.keyed
def score_bootstrap(
    key: jax.Array,
    loss: Loss,
    null_params: Hyperplane,
    x: Any,
    y: Any,
    *,
    columns: Any,
    draws: int = 999,
    clusters: Any = None,
    num_clusters: int | None = None,
    sample_weight: Any = None,
    feature_mask: Any = None,
    offset: Any = None,
    bias: bool = True,
    check: bool = True,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Test that coefficients are 0, by scores with random signs: the wild bootstrap of clusters.

    Of the null estimate, whose coefficients of `columns` are 0, each cluster g has a step h_g =
    -A^-1 sum of its rows' gradients, in the columns. The statistic is N' V^-1 N with N = sum_g h_g
    and V = sum_g h_g h_g', and the draws are that of sum_g v_g h_g, v_g = -1 or 1 (Kline and Santos
    2012; Cameron, Gelbach and Miller 2008). Where there are few clusters chi-squared tests and
    sandwiches reject too often, and this hardly does. No fit for any draw.

    Args:
      key: a PRNG key.
      loss: `f(score, y)` of one example.
      null_params: the estimate under the null, a Hyperplane, without a penalty; say, with
        `feature_mask` False where `columns` are.
      x: `(n, d)`, all columns.
      y: `(n,)`.
      columns: which coefficients are 0 under the null: `(d,)` bool, or the index of one or more.
      draws: static.
      clusters: `(n,)` integers of any size, equal for rows of one cluster; by default each row is
        one.
      num_clusters: static, at least as many as have rows with weight; eagerly by default so many.
      sample_weight: `(n,)`, as the fit had it.
      feature_mask: `(d,)` bool, as a fit with the columns would have it.
      offset, bias: as the fit had them.
      check: static; False takes params as they are, minimum or not.

    Returns:
      `(statistic (), null (draws,), p_value ())`, p = (1 + draws at least as large) / (1 + draws);
      NaN where the null params are not the minimum or V is singular, as of fewer clusters than
      columns.

    Raises:
      TypeError: params of several scores.
      ValueError: shapes that do not fit, or a column that is not there.

    Example: ten schools, of which five had the treatment.
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from jaxlin import inference, logistic, losses
      >>> school = jnp.arange(200) // 20
      >>> treated = (school % 2).astype(float)[:, None]
      >>> often = 0.3 + 0.4 * treated[:, 0]
      >>> y = (jax.random.uniform(jax.random.key(0), (200,)) < often).astype(int)
      >>> null, _ = logistic.fit(treated, y, feature_mask=jnp.array([False]))
      >>> value, draws, p = inference.score_bootstrap(
      ...     jax.random.key(1), losses.logistic, null, treated, y, columns=0, clusters=school)
      >>> draws.shape, p.item() < 0.05
      ((999,), True)
    """
    _one_score(null_params, "null_params")
    asked = _estimate.asked(
        loss, null_params, x, y, bias, check, 0.0, sample_weight, feature_mask, offset
    )
    model, arguments = asked
    n, d = arguments.data.x.shape
    columns, draws = _columns(columns, d), _checks.static(draws, int, "draws")
    if draws < 1:
        raise ValueError(f"draws: expected at least 1, got {draws}")
    way = None
    if clusters is not None:
        way = _codes.ids(clusters, "clusters")
        if way.shape != (n,):
            raise ValueError(f"clusters: expected shape ({n},), got {way.shape}")
        num_clusters = _number_of_clusters(num_clusters, [way], arguments.data.sample_weight)
    value, null = _restrictions.score_bootstrap(
        model, draws, num_clusters, arguments, columns, way, key
    )
    slack = 100 * jnp.finfo(value.dtype).eps
    as_large = jnp.sum(null >= value * (1 - slack)).astype(value.dtype)
    p_value = jnp.where(jnp.isnan(value), jnp.nan, (1 + as_large) / (1 + draws))
    return value, null, p_value


def hosmer_lemeshow(
    scores: Any, y: Any, *, num_groups: int = 10, sample_weight: Any = None
) -> ChiSquared:
    """Test of fit: events in groups of like probability, against the sums of the probabilities.

    sum_g (O_g - E_g)^2 / (E_g (1 - E_g / n_g)) over groups between the quantiles of the
    probabilities, with two degrees fewer than there are groups (Hosmer and Lemeshow 1980; R's
    `hoslem.test` has the same quantiles). It depends on how many groups there are; `le_cessie`
    needs none.

    Args:
      scores: `(n,)` log-odds, of the rows that were fitted.
      y: `(n,)` in {0, 1}.
      num_groups: static.
      sample_weight: `(n,)`; counts of rows.

    Returns:
      A ChiSquared; equal probabilities are in one group, and groups that are left empty have no
      degree. NaN of fewer than three groups, and of scores that are no numbers where a row has
      weight.

    Raises:
      ValueError: shapes that do not fit, or fewer than three groups.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from jaxlin import inference, linear, logistic
      >>> x = jax.random.normal(jax.random.key(0), (300, 1))
      >>> far = jax.nn.sigmoid(2 * x[:, 0] ** 2 - 1)
      >>> y = (jax.random.uniform(jax.random.key(1), (300,)) < far).astype(int)
      >>> params, _ = logistic.fit(x, y)
      >>> test = inference.hosmer_lemeshow(linear.scores(params, x), y)
      >>> int(test.degrees), test.p_value.item() < 0.001
      (8, True)
    """
    num_groups = _checks.static(num_groups, int, "num_groups")
    if num_groups < 3:
        raise ValueError(f"num_groups: expected at least 3, got {num_groups}")
    _checks.refuse_other_rows(scores=scores, y=y, sample_weight=sample_weight)
    scores = _checks.real(scores, "scores")
    dtype, n = scores.dtype, len(scores) if scores.ndim else 0
    scores = _checks.shaped(scores, (n,), dtype, "scores")
    y = _checks.table(scores[:, None], y).y
    weight = _checks.optional(sample_weight, (n,), dtype, "sample_weight")
    weight = jnp.ones_like(scores) if weight is None else weight
    return _chi_squared(*_goodness.hosmer_lemeshow(num_groups, scores, y, weight))


def le_cessie(
    params: Hyperplane,
    x: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    feature_mask: Any = None,
    offset: Any = None,
    bias: bool = True,
    check: bool = True,
) -> Wald:
    """Test of fit: the sum of squares of y - p of a logistic regression, against what it should be.

    (S - E) / sd with S = sum_i (y_i - p_i)^2, E = sum_i p_i (1 - p_i), and sd of S - E given that p
    was fitted (le Cessie and van Houwelingen 1991; Copas 1989; Hosmer and others 1997), as R's
    `residuals(lrm, "gof")`.

    Args:
      params: a Hyperplane of `logistic.fit` without a penalty.
      x: `(n, d)`.
      y: `(n,)` in {0, 1}.
      sample_weight, feature_mask, offset, bias: as the fit had them; weights count rows.
      check: static; False takes params as they are, minimum or not.

    Returns:
      A Wald of `()`; NaN as `covariance` has it, and of a fit that has a coefficient for each
      group of rows that are alike, which leaves nothing.

    Raises:
      TypeError: params of several scores.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from jaxlin import inference, logistic
      >>> x = jax.random.normal(jax.random.key(0), (300, 1))
      >>> far = jax.nn.sigmoid(2 * x[:, 0] ** 2 - 1)
      >>> y = (jax.random.uniform(jax.random.key(1), (300,)) < far).astype(int)
      >>> params, _ = logistic.fit(x, y)
      >>> inference.le_cessie(params, x, y).p_value.item() < 0.001
      True
    """
    _one_score(params, "params")
    model, arguments = _estimate.asked(
        losses.logistic, params, x, y, bias, check, 0.0, sample_weight, feature_mask, offset
    )
    z = _goodness.le_cessie(model, arguments)
    return Wald(statistic=z, p_value=_two_sided(z))


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
    asked = _estimate.asked(
        loss, params, x, y, bias, check, l2, sample_weight, feature_mask, offset, reference
    )
    return _diagnostics.influence(*asked)


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
    asked = _estimate.asked(
        loss, params, x, y, bias, check, l2, sample_weight, feature_mask, offset
    )
    return _diagnostics.leverage(*asked)


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
    asked = _estimate.asked(
        loss, params, x, y, bias, check, l2, sample_weight, feature_mask, offset
    )
    return _diagnostics.cooks_distance(*asked)


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
    asked = _estimate.asked(
        loss, params, x, y, bias, check, l2, sample_weight, feature_mask, offset, reference
    )
    return _diagnostics.dfbetas(*asked)


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
    if loss is losses.logistic and jnp.issubdtype(jnp.result_type(y), jnp.floating):
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
    _one_score(params, "params")
    if not callable(kind):
        raise TypeError(f"kind: expected inference.pearson, deviance or response, got {kind!r}")
    asked = _estimate.asked(
        loss, params, x, y, bias, check, l2, sample_weight, feature_mask, offset
    )
    model, arguments = asked
    return _diagnostics.residuals(model, kind, arguments)


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
    asked = _estimate.asked(
        loss, params, x, y, bias, check, l2, sample_weight, feature_mask, offset
    )
    return _diagnostics.approximate_leave_one_out(*asked)


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
    bias = _checks.static(bias, bool, "bias")
    found = Separation(*_verdict.separation(bias, params, data, reference))
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
    spec, (size, *_) = _kinked.arranged(spec, penalty, l1, groups, num_groups, None, None)
    lead = () if k is None else (k,)
    found, valid = _kinked.proved_zero(
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
    found, valid = _verdict.aliased(_checks.static(bias, bool, "bias"), data)
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


def _one_score(params: Any, name: str) -> None:
    if not isinstance(params, Hyperplane):
        raise TypeError(f"{name}: expected a Hyperplane, got {type(params).__name__}")


def _kind(kind: str | None, params: Any, clustered: bool) -> str:
    if kind is None:
        return "HC1" if clustered else "HC0"
    if kind not in KINDS:
        raise ValueError(f"kind: expected one of {', '.join(KINDS)}, got {kind!r}")
    if kind in KINDS[2:] and not (clustered or isinstance(params, Hyperplane)):
        raise ValueError(
            f"kind: {kind} of a {type(params).__name__} is for clusters; with "
            "clusters=jnp.arange(n) each row is one"
        )
    return kind


def _ways(clusters: Any, n: int) -> list[jax.Array]:
    """The columns of clusters `(n,)` or `(n, r)`, whose ids may be of any size."""
    crossed = np.ndim(clusters) == 2
    if not crossed:
        columns = [clusters]
    elif isinstance(clusters, jax.Array):
        columns = list(clusters.T)
    else:
        columns = list(_codes.whole_numbers(clusters).T)
    ways = [_codes.ids(column, "clusters") for column in columns]
    if not ways or any(way.shape != (n,) for way in ways):
        raise ValueError(f"clusters: expected shape ({n},) or ({n}, r), got {np.shape(clusters)}")
    return ways


def _number_of_clusters(
    num_clusters: Any, ways: list[jax.Array], sample_weight: jax.Array | None
) -> int:
    """As given, or how many different clusters have rows with weight; not less than that."""
    if num_clusters is not None:
        num_clusters = _checks.static(num_clusters, int, "num_clusters")
    if not _checks.concrete((ways, sample_weight)):
        if num_clusters is None:
            words = "expected a static integer under a transformation, got None"
            raise TypeError(f"num_clusters: {words}")
        return num_clusters
    here = slice(None) if sample_weight is None else np.asarray(sample_weight) != 0
    found = max(1, *(len(np.unique(np.asarray(way)[here])) for way in ways))
    if num_clusters is not None and num_clusters < found:
        words = f"expected at least {found}, the clusters with rows"
        raise ValueError(f"num_clusters: {words}, got {num_clusters}")
    return found if num_clusters is None else num_clusters


@functools.partial(_platform.jit, static_argnums=0)
def _summary(model, arguments, level):
    found = _report.figures(model, arguments)
    spread = found.scale * _covariances.covariance(model, arguments)
    params = arguments.params
    if arguments.reference is not None:
        present = ~jnp.isneginf(params.bias)
        params = _estimate.in_form(params, present, arguments.reference)
    errors = standard_errors(params, spread)
    statistic, p_value = wald(params, spread)
    if model.loss is _estimate.of_numbers:
        free = found.number - found.degrees
        p_value = jax.tree.map(lambda t: _report.t_tail(t, free), statistic)
        reach = _report.t_quantile(level, free)
        odds, above = None, found.log_likelihood - found.null_log_likelihood
        r_squared = -jnp.expm1(-2 * above / found.number)
    else:
        reach = _reach(level)
        odds = jax.tree.map(jnp.exp, params)
        r_squared = 1 - found.log_likelihood / found.null_log_likelihood
    lower = jax.tree.map(lambda a, e: a - reach * e, params, errors)
    upper = jax.tree.map(lambda a, e: a + reach * e, params, errors)
    estimate, odds = _estimate.said((params, odds), found.proper)
    status = jnp.where(found.proper, Status.CONVERGED, Status.STALLED).astype(jnp.int32)
    return Summary(
        params=estimate,
        standard_errors=errors,
        statistic=statistic,
        p_value=p_value,
        lower=lower,
        upper=upper,
        odds_ratio=odds,
        level=level,
        number=found.number,
        events=found.events,
        degrees=found.degrees,
        log_likelihood=found.log_likelihood,
        null_log_likelihood=found.null_log_likelihood,
        aic=2 * (found.degrees - found.log_likelihood),
        bic=jnp.log(found.number) * found.degrees - 2 * found.log_likelihood,
        r_squared=r_squared,
        status=status,
    )


def _with_separation(found: Summary, told: Separation, penalised: jax.Array) -> Summary:
    """What has no minimum, with the coefficients that grow without end: with a penalty none do."""
    stalled = (found.status != Status.CONVERGED) & ~penalised
    none = told.status == Status.NOT_SEPARABLE
    endless = jax.tree.map(lambda a: jnp.where(jnp.isinf(a), a, jnp.nan), told.coefficients)
    params = jax.tree.map(lambda a, b: jnp.where(stalled, b, a), found.params, endless)
    status = jnp.where(stalled & ~none, told.status, found.status)
    return found._replace(params=params, status=status)


def _two_sided(z: jax.Array) -> jax.Array:
    """The probability that a standard normal number is further from 0."""
    return special.erfc(jnp.abs(z) / math.sqrt(2))


def _reach(level: jax.Array) -> jax.Array:
    """What a standard normal number is within, on both sides, with this probability."""
    return special.ndtri((1 + level) / 2)


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

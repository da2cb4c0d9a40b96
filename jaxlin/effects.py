"""What a column does to probabilities: marginal effects and risk differences, with their errors.

Coefficients are log-odds; what they come to in probabilities depends on the row. Each function
takes params, a covariance of them by `inference.covariance` or `inference.sandwich`, and rows: a
grid, or the rows of the fit. Standard errors are by the delta method, to first order, and rows are
taken as they are. Averages know that all rows share the same params.

Of a Hyperplane effects are on the probability of class 1, of a Linear on that of each class, which
sum to zero. Softmax's params and covariance must be of one form (`inference`); the effects do not
depend on which. Covariances that are NaN, as of separable classes, give errors that are NaN.

Shapes: `n` rows, `d` features, `k` classes; `(k)` stands for nothing where params are a Hyperplane.
"""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special

from jaxlin import _linalg, linear
from jaxlin._base import _checks, _platform
from jaxlin._infer import _forms
from jaxlin._linalg import dot
from jaxlin.types import Hyperplane, Linear

# Entries of the rows' derivatives that are held at once.
ENTRIES = 2**20
EXACT = jax.lax.Precision.HIGHEST


class Effect(NamedTuple):
    """Estimates with their uncertainty, each of one shape.

    estimate: a difference of probabilities, or per unit of a column
    standard_error: by the delta method
    p_value: two-sided, of the estimate being 0, by the normal distribution
    """

    estimate: jax.Array
    standard_error: jax.Array
    p_value: jax.Array


def marginal(params: Hyperplane | Linear, x: Any, covariance: Any) -> Effect:
    """How fast probabilities change with each column, at each row: dp / dx_j.

    p (1 - p) w_j of a Hyperplane, p_c (w_cj - sum_b p_b w_bj) of a Linear.

    Args:
      params: a Hyperplane or a Linear.
      x: `(n, d)`, a grid.
      covariance: `(P, P)`, of the params.

    Returns:
      An Effect of `(n, d, (k))`, for each unit of the column.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import effects, inference, logistic, losses
      >>> x, y = jnp.array([[0.0], [1.0], [2.0], [3.0]]), jnp.array([0, 1, 0, 1])
      >>> params, _ = logistic.fit(x, y)
      >>> covariance = inference.covariance(losses.logistic, params, x, y)
      >>> effects.marginal(params, jnp.array([[0.0], [1.5]]), covariance).estimate[:, 0].round(3)
      Array([0.147, 0.227], dtype=float64)
    """
    return _of_rows(_slopes, *_given(params, covariance, x=x))


def average_marginal(
    params: Hyperplane | Linear, x: Any, covariance: Any, *, sample_weight: Any = None
) -> Effect:
    """The mean over rows of `marginal`, as R's margins and statsmodels' `get_margeff` have it.

    Args:
      params: a Hyperplane or a Linear.
      x: `(n, d)`, the rows to average over, as a rule those of the fit.
      covariance: `(P, P)`, of the params.
      sample_weight: `(n,)`.

    Returns:
      An Effect of `(d, (k))`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import effects, inference, logistic, losses
      >>> x, y = jnp.array([[0.0], [1.0], [2.0], [3.0]]), jnp.array([0, 1, 0, 1])
      >>> params, _ = logistic.fit(x, y)
      >>> covariance = inference.covariance(losses.logistic, params, x, y)
      >>> found = effects.average_marginal(params, x, covariance)
      >>> f"{found.estimate[0]:.3f} +- {found.standard_error[0]:.3f}"
      '0.182 +- 0.133'
    """
    return _of_mean(_slopes, *_given(params, covariance, sample_weight, x=x))


def difference(params: Hyperplane | Linear, x: Any, other: Any, covariance: Any) -> Effect:
    """The risk difference of each pair of rows: p(other_i) - p(x_i).

    Args:
      params: a Hyperplane or a Linear.
      x: `(n, d)`.
      other: `(n, d)`, the same rows as they would be; say, all treated.
      covariance: `(P, P)`, of the params.

    Returns:
      An Effect of `(n, (k))`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import effects, inference, logistic, losses
      >>> x, y = jnp.array([[0.0], [1.0], [2.0], [3.0]]), jnp.array([0, 1, 0, 1])
      >>> params, _ = logistic.fit(x, y)
      >>> covariance = inference.covariance(losses.logistic, params, x, y)
      >>> found = effects.difference(params, jnp.zeros((1, 1)), jnp.ones((1, 1)), covariance)
      >>> f"{found.estimate[0]:.3f}"
      '0.185'
    """
    return _of_rows(_apart, *_given(params, covariance, x=x, other=other))


def average_difference(
    params: Hyperplane | Linear, x: Any, other: Any, covariance: Any, *, sample_weight: Any = None
) -> Effect:
    """The mean over rows of `difference`: by standardisation, the g-formula, the average effect.

    Args:
      params: a Hyperplane or a Linear.
      x: `(n, d)`, rows without the treatment.
      other: `(n, d)`, the same rows with it.
      covariance: `(P, P)`, of the params.
      sample_weight: `(n,)`; say, 1 for the treated alone.

    Returns:
      An Effect of `((k))`.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from jaxlin import effects, inference, logistic, losses
      >>> x = jax.random.normal(jax.random.key(0), (400, 2))
      >>> x = x.at[:, 0].set((x[:, 0] > 0).astype(x.dtype))
      >>> chance = jax.nn.sigmoid(x[:, 0] + x[:, 1])
      >>> y = (jax.random.uniform(jax.random.key(1), (400,)) < chance).astype(int)
      >>> params, _ = logistic.fit(x, y)
      >>> covariance = inference.covariance(losses.logistic, params, x, y)
      >>> untreated, treated = x.at[:, 0].set(0), x.at[:, 0].set(1)
      >>> found = effects.average_difference(params, untreated, treated, covariance)
      >>> bool(abs(found.estimate - 0.2) < 2 * found.standard_error)
      True
    """
    return _of_mean(_apart, *_given(params, covariance, sample_weight, x=x, other=other))


def _probabilities(params, row):
    found = linear.probabilities(params, row)
    return found[1] if isinstance(params, Hyperplane) else found


def _slopes(params, row):
    found = jax.jacfwd(lambda row: _probabilities(params, row))(row)
    return jnp.moveaxis(found, -1, 0)


def _apart(params, row, other):
    return _probabilities(params, other) - _probabilities(params, row)


def _given(params, covariance, sample_weight=None, **rows):
    if not isinstance(params, Hyperplane | Linear):
        raise TypeError(f"params: expected a Hyperplane or a Linear, got {type(params).__name__}")
    flat, _ = _forms.flat(params, covariance)
    x = rows["x"]
    _checks.refuse_other_rows(**rows, sample_weight=sample_weight)
    n, width = np.shape(x)[0] if np.ndim(x) else 0, np.shape(params.weights)[-1]
    if not n:
        raise ValueError(f"x: expected at least one row, shape (n, {width}), got {np.shape(x)}")
    rows = {name: _checks.shaped(a, (n, width), flat.dtype, name) for name, a in rows.items()}
    weight = _checks.optional(sample_weight, (n,), flat.dtype, "sample_weight")
    params = jax.tree.map(lambda a: jnp.asarray(a, flat.dtype), params)
    return params, jnp.asarray(covariance, flat.dtype), tuple(rows.values()), weight


@functools.partial(_platform.jit, static_argnums=0)
def _of_rows(function, params, covariance, rows, weight):
    _, spread, of_row = _looked_at(function, params, covariance)

    def one(rows):
        estimate, slope = of_row(rows)
        return _with_error(estimate, slope, spread)

    return jax.lax.map(one, rows, batch_size=_at_once(of_row, rows))


@functools.partial(_platform.jit, static_argnums=0)
def _of_mean(function, params, covariance, rows, weight):
    flat, spread, of_row = _looked_at(function, params, covariance)
    n = len(rows[0])
    weight = jnp.ones(n, flat.dtype) if weight is None else weight
    # A row without weight is absent, whatever it holds.
    known = functools.reduce(jnp.logical_and, (jnp.all(jnp.isfinite(a), axis=1) for a in rows))
    rows = [jnp.where(known[:, None], a, 0) for a in rows]
    lost = jnp.any((weight != 0) & ~known)
    part = jnp.where(known, weight, 0) / jnp.where(lost, jnp.nan, jnp.sum(weight))
    size = _at_once(of_row, rows)

    def step(sums, start):
        # The last rows overlap those before, whose parts are taken then.
        at = jnp.minimum(start, n - size)
        own, *block = (jax.lax.dynamic_slice_in_dim(a, at, size) for a in (part, *rows))
        own = jnp.where(at + jnp.arange(size, dtype=at.dtype) >= start, own, 0)
        each = jax.vmap(of_row)(block)
        return jax.tree.map(
            lambda s, a: s + jnp.tensordot(own, a, 1, precision=EXACT), sums, each
        ), ()

    shapes = jax.eval_shape(of_row, [a[0] for a in rows])
    sums = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)
    (estimate, slope), _ = jax.lax.scan(step, sums, jnp.arange(0, n, size, dtype=jnp.int32))
    return _with_error(estimate, slope, spread)


def _looked_at(function, params, covariance):
    """Flat params, their covariance, and `rows -> (estimate, its derivative (q, P))` of one row."""
    flat, back = _forms.flat(params, covariance)

    def of_row(rows):
        estimate = function(back(flat), *rows)
        return estimate, jax.jacrev(lambda flat: function(back(flat), *rows).reshape(-1))(flat)

    return flat, _forms.of_one_form(params, covariance), of_row


def _at_once(of_row, rows):
    """How many rows have their derivatives at once."""
    _, slope = jax.eval_shape(of_row, [a[0] for a in rows])
    return min(max(1, ENTRIES // max(1, slope.size)), len(rows[0]))


def _with_error(estimate, slope, spread):
    # In units of powers of two no square leaves the range.
    unit = _linalg.power_of_two(jnp.sqrt(jnp.maximum(jnp.diagonal(spread), 0)))
    slope = slope * unit[None, :]
    own = _linalg.power_of_two(jnp.max(jnp.abs(slope), axis=1))
    slope = slope / own[:, None]
    variance = jnp.sum(dot(slope, spread / unit[:, None] / unit[None, :]) * slope, axis=1)
    here = variance != 0
    error = jnp.where(here, own * jnp.sqrt(jnp.where(here, variance, 1)), 0)
    error = error.reshape(estimate.shape)
    z = jnp.where(error != 0, estimate / jnp.where(error != 0, error, 1), jnp.nan)
    p_value = special.erfc(jnp.abs(z) / math.sqrt(2))
    return Effect(estimate=estimate, standard_error=error, p_value=p_value)

"""The generative model: Gaussian classes, with a covariance each or one in common.

p(x, c) = prior_c N(x; m_c, S_c). Fitted by maximum likelihood it gives Bayes' rule
(`probabilities`), the density of x whatever its class (`log_density`: is this example like any that
were seen?), and new examples (`sample`). `to_linear` and `to_quadratic` turn it into the
classifiers that `lda` and `qda` fit directly. Forms are computed for all rows at once.

A singular covariance (RANK_DEFICIENT) has a density on its range only: forms and determinants are
those of the range, what lies outside of it is not seen. In a direction in which a class does not
vary and another does, or in which their means differ, the likelihood has no bound: QUASI_SEPARABLE
or SEPARABLE, and a small variance there, see `qda` and `lda`. Where rounding hides whether it is
singular, STALLED. `residual` is 0, `objective` minus the mean log likelihood, or -inf.

A covariance has the units of x squared. Where the dtype does not hold its digits, INVALID_DATA: a
standard deviation below 4e-17 in float32, not 0, needs other units; `lda` needs none.
Shapes: `n` examples, `d` features, `k` classes, `...` any leading axes.
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _checks, _invalid, _platform, _traits, _words
from jaxlin._batch import _lanes
from jaxlin._linalg import dot
from jaxlin._moments import _bayes, _flat, _scatter
from jaxlin.moments import ClassMoments, TiedMoments, per_class, tied
from jaxlin.types import DiagonalGaussian, Gaussian, Info, Linear, Quadratic, TiedGaussian

Gaussians = Gaussian | TiedGaussian | DiagonalGaussian


@_words.a_fit
def fit(
    x: Any,
    y: Any,
    *,
    num_classes: int | None = None,
    priors: Any = None,
    divisor: str = "n",
    sample_weight: Any = None,
    feature_mask: Any = None,
    axis_name: str | None = None,
) -> tuple[Gaussian, Info]:
    """Fit Gaussian classes, each with its own covariance.

    Args:
      x: `(n, d)`.
      y: `(n,)` class indices.
      num_classes: k, static; eagerly by default 1 + the largest label with weight.
      priors: `(k,)`, nonnegative, divided by their sum over the classes present; by default each
        class's part of the weight.
      divisor: of each class's scatter, static: "n" (maximum likelihood) or "n_k-1".
      sample_weight: `(n,)`, nonnegative; a row of weight 2 is the row twice.
      feature_mask: `(d,)` bool; a masked column has mean 0 and covariance 0.
      axis_name: static; the mesh axis over which the rows are dealt, inside `jax.shard_map`: see
        `distributed`.

    Returns:
      `(params, info)`, a Gaussian and an Info of status CONVERGED, RANK_DEFICIENT, STALLED (a
      covariance may be singular, or only nearly), QUASI_SEPARABLE, SEPARABLE, CLASS_TOO_SMALL (a
      class with no more rows than features, whose covariance is singular; or one class) or
      INVALID_DATA. An absent class has prior 0, mean 0 and the identity. O(n k d^2).

    Raises:
      ValueError: shapes that do not fit; eagerly also data that are not valid.
      TypeError: dtypes or static arguments of the wrong kind.

    Differentiable in x, sample_weight and priors.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import gaussian
      >>> x = jnp.array([[-1.0], [1.0], [1.0], [5.0]])
      >>> params, info = gaussian.fit(x, jnp.array([0, 0, 1, 1]))
      >>> params.means.tolist(), params.covariances.tolist()
      ([[0.0], [3.0]], [[[1.0]], [[4.0]]])
    """
    data = _checks.table(
        x, y, sample_weight=sample_weight, feature_mask=feature_mask, axis_name=axis_name
    )
    k = _checks.number_of_classes(num_classes, y, sample_weight)
    divisor = _bayes.check_divisor(divisor, _bayes.CLASS_DIVISORS)
    given = _bayes.options(_checks.working_dtype(data.x), k, priors=priors)
    params, info = _fit(k, divisor, data, given)
    _invalid.raise_if_invalid(info, data, num_classes=k, nonnegative={"priors": priors})
    return params, info


@_words.a_fit
def fit_tied(
    x: Any,
    y: Any,
    *,
    num_classes: int | None = None,
    priors: Any = None,
    divisor: str = "n",
    sample_weight: Any = None,
    feature_mask: Any = None,
    axis_name: str | None = None,
) -> tuple[TiedGaussian, Info]:
    """Fit Gaussian classes that share one covariance.

    Args:
      x: `(n, d)`.
      y: `(n,)` class indices.
      num_classes: k, static; eagerly by default 1 + the largest label with weight.
      priors: `(k,)`, as in `fit`.
      divisor: of the scatter within, static: "n" or "n-k".
      sample_weight: `(n,)`, nonnegative; a row of weight 2 is the row twice.
      feature_mask: `(d,)` bool; a masked column has mean 0 and covariance 0.
      axis_name: static; the mesh axis over which the rows are dealt, inside `jax.shard_map`: see
        `distributed`.

    Returns:
      `(params, info)`, a TiedGaussian and an Info of status CONVERGED, RANK_DEFICIENT, STALLED,
      QUASI_SEPARABLE, SEPARABLE, CLASS_TOO_SMALL (one class) or INVALID_DATA. O(n d^2).

    Raises:
      ValueError: shapes that do not fit; eagerly also data that are not valid.
      TypeError: dtypes or static arguments of the wrong kind.

    Differentiable in x, sample_weight and priors.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import gaussian
      >>> x = jnp.array([[-1.0], [1.0], [3.0], [5.0]])
      >>> params, info = gaussian.fit_tied(x, jnp.array([0, 0, 1, 1]))
      >>> params.covariance.tolist(), params.priors.tolist()
      ([[1.0]], [0.5, 0.5])
    """
    data = _checks.table(
        x, y, sample_weight=sample_weight, feature_mask=feature_mask, axis_name=axis_name
    )
    k = _checks.number_of_classes(num_classes, y, sample_weight)
    divisor = _bayes.check_divisor(divisor, _bayes.TIED_DIVISORS)
    given = _bayes.options(_checks.working_dtype(data.x), k, priors=priors)
    params, info = _fit_tied(k, divisor, data, given)
    _invalid.raise_if_invalid(info, data, num_classes=k, nonnegative={"priors": priors})
    return params, info


def fit_from_moments(
    moments_of_data: ClassMoments, *, priors: Any = None, divisor: str = "n"
) -> tuple[Gaussian, Info]:
    """Fit a covariance per class from merged statistics instead of data.

    Args:
      moments_of_data: of `moments.per_class`.
      priors: `(k,)`, or None.
      divisor: "n" or "n_k-1".

    Returns:
      `(params, info)`, as `fit` returns them.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import gaussian, moments
      >>> x = jnp.array([[-1.0], [1.0], [1.0], [5.0]])
      >>> m = moments.per_class(x, jnp.array([0, 0, 1, 1]))
      >>> gaussian.fit_from_moments(m)[0].covariances.tolist()
      [[[1.0]], [[4.0]]]
    """
    divisor = _bayes.check_divisor(divisor, _bayes.CLASS_DIVISORS)
    s = _scatter.of_moments(moments_of_data, ClassMoments)
    given = _bayes.options(s.weight.dtype, len(s.weight), priors=priors)
    return _own_from_moments(divisor, s, given)


def fit_tied_from_moments(
    moments_of_data: TiedMoments | ClassMoments, *, priors: Any = None, divisor: str = "n"
) -> tuple[TiedGaussian, Info]:
    """Fit one covariance from merged statistics instead of data.

    Args:
      moments_of_data: of `moments.tied` or `moments.per_class`.
      priors: `(k,)`, or None.
      divisor: "n" or "n-k".

    Returns:
      `(params, info)`, as `fit_tied` returns them.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import gaussian, moments
      >>> m = moments.tied(jnp.array([[-1.0], [1.0], [3.0], [5.0]]), jnp.array([0, 0, 1, 1]))
      >>> gaussian.fit_tied_from_moments(m)[0].covariance.tolist()
      [[1.0]]
    """
    divisor = _bayes.check_divisor(divisor, _bayes.TIED_DIVISORS)
    s = _scatter.of_moments(moments_of_data, TiedMoments, ClassMoments)
    given = _bayes.options(s.weight.dtype, len(s.weight), priors=priors)
    return _tied_from_moments(divisor, s, given)


def log_joint(params: Gaussians, x: Any) -> jax.Array:
    """log p(x, c) of every class: the logarithm of its prior times its density.

    Args:
      params: a Gaussian, a TiedGaussian or a DiagonalGaussian.
      x: `(..., d)`.

    Returns:
      `(..., k)`, in nats; -inf for a class of prior 0. O(k d^2) an example, or O(k d).

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import gaussian
      >>> from jaxlin.types import TiedGaussian
      >>> one = TiedGaussian(jnp.zeros((1, 1)), jnp.eye(1), jnp.ones(1))
      >>> f"{gaussian.log_joint(one, jnp.array([0.0])).item():.4f}"
      '-0.9189'
    """
    means, covariances, priors = _parts(params)
    x = _checks.real(x, "x")
    if x.ndim < 1 or x.shape[-1] != means.shape[-1]:
        raise ValueError(f"x: expected shape (..., {means.shape[-1]}), got {x.shape}")
    dtype = _checks.wider(_checks.working_dtype(x), _checks.working_dtype(means))
    if isinstance(params, DiagonalGaussian):
        return _log_joint_of_columns(*(a.astype(dtype) for a in (*map(jnp.asarray, params), x)))
    tied = isinstance(params, TiedGaussian)
    return _log_joint(tied, *(a.astype(dtype) for a in (means, covariances, priors, x)))


def scores(params: Gaussians, x: Any) -> jax.Array:
    """The same as `log_joint`: what the largest of predicts.

    Args:
      params: a Gaussian, a TiedGaussian or a DiagonalGaussian.
      x: `(..., d)`.

    Returns:
      `(..., k)`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import gaussian
      >>> from jaxlin.types import TiedGaussian
      >>> two = TiedGaussian(jnp.array([[0.0], [2.0]]), jnp.eye(1), jnp.array([0.5, 0.5]))
      >>> s = gaussian.scores(two, jnp.array([2.0]))
      >>> (s[1] - s[0]).round(3).item()
      2.0
    """
    return log_joint(params, x)


def predict(params: Gaussians, x: Any) -> jax.Array:
    """The class of the largest joint density; ties go to the lowest class.

    Args:
      params: a Gaussian, a TiedGaussian or a DiagonalGaussian.
      x: `(..., d)`.

    Returns:
      int32 `(...)`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import gaussian
      >>> from jaxlin.types import TiedGaussian
      >>> two = TiedGaussian(jnp.array([[0.0], [2.0]]), jnp.eye(1), jnp.array([0.5, 0.5]))
      >>> gaussian.predict(two, jnp.array([[0.9], [1.1]])).tolist()
      [0, 1]
    """
    return jnp.argmax(log_joint(params, x), axis=-1).astype(jnp.int32)


def log_density(params: Gaussians, x: Any) -> jax.Array:
    """log p(x), whatever the class: the logarithm of the sum of the joint densities.

    Args:
      params: a Gaussian, a TiedGaussian or a DiagonalGaussian.
      x: `(..., d)`.

    Returns:
      `(...)`, in nats.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import gaussian
      >>> from jaxlin.types import TiedGaussian
      >>> same = TiedGaussian(jnp.zeros((2, 1)), jnp.eye(1), jnp.array([0.5, 0.5]))
      >>> f"{gaussian.log_density(same, jnp.array([0.0])).item():.4f}"
      '-0.9189'
    """
    return jax.nn.logsumexp(log_joint(params, x), axis=-1)


def probabilities(params: Gaussians, x: Any) -> jax.Array:
    """Bayes' rule: p(c | x) = p(x, c) / p(x).

    Args:
      params: a Gaussian, a TiedGaussian or a DiagonalGaussian.
      x: `(..., d)`.

    Returns:
      `(..., k)`, rows summing to 1.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import gaussian
      >>> from jaxlin.types import TiedGaussian
      >>> two = TiedGaussian(jnp.array([[0.0], [2.0]]), jnp.eye(1), jnp.array([0.5, 0.5]))
      >>> gaussian.probabilities(two, jnp.array([1.0])).tolist()
      [0.5, 0.5]
    """
    return jax.nn.softmax(log_joint(params, x), axis=-1)


def log_probabilities(params: Gaussians, x: Any) -> jax.Array:
    """The logarithm of `probabilities`, accurate where they underflow.

    Args:
      params: a Gaussian, a TiedGaussian or a DiagonalGaussian.
      x: `(..., d)`.

    Returns:
      `(..., k)`, in nats.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import gaussian
      >>> from jaxlin.types import TiedGaussian
      >>> two = TiedGaussian(jnp.array([[0.0], [2.0]]), jnp.eye(1), jnp.array([0.5, 0.5]))
      >>> gaussian.log_probabilities(two, jnp.array([501.0]))[0].round(1).item()
      -1000.0
    """
    return jax.nn.log_softmax(log_joint(params, x), axis=-1)


@_words.keyed
@functools.partial(jax.jit, static_argnames="num_samples")
def sample(key: jax.Array, params: Gaussians, num_samples: int) -> tuple[jax.Array, jax.Array]:
    """New examples with their classes.

    Args:
      key: a PRNG key.
      params: a Gaussian, a TiedGaussian or a DiagonalGaussian.
      num_samples: n, static.

    Returns:
      `(x (n, d), y (n,) int32)`, drawn from p(x, c). O(n d^2 + k d^3).

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from jaxlin import gaussian
      >>> from jaxlin.types import TiedGaussian
      >>> two = TiedGaussian(jnp.array([[0.0], [20.0]]), jnp.eye(1), jnp.array([0.5, 0.5]))
      >>> x, y = gaussian.sample(jax.random.key(0), two, 100)
      >>> bool(jnp.all((x[:, 0] > 10) == (y == 1)))
      True
    """
    means, covariances, priors = _parts(params)
    label_key, noise_key = jax.random.split(key)
    y = jax.random.categorical(label_key, jnp.log(priors), shape=(num_samples,))
    noise = jax.random.normal(noise_key, (num_samples, means.shape[1]), means.dtype)
    if isinstance(params, DiagonalGaussian):
        deviation = jnp.sqrt(jnp.asarray(params.variances))
        return means[y] + noise * deviation[y], y.astype(jnp.int32)
    if isinstance(params, TiedGaussian):
        return means[y] + dot(noise, _root(params.covariance)), y.astype(jnp.int32)

    def of_class(one):
        mean, covariance = one
        return mean[None, :] + dot(noise, _root(covariance))

    each = jax.lax.map(of_class, (means, covariances))
    return each[y, jnp.arange(num_samples)], y.astype(jnp.int32)


@jax.jit
def to_linear(params: TiedGaussian) -> Linear:
    """The linear classifier of Gaussian classes that share a covariance: that of `lda`.

    Args:
      params: a TiedGaussian.

    Returns:
      A Linear; bias -inf for a class of prior 0.

    Raises:
      TypeError: the classes do not share a covariance.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import gaussian
      >>> from jaxlin.types import TiedGaussian
      >>> two = TiedGaussian(jnp.array([[0.0], [2.0]]), jnp.eye(1), jnp.array([0.5, 0.5]))
      >>> gaussian.to_linear(two).weights.tolist()
      [[0.0], [2.0]]
    """
    if not isinstance(params, TiedGaussian):
        raise TypeError(f"params: expected a TiedGaussian, got {type(params).__name__}")
    means, covariance, priors = (jnp.asarray(a) for a in params)
    unit, covariance, inverse = _in_units(covariance)
    means = means * unit[None, :]
    centre = dot(priors, means)
    apart = means - centre[None, :]
    logs = _bayes.log_of(priors)
    weights, bias, _ = _bayes.linear_scores(inverse, apart, centre, logs)
    weights = weights * unit[None, :]
    return Linear(weights=jnp.where((priors > 0)[:, None], weights, 0), bias=bias)


@jax.jit
def to_quadratic(params: Gaussians) -> Quadratic:
    """The quadratic classifier of Gaussian classes: that of `qda`.

    Args:
      params: a Gaussian, a TiedGaussian or a DiagonalGaussian.

    Returns:
      A Quadratic; bias -inf for a class of prior 0. The form of a class is NaN where the dtype does
      not hold it, see `qda`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import gaussian
      >>> from jaxlin.types import Gaussian
      >>> one = Gaussian(jnp.ones((1, 1)), jnp.array([[[0.5]]]), jnp.ones(1))
      >>> gaussian.to_quadratic(one).quadratic.round(6).tolist()
      [[[-1.0]]]
    """
    means, covariances, priors = _parts(params)
    unit, _, inverses = jax.vmap(_in_units)(covariances)
    means = means * unit
    weights = jnp.sum(inverses.matrix * means[:, None, :], axis=2)
    form = jnp.sum(weights * means, axis=1)
    bias = _bayes.log_of(priors) - (form + inverses.log_determinant) / 2
    matrix, held = jax.vmap(_linalg.turned)(inverses.matrix, unit)
    matrix = jnp.where(held[:, None, None], matrix, jnp.nan)
    return Quadratic(quadratic=-matrix / 2, weights=weights * unit, bias=bias)


def _in_units(covariance: jax.Array) -> tuple[jax.Array, jax.Array, _linalg.Inverse]:
    """Powers of two `(d,)` that make the variances about 1, the covariance so, and its inverse."""
    variance = jax.lax.stop_gradient(jnp.diagonal(covariance))
    unit = 1 / _linalg.power_of_two(jnp.sqrt(jnp.maximum(variance, 0)))
    covariance = _linalg.on_both_sides(covariance, unit)
    return unit, covariance, _linalg.pseudo_inverse(covariance, unit=unit)


def _parts(params: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Means `(k, d)`, covariances `(k, d, d)` and priors `(k,)`."""
    if not isinstance(params, Gaussians):
        raise TypeError(f"params: expected a Gaussian, got {type(params).__name__}")
    means, covariances, priors = (jnp.asarray(a) for a in params)
    k, d = means.shape if means.ndim == 2 else (0, 0)
    shapes = {TiedGaussian: (d, d), DiagonalGaussian: (k, d)}
    shape = shapes.get(type(params), (k, d, d))
    if means.ndim != 2 or covariances.shape != shape or priors.shape != (k,):
        raise ValueError(
            f"params: expected a {type(params).__name__} of means (k, d), got means {means.shape}, "
            f"covariance {covariances.shape} and priors {priors.shape}; "
            "jax.vmap over a leading axis"
        )
    if isinstance(params, TiedGaussian):
        covariances = jnp.broadcast_to(covariances[None], (k, d, d))
    if isinstance(params, DiagonalGaussian):
        covariances = jax.vmap(jnp.diag)(covariances)
    return means, covariances, priors


def _root(covariance: jax.Array) -> jax.Array:
    """A root R of a covariance that may be singular: R'R is the covariance."""
    unit, covariance, _ = _in_units(covariance)
    values, vectors = _linalg.eigh(covariance)
    return jnp.sqrt(jnp.maximum(values, 0))[:, None] * vectors.T / unit[None, :]


@_platform.jit
def _log_joint_of_columns(means, variances, priors, x):
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])

    def of_class(one):
        mean, variance = one
        seen = variance > 0
        deviation = jnp.sqrt(jnp.where(seen, variance, 1))
        z = jnp.where(seen[None, :], (rows - mean[None, :]) / deviation[None, :], 0)
        # Of the deviation, whose square may leave the range.
        logs = jnp.where(seen, 2 * jnp.log(deviation) + math.log(2 * math.pi), 0)
        return -(jnp.sum(z * z, axis=1) + jnp.sum(logs)) / 2

    each = jax.lax.map(of_class, (means, variances))
    return (each.T + _bayes.log_of(priors)[None, :]).reshape(*x.shape[:-1], len(means))


@functools.partial(_platform.jit, static_argnums=0)
def _log_joint(tied, means, covariances, priors, x):
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    if tied:
        found = _in_units(covariances[0])
        found = jax.tree.map(lambda a: jnp.broadcast_to(a, (len(means), *a.shape)), found)
    else:
        found = jax.vmap(_in_units)(covariances)
    unit, _, inverses = found

    def of_class(one):
        mean, unit, inverse, log_determinant = one
        z = (rows - mean[None, :]) * unit[None, :]
        return -(jnp.sum(dot(z, inverse) * z, axis=1) + log_determinant) / 2

    each = jax.lax.map(of_class, (means, unit, inverses.matrix, inverses.log_determinant))
    level = _bayes.log_of(priors) - means.shape[1] * math.log(2 * math.pi) / 2
    return (each.T + level[None, :]).reshape(*x.shape[:-1], len(means))


@functools.partial(_platform.jit, static_argnums=(0, 1))
def _fit(k, divisor, data, given):
    @_lanes.of_closed_form
    def fit(data, given):
        s, valid, rows = _bayes.of_data(data, k, per_class=True)
        return _own(divisor, s, valid, given, data.feature_mask, data, rows)

    return fit(data, given)


@functools.partial(_platform.jit, static_argnums=0)
def _own_from_moments(divisor, s, given):
    return _own(divisor, s, _bayes.valid_moments(s), given, None, s)


@functools.partial(_platform.jit, static_argnums=(0, 1))
def _fit_tied(k, divisor, data, given):
    @_lanes.of_closed_form
    def fit(data, given):
        s, valid, rows = _bayes.of_data(data, k, per_class=False)
        return _common(divisor, s, valid, given, data.feature_mask, data, rows)

    return fit(data, given)


@functools.partial(_platform.jit, static_argnums=0)
def _tied_from_moments(divisor, s, given):
    return _common(divisor, _scatter.tied(s), _bayes.valid_moments(s), given, None, s)


def _own(divisor, s, valid, given, mask, source, rows=None):
    valid &= _bayes.valid_options(given, s)
    priors = _bayes.class_priors(given, s)
    covariances = _bayes.class_covariances(s, divisor, given, mask)
    present = s.rows > 0
    seen, within = rows is not None, _bayes.tied_covariance(s, "n", _bayes.Options(), mask)
    inverses = _flat.class_inverses(covariances, s, within, mask, seen=seen)
    covariances = jnp.where((inverses.told > 0)[:, None, None], inverses.of, covariances)
    d = _bayes.number_of_features(s, mask)
    small = jnp.any(_bayes.few_rows(s, given, mask))
    there = jnp.ones(covariances.shape[-1], bool) if mask is None else mask
    eye = jnp.diag(there.astype(covariances.dtype))
    turned, held = _linalg.turned(covariances, 1 / s.unit)
    valid &= jnp.all(held)
    params = Gaussian(
        means=_scatter.given_means(s),
        covariances=jnp.where(present[:, None, None], turned, eye[None]),
        priors=priors,
    )
    objective = _bayes.class_negative_log_likelihood(s, priors, inverses, d)
    solved = _bayes.solved(inverses, rows, len(priors), told=_flat.status(inverses, present))
    info = _bayes.verdict(s, valid, small, solved, objective)
    return _bayes.settled(params, info, valid, (source, given))


def _common(divisor, s, valid, given, mask, source, rows=None):
    valid &= _bayes.valid_options(given, s)
    priors = _bayes.class_priors(given, s)
    covariance = _bayes.tied_covariance(s, divisor, given, mask)
    inverse = _flat.tied_inverse(covariance, s, mask, seen=rows is not None)
    covariance = jnp.where(inverse.told > 0, inverse.of, covariance)
    turned, held = _linalg.turned(covariance, 1 / s.unit)
    valid &= held
    params = TiedGaussian(means=_scatter.given_means(s), covariance=turned, priors=priors)
    d = _bayes.number_of_features(s, mask)
    objective = _bayes.negative_log_likelihood(s, priors, covariance, inverse, d)
    small = _bayes.no_degrees(s, divisor)
    lacking = _bayes.few_degrees(s, given, mask)
    solved = _bayes.solved(inverse, rows, len(priors), lacking, told=inverse.told)
    info = _bayes.verdict(s, valid, small, solved, objective)
    return _bayes.settled(params, info, valid & ~small, (source, given))


_traits.declare(fit, log_odds=True, moments=(per_class, fit_from_moments))
_traits.declare(fit_tied, log_odds=True, moments=(tied, fit_tied_from_moments))

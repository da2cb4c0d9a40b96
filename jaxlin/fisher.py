"""Fisher's linear discriminant: the direction along which two classes lie farthest apart.

w = S_W^-1 (m_1 - m_0) maximises J(w) = (m_1 - m_0)^2 / (s_0^2 + s_1^2) of the projections, s^2
being their scatter (Fisher 1936; Duda, Hart and Stork, section 3.8.2); its length is that for S_W
divided by the sum of the weights, as in `lda`. Nothing is assumed of the
classes' shape; where to cut is a choice of its own, `threshold`. For k classes `directions` gives
the at most k - 1 axes on which they are told apart: a picture, or features for another method.

A singular scatter is inverted on its range, RANK_DEFICIENT; STALLED where rounding hides whether it
is, see `lda`. Where the classes differ along a direction in which neither varies J is infinite: the
params are that direction, and the status SEPARABLE. `residual` is 0, `objective` is -J times the
sum of the weights.
Shapes: `n` examples, `d` features, `k` classes, `r` directions.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _checks, _invalid, _mesh, _options, _platform, _traits, _words
from jaxlin._data import _fold, _prepare
from jaxlin._linalg import dot
from jaxlin._moments import _bayes, _flat, _scatter, _statistics
from jaxlin.types import Hyperplane, Info, Status

Threshold = Callable[..., jax.Array]


def midpoint(
    projection: jax.Array,
    y: jax.Array,
    *,
    sample_weight: jax.Array,
    axis_name: str | None = None,
) -> jax.Array:
    """Half way between the projected means.

    Args:
      projection: `(n,)`, w . x.
      y: `(n,)` in {0, 1}.
      sample_weight: `(n,)`.
      axis_name: static; the mesh axis over which the rows are dealt, as in `fit`.

    Returns:
      `()`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import fisher
      >>> p, y = jnp.array([0.0, 2.0, 6.0]), jnp.array([0, 0, 1])
      >>> fisher.midpoint(p, y, sample_weight=jnp.ones(3)).item()
      3.5
    """
    _, mean, _ = _projected(projection, y, sample_weight, _checks.axis_of(axis_name))
    return (mean[0] + mean[1]) / 2


def equal_variance(
    projection: jax.Array,
    y: jax.Array,
    *,
    sample_weight: jax.Array,
    axis_name: str | None = None,
) -> jax.Array:
    """Where two Gaussians of the same variance, weighed by the classes' sizes, are equal.

    Args:
      projection: `(n,)`, w . x.
      y: `(n,)` in {0, 1}.
      sample_weight: `(n,)`.
      axis_name: static; the mesh axis over which the rows are dealt, as in `fit`.

    Returns:
      `()`: (m_0 + m_1)/2 - v log(n_1 / n_0) / (m_1 - m_0); with it Fisher's plane is that of
      `lda`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import fisher
      >>> p, y = jnp.array([0.0, 2.0, 5.0, 7.0]), jnp.array([0, 0, 1, 1])
      >>> fisher.equal_variance(p, y, sample_weight=jnp.ones(4)).item()
      3.5
    """
    size, mean, scatter = _projected(projection, y, sample_weight, _checks.axis_of(axis_name))
    variance = jnp.sum(scatter) / jnp.sum(size)
    apart = mean[1] - mean[0]
    return (mean[0] + mean[1]) / 2 - variance * jnp.log(size[1] / size[0]) / apart


def least_error(projection: jax.Array, y: jax.Array, *, sample_weight: jax.Array) -> jax.Array:
    """A cut with the least weight of rows on the wrong side; of several, the lowest.

    Args:
      projection: `(n,)`, w . x.
      y: `(n,)` in {0, 1}.
      sample_weight: `(n,)`.

    Returns:
      `()`, half way between two neighbours, or beyond all rows. No derivative.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import fisher
      >>> p, y = jnp.array([0.0, 2.0, 5.0, 7.0]), jnp.array([0, 0, 0, 1])
      >>> fisher.least_error(p, y, sample_weight=jnp.ones(4)).item()
      6.0
    """
    y = _checks.array(y, "y")
    place = jnp.where(sample_weight > 0, projection, jnp.inf)
    order = jnp.argsort(place)
    place, weight, label = place[order], sample_weight[order], y[order] > 0
    below = jnp.concatenate([jnp.zeros(1, weight.dtype), jnp.cumsum(jnp.where(label, weight, 0))])
    above = jnp.where(label, 0, weight)
    above = jnp.concatenate([jnp.cumsum(above[::-1])[::-1], jnp.zeros(1, weight.dtype)])
    step = jnp.maximum(1, jnp.abs(place[0]))
    low = jnp.concatenate([place[:1] - 2 * step, place])
    high = jnp.concatenate([place, jnp.full(1, jnp.inf, place.dtype)])
    high = jnp.where(jnp.isinf(high), low + 2 * jnp.maximum(1, jnp.abs(low)), high)
    error = jnp.where((high > low) & jnp.isfinite(low), below + above, jnp.inf)
    best = jnp.argmin(error)
    return low[best] + (high[best] - low[best]) / 2


@_words.a_fit
def fit(
    x: Any,
    y: Any,
    *,
    threshold: Threshold = midpoint,
    sample_weight: Any = None,
    feature_mask: Any = None,
    axis_name: str | None = None,
) -> tuple[Hyperplane, Info]:
    """Fisher's direction, and a cut along it.

    Args:
      x: `(n, d)`.
      y: `(n,)` in {0, 1}.
      threshold: static; `midpoint`, `equal_variance`, `least_error`, or any function of
        `(projection (n,), y, *, sample_weight)` that returns where to cut.
      sample_weight: `(n,)`, nonnegative; a row of weight 2 is the row twice.
      feature_mask: `(d,)` bool; a masked column has weight 0.
      axis_name: static; the mesh axis over which the rows are dealt, inside `jax.shard_map`: see
        `distributed`.

    Returns:
      `(params, info)`, a Hyperplane and an Info of status CONVERGED, RANK_DEFICIENT, STALLED,
      SEPARABLE, CLASS_TOO_SMALL (a class without rows: params NaN) or INVALID_DATA. O(n d^2).

    Raises:
      ValueError: shapes that do not fit; eagerly also data that are not valid.
      TypeError: dtypes or static arguments of the wrong kind.

    Differentiable in x and sample_weight, with a threshold that is.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import fisher
      >>> x = jnp.array([[-1.0], [1.0], [3.0], [5.0]])
      >>> params, info = fisher.fit(x, jnp.array([0, 0, 1, 1]))
      >>> params.weights.round(3).tolist(), params.bias.round(3).item()
      ([4.0], -8.0)
    """
    data = _checks.table(
        x, y, sample_weight=sample_weight, feature_mask=feature_mask, axis_name=axis_name
    )
    if not callable(threshold):
        raise TypeError(f"threshold: expected a function like fisher.midpoint, got {threshold!r}")
    if axis_name is not None and not _options.takes(threshold, "axis_name"):
        name = getattr(threshold, "__name__", repr(threshold))
        raise TypeError(f"threshold: {name} has no argument axis_name: it needs all rows at once")
    params, info = _fit(threshold, data)
    _invalid.raise_if_invalid(info, data)
    return params, info


def criterion(direction: Any, x: Any, y: Any, *, sample_weight: Any = None) -> jax.Array:
    """Fisher's criterion J = (m_1 - m_0)^2 / (s_0^2 + s_1^2) of the projections on a direction.

    Args:
      direction: `(d,)`.
      x: `(n, d)`.
      y: `(n,)` in {0, 1}.
      sample_weight: `(n,)`.

    Returns:
      `()`; s^2 are sums of squared deviations, so J falls with the number of rows.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import fisher
      >>> x = jnp.array([[-1.0], [1.0], [3.0], [5.0]])
      >>> fisher.criterion(jnp.array([1.0]), x, jnp.array([0, 0, 1, 1])).item()
      4.0
    """
    data = _checks.table(x, y, sample_weight=sample_weight)
    dtype = _checks.working_dtype(data.x)
    direction = _checks.shaped(direction, data.x.shape[1:], dtype, "direction")
    return _criterion(data, direction)


def directions(
    x: Any,
    y: Any,
    *,
    num_classes: int | None = None,
    num_directions: int | None = None,
    divisor: str = "n",
    sample_weight: Any = None,
    feature_mask: Any = None,
) -> jax.Array:
    """The axes that tell k classes apart, best first: Rayleigh's quotient v'S_B v / v'S_W v.

    Args:
      x: `(n, d)`.
      y: `(n,)` class indices.
      num_classes: k, static; eagerly by default 1 + the largest label with weight.
      num_directions: r, static, at most min(k - 1, d), which is the default.
      divisor: of the scatter within, static: "n" or "n-k".
      sample_weight: `(n,)`, nonnegative.
      feature_mask: `(d,)` bool; a masked column has entries 0.

    Returns:
      `(d, r)`, columns that make the covariance within classes the identity, the entry of largest
      size positive. Where the class means span fewer than r axes the others are 0. NaN under a
      transformation where the data are not valid.

    Raises:
      ValueError: shapes that do not fit; eagerly also data that are not valid.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import fisher
      >>> x = jnp.array([[-1.0], [1.0], [3.0], [5.0]])
      >>> fisher.directions(x, jnp.array([0, 0, 1, 1])).round(6).tolist()
      [[1.0]]
    """
    data = _checks.table(x, y, sample_weight=sample_weight, feature_mask=feature_mask)
    k = _checks.number_of_classes(num_classes, y, sample_weight)
    divisor = _bayes.check_divisor(divisor, _bayes.TIED_DIVISORS)
    most = max(min(k - 1, data.x.shape[1]), 1)
    r = most if num_directions is None else _checks.static(num_directions, int, "num_directions")
    if not 1 <= r <= most:
        raise ValueError(f"num_directions: expected from 1 to {most}, got {r}")
    axes, info = _directions(k, r, divisor, data)
    _invalid.raise_if_invalid(info, data, num_classes=k)
    return axes


def rayleigh_quotient(
    axes: Any,
    x: Any,
    y: Any,
    *,
    num_classes: int | None = None,
    divisor: str = "n",
    sample_weight: Any = None,
) -> jax.Array:
    """v'B v / v'W v of each axis: how much farther apart the class means lie than the rows.

    Args:
      axes: `(d, r)`, as `directions` returns them.
      x: `(n, d)`.
      y: `(n,)` class indices.
      num_classes: k, static; eagerly by default 1 + the largest label with weight.
      divisor: static: with "n" both are scatter over n; with "n-k", W is scatter over n - k and
        B over k - 1, a ratio of variances (R's singular values squared).
      sample_weight: `(n,)`.

    Returns:
      `(r,)`; for Fisher's own axes the eigenvalues of W^-1 B.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import fisher
      >>> x, y = jnp.array([[-1.0], [1.0], [3.0], [5.0]]), jnp.array([0, 0, 1, 1])
      >>> fisher.rayleigh_quotient(jnp.array([[1.0]]), x, y).tolist()
      [4.0]
    """
    data = _checks.table(x, y, sample_weight=sample_weight)
    k = _checks.number_of_classes(num_classes, y, sample_weight)
    divisor = _bayes.check_divisor(divisor, _bayes.TIED_DIVISORS)
    axes = _checks.matrix(axes, "axes").astype(_checks.working_dtype(data.x))
    return _rayleigh_quotient(k, divisor, data, axes)


def _projected(projection, y, sample_weight, axis):
    """Size, mean and scatter of the projections of each class, `(2,)` each."""
    y = _checks.array(y, "y")
    member = jnp.stack([y < 1, y > 0])
    weight = jnp.where(member, sample_weight[None, :], 0)
    sums = jnp.sum(weight, axis=1), jnp.sum(weight * projection[None, :], axis=1)
    (size, total), _ = _mesh.across(sums, (), axis)
    mean = total / jnp.where(size > 0, size, 1)
    apart = jnp.where(member, projection[None, :] - mean[:, None], 0)
    return size, mean, _mesh.across(jnp.sum(weight * apart**2, axis=1), (), axis)[0]


@functools.partial(_platform.jit, static_argnums=0)
def _fit(threshold, data):
    s, rows, total, valid = _statistics.of_data(data, 2)
    inverse = _flat.tied_inverse(s.scatter, s, data.feature_mask)
    apart = s.offset[1] - s.offset[0]
    weights = _linalg.refined(inverse, apart[None, :])[0]
    # There the criterion is infinite, and any part of the other directions would make it finite.
    flat = dot(dot(apart, inverse.wide), inverse.wide.T)
    weights = jnp.where(inverse.told >= Status.QUASI_SEPARABLE, flat, weights)
    origin = s.centre + _scatter.mean(s)
    projection = _fold.map_rows(lambda block: dot(block.x - origin[None, :], weights), rows)
    weight = rows.weight * jnp.where(valid, total, 0)
    shared = {} if rows.axis.name is None else {"axis_name": rows.axis.name}
    cut = threshold(projection, rows.y, sample_weight=weight, **shared)
    params = Hyperplane(weights=weights * s.unit, bias=-cut - dot(weights, origin))
    alone = jnp.any(s.rows == 0)
    told = jnp.maximum(dot(weights, apart), 0)
    coarse = _bayes.is_coarse(
        dot(jnp.abs(weights), jnp.abs(origin)), jnp.maximum(told, jnp.sqrt(told))
    )
    coarse |= ~jnp.isfinite(jax.lax.stop_gradient(params.bias + jnp.sum(params.weights)))
    solved = _bayes.solved(inverse, rows, len(s.rows), told=inverse.told, coarse=coarse)
    info = _bayes.verdict(s, valid, alone, solved, -dot(weights, apart))
    return _bayes.settled(params, info, valid & ~alone, data)


@_platform.jit
def _criterion(data, direction):
    rows, total, valid = _prepare.prepare(data, num_classes=2)
    rows = _scatter.in_units(rows)
    direction = _in_units(direction[:, None], rows.unit)[:, 0]
    projection = _fold.map_rows(lambda block: dot(block.x, direction), rows)
    _, mean, scatter = _projected(projection, rows.y, rows.weight * total, rows.axis)
    return jnp.where(valid, (mean[1] - mean[0]) ** 2 / jnp.sum(scatter), jnp.nan)


def _in_units(axes: jax.Array, unit: jax.Array) -> jax.Array:
    """Axes `(d, r)` of any length, for rows in units: of a length near 1."""
    for by in (jnp.ones_like(unit), 1 / unit):
        axes = axes * by[:, None]
        size = jnp.max(jnp.abs(axes), axis=0, initial=0)
        axes = axes / _linalg.power_of_two(jax.lax.stop_gradient(size))[None, :]
    return axes


@functools.partial(_platform.jit, static_argnums=(0, 1, 2))
def _directions(k, r, divisor, data):
    s, valid, rows = _bayes.of_data(data, k, per_class=False)
    covariance = _bayes.tied_covariance(s, divisor, _bayes.Options(), data.feature_mask)
    inverse = _flat.tied_inverse(covariance, s, data.feature_mask)
    share = s.weight / jnp.where(jnp.sum(s.weight) > 0, jnp.sum(s.weight), 1)
    # The classes' own space, k by k, has the eigenvalues of W^-1 B that are not 0.
    between = jnp.sqrt(share)[:, None] * (s.offset - _scatter.mean(s)[None, :])
    images = _linalg.refined(inverse, between)
    values, vectors = _linalg.eigh(dot(images, between.T))
    values, vectors = values[::-1][:r], vectors[:, ::-1][:, :r]
    least = _linalg.RANK_ULPS * k * jnp.finfo(values.dtype).eps * jnp.max(values, initial=0)
    length = jnp.where(values > least, jax.lax.rsqrt(jnp.where(values > least, values, 1)), 0)
    axes = dot(images.T, vectors) * length[None, :] * s.unit[:, None]
    top = jnp.take_along_axis(axes, jnp.argmax(jnp.abs(axes), axis=0)[None, :], axis=0)
    axes = jnp.where(top < 0, -axes, axes)
    solved = _bayes.solved(inverse, rows, len(s.rows), told=inverse.told)
    info = _bayes.verdict(s, valid, jnp.bool_(False), solved, -jnp.sum(values))
    return _bayes.settled(axes, info, valid, data)


@functools.partial(_platform.jit, static_argnums=(0, 1))
def _rayleigh_quotient(k, divisor, data, axes):
    s, valid, _ = _bayes.of_data(data, k, per_class=False)
    axes = _in_units(axes, s.unit)
    between = dot(s.offset - _scatter.mean(s)[None, :], axes)
    between = jnp.sum(s.weight[:, None] * between**2, axis=0)
    within = jnp.sum(axes * dot(s.scatter, axes), axis=0)
    quotient = between / within
    if divisor == "n-k":
        number = jnp.sum(s.rows > 0).astype(quotient.dtype)
        quotient = quotient * (jnp.sum(s.weight) - number) / (number - 1)
    return jnp.where(valid, quotient, jnp.nan)


_traits.declare(fit, skips=True)

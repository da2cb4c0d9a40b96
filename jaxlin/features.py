"""Maps of the features, after which a linear classifier draws curved boundaries.

A classifier that is linear in phi(x) need not be linear in x: fit on a map's output, and predict
on the same map of what comes next. `bias`, `polynomial`, `ball`, `absolute` and `cosine` are
fixed. `fourier` draws random features of a Gaussian kernel, and `standardizer` learns mean and
scale from data: each gives params, to be applied by `apply_fourier` and `standardize`.

Maps take `x: (..., d)`: one example, a table, a grid; their output is in the working dtype of x.
Shapes: `n` examples, `d` features, `k` classes.
"""

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin._base import _checks, _words
from jaxlin._data import _fold, _prepare, _rows
from jaxlin._linalg import dot, power_of_two
from jaxlin.types import Hyperplane, Linear, Pairwise

Planes = TypeVar("Planes", Hyperplane, Linear, Pairwise)


class Fourier(NamedTuple):
    """Random Fourier features: m waves.

    frequencies: `(m, d)`
    phases: `(m,)`, in [0, 2 pi]
    """

    frequencies: jax.Array
    phases: jax.Array


class Standardizer(NamedTuple):
    """What maps each column to mean 0 and variance 1.

    mean: `(d,)`
    scale: `(d,)`, the standard deviation; 1 for a constant column
    """

    mean: jax.Array
    scale: jax.Array


def _map(f: Callable[[jax.Array], jax.Array]) -> Callable[[Any], jax.Array]:
    """Jit a map; its argument is checked outside of jit, which would wrap 64-bit integers."""
    jitted = jax.jit(f)
    return functools.wraps(f)(lambda x: jitted(_vectors(x)))


@_map
def bias(x: Any) -> jax.Array:
    """[x, 1]: the bias as one more weight.

    Args:
      x: `(..., d)`.

    Returns:
      `(..., d + 1)`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import features
      >>> features.bias(jnp.array([2.0, 3.0])).tolist()
      [2.0, 3.0, 1.0]
    """
    return jnp.concatenate([x, jnp.ones_like(x[..., :1])], axis=-1)


def polynomial(x: Any, *, degree: int) -> jax.Array:
    """All monomials of total degree 1 to `degree`, without the constant.

    Ordered by degree, and within a degree lexicographically by the indices of their factors:
    x0, x1, x0^2, x0 x1, x1^2, ... (scikit-learn's `PolynomialFeatures(include_bias=False)`).

    Args:
      x: `(..., d)`.
      degree: static, at least 1.

    Returns:
      `(..., m)`, m = (d + degree)! / (d! degree!) - 1.

    Raises:
      ValueError: `degree` is less than 1.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import features
      >>> features.polynomial(jnp.array([2.0, 3.0]), degree=2).tolist()
      [2.0, 3.0, 4.0, 6.0, 9.0]
    """
    if _checks.static(degree, int, "degree") < 1:
        raise ValueError(f"degree: expected at least 1, got {degree}")
    return _polynomial(_vectors(x), degree)


def one_hot(codes: Any, *, sizes: tuple[int, ...]) -> jax.Array:
    """Categories as columns of 0 and 1, a column for each value of each category.

    `jnp.repeat(jnp.arange(len(sizes)), jnp.array(sizes))` are the columns' `groups`, which
    `naive_bayes.fit_categorical` and penalties on groups ask for.

    Args:
      codes: `(..., c)` integers, of category j in 0..sizes[j]-1; all columns are 0 for any other.
      sizes: static; how many values each category has.

    Returns:
      `(..., sum(sizes))`, in the default float.

    Raises:
      TypeError: codes that are no integers.
      ValueError: another number of categories than sizes.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import features
      >>> features.one_hot(jnp.array([[0, 2], [1, 0]]), sizes=(2, 3)).tolist()
      [[1.0, 0.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0, 0.0]]
    """
    codes = _checks.array(codes, "codes")
    if not (jnp.issubdtype(codes.dtype, jnp.integer) or codes.dtype == bool):
        raise TypeError(f"codes: expected integers, got {codes.dtype}")
    sizes = tuple(_checks.static(size, int, "sizes") for size in sizes)
    if codes.ndim < 1 or codes.shape[-1] != len(sizes):
        raise ValueError(f"codes: expected shape (..., {len(sizes)}), got {codes.shape}")
    # Of bool and narrow integers too.
    codes = codes.astype(jnp.int32)
    each = [jax.nn.one_hot(codes[..., j], size) for j, size in enumerate(sizes)]
    return jnp.concatenate(each, axis=-1)


@_map
def ball(x: Any) -> jax.Array:
    """[x, x . x, 1]: in these features a sphere is a plane through the origin.

    Args:
      x: `(..., d)`.

    Returns:
      `(..., d + 2)`. The last feature is the bias, so fit with `bias=False`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import features
      >>> features.ball(jnp.array([1.0, 2.0])).tolist()
      [1.0, 2.0, 5.0, 1.0]
    """
    square = jnp.sum(x**2, axis=-1, keepdims=True)
    return jnp.concatenate([x, square, jnp.ones_like(square)], axis=-1)


def ball_hyperplane(center: Any, radius: Any) -> Hyperplane:
    """The sphere |x - c| = r as a Hyperplane over `ball` features: s = r^2 - |x - c|^2.

    Class 1 is inside; the sphere itself, s = 0, is class 0.

    Args:
      center: `(d,)`.
      radius: `()`.

    Returns:
      A Hyperplane of d + 2 weights, (2 c, -1, r^2 - |c|^2), and bias 0.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import features, linear
      >>> plane = features.ball_hyperplane(jnp.array([1.0, 0.0]), 2.0)
      >>> x = jnp.array([[1.0, 1.0], [1.0, 3.0]])
      >>> linear.scores(plane, features.ball(x)).tolist()
      [3.0, -5.0]
    """
    center = _vectors(center, "center")
    if center.ndim != 1:
        raise ValueError(f"center: expected shape (d,), got {center.shape}")
    return _ball_hyperplane(center, _checks.scalar(radius, center.dtype, "radius"))


@_map
def absolute(x: Any) -> jax.Array:
    """|x| of each feature.

    Args:
      x: `(..., d)`.

    Returns:
      `(..., d)`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import features
      >>> features.absolute(jnp.array([-2.0, 3.0])).tolist()
      [2.0, 3.0]
    """
    return jnp.abs(x)


@_map
def cosine(x: Any) -> jax.Array:
    """cos x of each feature, in radians.

    Args:
      x: `(..., d)`.

    Returns:
      `(..., d)`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import features
      >>> features.cosine(jnp.array([0.0, jnp.pi])).tolist()
      [1.0, -1.0]
    """
    return jnp.cos(x)


@_words.keyed
def fourier(key: jax.Array, d: int, *, num_features: int, scale: Any = 1.0) -> Fourier:
    """Draw random Fourier features of the Gaussian kernel exp(-|x - z|^2 / (2 scale^2)).

    Frequencies are normal with standard deviation 1 / scale, phases uniform (Rahimi and Recht,
    2007). The error of the kernel falls as 1 / sqrt(num_features).

    Args:
      key: a PRNG key.
      d: the number of features of x, static.
      num_features: m, static.
      scale: the width of the kernel, `()`; it may be traced.

    Returns:
      A Fourier, for `apply_fourier`.

    Example:
      >>> import jax
      >>> from jaxlin import features
      >>> params = features.fourier(jax.random.key(0), 2, num_features=500, scale=3.0)
      >>> params.frequencies.shape
      (500, 2)
    """
    for name, value in (("d", d), ("num_features", num_features)):
        if _checks.static(value, int, name) < 1:
            raise ValueError(f"{name}: expected at least 1, got {value}")
    scale = _checks.scalar(scale, jnp.result_type(float), "scale")
    return _fourier(key, d, num_features, scale)


def apply_fourier(params: Fourier, x: Any) -> jax.Array:
    """sqrt(2 / m) cos(frequencies x + phases): inner products of these are about the kernel.

    Args:
      params: as `fourier` drew them.
      x: `(..., d)`.

    Returns:
      `(..., m)`.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from jaxlin import features
      >>> params = features.fourier(jax.random.key(0), 2, num_features=5000, scale=1.0)
      >>> z = features.apply_fourier(params, jnp.array([[0.0, 0.0], [1.0, 0.0]]))
      >>> bool(abs(z[0] @ z[1] - jnp.exp(-0.5)) < 0.05)
      True
    """
    return _apply_fourier(params, _aligned(x, params.frequencies, "frequencies", rank=2))


def standardizer(
    x: Any, *, sample_weight: Any = None, axis_name: str | None = None
) -> Standardizer:
    """The weighted mean and standard deviation of each column (divisor: the sum of weights).

    Accurate wherever the columns lie: the mean is found first, then centred squares are summed.
    A constant column has scale 1, and becomes exactly 0.

    Args:
      x: `(n, d)`.
      sample_weight: `(n,)`; a row of weight 0 is absent, whatever it holds.
      axis_name: static; the mesh axis over which the rows are dealt, inside `jax.shard_map`: see
        `distributed`.

    Returns:
      A Standardizer; NaN if a row of positive weight is not finite, a weight is negative, or no
      row has weight. Cost: O(n d), three passes over x.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import features
      >>> x = jnp.array([[1.0, 7.0], [5.0, 7.0]])
      >>> scaler = features.standardizer(x)
      >>> scaler.mean.tolist(), scaler.scale.tolist()
      ([3.0, 7.0], [2.0, 1.0])
      >>> features.standardize(scaler, x).tolist()
      [[-1.0, 0.0], [1.0, 0.0]]
    """
    _checks.refuse_other_rows(x=x, sample_weight=sample_weight)
    x = _checks.matrix(x)
    dtype = _checks.working_dtype(x)
    weight = _checks.optional(sample_weight, x.shape[:1], dtype, "sample_weight")
    return _standardizer(x, weight, _checks.axis_of(axis_name))


def standardize(params: Standardizer, x: Any) -> jax.Array:
    """(x - mean) / scale.

    Args:
      params: a Standardizer.
      x: `(..., d)`.

    Returns:
      `(..., d)`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import features
      >>> params = features.Standardizer(mean=jnp.array([3.0]), scale=jnp.array([2.0]))
      >>> features.standardize(params, jnp.array([7.0])).tolist()
      [2.0]
    """
    return _standardize(params, _aligned(x, params.mean, "mean"))


def unstandardize(scaler: Standardizer, params: Planes) -> Planes:
    """The params of a fit on standardised columns, in the units of x: the same scores.

    weights / scale, and bias - weights . (mean / scale).

    Args:
      scaler: what the columns were standardised with.
      params: a Hyperplane, a Linear or a Pairwise; planes that share one scaler may have leading
        axes.

    Returns:
      Params of the same type.

    Raises:
      TypeError: the params are of another type.
      ValueError: d differs, or the scaler has a leading axis (use `jax.vmap`).

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import features
      >>> from jaxlin.types import Hyperplane
      >>> scaler = features.Standardizer(mean=jnp.array([3.0]), scale=jnp.array([2.0]))
      >>> plane = Hyperplane(weights=jnp.array([4.0]), bias=jnp.array(0.0))
      >>> features.unstandardize(scaler, plane)
      Hyperplane(weights=Array([2.], dtype=...), bias=Array(-6., dtype=...))
    """
    if not isinstance(params, Hyperplane | Linear | Pairwise):
        raise TypeError(
            f"params: expected Hyperplane, Linear or Pairwise, got {type(params).__name__}"
        )
    weights = _aligned(params.weights, scaler.mean, "mean", name="params.weights")
    bias = _checks.shaped(params.bias, weights.shape[:-1], weights.dtype, "params.bias")
    return _unstandardize(scaler, params._replace(weights=weights, bias=bias))


@functools.partial(jax.jit, static_argnums=1)
def _polynomial(x, degree):
    parts = []
    for m in range(1, degree + 1):
        factors = np.array(list(itertools.combinations_with_replacement(range(x.shape[-1]), m)))
        parts.append(math.prod(x[..., column] for column in factors.T))
    return jnp.concatenate(parts, axis=-1)


@jax.jit
def _ball_hyperplane(center, radius):
    last = jnp.stack([-jnp.ones_like(radius), radius**2 - jnp.sum(center**2)])
    return Hyperplane(weights=jnp.concatenate([2 * center, last]), bias=jnp.zeros((), center.dtype))


@functools.partial(jax.jit, static_argnums=(1, 2))
def _fourier(key, d, num_features, scale):
    # One draw for both: each call of the generator costs a third of a second to compile.
    draws = jax.random.normal(key, (num_features, d + 1), scale.dtype)
    return Fourier(
        frequencies=draws[:, :d] / scale, phases=2 * math.pi * jax.scipy.special.ndtr(draws[:, d])
    )


@jax.jit
def _apply_fourier(params, x):
    frequencies, phases = params.frequencies.astype(x.dtype), params.phases.astype(x.dtype)
    angles = dot(x, frequencies.T) + _over_rows(phases, x)
    return math.sqrt(2 / len(phases)) * jnp.cos(angles)


@jax.jit
def _standardizer(x, sample_weight, axis):
    y = jnp.zeros(len(x), jnp.int32)
    data = _checks.Table(x=x, y=y, sample_weight=sample_weight, feature_mask=None, axis=axis)
    rows, _, valid = _prepare.prepare(data, num_classes=1)
    low, width = _span(jax.lax.stop_gradient(rows), valid)
    unit = power_of_two(width)  # exact to divide by, and squares neither overflow nor vanish

    def from_low(block):
        u = (block.x - low[None, :]) / unit[None, :]
        # A row of weight 0 may lie so far out that 0 times its square is NaN.
        return jnp.where(jnp.abs(u) <= _checks.safe_range(u.dtype), u, 0)

    def block_mean(block):
        return jnp.sum(block.weight[:, None] * from_low(block), axis=0), ()

    mean, _ = _fold.fold(block_mean, rows)

    def block_moments(block):
        centred = from_low(block) - mean[None, :]
        weighted = block.weight[:, None] * centred
        return (jnp.sum(weighted, axis=0), jnp.sum(weighted * centred, axis=0)), ()

    # What rounding left of the first moment corrects both.
    (first, second), _ = _fold.fold(block_moments, rows)
    variance = second - first**2
    varies = variance > 0
    scale = jnp.where(varies, unit * jnp.sqrt(jnp.where(varies, variance, 1)), 1)
    return Standardizer(
        mean=jnp.where(valid, low + unit * (mean + first), jnp.nan),
        scale=jnp.where(valid, scale, jnp.nan),
    )


def _span(rows: _rows.Rows, valid: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The least value of each column and the width of its range; 0 and 0 if not valid."""

    def extremes(block):
        present = block.weight[:, None] > 0
        high = jnp.max(jnp.where(present, block.x, -jnp.inf), axis=0)
        return (), (high, jnp.max(jnp.where(present, -block.x, -jnp.inf), axis=0))

    _, (high, minus_low) = _fold.fold(extremes, rows)
    return jnp.where(valid, -minus_low, 0), jnp.where(valid, high + minus_low, 0)


@jax.jit
def _standardize(params, x):
    mean, scale = params.mean.astype(x.dtype), params.scale.astype(x.dtype)
    return (x - _over_rows(mean, x)) / _over_rows(scale, x)


@jax.jit
def _unstandardize(scaler, params):
    dtype = params.weights.dtype
    mean, scale = scaler.mean.astype(dtype), scaler.scale.astype(dtype)
    weights = params.weights / _over_rows(scale, params.weights)
    shift = jnp.sum(weights * _over_rows(mean, weights), axis=-1)
    return params._replace(weights=weights, bias=params.bias - shift)


def _vectors(x: Any, name: str = "x") -> jax.Array:
    x = _checks.real(x, name)
    if x.ndim < 1:
        raise ValueError(f"{name}: expected shape (..., d), got {x.shape}")
    return x.astype(_checks.working_dtype(x))


def _aligned(x: Any, of: Any, field: str, *, rank: int = 1, name: str = "x") -> jax.Array:
    """`x` in its working dtype, if it has as many features as the field of the params."""
    shape = jnp.shape(of)
    if len(shape) != rank:
        raise ValueError(
            f"{field}: expected shape {('(d,)', '(m, d)')[rank - 1]}, got {shape}; "
            "jax.vmap over a leading axis"
        )
    x = _vectors(x, name)
    if x.shape[-1] != shape[-1]:
        raise ValueError(f"{name}: expected shape (..., {shape[-1]}), got {x.shape}")
    return x


def _over_rows(a: jax.Array, x: jax.Array) -> jax.Array:
    """`a: (m,)` with the rank of `x`, so that it broadcasts over all but the last axis."""
    return a.reshape((1,) * (x.ndim - 1) + a.shape)

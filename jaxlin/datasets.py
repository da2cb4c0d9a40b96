"""Data to try things on: two real tables, and keyed generators of any size.

`iris` and `breast_cancer` are embedded, hold numpy arrays and need no network. The generators are
pure functions of a key, `f(key, n, d, *, ...) -> (x, y)`, that work under `jit` (with n and d
static) and `vmap` over keys. Their classes differ in size by at most one row, in random order.
Shapes: `n` examples, `d` features, `k` classes.
"""

import csv
import functools
import importlib.resources
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin._base import _checks, _words
from jaxlin._linalg import dot


class Dataset(NamedTuple):
    """A table of real data, as numpy arrays: `x, y, *_ = datasets.iris()`.

    x: `(n, d)` float64
    y: `(n,)` int32 class indices
    feature_names: d strings
    class_names: k strings
    """

    x: np.ndarray
    y: np.ndarray
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]


def iris() -> Dataset:
    """Three species of iris by their sepals and petals: 150 flowers, 4 features (Fisher, 1936).

    Setosa is linearly separable from the other two, which overlap.

    Returns:
      A Dataset of k = 3: setosa, versicolor, virginica.

    Example:
      >>> from jaxlin import datasets
      >>> x, y, *_ = datasets.iris()
      >>> x.shape, datasets.iris().class_names
      ((150, 4), ('setosa', 'versicolor', 'virginica'))
    """
    return _load("iris.csv")


def breast_cancer() -> Dataset:
    """Breast tumours by the nuclei of their cells: 569 images, 30 features (Wolberg et al., 1995).

    The Wisconsin diagnostic data of the UCI repository (CC BY 4.0). The classes are exactly
    linearly separable, so that logistic regression without penalty has no optimum here.

    Returns:
      A Dataset of k = 2: malignant is 0, benign is 1.

    Example:
      >>> from jaxlin import datasets
      >>> data = datasets.breast_cancer()
      >>> data.x.shape, data.class_names
      ((569, 30), ('malignant', 'benign'))
    """
    return _load("breast_cancer.csv")


@_words.keyed
def separable(key: jax.Array, n: int, d: int, *, margin: Any = 0.1) -> tuple[jax.Array, jax.Array]:
    """Two classes on either side of a random plane, none nearer to it than `margin`.

    The plane's unit normal is uniform and its distance from the origin normal; within the plane
    x is standard normal, and the distance to it is `margin` + |standard normal|.

    Args:
      key: a PRNG key.
      n: the number of examples, static, at least 2.
      d: the number of features, static.
      margin: `()`, nonnegative.

    Returns:
      `(x, y)`: `(n, d)` in the default float dtype, and int32 `(n,)`.

    Example:
      >>> import jax
      >>> from jaxlin import datasets
      >>> x, y = datasets.separable(jax.random.key(0), 10, 2, margin=0.5)
      >>> x.shape, y.sum().item()
      ((10, 2), 5)
    """
    _check_sizes(2, n=n, d=d)
    return _separable(key, n, d, _number(margin, "margin"))


@_words.keyed
def gaussians(
    key: jax.Array, n: int, d: int, *, num_classes: int = 2, separation: Any = 3.0
) -> tuple[jax.Array, jax.Array]:
    """Classes that are round Gaussians of variance 1, about random means.

    The two closest means are `separation` apart, so for two classes the best possible error is
    Phi(-separation / 2), 7 % by default.

    Args:
      key: a PRNG key.
      n: the number of examples, static, at least `num_classes`.
      d: the number of features, static.
      num_classes: k, static, at least 2.
      separation: `()`, nonnegative.

    Returns:
      `(x, y)`: `(n, d)` in the default float dtype, and int32 `(n,)`.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from jaxlin import datasets
      >>> x, y = datasets.gaussians(jax.random.key(0), 9, 2, num_classes=3)
      >>> jnp.bincount(y).tolist()
      [3, 3, 3]
    """
    if _checks.static(num_classes, int, "num_classes") < 2:
        raise ValueError(f"num_classes: expected at least 2, got {num_classes}")
    _check_sizes(num_classes, n=n, d=d)
    return _gaussians(key, n, d, num_classes, _number(separation, "separation"))


@_words.keyed
def ball(
    key: jax.Array, n: int, d: int, *, radius: Any = 1.0, margin: Any = 0.1
) -> tuple[jax.Array, jax.Array]:
    """Class 1 inside a ball about the origin, class 0 around it.

    Class 1 is uniform in the ball of radius `radius - margin`. The distances of class 0 from the
    origin are uniform from `radius + margin` to `2 radius + margin`. No plane in x separates the
    two; one in `features.ball(x)` does, `features.ball_hyperplane(zeros, radius)`.

    Args:
      key: a PRNG key.
      n: the number of examples, static, at least 2.
      d: the number of features, static.
      radius: `()`, positive.
      margin: `()`, from 0 to below `radius`; otherwise x is NaN.

    Returns:
      `(x, y)`: `(n, d)` in the default float dtype, and int32 `(n,)`.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from jaxlin import datasets
      >>> x, y = datasets.ball(jax.random.key(0), 10, 3, radius=2.0)
      >>> bool(jnp.all((jnp.linalg.norm(x, axis=1) < 2.0) == (y == 1)))
      True
    """
    _check_sizes(2, n=n, d=d)
    return _ball(key, n, d, _number(radius, "radius"), _number(margin, "margin"))


@_words.keyed
def moons(key: jax.Array, n: int, *, noise: Any = 0.1) -> tuple[jax.Array, jax.Array]:
    """Two interleaved half circles in the plane, of radius 1, which no line separates.

    Class 0 is the upper half about (0, 0), class 1 the lower about (1, 1/2).

    Args:
      key: a PRNG key.
      n: the number of examples, static, at least 2.
      noise: `()`, the standard deviation of what is added to each coordinate.

    Returns:
      `(x, y)`: `(n, 2)` in the default float dtype, and int32 `(n,)`.

    Example:
      >>> import jax
      >>> from jaxlin import datasets
      >>> x, y = datasets.moons(jax.random.key(0), 10, noise=0.0)
      >>> bool((x[y == 0, 1] >= 0).all())
      True
    """
    _check_sizes(2, n=n)
    return _moons(key, n, _number(noise, "noise"))


def _load(name: str) -> Dataset:
    text = (importlib.resources.files("jaxlin") / "data" / name).read_text(encoding="utf-8")
    header, *rows = csv.reader(text.splitlines())
    labels = [row[-1] for row in rows]
    class_names = tuple(dict.fromkeys(labels))  # in the order of the file
    return Dataset(
        x=np.array([row[:-1] for row in rows], dtype=np.float64),
        y=np.array([class_names.index(label) for label in labels], dtype=np.int32),
        feature_names=tuple(header[:-1]),
        class_names=class_names,
    )


# Each generator draws once, since each call of jax.random costs a third of a second to compile.


@functools.partial(jax.jit, static_argnums=(1, 2))
def _separable(key, n, d, margin):
    draws = jax.random.normal(key, (n + 1, d + 1), margin.dtype)
    x, y = draws[:n, :d], _labels(draws[:n, d], 2)
    normal, offset = _unit(draws[n:, :d]), draws[n, d]
    along = dot(x, normal.T)
    distance = jnp.where(y[:, None] > 0, 1, -1) * (margin + jnp.abs(along))
    return x + (offset + distance - along) * normal, y


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def _gaussians(key, n, d, num_classes, separation):
    draws = jax.random.normal(key, (n + num_classes, d + 1), separation.dtype)
    y = _labels(draws[:n, d], num_classes)
    means = draws[n:, :d]
    i, j = np.triu_indices(num_classes, 1)
    closest = jnp.min(jnp.linalg.norm(means[i] - means[j], axis=1))
    means = (means - jnp.mean(means, axis=0, keepdims=True)) * (separation / closest)
    return means[y] + draws[:n, :d], y


@functools.partial(jax.jit, static_argnums=(1, 2))
def _ball(key, n, d, radius, margin):
    draws = jax.random.normal(key, (n, d + 2), radius.dtype)
    y, u = _labels(draws[:, d], 2), _uniform(draws[:, d + 1])
    inner = (radius - margin) * u ** (1 / d)
    radii = jnp.where(y > 0, inner, radius + margin + radius * u)
    possible = (margin >= 0) & (margin < radius)
    radii = jnp.where(possible, radii, jnp.nan)
    return radii[:, None] * _unit(draws[:, :d]), y


@functools.partial(jax.jit, static_argnums=1)
def _moons(key, n, noise):
    draws = jax.random.normal(key, (n, 4), noise.dtype)
    y, angle = _labels(draws[:, 2], 2), math.pi * _uniform(draws[:, 3])
    upper = jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
    x = jnp.where(y[:, None] > 0, jnp.array([1, 0.5], noise.dtype)[None, :] - upper, upper)
    return x + noise * draws[:, :2], y


def _labels(noise: jax.Array, k: int) -> jax.Array:
    """Classes in random order, each as often as any other, give or take one."""
    return (jnp.arange(len(noise), dtype=jnp.int32) % k)[jnp.argsort(noise)]


def _uniform(noise: jax.Array) -> jax.Array:
    """Standard normal draws, made uniform on [0, 1] by their distribution function."""
    return jax.scipy.special.ndtr(noise)


def _unit(x: jax.Array) -> jax.Array:
    """The rows of x, scaled to length 1."""
    return x / jnp.linalg.norm(x, axis=1, keepdims=True)


def _number(value: Any, name: str) -> jax.Array:
    return _checks.scalar(value, jnp.result_type(float), name)


def _check_sizes(least: int, *, n: int, d: int = 1) -> None:
    for name, value, low in (("n", n, least), ("d", d, 1)):
        if _checks.static(value, int, name) < low:
            raise ValueError(f"{name}: expected at least {low}, got {value}")

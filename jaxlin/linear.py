"""Linear classifiers as plain data: scores, predictions, probabilities, and plane geometry.

A `Hyperplane` is the binary classifier s = w . x + b, a `Linear` one score per class. Every verb
is `f(params, x, ...)` for `x: (..., d)`: one example, a table, a grid. A score of exactly 0 is
class 0, as `argmax` takes the lowest index. Shapes: `n` examples, `d` features, `k` classes.
"""

from typing import Any

import jax
import jax.numpy as jnp

from jaxlin import _linalg, features
from jaxlin._base import _checks, _codes
from jaxlin._data import _entries, _fold, _prepare
from jaxlin._linalg import dot
from jaxlin.sparse import Padded, Sparse
from jaxlin.types import Hyperplane, Linear


def scores(params: Hyperplane | Linear, x: Any) -> jax.Array:
    """The affine scores x . w + b.

    Args:
      params: a Hyperplane or a Linear.
      x: `(..., d)`.

    Returns:
      `(...)` for a Hyperplane, positive for class 1; `(..., k)` for a Linear.

    Raises:
      ValueError: the params have a leading axis (a vmapped fit returns one plane per lane), or
        their d is not that of x.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import linear
      >>> from jaxlin.types import Hyperplane
      >>> plane = Hyperplane(weights=jnp.array([3.0, 4.0]), bias=jnp.array(-5.0))
      >>> linear.scores(plane, jnp.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
      [20.0, -5.0]
    """
    weights, bias, x = _aligned(params, x)
    if isinstance(x, Padded):
        products = _entries.across(jnp.atleast_2d(weights), x).T
        return products[:, 0] + bias if weights.ndim == 1 else _add_bias(products, bias)
    if weights.ndim == 1:
        return dot(x, weights) + bias
    return _add_bias(dot(x, weights.T), bias)


def predict(params: Hyperplane | Linear, x: Any) -> jax.Array:
    """The class of each example: [s > 0], or the largest score's.

    Args:
      params: a Hyperplane or a Linear.
      x: `(..., d)`.

    Returns:
      int32 class indices `(...)`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import linear
      >>> from jaxlin.types import Hyperplane
      >>> plane = Hyperplane(weights=jnp.array([1.0]), bias=jnp.array(0.0))
      >>> linear.predict(plane, jnp.array([[2.0], [0.0]])).tolist()
      [1, 0]
    """
    s = scores(params, x)
    return (jnp.argmax(s, -1) if _is_linear(params) else s > 0).astype(jnp.int32)


def probabilities(params: Hyperplane | Linear, x: Any) -> jax.Array:
    """The sigmoid or softmax of the scores.

    Meaningful where scores are log-odds: after `logistic`, `softmax`, `lda` and the Gaussian fits,
    not after a perceptron or a support vector machine.

    Args:
      params: a Hyperplane or a Linear.
      x: `(..., d)`.

    Returns:
      `(..., k)`, rows summing to 1; k = 2 for a Hyperplane, column 1 being class 1.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import linear
      >>> from jaxlin.types import Hyperplane
      >>> plane = Hyperplane(weights=jnp.array([1.0]), bias=jnp.array(0.0))
      >>> linear.probabilities(plane, jnp.array([0.0])).tolist()
      [0.5, 0.5]
    """
    s = scores(params, x)
    if _is_linear(params):
        return jax.nn.softmax(s, axis=-1)
    return jnp.stack([jax.nn.sigmoid(-s), jax.nn.sigmoid(s)], axis=-1)


def log_probabilities(params: Hyperplane | Linear, x: Any) -> jax.Array:
    """The logarithm of `probabilities`, accurate where they underflow.

    Args:
      params: a Hyperplane or a Linear.
      x: `(..., d)`.

    Returns:
      `(..., k)`, in nats; k = 2 for a Hyperplane.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import linear
      >>> from jaxlin.types import Hyperplane
      >>> plane = Hyperplane(weights=jnp.array([1.0]), bias=jnp.array(0.0))
      >>> linear.log_probabilities(plane, jnp.array([1e4]))[0].item()
      -10000.0
    """
    s = scores(params, x)
    if _is_linear(params):
        return jax.nn.log_softmax(s, axis=-1)
    return jnp.stack([jax.nn.log_sigmoid(-s), jax.nn.log_sigmoid(s)], axis=-1)


def distances(params: Hyperplane, x: Any) -> jax.Array:
    """Signed Euclidean distances to the plane: (w . x + b) / |w|.

    Args:
      params: a Hyperplane.
      x: `(..., d)`.

    Returns:
      `(...)`, positive on the side of class 1; NaN where w = 0.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import linear
      >>> from jaxlin.types import Hyperplane
      >>> plane = Hyperplane(weights=jnp.array([3.0, 4.0]), bias=jnp.array(-5.0))
      >>> linear.distances(plane, jnp.array([3.0, 4.0])).item()
      4.0
    """
    _require_plane(params)
    return scores(params, x) / jnp.linalg.norm(params.weights)


def origin_distance(params: Hyperplane) -> jax.Array:
    """The distance from the origin to the plane: |b| / |w|.

    Args:
      params: a Hyperplane.

    Returns:
      `()`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import linear
      >>> from jaxlin.types import Hyperplane
      >>> plane = Hyperplane(weights=jnp.array([3.0, 4.0]), bias=jnp.array(-5.0))
      >>> linear.origin_distance(plane).item()
      1.0
    """
    _require_plane(params)
    return jnp.abs(params.bias) / jnp.linalg.norm(params.weights)


def margin(params: Hyperplane, x: Any, y: Any, *, sample_weight: Any = None) -> jax.Array:
    """The geometric margin: min over the rows of t * distance, t = 2 y - 1.

    Args:
      params: a Hyperplane.
      x: `(n, d)`.
      y: `(n,)` in {0, 1}.
      sample_weight: `(n,)`; rows of weight 0 are absent.

    Returns:
      `()`: positive exactly where the plane separates the classes; inf without rows, NaN where
      a row is no number.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import linear
      >>> from jaxlin.types import Hyperplane
      >>> plane = Hyperplane(weights=jnp.array([2.0]), bias=jnp.array(0.0))
      >>> linear.margin(plane, jnp.array([[3.0], [-1.0]]), jnp.array([1, 0])).item()
      1.0
    """
    data = _checks.table(x, y, sample_weight=sample_weight)
    s = distances(params, data.x)
    agreement = jnp.where(data.y > 0, s, -s)
    if data.sample_weight is not None:
        agreement = jnp.where(data.sample_weight != 0, agreement, jnp.inf)
    # As `_linalg.largest`: of many rows compilers drop NaN from the minimum.
    return jnp.where(jnp.any(jnp.isnan(agreement)), jnp.nan, jnp.min(agreement))


def between(params: Linear, i: Any, j: Any) -> Hyperplane:
    """The plane between two classes of a Linear, positive for class j.

    Args:
      params: a Linear.
      i, j: class indices; they may be traced.

    Returns:
      A Hyperplane with the scores s_j - s_i; NaN where both classes are absent, and of a traced
      index that is none of 0..k-1.

    Raises:
      ValueError: an index that is none of 0..k-1.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import linear
      >>> from jaxlin.types import Linear
      >>> params = Linear(weights=jnp.array([[1.0], [3.0]]), bias=jnp.array([0.0, 5.0]))
      >>> linear.between(params, 0, 1)
      Hyperplane(weights=Array([2.], dtype=...), bias=Array(5., dtype=...))
    """
    if not _is_linear(params):
        raise ValueError(f"params: expected a Linear, weights (k, d), got {params.weights.shape}")
    weights, bias = jnp.asarray(params.weights), jnp.asarray(params.bias)
    (i, lost), (j, its) = (_codes.class_index(a, len(bias), n) for a, n in ((i, "i"), (j, "j")))
    lost = (lost + its).astype(bias.dtype)
    return Hyperplane(weights=weights[j] - weights[i] + lost, bias=bias[j] - bias[i] + lost)


def patterns(params: Hyperplane | Linear, x: Any, *, sample_weight: Any = None) -> jax.Array:
    """How the columns move with the scores: the pattern that belongs to a filter.

    Weights are a filter, large also on columns that only take noise away. The pattern is
    cov(x) w / var(s), of several scores cov(x) W' cov(s)^-1, the slopes of the columns in them
    (Haufe et al. 2014, "On the interpretation of weight vectors of linear models in multivariate
    neuroimaging", equation 6). That of `lda.fit` to two classes is along the difference of their
    means. Scores that do not vary, or are given by the others, are left out: by the
    pseudo-inverse.

    Args:
      params: a Hyperplane or a Linear.
      x: `(n, d)`, the rows that the params were fitted to.
      sample_weight: `(n,)`, nonnegative; a row of weight 0 is absent.

    Returns:
      `(d,)` for a Hyperplane, `(k, d)` for a Linear, in units of the columns per unit of a score;
      NaN if the data are not valid.

    Raises:
      ValueError: as `scores`; x is no table.

    Example: class 1 is told by the first column once the second has taken away their noise.
      >>> import jax.numpy as jnp
      >>> from jaxlin import linear
      >>> from jaxlin.types import Hyperplane
      >>> noise, y = jnp.array([1.0, -1.0, 1.0, -1.0]), jnp.array([0.0, 0.0, 1.0, 1.0])
      >>> x = jnp.stack([y + noise, noise], axis=1)
      >>> plane = Hyperplane(weights=jnp.array([1.0, -1.0]), bias=jnp.array(-0.5))
      >>> bool(jnp.allclose(linear.patterns(plane, x), jnp.array([1.0, 0.0]), atol=1e-5))
      True
    """
    x = _checks.matrix(x)
    weights, _, _ = _aligned(params, x[:1])
    dtype = _checks.working_dtype(x)
    given = _checks.optional(sample_weight, x.shape[:1], dtype, "sample_weight")
    found = _patterns(jnp.atleast_2d(weights.astype(dtype)), x, given)
    return found if _is_linear(params) else found[0]


def from_hyperplanes(params: Hyperplane) -> Linear:
    """A vmapped Hyperplane, one plane per class, as the Linear of one-vs-rest.

    Args:
      params: a Hyperplane of weights `(k, d)` and bias `(k,)`.

    Returns:
      The same arrays as a Linear.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import linear
      >>> from jaxlin.types import Hyperplane
      >>> planes = Hyperplane(weights=jnp.ones((3, 2)), bias=jnp.zeros(3))
      >>> linear.from_hyperplanes(planes).weights.shape
      (3, 2)
    """
    if jnp.ndim(params.weights) != 2 or jnp.ndim(params.bias) != 1:
        raise ValueError(
            "params: expected a Hyperplane with a leading axis of classes, weights (k, d), "
            f"got {jnp.shape(params.weights)}"
        )
    return Linear(weights=params.weights, bias=params.bias)


def to_hyperplanes(params: Linear) -> Hyperplane:
    """The planes of a Linear, one per class, as a Hyperplane with a leading axis.

    Args:
      params: a Linear.

    Returns:
      A Hyperplane of weights `(k, d)` and bias `(k,)`, to be vmapped over.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from jaxlin import linear
      >>> from jaxlin.types import Linear
      >>> params = Linear(weights=2 * jnp.eye(2), bias=jnp.ones(2))
      >>> jax.vmap(linear.origin_distance)(linear.to_hyperplanes(params)).tolist()
      [0.5, 0.5]
    """
    if not _is_linear(params):
        raise ValueError(f"params: expected a Linear, weights (k, d), got {params.weights.shape}")
    return Hyperplane(weights=params.weights, bias=params.bias)


@jax.jit
def _patterns(weights, x, sample_weight):
    scaler = features.standardizer(x, sample_weight=sample_weight)
    y = jnp.zeros(len(x), jnp.int32)
    data = _checks.Table(x=x, y=y, sample_weight=sample_weight, feature_mask=None)
    rows, _, valid = _prepare.prepare(data, num_classes=1)
    # In units of the columns and of each score squares neither overflow nor vanish.
    filters = weights * scaler.scale[None, :]
    unit = 1 / _linalg.power_of_two(jnp.max(jnp.abs(filters), axis=1))

    def moments(block):
        z = features.standardize(scaler, block.x)
        scores = dot(z, (filters * unit[:, None]).T)
        weighted = block.weight[:, None] * scores
        return (dot(weighted.T, scores), dot(weighted.T, z)), ()

    (square, mixed), _ = _fold.fold(moments, rows)
    found = unit[:, None] * dot(_linalg.pseudo_inverse(square, unit=unit).matrix, mixed)
    return jnp.where(valid, found * scaler.scale[None, :], jnp.nan)


def _is_linear(params: Hyperplane | Linear) -> bool:
    return isinstance(params, Linear)


def _require_plane(params: Hyperplane) -> None:
    if jnp.ndim(params.weights) != 1:
        raise ValueError(
            "params: expected one Hyperplane, weights (d,), got weights of shape "
            f"{jnp.shape(params.weights)}; jax.vmap over the leading axis"
        )


def _aligned(params: Hyperplane | Linear, x: Any) -> tuple[jax.Array, jax.Array, Any]:
    rank = 2 if _is_linear(params) else 1
    name, shape = ("Linear", "(k, d)") if rank == 2 else ("Hyperplane", "(d,)")
    weights, bias = jnp.asarray(params.weights), jnp.asarray(params.bias)
    if weights.ndim != rank or bias.shape != weights.shape[:-1]:
        raise ValueError(
            f"params: expected a {name} of weights {shape}, got {weights.shape} and bias "
            f"{bias.shape}; jax.vmap over a leading axis, or linear.from_hyperplanes"
        )
    sparse = isinstance(x, Sparse)
    x = _checks.matrix(x, sparse=True) if sparse else _checks.real(x, "x")
    if x.ndim < 1 or x.shape[-1] != weights.shape[-1]:
        raise ValueError(f"x: expected shape (..., {weights.shape[-1]}), got {x.shape}")
    dtype = _checks.wider(_checks.working_dtype(x), _checks.working_dtype(weights))
    if isinstance(x, Sparse):
        x = x.padded()
        return (
            weights.astype(dtype),
            bias.astype(dtype),
            Padded(x.indices, x.values.astype(dtype), x.num_features),
        )
    return weights.astype(dtype), bias.astype(dtype), x.astype(dtype)


def _add_bias(products: jax.Array, bias: jax.Array) -> jax.Array:
    return products + bias.reshape((1,) * (products.ndim - 1) + bias.shape)

"""What the Gaussian classifiers share: priors, covariances, and a verdict, from class statistics.

Shapes: `k` classes, `d` features.
"""

import functools
import math
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _checks
from jaxlin._data import _fold, _rows
from jaxlin._linalg import _implicit, dot
from jaxlin._moments import _scatter, _statistics
from jaxlin._moments._scatter import Scatter
from jaxlin.types import Info, Status

# A score along the null space below this many units of d * eps of the sum of its terms' sizes is
# rounding: of the data, and of the null space.
NULL_ULPS = 64
# The part of the digits that scores must keep.
DIGITS_LEFT = 1 / 3
TIED_DIVISORS = ("n", "n-k")
CLASS_DIVISORS = ("n", "n_k-1")


class Options(NamedTuple):
    """Traced numbers of a fit, or None: `priors (k,)`, `shrinkage ()`, `pooling ()`."""

    priors: jax.Array | None = None
    shrinkage: jax.Array | None = None
    pooling: jax.Array | None = None


class Counted(Protocol):
    """Statistics of classes: the sum of each one's weights `(k,)`, and its rows with weight."""

    @property
    def weight(self) -> jax.Array: ...

    @property
    def rows(self) -> jax.Array: ...


def options(dtype: Any, k: int, *, priors=None, shrinkage=0.0, pooling=0.0) -> Options:
    """Checked shapes; values are judged by `valid_options`."""

    def fraction(value, name):
        if jnp.ndim(value) != 0:
            raise ValueError(f"{name}: expected one number in [0, 1], got {jnp.shape(value)}")
        return _checks.scalar(value, dtype, name)

    return Options(
        priors=_checks.optional(priors, (k,), dtype, "priors"),
        shrinkage=fraction(shrinkage, "shrinkage"),
        pooling=fraction(pooling, "pooling"),
    )


def shrinkage_of(
    shrinkage: Any, x: Any, y: Any, sample_weight: Any, feature_mask: Any, axis_name: Any
) -> Any:
    """The number itself, or what the function says of these data."""
    if not callable(shrinkage):
        return shrinkage
    optional = {"feature_mask": feature_mask, "axis_name": axis_name}
    given = {name: value for name, value in optional.items() if value is not None}
    return shrinkage(x, y, sample_weight=sample_weight, **given)


def check_divisor(divisor: Any, allowed: tuple[str, ...]) -> str:
    if divisor not in allowed:
        raise ValueError(f"divisor: expected one of {allowed}, got {divisor!r}")
    return divisor


def of_data(
    data: _checks.Table, k: int, *, per_class: bool
) -> tuple[Scatter, jax.Array, _rows.Rows]:
    """Class statistics in the user's weights, whether the data are valid, and the rows."""
    s, rows, total, valid = _statistics.of_data(data, k, per_class=per_class)
    total = jnp.where(valid, total, 0)
    return s._replace(weight=s.weight * total, scatter=s.scatter * total), valid, rows


def valid_moments(s: Scatter) -> jax.Array:
    """Whether the moments came of valid data: otherwise they are NaN."""
    return jnp.all(jnp.isfinite(s.scatter)) & jnp.all(jnp.isfinite(s.weight))


def no_degrees(s: Scatter, divisor: str) -> jax.Array:
    """Whether the divisor of the tied scatter is not positive."""
    number = jnp.sum(s.rows > 0).astype(s.weight.dtype)
    return jnp.sum(s.weight) <= (number if divisor == "n-k" else 0)


def valid_options(given: Options, s: Counted) -> jax.Array:
    """Fractions in [0, 1]; priors nonnegative, with one above 0 among the classes present."""
    valid = jnp.bool_(True)
    for fraction in (given.shrinkage, given.pooling):
        if fraction is not None:
            valid &= (fraction >= 0) & (fraction <= 1)
    if given.priors is not None:
        priors = given.priors
        valid &= jnp.all((priors >= 0) & jnp.isfinite(priors))
        # A lane without data is judged by its data.
        valid &= jnp.any((priors > 0) & (s.rows > 0)) | ~jnp.any(s.rows > 0)
    return valid


def number_of_features(s: Scatter, mask: Any) -> jax.Array:
    """d, masked columns not counted, in the working dtype."""
    d = s.centre.shape[0] if mask is None else jnp.sum(mask)
    return jnp.asarray(d, s.weight.dtype)


def class_priors(given: Options, s: Counted) -> jax.Array:
    """The priors of the classes present, sum 1: given, or their parts of the weight."""
    share = s.weight if given.priors is None else jnp.where(s.rows > 0, given.priors, 0)
    total = jnp.sum(share)
    return share / jnp.where(total > 0, total, 1)


def log_of(priors: jax.Array) -> jax.Array:
    """Their logarithms, -inf for 0."""
    return jnp.where(priors > 0, jnp.log(jnp.where(priors > 0, priors, 1)), -jnp.inf)


def tied_covariance(s: Scatter, divisor: str, given: Options, mask: Any) -> jax.Array:
    """The covariance `(d, d)` that the classes share, shrunk."""
    return _shrunk(_pooled(s, divisor), given.shrinkage, mask, s.unit)


def class_covariances(s: Scatter, divisor: str, given: Options, mask: Any) -> jax.Array:
    """A covariance per class `(k, d, d)`: pooled first, then shrunk."""
    degrees = s.weight - (1 if divisor == "n_k-1" else 0)
    own = s.scatter / jnp.where(degrees > 0, degrees, 1)[:, None, None]
    if given.pooling is not None:
        common = _pooled(s, "n" if divisor == "n" else "n-k")
        own = own + given.pooling * (common[None] - own)
    return jax.vmap(lambda a: _shrunk(a, given.shrinkage, mask, s.unit))(own)


def _pooled(s: Scatter, divisor: str) -> jax.Array:
    number = jnp.sum(s.rows > 0).astype(s.weight.dtype)
    degrees = jnp.sum(s.weight) - (number if divisor == "n-k" else 0)
    return _scatter.tied(s).scatter / jnp.where(degrees > 0, degrees, 1)


def _shrunk(
    covariance: jax.Array, shrinkage: jax.Array | None, mask: Any, unit: jax.Array
) -> jax.Array:
    if shrinkage is None:
        return covariance
    d, dtype = covariance.shape[0], covariance.dtype
    there = jnp.ones(d, bool) if mask is None else mask
    # The identity is that of the user's units. What it is beyond this range leaves nothing to see
    # of a column.
    most = _checks.safe_range(dtype)
    least = jnp.min(jnp.where(there, unit, most), initial=most)
    rate = jnp.where(there, jnp.minimum(unit / least, most), 0)
    part = jnp.diagonal(covariance) / jnp.maximum(jnp.sum(there), 1).astype(dtype)
    size = jnp.sum(jnp.where(there, part * (least / unit) ** 2, 0))
    return covariance + shrinkage * (jnp.diag(size * rate * rate) - covariance)


def few_rows(s: Scatter, given: Options, mask: Any) -> jax.Array:
    """`(k,)`, classes whose own covariance is singular for want of rows, and left as it is."""
    few = (s.rows > 0) & (s.rows.astype(s.weight.dtype) <= number_of_features(s, mask))
    return few & (given.shrinkage == 0) & (given.pooling == 0)


def few_degrees(s: Scatter, given: Options, mask: Any) -> jax.Array:
    """Whether the tied covariance is singular for want of rows, whatever rounding made of it."""
    degrees = jnp.sum(s.rows - (s.rows > 0).astype(s.rows.dtype))
    few = degrees.astype(s.weight.dtype) < number_of_features(s, mask)
    return few & (given.shrinkage == 0)


def verdict(
    s: Counted, valid: jax.Array, small: jax.Array, solved: jax.Array, objective: jax.Array
) -> Info:
    """A closed form has `solved` its equations unless something is wrong; its residual is 0.

    Where its optimum is at infinity its objective is -inf.
    """
    objective = jnp.where(solved >= Status.QUASI_SEPARABLE, -jnp.inf, objective)
    alone = jnp.sum(s.rows > 0) < 2
    status = jnp.where(small | alone, Status.CLASS_TOO_SMALL, solved)
    status = jnp.where(valid, status, Status.INVALID_DATA).astype(jnp.int32)
    residual = jnp.where(valid, 0, jnp.nan).astype(objective.dtype)
    return Info(status, jnp.int32(0), jnp.where(valid, objective, jnp.nan), residual)


def solved(
    inverse: _linalg.Inverse,
    rows: _rows.Rows | None,
    groups: int,
    lacking: jax.Array | bool = False,
    *,
    told: jax.Array | int = Status.CONVERGED,
    coarse: jax.Array | bool = False,
    centred: bool = True,
) -> jax.Array:
    """CONVERGED, or RANK_DEFICIENT where columns depend on each other; STALLED where that is open.

    Products of columns tell dependence to half of the digits that the rows do. So what they call
    the null space is looked at in the rows, if there are any: rows of a group that differ along it
    by more than rounding are information that the products have lost.

    Args:
      inverse: of a covariance, or one for each group.
      rows: prepared, or None where there are moments only.
      groups: static; how many classes have a mean of their own in the covariance, or 1.
      lacking: whether there are too few rows for all columns, whatever rounding made of that.
      told: what flat directions tell of the classes, see `_flat.status`.
      coarse: whether the params cannot be written well enough, see `is_coarse`.
      centred: static; without, products of the rows as they are.
    """
    null = inverse.null if inverse.null.ndim == 3 else inverse.null[None]
    deficient = jnp.any(inverse.deficient | (inverse.told > 0))
    doubtful = ~jnp.all(inverse.clear) | coarse
    if rows is not None:
        differ = functools.partial(_differ, groups, centred)
        operands = jax.lax.stop_gradient((rows._replace(offset=None), null))
        doubtful |= _linalg.when(deficient, differ, jnp.bool_(False), operands)
    status = jnp.where(deficient | lacking, Status.RANK_DEFICIENT, Status.CONVERGED)
    status = jnp.maximum(status, told)
    return jnp.where(doubtful, Status.STALLED, status).astype(jnp.int32)


def is_coarse(terms: jax.Array, size: jax.Array) -> jax.Array:
    """Whether rounding the params leaves fewer than a third of the digits of what scores tell.

    Far from 0 large terms cancel in a score, and no params in the user's units can help it.

    Args:
      terms: of each score, the sum of the sizes of its terms at the rows' mean.
      size: of the differences between scores that matter.
    """
    lost = float(jnp.finfo(terms.dtype).eps) ** (1 - DIGITS_LEFT)
    # In this order, so that terms that are no numbers are no success.
    return ~jnp.all(jax.lax.stop_gradient(terms * lost <= size))


def linear_scores(
    inverse: _linalg.Inverse, apart: jax.Array, centre: jax.Array, log_priors: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Log joint densities of tied classes, but for the part without classes, as planes.

    (S^-1 m_c) . x - m_c' S^-1 m_c / 2 + log prior_c, m_c = centre + apart_c. What all have in
    common, that of the centre, is left out where its rounding would cost half of the digits.

    Args:
      inverse: of the covariance S `(d, d)`.
      apart: `(k, d)`, the class means less their centre.
      centre: `(d,)`.
      log_priors: `(k,)`.

    Returns:
      `(weights (k, d), bias (k,), coarse ())`, the last as `is_coarse` has it.
    """
    solved = jnp.concatenate([apart, centre[None, :]])
    solved = _linalg.refined(inverse, solved)
    own, common = solved[:-1], solved[-1]
    form = jnp.sum(own * apart, axis=1)
    size = jnp.maximum(jnp.max(jnp.where(jnp.isfinite(log_priors), form, 0), initial=0), 1)
    level = jnp.abs(centre)
    root = float(jnp.finfo(own.dtype).eps) ** 0.5
    felt = jax.lax.stop_gradient(dot(jnp.abs(common), level) * root > size)
    common = jnp.where(felt, 0, common)
    bias = log_priors - dot(own, centre) - form / 2 - dot(common, centre) / 2
    return own + common[None, :], bias, is_coarse(dot(jnp.abs(own), level), size)


def _differ(groups: int, centred: bool, rows: _rows.Rows, null: jax.Array) -> jax.Array:
    """Whether rows of a group differ along its null space `null (1 or g, d, d)`.

    Each row leaves an interval, its score with the rounding of its terms; they must have a point in
    common, which is 0 if nothing is centred.
    """
    d, eps = null.shape[-1], float(jnp.finfo(null.dtype).eps)

    def ends(block):
        own = block.y if groups > 1 else jnp.zeros(block.y.shape, jnp.int32)
        score, size = _along(block.x, null, own), _along(jnp.abs(block.x), jnp.abs(null), own)
        both = jnp.stack([score, -score], axis=1) - NULL_ULPS * d * eps * size[:, None, :]
        return (), _scatter.largest_of_each_class(both, block.weight, own, groups)

    # A block is held once more for every null space.
    _, lower = _fold.fold(ends, rows, _rows.BLOCK_ENTRIES // (4 + len(null)))
    if not centred:
        lower = jnp.maximum(lower, 0)
    return jnp.any(jnp.sum(lower, axis=1) > 0)


def _along(x: jax.Array, null: jax.Array, own: jax.Array) -> jax.Array:
    """Each row's scores along its null space; of |x|, the sum of its terms' sizes."""
    if len(null) == 1:
        return dot(x, null[0])
    d = null.shape[-1]
    each = dot(x, jnp.swapaxes(null, 0, 1).reshape(d, len(null) * d)).reshape(len(x), len(null), d)
    return jnp.take_along_axis(each, own[:, None, None], axis=1)[:, 0]


def settled(params: Any, info: Info, kept: jax.Array, given: Any) -> tuple[Any, Info]:
    """The params where they are kept, else NaN; derivatives are NaN where the fit has failed."""
    fine = info.status <= Status.STALLED
    params = _implicit.guarded(params, fine, given, _implicit.where(kept, params))
    return params, _implicit.told(info, fine, given)


def negative_log_likelihood(
    s: Scatter, priors: jax.Array, covariance: jax.Array, inverse: _linalg.Inverse, rank: jax.Array
) -> jax.Array:
    """Minus the mean log joint density of the rows under one covariance, `()`."""
    total = jnp.sum(s.weight)
    share = s.weight / jnp.where(total > 0, total, 1)
    entropy = -jnp.sum(jnp.where(share > 0, share * jnp.log(jnp.where(share > 0, priors, 1)), 0))
    scatter = _scatter.tied(s).scatter / jnp.where(total > 0, total, 1)
    form = jnp.sum(inverse.matrix * scatter)
    return entropy + (rank * math.log(2 * math.pi) + inverse.log_determinant + form) / 2


def class_negative_log_likelihood(
    s: Scatter, priors: jax.Array, inverses: _linalg.Inverse, rank: jax.Array
) -> jax.Array:
    """Minus the mean log joint density of the rows, a covariance per class, `()`."""
    total = jnp.sum(s.weight)
    share = s.weight / jnp.where(total > 0, total, 1)
    own = s.scatter / jnp.where(s.weight > 0, s.weight, 1)[:, None, None]
    form = jnp.sum(inverses.matrix * own, axis=(1, 2))
    each = (rank * math.log(2 * math.pi) + inverses.log_determinant + form) / 2
    each = each - jnp.log(jnp.where(priors > 0, priors, 1))
    return jnp.sum(jnp.where(share > 0, share * each, 0))

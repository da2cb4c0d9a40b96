"""Linear discriminant analysis: Bayes' rule for Gaussian classes that share a covariance.

log p(c) p(x | c), up to a part that all classes share, is linear in x:
s_c(x) = (S^-1 m_c) . x - m_c' S^-1 m_c / 2 + log prior_c (Fisher 1936; Hastie, Tibshirani and
Friedman, section 4.3). One pass over the data, no iteration; the best classifier there is while the
classes are Gaussian and tied, and robust with little data when shrunk. `logistic` and `softmax`
assume less and need more data.

A singular covariance (duplicated or constant columns) is inverted on its range, RANK_DEFICIENT;
`shrinkage` makes it regular. In a direction in which no class varies and their means differ, which
fewer rows than columns always leave, a plane separates them and the likelihood has no bound: the
status is SEPARABLE, or QUASI_SEPARABLE where some classes are not told apart so, and the params,
those of a small variance in that direction, tell apart what it does. Where rounding hides whether
it is singular (columns that differ in their ninth digit, one row far beyond all others), STALLED;
from moments alone it is taken for singular. `residual` is 0, `objective` minus the mean log
likelihood, -inf where that has no bound.

Of data far from 0, beside their spread, a score is the sum of large terms that cancel. What all
classes have in common is left out of them then: S^-1 (m_c - m), m being the mean of the means, for
S^-1 m_c. Where even so a third of the digits is not left, STALLED: standardise them.

Shapes: `n` examples, `d` features, `k` classes.
"""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _checks, _invalid, _mesh, _platform, _traits, _words
from jaxlin._batch import _lanes
from jaxlin._data import _fold, _prepare
from jaxlin._linalg import dot
from jaxlin._moments import _bayes, _closed_form, _flat, _scatter
from jaxlin.moments import ClassMoments, TiedMoments, tied
from jaxlin.types import Info, Linear


@_words.a_fit
def fit(
    x: Any,
    y: Any,
    *,
    num_classes: int | None = None,
    priors: Any = None,
    shrinkage: Any = 0.0,
    divisor: str = "n",
    sample_weight: Any = None,
    feature_mask: Any = None,
    axis_name: str | None = None,
) -> tuple[Linear, Info]:
    """Fit by linear discriminant analysis.

    Args:
      x: `(n, d)`.
      y: `(n,)` class indices.
      num_classes: k, static; eagerly by default 1 + the largest label with weight.
      priors: `(k,)`, nonnegative, divided by their sum over the classes present; by default each
        class's part of the weight.
      shrinkage: in [0, 1], toward the identity of the same trace; or a function of `(x, y, *,
        sample_weight)` that returns it, such as `ledoit_wolf`.
      divisor: of the scatter, static: "n" (maximum likelihood) or "n-k".
      sample_weight: `(n,)`, nonnegative; a row of weight 2 is the row twice.
      feature_mask: `(d,)` bool; a masked column has weight 0 and is not counted in d.
      axis_name: static; the mesh axis over which the rows are dealt, inside `jax.shard_map`: see
        `distributed`.

    Returns:
      `(params, info)`, a Linear and an Info of status CONVERGED, RANK_DEFICIENT, STALLED (the
      covariance may be singular, or only nearly), QUASI_SEPARABLE, SEPARABLE, CLASS_TOO_SMALL
      (fewer than two classes; the present one is predicted always) or INVALID_DATA. An absent class
      has weights 0 and bias -inf. O(n d^2).

    Raises:
      ValueError: shapes that do not fit; eagerly also data that are not valid.
      TypeError: dtypes or static arguments of the wrong kind.

    Differentiable in x, sample_weight, priors and shrinkage.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import lda
      >>> x = jnp.array([[-1.0], [1.0], [3.0], [5.0]])
      >>> params, info = lda.fit(x, jnp.array([0, 0, 1, 1]))
      >>> params.weights.round(3).tolist(), (params.bias[1] - params.bias[0]).round(3).item()
      ([[0.0], [4.0]], -8.0)
    """
    data = _checks.table(
        x, y, sample_weight=sample_weight, feature_mask=feature_mask, axis_name=axis_name
    )
    k = _checks.number_of_classes(num_classes, y, sample_weight)
    divisor = _bayes.check_divisor(divisor, _bayes.TIED_DIVISORS)
    amount = _bayes.shrinkage_of(shrinkage, x, y, sample_weight, feature_mask, axis_name)
    given = _bayes.options(_checks.working_dtype(data.x), k, priors=priors, shrinkage=amount)
    params, info = _fit(k, divisor, data, given)
    _invalid.raise_if_invalid(
        info, data, num_classes=k, nonnegative={"priors": priors}, fractions={"shrinkage": amount}
    )
    return params, info


def fit_from_moments(
    moments_of_data: TiedMoments | ClassMoments,
    *,
    priors: Any = None,
    shrinkage: Any = 0.0,
    divisor: str = "n",
) -> tuple[Linear, Info]:
    """Fit from merged statistics instead of data.

    Args:
      moments_of_data: of `moments.tied` or `moments.per_class`.
      priors: `(k,)`, or None.
      shrinkage: in [0, 1], a number.
      divisor: "n" or "n-k".

    Returns:
      `(params, info)`, as `fit` returns them.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import lda, moments
      >>> x = jnp.array([[-1.0], [1.0], [3.0], [5.0]])
      >>> params, info = lda.fit_from_moments(moments.tied(x, jnp.array([0, 0, 1, 1])))
      >>> params.weights.round(3).tolist()
      [[0.0], [4.0]]
    """
    divisor = _bayes.check_divisor(divisor, _bayes.TIED_DIVISORS)
    s = _scatter.of_moments(moments_of_data, TiedMoments, ClassMoments)
    given = _bayes.options(s.weight.dtype, len(s.weight), priors=priors, shrinkage=shrinkage)
    return _from_moments(divisor, s, given)


def ledoit_wolf(
    x: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    feature_mask: Any = None,
    axis_name: str | None = None,
) -> Any:
    """The shrinkage of least expected squared error of the covariance within classes.

    (mean |z z' - S|^2 / n) / |S - (tr S / d) I|^2, at most 1, where z are deviations from class
    means (Ledoit and Wolf 2004, "A well-conditioned estimator for large-dimensional covariance
    matrices"). The same in all units of x that its columns share, however small or large.

    Args:
      x: `(n, d)`.
      y: `(n,)` class indices, below n.
      sample_weight: `(n,)`, nonnegative; counts of rows.
      feature_mask: `(d,)` bool.
      axis_name: static; the mesh axis over which the rows are dealt, inside `jax.shard_map`: see
        `distributed`.

    Returns:
      `()`, in [0, 1]; to hand to `fit` as `shrinkage=lda.ledoit_wolf`, so that every fold of a
      cross-validation estimates its own.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import lda
      >>> x = jnp.array([[-2.0, 1.0], [1.0, 0.0], [0.0, 2.0], [2.0, 1.0], [5.0, -4.0]])
      >>> lda.ledoit_wolf(x, jnp.array([0, 0, 0, 1, 1])).round(3).item()
      0.463
    """
    data = _checks.table(
        x, y, sample_weight=sample_weight, feature_mask=feature_mask, axis_name=axis_name
    )
    return _ledoit_wolf(data)


@functools.partial(_platform.jit, static_argnums=(0, 1))
def _fit(k, divisor, data, given):
    @_lanes.of_closed_form
    def fit(data, given):
        s, valid, rows = _bayes.of_data(data, k, per_class=False)
        return _discriminants(divisor, s, valid, given, data.feature_mask, data, rows)

    return fit(data, given)


@functools.partial(_platform.jit, static_argnums=0)
def _from_moments(divisor, s, given):
    return _discriminants(divisor, _scatter.tied(s), _bayes.valid_moments(s), given, None, s)


def _discriminants(divisor, s, valid, given, mask, source, rows=None):
    valid &= _bayes.valid_options(given, s)
    priors = _bayes.class_priors(given, s)
    covariance = _bayes.tied_covariance(s, divisor, given, mask)
    inverse = _flat.tied_inverse(covariance, s, mask, seen=rows is not None)
    middle = dot(priors, s.offset)
    present = s.rows > 0
    apart = jnp.where(present[:, None], s.offset - middle[None, :], 0)
    weights, bias, coarse = _bayes.linear_scores(
        inverse, apart, s.centre + middle, _bayes.log_of(priors)
    )
    weights = jnp.where(present[:, None], weights, 0) * s.unit[None, :]
    coarse |= ~jnp.all(jnp.isfinite(jax.lax.stop_gradient(weights)))
    small = _bayes.no_degrees(s, divisor)
    d = _bayes.number_of_features(s, mask)
    objective = _bayes.negative_log_likelihood(s, priors, covariance, inverse, d)
    lacking = _bayes.few_degrees(s, given, mask)
    solved = _bayes.solved(inverse, rows, len(s.rows), lacking, told=inverse.told, coarse=coarse)
    info = _bayes.verdict(s, valid, small, solved, objective)
    params = Linear(weights=weights, bias=bias)
    return _bayes.settled(params, info, valid & ~small, (source, given))


# --- many fits to the same rows ------------------------------------------------------------------


class _Factors(NamedTuple):
    """What is made of the total scatter once, in the coordinates of its eigenvectors.

    scale: `(d,)`, what the columns, in units, are multiplied with first: where the covariance is
      shrunk, all are those of the user times one number
    unit: `(d,)`, those units
    factor: `()`, the covariance's divisor over the weight
    square: `(n,)`, the squared distances of the rows from their mean, in `scale`
    """

    values: jax.Array
    vectors: jax.Array
    scale: jax.Array
    unit: jax.Array
    factor: jax.Array
    priors: jax.Array | None
    square: jax.Array


def _factors(
    at: _closed_form.Still,
    held: _closed_form.Held,
    k: int,
    *,
    num_classes=None,
    priors=None,
    shrinkage=0.0,
    divisor="n",
) -> _Factors:
    divisor = _bayes.check_divisor(divisor, _bayes.TIED_DIVISORS)
    number = 1.0 if shrinkage is ledoit_wolf else shrinkage
    given = _bayes.options(at.mean.dtype, k, priors=priors, shrinkage=number)
    variance = jnp.diagonal(at.scatter)
    # Powers of two, or the scatter would be rounded.
    unit = _linalg.power_of_two(jax.lax.rsqrt(jnp.where(variance > 0, variance, 1)))
    alike = jnp.min(at.unit, initial=jnp.inf) / at.unit
    scale = jnp.where(jnp.asarray(given.shrinkage) == 0, unit, alike)
    square = jnp.sum(((held.x - at.mean[None, :]) * scale[None, :]) ** 2, axis=1)
    values, vectors = _linalg.eigh(at.scatter * scale[:, None] * scale[None, :])
    lost = k if divisor == "n-k" else 0
    factor = 1 - lost / at.total
    return _Factors(values, vectors, scale, at.unit, factor, given.priors, square)


def _relabelled(
    at: _closed_form.Still,
    held: _closed_form.Held,
    factors: _Factors,
    sums: _closed_form.Sums,
    *,
    shrinkage=0.0,
    **_,
) -> tuple[Linear, jax.Array, jax.Array]:
    """The fit, by the covariance diag(spread) - pull' pull in the eigenvectors' coordinates."""
    k, d = sums.moved.shape
    values, vectors, scale, unit, factor, given = factors[:-1]
    share = jnp.where(sums.share > 0, sums.share, 1)[:, None]
    apart = sums.moved * scale[None, :] / share
    offset = dot(apart, vectors)
    level = (jnp.sum(values) - jnp.sum(share * offset**2)) / d
    told = jnp.bool_(True)
    if shrinkage is ledoit_wolf:
        shrinkage, told = _estimated(at, held, factors, sums, offset)
    shrinkage = jnp.asarray(shrinkage, values.dtype)
    pull = jnp.sqrt(share * (1 - shrinkage)) * offset
    spread = values + shrinkage * (level - values)
    pulled = pull / spread[None, :]
    inner = _linalg.factor(jnp.eye(k, dtype=pull.dtype) - dot(pulled, pull.T))

    def rough(rows):
        turned = dot(rows, vectors)
        found = turned / spread[None, :]
        found += dot(_linalg.solve(inner, dot(pulled, turned.T)).T, pulled)
        return dot(found, vectors.T)

    # Where all is shrunk the covariance is a number; else what eigenvectors lose is taken back.
    part = jnp.where(shrinkage < 1, 1 - shrinkage, 1)
    rows = jnp.concatenate([apart, ((at.origin + at.mean) * scale)[None, :]])
    found = rough(rows)
    scatter = at.scatter * scale[:, None] * scale[None, :]
    left = _linalg.left(scatter, found, rows / part) - found * (shrinkage / part * level)
    left += dot(dot(found, apart.T) * share.T, apart)
    more = jnp.where(shrinkage < 1, rough(left * part), 0)
    solved = (found + more) * factor
    means = rows[:-1] + rows[-1:]
    own = solved[:-1] + solved[-1:]
    priors = sums.share if given is None else given / jnp.sum(given)
    form = jnp.sum(own * means, axis=1)
    bias = jnp.log(jnp.where(priors > 0, priors, 1)) - form / 2
    params = Linear(own * (scale * unit)[None, :], jnp.where(priors > 0, bias, -jnp.inf))
    eps = float(jnp.finfo(values.dtype).eps)
    size = jnp.max(jnp.abs(found), axis=1)
    regular = jnp.all(jnp.max(jnp.abs(more), axis=1) <= eps**0.4 * size)
    regular &= jnp.min(spread) > eps**0.75 * jnp.max(spread)
    # Far from 0 a fit leaves out what all classes share.
    regular &= jnp.max(form) * eps**0.5 < 1
    # The least eigenvalue of the inner matrix is no less than this: what is left within classes.
    regular &= inner.pivot * jnp.min(1 / inner.scale**2) >= _closed_form.LEAST_SPREAD
    valid = (shrinkage >= 0) & (shrinkage <= 1) & jnp.all(priors >= 0)
    present = jnp.all(sums.rows > 0) & (factor > 0)
    # Minus the mean log joint density, as `_bayes.negative_log_likelihood` has it.
    entropy = -jnp.sum(sums.share * jnp.log(jnp.where(priors > 0, priors, 1)))
    determinant = jnp.sum(jnp.log(spread)) - 2 * jnp.sum(jnp.log(scale * unit))
    determinant += 2 * jnp.sum(jnp.log(jnp.diagonal(inner.lower)) - jnp.log(inner.scale))
    inside = jnp.sum(_linalg.solve(inner, pulled) * pulled * values[None, :])
    inside = (inside + jnp.sum(values / spread)) * factor - jnp.sum(share * solved[:-1] * apart)
    objective = d * (math.log(2 * math.pi) - jnp.log(factor)) + determinant + inside
    return params, entropy + objective / 2, at.sound & told & regular & valid & present


def _estimated(at, held, factors, sums, offset):
    """`ledoit_wolf` of S = diag(values) - offset' diag(share) offset, and whether it has digits."""
    d, share = held.x.shape[1], sums.share
    eps = float(jnp.finfo(offset.dtype).eps)
    level = (jnp.sum(factors.values) - jnp.sum(share[:, None] * offset**2)) / d
    away = factors.values - level
    apart = jnp.sum(away**2) - 2 * jnp.sum(share * dot(offset**2, away))
    apart += jnp.sum(share[:, None] * share[None, :] * dot(offset, offset.T) ** 2)
    square = apart + d * level**2
    point = sums.moved / jnp.where(share > 0, share, 1)[:, None] * (factors.scale**2)[None, :]
    along = dot(point, held.x.T) - dot(point, at.mean)[:, None]
    distance = factors.square[None, :] - 2 * along + jnp.sum(offset**2, axis=1)[:, None]
    noise = (jnp.sum(sums.member * distance**2) - square) / at.total
    amount = jnp.clip(noise / jnp.where(apart > 0, apart, 1), 0, 1)
    return amount, apart > eps**0.4 * square


def _reweighed(s, valid, source, *, num_classes=None, priors=None, shrinkage=0.0, divisor="n"):
    divisor = _bayes.check_divisor(divisor, _bayes.TIED_DIVISORS)
    k, dtype = len(s.weight), s.weight.dtype
    given = _bayes.options(dtype, k, priors=priors, shrinkage=shrinkage)
    params, info = _discriminants(divisor, s, valid, given, None, source)
    return params, info, _closed_form.settled(info)


_OFFER = _closed_form.Offer(
    frozenset({"num_classes", "priors", "shrinkage", "divisor"}),
    _factors,
    _relabelled,
    _reweighed,
    functions=frozenset({ledoit_wolf}),
    late=frozenset({"shrinkage"}),
)


@_platform.jit
def _ledoit_wolf(data):
    n, d = data.x.shape
    n = n * _mesh.devices(data.axis)
    rows, total, valid = _prepare.prepare(data, num_classes=n)
    # Class means by segments: there may be as many classes as rows.

    def first(block):
        size = jax.ops.segment_sum(block.weight, block.y, num_segments=n)
        return (size, dot(block.weight, block.x)), ()

    (size, centre), _ = _fold.fold(first, rows)

    def deviation(block):
        return block.x - centre[None, :]

    def class_sums(block):
        apart = deviation(block)
        weighted = apart * block.weight[:, None]
        reach = jnp.where((block.weight > 0)[:, None], jnp.abs(apart), 0)
        largest = jnp.max(jax.lax.stop_gradient(reach), initial=0)
        return jax.ops.segment_sum(weighted, block.y, num_segments=n), largest

    sums, largest = _fold.fold(class_sums, rows)
    mean = sums / jnp.where(size > 0, size, 1)[:, None]
    # In units near the rows' own, or fourth powers would leave the range.
    unit = 1 / _linalg.power_of_two(largest)
    far = float(jnp.finfo(centre.dtype).max) ** (1 / 4) / (d + 1)

    def squares(block):
        z = (deviation(block) - mean[block.y]) * unit
        # Not by the weight, in which a row has a derivative at 0 too: alone in its class, that of a
        # row at its mean. One so far out that powers of it overflow is as one that is no number.
        z = jnp.where((size > 0)[block.y][:, None] & (jnp.abs(z) <= far), z, 0)
        fourth = jnp.sum(block.weight * jnp.sum(z * z, axis=1) ** 2)
        return (fourth, dot((z * block.weight[:, None]).T, z)), ()

    (fourth, scatter), _ = _fold.fold(squares, rows)
    mask = data.feature_mask
    there = jnp.ones(d, scatter.dtype) if mask is None else mask.astype(scatter.dtype)
    level = jnp.trace(scatter) / jnp.maximum(jnp.sum(there), 1)
    apart = jnp.sum((scatter - level * jnp.diag(there)) ** 2)
    noise = (fourth - jnp.sum(scatter**2)) / jnp.where(total > 0, total, 1)
    noise = jnp.minimum(jnp.maximum(noise, 0), apart)
    amount = jnp.where(apart > 0, noise / jnp.where(apart > 0, apart, 1), 0)
    return jnp.where(valid & (total > 0), amount, jnp.nan)


_traits.declare(fit, many=_OFFER, log_odds=True, moments=(tied, fit_from_moments))

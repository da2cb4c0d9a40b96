"""Nearest shrunken centroids: class means, drawn toward the mean of all until few columns differ.

A row goes to the class whose centroid is nearest, columns measured by their spread within classes.
The centroids' distances from the mean of all, in their standard errors, are reduced by a threshold,
and what is left below it is 0: a column in which no class stands out is left out of the model
(Tibshirani, Hastie, Narasimhan and Chu 2002, as R's pamr). Linear, in closed form, O(n d): for
thousands of columns and few rows, where `lda` has no covariance to speak of. It takes columns for
independent; where they are not and rows are many, `lda` or `logistic` with `l1` do better.

With threshold 0 it is `lda` with a diagonal covariance, of spreads s_j + s_0. Choose the threshold
by cross-validation: each fold's fit is a lane of a vmap over thresholds and weights.

`residual` is 0. `objective` is the mean over rows of half the squared distance from the centroid of
their own class, less its log prior. The status is CONVERGED; CLASS_TOO_SMALL where fewer than two
classes have weight, or no more rows than classes; where most columns vary in no class s_0 is 0, and
one of them that differs between classes tells them apart by itself: SEPARABLE, or QUASI_SEPARABLE
where not all classes are.

Shapes: `n` examples, `d` features, `k` classes.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from jaxlin._base import _checks, _invalid, _platform, _traits, _words
from jaxlin._data import _prepare
from jaxlin._linalg import dot
from jaxlin._moments import _bayes, _columns, _scatter
from jaxlin.types import Info, Linear, Status

# Of which the root has a derivative, in any dtype.
TINY = 2.0**-126


@_words.a_fit
def fit(
    x: Any,
    y: Any,
    *,
    threshold: Any = 0.0,
    num_classes: int | None = None,
    priors: Any = None,
    sample_weight: Any = None,
    feature_mask: Any = None,
    axis_name: str | None = None,
) -> tuple[Linear, Info]:
    """Fit by nearest shrunken centroids.

    With class means m_c, the mean m of all, the pooled spread s_j within classes (divisor n - k),
    s_0 the median of the s_j, and e_cj = sqrt(1 / n_c - 1 / n) (s_j + s_0), the centroids are
    m_j + e_cj soft((m_cj - m_j) / e_cj), soft(a) = sign(a) max(|a| - threshold, 0).

    Args:
      x: `(n, d)`.
      y: `(n,)` class indices.
      threshold: `()`, nonnegative, in standard errors; 0 shrinks nothing.
      num_classes: k, static; eagerly by default 1 + the largest label with weight.
      priors: `(k,)`, nonnegative, divided by their sum over the classes present; by default each
        class's part of the weight.
      sample_weight: `(n,)`, nonnegative; a row of weight 2 is the row twice.
      feature_mask: `(d,)` bool; a masked column has weight 0 and no part in s_0.
      axis_name: static; the mesh axis over which the rows are dealt, inside `jax.shard_map`: see
        `distributed`.

    Returns:
      `(params, info)`, a Linear and an Info. Weights are those of half the negative squared
      distances less what all classes share: 0 for a column in which none stands out. An absent
      class has weights 0 and bias -inf.

    Raises:
      ValueError: shapes that do not fit; eagerly also data that are not valid.
      TypeError: dtypes or static arguments of the wrong kind.

    Differentiable in x, sample_weight, priors and threshold, what is 0 staying so.

    Example: only the first column tells the classes apart.
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from jaxlin import centroids
      >>> y = jnp.arange(60) % 2
      >>> x = jax.random.normal(jax.random.key(0), (60, 5)).at[:, 0].add(3.0 * y)
      >>> params, info = centroids.fit(x, y, threshold=2.5)
      >>> (params.weights != 0).any(axis=0).tolist(), info.status.item()
      ([True, False, False, False, False], 0)
    """
    data = _checks.table(
        x, y, sample_weight=sample_weight, feature_mask=feature_mask, axis_name=axis_name
    )
    k = _checks.number_of_classes(num_classes, y, sample_weight)
    dtype = _checks.working_dtype(data.x)
    threshold = _checks.scalar(threshold, dtype, "threshold")
    params, info = _fit(k, data, threshold, _bayes.options(dtype, k, priors=priors))
    _invalid.raise_if_invalid(
        info, data, num_classes=k, nonnegative={"priors": priors, "threshold": threshold}
    )
    return params, info


@functools.partial(_platform.jit, static_argnums=0)
def _fit(k, data, threshold, given):
    rows, total, valid = _prepare.prepare(data, num_classes=k)
    s = _columns.of_rows(_scatter.in_units(rows), k, jnp.where(valid, total, 0))
    valid &= _bayes.valid_options(given, s) & (threshold >= 0)
    priors, present = _bayes.class_priors(given, s), s.rows > 0
    number = jnp.sum(s.weight)
    classes = jnp.sum(present).astype(number.dtype)
    small = number <= classes
    in_play = jnp.ones(len(s.unit), bool) if data.feature_mask is None else data.feature_mask
    share = jnp.where(present, s.weight, 0) / jnp.where(number > 0, number, 1)
    middle = dot(share, s.offset)
    # From here in the user's units.
    apart = jnp.where(present[:, None], s.offset - middle[None, :], 0) / s.unit[None, :]
    spread = _root(jnp.sum(s.scatter, axis=0) / jnp.where(small, 1, number - classes)) / s.unit
    scale, told = _scale(spread, apart, present, in_play)
    size = jnp.where(present, s.weight, 1)
    # Of a class that is alone it is 0.
    apart_by = jnp.maximum(1 / size - 1 / jnp.where(number > 0, number, 1), TINY)
    error = jnp.sqrt(apart_by)[:, None]
    far = apart / scale[None, :]
    left = jnp.sign(far) * jnp.maximum(jnp.abs(far) - threshold * error, 0)
    left = jnp.where(in_play[None, :] & present[:, None], left, 0)
    weights = left / scale[None, :]
    centre = (s.centre + middle) / s.unit
    log_priors = _bayes.log_of(priors)
    form = jnp.sum(left**2, axis=1) / 2
    bias = log_priors - dot(weights, centre) - form
    terms = dot(jnp.abs(weights), jnp.abs(centre))
    coarse = _bayes.is_coarse(terms, jnp.maximum(jnp.max(form), 1))
    within = jnp.where(in_play, spread / scale, 0) ** 2 * (number - classes)
    moved = jnp.where(in_play[None, :], far - left, 0) ** 2
    distance = jnp.sum(within) / jnp.where(number > 0, number, 1) + dot(share, jnp.sum(moved, 1))
    entropy = -jnp.sum(jnp.where(present, share * jnp.where(priors > 0, log_priors, 0), 0))
    status = jnp.where(coarse, jnp.maximum(told, Status.STALLED), told)
    info = _bayes.verdict(s, valid, small, status, entropy + distance / 2)
    params = Linear(weights=weights, bias=jnp.where(present, bias, -jnp.inf))
    return _bayes.settled(params, info, valid & ~small, (data, threshold, given))


def _scale(spread, apart, present, in_play):
    """s_j + s_0 `(d,)`, and CONVERGED, or what columns tell of which nothing varies."""
    # With one more, so that there is one where there are no columns.
    ordered = jnp.sort(jnp.append(jnp.where(in_play, spread, jnp.inf), jnp.inf))
    count = jnp.sum(in_play)
    below, above = ordered[jnp.maximum(count - 1, 0) // 2], ordered[count // 2]
    scale = spread + jnp.where(count > 0, (below + above) / 2, 0)
    reach = jnp.max(jnp.abs(apart), axis=0)
    flat = in_play & (scale == 0)
    differ = jax.lax.stop_gradient(apart)[:, None, :] != jax.lax.stop_gradient(apart)[None, :, :]
    pairs = jnp.any(differ & flat[None, None, :], axis=2)
    pairs |= ~(present[:, None] & present[None, :]) | jnp.eye(len(present), dtype=bool)
    told = jnp.where(jnp.all(pairs), Status.SEPARABLE, Status.QUASI_SEPARABLE)
    told = jnp.where(jnp.any(flat & (reach > 0)), told, Status.CONVERGED)
    # A small one: of what varies nowhere nothing is left to measure by.
    small = float(jnp.finfo(spread.dtype).eps) ** 0.25 * reach
    return jnp.where(scale > 0, scale, jnp.where(small > 0, small, 1)), told.astype(jnp.int32)


def _root(a: jax.Array) -> jax.Array:
    """Of a square that is 0 the root has no derivative."""
    return jnp.where(a > 0, jnp.sqrt(jnp.where(a > 0, a, 1)), 0)


_traits.declare(fit, log_odds=True)

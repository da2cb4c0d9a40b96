"""Directions in which a class does not vary and another differs: there a closed form is unbounded.

As the variance along such a direction goes to 0 the likelihood grows beyond all bounds, and a plane
tells the classes apart. So it is given a small variance, under which what it tells outweighs what
all others do: a point on the way to infinity. Nothing is done to a direction in which nothing at
all varies. Shapes: `d` features, `k` classes.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._linalg import dot
from jaxlin._moments._scatter import Scatter
from jaxlin.types import Status

# Differences along a direction below this many units of d * eps of the sum of their terms' sizes
# are rounding, of the data and of the direction.
FLAT_ULPS = 64


class _Classes(NamedTuple):
    """What is asked of the null space of a covariance.

    means: `(k, d)`, about `centre (d,)`
    rows: `(k,)`, how many have weight
    chosen: `(m,)`, the classes whose covariance it is, or one of those that share it
    within: `(d, d)`, the covariance within all classes, or None where this one is that
    hidden: `()`, the variance, part of a column's own, below which products do not show any
    """

    means: jax.Array
    centre: jax.Array
    rows: jax.Array
    chosen: jax.Array
    within: jax.Array | None
    hidden: jax.Array


def tied_inverse(
    covariance: jax.Array, s: Scatter, mask: jax.Array | None, *, seen: bool = True
) -> _linalg.Inverse:
    """The inverse of a covariance that all classes share, widened where it is flat.

    `seen`, static: whether rows are looked at along its null space too, see `_bayes.solved`.
    """
    classes = _classes(s, jnp.arange(len(s.rows)), None, seen)
    return _linalg.pseudo_inverse(covariance, mask, _level(s), _told, classes, s.unit)


def class_inverses(
    covariances: jax.Array,
    s: Scatter,
    within: jax.Array,
    mask: jax.Array | None,
    *,
    seen: bool = True,
) -> _linalg.Inverse:
    """The inverse of each present class's covariance, widened where it is flat and others are not.

    Those of absent classes are of the identity. `within (d, d)`: the covariance within all classes.
    """
    eye = jnp.eye(covariances.shape[-1], dtype=covariances.dtype)
    safe = jnp.where((s.rows > 0)[:, None, None], covariances, eye[None])
    classes = _classes(s, jnp.arange(len(s.rows))[:, None], within, seen)
    level = _level(s) + jnp.sqrt(jnp.maximum(jnp.diagonal(within), 0))
    inverse = jax.vmap(
        lambda a, chosen: _linalg.pseudo_inverse(
            a, mask, level, _told, classes._replace(chosen=chosen), s.unit
        )
    )
    return inverse(safe, classes.chosen)


def status(inverse: _linalg.Inverse, present: jax.Array) -> jax.Array:
    """What the flat directions of all inverses tell, `()` int32; CONVERGED where that is nothing.

    SEPARABLE where they tell all classes apart, QUASI_SEPARABLE where some, or only rows, and
    STALLED where rounding hides whether they do.
    """
    each = jnp.where(present, inverse.told, Status.CONVERGED)
    all_apart = jnp.all((each == Status.SEPARABLE) | ~present) & jnp.any(present)
    some = jnp.minimum(jnp.max(each), Status.QUASI_SEPARABLE)
    return jnp.where(all_apart, Status.SEPARABLE, some).astype(jnp.int32)


def _classes(s: Scatter, chosen: jax.Array, within: jax.Array | None, seen: bool) -> _Classes:
    (_, d), dtype = s.offset.shape, s.offset.dtype
    number = jnp.sum(s.rows).astype(dtype)
    # As far as products tell, a row may lie so far from its class's mean.
    hidden = 0 if seen else _linalg.RANK_ULPS * d * float(jnp.finfo(dtype).eps) * number
    middle = jnp.mean(s.offset, axis=0, where=(s.rows > 0)[:, None])
    means = jnp.where((s.rows > 0)[:, None], s.offset - middle[None, :], 0)
    given = _Classes(means, s.centre + middle, s.rows, chosen, within, jnp.asarray(hidden, dtype))
    return jax.lax.stop_gradient(given)


def _level(s: Scatter) -> jax.Array:
    """How far the classes are apart in each column, `(d,)`."""
    here = (s.rows > 0)[:, None]
    most = jnp.max(jnp.where(here, s.offset, -jnp.inf), axis=0)
    least = jnp.min(jnp.where(here, s.offset, jnp.inf), axis=0)
    return jnp.where(most > least, most - least, 0)


def _told(
    null: jax.Array, onto: jax.Array, unit: jax.Array, classes: _Classes
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """What the null space of a covariance of unit diagonal tells of the classes.

    Args:
      null: `(d, d)`, orthonormal columns, or 0.
      onto: `(d, d)`, the pseudo-inverse.
      unit: `(d,)`, what the columns of x were divided by.

    Returns:
      `(null, width (d,), status ())`: the null space turned to the axes of what others vary in it,
      the variance that its columns are given, 0 for none, and the status as `status` has it.
    """
    d, eps = len(null), float(jnp.finfo(null.dtype).eps)
    ulps = FLAT_ULPS * d * eps
    vary = jnp.zeros(d, null.dtype)
    if classes.within is not None:
        within = classes.within / unit[:, None] / unit[None, :]
        own, size = dot(null.T, dot(within, null)), jnp.trace(within)
        # Columns that are 0 are kept apart, as those beyond the size.
        absent = jnp.where(jnp.any(null != 0, axis=0), 0, 2 * size + 1)
        vary, turn = _linalg.eigh(own + jnp.diag(absent))
        null = jnp.where(vary <= size, dot(null, turn), 0)
        felt = (vary > jnp.maximum(ulps * size, classes.hidden)) & (vary <= size)
        vary = jnp.where(felt, vary, 0)
    means = classes.means / unit[None, :]
    along = dot(means, null)
    terms = dot(jnp.abs(means) + jnp.abs(classes.centre / unit)[None, :] + 1, jnp.abs(null))
    small = ulps * terms
    # A covariance known to its rounding tells its null space so well, beside these means.
    rough = small + ulps * jnp.sum(jnp.abs(dot(means, onto)), axis=1)[:, None]
    rough += jnp.sqrt(classes.hidden)
    here = classes.rows > 0

    def pairs(c):
        gap = jnp.where((here & here[c])[:, None], jnp.abs(along - along[c][None, :]), 0)
        told = gap > rough + rough[c][None, :]
        maybe = jnp.any(gap > small + small[c][None, :], axis=1)
        felt = jnp.any(maybe & ~jnp.any(told, axis=1))
        apart = jnp.any(told & (vary == 0)[None, :], axis=1) | ~here | ~here[c]
        apart |= jnp.arange(len(here)) == c
        widest = jnp.max(jnp.where(told, gap, 0), axis=1, initial=0)
        least = jnp.min(jnp.where(widest > 0, widest, jnp.inf))
        return jnp.any(told, axis=0), least, apart, felt

    columns, least, apart, felt = jax.lax.map(pairs, classes.chosen)
    told = jnp.any(columns, axis=0) | (vary > 0)
    varied = jnp.min(jnp.where(vary > 0, vary, jnp.inf), initial=jnp.inf)
    least = jnp.minimum(jnp.min(least) ** 2, varied)
    # A row's squared distance from its class's mean, in units of the covariance, is at most their
    # number; and half of the digits are left to what the other directions tell.
    weight = 2 * (jnp.sum(classes.rows).astype(null.dtype) + eps**-0.5) / least
    status = jnp.where(jnp.any(felt), Status.STALLED, Status.CONVERGED)
    status = jnp.where(jnp.any(told), Status.QUASI_SEPARABLE, status)
    status = jnp.where(jnp.any(told) & jnp.all(apart), Status.SEPARABLE, status)
    return null, jnp.where(told, 1 / weight, 0), status.astype(jnp.int32)

"""Tests of fit of a logistic regression.

Shapes: `n` rows, `G` groups.
"""

import functools

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _mesh, _platform
from jaxlin._data import _fold
from jaxlin._infer import _estimate
from jaxlin._linalg import dot


@functools.partial(_platform.jit, static_argnums=0)
def hosmer_lemeshow(num_groups, scores, y, weight):
    """The statistic, and its degrees."""
    here, y = weight > 0, y.astype(scores.dtype)
    scores = jnp.where(here, scores, jnp.inf)
    probability = jnp.where(here, jax.nn.sigmoid(scores), 0)
    parts = jnp.arange(1, num_groups, dtype=scores.dtype) / num_groups
    breaks = _quantiles(scores, weight, parts)
    group = jnp.sum(probability[:, None] > breaks[None, :], axis=1)
    total = functools.partial(jax.ops.segment_sum, segment_ids=group, num_segments=num_groups)
    size, expected = total(weight), total(weight * probability)
    # Of differences, which keep the digits.
    apart = total(weight * jnp.where(here, y - probability, 0))
    spread = expected * (1 - expected / jnp.where(size > 0, size, 1))
    each = jnp.where(size > 0, apart**2 / jnp.where(size > 0, spread, 1), 0)
    degrees = jnp.sum(size > 0).astype(scores.dtype) - 2
    valid = jnp.all(jnp.isfinite(scores) | ~here) & jnp.all((weight >= 0) & jnp.isfinite(weight))
    valid &= jnp.all((y == 0) | (y == 1) | ~here)
    return jnp.where(valid & (degrees > 0), jnp.sum(each), jnp.nan), degrees


def _quantiles(scores, weight, parts):
    """Of the probabilities, between the two next to each: R's default, type 7."""
    order = jnp.argsort(scores)
    probability = jax.nn.sigmoid(scores[order])
    ends = jnp.cumsum(weight[order])
    place = parts * (ends[-1] - 1)
    below = jnp.floor(place)
    first, second = (
        probability[jnp.minimum(jnp.searchsorted(ends, a, side="right"), len(ends) - 1)]
        for a in (below, below + 1)
    )
    return first + (place - below) * (second - first)


@functools.partial(_platform.jit, static_argnums=0)
def le_cessie(model, arguments):
    """How many standard deviations the sum of squares is off."""
    e = _estimate.at(model, arguments)

    def of_block(block):
        z, scores, slope, curve = _estimate.whole(model, e, block)
        half = _estimate.half_images(e, z)[:, 0]
        lean = jnp.tanh(scores[:, 0] / 2)  # 2 p - 1, whose sign does not matter
        # (y - p)^2 - p (1 - p) = (y - p) (1 - 2 p) for y of 0 or 1.
        square = slope[:, 0] * lean
        numbers = jnp.stack([square, curve[:, 0, 0], lean, block.weight], axis=1)
        return _mesh.where_rows(block.ok, jnp.concatenate([numbers, half], axis=1))

    each = _fold.map_rows(of_block, e.problem.rows)
    square, curve, lean, weight = each[:, :4].T
    half = each[:, 4:]
    # What the columns tell of the lean, by weights of the curvature, was fitted.
    left = lean - dot(half, dot((weight * curve * lean)[None, :], half)[0])
    variance, all_of_it = jnp.sum(weight * curve * left**2), jnp.sum(weight * curve * lean**2)
    eps = float(jnp.finfo(left.dtype).eps)
    known = variance > _linalg.RANK_ULPS * len(left) ** 0.5 * eps * all_of_it
    off = jnp.sum(weight * square)
    z = jnp.sqrt(e.total) * off / jnp.sqrt(jnp.where(known, variance, 1))
    hard = jnp.all((e.problem.rows.y == 0) | (e.problem.rows.y == 1))
    return _estimate.said(jnp.where(known & hard, z, jnp.nan), _estimate.proper(model, e))

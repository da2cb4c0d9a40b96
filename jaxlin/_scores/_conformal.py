"""The programs of `conformal`: how strange a class would be for a row, among rows of known class.

Shapes: `n` calibration rows, `m` new ones, `k` classes.
"""

import functools

import jax
import jax.numpy as jnp

from jaxlin._base import _codes, _platform
from jaxlin._scores import _judged, _ranked
from jaxlin.types import Info, Status

# Units of rounding within which a p-value is at the level that a set is to exclude.
LEVEL_ULPS = 64


def least_ambiguous(probabilities, drawn):
    return 1 - probabilities


def adaptive(probabilities, drawn):
    """What is at least as probable, all of the class itself or a drawn part of it."""
    order = jnp.argsort(-probabilities, axis=-1, stable=True)
    ordered = jnp.take_along_axis(probabilities, order, axis=-1)
    part = jnp.ones_like(ordered[..., :1]) if drawn is None else drawn[..., None]
    reached = jnp.cumsum(ordered, axis=-1) - ordered + part * ordered
    place = jnp.argsort(order, axis=-1)
    return jnp.take_along_axis(reached, place, axis=-1)


@functools.partial(_platform.jit, static_argnums=(0, 5))
def fit(strangeness, probabilities, y, sample_weight, key, by_class):
    """Levels `(g, n)` of strangeness, how much weight has each or more, in all, and the Info.

    g: k where each class is compared with its own rows, else 1.
    """
    k = probabilities.shape[1]
    sound = jnp.all((probabilities >= 0) & (probabilities <= 1), axis=1, keepdims=True)
    rows = _judged.judged(jnp.where(sound, probabilities, jnp.nan), y, sample_weight)
    drawn = None if key is None else jax.random.uniform(key, (len(y),), rows.scores.dtype)
    strange = strangeness(rows.scores, drawn)
    own = jnp.take_along_axis(strange, rows.y[:, None], axis=1)[:, 0]
    here = _codes.members(rows.y, k).T if by_class else jnp.ones((1, len(y)), bool)
    weights = jnp.where(here, rows.weight[None, :], 0)

    at = _ranked.levels(own)
    # From above, so that what is rare and strange keeps its digits.
    reached = jnp.cumsum(jax.vmap(at.total)(weights)[:, ::-1], axis=1)[:, ::-1]
    levels = jnp.broadcast_to(at.scores, reached.shape)
    zero = jnp.zeros((), levels.dtype)
    few = jnp.any(reached[:, 0] == 0)
    status = jnp.where(few, Status.CLASS_TOO_SMALL, Status.CONVERGED)
    status = jnp.where(rows.valid, status, Status.INVALID_DATA).astype(jnp.int32)
    info = Info(status=status, steps=jnp.zeros((), jnp.int32), objective=zero, residual=zero)
    return (*(jnp.where(rows.valid, a, jnp.nan) for a in (levels, reached)), info)


@functools.partial(jax.jit, static_argnums=0)
def p_values(strangeness, levels, reached, probabilities, weight, key):
    drawn = None
    if key is not None:
        drawn = jax.random.uniform(key, probabilities.shape[:-1], probabilities.dtype)
    strange = strangeness(probabilities, drawn)
    k = strange.shape[-1]
    groups = (
        jnp.broadcast_to(levels, (k, levels.shape[1])),
        jnp.broadcast_to(reached, (k, reached.shape[1])),
    )
    # Sums of all k probabilities are 1 but for rounding, and are to tie.
    flat = strange.reshape(-1, k) - k * jnp.finfo(strange.dtype).eps

    def of_class(levels, reached, strange):
        at = jnp.searchsorted(levels, strange)
        beyond = jnp.concatenate([reached, jnp.zeros_like(reached[:1])])
        return beyond[at], reached[0]

    above, whole = jax.vmap(of_class, in_axes=(0, 0, 1), out_axes=(1, 0))(*groups, flat)
    own = weight.reshape(-1, 1)
    found = ((above + own) / (whole[None, :] + own)).reshape(strange.shape)
    return jnp.where(jnp.isnan(strange), jnp.nan, found)


@jax.jit
def sets(values, coverage):
    level = 1 - coverage + LEVEL_ULPS * jnp.finfo(values.dtype).eps
    return ~(values <= level)  # what is not known is not left out

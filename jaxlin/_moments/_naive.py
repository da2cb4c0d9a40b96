"""Naive Bayes from class means column by column: weights of counts, and normal densities.

Shapes: `d` features, `k` classes.
"""

import enum
import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlin._base import _platform
from jaxlin._data import _fold, _prepare, _rows
from jaxlin._linalg import dot
from jaxlin._moments import _bayes, _columns, _scatter
from jaxlin.sparse import Sparse
from jaxlin.types import DiagonalGaussian, Linear, Status


class Kind(enum.Enum):
    """What a column is in a class: the least and the largest that it may hold."""

    BERNOULLI = (0.0, 1.0)
    MULTINOMIAL = (0.0, math.inf)
    COMPLEMENT = (0.0, math.inf, "weights of the other classes")
    NORMED = (0.0, math.inf, "the same over the sum of their sizes")
    GAUSSIAN = (-math.inf, math.inf)


class Given(NamedTuple):
    """alpha: `()`, or of a Gaussian the smoothing; groups: `(d,)` or None; priors: see `_bayes`."""

    alpha: jax.Array
    groups: jax.Array | None
    priors: _bayes.Options


@functools.partial(_platform.jit, static_argnums=(0, 1))
def of_rows(kind, k, data, given):
    rows, total, valid = _prepare.prepare(data, num_classes=k)
    if kind is Kind.GAUSSIAN:  # which knows the weights' proportions alone
        total = jnp.ones_like(total)
    total = jnp.where(valid, total, 0)
    if isinstance(rows.x, Sparse):
        columns, held = _columns.of_table(rows, k, total), jnp.bool_(True)
    else:
        s = _columns.of_rows(_scatter.in_units(rows), k, total)
        columns, held = _columns.in_users_units(s)
    low, high = kind.value[:2]
    if kind is not Kind.GAUSSIAN:
        held = jnp.bool_(True)

        def beyond(block):
            x = block.x if block.entries is None else block.entries.values
            most = jnp.max(jnp.maximum(low - x, x - high), axis=1, initial=-jnp.inf)
            return (), jnp.max(jnp.where(block.weight > 0, most, -jnp.inf))

        valid &= _fold.fold(beyond, rows, _rows.pass_entries(rows.x))[1] <= 0
    mask = data.feature_mask
    return _found(kind, columns, given, valid & held, mask, (data, given))


@functools.partial(_platform.jit, static_argnums=0)
def of_moments(kind, columns, given):
    valid = _bayes.valid_moments(columns)
    low, high = kind.value[:2]
    valid &= jnp.all((columns.mean >= low) & (columns.mean <= high))
    return _found(kind, columns, given, valid, None, (columns, given))


def _found(kind, s: _columns.Columns, given: Given, valid, mask, source):
    valid &= _bayes.valid_options(given.priors, s)
    if kind is Kind.GAUSSIAN:
        valid &= (given.alpha >= 0) & jnp.isfinite(given.alpha)
    else:
        valid &= (given.alpha > 0) & jnp.isfinite(given.alpha)
    in_play = jnp.ones(s.mean.shape[1], bool) if mask is None else mask
    priors, present = _bayes.class_priors(given.priors, s), s.rows > 0
    total = jnp.sum(s.weight)
    share = s.weight / jnp.where(total > 0, total, 1)
    told = jnp.int32(Status.CONVERGED)
    params: Any
    if kind is Kind.GAUSSIAN:
        params, own = _gaussian(s, given, priors, in_play)
        flat = jnp.any((params.variances == 0) & in_play[None, :] & present[:, None])
        told = jnp.where(flat, Status.QUASI_SEPARABLE, told).astype(jnp.int32)
    else:
        counts = jnp.where(in_play[None, :], s.mean * s.weight[:, None], 0)
        alpha = jnp.where(valid, given.alpha, 1)
        params = _linear(kind, counts, s.weight, alpha, given.groups, priors, in_play)
        params = Linear(
            jnp.where(present[:, None] & in_play[None, :], params.weights, 0),
            jnp.where(present, params.bias, -jnp.inf),
        )
        own = jnp.sum(params.weights * s.mean, axis=1) + jnp.where(present, params.bias, 0)
    own = jnp.where(share > 0, own, 0)
    info = _bayes.verdict(s, valid, jnp.bool_(False), told, -dot(share, own))
    return _bayes.settled(params, info, valid, source)


def _gaussian(s, given, priors, in_play) -> tuple[DiagonalGaussian, jax.Array]:
    """And the mean log p(x, c) of each class's own rows."""
    weight = jnp.where(s.weight > 0, s.weight, 1)[:, None]
    total = jnp.where(jnp.any(s.rows > 0), jnp.sum(s.weight), 1)
    middle = dot(s.weight, s.mean) / total
    apart = jnp.where((s.rows > 0)[:, None], s.mean - middle[None, :], 0)
    whole = (jnp.sum(s.scatter, axis=0) + dot(s.weight, apart**2)) / total
    added = given.alpha * jnp.max(jnp.where(in_play, whole, 0), initial=0)
    present = (s.rows > 0)[:, None]
    variances = jnp.where(present, s.scatter / weight + added, 1)
    variances = jnp.where(in_play[None, :], variances, 0)
    seen = variances > 0
    one = jnp.where(seen, variances, 1)
    each = jnp.log(2 * math.pi * one) + s.scatter / weight / one
    own = _bayes.log_of(priors) - jnp.sum(jnp.where(seen, each, 0), axis=1) / 2
    means = jnp.where(in_play[None, :], s.mean, 0)
    return DiagonalGaussian(means, variances, priors), own


def _linear(kind, counts, weight, alpha, groups, priors, in_play) -> Linear:
    logs = _bayes.log_of(priors)
    if kind is Kind.BERNOULLI:
        with_it = jnp.log(counts + alpha)
        without = jnp.log(weight[:, None] - counts + alpha)
        missed = jnp.where(in_play[None, :], without - jnp.log(weight + 2 * alpha)[:, None], 0)
        return Linear(with_it - without, logs + jnp.sum(missed, axis=1))
    raised = jnp.where(in_play[None, :], counts + alpha, 0)
    if kind is Kind.MULTINOMIAL:
        return Linear(_logs(raised, _sums(raised, groups)), logs)
    rest = jnp.sum(counts, axis=0)[None, :] - counts
    rest = jnp.where(in_play[None, :], rest + alpha, 0)
    weights = -_logs(rest, jnp.sum(rest, axis=1, keepdims=True))
    if kind is Kind.NORMED:
        size = jnp.sum(weights, axis=1, keepdims=True)
        weights = weights / jnp.where(size > 0, size, 1)
    return Linear(weights, jnp.zeros_like(logs))


def _logs(raised: jax.Array, whole: jax.Array) -> jax.Array:
    """Of parts of a whole; 0 for what is out of play."""
    play = raised > 0
    return jnp.where(
        play, jnp.log(jnp.where(play, raised, 1)) - jnp.log(jnp.where(play, whole, 1)), 0
    )


def _sums(raised: jax.Array, groups: jax.Array | None) -> jax.Array:
    """Over all columns, or those of each one's group: `(k, d)`."""
    if groups is None:
        return jnp.broadcast_to(jnp.sum(raised, axis=1, keepdims=True), raised.shape)
    # Told by the first column of the same group, as there may be more numbers than columns.
    first = jnp.searchsorted(jnp.sort(groups), groups)
    return jnp.zeros_like(raised).at[:, first].add(raised)[:, first]

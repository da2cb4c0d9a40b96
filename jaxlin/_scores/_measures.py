"""The programs of `metrics`, of what it has checked.

Each takes `scores (n,)` or `(n, k)`, `y (n,)` and `sample_weight (n,)` or None.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from jaxlin import losses
from jaxlin._scores import _bins, _judged, _ranked


@jax.jit
def accuracy(scores, y, sample_weight):
    rows = _judged.judged(scores, y, sample_weight)
    return _judged.mean((_judged.predicted(rows.scores) == rows.y).astype(rows.weight.dtype), rows)


@jax.jit
def log_loss(scores, y, sample_weight):
    rows = _judged.judged(scores, y, sample_weight)
    loss = losses.logistic if scores.ndim == 1 else losses.softmax
    return _judged.mean(loss(rows.scores, rows.y), rows)


@jax.jit
def brier(scores, y, sample_weight):
    rows = _judged.judged(scores, y, sample_weight)
    if scores.ndim == 1:
        # 1 - p as a sigmoid of its own, which does not cancel.
        wrong = jax.nn.sigmoid(jnp.where(rows.y > 0, -rows.scores, rows.scores))
        return _judged.mean(wrong**2, rows)
    p, hit = _bins.chances(rows)
    return _judged.mean(jnp.sum((p - hit.astype(p.dtype)) ** 2, axis=0), rows)


@functools.partial(jax.jit, static_argnums=3)
def confusion(scores, y, sample_weight, num_classes):
    rows = _judged.judged(scores, y, sample_weight, num_classes)
    counts = jnp.zeros((num_classes, num_classes), rows.weight.dtype)
    counts = counts.at[rows.y, _judged.predicted(rows.scores)].add(rows.weight)
    return jnp.where(rows.valid, counts, jnp.nan)


def _shares(scores, y, sample_weight, k):
    """`(k, k)`, the confusion matrix with entries of at most 1 a row, whatever the weights."""
    rows = _judged.judged(scores, y, sample_weight, k)
    unit = _judged.scaled(rows.weight)
    counts = jnp.zeros((k, k), unit.dtype).at[rows.y, _judged.predicted(rows.scores)].add(unit)
    return jnp.where(rows.valid, counts, jnp.nan)


@functools.partial(jax.jit, static_argnums=3)
def balanced_accuracy(scores, y, sample_weight, k):
    counts = _shares(scores, y, sample_weight, k)
    return _mean_of_present(jnp.diagonal(counts), jnp.sum(counts, axis=1))


@functools.partial(jax.jit, static_argnums=4)
def f_beta(scores, y, sample_weight, beta, k):
    counts = _shares(scores, y, sample_weight, k)
    right, truth, told = jnp.diagonal(counts), jnp.sum(counts, axis=1), jnp.sum(counts, axis=0)
    square = beta.astype(counts.dtype) ** 2
    each = (1 + square) * right, square * truth + told
    return _mean_of_present(*(a[1:] if k == 2 else a for a in each))


def _mean_of_present(part: jax.Array, whole: jax.Array) -> jax.Array:
    """The mean of part / whole over the classes that have some of the whole, NaN if none has."""
    present = whole != 0
    each = jnp.where(present, part / jnp.where(present, whole, 1), 0)
    return jnp.sum(each) / jnp.sum(present).astype(part.dtype)


@functools.partial(jax.jit, static_argnums=3)
def matthews(scores, y, sample_weight, k):
    counts = _shares(scores, y, sample_weight, k)
    counts = counts / jnp.sum(counts)
    right, truth, told = jnp.trace(counts), jnp.sum(counts, axis=1), jnp.sum(counts, axis=0)
    of_told, of_truth = jnp.sum(told * _others(told)), jnp.sum(truth * _others(truth))
    both = jnp.sqrt(of_told) * jnp.sqrt(of_truth)
    found = (right - jnp.sum(told * truth)) / jnp.where(both > 0, both, 1)
    found = jnp.where(both > 0, jnp.clip(found, -1, 1), 0 * found)
    return jnp.where(of_truth == 0, jnp.nan, found)


def _others(share: jax.Array) -> jax.Array:
    """Of each class what the others have: a sum, as 1 less its own would not be exactly 0."""
    return jnp.sum(share[None, :] * (1 - jnp.eye(len(share), dtype=share.dtype)), axis=1)


@jax.jit
def expected_cost(scores, y, sample_weight, costs):
    rows = _judged.judged(scores, y, sample_weight, len(costs))
    costs = costs.astype(rows.weight.dtype)
    return _judged.mean(costs[rows.y, _judged.predicted(rows.scores)], rows)


@jax.jit
def best_threshold(scores, y, sample_weight, costs):
    s, true, false, rows = _ranked.counts(scores, y, sample_weight)
    costs = costs.astype(s.dtype)
    start = jnp.zeros_like(s[:1])
    # What each class costs less, or more, as it is taken for class 1 and not for class 0.
    shift = jnp.concatenate([start, true]) * (costs[1, 1] - costs[1, 0])
    shift += jnp.concatenate([start, false]) * (costs[0, 1] - costs[0, 0])
    at = jnp.argmin(shift)
    above = jnp.where(at == 0, jnp.inf, s[at - 1])
    below = jnp.max(jnp.where(s < above, s, -jnp.inf))
    ends = jnp.isinf(above) | jnp.isinf(below)
    # Halves first, as the sum could be infinite.
    middle = jnp.where(ends, jnp.where(at == 0, above, below), above / 2 + below / 2)
    whole = true[-1] + false[-1]
    cost = (true[-1] * costs[1, 0] + false[-1] * costs[0, 0] + shift[at]) / whole
    nothing = jnp.where(rows.valid, 0, jnp.nan)
    return middle + nothing, cost + nothing


@jax.jit
def roc_auc(scores, y, sample_weight):
    rows = _judged.judged(_ranked.binary(scores), y, sample_weight)
    weight = _judged.scaled(rows.weight)
    positive, negative = (jnp.where(side, weight, 0) for side in (rows.y > 0, rows.y == 0))
    pairs = jnp.sum(positive) * jnp.sum(negative)
    defined = rows.valid & (pairs > 0)
    won = jnp.sum(negative * _ranked.wins(rows.scores, positive))
    return jnp.where(defined, won / jnp.where(defined, pairs, 1), jnp.nan)


@jax.jit
def one_vs_rest(scores, y, sample_weight):
    won, share, valid = _areas(scores, y, sample_weight)
    pairs = share * _others(share)
    return jnp.where(valid, _mean_of_present(jnp.sum(won, axis=1), pairs), jnp.nan)


@jax.jit
def one_vs_one(scores, y, sample_weight):
    won, share, valid = _areas(scores, y, sample_weight)
    pairs = share[:, None] * share[None, :] * (1 - jnp.eye(len(share), dtype=share.dtype))
    return jnp.where(valid, _mean_of_present(won.ravel(), pairs.ravel()), jnp.nan)


def _areas(scores, y, sample_weight):
    """Pairs won `(k, k)`, none by a class of itself; the classes' weights; whether all is valid."""
    rows = _judged.judged(scores, y, sample_weight)
    k = scores.shape[1]
    won, share = _ranked.pairs_won(_ranked.log_odds(rows.scores), rows, k)
    return won * (1 - jnp.eye(k, dtype=won.dtype)), share, rows.valid


@jax.jit
def average_precision(scores, y, sample_weight):
    rows = _judged.judged(_ranked.binary(scores), y, sample_weight)
    true, false = _ranked.passed(_ranked.levels(-rows.scores), rows)
    taken = true + false
    # Before any weight is taken a row that gains some is all of it.
    precision = jnp.where(taken > 0, true / jnp.where(taken > 0, taken, 1), 1)
    steps = jnp.diff(true, prepend=0)
    defined = rows.valid & (true[-1] > 0)
    found = jnp.sum(steps * precision) / jnp.where(defined, true[-1], 1)
    return jnp.where(defined, found, jnp.nan)


@jax.jit
def roc_curve(scores, y, sample_weight):
    s, true, false, rows = _ranked.counts(scores, y, sample_weight)
    both = rows.valid & (true[-1] > 0) & (false[-1] > 0)
    rates = (jnp.where(both, a / jnp.where(both, a[-1], 1), jnp.nan) for a in (false, true))
    return (*(_from(0, a, both) for a in rates), _from(jnp.inf, s, both))


@jax.jit
def precision_recall_curve(scores, y, sample_weight):
    s, true, false, rows = _ranked.counts(scores, y, sample_weight)
    defined, taken = rows.valid & (true[-1] > 0), true + false
    precision = true / jnp.where(taken > 0, taken, 1)
    recall = true / jnp.where(defined, true[-1], 1)
    parts = ((1, precision), (0, recall), (jnp.inf, s))
    return tuple(_from(first, a, defined) for first, a in parts)


def _from(first: Any, rest: jax.Array, defined: jax.Array) -> jax.Array:
    return jnp.where(defined, jnp.concatenate([jnp.full_like(rest[:1], first), rest]), jnp.nan)


def _binned(scores, y, sample_weight, bins, num_bins):
    """The bins, the weight that theirs are in units of, and whether all is valid."""
    rows = _judged.judged(scores, y, sample_weight)
    found = _bins.binned(*_bins.confidence(rows), rows, bins, num_bins)
    return found, jnp.max(rows.weight), rows.valid


@functools.partial(jax.jit, static_argnums=(3, 4))
def calibration_curve(scores, y, sample_weight, bins, num_bins):
    found, unit, valid = _binned(scores, y, sample_weight, bins, num_bins)
    some = valid & (found.weight > 0)
    means = (jnp.where(some, a, jnp.nan) for a in (found.predicted, found.observed))
    return (*means, jnp.where(valid, found.weight * unit, jnp.nan))


@functools.partial(jax.jit, static_argnums=(3, 4, 5, 6))
def calibration_error(scores, y, sample_weight, bins, num_bins, power, debiased):
    found, unit, valid = _binned(scores, y, sample_weight, bins, num_bins)
    apart = jnp.abs(found.predicted - found.observed) ** power
    weight = found.weight
    if debiased:
        others = weight * unit - 1
        weight = jnp.where(others > 0, weight, 0)
        chance = found.observed * (1 - found.observed)
        apart = apart - jnp.where(others > 0, chance / jnp.where(others > 0, others, 1), 0)
    total = jnp.sum(weight)
    defined = valid & (total > 0)
    mean = jnp.sum(weight * apart) / jnp.where(defined, total, 1)
    return jnp.where(defined, jnp.maximum(mean, 0) ** (1 / power), jnp.nan)


@functools.partial(jax.jit, static_argnums=(3, 4))
def brier_parts(scores, y, sample_weight, bins, num_bins):
    rows = _judged.judged(scores, y, sample_weight)

    def of_class(p, hit):
        found = _bins.binned(p, hit, rows, bins, num_bins)
        share = found.weight / jnp.sum(found.weight)
        base = jnp.sum(share * found.observed)
        reliability = jnp.sum(share * (found.predicted - found.observed) ** 2)
        return reliability, jnp.sum(share * (found.observed - base) ** 2), base * (1 - base)

    parts = jax.vmap(of_class)(*_bins.chances(rows))
    return tuple(jnp.where(rows.valid, jnp.sum(part), jnp.nan) for part in parts)

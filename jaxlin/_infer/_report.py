"""The numbers of a report beside the coefficients: likelihoods, and what a table says of them.

Shapes: `n` examples, `k` classes, `d` features; `m` scores.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special

from jaxlin import _linalg
from jaxlin._base import _codes, _platform
from jaxlin._data import _fold
from jaxlin._infer import _estimate
from jaxlin._scores import _newton
from jaxlin._smooth import _frame


class Figures(NamedTuple):
    """Of an estimate as a whole, each `()` but for `events`.

    number: the sum of the weights
    events: the weight of class 1, or of each class `(k,)`; of numbers none
    degrees: how many coefficients there are; under a penalty, how many it leaves
    log_likelihood, null_log_likelihood: without any column but the constant
    scale: what the inverse Hessian is to be multiplied with: the variance about numbers, or 1
    proper: whether the estimate is the optimum
    """

    number: jax.Array
    events: jax.Array | None
    degrees: jax.Array
    log_likelihood: jax.Array
    null_log_likelihood: jax.Array
    scale: jax.Array
    proper: jax.Array


@functools.partial(_platform.jit, static_argnums=0)
def figures(model, arguments):
    e = _estimate.at(model, arguments)
    rows = e.problem.rows
    root = _linalg.inverse_root(e.factor)
    # The diagonal of H^-1 times the penalty: what that takes of each.
    taken = jnp.sum(root**2, axis=0).reshape(e.theta.shape) * e.problem.penalty[None, :]
    degrees = jnp.sum(jnp.where(_frame.inert(e.problem), 0, 1 - taken))
    k = None if model.binary else len(arguments.params.bias)

    def sums(block):
        _, scores, *_ = _estimate.whole(model, e, block)
        return (_loss(model, block, scores), _share(block, k)), ()

    (loss, share), _ = _fold.fold(sums, rows)
    null = _null(model, e)
    if model.loss is _estimate.of_numbers:
        events, scale = None, 2 * loss * e.total / (e.total - degrees)
        likelihoods = [_gaussian(a, e.total) for a in (loss, null)]
    else:
        events, scale = e.total * share, jnp.ones_like(loss)
        likelihoods = [-e.total * a for a in (loss, null)]
    proper = _estimate.proper(model, e)
    degrees, own, null, scale = _estimate.said((degrees, *likelihoods, scale), proper)
    return Figures(e.total, events, degrees, own, null, scale, proper)


def _loss(model, rows, scores):
    """The mean loss, of scores `(rows, m)`."""
    each = jax.vmap(model.of_scores)(scores, rows.y)
    # Not by the weight alone, in which a row has a derivative at 0 too.
    felt = (rows.weight > 0) | jnp.isfinite(each)
    return jnp.sum(rows.weight * jnp.where(felt, each, 0))


def _share(rows, k):
    """The part of the weight that is of class 1, or of each of k."""
    soft = jnp.issubdtype(rows.y.dtype, jnp.floating)
    of_class = rows.y if soft else _codes.members(rows.y, k or 2).astype(rows.weight.dtype)
    if k is None and not soft:
        of_class = of_class[:, 1]
    return jnp.tensordot(rows.weight, of_class, 1, precision=jax.lax.Precision.HIGHEST)


def _gaussian(loss, total):
    """The log likelihood at the variance that makes it largest, of a mean of halved squares."""
    return -total / 2 * (jnp.log(2 * jnp.pi * 2 * loss) + 1)


def _null(model, e):
    """The least mean loss of scores that are a constant and the offset."""
    rows = e.problem.rows
    present = jnp.ones(1, bool) if model.binary else jnp.any(e.problem.basis != 0, axis=1)
    m = present.size

    def loss(rows, shift):
        shift = jnp.broadcast_to(shift[None, :], (len(rows.y), m))
        scores = shift if rows.offset is None else shift + rows.offset.reshape(-1, m)
        return _loss(model, rows, jnp.where(present[None, :], scores, -jnp.inf))

    of_still = functools.partial(loss, jax.lax.stop_gradient(rows))

    def look(shift):
        curve, slope = jax.hessian(of_still)(shift), jax.grad(of_still)(shift)
        if not model.binary:
            # Softmax does not see a number added to all scores, nor the score of an absent class.
            curve = jnp.where(present[:, None] & present[None, :], curve + 1 / m, jnp.eye(m))
            slope = jnp.where(present, slope, 0)
        step = -jnp.linalg.solve(curve, slope)
        decrement = jnp.sqrt(jnp.abs(jnp.sum(slope * step)))
        return _newton.Look(of_still(shift), jnp.max(jnp.abs(slope)), step, decrement)

    point = jnp.zeros(m, e.theta.dtype)
    if model.bias:
        point = jax.lax.stop_gradient(_newton.descended(look, point)[0].point)
    # At its least a loss has the derivative of a fixed point.
    return loss(rows, point)


def t_quantile(level: jax.Array, degrees: jax.Array) -> jax.Array:
    """The number that a t-distributed one is within, on both sides, with probability `level`."""
    # u = t^2 / (degrees + t^2) is of a beta distribution; it is found by halves.
    eps = float(jnp.finfo(level.dtype).eps)

    def halved(_, ends):
        low, high = ends
        middle = (low + high) / 2
        below = special.betainc(0.5, degrees / 2, middle) < level
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    steps = 2 * int(-np.log2(eps))
    zero = jnp.zeros_like(level * degrees)
    low, high = jax.lax.fori_loop(0, steps, halved, (zero, zero + 1))
    u = (low + high) / 2
    return jnp.sqrt(degrees * u / (1 - u))


def t_tail(t: jax.Array, degrees: jax.Array) -> jax.Array:
    """The probability that a t-distributed number is further from 0."""
    return special.betainc(degrees / 2, 0.5, degrees / (degrees + t**2))

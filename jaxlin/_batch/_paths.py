"""Fits along penalties from strong to weak, each begun where those before lead, for `resample`.

And the choice among them.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin._base import _checks
from jaxlin._batch import _lanes
from jaxlin.types import Hyperplane, Linear

# So many points of a path lead to the next.
LAST = 3


def strength(penalties: dict[str, jax.Array]) -> jax.Array:
    """How strong each of m penalties is, `(m,)`, of `(m,)` or `(m, d)` by name."""
    of_each = jax.lax.stop_gradient(penalties).values()
    return functools.reduce(jnp.add, (jnp.mean(a.reshape(len(a), -1), axis=1) for a in of_each))


def from_strong_to_weak(some, start, penalties, size):
    """`some(penalties, starts) -> (params, found)` of `size` penalties at a time.

    The path from strong to weak is cut into `size` pieces of one length, and each turn is a step
    along all of them, from where the steps before lead, see `_leads`; the first is from `start`.

    Args:
      some: fits, whose axes are led by that of the penalties.
      start: params, in the place of what leads to the first.
      penalties: `(m,)` or `(m, d)` by name.
      size: at most so many at a time.

    Returns:
      What was found, `(m, ...)` in the order of the penalties.
    """
    level = strength(penalties)
    count = len(level)
    order = jnp.argsort(-level, stable=True)
    turns = -(-count // size)
    size = -(-count // turns)
    at = order[jnp.minimum(jnp.arange(size * turns), count - 1)].reshape(size, turns).T
    leads = _leads(jnp.log(level[at]))
    if not isinstance(start, Hyperplane | Linear):
        # What other params are, and whether a line may be drawn through them, is not known.
        leads = jnp.zeros_like(leads).at[:, 0].set(1)

    def step(last, turn):
        lanes, lead = turn

        def reached(a):
            weight = lead.reshape(LAST, size, *(1,) * (a.ndim - 2)).astype(a.dtype)
            ahead = jnp.sum(jnp.where(weight == 0, 0, weight * a), axis=0)
            # Where the optimum is at infinity, or a class is absent, the next begins at 0.
            return jnp.where(jnp.isfinite(ahead), ahead, 0).astype(a.dtype)

        some_of = jax.tree.map(lambda a: a[lanes], penalties)
        params, found = some(some_of, jax.tree.map(reached, last))
        last = jax.tree.map(lambda a, b: jnp.concatenate([b[None], a[:-1]]), last, params)
        return jax.lax.stop_gradient(last), found

    last = jax.tree.map(lambda a: jnp.broadcast_to(a, (LAST, size, *a.shape)), start)
    _, found = jax.lax.scan(step, last, (at, leads))

    def in_place(a):
        along = jnp.swapaxes(a, 0, 1).reshape(-1, *a.shape[2:])[:count]
        return jnp.zeros_like(along).at[order].set(along)

    return jax.tree.map(in_place, found)


def strongest_of_the_best(values, size, larger_is_better, one_standard_error):
    """The penalty that the folds choose.

    Args:
      values: `(m, folds)`, of the metric.
      size: `(m,)`, how strong each penalty is.
      larger_is_better: static.
      one_standard_error: static, whether a mean within that of the best will do.

    Returns:
      `(index (), judged ())`: whether a finite mean was there to choose by.
    """
    # What is NaN or infinite for every penalty says nothing of any.
    told = jnp.any(jnp.isfinite(values), axis=0)
    mean, error = _lanes.mean_of(jnp.where(told[None, :], values, jnp.nan), axis=1)
    score = jnp.where(jnp.isnan(mean), -jnp.inf, mean if larger_is_better else -mean)
    best = jnp.argmax(score)
    room = jnp.where(jnp.isnan(error[best]), 0, error[best]) if one_standard_error else 0.0
    chosen = jnp.argmax(jnp.where(score >= score[best] - room, size, -jnp.inf))
    return chosen, jnp.any(jnp.isfinite(score))


def raise_if_unjudged(values: jax.Array, judged: jax.Array) -> None:
    """Raise a ValueError, if all is concrete, where no penalty could be judged."""
    if not _checks.concrete((values, judged)) or np.all(np.asarray(judged)):
        return
    found = np.asarray(values)
    nothing, endless = (int(is_so(found).sum()) for is_so in (np.isnan, np.isinf))
    raise ValueError(
        f"metric: no penalty could be judged; of {found.size} values {nothing} are NaN (as of "
        f"folds that hold out one class, or nothing) and {endless} infinite (as of folds that do "
        "not train on a class they hold out): take other folds, or another metric"
    )


def _leads(t: jax.Array) -> jax.Array:
    """The weights of the last points of each path, the latest first, that lead to the next.

    By the parabola through three, the line through two, or the last alone, whichever is the first
    that is not followed far: `t` says where the points lie.

    Args:
      t: `(turns, size)`.

    Returns:
      `(turns, LAST, size)`; of points that are not there yet 0, but for the first.
    """
    known = jnp.concatenate([jnp.full((LAST, t.shape[1]), jnp.nan, t.dtype), t])
    points = [known[LAST - i : len(known) - i] for i in range(1, LAST + 1)]

    def through(*points):
        """Lagrange's weights, or NaN."""
        found = [math.prod((t - q) / (p - q) for q in points if q is not p) for p in points]
        return jnp.stack([*found, *[jnp.zeros_like(t)] * (LAST - len(points))], axis=1)

    def or_else(lead, most, other):
        near = jnp.sum(jnp.abs(lead), axis=1, keepdims=True) <= most  # False for NaN
        return jnp.where(near, lead, other)

    alone = jnp.zeros((len(t), LAST, t.shape[1]), t.dtype).at[:, 0].set(1)
    # Of equal steps the sums are 3 and 7.
    return or_else(through(*points), 10, or_else(through(*points[:2]), 4, alone))

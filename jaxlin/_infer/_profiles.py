"""The penalised likelihood ratio of Firth's estimate, and its profile.

Shapes: `n` examples, `d` features.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy import special

from jaxlin._base import _checks, _platform
from jaxlin._linalg import _implicit
from jaxlin._smooth import _firth
from jaxlin.types import Status

# Turns of the search for a limit: so often it may be doubled, or the interval about it be cut.
TURNS = 100


@functools.partial(_platform.jit, static_argnums=0)
def ratio(bias, data, offset, columns, tol, max_steps):
    """Twice what the log likelihood loses where `columns (d,)` are held at 0; and its degrees."""
    none = jnp.zeros_like(columns)

    def fit(held):
        (_, info), _, least = _firth.fit(bias, True, data, offset, held, tol, max_steps)
        return info, least

    info, least = jax.vmap(fit)(jnp.stack([none, columns]))
    in_play = columns if data.feature_mask is None else columns & data.feature_mask
    loss = 2 * _total(data, info) * (least[1] - least[0])
    proper = jnp.all(info.status == Status.CONVERGED)
    return jnp.where(proper, loss, jnp.nan), jnp.sum(in_play).astype(loss.dtype), info.status


def _total(data, info):
    dtype = info.objective.dtype
    return (
        jnp.asarray(len(data.x), dtype) if data.sample_weight is None else data.sample_weight.sum()
    )


class _Search(NamedTuple):
    """Between two values of a coefficient, of which the first is in the interval.

    inside, outside: `()`, the values; the second may be inside too, and is then moved on
    low, high: `()`, at these the root of the ratio less that of the quantile
    turns: `()`, int32
    """

    inside: jax.Array
    outside: jax.Array
    low: jax.Array
    high: jax.Array
    turns: jax.Array


@functools.partial(_platform.jit, static_argnums=0)
def limits(bias, data, offset, level, columns, tol, max_steps):
    """`(2, c)`, the least and the largest value of each weight that its test does not reject.

    And the Info of the fit. `columns: (c,)`, of which weights.
    """
    (n, _), dtype = data.x.shape, _checks.working_dtype(data.x)
    offset = jnp.zeros(n, dtype) if offset is None else offset
    given = data, offset, level, tol, max_steps
    still = jax.lax.stop_gradient(given)
    params, whole, least = _fit_at(bias, still, columns[0], 0, held=False)
    quantile = special.ndtri((1 + still[2]) / 2)
    eps = float(jnp.finfo(dtype).eps)

    def of_column(j, side):
        def height(value):
            """The root of the ratio is nearly a line, if the estimate is nearly normal."""
            _, info, own = _fit_at(bias, still, j, value)
            ratio = 2 * _total(data, info) * (own - least)
            height = jnp.sqrt(jnp.maximum(ratio, 0)) - quantile
            return jnp.where(info.status == Status.CONVERGED, height, jnp.nan)

        def going(s):
            apart = jnp.abs(s.outside - s.inside) > 16 * eps * jnp.abs(s.outside)
            return (s.turns < TURNS) & ((s.high < 0) | apart & (s.high > 16 * eps))

        def turn(s):
            found = s.high >= 0
            part = s.low / jnp.where(s.low == s.high, 1, s.low - s.high)
            # Never so near an end that the other one stays.
            part = jnp.where(s.turns % 3 == 2, 0.5, jnp.clip(part, 0.01, 0.99))
            # Twice as far at each turn, until it is outside.
            ahead = jnp.where(found, part, 3) * (s.outside - s.inside)
            value = s.inside + ahead
            at = height(value)
            below = found & (at < 0)
            return _Search(
                inside=jnp.where(below, value, jnp.where(found, s.inside, s.outside)),
                outside=jnp.where(below, s.outside, value),
                low=jnp.where(below, at, jnp.where(found, s.low, s.high)),
                high=jnp.where(below, s.high, at),
                turns=s.turns + 1,
            )

        estimate, (_, size) = params.weights[j], _column(bias, still[0], j)
        reach = quantile / jnp.where(size > 0, size * jnp.sqrt(_total(data, whole)), 1)
        reach = side * jnp.maximum(reach, math.sqrt(eps) * jnp.abs(estimate))
        # The first turn takes what is twice as far beyond the estimate.
        start = _Search(estimate - reach, estimate, -quantile, -quantile, jnp.int32(0))
        last = jax.lax.while_loop(going, turn, start)
        known = (last.high >= 0) & (last.turns < TURNS) & (whole.status == Status.CONVERGED)
        excess = functools.partial(_excess, bias)
        limit = _implicit.root(excess, None, (given, j), last.outside[None], known)[0]
        masked = False if data.feature_mask is None else ~data.feature_mask[j]
        return jnp.where(masked, 0, jnp.where(known, limit, jnp.nan))

    sides = jnp.array([-1, 1], dtype)
    found = jax.vmap(jax.vmap(of_column, (0, None)), (None, 0))(columns, sides)
    return found, whole


def _fit_at(bias, given, j, value, held=True):
    """The fit with weight j of the value: params, Info, and what is least."""
    data, offset, _, tol, max_steps = given
    here = (jnp.arange(data.x.shape[1]) == j) & held
    offset = offset + value * _column(bias, data, j)[0]
    (params, info), _, least = _firth.fit(bias, True, data, offset, here, tol, max_steps)
    return params, info, least


def _column(bias, data, j):
    """`(column (n,), the largest of its rows with weight)`, about their middle if a bias makes up
    for that: far from 0 all scores would be."""
    column = data.x[:, j].astype(_checks.working_dtype(data.x))
    here = jnp.isfinite(column)
    if data.sample_weight is not None:
        here &= data.sample_weight > 0
    high, low = (jnp.max(jnp.where(here, a, -jnp.inf)) for a in (column, -column))
    middle = jax.lax.stop_gradient(high / 2 - low / 2) if bias else 0
    column = jnp.where(jnp.isfinite(column), column - middle, 0)
    return column, jnp.max(jnp.where(here, jnp.abs(column), 0))


def _excess(bias, data, value):
    """The ratio at a limit `(1,)` less the quantile: 0, and so is its derivative in the data."""
    given, j = data
    _, info, own = _fit_at(bias, given, j, value[0])
    *_, least = _fit_at(bias, given, j, 0, held=False)
    ratio = 2 * _total(given[0], info) * (own - least)
    return (ratio - special.ndtri((1 + given[2]) / 2) ** 2)[None]

"""Tests of restrictions: ratios of likelihoods, and scores at the null.

Shapes: `n` examples, `d` features, `c` columns that are tried.
"""

import functools
import math

import jax
import jax.numpy as jnp
from jax.scipy import special

from jaxlin import _linalg
from jaxlin._base import _checks, _mesh, _platform
from jaxlin._batch import _draws
from jaxlin._data import _fold
from jaxlin._infer import _estimate, _saddlepoint
from jaxlin._linalg import dot

# Entries of columns that are tried at once.
COLUMN_ENTRIES = 2**19


@functools.partial(_platform.jit, static_argnums=0)
def likelihood_ratio(model, arguments, null, degrees):
    e = _estimate.at(model, arguments)
    other = e._replace(theta=_estimate.enter(e.problem, null))

    def differences(block):
        full, restricted = (_estimate.whole(model, each, block)[1] for each in (e, other))
        each = jax.vmap(model.of_scores)(restricted, block.y)
        each = each - jax.vmap(model.of_scores)(full, block.y)
        # Not by the weight alone, in which a row has a derivative at 0 too.
        felt = (block.weight > 0) | jnp.isfinite(each)
        return jnp.sum(block.weight * jnp.where(felt, each, 0)), ()

    gain, _ = _fold.fold(differences, e.problem.rows)
    statistic = _estimate.said(2 * e.total * gain, _estimate.proper(model, e))
    if degrees is None:
        seen = jnp.bool_(e.problem.basis is None) | e.problem.used[0]
        full, fewer = _centred(seen, arguments.params, null)
        degrees = _restrictions(full, fewer, statistic.dtype)
    return statistic, degrees


def _centred(seen, *several):
    """Params of softmax in one form, whose weights sum to zero: a 0 of a reference restricts none.

    `seen`: whether the loss sees a number added to all scores, so that there are no forms.
    """

    def one(params):
        if params.weights.ndim == 1:
            return params
        here = ~jnp.isneginf(params.bias)[:, None]
        weights = jnp.where(here, params.weights, 0)
        total, size = jnp.sum(weights, axis=0), jnp.sum(jnp.abs(weights), axis=0)
        off = jnp.abs(total) > math.sqrt(float(jnp.finfo(size.dtype).eps)) * size
        mean = total / jnp.maximum(jnp.sum(here), 1).astype(total.dtype)
        moved = jnp.where(here & off[None, :] & ~seen, weights - mean[None, :], weights)
        return params._replace(weights=moved)

    return map(one, several)


def _restrictions(params, null, dtype):
    """How many weights are 0 in `null` only; the classes' sum to zero, so one follows."""
    lost = (null.weights == 0) & (params.weights != 0)
    number = jnp.sum(lost, axis=tuple(range(lost.ndim - 1)))
    if lost.ndim == 2:
        number = jnp.minimum(number, jnp.sum(~jnp.isneginf(params.bias)) - 1)
    return jnp.sum(number).astype(dtype)


@functools.partial(_platform.jit, static_argnums=(0, 1))
def score_test(model, refined, arguments, extra):
    """Statistics `(c,)` and p-values of columns `extra (n, c)`, NaN of one that the others give.

    A row's column has the slope of the loss times its value; what the columns of x tell of it, by
    weights of the curvature, is no news. All of it are products of `extra` with a few columns.
    """
    e = _estimate.at(model, arguments)
    rows = e.problem.rows

    def of_block(block):
        z, scores, slope, curve = _estimate.whole(model, e, block)
        weighed = block.weight[:, None] * curve[:, :, 0]
        slope, half = block.weight[:, None] * slope, _estimate.half_images(e, z)[:, 0]
        return jnp.concatenate([scores, slope, weighed, half], axis=1)

    each = _fold.map_rows(of_block, rows)
    scores, slope, weighed, half = each[:, 0], each[:, 1], each[:, 2], each[:, 3:]
    known_of_x = jnp.concatenate([slope[:, None], weighed[:, None] * half], axis=1).T
    ahead = dot(slope, half)  # 0 at the minimum
    seen = rows.weight > 0
    first = jnp.argmax(seen)

    def clean(g):
        g = g.astype(each.dtype)
        # From one of its values, so that the difference below is of what varies.
        apart = g[first][None, :] if model.bias else 0
        # By what it holds: in the weight of a row of weight 0 whose square is a number there is a
        # derivative.
        fine = jnp.abs(g) <= _checks.safe_range(g.dtype)
        # A column that is no number says nothing, and no derivative of another is to feel it.
        told = jnp.all(fine | ~seen[:, None], axis=0)
        return jnp.where(fine & told[None, :], g - apart, 0)

    def of_columns(g):
        g = clean(g)
        product = dot(known_of_x, g)
        told = product[1:]
        push = product[0] - dot(ahead, told)
        whole = dot(weighed, g**2)
        left = whole - jnp.sum(told**2, axis=0)
        known = left > _linalg.RANK_ULPS * len(g) ** 0.5 * jnp.finfo(g.dtype).eps * whole
        return jnp.where(known, e.total * push**2 / jnp.where(known, left, 1), jnp.nan)

    statistic = _of_column_blocks(of_columns, extra, each.dtype)
    p_value = special.gammaincc(0.5, statistic / 2)
    if refined:
        most = jax.lax.top_k(jnp.where(jnp.isnan(statistic), -1, statistic), refined)[1]
        told = ~jnp.isnan(statistic[most])
        other = (jnp.arange(len(seen)) % 2).astype(each.dtype)
        # Any other column in the place of one of which nothing is told: its NaN would be felt.
        g = jnp.where(told[None, :], clean(extra[:, most]), other[:, None])
        g = g - dot(half, dot(known_of_x[1:], g))
        values, weight = e.total * dot(slope, g), e.total * rows.weight
        tails = _saddlepoint.two_sided_of_columns(g, scores, weight, values)
        p_value = p_value.at[most].set(jnp.where(told, tails, jnp.nan))
    return _estimate.said((statistic, p_value), _estimate.proper(model, e))


@functools.partial(_platform.jit, static_argnums=(0, 1, 2))
def score_bootstrap(model, draws, num_clusters, arguments, columns, clusters, key):
    """The statistic of `columns (d,)` bool, those of the draws, and whether clusters are too many.

    Of the steps h_g = sum of -A^-1 gradient over the rows of a cluster, in the columns tested, the
    sum N with random signs, and N' (sum_g h_g h_g')^-1 N.
    """
    mask = arguments.data.feature_mask
    whole = jnp.ones_like(columns) if mask is None else mask

    def look(mask):
        data = arguments.data._replace(feature_mask=mask)
        e = _estimate.at(model, arguments._replace(data=data))

        def of_block(block):
            z, _, slope, _ = _estimate.whole(model, e, block)
            pull = _estimate.gradients(e, z, block.weight[:, None] * slope)
            return _mesh.where_rows(block.ok, dot(pull, _linalg.solve(e.factor, e.back.T)))

        each = _fold.map_rows(of_block, e.problem.rows)[:, : columns.size]
        return each, e.problem.rows.weight > 0, e.regular, e.optimal

    # Once as the null has it, which is to be the minimum, and once with the columns.
    found = jax.vmap(look)(jnp.stack([whole & ~columns, whole]))
    each, here, regular = (a[1] for a in found[:3])
    proper = regular & (found[3][0] | (not model.check))
    ok = jnp.bool_(True)
    if clusters is not None:
        clusters = _draws.ranks(jnp.where(here, clusters, clusters[jnp.argmax(here)]))
        ok = jnp.all(clusters < num_clusters)
        each = jax.ops.segment_sum(each, clusters, num_clusters)
    each = jnp.where((columns & whole)[None, :], each, 0)
    unit = _linalg.power_of_two(jnp.max(jnp.abs(each), axis=0))
    each = each / unit[None, :]
    spread = dot(each.T, each) + jnp.diag((~(columns & whole)).astype(each.dtype))
    factor = _linalg.factor(spread)
    eps = float(jnp.finfo(each.dtype).eps)
    sound = _linalg.least_eigenvalue(factor) >= _linalg.RANK_ULPS * columns.size * eps

    def of_signs(signs):
        moved = jnp.sum(signs[:, None] * each, axis=0)
        return jnp.sum(_linalg.half_solve(factor, moved) ** 2)

    def draw(key):
        return of_signs(jax.random.rademacher(key, (len(each),), each.dtype))

    value = of_signs(jnp.ones(len(each), each.dtype))
    null = jax.lax.map(draw, jax.random.split(key, draws))
    return _estimate.said((value, null), proper & sound & ok)


def _of_column_blocks(f, a, dtype):
    """`f` of a few columns at once, which makes little of each; some are met twice at the end."""
    c = a.shape[1]
    size = min(c, max(1, COLUMN_ENTRIES // len(a)))
    if c == size:
        return f(a)
    starts = jnp.minimum(jnp.arange(-(-c // size), dtype=jnp.int32) * size, c - size)

    def step(found, start):
        block = jax.lax.dynamic_slice_in_dim(a, start, size, axis=1)
        return jax.lax.dynamic_update_slice_in_dim(found, f(block), start, axis=0), ()

    return jax.lax.scan(step, jnp.zeros(c, dtype), starts)[0]

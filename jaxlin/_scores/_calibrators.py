"""The programs of `calibration`: a temperature, a sigmoid and an isotonic regression of scores.

Each takes `scores`, `y (n,)` and `sample_weight (n,)` or None, as `_judged.checked` gives them, and
returns numbers and an Info. Shapes: `n` examples, `k` classes.
"""

import functools

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _codes, _platform
from jaxlin._linalg import _implicit
from jaxlin._scores import _judged, _newton, _pools, _ranked
from jaxlin._scores._newton import Look
from jaxlin.types import Info, Status


@_platform.jit
def temperature(scores, y, sample_weight):
    """1 / T `()`, and the Info."""
    if scores.ndim == 1:
        scores = jnp.stack([jnp.zeros_like(scores), scores], axis=1)
    # The score of an absent class is -inf, that of a class that is there is none such.
    own = jnp.clip(y, 0, scores.shape[1] - 1)[:, None].astype(jnp.int32)
    sound = jnp.isfinite(jnp.take_along_axis(scores, own, axis=1)) & (scores < jnp.inf)
    rows = _judged.judged(jnp.where(sound, scores, jnp.nan), y, sample_weight)
    own = rows.y[:, None]
    here = rows.weight[:, None] > 0
    leads = rows.scores - jnp.take_along_axis(rows.scores, own, axis=1)
    size = jnp.where(here & (leads > -jnp.inf), jnp.abs(leads), 0)
    unit = _unit(jnp.max(size))
    data = _within(leads / unit), _shares(rows)
    still = jax.lax.stop_gradient(data)

    def look(point):
        loss, slope, curvature = _along_leads(still, point)
        step = jnp.where(curvature > 0, -slope / jnp.where(curvature > 0, curvature, 1), 0)
        decrement = jnp.sqrt(jnp.abs(step * slope))
        return Look(loss, jnp.abs(slope), step[None], decrement)

    nothing = jnp.zeros(1, scores.dtype)
    state, status = _newton.descended(look, nothing)
    others = jnp.where(here & ~_codes.members(rows.y, scores.shape[1]), leads, -jnp.inf)
    rival = jnp.max(others, axis=1)
    endless = jnp.where(jnp.max(rival) < 0, Status.SEPARABLE, Status.QUASI_SEPARABLE)
    flat = jnp.max(size) == 0
    status = jnp.where(jnp.max(rival) <= 0, endless, status)
    # Scores that tell less than nothing are best not heard.
    deaf = state.point[0] <= 0
    status = jnp.where(deaf, Status.CONVERGED, status)
    status = jnp.where(flat, Status.RANK_DEFICIENT, status)
    point = jnp.where(deaf, 0, state.point)
    proper = (status <= Status.MAX_STEPS) & ~deaf & rows.valid
    point = _implicit.root(_of_leads, _bend_of_leads, data, point, proper)
    residual = jnp.where(deaf, 0, state.look.residual)
    equal = jnp.sum(data[1] * jnp.log(jnp.sum(leads > -jnp.inf, axis=1).astype(leads.dtype)))
    least = jnp.where(deaf, equal, state.look.objective)
    least = _implicit.envelope(_loss_of_leads, data, point, least, proper)
    info = _info(status, state.steps, least, residual, rows.valid)
    return _known(point[0] / unit, rows.valid), _implicit.told(info, proper, data)


def _along_leads(data, point):
    """The mean log loss, and its first two derivatives in 1 / T, `()` each."""
    leads, share = data
    scaled = _times(point[0], leads)
    top = jnp.max(jax.lax.stop_gradient(scaled), axis=1)
    size = jnp.exp(scaled - top[:, None])
    total = jnp.sum(size, axis=1)
    chance = size / total[:, None]
    heard = jnp.where(chance > 0, leads, 0)
    middle = jnp.sum(chance * heard, axis=1)
    spread = jnp.sum(chance * (heard - middle[:, None]) ** 2, axis=1)
    sums = (top + jnp.log(total), middle, spread)
    return tuple(jnp.sum(share * a) for a in sums)


def _loss_of_leads(data, point):
    return _along_leads(data, point)[0]


def _of_leads(data, point):
    return _along_leads(data, point)[1][None]


def _bend_of_leads(point, data):
    return _along_leads(data, point)[2][None, None]


def _times(scale, leads):
    return jnp.where(leads > -jnp.inf, scale * jnp.where(leads > -jnp.inf, leads, 0), -jnp.inf)


@functools.partial(_platform.jit, static_argnums=3)
def platt(scores, y, sample_weight, smoothed):
    """Slope and intercept `()`, and the Info."""
    rows = _judged.judged(jnp.where(jnp.isfinite(scores), scores, jnp.nan), y, sample_weight)
    here, share, weight = rows.weight > 0, _shares(rows), rows.weight
    one = (rows.y > 0).astype(weight.dtype)
    target = one
    if smoothed:
        ones, zeros = jnp.sum(weight * one), jnp.sum(weight * (1 - one))
        target = jnp.where(rows.y > 0, (ones + 1) / (ones + 2), 1 / (zeros + 2))
    sides = here & (rows.y > 0), here & (rows.y == 0)
    ends = jnp.stack(
        [jnp.where(side, a, -jnp.inf) for side in sides for a in (rows.scores, -rows.scores)]
    )
    ends = jnp.max(jax.lax.stop_gradient(ends), axis=1)
    high, low = jnp.maximum(ends[0], ends[2]), -jnp.maximum(ends[1], ends[3])
    unit = _unit(high / 2 - low / 2)
    middle = jax.lax.stop_gradient(jnp.sum(share * (rows.scores / unit))) * unit
    # Of scores that are all one their mean may round to another, and they are to be exactly 0.
    data = _within(jnp.where(low < high, (rows.scores - middle) / unit, 0)), target, share
    still = jax.lax.stop_gradient(data)

    def look(point):
        loss, (slope, shift), bend = _along_plane(still, point)
        # As of a plane through the centre of the curvature, where the two are apart.
        whole = jnp.where(bend[1, 1] > 0, bend[1, 1], 1)
        centre = bend[0, 1] / whole
        own = jnp.sum(_curvatures(still[2], _plane(still, point)) * (still[0] - centre) ** 2)
        along = -(slope - centre * shift) / jnp.where(own > 0, own, jnp.inf)
        step = jnp.stack([along, -shift / whole - centre * along])
        gain = -(step[0] * slope + step[1] * shift)
        residual = jnp.maximum(jnp.abs(slope), jnp.abs(shift))
        return Look(loss, residual, step, jnp.sqrt(jnp.abs(gain)))

    state, status = _newton.descended(look, jnp.zeros(2, share.dtype))
    status = jnp.where(low == high, Status.RANK_DEFICIENT, status)
    if not smoothed:
        apart = -jnp.minimum(ends[1] + ends[2], ends[0] + ends[3])
        endless = jnp.where(apart > 0, Status.SEPARABLE, Status.QUASI_SEPARABLE)
        status = jnp.where((apart >= 0) & (low < high), endless, status)
    both = jnp.minimum(ends[0], ends[2]) > -jnp.inf
    status = jnp.where(both, status, Status.CLASS_TOO_SMALL)
    point = state.point
    if not smoothed:
        only = jnp.where(ends[0] > -jnp.inf, jnp.inf, -jnp.inf).astype(share.dtype)
        point = jnp.where(both, point, jnp.stack([jnp.zeros_like(only), only]))
    proper = (status <= Status.MAX_STEPS) & rows.valid
    root = _implicit.root(_of_plane, _bend_of_plane, data, point, proper)
    found = root[0] / unit, root[1] - root[0] * (middle / unit)
    found = tuple(
        _known(jnp.where(both, a, b), rows.valid) for a, b in zip(found, point, strict=True)
    )
    least = _implicit.envelope(_loss_of_plane, data, root, state.look.objective, proper)
    info = _info(status, state.steps, least, state.look.residual, rows.valid)
    return found, _implicit.told(info, proper, data)


def _plane(data, point):
    return point[0] * data[0] + point[1]


def _curvatures(share, z):
    return share * jax.nn.sigmoid(z) * jax.nn.sigmoid(-z)


def _along_plane(data, point):
    """The mean log loss `()`, its gradient `(2,)` and its Hessian `(2, 2)`."""
    (u, target, share), z = data, _plane(data, point)
    lost = share * (target * jax.nn.softplus(-z) + (1 - target) * jax.nn.softplus(z))
    wrong, bend = share * (jax.nn.sigmoid(z) - target), _curvatures(share, z)
    each = jnp.stack([lost, wrong * u, wrong, bend * u**2, bend * u, bend])
    sums = jnp.sum(each, axis=1)
    return sums[0], sums[1:3], jnp.stack([sums[3:5], sums[4:6]])


def _loss_of_plane(data, point):
    return _along_plane(data, point)[0]


def _of_plane(data, point):
    return _along_plane(data, point)[1]


def _bend_of_plane(point, data):
    return _along_plane(data, point)[2]


@_platform.jit
def isotonic(scores, y, sample_weight):
    """Knots `(n,)`, what is predicted there, and the Info."""
    rows = _judged.judged(jnp.where(jnp.isfinite(scores), scores, jnp.nan), y, sample_weight)
    weight, absent, n = _judged.scaled(rows.weight), rows.weight == 0, len(scores)
    at = _ranked.levels(rows.scores, absent)
    # A row that gains weight joins the pool above it if it is of class 1, else the one below; where
    # there is none it makes one, outside.
    below = absent & (rows.y == 0) & (at.scores[at.place] != rows.scores)
    at = at._replace(place=jnp.where(below, (at.place + n) % (n + 1), at.place))
    parts = jax.vmap(at.total)(jnp.where(_codes.members(rows.y, 2).T, weight[None, :], 0))
    zero, one = jax.lax.stop_gradient(parts)
    pool = _pools.increasing(zero + one, one)
    zeros, ones = jnp.zeros_like(parts).at[:, pool].add(parts)
    whole = zeros + ones
    values = (ones / jnp.where(whole > 0, whole, 1))[pool]
    miss = parts[0] * values**2 + parts[1] * (1 - values) ** 2
    miss = jnp.sum(miss) / jnp.sum(weight)
    both = jnp.all(jnp.sum(parts, axis=1) > 0)
    status = jnp.where(both, Status.CONVERGED, Status.CLASS_TOO_SMALL)
    info = _info(status, jnp.zeros((), jnp.int32), miss, jnp.zeros_like(miss), rows.valid)
    return (_known(at.scores, rows.valid), _known(values, rows.valid)), info


@functools.partial(_platform.jit, static_argnums=(0, 4))
def of_classes(program, scores, y, sample_weight, *static):
    """What a program says of each class against all others, `(k, ...)`, and one Info."""
    k = scores.shape[1]
    rows = _judged.judged(scores, y, sample_weight)
    weight = jnp.ones_like(scores[:, 0]) if sample_weight is None else sample_weight
    # A label outside of the classes is one of none.
    own = jnp.where(rows.valid, 0, -1) + _codes.members(y, k).astype(jnp.int32)
    found, info = jax.vmap(lambda s, y: program(s, y, weight, *static), in_axes=1)(scores, own)
    most = jax.tree.map(jnp.max, info)
    return found, most._replace(objective=jnp.sum(info.objective))


@jax.jit
def cooled(temperature, scores):
    """Scores divided by a temperature; -inf stays what it is."""
    return _times(1 / temperature, scores)


@jax.jit
def tempered(temperature, scores):
    scores = cooled(temperature, scores)
    if scores.ndim == 1:
        return jnp.stack([jax.nn.sigmoid(-scores), jax.nn.sigmoid(scores)], axis=1)
    return jax.nn.softmax(scores, axis=1)


@jax.jit
def sigmoids(slope, intercept, scores):
    """The probability of class 1 and of not, each with all its digits, or of each class."""
    if scores.ndim == 2:
        return jax.nn.sigmoid(slope[None, :] * scores + intercept[None, :])
    z = slope * scores + intercept
    return jnp.stack([jax.nn.sigmoid(-z), jax.nn.sigmoid(z)], axis=1)


@jax.jit
def steps(knots, values, scores):
    if scores.ndim == 2:
        return jax.vmap(_between, in_axes=(0, 0, 1), out_axes=1)(knots, values, scores)
    chance = _between(knots, values, scores)
    return jnp.stack([1 - chance, chance], axis=1)


def _between(knots, values, scores):
    """On the line between the knots about each score, and outside of them as at the last."""
    after = jnp.searchsorted(knots, scores, side="right")
    low, high = jnp.clip(after - 1, 0, len(knots) - 1), jnp.clip(after, 0, len(knots) - 1)
    wide = knots[high] - knots[low]
    part = jnp.where(wide > 0, (scores - knots[low]) / jnp.where(wide > 0, wide, 1), 0)
    found = values[low] + jnp.clip(part, 0, 1) * (values[high] - values[low])
    return jnp.where(jnp.isnan(scores), jnp.nan, found)


@jax.jit
def divided(chances):
    """By their sum; where no class is likely at all, each as likely as any."""
    total = jnp.sum(chances, axis=1, keepdims=True)
    return jnp.where(total == 0, 1 / chances.shape[1], chances / jnp.where(total == 0, 1, total))


def _shares(rows):
    weight = _judged.scaled(rows.weight)
    total = jnp.sum(weight)
    return weight / jnp.where(total > 0, total, 1)


def _within(scores):
    """In units of those that count, what does not is at most as far away as can be told."""
    most = 1 / jnp.finfo(scores.dtype).eps
    return jnp.where(scores > -jnp.inf, jnp.clip(scores, -most, most), scores)


def _unit(size):
    """The power of two next to a size, which divides without rounding; 1 next to 0."""
    size = jax.lax.stop_gradient(jnp.where((size > 0) & (size < jnp.inf), size, 1))
    return _linalg.power_of_two(size)


def _known(a, valid):
    return jnp.where(valid, a, jnp.nan)


def _info(status, steps, objective, residual, valid):
    endless = (status == Status.SEPARABLE) | (status == Status.CLASS_TOO_SMALL)
    return Info(
        status=jnp.where(valid, status, Status.INVALID_DATA).astype(jnp.int32),
        steps=steps,
        objective=_known(jnp.where(endless, 0, objective), valid),
        residual=_known(residual, valid),
    )

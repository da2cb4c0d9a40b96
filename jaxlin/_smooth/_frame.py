"""The frame in which a smooth fit runs: columns centred and scaled, exactly undone.

With a bias the columns are centred, which costs nothing; they are scaled by powers of two, which
rounds nothing. Raw units of any size are then solved alike, and the Newton system is well scaled.
Scores of k classes move in a basis of those that sum to zero over the classes present.
Shapes: `n` rows, `d` features, `p` = d + 1 coordinates with a bias, else d; `K` scores of `m`
degrees of freedom, one for a plane, else K - 1.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _batched, _checks, _loops, _mesh, _traced
from jaxlin._data import _entries, _fold, _maxima, _rows
from jaxlin._linalg import dot
from jaxlin.sparse import Padded, Sparse
from jaxlin.types import Linear

# Rows sampled for the frame of an x that many lanes share.
SAMPLE_ROWS = 64
# Junk in it may be so large, as a power of the range: 2^45 in float32, beside which a column that
# is 2^53 times as small has a square in range too.
ROOM = 3 / 4
# Rows sampled for the frame of an x of one's own, or all of so many.
CENTRE_ROWS, ALL_ROWS = 512, 2048
# Columns whose largest entry is within this factor of 1 are not scaled.
UNITS = 2.0**30
# Of x, up to which its columns in the frame may be held: 64 MiB in float64.
HELD_ENTRIES = 2**23
# The score of an absent class: its probability is exactly 0, and so is all that comes of it.
NEVER = -1e30


class Problem(NamedTuple):
    """The rows and the frame: score = [(x - centre) * scale, 1] . (spread * theta).

    Without a bias the column of ones, and the last coordinate, are not there, and centre is 0.

    centre, scale: `(d,)`, the same for all lanes that share x
    spread: `(p,)`, powers of two and 1 for the bias; 0 for a column out of play: masked, or of one
      value and without a penalty
    shift, unit: `(p,)`, mean and 1 / standard deviation of the columns that theta sees; 0 and 1
      for the bias; 0 for a column of one value
    penalty: `(p,)`, l2 on theta
    sizes: `(2, p)`, what a coordinate's rounding is measured by: its part of the bias in the user's
      units, and that with its largest part of a score
    free: `(p,)`, coordinates in play without penalty
    idle: `(d,)`, columns that are asked for but hold one value, and have no penalty
    basis: `(K, m)`, orthonormal, 0 in the rows of absent classes; or None for one score
    used: `(m,)`, the columns of the basis that are not 0; none where fewer than two classes have
      weight
    bounded: `()`, whether x was seen to hold numbers in the safe range and nothing else
    """

    rows: _rows.Rows
    centre: jax.Array
    scale: jax.Array
    spread: jax.Array
    shift: jax.Array
    unit: jax.Array
    penalty: jax.Array
    sizes: jax.Array
    free: jax.Array
    idle: jax.Array
    basis: jax.Array | None
    used: jax.Array
    bounded: jax.Array


class _Standing(NamedTuple):
    """Where the columns stand: `(d,)` each, of z = (x - centre) * scale the last three.

    mean, square: of z and its square, weighted
    largest: of |z|, where there is weight
    """

    centre: jax.Array
    scale: jax.Array
    mean: jax.Array
    square: jax.Array
    largest: jax.Array


@jax.custom_batching.custom_vmap
def _standing(rows: _rows.Rows, bias: jax.Array) -> _Standing:
    """A centre near the weighted mean, or 0, and powers of two that bring the columns near one."""

    # Near the mean is near enough: what is left of it is `shift`.
    bare = rows._replace(offset=None)
    few = not isinstance(rows, _rows.Streamed) and rows.weight.size <= ALL_ROWS
    sample = _rows.clean(_rows.sample(bare, ALL_ROWS if few else CENTRE_ROWS))
    # From a row with weight, so that no other is felt, and the mean of one value is that value.
    first = _rows.one_row(rows)
    held = (sample.weight > 0)[:, None]
    apart = jnp.where(held, sample.x - first[None, :], 0)
    sums = jnp.sum(sample.weight), dot(sample.weight, apart)
    (total, apart), _ = _mesh.across(sums, (), rows.axis)
    mean = first + apart / jnp.where(total > 0, total, 1)
    moments = _moments_by_entries if _fold.is_long(rows) else _moments
    found = moments(rows, jnp.where(bias, mean, 0), jnp.ones_like(mean))

    def of_all(rows, centre):
        def maxima(block):
            return (), _maxima.largest(block.weight, jnp.abs(block.x))

        return moments(rows, centre, _scale(_fold.fold(maxima, rows)[1]))

    # No square may leave the range, in float32 either.
    near = (found.largest <= UNITS) & (found.largest >= 1 / UNITS) | (found.largest == 0)
    return _linalg.when(~jnp.all(near), of_all, found, (rows, found.centre))


@_standing.def_vmap
def _(axis_size, in_batched, rows, bias):
    """Lanes that share x share the frame, or `x - centre` would become one copy per lane.

    What they share cannot depend on their weights: the centre is the median of a sample of rows,
    and the scale their quartiles', so that a few rows of junk that no lane gives weight move
    neither.
    """
    if any(jax.tree.leaves(in_batched[0].x)):
        own = _batched.each(_standing.fun, axis_size, in_batched)(rows, bias)
        return own, _batched.all_of(own)
    streamed, masked = isinstance(rows, _rows.Streamed), in_batched[0].feature_mask
    shared = _rows.alike(rows, None if masked else rows.feature_mask)
    dtype = _checks.working_dtype(rows.x)
    # Of every entry that is a number, whatever else its row holds: a lane may mask that.
    every = shared if streamed else shared._replace(ok=shared.ok | ~shared.ok, feature_mask=None)

    def maxima(block):
        size = jnp.abs(block.x)
        fine = (size <= _checks.safe_range(dtype)) & (block.weight > 0)[:, None]
        return (), jnp.max(jnp.where(fine, size, 0), axis=0)

    largest = _fold.fold(maxima, every)[1]
    x = rows.some.x if streamed else rows.x
    sample = x[:: max(1, len(x) * _mesh.devices(rows.axis) // SAMPLE_ROWS)].astype(dtype)
    sample = jnp.where(jnp.abs(sample) <= _checks.safe_range(dtype), sample, jnp.nan)
    parts = jnp.asarray([0.25, 0.5, 0.75], dtype)
    quartiles = jnp.nanquantile(_mesh.gathered(sample, rows.axis), parts, axis=0)
    low, middle, high = jnp.nan_to_num(quartiles)
    # Junk may be large, but its square within the range.
    most = _checks.safe_range(dtype) ** ROOM / _linalg.power_of_two(largest)
    scale = jnp.minimum(_scale(jnp.where(high > low, high - low, largest)), most)
    found = jnp.where(bias, middle, 0), scale
    # The lanes may be dealt over a mesh axis of their own, of which x knows nothing.
    centre, scale = _loops.as_varying(found, rows, rows.axis.name)

    def of_lane(rows):
        if not (streamed or masked):
            rows = rows._replace(ok=shared.ok)  # whatever the labels, or x were one for each lane
        return _moments(rows, centre, scale)[2:]

    each = _batched.each(of_lane, axis_size, in_batched[:1])(rows)
    batched: Any = (False, False, True, True, True)
    return _Standing(centre, scale, *each), _Standing(*batched)


def _moments(rows: _rows.Rows, centre: jax.Array, scale: jax.Array) -> _Standing:
    def moments(block):
        z = (block.x - centre[None, :]) * scale[None, :]
        sums = dot(block.weight, z), dot(block.weight, z * z)
        return sums, _maxima.largest(block.weight, jnp.abs(z))

    (mean, square), largest = _fold.fold(moments, rows)
    return _Standing(centre, scale, mean, square, largest)


def _moments_by_entries(rows: _rows.Rows, centre: jax.Array, scale: jax.Array) -> _Standing:
    """As `_moments`, of one x."""

    def moments(block):
        z, weight = (block.x - centre[None, :]) * scale[None, :], block.weight[:, None]
        return (weight * z, weight * z * z), jnp.where(weight > 0, jnp.abs(z), 0)

    (mean, square), largest = _fold.fold_entries(moments, rows)
    return _Standing(centre, scale, mean, square, largest)


def _scale(largest: jax.Array) -> jax.Array:
    # Bounded, so that a row without weight cannot overflow in the frame of those with.
    return jnp.minimum(1 / _linalg.power_of_two(largest), _checks.safe_range(largest.dtype))


def _standing_of_entries(rows: _rows.Rows, bias: bool) -> tuple[_Standing, jax.Array]:
    """As `_standing`, of columns that are not centred, whose zeros are not looked at.

    And which columns hold one value in all rows, and so are the column of ones again, `(d,)`.
    """
    entries = _rows.pass_entries(rows.x)

    def first(block):
        x, weight = block.entries, block.weight
        part = _entries.along(weight[None], Padded(x.indices, jnp.sign(x.values) ** 2, len(centre)))
        sums = _entries.along(weight[None], x)[0], part[0]
        counts = _entries.count(weight, x), jnp.sum(weight > 0, dtype=jnp.int32)
        return (*sums, *counts), tuple(_entries.largest(weight, x, sign) for sign in (1, -1))

    centre = jnp.zeros(rows.x.shape[1], rows.weight.dtype)
    (mean, share, held, count), (high, low) = _fold.fold(first, rows, entries)
    mean = mean if bias else jnp.zeros_like(mean)

    def second(block):
        return _entries.away(block.weight, block.entries, mean), ()

    around, _ = _fold.fold(second, rows, entries)
    every = (held == count) & (count > 0)
    variance = around + jnp.where(every, 0, mean**2 * jnp.maximum(1 - share, 0))
    largest = jnp.maximum(jnp.maximum(high, low), 0)
    scale = _scale(largest)
    square = variance * scale**2 + (mean * scale) ** 2
    found = _Standing(centre, scale, mean * scale, square, largest * scale)
    return found, every & (high == -low) & bias


@_traced.once("bias")
def make(rows: _rows.Rows, l2: jax.Array, bias: bool, basis: jax.Array | None = None) -> Problem:
    if is_sparse(rows):
        found, alike = _standing_of_entries(rows, bias)
        varies = (found.largest > 0) & ~alike
    else:
        found = _standing(rows, jnp.asarray(bias))
        varies = found.largest > 0
    centre, scale, mean, square, largest = found
    eps = jnp.finfo(centre.dtype).eps
    reach = largest / scale + jnp.abs(centre)
    # What is no number is in the sums, whatever its weight.
    bounded = jnp.isfinite(mean + square) & (reach <= _checks.safe_range(centre.dtype))
    # Nothing is left of a column of one value, of which the centre is that value. With a penalty
    # its weight is 0, and has a derivative.
    in_play = varies | (l2 > 0)
    idle = ~in_play
    if rows.feature_mask is not None:
        in_play &= rows.feature_mask
        idle &= rows.feature_mask
    mean = mean if bias else jnp.zeros_like(mean)
    deviation = jnp.sqrt(jnp.maximum(square - mean**2, eps * square))
    deviation = jnp.where(in_play & (deviation > 0), deviation, 1)
    # Of one value: so that its curvature, which is the penalty's alone, is about 1.
    alone = _linalg.power_of_two(jnp.where(l2 > 0, jax.lax.rsqrt(l2), 1) / scale)
    spread = jnp.where(varies, 1 / _linalg.power_of_two(deviation), alone)
    spread = jnp.where(in_play, spread, 0)
    # And less of a column whose penalty would leave the range.
    most = math.sqrt(_checks.safe_range(l2.dtype)) / 2 * jax.lax.rsqrt(l2) / scale
    spread = jnp.minimum(spread, jnp.where(l2 > 0, _linalg.power_of_two(most), jnp.inf))
    # Its weight, which stays 0, has no rounding and no part of the residual.
    moved = jnp.where(varies, jnp.abs(centre * scale) * spread, 0)
    seen = in_play & varies
    return Problem(
        rows=rows,
        centre=centre,
        scale=scale,
        spread=with_bias(spread, 1, bias),
        shift=with_bias(mean * spread, 0, bias),
        unit=with_bias(jnp.where(seen, 1 / jnp.where(seen, deviation * spread, 1), 0), 1, bias),
        penalty=penalty(l2, scale, with_bias(spread, 1, bias)),
        sizes=jnp.stack([with_bias(moved, 1, bias), with_bias(moved + largest * spread, 1, bias)]),
        free=with_bias((l2 == 0) & in_play, True, bias),
        idle=idle,
        basis=basis,
        used=jnp.ones(1, bool) if basis is None else jnp.any(basis != 0, axis=0),
        bounded=jnp.all(bounded),
    )


def empty_unless_bounded(problem: Problem) -> Problem:
    """The problem, or, where x was not seen to be `bounded`, one whose solution is 0."""
    bounded, rows = problem.bounded, problem.rows
    rest = jax.tree.map(lambda a: jnp.where(bounded, a, jnp.zeros_like(a)), problem[1:])
    return Problem(rows._replace(ok=rows.ok & bounded), *rest)


def live(problem: Problem, rows: _rows.Rows, l2: jax.Array) -> Problem:
    """The problem, differentiable in what the user gave; the frame is a choice of ours."""
    return problem._replace(rows=rows, penalty=penalty(l2, problem.scale, problem.spread))


def class_basis(present: jax.Array, dtype: Any) -> jax.Array:
    """Orthonormal columns `(k, k - 1)` of sum 0 over the classes present `(k,)`: Helmert's.

    Of c classes present the first c - 1 columns in use, in the order of the classes; the others 0.
    """
    k = present.shape[0]
    # The class that is the r-th present closes column r - 1: the mean of those before, against it.
    rank = (jnp.cumsum(present) - 1).astype(dtype)[:, None]
    column = jnp.arange(1, k, dtype=dtype)[None, :]
    size = jax.lax.rsqrt(column * (column + 1))
    value = jnp.where(rank < column, size, jnp.where(rank == column, -column * size, 0))
    return jnp.where(present[:, None] & (column <= jnp.max(rank)), value, 0)


def with_bias(features: jax.Array, last: float | jax.Array, bias: bool) -> jax.Array:
    """A vector over features, extended by the bias's entry if there is one."""
    return jnp.concatenate([features, jnp.full((int(bias),), last, features.dtype)])


def penalty(l2: jax.Array, scale: jax.Array, spread: jax.Array) -> jax.Array:
    """l2 as theta feels it, 0 for the bias."""
    d = l2.shape[0]
    # An l2 of 0 is 0 in any units, and has a derivative like any other.
    most = jnp.where(l2 > 0, jnp.inf, math.sqrt(float(jnp.finfo(l2.dtype).max)) / 2)
    factor = jnp.minimum(scale * spread[:d], most.astype(l2.dtype))
    felt = jnp.minimum(l2 * factor * factor, _checks.safe_range(l2.dtype))
    return with_bias(felt, 0, spread.shape[0] > d)


def unscaled(problem: Problem) -> jax.Array:
    """The factor from theta to weights in the user's units, `(d,)`."""
    return problem.scale * problem.spread[: problem.scale.size]


def scores(problem: Problem, u: jax.Array) -> jax.Array:
    """Scores `(rows, K)` of `u (rows, m)`."""
    return u if problem.basis is None else dot(u, problem.basis.T) + never(problem)[None, :]


def never(problem: Problem) -> jax.Array:
    """What is added to each score, `(K,)`: nothing, but to those of absent classes."""
    absent = ~jnp.any(problem.basis != 0, axis=1)
    return jnp.where(absent, NEVER, 0).astype(problem.spread.dtype)


def in_basis(problem: Problem, a: jax.Array) -> jax.Array:
    """Derivatives in the scores, `(..., K)`, as derivatives in u, `(..., m)`."""
    return a if problem.basis is None else dot(a, problem.basis)


def of_basis(problem: Problem, a: jax.Array) -> jax.Array:
    """What each score has of `a (m, ...)`: `(K, ...)`."""
    return a if problem.basis is None else dot(problem.basis, a)


def inert(problem: Problem) -> jax.Array:
    """`(m, p)`, the coordinates out of play: of masked and constant columns, and absent classes."""
    return ~problem.used[:, None] | (problem.spread == 0)[None, :]


def enter(problem: Problem, init: Linear | None, bias: bool) -> jax.Array:
    """theta `(m, p)` of the user's params; a column out of play, or of one value, stays at 0."""
    if init is None:
        return jnp.zeros((problem.used.size, problem.spread.size), problem.spread.dtype)
    basis = problem.basis
    if basis is not None:
        init = jax.tree.map(lambda a: dot(basis.T, a), init)
    factor = unscaled(problem)
    factor = jnp.where(problem.unit[: factor.size] > 0, factor, 0)
    theta = jnp.where(factor > 0, init.weights / jnp.where(factor > 0, factor, 1)[None, :], 0)
    if bias:
        moved = init.bias + dot(init.weights, problem.centre)
        theta = jnp.concatenate([theta, moved[:, None]], axis=1)
    return jax.lax.stop_gradient(theta)


def leave(problem: Problem, theta: jax.Array, bias: bool) -> Linear:
    """The params of theta in the user's units, of each score."""
    weights = theta[:, : problem.centre.size] * unscaled(problem)[None, :]
    offset = offsets(problem, theta) if bias else jnp.zeros_like(theta[:, 0])
    return Linear(weights=of_basis(problem, weights), bias=of_basis(problem, offset))


def offsets(problem: Problem, theta: jax.Array) -> jax.Array:
    """The biases of theta `(m, p)` in the user's units, `(m,)`; 0 where there are none."""
    d = problem.centre.size
    along = dot(theta[:, :d] * unscaled(problem)[None, :], problem.centre)
    return jnp.sum(theta[:, d:], axis=1) - along


def left(problem: Problem, theta: jax.Array, bias: bool) -> Linear:
    """As `leave`, with biases that are rounded once, however far from 0 the columns lie."""
    params = leave(problem, theta, bias)
    if not bias:
        return params
    weights, last = jax.lax.stop_gradient((params.weights, of_basis(problem, theta[:, -1])))
    known = jax.vmap(_linalg.long_inner, in_axes=(0, None, 0))(-weights, problem.centre, last)
    known = jnp.where(jnp.isfinite(known), known - jax.lax.stop_gradient(params.bias), 0)
    return params._replace(bias=params.bias + known)


def settled(problem: Problem, theta: jax.Array, bias: bool) -> tuple[Linear, jax.Array, jax.Array]:
    """The params of theta `(m, p)`, what they are in the frame, and how well biases are known.

    Of a score's params the bias is rounded once; what it is in the frame, where it may be much
    less, once more.

    Returns:
      The params, and of each score its coordinates `(K, p)`, and a bound of its bias' rounding
      `(K,)`.
    """
    params, factor = left(problem, theta, bias), unscaled(problem)[None, :]
    own = jnp.where(factor > 0, params.weights / jnp.where(factor > 0, factor, 1), 0)
    if not bias:
        return params, own, jnp.zeros(len(own), own.dtype)
    weights, at, eps = params.weights, problem.centre, jnp.finfo(own.dtype).eps
    seen = jax.vmap(_linalg.long_inner, in_axes=(0, None, 0))(weights, at, params.bias)
    lost = _linalg.long_ulps(at.size) * eps**2 * dot(jnp.abs(weights), jnp.abs(at))
    slack = eps * jnp.abs(seen) + lost
    return params, jnp.concatenate([own, seen[:, None]], axis=1), slack


def held(problem: Problem) -> Problem:
    """The problem with its columns made once for many passes, where they are not too many."""
    rows = problem.rows
    if rows.x.size > HELD_ENTRIES:
        return problem
    return problem._replace(rows=rows._replace(framed=columns(problem, _rows.clean(rows))))


def columns(problem: Problem, block: _rows.Rows) -> jax.Array:
    """The block in the frame that all lanes share, `(rows, p)`, with its column of ones."""
    if block.framed is not None:
        return block.framed
    z = (block.x - problem.centre[None, :]) * problem.scale[None, :]
    extra = problem.spread.size - problem.centre.size
    return jnp.concatenate([z, jnp.ones((z.shape[0], extra), z.dtype)], axis=1)


class View(NamedTuple):
    """A block in the frame whose zeros are not held: its entries, and what `columns` makes of them.

    scale: `(d,)`
    ones: `(1,)` with a bias, else `(0,)`: the last columns
    """

    x: Padded
    scale: jax.Array
    ones: jax.Array


def view(problem: Problem, block: _rows.Rows) -> jax.Array | View:
    """As `columns`, for `times`, `across`, `along` and `powers`; of a table no dense array."""
    if block.entries is None:
        return columns(problem, block)
    return View(block.entries, problem.scale, problem.spread[problem.scale.size :])


def times(z: jax.Array | View, thetas: jax.Array) -> jax.Array:
    """z times `thetas (p, q)`: `(rows, q)`."""
    return across(thetas.T, z).T if isinstance(z, View) else dot(z, thetas)


def across(thetas: jax.Array, z: jax.Array | View) -> jax.Array:
    """`thetas (q, p)` times each row: `(q, rows)`."""
    if not isinstance(z, View):
        return dot(thetas, z.T)
    d = z.scale.size
    scores = _entries.across(thetas[:, :d] * z.scale[None, :], z.x)
    return scores + jnp.sum(thetas[:, d:], axis=1)[:, None]


def along(pulls: jax.Array, z: jax.Array | View) -> jax.Array:
    """The sum of the rows by each of `pulls (q, rows)`: `(q, p)`."""
    return powers(pulls, z, 1) if isinstance(z, View) else dot(pulls, z)


def powers(pulls: jax.Array, z: View, power: int) -> jax.Array:
    """As `along`, of the entries to a power."""
    sums = _entries.along(pulls, z.x, power) * z.scale[None, :] ** power
    total = jnp.broadcast_to(jnp.sum(pulls, axis=1)[:, None], (len(pulls), z.ones.size))
    return jnp.concatenate([sums, total], axis=1)


def is_sparse(rows: Any) -> bool:
    """Whether x is a table whose zeros are not held."""
    return isinstance(rows.x, Sparse)


def standard(problem: Problem, block: _rows.Rows) -> jax.Array:
    """The features of the block with this lane's mean 0 and variance 1, `(rows, d)`."""
    d = problem.centre.size
    z = columns(problem, block)[:, :d] * problem.spread[None, :d]
    return (z - problem.shift[None, :d]) * problem.unit[None, :d]


def products(problem: Problem, thetas: jax.Array) -> jax.Array:
    """Scores `(n, q)` of thetas `(p, q)`, block by block."""
    spread = thetas * problem.spread[:, None]
    if problem.rows.framed is not None:
        return dot(problem.rows.framed, spread)
    return _fold.map_rows(lambda block: dot(columns(problem, block), spread), problem.rows)


def sized_products(problem: Problem, thetas: jax.Array) -> tuple[jax.Array, jax.Array]:
    """As `products`, and the size of what each is the sum of: `(n, q)` both."""
    spread = thetas * problem.spread[:, None]

    def of(z):
        return jnp.concatenate([dot(z, spread), dot(jnp.abs(z), jnp.abs(spread))], axis=1)

    if problem.rows.framed is not None:
        both = of(problem.rows.framed)
    else:
        both = _fold.map_rows(lambda block: of(columns(problem, block)), problem.rows)
    return both[:, : thetas.shape[1]], both[:, thetas.shape[1] :]


def long_scores(problem: Problem, params: Linear) -> tuple[jax.Array, jax.Array]:
    """The scores of params on x as it is, without offset, and what they lost: `(n, K)` both."""
    rows = problem.rows._replace(framed=None)
    products = jax.vmap(_linalg.long_products, in_axes=(None, 0, 0), out_axes=1)

    def of(block):
        return jnp.concatenate(products(block.x, params.weights, params.bias), axis=1)

    # Each score holds several numbers for each entry of x.
    both = _fold.map_rows(of, rows, _rows.BLOCK_ENTRIES // len(params.bias))
    return both[:, : len(params.bias)], both[:, len(params.bias) :]


def in_row_space(problem: Problem) -> tuple[Problem, Callable[[jax.Array], jax.Array]]:
    """The problem of n features R', features P^-1/2 = R' Q', every penalty being 1.

    Not by a factor of the rows' inner products, which have the square of the data's condition.

    Returns:
      The problem, and the way back for thetas `(m, p)`: P^-1/2 Q u.
    """
    rows, d = problem.rows, problem.centre.size
    bias = problem.spread.size > d
    held = (problem.spread[:d] > 0) & (problem.penalty[:d] > 0)
    root = jnp.where(held, jax.lax.rsqrt(jnp.where(held, problem.penalty[:d], 1)), 0)
    z = columns(problem, _rows.clean(rows))[:, :d] * (problem.spread[:d] * root)[None, :]
    q, r = jnp.linalg.qr(_mesh.where_rows(rows.weight > 0, z).T)
    # What is left of rows that others give is rounding, which the frame would take for a column.
    size = jnp.max(jnp.abs(r), axis=1)
    least = 4 * len(r) * float(jnp.finfo(r.dtype).eps) * jnp.max(size)
    r = jnp.where((size > least)[:, None], r, 0)
    ones = jnp.ones(r.shape[1], z.dtype)
    few = rows._replace(x=r.T, feature_mask=None, framed=None)
    plain = live(make(jax.lax.stop_gradient(few), ones, bias), few, ones)

    def back(theta):
        found = leave(plain, theta, bias)
        weights = root[None, :] * dot(found.weights, q.T)
        return jnp.concatenate([weights, found.bias[:, None]], axis=1) if bias else weights

    return plain._replace(basis=problem.basis, used=problem.used), back

"""Inverses of symmetric matrices that may be singular: on their range, with derivatives."""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlin._base import _platform
from jaxlin._linalg import _dense
from jaxlin._linalg._control import when
from jaxlin._linalg._dense import RANK_ULPS, Factor, dot


class Range(NamedTuple):
    """The range of a matrix A with unit diagonal, S its scaling to that.

    null: `(p, p)`, orthonormal columns that span the null space of S A S, the others 0
    onto: `(p, p)`, S followed by the projection on the range of A in the given units
    level: `()`, by how much the log determinants on the range differ, but for that of S
    clear: `()` bool, whether that projection leaves S A S what it is
    wide: `(p, p)`, those columns of the null space that are given a variance, times its root
    told: `()` int32, what was told of them
    """

    null: jax.Array
    onto: jax.Array
    level: jax.Array
    clear: jax.Array
    wide: jax.Array
    told: jax.Array


class Inverse(NamedTuple):
    """The pseudo-inverse of a positive semidefinite matrix A.

    matrix: `(p, p)`
    log_determinant: `()`, of A on its range
    deficient: `()` bool, whether that is not everything
    clear: `()` bool, whether rounding leaves no doubt of that, as far as A tells
    null: `(p, p)`, columns that span the null space, of length 1 where A has unit diagonal, or 0
    pivot: `()`, the least squared pivot of A with unit diagonal, see `Factor`
    of: `(p, p)`, the matrix itself, widened where that was asked for
    wide: `(p, p)`, columns whose products with themselves are that part of the inverse
    told: `()` int32, what was told of the null space, or 0
    """

    matrix: jax.Array
    log_determinant: jax.Array
    deficient: jax.Array
    clear: jax.Array
    null: jax.Array
    pivot: jax.Array
    of: jax.Array
    wide: jax.Array
    told: jax.Array


def pseudo_inverse(
    a: jax.Array,
    mask: jax.Array | None = None,
    level: jax.Array | None = None,
    tell: Callable[..., tuple[jax.Array, jax.Array, jax.Array]] | None = None,
    operands: Any = None,
    unit: jax.Array | None = None,
) -> Inverse:
    """Moore and Penrose's inverse of a symmetric `(p, p)` matrix, whatever the units of its axes.

    Where the diagonal is 1 the null space N is told, beyond p units of rounding, and the inverse is
    that of S A S + N N', S the scaling; in the given units it is projected off S N. Derivatives are
    those of the inverse on the range.

    Args:
      a: diag(unit) G diag(unit), of the matrix G that is given.
      mask: `(p,)`, axes that are not there are False; their rows are 0.
      level: `(p,)`, the units of axes whose diagonal is 0, 1 where that is 0 too.
      tell: static; `(N, pseudo-inverse of S A S, units (p,), operands) -> (N, width (p,), told)`,
        the variance that A is widened by along the columns of N, and an int.
      unit: `(p,)`, powers of two, by default 1. The inverse is in these units too; but what is
        orthogonal to the null space, and so the inverse, is that in the units of G, and of G is the
        log determinant.
    """
    p, eps = a.shape[0], float(jnp.finfo(a.dtype).eps)
    unit = jnp.ones(p, a.dtype) if unit is None else unit
    if mask is not None:
        unit = jnp.where(mask, unit, 1)
    eye = jnp.eye(p, dtype=a.dtype)
    a = (a + a.T) / 2
    if mask is not None:
        a = jnp.where(mask[:, None] & mask[None, :], a, eye)
    still = jax.lax.stop_gradient(a)
    first = _dense.factor(still)
    if level is not None:
        zero = (jnp.diagonal(still) <= 0) & (level > 0)
        scale = jnp.where(zero, 1 / jnp.where(zero, level, 1), first.scale)
        first = first._replace(scale=jax.lax.stop_gradient(scale))
    # The least pivot is no less than the least eigenvalue, and may be far above it.
    near = ~(first.pivot >= max(math.sqrt(eps), RANK_ULPS * p * eps))
    singular = functools.partial(_singular, tell)
    found = when(near, singular, _regular(first, unit), (still, first.scale, unit, operands))
    scaled = a * first.scale[:, None] * first.scale[None, :]
    held, log_determinant = _followed(scaled, found.held, found.log_determinant, found.null)
    matrix = _in_units(held, found.onto, first.scale, near)
    wide = found.wide / first.scale[:, None]
    of = a + dot(wide, wide.T)
    if mask is not None:
        matrix, of = (jnp.where(mask[:, None] & mask[None, :], b, 0) for b in (matrix, of))
    size = jnp.sum(found.wide**2, axis=0)
    dual = first.scale[:, None] * found.wide / jnp.where(size > 0, size, 1)[None, :]
    return Inverse(
        matrix=matrix,
        log_determinant=log_determinant,
        deficient=jnp.any(found.null != 0),
        clear=found.clear & ((found.told > 0) | (jnp.trace(held) * p * eps <= 1)),
        null=first.scale[:, None] * found.null + dual,
        pivot=first.pivot,
        of=of,
        wide=dual,
        told=found.told,
    )


class _Found(NamedTuple):
    """What is made of a matrix A that may be singular, S its scaling to unit diagonal.

    held: `(p, p)`, the inverse of S A S + N N', or of S A S
    log_determinant: `()`, of A on its range
    null, onto, clear, wide, told: as in Range
    """

    held: jax.Array
    log_determinant: jax.Array
    null: jax.Array
    onto: jax.Array
    clear: jax.Array
    wide: jax.Array
    told: jax.Array


def _regular(whole: Factor, unit: jax.Array) -> _Found:
    held, log_determinant = _inverse(whole)
    log_determinant -= 2 * jnp.sum(jnp.log(unit))
    nothing = jnp.zeros_like(whole.lower)
    yes = jnp.ones_like(whole.pivot, bool)
    return _Found(held, log_determinant, nothing, jnp.diag(whole.scale), yes, nothing, jnp.int32(0))


def _singular(
    tell: Callable | None, a: jax.Array, scale: jax.Array, unit: jax.Array, operands: Any
) -> _Found:
    scaled = a * scale[:, None] * scale[None, :]
    null, onto, level, clear, wide, told = range_of(scaled, scale, unit, tell, operands)
    held, log_determinant = inverse(scaled + dot(null, null.T) + dot(wide, wide.T))
    log_determinant += level - 2 * jnp.sum(jnp.log(scale) + jnp.log(unit))
    return _Found(held, log_determinant, null, onto, clear, wide, told)


def inverse(a: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A^-1 and log det A of a regular `(p, p)` A; derivatives of any order are products."""
    whole = _dense.factor(jax.lax.stop_gradient(a))
    held, log_determinant = _inverse(whole)
    held = held * whole.scale[:, None] * whole.scale[None, :]
    return _followed(a, held, log_determinant, jnp.zeros_like(held))


def _inverse(whole: Factor) -> tuple[jax.Array, jax.Array]:
    """The inverse of L L', and the log determinant of A."""
    half = _dense.lower_inverse(whole.lower, jnp.ones_like(whole.scale))
    log_pivots = jnp.sum(jnp.log(jnp.diagonal(whole.lower)) - jnp.log(whole.scale))
    return dot(half.T, half), 2 * log_pivots


@jax.custom_jvp
def _followed(
    a: jax.Array, held: jax.Array, log_determinant: jax.Array, null: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """`(held, log_determinant)`, found for a, with its derivatives on the range, of any order."""
    return held, log_determinant


@_followed.defjvp
def _(primals, tangents):
    held, log_determinant = _followed(*primals)
    null, moved = primals[3], dot(held, tangents[0])
    # What varies off the range is not counted.
    off = jnp.sum(null * dot(tangents[0], null))
    return (held, log_determinant), (-dot(moved, held), jnp.trace(moved) - off)


@jax.custom_jvp
def _in_units(held: jax.Array, onto: jax.Array, scale: jax.Array, near: jax.Array) -> jax.Array:
    """`onto held onto'`, which is quick where `onto` is the scaling alone."""
    return when(near, _between, held * scale[:, None] * scale[None, :], (onto, held))


@_in_units.defjvp
def _(primals, tangents):
    return _in_units(*primals), _between(primals[1], tangents[0])


def _between(onto: jax.Array, held: jax.Array) -> jax.Array:
    return dot(onto, dot(held, onto.T))


def refined(inverse: Inverse, b: jax.Array) -> jax.Array:
    """A^-1 b for each row of b `(m, p)`, the rounding of the inverse taken back once."""
    v = dot(b, inverse.matrix)
    rest = left(inverse.of, *jax.lax.stop_gradient((v, b)))
    return v + jax.lax.stop_gradient(dot(rest, inverse.matrix))


def left(a: jax.Array, v: jax.Array, b: jax.Array) -> jax.Array:
    """b - v A for rows `(m, p)` and a semidefinite A, with half of the digits more than b has.

    Where A has a diagonal of about 1, products of the upper digits are whole numbers of one unit,
    and so few of them that their sums are exact; they are what cancels against b.
    """
    p, digits = a.shape[0], jnp.finfo(a.dtype).nmant + 1
    unit = _dense.power_of_two(jnp.sqrt(jnp.abs(jnp.diagonal(a))))
    a = _dense.on_both_sides(a, 1 / unit)
    v, b = v * unit[None, :], b / unit[None, :]
    size = _dense.power_of_two(jnp.max(jnp.abs(v), axis=1, keepdims=True, initial=0))
    # Of entries below 4 and 2.
    step = 2.0 ** ((digits - 3 - math.ceil(math.log2(max(p, 1)))) // 2)
    upper_a = jnp.round(a * step) / step
    upper_v = jnp.round(v / size * step) / step * size
    lower = dot(upper_v, a - upper_a) + dot(v - upper_v, a)
    return (b - dot(upper_v, upper_a) - lower) * unit[None, :]


def range_of(
    scaled: jax.Array,
    scale: jax.Array,
    unit: jax.Array,
    tell: Callable | None = None,
    operands: Any = None,
) -> Range:
    """The range, by eigenvalues, of A `scaled` to unit diagonal; the others: `pseudo_inverse`."""
    p, eps = scaled.shape[0], float(jnp.finfo(scaled.dtype).eps)
    ulps = RANK_ULPS * p * eps
    values, vectors = _dense.eigh(scaled)
    small = values <= ulps * jnp.max(values, initial=0)
    null = jnp.where(small[None, :], vectors, 0)
    if not _platform.on_cpu():
        # What rotations of a GPU leave, some hundred units of rounding, is taken back.
        whole = _dense.factor(scaled + dot(null, null.T))
        finer = null - _dense.solve(whole, dot(scaled, null))
        null = jnp.where(jnp.isnan(whole.pivot), null, finer)
    # Rounding in the row of an axis with large units would be felt there.
    null = jnp.where(jnp.abs(null) > ulps, null, 0)
    wide, told = jnp.zeros_like(null), jnp.int32(0)
    if tell is not None:
        reciprocal = jnp.where(small, 0, 1 / jnp.where(small, 1, values))
        pseudo = dot(vectors * reciprocal[None, :], vectors.T)
        null, width, told = tell(null, pseudo, 1 / scale, operands)
        # What is less is no variance to whoever inverts what is widened.
        least = 4 * ulps * jnp.max(values, initial=0)
        wide = null * jnp.sqrt(jnp.where(width > 0, jnp.maximum(width, least), 0))[None, :]
        null = jnp.where(width[None, :] > 0, 0, null)
    # In the units of what is given, and none of them far from 1.
    largest_unit = jnp.max(unit, initial=0)
    rate = unit / largest_unit
    units = (scale * rate)[:, None] * null
    top = _dense.power_of_two(jnp.max(jnp.abs(units), axis=0, initial=0))
    units = units / top[None, :]
    size = jnp.sqrt(jnp.sum(units**2, axis=0))
    units = units / jnp.where(size > 0, size, 1)[None, :]
    gram = dot(units.T, units) + jnp.diag(jnp.where(size > 0, 0, 1).astype(scale.dtype))
    whole = _dense.factor(gram)
    units = _dense.half_solve(whole, units.T).T
    level = 2 * jnp.sum(jnp.log(jnp.diagonal(whole.lower)) - jnp.log(whole.scale))
    sizes = jnp.log(size) + jnp.log(top) + jnp.log(largest_unit)
    level += 2 * jnp.sum(jnp.where(size > 0, sizes, 0))
    moved = dot(units / rate[:, None], units.T * (scale * rate)[None, :])
    # Where the null space is known to few digits, the way to the least norm is not along it.
    felt = jnp.abs(dot(scaled, moved / scale[:, None]))
    clear = _dense.largest(felt) <= 4 * ulps * jnp.max(values, initial=0)
    onto = jnp.diag(scale) - jnp.where(clear, moved, 0)
    return Range(null, onto, level, clear, wide, told)

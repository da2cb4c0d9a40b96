"""Products, factors and inverses of small dense matrices, in full precision of the dtype."""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlin._base import _platform
from jaxlin._linalg._control import when

HIGHEST = jax.lax.Precision.HIGHEST
# A squared pivot, or an eigenvalue, below this many units of p * eps may be rounding: dependent
# columns of 50 to 20,000 rows left pivots of up to 4.3 of them.
RANK_ULPS = 16
# The part of the digits, beside its diagonal's, that a matrix is to have in the user's units.
DIGITS_HELD = 3 / 4
# Rows whose sum keeps its digits, at most: as products with a matrix, and of numbers one by one;
# and so many numbers that they are summed in parts of these. Products of two vectors lost 20 units
# of rounding at 9,000 rows, and 100 at a million.
PART_ROWS, PART_TERMS, MANY_TERMS = 2048, 256, 4096
# Columns of an identity that are solved for one row after the other.
FEW_SIDES = 128


def dot(a: jax.Array, b: jax.Array) -> jax.Array:
    """`a @ b` at full precision: float32 products otherwise run in TF32 on some accelerators."""
    return jnp.matmul(a, b, precision=HIGHEST)


def combination(a: jax.Array, x: jax.Array) -> jax.Array:
    """`a (n,)` times `x (n, d)` for many rows, as they lie.

    Of parts of the rows, whose number divides theirs, or else of `a` twice: a product of one vector
    is summed from the first row to the last, and in float32 loses digits.
    """
    n, d = x.shape
    size = next((size for size in range(PART_ROWS, PART_ROWS // 16, -1) if n % size == 0), None)
    if size is None:
        return dot(jnp.stack([a, a]), x)[0]
    return jnp.sum(dot(a.reshape(-1, 1, size), x.reshape(-1, size, d)), axis=(0, 1))


def inner(a: jax.Array, b: jax.Array) -> jax.Array:
    """`a' b`, of parts where there are many, as `combination`.

    Of few the products are summed by a vector of ones: lanes share it, and are one product.
    """
    if a.size < MANY_TERMS:
        return dot(a * b, jnp.ones_like(a))
    whole = a.size // PART_TERMS * PART_TERMS
    parts = (a[:whole] * b[:whole]).reshape(-1, PART_TERMS)
    return jnp.sum(jnp.sum(parts, axis=1)) + dot(a[whole:], b[whole:])


def form(a: jax.Array, v: jax.Array) -> jax.Array:
    """v' A v for a small A, as sums: products with one vector compile slowly.

    The first is over rows, which is made by vectors; one over all entries at once is not.
    """
    return jnp.sum(v * jnp.sum(a * v[:, None], axis=0))


def narrow(a: jax.Array) -> jax.Array:
    """An array of float64 in float32, any other as it is."""
    return a.astype(jnp.float32) if a.dtype == jnp.float64 else a


def power_of_two(a: jax.Array) -> jax.Array:
    """The power of two in |a|, at most it and more than half of it: exact to scale by and undo.

    Where |a| is below the normal range, 0 included, it is 1.
    """
    exponent = {4: (jnp.uint32, 0x7F800000), 8: (jnp.uint64, 0x7FF0000000000000)}
    dtype, mask = exponent[a.dtype.itemsize]
    bits = jax.lax.bitcast_convert_type(a, dtype) & dtype(mask)
    power = jax.lax.bitcast_convert_type(bits, a.dtype)
    return jnp.where(power > 0, power, 1)


def on_both_sides(a: jax.Array, by: jax.Array) -> jax.Array:
    """diag(by) A diag(by), exactly if these are powers of two: of a `(..., p, p)` A."""
    lead = (1,) * (a.ndim - 2)
    return a * by.reshape(*lead, -1, 1) * by.reshape(*lead, 1, -1)


def turned(a: jax.Array, by: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The same of a semidefinite A, and whether the dtype holds its digits.

    What is too small for a number is lost, and with it what is told of columns that vary together.
    """
    found, limits = on_both_sides(a, by), jnp.finfo(a.dtype)
    before, after = (jnp.diagonal(b, axis1=-2, axis2=-1) for b in (a, found))
    least = float(limits.tiny) / float(limits.eps) ** DIGITS_HELD
    held = (after >= least) & (after <= float(limits.max))
    return found, jnp.all(held | (before == 0))


def log1p_of_share(e: jax.Array) -> jax.Array:
    """log(1 + e) for e in [0, 1], to 2 units of rounding.

    log(1 + e) = 2 atanh z, z = e / (2 + e), is 2 z = e - z e and a series in z^2 <= 1/9. Products
    are taken by vectors, where compilers take the logarithm entry by entry.
    """
    z = e / (2 + e)
    square = z * z
    # The first term left out is below a quarter of a unit.
    terms = 16 if e.dtype == jnp.float64 else 7
    series = jnp.full_like(e, 2 / (2 * terms - 1))
    for j in range(terms - 2, 0, -1):
        series = series * square + 2 / (2 * j + 1)
    return e - z * (e - series * square)


def largest(a: jax.Array) -> jax.Array:
    """The largest entry, at least 0, or NaN where one is NaN.

    From arrays of 4,096 entries and more the compilers of jax 0.11 and 0.12 drop NaN (CPU).
    """
    return jnp.where(jnp.any(jnp.isnan(a)), jnp.nan, jnp.max(a, initial=0))


class Factor(NamedTuple):
    """Cholesky of a symmetric matrix A with unit diagonal: diag(scale) A diag(scale) = L L'.

    upper: `(p, p)` L', which is how LAPACK leaves L: row after row, with nothing to be copied
    scale: `(p,)`
    pivot: `()`, the least squared pivot, at most 1; about the reciprocal condition, or NaN
    """

    upper: jax.Array
    scale: jax.Array
    pivot: jax.Array

    @property
    def lower(self) -> jax.Array:
        """L, `(p, p)`."""
        return self.upper.T


def factor(a: jax.Array, ridge: float | jax.Array = 0.0) -> Factor:
    """Factor a symmetric `(p, p)` matrix, `ridge` added to its unit diagonal."""
    p = a.shape[0]
    # Strided: a mask reads every entry, one by one, which took as long as the factor itself.
    diagonal = a.reshape(-1)[:: p + 1]
    scale = jax.lax.rsqrt(jnp.where(diagonal > 0, diagonal, 1))
    scaled = a * scale[:, None] * scale[None, :]
    upper = jax.lax.linalg.cholesky(raised(scaled, ridge).T, symmetrize_input=False).T
    # A matrix without a factor leaves NaN in all of it, one that holds NaN from where it stands on:
    # in the last pivot, and has none. See also `largest`.
    pivots = upper.reshape(-1)[:: p + 1]
    pivot = jnp.min(pivots, initial=jnp.inf) ** 2
    return Factor(upper, scale, jnp.where(jnp.any(jnp.isnan(pivots[-1:])), jnp.nan, pivot))


def raised(a: jax.Array, by: float | jax.Array) -> jax.Array:
    """A `(p, p)` matrix with `by`, a number or a row `(1, p)`, added to its diagonal.

    A diagonal matrix to be added would be made before the loop that this is in, and held there.
    """
    return jnp.where(jnp.eye(a.shape[0], dtype=bool), a + by, a)


def half_solve(f: Factor, b: jax.Array) -> jax.Array:
    """L^-1 diag(scale) b, whose squared norm is b' A^-1 b; for `b: (p,)` or `(p, m)`."""
    scale = f.scale.reshape(f.scale.shape + (1,) * (b.ndim - 1))
    return jax.scipy.linalg.solve_triangular(f.lower, scale * b, lower=True)


def other_half(f: Factor, half: jax.Array) -> jax.Array:
    """A^-1 b of the `half_solve` of b."""
    scale = f.scale.reshape(f.scale.shape + (1,) * (half.ndim - 1))
    return scale * jax.scipy.linalg.solve_triangular(f.lower, half, lower=True, trans=1)


def solve(f: Factor, b: jax.Array) -> jax.Array:
    """A^-1 b for `b: (p,)` or `(p, m)`."""
    return other_half(f, half_solve(f, b))


@jax.jit
def lower_inverse(lower: jax.Array, scale: jax.Array) -> jax.Array:
    """L^-1 diag(scale), for a lower triangular `(p, p)` matrix L where it is small row by row.

    LAPACK wakes its threads for 8 right-hand sides and more. They wait for cores that those of XLA
    still hold, which may cost more than all else that a fit does. An accelerator has no such
    threads, and starts every row anew.
    """
    p = lower.shape[0]
    # Not of the identity, see `raised`.
    sides = raised(jnp.zeros_like(lower), scale[None, :])
    if not (0 < p <= FEW_SIDES and _platform.on_cpu()):
        return jax.scipy.linalg.solve_triangular(lower, sides, lower=True)

    def row(i, found):
        own = jnp.where(jnp.arange(p) < i, lower[i], 0)
        return found.at[i].set((sides[i] - dot(own, found)) / lower[i, i])

    return jax.lax.fori_loop(0, p, row, jnp.zeros_like(lower))


def inverse_root(f: Factor) -> jax.Array:
    """R = L^-1 diag(scale), `(p, p)`: A^-1 = R' R."""
    return lower_inverse(f.lower, f.scale)


def least_eigenvalue(f: Factor, root: jax.Array | None = None) -> jax.Array:
    """A lower bound, at most p times too small, of the least eigenvalue of L L', or NaN.

    1 / trace((L L')^-1). The least pivot is an upper bound, which dependent columns can exceed by
    the product of the other pivots' reciprocals. `root` is the `inverse_root`, where it is known.
    """
    root = inverse_root(f) if root is None else root
    return 1 / jnp.sum((root / f.scale[None, :]) ** 2)


def eigh(a: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Eigenvalues and vectors of a symmetric matrix; of a matrix with NaN or Inf, those of 0.

    LAPACK may not return from a matrix that is not finite, and a lane of a batch that nobody asked
    about must not hang the others.
    """
    return jnp.linalg.eigh(jnp.where(jnp.all(jnp.isfinite(a)), a, 0))


def least_solve(a: jax.Array, b: jax.Array) -> jax.Array:
    """The solution of least norm of A v = b, A `(p, p)` positive semidefinite and scaled here."""
    p = a.shape[0]
    diagonal = jnp.diagonal(a)
    scale = jax.lax.rsqrt(jnp.where(diagonal > 0, diagonal, 1))
    values, vectors = eigh(a * scale[:, None] * scale[None, :])
    small = values <= p * jnp.finfo(a.dtype).eps * jnp.max(values, initial=0)
    inverse = jnp.where(small, 0, 1 / jnp.where(small, 1, values))
    return scale * dot(vectors, inverse * dot(vectors.T, scale * b))


def semidefinite_solve(a: jax.Array, b: jax.Array) -> jax.Array:
    """As `least_solve`, by a Cholesky factor where A is regular; no reverse derivative."""
    whole = factor(a)
    regular = whole.pivot >= RANK_ULPS * a.shape[0] * float(jnp.finfo(a.dtype).eps)
    return when(~regular, least_solve, solve(whole, b), (a, b))


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
    first = factor(still)
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
    whole = factor(jax.lax.stop_gradient(a))
    held, log_determinant = _inverse(whole)
    held = held * whole.scale[:, None] * whole.scale[None, :]
    return _followed(a, held, log_determinant, jnp.zeros_like(held))


def _inverse(whole: Factor) -> tuple[jax.Array, jax.Array]:
    """The inverse of L L', and the log determinant of A."""
    half = lower_inverse(whole.lower, jnp.ones_like(whole.scale))
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
    return v + jax.lax.stop_gradient(dot(b - dot(v, inverse.of), inverse.matrix))


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
    values, vectors = eigh(scaled)
    small = values <= ulps * jnp.max(values, initial=0)
    null = jnp.where(small[None, :], vectors, 0)
    if not _platform.on_cpu():
        # What rotations of a GPU leave, some hundred units of rounding, is taken back.
        whole = factor(scaled + dot(null, null.T))
        finer = null - solve(whole, dot(scaled, null))
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
    top = power_of_two(jnp.max(jnp.abs(units), axis=0, initial=0))
    units = units / top[None, :]
    size = jnp.sqrt(jnp.sum(units**2, axis=0))
    units = units / jnp.where(size > 0, size, 1)[None, :]
    gram = dot(units.T, units) + jnp.diag(jnp.where(size > 0, 0, 1).astype(scale.dtype))
    whole = factor(gram)
    units = half_solve(whole, units.T).T
    level = 2 * jnp.sum(jnp.log(jnp.diagonal(whole.lower)) - jnp.log(whole.scale))
    sizes = jnp.log(size) + jnp.log(top) + jnp.log(largest_unit)
    level += 2 * jnp.sum(jnp.where(size > 0, sizes, 0))
    moved = dot(units / rate[:, None], units.T * (scale * rate)[None, :])
    # Where the null space is known to few digits, the way to the least norm is not along it.
    felt = jnp.abs(dot(scaled, moved / scale[:, None]))
    clear = largest(felt) <= 4 * ulps * jnp.max(values, initial=0)
    onto = jnp.diag(scale) - jnp.where(clear, moved, 0)
    return Range(null, onto, level, clear, wide, told)


def given_by_those_before(columns: jax.Array) -> jax.Array:
    """Which columns are combinations of those before, `(d,)`: of `(n, d)`, of length 1 or 0."""
    _, d = columns.shape
    least = RANK_ULPS * (d + 1) * float(jnp.finfo(columns.dtype).eps)

    def step(basis, turn):
        j, left = turn
        for _ in range(2):  # Gram and Schmidt, twice is enough
            left = left - dot(dot(basis, left), basis)
        square = jnp.sum(left**2)
        given = square <= least
        unit = jnp.where(given, 0, left / jnp.sqrt(jnp.where(given, 1, square)))
        return basis.at[j].set(unit), given

    start = 0 * columns.T  # varies as the columns do
    return jax.lax.scan(step, start, (jnp.arange(d), columns.T))[1]

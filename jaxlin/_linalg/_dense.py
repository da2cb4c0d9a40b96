"""Products, factors and inverses of small dense matrices, in full precision of the dtype."""

from typing import NamedTuple

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
    """The same of a semidefinite A, and whether the dtype holds its digits, `(...)`.

    What is too small for a number is lost, and with it what is told of columns that vary together.
    Where A has nothing but rounding, of either sign, there is nothing to hold.
    """
    found, limits = on_both_sides(a, by), jnp.finfo(a.dtype)
    before, after = (jnp.abs(jnp.diagonal(b, axis1=-2, axis2=-1)) for b in (a, found))
    least = float(limits.tiny) / float(limits.eps) ** DIGITS_HELD
    held = (after >= least) & (after <= float(limits.max))
    nothing = before <= float(limits.eps) * jnp.max(before, axis=-1, keepdims=True, initial=0)
    return found, jnp.all(held | nothing, axis=-1)


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

"""Sums and products in twice the digits of their dtype."""

import jax
import jax.numpy as jnp

# Numbers that a sum in twice the digits adds one after the other, before it adds such sums: it is
# compiled once for each such round, and rounded by the sum of their lengths.
GROUP = 4


def long_inner(a: jax.Array, b: jax.Array, more: jax.Array) -> jax.Array:
    """`a' b + more` of vectors, rounded about once, however much of it cancels."""
    total, lost = long_products(a[None], b, more)
    return (total + lost)[0]


def long_products(a: jax.Array, b: jax.Array, more: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`a (n, d)` times `b (d,)`, plus `more ()`, and what that has lost: `(n,)` each.

    Products of halves of the digits are exact, those of the lower halves of float64 but for a bit,
    and what each sum loses is summed apart (Ogita, Rump and Oishi 2005, "Accurate sum and dot
    product"). Trusted to `long_ulps` units of eps^2 of the terms' size.
    """
    (a, a_rest), (b, b_rest) = _halves(a.T), _halves(b[:, None])
    upper, lost = exact_sum(a * b, a * b_rest)
    lower, less = exact_sum(a_rest * b, a_rest * b_rest)
    terms, least = exact_sum(upper, lower)
    lost += less + least

    def added(one, other):
        total, less = exact_sum(one[0], other[0])
        return total, one[1] + other[1] + less

    zero = jnp.zeros((), a.dtype)
    terms = jnp.concatenate([terms, jnp.broadcast_to(more, (1, terms.shape[1]))])
    lost = jnp.pad(lost, ((0, 1), (0, 0)))
    for _ in range(_rounds(len(terms))):
        groups = (
            jnp.pad(v, ((0, -len(v) % GROUP), (0, 0))).reshape(GROUP, -1, v.shape[1])
            for v in (terms, lost)
        )
        terms, lost = jax.lax.reduce(tuple(groups), (zero, zero), added, (0,))
    return terms[0], lost[0]


def long_ulps(count: int) -> float:
    """Units of eps^2 of its terms' size that a sum of `count` products by `long_products` misses.

    Each of the at most t sums that a term passes loses eps / 2 of the size, and of that two sums
    lose as much: t^2 eps^2 / 2.
    """
    return ((GROUP - 1) * _rounds(count + 1) + 3) ** 2 / 2


def _rounds(count: int) -> int:
    """In how many rounds of GROUP numbers that many are one."""
    rounds = 0
    while count > 1:
        rounds, count = rounds + 1, -(-count // GROUP)
    return rounds


def pairwise_products(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`b (p,)` times `a (p, n)` and |b| times |a|, summed in pairs: `(n,)` each.

    A sum in pairs is rounded ceil(log2 p) times, where one term after the other is p times.
    """

    def total(terms):
        while len(terms) > 1:
            first, second = _in_two(terms)
            terms = first + second
        return terms[0]

    terms = a * b[:, None]
    return total(terms), total(jnp.abs(terms))


def _in_two(a: jax.Array) -> jax.Array:
    """The halves of an array `(p, n)`, `(2, h, n)`: a row of zeros makes an odd number even."""
    return jnp.pad(a, ((0, len(a) % 2), (0, 0))).reshape(2, -1, a.shape[1])


def exact_sum(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The rounded sum, and what it has lost (Knuth)."""
    total = a + b
    moved = total - a
    return total, (a - (total - moved)) + (b - moved)


def _halves(a: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The upper half of the digits of `a`, and what is left of it."""
    dtype, mask = {4: (jnp.uint32, 0xFFFFF000), 8: (jnp.uint64, 0xFFFFFFFFF8000000)}[
        a.dtype.itemsize
    ]
    upper = jax.lax.bitcast_convert_type(a, dtype) & dtype(mask)
    upper = jax.lax.bitcast_convert_type(upper, a.dtype)
    return upper, a - upper

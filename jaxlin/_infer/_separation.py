"""Which rows some plane separates, by finitely many exact decisions: Wolfe's nearest point.

A row's demand is a vector a: it is met strictly by a direction v with a . v > 0, and violated by
a . v < 0. Of the convex hull of all demands the point nearest to 0 is found by Wolfe's method
("Finding the nearest point in a polytope", 1976). If it is not 0, it meets them all. If it is, a
positive combination of some demands is 0: on those every direction that violates none must be
0, and so on all in their span. The others, less their part in that span, are asked again, until
none is left (the classes overlap) or a direction meets all that are.
Demands are `contrast (m,)` (x) `z (p,)`, of unit length; shapes as in `_passes`, P = m p.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _loops
from jaxlin._linalg import dot

# A combination is 0 that is no longer than so many units of P * eps.
PROOF_ULPS = 16
# A demand is in the span of others that is no further from it than so many units of P * eps.
HELD_ULPS = 16
# One that is further, but not by so many units of P * eps, is neither: nothing is proved.
ZERO_ULPS = 1024
# Rows whose distance from a span is computed at once.
ROWS_AT_ONCE = 256
# Parts in which a direction is held that rows feel nothing of, each some digits smaller.
PARTS = 4
# And what rows feel of them all, in units of the rounding of twice the digits.
EXACT_ULPS = 1
# Steps per dimension; a handful is usual.
STEPS = 64


class Demands(NamedTuple):
    """What the rows ask of a direction.

    z: `(n, p)`
    contrasts: `(n, q, m)`, q demands a row, of any length
    live: `(n, q)` bool, whether the demand is there
    """

    z: jax.Array
    contrasts: jax.Array
    live: jax.Array


class Verdict(NamedTuple):
    """direction: `(P,)`, 0 on the demands that are held, and met by all others; 0 if none is left

    held: `(n, q)` bool, the demands that no direction meets without violating another
    multipliers: `(n, q)`, of some of these that span them all: positive, and the sum is 0
    span: `(P, P)`, the projection on the span of those that are held
    proved: `()`, whether all that is beyond rounding
    """

    direction: jax.Array
    held: jax.Array
    multipliers: jax.Array
    span: jax.Array
    proved: jax.Array


class _Corral(NamedTuple):
    """Wolfe's corral: slots for affinely independent demands and their convex weights.

    vectors: `(s, P)`, 0 in empty slots
    which: `(s,)`, the demand, flat
    used: `(s,)`
    weight: `(s,)`
    point: `(P,)`, their combination
    met: whether the point meets all demands
    zero: whether it is 0
    lost: whether rounding or the number of steps ended it
    """

    vectors: jax.Array
    which: jax.Array
    used: jax.Array
    weight: jax.Array
    point: jax.Array
    met: jax.Array
    zero: jax.Array
    lost: jax.Array
    steps: jax.Array


class _Faces(NamedTuple):
    """What is held so far.

    span: `(P, P)`, the projection on the span of what is held
    used, which, multiplier: `(s,)`, slots of demands that span it, 0 when combined
    live: `(n, q)`, the demands outside of it
    direction: `(P,)`
    """

    span: jax.Array
    used: jax.Array
    which: jax.Array
    multiplier: jax.Array
    live: jax.Array
    direction: jax.Array
    done: jax.Array
    proved: jax.Array


def decide(demands: Demands, start: jax.Array) -> Verdict:
    """Which demands are held, with proof.

    Args:
      demands: whose z and contrasts are finite.
      start: `(P,)`, a direction that may meet many.
    """
    n, q, m = demands.contrasts.shape
    p = demands.z.shape[1]
    size, dtype = m * p, demands.z.dtype
    norm = jnp.linalg.norm(demands.z, axis=1)[:, None]
    norm = norm * jnp.linalg.norm(demands.contrasts, axis=2)
    live = demands.live & (norm > 0)
    norm = jnp.where(live, norm, 1)

    def met(direction, live):
        """How far `direction` meets each demand, `(n q,)`; infinity for those that are not live."""
        u = dot(demands.z, direction.reshape(m, p).T)
        value = jnp.sum(demands.contrasts * u[:, None, :], axis=2) / norm
        return jnp.where(live, value, jnp.inf).reshape(-1)

    def vector(index):
        row, which = index // q, index % q
        whole = demands.contrasts[row, which][:, None] * demands.z[row][None, :]
        return whole.reshape(-1) / norm[row, which]

    def outside(span):
        """The length of each demand beyond the span, `(n, q)`."""
        rest = (jnp.eye(size, dtype=dtype) - span).reshape(size * m, p)

        def of_row(row):
            z, contrasts = row
            image = dot(rest, z).reshape(size, m)
            return jnp.linalg.norm(dot(contrasts, image.T), axis=1)

        rows = (demands.z, demands.contrasts)
        return jax.lax.map(of_row, rows, batch_size=min(n, ROWS_AT_ONCE)) / norm

    def face(faces: _Faces) -> _Faces:
        corral = _nearest(met, vector, faces, start)
        # A direction within what is left: nothing of it is felt by what is held.
        point = corral.point - dot(faces.span, corral.point)
        end = faces._replace(direction=point, done=jnp.bool_(True), proved=corral.met)
        more = _hold(faces, corral, vector, outside)
        return jax.tree.map(lambda a, b: jnp.where(corral.zero, a, b), more, end)

    # The start may do already.
    least = PROOF_ULPS * size * float(jnp.finfo(dtype).eps) * jnp.linalg.norm(start)
    done = (jnp.min(met(start, live)) > least) & jnp.any(start != 0)
    slots = 2 * size + 2
    faces = jax.lax.while_loop(
        lambda faces: ~faces.done,
        *_loops.steady(
            face,
            _Faces(
                span=jnp.zeros((size, size), dtype),
                used=jnp.zeros(slots, bool),
                which=jnp.zeros(slots, jnp.int32),
                multiplier=jnp.zeros(slots, dtype),
                live=live,
                direction=jnp.where(done, start, 0),
                done=done | ~jnp.any(live),
                proved=jnp.bool_(True),
            ),
        ),
    )
    at = jnp.where(faces.used, faces.which, n * q)
    multipliers = jnp.zeros(n * q + 1, dtype).at[at].add(faces.multiplier)[:-1].reshape(n, q)
    # Demands of length 0 ask for nothing, and nothing meets them.
    held = demands.live & ~faces.live
    return Verdict(faces.direction, held, multipliers / norm, faces.span, faces.proved)


def _nearest(met, vector, faces, start) -> _Corral:
    """The point nearest to 0 of the hull of the live demands less their part in the span.

    Or any that meets them all half as well as that one would if it were at its length.
    """
    size, dtype = start.size, start.dtype
    slots = size + 2
    eps = float(jnp.finfo(dtype).eps)
    rounding = PROOF_ULPS * size * eps
    # What has next to no part in a combination may have none.
    least_weight = eps ** (2 / 3)
    never = jnp.bool_(False)

    def entered(corral: _Corral, index) -> _Corral:
        a = vector(index)
        slot = jnp.argmin(corral.used)
        return corral._replace(
            vectors=corral.vectors.at[slot].set(a - dot(faces.span, a)),
            which=corral.which.at[slot].set(index),
            used=corral.used.at[slot].set(True),
        )

    def step(corral: _Corral) -> _Corral:
        target = _affine_minimum(corral)
        leaving = corral.used & ~(target > least_weight)
        inside = ~jnp.any(leaving)
        # Not inside: as far towards it as the weights allow, and what has none left leaves. What
        # rounding has kept without any leaves then, before anything moves.
        falls = corral.weight - target
        ratio = corral.weight / jnp.where(leaving & (falls > 0), falls, 1)
        share = jnp.min(jnp.where(leaving, ratio, jnp.inf))
        weight = corral.weight + jnp.where(inside, 1, share) * (target - corral.weight)
        used = corral.used & ~(leaving & (ratio <= share))
        weight = jnp.where(used, weight, 0)
        weight = weight / jnp.sum(weight)
        vectors = jnp.where(used[:, None], corral.vectors, 0)
        point = dot(weight, vectors)
        square = jnp.sum(point**2)
        value = met(point, faces.live)
        least = jnp.argmin(value).astype(jnp.int32)
        zero = inside & (square <= rounding**2)
        clear = value[least] > rounding * jnp.sqrt(square)
        enough = inside & ~zero & clear & (value[least] >= square / 2)
        enters = inside & ~zero & ~enough
        following = corral._replace(
            vectors=vectors,
            used=used,
            weight=weight,
            point=point,
            met=enough,
            zero=zero,
            # Full and still growing, or not finite: rounding.
            lost=(enters & jnp.all(used)) | ~(square >= 0) | (corral.steps > STEPS * slots),
            steps=corral.steps + 1,
        )
        grown = entered(following, least)
        return jax.tree.map(lambda a, b: jnp.where(enters, a, b), grown, following)

    empty = _Corral(
        vectors=jnp.zeros((slots, size), dtype),
        which=jnp.zeros(slots, jnp.int32),
        used=jnp.zeros(slots, bool),
        weight=jnp.zeros(slots, dtype),
        point=start,
        met=never,
        zero=never,
        lost=never,
        steps=jnp.int32(0),
    )
    first = jnp.argmin(met(start, faces.live)).astype(jnp.int32)
    return jax.lax.while_loop(
        lambda corral: ~(corral.met | corral.zero | corral.lost),
        *_loops.steady(step, entered(empty, first)),
    )


def _affine_minimum(corral: _Corral) -> jax.Array:
    """The weights, of sum 1, of the point nearest to 0 of the affine hull, `(s,)`."""
    dtype = corral.weight.dtype
    ones = corral.used.astype(dtype)
    raised = jnp.concatenate([corral.vectors, ones[:, None]], axis=1)
    factor = _linalg.factor(dot(raised, raised.T) + jnp.diag(1 - ones))
    weight = _linalg.solve(factor, ones)
    weight = weight / jnp.sum(weight)
    for _ in range(3):
        # Refined where the point should be 0; elsewhere that scales the weights.
        point = dot(weight, corral.vectors)
        weight = weight - _linalg.solve(factor, dot(corral.vectors, point))
        weight = weight / jnp.sum(weight)
    return weight


def _hold(faces: _Faces, corral: _Corral, vector, outside) -> _Faces:
    """What follows from a combination that is 0 less its part in the span."""
    size, dtype = corral.point.size, corral.weight.dtype
    eps = float(jnp.finfo(dtype).eps)
    table = jnp.where(faces.used[:, None], jax.vmap(vector)(faces.which), 0)
    whole = jnp.where(corral.used[:, None], jax.vmap(vector)(corral.which), 0)
    # What is left of it in the span is taken back by those that span it, all positive still.
    left = dot(corral.weight, whole)
    values, vectors = _linalg.eigh(dot(table.T, table))
    seen = values > eps ** (2 / 3) * jnp.max(values)
    inverse = jnp.where(seen, 1 / jnp.where(seen, values, 1), 0)

    def combined(target):
        return dot(table, dot(vectors, inverse * dot(vectors.T, target)))

    back = -combined(left)
    back = back - combined(left + dot(back, table))
    known = jnp.where(faces.used, faces.multiplier, 1)
    amount = 1 + jnp.max(jnp.where(faces.used, -back / known, 0), initial=0)
    old = jnp.where(faces.used, back + amount * faces.multiplier, 0)
    # The new ones go where there is room.
    slot = jnp.nonzero(~faces.used, size=corral.used.size, fill_value=faces.used.size)[0]
    slot = jnp.where(corral.used, slot, faces.used.size)
    multiplier = old.at[slot].set(corral.weight, mode="drop")
    total = jnp.sum(multiplier)
    residual = jnp.linalg.norm(left + dot(old, table)) / total
    # Affinely independent with 0 inside: their span has one dimension less than they are many.
    rank = jnp.sum(corral.used) - 1
    kept = _leading(corral.vectors, rank)
    span = faces.span + dot(kept, kept.T)
    length = outside(span)
    live = faces.live & (length > ZERO_ULPS * size * eps)
    unclear = faces.live & ~live & (length > HELD_ULPS * size * eps)
    proved = faces.proved & (residual <= PROOF_ULPS * size * eps) & ~jnp.any(unclear)
    return _Faces(
        span=span,
        used=faces.used.at[slot].set(True, mode="drop"),
        which=faces.which.at[slot].set(corral.which, mode="drop"),
        multiplier=multiplier / total,
        live=live,
        direction=jnp.zeros(size, dtype),
        done=~jnp.any(live) | ~proved,
        proved=proved,
    )


def _leading(vectors: jax.Array, rank: jax.Array) -> jax.Array:
    """Orthonormal columns that span `vectors (s, P)` of that rank, `(P, P)`, the others 0."""
    size = vectors.shape[1]
    values, basis = _linalg.eigh(dot(vectors.T, vectors))
    kept = jnp.arange(size) >= size - rank
    basis = jnp.where(kept[None, :], basis, 0)
    # The product's eigenvectors leave the span by eps over a squared singular value; what the
    # vectors themselves make of them leaves it by eps over that value.
    basis = dot(vectors.T, dot(vectors, basis)) / jnp.where(kept, values, 1)[None, :]
    return dot(basis, 3 * jnp.eye(size, dtype=basis.dtype) - dot(basis.T, basis)) / 2


class Seen(NamedTuple):
    """The rows as they are, and how a direction becomes scores of them.

    x: `(n, d)`
    flat: `(K (d + 1), P)`, of a direction the weights `(K, d)` and biases `(K,)`
    wanted: `(n, q, K)`, of each demand the scores that it adds, with 1 or -1
    used: `(P,)` bool, the coordinates in play
    """

    x: jax.Array
    flat: jax.Array
    wanted: jax.Array
    used: jax.Array


def is_exact(seen: Seen, demands: Demands, found: Verdict) -> jax.Array:
    """Whether what is held has no part outside of its span, but for the rounding of x itself.

    In twice the digits: a demand that rounding here has put there is in no span of this dimension,
    and some direction outside is felt by it, however that is corrected within the span.
    """
    outside = jnp.diag(seen.used.astype(demands.z.dtype)) - found.span

    def exactly(seen, demands, found, outside):
        return jnp.all(jax.lax.map(_corrected(seen, demands, found), outside.T))

    # Where all directions are held by some demands there is nothing to look at.
    needed = jnp.any(found.held) & (jnp.trace(outside) > 1 / 2)
    return _linalg.when(needed, exactly, jnp.bool_(True), (seen, demands, found, outside))


def _corrected(seen: Seen, demands: Demands, found: Verdict):
    """`direction -> ()`, whether nothing that is held feels it once it is corrected."""
    (n, d), k, dtype = seen.x.shape, seen.wanted.shape[2], seen.x.dtype
    eps = float(jnp.finfo(dtype).eps)
    whole = jnp.concatenate([seen.x, jnp.ones((n, 1), dtype)], axis=1)
    long = jnp.concatenate(PARTS * [whole], axis=1)
    norm = jnp.linalg.norm(demands.z, axis=1)[:, None]
    norm = norm * jnp.linalg.norm(demands.contrasts, axis=2)
    unit = jnp.where(found.held & (norm > 0), 1 / jnp.where(norm > 0, norm, 1), 0)
    held = demands.contrasts * unit[:, :, None]
    rest = jnp.eye(len(found.span), dtype=dtype) - found.span
    factor = _linalg.factor(_square(held, demands.z) + rest)
    ulps = EXACT_ULPS * _linalg.long_ulps(PARTS * (d + 1)) * eps**2

    def planes(params):
        return jnp.concatenate([params[: k * d].reshape(k, d), params[k * d :, None]], axis=1)

    def of_demands(scores):
        return jnp.sum(seen.wanted * scores[:, None, :], axis=2)

    def felt(parts):
        """What each demand feels of a direction in parts, `(n, q)`."""
        each = jnp.swapaxes(jax.vmap(planes)(parts), 0, 1).reshape(k, -1)
        products = jax.vmap(_linalg.long_products, in_axes=(None, 0, None), out_axes=1)
        total, lost = products(long, each, jnp.zeros((), dtype))
        return of_demands(total) + of_demands(lost)

    def step(i, carry):
        parts, _ = carry
        value = felt(parts)
        pull = jnp.sum((value * unit)[:, :, None] * held, axis=1)
        back = dot(found.span, _linalg.solve(factor, dot(pull.T, demands.z).reshape(-1)))
        return parts.at[i + 1].set(-dot(seen.flat, back), mode="drop"), value

    def of(direction):
        first = dot(seen.flat, direction)
        parts = jnp.zeros((PARTS, len(first)), dtype).at[0].set(first)
        nothing = jnp.zeros(found.held.shape, dtype)
        _, value = jax.lax.fori_loop(0, PARTS, step, (parts, nothing))
        rounding = eps * size(jnp.abs(seen.x), jnp.abs(planes(first))[:, :d])
        return jnp.all(~found.held | (jnp.abs(value) <= rounding + ulps * largest))

    def size(x, planes):
        return jnp.sum(jnp.abs(seen.wanted) * dot(x, planes.T)[:, None, :], axis=2)

    largest = size(jnp.abs(whole), planes(jnp.max(jnp.abs(seen.flat), axis=1)))
    return of


def _square(contrasts: jax.Array, z: jax.Array) -> jax.Array:
    """The sum of products of demands with themselves, `(P, P)`."""
    (n, _, m), p = contrasts.shape, z.shape[1]
    both = jnp.sum(contrasts[:, :, :, None] * contrasts[:, :, None, :], axis=1)
    left = both[:, :, None, :] * z[:, None, :, None]
    return dot(left.reshape(n, -1).T, z).reshape(m * p, m * p)

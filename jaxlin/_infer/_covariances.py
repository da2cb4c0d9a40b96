"""The covariance of an estimate: the inverse Hessian, and the sandwiches, of rows or of clusters.

Shapes: `n` examples, `P` params; in the frame of an estimate `q = m p` coordinates, in which the
Hessian of the mean loss is L L'. `G` clusters.
"""

import functools
import itertools

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _platform
from jaxlin._batch import _draws
from jaxlin._data import _fold
from jaxlin._infer import _estimate
from jaxlin._linalg import dot
from jaxlin._smooth import _frame

# Of matrices whose eigenvalues are in [sqrt(eps), 1]: the steps halve the root of the least, which
# is then 2^-13 in float64, and double its digits.
ROOT_STEPS = 20
# Entries of outer products of rows that are made at once.
OUTER_ENTRIES = 2**18


@functools.partial(_platform.jit, static_argnums=0)
def covariance(model, arguments):
    e = _estimate.at(model, arguments)
    half = _estimate.half_back(e)
    return _estimate.said(dot(half.T, half) / e.total, _estimate.proper(model, e) & e.of_form)


@functools.partial(_platform.jit, static_argnums=(0, 1, 2))
def sandwich(model, kind, num_clusters, arguments, ways):
    """`ways`: None, or int arrays `(n,)`, each of which deals the rows into clusters."""
    e = _estimate.at(model, arguments)
    half = _estimate.half_back(e)
    if ways is None:
        middle, ok = _of_rows(model, kind, e), jnp.bool_(True)
    else:
        middle, ok = _of_ways(model, kind, num_clusters, e, ways)
    free = jnp.sum(~_frame.inert(e.problem)).astype(half.dtype)
    if kind == "HC1":
        above = e.number if ways is None else e.number - 1
        middle = above / (e.number - free) * middle
    found = dot(half.T, dot(middle, half))
    proper = _estimate.proper(model, e) & e.of_form & ok
    return _estimate.said((found + found.T) / 2, proper)


def _of_rows(model, kind, e):
    """The sum of the squares of the rows' gradients `(q, q)`, where the Hessian is 1."""

    def squares(block):
        z, _, slope, curve = _estimate.whole(model, e, block)
        pull = block.weight[:, None] * slope
        if kind in ("HC2", "HC3"):
            lever = jnp.sum(_estimate.half_images(e, z) ** 2, axis=(1, 2))
            left = _estimate.known(1 - block.weight * curve[:, 0, 0] * lever)
            pull = pull / (jnp.sqrt(left) if kind == "HC2" else left)[:, None]
        each = _estimate.gradients(e, z, pull)
        return dot(each.T, each), ()

    square, _ = _fold.fold(squares, e.problem.rows)
    return _linalg.half_solve(e.factor, _linalg.half_solve(e.factor, square).T)


def _of_ways(model, kind, num_clusters, e, ways):
    """As `_of_rows`, of clusters; and whether there are no more than said.

    Of several ways: the sums over each, less those of the clusters in which two meet, and so on
    (Cameron, Gelbach and Miller 2011).
    """
    here = e.problem.rows.weight > 0
    n, first = len(here), jnp.argmax(here)
    # Rows without weight are of no cluster of their own.
    ways = [jnp.where(here, way, way[first]) for way in ways]
    each = _fold.map_rows(functools.partial(_images, model, kind, e), e.problem.rows)
    total, ok = 0, jnp.bool_(True)
    for size in range(1, len(ways) + 1):
        most = min(n, num_clusters**size)
        for chosen in itertools.combinations(ways, size):
            clusters = _draws.ranks(*chosen)
            ok &= jnp.all(clusters < most)
            total += (-1) ** (size + 1) * _of_clusters(kind, e, each, clusters, most)
    return total, ok


def _images(model, kind, e, block):
    """L^-1 of each row's gradient; with what its curvature is made of if that is asked for."""
    z, _, slope, curve = _estimate.whole(model, e, block)
    half = _estimate.half_images(e, z)
    pull = block.weight[:, None] * slope
    gradient = jnp.sum(half * pull[:, :, None], axis=1)
    if kind in ("HC0", "HC1"):
        return gradient
    bent = dot(block.weight[:, None, None] * curve, half)
    return jnp.concatenate([gradient[:, None], half, bent], axis=1)


def _of_clusters(kind, e, each, clusters, most):
    sums = functools.partial(jax.ops.segment_sum, segment_ids=clusters, num_segments=most)
    if kind in ("HC0", "HC1"):
        pulls = sums(each)
        sizes = sums((e.problem.rows.weight > 0).astype(pulls.dtype))
        groups = jnp.sum(sizes > 0).astype(pulls.dtype)
        factor = groups / (groups - 1) if kind == "HC1" else 1
        return factor * dot(pulls.T, pulls)
    m = each.shape[1] // 2
    pulls = sums(each[:, 0])
    # What of the Hessian is a cluster's own: its leverage, of eigenvalues from 0 to 1.
    own = _outer_sums(each[:, 1 : m + 1], each[:, m + 1 :], clusters, most)
    left = jnp.eye(own.shape[1], dtype=own.dtype)[None] - (own + jnp.swapaxes(own, 1, 2)) / 2
    factor, least = jax.vmap(_factored)(left)
    sound = jnp.isfinite(_estimate.known(least))
    if kind == "HC3":
        moved = jax.vmap(_linalg.solve)(factor, pulls)
    else:
        moved = dot(_inverse_roots(left), pulls[:, :, None])[:, :, 0]
    moved = jnp.where(sound[:, None], moved, jnp.nan)
    return dot(moved.T, moved)


def _factored(a):
    factor = _linalg.factor(a)
    return factor, _linalg.least_eigenvalue(factor)


def _inverse_roots(a):
    """a^-1/2 of each symmetric matrix (Denman and Beavers 1976): of derivatives of any order, where
    those of eigenvectors are none if eigenvalues are equal."""

    def step(_, pair):
        root, inverse = pair
        return (root + jnp.linalg.inv(inverse)) / 2, (inverse + jnp.linalg.inv(root)) / 2

    eye = jnp.broadcast_to(jnp.eye(a.shape[-1], dtype=a.dtype), a.shape)
    return jax.lax.fori_loop(0, ROOT_STEPS, step, (a, eye))[1]


def _outer_sums(left, right, clusters, most):
    """The sums over each cluster of left' right of its rows, `(rows, m, q)` both: `(G, q, q)`."""
    n, _, q = left.shape
    size = max(1, min(n, OUTER_ENTRIES // q**2))

    def step(total, start):
        # The last overlaps the one before.
        at = jnp.minimum(start, n - size)
        left_of, right_of, own = (
            jax.lax.dynamic_slice_in_dim(a, at, size) for a in (left, right, clusters)
        )
        new = at + jnp.arange(size, dtype=jnp.int32) >= start
        each = dot(jnp.swapaxes(left_of, 1, 2), right_of)
        return total.at[own].add(jnp.where(new[:, None, None], each, 0)), None

    start = jnp.zeros((most, q, q), left.dtype)
    return jax.lax.scan(step, start, jnp.arange(0, n, size, dtype=jnp.int32))[0]

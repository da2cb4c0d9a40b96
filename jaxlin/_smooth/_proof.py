"""What proves a smooth fit's optimum, or that it is at infinity; and its part of least norm.

If a direction existed along which J falls for ever, then at every point
decrement * max |r|_{H^-1} >= 1, decrement^2 = g' H^-1 g, over the rows r that it must not oppose:
(x_i, 1), and for k classes x_i (x) (e_y - e_c). So a product of at most 1/10 proves that there is
none. As no row's part of J rises along it, the same holds of the H and the r of some of the rows,
with the g of all: few of many rows may be proof enough. Where the Hessian is singular because the
*columns* are (checked on the data, not on the Hessian, whose tails vanish under separation too),
the proof is given on their range. Shapes as in `_passes`.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin import _linalg
from jaxlin._data import _fold, _rows
from jaxlin._linalg import dot
from jaxlin._smooth import _frame, _passes, _scoring
from jaxlin._smooth._frame import Problem
from jaxlin._smooth._passes import Point
from jaxlin._smooth._record import Spec

# Products of p terms are trusted beyond this many units of p * eps of their magnitude.
ROUNDING_ULPS = 16


class Proof(NamedTuple):
    """What the certificate needs: of the Hessian H on the range of the columns.

    root, decrement, sound: R with R'R = H^-1, sqrt(g' H^-1 g), and if they are more than rounding
    excess, noise: the part of theta that no row sees, and what leaving it adds to the noise
    deficient: whether there are directions that no row sees
    """

    root: jax.Array
    decrement: jax.Array
    sound: jax.Array
    excess: jax.Array
    noise: jax.Array
    deficient: jax.Array


def undamped(problem: Problem, point: Point, hess: jax.Array, *, least) -> Proof:
    """The proof by the Hessian's own factor, where a penalty leaves no direction unseen."""
    root, decrement, least_eigenvalue = _judged(hess, point)
    return Proof(
        root=root,
        decrement=decrement,
        sound=least_eigenvalue >= least,
        excess=jnp.zeros_like(point.theta),
        noise=jnp.zeros_like(point.noise),
        deficient=jnp.bool_(False),
    )


def on_range(problem: Problem, point: Point, hess: jax.Array, *, least) -> Proof:
    """The proof where the Hessian is nearly singular: curvature is lent to what no row sees."""
    (m, _), d = point.theta.shape, problem.centre.size
    null = null_space(problem)
    size = jnp.sum(null * null, axis=0)
    curvature = jnp.trace(hess) / hess.shape[0]
    lifted = null * jnp.sqrt(curvature / jnp.where(size > 0, size, 1))[None, :]
    lent = jnp.kron(jnp.eye(m, dtype=hess.dtype), dot(lifted, lifted.T))
    root, decrement, least_eigenvalue = _judged(hess + lent, point)
    excess = least_norm_excess(problem, point.theta, null)
    unit = jnp.where(problem.unit[:d] > 0, problem.unit[:d], 1)
    moved = jnp.linalg.norm(excess[:, :d] / unit[None, :])
    eps = jnp.finfo(hess.dtype).eps
    return Proof(
        root=root,
        decrement=decrement,
        sound=least_eigenvalue >= least,
        excess=excess,
        # What no row sees beyond rounding changes the scores by rounding.
        noise=ROUNDING_ULPS * d * eps * moved * point.curve,
        deficient=jnp.any(size > 0),
    )


def _judged(hess: jax.Array, point: Point) -> tuple[jax.Array, jax.Array, jax.Array]:
    """R with R'R = H^-1, the decrement, and a bound of the least eigenvalue."""
    whole = _linalg.factor(hess)
    root = _linalg.inverse_root(whole)
    decrement = jnp.linalg.norm(dot(root, point.grad.reshape(-1)))
    return root, decrement, _linalg.least_eigenvalue(whole, root)


def hidden(problem: Problem, point: Point, root: jax.Array) -> jax.Array:
    """What rounding may hide of the decrement: that of a gradient of the point's noise.

    Along a direction in which next to no curvature is left, rows that lie across it are all noise.
    """
    held = problem.unit > 0
    # What is known of a centred column is less of one that is off by its shift.
    size = jnp.where(held, 1 / jnp.where(held, problem.unit, 1) + jnp.abs(problem.shift), 0)
    square = jnp.sum(root.reshape(-1, *point.theta.shape) ** 2, axis=(0, 1))
    return point.noise * jnp.sqrt(jnp.sum(square * size**2))


def leverage_bound(problem: Problem, root: jax.Array) -> jax.Array:
    """A bound of the leverage without a pass: of a row that is largest in every column.

    |r|_{H^-1} is a norm, so no more than its columns' sum.
    """
    m, p = problem.used.size, problem.spread.size
    return _of_columns(problem, jnp.sum(root.reshape(m * p, m, p) ** 2, axis=(0, 1)))


def least_leverage(problem: Problem, whole: _linalg.Factor) -> jax.Array:
    """What `leverage_bound` cannot be less than: the same where H, of this factor, is diagonal."""
    return _of_columns(problem, jnp.sum(whole.scale.reshape(problem.used.size, -1) ** 2, axis=0))


def _of_columns(problem: Problem, square: jax.Array) -> jax.Array:
    """Of `square (p,)`, the columns' squared norms in H^-1, summed over the degrees of freedom."""
    # A contrast of scores has norm root 2.
    contrast = 1 if problem.basis is None else math.sqrt(2)
    return contrast * jnp.sum(problem.sizes[1] * jnp.sqrt(square))


def leverage(spec: Spec, problem: Problem, root: jax.Array) -> jax.Array:
    """max |r|_{H^-1} over the rows r of the data with weight, each with the column of ones."""
    m, p = problem.used.size, problem.spread.size
    # `(p, m, m p)`: what a column of a row contributes through each degree of freedom.
    parts = root.T.reshape(m, p, m * p) * problem.spread[None, :, None]
    parts = jnp.swapaxes(parts, 0, 1).reshape(p, -1)

    def maxima(block):
        image = dot(_frame.columns(problem, block), parts).reshape(-1, m, m * p)
        if problem.basis is not None:
            image = dot(_contrasts(spec, problem, block)[0], image)
        # A product, because a sum along rows is not made by vectors.
        square = jnp.max(dot(image**2, jnp.ones(m * p, image.dtype)), axis=1)
        return (), jnp.max(jnp.where(block.weight > 0, square, 0))

    _, largest = _fold.fold(maxima, problem.rows, _entries(m))
    return jnp.sqrt(largest)


def _entries(m: int) -> int:
    """Of x in a block, of which images and products are made m (m + 1) times as wide."""
    return _rows.BLOCK_ENTRIES // max(1, m * (m + 1) // 2)


def _contrasts(spec: Spec, problem: Problem, block: _rows.Rows):
    """The directions of u that each row's label wants, `(rows, q, m)`, and their Agreement."""
    m = problem.used.size
    each = jnp.broadcast_to(jnp.eye(m, dtype=problem.spread.dtype), (len(block.weight), m, m))
    found = _scoring.agreed(spec, problem, block, each)
    along = jnp.where(found.inert, 0, found.value)
    return jnp.swapaxes(along, 1, 2), jax.tree.map(lambda a: a[:, 0], found)


def recedes(
    spec: Spec, problem: Problem, point: Point, step: jax.Array, tail: jax.Array
) -> jax.Array:
    """Whether `step`, cleaned, is a direction along which J falls for ever, some rows on its plane.

    The rows whose score along it is within `tail` of the size of its terms are put on the
    plane: the direction is projected on their null space, and corrected by what they feel of it in
    twice the digits. They must then feel nothing of it, but for the rounding of x itself: rows that
    are only near one another are on no plane, and what looks like one may be a far optimum. No row
    may oppose the direction, and the rows on the plane must balance by themselves, to `tail` of
    their own pull: if they do not, they are still being separated.
    """
    m, p = step.shape
    free = problem.free[None, :] & problem.used[:, None]
    step = jnp.where(free, step, 0)
    eps = float(jnp.finfo(step.dtype).eps)
    first, second = np.triu_indices(m)

    def along(block):
        """Columns, squared lengths, contrasts, their Agreement; which count, which are near, each
        near one's part of the square, and how near that is.

        An entry of a direction is rounded with its largest, so a row of terms that are all rounding
        has the size of any other.
        """
        z = jnp.where(problem.free[None, :], _frame.columns(problem, block), 0)
        z = z * problem.spread[None, :]
        contrasts, found = _contrasts(spec, problem, block)
        u = jnp.sum(z[:, None, :] * step[None], axis=2)
        score = jnp.sum(contrasts * u[:, None, :], axis=2)
        size = jnp.sum(jnp.abs(z), axis=1) * jnp.max(jnp.abs(step))
        slack = tail * jnp.sum(jnp.abs(contrasts), axis=2) * size[:, None]
        live = ~found.inert & (block.weight > 0)[:, None]
        norm = jnp.sum(contrasts**2, axis=2)
        near = live & (jnp.abs(score) <= slack)
        share = jnp.where(near, 1 / jnp.where(norm > 0, norm, 1), 0)
        length = jnp.sum(z * z, axis=1)
        return z, jnp.where(length > 0, length, 1), contrasts, found, live, near, share, slack

    def on_plane(block):
        z, length, contrasts, found, _, near, share, _ = along(block)
        slope = _scoring.slopes(spec, problem, block, point.theta)
        pull = jnp.where(near, found.sign * slope, 0)
        pull = jnp.sum(pull[:, :, None] * contrasts, axis=1)
        square = dot(jnp.swapaxes(contrasts * share[:, :, None], 1, 2), contrasts)
        unit = z / jnp.sqrt(length)[:, None]
        weighted = unit[:, None, :] * square[:, first, second][:, :, None]
        sums = (
            dot(weighted.reshape(len(unit), -1).T, unit),
            dot(pull.T, z),
            dot(jnp.abs(pull).T, jnp.abs(z)),
        )
        return sums, jnp.max(near.astype(z.dtype))

    entries = _entries(m)
    (square, force, size), some = _fold.fold(on_plane, problem.rows, entries)
    square = _passes.whole(square.reshape(-1, p, p), m)
    held = jnp.where(free, 0, 1).astype(step.dtype).reshape(-1)
    values, vectors = _linalg.eigh(square + jnp.diag(held))
    small = values <= ROUNDING_ULPS * m * p * eps * jnp.max(values, initial=0)
    inverse = jnp.where(small, 0, 1 / jnp.where(small, 1, values))

    def through(values, thetas):
        """The params `(2, K, d + 1)` of a function of the near rows' square times the thetas."""
        moved = dot(dot(thetas.reshape(2, m * p), vectors) * values[None, :], vectors.T)
        leave = functools.partial(_frame.leave, problem, bias=spec.bias)
        planes = jax.vmap(leave)(moved.reshape(2, m, p))
        return jnp.concatenate([planes.weights, planes.bias[:, :, None]], axis=2)

    def opposed(planes, lost):
        """The moments of what near rows feel of params and what they lost, and any row's worst."""
        flat = planes.reshape(-1, planes.shape[2])

        def opposition(block):
            z, length, contrasts, found, live, near, share, slack = along(block)
            whole = jnp.concatenate([block.x, jnp.ones((len(z), 1), z.dtype)], axis=1)
            products = jax.vmap(_linalg.long_products, in_axes=(None, 0, 0), out_axes=1)
            scores, fine = products(block.x, flat[:, :-1], flat[:, -1])
            fine = fine + dot(whole, lost.reshape(flat.shape).T)
            scores, fine = (a.reshape(len(z), 2, -1) for a in (scores, fine))
            value = agreement(scores, block.y).value + agreement(fine, block.y).value
            felt = jnp.abs(value) - dot(jnp.abs(whole), rounded.T)[:, :, None]
            clear = slack / 2 - jnp.where(found.tight, -jnp.abs(value[:, 0]), value[:, 0])
            worst = jnp.where(near, jnp.max(felt, axis=1), clear)
            # What is not near may be far beyond the range.
            pull = jnp.where(near[:, None], value, 0) * share[:, None]
            pull = jnp.sum(pull[..., None] * contrasts[:, None], axis=2)
            moments = dot(pull.reshape(len(z), -1).T, z / length[:, None])
            return moments, jnp.max(jnp.where(live, worst, -jnp.inf))

        return _fold.fold(opposition, problem.rows, entries)

    agreement = jax.vmap(jax.vmap(spec.loss.agreement, in_axes=(0, None)))
    # Rows on a plane feel nothing of the step, nor of any other direction in their null space. Of
    # one that a few digits make, they might.
    other = jnp.cos(jnp.arange(m * p, dtype=step.dtype)).reshape(m, p)
    other = jnp.where(free, _linalg.largest(jnp.abs(step)) * other, 0)
    cleaned = through(small.astype(step.dtype), jnp.stack([step, other]))
    # The rounding of x, in any of the scores, and what twice the digits miss: in the sums, in the
    # correction, and in contrasts, which are of several scores.
    least = ROUNDING_ULPS * m * _linalg.long_ulps(p) * eps**2 * _linalg.largest(jnp.abs(step))
    missed = _frame.with_bias(_frame.unscaled(problem), jnp.sum(problem.sizes[0]), True)
    of_x = eps * jnp.max(jnp.abs(cleaned[:, :, :-1]), axis=1)
    rounded = jnp.pad(of_x, ((0, 0), (0, 1))) + (least * missed)[None, :]
    moments, _ = opposed(cleaned, jnp.zeros_like(cleaned))
    _, worst = opposed(*_linalg.exact_sum(cleaned, -through(inverse, moments)))
    balanced = _linalg.largest(jnp.abs(force)) <= tail * jnp.max(size, initial=0)
    return (worst <= 0) & balanced & (some > 0)


def null_space(problem: Problem) -> jax.Array:
    """Directions of theta that no row and no penalty sees, as columns `(p, d)`, the others 0.

    Small eigenvalues of X'X only nominate a direction, because X'X has the square of the data's
    condition. It is then cleaned of the other directions by a product with the data themselves,
    and kept if no row sees more of it than its own rounding.
    """
    d = problem.centre.size
    eps = jnp.finfo(problem.centre.dtype).eps
    unit, spread, shift = problem.unit[:d], problem.spread[:d], problem.shift[:d]
    held = jnp.where((spread > 0) & (problem.penalty[:d] == 0), 0, 1).astype(unit.dtype)

    def scatter(block):
        z = _frame.standard(problem, block)
        return dot((z * block.weight[:, None]).T, z), ()

    square, _ = _fold.fold(scatter, problem.rows)
    values, vectors = _linalg.eigh(square + jnp.diag(held))
    small = values <= ROUNDING_ULPS * d * eps * jnp.max(values, initial=0)
    null = jnp.where(small[None, :], vectors, 0)

    def seen(block):
        z = _frame.standard(problem, block)
        return dot((z * block.weight[:, None]).T, dot(z, null)), ()

    image, _ = _fold.fold(seen, problem.rows)
    inverse = jnp.where(small, 0, 1 / jnp.where(small, 1, values))
    cleaned = dot(vectors.T, image + held[:, None] * null)
    null = null - dot(vectors, inverse[:, None] * cleaned)

    def excess(block):
        z = _frame.standard(problem, block)
        raw = jnp.abs(block.x) * (problem.scale * spread * unit)[None, :]
        # Each entry of `null` is itself rounded with the largest of its column.
        size = jnp.sum(raw + jnp.abs(z), axis=1)[:, None]
        bound = ROUNDING_ULPS * d * eps * size * jnp.max(jnp.abs(null), axis=0, initial=0)[None, :]
        over = jnp.where((block.weight > 0)[:, None], jnp.abs(dot(z, null)) - bound, 0)
        return (), jnp.max(over, axis=0)

    _, over = _fold.fold(excess, problem.rows)
    null = jnp.where((small & (over <= 0))[None, :], null, 0) * unit[:, None]
    last = -dot(shift, null)[None, :]
    return jnp.concatenate([null, last]) if problem.spread.size > d else null


def least_norm_excess(problem: Problem, theta: jax.Array, null: jax.Array) -> jax.Array:
    """The part of theta whose weights, in the user's units, lie in the null space."""
    d = problem.centre.size
    factor = _frame.unscaled(problem)
    raw = null[:d] * factor[:, None]
    size = jnp.linalg.norm(raw, axis=0)
    size = jnp.where(size > 0, size, 1)
    raw = raw / size[None, :]
    gram = dot(raw.T, raw) + jnp.diag(jnp.where(jnp.any(raw != 0, axis=0), 0, 1).astype(raw.dtype))
    amount = _linalg.solve(_linalg.factor(gram), dot(theta[:, :d] * factor[None, :], raw).T)
    return dot(null, amount / size[:, None]).T

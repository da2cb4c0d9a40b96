"""Newton's method on the coefficients of the rows, its systems solved by conjugate gradients.

Where every penalty is positive theta = P^-1/2 A' alpha, P the penalties and A = Z P^-1/2 `(n, d)`:
the scores are u = K alpha + b, K = A A', and the gradient of J in P^1/2 theta is A' (alpha + r), r
the weighted slopes of the rows' losses in their scores (Chapelle 2007, "Training a support vector
machine in the primal"). In these coordinates the Hessian is I + A' W A, so that a product with it
is one with K, whatever the features; as many of them as a step takes are quicker than a factor, in
many lanes of few rows above all. Shapes as in `_passes`; u, alpha and r are `(m, n)`, rows last as
vectors want them.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlin._base import _loops
from jaxlin._linalg import dot
from jaxlin._smooth import _frame, _iterate, _record, _scoring
from jaxlin._smooth._frame import Problem
from jaxlin._smooth._newton import CERTIFICATE, where
from jaxlin._smooth._record import Spec

# Of the first step, to start from: few rows are easily separated, by scores to which each step
# would add about 1.
MULTIPLES = tuple(2**i for i in range(7))
# What a step leaves of the gradient's square: this, or as much as there is of that.
GOAL = 0.01
MOST_PRODUCTS = 500
HALVINGS = 20


class Point(NamedTuple):
    """J at alpha and b.

    bias: `(m,)`, 0 if there is none
    kept: `(K, n)`, what the curvature of the rows is made of
    off: alpha + r; image: K off
    balance: `(m,)`, the gradient in b
    residual: `()`, a bound of it
    """

    alpha: jax.Array
    bias: jax.Array
    u: jax.Array
    value: jax.Array
    kept: jax.Array
    off: jax.Array
    image: jax.Array
    balance: jax.Array
    residual: jax.Array


class Step(NamedTuple):
    """A step of alpha, b and u; and of the point that it starts from, what its curvature says.

    decrement: `()`, how fast J falls along it
    near: `()`, whether the optimum's scores are proved to be near
    """

    alpha: jax.Array
    bias: jax.Array
    u: jax.Array
    decrement: jax.Array
    near: jax.Array


class _Run(NamedTuple):
    """What a run is of.

    share: `()`, the square of b's unit
    sizes: `(2,)`, the bound of the residual by the norm of the gradient, and by that in b
    tol: `()`, the residual that is asked for
    """

    spec: Spec
    problem: Problem
    kernel: jax.Array
    share: jax.Array
    sizes: jax.Array
    tol: jax.Array


def begin(spec: Spec, problem: Problem, kernel: jax.Array, tol: jax.Array) -> _Run:
    """A run over the rows of the problem, whose K is `kernel (n, n)`."""
    mean = jnp.trace(kernel) / kernel.shape[0] ** 2
    unit = problem.unit * jnp.where(problem.spread > 0, 1, 0)
    sizes = jnp.stack(
        [
            jnp.max(unit * jnp.sqrt(problem.penalty)),
            1 + jnp.max(jnp.abs(problem.shift) * unit),
        ]
    )
    return _Run(spec, problem, kernel, mean if spec.bias else jnp.zeros_like(mean), sizes, tol)


def descend(run: _Run, cap: jax.Array) -> tuple[Point, jax.Array, jax.Array, jax.Array]:
    """From 0 to a residual of at most `tol` and a proof, or until J falls no more.

    If it is to be `polished`, a step past that.

    Returns:
      The point, the steps, the trials, and whether the point before is proved to be near.
    """
    origin = look(run, *_nothing(run))
    point, steps = _along_the_first_step(run, origin, cap)

    def advance(carry):
        before, steps, trials, *_ = carry
        step = direction(run, before)
        point, taken, more = search(run, before, step, cap - trials)
        # From a point that is near a step that is taken leads nearer.
        last = before if run.spec.polished else point
        done = (last.residual <= run.tol) & step.near
        return point, steps + taken.astype(jnp.int32), trials + more, step.near, done | ~taken

    def unfinished(carry):
        point, _, trials, _, done = carry
        return ~done & (trials < cap) & jnp.isfinite(point.value)

    never = jnp.bool_(False)
    init = point, steps, steps, never, never
    point, steps, trials, near, _ = jax.lax.while_loop(unfinished, *_loops.steady(advance, init))
    return point, steps, trials, near


def look(run: _Run, alpha: jax.Array, bias: jax.Array, u: jax.Array) -> Point:
    """J at alpha, b and their scores."""
    spec, problem, rows = run.spec, run.problem, run.problem.rows
    scores = _scoring.in_front(problem, rows, _frame.of_basis(problem, u))
    # In rows without weight they could overflow.
    scores = jnp.where((rows.weight > 0)[None, :], scores, 0)
    value, slope, kept = _record.bend_of(spec.loss).sides(scores, rows.y)
    slope = _in_basis(problem, rows.weight[None, :] * slope)
    off = alpha + slope
    image = dot(off, run.kernel)
    balance = jnp.sum(slope, axis=1) if spec.bias else jnp.zeros_like(bias)
    norms = jnp.stack([jnp.sum(off * image), jnp.sum(balance**2)])
    return Point(
        alpha=alpha,
        bias=bias,
        u=u,
        value=dot(rows.weight, value) + jnp.sum(alpha * (u - bias[:, None])) / 2,
        kept=kept,
        off=off,
        image=image,
        balance=balance,
        residual=jnp.sum(run.sizes * jnp.sqrt(jnp.maximum(norms, 0))),
    )


def _in_basis(problem: Problem, a: jax.Array) -> jax.Array:
    """As `_frame.in_basis`, of `(K, ...)` to `(m, ...)`."""
    return a if problem.basis is None else dot(problem.basis.T, a)


def moved(run: _Run, point: Point, step: Step, length: jax.Array | float) -> Point:
    """J at the point and so much of the step."""
    return look(run, *(a + length * b for a, b in zip(point[:3], step[:3], strict=True)))


def _nothing(run: _Run) -> tuple[jax.Array, jax.Array, jax.Array]:
    zero = jnp.zeros((run.problem.used.size, run.kernel.shape[0]), run.kernel.dtype)
    return zero, zero[:, 0], zero


def _along_the_first_step(run: _Run, origin: Point, cap: jax.Array) -> tuple[Point, jax.Array]:
    """The best of some multiples of it, and the steps: 1, or 0 where none is better than 0."""
    step = direction(run, origin)
    multiples = jnp.asarray(MULTIPLES, run.kernel.dtype)
    values = jax.vmap(lambda length: moved(run, origin, step, length).value)(multiples)
    values = jnp.where(jnp.isfinite(values), values, jnp.inf)
    better = (jnp.min(values) < origin.value) & (cap > 0)
    first = moved(run, origin, step, multiples[jnp.argmin(values)])
    return where(better, first, origin), better.astype(jnp.int32)


def direction(run: _Run, point: Point) -> Step:
    """About Newton's step, by conjugate gradients in P^1/2 theta and b in its unit."""
    spec, problem, kernel, share, sizes, tol = run
    curve, least = _curvature(spec, problem, point.kept)

    def square(left, image, left_bias):
        return jnp.sum(left * image) + share * jnp.sum(left_bias**2)

    size = square(point.off, point.image, point.balance)
    goal = jnp.minimum(GOAL, size) * size
    leverage, reach = _leverage(run, least)
    if not spec.polished:
        # No more than what is asked for.
        steep = 1 + reach / jnp.sqrt(share) if spec.bias else 1.0
        near = CERTIFICATE / (2 * steep * leverage)
        goal = jnp.maximum(goal, jnp.minimum(tol / (8 * sizes[0]), near) ** 2)

    def advance(carry):
        (alpha, bias, u), (along, along_bias, image), (left, left_bias), size, i = carry
        scores = image + along_bias[:, None]
        # Written once: each sum of it would make it anew, number by number.
        bent = jax.lax.optimization_barrier(jnp.sum(curve * scores[None, :, :], axis=1))
        bend = jnp.sum(along * image) + jnp.sum(scores * bent)
        ahead = size / jnp.where(bend > 0, bend, 1)
        step = alpha + ahead * along, bias + ahead * along_bias, u + ahead * scores
        left = left - ahead * (along + bent)
        if spec.bias:
            left_bias = left_bias - ahead * dot(bent, jnp.ones(bent.shape[1], bent.dtype))
        ready = dot(left, kernel)
        following = square(left, ready, left_bias)
        more = following / size
        turned = (
            left + more * along,
            share * left_bias + more * along_bias,
            ready + more * image,
        )
        return step, turned, (left, left_bias), following, i + 1

    def unfinished(carry):
        *_, size, i = carry
        return (size > goal) & (i < MOST_PRODUCTS)

    left = -point.off, -point.balance
    along = left[0], share * left[1], -point.image
    init = _nothing(run), along, left, size, jnp.int32(0)
    found, _, (left, left_bias), *_ = jax.lax.while_loop(unfinished, *_loops.steady(advance, init))
    # What K hardly sees of alpha + r is no error, but hides one by its rounding. A step by all that
    # is left of the equations ends it, where it is good for the rest too.
    ready = dot(left, kernel)
    bent = jnp.sum(curve * ready[None, :, :], axis=1)
    other = left_bias - jnp.sum(bent, axis=1) if spec.bias else left_bias
    clear = square(bent, dot(bent, kernel), other) <= GOAL * size
    alpha, bias, u = where(clear, (found[0] + left, found[1], found[2] + ready), found)
    slope = -jnp.sum(point.off * (u - bias[:, None])) - jnp.sum(point.balance * bias)
    near = _decrement(run, point, reach) * leverage <= CERTIFICATE
    near |= point.residual == 0
    return Step(alpha, bias, u, decrement=slope, near=near)


def _curvature(spec: Spec, problem: Problem, kept: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The rows' weighted second derivatives in u `(m, m, n)`, and the least of each row's `(n,)`.

    That of softmax, among scores that sum to zero, is at least its least diagonal entry.
    """
    bend, weight = _record.bend_of(spec.loss), problem.rows.weight[None, :]
    diagonal = weight * bend.diagonal(kept)
    if problem.basis is None:
        return diagonal[None], diagonal[0]
    present = jnp.any(problem.basis != 0, axis=1)
    least = jnp.min(jnp.where(present[:, None], diagonal, jnp.inf), axis=0)
    moved = jnp.broadcast_to(problem.basis[:, :, None], (*problem.basis.shape, kept.shape[1]))
    curved = weight[None] * jax.vmap(bend.product, in_axes=(None, 1), out_axes=1)(kept, moved)
    m = problem.used.size
    return _in_basis(problem, curved.reshape(len(kept), -1)).reshape(m, m, -1), least


def _leverage(run: _Run, least: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A bound of |r|_{H^-1} over the rows r of the data, see `_proof`; and see `_decrement`.

    The Hessian is at least I for the weights, and w r r' for any row r, w its curvature `least`. So
    without a bias this is no more than |a|, a the row of A in r. With one, that of a row is no more
    than w^-1/2, and that of another no more than the distance to it beyond that.
    """
    square = jnp.diagonal(run.kernel)
    if not run.spec.bias:
        return math.sqrt(2) * jnp.sqrt(jnp.max(square)), jnp.zeros_like(run.share)
    best = jnp.argmax(least)
    own = jax.lax.rsqrt(least[best])
    apart = jnp.sqrt(jnp.maximum(jnp.max(square + square[best] - 2 * run.kernel[best]), 0))
    return math.sqrt(2) * (own + apart), own + jnp.sqrt(square[best])


def _decrement(run: _Run, point: Point, reach: jax.Array) -> jax.Array:
    """A bound of |g|_{H^-1}, by the Hessian that `_leverage` takes.

    Without a bias |A' off|; with one no more than that and `reach`, |a| + w^-1/2, times |g_b|.
    """
    rounding = 4 * float(jnp.finfo(reach.dtype).eps) * jnp.trace(run.kernel)
    square = jnp.maximum(jnp.sum(point.off * point.image), 0) + rounding * jnp.sum(point.off**2)
    return jnp.sqrt(square) + reach * jnp.sqrt(jnp.sum(point.balance**2))


def search(
    run: _Run, point: Point, step: Step, most: jax.Array
) -> tuple[Point, jax.Array, jax.Array]:
    """The first of the step, its half and so on that is good, whether one is, and the trials."""

    def advance(carry):
        _, length, _, _, trials = carry
        trial = moved(run, point, step, length)
        verdict = _iterate.judge(
            (point.value, point.residual),
            (trial.value, trial.residual),
            length * (1 - length / 2) * step.decrement,
            length,
        )
        done = verdict.accept | verdict.stalled
        return trial, length / 2, verdict.accept, done, trials + 1

    def unfinished(carry):
        _, length, _, done, trials = carry
        return ~done & (length > 2.0**-HALVINGS) & (trials < most)

    never = jnp.bool_(False)
    init = point, jnp.ones_like(point.value), never, never, jnp.int32(0)
    trial, _, found, _, trials = jax.lax.while_loop(unfinished, *_loops.steady(advance, init))
    return where(found, trial, point), found, trials

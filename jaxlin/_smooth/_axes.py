"""Many smooth fits over one x: L-BFGS in all lanes at once, in the principal axes of x.

In these axes the Hessian of nearly every lane is about a diagonal, curvature * variance + penalty,
whose inverse is the first of L-BFGS (Nocedal and Wright 2006, "Numerical optimization", section
7.2). So some ten steps serve whatever the condition. A step is two products of x with a matrix of
all lanes, O(n d) for each; Newton's method takes O(n d^2).

A lane ends where its residual passes and the steps' own decrement is small. That there is an
optimum a penalty on every weight proves. Shapes as in `_passes`, `L` lanes before them.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _traced
from jaxlin._data import _fold, _rows
from jaxlin._linalg import dot
from jaxlin._smooth import _frame, _light, _matrix_free, _passes, _record, _scoring
from jaxlin._smooth._frame import Problem
from jaxlin._smooth._newton import Outcome
from jaxlin._smooth._record import Spec

# Steps that L-BFGS knows, and turns after which a lane is left to Newton's method: with a Hessian,
# which then takes a few steps; by conjugate gradients, which at 10,000 x 1,024, 100 classes, took
# 25 s where 50 turns more took one; or to a program that is not lean.
MEMORY, TURNS = 10, {True: 60, False: 400}
# The mean curvature on the way to the optimum, of that at 0.
CURVED = 0.8
# The decrement, by the bytes of a number, at which a lane ends: so that small weights too have nine
# digits, or all that float32 has. It is of J's own root, which is small where classes are all but
# separated.
DECREMENT = {4: 1e-4, 8: 1e-11}
# The residual, of its bound, at which a lane ends: the last step may raise it a little.
MARGIN = 0.25
# Of the fall that a slope promises what is asked, and units of rounding that hide one.
DECREASE, NOISE_ULPS = 0.1, 4
# A refused step is tried again this much shorter, down to this length.
SHORTER, SHORTEST = 0.3, 1e-3
# Turns in a row, of next to no decrement, in which the residual does not fall: the dtype's floor.
PATIENCE = 8
# Of x in a block: for products with many lanes large, and small for those with few.
ENTRIES = 500_000
# What of rows is the same for all lanes of one x, in memory and of a stream.
SHARED = "x", "ok", "feature_mask", "first"


class Shared(NamedTuple):
    """What is the same for all lanes of a Problem, which has None in its place."""

    rows: Any
    centre: jax.Array
    scale: jax.Array


class Held(NamedTuple):
    """What stays as it is while lanes move.

    problem, tol, penalty, live: of the lanes; see `_penalty` and `_live`
    axes: `(p, p)`, as columns
    inverse: `(L, 1, p)`, about that of the Hessian in these
    """

    shared: Shared
    problem: Problem
    tol: jax.Array
    penalty: jax.Array
    live: jax.Array
    axes: jax.Array
    inverse: jax.Array


class Run(NamedTuple):
    """Where all lanes are, `L` before every shape, after so many turns, of which the first begins.

    v: `(m, p)`, theta as the columns see it
    value, residual: `()`; grad: `(m, p)`, in v
    step: `(m, p)`, to be tried next, by its `length ()`
    moves, changes: `(MEMORY, L, m, p)` of v and of grad, by turns; weight: `(MEMORY, L)`, 1 over
      their inner product, or 0 where there is no pair
    stretch: `()`, of the first inverse
    idle: turns in a row in which nothing has fallen
    near: whether the residual has passed and J has no more to fall
    """

    turn: jax.Array
    v: jax.Array
    value: jax.Array
    grad: jax.Array
    residual: jax.Array
    step: jax.Array
    length: jax.Array
    moves: jax.Array
    changes: jax.Array
    weight: jax.Array
    stretch: jax.Array
    steps: jax.Array
    idle: jax.Array
    near: jax.Array
    done: jax.Array


def apart(problem: Problem) -> tuple[Shared, Problem]:
    """What lanes of one x share, and what is each one's own."""
    rows: Any = problem.rows
    nothing: Any = None
    ours = [name for name in rows._fields if name in SHARED]
    own = [name for name in rows._fields if name not in (*SHARED, "axis")]
    # Whether a row is ok is asked of x again, for all lanes.
    asked = {"ok": nothing} if "ok" in ours else {}
    shared = Shared(rows._replace(**dict.fromkeys(own), **asked), problem.centre, problem.scale)
    bare = rows._replace(**dict.fromkeys(ours))
    return shared, problem._replace(rows=bare, centre=nothing, scale=nothing)


def joined(shared: Shared, own: Problem) -> Problem:
    rows: Any = own.rows
    known = {name: a for name, a in shared.rows._asdict().items() if name in SHARED}
    rows = rows._replace(**known)
    return own._replace(rows=rows, centre=shared.centre, scale=shared.scale)


def principal(shared: Shared, p: int) -> tuple[jax.Array, jax.Array]:
    """Variances `(p,)`, and axes `(p, p)` as columns, of columns of unit variance, rows weighted.

    The bias is that of centred columns, and an axis of its own.
    """
    d, dtype = shared.centre.size, shared.centre.dtype

    def sums(block):
        z = (block.x - shared.centre[None, :]) * shared.scale[None, :]
        return (dot((block.weight[:, None] * z).T, z), dot(block.weight, z)), ()

    (square, mean), _ = _fold.fold(sums, shared.rows, ENTRIES)
    mean = mean if p > d else jnp.zeros(d, dtype)
    square = square - mean[:, None] * mean[None, :]
    diagonal = jnp.diagonal(square)
    scale = jax.lax.rsqrt(jnp.where(diagonal > 0, diagonal, 1))
    values, axes = _linalg.eigh(square * scale[:, None] * scale[None, :])
    axes = scale[:, None] * axes
    whole = jnp.eye(p, dtype=dtype).at[:d, :d].set(axes)
    if p > d:
        whole = whole.at[d, :d].set(-dot(mean, axes))
    return _frame.with_bias(jnp.maximum(values, 0), 1, p > d), whole


def lane_bytes(shape: tuple[int, int], m: int, k: int, dtype: Any) -> int:
    """What a lane holds of x of this shape: scores and slopes of a block, and steps."""
    n, p = shape
    size = min(n, 2 * _rows.block_rows(p, ENTRIES))  # at once, of x that is not twice a block
    return jnp.dtype(dtype).itemsize * (6 * k * size + 3 * MEMORY * m * p)


def are_coercive(shared: Shared, problem: Problem) -> jax.Array:
    """Of which lanes a penalty on every weight proves an optimum."""
    return jax.vmap(lambda own: _matrix_free.is_coercive(joined(shared, own)))(problem)


def judged(
    spec: Spec, shared: Shared, problem: Problem, tol: jax.Array, run: Run
) -> tuple[Outcome, jax.Array]:
    """What a pass of its own says of where the lanes are, and which are left."""
    spread = problem.spread[:, None, :]
    # The step that would come next is known, and a digit more; the pass below is of where it leads.
    v = run.v + jnp.where(run.near[:, None, None], run.step, 0)
    theta = jnp.where(spread > 0, v / jnp.where(spread > 0, spread, 1), 0)
    point = jax.vmap(lambda own, at: _light.light(spec, joined(shared, own), at))(problem, theta)
    coercive = are_coercive(shared, problem)
    separated, never = point.short == 0, jnp.zeros(len(theta), bool)
    outcome = Outcome(
        point=point,
        steps=run.steps,
        trials=run.steps,
        certified=coercive & run.near,
        deficient=never,
        separated=separated,
        quasi=never,
        unsettled=never,
    )
    passed = outcome.certified & (jnp.maximum(point.residual, point.noise) <= tol)
    return outcome, ~(separated | passed) & jnp.any(problem.used, axis=1)


@_traced.once("spec", "turns")
def descended(spec: Spec, turns: int, held: Held, start: jax.Array) -> Run:
    """The steps, in all lanes until each is done."""
    unfinished = functools.partial(is_unfinished, turns)
    return jax.lax.while_loop(
        unfinished, functools.partial(advance, spec, held), begin(held, start)
    )


def is_unfinished(turns: int, run: Run) -> jax.Array:
    return (run.turn <= turns) & ~jnp.all(run.done)


def begin(held: Held, start: jax.Array) -> Run:
    """Lanes that come to `start (L, m, p)` by their first step, from an infinite J."""
    (count, m, p), dtype = start.shape, start.dtype
    none, pairs = jnp.zeros_like(start), jnp.zeros((MEMORY, count, m, p), dtype)
    one, never = jnp.ones(count, dtype), jnp.zeros(count, bool)
    return Run(
        turn=jnp.int32(0),
        v=start * held.problem.spread[:, None, :],
        value=jnp.inf * one,
        grad=none,
        residual=jnp.inf * one,
        step=none,
        length=one,
        moves=pairs,
        changes=pairs,
        weight=pairs[:, :, 0, 0],
        stretch=one,
        steps=never.astype(jnp.int32),
        idle=never.astype(jnp.int32),
        near=never,
        done=never,
    )


def advance(spec: Spec, held: Held, run: Run) -> Run:
    """Try the step of each lane, and find the next."""
    dtype = run.v.dtype
    eps = float(jnp.finfo(dtype).eps)
    v = run.v + run.length[:, None, None] * run.step
    value, grad, residual = _evaluated(spec, held, v)
    expected = -_inner(run.grad, run.step) * run.length
    # Within rounding a fall is told by the slope (Hager and Zhang 2005, "A new conjugate gradient
    # method with guaranteed descent and an efficient line search", section 3).
    slope = _inner(grad, run.step) * run.length
    noise = NOISE_ULPS * eps * jnp.abs(run.value)
    fell = value <= run.value - DECREASE * expected
    level = (value <= run.value + noise) & (slope <= (1 - 2 * DECREASE) * expected)
    accept = (fell | level) & jnp.isfinite(residual) & ~run.done
    move, change = v - run.v, grad - run.grad
    along, image = _inner(move, change), _inner(change, _first_inverse(held, change))
    pair = accept & (along > eps * expected) & (image > 0)
    at = run.turn % MEMORY
    moves, changes = run.moves.at[at].set(move), run.changes.at[at].set(change)
    weight = run.weight.at[at].set(jnp.where(pair, 1 / jnp.where(pair, along, 1), 0))
    stretch = jnp.where(pair, along / jnp.where(pair, image, 1), run.stretch)

    def taken(new, old):
        return jnp.where(accept.reshape(-1, *[1] * (new.ndim - 1)), new, old)

    grad = taken(grad, run.grad)
    step = taken(_direction(held, grad, (moves, changes, weight, stretch), run.turn), run.step)
    length = jnp.where(accept, 1, SHORTER * run.length)
    value = taken(value, run.value)
    least = DECREMENT[dtype.itemsize] ** 2 * jnp.minimum(1, value)
    small, fallen = -_inner(grad, step) <= least, residual < run.residual
    idle = jnp.where(small & ~fallen, run.idle + 1, 0)
    residual = taken(residual, run.residual)
    near = jnp.where(run.done, run.near, small & (residual <= MARGIN * held.tol))
    stuck = (idle >= PATIENCE) | (length < SHORTEST) | ~jnp.isfinite(value)
    return Run(
        turn=run.turn + 1,
        v=taken(v, run.v),
        value=value,
        grad=grad,
        residual=residual,
        step=step,
        length=length,
        moves=moves,
        changes=changes,
        weight=weight,
        stretch=stretch,
        steps=run.steps + (accept & (run.turn > 0)).astype(jnp.int32),
        idle=idle,
        near=near,
        done=run.done | near | stuck | (residual == 0),
    )


def _evaluated(spec: Spec, held: Held, v: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """J `(L,)` at v, its gradient in v `(L, m, p)`, and the residual `(L,)`, in one pass."""
    bend = _record.bend_of(spec.loss)

    def of_lane(own, v, penalty, live):
        problem = joined(held.shared, own)

        def sums(block):
            z, seen = _frame.columns(problem, block), (block.weight > 0)[None, :]
            scores = dot(_frame.of_basis(problem, v), z.T)
            scores = jnp.where(seen, _scoring.in_front(problem, block, scores), 0)
            value, slope, _ = bend.sides(scores, block.y)
            pull = block.weight[None, :] * slope
            return (_linalg.inner(block.weight, value), dot(pull, z)), ()

        (value, columns), _ = _fold.fold(sums, problem.rows, ENTRIES)
        grad = jnp.where(live, _frame.in_basis(problem, columns.T).T + penalty * v, 0)
        residual = _passes.residual(problem, grad * problem.spread[None, :])
        return value + jnp.sum(penalty * v**2) / 2, grad, residual

    return jax.vmap(of_lane)(held.problem, v, held.penalty, held.live)


def hold(spec: Spec, shared: Shared, found, problem: Problem, tol: jax.Array) -> Held:
    """What stays, of lanes whose x has the `principal` axes found."""
    (values, axes), penalty = found, _penalty(problem)

    def curve_of(own):
        return _light.curve_at_origin(spec, joined(shared, own))

    curve = CURVED * jax.vmap(curve_of)(problem)[:, None, None]
    about = curve * values[None, None, :] + dot(penalty[:, 0], axes**2)[:, None, :]
    least = float(jnp.finfo(values.dtype).eps) * values.size * curve * jnp.max(values)
    inverse = 1 / jnp.maximum(about, least)
    return Held(shared, problem, tol, penalty, _live(problem), axes, inverse)


def _first_inverse(held: Held, grad: jax.Array) -> jax.Array:
    """About the product of `grad (L, m, p)` with the inverse Hessian on the way to the optimum."""
    flat = grad.reshape(-1, grad.shape[2])
    turned = (dot(flat, held.axes).reshape(grad.shape) * held.inverse).reshape(flat.shape)
    return jnp.where(held.live, dot(turned, held.axes.T).reshape(grad.shape), 0)


def _live(problem: Problem) -> jax.Array:
    """The coordinates in play, `(L, m, p)`.

    Of a column that is of one value in a lane's rows the weight is 0. Its penalty, beside the
    variance that it has in the rows of others, would be felt in all axes.
    """
    return (problem.unit > 0)[:, None, :] & problem.used[:, :, None]


def _penalty(problem: Problem) -> jax.Array:
    """Of v, `(L, 1, p)`."""
    seen = problem.unit > 0
    square = jnp.where(seen, problem.spread, 1) ** 2
    return jnp.where(seen, problem.penalty / square, 0)[:, None, :]


def _inner(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.sum(a * b, axis=(-2, -1))


def _direction(held: Held, grad: jax.Array, known, turn: jax.Array) -> jax.Array:
    """- (inverse Hessian) grad, from the pairs of the last turns: two loops over them."""
    moves, changes, weight, stretch = known
    turns = jnp.int32(0), jnp.int32(MEMORY)

    def back(i, carry):
        q, parts = carry
        at = (turn - i) % MEMORY
        part = weight[at] * _inner(moves[at], q)
        return q - part[:, None, None] * changes[at], parts.at[at].set(part)

    q, parts = jax.lax.fori_loop(*turns, back, (grad, jnp.zeros_like(weight)))
    q = stretch[:, None, None] * _first_inverse(held, q)

    def forth(i, q):
        at = (turn + 1 + i) % MEMORY
        part = parts[at] - weight[at] * _inner(changes[at], q)
        return q + part[:, None, None] * moves[at]

    return -jax.lax.fori_loop(*turns, forth, q)

"""What a plane of large margin proves: the duality gap of a plane and of dual variables.

Over rows A_i = t_i (x_i, 1) of weight c_i, margins m = A theta and P the penalties, planes minimise
sum_i c_i loss(m_i) + 1/2 theta' P theta, where the loss of a soft margin is the hinge
xi = max(0, 1 - m) or its square; a hard margin allows no xi. The duals are 0 <= a, for the hinge
a <= 1, with sum c a t = 0 if there is a bias. Any theta bounds the optimum from above and any
feasible a from below; the difference is summed from terms that cannot be negative, so nothing
cancels.

Shapes: `n` rows, `p` coordinates of theta, in the frame of `_frame` with one score.
"""

import enum
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._base import _mesh
from jaxlin._data import _fold
from jaxlin._linalg import dot
from jaxlin._smooth import _frame, _passes
from jaxlin._smooth._frame import Problem
from jaxlin.types import Linear

# Of x in a block, of which the square is made.
SQUARE_ENTRIES = 2**19
# Units of p * eps of the largest row below which the hulls of two classes touch.
TOUCH_ULPS = 8.0
# Units of eps that the hinge's plane is tried to be longer by in float32: short of a margin of 1
# rounding costs more than beyond it.
LONGER_ULPS = (0.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


class Kind(enum.Enum):
    """What a margin below 1 costs: itself, its square, or more than anything."""

    HINGE = enum.auto()
    SQUARED = enum.auto()
    HARD = enum.auto()


class Bound(NamedTuple):
    """What a pair of theta and a feasible a proves.

    theta: `(p,)`, the pair's, of a hard margin scaled to margins of at least 1
    dual: `(n,)`, the feasible a; of a hard margin scaled to sum c a = 1
    gap: `()`, primal less dual, relative to the primal; infinite if theta separates nothing
    primal: `()`
    low, high: `()`, of a hard margin: least margin over the norm of the weights, and the distance
      that the duals prove it cannot exceed
    apart: `()`, of a hard margin: that distance as the columns of the frame measure it, whatever
      their units
    """

    theta: jax.Array
    dual: jax.Array
    gap: jax.Array
    primal: jax.Array
    low: jax.Array
    high: jax.Array
    apart: jax.Array


class Task(NamedTuple):
    """The problem as the loop sees it.

    sign, weight: `(n,)`, t, and c of sum 1; penalty, bias: `(p,)`, and which coordinate it is
    touch: `()`, the distance in the frame of two hulls that rounding cannot tell from 0
    columns: `(p, n)` of few rows, made once for many products, or None
    """

    problem: Problem
    sign: jax.Array
    weight: jax.Array
    penalty: jax.Array
    bias: jax.Array
    touch: jax.Array
    columns: jax.Array | None = None


def task_of(kind: Kind, problem: Problem) -> Task:
    rows = problem.rows
    weight = rows.weight
    if kind is Kind.HARD:
        live = (weight > 0).astype(weight.dtype)
        weight = live / jnp.maximum(jnp.sum(live), 1)
    sign = _sign(problem)
    bias = jnp.arange(problem.spread.size) >= problem.centre.size
    ulps = TOUCH_ULPS * bias.size * float(jnp.finfo(weight.dtype).eps)
    touch = ulps * radius(problem) if kind is Kind.HARD else jnp.zeros((), weight.dtype)
    return Task(problem, sign, weight, problem.penalty, bias, touch)


def _sign(problem: Problem) -> jax.Array:
    return jnp.where(problem.rows.y > 0, 1, -1).astype(problem.spread.dtype)


def proved(
    kind: Kind,
    problem: Problem,
    params: Linear,
    theta: jax.Array,
    dual: jax.Array,
    slack: jax.Array,
    tol: jax.Array,
) -> Bound:
    """What params and `dual` prove, computed anew, whatever was lost by rounding the margins.

    Where that is not `tol` the margins are computed in twice the digits, unless the rows are dealt
    over devices.

    Args:
      theta: of the params, its bias being within `slack`.
    """
    task = task_of(kind, problem)
    if problem.rows.axis.name is None:  # sums over columns held are of the rows here
        task = task._replace(columns=_passes.held_columns(problem))
    eps = jnp.finfo(theta.dtype).eps
    scores, size, depth = _sized_scores(task, theta)
    pulled = pulls(task, dual)
    # Each product and sum is rounded, and so was what the frame holds.
    doubt = slack + eps * (depth / 2 + 2) * size
    found = bound(kind, task, theta, task.sign * scores, dual, pulled, centred=False, doubt=doubt)
    if problem.rows.axis.name is not None:
        return found

    def exactly(problem, params, theta, dual, pulled):
        task = task_of(kind, problem)
        scores, lost = (a[:, 0] for a in _frame.long_scores(problem, params))
        margins, rest = task.sign * scores, task.sign * lost
        largest = jnp.sum(jnp.abs(theta) * problem.sizes[1])
        doubt = eps**2 * _linalg.long_ulps(theta.size) * largest + eps * jnp.abs(1 - margins)
        short = (1 - margins) - rest
        return bound(
            kind, task, theta, margins, dual, pulled, centred=False, short=short, doubt=doubt
        )

    operands = problem, params, theta, dual, pulled
    return _linalg.when(~(found.gap <= tol), exactly, found, operands)


def of_squares(problem: Problem, theta: jax.Array) -> jax.Array:
    """The duals that the optimum of the squared hinge has, `(n,)`: 2 max(0, 1 - m)."""
    margins = _sign(problem) * _frame.products(problem, theta[:, None])[:, 0]
    return jnp.where(problem.rows.weight > 0, 2 * jnp.maximum(1 - margins, 0), 0)


def _sized_scores(task: Task, theta: jax.Array) -> tuple[jax.Array, jax.Array, int]:
    """Scores, the sizes of what they are sums of, `(n,)` both, and how often sums are rounded."""
    if task.columns is None:
        scores, size = _frame.sized_products(task.problem, theta[:, None])
        return scores[:, 0], size[:, 0], theta.size
    scores, size = _linalg.pairwise_products(task.columns, theta * task.problem.spread)
    return scores, size, (theta.size - 1).bit_length()


def lengthened(task: Task, theta: jax.Array, dual: jax.Array) -> jax.Array:
    """The hinge's theta, or a little more of it, whichever is proved nearer to the optimum."""
    margins = task.sign * _sized_scores(task, theta)[0]
    pulled = pulls(task, dual)

    def times(factor):
        return bound(Kind.HINGE, task, factor * theta, factor * margins, dual, pulled).gap

    factors = 1 + jnp.finfo(theta.dtype).eps * jnp.asarray(LONGER_ULPS, theta.dtype)
    return theta * factors[jnp.argmin(jax.vmap(times)(factors))]


def bound(
    kind, task, theta, margins, dual, pulled, *, centred=True, short=None, doubt=None
) -> Bound:
    """The gap of theta and of `dual` made feasible, from the products with both at hand.

    The plane of a hard margin is moved to the middle of the classes if it is to be `centred`.
    `short (n,)` is 1 - margins to more digits, where margins are near 1 if they are hard; within
    `doubt (n,)` of the margins the gap holds whatever they are.
    """
    c, t, penalty = task.weight, task.sign, task.penalty
    over_rows = functools.partial(_over_rows, task)
    held = penalty > 0
    if task.problem.spread.size > task.problem.centre.size:
        # The heavier class is scaled down, so that sum c a t = 0.
        above, below = over_rows(*(jnp.where(side, c * dual, 0) for side in (t > 0, t < 0)))
        lesser = jnp.minimum(above, below)
        parts = jnp.stack([lesser / jnp.where(a > 0, a, 1) for a in (above, below)])
    else:
        parts = jnp.ones(2, dual.dtype)
    dual = dual * jnp.where(t > 0, parts[0], parts[1])
    pull = jnp.sum(parts[:, None] * pulled, axis=0)
    (total,) = over_rows(c * dual)
    weights = jnp.where(held, theta, 0)
    size = jnp.sum(penalty * weights**2)
    reached = jnp.where(held, pull / jnp.where(held, penalty, 1), 0)
    infinite = jnp.full((), jnp.inf, theta.dtype)
    low = high = apart = infinite
    if kind is Kind.HARD:
        live = c > 0
        if short is not None:
            margins = 1 - short
        first, second = (
            jnp.min(jnp.where(live & side, margins, jnp.inf)) for side in (t > 0, t < 0)
        )
        if centred and task.problem.spread.size > task.problem.centre.size:
            least, turn = (first + second) / 2, (second - first) / 2
        else:
            least, turn = jnp.minimum(first, second), jnp.zeros_like(first)
        surest = least
        if doubt is not None:
            surest = jnp.min(jnp.where(live, margins - doubt, jnp.inf))
        low = surest / jnp.sqrt(jnp.where(size > 0, size, 1))
        length = jnp.sum((jnp.sqrt(penalty) * reached) ** 2)  # with rows far below 1, in this order
        high = jnp.sqrt(length) / jnp.where(total > 0, total, 1)
        between = jnp.linalg.norm(jnp.where(task.bias, 0, pull))
        apart = jnp.where(total > 0, between / jnp.where(total > 0, total, 1), infinite)
        grown = 1 / jnp.where(least > 0, least, 1)
        theta = jnp.where(task.bias, theta + turn, theta) * grown
        margins, weights = (margins + t * turn) * grown, weights * grown
        # Of all multiples of a the one that proves most.
        most = total / jnp.where(length > 0, length, 1)
        reached, primal = reached * most, size * grown**2 / 2
        missing = most * jnp.sum(jnp.where(live, c * dual * (margins - 1), 0))
        dual = dual / jnp.where(total > 0, total, 1)
    else:
        short = 1 - margins if short is None else short

        def costs(short):
            over, under = jnp.maximum(short, 0), jnp.maximum(-short, 0)
            if kind is Kind.HINGE:
                return (1 - dual) * over + dual * under, over
            apart = jnp.where(short > 0, (short - dual / 2) ** 2, dual**2 / 4 + dual * under)
            return apart, over**2

        each, cost = costs(short)
        if doubt is not None:  # convex in the margins: the ends are the worst
            each = jnp.maximum(costs(short + doubt)[0], costs(short - doubt)[0])
        terms = (jnp.where(c > 0, c * a, 0) for a in (each, cost))
        missing, primal, left = over_rows(*terms, c * dual * t)
        primal = primal + size / 2
        # What is left of the sum is rounding.
        missing += jnp.abs(jnp.sum(jnp.where(task.bias, theta, 0)) * left)
    tail = jnp.sum(penalty * (weights - reached) ** 2) / 2
    found = (missing + tail) / jnp.maximum(primal, jnp.finfo(theta.dtype).tiny)
    found = jnp.maximum(found, 4 * jnp.finfo(theta.dtype).eps)
    # A penalty that has vanished in the frame bounds nothing.
    loose = jnp.any((task.problem.spread > 0) & ~held & ~task.bias)
    high = jnp.where(loose, infinite, high)
    found = jnp.where(jnp.isfinite(found) & ~loose, found, infinite)
    if kind is Kind.HARD:
        if doubt is not None:
            found = jnp.maximum(found, 1 - (low / jnp.where(high > 0, high, 1)) ** 2)
        found = jnp.where((low > 0) & (length > 0), found, infinite)
        primal = jnp.where(low > 0, primal, infinite)
    return Bound(theta, dual, found, primal, low, high, apart)


def _over_rows(task: Task, *vectors: jax.Array) -> jax.Array:
    """The sum of each of the vectors `(n,)`."""
    sums = jnp.stack([_linalg.inner(a, jnp.ones_like(a)) for a in vectors])
    return _mesh.across(sums, (), task.problem.rows.axis)[0]


def products(task: Task, thetas: jax.Array) -> jax.Array:
    """Scores `(q, n)` of thetas `(q, p)`."""
    if task.columns is None:
        return _frame.products(task.problem, thetas.T).T
    return dot(thetas * task.problem.spread[None, :], task.columns)


def sums(task: Task, pulls: jax.Array) -> jax.Array:
    """Products `(q, p)` of pulls `(q, n)` with the rows."""
    problem = task.problem
    live = jnp.where(task.weight > 0, pulls, 0)
    if task.columns is not None:
        return dot(task.columns, live.T).T * problem.spread[None, :]
    if problem.rows.framed is not None:
        return dot(live, problem.rows.framed) * problem.spread[None, :]

    def products(block):
        # The last block may hold rows that were seen, which have no weight there.
        unseen = _mesh.where_rows(block.weight > 0, block.y)
        return dot(unseen.T, _frame.columns(problem, block)), ()

    return _fold.fold(products, problem.rows._replace(y=live.T))[0] * problem.spread[None, :]


def square(task: Task, curve: jax.Array) -> jax.Array:
    """X' diag(curve) X, `(p, p)`, of a curve `(n,)` that is 0 where there is no weight."""
    problem = task.problem

    def products(block):
        z = _frame.columns(problem, block)
        return dot((z * block.weight[:, None]).T, z), ()

    total, _ = _fold.fold(products, problem.rows._replace(weight=curve), SQUARE_ENTRIES)
    return total * problem.spread[None, :] * problem.spread[:, None]


def square_and_sums(task: Task, curve: jax.Array, pulls: jax.Array):
    """As `square` and `sums`, of few rows in one product, which lanes have together."""
    if task.columns is None:
        return square(task, curve), sums(task, pulls)
    spread = task.problem.spread
    live = jnp.where(task.weight > 0, pulls, 0)
    found = _passes.products(task.columns.T, curve[:, None], live.T) * spread[None, :]
    return found[: spread.size] * spread[:, None], found[spread.size :]


def pulls(task: Task, dual: jax.Array) -> jax.Array:
    """A'(c a) of the rows of each class, `(2, p)`."""
    return sums(task, of_classes(task, dual))


def of_classes(task: Task, dual: jax.Array) -> jax.Array:
    """c a t of the rows of one class and of the other, `(2, n)`."""
    pull = task.weight * dual * task.sign
    positive = task.sign > 0
    return jnp.stack([jnp.where(positive, pull, 0), jnp.where(positive, 0, pull)])


def radius(problem: Problem) -> jax.Array:
    """The norm of the largest row in the frame."""
    d = problem.centre.size

    def largest(block):
        z = _frame.columns(problem, block)[:, :d] * problem.spread[None, :d]
        square = jnp.sum(z * z, axis=1)
        return (), jnp.max(jnp.where(block.weight > 0, square, 0))

    return jnp.sqrt(_fold.fold(largest, problem.rows)[1])

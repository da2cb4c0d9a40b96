"""The record of a loss: its value and derivatives of the scores, and what a label wants of them."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlin import losses, solvers
from jaxlin._base import _traced


class Agreement(NamedTuple):
    """What scores `(K,)` should satisfy, as numbers `(q,)` linear in them.

    value: nonnegative where the scores agree with the label
    sign: the derivative of each value in the score of the same index
    tight: bool, must be 0, because the label allows several classes
    inert: bool, says nothing
    """

    value: jax.Array
    sign: jax.Array
    tight: jax.Array
    inert: jax.Array


def nothing(scores: jax.Array, y: jax.Array) -> Agreement:
    """Agreement with nothing, of losses that have an optimum whatever the labels."""
    never = jnp.zeros(scores.shape, bool)
    return Agreement(value=scores, sign=jnp.ones_like(scores), tight=~never, inert=never)


class Bend(NamedTuple):
    """A loss and its derivatives in the scores of many rows at once, as vectors want them.

    sides: `f(scores (K, rows), y)` -> the loss `(rows,)`, its slope `(K, rows)`, and what its
      second derivatives are made of, `kept (K, rows)`
    product: `f(kept, moved (K, rows))` -> `(K, rows)`, these times a move of the scores
    diagonal: `f(kept)` -> `(K, rows)`, of these
    """

    sides: Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array, jax.Array]]
    product: Callable[[jax.Array, jax.Array], jax.Array]
    diagonal: Callable[[jax.Array], jax.Array]


class Loss(NamedTuple):
    """A loss of scores, smooth and convex, as the engine knows it.

    value: `f(scores (K,), y)` of one example
    curvature: `f(scores (K,), y)`, the trace of its second derivatives or a bound of it; None for
      the second derivative of one score
    agreement: `f(scores (K,), y)` -> Agreement; an absent class's score is `_frame.NEVER`
    bend: or None, and then large problems are not solved by products with the Hessian
    joint: whether the scores are those of k classes
    log_odds: whether the one score is the log odds of class 1, and the loss that of its probability
    excess: `f(scores (K,), slope (K,), y)` -> loss(s) + loss*(slope) - s . slope, with loss* the
      conjugate: nonnegative, 0 where the slope is the loss's own; None where there is no such proof
    steepest: bound of the second derivatives in the scores
    attained: whether every sum of losses has a minimum, none of them at infinity
    """

    value: Callable[[jax.Array, jax.Array], jax.Array]
    curvature: Callable[[jax.Array, jax.Array], jax.Array] | None
    agreement: Callable[[jax.Array, jax.Array], Agreement]
    bend: Bend | None = None
    joint: bool = False
    log_odds: bool = False
    excess: Callable[[jax.Array, jax.Array, jax.Array], jax.Array] | None = None
    steepest: float = math.inf
    attained: bool = False


def _logistic(scores: jax.Array, y: jax.Array) -> jax.Array:
    return losses.logistic(scores[0], y)


def _sides(scores: jax.Array, y: jax.Array) -> Agreement:
    """t s; a soft label asks for 0."""
    sign = jnp.where(y > 0, 1, -1).astype(scores.dtype)[None]
    tight = ((y > 0) & (y < 1))[None]
    return Agreement(value=sign * scores, sign=sign, tight=tight, inert=jnp.zeros(1, bool))


LOGISTIC = Loss(_logistic, curvature=None, agreement=_sides, log_odds=True)


class Spec(NamedTuple):
    """What is static about a fit.

    solver: of `solvers`, or None for the default by size
    bias: whether there is one
    complete: whether the program holds the paths that few problems take, or only says that one is
      needed
    penalised: whether every l2 is positive, where that matters and is known
    polished: whether Newton's method tries a step after the residual has passed
    trusted: whether x is read once less, as what is no number in it is seen as the frame is made;
      what the others are then is for the complete program to tell
    """

    loss: Loss
    solver: solvers.Solver | None
    bias: bool
    complete: bool = True
    penalised: bool | None = None
    polished: bool = True
    trusted: bool = False


def bend_of(loss: Loss) -> Bend:
    """The loss's own, or that of any of one score."""
    if loss.bend is not None:
        return loss.bend

    def sides(scores, y):
        value, slope, curve = derivatives(loss, scores.T, y)
        return value, slope.T, curve[None]

    return Bend(sides, jnp.multiply, lambda kept: kept)


def derivatives(
    loss: Loss, scores: jax.Array, y: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Each row's loss `(rows,)`, its slope `(rows, K)`, and `loss.curvature (rows,)`."""
    if loss.curvature is None:
        return of_one_score(loss.value, scores, y)
    value, slope = jax.vmap(jax.value_and_grad(loss.value))(scores, y)
    return value, slope, jax.vmap(loss.curvature)(scores, y)


@_traced.once("value_of")
def of_one_score(value_of, scores, y):
    """As `derivatives`, with the second derivative.

    All three at once. Each alone would begin from y, which loops hold for each alone, and so would
    take an exponential of its own.
    """

    def of_row(scores, y):
        def with_slope(scores):
            value, slope = jax.value_and_grad(value_of)(scores, y)
            return value, (value, slope)

        curve, (value, slope) = jax.hessian(with_slope, has_aux=True)(scores)
        return value, slope, curve[0, 0]

    return jax.vmap(of_row)(scores, y)

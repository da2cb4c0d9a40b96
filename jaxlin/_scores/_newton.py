"""Newton's method for one or two coordinates, which every step looks at anew."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlin.types import Status

MAX_STEPS = 100
# A step is halved so often before no shorter one is tried.
HALVINGS = 40
# Units of rounding of an objective that two values may differ by and be one.
LEVEL_ULPS = 16


class Look(NamedTuple):
    """What there is at a point.

    objective: `()`
    residual: `()`, the largest entry of the gradient
    step: Newton's, of the point's shape
    decrement: `()`, the root of what it promises to gain, twice
    """

    objective: jax.Array
    residual: jax.Array
    step: Any
    decrement: jax.Array


class State(NamedTuple):
    """point, and the look at it; part: how much of its step is tried; steps: looks taken."""

    point: Any
    look: Look
    part: jax.Array
    steps: jax.Array


def descended(look: Callable[[jax.Array], Look], start: jax.Array) -> tuple[State, jax.Array]:
    """The minimum of a convex function, and the status: CONVERGED, STALLED or MAX_STEPS.

    A step is taken whole unless the objective grows by it, and then halved until it does not. It
    has arrived where gradient and decrement are small for the dtype.
    """
    eps = float(jnp.finfo(start.dtype).eps)

    def is_there(look):
        return (look.residual <= eps**0.7) & (look.decrement <= eps**0.5)

    def going(state):
        short = state.part < 2.0**-HALVINGS
        return (state.steps < MAX_STEPS) & ~short & ~is_there(state.look)

    def turn(state):
        tried = state.point + state.part * state.look.step
        there, before = look(tried), state.look.objective
        fine = there.objective <= before + LEVEL_ULPS * eps * jnp.abs(before)
        taken = State(tried, there, jnp.ones_like(state.part), state.steps)
        halved = state._replace(part=state.part / 2)
        chosen = jax.tree.map(lambda a, b: jnp.where(fine, a, b), taken, halved)
        return chosen._replace(steps=state.steps + 1)

    endless = jnp.full((), jnp.inf, start.dtype)
    first = Look(endless, endless, jnp.zeros_like(start), endless)
    state = State(start, first, jnp.ones_like(endless), jnp.zeros((), jnp.int32))
    # The first look is the loop's too: from an infinite objective every step is fine.
    state = jax.lax.while_loop(going, turn, state)
    stopped = jnp.where(state.steps >= MAX_STEPS, Status.MAX_STEPS, Status.STALLED)
    status = jnp.where(is_there(state.look), Status.CONVERGED, stopped).astype(jnp.int32)
    return state, status

"""Control flow that pays for what a lane needs only."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxlin._base import _loops


def when(
    needed: jax.Array, f: Callable[..., Any], otherwise: Any, operands: tuple[Any, ...] = ()
) -> Any:
    """`f(*operands)` where `needed`, else `otherwise`; under vmap f runs only if a lane needs it.

    `lax.cond` under vmap becomes a select and always pays for both branches; a while loop of at
    most one turn does not. What f reads comes in `operands`, behind a barrier: the compiler moves
    what a loop's body makes of constants out of the loop, and would run it always.
    """

    def body(carry):
        given = _loops.behind(carry[0], operands)
        return jnp.zeros_like(carry[0]), f(*given)

    return jax.lax.while_loop(lambda carry: carry[0], *_loops.steady(body, (needed, otherwise)))[1]

"""What rules of `jax.custom_batching.custom_vmap` have in common."""

from collections.abc import Callable, Sequence
from typing import Any

import jax


def each(f: Callable, axis_size: int, in_batched: Sequence[Any], *, out_axes: Any = 0) -> Callable:
    """`f` under a plain vmap, over those leaves of its operands that a rule is told are mapped."""
    axes = tuple(axes_of(operand) for operand in in_batched)
    return jax.vmap(f, in_axes=axes, out_axes=out_axes, axis_size=axis_size)


def axes_of(batched: Any, at: int = 0) -> Any:
    """The axes of lanes, `at` in those leaves that are mapped."""
    return jax.tree.map(lambda mapped: at if mapped else None, batched)


def all_of(tree: Any, mapped: bool = True) -> Any:
    """Says of every leaf of what a rule returns whether it is mapped."""
    return jax.tree.map(lambda _: mapped, tree)

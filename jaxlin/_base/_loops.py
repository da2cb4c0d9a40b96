"""Loops inside `jax.shard_map`, where types tell over which mesh axes a value varies.

What a loop carries must keep its type, and most start from constants, which vary over none.
Elsewhere nothing varies, and nothing here does anything.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def steady(body: Callable, init: Any) -> tuple[Callable, Any]:
    """`(body, init)` for `lax.while_loop`, varying over all axes that any part of either does."""
    axes = _axes_of(body, init)
    return (lambda carry: _vary(body(carry), axes)), _vary(init, axes)


def steady_fori(body: Callable, init: Any) -> tuple[Callable, Any]:
    """As `steady`, for `lax.fori_loop`."""
    axes = _axes_of(lambda carry: body(jnp.int32(0), carry), init)
    return (lambda i, carry: _vary(body(i, carry), axes)), _vary(init, axes)


def steady_scan(body: Callable, init: Any, xs: Any) -> tuple[Callable, Any]:
    """As `steady`, for `lax.scan`."""
    axes = _axes_of(lambda carry: body(carry, jax.tree.map(lambda a: a[0], xs))[0], init)

    def lifted(carry, x):
        carry, y = body(carry, x)
        return _vary(carry, axes), y

    return lifted, _vary(init, axes)


def varies(tree: Any, *but: str | None) -> bool:
    """Whether any part of `tree` varies over a mesh axis, but for some."""
    return bool(_varying(tree) - set(but))


def as_varying(tree: Any, like: Any, *but: str | None) -> Any:
    """`tree`, varying over what any part of `like` varies over, but for some axes."""
    return _vary(tree, _varying(like) - set(but))


def behind(first: jax.Array, tree: Any) -> Any:
    """`tree` behind a barrier that `first ()` passes too: nothing made of it is moved before that.

    A barrier makes all that passes it vary alike, so what varies alike has one of its own.
    """
    leaves, structure = jax.tree.flatten(tree)
    passed = dict.fromkeys(range(len(leaves)))
    for axes in dict.fromkeys(_varying(a) for a in leaves):
        group = [i for i, a in enumerate(leaves) if _varying(a) == axes]
        out, _ = jax.lax.optimization_barrier(([leaves[i] for i in group], _vary(first, axes)))
        passed.update(zip(group, out, strict=True))
    return jax.tree.unflatten(structure, passed.values())


def filled(like: Any, value: float, *lead: int) -> Any:
    """Arrays of one value of the shapes of `like`, behind the axes `lead`, and varying as they."""

    def one(a):
        return _vary(jnp.full((*lead, *a.shape), value, a.dtype), _varying(a))

    return jax.tree.map(one, like)


def _axes_of(advance: Callable, init: Any) -> frozenset[str]:
    if not jax.sharding.get_abstract_mesh().manual_axes:
        return frozenset()
    return _varying(init) | _varying(jax.eval_shape(advance, init))


def _varying(tree: Any) -> frozenset[str]:
    def of(a):
        known = a if isinstance(a, jax.ShapeDtypeStruct) else jax.typeof(a)
        if hasattr(known, "vma"):  # jax 0.9
            return known.vma or frozenset()
        kind = getattr(known, "manual_axis_type", None)
        return kind.varying if kind else frozenset()

    return frozenset().union(*(of(a) for a in jax.tree.leaves(tree)))


def _vary(tree: Any, axes: frozenset[str]) -> Any:
    def one(a):
        missing = tuple(sorted(axes - _varying(a)))
        return jax.lax.pcast(a, missing, to="varying") if missing else a

    return jax.tree.map(one, tree)

"""Integers that stand for something: ids of groups, class labels, numbers of classes.

Without 64-bit integers jax would wrap those beyond 2^31, and ids would merge and labels become
other labels. Here they are ranked on the host, or refused.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin._base import _checks


def ids(values: Any, name: str, *, words: str = "integers, got") -> jax.Array:
    """Integers `(n,)` that tell rows apart; of those of the host their ranks, so that none merge.

    Without 64-bit integers an id beyond 2^31 has no other number that jax could hold.
    """
    if not isinstance(values, jax.Array) and not _checks.holds_arrays(values):
        host = whole_numbers(values)
        whole = all(isinstance(a, int) for a in host) if host.dtype.kind == "O" else False
        if host.ndim == 1 and (whole or host.dtype.kind in "iu"):
            ranks = np.unique(host, return_inverse=True)[1].reshape(-1)
            return ranks.astype(np.int32)  # type: ignore[return-value] # known under jit too
        values = host
    values = _checks.array(values, name)
    if not (jnp.issubdtype(values.dtype, jnp.integer) or values.dtype == jnp.bool_):
        raise TypeError(f"{name}: expected {words} {values.dtype}")
    if values.ndim != 1:
        raise ValueError(f"{name}: expected shape (n,), got {values.shape}")
    return values


def exactly(values: Any, name: str) -> jax.Array:
    """As `array`, but a ValueError where an integer would be clipped: what is given comes back."""
    found = _checks.array(values, name)
    if not isinstance(values, jax.Array) and not _checks.holds_arrays(values):
        host = np.asarray(values)
        if host.dtype.kind in "iu" and host.dtype.itemsize > found.dtype.itemsize:
            limits = np.iinfo(found.dtype)
            lost = np.flatnonzero((host < limits.min) | (host > limits.max))
            if lost.size:
                raise ValueError(
                    f"{name}: {lost.size} of {host.size} entries are beyond {found.dtype}, the "
                    f"first {host.flat[lost[0]]}; labels.encode numbers them, or "
                    'jax.config.update("jax_enable_x64", True)'
                )
    return found


def whole_numbers(values: Any) -> np.ndarray:
    """`np.asarray`, but an array of objects of a list in which floats would merge whole numbers."""
    host = np.asarray(values)
    if host.dtype.kind == "f" and isinstance(values, list | tuple):
        given = np.array(values, object)
        pairs = zip(given.flat, host.ravel().tolist(), strict=True)
        if any(isinstance(a, int) and a != b for a, b in pairs):
            return given
    return host


def members(y: jax.Array, k: int) -> jax.Array:
    """`(n, k)`, whether a row is of a class: not in a narrow dtype of y's, where k could wrap."""
    wide = y.dtype if y.dtype.itemsize == 8 else jnp.int32
    return y.astype(wide)[:, None] == jnp.arange(k, dtype=wide)[None, :]


def class_index(value: Any, k: int, name: str) -> tuple[jax.Array, jax.Array]:
    """One of the classes, and what is to be added to what depends on it: NaN if it is none.

    Raises a ValueError where the value is known; a traced one beyond the classes would be taken for
    the last.
    """
    index = _checks.array(value, name)
    if index.ndim or not jnp.issubdtype(index.dtype, jnp.integer):
        raise TypeError(f"{name}: expected one integer, got {index.dtype} {index.shape}")
    if not isinstance(index, jax.core.Tracer) and not 0 <= int(index) < k:
        raise ValueError(f"{name}: expected a class in 0..{k - 1}, got {value}")
    return index, jnp.where((index >= 0) & (index < k), 0.0, jnp.nan)


def jit(f: Callable, **keywords: Any) -> Callable:
    """`jax.jit`, at whose door what is of the host is read as `array` does: clipped or refused."""
    compiled = jax.jit(f, **keywords)
    names = tuple(inspect.signature(f).parameters)

    def read(name: str, a: Any) -> Any:
        of_host = hasattr(a, "__array__") or isinstance(a, list)
        return _checks.array(a, name) if of_host else a

    @functools.wraps(f)
    def call(*arguments: Any, **options: Any) -> Any:
        named = {name: read(name, a) for name, a in options.items()}
        return compiled(*map(read, names, arguments), **named)

    return call

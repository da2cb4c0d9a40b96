"""Rows that are not in memory: what a compiled program knows of them, and how it reads a block.

A program holds a number under which the reader is found on the host, and asks for block after
block; while it works on one the next is read. Shapes: `n` rows, `d` features.
"""

import dataclasses
import itertools
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Form:
    """What is static.

    n, d: rows and features
    size: rows in a block; the last is filled up with rows of weight 0
    dtype: of x
    labels: number of columns of soft labels, 1 for probabilities, 0 for class indices
    targets: number of columns of class indices, 0 for one vector of them
    weights: number of columns of weights, 0 for one vector of them
    """

    n: int
    d: int
    size: int
    dtype: Any
    labels: int
    targets: int = 0
    weights: int = 0

    @property
    def blocks(self) -> int:
        return -(-self.n // self.size)


class Stream(NamedTuple):
    """In the place of x.

    handle: `()` int32, the number of its reader
    """

    handle: jax.Array
    form: Form

    @property
    def shape(self) -> tuple[int, int]:
        return self.form.n, self.form.d

    @property
    def dtype(self) -> Any:
        return self.form.dtype


Block = tuple[np.ndarray, np.ndarray, np.ndarray]
_READERS: "weakref.WeakValueDictionary[int, Reader]" = weakref.WeakValueDictionary()
_NUMBERS = itertools.count(1)


class Reader:
    """Serves blocks of one size in any order; those in order are read ahead.

    Args:
      form: of the blocks.
      fetch: `f(start)`, an iterator over blocks `(x, y, weight)` from block `start` on.
    """

    def __init__(self, form: Form, fetch: Callable[[int], Any]):
        self.form, self.fetch = form, fetch
        self.passes = 0
        self.error: BaseException | None = None
        self.lock = threading.Lock()
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="jaxlin-stream")
        self.ahead: tuple[int, Any, Future] | None = None
        self.number = next(_NUMBERS)
        _READERS[self.number] = self

    def stream(self) -> Stream:
        # A number of the host in the place of an array: nothing goes to a device here.
        return Stream(np.int32(self.number), self.form)  # type: ignore[arg-type]

    def block(self, i: int) -> Block:
        with self.lock:
            self.passes += i == 0
            if self.ahead is not None and self.ahead[0] == i:
                _, blocks, coming = self.ahead
                found = coming.result()
            else:
                self._drop()
                blocks = self.fetch(i)
                found = next(blocks)
            following = i + 1
            if following == self.form.blocks:
                # Passes follow each other: the first block of the next.
                following, blocks = 0, self.fetch(0)
            self.ahead = following, blocks, self.pool.submit(next, blocks)
            return found

    def _drop(self) -> None:
        if self.ahead is not None:
            self.ahead[2].exception()  # wait: an iterator has one user at a time
            self.ahead = None

    def close(self) -> None:
        with self.lock:
            self._drop()
            self.pool.shutdown()

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Closed; what was raised while a program read is raised as it was."""
        self.close()
        if error is not None and self.error is not None:
            raise self.error from None


def read(stream: Stream, i: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """`(x (size, d), y, weight)` of block i, in a compiled program."""
    form = stream.form
    working = form.dtype if np.dtype(form.dtype).itemsize >= 4 else np.dtype(np.float32)
    columns = form.targets or (form.labels if form.labels > 1 else 0)
    shapes = (
        jax.ShapeDtypeStruct((form.size, form.d), form.dtype),
        jax.ShapeDtypeStruct(_shape(form, columns), working if form.labels else np.int32),
        jax.ShapeDtypeStruct(_shape(form, form.weights), working),
    )
    halves = jax.tree.map(_halved_shape, shapes)
    found = jax.pure_callback(_serve, halves, stream.handle, i)
    # Of three, which is not seen in a generator.
    return tuple(  # type: ignore[return-value]
        _whole(a, s.dtype) for a, s in zip(found, shapes, strict=True)
    )


def _shape(form: Form, columns: int) -> tuple[int, ...]:
    return (form.size, columns) if columns else (form.size,)


# The threads that call back know nothing of `jax.enable_x64`, and would narrow numbers of 64 bits.


def _halved_shape(s: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((*s.shape, 2), np.uint32) if s.dtype.itemsize == 8 else s


def _halved(a: np.ndarray) -> np.ndarray:
    if a.dtype.itemsize < 8:
        return a
    return np.ascontiguousarray(a).view(np.uint32).reshape(*a.shape, 2)


def _whole(a: jax.Array, dtype: Any) -> jax.Array:
    return jax.lax.bitcast_convert_type(a, dtype) if dtype.itemsize == 8 else a


def _serve(handle: Any, i: Any) -> Any:
    reader = _READERS[int(handle)]
    try:
        return tuple(_halved(a) for a in reader.block(int(i)))
    except BaseException as error:
        reader.error = error
        raise

"""Where the blocks of a stream come from, and what a first look at all of them says.

Nothing here is traced: blocks are numpy arrays, and what is wrong with a row is raised with its
block. Shapes: `n` rows, `d` features, `k` classes.
"""

import itertools
import math
import operator
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxlin._base import _checks, _words
from jaxlin._data import _rows, _stream
from jaxlin._files import _sheet
from jaxlin._files._numerals import number

# Of x in a block.
BLOCK_BYTES = 4 * 2**20
# Rows kept in memory, of which the frame and the preconditioner are made.
SAMPLE_ROWS = 4096

Block = tuple[np.ndarray, np.ndarray, np.ndarray | None]


class Source:
    """Blocks of rows that can be gone through again."""

    def __init__(self, make: Callable[[], Iterable]):
        self._make = make

    def blocks(self) -> Iterator[Block]:
        """All rows, in blocks as they come."""
        for block in self._make():
            if not (isinstance(block, tuple | list) and len(block) in (2, 3)):
                raise TypeError("source: expected blocks (x, y) or (x, y, sample_weight)")
            x, y = (np.asarray(a) for a in block[:2])
            given = block[2] if len(block) == 3 else None
            yield x, y, None if given is None else np.asarray(given)

    def fetch(self, size: int, start: int) -> Iterator[Block]:
        """Blocks of exactly `size` rows but for the last, from block `start` on."""
        left: list[Any] = []
        held, skip = 0, start * size
        for block in self.blocks():
            n = len(block[0])
            dropped = min(skip, n)
            skip -= dropped
            if dropped == n:
                continue
            left.append(tuple(None if a is None else a[dropped:] for a in block))
            held += n - dropped
            while held >= size:
                whole = _joined(left)
                yield _cut(whole, 0, size)
                left, held = [_cut(whole, size, held)], held - size
        if held:
            yield _joined(left)


class Arrays(Source):
    def __init__(self, *given: Any):
        self._given = given

    def blocks(self) -> Iterator[Block]:
        x = self._given[0]
        return self.fetch(rows_in_block(math.prod(x.shape[1:]), x.dtype.itemsize), 0)

    def fetch(self, size: int, start: int) -> Iterator[Block]:
        x, y, weight = self._given
        for at in range(start * size, len(x), size):
            here = slice(at, at + size)
            yield (
                np.asarray(x[here]),
                np.asarray(y[here]),
                None if weight is None else np.asarray(weight[here]),
            )


def arrays(x: Any, y: Any, sample_weight: Any = None) -> Arrays:
    """Arrays, memory maps, paths, or lists of paths as a source, their shapes checked."""
    _checks.refuse_other_rows(x=x, y=y, sample_weight=sample_weight)
    if y is None:
        raise TypeError("y: expected the labels of x")
    x, y, weight = (None if a is None else mapped(a) for a in (x, y, sample_weight))
    if x.ndim != 2:
        raise ValueError(f"x: expected shape (n, d), got {x.shape}")
    for name, a in (("y", y), ("sample_weight", weight)):
        if a is not None and len(a) != len(x):
            raise ValueError(f"{name}: expected {len(x)} rows, as x has, got {len(a)}")
    return Arrays(x, y, weight)


class Csv(Source):
    """A text file of numbers; rows without a label are left out, once the classes are known."""

    def __init__(self, sheet: _sheet.Sheet, target: int, classes: dict[str, int]):
        self._sheet, self._target, self.classes = sheet, target, classes
        self.notes: list[str] = []
        self._used = [i for i in range(len(sheet.names)) if i not in (target, *sheet.dropped)]
        self.features = [sheet.names[i] for i in self._used]
        if not self._used:
            raise _sheet.BadInput(f"{sheet.path}: no column besides the target can be used")

    def blocks(self) -> Iterator[Block]:
        rows = iter(_sheet.rows(self._sheet))
        size = rows_in_block(len(self._used), 8)
        while block := list(itertools.islice(rows, size)):
            block = [row for row in block if row.cells[self._target] not in self._sheet.missing]
            if block:
                yield self._numbers(block), self._labels(block), None

    def _numbers(self, rows: list[_sheet.Row]) -> np.ndarray:
        take = operator.itemgetter(*self._used, self._target)  # at least two: always a tuple
        cells = [cell for row in rows for cell in take(row.cells)[:-1]]
        plain = self._sheet.decimal == "." and not any("_" in cell for cell in cells)
        try:
            x = np.fromiter(map(float if plain else self._sheet.number, cells), float, len(cells))
        except (TypeError, ValueError):
            x = np.array([self._sheet.number(cell) for cell in cells], float)
        x = x.reshape(len(rows), len(self._used))
        if not np.isfinite(x).all():
            r, c = np.argwhere(~np.isfinite(x))[0]
            row, column = rows[r], self._used[c]
            cell = row.cells[column]
            raise _sheet.BadInput(
                f"{self._sheet.place(row, column)}: '{_sheet.short(cell)}' is no number"
            )
        return x

    def _labels(self, rows: list[_sheet.Row]) -> np.ndarray:
        labels = [row.cells[self._target] for row in rows]
        try:
            return np.array([self.classes[label] for label in labels], np.int32)
        except KeyError as error:
            row = rows[labels.index(error.args[0])]
            place = self._sheet.place(row, self._target)
            raise _sheet.BadInput(f"{place}: '{error.args[0]}' is none of the classes") from None


def rank(label: str) -> tuple[bool, float, str]:
    """Numbers first, by their size."""
    value = number(label, ".")
    return value is None, value or 0.0, label


class Index(NamedTuple):
    """What a first look at all rows says.

    labels, targets, weights: as of a `_stream.Form`
    total: of the weights, `()` or `(weights,)`
    classes: `(k,)`, or `(targets, 2)`, the part of the weight that is of each; 0 where that is too
      little to be felt
    first: a row with weight
    some: a sample that holds a row of every class with weight
    digest: of all there is, if that is asked for
    """

    n: int
    d: int
    dtype: Any
    labels: int
    targets: int
    weights: int
    k: int
    total: Any
    classes: np.ndarray
    first: np.ndarray
    some: Block
    digest: int


class Parts:
    """Arrays whose rows follow each other, as one that is never made whole."""

    def __init__(self, arrays: list[Any]):
        first = arrays[0]
        for a in arrays:
            if a.shape[1:] != first.shape[1:] or a.dtype != first.dtype:
                raise ValueError(
                    f"parts: {a.dtype} {a.shape} follows {first.dtype} {first.shape}; expected "
                    "rows of the same length and dtype"
                )
        self._arrays, self.dtype, self.ndim = arrays, first.dtype, first.ndim
        self._starts = np.cumsum([0, *map(len, arrays)])
        self.shape = int(self._starts[-1]), *first.shape[1:]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        start, stop, _ = rows.indices(len(self))
        pairs = zip(self._arrays, self._starts, strict=False)
        found = [a[max(start - at, 0) : max(stop - at, 0)] for a, at in pairs]
        return np.concatenate([a for a in found if len(a)] or found[:1])


def as_source(source: Any) -> Source:
    if isinstance(source, Source):
        return source
    if isinstance(source, Iterator):
        raise TypeError(
            "source: an iterator can be gone through once; pass a list, a Source, or the function "
            "without arguments that makes it"
        )
    return Source(source if callable(source) else lambda: source)


def is_paths(a: Any) -> bool:
    """Whether it is a list of paths."""
    return isinstance(a, list | tuple) and bool(a) and all(map(_is_path, a))


def _is_path(a: Any) -> bool:
    return isinstance(a, os.PathLike) or (isinstance(a, str) and a.endswith(".npy"))


def mapped(a: Any) -> Any:
    if is_paths(a):
        return Parts([mapped(path) for path in a])
    if not isinstance(a, str | os.PathLike):
        return a if hasattr(a, "shape") else np.asarray(a)
    try:
        return np.load(a, mmap_mode="r")
    except ValueError as error:
        raise ValueError(f"{os.fspath(a)}: not a whole .npy file: {error}") from None


def working(dtype: Any) -> np.dtype:
    """The dtype that jax computes in."""
    known = np.dtype(jax.dtypes.canonicalize_dtype(dtype))
    return known if known.itemsize >= 4 else np.dtype(np.float32)


def rows_in_block(d: int, itemsize: int) -> int:
    return max(_rows.MIN_BLOCK_ROWS, BLOCK_BYTES // (max(d, 1) * itemsize))


def reader_of(source: Source, found: Index, feature_mask: Any = None) -> _stream.Reader:
    n, d, dtype = found.n, found.d, found.dtype
    size = min(n, rows_in_block(d, np.dtype(dtype).itemsize))
    many = {"targets": found.targets, "weights": found.weights}
    form = _stream.Form(n=n, d=d, size=size, dtype=dtype, labels=found.labels, **many)
    float_of = working(dtype)

    def fetch(start: int) -> Iterator[_stream.Block]:
        blocks = source.fetch(size, start)
        for i in range(start, form.blocks):
            nothing: Any = (None, None, None)
            x, y, weight = next(blocks, nothing)
            due = min(size, n - i * size)
            last = i + 1 == form.blocks
            if x is None or len(x) < due:
                raise ValueError("source: it gave fewer rows than when it was first gone through")
            if len(x) > due or (last and next(blocks, None) is not None):
                raise ValueError("source: it gave more rows than when it was first gone through")
            with np.errstate(over="ignore", invalid="ignore"):
                doubted = x.dtype.kind == "f" and not np.isfinite(np.sum(x))
            if doubted:
                # Most likely of a row without weight; all rows were judged before.
                kind = {"real": bool(found.labels), "targets": bool(found.targets)}
                judge(i, x, y, weight, (d, x.dtype), None, feature_mask, **kind)
            columns = (
                x.astype(dtype, copy=False),
                y.astype(float_of if found.labels else np.int32, copy=False),
                parts_of(weight, len(x), found.total, float_of),
            )
            yield filled_up(columns, size)

    return _stream.Reader(form, fetch)


def parts_of(weight: Any, n: int, total: Any, dtype: Any) -> np.ndarray:
    """Weights by their sum in the working dtype; what is too small for it is 0."""
    part = (np.ones(n) if weight is None else np.asarray(weight, float)) / total
    return np.where(part >= np.finfo(dtype).tiny, part, 0).astype(dtype)


def filled_up(block: Any, size: int) -> Any:
    """Rows of 0 behind, up to so many."""
    missing = size - len(block[0])
    if not missing:
        return block
    return tuple(np.pad(a, [(0, missing)] + [(0, 0)] * (a.ndim - 1)) for a in block)


def columns_of(y: np.ndarray) -> int | None:
    return y.shape[1] if y.ndim == 2 else None


def index(
    source: Source,
    k: int | None,
    feature_mask: Any,
    *,
    soft: bool,
    targets: bool = False,
    digest: bool = False,
) -> Index:
    """Look at every row once: count, judge, and keep a sample.

    `targets`: whether columns of integers may be labels in {0, 1} of as many targets.
    """
    n, total, checked = 0, np.zeros(()), 0
    shape: Any = None
    kind: Any = None
    first: Any = None
    kept: list[Any] = []
    of_class: dict[Any, Any] = {}
    heaviest: dict[Any, float] = {}
    shares: dict[Any, float] = {}
    stride = 1
    for i, (x, y, weight) in enumerate(source.blocks()):
        judge(i, x, y, weight, shape, k, feature_mask, soft=soft, targets=targets)
        own = _kind_of(y), 0 if weight is None or weight.ndim == 1 else weight.shape[1]
        if kind not in (None, own):
            raise TypeError(f"block {i}: y is {y.dtype} {y.shape}, and was of another kind before")
        shape, kind = (x.shape[1], x.dtype), own
        given = np.ones(len(x)) if weight is None else np.asarray(weight, float)
        if digest:
            for a in (x, y, given):
                checked = zlib.crc32(np.ascontiguousarray(a).tobytes(), checked)
        here: Any = (given > 0).reshape(len(x), -1).any(axis=1)
        n, total = n + len(x), total + given.sum(axis=0)
        if here.any() and first is None:
            first = x[np.argmax(here)]
        for c, of_rows in _weights_by_class(y, given, here):
            shares[c] = shares.get(c, 0.0) + float(of_rows.sum())
            # Of soft labels the row that has most weight, whatever part is of the class.
            at = np.argmax(np.where(of_rows > 0, given if y.dtype.kind == "f" else of_rows, 0))
            most = float(given[at] if given.ndim == 1 else of_rows[at])
            if of_rows[at] > 0 and most > heaviest.get(c, 0.0):
                one = slice(at, at + 1)
                heaviest[c] = most
                of_class[c] = x[one].copy(), y[one].copy(), given[one].copy()
        # Evenly spread, and never more than twice what is kept at the end.
        picked = slice(-(n - len(x)) % stride, None, stride)
        kept.append((x[picked].copy(), y[picked].copy(), given[picked].copy()))
        while sum(len(a[0]) for a in kept) > 2 * SAMPLE_ROWS:
            joined: Any = _joined(kept)
            kept, stride = [tuple(a[::2] for a in joined)], 2 * stride
    if not n:
        raise ValueError("source: it holds no rows")
    if not (total > 0).any() or not np.isfinite(total).all():
        raise ValueError("source: no row has weight, or the sum of the weights is not finite")
    if total.ndim and not (total > 0).all():
        raise ValueError(f"source: target {np.argmin(total)}: no row has weight")
    (labels, columns), weights = kind
    if weights and weights != columns:
        raise ValueError(f"sample_weight: {weights} columns of weights to {columns} of labels")
    if labels > 1 and k not in (None, labels):
        raise ValueError(f"y: {labels} columns of soft labels, but num_classes is {k}")
    if labels > 1 or (labels and k is None):
        k = max(labels, 2)
    largest = 1 if columns or labels else max(shares, default=-1)
    k = max(largest + 1, 2) if k is None else k
    some = _joined([*kept, *of_class.values()])
    dtype = jax.dtypes.canonicalize_dtype(shape[1] if shape[1].kind in "fV" else np.float64)
    classes = np.zeros((columns, k) if columns else k)
    for c, share in shares.items():
        own_total = total[c[0]] if weights else total
        if parts_of(heaviest.get(c, 0.0), 1, own_total, working(dtype)) > 0:
            classes[c] = share / own_total
    return Index(
        n=n,
        d=shape[0],
        dtype=dtype,
        labels=labels,
        targets=columns,
        weights=weights,
        k=k,
        total=total,
        classes=classes,
        first=first.astype(working(dtype)),
        some=(some[0].astype(dtype), some[1], some[2]),
        digest=checked,
    )


def _kind_of(y: np.ndarray) -> tuple[int, int]:
    """How many columns of soft labels, and how many of class indices; see `_stream.Form`."""
    if y.dtype.kind == "f":
        return columns_of(y) or 1, 0
    return 0, columns_of(y) or 0


def _weights_by_class(y: np.ndarray, given: np.ndarray, here: np.ndarray) -> Iterator[Any]:
    """Each class, `c` or `(target, c)`, and what of the weights of rows is of it, `(rows,)`."""
    if not here.any():
        return
    if y.dtype.kind == "f":
        columns = y if y.ndim == 2 else np.stack([1 - y, y], axis=1)
        for c in range(columns.shape[1]):
            yield c, np.where(here, given * columns[:, c], 0)
    elif y.ndim == 1:
        for c in np.unique(y[here]).tolist():
            yield int(c), np.where(y == c, given, 0)
    else:
        for target in range(y.shape[1]):
            own = given if given.ndim == 1 else given[:, target]
            for c in (0, 1):
                yield (target, c), np.where(y[:, target] == c, own, 0)


def judge(i, x, y, weight, shape, k, feature_mask, *, soft=True, real=False, targets=False):
    """Raise what is wrong with block i, with its row."""
    if x.ndim != 2:
        raise ValueError(f"block {i}: expected x of shape (rows, d), got {x.shape}")
    if x.dtype.type is np.void and x.dtype.itemsize == 2:
        raise TypeError(
            f"block {i}: x is {x.dtype}, as numpy reads bfloat16: open it as a memory map, and "
            "`.view(ml_dtypes.bfloat16)`"
        )
    if x.dtype.fields is not None or x.dtype.kind not in "fiubV":
        raise TypeError(f"block {i}: {_words.no_numbers(x, x, 'x')}")
    if y.dtype.kind not in "fiub":
        raise TypeError(f"block {i}: {_words.no_numbers(y, y, 'y')}")
    if y.ndim > 2 or (y.ndim == 2 and y.dtype.kind != "f" and not targets):
        raise ValueError(f"block {i}: expected one class index per row, got y {y.dtype} {y.shape}")
    if feature_mask is not None and np.shape(feature_mask) != x.shape[1:]:
        raise ValueError(
            f"feature_mask: expected shape {x.shape[1:]}, got {np.shape(feature_mask)}"
        )
    if shape is not None and x.shape[1] != shape[0]:
        raise ValueError(f"block {i}: x has {x.shape[1]} columns, and had {shape[0]} before")
    if shape is not None and x.dtype != shape[1]:
        raise TypeError(f"block {i}: x is {x.dtype}, and was {shape[1]} before")
    shapes = {(len(x),)} | ({y.shape} if targets else set())
    if len(y) != len(x) or (weight is not None and weight.shape not in shapes):
        raise ValueError(
            f"block {i}: {len(x)} rows of x, but y of shape {y.shape} and weights of "
            f"{None if weight is None else weight.shape}"
        )
    if y.dtype.kind == "f" and not (soft or real):
        raise TypeError(f"block {i}: y: expected integer class indices, got {y.dtype}")
    each = np.ones(len(x), bool) if weight is None else weight != 0
    here = each.reshape(len(x), -1).any(axis=1)
    if weight is not None:
        bad = ~((weight >= 0) & np.isfinite(weight))
        _refuse(i, bad.reshape(len(x), -1).any(axis=1), lambda r: f"the weight is {weight[r]}")
    wide = x.astype(np.float32) if x.dtype.itemsize < 4 and x.dtype.kind in "fV" else x
    if x.dtype.kind not in "iub":
        limit = _checks.safe_range(working(x.dtype))
        fine = np.abs(wide) <= limit
        if feature_mask is not None:
            fine |= ~np.asarray(feature_mask)[None, :]
        fine = fine.all(axis=1)
        _refuse(i, ~fine & here, lambda r: _worst(wide[r], limit))
    if real:
        fine = np.isfinite(y).reshape(len(y), -1).all(axis=1)
        _refuse(i, ~fine & here, lambda r: f"the target is {y[r]}")
    elif y.dtype.kind == "f":
        rows = y.reshape(len(y), -1)
        off = ~((rows >= 0) & (rows <= 1)).all(axis=1)
        if y.ndim == 2:
            off |= ~(np.abs(rows.sum(axis=1) - 1) <= 1e-3)
        _refuse(i, off & here, lambda r: f"y is {y[r]}, no probabilities")
    elif y.ndim == 2:
        off = (each if each.ndim == 2 else each[:, None]) & (y != 0) & (y != 1)
        _refuse(i, off.any(axis=1), lambda r: f"y is {y[r]}, not all in {{0, 1}}")
    else:
        off = (y < 0) if k is None else (y < 0) | (y >= k)
        top = "a class index" if k is None else f"in 0..{k - 1}"
        _refuse(i, off & here, lambda r: f"y is {y[r]}, not {top}")


def _worst(row: np.ndarray, limit: float) -> str:
    j = int(np.argmax(~(np.abs(row) <= limit)))
    return f"x in column {j} is {row[j]}"


def _refuse(i: int, bad: np.ndarray, what: Callable[[int], str]) -> None:
    if bad.any():
        r = int(np.argmax(bad))
        raise ValueError(f"block {i}, row {r}: {what(r)}")


def _joined(blocks: list[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    x, y, weights = zip(*blocks, strict=True)
    weight = None
    if any(w is not None for w in weights):
        weight = np.concatenate(
            [np.ones(len(a)) if w is None else w for a, w in zip(x, weights, strict=True)]
        )
    return np.concatenate(x), np.concatenate(y), weight


def _cut(block: Block, start: int, stop: int) -> Block:
    x, y, weight = block
    return x[start:stop], y[start:stop], None if weight is None else weight[start:stop]

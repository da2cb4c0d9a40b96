"""Tables that are mostly zeros: words, clicks, categories of many levels.

`Padded` holds the entries of each row, in as many places for each; `OneHot` the codes of
categories, a column for each value of each; `Columns` parts side by side, dense ones too. They are
pytrees of arrays with `shape`, `dtype`, a length and rows to select, and stand in the place of x.
Whatever their size: in `logistic.fit`, `softmax.fit`, `least_squares.fit` and `regress` without
`l1`, in `naive_bayes` but for normal densities, in `multiclass`, `resample`, the verbs of `linear`
and `losses.objective`. Elsewhere as long as they may be made dense: of up to 16 million entries,
zeros counted. `to_dense` makes larger ones so.

A pass over the data costs O(entries) where columns are many. Fits do not centre columns then, only
scale them, and the bias takes their means; the optimum is the same. Everything but the places of
entries has derivatives. Shapes: `n` rows, `d` features, `m` places in a row, `c` categories.

>>> import jax.numpy as jnp
>>> from jaxlin import linear, logistic, sparse
>>> colours, sizes = ["red", "blue", "red", "green"], ["S", "L", "L", "S"]
>>> x, categories = sparse.from_categories([colours, sizes])
>>> x.shape, [c.tolist() for c in categories]
((4, 5), [['blue', 'green', 'red'], ['L', 'S']])
>>> params, info = logistic.fit(x, jnp.array([1, 0, 1, 0]), l2=0.1)
>>> linear.predict(params, x).tolist()
[1, 0, 1, 0]
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


class Sparse:
    """What all tables have: a shape, a size, a length, and rows that are selected."""

    shape: tuple[int, int]
    ndim = 2

    @property
    def size(self) -> int:
        """Entries, the zeros too."""
        return math.prod(self.shape)

    def padded(self) -> "Padded":
        """The same as a Padded of indices that are in range."""
        raise NotImplementedError

    def to_dense(self) -> jax.Array:
        """`(n, d)`, of which the zeros are held too."""
        raise NotImplementedError

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Any:
        """The rows of a slice, of indices or of a mask."""
        if isinstance(rows, tuple) or (np.ndim(rows) == 0 and not isinstance(rows, slice)):
            raise TypeError(f"x: expected a slice or an array, which rows to select, got {rows!r}")
        return jax.tree.map(lambda a: a[rows], self)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Padded(Sparse):
    """Rows of at most m entries that are not 0; places that are left over hold 0, at any index.

    An index stands once in a row. One outside 0..num_features-1, of a value that is not 0, is no
    data: the status is INVALID_DATA.

    indices: `(n, m)` integers
    values: `(n, m)` floats
    num_features: d, static
    """

    indices: Any
    values: Any
    num_features: int = dataclasses.field(metadata={"static": True})

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return self.values.shape[-2], self.num_features

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    def padded(self) -> "Padded":
        """The same with indices that are in range; a row that has another is NaN throughout."""
        given = _wide(self.indices)
        inside = (given >= 0) & (given < self.num_features)
        indices = jnp.where(inside, given, 0).astype(jnp.int32)
        fine = jnp.all(inside | (self.values == 0), axis=-1, keepdims=True)
        return Padded(indices, jnp.where(fine, self.values, jnp.nan), self.num_features)

    def to_dense(self) -> jax.Array:
        """`(n, d)`, of which the zeros are held too."""
        n, _ = self.indices.shape
        zeros = jnp.zeros(self.shape, self.dtype)
        return zeros.at[jnp.arange(n)[:, None], self.indices].add(self.values)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class OneHot(Sparse):
    """Categories, each as columns of 0 and 1 for its values; any other code is 0 in all of them.

    codes: `(n, c)` integers, of category j in 0..sizes[j]-1
    sizes: `(c,)` of integers, static; how many values each category has
    """

    codes: Any
    sizes: tuple[int, ...] = dataclasses.field(metadata={"static": True})

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return self.codes.shape[-2], sum(self.sizes)

    @property
    def dtype(self) -> Any:
        return jnp.result_type(float)

    def padded(self) -> Padded:
        """The same as a Padded, of c places in a row."""
        starts = np.cumsum([0, *self.sizes[:-1]]).astype(np.int32)
        codes = _wide(self.codes)
        inside = (codes >= 0) & (codes < np.asarray(self.sizes, codes.dtype)[None, :])
        indices = jnp.where(inside, codes, 0).astype(jnp.int32) + starts[None, :]
        return Padded(indices, inside.astype(self.dtype), sum(self.sizes))

    def to_dense(self) -> jax.Array:
        """`(n, d)`, as `features.one_hot`."""
        return self.padded().to_dense()


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Columns(Sparse):
    """Parts side by side, of as many rows each.

    parts: Padded, OneHot, or dense arrays `(n, columns)`
    """

    parts: tuple[Any, ...]

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return self.parts[0].shape[-2], sum(part.shape[-1] for part in self.parts)

    @property
    def dtype(self) -> Any:
        # A OneHot has the dtype of the others.
        own = [part.dtype for part in self.parts if not isinstance(part, OneHot)]
        return max(own, key=lambda dtype: dtype.itemsize) if own else self.parts[0].dtype

    def padded(self) -> Padded:
        """The same as a Padded, of as many places in a row as the parts have together."""
        each = [part.padded() if isinstance(part, Sparse) else _whole(part) for part in self.parts]
        starts = np.cumsum([0] + [part.num_features for part in each])
        indices = [part.indices + int(s) for part, s in zip(each, starts, strict=False)]
        values = [part.values.astype(self.dtype) for part in each]
        return Padded(jnp.concatenate(indices, 1), jnp.concatenate(values, 1), int(starts[-1]))

    def to_dense(self) -> jax.Array:
        """`(n, d)`, of which the zeros are held too."""
        each = [part.to_dense() if isinstance(part, Sparse) else part for part in self.parts]
        return jnp.concatenate([part.astype(self.dtype) for part in each], axis=1)


def from_scipy(matrix: Any, *, dtype: Any = None) -> Padded:
    """A scipy matrix, or array, of any sparse format.

    Made on the host. Each row takes as many places as the one of the most entries, so that a few
    long rows among many short ones cost memory.

    Args:
      matrix: `(n, d)`; entries of one place are added.
      dtype: of the values; by default the matrix', narrowed to float32 unless 64-bit floats are
        enabled, and the default float for integers.

    Returns:
      A Padded.

    Raises:
      TypeError: what is no scipy matrix.

    Example:
      >>> import scipy.sparse
      >>> from jaxlin import sparse
      >>> x = sparse.from_scipy(scipy.sparse.csr_matrix([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]]))
      >>> x.indices.tolist(), x.values.tolist(), x.shape
      ([[1, 0], [0, 2]], [[2.0, 0.0], [1.0, 3.0]], (2, 3))
    """
    if not hasattr(matrix, "tocsr"):
        raise TypeError(f"matrix: expected a scipy sparse matrix, got {type(matrix).__name__}")
    rows = matrix.tocsr()
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    n, d = rows.shape
    if dtype is None:
        dtype = rows.dtype if rows.dtype.kind == "f" else jnp.result_type(float)
    counts = np.diff(rows.indptr)
    owner = np.repeat(np.arange(n), counts)
    place = np.arange(rows.nnz) - np.repeat(rows.indptr[:-1], counts)
    shape = n, max(1, int(counts.max(initial=0)))
    indices, values = np.zeros(shape, np.int32), np.zeros(shape, np.dtype(dtype))
    indices[owner, place], values[owner, place] = rows.indices, rows.data
    return Padded(jnp.asarray(indices), jnp.asarray(values), d)


def from_categories(columns: Any, *, categories: Any = None) -> tuple[OneHot, list[np.ndarray]]:
    """Columns of categories as codes, and the values that these stand for.

    Made on the host. A value that is missing (None, NaN), or not among the `categories` given, is 0
    in every column of its category.

    Args:
      columns: a DataFrame, a dict, or a sequence of c columns of n values each.
      categories: the values of each column, as this returned them for the data of the fit; by
        default those that are there, sorted.

    Returns:
      `(x, categories)`, a OneHot and c arrays.

    Raises:
      ValueError: columns of different lengths, or another number of categories.

    Example:
      >>> from jaxlin import sparse
      >>> _, known = sparse.from_categories([["a", "b", None]])
      >>> x, _ = sparse.from_categories([["b", "z"]], categories=known)
      >>> x.codes.tolist(), x.sizes
      ([[1], [-1]], (2,))
    """
    if hasattr(columns, "columns"):  # a frame
        columns = [columns[name] for name in columns.columns]
    elif isinstance(columns, dict):
        columns = list(columns.values())
    given = [np.asarray(column, object) for column in columns]
    if not given or any(column.ndim != 1 or len(column) != len(given[0]) for column in given):
        shapes = [column.shape for column in given]
        raise ValueError(f"columns: expected columns of one length, got shapes {shapes}")
    if categories is not None and len(categories) != len(given):
        raise ValueError(f"categories: expected {len(given)} arrays, got {len(categories)}")
    known = [_values_of(column) for column in given] if categories is None else list(categories)
    codes = np.stack([_codes_of(*pair) for pair in zip(given, known, strict=True)], axis=1)
    return OneHot(jnp.asarray(codes, jnp.int32), tuple(len(values) for values in known)), known


def _values_of(column: np.ndarray) -> np.ndarray:
    """The values of a column without those that are missing, sorted."""
    return np.array(sorted({v for v in column if v is not None and v == v}))


def _codes_of(column: np.ndarray, values: Any) -> list[int]:
    place = {value: i for i, value in enumerate(np.asarray(values).tolist())}
    return [place.get(value, -1) for value in column.tolist()]


def _wide(places: jax.Array) -> jax.Array:
    """Integers in which any number of columns fits; a narrower cast could wrap."""
    return places if places.dtype.itemsize >= 4 else places.astype(jnp.int32)


def _whole(x: jax.Array) -> Padded:
    """Of a dense array, every place held."""
    n, d = x.shape
    return Padded(jnp.broadcast_to(jnp.arange(d, dtype=jnp.int32), (n, d)), x, d)

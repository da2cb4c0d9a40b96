"""What every fit asks of its arguments, and what it says when they are wrong.

Shapes, dtypes and static values are checked here in Python, at trace time, and raise. Values
are checked inside the compiled fit, which returns `Status.INVALID_DATA`; only when that status is
concrete does `_invalid` look at the data again, on the host, to say what is wrong with them.
"""

import dataclasses
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin._base import _words
from jaxlin.sparse import Columns, OneHot, Padded, Sparse


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Axis:
    """The mesh axis over whose devices the rows are dealt; None: they are all here."""

    name: str | None = None


# A table of so many entries is made dense: by what takes no other, and by what takes it too.
DENSE_ENTRIES = {False: 2**24, True: 2**22}
# Rows of a column that are looked at for what a narrower dtype leaves of it.
SAMPLED_ROWS = 2048


class Table(NamedTuple):
    """The arguments that every fit shares, of checked shapes and dtypes.

    x: `(n, d)` float, half precision left as it is in memory
    y: `(n,)` integers, or soft labels in the working dtype
    sample_weight: `(n,)` in the working dtype, or None for all ones
    feature_mask: `(d,)` bool, or None for all True
    axis: of whose shards this is one
    """

    x: jax.Array
    y: jax.Array
    sample_weight: jax.Array | None
    feature_mask: jax.Array | None
    axis: Axis = Axis()


def table(
    x: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    feature_mask: Any = None,
    soft: bool = False,
    num_classes: int | None = None,
    axis_name: Any = None,
    sparse: bool = False,
) -> Table:
    """Check the shared arguments; `soft` admits float labels, `num_classes` their `(n, k)` form.

    `sparse`: as of `matrix`.
    """
    refuse_other_rows(x=x, y=y, sample_weight=sample_weight)
    x = matrix(x, sparse=sparse)
    n, d = x.shape
    dtype = working_dtype(x)
    return Table(
        x=x,
        y=_labels(y, n, dtype, soft=soft, num_classes=num_classes),
        sample_weight=optional(sample_weight, (n,), dtype, "sample_weight"),
        feature_mask=mask_of(feature_mask, d),
        axis=axis_of(axis_name),
    )


def targets(
    x: Any,
    t: Any,
    *,
    sample_weight: Any = None,
    feature_mask: Any = None,
    axis_name: Any = None,
    sparse: bool = False,
) -> Table:
    """As `table`, but with a real number per row in place of a class."""
    refuse_other_rows(x=x, t=t, sample_weight=sample_weight)
    x = matrix(x, sparse=sparse)
    n, d = x.shape
    dtype = working_dtype(x)
    return Table(
        x=x,
        y=shaped(t, (n,), dtype, "t"),
        sample_weight=optional(sample_weight, (n,), dtype, "sample_weight"),
        feature_mask=mask_of(feature_mask, d),
        axis=axis_of(axis_name),
    )


def refuse_other_rows(**given: Any) -> None:
    """Raise a ValueError where two arguments have an index, as of pandas, and these differ.

    Rows are paired by position, and rows of a frame that was sorted or filtered are others.
    """
    # A list has an `index` too, but that is none.
    indexes: dict[str, Any] = {name: getattr(a, "index", None) for name, a in given.items()}
    known = [(name, index) for name, index in indexes.items() if hasattr(index, "equals")]
    for name, index in known[1:]:
        first, own = known[0]
        if not own.equals(index):
            raise ValueError(
                f"{name}: its index is not that of {first}, and rows are paired by position; align "
                f"them first ({name}.loc[{first}.index]), or pass {name}.to_numpy()"
            )


def axes_in(tree: Any) -> set[Axis]:
    """Over which the rows in a pytree of tables and rows are dealt."""
    nodes = jax.tree.leaves(tree, is_leaf=lambda a: isinstance(a, Axis))
    return {a for a in nodes if isinstance(a, Axis) and a.name is not None}


def axis_of(name: Any) -> Axis:
    """The axis of this name, which must be bound: by `jax.shard_map`, or by a vmap."""
    if name is None:
        return Axis()
    if not isinstance(name, str):
        raise TypeError(f"axis_name: expected a string, got {type(name).__name__}")
    try:
        jax.lax.axis_size(name)
    except NameError:
        raise ValueError(
            f"axis_name: no axis {name!r} here; it is for use inside jax.shard_map, "
            "see jaxlin.distributed"
        ) from None
    return Axis(name)


def matrix(x: Any, name: str = "x", *, sparse: bool = False) -> jax.Array:
    """`x` as a float array `(n, d)`; integers and booleans take the default float dtype.

    A table of `sparse` is made dense if it is small, and else left as it is if the caller takes
    `sparse` ones.
    """
    if isinstance(x, Sparse):
        return _of_table(x, name, sparse)
    given, x = x, real(x, name)
    if isinstance(given, np.ndarray) and given.dtype.itemsize > x.dtype.itemsize:
        _warn_of_lost_digits(given, x.dtype, name)
    if x.ndim != 2:
        raise ValueError(f"{name}: expected shape (n, d), got {x.shape}")
    if x.shape[0] == 0:
        raise ValueError(f"{name}: expected at least one row, got shape {x.shape}")
    return x


def _of_table(x: Any, name: str, sparse: bool) -> jax.Array:
    x = _checked(x, name)
    if x.shape[0] == 0:
        raise ValueError(f"{name}: expected at least one row, got shape {x.shape}")
    if x.size <= DENSE_ENTRIES[sparse]:
        return x.padded().to_dense()
    if not sparse:
        raise TypeError(
            f"{name}: this function takes a dense x, and one of {x.shape[0]} x {x.shape[1]} is "
            f"large; {name}.to_dense() makes it all the same"
        )
    return x


def _checked(x: Any, name: str) -> Any:
    """A table whose leaves are arrays of the shapes and dtypes that it is to have."""
    if isinstance(x, Columns):
        if not x.parts:
            raise ValueError(f"{name}: expected at least one part")
        each = [
            _checked(part, f"{name}.parts[{i}]") if isinstance(part, Sparse) else matrix(part, name)
            for i, part in enumerate(x.parts)
        ]
        rows = [part.shape[0] for part in each]
        if len(set(rows)) > 1:
            raise ValueError(f"{name}.parts: expected as many rows in each, got {rows}")
        return Columns(tuple(each))
    places = x.codes if isinstance(x, OneHot) else x.indices
    places = array(places, name)
    if not jnp.issubdtype(places.dtype, jnp.integer) or places.ndim != 2:
        raise TypeError(
            f"{name}: expected indices or codes that are integers (n, m), got {places.dtype} of "
            f"shape {places.shape}"
        )
    if isinstance(x, OneHot):
        if places.shape[1] != len(x.sizes):
            raise ValueError(f"{name}: expected a size for each of {places.shape[1]} categories")
        return OneHot(places, tuple(int(size) for size in x.sizes))
    values = real(x.values, f"{name}.values")
    if values.shape != places.shape:
        raise ValueError(f"{name}: expected values of shape {places.shape}, got {values.shape}")
    return Padded(places, values, int(x.num_features))


def _warn_of_lost_digits(given: np.ndarray, dtype: Any, name: str) -> None:
    """Of columns that a narrower dtype leaves without two digits: a fit sees what is left."""
    if given.ndim != 2 or given.dtype.kind != "f":
        return
    some = given[:: max(1, len(given) // SAMPLED_ROWS)]
    known = np.isfinite(some)
    most, least = (np.where(known, s * some, -np.inf).max(axis=0, initial=-np.inf) for s in (1, -1))
    spread, size = most + least, np.maximum(np.abs(most), np.abs(least))
    lost = (spread > 0) & (spread < 100 * float(np.finfo(dtype).eps) * size)
    if np.any(lost):
        warnings.warn(
            f"{name}: in {np.dtype(dtype).name} {lost.sum()} of {lost.size} columns, the first "
            f"of them {np.argmax(lost)}, keep fewer than two digits of how they vary: subtract an "
            'offset, or jax.config.update("jax_enable_x64", True)',
            stacklevel=2,
        )


def bias_of(bias: Any, data: Table) -> bool:
    """The static `bias`; a ValueError where without one there is nothing to fit."""
    if not static(bias, bool, "bias") and data.x.shape[1] == 0:
        shape = data.x.shape
        raise ValueError(f"x: expected at least one feature where bias=False, got shape {shape}")
    return bias


def real(x: Any, name: str) -> jax.Array:
    """`x` as a float array of any shape."""
    host = None if isinstance(x, jax.Array) or holds_arrays(x) else np.asarray(x)
    if host is not None and host.dtype.kind in "iu":
        return jnp.asarray(host, jnp.result_type(float))  # at once: array() would clip 64 bits
    x = array(x, name)
    if jnp.issubdtype(x.dtype, jnp.floating):
        return x
    if jnp.issubdtype(x.dtype, jnp.integer) or x.dtype == jnp.bool_:
        return x.astype(jnp.result_type(float))
    raise TypeError(f"{name}: expected real numbers, got dtype {x.dtype}")


def working_dtype(x: jax.Array) -> jnp.dtype:
    """The float dtype of `x`, widened to float32 for half precision."""
    return x.dtype if x.dtype.itemsize >= 4 else jnp.dtype(jnp.float32)


def wider(a: jnp.dtype, b: jnp.dtype) -> jnp.dtype:
    """The wider of two working dtypes; in words, so that strict promotion does not object."""
    return a if a.itemsize >= b.itemsize else b


def optional(value: Any, shape: tuple[int, ...], dtype: Any, name: str) -> jax.Array | None:
    """None, or `value` in `dtype` with exactly this shape."""
    return None if value is None else shaped(value, shape, dtype, name)


def shaped(value: Any, shape: tuple[int, ...], dtype: Any, name: str) -> jax.Array:
    """`value` in `dtype` with exactly this shape."""
    array = real(value, name)
    if array.shape != shape:
        raise ValueError(f"{name}: expected shape {shape}, got {array.shape}")
    return array.astype(dtype)


def scalar(value: Any, dtype: Any, name: str) -> jax.Array:
    """`value` as a strongly typed scalar, so that 1, 1.0 and an array share one compile."""
    if isinstance(value, int | float):
        return np.asarray(value, dtype)  # type: ignore[return-value] # cheaper than a device array
    return shaped(value, (), dtype, name)


def count(value: Any, name: str) -> jax.Array:
    """`value` as an int32 scalar: a traced number of steps or epochs."""
    top = np.iinfo(np.int32).max
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return np.int32(max(min(int(value), top), -1))  # type: ignore[return-value] # as in scalar
    steps = array(value, name)
    if not jnp.issubdtype(steps.dtype, jnp.integer):
        raise TypeError(f"{name}: expected an integer, got dtype {steps.dtype}")
    if steps.shape != ():
        raise ValueError(f"{name}: expected shape (), got {steps.shape}")
    steps = jnp.minimum(steps, min(top, jnp.iinfo(steps.dtype).max))
    return jnp.maximum(steps, max(-1, jnp.iinfo(steps.dtype).min)).astype(jnp.int32)


def penalty(value: Any, d: int, dtype: Any, name: str = "l2") -> jax.Array:
    """`value` as one penalty per feature, `(d,)`."""
    if isinstance(value, int | float):
        return np.full(d, value, dtype)  # type: ignore[return-value] # as in scalar
    value = real(value, name)
    if value.shape not in ((), (d,)):
        raise ValueError(
            f"{name}: expected a scalar or one penalty per feature, shape ({d},), got "
            f"{value.shape}; for a sweep over penalties use jax.vmap or "
            "resample.regularization_path"
        )
    return jnp.broadcast_to(value.astype(dtype), (d,))


def tolerance(tol: Any, dtype: Any) -> jax.Array:
    """`tol`, or by default the 2/3 power of the dtype's epsilon: 4e-11, or 2e-5 in float32."""
    return scalar(float(jnp.finfo(dtype).eps) ** (2 / 3) if tol is None else tol, dtype, "tol")


def static(value: Any, kinds: type | tuple[type, ...], name: str) -> Any:
    """`value`, which must be known when the function is traced."""
    if isinstance(value, jax.core.Tracer):
        raise TypeError(
            f"{name}: expected a static value, got a traced one; under jax.jit pass "
            f'static_argnames="{name}" or bind it first with functools.partial'
        )
    if not isinstance(value, kinds):
        names = " or ".join(k.__name__ for k in (kinds if isinstance(kinds, tuple) else (kinds,)))
        raise TypeError(f"{name}: expected {names}, got {type(value).__name__}")
    return value


def concrete(tree: Any) -> bool:
    """Whether no value of the tree is traced, and all can be read by this process.

    Under jit what is computed from constants is traced, though they are not.
    """
    arrays = [a for a in jax.tree.leaves(tree) if isinstance(a, jax.Array)]
    return not any(isinstance(a, jax.core.Tracer) or not a.is_fully_addressable for a in arrays)


def number_of_classes(num_classes: Any, y: Any, sample_weight: Any = None) -> int:
    """The static k: as given, or eagerly 1 + the largest label among rows of positive weight."""
    if num_classes is not None:
        if isinstance(num_classes, np.integer):
            num_classes = int(num_classes)
        k = static(num_classes, int, "num_classes")
        if k < 1 or isinstance(k, bool):
            raise ValueError(f"num_classes: expected a positive integer, got {num_classes}")
        return k
    if np.ndim(y) == 2:
        return int(np.shape(y)[1])
    if isinstance(y, jax.core.Tracer) or isinstance(sample_weight, jax.core.Tracer):
        raise TypeError(
            "num_classes: expected a static integer under a transformation, got None; "
            'pass num_classes=k (under jax.jit(fit) with static_argnames="num_classes")'
        )
    host = np.asarray(array(y, "y")) if isinstance(y, jax.Array) else np.asarray(y)
    refuse_inexact(host)
    if sample_weight is not None:
        host = host[np.asarray(sample_weight) > 0]
    k = 1 + int(host.max(initial=0))
    if k > max(len(host), 2):
        raise ValueError(
            f"num_classes: the largest label is {k - 1} among {len(host)} rows; "
            "number the classes 0..k-1 (labels.encode does), or pass num_classes"
        )
    return max(k, 2)


def _labels(y: Any, n: int, dtype: Any, *, soft: bool, num_classes: int | None) -> jax.Array:
    y = _narrowed(array(y, "y"))
    if jnp.issubdtype(y.dtype, jnp.floating):
        if not soft:
            refuse_inexact(y)
        shape = (n,) if num_classes is None else (n, num_classes)
        if y.shape != shape:
            raise ValueError(f"y: expected soft labels of shape {shape}, got {y.shape}")
        return y.astype(dtype)
    refuse_inexact(y)
    if y.shape != (n,):
        raise ValueError(f"y: expected shape ({n},), one class index per row of x, got {y.shape}")
    return y.astype(jnp.int32) if y.dtype == jnp.bool_ else y


def refuse_inexact(y: jax.Array | np.ndarray) -> None:
    """Raise a TypeError unless `y` holds integers or booleans."""
    if not (jnp.issubdtype(y.dtype, jnp.integer) or y.dtype == jnp.bool_):
        raise TypeError(
            f"y: expected integer or bool class indices, got dtype {y.dtype}; {_words.ENCODE}"
        )


def mask_of(mask: Any, d: int, name: str = "feature_mask") -> jax.Array | None:
    if mask is None:
        return None
    mask = array(mask, name)
    if mask.dtype != jnp.bool_:
        raise TypeError(f"{name}: expected bool, got dtype {mask.dtype}")
    if mask.shape != (d,):
        raise ValueError(f"{name}: expected shape ({d},), got {mask.shape}")
    return mask


def array(value: Any, name: str) -> jax.Array:
    """`value` as an array of numbers of its own dtype, 64-bit integers clipped, never wrapped."""
    if isinstance(value, jax.Array):
        return value  # jnp.asarray would say the same after 20 microseconds
    if not holds_arrays(value):
        given, value = value, np.asarray(value)
        if value.dtype.kind not in "biufV":  # V: the half precisions that numpy has no letter for
            raise TypeError(_words.no_numbers(given, value, name))
        # Without 64-bit integers jnp.asarray would wrap, and a wrapped label looks valid.
        if value.dtype.kind in "iu" and value.dtype.itemsize == 8:
            limits = np.iinfo(jax.dtypes.canonicalize_dtype(value.dtype))
            value = np.clip(value, limits.min, limits.max)
    return jnp.asarray(value)


def holds_arrays(value: Any) -> bool:
    """Whether `value` is a list of jax arrays, which numpy cannot read if they are traced."""
    return isinstance(value, list | tuple) and any(
        isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(value)
    )


def _narrowed(y: jax.Array) -> jax.Array:
    """Half-precision soft labels are widened; everything else stays."""
    if jnp.issubdtype(y.dtype, jnp.floating):
        return y.astype(working_dtype(y))
    return y


def safe_range(dtype: Any) -> float:
    """The largest magnitude whose square, summed, stays finite: 2^60 in float32, 2^508."""
    return 2.0 ** (jnp.finfo(dtype).maxexp // 2 - 4)

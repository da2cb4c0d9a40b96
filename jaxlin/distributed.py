"""One fit over the devices of a mesh: each holds some of the rows, and none ever holds all.

Every fit whose data enter through sums over rows takes `axis_name`, the mesh axis over which the
rows are dealt. Inside `jax.shard_map` it sums its rows in blocks as ever, then all devices' sums,
in one all-reduce of the statistics' size per pass; no row leaves its device. `data_parallel` wraps
that up, for one process or for several under `jax.distributed`.

These are `logistic`, `softmax`, `least_squares`, `fisher`, `lda`, `qda`, `gaussian`, the squared
hinge of `svm`, `moments`, and `multiclass` of these. The perceptron goes from row to row, and the
interior point method of the hinge and of the hard margin has a system of its own for every row:
they are refused.

Lanes can lie on another axis of the same mesh, say one weighting of all rows per lane:

    both = jax.shard_map(
        lambda x, y, weights: jax.vmap(
            lambda w: logistic.fit(x, y, sample_weight=w, axis_name="rows")
        )(weights),
        mesh=mesh,
        in_specs=(P("rows"), P("rows"), P("lanes", "rows")),
        out_specs=P("lanes"),
    )

Shapes: `n` rows, `d` features, `k` classes.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxlin._base import _checks, _codes, _options
from jaxlin.types import Status

# The arguments of a fit that have a row for each of x.
OF_ROWS = ("sample_weight", "offset")


def data_parallel(fit: Callable, mesh: Mesh, *, axis: str | None = None) -> Callable:
    """The same fit, over rows that are dealt over a mesh axis.

    Args:
      fit: a fit that takes `axis_name`, of this package, made of one by `functools.partial`, or
        your own that hands it on.
      mesh: of `jax.make_mesh`, its axes of type Auto or Explicit.
      axis: the mesh axis; by default the first.

    Returns:
      `fit(x, y, **options)` of the same signature, which can be called inside `jax.jit`. Where the
      rows are not laid out so already they are sent; where the devices do not divide their number,
      rows of weight 0 fill up. Params and Info are the same on every device, and those of the fit
      on one device to rounding. With several processes x, y, `sample_weight` and `offset` are
      global arrays, see `shard`, and `num_classes` must be given. Derivatives over axes of type
      Explicit are taken inside `jax.jit`, or under `jax.set_mesh(mesh)`.

    Raises:
      TypeError: a fit without `axis_name`.
      ValueError: a mesh without the axis; what the fit raises.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from jaxlin import distributed, logistic
      >>> mesh = jax.make_mesh((jax.device_count(),), ("rows",))
      >>> fit = distributed.data_parallel(logistic.fit, mesh)
      >>> x, y = jnp.array([[0.0], [1.0], [2.0], [3.0]]), jnp.array([0, 1, 0, 1])
      >>> params, info = fit(x, y, l2=0.1)
      >>> params.weights.round(3).tolist(), info.status.item()
      ([0.637], 0)
    """
    axis = _axis_of(mesh, axis)
    if not _options.takes(fit, "axis_name", among_others=True):
        name = getattr(fit, "__qualname__", repr(fit))
        raise TypeError(
            f"fit: {name} of {getattr(fit, '__module__', '?')} takes no axis_name: either it is "
            "no sum over rows, or it does not hand axis_name on to the fit that it is made of"
        )

    def parallel(x, y, **options):
        return _over(fit, mesh, axis, x, y, options)

    return functools.update_wrapper(parallel, fit)


def shard(
    x: Any,
    y: Any,
    mesh: Mesh,
    *,
    sample_weight: Any = None,
    axis: str | None = None,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Rows that this process holds, as part of global arrays dealt over a mesh axis.

    Args:
      x: `(n, d)`, this process's rows; their number may differ between processes.
      y: `(n,)` or `(n, k)`.
      mesh: over the devices of all processes.
      sample_weight: `(n,)`, by default 1.
      axis: the mesh axis; by default the first.

    Returns:
      `(x, y, sample_weight)`, global arrays of one length, each process's part filled up with rows
      of weight 0. All processes call it together.

    Example:
      >>> import jax
      >>> import numpy as np
      >>> from jaxlin import distributed
      >>> mesh = jax.make_mesh((jax.device_count(),), ("rows",))
      >>> x, y, weight = distributed.shard(np.ones((3, 2)), np.array([0, 1, 1]), mesh)
      >>> float(weight.sum())
      3.0
    """
    axis = _axis_of(mesh, axis)
    _checks.refuse_other_rows(x=x, y=y, sample_weight=sample_weight)
    x, y = np.asarray(x), np.asarray(_codes.exactly(y, "y"))
    weight = np.ones(len(x), np.result_type(x.dtype, np.float32))
    weight = weight if sample_weight is None else np.asarray(sample_weight)
    put = functools.partial(jax.make_array_from_process_local_data, NamedSharding(mesh, P(axis)))
    parts = max(1, mesh.shape[axis] // jax.process_count())
    most = int(_largest(put(np.full(parts, len(x), np.int32))))
    size = -(-most // parts) * parts
    x, y, weight = (put(_filled_up(a, size, np)) for a in (x, y, weight))
    return x, y, weight


@_options.explained
def _over(fit, mesh, axis, x, y, options):
    _checks.refuse_other_rows(x=x, y=y, sample_weight=options.get("sample_weight"))
    x, y = _checks.matrix(x, sparse=True), _checks.array(y, "y")
    options = {name: value for name, value in options.items() if value is not None}
    options = _options.with_classes(fit, options, y, options.get("sample_weight"))
    n, dtype = len(x), _checks.working_dtype(x)
    rows = {name: _checks.real(options.pop(name), name) for name in OF_ROWS if name in options}
    size = -(-n // mesh.shape[axis]) * mesh.shape[axis]
    if size > n:
        rows.setdefault("sample_weight", jnp.ones(n, dtype))
    given = (x, y, rows)
    for name, value in (("y", y), *rows.items()):
        if value.shape[:1] != (n,):
            raise ValueError(f"{name}: expected {n} rows, as x has, got shape {value.shape}")
    sharding = NamedSharding(mesh, P(axis))
    laid = jax.tree.map(lambda a: _laid_out(_filled_up(a, size, jnp), sharding), given)
    static, traced = _options.split(options, dtype)
    params, info = _fit(fit, mesh, axis, static, laid, traced)
    status = getattr(info, "status", None)
    known = status is not None and _checks.concrete((status, given))
    if known and np.any(np.asarray(status) == Status.INVALID_DATA):
        # In one place, as a fit wants them, which says what is wrong in its own words.
        x, y, rows = jax.device_get((x, y, rows))
        fit(x, y, **rows, **options)
    return params, info


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _fit(fit, mesh, axis, static, rows, traced):
    def here(rows, traced):
        x, y, others = rows
        return fit(
            x, y, axis_name=axis, **others, **_options.join(_options.Options(static, traced))
        )

    return jax.shard_map(here, mesh=mesh, in_specs=(P(axis), P()), out_specs=P())(rows, traced)


@jax.jit
def _largest(a: jax.Array) -> jax.Array:
    return jnp.max(a)


def _axis_of(mesh: Mesh, axis: str | None) -> str:
    axis = mesh.axis_names[0] if axis is None else axis
    if axis not in mesh.axis_names:
        raise ValueError(f"axis: expected one of {mesh.axis_names}, got {axis!r}")
    return axis


def _filled_up(a: Any, size: int, xp: Any) -> Any:
    """Rows of 0 behind, up to so many."""
    missing = size - len(a)
    return xp.pad(a, [(0, missing), *((0, 0) for _ in a.shape[1:])]) if missing else a


def _laid_out(a: jax.Array, sharding: NamedSharding) -> jax.Array:
    if not isinstance(a, jax.core.Tracer):
        return jax.device_put(a, sharding)
    explicit = AxisType.Explicit in sharding.mesh.axis_types
    return jax.reshard(a, sharding) if explicit else a  # else the compiler sees to it

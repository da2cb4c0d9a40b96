"""What every fit does first: weights that sum to one, and which rows may be used."""

import jax
import jax.numpy as jnp

from jaxlin._base import _mesh
from jaxlin._base._checks import Table, working_dtype
from jaxlin._data import _fold, _maxima, _rows
from jaxlin._data._rows import Rows, Streamed

SHRINK = 2.0**-8


def prepare(
    data: Table,
    *,
    num_classes: int | None,
    offset: jax.Array | None = None,
    trusted: bool = False,
) -> tuple[Rows, jax.Array, jax.Array]:
    """Normalise the weights, find what may not be felt, and judge the data.

    Args:
      data: checked arguments.
      num_classes: k, or None for regression targets.
      offset: `(n,)` or `(n, k)`, finite wherever there is weight.
      trusted: x is taken to hold numbers alone, and not looked at.

    Returns:
      `(rows, total, valid)`: the rows, the sum of the weights, and whether the data are usable;
      if they are not, all weights are 0, so that a lane of them does no harm and little work.
    """
    # Data that a program closes over are constants of it: what is made of them is not to be made
    # while it is compiled, which takes the compiler a hundred times as long.
    hold = jax.lax.optimization_barrier
    data = data._replace(x=hold(data.x), y=hold(data.y))
    n, _ = data.x.shape
    dtype = working_dtype(data.x)
    given = jnp.ones(n, dtype) if data.sample_weight is None else data.sample_weight
    ok = jnp.ones(n, bool) if trusted else _rows.usable(data.x, data.feature_mask)
    # A row that holds no numbers has no derivative in its weight: 0 by convention.
    given = jnp.where(ok, given, jax.lax.stop_gradient(given))
    # Shrunk, exactly, so that neither their sum nor the reciprocal of the largest overflows.
    given = given * SHRINK
    present = given != 0
    label_fits = _rows.has_label(data.y, num_classes)
    fine = jnp.where(present, ok & label_fits, True) & (given >= 0)
    if offset is not None:
        finite = jnp.isfinite(offset) if offset.ndim == 1 else jnp.all(jnp.isfinite(offset), 1)
        fine &= ~present | finite
        offset = _mesh.where_rows(finite, offset)
        ok &= finite
    # Divided by the largest first, so that the sum cannot overflow; what is divided by cancels, and
    # with it its derivative. One row at fault makes the largest infinite.
    largest = jnp.max(jax.lax.stop_gradient(jnp.where(fine, given, jnp.inf)), initial=0)
    _, largest = _mesh.across((), largest, data.axis)
    faultless = jnp.isfinite(largest)
    largest = jnp.where((largest > 0) & faultless, largest, 1)
    total = _mesh.sum_rows(given / largest, data.axis)
    valid = faultless & (total > 0) & jnp.isfinite(total)
    # Guarded, so that a lane that is not valid leaves no NaN in derivatives either.
    weight = given / largest / jnp.where(valid, total, 1)
    weight = jnp.where(valid, weight, 0)
    y = data.y if jnp.issubdtype(data.y.dtype, jnp.floating) else _rows.codes(data.y, num_classes)
    rows = Rows(
        x=data.x,
        # Absent rows keep a label that fits: the derivative in their weight is the true one.
        y=_mesh.where_rows(label_fits, y),
        weight=weight,
        offset=offset,
        ok=ok & label_fits,
        feature_mask=data.feature_mask,
        axis=data.axis,
    )
    return rows, total * largest / SHRINK, valid


def present(rows: Rows, k: int) -> jax.Array:
    """Which of k classes have weight, `(k,)`; a soft label is of all that it gives a part."""
    if isinstance(rows, Streamed):
        return rows.classes > 0

    def here(block):
        inside = _maxima.some(block.weight > 0, _maxima.members(block.y, k))
        return (), inside.astype(block.weight.dtype)

    # By blocks, because which rows a class has is written out.
    return _fold.fold(here, rows._replace(offset=None))[1] > 0

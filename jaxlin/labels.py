"""Class labels of any kind to the indices 0..k-1 that every fit takes, and back. Host side.

Labels are data, so their values cannot be looked up under `jit`: encode once, before.
Shapes: `n` examples, `k` classes.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin._base import _codes


def encode(raw: Any) -> tuple[jax.Array, np.ndarray]:
    """Number the distinct values of `raw` in sorted order, or in that of its categories.

    A Categorical of pandas has an order of its own, say small, medium, large; the values that
    occur keep it, so that class 0 is what it says. The result has no index: where y and x are to
    be matched by theirs, do so before.

    Args:
      raw: `(n,)` strings, -1/+1, booleans or any values that sort, or a Categorical of pandas.

    Returns:
      `(y, classes)`: int32 indices `(n,)`, and the values `(k,)` that they stand for.

    Raises:
      ValueError: `raw` is not one-dimensional or holds missing values (NaN, None).

    Example:
      >>> from jaxlin import labels
      >>> y, classes = labels.encode(["cat", "dog", "cat"])
      >>> y.tolist(), classes.tolist()
      ([0, 1, 0], ['cat', 'dog'])
    """
    values = _codes.whole_numbers(raw)
    if values.ndim != 1:
        raise ValueError(f"raw: expected shape (n,), got {values.shape}")
    missing = [i for i, value in enumerate(values.tolist()) if value is None or value != value]
    if missing:
        raise ValueError(
            f"raw: {len(missing)} of {len(values)} labels are missing, the first at {missing[0]}"
        )
    own = getattr(raw, "cat", raw)  # of a Series, or the Categorical itself
    if hasattr(own, "categories") and hasattr(own, "codes"):
        present, y = np.unique(np.asarray(own.codes), return_inverse=True)
        return jnp.asarray(y.reshape(-1), jnp.int32), np.asarray(own.categories)[present]
    classes, y = np.unique(values, return_inverse=True)
    return jnp.asarray(y.reshape(-1), jnp.int32), classes


def decode(y: Any, classes: Any) -> np.ndarray:
    """The values that the class indices `y` stand for.

    Args:
      y: class indices of any shape, as `predict` returns them.
      classes: `(k,)`, as `encode` returned them.

    Returns:
      An array of y's shape and the dtype of `classes`.

    Raises:
      ValueError: an index lies outside 0..k-1.

    Example:
      >>> from jaxlin import labels
      >>> labels.decode([1, 0], ["cat", "dog"]).tolist()
      ['dog', 'cat']
    """
    indices, values = np.asarray(y), np.asarray(classes)
    outside = np.argwhere((indices < 0) | (indices >= len(values)))
    if len(outside):
        first = tuple(int(i) for i in outside[0])
        raise ValueError(
            f"y: {len(outside)} indices lie outside 0..{len(values) - 1}, "
            f"the first at {first}: {indices[first]}"
        )
    return values[indices]

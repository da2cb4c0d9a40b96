"""What an eager call says of data that are not valid: the row, the column and the value."""

import math
from typing import Any

import numpy as np

from jaxlin._base import _checks
from jaxlin._base._checks import Table
from jaxlin.sparse import Padded, Sparse
from jaxlin.types import Info, Status


def raise_if_invalid(
    info: Info,
    data: Table,
    *,
    num_classes: int | None = 2,
    nonnegative: dict[str, Any] | None = None,
    positive: dict[str, tuple[Any, str]] | None = None,
    finite: dict[str, Any] | None = None,
    fractions: dict[str, Any] | None = None,
    of_x: tuple[float, float] | None = None,
) -> None:
    """Raise a ValueError that says what is wrong, if all is concrete and the status INVALID_DATA.

    Args:
      info: what the compiled fit returned.
      data: what it was given.
      num_classes: the classes that integer labels may name; None for regression targets.
      nonnegative: named values that must be finite and not negative, or None.
      positive: named values that must be finite and positive, each with what to do about a 0.
      finite: named values that must be finite; those of `(n,)` where there is weight.
      fractions: named values that must lie in [0, 1].
      of_x: between what x must lie, where there is weight.
    """
    if not (
        _checks.concrete(info.status) and np.any(np.asarray(info.status) == Status.INVALID_DATA)
    ):
        return
    # Under `jax.grad` a status may be concrete that comes of values that are not.
    if not _checks.concrete((data, nonnegative, positive, finite, fractions)):
        return
    problems = _row_problems(data, num_classes, of_x)
    problems += _value_problems(data, nonnegative or {}, finite or {}, fractions or {})
    for name, (value, advice) in (positive or {}).items():
        given = _as_seen(value, data)
        bad = ~(given > 0) | np.isinf(given)
        found = offences(name, given, bad, "not positive and finite")
        problems += [f"{found} ({advice})" if np.any(given == 0) else found] * bool(found)
    beyond = (
        "the data are not valid, or the squares of a column of x leave the range of "
        f"{_checks.working_dtype(data.x)}: then give it in other units"
    )
    raise ValueError("; ".join(problems) or beyond)


def _row_problems(
    data: Table, num_classes: int | None, of_x: tuple[float, float] | None
) -> list[str]:
    dtype = _checks.working_dtype(data.x)
    n, _ = data.x.shape
    weight = np.ones(n) if data.sample_weight is None else np.asarray(data.sample_weight)
    present = weight != 0
    table = data.x.padded() if isinstance(data.x, Sparse) else None
    x = np.asarray((data.x if table is None else table.values).astype(dtype))
    if data.feature_mask is not None:
        mask = np.asarray(data.feature_mask)
        x = np.where(mask[None, :] if table is None else mask[np.asarray(table.indices)], x, 0)
    limit = _checks.safe_range(dtype)
    y = np.asarray(data.y)
    problems = [
        offences(
            "sample_weight", weight, ~(weight >= 0) | np.isinf(weight), "negative or infinite"
        ),
        offences(
            "x" if table is None else "x.values",
            x,
            ~(np.abs(x) <= limit) & present[:, None],
            f"not finite, or larger in size than {limit:.1e}",
        ),
    ]
    if isinstance(data.x, Padded):
        places, d = np.asarray(data.x.indices), data.x.num_features
        held = np.asarray(data.x.values) != 0
        outside = ((places < 0) | (places >= d)) & held & present[:, None]
        problems.append(offences("x.indices", places, outside, f"outside 0..{d - 1}"))
    if of_x is not None:
        low, high = of_x
        outside = ((x < low) | (x > high)) & present[:, None]
        said = "negative" if high == math.inf else f"not in [{low:g}, {high:g}]"
        problems.append(offences("x" if table is None else "x.values", x, outside, said))
    if y.dtype.kind == "f":
        live = present.reshape((n,) + (1,) * (y.ndim - 1))
        outside = ~((y >= 0) & (y <= 1)) if num_classes is not None else ~np.isfinite(y)
        problems.append(offences("y", y, outside & live, "not a probability in [0, 1]"))
        if y.ndim == 2:
            total = y.sum(1)
            problems.append(
                offences(
                    "y", total, ~(np.abs(total - 1) <= 1e-3) & present, "row sums other than 1"
                )
            )
    elif num_classes is not None:
        outside = ((y < 0) | (y >= num_classes)) & present
        problems.append(
            offences("y", y, outside, f"outside 0..{num_classes - 1} (see labels.encode)")
        )
    if not np.sum(np.where(weight > 0, weight, 0)) > 0:
        problems.append("sample_weight: no row has positive weight")
    return [problem for problem in problems if problem]


def _value_problems(data: Table, nonnegative: dict, finite: dict, fractions: dict) -> list[str]:
    problems = []
    for name, value in fractions.items():
        if value is not None:
            given = _as_seen(value, data)
            problems.append(offences(name, given, ~((given >= 0) & (given <= 1)), "not in [0, 1]"))
    for name, value in nonnegative.items():
        if value is not None:
            given = _as_seen(value, data)
            bad = ~(given >= 0) | np.isinf(given)
            problems.append(offences(name, given, bad, "negative, NaN or infinite"))
    for name, value in finite.items():
        if value is not None:
            given = _as_seen(value, data)
            bad = ~np.isfinite(given)
            if data.sample_weight is not None and given.shape == data.sample_weight.shape:
                bad &= np.asarray(data.sample_weight) != 0
            problems.append(offences(name, given, bad, "NaN or infinite"))
    return [problem for problem in problems if problem]


def _as_seen(value: Any, data: Table) -> np.ndarray:
    """`value` in the working dtype, in which it may be infinite."""
    with np.errstate(over="ignore"):
        return np.atleast_1d(np.asarray(value)).astype(_checks.working_dtype(data.x))


def offences(name: str, array: np.ndarray, bad: np.ndarray, what: str) -> str:
    where = np.argwhere(bad)
    if not len(where):
        return ""
    first = tuple(int(i) for i in where[0])
    place = first[0] if len(first) == 1 else first
    total = math.prod(array.shape)
    return (
        f"{name}: {len(where)} of {total} entries are {what}, the first at {place}: {array[first]}"
    )

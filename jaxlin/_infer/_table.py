"""A report as the text that statisticians know: a row for each coefficient, and what they share."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxlin.types import Hyperplane, Status

COLUMNS = ("estimate", "std. error", "z", "p")
# Digits of a number in the table and below it, and letters of a name at most.
DIGITS, BELOW, NAME = 4, 6, 28


def text(summary: Any, names: Sequence[Any] | None, classes: Sequence[Any] | None) -> str:
    """The table; `names (d,)` of columns, `classes (k,)`."""
    binary = isinstance(summary.params, Hyperplane)
    weights = np.atleast_2d(np.asarray(summary.params.weights))
    k, d = weights.shape
    names = [f"x{j}" for j in range(d)] if names is None else [str(a) for a in names]
    if len(names) != d:
        raise ValueError(f"names: expected {d}, one per column, got {len(names)}")
    classes = range(k) if classes is None else list(classes)
    if not binary and len(classes) != k:
        raise ValueError(f"classes: expected {k}, got {len(classes)}")
    head, parts = _columns(summary)
    numbers = np.stack(
        [np.column_stack([np.reshape(a.bias, k), np.reshape(a.weights, (k, d))]) for a in parts],
        axis=-1,
    )
    # What has no error was not estimated: a masked column, or all of a reference.
    numbers[numbers[..., 1] == 0, 1:] = np.nan
    rows = []
    for c in range(k):
        if not binary and not numbers[c, :, 0].any():
            continue
        if not binary:
            rows.append([f"class {classes[c]}"])
        rows += [
            [name[:NAME], *map(_number, own)]
            for name, own in zip(["bias", *names], numbers[c], strict=True)
        ]
    return "\n".join([*_aligned([head, *rows]), "", *_foot(summary)])


def _columns(summary):
    """The head of the table, and a pytree like the params for each of its columns."""
    level = f"{100 * float(summary.level):g}%"
    head = ["", *COLUMNS, f"lower {level}", f"upper {level}"]
    parts = [
        summary.params,
        summary.standard_errors,
        summary.statistic,
        summary.p_value,
        summary.lower,
        summary.upper,
    ]
    if summary.odds_ratio is None:
        head[3] = "t"
    else:
        head.append("odds ratio")
        parts.append(summary.odds_ratio)
    return head, parts


def _number(a: Any, digits: int = DIGITS) -> str:
    return "-" if np.isnan(a) else f"{float(a):.{digits}g}"


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows if i < len(row)) for i in range(len(rows[0]))]
    return [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(a.rjust(w) for a, w in zip(row[1:], widths[1:], strict=False)),
            ]
        ).rstrip()
        for row in rows
    ]


def _foot(summary):
    def number(a):
        return _number(a, BELOW)

    status = Status(int(summary.status))
    least_squares = summary.odds_ratio is None
    events = "" if summary.events is None else np.reshape(summary.events, -1)
    if not least_squares:
        events = f"   events {', '.join(map(number, events))}"
    return [
        f"rows {number(summary.number)}{events}   coefficients {number(summary.degrees)}",
        f"log likelihood {number(summary.log_likelihood)}   of the constant alone "
        f"{number(summary.null_log_likelihood)}",
        f"AIC {number(summary.aic)}   BIC {number(summary.bic)}   "
        f"{'R^2' if least_squares else 'McFadden R^2'} {number(summary.r_squared)}",
        f"{status.name}: {status.meaning}",
    ]

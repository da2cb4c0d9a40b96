"""From a file's cells to numbers and classes, saying what was done on the way.

The command line's reader, second half: which column is the target, which columns are numbers and
which categories, and what becomes of missing values. Whatever is wrong raises `BadInput`, whose
one line names the row and the column. Shapes: `n` rows, `d` features, `k` classes.
"""

import difflib
from collections import Counter
from typing import NamedTuple

import numpy as np

from jaxlin import _sheet
from jaxlin._sheet import BadInput, Sheet, count, number

MISSING = frozenset(
    ("", "?", "NA", "na", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NAN", "null", "NULL", "None")
)
TARGET_NAMES = ("target", "class", "label", "y")
MAX_LEVELS = 50  # more distinct texts than this are names or dates, not categories
MAX_NUMERIC_CLASSES = 20  # more distinct numbers than this are a measurement, unless n is large
MAX_LISTED = 20
LARGEST = 1e100  # squares of larger numbers leave float64


class Data(NamedTuple):
    """A classification problem, ready to fit.

    source: where it came from
    x: `(n, d)` float64, finite
    y: `(n,)` int32 class indices
    features: d names
    classes: k names
    target: the name of the target column
    notes: what was done on the way here, one sentence each
    """

    source: str
    x: np.ndarray
    y: np.ndarray
    features: list[str]
    classes: list[str]
    target: str
    notes: list[str]


def read(path: str, target: str | None = None) -> Data:
    """Read a CSV file (comma, semicolon, tab or `|`; with or without a header).

    Args:
      path: of the file, UTF-8.
      target: the name of the column to predict; by default the one called target, class, label
        or y, else the last.

    Raises:
      BadInput: the file cannot be made into a classification problem.
    """
    notes: list[str] = []
    sheet = _sheet.read(path, notes)
    column = _target_column(sheet, target, notes)
    sheet = _drop_unlabelled(sheet, column, notes)
    y, classes = _classes(sheet, column)
    x, features = _features(sheet, column, notes)
    return Data(path, x, y, features, classes, sheet.names[column], notes)


# The target


def _target_column(sheet: Sheet, target: str | None, notes: list[str]) -> int:
    names = sheet.names
    lowered = [name.lower() for name in names]
    if target is None:
        named = [lowered.index(name) for name in TARGET_NAMES if name in lowered]
        column = named[0] if named else len(names) - 1
        why = "by its name" if named else "the last column"
        notes.append(f"target: '{names[column]}', {why} (--target chooses another)")
        return column
    if target in names:
        return names.index(target)
    if lowered.count(target.lower()) == 1:
        return lowered.index(target.lower())
    close = difflib.get_close_matches(target.lower(), lowered, n=1, cutoff=0.5)
    suggestion = f", did you mean '{names[lowered.index(close[0])]}'?" if close else ";"
    raise BadInput(f"{sheet.path}: no column '{target}'{suggestion} columns: {_listed(names)}")


def _drop_unlabelled(sheet: Sheet, column: int, notes: list[str]) -> Sheet:
    unlabelled = [row for row in sheet.rows if row.cells[column] in MISSING]
    if len(unlabelled) == len(sheet.rows):
        name = sheet.names[column]
        raise BadInput(f"{sheet.path}: target '{name}' is missing in every row")
    if not unlabelled:
        return sheet
    dropped, first = count(len(unlabelled), "row"), unlabelled[0]
    notes.append(f"{dropped} without a target dropped (first: row {first.number})")
    return sheet._replace(rows=[row for row in sheet.rows if row.cells[column] not in MISSING])


def _classes(sheet: Sheet, column: int) -> tuple[np.ndarray, list[str]]:
    cells = sheet.cells(column)
    numbers = [number(cell, sheet.decimal_comma) for cell in cells]
    values = [v for v in numbers if v is not None]
    numeric = len(values) == len(cells)
    if numeric:
        _refuse_regression(sheet, column, values)
    labels: list = values if numeric else cells  # numbers, so that 1 and 1.0 are one class
    distinct = sorted(set(labels))
    name, n = sheet.names[column], len(cells)
    if len(distinct) == 1:
        raise BadInput(
            f"{sheet.path}: target '{name}' holds one class only, '{cells[0]}' "
            f"({count(n, 'row')}); at least two are needed"
        )
    if len(distinct) == n or (len(distinct) > MAX_LEVELS and len(distinct) > n / 2):
        raise BadInput(
            f"{sheet.path}: target '{name}' has {len(distinct)} distinct values in "
            f"{count(n, 'row')}: these are no classes; {_other_target(sheet)}"
        )
    index = {label: i for i, label in enumerate(distinct)}
    y = np.array([index[label] for label in labels], np.int32)
    return y, [_plain(label) if numeric else label for label in distinct]


def _refuse_regression(sheet: Sheet, column: int, values: list[float]) -> None:
    distinct, n = len(set(values)), len(values)
    whole = all(value.is_integer() for value in values)
    limit = max(MAX_NUMERIC_CLASSES, n / 20) if whole else MAX_NUMERIC_CLASSES / 2
    if distinct > limit or (not whole and distinct > max(2, n / 2)):
        raise BadInput(
            f"{sheet.path}: target '{sheet.names[column]}' holds {distinct} distinct numbers in "
            f"{count(n, 'row')}, which looks like regression, and jaxlin classifies; "
            f"{_other_target(sheet)} (or give the classes names, such as c1)"
        )


def _other_target(sheet: Sheet) -> str:
    return f"choose another column with --target: {_listed(sheet.names)}"


# The features


def _features(sheet: Sheet, target: int, notes: list[str]) -> tuple[np.ndarray, list[str]]:
    features: dict[str, np.ndarray] = {}
    filled: list[str] = []
    encoded: list[str] = []
    dropped: list[str] = []
    for column, name in enumerate(sheet.names):
        if column == target:
            continue
        cells = sheet.cells(column)
        present = Counter(cell for cell in cells if cell not in MISSING)
        if len(present) < 2:
            dropped.append(f"'{name}' ({'constant' if present else 'empty'})")
        elif (known := _numbers(present, sheet.decimal_comma)) is not None:
            features[name] = _filled(sheet, column, known, filled)
        elif len(present) > MAX_LEVELS or (len(present) > 10 and len(present) > len(cells) / 2):
            dropped.append(f"'{name}' (text, {len(present)} distinct values)")
        else:
            features.update(_one_hot(name, cells, present, filled))
            encoded.append(f"'{name}' ({len(present)})")
    _note(notes, "missing values filled in", filled)
    _note(notes, "categories as 0/1 columns, the first left out", encoded)
    _note(notes, "columns dropped", dropped)
    if not features:
        raise BadInput(
            f"{sheet.path}: no column besides the target '{sheet.names[target]}' can be used: "
            + _listed(dropped, quote=False)
        )
    return np.stack(list(features.values()), axis=1), list(features)


def _numbers(present: Counter, decimal_comma: bool) -> dict[str, float | None] | None:
    """What each distinct cell is as a number; None if most values of the column are none."""
    known = {cell: number(cell, decimal_comma) for cell in present}
    numeric = sum(present[cell] for cell, value in known.items() if value is not None)
    return known if 2 * numeric >= present.total() else None


def _filled(
    sheet: Sheet, column: int, known: dict[str, float | None], filled: list[str]
) -> np.ndarray:
    """A column of numbers, its missing values replaced by the mean of the others."""
    cells = sheet.cells(column)
    wrong = {c for c, value in known.items() if value is None or not abs(value) <= LARGEST}
    if wrong:
        row = next(row for row in sheet.rows if row.cells[column] in wrong)
        cell = row.cells[column]
        text = known[cell] is None
        what = "a number, as most values of this column are" if text else "finite, or is too large"
        raise BadInput(f"{sheet.place(row, column)}: '{_short(cell)}' is not {what}")
    values = np.array([known.get(cell, np.nan) for cell in cells], float)
    missing = np.isnan(values)
    if missing.any():
        mean = values[~missing].mean()
        values[missing] = mean
        filled.append(f"'{sheet.names[column]}' ({missing.sum()}, by the mean {mean:.4g})")
    return values


def _one_hot(
    name: str, cells: list[str], present: Counter, filled: list[str]
) -> dict[str, np.ndarray]:
    """A 0/1 column per level but the first, which all the others would determine."""
    levels = sorted(present)
    usual = max(levels, key=present.__getitem__)
    missing = sum(cell in MISSING for cell in cells)
    if missing:
        filled.append(f"'{name}' ({missing}, by the most frequent, '{usual}')")
    values = np.array([usual if cell in MISSING else cell for cell in cells])
    return {f"{name}={level}": (values == level).astype(float) for level in levels[1:]}


# Words


def _note(notes: list[str], what: str, items: list[str]) -> None:
    if items:
        notes.append(f"{what}: {_listed(items, quote=False)}")


def _listed(names: list[str], quote: bool = True) -> str:
    shown = ", ".join(f"'{name}'" if quote else name for name in names[:MAX_LISTED])
    more = len(names) - MAX_LISTED
    return f"{shown} and {more} more" if more > 0 else shown


def _plain(value: float) -> str:
    return str(int(value)) if value.is_integer() else str(value)


def _short(cell: str) -> str:
    return cell if len(cell) <= 40 else f"{cell[:40]}..."

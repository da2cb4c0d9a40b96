"""From a file's cells to numbers and classes, saying what was done on the way.

What the command line makes of a sheet: which column is the target, which columns are numbers and
which categories, and what becomes of missing values. Whatever is wrong raises `BadInput`, whose
one line names the row and the column. Shapes: `n` rows, `d` features, `k` classes.
"""

import difflib
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from jaxlin._files import _sheet
from jaxlin._files._numerals import plain
from jaxlin._files._sheet import BadInput, Options, Row, Sheet, count, short

TARGET_NAMES = ("target", "class", "label", "y")
MAX_LEVELS = 50  # more distinct texts than this are names or dates, not classes
MAX_CELLS = 2**26  # of the 0/1 columns of a category: half a gigabyte
MAX_NUMERIC_CLASSES = 20  # more distinct numbers than this are a measurement, unless n is large
MAX_LISTED = 20
GUESSED = Options()
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


def read(path: str, target: str | None = None, options: Options = GUESSED) -> Data:
    """Read a delimited text file.

    Args:
      path: of the file.
      target: the name of the column to predict; by default the one called target, class, label
        or y, else the last.
      options: how the file is written, where it should not be guessed.

    Raises:
      BadInput: the file cannot be made into a classification problem.
    """
    notes: list[str] = []
    sheet = _sheet.find(path, options, target, notes)
    column = target_column(sheet, target, notes)
    look = _sheet.Look(sheet, column)
    rows = list(look.rows())
    sheet = look.settled(notes)
    index, classes = classes_of(sheet, column, Counter(_cells(rows, column)), notes)
    rows = _labelled(sheet, column, rows, notes)
    y = np.array([index[cell] for cell in _cells(rows, column)], np.int32)
    x, features = _features(sheet, rows, column, notes)
    return Data(path, x, y, features, classes, sheet.names[column], notes)


def _cells(rows: Sequence[Row], column: int) -> list[str]:
    return [row.cells[column] for row in rows]


# The target


def target_column(sheet: Sheet, target: str | None, notes: list[str]) -> int:
    """The column to predict."""
    names = sheet.names
    lowered = [name.lower() for name in names]
    used = [i for i in range(len(names)) if i not in sheet.dropped]
    if target is None:
        named = [lowered.index(n) for n in TARGET_NAMES if n in [lowered[i] for i in used]]
        column = named[0] if named else used[-1] if used else 0
        why = "by its name" if named else "the last column"
        notes.append(f"target: '{names[column]}', {why} (--target chooses another)")
    elif target in names:
        column = names.index(target)
    elif lowered.count(target.lower()) == 1:
        column = lowered.index(target.lower())
    else:
        close = difflib.get_close_matches(target.lower(), lowered, n=1, cutoff=0.5)
        suggestion = f", did you mean '{names[lowered.index(close[0])]}'?" if close else ";"
        raise BadInput(f"{sheet.path}: no column '{target}'{suggestion} columns: {_listed(names)}")
    if column in sheet.dropped:
        raise BadInput(f"--drop: '{names[column]}' is the target")
    return column


def classes_of(
    sheet: Sheet, column: int, labels: Counter[str], notes: list[str]
) -> tuple[dict[str, int], list[str]]:
    """The index of the class that each label stands for, and the classes' names.

    Labels that are all numbers are compared as numbers, exactly: 1 and 1.0 are one class, and
    12345678901234567 and 12345678901234568 are two.
    """
    name = sheet.names[column]
    present = {label: n for label, n in labels.items() if label not in sheet.missing}
    if not present:
        raise BadInput(f"{sheet.path}: target '{name}' is missing in every row")
    numbers = {label: plain(label, sheet.decimal or ".") for label in present}
    values: dict[str, Decimal] = {a: Decimal(b) for a, b in numbers.items() if b is not None}
    numeric = len(values) == len(present)
    known: dict = values if numeric else {label: label for label in present}
    distinct, n = sorted(set(known.values())), sum(present.values())
    if len(distinct) == 1:
        raise BadInput(
            f"{sheet.path}: target '{name}' holds one class only, '{next(iter(present))}' "
            f"({count(n, 'row')}); at least two are needed"
        )
    if numeric:
        _refuse_regression(sheet, column, distinct, n)
        if len(distinct) > MAX_NUMERIC_CLASSES / 2:
            notes.append(f"'{name}' holds {len(distinct)} numbers, each of which is a class")
    if len(distinct) == n or (len(distinct) > MAX_LEVELS and len(distinct) > n / 2):
        raise BadInput(
            f"{sheet.path}: target '{name}' has {len(distinct)} distinct values in "
            f"{count(n, 'row')}: these are no classes; {_other_target(sheet)}"
        )
    at = {value: i for i, value in enumerate(distinct)}
    return {label: at[value] for label, value in known.items()}, list(map(_plain, distinct))


def _labelled(sheet: Sheet, column: int, rows: list[Row], notes: list[str]) -> list[Row]:
    without = [row for row in rows if row.cells[column] in sheet.missing]
    if without:
        note_unlabelled(
            Counter(_cells(without, column)), notes, f" (first: row {without[0].number})"
        )
    return [row for row in rows if row.cells[column] not in sheet.missing]


def note_unlabelled(labels: Counter[str], notes: list[str], where: str = "") -> None:
    """Say how many rows have no target, and what stands there instead."""
    notes.append(f"{count(labels.total(), 'row')} without a target dropped{where}")
    written = [label for label in labels if label]
    if written:
        notes.append(f"taken for a missing target: {_listed(written)} (--missing says what is)")


def _refuse_regression(sheet: Sheet, column: int, distinct: list[Decimal], n: int) -> None:
    whole = all(value.is_finite() and value == value.to_integral_value() for value in distinct)
    limit = max(MAX_NUMERIC_CLASSES, n / 20) if whole else MAX_NUMERIC_CLASSES / 2
    if len(distinct) > limit or (not whole and len(distinct) > max(2, n / 2)):
        raise BadInput(
            f"{sheet.path}: target '{sheet.names[column]}' holds {len(distinct)} distinct numbers "
            f"in {count(n, 'row')}, each of which would be a class: this looks like regression, "
            f"and jaxlin classifies; {_other_target(sheet)} (or give the classes names, such as c1)"
        )


def _other_target(sheet: Sheet) -> str:
    return f"choose another column with --target: {_listed(sheet.names)}"


# The features


def _features(
    sheet: Sheet, rows: list[Row], target: int, notes: list[str]
) -> tuple[np.ndarray, list[str]]:
    features: dict[str, np.ndarray] = {}
    filled: list[str] = []
    encoded: list[str] = []
    dropped: list[str] = []
    for column, name in enumerate(sheet.names):
        if column == target or column in sheet.dropped:
            continue
        cells = _cells(rows, column)
        present = Counter(cell for cell in cells if cell not in sheet.missing)
        if len(present) < 2:
            dropped.append(f"'{name}' ({'constant' if present else 'empty'})")
        elif (known := _numbers(sheet, present)) is not None:
            features[name] = _filled(sheet, rows, column, known, filled)
        elif _are_names(present, len(cells)):
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


def _are_names(present: Counter, rows: int) -> bool:
    """Whether texts are names or dates, most of which stand once; or columns of them too large."""
    levels = len(present)
    return (levels > 10 and levels > rows / 2) or levels * rows > MAX_CELLS


def _numbers(sheet: Sheet, present: Counter) -> dict[str, float | None] | None:
    """What each distinct cell is as a number; None if most values of the column are none."""
    known = {cell: sheet.number(cell) for cell in present}
    numeric = sum(present[cell] for cell, value in known.items() if value is not None)
    return known if 2 * numeric >= present.total() else None


def _filled(
    sheet: Sheet, rows: list[Row], column: int, known: dict[str, float | None], filled: list[str]
) -> np.ndarray:
    """A column of numbers, its missing values replaced by the mean of the others."""
    wrong = {c for c, value in known.items() if value is None or not abs(value) <= LARGEST}
    if wrong:
        row = next(row for row in rows if row.cells[column] in wrong)
        cell = row.cells[column]
        text = known[cell] is None
        what = "a number, as most values of this column are" if text else "finite, or is too large"
        raise BadInput(f"{sheet.place(row, column)}: '{short(cell)}' is not {what}")
    values = np.array([known.get(cell, np.nan) for cell in _cells(rows, column)], float)
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
    missing = sum(cell not in present for cell in cells)
    if missing:
        filled.append(f"'{name}' ({missing}, by the most frequent, '{usual}')")
    values = np.array([cell if cell in present else usual for cell in cells])
    return {f"{name}={level}": (values == level).astype(float) for level in levels[1:]}


# Words


def _note(notes: list[str], what: str, items: list[str]) -> None:
    if items:
        notes.append(f"{what}: {_listed(items, quote=False)}")


def _listed(names: list[str], quote: bool = True) -> str:
    shown = ", ".join(f"'{name}'" if quote else name for name in names[:MAX_LISTED])
    more = len(names) - MAX_LISTED
    return f"{shown} and {more} more" if more > 0 else shown


def _plain(value: str | Decimal) -> str:
    if isinstance(value, str) or not value.is_finite():
        return str(value)
    return f"{value.normalize():f}" if abs(value.adjusted()) < 30 else str(value)

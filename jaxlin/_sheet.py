"""From a delimited text file to a rectangle of cells that know their place.

The command line's reader, first half: separator, header, quotes and encoding. Whatever is wrong
raises `BadInput`, whose one line names row and column. Rows are counted from 1 without the header
and blank lines; lines are those of the file. Standard library only.
"""

import csv
import io
from collections import Counter
from pathlib import Path
from typing import NamedTuple

DELIMITERS = "\t;|,"


class BadInput(Exception):
    """What is wrong with the user's input, in one line."""

    def __str__(self) -> str:
        return " ".join(super().__str__().split())  # a quoted cell may hold line breaks


class Row(NamedTuple):
    """The cells of one row, and where in the file it stands."""

    number: int
    line: int
    cells: list[str]


class Sheet(NamedTuple):
    """Rows of equal length under column names."""

    path: str
    names: list[str]
    rows: list[Row]
    decimal_comma: bool
    has_header: bool

    def place(self, row: Row, column: int) -> str:
        """Where a cell stands, in words."""
        hint = "" if self.has_header else " (no header found: row 1 is the first line)"
        name = self.names[column]
        return f"{self.path}: row {row.number} (line {row.line}), column '{name}'{hint}"

    def cells(self, column: int) -> list[str]:
        """One column."""
        return [row.cells[column] for row in self.rows]


def read(path: str, notes: list[str]) -> Sheet:
    """Read a text file, and add to `notes` what a reader should know of how it was taken."""
    text = _text(path)
    delimiter = _delimiter(text)
    rows = _parse(path, text, delimiter, notes)
    if not rows:
        raise BadInput(f"{path}: the file is empty")
    while all(len(row.cells) > 1 and not row.cells[-1] for row in rows):
        rows = [row._replace(cells=row.cells[:-1]) for row in rows]  # a trailing separator
    has_header = _has_header(rows)
    names = _names(rows[0].cells, has_header, notes)
    rows = rows[1:] if has_header else [r._replace(number=r.number + 1) for r in rows]
    if not rows:
        raise BadInput(f"{path}: the file has a header but no rows")
    if len(names) < 2:
        raise BadInput(
            f"{path}: only one column found (separators tried: tab, semicolon, |, comma); "
            "a target and at least one feature are needed"
        )
    sheet = Sheet(path, names, rows, delimiter != ",", has_header)
    _refuse_ragged(sheet)
    if not _is_text(text):
        _refuse_undecoded(sheet)
    return sheet


def _text(path: str) -> str:
    try:
        raw = Path(path).read_bytes()
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file") from None
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from None
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise BadInput(f"{path}: the text is UTF-16; save it as UTF-8")
    if raw.startswith(b"PK\x03\x04"):
        raise BadInput(f"{path}: a workbook or zip archive; export it as CSV")
    if b"\0" in raw:
        raise BadInput(f"{path}: not a text file (it holds zero bytes)")
    # Bytes that are not UTF-8 become lone surrogates, so that their cell can be named.
    return raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")


def _delimiter(text: str) -> str:
    """The separator that splits the first lines most evenly, then most finely."""
    sample = text[:100_000].splitlines()[:50]

    def evenness(delimiter: str) -> tuple[bool, int]:
        try:
            widths = Counter(len(r) for r in csv.reader(sample, delimiter=delimiter) if any(r))
        except csv.Error:
            return False, 0
        width = widths.most_common(1)[0][0] if widths else 0
        return len(widths) == 1 and width > 1, width

    return max(DELIMITERS, key=evenness)


def _parse(path: str, text: str, delimiter: str, notes: list[str]) -> list[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[Row] = []
    empty = 0
    try:
        for cells in reader:
            stripped = [cell.strip() for cell in cells]
            if any(stripped):
                rows.append(Row(len(rows), reader.line_num, stripped))
            elif len(cells) > 1:
                empty += 1
    except csv.Error as error:
        raise BadInput(f"{path}: line {reader.line_num}: {error} (check the quotes)") from None
    if empty:
        notes.append(f"{count(empty, 'row')} with nothing in any cell skipped")
    return rows


def _has_header(rows: list[Row]) -> bool:
    """A first row is data if a number stands in it, or if all its cells recur below."""
    first = rows[0].cells
    if any(number(cell, True) is not None for cell in first):
        return False
    below = [set(column) for column in zip(*(row.cells for row in rows[1:1000]), strict=False)]
    return not below or not all(c in column for c, column in zip(first, below, strict=False))


def _names(first: list[str], has_header: bool, notes: list[str]) -> list[str]:
    if not has_header:
        notes.append("no header: the first row is data, columns are named by their number")
        return [f"column {i + 1}" for i in range(len(first))]
    names: list[str] = []
    for i, cell in enumerate(first):
        name = unique = cell or f"column {i + 1}"
        if unique in names:
            unique = f"{name} ({names.count(name) + len(names)})"
        if unique != name:
            notes.append(f"column {i + 1} is a second '{name}', called '{unique}' here")
        names.append(unique)
    return names


def _refuse_ragged(sheet: Sheet) -> None:
    width = len(sheet.names)
    for row in sheet.rows:
        found = len(row.cells)
        if found != width:
            where = (
                f"column '{sheet.names[found]}' and what follows are missing"
                if found < width
                else f"nothing is named after column '{sheet.names[-1]}'"
            )
            raise BadInput(
                f"{sheet.path}: row {row.number} (line {row.line}) has {count(found, 'cell')}, "
                f"expected {width}: {where}"
            )


def _refuse_undecoded(sheet: Sheet) -> None:
    for column, name in enumerate(sheet.names):
        if not _is_text(name):
            raise BadInput(
                f"{sheet.path}: the header of column {column + 1} is not UTF-8; "
                "save the file as UTF-8"
            )
    for row in sheet.rows:
        for column, cell in enumerate(row.cells):
            if not _is_text(cell):
                raise BadInput(f"{sheet.place(row, column)}: not UTF-8; save the file as UTF-8")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def number(cell: str, decimal_comma: bool) -> float | None:
    """The number that a cell holds, infinities included, or None."""
    if decimal_comma and cell.count(",") == 1 and "." not in cell:
        cell = cell.replace(",", ".")
    try:
        value = float(cell)
    except ValueError:
        return None
    return None if "_" in cell or value != value else value


def count(n: int, noun: str) -> str:
    """'1 row', '2 rows'."""
    return f"{n:,} {noun}{'s' * (n != 1)}"

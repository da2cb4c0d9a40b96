"""From a delimited text file to rows of cells that know their place, in memory or as a stream.

The one reader, of the command line and of `streaming.csv`. `find` looks at the top of a file and
says how it is written: compressed or not, encoding, separator, comments and title, header. `rows`
goes through it. A `Look` hands the rows on and settles what takes all of them: the decimal mark,
and which column only counts the rows. Whatever is wrong raises `BadInput`, whose one line names row
and column. Rows are counted from 1 without the header and blank lines; lines are those of the file.
Standard library only.
"""

import csv
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from jaxlin._files import _text
from jaxlin._files._numerals import convention, is_number, number
from jaxlin._files._text import BadInput

MISSING = frozenset(
    ("", "?", "NA", "na", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NAN", "null", "NULL", "None")
)
SPACES = " "  # the separator that stands for any run of blanks
SEPARATORS = "\t;,|" + SPACES  # where two divide the lines alike, the earlier one is taken
SEPARATOR_NAMES = {"tab": "\t", "\\t": "\t", "space": SPACES, "whitespace": SPACES}
NAMELESS = ("", "Unnamed: 0")  # the second is how pandas writes back what had no name
HEAD_ROWS = 1000  # looked at to tell how a file is written
SAMPLE_LINES = 50  # of them, to tell its separator


class Options(NamedTuple):
    """What the user says of a file; what is None is found out.

    separator: a character, `tab`, or `space` for any run of blanks
    encoding: by Python's name for it
    header: whether the first row names the columns
    decimal: `.` or `,`
    missing: cells that stand for a missing value, besides empty ones
    drop: names of columns that are left out
    """

    separator: str | None = None
    encoding: str | None = None
    header: bool | None = None
    decimal: str | None = None
    missing: Iterable[str] = MISSING
    drop: Iterable[str] = ()


class Row(NamedTuple):
    """The cells of one row, and where in the file it stands."""

    number: int
    line: int
    cells: list[str]


class Sheet(NamedTuple):
    """How a file is written.

    skip: lines above the first row
    nameless: whether the first column has no name in the header
    decimal: the decimal mark; until a `Look` has settled it, what the user says
    dropped: columns that are no features
    missing: cells that stand for a missing value
    """

    path: str
    encoding: str
    separator: str
    skip: int
    names: list[str]
    has_header: bool
    nameless: bool
    decimal: str | None
    dropped: frozenset[int]
    missing: frozenset[str]

    def place(self, row: Row, column: int) -> str:
        """Where a cell stands, in words."""
        hint = "" if self.has_header else " (no header found: row 1 is the first line)"
        name = self.names[column]
        return f"{self.path}: row {row.number} (line {row.line}), column '{name}'{hint}"

    def column(self, target: str | int) -> int:
        """The index of a column that is given by name or number."""
        if isinstance(target, str) and target in self.names:
            return self.names.index(target)
        if isinstance(target, int) and -len(self.names) <= target < len(self.names):
            return target % len(self.names)
        names = ", ".join(self.names)
        raise BadInput(f"target: {self.path} has no column {target!r}, but {names}")

    def number(self, cell: str) -> float | None:
        """The number that a cell holds, infinities included, or None."""
        return number(cell, self.decimal or ".")


def find(path: str, options: Options, target: str | None, notes: list[str]) -> Sheet:
    """How a file is written, by its top; `notes` gets what a reader should know of it."""
    encoding = _text.encoding(path, options.encoding, notes)
    skip, separator, comment = _preamble(path, encoding)
    separator = _separator(options.separator) or separator or _sniffed(path, encoding, skip)
    head = list(itertools.islice(_records(path, encoding, separator, skip), HEAD_ROWS))
    if not head:
        raise BadInput(f"{path}: the file is empty")
    width = _width([cells for _, cells in head])
    while _is_title(head, width):
        (skip, cells), *head = head
        notes.append(f"title above the header skipped: '{short(' '.join(filter(None, cells)))}'")
    body = [cells for _, cells in head]
    has_header = _has_header(body, target) if options.header is None else options.header
    first = body[0]
    if has_header:
        skip = head[0][0]
    elif options.header is None and comment is not None:
        named = next(_parsed([comment], separator, path, 0), (0, []))[1]
        if len(named) == width:
            first, has_header = named, True
    if has_header and len(body) > 1 and len(first) == width - 1 > 1:
        first = ["", *first]
        notes.append("one name fewer than cells: the first column has none, as R's row names")
    names = _names(first[: max(width, len(_trimmed(first)))], has_header, notes)
    if len(names) < 2:
        raise BadInput(
            f"{path}: only one column found (separators tried: tab, semicolon, comma, |, blanks; "
            "--separator names another); a target and at least one feature are needed"
        )
    if has_header and any(is_number(name) for name in first):
        notes.append(
            "the first row names the columns, though with numbers (--no-header: it is data)"
        )
    nameless = has_header and first[0] in NAMELESS
    dropped = frozenset(_column(path, names, name) for name in options.drop)
    missing = frozenset(("", *options.missing))
    return Sheet(
        path,
        encoding,
        separator,
        skip,
        names,
        has_header,
        nameless,
        options.decimal,
        dropped,
        missing,
    )


def rows(sheet: Sheet) -> Iterator[Row]:
    """The rows, all of one length."""
    width = len(sheet.names)
    records = _records(sheet.path, sheet.encoding, sheet.separator, sheet.skip)
    for at, (line, cells) in enumerate(records, 1):
        if len(cells) != width:
            cells = cells if len(cells) < width else cells[:width] + _trimmed(cells[width:])
            if len(cells) != width:
                raise _ragged(sheet, Row(at, line, cells))
        yield Row(at, line, cells)


class Look:
    """A first look at all rows, which it hands on."""

    def __init__(self, sheet: Sheet, target: int):
        self.n = 0
        self._sheet = sheet
        self._said: dict[str, tuple[Row, int]] = {}
        used = [c for c in range(len(sheet.names)) if c not in sheet.dropped]
        self._used = used if sheet.decimal is None else []
        self._due: dict[int, int | None] = dict.fromkeys(c for c in used if c != target)
        self._counts = (0, 0) if sheet.nameless and 0 in self._due else None
        self._least = 0

    def rows(self) -> Iterator[Row]:
        """As `rows`."""
        for row in rows(self._sheet):
            self.n += 1
            self._marks(row)
            self._counted(row.cells)
            yield row

    def settled(self, notes: list[str]) -> Sheet:
        """The sheet, once all rows have been handed on."""
        if not self.n:
            raise BadInput(f"{self._sheet.path}: the file has a header but no rows")
        dropped = set(self._sheet.dropped)
        if self.n > 2 and self._is_index():
            dropped.add(0)
            notes.append("the first column has no name and numbers the rows: dropped")
        alike = [self._sheet.names[c] for c in self._due if self.n > 2 and c not in dropped]
        for name in alike:
            notes.append(f"'{name}' numbers the rows, and is a feature here (--drop leaves it out)")
        return self._sheet._replace(decimal=self._decimal(notes), dropped=frozenset(dropped))

    def _marks(self, row: Row) -> None:
        for column in self._used:
            cell = row.cells[column]
            # A decimal point is what most files have: it need be found once.
            if "," in cell or ("." in cell and "." not in self._said):
                said = convention(cell)
                if said:
                    self._said.setdefault(said, (row, column))

    def _counted(self, cells: list[str]) -> None:
        """Of which columns the next cell is the number after the last one."""
        for column, due in list(self._due.items()):
            cell = cells[column]
            if (cell.isdecimal() and cell.isascii()) if due is None else cell == str(due):
                self._due[column] = int(cell) + 1
            else:
                del self._due[column]
        if self._counts is not None:
            if cells[0].isdecimal():
                i = int(cells[0])
                self._least = i if self.n == 1 else min(self._least, i)
                self._counts = self._counts[0] + i, self._counts[1] + i * i
            else:
                self._counts = None

    def _is_index(self) -> bool:
        """Whether the nameless column holds all of 0..n-1 or 1..n, in any order, by its moments."""
        if self._counts is None or self._least > 1:
            return False
        first, last = self._least, self._least + self.n - 1
        sums = [m * (m + 1) // 2 for m in (first - 1, last)]
        squares = [m * (m + 1) * (2 * m + 1) // 6 for m in (first - 1, last)]
        return self._counts == (sums[1] - sums[0], squares[1] - squares[0])

    def _decimal(self, notes: list[str]) -> str:
        sheet, said = self._sheet, self._said
        if sheet.decimal is not None:
            return sheet.decimal
        if "," in said and "." in said:
            if sheet.separator != ",":  # who separates by commas means a point
                other = self._cell(".")
                raise BadInput(
                    f"{sheet.place(*said[','])}: '{self._cell(',')}' has a decimal comma, and "
                    f"'{other}' elsewhere a point; --decimal says which mark it is"
                )
            return "."
        if "," in said:
            notes.append(f"numbers with a decimal comma, such as '{self._cell(',')}'")
            return ","
        doubtful = next((kind for kind in ("?,", "?.") if kind in said), None)
        if doubtful and "." not in said and sheet.separator != ",":
            cell = self._cell(doubtful)
            raise BadInput(
                f"{sheet.place(*said[doubtful])}: '{cell}' may be {number(cell, '.'):g} or "
                f"{number(cell, ','):g}, and no cell of the file decides; --decimal . or "
                "--decimal , says which mark is the decimal one"
            )
        if doubtful == "?,":
            cell = self._cell(doubtful)
            notes.append(f"'{cell}' is read as {number(cell, '.'):.10g} (--decimal , if it is not)")
        return "."

    def _cell(self, kind: str) -> str:
        row, column = self._said[kind]
        return row.cells[column]


def _parsed(
    lines: Iterable[str], separator: str, path: str, skip: int
) -> Iterator[tuple[int, list[str]]]:
    """The line on which each record ends, and its cells; none without any."""
    if separator == SPACES:
        lines = (" ".join(line.split()) + "\n" for line in lines)
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)
    try:
        for cells in reader:
            stripped = [cell.strip() for cell in cells]
            if any(stripped):
                yield skip + reader.line_num, stripped
    except csv.Error as error:
        line = skip + reader.line_num
        raise BadInput(f"{path}: line {line}: {error} (check the quotes)") from None


def _records(
    path: str, encoding: str, separator: str, skip: int
) -> Iterator[tuple[int, list[str]]]:
    lines = itertools.islice(_text.lines(path, encoding), skip, None)
    return _parsed(lines, separator, path, skip)


# The lines at the top


def _preamble(path: str, encoding: str) -> tuple[int, str | None, str | None]:
    """How many lines stand above the table, Excel's `sep=;`, and the last comment."""
    separator = comment = None
    skip = 0
    for line in _text.lines(path, encoding):
        bare = line.strip().strip('"')
        if bare.lower().startswith("sep=") and separator is None:
            separator = line.rstrip("\r\n").strip('"')[4:5] or None
        elif bare.startswith("#"):
            comment = bare.lstrip("#").strip()
        elif bare:
            break
        skip += 1
    return skip, separator, comment


def _separator(given: str | None) -> str | None:
    separator = None if given is None else SEPARATOR_NAMES.get(given.lower(), given)
    if separator is not None and (len(separator) != 1 or separator in '\r\n"'):
        raise BadInput(f"--separator {given}: expected one character, 'tab' or 'space'")
    return separator


def _sniffed(path: str, encoding: str, skip: int) -> str:
    """The separator that divides most lines alike, and then into the most numbers."""
    sample = list(itertools.islice(_text.lines(path, encoding), skip, skip + SAMPLE_LINES))

    def fitness(separator: str) -> tuple[float, float]:
        lines = [" ".join(a.split()) for a in sample] if separator == SPACES else sample
        try:
            found = list(csv.reader(lines, delimiter=separator, skipinitialspace=True))
        except csv.Error:
            return 0.0, 0.0
        widths = Counter(len(cells) for cells in found if any(cells))
        width, alike = widths.most_common(1)[0] if widths else (0, 0)
        cells = [cell.strip() for cells in found for cell in cells]
        if width < 2:
            return 0.0, 0.0
        return alike / widths.total(), sum(map(is_number, cells)) / len(cells)

    return max(SEPARATORS, key=fitness)


def _trimmed(cells: list[str]) -> list[str]:
    last = max((i for i, cell in enumerate(cells, 1) if cell), default=0)
    return cells[:last]


def _width(body: list[list[str]]) -> int:
    """The usual number of cells, without those behind a separator at the end of every line."""
    width = Counter(map(len, body)).most_common(1)[0][0]
    while width > 1 and all(len(cells) < width or not cells[width - 1] for cells in body):
        width -= 1
    return width


def _is_title(head: list[tuple[int, list[str]]], width: int) -> bool:
    """Whether the first row is text, and shorter than a header of this table."""
    if len(head) < 3 or width < 2:
        return False
    first, *body = [cells for _, cells in head]
    filled = list(filter(None, first))
    if is_number(filled[0]) or len(_trimmed(body[0])) < len(filled):
        return False
    if len(first) == width - 1 == len(filled) > 1:  # as short as R's header
        return len(body[0]) == width and _has_header(body, None)
    shorter = len(_trimmed(first)) < width
    return shorter and (len(filled) < width - 1 or width == 2)


def _has_header(body: list[list[str]], target: str | None) -> bool:
    """Whether the first row names the columns.

    A name equal to the target says so. A text above numbers says so, and one above texts that recur
    and are others; a text that recurs below says the opposite. Where nothing or both are said, a
    row with a number in it is data, unless its numbers are 0, 1, 2, as pandas numbers columns, and
    its texts are of no other row.
    """
    first, *below = body
    if target is not None and target.lower() in map(str.lower, first):
        return True
    votes, fresh = 0, []
    shift = max(0, (len(below[0]) if below else 0) - len(first))  # R's row names have no name
    for column, name in enumerate(first):
        cells = [row[column + shift] for row in below if column + shift < len(row)]
        cells = [cell for cell in cells if cell not in MISSING]
        if name in MISSING or not cells or is_number(name):
            continue
        levels = set(cells)
        fresh.append(name not in levels)
        if 2 * sum(map(is_number, cells)) > len(cells):
            votes += 1
        elif name in levels:
            votes -= 1
        elif 2 * len(levels) <= len(cells):
            votes += 1
    numbers = [cell for cell in first if is_number(cell)]
    if votes or not numbers:
        return votes >= 0
    counted = numbers == [str(i) for i in range(len(numbers))]
    return counted and len(numbers) > 1 and bool(fresh) and all(fresh)


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


def _column(path: str, names: list[str], name: str) -> int:
    if name not in names:
        raise BadInput(f"{path}: --drop: no column '{name}'; columns: {', '.join(names)}")
    return names.index(name)


def _ragged(sheet: Sheet, row: Row) -> BadInput:
    found, width = len(row.cells), len(sheet.names)
    where = (
        f"column '{sheet.names[found]}' and what follows are missing"
        if found < width
        else f"nothing is named after column '{sheet.names[-1]}'"
    )
    return BadInput(
        f"{sheet.path}: row {row.number} (line {row.line}) has {count(found, 'cell')}, "
        f"expected {width}: {where}"
    )


# Words


def short(cell: str) -> str:
    """A cell, cut where it is long."""
    return cell if len(cell) <= 40 else f"{cell[:40]}..."


def count(n: int, noun: str) -> str:
    """'1 row', '2 rows'."""
    return f"{n:,} {noun}{'s' * (n != 1)}"

"""Numbers as people write them: decimal point or comma, thousands set apart, signs of currency.

Whether `1,665` is 1665 or 1.665 no cell can say alone: `convention` is what one cell says of the
decimal mark of its file, `plain` and `number` read a cell once the mark is known. Standard library
only.
"""

import re

MARKS = ".,"
_APART = "'\u2019 \u00a0\u202f"  # set thousands apart everywhere: 1'200, 1 200
_SIGNS = "$\u20ac\u00a3\u00a5"
_PLAIN = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?inf(?:inity)?", re.I
)


def _pattern(decimal: str) -> re.Pattern:
    other = MARKS.replace(decimal, "")
    return re.compile(
        rf"(?P<sign>[+-]?)[{_SIGNS}]? ?(?P<late>[+-]?)"
        rf"(?P<whole>[1-9][0-9]{{0,2}}(?P<mark>[{other}{_APART}])[0-9]{{3}}(?:(?P=mark)[0-9]{{3}})*"
        rf"|[0-9]*)(?:{re.escape(decimal)}(?P<part>[0-9]+))?(?P<power>[eE][+-]?[0-9]+)?"
        rf" ?(?P<unit>[%{_SIGNS}]?)"
    )


_PATTERNS = {decimal: _pattern(decimal) for decimal in MARKS}


def plain(cell: str, decimal: str) -> str | None:
    """The number that a cell holds as Python writes it, infinities included, or None."""
    if (decimal == "." or "." not in cell) and _PLAIN.fullmatch(cell):
        return cell
    match = _PATTERNS[decimal].fullmatch(cell.replace("\u2212", "-"))
    if match is None:
        return None
    sign, late, whole, mark, part, power, unit = match.groups()
    if not (whole or part) or (sign and late) or (power and (mark or unit)):
        return None
    digits = whole.replace(mark, "") if mark else whole
    percent = "e-2" if unit == "%" else ""
    return f"{sign or late}{digits or '0'}{'.' if part else ''}{part or ''}{power or percent}"


def number(cell: str, decimal: str) -> float | None:
    """The number that a cell holds, infinities included, or None."""
    text = plain(cell, decimal)
    return None if text is None else float(text)


def is_number(cell: str) -> bool:
    """Whether a cell holds a number by either convention."""
    return plain(cell, ".") is not None or plain(cell, ",") is not None


def convention(cell: str) -> str:
    """What one cell says of its file: the decimal mark; `?` and its mark where it may be either.

    Thousands are groups of three digits behind one to three, of which the first is not 0. So
    `7,50`, `0,125` and `1.200,50` have a decimal comma, `1,234,567` has none, and `1,665` says
    nothing.
    """
    by_point, by_comma = plain(cell, "."), plain(cell, ",")
    if by_point == by_comma:
        return ""
    if by_point is not None and by_comma is not None:
        return "?," if "," in cell else "?."
    return "," if by_point is None else "."

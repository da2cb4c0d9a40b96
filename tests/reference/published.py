"""How many of the digits that were printed are right."""

from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from mpmath import mp

from tests.reference import answers, oracle
from tests.reference.catalogue import PROBLEMS

ERROR_DIGITS = 4  # trusted of any standard error
LOSS_DIGITS = 10  # trusted of a deviance or likelihood: their data may be in single precision
ABSENT = "-"


class Published(NamedTuple):
    """As printed; a list a class, the bias last."""

    coefficients: list[list[str]]
    errors: list[list[str]]
    loss: str | None
    deviance: str | None


def parsed(name: str) -> Published | None:
    """The table of a set, in the order of its columns, or None without one."""
    problem, data = PROBLEMS[name], answers.data_of(name)
    lines = [line.split() for line in problem.published.strip().splitlines()]
    if not lines:
        return None
    single = {line[0]: line[1] for line in lines if line[0] in ("loss", "deviance")}
    blocks: list[dict] = [{}]
    for first, *rest in lines:
        if first == "class":
            blocks.append({})
        elif first not in single:
            blocks[-1][first] = rest
    columns = [*data.names, *(["bias"] if problem.bias else [])]
    rows = [[block[c] for c in columns] for block in blocks if block]
    return Published(
        coefficients=[[pair[0] for pair in row] for row in rows],
        errors=[[pair[1] for pair in row] for row in rows],
        loss=single.get("loss"),
        deviance=single.get("deviance"),
    )


def printed(text: str) -> int:
    """The significant digits of a number as printed."""
    return len(Decimal(text).as_tuple().digits)


def right(text: str, value: Any, trust: int = 99) -> int:
    """How many digits, from the first, are right to half a unit of the last of them."""
    number, most = Decimal(text), min(printed(text), trust)
    last = number.as_tuple().exponent + printed(text)  # the place before the first digit
    with mp.workdps(oracle.DIGITS):
        error = abs(_exact(number) - mp.mpf(value))
        for digits in range(most, 0, -1):
            if error <= mp.mpf(10) ** (last - digits) / 2:
                return digits
    return 0


def tally(name: str, coefficients: Any, trust: int | None = None) -> tuple[int, int]:
    """Of all estimates of a set: the digits that are right, and that were printed."""
    table = parsed(name)
    if table is None or not table.coefficients:
        return 0, 0
    trust = 99 if trust is None else trust
    pairs = [
        (text, value)
        for texts, values in zip(table.coefficients, coefficients, strict=True)
        for text, value in zip(texts, values, strict=True)
    ]
    found = sum(right(text, value, trust) for text, value in pairs)
    return found, sum(min(printed(text), trust) for text, _ in pairs)


def deviance(name: str, loss: Any) -> Any:
    """Twice the loss above that of the saturated model, which says what each row holds."""
    with mp.workdps(oracle.DIGITS):
        saturated = mp.fsum(
            -_exact(count) * mp.log(_exact(count / sum(row)))
            for row in answers.data_of(name).counts
            for count in row
            if count
        )
        return 2 * (mp.mpf(loss) - saturated)


def _exact(value: Fraction | Decimal) -> Any:
    ratio = Fraction(value)
    return mp.mpf(ratio.numerator) / ratio.denominator

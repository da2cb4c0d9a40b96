"""What a reference set is, and how one is read.

Data are exact: a decimal of a file is the Fraction that it says.
"""

import csv
import functools
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np

DATA = Path(__file__).parent / "data"


class Data(NamedTuple):
    """Exact numbers.

    names: of the columns
    x: `(n, d)`
    counts: `(n, k)`, how many of each class a row holds; for regression `(n, 1)`, its weight
    target: `(n,)` numbers, for regression
    offset: `(n,)`, of class 1 against class 0
    """

    names: tuple[str, ...]
    x: list
    counts: list
    target: list | None = None
    offset: list | None = None


class Problem(NamedTuple):
    """A model of some data.

    fit: "logistic", "softmax", "firth" or "regress"
    load: the Data
    source: of the data, and of what was published
    published: a table as printed, or ""
    trust: significant digits of its estimates that are right
    note: what is to be known
    l2: of every feature
    bias: whether there is one
    reference: the class of score 0
    """

    fit: str
    load: Callable[[], Data]
    source: str
    published: str = ""
    trust: int = 99
    note: str = ""
    l2: Fraction = Fraction(0)
    bias: bool = True
    reference: int = 0


@functools.cache
def table(name: str) -> dict[str, list[Fraction]]:
    """The columns of a file of numbers."""
    with open(DATA / f"{name}.csv", newline="") as file:
        header, *rows = list(csv.reader(file))
    return {key: [Fraction(row[i]) for row in rows] for i, key in enumerate(header)}


def exact(array) -> list:
    """The shortest decimals that are read as these floats: what the file had."""
    if np.ndim(array) > 1:
        return [exact(row) for row in array]
    return [Fraction(repr(float(v))) for v in np.asarray(array)]


def rows_of(columns) -> list:
    return [list(row) for row in zip(*columns, strict=True)]


def classes(labels, k: int) -> list:
    return [[Fraction(int(v == c)) for c in range(k)] for v in labels]


def binary(name: str, target: str, *names: str) -> Data:
    """A file with a row an observation."""
    columns = table(name)
    return Data(names, rows_of(columns[n] for n in names), classes(columns[target], 2))


def grouped(name: str, successes: str, trials: str, *names: str) -> Data:
    """A file with a row a group of trials."""
    columns = table(name)
    pairs = zip(columns[successes], columns[trials], strict=True)
    return Data(names, rows_of(columns[n] for n in names), [[m - r, r] for r, m in pairs])


def cells(text: str, *names: str) -> Data:
    """Lines of values of the columns, then counts of the classes."""
    rows = [[Fraction(v) for v in line.split()] for line in text.strip().splitlines()]
    d = len(names)
    return Data(names, [row[:d] for row in rows], [row[d:] for row in rows])


def tabulated(name: str, *names: str) -> Data:
    """A file whose columns "0" and "1" count the classes."""
    columns = table(name)
    return Data(names, rows_of(columns[n] for n in names), rows_of([columns["0"], columns["1"]]))


def statsmodels_set(name: str):
    import statsmodels.datasets

    return getattr(statsmodels.datasets, name).load_pandas()


def bunch(load: Callable, k: int) -> Data:
    loaded = load()
    names = tuple(map(str, loaded.feature_names))
    return Data(names, exact(loaded.data), classes(loaded.target, k))

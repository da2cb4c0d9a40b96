"""Two classes that a plane separates: `svm.fit_hard_margin`."""

from fractions import Fraction
from typing import NamedTuple

import sklearn.datasets

from tests.reference.sets import exact

SIX = [[-2, -1], [-1, -1], [-1, -2], [1, 1], [1, 2], [2, 1]]


class Margin(NamedTuple):
    """Two classes that a plane separates, and the widest one, exactly."""

    x: list
    y: list
    weights: list[Fraction]
    bias: Fraction


def species(first: int, second: int, columns: slice) -> tuple[list, list]:
    loaded = sklearn.datasets.load_iris()
    some = (loaded.target == first) | (loaded.target == second)
    return exact(loaded.data[some][:, columns]), [int(v == second) for v in loaded.target[some]]


def fractions(*texts: str) -> list[Fraction]:
    return [Fraction(text) for text in texts]


MARGINS = {
    "setosa_versicolor": lambda: Margin(
        *species(0, 1, slice(4)),
        fractions("480/10427", "-5440/10427", "10460/10427", "4840/10427"),
        Fraction("-15125/10427"),
    ),
    "setosa_versicolor_petals": lambda: Margin(
        *species(0, 1, slice(2, 4)), fractions("22/17", "14/17"), Fraction("-322/85")
    ),
    "setosa_virginica_petals": lambda: Margin(
        *species(0, 2, slice(2, 4)), fractions("8/13", "4/13"), Fraction("-149/65")
    ),
    "six": lambda: Margin(
        [[Fraction(v) for v in row] for row in SIX],
        [0, 0, 0, 1, 1, 1],
        fractions("1/2", "1/2"),
        Fraction(0),
    ),
}

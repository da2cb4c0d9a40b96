"""Hard problems by name: what is hard about each, and what is true of it.

Every problem is padded, by rows of weight 0 and columns that `feature_mask` leaves out, to one of
three shapes, so that a method needs three programs for all of them. What pads holds NaN: nobody may
look at it. `kind` is how the classes lie to each other, which decides what a fit without a penalty
may say; `tests/test_problems.py` proves the kinds in rational arithmetic, holds every method to
`expected`, and checks each CONVERGED by other means than the method's own.

Shapes: n rows, d columns.
"""

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxlin import (
    fisher,
    gaussian,
    lda,
    least_squares,
    logistic,
    losses,
    perceptron,
    qda,
    softmax,
    solvers,
    svm,
)
from jaxlin._base import _checks
from jaxlin.multiclass import one_vs_one, one_vs_rest
from jaxlin.types import Status
from tests import exact

NUM_CLASSES = 3  # of methods for several: two that are there and one that is not, or all three
SHAPES = {"flat": (32, 4), "wide": (12, 24), "tall": (10_040, 3)}

# How the classes lie: some plane has all rows strictly on their sides; some plane has rows on it
# and none on the wrong side; there is none; there is one class.
SEPARABLE, QUASI_SEPARABLE, OVERLAPPING = "separable", "quasi-separable", "overlapping"
ONE_CLASS, NO_DATA = "one class", "no data"


class Problem(NamedTuple):
    """Arrays as a fit takes them, and what is true of them.

    x: (n, d), y: (n,), weight: (n,), mask: (d,)
    options: traced options other than the defaults; a method without them is not concerned
    kind: how the classes lie, if the data are valid
    tags: what is hard
    invalid: the argument that is bad, or nothing; `data` for x, y and the weights
    size: the name of the shape
    """

    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    mask: np.ndarray
    options: dict[str, float]
    kind: str
    tags: frozenset[str]
    invalid: str
    size: str

    @property
    def present(self) -> np.ndarray:
        return self.weight != 0

    @property
    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`x`, `y` and weights of what is there; below the normal range XLA reads 0."""
        x = self.x[self.present][:, self.mask]
        x = np.where(np.abs(x) < np.finfo(x.dtype).tiny, 0, x)
        return x, self.y[self.present], self.weight[self.present]


def catalogue(dtype: Any = np.float64) -> dict[str, Problem]:
    """All problems by name, rounded to the dtype, and of sizes that it has digits for."""
    found: dict[str, Problem] = {}
    for family in FAMILIES:
        for name, problem in family(np.dtype(dtype)):
            assert name not in found, name
            with np.errstate(all="ignore"):
                weight = problem.weight.astype(dtype).astype(float)
                found[name] = problem._replace(x=problem.x.astype(dtype), weight=weight)
    return found


def _problem(x, y, kind, *tags, weight=None, mask=None, invalid="", size="flat", **options):
    """Pads with NaN, which has no weight, and labels that are no class."""
    x, y = np.asarray(x), np.asarray(y).astype(np.int64)
    weight = np.ones(len(x)) if weight is None else np.asarray(weight, float)
    mask = np.ones(x.shape[1], bool) if mask is None else np.asarray(mask)
    n, d = SHAPES[size]
    rows, columns = (0, n - len(x)), (0, d - x.shape[1])
    return Problem(
        x=np.pad(x, (rows, columns), constant_values=np.nan),
        y=np.pad(y, rows, constant_values=-7),
        weight=np.pad(weight, rows),
        mask=np.pad(mask, columns),
        options=options,
        kind=kind,
        tags=frozenset(tags),
        invalid=invalid,
        size=size,
    )


Named = Iterator[tuple[str, Problem]]


def _noisy(n: int = 28, d: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Multiples of 1/8 whose classes overlap: four rows occur again in the other class."""
    rng = np.random.default_rng(seed)
    x = np.round(8 * rng.normal(size=(n, d))) / 8
    y = (x[:, 0] + rng.normal(size=n) > 0).astype(int)
    x[4:8], y[:4], y[4:8] = x[:4], np.arange(4) % 2, 1 - np.arange(4) % 2
    return x, y


def _apart(n: int = 28, d: int = 3, gap: float = 1.0, seed: int = 1) -> tuple:
    """Multiples of 1/8 on the two sides of x_0 = 0, the nearest at a distance of gap / 2."""
    rng = np.random.default_rng(seed)
    x = np.round(8 * rng.normal(size=(n, d))) / 8
    y = np.arange(n) % 2
    x[:, 0] = (2 * y - 1) * (np.abs(x[:, 0]) + gap / 2)
    x[:2, 0] = (2 * y[:2] - 1) * gap / 2
    return x, y


def _separated(dtype: np.dtype) -> Named:
    """A plane separates the classes, widely or narrowly."""
    x, y = _apart()
    yield "a wide street", _problem(x, y, SEPARABLE)
    yield "a street of 1e-4", _problem(*_apart(gap=1e-4), SEPARABLE, "narrow")
    small = 2.0**-40 if dtype == np.float64 else 2.0**-15
    yield "a street near rounding", _problem(*_apart(gap=small), SEPARABLE, "narrow", "slow")
    yield "two rows", _problem(x[:2], y[:2], SEPARABLE, "few rows")
    yield "one row of one class", _problem(x[:15], np.arange(15) == 0, SEPARABLE, "singleton")
    yield "a street, penalised", _problem(x, y, SEPARABLE, l2=1e-3)
    yield "a street, hardly penalised", _problem(x, y, SEPARABLE, "weak penalty", l2=1e-10)
    yield (
        "a street, one column not penalised",
        _problem(np.roll(x, 1, axis=1), y, SEPARABLE, "free column", l2=(0.1, 0.0, 0.1)),
    )
    far = x.copy()
    far[:, 1] += 2.0**20
    yield "a street far away", _problem(far, y, SEPARABLE, "offset", "slow")
    alternating = np.arange(6)[:, None] * np.ones((1, 1))
    yield "ordered, one flip at the end", _problem(alternating, [0, 0, 0, 0, 0, 1], SEPARABLE)
    one_hot = np.eye(3)[np.arange(27) % 3]
    yield "a category per class", _problem(one_hot, np.arange(27) % 3 == 2, SEPARABLE, "collinear")
    twice = np.column_stack([x[:, 0], x[:, 0], x[:, 1]])
    yield "a street, a column twice", _problem(twice, y, SEPARABLE, "collinear")
    heavy = np.where(y == 1, 1e-6, 1e6)
    yield "a street, weights 1e12 apart", _problem(x, y, SEPARABLE, "weights", weight=heavy)


def _touching(dtype: np.dtype) -> Named:
    """A plane with rows on it and none on the wrong side."""
    yield (
        "ordered with a tie",
        _problem([[0.0], [1.0], [1.0], [2.0]], [0, 0, 1, 1], QUASI_SEPARABLE),
    )
    x, y = _noisy()
    told = np.column_stack([x[:, :2], (np.arange(28) >= 24).astype(float)])
    y = np.where(np.arange(28) >= 24, 1, y)
    yield "a category of one class only", _problem(told, y, QUASI_SEPARABLE)
    far = told * np.array([1.0, 2.0**12, 1.0])
    yield "the same, in other units", _problem(far, y, QUASI_SEPARABLE, "scales")
    yield "the same, penalised", _problem(told, y, QUASI_SEPARABLE, l2=1e-2)
    yield (
        "the same, that category not penalised",
        _problem(told, y, QUASI_SEPARABLE, "free column", l2=(0.1, 0.1, 0.0)),
    )
    cross = np.array([[0, 0], [0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]], float)
    yield "both labels at one point", _problem(cross, [0, 1, 1, 0, 1, 0], QUASI_SEPARABLE)
    line = np.array([[-2, 0], [-1, 0], [1, 0], [2, 0], [0, 1], [0, 2]], float)
    yield (
        "overlapping along one axis only",
        _problem(line, [0, 1, 0, 1, 1, 1], QUASI_SEPARABLE),
    )
    doubled = np.column_stack([told, told[:, 2]])
    yield "that category twice", _problem(doubled, y, QUASI_SEPARABLE, "collinear")


def _mixed(dtype: np.dtype) -> Named:
    """No plane separates the classes, though it may be near it."""
    x, y = _noisy()
    yield "noise", _problem(x, y, OVERLAPPING)
    yield "every row with both labels", _problem(np.r_[x[:14], x[:14]], _halves(14), OVERLAPPING)
    yield (
        "every row three times",
        _problem(np.r_[x[:9], x[:9], x[:9]], np.r_[y[:9], y[:9], y[:9]], OVERLAPPING),
    )
    exclusive = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], float)
    yield "exclusive or", _problem(exclusive, [0, 1, 1, 0], OVERLAPPING, "same means")
    line = np.arange(8.0)[:, None]
    yield "ordered, labels in turn", _problem(line, np.arange(8) % 2, OVERLAPPING)
    least = 2.0 ** (-20 if dtype == np.float64 else -10)
    crossing = np.array([[0.0], [1.0], [1.0 - least], [2.0]])
    yield "hardly crossing", _problem(crossing, [0, 0, 1, 1], OVERLAPPING, "narrow")
    breaker = np.array([[1, -5], [-2, 2], [-10, 20], [20, -5]], float)
    yield (
        "undamped Newton diverges",
        _problem(
            np.r_[breaker, -breaker[:1]],
            [0, 1, 0, 1, 0],
            OVERLAPPING,
            weight=[20, 1, 1, 1, 0.5],
        ),
    )
    heavy = np.random.default_rng(3).standard_cauchy(size=(28, 3)) ** 3
    both = np.r_[heavy[:14], heavy[:14] * 1.25]
    yield (
        "heavy tails",
        _problem(both, np.r_[y[:14], 1 - y[:14]], OVERLAPPING, "scales", "leverage"),
    )
    counts = np.random.default_rng(4).poisson(1.5, size=(30, 3)).astype(float)
    yield "counts with ties", _problem(counts, np.arange(30) % 2, OVERLAPPING)
    shares = np.random.default_rng(5).dirichlet(np.ones(4), size=30)
    yield (
        "shares that sum to one",
        _problem(shares, np.arange(30) % 2, OVERLAPPING, "near collinear"),
    )


def _halves(n: int) -> np.ndarray:
    return np.repeat([0, 1], n)


def _dependent(dtype: np.dtype) -> Named:
    """Columns that depend on each other, or on nothing."""
    x, y = _noisy()
    yield "a column twice", _problem(x[:, [0, 1, 1]], y, OVERLAPPING, "collinear")
    total = np.column_stack([x, x.sum(axis=1)])
    yield "a column the sum of others", _problem(total, y, OVERLAPPING, "collinear")
    near = np.column_stack([x[:, 0], x[:, 1], x[:, 1] + 1e-6 * x[:, 2]])
    yield "columns 1e-6 apart", _problem(near, y, OVERLAPPING, "near collinear")
    nearer = 2.0 ** (-40 if dtype == np.float64 else -17) * x[:, 2]
    nearer = np.column_stack([x[:, 0], x[:, 1], x[:, 1] + nearer])
    yield (
        "columns hardly apart",
        _problem(nearer, y, OVERLAPPING, "near collinear", "rank in doubt"),
    )
    constant = np.column_stack([x[:, :2], np.full(28, 3.0)])
    yield "a constant column", _problem(constant, y, OVERLAPPING, "collinear")
    zero = np.column_stack([x[:, :2], np.zeros(28)])
    yield "a zero column", _problem(zero, y, OVERLAPPING, "collinear")
    yield (
        "nothing but constants",
        _problem(np.full((28, 3), 2.5), y, OVERLAPPING, "collinear", "flat"),
    )
    yield "nothing but zeros", _problem(np.zeros((28, 3)), y, OVERLAPPING, "collinear", "flat")
    third = np.full(28, 1 / 3)
    yield (
        "a constant that rounds",
        _problem(np.column_stack([x[:, :2], third]), y, OVERLAPPING, "collinear"),
    )
    yield (
        "a column twice, penalised",
        _problem(x[:, [0, 1, 1]], y, OVERLAPPING, "collinear", l2=0.1),
    )
    apart = np.column_stack([x[:, :2], y])
    yield "a column of one value in each class", _problem(apart, y, SEPARABLE, "flat classes")
    turned = apart @ np.array([[1, 1, 0], [0, 1, -1], [1, 0, 2]])
    yield "a sum of one value in each class", _problem(turned, y, SEPARABLE, "flat classes")
    alone = np.column_stack([x[:, :2], np.where(y == 1, x[:, 2], 0.5)])
    yield "a column of one value in one class", _problem(alone, y, OVERLAPPING, "flat classes")
    dummies = np.eye(3)[np.arange(28) % 3]
    yield "a category in full", _problem(dummies, y, OVERLAPPING, "collinear")


def _scaled(dtype: np.dtype) -> Named:
    """Units that differ, and values far from one."""
    x, y = _noisy()
    power = 100 if dtype == np.float64 else 30
    yield "huge units", _problem(x * 2.0**power, y, OVERLAPPING, "scales")
    yield "tiny units", _problem(x * 2.0**-power, y, OVERLAPPING, "scales")
    units = 10.0 ** np.array([-8, 0, 8]) if dtype == np.float64 else 10.0 ** np.array([-4, 0, 4])
    yield "units 1e16 apart", _problem(x * units, y, OVERLAPPING, "scales")
    yield "an offset of 1e4", _problem(x + 1e4, y, OVERLAPPING, "offset")
    yield "an offset of 1e8", _problem(x + 1e8, y, OVERLAPPING, "offset", "far")
    drifting = np.column_stack([x[:, :2], 2.0**27 + np.arange(28.0)])
    yield "a date in seconds", _problem(drifting, y, OVERLAPPING, "offset", "far")
    least = np.finfo(dtype).tiny
    yield (
        "subnormal numbers",
        _problem(x * float(least) / 64, y, OVERLAPPING, "scales", "subnormal"),
    )
    lever = x.copy()
    lever[9] = 1e8
    yield (
        "one row at 1e8, as labelled",
        _problem(lever, y | (np.arange(28) == 9), OVERLAPPING, "leverage"),
    )
    other = np.where(np.arange(28) == 9, 0, y)
    yield "one row at 1e8, mislabelled", _problem(lever, other, OVERLAPPING, "leverage")
    spike = x.copy()
    spike[:, 2] = np.where(np.arange(28) == 9, 1e6, 0.0)
    yield "a column of one spike", _problem(spike, y, QUASI_SEPARABLE, "leverage")


def _weighted(dtype: np.dtype) -> Named:
    """Weights, absent rows and columns."""
    x, y = _noisy()
    rng = np.random.default_rng(6)
    spread = 10.0 ** rng.uniform(-6, 6, size=28)
    yield "weights across 1e12", _problem(x, y, OVERLAPPING, "weights", weight=spread)
    tiny, huge = (1e-200, 1e200) if dtype == np.float64 else (1e-30, 1e30)
    yield "tiny weights", _problem(x, y, OVERLAPPING, weight=np.full(28, tiny))
    yield "huge weights", _problem(x, y, OVERLAPPING, weight=np.full(28, huge))
    yield (
        "one row outweighs all",
        _problem(x, y, OVERLAPPING, "weights", weight=np.where(np.arange(28) == 20, 1e10, 1.0)),
    )
    yield (
        "classes 1 : 1e6 by weight",
        _problem(x, y, OVERLAPPING, "weights", weight=np.where(y == 1, 1e6, 1.0)),
    )
    holes, labels = x.copy(), y.copy()
    holes[10:14], labels[10:14] = [[np.nan], [np.inf], [-np.inf], [1e300]], [9, -1, 2**40, 5]
    absent = np.where((np.arange(28) >= 10) & (np.arange(28) < 14), 0.0, 1.0)
    yield "no weight where there is no number", _problem(holes, labels, OVERLAPPING, weight=absent)
    half = x.copy()
    half[:, 1] = np.nan
    yield "a masked column of NaN", _problem(half, y, OVERLAPPING, mask=[True, False, True])
    yield (
        "every column masked",
        _problem(np.full((28, 3), np.inf), y, OVERLAPPING, "flat", mask=np.zeros(3, bool)),
    )
    yield "a class without weight", _problem(x, y, ONE_CLASS, weight=(y == 1).astype(float))
    minus = np.where(np.arange(28) % 2, 0.0, -0.0)
    yield "only weights of minus zero", _problem(x, y, NO_DATA, weight=minus, invalid="data")


def _degenerate(dtype: np.dtype) -> Named:
    """Too little of something."""
    x, y = _noisy()
    yield "one row", _problem(x[:1], y[:1], ONE_CLASS, "few rows")
    yield "class 0 only", _problem(x, np.zeros(28, int), ONE_CLASS)
    yield "class 1 only", _problem(x, np.ones(28, int), ONE_CLASS)
    yield "class 1 only, penalised", _problem(x, np.ones(28, int), ONE_CLASS, l2=0.1)
    yield "as many rows as coefficients", _problem(*_apart(4), SEPARABLE, "few rows")
    yield (
        "two equal rows, two labels",
        _problem(x[[0, 0]], [0, 1], OVERLAPPING, "few rows", "collinear", "flat"),
    )
    still = np.where(y[:, None] == 1, [[1.0, 2.0, 3.0]], x)
    yield "a class without spread", _problem(still, y, SEPARABLE, "no spread")
    points = np.where(y[:, None] == 1, [[1.0, 2.0, 3.0]], [[0.0, 1.0, 5.0]])
    yield "two points", _problem(points, y, SEPARABLE, "no spread", "collinear")
    line = x[:, :1] * np.array([[1.0, 2.0, -1.0]])
    yield "rows along a line", _problem(line, y, OVERLAPPING, "collinear")
    yield (
        "equal means",
        _problem(
            np.r_[x[:8], -x[:8], 2 * x[:8], -2 * x[:8]], _halves(16), OVERLAPPING, "same means"
        ),
    )


def _refused(dtype: np.dtype) -> Named:
    """What no method can fit."""
    x, y = _noisy()
    for name, value in (("NaN", np.nan), ("infinity", np.inf), ("1e300", 1e300)):
        bad = x.copy()
        bad[3, 1] = value
        yield f"{name} in x", _problem(bad, y, NO_DATA, invalid="data")
    yield "a label outside the classes", _problem(x, y + 2, NO_DATA, invalid="data")
    yield "a negative label", _problem(x, y - 1, NO_DATA, invalid="data")
    for name, value in (("negative", -1.0), ("NaN", np.nan), ("infinite", np.inf)):
        weight = np.where(np.arange(28) == 5, value, 1.0)
        yield f"a {name} weight", _problem(x, y, NO_DATA, weight=weight, invalid="data")
    yield "no weight at all", _problem(x, y, NO_DATA, weight=np.zeros(28), invalid="data")
    for name, value in (("negative", -1.0), ("NaN", np.nan)):
        yield f"a {name} l2", _problem(x, y, OVERLAPPING, invalid="l2", l2=value)
        yield f"a {name} tol", _problem(x, y, OVERLAPPING, invalid="tol", tol=value)
    yield (
        "a negative number of steps",
        _problem(x, y, OVERLAPPING, invalid="max_steps", max_steps=-1),
    )


def _unreasonable(dtype: np.dtype) -> Named:
    """Demands that cannot be met, or are too easy."""
    x, y = _noisy()
    yield "a tol of 1e-30", _problem(x, y, OVERLAPPING, "tol", tol=1e-30)
    yield "a tol of zero", _problem(x, y, OVERLAPPING, "tol", tol=0.0)
    yield "a tol of one", _problem(x, y, OVERLAPPING, "loose", tol=1.0)
    yield "a tol of one on a street", _problem(*_apart(), SEPARABLE, "loose", tol=1.0)
    yield "no steps", _problem(x, y, OVERLAPPING, "steps", max_steps=0)
    yield "one step", _problem(x, y, OVERLAPPING, "steps", max_steps=1)
    yield "no steps on a street", _problem(*_apart(), SEPARABLE, "steps", max_steps=0)
    yield "a penalty of 1e12", _problem(x, y, OVERLAPPING, l2=1e12)
    yield "a penalty of 1e-12", _problem(x, y, OVERLAPPING, "weak penalty", l2=1e-12)


def _of_three(dtype: np.dtype) -> Named:
    """Three classes, for methods that take them."""
    rng = np.random.default_rng(8)
    x = np.round(8 * rng.normal(size=(30, 3))) / 8
    y = np.arange(30) % 3
    yield "three classes of noise", _problem(x, y, OVERLAPPING, "three")
    far = x + 8 * np.eye(3)[y] * 4
    yield "three classes apart", _problem(far, y, SEPARABLE, "three")
    one = x + 64 * (y == 2)[:, None]
    yield "one of three apart", _problem(one, y, QUASI_SEPARABLE, "three")
    yield "one of three apart, penalised", _problem(one, y, QUASI_SEPARABLE, "three", l2=0.1)
    along = np.arange(30.0)[:, None] // 10 + np.zeros((1, 1))
    yield "three in a row", _problem(along, np.arange(30) // 10, SEPARABLE, "three", "no spread")
    yield "the middle class missing", _problem(x, np.where(y == 1, 2, y), OVERLAPPING, "three")
    lone = np.where(np.arange(30) == 7, 2, y % 2)
    yield "a class of one row among three", _problem(x, lone, OVERLAPPING, "three", "singleton")


def _wide(dtype: np.dtype) -> Named:
    """More columns than rows."""
    rng = np.random.default_rng(9)
    x = np.round(8 * rng.normal(size=(12, 24))) / 8
    y = np.arange(12) % 2
    yield "twice as many columns as rows", _problem(x, y, SEPARABLE, "wide", size="wide")
    yield "the same with a penalty", _problem(x, y, SEPARABLE, "wide", size="wide", l2=0.01)
    yield (
        "both labels in every row",
        _problem(np.r_[x[:6], x[:6]], _halves(6), OVERLAPPING, "wide", "collinear", size="wide"),
    )
    yield "wide, of one class", _problem(x, 0 * y, ONE_CLASS, "wide", size="wide")
    bad = np.where(np.eye(12, 24) > 0, np.nan, x)
    yield "wide with NaN", _problem(bad, y, NO_DATA, "wide", size="wide", invalid="data")


def _tall(dtype: np.dtype) -> Named:
    """Many rows."""
    rng = np.random.default_rng(10)
    n = 10_001
    x = np.round(8 * rng.normal(size=(n, 3))) / 8
    noisy = (x[:, 0] + rng.normal(size=n) > 0).astype(int)
    yield "many rows", _problem(x, noisy, OVERLAPPING, size="tall")
    lone = (np.arange(n) == 77).astype(int)
    yield (
        "classes 1 : 10,000",
        _problem(x, lone, OVERLAPPING, "imbalance", "singleton", size="tall"),
    )
    few = (np.arange(n) % 500 == 3).astype(int)
    yield (
        "classes 1 : 500",
        _problem(x + 0.5 * few[:, None], few, OVERLAPPING, "imbalance", size="tall"),
    )
    split = (x[:, 0] > 0).astype(int)
    yield "many rows apart", _problem(x, split, SEPARABLE, "narrow", size="tall")


FAMILIES: list[Callable[[np.dtype], Named]] = [
    _separated,
    _touching,
    _mixed,
    _dependent,
    _scaled,
    _weighted,
    _degenerate,
    _refused,
    _unreasonable,
    _of_three,
    _wide,
    _tall,
]


# --- what is expected ----------------------------------------------------------------------------


class Method(NamedTuple):
    """A fit, to the catalogue.

    fit: `fit(x, y, *, ...)`
    many: whether it is for several classes
    family: which rule of `expected` it goes by
    options: the traced options that it takes, and their defaults; a cap goes by its own name
    """

    fit: Callable
    many: bool
    family: str
    options: dict[str, Any]


def _methods() -> dict[str, Method]:
    steps, tol = {"max_steps": 200}, {"tol": None}
    smooth, closed = {"l2": 0.0} | tol | steps, {}
    margin = {"l2": 0.1} | tol | steps
    squared = functools.partial(svm.fit, loss=losses.squared_hinge)
    lbfgs = functools.partial(logistic.fit, solver=solvers.lbfgs)
    walk = {"max_epochs": 100}
    rows: list[tuple[str, Callable, bool, str, dict[str, Any]]] = [
        ("least_squares.fit", least_squares.fit, True, "least squares", {"l2": 0.0}),
        ("fisher.fit", fisher.fit, False, "tied", closed),
        ("lda.fit", lda.fit, True, "tied", closed),
        ("gaussian.fit_tied", gaussian.fit_tied, True, "tied", closed),
        ("qda.fit", qda.fit, True, "per class", closed),
        ("gaussian.fit", gaussian.fit, True, "per class", closed),
        ("logistic.fit", logistic.fit, False, "smooth", smooth),
        ("logistic.fit lbfgs", lbfgs, False, "smooth", smooth | {"max_steps": 1000}),
        ("logistic.fit_firth", logistic.fit_firth, False, "firth", tol | steps),
        ("softmax.fit", softmax.fit, True, "smooth", smooth),
        ("svm.fit", svm.fit, False, "svm", margin),
        ("svm.fit squared", squared, False, "svm", margin),
        ("svm.fit_crammer_singer", svm.fit_crammer_singer, True, "svm", margin),
        ("svm.fit_hard_margin", svm.fit_hard_margin, False, "hard margin", tol | steps),
        ("perceptron.fit", perceptron.fit, False, "perceptron", walk),
        ("perceptron.fit_averaged", perceptron.fit_averaged, False, "perceptron", walk),
        ("perceptron.fit_pocket", perceptron.fit_pocket, False, "perceptron", walk),
        ("one_vs_rest(logistic.fit)", one_vs_rest(logistic.fit), True, "one vs rest", smooth),
        (
            "one_vs_one(svm.fit_hard_margin)",
            one_vs_one(svm.fit_hard_margin),
            True,
            "one vs one",
            {},
        ),
    ]
    return {name: Method(*rest) for name, *rest in rows}


METHODS = _methods()


def applies(method: Method, problem: Problem) -> bool:
    return method.many or "three" not in problem.tags


def arguments(method: Method, problem: Problem, dtype: Any) -> tuple[tuple, dict[str, Any]]:
    """What `call` takes of a problem, every option an array."""
    dtype, d = np.dtype(dtype), problem.x.shape[1]
    with np.errstate(all="ignore"):
        data = (problem.x.astype(dtype), problem.y, problem.weight.astype(dtype), problem.mask)
    given = dict(method.options)
    if "l2" in given:
        l2 = np.asarray(problem.options.get("l2", given["l2"]), dtype)
        # Columns that are not there have a penalty like any other.
        given["l2"] = np.pad(l2, (0, d - l2.size), mode="edge") if l2.ndim else np.full(d, l2)
    if "tol" in given:
        tol = problem.options.get("tol", _checks.tolerance(None, dtype))
        given["tol"] = np.asarray(tol, dtype)
    for cap in ("max_steps", "max_epochs"):
        if cap in given:
            given[cap] = np.int32(problem.options.get("max_steps", given[cap]))
    return data, given


def call(method: Method, data: tuple, options: dict[str, Any]) -> tuple[Any, Any]:
    x, y, weight, mask = data
    classes = {"num_classes": NUM_CLASSES} if method.many else {}
    return method.fit(x, y, sample_weight=weight, feature_mask=mask, **classes, **options)


def expected(name: str, problem_name: str, problem: Problem) -> set[Status]:
    """What the method may say: one status where the problem decides it.

    From what is exactly true of the problem, but for what `BEYOND_ROUNDING` lists.
    """
    method = METHODS[name]
    if problem.invalid == "data" or _is_refused(method, problem):
        return {Status.INVALID_DATA}
    if problem.kind == ONE_CLASS:
        # The penalty of Firth's method holds the bias of one class.
        return _by_rank(problem, 1) if method.family == "firth" else {Status.CLASS_TOO_SMALL}
    status, families = BEYOND_ROUNDING.get(problem_name, (None, set()))
    found = RULES[method.family](problem)
    return found | {status} if {method.family, name} & families else found


def _is_refused(method: Method, problem: Problem) -> bool:
    hopeless = method.family == "svm" and np.any(np.asarray(problem.options.get("l2", 1.0)) <= 0)
    caps = {"max_epochs"} if problem.invalid == "max_steps" else set()
    return hopeless or bool(({problem.invalid} | caps) & set(method.options))


def _by_rank(problem: Problem, groups: int) -> set[Status]:
    """CONVERGED, or RANK_DEFICIENT if the rows about their means leave a direction out."""
    x, y, _ = problem.rows
    found = exact.rank_about_means(x, y if groups > 1 else np.zeros_like(y))
    return {Status.CONVERGED if found == x.shape[1] else Status.RANK_DEFICIENT}


def _least_squares(problem: Problem) -> set[Status]:
    held = np.all(np.asarray(problem.options.get("l2", 0.0)) > 0)
    return {Status.CONVERGED} if held else _by_rank(problem, 1)


def _tied(problem: Problem) -> set[Status]:
    x, y, _ = problem.rows
    apart = exact.pairs_told_apart(x, y)
    if any(apart):
        return {Status.SEPARABLE if all(apart) else Status.QUASI_SEPARABLE}
    return _by_rank(problem, 2)


def _per_class(problem: Problem) -> set[Status]:
    x, y, _ = problem.rows
    classes = [x[y == c] for c in np.unique(y)]
    if min(map(len, classes)) <= x.shape[1]:
        return {Status.CLASS_TOO_SMALL}
    whole = exact.rank_about_means(x, np.zeros_like(y))
    if any(exact.rank_about_means(c, np.zeros(len(c), int)) < whole for c in classes):
        return {Status.SEPARABLE if all(exact.pairs_told_apart(x, y)) else Status.QUASI_SEPARABLE}
    return _by_rank(problem, 1)


def _limit(found: set[Status], problem: Problem) -> set[Status]:
    """Where there are no steps, or no tolerance can be met, that may be all there is to say."""
    if "steps" in problem.tags:
        return found | {Status.MAX_STEPS} if found & FAILED else {Status.MAX_STEPS}
    if "tol" in problem.tags:
        return found | {Status.STALLED} if found & FAILED else {Status.STALLED}
    return found


def _smooth(problem: Problem) -> set[Status]:
    if np.all(np.asarray(problem.options.get("l2", 0.0)) > 0):
        return _limit({Status.CONVERGED}, problem)
    if problem.kind == SEPARABLE:
        return _limit({Status.SEPARABLE}, problem)
    if problem.kind == QUASI_SEPARABLE:
        return _limit({Status.QUASI_SEPARABLE}, problem)
    return _limit(_by_rank(problem, 1), problem)


def _firth(problem: Problem) -> set[Status]:
    return _limit(_by_rank(problem, 1), problem)


def _svm(problem: Problem) -> set[Status]:
    return _limit({Status.CONVERGED}, problem)


def _hard_margin(problem: Problem) -> set[Status]:
    apart = problem.kind == SEPARABLE
    return _limit({Status.CONVERGED if apart else Status.NOT_SEPARABLE}, problem)


def _perceptron(problem: Problem) -> set[Status]:
    if problem.kind != SEPARABLE or "steps" in problem.tags:
        return {Status.MAX_STEPS}
    return {Status.CONVERGED} | (
        {Status.MAX_STEPS} if problem.tags & {"slow", "weights"} else set()
    )


def _one_vs_rest(problem: Problem) -> set[Status]:
    """The largest status of a class against the others."""
    x, y, _ = problem.rows
    if "three" not in problem.tags:
        return _smooth(problem)
    rest = [problem._replace(kind=exact.kind(x, y == c)) for c in np.unique(y)]
    return {max(max(_smooth(one)) for one in rest)}


def _one_vs_one(problem: Problem) -> set[Status]:
    """Whether every pair of classes can be separated."""
    x, y, _ = problem.rows
    kinds = {problem.kind}
    if "three" in problem.tags:
        pairs = itertools.combinations(np.unique(y), 2)
        kinds = {exact.kind(x[np.isin(y, pair)], y[np.isin(y, pair)]) for pair in pairs}
    return {Status.CONVERGED if kinds == {SEPARABLE} else Status.NOT_SEPARABLE}


# What is a proof whatever the steps and the tolerance.
FAILED = {Status.SEPARABLE, Status.QUASI_SEPARABLE, Status.NOT_SEPARABLE}
RULES: dict[str, Callable[[Problem], set[Status]]] = {
    "least squares": _least_squares,
    "tied": _tied,
    "per class": _per_class,
    "smooth": _smooth,
    "firth": _firth,
    "svm": _svm,
    "hard margin": _hard_margin,
    "perceptron": _perceptron,
    "one vs rest": _one_vs_rest,
    "one vs one": _one_vs_one,
}
CLOSED = {"least squares", "tied", "per class"}
SMOOTH = {"smooth", "one vs rest"}
MARGINS = {"svm", "hard margin", "one vs one"}
# What rounding keeps a method from settling: honest, and less than is exactly true.
BEYOND_ROUNDING: dict[str, tuple[Status, set[str]]] = {
    # The sums are one to rounding only.
    "shares that sum to one": (Status.RANK_DEFICIENT, CLOSED | SMOOTH | {"firth"}),
    # Products of columns have the square of the data's condition.
    "columns 1e-6 apart": (Status.STALLED, {"firth", "hard margin", "qda.fit"}),
    "columns hardly apart": (Status.STALLED, CLOSED | SMOOTH | {"firth"}),
    "one row at 1e8, as labelled": (Status.STALLED, CLOSED | SMOOTH | MARGINS | {"firth"}),
    "one row at 1e8, mislabelled": (Status.STALLED, CLOSED | SMOOTH | MARGINS | {"firth"}),
    # A weight's own rounding moves the scores by more than tol; in a quadratic squares cancel.
    "an offset of 1e8": (Status.STALLED, SMOOTH | {"svm", "qda.fit"}),
    "a date in seconds": (Status.STALLED, SMOOTH | {"svm", "qda.fit"}),
    "a street far away": (Status.STALLED, MARGINS | {"qda.fit"}),
    # A penalty on weights that are 1e-30 in these units is none.
    "huge units": (Status.STALLED, {"svm"}),
    "a street, hardly penalised": (Status.STALLED, {"svm.fit_crammer_singer"}),
    # Duals that differ by as much as double precision has digits.
    "a street, weights 1e12 apart": (Status.STALLED, {"svm"}),
    "one row outweighs all": (Status.STALLED, {"svm"}),
    "classes 1 : 1e6 by weight": (Status.STALLED, {"svm.fit_crammer_singer"}),
    # Beside Jeffreys' prior the rows weigh nothing, and their scores are anything.
    "tiny weights": (Status.STALLED, {"firth"}),
    # The first point passes, and is no optimum.
    "a tol of one on a street": (Status.STALLED, {"firth"}),
    # The mean of the walk separates later than its end.
    "a street of 1e-4": (Status.MAX_STEPS, {"perceptron"}),
    "one row of one class": (Status.MAX_STEPS, {"perceptron"}),
}
if jax.default_backend() != "cpu":
    # Only a CPU's programs take them for 0: elsewhere rows differ by what no product of them holds.
    BEYOND_ROUNDING["subnormal numbers"] = (Status.STALLED, CLOSED | SMOOTH | {"firth"})

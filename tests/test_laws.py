"""What must not matter to a classifier does not: laws of all fits, on drawn data.

A law changes the data in a way that the scores must follow: the rows in another order, the origin
elsewhere, other units, other axes, the classes renamed, a column that tells nothing. Drawn data and
their images are lanes of one program. `--thorough` draws many more.
"""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxlin
from jaxlin import fisher, lda, least_squares, logistic, softmax, svm
from jaxlin.types import Status
from tests import public
from tests.public import FITS, D, N

SEEDS = st.integers(0, 2**32 - 1)
FEW = settings(max_examples=4, deadline=None, derandomize=True)
MANY = settings(max_examples=60, deadline=None)
# A perceptron's walk depends on the order of its rows, and on the origin; and what it is told by
# weights is another thing.
WALKS = {name for name, fit in FITS.items() if not fit.weights_count}
OPTIMA = [name for name in public.NAMES if (getattr(name, "values", [name])[0]) not in WALKS]


def options_of(name):
    """What the example of a fit is given, such as the l2 of a margin, which has units."""
    return getattr(FITS[getattr(name, "values", [name])[0]].call, "keywords", {})


def profiles(names, law):
    """The law with few examples; among the thorough tests with many, and in single precision."""
    double = pytest.mark.parametrize("dtype", [np.float64])
    both = pytest.mark.parametrize("dtype", [np.float64, np.float32])
    over = pytest.mark.parametrize("name", names)
    few = over(double(FEW(given(seed=SEEDS)(law))))
    return few, pytest.mark.thorough(over(both(MANY(given(seed=SEEDS)(law)))))


def fitted(name, lanes, dtype):
    x, y, weight, mask = public.stack(lanes)
    params, info = public.lanes_of(name)(x.astype(dtype), y, weight, mask)
    return [(public.lane(params, i), int(info.status[i])) for i in range(len(lanes))]


def scores(params, x):
    """Of classes less the first's: only how they differ means anything."""
    found = np.asarray(jaxlin.scores(params, x.astype(params[0].dtype)))
    return found if found.ndim == 1 else found - found[:, :1]


def tolerance(name, dtype):
    if dtype == np.float32:
        return 5e-2 if "svm." in name else 2e-3
    # A duality gap determines scores to its root.
    return 1e-4 if "svm." in name else 1e-7


def assert_follow(name, dtype, pairs):
    """That scores are the same: of `((params, status), x)`, the first the example, its image."""
    ((params, status), x), *images = pairs
    expected = scores(params, x)
    for ((image, its_status), image_x), words in images:
        assert its_status == status or dtype == np.float32, words
        if max(status, its_status) <= Status.RANK_DEFICIENT:
            size = np.max(np.abs(expected[np.isfinite(expected)]), initial=1)
            np.testing.assert_allclose(
                scores(image, image_x), expected, atol=tolerance(name, dtype) * size, err_msg=words
            )


def rotation(rng):
    return np.linalg.qr(rng.normal(size=(D, D)))[0]


def _no_origin_no_order_no_axes(name, dtype, seed):
    rng = np.random.default_rng(seed)
    x, y, weight, mask = FITS[name].draw(seed)
    order, shift, turn = rng.permutation(N), public.grid(rng, D), rotation(rng)
    lanes = [
        (x, y, weight, mask),
        (x[order], y[order], weight[order], mask),
        (x + shift[None, :], y, weight, mask),
        (x @ turn, y, weight, mask),
    ]
    words = ["the order of rows", "the origin", "the axes"]
    results = fitted(name, lanes, dtype)
    images = zip(results[1:], (x, *(lane[0] for lane in lanes[2:])), strict=True)
    assert_follow(name, dtype, [(results[0], x), *zip(images, words, strict=True)])


def _no_units_no_idle_columns(name, dtype, seed):
    """Powers of two, by which nothing is rounded; and what a column of zeros cannot tell."""
    rng = np.random.default_rng(seed)
    x, y, weight, mask = FITS[name].draw(seed)
    units = 2.0 ** rng.integers(-20, 20, size=D)
    narrow = mask & (np.arange(D) != 1)
    zeros = np.where(np.arange(D) == 1, 0.0, x)
    lanes = [
        (x, y, weight, narrow),
        (zeros, y, weight, mask),
        (x, y, weight, mask),
        (x * units[None, :], y, weight, mask),
    ]
    without, idle, plain, scaled = fitted(name, lanes, dtype)
    if without[1] <= Status.RANK_DEFICIENT:
        assert idle[1] <= Status.RANK_DEFICIENT or dtype == np.float32
        expected, found = scores(without[0], x), scores(idle[0], zeros)
        finite = np.isfinite(expected)
        size = np.max(np.abs(expected[finite]), initial=1)
        np.testing.assert_allclose(
            found[finite], expected[finite], atol=tolerance(name, dtype) * size
        )
    if "svm." not in name:  # where l2 has units
        assert_follow(name, dtype, [(plain, x), ((scaled, lanes[3][0]), "the units")])


def _no_names(name, dtype, seed):
    """Classes renamed: the columns of the scores are, and a plane's sides."""
    x, y, weight, mask = FITS[name].draw(seed)
    k = FITS[name].num_classes
    renamed = np.random.default_rng(seed).permutation(k) if k > 2 else np.array([1, 0])
    lanes = [(x, y, weight, mask), (x, renamed[y], weight, mask)] * 2
    (params, status), (other, its_status), *_ = fitted(name, lanes, dtype)
    assert its_status == status or dtype == np.float32
    status = max(status, its_status)
    if status > Status.MAX_STEPS or (status > Status.RANK_DEFICIENT and name not in WALKS):
        return
    expected, found = scores(params, x), scores(other, x)
    if found.ndim == 1:
        np.testing.assert_allclose(
            found, -expected, atol=tolerance(name, dtype) * np.abs(found).max()
        )
    elif not name.startswith("one_vs_one"):  # whose ties go by name
        size = np.abs(found[np.isfinite(found)]).max()
        found = found[:, renamed] - found[:, renamed[:1]]
        np.testing.assert_allclose(found, expected, atol=tolerance(name, dtype) * size)


test_neither_order_nor_origin_nor_axes_matter, test_axes_often = profiles(
    OPTIMA, _no_origin_no_order_no_axes
)
test_neither_units_nor_idle_columns_matter, test_units_often = profiles(
    OPTIMA, _no_units_no_idle_columns
)
test_names_of_classes_do_not_matter, test_names_often = profiles(public.NAMES, _no_names)


def _in_units(params, units):
    """Params in other units of the features: means and spreads grow with them, weights shrink."""

    def one(field, leaf):
        grows = field in ("means", "covariance", "covariances")
        for axis in range(public.FEATURE_AXES.get(field, 0)):
            leaf = leaf * (units if grows else 1 / units).reshape((-1,) + (1,) * axis)
        return leaf

    return {field: one(field, np.asarray(leaf)) for field, leaf in params._asdict().items()}


@pytest.mark.parametrize("name", [name for name in OPTIMA if "l2" not in options_of(name)])
@FEW
@given(SEEDS)
def test_units_of_powers_of_two_change_no_bit(name, seed):
    x, y, weight, mask = FITS[name].draw(seed)
    units = 2.0 ** np.random.default_rng(seed).integers(-20, 20, size=D)
    lanes = [(x, y, weight, mask), (x * units[None, :], y, weight, mask)] * 2
    (plain, status), (scaled, its_status), *_ = fitted(name, lanes, np.float64)
    assert its_status == status
    for field, leaf in _in_units(plain, units).items():
        # Log determinants of a class each know the units.
        if (name, field) != ("qda.fit", "bias"):
            np.testing.assert_array_equal(np.asarray(getattr(scaled, field)), leaf)


# --- limits, and identities between methods ------------------------------------------------------

PENALISED = {
    "logistic.fit": logistic.fit,
    "softmax.fit": functools.partial(softmax.fit, num_classes=2),
    "least_squares.fit": functools.partial(least_squares.fit, num_classes=2),
    "svm.fit": svm.fit,
}


@pytest.mark.parametrize("name", PENALISED)
def test_an_endless_penalty_leaves_the_classes_shares(name):
    """l2 to infinity: weights go to 0 as 1 / l2, and the bias to what it is without features."""
    x, y, *_ = FITS["logistic.fit"].draw(3)
    strong, _ = PENALISED[name](x, y, l2=1e6)
    stronger, info = PENALISED[name](x, y, l2=1e9)
    assert info.status == Status.CONVERGED
    assert np.abs(strong.weights).max() < 1e-5
    if name != "svm.fit":  # whose gap says little of such weights, and whose bias lies between
        empty, _ = PENALISED[name](0 * x, y, l2=1.0)
        weights = 1e3 * stronger.weights
        np.testing.assert_allclose(weights, strong.weights, rtol=1e-2, atol=1e-12)
        np.testing.assert_allclose(stronger.bias, empty.bias, atol=1e-6)


def test_from_its_optimum_a_fit_does_not_move():
    x, y, *_ = FITS["logistic.fit"].draw(4)
    first, _ = logistic.fit(x, y)
    again, info = logistic.fit(x, y, init=first)
    assert info.status == Status.CONVERGED and info.steps <= 1
    public.assert_close(again, first, 1e-12)


@FEW
@given(SEEDS)
def test_least_squares_fisher_and_lda_share_a_direction(seed):
    """Of two classes: Hastie, Tibshirani and Friedman, exercise 4.2."""
    x, y, weight, _ = FITS["fisher.fit"].draw(seed)
    one, _ = fisher.fit(x, y, sample_weight=weight)
    two, _ = lda.fit(x, y, num_classes=2, sample_weight=weight)
    three, _ = least_squares.fit(x, y, num_classes=2, sample_weight=weight)
    directions = [one.weights, *(p.weights[1] - p.weights[0] for p in (two, three))]
    units = [np.asarray(w) / np.linalg.norm(w) for w in directions]
    for unit in units[1:]:
        np.testing.assert_allclose(unit, units[0], atol=1e-9)

"""What must not matter to a classifier does not: laws of all fits, on drawn data.

A law changes the data in a way that the scores must follow: the rows in another order, the origin
elsewhere, other units, other axes, the classes renamed, a column that tells nothing. Drawn data and
their images are lanes of one program. `--thorough` draws many more.
"""

import functools
import inspect

import jax
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import jaxlin
from jaxlin import (
    features,
    fisher,
    lda,
    least_squares,
    linear,
    logistic,
    losses,
    multiclass,
    perceptron,
    qda,
    softmax,
    svm,
)
from jaxlin.types import (
    DiagonalGaussian,
    Gaussian,
    Hyperplane,
    Linear,
    Ordinal,
    Pairwise,
    Quadratic,
    Status,
    TiedGaussian,
)
from tests import public
from tests.public import FITS, SPARE, D, N

SEEDS = st.integers(0, 2**32 - 1)
FEW = settings(max_examples=4, deadline=None, derandomize=True)
MANY = settings(max_examples=60, deadline=None)
# A perceptron's walk depends on the order of its rows, and on the origin; and what it is told by
# weights is another thing.
WALKS = {name for name, fit in FITS.items() if not fit.weights_count}
PER_CLASS = {"qda.fit", "gaussian.fit"}
OPTIMA = [name for name in public.NAMES if (getattr(name, "values", [name])[0]) not in WALKS]
# Counts have an origin, axes and units of their own; columns that are independent have axes.
COUNTED = {*public.COUNTS, "naive_bayes.fit_gaussian"}
FREE = [name for name in OPTIMA if (getattr(name, "values", [name])[0]) not in COUNTED]


# Each column is measured beside the spreads of all: they share their unit, and one more counts.
BESIDE_ALL = {"centroids.fit"}


def penalties_of(call, unit=1.0):
    """The penalties that an example is given, in these units of x."""
    given = getattr(call, "keywords", {})
    powers = {"l1": 1, "l2": 2}
    return {name: given[name] * unit ** powers[name] for name in powers if name in given}


def has_units(name):
    name = getattr(name, "values", [name])[0]
    return name in BESIDE_ALL or bool(penalties_of(FITS[name].call))


def profiles(names, law, **strategies):
    """The law with few examples; among the thorough tests with many, and in single precision."""
    drawn = given(seed=SEEDS, **strategies)
    double = pytest.mark.parametrize("dtype", [np.float64])
    both = pytest.mark.parametrize("dtype", [np.float64, np.float32])
    over = pytest.mark.parametrize("name", names)
    return over(double(FEW(drawn(law)))), pytest.mark.thorough(over(both(MANY(drawn(law)))))


def run(name, lanes, dtype):
    x, y, weight, mask = public.stack(lanes)
    return public.lanes_of(name)(x.astype(dtype), y, weight, mask)


def fitted(name, lanes, dtype):
    params, info = run(name, lanes, dtype)
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
            accuracy = tolerance(name, dtype)
            if dtype == np.float32 and name in PER_CLASS:
                # Rows lie as many squared deviations from a class as its covariance has condition,
                # and that times the unit of rounding is what can be known of them.
                accuracy = max(accuracy, size * np.finfo(dtype).eps)
            np.testing.assert_allclose(
                scores(image, image_x), expected, atol=accuracy * size, err_msg=words
            )


def rotation(rng, name):
    if name in BESIDE_ALL or "l1" in penalties_of(FITS[name].call):  # whose axes are the columns'
        return np.diag(rng.choice([-1.0, 1.0], size=D))
    return np.linalg.qr(rng.normal(size=(D, D)))[0]


def _no_origin_no_order_no_axes(name, dtype, seed):
    rng = np.random.default_rng(seed)
    x, y, weight, mask = FITS[name].draw(seed)
    order, shift, turn = rng.permutation(N), public.grid(rng, D), rotation(rng, name)
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
    if "svm." not in name and not has_units(name):
        assert_follow(name, dtype, [(plain, x), ((scaled, lanes[3][0]), "the units")])


def _no_names(name, dtype, seed):
    """Classes renamed: the columns of the scores are, and a plane's sides."""
    x, y, weight, mask = FITS[name].draw(seed)
    k = FITS[name].num_classes
    renamed = np.random.default_rng(seed).permutation(k) if k > 2 else np.array([1, 0])
    if name == "ordinal.fit":  # which names say the order
        renamed = np.arange(k)[::-1]
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


def _a_weight_of_two_is_the_row_twice(name, dtype, seed):
    x, y, _, mask = FITS[name].draw(seed)
    half, once, twice = np.arange(N) % (N // 2), np.ones(N), 2.0 * (np.arange(N) < N // 2)
    lanes = [(x, y, twice, mask), (x[half], y[half], once, mask)] * 2
    one, other, *_ = fitted(name, lanes, dtype)
    assert_follow(name, dtype, [(one, x), ((other, x), "weights")])


def _a_column_twice_is_the_column(name, dtype, seed):
    """The same scores, and of all the weights that give them the least."""
    x, y, weight, mask = FITS[name].draw(seed)
    narrow, second = mask & (np.arange(D) != 1), np.arange(D) == 1
    twice = np.where(second, x[:, :1], x)
    lanes = [(x, y, weight, narrow), (twice, y, weight, mask)] * 2
    (params, status), (other, its_status), *_ = fitted(name, lanes, dtype)
    if status == Status.CONVERGED:
        assert its_status == Status.RANK_DEFICIENT or dtype == np.float32
        assert_follow(
            name, dtype, [((params, status), x), (((other, status), twice), "a column twice")]
        )


def _alone_or_among_others(name, dtype, seed):
    """Eager, one by one, or as lanes of a compiled program: the same, in the dtype of x."""
    lanes = [FITS[name].draw(seed + i) for i in range(4)]
    lanes[2][3][1] = False
    for (x, *rest), (among, its_status) in zip(lanes, fitted(name, lanes, dtype), strict=True):
        params, info = FITS[name](x.astype(dtype), *rest)
        for leaf in (*params, *among, info.objective, info.residual):
            assert leaf.dtype == dtype
        assert its_status == info.status or dtype == np.float32
        status = max(its_status, int(info.status))
        if status <= Status.RANK_DEFICIENT or (status <= Status.MAX_STEPS and name in WALKS):
            expected, found = scores(params, x), scores(among, x)
            size = np.max(np.abs(expected[np.isfinite(expected)]), initial=1)
            np.testing.assert_allclose(found, expected, atol=tolerance(name, dtype) * size)


test_neither_order_nor_origin_nor_axes_matter, test_axes_often = profiles(
    FREE, _no_origin_no_order_no_axes
)
test_neither_units_nor_idle_columns_matter, test_units_often = profiles(
    [name for name in FREE if getattr(name, "values", [name])[0] not in BESIDE_ALL],
    _no_units_no_idle_columns,
)
test_names_of_classes_do_not_matter, test_names_often = profiles(public.NAMES, _no_names)
test_a_weight_of_two_is_the_row_twice, test_weights_often = profiles(
    OPTIMA, _a_weight_of_two_is_the_row_twice
)
test_a_column_twice_is_the_column, test_columns_often = profiles(
    [name for name in FREE if not has_units(name) and "svm." not in name],
    _a_column_twice_is_the_column,
)
test_alone_or_among_others, test_alone_often = profiles(public.NAMES, _alone_or_among_others)


# --- whatever the lanes hold ---------------------------------------------------------------------

ANY = {"dtype": np.float64, "shape": (N,)}
ROWS = ANY | {"shape": (N, D)}
LANE = st.tuples(
    arrays.arrays(elements=st.floats(), **ROWS),
    arrays.arrays(np.int64, N, elements=st.integers(-2, 3)),
    arrays.arrays(elements=st.floats(), **ANY),
    arrays.arrays(np.bool_, D),
)
FINITE = {"allow_nan": False, "allow_infinity": False}
LEGAL = st.tuples(
    arrays.arrays(elements=st.floats(**FINITE), **ROWS),
    arrays.arrays(np.int64, N, elements=st.integers(0, 1)),
    arrays.arrays(elements=st.floats(0, **FINITE), **ANY),
    arrays.arrays(np.bool_, D),
)


def _no_neighbour_no_end(name, dtype, seed, wild, legal):
    """Any values at all: every loop ends within its cap, success is finite, neighbours the same."""
    clean = [FITS[name].draw(seed), FITS[name].draw(seed + 1)]
    alone = run(name, [clean[0], clean[1], clean[0], clean[1]], dtype)
    with np.errstate(all="ignore"):
        params, info = run(name, [clean[0], wild, legal, clean[1]], dtype)
    for mine, among in [(0, 0), (1, 3)]:
        public.assert_identical(public.lane((params, info), among), public.lane(alone, mine))
    # The caps of public.FITS: walks count updates, and a hundred more are for the proof.
    assert (np.asarray(info.steps) <= (1000 * N if name in WALKS else 1100)).all()
    for i in (1, 2):
        if info.status[i] <= Status.RANK_DEFICIENT:
            assert np.isfinite(info.residual[i])
            for leaf in public.lane(params, i):
                assert not np.isnan(leaf).any()


test_no_neighbour_matters_and_every_loop_ends, test_ends_often = profiles(
    public.NAMES, _no_neighbour_no_end, wild=LANE, legal=LEGAL
)


def _what_is_absent_holds_anything(name, dtype, seed, wild):
    """Rows of weight 0, with labels outside of the classes, and masked columns: not a bit."""
    x, y, weight, mask = FITS[name].draw(seed)
    anything, labels, _, _ = wild
    weight[SPARE], mask[1] = 0, False
    held = np.isin(np.arange(N), SPARE)
    hidden = held[:, None] | ~mask[None, :]
    with np.errstate(all="ignore"):
        spoiled = np.where(hidden, anything, x), np.where(held, labels, y), weight, mask
        params, info = run(name, [(x, y, weight, mask), spoiled] * 2, dtype)
    public.assert_identical(public.lane((params, info), 1), public.lane((params, info), 0))


test_what_is_absent_holds_anything, test_absent_often = profiles(
    public.NAMES, _what_is_absent_holds_anything, wild=LANE
)


def _in_units(params, units):
    """Params in other units of the features: means and spreads grow with them, weights shrink."""

    def one(field, leaf):
        grows = field in ("means", "covariance", "covariances", "variances")
        leaf = leaf * units if field == "variances" else leaf
        for axis in range(public.FEATURE_AXES.get(field, 0)):
            leaf = leaf * (units if grows else 1 / units).reshape((-1,) + (1,) * axis)
        return leaf

    return {field: one(field, np.asarray(leaf)) for field, leaf in params._asdict().items()}


@pytest.mark.parametrize("name", [name for name in FREE if not has_units(name)])
@pytest.mark.parametrize("dtype", [np.float64, public.thorough(np.float32)])
@FEW
@given(SEEDS)
def test_units_of_powers_of_two_change_no_bit(name, dtype, seed):
    x, y, weight, mask = FITS[name].draw(seed)
    units = 2.0 ** np.random.default_rng(seed).integers(-20, 20, size=D)
    lanes = [(x, y, weight, mask), (x * units[None, :], y, weight, mask)] * 2
    (plain, status), (scaled, its_status), *_ = fitted(name, lanes, dtype)
    assert its_status == status
    for field, leaf in _in_units(plain, units).items():
        # Log determinants of a class each know the units.
        if (name, field) != ("qda.fit", "bias"):
            np.testing.assert_array_equal(np.asarray(getattr(scaled, field)), leaf)


# --- units of single precision -------------------------------------------------------------------

# What x is not alone in having units: a step, a target of the scores, a frequency.
OWN_UNITS = {"updates", "perceptron"} | {"features.cosine", "gaussian.sample"}
# What takes a fit is as that fit is, and the example's has none of its own.
OWN_UNITS |= {"resample", "probes"}
OWN_UNITS |= {*public.COUNTS, "naive_bayes.fit_gaussian", "features.one_hot"}
# Densities and determinants know the units, as their logarithms do.
DENSITIES = {"gaussian.log_joint", "gaussian.scores", "gaussian.log_density"}
DENSITIES |= {"gaussian.probabilities", "gaussian.log_probabilities"}
LIKELIHOODS = {"lda.fit", "qda.fit", "gaussian.fit", "gaussian.fit_tied", "logistic.fit_firth"}
# What hands out squares of the units of x, which leave the range of float32 sooner than x does.
SQUARES = {"qda.fit", "gaussian.fit", "gaussian.fit_tied"}
SQUARES |= {
    f"moments.{of}" for of in ("tied", "per_class", "per_column", "from_data", "regression")
}
POWERS = {"mean": 1, "scale": 1, "x": 1, "w": -1}
TINY = 2.0**-126
PARAMS = (
    DiagonalGaussian,
    Gaussian,
    Hyperplane,
    Linear,
    Ordinal,
    Pairwise,
    Quadratic,
    TiedGaussian,
)


def takes_units(name):
    module = name.split(".")[0]
    known = "x" in inspect.signature(public.FUNCTIONS[name]).parameters
    return known and not {module, name} & (OWN_UNITS | public.HOST_ONLY | DENSITIES)


UNITS = [name for name in public.FUNCTIONS if takes_units(name)]


def single(tree):
    def one(leaf):
        leaf = np.asarray(leaf) if isinstance(leaf, float | np.floating) else leaf
        wide = isinstance(leaf, np.ndarray) and leaf.dtype == np.float64
        return leaf.astype(np.float32) if wide else leaf

    return jax.tree.map(one, tree)


def fit_in_units(name):
    """`unit -> result` of a fit."""
    fit = FITS[name]
    x, *rest = fit.draw(0)

    @jax.jit
    def run(x, rest, options):
        return fit(x, *rest, **options)

    return lambda unit: run(
        single(x / 4 * unit), single(rest), penalties_of(fit.call, np.float32(unit))
    )


def case_in_units(name, case):
    """`unit -> result` of an example; params are those of the same scores."""
    arguments = case.draw(np.random.default_rng(0))
    names = list(inspect.signature(case.call).parameters)
    if names[0] == "arguments":
        names = list(inspect.signature(public.FUNCTIONS[name]).parameters)
    run = jax.jit(case.call)

    def in_unit(unit):
        options = penalties_of(case.call, np.float32(unit))
        given = []
        for known, value in zip(names, arguments, strict=False):
            if isinstance(value, PARAMS):
                value = type(value)(**_in_units(value, np.full(D, unit)))
            elif known in POWERS:
                value = value * unit ** POWERS[known] / (4 if known == "x" else 1)
            given.append(single(value))
        return run(*given, **options)

    return in_unit


@np.errstate(invalid="ignore")
def follows(plain, results, powers):
    """Whether each entry is multiplied by a power of the unit, the same for all units."""
    good = np.zeros(plain.shape, bool)
    for degree in range(-4, 5):
        holds = np.ones(plain.shape, bool)
        for power, found in zip(powers, results, strict=True):
            expected = plain * 2.0 ** (degree * power)
            # What is too small for a number is lost, in all of its terms; the large is infinite.
            near = (np.abs(expected) < 2**20 * TINY) & (np.abs(found - expected) <= 64 * TINY)
            beyond = (np.abs(expected) >= 2.0**128) & ~np.isfinite(found)
            same = (found == expected) | (np.isnan(found) & np.isnan(expected))
            holds &= near | beyond | same
        good |= holds
    return good


@pytest.mark.parametrize("name", UNITS)
def test_units_of_single_precision_change_no_bit(name):
    """From 2^-60 to 2^60, the safe range; of what are squares themselves from 2^-50 to 2^55."""
    powers = (-50, -20, 20, 55) if name in SQUARES else (-60, -20, 20, 60)
    if public.is_fit(name):
        runs = [fit_in_units(name)]
    else:
        runs = [case_in_units(name, case) for case in public.cases_of(name)]
    for run in runs:
        plain, *results = (jax.tree_util.tree_leaves_with_path(run(2.0**p)) for p in (0, *powers))
        for (path, leaf), *others in zip(plain, *results, strict=True):
            field = jax.tree_util.keystr(path)
            if name in LIKELIHOODS and field == "[1].objective":
                continue
            if name == "qda.fit" and field == "[0].bias":
                continue
            if field == ".odds_ratio.weights":  # for a unit of the column
                continue
            found = [np.asarray(other, np.float64) for _, other in others]
            assert follows(np.asarray(leaf, np.float64), found, powers).all(), field


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


def often(law):
    """An identity with few examples, and among the thorough tests with many."""
    drawn = given(seed=SEEDS)
    return FEW(drawn(law)), pytest.mark.thorough(MANY(drawn(law)))


def binary(seed):
    return FITS["logistic.fit"].draw(seed)[:3]


def _one_direction(seed):
    """Of two classes: Hastie, Tibshirani and Friedman, exercise 4.2."""
    x, y, weight = binary(seed)
    one, _ = fisher.fit(x, y, sample_weight=weight)
    two, _ = lda.fit(x, y, num_classes=2, sample_weight=weight)
    three, _ = least_squares.fit(x, y, num_classes=2, sample_weight=weight)
    directions = [one.weights, *(p.weights[1] - p.weights[0] for p in (two, three))]
    units = [np.asarray(w) / np.linalg.norm(w) for w in directions]
    for unit in units[1:]:
        np.testing.assert_allclose(unit, units[0], atol=1e-9)


def _softmax_of_two_classes_is_logistic(seed):
    x, y, weight = binary(seed)
    one, _ = logistic.fit(x, y, l2=0.05, sample_weight=weight)
    both, _ = softmax.fit(x, y, num_classes=2, l2=0.1, sample_weight=weight)
    public.assert_close(linear.between(both, 0, 1), one, 1e-9)


def _counts_are_their_rows(seed):
    """Trials and the share of them that succeeded, or a row for each."""
    rng = np.random.default_rng(seed)
    x, trials = public.grid(rng, N, D), rng.integers(1, 6, size=N)
    successes = rng.binomial(trials, 0.3 + 0.4 / (1 + np.exp(-x[:, 0])))
    # Five rows for each, of which so many are there; or the first, which counts for all.
    each, order = np.repeat(np.arange(N), 5), np.tile(np.arange(5), N)
    x, present, first = x[each], (order < trials[each]).astype(float), order == 0
    y = (order < successes[each]).astype(int)
    share, trials = (successes / trials)[each], np.where(first, trials[each], 0.0)
    for fit in (logistic.fit, logistic.fit_firth):
        plane, info = fit(x, y, sample_weight=present)
        counted, its_info = fit(x, share, sample_weight=trials)
        assert its_info.status == info.status == Status.CONVERGED
        public.assert_close(counted, plane, 1e-8)
        np.testing.assert_allclose(its_info.objective, info.objective, rtol=1e-12)
    both = np.stack([1 - share, share], axis=1)
    params, _ = softmax.fit(x, y, num_classes=2, l2=0.1, sample_weight=present)
    counted, _ = softmax.fit(x, both, num_classes=2, l2=0.1, sample_weight=trials)
    public.assert_close(counted, params, 1e-8)


def _from_its_optimum_a_fit_does_not_move(seed):
    x, y, weight = binary(seed)
    for fit in (logistic.fit, functools.partial(softmax.fit, num_classes=2)):
        for l2 in (0.0, 0.1):
            first, _ = fit(x, y, sample_weight=weight, l2=l2)
            again, info = fit(x, y, sample_weight=weight, l2=l2, init=first)
            assert info.status == Status.CONVERGED and info.steps <= 1
            public.assert_close(again, first, 1e-12)


def _one_vs_rest_of_two_classes_is_the_fit(seed):
    x, y, weight = binary(seed)
    one, _ = logistic.fit(x, y, l2=0.1, sample_weight=weight)
    fit = multiclass.one_vs_rest(logistic.fit)
    both, _ = fit(x, y, num_classes=2, l2=0.1, sample_weight=weight)
    np.testing.assert_allclose(both.weights[1], one.weights, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(both.weights[0], -one.weights, rtol=1e-9, atol=1e-12)


def many(seed):
    return FITS["lda.fit"].draw(seed)[:3]


def _wholly_shrunk_is_the_nearest_mean(seed):
    x, y, weight = many(seed)
    even = np.full(public.K, 1 / public.K)
    params, _ = lda.fit(
        x, y, num_classes=public.K, priors=even, shrinkage=1.0, sample_weight=weight
    )
    means = np.stack([np.average(x[y == c], axis=0, weights=weight[y == c]) for c in range(3)])
    squares = ((x[:, None] - means[None]) ** 2).sum(axis=-1)
    clear = np.diff(np.sort(squares, axis=1)[:, :2], axis=1)[:, 0] > 1e-9
    found = jaxlin.predict(params, x)
    np.testing.assert_array_equal(found[clear], squares.argmin(axis=1)[clear])


def _wholly_pooled_is_linear(seed):
    x, y, weight = many(seed)
    given_ = {"num_classes": public.K, "sample_weight": weight}
    quadratic, _ = qda.fit(x, y, pooling=1.0, **given_)
    flat, _ = lda.fit(x, y, **given_)
    np.testing.assert_allclose(scores(quadratic, x), scores(flat, x), atol=1e-8)


def _a_sphere_is_a_plane_among_ball_features(seed):
    rng = np.random.default_rng(seed)
    x, center, radius = rng.normal(size=(N, D)), rng.normal(size=D), rng.uniform(0.5, 2)
    plane, distance = features.ball_hyperplane(center, radius), ((x - center[None, :]) ** 2).sum(1)
    found = linear.scores(plane, features.ball(x))
    np.testing.assert_allclose(found, radius**2 - distance, atol=1e-12)


test_two_classes_have_one_direction, test_directions_often = often(_one_direction)
test_softmax_of_two_classes_is_logistic, test_softmax_often = often(
    _softmax_of_two_classes_is_logistic
)
test_counts_are_their_rows, test_counts_often = often(_counts_are_their_rows)
test_from_its_optimum_a_fit_does_not_move, test_refits_often = often(
    _from_its_optimum_a_fit_does_not_move
)
test_one_vs_rest_of_two_classes_is_the_fit, test_one_vs_rest_often = often(
    _one_vs_rest_of_two_classes_is_the_fit
)
test_wholly_shrunk_is_the_nearest_mean, test_shrunk_often = often(
    _wholly_shrunk_is_the_nearest_mean
)
test_wholly_pooled_is_linear, test_pooled_often = often(_wholly_pooled_is_linear)
test_a_sphere_is_a_plane_among_ball_features, test_spheres_often = often(
    _a_sphere_is_a_plane_among_ball_features
)


# --- what a certificate claims -------------------------------------------------------------------


def _converged_has_no_gradient(seed):
    """Computed anew in 80 bits, for columns centred and of unit mean square."""
    x, y, weight = binary(seed)
    plane, info = logistic.fit(x, y, sample_weight=weight)
    assert info.status == Status.CONVERGED
    share = np.longdouble(weight) / np.longdouble(weight).sum()
    x = np.longdouble(x) - (share @ np.longdouble(x))[None, :]
    x /= np.sqrt(share @ x**2)[None, :]
    s = np.longdouble(np.asarray(jaxlin.scores(plane, FITS["logistic.fit"].draw(seed)[0])))
    slope = share * (1 / (1 + np.exp(-s)) - y)
    largest = max(np.abs(slope @ x).max(), abs(slope.sum()))
    assert largest <= 2.0 ** (-52 * 2 / 3) and abs(largest - info.residual.item()) < 1e-14


def _the_gap_bounds_the_error(seed):
    x, y, weight = binary(seed)
    loss = [losses.hinge, losses.squared_hinge][seed % 2]
    rough, info = svm.fit(x, y, l2=0.1, loss=loss, sample_weight=weight, tol=1e-2)
    best, its_info = svm.fit(x, y, l2=0.1, loss=loss, sample_weight=weight, tol=1e-9)
    assert its_info.status == Status.CONVERGED

    def cost(plane):
        return float(losses.objective(loss, plane, x, y, l2=0.1, sample_weight=weight))

    assert info.residual <= 1e-2
    error = cost(rough) - cost(best)
    assert -1e-9 * cost(best) <= error <= info.residual * cost(rough) + 1e-12


def _mistakes_are_bounded_by_the_margin(seed):
    """R^2 / gamma^2 in the space with the bias as a weight, gamma being the widest there is."""
    rng = np.random.default_rng(seed)
    x = public.grid(rng, N, D)
    s = x @ rng.normal(size=D) + rng.normal()
    y = (s > np.median(s)).astype(int)
    x += np.outer(np.where(y, 0.5, -0.5), np.ones(D))
    space = np.asarray(features.bias(x))
    widest, info = svm.fit_hard_margin(space, y, bias=False)
    if info.status == Status.CONVERGED:
        gamma = 1 / np.linalg.norm(widest.weights)
        bound = (space**2).sum(1).max() / gamma**2 * (1 + 1e-6)
        assume(bound < 1e6)
        # Each pass but the last has a mistake.
        _, walk = perceptron.fit(x, y, max_epochs=int(bound) + 1)
        assert walk.status == Status.CONVERGED and walk.steps.item() <= bound
    else:
        _, walk = perceptron.fit(x, y, max_epochs=10_000)
        assert info.status == Status.NOT_SEPARABLE and walk.status == Status.MAX_STEPS


test_converged_has_no_gradient, test_gradients_often = often(_converged_has_no_gradient)
test_the_gap_bounds_the_error, test_gaps_often = often(_the_gap_bounds_the_error)
test_mistakes_are_bounded_by_the_margin, test_mistakes_often = often(
    _mistakes_are_bounded_by_the_margin
)

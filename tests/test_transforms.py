"""Every function of arrays composes: jit and vmap change nothing, and every fit keeps the laws.

A second call with the same shapes compiles nothing, whatever the values.

The laws of weights, masks and lanes hold for what a row or column *holds*, so each is tried with
NaN, infinity, labels outside the classes and numbers too large to square.
"""

import functools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from jaxlin._data._rows import block_rows
from jaxlin.types import Info, Status
from tests import public
from tests.counting import compiling_nothing
from tests.public import FITS, SPARE, D, N, assert_close, assert_identical, seldom

WHOLE = seldom([name for name, fit in FITS.items() if fit.whole], public.TWINS)


@pytest.mark.parametrize("name", seldom(public.CALLABLE, public.SECOND))
def test_jit_and_vmap_change_nothing(name):
    for case in public.cases_of(name):
        lanes = [case.draw(np.random.default_rng(seed)) for seed in range(3)]
        singly = [case.call(*lanes[0])]
        with compiling_nothing():
            singly += [case.call(*arguments) for arguments in lanes[1:]]
        # Both at once, because a program more is a compile more: the loop is eager, the lanes not.
        together = jax.jit(jax.vmap(case.call))(*public.stack(lanes))
        assert_close(together, public.stack(singly))


@pytest.fixture(params=public.NAMES)
def name(request):
    return request.param


@pytest.fixture(params=WHOLE)
def whole(request):
    return request.param


def close_fits(a, b):
    """Optima to far below what a tolerance of 4e-11 promises; statuses exactly."""
    (params, info), (other, other_info) = a, b
    assert_identical(info.status, other_info.status)
    assert_close(params, other, 1e-8)
    for field in ("objective", "residual"):
        assert_close(getattr(info, field), getattr(other_info, field), 1e-8)


def test_lanes_are_the_loop(whole):
    lanes = [FITS[whole].draw(seed) for seed in range(4)]
    lanes[2][3][1] = False  # one lane has a narrower problem
    together = public.lanes_of(whole)(*public.stack(lanes))
    singly = [FITS[whole](*arguments) for arguments in lanes]
    assert set(together[1].status.tolist()) <= {
        Status.CONVERGED,
        Status.MAX_STEPS,
        Status.NOT_SEPARABLE,
    }
    close_fits(together, public.stack(singly))
    if not FITS[whole].weights_count:  # exact arithmetic: the same walk to the last step
        assert_identical(together[1].steps, public.stack(singly)[1].steps)


def test_lanes_that_share_x_are_the_loop(name):
    x, y, _, mask = FITS[name].draw(0)
    weights = np.stack([FITS[name].draw(seed)[2] for seed in range(4)])
    together = public.weighted_lanes_of(name)(x, y, weights, mask)
    singly = [FITS[name](x, y, weights[0], mask)]
    with compiling_nothing():
        singly += [FITS[name](x, y, weight, mask) for weight in weights[1:]]
    close_fits(together, public.stack(singly))


# --- weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize("hole", [np.nan, np.inf, -np.inf, 1e30, 1e300, -3.0])
def test_a_row_of_weight_zero_is_absent_whatever_it_holds(name, hole):
    x, y, weight, mask = FITS[name].draw(0)
    weight[SPARE] = 0
    clean = FITS[name](x, y, weight, mask)
    holed = x.copy()
    holed[SPARE[0], 1], holed[SPARE[1:]] = hole, hole
    assert_identical(FITS[name](holed, y, weight, mask), clean)


@pytest.mark.parametrize("label", [-1, 7, 2**40, -(2**63)])
def test_a_row_of_weight_zero_is_absent_whatever_its_label(name, label):
    x, y, weight, mask = FITS[name].draw(0)
    weight[SPARE] = 0
    clean = FITS[name](x, y, weight, mask)
    y[SPARE] = label
    assert_identical(FITS[name](x, y, weight, mask), clean)


def test_a_row_of_weight_zero_among_lanes_is_absent(name):
    x, y, _, mask = FITS[name].draw(0)
    weights = np.stack([FITS[name].draw(seed)[2] for seed in range(4)])
    weights[:, SPARE] = 0
    clean = public.weighted_lanes_of(name)(x, y, weights, mask)
    for hole in (np.nan, np.inf, 1e30):
        holed, labels = x.copy(), y.copy()
        holed[SPARE], labels[SPARE] = hole, 9
        # The frame that lanes share may not look at their weights, so it may see what is absent.
        close_fits(public.weighted_lanes_of(name)(holed, labels, weights, mask), clean)


@pytest.mark.thorough
def test_every_block_of_rows_counts_once(whole):
    """Over three blocks, of which the last overlaps: in reverse order it overlaps other rows."""
    fit = FITS[whole]
    if not fit.weights_count:
        pytest.skip("here the order of the rows counts")
    n, d = 1_201, 100
    assert 2 * block_rows(d) < n < 3 * block_rows(d)
    rng = np.random.default_rng(0)
    x = public.grid(rng, n, d)
    noisy = x[:, : fit.num_classes] + 0.5 * rng.normal(size=(n, fit.num_classes))
    y = np.argmax(noisy, axis=1)
    y[-2:], x[-2:] = (0, 1), x[:2]
    y[:2] = 1, 0  # so that no plane separates the classes
    arguments = x, y, rng.choice([0.5, 1.0, 2.0], size=n)
    forward = fit(*arguments, np.ones(d, bool))
    backward = fit(*(a[::-1] for a in arguments), np.ones(d, bool))
    assert forward[1].status in (Status.CONVERGED, Status.NOT_SEPARABLE)
    assert_identical(forward[1].status, backward[1].status)
    if forward[1].status == Status.CONVERGED:
        assert_close(forward[0], backward[0], 1e-4 if whole.startswith("svm.") else 1e-8)
        assert_close(forward[1].objective, backward[1].objective, 1e-7)


def test_weights_count_rows(name):
    """Weight 2 is the row twice, and a weight can be split over copies of its row at will."""
    fit = FITS[name]
    x, y, weight, mask = fit.draw(0)
    half = N // 2
    x[half:], y[half:] = x[:half], y[:half]
    weight[half:] = 0
    twice = weight.copy()
    twice[half:] = weight[:half]
    if not fit.weights_count:
        pytest.skip("here a weight scales the update")
    single, double = fit(x, y, 2 * weight, mask), fit(x, y, twice, mask)
    close_fits(single, double)
    if fit.scale_free:
        close_fits(fit(x, y, weight, mask), double)
    moved = np.concatenate([0 * weight[:half], 2 * weight[:half]])
    close_fits(single, fit(x, y, moved, mask))


# --- masks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("hole", [np.nan, np.inf, 1e300, 5.0])
def test_a_masked_column_has_no_influence_whatever_it_holds(name, hole):
    x, y, weight, mask = FITS[name].draw(0)
    mask[1] = False
    clean = FITS[name](x, y, weight, mask)
    x[:, 1] = hole
    assert_identical(FITS[name](x, y, weight, mask), clean)
    assert all(np.all(np.isfinite(leaf)) for leaf in clean[0])
    assert not any(np.any(leaf) for leaf in public.of_feature(clean[0], 1))


def test_a_masked_column_is_a_column_dropped(whole):
    x, y, weight, mask = FITS[whole].draw(0)
    keep = np.array([0, 2])
    groups = FITS[whole].call.keywords.get("groups")
    few = {} if groups is None else {"groups": groups[keep]}
    narrow = FITS[whole](x[:, keep], y, weight, mask[keep], **few)
    mask[1], x[:, 1] = False, np.nan
    params, info = FITS[whole](x, y, weight, mask)
    close_fits((public.take_features(params, keep), info), narrow)


# --- dtypes --------------------------------------------------------------------------------------


def test_half_precision_is_its_widening(whole):
    """The example is exact in bfloat16, so only single precision's rounding may differ."""
    x, y, weight, mask = FITS[whole].draw(0)
    half = x.astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(half.astype(float), x)
    params, info = FITS[whole](half, y, weight, mask)
    wide, wide_info = FITS[whole](x, y, weight, mask)
    assert {leaf.dtype for leaf in (*params, info.residual)} == {np.dtype(np.float32)}
    assert_identical(info.status, wide_info.status)
    # A gap determines weights to its root.
    gap = float(info.residual) if whole == "svm.fit_crammer_singer" else 1e-8
    assert_close(jax.tree.map(lambda a: a.astype(np.float64), params), wide, np.sqrt(gap))


@pytest.mark.thorough
def test_labels_of_another_integer_dtype_agree(whole):
    """As bytes, in which 2 y - 1 wraps; `test_checks` has the rest."""
    x, y, weight, mask = FITS[whole].draw(0)
    assert y.dtype == np.int64
    close_fits(FITS[whole](x, y.astype(np.uint8), weight, mask), FITS[whole](x, y, weight, mask))


# --- lanes that fail -----------------------------------------------------------------------------

LANE = 1


def batch(name):
    return [np.array(a) for a in public.stack([FITS[name].draw(seed) for seed in range(4)])]


def bad_lanes(name):
    """What can be wrong with a lane, each as a batch whose other lanes are those of `batch`."""
    for argument, spoil in {
        "x is NaN": (0, lambda a: np.nan * a),
        "x holds one NaN": (0, lambda a: np.where(np.arange(D) == 1, np.nan, a)),
        "x is infinite": (0, lambda a: np.full_like(a, np.inf)),
        "x is too large to square": (0, lambda a: 1e200 * a),
        "a label is no class": (1, lambda a: a + 5),
        "a label is negative": (1, lambda a: a - 1),
        "a weight is negative": (2, lambda a: a - 1),
        "a weight is NaN": (2, lambda a: np.nan * a),
        "there is no weight": (2, lambda a: 0 * a),
    }.items():
        which, change = spoil
        arrays = batch(name)
        arrays[which][LANE] = change(arrays[which][LANE])
        yield argument, arrays


def assert_is_invalid(result, words):
    params, info = public.lane(result, LANE)
    assert info.status == Status.INVALID_DATA, words
    for leaf in (*params, info.objective, info.residual):
        assert np.all(np.isnan(leaf)), words


def test_a_bad_lane_leaves_its_neighbours_as_they_were(whole):
    good = public.lanes_of(whole)(*batch(whole))
    assert good[1].status[LANE] != Status.INVALID_DATA
    for words, arrays in bad_lanes(whole):
        result = public.lanes_of(whole)(*arrays)
        assert_is_invalid(result, words)
        assert_identical(public.without(result, LANE), public.without(good, LANE))


def test_a_bad_lane_of_weights_leaves_its_neighbours_as_they_were(name):
    """x is shared: the lane is bad because it alone gives weight to a row that is not finite."""
    x, y, _, mask = FITS[name].draw(0)
    x[SPARE[0]] = np.nan
    weights = np.stack([FITS[name].draw(seed)[2] for seed in range(4)])
    weights[:, SPARE[0]] = 0
    good = public.weighted_lanes_of(name)(x, y, weights, mask)
    assert good[1].status[LANE] != Status.INVALID_DATA
    for words, row, value in (
        ("a NaN row has weight", SPARE[0], 1.0),
        ("a NaN row has a negative weight", SPARE[0], -1.0),
        ("a weight is negative", 0, -1.0),
        ("a weight is NaN", 0, np.nan),
        ("a weight is infinite", 0, np.inf),
        ("there is no weight", slice(None), 0.0),
    ):
        spoiled = weights.copy()
        spoiled[LANE, row] = value
        result = public.weighted_lanes_of(name)(x, y, spoiled, mask)
        assert_is_invalid(result, words)
        assert_identical(public.without(result, LANE), public.without(good, LANE))


def test_a_separable_lane_leaves_its_neighbours_as_they_were(whole):
    """Not only bad data: a lane that takes longer, or ends otherwise, is felt by no other."""
    good = public.lanes_of(whole)(*batch(whole))
    arrays = batch(whole)
    arrays[0][LANE, :, 0] = 4.0 * arrays[1][LANE] - 4
    result = public.lanes_of(whole)(*arrays)
    assert_identical(public.without(result, LANE), public.without(good, LANE))


def test_a_fit_runs_inside_scan():
    """A fit is a pure function: the loop of a program may hold it."""
    fit = FITS["perceptron.fit"]
    x, y, weight, mask = fit.draw(0)

    @jax.jit
    def refit(weights):
        def step(total, weight):
            params, info = fit(x, y, weight, mask)
            return total + info.steps, params

        return jax.lax.scan(step, jnp.int32(0), weights)

    weights = np.stack([weight, 0 * weight + 1])
    total, params = refit(weights)
    singly = [fit(x, y, each, mask) for each in weights]
    assert total == sum(info.steps for _, info in singly)
    assert_identical(params, public.stack([plane for plane, _ in singly]))


def test_success_can_be_tested_inside_jit():
    @functools.partial(jax.jit, static_argnums=0)
    def succeeded(name, x, y, weight, mask):
        _, info = FITS[name](x, y, weight, mask)
        assert isinstance(info, Info)
        return info.status <= Status.RANK_DEFICIENT

    x, y, weight, mask = FITS["perceptron.fit"].draw(0)
    assert not succeeded("perceptron.fit", x, y, weight, mask)
    assert not succeeded("perceptron.fit", np.nan * x, y, weight, mask)

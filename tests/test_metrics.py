"""Metrics against scikit-learn, with weights and ties, and the laws that all of them keep."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sklearn.calibration
import sklearn.metrics
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from jaxlin import metrics
from jaxlin._scores import _ranked

N = 12
LAWS = settings(max_examples=20, deadline=None)
BINARY = [metrics.accuracy, metrics.log_loss, metrics.brier, metrics.roc_auc]
MULTICLASS = [metrics.accuracy, metrics.log_loss, metrics.brier]
RNG = np.random.default_rng(0)
Y = RNG.permutation(np.arange(N) % 2)
Y3 = RNG.permutation(np.arange(N) % 3)
WEIGHT = RNG.integers(1, 4, N).astype(float)


def of(elements, size=N):
    return st.lists(elements, min_size=size, max_size=size).map(np.array)


# Few levels, so that ties abound.
binary_scores = of(st.sampled_from([-2.0, -0.5, -0.0, 0.0, 0.3, 1.7]))
class_scores = of(st.sampled_from([-2.0, -0.5, 0.0, 0.3, 1.7]), 3 * N).map(
    lambda s: s.reshape(N, 3)
)
weights = of(st.sampled_from([0.0, 0.25, 1.0, 3.0]))


def softmax(scores):
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def agree(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


@LAWS
@given(binary_scores, of(st.integers(0, 1)), weights)
def test_binary_metrics_are_those_of_scikit_learn(scores, y, weight):
    assume(len(set(y[weight > 0])) == 2)
    chance = 1 / (1 + np.exp(-scores))
    ours = {"sample_weight": weight}
    agree(
        metrics.accuracy(scores, y, **ours), sklearn.metrics.accuracy_score(y, scores > 0, **ours)
    )
    agree(metrics.log_loss(scores, y, **ours), sklearn.metrics.log_loss(y, chance, **ours))
    agree(metrics.brier(scores, y, **ours), sklearn.metrics.brier_score_loss(y, chance, **ours))
    agree(metrics.roc_auc(scores, y, **ours), sklearn.metrics.roc_auc_score(y, scores, **ours))
    agree(
        metrics.confusion(scores, y, num_classes=2, **ours),
        sklearn.metrics.confusion_matrix(y, scores > 0, labels=[0, 1], **ours),
    )


@LAWS
@given(class_scores, of(st.integers(0, 2)), weights)
def test_multiclass_metrics_are_those_of_scikit_learn(scores, y, weight):
    assume(weight.any())
    chance, predicted = softmax(scores), scores.argmax(1)
    one_hot = np.eye(3)[y]
    ours = {"sample_weight": weight}
    agree(metrics.accuracy(scores, y, **ours), sklearn.metrics.accuracy_score(y, predicted, **ours))
    agree(
        metrics.log_loss(scores, y, **ours),
        sklearn.metrics.log_loss(y, chance, labels=[0, 1, 2], **ours),
    )
    agree(
        metrics.brier(scores, y, **ours),
        np.average(((chance - one_hot) ** 2).sum(1), weights=weight),
    )
    agree(
        metrics.confusion(scores, y, num_classes=3, **ours),
        sklearn.metrics.confusion_matrix(y, predicted, labels=[0, 1, 2], **ours),
    )


@LAWS
@given(binary_scores, weights)
def test_the_area_is_what_it_says(scores, weight):
    pairs = weight[Y == 1, None] * weight[None, Y == 0]
    s, r = scores[Y == 1, None], scores[None, Y == 0]
    assume(pairs.sum() > 0)
    wins = (pairs * ((s > r) + (s == r) / 2)).sum() / pairs.sum()
    agree(metrics.roc_auc(scores, Y, sample_weight=weight), wins)
    # Another order of the same scores, and the roles of the classes exchanged.
    agree(metrics.roc_auc(np.exp(scores), Y, sample_weight=weight), wins)
    agree(metrics.roc_auc(-scores, 1 - Y, sample_weight=weight), wins)


@LAWS
@given(class_scores)
def test_two_columns_are_their_difference(scores):
    two, one = scores[:, :2], scores[:, 1] - scores[:, 0]
    for metric in (metrics.accuracy, metrics.log_loss, metrics.roc_auc):
        agree(metric(two, Y), metric(one, Y))
    agree(metrics.brier(two, Y), 2 * metrics.brier(one, Y))


@LAWS
@given(binary_scores, of(st.integers(0, 1)), weights)
def test_more_of_two_classes_is_that_of_scikit_learn(scores, y, weight):
    assume(len(set(y[weight > 0])) == 2)
    ours, predicted = {"sample_weight": weight}, (scores > 0).astype(int)
    agree(
        metrics.average_precision(scores, y, **ours),
        sklearn.metrics.average_precision_score(y, scores, **ours),
    )
    agree(
        metrics.balanced_accuracy(scores, y, **ours),
        sklearn.metrics.balanced_accuracy_score(y, predicted, **ours),
    )
    agree(
        metrics.matthews(scores, y, **ours), sklearn.metrics.matthews_corrcoef(y, predicted, **ours)
    )
    for beta in (0.5, 1.0, 2.0):
        agree(
            metrics.f_beta(scores, y, beta=beta, **ours),
            sklearn.metrics.fbeta_score(y, predicted, beta=beta, **ours),
        )


@LAWS
@given(binary_scores, of(st.integers(0, 1)), weights)
def test_curves_are_those_of_scikit_learn(scores, y, weight):
    assume(len(set(y[weight > 0])) == 2)
    some = weight > 0
    theirs = sklearn.metrics.roc_curve(
        y[some], scores[some], sample_weight=weight[some], drop_intermediate=False
    )
    points = np.stack(metrics.roc_curve(scores, y, sample_weight=weight))
    assert points.shape == (3, N + 1)
    agree(np.array(points[:, np.r_[True, np.diff(points[2]) != 0]]), theirs)
    theirs = sklearn.metrics.precision_recall_curve(y, scores, sample_weight=weight)
    levels = np.array(sorted(set(scores[some])))
    points = np.stack(metrics.precision_recall_curve(scores, y, sample_weight=weight))
    assert points.shape == (3, N + 1)
    found = points[:, np.r_[True, np.diff(points[2]) != 0]][:, ::-1]
    # scikit-learn has a point for scores that only rows without weight have.
    kept = np.r_[np.isin(theirs[2], levels), True]
    agree(found[:2], np.stack(theirs[:2])[:, kept])
    agree(found[2, :-1], levels)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**31), weights)
def test_more_of_many_classes_is_that_of_scikit_learn(seed, weight):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(N, 3))[rng.integers(0, N - 4, N)]  # rows that tie
    y, ours = Y3, {"sample_weight": weight}
    assume(len(set(y[weight > 0])) == 3)
    chance, predicted = softmax(scores), scores.argmax(1)
    agree(
        metrics.roc_auc_one_vs_rest(scores, y, **ours),
        sklearn.metrics.roc_auc_score(y, chance, multi_class="ovr", **ours),
    )
    agree(
        metrics.roc_auc_one_vs_one(scores, y),
        sklearn.metrics.roc_auc_score(y, chance, multi_class="ovo"),
    )
    agree(
        metrics.balanced_accuracy(scores, y, **ours),
        sklearn.metrics.balanced_accuracy_score(y, predicted, **ours),
    )
    agree(
        metrics.matthews(scores, y, **ours), sklearn.metrics.matthews_corrcoef(y, predicted, **ours)
    )
    agree(
        metrics.f_beta(scores, y, beta=2.0, **ours),
        sklearn.metrics.fbeta_score(y, predicted, beta=2.0, average="macro", **ours),
    )


@LAWS
@given(binary_scores, of(st.integers(0, 1)), weights)
def test_no_threshold_costs_less_than_the_best(scores, y, weight):
    assume(weight.any())
    costs, some = COSTS[:2, :2], weight > 0
    where, cost = metrics.best_threshold(scores, y, costs=costs, sample_weight=weight)
    levels = np.unique(scores[some])
    tried = np.r_[-np.inf, (levels[1:] + levels[:-1]) / 2, np.inf]
    each = [np.average(costs[y, (scores > t).astype(int)], weights=weight) for t in tried]
    agree(cost, min(each))
    agree(each[tried.tolist().index(where)], min(each))


def test_of_thresholds_that_cost_the_same_it_is_the_highest():
    scores, y = np.array([3.0, 2.0, 1.0, 0.0]), np.array([1, 0, 1, 0])
    assert metrics.best_threshold(scores, y, costs=1 - np.eye(2))[0] == 2.5
    assert metrics.best_threshold(scores, y, costs=np.zeros((2, 2)))[0] == np.inf
    assert metrics.best_threshold(scores, y, costs=np.array([[1, 0], [1, 0]]))[0] == -np.inf


def test_thresholds_between_the_largest_scores():
    big = np.finfo(float).max
    where, _ = metrics.best_threshold(
        np.array([big, 0.9 * big]), np.array([1, 0]), costs=COSTS[:2, :2]
    )
    assert 0.9 * big < where < big


@LAWS
@given(of(st.floats(-4, 4)), of(st.integers(0, 1)))
def test_bins_are_those_of_scikit_learn(scores, y):
    p = np.asarray(jax.nn.sigmoid(scores))
    theirs = sklearn.calibration.calibration_curve(y, p, n_bins=5)
    curve = metrics.calibration_curve(scores, y, num_bins=5)
    some = np.asarray(curve.weight) > 0
    agree(curve.observed[some], theirs[0])
    agree(curve.predicted[some], theirs[1])
    apart, share = np.abs(theirs[0] - theirs[1]), np.asarray(curve.weight)[some] / N
    agree(metrics.calibration_error(scores, y, num_bins=5), (share * apart).sum())
    squares = np.sqrt((share * apart**2).sum())
    np.testing.assert_allclose(
        metrics.calibration_error(scores, y, num_bins=5, power=2), squares, atol=1e-9
    )


@pytest.mark.parametrize(
    "num_bins, wide, heavy, classes",
    [
        (5, 0.21890034364261168, 0.20549828178694163, 0.09425820330636626),
        (10, 0.2302405498281787, 0.22611683848797248, 0.09425820330636626),
    ],
)
def test_calibration_errors_are_netcals(num_bins, wide, heavy, classes):
    """As netcal 1.4.0 prints `ECE(num_bins).measure(p, y)`, and with `equal_intervals=False`."""
    i = np.arange(60)
    p, y = ((37 * i + 11) % 97) / 97, ((i * i + 3 * i) % 7 < 4).astype(int)
    scores = np.log(p) - np.log1p(-p)
    agree(metrics.calibration_error(scores, y, num_bins=num_bins), wide)
    found = metrics.calibration_error(scores, y, num_bins=num_bins, bins=metrics.equal_mass)
    agree(found, heavy)
    parts = [(7 * i + 3) % 13 + 1.01, (5 * i + 1) % 11 + 1.02, (3 * i + 2) % 17 + 1.05]
    y = np.where(i < 3, i, (i * i + i) % 3)
    agree(metrics.calibration_error(np.log(parts).T, y, num_bins=num_bins), classes)


def test_an_edge_belongs_to_the_bin_below_it():
    p = np.arange(11) / 10
    assert metrics.equal_width(p, num_bins=10).tolist() == [0, *range(10)]
    assert metrics.equal_mass(p[1:], num_bins=5).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    # 7 / 25 of 100 is more than 28 in floating point.
    hundred = metrics.equal_mass(np.arange(100) / 100, num_bins=25)
    np.testing.assert_array_equal(hundred, np.arange(100) // 4)
    # Where the shares are no binary fractions, and where equal values go together.
    weight = np.array([1.0, 2.0, 3.0, 3.0])
    assert metrics.equal_mass(p[:4], num_bins=3, sample_weight=weight).tolist() == [0, 0, 1, 2]
    assert metrics.equal_mass(np.ones(5), num_bins=3).tolist() == [0] * 5


def test_the_parts_of_brier_are_its_whole_where_bins_hold_one_value():
    scores = np.array([-2.0, -0.4, 0.3, 1.7])[RNG.integers(0, 4, N)]
    reliability, resolution, uncertainty = metrics.brier_parts(scores, Y, sample_weight=WEIGHT)
    agree(reliability - resolution + uncertainty, metrics.brier(scores, Y, sample_weight=WEIGHT))
    base = np.average(Y, weights=WEIGHT)
    agree(uncertainty, base * (1 - base))
    both = np.stack([np.zeros(N), scores], axis=1)
    for one, two in zip(
        (reliability, resolution, uncertainty),
        metrics.brier_parts(both, Y, sample_weight=WEIGHT),
        strict=True,
    ):
        agree(two, 2 * one)


def test_the_debiased_error_of_calibrated_scores_is_nothing_on_average():
    p = np.repeat([0.15, 0.45, 0.75], 20)
    draws = np.random.default_rng(1).random((4000, len(p))) < p
    scores = np.log(p / (1 - p))
    plain, debiased = (
        # The mean of the squares, of which the root is taken last.
        np.mean(
            jax.vmap(partial(squares, debiased=debiased), in_axes=(None, 0))(
                scores, draws.astype(int)
            )
        )
        for debiased in (False, True)
    )
    expected = np.mean(p * (1 - p)) / 20
    np.testing.assert_allclose(plain, expected, rtol=0.05)
    assert debiased < 0.6 * expected  # what is left is the part of it that is positive


def squares(scores, y, *, debiased):
    found = metrics.calibration_error(scores, y, num_bins=10, power=2, debiased=debiased)
    return found**2


def test_matthews_and_f_beta_of_one_class():
    one, both = np.zeros(4, int), np.array([0, 0, 1, 1])
    assert metrics.matthews(-np.ones(4), both) == 0
    assert np.isnan(metrics.matthews(np.array([-1.0, 1, 1, -1]), one))
    assert metrics.f_beta(-np.ones(4), both) == 0
    assert np.isnan(metrics.f_beta(-np.ones(4), one))
    assert np.isnan(metrics.average_precision(np.ones(4), one))


def test_the_order_of_classes_is_no_part_of_their_odds():
    scores = RNG.normal(size=(20, 4))
    shuffled = scores[:, ::-1]
    agree(
        metrics.roc_auc_one_vs_rest(scores, Y3.repeat(2)[:20]),
        metrics.roc_auc_one_vs_rest(shuffled, 3 - Y3.repeat(2)[:20]),
    )
    # Equal probabilities in another place tie to the last bit.
    rows = np.stack([scores[0], scores[0][[0, 2, 3, 1]]])
    odds = _ranked.log_odds(jnp.asarray(rows))
    assert odds[0, 0] == odds[1, 0]
    # And where the probability rounds to 1 the odds are still told apart.
    far = _ranked.log_odds(jnp.array([[60.0, 0.0, 0.0], [61.0, 0.0, 0.0]]))
    agree(far[:, 0], [60 - np.log(2), 61 - np.log(2)])


def call(metric, scores, y, weight=None):
    return metric(scores, y, sample_weight=weight)


COSTS = np.array([[0.0, 1.0, 2.5], [4.0, 0.5, 1.0], [3.0, 2.0, 0.0]])


def parts(scores, y, *, sample_weight):
    return jnp.stack(metrics.brier_parts(scores, y, num_bins=3, sample_weight=sample_weight))


def bins(scores, y, *, sample_weight):
    """Of two bins, neither of which is empty."""
    found = metrics.calibration_curve(
        scores, y, num_bins=2, bins=metrics.equal_mass, sample_weight=sample_weight
    )
    return jnp.stack(found[:2])


def threshold(scores, y, *, sample_weight):
    return jnp.stack(
        metrics.best_threshold(scores, y, costs=1 - np.eye(2), sample_weight=sample_weight)
    )


ERROR = metrics.calibration_error
OF_TWO = {
    "average_precision": metrics.average_precision,
    "expected_cost": partial(metrics.expected_cost, costs=COSTS[:2, :2]),
    "best_threshold": threshold,
}
OF_MANY = {
    "roc_auc_one_vs_rest": metrics.roc_auc_one_vs_rest,
    "roc_auc_one_vs_one": metrics.roc_auc_one_vs_one,
    "expected_cost": partial(metrics.expected_cost, costs=COSTS),
}
OF_BOTH = {
    "balanced_accuracy": metrics.balanced_accuracy,
    "f_beta": partial(metrics.f_beta, beta=0.5),
    "matthews": metrics.matthews,
    "calibration_error": ERROR,
    "calibration_error-squares": partial(ERROR, num_bins=3, bins=metrics.equal_mass, power=2),
    "calibration_error-debiased": partial(ERROR, num_bins=3, power=2, debiased=True),
    "brier_parts": parts,
    "calibration_curve": bins,
}
CASES = {
    **{f"{name}-binary": (m, RNG.normal(size=N), Y) for name, m in (OF_TWO | OF_BOTH).items()},
    **{
        f"{name}-multiclass": (m, RNG.normal(size=(N, 3)), Y3)
        for name, m in (OF_MANY | OF_BOTH).items()
    },
    **{
        f"{name}-classes": (partial(m, num_classes=3), RNG.integers(0, 3, N), Y3)
        for name, m in list(OF_BOTH.items())[:3]
    },
    "expected_cost-classes": (OF_MANY["expected_cost"], RNG.integers(0, 3, N), Y3),
    **{f"{m.__name__}-binary": (m, RNG.normal(size=N), Y) for m in BINARY},
    **{f"{m.__name__}-multiclass": (m, RNG.normal(size=(N, 3)), Y3) for m in MULTICLASS},
    "accuracy-classes": (metrics.accuracy, RNG.integers(0, 3, N), Y3),
    "confusion-binary": (partial(metrics.confusion, num_classes=2), RNG.normal(size=N), Y),
    "confusion-multiclass": (
        partial(metrics.confusion, num_classes=3),
        RNG.normal(size=(N, 3)),
        Y3,
    ),
    "confusion-classes": (partial(metrics.confusion, num_classes=3), RNG.integers(0, 3, N), Y3),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


def test_no_weights_are_weights_of_one(case):
    agree(call(*case), call(*case, np.ones(N)))


def test_a_row_of_weight_two_is_the_row_twice(case):
    metric, scores, y = case
    times = WEIGHT.astype(int)
    agree(call(*case, WEIGHT), call(metric, scores.repeat(times, axis=0), y.repeat(times)))


def test_a_row_of_weight_zero_is_absent(case):
    metric, scores, y = case
    weight = np.where(np.arange(N) % 4 == 1, 0, WEIGHT)
    gone = weight == 0
    wild = np.where(gone.reshape(-1, *[1] * (scores.ndim - 1)), 77, scores)
    if scores.dtype.kind == "f":
        wild[gone] = np.nan
    expected = call(*case, weight)
    assert np.isfinite(expected).all()
    for label in (-1, 99):
        agree(call(metric, wild, np.where(gone, label, y), weight), expected)


def test_no_weight_at_all_is_nan(case):
    assert np.isnan(call(*case, np.zeros(N))).all()


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_a_bad_weight_is_nan(case, bad):
    assert np.isnan(call(*case, np.where(np.arange(N) == 3, bad, 1.0))).all()


def test_a_label_outside_the_classes_is_nan(case):
    metric, scores, y = case
    outside = [-1] if metric is metrics.accuracy and scores.dtype.kind == "i" else [-1, 3]
    for label in outside:
        assert np.isnan(call(metric, scores, np.where(np.arange(N) == 3, label, y))).all()


def test_a_nan_score_is_nan(case):
    metric, scores, y = case
    if scores.dtype.kind != "f":
        return
    scores = scores.copy()
    scores[3] = np.nan
    assert np.isnan(call(metric, scores, y)).all()


def test_lanes_are_their_own(case):
    metric, scores, y = case
    batch = np.stack([WEIGHT, np.zeros(N), np.roll(WEIGHT, 1), -WEIGHT])
    judge = jax.jit(jax.vmap(lambda w: call(metric, scores, y, w)))
    lanes, clean = judge(batch), judge(np.abs(batch) + (batch == 0))
    assert np.isnan(lanes[1]).all() and np.isnan(lanes[3]).all()
    for i in (0, 2):
        assert np.array_equal(lanes[i], clean[i])
        agree(lanes[i], call(metric, scores, y, batch[i]))


def test_lanes_of_scores(case):
    metric, scores, y = case
    both = np.stack([scores, np.roll(scores, 1, axis=0)])
    lanes = jax.vmap(lambda s: call(metric, s, y))(both)
    agree(lanes[1], call(metric, both[1], y))


def test_ties_go_to_the_lower_class():
    assert metrics.accuracy(np.zeros(3), np.array([0, 0, 1])) == 2 / 3
    assert metrics.accuracy(np.ones((3, 3)), np.array([0, 0, 2])) == 2 / 3
    assert metrics.roc_auc(np.array([0.0, -0.0]), np.array([0, 1])) == 0.5


def test_labels_and_predictions_of_any_integer_dtype():
    for dtype in ("bool", "uint8", "int64"):
        y = Y.astype(dtype)
        assert metrics.accuracy(Y.astype("int8"), y) == 1
        assert metrics.roc_auc(Y - 0.5, y) == 1
        assert np.trace(metrics.confusion(y, Y, num_classes=2)) == N
    # A prediction that is no class is a mistake, also one that 32 bits cannot hold.
    with jax.enable_x64(False):
        assert metrics.accuracy(np.array([2**32, 1]), np.array([0, 1])) == 0.5
        assert np.isnan(metrics.log_loss(np.ones(2, "float32"), np.array([2**32, 1])))


def test_log_loss_far_out():
    scores = np.array([800.0, 800.0])
    assert metrics.log_loss(scores, np.array([1, 0])) == 400
    assert metrics.log_loss(np.stack([-scores, scores], axis=1), np.array([1, 0])) == 800
    small = metrics.log_loss(np.array([40.0]), np.array([1]))
    np.testing.assert_allclose(small, np.exp(-40), rtol=1e-14)
    np.testing.assert_allclose(
        metrics.brier(np.array([40.0]), np.array([1])), np.exp(-80), rtol=1e-14
    )


def test_an_absent_class_has_score_minus_infinity():
    scores = np.array([[1.0, 0.0, -np.inf], [0.0, 2.0, -np.inf]])
    for metric in MULTICLASS:
        agree(metric(scores, np.array([0, 1])), metric(scores[:, :2], np.array([0, 1])))
    assert metrics.log_loss(scores, np.array([0, 2])) == np.inf
    # The infinite loss of a row without weight is not felt.
    assert np.isfinite(metrics.log_loss(scores, np.array([0, 2]), sample_weight=np.array([1.0, 0])))


def test_the_area_needs_both_classes():
    assert np.isnan(metrics.roc_auc(np.arange(3.0), np.ones(3, int)))
    assert np.isnan(metrics.roc_auc(np.arange(3.0), np.array([0, 1, 1]), sample_weight=[0, 1, 1]))


def test_weights_of_any_size():
    for size in (1e-300, 1e300):
        agree(
            call(metrics.log_loss, Y - 0.3, Y, size * WEIGHT),
            call(metrics.log_loss, Y - 0.3, Y, WEIGHT),
        )
        agree(
            call(metrics.roc_auc, Y3 * 1.0, Y, size * WEIGHT),
            call(metrics.roc_auc, Y3 * 1.0, Y, WEIGHT),
        )


def test_half_precision_is_widened():
    scores = CASES["log_loss-binary"][1].astype("float16")
    for metric in BINARY:
        value = metric(scores, Y)
        assert value.dtype == "float32"
        assert value == metric(scores.astype("float32"), Y)


def test_derivatives_skip_rows_without_weight():
    scores = np.where(np.arange(N) == 3, np.nan, 0.3 * np.arange(N))
    weight = np.where(np.arange(N) == 3, 0.0, WEIGHT)
    for metric in (metrics.log_loss, metrics.brier):
        slopes = jax.grad(lambda s, w, f=metric: f(s, Y, sample_weight=w), (0, 1))(scores, weight)
        assert all(np.isfinite(slope).all() and slope[3] == 0 for slope in slopes)
    # At a finite row of weight 0 the derivative is that of the row's entrance.
    scores[3] = 1.0
    slope = jax.grad(lambda w: metrics.log_loss(scores, Y, sample_weight=w))(weight)
    value = metrics.log_loss(scores, Y, sample_weight=weight)
    row = metrics.log_loss(scores[3:4], Y[3:4])
    agree(slope[3], (row - value) / weight.sum())


def test_confusion_finds_the_number_of_classes():
    assert metrics.confusion(np.ones((N, 4)), Y).shape == (4, 4)
    assert metrics.confusion(np.ones(N), Y).shape == (2, 2)
    assert metrics.confusion(np.full(N, 4), Y).shape == (5, 5)
    with pytest.raises(TypeError, match="num_classes: expected a static integer"):
        jax.jit(metrics.confusion)(Y, Y)


def test_confusion_never_clamps():
    assert np.isnan(metrics.confusion(np.array([0, 2]), np.array([0, 1]), num_classes=2)).all()
    assert np.isnan(metrics.confusion(np.eye(3), np.array([0, 1, 1]), num_classes=2)).all()


def test_integer_scores_are_refused_where_they_are_no_predictions():
    for metric in (metrics.log_loss, metrics.brier, metrics.roc_auc):
        for scores in (Y, Y > 0):
            with pytest.raises(TypeError, match="scores: expected floats"):
                metric(scores, Y)


@pytest.mark.parametrize("metric", [*BINARY, metrics.confusion])
def test_soft_labels_are_refused(metric):
    with pytest.raises(TypeError, match="y: expected integer or bool class indices"):
        metric(np.ones(N), np.full(N, 0.5))


@pytest.mark.parametrize("metric", [*BINARY, metrics.confusion])
def test_wrong_shapes_are_refused(metric):
    with pytest.raises(ValueError, match=r"scores: expected shape"):
        metric(np.ones((2, N, 3)), Y)
    with pytest.raises(ValueError, match=r"y: expected shape \(3,\)"):
        metric(np.ones(3), Y)
    with pytest.raises(ValueError, match=r"sample_weight: expected shape \(12,\)"):
        metric(np.ones(N), Y, sample_weight=np.ones((N, 1)))


def test_more_refusals():
    with pytest.raises(ValueError, match=r"scores: expected shape \(n, k\)"):
        metrics.roc_auc_one_vs_rest(np.ones(N), Y)
    with pytest.raises(ValueError, match=r"costs: expected shape \(2, 2\), got \(3, 3\)"):
        metrics.expected_cost(np.ones(N), Y, costs=COSTS)
    with pytest.raises(ValueError, match="power: expected 1 or 2"):
        metrics.calibration_error(np.ones(N), Y, power=3)
    with pytest.raises(ValueError, match="debiased: only squares"):
        metrics.calibration_error(np.ones(N), Y, debiased=True)
    with pytest.raises(ValueError, match=r"scores: expected shape \(n,\), predicted classes"):
        metrics.accuracy(np.ones((N, 2), int), Y)
    with pytest.raises(ValueError, match=r"scores: expected shape \(n,\) or \(n, 2\)"):
        metrics.roc_auc(np.ones((N, 3)), Y)


def test_the_area_of_many_rows_in_single_precision():
    n = 200_000
    y = RNG.integers(0, 2, n)
    scores = (RNG.normal(size=n) + y).astype("float32")
    expected = sklearn.metrics.roc_auc_score(y, scores)
    np.testing.assert_allclose(metrics.roc_auc(scores, y), expected, rtol=1e-5)
    assert metrics.roc_auc(jnp.asarray(scores), jnp.asarray(y)).dtype == "float32"

"""Calibrators against logistic regression, scikit-learn and brute force, and their laws."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV, _sigmoid_calibration
from sklearn.isotonic import IsotonicRegression

import jaxlin
from jaxlin import calibration, logistic, metrics, resample, softmax
from jaxlin._scores import _newton
from jaxlin.types import Status

N = 60
RNG = np.random.default_rng(0)
S = np.round(2 * RNG.normal(size=N), 1)  # some tie
Y = (RNG.random(N) < 1 / (1 + np.exp(-0.5 * S - 0.3))).astype(int)
WEIGHT = RNG.integers(0, 4, N).astype(float)
MANY = RNG.normal(size=(N, 3))
Y3 = np.argmax(0.4 * MANY + RNG.gumbel(size=(N, 3)), axis=1)
FITS = {
    "temperature": calibration.fit_temperature,
    "temperature of many": calibration.fit_temperature,
    "platt": calibration.fit_platt,
    "platt, smoothed": functools.partial(calibration.fit_platt, smoothed=True),
    "platt of many": calibration.fit_platt,
    "isotonic": calibration.fit_isotonic,
    "isotonic of many": calibration.fit_isotonic,
}


def data_of(name):
    return (MANY, Y3) if "many" in name else (S, Y)


@pytest.fixture(params=FITS)
def name(request):
    return request.param


def close(a, b, rtol=1e-9, atol=1e-12):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=atol), a, b)


# --- what they are --------------------------------------------------------------------------------


def test_a_temperature_is_logistic_regression_without_a_bias():
    params, info = calibration.fit_temperature(S, Y, sample_weight=WEIGHT)
    plane, whole = logistic.fit(S[:, None], Y, sample_weight=WEIGHT, bias=False)
    assert info.status == Status.CONVERGED
    close(1 / params.temperature, plane.weights[0])
    close(info.objective, whole.objective)


def test_a_temperature_of_many_classes_is_the_least_log_loss():
    params, info = calibration.fit_temperature(MANY, Y3, sample_weight=WEIGHT)

    def loss(temperature):
        return metrics.log_loss(MANY / temperature, Y3, sample_weight=WEIGHT)

    assert abs(jax.grad(loss)(params.temperature)) < 1e-11
    assert jax.hessian(loss)(params.temperature) > 0
    close(info.objective, loss(params.temperature))
    # An absent class is no part of it.
    absent = np.concatenate([MANY, np.full((N, 1), -np.inf)], axis=1)
    close(calibration.fit_temperature(absent, Y3, sample_weight=WEIGHT)[0], params)


def test_platt_is_logistic_regression():
    params, info = calibration.fit_platt(S, Y, sample_weight=WEIGHT)
    plane, whole = logistic.fit(S[:, None], Y, sample_weight=WEIGHT)
    close([params.slope, params.intercept], [plane.weights[0], plane.bias])
    close(info.objective, whole.objective)


@pytest.mark.parametrize("weighted", [False, True])
def test_platts_own_targets_are_scikit_learns(weighted):
    weight = WEIGHT if weighted else None
    slope, intercept = _sigmoid_calibration(S, Y, sample_weight=weight)
    params, _ = calibration.fit_platt(S, Y, smoothed=True, sample_weight=weight)
    # scikit-learn's solver stops where the gradient is some 1e-6.
    close([params.slope, params.intercept], [-slope, -intercept], rtol=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_isotonic_is_scikit_learns(seed):
    rng = np.random.default_rng(seed)
    scores, weight = np.round(rng.normal(size=80), 1), rng.integers(0, 3, 80) / 2
    y = (rng.random(80) < 1 / (1 + np.exp(-scores * (1 - 2 * (seed == 4))))).astype(int)
    some = weight > 0
    theirs = IsotonicRegression(out_of_bounds="clip")
    theirs.fit(scores[some], y[some], sample_weight=weight[some])
    params, info = calibration.fit_isotonic(scores, y, sample_weight=weight)
    assert (np.diff(params.values) >= 0).all() and (np.diff(params.knots) >= 0).all()
    new = rng.normal(size=50) * 2
    chance = calibration.probabilities(params, np.r_[new, scores])[:, 1]
    close(chance, theirs.predict(np.r_[new, scores]), atol=1e-12)
    miss = np.average((theirs.predict(scores) - y) ** 2, weights=weight)
    close(info.objective, miss)


@pytest.mark.parametrize("ends", ["up", "down", "teeth"])
def test_pools_of_extreme_orders(ends):
    n = 200
    y = {"up": np.arange(n) >= n // 2, "down": np.arange(n) < n // 2, "teeth": np.arange(n) % 2}
    y = np.asarray(y[ends]).astype(int)
    params, _ = calibration.fit_isotonic(np.arange(n) / 7, y)
    close(params.values, IsotonicRegression().fit_transform(np.arange(n) / 7, y))


@pytest.mark.parametrize(
    ("calibrate", "method"), [("fit_platt", "sigmoid"), ("fit_isotonic", "isotonic")]
)
def test_each_class_against_the_rest_is_scikit_learns(calibrate, method):
    class Given:  # scores as a classifier that is fitted already
        classes_ = np.arange(3)
        _estimator_type = "classifier"

        def fit(self, x, y):
            return self

    calibrate = getattr(calibration, calibrate)
    calibrate = functools.partial(calibrate, smoothed=True) if method == "sigmoid" else calibrate
    params, _ = calibrate(MANY, Y3)
    each = []
    for c in range(3):
        if method == "sigmoid":
            a, b = _sigmoid_calibration(MANY[:, c], (c == Y3).astype(int))
            each.append(1 / (1 + np.exp(a * MANY[:, c] + b)))
        else:
            each.append(IsotonicRegression().fit_transform(MANY[:, c], c == Y3))
    each = np.stack(each, axis=1)
    total = each.sum(1, keepdims=True)
    expected = np.where(total > 0, each / np.where(total > 0, total, 1), 1 / 3)
    found = calibration.probabilities(params, MANY)
    close(found, expected, rtol=1e-4, atol=1e-5 if method == "sigmoid" else 1e-12)


def test_probabilities_of_a_row_that_no_class_claims():
    params = calibration.Isotonic(np.tile([0.0, 1.0], (3, 1)), np.tile([0.0, 1.0], (3, 1)))
    close(calibration.probabilities(params, -np.ones((1, 3))), np.full((1, 3), 1 / 3))


# --- laws ---------------------------------------------------------------------------------------


def test_weights_count_rows_and_a_row_of_weight_zero_is_absent(name):
    scores, y = data_of(name)
    fit, times = FITS[name], WEIGHT.astype(int)
    wild = np.where((WEIGHT == 0).reshape(-1, *[1] * (scores.ndim - 1)), np.nan, scores)
    params, info = fit(wild, np.where(WEIGHT == 0, 77, y), sample_weight=WEIGHT)
    rows, whole = fit(scores.repeat(times, axis=0), y.repeat(times))
    assert info.status == whole.status == Status.CONVERGED
    chances = (calibration.probabilities(p, scores) for p in (params, rows))
    close(*chances, atol=1e-9)
    close(info.objective, whole.objective)


def test_lanes_are_their_own(name):
    scores, y = data_of(name)
    weights = np.stack([WEIGHT, np.zeros(N), np.ones(N), -WEIGHT])
    run = jax.jit(jax.vmap(lambda w: FITS[name](scores, y, sample_weight=w)))
    params, info = run(weights)
    assert info.status.tolist() == [0, Status.INVALID_DATA, 0, Status.INVALID_DATA]
    for lane in (0, 2):
        alone, told = FITS[name](scores, y, sample_weight=weights[lane])
        close(
            jax.tree.map(lambda a, i=lane: a[i], (params, info.objective)), (alone, told.objective)
        )
    assert all(np.isnan(a[1]).all() for a in jax.tree.leaves(params))
    jax.tree.map(
        lambda a, b: np.testing.assert_array_equal(a[0], b[0]),
        params,
        run(np.stack([WEIGHT, *np.ones((3, N))]))[0],
    )


@pytest.mark.parametrize("power", [-60, 60])
def test_units_of_powers_of_two_change_no_bit(name, power):
    scores, y = data_of(name)
    with jax.enable_x64(False):
        single = scores.astype("float32")
        plain, info = FITS[name](single, y)
        params, told = FITS[name](single * np.float32(2.0**power), y)
        assert info.status == told.status == Status.CONVERGED
        for field, unit in (("temperature", 1), ("slope", -1), ("knots", 1)):
            if hasattr(plain, field):
                expected = np.asarray(getattr(plain, field)) * np.float32(2.0 ** (unit * power))
                np.testing.assert_array_equal(getattr(params, field), expected)
        np.testing.assert_array_equal(
            params[-1] if len(params) > 1 else 0, plain[-1] if len(params) > 1 else 0
        )


@pytest.mark.parametrize("name", [n for n in FITS if "isotonic" not in n])
def test_derivatives_are_differences(name):
    scores, y = data_of(name)
    weight = WEIGHT + 0.5

    def summary(scores, weight):
        params, info = FITS[name](scores, y, sample_weight=weight)
        return sum(jnp.sum(a**2) for a in params) + info.objective

    move = RNG.normal(size=scores.shape), RNG.normal(size=N)
    size = 1e-5
    ends = [summary(scores + s * move[0], weight + s * move[1]) for s in (size, -size)]
    slope = sum(
        np.sum(a * b) for a, b in zip(jax.grad(summary, (0, 1))(scores, weight), move, strict=True)
    )
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * size), rtol=1e-5)
    _, forward = jax.jvp(summary, (scores, weight), move)
    np.testing.assert_allclose(forward, slope, rtol=1e-9)


def test_the_derivative_of_isotonic_values_in_the_weights():
    def value(weight):
        return calibration.fit_isotonic(S, Y, sample_weight=weight)[0].values @ np.arange(1.0 * N)

    weight, move, size = WEIGHT + 0.5, RNG.normal(size=N), 1e-6
    slope = np.sum(jax.grad(value)(weight) * move)
    ends = [value(weight + s * move) for s in (size, -size)]
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * size), rtol=1e-6)


def test_the_derivative_at_a_weight_of_0_is_that_of_the_rows_entrance(name):
    scores, y = data_of(name)
    scores = np.where((WEIGHT == 0).reshape(-1, *[1] * (scores.ndim - 1)), 2 * scores, scores)
    present = scores[WEIGHT > 0]

    def chances(weight):
        params, info = FITS[name](scores, y, sample_weight=weight)
        return jnp.append(calibration.probabilities(params, present), info.objective)

    run = jax.jit(lambda weight, move: jax.jvp(chances, (weight,), (move,)))
    for row in np.flatnonzero(WEIGHT == 0):
        move, size = 1.0 * (np.arange(N) == row), 1e-4
        (start, found), (one, _), (two, _) = (run(WEIGHT + s * size * move, move) for s in range(3))
        np.testing.assert_allclose(
            found, (4 * one - two - 3 * start) / (2 * size), rtol=1e-3, atol=1e-7
        )


def test_a_step_that_leads_up_is_halved():
    """Newton's whole steps for log cosh lead away from beyond 1.09, and further each time."""

    def look(point):
        slope, bend = jnp.tanh(point[0]), 1 / jnp.cosh(point[0]) ** 2
        objective = jnp.log(jnp.cosh(point[0]))
        step = (-slope / bend)[None]
        return _newton.Look(objective, jnp.abs(slope), step, jnp.abs(slope) / jnp.sqrt(bend))

    for start in (1.5, 5.0, -12.0):
        state, status = jax.jit(lambda a: _newton.descended(look, a))(jnp.array([start]))
        assert status == Status.CONVERGED and abs(state.point[0]) < 1e-11


# --- statuses -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "y", "temperature", "platt"),
    [
        ([-1.0, -2.0, 1.0, 3.0], [0, 0, 1, 1], "SEPARABLE", "SEPARABLE"),
        ([1.0, 2.0, 3.0, 4.0], [0, 0, 1, 1], "CONVERGED", "SEPARABLE"),
        ([1.0, 2.0, 3.0, 4.0], [1, 1, 0, 0], "CONVERGED", "SEPARABLE"),
        ([1.0, 2.0, 2.0, 4.0], [0, 0, 1, 1], "CONVERGED", "QUASI_SEPARABLE"),
        ([-1.0, 0.0, 0.0, 4.0], [0, 0, 1, 1], "QUASI_SEPARABLE", "QUASI_SEPARABLE"),
        ([2.0, 2.0, 2.0, 2.0], [0, 0, 1, 1], "CONVERGED", "RANK_DEFICIENT"),
        ([0.0, 0.0, 0.0, 0.0], [0, 0, 1, 1], "RANK_DEFICIENT", "RANK_DEFICIENT"),
        ([1.0, 2.0, -3.0, 4.0], [1, 1, 1, 1], "CONVERGED", "CLASS_TOO_SMALL"),
    ],
)
def test_what_has_no_finite_optimum_says_so(scores, y, temperature, platt):
    scores, y = np.array(scores), np.array(y)
    assert calibration.fit_temperature(scores, y)[1].status == Status[temperature]
    params, info = calibration.fit_platt(scores, y)
    assert info.status == Status[platt]
    smooth, told = calibration.fit_platt(scores, y, smoothed=True)
    fine = len(set(scores.tolist())) > 1 and len(set(y.tolist())) > 1
    assert (told.status == Status.CONVERGED) == fine
    assert np.isfinite(smooth).all()
    if platt == "RANK_DEFICIENT":
        close(params, calibration.Platt(0.0, 0.0), atol=1e-9)


def test_scores_that_are_all_one_have_no_slope():
    """Though their mean may round to another number, as it does for 10 of these."""
    rng, lanes = np.random.default_rng(0), 3000
    value = rng.normal(size=lanes) * 10.0 ** rng.integers(-3, 6, lanes)
    scores, y = np.repeat(value[:, None], 7, axis=1), np.arange(7) % 2
    weight = rng.uniform(0.1, 3, (lanes, 7))
    fit = jax.vmap(lambda s, w: calibration.fit_platt(s, y, sample_weight=w))
    params, info = jax.jit(fit)(scores, weight)
    assert (info.status == Status.RANK_DEFICIENT).all() and (params.slope == 0).all()
    share = weight @ y / weight.sum(1)
    # A gradient within eps^0.7 of 0, where the curvature is about 1/4.
    close(params.intercept, np.log(share / (1 - share)), atol=5e-11)


def test_one_class_has_its_probability():
    one = np.ones(N, int)
    for fit in (calibration.fit_platt, calibration.fit_isotonic):
        params, info = fit(S, one)
        assert info.status == Status.CLASS_TOO_SMALL
        close(calibration.probabilities(params, S), np.stack([0 * S, 0 * S + 1], axis=1))


def test_scores_that_tell_less_than_nothing_are_not_heard():
    params, info = calibration.fit_temperature(-S, Y)
    assert info.status == Status.CONVERGED and params.temperature == np.inf
    close(calibration.probabilities(params, S), np.full((N, 2), 0.5))
    close(info.objective, np.log(2))


def test_derivatives_of_what_has_none_are_nan_and_0_where_masked():
    def slope(scores):
        return calibration.fit_platt(scores, np.array([0, 0, 1, 1]))[0].slope

    scores = np.array([1.0, 2.0, 3.0, 4.0])
    assert np.isnan(jax.grad(slope)(scores)).all()
    assert (jax.grad(lambda s: jnp.where(False, slope(s), 0.0))(scores) == 0).all()


@pytest.mark.parametrize(
    ("argument", "value", "words"),
    [
        (
            "scores",
            np.where(np.arange(N) == 4, np.nan, S),
            "scores: 1 of 60 .* not finite, the first at 4",
        ),
        ("scores", np.where(np.arange(N) == 4, np.inf, S), "scores: 1 of 60"),
        (
            "y",
            np.where(np.arange(N) == 5, 2, Y),
            r"y: 1 of 60 entries are outside 0\.\.1, the first at 5",
        ),
        ("sample_weight", -np.ones(N), "sample_weight: 60 of 60 entries are negative"),
        ("sample_weight", np.zeros(N), "sample_weight: no row has weight"),
    ],
)
@pytest.mark.parametrize(
    "fit", [calibration.fit_temperature, calibration.fit_platt, calibration.fit_isotonic]
)
def test_bad_data_are_named(fit, argument, value, words):
    given = {"scores": S, "y": Y, "sample_weight": None} | {argument: value}
    with pytest.raises(ValueError, match=words):
        fit(given["scores"], given["y"], sample_weight=given["sample_weight"])
    _, info = jax.jit(lambda s, y, w: fit(s, y, sample_weight=w))(*given.values())
    assert info.status == Status.INVALID_DATA


def test_other_params_and_shapes_are_refused():
    params, _ = calibration.fit_platt(MANY, Y3)
    with pytest.raises(ValueError, match=r"scores: expected shape \(n, 3\), got \(60,\)"):
        calibration.probabilities(params, S)
    with pytest.raises(TypeError, match="params: expected a Temperature"):
        calibration.scores(S, S)


# --- together ------------------------------------------------------------------------------------


def test_calibrated_scores_are_log_odds(name):
    scores, y = data_of(name)
    params, _ = FITS[name](scores, y)
    chance = np.asarray(calibration.probabilities(params, scores))
    found = np.asarray(calibration.scores(params, scores))
    if scores.ndim == 1:
        close(1 / (1 + np.exp(-found)), chance[:, 1])
    else:
        powers = np.exp(found)
        close(powers / powers.sum(1, keepdims=True), chance)


@pytest.mark.parametrize("k", [2, 3])
def test_a_classifier_and_its_calibrator(k):
    x = RNG.normal(size=(N, 2))
    y = np.argmax(x @ RNG.normal(size=(2, k)) + RNG.gumbel(size=(N, k)), axis=1)
    fit, options = (logistic.fit, {}) if k == 2 else (softmax.fit, {"num_classes": 3})
    folds = resample.stratified_kfold(jax.random.key(0), y, folds=3)
    model, info = calibration.fit_cross(
        fit, calibration.fit_temperature, x, y, folds, l2=1e-3, sample_weight=WEIGHT, **options
    )
    assert info.status == Status.CONVERGED
    held, _ = resample.held_out_scores(fit, x, y, folds, l2=1e-3, sample_weight=WEIGHT, **options)
    some = WEIGHT > 0
    expected, _ = calibration.fit_temperature(held[some], y[some], sample_weight=WEIGHT[some])
    close(model.calibrator, expected)
    close(model.params, fit(x, y, l2=1e-3, sample_weight=WEIGHT, **options)[0])
    chance = calibration.probabilities(model.calibrator, jaxlin.scores(model.params, x))
    assert chance.shape == (N, k)


def test_a_calibrated_classifier_is_scikit_learns():
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import PredefinedSplit

    x = RNG.normal(size=(200, 2))
    y = (x[:, 0] + RNG.logistic(size=200) > 0).astype(int)
    fold = np.arange(200) % 4
    folds = (fold != np.arange(4)[:, None]).astype(float)
    calibrate = functools.partial(calibration.fit_platt, smoothed=True)
    model, _ = calibration.fit_cross(logistic.fit, calibrate, x, y, folds, l2=0.01)
    # Their penalty is one for all folds, which are of one size, and another for all rows.
    base = LogisticRegression(C=1 / (0.01 * 150), tol=1e-12, max_iter=1000)
    theirs = CalibratedClassifierCV(base, cv=PredefinedSplit(fold), ensemble=False).fit(x, y)
    fitted = theirs.calibrated_classifiers_[0].calibrators[0]
    close([model.calibrator.slope, model.calibrator.intercept], [-fitted.a_, -fitted.b_], rtol=1e-3)

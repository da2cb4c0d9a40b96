"""Inference against published figures, statsmodels, exact refits, and rational arithmetic."""

import functools
import itertools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

import jaxlin
from jaxlin import datasets, inference, logistic, losses, softmax
from jaxlin.types import Hyperplane, Linear, Status
from tests import exact
from tests.public import assert_close, assert_identical, thorough


@pytest.fixture(scope="module")
def statsmodels():
    return pytest.importorskip("statsmodels.api")


@pytest.fixture(scope="module")
def spector(statsmodels):
    """Spector and Mazzeo (1980): `(x, y)`."""
    data = statsmodels.datasets.spector.load()
    return np.asarray(data.exog)[:, :3], np.asarray(data.endog).astype(int)


def several(n=120, d=3, k=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return x, np.argmax(x @ rng.normal(size=(d, k)) + 2 * rng.normal(size=(n, k)), axis=1)


def with_ones(x):
    return np.column_stack([x, np.ones(len(x))])


def flat(params):
    return np.append(np.ravel(params.weights), params.bias)


covariance = functools.partial(inference.covariance, losses.logistic)
sandwich = functools.partial(inference.sandwich, losses.logistic)


# --- maximum likelihood --------------------------------------------------------------------------


def test_tests_of_coefficients_are_statsmodels(spector, statsmodels):
    x, y = spector
    theirs = statsmodels.Logit(y, with_ones(x)).fit(disp=0, method="newton", tol=1e-14)
    params, _ = logistic.fit(x, y)
    found = covariance(params, x, y)
    test = inference.wald(params, found)
    np.testing.assert_allclose(flat(test.statistic), theirs.tvalues, rtol=1e-9)
    np.testing.assert_allclose(flat(test.p_value), theirs.pvalues, rtol=1e-9)
    intervals = inference.confidence_intervals(params, found, level=0.9)
    np.testing.assert_allclose(np.stack([flat(a) for a in intervals], 1), theirs.conf_int(0.1))
    joint = inference.wald_joint(lambda p: p.weights, params, found)
    expected = theirs.wald_test(np.eye(4)[:3], scalar=True)
    np.testing.assert_allclose(joint.statistic, expected.statistic, rtol=1e-9)
    np.testing.assert_allclose(joint.p_value, expected.pvalue, rtol=1e-9)
    null, _ = logistic.fit(x, y, feature_mask=np.zeros(3, bool))
    ratio = inference.likelihood_ratio(losses.logistic, params, null, x, y)
    assert ratio.degrees == 3
    np.testing.assert_allclose(ratio.statistic, theirs.llr, rtol=1e-9)
    np.testing.assert_allclose(ratio.p_value, theirs.llr_pvalue, rtol=1e-9)


def test_softmax_in_both_forms(statsmodels):
    x, y = several()
    params, _ = softmax.fit(x, y)
    found = inference.covariance(losses.softmax, params, x, y)
    # The sum of all classes' params is fixed, so it has no variance.
    total = inference.delta(lambda p: (p.weights.sum(0), p.bias.sum()), params, found)
    np.testing.assert_allclose(total, 0, atol=1e-14)
    reference = functools.partial(softmax.to_reference, reference=0)
    error = inference.standard_errors(reference(params), inference.delta(reference, params, found))
    theirs = statsmodels.MNLogit(y, with_ones(x)).fit(disp=0, method="newton", tol=1e-14)
    np.testing.assert_allclose(with_bias(error)[1:], np.asarray(theirs.bse).T, rtol=1e-9)
    assert not np.any(with_bias(error)[0])
    null, _ = softmax.fit(x, y, feature_mask=np.array([True, False, False]))
    ratio = inference.likelihood_ratio(losses.softmax, params, null, x, y)
    assert ratio.degrees == 4


def with_bias(params):
    return np.concatenate([params.weights, params.bias[:, None]], axis=1)


def test_two_classes_of_softmax_are_logistic(spector):
    x, y = spector
    params, _ = softmax.fit(x, y, l2=0.01)
    both = inference.covariance(losses.softmax, params, x, y, l2=0.01)

    def difference(p):
        return Hyperplane(p.weights[1] - p.weights[0], p.bias[1] - p.bias[0])

    plane, _ = logistic.fit(x, y, l2=0.005)
    single = covariance(plane, x, y, l2=0.005)
    assert_close(inference.delta(difference, params, both), single, 1e-9)


def test_an_absent_class_has_no_variance():
    x, y = several()
    params, _ = softmax.fit(x, y)
    wider, _ = softmax.fit(x, y, num_classes=4)
    found = inference.covariance(losses.softmax, wider, x, y)
    error = inference.standard_errors(wider, found)
    assert_close(
        error.weights[:3],
        inference.standard_errors(
            params, inference.covariance(losses.softmax, params, x, y)
        ).weights,
        1e-9,
    )
    assert not error.weights[3].any() and error.bias[3] == 0


def test_what_is_not_estimated_has_no_variance(spector):
    x, y = spector
    mask = np.array([True, False, True])
    masked, _ = logistic.fit(x, y, feature_mask=mask, bias=False)
    found = covariance(masked, x, y, feature_mask=mask, bias=False)
    narrow, _ = logistic.fit(x[:, mask], y, bias=False)
    keep = np.array([0, 2])
    assert_close(
        found[np.ix_(keep, keep)], covariance(narrow, x[:, mask], y, bias=False)[:2, :2], 1e-9
    )
    assert not found[np.array([1, 3])].any()


def test_weights_count_rows_and_zeros_are_absent(spector):
    x, y = spector
    weight = np.arange(32) % 3
    params, _ = logistic.fit(x, y, l2=0.01, sample_weight=weight)
    holed = np.where(weight[:, None] == 0, np.nan, x)
    found = covariance(params, holed, y, l2=0.01, sample_weight=weight)
    rows = np.repeat(np.arange(32), weight)
    assert_close(found, covariance(params, x[rows], y[rows], l2=0.01), 1e-9)


@pytest.mark.parametrize(
    "forgotten", [{"l2": 0.1}, {"sample_weight": np.arange(32) % 4}, {"offset": np.arange(32) / 9}]
)
def test_what_was_forgotten_is_seen(spector, forgotten):
    params, _ = logistic.fit(*spector, **forgotten)
    assert np.isfinite(covariance(params, *spector, **forgotten)).all()
    for function in (covariance, sandwich):
        assert np.isnan(function(params, *spector)).all()
        assert np.isfinite(function(params, *spector, check=False)).all()


@pytest.mark.parametrize("dtype", [np.float64, thorough(np.float32)])
def test_no_numbers_where_there_is_no_unique_finite_optimum(spector, dtype):
    x, y = spector
    order = np.argsort(x[:, 0])
    upper = np.isin(np.arange(32), order[16:]).astype(int)
    touching = np.where(np.arange(32)[:, None] == order[16], x[order[15]], x)
    twice = np.where(np.arange(3) == 0, x[:, 1:2] + x[:, 2:], x)
    statuses = (Status.QUASI_SEPARABLE, Status.RANK_DEFICIENT, Status.SEPARABLE)
    cases = ((touching, upper), (twice, y), (x, upper))
    for (x, y), status in zip(cases, statuses, strict=True):
        params, info = logistic.fit(x.astype(dtype), y)
        assert info.status == status
        assert np.isnan(covariance(params, x.astype(dtype), y)).all()
        for function in (inference.influence, inference.approximate_leave_one_out):
            wrong = function(losses.logistic, params, x.astype(dtype), y)
            assert all(np.isnan(leaf).all() for leaf in jax.tree.leaves(wrong))
    alone, info = logistic.fit(np.ones((3, 1), dtype), np.ones(3, int))
    assert np.isnan(covariance(alone, np.ones((3, 1), dtype), np.ones(3, int))).all()


def test_a_constant_column_is_not_estimated(spector):
    x, y = spector
    x = np.column_stack([x, np.full(32, 7.0)])
    params, info = logistic.fit(x, y)
    assert info.status == Status.RANK_DEFICIENT
    assert np.isnan(covariance(params, x, y)).all()
    held, _ = logistic.fit(x, y, l2=0.1)
    assert np.isfinite(covariance(held, x, y, l2=0.1)).all()


def test_params_near_the_optimum_are_not_the_optimum(spector):
    params, _ = logistic.fit(*spector)
    for part, finite in ((1e-9, True), (1e-3, False)):
        moved = jax.tree.map(lambda a, part=part: a * (1 + part), params)
        assert np.isfinite(covariance(moved, *spector)).all() == finite


def test_lanes_do_not_harm_each_other(spector):
    x, y = spector
    weights = np.ones((3, 32))
    weights[1] = y  # one class
    weights[2, 0] = np.nan

    def error(weight):
        params, _ = logistic.fit(x, y, l2=0.01, sample_weight=weight)
        return covariance(params, x, y, l2=0.01, sample_weight=weight)

    together = jax.jit(jax.vmap(error))(weights)
    assert_close(together[0], error(weights[0]), 1e-9)
    assert np.isnan(together[1:]).all()


def test_a_level_is_a_probability():
    params, spread = jnp.array([3.0]), jnp.array([[4.0]])
    for wrong in (95, 0, 1, 1.0, -0.5, np.nan, jnp.array(95)):
        with pytest.raises(ValueError, match=r"level: expected a probability between 0 and 1"):
            inference.confidence_intervals(params, spread, level=wrong)
    intervals = jax.jit(lambda level: inference.confidence_intervals(params, spread, level=level))
    assert np.isnan(intervals(95.0)[0]).all() and np.isnan(intervals(0.0)[1]).all()
    # The normal quantile of 0.9 is 1.2815515655446004.
    np.testing.assert_allclose(intervals(0.8)[1], 3 + 2 * 1.2815515655446004, rtol=1e-12)


# --- sandwiches ----------------------------------------------------------------------------------


def test_sandwiches_are_statsmodels(spector, statsmodels):
    x, y = spector
    params, _ = logistic.fit(x, y)
    model = statsmodels.Logit(y, with_ones(x))

    def theirs(**options):
        return np.asarray(model.fit(disp=0, method="newton", tol=1e-14, **options).cov_params())

    np.testing.assert_allclose(sandwich(params, x, y), theirs(cov_type="HC0"), rtol=1e-8)
    groups = np.arange(32) % 5
    for kind, correction in ((None, True), ("HC1", True), ("HC0", False)):
        options = {"groups": groups, "use_correction": correction}
        np.testing.assert_allclose(
            sandwich(params, x, y, kind=kind, clusters=groups),
            theirs(cov_type="cluster", cov_kwds=options),
            rtol=1e-8,
        )


def test_sandwiches_are_the_formula(spector):
    x, y = spector
    params, _ = logistic.fit(x, y)
    z = with_ones(x)
    chance = 1 / (1 + np.exp(-z @ flat(params)))
    curve = chance * (1 - chance)
    bread = np.linalg.inv((z.T * curve) @ z)
    lever = curve * np.sum((z @ bread) * z, axis=1)
    for kind, factor in (
        ("HC1", 32 / 28),
        ("HC2", 1 / (1 - lever)),
        ("HC3", 1 / (1 - lever) ** 2),
    ):
        meat = (z.T * (chance - y) ** 2 * factor) @ z
        np.testing.assert_allclose(
            sandwich(params, x, y, kind=kind), bread @ meat @ bread, rtol=1e-8
        )


def test_sampling_weights_have_no_scale_in_the_sandwich(spector):
    x, y = spector
    weight = 1 + np.arange(32) % 3
    params, _ = logistic.fit(x, y, sample_weight=weight)
    once, thrice = (sandwich(params, x, y, sample_weight=c * weight) for c in (1, 3))
    assert_close(once, thrice, 1e-9)


def test_clusters_of_one_row_are_the_rows(spector):
    x, y = spector
    params, _ = logistic.fit(x, y)
    single = sandwich(params, x, y, kind="HC0", clusters=np.arange(32))
    assert_close(single, sandwich(params, x, y), 1e-12)
    with pytest.raises(TypeError, match="num_clusters"):
        jax.jit(lambda g: sandwich(params, x, y, clusters=g))(np.arange(32))


# --- single rows ---------------------------------------------------------------------------------


@pytest.mark.parametrize("fit, loss", [(logistic.fit, "logistic"), (softmax.fit, "softmax")])
def test_influence_is_the_derivative_of_the_fit(fit, loss):
    x, y = several(k=2 if loss == "logistic" else 3)
    loss = getattr(losses, loss)
    weight = np.ones(len(x))
    weight[:5], x[0] = 0, np.nan
    options = {} if fit is logistic.fit else {"num_classes": 3}

    def fitted(weight):
        return fit(x, y, l2=0.02, sample_weight=weight, **options)[0]

    params = fitted(weight)
    found = inference.influence(loss, params, x, y, l2=0.02, sample_weight=weight)
    exactly = jax.tree.map(lambda a: jnp.moveaxis(a, -1, 0), jax.jacrev(fitted)(weight))
    assert_close(found, exactly, 1e-10)
    assert not found.weights[0].any() and found.weights[1:5].all()


@pytest.mark.parametrize("fit, loss", [(logistic.fit, "logistic"), (softmax.fit, "softmax")])
def test_leaving_out_is_near_exact_refits(fit, loss):
    x, y = several(k=2 if loss == "logistic" else 3)
    loss = getattr(losses, loss)
    weight = 1.0 + np.arange(len(x)) % 2
    options = {} if fit is logistic.fit else {"num_classes": 3}
    params, _ = fit(x, y, l2=0.02, sample_weight=weight, **options)
    found = inference.approximate_leave_one_out(loss, params, x, y, l2=0.02, sample_weight=weight)
    left = weight * (1 - np.eye(len(x)))
    refits, _ = jax.jit(jax.vmap(lambda w: fit(x, y, l2=0.02, sample_weight=w, **options)))(left)
    exactly = jax.vmap(jaxlin.scores)(refits, x)
    moved = np.abs(exactly - jaxlin.scores(params, x)).max()
    assert np.abs(found - exactly).max() < 0.06 * moved
    kept, estimate, truth = (
        jnp.mean(loss(scores, y)) for scores in (jaxlin.scores(params, x), found, exactly)
    )
    assert jnp.abs(estimate - truth) < 0.05 * jnp.abs(kept - truth)


# --- separation ----------------------------------------------------------------------------------

KNOWN = {
    "complete": ([[1, -1, 2], [1, -1, -2], [1, -2, -2], [1, 2, 2]], [0, 1, 1, 1], 5),
    "overlap": ([[-1], [0], [1], [2]], [0, 1, 0, 1], 6),
    "quasi-complete": (
        [[v] for v in (2, 4, 5, 5, 5, 7, 7, 10, *18 * (0,), *8 * (1,), 2)],
        8 * [1] + 27 * [0],
        4,
    ),
}


def certified(x, y, found):
    """Whether the status is that of a certificate that holds in rational arithmetic."""
    on_plane = np.asarray(found.on_plane)
    proved = exact.proves_separation(x, y, on_plane, found.multipliers, flat(found.direction))
    held = Status.NOT_SEPARABLE if on_plane.all() else Status.QUASI_SEPARABLE
    return proved and found.status == (held if on_plane.any() else Status.SEPARABLE)


@pytest.mark.parametrize("name", KNOWN)
def test_known_sets(name):
    x, y, status = KNOWN[name]
    x, y = np.array(x), np.array(y)
    params, info = logistic.fit(x, y)
    found = inference.separation(params, x, y)
    assert found.status == status and certified(x, y, found)
    if status < Status.NOT_SEPARABLE:
        assert info.status == status
    if name == "complete":
        # A constant column is the bias's business.
        assert found.coefficients.weights.tolist() == [0, np.inf, -np.inf]
    if name == "quasi-complete":
        assert found.coefficients.weights.tolist() == [np.inf]
        assert np.flatnonzero(found.on_plane).tolist() == [0, 34]


def test_iris():
    x, y, *_ = datasets.iris()
    tenths = np.round(10 * x).astype(int)
    for a, b in ((0, 1), (0, 2), (1, 2)):
        rows = (y == a) | (y == b)
        x, labels = tenths[rows], (y[rows] == b).astype(int)
        found = inference.separation(Hyperplane(np.zeros(4), np.zeros(())), x, labels)
        assert certified(x, labels, found)
        assert found.status == (Status.SEPARABLE if a == 0 else Status.NOT_SEPARABLE)


def test_classes_that_one_class_is_separable_from():
    """Setosa's plane goes to infinity against both others, which overlap."""
    x, y, *_ = datasets.iris()
    params, _ = softmax.fit(x, y)
    found = inference.separation(params, x, y)
    assert found.status == Status.QUASI_SEPARABLE
    assert not found.on_plane[y == 0].any()
    assert found.on_plane[y == 1].tolist() == 50 * [[False, False, True]]
    assert found.on_plane[y == 2].tolist() == 50 * [[False, True, False]]
    grown = jaxlin.scores(found.direction, x)
    agreement = grown[np.arange(150), y][:, None] - grown
    assert (agreement[y == 0][:, 1:] > 0).all() and (agreement[y > 0][:, 0] > 0).all()
    np.testing.assert_allclose(agreement[y > 0][:, 1:], 0, atol=1e-12)
    # Nor does the fit tell which of two classes has coefficients that grow against each other.
    difference = jax.tree.map(lambda a: a[2] - a[1], found.direction)
    np.testing.assert_allclose(flat(difference), 0, atol=1e-13)
    np.testing.assert_allclose(
        np.einsum("nc,nd->cd", found.multipliers, with_ones(x))[1],
        np.einsum("nc,nd->cd", found.multipliers, with_ones(x))[2],
        rtol=1e-12,
    )


@pytest.mark.parametrize(
    "number, dtype",
    [
        (500, np.float64),
        thorough(10_000, np.float64),
        thorough(2_000, np.float32),
    ],
)
def test_verdicts_hold_in_rational_arithmetic(number, dtype):
    rng = np.random.default_rng(number)
    x, y = np.zeros((number, 12, 4), int), rng.integers(2, size=(number, 12))
    rows, columns = rng.integers(2, 13, size=number), rng.integers(1, 5, size=number)
    weight = (np.arange(12)[None, :] < rows[:, None]).astype(dtype)
    mask = np.arange(4)[None, :] < columns[:, None]
    for i, size in enumerate(rng.integers(1, 6, size=number)):
        x[i] = rng.integers(-size, size + 1, size=(12, 4)) * mask[i]
    blank = Hyperplane(np.zeros(4, dtype), np.zeros((), dtype))

    @jax.jit
    @jax.vmap
    def decide(x, y, weight, mask):
        return inference.separation(blank, x, y, sample_weight=weight, feature_mask=mask)

    found = jax.tree.map(np.asarray, decide(x.astype(dtype), y, weight, mask))
    seen = set()
    for i in range(number):
        n, lane = rows[i], jax.tree.map(lambda a: a[i], found)  # noqa: B023 # used at once
        seen.add(int(lane.status))
        if lane.status == Status.CLASS_TOO_SMALL:
            assert len(set(y[i, :n])) == 1
            continue
        lane = lane._replace(on_plane=lane.on_plane[:n], multipliers=lane.multipliers[:n])
        assert certified(x[i, :n], y[i, :n], lane), (x[i, :n], y[i, :n], lane)
    assert seen == {
        Status.SEPARABLE,
        Status.QUASI_SEPARABLE,
        Status.NOT_SEPARABLE,
        Status.CLASS_TOO_SMALL,
    }


def test_demands_that_a_combination_loses_at_once():
    """Rows 5 and 9 alone combine to 0: the others leave, one of them late, by rounding."""
    x = [[-1, -1, 0], [1, 0, 1], [-1, 0, 0], [-1, -1, 0], [0, 0, 1]]
    x = np.array([*x, [1, -1, -1], [-1, 0, 1], [0, 0, 1], [1, 0, 1], [1, -1, -1]])
    y = np.array([0, 0, 1, 0, 0, 0, 1, 1, 0, 1])
    blank = Hyperplane(np.zeros(4), np.zeros(()))
    padded = np.zeros((12, 4), int)
    padded[:10, :3] = x
    weight, mask = np.arange(12)[None, :] < 10, np.arange(4)[None, :] < 3
    found = jax.jit(
        jax.vmap(
            lambda x, y, weight, mask: inference.separation(
                blank, x, y, sample_weight=weight, feature_mask=mask
            )
        )
    )(padded[None].astype(float), np.append(y, [0, 0])[None], weight.astype(float), mask)
    found = jax.tree.map(lambda a: np.asarray(a[0]), found)
    found = found._replace(on_plane=found.on_plane[:10], multipliers=found.multipliers[:10])
    assert found.status == Status.QUASI_SEPARABLE and certified(padded[:10], y, found)


def test_certificates_that_are_false_are_refuted():
    """The judge of the test above can say no."""
    x, y, _ = KNOWN["quasi-complete"]
    x, y = np.array(x), np.array(y)
    found = inference.separation(Hyperplane(np.zeros(1), np.zeros(())), x, y)
    assert certified(x, y, found)
    swapped = found._replace(multipliers=np.roll(found.multipliers, 1))
    assert not certified(x, y, swapped)
    turned = found._replace(direction=jax.tree.map(jnp.negative, found.direction))
    assert not certified(x, y, turned)
    widened = found._replace(on_plane=np.ones(len(x), bool))
    assert not certified(x, y, widened._replace(status=Status.NOT_SEPARABLE))


@pytest.mark.parametrize("scale, shift", [(1e-6, 0.0), (1e6, 0.0), (1.0, 1e5)])
def test_verdicts_know_no_units(scale, shift):
    blank = Hyperplane(np.zeros(3), np.zeros(()))
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x, y = rng.integers(-3, 4, size=(10, 3)), rng.integers(2, size=10)
        units = scale ** np.arange(3)
        plain, moved = (inference.separation(blank, a, y) for a in (x, x * units + shift))
        assert_identical(plain.status, moved.status)
        assert_identical(plain.on_plane, moved.on_plane)


def test_weightless_rows_and_one_class():
    x, y = np.array([[0.0], [1.0], [np.nan], [0.5]]), np.array([0, 1, 0, 1])
    weight = np.array([1, 1, 0, 0])
    blank = Hyperplane(np.zeros(1), np.zeros(()))
    found = inference.separation(blank, x, y, sample_weight=weight)
    assert found.status == Status.SEPARABLE and not found.on_plane.any()
    alone = inference.separation(blank, x, y, sample_weight=weight * y)
    assert alone.status == Status.CLASS_TOO_SMALL
    with pytest.raises(ValueError, match=r"x: 1 of 4 entries are not finite"):
        inference.separation(blank, x, y)
    lanes = jax.vmap(lambda w: inference.separation(blank, x, y, sample_weight=w).status)
    assert lanes(np.stack([weight, np.ones(4)])).tolist() == [Status.SEPARABLE, 8]
    assert isinstance(
        inference.separation(Linear(np.zeros((2, 1)), np.zeros(2)), x[:2], y[:2]), tuple
    )


# --- at the edge ---------------------------------------------------------------------------------


def test_near_ties_in_single_precision_are_no_ties():
    blank = Hyperplane(np.zeros(1, np.float32), np.zeros((), np.float32))
    for near in (1e-3, 1e-4, 1e-5):
        x = np.array([[-1], [-near], [near], [1]], np.float32)
        apart = inference.separation(blank, x, np.array([0, 0, 1, 1])).status
        across = inference.separation(blank, x, np.array([0, 1, 0, 1])).status
        assert apart in (Status.SEPARABLE, Status.STALLED)
        assert across in (Status.NOT_SEPARABLE, Status.STALLED)


@pytest.mark.parametrize("origin", [0.0, 1993.0])
def test_no_tie_is_made_by_rounding(origin):
    """Of float32 data that differ there is no tie; of those that are equal there is."""
    blank = Hyperplane(np.zeros(1, np.float32), np.zeros((), np.float32))
    for near in (1e-4, 1e-5, 1e-6, 1e-7, 1e-11, 0.0):
        x = (np.array([[-1], [near], [0], [1]], np.float32) + origin).astype(np.float32)
        tied = x[1] == x[2]
        # Class 0 reaches beyond a row of class 1, or the classes lie in order.
        for y, truth in (
            ([0, 0, 1, 1], Status.QUASI_SEPARABLE if tied else Status.NOT_SEPARABLE),
            ([0, 1, 0, 1], Status.QUASI_SEPARABLE if tied else Status.SEPARABLE),
        ):
            found = inference.separation(blank, x, np.array(y))
            assert found.status == truth or (found.status == Status.STALLED and not tied)
            if found.status == Status.STALLED:
                assert np.isnan(flat(found.coefficients)).all()
                assert np.isnan(flat(found.direction)).all()
    finite, _ = logistic.fit(np.array([[-1], [1e-6], [0], [1]]), np.array([0, 0, 1, 1]))
    np.testing.assert_allclose(finite.weights, 15.202, rtol=1e-4)


def test_no_verdict_is_no_number():
    """Coefficients of 0 read as finite. One class, no numbers, and what rounding hides."""
    x, y = np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 1])
    blank = Hyperplane(np.zeros(1), np.zeros(()))
    decide = jax.jit(lambda x, weight: inference.separation(blank, x, y, sample_weight=weight))
    for x_, weight, status in (
        (x, np.array([0.0, 1, 1]), Status.CLASS_TOO_SMALL),
        (x * np.nan, np.ones(3), Status.INVALID_DATA),
    ):
        found = decide(x_, weight)
        assert found.status == status
        assert np.isnan(flat(found.coefficients)).all() and np.isnan(flat(found.direction)).all()


# Of Henderson and Velleman's cars (1981) the miles per gallon, and which have which gears.
MILES = [21, 21, 22.8, 21.4, 18.7, 18.1, 14.3, 24.4, 22.8, 19.2, 17.8, 16.4, 17.3, 15.2, 10.4, 10.4]
MILES += [14.7, 32.4, 30.4, 33.9, 21.5, 15.5, 15.2, 13.3, 19.2, 27.3, 26, 30.4, 15.8, 19.7, 15]
MILES += [21.4]
CYLINDERS = [6, 6, 4, 6, 8, 6, 8, 4, 4, 6, 6, 8, 8, 8, 8, 8, 8, 4, 4, 4, 4, 8, 8, 8, 8, 4, 4, 4, 8]
CYLINDERS += [6, 8, 4]
AUTOMATIC = [0, 0, 0] + 14 * [1] + [0, 0, 0] + 5 * [1] + 7 * [0]


@pytest.mark.parametrize("degree", [2, 5])
def test_verdicts_of_single_precision_are_those_of_its_data(degree):
    """Cylinders on powers of the miles per gallon, and on a spline, by linear programming."""
    miles = (np.array(MILES) - 20) / 14
    knots = np.maximum(miles[:, None] - np.linspace(-0.5, 0.6, degree)[None, :], 0) ** 2
    x = np.column_stack([miles, knots, AUTOMATIC]).astype(np.float32)
    y = np.array(CYLINDERS) // 2 - 2
    blank = Linear(np.zeros((3, x.shape[1]), np.float32), np.zeros(3, np.float32))
    found = inference.separation(blank, x, y)
    rows = with_ones(x.astype(np.float64))
    wishes = [
        np.kron(np.eye(3)[own] - np.eye(3)[other], row)
        for own, row in zip(y, rows, strict=True)
        for other in range(3)
        if other != own
    ]
    wishes = np.array(wishes) / np.linalg.norm(wishes, axis=1, keepdims=True)
    n, p = wishes.shape
    most = optimize.linprog(
        np.concatenate([np.zeros(p), -np.ones(n)]),
        A_ub=np.concatenate([-wishes, np.eye(n)], axis=1),
        b_ub=np.zeros(n),
        bounds=[*p * [(None, None)], *n * [(0, 1)]],
    )
    truth = n - round(-most.fun)
    if found.status == Status.STALLED:
        assert np.isnan(flat(found.coefficients)).all()
    else:
        assert found.on_plane.sum() == truth
        assert found.status == {0: 5, n: 6}.get(truth, 4)


def test_a_row_of_leverage_one_is_not_left_out():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=(60, 2)), np.arange(60) == 7])
    y = rng.integers(2, size=60).astype(float)
    y[7] = 0.3
    params, info = logistic.fit(x, y)
    assert info.status == Status.CONVERGED
    left_out = inference.approximate_leave_one_out(losses.logistic, params, x, y)
    assert np.flatnonzero(np.isnan(left_out)).tolist() == [7]
    assert np.isfinite(sandwich(params, x, y)).all()
    assert np.isnan(sandwich(params, x, y, kind="HC3")).all()


def test_tails_of_another_loss_are_seen_too():
    def probit(score, y):
        return -jax.scipy.stats.norm.logcdf(jnp.where(y > 0, score, -score))

    x, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([0, 0, 1, 1])
    for weight in (5.0, 20.0, 30.0):
        far = Hyperplane(np.array([weight]), np.zeros(()))
        assert np.isnan(inference.covariance(probit, far, x, y)).all()


def test_what_was_forgotten_counts_in_standard_errors():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, 2)).astype(np.float32)
    y = (x[:, 0] + rng.logistic(size=20_000) > 0).astype(int)
    params, _ = logistic.fit(x, y, l2=5e-3)
    assert np.isfinite(covariance(params, x, y, l2=5e-3)).all()
    assert np.isnan(covariance(params, x, y)).all()


def test_no_restriction_is_no_evidence(spector):
    params, _ = logistic.fit(*spector)
    test = inference.likelihood_ratio(losses.logistic, params, params, *spector)
    assert test.degrees == 0 and np.isnan(test.p_value)


def test_a_verdict_has_no_derivative():
    x, y, _ = KNOWN["complete"]

    def direction(x):
        blank = Hyperplane(np.zeros(3), np.zeros(()))
        return jnp.sum(inference.separation(blank, x, np.array(y)).direction.weights)

    assert not jax.grad(direction)(jnp.asarray(x, float)).any()


# --- forms of softmax ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def anes96(statsmodels):
    """`(x, y, params, errors of the form whose class 0 has score 0)`, the last by MNLogit."""
    data = statsmodels.datasets.anes96.load()
    x, y = np.asarray(data.exog, float), np.asarray(data.endog).astype(int)
    model = statsmodels.MNLogit(y, with_ones(x))
    theirs = model.fit(disp=0, method="newton", tol=1e-14)
    params, info = softmax.fit(x, y)
    assert info.status == Status.CONVERGED
    return x, y, params, np.asarray(theirs.bse).T


def test_a_form_and_its_covariance(anes96):
    x, y, params, theirs = anes96
    reference = softmax.to_reference(params, 0)
    plain = functools.partial(inference.covariance, losses.softmax, x=x, y=y)
    spread = plain(params=params)
    for given in (params, reference, softmax.to_reference(params, 3)):
        found = plain(params=given, reference=0)
        error = inference.standard_errors(reference, found)
        ours = np.column_stack([error.weights, error.bias])
        np.testing.assert_allclose(ours[1:], theirs, rtol=1e-6)
        assert not ours[0].any()
    assert round(theirs[0, 0], 5) == 0.03428
    by_delta = inference.delta(lambda p: softmax.to_reference(p, 0), params, spread)
    np.testing.assert_allclose(found, by_delta, rtol=1e-7, atol=1e-12)
    assert np.isnan(plain(params=reference)).all()
    # One form beside the covariance of the other.
    for mixed in ((reference, spread), (params, found), (softmax.to_reference(params, 3), found)):
        for call in (
            inference.standard_errors,
            inference.wald,
            inference.confidence_intervals,
            lambda p, c: inference.delta(lambda p: p.weights[1], p, c),
        ):
            errors = jax.tree.leaves(call(*mixed))
            assert all(np.isnan(leaf).all() for leaf in errors if leaf.ndim)
    assert np.isfinite(inference.standard_errors(params, spread).weights).all()


def test_sandwich_and_influence_in_the_form_of_a_reference(anes96):
    x, y, params, _ = anes96
    reference = softmax.to_reference(params, 2)
    given = functools.partial(inference.sandwich, losses.softmax, x=x, y=y)
    by_delta = inference.delta(lambda p: softmax.to_reference(p, 2), params, given(params=params))
    found = given(params=reference, reference=2)
    np.testing.assert_allclose(found, by_delta, rtol=1e-7, atol=1e-12)
    assert np.isnan(given(params=reference)).all()
    moves = functools.partial(inference.influence, losses.softmax, x=x, y=y)
    expected = jax.vmap(lambda p: softmax.to_reference(p, 2))(moves(params=params))
    assert_close(moves(params=reference, reference=2), expected, 1e-8)
    assert np.isnan(moves(params=reference).weights).all()


def test_what_knows_no_form_is_the_same_in_all(anes96):
    x, y, params, _ = anes96
    mask = np.array([True, True, False, True, False])
    null, _ = softmax.fit(x, y, feature_mask=mask)
    plain = inference.likelihood_ratio(losses.softmax, params, null, x, y)
    assert plain.degrees == 12
    for full, fewer in (
        (softmax.to_reference(params, 0), null),
        (params, softmax.to_reference(null, 3)),
        (softmax.to_reference(params, 1), softmax.to_reference(null, 1)),
    ):
        other = inference.likelihood_ratio(losses.softmax, full, fewer, x, y)
        assert_close(other, plain, 1e-9)
    x, y = several()
    params, _ = softmax.fit(x, y, l2=0.02)
    given = {"x": x, "y": y, "l2": 0.02}
    left = inference.approximate_leave_one_out(losses.softmax, params, **given)
    other = softmax.to_reference(params, 0)
    moved = inference.approximate_leave_one_out(losses.softmax, other, **given)
    np.testing.assert_allclose(jax.nn.softmax(moved), jax.nn.softmax(left), rtol=1e-9, atol=1e-12)


def test_verdicts_in_the_form_of_a_reference():
    """Class 0 lies apart, 1 and 2 overlap: against 1 the weights of 2 are finite."""
    x = np.array([[-3.0], [-2.0], [1.0], [2.0], [1.5], [2.5]])
    y = np.array([0, 0, 1, 1, 2, 2])
    params, info = softmax.fit(x, y)
    assert info.status == Status.QUASI_SEPARABLE
    own = inference.separation(params, x, y)
    assert np.isinf(own.coefficients.weights).all()
    for given in (params, softmax.to_reference(params, 1)):
        found = inference.separation(given, x, y, reference=1)
        assert found.status == own.status
        assert found.coefficients.weights.ravel().tolist() == [-np.inf, 0, 0]
        np.testing.assert_allclose(found.direction.weights[1:], 0, atol=1e-12)
    lost = inference.separation(softmax.to_reference(params, 1), x, y)
    assert np.isnan(lost.coefficients.weights).all() and lost.status == own.status


def test_a_reference_that_is_none(anes96):
    x, y, params, _ = anes96
    run = functools.partial(inference.covariance, losses.softmax, params, x, y)
    with pytest.raises(ValueError, match=r"reference: expected a class in 0\.\.6, got 7"):
        run(reference=7)
    assert np.isnan(jax.jit(lambda r: run(reference=r))(7)).all()
    with pytest.raises(TypeError, match="reference: a Hyperplane has none"):
        inference.covariance(losses.logistic, Hyperplane(np.zeros(5), 0.0), x, y > 0, reference=0)


# --- columns that others give --------------------------------------------------------------------


def rank(rows):
    """Of integers, by rational elimination."""
    rows = [[Fraction(int(a)) for a in row] for row in rows]
    found = 0
    for j in range(len(rows[0]) if rows else 0):
        pivot = next((i for i in range(found, len(rows)) if rows[i][j] != 0), None)
        if pivot is None:
            continue
        rows[found], rows[pivot] = rows[pivot], rows[found]
        for i in range(found + 1, len(rows)):
            factor = rows[i][j] / rows[found][j]
            rows[i] = [a - factor * b for a, b in zip(rows[i], rows[found], strict=True)]
        found += 1
    return found


def given_columns(x, bias):
    """Those that add nothing to the rank of the ones before, in rational arithmetic."""
    own = np.ones((len(x), int(bias)), int)
    ranks = [rank(np.hstack([own, x[:, :j]]).tolist()) for j in range(x.shape[1] + 1)]
    return [after == before for before, after in itertools.pairwise(ranks)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("bias", [True, False])
def test_aliased_columns_add_nothing_to_the_rank(dtype, bias):
    tried = jax.jit(functools.partial(inference.aliased, bias=bias))
    seen = set()
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = rng.integers(-2, 3, size=(12, 6))
        for j in rng.choice(np.arange(6), size=seed % 4, replace=False):
            x[:, j] = x[:, :j] @ rng.integers(-2, 3, size=j) + rng.integers(3) * bias
        expected = given_columns(x, bias)
        seen.add(sum(expected))
        units = 2.0 ** rng.integers(-20, 20, size=6)
        assert tried((x * units).astype(dtype)).tolist() == expected
    assert len(seen) > 2


def test_aliased_columns_are_those_of_a_fit_of_many_optima():
    x, y = several(k=2)
    x = np.column_stack([x, x[:, 0] - 2 * x[:, 2] + 5, np.full(len(x), 3.0), x[:, 1] ** 2])
    found = inference.aliased(x)
    assert found.tolist() == [False, False, False, True, True, False]
    many, info = logistic.fit(x, y)
    assert info.status == Status.RANK_DEFICIENT
    assert "inference.aliased" in jaxlin.describe(info)
    one, info = logistic.fit(x, y, feature_mask=~found)
    assert info.status == Status.CONVERGED
    np.testing.assert_allclose(jaxlin.scores(one, x), jaxlin.scores(many, x), atol=1e-7)
    # A column that is not there gives nothing, and a row that is not there tells nothing apart.
    mask = np.array([True, True, False, True, True, True])
    assert inference.aliased(x, feature_mask=mask).tolist() == [False] * 4 + [True, False]
    x[7, 3], weight = 99, np.arange(len(x)) != 7
    assert not inference.aliased(x)[3] and inference.aliased(x, sample_weight=weight)[3]
    x[7] = np.nan
    assert inference.aliased(x, sample_weight=weight).tolist() == found.tolist()
    with pytest.raises(ValueError, match=r"x: 6 of 720 entries are not finite"):
        inference.aliased(x)
    lanes = jax.vmap(lambda w: inference.aliased(x, sample_weight=w))
    assert lanes(np.stack([weight, np.ones(len(x))])).tolist() == [found.tolist(), [False] * 6]

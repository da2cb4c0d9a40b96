"""Reports of estimates, and tests of fit, against statsmodels and published figures."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
import statsmodels.api as sm

from jaxlin import inference, least_squares, linear, logistic, losses, softmax
from jaxlin._infer import _report
from jaxlin.types import Status
from tests.public import assert_close

RNG = np.random.default_rng(0)
N, D = 80, 3
X = RNG.normal(size=(N, D))
BINARY = (RNG.random(N) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
CLASSES = RNG.integers(0, 3, N)
NUMBERS = X @ [1.0, 2.0, 3.0] + RNG.normal(size=N)
OFFSET = RNG.normal(size=N)
TIGHT = dict(disp=0, tol=1e-14, method="newton")


def close(a, b, rtol=1e-8):
    np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-12)


def report(loss, params, y, **options):
    return inference.summary(loss, params, X, y, **options)


def numbers(params):
    """Bias first, as statsmodels has the constant."""
    return np.append(params.bias, params.weights)


# --- reports ------------------------------------------------------------------------------------


def test_a_logistic_regression_is_statsmodels():
    found = report(losses.logistic, logistic.fit(X, BINARY)[0], BINARY)
    theirs = sm.Logit(BINARY, sm.add_constant(X)).fit(**TIGHT)
    close(numbers(found.params), theirs.params)
    close(numbers(found.standard_errors), theirs.bse)
    close(numbers(found.statistic), theirs.tvalues)
    close(numbers(found.p_value), theirs.pvalues)
    close(np.column_stack([numbers(found.lower), numbers(found.upper)]), theirs.conf_int())
    close(numbers(found.odds_ratio), np.exp(theirs.params))
    own = found.log_likelihood, found.null_log_likelihood, found.aic, found.bic, found.r_squared
    close(own, (theirs.llf, theirs.llnull, theirs.aic, theirs.bic, theirs.prsquared))
    close((found.number, found.events, found.degrees), (N, BINARY.sum(), D + 1))
    assert found.status == Status.CONVERGED


def test_spector_as_greene_prints_it():
    data = sm.datasets.spector.load()
    x, y = np.asarray(data.exog)[:, :3], np.asarray(data.endog).astype(int)
    params, _ = logistic.fit(x, y)
    found = inference.summary(losses.logistic, params, x, y)
    np.testing.assert_allclose(found.params.weights, [2.826, 0.095, 2.379], atol=6e-4)
    np.testing.assert_allclose(found.standard_errors.weights, [1.263, 0.142, 1.065], atol=6e-4)
    np.testing.assert_allclose(found.log_likelihood, -12.890, atol=6e-4)


def test_softmax_against_a_reference_is_statsmodels():
    found = report(losses.softmax, softmax.fit(X, CLASSES)[0], CLASSES, reference=0)
    theirs = sm.MNLogit(CLASSES, sm.add_constant(X)).fit(**TIGHT)
    for c in (1, 2):
        own = [np.append(a.bias[c], a.weights[c]) for a in (found.params, found.standard_errors)]
        close(own, [theirs.params[:, c - 1], theirs.bse[:, c - 1]])
    own = found.log_likelihood, found.null_log_likelihood, found.aic, found.bic
    close(own, (theirs.llf, theirs.llnull, theirs.aic, theirs.bic))
    close(found.events, np.bincount(CLASSES))
    assert found.degrees == 2 * (D + 1)


def test_least_squares_is_statsmodels():
    found = report(losses.squared, least_squares.regress(X, NUMBERS)[0], NUMBERS)
    theirs = sm.OLS(NUMBERS, sm.add_constant(X)).fit()
    close(numbers(found.standard_errors), theirs.bse)
    close(numbers(found.statistic), theirs.tvalues)
    close(numbers(found.p_value), theirs.pvalues)
    close(np.column_stack([numbers(found.lower), numbers(found.upper)]), theirs.conf_int())
    own = found.log_likelihood, found.aic, found.bic, found.r_squared
    close(own, (theirs.llf, theirs.aic, theirs.bic, theirs.rsquared))
    assert found.odds_ratio is None and found.events is None
    assert " t " in str(found) and "R^2" in str(found)


@pytest.mark.parametrize("degrees", [1, 2.5, 30, 1e6])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_students_quantiles_and_tails(degrees, level):
    degrees, level = jnp.array(degrees), jnp.array(level)
    found = _report.t_quantile(level, degrees)
    close(found, scipy.stats.t.ppf((1 + level) / 2, degrees), 1e-9)
    close(_report.t_tail(found, degrees), 1 - level, 1e-8)


@pytest.mark.parametrize("bias", [True, False])
def test_offsets_are_part_of_the_null(bias):
    params, _ = logistic.fit(X, BINARY, offset=OFFSET, bias=bias)
    found = report(losses.logistic, params, BINARY, offset=OFFSET, bias=bias)
    null = logistic.fit(X, BINARY, offset=OFFSET, bias=bias, feature_mask=np.zeros(D, bool))
    close(found.null_log_likelihood, -N * null[1].objective)
    z = sm.add_constant(X) if bias else X
    theirs = sm.GLM(BINARY, z, family=sm.families.Binomial(), offset=OFFSET).fit(tol=1e-14)
    close(found.log_likelihood, theirs.llf)
    shifts = np.column_stack([OFFSET, -OFFSET, np.sin(OFFSET)])
    params, _ = softmax.fit(X, CLASSES, offset=shifts)
    found = report(losses.softmax, params, CLASSES, offset=shifts)
    null = softmax.fit(X, CLASSES, offset=shifts, feature_mask=np.zeros(D, bool))
    close(found.null_log_likelihood, -N * null[1].objective)


def test_weights_count_rows():
    weight = RNG.integers(0, 3, N).astype(float)
    rows = np.repeat(np.arange(N), weight.astype(int))
    params, _ = softmax.fit(X, CLASSES, sample_weight=weight)
    weighed = report(losses.softmax, params, CLASSES, sample_weight=weight)
    repeated = inference.summary(losses.softmax, params, X[rows], CLASSES[rows])
    assert_close(weighed, repeated, 1e-9)


def test_an_absent_class():
    y = np.where(CLASSES == 1, 3, CLASSES)
    params, _ = softmax.fit(X, y, num_classes=5)
    found = report(losses.softmax, params, y)
    fewer, _ = softmax.fit(X, np.array([0, 0, 1, 2])[y])
    less = report(losses.softmax, fewer, np.array([0, 0, 1, 2])[y])
    close(found.log_likelihood, less.log_likelihood)
    close(found.null_log_likelihood, less.null_log_likelihood)
    close(found.events, [*np.bincount(y), 0])
    assert found.degrees == less.degrees and found.status == Status.CONVERGED


def test_a_penalty_leaves_fewer_degrees():
    degrees = []
    for l2 in (1e-6, 0.1, 1e6):
        params, _ = logistic.fit(X, BINARY, l2=l2)
        degrees.append(report(losses.logistic, params, BINARY, l2=l2).degrees)
    lever = inference.leverage(losses.logistic, params, X, BINARY, l2=1e6)
    close(degrees[-1], jnp.sum(lever))
    assert D + 1 > degrees[0] > degrees[1] > degrees[2] > 1


def test_separable_data_print_no_number_that_means_nothing():
    x = np.column_stack([np.arange(8.0), np.array([1, -1, 1, -1, 1, -1, 1, -1])])
    y = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    params, _ = logistic.fit(x, y)
    found = inference.summary(losses.logistic, params, x, y)
    assert found.status == Status.SEPARABLE and found.params.weights[0] == np.inf
    known = dict.fromkeys(("params", "level", "number", "events", "status"))
    rest = jax.tree.leaves(found._replace(**known))
    assert len(rest) == 18 and all(np.isnan(a).all() for a in rest)
    assert "SEPARABLE" in str(found) and "inf" in str(found)
    # Under a transformation as well.
    traced = jax.jit(lambda x: inference.summary(losses.logistic, params, x, y))(x)
    assert_close(traced, found, 1e-12)
    # Params that are another equation's.
    wrong = report(losses.logistic, logistic.fit(X, BINARY, l2=1.0)[0], BINARY)
    assert wrong.status == Status.STALLED and np.isnan(wrong.params.weights).all()


def test_the_table():
    params, _ = softmax.fit(X, CLASSES, feature_mask=np.array([True, True, False]))
    options = {"feature_mask": np.array([True, True, False]), "reference": 0}
    found = report(losses.softmax, params, CLASSES, **options)
    lines = found.table(names=["age", "dose", "left"], classes=["a", "b", "c"]).splitlines()
    assert [line.split()[0] for line in lines[1:9]] == [
        "class",
        "bias",
        "age",
        "dose",
        "left",
        "class",
        "bias",
        "age",
    ]
    assert lines[1] == "class b" and lines[5].split() == ["left", "0", *"------"]
    with pytest.raises(ValueError, match="names: expected 3"):
        found.table(names=["age"])
    many = jax.vmap(lambda w: report(losses.softmax, params, CLASSES, sample_weight=w, **options))
    assert str(many(np.ones((2, N)))).startswith("Summary(")
    with pytest.raises(ValueError, match="level"):
        report(losses.softmax, params, CLASSES, level=95)
    with pytest.raises(ValueError, match=r"loss: expected losses\.logistic"):
        report(losses.squared_hinge, logistic.fit(X, BINARY)[0], BINARY)


def test_derivatives_of_figures():
    def figure(weight):
        params, _ = logistic.fit(X, BINARY, offset=OFFSET, sample_weight=weight)
        found = report(losses.logistic, params, BINARY, offset=OFFSET, sample_weight=weight)
        return found.r_squared

    slope = jax.grad(figure)(np.ones(N))
    step = np.zeros(N)
    step[3] = 1e-5
    apart = figure(np.ones(N) + step) - figure(np.ones(N) - step)
    np.testing.assert_allclose(slope[3], apart / 2e-5, rtol=1e-6)


# --- tests of fit -------------------------------------------------------------------------------


def test_hosmer_and_lemeshows_is_the_formula():
    scores = linear.scores(logistic.fit(X, BINARY)[0], X)
    chance = 1 / (1 + np.exp(-np.asarray(scores)))
    group = np.searchsorted(np.quantile(chance, np.arange(1, 10) / 10), chance)
    size, seen, said = (np.bincount(group, a) for a in (np.ones(N), BINARY, chance))
    found = inference.hosmer_lemeshow(scores, BINARY)
    close(found.statistic, np.sum((seen - said) ** 2 / (said * (1 - said / size))))
    close(found.p_value, scipy.stats.chi2.sf(found.statistic, 8))
    weight = RNG.integers(0, 4, N)
    rows = np.repeat(np.arange(N), weight)
    wild = jnp.where(weight == 0, jnp.nan, scores)
    assert_close(
        inference.hosmer_lemeshow(wild, BINARY, sample_weight=weight),
        inference.hosmer_lemeshow(scores[rows], BINARY[rows]),
        1e-10,
    )


def test_groups_of_equal_scores_and_of_none():
    scores = np.repeat([-1.0, 0.0, 1.0, 2.0], 20)
    found = inference.hosmer_lemeshow(scores, BINARY)
    assert found.degrees == 2 and np.isfinite(found.statistic)
    assert np.isnan(inference.hosmer_lemeshow(np.zeros(N), BINARY).statistic)
    assert np.isnan(inference.hosmer_lemeshow(np.full(N, np.nan), BINARY).statistic)
    with pytest.raises(ValueError, match="num_groups: expected at least 3"):
        inference.hosmer_lemeshow(scores, BINARY, num_groups=2)


def test_le_cessies_is_the_formula():
    params, _ = logistic.fit(X, BINARY)
    chance = 1 / (1 + np.exp(-np.asarray(linear.scores(params, X))))
    z, curve, lean = sm.add_constant(X), chance * (1 - chance), 1 - 2 * chance
    left = np.sqrt(curve) * sm.WLS(lean, z, weights=curve).fit().resid
    wanted = (np.sum((BINARY - chance) ** 2) - np.sum(curve)) / np.sqrt(np.sum(left**2))
    found = inference.le_cessie(params, X, BINARY)
    close(found.statistic, wanted, 1e-9)
    close(found.p_value, 2 * scipy.stats.norm.sf(abs(wanted)))
    # A class for each of two columns leaves nothing to be tested.
    x = (X[:, :1] > 0).astype(float)
    assert np.isnan(inference.le_cessie(logistic.fit(x, BINARY)[0], x, BINARY).statistic)


def test_tests_of_fit_reject_as_often_as_they_say():
    def p_values(key):
        one, two = jax.random.split(key)
        x = jax.random.normal(one, (200, 2))
        y = (jax.random.uniform(two, (200,)) < jax.nn.sigmoid(x[:, 0])).astype(int)
        params, _ = logistic.fit(x, y)
        far = inference.hosmer_lemeshow(linear.scores(params, x), y)
        return far.p_value, inference.le_cessie(params, x, y).p_value

    for found in jax.jit(jax.vmap(p_values))(jax.random.split(jax.random.key(0), 1000)):
        assert 0.03 < np.mean(found <= 0.05) < 0.075


def test_what_is_no_minimum_is_not_called_separable_for_it():
    """With a penalty there is one, however the classes lie; and soft labels have no classes."""
    x = np.arange(6.0)[:, None]
    y = (x[:, 0] > 2).astype(int)
    wrong, _ = logistic.fit(x, y, l2=0.5)
    found = inference.summary(losses.logistic, wrong, x, y, l2=0.1)
    assert found.status == Status.STALLED and np.isnan(found.params.weights).all()
    soft = np.where(BINARY, 0.9, 0.2)
    params, _ = logistic.fit(X, soft)
    right = jax.jit(lambda y: inference.summary(losses.logistic, params, X, y))(soft)
    assert right.status == Status.CONVERGED and np.isfinite(right.log_likelihood)
    other = jax.tree.map(lambda a: a + 1, params)
    assert report(losses.logistic, other, soft).status == Status.STALLED

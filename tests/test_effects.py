"""Effects on probabilities against statsmodels, differences and the delta method by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import statsmodels.api as sm

from jaxlin import effects, inference, linear, logistic, losses, softmax
from tests.public import assert_close

RNG = np.random.default_rng(0)
N, D = 200, 3
X = RNG.normal(size=(N, D))
BINARY = (RNG.random(N) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
CLASSES = RNG.integers(0, 3, N)
TIGHT = dict(disp=0, tol=1e-14, method="newton")


def plane():
    params, _ = logistic.fit(X, BINARY)
    return params, inference.covariance(losses.logistic, params, X, BINARY)


def planes():
    params, _ = softmax.fit(X, CLASSES)
    return params, inference.covariance(losses.softmax, params, X, CLASSES)


def of_fitted(function, fitted, *rows, **options):
    params, covariance = fitted()
    return function(params, *rows, covariance, **options)


@pytest.mark.parametrize(
    "fitted, peer",
    [(plane, lambda z: sm.Logit(BINARY, z)), (planes, lambda z: sm.MNLogit(CLASSES, z))],
)
def test_average_effects_are_statsmodels(fitted, peer):
    theirs = peer(sm.add_constant(X)).fit(**TIGHT).get_margeff()
    found = of_fitted(effects.average_marginal, fitted, X)
    np.testing.assert_allclose(found.estimate, theirs.margeff, atol=1e-12)
    np.testing.assert_allclose(found.standard_error, theirs.margeff_se, atol=1e-12)
    np.testing.assert_allclose(found.p_value, theirs.pvalues, rtol=1e-7)


@pytest.mark.parametrize("fitted", [plane, planes])
def test_rows_are_the_delta_method(fitted):
    params, covariance = fitted()
    x, other = X[:4], X[4:8]

    def of_row(i):
        def probabilities(params, row):
            found = linear.probabilities(params, row)
            return found[1] if fitted is plane else found

        return (
            lambda params: probabilities(params, other[i]) - probabilities(params, x[i]),
            lambda params: jax.jacrev(lambda row: probabilities(params, row))(x[i]).T,
        )

    apart = effects.difference(params, x, other, covariance)
    slopes = effects.marginal(params, x, covariance)
    for i in range(4):
        for found, function in zip((apart, slopes), of_row(i), strict=True):
            wanted = np.sqrt(np.diag(inference.delta(function, params, covariance)))
            np.testing.assert_allclose(found.estimate[i], function(params), atol=1e-14)
            np.testing.assert_allclose(found.standard_error[i].ravel(), wanted, rtol=1e-9)


def test_an_average_is_that_of_the_rows_and_its_error_is_not():
    params, covariance = plane()
    other = X + np.array([1, 0, 0])
    each = effects.difference(params, X, other, covariance)
    whole = effects.average_difference(params, X, other, covariance)
    np.testing.assert_allclose(whole.estimate, jnp.mean(each.estimate), rtol=1e-12)
    assert whole.standard_error < jnp.mean(each.standard_error)
    assert whole.standard_error > jnp.sqrt(jnp.mean(each.standard_error**2) / N)


def test_weights_count_rows_and_rows_without_are_absent():
    params, covariance = planes()
    weight = RNG.integers(0, 3, N).astype(float)
    rows = np.repeat(X, weight.astype(int), axis=0)
    wild = np.where((weight == 0)[:, None], np.nan, X)
    weighed = effects.average_marginal(params, wild, covariance, sample_weight=weight)
    assert_close(weighed, effects.average_marginal(params, rows, covariance), 1e-10)


def test_forms_of_softmax_have_the_same_effects():
    params, covariance = planes()
    reference = softmax.to_reference(params, 1)
    spread = inference.covariance(losses.softmax, params, X, CLASSES, reference=1)
    assert_close(
        effects.average_marginal(reference, X, spread),
        effects.average_marginal(params, X, covariance),
        1e-9,
    )
    assert np.isnan(effects.marginal(reference, X[:2], covariance).standard_error).all()


def test_shapes_that_do_not_fit():
    params, covariance = plane()
    with pytest.raises(ValueError, match=r"other: expected shape \(200, 3\)"):
        effects.difference(params, X, X[1:], covariance)
    with pytest.raises(TypeError, match="params: expected a Hyperplane or a Linear"):
        effects.marginal(X, X, covariance)

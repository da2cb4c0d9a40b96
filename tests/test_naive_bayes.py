"""Naive Bayes against scikit-learn's five, and where nothing varies or nothing was seen."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn import naive_bayes as theirs

import jaxlin
from jaxlin import features, gaussian, moments, naive_bayes, streaming
from jaxlin.types import DiagonalGaussian, Gaussian, Status
from tests.public import assert_close

RNG = np.random.default_rng(0)
N, K = 80, 3
Y = RNG.choice(K, size=N, p=[0.6, 0.3, 0.1])
COUNTS = RNG.poisson(1 + np.eye(K, 6)[Y] * 2).astype(float)
WORDS = (COUNTS > 1).astype(float)
NUMBERS = RNG.normal(size=(N, 4)) * [1, 100, 1e-3, 5] + np.eye(K, 4)[Y] + [0, 1000, -1, 0]
CODES = np.stack([RNG.integers(0, 2, N), (Y + RNG.integers(0, 2, N)) % 4], axis=1)
SIZES = (2, 4)
GROUPS = np.repeat([0, 1], SIZES)
ONE_HOT = np.asarray(features.one_hot(CODES, sizes=SIZES))
WEIGHT = RNG.integers(0, 4, N).astype(float)
PRIORS = np.array([0.2, 0.5, 0.3])

PAIRS = {
    "bernoulli": (naive_bayes.fit_bernoulli, theirs.BernoulliNB, WORDS),
    "multinomial": (naive_bayes.fit_multinomial, theirs.MultinomialNB, COUNTS),
    "complement": (naive_bayes.fit_complement, theirs.ComplementNB, COUNTS),
    "gaussian": (naive_bayes.fit_gaussian, theirs.GaussianNB, NUMBERS),
}
CATEGORICAL = functools.partial(naive_bayes.fit_categorical, groups=GROUPS)
ALL = {name: (fit, x) for name, (fit, _, x) in PAIRS.items()} | {
    "categorical": (CATEGORICAL, ONE_HOT),
    "normed": (functools.partial(naive_bayes.fit_complement, normed=True), COUNTS),
}


def options_of(name, alpha):
    if name == "gaussian":
        return {"smoothing": alpha / 1e3}, {"var_smoothing": alpha / 1e3}
    return {"alpha": alpha}, {"alpha": alpha}


@pytest.mark.parametrize("alpha", [1.0, 0.1])
@pytest.mark.parametrize("name", PAIRS)
def test_it_is_scikit_learns(name, alpha):
    fit, kind, x = PAIRS[name]
    ours, other = options_of(name, alpha)
    params, info = fit(x, Y, **ours)
    peer = kind(**other).fit(x, Y)
    assert info.status == Status.CONVERGED
    wanted = peer._joint_log_likelihood(x)
    np.testing.assert_allclose(jaxlin.scores(params, x), wanted, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(jaxlin.predict(params, x), peer.predict(x))
    own = jnp.take_along_axis(jaxlin.scores(params, x), Y[:, None], axis=1)
    np.testing.assert_allclose(info.objective, -np.mean(own), rtol=1e-10)
    if name != "complement":
        found = jaxlin.probabilities(params, x)
        np.testing.assert_allclose(found, peer.predict_proba(x), atol=1e-10)


@pytest.mark.parametrize("name", ["bernoulli", "multinomial", "complement"])
def test_it_is_scikit_learns_with_weights(name):
    fit, kind, x = PAIRS[name]
    params, _ = fit(x, Y, sample_weight=WEIGHT)
    peer = kind().fit(x, Y, sample_weight=WEIGHT)
    wanted = peer._joint_log_likelihood(x)
    np.testing.assert_allclose(jaxlin.scores(params, x), wanted, rtol=1e-10, atol=1e-10)


def test_variances_are_those_of_repeated_rows():
    """scikit-learn's smoothing does not know the weights."""
    twice = np.repeat(np.arange(N), WEIGHT.astype(int))
    params, _ = naive_bayes.fit_gaussian(NUMBERS, Y, sample_weight=WEIGHT)
    peer = theirs.GaussianNB().fit(NUMBERS[twice], Y[twice])
    np.testing.assert_allclose(params.means, peer.theta_, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(params.variances, peer.var_, rtol=1e-10)


@pytest.mark.parametrize("scale", [1e-33, 1e-20, 1e30])
def test_variances_know_the_weights_proportions_alone(scale):
    x, weight = NUMBERS.astype(np.float32), (1 + WEIGHT).astype(np.float32)
    params, info = naive_bayes.fit_gaussian(x, Y, sample_weight=weight)
    found, told = naive_bayes.fit_gaussian(x, Y, sample_weight=weight * np.float32(scale))
    np.testing.assert_allclose(found.variances, params.variances, rtol=1e-5)
    np.testing.assert_allclose(told.objective, info.objective, rtol=1e-5)
    assert told.status == info.status == Status.CONVERGED


@pytest.mark.parametrize("alpha", [1.0, 0.1])
def test_categories_are_scikit_learns(alpha):
    params, info = CATEGORICAL(ONE_HOT, Y, alpha=alpha)
    peer = theirs.CategoricalNB(alpha=alpha).fit(CODES, Y)
    assert info.status == Status.CONVERGED
    wanted = np.concatenate(peer.feature_log_prob_, axis=1)
    np.testing.assert_allclose(params.weights, wanted, rtol=1e-10)
    found = jaxlin.scores(params, ONE_HOT)
    np.testing.assert_allclose(found, peer._joint_log_likelihood(CODES), rtol=1e-10)


def test_normed_weights_are_scikit_learns():
    fit, x = ALL["normed"]
    peer = theirs.ComplementNB(norm=True).fit(x, Y)
    np.testing.assert_allclose(fit(x, Y)[0].weights, peer.feature_log_prob_, rtol=1e-10)


@pytest.mark.parametrize("name", ["bernoulli", "multinomial", "gaussian"])
def test_priors_are_divided_by_their_sum(name):
    fit, kind, x = PAIRS[name]
    params, _ = fit(x, Y, priors=3 * PRIORS)
    given = {"priors": PRIORS} if name == "gaussian" else {"class_prior": PRIORS}
    wanted = kind(**given).fit(x, Y)._joint_log_likelihood(x)
    np.testing.assert_allclose(jaxlin.scores(params, x), wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ALL)
def test_of_parts_it_is_the_whole(name):
    fit, x = ALL[name]
    params, info = fit(x, Y, sample_weight=WEIGHT)
    bare = fit.func if isinstance(fit, functools.partial) else fit
    options = fit.keywords if isinstance(fit, functools.partial) else {}
    parts = [
        moments.per_column(x[at], Y[at], sample_weight=WEIGHT[at], num_classes=K)
        for at in np.array_split(np.arange(N), 4)
    ]
    whole = functools.reduce(moments.merge, parts)
    found = naive_bayes.fit_from_moments(bare, whole, **options)
    assert_close(found, (params, info), rtol=1e-10)
    source = streaming.arrays(x, Y, sample_weight=WEIGHT)
    assert_close(streaming.fit(fit, source), (params, info), rtol=1e-10)
    # Taken out, a part leaves the others.
    rest, last = moments.subtract(whole, parts[3]), functools.reduce(moments.merge, parts[:3])
    assert_close(rest, last, rtol=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_an_absent_class_is_never_predicted(name):
    fit, x = ALL[name]
    params, info = fit(x, 2 * Y, num_classes=6)
    few, told = fit(x, Y)
    found = jaxlin.scores(params, x)
    np.testing.assert_allclose(found[:, [0, 2, 4]], jaxlin.scores(few, x), rtol=1e-12)
    np.testing.assert_array_equal(jaxlin.probabilities(params, x)[:, [1, 3, 5]], 0)
    assert_close(info, told, rtol=1e-12)
    assert fit(x, np.zeros(N, int), num_classes=3)[1].status == Status.CLASS_TOO_SMALL


@pytest.mark.parametrize("name", ALL)
def test_a_masked_column_is_not_there(name):
    fit, x = ALL[name]
    keep = np.arange(x.shape[1]) != 1
    holding = np.where(keep[None, :], x, np.nan)
    params, info = fit(holding, Y, feature_mask=keep)
    few = {"groups": GROUPS[keep]} if name == "categorical" else {}
    alone, told = fit(x[:, keep], Y, **few)
    seen = np.where(keep[None, :], x, 0)
    np.testing.assert_allclose(
        jaxlin.scores(params, seen), jaxlin.scores(alone, x[:, keep]), rtol=1e-12
    )
    assert_close(info, told, rtol=1e-12)


def test_without_smoothing_a_column_that_does_not_vary_has_no_bound():
    x = np.concatenate([NUMBERS, (Y == 1)[:, None]], axis=1)
    _, info = naive_bayes.fit_gaussian(x, Y, smoothing=0.0)
    assert info.status == Status.QUASI_SEPARABLE
    assert info.objective == -np.inf
    assert naive_bayes.fit_gaussian(x, Y)[1].status == Status.CONVERGED
    assert naive_bayes.fit_gaussian(NUMBERS, Y, smoothing=0.0)[1].status == Status.CONVERGED


@pytest.mark.parametrize("name", ["bernoulli", "multinomial", "complement", "categorical"])
def test_what_is_no_count_is_named(name):
    fit, x = ALL[name]
    bad = x.copy()
    bad[7, 1] = -1
    with pytest.raises(ValueError, match=r"x: 1 of \d+ entries are .*, the first at \(7, 1\): -1"):
        fit(bad, Y)
    assert jax.jit(fit, static_argnames="num_classes")(bad, Y, num_classes=K)[1].status == (
        Status.INVALID_DATA
    )
    assert fit(bad, Y, sample_weight=(np.arange(N) != 7) * 1.0)[1].status == Status.CONVERGED
    with pytest.raises(ValueError, match="alpha: 1 of 1 entries are not positive"):
        fit(x, Y, alpha=0.0)


def test_more_than_one_is_no_part():
    with pytest.raises(ValueError, match=r"not in \[0, 1\]"):
        naive_bayes.fit_bernoulli(COUNTS, Y)


def test_the_diagonal_is_a_gaussian():
    """All verbs of `gaussian`, against the same covariances written out."""
    params, _ = naive_bayes.fit_gaussian(NUMBERS, Y)
    whole = Gaussian(params.means, jax.vmap(jnp.diag)(params.variances), params.priors)
    for verb in ("log_joint", "log_density", "probabilities", "log_probabilities", "predict"):
        f = getattr(gaussian, verb)
        np.testing.assert_allclose(f(params, NUMBERS), f(whole, NUMBERS), rtol=1e-9, atol=1e-12)
    assert_close(gaussian.to_quadratic(params), gaussian.to_quadratic(whole))
    x, y = gaussian.sample(jax.random.key(0), params, 50_000)
    again, _ = naive_bayes.fit_gaussian(x, y, smoothing=0.0)
    np.testing.assert_allclose(again.variances, params.variances, rtol=0.06)
    np.testing.assert_allclose(again.priors, params.priors, atol=0.01)


def test_a_column_of_no_variance_is_not_seen():
    params = DiagonalGaussian(jnp.zeros((1, 2)), jnp.array([[1.0, 0.0]]), jnp.ones(1))
    one = DiagonalGaussian(jnp.zeros((1, 1)), jnp.ones((1, 1)), jnp.ones(1))
    found = gaussian.log_joint(params, jnp.array([[0.5, 7.0]]))
    np.testing.assert_allclose(found, gaussian.log_joint(one, jnp.array([[0.5]])), rtol=1e-12)


def test_other_moments_and_options_are_refused():
    tied = moments.tied(COUNTS, Y)
    with pytest.raises(TypeError, match="expected ColumnMoments, got TiedMoments"):
        naive_bayes.fit_from_moments(naive_bayes.fit_multinomial, tied)
    columns = moments.per_column(COUNTS, Y)
    with pytest.raises(TypeError, match="no option 'smoothing' for moments"):
        naive_bayes.fit_from_moments(naive_bayes.fit_multinomial, columns, smoothing=1.0)
    with pytest.raises(TypeError, match="fit: expected one of fit_bernoulli"):
        naive_bayes.fit_from_moments(gaussian.fit, columns)


@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
def test_categories_become_columns(shape):
    codes = RNG.integers(-1, 3, size=(*shape, 2))
    found = features.one_hot(codes, sizes=(2, 3))
    wanted = [(codes[..., j, None] == np.arange(size)) for j, size in enumerate((2, 3))]
    np.testing.assert_array_equal(found, np.concatenate(wanted, axis=-1))
    with pytest.raises(ValueError, match=r"codes: expected shape \(..., 3\)"):
        features.one_hot(codes, sizes=(2, 3, 4))
    with pytest.raises(TypeError, match="codes: expected integers"):
        features.one_hot(codes * 1.0, sizes=(2, 3))

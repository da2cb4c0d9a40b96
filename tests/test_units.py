"""Columns in any units: what is made of squares of columns is right where these leave the range.

A power of two changes no digit of x, so that params of x in other units are known bit for bit from
those of x itself, which float64 has in numpy's own words.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlin import fisher, gaussian, lda, least_squares, metrics, moments, qda, resample
from jaxlin._moments import _statistics
from jaxlin.types import Status, TiedGaussian

N, D, K = 60, 4, 3
# A column in each, whose squares are 2^-120 and 2^114.
MIXED = 2.0 ** np.array([-60, 57, 3, -31])
LINES = {
    "lda": functools.partial(lda.fit, num_classes=K),
    "least squares": functools.partial(least_squares.fit, num_classes=K),
    "without a bias": functools.partial(least_squares.fit, num_classes=K, bias=False),
    "fisher": lambda x, y, **weight: fisher.fit(x, (y > 0).astype(int), **weight),
    "numbers": lambda x, y, **weight: least_squares.regress(x, y * 1.0, **weight),
}
BENT = {
    "qda": functools.partial(qda.fit, num_classes=K),
    "gaussian": functools.partial(gaussian.fit, num_classes=K),
    "tied": functools.partial(gaussian.fit_tied, num_classes=K),
}


def drawn(n=N, d=D, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % K
    x = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + rng.normal(size=(K, d))[y]
    return x.astype(np.float32), y


def in_units(params, unit):
    return params._replace(weights=np.asarray(params.weights) / unit.astype(np.float32))


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", LINES)
def test_a_plane_knows_no_units_of_its_columns(name, weighted):
    x, y = drawn()
    weight = {"sample_weight": np.arange(N) % 4} if weighted else {}
    params, info = LINES[name](x, y, **weight)
    found, its = LINES[name](x * MIXED.astype(np.float32), y, **weight)
    assert info.status == its.status == Status.CONVERGED
    assert_same(found, in_units(params, MIXED))
    exact, _ = LINES[name](x.astype(float), y, **weight)
    np.testing.assert_allclose(params.weights, exact.weights, rtol=1e-5, atol=1e-5)


def test_shrinkage_is_toward_the_identity_of_the_users_own_units():
    """A column far smaller than the others drowns in it, and one as large does not."""
    x, y = drawn()
    unit = 2.0 ** np.array([-60, -60, -60, -100]).astype(np.float32)
    params, info = lda.fit(x * unit, y, shrinkage=0.25)
    assert info.status == Status.CONVERGED
    z = x[:, :3].astype(float)
    within = sum(np.cov(z[y == c].T, ddof=0) * np.mean(y == c) for c in range(K))
    covariance = 0.75 * within + 0.25 * np.trace(within) / 4 * np.eye(3)
    means = np.stack([z[y == c].mean(0) for c in range(K)])
    expected = np.linalg.solve(covariance, means.T).T
    found = np.asarray(params.weights) * unit
    np.testing.assert_allclose(found[:, :3], expected, rtol=1e-5, atol=1e-6)
    assert np.max(np.abs(found[:, 3])) < 2.0**-60


def test_a_penalty_far_beyond_a_column_or_far_below_it():
    """l2 has the units of x squared: of 2^-60 a penalty of 1 leaves nothing, of 2^60 everything."""
    x, y = drawn()
    for unit, l2 in ((2.0**-60, 1.0), (2.0**-30, 2.0**60), (2.0**56, 1.0), (2.0**56, 2.0**111)):
        params, info = least_squares.fit(x * np.float32(unit), y, l2=l2)
        assert info.status == Status.CONVERGED
        z = x.astype(float) - x.astype(float).mean(0)
        t = np.eye(K)[y] - np.eye(K)[y].mean(0)
        gram = z.T @ z / N * unit**2 + l2 * np.eye(D)
        expected = np.linalg.solve(gram, z.T @ t / N * unit).T
        tolerance = 1e-6 * np.max(np.abs(expected))
        np.testing.assert_allclose(params.weights, expected, rtol=0, atol=tolerance)


def test_targets_of_any_units():
    x, _ = drawn()
    t = (x @ np.arange(1.0, D + 1) + np.sin(np.arange(N))).astype(np.float32)
    params, info = least_squares.regress(x, t)
    for power in (-62, 90):
        found, its = least_squares.regress(x, t * np.float32(2.0**power))
        scaled = jax.tree.map(functools.partial(np.multiply, np.float32(2.0**power)), params)
        assert_same(found, scaled)
        assert its.status == (info.status if power < 0 else Status.STALLED)
        # Of which the square is beyond the range.
        assert its.objective == (info.objective * 2.0 ** (2 * power) if power < 0 else np.inf)


def test_a_column_that_is_rarely_anything_but_0():
    """No sample of rows that leaves most of them out sees it."""
    n = 9_001
    x, y = drawn(n)
    x[:, 0] = 0
    x[[4_321, 4_322, 17], 0] = 1, 2, 5
    weight = np.ones(n, np.float32)
    plain, info = lda.fit(x, y, sample_weight=weight)
    x[:, 0] *= np.float32(2.0**-60)
    found, its = lda.fit(x, y, sample_weight=weight)
    assert info.status == its.status == Status.CONVERGED
    assert_same(found, in_units(plain, np.array([2.0**-60, 1, 1, 1])))


def test_rows_without_weight_have_no_units():
    x, y = drawn()
    x = x * np.float32(2.0**-50)
    x[7], weight = 2.0**60, np.ones(N)
    weight[7] = 0
    found, info = lda.fit(x, y, sample_weight=weight)
    assert info.status == Status.CONVERGED
    x[7] = 0
    assert_same(found, lda.fit(x, y, sample_weight=weight)[0])


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_half_precision_is_widened_before_it_is_in_units(dtype):
    x, y = drawn()
    x = jnp.asarray(x, dtype)
    params, _ = lda.fit(x, y)
    small = jnp.asarray(x * 2.0**-12, dtype)
    assert_same(lda.fit(small, y)[0], lda.fit(jnp.asarray(small, jnp.float32), y)[0])
    assert np.all(np.isfinite(params.weights))


@pytest.mark.parametrize("power", [-40, 50])
def test_the_quick_way_is_taken_in_range_only(power):
    x, y = drawn(9_000, _statistics.PLAIN_SHARE * 4)
    exact, _ = lda.fit(x.astype(float), y)
    params, info = lda.fit(x * np.float32(2.0**power), y)
    assert info.status == Status.CONVERGED
    found = np.asarray(params.weights, float) * 2.0**power
    # Columns of condition 2,300, in units of float32's rounding 3e-4.
    tolerance = 1e-3 * np.max(np.abs(exact.weights))
    np.testing.assert_allclose(found, exact.weights, rtol=0, atol=tolerance)


# --- squares that no float32 is ------------------------------------------------------------------


@pytest.mark.parametrize("power", [-40, 50])
@pytest.mark.parametrize("name", BENT)
def test_what_is_square_is_right_in_range(name, power):
    x, y = drawn()
    x, unit = x[:, :2], np.float32(2.0**power)
    (plain, _), (params, info) = (BENT[name](x * by, y) for by in (np.float32(1), unit))
    assert info.status == Status.CONVERGED
    for field, power_of in (("quadratic", -2), ("covariances", 2), ("covariance", 2), ("means", 1)):
        if hasattr(params, field):
            expected = np.asarray(getattr(plain, field), float) * float(unit) ** power_of
            np.testing.assert_array_equal(np.asarray(getattr(params, field), float), expected)


@pytest.mark.parametrize("name, power", [("qda", 60), ("qda", -70), ("gaussian", -60)])
def test_what_float32_cannot_hold_is_no_success(name, power):
    x, y = drawn()
    x = (x / 16 * np.float32(2.0**power)).astype(np.float32)
    with pytest.raises(ValueError, match="range of float32: then give it in other units"):
        BENT[name](x, y)
    params, info = jax.jit(BENT[name])(x, y)
    assert info.status == Status.INVALID_DATA
    assert all(np.all(np.isnan(leaf)) for leaf in jax.tree.leaves(params))
    with pytest.raises(ValueError, match="range of float32"):
        gaussian.fit_tied(x * np.float32(2.0 ** (-60 - power)), y)


@pytest.mark.parametrize("power", [-70, 60])
def test_moments_that_float32_cannot_hold_are_nan(power):
    x, y = drawn()
    x = (x / 64 * np.float32(2.0**power)).astype(np.float32)[:, :2]
    weight = np.full(N, 2.0**30, np.float32) if power > 0 else np.ones(N, np.float32)
    with pytest.raises(ValueError, match="range of float32"):
        moments.tied(x, y, sample_weight=weight)
    of = jax.jit(functools.partial(moments.tied, num_classes=K))
    found = of(x, y, sample_weight=weight)
    assert np.all(np.isnan(found.scatter)) and np.all(np.isnan(found.weight))
    for fit in (lda.fit_from_moments, gaussian.fit_tied_from_moments):
        params, info = fit(found)
        assert info.status == Status.INVALID_DATA
        assert all(np.all(np.isnan(leaf)) for leaf in jax.tree.leaves(params))


def test_parts_of_one_row_are_in_one_unit():
    """Each part has a scatter of 0, which any dtype holds."""
    x, y = drawn()
    for power, held in ((-45, True), (-70, False)):
        z = x * np.float32(2.0**power)
        parts = [moments.tied(z[i : i + 1], y[i : i + 1], num_classes=K) for i in range(N)]
        whole = functools.reduce(moments.merge, parts)
        if not held:
            assert np.all(np.isnan(whole.scatter))
            assert lda.fit_from_moments(whole)[1].status == Status.INVALID_DATA
            continue
        params, info = lda.fit_from_moments(whole)
        assert info.status == Status.CONVERGED
        exact, _ = lda.fit(x.astype(float), y)
        found = np.asarray(params.weights, float) * 2.0**power
        np.testing.assert_allclose(found, exact.weights, atol=1e-5)
        rest = moments.subtract(whole, moments.tied(z[:30], y[:30], num_classes=K))
        exact = moments.tied(x[30:].astype(float), y[30:]).scatter
        found = np.asarray(rest.scatter, float) * 2.0 ** (-2 * power)
        np.testing.assert_allclose(found, exact, atol=1e-5 * np.max(exact))


@pytest.mark.parametrize("power", [-50, 60])
def test_densities_of_any_units(power):
    """log p(x, c) falls by the logarithm of the unit for each column."""
    x, y = drawn()
    x, unit = x[:, :2] / 4, np.float32(2.0**power)
    for fit in (gaussian.fit, gaussian.fit_tied):
        plain = jax.tree.map(np.asarray, fit(x, y)[0])
        means, covariance, priors = plain
        params = type(plain)(means * unit, covariance * unit * unit, priors)
        found, expected = gaussian.log_joint(params, x * unit), gaussian.log_joint(plain, x)
        np.testing.assert_allclose(found, np.asarray(expected) - 2 * power * np.log(2), rtol=1e-5)
        drawn_x, drawn_y = gaussian.sample(jax.random.key(0), params, 50)
        same_x, same_y = gaussian.sample(jax.random.key(0), plain, 50)
        np.testing.assert_array_equal(drawn_y, same_y)
        np.testing.assert_array_equal(drawn_x, np.asarray(same_x) * unit)
        if isinstance(plain, TiedGaussian):
            line, other = gaussian.to_linear(params), gaussian.to_linear(plain)
            np.testing.assert_array_equal(line.weights, np.asarray(other.weights) / unit)
        bent, other = gaussian.to_quadratic(params), gaussian.to_quadratic(plain)
        kept = np.asarray(other.quadratic) / unit / unit
        np.testing.assert_array_equal(bent.quadratic, kept if power < 0 else np.nan * kept)


# --- in lanes and streams ------------------------------------------------------------------------


@pytest.mark.parametrize("fit", [lda.fit, least_squares.fit])
def test_resamples_by_closed_form_know_no_units(fit):
    x, y = drawn()
    weights = resample.stratified_kfold(jax.random.key(0), y, folds=10)
    run = functools.partial(resample.refit, fit, num_classes=K)
    params, info = run(x, y, weights)
    found, its = run(x * MIXED.astype(np.float32), y, weights)
    np.testing.assert_array_equal(info.status, its.status)
    assert_same(found, in_units(params, MIXED))


@pytest.mark.parametrize("options", [{}, {"shrinkage": 0.1}])
def test_labellings_by_closed_form_know_no_units(options):
    x, y = drawn()
    weights = resample.stratified_kfold(jax.random.key(0), y, folds=4)

    def run(unit):
        return resample.permutation_test(
            jax.random.key(1),
            lda.fit,
            metrics.accuracy,
            x * np.float32(unit),
            y,
            weights,
            draws=20,
            num_classes=K,
            **options,
        )

    for one, other in zip(jax.tree.leaves(run(1)), jax.tree.leaves(run(2.0**-60)), strict=True):
        np.testing.assert_array_equal(one, other)

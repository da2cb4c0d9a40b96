"""Maps against their definitions, the standardizer against exact arithmetic and scikit-learn."""

from fractions import Fraction
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.test_util import check_grads
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from jaxlin import features, linear
from jaxlin.types import Gaussian, Hyperplane, Linear, Pairwise

LAWS = settings(max_examples=20, deadline=None)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 3))

MAPS = {
    "bias": features.bias,
    "polynomial": partial(features.polynomial, degree=3),
    "ball": features.ball,
    "absolute": features.absolute,
    "cosine": features.cosine,
    "apply_fourier": partial(
        features.apply_fourier, features.Fourier(RNG.normal(size=(5, 3)), RNG.normal(size=5))
    ),
    "standardize": partial(
        features.standardize, features.Standardizer(RNG.normal(size=3), np.array([1.0, 2, 3]))
    ),
}


@pytest.fixture(params=MAPS)
def feature_map(request):
    return MAPS[request.param]


def test_maps_take_examples_tables_and_grids(feature_map):
    table = feature_map(X)
    np.testing.assert_allclose(feature_map(X[0]), table[0], rtol=1e-14)
    np.testing.assert_allclose(feature_map(X.reshape(2, 3, 3)), table.reshape(2, 3, -1), rtol=1e-14)


def test_maps_agree_under_jit_and_vmap(feature_map):
    table = feature_map(X)
    np.testing.assert_allclose(jax.jit(feature_map)(X), table, rtol=1e-14)
    np.testing.assert_allclose(jax.vmap(feature_map)(X), table, rtol=1e-13)


def test_maps_have_derivatives(feature_map):
    check_grads(feature_map, (X[0],), order=1, modes=["rev"], rtol=1e-6)


@pytest.mark.parametrize("given_as, comes_as", [("float16", "float32"), ("int32", "float64")])
def test_maps_come_in_the_working_dtype(feature_map, given_as, comes_as):
    assert feature_map(X.astype(given_as)).dtype == comes_as


def test_maps_refuse_what_is_no_vector(feature_map):
    with pytest.raises(ValueError, match=r"x: expected shape \(\.\.\., "):
        feature_map(1.0)


@pytest.mark.parametrize("degree", [1, 2, 4])
def test_polynomial_is_that_of_scikit_learn(degree):
    expected = PolynomialFeatures(degree, include_bias=False).fit_transform(X)
    np.testing.assert_allclose(features.polynomial(X, degree=degree), expected, rtol=1e-14)


def test_polynomial_refuses_bad_degrees():
    with pytest.raises(ValueError, match="degree: expected at least 1, got 0"):
        features.polynomial(X, degree=0)
    with pytest.raises(TypeError, match='static_argnames="degree"'):
        jax.jit(features.polynomial)(X, degree=2)


def test_large_integers_do_not_wrap():
    with jax.enable_x64(False):
        assert features.bias(np.array([2**31]))[0] > 2**30


coordinate = st.integers(-50, 50).map(float)


@LAWS
@given(st.tuples(coordinate, coordinate), coordinate, st.tuples(coordinate, coordinate))
def test_ball_hyperplane_is_the_exact_sphere(center, radius, point):
    plane = features.ball_hyperplane(np.array(center), radius)
    score = linear.scores(plane, features.ball(np.array(point)))
    assert score == radius**2 - sum((p - c) ** 2 for p, c in zip(point, center, strict=True))


def test_ball_hyperplane_sides():
    plane = features.ball_hyperplane(np.array([1.0, 1.0]), 5.0)
    x = np.array([[4.0, 4.0], [4.0, 5.0], [5.0, 5.0]])  # inside, on the sphere, outside
    assert linear.predict(plane, features.ball(x)).tolist() == [1, 0, 0]


def test_ball_hyperplane_maps_over_centers():
    planes = jax.vmap(features.ball_hyperplane)(X, jnp.arange(6.0))
    one = features.ball_hyperplane(X[2], 2.0)
    np.testing.assert_allclose(planes.weights[2], one.weights, rtol=1e-14)
    with pytest.raises(ValueError, match=r"center: expected shape \(d,\)"):
        features.ball_hyperplane(X, 2.0)


def test_fourier_features_approach_the_gaussian_kernel():
    m, scale = 20_000, 1.5
    z = features.apply_fourier(
        features.fourier(jax.random.key(1), 3, num_features=m, scale=scale), X
    )
    squares = ((X[:, None] - X[None]) ** 2).sum(-1)
    np.testing.assert_allclose(z @ z.T, np.exp(-squares / (2 * scale**2)), atol=5 / m**0.5)


def test_fourier_draws():
    draw = partial(features.fourier, d=3, num_features=4)
    keys = jax.random.split(jax.random.key(2), 2)
    lanes = jax.vmap(draw)(keys)
    np.testing.assert_array_equal(lanes.frequencies[1], draw(keys[1]).frequencies)
    assert not np.array_equal(lanes.phases[0], lanes.phases[1])
    wide = draw(keys[1], scale=2.0)
    np.testing.assert_allclose(wide.frequencies, lanes.frequencies[1] / 2, rtol=1e-15)
    with pytest.raises(ValueError, match="num_features: expected at least 1"):
        features.fourier(keys[0], 3, num_features=0)


def standardizer(x, weight=None):
    return features.standardizer(x, sample_weight=weight)


def assert_same_scaler(one, other, **tolerance):
    tolerance = tolerance or {"rtol": 1e-13, "atol": 1e-15}
    np.testing.assert_allclose(one.mean, other.mean, **tolerance)
    np.testing.assert_allclose(one.scale, other.scale, **tolerance)


@LAWS
@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=6, max_size=6))
def test_standardizer_is_that_of_scikit_learn(weight):
    weight = np.array(weight)
    scaler = standardizer(X, weight)
    if not weight.any():
        assert np.isnan(scaler.mean).all() and np.isnan(scaler.scale).all()
        return
    theirs = StandardScaler().fit(X, sample_weight=weight)
    np.testing.assert_allclose(scaler.mean, theirs.mean_, rtol=1e-12, atol=1e-14)
    if (weight > 0).sum() > 1:
        np.testing.assert_allclose(scaler.scale, theirs.scale_, rtol=1e-12)
    else:
        assert (scaler.scale == 1).all()


def test_a_row_of_weight_two_is_the_row_twice():
    weight = np.array([1.0, 2, 1, 1, 2, 1])
    assert_same_scaler(standardizer(X, weight), standardizer(X.repeat(weight.astype(int), axis=0)))


@pytest.mark.parametrize("hole", [np.nan, np.inf, 1e300, -1e9])
def test_a_row_of_weight_zero_is_absent(hole):
    weight = np.array([1.0, 0, 1, 1, 1, 1])
    x = np.where((weight == 0)[:, None], hole, X)
    scaler, expected = standardizer(x, weight), standardizer(X, weight)
    np.testing.assert_array_equal(scaler.mean, expected.mean)
    np.testing.assert_array_equal(scaler.scale, expected.scale)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("location, spread", [(1e6, 1.0), (-3.0, 1e-6), (0.0, 1e30), (0.0, 1e-30)])
def test_standardizer_is_accurate_wherever_the_column_lies(dtype, location, spread):
    if dtype == "float32" and spread != 1.0:
        spread = spread**0.5
    x = (location + spread * X).astype(dtype)
    scaler = standardizer(x)
    for j in range(3):
        column = [Fraction(float(v)) for v in x[:, j]]
        mean = sum(column) / len(column)
        variance = sum((v - mean) ** 2 for v in column) / len(column)
        eps = np.finfo(dtype).eps
        np.testing.assert_allclose(scaler.scale[j], float(variance) ** 0.5, rtol=8 * eps)
        error = abs(float(Fraction(float(scaler.mean[j])) - mean))
        assert error <= 4 * eps * max(abs(float(mean)), float(variance) ** 0.5)


def test_an_outlier_does_not_drown_the_rest():
    x = RNG.normal(size=(6, 3)) * 1e-6
    x[0] = 1.0
    weight = np.array([1e-12, 1, 1, 1, 1, 1])
    scaler = standardizer(x, weight)
    mean = np.average(x, axis=0, weights=weight)
    expected = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=weight))
    np.testing.assert_allclose(scaler.scale, expected, rtol=1e-9)


def test_a_constant_column_becomes_zero():
    x = np.concatenate([X[:, :2], np.full((6, 1), 0.1)], axis=1)
    for weight in (None, np.array([0.1, 0.2, 0.3, 0.7, 1.1, 1.3])):
        scaler = standardizer(x, weight)
        assert scaler.mean[2] == 0.1 and scaler.scale[2] == 1.0
        assert (features.standardize(scaler, x)[:, 2] == 0).all()


def test_standardizer_goes_block_by_block():
    n = 70_001
    x = RNG.normal(size=(n, 3)) + 100
    weight = RNG.integers(0, 3, n).astype(float)
    expected = StandardScaler().fit(x, sample_weight=weight)
    scaler = standardizer(x, weight)
    np.testing.assert_allclose(scaler.mean, expected.mean_, rtol=1e-13)
    np.testing.assert_allclose(scaler.scale, expected.scale_, rtol=1e-11)


def test_standardizer_lanes():
    weights = np.array([[1.0, 1, 0, 2, 1, 1], [1, -1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1]])
    lanes = jax.vmap(partial(standardizer, X))(weights)
    clean = jax.vmap(partial(standardizer, X))(np.abs(weights))
    for i in (0, 2):
        np.testing.assert_array_equal(lanes.mean[i], clean.mean[i])
        np.testing.assert_array_equal(lanes.scale[i], clean.scale[i])
        lane = features.Standardizer(lanes.mean[i], lanes.scale[i])
        assert_same_scaler(lane, standardizer(X, weights[i]))
    assert np.isnan(lanes.mean[1]).all() and np.isnan(lanes.scale[1]).all()


def test_standardizer_says_nan_for_data_that_are_not_finite():
    x = X.copy()
    x[0, 0] = np.nan
    assert np.isnan(standardizer(x).scale).all()


def test_standardizer_refuses_wrong_shapes():
    with pytest.raises(ValueError, match=r"x: expected shape \(n, d\)"):
        standardizer(X[0])
    with pytest.raises(ValueError, match=r"sample_weight: expected shape \(6,\)"):
        standardizer(X, np.ones(5))


def test_standardizer_has_derivatives():
    weight = np.array([1.0, 2, 1, 0, 2, 1])
    # In place of a difference across weight 0, where the formula is the same but data are invalid.
    check_grads(standardizer, (X, weight + 0.5), order=1, modes=["rev"], rtol=1e-6)
    slope = jax.jacrev(standardizer, 1)(X, weight).mean
    expected = (X - np.average(X, axis=0, weights=weight)) / weight.sum()
    np.testing.assert_allclose(slope.T, expected, atol=1e-14)


def test_a_wild_row_of_weight_zero_does_not_poison_derivatives():
    x = (1e-4 * X).astype("float32")
    x[3] = 1e17
    weight = np.array([1.0, 2, 1, 0, 2, 1], "float32")
    for slope in jax.grad(lambda x, w: standardizer(x, w).scale.sum(), (0, 1))(x, weight):
        assert np.isfinite(slope).all()


PLANES = {
    "Hyperplane": Hyperplane(RNG.normal(size=3), np.array(0.5)),
    "Linear": Linear(RNG.normal(size=(4, 3)), RNG.normal(size=4)),
    "Pairwise": Pairwise(RNG.normal(size=(6, 3)), RNG.normal(size=6)),
}


@pytest.fixture(params=PLANES)
def planes(request):
    return PLANES[request.param]


def affine(params, x):
    return x @ np.asarray(params.weights).T + np.asarray(params.bias)


def test_unstandardize_gives_the_same_scores(planes):
    x = 100 + 7 * X
    scaler = standardizer(x)
    back = features.unstandardize(scaler, planes)
    assert type(back) is type(planes)
    standardised = np.asarray(features.standardize(scaler, x))
    np.testing.assert_allclose(affine(back, x), affine(planes, standardised), atol=1e-12)


def test_unstandardize_maps_over_lanes(planes):
    lanes = jax.tree.map(lambda a: jnp.stack([a, 2 * a]), planes)
    weights = np.array([[1.0, 1, 0, 2, 1, 1], [0, 0, 1, 1, 1, 1]])
    scalers = jax.vmap(partial(standardizer, X))(weights)
    back = jax.vmap(features.unstandardize)(scalers, lanes)
    one = features.unstandardize(*jax.tree.map(lambda a: a[1], (scalers, lanes)))
    np.testing.assert_allclose(back.weights[1], one.weights, rtol=1e-13)
    np.testing.assert_allclose(back.bias[1], one.bias, rtol=1e-13)


def test_unstandardize_keeps_an_absent_class_absent():
    params = Linear(np.array([[1.0, 2, 3], [0, 0, 0]]), np.array([1.0, -np.inf]))
    back = features.unstandardize(standardizer(X), params)
    assert back.bias[1] == -np.inf and (back.weights[1] == 0).all()


def test_unstandardize_does_not_truncate_to_integers():
    scaler = features.Standardizer(mean=np.full(3, 0.5), scale=np.full(3, 0.5))
    back = features.unstandardize(scaler, Hyperplane(np.array([1, 2, 3]), np.array(0)))
    assert back.weights.tolist() == [2.0, 4.0, 6.0] and back.bias == -6.0


def test_unstandardize_refuses_what_it_cannot_undo():
    scaler = standardizer(X)
    with pytest.raises(TypeError, match="expected Hyperplane, Linear or Pairwise, got Gaussian"):
        features.unstandardize(scaler, Gaussian(X, X, X))
    with pytest.raises(ValueError, match=r"params.weights: expected shape \(\.\.\., 3\)"):
        features.unstandardize(scaler, Hyperplane(np.ones(2), np.ones(())))
    with pytest.raises(ValueError, match=r"params.bias: expected shape \(4,\)"):
        features.unstandardize(scaler, Linear(np.ones((4, 3)), np.ones(())))
    with pytest.raises(ValueError, match=r"mean: expected shape \(d,\).*vmap"):
        features.unstandardize(features.Standardizer(X, X), PLANES["Linear"])

"""Scores, predictions and probabilities on every shape, and the geometry of the plane."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlin
from jaxlin import lda, linear, softmax
from jaxlin.types import Gaussian, Hyperplane, Linear

D, K = 3, 4
RNG = np.random.default_rng(0)
PLANE = Hyperplane(weights=RNG.normal(size=D), bias=np.asarray(0.7))
PLANES = Linear(weights=RNG.normal(size=(K, D)), bias=RNG.normal(size=K))
X = RNG.normal(size=(5, D))
VERBS = ["scores", "predict", "probabilities", "log_probabilities"]


def test_scores_are_affine():
    np.testing.assert_allclose(linear.scores(PLANE, X), X @ PLANE.weights + 0.7, rtol=1e-14)
    expected = X @ PLANES.weights.T + PLANES.bias
    np.testing.assert_allclose(linear.scores(PLANES, X), expected, rtol=1e-13)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("params", [PLANE, PLANES], ids=["Hyperplane", "Linear"])
def test_examples_tables_and_grids(verb, params):
    """A verb of `(..., d)` is the verb of each row."""
    f = getattr(linear, verb)
    table = np.asarray(f(params, X))
    last = table.shape[1:]
    classes = 2 if params is PLANE else K
    wide = () if verb == "predict" or (verb == "scores" and params is PLANE) else (classes,)
    assert last == wide
    np.testing.assert_allclose(f(params, X[0]), table[0], rtol=1e-14)
    grid = np.stack([X, 2 * X]).reshape(2, 5, 1, D)
    assert f(params, grid).shape == (2, 5, 1, *last)
    np.testing.assert_allclose(f(params, grid)[0, :, 0], table, rtol=1e-14)
    assert f(params, X[:0]).shape == (0, *last)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("params", [PLANE, PLANES], ids=["Hyperplane", "Linear"])
def test_the_namespace_dispatches(verb, params):
    np.testing.assert_array_equal(
        getattr(jaxlin, verb)(params, X), getattr(linear, verb)(params, X)
    )


def test_dispatch_refuses_what_is_no_classifier():
    params = Gaussian(means=np.ones((2, 3)), covariances=np.ones((2, 3, 3)), priors=np.ones(2))
    with pytest.raises(TypeError, match=r"params: expected Hyperplane, Linear.*, got ndarray"):
        jaxlin.scores(np.ones(3), X)
    with pytest.raises(TypeError, match=r"params: expected Hyperplane.*, got tuple"):
        jaxlin.predict(tuple(params[:2]), X)


def test_ties_go_to_the_lower_class():
    flat = Hyperplane(weights=np.zeros(D), bias=np.asarray(0.0))
    assert not linear.predict(flat, X).any()
    assert linear.predict(flat._replace(bias=np.asarray(5e-324 + 1e-300)), X).all()
    even = Linear(weights=np.zeros((K, D)), bias=np.array([1.0, 3.0, 3.0, 0.0]))
    assert set(linear.predict(even, X).tolist()) == {1}
    assert linear.predict(even, X).dtype == np.int32


@pytest.mark.parametrize("size", [0.0, 1.0, 40.0, 1e4, -1e4])
def test_probabilities_of_any_score(size):
    plane = Hyperplane(weights=np.array([size]), bias=np.asarray(0.0))
    p = np.asarray(linear.probabilities(plane, np.ones(1)))
    log_p = np.asarray(linear.log_probabilities(plane, np.ones(1)))
    assert np.all(p >= 0) and p.sum() == 1
    assert np.all(np.isfinite(log_p)) and np.all(log_p <= 0)
    np.testing.assert_allclose(log_p[1] - log_p[0], size, rtol=1e-15)
    least = 0 if size > 0 else 1
    np.testing.assert_allclose(log_p[least], -abs(size) - np.log1p(np.exp(-abs(size))), rtol=1e-15)
    # The near-certain class keeps its digits: -exp(-40), not 0.
    np.testing.assert_allclose(log_p[1 - least], -np.log1p(np.exp(-abs(size))), rtol=1e-15)
    two = Linear(weights=np.array([[0.0], [size]]), bias=np.zeros(2))
    np.testing.assert_allclose(linear.probabilities(two, np.ones(1)), p, rtol=1e-15)
    np.testing.assert_allclose(
        linear.log_probabilities(two, np.ones(1)), log_p, rtol=1e-14, atol=1e-16
    )


def test_an_absent_class_has_no_probability():
    params = PLANES._replace(
        weights=np.where(np.arange(K)[:, None] == 2, 0, PLANES.weights),
        bias=np.where(np.arange(K) == 2, -np.inf, PLANES.bias),
    )
    p = np.asarray(linear.probabilities(params, X))
    assert np.all(p[:, 2] == 0) and np.all(np.isfinite(p))
    np.testing.assert_allclose(p.sum(1), 1, rtol=1e-15)
    log_p = np.asarray(linear.log_probabilities(params, X))
    assert np.all(log_p[:, 2] == -np.inf) and not np.any(np.isnan(log_p))
    present = [0, 1, 3]
    rest = Linear(weights=params.weights[present], bias=params.bias[present])
    np.testing.assert_allclose(p[:, present], linear.probabilities(rest, X), rtol=1e-14)
    assert 2 not in linear.predict(params, X)


def test_derivatives_of_extreme_log_probabilities():
    def log_p(bias):
        return linear.log_probabilities(Hyperplane(weights=np.zeros(1), bias=bias), np.zeros(1))

    for bias in (-1e4, 0.0, 1e4):
        sigmoid = 1 / (1 + np.exp(-np.clip(bias, -700, 700)))
        slope = jax.jacfwd(log_p)(bias)
        np.testing.assert_allclose(slope, [-sigmoid, 1 - sigmoid], rtol=1e-15, atol=1e-300)


# --- geometry ------------------------------------------------------------------------------------


def test_distances_are_signed_and_euclidean():
    normal = PLANE.weights / np.linalg.norm(PLANE.weights)
    foot = X - np.asarray(linear.distances(PLANE, X))[:, None] * normal
    np.testing.assert_allclose(linear.scores(PLANE, foot), 0, atol=1e-14)
    assert np.all(np.sign(linear.distances(PLANE, X)) == np.sign(linear.scores(PLANE, X)))
    grid = X.reshape(5, 1, D)
    assert linear.distances(PLANE, grid).shape == (5, 1)
    scaled = jax.tree.map(lambda a: 7 * a, PLANE)
    np.testing.assert_allclose(linear.distances(scaled, X), linear.distances(PLANE, X), rtol=1e-14)


def test_origin_distance():
    origin = linear.distances(PLANE, np.zeros(D))
    np.testing.assert_allclose(linear.origin_distance(PLANE), abs(origin), rtol=1e-15)
    negative = PLANE._replace(bias=-PLANE.bias)
    assert linear.origin_distance(negative) == linear.origin_distance(PLANE)


def test_the_distance_to_no_plane_is_nan():
    flat = Hyperplane(weights=np.zeros(D), bias=np.asarray(0.0))
    assert np.all(np.isnan(linear.distances(flat, X)))


def test_margin():
    y = np.asarray(linear.predict(PLANE, X))
    least = np.min(np.abs(linear.distances(PLANE, X)))
    np.testing.assert_allclose(linear.margin(PLANE, X, y), least, rtol=1e-15)
    for labels in (y.astype(bool), y.astype(np.uint8)):
        assert linear.margin(PLANE, X, labels) == linear.margin(PLANE, X, y)
    assert linear.margin(PLANE, X, 1 - y) == -np.max(np.abs(linear.distances(PLANE, X)))
    wrong, weight = y.copy(), np.ones(5)
    wrong[2], weight[2] = 1 - wrong[2], 0
    assert linear.margin(PLANE, X, wrong) < 0
    present = np.arange(5) != 2
    np.testing.assert_allclose(
        linear.margin(PLANE, X, wrong, sample_weight=weight),
        linear.margin(PLANE, X[present], y[present]),
        rtol=1e-15,
    )
    holed = X.copy()
    holed[2] = np.nan
    assert linear.margin(PLANE, holed, wrong, sample_weight=weight) > 0
    assert np.isnan(linear.margin(PLANE, holed, y))
    # Of thousands of rows too, whose least some compilers take without NaN.
    assert np.isnan(linear.margin(PLANE, np.tile(holed, (2000, 1)), np.tile(y, 2000)))
    assert linear.margin(PLANE, X, y, sample_weight=0 * weight) == np.inf
    with pytest.raises(TypeError, match="y: expected integer or bool class indices"):
        linear.margin(PLANE, X, 1.0 * y)


def test_between():
    plane = linear.between(PLANES, 1, 3)
    s = np.asarray(linear.scores(PLANES, X))
    np.testing.assert_allclose(linear.scores(plane, X), s[:, 3] - s[:, 1], atol=1e-14)
    back = linear.between(PLANES, 3, 1)
    np.testing.assert_array_equal(back.weights, -plane.weights)
    pairs = jax.vmap(lambda i, j: linear.between(PLANES, i, j))(np.array([0, 1]), np.array([2, 3]))
    np.testing.assert_array_equal(pairs.weights[1], plane.weights)
    absent = PLANES._replace(bias=np.array([0, -np.inf, 0, -np.inf]))
    assert np.isnan(linear.between(absent, 1, 3).bias)
    with pytest.raises(ValueError, match=r"params: expected a Linear, .*, got \(3,\)"):
        linear.between(PLANE, 0, 1)


def test_hyperplanes_and_back():
    planes = linear.to_hyperplanes(PLANES)
    assert isinstance(planes, Hyperplane)
    each = jax.vmap(linear.scores, in_axes=(0, None), out_axes=1)(planes, X)
    np.testing.assert_allclose(each, linear.scores(PLANES, X), rtol=1e-13)
    back = linear.from_hyperplanes(planes)
    assert isinstance(back, Linear)
    np.testing.assert_array_equal(back.weights, PLANES.weights)
    with pytest.raises(ValueError, match=r"params: expected a Linear, .* got \(3,\)"):
        linear.to_hyperplanes(PLANE)
    with pytest.raises(ValueError, match=r"params: expected a Hyperplane with a leading .*\(3,\)"):
        linear.from_hyperplanes(PLANE)


# --- ranks and dtypes ----------------------------------------------------------------------------

LANES = Hyperplane(weights=np.ones((4, D)), bias=np.ones(4))


@pytest.mark.parametrize("verb", VERBS)
def test_a_vmapped_hyperplane_is_not_one_plane(verb):
    words = r"params: expected a Hyperplane of weights \(d,\), got \(4, 3\).*jax.vmap"
    with pytest.raises(ValueError, match=words):
        getattr(linear, verb)(LANES, X)
    with pytest.raises(ValueError, match=words):
        getattr(jaxlin, verb)(LANES, X)


def test_geometry_refuses_lanes():
    words = r"params: expected one Hyperplane, weights \(d,\), got .* \(4, 3\); jax.vmap"
    for f in (
        lambda: linear.distances(LANES, X),
        lambda: linear.origin_distance(LANES),
        lambda: linear.margin(LANES, X, np.zeros(5, int)),
        lambda: linear.distances(PLANES, X),
    ):
        with pytest.raises(ValueError, match=words):
            f()


@pytest.mark.parametrize("verb", VERBS)
def test_mismatched_shapes(verb):
    f = getattr(linear, verb)
    with pytest.raises(ValueError, match=r"x: expected shape \(..., 3\), got \(5, 2\)"):
        f(PLANE, X[:, :2])
    with pytest.raises(ValueError, match=r"x: expected shape \(..., 3\), got \(\)"):
        f(PLANE, 1.0)
    with pytest.raises(ValueError, match=r"expected a Linear of weights \(k, d\), got \(3,\)"):
        f(Linear(*PLANE), X)
    with pytest.raises(ValueError, match=r"bias \(1,\)"):
        f(Hyperplane(weights=PLANE.weights, bias=np.ones(1)), X)
    with pytest.raises(ValueError, match=r"params: .*bias"):
        f(Linear(weights=PLANES.weights, bias=np.ones(K - 1)), X)


@pytest.mark.parametrize("params", [PLANE, PLANES], ids=["Hyperplane", "Linear"])
def test_dtypes(params):
    single = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), params)
    assert linear.scores(single, X.astype(np.float32)).dtype == np.float32
    assert linear.scores(single, X.astype(np.float16)).dtype == np.float32
    assert linear.scores(single, X).dtype == np.float64
    assert linear.scores(params, np.ones((5, D), np.int32)).dtype == np.float64
    whole = jax.tree.map(lambda a: np.ones_like(a, np.int64), params)
    assert np.all(np.asarray(linear.scores(whole, 0.5 * np.ones((5, D)))) == 2.5)


# --- patterns -------------------------------------------------------------------------------------

PATTERN_X = np.random.default_rng(1).normal(size=(50, 4)) @ np.array(
    [[2, 1, 0, 3], [0, 1, 1, 0], [0, 0, 0.1, 0], [0, 0, 0, 1.0]]
) + 100 * np.arange(4)
PATTERN_Y = (PATTERN_X[:, 0] + np.random.default_rng(2).normal(size=50) > 0).astype(int)


def test_a_pattern_is_the_covariance_with_the_scores():
    plane = Hyperplane(weights=jnp.array([1.0, -2.0, 0.5, 0.0]), bias=jnp.array(3.0))
    covariance = np.cov(PATTERN_X.T)
    expected = covariance @ plane.weights / (plane.weights @ covariance @ plane.weights)
    np.testing.assert_allclose(linear.patterns(plane, PATTERN_X), expected, 1e-11)
    three = Linear(weights=RNG.normal(size=(3, 4)), bias=jnp.zeros(3))
    inner = three.weights @ covariance @ three.weights.T
    expected = np.linalg.solve(inner, three.weights @ covariance)
    np.testing.assert_allclose(linear.patterns(three, PATTERN_X), expected, 1e-9)


def test_the_pattern_of_lda_is_along_the_difference_of_the_means():
    plane = linear.between(lda.fit(PATTERN_X, PATTERN_Y)[0], 0, 1)
    pattern = linear.patterns(plane, PATTERN_X)
    means = [PATTERN_X[c == PATTERN_Y].mean(0) for c in (0, 1)]
    share = pattern / (means[1] - means[0])
    np.testing.assert_allclose(share, share[0], 1e-9)
    assert share[0] > 0


def test_patterns_of_scores_of_sum_zero_are_of_least_norm():
    y = np.arange(50) % 3
    params, _ = softmax.fit(PATTERN_X, y)
    scores = np.asarray(linear.scores(params, PATTERN_X))
    mixed = np.cov(PATTERN_X.T) @ params.weights.T
    expected = (mixed @ np.linalg.pinv(np.cov(scores.T), rcond=1e-9)).T
    np.testing.assert_allclose(linear.patterns(params, PATTERN_X), expected, 1e-6, 1e-8)


def test_patterns_count_rows_by_their_weight_and_know_no_other():
    plane = Hyperplane(weights=jnp.array([1.0, -2.0, 0.5, 0.0]), bias=jnp.array(3.0))
    weight = np.arange(50) % 3
    x = np.where(weight[:, None] == 0, np.nan, PATTERN_X)
    expected = linear.patterns(plane, np.repeat(PATTERN_X, weight, axis=0))
    np.testing.assert_allclose(linear.patterns(plane, x, sample_weight=weight), expected, 1e-10)
    assert np.isnan(linear.patterns(plane, x)).all()
    np.testing.assert_array_equal(
        linear.patterns(plane._replace(weights=jnp.zeros(4)), x[weight > 0]), 0
    )


def test_patterns_have_the_units_of_the_columns_over_those_of_the_scores():
    plane = Hyperplane(weights=jnp.array([1.0, -2.0, 0.5, 0.0], jnp.float32), bias=jnp.float32(3.0))
    x, unit = (PATTERN_X / 300).astype(np.float32), 2.0 ** np.array([-60, 30, 56, 0], np.float32)
    moved = plane._replace(weights=plane.weights / unit)
    expected = linear.patterns(plane, x) * unit
    np.testing.assert_array_equal(linear.patterns(moved, x * unit), expected)
    less = plane._replace(weights=plane.weights * np.float32(2.0**-60))
    np.testing.assert_array_equal(linear.patterns(less, x), linear.patterns(plane, x) * 2.0**60)


def test_patterns_refuse_what_is_no_table():
    plane = Hyperplane(weights=jnp.ones(4), bias=jnp.zeros(()))
    with pytest.raises(ValueError, match="x: expected"):
        linear.patterns(plane, np.ones(4))
    with pytest.raises(ValueError, match="x: expected shape"):
        linear.patterns(plane, np.ones((5, 3)))

"""Shrunken centroids against scikit-learn's, the paper's formula, and where nothing varies."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.neighbors import NearestCentroid

import jaxlin
from jaxlin import centroids, lda
from jaxlin.types import Status
from tests.public import assert_close

RNG = np.random.default_rng(0)
N, D, K = 60, 12, 3
Y = RNG.choice(K, size=N, p=[0.5, 0.3, 0.2])
X = RNG.normal(size=(N, D)) * RNG.uniform(0.2, 5, D) + 3
X[:, :3] += 2 * np.eye(K)[Y] * X[:, :3].std(axis=0)


def by_hand(threshold, x=X, y=Y):
    """Centroids `(k, d)`, the mean of all, and s_j + s_0."""
    n, k = len(y), y.max() + 1
    size = np.bincount(y)
    means = np.array([x[y == c].mean(axis=0) for c in range(k)])
    spread = np.sqrt(np.sum((x - means[y]) ** 2, axis=0) / (n - k))
    scale = spread + np.median(spread)
    error = np.sqrt(1 / size - 1 / n)[:, None] * scale
    far = (means - x.mean(axis=0)) / error
    left = np.sign(far) * np.maximum(np.abs(far) - threshold, 0)
    return x.mean(axis=0) + error * left, x.mean(axis=0), scale


@pytest.mark.parametrize("threshold", [0.0, 1.0, 3.0, 100.0])
def test_centroids_are_scikit_learns(threshold):
    params, info = centroids.fit(X, Y, threshold=threshold)
    own, middle, scale = by_hand(threshold)
    theirs = NearestCentroid(shrink_threshold=threshold or None).fit(X, Y).centroids_
    found = middle + np.asarray(params.weights) * scale**2
    np.testing.assert_allclose(found, theirs, rtol=1e-10)
    np.testing.assert_allclose(own, theirs, rtol=1e-10)
    np.testing.assert_array_equal(params.weights == 0, np.abs(theirs - middle) < 1e-12)
    assert info.status == Status.CONVERGED


@pytest.mark.parametrize("priors", [None, [0.2, 0.2, 0.6]])
def test_scores_are_distances_and_priors(priors):
    params, _ = centroids.fit(X, Y, threshold=1.5, priors=priors)
    own, _, scale = by_hand(1.5)
    share = np.bincount(Y) / N if priors is None else np.array(priors)
    distance = np.sum(((X[:, None, :] - own[None]) / scale) ** 2, axis=2)
    wanted = np.log(share) - distance / 2
    found = jaxlin.log_probabilities(params, X)
    wanted = wanted - np.log(np.sum(np.exp(wanted - wanted.max()), axis=1))[:, None] - wanted.max()
    np.testing.assert_allclose(found, wanted, atol=1e-9)


def test_the_objective_is_what_it_says():
    _, info = centroids.fit(X, Y, threshold=1.5)
    own, _, scale = by_hand(1.5)
    distance = np.sum(((X - own[Y]) / scale) ** 2, axis=1) / 2
    np.testing.assert_allclose(info.objective, np.mean(distance - np.log(np.bincount(Y) / N)[Y]))


def test_beyond_all_thresholds_priors_are_left():
    params, info = centroids.fit(X, Y, threshold=1e3)
    assert not params.weights.any() and info.status == Status.CONVERGED
    np.testing.assert_allclose(jax.nn.softmax(params.bias), np.bincount(Y) / N)


def test_columns_of_one_spread_are_a_diagonal_lda():
    """Two columns within classes at right angles, of one spread: s_0 doubles it."""
    cross = np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
    x = np.concatenate([cross, cross + np.array([2.0, 1.0])])
    y = np.repeat([0, 1], 4)
    found, _ = centroids.fit(x, y)
    plane, _ = lda.fit(x, y, divisor="n-k")
    apart = [p.weights[1] - p.weights[0] for p in (found, plane)]
    np.testing.assert_allclose(4 * apart[0], apart[1], rtol=1e-12)


def test_more_columns_than_a_covariance_could_have():
    x = RNG.normal(size=(40, 20_000)).astype(np.float32)
    y = np.arange(40) % 2
    x[:, 7] += 6 * y
    params, _ = jax.jit(functools.partial(centroids.fit, num_classes=2))(x, y, threshold=5.0)
    assert np.flatnonzero(np.asarray(params.weights).any(axis=0)).tolist() == [7]


def test_what_varies_in_no_class():
    flat = np.array([0.1, 0.1, 0.1, 0.3, 0.3, 0.3])
    y = np.array([0, 0, 0, 1, 1, 1])
    # One of three: the others say by what it is measured.
    x = np.column_stack([flat, [1, 2, 4, 3, 5, 8], [1.0, 3, 2, 3, 1, 2]])
    params, info = centroids.fit(x, y)
    assert info.status == Status.CONVERGED and np.isfinite(params.weights).all()
    # Two of three: nothing does, and it tells the classes apart.
    x = np.column_stack([flat, np.full(6, 0.7), [1.0, 3, 2, 3, 1, 2]])
    params, info = centroids.fit(x, y)
    assert info.status == Status.SEPARABLE and info.objective == -np.inf
    assert np.array_equal(jaxlin.predict(params, x), y)
    three = np.array([0, 0, 1, 2, 2, 2])
    params, info = centroids.fit(x, three, num_classes=4)
    assert info.status == Status.QUASI_SEPARABLE and params.bias[3] == -np.inf


def test_thresholds_are_lanes_with_derivatives():
    thresholds = jnp.array([0.0, 0.5, 2.0])
    many, _ = jax.vmap(lambda t: centroids.fit(X, Y, threshold=t, num_classes=K))(thresholds)
    for i, t in enumerate(thresholds):
        assert_close(
            jax.tree.map(lambda a, i=i: a[i], many), centroids.fit(X, Y, threshold=t)[0], 1e-12
        )

    def size(t):
        return jnp.sum(centroids.fit(X, Y, threshold=t)[0].weights ** 2)

    np.testing.assert_allclose(jax.grad(size)(0.7), (size(0.7001) - size(0.6999)) / 2e-4, rtol=1e-6)


def test_no_columns_and_none_in_play():
    params, info = centroids.fit(X[:, :0], Y)
    assert params.weights.shape == (K, 0) and info.status == Status.CONVERGED
    params, info = centroids.fit(X, Y, feature_mask=np.zeros(D, bool))
    assert not params.weights.any() and info.status == Status.CONVERGED


def test_too_few_rows_and_wrong_thresholds():
    assert centroids.fit(X[:3], np.arange(3))[1].status == Status.CLASS_TOO_SMALL
    assert centroids.fit(X, np.zeros(N, int), num_classes=2)[1].status == Status.CLASS_TOO_SMALL
    with pytest.raises(ValueError, match="threshold"):
        centroids.fit(X, Y, threshold=-1.0)
    fit = jax.jit(lambda t: centroids.fit(X, Y, threshold=t, num_classes=K)[1].status)
    assert fit(-1.0) == Status.INVALID_DATA and fit(jnp.nan) == Status.INVALID_DATA

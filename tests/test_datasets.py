"""The embedded tables against scikit-learn's, the generators against what they promise."""

import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sklearn.datasets
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

from jaxlin import datasets, features, linear

LAWS = settings(max_examples=10, deadline=None)
KEY = jax.random.key(0)
N, D = 40, 3
GENERATORS = {
    "separable": partial(datasets.separable, n=N, d=D),
    "gaussians": partial(datasets.gaussians, n=N, d=D, num_classes=3),
    "ball": partial(datasets.ball, n=N, d=D),
    "moons": partial(datasets.moons, n=N),
}
seeds = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize(
    "ours, theirs",
    [
        (datasets.iris, sklearn.datasets.load_iris),
        (datasets.breast_cancer, sklearn.datasets.load_breast_cancer),
    ],
)
def test_tables_are_those_of_scikit_learn(ours, theirs):
    data, expected = ours(), theirs()
    np.testing.assert_array_equal(data.x, expected.data)
    np.testing.assert_array_equal(data.y, expected.target)
    assert data.feature_names == tuple(expected.feature_names)
    assert data.class_names == tuple(expected.target_names)
    assert data.x.dtype == np.float64 and data.y.dtype == np.int32


def test_tables_are_fresh():
    datasets.iris().x[:] = 0
    assert datasets.iris().x.all()


def test_import_reads_no_data_and_makes_no_arrays():
    program = (
        "import sys, jax, jaxlin.datasets, jaxlin.features, jaxlin.metrics;"
        "sys.exit(len(jax.live_arrays()))"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


@pytest.fixture(params=GENERATORS)
def generator(request):
    return GENERATORS[request.param]


def test_generators_give_rows_and_classes(generator):
    x, y = generator(KEY)
    assert x.shape == (N, 2 if generator.func is datasets.moons else D)
    assert x.dtype == jnp.result_type(float) and y.dtype == jnp.int32
    counts = np.bincount(y)
    assert counts.sum() == N and counts.max() - counts.min() <= 1
    assert np.isfinite(x).all()


def test_generators_are_pure_functions_of_the_key(generator):
    keys = jax.random.split(KEY, 2)
    lanes = jax.vmap(generator)(keys)
    for lane, one in zip(lanes, generator(keys[1]), strict=True):
        np.testing.assert_allclose(lane[1], one, rtol=1e-13, atol=1e-13)
    assert not np.array_equal(lanes[0][0], lanes[0][1])
    assert not np.array_equal(lanes[1][0], lanes[1][1])


def test_generators_work_under_jit():
    inside = jax.jit(partial(datasets.moons, n=N))(KEY, noise=jnp.float32(0.1))
    np.testing.assert_array_equal(inside[1], datasets.moons(KEY, N)[1])


def test_as_few_rows_as_classes():
    assert sorted(datasets.gaussians(KEY, 4, 1, num_classes=4)[1].tolist()) == [0, 1, 2, 3]


def test_generators_refuse_too_few():
    with pytest.raises(ValueError, match="n: expected at least 2, got 1"):
        datasets.moons(KEY, 1)
    with pytest.raises(ValueError, match="d: expected at least 1, got 0"):
        datasets.separable(KEY, 5, 0)
    with pytest.raises(ValueError, match="n: expected at least 4, got 3"):
        datasets.gaussians(KEY, 3, 2, num_classes=4)
    with pytest.raises(ValueError, match="num_classes: expected at least 2"):
        datasets.gaussians(KEY, 3, 2, num_classes=1)
    with pytest.raises(TypeError, match='static_argnames="n"'):
        jax.jit(datasets.moons)(KEY, 5)


@LAWS
@given(seeds, st.sampled_from([0.05, 0.5, 2.0]))
def test_separable_has_its_margin(seed, margin):
    x, y = datasets.separable(jax.random.key(seed), N, D, margin=margin)
    machine = SVC(kernel="linear", C=1e9).fit(x, y)
    assert machine.score(x, y) == 1
    assert 1 / np.linalg.norm(machine.coef_) >= margin * (1 - 1e-3)


@LAWS
@given(seeds, st.sampled_from([0.0, 0.3]))
def test_ball_is_separated_by_its_sphere(seed, margin):
    x, y = datasets.ball(jax.random.key(seed), N, D, radius=1.5, margin=margin)
    distance = 1.5 - np.linalg.norm(x, axis=1)
    assert (np.where(y == 1, distance, -distance) >= margin - 1e-12).all()
    plane = features.ball_hyperplane(np.zeros(D), 1.5)
    np.testing.assert_array_equal(linear.predict(plane, features.ball(x)), y)


def test_an_impossible_ball_is_nan():
    assert np.isnan(datasets.ball(KEY, N, D, radius=1.0, margin=1.0)[0]).all()


def test_gaussians_are_as_far_apart_as_asked():
    x, y = map(np.asarray, datasets.gaussians(KEY, 30_000, D, num_classes=3, separation=4.0))
    means = np.stack([x[y == c].mean(0) for c in range(3)])
    gaps = np.linalg.norm(means[[0, 0, 1]] - means[[1, 2, 2]], axis=1)
    np.testing.assert_allclose(gaps.min(), 4.0, atol=0.05)
    np.testing.assert_allclose(np.cov((x - means[y]).T), np.eye(D), atol=0.05)


def test_moons_lie_on_their_circles():
    x, y = map(np.asarray, datasets.moons(KEY, N, noise=0.0))
    centers = np.array([[0, 0], [1, 0.5]])[y]
    np.testing.assert_allclose(np.linalg.norm(x - centers, axis=1), 1, rtol=1e-14)
    assert (np.where(y == 0, 1, -1) * (x - centers)[:, 1] >= 0).all()
    noisy, _ = datasets.moons(KEY, N, noise=0.5)
    assert 0.3 < np.std(noisy - x) < 0.7

"""Directions in which a class does not vary and another differs: the optimum is at infinity there.

What rows tell exactly, in rational arithmetic, a closed form says in its status, and its params
tell apart what the direction does.
"""

import functools

import jax
import numpy as np
import pytest

import jaxlin
from jaxlin import fisher, gaussian, lda, moments, qda, resample, streaming
from jaxlin.types import Status
from tests import exact

X = np.array([[0, 1], [0, 2], [0, 3.5], [1, 1.5], [1, 2], [1, 4]])
Y = np.array([0, 0, 0, 1, 1, 1])


def from_moments(method, of, fit="fit_from_moments"):
    return lambda x, y, num_classes=None: getattr(method, fit)(of(x, y, num_classes=num_classes))


def streamed(x, y, num_classes=None):
    return streaming.fit(lda.fit, streaming.arrays(x, y), num_classes=num_classes)


TIED = {
    "lda": lda.fit,
    "gaussian tied": gaussian.fit_tied,
    "lda of moments": from_moments(lda, moments.tied),
    "tied of moments": from_moments(gaussian, moments.tied, "fit_tied_from_moments"),
}
OWN = {
    "qda": qda.fit,
    "gaussian": gaussian.fit,
    "qda of moments": from_moments(qda, moments.per_class),
}


def turned(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [*TIED, *OWN, "fisher", "streamed"])
def test_a_column_constant_in_each_class_is_told_in_any_rotation(name, dtype):
    fit = {**TIED, **OWN, "fisher": fisher.fit, "streamed": streamed}[name]
    for angle in (0.0, 0.3, 1.1):
        x = (X @ turned(angle)).astype(dtype)
        params, info = fit(x, Y)
        assert (info.status, info.objective) == (Status.SEPARABLE, -np.inf)
        np.testing.assert_array_equal(jaxlin.predict(params, x), Y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fishers_criterion_is_infinite_along_it(dtype):
    x = X.astype(dtype)
    for weights in (fisher.fit(x, Y)[0].weights, np.array([1, 0], dtype)):
        assert fisher.criterion(weights, x, Y) == np.inf
    axis = fisher.directions(x, Y)[:, 0]
    assert abs(axis[1]) < 4 * np.finfo(dtype).eps ** 0.5 * abs(axis[0])


def drawn(seed, k, n=24, d=4):
    """Whole numbers: kinds of columns in classes, in turned columns of unlike units."""
    rng = np.random.default_rng(seed)
    y = np.sort(np.arange(n) % k)
    x, kind = rng.integers(-6, 7, (n, d)), seed % 7
    if kind == 1:
        x[:, 1] = x[:, 0]
    elif kind == 5:
        x[:, 2] = 7
    elif kind > 1:
        x[:, 1] = rng.integers(*((0, 2) if kind == 6 else (-3, 4)), k)[y]
    if kind == 3:
        x[:, 2] = rng.integers(-3, 4, k)[y]
    elif kind == 4:
        x[:, 3] = x[:, 0]
    turn = rng.integers(-2, 3, (d, d)) if seed % 2 else np.eye(d, dtype=int)
    if abs(np.linalg.det(turn)) > 0.5:
        x = x @ turn
    return (x + rng.integers(-20, 21, d)) * 2.0 ** rng.integers(-8, 9, d), y


@functools.cache
def many(k):
    each = [drawn(seed, k) for seed in range(56)]
    return [np.stack(arrays) for arrays in zip(*each, strict=True)]


def expected(x, y):
    apart = exact.pairs_told_apart(x, y)
    if any(apart):
        return Status.SEPARABLE if all(apart) else Status.QUASI_SEPARABLE
    full = exact.rank_about_means(x, y) == x.shape[1]
    return Status.CONVERGED if full else Status.RANK_DEFICIENT


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", [*TIED, *OWN])
def test_the_status_is_that_of_rational_arithmetic(name, k):
    """Nowhere is a class of these flat where the others vary, so that both kinds say the same."""
    fit = {**TIED, **OWN}[name]
    xs, ys = many(k)
    params, info = jax.jit(jax.vmap(functools.partial(fit, num_classes=k)))(xs, ys)
    right = [expected(x, y) for x, y in zip(xs, ys, strict=True)]
    assert {Status.CONVERGED, Status.RANK_DEFICIENT, Status.SEPARABLE} <= set(right)
    np.testing.assert_array_equal(info.status, right)
    chosen = np.asarray(jax.vmap(jaxlin.predict)(params, xs))
    apart = np.asarray(info.status) == Status.SEPARABLE
    np.testing.assert_array_equal(chosen[apart], ys[apart])


@pytest.mark.parametrize("name", TIED)
def test_classes_that_are_not_told_apart_are_left_to_the_other_columns(name):
    """As the two of them alone are, along the columns that vary."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = np.stack([np.where(y == 2, 1.0, 0.0), rng.normal(size=60) + y, rng.normal(size=60)], axis=1)
    params, info = TIED[name](x, y, num_classes=3)
    assert info.status == Status.QUASI_SEPARABLE
    chosen = np.asarray(jaxlin.predict(params, x))
    np.testing.assert_array_equal(chosen == 2, y == 2)
    # The covariance within all three, of the columns that vary, is what the two are judged by.
    other, _ = TIED[name](x[:, 1:], y, num_classes=3)
    scores, right = (np.asarray(jaxlin.scores(p, a)) for p, a in ((params, x), (other, x[:, 1:])))
    two = y < 2
    np.testing.assert_allclose(
        scores[two, 1] - scores[two, 0], right[two, 1] - right[two, 0], rtol=1e-6
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", OWN)
def test_a_class_that_is_flat_where_another_is_not(name, dtype):
    """Its density is infinite on its plane: rows there are its own, and no others."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    x[y == 0, 2] = 0
    for whole in (x, x @ np.linalg.qr(rng.normal(size=(3, 3)))[0]):
        params, info = OWN[name](whole.astype(dtype), y)
        assert info.status == Status.QUASI_SEPARABLE
        wrong = np.asarray(jaxlin.predict(params, whole.astype(dtype))) != y
        # Of the other class, those next to the plane.
        assert not wrong[y == 0].any() and np.all(np.abs(x[wrong, 2]) < 0.05)


def test_a_class_at_one_point_is_flat_however_it_is_shrunk():
    """The trace of its scatter is 0, and so is what shrinkage makes of it."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    x[y == 0] = x[0]
    assert qda.fit(x, y, shrinkage=0.1)[1].status == Status.QUASI_SEPARABLE
    assert qda.fit(x, y, pooling=0.1)[1].status == Status.CONVERGED
    one = np.where((y == 1) | (np.arange(40) == 0), 1.0, 0.0)
    assert qda.fit(x, y, sample_weight=one, shrinkage=0.1)[1].status == Status.CLASS_TOO_SMALL
    assert qda.fit(x, y, sample_weight=one, pooling=0.1)[1].status == Status.CONVERGED


def test_weights_that_make_a_column_flat_do_so_in_lanes_too():
    """Closed forms of many weights to one x, beside fits one by one."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    flat = np.arange(40) < 30
    x[flat, 1] = y[flat]
    weights = np.stack([np.ones(40), flat, np.ones(40), flat * rng.uniform(1, 2, 40)])
    for fit in (lda.fit, qda.fit):
        params, info = resample.refit(fit, x, y, weights, num_classes=2)
        assert info.status.tolist() == [Status.CONVERGED, Status.SEPARABLE] * 2
        for lane, weight in enumerate(weights):
            alone, _ = fit(x, y, sample_weight=weight)
            one = jax.tree.map(lambda a, lane=lane: a[lane], params)
            jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-6), one, alone)


@pytest.mark.parametrize("fit", [lda.fit, qda.fit, gaussian.fit, gaussian.fit_tied, fisher.fit])
def test_its_derivative_is_nan_and_0_where_it_is_masked(fit):
    def weight_of(x, kept):
        params, _ = fit(x, Y)
        return sum((leaf * kept).sum() for leaf in jax.tree.leaves(params))

    def masked(x):
        params, info = fit(x, Y)
        ok = info.status <= Status.RANK_DEFICIENT
        kept = jax.tree.map(lambda a: jax.numpy.where(ok, a, 0), params)
        return sum(leaf.sum() for leaf in jax.tree.leaves(kept))

    assert np.all(np.isnan(jax.grad(weight_of)(X, 1.0)))
    assert not np.any(jax.grad(masked)(X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_is_no_direction(dtype):
    """A sum of columns that nearly agree, while classes differ more than the rows of each do."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        y = np.arange(60) % 2
        small = 10.0 ** rng.uniform(-6 if dtype == np.float64 else -4, -0.5)
        a, other = rng.normal(size=(2, 60))
        b = a + small * rng.normal(size=60) + y * small * 10.0 ** rng.uniform(0, 3)
        x = np.stack([a, b, a, other], axis=1).astype(dtype)
        x[:, 2] = x[:, 0] + x[:, 1] if seed % 2 else x[:, 0]
        _, info = lda.fit(x, y)
        assert info.status <= Status.STALLED, (seed, small)

"""Lanes over one x in its principal axes: each ends where it would alone, and says the same."""

import functools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlin import logistic, losses, softmax, svm
from jaxlin._smooth import _axes, _plan, _together
from jaxlin.types import Status

N, D, K = 120, 20, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D)) * np.arange(1, D + 1) ** -0.5 @ np.linalg.qr(RNG.normal(size=(D, D)))[0]
Y = (X[:, 0] - X[:, 1] + 0.5 * RNG.logistic(size=N) > 0).astype(int)
CLASSES = np.argmax(X[:, :K] + 0.3 * RNG.gumbel(size=(N, K)), axis=1)
APART = (X @ RNG.normal(size=D) > 0).astype(int)
NEARLY = (X[:, 0] + 0.02 * RNG.logistic(size=N) > 0).astype(int)
PENALTIES = np.array([0, 1e-10, 1e-6, 1e-3, 1])

softmax_fit = partial(softmax.fit, num_classes=K)
squared = partial(svm.fit, loss=losses.squared_hinge)


@pytest.fixture(autouse=True, scope="module")
def few_columns():
    """So few that double precision has other ways by default."""
    with pytest.MonkeyPatch.context() as patched:
        jax.clear_caches()
        patched.setattr(_plan, "LEAST_AXES", {4: 8, 8: 8})
        yield
    jax.clear_caches()


def labels(*each):
    return np.stack(each)


def junk():
    """Rows of no number, and of numbers beyond all others, and who gives them weight."""
    x, weight = X.copy(), np.ones((4, N))
    x[5, 2], x[7], weight[0, [5, 7]], weight[1, 5], weight[2, 7] = np.nan, 1e300, 0, 0, 0
    return x, Y, weight


COPIES = np.concatenate([X[:, 2:], X[:, 2:4]], axis=1)
UNITS = X * 10.0 ** RNG.uniform(-3, 3, D)


# Cases of one fit and shape share its two programs.
def of_penalty(x, y, l2):
    return logistic.fit(x, y, l2=l2)


def of_labels(x, y, other):
    return logistic.fit(x, other, l2=1e-3)


def of_softmax(x, y, l2):
    return softmax_fit(x, y, l2=l2)


LANES = {
    "penalties": (of_penalty, (X, Y, PENALTIES)),
    "next to no penalty, all but separated": (
        of_penalty,
        (X, NEARLY, np.array([1e-14, 1e-12, 1e-10, 1e-8, 1e-6])),
    ),
    "separable": (of_penalty, (X, APART, PENALTIES)),
    "copies of columns": (of_penalty, (COPIES, Y, np.array([0, 1e-8, 1e-4, 1e-3, 0.1]))),
    "columns of unlike units": (of_penalty, (UNITS, Y, np.geomspace(1e-6, 1, 5))),
    "labels": (
        of_labels,
        (X, Y, labels(Y, APART, 0 * Y, 1 - Y, np.where(np.arange(N) == 3, 7, Y))),
    ),
    "labels without a penalty": (
        lambda x, y, other: logistic.fit(x, other),
        (X, Y, labels(Y, APART, 0 * Y, (X[:, 2] > 0).astype(int))),
    ),
    "a penalty for each feature": (
        lambda x, y, l2: logistic.fit(x, y, l2=l2),
        (X, Y, 10.0 ** RNG.uniform(-6, 1, (3, D))),
    ),
    "bootstraps": (
        lambda x, y, w: logistic.fit(x, y, sample_weight=w, l2=0.01),
        (X, Y, RNG.multinomial(N, np.ones(N) / N, size=4).astype(float)),
    ),
    "rows of junk": (lambda x, y, w: logistic.fit(x, y, sample_weight=w, l2=1e-3), junk()),
    "offsets": (
        lambda x, y, offset: logistic.fit(x, y, offset=offset, l2=1e-3),
        (X, Y, 2 * RNG.normal(size=(3, N))),
    ),
    "features": (
        lambda x, y, mask: logistic.fit(x, y, feature_mask=mask, l2=1e-3),
        (X, Y, RNG.random((3, D)) < 0.7),
    ),
    "softmax": (of_softmax, (X, CLASSES, PENALTIES[[0, 2, 4]])),
    "softmax, a class absent": (
        lambda x, y, other: softmax_fit(x, other, l2=1e-3),
        (X, Y, labels(CLASSES, np.where(CLASSES == 1, 2, CLASSES), 0 * Y)),
    ),
    "squared hinge": (lambda x, y, l2: squared(x, y, l2=l2), (X, Y, PENALTIES[2:])),
}


@functools.cache
def programs_of(fit):
    return jax.jit(jax.vmap(fit, in_axes=(None, None, 0))), jax.jit(fit)


@pytest.mark.parametrize("kind", LANES)
def test_lanes_are_single_fits(kind):
    fit, (x, y, each) = LANES[kind]
    lanes, single = programs_of(fit)
    many, said = lanes(x, y, each)
    for i, own in enumerate(each):
        params, info = single(x, y, own)
        assert said.status[i] == info.status
        if info.status <= Status.RANK_DEFICIENT:
            size = np.abs(params.weights).max()
            np.testing.assert_allclose(many.weights[i], params.weights, rtol=0, atol=2e-9 * size)
            np.testing.assert_allclose(said.objective[i], info.objective, rtol=1e-12)


def test_of_many_penalties_and_labels_x_is_one(monkeypatch):
    """Lanes of lanes are more lanes, and come in turn where x is mapped outside them."""
    asked, in_chunks = [], _together._in_chunks

    def noted(spec, finish, turns, shared, lanes):
        asked.append((shared.rows.x.shape, lanes[1].shape))
        return in_chunks(spec, finish, turns, shared, lanes)

    monkeypatch.setattr(_together, "_in_chunks", noted)

    def lanes(x, ys, l2):
        return jax.vmap(lambda y: jax.vmap(lambda l2: logistic.fit(x, y, l2=l2))(l2))(ys)

    ys, l2 = jnp.stack([Y, 1 - Y]), jnp.array([1e-3, 0.1, 1.0])
    params, info = jax.jit(lanes)(X, ys, l2)
    assert asked[-1] == ((N, D), (6, 1, D + 1))
    assert np.all(info.status == Status.CONVERGED)
    several = jax.jit(jax.vmap(lanes, in_axes=(0, None, None)))(jnp.stack([X, 2 * X]), ys, l2)[0]
    assert asked[-1] == ((N, D), (6, 1, D + 1))
    np.testing.assert_allclose(several.weights[0], params.weights, rtol=1e-8)
    assert several.weights.shape == (2, 2, 3, D)


@pytest.mark.parametrize("turns", [1, 400])
def test_lanes_of_more_coordinates_than_have_a_hessian(turns, monkeypatch):
    """What is left after the turns goes on by conjugate gradients."""
    monkeypatch.setattr(_axes, "TURNS", {True: 60, False: turns})
    jax.clear_caches()
    n, d, k = 150, 60, 20
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) / 8
    y, l2 = np.arange(n) % k, np.array([0.3, 0.03])
    assert (k - 1) * (d + 1) > _plan.DENSE_LIMIT
    fit = partial(softmax.fit, x, y, num_classes=k)
    many, said = jax.jit(jax.vmap(lambda l2: fit(l2=l2)))(l2)
    for i, own in enumerate(l2):
        params, info = fit(l2=own)
        assert said.status[i] == info.status == Status.CONVERGED
        np.testing.assert_allclose(many.weights[i], params.weights, rtol=0, atol=1e-8)
        np.testing.assert_allclose(said.objective[i], info.objective, rtol=1e-12)
    jax.clear_caches()


def test_a_lane_of_junk_changes_no_bit_of_another():
    fit = jax.jit(jax.vmap(lambda w, l2: logistic.fit(X, Y, sample_weight=w, l2=l2)))
    weight = RNG.multinomial(N, np.ones(N) / N, size=4).astype(float)
    l2 = np.array([1e-3, 1e-2, 1e-3, 1.0])
    for spoiled in ("weight", "l2"):
        bad = {"weight": weight.copy(), "l2": l2.copy()}
        bad[spoiled][1] = np.nan
        found, info = fit(bad["weight"], bad["l2"])
        assert info.status[1] == Status.INVALID_DATA
        whole = fit(weight, l2)
        for a, b in zip(jax.tree.leaves((found, info)), jax.tree.leaves(whole), strict=True):
            np.testing.assert_array_equal(np.delete(a, 1, 0), np.delete(b, 1, 0))


def test_lanes_in_chunks_are_all_lanes(monkeypatch):
    l2 = np.geomspace(1e-3, 1, 7)

    def fit(l2):
        return logistic.fit(X, Y, l2=l2)

    whole = jax.jit(jax.vmap(fit))(l2)
    monkeypatch.setattr(_together, "CHUNK_BYTES", 3 * 8 * (6 * N + 3 * _axes.MEMORY * (D + 1)))
    jax.clear_caches()
    chunks = jax.jit(jax.vmap(lambda l2: fit(l2)))(l2)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11), chunks, whole
    )


@pytest.mark.cpu
def test_no_lane_has_a_copy_of_x():
    n, d, lanes = 4_000, 40, 64
    shape = jax.ShapeDtypeStruct

    def fit(x, y, l2):
        return jax.vmap(lambda l2: logistic.fit(x, y, l2=l2))(l2)

    program = jax.jit(fit).lower(
        shape((n, d), np.float64), shape((n,), np.int32), shape((lanes,), np.float64)
    )
    memory = program.compile().memory_analysis()
    if memory is None:
        pytest.skip("this backend does not say")
    # What is held of scores, labels and slopes of all lanes, and x as it is seen, once.
    assert memory.temp_size_in_bytes < 8 * (10 * lanes * n + 8 * n * d)

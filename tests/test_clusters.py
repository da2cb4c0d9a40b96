"""Rows that depend on each other: sandwiches over clusters, and scores with random signs."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlin import inference, least_squares, logistic, losses, softmax
from tests.public import assert_close

RNG = np.random.default_rng(0)
N, D, G = 60, 3, 7
X = RNG.normal(size=(N, D))
Y = (RNG.random(N) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
WEIGHT = RNG.integers(1, 3, N).astype(float)
FIRST, SECOND = RNG.integers(0, G, N), RNG.integers(0, 5, N)
BOTH = np.unique(np.column_stack([FIRST, SECOND]), axis=0, return_inverse=True)[1].ravel()
Z = np.column_stack([X, np.ones(N)])
sandwich = functools.partial(inference.sandwich, losses.logistic)


@functools.cache
def fitted():
    return logistic.fit(X, Y, sample_weight=WEIGHT)[0]


def pieces():
    """The Hessian, its inverse, and each row's slope and curvature, of `fitted`."""
    params = fitted()
    chance = 1 / (1 + np.exp(-Z @ np.append(params.weights, params.bias)))
    curve = WEIGHT * chance * (1 - chance)
    whole = (Z.T * curve) @ Z
    return whole, np.linalg.inv(whole), WEIGHT * (chance - Y), curve


def by_hand(kind, clusters):
    """(I - H_gg)^-1/2 or ^-1 times the residuals of each cluster, in rows."""
    _, inverse, slope, curve = pieces()
    middle = np.zeros((D + 1, D + 1))
    for c in np.unique(clusters):
        here = clusters == c
        root = np.sqrt(curve[here])[:, None] * Z[here]
        values, vectors = np.linalg.eigh(np.eye(here.sum()) - root @ inverse @ root.T)
        power = {"HC0": 0.0, "HC2": -0.5, "HC3": -1.0}[kind]
        residual = vectors @ (values**power * (vectors.T @ (slope[here] / np.sqrt(curve[here]))))
        middle += np.outer(root.T @ residual, root.T @ residual)
    return inverse @ middle @ inverse


@pytest.mark.parametrize("kind", ["HC2", "HC3"])
def test_bias_reduced_sandwiches_are_the_formula(kind):
    found = sandwich(fitted(), X, Y, kind=kind, clusters=FIRST, sample_weight=WEIGHT)
    np.testing.assert_allclose(found, by_hand(kind, FIRST), rtol=1e-9)
    rows = sandwich(fitted(), X, Y, kind=kind, clusters=np.arange(N), sample_weight=WEIGHT)
    alone = sandwich(fitted(), X, Y, kind=kind, sample_weight=WEIGHT)
    np.testing.assert_allclose(rows, alone, rtol=1e-9)


@pytest.mark.parametrize("kind", ["HC0", "HC2", "HC3"])
def test_ways_that_cross_are_added_less_where_they_meet(kind):
    clusters = np.column_stack([FIRST + 3_000_000_000, SECOND])
    found = sandwich(fitted(), X, Y, kind=kind, clusters=clusters, sample_weight=WEIGHT)
    wanted = by_hand(kind, FIRST) + by_hand(kind, SECOND) - by_hand(kind, BOTH)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_small_sample_factors_are_each_ways_own():
    """R's: G / (G - 1) for each sum over clusters, (n - 1) / (n - p) for all."""
    clusters = np.column_stack([FIRST, SECOND])
    found = sandwich(fitted(), X, Y, clusters=clusters, sample_weight=WEIGHT)
    wanted = 0
    for sign, own in ((1, FIRST), (1, SECOND), (-1, BOTH)):
        g = len(np.unique(own))
        wanted = wanted + sign * g / (g - 1) * by_hand("HC0", own)
    np.testing.assert_allclose(found, wanted * (N - 1) / (N - D - 1), rtol=1e-9)


def test_it_leaves_out_clusters():
    """HC3: the squares of the Newton steps without each cluster; of numbers they are refits."""
    t = X @ [1.0, 2.0, 3.0] + RNG.normal(size=N)
    whole, _ = least_squares.regress(X, t)
    steps = []
    for c in range(G):
        left, _ = least_squares.regress(X, t, sample_weight=(c != FIRST).astype(float))
        steps.append(np.append(left.weights - whole.weights, left.bias - whole.bias))
    found = inference.sandwich(losses.squared, whole, X, t, kind="HC3", clusters=FIRST)
    np.testing.assert_allclose(found, np.transpose(steps) @ np.array(steps), rtol=1e-9)


def test_of_several_scores_it_leaves_out_clusters():
    y = RNG.integers(0, 3, N)
    params, _ = softmax.fit(X, y)
    found = inference.sandwich(losses.softmax, params, X, y, kind="HC3", clusters=FIRST)
    pulls = jax.vmap(
        jax.grad(lambda p, x, y: losses.softmax(p.weights @ x + p.bias, y)), (None, 0, 0)
    )(params, X, y)
    each = np.column_stack([pulls.weights.reshape(N, -1), pulls.bias])
    total = 0
    for c in range(G):
        left = c != FIRST
        curve = jax.hessian(
            lambda w, left=left: jnp.sum(
                losses.softmax(X[left] @ w[:9].reshape(3, 3).T + w[None, 9:], y[left])
            )
        )(np.append(params.weights, params.bias))
        step = np.linalg.pinv(curve, rcond=1e-10) @ each[~left].sum(axis=0)
        total = total + np.outer(step, step)
    np.testing.assert_allclose(found, total, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", ["HC2", "HC3"])
def test_derivatives_though_eigenvalues_are_equal(kind):
    def found(t):
        moved = X + t * X**2
        return sandwich(fitted(), moved, Y, kind=kind, clusters=FIRST, num_clusters=G, check=False)

    _, slope = jax.jvp(found, (0.0,), (1.0,))
    np.testing.assert_allclose(slope, (found(1e-5) - found(-1e-5)) / 2e-5, rtol=1e-6)


def test_a_cluster_that_alone_decides_a_coefficient():
    """Of two rows of x that nobody else has, one cluster: without it there is no estimate."""
    x = np.column_stack([X[:, 0], np.arange(N) < 6])
    y = np.where(np.arange(N) < 6, np.arange(N) % 2, Y)
    params, _ = logistic.fit(x, y)
    clusters = np.where(np.arange(N) < 6, 0, 1 + FIRST)
    for kind in ("HC2", "HC3"):
        assert np.isnan(sandwich(params, x, y, kind=kind, clusters=clusters)).all()
    assert np.isfinite(sandwich(params, x, y, clusters=clusters)).all()


def test_clusters_that_are_wrong():
    with pytest.raises(ValueError, match=r"clusters: expected shape \(60,\) or \(60, r\)"):
        sandwich(fitted(), X, Y, clusters=np.zeros((3, 2), int))
    with pytest.raises(ValueError, match="num_clusters: expected at least 7"):
        sandwich(fitted(), X, Y, clusters=np.column_stack([FIRST, SECOND]), num_clusters=5)
    params, _ = softmax.fit(X, RNG.integers(0, 3, N))
    with pytest.raises(ValueError, match=r"with clusters=jnp.arange\(n\) each row is one"):
        inference.sandwich(losses.softmax, params, X, RNG.integers(0, 3, N), kind="HC3")
    few = jax.jit(lambda g: sandwich(fitted(), X, Y, clusters=g, num_clusters=3, check=False))
    assert np.isnan(few(FIRST)).all()


# --- random signs -------------------------------------------------------------------------------

bootstrap = functools.partial(inference.score_bootstrap, jax.random.key(0), losses.logistic)


@functools.cache
def null():
    return logistic.fit(X, Y, feature_mask=np.array([True, True, False]))[0]


def steps(columns):
    """`(G, columns)`, of the null."""
    params = null()
    chance = 1 / (1 + np.exp(-Z @ np.append(params.weights, params.bias)))
    hessian = (Z.T * (chance * (1 - chance))) @ Z
    each = np.linalg.solve(hessian, (Z * (Y - chance)[:, None]).T).T
    return np.array([each[c == FIRST].sum(axis=0)[columns] for c in range(G)])


def test_scores_with_all_signs_are_what_is_drawn():
    value, draws, p_value = bootstrap(null(), X, Y, columns=2, clusters=FIRST, draws=4000)
    own = steps([2])[:, 0]
    signs = 1 - 2 * (np.arange(2**G)[:, None] >> np.arange(G) & 1)
    every = (signs @ own) ** 2 / np.sum(own**2)
    np.testing.assert_allclose(value, every[0], rtol=1e-8)
    distance = np.abs(np.asarray(draws)[:, None] - every[None, :]).min(axis=1)
    assert distance.max() < 1e-8
    exact = np.mean(every >= every[0] * (1 - 1e-9))
    assert abs(p_value - exact) < 4 * np.sqrt(exact * (1 - exact) / 4000)


def test_several_columns_and_rows_that_are_clusters():
    none, _ = logistic.fit(X, Y, feature_mask=np.array([True, False, False]))
    several = bootstrap(none, X, Y, columns=[1, 2], draws=19)
    again = bootstrap(none, X, Y, columns=np.array([False, True, True]), draws=19)
    assert_close(several, again, 1e-12)
    assert several[1].shape == (19,)
    rows = bootstrap(none, X, Y, columns=[1, 2], draws=19, clusters=np.arange(N))
    assert_close(several, rows, 1e-9)
    unit = np.array([1.0, 1024.0, 1.0])
    # A robust score test is a chi-squared number of two degrees, whatever the units.
    units = bootstrap(none._replace(weights=none.weights / unit), X * unit, Y, columns=[1, 2])
    np.testing.assert_allclose(units[0], several[0], rtol=1e-9)


def test_what_is_not_the_null_says_nothing():
    for wrong in (fitted(), null()._replace(bias=null().bias + 1)):
        assert np.isnan(bootstrap(wrong, X, Y, columns=2, draws=9)[2])
    few = bootstrap(null(), X, Y, columns=[0, 1, 2], clusters=np.arange(N) % 2, check=False)
    assert np.isnan(few[0]) and np.isnan(few[2])
    with pytest.raises(ValueError, match=r"clusters: expected shape"):
        bootstrap(null(), X, Y, columns=2, clusters=np.column_stack([FIRST, SECOND]))
    with pytest.raises(TypeError, match="null_params: expected a Hyperplane"):
        bootstrap(softmax.fit(X, Y)[0], X, Y, columns=2)
    with pytest.raises(ValueError, match=r"columns: expected indices in 0\.\.2"):
        bootstrap(null(), X, Y, columns=3)


def test_few_clusters_are_rejected_as_often_as_said():
    """Of eight clusters with effects of their own, tests at 0.05 of a treatment of clusters."""
    groups = np.arange(160) // 20
    treated = (groups % 2).astype(float)[:, None]

    def p_values(key):
        one, two, three = jax.random.split(key, 3)
        own = 0.7 * jax.random.normal(one, (8,))[groups]
        y = (jax.random.uniform(two, (160,)) < jax.nn.sigmoid(own)).astype(int)
        none, _ = logistic.fit(treated, y, feature_mask=np.array([False]))
        params, _ = logistic.fit(treated, y)
        spread = inference.sandwich(
            losses.logistic, params, treated, y, clusters=groups, num_clusters=8
        )
        _, _, wild = inference.score_bootstrap(
            three,
            losses.logistic,
            none,
            treated,
            y,
            columns=0,
            clusters=groups,
            num_clusters=8,
            draws=199,
        )
        return wild, inference.wald(params, spread).p_value.weights[0]

    wild, normal = jax.jit(jax.vmap(p_values))(jax.random.split(jax.random.key(5), 600))
    assert np.mean(wild <= 0.05) < 0.08
    assert np.mean(normal <= 0.05) > 0.08

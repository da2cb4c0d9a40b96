"""Statistics of many rows, or of many lanes of few: the quick way is the safe one, or not taken."""

import math
import operator
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlin import _linalg, gaussian, lda, least_squares, qda
from jaxlin._base import _checks
from jaxlin._moments import _scatter, _statistics
from jaxlin.types import Status
from tests.exact import fractions

K = 2
KINDS = {"tied": (K, False), "per class": (K, True), "columns": (None, False)}


def drawn(n=9_000, d=_statistics.CLASS_COLUMNS, dtype=float, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    x = (rng.normal(size=(n, d)) + rng.normal(size=(K, d))[y] + 0.5).astype(dtype)
    return x, y


def statistics(x, y, kind, weight=None):
    """As `of_data` has them, in the units of x; with weights, the safe way."""
    k, per_class = KINDS[kind]
    if k is None:
        data = _checks.targets(x, y.astype(x.dtype) + 3, sample_weight=weight)
    else:
        data = _checks.table(x, y, sample_weight=weight)
    s, _, _, valid = jax.jit(lambda data: _statistics.of_data(data, k, per_class=per_class))(data)
    return _scatter.rescaled(s, 1 / s.unit), bool(valid)


def exact(x, y, kind):
    """Class means and the scatter within, in extended precision."""
    x = x.astype(np.longdouble)
    if kind == "columns":
        x, y = np.concatenate([x, y[:, None] + np.longdouble(3)], axis=1), 0 * y
    means = np.stack([x[y == c].mean(0) for c in np.unique(y)])
    z = (x - means[y]) / np.sqrt(np.longdouble(len(x)))
    each = np.stack([z[y == c].T @ z[y == c] for c in np.unique(y)])
    return means, each if kind == "per class" else each.sum(0)


def agree(s, means, scatter, tolerance):
    unit = np.sqrt(np.diagonal(scatter, axis1=-2, axis2=-1))
    off = np.abs(np.asarray(s.scatter) - scatter) / (unit[..., :, None] * unit[..., None, :])
    assert np.max(off) <= tolerance
    off = np.abs(np.asarray(_scatter.means(s)) - means) / np.max(unit, axis=0, initial=0)
    assert np.max(off) <= tolerance + np.finfo(s.scatter.dtype).eps * np.max(np.abs(means))


@pytest.mark.parametrize("n", [9_000, 25_000, 9_001])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_statistics_keep_their_digits(kind, dtype, n):
    x, y = drawn(n, dtype=dtype)
    s, valid = statistics(x, y, kind)
    assert valid
    agree(s, *exact(x, y, kind), 100 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(s.rows, [n] if kind == "columns" else np.bincount(y))


@pytest.mark.parametrize("kind", KINDS)
def test_columns_far_from_0_keep_their_digits(kind):
    x, y = drawn(dtype=np.float32)
    x[:, 3] += 3e3
    s, valid = statistics(x, y, kind)
    assert valid
    agree(s, *exact(x, y, kind), 1e-5)


@pytest.mark.parametrize("trouble", ["NaN", "out of range", "label"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_valid_is_seen(kind, trouble):
    x, y = drawn(dtype=np.float32)
    if trouble == "label":
        y[77] = np.iinfo(y.dtype).max if kind != "columns" else y[77]
        x[5, 2] = np.inf if kind == "columns" else x[5, 2]
    else:
        x[5, 2] = {"NaN": np.nan, "out of range": 2 * _checks.safe_range(np.float32)}[trouble]
    _, valid = statistics(x, y, kind)
    assert not valid
    _, valid = statistics(x, y, kind, np.ones(len(y), np.float32))
    assert not valid


@pytest.mark.parametrize("fit", [lda.fit, qda.fit, gaussian.fit, least_squares.fit])
def test_derivatives_are_those_of_the_safe_way(fit):
    x, y = drawn()
    direction = np.random.default_rng(1).normal(size=x.shape)

    def total(x, **weight):
        params = fit(x, y, num_classes=K, **weight)[0]
        return sum(jnp.sum(jnp.sin(leaf)) for leaf in jax.tree.leaves(params))

    quick = jax.jit(jax.grad(total))(x)
    safe = jax.jit(jax.grad(lambda x: total(x, sample_weight=np.ones(len(y)))))(x)
    assert np.all(np.any(safe != 0, axis=1))
    np.testing.assert_allclose(quick, safe, rtol=1e-8, atol=1e-12)
    _, forward = jax.jit(lambda x: jax.jvp(total, (x,), (direction,)))(x)
    np.testing.assert_allclose(forward, np.sum(safe * direction), rtol=1e-8)


def test_lanes_of_few_rows_are_what_they_are_alone(monkeypatch):
    monkeypatch.setattr(_statistics, "MANY_ENTRIES", 0)
    x, y = drawn(9 * 41, 7)
    x, y = x.reshape(9, 41, 7), y.reshape(9, 41)
    x[2] += 1e7
    x[5, 0, 0] = np.nan
    x[7, :, 1] = 4
    fit = jax.jit(jax.vmap(lambda x, y: lda.fit(x, y, num_classes=K)))
    params, info = fit(x, y)
    assert Status(int(info.status[5])) == Status.INVALID_DATA
    assert np.isnan(params.weights[5]).all()
    assert Status(int(info.status[7])) == Status.RANK_DEFICIENT
    good = [i for i in range(9) if i not in (5,)]
    for i in good:
        alone, one = jax.jit(lambda x, y: lda.fit(x, y, num_classes=K))(x[i], y[i])
        assert one.status == info.status[i]
        # Far from 0 the bias has the digits that are left of 1e14.
        np.testing.assert_allclose(params.weights[i], alone.weights, rtol=1e-6, atol=1e-9)
        assert i == 2 or np.allclose(params.bias[i], alone.bias, rtol=1e-10, atol=1e-10)
    x[2], x[5, 0, 0] = 0.5 * x[0], 1
    again, _ = fit(x, y)
    for i in set(good) - {2}:
        np.testing.assert_array_equal(again.weights[i], params.weights[i])


def test_no_columns_are_data():
    x, y = np.zeros((3, 4, 0)), np.array([[0, 1, 0, 1]] * 3)
    _, info = jax.vmap(lambda x, y: lda.fit(x, y, num_classes=K))(x, y)
    np.testing.assert_array_equal(info.status, lda.fit(x[0], y[0])[1].status)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("fit", [lda.fit, least_squares.fit])
def test_dependent_columns_are_told_though_0_is_not_their_mean(monkeypatch, fit, dtype):
    monkeypatch.setattr(_statistics, "MANY_ENTRIES", 0)
    rng = np.random.default_rng(0)
    x = 3.5 + rng.normal(size=(60, 2_000, 3))
    last = x[..., :2] @ rng.normal(size=2)
    x[..., 2] = last - last.mean() + 3.5 * last.std()
    y = rng.integers(0, K, (60, 2_000))
    _, info = jax.vmap(lambda x, y: fit(x, y, num_classes=K))(x.astype(dtype), y)
    np.testing.assert_array_equal(info.status, Status.RANK_DEFICIENT)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_long_product_that_cancels_is_rounded_once(dtype):
    rng, eps = np.random.default_rng(0), np.finfo(dtype).eps
    inner = jax.jit(jax.vmap(_linalg.long_inner))
    for d in (1, 2, 7, 64):
        a, b = np.exp(2 * rng.normal(size=(2, 20, d))) * rng.choice([-1, 1], size=(2, 20, d))
        a, b = a.astype(dtype), b.astype(dtype)
        sums = [sum(map(operator.mul, *fractions(pair))) for pair in zip(a, b, strict=True)]
        # All but a hundred units of rounding cancel.
        more = (-np.array(sums, float) * (1 + 100 * eps)).astype(dtype)
        for i, found in enumerate(inner(a, b, more)):
            whole = sums[i] + Fraction(more[i].item())
            size = np.sum(np.abs(a[i] * b[i])) + abs(more[i])
            off = abs(Fraction(found.item()) - whole)
            assert off <= 0.5 * eps * abs(whole) + 16 * eps**2 * size


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("p", [1, 2, 31, 64, 65])
def test_a_sum_in_pairs_is_rounded_a_few_times(p, dtype):
    """Each product once, and it ceil(log2 p) times in sums; one after the other in p."""
    rng = np.random.default_rng(p)
    a = np.exp(rng.normal(size=(p, 50))).astype(dtype)
    b = (np.exp(rng.normal(size=p)) * rng.choice([-1, 1], size=p)).astype(dtype)
    total, size = jax.jit(_linalg.pairwise_products)(a, b)
    bound = (math.ceil(math.log2(p)) + 1) * np.finfo(dtype).eps / 2
    for j in range(50):
        terms = [Fraction(x.item()) * Fraction(y.item()) for x, y in zip(a[:, j], b, strict=True)]
        whole = float(sum(map(abs, terms)))
        assert abs(Fraction(total[j].item()) - sum(terms)) <= 1.01 * bound * whole
        np.testing.assert_allclose(size[j], whole, rtol=1.01 * bound)


def test_digits_are_held_but_for_rounding():
    """Of what is turned into other units: an entry that is rounding, of either sign, loses none."""
    rest, lost = np.diag([-1e-17, 1.0]), np.diag([1e-17, 1e-18])
    matrices = jnp.asarray(np.stack([rest, lost, np.full((2, 2), np.nan)]))
    _, held = _linalg.turned(matrices, jnp.array([1e-140, 1.0]))
    np.testing.assert_array_equal(held, [True, False, False])
    assert _linalg.turned(matrices[1], jnp.ones(2))[1]


@pytest.mark.parametrize("p", [0, 1, 5, _linalg.FEW_SIDES, _linalg.FEW_SIDES + 1])
def test_the_inverse_of_a_triangle(p):
    rng = np.random.default_rng(0)
    lower = np.tril(rng.normal(size=(p, p))) / np.sqrt(p) + np.eye(p)
    scale = 2.0 ** rng.integers(-9, 9, size=p)
    found = np.asarray(_linalg.lower_inverse(jnp.asarray(lower), jnp.asarray(scale))) / scale
    np.testing.assert_allclose(found @ lower, np.eye(p), atol=1e-12)
    np.testing.assert_array_equal(found, np.tril(found))


@pytest.mark.parametrize("p", [4, 60, 300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_solution_is_as_good_as_its_matrix(p, dtype):
    """Refined with a residual that has more digits, in any units: conditions 29 to 6,500."""
    rng = np.random.default_rng(p)
    z = rng.normal(size=(3 * p, p)) + 2 * rng.normal(size=(3 * p, 1))
    unit = 2.0 ** rng.integers(-20, 20, size=p)
    a, b = ((z.T @ z / len(z)) * unit[:, None] * unit).astype(dtype), rng.normal(size=(3, p))
    b = (b * unit).astype(dtype)
    solve = jax.jit(lambda a, b: _linalg.refined(_linalg.pseudo_inverse(a), b))
    found = np.asarray(solve(a, b), np.longdouble) * unit
    near = a.astype(np.longdouble) / unit[:, None] / unit, b.astype(np.longdouble) / unit
    inverse = np.linalg.inv(near[0].astype(float))
    exact = near[1] @ inverse
    for _ in range(4):
        exact = exact + (near[1] - exact @ near[0]) @ inverse
    off = np.max(np.abs(found - exact)) / np.max(np.abs(exact))
    assert off <= 16 * np.finfo(dtype).eps

"""Many lanes as chunks: the same values, derivatives and statuses as all at once."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlin import least_squares, logistic, softmax
from jaxlin._base import _checks, _platform
from jaxlin._batch import _lanes
from jaxlin._data import _maxima, _prepare
from jaxlin._smooth import _frame, _passes, _risk
from jaxlin.types import Status
from tests.public import thorough

LANES, N, D, K, SIZE = 23, 23, 3, 3, 4

# Each of a scalar penalty; the last has more features than rows, and is solved in their space.
FITS = {
    "least_squares": (functools.partial(least_squares.fit, num_classes=K), N, D),
    "logistic": (lambda x, y, l2: logistic.fit(x, jnp.minimum(y, 1), l2=l2), N, D),
    "softmax": (functools.partial(softmax.fit, num_classes=K), N, D),
    "logistic, by rows": (lambda x, y, l2: logistic.fit(x, jnp.minimum(y, 1), l2=l2), 6, 300),
}


# One lane more than fill their chunks, and as many.
CASES = [(name, LANES) for name in FITS] + [thorough(("logistic", 5 * SIZE))]


@pytest.fixture(params=CASES, ids=str)
def lanes(request):
    """`(fit of all lanes at a penalty, x, entries of x in a chunk)`."""
    name, count = request.param
    fit, n, d = FITS[name]
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(count, n, d)), np.arange(count * n).reshape(count, n) % K
    x[..., 0] += y
    x[3, 1, 1] = np.inf

    def all_of(x, l2):
        return jax.vmap(lambda x, y: fit(x, y, l2=l2))(x, jnp.asarray(y))

    jax.clear_caches()
    yield all_of, jnp.asarray(x), SIZE * n * d
    jax.clear_caches()


def chunk(monkeypatch, entries):
    jax.clear_caches()
    monkeypatch.setattr(_lanes, "OWN_BYTES", 8 * entries)
    monkeypatch.setattr(_platform, "on_one_cpu", lambda: True)


def test_chunks_are_all_lanes(monkeypatch, lanes):
    fit, x, entries = lanes

    def slope(l2):
        """Of three weights of each plane: a pass backwards is of one."""
        return jax.jacrev(lambda l2: fit(x, l2)[0].weights[..., :: x.shape[-1] // 3])(l2)

    at_once, slopes = fit(x, 0.1), slope(0.1)
    chunk(monkeypatch, entries)
    assert f"length={-(-len(x) // SIZE)}\n" in str(jax.make_jaxpr(fit)(x, 0.2))
    (params, info), (of_all, said) = fit(x, 0.1), at_once
    np.testing.assert_array_equal(info.status, said.status)
    assert info.status[3] == Status.INVALID_DATA and np.sum(info.status > 1) == 1
    for a, b in zip(params, of_all, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)
    good = np.arange(len(x)) != 3
    np.testing.assert_allclose(slope(0.1)[good], slopes[good], rtol=1e-7, atol=1e-9)
    assert np.all(np.isnan(slope(0.1)[3]))


def test_a_bad_lane_of_a_chunk_is_alone(monkeypatch, lanes):
    fit, x, entries = lanes
    chunk(monkeypatch, entries)
    mended = fit(x.at[3].set(x[2]), 0.1)
    good = np.arange(len(x)) != 3
    for a, b in zip(jax.tree.leaves(fit(x, 0.1)), jax.tree.leaves(mended), strict=True):
        np.testing.assert_array_equal(a[good], b[good])


def test_lanes_that_share_many_columns():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(90, _passes.SHARED_LIMIT + 6)), np.arange(90) % K
    weights = jnp.asarray(rng.integers(0, 3, (2, 90)), float)

    def fit(weight):
        return softmax.fit(x, y, num_classes=K, l2=0.1, sample_weight=weight)

    found, info = jax.vmap(fit)(weights)
    for i, weight in enumerate(weights):
        np.testing.assert_allclose(found.weights[i], fit(weight)[0].weights, rtol=1e-9, atol=1e-12)
        assert info.status[i] == Status.CONVERGED


WEIGHTED = {
    "logistic": functools.partial(logistic.fit),
    "logistic, penalised": functools.partial(logistic.fit, l2=0.01),
    "softmax": functools.partial(softmax.fit, num_classes=K, l2=0.01),
}


@pytest.mark.parametrize("kind", ["overlapping", "separated", "with a row of junk"])
@pytest.mark.parametrize("name", WEIGHTED)
def test_lanes_that_share_all_but_weights_are_single_fits(name, kind):
    """They begin at the fit of equal weights, where there is one, and end where each alone does."""
    fit, many, n, separated = WEIGHTED[name], _risk.MANY_LANES + 1, 300, kind == "separated"
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, D))
    scores = x + (0 if separated else 1) * rng.normal(size=x.shape)
    y = np.argmax(scores, axis=1) if name == "softmax" else np.where(scores[:, 0] > 0, 1, 0)
    weight = rng.multinomial(n, np.full(n, 1 / n), size=many).astype(float)
    weight[1, 5] = np.nan
    weight[2] = y == 0
    weight[3] = 0
    if kind == "with a row of junk":
        x[7], weight[:, 7] = 1e6, 0  # of no lane
    lanes, said = jax.jit(jax.vmap(lambda w: fit(x, y, sample_weight=w)))(weight)
    alone, told = jax.lax.map(lambda w: fit(x, y, sample_weight=w), weight)
    np.testing.assert_array_equal(said.status, told.status)
    assert said.status[1] == said.status[3] == Status.INVALID_DATA
    proper = said.status == Status.CONVERGED
    assert np.sum(proper) == (0 if separated and name == "logistic" else many - 3)
    for a, b in zip(lanes, alone, strict=True):
        np.testing.assert_allclose(a[proper], b[proper], rtol=1e-9, atol=1e-11)
    if kind == "overlapping":
        assert np.mean(said.steps[proper]) < np.mean(told.steps[proper]) - 0.5


@pytest.mark.parametrize(
    "limits",
    [
        {"ROW_ENTRIES": 1000},
        {"ROW_ENTRIES": 1, "RANKED_ENTRIES": 0},
        {"ROW_ENTRIES": 1},
        {"ROW_ENTRIES": 1, "RANKS": 2},
        {"ROW_ENTRIES": 1, "RANKS": 5},
    ],
)
def test_the_largest_of_rows_with_weight_by_lanes(monkeypatch, limits):
    for name, value in limits.items():
        monkeypatch.setattr(_maxima, name, value)
    rng = np.random.default_rng(0)
    weight, a = rng.integers(0, 2, (9, 6)).astype(float), rng.random((6, 4))
    weight[0], a[2] = 0, np.inf
    weight[:, 2] = 0
    a[:2, 3] = 2  # equal
    each = np.stack([np.max(np.where(w[:, None] > 0, a, 0), axis=0) for w in weight])
    of_lanes = jax.vmap(_maxima.largest, (0, None))
    np.testing.assert_array_equal(of_lanes(weight, a), each)
    twice = jax.vmap(of_lanes)(np.stack([weight] * 2), np.stack([a, 2 * a]))
    np.testing.assert_array_equal(twice, np.stack([each, 2 * each]))
    own = jax.vmap(_maxima.largest)(weight, np.stack([a] * 9))
    np.testing.assert_array_equal(own, each)


def test_each_rank_is_told_from_the_others(monkeypatch):
    """Alone and before all that are smaller, in lanes that are on a mesh axis of their own too."""
    monkeypatch.setattr(_maxima, "ROW_ENTRIES", 1)
    n = 30
    a = np.random.default_rng(0).permuted(np.tile(np.arange(1.0, n + 1), (3, 1)), axis=1).T
    for weight in np.eye(n), np.tri(n), np.tri(n).T:
        each = np.stack([np.max(np.where(w[:, None] > 0, a, 0), axis=0) for w in weight])
        of_lanes = jax.jit(jax.vmap(_maxima.largest, (0, None)))
        np.testing.assert_array_equal(of_lanes(weight, a), each)
        lanes = jax.P("lanes")
        mesh = jax.make_mesh((1,), ("lanes",), axis_types=(jax.sharding.AxisType.Auto,))
        dealt = jax.shard_map(of_lanes, mesh=mesh, in_specs=(lanes, jax.P()), out_specs=lanes)
        np.testing.assert_array_equal(jax.jit(dealt)(weight, a), each)


@pytest.mark.parametrize("dtype", [thorough(np.float32), np.float64])
@pytest.mark.parametrize("d", [3, 20])
def test_a_row_without_weight_is_absent_from_lanes_however_large_it_is(d, dtype):
    """The frame that lanes share cannot know their weights; columns of 1e-12 are in tesla."""
    rng = np.random.default_rng(0)
    small, large = (1e-12, 5e17) if dtype == np.float32 else (1e-30, 1e100)
    x = (small * rng.normal(size=(200, d))).astype(dtype)
    y = (x[:, 0] + small * rng.normal(size=200) > 0).astype(int)
    weights = rng.uniform(0.5, 2, size=(4, 200)).astype(dtype)
    with_junk = np.vstack([x, np.full((2, d), large, dtype)]), np.append(y, [0, 1])
    absent = np.pad(weights, ((0, 0), (0, 2)))
    for fit in (logistic.fit, functools.partial(softmax.fit, num_classes=2)):
        many = jax.jit(
            jax.vmap(lambda x, y, w, fit=fit: fit(x, y, sample_weight=w), (None, None, 0))
        )
        params, info = many(x, y, weights)
        found, said = many(*with_junk, absent)
        np.testing.assert_array_equal(said.status, info.status)
        assert (np.asarray(info.status) == Status.CONVERGED).all()
        rtol = 1e-4 if dtype == np.float32 else 1e-9
        np.testing.assert_allclose(found.weights, params.weights, rtol=rtol, atol=rtol / small)


def test_junk_beside_what_all_lanes_mask_is_not_felt():
    """A row without weight, no number in a column that is masked, and large in another."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4)).astype(np.float32)
    x[:, 0] *= np.float32(1e-6)
    y = (x[:, 0] > 0).astype(int)
    weight = np.ones(60, np.float32)
    x[7], weight[7] = [0.9 * _checks.safe_range(np.dtype(np.float32)), 1, 1, np.nan], 0
    masks = np.array([[True, True, False, False], [True, False, True, False]])

    def of_lane(mask):
        data = _checks.table(x, y, sample_weight=weight, feature_mask=mask, num_classes=2)
        rows, *_ = _prepare.prepare(data, num_classes=2)
        problem = _frame.make(rows, jnp.full(4, 0.1, jnp.float32), True)
        # A column that theta sees has a deviation of 1 / unit.
        return problem.bounded, problem.scale[0] * problem.spread[0] * problem.unit[0]

    bounded, factor = jax.jit(jax.vmap(of_lane))(masks)
    assert np.all(bounded)
    deviation = np.delete(x[:, 0], 7).std()
    np.testing.assert_allclose(factor * deviation, 1, rtol=1e-4)

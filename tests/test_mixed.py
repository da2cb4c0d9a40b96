"""Lanes of float64 by way of float32: the statuses of single fits, and their answers."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlin import logistic, softmax, solvers
from jaxlin._smooth import _mixed, _plan
from jaxlin.types import Status

pytestmark = pytest.mark.cpu  # elsewhere no lanes go that way

N, D, K = 40, 3, 3
FITS = {
    "logistic": logistic.fit,
    "logistic, penalised": functools.partial(logistic.fit, l2=1e-3),
    "logistic, loose": functools.partial(logistic.fit, l2=1e-3, tol=1e-4),
    "softmax": functools.partial(softmax.fit, num_classes=K),
    "softmax, loose": functools.partial(softmax.fit, num_classes=K, l2=1e-3, tol=1e-4),
}


@pytest.fixture
def mixed(monkeypatch):
    """Any two lanes go that way."""
    monkeypatch.setattr(_plan, "LANES", 2)
    monkeypatch.setattr(_plan, "LANE_ENTRIES", 0)
    jax.clear_caches()
    yield
    jax.clear_caches()


def lanes(k):
    """One of each kind: `(x, y, weights)`."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(9, N, D))
    scores = np.stack([x[:, :, 0], x[:, :, 1], 0 * x[:, :, 0]], axis=2)[:, :, -k:]
    y = np.argmax(scores + 1.5 * rng.gumbel(size=scores.shape), axis=2)
    clear = np.argmax(scores, axis=2)
    weights = rng.integers(1, 3, (9, N)).astype(float)
    y[1] = clear[1]  # separated
    y[2], x[2, :, 2] = clear[2], np.sign(x[2, :, 2])
    y[2, :4], x[2, :4, :2] = np.arange(4) % k, 0  # but for some rows
    x[3, :, 2] = x[3, :, 0] - x[3, :, 1]
    x[4] *= [1e-8, 1e8, 1]
    x[5, 3, 1] = np.nan
    weights[6] *= 10.0 ** rng.integers(-9, 9, N)
    y[7] = 1  # of one class
    return x, y, weights


def each(name):
    def fit(x, y, weight):
        return FITS[name](x, y, sample_weight=weight)

    return fit


@pytest.mark.parametrize("name", FITS)
def test_lanes_are_single_fits(mixed, name):
    """And none feels another: junk in one changes no bit of the rest."""
    data, fit = lanes(K if "softmax" in name else 2), each(name)
    program, good = jax.jit(jax.vmap(fit)), np.arange(9) != 5
    params, info = program(*data)
    mended = program(np.where(np.isnan(data[0]), 0, data[0]), *data[1:])
    for a, b in zip(jax.tree.leaves((params, info)), jax.tree.leaves(mended), strict=True):
        np.testing.assert_array_equal(a[good], b[good])
    alone, told = jax.lax.map(lambda a: fit(*a), data)
    np.testing.assert_array_equal(info.status, told.status)
    assert info.status[0] == Status.CONVERGED and info.status[5] == Status.INVALID_DATA
    assert info.status[7] == Status.CLASS_TOO_SMALL or name.startswith("softmax")
    if name in ("logistic", "softmax"):
        assert info.status[1] == Status.SEPARABLE and info.status[3] == Status.RANK_DEFICIENT
    passed = np.isin(told.status, (Status.CONVERGED, Status.RANK_DEFICIENT))
    # A residual of 1e-4 leaves a plane that a penalty of 1e-3 holds within some thousandths.
    near = 3e-3 if "loose" in name else 1e-7
    for a, b in zip(params, alone, strict=True):
        size = np.max(np.abs(b[passed]), axis=tuple(range(1, b.ndim)), keepdims=True)
        assert np.all(np.abs(a[passed] - b[passed]) <= near * size)


def test_float32_leads_there(mixed):
    """Its points are those of float32, as good as asked, until they have to be refined."""
    x, y, _ = lanes(2)
    for tol, theirs in ((1e-3, True), (1e-9, False)):
        fit = functools.partial(logistic.fit, l2=1e-2, tol=tol, bias=False)
        (found, _), info = jax.jit(jax.vmap(fit))(x[:2], y[:2])
        assert np.all(info.status == Status.CONVERGED) and np.all(info.residual <= tol)
        assert np.all(np.asarray(found) == np.float32(found)) == theirs


def test_what_float32_cannot_hold_is_found_in_float64(mixed):
    x, y, _ = lanes(2)
    x, y = x[:2], y[:2]
    weight = np.where(np.arange(N) < 30, 1e-60, 1.0) * np.ones((2, 1))
    offset = np.where(np.arange(N) < 30, 1e60, 0.0)
    y[:, :30] = 1

    def fit(x, y, weight):
        return logistic.fit(x, y, l2=1e-2, sample_weight=weight, offset=offset)

    data = x, y, weight
    (params, info), (alone, told) = jax.vmap(fit)(*data), jax.lax.map(lambda a: fit(*a), data)
    np.testing.assert_array_equal(info.status, told.status)
    np.testing.assert_allclose(params.weights, alone.weights, rtol=1e-9)


def test_what_refinement_leaves_is_left_to_float64(mixed, monkeypatch):
    monkeypatch.setattr(_mixed, "REFINEMENTS", 0)
    x, y, _ = lanes(2)
    fit = functools.partial(logistic.fit, l2=1e-2, tol=1e-12)
    _, info = jax.jit(jax.vmap(fit))(x[:2], y[:2])
    assert np.all(info.status == Status.CONVERGED) and np.all(info.residual <= 1e-12)


def test_scores_that_float32_rounds_away_certify_nothing(mixed):
    """One row alone sees a column, and J falls along it for ever, whatever float32 sees of that."""
    rng = np.random.default_rng(0)
    x, y, weight, offset = (np.zeros((8, N, *more)) for more in ((2,), (), (), ()))
    x[:, 1:, 1], y[:, 1:] = rng.normal(size=(8, N - 1)), rng.integers(0, 2, (8, N - 1))
    x[:, 0, 0] = y[:, 0] = 1
    weight[:], weight[:, 0] = 1, 1e-8
    offset[:4, 0] = [-728920097.92, -1e9, -409958192.96, -1e9]
    offset[4:, 0] = [-28675985.06, -1e9, -728399201.92, -100137980.24]

    def fit(x, y, weight, offset):
        return logistic.fit(x, y, bias=False, sample_weight=weight, offset=offset)

    _, info = jax.jit(jax.vmap(fit))(x, y.astype(int), weight, offset)
    assert not np.any(info.status == Status.CONVERGED)


def test_a_lane_that_is_not_led_has_the_status_of_a_single_fit(mixed):
    """Loosely, of columns that are all but collinear: a proof may need a step past the residual."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 12, D))
    x[:, :, 2] = x[:, :, 0] + 10.0 ** rng.integers(-9, -2, (200, 1)) * x[:, :, 2]
    y = (x[:, :, 0] + rng.logistic(size=(200, 12)) > 0).astype(int)
    fit = functools.partial(logistic.fit, l2=1e-12, tol=1e-2)
    _, info = jax.jit(jax.vmap(fit))(x, y)
    _, told = jax.lax.map(lambda a: fit(*a), (x, y))
    np.testing.assert_array_equal(info.status, told.status)
    assert np.sum(told.status == Status.CONVERGED) > 100


def test_lanes_that_are_dealt_over_a_mesh_axis_stay_in_float64(mixed):
    x, y, _ = (a[:2] for a in lanes(2))
    mesh, dealt = jax.sharding.Mesh(jax.devices()[:1], ("lanes",)), jax.P("lanes")
    fit = jax.vmap(functools.partial(logistic.fit, l2=1e-2))
    many = jax.jit(jax.shard_map(fit, mesh=mesh, in_specs=(dealt, dealt), out_specs=dealt))
    assert np.all(many(x, y)[1].status == Status.CONVERGED)


def test_few_lanes_and_single_fits_do_not():
    x, y = jnp.ones((_plan.LANES, N, D)), jnp.zeros((_plan.LANES, N), int)
    few = jax.make_jaxpr(jax.vmap(logistic.fit))(x, y)
    assert "f32" not in str(few)
    x = jnp.ones((_plan.LANES, _plan.LANE_ENTRIES // _plan.LANES, 1))
    many = jax.make_jaxpr(jax.vmap(logistic.fit))(x, jnp.zeros(x.shape[:2], int))
    assert "f32" in str(many)


def test_columns_that_lanes_do_not_share_are_not_too_many():
    """Lanes of other weights share them, those of other labels do not."""
    n, d = 80_000, 50
    x, y, each = (jax.ShapeDtypeStruct(shape, float) for shape in ((n, d), (n,), (8, n)))

    def fit(x, y, weight):
        return logistic.fit(x, y > 0, sample_weight=weight, solver=solvers.newton)

    weights = jax.make_jaxpr(jax.vmap(fit, in_axes=(None, None, 0)))(x, y, each)
    labels = jax.make_jaxpr(jax.vmap(fit, in_axes=(None, 0, None)))(x, each, y)
    assert f"f32[{n},{d + 1}]" in str(weights) and f"f32[8,{n},{d + 1}]" not in str(labels)

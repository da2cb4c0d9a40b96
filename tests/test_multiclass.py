"""One-vs-rest is its binary fits, one per class, and says truthfully how they went."""

from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlin
from jaxlin import _checks, _rows, multiclass
from jaxlin.types import Hyperplane, Info, Linear, Status

K, N, D = 3, 30, 4


def identity(a):
    return a


def flip(a):
    return -a


def centroids(x, y, *, sample_weight=None, l2=0.0, transform=identity, bias=True):
    """The difference of the class means, shrunk: a fit in a few lines that keeps the contract."""
    data = _checks.table(x, y, sample_weight=sample_weight)
    dtype = _checks.working_dtype(data.x)
    l2 = _checks.scalar(l2, dtype, "l2")
    params, info = _centroids(data, l2, transform, bias)
    _checks.raise_if_invalid(info, data, nonnegative={"l2": l2})
    return params, info


@partial(jax.jit, static_argnums=(2, 3))
def _centroids(data, l2, transform, bias):
    rows, _, valid = _rows.prepare(data, num_classes=2)
    x = jnp.where(rows.ok[:, None], data.x, 0)
    totals = [jnp.sum(jnp.where(rows.y == c, rows.weight, 0)) for c in (0, 1)]
    m0, m1 = (
        jnp.where(rows.y == c, rows.weight, 0) @ x / jnp.where(total > 0, total, 1)
        for c, total in enumerate(totals)
    )
    small = (totals[0] == 0) | (totals[1] == 0)
    status = jnp.where(small, Status.CLASS_TOO_SMALL, Status.CONVERGED).astype(jnp.int32)
    valid = valid & (l2 >= 0)
    weights = transform((m1 - m0) / (1 + l2))
    offset = -weights @ (m0 + m1) / 2 if bias else jnp.zeros((), weights.dtype)
    nan = jnp.where(valid, 0, jnp.nan).astype(weights.dtype)
    info = Info(
        status=jnp.where(valid, status, Status.INVALID_DATA).astype(jnp.int32),
        steps=jnp.sum(rows.y).astype(jnp.int32),
        objective=totals[1] + nan,
        residual=totals[0] + nan,
    )
    return Hyperplane(weights=weights + nan, bias=offset + nan), info


def noisy(x, y, *, key, sample_weight=None):
    plane, info = centroids(x, y, sample_weight=sample_weight)
    noise = jax.random.normal(key, plane.weights.shape, plane.weights.dtype)
    return plane._replace(weights=plane.weights + noise), info


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = np.arange(N) % K
    return rng.normal(size=(N, D)) + 3 * np.eye(K, D)[y], y


fit = multiclass.one_vs_rest(centroids)


def test_is_one_binary_fit_per_class(data):
    x, y = data
    weight = np.linspace(0, 2, N)
    params, info = fit(x, y, sample_weight=weight, l2=0.5)
    planes, infos = zip(
        *(centroids(x, y == c, sample_weight=weight, l2=0.5) for c in range(K)), strict=True
    )
    np.testing.assert_allclose(params.weights, [p.weights for p in planes], rtol=1e-12)
    np.testing.assert_allclose(params.bias, [p.bias for p in planes], rtol=1e-12)
    assert isinstance(params, Linear) and info.status == Status.CONVERGED
    assert info.steps == max(i.steps for i in infos)
    np.testing.assert_allclose(info.residual, max(i.residual for i in infos))
    np.testing.assert_allclose(info.objective, sum(i.objective for i in infos))


def test_same_function_for_same_fit_and_one_compile():
    assert multiclass.one_vs_rest(centroids) is fit
    traced = chex.assert_max_traces(n=1)(lambda *a, **o: centroids(*a, **o))
    x, y = np.ones((8, 2)), np.arange(8) % 2
    for l2 in (0.0, 0.5, jnp.float64(2.0)):
        multiclass.one_vs_rest(traced)(x, y, l2=l2)


def test_functions_and_switches_are_static_options(data):
    params, _ = fit(*data)
    flipped, _ = fit(*data, transform=flip)
    np.testing.assert_allclose(flipped.weights, -params.weights, rtol=1e-12)
    assert not np.any(fit(*data, bias=False)[0].bias)


def test_two_classes_agree_with_the_binary_fit(data):
    x, y = data
    params, _ = fit(x, y > 0)
    plane, _ = centroids(x, y > 0)
    assert params.weights.shape == (2, D)
    np.testing.assert_array_equal(jaxlin.predict(params, x), jaxlin.predict(plane, x))


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8, np.uint32, np.int64])
def test_labels_of_any_integer_type(data, dtype):
    x, y = data
    params, info = fit(x, (y % 2).astype(dtype), num_classes=2)
    assert info.status == Status.CONVERGED and np.all(np.isfinite(params.weights))


def test_absent_class_is_never_predicted_and_not_felt(data):
    x, y = data
    y = np.where(y == 1, 3, y)  # 1 has no rows, 4 neither
    params, info = fit(x, y, num_classes=5)
    present, of_present = fit(x, np.searchsorted([0, 2, 3], y))
    np.testing.assert_array_equal(params.weights[np.array([1, 4])], 0)
    np.testing.assert_array_equal(params.bias[np.array([1, 4])], -np.inf)
    np.testing.assert_allclose(params.weights[np.array([0, 2, 3])], present.weights, rtol=1e-12)
    chex.assert_trees_all_close(info, of_present, rtol=1e-12)
    assert set(np.unique(jaxlin.predict(params, x))) == {0, 2, 3}
    np.testing.assert_array_equal(multiclass.probabilities(params, x)[:, np.array([1, 4])], 0)


def test_class_without_weight_is_absent(data):
    x, y = data
    params, info = fit(x, y, sample_weight=(y != 2).astype(float), num_classes=K)
    assert params.bias[2] == -np.inf and info.status == Status.CONVERGED


def test_one_class_alone_is_too_small(data):
    x, _ = data
    _, info = fit(x, np.ones(N, int))
    assert info.status == Status.CLASS_TOO_SMALL


def test_key_is_split_per_class(data):
    x, y = data
    key = jax.random.key(1)
    params, _ = multiclass.one_vs_rest(noisy)(x, y, key=key)
    for c, part in enumerate(jax.random.split(key, K)):
        plane, _ = noisy(x, y == c, key=part)
        np.testing.assert_allclose(params.weights[c], plane.weights, rtol=1e-12)


@pytest.mark.parametrize("bad", [-1, K])
def test_label_outside_the_classes(data, bad):
    x, y = data
    wrong = np.where(np.arange(N) == 4, bad, y)
    with pytest.raises(ValueError, match=rf"y: 1 of {N} entries are outside 0..2.*at 4: {bad}"):
        fit(x, wrong, num_classes=K)
    params, info = jax.jit(partial(fit, num_classes=K))(x, wrong)
    assert info.status == Status.INVALID_DATA
    assert np.all(np.isnan(params.weights)) and np.all(np.isnan(params.bias))
    weight = (np.arange(N) != 4).astype(float)
    assert fit(x, wrong, num_classes=K, sample_weight=weight)[1].status == Status.CONVERGED


def test_a_bad_lane_leaves_its_neighbours_alone(data):
    x, y = data
    lanes = np.stack([y, np.where(np.arange(N) == 0, 7, y), (y + 1) % K])
    run = jax.vmap(partial(fit, num_classes=K), in_axes=(None, 0))
    params, info = run(x, lanes)
    clean, _ = run(x, np.stack([y, y, (y + 1) % K]))
    assert info.status.tolist() == [Status.CONVERGED, Status.INVALID_DATA, Status.CONVERGED]
    for lane in (0, 2):
        chex.assert_trees_all_equal(
            *(jax.tree.map(lambda a, lane=lane: a[lane], p) for p in (params, clean))
        )


def test_the_binary_fit_says_what_is_wrong(data):
    x, y = data
    with pytest.raises(ValueError, match="l2: 1 of 1 entries are negative"):
        fit(x, y, l2=-1.0)
    with pytest.raises(ValueError, match=r"x: 1 of 120 entries are not finite.*\(2, 1\): nan"):
        fit(np.where(np.arange(N * D).reshape(N, D) == 9, np.nan, x), y)
    with pytest.raises(ValueError, match="no row has positive weight"):
        fit(x, y, sample_weight=np.zeros(N), num_classes=K)
    params, info = jax.jit(partial(fit, num_classes=4))(x, y, l2=-1.0)
    assert info.status == Status.INVALID_DATA and np.all(np.isnan(params.weights))


def test_mistakes_of_type_and_shape(data):
    x, y = data

    def multiclass_fit(x, y):
        plane, info = centroids(x, y)
        return Linear(weights=plane.weights[None], bias=plane.bias[None]), info

    with pytest.raises(TypeError, match="returns a Hyperplane, got params of type Linear"):
        multiclass.one_vs_rest(multiclass_fit)(x, y)
    with pytest.raises(TypeError, match=r"returns \(Hyperplane, Info\), got Hyperplane"):
        multiclass.one_vs_rest(lambda x, y: centroids(x, y)[0])(x, y)
    with pytest.raises(TypeError, match="expected integer or bool class indices, got dtype float"):
        fit(x, y.astype(float))
    with pytest.raises(ValueError, match=r"y: expected shape \(30,\)"):
        fit(x, y[:-1])
    with pytest.raises(TypeError, match="num_classes: expected a static integer"):
        jax.jit(fit)(x, y)
    with pytest.raises(TypeError, match=r"transform: .* can be hashed, got dict"):
        fit(x, y, transform={"a": identity})


def test_probabilities():
    params = Linear(weights=jnp.zeros((3, 1)), bias=jnp.array([2.0, -1e4, -jnp.inf]))
    np.testing.assert_allclose(multiclass.probabilities(params, jnp.ones(1)), [1, 0, 0])
    low = Linear(weights=jnp.zeros((2, 1)), bias=jnp.array([-1e4, -1e4]))
    np.testing.assert_allclose(multiclass.probabilities(low, jnp.ones((5, 1))), 0.5)
    scores = jnp.array([[0.3, -1.0, 2.0]])
    sigmoids = jax.nn.sigmoid(scores)
    eye = Linear(weights=jnp.eye(3), bias=jnp.zeros(3))
    np.testing.assert_allclose(multiclass.probabilities(eye, scores), sigmoids / sigmoids.sum())
    with pytest.raises(TypeError, match="expected a Linear, got Hyperplane"):
        multiclass.probabilities(Hyperplane(weights=jnp.ones(1), bias=jnp.zeros(())), jnp.ones(1))

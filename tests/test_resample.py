"""Folds are weights with laws, and cross-validation is a loop over them."""

from functools import partial

import chex
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlin
from jaxlin import multiclass, resample
from jaxlin.types import Hyperplane, Status
from tests.test_multiclass import centroids, flip

N, D, FOLDS = 24, 3, 4
KEY = jax.random.key(0)


def accuracy(scores, y, *, sample_weight):
    """A stand-in with the shape of a metric; NaN scores count as class 0, as naive code has it."""
    predicted = scores > 0 if scores.ndim == 1 else jnp.argmax(scores, -1)
    right = (predicted.astype(jnp.int32) == y.astype(jnp.int32)).astype(sample_weight.dtype)
    return jnp.sum(sample_weight * right) / jnp.sum(sample_weight)


def predict(params, x):
    return np.asarray(jaxlin.predict(params, x))


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = (np.arange(N) % 3 == 0).astype(int)
    return rng.normal(size=(N, D)) + y[:, None], y


def test_kfold_holds_out_every_row_once_in_folds_of_equal_size():
    for n, folds in ((11, 3), (7, 7)):
        weights = np.asarray(resample.kfold(KEY, n, folds=folds))
        assert weights.shape == (folds, n) and weights.dtype == float
        np.testing.assert_array_equal((weights == 0).sum(0), 1)
        assert np.ptp(weights.sum(1)) <= 1
    other = resample.kfold(jax.random.key(1), 11, folds=3)
    assert np.any(other != resample.kfold(KEY, 11, folds=3))


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(
    y=st.lists(st.integers(0, 4), min_size=12, max_size=12), seed=st.integers(0, 2**31)
)
def test_stratified_kfold_spreads_every_class_evenly(y, seed):
    y = np.array(y)
    weights = np.asarray(resample.stratified_kfold(jax.random.key(seed), y, folds=5))
    np.testing.assert_array_equal((weights == 0).sum(0), 1)
    assert np.ptp((weights == 0).sum(1)) <= 1
    for c in range(5):
        assert np.ptp((weights[:, y == c] == 0).sum(1)) <= 1


def test_stratified_kfold_under_transformations():
    y = jnp.array([0, 1, 2, 0, 1, 2, 0, 0], jnp.uint8)
    deal = partial(resample.stratified_kfold, folds=3)
    np.testing.assert_array_equal(jax.jit(deal)(KEY, y), deal(KEY, y))
    keys = jax.random.split(KEY, 2)
    lanes = jax.vmap(deal, in_axes=(0, None))(keys, y)
    np.testing.assert_array_equal(lanes, [deal(k, y) for k in keys])
    assert np.any(lanes[0] != lanes[1])
    assert deal(KEY, y > 0).shape == (3, 8)


def test_folds_mistakes():
    with pytest.raises(ValueError, match="folds: expected from 2 to 5, the number of rows, got 6"):
        resample.kfold(KEY, 5, folds=6)
    with pytest.raises(ValueError, match="folds: expected from 2 to 5"):
        resample.stratified_kfold(KEY, np.zeros(5, int), folds=1)
    with pytest.raises(TypeError, match="expected integer or bool class indices, got dtype float"):
        resample.stratified_kfold(KEY, np.zeros(5), folds=2)
    with pytest.raises(ValueError, match=r"y: expected shape \(n,\)"):
        resample.stratified_kfold(KEY, np.zeros((5, 1), int), folds=2)
    with pytest.raises(TypeError, match="folds: expected a static value"):
        jax.jit(lambda folds: resample.kfold(KEY, 5, folds=folds))(2)


def test_cross_validate_is_the_loop_over_folds(data):
    x, y = data
    weights = np.asarray(resample.stratified_kfold(KEY, y, folds=FOLDS))
    mine = np.linspace(0.5, 2, N)
    values, info = resample.cross_validate(
        centroids, accuracy, x, y, weights, sample_weight=mine, l2=0.3, transform=flip
    )
    assert values.shape == info.status.shape == (FOLDS,)
    for value, weight in zip(values, weights, strict=True):
        train, test = weight == 1, weight == 0
        params, _ = centroids(x[train], y[train], sample_weight=mine[train], l2=0.3, transform=flip)
        right = predict(params, x[test]) == y[test]
        np.testing.assert_allclose(value, np.average(right, weights=mine[test]))


@pytest.mark.parametrize("batch_size", [1, 3, FOLDS, 100])
def test_batches_give_the_same(data, batch_size):
    x, y = data
    weights = resample.kfold(KEY, N, folds=FOLDS)
    whole = resample.cross_validate(centroids, accuracy, x, y, weights)
    parts = resample.cross_validate(centroids, accuracy, x, y, weights, batch_size=batch_size)
    chex.assert_trees_all_close(whole, parts, rtol=1e-12)


def test_held_out_names_the_rows_to_judge(data):
    x, y = data
    weights = np.ones((2, N))
    held_out = np.stack([np.arange(N) < 5, np.zeros(N, bool)])
    values, info = resample.cross_validate(centroids, accuracy, x, y, weights, held_out=held_out)
    params, _ = centroids(x, y)
    np.testing.assert_allclose(values[0], np.mean(predict(params, x[:5]) == y[:5]))
    assert np.isnan(values[1]) and info.status[1] == Status.CONVERGED


def test_a_fold_that_holds_nothing_out_has_no_value(data):
    x, y = data
    weights = np.ones((2, N))
    weights[0, :4] = 0
    values, _ = resample.cross_validate(centroids, accuracy, x, y, weights)
    assert np.isfinite(values[0]) and np.isnan(values[1])


def test_rows_without_weight_neither_train_nor_judge(data):
    x, y = data
    weights = resample.kfold(KEY, N, folds=FOLDS)
    present = (np.arange(N) % 5 != 0).astype(float)
    poisoned = np.where(present[:, None] == 0, np.nan, x)
    clean = resample.cross_validate(centroids, accuracy, x, y, weights, sample_weight=present)
    same = resample.cross_validate(centroids, accuracy, poisoned, y, weights, sample_weight=present)
    chex.assert_trees_all_equal(clean, same)


def test_second_call_compiles_nothing(data):
    x, y = data
    fit = chex.assert_max_traces(n=1)(lambda *a, **o: centroids(*a, **o))
    weights = resample.kfold(KEY, N, folds=FOLDS)
    for l2 in (0.1, 0.2, jnp.float64(0.3)):
        resample.cross_validate(fit, accuracy, x, y, weights, l2=l2)
    wide = multiclass.one_vs_rest(chex.assert_max_traces(n=1)(lambda *a, **o: centroids(*a, **o)))
    for l2 in (0.1, 0.2):
        resample.cross_validate(wide, accuracy, x, y, weights, l2=l2)


def test_num_classes_is_inferred_where_the_fit_has_it(data):
    x, _ = data
    y = np.arange(N) % 3
    fit = multiclass.one_vs_rest(centroids)
    weights = resample.stratified_kfold(KEY, y, folds=FOLDS)
    values, _ = resample.cross_validate(fit, accuracy, x, y, weights)
    given, _ = resample.cross_validate(fit, accuracy, x, y, weights, num_classes=3)
    bound, _ = resample.cross_validate(partial(fit, num_classes=3), accuracy, x, y, weights)
    np.testing.assert_array_equal(values, given)
    np.testing.assert_array_equal(values, bound)
    with pytest.raises(TypeError, match="num_classes: expected a static integer"):
        jax.jit(lambda y: resample.cross_validate(fit, accuracy, x, y, weights))(y)


def test_under_jit_and_vmap(data):
    x, y = data
    weights = resample.kfold(KEY, N, folds=FOLDS)

    def run(y):
        return resample.cross_validate(centroids, accuracy, x, y, weights)

    expected = run(y)
    chex.assert_trees_all_close(jax.jit(run)(y), expected, rtol=1e-12)
    lanes = jax.vmap(run)(np.stack([y, 1 - y]))
    chex.assert_trees_all_close(jax.tree.map(lambda a: a[0], lanes), expected, rtol=1e-12)


def test_a_metric_may_return_several_numbers(data):
    x, y = data

    def both(scores, y, *, sample_weight):
        value = accuracy(scores, y, sample_weight=sample_weight)
        return jnp.stack([value, 1 - value])

    weights = resample.kfold(KEY, N, folds=FOLDS)
    values, _ = resample.cross_validate(centroids, both, x, y, weights)
    assert values.shape == (FOLDS, 2)
    np.testing.assert_allclose(values.sum(1), 1)


def test_offset_reaches_the_judged_scores():
    def null(x, y, *, offset, sample_weight=None):
        _, info = centroids(x, y, sample_weight=sample_weight)
        return Hyperplane(weights=jnp.zeros(D), bias=jnp.zeros(())), info

    y = np.arange(N) % 2
    weights = resample.kfold(KEY, N, folds=FOLDS)
    offset = np.where(y == 1, 1.0, -1.0)
    values, _ = resample.cross_validate(null, accuracy, np.ones((N, D)), y, weights, offset=offset)
    np.testing.assert_array_equal(values, 1)


def test_bad_data_eagerly_and_as_a_status(data):
    x, y = data
    weights = np.array(resample.kfold(KEY, N, folds=FOLDS))
    weights[2] = 0
    message = "fold 2 of 4: sample_weight: no row has positive weight"
    with pytest.raises(ValueError, match=message):
        resample.cross_validate(centroids, accuracy, x, y, weights)
    values, info = jax.jit(partial(resample.cross_validate, centroids, accuracy))(x, y, weights)
    assert info.status[2] == Status.INVALID_DATA and np.isnan(values[2])
    assert np.all(np.isfinite(np.delete(values, 2)))
    with pytest.raises(ValueError, match="fold 0 of 4: l2: 1 of 1 entries are negative"):
        resample.cross_validate(centroids, accuracy, x, y, np.abs(weights - 1), l2=-1.0)


def test_a_silent_fit_is_still_told(data):
    x, y = data

    def mute(x, y, *, sample_weight):
        params, info = centroids(x, y, sample_weight=jnp.abs(sample_weight))
        return params, info._replace(status=jnp.int32(Status.INVALID_DATA))

    with pytest.raises(ValueError, match="fold 0 of 2: the data are not valid"):
        resample.cross_validate(mute, accuracy, x, y, np.eye(2, N))


def test_shape_mistakes(data):
    x, y = data
    weights = np.ones((2, N))
    run = partial(resample.cross_validate, centroids, accuracy)
    with pytest.raises(ValueError, match=r"weights: expected shape \(folds, 24\), got \(24,\)"):
        run(x, y, weights[0])
    with pytest.raises(ValueError, match=r"held_out: expected shape \(2, 24\), got \(3, 24\)"):
        run(x, y, weights, held_out=np.ones((3, N)))
    with pytest.raises(ValueError, match=r"y: expected one label per row of x, shape \(24,\)"):
        run(x, y[:-1], weights)
    with pytest.raises(ValueError, match="batch_size: expected a positive integer, got 0"):
        run(x, y, weights, batch_size=0)
    with pytest.raises(TypeError, match=r"params: expected .*Hyperplane.*, got Info"):
        resample.cross_validate(swapped, accuracy, x, y, weights)


def swapped(x, y, *, sample_weight):
    params, info = centroids(x, y, sample_weight=sample_weight)
    return info, params

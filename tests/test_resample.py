"""Folds are weights with laws, and cross-validation is a loop over them."""

from functools import partial
from typing import NamedTuple

import chex
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlin
from jaxlin import (
    lda,
    least_squares,
    logistic,
    metrics,
    multiclass,
    perceptron,
    qda,
    resample,
    softmax,
)
from jaxlin._batch import _folds, _lanes
from jaxlin._moments import _closed_form
from jaxlin.types import Hyperplane, Info, Status
from tests.public import thorough
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


def several(scores, y, *, sample_weight):
    right = accuracy(scores, y, sample_weight=sample_weight)
    return {"right": right, "loss": (metrics.log_loss(scores, y, sample_weight=sample_weight),)}


def loss(scores, y, *, sample_weight):
    return metrics.log_loss(scores, y, sample_weight=sample_weight)


def test_a_metric_may_return_a_tree(data):
    x, y = data
    weights = resample.kfold(KEY, N, folds=FOLDS)
    weights = jnp.concatenate([weights, jnp.ones((1, N))])  # the last holds nothing out
    values, _ = resample.cross_validate(centroids, several, x, y, weights)
    assert values.keys() == {"right", "loss"}
    for found, metric in ((values["right"], accuracy), (values["loss"][0], loss)):
        alone, _ = resample.cross_validate(centroids, metric, x, y, weights)
        np.testing.assert_allclose(found, alone, rtol=1e-12)
        assert found.shape == (FOLDS + 1,) and np.isnan(found[-1])
    wrong = np.full(N, -1.0)
    invalid, _ = jax.jit(
        lambda w: resample.cross_validate(centroids, several, x, y, weights, sample_weight=w)
    )(wrong)
    assert all(np.all(np.isnan(leaf)) for leaf in jax.tree.leaves(invalid))


@pytest.mark.parametrize("fit", [centroids, partial(lda.fit, num_classes=2), lda.fit])
def test_each_metric_of_a_tree_has_its_null_and_p_value(data, fit):
    x, y = data
    weights = resample.stratified_kfold(KEY, y, folds=FOLDS)
    run = partial(resample.permutation_test, KEY, fit, x=x, y=y, weights=weights, draws=19)
    found = run(several, larger_is_better={"right": True, "loss": False})
    for metric, larger, pick in (
        (accuracy, True, lambda tree: tree["right"]),
        (loss, False, lambda tree: tree["loss"][0]),
    ):
        alone = run(metric, larger_is_better=larger)
        chex.assert_trees_all_close([pick(tree) for tree in found], list(alone), rtol=1e-12)
    # One bool is that of all; by default more is better.
    _, _, smaller = run(several, larger_is_better=False)
    np.testing.assert_array_equal(smaller["loss"][0], found[2]["loss"][0])
    _, _, larger = run(several)
    np.testing.assert_array_equal(larger["right"], found[2]["right"])
    assert larger["loss"][0] > smaller["loss"][0]


def test_one_number_chooses(data):
    x, y = data
    weights = resample.stratified_kfold(KEY, y, folds=FOLDS)
    run = partial(resample.select, centroids, x=x, y=y, weights=weights, l2=np.array([1.0, 2.0]))
    with pytest.raises(ValueError, match=r"metric: expected one number to choose by, .*'loss'"):
        run(several)

    def pair(scores, y, *, sample_weight):
        return jnp.zeros(2)

    with pytest.raises(ValueError, match=r"metric: expected one number .* got shape \(2,\)"):
        run(pair)


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


# --- other weights -------------------------------------------------------------------------------


@hypothesis.settings(max_examples=40, deadline=None)
@hypothesis.given(groups=st.lists(st.integers(-3, 9), min_size=15, max_size=15))
def test_groups_stay_together(groups):
    groups = np.array(groups)
    weights = np.asarray(resample.group_kfold(groups, folds=3))
    np.testing.assert_array_equal((weights == 0).sum(0), 1)
    for group in np.unique(groups):
        assert np.ptp(weights[:, groups == group], axis=1).max() == 0
    counts = np.unique(groups, return_counts=True)[1]
    assert np.ptp((weights == 0).sum(1)) <= counts.max()


def test_the_largest_groups_are_dealt_first():
    groups = np.array([0, 1, 2, 3, 4, 4, 4, 4])
    np.testing.assert_array_equal(resample.group_kfold(groups, folds=2).sum(1), [4, 4])


def test_bootstraps_count_rows():
    n, draws = 50, 4000
    counts = np.asarray(resample.bootstrap(KEY, n, draws=draws))
    assert counts.shape == (draws, n) and np.all(counts.sum(1) == n)
    np.testing.assert_array_equal(counts, np.round(counts))
    np.testing.assert_allclose(np.var(counts), 1 - 1 / n, rtol=0.02)  # a binomial's
    np.testing.assert_allclose(np.mean(counts == 0), (1 - 1 / n) ** n, rtol=0.02)
    smooth = np.asarray(resample.bayesian_bootstrap(KEY, n, draws=draws))
    assert np.all(smooth > 0)
    np.testing.assert_allclose(smooth.sum(1), n, rtol=1e-12)
    np.testing.assert_allclose(np.var(smooth), (n - 1) / (n + 1), rtol=0.03)  # Dirichlet's
    np.testing.assert_array_equal(resample.leave_one_out(4), 1 - np.eye(4))


def test_permutations_move_labels_within_strata():
    y, strata = np.arange(12), np.array([5, -1, 5, 5, -1, 7, 5, -1, 7, 5, 5, -1])
    dealt = np.asarray(resample.permutations(KEY, y, draws=500))
    np.testing.assert_array_equal(np.sort(dealt, axis=1), np.tile(y, (500, 1)))
    np.testing.assert_allclose(np.mean(dealt == y, axis=0), 1 / 12, atol=0.05)
    inside = np.asarray(resample.permutations(KEY, y, draws=500, strata=strata))
    for stratum in (-1, 5, 7):
        rows = strata == stratum
        np.testing.assert_array_equal(np.sort(inside[:, rows], axis=1), np.tile(y[rows], (500, 1)))
        chance = np.mean(inside[:, rows] == y[rows])
        np.testing.assert_allclose(chance, 1 / rows.sum(), atol=0.05)
    soft = resample.permutations(KEY, np.stack([y, -y], axis=1), draws=2)
    np.testing.assert_array_equal(soft[..., 0], -soft[..., 1])


def test_balanced_classes_weigh_the_same():
    y = np.array([0, 0, 0, 1, 3, 3])
    weight = np.array([1.0, 2.0, 0.0, 1.0, 4.0, 1.0])
    found = np.asarray(resample.balanced(y, sample_weight=weight, num_classes=5))
    for c in (0, 1, 3):
        np.testing.assert_allclose(found[y == c].sum(), weight.sum() / 3)
    np.testing.assert_allclose(found[1] / found[0], 2)
    assert found[2] == 0


def test_classes_beyond_the_dtype_of_the_labels_are_none():
    """Of int8 the class 256 would be class 0 again."""
    y = np.array([0, 0, 0, 1], np.int8)
    found = resample.balanced(y, num_classes=300)
    np.testing.assert_allclose(found, [2 / 3, 2 / 3, 2 / 3, 2])


def test_mistakes_of_weights():
    with pytest.raises(ValueError, match="n: expected at least 2, got 1"):
        resample.leave_one_out(1)
    with pytest.raises(ValueError, match="draws: expected at least 1, got 0"):
        resample.bootstrap(KEY, 5, draws=0)
    with pytest.raises(TypeError, match="groups: expected integers, got float"):
        resample.group_kfold(np.zeros(5), folds=2)
    with pytest.raises(ValueError, match=r"strata: expected shape \(5,\), got \(4,\)"):
        resample.permutations(KEY, np.zeros(5, int), draws=2, strata=np.zeros(4, int))
    with pytest.raises(ValueError, match="datasets: expected at least one"):
        resample.pad([])


# --- many fits -----------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [None, 1, 4, 100])
def test_refits_are_single_fits(data, batch_size):
    x, y = data
    weights = resample.bootstrap(KEY, N, draws=7)
    params, info = resample.refit(centroids, x, y, weights, batch_size=batch_size, l2=0.5)
    for lane, weight in enumerate(weights):
        single = centroids(x, y, sample_weight=weight, l2=0.5)
        chex.assert_trees_all_close(
            jax.tree.map(lambda a, lane=lane: a[lane], (params, info)), single, rtol=1e-12
        )


def test_a_bad_lane_of_refits_is_named_and_harms_no_other(data):
    x, y = data
    weights = np.array(resample.bootstrap(KEY, N, draws=5))
    run = jax.jit(lambda w: resample.refit(centroids, x, y, w, batch_size=2))
    clean, _ = run(weights)
    weights[3] = np.where(y == 1, 1, 0)  # one class only
    _, info = run(weights)
    assert info.status.tolist() == [0, 0, 0, Status.CLASS_TOO_SMALL, 0]
    weights[3] = -1
    params, info = run(weights)
    assert info.status[3] == Status.INVALID_DATA
    for a, b in zip(params, clean, strict=True):
        np.testing.assert_array_equal(np.delete(a, 3, axis=0), np.delete(b, 3, axis=0))
    with pytest.raises(ValueError, match="fold 3 of 5: sample_weight: 24 of 24 entries"):
        resample.refit(centroids, x, y, weights)


def test_padded_problems_are_themselves():
    rng = np.random.default_rng(0)
    sets = []
    for n, d in ((20, 3), (14, 2), (17, 4)):
        y = np.arange(n) % 3
        sets.append((rng.normal(size=(n, d)) + y[:, None], y))
    x, y, weight, mask = resample.pad(sets)
    assert x.shape == (3, 20, 4) and mask.sum(1).tolist() == [3, 2, 4]
    assert weight.sum(1).tolist() == [20, 14, 17]
    fit = partial(lda.fit, num_classes=3, shrinkage=0.2)
    params, _ = jax.vmap(lambda x, y, w, m: fit(x, y, sample_weight=w, feature_mask=m))(
        x, y, weight, mask
    )
    for lane, (own, labels) in enumerate(sets):
        single, _ = fit(own, labels)
        d = own.shape[1]
        np.testing.assert_allclose(params.weights[lane, :, :d], single.weights, rtol=1e-9)
        assert not np.any(params.weights[lane, :, d:])


def test_a_permutation_test_is_the_loop(data):
    x, y = data
    weights = resample.stratified_kfold(KEY, y, folds=FOLDS)
    mine = np.where(np.arange(N) % 6 == 5, 0.0, 1.0)
    labels = np.where(mine == 0, 1 - y, y)  # which nobody may get
    options = dict(draws=19, sample_weight=mine, l2=0.3)
    run = partial(resample.permutation_test, KEY, centroids, accuracy, x, labels, weights)
    value, null, p_value = run(**options)

    def mean(y):
        values, _ = resample.cross_validate(
            centroids, accuracy, x, y, weights, sample_weight=mine, l2=0.3
        )
        return np.mean(values)

    np.testing.assert_allclose(value, mean(labels), rtol=1e-12)
    absent = (mine == 0).astype(int)
    dealt = [
        resample.permutations(key, labels, draws=1, strata=absent)[0]
        for key in jax.random.split(KEY, 19)
    ]
    assert all(np.all(d[mine == 0] == labels[mine == 0]) for d in dealt)
    assert null.shape == (19,) and len(np.unique(null)) > 3
    np.testing.assert_allclose(p_value, (1 + np.sum(null >= value)) / 20)
    _, same, _ = run(**options, batch_size=4)
    np.testing.assert_allclose(same, null, rtol=1e-12)
    _, _, flipped = run(**options, larger_is_better=False)
    np.testing.assert_allclose(flipped, (1 + np.sum(null <= value)) / 20)


def test_a_null_as_good_counts(data):
    x, y = data
    weights = resample.kfold(KEY, len(y), folds=3)

    def blind(scores, y, *, sample_weight):
        return jnp.zeros(())

    for better in (True, False):
        *_, p_value = resample.permutation_test(
            KEY, centroids, blind, x, y, weights, draws=5, larger_is_better=better, l2=0.3
        )
        assert p_value == 1


def labelled(n=40, d=4, k=3):
    """Columns of several scales, rows of several weights, some of them of none and junk."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, d)) * 10.0 ** np.arange(-1, d - 1) + 3
    weight = rng.integers(0, 3, size=n).astype(float)
    x[weight == 0] = np.nan
    return x, np.arange(n) % k, weight, rng


@partial(jax.jit, static_argnums=(0, 1))
def by_closed_form(fit, options, x, ys, weight):
    options = {"num_classes": 3, **dict(options)}
    offer, options = _closed_form.offered(fit, options, labels=True)
    held = _closed_form.centred(x, ys[0], weight > 0, 3)
    at = _closed_form.still(held, x, ys[0], weight, 3)
    factors = offer.factors(at, held, 3, **options)
    return jax.vmap(
        lambda y: offer.relabelled(at, held, factors, _closed_form.sums(at, held, y, 3), **options)
    )(ys)


@pytest.mark.parametrize(
    "fit, options",
    [
        (lda.fit, {}),
        (lda.fit, {"shrinkage": lda.ledoit_wolf}),
        (least_squares.fit, {"l2": 0.3}),
        thorough(lda.fit, {"shrinkage": 0.3, "divisor": "n-k"}),
        thorough(lda.fit, {"priors": (0.2, 0.3, 0.5), "shrinkage": 1.0}),
        thorough(least_squares.fit, {"bias": False}),
    ],
)
def test_many_labellings_at_once_are_single_fits(fit, options):
    x, y, weight, rng = labelled()
    ys = np.stack([rng.permutation(y) for _ in range(5)])
    ys[4] = np.where(ys[4] == 2, 1, ys[4])  # a class without rows is left to the fit
    args = fit, tuple(options.items())
    params, objective, sound = by_closed_form(*args, x, ys, weight)
    assert sound.tolist() == [True, True, True, True, False]
    for i in range(4):
        single, info = fit(x, ys[i], sample_weight=weight, num_classes=3, **options)
        np.testing.assert_allclose(objective[i], info.objective, rtol=1e-9)
        found = jax.tree.map(lambda a, i=i: a[i], params)
        scores = [np.asarray(jaxlin.scores(p, x[weight > 0])) for p in (found, single)]
        np.testing.assert_allclose(*scores, rtol=1e-9, atol=1e-9 * np.max(np.abs(scores[1])))


def test_a_closed_form_says_where_it_would_lose_digits():
    x, y, weight, _ = labelled()
    doubled, apart, far = x.copy(), x.copy(), x.copy()
    doubled[:, 3] = x[:, 0]
    apart[:, 0] += 1000 * y
    far[np.argmin(weight)] = 1e9  # without weight: not felt
    sound = [by_closed_form(lda.fit, (), z, y[None], weight)[2] for z in (doubled, apart, far)]
    assert np.array(sound)[:, 0].tolist() == [False, False, True]


def test_a_closed_form_is_as_good_as_its_statistics():
    """Of columns of condition 10,000 in float32, of which eigenvectors alone leave few digits."""
    rng = np.random.default_rng(0)
    n, d, k = 500, 60, 2
    turned, back = (np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(2))
    x = (rng.normal(size=(n, d)) @ (turned * 10.0 ** -np.linspace(0, 2, d)) @ back).astype("f4")
    y = jnp.asarray(8 * x[:, 0] + rng.normal(size=n) > 0).astype(jnp.int32)
    weight = jnp.ones(n, jnp.float32)
    offer, options = _closed_form.offered(lda.fit, {"num_classes": k}, labels=True)
    held = _closed_form.centred(jnp.asarray(x), y, weight > 0, k)
    at = _closed_form.still(held, jnp.asarray(x), y, weight, k)
    sums = _closed_form.sums(at, held, y, k)
    factors = offer.factors(at, held, k, **options)
    found, _, sound = offer.relabelled(at, held, factors, sums, **options)
    assert sound
    share = sums.share[:, None]
    of_data = at.scatter, share, sums.moved / share, at.origin + at.mean, at.unit
    wide, share, apart, mean, unit = (np.asarray(a, float) for a in of_data)
    exact = np.linalg.solve(wide - apart.T @ (share * apart), (apart + mean).T).T * unit
    off = np.abs(np.asarray(found.weights, float) - exact)
    assert np.max(off) <= 32 * np.finfo(np.float32).eps * np.max(np.abs(exact))


def test_weights_on_one_row_leave_no_digits():
    x, y, weight, _ = labelled()
    held = _closed_form.centred(jnp.asarray(x), jnp.asarray(y), weight > 0, 3)
    heavy = np.where(np.arange(len(y)) == np.argmax(weight), 1e9, weight)
    sound = [_closed_form.still(held, x, y, w, 3).sound for w in (weight, heavy)]
    assert list(map(bool, sound)) == [True, False]


@pytest.mark.parametrize("fit", [least_squares.fit, lda.fit])
def test_the_labels_observed_are_as_good_as_themselves(fit):
    """Of six rows there are 20 labellings, of which they and their converse are the best."""
    y = np.array([0, 0, 0, 1, 1, 1])
    x = np.random.default_rng(3).normal(size=(6, 1)) + 4 * y[:, None]
    folds = resample.leave_one_out(6)
    value, null, p = resample.permutation_test(KEY, fit, metrics.log_loss, x, y, folds, draws=999)
    best = int(np.sum(np.asarray(null) <= value * (1 + 1e-12)))
    assert best > 50 and p == (1 + best) / 1000


def test_a_value_that_is_infinite_is_compared():
    def metric(scores, y, *, sample_weight):
        return jnp.sum(jnp.where((sample_weight > 0) & (y == 0), jnp.inf, 0.0))

    y = np.arange(6) % 2
    x, folds = np.arange(6.0)[:, None], resample.leave_one_out(6)
    test = partial(resample.permutation_test, KEY, lda.fit, metric, x, y, folds, draws=9)
    assert test(larger_is_better=False)[2] == test(larger_is_better=True)[2] == 1


@pytest.mark.parametrize("shrinkage", [0.0, lda.ledoit_wolf])
def test_a_permutation_test_by_closed_form_is_the_loop(shrinkage):
    x, y, weight, _ = labelled(n=24)
    y = np.where(np.arange(24) < 4, 2, y % 2)  # a fold may lack the third class
    weights = resample.kfold(KEY, 24, folds=3)
    options = {"num_classes": 3, "sample_weight": weight, "shrinkage": shrinkage}
    run = partial(resample.permutation_test, KEY, lda.fit, metrics.brier, x, y, weights)
    value, null, _ = run(draws=12, **options)
    dealt = resample.permutations(KEY, y, draws=12, strata=(weight == 0).astype(int))
    expected = [
        np.mean(resample.cross_validate(lda.fit, metrics.brier, x, d, weights, **options)[0])
        for d in [y, *dealt]
    ]
    np.testing.assert_allclose([value, *null], expected, rtol=1e-8)


@pytest.mark.parametrize(
    "combine, fit",
    [
        ("permutation_test", lda.fit),
        ("cross_validate", least_squares.fit),
        ("refit", lda.fit),
        thorough("permutation_test", least_squares.fit),
        thorough("refit", qda.fit),
    ],
)
def test_closed_forms_of_lanes_over_a_mesh(combine, fit, monkeypatch):
    """Each device has lanes of its own; folds and the key are the same on all."""
    monkeypatch.setattr(_folds, "FEW_LANES", 2)
    x = np.random.default_rng(0).normal(size=(3, N, D))
    y = (x[:, :, 0] > 0).astype(int)
    folds = resample.stratified_kfold(KEY, y[0], folds=FOLDS)
    fit = partial(fit, num_classes=2)

    def one(x, y):
        if combine == "permutation_test":
            return resample.permutation_test(KEY, fit, metrics.accuracy, x, y, folds, draws=5)
        if combine == "cross_validate":
            return resample.cross_validate(fit, metrics.accuracy, x, y, folds)
        return resample.refit(fit, x, y, folds)

    mesh = jax.make_mesh((1,), ("lanes",), axis_types=(jax.sharding.AxisType.Auto,))
    lanes = jax.P("lanes")
    dealt = jax.shard_map(jax.vmap(one), mesh=mesh, in_specs=lanes, out_specs=lanes)
    chex.assert_trees_all_close(jax.jit(dealt)(x, y), jax.jit(jax.vmap(one))(x, y))


@pytest.mark.parametrize(
    "fit, options",
    [
        (lda.fit, {"shrinkage": 0.1}),
        thorough(qda.fit, {}),
        thorough(lda.fit, {"divisor": "n-k"}),
        thorough(least_squares.fit, {"l2": 0.1}),
        thorough(least_squares.fit, {}),
    ],
)
def test_many_refits_at_once_are_single_fits(fit, options, monkeypatch):
    monkeypatch.setattr(_folds, "FEW_LANES", 32)
    x, y, weight, _ = labelled()
    x = np.concatenate([x, x[:, :1], np.full((len(x), 1), 7.0)], axis=1)  # collinear, constant
    options = {"num_classes": 3, **options}
    weights = np.concatenate(
        [
            resample.leave_one_out(len(x)) * weight[None],
            resample.bayesian_bootstrap(KEY, len(x), draws=8) * weight[None],
            [weight * (y != 1), weight * (y == 1), -weight, 0 * weight],
        ]
    )
    assert len(weights) >= _folds.FEW_LANES

    @jax.jit
    def refit(weights):
        return resample.refit(fit, x, y, weights, batch_size=20, **options)

    together = refit(weights)
    singly = jax.jit(jax.vmap(lambda w: fit(x, y, sample_weight=w, **options)))(weights)
    np.testing.assert_array_equal(together[1].status, singly[1].status)
    assert {0, 1} & set(together[1].status.tolist()) and together[1].status[-1] == 8
    chex.assert_trees_all_close(together, singly, rtol=1e-6, atol=1e-8)
    # A lane that is bad, or that the closed form is not sound for, changes no other by a bit.
    alone = (np.arange(len(x)) % 20 < 4) * weight  # its classes are far apart in a column
    for other in (weights[0], np.nan * weight, alone):
        changed = refit(np.concatenate([weights[:-1], [other]]))
        rest = jax.tree.map(lambda a: a[:-1], (changed, together))
        chex.assert_trees_all_equal(*rest)


def test_a_lane_by_closed_form_does_not_hang_on_its_neighbours():
    def usual(a):
        return jnp.sin(a)

    def quick(a):
        return jnp.sin(a) + 1e-9, a > 0

    @jax.jit
    def total(lanes):
        return _lanes.chunked(usual, lanes, 2, quick)

    lanes = jnp.array([1.0, 2.0, 3.0, 0.0])
    np.testing.assert_array_equal(total(lanes), jnp.sin(lanes) + jnp.where(lanes > 0, 1e-9, 0))
    many = jax.vmap(total)(jnp.stack([lanes, -lanes, jnp.ones(4)]))
    np.testing.assert_array_equal(many[0], total(lanes))
    np.testing.assert_array_equal(many[1], jnp.sin(-lanes))


def test_closed_forms_of_many_weights_have_derivatives_both_ways(monkeypatch):
    monkeypatch.setattr(_folds, "FEW_LANES", 32)
    x, y, _, _ = labelled()
    x, weights = np.nan_to_num(x), resample.bootstrap(jax.random.key(0), len(x), draws=33)

    def together(x):
        return resample.refit(lda.fit, x, y, weights, num_classes=3)[0].weights

    def singly(x):
        fit = partial(lda.fit, num_classes=3)
        return jax.vmap(lambda w: fit(x, y, sample_weight=w)[0].weights)(weights)

    slope, expected = (jax.vjp(f, x)[1](jnp.cos(f(x)))[0] for f in (together, singly))
    np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=1e-9)
    moved, expected = (jax.jvp(f, (x,), (jnp.cos(x),))[1] for f in (together, singly))
    np.testing.assert_allclose(moved, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.thorough
def test_folds_by_closed_form_are_the_loop_and_have_derivatives(monkeypatch):
    monkeypatch.setattr(_folds, "FEW_LANES", 32)
    x, y, weight, _ = labelled()
    folds = resample.leave_one_out(len(x))
    keep = np.flatnonzero(weight > 0)
    x = np.nan_to_num(x / np.nanstd(x, axis=0))

    @jax.jit
    def values(shrinkage):
        options = {"num_classes": 3, "shrinkage": shrinkage, "sample_weight": weight}
        return resample.cross_validate(lda.fit, metrics.log_loss, x, y, folds, **options)[0]

    found = np.asarray(values(0.1))
    assert np.all(np.isnan(found[weight == 0]))
    for i in keep[:3]:
        left = weight * (np.arange(len(x)) != i)
        params, _ = lda.fit(x, y, sample_weight=left, shrinkage=0.1)
        scores = jaxlin.scores(params, x[i : i + 1])
        np.testing.assert_allclose(found[i], metrics.log_loss(scores, y[i : i + 1]), rtol=1e-8)

    def mean(shrinkage):
        return jnp.mean(values(shrinkage)[keep])

    slope, h = jax.grad(mean)(0.1), 1e-4
    np.testing.assert_allclose(slope, (mean(0.1 + h) - mean(0.1 - h)) / (2 * h), rtol=1e-5)


def test_only_what_a_closed_form_understands_is_left_to_it(data):
    x, _ = data
    offered = partial(_closed_form.offered, labels=False)
    of_labels = partial(_closed_form.offered, labels=True)
    assert offered(lda.fit, {"num_classes": 2, "shrinkage": 0.1})
    estimated = {"num_classes": 2, "shrinkage": lda.ledoit_wolf}
    assert of_labels(lda.fit, estimated) and not offered(lda.fit, estimated)
    assert not of_labels(lda.fit, {"num_classes": 2, "shrinkage": lambda *_, **__: 0.1})
    assert offered(qda.fit, {"num_classes": 2}) and not of_labels(qda.fit, {"num_classes": 2})
    assert not offered(lda.fit, {"num_classes": 2, "feature_mask": x[0] > 0})
    assert not offered(logistic.fit, {})
    bound = partial(partial(lda.fit, num_classes=3, shrinkage=0.1), num_classes=2)
    _, options = offered(bound, {"shrinkage": 0.2})
    assert options == {"num_classes": 2, "shrinkage": 0.2}
    assert not offered(partial(lda.fit, x), {"num_classes": 2})


def programs(y, weights):
    """Each of the programs of many fits, of x and l2, traced anew."""
    l2s = jnp.array([0.1, 1.0, 5.0])
    fit, metric = partial(centroids), partial(metrics.brier)

    def selected(x, l2):
        rows = jnp.where(jnp.arange(len(y)) < 3, l2, 1.0)
        return resample.select(fit, metric, x, y, weights, l2=l2s, sample_weight=rows)

    def tested(x, l2):
        key = jax.random.fold_in(KEY, (10 * l2).astype(int))
        options = dict(draws=7, num_classes=2, shrinkage=l2 / 10)
        return resample.permutation_test(key, lda.fit, metric, x, y, weights, **options)

    return {
        "refit": lambda x, l2: resample.refit(fit, x, y, weights, l2=l2),
        "cross_validate": lambda x, l2: resample.cross_validate(fit, metric, x, y, weights, l2=l2),
        "select": selected,
        "permutation_test": tested,
        "regularization_path": lambda x, l2: resample.regularization_path(fit, x, y, l2=l2 * l2s),
    }


@pytest.mark.parametrize("bound", [thorough(0), 2, thorough(100)])
@pytest.mark.parametrize("name", programs(None, None))
def test_programs_of_a_vmap_go_a_few_at_a_time(data, name, bound, monkeypatch):
    """One by one, some at a time, and all at once: over x, over what they share x for, and both."""
    x, y = data
    weights = resample.stratified_kfold(KEY, y, folds=FOLDS)
    rng = np.random.default_rng(1)
    xs, l2 = x + rng.normal(size=(5, N, D)), jnp.array([0.2, 0.7, 3.0])
    run = programs(y, weights)[name]
    one = jax.jit(run)
    singly = [one(x, a) for x in xs for a in l2]
    expected = jax.tree.map(lambda *a: np.reshape(a, (5, 3, *a[0].shape)), *singly)
    fits = {"refit": FOLDS, "cross_validate": FOLDS, "select": 15}.get(name, 3)
    size = bound * fits * _lanes.lane_bytes(N, D, float)
    monkeypatch.setattr(_lanes, "PROGRAMS_BYTES", {True: size, False: size})
    over_l2 = jax.vmap(run, in_axes=(None, 0))
    for over_both in (jax.vmap(over_l2, (0, None)), jax.jit(jax.vmap(over_l2, (0, None)))):
        chex.assert_trees_all_close(over_both(xs, l2), expected, rtol=1e-9, atol=1e-12)


def test_a_vmap_of_programs_has_their_derivatives(data, monkeypatch):
    x, y = data
    weights = resample.stratified_kfold(KEY, y, folds=FOLDS)
    monkeypatch.setattr(_lanes, "PROGRAMS_BYTES", {True: 0, False: 0})
    xs, l2 = x + np.arange(3.0)[:, None, None] * y[:, None], jnp.array([0.3, 1.0, 4.0])
    metric = partial(metrics.brier)

    def value(x, l2):
        return jnp.sum(resample.cross_validate(centroids, metric, x, y, weights, l2=l2)[0])

    def total(xs, l2):
        return jnp.sum(jax.vmap(value)(xs, l2))

    step = 1e-5
    high, low = (
        np.array([value(*lane) for lane in zip(xs, l2 + s, strict=True)]) for s in (step, -step)
    )
    slopes = (high - low) / (2 * step)
    for derivative in (jax.grad, jax.jacfwd):
        np.testing.assert_allclose(derivative(total, 1)(xs, l2), slopes, rtol=1e-6)
        np.testing.assert_allclose(jax.vmap(derivative(value, 1))(xs, l2), slopes, rtol=1e-6)
    of_x = np.stack([jax.jacfwd(value)(*lane) for lane in zip(xs, l2, strict=True)])
    np.testing.assert_allclose(jax.grad(total)(xs, l2), of_x, rtol=1e-9, atol=1e-12)


def test_what_a_vmap_of_programs_holds_has_a_bound(data, monkeypatch):
    """Beside what they are given, more of them hold no more."""
    x, y = np.tile(data[0], (20, 1)), np.tile(data[1], 20)
    weights = resample.stratified_kfold(KEY, y, folds=FOLDS)

    def held(lanes):
        metric = partial(metrics.brier)
        xs = np.stack([x] * lanes)

        def run(x):
            return resample.cross_validate(centroids, metric, x, y, weights)[0]

        program = jax.jit(jax.vmap(run)).lower(xs).compile()
        return program.memory_analysis().temp_size_in_bytes - xs.nbytes

    several = held(64)
    monkeypatch.setattr(_lanes, "PROGRAMS_BYTES", {True: 2**19, False: 0})
    few, more = held(16), held(64)
    assert more < 1.1 * few and more < several / 3


def test_p_values_of_noise_are_uniform():
    """Where labels say nothing, p is at most any level with about that probability."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 12, 2))
    y = np.arange(12) % 2
    weights = resample.stratified_kfold(KEY, y, folds=3)

    def p_value(x, key):
        return resample.permutation_test(key, centroids, metrics.brier, x, y, weights, draws=39)[2]

    found = jax.vmap(p_value)(x, jax.random.split(KEY, 60))
    for level in (0.25, 0.5, 0.75):
        assert abs(np.mean(found <= level) - level) < 0.2


def test_lanes_of_one_key_give_the_maximum_statistic(data):
    """The same permutation in every lane, so that the largest of a draw means something."""
    x, y = data
    weights = resample.kfold(KEY, N, folds=FOLDS)

    def null(x):
        return resample.permutation_test(KEY, centroids, accuracy, x, y, weights, draws=9)[1]

    lanes = jax.vmap(null)(np.stack([x, 2 * x, -x]))
    np.testing.assert_allclose(lanes[0], lanes[1])
    np.testing.assert_allclose(lanes[0], lanes[2])
    assert lanes.max(0).shape == (9,)


def recalling(x, y, *, l2, init=None, sample_weight=None):
    """A fit that says where it began."""
    params, info = centroids(x, y, l2=l2, sample_weight=sample_weight)
    begun = 0 if init is None else init.bias
    return params._replace(bias=l2), info._replace(residual=jnp.zeros_like(l2) + begun)


def test_a_path_goes_from_strong_to_weak(data):
    x, y = data
    l2 = np.array([0.1, 10.0, 1.0, 0.01, 0.5])
    params, info = resample.regularization_path(recalling, x, y, l2=l2, batch_size=2)
    for lane, each in enumerate(l2):
        np.testing.assert_allclose(params.weights[lane], centroids(x, y, l2=each)[0].weights)
    np.testing.assert_array_equal(params.bias, l2)
    # In two pieces: 10 and 0.1 begin at 0, 1 where 10 ended, 0.01 where 0.1 did, and 0.5 where the
    # line through 10 and 1 leads, over the logarithm.
    ahead = 1 - 9 * np.log10(2)
    np.testing.assert_allclose(info.residual, [0.0, 0.0, 10.0, 0.1, ahead], atol=1e-12)


def bent(x, y, *, l2, init=None, sample_weight=None):
    """A fit whose bias is a parabola of log l2, and that says where it began."""
    params, info = recalling(x, y, l2=l2, init=init)
    t = jnp.log(jnp.where(l2 > 0, l2, 1))
    return params._replace(bias=3 - t + 0.5 * t**2), info


class Mine(NamedTuple):
    """Params of somebody else's."""

    weights: jax.Array
    bias: jax.Array


def begun(l2, data, fit=bent):
    params, info = resample.regularization_path(fit, *data, l2=l2, batch_size=1)
    return np.asarray(params.bias), np.asarray(info.residual)


def test_a_path_begins_where_the_steps_before_lead(data):
    """A parabola through three, the last alone where steps grow, or where there is no logarithm."""
    smooth, start = begun(np.logspace(0, -2, 7), data)
    np.testing.assert_array_equal(start[:2], [0, smooth[0]])
    np.testing.assert_allclose(start[2], 2 * smooth[1] - smooth[0])
    np.testing.assert_allclose(start[3:], smooth[3:], rtol=1e-10)
    for far in (1e-9, 0.0):
        ends, start = begun(np.array([1.0, 0.9, 0.8, 0.7, far]), data)
        np.testing.assert_allclose(start[3], ends[3], rtol=1e-10)
        assert start[4] == ends[3]
    twice, start = begun(np.array([1.0, 1.0, 0.5, 0.5, 0.5]), data)
    np.testing.assert_array_equal(start, [0, *twice[:4]])

    def of_others(x, y, *, l2, init=None):
        params, info = bent(x, y, l2=l2, init=init)
        return Mine(params.weights, params.bias), info

    ends, start = begun(np.logspace(0, -2, 7), data, of_others)
    np.testing.assert_array_equal(start, [0, *ends[:6]])


@pytest.mark.thorough
def test_a_path_is_the_fits_in_any_order(data):
    x, y = data
    l2 = np.array([0.1, 10.0, 1.0, 0.01, 0.5])
    singly = [logistic.fit(x, y, l2=each)[0] for each in l2]
    params, info = resample.regularization_path(logistic.fit, x, y, l2=l2, batch_size=2)
    assert np.all(info.status == Status.CONVERGED)
    for lane, single in enumerate(singly):
        np.testing.assert_allclose(params.weights[lane], single.weights, rtol=1e-7)
    with pytest.raises(TypeError, match="fit: expected a fit with an argument l2"):
        resample.regularization_path(perceptron.fit, x, y, l2=l2)
    with pytest.raises(ValueError, match=r"penalty 1 of 2: l2: .*negative"):
        resample.regularization_path(logistic.fit, x, y, l2=np.array([1.0, -1.0]))


def test_selection_is_by_the_mean_over_folds(data):
    x, y = data
    weights = np.array(resample.stratified_kfold(KEY, y, folds=FOLDS))
    weights = np.concatenate([weights, np.ones((1, N))])  # which holds nothing out
    l2 = np.array([1e-2, 3.0, 0.1, 100.0, 1.0])
    values = np.stack(
        [
            resample.cross_validate(centroids, metrics.brier, x, y, weights[:-1], l2=each)[0]
            for each in l2
        ]
    )
    run = partial(resample.select, centroids, metrics.brier, x, y, weights, l2=l2)
    mean, error = values.mean(1), values.std(1, ddof=1) / np.sqrt(FOLDS)
    several = False
    for sign, larger in ((1, True), (-1, False)):
        best = np.argmax(sign * mean)
        params, info, found = run(larger_is_better=larger)
        assert found == l2[best] and info.status == Status.CONVERGED
        chex.assert_trees_all_close(params, centroids(x, y, l2=l2[best])[0], rtol=1e-12)
        _, _, simple = run(larger_is_better=larger, one_standard_error=True, batch_size=3)
        near = sign * mean >= sign * mean[best] - error[best]
        assert simple == l2[near].max()
        several = several or near.sum() > 1
    assert several, "the rule of one standard error was not put to the test"
    for batch_size in (None, 2):
        with pytest.raises(ValueError, match=r"fold 4 of 12: l2: .*negative"):
            wrong = np.array([1.0, -1.0, 3.0])
            resample.select(
                logistic.fit, accuracy, x, y, weights[:4], l2=wrong, batch_size=batch_size
            )


def test_folds_that_tell_nothing_are_left_out():
    """A class of one row: the fold that holds it out gives it probability 0, whatever the l2."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(24, 2)), np.arange(24) % 2
    x[:, 0] += 1.5 * y
    y[5] = 2
    folds, l2 = resample.kfold(KEY, 24, folds=4), np.array([0.01, 0.1, 1.0])
    given = (softmax.fit, metrics.log_loss, x, y)
    values = np.stack(
        [resample.cross_validate(*given, folds, l2=each, num_classes=3)[0] for each in l2]
    )
    alone = np.asarray(folds[:, 5] == 0)
    assert np.isinf(values[:, alone]).all() and np.isfinite(values[:, ~alone]).all()
    _, info, best = resample.select(*given, folds, l2=l2, num_classes=3)
    assert best == l2[values[:, ~alone].mean(axis=1).argmin()] != l2.max()
    assert info.status == Status.CONVERGED
    *_, simple = resample.select(*given, folds, l2=l2, num_classes=3, one_standard_error=True)
    mean, error = values[:, ~alone].mean(1), values[:, ~alone].std(1, ddof=1) / np.sqrt(3)
    assert simple == l2[mean <= mean.min() + error[mean.argmin()]].max()


def test_a_penalty_that_nothing_judged_is_none(data):
    x, y = data
    l2 = np.array([0.1, 1.0])
    one_class, none = resample.leave_one_out(N), np.ones((2, N))
    lonely = np.where(np.arange(N) == 5, 2, np.arange(N) % 2)
    for fit, metric, labels, folds, words in (
        (logistic.fit, metrics.roc_auc, y, one_class, "of 48 values 48 are NaN .* and 0 infinite"),
        (logistic.fit, metrics.accuracy, y, none, "of 4 values 4 are NaN .* and 0 infinite"),
        (softmax.fit, metrics.log_loss, lonely, one_class[5:6], "of 2 values 0 .* 2 infinite"),
    ):
        options = {"num_classes": 3} if fit is softmax.fit else {}
        run = partial(resample.select, fit, metric, x, labels, l2=l2, **options)
        with pytest.raises(ValueError, match=f"metric: no penalty could be judged; {words}"):
            run(folds)
        params, info, best = jax.jit(run)(folds)
        assert np.isnan(best) and info.status == Status.INVALID_DATA
        assert all(np.isnan(leaf).all() for leaf in params)


def test_a_lane_that_nothing_judged_harms_no_other(data):
    x, y = data
    folds, l2 = resample.kfold(KEY, N, folds=FOLDS), np.array([0.1, 1.0])

    @jax.jit
    @jax.vmap
    def run(folds):
        return resample.select(centroids, metrics.brier, x, y, folds, l2=l2)

    params, info, best = run(np.stack([folds, np.ones((FOLDS, N))]))
    assert np.isnan(best[1]) and np.isnan(params.weights[1]).all() and info.status[1] == 8
    alone = resample.select(centroids, metrics.brier, x, y, folds, l2=l2)
    assert best[0] == alone[2] and info.status[0] == Status.CONVERGED
    np.testing.assert_allclose(params.weights[0], alone[0].weights, rtol=1e-12)


def test_losses_are_known_to_be_losses(data):
    x, y = data
    given = (x, y, resample.kfold(KEY, N, folds=FOLDS))
    l2 = np.array([1e-2, 100.0, 1.0])
    losses = (metrics.log_loss, metrics.brier, partial(metrics.log_loss))
    # What shrinks weights and bias alike changes no prediction.
    cases = [(centroids, metric) for metric in losses] + [(least_squares.fit, metrics.accuracy)]
    for fit, metric in cases:
        choose = partial(resample.select, fit, metric, *given, l2=l2)
        test = partial(resample.permutation_test, KEY, fit, metric, *given, draws=9, l2=0.1)
        larger = metric is metrics.accuracy
        for run in (choose, test):
            *_, found = run()
            *_, said = run(larger_is_better=larger)
            *_, opposite = run(larger_is_better=not larger)
            assert found == said != opposite


def test_fits_of_a_selection_begin_where_those_of_stronger_penalties_lead():
    def fit(x, y, *, l2=0.0, sample_weight=None, init=None):
        start = jnp.zeros(()) if init is None else init.weights[0]
        zero = jnp.zeros(())
        said = Info(jnp.int32(Status.CONVERGED), jnp.int32(0), zero, zero)
        return Hyperplane(weights=jnp.reshape(l2, 1), bias=start), said

    def start(scores, y, *, sample_weight=None):
        return scores[0]

    x, y = np.zeros((6, 1)), np.arange(6) % 2
    folds = resample.kfold(jax.random.key(0), 6, folds=2)
    l2 = np.array([0.1, 10.0, 3.0, 1.0])
    # In one piece 3 begins where 10 ended, and 1 where both lead, which is below 0.
    for batch_size, largest, least in ((2, 3.0, 1.0), (4, 3.0, 10.0), (8, 10.0, 10.0)):
        run = partial(resample.select, fit, start, x, y, folds, l2=l2, batch_size=batch_size)
        assert run()[-1] == largest
        assert run(larger_is_better=False)[-1] == least


def test_nested_selection_is_a_vmap(data):
    x, y = data
    inner = resample.kfold(KEY, N, folds=FOLDS)
    outer = resample.kfold(jax.random.key(1), N, folds=3)
    l2 = np.array([0.1, 1.0])

    def run(weight):
        return resample.select(centroids, metrics.brier, x, y, inner, l2=l2, sample_weight=weight)

    params, _, best = jax.jit(jax.vmap(run))(outer)
    assert best.shape == (3,)
    for lane, weight in enumerate(outer):
        chex.assert_trees_all_close(params[0][lane], run(weight)[0][0], rtol=1e-12)


@pytest.mark.parametrize(
    "fit",
    [
        logistic.fit,
        thorough(lda.fit),
        perceptron.fit_averaged,
        multiclass.one_vs_one(perceptron.fit),
    ],
)
def test_a_fit_on_standardized_columns_comes_in_the_units_of_x(data, fit):
    x, y = data
    x = x * np.array([1.0, 1e3, 1e-3]) + 5
    weight = np.where(np.arange(N) < 3, 0.0, 1.0)
    x[0] = np.nan
    options = {"l2": 0.1} if fit is logistic.fit else {}
    options |= {"num_classes": 2} if fit is lda.fit else {}
    mean, scale = x[3:].mean(0), x[3:].std(0)
    wrapped = resample.on_standardized(fit)
    assert resample.on_standardized(fit) is wrapped
    params, info = wrapped(x, y, sample_weight=weight, **options)
    scaled, other = fit((x - mean) / scale, y, sample_weight=weight, **options)
    assert info.status == other.status
    found = np.asarray(params.weights) * scale
    np.testing.assert_allclose(found, scaled.weights, rtol=1e-6, atol=1e-12)
    mask = np.array([True, False, True])
    if fit is not perceptron.fit_averaged and fit is not multiclass.one_vs_one(perceptron.fit):
        params, _ = wrapped(x, y, sample_weight=weight, feature_mask=mask, **options)
        assert not np.any(params.weights[..., 1])
    with pytest.raises(ValueError, match="x: 1 of 72 entries"):
        wrapped(np.where(np.arange(N * D).reshape(N, D) == 30, np.nan, x[3]), y, **options)


@pytest.mark.parametrize("fit", [logistic.fit, thorough(softmax.fit), perceptron.fit])
def test_a_fit_on_balanced_classes_balances_the_training_rows(data, fit):
    """In each fold by what it trains on; the metric's weights stay as they are."""
    x, y = data
    options = {"l2": 0.1} if fit is not perceptron.fit else {"max_epochs": 20}
    options |= {"num_classes": 2} if fit is softmax.fit else {}
    mine = np.linspace(0.5, 2, N)
    mine[3], x = 0, np.where(np.arange(N)[:, None] == 3, np.nan, x)
    wrapped = resample.on_balanced(fit)
    assert resample.on_balanced(fit) is wrapped
    folds = np.asarray(resample.kfold(KEY, N, folds=FOLDS))
    values, info = resample.cross_validate(
        wrapped, metrics.accuracy, x, y, folds, sample_weight=mine, **options
    )
    assert (info.status <= Status.MAX_STEPS).all()
    for value, fold in zip(values, folds, strict=True):
        trained = fold * mine
        total = np.array([trained[y == c].sum() for c in (0, 1)])
        weight = trained * (trained.sum() / 2 / total)[y]
        params, _ = fit(x, y, sample_weight=weight, **options)
        right = predict(params, np.nan_to_num(x)) == y
        np.testing.assert_allclose(value, np.average(right, weights=mine * (fold == 0)))


def test_what_is_wrong_with_the_data_is_told_of_them_as_they_are(data):
    x, y = data
    fit, ones = resample.on_balanced(logistic.fit), np.ones(N)
    for label, weight, words in (
        (9, 1.0, r"^y: 1 of 24 entries are outside 0\.\.1"),
        (1, -1.0, r"^sample_weight: 1 of 24 .* the first at 5: -1"),
        (1, np.nan, r"^sample_weight: 1 of 24 .* the first at 5: nan"),
        (1, np.inf, r"^sample_weight: 1 of 24 .* the first at 5: inf"),
    ):
        labels, weights = (np.where(np.arange(N) == 5, *a) for a in ((label, y), (weight, ones)))
        with pytest.raises(ValueError, match=words):
            fit(x, labels, sample_weight=weights)
        _, info = jax.jit(fit)(x, labels, sample_weight=weights)
        assert info.status == Status.INVALID_DATA
    with pytest.raises(TypeError, match="y: expected integer or bool class indices"):
        fit(x, y.astype(float))


@pytest.mark.parametrize(
    "fit", [resample.on_standardized(least_squares.fit), multiclass.one_vs_rest(centroids)]
)
def test_what_is_made_of_a_fit_has_its_arguments(data, fit):
    """So that the penalty can be selected, and the number of classes be left out."""
    x, y = data
    y = y + (np.arange(N) % 5 == 0)
    folds, l2 = resample.stratified_kfold(KEY, y, folds=3), np.array([0.1, 1.0])
    given = (x, y, folds)
    values = [resample.cross_validate(fit, accuracy, *given, l2=each)[0].mean() for each in l2]
    params, info, best = resample.select(fit, accuracy, *given, l2=l2)
    assert best == l2[::-1][np.argmax(values[::-1])] and info.status == Status.CONVERGED
    chex.assert_trees_all_close(params, fit(x, y, l2=best)[0], rtol=1e-9)
    path, infos = resample.regularization_path(fit, x, y, l2=l2)
    assert (infos.status == Status.CONVERGED).all()
    for lane, each in enumerate(l2):
        one = jax.tree.map(lambda a, lane=lane: a[lane], path)
        chex.assert_trees_all_close(one, fit(x, y, l2=each)[0], rtol=1e-7)


def test_folds_have_derivatives_where_rows_without_weight_hold_nan():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(24, 3)), np.arange(24) % 2
    weight = jnp.ones(24).at[jnp.array([3, 8])].set(0)
    folds = resample.stratified_kfold(jax.random.key(0), y, folds=3)

    @jax.jit
    @partial(jax.grad, argnums=(0, 1, 2))
    def slope(l2, x, weight):
        values, _ = resample.cross_validate(
            logistic.fit, metrics.log_loss, x, y, folds, sample_weight=weight, l2=l2
        )
        return jnp.mean(values)

    clean = slope(0.1, jnp.asarray(x), weight)
    holed = slope(0.1, jnp.asarray(x).at[jnp.array([3, 8])].set(jnp.nan), weight)
    chex.assert_trees_all_close(holed[:2], clean[:2], rtol=1e-9)
    assert np.isfinite(holed[2]).all()

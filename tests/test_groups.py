"""Scores of rows that were left out, and resampling that keeps groups of rows together."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.model_selection import StratifiedGroupKFold

import jaxlin
from jaxlin import lda, logistic, metrics, resample, softmax
from jaxlin.types import Status
from tests.public import mean_difference

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
N, D = 30, 2
X = RNG.normal(size=(N, D))
Y = np.argmax(X[:, :1] * [-1, 0, 1] + RNG.gumbel(size=(N, 3)), axis=1)
TWO = (Y > 0).astype(int)
FOLDS = resample.stratified_kfold(KEY, TWO, folds=3)
GROUPS = np.sort(RNG.integers(0, 9, N)) * 7 - 3


def left_out(fit, folds, y, sample_weight=None, **options):
    """By a loop over the folds, in numpy."""
    scores = []
    for fold in np.asarray(folds):
        weight = fold if sample_weight is None else fold * sample_weight
        params, _ = fit(X, y, sample_weight=weight, **options)
        found = np.array(jaxlin.scores(params, X))
        found[fold != 0] = 0
        scores.append(found)
    times = np.sum(np.asarray(folds) == 0, axis=0)
    total = np.where(times > 0, np.sum(scores, axis=0).T, np.nan).T
    return (total.T / np.maximum(times, 1)).T


# --- scores of rows that were left out ----------------------------------------------------------


@pytest.mark.parametrize(
    ("fit", "y", "options"),
    [
        (logistic.fit, TWO, {"l2": 0.1}),
        (softmax.fit, Y, {"l2": 0.1, "num_classes": 3}),
        (lda.fit, Y, {"num_classes": 3}),
    ],
)
def test_each_row_is_scored_by_the_fold_that_left_it_out(fit, y, options):
    scores, info = resample.held_out_scores(fit, X, y, FOLDS, **options)
    assert info.status.shape == (3,) and (info.status == 0).all()
    np.testing.assert_allclose(scores, left_out(fit, FOLDS, y, **options), atol=1e-9)


def test_scores_by_closed_form_are_those_of_the_loop():
    folds = np.tile(resample.leave_one_out(N), (10, 1))  # enough lanes for it
    scores, _ = resample.held_out_scores(lda.fit, X, TWO, folds, num_classes=2)
    expected = left_out(lda.fit, folds[:N], TWO, num_classes=2)
    np.testing.assert_allclose(scores, expected, atol=1e-9)


def test_a_row_held_out_twice_has_the_mean_and_one_never_held_out_none():
    folds = np.stack([*FOLDS[:2], FOLDS[0]])
    folds[2, 0] = folds[0, 0] = 0
    folds[1, 0] = 0
    scores, _ = resample.held_out_scores(mean_difference, X, TWO, folds)
    expected = left_out(mean_difference, folds, TWO)
    assert np.isnan(expected).any() and np.isfinite(expected[0])
    np.testing.assert_allclose(scores, expected, atol=1e-12)
    named, _ = resample.held_out_scores(mean_difference, X, TWO, folds, held_out=folds == 0)
    np.testing.assert_array_equal(named, scores)


def test_a_row_without_weight_may_hold_nan_and_else_has_a_score():
    weight, wild = np.where(np.arange(N) % 5 == 1, 0.0, 1.5), X.copy()
    gone = np.flatnonzero(weight == 0)[1:]
    wild[gone] = np.nan
    options = {"l2": 0.1, "sample_weight": weight}
    scores, info = resample.held_out_scores(logistic.fit, wild, TWO, FOLDS, **options)
    assert (info.status == 0).all()
    expected = left_out(logistic.fit, FOLDS, TWO, **options)
    expected[gone] = np.nan
    np.testing.assert_allclose(scores, expected, atol=1e-9)


def test_an_offset_is_part_of_the_score():
    offset = RNG.normal(size=N)
    scores, _ = resample.held_out_scores(logistic.fit, X, TWO, FOLDS, l2=0.1, offset=offset)
    expected = left_out(logistic.fit, FOLDS, TWO, l2=0.1, offset=offset) + offset
    np.testing.assert_allclose(scores, expected, atol=1e-9)


def test_a_fold_that_is_invalid_has_no_scores_and_harms_no_other():
    folds = np.array(FOLDS)
    folds[1, 3] = -1

    @jax.jit
    def run(folds):
        return resample.held_out_scores(mean_or_nothing, X, TWO, folds)

    scores, info = run(folds)
    assert info.status.tolist() == [0, Status.INVALID_DATA, 0]
    assert np.isnan(scores[folds[1] == 0]).all()
    kept = (folds[1] != 0) & (np.arange(N) != 3)
    np.testing.assert_array_equal(scores[kept], run(np.asarray(FOLDS))[0][kept])
    with pytest.raises(ValueError, match="fold 1 of 3"):
        resample.held_out_scores(logistic.fit, X, TWO, folds, l2=0.1)


def mean_or_nothing(x, y, *, sample_weight):
    params, info = mean_difference(x, y, sample_weight=sample_weight)
    bad = jnp.any(sample_weight < 0)
    status = jnp.where(bad, Status.INVALID_DATA, info.status).astype(jnp.int32)
    return params, info._replace(status=status)


def test_scores_left_out_under_jit_and_vmap():
    labels = np.stack([TWO, 1 - TWO, np.roll(TWO, 1)])
    run = jax.jit(
        jax.vmap(functools.partial(resample.held_out_scores, mean_difference, X), (0, None))
    )
    scores, _ = run(labels, FOLDS)
    for i in range(3):
        each, _ = resample.held_out_scores(mean_difference, X, labels[i], FOLDS)
        np.testing.assert_allclose(scores[i], each, atol=1e-12)


def test_selection_may_judge_the_scores_of_all_folds_together():
    folds, l2 = resample.leave_one_out(N), np.array([1e-4, 10.0, 0.3])
    areas = [metrics.roc_auc(left_out(logistic.fit, folds, TWO, l2=each), TWO) for each in l2]
    assert len({float(a) for a in areas}) == 3
    run = functools.partial(resample.select, logistic.fit, metrics.roc_auc, X, TWO, folds, l2=l2)
    params, _, best = run(pooled=True)
    assert best == l2[np.argmax(areas)]
    whole, _ = logistic.fit(X, TWO, l2=best)
    np.testing.assert_allclose(params.weights, whole.weights, atol=1e-9)
    # One row alone has no area.
    with pytest.raises(ValueError, match="no penalty could be judged"):
        run()
    with pytest.raises(ValueError, match="pooled: one value has no standard error"):
        run(pooled=True, one_standard_error=True)


# --- groups -------------------------------------------------------------------------------------


def together(weights, groups):
    """Whether the rows of each group have one weight."""
    weights = np.asarray(weights)
    return all((np.ptp(weights[:, groups == g], axis=1) == 0).all() for g in np.unique(groups))


def unevenness(weights, y):
    """How much the share of each class varies over the folds."""
    held = np.asarray(weights) == 0
    shares = np.stack([held[:, y == c].mean(1) for c in np.unique(y)])
    return shares.std(axis=1).mean()


def test_folds_of_groups_are_as_even_in_the_classes_as_scikit_learns():
    ours, theirs = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        groups = rng.integers(0, 25, 120)
        y = (rng.random(120) < rng.random(25)[groups]).astype(int) + (rng.random(120) < 0.3)
        weights = resample.stratified_group_kfold(jax.random.key(seed), y, groups, folds=4)
        assert together(weights, groups)
        np.testing.assert_array_equal(np.sum(weights == 0, axis=0), 1)
        ours.append(unevenness(weights, y))
        splits = StratifiedGroupKFold(4, shuffle=True, random_state=seed).split(y, y, groups)
        held = np.ones((4, 120))
        for i, (_, test) in enumerate(splits):
            held[i, test] = 0
        theirs.append(unevenness(held, y))
    assert np.mean(ours) < 1.1 * np.mean(theirs)


def test_folds_of_groups_under_jit_and_vmap():
    deal = functools.partial(resample.stratified_group_kfold, folds=3, num_classes=3)
    keys = jax.random.split(KEY, 4)
    lanes = jax.jit(jax.vmap(deal, (0, None, None)))(keys, Y, GROUPS)
    np.testing.assert_array_equal(lanes[2], deal(keys[2], Y, GROUPS))
    assert len({np.asarray(lane).tobytes() for lane in lanes}) > 1
    with pytest.raises(ValueError, match=r"groups: expected shape \(30,\)"):
        deal(KEY, Y, GROUPS[1:])


def test_a_key_deals_groups_of_one_size_at_random():
    groups = np.repeat(np.arange(8), 3)
    dealt = [resample.group_kfold(groups, folds=4, key=key) for key in jax.random.split(KEY, 5)]
    assert all(together(weights, groups) for weights in dealt)
    assert all((np.sum(weights == 0, axis=1) == 6).all() for weights in dealt)
    assert len({np.asarray(weights).tobytes() for weights in dealt}) == 5
    sizes = np.repeat(np.arange(3), [5, 1, 3])
    np.testing.assert_array_equal(
        np.sort(np.sum(resample.group_kfold(sizes, folds=2, key=KEY) == 0, axis=1)), [4, 5]
    )


def test_groups_exchange_their_one_label_whatever_their_sizes():
    groups, y = np.array([5, 5, 5, 2, 9, 9]), np.array([0, 0, 0, 1, 2, 2])
    dealt = np.asarray(resample.permutations(KEY, y, draws=600, groups=groups))
    assert (dealt[:, 0] == dealt[:, 1]).all() and (dealt[:, 4] == dealt[:, 5]).all()
    each, times = np.unique(dealt[:, [0, 3, 4]], axis=0, return_counts=True)
    assert len(each) == 6 and (abs(times - 100) < 45).all()
    assert (np.sort(each, axis=1) == [0, 1, 2]).all()


def test_labels_that_differ_in_a_group_move_to_groups_of_its_size():
    groups, y = np.array([1, 2, 1, 2, 3, 3, 3]), np.array([0, 2, 1, 3, 7, 8, 9])
    dealt = np.asarray(resample.permutations(KEY, y, draws=50, groups=groups))
    assert (dealt[:, 4:] == [7, 8, 9]).all()
    assert {tuple(a) for a in dealt[:, :4]} == {(0, 2, 1, 3), (2, 0, 3, 1)}


def test_groups_stay_in_their_strata():
    groups, strata = np.repeat(np.arange(6), 2), np.repeat([0, 1], 6)
    y = np.repeat([0, 1, 2, 3, 4, 5], 2)
    dealt = np.asarray(resample.permutations(KEY, y, draws=300, groups=groups, strata=strata))
    assert (dealt[:, :6] < 3).all() and (dealt[:, 6:] > 2).all()
    assert (dealt[:, ::2] == dealt[:, 1::2]).all()
    assert len(np.unique(dealt, axis=0)) == 36


def test_without_groups_rows_that_are_copies_find_what_is_not_there():
    """Where rows are copies, p-values by rows are too small, and those by groups are not."""
    groups = np.repeat(np.arange(10), 4)
    x = np.repeat(np.random.default_rng(1).normal(size=(200, 10, 1)), 4, axis=1)
    y = np.repeat(np.arange(10) % 2, 4)
    folds = resample.group_kfold(groups, folds=5)

    def p_value(x, key, groups):
        run = functools.partial(resample.permutation_test, key, mean_difference, metrics.accuracy)
        return run(x, y, folds, draws=39, groups=groups)[2]

    keys = jax.random.split(KEY, 200)
    of_groups, of_rows = (
        np.asarray(jax.jit(jax.vmap(functools.partial(p_value, groups=given)))(x, keys))
        for given in (groups, None)
    )
    assert np.mean(of_groups <= 0.1) < 0.16
    assert np.mean(of_rows <= 0.1) > 0.2


def test_bootstraps_of_groups_draw_whole_groups():
    number = len(np.unique(GROUPS))
    one_of_each = np.unique(GROUPS, return_index=True)[1]
    for draw in (resample.bootstrap, resample.bayesian_bootstrap):
        weights = np.asarray(draw(KEY, N, draws=400, groups=GROUPS))
        assert together(weights, GROUPS)
        if draw is resample.bootstrap:
            np.testing.assert_array_equal(weights[:, one_of_each].sum(1), number)
            np.testing.assert_allclose(weights[:, one_of_each].mean(0), 1, atol=0.2)
        else:
            np.testing.assert_allclose(weights.sum(1), N)
    with pytest.raises(ValueError, match=r"groups: expected shape \(30,\)"):
        resample.bootstrap(KEY, N, draws=1, groups=GROUPS[:-1])


def test_the_maximum_statistic_by_hand():
    rng = np.random.default_rng(0)
    values, null = np.round(rng.normal(size=(2, 3)), 1), np.round(rng.normal(size=(2, 3, 50)), 1)
    values[0, 1] = np.nan
    null[1, 2, :4] = np.nan
    kept = null.copy()
    kept[0, 1] = np.nan
    most = np.nanmax(kept, axis=(0, 1))
    expected = (1 + (most >= values[..., None]).sum(-1)) / 51
    expected[0, 1] = np.nan
    np.testing.assert_allclose(resample.maximum_statistic(values, null), expected)
    losses = resample.maximum_statistic(-values, -null, larger_is_better=False)
    np.testing.assert_allclose(losses, expected)
    # A draw of which nothing is known is as good as any.
    none = np.where(np.arange(50) < 5, np.nan, null)
    assert (np.asarray(resample.maximum_statistic(values + 100, none))[0, 0] == 6 / 51).all()
    with pytest.raises(ValueError, match="null: expected shape"):
        resample.maximum_statistic(values, null[0])


def test_of_many_tests_of_nothing_few_find_anything():
    """The chance that any of 20 p-values is at most 0.1 is 0.1, however they depend."""
    drawn = np.random.default_rng(2).normal(size=(500, 20, 40))
    drawn += 2 * np.random.default_rng(3).normal(size=(500, 1, 40))
    p = jax.vmap(resample.maximum_statistic)(drawn[..., 0], drawn[..., 1:])
    assert 0.05 < np.mean(np.min(p, axis=1) <= 0.1) < 0.15

"""Lean programs of many fits find what the whole ones do, and are not the last word elsewhere."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlin import logistic, metrics, probes, resample, softmax
from jaxlin._base import _lean
from jaxlin.types import Info, Status

KEY = jax.random.key(0)
L2 = jnp.array([1.0, 0.1, 0.01])


def drawn(n, d, k=2):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, d)) + rng.normal(size=(n, 1))
    y = np.argmax(x[:, :k] + 2 * rng.gumbel(size=(n, k)), axis=1)
    return x, y, resample.stratified_kfold(KEY, y, folds=3)


def by_folds(f, fit, x, y, folds, **options):
    return f(fit, metrics.accuracy, x, y, folds, **options)


def over_rows(f, fit, x, y, folds, **options):
    return f(fit, x, y, **options)


def of_one_penalty(f):
    return lambda *given, l2, **options: f(*given, l2=l2[0], **options)


drawn_anew = partial(resample.permutation_test, KEY, draws=3)
COMBINATORS = {
    "refit": of_one_penalty(resample.refit),
    "cross_validate": of_one_penalty(partial(by_folds, resample.cross_validate)),
    "permutation_test": of_one_penalty(partial(by_folds, drawn_anew)),
    "select": partial(by_folds, resample.select),
    "regularization_path": partial(over_rows, resample.regularization_path),
    "probes.sweep": partial(over_rows, probes.sweep),
    "probes.select": partial(by_folds, probes.select, key=KEY),
}


def is_info(part):
    return isinstance(part, Info)


def parts_of(tree):
    """The Infos of what a combinator has found, and the other leaves."""
    parts = jax.tree.leaves(tree, is_leaf=is_info)
    return list(filter(is_info, parts)), [part for part in parts if not is_info(part)]


def statuses(tree):
    return [np.asarray(info.status) for info in parts_of(tree)[0]]


@pytest.fixture
def programs(monkeypatch):
    """How each program that runs is made."""
    made = []

    def noted(f, *given):
        made.append(given[-2])
        return f(*given)

    def first(run, *rest):
        return plain(partial(noted, run.func, *run.args), *rest)

    plain = _lean.first
    monkeypatch.setattr(_lean, "_LEFT", set())
    monkeypatch.setattr(_lean, "first", first)
    return made


CASES = {
    "by Newton's method": (logistic.fit, drawn(60, 3), L2),
    "without a penalty": (logistic.fit, drawn(60, 3), jnp.zeros(2)),
    "in the axes": (logistic.fit, drawn(150, 60), L2),
    "of classes": (softmax.fit, drawn(120, 20, 3), L2),
    "more columns than rows": (logistic.fit, drawn(40, 300), L2),
    "of a fit made of it": (resample.on_standardized(logistic.fit), drawn(150, 60), L2),
}


# In every run one of each; the others are thorough.
USUAL = {
    ("select", "in the axes"),
    ("probes.select", "in the axes"),
    ("permutation_test", "by Newton's method"),
    ("cross_validate", "without a penalty"),
    ("regularization_path", "more columns than rows"),
    ("refit", "of classes"),
    ("probes.sweep", "of a fit made of it"),
}


@pytest.mark.parametrize(
    "name, case",
    [
        pytest.param(*pair, marks=[] if pair in USUAL else pytest.mark.thorough)
        for pair in itertools.product(COMBINATORS, CASES)
    ],
)
def test_what_is_found_is_what_the_whole_program_finds(name, case, programs):
    fit, given, l2 = CASES[case]
    options = {"num_classes": 3} if fit is softmax.fit else {}
    run = partial(COMBINATORS[name], fit, **options)
    found = run(*given, l2=l2)
    assert programs in ([True], [False]), "what is settled is not run again"
    expected = jax.jit(run)(*given, l2=l2)
    for one, other in zip(statuses(found), statuses(expected), strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(parts_of(found)[1], parts_of(expected)[1], strict=True):
        np.testing.assert_allclose(one, other, 1e-6, 1e-8)


def test_lanes_of_any_penalty_are_settled_in_single_precision(programs):
    rng = np.random.default_rng(5)
    n, d, k = 300, 40, 5
    parts = np.arange(1, d + 1)[:, None] ** -0.5 * rng.normal(size=(d, d)) / 4
    x = (rng.normal(size=(n, d)) @ parts).astype(np.float32)
    y = np.argmax(x @ rng.normal(size=(d, k)) + rng.gumbel(size=(n, k)), axis=1)
    counts = rng.integers(0, 3, (6, n)).astype(np.float32)
    l2 = jnp.asarray(np.geomspace(1e-4, 1, 8), jnp.float32)
    found = resample.select(softmax.fit, metrics.accuracy, x, y, counts, l2=l2, num_classes=k)
    assert programs == [True] and found[1].status == Status.CONVERGED


def test_columns_that_few_rows_have_hold_up_no_lane(programs):
    """In folds without these rows the columns are constant, and their penalty is another."""
    rng = np.random.default_rng(0)
    n, d, rare = 300, 40, 20
    x = np.abs(rng.normal(size=(n, d)) + rng.normal(size=(n, 1))).astype(np.float32)
    x[:, :rare] *= rng.permuted(np.arange(n)[:, None] < np.ones(rare), axis=0) / 16
    y = (x[:, -1] + rng.logistic(size=n) > 1).astype(int)
    folds = resample.kfold(KEY, n, folds=5)
    fit = resample.on_standardized(logistic.fit)
    _, info, _ = resample.select(fit, metrics.accuracy, x, y, folds, l2=L2.astype(np.float32))
    assert programs == [True] and info.status == Status.CONVERGED


def test_what_is_not_settled_is_run_again(programs):
    """Columns that others give, a plane that all but separates, and a penalty that underflows."""
    x, y, folds = drawn(60, 3)
    x = np.concatenate([x, x[:, :1]], axis=1)
    _, info = resample.refit(logistic.fit, x, y, folds)
    assert programs == [False, None]
    assert np.all(np.asarray(info.status) == Status.RANK_DEFICIENT)
    resample.refit(logistic.fit, x[::-1], y[::-1], folds)
    assert programs == [False, None, None], "nor tried again"
    x, y = np.array([[-2.0], [-1.0], [0.0], [0.0], [1.0], [2.0]]), np.array([0, 0, 0, 1, 1, 1])
    _, info = resample.refit(logistic.fit, x, y, np.ones((2, 6)))
    assert np.all(np.asarray(info.status) == Status.QUASI_SEPARABLE)
    x, y, folds = drawn(60, 3)
    tiny = 1e-200 * x
    fit = resample.on_standardized(logistic.fit)
    programs.clear()
    _, info = resample.refit(fit, tiny, y, folds, l2=1e-5)
    assert programs == [True, None] and statuses(info)[0].max() < _lean.UNSETTLED


def test_a_bound_that_is_not_met_is_for_the_whole_program_to_judge(programs):
    _, info = resample.refit(logistic.fit, *drawn(150, 60), l2=0.1, tol=1e-30)
    assert programs == [True, None]
    assert np.all(np.asarray(info.status) == Status.STALLED)


def test_a_penalty_that_may_be_none_is_not_taken_for_one(programs):
    x, y, _ = drawn(150, 60)
    _, info = resample.regularization_path(logistic.fit, x, y, l2=jnp.array([0.1, 0.0]))
    assert programs == [None] and statuses(info)[0].max() < _lean.UNSETTLED


def test_a_fit_of_the_users_own_is_whole(programs):
    """Its program may be kept, and be called from elsewhere."""
    x, y, folds = drawn(60, 3)
    mine = jax.jit(lambda x, y, sample_weight: logistic.fit(x, y, sample_weight=sample_weight))
    x = np.concatenate([x, x[:, :1]], axis=1)
    _, info = resample.refit(mine, x, y, folds)
    assert programs == [None]
    assert statuses((mine(x, y, folds[0]), info))[0] == Status.RANK_DEFICIENT
    assert _lean.how() is None


@pytest.mark.parametrize("l2", [None, "none"])
def test_a_penalty_that_is_no_number_is_named(l2):
    with pytest.raises(TypeError, match="l2: expected numbers"):
        resample.refit(logistic.fit, *drawn(60, 3), l2=l2)


def test_a_fault_leaves_nothing_behind():
    x, y, folds = drawn(60, 3)
    with pytest.raises(TypeError):
        resample.refit(logistic.fit, x, y, folds, nothing=1)
    assert _lean.how() is None

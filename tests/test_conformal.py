"""Sets cover as often as they say: exactly, by simulation, and as MAPIE's quantiles do."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlin import conformal
from jaxlin.types import Status

N, K = 50, 3
RNG = np.random.default_rng(0)
SCORES = [conformal.lac, conformal.aps]


def drawn(rng, *shape):
    """Probabilities that are not those of the labels, and the labels."""
    scores = rng.normal(size=(*shape, K))
    y = np.argmax(1.5 * scores + rng.gumbel(size=scores.shape), axis=-1)
    powers = np.exp(0.7 * scores)
    return powers / powers.sum(-1, keepdims=True), y


P, Y = drawn(RNG, N)
NEW, _ = drawn(RNG, 20)
WEIGHT = RNG.integers(0, 4, N).astype(float)


def strangeness(score, p):
    if score is conformal.lac:
        return 1 - p
    return np.stack([np.where(p >= p[:, c : c + 1], p, 0).sum(1) for c in range(K)], axis=1)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.99])
def test_sets_are_those_of_the_quantile(score, coverage):
    """The ceil((n + 1) coverage)-th smallest strangeness is the largest in the set."""
    params, info = conformal.fit(P, Y, score=score)
    assert info.status == Status.CONVERGED
    own = np.sort(strangeness(score, P)[np.arange(N), Y])
    rank = int(np.ceil((N + 1) * coverage - 1e-9))
    most = own[rank - 1] if rank <= N else np.inf
    expected = strangeness(score, NEW) <= most + 1e-12
    np.testing.assert_array_equal(conformal.sets(params, NEW, coverage=coverage), expected)


@pytest.mark.parametrize("score", SCORES)
def test_p_values_by_hand(score):
    params, _ = conformal.fit(P, Y, score=score, sample_weight=WEIGHT)
    own, new = strangeness(score, P)[np.arange(N), Y], strangeness(score, NEW)
    ratio = RNG.uniform(0.5, 2, len(NEW))
    for weight in (1.0, ratio):
        found = conformal.p_values(params, NEW, weight=weight)
        each = np.broadcast_to(weight, len(NEW))[:, None]
        above = (WEIGHT * (own >= new[..., None] - 1e-12)).sum(-1)
        np.testing.assert_allclose(found, (above + each) / (WEIGHT.sum() + each), rtol=1e-12)


def test_by_class_each_has_its_own_rows():
    params, _ = conformal.fit(P, Y, by_class=True)
    for c in range(K):
        alone, _ = conformal.fit(P[c == Y], Y[c == Y])
        np.testing.assert_allclose(
            conformal.p_values(params, NEW)[:, c], conformal.p_values(alone, NEW)[:, c], rtol=1e-12
        )


def test_a_class_without_rows_is_in_every_set():
    params, info = conformal.fit(P, np.minimum(Y, 1), by_class=True)
    assert info.status == Status.CLASS_TOO_SMALL
    assert (conformal.p_values(params, NEW)[:, 2] == 1).all()


def test_equal_probabilities_are_told_apart_by_their_place():
    p = np.array([[0.25, 0.5, 0.25]])
    np.testing.assert_allclose(conformal.aps(p), [[0.75, 0.5, 1.0]])
    key = jax.random.key(0)
    part = float(jax.random.uniform(key, (1,), float)[0])
    np.testing.assert_allclose(
        conformal.aps(p, key=key), [[0.5 + 0.25 * part, 0.5 * part, 0.75 + 0.25 * part]]
    )


DRAWS = 10_000


@pytest.mark.parametrize(
    ("score", "options", "exact"),
    [
        (conformal.lac, {}, True),
        (conformal.aps, {}, False),
        (conformal.aps, {"keyed": True}, True),
        (conformal.lac, {"by_class": True}, True),
    ],
)
def test_sets_cover_as_often_as_they_say(score, options, exact):
    """Over draws of calibration rows and of a new one; 4 standard errors are 0.012."""
    n = 39  # 0.9 of n + 1 is whole
    p, y = drawn(np.random.default_rng(3), DRAWS, n + 1)
    keyed = options.get("keyed", False)
    options = {name: value for name, value in options.items() if name != "keyed"}

    def covers(p, y, key):
        one, two = jax.random.split(key)
        params, _ = conformal.fit(p[:n], y[:n], score=score, key=one if keyed else None, **options)
        new = conformal.sets(params, p[n:], coverage=0.9, key=two if keyed else None)[0]
        return new[y[n]]

    covered = jax.jit(jax.vmap(covers))(p, y, jax.random.split(jax.random.key(0), DRAWS))
    assert np.mean(covered) > 0.888
    if exact and "by_class" not in options:
        assert np.mean(covered) < 0.912
    if "by_class" in options:
        for c in range(K):
            assert np.mean(np.asarray(covered)[y[:, n] == c]) > 0.88


def test_likelihood_ratios_cover_under_another_distribution():
    """New rows are drawn with weight; without it they would be covered less often."""
    rng, n = np.random.default_rng(4), 60
    z = rng.normal(size=(4000, n + 1))
    z[:, n] += 1.5  # density ratio exp(1.5 z) / c
    chance = 1 / (1 + np.exp(-1.0 + 2.0 * z))
    y = (rng.random(z.shape) < chance).astype(int)
    said = 1 / (1 + np.exp(-1.0 + 0.7 * z))
    ratio = np.exp(1.5 * z)

    def covers(p, y, ratio, weighted):
        weight = ratio if weighted else jnp.ones_like(ratio)
        params, _ = conformal.fit(p[:n], y[:n], sample_weight=weight[:n])
        return conformal.sets(params, p[n:], coverage=0.8, weight=weight[n:])[0][y[n]]

    run = jax.jit(jax.vmap(functools.partial(covers, weighted=True)))
    plain = jax.jit(jax.vmap(functools.partial(covers, weighted=False)))
    assert np.mean(run(said, y, ratio)) > 0.78
    assert (
        np.mean(plain(said, y, ratio)) > np.mean(run(said, y, ratio))
        or np.mean(plain(said, y, ratio)) < 0.78
    )


# --- laws ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", SCORES)
def test_weights_count_rows_and_a_row_of_weight_zero_is_absent(score):
    wild = np.where((WEIGHT == 0)[:, None], np.nan, P)
    params, info = conformal.fit(
        wild, np.where(WEIGHT == 0, 9, Y), score=score, sample_weight=WEIGHT
    )
    times = WEIGHT.astype(int)
    rows, _ = conformal.fit(P.repeat(times, axis=0), Y.repeat(times), score=score)
    assert info.status == Status.CONVERGED
    np.testing.assert_allclose(
        conformal.p_values(params, NEW), conformal.p_values(rows, NEW), rtol=1e-12
    )


def test_lanes_are_their_own():
    weights = np.stack([WEIGHT, np.zeros(N), np.ones(N), -WEIGHT])
    params, info = jax.jit(jax.vmap(lambda w: conformal.fit(P, Y, sample_weight=w)))(weights)
    assert info.status.tolist() == [0, Status.INVALID_DATA, 0, Status.INVALID_DATA]
    found = jax.vmap(conformal.p_values, (0, None))(params, NEW)
    assert np.isnan(found[1]).all() and np.isnan(found[3]).all()
    sets = jax.vmap(lambda p: conformal.sets(p, NEW, coverage=0.9))(params)
    assert sets[1].all() and not sets[0].all()
    for lane in (0, 2):
        alone, _ = conformal.fit(P, Y, sample_weight=weights[lane])
        np.testing.assert_allclose(found[lane], conformal.p_values(alone, NEW), rtol=1e-12)


def test_one_number_for_each_row_is_the_probability_of_class_1():
    one = RNG.uniform(size=N)
    y = (RNG.random(N) < one).astype(int)
    both = np.stack([1 - one, one], axis=1)
    params, two = (conformal.fit(p, y)[0] for p in (one, both))
    jax.tree.map(np.testing.assert_array_equal, params[:2], two[:2])
    np.testing.assert_array_equal(
        conformal.sets(params, one, coverage=0.8), conformal.sets(two, both, coverage=0.8)
    )


def test_a_row_alone_is_that_row():
    """Of k classes a vector is a row; of class 1 alone, a number for each row."""
    params, _ = conformal.fit(P, Y)
    whole = conformal.sets(params, NEW, coverage=0.8)
    each = jax.vmap(lambda p: conformal.sets(params, p, coverage=0.8))(NEW)
    np.testing.assert_array_equal(each, whole)
    np.testing.assert_array_equal(conformal.sets(params, NEW[0], coverage=0.8), whole[0])
    with pytest.raises(ValueError, match=r"probabilities: expected shape \(..., 3\), got \(20,\)"):
        conformal.sets(params, NEW[:, 0], coverage=0.8)
    one, _ = conformal.fit(P[:, 1], (Y == 1).astype(int))
    whole = conformal.sets(one, NEW[:, 1], coverage=0.8)
    each = jax.vmap(lambda p: conformal.sets(one, p, coverage=0.8))(NEW[:, 1])
    np.testing.assert_array_equal(each, whole)


def test_a_level_is_met_whatever_it_rounds_to():
    """0.1 = 10 / 100 is not more than 1 - 0.9, which is a little less than 0.1."""
    p = np.linspace(0.01, 0.99, 99)
    params, _ = conformal.fit(p, np.ones(99, int))
    for dtype in ("float64", "float32"):
        new = np.asarray(p[9:10], dtype)  # strangest but nine
        value = conformal.p_values(jax.tree.map(lambda a, d=dtype: a.astype(d), params), new)[0, 1]
        np.testing.assert_allclose(value, 0.11 if dtype == "float64" else value)
    strange = 1 - p[9]
    assert not conformal.sets(params, np.array([1 - strange - 1e-9]), coverage=0.9)[0, 1]
    assert conformal.sets(params, np.array([1 - strange]), coverage=0.9)[0, 1]


def test_what_is_wrong_is_named():
    for p, words in (
        (P - 2, "probabilities: .* not in"),
        (np.where(P > 0.9, np.nan, P) - 1, "prob"),
    ):
        with pytest.raises(ValueError, match=words):
            conformal.fit(p, Y)
    with pytest.raises(ValueError, match=r"y: 1 of 50 entries are outside 0\.\.2"):
        conformal.fit(P, np.where(np.arange(N) == 3, 3, Y))
    params, _ = conformal.fit(P, Y)
    with pytest.raises(ValueError, match="coverage: expected more than 0 and less than 1, got 95"):
        conformal.sets(params, NEW, coverage=95)
    with pytest.raises(TypeError, match=r"score: expected conformal.lac or conformal.aps"):
        conformal.fit(P, Y, score=jnp.sum)
    with pytest.raises(TypeError, match=r"params: expected those of conformal.fit"):
        conformal.sets(P, NEW, coverage=0.9)

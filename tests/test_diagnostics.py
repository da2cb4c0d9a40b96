"""Leverages, distances and residuals against statsmodels, and Firth's test against brute force."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import statsmodels.api as sm

from jaxlin import inference, least_squares, logistic, losses, softmax
from jaxlin.types import Hyperplane, Status
from tests.public import thorough

RNG = np.random.default_rng(0)
N, D = 40, 3
X = RNG.normal(size=(N, D)) * [1, 3, 0.2] + [0, 5, 0]
Y = (RNG.random(N) < 1 / (1 + np.exp(-X[:, 0] + X[:, 1] - 5))).astype(int)
WEIGHT = RNG.integers(0, 3, N).astype(float)
OFFSET = RNG.normal(size=N) / 2
KINDS = {
    inference.pearson: "resid_pearson",
    inference.deviance: "resid_deviance",
    inference.response: "resid_response",
}


@functools.cache
def fitted(**options):
    return logistic.fit(X, Y, **options)[0]


def peer(offset=None):
    model = sm.GLM(Y, sm.add_constant(X), family=sm.families.Binomial(), offset=offset)
    return model.fit(tol=1e-14)


def close(a, b, rtol=1e-7):
    np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-12)


# --- against statsmodels ------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [None, OFFSET])
def test_they_are_statsmodels(offset):
    params, _ = logistic.fit(X, Y, offset=offset)
    known = {"offset": offset}
    theirs = peer(offset)
    found = theirs.get_influence()
    close(inference.leverage(losses.logistic, params, X, Y, **known), found.hat_matrix_diag)
    close(inference.cooks_distance(losses.logistic, params, X, Y, **known), found.cooks_distance[0])
    moves = inference.dfbetas(losses.logistic, params, X, Y, **known)
    close(np.column_stack([moves.bias, moves.weights]), found.dfbetas, rtol=1e-6)
    for kind, name in KINDS.items():
        close(
            inference.residuals(losses.logistic, params, X, Y, kind=kind, **known),
            getattr(theirs, name),
        )


def test_finneys_vasoconstriction():
    """As SAS prints it (Pregibon 1981): rows 4 and 18 stand out."""
    volume = [3.7, 3.5, 1.25, 0.75, 0.8, 0.7, 0.6, 1.1, 0.9, 0.9, 0.8, 0.55, 0.6, 1.4, 0.75, 2.3]
    volume += [3.2, 0.85, 1.7, 1.8, 0.4, 0.95, 1.35, 1.5, 1.6, 0.6, 1.8, 0.95, 1.9, 1.6, 2.7]
    volume += [2.35, 1.1, 1.1, 1.2, 0.8, 0.95, 0.75, 1.3]
    rate = [0.825, 1.09, 2.5, 1.5, 3.2, 3.5, 0.75, 1.7, 0.75, 0.45, 0.57, 2.75, 3.0, 2.33, 3.75]
    rate += [1.64, 1.6, 1.415, 1.06, 1.8, 2.0, 1.36, 1.35, 1.36, 1.78, 1.5, 1.5, 1.9, 0.95, 0.4]
    rate += [0.75, 0.03, 1.83, 2.2, 2.0, 3.33, 1.9, 1.9, 1.625]
    y = [1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0]
    y += [1, 0, 0, 1, 1, 1, 0, 0, 1]
    x = np.log(np.column_stack([volume, rate]))
    params, _ = logistic.fit(x, np.array(y))
    close(params.weights, [5.1793, 4.5617], rtol=1e-4)
    close(params.bias, -2.8754, rtol=1e-4)
    residual = inference.residuals(losses.logistic, params, x, np.array(y))
    assert sorted(np.argsort(-np.abs(residual))[:2] + 1) == [4, 18]
    lever = inference.leverage(losses.logistic, params, x, np.array(y))
    assert int(np.argmax(lever)) + 1 == 31


@pytest.mark.parametrize("offset", [None, OFFSET])
def test_the_score_test_is_statsmodels(offset, monkeypatch):
    extra = np.column_stack([RNG.normal(size=(N, 4)), 3 + 0.01 * RNG.normal(size=N)])
    params, _ = logistic.fit(X, Y, offset=offset)
    found = inference.score_test(losses.logistic, params, X, Y, extra, offset=offset)
    theirs = peer(offset)
    for j in range(extra.shape[1]):
        statistic, p_value, _ = theirs.model.score_test(theirs.params, exog_extra=extra[:, j])
        close(found.statistic[j], statistic, rtol=1e-6)
        close(found.p_value[j], p_value, rtol=1e-6)
    one = inference.score_test(losses.logistic, params, X, Y, extra[:, 1], offset=offset)
    close(one.statistic, found.statistic[1])
    monkeypatch.setattr("jaxlin._infer._restrictions.COLUMN_ENTRIES", 2 * N)
    jax.clear_caches()
    blocks = inference.score_test(losses.logistic, params, X, Y, extra, offset=offset)
    close(blocks.statistic, found.statistic)


def test_scores_of_weights_and_of_columns_that_tell_nothing():
    extra = RNG.normal(size=(N, 3))
    times = WEIGHT.astype(int)
    params, _ = logistic.fit(X, Y, sample_weight=WEIGHT)
    wild = np.where((WEIGHT == 0)[:, None], np.nan, extra)
    found = inference.score_test(losses.logistic, params, X, Y, wild, sample_weight=WEIGHT)
    rows = (a.repeat(times, axis=0) for a in (X, Y, extra))
    close(found.statistic, inference.score_test(losses.logistic, params, *rows).statistic)
    params, _ = logistic.fit(X, Y)
    given = np.column_stack([X[:, 0] + 2 * X[:, 1], np.ones(N), extra[:, 0]])
    given[3, 2] = np.nan
    assert np.isnan(inference.score_test(losses.logistic, params, X, Y, given).statistic).all()
    wrong = jax.tree.map(lambda a: a + 1, params)
    assert np.isnan(inference.score_test(losses.logistic, wrong, X, Y, extra).statistic).all()
    with pytest.raises(ValueError, match="extra: expected shape"):
        inference.score_test(losses.logistic, params, X, Y, extra[1:])


# --- laws ---------------------------------------------------------------------------------------

ALL = {
    "leverage": inference.leverage,
    "cooks_distance": inference.cooks_distance,
    "dfbetas": inference.dfbetas,
    "residuals": inference.residuals,
}


def test_a_weight_is_so_many_rows():
    params, _ = logistic.fit(X, Y, sample_weight=WEIGHT)
    times = WEIGHT.astype(int)
    rows = (X.repeat(times, 0), Y.repeat(times))
    first = np.cumsum(times)[times > 0] - 1
    lever = inference.leverage(losses.logistic, params, X, Y, sample_weight=WEIGHT)
    each = inference.leverage(losses.logistic, params, *rows)
    close(lever[times > 0], each[first] * WEIGHT[times > 0])
    close(jnp.sum(lever), D + 1)
    for kind in KINDS:
        left = inference.residuals(losses.logistic, params, X, Y, kind=kind, sample_weight=WEIGHT)
        right = inference.residuals(losses.logistic, params, *rows, kind=kind)
        close(left[times > 0], right[first])


@pytest.mark.parametrize("k", [2, 3])
def test_one_step_is_what_is_left_without_the_row(k):
    """Of many rows the one step is a refit, and the distance its length."""
    rng = np.random.default_rng(k)
    n = 4000
    x = rng.normal(size=(n, 2))
    scores = np.column_stack([np.zeros(n), x @ [1.0, -1.0], x @ [0.5, 1.0]])[:, :k]
    y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    fit = logistic.fit if k == 2 else functools.partial(softmax.fit, num_classes=3)
    loss = losses.logistic if k == 2 else losses.softmax
    params, _ = fit(x, y)
    errors = inference.standard_errors(params, inference.covariance(loss, params, x, y))
    distance = inference.cooks_distance(loss, params, x, y)
    moves = inference.dfbetas(loss, params, x, y)
    hessian = jax.hessian(
        lambda flat: n * losses.objective(loss, jax.tree.unflatten(tree, split(flat)), x, y)
    )
    leaves, tree = jax.tree.flatten(params)

    def split(flat):
        weights, bias = flat[: leaves[0].size], flat[leaves[0].size :]
        return [weights.reshape(leaves[0].shape), bias.reshape(leaves[1].shape)]

    flat = jnp.concatenate([jnp.ravel(a) for a in leaves])
    information, number = hessian(flat), (k - 1) * 3
    for row in (0, int(np.argmax(distance))):
        without, _ = fit(x, y, sample_weight=1.0 * (np.arange(n) != row))
        moved = jax.tree.map(lambda a, b, e: (a - b) / e, params, without, errors)
        for a, b in zip(moves, moved, strict=True):
            np.testing.assert_allclose(a[row], b, rtol=0.03, atol=1e-4)
        away = flat - jnp.concatenate([jnp.ravel(a) for a in jax.tree.leaves(without)])
        np.testing.assert_allclose(distance[row], away @ information @ away / number, rtol=0.05)
    close(jnp.sum(inference.leverage(loss, params, x, y)), number)


def test_squares_of_residuals_sum_to_the_deviance():
    soft = np.clip(Y + RNG.uniform(-0.4, 0.4, N), 0, 1)
    for y in (Y, soft):
        params, info = logistic.fit(X, y)
        found = inference.residuals(losses.logistic, params, X, y, kind=inference.deviance)
        least = -(scipy.special.xlogy(y, y) + scipy.special.xlogy(1 - y, 1 - y)).sum()
        close(jnp.sum(found**2), 2 * (N * info.objective - least))
    far = Hyperplane(jnp.array([1.0]), jnp.array(0.0))
    x, y = np.array([[-800.0], [800.0], [800.0]]), np.array([0, 1, 0])
    for kind, expected in (
        (inference.pearson, [0, 0, -np.inf]),
        (inference.deviance, [0, 0, -40.0]),
        (inference.response, [0, 0, -1]),
    ):
        each = jax.vmap(lambda s, y, kind=kind: kind(losses.logistic, s, y))(x[:, 0], y)
        np.testing.assert_array_equal(each, expected)
    assert far.weights.shape == (1,)


@pytest.mark.parametrize("name", ALL)
def test_what_is_no_minimum_has_none(name):
    f = ALL[name]
    apart = np.arange(6.0)[:, None], np.arange(6) > 2
    params, info = logistic.fit(*apart)
    assert info.status == Status.SEPARABLE
    assert all(np.isnan(a).all() for a in jax.tree.leaves(f(losses.logistic, params, *apart)))
    params, _ = logistic.fit(X, Y, l2=0.1)
    assert np.isnan(jax.tree.leaves(f(losses.logistic, params, X, Y))[0]).all()
    assert np.isfinite(jax.tree.leaves(f(losses.logistic, params, X, Y, l2=0.1))[0]).all()
    wild = X.copy()
    wild[WEIGHT == 0] = np.nan
    params, _ = logistic.fit(wild, Y, sample_weight=WEIGHT)
    found = f(losses.logistic, params, wild, Y, sample_weight=WEIGHT)
    clean = f(losses.logistic, params, X, Y, sample_weight=WEIGHT)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(clean), strict=True):
        close(a[WEIGHT > 0], b[WEIGHT > 0])


def test_what_is_asked_for_is_checked():
    params = fitted()
    with pytest.raises(TypeError, match=r"kind: expected inference\.pearson"):
        inference.residuals(losses.logistic, params, X, Y, kind="pearson")
    many, _ = softmax.fit(X, Y, l2=0.1)
    with pytest.raises(TypeError, match="params: expected a Hyperplane, got Linear"):
        inference.residuals(losses.softmax, many, X, Y)


# --- Firth --------------------------------------------------------------------------------------

SIX = np.array([[0, 1], [1, 0], [2, 1], [3, 0], [4, 1], [5, 1.0]])
LABELS = np.array([0, 0, 1, 0, 1, 1])


def least(x, y, weight, held, value=0.0):
    """The least of the penalised loss with one coefficient of (1, x) held, by scipy."""
    z = np.column_stack([np.ones(len(x)), x])
    free = [j for j in range(z.shape[1]) if j != held]

    def loss(t):
        b = np.zeros(z.shape[1])
        b[free] = t
        if held is not None:
            b[held] = value
        s = z @ b
        p = 1 / (1 + np.exp(-s))
        information = (z.T * (weight * p * (1 - p))) @ z
        rows = weight * np.logaddexp(0, np.where(y == 1, -s, s))
        return rows.sum() - np.linalg.slogdet(information)[1] / 2

    options = {"xatol": 1e-11, "fatol": 1e-14, "maxiter": 20000, "maxfev": 20000}
    return scipy.optimize.minimize(
        loss, np.zeros(len(free)), method="Nelder-Mead", options=options
    ).fun


@pytest.mark.parametrize("x", [SIX, SIX[:, :1]])
def test_the_ratio_is_that_of_brute_force(x):
    weight = np.array([1.0, 2, 1, 1, 3, 1])
    whole = least(x, LABELS, weight, None)
    for j in range(x.shape[1]):
        test = inference.firth_test(x, LABELS, columns=j, sample_weight=weight)
        expected = 2 * (least(x, LABELS, weight, j + 1) - whole)
        np.testing.assert_allclose(test.statistic, expected, rtol=1e-8)
        np.testing.assert_allclose(test.p_value, scipy.stats.chi2.sf(expected, 1), rtol=1e-7)
        assert test.degrees == 1


def test_known_values():
    one = inference.firth_test(SIX, LABELS, columns=[0])
    close(one.statistic, 1.6063070247)
    for columns in (np.array([True, False]), 0, jnp.array([0])):
        assert inference.firth_test(SIX, LABELS, columns=columns) == one
    both = jax.jit(lambda c: inference.firth_test(SIX, LABELS, columns=c))(np.array([True, True]))
    assert both.degrees == 2 and both.statistic > one.statistic
    held, _ = logistic.fit_firth(SIX, LABELS, held=np.array([True, False]))
    assert held.weights[0] == 0 and held.weights[1] != 0
    for wrong, words in ((2, "columns: expected indices in 0..1"), (-1, "columns: expected ind")):
        with pytest.raises(ValueError, match=words):
            inference.firth_test(SIX, LABELS, columns=wrong)
    with pytest.raises(TypeError, match="columns: expected"):
        inference.firth_test(SIX, LABELS, columns=0.5)
    with pytest.raises(ValueError, match=r"x: 1 of 12 entries"):
        inference.firth_test(np.where(SIX == 5, np.nan, SIX), LABELS, columns=0)


def test_limits_are_where_the_ratio_is_the_quantile():
    lower, upper = inference.firth_intervals(SIX, LABELS)
    close(lower.weights, [-0.30863419, -1.02994107], rtol=1e-6)
    close(upper.weights, [3.3031452, 9.20258734], rtol=1e-6)
    ones, whole = np.ones(6), least(SIX, LABELS, np.ones(6), None)
    limits = [(lower.bias, 0), (upper.bias, 0), (lower.weights[0], 1), (upper.weights[1], 2)]
    for value, held in limits:
        ratio = 2 * (least(SIX, LABELS, ones, held, float(value)) - whole)
        np.testing.assert_allclose(ratio, scipy.stats.chi2.ppf(0.95, 1), rtol=1e-6)
    narrow = inference.firth_intervals(SIX, LABELS, level=0.5)
    assert (narrow[0].weights > lower.weights).all() and (narrow[1].weights < upper.weights).all()
    with pytest.raises(ValueError, match="level: expected a probability"):
        inference.firth_intervals(SIX, LABELS, level=95)


@pytest.mark.parametrize("d", [1, 6])
def test_rows_and_columns_that_are_absent_may_hold_nan(d):
    """With fewer rows than columns squared the Hessian goes by pairs of rows, else by passes."""
    x = RNG.normal(size=(20, d))
    y = x[:, 0] + RNG.normal(size=20) > 0
    weight = np.where(np.arange(20) % 7 == 1, 0.0, 1.0)
    wide = np.column_stack([np.full(20, np.nan), x])
    wide[weight == 0] = np.nan
    mask = np.arange(d + 1) > 0
    params, info = logistic.fit_firth(wide, y, sample_weight=weight, feature_mask=mask)
    assert info.status == Status.CONVERGED
    expected, _ = logistic.fit_firth(x[weight > 0], y[weight > 0])
    close(params.weights, np.append(0, expected.weights))
    close(params.bias, expected.bias)


def test_limits_of_separable_classes_masks_and_lanes():
    x, y = np.arange(8.0)[:, None], np.arange(8) > 3
    wide = np.column_stack([x, np.full(8, np.nan)])
    mask = np.array([True, False])
    weights = np.stack([np.ones(8), np.full(8, -1.0), np.r_[np.ones(7), 2.0]])
    run = jax.jit(
        jax.vmap(lambda w: inference.firth_intervals(wide, y, feature_mask=mask, sample_weight=w))
    )
    lower, upper = run(weights)
    for lane in (0, 2):
        alone = inference.firth_intervals(x, y, sample_weight=weights[lane])
        close(lower.weights[lane, 0], alone[0].weights[0], rtol=1e-6)
        close(upper.bias[lane], alone[1].bias, rtol=1e-6)
        assert lower.weights[lane, 1] == upper.weights[lane, 1] == 0
    assert np.isnan(lower.weights[1, 0]) and np.isnan(upper.bias[1])


def test_limits_of_columns_far_from_0_and_of_rows_of_weight_0_that_hold_anything():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(15, 1))
    y = x[:, 0] + rng.normal(size=15) > 0
    lower, upper = inference.firth_intervals(x, y)
    for far in (1e3, 1e6):
        found = inference.firth_intervals(x + far, y)
        close(found[0].weights, lower.weights, rtol=1e-5)
        close(found[1].weights, upper.weights, rtol=1e-5)
    weight = np.append(np.ones(15), 0.0)
    for wild in (1e30, 1e300, np.inf):
        given = np.append(x, [[wild]], axis=0), np.append(y, False)
        found = inference.firth_intervals(*given, sample_weight=weight)
        for a, b in zip(found, (lower, upper), strict=True):
            close(a.weights, b.weights, rtol=1e-6)
            close(a.bias, b.bias, rtol=1e-6)
    null = fitted()
    for wild in (1e200, np.inf, np.nan):
        extra = np.append(RNG.normal(size=N), wild)
        rows = np.append(X, X[:1], axis=0), np.append(Y, 0), extra
        more = {"sample_weight": np.append(np.ones(N), 0.0)}
        found = inference.score_test(losses.logistic, null, *rows, **more)
        plain = inference.score_test(losses.logistic, null, X, Y, extra[:N])
        close(found.statistic, plain.statistic)
    assert inference.score_test(losses.logistic, null, X, Y, X[:, :0]).statistic.shape == (0,)


@pytest.mark.parametrize("slopes", [thorough(None)])
def test_derivatives_of_limits_and_ratios(slopes):
    def limit(weight):
        return inference.firth_intervals(SIX, LABELS, sample_weight=weight)[0].weights[0]

    def ratio(weight):
        return inference.firth_test(SIX, LABELS, columns=1, sample_weight=weight).statistic

    move, size = RNG.normal(size=6), 1e-4
    for f in (limit, ratio):
        slope = jax.grad(f)(np.ones(6)) @ move
        ends = [f(np.ones(6) + s * move) for s in (size, -size)]
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * size), rtol=1e-5)


def test_refined_p_values_are_those_of_all_labellings():
    """Of 18 rows there are 2^18 labellings, of which some have a sum as far from 0."""
    rng = np.random.default_rng(3)
    n = 18
    x = rng.normal(size=(n, 1))
    y = np.isin(np.arange(n), [2, 7, 11]).astype(int)
    params, _ = logistic.fit(x, y)
    extra = rng.normal(size=(n, 40))
    rough = inference.score_test(losses.logistic, params, x, y, extra)
    fine = inference.score_test(losses.logistic, params, x, y, extra, refined=40)
    close(fine.statistic, rough.statistic)
    z = np.column_stack([x, np.ones(n)])
    chance = 1 / (1 + np.exp(-z @ np.append(params.weights, params.bias)))
    curve = chance * (1 - chance)
    own = extra - z @ np.linalg.solve((z.T * curve) @ z, (z.T * curve) @ extra)
    labels = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    likely = np.prod(np.where(labels, chance, 1 - chance), axis=1)
    every, seen = (labels - chance) @ own, (y - chance) @ own
    exact = likely @ (np.abs(every) >= np.abs(seen) - 1e-12)
    far = np.asarray(rough.statistic) > 4
    assert far.sum() == 4
    off = [np.abs(np.log(np.asarray(a.p_value) / exact))[far] for a in (fine, rough)]
    assert off[0].max() < 0.1 and off[1].max() > 0.2
    close(fine.p_value[~far], rough.p_value[~far])
    top = inference.score_test(losses.logistic, params, x, y, extra, refined=3)
    best = np.argsort(-rough.statistic)
    close(top.p_value[best[:3]], fine.p_value[best[:3]])
    close(top.p_value[best[3:]], rough.p_value[best[3:]])
    with pytest.raises(ValueError, match="refined: expected from 0 to 40"):
        inference.score_test(losses.logistic, params, x, y, extra, refined=41)
    with pytest.raises(ValueError, match=r"refined: only of losses\.logistic"):
        inference.score_test(losses.squared_hinge, params, x, y, extra, refined=1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_rare_variant_of_a_rare_disease(dtype):
    """Twenty cases in a thousand, and four among ten carriers: chi-squared is wrong by 300."""
    n, cases, carriers = 1000, 20, 10
    y = (np.arange(n) < cases).astype(int)
    carrier = (np.arange(n) >= cases - 4) & (np.arange(n) < cases - 4 + carriers)
    none = np.zeros((n, 1), dtype)
    params, _ = logistic.fit(none, y, feature_mask=np.array([False]))
    options = {"feature_mask": np.array([False]), "refined": 1}
    extra = carrier[:, None].astype(dtype)
    found = inference.score_test(losses.logistic, params, none, y, extra, **options)
    p, share = cases / n, carriers / n
    of_carriers, of_others = np.arange(carriers + 1)[:, None], np.arange(n - carriers + 1)[None, :]
    far = np.abs(of_carriers - share * (of_carriers + of_others)) >= 4 - share * cases - 1e-9
    likely = scipy.stats.binom.pmf(of_carriers, carriers, p)
    likely = likely * scipy.stats.binom.pmf(of_others, n - carriers, p)
    exact = np.sum(likely[far])
    assert abs(np.log(float(found.p_value[0]) / exact)) < 0.7
    assert scipy.stats.chi2.sf(float(found.statistic[0]), 1) < exact / 300


def test_refined_p_values_have_derivatives():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(30, 1))
    y = (np.arange(30) < 4).astype(int)
    params, _ = logistic.fit(x, y)
    extra = rng.normal(size=(30, 1)) + 2 * y[:, None]

    def p_value(t):
        moved = extra + t * np.sin(extra)
        return inference.score_test(losses.logistic, params, x, y, moved, refined=1).p_value[0]

    assert inference.score_test(losses.logistic, params, x, y, extra).statistic[0] > 4
    wanted = (p_value(1e-5) - p_value(-1e-5)) / 2e-5
    close(jax.grad(p_value)(0.0), wanted, rtol=1e-5)
    second = (p_value(1e-3) - 2 * p_value(0.0) + p_value(-1e-3)) / 1e-6
    close(jax.grad(jax.grad(p_value))(0.0), second, rtol=1e-3)


def test_least_squares_of_numbers_is_looked_at_too():
    t = X @ [1.0, 2.0, 3.0] + RNG.normal(size=N)
    params, _ = least_squares.regress(X, t)
    found = sm.OLS(t, sm.add_constant(X)).fit().get_influence()
    close(inference.leverage(losses.squared, params, X, t), found.hat_matrix_diag)
    for kind in KINDS:
        close(inference.residuals(losses.squared, params, X, t, kind=kind), found.resid)


def test_a_constant_by_maximum_likelihood_beside_firths_weights():
    """As the docstring of `fit_firth` says: the mean of the probabilities is that of the labels."""
    rare = np.isin(np.arange(N), np.flatnonzero(Y)[:4]).astype(int)
    firth, _ = logistic.fit_firth(X, rare)
    none = np.zeros(D, bool)
    moved, info = logistic.fit(X, rare, feature_mask=none, offset=X @ firth.weights)
    assert info.status == Status.CONVERGED
    means = [np.mean(jax.nn.sigmoid(X @ firth.weights + bias)) for bias in (firth.bias, moved.bias)]
    close(means[1], rare.mean())
    assert means[0] > 1.05 * rare.mean()


def test_a_refined_column_of_which_nothing_is_told_is_felt_by_none():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(30, 1))
    y = (np.arange(30) < 4).astype(int)
    params, _ = logistic.fit(x, y)
    good = rng.normal(size=30) + 2 * y
    hole = np.where(np.arange(30) == 5, np.nan, good)
    extra = np.column_stack([good, x[:, 0], hole, np.zeros(30)])

    def first(extra, weight):
        options = {"refined": extra.shape[1], "sample_weight": weight, "check": False}
        found = inference.score_test(losses.logistic, params, x, y, extra, **options)
        return found.p_value[0]

    weight = np.ones(30)
    alone, slope = jax.value_and_grad(first, 1)(extra[:, :1], weight)
    among, felt = jax.value_and_grad(first, 1)(extra, weight)
    close(among, alone)
    assert np.isfinite(slope).all()
    np.testing.assert_allclose(felt, slope, rtol=1e-8, atol=1e-14)

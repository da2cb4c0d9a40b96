"""The cumulative logit against R's polr, statsmodels, other fits, and linear programming."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy.optimize import linprog
from statsmodels.miscmodels.ordinal_model import OrderedModel

import jaxlin
from jaxlin import inference, logistic, metrics, ordinal, resample
from jaxlin.types import Ordinal, Status
from tests.public import assert_close

RNG = np.random.default_rng(0)
N, D, K = 120, 3, 4
X = RNG.normal(size=(N, D)) * [1, 10, 0.01] + [0, 300, -5]
LATENT = X @ [1.0, 0.05, 70.0]
Y = np.digitize(LATENT - LATENT.mean() + RNG.logistic(size=N), [-1.5, 0, 1])
WEIGHT = RNG.integers(0, 4, N).astype(float)

# Satisfaction of 1,681 tenants in Copenhagen (Madsen 1976; Venables and Ripley 2002, section 7.3):
# low, medium and high, within influence, within tower, apartment, atrium, terrace, within contact.
TENANTS = """21 21 28 34 22 36 10 11 36 61 23 17 43 35 40 26 18 54 13 9 10 8 8 12 6 7 9 18 6 7 15
13 13 7 5 11 14 19 37 17 23 40 3 5 23 78 46 43 48 45 86 15 25 62 20 23 20 10 22 24 7 10 21 57 23 13
31 21 13 5 6 13"""


def tenants():
    contact, kind, influence, satisfied = np.unravel_index(np.arange(72), (2, 4, 3, 3))
    columns = [influence == 1, influence == 2, kind == 1, kind == 2, kind == 3, contact == 1]
    return np.stack(columns, axis=1).astype(float), satisfied, np.array(TENANTS.split(), float)


def test_it_is_polr():
    x, y, weight = tenants()
    params, info = ordinal.fit(x, y, sample_weight=weight)
    errors = inference.standard_errors(
        params, ordinal.covariance(params, x, y, sample_weight=weight)
    )
    assert info.status == Status.CONVERGED
    found = np.concatenate([*params, *errors])
    # As printed by summary(polr(Sat ~ Infl + Type + Cont, weights = Freq, data = housing)).
    printed = [0.5664, 1.2888, -0.5724, -0.3662, -1.0910, 0.3603, -0.4961, 0.6907]
    printed += [0.1047, 0.1272, 0.1192, 0.1552, 0.1515, 0.0955, 0.1248, 0.1255]
    np.testing.assert_allclose(found, printed, atol=6e-5)
    np.testing.assert_allclose(2 * info.objective * weight.sum(), 3479.149, atol=6e-4)


def test_it_is_statsmodels():
    x = (X - X.mean(axis=0)) / X.std(axis=0)
    params, info = ordinal.fit(x, Y)
    model = OrderedModel(Y, x, distr="logit")
    near = model.fit(method="bfgs", disp=0, maxiter=500)
    theirs = model.fit(start_params=near.params, method="newton", disp=0, maxiter=100)
    cuts = model.transform_threshold_params(theirs.params)[1:-1]
    np.testing.assert_allclose(params.weights, theirs.params[:D], rtol=1e-7)
    np.testing.assert_allclose(params.thresholds, cuts, rtol=1e-7)
    np.testing.assert_allclose(info.objective, -theirs.llf / N, rtol=1e-10)
    np.testing.assert_allclose(ordinal.probabilities(params, x), theirs.predict(x), atol=1e-7)
    errors = inference.standard_errors(params, ordinal.covariance(params, x, Y))
    np.testing.assert_allclose(errors.weights, theirs.bse[:D], rtol=1e-5)


def by_hand(flat, x, y, offset=None):
    """Each row's log probability of its class."""
    weights, cuts = flat[: x.shape[1]], flat[x.shape[1] :]
    score = x @ weights + (0 if offset is None else offset)
    ends = jnp.concatenate([-jnp.full(1, jnp.inf), cuts, jnp.full(1, jnp.inf)])
    return jnp.log(jax.nn.sigmoid(ends[y + 1] - score) - jax.nn.sigmoid(ends[y] - score))


def test_the_optimum_has_nine_digits():
    """Newton's steps with 40 digits, from the answer, end where it is."""
    params, info = ordinal.fit(X, Y, sample_weight=WEIGHT)
    mpmath.mp.dps = 40
    rows = [[mpmath.mpf(float(v)) for v in row] for row in X]

    def slope(theta):
        grad = [mpmath.mpf(0)] * len(theta)
        for row, label, weight in zip(rows, Y, WEIGHT, strict=True):
            score = mpmath.fdot(row, theta[:D])
            ends = [theta[D + j] - score for j in range(K - 1)]
            up = [1 / (1 + mpmath.exp(-e)) for e in ends]
            low, high = (up[label - 1] if label else 0), (up[label] if label < K - 1 else 1)
            of_low, of_high = low * (1 - low), high * (1 - high)
            for j in range(D):
                grad[j] -= weight * row[j] * (of_high - of_low) / (high - low)
            if label:
                grad[D + label - 1] -= weight * of_low / (high - low)
            if label < K - 1:
                grad[D + label] += weight * of_high / (high - low)
        return mpmath.matrix(grad)

    def loss(flat):
        return -jnp.sum(WEIGHT * by_hand(flat, X, Y))

    flat = np.concatenate(params)
    inverse = mpmath.matrix(np.linalg.inv(np.asarray(jax.hessian(loss)(flat))).tolist())
    theta = mpmath.matrix(flat.tolist())
    for _ in range(6):
        theta = theta + inverse * slope(list(theta))
    np.testing.assert_allclose(flat, [float(v) for v in theta], rtol=1e-9)
    assert info.status == Status.CONVERGED


def test_of_two_classes_it_is_logistic_regression():
    y = Y > 1
    kinds = {"sample_weight": WEIGHT, "l2": 0.01, "offset": LATENT / 10}
    params, info = ordinal.fit(X, y, num_classes=2, **kinds)
    plane, same = logistic.fit(X, y, **kinds)
    np.testing.assert_allclose(params.weights, plane.weights, rtol=1e-9)
    np.testing.assert_allclose(params.thresholds, -plane.bias[None], rtol=1e-9)
    np.testing.assert_allclose(info.objective, same.objective, rtol=1e-12)
    found = ordinal.log_probabilities(params, X)
    np.testing.assert_allclose(found, jaxlin.log_probabilities(plane, X), rtol=1e-8)


def test_classes_turned_round_are_the_same_model():
    params, _ = ordinal.fit(X, Y)
    other, _ = ordinal.fit(X, K - 1 - Y)
    np.testing.assert_allclose(other.weights, -params.weights, rtol=1e-9)
    np.testing.assert_allclose(other.thresholds, -params.thresholds[::-1], rtol=1e-9)


def test_an_absent_class_takes_no_room():
    few, told = ordinal.fit(X, Y)
    many, same = ordinal.fit(X, 2 * Y + 1, num_classes=9)
    ends, cuts = np.full(1, np.inf), np.repeat(few.thresholds, 2)
    np.testing.assert_allclose(many.weights, few.weights, rtol=1e-12)
    np.testing.assert_allclose(many.thresholds, [*-ends, *cuts, *ends], rtol=1e-12)
    assert_close(same, told, rtol=1e-9)
    chances = ordinal.probabilities(many, X)
    np.testing.assert_array_equal(chances[:, ::2], 0)
    np.testing.assert_allclose(chances[:, 1::2], ordinal.probabilities(few, X), rtol=1e-12)
    np.testing.assert_array_equal(ordinal.predict(many, X), 2 * ordinal.predict(few, X) + 1)
    spread = ordinal.covariance(many, X, 2 * Y + 1)
    assert np.all(np.isfinite(spread))
    np.testing.assert_allclose(spread[:D, :D], ordinal.covariance(few, X, Y)[:D, :D], rtol=1e-9)


@pytest.mark.parametrize("label", [0, 2])
def test_one_class_is_too_few(label):
    params, info = ordinal.fit(X, np.full(N, label), num_classes=3)
    assert info.status == Status.CLASS_TOO_SMALL
    np.testing.assert_array_equal(params.weights, 0)
    np.testing.assert_array_equal(ordinal.predict(params, X), label)


def recedes(x, y, k):
    """By linear programming: 2 if a direction tells all rows apart, 1 if some, 0 if none."""
    at = np.eye(k + 1)[:, 1:-1]
    passed = np.concatenate([x, at[y]], axis=1)[y > 0]
    not_passed = np.concatenate([x, at[y + 1]], axis=1)[y < k - 1]
    rows = np.concatenate([passed, -not_passed])
    box = [(-1, 1)] * rows.shape[1]
    most = linprog(-rows.sum(axis=0), A_ub=-rows, b_ub=np.zeros(len(rows)), bounds=box)
    assert most.status == 0
    if -most.fun < 1e-7:
        return 0
    # The largest margin, as the last variable.
    cost = np.append(np.zeros(rows.shape[1]), -1)
    wide = linprog(
        cost,
        A_ub=np.concatenate([-rows, np.ones((len(rows), 1))], axis=1),
        b_ub=np.zeros(len(rows)),
        bounds=[*box, (None, 1)],
    )
    return 2 if -wide.fun > 1e-7 else 1


def test_the_verdict_is_linear_programmings():
    said = {0: Status.CONVERGED, 1: Status.QUASI_SEPARABLE, 2: Status.SEPARABLE}
    fit = jax.jit(jax.vmap(lambda x, y: ordinal.fit(x, y, num_classes=3)))
    rng = np.random.default_rng(1)
    x = rng.integers(-3, 4, size=(240, 9, 2)).astype(float)
    noise = rng.choice([0.0, 0.5, 2.0], size=(240, 1)) * rng.normal(size=(240, 9))
    y = np.stack([np.digitize(s, [-1, 1]) for s in x @ [1.0, 0.7] + noise])
    seen = np.array([len(set(row)) for row in y]) == 3
    varied = np.array([np.linalg.matrix_rank(np.c_[a, np.ones(9)]) == 3 for a in x])
    x, y = x[seen & varied], y[seen & varied]
    params, info = fit(x, y)
    wanted = np.array([said[recedes(*row, 3)] for row in zip(x, y, strict=True)])
    assert min(np.bincount(wanted, minlength=6)[[0, 4, 5]]) > 10
    np.testing.assert_array_equal(info.status, wanted)
    apart = info.status == Status.SEPARABLE
    found = jax.vmap(ordinal.predict)(params, x)
    np.testing.assert_array_equal(found[apart], y[apart])
    np.testing.assert_array_equal(info.objective[apart], 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weight", [1e-6, 1e-9, 1e-20])
def test_a_class_that_is_next_to_absent(dtype, weight):
    """Its borders are nearer than this dtype tells: the others' plane, and no success unless so."""
    x, y = X[:, :1].astype(dtype), np.arange(N) % 3
    kinds = {"sample_weight": np.where(y == 1, weight, 1).astype(dtype), "num_classes": 3}
    params, info = ordinal.fit(x, y, **kinds)
    assert info.status in (Status.CONVERGED, Status.STALLED) and info.steps >= 0
    if info.status == Status.CONVERGED:
        alone, _ = logistic.fit(X[y != 1, :1], y[y != 1] == 2)
        np.testing.assert_allclose(params.weights, alone.weights, rtol=1e-4)
        np.testing.assert_allclose(params.thresholds, -alone.bias, rtol=1e-2, atol=1e-5)
    else:
        assert dtype == np.float32 or weight < 1e-15
    assert np.all(np.isfinite(params.weights)) and np.isfinite(info.objective)


def test_thresholds_that_the_dtype_does_not_hold_are_no_optimum():
    near = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    far = (1000 + 1e-3 * near).astype(np.float32)
    assert ordinal.fit(near, Y)[1].status == Status.CONVERGED
    assert ordinal.fit(far, Y)[1].status == Status.STALLED
    assert ordinal.fit(far.astype(float), Y, tol=1e-8)[1].status == Status.CONVERGED


def test_a_tolerance_that_is_soon_met_is_no_reason_to_stop_far_away():
    _, info = ordinal.fit(X, Y, tol=1e3)
    _, told = ordinal.fit(X, Y)
    assert info.status == Status.CONVERGED and info.steps < told.steps
    np.testing.assert_allclose(info.objective, told.objective, atol=1e-4)


def test_a_penalty_holds_what_is_separable():
    y = np.digitize(LATENT - LATENT.mean(), [-1.5, 0, 1])
    assert ordinal.fit(X, y)[1].status == Status.SEPARABLE
    params, info = ordinal.fit(X, y, l2=0.1)
    assert info.status == Status.CONVERGED
    penalty = 0.05 * jnp.sum(params.weights**2)
    loss = -jnp.mean(by_hand(np.concatenate(params), X, y))
    np.testing.assert_allclose(info.objective, loss + penalty, rtol=1e-10)
    # Of one column alone the others can still run away.
    assert ordinal.fit(X, y, l2=jnp.array([0.0, 0.0, 1.0]))[1].status >= Status.CONVERGED


def test_collinear_columns_have_the_least_norm():
    params, info = ordinal.fit(np.c_[X, X[:, 0]], Y)
    alone, _ = ordinal.fit(X, Y)
    assert info.status == Status.RANK_DEFICIENT
    half = alone.weights[0] / 2
    wanted = [half, alone.weights[1], alone.weights[2], half]
    np.testing.assert_allclose(params.weights, wanted, rtol=1e-8)
    np.testing.assert_allclose(params.thresholds, alone.thresholds, rtol=1e-8)
    assert np.all(np.isnan(ordinal.covariance(params, np.c_[X, X[:, 0]], Y)))


def test_the_covariance_is_the_inverse_of_the_curvature():
    kinds = {"sample_weight": WEIGHT, "offset": LATENT / 10, "l2": jnp.array([0.1, 0.0, 0.02])}
    params, _ = ordinal.fit(X, Y, **kinds)

    def total(flat):
        penalty = jnp.sum(kinds["l2"] * flat[:D] ** 2) / 2
        return WEIGHT.sum() * penalty - jnp.sum(WEIGHT * by_hand(flat, X, Y, kinds["offset"]))

    flat = np.concatenate(params)
    np.testing.assert_allclose(jax.grad(total)(flat) / WEIGHT.sum(), 0, atol=1e-8)
    wanted = np.linalg.inv(jax.hessian(total)(flat))
    np.testing.assert_allclose(ordinal.covariance(params, X, Y, **kinds), wanted, rtol=1e-6)
    # Params of other arguments say nothing, unless they are not looked at.
    others = kinds | {"l2": 0.05}
    assert np.all(np.isnan(ordinal.covariance(params, X, Y, **others)))
    assert np.all(np.isfinite(ordinal.covariance(params, X, Y, check=False, **others)))


def test_scores_are_judged_by_metrics():
    params, info = ordinal.fit(X, Y)
    scores = jaxlin.scores(params, X)
    np.testing.assert_allclose(metrics.log_loss(scores, Y), info.objective, rtol=1e-12)
    folds = resample.kfold(jax.random.key(0), N, folds=4)
    values, said = resample.cross_validate(
        ordinal.fit, metrics.accuracy, X, Y, folds, num_classes=K
    )
    assert np.mean(values) > 0.4
    assert np.all(said.status == Status.CONVERGED)


def test_params_of_another_kind_are_refused():
    with pytest.raises(TypeError, match="params: expected an Ordinal, got Hyperplane"):
        ordinal.scores(jaxlin.Hyperplane(jnp.zeros(D), jnp.zeros(())), X)
    lanes = Ordinal(jnp.zeros((2, D)), jnp.zeros((2, K - 1)))
    with pytest.raises(ValueError, match=r"params.weights: expected shape \(3,\)"):
        ordinal.scores(lanes, X)

"""Logistic regression: right to the digit, and truthful about where there is no optimum."""

from fractions import Fraction
from functools import partial

import chex
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.linear_model import LogisticRegression

from jaxlin import (
    Hyperplane,
    Linear,
    Status,
    datasets,
    features,
    labels,
    linear,
    logistic,
    losses,
    softmax,
    solvers,
)
from jaxlin._base import _checks
from jaxlin._data import _prepare
from jaxlin._smooth import _frame
from tests import exact
from tests.public import thorough
from tests.reference import oracle

SOLVERS = [solvers.newton, solvers.lbfgs]
THOROUGH = [solvers.newton, thorough(solvers.lbfgs)]
# x = 2, 4, 5, 5, 5, 7, 7, 10 for class 1; eighteen 0s, eight 1s and one 2 for class 0.
QUASI_X = np.array([[2, 4, 5, 5, 5, 7, 7, 10] + [0] * 18 + [1] * 8 + [2]], float).T
QUASI_Y = np.array([1] * 8 + [0] * 27)


def overlapping(seed=0, n=40, d=3, dtype=float):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    y = (rng.random(n) < 1 / (1 + np.exp(-(x[:, 0] - 0.5 * x[:, 1] + 0.4)))).astype(int)
    return x.astype(dtype), y


def fit(x, y, *, l2=0.0, sample_weight=None, offset=None, init=None, max_steps=1000, **static):
    """`logistic.fit`, padded by rows of weight 0 and masked columns that hold NaN.

    So that all small problems of a dtype are one program: a compile takes seconds.
    """
    (n, d), more = np.shape(x), (48 - len(x), 6 - np.shape(x)[1])
    dtype = np.asarray(x).dtype

    weight = np.ones(n) if sample_weight is None else sample_weight
    start = np.zeros(d + 1) if init is None else coefficients(init)
    params, info = logistic.fit(
        np.pad(x, ((0, more[0]), (0, more[1])), constant_values=np.nan),
        np.pad(np.asarray(y), (0, more[0])),
        l2=np.pad(np.broadcast_to(l2, d).astype(dtype), (0, more[1])),
        sample_weight=np.pad(np.asarray(weight, dtype), (0, more[0])),
        offset=np.pad(
            np.broadcast_to(0.0 if offset is None else offset, n).astype(dtype),
            (0, more[0]),
            constant_values=np.nan,
        ),
        init=Hyperplane(
            weights=np.pad(start[:-1].astype(dtype), (0, more[1])), bias=start[-1].astype(dtype)
        ),
        feature_mask=np.arange(6) < d,
        max_steps=max_steps,
        **static,
    )
    assert np.all(np.isnan(params.weights[d:]) | (params.weights[d:] == 0))
    return params._replace(weights=params.weights[:d]), info


def code(info):
    return Status(int(info.status))


def coefficients(params):
    return np.append(np.asarray(params.weights), params.bias)


def true_residual(params, x, y, weight=None, l2=0.0):
    """The unit-free gradient of the objective in float64, for one problem."""
    params = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), params)
    x = np.asarray(x, np.float64)
    weight = np.ones(len(x)) if weight is None else np.asarray(weight, np.float64)
    grad = jax.grad(
        lambda p: losses.objective(losses.logistic, p, x, y, sample_weight=weight, l2=l2)
    )(params)
    mean = weight @ x / weight.sum()
    spread = np.sqrt(weight @ (x - mean[None, :]) ** 2 / weight.sum())
    spread[spread == 0] = np.inf
    centred = (np.asarray(grad.weights) - mean * float(grad.bias)) / spread
    return max(np.abs(centred).max(), abs(float(grad.bias)))


# --- accuracy -------------------------------------------------------------------------------------


@pytest.mark.parametrize("correlation", [1.0, 0.02, 0.006])
@pytest.mark.parametrize("mean", [0.0, 3.0])
def test_nine_digits_in_float64(correlation, mean):
    x, y = overlapping(seed=1)
    x[:, 1] = x[:, 0] + correlation * x[:, 1]
    x += mean
    params, info = fit(x, y)
    exact, hess = oracle.logistic(x, y, start=coefficients(params))
    assert code(info) == Status.CONVERGED
    assert condition(hess) <= 5e6
    assert oracle.digits(coefficients(params), exact) >= 9


@pytest.mark.parametrize("correlation", [1.0, 0.3, 0.04])
def test_four_digits_in_float32(correlation):
    x, y = overlapping(seed=1)
    x[:, 1] = x[:, 0] + correlation * x[:, 1]
    x = x.astype(np.float32)
    params, info = fit(x, y)
    exact, hess = oracle.logistic(x, y, start=coefficients(params))
    assert condition(hess) <= 1e4
    assert code(info) == Status.CONVERGED
    assert oracle.digits(coefficients(params), exact) >= 4


def condition(hess):
    """The condition of X'DX for columns of unit length."""
    h = np.array([[float(v) for v in row] for row in hess])
    scale = 1 / np.sqrt(np.diag(h))
    return np.linalg.cond(h * scale[:, None] * scale[None, :])


@pytest.mark.parametrize("l2", [0.1, [0.3, 0.0, 0.01]])
@pytest.mark.parametrize("solver", THOROUGH)
def test_penalty_weights_and_units_against_the_oracle(l2, solver):
    x, y = overlapping(seed=2)
    x = x * np.array([1e-8, 1.0, 1e8]) + np.array([0.0, 5.0, 1e8])
    l2 = np.asarray(l2) * np.array([1e-16, 1.0, 1e16])
    weight = np.random.default_rng(0).uniform(0.1, 3, len(x))
    params, info = fit(x, y, l2=l2, sample_weight=weight, solver=solver)
    exact, _ = oracle.logistic(x, y, weight, l2, start=coefficients(params))
    assert code(info) == Status.CONVERGED
    assert oracle.digits(coefficients(params), exact) >= 9


def test_equals_scikit_learn_with_C_converted():
    x, y = overlapping()
    weight = np.random.default_rng(0).uniform(0.1, 3, len(x))
    peer = LogisticRegression(C=0.7, solver="newton-cholesky", tol=1e-12)
    peer.fit(x, y, sample_weight=weight)
    params, _ = fit(x, y, l2=losses.l2_from_C(0.7, weight.sum()), sample_weight=weight)
    np.testing.assert_allclose(params.weights, peer.coef_[0], rtol=1e-9)
    np.testing.assert_allclose(params.bias, peer.intercept_[0], rtol=1e-9)


def test_soft_labels_are_pairs_of_weighted_rows():
    x, y = overlapping()
    soft = np.where(y == 1, 0.9, 0.2)
    x, y, soft = x[:24], y[:24], soft[:24]
    params, _ = fit(x, soft)
    twice, _ = fit(
        np.concatenate([x, x]),
        np.repeat([1, 0], len(x)),
        sample_weight=np.concatenate([soft, 1 - soft]),
    )
    np.testing.assert_allclose(coefficients(params), coefficients(twice), rtol=1e-10)


def test_soft_labels_are_never_separated():
    x, _ = overlapping()
    params, info = fit(x, np.full(len(x), 0.9))
    assert code(info) == Status.CONVERGED
    np.testing.assert_allclose(coefficients(params), [0, 0, 0, np.log(9)], atol=1e-9)


def test_an_offset_that_is_a_multiple_of_a_column_shifts_its_weight():
    x, y = overlapping()
    plain, _ = fit(x, y)
    moved, _ = fit(x, y, offset=2 * x[:, 1] + 3)
    np.testing.assert_allclose(moved.weights, plain.weights - np.array([0.0, 2.0, 0.0]), atol=1e-12)
    np.testing.assert_allclose(moved.bias, plain.bias - 3, rtol=1e-12)


def test_a_start_does_not_change_the_answer():
    x, y = overlapping()
    plain, info = fit(x, y)
    for scale in (1.0, 1e2, 1e4):
        init = Hyperplane(weights=scale * jnp.array([1.0, -2.0, 0.5]), bias=jnp.array(0.3))
        again, status = fit(x, y, init=init)
        assert code(status) == Status.CONVERGED
        np.testing.assert_allclose(coefficients(again), coefficients(plain), rtol=1e-12)
    _, status = fit(x, y, init=plain)
    assert int(status.steps) <= 1 and code(status) == Status.CONVERGED
    assert int(info.steps) > 1


def test_a_start_far_out_is_taken_where_it_is_good():
    """Such as the optimum of another penalty; a step from 0 would take it several to get there."""
    x, y, *_ = datasets.breast_cancer()
    x = (x - np.mean(x, axis=0)) / np.std(x, axis=0)
    init, _ = logistic.fit(x, y, l2=1e-5)
    assert np.max(np.abs(linear.scores(init, x))) > 100
    for l2 in (1e-4, 5e-6):
        _, warm = logistic.fit(x, y, l2=l2, init=init)
        _, cold = logistic.fit(x, y, l2=l2)
        assert code(warm) == code(cold) == Status.CONVERGED
        assert int(warm.steps) <= 8 < 11 <= int(cold.steps)


def test_both_solvers_agree_over_many_row_blocks():
    x, y = overlapping(n=3000, d=40)
    newton, info = logistic.fit(x, y, l2=1e-3, solver=solvers.newton)
    lbfgs, status = logistic.fit(x, y, l2=1e-3)  # the default for this size
    assert code(info) == code(status) == Status.CONVERGED
    assert status.steps > info.steps
    np.testing.assert_allclose(lbfgs.weights, newton.weights, atol=1e-8)
    tol = 4e-11
    assert true_residual(newton, x, y, l2=1e-3) <= tol
    assert true_residual(lbfgs, x, y, l2=1e-3) <= tol


# --- no optimum, or many --------------------------------------------------------------------------


def separates_exactly(params, x, y):
    """In rational arithmetic: every float is a fraction."""
    weights = [Fraction(float(w)) for w in params.weights]
    bias = Fraction(float(params.bias))
    return all(
        (2 * int(t) - 1)
        * (sum(w * Fraction(float(v)) for w, v in zip(weights, row, strict=True)) + bias)
        > 0
        for row, t in zip(x, y, strict=True)
    )


def breast_cancer():
    x, y, *_ = datasets.breast_cancer()
    return np.asarray(features.standardize(features.standardizer(x), x)), y


def setosa_versicolor():
    x, y, *_ = datasets.iris()
    return x[27:73], y[27:73]


@pytest.mark.parametrize("solver", [None, solvers.lbfgs])
@pytest.mark.parametrize("scale", [1e-8, 1e-12, 1e-15])
def test_a_penalty_of_more_than_the_squares_range_is_felt_in_full(scale, solver):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(40, 2))
    x, y = (z * [1, scale]).astype(np.float32), (z[:, 0] + rng.normal(size=40) > 0).astype(int)

    def weights(l2):
        params, info = logistic.fit(x, y, l2=l2, solver=solver, tol=1e-6)
        return params.weights, (params, info)

    l2 = np.array([1e-2, 1e2], np.float32)
    moved, (params, info) = jax.jacobian(weights, has_aux=True)(l2)
    assert info.status == Status.CONVERGED
    wide, (along, bias) = x.astype(float), jax.tree.map(lambda a: np.asarray(a, float), params)
    miss = 1 / (1 + np.exp(-(wide @ along + bias))) - y
    expected = -wide.T @ miss / 40 / l2
    np.testing.assert_allclose(along, expected, rtol=2e-5)
    np.testing.assert_allclose(moved[1, 1], -expected[1] / l2[1], rtol=2e-5)


@pytest.mark.parametrize(
    "data, dtype, solver",
    [
        (breast_cancer, np.float64, solvers.newton),
        (breast_cancer, np.float32, solvers.newton),
        thorough(setosa_versicolor, np.float64, solvers.lbfgs),
        thorough(setosa_versicolor, np.float64, solvers.newton),
        thorough(setosa_versicolor, np.float32, solvers.newton),
        thorough(setosa_versicolor, np.float32, solvers.lbfgs),
        thorough(breast_cancer, np.float64, solvers.lbfgs),
        thorough(breast_cancer, np.float32, solvers.lbfgs),
    ],
)
def test_separable_data_are_separated(data, dtype, solver):
    x, y = data()
    x = x.astype(dtype)
    params, info = (fit if len(x) < 48 else logistic.fit)(x, y, solver=solver)
    assert code(info) == Status.SEPARABLE
    assert info.objective == 0
    assert separates_exactly(params, x, y)


@pytest.mark.parametrize(
    "dtype, solver",
    [
        (np.float32, solvers.newton),
        (np.float64, solvers.newton),
        thorough(np.float64, solvers.lbfgs),
        thorough(np.float32, solvers.lbfgs),
    ],
)
def test_quasi_separable_data_are_told_apart(dtype, solver):
    params, info = fit(QUASI_X.astype(dtype), QUASI_Y, solver=solver)
    assert code(info) == Status.QUASI_SEPARABLE
    assert np.all(np.isfinite(coefficients(params)))


def test_a_penalty_makes_separable_data_converge():
    x, y = breast_cancer()
    params, info = logistic.fit(x, y, l2=1e-4)
    assert code(info) == Status.CONVERGED
    assert true_residual(params, x, y, l2=1e-4) <= 4e-11


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_collinear_columns_give_the_minimum_norm_optimum(scale, solver):
    x, y = overlapping()
    wide = np.column_stack([x, scale * (x[:, 0] - 2 * x[:, 1]), np.full(len(x), 7.0)])
    params, info = fit(wide, y, solver=solver)
    assert code(info) == Status.RANK_DEFICIENT
    plain, _ = fit(x, y)
    scores = linear.scores(params, wide)
    np.testing.assert_allclose(scores, linear.scores(plain, x), atol=1e-9)
    # The least-norm weights with these centred scores.
    centred = wide - wide.mean(0)
    least = np.linalg.pinv(centred, rcond=1e-10) @ (centred @ np.asarray(params.weights))
    np.testing.assert_allclose(params.weights, least, atol=1e-8)


def test_a_penalty_on_one_of_two_equal_columns_decides_between_them():
    x, y = overlapping()
    params, info = fit(np.column_stack([x, x[:, 0]]), y, l2=[0.0, 0.0, 0.0, 0.1])
    plain, _ = fit(x, y)
    assert code(info) == Status.CONVERGED
    np.testing.assert_allclose(params.weights, np.append(plain.weights, 0), atol=1e-9)


@pytest.mark.parametrize("gap", [1e-3, 1e-5, 1e-7, 1e-9])
def test_nearly_collinear_columns_are_never_wrong(gap):
    x, y = overlapping()
    near = np.column_stack([x[:, :2], x[:, 0] + gap * x[:, 2]])
    params, info = fit(near, y, max_steps=100)
    if code(info) == Status.CONVERGED:
        exact, _ = oracle.logistic(near, y, start=coefficients(params))
        assert oracle.digits(coefficients(params), exact) >= 3
    else:
        assert code(info) in (Status.STALLED, Status.MAX_STEPS)


def test_a_constant_column_is_a_deficiency_of_its_own():
    x, y = overlapping()
    params, info = fit(np.column_stack([x, np.full(len(x), 7.0)]), y)
    plain, _ = fit(x, y)
    assert code(info) == Status.RANK_DEFICIENT and params.weights[3] == 0
    np.testing.assert_allclose(params.weights[:3], plain.weights, atol=1e-12)


def test_collinear_columns_in_lanes_that_share_them():
    """Lanes share a centre that is the mean of none of them."""
    x, y = overlapping()
    wide = np.column_stack([x + 3, x[:, 0] - 2 * x[:, 1]])
    weights = np.random.default_rng(0).choice([0.1, 1.0, 3.0], size=(3, len(x)))
    lanes = jax.vmap(lambda w: logistic.fit(wide, y, sample_weight=w))(jnp.asarray(weights))
    for i, weight in enumerate(weights):
        params, info = fit(wide, y, sample_weight=weight)
        assert code(info) == lanes[1].status[i] == Status.RANK_DEFICIENT
        of_lane = jax.tree.map(lambda a, i=i: a[i], lanes[0])
        np.testing.assert_allclose(coefficients(of_lane), coefficients(params), atol=1e-8)


def test_what_separates_without_a_penalty_needs_no_other_weights():
    x, y = overlapping()
    x[:, 0] = np.where(y == 1, np.abs(x[:, 0]), -np.abs(x[:, 0]))
    params, info = fit(x, y, l2=[0.0, 0.1, 0.1])
    assert code(info) == Status.SEPARABLE and separates_exactly(params, x, y)
    np.testing.assert_array_equal(params.weights[1:], 0)


def test_the_residual_is_no_less_than_its_rounding():
    _, info = fit(np.array([[1.0], [-1.0], [1.0], [-1.0]]), np.array([1, 1, 0, 0]))
    assert code(info) == Status.CONVERGED and 0 < info.residual <= 4e-11


def test_no_more_steps_than_asked_for():
    x, y = overlapping()
    for cap in range(4):
        _, info = fit(x, y, max_steps=cap)
        assert code(info) == Status.MAX_STEPS and info.steps == cap


def test_fewer_rows_than_columns_are_separable():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4, 6)), np.arange(4) % 2
    params, info = fit(x, y)
    assert code(info) == Status.SEPARABLE and separates_exactly(params, x, y)


def verdict(x, y):
    """Overlap, separation or quasi-separation, by linear programming."""
    t = 2 * y - 1
    signed = t[:, None] * np.column_stack([x / np.abs(x).max(0), np.ones(len(x))])
    box = [(-1, 1)] * signed.shape[1]
    total = linprog(-signed.sum(0), A_ub=-signed, b_ub=np.zeros(len(x)), bounds=box)
    if -total.fun < 1e-7:
        return Status.CONVERGED
    room = linprog(
        np.append(np.zeros(signed.shape[1]), -1.0),
        A_ub=np.column_stack([-signed, np.ones(len(x))]),
        b_ub=np.zeros(len(x)),
        bounds=[*box, (None, 1)],
    )
    return Status.SEPARABLE if -room.fun > 1e-9 else Status.QUASI_SEPARABLE


def random_problems(count, dtype):
    """Small integer problems, weights over six decades, columns over eight, starts to 1e4."""
    rng = np.random.default_rng(0)
    n, d = 12, 3
    x = rng.integers(-20, 21, size=(count, n, d)).astype(float)
    y = rng.integers(0, 2, size=(count, n))
    weight = 10 ** rng.uniform(-3, 3, size=(count, n))
    kind = rng.integers(0, 3, size=count)
    weight[kind == 0] = 1
    scale = np.where((kind == 2)[:, None], 10 ** rng.uniform(-4, 4, size=(count, d)), 1)
    x = (x * scale[:, None, :]).astype(dtype)
    weights, bias = rng.normal(size=(count, d)), rng.normal(size=count)
    reach = np.abs(np.einsum("bnd,bd->bn", x, weights) + bias[:, None]).max(1)
    far = 10 ** rng.uniform(-2, 4, size=count) * (rng.random(count) > 0.3) / reach
    init = Hyperplane(
        weights=(weights * far[:, None]).astype(dtype), bias=(bias * far).astype(dtype)
    )
    return x, y, weight.astype(dtype), init


# A start that is near, from where Newton's method goes far astray: 80 steps lead it nowhere.
ASTRAY = np.array(
    [  # a row of x, its label, its weight
        [-9, 4, -14, 1, 0.4197],
        [6, 10, -19, 1, 0.03408],
        [9, 5, -1, 1, 0.001235],
        [5, -2, -3, 0, 927.7],
        [-14, -13, -3, 0, 0.01083],
        [10, 8, 14, 0, 0.001787],
        [-16, 8, 2, 1, 16.42],
        [12, -13, 12, 0, 0.1317],
        [6, 11, -19, 0, 0.001224],
        [-19, -13, -1, 0, 8.135],
        [-5, -2, 4, 1, 0.03221],
        [-19, -2, -10, 1, 0.002517],
    ]
)
ASTRAY_FROM = Hyperplane(weights=np.array([-0.2519, -0.282, 0.2109]), bias=0.3133)


@partial(jax.jit)
@jax.vmap
def fit_from(x, y, weight, init):
    return logistic.fit(x, y, sample_weight=weight, init=init)


@pytest.mark.parametrize("dtype", [np.float64, thorough(np.float32)])
def test_random_problems_from_any_start(dtype):
    x, y, weight, init = random_problems(3000, dtype)
    x[0], y[0], weight[0] = ASTRAY[:, :3], ASTRAY[:, 3], ASTRAY[:, 4]
    init.weights[0], init.bias[0] = ASTRAY_FROM
    params, info = fit_from(*map(jnp.asarray, (x, y, weight)), init)
    status = np.asarray(info.status)
    converged = status == Status.CONVERGED
    assert converged.mean() > 0.8
    assert converged[0] or dtype == np.float32
    assert np.asarray(info.steps)[converged].max() <= 60
    tol = np.finfo(dtype).eps ** (2 / 3)
    for i in np.flatnonzero(converged)[:200]:
        lane = jax.tree.map(lambda a, i=i: a[i], params)
        assert true_residual(lane, x[i], y[i], weight[i]) <= tol
        assert verdict(x[i], y[i]) == Status.CONVERGED
    if dtype == np.float64:  # float32 may say STALLED
        for i in np.flatnonzero(~converged & (status != Status.CLASS_TOO_SMALL))[:150]:
            assert status[i] == verdict(x[i], y[i])


# --- statuses, wherever they arise ----------------------------------------------------------------


def status_cases():
    x, y = overlapping(n=24, seed=3)
    ordered = np.sort(x, axis=0)
    bad = x.copy()
    bad[5, 1] = np.nan
    plane = x.copy()
    plane[:, 0] = np.where(y == 1, np.abs(x[:, 0]), -np.abs(x[:, 0]))
    touching = np.round(x)
    touching[:, 0] = np.where(np.arange(24) < 14, 0, np.where(y == 1, 1, -1))
    ones = np.ones(24)
    return {
        Status.CONVERGED: dict(x=x, y=y),
        Status.RANK_DEFICIENT: dict(x=x[:, [0, 1, 1]], y=y),
        Status.STALLED: dict(x=x, y=y, tol=0.0),
        Status.MAX_STEPS: dict(x=x, y=y, max_steps=2),
        Status.QUASI_SEPARABLE: dict(x=touching, y=y),
        Status.SEPARABLE: dict(x=plane, y=y),
        Status.CLASS_TOO_SMALL: dict(x=ordered, y=y, sample_weight=np.where(y == 1, ones, 0)),
        Status.INVALID_DATA: dict(x=bad, y=y),
    }


def lane(x, y, sample_weight=None, tol=4e-11, max_steps=100):
    weight = np.ones(len(x)) if sample_weight is None else sample_weight
    return tuple(map(jnp.asarray, (x, y, weight, tol, max_steps)))


def fit_lane(x, y, weight, tol, max_steps):
    return logistic.fit(x, y, sample_weight=weight, tol=tol, max_steps=max_steps)


jitted = jax.jit(fit_lane)
batched = jax.jit(jax.vmap(fit_lane))


@pytest.mark.parametrize("status", status_cases(), ids=lambda s: s.name)
def test_every_status_eager_jitted_and_as_a_lane(status):
    case = status_cases()[status]
    arguments = lane(**case)
    assert code(jitted(*arguments)[1]) == status
    if status == Status.INVALID_DATA:
        with pytest.raises(ValueError, match=r"x: 1 of 72 entries .* the first at \(5, 1\): nan"):
            fit_lane(*arguments)
    else:
        assert code(fit_lane(*arguments)[1]) == status
    good = [lane(*overlapping(n=24, seed=s)) for s in range(3, 7)]
    clean = batched(*(jnp.stack(column) for column in zip(*good, strict=True)))
    good[1] = arguments
    mixed = batched(*(jnp.stack(column) for column in zip(*good, strict=True)))
    assert Status(int(mixed[1].status[1])) == status
    for i in (0, 2, 3):
        jax.tree.map(lambda a, b, i=i: np.testing.assert_array_equal(a[i], b[i]), mixed, clean)


def test_the_limit_of_one_class_and_the_params_of_bad_data():
    x, y = overlapping(n=24)
    params, info = logistic.fit(x, np.zeros_like(y))
    assert code(info) == Status.CLASS_TOO_SMALL
    np.testing.assert_array_equal(coefficients(params), [0, 0, 0, -np.inf])
    params, info = logistic.fit(x, np.ones_like(y), bias=False)
    assert code(info) == Status.CLASS_TOO_SMALL and np.all(np.isnan(params.weights))
    params, info = jitted(*lane(np.where(x == x, np.inf, x), y))
    assert np.all(np.isnan(coefficients(params))) and np.isnan(info.objective)


def test_an_absent_class_is_found_by_weight():
    x, y = overlapping(n=24)
    x[y == 0] = np.nan
    params, info = logistic.fit(x, y, sample_weight=y)
    assert code(info) == Status.CLASS_TOO_SMALL and params.bias == np.inf


# --- bad input ------------------------------------------------------------------------------------

X, Y = overlapping(n=24)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (dict(y=2 * Y - 1), ValueError, r"y: 1\d of 24 entries are outside 0\.\.1"),
        (dict(y=Y + 0.5), ValueError, "y: .* not a probability"),
        (dict(y=Y[:5]), ValueError, r"y: expected shape \(24,\).* got \(5,\)"),
        (dict(y=Y[:, None]), ValueError, r"y: expected shape \(24,\)"),
        (dict(y=np.array(["a"] * 24)), TypeError, "y: "),
        (dict(x=X[:, 0]), ValueError, r"x: expected shape \(n, d\), got \(24,\)"),
        (dict(x=X * 1j), TypeError, "x: expected"),
        (dict(l2=-1.0), ValueError, "l2: 1 of 1 entries are negative"),
        (dict(l2=np.nan), ValueError, "l2: "),
        (dict(l2=np.ones(5)), ValueError, r"l2: .*\(3,\), got \(5,\).*regularization_path"),
        (dict(sample_weight=-np.ones(24)), ValueError, "sample_weight: 24 of 24 entries"),
        (dict(sample_weight=np.zeros(24)), ValueError, "sample_weight: no row"),
        (dict(sample_weight=np.ones(23)), ValueError, r"sample_weight: expected shape \(24,\)"),
        (dict(feature_mask=np.ones(3)), TypeError, "feature_mask: expected bool"),
        (dict(feature_mask=np.ones(2, bool)), ValueError, r"feature_mask: expected shape \(3,\)"),
        (dict(offset=np.full(24, np.nan)), ValueError, "offset: 24 of 24"),
        (dict(bias=1), TypeError, "bias: expected bool, got int"),
        (dict(max_steps=-1), ValueError, "max_steps: "),
        (dict(max_steps=2.5), TypeError, "max_steps: expected an integer"),
        (dict(tol=np.nan), ValueError, "tol: "),
        (dict(init=np.zeros(4)), TypeError, "init: expected a Hyperplane"),
        (dict(init=Hyperplane(np.zeros(4), np.zeros(()))), ValueError, r"init\.weights: .*\(3,\)"),
        (dict(init=Hyperplane(np.full(3, np.nan), np.zeros(()))), ValueError, r"init\.weights: 3"),
        (dict(solver="newton"), TypeError, "solver: expected a function"),
    ],
)
def test_bad_input_names_argument_expected_and_got(options, error, message):
    with pytest.raises(error, match=message):
        logistic.fit(**{"x": X, "y": Y, **options})


def test_bad_values_under_jit_are_a_status():
    for options in (dict(l2=-1.0), dict(tol=np.nan), dict(offset=np.full(24, np.inf))):
        jitted_fit = jax.jit(lambda x, y, options=options: logistic.fit(x, y, **options))
        params, info = jitted_fit(X, Y)
        assert code(info) == Status.INVALID_DATA
        assert np.all(np.isnan(coefficients(params)))


def test_labels_encode_mends_signed_labels():
    y, classes = labels.encode(2 * Y - 1)
    np.testing.assert_array_equal(classes, [-1, 1])
    plain, _ = logistic.fit(X, Y)
    encoded, _ = logistic.fit(X, y)  # labels of another dtype: another program
    np.testing.assert_allclose(plain.weights, encoded.weights, rtol=1e-14)


# --- derivatives ----------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", THOROUGH)
def test_derivatives_of_a_fit(solver):
    rng = np.random.default_rng(0)
    x, y = overlapping(n=24, seed=3)
    soft, weight, offset = 0.1 + 0.8 * y, rng.uniform(0.5, 2, 24), rng.normal(size=24)
    weight[3] = 0
    arguments = tuple(map(jnp.asarray, (x, soft, weight, np.array([0.1, 0.2, 0.3]), offset)))

    def outcome(x, y, weight, l2, offset):
        params, _ = logistic.fit(x, y, sample_weight=weight, l2=l2, offset=offset, solver=solver)
        return jnp.sum(jnp.sin(params.weights)) + params.bias**2

    grads = jax.jit(jax.grad(outcome, argnums=range(5)))(*arguments)
    moves = [jnp.asarray(rng.normal(size=a.shape)) for a in arguments]
    moves[2] = moves[2].at[3].set(0)
    value = jax.jit(lambda t: outcome(*(a + t * m for a, m in zip(arguments, moves, strict=True))))
    h = 3e-4
    slope = (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h)
    along = sum(jnp.vdot(g, m) for g, m in zip(grads, moves, strict=True))
    np.testing.assert_allclose(along, slope, rtol=1e-7)


def test_derivatives_at_rows_of_weight_zero():
    x, y = overlapping(n=24, seed=3)
    weight = jnp.ones(24).at[3].set(0)

    def outcome(weight, x):
        return jnp.sum(logistic.fit(x, y, sample_weight=weight, l2=0.1)[0].weights)

    grad = jax.grad(outcome)(weight, jnp.asarray(x))
    h = 1e-5
    up = [outcome(weight.at[3].set(k * h), jnp.asarray(x)) for k in range(3)]
    np.testing.assert_allclose(grad[3], (-3 * up[0] + 4 * up[1] - up[2]) / (2 * h), rtol=1e-5)
    holed = jax.grad(outcome, argnums=(0, 1))(weight, jnp.asarray(x).at[3].set(jnp.nan))
    assert holed[0][3] == 0 and np.all(np.isfinite(holed[0])) and np.all(np.isfinite(holed[1]))


def test_second_derivatives_and_a_warm_start():
    x, y = overlapping(n=24, seed=3)

    def outcome(l2, init=None):
        return jnp.sum(logistic.fit(x, y, l2=l2, init=init)[0].weights ** 2)

    l2 = jnp.array([0.1, 0.2, 0.3])
    hess = jax.hessian(outcome)(l2)
    np.testing.assert_allclose(hess, hess.T, rtol=1e-9)
    h = 1e-4
    move = jnp.array([h, 0.0, 0.0])
    cold = jax.jacfwd(outcome)
    np.testing.assert_allclose(hess[0], (cold(l2 + move) - cold(l2 - move)) / (2 * h), rtol=1e-5)
    optimum, _ = logistic.fit(x, y, l2=l2)
    cold, warm = cold(l2), jax.jacfwd(lambda v: outcome(v, optimum))(l2)
    np.testing.assert_allclose(warm, cold, rtol=1e-9)


# --- Firth ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", [(3, 5, 7, 2), (0, 5, 7, 2), (0, 5, 7, 0), (1, 0, 0, 0)])
def test_firth_adds_half_a_row_to_every_cell_of_a_table(table):
    """Of a saturated model Jeffreys' prior is half an observation more in each cell."""
    cells = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    counts = np.array(table, float)
    counts[counts.argmax()] += counts.sum() == 1
    x, y = cells[:, :1], cells[:, 1].astype(int)
    params, info = logistic.fit_firth(x, y, sample_weight=counts)
    if (counts[:2].sum() == 0) | (counts[2:].sum() == 0):
        assert info.status == Status.RANK_DEFICIENT  # one value of x only
        return
    (a, b), (c, d) = (counts + 0.5).reshape(2, 2)
    np.testing.assert_allclose(params.bias, np.log(b / a), rtol=1e-10)
    np.testing.assert_allclose(params.weights[0], np.log(a * d / (b * c)), rtol=1e-10)
    assert info.status == Status.CONVERGED


@pytest.mark.parametrize("more", [0, 5])  # with 5 more columns rows are fewer than squares of them
@pytest.mark.parametrize("seed", range(4))
def test_firth_solves_the_modified_score_equations(seed, more):
    rng = np.random.default_rng(seed)
    unit, far = np.r_[1, 1e-4, 1e4, np.ones(more)], np.r_[0, 0, 1e5, np.zeros(more)]
    x = rng.normal(size=(24, 3 + more)) * unit + far
    y = (rng.normal(size=24) + rng.normal(size=24) * (seed % 2) + x[:, 0] > 0).astype(int)
    weight, offset = rng.integers(0, 4, size=24), rng.normal(size=24) * (seed > 1)
    params, info = logistic.fit_firth(x, y, sample_weight=weight, offset=offset)
    assert info.status == Status.CONVERGED
    z = np.column_stack([(x - far) / unit, np.ones(24)])
    weights = np.asarray(params.weights) * unit
    bias = params.bias + params.weights[2] * 1e5
    scores = z @ np.append(weights, bias) + offset
    chance = 1 / (1 + np.exp(-scores))
    curve = weight * chance * (1 - chance)
    information = (z.T * curve) @ z
    lever = curve * np.sum(z * np.linalg.solve(information, z.T).T, axis=1)
    score = z.T @ (weight * (y - chance) + lever * (0.5 - chance))
    np.testing.assert_allclose(score, 0, atol=1e-9)
    loss = np.sum(weight * np.logaddexp(0, np.where(y, -scores, scores)))
    # The units multiply the determinant by one.
    penalised = loss - np.linalg.slogdet(information)[1] / 2
    np.testing.assert_allclose(info.objective * int(weight.sum()), penalised, rtol=1e-9)


def test_firth_is_finite_where_a_plane_separates():
    x, y, *_ = datasets.breast_cancer()
    params, info = logistic.fit_firth(x[:, :8], y)
    assert info.status == Status.CONVERGED and np.isfinite(coefficients(params)).all()
    twice, info = logistic.fit_firth(np.column_stack([x[:, :2], x[:, 0]]), y)
    single, _ = logistic.fit_firth(x[:, :2], y)
    assert info.status == Status.RANK_DEFICIENT
    np.testing.assert_allclose(twice.weights[::2], single.weights[0] / 2, rtol=1e-8)
    alone, info = logistic.fit_firth(np.ones((9, 1)), np.ones(9, int), feature_mask=[False])
    assert info.status == Status.CONVERGED
    np.testing.assert_allclose(alone.bias, np.log(9.5 / 0.5), rtol=1e-10)


def test_a_column_of_roundings_is_no_constant():
    """In single precision 1 and its two neighbours; a fit without it is not the optimum."""
    rng, y = np.random.default_rng(0), np.arange(200) % 2
    x = rng.normal(size=(200, 2)) + y[:, None]
    x[:, 1] = 1 + 1.2e-7 * rng.integers(-1, 2, size=200)
    x = x.astype(np.float32)
    assert len(np.unique(x[:, 1])) > 1
    _, info = logistic.fit(x, y)
    assert info.status == Status.STALLED
    params, info = logistic.fit(x, y, l2=1e-3)
    assert info.status == Status.CONVERGED and params.weights[1] != 0
    _, info = logistic.fit(np.where(np.arange(2) == 1, x[0, 1], x), y)
    assert info.status == Status.RANK_DEFICIENT


def test_where_a_bound_proves_nothing_the_rows_do():
    """Else it takes a step that nobody asked for."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 200, 50))
    y = (x[:, :, 0] + rng.normal(size=(12, 200)) > 0).astype(int)
    for each in range(12):
        _, info = logistic.fit(x[each], y[each], l2=1e-2, tol=1e-3, solver=solvers.newton)
        assert info.status == Status.CONVERGED and info.residual >= 1e-6


@pytest.mark.parametrize("solver", [solvers.newton, solvers.lbfgs])
def test_a_loose_tol_makes_no_optimum(solver):
    """Residuals pass long before the optimum that is not there: only a proof says CONVERGED."""
    x = np.array([[0.0, 1.0], [1.0, -1.0], [1.0, -1.0], [2.0, 1.0], [0.0, 3.0], [2.0, -2.0]])
    kinds = {
        Status.SEPARABLE: [0, 0, 0, 1, 0, 1],
        Status.QUASI_SEPARABLE: [0, 0, 1, 1, 0, 1],
        Status.CONVERGED: [0, 1, 0, 1, 1, 0],
    }
    for kind, y in kinds.items():
        for tol in (1.0, 1e-2, 1e-4, 1e-6):
            _, info = logistic.fit(x, np.array(y), tol=tol, solver=solver)
            assert info.status == kind, tol


@pytest.mark.parametrize("hair", [1e-2, 1e-5, 1e-7, 1e-9])
def test_one_row_that_crosses_by_a_hair_is_an_optimum(hair):
    """Without it the classes are quasi-separable, and a direction that only it opposes remains."""
    x = np.array([[0, -1], [0, 1], [0, -1], [0, 1], [1, 0], [2, 1], [-1, 0], [-2, 1], [-hair, 0.3]])
    y = np.array([0, 1, 1, 0, 1, 1, 0, 0, 1])
    for last in (1.0, 1e-3, 1e-6):
        _, info = logistic.fit(x, y, sample_weight=np.array([1.0] * 8 + [last]))
        assert info.status == Status.CONVERGED
    _, info = logistic.fit(x[:8], y[:8])
    assert info.status == Status.QUASI_SEPARABLE


def splits_but_for_rounding(x, y):
    """Whether a plane splits the classes once each entry of x may move by a few units of rounding.

    Minimises the scores' size, |x| |w| over all rows, of planes with a total agreement of 1.
    """
    eps, x = float(np.finfo(x.dtype).eps), x.astype(float)
    sign, nothing = 2 * y[:, None] - 1, np.zeros((len(x), 2))
    score = np.hstack([sign * x, -sign * x, sign, -sign])
    size = np.hstack([abs(x), abs(x), nothing])
    one = dict(A_eq=score.sum(0)[None], b_eq=[1])
    found = linprog(size.sum(0), A_ub=-(score + eps * size), b_ub=np.zeros(len(x)), **one)
    return found.status == 0 and found.fun < 0.02 / eps


@pytest.mark.parametrize("fit", [logistic.fit, partial(softmax.fit, num_classes=2)])
@pytest.mark.parametrize("number", [400, thorough(8_000)])
def test_rows_near_one_another_are_not_taken_for_rows_on_a_plane(number, fit):
    """No verdict of float32 is false of its float32 data, by exact linear programs.

    Rows differ by 2^-8 to 2^-18, which is 32 units of rounding and more: a plane through one is
    about through the other, and where their labels cross there is an optimum, far out.
    """
    rng = np.random.default_rng(number)
    x, y = np.zeros((number, 10, 3)), np.zeros((number, 10), int)
    rows, columns = rng.integers(4, 11, size=number), rng.integers(1, 4, size=number)
    for i in range(number):
        base = rng.integers(-2, 3, size=(10, columns[i]))
        side = np.sign(base @ rng.integers(-2, 3, size=columns[i]))
        y[i] = np.where(side == 0, rng.integers(2, size=10), side > 0)
        hair = np.ldexp(1.0, -rng.integers(8, 19)) * rng.integers(-1, 2, size=base.shape)
        x[i, :, : columns[i]] = base + hair
    x = x.astype(np.float32)
    weight = (np.arange(10)[None, :] < rows[:, None]).astype(np.float32)
    found = jax.jit(jax.vmap(lambda x, y, w: fit(x, y, sample_weight=w)[1].status))(x, y, weight)
    told = {"overlapping": set(), "quasi-separable": set(), "separable": set()}
    for i in range(number):
        own, label = x[i, : rows[i], : columns[i]], y[i, : rows[i]]
        status = Status(int(found[i]))
        if len(set(label)) < 2:
            continue
        kind = exact.kind(own, label)
        split = status in (Status.SEPARABLE, Status.QUASI_SEPARABLE)
        if kind != "overlapping" or not (split and splits_but_for_rounding(own, label)):
            told[kind].add(status)
    told = {kind: found - {Status.STALLED, Status.MAX_STEPS} for kind, found in told.items()}
    assert told["overlapping"] <= {Status.CONVERGED, Status.RANK_DEFICIENT}
    assert told["quasi-separable"] == {Status.QUASI_SEPARABLE}
    assert told["separable"] <= {Status.QUASI_SEPARABLE, Status.SEPARABLE}


@pytest.mark.parametrize("hair, slope", [(1e-4, 10.596344991723), (1e-6, 15.2018008711900)])
def test_in_float32_labels_that_cross_by_a_hair_have_an_optimum(hair, slope):
    """Not a plane with two rows on it: the slope is that of 40 digits on the same numbers."""
    x, y = np.array([[-1], [hair], [0], [1]], np.float32), np.array([0, 0, 1, 1])
    lanes = jax.vmap(logistic.fit, in_axes=(0, None))
    for found, info in (
        logistic.fit(x, y),
        jax.jit(partial(logistic.fit, l2=0.0))(x, y),
        jax.tree.map(lambda a: a[0], jax.jit(lanes)(np.stack([x, 2 * x]), y)),
    ):
        assert info.status == Status.CONVERGED
        np.testing.assert_allclose(found.weights, slope, rtol=1e-5)
    found, info = softmax.fit(x, y)
    assert info.status == Status.CONVERGED
    np.testing.assert_allclose(found.weights[1] - found.weights[0], slope, rtol=1e-5)


@pytest.mark.parametrize("fit", [logistic.fit, partial(softmax.fit, num_classes=2)])
def test_columns_far_from_0_are_fitted_in_float32_and_the_residual_is_no_less_than_it_is(fit):
    """A bias, of about -700 for years, is rounded once, whatever it is the sum of."""
    for seed, (centre, d) in enumerate([(1993, 1), (-1993, 3), (1993, 8)]):
        rng = np.random.default_rng(seed)
        x = np.round(rng.normal(size=(300, d)) * 3 + centre)
        y = (
            (x - centre) @ (-1.0) ** np.arange(d) / 3 / np.sqrt(d) + rng.logistic(size=300) > 0
        ).astype(int)
        params, info = fit(x.astype(np.float32), y)
        exactly, _ = fit(x, y)
        assert info.status == Status.CONVERGED
        w, b = (np.asarray(a, float) for a in params)
        np.testing.assert_allclose(w, exactly.weights, rtol=1e-4, atol=1e-5)
        w, b = (w, b) if w.ndim == 1 else (w[1] - w[0], b[1] - b[0])
        pull = (1 / (1 + np.exp(-(x @ w + b))) - y) / len(x)
        standard = np.column_stack([(x - x.mean(0)) / x.std(0), np.ones(len(x))])
        assert np.abs(pull @ standard).max() <= float(info.residual)


def test_where_every_weight_is_penalised_nothing_recedes():
    """A penalty that the program does not know, and no bias: no direction is free."""
    rng = np.random.default_rng(0)
    x = 100 * rng.normal(size=(200, 12, 2))
    y = (x[:, :, 0] + 30 * rng.normal(size=(200, 12)) > 0).astype(int)
    y[:, :2] = 0, 1
    fit = jax.jit(
        jax.vmap(
            lambda x, y, l2, tol: logistic.fit(x, y, l2=l2, tol=tol, bias=False),
            in_axes=(0, 0, None, None),
        )
    )
    for l2 in (0.1, 1e-3):
        for tol in (1e-10, 1e-3, 0.1):
            _, info = fit(x, y, l2, tol)
            assert (info.status == Status.CONVERGED).all()


@pytest.mark.parametrize("size", [2.0**55, 2.0**-55])
def test_a_column_of_zeros_but_for_a_few_rows_is_solved_in_its_units(size):
    """Whichever rows a fit looks at first."""
    rng, n = np.random.default_rng(0), 20_000
    x = np.zeros((n, 9), np.float32)
    x[:, 0] = rng.normal(size=n)
    y = (x[:, 0] + rng.logistic(size=n) > 0).astype(int)
    rows = rng.permutation(n)[:24].reshape(8, 3)
    x[rows, 1 + np.arange(8)[:, None]] = size
    y[rows] = 0, 1, 1
    for solver in (None, solvers.lbfgs):
        params, info = logistic.fit(x, y, l2=np.zeros(9), solver=solver)
        assert info.status == Status.CONVERGED
        scores = x[rows].astype(float) @ np.asarray(params.weights, float) + float(params.bias)
        np.testing.assert_allclose((1 / (1 + np.exp(-scores))).sum(axis=1), 2, rtol=1e-3)


def test_a_penalised_lane_of_one_class_ends_at_once():
    """A batch takes as many steps as the slowest of its lanes."""
    x, y = overlapping()
    _, info = jax.jit(jax.vmap(lambda y: logistic.fit(x, y, l2=1e-2)))(np.stack([0 * y, y]))
    assert info.status.tolist() == [Status.CLASS_TOO_SMALL, Status.CONVERGED]
    assert info.steps[0] <= 1


@pytest.mark.parametrize("solver", [None, solvers.newton, solvers.lbfgs])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_start_beyond_all_reason_is_left(solver, dtype):
    """Where J, or the squares of what led there, overflow."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 4)).astype(dtype)
    y, k = rng.integers(3, size=30), 3
    near = 1e-3 if dtype == np.float32 else 1e-8  # L-BFGS' tolerance over the penalty, at most
    for size in (1e30, float(np.finfo(dtype).max) / 2):
        row = np.full(4, size, dtype)
        plane = Hyperplane(row, dtype(-size))
        found, info = logistic.fit(x, y > 0, l2=0.01, init=plane, solver=solver)
        expected, _ = logistic.fit(x, y > 0, l2=0.01)
        assert info.status == Status.CONVERGED
        chex.assert_trees_all_close(found, expected, atol=near)
        start = Linear(np.stack([row, -row, row]), np.array([size, -size, size], dtype))
        found, info = softmax.fit(x, y, num_classes=k, l2=0.01, init=start, solver=solver)
        expected, _ = softmax.fit(x, y, num_classes=k, l2=0.01)
        assert info.status == Status.CONVERGED
        chex.assert_trees_all_close(found, expected, atol=near)


@pytest.mark.parametrize(("fit", "shape"), [(logistic.fit, (300, 400)), (softmax.fit, (5000, 30))])
def test_what_is_no_number_is_seen_though_x_is_read_once_less(fit, shape):
    """Where an eager call does not look for it first: the frame's moments tell."""
    rng = np.random.default_rng(0)
    x, weight = rng.normal(size=shape), np.ones(shape[0])
    y, weight[7] = (x[:, 0] + rng.normal(size=len(x)) > 0).astype(int), 0
    call = partial(fit, l2=0.1, sample_weight=weight, feature_mask=np.arange(shape[1]) != 3)
    x[7, 1], x[2, 1], x[5, 3] = 0, 0, np.inf
    expected = call(x, y)
    assert expected[1].status == Status.CONVERGED
    limit = _checks.safe_range(float)
    for value in (np.nan, -np.inf, 2 * limit, -2 * limit):
        x[7, 1] = value
        chex.assert_trees_all_close(call(x, y), expected, rtol=0, atol=1e-7)
        x[7, 1], x[2, 1] = 0, value
        with pytest.raises(ValueError, match=r"^x: 1 of .* not finite, or larger .* at \(2, 1\)"):
            call(x, y)
        x[2, 1] = 0


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_sums_tell_what_is_no_number_in_a_row_without_weight(value, bias):
    x, y = overlapping(n=5000)
    weight = np.ones(len(x))
    weight[7] = 0
    data = _checks.table(x, y, sample_weight=weight)
    rows, *_ = _prepare.prepare(data, num_classes=2, trusted=True)
    no_penalty = jnp.zeros(3)
    assert _frame.make(rows, no_penalty, bias).bounded
    spoiled = rows._replace(x=rows.x.at[7, 1].set(value))
    assert not _frame.make(spoiled, no_penalty, bias).bounded


@pytest.mark.parametrize("l2", [0.0, 0.01])
def test_the_first_step_is_about_as_long_as_to_the_optimum(l2):
    # Of Gaussian classes; Newton's own step from 0 leaves at least ten times as much of J.
    rng = np.random.default_rng(2)
    y = rng.integers(0, 2, 4_000)
    x = rng.normal(size=(4_000, 3)) + 0.8 * rng.normal(size=(2, 3))[y]
    params, best = logistic.fit(x, y, l2=l2)
    _, found = logistic.fit(x, y, l2=l2, max_steps=1)

    def objective(flat):
        return losses.objective(losses.logistic, unravel(flat), x, y, l2=l2)

    origin, unravel = jax.flatten_util.ravel_pytree(jax.tree.map(jnp.zeros_like, params))
    slope, curve = jax.grad(objective)(origin), jax.hessian(objective)(origin)
    plain = origin - jnp.linalg.solve(curve, slope)
    assert found.steps == 1
    assert found.objective - best.objective <= (objective(plain) - best.objective) / 10


@pytest.mark.parametrize("l2", [0.0, 1.0, 1e3])
def test_the_first_step_is_never_refused(l2):
    # No longer than twice Newton's own: the curvature of the loss is largest at 0.
    rng = np.random.default_rng(0)
    x = rng.standard_t(1.5, size=(200, 30, 4)) * np.exp(3 * rng.normal(size=(200, 1, 4)))
    y = (x[..., 0] / np.max(np.abs(x[..., 0])) > 2 * rng.random((200, 1)) - 1).astype(int)
    y[:, 0], y[:, 1] = 0, 1
    _, info = jax.vmap(partial(logistic.fit, l2=l2, max_steps=1))(x, y)
    assert np.all(info.steps == 1)
    assert np.all(info.objective < np.log(2))

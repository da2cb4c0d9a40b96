"""Fits of more features than rows: the same optimum, certificate and derivatives as any other."""

import functools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from jaxlin import logistic, losses, softmax, solvers
from jaxlin._base import _checks
from jaxlin._data import _prepare
from jaxlin._smooth import _dual, _frame, _light, _record, _wide
from jaxlin.types import Hyperplane, Status
from tests.public import assert_close, assert_identical, lane, stack, thorough

N, D, K = 10, 300, 3


def drawn(seed=0, dtype=float):
    """Rows that share a part, two of them twice, and soft in no way."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, D)) + 2 * rng.normal(size=D)[None, :]
    x[1] = x[0]
    y = np.arange(N) % 2
    return x.astype(dtype), y, rng.choice([0.5, 1.0, 2.0], size=N)


def gradient(loss, params, x, y, *, l2, **options):
    """Of the mean objective in float64, for centred columns of unit variance."""
    params = jax.tree.map(lambda a: jnp.asarray(a, float), params)

    def objective(params):
        return losses.objective(loss, params, np.asarray(x, float), y, l2=l2, **options)

    grad = jax.grad(objective)(params)
    weight = options.get("sample_weight", np.ones(len(x)))
    mean, spread = np.average(x, axis=0, weights=weight), np.std(x, axis=0)
    moved = np.asarray(grad.weights) - np.asarray(grad.bias)[..., None] * mean
    return max(np.abs(moved / spread).max(), np.abs(grad.bias).max())


@pytest.mark.parametrize("dtype", [np.float64, thorough(np.float32)])
@pytest.mark.parametrize("l2", [1e-4, 1.0])
def test_converged_is_the_optimum(l2, dtype):
    tol = np.finfo(dtype).eps ** (2 / 3)
    x, y, weight = drawn(dtype=dtype)
    params, info = logistic.fit(x, y, l2=l2, sample_weight=weight)
    assert info.status == Status.CONVERGED
    assert gradient(losses.logistic, params, x, y, l2=l2, sample_weight=weight) <= 2 * tol
    many, info = softmax.fit(x, y + (x[:, 0] > 0), num_classes=K, l2=l2)
    assert info.status == Status.CONVERGED
    assert gradient(losses.softmax, many, x, y + (x[:, 0] > 0), l2=l2) <= 2 * tol
    assert np.abs(np.sum(many.weights, axis=0)).max() <= 8 * np.finfo(dtype).eps


@pytest.mark.parametrize("init", [False, True])
def test_next_to_no_penalty_is_converged_only_where_it_is_reached(init):
    """What the penalty holds is far away, though every gradient is small."""
    x, y, weight = drawn()
    x[1] += 0.1 * x[2]
    start = Hyperplane(weights=1e-3 * np.ones(D), bias=np.zeros(())) if init else None
    reached = set()
    for l2 in (1e-20, 1e-50, 1e-150, 1e-300):
        params, info = logistic.fit(x, y, l2=l2, sample_weight=weight, init=start)
        if info.status == Status.CONVERGED:
            reached.add(l2)
            sign, scores = 2.0 * y - 1, x @ np.asarray(params.weights) + float(params.bias)
            pull = weight / weight.sum() * sign / (1 + np.exp(sign * scores))
            np.testing.assert_allclose(l2 * params.weights, pull @ x, atol=1e-5 * l2 * norm(params))
            assert abs(pull.sum()) <= 1e-5 * np.abs(pull).sum()
        else:
            assert info.status in (Status.STALLED, Status.MAX_STEPS)
    assert init or {1e-20, 1e-50} <= reached
    assert 1e-300 not in reached


@pytest.mark.parametrize("tol", [None, 1e-6])
def test_a_class_of_next_to_no_weight_is_converged_only_where_the_bias_is_near(tol):
    """Weights are 0 where they are all but forbidden: the bias is the log odds of the classes."""
    x, y, _ = drawn()
    for part in (1e-3, 1e-9, 1e-15, 1e-30):
        weight = np.where(y == 1, part, 1.0)
        params, info = logistic.fit(x, y, l2=1e12, sample_weight=weight, tol=tol)
        if info.status == Status.CONVERGED:
            np.testing.assert_allclose(params.bias, np.log(part), rtol=0.01)
        else:
            assert part < 1e-9


def norm(params):
    return np.linalg.norm(params.weights)


TROUBLES = {
    "rows of all sizes": lambda rng, x: x * 10.0 ** rng.uniform(-3, 3, size=(len(x), 1)),
    "every row twice": lambda rng, x: np.concatenate([x[: len(x) // 2]] * 2),
    "few directions": lambda rng, x: x[:, :3] @ rng.normal(size=(3, D)) + 1e-3 * x,
    "columns of all sizes": lambda rng, x: x * 10.0 ** rng.uniform(-4, 4, size=D),
}


@pytest.mark.parametrize("dtype", [np.float64, thorough(np.float32)])
@pytest.mark.parametrize("trouble", TROUBLES)
def test_converged_where_rows_are_in_trouble(trouble, dtype):
    """Where products with the rows' inner products come to nothing a factor does it."""
    rng = np.random.default_rng(0)
    x = TROUBLES[trouble](rng, rng.normal(size=(4 * N, D))).astype(dtype)
    many, two = rng.integers(0, 4, len(x)), rng.integers(0, 2, len(x))
    l2 = 1e-6 * np.var(x) if dtype == np.float64 else np.var(x)
    tol = np.finfo(dtype).eps ** (2 / 3)
    for fit, loss, y in ((logistic.fit, losses.logistic, two), (softmax.fit, losses.softmax, many)):
        params, info = fit(x, y, l2=l2)
        assert info.status == Status.CONVERGED
        assert gradient(loss, params, x, y, l2=l2) <= 2 * tol


def test_a_class_that_is_absent_is_not_felt():
    x, y, _ = drawn()
    three = np.where(x[:, 0] > x[0, 0], 2, y)
    found, info = softmax.fit(x, np.where(three > 0, three + 1, 0), num_classes=5, l2=1e-2)
    other, _ = softmax.fit(x, three, num_classes=K, l2=1e-2)
    assert info.status == Status.CONVERGED
    here = np.array([0, 2, 3])
    assert_close(jax.tree.map(lambda a: a[here], found), other, 1e-9)
    gone = np.array([1, 4])
    assert np.all(np.isneginf(found.bias[gone])) and np.all(found.weights[gone] == 0)


@pytest.mark.thorough
def test_another_solver_finds_the_same():
    x, y, weight = drawn()
    rng = np.random.default_rng(1)
    options = dict(
        l2=10.0 ** rng.uniform(-3, 1, size=D),
        sample_weight=weight,
        offset=rng.normal(size=N),
        feature_mask=rng.random(D) < 0.95,
    )
    soft = 0.1 + 0.8 * y
    for bias in (True, False):
        found, info = logistic.fit(x, soft, bias=bias, **options)
        other, _ = logistic.fit(x, soft, bias=bias, solver=solvers.newton, **options)
        assert info.status == Status.CONVERGED
        assert_close(found, other, 1e-9)


@pytest.mark.parametrize("many", [False, True])
def test_without_bias_in_a_program(many):
    """Which holds a factor for the problems that need one."""
    x, y, _ = drawn()
    fit = functools.partial(softmax.fit, num_classes=2) if many else logistic.fit
    fit = functools.partial(fit, x, y, l2=0.1, bias=False)
    found, info = jax.jit(fit)()
    assert info.status == Status.CONVERGED
    assert_close(found, fit()[0], 1e-9)


def test_a_start_at_the_optimum_is_the_end():
    x, y, _ = drawn()
    params, info = logistic.fit(x, y, l2=1e-3)
    again, warm = logistic.fit(x, y, l2=1e-3, init=params)
    assert warm.status == Status.CONVERGED and warm.steps <= 2 < info.steps
    assert_close(again, params, 1e-9)


@pytest.mark.parametrize(
    ("dtype", "begun"),
    [
        (np.float64, False),
        (np.float32, True),
        thorough(np.float64, True),
        thorough(np.float32, False),
    ],
)
def test_columns_again_and_again_are_a_narrow_fit(dtype, begun):
    """Of a hundred copies of each column each weight is a hundredth, under the penalty's part.

    The products of rows are sums of so many equal terms that rounding leaves them no factor.
    """
    rng = np.random.default_rng(0)
    narrow, copies, l2 = rng.normal(size=(60, 4)).astype(dtype), 100, 1e-6
    y = (narrow[:, 0] + rng.normal(size=60) > 0).astype(int)
    x = narrow.repeat(copies, axis=1)
    init = Hyperplane(np.zeros(x.shape[1], dtype), np.zeros((), dtype)) if begun else None
    params, info = logistic.fit(x, y, l2=l2, init=init)
    assert info.status == Status.CONVERGED
    exact, _ = logistic.fit(narrow.astype(float), y, l2=l2 / copies)
    rtol = {np.float32: 1e-4, np.float64: 1e-7}[dtype]
    whole = params.weights.reshape(-1, copies)
    np.testing.assert_allclose(whole.sum(axis=1), exact.weights, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(params.bias, exact.bias, rtol=rtol)
    if dtype == np.float64:  # so small a penalty has no digits left in float32
        np.testing.assert_allclose(whole, whole[:, :1].repeat(copies, axis=1), rtol=rtol)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("many", [False, True])
def test_products_alone_find_most_optima(many, bias):
    """Without a factor, by few steps; J, and the bound of the residual, are those of the point."""
    x, y, weight = drawn()
    x[1] = x[2, ::-1]
    y = y + (x[:, 0] > 0) if many else y
    spec = _record.Spec((softmax if many else logistic)._LOSS, None, bias)
    rows, *_ = _prepare.prepare(
        _checks.table(x, y, sample_weight=weight, soft=True), num_classes=K if many else 2
    )
    basis = _frame.class_basis(_prepare.present(rows, K), float) if many else None
    problem = _frame.make(rows, jnp.full(D, 1e-5), bias, basis)

    @jax.jit
    def found(problem):
        space = _wide._space(problem)
        outcome = _wide._by_products(spec, problem, space, 1e-11, jnp.int32(100))
        run = _dual.begin(spec, problem, space.kernel, jnp.asarray(1e-11))
        zero = jnp.zeros((problem.used.size, N))
        first = _dual.look(run, zero, zero[:, 0], zero)
        step = _dual.direction(run, first)
        point = _dual.moved(run, first, step, 1.0)
        weights = _wide._theta(spec, space, point)
        return outcome, point, _light.light(spec, problem, weights)

    outcome, point, exact = found(problem)
    assert outcome.certified and outcome.point.residual <= 1e-15 and outcome.steps <= 20
    np.testing.assert_allclose(point.value, exact.value, rtol=1e-12)
    assert exact.residual <= point.residual <= 100 * exact.residual


def test_what_has_no_weight_is_not_felt():
    x, y, weight = drawn()
    weight[[3, 6]] = 0
    clean, _ = logistic.fit(x, y, l2=0.1, sample_weight=weight)
    for hole in (np.nan, np.inf, 1e30, 1e140):
        holed = x.copy()
        holed[3], holed[6, 2] = hole, hole
        found, info = logistic.fit(holed, y, l2=0.1, sample_weight=weight)
        assert info.status == Status.CONVERGED
        assert_close(found, clean, 1e-9)
    mask = np.arange(D) != 5
    masked = x.copy()
    masked[:, 5] = np.nan
    found, _ = logistic.fit(masked, y, l2=0.1, sample_weight=weight, feature_mask=mask)
    other, _ = logistic.fit(x, y, l2=0.1, sample_weight=weight, feature_mask=mask)
    assert found.weights[5] == 0
    assert_identical(found, other)


@pytest.mark.thorough
def test_every_trouble_as_a_lane():
    """The penalty is known only when the program runs: a lane of 0 goes another way."""
    x, y, weight = drawn()
    one, nan = np.ones(N), x.copy()
    nan[3, 1] = np.nan
    good = (x, y, weight, 0.1)
    troubles = [
        (Status.INVALID_DATA, (nan, y, one, 0.1)),
        (Status.INVALID_DATA, (x, y, one, -0.1)),
        (Status.CLASS_TOO_SMALL, (x, y, 1.0 * y, 0.1)),
        (Status.CONVERGED, (nan, y, 1.0 * (np.arange(N) != 3), 0.1)),
        (Status.CONVERGED, (1e6 * x + 1e9, y, one, 0.1)),
        (Status.CONVERGED, (x, y, weight, 1e-3)),
        (Status.QUASI_SEPARABLE, (x, y, weight, 0.0)),
    ]
    fit = jax.jit(jax.vmap(lambda x, y, w, l2: logistic.fit(x, y, sample_weight=w, l2=l2)))
    mixed = fit(*stack([good, *(arguments for _, arguments in troubles)]))
    clean = fit(*stack([good] * (1 + len(troubles))))
    assert_identical(*(lane(batch, 0) for batch in (mixed, clean)))
    for i, l2 in ((0, 0.1), (6, 1e-3)):
        singly, _ = logistic.fit(x, y, l2=l2, sample_weight=weight)
        assert_close(lane(mixed[0], i), singly, 1e-9)
    assert logistic.fit(x, y, sample_weight=weight)[1].status == Status.QUASI_SEPARABLE
    assert [int(s) for s in mixed[1].status] == [0, *(int(status) for status, _ in troubles)]


def test_few_steps_and_half_precision():
    x, y, _ = drawn()
    assert logistic.fit(x, y, l2=1e-4, max_steps=1)[1].status == Status.MAX_STEPS
    assert logistic.fit(x, y, l2=1e-3, tol=0.0)[1].status == Status.STALLED
    half = x.astype(ml_dtypes.bfloat16)
    found, info = logistic.fit(half, y, l2=0.1)
    wide, _ = logistic.fit(half.astype(float), y, l2=0.1)
    assert info.status == Status.CONVERGED and found.weights.dtype == np.float32
    assert_close(jax.tree.map(lambda a: a.astype(float), found), wide, 1e-4)


@pytest.mark.thorough
@pytest.mark.parametrize("many", [False, True])
def test_derivatives(many):
    x, y, weight = drawn()
    weight[4] = 0
    rng = np.random.default_rng(0)
    shape = (N, K) if many else (N,)
    soft = np.full(shape, 0.1) + (0.7 * np.eye(K)[y] if many else 0.8 * y)
    fit = softmax.fit if many else logistic.fit
    mask = np.arange(D) != 7

    def outcome(x, soft, weight, l2, offset):
        params, _ = fit(x, soft, l2=l2, sample_weight=weight, offset=offset, feature_mask=mask)
        return jnp.sum(jnp.sin(params.weights)) + jnp.sum(params.bias**2)

    change = rng.normal(size=shape)
    moves = (
        rng.normal(size=x.shape),
        change - change.mean(1, keepdims=True) if many else change,
        rng.normal(size=N) * (weight > 0),
        rng.normal(size=D) * 0.05,
        rng.normal(size=shape),
    )
    at = (x, soft, weight, np.full(D, 0.5), np.zeros(shape))
    grads = jax.grad(outcome, argnums=range(5))(*map(jnp.asarray, at))
    h = 1e-5
    ahead, back = (
        outcome(*(a + sign * h * m for a, m in zip(at, moves, strict=True))) for sign in (1, -1)
    )
    along = sum(jnp.vdot(g, m) for g, m in zip(grads, moves, strict=True))
    np.testing.assert_allclose(along, (ahead - back) / (2 * h), rtol=1e-6)
    up = [outcome(at[0], soft, weight + k * h * (np.arange(N) == 4), *at[3:]) for k in range(3)]
    slope = (-3 * up[0] + 4 * up[1] - up[2]) / (2 * h)
    np.testing.assert_allclose(grads[2][4], slope, rtol=1e-5)
    if not many:
        forward = jax.jacfwd(functools.partial(outcome, *at[:3]))(at[3], at[4])
        np.testing.assert_allclose(forward, grads[3], rtol=1e-9, atol=1e-12)

        def of_penalty(factor):
            return outcome(*at[:3], factor * at[3], at[4])

        second = jax.hessian(of_penalty)(1.0)
        ahead, middle, back = (of_penalty(1 + move) for move in (1e-3, 0.0, -1e-3))
        np.testing.assert_allclose(second, (ahead - 2 * middle + back) / 1e-6, rtol=1e-5)

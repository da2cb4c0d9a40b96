"""Softmax regression: the optimum, the gauge, separation, derivatives, bad input."""

import functools
from fractions import Fraction

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import jaxlin
from jaxlin import _linalg, datasets, linear, logistic, losses, softmax, solvers
from jaxlin._base import _checks
from jaxlin._data import _prepare
from jaxlin._smooth import _frame, _light, _passes, _proof, _record
from jaxlin.types import Linear, Status
from tests.public import assert_close, stack, thorough

N, D, K = 40, 3, 3
THOROUGH = thorough(solvers.lbfgs)
SOLVERS = pytest.mark.parametrize("solver", [solvers.newton, THOROUGH])


def drawn(seed=0, n=N, noise=2.0):
    """Overlapping classes, with weights."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, D))
    y = np.argmax(x @ rng.normal(size=(D, K)) + noise * rng.normal(size=(n, K)), axis=1)
    return x, y, rng.choice([0.0, 0.5, 1.0, 2.0], size=n)


def fit(x, y, *, k=K, l2=0.0, sample_weight=None, offset=None, **static):
    """`softmax.fit`, padded by rows of weight 0, masked columns, NaN in both, and absent classes.

    So that the small problems of a dtype are one program: a compile takes seconds.
    """
    (n, d), more = np.shape(x), (60 - len(x), 5 - np.shape(x)[1])
    dtype, top = np.asarray(x).dtype, K + 1 - k
    weight = np.ones(n) if sample_weight is None else sample_weight
    offset = np.zeros((n, k)) if offset is None else offset
    params, info = softmax.fit(
        np.pad(x, ((0, more[0]), (0, more[1])), constant_values=np.nan),
        np.pad(y, ((0, more[0]), (0, top))[: np.ndim(y)]),
        num_classes=K + 1,
        l2=l2,
        sample_weight=np.pad(np.asarray(weight, dtype), (0, more[0])),
        offset=np.pad(offset.astype(dtype), ((0, more[0]), (0, top)), constant_values=7),
        feature_mask=np.arange(5) < d,
        **static,
    )
    assert not np.any(params.weights[k:]) and not np.any(params.weights[:, d:])
    assert np.all(np.isneginf(params.bias[k:]))
    return Linear(params.weights[:k, :d], params.bias[:k]), info


def gradient(params, x, y, *, l2=0.0, weight=None, offset=0.0):
    """Of the mean objective in float64, by numpy; absent classes have probability 0."""
    w, b = np.asarray(params.weights, float), np.asarray(params.bias, float)
    share = np.ones(len(x)) if weight is None else np.asarray(weight, float)
    share = share / share.sum()
    target = y if np.ndim(y) == 2 else np.eye(len(b))[y]
    s = np.asarray(x, float) @ w.T + b + offset
    p = np.exp(s - s.max(1, keepdims=True))
    pull = share[:, None] * (p / p.sum(1, keepdims=True) - target)
    return np.concatenate([pull.T @ x + l2 * w, pull.sum(0)[:, None]], axis=1)


@pytest.mark.parametrize(
    "solver, dtype",
    [
        (solvers.newton, np.float64),
        (solvers.newton, np.float32),
        thorough(solvers.lbfgs, np.float64),
    ],
)
def test_converged_is_the_optimum(solver, dtype):
    for seed in range(3):
        x, y, weight = drawn(seed)
        for l2 in (0.0, 0.1):
            params, info = fit(x.astype(dtype), y, l2=l2, sample_weight=weight, solver=solver)
            assert info.status == Status.CONVERGED
            tol = np.finfo(dtype).eps ** (2 / 3)
            assert np.abs(gradient(params, x, y, l2=l2, weight=weight)).max() <= 4 * tol
            assert np.abs(np.sum(params.weights, axis=0)).max() <= 8 * np.finfo(dtype).eps
            assert abs(np.sum(params.bias)) <= 8 * np.finfo(dtype).eps


def test_scikit_learns_optimum():
    x, y, _, _ = datasets.iris()
    l2 = 1e-2
    params, info = softmax.fit(x, y, l2=l2)
    peer = LogisticRegression(C=1 / (l2 * len(x)), tol=1e-10, max_iter=10_000).fit(x, y)
    np.testing.assert_allclose(params.weights, peer.coef_, atol=1e-4)
    np.testing.assert_allclose(params.bias, peer.intercept_, atol=1e-4)
    s = np.asarray(linear.scores(params, jnp.asarray(x, float)))
    mean = np.mean(losses.softmax(s, y)) + l2 / 2 * np.sum(np.square(params.weights))
    np.testing.assert_allclose(info.objective, mean, rtol=1e-12)


def test_two_classes_are_the_binary_fit_at_half_the_penalty():
    x, y, _ = drawn()
    y = np.minimum(y, 1)
    many, one = softmax.fit(x, y, l2=0.2), logistic.fit(x, y, l2=0.1)
    np.testing.assert_allclose(many[0].weights[1] - many[0].weights[0], one[0].weights, rtol=1e-10)
    np.testing.assert_allclose(many[0].bias[1] - many[0].bias[0], one[0].bias, rtol=1e-10)
    np.testing.assert_allclose(many[1].objective, one[1].objective, rtol=1e-12)


def test_the_reference_form_is_the_same_model():
    x, y, _ = drawn()
    params, _ = softmax.fit(x, y, num_classes=K + 1)  # class K is absent
    x = jnp.asarray(x)
    for reference in range(K):
        form = softmax.to_reference(params, reference)
        assert not np.any(form.weights[reference]) and form.bias[reference] == 0
        assert_close(linear.probabilities(form, x), linear.probabilities(params, x), 1e-12)
        assert_close(softmax.from_reference(form), params, 1e-12)
    assert np.all(np.isnan(softmax.to_reference(params, K).weights))
    with pytest.raises(ValueError, match=r"reference: expected a class in 0\.\.3, got 4"):
        softmax.to_reference(params, K + 1)


def test_soft_labels():
    x, y, weight = drawn()
    hard = fit(x, y, l2=0.1, sample_weight=weight)
    soft = fit(x, np.eye(K)[y], l2=0.1, sample_weight=weight)
    assert_close(soft, hard)
    rng = np.random.default_rng(1)
    truth = Linear(weights=rng.normal(size=(K, D)), bias=rng.normal(size=K))
    found, info = fit(x, linear.probabilities(truth, jnp.asarray(x)))
    assert info.status == Status.CONVERGED
    assert_close(found, softmax.from_reference(truth), 1e-8)


def test_offsets_shift_the_scores():
    x, y, _ = drawn()
    rng = np.random.default_rng(1)
    known = Linear(weights=rng.normal(size=(K, D)), bias=rng.normal(size=K))
    plain, _ = fit(x, y)
    shifted, _ = fit(x, y, offset=np.asarray(linear.scores(known, jnp.asarray(x))))
    rest = jax.tree.map(lambda a, b: a - b, plain, softmax.from_reference(known))
    assert_close(shifted, rest, 1e-8)


def test_absent_classes():
    x, y, _ = drawn()
    gap = np.array([0, 2, 4])[y]
    params, info = softmax.fit(x, gap, num_classes=6, l2=0.1)
    assert_close(jax.tree.map(lambda a: a[::2], params), softmax.fit(x, y, l2=0.1)[0], 1e-8)
    assert info.status == Status.CONVERGED
    chances = np.asarray(linear.probabilities(params, jnp.asarray(x)))
    assert not np.any(chances[:, 1::2]) and np.all(np.isfinite(chances))
    assert not np.any(params.weights[1::2]) and np.all(np.isneginf(params.bias[1::2]))


def test_one_class_alone():
    x, _, _ = drawn()
    params, info = softmax.fit(x, np.ones(N, int), num_classes=K)
    assert info.status == Status.CLASS_TOO_SMALL
    np.testing.assert_array_equal(linear.probabilities(params, jnp.asarray(x))[:, 1], 1)


# --- separation ----------------------------------------------------------------------------------


def separates(params, x, y):
    """In exact arithmetic."""

    def scores(row):
        return [
            sum(Fraction(float(a)) * Fraction(float(v)) for a, v in zip(w, row, strict=True))
            + Fraction(float(b))
            for w, b in zip(*map(np.asarray, params), strict=True)
        ]

    found = [scores(row) for row in x]
    return all(
        s[c] > max(s[j] for j in range(len(s)) if j != c) for s, c in zip(found, y, strict=True)
    )


@pytest.mark.parametrize(
    "solver, dtype",
    [
        (solvers.newton, np.float32),
        thorough(solvers.lbfgs, np.float64),
    ],
)
def test_separable_data_are_separated(solver, dtype):
    angles = np.linspace(0, 2 * np.pi, 31)[:-1]
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(dtype)
    y = np.arange(30) // 10
    params, info = fit(x, y, solver=solver)
    assert info.status == Status.SEPARABLE and info.objective == 0
    assert separates(params, x, y)


@SOLVERS
def test_quasi_separable_data_are_told_apart(solver):
    """Iris: the first species is apart, the others overlap."""
    x, y, _, _ = datasets.iris()
    some = np.r_[0:10, 60:85, 119:144]
    x, y = x[some].astype(float), y[some]
    params, info = fit(x, y, solver=solver)
    assert info.status == Status.QUASI_SEPARABLE
    # What stays finite is right: the two that overlap, among themselves.
    two, _ = logistic.fit(x[y > 0], y[y > 0] - 1)
    plane = linear.between(params, 1, 2)
    assert_close(plane, two, 1e-3)


def test_overlapping_data_are_never_called_separable():
    lanes = jax.jit(jax.vmap(functools.partial(softmax.fit, num_classes=K)))
    sets = [drawn(seed, noise=1.0)[:2] for seed in range(60)]
    x, y = (np.stack(a) for a in zip(*sets, strict=True))
    # Each class also where the others are: a copy of a few rows under every label.
    x[:, -6:] = np.repeat(x[:, :2], 3, axis=1)
    y[:, -6:] = [0, 1, 2, 0, 1, 2]
    params, info = lanes(x, y)
    for i in range(len(x)):
        if info.status[i] == Status.CONVERGED:
            lane = jax.tree.map(lambda a: a[i], params)  # noqa: B023 # used at once
            assert np.abs(gradient(lane, x[i], y[i])).max() <= 4e-11
    assert np.mean(np.asarray(info.status) == Status.CONVERGED) > 0.5


@SOLVERS
def test_duplicated_columns_share_the_weight(solver):
    x, y, _ = drawn()
    params, _ = fit(x, y)
    twice, info = fit(x[:, [0, 1, 2, 0]], y, solver=solver)
    assert info.status == Status.RANK_DEFICIENT
    halves = np.asarray(params.weights)[:, [0, 1, 2, 0]] * [0.5, 1, 1, 0.5]
    np.testing.assert_allclose(twice.weights, halves, rtol=1e-7)
    np.testing.assert_allclose(twice.bias, params.bias, rtol=1e-7)


# --- units, derivatives, bad input ---------------------------------------------------------------


def test_columns_in_any_units():
    x, y, _ = drawn()
    unit, shift = np.array([1e-8, 1e8, 1.0]), np.array([0.0, 0.0, 1e4])
    plain, _ = fit(x, y)
    found, info = fit(x * unit + shift, y, tol=1e-9)
    assert info.status == Status.CONVERGED
    np.testing.assert_allclose(np.asarray(found.weights) * unit, plain.weights, rtol=1e-6)


def test_derivatives():
    x, y, weight = drawn()
    soft = 0.8 * np.eye(K)[y] + 0.2 / K

    def coefficients(x, soft, weight, l2, offset):
        params, _ = softmax.fit(x, soft, l2=l2, sample_weight=weight, offset=offset)
        return jnp.concatenate([params.weights, params.bias[:, None]], axis=1)

    rng = np.random.default_rng(0)
    change = rng.normal(size=(N, K))
    moves = (
        rng.normal(size=x.shape),
        change - change.mean(1, keepdims=True),
        rng.normal(size=N) * (weight > 0),
        np.array(0.3),
        rng.normal(size=(N, K)),
    )
    at = (x, soft, weight, np.array(0.1), np.zeros((N, K)))
    _, slope = jax.jvp(coefficients, at, moves)
    h = 1e-5
    ahead, back = (
        coefficients(*(a + sign * h * m for a, m in zip(at, moves, strict=True)))
        for sign in (1, -1)
    )
    np.testing.assert_allclose(slope, (ahead - back) / (2 * h), rtol=1e-6, atol=1e-7)
    pulled = jax.vjp(coefficients, *at)[1](slope)
    inner = sum(np.sum(np.asarray(a) * m) for a, m in zip(pulled, moves, strict=True))
    np.testing.assert_allclose(inner, np.sum(np.asarray(slope) ** 2), rtol=1e-9)


@pytest.mark.cpu
@pytest.mark.thorough
@pytest.mark.parametrize("solver", [solvers.newton, solvers.lbfgs])
@pytest.mark.parametrize("k", [2, 5])
def test_temporaries_are_a_part_of_x(k, solver):
    n, d = 100_000, 20
    options = {} if k == 2 else {"num_classes": k}
    method = logistic.fit if k == 2 else softmax.fit

    def program(dtype):
        x, y = jax.ShapeDtypeStruct((n, d), dtype), jax.ShapeDtypeStruct((n,), np.int32)
        call = jax.jit(lambda x, y: method(x, y, l2=0.1, solver=solver, **options))
        return call.lower(x, y).compile()

    assert program(np.float32).memory_analysis().temp_size_in_bytes < 0.3 * n * d * 4
    assert f"f32[{n},{d}]" not in program(jnp.bfloat16).as_text(), "x is widened as a whole"


@pytest.mark.cpu
@pytest.mark.parametrize(
    "k, l2", [(3, 0.0), thorough(10, 0.1), thorough(3, 0.1), thorough(10, 0.0)]
)
def test_temporaries_of_the_default_are_a_part_of_x(k, l2):
    n, d = 100_000, 20
    x, weight = (jax.ShapeDtypeStruct(shape, np.float32) for shape in ((n, d), (n,)))
    y = jax.ShapeDtypeStruct((n,), np.int32)

    def call(x, y, weight):
        return softmax.fit(x, y, num_classes=k, l2=l2, sample_weight=weight)

    memory = jax.jit(call).lower(x, y, weight).compile().memory_analysis()
    assert memory.temp_size_in_bytes < 0.3 * n * d * 4


def test_a_sweep_is_one_compile():
    x, y, _ = drawn()

    @jax.jit
    @chex.assert_max_traces(1)
    def swept(l2):
        return softmax.fit(x, y, num_classes=K, l2=l2)

    for l2 in (0.0, 0.1, 1.0):
        assert swept(l2)[1].status == Status.CONVERGED


def test_every_trouble_alone_and_as_a_lane():
    x, y, weight = drawn()
    one, nan = np.ones(N), x.copy()
    nan[3, 1] = np.nan
    good = (x, y, one, 0.1)
    troubles = {
        Status.INVALID_DATA: [
            (nan, y, one, 0.1),
            (x, np.where(np.arange(N) == 5, 3, y), one, 0.1),
            (x, y, -one, 0.1),
            (x, y, one, -0.1),
            (x, y, one, np.nan),
        ],
        Status.CLASS_TOO_SMALL: [(x, y, 1.0 * (y == 1), 0.1)],
        Status.CONVERGED: [(nan, y, 1.0 * (np.arange(N) != 3), 0.1), (1e3 * x, y, weight, 1e-6)],
    }
    lanes = [(status, lane) for status, some in troubles.items() for lane in some]
    batch = jax.jit(
        jax.vmap(lambda x, y, w, l2: softmax.fit(x, y, num_classes=K, sample_weight=w, l2=l2))
    )
    mixed = batch(*stack([good, *(lane for _, lane in lanes)]))
    clean = batch(*stack([good] * (1 + len(lanes))))
    assert jax.tree.map(lambda a: np.asarray(a[0]).tobytes(), mixed) == jax.tree.map(
        lambda a: np.asarray(a[0]).tobytes(), clean
    )
    assert [int(s) for s in mixed[1].status] == [0, *(int(status) for status, _ in lanes)]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"y": np.full((N, K), 0.4)}, "y: .*row sums other than 1"),
        ({"y": np.full((N, K + 1), 0.25)}, r"y: expected soft labels of shape \(40, 3\)"),
        ({"num_classes": 1}, "num_classes: expected at least 2, got 1"),
        ({"l2": -1.0}, "l2: .*negative"),
        ({"offset": np.zeros(N)}, r"offset: expected shape \(40, 3\), got \(40,\)"),
        ({"init": Linear(weights=np.zeros((2, D)), bias=np.zeros(2))}, "init.weights: expected"),
    ],
)
def test_bad_input_names_the_argument(options, message):
    x, y, _ = drawn()
    with pytest.raises(ValueError, match=message):
        softmax.fit(x, **{"y": y, "num_classes": K, **options})


def test_a_warm_start_is_at_the_optimum_at_once():
    x, y, weight = drawn()
    first, _ = softmax.fit(x, y, num_classes=K + 1, l2=0.1, sample_weight=weight)
    again, info = softmax.fit(x, y, num_classes=K + 1, l2=0.1, sample_weight=weight, init=first)
    assert info.status == Status.CONVERGED and info.steps <= 2
    assert_close(jaxlin.predict(again, jnp.asarray(x)), jaxlin.predict(first, jnp.asarray(x)))


def test_no_row_has_more_leverage_than_the_bound():
    """The last has no weight, and is felt by neither."""
    spec = _record.Spec(softmax._LOSS, None, bias=True)

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(0, 0, None))
    def both(x, y, weight):
        rows, *_ = _prepare.prepare(_checks.table(x, y, sample_weight=weight), num_classes=3)
        basis = _frame.class_basis(_prepare.present(rows, 3), x.dtype)
        problem = _frame.make(rows, jnp.zeros(3), True, basis)
        nothing = jnp.zeros((2, 4))
        whole = _linalg.factor(_passes.measure(spec, problem, nothing)[1])
        root = _linalg.inverse_root(whole)
        return _proof.leverage(spec, problem, root), _proof.leverage_bound(problem, root)

    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 40, 3)) + rng.normal(size=(100, 1, 3))
    x *= 10.0 ** rng.integers(-3, 4, size=(100, 1, 3))
    weight, x[:, -1] = (np.arange(40) < 39).astype(float), 1e30
    largest, bound = both(x, rng.integers(0, 3, size=(100, 40)), weight)
    assert np.all(largest <= bound) and np.all(bound < 20 * largest)


def test_scores_of_rounding_agree_with_nothing():
    """Rows on the plane, by whole numbers; what is left of their scores is of either sign."""
    rng = np.random.default_rng(0)
    u = rng.integers(1, 1000, size=2)
    x = np.outer(rng.integers(-(2**40), 2**40, size=400), [-u[1], u[0]]).astype(float)
    rows, *_ = _prepare.prepare(_checks.table(x, np.ones(400, int)), num_classes=2)
    problem = _frame.make(rows, jnp.zeros(2), False)
    spec = _record.Spec(logistic._LOSS, None, bias=False)
    theta = u / 7 / np.asarray(_frame.unscaled(problem))
    assert 0 < np.sum(x @ (u / 7) > 0) < 400
    point = _light.light(spec, problem, jnp.asarray(theta)[None])
    assert point.short == 400

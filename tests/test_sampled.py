"""Large binary fits: where they start, in what units, how they go on, and how they read x."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlin
from jaxlin import Hyperplane, Linear, Status, _linalg, logistic, softmax, solvers
from jaxlin._base import _checks
from jaxlin._data import _prepare
from jaxlin._smooth import (
    _frame,
    _light,
    _matrix_free,
    _newton,
    _passes,
    _plan,
    _proof,
    _quasi,
    _record,
    _sampled,
)
from tests.public import thorough

SPEC = _record.Spec(logistic._LOSS, None, bias=True, penalised=True)


def drawn(n, d, *, dtype=np.float64, seed=0, centre=0.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    y = (x @ rng.normal(size=d) / np.sqrt(d) + rng.logistic(size=n) > 0.5).astype(int)
    return (x + centre * x.std(0)).astype(dtype), y


def problem_of(x, y, *, sample_weight=None, offset=None, l2=1e-3):
    data = _checks.table(x, y, sample_weight=sample_weight)
    rows, *_ = _prepare.prepare(data, num_classes=2, offset=offset)
    return _frame.make(rows, jnp.full(x.shape[1], l2, rows.weight.dtype), True)


@jax.jit
def optimum(problem):
    return _sampled.optimum(SPEC, problem)


@jax.jit
def curvatures(problem, theta):
    """About the Hessian at theta, and itself."""
    about = _sampled.curvature(SPEC, problem, theta)
    return about, _passes.measure(SPEC, problem, theta)[1]


@pytest.mark.parametrize("y", [np.array([0, 1, 0, 1, 1]), np.array([0.0, 0.2, 0.5, 0.9, 1.0])])
def test_one_score_bends_as_its_hessian_says(y):
    scores = jnp.array([[-30.0], [-1.0], [0.0], [0.5], [800.0]])
    value, slope, curve = _record.derivatives(SPEC.loss, scores, y)
    assert SPEC.loss.curvature is None
    expected = jax.vmap(jax.hessian(logistic._LOSS.value))(scores, y)[:, 0, 0]
    np.testing.assert_allclose(curve, expected, rtol=1e-14)
    np.testing.assert_array_equal(value, jax.vmap(logistic._LOSS.value)(scores, y))
    np.testing.assert_array_equal(slope, jax.vmap(jax.grad(logistic._LOSS.value))(scores, y))


# --- the sample -----------------------------------------------------------------------------------


def test_a_sample_is_near_the_optimum_of_all():
    x, y = drawn(4000, 4)
    problem = problem_of(x, y)
    assert _plan.spares(len(x), 6) and not _plan.spares(2000, 6)
    theta, about = optimum(problem)
    origin = _light.light(SPEC, problem, jnp.zeros_like(theta))
    point = _light.light(SPEC, problem, theta)
    params, _ = logistic.fit(x, y, l2=1e-3, solver=solvers.newton)
    least = _light.light(SPEC, problem, _frame.enter(problem, _row(params), True))
    assert point.value - least.value < 0.02 * (origin.value - least.value)
    again, hess = curvatures(problem, theta)
    for guess in (about, again):
        ratios = np.linalg.eigvals(np.linalg.solve(guess, hess)).real
        assert ratios.min() > 0.5 and ratios.max() < 2


def test_chords_lead_near_where_the_weights_are_alike_and_nowhere_else():
    x, y = drawn(500, 10)
    whole = problem_of(x, y)
    theta, hess, _, found = _sampled.descended(SPEC, whole, jnp.zeros((1, 11)), None)
    assert found
    root = _linalg.inverse_root(_linalg.factor(hess))

    def residuals(weight):
        lane = problem_of(x, y, sample_weight=weight)
        lane = whole._replace(rows=lane.rows)
        led = _sampled.chords(SPEC, lane, theta, root)
        return [_light.light(SPEC, lane, at).residual for at in (theta, led)], led

    for seed in range(5):
        draws = np.random.default_rng(seed).multinomial(500, np.full(500, 1 / 500))
        (before, after), _ = residuals(draws.astype(float))
        assert after < before / 5
    _, led = residuals(np.arange(500) % 50 == 0)
    np.testing.assert_array_equal(led, theta)


# --- the steps from there -------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [1 / 100, thorough(1.0), thorough(100.0)])
def test_steps_arrive_whatever_the_curvature_is_wrong_by(wrong):
    problem = problem_of(*drawn(4000, 4))
    theta, about = optimum(problem)

    @functools.partial(jax.jit, static_argnums=1)
    def descend(problem, cap):
        return _quasi.descend(SPEC, problem, theta, wrong * about, jnp.float64(1e-10), cap)

    values, steps = zip(*[descend(problem, cap) for cap in range(30)], strict=True)
    assert values[-1].residual <= 1e-10
    assert [int(s) for s in steps] == [min(i, int(steps[-1])) for i in range(30)]
    assert np.all(np.diff([point.value for point in values]) <= 1e-15)
    if wrong == 1:
        residuals = np.array([point.residual for point in values[: int(steps[-1]) + 1]])
        assert np.all(residuals[1:] < residuals[:-1] / 2)


def test_a_quasi_newton_update_holds_what_was_seen():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(5, 5))
    inverse, step = root @ root.T, rng.normal(size=5)
    change = rng.normal(size=5) / 3 + step
    assert step @ change > 0
    expected = 10 * step @ change
    moved = _quasi._updated(inverse, step, change, expected)
    np.testing.assert_allclose(moved @ change, step, rtol=1e-12)
    np.testing.assert_allclose(moved, moved.T, rtol=1e-12)
    assert np.linalg.eigvalsh(moved).min() > 0
    # A quadratic of less curvature in all directions is known from one.
    known = _quasi._updated(np.eye(5), step, step / 10, step @ step)
    np.testing.assert_allclose(known, 10 * np.eye(5), atol=1e-12)
    for bad in (-change, 0 * change, np.nan * change, 1e-5 * change):
        np.testing.assert_array_equal(_quasi._updated(inverse, step, bad, expected), inverse)


def test_a_curvature_counts_the_penalty_once():
    problem = problem_of(*drawn(4000, 4), l2=10.0)
    theta, about = optimum(problem)
    hess = curvatures(problem, theta)[1]
    np.testing.assert_allclose(np.diagonal(about), np.diagonal(hess), rtol=0.1)


def _row(params):
    return jax.tree.map(lambda a: a[None], params)


@pytest.mark.parametrize("kind", ["separated", "rare", "without weight"])
def test_a_sample_that_does_not_tell_is_left(kind):
    x, y = drawn(4000, 4)
    weight = np.ones(4000)
    if kind == "separated":
        y = (x[:, 0] > 0).astype(int)
        x[:, 0] += 5 * (2 * y - 1)
    elif kind == "rare":
        y = (np.arange(4000) == 17).astype(int)
    else:
        sample = _sampled.of(problem_of(np.arange(4000.0)[:, None], y), 64 * 5)
        weight[np.asarray(sample.rows.x[:, 0], int)] = 0
    theta, about = optimum(problem_of(x, y, sample_weight=weight, offset=9 * x[:, 1], l2=1e-6))
    np.testing.assert_array_equal(theta, 0)
    _, hess = curvatures(problem_of(x, y, sample_weight=weight, l2=1e-6), theta)
    ratios = np.diagonal(about) / np.diagonal(hess)
    assert ratios.min() > 0.2 and ratios.max() < 5


def test_a_column_that_the_sample_misses_has_the_curvature_of_its_square():
    x, y = drawn(20_000, 3)
    x = np.concatenate([x, np.zeros((20_000, 8))], axis=1)
    at = np.random.default_rng(0).permutation(20_000)[:24].reshape(8, 3)
    x[at, 3 + np.arange(8)[:, None]] = 1
    problem = problem_of(x, y, l2=1e-6)
    nothing = jnp.zeros((1, 12))
    theta, there = optimum(problem)
    for guess, at in ((there, theta), (curvatures(problem, nothing)[0], nothing)):
        ratios = np.diagonal(guess) / np.diagonal(curvatures(problem, at)[1])
        assert ratios.min() > 0.4 and ratios.max() < 3


def test_a_column_whose_large_values_the_sample_misses_has_the_curvature_of_its_square():
    """That it holds something else in every row, which is seen well, does not hide them."""
    x, y = drawn(20_000, 3)
    rng = np.random.default_rng(1)
    x = np.concatenate([x, 0.004 * rng.normal(size=(20_000, 4))], axis=1)
    at = rng.permutation(20_000)[:12].reshape(4, 3)
    x[at, 3 + np.arange(4)[:, None]] = 1
    guess, hess = curvatures(problem_of(x, y, l2=1e-6), jnp.zeros((1, 8)))
    ratios = np.diagonal(guess) / np.diagonal(hess)
    assert ratios.min() > 0.4 and ratios.max() < 3


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_default_fit_starts_there(monkeypatch, dtype):
    """In fewer steps than from 0 to the same optimum, also with offsets, in order of the labels."""
    monkeypatch.setattr(_plan, "NEWTON_ENTRIES", 0)
    x, y = drawn(6000, 5, dtype=dtype)
    order = np.argsort(y, kind="stable")
    x, y = x[order], y[order]
    offset = (3 * np.random.default_rng(1).normal(size=6000)).astype(dtype)
    zeros = Hyperplane(weights=np.zeros(5, dtype), bias=np.zeros((), dtype))
    for options in ({}, {"offset": offset}):
        exact, _ = logistic.fit(x, y, l2=1e-3, solver=solvers.newton, **options)
        found, info = logistic.fit(x, y, l2=1e-3, **options)
        _, plain = logistic.fit(x, y, l2=1e-3, init=zeros, **options)
        assert info.status == plain.status == Status.CONVERGED
        assert info.steps < plain.steps
        rtol = 1e-7 if dtype == np.float64 else 2e-4
        np.testing.assert_allclose(found.weights, exact.weights, rtol=rtol, atol=rtol)


def independent_columns(n=4000, d=40, dtype=np.float64):
    """Of other units and away from 0, with a rare one, and labels that follow them."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(n, d))
    y = (z @ rng.normal(size=d) / np.sqrt(d) + rng.logistic(size=n) > 0.5).astype(int)
    x = 1 + z
    x[:, 0] = rng.random(n) < 0.02
    return (x * np.geomspace(1e-6, 1e6, d)).astype(dtype), y


def test_columns_look_independent_as_all_rows_say():
    x, y = independent_columns()
    rng = np.random.default_rng(1)
    look = jax.jit(_sampled.are_independent)
    assert look(problem_of(x, y))
    assert look(problem_of(x.astype(np.float32), y))
    few = 8 * x.shape[1]  # of which the correlations' eigenvalues have a variance of 1/8
    assert not look(problem_of(x[:few], y[:few]))
    for size, independent in ((0.1, True), (1.0, False)):
        shared = size * rng.normal(size=(len(x), 1)) * x.std(0)
        assert look(problem_of(x + shared, y)) == independent
    # A row without weight is in no pair.
    weight = np.where(np.arange(len(x)) % 2, 0.0, 1.0)
    x[weight == 0] = 1e6 * x.std(0)
    assert look(problem_of(x, y, sample_weight=weight))


def test_the_diagonal_is_the_hessians():
    x, y = independent_columns()
    x[:, 1] = 3.0
    offset = 5 * np.random.default_rng(1).normal(size=len(x))
    bare, moved = (problem_of(x, y, l2=1e-2, offset=o) for o in (None, offset))
    hess = curvatures(bare, jnp.zeros((1, x.shape[1] + 1)))[1]
    for problem in (bare, moved):
        found = jax.jit(lambda p: _sampled.diagonal(SPEC, p))(problem)
        np.testing.assert_allclose(found, np.diagonal(hess), rtol=1e-6)


@pytest.mark.parametrize(("twins", "steps"), [(0, None), (1, 2), thorough(1, None), thorough(0, 2)])
def test_a_fit_of_columns_that_look_independent(monkeypatch, twins, steps):
    """Is that of others, also if some are not, and where the first steps do not arrive."""
    x, y = independent_columns()
    for i in range(1, 1 + twins):
        x[:, i] = x[:, -i] * (1 + 1e-3 * np.random.default_rng(i).normal(size=len(x)))
    if steps is not None:
        monkeypatch.setattr(_matrix_free, "SIMPLE_STEPS", steps)
        monkeypatch.setattr(_plan, "DENSE_LIMIT", 0)  # nobody finishes what is left
    assert _sampled.are_independent(problem_of(x, y))
    jax.clear_caches()
    found, info = logistic.fit(x, y, l2=1e-4 / x.var(0).max())
    jax.clear_caches()
    exact, told = logistic.fit(x, y, l2=1e-4 / x.var(0).max(), solver=solvers.newton)
    assert info.status == told.status == Status.CONVERGED
    assert steps is None or info.steps > steps
    away = jax.nn.sigmoid(x @ found.weights + found.bias) - jax.nn.sigmoid(
        x @ exact.weights + exact.bias
    )
    np.testing.assert_allclose(away, 0, atol=1e-6)


def test_more_columns_than_a_matrix_may_have(monkeypatch):
    """Have the diagonal alone, and are done in fewer steps for it."""
    x, y = independent_columns()
    monkeypatch.setattr(_plan, "MATRIX_LIMIT", 8)
    monkeypatch.setattr(_plan, "DENSE_LIMIT", 0)
    l2 = 1e-4 / x.var(0).max()
    exact, _ = logistic.fit(x, y, l2=l2, solver=solvers.newton)
    steps = []
    for diagonal in (_sampled.diagonal, lambda spec, problem: jnp.ones_like(problem.spread)):
        monkeypatch.setattr(_sampled, "diagonal", diagonal)
        jax.clear_caches()
        found, info = logistic.fit(x, y, l2=l2)
        assert info.status == Status.CONVERGED
        np.testing.assert_allclose(found.weights, exact.weights, rtol=1e-5, atol=1e-12)
        steps.append(int(info.steps))
    jax.clear_caches()
    assert steps[0] < steps[1]


def test_such_fits_as_lanes():
    x, y = independent_columns()
    weights = np.random.default_rng(2).exponential(size=(3, len(x)))
    weights[2] = np.nan

    def fit(w):
        return logistic.fit(x, y, l2=1e-3, sample_weight=w)

    lanes, said = jax.vmap(fit)(weights)
    assert said.status.tolist() == [Status.CONVERGED] * 2 + [Status.INVALID_DATA]
    for i in range(2):
        alone, info = fit(weights[i])
        assert info.status == Status.CONVERGED
        # In lanes that share x the frame is another, and so is what is left at tol.
        moved = (x - x.mean(0)) @ (lanes.weights[i] - alone.weights)
        np.testing.assert_allclose(moved, 0, atol=1e-8)
        np.testing.assert_allclose(said.objective[i], info.objective, rtol=1e-12)


def test_where_a_penalty_proves_an_optimum_no_step_need():
    """In single precision, whose steps cannot, a fit whose solver gives up ends no worse for it."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(60, 60)))[0]
    x = (rng.normal(size=(200, 60)) * np.geomspace(1, 1e-3, 60)) @ turn
    y = (x @ rng.normal(size=60) + rng.logistic(size=200) > 0).astype(int)

    def idle(objective, init, args=(), *, hessian, precondition, tol, max_steps):
        return solvers.lbfgs(objective, init, args, max_steps=0)

    x = x.astype(np.float32)
    alone = logistic.fit(x, y, l2=1e-6, solver=solvers.newton)[1]
    assert alone.status == Status.STALLED
    params, info = logistic.fit(x, y, l2=1e-6, solver=idle)
    assert info.status == Status.CONVERGED and info.steps > 0
    exact, _ = logistic.fit(x.astype(float), y, l2=1e-6)
    np.testing.assert_allclose(params.weights, exact.weights, rtol=1e-2, atol=1e-2)


# --- without a penalty ----------------------------------------------------------------------------


def troubles(n, k, dtype):
    """Rows, labels, weights: of every kind of optimum, or of none, that data can have."""
    rng = np.random.default_rng(n + k)
    x = rng.normal(size=(n, 4))
    plane = rng.normal(size=(4, k))
    plane[:, -1] = 0
    y = np.argmax(x @ plane + rng.gumbel(size=(n, k)), axis=1)
    apart = np.argmax(x @ plane, axis=1)
    line, alike, still, rare, seldom = (x.copy() for _ in range(5))
    line[:, 0] = y == 0
    line[::7, 0] = 0
    alike[:, 3] = alike[:, 0] - 2 * alike[:, 1]
    still[:, 2] = 3
    for few in (rare, seldom):
        few[:, 3] = np.arange(n) % (n // 4) == 5
    one, some = np.ones(n), rng.exponential(size=n)
    some[::3] = 0
    cases = {
        "overlapping": (x, y, one),
        "weighted": (x, y, some),
        "separable": (x, apart, one),
        "some on a plane": (line, y, one),
        "columns alike": (alike, y, one),
        "a column of one value": (still, y, one),
        "a rare column": (rare, y, one),
        "a rare column of one class": (seldom, np.where(seldom[:, 3] > 0, 1, y), one),
        "one class": (x, np.ones(n, int), one),
    }
    cases["no number"] = (np.where(np.arange(n)[:, None] == 9, np.nan, x), y, one)
    return {name: (x.astype(dtype), y, w.astype(dtype)) for name, (x, y, w) in cases.items()}


def unpenalised(x, y, weight, k, solver=None):
    options = {"sample_weight": weight, "solver": solver}
    return logistic.fit(x, y, **options) if k == 2 else softmax.fit(x, y, num_classes=k, **options)


@pytest.fixture
def any_size(monkeypatch):
    """All fits as those of many entries; nothing that was traced so is left."""
    jax.clear_caches()
    monkeypatch.setattr(_plan, "NEWTON_ENTRIES", 0)
    monkeypatch.setattr(_plan, "DOUBTFUL_ENTRIES", 0)
    yield
    jax.clear_caches()


# How far scores may be apart: a sixteenth of tol, over the least curvature, some 3e-3.
APART = {np.float64: 1e-9, np.float32: 5e-4}


@pytest.mark.parametrize(
    ("n", "k", "dtype"),
    [
        (2700, 3, np.float64),
        (200, 2, np.float32),
        thorough(2700, 2, np.float64),
        thorough(200, 2, np.float64),
        thorough(2700, 2, np.float32),
        thorough(2700, 3, np.float32),
    ],
)
def test_without_a_penalty_a_large_fit_says_what_newtons_method_says(any_size, n, k, dtype):
    """From a sample, from 0, and of k classes; eagerly and traced."""
    traced = jax.jit(unpenalised, static_argnums=(3, 4))
    seen = {}
    for name, case in troubles(n, k, dtype).items():
        exact, known = traced(*case, k, solvers.newton)
        seen[name] = int(known.status)
        found, info = traced(*case, k, None)
        assert info.status == known.status, name
        if info.status <= Status.RANK_DEFICIENT:
            x, _, weight = case
            away = jaxlin.scores(found, x) - jaxlin.scores(exact, x)
            np.testing.assert_allclose(away[weight > 0], 0, atol=APART[dtype])
            if name == "columns alike":
                near = 64 * np.finfo(dtype).eps  # Newton's method ends both at the floor
                np.testing.assert_allclose(found.weights, exact.weights, rtol=near, atol=near)
        if name != "no number":
            _, said = unpenalised(*case, k)
            assert said.status == known.status, name
    assert set(seen.values()) == {0, 1, 4, 5, 7, 8}, seen


@pytest.mark.parametrize("k", [thorough(2), 3])
def test_a_looser_tol_takes_no_other_way_to_the_proof(any_size, k):
    """Which of some of the rows wants the default's digits, and is the quick one."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(4_000, 5))
    y = np.argmax(x[:, :k] + rng.gumbel(size=(4_000, k)), axis=1)
    fit = logistic.fit if k == 2 else functools.partial(softmax.fit, num_classes=k)
    loose, info = jax.jit(functools.partial(fit, tol=1e-4))(x, y)
    exact, known = jax.jit(fit)(x, y)
    assert info.status == known.status == Status.CONVERGED
    assert info.steps == known.steps
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-12), loose, exact)
    # Where nothing is proved in any case a loose tol is one.
    wide = rng.normal(size=(300, 1_100))
    labels = np.arange(300) % 2
    few = logistic.fit(wide, labels, tol=1e-2)[1].steps
    assert few < logistic.fit(wide, labels)[1].steps


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("k", [2, 3])
def test_without_a_penalty_a_part_of_the_rows_is_the_proof(any_size, monkeypatch, k, dtype):
    """Of ordinary data: Newton's method is not asked. They end as far below tol as by its step."""

    def solve(*_, **__):
        raise AssertionError("a pass with a Hessian over all rows")

    monkeypatch.setattr(_newton, "solve", solve)
    cases = troubles(9000, k, dtype)
    tol = np.finfo(dtype).eps ** (2 / 3)
    for name in ("overlapping", "weighted", "a column of one value"):
        _, info = unpenalised(*cases[name], k)
        still = name == "a column of one value"
        assert info.status == (Status.RANK_DEFICIENT if still else Status.CONVERGED)
        assert info.residual <= tol / 16 and info.steps < 20


@pytest.mark.parametrize("k", [2, 3])
def test_a_part_of_the_rows_has_no_more_curvature(k):
    x, y, weight = troubles(2700, k, np.float64)["weighted"]
    rows, *_ = _prepare.prepare(_checks.table(x, y, sample_weight=weight), num_classes=k)
    spec = SPEC._replace(loss=(logistic if k == 2 else softmax)._LOSS)
    basis = None if k == 2 else _frame.class_basis(jnp.ones(k, bool), x.dtype)
    problem = _frame.make(rows, jnp.full(4, 1e-3), True, basis)
    theta = jnp.cos(jnp.arange(5.0 * (k - 1))).reshape(k - 1, 5)
    measure = jax.jit(_passes.measure, static_argnums=0)
    _, part = measure(spec, _sampled.part_of_proof(problem), theta)
    _, whole = measure(spec, problem, theta)
    assert np.linalg.eigvalsh(whole - part).min() > 0
    # Which is what so many rows have, and the penalty once.
    share = np.trace(part - 1e-3 * np.eye(len(part))) / np.trace(whole)
    assert 0.5 < share / (16 * 5 / 2700) < 2


def unpenalised_problem(x, y):
    rows, *_ = _prepare.prepare(_checks.table(x, y), num_classes=2)
    return _frame.make(rows, jnp.zeros(x.shape[1], x.dtype), True)


def test_rounding_hides_as_much_as_a_gradient_of_its_size():
    problem = unpenalised_problem(*troubles(200, 2, np.float64)["a column of one value"][:2])
    point, hess = _passes.measure(SPEC, problem, jnp.ones((1, 5)))
    root = _linalg.inverse_root(_linalg.factor(hess))
    unit = np.where(problem.unit > 0, problem.unit, np.inf)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(1000, 5)) / unit
    squares = np.sum((signs * point.noise @ np.asarray(root).T) ** 2, axis=1)
    np.testing.assert_allclose(_proof.hidden(problem, point, root) ** 2, squares.mean(), rtol=0.1)


def test_a_gradient_that_rounding_hides_proves_nothing():
    """Of rows apart whose pull is next to nothing beside that of those on the plane."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(500, 3)).astype(np.float32), np.arange(500) % 2
    x[:, 0] = (np.arange(500) % 3 == 0) * y
    spec = SPEC._replace(penalised=None)
    problem = unpenalised_problem(x, y)
    proof = jax.jit(lambda o: _matrix_free._proved_by_part(spec, problem, o, jnp.float32(1e-5)))

    def found_at(weight):
        """A point at which all of the gradient is rounded to 0."""
        weights = jnp.array([[weight, 0.1, -0.1]], np.float32)
        plane = Linear(weights=weights, bias=jnp.zeros(1, np.float32))
        point = _light.light(spec, problem, _frame.enter(problem, plane, True))
        nothing = jnp.zeros_like(point.residual)
        point = point._replace(grad=jnp.zeros_like(point.grad), residual=nothing)
        return _matrix_free._outcome(problem, point, jnp.int32(0))

    # At the one all columns have curvature; at the other the first has 1e-6 left.
    assert proof(found_at(1.0)).certified and not proof(found_at(12.0)).certified


@pytest.mark.parametrize("doubted", [False, True])
@pytest.mark.parametrize("begin", [0.0, 30.0])
def test_newtons_method_leaves_0_though_J_is_known_there_by_a_few_ulps_less(begin, doubted):
    """A pass sums 100,000 equal numbers otherwise than what tells J at 0."""
    problem = problem_of(*drawn(300, 3))
    start = jnp.full((1, 4), begin)
    origin = np.log(2) * (1 - 1e-13)
    find = jax.jit(
        lambda p: _newton.descend(SPEC, p, start, origin, 1e-10, jnp.int32(50), 0, doubted=doubted)
    )
    run = find(problem)
    assert run.point.residual <= 1e-10 and run.steps < 12


def test_without_a_penalty_separable_data_are_soon_left_to_newtons_method(any_size):
    """A line search would follow them to infinity by a thousand steps."""
    for n in (200, 2700):
        _, info = unpenalised(*troubles(n, 2, np.float64)["separable"], 2)
        assert info.status == Status.SEPARABLE and info.steps <= 50


def test_without_a_penalty_few_steps_are_newtons(any_size):
    """Which sees within as many as it needs that classes are separable, or what is optimal."""
    for name in ("separable", "overlapping"):
        case = troubles(2700, 3, np.float64)[name]
        _, known = unpenalised(*case, 3, solvers.newton)
        x, y, weight = case
        options = {"num_classes": 3, "sample_weight": weight, "max_steps": known.steps + 1}
        _, info = softmax.fit(x, y, **options)
        assert (info.status, info.steps) == (known.status, known.steps)


def test_without_a_penalty_large_fits_as_lanes(any_size):
    """Of weights alone and of all, some of them not valid or separable, and traced penalties."""
    cases = troubles(2700, 2, np.float64)
    x, y, one = cases["overlapping"]
    weights = np.stack([one, cases["weighted"][2], np.nan * one, (x[:, 0] > 0) == y])
    fit = jax.jit(lambda x, y, w, l2: logistic.fit(x, y, sample_weight=w, l2=l2))
    nothing, some = np.zeros(4), np.array([0.0, 1e-2, 0.0, 1.0])
    planes, lanes = jax.jit(jax.vmap(lambda w: fit(x, y, w, nothing)))(weights)
    assert lanes.status.tolist()[:3] == [Status.CONVERGED, Status.CONVERGED, Status.INVALID_DATA]
    for i, weight in enumerate(weights):
        plane, info = fit(x, y, weight, nothing)
        assert info.status == lanes.status[i]
        if info.status == Status.CONVERGED:
            np.testing.assert_allclose(planes.weights[i], plane.weights, rtol=1e-8, atol=1e-10)
    names = ("overlapping", "separable", "some on a plane", "columns alike")
    own = [np.stack(each) for each in zip(*(cases[name] for name in names), strict=True)]
    for l2 in (nothing, some):
        _, lanes = jax.jit(jax.vmap(fit, in_axes=(0, 0, 0, None)))(*own, l2)
        each = [fit(*cases[name], l2)[1].status for name in names]
        assert lanes.status.tolist() == [int(status) for status in each]


# --- x as it lies ---------------------------------------------------------------------------------


@pytest.fixture
def plain(monkeypatch):
    monkeypatch.setattr(_light, "PLAIN_ENTRIES", 0)
    monkeypatch.setattr(_light, "PLAIN_COLUMNS", 0)


def value_and_gradient(problem, flat):
    return jax.jit(lambda p, t: _light._value_and_gradient(SPEC, p, t))(problem, flat)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("n", [3000, 3001])
def test_x_as_it_lies_gives_what_its_blocks_give(plain, bias, n):
    x, y = drawn(n, 20, centre=3.0)
    rng = np.random.default_rng(0)
    weight, offset = rng.choice([0.0, 1.0, 2.0], size=n), rng.normal(size=n)
    x[:, 3], x[:, 4] = 1e-9 * x[:, 3], 7.0
    x[np.argmin(weight)] = 1e150
    problem = problem_of(x, y, sample_weight=weight, offset=offset)
    if not bias:
        rows = problem.rows
        problem = _frame.make(rows, jnp.full(20, 1e-3), False)
        problem = problem._replace(sizes=jnp.zeros_like(problem.sizes))
    assert np.all(problem.sizes[0] < _light.PLAIN_CENTRE)
    flat = jnp.where(problem.spread > 0, rng.normal(size=problem.spread.size), 0)
    value, grad = jax.jit(lambda p, t: _light._at_once(SPEC, p, t))(problem, flat)
    expected = jax.jit(lambda p, t: _light._by_blocks(SPEC, p, t))(problem, flat)
    np.testing.assert_allclose(value, expected[0], rtol=1e-12)
    np.testing.assert_allclose(grad, expected[1], rtol=1e-9, atol=1e-12)
    again = value_and_gradient(problem, flat)
    np.testing.assert_array_equal(again[1], grad)


def test_the_last_pass_as_x_lies_gives_what_its_blocks_give(plain):
    x, y = drawn(40_001, 20, dtype=np.float32)
    order = np.argsort(y, kind="stable")
    weight = np.random.default_rng(0).choice([0.0, 1.0, 2.0], size=40_001)
    fine = problem_of(x[order].astype(float), y[order], sample_weight=weight)
    theta = jnp.asarray(np.random.default_rng(1).normal(size=(1, 21))).at[0, -1].set(0)
    expected = _light._light_by_blocks(SPEC, fine, theta)
    for problem, rtol in (
        (fine, 1e-11),
        (problem_of(x[order], y[order], sample_weight=weight.astype(np.float32)), 4e-6),
    ):
        dtype = problem.spread.dtype
        point = jax.jit(lambda p, t: _light.light(SPEC, p, t))(problem, theta.astype(dtype))
        np.testing.assert_allclose(point.value, expected.value, rtol=rtol)
        np.testing.assert_allclose(point.grad, expected.grad, rtol=rtol, atol=rtol)
        np.testing.assert_allclose(point.curve, expected.curve, rtol=rtol)
        eps = jnp.finfo(dtype).eps / jnp.finfo(float).eps
        np.testing.assert_allclose(point.noise, eps * expected.noise, rtol=1e-5)
        # Of the same numbers in the same frame, whose own rounding is none of the pass.
        exact = _light.light(SPEC, *jax.tree.map(_widened, (problem, theta.astype(dtype))))
        assert abs(float(point.residual) - float(exact.residual)) <= point.noise
        assert float(point.short) == float(expected.short)


@pytest.mark.parametrize("kind", ["far from 0", "NaN in a row without weight"])
def test_x_is_read_by_blocks_where_it_is_not_plain(plain, kind):
    """As precisely as ever, and never with a number from a row that has no weight."""
    x, y = drawn(3000, 20, dtype=np.float32, centre=1e5 if kind == "far from 0" else 0.0)
    weight = np.ones(3000, np.float32)
    if kind != "far from 0":
        weight[5], x[5, 2] = 0, np.nan
    problem = problem_of(x, y, sample_weight=weight)
    flat = jnp.asarray(np.random.default_rng(0).normal(size=21), np.float32)
    value, grad = value_and_gradient(problem, flat)
    blocks = jax.jit(lambda p, t: _light._by_blocks(SPEC, p, t))
    exact = blocks(*jax.tree.map(_widened, (problem, flat)))
    # A sum of 3,000 terms of at most 1 together. As it lies, x at 1e5 is off by hundreds of it.
    least = np.sqrt(3000) * np.finfo(np.float32).eps
    for found in ((value, grad), blocks(problem, flat)):
        assert found[1].dtype == np.float32
        np.testing.assert_allclose(found[0], exact[0], rtol=1e-6)
        np.testing.assert_allclose(found[1], exact[1], rtol=0, atol=least)


def _widened(a):
    return a.astype(np.float64) if a.dtype == np.float32 else a


@pytest.mark.cpu
def test_lanes_are_read_by_blocks(plain):
    """Of which the numbers for each row of all lanes would not fit in memory."""
    x, y = drawn(12_000, 20)
    problem = problem_of(x, y)
    thetas = np.random.default_rng(0).normal(size=(4, 21))
    each = jax.jit(jax.vmap(lambda t: _light._value_and_gradient(SPEC, problem, t)))(thetas)
    for i, theta in enumerate(thetas):
        value, grad = value_and_gradient(problem, jnp.asarray(theta))
        np.testing.assert_allclose(each[0][i], value, rtol=1e-12)
        np.testing.assert_allclose(each[1][i], grad, rtol=1e-9, atol=1e-12)
    lowered = jax.jit(jax.vmap(lambda t: _light._value_and_gradient(SPEC, problem, t)))
    assert "4x12000" not in lowered.lower(thetas).as_text()


@pytest.mark.parametrize("n", [9_000, 200_000, 200_003])
def test_sums_of_many_rows_keep_their_digits(n):
    rng = np.random.default_rng(0)
    x = np.sort(2 + rng.normal(size=(n, 5)), axis=0).astype(np.float32)
    a = (rng.random(n) / n).astype(np.float32)
    expected = a.astype(float) @ x.astype(float)
    np.testing.assert_allclose(jax.jit(_linalg.combination)(a, x), expected, rtol=2e-6)
    inner = jax.jit(_linalg.inner)(a, x[:, 0])
    np.testing.assert_allclose(inner, expected[0], rtol=1e-6)


@pytest.mark.cpu
@pytest.mark.parametrize("weights", [False, True])
def test_temporaries_of_a_large_fit_are_a_part_of_x(weights):
    n, d = 20_000, 24
    assert n * d >= _light.PLAIN_ENTRIES
    shapes = [jax.ShapeDtypeStruct((n, d), np.float32), jax.ShapeDtypeStruct((n,), np.int32)]
    shapes += [jax.ShapeDtypeStruct((n,), np.float32)] * weights

    def fit(x, y, sample_weight=None):
        return logistic.fit(x, y, l2=1e-3, sample_weight=sample_weight)

    compiled = jax.jit(fit).lower(*shapes).compile()
    assert f"f64[{n},{d}]" not in compiled.as_text()
    # Blocks of a fixed size are much beside so few rows.
    assert compiled.memory_analysis().temp_size_in_bytes < 0.3 * n * d * 4 + 2**20

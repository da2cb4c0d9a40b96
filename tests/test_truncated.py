"""Newton's method by products with the Hessian: its parts, and that it finds what Newton's does."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlin import softmax, solvers
from jaxlin._base import _checks
from jaxlin._data import _fold, _prepare, _rows
from jaxlin._smooth import _frame, _light, _passes, _plan, _record, _sampled, _truncated
from jaxlin.types import Status
from tests.public import assert_close, stack, thorough

K = 3
SPEC = _record.Spec(softmax._LOSS, None, True)


def problem_of(n, d, *, absent=False):
    """Rows without weight, of whatever they hold, a masked column, offsets, and perhaps a class."""
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=(n, d)), rng.integers(0, K - absent, n)
    weight = rng.choice([0.0, 1.0, 2.0], size=n)
    # Its scores overflow in a frame for rows of this size.
    x[:, 0] *= 1e-160
    weight[3], x[3, 0] = 0, 0.9 * _checks.safe_range(x.dtype)
    x[4, 1], mask = np.nan, np.arange(d) != 1
    data = _checks.table(x, y, sample_weight=weight, feature_mask=mask)
    rows, *_ = _prepare.prepare(data, num_classes=K, offset=jnp.asarray(rng.normal(size=(n, K))))
    basis = _frame.class_basis(_prepare.present(rows, K), x.dtype)
    return _frame.make(rows, jnp.where(np.arange(d) == 2, 0.0, 0.3), True, basis)


def at(problem):
    """A run, its point at some theta, and a step."""
    run = _truncated._run(SPEC, problem)
    shape = problem.used.size, problem.spread.size
    theta, step = np.random.default_rng(0).normal(size=(2, *shape))
    out = _frame.inert(problem)
    theta, step = jnp.where(out, 0, theta), jnp.where(out, 0, step).at[:, 0].multiply(1e90)
    return run, jax.jit(lambda theta: _truncated.look(run, theta))(theta), step


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_bend_is_of_the_loss(dtype):
    """Its second derivative to a few units of rounding of each row's own, however certain it is."""
    rng = np.random.default_rng(0)
    for size in (0.1, 1, 10, 100):
        scores, moved = (size * rng.normal(size=(50, 4)).astype(dtype) for _ in range(2))
        *_, kept = softmax._LOSS.bend.sides(scores.T, jnp.zeros(50, jnp.int32))
        found = np.asarray(softmax._LOSS.bend.product(kept, moved.T).T)
        s, t = scores.astype(np.longdouble), moved.astype(np.longdouble)
        p = np.exp(s - s.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        apart = p[:, :, None] * p[:, None, :] * (t[:, :, None] - t[:, None, :])
        scale = np.sum(np.abs(apart), axis=2).max(1, keepdims=True)
        # Large scores are rounded before they are exponents, and few of 87 leave anything.
        slack = np.finfo(dtype).eps * (20 + 10 * size) * scale + 1e3 * np.finfo(dtype).tiny
        assert np.all(np.abs(found - apart.sum(2)) <= slack)


@pytest.mark.parametrize("kind", ["held", "kept", "kept, of columns held", "made anew"])
def test_a_product_is_that_with_the_hessian(monkeypatch, kind):
    monkeypatch.setattr(_truncated, "HELD_ENTRIES", 10**9 if kind == "held" else 0)
    monkeypatch.setattr(_truncated, "COLUMNS_PER_SCORE", 10**9 if kind == "made anew" else 10)
    n = 700  # a block of 195 columns is 256 rows
    problem = problem_of(n, 195)
    if kind == "kept, of columns held":
        problem = _frame.held(problem)
    run, point, step = at(problem)
    assert run.at_once == (kind == "held")
    assert point.kept.shape == (K, 0 if kind == "made anew" else n)
    plain, hess = jax.jit(lambda theta: _passes.measure(SPEC, problem, theta))(point.theta)
    for name in ("value", "grad", "residual", "noise", "curve"):
        np.testing.assert_allclose(
            getattr(point.seen, name), getattr(plain, name), rtol=1e-12, atol=1e-14
        )
    product = jax.jit(lambda point, step: _truncated.product(run, point, step))(point, step)
    np.testing.assert_allclose(product.reshape(-1), hess @ step.reshape(-1), rtol=1e-10, atol=1e-10)


def test_the_preconditioner_is_of_the_mean_block():
    """Of each degree of freedom in use, where every row is in the sample."""
    for absent in (False, True):
        problem = problem_of(90, 5, absent=absent)
        p, used = problem.spread.size, np.flatnonzero(problem.used)
        assert used.size == K - 1 - absent
        hess, inverse = both(problem)
        mean = sum(hess[i * p : (i + 1) * p, i * p : (i + 1) * p] for i in used) / used.size
        np.testing.assert_allclose(inverse @ mean, np.eye(p), atol=1e-6)
    hess, inverse = both(problem_of(10, 20))
    np.testing.assert_allclose(inverse * np.diagonal(hess).reshape(K - 1, -1).mean(0), 1, 1e-6)


@jax.jit
def both(problem):
    """The Hessian at some theta, and what is to be about its inverse."""
    theta = jnp.cos(jnp.arange(2.0 * problem.spread.size)).reshape(2, -1)
    theta = jnp.where(_frame.inert(problem), 0, theta)
    hess = _passes.measure(SPEC, problem, theta)[1]
    return hess, _truncated.preconditioner(SPEC, problem, theta)


def test_the_sum_and_the_map_are_of_every_row_once():
    problem = problem_of(700, 195)
    rows = problem.rows._replace(offset=None)

    def both(block):
        return (jnp.sum(block.weight), jnp.sum(block.weight[:, None] * block.x, 0)), block.x[:, :2]

    sums, each = jax.jit(lambda rows: _fold.fold_and_map(both, rows))(rows)
    x = np.asarray(_rows.clean(rows).x)
    np.testing.assert_allclose(sums[0], 1, rtol=1e-12)
    np.testing.assert_allclose(sums[1], np.asarray(rows.weight) @ x, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(each, x[:, :2])


def troubles():
    """Rows, labels, weights, penalty: of every status that a fit can have."""
    rng = np.random.default_rng(5)
    n = 43
    x = rng.normal(size=(n, 4))
    y = np.argmax(x[:, :K] + 2 * rng.normal(size=(n, K)), axis=1)
    apart, twice, nan, one = np.argmax(x[:, :K], axis=1), x.copy(), x.copy(), np.ones(n)
    twice[:, 3] = twice[:, 2]
    nan[3, 1] = np.nan
    on_a_line = x.copy()
    on_a_line[:, 0] = np.where(y == 0, -1.0, 1.0) * (np.arange(n) > 3)
    shares = rng.dirichlet(np.ones(4), size=n)
    return {
        "overlapping": (x, y, one, 0.0),
        "penalised": (x, y, one, 0.1),
        "hardly": (x, apart, one, 1e-3),
        "separable": (x, apart, one, 0.0),
        "some on a line": (on_a_line, y, one, 0.0),
        "columns alike": (twice, y, one, 0.0),
        "sums to rounding": (shares, y, one, 0.0),
        "a class absent": (x, np.where(y == 1, 0, y), one, 0.0),
        "one class": (x, np.zeros(n, int), one, 0.1),
        "no weight": (x, y, 0 * one, 0.1),
        "not a number": (nan, y, one, 0.1),
        "not a number, absent": (nan, y, (np.arange(n) != 3) * 1.0, 0.1),
    }


@pytest.mark.parametrize("dtype", [np.float64, thorough(np.float32)])
def test_it_finds_what_newtons_method_finds(monkeypatch, dtype):
    """Alone, and as lanes that do not feel one another."""
    monkeypatch.setattr(_plan, "NEWTON_LIMIT", 0)
    cases = [
        (x.astype(dtype), y, w.astype(dtype), dtype(l2)) for x, y, w, l2 in troubles().values()
    ]

    def fit(x, y, weight, l2, solver=None):
        return softmax.fit(x, y, num_classes=K, sample_weight=weight, l2=l2, solver=solver)

    lanes, infos = jax.jit(jax.vmap(fit))(*stack(cases))
    expected, known = jax.jit(jax.vmap(functools.partial(fit, solver=solvers.newton)))(
        *stack(cases)
    )
    named = dict(zip(troubles(), np.asarray(infos.status), strict=True))
    assert named == dict(zip(troubles(), np.asarray(known.status), strict=True))
    assert set(named.values()) >= {0, 1, 4, 5, 7, 8}
    solved = np.asarray(infos.status) <= Status.RANK_DEFICIENT
    for found, best in zip(lanes, expected, strict=True):
        # The tolerance on the gradient, 2e-5 in single precision, over the least penalty, 1e-3.
        tol = 1e-7 if dtype == np.float64 else 2e-2
        np.testing.assert_allclose(found[solved], best[solved], rtol=tol, atol=tol)
    alone = jax.jit(fit)
    for i, case in enumerate(cases):
        if named[list(troubles())[i]] == Status.CONVERGED:
            params, info = alone(*case)
            assert info.status == Status.CONVERGED
            # Rounded otherwise, and that over the least curvature, about 1e-3.
            rtol = 1e-9 if dtype == np.float64 else 1e-4
            assert_close(params, jax.tree.map(lambda a, i=i: a[i], lanes), rtol)
    others = [cases[1] if i in (3, 9, 10) else case for i, case in enumerate(cases)]
    again, _ = jax.jit(jax.vmap(fit))(*stack(others))
    for i in range(len(cases)):
        if i not in (3, 9, 10):
            for found, other in zip(lanes, again, strict=True):
                np.testing.assert_array_equal(found[i], other[i])


def descend(problem, start, cap):
    """In double precision to its default tolerance."""
    tol, cap = jnp.asarray(4e-11), jnp.asarray(cap, jnp.int32)
    return _truncated.descend(SPEC, problem, start, tol, cap, doubted=True)


def test_directions_of_rounding_are_not_followed():
    """Columns that sum to one leave one of no curvature but that of their last digits."""
    x, y = np.random.default_rng(5).dirichlet(np.ones(4), size=30), np.arange(30) % 2
    rows, *_ = _prepare.prepare(_checks.table(x, y), num_classes=2)
    basis = _frame.class_basis(jnp.ones(2, bool), x.dtype)
    problem = _frame.make(rows, jnp.zeros(4), True, basis)
    point, steps, spent = jax.jit(descend)(problem, jnp.zeros((1, 5)), 100)
    assert not spent and steps < 10
    again = _light.light(SPEC, problem, point.theta)
    assert again.residual <= 4e-11 and jnp.max(jnp.abs(point.theta)) < 100


def test_a_poor_start_is_given_up():
    problem = problem_of(43, 4)
    zero = jnp.zeros((2, 5))
    run = jax.jit(descend)
    best, steps, _ = run(problem, zero, 2**31 - 1)
    poor = jnp.where(_frame.inert(problem), 0, jnp.full_like(zero, 1e4) * jnp.eye(2, 5))
    again, count, _ = run(problem, poor, 100)
    assert count == steps
    np.testing.assert_array_equal(again.theta, best.theta)
    _, count, _ = run(problem, 0.999 * best.theta, 100)
    assert count < steps


def spread_out(n, *, rare):
    """Overlapping classes, and perhaps columns of very few entries that are not 0."""
    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, 5))
    y = np.argmax(x[:, :K] + rng.gumbel(size=(n, K)), axis=1)
    if rare:
        x[:, 3:] *= (np.arange(n) % (n // 3) == 7)[:, None]
    rows, *_ = _prepare.prepare(_checks.table(x, y), num_classes=K)
    basis = _frame.class_basis(jnp.ones(K, bool), x.dtype)
    return _frame.make(rows, jnp.full(5, 1e-9), True, basis)


PENALISED = SPEC._replace(penalised=True)


def minimised(problem, *, doubted=False):
    """The minimum, the largest J of all rows on the way, and of how many rows products were."""
    began, taken, whole, seen = [], [], _truncated.direction, _truncated.look
    n = problem.rows.x.shape[0]

    def direction(run, *args):
        step, more = whole(run, *args)
        of = run.problem.rows.x.shape[0]
        jax.debug.callback(lambda more: taken.append(of) if more > 0 else None, more)
        return step, more

    def look(run, theta):
        point = seen(run, theta)
        if run.problem.rows.x.shape[0] == n:
            jax.debug.callback(lambda value: began.append(float(value)), point.seen.value)
        return point

    def run(problem):
        tol, cap = jnp.asarray(1e-9), jnp.int32(50)
        start = jnp.zeros((K - 1, problem.spread.size))
        return _truncated.descend(PENALISED, problem, start, tol, cap, doubted=doubted)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_truncated, "direction", direction)
        patch.setattr(_truncated, "look", look)
        point, _, spent = jax.jit(run)(problem)
        jax.effects_barrier()
    theta = point.theta
    assert not spent and _light.light(PENALISED, problem, theta).residual <= 1.1e-9
    return theta, np.max(began), set(taken)


@pytest.mark.parametrize("rare", [False, True])
def test_a_rough_hessian_is_about_that_of_all(rare):
    problem = spread_out(3000, rare=rare)
    assert _sampled.rough(SPEC, spread_out(1500, rare=rare), K - 1) is None
    rough = _sampled.rough(SPEC, problem, K - 1)
    assert rough.rows.framed.shape == (375, 6) and rough.spread.dtype == np.float32
    about, hess = (
        _passes.measure(SPEC, p, jnp.zeros((K - 1, 6), p.spread.dtype))[1] for p in (rough, problem)
    )
    ratios = np.linalg.eigvals(np.linalg.solve(about, hess)).real
    assert ratios.min() > 0.3 and ratios.max() < 2


def test_of_many_rows_products_are_of_a_part():
    """Which is minimised first; what is found is the same."""
    problem = spread_out(4000, rare=False)
    exact, origin, taken = minimised(problem)
    assert taken == {500}
    least = _light.light(SPEC, problem, exact).value
    assert origin - least < 0.05 * (np.log(K) - least)
    again, origin, taken = minimised(problem, doubted=True)
    np.testing.assert_allclose(origin, np.log(K), rtol=1e-12)
    assert taken == {500}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_sampled, "ROUGH_ROWS", 10**9)
        whole, _, taken = minimised(problem)
    assert taken == {4000}
    np.testing.assert_allclose(exact, whole, atol=1e-7)
    np.testing.assert_allclose(again, whole, atol=1e-7)


def test_a_part_that_leads_nowhere_is_left(monkeypatch):
    """Not all rows are as it is: here it has other labels, and columns of other sizes."""
    problem = spread_out(4000, rare=False)
    exact = minimised(problem)[0]
    other = _sampled.rough(SPEC, problem, K - 1)
    z, y = other.rows.framed, other.rows.y
    z = z.at[:, :5].set(z[:, 4::-1] / 30)
    other = other._replace(rows=other.rows._replace(framed=z, y=(y + 1) % K))
    monkeypatch.setattr(_sampled, "rough", lambda *_: other)
    theta, _, taken = minimised(problem)
    assert taken == {500, 4000}
    np.testing.assert_allclose(theta, exact, atol=1e-7)


def test_what_leaves_single_precision_is_not_led_by_it(monkeypatch):
    """A column of double precision whose one large entry has next to no weight."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 5))
    y, weight = np.argmax(x[:, :K] + rng.gumbel(size=(4000, K)), axis=1), np.ones(4000)
    x[:, 4] *= 1e-60
    x[7, 4], weight[7] = 1, 1e-130
    rows, *_ = _prepare.prepare(_checks.table(x, y, sample_weight=weight), num_classes=K)
    basis = _frame.class_basis(jnp.ones(K, bool), x.dtype)
    problem = _frame.make(rows, jnp.full(5, 1e-9), True, basis)
    assert jnp.max(problem.spread) > 1e39
    theta, largest, taken = minimised(problem)
    assert 4000 in taken and np.isfinite(largest)
    monkeypatch.setattr(_sampled, "ROUGH_ROWS", 10**9)
    np.testing.assert_allclose(theta, minimised(problem)[0], atol=1e-6)


@pytest.mark.parametrize("offset", [False, True])
def test_the_loss_at_the_origin_is_of_every_row(offset):
    """By class where all rows of one are alike, an absent class among them."""
    for absent in (False, True):
        problem = problem_of(90, 5, absent=absent)
        if not offset:
            problem = problem._replace(rows=problem.rows._replace(offset=None))
        nothing = jnp.zeros((K - 1, problem.spread.size))
        known = _light.light(SPEC, problem, nothing)
        np.testing.assert_allclose(_light.value_at_origin(SPEC, problem), known.value, 1e-12)
        curve = _light.curve_at_origin(SPEC, problem) * (K - 1 - absent)
        np.testing.assert_allclose(curve, known.curve, 1e-12)


@pytest.mark.cpu
def test_a_part_of_the_rows_is_never_copied_in_double_precision():
    """Of a float64 x it is held in float32, block by block, and temporaries are a part of x."""
    n, d = 200_000, 20
    x, y = jax.ShapeDtypeStruct((n, d), np.float64), jax.ShapeDtypeStruct((n,), np.int32)
    call = jax.jit(lambda x, y: softmax.fit(x, y, num_classes=K, l2=1e-4))
    program = call.lower(x, y).compile()
    part = n // _sampled.ROUGH_PART
    assert f"f32[{part},{d + 1}]" in program.as_text()
    assert f"f64[{part},{d}" not in program.as_text()
    assert program.memory_analysis().temp_size_in_bytes < 0.3 * n * d * 8


def test_products_are_counted(monkeypatch):
    monkeypatch.setattr(_truncated, "PRODUCTS", 1)
    problem = problem_of(43, 4)
    _, steps, spent = jax.jit(lambda *args: descend(*args))(problem, jnp.zeros((2, 5)), 6)
    assert spent and steps < 6


def test_digits():
    """Where rows are nearly separated, and L-BFGS takes hundreds of steps."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    params, info = softmax.fit(x, y, l2=1e-4, tol=1e-6)
    assert info.status == Status.CONVERGED and info.steps <= 15
    short = softmax.fit(x, y, l2=1e-4, tol=1e-6, max_steps=5)[1]
    assert short.status == Status.MAX_STEPS and short.steps <= 5
    again = softmax.fit(x, y, l2=1e-4, tol=1e-6, init=params)[1]
    assert again.status == Status.CONVERGED and again.steps == 0

"""Solvers: the minimum of a convex function, and no CONVERGED where there is none."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxlin import Status, solvers

TARGET = jnp.array([1.0, -2.0, 0.5])
ADAM = solvers.from_optax(optax.adam(0.05))


def bowl(params, target):
    """Smooth, convex and not quadratic, over a pytree."""
    return jnp.sum(jnp.cosh(params["a"] - target)) + (params["b"] - 3.0) ** 2


START = {"a": jnp.zeros(3), "b": jnp.zeros(())}


def code(info):
    return Status(int(info.status))


@pytest.mark.parametrize(
    ("solver", "tol"),
    [(solvers.newton, None), (solvers.lbfgs, None), (solvers.gradient_descent, 1e-9), (ADAM, 1e-6)],
)
def test_the_minimum_of_a_pytree(solver, tol):
    params, info = solver(bowl, START, (TARGET,), tol=tol)
    assert code(info) == Status.CONVERGED
    np.testing.assert_allclose(params["a"], TARGET, atol=2 * (tol or 1e-10))
    np.testing.assert_allclose(params["b"], 3.0, atol=2 * (tol or 1e-10))
    grad = jax.grad(bowl)(params, TARGET)
    assert max(np.abs(grad["a"]).max(), abs(grad["b"])) <= (tol or 4e-11)


def softplus_pair(params, slope):
    return jnp.sum(jax.nn.softplus(slope * params) + jax.nn.softplus(-params))


def test_newton_does_not_diverge_from_far_starts():
    starts = jnp.asarray(np.random.default_rng(0).normal(size=(50, 3)) * [1.0, 10.0, 100.0])
    fit = jax.jit(jax.vmap(lambda s: solvers.newton(softplus_pair, s, (jnp.array(2.0),))))
    params, info = fit(starts)
    assert np.all(info.status == Status.CONVERGED)
    assert np.ptp(params, axis=0).max() < 1e-8


@pytest.mark.parametrize("solver", [solvers.newton, solvers.lbfgs])
@pytest.mark.parametrize(
    "objective",
    [
        lambda p: jnp.exp(-p),
        lambda p: 1 / p,
        lambda p: jax.nn.softplus(p),
        lambda p: 1e-13 * p,
    ],
    ids=["exp", "reciprocal", "softplus", "line"],
)
def test_no_minimum_is_never_converged(objective, solver):
    _, info = solver(objective, jnp.array(1.0))
    assert code(info) in (Status.STALLED, Status.MAX_STEPS)


def test_gradient_descent_is_the_textbook_loop():
    def objective(p):
        return jnp.sum(p**4 + (p - 1.0) ** 2)

    point, steps = np.zeros(2), 0
    while True:
        move = 0.05 / (steps + 1) * (4 * point**3 + 2 * (point - 1))
        point, steps = point - move, steps + 1
        if np.linalg.norm(move) < 1e-3:
            break
    params, info = solvers.gradient_descent(
        objective, jnp.zeros(2), step_size=lambda k: 0.05 / k.astype(float), theta=1e-3
    )
    np.testing.assert_allclose(params, point, rtol=1e-12)
    assert int(info.steps) == steps and code(info) == Status.STALLED


def test_a_step_too_large_ends_at_the_last_finite_point():
    params, info = solvers.gradient_descent(lambda p: jnp.sum(p**4), jnp.ones(2), step_size=10.0)
    assert code(info) == Status.STALLED
    np.testing.assert_allclose(jnp.sum(params**4), info.objective, rtol=1e-12)


def test_a_given_hessian_and_a_preconditioner():
    scale = jnp.array([1.0, 1e2, 1e4])

    def objective(p):
        return jnp.sum(jnp.cosh(p - 1.0) * scale)

    plain, _ = solvers.newton(objective, jnp.zeros(3))
    given, info = solvers.newton(
        objective, jnp.zeros(3), hessian=lambda p: jnp.diag(jnp.cosh(p - 1.0) * scale)
    )
    np.testing.assert_allclose(given, plain, rtol=1e-12)
    better, status = solvers.lbfgs(objective, jnp.zeros(3), precondition=jnp.diag(scale), tol=1e-8)
    assert code(info) == code(status) == Status.CONVERGED
    np.testing.assert_allclose(better, plain, atol=1e-8)


def test_the_residual_is_in_the_users_coordinates():
    mixed = jnp.array([[1.0, 0.0, 0.0], [3.0, 2.0, 0.0], [-40.0, 7.0, 30.0]])

    def objective(p):
        return jnp.sum(jnp.cosh(mixed @ p - 1.0))

    params, info = solvers.lbfgs(
        objective, jnp.zeros(3), precondition=mixed.T @ mixed, max_steps=3, tol=0.0
    )
    grad = jax.grad(objective)(params)
    np.testing.assert_allclose(info.residual, np.abs(grad).max(), rtol=1e-6)


def test_a_start_at_the_minimum_is_proved():
    params, info = solvers.newton(bowl, {"a": TARGET, "b": jnp.array(3.0)}, (TARGET,))
    assert code(info) == Status.CONVERGED
    np.testing.assert_array_equal(params["a"], TARGET)


@pytest.mark.parametrize("solver", [solvers.newton, solvers.lbfgs])
def test_the_derivative_is_with_respect_to_args(solver):
    def minimum(target):
        return solver(bowl, START, (target,))[0]["a"]

    np.testing.assert_allclose(jax.jacrev(minimum)(TARGET), np.eye(3), atol=1e-9)
    np.testing.assert_allclose(jax.jacfwd(minimum)(TARGET), np.eye(3), atol=1e-9)


@pytest.mark.parametrize("solver", [solvers.newton, solvers.lbfgs, solvers.gradient_descent])
def test_the_trace_visits_the_points_of_the_run(solver):
    params, value, residual = solvers.trace(solver, bowl, START, (TARGET,), num_steps=4)
    assert params["a"].shape == (5, 3) and value.shape == residual.shape == (5,)
    np.testing.assert_array_equal(params["a"][0], START["a"])
    last, info = solver(bowl, START, (TARGET,), max_steps=4, tol=0.0)
    np.testing.assert_allclose(params["a"][-1], last["a"], rtol=1e-12)
    np.testing.assert_allclose(value[-1], info.objective, rtol=1e-12)
    np.testing.assert_allclose(residual[-1], info.residual, rtol=1e-6, atol=1e-15)
    assert np.all(np.diff(value) <= 0)


def test_a_trace_stays_where_its_run_ends():
    params, *_ = solvers.trace(
        solvers.gradient_descent, bowl, START, (TARGET,), num_steps=30, theta=0.1
    )
    last, info = solvers.gradient_descent(bowl, START, (TARGET,), theta=0.1)
    assert info.steps < 30
    np.testing.assert_allclose(params["a"][-1], last["a"], rtol=1e-12)


def test_stochastic_descent_reaches_a_common_minimum():
    rows = jnp.asarray(np.random.default_rng(0).normal(size=(64, 2)))

    def objective(params, rows):
        return jnp.mean((rows @ params - rows @ jnp.array([1.0, 2.0])) ** 2)

    params, info = solvers.stochastic(
        jax.random.key(0),
        objective,
        jnp.zeros(2),
        rows,
        batch_size=8,
        steps=400,
        optimizer=optax.sgd(0.1),
        tol=1e-8,
    )
    np.testing.assert_allclose(params, [1.0, 2.0], atol=1e-6)
    assert code(info) == Status.CONVERGED


def test_stochastic_descent_picks_every_row():
    rows = jnp.array([0.0, 1.0])
    params, _ = solvers.stochastic(
        jax.random.key(0),
        lambda p, rows: jnp.mean((rows - p) ** 2),
        jnp.zeros(()),
        rows,
        batch_size=8,
        steps=300,
        optimizer=optax.sgd(0.02),
    )
    np.testing.assert_allclose(params, 0.5, atol=0.15)


def test_no_steps_and_bad_starts():
    params, info = solvers.newton(bowl, START, (TARGET,), max_steps=0)
    assert code(info) == Status.MAX_STEPS and np.all(params["a"] == 0)
    with pytest.raises(ValueError, match="objective: not finite"):
        solvers.newton(lambda p: jnp.log(p), jnp.array(-1.0))
    with pytest.raises(TypeError, match=r"solver: expected solvers\.newton"):
        solvers.trace(lambda *a: None, bowl, START, (TARGET,), num_steps=2)


def test_an_objective_may_close_over_what_it_depends_on():
    """The derivative is never silently 0."""

    def outcome(target):
        params, _ = solvers.newton(lambda p: jnp.sum(jnp.cosh(p - target)), jnp.zeros(2))
        return jnp.sum(params)

    np.testing.assert_allclose(jax.grad(outcome)(0.5), 2, rtol=1e-9)
    np.testing.assert_allclose(jax.jacfwd(outcome)(0.5), 2, rtol=1e-9)

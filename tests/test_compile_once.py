"""A second call with the same shapes compiles nothing, and a sweep over a number is one compile.

That a second call with other values compiles nothing is checked where functions are called twice
anyway, in `test_transforms`; here are the sweeps, and the functions of functions.
"""

import functools
import inspect

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxlin import logistic, losses, metrics, multiclass, perceptron, resample, solvers, updates
from jaxlin.types import Hyperplane
from tests import public
from tests.counting import compiling_nothing
from tests.public import FITS

# What a user may sweep over, and values that differ in more than their size.
SWEEPS = {
    "shrinkage": 0.3,
    "pooling": 0.3,
    "alpha": 0.3,
    "smoothing": 0.3,
    "l2": 0.3,
    "tol": 1e-3,
    "step_size": 0.25,
    "max_steps": 7,
    "max_epochs": 7,
}


@pytest.fixture(autouse=True, scope="module")
def _room():
    """jax's tables of traced functions hold so many and no more; a whole suite can fill them."""
    jax.clear_caches()


# A scalar that arrives as an array of another dtype is cast, by programs of one instruction.
CASTS = ("convert_element_type", "stage", "broadcast_in_dim", "minimum", "maximum")


def test_the_counter_counts():
    with pytest.raises(AssertionError, match="backend_compile_duration"), compiling_nothing():
        jax.jit(lambda a: a + 1)(jnp.zeros(()))


@pytest.mark.parametrize("name", public.NAMES)
def test_a_sweep_is_one_compile(name):
    fit = FITS[name]
    inner = inspect.unwrap(_function(fit))
    if "(" in name:  # of a combinator
        inner = logistic.fit if "logistic" in name else perceptron.fit
    known = inspect.signature(inner).parameters
    swept = {option: value for option, value in SWEEPS.items() if option in known}
    if not swept:
        assert known.keys() <= {
            "x",
            "y",
            "threshold",
            "priors",
            "divisor",
            "axis_name",
            *public.SHARED,
        }
        pytest.skip("a fit without a number to sweep over")
    x, y, weight, mask = fit.draw(0)
    fit(x, y, weight, mask, **swept)
    for option, value in swept.items():
        number = int if isinstance(value, int) else float
        kinds = [2 * value, number(1), np.asarray(value), np.asarray(value, number)[()]]
        kinds += [jnp.asarray(value), jnp.asarray(value, np.int32 if number is int else np.float32)]
        for each in kinds:
            with compiling_nothing(CASTS):
                fit(x, y, weight, mask, **{**swept, option: each})


def _function(fit):
    return fit.call.func if isinstance(fit.call, functools.partial) else fit.call


# --- combinators ---------------------------------------------------------------------------------


def test_combinators_are_memoised():
    assert multiclass.one_vs_rest(perceptron.fit) is multiclass.one_vs_rest(perceptron.fit)
    assert solvers.from_optax(public.ADAM) is solvers.from_optax(public.ADAM)


def test_one_vs_rest_of_options_traces_its_fit_once():
    fit = chex.assert_max_traces(public.mean_difference, n=1)
    x, y, weight, _ = FITS["one_vs_rest(perceptron.fit)"].draw(0)
    for l2 in (0.1, 2.0, np.float64(3.0)):
        multiclass.one_vs_rest(fit)(x, y, num_classes=3, sample_weight=weight, l2=l2)
    with pytest.raises(AssertionError, match="traced"):
        multiclass.one_vs_rest(fit)(x[:9], y[:9], num_classes=3, l2=0.1)


def test_cross_validation_traces_its_fit_and_metric_once():
    fit = chex.assert_max_traces(public.mean_difference, n=1)
    metric = chex.assert_max_traces(metrics.accuracy, n=1)
    x, y, _, _ = FITS["perceptron.fit"].draw(0)
    for seed, l2 in enumerate((0.1, 2.0, np.float64(3.0))):
        folds = resample.stratified_kfold(jax.random.key(seed), y, folds=4)
        resample.cross_validate(fit, metric, x, y, folds, l2=l2)


# --- functions of the user's functions -----------------------------------------------------------


class Counted:
    """An objective that counts how often it is traced."""

    def __init__(self, f):
        self.f, self.calls = f, 0

    def __call__(self, *arguments):
        self.calls += 1
        return self.f(*arguments)


@pytest.mark.parametrize(
    "solver, options",
    [
        (solvers.newton, {}),
        (solvers.lbfgs, {}),
        (solvers.gradient_descent, {"step_size": 0.2, "theta": 1e-9}),
        (solvers.from_optax(public.ADAM), {}),
    ],
    ids=["newton", "lbfgs", "gradient_descent", "from_optax"],
)
def test_a_solver_traces_its_objective_once(solver, options):
    objective = Counted(public.bowl)
    start, target = np.zeros(3), np.arange(3.0)
    options = {"tol": 1e-6, "max_steps": 50, **options}
    solver(objective, start, (target,), **options)
    calls = objective.calls
    assert calls > 0
    solver(objective, start + 1, (target + 1,), **options)
    for option, value in options.items():
        for each in (2 * value, np.asarray(2 * value), jnp.asarray(2 * value)):
            solver(objective, start, (target,), **{**options, option: each})
    assert objective.calls == calls


def test_a_schedule_is_part_of_the_program():
    objective = Counted(public.bowl)
    schedule = optax.exponential_decay(0.3, 10, 0.9)
    solvers.gradient_descent(objective, np.zeros(2), (1.0,), step_size=schedule)
    calls = objective.calls
    solvers.gradient_descent(objective, np.zeros(2), (2.0,), step_size=schedule)
    assert objective.calls == calls


def test_objective_traces_its_loss_once():
    # The fold looks at the loss's shapes before it loops, hence Counted and not assert_max_traces.
    loss = Counted(losses.logistic.__wrapped__)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(24, 3)), rng.integers(2, size=24)
    params = Hyperplane(weights=np.zeros(3), bias=np.zeros(()))
    losses.objective(loss, params, x, y, l2=0.1)
    calls = loss.calls
    for l2 in (0.2, 1, np.float32(0.3), jnp.asarray(0.4)):
        losses.objective(loss, params, x + 1, y, l2=l2)
    assert loss.calls == calls


def test_run_traces_its_rule_once():
    rule = chex.assert_max_traces(updates.perceptron.__wrapped__, n=1)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(24, 3)), rng.integers(2, size=24)
    params = Hyperplane(weights=np.zeros(3), bias=np.zeros(()))
    for step_size in (1.0, 2, np.float32(0.3), jnp.asarray(0.4)):
        updates.run(rule, params, x, y, step_size=step_size)

"""Each update rule is the textbook's, and `run` drives any of them."""

import inspect
from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlin import losses, perceptron, updates
from jaxlin.types import Hyperplane, Linear

RNG = np.random.default_rng(0)
N, D, K = 12, 3, 4
X = RNG.normal(size=(N, D))
Y2, YK = RNG.integers(0, 2, N), RNG.integers(0, K, N)
PLANE = Hyperplane(weights=RNG.normal(size=D), bias=np.array(0.3))
LINEAR = Linear(weights=RNG.normal(size=(K, D)), bias=RNG.normal(size=K))
MULTICLASS = ["softmax", "multiclass_perceptron"]
RULES = {
    name: rule
    for name, rule in vars(updates).items()
    if not name.startswith("_")
    and hasattr(rule, "__wrapped__")  # compiled
    and "step_size" in inspect.signature(rule).parameters
}


def setting(name):
    return (LINEAR, YK) if name in MULTICLASS else (PLANE, Y2)


def test_all_rules_are_found():
    assert len(RULES) == 8


# Every rule but PA is a step down the gradient of a loss.
DESCENDS = {
    "perceptron": losses.perceptron,
    "logistic": losses.logistic,
    "adaline": losses.squared,
    "hinge": losses.hinge,
    "softmax": losses.softmax,
    "multiclass_perceptron": losses.multiclass_perceptron,
}


@pytest.mark.parametrize("name", DESCENDS)
def test_rules_descend_their_loss(name):
    params, y = setting(name)

    @partial(jax.vmap, in_axes=(None, 0, 0))
    @jax.grad
    def slope(params, row, label):
        return DESCENDS[name](jnp.matmul(params.weights, row) + params.bias, label)

    new = jax.vmap(partial(RULES[name], step_size=0.7), in_axes=(None, 0, 0))(params, X, y)
    want = jax.tree.map(
        lambda p, g: np.asarray(p)[None] - 0.7 * g, params, jax.jit(slope)(params, X, y)
    )
    chex.assert_trees_all_close(new, want)


@pytest.mark.parametrize("name", RULES)
def test_rules_agree_under_jit_and_vmap(name):
    params, y = setting(name)
    rule = partial(RULES[name], step_size=0.7)
    single = [rule(params, row, label) for row, label in zip(X, y, strict=True)]
    lanes = jax.vmap(rule, in_axes=(None, 0, 0))(params, X, y)
    chex.assert_trees_all_close(lanes, jax.tree.map(lambda *a: jnp.stack(a), *single))
    fixed = rule(params, X[0], y[0], bias=False)
    chex.assert_trees_all_equal(fixed.bias, jnp.asarray(params.bias))


@pytest.mark.parametrize("name", RULES)
def test_rules_keep_the_dtype_of_the_params(name):
    params, y = setting(name)
    params = jax.tree.map(lambda a: a.astype(np.float32), params)
    new = jax.eval_shape(RULES[name], params, X[0], y[0].astype(np.uint8))
    assert {a.dtype for a in jax.tree.leaves(new)} == {np.dtype(np.float32)}


def test_ties_are_mistakes():
    zero = jax.tree.map(np.zeros_like, PLANE)
    for y in (0, 1):
        new = updates.perceptron(zero, X[0], y)
        np.testing.assert_array_equal(new.weights, (2 * y - 1) * X[0])
    new = updates.multiclass_perceptron(jax.tree.map(np.zeros_like, LINEAR), X[0], 1)
    np.testing.assert_array_equal(new.weights, [-X[0], X[0], 0 * X[0], 0 * X[0]])
    np.testing.assert_array_equal(new.bias, [-1, 1, 0, 0])


def test_hinge_shrinks_all_but_the_bias():
    far = PLANE._replace(weights=100 * X[0])
    new = updates.hinge(far, X[0], 1, step_size=0.5, l2=0.2)
    np.testing.assert_allclose(new.weights, 0.9 * far.weights)
    assert new.bias == far.bias
    each = updates.hinge(far, X[0], 1, step_size=0.5, l2=np.array([0.0, 0.2, 2.0]))
    np.testing.assert_allclose(each.weights, np.array([1, 0.9, 0]) * far.weights, atol=1e-12)


def test_the_second_passive_aggressive_is_the_least_of_its_objective():
    """|w - w0|^2 / 2 + C loss^2, with the bias among the weights, by its derivative."""
    for y, c in ((1, 0.3), (0, 2.0)):
        new = updates.passive_aggressive_ii(PLANE, X[0], y, aggressiveness=c)

        def objective(plane, y=y, c=c):
            moved = jax.tree.map(lambda a, b: jnp.sum((a - b) ** 2), plane, PLANE)
            s = plane.weights @ X[0] + plane.bias
            return sum(moved) / 2 + c * jnp.maximum(0, 1 - (2 * y - 1) * s) ** 2

        assert objective(new) < objective(PLANE)
        for slope in jax.grad(objective)(new):
            np.testing.assert_allclose(slope, 0, atol=1e-12)
    plain = updates.passive_aggressive(PLANE, X[0], 1)
    same = updates.passive_aggressive_ii(PLANE, X[0], 1)
    jax.tree.map(np.testing.assert_array_equal, same, plain)


def test_passive_aggressive_just_reaches_the_margin():
    for bias in (True, False):
        new = updates.passive_aggressive(PLANE, X[0], 1, bias=bias)
        np.testing.assert_allclose(X[0] @ new.weights + new.bias, 1, rtol=1e-12)
    same = updates.passive_aggressive(new, X[0] * 2, 1)
    chex.assert_trees_all_equal(same, new)
    bounded = updates.passive_aggressive(PLANE, X[0], 0, aggressiveness=1e-3)
    np.testing.assert_allclose(bounded.weights, PLANE.weights - 1e-3 * X[0])
    nothing = updates.passive_aggressive(PLANE, 0 * X[0], 1, bias=False)
    np.testing.assert_array_equal(nothing.weights, PLANE.weights)


def test_soft_labels():
    hard = updates.logistic(PLANE, X[0], 1)
    chex.assert_trees_all_equal(updates.logistic(PLANE, X[0], 1.0), hard)
    hard = updates.softmax(LINEAR, X[0], 2)
    chex.assert_trees_all_equal(updates.softmax(LINEAR, X[0], np.eye(K)[2]), hard)


def by_hand(rule, params, y, order, weight, step):
    for i in order:
        new = rule(params, X[i], y[i], step_size=step)
        params = jax.tree.map(lambda p, q, i=i: p + weight[i] * (q - p), params, new)
    return params


@pytest.mark.parametrize("name", RULES)
def test_run_is_the_loop_by_hand(name):
    params, y = setting(name)
    order, weight = np.arange(N) ** 2 % N, RNG.uniform(0.5, 2, N)
    got, _ = updates.run(
        RULES[name], params, X, y, order=order, sample_weight=weight, step_size=0.3
    )
    chex.assert_trees_all_close(got, by_hand(RULES[name], params, y, order, weight, 0.3))


def test_run_is_the_perceptron_fit():
    x = np.round(4 * X)
    zero = jax.tree.map(np.zeros_like, PLANE)
    plane, info = perceptron.fit(x, Y2, max_epochs=3)
    params, mistakes = updates.run(updates.perceptron, zero, x, Y2, order=np.arange(3 * N) % N)
    chex.assert_trees_all_equal(params, plane)
    assert mistakes == info.steps


def test_run_counts_mistakes_before_each_update():
    frozen = partial(updates.run, step_size=0.0)  # so that all are judged by the same params
    _, mistakes = frozen(updates.perceptron, PLANE, X, Y2)
    t_s = (2 * Y2 - 1) * (X @ PLANE.weights + PLANE.bias)
    assert int(mistakes) == np.sum(t_s <= 0)
    _, mistakes = frozen(updates.softmax, LINEAR, X, YK)
    assert int(mistakes) == np.sum(np.argmax(X @ LINEAR.weights.T + LINEAR.bias[None, :], 1) != YK)
    _, mistakes = frozen(updates.softmax, jax.tree.map(np.zeros_like, LINEAR), X, YK)
    assert mistakes == N
    _, mistakes = frozen(updates.perceptron, jax.tree.map(np.zeros_like, PLANE), X, Y2)
    assert mistakes == N


@pytest.mark.parametrize("name", RULES)
def test_run_skips_rows_of_weight_zero(name):
    params, y = setting(name)
    keep = np.arange(N) % 3 != 0
    x, labels = np.where(keep[:, None], X, np.nan), np.where(keep, y, 99)
    got, _ = updates.run(
        RULES[name], params, x, labels, order=np.arange(N), sample_weight=keep, step_size=0.3
    )
    want = by_hand(RULES[name], params, y, np.flatnonzero(keep), np.ones(N), 0.3)
    chex.assert_trees_all_close(got, want)


def test_run_says_nan_for_bad_data():
    nan_row = np.where(np.arange(N)[:, None] == 2, np.nan, X)
    for bad in (
        updates.run(updates.perceptron, PLANE, nan_row, Y2),
        updates.run(updates.perceptron, PLANE, X, Y2, order=[0, N]),
        updates.run(updates.perceptron, PLANE, X, Y2, order=[-1]),
        updates.run(updates.perceptron, PLANE, X, Y2, sample_weight=-np.ones(N)),
    ):
        assert all(np.all(np.isnan(a)) for a in bad[0])
    good, _ = updates.run(updates.perceptron, PLANE, nan_row, Y2, order=[0, 1, 3])
    assert np.all(np.isfinite(good.weights))


def test_run_takes_your_rule_and_one_step_per_visit():
    def decay(params, x, y, *, step_size, factor):
        return jax.tree.map(lambda a: factor * step_size * a, params)

    steps = np.linspace(1, 2, N)
    got, _ = updates.run(decay, PLANE, X, Y2, step_size=steps, factor=0.5)
    np.testing.assert_allclose(got.weights, PLANE.weights * np.prod(0.5 * steps))
    got, _ = updates.run(updates.hinge, PLANE, X, Y2, step_size=1 / np.arange(1, N + 1), l2=1.0)
    assert np.all(np.isfinite(got.weights))
    got, _ = updates.run(updates.logistic, PLANE, X, Y2, bias=False)
    assert got.bias == PLANE.bias


def test_run_maps_and_compiles_once(caplog):
    weights = RNG.integers(0, 3, (5, N)).astype(float)
    of = jax.jit(chex.assert_max_traces(_run_logistic, 1))
    single = [of(w) for w in weights]
    chex.assert_trees_all_close(
        jax.vmap(_run_logistic)(weights),
        jax.tree.map(lambda *a: jnp.stack(a), *single),
    )
    updates.run(updates.adaline, PLANE, X, Y2, step_size=1.0)
    with jax.log_compiles():
        updates.run(updates.adaline, PLANE, 2 * X, 1 - Y2, step_size=2.0)
    assert [r.message for r in caplog.records if "Compiling" in r.message] == []


def _run_logistic(weight):
    return updates.run(updates.logistic, PLANE, X, Y2, sample_weight=weight, step_size=0.5)


def test_run_widens_half_precision():
    x = jnp.asarray(np.round(4 * X), jnp.bfloat16)
    got, _ = updates.run(updates.perceptron, PLANE, x, Y2)
    want, _ = updates.run(updates.perceptron, PLANE, x.astype(jnp.float32), Y2)
    assert got.weights.dtype == np.float32
    chex.assert_trees_all_equal(got, want)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"x: expected shape \(3,\), got \(12, 3\)"):
        updates.perceptron(PLANE, X, 0)
    with pytest.raises(ValueError, match=r"y: expected shape \(\)"):
        updates.perceptron(PLANE, X[0], Y2)
    with pytest.raises(TypeError, match="float"):
        updates.perceptron(PLANE, X[0], 1.0)
    with pytest.raises(ValueError, match="a Hyperplane of weights"):
        updates.perceptron(LINEAR, X[0], 1)
    with pytest.raises(ValueError, match="a Linear of weights"):
        updates.softmax(PLANE, X[0], 1)
    with pytest.raises(ValueError, match="order: expected integers"):
        updates.run(updates.perceptron, PLANE, X, Y2, order=[0.5])
    with pytest.raises(ValueError, match=r"step_size: expected shape \(\) or \(12,\)"):
        updates.run(updates.perceptron, PLANE, X, Y2, step_size=np.ones(3))

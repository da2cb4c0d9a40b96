"""The laws of derivatives through every fit that has them.

Against five-point differences, forward against reverse, and what a lane says that has failed.
"""

import functools
import inspect
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlin import (
    centroids,
    fisher,
    gaussian,
    lda,
    least_squares,
    logistic,
    losses,
    ordinal,
    qda,
    softmax,
    solvers,
    svm,
)
from jaxlin.types import Info, Status
from tests import public
from tests.public import thorough

N, D = 30, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D))
CLASSES = np.arange(N) % 3
X[:, 0] += 0.7 * CLASSES
BINARY = CLASSES > 0
SOFT = 0.1 + 0.7 * RNG.dirichlet(np.ones(3), size=N)
EACH_L2 = np.array([0.1, 0.2, 0.3])
WEIGHT = RNG.uniform(0.5, 2, size=N)
WEIGHT[3] = 0
PRIORS = np.array([0.2, 0.3, 0.5])


class Fit(NamedTuple):
    """call: `fit(x, *, sample_weight, **inputs)`; inputs: further ones, all differentiable."""

    call: object
    inputs: dict


def hard(fit, y=CLASSES, **options):
    options = options if fit in BINARY_FITS else {"num_classes": 3, **options}
    return lambda x, **inputs: fit(x, y, **inputs, **options)


def soft(fit, **options):
    return lambda x, y, **inputs: fit(x, y, **inputs, **options)


BINARY_FITS = (logistic.fit, logistic.fit_firth, svm.fit, fisher.fit)
FITS = {
    "logistic": Fit(
        soft(logistic.fit),
        {"y": 0.1 + 0.8 * BINARY, "l2": EACH_L2, "offset": RNG.normal(size=N)},
    ),
    "logistic by L-BFGS": Fit(
        soft(logistic.fit, solver=solvers.lbfgs),
        {"y": 0.1 + 0.8 * BINARY, "l2": np.array(0.1), "offset": RNG.normal(size=N)},
    ),
    "firth": Fit(soft(logistic.fit_firth), {"y": 0.1 + 0.8 * BINARY, "offset": RNG.normal(size=N)}),
    "softmax": Fit(
        soft(softmax.fit, num_classes=3),
        {"y": SOFT, "l2": EACH_L2, "offset": RNG.normal(size=(N, 3))},
    ),
    "ordinal": Fit(hard(ordinal.fit), {"l2": EACH_L2, "offset": RNG.normal(size=N)}),
    "squared hinge": Fit(
        hard(svm.fit, BINARY.astype(int), loss=losses.squared_hinge), {"l2": EACH_L2}
    ),
    "least squares": Fit(hard(least_squares.fit), {"l2": EACH_L2}),
    "lda": Fit(hard(lda.fit), {"priors": PRIORS, "shrinkage": np.array(0.2)}),
    "qda": Fit(
        hard(qda.fit),
        {"priors": PRIORS, "shrinkage": np.array(0.2), "pooling": np.array(0.3)},
    ),
    "centroids": Fit(hard(centroids.fit), {"priors": PRIORS, "threshold": np.array(0.1)}),
    "gaussian": Fit(hard(gaussian.fit), {}),
    "fisher": Fit(hard(fisher.fit, BINARY.astype(int)), {}),
}
OF_CLASSES = {"softmax", "least squares", "lda", "qda", "gaussian", "centroids", "ordinal"}
USUAL = {"logistic", "lda", "squared hinge"}
NAMES = [name if name in USUAL else thorough(name) for name in FITS]


def moves(inputs):
    """A direction in every input; labels of k classes and priors keep their sum."""
    rng = np.random.default_rng(1)

    def move(name, a):
        v = rng.normal(size=a.shape)
        return v - v.mean(-1, keepdims=True) if name == "y" and a.ndim == 2 else v

    return {name: move(name, a) for name, a in inputs.items()}


@functools.cache
def programs(name):
    """The fit as functions of a dictionary: its flat params and objective, their jvp and vjp."""
    fit = FITS[name]

    def flat(inputs):
        x, weight, *_ = inputs.pop("x"), inputs.pop("sample_weight")
        params, info = fit.call(x, sample_weight=weight, **inputs)
        return jnp.concatenate([jnp.ravel(leaf) for leaf in (*params, info.objective)])

    def values(inputs):
        return flat(dict(inputs))

    def forward(inputs, tangents):
        return jax.jvp(values, (inputs,), (tangents,))[1]

    def backward(inputs, cotangent):
        return jax.vjp(values, inputs)[1](cotangent)[0]

    return jax.jit(values), jax.jit(forward), jax.jit(backward)


def inputs_of(name):
    given = {"x": X, "sample_weight": WEIGHT, **FITS[name].inputs}
    return {key: jnp.asarray(a, float) for key, a in given.items()}


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_are_differences(name):
    """Of every input by itself; a weight of 0 cannot fall, so there the weights' row stays."""
    values, forward, _ = programs(name)
    inputs = inputs_of(name)
    move = moves(inputs)
    move["sample_weight"][3] = 0
    still = jax.tree.map(jnp.zeros_like, inputs)
    h = 1e-3
    for key in inputs:
        tangent = {**still, key: jnp.asarray(move[key])}
        found = forward(inputs, tangent)
        at = [values(jax.tree.map(lambda a, v: a + k * h * v, inputs, tangent)) for k in STENCIL]  # noqa: B023 # used at once
        slope = sum(c * v for c, v in zip(STENCIL.values(), at, strict=True)) / h
        # Of order h^4 is what the differences miss themselves.
        coarse = sum(c * v for c, v in zip(COARSE.values(), at, strict=True)) / (2 * h)
        missed = jnp.linalg.norm(slope - coarse) / 15
        error = jnp.linalg.norm(found - slope)
        assert error <= 1e-8 * jnp.linalg.norm(found) + 2 * missed, key
        assert error <= 1e-6 * jnp.linalg.norm(found), key


@pytest.mark.parametrize("name", NAMES)
def test_the_derivative_in_a_weight_of_0(name):
    """It is one-sided, and what it is for a row that is there; a row of NaN has none, and is 0."""
    values, forward, _ = programs(name)
    inputs = inputs_of(name)
    still = jax.tree.map(jnp.zeros_like, inputs)
    tangent = {**still, "sample_weight": jnp.zeros(N).at[3].set(1.0)}
    assert_is_slope(forward(inputs, tangent), values, inputs, tangent, 1e-3)
    inputs["x"] = inputs["x"].at[3].set(jnp.nan)
    assert not forward(inputs, tangent).any()


# Values that could be taken for the absence of what they are of, and to which side they may move.
EDGES = [("l2", 0, 1), ("shrinkage", 0, 1), ("shrinkage", 1, -1), ("pooling", 0, 1)]
EDGES += [("pooling", 1, -1), ("offset", 0, 1), ("sample_weight", 1, 1)]


@pytest.mark.parametrize("name", NAMES)
def test_a_value_that_could_mean_absent_has_a_derivative(name):
    values, forward, _ = programs(name)
    for key, at, side in EDGES:
        inputs = inputs_of(name)
        if key not in inputs or (key == "l2" and name == "squared hinge"):  # whose l2 is positive
            continue
        inputs[key] = jnp.full_like(inputs[key], at)
        still = jax.tree.map(jnp.zeros_like, inputs)
        tangent = {**still, key: jnp.abs(moves(inputs)[key]) * side}
        found = forward(inputs, tangent)
        assert found.any(), key
        assert_is_slope(found, values, inputs, tangent, 5e-4)


def assert_is_slope(found, values, inputs, tangent, h):
    """Against one-sided differences of five points."""
    at = [values(jax.tree.map(lambda a, v, k=k: a + k * h * v, inputs, tangent)) for k in range(5)]
    slope = sum(c * v for c, v in zip((-25 / 12, 4, -3, 4 / 3, -1 / 4), at, strict=True)) / h
    assert jnp.linalg.norm(found - slope) <= 2e-5 * jnp.linalg.norm(slope) + 1e-9


@pytest.mark.parametrize("dtype", [thorough(np.float32), np.float64])
@pytest.mark.parametrize("solver", [None, solvers.lbfgs])
def test_the_derivative_in_a_penalty_of_0_by_hand(dtype, solver):
    """Of 0, 1, 2, 3 in turn of both classes: found by central differences in 50 digits."""
    x, y = np.arange(4, dtype=dtype)[:, None], np.array([0, 1, 0, 1])

    def weight(l2):
        return logistic.fit(x, y, l2=l2, solver=solver)[0].weights[0]

    rtol = 1e-5 if dtype is np.float32 else 1e-9
    np.testing.assert_allclose(jax.grad(weight)(dtype(0)), -4.278063436533534, rtol=rtol)
    forward = jax.jvp(weight, (dtype(0),), (dtype(1),))[1]
    np.testing.assert_allclose(forward, -4.278063436533534, rtol=rtol)


def test_the_derivative_in_penalties_some_of_which_are_0_by_hand():
    x, y = np.arange(4.0)[:, None] ** np.array([1, 2]), np.array([0, 1, 0, 1])
    found = jax.grad(lambda l2: jnp.sum(logistic.fit(x, y, l2=l2)[0].weights))(np.array([0, 0.1]))
    np.testing.assert_allclose(found, [-22.8854114462954, 0], rtol=1e-9, atol=1e-6)


def test_the_derivative_of_an_objective_has_derivatives():
    """It is at fixed params, but their own derivative is in the second one."""
    x, y = jnp.asarray(X), jnp.asarray(0.1 + 0.8 * BINARY)

    def objective(l2):
        return logistic.fit(x, y, l2=l2)[1].objective

    weights, moved = jax.jvp(lambda l2: logistic.fit(x, y, l2=l2)[0].weights, (0.2,), (1.0,))
    first, second = jax.grad(objective)(0.2), jax.grad(jax.grad(objective))(0.2)
    np.testing.assert_allclose(first, weights @ weights / 2, rtol=1e-9)
    np.testing.assert_allclose(second, weights @ moved, rtol=1e-9)


def test_where_the_optimum_is_at_infinity_the_objective_has_no_derivative():
    x, y = jnp.arange(4.0)[:, None], np.array([0, 0, 1, 1])

    @jax.jit
    def grad(x, masked):
        def objective(x):
            info = logistic.fit(x, y)[1]
            return jnp.where(masked, 0, info.objective), info.status

        return jax.grad(objective, has_aux=True)(x)

    used, status = grad(x, False)
    assert status == Status.SEPARABLE and np.isnan(used).any()
    assert not grad(x, True)[0].any()


@pytest.mark.parametrize("name", NAMES)
def test_residuals_have_no_derivative(name):
    inputs = inputs_of(name)
    weight, rest = inputs.pop("sample_weight"), inputs

    def residual(weight):
        return FITS[name].call(rest["x"], sample_weight=weight, **others)[1].residual

    others = {key: a for key, a in rest.items() if key != "x"}
    assert np.isnan(jax.grad(residual)(weight)).any()


STENCIL = {-4: 0.0, -2: 1 / 12, -1: -8 / 12, 1: 8 / 12, 2: -1 / 12, 4: 0.0}
COARSE = {-4: 1 / 12, -2: -8 / 12, -1: 0.0, 1: 0.0, 2: 8 / 12, 4: -1 / 12}


@pytest.mark.parametrize("name", NAMES)
def test_reverse_is_the_transpose_of_forward(name):
    _, forward, backward = programs(name)
    inputs = inputs_of(name)
    tangent = {key: jnp.asarray(v) for key, v in moves(inputs).items()}
    along = forward(inputs, tangent)
    for seed in range(3):
        u = jnp.asarray(np.random.default_rng(seed).normal(size=along.shape))
        back = backward(inputs, u)
        pulled = sum(jnp.vdot(back[key], tangent[key]) for key in inputs)
        size = sum(jnp.vdot(jnp.abs(back[key]), jnp.abs(tangent[key])) for key in inputs)
        assert jnp.abs(jnp.vdot(u, along) - pulled) <= 1e-12 * size


@pytest.mark.parametrize("name", NAMES)
def test_tangents_in_lanes_are_each_alone(name):
    """Of one fit, so that nothing but the tangents is of lanes, as in `jax.jacfwd`."""
    _, forward, _ = programs(name)
    inputs = inputs_of(name)
    tangent = {key: jnp.asarray(v) for key, v in moves(inputs).items()}
    both = jax.tree.map(lambda a: jnp.stack([a, a[::-1] if a.ndim else 2 * a]), tangent)
    found = jax.vmap(forward, in_axes=(None, 0))(inputs, both)
    for i, along in enumerate(found):
        alone = forward(inputs, jax.tree.map(lambda a, i=i: a[i], both))
        np.testing.assert_allclose(along, alone, rtol=1e-9, atol=1e-12)


# Which lanes of the next test have failed: of one class, Firth's estimate is finite.
FAILED = {name: [False, True, name != "firth"] for name in FITS}


@pytest.mark.parametrize("name", NAMES)
def test_a_failed_lane_says_so_and_harms_no_other(name):
    """NaN in x, or one class left: the derivative is NaN where it is used, 0 where masked."""
    inputs = inputs_of(name)
    x = jnp.stack([inputs["x"], inputs["x"].at[5, 1].set(jnp.nan), inputs["x"]])
    labels = jnp.asarray(CLASSES if name in OF_CLASSES else BINARY.astype(int))
    weight = jnp.stack([inputs["sample_weight"]] * 3)
    weight = weight.at[2].set(jnp.where(labels == 0, weight[2], 0))
    rest = {k: v for k, v in inputs.items() if k not in ("x", "sample_weight")}
    if "y" in rest:
        rest["y"] = jax.nn.one_hot(labels, 3) if name in OF_CLASSES else labels.astype(float)

    @functools.partial(jax.jit, static_argnums=2)
    def grad(x, weight, masked):
        def total(x, weight):
            params, info = jax.vmap(lambda x, w: FITS[name].call(x, sample_weight=w, **rest))(
                x, weight
            )
            good = info.status <= Status.MAX_STEPS
            leaves = [*jax.tree.leaves(params), info.objective]
            if masked:
                leaves = [jnp.where(good.reshape(-1, *(1,) * (a.ndim - 1)), a, 0) for a in leaves]
            return sum(jnp.sum(jnp.sin(a)) for a in leaves), good

        return jax.grad(total, argnums=(0, 1), has_aux=True)(x, weight)

    (masked, good), (used, _) = grad(x, weight, True), grad(x, weight, False)
    failed = np.array(FAILED[name])
    assert (~good).tolist() == failed.tolist()
    # The same program, with the first lane in the place of those that fail.
    healthy = (jnp.where(failed.reshape(-1, *(1,) * (a.ndim - 1)), a[:1], a) for a in (x, weight))
    alone, all_good = grad(*healthy, False)
    assert all_good.all()
    for gentle, harsh, fine in zip(masked, used, alone, strict=True):
        assert np.isfinite(gentle).all()
        assert not gentle[failed].any() and gentle[0].any()
        assert np.isnan(harsh[1]).any() and np.isnan(harsh[failed]).any((-1,)).any()
        # A GPU adds up what it scatters in any order.
        same, of_two_programs = (0, 1e-14) if jax.default_backend() == "cpu" else (1e-13, 1e-13)
        np.testing.assert_allclose(fine[0], harsh[0], rtol=same)
        np.testing.assert_allclose(gentle[0], harsh[0], rtol=of_two_programs)


def test_derivatives_without_a_jacobian():
    """More than 1,024 coordinates: conjugate gradients, here against the fit in the row space."""
    rng = np.random.default_rng(0)
    x, y = jnp.asarray(rng.normal(size=(40, 1_100))), np.arange(40) % 2

    def outcome(x, l2, solver=None):
        params, _ = logistic.fit(x, y, l2=l2, solver=solver)
        return jnp.sum(jnp.sin(3 * params.weights)) + params.bias**2

    short = jax.jit(jax.grad(outcome, argnums=(0, 1)))(x, 0.3)
    long = jax.jit(jax.grad(functools.partial(outcome, solver=solvers.lbfgs), argnums=(0, 1)))(
        x, 0.3
    )
    for a, b in zip(long, short, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-8 * np.abs(b).max())


@pytest.mark.parametrize("n", [N, thorough(5)])
@pytest.mark.parametrize(
    ("fit", "options"),
    [
        (logistic.fit, {"tol": 1e-12}),
        (softmax.fit, {"tol": 1e-12, "num_classes": 3}),
        (svm.fit, {"tol": 1e-12, "loss": losses.squared_hinge}),
        (least_squares.fit, {"num_classes": 3}),
        (least_squares.fit, {"num_classes": 3, "bias": False}),
    ],
)
def test_a_column_of_one_value_under_a_penalty(fit, options, n):
    """Its weight is 0, and has a derivative in the column's entries: of more rows and of fewer."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(n, 8)), np.arange(n) % options.get("num_classes", 2)
    x[:, 2] = 2.5
    move = rng.normal(size=x.shape)

    def weights(x):
        return fit(x, y, l2=0.1, **options)[0].weights

    _, found = jax.jvp(weights, (x,), (move,))
    h = 1e-3
    near, far = ((weights(x + s * move) - weights(x - s * move)) / (2 * s) for s in (h, 2 * h))
    np.testing.assert_allclose(found, (4 * near - far) / 3, rtol=1e-5, atol=1e-7)
    assert np.all(np.abs(found[..., 2]) > 1e-3)


@pytest.mark.parametrize("wrong", ["x", "y", "l2"])
def test_what_is_not_valid_raises_in_no_derivative(wrong):
    """Eagerly a status may be known where what it comes of is traced."""
    x, y = np.arange(8.0).reshape(4, 2) % 3, np.array([0, 1, 0, 1])
    x[1, 1] = np.nan if wrong == "x" else x[1, 1]
    y, l2 = y + 2 * (wrong == "y"), -0.1 if wrong == "l2" else 0.1
    for module in (logistic, softmax, least_squares):
        options = {} if module is logistic else {"num_classes": 2}
        fit = functools.partial(module.fit, x, y, **options)

        def weight(l2, fit=fit):
            return jnp.sum(fit(l2=l2)[0].weights[..., 0])

        assert np.isnan(jax.grad(weight)(l2)) and np.isnan(jax.jvp(weight, (l2,), (1.0,))[1])


@pytest.mark.parametrize("fit", [logistic.fit, functools.partial(softmax.fit, num_classes=2)])
def test_of_separable_data_the_derivative_is_nan_and_masked_it_is_0(fit):
    """As the guide has it: there is no optimum, so the derivative is not 0."""

    def size(x, masked):
        params, info = fit(x, jnp.array([0, 0, 1, 1]))
        ok = info.status <= Status.MAX_STEPS
        if masked:
            params = jax.tree.map(lambda a: jnp.where(ok, a, 0), params)
        return jnp.sum(params.weights**2)

    slope = jax.jit(jax.grad(size), static_argnums=1)
    apart, across = jnp.array([[0.0], [1], [2], [3]]), jnp.array([[0.0], [2.0], [1.0], [3.0]])
    assert np.isnan(slope(apart, False)).any()
    np.testing.assert_array_equal(slope(apart, True), 0)
    np.testing.assert_array_equal(slope(across, True), slope(across, False))
    assert np.isfinite(slope(across, True)).all() and np.any(slope(across, True) != 0)


# --- by reflection over what is public ------------------------------------------------------------

# What jumps where a row gains weight, or says so that it has no derivative in weights.
JUMPS = {
    "calibration.fit_isotonic",
    "fisher.least_error",
    "inference.hosmer_lemeshow",
    "inference.separation",
    "linear.margin",
    "metrics.best_threshold",
    "metrics.precision_recall_curve",
    "metrics.roc_curve",
    "perceptron.fit",
    "perceptron.fit_averaged",
    "perceptron.fit_pocket",
    "perceptron.mistake_bound",
    "probes.select",
    "resample.permutation_test",
    "resample.select",
    "svm.farkas",
    "svm.fit_hard_margin",
    "updates.run",
}


def options_of(name):
    return inspect.signature(public.FUNCTIONS[name]).parameters


def flat_of(found):
    """All floats of a result; of an Info the objective."""
    found = jax.tree.map(
        lambda a: a.objective if isinstance(a, Info) else a,
        found,
        is_leaf=lambda a: isinstance(a, Info),
    )
    leaves = [a for a in jax.tree.leaves(found) if jnp.issubdtype(jnp.result_type(a), jnp.floating)]
    return jnp.concatenate([jnp.ravel(a) for a in leaves]) if leaves else jnp.zeros(0)


def called(name):
    """The function of its keywords alone, at its example."""
    if name in public.FITS:
        fit = public.FITS[name]
        x, y, weight, _ = fit.draw(0)
        return lambda **more: fit.call(x, y, **{"sample_weight": weight, **more})
    example = public.cases_of(name)[0]
    arguments = jax.tree.map(jnp.asarray, example.draw(np.random.default_rng(0)))
    f = public.FUNCTIONS[name]
    positional = [
        p for p in inspect.signature(f).parameters.values() if p.kind is not p.KEYWORD_ONLY
    ]
    *others, last = arguments
    if len(arguments) > len(positional) and "sample_weight" in options_of(name):
        return lambda sample_weight=last, **more: example.call(*others, sample_weight, **more)
    return lambda **more: example.call(*arguments, **more)


def assert_has_slope(f, at, tangent, h=1e-3):
    """NaN says that there is none; all else is the one-sided slope."""
    at, tangent = jnp.asarray(at, float), jnp.asarray(tangent, float)
    run = jax.jit(lambda a: jax.jvp(lambda a: flat_of(f(a)), (a,), (tangent,)))
    values, found = zip(*(run(at + k * h * tangent) for k in range(5)), strict=True)
    slope = sum(c * v for c, v in zip((-25 / 12, 4, -3, 4 / 3, -1 / 4), values, strict=True)) / h
    told = jnp.isfinite(found[0]) & jnp.isfinite(slope)
    np.testing.assert_allclose(
        jnp.where(told, found[0], 0), jnp.where(told, slope, 0), rtol=1e-4, atol=1e-7
    )


WITH_EDGES = [
    (name, key)
    for name in public.FUNCTIONS
    if name not in public.HOST_ONLY
    for key in ("l2", "shrinkage", "pooling")
    if key in options_of(name) and options_of(name)[key].default == 0.0
]


@pytest.mark.parametrize(("name", "key"), WITH_EDGES)
def test_an_option_that_is_0_has_a_derivative(name, key):
    f = called(name)
    assert_has_slope(lambda value: f(**{key: value}), 0, 1, h=1e-5)


WEIGHTED = [
    name
    for name in public.FUNCTIONS
    if name not in public.HOST_ONLY | JUMPS and "sample_weight" in options_of(name)
]


@pytest.mark.parametrize("name", WEIGHTED)
def test_a_weight_that_is_0_has_a_derivative(name):
    weight = public.some_weights(np.random.default_rng(0))
    f = called(name)
    assert_has_slope(lambda weight: f(sample_weight=weight), weight, weight == 0)


# --- derivatives of derivatives, of every fit that has them --------------------------------------

ONCE = ("perceptron", "svm.fit", "fit_crammer_singer", "hard_margin", "fit_dual")
TWICE = [name for name in public.FITS if not any(part in name for part in ONCE)]


@pytest.mark.parametrize("name", [a if "l1" in a else thorough(a) for a in TWICE])
def test_forwards_over_backwards_is_forwards_over_forwards(name):
    """A system that is solved as if it were symmetric must be."""
    fit = public.FITS[name]
    x, y, weight, mask = fit.draw(0)
    options = {"l1": 0.1} if "l1" in name else {}
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, len(y)))
    params, _ = fit(x, y, weight, mask, **options)
    assert not options or ((params.weights == 0).any() and (params.weights != 0).any())

    def size(weight):
        params, _ = fit(x, y, weight, mask, **options)
        return sum(jnp.sum(jnp.where(jnp.isfinite(a), a, 0) ** 3) for a in jax.tree.leaves(params))

    def along(weight):
        return jax.jvp(size, (weight,), (one,))[1]

    weight = np.asarray(weight, float)
    known = jax.jvp(along, (weight,), (other,))[1]
    found = one @ jax.jvp(jax.grad(size), (weight,), (other,))[1]
    np.testing.assert_allclose(found, known, rtol=1e-8)

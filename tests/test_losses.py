"""Losses against closed forms, where scores are large, tied or infinite, and the objective."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import optax
import pytest

from jaxlin import losses
from jaxlin.types import Hyperplane, Linear

SIZES = [0.0, 1e-8, 1.0, 30.0, 40.0, 700.0, 1e4, 1e20]
SCORES = np.array([*SIZES, *[-s for s in SIZES]])
BINARY = [
    losses.squared,
    losses.perceptron,
    losses.hinge,
    losses.squared_hinge,
    losses.zero_one,
    losses.logistic,
]
MANY = [
    losses.squared,
    losses.zero_one,
    losses.softmax,
    losses.multiclass_perceptron,
    losses.multiclass_hinge,
]


def name(f):
    return f.__name__


def elementwise(f, order=0):
    for _ in range(order):
        f = jax.grad(f)
    return jax.vmap(f)


# --- logistic ------------------------------------------------------------------------------------


def exact_logistic(u):
    """log(1 + e^u) and its first two derivatives, to rounding in float64 for any u.

    With q = e^-|u|: log1p(q) + max(u, 0); 1 / (1 + q) or q / (1 + q); q / (1 + q)^2.
    """
    with np.errstate(under="ignore"):
        q = np.exp(-np.abs(u))
        value = np.maximum(u, 0) + np.log1p(q)
        return value, np.where(u > 0, 1, q) / (1 + q), q / (1 + q) ** 2


def assert_relative(actual, expected, dtype, ulps=8):
    """Within some ulps, or below the least normal number, where the dtype has no digits left."""
    actual = np.asarray(actual, np.float64)
    assert not np.any(np.isnan(actual))
    info = np.finfo(dtype)
    bound = ulps * float(info.eps) * np.abs(expected) + 2 * float(info.tiny)
    wrong = ~(np.abs(actual - expected) <= bound)
    assert not np.any(wrong), (actual[wrong], expected[wrong])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("label", [0, 1])
def test_logistic_has_full_relative_accuracy(dtype, order, label):
    t = 2 * label - 1
    s = SCORES.astype(dtype)
    y = np.full(s.shape, label)
    expected = exact_logistic(-t * s.astype(np.float64))[order] * (-t) ** order
    result = elementwise(losses.logistic, order)(s, y)
    assert result.dtype == dtype
    assert_relative(result, expected, dtype)


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("label", [0.0, 0.25, 0.9, 1.0])
def test_logistic_of_soft_labels_is_the_mixture(order, label):
    above, below = exact_logistic(-SCORES)[order], exact_logistic(SCORES)[order]
    expected = label * (-1) ** order * above + (1 - label) * below
    result = elementwise(losses.logistic, order)(SCORES, np.full(SCORES.shape, label))
    # The two parts of the slope, y and sigmoid, may cancel to rounding of themselves.
    scale = np.maximum(np.abs(expected), 1.0 if order == 1 and label not in (0, 1) else 0)
    bound = 8 * 2.0**-52 * scale + 2 * np.finfo(float).tiny
    assert np.all(np.abs(np.asarray(result) - expected) <= bound)


def test_hard_and_soft_labels_agree():
    for label in (0, 1):
        hard = losses.logistic(SCORES, np.full(SCORES.shape, label))
        soft = losses.logistic(SCORES, np.full(SCORES.shape, float(label)))
        np.testing.assert_array_equal(hard, soft)


def test_logistic_has_a_third_derivative():
    s = np.linspace(-3, 3, 7)
    p = 1 / (1 + np.exp(-s))
    third = elementwise(losses.logistic, 3)(s, np.ones(7, int))
    np.testing.assert_allclose(third, p * (1 - p) * (1 - 2 * p), atol=1e-15)


def test_logistic_has_a_derivative_in_a_soft_label():
    slope = jax.vmap(jax.grad(losses.logistic, argnums=1))(SCORES, np.full(SCORES.shape, 0.3))
    np.testing.assert_allclose(slope, -SCORES, rtol=1e-15, atol=1e-16)


# --- every loss, to a few ulp --------------------------------------------------------------------

FINE = [
    0.0,
    1e-20,
    1e-8,
    1e-4,
    0.5,
    1.0,
    3.0,
    17.0,
    40.0,
    88.0,
    104.0,
    700.0,
    746.0,
    1e4,
    1e8,
    1e20,
]
FINE = np.array([*FINE, *[-s for s in FINE]])


def _halves(m):
    """max(0, 1 - m) and its slope in m."""
    return (1 - m, -1) if m < 1 else (mpmath.mpf(0), 0)


def _exact_logistic(m):
    q = mpmath.exp(-abs(m))
    value = mpmath.log1p(q) + max(-m, 0)
    return value, -(q if m > 0 else 1) / (1 + q), q / (1 + q) ** 2


def _exact_squared_hinge(m):
    gap, slope = _halves(m)
    return gap**2, 2 * gap * slope, 2 * slope**2


# Of the margin m = t s: the value and its first two derivatives; at a tie the side of a mistake.
EXACT = {
    losses.squared: lambda m: ((m - 1) ** 2 / 2, m - 1, 1),
    losses.perceptron: lambda m: (max(-m, 0), -1 if m <= 0 else 0, 0),
    losses.hinge: lambda m: (*_halves(m), 0),
    losses.squared_hinge: _exact_squared_hinge,
    losses.logistic: _exact_logistic,
}


def assert_few_ulp(found, exact, dtype, ulps=4):
    """Within some ulps of numbers of mpmath, or of the least normal number: below, all is 0."""
    limits = np.finfo(dtype)
    assert found.dtype == dtype and not np.any(np.isnan(found))
    # As objects: mpmath before 1.4 takes no numbers of numpy.
    for value, wanted in zip(np.ravel(found), np.ravel(np.array(exact, object)), strict=True):
        wanted = mpmath.mpf(wanted)
        if abs(wanted) > float(limits.max):
            assert np.isinf(value), (value, wanted)
        else:
            off = abs(mpmath.mpf(float(value)) - wanted)
            bound = ulps * float(limits.eps) * abs(wanted) + float(limits.tiny)
            assert off <= bound, (value, wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("f", EXACT, ids=name)
def test_to_four_ulp(f, order, dtype):
    for label in (0, 1):
        t, s = 2 * label - 1, FINE.astype(dtype)
        with mpmath.workdps(50):
            exact = [EXACT[f](t * mpmath.mpf(float(score)))[order] * t**order for score in s]
            assert_few_ulp(elementwise(f, order)(s, np.full(s.shape, label)), exact, dtype)


def _exact_softmax(scores, y):
    """Value, gradient, Hessian; 1 - p of the row's own class is the sum of the others."""
    k = len(scores)
    top = max(scores)
    raised = [mpmath.exp(s - top) for s in scores]
    total = sum(raised)
    p = [r / total for r in raised]
    others = sum(p[c] for c in range(k) if c != y)
    value = mpmath.log(total) + top - scores[y] if p[y] < 0.5 else -mpmath.log1p(-others)
    rest = [sum(p[c] for c in range(k) if c != j) for j in range(k)]
    gradient = [-others if c == y else p[c] for c in range(k)]
    hessian = [[p[i] * rest[i] if i == j else -p[i] * p[j] for j in range(k)] for i in range(k)]
    return value, gradient, hessian


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_softmax_to_a_few_ulp(dtype):
    """Also the gap 1 - p of a row that is as good as certain, and products of such."""
    rng = np.random.default_rng(0)
    scores = rng.choice(FINE, size=(60, 3)).astype(dtype)
    scores[:20] = rng.normal(size=(20, 3)) * 10.0 ** rng.uniform(-3, 2, size=(20, 1))
    y = rng.integers(3, size=60)
    found = [
        jax.vmap(losses.softmax)(scores, y),
        jax.vmap(jax.grad(losses.softmax))(scores, y),
        jax.vmap(jax.hessian(losses.softmax))(scores, y),
    ]
    limit = -np.log(np.finfo(dtype).tiny)
    widest = np.minimum(np.ptp(scores.astype(float), axis=1), limit)
    with mpmath.workdps(50):
        for i in range(60):
            exact = _exact_softmax([mpmath.mpf(float(s)) for s in scores[i]], y[i])
            for part, wanted in zip(found, exact, strict=True):
                # exp multiplies by its argument what a difference of scores is rounded by.
                assert_few_ulp(np.asarray(part[i]), wanted, dtype, 4 + widest[i])


# --- softmax -------------------------------------------------------------------------------------


@pytest.mark.parametrize("y", [0, 1, 2])
def test_softmax_of_two_scores_and_one_far_below_is_logistic(y):
    others = np.stack([np.zeros_like(SCORES), SCORES, np.full_like(SCORES, -np.inf)], axis=1)
    labels = np.full(SCORES.shape, y)
    result = np.asarray(losses.softmax(others, labels))
    if y == 2:
        assert np.all(result == np.inf)
        return
    expected = exact_logistic(-SCORES if y == 1 else SCORES)[0]
    assert_relative(result, expected, np.float64)
    slope = np.asarray(jax.vmap(jax.grad(losses.softmax))(others, labels))
    assert not np.any(np.isnan(slope)) and np.all(slope[:, 2] == 0)
    # A slope p - [c = y] near 0 is known to rounding of 1; only the logistic loss does better.
    p = exact_logistic(SCORES)[1]
    np.testing.assert_allclose(slope[:, 1], p - y, rtol=0, atol=1e-15)
    curve = np.asarray(jax.vmap(jax.hessian(losses.softmax))(others, labels))
    assert not np.any(np.isnan(curve))
    np.testing.assert_allclose(curve[:, 1, 1], exact_logistic(SCORES)[2], rtol=1e-14, atol=1e-16)


def test_softmax_of_soft_labels():
    s, y = np.array([1.0, -2.0, 0.5]), np.array([0.2, 0.5, 0.3])
    log_p = s - np.log(np.sum(np.exp(s)))
    np.testing.assert_allclose(losses.softmax(s, y), -y @ log_p, rtol=1e-15)
    np.testing.assert_allclose(jax.grad(losses.softmax)(s, y), np.exp(log_p) - y, atol=1e-16)
    absent = np.array([1.0, -np.inf, 0.5])
    finite = losses.softmax(absent, np.array([0.4, 0.0, 0.6]))
    np.testing.assert_allclose(finite, losses.softmax(absent[[0, 2]], np.array([0.4, 0.6])))
    assert losses.softmax(absent, y) == np.inf


def test_softmax_at_ties_has_the_slope_of_the_mean():
    slope = jax.grad(losses.softmax)(np.zeros(4), 1)
    np.testing.assert_allclose(slope, [0.25, -0.75, 0.25, 0.25], rtol=1e-15)
    curve = jax.hessian(losses.softmax)(np.zeros(4), 1)
    np.testing.assert_allclose(curve, np.eye(4) / 4 - 1 / 16, rtol=1e-15)


def test_softmax_does_not_change_with_the_level():
    s = np.array([1.0, -2.0, 0.5])
    for level in (-1e4, 1e4):
        np.testing.assert_allclose(losses.softmax(s + level, 2), losses.softmax(s, 2), rtol=1e-11)


# --- values, ties and identities -----------------------------------------------------------------


def test_values():
    s = np.array([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0])
    for y in (0, 1):
        t, labels = 2 * y - 1, np.full(s.shape, y)
        for f, expected in (
            (losses.squared, (s - t) ** 2 / 2),
            (losses.perceptron, np.maximum(0, -t * s)),
            (losses.hinge, np.maximum(0, 1 - t * s)),
            (losses.squared_hinge, np.maximum(0, 1 - t * s) ** 2),
            (losses.zero_one, (s > 0) != y),
            (losses.logistic, np.log1p(np.exp(-t * s))),
        ):
            np.testing.assert_allclose(f(s, labels), expected, rtol=1e-15, err_msg=name(f))


@pytest.mark.parametrize("y", [0, 1])
def test_subgradients_at_ties(y):
    t = 2 * y - 1
    assert jax.grad(losses.perceptron)(0.0, y) == -t  # a tie is a mistake
    assert jax.grad(losses.perceptron)(t * 1e-300, y) == 0
    assert jax.grad(losses.hinge)(1.0 * t, y) == 0
    assert jax.grad(losses.hinge)(t * (1 - 1e-15), y) == -t
    assert jax.grad(losses.squared_hinge)(1.0 * t, y) == 0
    assert jax.grad(losses.zero_one)(0.3, y) == 0
    slopes = np.asarray(jax.vmap(jax.grad(losses.squared_hinge))(SCORES, np.full(SCORES.shape, y)))
    np.testing.assert_allclose(slopes, -2 * t * np.maximum(0, 1 - t * SCORES), rtol=1e-15)


def test_ties_of_zero_one_go_to_the_lower_class():
    assert losses.zero_one(0.0, 0) == 0 and losses.zero_one(0.0, 1) == 1
    s = np.array([1.0, 3.0, 3.0])
    assert [float(losses.zero_one(s, y)) for y in range(3)] == [1, 0, 1]


@pytest.mark.parametrize("y", [0, 1])
def test_two_classes_are_the_binary_loss_of_the_difference(y):
    s = np.random.default_rng(0).normal(size=(20, 2))
    difference, labels = s[:, 1] - s[:, 0], np.full(20, y)
    for many, binary in (
        (losses.softmax, losses.logistic),
        (losses.multiclass_perceptron, losses.perceptron),
        (losses.multiclass_hinge, losses.hinge),
        (losses.zero_one, losses.zero_one),
    ):
        np.testing.assert_allclose(
            many(s, labels), binary(difference, labels), rtol=1e-14, atol=1e-15, err_msg=name(many)
        )


def test_multiclass_values():
    rng = np.random.default_rng(0)
    s, y = rng.normal(size=(20, 4)), rng.integers(4, size=20)
    one_hot = np.eye(4)[y]
    true = s[np.arange(20), y]
    for f, expected in (
        (losses.squared, np.sum((s - one_hot) ** 2, axis=1) / 2),
        (losses.multiclass_perceptron, s.max(1) - true),
        (losses.multiclass_hinge, (s + 1 - one_hot).max(1) - true),
        (losses.softmax, np.log(np.exp(s).sum(1)) - true),
        (losses.zero_one, s.argmax(1) != y),
    ):
        np.testing.assert_allclose(f(s, y), expected, rtol=1e-13, atol=1e-15, err_msg=name(f))


def test_optax_agrees_on_moderate_scores():
    rng = np.random.default_rng(0)
    s, y = rng.uniform(-8, 8, size=50), rng.integers(2, size=50)
    many, labels = rng.uniform(-8, 8, size=(50, 4)), rng.integers(4, size=50)
    t = 2.0 * y - 1
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        pairs = [
            (losses.logistic(s, y), optax.sigmoid_binary_cross_entropy(s, y)),
            (losses.hinge(s, y), optax.hinge_loss(s, t)),
            (losses.perceptron(s, y), optax.losses.perceptron_loss(s, t)),
            (losses.squared(s, y), optax.l2_loss(s, t)),
            (
                losses.softmax(many, labels),
                optax.softmax_cross_entropy_with_integer_labels(many, labels),
            ),
            (
                losses.multiclass_hinge(many, labels),
                optax.losses.multiclass_hinge_loss(many, labels),
            ),
            (
                losses.multiclass_perceptron(many, labels),
                optax.losses.multiclass_perceptron_loss(many, labels),
            ),
        ]
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-14)


# --- labels and shapes ---------------------------------------------------------------------------


@pytest.mark.parametrize("f", BINARY, ids=name)
@pytest.mark.parametrize("dtype", [np.uint8, np.bool_, np.int8, np.int32])
def test_labels_of_any_integer_dtype(f, dtype):
    s, y = np.array([-2.0, -0.5, 0.0, 1.5]), np.array([0, 1, 0, 1])
    np.testing.assert_array_equal(f(s, y.astype(dtype)), f(s, y))


@pytest.mark.parametrize("f", MANY, ids=name)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32])
def test_multiclass_labels_of_any_integer_dtype(f, dtype):
    s, y = np.random.default_rng(0).normal(size=(4, 3)), np.array([0, 1, 2, 1])
    np.testing.assert_array_equal(f(s, y.astype(dtype)), f(s, y))


@pytest.mark.parametrize("f", BINARY, ids=name)
def test_half_precision_and_integers_are_widened(f):
    y = np.array([0, 1])
    assert f(np.ones(2, np.float16), y).dtype == np.float32
    assert f(np.ones(2, np.float32), y).dtype == np.float32
    assert f(np.ones(2, np.int32), y).dtype == np.float64


@pytest.mark.parametrize("f", BINARY, ids=name)
def test_leading_axes(f):
    s, y = np.random.default_rng(0).normal(size=(2, 3)), np.ones((2, 3), int)
    assert f(s, y).shape == (2, 3)
    assert f(s[0, 0], 1).shape == ()
    with pytest.raises(ValueError, match=r"expected .*, got"):
        f(s[:, :1], np.ones((2,), int)) if f not in MANY else f(s[:, :2], np.ones((2, 1), int))


@pytest.mark.parametrize(
    "f", [f for f in BINARY + MANY if f not in (losses.logistic, losses.softmax)], ids=name
)
def test_soft_labels_are_refused_where_they_have_no_meaning(f):
    with pytest.raises(TypeError, match=r"y: expected integer or bool .*only losses\.logistic"):
        f(np.zeros((2, 3)), np.zeros((2, 3)))


# --- the objective -------------------------------------------------------------------------------

N, D, K = 3000, 40, 3  # several blocks of rows


def problem(k=None):
    rng = np.random.default_rng(0)
    shape = () if k is None else (k,)
    kind = Hyperplane if k is None else Linear
    return (
        kind(weights=rng.normal(size=(*shape, D)), bias=np.asarray(rng.normal(size=shape))),
        rng.normal(size=(N, D)),
        rng.integers(2 if k is None else k, size=N),
        rng.choice([0.0, 0.5, 2.0], size=N),
        rng.normal(size=(N, *shape)),
        rng.uniform(size=D),
    )


def reference(f, params, x, y, l2, weight, offset):
    s = x @ params.weights.T + params.bias + offset
    each = np.asarray(f(s, y))
    return weight @ each / weight.sum() + np.sum(l2 * params.weights**2) / 2


@pytest.mark.parametrize(
    "f, k",
    [(losses.logistic, None), (losses.hinge, None), (losses.softmax, K), (losses.zero_one, K)],
)
def test_objective_is_its_formula(f, k):
    params, x, y, weight, offset, l2 = problem(k)
    expected = reference(f, params, x, y, l2, weight, offset)
    result = losses.objective(f, params, x, y, l2=l2, sample_weight=weight, offset=offset)
    np.testing.assert_allclose(result, expected, rtol=1e-13)
    plain = reference(f, params, x, y, 0.0, np.ones(N), 0.0)
    np.testing.assert_allclose(losses.objective(f, params, x, y), plain, rtol=1e-13)
    scalar = reference(f, params, x, y, 0.3, np.ones(N), 0.0)
    np.testing.assert_allclose(losses.objective(f, params, x, y, l2=0.3), scalar, rtol=1e-13)


@pytest.mark.parametrize("f, k", [(losses.logistic, None), (losses.softmax, K)])
def test_objective_of_absent_rows(f, k):
    params, x, y, weight, offset, l2 = problem(k)
    arguments = {"l2": l2, "sample_weight": weight}
    clean = losses.objective(f, params, x, y, offset=offset, **arguments)
    absent = weight == 0
    for hole in (np.nan, np.inf, 1e300):
        x[absent], offset[absent] = hole, hole
        assert losses.objective(f, params, x, y, offset=offset, **arguments) == clean
    x[absent] = np.nan
    assert np.isnan(losses.objective(f, params, x, y, l2=l2))
    assert np.isnan(losses.objective(f, params, x, y, sample_weight=0 * weight))


@pytest.mark.parametrize("f, k", [(losses.logistic, None), (losses.softmax, K)])
def test_derivatives_of_the_objective(f, k):
    params, x, y, weight, offset, l2 = problem(k)
    x[weight == 0], x[4], weight[4] = np.nan, 1.0, 0.0  # row 4 is absent, but finite

    def objective(params, weight, offset):
        return losses.objective(f, params, x, y, l2=l2, sample_weight=weight, offset=offset)

    by_params, by_weight, by_offset = jax.grad(objective, argnums=(0, 1, 2))(params, weight, offset)
    s = np.where(np.isfinite(x), x, 0) @ params.weights.T + params.bias + offset
    slope = np.asarray(jax.vmap(jax.grad(f))(s, y))
    share = (weight / weight.sum()).reshape((N,) + (1,) * (slope.ndim - 1))
    pull = np.where(share > 0, share * slope, 0)
    np.testing.assert_allclose(by_offset, pull, rtol=1e-10, atol=1e-18)
    np.testing.assert_allclose(by_params.bias, pull.sum(0), rtol=1e-10, atol=1e-15)
    expected = pull.T @ np.where(np.isfinite(x), x, 0) + l2 * params.weights
    np.testing.assert_allclose(by_params.weights, expected, rtol=1e-10, atol=1e-14)
    # In a weight: (loss - mean) / total, also where the weight is 0.
    each = np.asarray(f(s, y))
    expected = (each - weight @ each / weight.sum()) / weight.sum()
    finite = np.all(np.isfinite(x), axis=1)
    assert weight[4] == 0 and finite[4] and expected[4] != 0
    np.testing.assert_allclose(np.asarray(by_weight)[finite], expected[finite], rtol=1e-9)
    assert np.all(np.isfinite(by_weight)), "a row that holds NaN poisons the derivative"


def test_the_derivative_in_the_weight_of_a_row_that_is_not_finite_is_zero():
    params, x, y, weight, _, _ = problem()
    x[4], weight[4] = np.nan, 0.0
    slope = jax.grad(lambda w: losses.objective(losses.logistic, params, x, y, sample_weight=w))(
        weight
    )
    assert slope[4] == 0


def test_objective_of_soft_labels():
    params, x, y, weight, _, _ = problem()
    soft = np.where(y > 0, 0.9, 0.2)
    expected = reference(losses.logistic, params, x, soft, 0.0, weight, 0.0)
    result = losses.objective(losses.logistic, params, x, soft, sample_weight=weight)
    np.testing.assert_allclose(result, expected, rtol=1e-13)


def test_objective_ignores_the_infinite_bias_of_an_absent_class():
    params, x, y, _, _, _ = problem(K)
    y = y % 2
    absent = params._replace(
        weights=np.where(np.arange(K)[:, None] == 2, 0, params.weights),
        bias=np.where(np.arange(K) == 2, -np.inf, params.bias),
    )
    two = Linear(weights=params.weights[:2], bias=params.bias[:2])
    np.testing.assert_allclose(
        losses.objective(losses.softmax, absent, x, y, l2=0.1),
        losses.objective(losses.softmax, two, x, y, l2=0.1),
        rtol=1e-13,
    )


def test_a_row_without_weight_may_be_of_an_absent_class():
    params = Linear(weights=np.zeros((3, 2)), bias=np.array([-np.inf, 0.0, 0.0]))
    weight = np.array([0.0, 1.0, 1.0])
    found = losses.objective(
        losses.softmax, params, np.ones((3, 2)), [0, 1, 2], sample_weight=weight
    )
    np.testing.assert_allclose(found, np.log(2), rtol=1e-15)


def test_objective_comes_in_the_dtype_of_x():
    params, x, y, weight, _, _ = problem()
    result = losses.objective(
        losses.logistic, params, x.astype(np.float32), y, sample_weight=weight, l2=0.1
    )
    assert result.dtype == np.float32


def test_objective_refuses_wrong_shapes():
    params, x, y, _, _, _ = problem()
    for words, arguments in (
        (r"sample_weight: expected shape \(3000,\), got \(3,\)", {"sample_weight": np.ones(3)}),
        (r"offset: expected shape \(3000,\), got \(3000, 1\)", {"offset": np.ones((N, 1))}),
        (r"l2: expected a scalar or one penalty per feature", {"l2": np.ones(3)}),
    ):
        with pytest.raises(ValueError, match=words):
            losses.objective(losses.logistic, params, x, y, **arguments)
    with pytest.raises(ValueError, match=r"y: expected"):
        losses.objective(losses.logistic, params, x, y[:5])


def test_constants_of_scikit_learn():
    assert losses.l2_from_C(2.0, 100.0) == 0.005
    assert losses.C_from_l2(0.005, 100.0) == 2.0
    assert jnp.isinf(losses.C_from_l2(0.0, 100.0))

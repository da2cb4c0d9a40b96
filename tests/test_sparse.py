"""Fits with l1: the optimum, its zeros, what the gap promises, statuses, and derivatives."""

import functools

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from jaxlin import inference, least_squares, logistic, losses, metrics, resample, softmax, svm
from jaxlin.multiclass import one_vs_rest
from jaxlin.types import FitError, Hyperplane, Status, raise_if_failed
from tests import public


def squares(scores, t):
    return (scores - t) ** 2 / 2


FITS = {
    "logistic": (logistic.fit, losses.logistic),
    "squared hinge": (
        functools.partial(svm.fit, l2=0.0, loss=losses.squared_hinge),
        losses.squared_hinge,
    ),
    "regress": (least_squares.regress, squares),
    "softmax": (functools.partial(softmax.fit, num_classes=3), losses.softmax),
}


def drawn(name, n=200, d=12, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) + rng.normal(size=(n, 1)) / 2
    score = x[:, :3] @ [1.0, -1.0, 0.5]
    if name == "regress":
        y = score + rng.normal(size=n)
        return x.astype(dtype), y.astype(dtype)
    if name == "softmax":
        return x.astype(dtype), np.argmax(x[:, :3] + rng.gumbel(size=(n, 3)), axis=1)
    return x.astype(dtype), (score + rng.logistic(size=n) > 0).astype(int)


def violation(loss, params, x, y, l1, l2=0.0):
    """How far the least subgradient is from 0, in the weights and the biases, in float64."""
    wide = jax.tree.map(lambda a: np.asarray(a, np.float64), params)
    y = y.astype(np.float64) if y.dtype.kind == "f" else y

    def smooth(params):
        return losses.objective(loss, params, np.asarray(x, np.float64), y, l2=l2)

    slope, weights = jax.grad(smooth)(wide), wide.weights
    at_zero = np.maximum(np.abs(slope.weights) - l1, 0)
    moved = np.abs(slope.weights + l1 * np.sign(weights))
    return np.max(np.where(weights != 0, moved, at_zero)), np.max(np.abs(slope.bias))


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize(("l1", "l2"), [(0.02, 0.0), (0.05, 0.01)])
def test_the_subgradient_is_0(name, l1, l2):
    fit, loss = FITS[name]
    x, y = drawn(name)
    params, info = fit(x, y, l1=l1, l2=l2)
    assert info.status == Status.CONVERGED and info.residual <= 1e-12
    assert max(violation(loss, params, x, y, l1, l2)) < 1e-13
    assert 0 < np.count_nonzero(params.weights) <= params.weights.size
    np.testing.assert_allclose(
        info.objective, losses.objective(loss, params, x, y, l1=l1, l2=l2), rtol=1e-14
    )


@pytest.mark.parametrize("name", FITS)
def test_in_float32_too(name):
    fit, loss = FITS[name]
    x, y = drawn(name, dtype=np.float32)
    params, info = fit(x, y, l1=0.02)
    assert info.status == Status.CONVERGED and params.weights.dtype == np.float32
    assert max(violation(loss, params, x, y, np.float64(np.float32(0.02)))) < 2e-6


@pytest.mark.parametrize("name", ["logistic", "regress", "softmax"])
def test_more_columns_than_a_set_holds(name):
    fit, loss = FITS[name]
    x, y = drawn(name, n=80, d=900)
    l1 = losses.l1_max(loss, x, y, num_classes=3 if name == "softmax" else None) / 10
    params, info = fit(x, y, l1=l1)
    assert info.status == Status.CONVERGED
    assert max(violation(loss, params, x, y, l1)) < 1e-11
    assert np.count_nonzero(params.weights) < 240


def test_more_weights_that_are_not_0_than_a_set_holds():
    x, t = drawn("regress", n=700, d=600)
    params, info = least_squares.regress(x, t, l1=1e-3, l2=0.1)
    assert np.count_nonzero(params.weights) > 400
    assert info.status == Status.CONVERGED
    assert max(violation(squares, params, x, t, 1e-3, 0.1)) < 1e-9


def optimum_to_40_digits(x, y, l1, support, sign):
    """Weights and bias of a logistic regression of a known support, by Newton's method."""
    with mpmath.workdps(40):
        z = mpmath.matrix([[*map(mpmath.mpf, map(float, row)), 1] for row in x[:, support]])
        theta = mpmath.zeros(z.cols, 1)
        kinks = mpmath.matrix([mpmath.mpf(l1) * int(s) for s in sign] + [0])
        for _ in range(30):
            p = [1 / (1 + mpmath.exp(-s)) for s in z * theta]
            slope = z.T * mpmath.matrix([a - int(b) for a, b in zip(p, y, strict=True)]) / len(y)
            curved = mpmath.matrix([[v * a * (1 - a) for v in z[i, :]] for i, a in enumerate(p)])
            step = mpmath.lu_solve(z.T * curved / len(y), slope + kinks)
            theta -= step
        assert mpmath.norm(step) < mpmath.mpf(10) ** -35
        return np.array([float(a) for a in theta])


@pytest.mark.parametrize("seed", [0, *map(public.thorough, range(1, 10))])
def test_nine_digits(seed):
    x, y = drawn("logistic", n=40, d=6, seed=seed)
    l1 = 0.05
    params, info = logistic.fit(x, y, l1=l1)
    weights = np.asarray(params.weights)
    support = np.flatnonzero(weights)
    known = optimum_to_40_digits(x, y, l1, support, np.sign(weights[support]))
    assert info.status == Status.CONVERGED and info.residual < 1e-12
    np.testing.assert_allclose([*weights[support], params.bias], known, rtol=1e-9)
    np.testing.assert_array_equal(np.sign(known[:-1]), np.sign(weights[support]))


@pytest.mark.parametrize("name", FITS)
def test_the_gap_bounds_what_is_missing(name):
    fit, loss = FITS[name]
    x, y = drawn(name)
    best = fit(x, y, l1=0.02)[1].objective
    missed, gaps = [], []
    for steps in range(1, 4):
        options = {} if name == "regress" else {"max_steps": steps}
        params, info = fit(x, y, l1=0.02, **options)
        value = losses.objective(loss, params, x, y, l1=0.02)
        missed.append(float((value - best) / value))
        gaps.append(float(info.residual))
        assert info.status == (Status.CONVERGED if gaps[-1] <= 1e-8 else Status.MAX_STEPS)
    assert (np.array(missed) <= np.array(gaps) + 1e-15).all()


def test_from_the_largest_on_all_is_0():
    x, y = drawn("logistic")
    most = losses.l1_max(losses.logistic, x, y)
    np.testing.assert_allclose(most, np.max(np.abs(x.T @ (y - y.mean()))) / len(y), rtol=1e-12)
    params, info = logistic.fit(x, y, l1=most)
    assert info.status == Status.CONVERGED and not params.weights.any()
    np.testing.assert_allclose(params.bias, np.log(y.mean() / (1 - y.mean())), rtol=1e-12)
    assert np.count_nonzero(logistic.fit(x, y, l1=most * (1 - 1e-6))[0].weights) == 1
    x, y = drawn("softmax")
    most = losses.l1_max(losses.softmax, x, y, num_classes=3)
    counts = [np.count_nonzero(softmax.fit(x, y, l1=most * c)[0].weights) for c in (0.999, 1.001)]
    assert counts == [1, 0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_at_the_largest_itself_all_is_0(dtype):
    """Of a hundred draws without a signal none has a weight of the size of rounding."""
    rng = np.random.default_rng(0)
    x = rng.normal(loc=1, size=(100, 400, 8)).astype(dtype)
    y = rng.integers(2, size=(100, 400))

    @jax.jit
    @jax.vmap
    def weights(x, y):
        return logistic.fit(x, y, l1=losses.l1_max(losses.logistic, x, y))[0].weights

    assert not np.any(weights(x, y))


@pytest.mark.parametrize("name", FITS)
def test_no_kink_is_the_smooth_fit(name):
    fit, _ = FITS[name]
    x, y = drawn(name)
    plain, _ = fit(x, y, l2=0.1)
    params, info = jax.jit(lambda l1: fit(x, y, l1=l1, l2=0.1))(0.0)
    assert info.status == Status.CONVERGED
    public.assert_close(params, plain, 1e-8)


def test_a_start_leads_to_the_same():
    x, y = drawn("logistic")
    params, _ = logistic.fit(x, y, l1=0.02)
    far = Hyperplane(np.full(12, 3.0), np.array(-2.0))
    for init, most in ((params, 1), (far, 100)):
        found, info = logistic.fit(x, y, l1=0.02, init=init)
        assert info.status == Status.CONVERGED and info.steps <= most
        public.assert_close(found, params, 1e-9)


def test_statuses():
    x, y = drawn("logistic")
    sign, free = np.where(y > 0, 1, -1), np.where(np.arange(12) == 0, 0, 0.05)
    apart = x.copy()
    apart[:, 0] = sign * np.abs(x[:, 0])
    touching = apart.copy()
    touching[:10, 0] = 0
    touching[:10, 1:] = 0  # rows of both classes on the plane
    table = {
        Status.SEPARABLE: (apart, y, free),
        Status.QUASI_SEPARABLE: (touching, y, free),
        Status.CLASS_TOO_SMALL: (x, 0 * y, 0.05),
        Status.RANK_DEFICIENT: (np.concatenate([x, x[:, :1]], axis=1), y, 0.02),
    }
    for status, (x, y, l1) in table.items():
        info = logistic.fit(x, y, l1=l1)[1]
        assert info.status == status and info.steps < 50
        traced = jax.jit(lambda l1, x=x, y=y: logistic.fit(x, y, l1=l1))
        assert traced(l1)[1].status == status
    params, info = logistic.fit(apart, y, l1=free)
    assert info.objective == 0 and np.flatnonzero(params.weights).tolist() == [0]
    assert logistic.fit(apart, y, l1=0.05)[1].status == Status.CONVERGED
    deficient, y, _ = table[Status.RANK_DEFICIENT]
    assert logistic.fit(deficient, y, l1=0.02, l2=0.01)[1].status == Status.CONVERGED


def test_what_is_not_valid_says_so():
    x, y = drawn("logistic")
    for l1 in (-1.0, np.nan, np.r_[np.inf, np.ones(11)]):
        with pytest.raises(ValueError, match="l1: 1 of"):
            logistic.fit(x, y, l1=l1)
        _, info = jax.jit(lambda l1: logistic.fit(x, y, l1=l1))(l1)
        assert info.status == Status.INVALID_DATA
    with pytest.raises(ValueError, match="l1: expected a scalar or one penalty per feature"):
        logistic.fit(x, y, l1=np.ones(3))
    with pytest.raises(ValueError, match="solver: not with l1"):
        logistic.fit(x, y, l1=0.1, solver=lambda *_: None)
    with pytest.raises(ValueError, match="l1: with loss=losses"):
        svm.fit(x, y, l1=0.1, l2=0.1)


@pytest.mark.parametrize("name", FITS)
def test_derivatives_are_differences(name):
    fit, _ = FITS[name]
    x, y = drawn(name, n=60, d=6)
    along = np.random.default_rng(1).normal(size=(3, 6))

    def felt(l1, l2, x, weight):
        params, info = fit(x, y, l1=l1, l2=l2, sample_weight=weight)
        weights = jnp.atleast_2d(params.weights)
        return jnp.sum(weights * along[: len(weights)]) + info.objective

    given = jnp.float64(0.03), jnp.float64(0.01), jnp.asarray(x), jnp.ones(len(y))
    slopes = jax.grad(felt, (0, 1, 2, 3))(*given)
    rng = np.random.default_rng(2)
    for i, a in enumerate(given):
        move = rng.normal(size=a.shape) * 1e-5
        sides = [felt(*given[:i], a + s * move, *given[i + 1 :]) for s in (1, -1)]
        np.testing.assert_allclose(jnp.sum(slopes[i] * move), (sides[0] - sides[1]) / 2, rtol=1e-6)


def test_second_derivatives_and_those_at_a_kink():
    x, y = drawn("logistic", n=60, d=6)

    def size(l1):
        return jnp.sum(logistic.fit(x, y, l1=l1)[0].weights ** 2)

    # Forwards over backwards, of penalties each of which moves all that is not 0.
    l1, step = np.full(6, 0.03), 1e-6 * np.arange(1.0, 7.0)
    difference = (jax.grad(size)(l1 + step) - jax.grad(size)(l1 - step)) / 2
    np.testing.assert_allclose(jax.hessian(size)(l1) @ step, difference, rtol=1e-7, atol=1e-12)
    most = losses.l1_max(losses.logistic, x, y)

    def total(l1):
        return jnp.sum(logistic.fit(x, y, l1=l1)[0].weights)

    # There is one to either side, another each: that of a weight which is 0 is none.
    assert jnp.isnan(jax.grad(total)(most)) and jnp.isnan(jax.jacfwd(total)(most))
    in_x = jax.grad(lambda x: jnp.sum(logistic.fit(x, y, l1=most)[0].weights))(x)
    assert jnp.isnan(in_x).any()
    # A weight that is 0 without a kink has one: here its column is.
    empty, l1 = np.where(np.arange(6) == 0, 0, x), np.where(np.arange(6) == 0, 0, 0.03)
    slope = jax.grad(lambda l2: jnp.sum(logistic.fit(empty, y, l1=l1, l2=l2)[0].weights))(0.1)
    assert jnp.isfinite(slope) and slope != 0
    assert jax.grad(total)(1.1 * most) == 0 and jnp.isfinite(jax.grad(total)(0.9 * most))


def test_lanes_are_single_fits():
    x, y = drawn("logistic")
    penalties = jnp.logspace(-3, 0, 6)
    params, info = jax.vmap(lambda l1: logistic.fit(x, y, l1=l1))(penalties)
    assert (info.status == Status.CONVERGED).all()
    for i, l1 in enumerate(penalties):
        public.assert_close(public.lane(params, i), logistic.fit(x, y, l1=l1)[0], 1e-10)
    weights = resample.kfold(jax.random.key(0), len(y), folds=3)
    values, infos = resample.cross_validate(logistic.fit, metrics.roc_auc, x, y, weights, l1=0.02)
    assert (infos.status == Status.CONVERGED).all() and values.shape == (3,)
    for value, weight in zip(values, weights, strict=True):
        own, _ = logistic.fit(x, y, l1=0.02, sample_weight=weight)
        held = metrics.roc_auc(x @ own.weights + own.bias, y, sample_weight=1 - weight)
        np.testing.assert_allclose(value, held)


def test_standardised_inside_is_standardised_before():
    x, y = drawn("logistic")
    x = x * np.logspace(-3, 3, 12)
    fit = resample.on_standardized(logistic.fit)
    params, _ = fit(x, y, l1=0.03, l2=0.01)
    scale = x.std(axis=0)
    inside, _ = logistic.fit((x - x.mean(axis=0)) / scale, y, l1=0.03, l2=0.01)
    np.testing.assert_allclose(params.weights * scale, inside.weights, rtol=1e-9, atol=1e-12)
    params, _ = fit(x, y, l1=0.05, groups=GROUPS)
    inside, _ = logistic.fit((x - x.mean(axis=0)) / scale, y, l1=0.05, groups=GROUPS)
    np.testing.assert_allclose(params.weights * scale, inside.weights, rtol=1e-9, atol=1e-12)


def test_classes_of_even_number_have_the_least_norm():
    """Moving all classes' weights of a feature, none of them 0, changes nothing in between."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3))
    pull = np.r_[[[-1.0, -1.0, 0.1, 3.0]], rng.normal(size=(2, 4))]
    y = np.argmax(x @ pull + rng.gumbel(size=(300, 4)), axis=1)
    params, info = softmax.fit(x, y, l1=1e-3)
    weights = np.asarray(params.weights)
    assert info.status == Status.CONVERGED
    assert max(violation(losses.softmax, params, x, y, 1e-3)) < 1e-12
    middle = np.sort(weights, axis=0)[1:3]
    moved = np.clip(weights.mean(axis=0), *middle)
    np.testing.assert_allclose(moved, 0, atol=1e-12)
    assert (np.abs(middle) < 1e-12).any()  # moved as far as may be, which has a derivative too

    def size(l1):
        return jnp.sum(softmax.fit(x, y, l1=l1)[0].weights ** 2)

    difference = (size(1e-3 + 1e-7) - size(1e-3 - 1e-7)) / 2e-7
    np.testing.assert_allclose(jax.grad(size)(1e-3), difference, rtol=1e-6)
    free, _ = softmax.fit(x, y, l1=np.array([0.0, 0.0, 1e-3]))
    np.testing.assert_allclose(free.weights.sum(axis=0)[:2], 0, atol=1e-12)


def test_a_failure_is_named():
    x, y = drawn("logistic")
    apart = np.where(np.arange(12) == 0, np.where(y > 0, 1, -1)[:, None], x)
    _, info = logistic.fit(apart, y, l1=np.where(np.arange(12) == 0, 0, 0.05))
    with pytest.raises(FitError, match="SEPARABLE"):
        raise_if_failed(info)


@pytest.mark.parametrize("given", [public.thorough(("l1",)), ("l1", "l2")])
def test_paths_and_choices(given):
    x, y = drawn("logistic", n=90, d=6)
    grid = {"l1": np.logspace(-3, -1, 5), "l2": np.logspace(-4, 0, 5)}
    swept = {name: grid[name] for name in given}
    params, info = resample.regularization_path(logistic.fit, x, y, **swept)
    assert (info.status == Status.CONVERGED).all()
    for i in range(5):
        own, _ = logistic.fit(x, y, **{name: a[i] for name, a in swept.items()})
        public.assert_close(public.lane(params, i), own, 1e-9)
    folds = resample.stratified_kfold(jax.random.key(0), y, folds=3)
    found, _, best = resample.select(logistic.fit, metrics.log_loss, x, y, folds, **swept)
    values = [
        resample.cross_validate(
            logistic.fit, metrics.log_loss, x, y, folds, **{name: a[i] for name, a in swept.items()}
        )[0].mean()
        for i in range(5)
    ]
    at = int(np.argmin(values))
    chosen = best if len(given) > 1 else {"l1": best}
    for name in given:
        np.testing.assert_allclose(chosen[name], swept[name][at])
    public.assert_close(found, public.lane(params, at), 1e-9)


def test_one_number_goes_with_many():
    x, y = drawn("logistic", n=90, d=6)
    params, _ = resample.regularization_path(logistic.fit, x, y, l1=np.array([0.1, 0.01]), l2=0.05)
    public.assert_close(public.lane(params, 1), logistic.fit(x, y, l1=0.01, l2=0.05)[0], 1e-9)
    with pytest.raises(ValueError, match="expected as many of both"):
        resample.regularization_path(logistic.fit, x, y, l1=np.ones(2), l2=np.ones(3))
    with pytest.raises(TypeError, match="l2, l1: expected penalties"):
        resample.regularization_path(logistic.fit, x, y)


def test_a_fall_that_rounding_hides_is_one():
    """Of a thousand lanes some end where the objective no longer tells a step's fall."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 200, 50))
    y = (x[:, :, :5].sum(axis=2) + rng.logistic(size=(1000, 200)) > 0).astype(int)
    pull = np.einsum("lnd,ln->ld", x, y - y.mean(axis=1, keepdims=True))
    l1 = np.abs(pull).max(axis=1) / 2000
    info = jax.jit(jax.vmap(lambda x, y, l1: logistic.fit(x, y, l1=l1)[1]))(x, y, l1)
    assert (info.status == Status.CONVERGED).all(), np.unique(info.status, return_counts=True)


def test_what_a_set_does_not_hold_keeps_its_part():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2100))
    t = x[:, :300] @ rng.normal(size=300) + rng.normal(size=60)
    params, info = least_squares.regress(x, t, l1=1.0, l2=5.0)
    assert info.status == Status.CONVERGED and np.count_nonzero(params.weights) > 400
    assert max(violation(squares, params, x, t, 1.0, 5.0)) < 1e-7


def test_a_last_step_that_leads_uphill_is_taken_back():
    """Of few rows of zeros and ones the slope of a squared hinge has corners at many optima."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(400, 12, 20)) > 0.8).astype(float)
    y = rng.integers(2, size=(400, 12))
    y[:, 0], y[:, 1] = 0, 1
    pull = np.einsum("lnd,ln->ld", x, y - y.mean(axis=1, keepdims=True))
    l1 = np.abs(pull).max(axis=1) / 12 * 10 ** rng.uniform(-2, 0.5, size=400)
    fit = functools.partial(svm.fit, l2=0.0, loss=losses.squared_hinge)
    info = jax.jit(jax.vmap(lambda x, y, l1: fit(x, y, l1=l1)[1]))(x, y, l1)
    assert (info.status <= Status.RANK_DEFICIENT).all(), np.unique(info.status, return_counts=True)


def test_more_free_features_than_a_set_holds_are_no_success_unless_they_are_fitted():
    x, t = drawn("regress", n=40, d=2600)
    l1 = np.where(np.arange(2600) < 2000, 0, 0.05)
    params, info = least_squares.regress(x, t, l1=l1)
    solved = max(violation(squares, params, x, t, l1)) < 1e-6
    assert solved or info.status > Status.RANK_DEFICIENT


# --- groups --------------------------------------------------------------------------------------

GROUPS = np.array([0, 0, 0, 1, 1, 2, 3, 3, 3, 3, 4, 2])


def violation_of_groups(loss, params, x, y, l1, groups, **options):
    """As `violation`, of groups: of each the norm over all classes."""

    def smooth(params):
        return losses.objective(loss, params, x, y, **options)

    slope, (weights, _) = jax.grad(smooth)(params), params
    worst = [float(np.max(np.abs(slope.bias)))]
    for i, most in enumerate(np.broadcast_to(l1, groups.max() + 1)):
        w, g = (np.asarray(a)[..., groups == i] for a in (weights, slope.weights))
        size = np.linalg.norm(w)
        worst.append(np.linalg.norm(g + most * w / size) if size else np.linalg.norm(g) - most)
    return max(worst)


@pytest.mark.parametrize("name", FITS)
def test_groups_are_0_as_a_whole(name):
    fit, loss = FITS[name]
    x, y = drawn(name)
    k = 3 if name == "softmax" else None
    most = float(losses.l1_max(loss, x, y, num_classes=k, groups=GROUPS))
    l1 = most * np.array([0.3, 0.2, 0.3, 0.9, 0.1])
    for l2 in (0.0, np.where(np.arange(12) < 2, 0.01, 0.0)):
        params, info = fit(x, y, l1=l1, groups=GROUPS, l2=l2)
        assert info.status == Status.CONVERGED and info.residual < 1e-12
        assert violation_of_groups(loss, params, x, y, l1, GROUPS, l2=l2) < 1e-13
        whole = losses.objective(loss, params, x, y, l1=l1, groups=GROUPS, l2=l2)
        np.testing.assert_allclose(info.objective, whole, rtol=1e-14)
        there = np.any(np.atleast_2d(params.weights) != 0, axis=0)
        assert (there == np.isin(GROUPS, np.unique(GROUPS[there]))).all() and 0 < there.sum() < 12
    some = [np.any(fit(x, y, l1=most * a, groups=GROUPS)[0].weights != 0) for a in (1.001, 0.999)]
    assert some == [False, True]


def test_a_group_of_one_is_a_weight_and_units_are_the_users():
    x, y = drawn("logistic")
    x = x * np.logspace(-3, 3, 12)
    l1 = 0.03 * np.logspace(-3, 3, 12)
    alone, _ = logistic.fit(x, y, l1=l1)
    params, _ = logistic.fit(x, y, l1=l1, groups=np.arange(12)[::-1].copy())
    assert np.any(np.asarray(alone.weights) != np.asarray(params.weights))
    params, _ = logistic.fit(x, y, l1=l1, groups=np.arange(12))
    public.assert_close(params, alone, 1e-10)
    l1 = np.array([0.02, 1.0, 3.0, 2.0, 4.0])
    params, info = logistic.fit(x, y, l1=l1, groups=GROUPS)
    assert info.status == Status.CONVERGED and np.count_nonzero(params.weights) in range(1, 12)
    assert violation_of_groups(losses.logistic, params, x, y, l1, GROUPS) < 1e-11
    # All classes of a feature are one group.
    x, y = drawn("softmax")
    params, _ = softmax.fit(x, y, l1=0.1, groups=np.arange(12))
    there = np.asarray(params.weights) != 0
    assert (there.all(axis=0) == there.any(axis=0)).all() and 0 < there[0].sum() < 12
    np.testing.assert_allclose(params.weights.sum(axis=0), 0, atol=1e-12)


def test_groups_of_more_columns_than_a_set_holds():
    x, t = drawn("regress", n=60, d=700)
    groups = np.arange(700) // 7
    l1 = losses.l1_max(squares, x, t, groups=groups) / 2
    params, info = least_squares.regress(x, t, l1=l1, groups=groups)
    assert info.status == Status.CONVERGED and 0 < np.count_nonzero(params.weights) < 200
    assert violation_of_groups(squares, params, x, t, l1, groups) < 1e-12


def test_derivatives_of_groups_are_differences():
    x, y = drawn("logistic", n=60)
    rng = np.random.default_rng(1)
    along = rng.normal(size=12)

    def felt(l1, l2, weight):
        fit = functools.partial(logistic.fit, groups=GROUPS, num_groups=5)
        params, info = fit(x, y, l1=l1, l2=l2, sample_weight=weight)
        return params.weights @ along + info.objective

    given = np.linspace(0.02, 0.1, 5), np.full(12, 0.01), np.ones(len(y))
    slopes, second = jax.grad(felt, (0, 1, 2))(*given), jax.hessian(felt)(*given)
    for i, a in enumerate(given):
        move = rng.normal(size=a.shape) * 1e-5
        sides = [(*given[:i], a + s * move, *given[i + 1 :]) for s in (1, -1)]
        difference = (felt(*sides[0]) - felt(*sides[1])) / 2
        np.testing.assert_allclose(jnp.sum(slopes[i] * move), difference, rtol=1e-6)
        if i == 0:
            difference = (jax.grad(felt)(*sides[0]) - jax.grad(felt)(*sides[1])) / 2
            np.testing.assert_allclose(second @ move, difference, rtol=1e-6, atol=1e-12)


def test_functions_of_fits_know_groups():
    x, y = drawn("logistic", n=90)
    l1 = np.array([0.2, 0.05])
    params, _ = resample.regularization_path(logistic.fit, x, y, l1=l1, groups=GROUPS)
    for i in range(2):
        own, _ = logistic.fit(x, y, l1=l1[i], groups=GROUPS)
        public.assert_close(public.lane(params, i), own, 1e-9)
    x, y = drawn("softmax", n=90)
    params, _ = one_vs_rest(logistic.fit)(x, y, num_classes=3, l1=0.05, groups=GROUPS)
    own, _ = logistic.fit(x, (y == 1).astype(int), l1=0.05, groups=GROUPS)
    public.assert_close(Hyperplane(*public.lane(params, 1)), own, 1e-9)


def test_what_is_no_group_says_so():
    x, y = drawn("logistic")
    fit = functools.partial(logistic.fit, x, y)
    table = {
        "groups: expected l1 too": {"groups": GROUPS},
        r"groups: expected integers, one for each feature, shape \(12,\)": {
            "l1": 0.1,
            "groups": GROUPS[:3],
        },
        "groups: 3 at 6 is outside 0..2": {"l1": 0.1, "groups": GROUPS, "num_groups": 3},
        r"l1: expected a scalar or one penalty per feature, shape \(5,\)": {
            "l1": np.ones(12),
            "groups": GROUPS,
        },
        "num_groups: without groups": {"l1": 0.1, "num_groups": 3},
    }
    for words, given in table.items():
        with pytest.raises(ValueError, match=words):
            fit(**given)
    traced = jax.jit(lambda groups: fit(l1=0.1, groups=groups, num_groups=3)[1].status)
    assert traced(GROUPS) == Status.INVALID_DATA and traced(np.minimum(GROUPS, 2)) == 0
    empty, _ = fit(l1=0.1, groups=GROUPS, num_groups=9)
    public.assert_close(empty, fit(l1=0.1, groups=GROUPS)[0], 1e-12)


# --- what is proved to be 0 ----------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, *map(public.thorough, range(2, 10))])
def test_what_is_proved_is_0_to_40_digits(seed):
    x, y = drawn("logistic", n=40, d=6, seed=seed)
    l1 = 0.05
    params, _ = logistic.fit(x, y, l1=l1)
    weights = np.asarray(params.weights)
    support = np.flatnonzero(weights)
    known = optimum_to_40_digits(x, y, l1, support, np.sign(weights[support]))
    there = np.zeros(6)
    there[support] = known[:-1]
    chance = 1 / (1 + np.exp(-(x @ there + known[-1])))
    pull = np.abs(x.T @ (chance - y)) / len(y)
    apart = np.setdiff1d(np.arange(6), support)
    assert (pull[apart] < l1 * (1 - 1e-9)).all()  # no other support will do
    counts = []
    for times in (1.0, 1.0001, 1.01, 1.1, 2.0):
        near, _ = logistic.fit(x, y, l1=times * l1)
        zero = np.asarray(inference.proved_zero(losses.logistic, near, x, y, l1=l1))
        assert not zero[support].any()
        counts.append(zero.sum())
    assert counts[0] == len(apart) and counts == sorted(counts, reverse=True)


@pytest.mark.parametrize("name", FITS)
def test_at_an_optimum_all_zeros_are_proved(name):
    fit, loss = FITS[name]
    loss = losses.squared if name == "regress" else loss
    x, y = drawn(name)
    mask, weight = np.arange(12) != 1, np.arange(200) % 3
    given = {"sample_weight": weight, "feature_mask": mask}
    for l1, groups in ((0.05, None), (0.1, GROUPS)):
        params, _ = fit(x, y, l1=l1, groups=groups, **given)
        zero = inference.proved_zero(loss, params, x, y, l1=l1, groups=groups, **given)
        assert (zero == (params.weights == 0)).all() and 0 < zero.sum() < zero.size
    broken = jax.tree.map(lambda a: a * np.nan, params)
    assert not inference.proved_zero(loss, broken, x, y, l1=l1).any()


def test_a_loss_without_a_gap_is_refused():
    x, y = drawn("logistic")
    params, _ = logistic.fit(x, y, l1=0.1)
    with pytest.raises(ValueError, match="loss: expected one of those that fits with l1 minimise"):
        inference.proved_zero(losses.hinge, params, x, y, l1=0.1)
    with pytest.raises(TypeError, match="y"):  # as the fit: a share of a class has no margin
        inference.proved_zero(losses.squared_hinge, params, x, y / 2, l1=0.1)
    with pytest.raises(ValueError, match="l1: 1 of 1"):
        inference.proved_zero(losses.logistic, params, x, y, l1=-0.1)


# --- least squares on indicators -----------------------------------------------------------------


def test_indicators_are_regressions_of_each_class():
    x, y = drawn("softmax")
    params, info = least_squares.fit(x, y, num_classes=4, l1=0.03, l2=0.01)
    assert info.status == Status.CONVERGED and info.residual < 1e-12
    for i in range(3):
        own, _ = least_squares.regress(x, (y == i).astype(float), l1=0.03, l2=0.01)
        public.assert_close(Hyperplane(*public.lane(params, i)), own, 1e-12)
    assert not params.weights[3].any() and jnp.isneginf(params.bias[3])
    three = public.lane(params, slice(0, 3))
    whole = losses.objective(losses.squared, three, x, y, l1=0.03, l2=0.01)
    np.testing.assert_allclose(info.objective, whole, rtol=1e-14)
    params, info = least_squares.fit(x, y, l1=0.1, groups=np.arange(12))
    there = np.asarray(params.weights) != 0
    assert (there.all(axis=0) == there.any(axis=0)).all() and 0 < there[0].sum() < 12
    assert violation_of_groups(losses.squared, params, x, y, 0.1, np.arange(12)) < 1e-14
    one, info = least_squares.fit(x, 0 * y, num_classes=3, l1=0.1)
    assert info.status == Status.CLASS_TOO_SMALL and not one.weights.any()
    assert one.bias.tolist() == [1.0, -np.inf, -np.inf]

"""The perceptron is the textbook's loop, and says truthfully how it ended."""

from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlin import losses, perceptron
from jaxlin._batch import _visits
from jaxlin.types import Hyperplane, Status

FITS = [perceptron.fit, perceptron.fit_averaged, perceptron.fit_pocket]
X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
ONES = np.ones(30)
AND, OR, XOR = np.array([0, 0, 0, 1]), np.array([0, 1, 1, 1]), np.array([0, 1, 1, 0])


def textbook(x, y, weight, max_epochs, bias=True):
    """Rosenblatt's loop in Python integers, and the plane after each of its visits."""
    w, b, updates, visited = [0] * len(x[0]), 0, 0, []
    for _ in range(max_epochs):
        before = updates
        for row, label, c in zip(x, y, weight, strict=True):
            t = 2 * label - 1
            wrong = t * (sum(i * j for i, j in zip(w, row, strict=True)) + b) <= 0
            if wrong:
                w = [j + c * t * i for i, j in zip(row, w, strict=True)]
                b, updates = b + bias * c * t, updates + 1
            visited.append((w, b, wrong))
        if updates == before:
            break
    return w, b, updates, visited


def integer_problem(seed, d=3, n=30, spread=9):
    rng = np.random.default_rng(seed)
    x = rng.integers(-spread, spread + 1, (n, d))
    truth = rng.integers(-5, 6, d)
    return x, (x @ truth + rng.integers(-3, 4) > 0).astype(int), rng.integers(1, 4, n)


def agreement(plane, x, y):
    """t s of every row."""
    return (2 * np.asarray(y) - 1) * (np.asarray(x) @ np.asarray(plane.weights) + float(plane.bias))


def assert_same(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("y", [AND, OR, XOR])
def test_boolean_functions_are_the_textbook_loop(dtype, y):
    w, b, updates, _ = textbook(X.astype(int).tolist(), y.tolist(), [1] * 4, 50)
    plane, info = perceptron.fit(X.astype(dtype), y, max_epochs=50)
    assert (plane.weights.tolist(), plane.bias.item(), int(info.steps)) == (w, b, updates)
    assert plane.weights.dtype == info.objective.dtype == info.residual.dtype == dtype
    expected = Status.MAX_STEPS if y is XOR else Status.CONVERGED
    assert (info.status, info.residual > 0) == (expected, y is XOR)


@pytest.mark.parametrize("bias", [True, False])
def test_integer_data_are_the_textbook_loop(bias):
    for seed in range(25):
        x, y, weight = integer_problem(seed)
        w, b, updates, _ = textbook(x.tolist(), y.tolist(), weight.tolist(), 20, bias)
        plane, info = perceptron.fit(x, y, sample_weight=weight, max_epochs=20, bias=bias)
        assert (plane.weights.tolist(), plane.bias.item(), int(info.steps)) == (w, b, updates)
        t_s = (2 * y - 1) * (x @ np.array(w) + b)
        mistakes = (t_s <= 0).sum()
        assert int(info.residual) == mistakes
        assert info.status == (Status.MAX_STEPS if mistakes else Status.CONVERGED)
        loss = np.sum(weight * np.maximum(0, -t_s)) / weight.sum()
        np.testing.assert_allclose(info.objective, loss, rtol=1e-12)


def test_averaged_is_the_mean_over_visits():
    x, y, weight = integer_problem(0)
    y = 1 - (1 - y) * (np.arange(30) % 7 > 0)  # no plane separates
    *_, visited = textbook(x.tolist(), y.tolist(), weight.tolist(), 6)
    plane, info = perceptron.fit_averaged(x, y, sample_weight=weight, max_epochs=6)
    np.testing.assert_allclose(plane.weights, np.mean([v[0] for v in visited], 0), rtol=1e-12)
    np.testing.assert_allclose(plane.bias, np.mean([v[1] for v in visited]), rtol=1e-12)
    assert info.status == Status.MAX_STEPS
    assert int(info.residual) == np.sum(agreement(plane, x, y) <= 0) > 0


def test_averaged_stops_when_the_mean_separates():
    for seed in range(5):
        x, y, _ = integer_problem(seed)
        plane, info = perceptron.fit_averaged(x, y, sample_weight=ONES)
        assert info.status == Status.CONVERGED
        assert np.all(agreement(plane, x, y) > 0)


def test_pocket_is_gallant_with_ratchet():
    for seed in range(6):
        x, y, weight = integer_problem(seed)
        y = np.where(np.arange(30) % 8 == 3, 1 - y, y)

        def cost(w, b, x=x, y=y, weight=weight):
            return np.sum(weight * ((2 * y - 1) * (x @ np.array(w) + b) <= 0))

        *_, visited = textbook(x.tolist(), y.tolist(), weight.tolist(), 8)
        pocket, current = ([0, 0, 0], 0), ([0, 0, 0], 0)
        for epoch in range(len(visited) // 30):
            run, best, candidate = 0, 0, current
            for (w, b, wrong), c in zip(visited[30 * epoch :][:30], weight, strict=True):
                run = 0 if wrong else run + c
                if run > best:
                    best, candidate = run, (w, b)
            current = visited[30 * epoch + 29][:2]
            pocket = min([pocket, candidate, current], key=lambda p: cost(*p))
        plane, info = perceptron.fit_pocket(x, y, sample_weight=weight, max_epochs=8)
        assert (plane.weights.tolist(), plane.bias.item()) == pocket
        np.testing.assert_allclose(info.objective, cost(*pocket) / weight.sum(), rtol=1e-12)
        assert int(info.residual) == np.sum(agreement(plane, x, y) <= 0)


def test_mistake_bound_holds():
    x, y = [[10], [12]], [0, 1]
    plane, info = perceptron.fit(x, y)
    assert textbook(x, y, [1, 1], 1000)[2] == info.steps == 233
    best = Hyperplane(weights=np.array([1.0]), bias=np.array(-11.0))
    assert 233 <= perceptron.mistake_bound(best, x, y) == (144 + 1) * (1 + 121)
    for seed in range(15):
        x, y, weight = integer_problem(seed)
        for bias in (True, False):
            for w in (ONES, weight):
                plane, info = perceptron.fit(x, y, sample_weight=w, bias=bias)
                bound = perceptron.mistake_bound(plane, x, y, sample_weight=w, bias=bias)
                assert int(info.steps) <= bound
                assert np.isfinite(bound) == (info.status == Status.CONVERGED)


def test_mistake_bound_of_no_separator_is_infinite():
    plane = Hyperplane(weights=np.array([1.0, 0.0]), bias=np.array(0.0))
    assert perceptron.mistake_bound(plane, X, XOR) == np.inf
    assert np.isnan(perceptron.mistake_bound(plane, X * np.nan, XOR))
    row = np.array([0.0, 1.0, 1.0, 0.0])  # leaves x = (0, 1), (1, 0), told apart by the first
    bound = perceptron.mistake_bound(
        plane._replace(bias=np.array(-0.5)), X, [0, 0, 1, 1], sample_weight=row
    )
    assert bound == 2 * (1 + 0.25) / 0.25


def test_criteria():
    plane = Hyperplane(weights=np.array([3.0, -4.0]), bias=np.array(1.0))
    s = X @ plane.weights + plane.bias
    weight = np.array([1.0, 2.0, 0.5, 3.0])
    expected = np.sum(weight * np.maximum(0, -(2 * AND - 1) * s))
    x = np.vstack([X, [[np.nan, 1.0]]])
    y, w = np.append(AND, 0), np.append(weight, 0.0)
    np.testing.assert_allclose(perceptron.criterion(plane, x, y, sample_weight=w), expected)
    far = perceptron.distance_criterion(plane, x, y, sample_weight=w)
    np.testing.assert_allclose(far, expected / 5)
    mean = losses.objective(losses.perceptron, plane, x, y, sample_weight=w)
    np.testing.assert_allclose(expected / 6.5, mean)
    assert np.isnan(perceptron.criterion(plane, x, y))
    # A tie counts as a mistake in the derivative, and a weight of 0 has the true one.
    zero = jax.tree.map(np.zeros_like, plane)
    slope = jax.grad(perceptron.criterion)(zero, X, AND)
    np.testing.assert_array_equal(slope.weights, -((2 * AND - 1) @ X))
    by_weight = jax.grad(lambda w: perceptron.criterion(plane, X, AND, sample_weight=w))
    np.testing.assert_allclose(
        by_weight(np.array([1.0, 1.0, 0.0, 0.0])), np.maximum(0, -(2 * AND - 1) * s)
    )


@pytest.mark.parametrize(
    ("fit", "key"), [*((fit, None) for fit in FITS), (perceptron.fit, jax.random.key(3))]
)
def test_a_row_of_weight_zero_is_absent(fit, key):
    x, y, _ = integer_problem(1)
    at = np.array([0, 7, 7, 30])
    bad = np.array([[np.nan] * 3, [np.inf, 1, 1], [5, 5, 5], [1e300] * 3])
    padded = np.insert(x.astype(float), at, bad, axis=0)
    labels, weight = np.insert(y, at, [9, -1, 0, 1]), np.insert(np.ones(30), at, 0)
    alone = fit(x, y, sample_weight=ONES, key=key, max_epochs=9)
    assert_same(alone, fit(padded, labels, sample_weight=weight, key=key, max_epochs=9))


@pytest.mark.parametrize("fit", FITS)
def test_a_masked_feature_is_absent(fit):
    x, y, _ = integer_problem(2)
    plane, info = fit(x, y, sample_weight=ONES, max_epochs=9)
    wide = np.insert(x.astype(float), 1, np.nan, axis=1)
    mask = np.array([True, False, True, True])
    init = Hyperplane(weights=np.array([0.0, np.inf, 0.0, 0.0]), bias=np.array(0.0))
    masked, told = fit(wide, y, max_epochs=9, feature_mask=mask, init=init)
    assert masked.weights[1] == 0
    assert_same((plane.weights, plane.bias), (masked.weights[mask], masked.bias))
    assert_same(info, told)


# Few lanes, and so many that each visit is one of vectors over them.
LANES = pytest.mark.parametrize("count", [4, _visits.MANY_LANES + 2])


@LANES
@pytest.mark.parametrize("fit", FITS)
def test_lanes_are_single_fits(fit, count):
    problems = [integer_problem(seed) for seed in range(count)]
    x, y, w = (np.stack(a) for a in zip(*problems, strict=True))
    lanes = jax.vmap(lambda x, y, w: fit(x, y, sample_weight=w, max_epochs=7))(x, y, w)
    shared = jax.vmap(lambda w: fit(x[0], y[0], sample_weight=w, max_epochs=7))(w)
    same = _same(fit, count)
    for i in range(count):
        same(lane(lanes, i), fit(x[i], y[i], sample_weight=w[i], max_epochs=7))
        same(lane(shared, i), fit(x[0], y[0], sample_weight=w[i], max_epochs=7))


@LANES
@pytest.mark.parametrize("fit", FITS)
def test_lanes_of_masks_and_keys_and_lanes_of_lanes(fit, count):
    problems = [integer_problem(seed) for seed in range(count)]
    x, y, w = (np.stack(a) for a in zip(*problems, strict=True))
    mask = np.random.default_rng(0).random((count, x.shape[2])) < 0.7

    def of(x, y, w, mask, key=None):
        return fit(x, y, sample_weight=w, feature_mask=mask, max_epochs=7, key=key)

    lanes = jax.vmap(of)(x, y, w, mask)
    keys = jax.random.split(jax.random.key(0), count)
    shared = jax.vmap(lambda w, mask, key: of(x[0], y[0], w, mask, key))(w, mask, keys)
    nested = jax.vmap(lambda x, y: jax.vmap(partial(of, x, y))(w, mask))(x, y)
    same = _same(fit, count if fit is not perceptron.fit_averaged else _visits.MANY_LANES)
    for i in range(count):
        same(lane(lanes, i), of(x[i], y[i], w[i], mask[i]))
        same(lane(shared, i), of(x[0], y[0], w[i], mask[i], keys[i]))
        same(lane(lane(nested, i), -1 - i), of(x[i], y[i], w[-1 - i], mask[-1 - i]))


def _same(fit, count):
    """Exact, but for a mean where many lanes are put last: its division is another program's."""
    rounded = fit is perceptron.fit_averaged and count >= _visits.MANY_LANES
    digits = partial(np.testing.assert_allclose, rtol=1e-14, atol=1e-15)
    return partial(jax.tree.map, digits) if rounded else assert_same


def lane(tree, i):
    return jax.tree.map(lambda a: a[i], tree)


def case(x=X, y=AND, weight=(1.0, 1.0, 1.0, 1.0), w=(0.0, 0.0), b=0.0, epochs=50, step=1.0):
    init = Hyperplane(weights=np.array(w), bias=np.array(b))
    return {
        "x": np.array(x),
        "y": np.array(y),
        "sample_weight": np.array(weight),
        "init": init,
        "max_epochs": np.array(epochs),
        "step_size": np.array(step),
    }


GOOD = case()
EDGE = 1 - 2.0**-51  # x = -1 scores -2^-51 under w = 1, b = EDGE: less than the rounding slack
ENDS = [
    (Status.CONVERGED, case(y=OR)),
    (Status.CONVERGED, case(w=(1.0, 1.0), b=-1.5, epochs=0)),
    (Status.STALLED, case(x=[[-1, 0], [-1, 0], [1, 0], [1, 0]], y=[0, 0, 1, 1], w=(1, 0), b=EDGE)),
    (Status.STALLED, case(x=X * 1e150, step=1e300)),
    (Status.MAX_STEPS, case(y=XOR)),
    (Status.MAX_STEPS, case(epochs=0)),
    (Status.MAX_STEPS, case(step=0.0)),
    (Status.CLASS_TOO_SMALL, case(y=[1, 1, 1, 1])),
    (Status.CLASS_TOO_SMALL, case(weight=(1.0, 1.0, 1.0, 0.0))),
    (Status.INVALID_DATA, case(x=X * np.array([[1], [1], [np.nan], [1]]))),
    (Status.INVALID_DATA, case(x=X * 2.0**509)),
    (Status.INVALID_DATA, case(y=[0, 0, 2, 1])),
    (Status.INVALID_DATA, case(weight=(1.0, -1.0, 1.0, 1.0))),
    (Status.INVALID_DATA, case(weight=(0.0, 0.0, 0.0, 0.0))),
    (Status.INVALID_DATA, case(weight=(np.inf, 1.0, 1.0, 1.0))),
    (Status.INVALID_DATA, case(step=-1.0)),
    (Status.INVALID_DATA, case(step=np.nan)),
    (Status.INVALID_DATA, case(step=np.inf)),
    (Status.INVALID_DATA, case(epochs=-1)),
    (Status.INVALID_DATA, case(w=(np.nan, 0.0))),
    (Status.INVALID_DATA, case(b=np.inf)),
]


@LANES
@pytest.mark.parametrize("fit", FITS)
def test_every_status_alone_and_among_neighbours(fit, count):
    def of(c):
        return fit(**c)

    batch = jax.jit(jax.vmap(of))
    stack = partial(jax.tree.map, lambda *a: np.stack(a))
    clean = lane(batch(stack(*[GOOD] * count)), 0)
    for status, bad in ENDS:
        alone = jax.jit(of)(bad)
        assert alone[1].status == status, (status, bad)
        if status == Status.INVALID_DATA:
            assert alone[1].steps == 0
            rest = (alone[0], alone[1].objective, alone[1].residual)
            assert all(np.all(np.isnan(a)) for a in jax.tree.leaves(rest))
            with pytest.raises(ValueError, match=r"^(x|y|sample_weight|step_size|max_ep|init)"):
                of(bad)
        else:
            assert_same(of(bad), alone)
            assert all(np.all(np.isfinite(a)) for a in jax.tree.leaves(alone))
        lanes = batch(stack(GOOD, bad, *[GOOD] * (count - 2)))
        assert_same(lane(lanes, 1), alone)
        for i in (0, *range(2, count)):
            assert_same(lane(lanes, i), clean)


def test_converged_is_exact_separation():
    # Planes through a row, give or take a rounding error; exact in the wider dtype.
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=(3000, *s)).astype(np.float32) for s in ((4, 2), (2,)))
    b = -np.einsum("id,id->i", x[:, 0], w) + rng.normal(size=3000).astype(np.float32) * 2e-7
    s = np.einsum("ind,id->in", x.astype(float), w) + b.astype(float)[:, None]
    y = (s > 0) ^ (rng.uniform(size=s.shape) < 0.02)
    wrong = np.any(np.where(y, s, -s) <= 0, axis=1)

    def of(x, y, *init):
        return perceptron.fit(x, y, init=Hyperplane(*init), max_epochs=0)[1].status

    status = np.asarray(jax.vmap(of)(x, y, w, b))
    both = y.any(1) & ~y.all(1)
    assert not np.any(wrong & (status == Status.CONVERGED))
    assert {Status.CONVERGED, Status.STALLED, Status.MAX_STEPS} <= set(status[both].tolist())


def test_one_class_gets_a_plane_that_puts_all_on_its_side():
    plane, info = perceptron.fit(X, [1, 1, 1, 1])
    assert np.all(agreement(plane, X, [1, 1, 1, 1]) > 0)
    assert info.residual == 0


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"x: 1 of 8 entries .* first at \(3, 1\): nan"):
        perceptron.fit(np.where(np.arange(8).reshape(4, 2) == 7, np.nan, X), AND)
    with pytest.raises(ValueError, match=r"step_size: 1 of 1"):
        perceptron.fit(X, AND, step_size=-1)
    with pytest.raises(TypeError, match=r"labels\.encode"):
        perceptron.fit(X, AND.astype(float))
    with pytest.raises(TypeError, match="max_epochs"):
        perceptron.fit(X, AND, max_epochs=10.0)
    with pytest.raises(TypeError, match="bias"):
        perceptron.fit(X, AND, bias=1)
    with pytest.raises(TypeError, match="key: expected a PRNG key"):
        perceptron.fit(X, AND, key=0)
    wide = Hyperplane(weights=np.zeros(3), bias=np.zeros(()))
    with pytest.raises(ValueError, match=r"init\.weights: expected shape \(2,\), got \(3,\)"):
        perceptron.fit(X, AND, init=wide)
    with pytest.raises(ValueError, match=r"params\.weights: expected shape \(2,\)"):
        perceptron.criterion(wide, X, AND)


@pytest.mark.parametrize("fit", [perceptron.fit, perceptron.fit_pocket])
def test_random_picks(fit):
    x, y, _ = integer_problem(4)
    of = partial(fit, x, y, sample_weight=ONES)
    one, other = of(key=jax.random.key(0)), of(key=jax.random.key(1))
    assert_same(one, of(key=jax.random.key(0)))
    assert one[1].steps != other[1].steps
    for plane, info in (one, other):
        assert info.status == Status.CONVERGED
        assert np.all(agreement(plane, x, y) > 0)


def test_half_precision_and_small_labels():
    x, y, _ = integer_problem(5)
    exact = perceptron.fit(x.astype(np.float32), y)
    half = perceptron.fit(jnp.asarray(x, jnp.bfloat16), y.astype(np.uint8))
    assert half[0].weights.dtype == np.float32
    assert_same(exact, half)
    assert_same(exact, perceptron.fit(x.astype(np.float32), y.astype(bool)))


@pytest.mark.parametrize("fit", FITS)
def test_a_second_call_compiles_nothing(fit, caplog):
    fit(X, AND, step_size=1.0, max_epochs=10)
    with jax.log_compiles():
        fit(2 * X, OR, step_size=2, max_epochs=20)
        fit(jnp.asarray(X), jnp.asarray(OR), step_size=np.float64(0.5))
    assert [r.message for r in caplog.records if "Compiling" in r.message] == []


def test_a_sweep_is_one_compile():
    @jax.jit
    @chex.assert_max_traces(1)
    def of(step_size):
        return perceptron.fit(X, AND, step_size=step_size)

    steps = np.array([0.5, 1.0, 4.0])
    each = [of(s) for s in steps]
    swept = jax.vmap(lambda s: perceptron.fit(X, AND, step_size=s))(steps)
    for i, one in enumerate(each):
        assert_same(one, jax.tree.map(lambda a, i=i: a[i], swept))
        # From 0 a step size only scales.
        assert_same(one[0].weights, each[1][0].weights * steps[i])


def test_it_starts_from_init():
    plane, _ = perceptron.fit(X, AND)
    again, told = perceptron.fit(X, AND, init=plane)
    assert_same(again, plane)
    assert (told.steps, told.status) == (0, Status.CONVERGED)


def test_reverse_mode_raises():
    with pytest.raises(NotImplementedError, match="forward only"):
        jax.grad(lambda x: perceptron.fit(x, AND)[0].weights[0])(X)


@LANES
def test_forward_mode_is_the_derivative_at_fixed_mistakes(count):
    def weights(step, x):
        return perceptron.fit(x, AND, step_size=step, max_epochs=20)[0].weights

    x = X + 1e-3 * np.random.default_rng(4).normal(size=(count, *X.shape))
    steps = jnp.linspace(0.5, 2.0, count)
    planes, moved = jax.jvp(lambda s: jax.vmap(weights)(s, x), (steps,), (jnp.ones(count),))
    # From 0 the plane is proportional to the step size.
    chex.assert_trees_all_close(moved, planes / steps[:, None], rtol=1e-12)

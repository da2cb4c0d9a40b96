"""The combinators are their binary fits, lane by lane, and say truthfully how they went."""

from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlin
from jaxlin import fisher, logistic, multiclass, pairwise, perceptron, svm
from jaxlin._base import _checks, _invalid
from jaxlin._data import _prepare
from jaxlin.types import Hyperplane, Info, Linear, Pairwise, Status
from tests.public import thorough

K, N, D = 3, 30, 4


def identity(a):
    return a


def flip(a):
    return -a


def centroids(x, y, *, sample_weight=None, l2=0.0, transform=identity, bias=True):
    """The difference of the class means, shrunk: a fit in a few lines that keeps the contract."""
    data = _checks.table(x, y, sample_weight=sample_weight)
    dtype = _checks.working_dtype(data.x)
    l2 = _checks.scalar(l2, dtype, "l2")
    params, info = _centroids(data, l2, transform, bias)
    _invalid.raise_if_invalid(info, data, nonnegative={"l2": l2})
    return params, info


@partial(jax.jit, static_argnums=(2, 3))
def _centroids(data, l2, transform, bias):
    rows, _, valid = _prepare.prepare(data, num_classes=2)
    x = jnp.where(rows.ok[:, None], data.x, 0)
    totals = [jnp.sum(jnp.where(rows.y == c, rows.weight, 0)) for c in (0, 1)]
    m0, m1 = (
        jnp.where(rows.y == c, rows.weight, 0) @ x / jnp.where(total > 0, total, 1)
        for c, total in enumerate(totals)
    )
    small = (totals[0] == 0) | (totals[1] == 0)
    status = jnp.where(small, Status.CLASS_TOO_SMALL, Status.CONVERGED).astype(jnp.int32)
    valid = valid & (l2 >= 0)
    weights = transform((m1 - m0) / (1 + l2))
    offset = -weights @ (m0 + m1) / 2 if bias else jnp.zeros((), weights.dtype)
    nan = jnp.where(valid, 0, jnp.nan).astype(weights.dtype)
    info = Info(
        status=jnp.where(valid, status, Status.INVALID_DATA).astype(jnp.int32),
        steps=jnp.sum(rows.y).astype(jnp.int32),
        objective=totals[1] + nan,
        residual=totals[0] + nan,
    )
    return Hyperplane(weights=weights + nan, bias=offset + nan), info


def noisy(x, y, *, key, sample_weight=None):
    plane, info = centroids(x, y, sample_weight=sample_weight)
    noise = jax.random.normal(key, plane.weights.shape, plane.weights.dtype)
    return plane._replace(weights=plane.weights + noise), info


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = np.arange(N) % K
    return rng.normal(size=(N, D)) + 3 * np.eye(K, D)[y], y


fit = multiclass.one_vs_rest(centroids)


def test_is_one_binary_fit_per_class(data):
    x, y = data
    weight = np.linspace(0, 2, N)
    params, info = fit(x, y, sample_weight=weight, l2=0.5)
    planes, infos = zip(
        *(centroids(x, y == c, sample_weight=weight, l2=0.5) for c in range(K)), strict=True
    )
    np.testing.assert_allclose(params.weights, [p.weights for p in planes], rtol=1e-12)
    np.testing.assert_allclose(params.bias, [p.bias for p in planes], rtol=1e-12)
    assert isinstance(params, Linear) and info.status == Status.CONVERGED
    assert info.steps == max(i.steps for i in infos)
    np.testing.assert_allclose(info.residual, max(i.residual for i in infos))
    np.testing.assert_allclose(info.objective, sum(i.objective for i in infos))


def test_same_function_for_same_fit_and_one_compile():
    assert multiclass.one_vs_rest(centroids) is fit
    traced = chex.assert_max_traces(n=1)(lambda *a, **o: centroids(*a, **o))
    x, y = np.ones((8, 2)), np.arange(8) % 2
    for l2 in (0.0, 0.5, jnp.float64(2.0)):
        multiclass.one_vs_rest(traced)(x, y, l2=l2)


def test_functions_and_switches_are_static_options(data):
    params, _ = fit(*data)
    flipped, _ = fit(*data, transform=flip)
    np.testing.assert_allclose(flipped.weights, -params.weights, rtol=1e-12)
    assert not np.any(fit(*data, bias=False)[0].bias)


def test_two_classes_agree_with_the_binary_fit(data):
    x, y = data
    params, _ = fit(x, y > 0)
    plane, _ = centroids(x, y > 0)
    assert params.weights.shape == (2, D)
    np.testing.assert_array_equal(jaxlin.predict(params, x), jaxlin.predict(plane, x))


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8, np.uint32, np.int64])
def test_labels_of_any_integer_type(data, dtype):
    x, y = data
    params, info = fit(x, (y % 2).astype(dtype), num_classes=2)
    assert info.status == Status.CONVERGED and np.all(np.isfinite(params.weights))


def test_absent_class_is_never_predicted_and_not_felt(data):
    x, y = data
    y = np.where(y == 1, 3, y)  # 1 has no rows, 4 neither
    params, info = fit(x, y, num_classes=5)
    present, of_present = fit(x, np.searchsorted([0, 2, 3], y))
    np.testing.assert_array_equal(params.weights[np.array([1, 4])], 0)
    np.testing.assert_array_equal(params.bias[np.array([1, 4])], -np.inf)
    np.testing.assert_allclose(params.weights[np.array([0, 2, 3])], present.weights, rtol=1e-12)
    chex.assert_trees_all_close(info, of_present, rtol=1e-12)
    assert set(np.unique(jaxlin.predict(params, x))) == {0, 2, 3}
    np.testing.assert_array_equal(multiclass.probabilities(params, x)[:, np.array([1, 4])], 0)


def test_class_without_weight_is_absent(data):
    x, y = data
    params, info = fit(x, y, sample_weight=(y != 2).astype(float), num_classes=K)
    assert params.bias[2] == -np.inf and info.status == Status.CONVERGED


def test_one_class_alone_is_too_small(data):
    x, _ = data
    _, info = fit(x, np.ones(N, int))
    assert info.status == Status.CLASS_TOO_SMALL


def test_key_is_split_per_class(data):
    x, y = data
    key = jax.random.key(1)
    params, _ = multiclass.one_vs_rest(noisy)(x, y, key=key)
    for c, part in enumerate(jax.random.split(key, K)):
        plane, _ = noisy(x, y == c, key=part)
        np.testing.assert_allclose(params.weights[c], plane.weights, rtol=1e-12)


@pytest.mark.parametrize("bad", [-1, K])
def test_label_outside_the_classes(data, bad):
    x, y = data
    wrong = np.where(np.arange(N) == 4, bad, y)
    with pytest.raises(ValueError, match=rf"y: 1 of {N} entries are outside 0..2.*at 4: {bad}"):
        fit(x, wrong, num_classes=K)
    params, info = jax.jit(partial(fit, num_classes=K))(x, wrong)
    assert info.status == Status.INVALID_DATA
    assert np.all(np.isnan(params.weights)) and np.all(np.isnan(params.bias))
    weight = (np.arange(N) != 4).astype(float)
    assert fit(x, wrong, num_classes=K, sample_weight=weight)[1].status == Status.CONVERGED


def test_a_bad_lane_leaves_its_neighbours_alone(data):
    x, y = data
    lanes = np.stack([y, np.where(np.arange(N) == 0, 7, y), (y + 1) % K])
    run = jax.vmap(partial(fit, num_classes=K), in_axes=(None, 0))
    params, info = run(x, lanes)
    clean, _ = run(x, np.stack([y, y, (y + 1) % K]))
    assert info.status.tolist() == [Status.CONVERGED, Status.INVALID_DATA, Status.CONVERGED]
    for lane in (0, 2):
        chex.assert_trees_all_equal(
            *(jax.tree.map(lambda a, lane=lane: a[lane], p) for p in (params, clean))
        )


def test_the_binary_fit_says_what_is_wrong(data):
    x, y = data
    with pytest.raises(ValueError, match="l2: 1 of 1 entries are negative"):
        fit(x, y, l2=-1.0)
    with pytest.raises(ValueError, match=r"x: 1 of 120 entries are not finite.*\(2, 1\): nan"):
        fit(np.where(np.arange(N * D).reshape(N, D) == 9, np.nan, x), y)
    with pytest.raises(ValueError, match="no row has positive weight"):
        fit(x, y, sample_weight=np.zeros(N), num_classes=K)
    params, info = jax.jit(partial(fit, num_classes=4))(x, y, l2=-1.0)
    assert info.status == Status.INVALID_DATA and np.all(np.isnan(params.weights))


def test_mistakes_of_type_and_shape(data):
    x, y = data

    def multiclass_fit(x, y):
        plane, info = centroids(x, y)
        return Linear(weights=plane.weights[None], bias=plane.bias[None]), info

    with pytest.raises(TypeError, match="returns a Hyperplane, got params of type Linear"):
        multiclass.one_vs_rest(multiclass_fit)(x, y)
    with pytest.raises(TypeError, match=r"returns \(Hyperplane, Info\), got Hyperplane"):
        multiclass.one_vs_rest(lambda x, y: centroids(x, y)[0])(x, y)
    with pytest.raises(TypeError, match="expected integer or bool class indices, got dtype float"):
        fit(x, y.astype(float))
    with pytest.raises(ValueError, match=r"y: expected shape \(30,\)"):
        fit(x, y[:-1])
    with pytest.raises(TypeError, match="num_classes: expected a static integer"):
        jax.jit(fit)(x, y)
    with pytest.raises(TypeError, match=r"transform: .* can be hashed, got dict"):
        fit(x, y, transform={"a": identity})


def test_probabilities():
    params = Linear(weights=jnp.zeros((3, 1)), bias=jnp.array([2.0, -1e4, -jnp.inf]))
    np.testing.assert_allclose(multiclass.probabilities(params, jnp.ones(1)), [1, 0, 0])
    low = Linear(weights=jnp.zeros((2, 1)), bias=jnp.array([-1e4, -1e4]))
    np.testing.assert_allclose(multiclass.probabilities(low, jnp.ones((5, 1))), 0.5)
    scores = jnp.array([[0.3, -1.0, 2.0]])
    sigmoids = jax.nn.sigmoid(scores)
    eye = Linear(weights=jnp.eye(3), bias=jnp.zeros(3))
    np.testing.assert_allclose(multiclass.probabilities(eye, scores), sigmoids / sigmoids.sum())
    with pytest.raises(TypeError, match="expected a Linear, got Hyperplane"):
        multiclass.probabilities(Hyperplane(weights=jnp.ones(1), bias=jnp.zeros(())), jnp.ones(1))


# --- one per pair --------------------------------------------------------------------------------

duel = multiclass.one_vs_one(centroids)


def test_is_one_binary_fit_per_pair(data):
    x, y = data
    weight = np.linspace(0, 2, N)
    params, info = duel(x, y, sample_weight=weight, l2=0.5)
    assert isinstance(params, Pairwise) and info.status == Status.CONVERGED
    infos = []
    for at, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
        rows = (y == i) | (y == j)
        plane, one = centroids(x[rows], y[rows] == j, sample_weight=weight[rows], l2=0.5)
        np.testing.assert_allclose(params.weights[at], plane.weights, rtol=1e-12)
        np.testing.assert_allclose(params.bias[at], plane.bias, rtol=1e-12)
        infos.append(one)
    np.testing.assert_allclose(info.residual, max(i.residual for i in infos))
    np.testing.assert_allclose(info.objective, sum(i.objective for i in infos))


@pytest.mark.parametrize(
    "fit",
    [
        perceptron.fit,
        thorough(logistic.fit),
        thorough(svm.fit),
    ],
)
def test_two_classes_through_both_combinators_are_the_binary_fit(fit):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(24, 2))
    y = (x[:, 0] + 0.5 * rng.normal(size=24) > 0).astype(int)
    options = {} if fit is perceptron.fit else {"l2": 0.1}
    plane, alone = fit(x, y, **options)
    pair, info = multiclass.one_vs_one(fit)(x, y, **options)
    np.testing.assert_allclose(pair.weights[0], plane.weights, rtol=1e-9)
    np.testing.assert_allclose(pair.bias[0], plane.bias, rtol=1e-9, atol=1e-12)
    assert info.status == alone.status and info.steps == alone.steps
    rest, _ = multiclass.one_vs_rest(fit)(x, y, **options)
    for params in (pair, rest):
        np.testing.assert_array_equal(jaxlin.predict(params, x), jaxlin.predict(plane, x))


@pytest.fixture(scope="module")
def many_classes():
    """Pairs that are a third of all rows; the first two rows are absent, and no numbers."""
    rng = np.random.default_rng(2)
    y = np.array([0, 1, 2, 3, 5, 6])[rng.permutation(122) % 6]  # of 4 there is none
    x = rng.normal(size=(122, D)) + np.eye(7, D)[y]
    weight = rng.uniform(0.5, 2, size=122)
    x[:2], weight[:2] = np.nan, 0
    return x, y, weight


@pytest.mark.parametrize(
    "fit, options",
    [
        (logistic.fit, {"l2": 0.01}),
        (partial(perceptron.fit, max_epochs=20), {}),
        thorough(svm.fit, {"l2": 0.01}),
        thorough(partial(svm.fit, l2=0.1), {"feature_mask": np.arange(D) < 3}),
        thorough(fisher.fit, {}),
        thorough(logistic.fit_firth, {}),
    ],
)
def test_pairs_see_their_own_rows_alone_where_labels_are_known(many_classes, fit, options):
    x, y, weight = many_classes
    pairs = multiclass.one_vs_one(fit)
    assert multiclass._rows_of_pairs(jnp.asarray(y), 7) is not None
    whole = partial(pairs, num_classes=7, **options)
    known = whole(x, y, sample_weight=weight)
    traced = jax.jit(lambda x, y, w: whole(x, y, sample_weight=w))(x, y, weight)
    chex.assert_trees_all_close(known[0], traced[0], rtol=1e-7, atol=1e-9)
    assert known[1].status == traced[1].status and known[1].steps == traced[1].steps
    # Under a transformation labels that it does not concern are known too.
    lanes = jax.vmap(lambda w: whole(x, y, sample_weight=w))(np.stack([weight, weight]))
    for lane in range(2):
        one = jax.tree.map(lambda a, lane=lane: a[lane], lanes[0])
        chex.assert_trees_all_close(one, known[0], rtol=1e-7, atol=1e-9)
    with pytest.raises(ValueError, match="x: "):
        whole(x, y)


def test_what_is_given_for_each_row_goes_to_pairs_of_all_rows(many_classes):
    x, y, weight = many_classes
    offset = np.random.default_rng(0).normal(size=len(y))
    for fit, options in (
        (logistic.fit, {"offset": offset}),
        (partial(logistic.fit, offset=offset), {}),
    ):
        found, _ = multiclass.one_vs_one(fit)(
            x, y, num_classes=7, sample_weight=weight, l2=0.1, **options
        )
        rows = np.isin(y, [0, 6]) & (weight > 0)
        at = 5  # 0 against 6
        alone, _ = logistic.fit(
            x[rows], y[rows] == 6, sample_weight=weight[rows], offset=offset[rows], l2=0.1
        )
        np.testing.assert_allclose(found.weights[at], alone.weights, rtol=1e-7)
    key = jax.random.key(0)
    pairs = partial(multiclass.one_vs_one(perceptron.fit), num_classes=7, max_epochs=9, key=key)
    known = pairs(x, y, sample_weight=weight)
    traced = jax.jit(lambda x, y, w: pairs(x, y, sample_weight=w))(x, y, weight)
    chex.assert_trees_all_close(known, traced, rtol=1e-12)


@pytest.mark.parametrize("k, counts", [(2, (5, 5)), (3, (4, 4, 4)), (6, (90, 90, 1, 1, 1, 1))])
def test_pairs_of_most_rows_are_not_gathered(k, counts):
    y = np.repeat(np.arange(k), counts)
    assert multiclass._rows_of_pairs(jnp.asarray(y), k) is None


def test_labels_of_one_shape_share_few_programs():
    rng = np.random.default_rng(0)
    rooms = {
        multiclass._rows_of_pairs(jnp.asarray(rng.integers(0, 10, 1_000)), 10).shape
        for _ in range(50)
    }
    assert len(rooms) <= 2


def test_pairs_with_absent_classes(data):
    x, y = data
    y = np.where(y == 1, 3, y)  # 1 has no rows, 4 neither
    params, info = duel(x, y, num_classes=5)
    present, of_present = duel(x, np.searchsorted([0, 2, 3], y))
    chex.assert_trees_all_close(info, of_present, rtol=1e-12)
    first, second = pairwise.pairs(5)
    here = np.isin(first, [0, 2, 3]), np.isin(second, [0, 2, 3])
    np.testing.assert_allclose(params.weights[here[0] & here[1]], present.weights, rtol=1e-12)
    assert not np.any(params.weights[~(here[0] & here[1])])
    assert np.all(params.bias[here[0] & ~here[1]] < -1e100)
    assert np.all(params.bias[~here[0] & here[1]] > 1e100)
    assert np.all(params.bias[~here[0] & ~here[1]] == 0)
    # Near the middle, where votes tie and summed scores decide.
    near = 0.1 * np.random.default_rng(1).normal(size=(500, D))
    expected = np.array([0, 2, 3])[np.asarray(jaxlin.predict(present, near))]
    np.testing.assert_array_equal(jaxlin.predict(params, near), expected)


def test_one_class_alone_has_no_pair(data):
    x, _ = data
    params, info = duel(x, np.ones(N, int), num_classes=3)
    assert info.status == Status.CLASS_TOO_SMALL
    assert set(jaxlin.predict(params, x).tolist()) == {1}


def test_bad_lanes_and_mistakes_of_pairs(data):
    x, y = data
    lanes = np.stack([y, np.where(np.arange(N) == 0, 7, y), (y + 1) % K])
    run = jax.vmap(partial(duel, num_classes=K), in_axes=(None, 0))
    (params, info), (clean, _) = run(x, lanes), run(x, np.stack([y, y, (y + 1) % K]))
    assert info.status.tolist() == [Status.CONVERGED, Status.INVALID_DATA, Status.CONVERGED]
    for lane in (0, 2):
        chex.assert_trees_all_equal(
            *(jax.tree.map(lambda a, lane=lane: a[lane], p) for p in (params, clean))
        )
    assert np.all(np.isnan(params.weights[1]))
    assert np.all(np.isnan(jaxlin.scores(jax.tree.map(lambda a: a[1], params), x)))
    with pytest.raises(ValueError, match="num_classes: expected at least 2, got 1"):
        duel(x, 0 * y, num_classes=1)
    with pytest.raises(ValueError, match="l2: 1 of 1 entries are negative"):
        duel(x, y, l2=-1.0)
    with pytest.raises(TypeError, match=r"returns \(Hyperplane, Info\), got Hyperplane"):
        multiclass.one_vs_one(lambda x, y, sample_weight: centroids(x, y)[0])(x, y)
    with pytest.raises(TypeError, match="a Pairwise votes, and has no probabilities"):
        jaxlin.probabilities(duel(x, y)[0], x)


def test_votes_and_ties():
    rng = np.random.default_rng(0)
    params = Pairwise(rng.normal(size=(10, 2)), rng.normal(size=10))
    x = rng.normal(size=(200, 2))
    margins = x @ params.weights.T + params.bias
    first, second = pairwise.pairs(5)
    votes, total = np.zeros((200, 5)), np.zeros((200, 5))
    for at, (i, j) in enumerate(zip(first, second, strict=True)):
        votes[np.arange(200), np.where(margins[:, at] > 0, j, i)] += 1
        total[:, i] -= margins[:, at]
        total[:, j] += margins[:, at]
    np.testing.assert_array_equal(pairwise.votes(params, x), votes)
    best = [max(range(5), key=lambda c: (v[c], t[c])) for v, t in zip(votes, total, strict=True)]
    np.testing.assert_array_equal(pairwise.predict(params, x), best)
    assert np.any(np.sort(votes, axis=1)[:, -1] == np.sort(votes, axis=1)[:, -2])
    np.testing.assert_array_equal(np.argmax(jaxlin.scores(params, x), axis=1), best)
    # A score of 0 is a vote for the first, and of equals the lower class wins.
    nothing = Pairwise(np.zeros((3, 2)), np.array([0.0, 1.0, 0.0]))
    assert pairwise.votes(nothing, x[0]).tolist() == [1, 1, 1]
    assert pairwise.predict(nothing, x[0]) == 2
    assert pairwise.predict(nothing._replace(bias=np.zeros(3)), x[0]) == 0
    with pytest.raises(ValueError, match=r"k \(k - 1\) / 2 planes for k classes, got 4"):
        pairwise.votes(Pairwise(np.zeros((4, 2)), np.zeros(4)), x)
    with pytest.raises(TypeError, match="params: expected a Pairwise, got Linear"):
        pairwise.predict(Linear(np.zeros((3, 2)), np.zeros(3)), x)

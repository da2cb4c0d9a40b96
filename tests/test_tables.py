"""A table of `sparse` is fitted as the dense x that it stands for, and its zeros are not held."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import jaxlin
from jaxlin import (
    distributed,
    features,
    least_squares,
    linear,
    logistic,
    losses,
    metrics,
    multiclass,
    naive_bayes,
    resample,
    softmax,
    sparse,
)
from jaxlin._base import _checks
from jaxlin.types import Hyperplane, Status
from tests import public

# Of few columns, whose Hessian is a matrix; and of many, where products with it do.
WIDTHS = {"few": (300, 12, 5), "many": (400, 300, 6)}


@pytest.fixture(autouse=True)
def never_dense(monkeypatch):
    """However small, a table stays one where it may."""
    monkeypatch.setattr(_checks, "DENSE_ENTRIES", {False: 2**24, True: 0})


def a_table(seed, n, d, m):
    """Each index once in a row; places are left over at the end of some."""
    rng = np.random.default_rng(seed)
    indices = np.stack([rng.permutation(d)[:m] for _ in range(n)]).astype(np.int32)
    values = rng.standard_normal((n, m)) * np.exp(rng.standard_normal(d))[indices]
    values[rng.random((n, m)) < 0.2] = 0
    return sparse.Padded(jnp.asarray(indices), jnp.asarray(values), d)


def labels_of(x, seed, k=2):
    rng = np.random.default_rng(seed)
    dense = np.asarray(x.to_dense())
    scores = dense @ rng.standard_normal((dense.shape[1], k)) / dense.std(0).mean()
    return jnp.asarray(np.argmax(scores + rng.gumbel(size=scores.shape), axis=1))


@pytest.fixture(params=WIDTHS)
def problem(request):
    x = a_table(0, *WIDTHS[request.param])
    return x, x.to_dense(), labels_of(x, 1)


def agree(found, wanted, tol=1e-7):
    (params, info), (expected, told) = found, wanted
    assert info.status.tolist() == told.status.tolist(), (jaxlin.describe(info), told)
    for a, b in zip(jax.tree.leaves(params), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=tol, atol=tol)
    np.testing.assert_allclose(info.objective, told.objective, rtol=tol)


def options_of(n, d):
    rng = np.random.default_rng(2)
    weight = rng.integers(0, 3, n).astype(float)
    return {
        "plain": {"l2": 0.01},
        "each": {"l2": np.exp(rng.standard_normal(d)) / 50},
        "weights": {"l2": 0.01, "sample_weight": weight},
        "mask": {"l2": 0.01, "feature_mask": jnp.asarray(rng.random(d) < 0.7)},
        "offset": {"l2": 0.01, "offset": rng.standard_normal(n)},
        "no bias": {"l2": 0.01, "bias": False},
        "lbfgs": {"l2": 0.01, "solver": jaxlin.solvers.lbfgs},
        "start": {"l2": 0.01, "init": Hyperplane(rng.standard_normal(d), jnp.asarray(0.3))},
    }


@pytest.mark.parametrize(
    "name", ["plain", "each", "weights", "mask", "offset", "no bias", "lbfgs", "start"]
)
def test_logistic_is_that_of_the_dense_x(problem, name):
    x, dense, y = problem
    options = options_of(*x.shape)[name]
    agree(logistic.fit(x, y, **options), logistic.fit(dense, y, **options))


def test_soft_labels(problem):
    x, dense, y = problem
    soft = 0.1 + 0.8 * y.astype(float)
    agree(logistic.fit(x, soft, l2=0.01), logistic.fit(dense, soft, l2=0.01))


def test_softmax_is_that_of_the_dense_x(problem):
    x, dense, _ = problem
    y = labels_of(x, 3, k=4)
    agree(softmax.fit(x, y, l2=0.02), softmax.fit(dense, y, l2=0.02))


def test_without_a_penalty():
    x = a_table(4, 400, 8, 5)
    y = labels_of(x, 5)
    agree(logistic.fit(x, y), logistic.fit(x.to_dense(), y), tol=1e-6)
    apart = (x.to_dense() @ jnp.arange(8.0) > 0).astype(int)
    for table in (x, x.to_dense()):
        assert logistic.fit(table, apart)[1].status == Status.SEPARABLE


@pytest.mark.parametrize("width", WIDTHS)
def test_a_column_of_one_value(width):
    """Its weight is 0 under a penalty, with a derivative; without one it is one column too many."""
    n, d, m = WIDTHS[width]
    x = a_table(17, n, d, m)
    last = sparse.OneHot(jnp.zeros((n, 1), int), (1,))
    table = sparse.Columns((jnp.full((n, 1), 3.0), x, last))
    dense, y = table.to_dense(), labels_of(x, 18)
    agree(logistic.fit(table, y, l2=0.01), logistic.fit(dense, y, l2=0.01))
    off = jnp.asarray(np.random.default_rng(19).standard_normal(n))

    def of_first(first, held):
        x = sparse.Columns((first[:, None], *table.parts[1:]))
        if not held:
            x = jnp.concatenate([first[:, None], dense[:, 1:]], axis=1)
        params, _ = logistic.fit(x, y, l2=0.01)
        return params.weights[0] + jnp.sum(params.weights[1:] ** 2)

    first = jnp.full(n, 3.0)
    found, wanted = (jax.grad(of_first)(first, held) @ off for held in (True, False))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    if width == "few":
        for a in (table, dense):
            assert logistic.fit(a, y)[1].status == Status.RANK_DEFICIENT


def test_columns_far_from_0():
    """Of the years of a few decades beside categories, which are not centred."""
    rng = np.random.default_rng(20)
    year = jnp.asarray(rng.integers(1990, 2020, (500, 1)).astype(float))
    x = sparse.Columns((year, sparse.OneHot(jnp.asarray(rng.integers(0, 300, (500, 1))), (300,))))
    y = jnp.asarray(rng.integers(0, 2, 500))
    agree(logistic.fit(x, y, l2=0.01), logistic.fit(x.to_dense(), y, l2=0.01))


def test_in_single_precision():
    x = a_table(0, 400, 300, 6)
    x = sparse.Padded(x.indices, x.values.astype(jnp.float32), 300)
    y = labels_of(x, 1)
    agree(logistic.fit(x, y, l2=0.01), logistic.fit(x.to_dense(), y, l2=0.01), tol=2e-3)


@pytest.mark.parametrize("half", [jnp.float16, jnp.bfloat16])
def test_half_precision_is_widened_block_by_block(half):
    x = a_table(0, 400, 300, 6)
    x = sparse.Padded(x.indices, x.values.astype(half), 300)
    y = labels_of(x, 1)
    params, _ = logistic.fit(x, y, l2=0.01)
    assert params.weights.dtype == jnp.float32
    wide = sparse.Padded(x.indices, x.values.astype(jnp.float32), 300)
    np.testing.assert_allclose(params.weights, logistic.fit(wide, y, l2=0.01)[0].weights, atol=1e-5)


def test_categories_and_columns():
    rng = np.random.default_rng(6)
    codes = jnp.asarray(rng.integers(-1, 150, (500, 3)))
    one_hot = sparse.OneHot(codes, (150, 100, 120))
    np.testing.assert_array_equal(
        one_hot.to_dense(), features.one_hot(codes, sizes=(150, 100, 120))
    )
    numbers = jnp.asarray(rng.standard_normal((500, 2)))
    words = a_table(7, 500, 40, 4)
    x = sparse.Columns((numbers, one_hot, words))
    whole = jnp.concatenate([numbers, one_hot.to_dense(), words.to_dense()], axis=1)
    np.testing.assert_array_equal(x.to_dense(), whole)
    assert (x.shape, len(x), x.size) == (whole.shape, 500, whole.size)
    y = jnp.asarray(rng.integers(0, 2, 500))
    for table in (one_hot, x):
        agree(logistic.fit(table, y, l2=0.01), logistic.fit(table.to_dense(), y, l2=0.01))


def test_lanes_are_fits(problem):
    x, dense, y = problem
    l2s = jnp.array([0.003, 0.03, 0.3])
    weights = jnp.asarray(np.random.default_rng(8).integers(0, 3, (2, len(x))).astype(float))

    def fit(x, l2, weight):
        return logistic.fit(x, y, l2=l2, sample_weight=weight)

    by_l2 = jax.vmap(fit, in_axes=(None, 0, None))
    both = jax.jit(jax.vmap(by_l2, in_axes=(None, None, 0)))
    params, info = both(x, l2s, weights)
    assert params.weights.shape == (2, 3, x.shape[1])
    for i, weight in enumerate(weights):
        for j, l2 in enumerate(l2s):
            own = jax.tree.map(lambda a, i=i, j=j: a[i, j], (params, info))
            agree(own, fit(dense, l2, weight))


def test_lanes_of_their_own_x():
    tables = [a_table(seed, 300, 280, 5) for seed in range(3)]
    ys = jnp.stack([labels_of(x, 9) for x in tables])
    x = jax.tree.map(lambda *a: jnp.stack(a), *tables)
    params, info = jax.vmap(lambda x, y: logistic.fit(x, y, l2=0.02))(x, ys)
    for i, table in enumerate(tables):
        own = jax.tree.map(lambda a, i=i: a[i], (params, info))
        agree(own, logistic.fit(table.to_dense(), ys[i], l2=0.02))


def test_one_lane_does_no_harm_to_another(problem):
    x, _, y = problem
    l2s = jnp.array([0.01, -1.0, 0.1])
    params, info = jax.vmap(lambda l2: logistic.fit(x, y, l2=l2))(l2s)
    assert info.status.tolist() == [0, Status.INVALID_DATA, 0]
    good = jax.vmap(lambda l2: logistic.fit(x, y, l2=l2))(l2s.at[1].set(0.05))[0]
    np.testing.assert_array_equal(params.weights[::2], good.weights[::2])


def held_out(x, y, l2, weight, offset):
    params, _ = logistic.fit(x, y, l2=l2, sample_weight=weight, offset=offset)
    return jnp.sum(jnp.sin(params.weights)) + params.bias**2


def test_derivatives_are_those_of_the_dense_x(problem):
    x, dense, y = problem
    rng = np.random.default_rng(10)
    weight, offset = jnp.asarray(1 + rng.random(len(x))), jnp.asarray(rng.standard_normal(len(x)))
    rest = y.astype(float), jnp.asarray(0.02), weight, offset
    arguments = tuple(range(1, 5))
    found = jax.grad(held_out, arguments)(x, *rest)
    wanted = jax.grad(held_out, arguments)(dense, *rest)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)

    def of_values(values):
        return held_out(sparse.Padded(x.indices, values, x.num_features), *rest)

    of_x = jax.grad(held_out)(dense, *rest)
    own = jnp.take_along_axis(of_x, x.indices, axis=1)
    np.testing.assert_allclose(jax.grad(of_values)(x.values), own, rtol=1e-5, atol=1e-8)


def test_an_absent_row_may_hold_anything(problem):
    x, _, y = problem
    weight = jnp.ones(len(x)).at[3].set(0).at[5].set(0)
    values, indices = x.values.at[3].set(jnp.nan), x.indices.at[5, 0].set(10**6)
    spoiled = sparse.Padded(indices, values, x.num_features)
    agree(
        logistic.fit(spoiled, y, l2=0.01, sample_weight=weight),
        logistic.fit(x, y, l2=0.01, sample_weight=weight),
    )


def test_places_left_over_have_any_index_and_integers_may_be_narrow():
    values = np.array([[1.0, 0], [2, 3], [4, 5], [6, 7]])
    x = sparse.Padded(np.uint8([[3, 255], [1, 0], [4, 2], [0, 1]]), values, 300)
    assert x.to_dense().shape == (4, 300)
    y = jnp.array([0, 1, 0, 1])
    ends = sparse.Padded(np.array([[3, -1], [1, 0], [4, 2], [0, 1]]), values, 300)
    agree(*(logistic.fit(a, y, l2=0.1) for a in (x, ends)))
    codes = np.uint8([[3], [1], [255], [0]])
    assert sparse.OneHot(codes, (300,)).to_dense().sum() == 4
    large = sparse.OneHot(np.array([[2**32], [2], [0], [1]]), (3,))
    assert large.to_dense().sum() == 3


def test_an_index_out_of_range_is_not_masked(problem):
    x, _, y = problem
    wrong = sparse.Padded(x.indices.at[4, 2].set(10**6), x.values.at[4, 2].set(1.0), x.num_features)
    mask = jnp.arange(x.num_features) > 0
    _, info = jax.jit(lambda x: logistic.fit(x, y, l2=0.1, feature_mask=mask))(wrong)
    assert info.status == Status.INVALID_DATA


def test_a_masked_column_may_hold_anything(problem):
    x, _, y = problem
    mask = jnp.asarray(np.random.default_rng(21).random(x.shape[1]) < 0.7)
    values = jnp.where(mask[x.indices], x.values, jnp.nan)
    spoiled = sparse.Padded(x.indices, values, x.num_features)
    agree(*(logistic.fit(a, y, l2=0.01, feature_mask=mask) for a in (spoiled, x)))


@pytest.mark.parametrize("what", ["value", "index"])
def test_what_is_no_data_is_told(problem, what):
    x, _, y = problem
    if what == "value":
        x = sparse.Padded(x.indices, x.values.at[3, 1].set(jnp.inf), x.num_features)
        said = r"x\.values: 1 of .* the first at \(3, 1\)"
    else:
        indices, values = x.indices.at[4, 2].set(x.num_features), x.values.at[4, 2].set(1.0)
        x = sparse.Padded(indices, values, x.num_features)
        said = r"x\.indices: 1 of .* outside 0\.\..* the first at \(4, 2\)"
    with pytest.raises(ValueError, match=said):
        logistic.fit(x, y, l2=0.01)
    params, info = jax.jit(lambda x: logistic.fit(x, y, l2=0.01))(x)
    assert info.status == Status.INVALID_DATA
    assert jnp.all(jnp.isnan(params.weights))


def test_one_class(problem):
    x, dense, y = problem
    for table in (x, dense):
        assert logistic.fit(table, 0 * y, l2=0.01)[1].status == Status.CLASS_TOO_SMALL


def test_verbs_and_objective(problem):
    x, dense, y = problem
    params, info = logistic.fit(x, y, l2=0.01)
    for verb in (linear.scores, linear.predict, linear.probabilities, linear.log_probabilities):
        np.testing.assert_allclose(verb(params, x), verb(params, dense), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(jaxlin.scores(params, x), linear.scores(params, dense), rtol=1e-9)
    value = losses.objective(losses.logistic, params, x, y, l2=0.01)
    np.testing.assert_allclose(value, info.objective, rtol=1e-10)
    several, told = softmax.fit(x, labels_of(x, 3, k=3), l2=0.02)
    np.testing.assert_allclose(linear.scores(several, x), linear.scores(several, dense), atol=1e-10)
    y = labels_of(x, 3, k=3)
    value = losses.objective(losses.softmax, several, x, y, l2=0.02)
    np.testing.assert_allclose(value, told.objective, rtol=1e-10)


def test_resampling_and_classes(problem):
    x, dense, y = problem
    folds = resample.stratified_kfold(jax.random.key(0), y, folds=4)
    found, wanted = (
        resample.cross_validate(logistic.fit, metrics.log_loss, a, y, folds, l2=0.01)[0]
        for a in (x, dense)
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-7)
    l2s = jnp.array([1e-3, 1e-2, 1e-1])
    found, wanted = (
        resample.select(logistic.fit, metrics.accuracy, a, y, folds, l2=l2s) for a in (x, dense)
    )
    assert found[2] == wanted[2]
    agree(found[:2], wanted[:2])
    found, wanted = (
        resample.held_out_scores(logistic.fit, a, y, folds, l2=0.01)[0] for a in (x, dense)
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8)
    several = labels_of(x, 3, k=3)
    for combine in (multiclass.one_vs_rest, multiclass.one_vs_one):
        fit = combine(logistic.fit)
        agree(fit(x, several, l2=0.02), fit(dense, several, l2=0.02))


@pytest.mark.parametrize("name", ["bernoulli", "multinomial", "complement", "categorical"])
def test_naive_bayes_is_that_of_the_dense_x(problem, name):
    x, _, y = problem
    values = (x.values > 0).astype(float) * (3.0 if name == "multinomial" else 1.0)
    x = sparse.Padded(x.indices, values, x.num_features)
    fit, weight = getattr(naive_bayes, f"fit_{name}"), jnp.arange(len(x), dtype=float) % 3
    options = {"groups": np.arange(x.shape[1]) // 4} if name == "categorical" else {}
    options["sample_weight"] = weight
    agree(fit(x, y, **options), fit(x.to_dense(), y, **options), tol=1e-12)
    few = sparse.Padded(x.indices, x.values.at[2, 0].set(-1), x.num_features)
    with pytest.raises(ValueError, match=r"x\.values: 1 of"):
        fit(few, y, **options | {"sample_weight": None})


@pytest.mark.parametrize("bias", [True, False])
def test_least_squares_is_that_of_the_dense_x(problem, bias):
    x, dense, y = problem
    rng = np.random.default_rng(12)
    numbers, weight = jnp.asarray(rng.standard_normal(len(x))), jnp.asarray(rng.random(len(x)))
    options = {"l2": 0.05, "bias": bias, "sample_weight": weight}
    found, wanted = (least_squares.regress(a, 30 * numbers, **options) for a in (x, dense))
    agree(found, wanted, tol=1e-6)
    far = (1e4 * bias + numbers).astype(jnp.float32)
    narrow = sparse.Padded(x.indices, x.values.astype(jnp.float32), x.num_features)
    agree(
        *(least_squares.regress(a, far, l2=0.05, bias=bias) for a in (narrow, narrow.to_dense())),
        tol=2e-3,
    )
    y = labels_of(x, 3, k=3)
    found, wanted = (least_squares.fit(a, y, **options) for a in (x, dense))
    agree(found, wanted, tol=1e-6)
    # An absent class.
    found, wanted = (least_squares.fit(a, y, num_classes=4, l2=0.05) for a in (x, dense))
    agree(found, wanted, tol=1e-6)


def test_rows_over_devices(problem):
    x, _, y = problem
    mesh = jax.make_mesh((jax.device_count(),), ("rows",))
    x, y = x[:-3], y[:-3]
    for fit, labels in ((logistic.fit, y), (least_squares.regress, 10.0 + y.astype(float))):
        agree(distributed.data_parallel(fit, mesh)(x, labels, l2=0.01), fit(x, labels, l2=0.01))


def test_rows_of_a_table():
    x = a_table(0, 30, 12, 4)
    dense = x.to_dense()
    for rows in (slice(3, 9), jnp.array([4, 2]), np.arange(30) % 2 == 0):
        np.testing.assert_array_equal(x[rows].to_dense(), dense[rows])
    with pytest.raises(TypeError, match="a slice or an array"):
        x[0]
    with pytest.raises(TypeError, match="a slice or an array"):
        x[:, 0]


def test_from_scipy_keeps_every_entry():
    rng = np.random.default_rng(11)
    places = rng.integers(0, 50, 400), rng.integers(0, 70, 400)  # some twice
    matrix = scipy.sparse.coo_matrix((rng.standard_normal(400), places), shape=(50, 70))
    for form in ("coo", "csr", "csc", "lil", "dok"):
        x = sparse.from_scipy(matrix.asformat(form), dtype=np.float32)
        np.testing.assert_allclose(x.to_dense(), matrix.toarray(), rtol=1e-6)
    empty = sparse.from_scipy(scipy.sparse.csr_matrix((4, 3)))
    assert empty.shape == (4, 3)
    assert not empty.to_dense().any()
    with pytest.raises(TypeError, match="scipy"):
        sparse.from_scipy(np.eye(3))


def test_categories_of_a_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"state": ["NY", None, "CA", "NY"], "level": [2, 1, 2, np.nan]})
    x, known = sparse.from_categories(frame)
    assert x.codes.tolist() == [[1, 1], [-1, 0], [0, 1], [1, -1]]
    assert [list(values) for values in known] == [["CA", "NY"], [1, 2]]
    new = pandas.DataFrame({"state": ["TX", "CA"], "level": [1, 3]})
    again, _ = sparse.from_categories(new, categories=known)
    assert again.codes.tolist() == [[-1, 0], [0, -1]]
    with pytest.raises(ValueError, match="expected 1"):
        sparse.from_categories(frame[["state"]], categories=known)
    with pytest.raises(ValueError, match="one length"):
        sparse.from_categories([["a"], ["a", "b"]])


def test_a_large_table_is_refused_in_one_line(monkeypatch):
    monkeypatch.setattr(_checks, "DENSE_ENTRIES", {False: 10, True: 0})
    x = a_table(0, 30, 12, 4)
    with pytest.raises(TypeError, match=r"takes a dense x, and one of 30 x 12 is large"):
        jaxlin.lda.fit(x, labels_of(x, 1), num_classes=2)


FEW = {"logistic.fit", "svm.fit", "lda.fit"}


@pytest.mark.parametrize("name", public.seldom(public.FITS, set(public.FITS) - FEW))
def test_small_tables_are_fitted_by_all(monkeypatch, name):
    monkeypatch.undo()
    fit = public.FITS[name]
    dense, *rest = fit.draw(0)
    places = np.broadcast_to(np.arange(dense.shape[1]), dense.shape)
    table = sparse.Padded(places, dense, dense.shape[1])
    found, wanted = fit(table, *rest), fit(jnp.asarray(dense), *rest)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_array_equal(a, b)


# What takes a table of any size.
NATIVE = ["logistic.fit", "softmax.fit", "least_squares.fit", "least_squares.regress"]
NATIVE += list(public.COUNTS)


@pytest.mark.parametrize("name", NATIVE)
def test_weights_count_and_lanes_keep_apart(name):
    """Twice the weight is the row twice, a row without weight is none, and jit changes nothing."""
    rng = np.random.default_rng(14)
    x = a_table(15, 40, 30, 4)
    if name in public.COUNTS:
        x = sparse.Padded(x.indices, (x.values > 0).astype(float), 30)
    y, weight = labels_of(x, 16), np.maximum(rng.integers(-1, 3, 40), 0).astype(float)
    order = np.repeat(np.arange(40), weight.astype(int))
    options = {"l2": 0.1} if name not in public.COUNTS else {}
    module, verb = name.split(".")
    fit = getattr(getattr(jaxlin, module), verb)
    if "num_classes" in inspect.signature(fit).parameters:
        options["num_classes"] = 2
    if name.endswith("categorical"):
        options |= {"groups": np.arange(30) // 3, "num_groups": 10}
    fit = functools.partial(fit, **options)
    y = y.astype(float) if name.endswith("regress") else y
    repeated = fit(x[order], y[order])
    agree(fit(x, y, sample_weight=jnp.asarray(weight)), repeated, tol=1e-7)
    weights = jnp.stack([jnp.asarray(weight), jnp.full(40, jnp.nan), jnp.ones(40)])
    lanes = jax.jit(jax.vmap(lambda weight: fit(x, y, sample_weight=weight)))(weights)
    assert lanes[1].status.tolist() == [0, Status.INVALID_DATA, 0]
    agree(jax.tree.map(lambda a: a[0], lanes), repeated, tol=1e-7)


def test_nothing_as_large_as_the_dense_x_is_held():
    """Of 2,000 x 50,000, 400 MB dense, a program holds less than 40."""
    x = a_table(0, 2000, 500, 8)
    x = sparse.Padded(x.indices * 100, x.values.astype(jnp.float32), 50_000)
    y = jnp.arange(2000) % 2

    def fit(x, l2):
        return logistic.fit(x, y, l2=l2)

    program = jax.jit(fit).lower(x, jnp.float32(0.1)).compile()
    assert program.memory_analysis().temp_size_in_bytes < 40e6
    slope = (
        jax.jit(
            jax.grad(
                lambda x: losses.objective(losses.logistic, fit(x, 0.1)[0], x, y), allow_int=True
            )
        )
        .lower(x)
        .compile()
    )
    assert slope.memory_analysis().temp_size_in_bytes < 80e6

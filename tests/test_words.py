"""What is said of arguments of another kind: one line that names the argument and the way out."""

import datetime
import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlin import (
    distributed,
    features,
    inference,
    labels,
    lda,
    linear,
    logistic,
    losses,
    metrics,
    multiclass,
    pairwise,
    probes,
    resample,
    softmax,
    types,
)
from tests import public
from tests.public import FITS, FUNCTIONS, D, N

pandas = pytest.importorskip("pandas")
scipy_sparse = pytest.importorskip("scipy.sparse")

TEXT = np.array(["cat", "dog", "eel"])
OF_TEXT = {
    "numpy": lambda values: values,
    "objects": lambda values: values.astype(object),
    "list": lambda values: values.tolist(),
    "pandas": lambda values: pandas.Series(values),
    "pandas objects": lambda values: pandas.Series(values, dtype=object),
    "categories": lambda values: pandas.Series(values, dtype="category"),
    "a Categorical": lambda values: pandas.Categorical(values),
}


def calls(of_kind):
    """`(name, call, arguments, place)` where the example of a function has such an argument."""
    for name in public.CALLABLE:
        for case in public.cases_of(name):
            arguments = case.draw(np.random.default_rng(0))
            places = [i for i, a in enumerate(arguments) if of_kind(FUNCTIONS[name], a)]
            if places:
                yield pytest.param(case.call, arguments, places[0], id=name)
    for name, fit in FITS.items():
        x, y, weight, mask = fit.draw(0)
        arguments = (x, y, weight, mask)
        place = 0 if of_kind(FUNCTIONS["logistic.fit"], x) else 1
        yield pytest.param(fit, arguments, place, id=name)


def is_labels(function, a):
    whole = isinstance(a, np.ndarray) and a.dtype.kind == "i" and a.shape == (N,)
    return whole and {"y", "groups"} & set(inspect.signature(function).parameters)


def is_x(function, a):
    table = isinstance(a, np.ndarray) and a.shape == (N, D)
    return table and "x" in inspect.signature(function).parameters


def instead(arguments, place, value):
    return [value if i == place else a for i, a in enumerate(arguments)]


@pytest.mark.parametrize("call, arguments, place", list(calls(is_labels)))
def test_labels_of_text_are_to_be_encoded(call, arguments, place):
    text = TEXT[np.asarray(arguments[place]) % 3]
    for kind, made in OF_TEXT.items():
        with pytest.raises(TypeError, match=r"^(y|groups): .*jaxlin\.labels\.encode") as said:
            call(*instead(arguments, place, made(text)))
        assert "astype" not in str(said.value), kind


@pytest.mark.parametrize("call, arguments, place", list(calls(is_x)))
def test_what_is_not_dense_is_to_be_made_so(call, arguments, place):
    for made in (scipy_sparse.csr_matrix, scipy_sparse.coo_array):
        with pytest.raises(
            TypeError, match=r"^x: .*got a c.._.*; jaxlin\.sparse\.from_scipy\(x\) stands"
        ):
            call(*instead(arguments, place, made(arguments[place])))


@pytest.mark.parametrize("call, arguments, place", list(calls(is_x)))
def test_a_column_of_text_is_named(call, arguments, place):
    frame = pandas.DataFrame(arguments[place], columns=["a", "b", "c"])
    frame.insert(1, "animal", TEXT[np.arange(N) % 3])
    words = r"^x: .*column 'animal' holds text, as cat; pandas\.get_dummies\(frame, dtype=float\)"
    with pytest.raises(TypeError, match=words):
        call(*instead(arguments, place, frame))


def test_what_stands_in_a_column_is_told():
    x, y = np.arange(8.0).reshape(4, 2), np.array([0, 1, 0, 1])
    fit = functools.partial(logistic.fit, y=y, l2=0.1)
    frame = pandas.DataFrame(x, columns=["a", "b"])
    day = pandas.Timestamp("2020-05-17")
    for bad, words in (
        (frame.assign(when=day), "column 'when' holds dates, as 2020-05-17"),
        (frame.assign(when=day)[["when"]], "column 'when' holds dates, as 2020-05-17"),
        (frame.assign(old=datetime.timedelta(3)), "column 'old' holds dates, as 3 days"),
        (frame.assign(kind=pandas.Categorical(list("uvuv"))), "column 'kind' holds text, as u"),
        (np.column_stack([x.astype(object), list("uvuv")]), "column 2 holds text, as u"),
        (np.full((4, 1), np.datetime64("2020-05-17")), "column 0 holds dates, as 2020-05-17"),
        (frame.assign(odd=[None, 1, {}, 2]), r"column 'odd' holds dict, as \{\}"),
        (frame.assign(odd=[True, None, True, 2]), r"mixed kinds become numbers by \.astype"),
        (frame.astype("Float64"), r"mixed kinds become numbers by \.astype"),
    ):
        with pytest.raises(TypeError, match=words):
            fit(bad)
    nullable, _ = fit(frame.astype("Float64").astype(float))
    np.testing.assert_array_equal(nullable.weights, fit(x)[0].weights)


def test_the_ways_out_lead_out():
    """What the messages say to do gives a fit."""
    frame = pandas.DataFrame({"a": np.arange(6.0), "animal": TEXT[[0, 1, 2, 0, 1, 2]]})
    y, _ = labels.encode(pandas.Series(["no", "yes", "no", "yes", "yes", "no"]))
    dummies = pandas.get_dummies(frame, dtype=float)
    assert dummies.columns.tolist() == ["a", "animal_cat", "animal_dog", "animal_eel"]
    whole, _ = logistic.fit(dummies, y, l2=0.1)
    sparse = scipy_sparse.csr_array(dummies.to_numpy())
    dense, _ = logistic.fit(sparse.toarray(), y, l2=0.1)
    np.testing.assert_array_equal(whole.weights, dense.weights)
    with pytest.raises(TypeError, match=r"^x: .*column 'animal' holds text"):
        features.standardizer(frame)


# --- keys ----------------------------------------------------------------------------------------

KEYED = [
    name
    for name, f in FUNCTIONS.items()
    if next(iter(inspect.signature(f).parameters), "") == "key"
]
NO_KEY = r"^key: expected a PRNG key, as of jax\.random\.key\(0\), got "


@pytest.mark.parametrize("name", KEYED)
def test_a_key_that_was_forgotten_is_asked_for(name):
    f = FUNCTIONS[name]
    behind = [p for p in inspect.signature(f).parameters.values() if p.default is p.empty][1:]
    keywords = {p.name: None for p in behind if p.kind is p.KEYWORD_ONLY}
    arguments = [np.arange(N) % 2 for p in behind if p.kind is p.POSITIONAL_OR_KEYWORD]
    for given in (arguments, [0, *arguments], [np.random.default_rng(0), *arguments]):
        with pytest.raises(TypeError, match=NO_KEY):
            f(*given, **keywords)


@pytest.mark.parametrize(
    "name", [n for n, fit in FITS.items() if "key" in inspect.signature(fit.call).parameters]
)
def test_an_integer_is_no_key_of_a_fit(name):
    x, y, weight, mask = FITS[name].draw(0)
    with pytest.raises(TypeError, match=NO_KEY + "3$"):
        FITS[name](x, y, weight, mask, key=3)


def test_keys_of_either_kind_are_taken():
    new, old = jax.random.key(7), jax.random.PRNGKey(7)
    want = resample.bootstrap(new, 5, draws=2)
    for key in (old, np.asarray(old)):
        np.testing.assert_array_equal(resample.bootstrap(key, 5, draws=2), want)
    lanes = jax.vmap(lambda key: resample.bootstrap(key, 5, draws=2))(jax.random.split(new, 3))
    assert lanes.shape == (3, 2, 5)


# --- the names and functions of others -----------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if public.is_fit(name)])
def test_a_fit_says_what_it_has_instead(name):
    f = FUNCTIONS[name]
    known = inspect.signature(f).parameters
    x, y, *_ = FITS[name].draw(0)
    for theirs, ours, words in (
        ("C", "l2", r"l2=losses\.l2_from_C\(C, number_of_rows\)"),
        ("fit_intercept", "bias", "bias=False"),
        ("max_iter", "max_steps", "the cap is max_steps"),
        ("class_weight", "sample_weight", r"resample\.on_balanced\(fit\)"),
        ("random_state", "key", r"jax\.random\.key\(0\)"),
        ("alpha_1", None, ", feature_mask, "),
    ):
        words = words if ours in (*known, None) else ", feature_mask, "
        with pytest.raises(TypeError, match=rf"^{name}\(\) got an .*'{theirs}'; .*{words}"):
            f(x, y, **{theirs: 1.0})


def test_a_penalty_of_others_is_told_through_combinators():
    x, y, *_ = FITS["logistic.fit"].draw(0)
    folds = resample.leave_one_out(N)
    for call in (
        lambda: resample.cross_validate(logistic.fit, metrics.accuracy, x, y, folds, C=1.0),
        lambda: resample.on_standardized(logistic.fit)(x, y, C=1.0),
        lambda: multiclass.one_vs_rest(logistic.fit)(x, y, C=1.0),
    ):
        with pytest.raises(TypeError, match=r"losses\.l2_from_C"):
            call()
    ours, _ = logistic.fit(x, y, l2=losses.l2_from_C(0.5, N))
    linear_model = pytest.importorskip("sklearn.linear_model")
    theirs = linear_model.LogisticRegression(C=0.5, tol=1e-10).fit(x, y)
    np.testing.assert_allclose(ours.weights, theirs.coef_[0], rtol=1e-5)


X, Y, *_ = FITS["logistic.fit"].draw(0)
WEIGHTS = resample.kfold(jax.random.key(0), N, folds=3)
OF_FOLDS = {
    "cross_validate": resample.cross_validate,
    "select": functools.partial(resample.select, l2=[0.1, 1.0]),
    "probes.select": functools.partial(probes.select, l2=[0.1, 1.0]),
    "permutation_test": functools.partial(resample.permutation_test, jax.random.key(0), draws=3),
}


@pytest.mark.parametrize("name", OF_FOLDS)
def test_metrics_and_fits_of_others_are_refused(name):
    theirs = pytest.importorskip("sklearn.metrics")
    run = OF_FOLDS[name]
    scorer = theirs.get_scorer("accuracy")
    for metric in ("accuracy", metrics, theirs.accuracy_score, theirs.roc_auc_score, scorer):
        words = r"^metric: expected a function of \(scores, y, \*, sample_weight\) in jax\.numpy"
        with pytest.raises(TypeError, match=words):
            run(logistic.fit, metric, X, Y, WEIGHTS)
    linear_model = pytest.importorskip("sklearn.linear_model")
    for fit in ("logistic", logistic, linear_model.LogisticRegression(), type(scorer)):
        with pytest.raises(TypeError, match=r"^fit: expected a function fit\(x, y, \*, \.\.\.\)"):
            run(fit, metrics.accuracy, X, Y, WEIGHTS)


@pytest.mark.parametrize("make", ["one_vs_rest", "one_vs_one", "on_standardized", "on_balanced"])
def test_combinators_refuse_what_is_no_fit(make):
    make = getattr(multiclass, make, None) or getattr(resample, make)
    for fit in (logistic, "logistic"):
        with pytest.raises(TypeError, match=r"^fit: expected a function fit\(x, y"):
            make(fit)


@pytest.mark.parametrize("name", [*OF_FOLDS, "refit"])
def test_splits_of_others_are_refused(name):
    selection = pytest.importorskip("sklearn.model_selection")
    splitter = selection.StratifiedKFold(3)
    splits = list(splitter.split(X, Y))
    run = OF_FOLDS.get(name, lambda fit, _, *data: resample.refit(fit, *data))
    for weights in (splits, tuple(splits), splits[:1] * 2, splitter, splitter.split(X, Y), 3):
        with pytest.raises(TypeError, match=r"^weights: .*resample\.kfold.*np\.isin\("):
            run(logistic.fit, metrics.accuracy, X, Y, weights)


def test_splits_of_others_become_weights():
    """What the message says to do, on folds of unequal sizes."""
    selection = pytest.importorskip("sklearn.model_selection")
    n, splits = N, list(selection.KFold(5).split(X))
    weights = [np.isin(np.arange(n), train) for train, test in splits]
    values, _ = resample.cross_validate(lda.fit, metrics.accuracy, X, Y, weights)
    for value, (train, test) in zip(values, splits, strict=True):
        params, _ = lda.fit(X[train], Y[train])
        want = np.mean(np.argmax(linear.scores(params, X[test]), axis=1) == Y[test])
        np.testing.assert_allclose(value, want)


# --- what is traced ------------------------------------------------------------------------------


def repeated(x, y, *, sample_weight=None, epochs=1, axis_name=None):
    """A fit of a user's that asks for the value of an option."""
    for _ in range(epochs):
        found = logistic.fit(x, y, sample_weight=sample_weight, l2=0.1, axis_name=axis_name)
    return found


def of_numpy(scores, y, *, sample_weight):
    return np.mean(np.asarray(scores) > 0)


def test_an_option_whose_value_is_asked_for_is_named():
    mesh = jax.make_mesh((1,), ("rows",))
    words = r"^epochs: the fit asks for its value, .*functools\.partial\(fit, epochs=\.\.\.\)"
    for name, call in {
        "refit": lambda f, **o: resample.refit(f, X, Y, WEIGHTS, **o),
        "cross_validate": lambda f, **o: resample.cross_validate(
            f, metrics.accuracy, X, Y, WEIGHTS, **o
        ),
        "permutation_test": lambda f, **o: resample.permutation_test(
            jax.random.key(0), f, metrics.accuracy, X, Y, WEIGHTS, draws=2, **o
        ),
        "one_vs_rest": lambda f, **o: multiclass.one_vs_rest(f)(X, Y, **o),
        "one_vs_one": lambda f, **o: multiclass.one_vs_one(f)(X, Y, **o),
        "data_parallel": lambda f, **o: distributed.data_parallel(f, mesh)(X, Y, **o),
    }.items():
        with pytest.raises(TypeError, match=words):
            call(repeated, epochs=2)
        assert call(functools.partial(repeated, epochs=2)), name


def test_a_metric_of_numpy_is_to_be_of_jax():
    with pytest.raises(TypeError, match=r"write them in jax\.numpy"):
        resample.cross_validate(logistic.fit, of_numpy, X, Y, WEIGHTS, l2=0.1)


# --- models of fewer columns, and of none --------------------------------------------------------


def test_a_null_model_of_fewer_columns_is_a_mask():
    full, _ = logistic.fit(X, Y)
    fewer, _ = logistic.fit(X[:, :2], Y)
    words = r"weights: expected shape \(3,\), got \(2,\); .* feature_mask"
    with pytest.raises(ValueError, match="^null_params." + words):
        inference.likelihood_ratio(losses.logistic, full, fewer, X, Y)
    for f in (
        inference.covariance,
        inference.sandwich,
        inference.influence,
        inference.approximate_leave_one_out,
    ):
        with pytest.raises(ValueError, match="^params." + words):
            f(losses.logistic, fewer, X, Y)
    with pytest.raises(ValueError, match="^params." + words):
        inference.separation(fewer, X, Y)
    masked, _ = logistic.fit(X, Y, feature_mask=np.array([True, True, False]))
    np.testing.assert_allclose(masked.weights[:2], fewer.weights, rtol=1e-8)
    found = inference.likelihood_ratio(losses.logistic, full, masked, X, Y)
    gain = [
        losses.objective(losses.logistic, *model, Y) for model in ((fewer, X[:, :2]), (full, X))
    ]
    np.testing.assert_allclose(found.statistic, 2 * N * (gain[0] - gain[1]), rtol=1e-6)


def test_a_separable_fit_sends_to_the_columns():
    """Of two columns the second tells the classes apart, and the first overlaps."""
    x = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 2.0], [1.0, 3.0], [2.0, 1.0], [2.0, 2.0]])
    y = np.array([0, 0, 1, 1, 0, 1])
    for fit in (logistic.fit, softmax.fit):
        params, info = fit(x, y)
        words = r"SEPARABLE: .*; inference\.separation\(params, x, y\)\.coefficients"
        with pytest.raises(types.FitError, match=words):
            types.raise_if_failed(info)
        assert "inference.separation" in types.describe(info)
        found = inference.separation(params, x, y)
        assert np.isinf(np.atleast_2d(found.coefficients.weights)[-1, 1])


LINEAR = [name for name, fit in FITS.items() if "bias" in inspect.signature(fit.call).parameters]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", LINEAR)
def test_no_column_is_a_model_or_an_error(name, bias):
    """Without a column the bias alone is fitted, or what is missing is said."""
    _, y, weight, _ = FITS[name].draw(0)
    try:
        params, _ = FITS[name](np.zeros((N, 0)), y, weight, np.zeros(0, bool), bias=bias)
    except ValueError as error:
        assert str(error).startswith("x: expected at least one feature"), error
    else:
        assert params.weights.shape[-1] == 0 and np.isfinite(params.bias).all()
        assert bias or not np.any(params.bias)


def test_without_columns_the_bias_is_the_log_odds():
    params, _ = logistic.fit(np.zeros((5, 0)), np.array([0, 1, 1, 1, 1]))
    np.testing.assert_allclose(params.bias, np.log(4), rtol=1e-12)
    for fit in (logistic.fit, logistic.fit_firth, functools.partial(softmax.fit, num_classes=2)):
        with pytest.raises(ValueError, match=r"^x: .* where bias=False, got shape \(5, 0\)"):
            fit(np.zeros((5, 0)), np.array([0, 1, 1, 1, 1]), bias=False)


# --- rows that are dealt, and derivatives that go forward only -----------------------------------


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if public.is_fit(name)])
def test_rows_that_are_dealt_are_for_data_parallel(name):
    mesh = jax.make_mesh((1,), ("rows",), axis_types=(jax.sharding.AxisType.Explicit,))
    x, y, weight, mask = FITS[name].draw(0)
    x, y, weight = distributed.shard(x, y, mesh, sample_weight=weight)
    words = r"^x: its rows are dealt over the mesh axis 'rows', .*data_parallel\(fit, mesh\)"
    with pytest.raises(ValueError, match=words):
        FITS[name](x, y, weight, mask)
    with pytest.raises(ValueError, match=words):
        jax.jit(FITS[name].__call__)(x, y, weight, mask)


def test_what_is_wrong_with_rows_that_are_dealt_is_said_of_them():
    mesh = jax.make_mesh((1,), ("rows",), axis_types=(jax.sharding.AxisType.Explicit,))
    bad = np.array(X)
    bad[3, 1] = np.nan
    x, y, weight = distributed.shard(bad, Y, mesh)
    fit = distributed.data_parallel(logistic.fit, mesh)
    with pytest.raises(ValueError, match=r"^x: 1 of 72 entries .* the first at \(3, 1\): nan"):
        fit(x, y, sample_weight=weight)
    good = distributed.shard(X, Y, mesh)
    params, _ = fit(*good[:2], l2=0.1)
    np.testing.assert_allclose(params.weights, logistic.fit(X, Y, l2=0.1)[0].weights, rtol=1e-8)


FORWARD_ONLY = {"svm.fit", "svm.fit_hard_margin", "svm.fit_crammer_singer"}


@pytest.mark.parametrize("name", FITS)
def test_reverse_mode_is_right_or_refused(name):
    """Where it is refused forward mode is not, and the line says so."""
    x, y, weight, mask = FITS[name].draw(0)
    if name == "svm.fit_hard_margin":
        y = (x[:, 0] > 0).astype(int)
    of_steps = name in FORWARD_ONLY or "perceptron" in name
    direction = np.random.default_rng(1).normal(size=x.shape)

    def total(x):
        return sum(jnp.sum(jnp.sin(a)) for a in FITS[name](x, y, weight, mask)[0])

    _, forward = jax.jvp(total, (x,), (direction,))
    assert np.isfinite(forward)
    if not of_steps:
        np.testing.assert_allclose(np.sum(jax.grad(total)(x) * direction), forward, rtol=1e-6)
        return
    for reverse in (jax.grad(total), jax.jit(jax.grad(total)), jax.jacrev(total)):
        with pytest.raises(NotImplementedError, match=r"^reverse mode .*forward only, by jax\.jvp"):
            reverse(x)
    each = np.asarray(jax.jacfwd(total)(x)) * direction
    # Of terms that cancel, so that their sum has the rounding of their size.
    assert abs(np.sum(each) - forward) <= 1e-8 * np.sum(np.abs(each))


def test_a_class_of_few_rows_is_left_out_until_pairs_are_balanced():
    """As the docstring of `one_vs_one` says."""
    rng = np.random.default_rng(0)
    sizes, means = [300, 60, 6], np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]])
    x = np.concatenate([rng.normal(size=(n, 2)) + m for n, m in zip(sizes, means, strict=True)])
    y = np.repeat([0, 1, 2], sizes)
    plain = functools.partial(logistic.fit, l2=0.1)
    params, info = multiclass.one_vs_one(plain)(x, y)
    assert info.status == types.Status.CONVERGED
    assert not np.any(pairwise.predict(params, x) == 2)
    params, info = multiclass.one_vs_one(resample.on_balanced(plain))(x, y)
    assert info.status == types.Status.CONVERGED
    found = np.asarray(pairwise.predict(params, x))
    assert np.mean(found[y == 2] == 2) > 0.5 and np.mean(found[y == 1] == 1) > 0.5

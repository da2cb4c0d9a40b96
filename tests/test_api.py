"""The conventions, held by reflection over every public function of every public module."""

import functools
import inspect
import re

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import jaxlin
from jaxlin import logistic, multiclass, perceptron, types
from jaxlin.types import Info, Status
from tests import public
from tests.public import FITS, FUNCTIONS, MODULES, thorough

# What may come before `params` or `x`: a key, and functions to be called with them.
LEADING = {"calibrate", "key", "loss", "function", "rule", "fit", "metric"}
LEADING |= {"solver", "scaler", "direction", "axes"}


@pytest.fixture(params=FUNCTIONS)
def function(request):
    return FUNCTIONS[request.param]


def parameters(f):
    return list(inspect.signature(f).parameters.values())


def positional(f):
    return [p.name for p in parameters(f) if p.kind is p.POSITIONAL_OR_KEYWORD]


def test_the_namespace_is_complete():
    assert sorted(jaxlin.__all__) == list(jaxlin.__all__)
    for name in jaxlin.__all__:
        assert hasattr(jaxlin, name), name
    # A module that needs more than the package does comes when it is asked for.
    assert set(MODULES) - {"estimators"} <= set(jaxlin.__all__)
    kinds = {name for name, value in vars(types).items() if inspect.isclass(value)}
    public_kinds = {name for name in kinds if getattr(types, name).__module__ == types.__name__}
    assert public_kinds <= set(jaxlin.__all__)


def test_every_function_of_arrays_has_an_example_here():
    """The other laws reach what `tests/public.py` can call."""
    reached = {*public.CALLABLE, *public.HOST_ONLY, *public.COMBINATORS}
    missing = [f for f in FUNCTIONS if f not in reached and not public.is_fit(f)]
    assert not missing, f"neither called by tests/public.py nor private: {missing}"


@pytest.mark.parametrize("name", MODULES)
def test_modules_are_manual_pages(name):
    text = MODULES[name].__doc__
    assert len(text.splitlines()) > 1, "the first line alone is no manual page"
    assert re.search(r"Shapes: ", text), "no legend of shapes"


@pytest.mark.parametrize("name", MODULES)
def test_classes_say_what_they_hold(name):
    module = MODULES[name]
    for kind in vars(module).values():
        if not inspect.isclass(kind) or kind.__module__ != module.__name__:
            continue
        if kind.__name__.startswith("_"):
            continue
        text = inspect.getdoc(kind) or ""
        assert text and not text.startswith(f"{kind.__name__}("), f"{kind} has no docstring"
        for field in getattr(kind, "_fields", ()):
            assert field in text, f"{kind.__name__}.{field} is not described"


def test_docstring(function):
    text = inspect.getdoc(function)
    assert text, "no docstring"
    assert text.splitlines()[0].strip(), "the first line says what it does"
    assert "Example:" in text and ">>> " in text
    if inspect.signature(function).return_annotation is not None:
        assert "Returns:" in text
    if parameters(function):
        assert "Args:" in text
        arguments = text.split("Args:")[1].split("Returns:")[0]
        for parameter in parameters(function):
            assert re.search(rf"^\s+[\w*, ]*\b{parameter.name}\b.*:", arguments, re.MULTILINE), (
                f"{parameter.name} is not among the Args"
            )


def test_all_with_a_default_is_keyword_only(function):
    for parameter in parameters(function):
        if parameter.default is not inspect.Parameter.empty and parameter.name != "args":
            assert parameter.kind is inspect.Parameter.KEYWORD_ONLY, parameter.name
        assert parameter.kind is not inspect.Parameter.VAR_POSITIONAL
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            assert parameter.annotation is not bool, f"{parameter.name} is a positional boolean"


def test_a_required_key_comes_first(function):
    if "key" in positional(function):
        assert positional(function)[0] == "key"


def test_two_call_shapes(function):
    """x then y, scores then y, params then x; functions and keys before, nothing between."""
    names = [name for name in positional(function) if name != "null_params"]
    for first, then in (("x", "y"), ("scores", "y"), ("params", "x")):
        if {first, then} <= set(names):
            assert names.index(then) == names.index(first) + 1
    for name in names:
        if name in ("x", "params", "scores"):
            before = names[: names.index(name)]
            assert set(before) <= {*LEADING, "params"}, f"{before} come before {name}"
            break


def test_weights_and_masks_are_keywords(function):
    for name in ("sample_weight", "feature_mask", "num_classes", "bias", "tol", "offset"):
        if name in inspect.signature(function).parameters:
            assert name not in positional(function), name


def test_annotations(function):
    signature = inspect.signature(function)
    assert signature.return_annotation is not inspect.Signature.empty
    for parameter in parameters(function):
        assert parameter.annotation is not inspect.Parameter.empty, parameter.name


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if public.is_fit(name)])
def test_fits_have_the_same_verbs(name):
    signature = inspect.signature(FUNCTIONS[name])
    assert positional(FUNCTIONS[name]) == ["x", "y"]
    for keyword in ("sample_weight", "feature_mask"):
        assert signature.parameters[keyword].default is None
    if "key" in signature.parameters:
        assert signature.parameters["key"].default is None
    if "l2" in signature.parameters and not name.startswith("svm."):
        assert signature.parameters["l2"].default == 0.0


def test_a_fit_out_of_a_combinator_is_a_fit():
    fit = multiclass.one_vs_rest(perceptron.fit)
    assert positional(fit) == ["x", "y"]
    assert multiclass.one_vs_rest(perceptron.fit) is fit
    assert {"num_classes", "sample_weight"} <= set(inspect.signature(fit).parameters)


@pytest.mark.parametrize("name", public.NAMES)
@pytest.mark.parametrize(
    "given, working",
    [
        (np.float32, "float32"),
        (np.float64, "float64"),
        (ml_dtypes.bfloat16, "float32"),
        thorough(np.float16, "float32"),
        (np.int32, "float64"),
        thorough(np.uint8, "float64"),
        (np.bool_, "float64"),
    ],
)
def test_params_and_info_come_in_the_working_dtype(name, given, working):
    x, y, weight, mask = FITS[name].draw(0)
    x, weight = x.astype(given), weight.astype(np.float16)
    params, info = jax.eval_shape(FITS[name], x, y, weight, mask)
    assert all(leaf.dtype == working for leaf in params), params
    assert type(params).__name__ in ("Hyperplane", "Linear", "Quadratic", "Pairwise") or params
    assert isinstance(params, tuple) and hasattr(params, "_fields")
    assert isinstance(info, Info)
    assert info.status.dtype == info.steps.dtype == "int32"
    assert info.objective.dtype == info.residual.dtype == working
    assert all(leaf.shape == () for leaf in info)
    assert not any(leaf.weak_type for leaf in (*params, *info)), "a weak type retraces"


@pytest.mark.parametrize("name", public.CALLABLE)
def test_results_of_single_precision_stay_so(name):
    """No float64 sneaks into a float32 program; integer and bool results are what they are."""
    of_integers = ("features.fourier", "features.one_hot")
    if name.split(".")[0] in ("datasets", "resample") or name in of_integers:
        pytest.skip("draws, and what comes of integers alone, are of the default float dtype")
    for case in public.cases_of(name):
        arguments = jax.tree.map(_single, case.draw(np.random.default_rng(0)))
        with jax.numpy_dtype_promotion("standard"):
            result = jax.eval_shape(case.call, *arguments)
        for leaf in jax.tree.leaves(result):
            assert leaf.dtype in ("float32", "int32", "bool"), f"{leaf} from {arguments}"


def _single(a):
    if isinstance(a, jax.Array):
        return a
    a = np.asarray(a)
    return a.astype(np.float32 if a.dtype.kind == "f" else np.int32)


@pytest.mark.parametrize("name", public.NAMES)
def test_bad_data_raise_eagerly_and_name_the_argument(name):
    x, y, weight, mask = FITS[name].draw(0)
    fit = FITS[name]

    def spoiled(a, value):
        a = np.array(a)
        a[(3,) + (1,) * (a.ndim - 1)] = value
        return a

    for bad, words in (
        ((spoiled(x, np.nan), y, weight), r"^x: 1 of 72 entries .* the first at \(3, 1\): nan"),
        ((x, spoiled(y, 9), weight), r"y: 1 of 24 entries .* the first at 3: 9"),
        ((x, spoiled(y, -1), weight), r"y: 1 of 24 entries .* the first at 3: -1"),
        ((x, y, spoiled(weight, -1)), r"^sample_weight: 1 of 24 entries .* the first at 3: -1"),
        ((x, y, 0 * weight), r"^sample_weight: no row has positive weight"),
    ):
        with pytest.raises(ValueError, match=words):
            fit(*bad, mask)


@pytest.mark.parametrize("name", public.NAMES)
def test_shapes_and_dtypes_raise_at_trace_time(name):
    x, y, weight, mask = FITS[name].draw(0)
    fit = functools.partial(jax.eval_shape, FITS[name])
    for bad, error, words in (
        ((x[0], y, weight, mask), ValueError, r"x: expected shape \(n, d\), got \(3,\)"),
        ((x, y[:5], weight, mask), ValueError, r"y: expected .*\(24,\).* got \(5,\)"),
        ((x, y, weight[:5], mask), ValueError, r"sample_weight: expected .*\(24,\).* got \(5,\)"),
        ((x, y, weight, mask[:2]), ValueError, r"feature_mask: expected .*\(3,\).* got \(2,\)"),
        ((x, y, weight, 1.0 * mask), TypeError, r"feature_mask: expected bool, got .*float64"),
        ((1j * x, y, weight, mask), TypeError, r"x: expected .*, got .*complex128"),
    ):
        with pytest.raises(error, match=words):
            fit(*bad)


@pytest.mark.parametrize("fit", [perceptron.fit, multiclass.one_vs_rest(logistic.fit)])
def test_float_labels_are_refused_where_they_have_no_meaning(fit):
    x, y, _, _ = FITS["perceptron.fit"].draw(0)
    with pytest.raises(TypeError, match=r"y: expected integer or bool class indices, got .*float"):
        fit(x, y.astype(float))


def test_num_classes_under_jit_names_the_remedy():
    fit = multiclass.one_vs_rest(perceptron.fit)
    x, y, _, _ = FITS["one_vs_rest(perceptron.fit)"].draw(0)
    with pytest.raises(TypeError, match='static_argnames="num_classes"'):
        jax.jit(fit)(x, y)
    with pytest.raises(TypeError, match='static_argnames="num_classes"'):
        jax.jit(fit)(x, y, num_classes=3)
    with pytest.raises(TypeError, match="pass num_classes"):
        jax.vmap(fit)(x[None], y[None])
    traced = jax.jit(fit, static_argnames="num_classes").eval_shape(x, y, num_classes=3)
    assert traced[0].weights.shape == (3, 3)


def test_status_numbers_are_reported_as_plain_data():
    x, y, weight, mask = FITS["perceptron.fit"].draw(0)
    _, info = FITS["perceptron.fit"](x, y, weight, mask)
    assert isinstance(info.status, jax.Array)
    assert Status(int(info.status)) in Status
    assert jnp.issubdtype(info.steps.dtype, jnp.integer)

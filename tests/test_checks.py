"""What the checks let through, and that every message names argument, expected and got."""

import functools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from jaxlin import lda, multiclass, perceptron, resample
from jaxlin._base import _checks, _invalid
from jaxlin.types import Info, Status

X, Y = np.ones((4, 3)), np.array([0, 1, 0, 1])
F64 = np.dtype(np.float64)


def refuses(error, words, f, *arguments, **keywords):
    with pytest.raises(error, match=words):
        f(*arguments, **keywords)


# --- shapes and dtypes ---------------------------------------------------------------------------

MISTAKES = [
    (ValueError, r"x: expected shape \(n, d\), got \(3,\)", {"x": X[0]}),
    (ValueError, r"x: expected shape \(n, d\), got \(1, 4, 3\)", {"x": X[None]}),
    (ValueError, r"x: expected at least one row, got shape \(0, 3\)", {"x": X[:0]}),
    (TypeError, r"x: expected real numbers, got dtype complex128", {"x": jnp.asarray(1j * X)}),
    (TypeError, r"x: expected numbers, got dtype complex128", {"x": 1j * X}),
    (TypeError, r"x: expected numbers, got dtype object", {"x": np.array([[None]])}),
    (TypeError, r"x: expected numbers, got dtype <U3", {"x": np.array([["cat"]])}),
    (ValueError, r"y: expected shape \(4,\), one class index .*, got \(3,\)", {"y": Y[:3]}),
    (ValueError, r"y: expected shape \(4,\), one class index .*, got \(4, 1\)", {"y": Y[:, None]}),
    (TypeError, r"y: expected integer or bool class indices, got dtype float64", {"y": 1.0 * Y}),
    (TypeError, r"y: expected numbers, got dtype <U3", {"y": ["cat", "dog", "cat", "dog"]}),
    (
        ValueError,
        r"sample_weight: expected shape \(4,\), got \(\)",
        {"sample_weight": 1.0},
    ),
    (
        ValueError,
        r"sample_weight: expected shape \(4,\), got \(4, 1\)",
        {"sample_weight": np.ones((4, 1))},
    ),
    (ValueError, r"feature_mask: expected shape \(3,\), got \(4,\)", {"feature_mask": Y > 0}),
    (TypeError, r"feature_mask: expected bool, got dtype int64", {"feature_mask": Y[:3]}),
]


@pytest.mark.parametrize("error, words, arguments", MISTAKES)
def test_messages_of_the_shared_arguments(error, words, arguments):
    arguments = {"x": X, "y": Y, **arguments}
    refuses(error, words, _checks.table, arguments.pop("x"), arguments.pop("y"), **arguments)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32, np.int64, np.uint64])
def test_integer_labels_stay_as_they_are(dtype):
    assert _checks.table(X, Y.astype(dtype)).y.dtype == dtype


def test_bool_labels_become_integers():
    for y in (Y > 0, (Y > 0).tolist(), jnp.asarray(Y > 0)):
        data = _checks.table(X, y)
        assert data.y.dtype == np.int32
        assert data.y.tolist() == Y.tolist()


def test_soft_labels():
    soft = functools.partial(_checks.table, X, soft=True)
    assert soft(np.full(4, 0.5, np.float16)).y.dtype == F64
    assert soft(Y).y.dtype == Y.dtype
    assert soft(np.full((4, 2), 0.5), num_classes=2).y.shape == (4, 2)
    refuses(ValueError, r"y: expected soft labels of shape \(4,\), got \(3,\)", soft, np.ones(3))
    words = r"y: expected soft labels of shape \(4, 2\), got \(4, 3\)"
    refuses(ValueError, words, soft, np.ones((4, 3)), num_classes=2)


@pytest.mark.parametrize(
    "given, kept, working",
    [
        (np.float64, "float64", "float64"),
        (np.float32, "float32", "float32"),
        (np.float16, "float16", "float32"),
        (ml_dtypes.bfloat16, "bfloat16", "float32"),
        (np.int8, "float64", "float64"),
        (np.uint64, "float64", "float64"),
        (np.bool_, "float64", "float64"),
    ],
)
def test_half_precision_stays_in_memory_and_works_in_single(given, kept, working):
    for x in (X.astype(given), jnp.asarray(X.astype(given))):
        data = _checks.table(x, Y, sample_weight=np.ones(4, np.float16))
        assert data.x.dtype == kept
        assert _checks.working_dtype(data.x) == working
        assert data.sample_weight.dtype == working


def test_lists_and_lists_of_arrays():
    assert _checks.matrix([[1, 2], [3, 4]]).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert _checks.matrix([jnp.ones(2), jnp.zeros(2)]).shape == (2, 2)
    traced = jax.jit(lambda a: _checks.matrix([a, a]))(jnp.ones(2))
    assert traced.shape == (2, 2)


def test_scalars():
    scalar = _checks.scalar
    for value in (1, 1.0, np.float32(1), np.int64(1), jnp.ones(()), True):
        number = scalar(value, F64, "step_size")
        assert number.dtype == F64 and number.shape == () and number == 1
        assert not getattr(number, "weak_type", False)
    words = r"step_size: expected shape \(\), got \(2,\)"
    refuses(ValueError, words, scalar, np.ones(2), F64, "step_size")
    refuses(TypeError, "step_size: expected numbers, got", scalar, "big", F64, "step_size")


def test_counts():
    count = _checks.count
    assert count(7, "max_steps") == 7 and count(7, "max_steps").dtype == np.int32
    assert count(np.uint8(7), "max_steps") == 7
    # A cap that does not fit is the largest that does, and a negative one stays negative.
    assert count(2**40, "max_steps") == count(np.int64(2**40), "max_steps") == 2**31 - 1
    assert count(-(2**40), "max_steps") < 0
    assert count(np.int64(-5), "max_steps") < 0
    refuses(TypeError, "max_steps: expected an integer, got dtype float64", count, 7.0, "max_steps")
    refuses(TypeError, "max_steps: expected an integer, got dtype bool", count, True, "max_steps")
    words = r"max_steps: expected shape \(\), got \(2,\)"
    refuses(ValueError, words, count, np.ones(2, int), "max_steps")


def test_a_very_negative_count_does_not_wrap():
    assert _checks.count(np.int64(-(2**40)), "max_steps") < 0
    assert _checks.count(np.int64(-(2**32) + 5), "max_steps") < 0


def test_penalties():
    assert _checks.penalty(0.5, 3, F64).tolist() == [0.5, 0.5, 0.5]
    assert _checks.penalty([1, 2, 3], 3, F64).tolist() == [1.0, 2.0, 3.0]
    words = r"l2: expected a scalar .* shape \(3,\), got \(2,\); for a sweep .*regularization_path"
    refuses(ValueError, words, _checks.penalty, np.ones(2), 3, F64)


def test_tolerances_follow_the_dtype():
    assert 1e-11 < _checks.tolerance(None, F64) < 1e-10
    assert 1e-5 < _checks.tolerance(None, np.dtype(np.float32)) < 1e-4
    assert _checks.tolerance(1e-3, F64) == 1e-3


def test_static_values():
    assert _checks.static(True, bool, "bias") is True
    refuses(TypeError, "bias: expected bool, got int", _checks.static, 1, bool, "bias")
    refuses(TypeError, "a: expected int or str, got float", _checks.static, 1.0, (int, str), "a")
    with pytest.raises(TypeError, match=r'bias: expected a static value.*static_argnames="bias"'):
        jax.jit(lambda b: perceptron.fit(X, Y, bias=b))(True)


def test_number_of_classes():
    count = _checks.number_of_classes
    assert count(3, Y) == count(np.int64(3), Y) == 3
    assert count(None, Y) == 2
    assert count(None, np.array([0, 0, 0])) == 2
    assert count(None, np.array([0, 1, 2, 3])) == 4
    assert count(None, np.array([0, 1, 2, 9]), np.array([1, 1, 1, 0])) == 3
    assert count(None, np.ones((4, 5))) == 5
    assert count(None, [False, True]) == 2
    refuses(ValueError, "num_classes: expected a positive integer, got 0", count, 0, Y)
    refuses(ValueError, "num_classes: expected a positive integer, got True", count, True, Y)
    refuses(TypeError, "num_classes: expected int, got float", count, 3.0, Y)
    refuses(TypeError, "y: expected integer or bool class indices", count, None, 1.0 * Y)
    words = r"num_classes: the largest label is 7 among 4 rows; .*labels.encode.* or pass"
    refuses(ValueError, words, count, None, np.array([0, 1, 2, 7]))


def test_number_of_classes_under_a_transformation():
    words = 'num_classes: .*got None; pass num_classes=k .*static_argnames="num_classes"'
    for inside in (
        lambda y: jnp.zeros(_checks.number_of_classes(None, y)),
        lambda w: jnp.zeros(_checks.number_of_classes(None, Y, w)),
    ):
        with pytest.raises(TypeError, match=words):
            jax.jit(inside)(Y)
        with pytest.raises(TypeError, match=words):
            jax.vmap(inside)(np.stack([Y, Y]))
    with pytest.raises(TypeError, match='static_argnames="num_classes"'):
        jax.jit(lambda k: jnp.zeros(_checks.number_of_classes(k, Y)))(3)
    # A constant inside an outer jit is known.
    assert jax.jit(lambda a: a + _checks.number_of_classes(None, Y))(1) == 3


# --- values --------------------------------------------------------------------------------------


def told(info=None, num_classes=2, x=X, y=Y, weight=None, mask=None, offset=None, **options):
    data = _checks.table(
        x, y, sample_weight=weight, feature_mask=mask, soft=True, num_classes=_width(y)
    )
    status = jnp.int32(Status.INVALID_DATA) if info is None else info
    zero = jnp.zeros(())
    _invalid.raise_if_invalid(
        Info(status, zero, zero, zero),
        data,
        num_classes=num_classes,
        nonnegative=options,
        finite={"offset": offset},
    )


def _width(y):
    return np.shape(y)[1] if np.ndim(y) == 2 else None


def put(a, where, value):
    a = np.array(a, float if isinstance(value, float) else None)
    a[where] = value
    return a


VALUES = [
    (
        r"^x: 1 of 12 entries are not finite.*the first at \(2, 1\): nan$",
        {"x": put(X, (2, 1), np.nan)},
    ),
    (r"^x: 3 of 12 entries are not finite.*at \(1, 0\): -inf$", {"x": put(X, 1, -np.inf)}),
    (r"^x: 1 of 12 .* larger in size than .*at \(0, 2\): 1e\+200$", {"x": put(X, (0, 2), 1e200)}),
    (r"^y: 1 of 4 entries are outside 0\.\.1 .*encode.*the first at 3: 2$", {"y": put(Y, 3, 2)}),
    (r"^y: 1 of 4 entries are outside 0\.\.1 .*the first at 3: -1$", {"y": put(Y, 3, -1)}),
    (r"^y: 1 of 4 entries are outside 0\.\.4 .*at 3: 5$", {"y": put(Y, 3, 5), "num_classes": 5}),
    (
        r"^y: 1 of 4 entries are not a probability in \[0, 1\].*at 0: 1\.5$",
        {"y": put(0.5 * Y, 0, 1.5)},
    ),
    (r"^y: 1 of 4 entries are not a probability.*at 0: nan$", {"y": put(0.5 * Y, 0, np.nan)}),
    (
        r"^y: 1 of 4 entries are row sums other than 1.*at 2: 0\.5$",
        {"y": put(np.full((4, 2), 0.5), (2, 0), 0.0)},
    ),
    (
        r"^sample_weight: 1 of 4 entries are negative.*at 1: -2",
        {"weight": put(np.ones(4), 1, -2.0)},
    ),
    (r"^sample_weight: 1 of 4 .*at 1: inf$", {"weight": put(np.ones(4), 1, np.inf)}),
    (r"^sample_weight: 1 of 4 .*at 1: nan$", {"weight": put(np.ones(4), 1, np.nan)}),
    (r"^sample_weight: no row has positive weight$", {"weight": np.zeros(4)}),
    (r"^l2: 1 of 1 entries are negative, NaN or infinite, the first at 0: -1", {"l2": -1.0}),
    (r"^l2: 1 of 3 entries .* at 2: nan$", {"l2": np.array([0, 1, np.nan])}),
    (r"^offset: 1 of 4 entries .* at 1: nan$", {"offset": put(np.zeros(4), 1, np.nan)}),
    (r"^x: .*; tol: 1 of 1 ", {"x": put(X, 0, np.nan), "tol": -1.0}),
]


@pytest.mark.parametrize("words, arguments", VALUES)
def test_bad_values_are_counted_and_placed(words, arguments):
    refuses(ValueError, words, told, **arguments)


def test_what_is_absent_is_not_blamed():
    words = r"^tol: "
    bad = put(X, 2, np.nan)
    refuses(ValueError, words, told, x=bad, weight=put(np.ones(4), 2, 0.0), tol=-1.0)
    refuses(ValueError, words, told, y=put(Y, 2, 9), weight=put(np.ones(4), 2, 0.0), tol=-1.0)
    mask = np.array([True, False, True])
    refuses(ValueError, words, told, x=put(X, (2, 1), np.nan), mask=mask, tol=-1.0)


def test_the_look_at_values_waits_for_the_verdict():
    """Only a concrete INVALID_DATA raises: under jit the status is what there is."""
    told(info=jnp.int32(Status.MAX_STEPS), x=np.nan * X)
    jax.jit(lambda s: told(info=s, x=np.nan * X))(jnp.int32(8))
    refuses(ValueError, "x: 12 of 12", told, info=jnp.array([0, 8]), x=np.nan * X)


# --- 64-bit integers without 64-bit mode ---------------------------------------------------------


def test_large_labels_do_not_wrap_without_x64():
    """2**32 + 1 truncated to 32 bits is 1, a valid label."""
    with jax.enable_x64(False):
        y = np.array([0, 1, 2**32, 2**32 + 1])
        data = _checks.table(X.astype(np.float32), y)
        assert data.y.dtype == np.int32
        assert data.y.tolist() == [0, 1, 2**31 - 1, 2**31 - 1]
        assert _checks.array(-(2**40), "y") == -(2**31)
        x = np.arange(12, dtype=np.float32).reshape(4, 3)
        with pytest.raises(ValueError, match=r"y: 2 of 4 entries are outside 0\.\.1"):
            perceptron.fit(x, y)
        with pytest.raises(ValueError, match=r"y: 1 of 4 entries are outside 0\.\.1"):
            perceptron.fit(x, np.array([0, 1, 1, 2**63], np.uint64))


def test_large_integers_of_x_stay_right_without_x64():
    with jax.enable_x64(False):
        x = np.array([[2**40, -(2**40)], [3, 2**31]])
        for given in (x, x.tolist(), x[0]):
            real = _checks.real(given, "x")
            assert real.dtype == np.float32
            np.testing.assert_array_equal(real, np.asarray(given, np.float32))
        assert _checks.scalar(2**40, np.float32, "l2") == np.float32(2**40)


def test_the_safe_range_is_safe():
    for dtype in (np.float32, np.float64):
        limit = dtype(_checks.safe_range(dtype))
        assert np.isfinite(limit**2 * 100)
        assert limit > 1e17


def test_digits_that_a_narrower_dtype_loses_are_missed():
    """Of float64 that becomes float32: a fit could not know, and would be sure of what is left."""
    x = np.random.default_rng(0).normal(size=(40, 3))
    y = (x[:, 0] > 0).astype(int)
    far = x + np.array([0.0, 1e6, 0.0])
    holes = np.where(np.arange(40)[:, None] == 7, [np.nan, np.inf, 0.0], far)
    weight = (np.arange(40) != 7).astype(float)
    lda.fit(far, y)
    with jax.enable_x64(False):
        lda.fit(x, y)
        lda.fit(far.astype(np.float32), y)  # nothing is lost here
        lda.fit(np.full((40, 1), 1e9), y)  # nor of what does not vary
        for given in (far, holes):
            with pytest.warns(
                UserWarning, match="x: in float32 1 of 3 columns, the first of them 1"
            ):
                lda.fit(given, y, sample_weight=weight)


def test_a_combinator_takes_a_fit_alone():
    for combinator in (
        multiclass.one_vs_rest,
        multiclass.one_vs_one,
        resample.on_standardized,
        resample.on_balanced,
    ):
        with pytest.raises(TypeError, match="takes 1 positional argument but 3 were given"):
            combinator(lda.fit, X, [0, 1])

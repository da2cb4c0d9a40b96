"""The fold over blocks of rows is the sum, or maximum, over all rows at once."""

import math
import re

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from jaxlin import fisher, lda, logistic
from jaxlin._base import _checks, _platform
from jaxlin._data import _fold, _prepare, _rows
from jaxlin._data._rows import BLOCK_ENTRIES, MIN_BLOCK_ROWS

D = 200
SIZE = max(MIN_BLOCK_ROWS, BLOCK_ENTRIES // D)
# One block, one short of a split, the first split, exact multiples, and one more than these.
COUNTS = [1, SIZE, 2 * SIZE - 1, 2 * SIZE, 2 * SIZE + 1, 3 * SIZE, 4 * SIZE - 1]


def table(n, dtype=np.float64, **arguments):
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=(n, D)).astype(dtype), rng.integers(3, size=n)
    weight = rng.choice([0.0, 1.0, 2.5], size=n, p=[0.2, 0.4, 0.4])
    weight[0] = 1.0
    return _checks.table(x, y, sample_weight=weight, **arguments)


def moments(block):
    present = block.weight[:, None] > 0
    sums = {
        "weight": jnp.sum(block.weight),
        "x": block.weight @ block.x,
        "classes": jax.nn.one_hot(block.y, 3, dtype=block.x.dtype).T @ block.weight,
    }
    return sums, jnp.max(jnp.where(present, block.x, -jnp.inf), axis=0)


def direct(data, x=None):
    x = np.asarray(data.x if x is None else x, np.float64)
    weight = np.asarray(data.sample_weight, np.float64)
    weight = weight / weight.sum()
    one_hot = np.asarray(data.y)[:, None] == np.arange(3)[None, :]
    sums = {"weight": 1.0, "x": weight @ x, "classes": weight @ one_hot}
    return sums, np.max(x[weight > 0], axis=0)


@jax.jit
def folded(data):
    return _fold.fold(moments, _prepare.prepare(data, num_classes=3)[0])


def assert_folds(result, expected, eps):
    sums, largest = result
    for name, value in expected[0].items():
        np.testing.assert_allclose(sums[name], value, rtol=0, atol=100 * eps, err_msg=name)
    np.testing.assert_array_equal(largest, expected[1].astype(largest.dtype))


@pytest.mark.parametrize("n", COUNTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_folds_are_direct_sums(n, dtype):
    data = table(n, dtype)
    result = folded(data)
    assert all(leaf.dtype == dtype for leaf in jax.tree.leaves(result))
    assert_folds(result, direct(data), np.finfo(dtype).eps)


SIDE = _fold.SIDE_ENTRIES // D


@pytest.mark.parametrize("n", [_fold.SIDES * SIDE + 1, 16 * SIDE, 17 * SIDE - 1, 20 * SIDE])
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float32, np.float64])
def test_folds_by_entries_are_direct_sums(n, dtype):
    data = table(n, dtype)
    hidden = np.flatnonzero(np.asarray(data.sample_weight) == 0)[:3]
    junk = np.array(data.x)
    junk[hidden] = np.array([[np.nan], [np.inf], [300.0]]).astype(dtype)

    @jax.jit
    def folded(data):
        rows, *_ = _prepare.prepare(data, num_classes=3)
        assert _fold.is_long(rows) == _platform.on_cpu()  # elsewhere it is one block
        assert not _fold.is_long(_rows.take(rows, 0, _fold.SIDES * SIDE))

        def terms(block):
            weight = block.weight[:, None]
            return {"x": weight * block.x}, jnp.where(weight > 0, block.x, -jnp.inf)

        return _fold.fold_entries(terms, rows)

    sums, largest = direct(data)
    found = folded(data._replace(x=jnp.asarray(junk)))
    eps = np.finfo(np.float64 if dtype == np.float64 else np.float32).eps
    assert_folds(found, ({"x": sums["x"]}, largest), eps)


@pytest.mark.parametrize("name", ["fold", "fold_and_map"])
def test_many_small_terms_keep_their_digits(name):
    """A block's product of two vectors is not begun from the sum so far."""
    n, value = 200_000, np.float32(np.log(2))
    data = _checks.table(np.ones((n, 100), np.float32), np.zeros(n, int))

    @jax.jit
    def total(data):
        def terms(block):
            each = block.x[:, 0] * value
            return jnp.matmul(block.weight, each), each if name == "fold_and_map" else ()

        return getattr(_fold, name)(terms, _prepare.prepare(data, num_classes=1)[0])[0]

    np.testing.assert_allclose(total(data), value, rtol=3e-6)


@pytest.mark.parametrize("n", [SIZE, 2 * SIZE + 1])
def test_every_row_is_seen_once(n):
    """Exactly: with a weight of one row only the fold is that row, wherever it lies."""
    x = np.random.default_rng(0).normal(size=(n, D))
    one_of = jax.jit(
        jax.vmap(lambda w: folded(_checks.table(x, np.zeros(n, int), sample_weight=w)))
    )
    chosen = sorted({0, 1, n // 2, SIZE - 1, n - SIZE - 1, n - SIZE, n - 2, n - 1} & set(range(n)))
    sums, largest = one_of(np.eye(n)[chosen])
    np.testing.assert_array_equal(sums["x"], x[chosen])
    np.testing.assert_array_equal(largest, x[chosen])
    np.testing.assert_array_equal(sums["weight"], 1)


@pytest.mark.parametrize("n", [SIZE, 2 * SIZE + 1])
@pytest.mark.parametrize("hole", [np.nan, np.inf, 1e300])
def test_rows_without_weight_are_not_felt(n, hole):
    data = table(n)
    absent = np.asarray(data.sample_weight) == 0
    x, y = np.array(data.x), np.array(data.y)
    x[absent], y[absent] = hole, 9
    holed = _checks.table(x, y, sample_weight=data.sample_weight)
    assert _prepare.prepare(holed, num_classes=3)[2]
    for mine, clean in zip(
        jax.tree.leaves(folded(holed)), jax.tree.leaves(folded(data)), strict=True
    ):
        np.testing.assert_array_equal(mine, clean)


@pytest.mark.parametrize("n", [SIZE, 2 * SIZE + 1])
def test_masked_columns_are_zeros(n):
    mask = np.arange(D) % 3 > 0
    data = table(n, feature_mask=mask)
    x = np.array(data.x)
    x[:, ~mask] = np.nan
    result = folded(_checks.table(x, data.y, sample_weight=data.sample_weight, feature_mask=mask))
    assert_folds(result, direct(data, np.where(mask[None, :], data.x, 0)), 2.0**-52)


def test_half_precision_is_widened_block_by_block():
    n = 2 * SIZE + 1
    data = table(n, ml_dtypes.bfloat16)
    wide = _checks.table(np.asarray(data.x, np.float32), data.y, sample_weight=data.sample_weight)
    for mine, other in zip(
        jax.tree.leaves(folded(data)), jax.tree.leaves(folded(wide)), strict=True
    ):
        assert mine.dtype == np.float32
        np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("n", [SIZE, 2 * SIZE, 2 * SIZE + 1])
def test_map_rows_keeps_the_order(n):
    data = table(n)
    rows, _, _ = _prepare.prepare(data, num_classes=3)
    np.testing.assert_array_equal(
        _fold.map_rows(lambda block: block.x[:, :2] + 1, rows), data.x[:, :2] + 1
    )


def test_folds_have_derivatives():
    """In x and in the weights, those of weight 0 included."""
    n = 2 * SIZE + 1
    data = table(n)

    def mean_square(x, weight):
        rows, _, _ = _prepare.prepare(data._replace(x=x, sample_weight=weight), num_classes=3)
        return _fold.fold(lambda b: (jnp.sum(b.weight * jnp.sum(b.x**2, axis=1)), ()), rows)[0]

    by_x, by_weight = jax.grad(mean_square, argnums=(0, 1))(data.x, data.sample_weight)
    x, weight = np.asarray(data.x), np.asarray(data.sample_weight)
    total = weight.sum()
    square = np.sum(x**2, axis=1)
    np.testing.assert_allclose(by_x, 2 * weight[:, None] * x / total, rtol=1e-12)
    expected = (square - weight @ square / total) / total
    np.testing.assert_allclose(by_weight, expected, rtol=1e-9, atol=1e-15)


# --- prepare -------------------------------------------------------------------------------------


def prepared(**arguments):
    n = 6
    given = {"x": np.ones((n, 2)), "y": np.array([0, 1, 2, 0, 1, 2]), **arguments}
    offset = given.pop("offset", None)
    data = _checks.table(given.pop("x"), given.pop("y"), **given)
    return _prepare.prepare(data, num_classes=3, offset=offset)


def test_weights_are_normalised_without_overflow():
    for scale in (1e-300, 1.0, 1e300, 4e307, 1.7e308):
        rows, total, valid = prepared(sample_weight=scale * np.array([1.0, 0, 0.5, 1, 1, 0.5]))
        assert valid
        np.testing.assert_allclose(rows.weight, np.array([1, 0, 0.5, 1, 1, 0.5]) / 4, rtol=1e-15)
    rows, total, valid = prepared(sample_weight=np.arange(6.0))
    assert total == 15 and rows.weight.sum() == 1
    assert prepared()[1] == 6


def spoiled(a, i, value):
    a = np.array(a, np.result_type(np.asarray(a).dtype, type(value)))
    a[i] = value
    return a


BAD = [
    {"sample_weight": spoiled(np.ones(6), 1, -1.0)},
    {"sample_weight": spoiled(np.ones(6), 1, np.nan)},
    {"sample_weight": spoiled(np.ones(6), 1, np.inf)},
    {"sample_weight": np.zeros(6)},
    {"x": spoiled(np.ones((6, 2)), (1, 1), np.nan)},
    {"x": spoiled(np.ones((6, 2)), (1, 1), 1e200)},
    {"y": spoiled(np.zeros(6, int), 1, 3)},
    {"y": spoiled(np.zeros(6, int), 1, -1)},
    {"y": np.array([0, 0, 0, 0, 0, 2**32 + 1])},
    {"offset": jnp.asarray(spoiled(np.zeros(6), 1, np.nan))},
]


@pytest.mark.parametrize("arguments", BAD)
def test_invalid_data_lose_all_weight(arguments):
    rows, _, valid = prepared(**arguments)
    assert not valid and not np.any(rows.weight)
    assert not np.any(np.isnan(rows.weight))


@pytest.mark.parametrize("arguments", [a for a in BAD if "sample_weight" not in a])
def test_what_has_no_weight_may_be_anything(arguments):
    row = 5 if np.ndim(arguments.get("y")) and arguments["y"][1] == 0 else 1
    rows, _, valid = prepared(**arguments, sample_weight=spoiled(np.ones(6), row, 0.0))
    assert valid and rows.weight[row] == 0
    assert np.all((rows.y >= 0) & (rows.y < 3))


# --- memory --------------------------------------------------------------------------------------


@pytest.mark.cpu
@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16])
def test_temporaries_are_small(dtype):
    """A pass over x makes no copy of it, not even to widen, clean or mask it."""
    if dtype == ml_dtypes.bfloat16 and jax.__version__.startswith("0.9."):
        pytest.skip("XLA of jaxlib 0.9 widens bfloat16 on a CPU before it slices; 0.12 does not")
    n, d = 100_000, 20
    working = np.float64 if dtype == np.float64 else np.float32
    shape = jax.ShapeDtypeStruct
    data = _checks.Table(
        x=shape((n, d), dtype),
        y=shape((n,), np.int32),
        sample_weight=shape((n,), working),
        feature_mask=shape((d,), bool),
    )
    memory = folded.lower(data).compile().memory_analysis()
    if memory is None:
        pytest.skip("this backend does not say")
    widened = n * d * np.dtype(working).itemsize
    assert memory.temp_size_in_bytes < 0.3 * widened, memory.temp_size_in_bytes / widened


@pytest.mark.cpu
@pytest.mark.parametrize("fit", [logistic.fit, lda.fit, fisher.fit])
def test_nothing_is_made_of_a_constant_x_while_a_program_is_compiled(fit):
    """As of an x that a function of the user's closes over; what is sorted or summed is large."""
    n, d = 3_000, 17
    x = np.random.default_rng(0).normal(size=(n, d))
    y = np.arange(n) % 2
    given = {"num_classes": 2} if fit is lda.fit else {}
    many = jax.jit(jax.vmap(lambda weight: fit(x, y, sample_weight=weight, **given)))
    text = many.lower(np.ones((3, n))).compile().as_text()
    made = set(re.findall(r"= f64\[(\d+,\d+)\]\{[\d,]+\} constant\(", text)) - {f"{n},{d}"}
    assert not [shape for shape in made if math.prod(map(int, shape.split(","))) > d * d]

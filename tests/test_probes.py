"""Every lane of a probe is its own fit, and is chosen as `resample.select` chooses."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlin
from jaxlin import (
    lda,
    least_squares,
    logistic,
    metrics,
    probes,
    resample,
    softmax,
    streaming,
    svm,
)
from jaxlin._files import _source
from jaxlin._smooth import _many_descents, _streamed_probes
from jaxlin.types import Status
from tests.public import thorough

LAYERS, N, D, T, FOLDS = 2, 60, 20, 3, 3
KEY = jax.random.key(0)
L2 = jnp.array([1.0, 0.1, 0.01])
SHRINKAGE = jnp.array([0.0, 0.3, 1.0])


def drawn(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(LAYERS, N, D)) + rng.normal(size=(LAYERS, N, 1))
    y = (x[0, :, :T] + rng.normal(size=(N, T)) > 0).astype(int)
    return x, y, resample.stratified_kfold(KEY, y[:, 0], folds=FOLDS)


def at(tree, *index):
    return jax.tree.map(lambda a: np.asarray(a)[index], tree)


def agree(found, expected, rtol=1e-7):
    """Params, and the objective and status of an Info."""
    (params, info), (others, own) = found, expected
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol, rtol), params, others)
    np.testing.assert_allclose(info.objective, own.objective, rtol)
    assert info.status == own.status


FITS = {
    "logistic": (logistic.fit, {"l2": L2}),
    "least squares": (least_squares.fit, {"l2": L2}),
    "lda": (lda.fit, {"shrinkage": SHRINKAGE}),
    "standardised": (resample.on_standardized(logistic.fit), {"l2": L2}),
}
CASES = ["logistic", "lda", *map(thorough, ["least squares", "standardised"])]


def options_of(kind, name, value):
    classes = {} if kind in ("logistic", "standardised") else {"num_classes": 2}
    return {name: value} | classes


@pytest.mark.parametrize("kind", CASES)
def test_each_lane_of_a_sweep_is_its_own_fit(kind):
    fit, given = FITS[kind]
    x, y, _ = drawn()
    ((name, values),) = given.items()
    found = probes.sweep(fit, x, y, **given)
    assert found[1].status.shape == (LAYERS, T, len(values))
    for layer, target, j in np.ndindex(LAYERS, T, len(values)):
        expected = fit(x[layer], y[:, target], **options_of(kind, name, values[j]))
        agree(at(found, layer, target, j), expected)


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("metric", [metrics.accuracy, thorough(metrics.brier)])
def test_each_choice_is_that_of_select(kind, metric):
    fit, given = FITS[kind]
    x, y, folds = drawn()
    if (kind, metric) == ("least squares", metrics.brier):
        pytest.skip("its scores are no log-odds")
    ((name, values),) = given.items()
    params, info, report = probes.select(fit, metric, x, y, folds, **given)
    better = max if metric is metrics.accuracy else min
    for layer, target in np.ndindex(LAYERS, T):
        z, labels = x[layer], y[:, target]
        means = []
        for j, value in enumerate(values):
            own = options_of(kind, name, value)
            each, _ = resample.cross_validate(fit, metric, z, labels, folds, **own)
            np.testing.assert_allclose(report.values[layer, target, j], each.mean(), rtol=1e-9)
            error = np.std(each, ddof=1) / np.sqrt(FOLDS)
            np.testing.assert_allclose(report.errors[layer, target, j], error, 1e-6, 1e-12)
            means.append(each.mean())
        best = better(means)
        chosen = max(v for v, m in zip(values, means, strict=True) if m == best)
        assert report.l2[layer, target] == chosen
        expected = fit(z, labels, **options_of(kind, name, chosen))
        agree(at((params, info), layer, target), expected)
    assert report.status.shape == report.values.shape == (LAYERS, T, len(values))
    assert np.all(report.status == Status.CONVERGED) and report.shuffled is None


def test_axes_are_there_only_where_they_are_given():
    x, y, folds = drawn()
    z, labels = x[0], y[:, 0]
    alone = logistic.fit(z, labels, l2=0.1)
    agree(probes.sweep(logistic.fit, z, labels, l2=0.1), alone)
    agree(at(probes.sweep(logistic.fit, x, labels, l2=0.1), 0), alone)
    agree(at(probes.sweep(logistic.fit, z, y, l2=0.1), 0), alone)
    agree(at(probes.sweep(logistic.fit, z, labels, l2=L2), 1), alone)
    params, info, report = probes.select(logistic.fit, metrics.accuracy, z, labels, folds, l2=L2)
    expected = resample.select(logistic.fit, metrics.accuracy, z, labels, folds, l2=L2)
    agree((params, info), expected[:2])
    assert report.values.shape == (3,) and report.l2 == expected[2]
    # One split of the rows is one fold.
    split = probes.select(logistic.fit, metrics.accuracy, z, labels, folds[0], l2=L2)
    whole = probes.select(logistic.fit, metrics.accuracy, z, labels, folds[:1], l2=L2)
    jax.tree.map(np.testing.assert_array_equal, split, whole)
    assert np.all(np.isnan(split[2].errors))


def test_classes_of_more_than_two():
    x, y, folds = drawn()
    labels = y[:, 0] + y[:, 1]
    params, info, report = probes.select(softmax.fit, metrics.accuracy, x, labels, folds, l2=L2)
    for layer in range(LAYERS):
        own = resample.select(softmax.fit, metrics.accuracy, x[layer], labels, folds, l2=L2)
        agree(at((params, info), layer), own[:2])
        assert report.l2[layer] == own[2]


def test_the_rule_of_one_standard_error_is_that_of_select():
    x, y, folds = drawn(3)
    give = {"l2": L2, "one_standard_error": True}
    *_, report = probes.select(logistic.fit, metrics.log_loss, x, y, folds, **give)
    for layer, target in np.ndindex(LAYERS, T):
        data = x[layer], y[:, target], folds
        *_, chosen = resample.select(logistic.fit, metrics.log_loss, *data, **give)
        assert report.l2[layer, target] == chosen


@pytest.mark.parametrize("kind", ["logistic", "lda"])
def test_a_target_of_one_class_leaves_its_neighbours_untouched(kind):
    fit, given = FITS[kind]
    x, y, folds = drawn()
    lone = y.copy()
    lone[:, 1] = 0
    params, info, report = probes.select(fit, metrics.roc_auc, x[0], lone, folds, **given)
    others = probes.select(fit, metrics.roc_auc, x[0], y, folds, **given)
    assert info.status.tolist() == [0, Status.CLASS_TOO_SMALL, 0]
    assert np.all(np.isnan(report.values[1])) and np.isnan(report.l2[1])
    assert np.all(report.status[1] == Status.CLASS_TOO_SMALL)
    for target in (0, 2):
        found, expected = (
            at((p, r.values, r.l2), target) for p, r in ((params, report), (others[0], others[2]))
        )
        jax.tree.map(np.testing.assert_array_equal, found, expected)
    _, info = probes.sweep(fit, x[0], lone, **given)
    assert np.all(info.status[1] == Status.CLASS_TOO_SMALL) and np.all(info.status[::2] == 0)


@pytest.mark.parametrize("kind", ["logistic", "lda"])
def test_shuffled_labels_are_the_same_rows_dealt_anew(kind):
    """Of a target that x tells all of, chance is left; the labels stay as they are."""
    fit, given = FITS[kind]
    x, y, folds = drawn()
    y[:, 0] = x[0, :, 0] > 0
    weight = np.ones(N)
    weight[:10], x[:, :10], y[:10] = 0, np.nan, 7
    auc, data = metrics.roc_auc, (x, y, folds)
    options = given | {"sample_weight": weight}
    params, info, report = probes.select(fit, auc, *data, key=KEY, **options)
    plain = probes.select(fit, auc, *data, **options)
    jax.tree.map(np.testing.assert_array_equal, (params, info), plain[:2])
    np.testing.assert_array_equal(report.values, plain[2].values)
    assert report.shuffled.values.shape == report.values.shape
    assert np.all(np.abs(report.shuffled.values[:, 0].mean(1) - 0.5) < 0.35)
    assert report.values[0, 0].max() > 0.9 > report.shuffled.values[0, 0].max()
    assert np.all(np.isfinite(report.shuffled.values))
    again = probes.select(fit, auc, *data, key=KEY, **options)[2].shuffled
    np.testing.assert_array_equal(again.values, report.shuffled.values)


@pytest.mark.parametrize("kind", ["logistic", "lda"])
def test_a_row_of_weight_0_has_no_label_of_that_target(kind):
    fit, given = FITS[kind]
    x, y, folds = drawn()
    weight = np.ones((N, T))
    weight[::4, 1] = 0
    junk = np.where(weight == 0, 7, y)
    found = probes.select(fit, metrics.accuracy, x[0], junk, folds, sample_weight=weight, **given)
    ((name, values),) = given.items()
    for target in range(T):
        kept = weight[:, target] > 0
        labels, own = y[kept, target], folds[:, kept]
        for j, value in enumerate(values):
            options = options_of(kind, name, value)
            each, _ = resample.cross_validate(
                fit, metrics.accuracy, x[0][kept], labels, own, **options
            )
            np.testing.assert_allclose(found[2].values[target, j], each.mean(), rtol=1e-9)


def test_half_precision_stays_as_it_lies():
    x, y, folds = drawn()
    half = jnp.asarray(x, jnp.bfloat16)
    found = probes.select(logistic.fit, metrics.accuracy, half, y, folds, l2=L2)
    wide = half.astype(jnp.float32)
    expected = probes.select(logistic.fit, metrics.accuracy, wide, y, folds, l2=L2)
    np.testing.assert_allclose(found[0].weights, expected[0].weights, 1e-5, 1e-6)
    np.testing.assert_allclose(found[2].values, expected[2].values, atol=1e-6)


@pytest.mark.cpu
def test_nothing_widens_x_as_a_whole():
    """What is held beside x is less than x in half precision."""
    n, d = 30_000, 256
    x, y = jax.ShapeDtypeStruct((n, d), jnp.bfloat16), jax.ShapeDtypeStruct((n, 2), jnp.int32)
    program = jax.jit(lambda x, y: probes.sweep(logistic.fit, x, y, l2=L2.astype(jnp.float32)))
    memory = program.lower(x, y).compile().memory_analysis()
    assert memory.temp_size_in_bytes < 2 * n * d


def test_under_jit_and_vmap_it_is_what_it_is():
    x, y, folds = drawn()

    def run(x, y):
        return probes.select(logistic.fit, metrics.accuracy, x, y, folds, l2=L2)

    plain = run(x, y)
    jax.tree.map(
        functools.partial(np.testing.assert_allclose, rtol=1e-7), jax.jit(run)(x, y), plain
    )
    mapped = jax.vmap(run, (0, None))(x, y)  # layers as a user's own axis
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-7), mapped, plain)


@pytest.mark.parametrize("kind", ["logistic", "lda", thorough("least squares")])
def test_derivatives_are_those_of_the_fits(kind):
    fit, given = FITS[kind]
    x, y, _ = drawn()
    ((name, values),) = given.items()
    values = values[1:2]

    def swept(x):
        return jnp.sum(probes.sweep(fit, x, y, **{name: values})[0].weights ** 3)

    def alone(x):
        options = options_of(kind, name, values[0])
        return sum(jnp.sum(fit(x, y[:, i], **options)[0].weights ** 3) for i in range(T))

    found, expected = jax.grad(swept)(x[0]), jax.grad(alone)(x[0])
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "wrong, error, said",
    [
        ({"l2": None}, TypeError, "l2, shrinkage: expected one of them"),
        ({"shrinkage": 0.5}, TypeError, "l2, shrinkage: expected one of them"),
        ({"l2": None, "shrinkage": 0.5}, TypeError, "fit: expected a fit with an argument shrink"),
        ({"l2": jnp.ones((2, 2))}, ValueError, "l2: expected a number or shape"),
        ({"l2": jnp.array([1.0, -1.0])}, ValueError, "layer 0, target 0, l2 1: l2"),
        ({"x": np.zeros(3)}, ValueError, "x: expected shape"),
        ({"y": np.zeros((N + 1, T), int)}, ValueError, "y: expected shape"),
        ({"y": np.zeros((N, T))}, TypeError, "y: expected integer or bool"),
        ({"y": np.full((N, T), 2)}, ValueError, "layer 0, target 0, l2 0: y"),
        ({"sample_weight": np.ones(3)}, ValueError, "sample_weight: expected shape"),
        (
            {"y": np.zeros(N, int), "sample_weight": np.ones(3)},
            ValueError,
            "expected shape .60,., g",
        ),
        ({"fit": jaxlin.lda}, TypeError, "fit: expected a function"),
    ],
)
def test_what_is_wrong_is_said(wrong, error, said):
    x, y, _ = drawn()
    given = {"fit": logistic.fit, "x": x, "y": y, "l2": L2} | wrong
    with pytest.raises(error, match=said):
        probes.sweep(given.pop("fit"), given.pop("x"), given.pop("y"), **given)


@pytest.mark.parametrize("kind", ["logistic", "lda"])
def test_junk_that_no_fold_trains_on_is_said(kind):
    fit, given = FITS[kind]
    x, y, folds = drawn()
    x[0, np.flatnonzero(folds[0] == 0)[0], 1] = np.nan
    with pytest.raises(ValueError, match=r"target 0, .* 0: x"):
        probes.select(fit, metrics.accuracy, x[0], y, folds[0], **given)


def test_a_label_beyond_the_classes_is_seen_by_closed_forms():
    x, y, _ = drawn()
    y[0, 1] = 2
    with pytest.raises(ValueError, match="target 1, shrinkage 0: y"):
        probes.sweep(lda.fit, x[0], y, shrinkage=SHRINKAGE)


def test_junk_in_one_layer_is_said_and_is_felt_there_alone():
    x, y, folds = drawn()
    junk = x.copy()
    junk[1, 3, 2] = np.nan
    with pytest.raises(ValueError, match="layer 1, target 0, l2 0: x"):
        probes.select(logistic.fit, metrics.accuracy, junk, y, folds, l2=L2)
    run = jax.jit(lambda x: probes.select(logistic.fit, metrics.accuracy, x, y, folds, l2=L2))
    _, info, report = run(junk)
    *_, whole = run(x)
    assert np.all(info.status[0] == 0) and np.all(info.status[1] == Status.INVALID_DATA)
    np.testing.assert_array_equal(report.values[0], whole.values[0])
    assert np.all(np.isnan(report.l2[1]))


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(_source, "BLOCK_BYTES", 2**12)  # 256 rows, the least
    monkeypatch.setattr(_source, "SAMPLE_ROWS", 200)


def on_disk(folder, dtype=float):
    """`(paths, x, y, weight)`: two files whose rows follow each other, and all that is in them."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(700, D)).astype(dtype)
    y = (x[:, :T].astype(float) + rng.normal(size=(700, T)) > 0).astype(int)
    weight = rng.choice([0, 1, 2], size=(700, T)).astype(float)
    y = np.where(weight > 0, y, -1)  # no label
    paths = [folder / "first.npy", folder / "second.npy"]
    for path, part in zip(paths, (x[:300], x[300:]), strict=True):
        np.save(path, part)
    return paths, x, y, weight


@pytest.mark.parametrize("kind", ["logistic", "lda"])
def test_a_sweep_of_a_stream_is_that_of_the_whole(kind, tmp_path, small_blocks):
    paths, x, y, weight = on_disk(tmp_path)
    fit, given = FITS[kind]
    found = probes.sweep(fit, paths, y, sample_weight=weight, **given)
    expected = probes.sweep(fit, x, y, sample_weight=weight, **given)
    assert found[1].status.shape == (T, 3)
    for lane in np.ndindex(T, 3):
        agree(at(found, *lane), at(expected, *lane))
    source = streaming.arrays(paths, y, sample_weight=weight)
    ((name, values),) = given.items()
    alone = probes.sweep(fit, source, None, **{name: values[1]})
    jax.tree.map(np.testing.assert_array_equal, alone, at(found, slice(None), 1))


@pytest.mark.parametrize("kind", ["logistic", "lda"])
def test_a_choice_of_a_stream_is_that_of_the_whole(kind, tmp_path, small_blocks, monkeypatch):
    monkeypatch.setattr(_streamed_probes, "SCORES_BYTES", 2**14)  # of one target at a time
    paths, x, y, weight = on_disk(tmp_path)
    fit, given = FITS[kind]
    folds = resample.kfold(KEY, 700, folds=2)
    given = given | {"sample_weight": weight, "key": KEY}
    params, info, report = probes.select(fit, metrics.brier, paths, y, folds, **given)
    others, own, expected = probes.select(fit, metrics.brier, x, y, folds, **given)
    for target in range(T):
        agree(at((params, info), target), at((others, own), target))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-6), report, expected)


def test_a_choice_of_a_stream_of_classes_by_one_split(tmp_path, small_blocks):
    paths, x, y, _ = on_disk(tmp_path)
    labels, split = np.maximum(y, 0).sum(axis=1), np.arange(700) % 4 > 0
    given = labels, split.astype(float)
    found = probes.select(softmax.fit, metrics.accuracy, paths, *given, l2=L2)
    expected = probes.select(softmax.fit, metrics.accuracy, x, *given, l2=L2)
    agree(found[:2], expected[:2])
    np.testing.assert_allclose(found[2].values, expected[2].values)
    assert found[2].l2 == expected[2].l2


def test_a_sweep_of_a_stream_of_classes_in_half_precision(tmp_path, small_blocks):
    paths, x, y, _ = on_disk(tmp_path, np.float16)
    labels = np.maximum(y, 0).sum(axis=1)
    found = probes.sweep(softmax.fit, paths, labels, l2=L2)
    expected = probes.sweep(softmax.fit, x, labels, l2=L2)
    assert found[0].weights.dtype == np.float32
    for lane in range(3):
        agree(at(found, lane), at(expected, lane), rtol=2e-5)


def test_lanes_of_a_stream_that_do_not_settle_say_what_a_fit_says(tmp_path, small_blocks):
    """Separable, of one class, and without a penalty: each by itself, and no other feels it."""
    paths, x, y, _ = on_disk(tmp_path)
    y = np.stack([x[:, 0] > 0, np.zeros(700), y[:, 0] > 0], axis=1).astype(int)
    values = jnp.array([0.0, 0.1])
    found = probes.sweep(logistic.fit, paths, y, l2=values)
    said = [Status.SEPARABLE, Status.CONVERGED, *[Status.CLASS_TOO_SMALL] * 2, 0, 0]
    assert found[1].status.reshape(-1).tolist() == said
    for target, j in ((0, 1), (2, 0), (2, 1)):
        agree(at(found, target, j), logistic.fit(x, y[:, target], l2=values[j]))
    assert np.all(found[0].weights[1] == 0) and np.all(found[0].bias[1] == -np.inf)


def test_a_pass_over_a_stream_serves_all_lanes(tmp_path, small_blocks):
    paths, _, y, _ = on_disk(tmp_path)
    y, read = np.maximum(y, 0), []

    class Counted(_source.Arrays):
        def fetch(self, size, start):
            read.append(start)
            return super().fetch(size, start)

    def passes(y, l2):
        read.clear()
        whole = _source.arrays(paths, y)
        probes.sweep(logistic.fit, Counted(*whole._given), None, l2=l2)
        return len(read)

    one, many = passes(y[:, :1], jnp.array([0.01])), passes(y, L2)
    assert one <= many <= one + 2


def test_a_sweep_of_a_stream_goes_on_from_its_checkpoint(tmp_path, small_blocks):
    paths, _, y, _ = on_disk(tmp_path)
    y, kept = np.maximum(y, 0), tmp_path / "kept.npz"
    expected = probes.sweep(logistic.fit, paths, y, l2=L2)

    class Broken(_source.Arrays):
        left = 12

        def fetch(self, size, start):
            Broken.left -= 1
            if not Broken.left:
                raise OSError("the disk is gone")
            return super().fetch(size, start)

    given = _source.arrays(paths, y)._given
    with pytest.raises(OSError, match="the disk is gone"):
        probes.sweep(logistic.fit, Broken(*given), None, l2=L2, checkpoint=kept)
    state = jaxlin.load(kept)
    assert state.stage == "axes, from lane 0" and state.steps > 0
    found = probes.sweep(logistic.fit, paths, y, l2=L2, checkpoint=kept)
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    with pytest.raises(ValueError, match="state: of another run"):
        probes.sweep(logistic.fit, paths, 1 - y, l2=L2, checkpoint=kept)


def test_lanes_of_a_stream_of_which_not_all_have_room_are_all_lanes(
    tmp_path, small_blocks, monkeypatch
):
    paths, _, y, _ = on_disk(tmp_path)
    y = np.maximum(y, 0)
    expected = probes.sweep(logistic.fit, paths, y, l2=L2)
    monkeypatch.setattr(_many_descents, "LANES_BYTES", 4 * 8 * (6 * 700 + 30 * (D + 1)))
    found = probes.sweep(logistic.fit, paths, y, l2=L2)
    for lane in np.ndindex(T, 3):
        agree(at(found, *lane), at(expected, *lane))


def test_a_lane_without_an_optimum_takes_no_other_along(tmp_path, small_blocks):
    paths, x, y, _ = on_disk(tmp_path)
    kept = tmp_path / "kept.npz"
    y = np.stack([x[:, 0] > 0, y[:, 0] > 0], axis=1).astype(int)
    found = probes.sweep(logistic.fit, paths, y, l2=jnp.array([0.0, 0.1]), checkpoint=kept)
    assert found[1].status[0, 0] == Status.SEPARABLE
    assert jaxlin.load(kept).leaves[0] < 20  # turns


def test_folds_of_a_stream_that_tell_nothing(tmp_path, small_blocks):
    """One that holds no row out, and one whose rows lack a class that others have."""
    paths, x, y, _ = on_disk(tmp_path)
    labels = np.maximum(y, 0).sum(axis=1)
    labels = np.where((labels == 3) & (np.arange(700) % 2 == 1), 2, labels)
    folds = np.stack([np.ones(700), np.arange(700) % 2, np.arange(700) % 2 == 0]).astype(float)
    given = {"l2": L2, "num_classes": 5}
    found = probes.select(softmax.fit, metrics.brier, paths, labels, folds, **given)
    expected = probes.select(softmax.fit, metrics.brier, x, labels, folds, **given)
    assert found[0].weights.shape == (5, D)
    np.testing.assert_allclose(found[2].values, expected[2].values, rtol=1e-7)
    np.testing.assert_allclose(found[2].errors, expected[2].errors, rtol=1e-6)


def test_what_a_stream_is_not_for_is_said(tmp_path):
    paths, x, y, weight = on_disk(tmp_path)
    y, source = np.maximum(y, 0), streaming.arrays(paths, np.maximum(y, 0))
    wrong = [
        ((x, y), {"progress": True}, TypeError, "checkpoint, progress"),
        ((source, y), {}, TypeError, "y, sample_weight: a source brings its own"),
        ((paths, y + 1), {}, ValueError, r"y is .*, not all in \{0, 1\}"),
        ((paths, y[:-1]), {}, ValueError, "y: expected 700 rows"),
        ((paths, y), {"sample_weight": weight[:, :2]}, ValueError, "weights of"),
        ((paths, y), {"sample_weight": 0 * weight}, ValueError, "no row has weight"),
        ((paths, y), {"sample_weight": weight * [1, 0, 1]}, ValueError, "target 1: no row"),
        ((paths, y.astype(float)), {}, TypeError, "several targets as integers"),
        ((paths, None), {}, TypeError, "y: expected the labels"),
        ((paths, y), {"max_steps": 3, "checkpoint": tmp_path / "c"}, ValueError, "one by one"),
    ]
    for data, options, error, said in wrong:
        with pytest.raises(error, match=said):
            probes.sweep(logistic.fit, *data, l2=L2, **options)
    with pytest.raises(TypeError, match="cannot be streamed"):
        probes.sweep(svm.fit, paths, y, l2=L2)
    for n in (699, 701):
        with pytest.raises(ValueError, match="weights: expected shape"):
            probes.select(logistic.fit, metrics.accuracy, paths, y, np.ones((2, n)), l2=L2)
    with pytest.raises(ValueError, match=r"weights of \("):
        probes.sweep(lda.fit, paths, y, sample_weight=weight[:, :2], shrinkage=0.1)
    with pytest.raises(TypeError, match="feature_mask: not for closed forms"):
        probes.sweep(lda.fit, paths, y, shrinkage=0.1, feature_mask=np.ones(D, bool))
    np.save(paths[0], np.zeros((300, D), "V2"))
    with pytest.raises(TypeError, match="bfloat16"):
        probes.sweep(logistic.fit, paths[0], y[:300], l2=L2)
    np.save(paths[1], x[:, :4])
    with pytest.raises(ValueError, match=r"parts: .* follows"):
        probes.sweep(logistic.fit, paths, y, l2=L2)

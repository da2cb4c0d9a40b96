"""Fits to data that come block by block, and what is saved between."""

import itertools
import pathlib
import threading
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlin
from jaxlin import (
    gaussian,
    lda,
    least_squares,
    logistic,
    moments,
    qda,
    softmax,
    solvers,
    streaming,
    svm,
    updates,
)
from jaxlin._data import _stream
from jaxlin._files import _source
from jaxlin.types import Hyperplane, Info, Status
from tests.public import thorough

N, D = 5003, 6


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(_source, "BLOCK_BYTES", 2**14)  # 256 rows, the least
    monkeypatch.setattr(_source, "SAMPLE_ROWS", 200)


def draw(dtype=np.float64):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, D)) + 5
    y = (x[:, 0] - 5 + 2 * rng.normal(size=N) > 0).astype(int)
    k3 = y + (rng.random(N) < 0.3)
    return x.astype(dtype), y, k3, rng.choice([0, 0.5, 1.0, 2.0], size=N)


def difference(a, b):
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return max(float(np.max(np.abs(p - q) / (1 + np.abs(q)))) for p, q in pairs)


def uneven(*arrays):
    """Blocks of 1 to 2,000 rows."""
    edges = [0, 1, 400, 401, 2400, N]
    return [tuple(a[i:j] for a in arrays) for i, j in itertools.pairwise(edges)]


FITS = {
    "logistic": (logistic.fit, 2, {}),
    "logistic, penalised": (logistic.fit, 2, {"l2": 0.1}),
    "logistic, L-BFGS": (logistic.fit, 2, {"l2": 0.1, "solver": solvers.lbfgs}),
    "logistic, L-BFGS, proved": (logistic.fit, 2, {"solver": solvers.lbfgs}),
    "logistic, L1": (logistic.fit, 2, {"l1": 0.02}),
    "softmax": (softmax.fit, 3, {}),
    "softmax, groups": (softmax.fit, 3, {"l1": 0.05, "groups": np.arange(D) // 2, "l2": 0.01}),
    "lda": (lda.fit, 3, {}),
    "qda": (qda.fit, 3, {"shrinkage": 0.1}),
    "gaussian": (gaussian.fit, 3, {}),
    "gaussian, tied": (gaussian.fit_tied, 3, {}),
    "least_squares": (least_squares.fit, 3, {"l2": 0.1}),
}
SELDOM = ("logistic, L-BFGS, proved", "softmax", "gaussian", "gaussian, tied")


@pytest.mark.parametrize("name", [thorough(n) if n in SELDOM else n for n in FITS])
@pytest.mark.parametrize("dtype", [np.float64, thorough(np.float32)])
def test_a_stream_is_the_whole(name, dtype):
    fit, k, options = FITS[name]
    x, y, k3, weight = draw(dtype)
    y = y if k == 2 else k3
    params, info = streaming.fit(fit, uneven(x, y, weight), **options)
    whole, whole_info = fit(x, y, sample_weight=weight, **options)
    assert info.status == whole_info.status == Status.CONVERGED
    tolerance = 1e-9 if dtype == np.float64 else 1e-5
    assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, whole)
    assert params[0].dtype == whole[0].dtype
    assert difference(params, whole) < tolerance
    assert difference(info.objective, whole_info.objective) < tolerance
    if "l1" in options:
        np.testing.assert_array_equal(params.weights == 0, whole.weights == 0)
        assert np.any(params.weights == 0) and np.any(params.weights != 0)


@pytest.mark.parametrize("tol", [None, 1e-3])
@pytest.mark.parametrize("fit, k", [(logistic.fit, 2), (softmax.fit, 3)])
def test_a_stream_takes_the_steps_of_the_whole(fit, k, tol):
    """A tol that is given ends both where it is passed."""
    x, y, k3, weight = draw()
    y = y if k == 2 else k3
    options = {"l2": 0.01, "tol": tol} | ({} if k == 2 else {"num_classes": k})
    _, info = streaming.fit(fit, uneven(x, y, weight), **options)
    _, whole = fit(x, y, sample_weight=weight, **options)
    assert info.steps == whole.steps > 1
    options["tol"] = None
    assert tol is None or info.steps < streaming.fit(fit, uneven(x, y, weight), **options)[1].steps


def test_a_partial_of_a_fit_is_streamed():
    x, _, y, weight = draw()
    bound = partial(softmax.fit, num_classes=3, l2=0.1)
    params, _ = streaming.fit(bound, uneven(x, y, weight))
    plain, _ = streaming.fit(softmax.fit, uneven(x, y, weight), l2=0.1)
    assert difference(params, plain) == 0
    params, _ = streaming.fit(partial(qda.fit, shrinkage=0.1), uneven(x, y, weight))
    assert difference(params, streaming.fit(qda.fit, uneven(x, y, weight), shrinkage=0.1)[0]) == 0


def test_sources_agree(tmp_path):
    x, y, _, weight = draw()
    for name, a in {"x": x, "y": y, "weight": weight}.items():
        np.save(tmp_path / f"{name}.npy", a)
    files = (tmp_path / f"{name}.npy" for name in ("x", "y"))
    found = [
        streaming.fit(lda.fit, source)[0]
        for source in (
            streaming.arrays(x, y, sample_weight=weight),
            streaming.arrays(*files, sample_weight=tmp_path / "weight.npy"),
            uneven(x, y, weight),
            lambda: iter(uneven(x, y, weight)),
        )
    ]
    for other in found[1:]:
        assert difference(found[0], other) < 1e-12


def test_statuses_and_options():
    x, y, k3, weight = draw()
    apart = np.where(y[:, None] > 0, 1.0, -1.0) * (1 + np.abs(x - 5))
    twice = np.concatenate([x[:, :-1], x[:, :1]], axis=1)
    mask = np.arange(D) != 2
    holed = np.where(mask, x, np.nan)
    absent = np.where(weight[:, None] > 0, x, np.nan)
    cases = (
        (apart, y, None, {}, Status.SEPARABLE),
        (twice, y, None, {}, Status.RANK_DEFICIENT),
        (x, 0 * y, None, {}, Status.CLASS_TOO_SMALL),
        (holed, y, None, {"feature_mask": mask}, Status.CONVERGED),
        (absent, y, weight, {"l1": None}, Status.CONVERGED),
        (x, y, None, {"max_steps": 1}, Status.MAX_STEPS),
        (x, y / 2 + 0.25, None, {"bias": False}, Status.CONVERGED),
        (holed, y, None, {"feature_mask": mask, "l1": 0.02}, Status.CONVERGED),
        (x, 0 * y, None, {"l1": 0.02}, Status.CLASS_TOO_SMALL),
        (apart, y, None, {"l1": np.array([0, 0.1, 0.1, 0.1, 0.1, 0.1])}, Status.SEPARABLE),
    )
    for data, labels, given, options, status in cases:
        params, info = streaming.fit(
            logistic.fit, streaming.arrays(data, labels, sample_weight=given), **options
        )
        whole, whole_info = logistic.fit(data, labels, sample_weight=given, **options)
        assert info.status == whole_info.status == status
        if status <= Status.RANK_DEFICIENT:
            assert difference(params, whole) < 1e-9
    params, _ = streaming.fit(softmax.fit, [(x, np.where(k3 == 1, 0, k3))], num_classes=4, l2=0.1)
    assert np.isneginf(params.bias).tolist() == [False, True, False, True]


RUNS = {
    "newton": {"solver": solvers.newton},
    "lbfgs": {"solver": solvers.lbfgs},
    "l1": {"l1": 0.02},
}


@pytest.mark.parametrize("run", RUNS)
def test_an_interrupted_run_ends_where_the_whole_one_does(run, tmp_path):
    x, y, _, _ = draw()
    source, path = streaming.arrays(x, y), tmp_path / "run.npz"
    options = RUNS[run] | {"l2": 0.01}
    whole = streaming.fit(logistic.fit, source, **options)

    def stop(state):
        if state.steps == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        streaming.fit(logistic.fit, source, checkpoint=path, each=stop, **options)
    state = jaxlin.load(path)
    assert isinstance(state, streaming.State) and state.steps == 2
    seen = []
    resumed = streaming.fit(logistic.fit, source, state=state, each=seen.append, **options)
    assert min(s.steps for s in seen) == 3
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(resumed), strict=True):
        np.testing.assert_array_equal(a, b)
    again = streaming.fit(logistic.fit, source, checkpoint=path, **options)
    np.testing.assert_array_equal(again[0].weights, whole[0].weights)
    # What has ended stays as it is, without another step.
    streaming.fit(logistic.fit, source, checkpoint=path, each=pytest.fail, **options)
    other = np.where(np.arange(N)[:, None] == 9, x + 1, x)
    for rows, l2 in ((streaming.arrays(other, y), 0.01), (source, 0.02)):
        with pytest.raises(ValueError, match="state: of another run"):
            streaming.fit(logistic.fit, rows, state=state, **RUNS[run], l2=l2)
    if "l1" in options:
        with pytest.raises(ValueError, match="state: of another run, whose options differ"):
            streaming.fit(logistic.fit, source, state=state, l1=0.03, l2=0.01)


def test_reading_goes_ahead():
    """While a block is worked on, the next is on its way."""
    started, go_on = threading.Event(), threading.Event()

    def fetch(start):
        for i in range(start, 3):
            if i == 1:
                started.set()
                assert go_on.wait(10)
            yield np.full((2, 1), float(i)), np.zeros(2, np.int32), np.ones(2)

    form = _stream.Form(n=6, d=1, size=2, dtype=np.dtype(float), labels=0)
    reader = _stream.Reader(form, fetch)
    try:
        assert reader.block(0)[0][0, 0] == 0
        assert started.wait(10)  # nobody has asked for block 1 yet
        go_on.set()
        # Any order is served.
        assert [reader.block(i)[0][0, 0] for i in (1, 2, 0, 2, 1)] == [1, 2, 0, 2, 1]
    finally:
        reader.close()


def test_online():
    x, y, _, weight = draw()
    plane = Hyperplane(weights=jnp.zeros(D), bias=jnp.zeros(()))
    options = {"step_size": 0.01}
    whole, mistakes = updates.run(updates.logistic, plane, x, y, sample_weight=weight, **options)
    found, seen = streaming.run(updates.logistic, plane, iter(uneven(x, y, weight)), **options)
    assert difference(found, whole) < 1e-12 and seen == mistakes


def test_moments_of():
    x, _, k3, weight = draw()
    for of in (moments.tied, moments.per_class):
        found = streaming.moments_of(of, uneven(x, k3, weight))
        assert difference(found, of(x, k3, sample_weight=weight)) < 1e-10
    found = streaming.moments_of(moments.regression, uneven(x, x[:, 0] ** 2, weight))
    assert difference(found, moments.regression(x, x[:, 0] ** 2, sample_weight=weight)) < 1e-10


def test_progress(capsys):
    pytest.importorskip("tqdm")
    x, y, _, _ = draw()
    streaming.fit(logistic.fit, [(x, y)], l2=0.1, progress=True)
    shown = capsys.readouterr().err
    assert "pass" in shown and "residual=" in shown


# --- bad input -----------------------------------------------------------------------------------


def eight(change):
    """Ten blocks of 20 rows, of which number 7 was changed."""
    rng = np.random.default_rng(0)
    blocks = [[rng.normal(size=(20, 3)), rng.integers(2, size=20), np.ones(20)] for _ in range(10)]
    change(blocks[7])
    return [tuple(block) for block in blocks]


def put(which, at, value):
    def change(block):
        block[which][at] = value

    return change


def instead(which, value):
    def change(block):
        block[which] = value(block[which])

    return change


@pytest.mark.parametrize("fit", [logistic.fit, lda.fit])
@pytest.mark.parametrize(
    "change, error, message",
    [
        (put(0, (12, 2), np.nan), ValueError, "block 7, row 12: x in column 2 is nan"),
        (put(2, 3, -1), ValueError, r"block 7, row 3: the weight is -1\.0"),
        (put(1, 4, 5), ValueError, r"block 7, row 4: y is 5, not in 0\.\.1"),
        (instead(0, lambda x: x[:, :2]), ValueError, "block 7: x has 2 columns, and had 3 before"),
        (
            instead(0, lambda x: x.astype(np.float32)),
            TypeError,
            "block 7: x is float32, and was float64 before",
        ),
        (instead(1, lambda y: y[:5]), ValueError, "block 7: 20 rows of x, but y of shape"),
        (instead(0, lambda x: x[0]), ValueError, r"block 7: expected x of shape \(rows, d\)"),
    ],
)
def test_what_is_wrong_is_named(fit, change, error, message):
    with pytest.raises(error, match=message):
        streaming.fit(fit, eight(change), num_classes=2)


def test_sources_that_are_none(tmp_path):
    x, y, _, _ = draw()
    with pytest.raises(ValueError, match="source: it holds no rows"):
        streaming.fit(logistic.fit, [])
    with pytest.raises(ValueError, match="source: no row has weight"):
        streaming.fit(lda.fit, [(x, y, np.zeros(N))], num_classes=2)
    with pytest.raises(TypeError, match="an iterator can be gone through once"):
        streaming.fit(logistic.fit, iter([(x, y)]))
    with pytest.raises(TypeError, match="l1: not for closed forms; of a stream logistic and"):
        streaming.fit(least_squares.fit, [(x, y)], l1=0.1)
    with pytest.raises(ValueError, match="l1: a stream takes it with at most 2,048 coefficients"):
        streaming.fit(logistic.fit, [(np.zeros((4, 2048)), y[:4])], l1=0.1)
    with pytest.raises(ValueError, match="groups: expected l1 too"):
        streaming.fit(logistic.fit, [(x, y)], groups=np.arange(D))
    with pytest.raises(ValueError, match="l1: expected finite numbers >= 0"):
        streaming.fit(logistic.fit, [(x, y)], l1=-0.1)
    with pytest.raises(TypeError, match=r"jaxlin\.svm\.fit cannot be streamed"):
        streaming.fit(svm.fit, [(x, y)])
    with pytest.raises(TypeError, match=r"expected blocks \(x, y\)"):
        streaming.fit(logistic.fit, [x])
    with pytest.raises(ValueError, match="l2: expected finite numbers >= 0"):
        streaming.fit(logistic.fit, [(x, y)], l2=-1.0)
    whole = tmp_path / "x.npy"
    np.save(whole, x)
    cut = tmp_path / "cut.npy"
    cut.write_bytes(whole.read_bytes()[:-1000])
    with pytest.raises(ValueError, match=r"cut\.npy: not a whole \.npy file"):
        streaming.arrays(cut, y)
    with pytest.raises(ValueError, match="y: expected 5003 rows"):
        streaming.arrays(whole, y[:-1])


def test_an_error_while_reading_comes_through():
    x, y, _, _ = draw()
    passes = itertools.count()

    def source():
        if next(passes) > 2:
            raise OSError("the disk has gone")
        return iter(uneven(x, y))

    with pytest.raises(OSError, match="the disk has gone"):
        streaming.fit(logistic.fit, source)


def test_csv(tmp_path):
    x, _, k3, _ = draw()
    path = tmp_path / "data.csv"
    names = ["zero", "one", "two"]
    lines = [",".join([*map(repr, row.tolist()), names[c]]) for row, c in zip(x, k3, strict=True)]
    path.write_text("\n".join([",".join([*"abcdef", "kind"]), *lines]) + "\n")
    source = streaming.csv(path)
    assert source.classes == {"one": 0, "two": 1, "zero": 2}
    source = streaming.csv(path, target="kind", classes=names)
    found, _ = streaming.fit(softmax.fit, source, l2=0.1)
    assert difference(found, softmax.fit(x, k3, l2=0.1)[0]) < 1e-9
    lines[4000] = "1,2,3"
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r"\(line 4001\) has 3 cells, expected 7"):
        streaming.csv(path)
    lines[4000] = "1,2,3,4,x,6,one"
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r"\(line 4001\), column 'column 5'.*'x' is no number"):
        streaming.csv(path, target=-1)
    with pytest.raises(ValueError, match="no column 'sort'"):
        streaming.csv(path, target="sort")


# --- files ---------------------------------------------------------------------------------------


def saved(tree, folder):
    jaxlin.save(folder / "tree.npz", tree)
    return jaxlin.load(folder / "tree.npz")


def test_everything_comes_back(tmp_path):
    x, y, _, _ = draw()
    for tree in (
        logistic.fit(x, y),
        qda.fit(x, y),
        gaussian.fit_tied(x, y),
        moments.per_class(x, y),
        {"a": [1, 2.5, None, True, "text"], "b": (jnp.float32(0.1), np.int8([1, 2]))},
        jnp.array([0.1, jnp.inf], jnp.bfloat16),
        jax.vmap(lambda l2: logistic.fit(x, y, l2=l2))(jnp.array([0.1, 1.0])),
    ):
        back = saved(tree, tmp_path)
        assert jax.tree.structure(back) == jax.tree.structure(tree)
        for a, b in zip(jax.tree.leaves(back), jax.tree.leaves(tree), strict=True):
            assert np.asarray(a).dtype == np.asarray(b).dtype
            np.testing.assert_array_equal(a, b)
    key = jax.random.key(7)
    np.testing.assert_array_equal(jax.random.normal(saved(key, tmp_path)), jax.random.normal(key))


def test_nothing_is_pickled(tmp_path):
    with pytest.raises(TypeError, match=r"tree\['f'\]: cannot save a function"):
        jaxlin.save(tmp_path / "f.npz", {"f": saved})
    with pytest.raises(TypeError, match="cannot save a ndarray of dtype object"):
        jaxlin.save(tmp_path / "o.npz", np.array([saved], object))
    np.savez(tmp_path / "evil.npz", tree=np.array([saved.__name__, None], object))
    for text in ("evil.npz",):
        with pytest.raises(ValueError, match="not a file that jaxlin"):
            jaxlin.load(tmp_path / text)
    bad = '{"type": "types.FitError", "fields": {}}'
    np.savez(tmp_path / "type.npz", tree=np.array(bad))
    with pytest.raises(ValueError, match="not a file that jaxlin"):
        jaxlin.load(tmp_path / "type.npz")
    with pytest.raises(FileNotFoundError):
        jaxlin.load(tmp_path / "none.npz")


def test_a_failed_save_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "params.npz"
    jaxlin.save(path, {"steps": 1})

    def full(file, **arrays):
        file.write(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space left"):
        jaxlin.save(path, {"steps": 2})
    assert jaxlin.load(path) == {"steps": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["params.npz"]
    # And a file that was cut off says so.
    whole = pathlib.Path(path).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"params\.npz: not a file that jaxlin\.save wrote whole"):
        jaxlin.load(path)


def test_info_is_saved_like_params(tmp_path):
    info = Info(*(jnp.asarray(a) for a in (0, 3, 0.5, 1e-12)))
    assert isinstance(saved(info, tmp_path), Info)


# --- found by attack -----------------------------------------------------------------------------


def test_a_checkpoint_knows_its_mask(tmp_path):
    x, y, _, _ = draw()
    path, mask = tmp_path / "run.npz", np.arange(D) != 1
    streaming.fit(logistic.fit, [(x, y)], checkpoint=path, feature_mask=mask)
    with pytest.raises(ValueError, match="state: of another run"):
        streaming.fit(logistic.fit, [(x, y)], checkpoint=path)
    with pytest.raises(ValueError, match="state: of another run"), jax.enable_x64(False):
        streaming.fit(logistic.fit, [(x, y)], checkpoint=path, feature_mask=mask)
    jaxlin.save(path, mask)
    with pytest.raises(ValueError, match="state: expected a State"):
        streaming.fit(logistic.fit, [(x, y)], checkpoint=path)
    with pytest.raises(ValueError, match="checkpoint: a closed form takes one pass"):
        streaming.fit(lda.fit, [(x, y)], checkpoint=path)


def test_labels_and_weights_at_the_edge():
    x, y, _, _ = draw(np.float32)
    soft, weight = np.where(np.arange(N) == 700, np.nan, y * 0.9), 1.0 * (np.arange(N) != 700)
    cases = (
        (soft, weight, Status.CONVERGED),
        (np.where(np.arange(N) == 700, 99, y), weight, Status.CONVERGED),
        (y, np.full(N, 1e34, np.float32), Status.CONVERGED),
        (y, np.where(y == 1, 1e-60, 1.0), Status.CLASS_TOO_SMALL),
        (y, np.where(y == 1, 1e-44, 1.0).astype(np.float32), Status.CLASS_TOO_SMALL),
    )
    for labels, given, status in cases:
        params, info = streaming.fit(logistic.fit, [(x, labels, given)], l2=0.1)
        whole, whole_info = logistic.fit(x, labels, sample_weight=given, l2=0.1)
        assert info.status == whole_info.status == status
        if status == Status.CONVERGED:
            assert difference(params, whole) < 1e-4


@pytest.mark.parametrize("rows, message", [(400, "it gave fewer rows"), (700, "it gave more rows")])
def test_a_source_that_changes_is_noticed(rows, message):
    x, y, _, _ = draw()
    lengths = itertools.chain([600, 600], itertools.repeat(rows))

    def source():
        n = next(lengths)
        return [(x[:n], y[:n])]

    with pytest.raises(ValueError, match=message):
        streaming.fit(logistic.fit, source)
    calls = itertools.count()

    def spoiled():
        late = next(calls) > 1
        return [(np.where(late & (np.arange(D) == 2), np.nan, x), y)]

    with pytest.raises(ValueError, match=r"block \d+, row 0: x in column 2 is nan"):
        streaming.fit(logistic.fit, spoiled)


def test_what_cannot_come_back_is_not_saved(tmp_path):
    back = saved(np.arange(3.0).astype(">f8"), tmp_path)
    np.testing.assert_array_equal(back, np.arange(3.0))
    for a in (
        np.ones(3, np.longdouble),
        np.zeros(3, [("a", "f8")]),
        np.zeros(2, "V4"),
        np.ma.array([1.0, 2.0], mask=[True, False]),
        np.array(["a"]),
    ):
        with pytest.raises(TypeError, match=r"tree\['a'\]: cannot save a "):
            jaxlin.save(tmp_path / "a.npz", {"a": a})
    link = tmp_path / "link.npz"
    link.symlink_to(tmp_path / "tree.npz")
    jaxlin.save(link, {"linked": True})
    assert link.is_symlink() and jaxlin.load(tmp_path / "tree.npz") == {"linked": True}

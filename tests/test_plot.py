"""What is drawn: boundaries where scores are 0, rings around support vectors, bins as counted."""

import builtins
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlin
from jaxlin import (
    datasets,
    features,
    fisher,
    gaussian,
    lda,
    linear,
    logistic,
    metrics,
    multiclass,
    plot,
    qda,
    softmax,
    solvers,
    svm,
)

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from matplotlib import pyplot  # noqa: E402
from matplotlib.colors import to_rgb  # noqa: E402
from matplotlib.contour import ContourSet  # noqa: E402

IRIS = datasets.iris()
X, Y = IRIS.x[:, :2], IRIS.y
NAMES = IRIS.class_names
BINARY = (X[50:], Y[50:] - 1)  # which overlap
EASY = (X[:100], Y[:100])  # which a line separates

FITS = {
    "Linear": lda.fit,
    "Quadratic": qda.fit,
    "Gaussian": gaussian.fit,
    "TiedGaussian": gaussian.fit_tied,
    "Pairwise": multiclass.one_vs_one(fisher.fit),
}


@pytest.fixture(autouse=True)
def close():
    yield
    pyplot.close("all")


def lines_of(ax):
    """The points on the lines that `contour` drew, by level."""
    found = {}
    for drawn in ax.collections:
        if isinstance(drawn, ContourSet) and not drawn.filled:
            for level, path in zip(drawn.levels, drawn.get_paths(), strict=True):
                found.setdefault(float(level), []).append(path.vertices)
    return {level: np.concatenate(many) for level, many in found.items()}


def scattered(ax):
    return [drawn for drawn in ax.collections if not isinstance(drawn, ContourSet)]


def cell(x):
    return 1.2 * np.ptp(x, axis=0) / plot.GRID


# --- regions -------------------------------------------------------------------------------------


def test_the_boundary_of_a_plane_is_where_the_score_is_0():
    params, _ = logistic.fit(*BINARY)
    line = lines_of(plot.regions(params, *BINARY))[0.0]
    assert len(line) > 100
    assert np.abs(linear.distances(params, line)).max() < 1e-6


@pytest.mark.parametrize("kind", FITS)
def test_the_prediction_changes_at_the_boundary_and_nowhere_else(kind):
    params, info = FITS[kind](X, Y, num_classes=3)
    jaxlin.raise_if_failed(info)
    assert type(params).__name__ == kind
    ax = plot.regions(params, X, Y)
    line = lines_of(ax)[0.0]
    around = line[:, None, :] + 2 * cell(X) * np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]])
    predicted = np.asarray(jaxlin.predict(params, around))
    assert (predicted.min(axis=1) < predicted.max(axis=1)).mean() > 0.98
    # And wherever it changes between neighbours, a line is near.
    across = np.linspace(*ax.get_xlim(), 80)
    up = np.linspace(*ax.get_ylim(), 80)
    coarse = np.stack(np.meshgrid(across, up), -1)
    predicted = np.asarray(jaxlin.predict(params, coarse))
    changes = coarse[:, :-1][predicted[:, 1:] != predicted[:, :-1]]
    step = np.array([across[1] - across[0], up[1] - up[0]])
    away = np.abs((changes[:, None] - line[None]) / step).max(axis=-1).min(axis=1)
    assert len(changes) > 50 and away.max() < 1.1


@pytest.mark.parametrize("kind", [k for k in FITS if k != "Pairwise"])
def test_at_the_boundary_the_two_largest_scores_are_equal(kind):
    params, _ = FITS[kind](X, Y, num_classes=3)
    line = lines_of(plot.regions(params, X, Y))[0.0]
    s = np.sort(jaxlin.scores(params, line), axis=1)
    typical = np.abs(np.diff(np.sort(jaxlin.scores(params, X), axis=1)[:, 1:])).mean()
    assert np.quantile(s[:, 2] - s[:, 1], 0.98) < 0.01 * typical


def test_all_rows_are_drawn_in_the_colours_and_markers_of_their_classes():
    params, _ = lda.fit(X, Y)
    drawn = scattered(plot.regions(params, X, Y, class_names=NAMES))
    assert [len(each.get_offsets()) for each in drawn] == [50, 50, 50]
    for c, each in enumerate(drawn):
        np.testing.assert_array_equal(each.get_offsets(), X[c == Y])
        np.testing.assert_allclose(each.get_facecolor()[0, :3], to_rgb(plot.COLORS[c]))
    shapes = {each.get_paths()[0].vertices.tobytes() for each in drawn}
    assert len(shapes) == 3


def test_a_map_of_features_is_drawn_as_the_curve_that_it_is():
    x, y = datasets.ball(jax.random.key(0), 40, 2)
    circle = features.ball_hyperplane(jnp.zeros(2), 1.0)
    line = lines_of(plot.regions(circle, x, y, transform=features.ball))[0.0]
    np.testing.assert_allclose(np.linalg.norm(line, axis=1), 1.0, atol=1e-3)


def test_a_class_without_rows_is_nowhere():
    params, _ = softmax.fit(*BINARY, num_classes=3, l2=0.1)
    ax = plot.regions(params, *BINARY)
    filled = [each for each in ax.collections if isinstance(each, ContourSet) and each.filled]
    assert len(filled) == 2
    between = linear.between(params, 0, 1)
    assert np.abs(linear.distances(between, lines_of(ax)[0.0])).max() < 1e-6


def test_one_class_everywhere_has_no_boundary():
    plane = jaxlin.Hyperplane(weights=jnp.zeros(2), bias=jnp.array(1.0))
    assert not lines_of(plot.regions(plane, *BINARY))


def test_params_of_a_failed_fit_are_named():
    lost = jaxlin.Hyperplane(weights=jnp.full(2, jnp.nan), bias=jnp.array(1.0))
    with pytest.raises(ValueError, match=r"params: expected finite ones.*info\.status"):
        plot.regions(lost, *BINARY)


def test_single_precision_params():
    params = jaxlin.Hyperplane(*(jnp.asarray(a, jnp.float32) for a in logistic.fit(*BINARY)[0]))
    assert len(lines_of(plot.regions(params, *BINARY))[0.0]) > 100
    with jax.numpy_dtype_promotion("standard"):
        assert len(lines_of(plot.margins(params, *BINARY))) == 3


# --- margins -------------------------------------------------------------------------------------


def fit_soft(x, y):
    return svm.fit(x, y, l2=0.01)


@pytest.mark.parametrize("fit, data", [(svm.fit_hard_margin, EASY), (fit_soft, BINARY)])
def test_the_street(fit, data):
    params, info = fit(*data)
    jaxlin.raise_if_failed(info)
    ax = plot.margins(params, *data, class_names=["zero", "one"])
    for level, line in lines_of(ax).items():
        np.testing.assert_allclose(linear.scores(params, line), level, atol=1e-5)
    assert set(lines_of(ax)) == {-1.0, 0.0, 1.0}
    held = np.asarray(svm.support(params, *data))
    rings = scattered(ax)[-1]
    assert 2 < held.sum() == len(rings.get_offsets()) < len(held)
    np.testing.assert_array_equal(rings.get_offsets(), data[0][held])
    assert rings.get_facecolor().size == 0
    assert legend_of(ax) == ["zero", "one", "support vector"]


def test_the_street_of_a_map_of_features():
    x, y = datasets.ball(jax.random.key(0), 40, 2)
    params, _ = svm.fit_hard_margin(features.ball(x), y)
    ax = plot.margins(params, x, y, transform=features.ball)
    held = svm.support(params, features.ball(x), y)
    assert len(scattered(ax)[-1].get_offsets()) == held.sum()
    s = linear.scores(params, features.ball(jnp.asarray(lines_of(ax)[1.0])))
    np.testing.assert_allclose(s, 1.0, atol=0.01)


def test_only_planes_have_a_street():
    with pytest.raises(TypeError, match="expected a Hyperplane, got Linear"):
        plot.margins(lda.fit(X, Y)[0], X, Y)


# --- projections ---------------------------------------------------------------------------------


def test_two_directions_are_points():
    axes = fisher.directions(IRIS.x, Y)
    ax = plot.projections(axes, IRIS.x, Y, class_names=NAMES)
    drawn = np.concatenate([each.get_offsets() for each in scattered(ax)])
    np.testing.assert_allclose(drawn, IRIS.x @ np.asarray(axes))


@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_one_direction_is_a_histogram_of_each_class(shape):
    axes = np.asarray(fisher.directions(IRIS.x, Y))[:, 0].reshape(shape)
    ax = plot.projections(axes, IRIS.x, Y, class_names=NAMES)
    heights = [
        np.bincount(_bins(IRIS.x[c == Y] @ axes.ravel(), ax), minlength=30) for c in range(3)
    ]
    tops = [patch.get_xy()[:, 1].max() for patch in ax.patches[::2]]
    assert tops == [height.max() for height in heights]
    assert legend_of(ax) == list(NAMES)


def _bins(values, ax):
    edges = np.unique(ax.patches[0].get_xy()[:, 0])
    inner = np.concatenate([patch.get_xy()[:, 0] for patch in ax.patches])
    edges = np.unique(np.concatenate([edges, inner]))
    assert len(edges) == plot.NUM_BINS + 1
    return np.clip(np.searchsorted(edges, values, side="right") - 1, 0, plot.NUM_BINS - 1)


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 2)])
def test_directions_that_do_not_fit(shape):
    with pytest.raises(ValueError, match=r"axes: expected shape \(4,\), \(4, 1\) or \(4, 2\), got"):
        plot.projections(np.ones(shape), IRIS.x, Y)


# --- convergence ---------------------------------------------------------------------------------


def bowl(params):
    return jnp.sum(jnp.cosh(params * jnp.array([1.0, 3.0])))


def test_curves_are_what_was_traced():
    _, value, residual = solvers.trace(solvers.newton, bowl, jnp.ones(2), num_steps=20)
    ax = plot.convergence({"Newton": residual})
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), np.arange(21))
    drawn = ax.lines[0].get_ydata()
    np.testing.assert_array_equal(drawn[np.isfinite(drawn)], residual[residual > 0])
    assert ax.get_yscale() == "log" and ax.get_ylabel() == "residual"

    at = {"Newton": np.linspace(0, 1, 21)}
    ax = plot.convergence({"Newton": value}, at=at, floor=2.0, xlabel="seconds", ylabel="excess")
    drawn = ax.lines[0].get_ydata()
    np.testing.assert_array_equal(drawn[np.isfinite(drawn)], (value - 2)[value > 2])
    assert 0 < np.isfinite(drawn).sum() < 21  # it arrives
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), at["Newton"])
    assert (ax.get_xlabel(), ax.get_ylabel(), legend_of(ax)) == ("seconds", "excess", ["Newton"])


def test_solvers_differ_in_colour_and_in_line():
    ax = plot.convergence({name: np.geomspace(1, 1e-3, 5 + i) for i, name in enumerate("abcd")})
    assert len({line.get_color() for line in ax.lines}) == 4
    assert len({line.get_linestyle() for line in ax.lines}) == 4


def test_places_that_do_not_fit():
    with pytest.raises(ValueError, match=r"curves: expected a of shape .* got \(3,\) and \(2,\)"):
        plot.convergence({"a": np.ones(3)}, at={"a": np.ones(2)})


# --- calibration ---------------------------------------------------------------------------------


def drawn_scores(n=400):
    rng = np.random.default_rng(0)
    s = 2 * rng.normal(size=n)
    y = (rng.random(n) < 1 / (1 + np.exp(-s / 2))).astype(int)
    return s, y, rng.choice([0.0, 0.5, 1.0, 3.0], size=n)


def expected_bins(p, y, weight, num_bins):
    found = []
    for low in np.arange(num_bins) / num_bins:
        rows = (p >= low) & (p < low + 1 / num_bins) & (weight > 0)
        if rows.any():
            found.append([np.average(a[rows], weights=weight[rows]) for a in (p, y)])
    return np.array(found)


@pytest.mark.parametrize("num_bins", [4, 10])
@pytest.mark.parametrize("weighted", [False, True])
def test_each_bin_is_a_point(weighted, num_bins):
    s, y, weight = drawn_scores()
    p = 1 / (1 + np.exp(-s))
    weight = weight if weighted else np.ones_like(s)
    ax = plot.calibration(s, y, sample_weight=weight if weighted else None, num_bins=num_bins)
    bins = expected_bins(p, y, weight, num_bins)
    np.testing.assert_allclose(ax.collections[0].get_offsets(), bins, rtol=1e-12)
    np.testing.assert_allclose(np.stack(ax.lines[1].get_data(), 1), bins, rtol=1e-12)


def test_probabilities_are_taken_as_they_are():
    s, y, _ = drawn_scores()
    p = 1 / (1 + np.exp(-s))
    one = plot.calibration(s, y).collections[0].get_offsets()
    other = plot.calibration(p, y, link=lambda p: p).collections[0].get_offsets()
    np.testing.assert_allclose(one, other, rtol=1e-12)
    sure = plot.calibration(np.array([0.0, 1.0]), np.array([0, 1]), link=lambda p: p)
    assert sure.collections[0].get_offsets().tolist() == [[0, 0], [1, 1]]


def test_rows_of_no_weight_are_absent_whatever_they_hold():
    s, y, weight = drawn_scores()
    spoiled, labels = np.where(weight == 0, np.nan, s), np.where(weight == 0, 7, y)
    one = plot.calibration(s, y, sample_weight=weight).collections[0]
    other = plot.calibration(spoiled, labels, sample_weight=weight).collections[0]
    np.testing.assert_array_equal(one.get_offsets(), other.get_offsets())
    np.testing.assert_array_equal(one.get_sizes(), other.get_sizes())


def test_a_second_method_on_the_same_axes():
    s, y, _ = drawn_scores()
    ax = plot.calibration(s, y, label="steep")
    assert plot.calibration(s / 2, y, label="right", ax=ax) is ax
    assert legend_of(ax) == ["steep", "right"]
    assert len(ax.lines) == 3  # one diagonal
    assert len({tuple(each.get_facecolor()[0]) for each in ax.collections}) == 2


@pytest.mark.parametrize(
    "words, call",
    [
        ("probabilities in", lambda: plot.calibration([2.0], [1], link=lambda p: p)),
        ("probabilities in", lambda: plot.calibration([np.nan], [1])),
        ("y: expected 0 and 1", lambda: plot.calibration([0.5], [2])),
        ("expected shapes", lambda: plot.calibration([0.5], [1, 0])),
        ("nonnegative", lambda: plot.calibration([0.5], [1], sample_weight=[-1])),
        ("some above 0", lambda: plot.calibration([0.5], [1], sample_weight=[0])),
        ("sample_weight: expected shape", lambda: plot.calibration([0.5], [1], sample_weight=[])),
    ],
)
def test_calibration_of_bad_data(words, call):
    with pytest.raises(ValueError, match=words):
        call()


# --- all of them ---------------------------------------------------------------------------------


def plane():
    return logistic.fit(*BINARY)[0]


# --- curves ---------------------------------------------------------------------------------------


def test_curves_go_through_their_points():
    s, y, weight = drawn_scores()
    wild = np.where(weight == 0, np.nan, s)
    curve = metrics.roc_curve(wild, y, sample_weight=weight)
    ax = plot.roc(wild, y, sample_weight=weight, label="a")
    np.testing.assert_array_equal(ax.lines[1].get_data(), curve[:2])
    assert plot.roc(-s, y, label="b", ax=ax) is ax and len(ax.lines) == 3
    assert legend_of(ax) == ["a", "b"]
    precision, recall, _ = metrics.precision_recall_curve(s, y)
    (line,) = plot.precision_recall(s, y).lines
    np.testing.assert_array_equal(line.get_data(), [recall, precision])
    # Each step's height is the precision where it ends, as the average precision counts it.
    assert line.get_drawstyle() == "steps-pre"


@pytest.mark.parametrize("curve", [plot.roc, plot.precision_recall])
def test_a_curve_of_bad_data(curve):
    for s, y in (([np.nan, 1.0], [0, 1]), ([0.0, 1.0], [0, 2]), ([0.0, 1.0], [0, 0])):
        with pytest.raises(ValueError, match="some of each class"):
            curve(np.array(s), np.array(y))


ALL = {
    "points": lambda **ax: plot.points(*BINARY, **ax),
    "regions": lambda **ax: plot.regions(plane(), *BINARY, **ax),
    "margins": lambda **ax: plot.margins(plane(), *BINARY, **ax),
    "projections": lambda **ax: plot.projections(plane().weights, *BINARY, **ax),
    "convergence": lambda **ax: plot.convergence({"a": np.ones(3)}, **ax),
    "calibration": lambda **ax: plot.calibration(np.ones(3), np.array([0, 1, 1]), **ax),
    "roc": lambda **ax: plot.roc(np.ones(3), np.array([0, 1, 1]), **ax),
    "precision_recall": lambda **ax: plot.precision_recall(np.ones(3), np.array([0, 1, 1]), **ax),
}


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.parametrize("name", ALL)
def test_axes_are_respected(name):
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    assert ALL[name](ax=ax) is ax
    assert not pyplot.get_fignums()  # no figure but ours
    assert ax.has_data() and ax.get_xlabel() and ax.get_ylabel()
    assert ALL[name]() is not ax
    assert len(pyplot.get_fignums()) == 1


@pytest.mark.parametrize("name", ["points", "regions", "margins", "projections"])
def test_without_names_there_is_no_legend(name):
    assert ALL[name]().get_legend() is None


@pytest.mark.parametrize("name", ["points", "regions", "margins"])
def test_features_have_names(name):
    ax = ALL[name](feature_names=["length", "width"])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("length", "width")


@pytest.mark.parametrize("draw", [plot.points, lambda x, y: plot.regions(plane(), x, y)])
def test_shapes_are_checked(draw):
    with pytest.raises(ValueError, match=r"x: expected shape \(n, 2\).* got \(150, 4\)"):
        draw(IRIS.x, Y)
    with pytest.raises(ValueError, match=r"y: expected shape \(150,\)"):
        draw(X, Y[:5])
    with pytest.raises(ValueError, match=r"x: expected shape \(n, d\), got \(2,\)"):
        draw(X[0], Y[:2])
    with pytest.raises(ValueError, match="at least one row of finite numbers"):
        draw(np.full((2, 2), np.nan), Y[:2])


def test_rows_that_are_not_finite_are_left_out():
    x = np.where(np.arange(len(X))[:, None] == 0, np.nan, X)
    assert sum(len(each.get_offsets()) for each in scattered(plot.points(x, Y))) == 149


@pytest.mark.parametrize("name", ALL)
def test_without_matplotlib_the_message_says_what_to_install(name, monkeypatch):
    ours = builtins.__import__

    def refuse(module, *rest):
        if module.split(".")[0] == "matplotlib":
            raise ImportError(module)
        return ours(module, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r'pip install "jaxlin\[plot\]"'):
        ALL[name]()


def test_matplotlib_is_imported_by_the_first_call_only():
    program = (
        "import sys, jaxlin\n"
        "jaxlin.plot\n"
        "assert 'matplotlib' not in sys.modules\n"
        "jaxlin.plot.convergence({'a': [1.0, 0.1]})\n"
        "assert 'matplotlib' in sys.modules\n"
    )
    environment = {"MPLBACKEND": "Agg", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr

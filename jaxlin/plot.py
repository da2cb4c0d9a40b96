"""Pictures of classifiers and fits: regions, margins, projections, convergence, calibration.

Each function draws on the matplotlib Axes `ax`, or on new ones, and returns them; nothing is shown
or saved. They read values on the host, so none works inside `jit`. matplotlib is an extra,
`pip install "jaxlin[plot]"`, and is imported by the first call.

- `points`: labelled rows in the plane of two features.
- `regions`: the same over what params of any type predict, and where the prediction changes.
- `margins`: the street of a plane, the lines on which its score is -1, 0 and 1, and the rows that
  hold it up.
- `projections`: rows on one or two directions, such as those of `fisher.directions`.
- `convergence`: objectives or residuals of several solvers on a log axis, by step or by time.
- `calibration`: how often class 1 occurs where it is predicted with probability p.
- `roc`, `precision_recall`: what a threshold on the scores finds, and what it takes for it.

Colours are those of Okabe and Ito, which colour-blind readers can tell apart, and each class has a
marker of its own besides. A legend stands beside the picture, and only where there are names for
it: in a row of panels, give the names to the last. All else is a method of the Axes:
`plot.regions(params, x, y).set_title("LDA")`.

Where more than two features were fitted, `transform` says what the plane of the picture is to the
params: it makes their features `(m, d)` of points `(m, 2)`. So a boundary in `features.ball(x)` is
drawn as the circle that it is in x.

Shapes: `n` examples, `d` features, `k` classes, `r` directions.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jaxlin import metrics, svm
from jaxlin._base import _dispatch
from jaxlin.types import Hyperplane

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Transform = Callable[[Any], Any]

# Okabe and Ito's palette; the yellow, which is faint on white, last.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
MARKERS = ("o", "^", "s", "D", "v", "P", "X")  # one fewer, so that 56 classes differ
LINES = ("-", "--", "-.", ":")
FILL = 0.18  # how strong a region is beside its points
BOUNDARY = "0.25"
GRID = 500  # points a side, about a pixel each at a notebook's size: votes change in steps
BORDER = 0.08  # of the data's extent, to each side of it
NUM_BINS = 30  # of a histogram
LARGEST = 1e30  # stands for an infinite lead, which contours cannot hold
SIZE, RING = 22, 90  # areas of markers, in points squared
FIGURE = (5.4, 3.6)


def points(
    x: Any,
    y: Any,
    *,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Labelled rows in the plane of two features, a colour and a marker for each class.

    Args:
      x: `(n, 2)`; rows that are not finite are left out.
      y: `(n,)` class indices.
      class_names: k names for the legend; without them there is none.
      feature_names: two names for the axes.
      ax: matplotlib Axes to draw on; by default new ones.

    Returns:
      The Axes.

    Raises:
      ValueError: shapes that do not fit.
      ImportError: matplotlib is missing.

    Example:
      >>> import numpy as np
      >>> from jaxlin import plot
      >>> ax = plot.points(np.array([[0.0, 1.0], [2.0, 3.0]]), np.array([0, 1]))
      >>> len(ax.collections)
      2
    """
    x, y = _labelled(x, y)
    _check_plane(x)
    ax = _axes(ax)
    _scatter(ax, x, y, class_names)
    _name_axes(ax, feature_names, "feature")
    _legend(ax, class_names)
    return ax


def regions(
    params: Any,
    x: Any,
    y: Any,
    *,
    transform: Transform | None = None,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """What params predict in the plane of two features, the boundaries, and the data.

    A boundary is where the two largest scores are equal; of a Hyperplane, where the score is 0.

    Args:
      params: of any type, of `d` features.
      x: `(n, 2)`, the data; they also decide how much of the plane is shown.
      y: `(n,)` class indices.
      transform: `(m, 2) -> (m, d)`, from the picture to what was fitted; by default d = 2.
      class_names: k names for the legend; without them there is none.
      feature_names: two names for the axes.
      ax: matplotlib Axes to draw on; by default new ones.

    Returns:
      The Axes.

    Raises:
      ValueError: shapes that do not fit, or params that are not finite, as of a fit that failed.
      ImportError: matplotlib is missing.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import lda, plot
      >>> x = jnp.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [3.0, 3.0], [4.0, 3.0], [3.0, 4.0]])
      >>> y = jnp.array([0, 0, 0, 1, 1, 1])
      >>> params, _ = lda.fit(x, y)
      >>> ax = plot.regions(params, x, y, class_names=["low", "high"])
      >>> [text.get_text() for text in ax.get_legend().get_texts()]
      ['low', 'high']
    """
    x, y = _labelled(x, y)
    _check_plane(x)
    ax = _axes(ax)
    across, up, grid = _grid(x)
    leads = _leads(_scores_on(params, grid, transform))
    for c in range(leads.shape[-1]):
        lead = leads[..., c]
        if not (lead > 0).any():
            continue  # predicted nowhere in the picture
        ax.contourf(across, up, lead, [0, 2 * LARGEST], colors=[_color(c)], alpha=FILL)
        if (lead < 0).any() and c < leads.shape[-1] - 1:  # the last class borders on others only
            ax.contour(across, up, lead, [0], colors=BOUNDARY, linewidths=1.2)
    _scatter(ax, x, y, class_names)
    ax.set(xlim=across[[0, -1]], ylim=up[[0, -1]])
    _name_axes(ax, feature_names, "feature")
    _legend(ax, class_names)
    return ax


def margins(
    params: Hyperplane,
    x: Any,
    y: Any,
    *,
    transform: Transform | None = None,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """The street of a plane: the lines s = -1, 0 and 1, with the support vectors in rings.

    Args:
      params: a Hyperplane of `d` features, such as `svm.fit` and `svm.fit_hard_margin` return.
      x: `(n, 2)`.
      y: `(n,)` in {0, 1}.
      transform: `(m, 2) -> (m, d)`, from the picture to what was fitted; by default d = 2.
      class_names: two names for the legend; without them there is none.
      feature_names: two names for the axes.
      ax: matplotlib Axes to draw on; by default new ones.

    Returns:
      The Axes. The rings are around the rows that `svm.support` names: on the margin, inside of
      it, or on the wrong side.

    Raises:
      TypeError: the params are no Hyperplane.
      ValueError: shapes that do not fit, or params that are not finite, as of a fit that failed.
      ImportError: matplotlib is missing.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import plot, svm
      >>> x = jnp.array([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [4.0, 1.0]])
      >>> y = jnp.array([0, 0, 1, 1])
      >>> params, _ = svm.fit_hard_margin(x, y)
      >>> ax = plot.margins(params, x, y)
      >>> ax.collections[-1].get_offsets().tolist()
      [[1.0, 0.0], [3.0, 0.0]]
    """
    if not isinstance(params, Hyperplane):
        raise TypeError(f"params: expected a Hyperplane, got {type(params).__name__}")
    x, y = _labelled(x, y)
    _check_plane(x)
    ax = _axes(ax)
    across, up, grid = _grid(x)
    s = _scores_on(params, grid, transform)
    ax.contourf(across, up, s, [-1, 1], colors=["0.5"], alpha=FILL)
    ax.contour(across, up, s, [-1, 0, 1], colors=BOUNDARY, linestyles=["--", "-", "--"])
    _scatter(ax, x, y, class_names)
    held = x[np.asarray(svm.support(params, _transformed(x, transform), y))]
    ring: dict[str, Any] = {"s": RING, "facecolors": "none", "edgecolors": "black", "linewidths": 1}
    ax.scatter(*held.T, **ring, label="support vector" if class_names is not None else None)
    ax.set(xlim=across[[0, -1]], ylim=up[[0, -1]])
    _name_axes(ax, feature_names, "feature")
    _legend(ax, class_names)
    return ax


def projections(
    axes: Any,
    x: Any,
    y: Any,
    *,
    class_names: Sequence[str] | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Rows on one direction, as a histogram of each class, or on two, as points.

    Args:
      axes: `(d,)`, `(d, 1)` or `(d, 2)`: the weights of a Hyperplane, or `fisher.directions`.
      x: `(n, d)`; rows that are not finite are left out.
      y: `(n,)` class indices.
      class_names: k names for the legend; without them there is none.
      ax: matplotlib Axes to draw on; by default new ones.

    Returns:
      The Axes.

    Raises:
      ValueError: shapes that do not fit, or more than two directions.
      ImportError: matplotlib is missing.

    Example:
      >>> from jaxlin import datasets, fisher, plot
      >>> iris = datasets.iris()
      >>> axes = fisher.directions(iris.x, iris.y)
      >>> ax = plot.projections(axes, iris.x, iris.y, class_names=iris.class_names)
      >>> ax.get_xlabel(), ax.get_ylabel()
      ('direction 0', 'direction 1')
    """
    x, y = _labelled(x, y)
    axes = np.asarray(axes, float)
    axes = axes[:, None] if axes.ndim == 1 else axes
    if axes.ndim != 2 or axes.shape[0] != x.shape[1] or axes.shape[1] not in (1, 2):
        d = x.shape[1]
        raise ValueError(f"axes: expected shape ({d},), ({d}, 1) or ({d}, 2), got {axes.shape}")
    ax = _axes(ax)
    projected = x @ axes
    if axes.shape[1] == 1:
        _histograms(ax, projected[:, 0], y, class_names)
        ax.set(xlabel="projection", ylabel="rows")
    else:
        _scatter(ax, projected, y, class_names)
        _name_axes(ax, None, "direction")
    _legend(ax, class_names)
    return ax


def convergence(
    curves: Mapping[str, Any],
    *,
    at: Mapping[str, Any] | None = None,
    floor: Any = 0.0,
    xlabel: str = "step",
    ylabel: str = "residual",
    ax: "Axes | None" = None,
) -> "Axes":
    """How several solvers come down, on a log axis: residuals, or objectives above their optimum.

    Args:
      curves: by name of the solver its values, each of any length, such as the objective or the
        residual of `solvers.trace`.
      at: by name where the values stand, such as the seconds passed; by default 0, 1, 2, ...
      floor: what is subtracted of every value: for objectives the optimum's.
      xlabel: what `at` is.
      ylabel: what the values are.
      ax: matplotlib Axes to draw on; by default new ones.

    Returns:
      The Axes. What is not above the floor has no place on a log axis, and is left out.

    Raises:
      ValueError: shapes that do not fit.
      ImportError: matplotlib is missing.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import plot, solvers
      >>> def bowl(params):
      ...     return jnp.sum(jnp.cosh(params))
      >>> methods = {"Newton": solvers.newton, "gradient descent": solvers.gradient_descent}
      >>> curves = {
      ...     name: solvers.trace(method, bowl, jnp.ones(2), num_steps=9)[2]
      ...     for name, method in methods.items()
      ... }
      >>> plot.convergence(curves).get_yscale()
      'log'
    """
    ax = _axes(ax)
    for i, (name, values) in enumerate(curves.items()):
        above = np.asarray(values, float) - float(floor)
        places = np.arange(len(above)) if at is None else np.asarray(at[name], float)
        if above.ndim != 1 or places.shape != above.shape:
            raise ValueError(
                f"curves: expected {name} of shape (m,) with as many places, "
                f"got {above.shape} and {places.shape}"
            )
        above[~(above > 0)] = np.nan
        ax.plot(places, above, color=_color(i), linestyle=LINES[i % len(LINES)], label=name)
    ax.set(yscale="log", xlabel=xlabel, ylabel=ylabel)
    ax.grid(alpha=0.25)
    _legend(ax, curves)
    return ax


def calibration(
    scores: Any,
    y: Any,
    *,
    link: Callable[[Any], Any] = jax.nn.sigmoid,
    num_bins: int = 10,
    sample_weight: Any = None,
    label: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """The reliability diagram: how often class 1 occurs where it is predicted with probability p.

    Rows are sorted into bins of equal width by p. Each bin is a point: across, the weighted mean of
    p; up, the weighted share of class 1; its area, the weight in it. On the diagonal predictions
    are right on average (DeGroot and Fienberg, 1983). For a class of several, give its
    probabilities and `y == c`. Draw a second method on the same Axes.

    Args:
      scores: `(n,)` log-odds of class 1, or whatever `link` makes probabilities of.
      y: `(n,)` in {0, 1}.
      link: from scores to probabilities; `lambda p: p` where they are that already.
      num_bins: how many bins.
      sample_weight: `(n,)`; a row of weight 0 is absent, whatever it holds.
      label: the method's name, for the legend; without it there is none.
      ax: matplotlib Axes to draw on; by default new ones.

    Returns:
      The Axes.

    Raises:
      ValueError: shapes that do not fit, probabilities that are not in [0, 1], labels that are not
        0 or 1, or weights that are negative or all 0.
      ImportError: matplotlib is missing.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import plot
      >>> p, y = jnp.array([0.1, 0.1, 0.9, 0.9]), jnp.array([0, 1, 1, 1])
      >>> ax = plot.calibration(p, y, link=lambda p: p)
      >>> ax.collections[-1].get_offsets().round(2).tolist()
      [[0.1, 0.5], [0.9, 1.0]]
    """
    p, y, weight = _predicted_share(scores, y, link, sample_weight)
    bins = np.asarray(metrics.equal_width(p, num_bins=num_bins))
    total = np.bincount(bins, weight, num_bins)
    some = total > 0
    predicted, observed = (
        np.bincount(bins, weight * a, num_bins)[some] / total[some] for a in (p, y)
    )
    ax = _axes(ax)
    i = len(ax.collections)  # of the methods drawn before
    if not i:
        ax.plot([0, 1], [0, 1], color="0.6", linewidth=1, linestyle=":")
    style: dict[str, Any] = {"color": _color(i), "marker": _marker(i)}
    line: dict[str, Any] = {"linewidth": 1, "linestyle": LINES[i % len(LINES)], "markersize": 4}
    ax.plot(predicted, observed, label=label, **line, **style)
    area = SIZE / 2 + 10 * SIZE * total[some] / total.sum()
    ax.scatter(predicted, observed, area, **style)
    ax.set(xlabel="predicted probability", ylabel="share of class 1", xlim=(-0.03, 1.03))
    ax.set(ylim=(-0.03, 1.03), aspect="equal")
    _legend(ax, label)
    return ax


def roc(
    scores: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    label: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """The ROC curve: the share of class 1 that is found over the share of class 0 taken for it.

    On the diagonal scores say nothing. Draw a second method on the same Axes.

    Args:
      scores: `(n,)`, or `(n, 2)`, of which the difference counts.
      y: `(n,)` in {0, 1}.
      sample_weight: `(n,)`; a row of weight 0 is absent, whatever it holds.
      label: the method's name, for the legend; without it there is none.
      ax: matplotlib Axes to draw on; by default new ones.

    Returns:
      The Axes.

    Raises:
      ValueError: shapes that do not fit, labels other than 0 and 1, NaN, or a class without weight.
      ImportError: matplotlib is missing.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import plot
      >>> ax = plot.roc(jnp.array([0.1, 0.4, 0.4, 0.9]), jnp.array([0, 0, 1, 1]))
      >>> ax.get_xlabel(), ax.get_ylabel()
      ('share of class 0 taken for class 1', 'share of class 1 found')
    """
    across, up, _ = _curve(metrics.roc_curve, scores, y, sample_weight)
    ax = _axes(ax)
    if not ax.lines:
        ax.plot([0, 1], [0, 1], color="0.6", linewidth=1, linestyle=":")
    names = "share of class 0 taken for class 1", "share of class 1 found"
    return _draw_curve(ax, across, up, label, names, len(ax.lines) - 1)


def precision_recall(
    scores: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    label: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Precision over recall: how much of what is taken for class 1 is, over how much is found.

    In steps, as between two thresholds there is no third (Davis and Goadrich, 2006). Draw a second
    method on the same Axes.

    Args:
      scores: `(n,)`, or `(n, 2)`, of which the difference counts.
      y: `(n,)` in {0, 1}.
      sample_weight: `(n,)`; a row of weight 0 is absent, whatever it holds.
      label: the method's name, for the legend; without it there is none.
      ax: matplotlib Axes to draw on; by default new ones.

    Returns:
      The Axes.

    Raises:
      ValueError: shapes that do not fit, labels other than 0 and 1, NaN, or class 1 without weight.
      ImportError: matplotlib is missing.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import plot
      >>> ax = plot.precision_recall(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1]))
      >>> ax.get_xlabel(), ax.get_ylabel()
      ('recall', 'precision')
    """
    precision, recall, _ = _curve(metrics.precision_recall_curve, scores, y, sample_weight)
    ax = _axes(ax)
    style = {"drawstyle": "steps-pre"}
    return _draw_curve(
        ax, recall, precision, label, ("recall", "precision"), len(ax.lines), **style
    )


def _curve(of: Callable, scores: Any, y: Any, sample_weight: Any) -> tuple[np.ndarray, ...]:
    points = tuple(map(np.asarray, of(scores, y, sample_weight=sample_weight)))
    if np.isnan(points[0]).any():
        raise ValueError(
            "scores, y, sample_weight: expected scores without NaN, labels 0 and 1, nonnegative "
            "weights, and some of each class"
        )
    return points


def _draw_curve(
    ax: "Axes", across: Any, up: Any, label: Any, names: tuple[str, str], i: int, **style: Any
) -> "Axes":
    line: dict[str, Any] = {"color": _color(i), "linestyle": LINES[i % len(LINES)], **style}
    ax.plot(across, up, label=label, linewidth=1.5, **line)
    ax.set(xlabel=names[0], ylabel=names[1], xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
    _legend(ax, label)
    return ax


def _axes(ax: "Axes | None") -> "Axes":
    """What to draw on."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError('jaxlin.plot needs matplotlib: pip install "jaxlin[plot]"') from None
    return pyplot.subplots(figsize=FIGURE, layout="constrained")[1] if ax is None else ax


def _labelled(x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """The finite rows of x, in double precision, and their labels."""
    x, y = np.asarray(x, float), np.asarray(y)
    if x.ndim != 2:
        raise ValueError(f"x: expected shape (n, d), got {x.shape}")
    if y.shape != x.shape[:1]:
        raise ValueError(f"y: expected shape {x.shape[:1]}, one class index per row, got {y.shape}")
    finite = np.isfinite(x).all(axis=1)
    if not finite.any():
        raise ValueError("x: expected at least one row of finite numbers")
    return x[finite], y[finite].astype(int)


def _check_plane(x: np.ndarray) -> None:
    if x.shape[1] != 2:
        raise ValueError(f"x: expected shape (n, 2), the picture's plane, got {x.shape}")


def _grid(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places across and up, and the points `(up, across, 2)` of a grid that holds the data."""
    low, high = x.min(axis=0), x.max(axis=0)
    border = np.where(high > low, BORDER * (high - low), 1.0)
    across, up = np.linspace(low - border, high + border, GRID).T
    return across, up, np.stack(np.meshgrid(across, up), axis=-1)


def _transformed(x: np.ndarray, transform: Transform | None) -> Any:
    return x if transform is None else transform(x)


def _scores_on(params: Any, grid: np.ndarray, transform: Transform | None) -> np.ndarray:
    flat = _transformed(grid.reshape(-1, 2), transform)
    s = np.asarray(_dispatch.scores(params, flat), float)
    if np.isnan(s).any():
        raise ValueError("params: expected finite ones; did the fit fail? See info.status")
    return s.reshape(*grid.shape[:2], *s.shape[1:])


def _leads(scores: np.ndarray) -> np.ndarray:
    """`(up, across, k)`: how far each class's score is above the best other's."""
    if scores.ndim == 2:  # of a Hyperplane
        return np.stack([-scores, scores], axis=-1)
    ranked = np.sort(scores, axis=-1)
    best, second = ranked[..., -1:], ranked[..., -2:-1]
    leads = np.where(scores == best, best - second, scores - best)
    return np.clip(leads, -LARGEST, LARGEST)  # an absent class has score -inf


def _predicted_share(
    scores: Any, y: Any, link: Callable, sample_weight: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities, labels and weights of the rows that have weight."""
    s, y = np.asarray(scores, float), np.asarray(y)
    if s.ndim != 1 or y.shape != s.shape:
        raise ValueError(f"scores, y: expected shapes (n,) and (n,), got {s.shape} and {y.shape}")
    weight = np.ones(len(s)) if sample_weight is None else np.asarray(sample_weight, float)
    if weight.shape != s.shape:
        raise ValueError(f"sample_weight: expected shape {s.shape}, got {weight.shape}")
    if not (weight >= 0).all() or not weight.any():
        raise ValueError("sample_weight: expected nonnegative weights, and some above 0")
    present = weight > 0
    p, y = np.asarray(link(s[present]), float), y[present]
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("scores: expected probabilities in [0, 1] after `link`")
    if not np.isin(y, (0, 1)).all():
        raise ValueError("y: expected 0 and 1 (see labels.encode)")
    return p, y.astype(float), weight[present]


def _scatter(ax: "Axes", x: np.ndarray, y: np.ndarray, names: Sequence[str] | None) -> None:
    for c in np.unique(y):
        style: dict[str, Any] = {"color": _color(c), "marker": _marker(c), "edgecolors": "white"}
        ax.scatter(x[y == c, 0], x[y == c, 1], SIZE, linewidths=0.4, label=_name(names, c), **style)


def _histograms(ax: "Axes", values: np.ndarray, y: np.ndarray, names: Any) -> None:
    edges = np.histogram_bin_edges(values, NUM_BINS).tolist()
    for c in np.unique(y):
        fill: dict[str, Any] = {"histtype": "stepfilled", "alpha": 0.35}
        ax.hist(values[y == c], edges, color=_color(c), label=_name(names, c), **fill)
        line: dict[str, Any] = {"histtype": "step", "linestyle": LINES[c % len(LINES)]}
        ax.hist(values[y == c], edges, color=_color(c), **line)


def _name_axes(ax: "Axes", names: Sequence[str] | None, kind: str) -> None:
    across, up = (f"{kind} 0", f"{kind} 1") if names is None else names
    ax.set(xlabel=across, ylabel=up)


def _legend(ax: "Axes", names: Any) -> None:
    """Beside the picture, where it hides nothing."""
    if names is not None:
        place: dict[str, Any] = {
            "loc": "upper left",
            "bbox_to_anchor": (1.02, 1),
            "borderaxespad": 0,
        }
        ax.legend(**place, frameon=False)


def _name(names: Sequence[str] | None, c: int) -> str | None:
    return None if names is None else str(names[c])


def _color(i: int) -> str:
    return COLORS[i % len(COLORS)]


def _marker(i: int) -> str:
    return MARKERS[i % len(MARKERS)]

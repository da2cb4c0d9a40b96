"""The command line's results: a table to read, a file to parse, a picture to show."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from jaxlin import inference, logistic, losses, softmax
from jaxlin._cli._table import Data
from jaxlin._files._sheet import BadInput, count
from jaxlin.types import Status

if TYPE_CHECKING:
    from jaxlin._cli._evaluate import Outcome

STRATIFIED, BY_ROWS = "stratified", "folds drawn row by row"
HEADINGS = ("method", "accuracy", "log loss", "fit", "compile", "status")


def heading(data: Data, folds: int, notes: Sequence[str], how: str = STRATIFIED) -> str:
    """What was read, what was done to it, and how it is judged."""
    sizes = np.bincount(data.y, minlength=len(data.classes))
    classes = [f"{name} {size:,}" for name, size in zip(data.classes, sizes, strict=True)]
    more = f", and {len(classes) - 10} more" if len(classes) > 10 else ""
    n, d = data.x.shape
    return "\n".join(
        [
            f"{data.source}: {count(n, 'row')}, {count(d, 'feature')}, "
            f"{len(classes)} classes ({', '.join(classes[:10])}{more})",
            *(f"  {note}" for note in notes),
            f"{folds}-fold cross-validation, {how}; columns standardised by each fold's training "
            "rows",
        ]
    )


def table(outcomes: Sequence["Outcome"]) -> str:
    """A line per method, and what the statuses mean that are not CONVERGED.

    A method without a model in every fold is judged on other rows than the rest are. So it comes
    below them, without an error, and its line says of how many folds the figure is.
    """
    ordered = sorted(outcomes, key=lambda outcome: modelled(outcome) < len(outcome.status))
    rows = [HEADINGS, *(_cells(outcome) for outcome in ordered)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in rows]
    lines.insert(1, "-" * max(map(len, lines)))
    seen = sorted({int(code) for outcome in outcomes for code in outcome.status})
    legend = [
        f"{_words(Status(code))}: {Status(code).meaning}"
        for code in seen
        if code > Status.CONVERGED
    ]
    return "\n".join([*lines, *([""] if legend else []), *legend])


def summary(data: Data) -> str:
    """The report of a regression without a penalty, on all rows and in the columns' own units."""
    x, y, k = jnp.asarray(data.x), jnp.asarray(data.y), len(data.classes)
    given = inference.aliased(x)
    options: dict[str, Any] = {"feature_mask": ~given}
    if k == 2:
        name, loss = f"logistic regression, log-odds of {data.classes[1]}", losses.logistic
        params: Any = logistic.fit(x, y, **options)[0]
    else:
        name, loss = f"softmax regression, against {data.classes[0]}", losses.softmax
        params = softmax.fit(x, y, num_classes=k, **options)[0]
        options["reference"] = 0
    found = inference.summary(loss, params, x, y, **options)
    left_out = [data.features[j] for j in np.flatnonzero(given)]
    lines = [f"{name}, without a penalty, all rows, columns in their own units", ""]
    lines.append(found.table(names=data.features, classes=data.classes))
    if left_out:
        lines.append(f"given by the columns before them, and left out: {', '.join(left_out)}")
    return "\n".join(lines)


def write_json(path: str, data: Data, outcomes: Sequence["Outcome"], **about: Any) -> None:
    """Write everything as strict JSON: NaN and infinities become null."""
    n, d = data.x.shape
    content = {
        "data": data.source,
        "target": data.target,
        "rows": n,
        "features": d,
        "classes": data.classes,
        **about,
        "methods": [_record(outcome) for outcome in outcomes],
    }
    text = json.dumps(_strict(content), indent=2, allow_nan=False, ensure_ascii=False)
    try:
        Path(path).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise BadInput(f"--json {path}: {error.strerror or error}") from None


def check_plot(path: str) -> None:
    """Fail before the work, not after it, if the plot cannot be drawn."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise BadInput('--plot needs matplotlib: pip install "jaxlin[plot]"') from None
    kinds = Figure().canvas.get_supported_filetypes()
    if Path(path).suffix.lower().lstrip(".") not in kinds:
        raise BadInput(f"--plot {path}: expected a name ending in one of .{', .'.join(kinds)}")


def plot(path: str, data: Data, outcomes: Sequence["Outcome"]) -> None:
    """Draw accuracies with two standard errors to either side, of methods judged on every fold."""
    from matplotlib.figure import Figure

    whole = [o for o in outcomes if modelled(o) == len(o.status)]
    names = [outcome.name for outcome in whole][::-1]
    accuracy = [mean_and_error(outcome.accuracy) for outcome in whole][::-1]
    figure = Figure(figsize=(7, 1.2 + 0.4 * len(whole)), layout="constrained")
    axes = figure.subplots()
    axes.errorbar(
        [mean for mean, _ in accuracy],
        range(len(names)),
        xerr=[2 * error if math.isfinite(error) else 0 for _, error in accuracy],
        fmt="o",
        capsize=3,
    )
    axes.set_yticks(range(len(names)), names)
    axes.margins(y=0.15)
    axes.set_xlabel("accuracy, with two standard errors")
    axes.set_title(Path(data.source).name.replace("$", r"\$"))
    axes.grid(axis="x", alpha=0.3)
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise BadInput(f"--plot {path}: {error.strerror or error}") from None


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """The mean over folds and its standard error, of the folds that have a value."""
    known = values[~np.isnan(values)]
    if not len(known):
        return math.nan, math.nan
    if not np.isfinite(known).all() or len(known) < 2:
        return float(known.mean()), math.nan
    return float(known.mean()), float(known.std(ddof=1) / math.sqrt(len(known)))


def modelled(outcome: "Outcome") -> int:
    """In how many folds the method had a model."""
    return int(np.sum(~np.isnan(outcome.accuracy)))


def _cells(outcome: "Outcome") -> tuple[str, ...]:
    code = Status(int(outcome.status.max()))
    number = int(np.sum(outcome.status == code))
    status = f"{_words(code)} ({number} of {len(outcome.status)})"
    if outcome.kept is not None:
        status += f", {np.mean(outcome.kept):.3g} features kept"
    return (
        outcome.name,
        _estimate(outcome.accuracy),
        "-" if outcome.log_loss is None else _estimate(outcome.log_loss),
        _duration(outcome.fit_seconds),
        _duration(outcome.compile_seconds),
        status,
    )


def _estimate(values: np.ndarray) -> str:
    mean, error = mean_and_error(values)
    known = int(np.sum(~np.isnan(values)))
    if not known:
        return "none"
    if known < len(values):
        return f"({mean:.4f} of {known} folds)" if known > 1 else f"({mean:.4f} of 1 fold)"
    return f"{mean:.4f} +- {error:.4f}" if math.isfinite(error) else f"{mean:.4f}"


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"


def _words(status: Status) -> str:
    return status.name.lower().replace("_", " ")


def _record(outcome: "Outcome") -> dict[str, Any]:
    accuracy, accuracy_error = _of_all(outcome.accuracy)
    loss, loss_error = _of_all(np.array([]) if outcome.log_loss is None else outcome.log_loss)
    statuses = Counter(outcome.status.tolist())
    return {
        "name": outcome.name,
        "accuracy": accuracy,
        "accuracy_standard_error": accuracy_error,
        "log_loss": loss,
        "log_loss_standard_error": loss_error,
        "folds_with_model": modelled(outcome),
        "fit_seconds": outcome.fit_seconds,
        "compile_seconds": outcome.compile_seconds,
        "status": {Status(code).name: number for code, number in sorted(statuses.items())},
        "fold_accuracy": outcome.accuracy.tolist(),
        "fold_log_loss": None if outcome.log_loss is None else outcome.log_loss.tolist(),
        "fold_features_kept": None if outcome.kept is None else outcome.kept.tolist(),
    }


def _of_all(values: np.ndarray) -> tuple[float, float]:
    """The mean and its standard error; NaN where a fold has no value, as it is not comparable."""
    return (math.nan, math.nan) if np.isnan(values).any() else mean_and_error(values)


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_strict(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

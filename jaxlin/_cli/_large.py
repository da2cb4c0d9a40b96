"""The command line on a file larger than memory: read once into maps on disk, folds by streaming.

The closed forms' folds come of one pass, in which each fold's rows make moments of their own; the
others are fitted by `streaming`. Shapes: `n` rows, `d` features, `k` classes.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxlin import lda, least_squares, logistic, metrics, moments, qda, softmax, streaming
from jaxlin._base import _dispatch
from jaxlin._cli import _table
from jaxlin._cli._evaluate import L2, Outcome
from jaxlin._cli._table import Data
from jaxlin._files import _sheet, _source
from jaxlin._files._sheet import Options, count

LOG_ODDS = ("LDA", "QDA", "logistic", "softmax")
Progress = Callable[[str], None]


def read(path: str, target: str | None, options: Options, folder: str, progress: Progress) -> Data:
    """The file's numbers as maps in `folder`, in two passes: one finds the classes.

    Raises:
      BadInput: a cell that is no number, a row of another length, a target that is not there.
    """
    notes: list[str] = []
    sheet = _sheet.find(path, options, target, notes)
    column = _table.target_column(sheet, target, notes)
    look = _sheet.Look(sheet, column)
    labels = Counter(_labels(look, column, progress))
    sheet = look.settled(notes)
    index, classes = _table.classes_of(sheet, column, labels, notes)
    source = _source.Csv(sheet, column, index)
    n, d = 0, len(source.features)
    x_path, y_path = Path(folder, "x.bin"), Path(folder, "y.bin")
    with open(x_path, "wb") as x_file, open(y_path, "wb") as y_file:
        for x, y, _ in source.blocks():
            x.tofile(x_file)
            y.astype(np.int64).tofile(y_file)
            n += len(x)
            progress(f"reading: {count(n, 'row')}")
    without = Counter({cell: number for cell, number in labels.items() if cell in sheet.missing})
    if without:
        _table.note_unlabelled(without, notes)
    return Data(
        source=path,
        x=np.memmap(x_path, np.float64, "r", shape=(n, d)),
        y=np.memmap(y_path, np.int64, "r", shape=(n,)),
        features=source.features,
        classes=classes,
        target=sheet.names[column],
        notes=[*notes, "read once; --stream takes numbers only"],
    )


def _labels(look: _sheet.Look, column: int, progress: Progress) -> Iterator[str]:
    for row in look.rows():
        if not row.number % 100_000:
            progress(f"looking for classes: {count(row.number, 'row')}")
        yield row.cells[column]


def evaluate(data: Data, folds: int, seed: int, progress: Progress) -> list[Outcome]:
    """Every method that can be streamed, by cross-validation over folds drawn row by row."""
    k = len(data.classes)
    began = time.perf_counter()
    parts: list[Any] = [None] * folds
    for x, y, fold in _dealt(data, folds, seed):
        for f in range(folds):
            # One length for all, so that one program does.
            part = moments.per_class(x, y, num_classes=k, sample_weight=(fold == f).astype(float))
            parts[f] = part if parts[f] is None else moments.merge(parts[f], part)
    training = [_merged(parts[:f] + parts[f + 1 :]) for f in range(folds)]
    pass_seconds = (time.perf_counter() - began) / folds
    found: dict[str, list] = {}
    seconds: dict[str, list[float]] = {}

    def fitted(name: str, fit: Callable, extra: float) -> None:
        progress(f"fitting: {name}")
        found[name], seconds[name] = [], []
        for f in range(folds):
            start = time.perf_counter()
            found[name].append(jax.block_until_ready(fit(f)))
            seconds[name].append(extra + time.perf_counter() - start)

    closed = {"least squares": least_squares, "LDA": lda, "QDA": qda}
    for name, module in closed.items():
        fitted(name, lambda f, m=module: m.fit_from_moments(training[f]), pass_seconds)
    name, fit = ("logistic", logistic.fit) if k == 2 else ("softmax", softmax.fit)
    number = None if k == 2 else k

    def smooth(f: int) -> Any:
        source = streaming.Source(lambda: _training(data, folds, seed, f))
        return streaming.fit(fit, source, num_classes=number, l2=L2 * _variance(training[f]))

    fitted(name, smooth, 0.0)
    progress("judging")
    values = _judged(data, folds, seed, {m: [p for p, _ in each] for m, each in found.items()})
    return [
        Outcome(
            name=name,
            accuracy=values[name][:, 0],
            log_loss=values[name][:, 1] if name in LOG_ODDS else None,
            status=np.array([int(info.status) for _, info in each]),
            fit_seconds=float(np.median(seconds[name])),
            compile_seconds=max(0.0, seconds[name][0] - float(np.median(seconds[name]))),
        )
        for name, each in found.items()
    ]


def _dealt(data: Data, folds: int, seed: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Blocks of rows, and the fold of each row; the last is filled up, and these are of none."""
    n, d = data.x.shape
    size = min(n, _source.rows_in_block(d, 8))
    for i, at in enumerate(range(0, n, size)):
        x, y = np.asarray(data.x[at : at + size]), np.asarray(data.y[at : at + size])
        fold = np.random.default_rng((seed, i)).integers(folds, size=len(x))
        missing = size - len(x)
        x, y = _source.filled_up((x, y), size)
        yield x, y, np.pad(fold, (0, missing), constant_values=-1)


def _training(data: Data, folds: int, seed: int, f: int) -> Iterator[tuple]:
    for x, y, fold in _dealt(data, folds, seed):
        yield x, y, ((fold != f) & (fold >= 0)).astype(float)


def _merged(parts: list) -> Any:
    whole = parts[0]
    for part in parts[1:]:
        whole = moments.merge(whole, part)
    return whole


def _variance(m: Any) -> np.ndarray:
    """Of each column, about the mean of all rows."""
    weight, mean = np.asarray(m.weight), np.asarray(m.mean)
    apart = mean - weight @ mean / weight.sum()
    within = np.einsum("kdd->d", np.asarray(m.scatter))
    return (within + weight @ apart**2) / weight.sum()


def _judged(data: Data, folds: int, seed: int, params: dict[str, list]) -> dict[str, np.ndarray]:
    """Accuracy and log loss of each method on each fold's held-out rows, `(folds, 2)`."""
    sums = {name: np.zeros((folds, 2)) for name in params}
    size = np.zeros(folds)
    for x, y, fold in _dealt(data, folds, seed):
        for f in range(folds):
            weight = (fold == f).astype(float)
            if not weight.any():
                continue
            size[f] += weight.sum()
            for name, each in params.items():
                scores = _dispatch.scores(each[f], x)
                values = (
                    metrics.accuracy(scores, y, sample_weight=weight),
                    metrics.log_loss(scores, y, sample_weight=weight) if name in LOG_ODDS else 0.0,
                )
                sums[name][f] += weight.sum() * np.array([float(v) for v in values])
    return {name: total / size[:, None] for name, total in sums.items()}

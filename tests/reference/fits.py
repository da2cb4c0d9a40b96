"""The package's fits of the reference sets.

Small sets are padded to a few common shapes, by rows of weight 0 and masked columns, so that they
share programs: a compile takes seconds, a fit milliseconds.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxlin import inference, least_squares, logistic, losses, softmax
from jaxlin.types import Hyperplane, Info, Linear
from tests.reference import answers
from tests.reference.catalogue import PROBLEMS
from tests.reference.sets import Data, Problem

# (rows, columns, classes) that problems are padded to; what fits in none keeps its shape
SHAPES = {
    "logistic": [(640, 30, 2)],
    "softmax": [(180, 13, 3)],
    "firth": [(80, 6, 2)],
    "regress": [(82, 10, 1)],
}


class Arrays(NamedTuple):
    """Data as the package takes them."""

    x: np.ndarray
    y: np.ndarray
    sample_weight: np.ndarray
    feature_mask: np.ndarray
    offset: np.ndarray | None


class Fitted(NamedTuple):
    """coefficients: of the classes but the reference, the bias last, `(classes, d + 1)` or less."""

    coefficients: np.ndarray
    params: Hyperplane | Linear
    info: Info
    arrays: Arrays


def fit(name: str, dtype: Any, solver: Callable | None = None) -> Fitted:
    """Fit a set in a precision; the default solver if none is given."""
    problem, data = PROBLEMS[name], answers.data_of(name)
    arrays = arrays_of(problem, data, dtype)
    options = {"sample_weight": arrays.sample_weight, "feature_mask": arrays.feature_mask}
    if problem.fit in ("logistic", "softmax"):
        options |= {"l2": _ridge(problem, dtype), "offset": arrays.offset, "solver": solver}
    if problem.fit == "softmax":
        options |= {"num_classes": arrays.y.shape[1]}
    elif not problem.bias:
        options |= {"bias": False}
    methods = {
        "logistic": logistic.fit,
        "softmax": softmax.fit,
        "firth": logistic.fit_firth,
        "regress": least_squares.regress,
    }
    params, info = methods[problem.fit](arrays.x, arrays.y, **options)
    return Fitted(_coefficients(problem, data, params), params, info, arrays)


def standard_errors(name: str, fitted: Fitted) -> np.ndarray:
    """Of the coefficients, as these are laid out; of regressions by the residuals' variance."""
    problem, data, arrays = PROBLEMS[name], answers.data_of(name), fitted.arrays
    loss = {"softmax": losses.softmax, "regress": losses_of_numbers}.get(
        problem.fit, losses.logistic
    )
    covariance = inference.covariance(
        loss,
        fitted.params,
        arrays.x,
        arrays.y,
        l2=_ridge(problem, arrays.x.dtype),
        sample_weight=arrays.sample_weight,
        feature_mask=arrays.feature_mask,
        offset=arrays.offset,
        bias=problem.bias,
        check=problem.fit != "firth",
    )
    params = fitted.params
    if problem.fit == "softmax":

        def form(params):
            return softmax.to_reference(params, problem.reference)

        params, covariance = form(params), inference.delta(form, params, covariance)
    errors = inference.standard_errors(params, covariance)
    free = len(data.x) - len(data.names) - problem.bias
    spread = 1.0
    if problem.fit == "regress":
        spread = np.sqrt(2 * float(fitted.info.objective) * arrays.sample_weight.sum() / free)
    return spread * _laid_out(problem, data, errors)


def losses_of_numbers(scores: jax.Array, target: jax.Array) -> jax.Array:
    """Half the square: `losses.squared` is that of classes."""
    return (scores - target) ** 2 / 2


def neg_log_likelihood(name: str, fitted: Fitted) -> float:
    """The sum of the rows' losses: W times the objective, less the ridge."""
    problem, info = PROBLEMS[name], fitted.info
    total = fitted.arrays.sample_weight.sum()
    weights = np.asarray(fitted.params.weights)
    ridge = float(problem.l2) / 2 * np.sum(weights**2)
    return float(total * (float(info.objective) - ridge))


def arrays_of(problem: Problem, data: Data, dtype: Any) -> Arrays:
    """In float64 a row of counts has soft labels; in float32, where a share of a count would be
    rounded to that of other data, it is a row a class."""
    x, counts = _floats(data.x), _floats(data.counts)
    offset = None if data.offset is None else _floats(data.offset)
    if problem.fit == "regress":
        y, weight = _floats(data.target), counts[:, 0]
    else:
        if dtype == np.float32:
            x, counts, offset = _row_a_class(x, counts, offset)
        weight = counts.sum(1)
        shares = counts / weight[:, None]
        y = shares if problem.fit == "softmax" else shares[:, 1]
    return _padded(problem.fit, x, y, weight, offset, dtype)


def _row_a_class(x, counts, offset):
    n, k = counts.shape
    single = (counts[:, :, None] * np.eye(k)).reshape(n * k, k)
    held = single.sum(1) > 0
    offset = None if offset is None else np.repeat(offset, k)[held]
    return np.repeat(x, k, axis=0)[held], single[held], offset


def _padded(kind, x, y, weight, offset, dtype) -> Arrays:
    n, d = x.shape
    k = y.shape[1] if y.ndim == 2 else (1 if kind == "regress" else 2)
    room = [s for s in SHAPES[kind] if s[0] >= n and s[1] >= d and s[2] == k]
    rows, columns, _ = room[0] if room else (n, d, k)
    more, wider = rows - n, columns - d
    if offset is None and kind in ("logistic", "softmax"):
        offset = np.zeros(n) if kind == "logistic" else np.zeros((n, k))

    def lengthened(a, value):
        widths = [(0, more)] + [(0, 0)] * (a.ndim - 1)
        return np.pad(a, widths, constant_values=value).astype(dtype)

    filled = np.pad(x, ((0, more), (0, wider)), constant_values=np.nan).astype(dtype)
    return Arrays(
        x=filled,
        y=lengthened(y, 1 / k if y.ndim == 2 else 0.0),
        sample_weight=lengthened(weight, 0.0),
        feature_mask=np.arange(columns) < d,
        offset=None if offset is None else lengthened(offset, 0.0),
    )


def _ridge(problem: Problem, dtype: Any) -> np.ndarray:
    return np.asarray(float(problem.l2), dtype)


def _coefficients(problem: Problem, data: Data, params) -> np.ndarray:
    if problem.fit == "softmax":
        params = softmax.to_reference(params, problem.reference)
    return _laid_out(problem, data, params)


def _laid_out(problem: Problem, data: Data, params) -> np.ndarray:
    """Numbers of the type of the params as a row a class but the reference, the bias last."""
    weights, bias = np.asarray(params.weights), np.asarray(params.bias)
    if problem.fit == "softmax":
        free = np.arange(len(bias)) != problem.reference
        weights, bias = weights[free], bias[free]
    weights = np.atleast_2d(weights)[:, : len(data.names)]
    return np.column_stack([weights, np.atleast_1d(bias)]) if problem.bias else weights


def _floats(values) -> np.ndarray:
    return np.array(values, dtype=object).astype(float)

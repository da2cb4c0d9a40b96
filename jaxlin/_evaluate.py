"""Every classifier of the package on one problem, by cross-validation: the command line's engine.

A method is one line of `METHODS`. Its folds run one after another in one compiled program, so
that the time of a fit can be told from the time of compiling. Shapes: `n` rows, `d` features, `k`
classes.
"""

import functools
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin import features, logistic, metrics, multiclass, perceptron, resample, solvers
from jaxlin._table import Data


class Method(NamedTuple):
    """A classifier to try.

    name: what the table calls it
    fit: `fit(x, y, *, sample_weight, ...)`; a binary one goes through one-vs-rest when k > 2
    options: of the fit, by keyword
    log_odds: whether scores are log-odds, so that log loss has a meaning
    multiclass: whether the fit takes `num_classes`
    """

    name: str
    fit: Callable
    options: Mapping[str, Any] = MappingProxyType({})
    log_odds: bool = False
    multiclass: bool = False


# A mild penalty on standardised columns: scikit-learn's C = 1 comes to this with 1,000 rows.
L2 = 1e-3

METHODS = (
    Method("perceptron", perceptron.fit),
    Method("perceptron, averaged", perceptron.fit_averaged),
    Method("perceptron, pocket", perceptron.fit_pocket),
    Method("logistic, Newton", logistic.fit, {"l2": L2, "solver": solvers.newton}, log_odds=True),
    Method("logistic, L-BFGS", logistic.fit, {"l2": L2, "solver": solvers.lbfgs}, log_odds=True),
)


class Outcome(NamedTuple):
    """How a method did.

    name: of the method
    accuracy: `(folds,)`
    log_loss: `(folds,)`, or None where scores are no log-odds
    status: `(folds,)`
    fit_seconds: of one fold, its fit and its scores
    compile_seconds: before the first fit
    """

    name: str
    accuracy: np.ndarray
    log_loss: np.ndarray | None
    status: np.ndarray
    fit_seconds: float
    compile_seconds: float


def evaluate(method: Method, data: Data, weights: jax.Array) -> Outcome:
    """Cross-validate one method, each fold standardised by its own training rows.

    Args:
      method: what to try.
      data: the problem.
      weights: `(folds, n)` training weights.
    """
    k = len(data.classes)
    fit, options = method.fit, method.options
    if method.multiclass or k > 2:
        fit = fit if method.multiclass else multiclass.one_vs_rest(fit)
        options = {**options, "num_classes": k}
    judge = _judge(method.log_odds, method.log_odds and k > 2 and not method.multiclass)
    run = functools.partial(
        resample.cross_validate, _standardized(fit), judge, batch_size=1, **options
    )
    start = time.perf_counter()
    program = jax.jit(run).lower(data.x, data.y, weights).compile()
    compiled = time.perf_counter()
    values, info = jax.block_until_ready(program(data.x, data.y, weights))
    done = time.perf_counter()
    values = np.asarray(values)
    return Outcome(
        name=method.name,
        accuracy=values[:, 0],
        log_loss=values[:, 1] if method.log_odds else None,
        status=np.asarray(info.status),
        fit_seconds=(done - compiled) / len(weights),
        compile_seconds=compiled - start,
    )


def folds(data: Data, wanted: int, seed: int, notes: list[str]) -> jax.Array:
    """`(folds, n)` training weights; fewer folds than wanted where no class has as many rows."""
    sizes = np.bincount(data.y, minlength=len(data.classes))
    number = min(wanted, int(sizes.max()))
    if number < wanted:
        notes.append(f"{number} folds instead of {wanted}: no class has more rows than that")
    rare = [f"'{name}' ({size})" for name, size in zip(data.classes, sizes, strict=True)]
    rare = [text for text, size in zip(rare, sizes, strict=True) if size < number]
    if rare:
        notes.append(f"classes with fewer rows than folds: {', '.join(rare)}")
    return resample.stratified_kfold(jax.random.key(seed), data.y, folds=number)


def _standardized(fit: Callable) -> Callable:
    """The fit on columns of mean 0 and variance 1 under its weights, its params in units of x."""

    def fit_standardized(x, y, *, sample_weight, **options):
        scaler = features.standardizer(x, sample_weight=sample_weight)
        scaled = features.standardize(scaler, x)
        params, info = fit(scaled, y, sample_weight=sample_weight, **options)
        return features.unstandardize(scaler, params), info

    return fit_standardized


def _judge(log_odds: bool, one_vs_rest: bool) -> Callable:
    """Accuracy and log loss, `(2,)`; the latter NaN where scores are no log-odds."""

    def judge(scores, y, *, sample_weight):
        accuracy = metrics.accuracy(scores, y, sample_weight=sample_weight)
        if not log_odds:
            return jnp.stack([accuracy, jnp.full_like(accuracy, jnp.nan)])
        # The log of normalised sigmoids, up to a constant: see multiclass.probabilities.
        scores = jax.nn.log_sigmoid(scores) if one_vs_rest else scores
        return jnp.stack([accuracy, metrics.log_loss(scores, y, sample_weight=sample_weight)])

    return judge

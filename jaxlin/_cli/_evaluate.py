"""Every classifier of the package on one problem, by cross-validation: the command line's engine.

A method is one line of `METHODS`. Each is compiled once, for one fold, and the folds run one after
another: so memory holds one fold, and the time of a fit is told from the time of compiling.
Shapes: `n` rows, `d` features, `k` classes.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin import (
    features,
    fisher,
    lda,
    least_squares,
    logistic,
    metrics,
    multiclass,
    perceptron,
    qda,
    resample,
    softmax,
    solvers,
    svm,
)
from jaxlin._base import _dispatch, _platform, _traits
from jaxlin._cli._table import Data


class Method(NamedTuple):
    """A classifier to try.

    name: what the table calls it
    fit: `fit(x, y, *, sample_weight, ...)`; a binary one goes through one-vs-rest when k > 2
    options: of the fit: `options(n)` returns keywords
    multiclass: whether the fit takes `num_classes`
    least_classes: with fewer it is another of the methods
    chooses: whether it leaves features out
    """

    name: str
    fit: Callable
    options: Callable[[int], dict[str, Any]] = lambda n: {}
    multiclass: bool = False
    least_classes: int = 2
    chooses: bool = False


# A mild penalty on standardised columns: scikit-learn's C = 1 comes to this with 1,000 rows.
L2 = 1e-3
L1 = 1e-2  # leaves out about two thirds of the columns of the embedded data
VISITS = 100_000  # of a perceptron to rows: a moment's work where only separable data would end it
COMPILERS = 2  # threads; XLA compiles outside of Python's lock
# Of x: with fewer entries a fit takes milliseconds in any code, and compiling decides the time.
FEW_ENTRIES = 100_000


def _passes(n: int) -> dict[str, Any]:
    return {"max_epochs": min(1000, max(5, VISITS // n))}


def _ridge(solver: solvers.Solver) -> Callable[[int], dict[str, Any]]:
    return lambda n: {"l2": L2, "solver": solver}


def _ledoit_wolf(n: int) -> dict[str, Any]:
    return {"shrinkage": lda.ledoit_wolf}


METHODS = (
    Method("perceptron", perceptron.fit, _passes),
    Method("perceptron, averaged", perceptron.fit_averaged, _passes),
    Method("perceptron, pocket", perceptron.fit_pocket, _passes),
    Method("Fisher", fisher.fit),
    Method("least squares", least_squares.fit, multiclass=True),
    Method("LDA", lda.fit, multiclass=True),
    Method("LDA, shrunk", lda.fit, _ledoit_wolf, multiclass=True),
    Method("QDA", qda.fit, multiclass=True),
    Method("logistic, Newton", logistic.fit, _ridge(solvers.newton)),
    Method("logistic, L-BFGS", logistic.fit, _ridge(solvers.lbfgs)),
    Method("logistic, L1", logistic.fit, lambda n: {"l1": L1}, chooses=True),
    Method("SVM", svm.fit, lambda n: {"l2": L2}),
    Method(
        "SVM, Crammer-Singer",
        svm.fit_crammer_singer,
        lambda n: {"l2": L2},
        multiclass=True,
        least_classes=3,
    ),
    Method("softmax", softmax.fit, lambda n: {"l2": L2}, multiclass=True),
)


def methods(k: int) -> list[Method]:
    """Those that are methods of their own for k classes."""
    return [method for method in METHODS if k >= method.least_classes]


class Program(NamedTuple):
    """A method, compiled for the shapes of one problem.

    run: `(x, y, weight (n,)) -> {"status": (), "accuracy": (), ...}`
    seconds: what compiling took
    """

    method: Method
    run: Callable
    seconds: float


class Outcome(NamedTuple):
    """How a method did.

    name: of the method
    accuracy: `(folds,)`
    log_loss: `(folds,)`, or None where scores are no log-odds
    status: `(folds,)`
    fit_seconds: the median over the folds, fit and scores
    compile_seconds: before the first fit
    kept: `(folds,)` features with a coefficient, or None where all have one
    """

    name: str
    accuracy: np.ndarray
    log_loss: np.ndarray | None
    status: np.ndarray
    fit_seconds: float
    compile_seconds: float
    kept: np.ndarray | None = None


def compile_all(
    methods: Sequence[Method], data: Data, weights: jax.Array, progress: Callable[[str], None]
) -> list[Program]:
    """Compile every method for the shapes of `data` and of one fold, two at a time."""
    programs = []
    pool = ThreadPoolExecutor(COMPILERS)
    try:
        for program in pool.map(lambda method: _compile(method, data, weights[0]), methods):
            programs.append(program)
            progress(f"compiling: {len(programs)} of {len(methods)}")
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return programs


def evaluate(
    program: Program, data: Data, weights: jax.Array, progress: Callable[[str], None]
) -> Outcome:
    """Cross-validate one method, fold by fold, each standardised by its own training rows.

    Args:
      program: the method, as `compile_all` returned it.
      data: the problem.
      weights: `(folds, n)` training weights.
      progress: is told where the work stands.
    """
    x, y = jnp.asarray(data.x), jnp.asarray(data.y)
    folds, seconds = [], []
    for i in range(len(weights)):
        progress(f"{program.method.name}: fold {i + 1} of {len(weights)}")
        scaler = features.standardizer(x, sample_weight=weights[i])
        scaled = jax.block_until_ready(features.standardize(scaler, x))
        start = time.perf_counter()
        folds.append(jax.block_until_ready(program.run(scaled, y, weights[i])))
        seconds.append(time.perf_counter() - start)
    values = {name: np.array([value[name] for value in folds]) for name in folds[0]}
    return Outcome(
        name=program.method.name,
        accuracy=values["accuracy"],
        log_loss=values.get("log_loss"),
        status=values["status"],
        fit_seconds=float(np.median(seconds)),
        compile_seconds=program.seconds,
        kept=values.get("kept"),
    )


def folds(data: Data, wanted: int, seed: int) -> tuple[jax.Array, list[str]]:
    """`(folds, n)` training weights, fewer than wanted where no class has as many rows; notes."""
    sizes = np.bincount(data.y, minlength=len(data.classes))
    number = min(wanted, int(sizes.max()))
    notes = []
    if number < wanted:
        notes.append(f"{number} folds instead of {wanted}: no class has more rows than that")
    rare = [f"'{c}' ({n})" for c, n in zip(data.classes, sizes, strict=True) if n < number]
    if rare:
        notes.append(f"fewer rows than folds in the classes: {', '.join(rare)}")
    return resample.stratified_kfold(jax.random.key(seed), data.y, folds=number), notes


def _compile(method: Method, data: Data, weight: jax.Array) -> Program:
    k = len(data.classes)
    fit, options = method.fit, method.options(len(data.y))
    one_vs_rest = k > 2 and not method.multiclass
    if one_vs_rest:
        fit = multiclass.one_vs_rest(fit)
    if k > 2 or method.multiclass:
        options["num_classes"] = k

    def run(x, y, weight):
        params, info = fit(x, y, sample_weight=weight, **options)
        held_out = (weight == 0).astype(weight.dtype)
        scores = _dispatch.scores(params, x)
        found = {"status": info.status}
        found["accuracy"] = metrics.accuracy(scores, y, sample_weight=held_out)
        if _traits.of(method.fit).log_odds:
            # The log of normalised sigmoids, up to a constant: see multiclass.probabilities.
            scores = jax.nn.log_sigmoid(scores) if one_vs_rest else scores
            found["log_loss"] = metrics.log_loss(scores, y, sample_weight=held_out)
        if method.chooses:
            found["kept"] = jnp.sum(jnp.any(jnp.atleast_2d(params.weights) != 0, axis=0))
        return found

    start = time.perf_counter()
    with jax.enable_x64(True):  # a thread does not inherit it
        lowered = jax.jit(run).lower(data.x, data.y, weight)
        compiled = lowered.compile(_platform.QUICKLY if data.x.size <= FEW_ENTRIES else None)
    return Program(method, compiled, time.perf_counter() - start)

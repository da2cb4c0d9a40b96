"""Linear classifiers as pure JAX functions.

`params, info = module.fit(x, y, ...)` trains, `jaxlin.predict(params, x)` classifies, and
`info.status` says, as data, whether the fit succeeded. Every function of arrays works inside
`jit`, `vmap` and `grad`.
"""

import importlib as _importlib
from typing import Any as _Any

from jaxlin import (
    calibration,
    centroids,
    conformal,
    datasets,
    distributed,
    effects,
    features,
    fisher,
    gaussian,
    inference,
    labels,
    lda,
    least_squares,
    linear,
    logistic,
    losses,
    metrics,
    moments,
    multiclass,
    naive_bayes,
    ordinal,
    pairwise,
    perceptron,
    plot,
    probes,
    qda,
    quadratic,
    resample,
    softmax,
    solvers,
    sparse,
    streaming,
    svm,
    types,
    updates,
)
from jaxlin._base import _platform as _platform
from jaxlin._base._archive import load, save
from jaxlin._base._cache import cache
from jaxlin._base._dispatch import log_probabilities, predict, probabilities, scores
from jaxlin.types import (
    DiagonalGaussian,
    FitError,
    Gaussian,
    Hyperplane,
    Info,
    Linear,
    Ordinal,
    Pairwise,
    Quadratic,
    Status,
    TiedGaussian,
    describe,
    raise_if_failed,
)

__version__ = "0.1.0"


def __getattr__(name: str) -> _Any:
    if name == "estimators":  # it needs scikit-learn, which an import does not
        return _importlib.import_module("jaxlin.estimators")
    raise AttributeError(f"module 'jaxlin' has no attribute {name!r}")


__all__ = [
    "DiagonalGaussian",
    "FitError",
    "Gaussian",
    "Hyperplane",
    "Info",
    "Linear",
    "Ordinal",
    "Pairwise",
    "Quadratic",
    "Status",
    "TiedGaussian",
    "cache",
    "calibration",
    "centroids",
    "conformal",
    "datasets",
    "describe",
    "distributed",
    "effects",
    "features",
    "fisher",
    "gaussian",
    "inference",
    "labels",
    "lda",
    "least_squares",
    "linear",
    "load",
    "log_probabilities",
    "logistic",
    "losses",
    "metrics",
    "moments",
    "multiclass",
    "naive_bayes",
    "ordinal",
    "pairwise",
    "perceptron",
    "plot",
    "predict",
    "probabilities",
    "probes",
    "qda",
    "quadratic",
    "raise_if_failed",
    "resample",
    "save",
    "scores",
    "softmax",
    "solvers",
    "sparse",
    "streaming",
    "svm",
    "types",
    "updates",
]

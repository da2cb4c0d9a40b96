"""Linear classifiers as pure JAX functions.

`params, info = module.fit(x, y, ...)` trains, `jaxlin.predict(params, x)` classifies, and
`info.status` says, as data, whether the fit succeeded. Every function of arrays works inside
`jit`, `vmap` and `grad`.
"""

from jaxlin import (
    datasets,
    features,
    fisher,
    gaussian,
    labels,
    lda,
    least_squares,
    linear,
    logistic,
    losses,
    metrics,
    moments,
    multiclass,
    pairwise,
    perceptron,
    qda,
    quadratic,
    resample,
    softmax,
    solvers,
    svm,
    types,
    updates,
)
from jaxlin._dispatch import log_probabilities, predict, probabilities, scores
from jaxlin.types import (
    FitError,
    Gaussian,
    Hyperplane,
    Info,
    Linear,
    Pairwise,
    Quadratic,
    Status,
    TiedGaussian,
    describe,
    raise_if_failed,
)

__version__ = "0.1.0"

__all__ = [
    "FitError",
    "Gaussian",
    "Hyperplane",
    "Info",
    "Linear",
    "Pairwise",
    "Quadratic",
    "Status",
    "TiedGaussian",
    "datasets",
    "describe",
    "features",
    "fisher",
    "gaussian",
    "labels",
    "lda",
    "least_squares",
    "linear",
    "log_probabilities",
    "logistic",
    "losses",
    "metrics",
    "moments",
    "multiclass",
    "pairwise",
    "perceptron",
    "predict",
    "probabilities",
    "qda",
    "quadratic",
    "raise_if_failed",
    "resample",
    "scores",
    "softmax",
    "solvers",
    "svm",
    "types",
    "updates",
]

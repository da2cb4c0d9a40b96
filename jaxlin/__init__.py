"""Linear classifiers as pure JAX functions.

`params, info = module.fit(x, y, ...)` trains, `jaxlin.predict(params, x)` classifies, and
`info.status` says, as data, whether the fit succeeded. Every function of arrays works inside
`jit`, `vmap` and `grad`.
"""

from jaxlin import (
    _platform as _platform,  # first, since it refuses versions of jax that are not to be trusted
)
from jaxlin import (
    datasets,
    distributed,
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
    pairwise,
    perceptron,
    plot,
    qda,
    quadratic,
    resample,
    softmax,
    solvers,
    streaming,
    svm,
    types,
    updates,
)
from jaxlin._archive import load, save
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
    "distributed",
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
    "pairwise",
    "perceptron",
    "plot",
    "predict",
    "probabilities",
    "qda",
    "quadratic",
    "raise_if_failed",
    "resample",
    "save",
    "scores",
    "softmax",
    "solvers",
    "streaming",
    "svm",
    "types",
    "updates",
]

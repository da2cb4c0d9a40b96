"""How large the programs of the public fits are: fusions, which cost 10 to 15 ms of compiling each.

`python -m tests.budgets` prints the file anew, its numbers of this jaxlib as they are; after `new`
those alone that are lacking.
That has two numbers for each program: of jaxlib 0.9, which is Python 3.11's, and of the newest.
"""

import json
import pathlib
import re
import sys
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin import (
    calibration,
    centroids,
    conformal,
    fisher,
    gaussian,
    lda,
    least_squares,
    logistic,
    losses,
    naive_bayes,
    ordinal,
    perceptron,
    qda,
    softmax,
    svm,
)
from jaxlin._base import _lean

FILE = pathlib.Path(__file__).with_suffix(".json")
SMALL, LARGE = (300, 10), (50_000, 50)
FITS: dict[str, tuple[Callable, tuple[int, ...]]] = {
    "calibration.fit_isotonic": (calibration.fit_isotonic, (300,)),
    "calibration.fit_platt": (calibration.fit_platt, (300,)),
    "calibration.fit_temperature": (calibration.fit_temperature, (300,)),
    "centroids.fit": (partial(centroids.fit, num_classes=3), SMALL),
    "conformal.fit": (conformal.fit, (300, 3)),
    "fisher.fit": (fisher.fit, SMALL),
    "gaussian.fit": (partial(gaussian.fit, num_classes=3), SMALL),
    "gaussian.fit_tied": (partial(gaussian.fit_tied, num_classes=3), SMALL),
    "lda.fit": (partial(lda.fit, num_classes=3), SMALL),
    "least_squares.fit": (partial(least_squares.fit, num_classes=3), SMALL),
    "logistic.fit": (logistic.fit, SMALL),
    "logistic.fit, 50,000 rows": (logistic.fit, LARGE),
    "logistic.fit_firth": (logistic.fit_firth, SMALL),
    "naive_bayes.fit_bernoulli": (partial(naive_bayes.fit_bernoulli, num_classes=3), SMALL),
    "naive_bayes.fit_categorical": (
        partial(naive_bayes.fit_categorical, num_classes=3, groups=np.arange(10) // 2),
        SMALL,
    ),
    "naive_bayes.fit_complement": (partial(naive_bayes.fit_complement, num_classes=3), SMALL),
    "naive_bayes.fit_gaussian": (partial(naive_bayes.fit_gaussian, num_classes=3), SMALL),
    "naive_bayes.fit_multinomial": (partial(naive_bayes.fit_multinomial, num_classes=3), SMALL),
    "ordinal.fit": (partial(ordinal.fit, num_classes=3), SMALL),
    "perceptron.fit": (perceptron.fit, SMALL),
    "perceptron.fit_averaged": (perceptron.fit_averaged, SMALL),
    "perceptron.fit_pocket": (perceptron.fit_pocket, SMALL),
    "qda.fit": (partial(qda.fit, num_classes=3), SMALL),
    "softmax.fit": (partial(softmax.fit, num_classes=3), SMALL),
    "softmax.fit, 50,000 rows": (partial(softmax.fit, num_classes=3), LARGE),
    "svm.fit": (partial(svm.fit, l2=0.1), SMALL),
    "svm.fit, squared": (partial(svm.fit, l2=0.1, loss=losses.squared_hinge), SMALL),
    "svm.fit_dual": (partial(svm.fit_dual, l2=0.1), SMALL),
    "svm.fit_hard_margin": (svm.fit_hard_margin, SMALL),
    "svm.fit_crammer_singer": (partial(svm.fit_crammer_singer, l2=0.1, num_classes=3), SMALL),
}
# By ways of calling: with a penalty that is traced, as lanes of labels over one x, as lanes that a
# combinator tries first, and its slopes.
SMOOTH = ["least_squares.fit", "logistic.fit", "softmax.fit", "svm.fit, squared"]
WAYS = {
    "alone": list(FITS),
    "traced": [*SMOOTH, "logistic.fit, 50,000 rows", "softmax.fit, 50,000 rows", "svm.fit"],
    "lanes": [*SMOOTH, "lda.fit", "svm.fit"],
    "lean": ["logistic.fit", "logistic.fit, 50,000 rows", "softmax.fit, 50,000 rows"],
    "derivative": [*SMOOTH, "lda.fit", "qda.fit", "gaussian.fit"],
}
PROGRAMS = [(name, way) for way, names in WAYS.items() for name in names]


def fusions(name: str, way: str) -> int:
    """Those of the compiled program, in float32."""
    fit, shape = FITS[name]
    x = jax.ShapeDtypeStruct(shape, jnp.float32)
    y = jax.ShapeDtypeStruct(shape[:1], jnp.int32)
    if way == "traced":
        penalty = jax.ShapeDtypeStruct((), jnp.float32)
        program, given = (lambda x, y, l2: fit(x, y, l2=l2)), (x, y, penalty)
    elif way == "lanes":
        labels = jax.ShapeDtypeStruct((4, *shape[:1]), jnp.int32)
        program, given = jax.vmap(fit, (None, 0)), (x, labels)
    elif way == "lean":
        labels = jax.ShapeDtypeStruct((4, *shape[:1]), jnp.int32)
        lean = _lean.of(partial(fit, l2=0.1), penalised=True)
        program, given = jax.vmap(lean, (None, 0)), (x, labels)
    elif way == "derivative":

        def size(x, y):
            return sum(jnp.sum(a) for a in jax.tree.leaves(fit(x, y)[0]))

        program, given = jax.grad(size), (x, y)
    else:
        program, given = fit, (x, y)
    # As users compile it: see tests/conftest.py.
    options = None if newest() else {"xla_cpu_use_fusion_emitters": True}
    compiled = jax.jit(program).lower(*given).compile(compiler_options=options)
    return len(re.findall(r" fusion\(", compiled.as_text()))


def newest() -> int:
    """Which of the two numbers is of this jaxlib."""
    return 0 if jax.__version__.startswith("0.9.") else 1


if __name__ == "__main__":
    held = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name, way in PROGRAMS:
        numbers = held.setdefault(name, {}).setdefault(way, [0, 0])
        if not (sys.argv[1:] == ["new"] and numbers[newest()]):
            numbers[newest()] = fusions(name, way)
            print(name, way, numbers, file=sys.stderr, flush=True)
    print(json.dumps(held, indent=1))

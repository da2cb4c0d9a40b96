"""What a user may write ends: fits and functions of fits as lanes, in processes with a time limit.

A program that never ends is no failed assertion, so each group runs in a process of its own, which
is this file as a program: `python -m tests.test_endings TRANSFORM COLUMNS LANES NAME...`. Most of
the grid takes long to compile and is thorough.
"""

import functools
import subprocess
import sys
import tempfile
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlin import lda, logistic, metrics, probes, resample
from tests import public

COLUMNS, LANES = (8, 130, 256, 300), (10, 72)
SECONDS = 600
KEY = jax.random.key(0)
# Fits without a derivative in reverse, which their docstrings say.
FORWARD = ("perceptron", "svm.fit", "crammer_singer", "fit_dual", "hard_margin")


def _folds(y):
    return resample.stratified_kfold(KEY, y, folds=3)


def _judged(f, fit, **options):
    def run(x, y, weight, mask):
        return f(fit, metrics.accuracy, x, y, _folds(y), sample_weight=weight, **options)

    return run


def _permuted(x, y, weight, mask):
    test = functools.partial(resample.permutation_test, KEY, lda.fit, metrics.accuracy)
    return test(x, y, _folds(y), draws=5, num_classes=2, sample_weight=weight)


def _two(y):
    return jnp.stack([y, 1 - y], axis=1)


PENALTIES = jnp.array([1e-2, 1e-1])
OF_FITS = {
    "select": _judged(resample.select, logistic.fit, l2=PENALTIES),
    "select on_standardized": _judged(
        resample.select, resample.on_standardized(logistic.fit), l2=PENALTIES
    ),
    "cross_validate": _judged(resample.cross_validate, logistic.fit, l2=0.01),
    "permutation_test": _permuted,
    "refit": lambda x, y, weight, mask: resample.refit(
        logistic.fit, x, y, weight * _folds(y), l2=0.01
    ),
    "regularization_path": lambda x, y, weight, mask: resample.regularization_path(
        logistic.fit, x, y, l2=PENALTIES, sample_weight=weight
    ),
    "probes.sweep": lambda x, y, weight, mask: probes.sweep(
        logistic.fit, x, _two(y), l2=PENALTIES, sample_weight=weight
    ),
    "probes.select": lambda x, y, weight, mask: probes.select(
        lda.fit,
        metrics.accuracy,
        x,
        _two(y),
        _folds(y),
        shrinkage=PENALTIES,
        sample_weight=weight,
    ),
}


def transformed(transform, f, num_classes, d, lanes):
    """`(function, arguments)`: many weights to one x, to two, or their derivatives."""
    rng = np.random.default_rng(0)
    n = d + 60
    x = rng.normal(size=(n, d))
    y = np.argmax(x[:, :num_classes] + 2 * rng.gumbel(size=(n, num_classes)), axis=1)
    weights, mask = rng.integers(1, 3, (lanes, n)).astype(float), np.ones(d, bool)

    def of_weight(x, weight):
        return f(x, y, weight, mask)

    if transform == "derivatives":

        def size(weight, x):
            return sum(jnp.sum(a**2) for a in jax.tree.leaves(of_weight(x, weight)[0]))

        return jax.vmap(jax.grad(size), in_axes=(0, None)), (weights, x)
    many = jax.vmap(of_weight, in_axes=(None, 0))
    if transform == "lanes of lanes":
        return jax.vmap(many, in_axes=(0, None)), (np.stack([x, x[::-1]]), weights)
    return many, (x, weights)


def main(transform, d, lanes, *names):
    for name in names:
        fit = public.FITS.get(name)
        f, k = (OF_FITS[name], 2) if fit is None else (fit, fit.num_classes)
        program, arguments = transformed(transform, f, k, int(d), int(lanes))
        jax.block_until_ready(jax.jit(program)(*arguments))
        print(name, flush=True)
        jax.clear_caches()


def run(transform, d, lanes, *names):
    """Each name has its own time to come back in."""
    command = [sys.executable, "-m", "tests.test_endings", transform, str(d), str(lanes), *names]
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True) as process,
    ):
        for name in names:
            timer = threading.Timer(SECONDS, process.kill)
            timer.start()
            came = process.stdout.readline().strip()
            timer.cancel()
            said.seek(0)
            assert came == name, f"{name}: {said.read()[-2000:]}"
        assert process.wait(SECONDS) == 0


@pytest.mark.cpu
def test_many_weights_to_one_x_end():
    run("lanes", 256, 10, "logistic.fit", "lda.fit", "select")


@pytest.mark.cpu
@pytest.mark.thorough
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("d", COLUMNS)
@pytest.mark.parametrize("transform", ["lanes", "lanes of lanes", "derivatives"])
def test_all_that_a_user_may_write_ends(transform, d, lanes):
    if transform == "derivatives":
        names = [name for name in public.FITS if not any(part in name for part in FORWARD)]
    else:
        names = [*public.FITS, *OF_FITS]
    run(transform, d, lanes, *names)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main(*sys.argv[1:])

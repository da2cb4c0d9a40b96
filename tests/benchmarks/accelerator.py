"""Times fits on one accelerator, and their passes against its memory, as a Markdown table.

    python tests/benchmarks/accelerator.py [NAME ...]

Second calls, medians of 5, of x that is on the device; a NAME is a part of a workload's name. A
step of a solver is the difference of two runs that end after so many; what it cannot do without is
timed beside it: two products with x, and one of x with itself.
"""

import argparse
import functools
import math
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin import lda, logistic, metrics, perceptron, probes, resample, softmax, solvers, svm

REPEATS = 5
# Rows and columns of the x that passes are timed on.
PASSED = 2_000_000, 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="*", help="parts of workloads' names; without one, all")
    asked = parser.parse_args().name
    jax.config.update("jax_enable_x64", True)
    print(f"{jax.devices()[0].device_kind}, jax {jax.__version__}; ms\n")
    print("| workload | float32 | float64 |")
    print("|---|---|---|")
    # Row by row, so that a run that is cut off has told what it found.
    for name, measure in WORKLOADS.items():
        if not asked or any(part in name for part in asked):
            single, double = measure(np.float32), measure(np.float64)
            print(f"| {name} | {single:.2f} | {double:.2f} |", flush=True)


def of_one(fit, n, d, k=2, **kind):
    return lambda dtype: clock(fit, *drawn(dtype, n, d, k, **kind))


def of_lanes(fit, lanes):
    def measure(dtype):
        x = jnp.stack([drawn(dtype, 100, 10, seed=i)[0] for i in range(min(lanes, 100))])
        x = jnp.tile(x, (lanes // len(x), 1, 1))
        y = (x[:, :, 0] + jnp.roll(x[:, :, 1], 1, axis=1) > 0).astype(jnp.int32)
        return clock(jax.vmap(fit), x, y)

    return measure


def of_bootstraps(dtype):
    x, y = drawn(dtype, 500, 10)
    counts = np.random.default_rng(0).multinomial(500, np.full(500, 1 / 500), 10_000)
    return clock(jax.vmap(lambda w: PENALISED(x, y, sample_weight=w)), jnp.asarray(counts, dtype))


def of_probes(n, d, concepts, lies=None):
    """`probes.sweep`, ten penalties, x in half precision if so it `lies`."""

    def measure(dtype):
        x, _ = drawn(dtype, n, d, correlated=True)
        noise = jax.random.logistic(jax.random.key(1), (n, concepts), dtype)
        y = (x[:, :concepts] / x[:, :concepts].std(0) + noise > 0).astype(jnp.int32)
        held, values = x if lies is None else x.astype(lies), jnp.logspace(-4, 0, 10, dtype=dtype)
        return clock(lambda x, y: probes.sweep(logistic.fit, x, y, l2=values), held, y)

    return measure


def of_lda_probes(dtype):
    x, _ = drawn(dtype, 20_000, 768, correlated=True)
    y = (x[:, :24] + jax.random.normal(jax.random.key(1), (20_000, 24), dtype) > 0).astype(int)
    folds = resample.kfold(jax.random.key(0), 20_000, folds=5)
    choose = functools.partial(probes.select, lda.fit, metrics.brier)
    return clock(lambda x, y: choose(x, y, folds, shrinkage=jnp.logspace(-3, 0, 5)), x, y)


def of_step(solver, few, many):
    fit = functools.partial(logistic.fit, l2=1e-4, tol=0.0, solver=solver)

    def measure(dtype):
        given = passed(dtype)
        times = [clock(functools.partial(fit, max_steps=each), *given) for each in (few, many)]
        return (times[1] - times[0]) / (many - few)

    return measure


def of_products(dtype):
    x, _ = passed(dtype)
    return clock(jax.jit(lambda x, w: product(jnp.tanh(product(x, w)), x)), x, jnp.ones_like(x[0]))


def of_square(dtype):
    x, _ = passed(dtype)
    return clock(jax.jit(lambda x, c: product((x * c[:, None]).T, x)), x, jnp.ones_like(x[:, 0]))


def passed(dtype):
    n, d = PASSED
    x = jax.random.normal(jax.random.key(0), (n, d), dtype)
    return x, (x[:, 0] + jax.random.logistic(jax.random.key(1), (n,), dtype) > 0).astype(jnp.int32)


product = functools.partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)


def drawn(dtype, n, d, k=2, *, correlated=False, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    scores = 2 * x @ rng.normal(size=(d, k)) / math.sqrt(d)
    if correlated:
        x = x * np.geomspace(1, 0.01, d) @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    return jnp.asarray(x, dtype), jnp.asarray(y)


def clock(f, *given) -> float:
    jax.block_until_ready(f(*given))
    found = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(f(*given))
        found.append(time.perf_counter() - start)
    return 1e3 * statistics.median(found)


PENALISED = functools.partial(logistic.fit, l2=1e-4, tol=1e-6)
OF_CLASSES = functools.partial(softmax.fit, num_classes=10, l2=1e-4, tol=1e-6)
LANES = {
    "logistic": PENALISED,
    "LDA": functools.partial(lda.fit, num_classes=2),
    "hinge": functools.partial(svm.fit, l2=1e-2),
    "perceptron, 10 epochs": functools.partial(perceptron.fit, max_epochs=10),
}
SIZE = "{:,} x {}".format(*PASSED)
WORKLOADS = {
    "logistic 200,000 x 100": of_one(PENALISED, 200_000, 100),
    "logistic 20,000 x 500, correlated": of_one(PENALISED, 20_000, 500, correlated=True),
    "softmax 200,000 x 100, k = 10": of_one(OF_CLASSES, 200_000, 100, 10),
    "hinge 20,000 x 50": of_one(functools.partial(svm.fit, l2=5e-5), 20_000, 50),
    **{
        f"{lanes:,} of 100 x 10: {name}": of_lanes(fit, lanes)
        for lanes in (1, 100, 10_000)
        for name, fit in LANES.items()
    },
    "10,000 bootstraps of 500 x 10: logistic": of_bootstraps,
    "probes, 24 concepts, 10 penalties, of 20,000 x 768": of_probes(20_000, 768, 24),
    "the same in bfloat16": of_probes(20_000, 768, 24, jnp.bfloat16),
    "LDA probes, 24 concepts, 5 folds, 5 shrinkages, of 20,000 x 768": of_lda_probes,
    f"{SIZE}: a step of L-BFGS": of_step(solvers.lbfgs, 2, 6),
    f"{SIZE}: two products": of_products,
    f"{SIZE}: a step of Newton's method": of_step(solvers.newton, 2, 5),
    f"{SIZE}: X'DX": of_square,
}

if __name__ == "__main__":
    main()

"""Times fits on one accelerator, and their passes against its memory, as a Markdown table.

    python tests/benchmarks/accelerator.py

Second calls, medians of 5, of x that is on the device. A step of a solver is the difference of two
runs that end after so many; what it cannot do without is timed beside it: two products with x, and
one of x with itself.
"""

import functools
import math
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin import lda, logistic, perceptron, softmax, solvers, svm

REPEATS = 5
# Rows and columns of the x that passes are timed on.
PASSED = 2_000_000, 100


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    print(f"{jax.devices()[0].device_kind}, jax {jax.__version__}; ms\n")
    print("| workload | float32 | float64 |")
    print("|---|---|---|")
    # Row by row, so that a run that is cut off has told what it found.
    for (name, single), (_, double) in zip(times(np.float32), times(np.float64), strict=True):
        print(f"| {name} | {single:.2f} | {double:.2f} |", flush=True)


def times(dtype):
    """`(name, ms)` of each workload."""
    penalised = functools.partial(logistic.fit, l2=1e-4, tol=1e-6)
    yield "logistic 200,000 x 100", clock(penalised, *drawn(dtype, 200_000, 100))
    x, y = drawn(dtype, 20_000, 500, correlated=True)
    yield "logistic 20,000 x 500, correlated", clock(penalised, x, y)
    of_classes = functools.partial(softmax.fit, num_classes=10, l2=1e-4, tol=1e-6)
    yield "softmax 200,000 x 100, k = 10", clock(of_classes, *drawn(dtype, 200_000, 100, 10))
    yield "hinge 20,000 x 50", clock(functools.partial(svm.fit, l2=5e-5), *drawn(dtype, 20_000, 50))
    yield from of_lanes(dtype, penalised)
    yield from of_passes(dtype)


def of_lanes(dtype, penalised):
    fits = {
        "logistic": penalised,
        "LDA": functools.partial(lda.fit, num_classes=2),
        "hinge": functools.partial(svm.fit, l2=1e-2),
        "perceptron, 10 epochs": functools.partial(perceptron.fit, max_epochs=10),
    }
    for lanes in (1, 100, 10_000):
        x = jnp.stack([drawn(dtype, 100, 10, seed=i % 100)[0] for i in range(min(lanes, 100))])
        x = jnp.tile(x, (lanes // len(x), 1, 1))
        y = (x[:, :, 0] + jnp.roll(x[:, :, 1], 1, axis=1) > 0).astype(jnp.int32)
        for name, fit in fits.items():
            yield f"{lanes:,} of 100 x 10: {name}", clock(jax.vmap(fit), x, y)
    x, y = drawn(dtype, 500, 10)
    counts = np.random.default_rng(0).multinomial(500, np.full(500, 1 / 500), 10_000)
    drawing = jax.vmap(lambda w: penalised(x, y, sample_weight=w))
    yield "10,000 bootstraps of 500 x 10: logistic", clock(drawing, jnp.asarray(counts, dtype))


def of_passes(dtype):
    n, d = PASSED
    x = jax.random.normal(jax.random.key(0), (n, d), dtype)
    y = (x[:, 0] + jax.random.logistic(jax.random.key(1), (n,), dtype) > 0).astype(jnp.int32)
    highest = functools.partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
    both = jax.jit(lambda x, w: highest(jnp.tanh(highest(x, w)), x))
    square = jax.jit(lambda x, c: highest((x * c[:, None]).T, x))
    size = f"{n:,} x {d}"
    yield f"{size}: a step of L-BFGS", step(solvers.lbfgs, (2, 6), x, y)
    yield f"{size}: two products", clock(both, x, jnp.ones(d, dtype))
    yield f"{size}: a step of Newton's method", step(solvers.newton, (2, 5), x, y)
    yield f"{size}: X'DX", clock(square, x, jnp.ones(n, dtype))


def step(solver, steps, x, y):
    fit = functools.partial(logistic.fit, l2=1e-4, tol=0.0, solver=solver)
    few, many = (clock(functools.partial(fit, max_steps=each), x, y) for each in steps)
    return (many - few) / (steps[1] - steps[0])


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


if __name__ == "__main__":
    main()

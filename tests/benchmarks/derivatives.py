"""Times derivatives and influences as multiples of the fit itself, and prints a Markdown table.

    python tests/benchmarks/derivatives.py

Everything is jitted and called a second time; medians of alternating runs. `gradient`: value and
gradient of the loss of held-out rows in l2 per feature and in the weights of the training rows;
`influence`: of every training row, by `inference.influence` at params that are there already.
"""

import functools
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin import inference, logistic, losses, softmax

REPEATS = 9
WORKLOADS = {
    "logistic 1,000 x 20": (logistic.fit, losses.logistic, 1_000, 20, 2),
    "logistic 20,000 x 100": (logistic.fit, losses.logistic, 20_000, 100, 2),
    "logistic 5,000 x 500": (logistic.fit, losses.logistic, 5_000, 500, 2),
    "softmax 1,000 x 20, k 5": (softmax.fit, losses.softmax, 1_000, 20, 5),
    "softmax 2,000 x 64, k 10": (softmax.fit, losses.softmax, 2_000, 64, 10),
}


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    print("| workload | precision | fit, ms | gradient / fit | influence / fit |")
    print("|---|---|---|---|---|")
    for name, (fit, loss, n, d, k) in WORKLOADS.items():
        for dtype in (np.float32, np.float64):
            fitted, gradient, influence = programs(fit, loss, *data(n, d, k, dtype), k)
            medians = alternate((fitted, gradient, influence))
            ratios = " | ".join(f"{t / medians[0]:.2f}" for t in medians[1:])
            print(f"| {name} | {dtype.__name__} | {1e3 * medians[0]:.1f} | {ratios} |", flush=True)


def data(n, d, k, dtype):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2 * n, d))
    scores = x @ rng.normal(size=(d, k)) / np.sqrt(d) + rng.gumbel(size=(2 * n, k))
    return jnp.asarray(x, dtype), jnp.asarray(np.argmax(scores, axis=1))


def programs(fit, loss, x, y, k):
    n, d = len(x) // 2, x.shape[1]
    options = {"num_classes": k} if fit is softmax.fit else {}
    train, test = (x[:n], y[:n]), (x[n:], y[n:])
    l2, weight = jnp.full(d, 1e-3, x.dtype), jnp.ones(n, x.dtype)

    @jax.jit
    def fitted(l2, weight, train):
        return fit(*train, l2=l2, sample_weight=weight, **options)[0]

    def held_out(l2, weight, train, test):
        return losses.objective(loss, fitted(l2, weight, train), *test)

    gradient = jax.jit(jax.value_and_grad(held_out, argnums=(0, 1)))
    params = fitted(l2, weight, train)
    influence = functools.partial(inference.influence, loss, params, *train, l2=l2)
    return (
        (lambda: fitted(l2, weight, train)),
        (lambda: gradient(l2, weight, train, test)),
        influence,
    )


def alternate(runs):
    times = [[] for _ in runs]
    for run in runs:
        jax.block_until_ready(run())
    for _ in range(REPEATS):
        for run, seen in zip(runs, times, strict=True):
            time.sleep(0.05)
            start = time.perf_counter()
            jax.block_until_ready(run())
            seen.append(time.perf_counter() - start)
    return [statistics.median(seen) for seen in times]


if __name__ == "__main__":
    main()

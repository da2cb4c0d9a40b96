"""What is timed: data, our call, the peers' calls, and how far each is from the optimum.

Shapes: `n` examples, `d` features, `k` classes.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.linear_model import Ridge

import jaxlin

Run = Callable[[], Any]


def unknown(_: np.ndarray) -> float:
    """The objective or residual of a method that has none to compare."""
    return math.nan


class Workload(NamedTuple):
    """One row of the table.

    ours: our call; `jax.block_until_ready` is applied to what it returns
    peers: per name, the same fit from the loosest tolerance to the tightest
    unfold: what a run returns as one float64 array, the same for all who are right
    reference: that array, computed in float64 by other code
    objective, residual: of such an array, in float64
    near: the largest residual that counts as the optimum
    floor: a product that the method cannot do without
    """

    ours: Run
    peers: dict[str, tuple[Run, ...]]
    unfold: Callable[[Any], np.ndarray]
    reference: np.ndarray
    objective: Callable[[np.ndarray], float] = unknown
    residual: Callable[[np.ndarray], float] = unknown
    near: float = 1e-6
    floor: Run | None = None


# --- closed forms --------------------------------------------------------------------------------


def _classes(dtype, n=100_000, d=50, k=5):
    """Gaussian classes of one mildly correlated covariance."""
    rng = np.random.default_rng(0)
    mix = np.eye(d) + 0.3 * rng.normal(size=(d, d)) / math.sqrt(d)
    y = rng.integers(0, k, n)
    x = rng.normal(size=(n, d)) @ mix + rng.normal(size=(k, d))[y]
    return x.astype(dtype), y, k


@jax.jit
def _gram(x):
    return jnp.matmul(x.T, x, precision=jax.lax.Precision.HIGHEST)


def _floor(x) -> Run:
    device = jnp.asarray(x)
    return lambda: _gram(device)


def _scores(x, found) -> np.ndarray:
    """What decides at some rows: score differences, the same in every gauge."""
    rows = x[:: len(x) // 100].astype(float)
    if hasattr(found, "decision_function"):
        scores = found.decision_function(rows)
    elif hasattr(found, "predict"):
        scores = found.predict(rows)
    else:
        params = jax.tree.map(lambda a: np.asarray(a, float), found[0])
        scores = np.asarray(jaxlin.scores(params, rows))
    return scores - scores[:, :1]


def _fits(estimator, **settings) -> Callable[[np.ndarray, np.ndarray], tuple[Run]]:
    return lambda x, y: ((lambda: estimator(**settings).fit(x, y)),)


def lda(dtype) -> Workload:
    x, y, k = _classes(dtype)
    device, labels = jnp.asarray(x), jnp.asarray(y)
    solvers = ("svd", "lsqr", "eigen")
    fits = {s: _fits(LinearDiscriminantAnalysis, solver=s)(x, y) for s in solvers}
    exact = LinearDiscriminantAnalysis(solver="svd").fit(x.astype(float), y)
    return Workload(
        ours=lambda: jaxlin.lda.fit(device, labels, num_classes=k),
        peers={f"scikit-learn {name}": runs for name, runs in fits.items()},
        unfold=partial(_scores, x),
        reference=_scores(x, exact),
        floor=_floor(x),
    )


def qda(dtype) -> Workload:
    x, y, k = _classes(dtype)
    device, labels = jnp.asarray(x), jnp.asarray(y)
    fits = {s: _fits(QuadraticDiscriminantAnalysis, solver=s)(x, y) for s in ("svd", "eigen")}
    exact = QuadraticDiscriminantAnalysis(solver="svd").fit(x.astype(float), y)
    # Its divisor is n_k - 1 or n_k by solver; ours follows the reference's.
    divisor = _divisor_of(exact, x, y)
    return Workload(
        ours=lambda: jaxlin.qda.fit(device, labels, num_classes=k, divisor=divisor),
        peers={f"scikit-learn {name}": runs for name, runs in fits.items()},
        unfold=partial(_scores, x),
        reference=_scores(x, exact),
        floor=_floor(x),
    )


def _divisor_of(fitted, x, y) -> str:
    variance = np.var(x[y == 0].astype(float), axis=0).sum()
    found = np.sum(fitted.scalings_[0])
    return "n" if abs(found / variance - 1) < 0.5 / np.sum(y == 0) else "n_k-1"


def least_squares(dtype) -> Workload:
    x, y, k = _classes(dtype)
    n, d = x.shape
    l2 = 1e-3
    device, labels = jnp.asarray(x), jnp.asarray(y)
    targets = np.eye(k, dtype=dtype)[y]
    solvers = ("cholesky", "svd", "lsqr", "auto")
    fits = {s: _fits(Ridge, alpha=l2 * n, solver=s)(x, targets) for s in solvers}
    z = x.astype(float)
    whole = np.vstack([z - z.mean(0), math.sqrt(l2 * n) * np.eye(d)])
    weights = np.linalg.lstsq(whole, np.vstack([targets, np.zeros((d, k))]), rcond=None)[0]
    bias = targets.mean(0) - z.mean(0) @ weights
    exact = (jaxlin.types.Linear(weights=weights.T, bias=bias), None)
    return Workload(
        ours=lambda: jaxlin.least_squares.fit(device, labels, num_classes=k, l2=l2),
        peers={f"scikit-learn {name}": runs for name, runs in fits.items()},
        unfold=partial(_scores, x),
        reference=_scores(x, exact),
        floor=_floor(x),
    )


def lda_batch(dtype, lanes=10_000, n=100, d=10, k=3) -> Workload:
    """Many small fits in one call; the peers are loops over them."""
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(n) % k, (lanes, 1))
    x = (rng.normal(size=(lanes, n, d)) + rng.normal(size=(lanes, k, d))[:, y[0]]).astype(dtype)
    device, labels = jnp.asarray(x), jnp.asarray(y)
    fit = jax.vmap(partial(jaxlin.lda.fit, num_classes=k))

    def loop(solver):
        for i in range(lanes):
            fitted = LinearDiscriminantAnalysis(solver=solver).fit(x[i], y[i])
        return fitted

    def last(found):
        lane = found if hasattr(found, "predict") else jax.tree.map(lambda a: a[-1], found)
        return _scores(x[-1], lane)

    exact = LinearDiscriminantAnalysis(solver="svd").fit(x[-1].astype(float), y[-1])
    return Workload(
        ours=lambda: fit(device, labels),
        peers={f"scikit-learn {s}, loop": (partial(loop, s),) for s in ("svd", "lsqr", "eigen")},
        unfold=last,
        reference=_scores(x[-1], exact),
    )


ALL: dict[str, Callable[[Any], Workload]] = {
    "lda-100000x50-k5": lda,
    "qda-100000x50-k5": qda,
    "least_squares-100000x50-k5": least_squares,
    "lda-10000-fits-of-100x10-k3": lda_batch,
}

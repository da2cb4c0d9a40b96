"""What is timed: data, our call, the peers' calls, and how far each is from the optimum.

Shapes: `n` examples, `d` features, `k` classes.
"""

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, Perceptron, Ridge
from sklearn.model_selection import PredefinedSplit, cross_val_score, permutation_test_score
from sklearn.svm import SVC, LinearSVC

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
    near: float = math.inf
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


def lda_permutations(dtype, draws, n=200, d=50, folds=10) -> Workload:
    """A permutation test of cross-validated accuracy; the value is what all must agree on."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    x = (rng.normal(size=(n, d)) + 0.5 * (y[:, None] & (np.arange(d) < 3))).astype(dtype)
    key = jax.random.key(0)
    weights = jaxlin.resample.stratified_kfold(key, y, folds=folds)
    split = PredefinedSplit(np.argmin(np.asarray(weights), axis=0))
    device, labels = jnp.asarray(x), jnp.asarray(y)
    test = partial(jaxlin.resample.permutation_test, key, jaxlin.lda.fit, jaxlin.metrics.accuracy)

    def peer(solver, jobs):
        estimator = LinearDiscriminantAnalysis(solver=solver)
        return permutation_test_score(
            estimator, x, y, cv=split, n_permutations=draws, n_jobs=jobs, random_state=0
        )

    exact = cross_val_score(LinearDiscriminantAnalysis(solver="svd"), x.astype(float), y, cv=split)
    return Workload(
        ours=lambda: test(device, labels, weights, draws=draws, num_classes=2),
        peers={
            "scikit-learn lsqr": (partial(peer, "lsqr", None),),
            "scikit-learn lsqr, n_jobs=2": (partial(peer, "lsqr", 2),),
        },
        unfold=lambda found: np.asarray(found[0], float)[None],
        reference=np.mean(exact)[None],
    )


# --- logistic and softmax ------------------------------------------------------------------------

L2 = 1e-4
# The residual asked of all: of the largest entry of the gradient.
NEAR = 1e-6
# scikit-learn's solvers of the smooth objective, each with tolerances from loose to tight.
SMOOTH = {
    "lbfgs": (1e-4, 1e-5, 1e-6, 1e-7),
    "newton-cg": (1e-4, 1e-5, 1e-6, 1e-7),
    "newton-cholesky": (1e-4, 1e-6, 1e-8),
    "sag": (1e-4, 1e-6),
}
# What has not arrived by then is many times slower than the rest: sag's steps are whole epochs.
MAX_ITER = {"lbfgs": 2_000, "newton-cg": 300, "newton-cholesky": 100, "sag": 200}
# More coefficients than this make a Hessian that newton-cholesky takes minutes to factor.
CHOLESKY_LIMIT = 2_600


def _drawn(dtype, n, d, k, correlated):
    """Rows of unit scale, or mixed by a rotation to singular values from 1 to 0.01."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, d))
    truth = rng.normal(size=(d, k if k > 2 else 1)) / math.sqrt(d)
    scores = 2 * x @ truth
    if correlated:
        rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
        x = x * np.geomspace(1, 0.01, d) @ rotation
    if k > 2:
        y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    else:
        y = (scores[:, 0] + rng.logistic(size=n) > 0).astype(int)
    return x.astype(dtype), y


def _loss(x, y, k, l2=L2):
    """Objective and gradient in float64, for coefficients `(k or 1, d + 1)`."""
    x = x.astype(float)
    n, d = x.shape
    target = np.eye(k)[y] if k > 2 else y[:, None].astype(float)

    def both(coefficients):
        s = x @ coefficients[:, :d].T + coefficients[:, d]
        if k > 2:
            top = s.max(1, keepdims=True)
            p = np.exp(s - top)
            total = p.sum(1, keepdims=True)
            value = np.mean(np.log(total[:, 0]) + top[:, 0] - s[np.arange(n), y])
            pull = (p / total - target) / n
        else:
            sign = 1 - 2 * y
            value = np.mean(np.logaddexp(0, sign * s[:, 0]))
            pull = (1 / (1 + np.exp(-s)) - target) / n
        grad = np.concatenate([pull.T @ x, pull.sum(0)[:, None]], axis=1)
        grad[:, :d] += l2 * coefficients[:, :d]
        return value + l2 / 2 * np.sum(coefficients[:, :d] ** 2), grad

    return both


def _polished(coefficients, both, x, y, k, l2=L2):
    """A few Newton steps in numpy, by conjugate gradients on products with the Hessian."""
    x = x.astype(float)
    n, d = x.shape
    ones = np.concatenate([x, np.ones((n, 1))], axis=1)
    for _ in range(4):
        _, grad = both(coefficients)
        s = ones @ coefficients.T
        if k > 2:
            p = np.exp(s - s.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
        else:
            p = 1 / (1 + np.exp(-s))

        def product(v, p=p):
            u = ones @ v.T
            u = p * (u - np.sum(p * u, 1, keepdims=True)) if k > 2 else p * (1 - p) * u
            out = u.T @ ones / n
            out[:, :d] += l2 * v[:, :d]
            return out

        step = _conjugate_gradients(product, grad)
        coefficients = coefficients - step
    if k > 2:
        coefficients = coefficients - coefficients.mean(0)
    return coefficients


def _conjugate_gradients(product, b, steps=300):
    v, r = np.zeros_like(b), b.copy()
    direction, square = r.copy(), np.sum(r * r)
    for _ in range(steps):
        if square <= 1e-28 * np.sum(b * b):
            break
        image = product(direction)
        size = square / np.sum(direction * image)
        v, r = v + size * direction, r - size * image
        square, last = np.sum(r * r), square
        direction = r + square / last * direction
    return v


def logistic(dtype, n, d, k=2, correlated=False, solver=None, l2=L2) -> Workload:
    x, y = _drawn(dtype, n, d, k, correlated)
    return _classifier(x, y, k, solver, l2)


def _classifier(x, y, k, solver=None, l2=L2) -> Workload:
    _, d = x.shape
    device, labels = jnp.asarray(x), jnp.asarray(y)
    both = _loss(x, y, k, l2)

    def fit(tol):
        if k > 2:
            return jaxlin.softmax.fit(device, labels, num_classes=k, l2=l2, tol=tol, solver=solver)
        return jaxlin.logistic.fit(device, labels, l2=l2, tol=tol, solver=solver)

    def coefficients(found):
        if hasattr(found, "coef_"):
            return np.concatenate([found.coef_, found.intercept_[:, None]], axis=1).astype(float)
        weights, bias = (np.asarray(a, float) for a in found[0])
        return np.concatenate([weights.reshape(-1, d), bias.reshape(-1, 1)], axis=1)

    def residual(c):
        return np.abs(both(c)[1]).max()

    def peers(solver, tolerances):
        return tuple(partial(_peer, x, y, solver, tol, l2) for tol in tolerances)

    # Ours is of columns of unit variance: as the peers, the loosest that is near enough as it is.
    tols = [NEAR, NEAR / 4, NEAR / 16, NEAR / 64]
    tol = next((tol for tol in tols if residual(coefficients(fit(tol))) <= NEAR), tols[-1])
    return Workload(
        ours=partial(fit, tol),
        peers={
            f"scikit-learn {name}": peers(name, tols)
            for name, tols in SMOOTH.items()
            if name != "newton-cholesky" or (d + 1) * (k if k > 2 else 1) <= CHOLESKY_LIMIT
        },
        unfold=coefficients,
        reference=_polished(coefficients(fit(tol)), both, x, y, k, l2),
        objective=lambda c: both(c)[0],
        residual=residual,
        near=NEAR,
    )


def _peer(x, y, solver, tol, l2=L2):
    c = 1 / (l2 * len(x)) if l2 > 0 else math.inf
    settings = {"C": c, "solver": solver, "max_iter": MAX_ITER[solver]}
    return LogisticRegression(tol=tol, **settings).fit(x, y)


def softmax_batch(dtype, lanes=1_000, n=25, d=512, k=5) -> Workload:
    """Many fits of more features than rows in one call; the peers are loops over them."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % k
    x = (rng.normal(size=(lanes, n, d)) + 0.3 * rng.normal(size=(lanes, k, d))[:, y]).astype(dtype)
    device = jnp.asarray(x)
    fit = jax.jit(
        jax.vmap(lambda x: jaxlin.softmax.fit(x, y, num_classes=k, l2=L2, tol=NEAR)),
    )
    last = _classifier(x[-1], y, k)

    def loop(solver, tol):
        return [_peer(x[i], y, solver, tol) for i in range(lanes)][-1]

    def unfold(found):
        return last.unfold(
            found if hasattr(found, "coef_") else jax.tree.map(lambda a: a[-1], found)
        )

    return last._replace(
        ours=lambda: fit(device),
        peers={
            f"scikit-learn {name}, loop": tuple(partial(loop, name, tol) for tol in SMOOTH[name])
            for name in ("lbfgs", "newton-cg")
        },
        unfold=unfold,
    )


def digits(dtype) -> Workload:
    x, y = load_digits(return_X_y=True)
    return _classifier(x.astype(dtype), y, 10)


def breast_cancer(dtype) -> Workload:
    x, y, _, _ = jaxlin.datasets.breast_cancer()
    return _classifier(np.asarray(x, dtype), np.asarray(y), 2)


# --- support vector machines ---------------------------------------------------------------------

HINGE, SQUARED = jaxlin.losses.hinge, jaxlin.losses.squared_hinge
# LIBSVM takes minutes for more rows.
LIBSVM_LIMIT = 2_000


def _svm_peers(loss, n, d) -> dict[str, Any]:
    """scikit-learn's at their own tolerances, all with C = 1; LinearSVC penalises its bias too."""
    dual = loss is HINGE or n < d
    found = {"LinearSVC": LinearSVC(loss=loss.__name__, dual=dual)}
    if loss is HINGE and n <= LIBSVM_LIMIT:
        found["SVC"] = SVC(kernel="linear")
    return found


def _svm(x, y, loss=HINGE) -> Workload:
    n, d = x.shape
    device, labels = jnp.asarray(x), jnp.asarray(y)
    wide = jnp.asarray(x, float)

    def plane(found):
        if hasattr(found, "coef_"):
            weights, bias = found.coef_[0], found.intercept_[0]
        else:
            weights, bias = found[0]
        return np.append(np.asarray(weights, float), float(bias))

    def objective(c):
        params = jaxlin.Hyperplane(weights=jnp.asarray(c[:-1]), bias=jnp.asarray(c[-1]))
        return float(jaxlin.losses.objective(loss, params, wide, labels, l2=1 / n))

    return Workload(
        ours=lambda: jaxlin.svm.fit(device, labels, l2=1 / n, loss=loss),
        peers={
            f"scikit-learn {name}": (partial(peer.fit, x, y),)
            for name, peer in _svm_peers(loss, n, d).items()
        },
        unfold=plane,
        reference=plane(jaxlin.svm.fit(wide, labels, l2=1 / n, loss=loss, tol=1e-12)),
        objective=objective,
    )


def svm(dtype, n, d, loss=HINGE) -> Workload:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, d))
    y = (x @ rng.normal(size=d) / math.sqrt(d) + rng.normal(size=n) > 0).astype(int)
    return _svm(x.astype(dtype), y, loss)


def svm_breast_cancer(dtype, loss=HINGE) -> Workload:
    x, y, _, _ = jaxlin.datasets.breast_cancer()
    x = np.asarray(x)
    return _svm(((x - x.mean(0)) / x.std(0)).astype(dtype), np.asarray(y), loss)


def svm_batch(dtype, loss=HINGE, lanes=1_000, n=100, d=10) -> Workload:
    """Many small fits in one call; the peers are loops over them."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(lanes, n, d)).astype(dtype)
    y = (x[:, :, 0] + rng.normal(size=(lanes, n)) > 0).astype(int)
    device, labels = jnp.asarray(x), jnp.asarray(y)
    fit = jax.jit(jax.vmap(partial(jaxlin.svm.fit, l2=1 / n, loss=loss)))
    last = _svm(x[-1], y[-1], loss)

    def loop(peer):
        return [peer.fit(x[i], y[i]) for i in range(lanes)][-1]

    def unfold(found):
        if hasattr(found, "coef_"):
            return last.unfold(found)
        return last.unfold(jax.tree.map(lambda a: a[-1], found))

    return last._replace(
        ours=lambda: fit(device, labels),
        peers={
            f"scikit-learn {name}, loop": (partial(loop, peer),)
            for name, peer in _svm_peers(loss, n, d).items()
        },
        unfold=unfold,
    )


# --- thousands of fits ---------------------------------------------------------------------------


# What users of the peers give and more; ours takes the first.
LOOP_TOLERANCES = (1e-4, 1e-6, 1e-8)


def _logistic_loop(x, y, weights, l2) -> dict[str, tuple[Run, ...]]:
    """scikit-learn, a fit at a time; x and y are of one problem, or of one per row of weights."""
    own = np.ndim(x) == 3

    def loop(**options):
        peer = LogisticRegression(C=1 / (l2 * x.shape[-2]), max_iter=1_000, **options)
        for i in range(len(weights)):
            rows = (x[i], y[i]) if own else (x, y)
            peer.fit(*rows, sample_weight=weights[i])
        return peer

    # liblinear penalises the bias: another problem.
    names = ("newton-cholesky", "newton-cg", "lbfgs")
    return {
        f"scikit-learn {name}, loop": tuple(
            partial(loop, solver=name, tol=tol) for tol in LOOP_TOLERANCES
        )
        for name in names
    }


def _last_of_logistic(x, y, weight, l2):
    """Unfold, reference, objective and residual of the last fit."""
    wide, labels = jnp.asarray(x, float), jnp.asarray(y)
    given = dict(l2=l2, sample_weight=jnp.asarray(weight, float))

    def unfold(found):
        if hasattr(found, "coef_"):
            return np.append(found.coef_[0], found.intercept_[0]).astype(float)
        weights, bias = jax.tree.map(lambda a: np.asarray(a[-1], float), found[0])
        return np.append(weights, bias)

    def objective(c):
        params = jaxlin.Hyperplane(weights=jnp.asarray(c[:-1]), bias=jnp.asarray(c[-1]))
        return jaxlin.losses.objective(jaxlin.losses.logistic, params, wide, labels, **given)

    exact = jax.tree.map(lambda a: a[None], jaxlin.logistic.fit(wide, labels, **given))
    return {
        "unfold": unfold,
        "reference": unfold(exact),
        "objective": lambda c: float(objective(c)),
        "residual": lambda c: float(jnp.max(jnp.abs(jax.grad(objective)(jnp.asarray(c))))),
        "near": 1e-3,
    }


def logistic_batch(dtype, lanes, n, d) -> Workload:
    """Many small problems, each with data of its own."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(lanes, n, d)).astype(dtype)
    y = (x[:, :, 0] + rng.normal(size=(lanes, n)) > 0).astype(int)
    device, labels = jnp.asarray(x), jnp.asarray(y)
    fit = jax.jit(jax.vmap(partial(jaxlin.logistic.fit, l2=1 / n, tol=LOOP_TOLERANCES[0])))
    weights = np.ones((lanes, n), dtype)
    return Workload(
        ours=lambda: fit(device, labels),
        peers=_logistic_loop(x, y, weights, 1 / n),
        **_last_of_logistic(x[-1], y[-1], weights[-1], 1 / n),
    )


def logistic_bootstrap(dtype, draws, n, d) -> Workload:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, d)).astype(dtype)
    y = (x[:, 0] + rng.normal(size=n) > 0).astype(int)
    device, labels = jnp.asarray(x), jnp.asarray(y)
    weights = jaxlin.resample.bootstrap(jax.random.key(0), n, draws=draws).astype(dtype)
    host = np.asarray(weights)
    fit = partial(jaxlin.logistic.fit, l2=1 / n, tol=LOOP_TOLERANCES[0])
    return Workload(
        ours=lambda: jaxlin.resample.refit(fit, device, labels, weights),
        peers=_logistic_loop(x, y, host, 1 / n),
        **_last_of_logistic(x, y, host[-1], 1 / n),
    )


def _concepts(dtype, n, d, concepts, penalties, correlated):
    """x, labels `(concepts, n)`, and penalties."""
    x, _ = _drawn(dtype, n, d, 2, correlated)
    # Units differ less than the axes do, as in what people standardise first.
    x = (x / x.std(0)).astype(dtype)
    rng = np.random.default_rng(1)
    scores = x @ rng.normal(size=(d, concepts)) / math.sqrt(d)
    y = (1.5 * scores + rng.logistic(size=scores.shape) > 0).astype(int).T
    return x, y, np.logspace(0, -4, penalties).astype(dtype)


def _concepts_loop(layers, y, l2) -> dict[str, tuple[Run, ...]]:
    """scikit-learn, a fit to each layer, concept and penalty at a time."""

    def loop(**options):
        for x, own, penalty in itertools.product(layers, y, l2):
            peer = LogisticRegression(C=1 / (float(penalty) * len(x)), max_iter=3_000, **options)
            peer.fit(x, own)
        return peer

    return {
        f"scikit-learn {name}, loop": tuple(
            partial(loop, solver=name, tol=tol) for tol in (1e-5, 1e-6)
        )
        for name in ("lbfgs", "newton-cholesky")
    }


def probes(dtype, n, d, concepts=12, penalties=10, correlated=False) -> Workload:
    """Many labels and penalties to one x, the penalties traced; the last fit is judged."""
    x, y, l2 = _concepts(dtype, n, d, concepts, penalties, correlated)
    device, labels, traced = jnp.asarray(x), jnp.asarray(y), jnp.asarray(l2)

    @jax.jit
    def fit(x, ys, l2):
        def of_labels(y):
            return jax.vmap(lambda l2: jaxlin.logistic.fit(x, y, l2=l2))(l2)

        found = jax.vmap(of_labels)(ys)
        return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), found)

    return Workload(
        ours=lambda: fit(device, labels, traced),
        peers=_concepts_loop([x], y, l2),
        **_last_of_logistic(x, y[-1], np.ones(n, dtype), float(l2[-1])),
    )


def sweep(dtype, n, d, concepts, penalties=10, layers=1, lies=None) -> Workload:
    """`probes.sweep`, its columns correlated; the last fit is judged. `lies`: x in that dtype."""
    x, y, l2 = _concepts(dtype, n, d, concepts, penalties, correlated=True)
    if lies is not None:
        x = np.asarray(jnp.asarray(x).astype(lies).astype(dtype))
    turned = [np.roll(x, layer, axis=1) * dtype(1 + layer) for layer in range(layers)]
    device, labels, traced = jnp.asarray(np.stack(turned)), jnp.asarray(y.T), jnp.asarray(l2)
    device = device if lies is None else device.astype(lies)

    def ours():
        found = jaxlin.probes.sweep(jaxlin.logistic.fit, device, labels, l2=traced)
        return jax.tree.map(lambda a: a.reshape(-1, *a.shape[3:]), found)

    return Workload(
        ours=ours,
        peers=_concepts_loop(turned, y, l2),
        **_last_of_logistic(turned[-1], y[-1], np.ones(n, dtype), float(l2[-1])),
    )


def lda_probes(dtype, n, d, concepts, folds=5, shrinkages=5) -> Workload:
    """The shrinkage of each concept chosen by Brier score; the last one's is what all agree on."""
    x, y, _ = _concepts(dtype, n, d, concepts, 1, correlated=True)
    device, labels = jnp.asarray(x), jnp.asarray(y.T)
    values = jnp.logspace(-3, 0, shrinkages, dtype=dtype)
    weights = jaxlin.resample.kfold(jax.random.key(0), n, folds=folds)
    split = PredefinedSplit(np.argmin(np.asarray(weights), axis=0))
    choose = partial(jaxlin.probes.select, jaxlin.lda.fit, jaxlin.metrics.brier)

    def loop(of=y, kind=dtype):
        for own in of:
            scores = [
                np.mean(
                    cross_val_score(
                        LinearDiscriminantAnalysis(solver="lsqr", shrinkage=float(value)),
                        x.astype(kind),
                        own,
                        cv=split,
                        scoring="neg_brier_score",
                    )
                )
                for value in values
            ]
        return -np.asarray(scores)

    def unfold(found):
        return np.asarray(found[2].values[-1] if isinstance(found, tuple) else found, float)

    return Workload(
        ours=lambda: choose(device, labels, weights, shrinkage=values),
        peers={"scikit-learn lsqr, loop": (loop,)},
        unfold=unfold,
        reference=loop(y[-1:], np.float64),
    )


def softmax_path(dtype, n, d, k, penalties) -> Workload:
    """Many classes, a path of penalties; the last, which is the weakest, is judged."""
    x, y = _drawn(dtype, n, d, k, correlated=False)
    l2 = np.logspace(-2, -4, penalties).astype(dtype)
    device, labels, traced = jnp.asarray(x), jnp.asarray(y), jnp.asarray(l2)
    last = _classifier(x, y, k, l2=float(l2[-1]))

    def loop(tol):
        return [_peer(x, y, "lbfgs", tol, float(value)) for value in l2][-1]

    def unfold(found):
        one = found if hasattr(found, "coef_") else jax.tree.map(lambda a: a[-1], found)
        return last.unfold(one)

    return last._replace(
        ours=lambda: jaxlin.probes.sweep(jaxlin.softmax.fit, device, labels, l2=traced),
        peers={"scikit-learn lbfgs, loop": tuple(partial(loop, tol) for tol in (1e-4, 1e-5))},
        unfold=unfold,
        near=1e-3,
    )


def cross_validation(dtype, folds=10, penalties=50) -> Workload:
    """The penalty of least log loss over the folds, and the fit of all rows with it."""
    x, y, _, _ = jaxlin.datasets.breast_cancer()
    x, y = np.asarray(x, float), np.asarray(y)
    x = ((x - x.mean(0)) / x.std(0)).astype(dtype)
    device, labels = jnp.asarray(x), jnp.asarray(y)
    weights = jaxlin.resample.stratified_kfold(jax.random.key(0), labels, folds=folds)
    split = PredefinedSplit(np.argmin(np.asarray(weights), axis=0))
    l2 = np.logspace(0, -5, penalties)
    train = len(x) * (folds - 1) / folds
    traced = jnp.asarray(l2, dtype)
    fit = partial(jaxlin.logistic.fit, tol=LOOP_TOLERANCES[0])

    def peer(solver, tol):
        return LogisticRegressionCV(
            Cs=1 / (l2 * train),
            cv=split,
            solver=solver,
            tol=tol,
            max_iter=10_000,
            scoring="neg_log_loss",
            use_legacy_attributes=False,
            l1_ratios=(0,),
        ).fit(x, y)

    def ours():
        return jaxlin.resample.select(
            fit, jaxlin.metrics.log_loss, device, labels, weights, l2=traced
        )

    def chosen(found):
        """Its logarithm, of which the grid's step is 0.23."""
        value = 1 / (found.C_ * train) if hasattr(found, "C_") else found[2]
        return np.log(np.asarray(value, float)).reshape(1)

    return Workload(
        ours=ours,
        peers={
            f"scikit-learn {name}": tuple(partial(peer, name, tol) for tol in LOOP_TOLERANCES)
            for name in ("lbfgs", "newton-cholesky", "newton-cg")
        },
        unfold=chosen,
        reference=chosen(peer("newton-cholesky", LOOP_TOLERANCES[-1])),
    )


def one_vs_one(dtype) -> Workload:
    """A plane for each of 45 pairs of digits; the peers are loops over them.

    At the loosest of its tolerances at which every pair is as near to its optimum as one fit has to
    be: a tolerance alone says little of pairs that are all but separable.
    """
    x, y = load_digits(return_X_y=True)
    x = x.astype(dtype)
    device, labels = jnp.asarray(x), jnp.asarray(y)
    pairs = [(i, j) for i in range(10) for j in range(i + 1, 10)]
    rows = [np.flatnonzero((y == i) | (y == j)) for i, j in pairs]
    of_pairs = [(x[at], (y[at] == j).astype(int)) for at, (_, j) in zip(rows, pairs, strict=True)]
    losses = [_loss(a, b, 2) for a, b in of_pairs]
    fit = jaxlin.multiclass.one_vs_one(jaxlin.logistic.fit)

    def ours(tol):
        return fit(device, labels, num_classes=10, l2=L2, tol=tol)

    def loop(solver, tol):
        return [_peer(a, b, solver, tol) for a, b in of_pairs]

    def unfold(found):
        if isinstance(found, list):
            return np.stack([np.append(one.coef_[0], one.intercept_[0]) for one in found])
        weights, bias = (np.asarray(a, float) for a in found[0])
        return np.concatenate([weights, bias[:, None]], axis=1)

    def each(c):
        return [both(of[None]) for both, of in zip(losses, c, strict=True)]

    def residual(c):
        return max(np.abs(grad).max() for _, grad in each(c))

    tols = [NEAR, NEAR / 4, NEAR / 16, NEAR / 64]
    tol = next((tol for tol in tols if residual(unfold(ours(tol))) <= NEAR), tols[-1])
    start = unfold(ours(tol))
    polished = [
        _polished(of[None], both, a, b, 2)[0]
        for of, both, (a, b) in zip(start, losses, of_pairs, strict=True)
    ]
    return Workload(
        ours=partial(ours, tol),
        peers={
            f"scikit-learn {name}, loop": tuple(partial(loop, name, tol) for tol in SMOOTH[name])
            for name in ("lbfgs", "newton-cholesky", "newton-cg")
        },
        unfold=unfold,
        reference=np.stack(polished),
        objective=lambda c: sum(value for value, _ in each(c)),
        residual=residual,
        near=NEAR,
    )


def perceptron_batch(dtype, lanes=1_000, n=100, d=10, epochs=10) -> Workload:
    """The same number of epochs for all; the peer deals the rows anew in each."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(lanes, n, d)).astype(dtype)
    y = (x[:, :, 0] + rng.normal(size=(lanes, n)) > 0).astype(int)
    device, labels = jnp.asarray(x), jnp.asarray(y)
    fit = jax.jit(jax.vmap(partial(jaxlin.perceptron.fit, max_epochs=epochs)))
    peer = Perceptron(max_iter=epochs, tol=None)
    return Workload(
        ours=lambda: fit(device, labels),
        peers={"scikit-learn, loop": (lambda: [peer.fit(x[i], y[i]) for i in range(lanes)][-1],)},
        unfold=lambda found: np.zeros(1),  # neither is an optimum
        reference=np.zeros(1),
    )


# --- tables whose zeros are not held -------------------------------------------------------------


def _of_table(table, matrix, y, l2, solvers, near=1e-7) -> Workload:
    """`residual`: what the objective is above the reference's, over that."""
    labels, n = jnp.asarray(y), len(y)
    wide = matrix.astype(float)

    def unfold(found):
        if hasattr(found, "coef_"):
            return np.append(found.coef_[0], found.intercept_[0]).astype(float)
        return np.append(np.asarray(found[0].weights, float), float(found[0].bias))

    def objective(a):
        scores = wide @ a[:-1] + a[-1]
        return np.mean(np.logaddexp(0, scores) - y * scores) + l2 / 2 * a[:-1] @ a[:-1]

    def fitted(solver, tol, x=wide, **settings):
        peer = LogisticRegression(
            C=1 / (l2 * n), solver=solver, tol=tol, max_iter=10_000, **settings
        )
        return peer.fit(x, y)

    reference = unfold(fitted("lbfgs", 1e-9))
    least = objective(reference)
    peers = {}
    for name, settings in solvers.items():
        tols = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
        runs = tuple(partial(fitted, name.split()[0], tol, matrix, **settings) for tol in tols)
        peers[f"scikit-learn {name}"] = runs
    return Workload(
        ours=lambda: jaxlin.logistic.fit(table, labels, l2=l2),
        peers=peers,
        unfold=unfold,
        reference=reference,
        objective=objective,
        residual=lambda a: (objective(a) - least) / least,
        near=near,
    )


def words(dtype, n=11_000, d=100_000, places=150) -> Workload:
    """Rows of so many words of Zipf's frequencies, weighed by how rare they are, of norm 1."""
    rng = np.random.default_rng(0)
    share = np.cumsum(1 / np.arange(1, d + 1))
    drawn = np.searchsorted(share / share[-1], rng.random((n, places)))
    ends = np.arange(0, n * places + 1, places)
    counts = scipy.sparse.csr_matrix((np.ones(n * places), drawn.ravel(), ends), shape=(n, d))
    counts.sum_duplicates()
    counts.data = 1 + np.log(counts.data)
    rare = np.log((1 + n) / (1 + np.asarray((counts > 0).sum(0)).ravel())) + 1
    weighed = counts @ scipy.sparse.diags(rare)
    size = np.sqrt(np.asarray(weighed.multiply(weighed).sum(1)).ravel())
    matrix = scipy.sparse.csr_matrix(scipy.sparse.diags(1 / size) @ weighed).astype(dtype)
    scores = 3 * matrix @ (rng.normal(size=d) * (rng.random(d) < 0.1))
    y = (scores + 0.3 * rng.logistic(size=n) > np.median(scores)).astype(int)
    solvers = {"liblinear": {}, "liblinear dual": {"dual": True}, "lbfgs": {}, "newton-cg": {}}
    return _of_table(jaxlin.sparse.from_scipy(matrix), matrix, y, 1 / n, solvers)


def categories(dtype, n=1_000_000, c=10, levels=1_000) -> Workload:
    """Categories of many levels, some much more frequent than others."""
    rng = np.random.default_rng(0)
    share = np.cumsum(np.arange(1, levels + 1) ** -0.8)
    codes = np.searchsorted(share / share[-1], rng.random((n, c))).astype(np.int32)
    columns = codes + levels * np.arange(c, dtype=np.int32)[None, :]
    ones, ends = np.ones(n * c, dtype), np.arange(0, n * c + 1, c)
    shape = n, c * levels
    matrix = scipy.sparse.csr_matrix((ones, columns.ravel(), ends), shape=shape)
    scores = matrix @ (rng.normal(size=c * levels) / 2)
    y = (scores + rng.logistic(size=n) > 0).astype(int)
    table = jaxlin.sparse.OneHot(jnp.asarray(codes), (levels,) * c)
    return _of_table(table, matrix, y, 1e-4, {"lbfgs": {}, "newton-cg": {}})


ALL: dict[str, Callable[[Any], Workload]] = {
    "logistic-words-11000x100000": words,
    "logistic-categories-1000000x10": categories,
    "lda-100000x50-k5": lda,
    "qda-100000x50-k5": qda,
    "least_squares-100000x50-k5": least_squares,
    "lda-10000-fits-of-100x10-k3": lda_batch,
    "logistic-200000x100": partial(logistic, n=200_000, d=100),
    "logistic-200000x100-correlated": partial(logistic, n=200_000, d=100, correlated=True),
    "logistic-200000x100-no-penalty": partial(logistic, n=200_000, d=100, l2=0.0),
    "logistic-20000x500": partial(logistic, n=20_000, d=500),
    "logistic-20000x500-correlated": partial(logistic, n=20_000, d=500, correlated=True),
    "logistic-1000000x20": partial(logistic, n=1_000_000, d=20),
    "logistic-300x5000": partial(logistic, n=300, d=5_000),
    "logistic-200x5-newton": partial(logistic, n=200, d=5, solver=jaxlin.solvers.newton),
    "logistic-200x5-lbfgs": partial(logistic, n=200, d=5, solver=jaxlin.solvers.lbfgs),
    "softmax-200000x100-k10": partial(logistic, n=200_000, d=100, k=10),
    "softmax-200000x100-k10-correlated": partial(logistic, n=200_000, d=100, k=10, correlated=True),
    "softmax-200000x20-k3-no-penalty": partial(logistic, n=200_000, d=20, k=3, l2=0.0),
    "softmax-1000-fits-of-25x512-k5": softmax_batch,
    "softmax-digits": digits,
    "logistic-breast-cancer-raw": breast_cancer,
    "svm-breast-cancer": svm_breast_cancer,
    "svm-1000x20": partial(svm, n=1_000, d=20),
    "svm-20000x50": partial(svm, n=20_000, d=50),
    "svm-100000x50": partial(svm, n=100_000, d=50),
    "svm-1000-fits-of-100x10": svm_batch,
    "svm-squared-breast-cancer": partial(svm_breast_cancer, loss=SQUARED),
    "svm-squared-1000x20": partial(svm, n=1_000, d=20, loss=SQUARED),
    "svm-squared-100000x50": partial(svm, n=100_000, d=50, loss=SQUARED),
    "svm-squared-1000-fits-of-100x10": partial(svm_batch, loss=SQUARED),
    "logistic-10000-fits-of-100x10": partial(logistic_batch, lanes=10_000, n=100, d=10),
    "logistic-1000-fits-of-200x50": partial(logistic_batch, lanes=1_000, n=200, d=50),
    "logistic-10000-bootstraps-of-500x10": partial(logistic_bootstrap, draws=10_000, n=500, d=10),
    "logistic-12-labels-10-penalties-of-1000x64": partial(probes, n=1_000, d=64),
    "logistic-12-labels-10-penalties-of-2000x256": partial(probes, n=2_000, d=256),
    "logistic-12-labels-10-penalties-of-2000x256-correlated": partial(
        probes, n=2_000, d=256, correlated=True
    ),
    "probes-24-concepts-10-penalties-of-20000x768": partial(sweep, n=20_000, d=768, concepts=24),
    "probes-12-layers-12-concepts-10-penalties-of-5000x256": partial(
        sweep, n=5_000, d=256, concepts=12, layers=12
    ),
    "probes-24-concepts-10-penalties-of-20000x768-bfloat16": partial(
        sweep, n=20_000, d=768, concepts=24, lies=jnp.bfloat16
    ),
    "probes-15-penalties-of-100-classes-of-10000x1024": partial(
        softmax_path, n=10_000, d=1_024, k=100, penalties=15
    ),
    "probes-lda-24-concepts-5-folds-5-shrinkages-of-20000x768": partial(
        lda_probes, n=20_000, d=768, concepts=24
    ),
    "logistic-breast-cancer-10-folds-50-penalties": cross_validation,
    "logistic-digits-45-pairs": one_vs_one,
    "perceptron-1000-fits-of-100x10": perceptron_batch,
    "lda-100-permutations-of-200x50": partial(lda_permutations, draws=100),
    "lda-10000-permutations-of-200x50": partial(lda_permutations, draws=10_000),
}

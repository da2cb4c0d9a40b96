"""The public functions of jaxlin, found by reflection, and arguments to call each of them with.

A new public function is found here by itself. If its positional arguments have the usual names
(`x`, `y`, `params`, `scores`, `key`), it needs no more; otherwise it needs a line in `CASES`, and
the tests say so.
"""

import dataclasses
import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jaxlin
from jaxlin import (
    calibration,
    conformal,
    datasets,
    effects,
    features,
    fisher,
    gaussian,
    inference,
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
    probes,
    qda,
    quadratic,
    resample,
    softmax,
    solvers,
    svm,
    updates,
)
from jaxlin._base import _checks
from jaxlin.types import (
    DiagonalGaussian,
    Gaussian,
    Hyperplane,
    Info,
    Linear,
    Ordinal,
    Pairwise,
    Quadratic,
    Status,
    TiedGaussian,
)

N, D, K = 24, 3, 3

MODULES = {
    name: importlib.import_module(f"jaxlin.{name}")
    for _, name, _ in pkgutil.iter_modules(jaxlin.__path__)
    if not name.startswith("_")
}


def _functions() -> dict[str, Callable]:
    found = {
        f"{short}.{name}": value
        for short, module in MODULES.items()
        for name, value in vars(module).items()
        if not name.startswith("_")
        and getattr(value, "__module__", None) == module.__name__
        and inspect.isfunction(inspect.unwrap(value) if callable(value) else value)
    }
    found |= {f"jaxlin.{name}": f for name, f in vars(jaxlin).items() if _is_verb(name, f)}
    return found


def _is_verb(name: str, f: Any) -> bool:
    return inspect.isfunction(f) and f.__module__ == "jaxlin._base._dispatch" and name[0] != "_"


FUNCTIONS = _functions()

# What reads values on the host, and so works outside of transformations only.
HOST_ONLY = {
    "datasets.iris",
    "datasets.breast_cancer",
    "labels.encode",
    "labels.decode",
    "types.describe",
    "types.raise_if_failed",
    "distributed.shard",
    "sparse.from_categories",
    "sparse.from_scipy",
    "plot.points",
    "plot.regions",
    "plot.margins",
    "plot.projections",
    "plot.convergence",
    "plot.calibration",
    "plot.roc",
    "plot.precision_recall",
    "streaming.arrays",
    "streaming.csv",
    "streaming.fit",
    "streaming.moments_of",
    "streaming.run",
}
# What takes a function and returns one: what they return is tested among FITS and CASES.
COMBINATORS = {
    "distributed.data_parallel",
    "multiclass.one_vs_rest",
    "multiclass.one_vs_one",
    "resample.on_balanced",
    "resample.on_standardized",
    "solvers.from_optax",
}


# --- arguments -----------------------------------------------------------------------------------


def grid(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Multiples of 1/8: small enough that the perceptron's arithmetic on them is exact."""
    return np.clip(np.round(8 * rng.normal(size=shape)), -31, 31) / 8


def overlapping(rng: np.random.Generator, k: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """`x (N, D)` and classes that no plane separates, not even with rows on it.

    Six rows occur twice, each time in another class.
    """
    x = grid(rng, N, D)
    y = np.argmax(x @ rng.normal(size=(D, k)) + 2 * rng.normal(size=(N, k)), axis=1)
    y[:6] = np.arange(6) % k
    x[6:12], y[6:12] = x[:6], (y[:6] + 1) % k
    return x, y


# Rows that the example of a fit can do without.
SPARE = np.arange(12, 15)


def some_weights(rng: np.random.Generator) -> np.ndarray:
    """Nonnegative, a few of them 0, but not in the rows that make the classes overlap."""
    weight = rng.choice([0.5, 1.0, 2.0], size=N)
    weight[rng.choice(np.arange(15, N), size=3, replace=False)] = 0
    return weight


def plane(rng: np.random.Generator) -> Hyperplane:
    return Hyperplane(weights=rng.normal(size=D), bias=rng.normal())


def planes(rng: np.random.Generator) -> Linear:
    return Linear(weights=rng.normal(size=(K, D)), bias=rng.normal(size=K))


def a_key(rng: np.random.Generator) -> jax.Array:
    return jax.random.key(int(rng.integers(1000)))


def normal(*shape: int) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: rng.normal(size=shape)


def classes(k: int, *shape: int) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: np.asarray(rng.integers(k, size=shape))


def positive(*shape: int) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: np.asarray(rng.uniform(0.5, 2, size=shape))


USUAL = {
    "key": a_key,
    "x": normal(N, D),
    "y": classes(2, N),
    "params": plane,
    "scores": normal(N),
}
ONE = {"x": normal(D), "y": classes(2)}
MANY = {"scores": normal(N, K), "y": classes(K, N), "params": planes}


class Case(NamedTuple):
    """call: a function of arrays alone; draw: `rng -> arrays`, the arguments."""

    call: Callable
    draw: Callable[[np.random.Generator], tuple]


def case(f: Callable, *arguments: Any, **keywords: Any) -> Case:
    """`f` with drawn arguments; anything that is not a function of an rng is bound as it is."""

    def draw(rng: np.random.Generator) -> tuple:
        return tuple(argument(rng) for argument in arguments)

    return Case(functools.partial(f, **keywords) if keywords else f, draw)


def _usual(f: Callable, module: str) -> Case:
    names = [
        p.name
        for p in inspect.signature(f).parameters.values()
        if p.kind is not p.KEYWORD_ONLY and p.kind is not p.VAR_KEYWORD
    ]
    known = USUAL | (ONE if module == "updates" else {})
    missing = [name for name in names if name not in known]
    if missing:
        raise LookupError(f"{module}.{f.__name__}: tests/public.py has no example of {missing}")
    if "sample_weight" not in inspect.signature(f).parameters:
        return case(f, *(known[name] for name in names))

    return case(weighing(f), *(known[name] for name in names), some_weights)


def bowl(params: jax.Array, target: jax.Array) -> jax.Array:
    return jnp.sum(jnp.cosh(params - target))


def spread(params: jax.Array, rows: jax.Array) -> jax.Array:
    return jnp.mean((rows - params[None, :]) ** 2)


ADAM = optax.adam(0.1)
SGD = optax.sgd(0.1)


def mean_difference(x, y, *, sample_weight=None, l2=0.0):
    """A fit in a few lines, for what takes a fit."""
    data = _checks.table(x, y, sample_weight=sample_weight)
    l2 = _checks.scalar(l2, data.x.dtype, "l2")
    weight = jnp.ones(len(data.x), data.x.dtype) if sample_weight is None else data.sample_weight
    pull = weight * (2 * data.y.astype(data.x.dtype) - 1)
    weights = pull @ data.x / (1 + l2)
    zero = jnp.zeros((), weights.dtype)
    info = Info(jnp.int32(Status.CONVERGED), jnp.int32(0), zero, zero)
    return Hyperplane(weights=weights, bias=zero), info


def _solve(solver: Callable) -> Callable:
    return lambda init, target: solver(bowl, init, (target,), max_steps=50)


def weighing(f: Callable, **keywords: Any) -> Callable:
    """With weights as the last argument."""

    def weighed(*arguments, **more):
        return f(*arguments[:-1], sample_weight=arguments[-1], **keywords, **more)

    return weighed


def uniform(*shape: int) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: np.asarray(rng.uniform(size=shape))


def chances(rng: np.random.Generator) -> np.ndarray:
    """`(N, K)`, probabilities."""
    powers = np.exp(rng.normal(size=(N, K)))
    return powers / powers.sum(1, keepdims=True)


def strange_rows(rng: np.random.Generator) -> conformal.Lac:
    levels = np.sort(rng.uniform(size=(1, N)))
    return conformal.Lac(levels, np.arange(N, 0, -1.0)[None, :], np.arange(K))


COSTS = [[0.0, 1.0], [3.0, 0.5]]
START = (normal(D), normal(D))

CASES: dict[str, list[Case]] = {
    # Of labels without a pattern the weights are 0, and the duals not unique.
    "svm.fit_dual": [Case(functools.partial(svm.fit_dual, l2=0.1, tol=1e-14), overlapping)],
    # Of three points of which the middle one is of the other class the proof is unique.
    "svm.farkas": [case(lambda x: svm.farkas(jnp.sort(x, axis=0), np.arange(3) % 2), normal(3, 1))],
    "calibration.fit_temperature": [
        case(f, *data, some_weights)
        for f in (weighing(calibration.fit_temperature),)
        for data in ((normal(N), classes(2, N)), (normal(N, K), classes(K, N)))
    ],
    **{
        f"calibration.{f.__name__}": [case(weighing(f), normal(N), classes(2, N), some_weights)]
        for f in (calibration.fit_platt, calibration.fit_isotonic)
    },
    "calibration.fit_cross": [
        case(
            functools.partial(calibration.fit_cross, mean_difference, calibration.fit_temperature),
            normal(N, D),
            classes(2, N),
            classes(2, 4, N),
        )
    ],
    **{
        f"calibration.{f.__name__}": [
            case(
                lambda slope, intercept, scores, f=f: f(
                    calibration.Platt(slope, intercept), scores
                ),
                *params,
            )
            for params in (
                (positive(), normal(), normal(N)),
                (positive(K), normal(K), normal(N, K)),
            )
        ]
        for f in (calibration.scores, calibration.probabilities)
    },
    "conformal.lac": [case(conformal.lac, chances)],
    "conformal.aps": [case(conformal.aps, chances)],
    "conformal.fit": [
        case(weighing(conformal.fit, score=score), chances, classes(K, N), some_weights)
        for score in (conformal.lac, conformal.aps)
    ],
    "conformal.p_values": [case(conformal.p_values, strange_rows, chances)],
    "conformal.sets": [case(conformal.sets, strange_rows, chances, coverage=0.8)],
    "datasets.separable": [case(lambda key: datasets.separable(key, N, D), a_key)],
    "datasets.gaussians": [case(lambda key: datasets.gaussians(key, N, D), a_key)],
    "datasets.ball": [case(lambda key: datasets.ball(key, N, D), a_key)],
    "datasets.moons": [case(lambda key: datasets.moons(key, N), a_key)],
    "features.one_hot": [case(features.one_hot, classes(K, N, 2), sizes=(K, 2))],
    "features.polynomial": [case(features.polynomial, normal(N, D), degree=2)],
    "features.ball_hyperplane": [case(features.ball_hyperplane, normal(D), positive())],
    "features.fourier": [case(lambda key: features.fourier(key, D, num_features=5), a_key)],
    "features.apply_fourier": [
        case(
            lambda w, b, x: features.apply_fourier(features.Fourier(w, b), x),
            normal(5, D),
            normal(5),
            normal(N, D),
        )
    ],
    "features.standardize": [
        case(
            lambda mean, scale, x: features.standardize(features.Standardizer(mean, scale), x),
            normal(D),
            positive(D),
            normal(N, D),
        )
    ],
    "features.unstandardize": [
        case(
            lambda mean, scale, params: features.unstandardize(
                features.Standardizer(mean, scale), params
            ),
            normal(D),
            positive(D),
            params,
        )
        for params in (plane, planes)
    ],
    "linear.between": [case(linear.between, planes, classes(K), classes(K))],
    "linear.from_hyperplanes": [
        case(
            lambda w, b: linear.from_hyperplanes(Hyperplane(weights=w, bias=b)),
            normal(K, D),
            normal(K),
        )
    ],
    "linear.to_hyperplanes": [case(linear.to_hyperplanes, planes)],
    "losses.l1_max": [
        case(functools.partial(losses.l1_max, losses.logistic), normal(N, D), classes(2, N)),
        case(
            functools.partial(losses.l1_max, losses.softmax, num_classes=K),
            normal(N, D),
            classes(K, N),
        ),
        case(
            functools.partial(losses.l1_max, losses.logistic, groups=np.arange(D) // 2),
            normal(N, D),
            classes(2, N),
        ),
    ],
    "losses.objective": [
        case(
            functools.partial(losses.objective, losses.logistic),
            plane,
            normal(N, D),
            classes(2, N),
        ),
        case(
            functools.partial(losses.objective, losses.softmax),
            planes,
            normal(N, D),
            classes(K, N),
        ),
    ],
    "losses.l2_from_C": [case(losses.l2_from_C, positive(), positive())],
    "losses.C_from_l2": [case(losses.C_from_l2, positive(), positive())],
    "metrics.confusion": [
        case(metrics.confusion, normal(N), classes(2, N), num_classes=2),
        case(metrics.confusion, normal(N, K), classes(K, N)),
    ],
    "metrics.expected_cost": [
        case(weighing(metrics.expected_cost, costs=COSTS), normal(N), classes(2, N), some_weights),
        case(metrics.expected_cost, normal(N, 2), classes(2, N), costs=COSTS),
    ],
    "metrics.best_threshold": [
        case(weighing(metrics.best_threshold, costs=COSTS), normal(N), classes(2, N), some_weights)
    ],
    **{
        f"metrics.{f.__name__}": [
            case(weighing(f), normal(N, K), classes(K, N), some_weights),
        ]
        for f in (metrics.roc_auc_one_vs_rest, metrics.roc_auc_one_vs_one)
    },
    **{
        f"metrics.{f.__name__}": [
            case(weighing(f, num_classes=2), normal(N), classes(2, N), some_weights),
        ]
        for f in (metrics.balanced_accuracy, metrics.f_beta, metrics.matthews)
    },
    **{
        f"metrics.{f.__name__}": [case(f, uniform(N), num_bins=5)]
        for f in (metrics.equal_width, metrics.equal_mass)
    },
    "multiclass.probabilities": [case(multiclass.probabilities, planes, normal(N, D))],
    "probes.sweep": [
        case(
            lambda x, y, l2, **more: probes.sweep(mean_difference, x, y, l2=l2, **more),
            *data,
            classes(2, N, 2),
            positive(3),
        )
        for data in ((normal(2, N, D),), (normal(N, D),))
    ],
    "probes.select": [
        case(
            lambda x, y, weights, l2, **more: probes.select(
                mean_difference, metrics.brier, x, y, weights, l2=l2, **more
            ),
            normal(N, D),
            classes(2, N, 2),
            classes(2, 4, N),
            positive(3),
        )
    ],
    "resample.kfold": [case(lambda key: resample.kfold(key, N, folds=4), a_key)],
    "resample.stratified_kfold": [case(resample.stratified_kfold, a_key, classes(2, N), folds=4)],
    "pairwise.pairs": [case(lambda x: (x, *pairwise.pairs(K)), normal(N))],
    "resample.group_kfold": [case(resample.group_kfold, classes(5, N), folds=3)],
    "resample.stratified_group_kfold": [
        case(
            functools.partial(resample.stratified_group_kfold, folds=3, num_classes=K),
            a_key,
            classes(K, N),
            classes(5, N),
        )
    ],
    "resample.maximum_statistic": [case(resample.maximum_statistic, normal(3), normal(3, 9))],
    "resample.held_out_scores": [
        case(
            functools.partial(resample.held_out_scores, mean_difference),
            normal(N, D),
            classes(2, N),
            classes(2, 4, N),
        )
    ],
    "resample.leave_one_out": [case(lambda x: x @ resample.leave_one_out(N), normal(D, N))],
    "resample.bootstrap": [case(lambda key: resample.bootstrap(key, N, draws=3), a_key)],
    "resample.bayesian_bootstrap": [
        case(lambda key: resample.bayesian_bootstrap(key, N, draws=3), a_key)
    ],
    "resample.balanced": [case(resample.balanced, classes(K, N), num_classes=K)],
    "resample.permutations": [case(resample.permutations, a_key, classes(K, N), draws=3)],
    "resample.pad": [
        case(
            lambda x, y, u, v: resample.pad([(x, y), (u, v)]),
            normal(N, D),
            classes(K, N),
            normal(5, D + 1),
            classes(K, 5),
        )
    ],
    "resample.refit": [
        case(
            functools.partial(resample.refit, mean_difference, batch_size=2),
            normal(N, D),
            classes(2, N),
            classes(2, 3, N),
        )
    ],
    "resample.permutation_test": [
        case(
            lambda key, *data: resample.permutation_test(
                key, mean_difference, metrics.accuracy, *data, draws=5, batch_size=2
            ),
            a_key,
            normal(N, D),
            classes(2, N),
            classes(2, 4, N),
        )
    ],
    "resample.regularization_path": [
        case(
            lambda x, y, l2: resample.regularization_path(mean_difference, x, y, l2=l2),
            normal(N, D),
            classes(2, N),
            positive(4),
        )
    ],
    "resample.select": [
        case(
            lambda x, y, weights, l2: resample.select(
                mean_difference, metrics.brier, x, y, weights, l2=l2, larger_is_better=False
            ),
            normal(N, D),
            classes(2, N),
            classes(2, 4, N),
            positive(4),
        )
    ],
    "resample.cross_validate": [
        case(
            functools.partial(resample.cross_validate, mean_difference, metrics.accuracy),
            normal(N, D),
            classes(2, N),
            classes(2, 4, N),
        )
    ],
    "solvers.newton": [case(_solve(solvers.newton), *START)],
    "solvers.lbfgs": [case(_solve(solvers.lbfgs), *START)],
    "solvers.gradient_descent": [case(_solve(solvers.gradient_descent), *START)],
    "solvers.from_optax": [case(_solve(solvers.from_optax(ADAM)), *START)],
    "solvers.stochastic": [
        case(
            lambda key, init, rows: solvers.stochastic(
                key, spread, init, rows, batch_size=4, steps=5, optimizer=SGD
            ),
            a_key,
            normal(D),
            normal(N, D),
        )
    ],
    "solvers.trace": [
        case(
            lambda init, target: solvers.trace(solvers.newton, bowl, init, (target,), num_steps=3),
            *START,
        )
    ],
    "updates.softmax": [case(updates.softmax, planes, normal(D), classes(K))],
    "updates.multiclass_perceptron": [
        case(updates.multiclass_perceptron, planes, normal(D), classes(K))
    ],
    "updates.run": [
        case(
            lambda params, x, y, weight: updates.run(
                updates.perceptron, params, x, y, sample_weight=weight
            ),
            plane,
            normal(N, D),
            classes(2, N),
            some_weights,
        )
    ],
}


def covariance(*lead: int) -> Callable[[np.random.Generator], np.ndarray]:
    def draw(rng: np.random.Generator) -> np.ndarray:
        root = rng.normal(size=(*lead, D, 2 * D))
        return root @ np.swapaxes(root, -1, -2)

    return draw


def gaussians(rng: np.random.Generator) -> Gaussian:
    return Gaussian(rng.normal(size=(K, D)), covariance(K)(rng), np.full(K, 1 / K))


def tied_gaussians(rng: np.random.Generator) -> TiedGaussian:
    return TiedGaussian(rng.normal(size=(K, D)), covariance()(rng), np.full(K, 1 / K))


def ordinals(rng: np.random.Generator) -> Ordinal:
    return Ordinal(rng.normal(size=D), np.sort(rng.normal(size=K - 1)))


def diagonal_gaussians(rng: np.random.Generator) -> DiagonalGaussian:
    return DiagonalGaussian(rng.normal(size=(K, D)), positive(K, D)(rng), np.full(K, 1 / K))


def quadratics(rng: np.random.Generator) -> Quadratic:
    return Quadratic(-covariance(K)(rng), rng.normal(size=(K, D)), rng.normal(size=K))


def pairwise_planes(rng: np.random.Generator) -> Pairwise:
    return Pairwise(rng.normal(size=(6, D)), rng.normal(size=6))


def some_moments(of: Callable, targets: Callable) -> Callable[[np.random.Generator], Any]:
    return lambda rng: jax.tree.map(np.asarray, of(rng.normal(size=(N, D)), targets(rng)))


TIED = some_moments(functools.partial(moments.tied, num_classes=K), classes(K, N))
PER_CLASS = some_moments(functools.partial(moments.per_class, num_classes=K), classes(K, N))
PER_COLUMN = some_moments(functools.partial(moments.per_column, num_classes=K), classes(K, N))
REGRESSION = some_moments(moments.regression, normal(N))
CASES |= {
    "moments.merge": [case(moments.merge, part, part) for part in (TIED, PER_CLASS, PER_COLUMN)],
    "moments.subtract": [case(moments.subtract, part, part) for part in (TIED, PER_COLUMN)],
    "naive_bayes.fit_from_moments": [
        case(functools.partial(naive_bayes.fit_from_moments, naive_bayes.fit_gaussian), PER_COLUMN)
    ],
    "moments.regression": [case(moments.regression, normal(N, D), normal(N))],
    "ordinal.covariance": [
        case(
            weighing(functools.partial(ordinal.covariance, check=False)),
            ordinals,
            normal(N, D),
            classes(K, N),
            some_weights,
        )
    ],
    "lda.fit_from_moments": [case(lda.fit_from_moments, TIED)],
    "qda.fit_from_moments": [case(qda.fit_from_moments, PER_CLASS)],
    "gaussian.fit_from_moments": [case(gaussian.fit_from_moments, PER_CLASS)],
    "gaussian.fit_tied_from_moments": [case(gaussian.fit_tied_from_moments, TIED)],
    "least_squares.fit_from_moments": [case(least_squares.fit_from_moments, TIED)],
    "least_squares.regress": [case(least_squares.regress, normal(N, D), normal(N))],
    "least_squares.regress_from_moments": [case(least_squares.regress_from_moments, REGRESSION)],
    "least_squares.round_predict": [
        case(least_squares.round_predict, plane, normal(N, D), num_classes=K)
    ],
    "least_squares.sum_of_squares": [
        case(least_squares.sum_of_squares, plane, normal(N, D), normal(N)),
        case(least_squares.sum_of_squares, planes, normal(N, D), classes(K, N)),
    ],
    "softmax.to_reference": [case(softmax.to_reference, planes, classes(K))],
    "softmax.from_reference": [case(softmax.from_reference, planes)],
    "fisher.criterion": [case(fisher.criterion, normal(D), normal(N, D), classes(2, N))],
    "fisher.directions": [case(fisher.directions, normal(N, D), classes(K, N), num_classes=K)],
    "fisher.rayleigh_quotient": [
        case(fisher.rayleigh_quotient, normal(D, 2), normal(N, D), classes(K, N), num_classes=K)
    ],
    "gaussian.sample": [
        case(
            lambda key, params: gaussian.sample(key, params, 5),
            a_key,
            params,
        )
        for params in (gaussians, tied_gaussians, diagonal_gaussians)
    ],
    "gaussian.to_linear": [case(gaussian.to_linear, tied_gaussians)],
    "gaussian.to_quadratic": [
        case(gaussian.to_quadratic, gaussians),
        case(gaussian.to_quadratic, tied_gaussians),
        case(gaussian.to_quadratic, diagonal_gaussians),
    ],
}
for _name in ("tied", "per_class", "per_column", "from_data"):
    CASES[f"moments.{_name}"] = [
        case(getattr(moments, _name), normal(N, D), classes(K, N), num_classes=K)
    ]


def covariance_of_plane(rng: np.random.Generator) -> np.ndarray:
    root = rng.normal(size=(D + 1, 2 * D))
    return root @ root.T


def some_plane(f: Callable, **keywords: Any) -> Case:
    """Of params that are the minimum of nothing."""
    return case(functools.partial(f, losses.logistic, check=False, **keywords), *PLANE_AND_DATA)


PLANE_AND_DATA = (plane, normal(N, D), classes(2, N))
PLANE_AND_COVARIANCE = (plane, covariance_of_plane)
CASES |= {
    "inference.covariance": [
        some_plane(inference.covariance),
        case(
            functools.partial(inference.covariance, losses.softmax, check=False),
            lambda rng: softmax.from_reference(planes(rng)),
            normal(N, D),
            classes(K, N),
        ),
    ],
    "inference.sandwich": [
        some_plane(inference.sandwich, kind="HC3"),
        some_plane(inference.sandwich, clusters=np.arange(N) % 5, num_clusters=5),
        some_plane(
            inference.sandwich,
            kind="HC2",
            clusters=np.column_stack([np.arange(N) % 5, np.arange(N) // 8]),
            num_clusters=5,
        ),
    ],
    "inference.influence": [some_plane(inference.influence)],
    "inference.leverage": [some_plane(inference.leverage)],
    "inference.cooks_distance": [some_plane(inference.cooks_distance)],
    "inference.dfbetas": [some_plane(inference.dfbetas)],
    "inference.residuals": [
        some_plane(inference.residuals, kind=kind)
        for kind in (inference.pearson, inference.deviance)
    ],
    **{
        f"inference.{f.__name__}": [
            case(functools.partial(f, losses.logistic), normal(), classes(2))
        ]
        for f in (inference.pearson, inference.deviance, inference.response)
    },
    "inference.score_test": [
        case(
            functools.partial(inference.score_test, losses.logistic, check=False),
            *PLANE_AND_DATA,
            normal(N, 2),
        )
    ],
    "inference.score_bootstrap": [
        case(
            lambda key, params, x, y, **more: inference.score_bootstrap(
                key, losses.logistic, params, x, y, columns=0, draws=5, check=False, **more
            ),
            a_key,
            *PLANE_AND_DATA,
        )
    ],
    "inference.hosmer_lemeshow": [
        case(
            weighing(inference.hosmer_lemeshow, num_groups=4),
            normal(N),
            classes(2, N),
            some_weights,
        )
    ],
    "inference.le_cessie": [
        case(functools.partial(inference.le_cessie, check=False), *PLANE_AND_DATA)
    ],
    "inference.summary": [
        case(
            lambda x, y, **more: inference.summary(
                losses.logistic, logistic.fit(x, y, **more)[0], x, y, **more
            ),
            normal(N, D),
            classes(2, N),
        )
    ],
    **{
        f"effects.{f.__name__}": [
            case(
                lambda params, x, y, f=f, rows=rows, **more: f(
                    params,
                    *rows(x),
                    inference.covariance(losses.logistic, params, x, y, check=False),
                    **more,
                ),
                *PLANE_AND_DATA,
            )
        ]
        for f, rows in (
            (effects.marginal, lambda x: (x,)),
            (effects.average_marginal, lambda x: (x,)),
            (effects.difference, lambda x: (x, 2 * x)),
            (effects.average_difference, lambda x: (x, 2 * x)),
        )
    },
    "inference.firth_test": [
        case(weighing(inference.firth_test, columns=0), normal(N, D), classes(2, N), some_weights)
    ],
    "inference.firth_intervals": [
        case(weighing(inference.firth_intervals), normal(N, D), classes(2, N), some_weights)
    ],
    "inference.approximate_leave_one_out": [
        some_plane(inference.approximate_leave_one_out, l2=0.1)
    ],
    "inference.likelihood_ratio": [
        case(
            lambda params, null, x, y, **more: inference.likelihood_ratio(
                losses.logistic, params, null, x, y, degrees=1, check=False, **more
            ),
            plane,
            *PLANE_AND_DATA,
        )
    ],
    "inference.separation": [case(inference.separation, *PLANE_AND_DATA)],
    "inference.proved_zero": [
        case(
            functools.partial(inference.proved_zero, losses.logistic, l1=0.2),
            lambda rng: jax.tree.map(jnp.zeros_like, plane(rng)),
            normal(N, D),
            classes(2, N),
        )
    ],
    "inference.standard_errors": [case(inference.standard_errors, *PLANE_AND_COVARIANCE)],
    "inference.wald": [case(inference.wald, *PLANE_AND_COVARIANCE)],
    "inference.wald_joint": [
        case(functools.partial(inference.wald_joint, lambda p: p.weights), *PLANE_AND_COVARIANCE)
    ],
    "inference.confidence_intervals": [case(inference.confidence_intervals, *PLANE_AND_COVARIANCE)],
    "inference.delta": [
        case(functools.partial(inference.delta, lambda p: p.weights**2), *PLANE_AND_COVARIANCE)
    ],
}


def _threshold(f: Callable) -> Case:
    return case(lambda p, y, w: f(p, y, sample_weight=w), normal(N), classes(2, N), some_weights)


for _name in ("midpoint", "equal_variance", "least_error"):
    CASES[f"fisher.{_name}"] = [_threshold(getattr(fisher, _name))]
JOINT = ("log_joint", "scores", "log_density", "predict", "probabilities", "log_probabilities")
for _name in JOINT:
    CASES[f"gaussian.{_name}"] = [
        case(getattr(gaussian, _name), params, normal(N, D))
        for params in (gaussians, tied_gaussians, diagonal_gaussians)
    ]
for _name in ("scores", "predict", "probabilities", "log_probabilities"):
    CASES[f"ordinal.{_name}"] = [case(getattr(ordinal, _name), ordinals, normal(N, D))]
    CASES[f"quadratic.{_name}"] = [case(getattr(quadratic, _name), quadratics, normal(N, D))]
for _name in ("scores", "votes", "predict"):
    CASES[f"pairwise.{_name}"] = [case(getattr(pairwise, _name), pairwise_planes, normal(N, D))]
for _name in ("softmax", "multiclass_perceptron", "multiclass_hinge"):
    CASES[f"losses.{_name}"] = [case(getattr(losses, _name), MANY["scores"], MANY["y"])]
for _name in ("squared", "zero_one"):
    CASES[f"losses.{_name}"] = [
        case(getattr(losses, _name), USUAL["scores"], USUAL["y"]),
        case(getattr(losses, _name), MANY["scores"], MANY["y"]),
    ]
for _name in ("scores", "predict", "probabilities", "log_probabilities"):
    for _module in ("linear", "jaxlin"):
        CASES[f"{_module}.{_name}"] = [
            case(FUNCTIONS[f"{_module}.{_name}"], params, normal(N, D))
            for params in (plane, planes)
        ]


# The keywords that every fit has, and how many trailing axes of a field run over features.
SHARED = {"num_classes", "sample_weight", "feature_mask"}
FEATURE_AXES = {
    "weights": 1,
    "means": 1,
    "variances": 1,
    "quadratic": 2,
    "covariances": 2,
    "covariance": 2,
}


def take_features(params: Any, keep: Any) -> Any:
    """Params of a fit to some of the features."""

    def one(field: str, leaf: Any) -> Any:
        for axis in range(FEATURE_AXES.get(field, 0)):
            leaf = np.take(np.asarray(leaf), keep, axis=-1 - axis)
        return leaf

    return type(params)(*(one(f, a) for f, a in zip(params._fields, params, strict=True)))


def of_feature(params: Any, j: int) -> list[np.ndarray]:
    """What params hold of feature j."""
    fields = zip(params._fields, params, strict=True)
    return [
        np.take(np.asarray(leaf), j, axis=-1 - axis)
        for field, leaf in fields
        for axis in range(FEATURE_AXES.get(field, 0))
    ]


def is_fit(name: str) -> bool:
    """Whether the function of this name is `fit(x, y, *, ...) -> (params, info)`."""
    verb = name.split(".")[1]
    parameters = list(inspect.signature(FUNCTIONS[name]).parameters)
    fits = (verb == "fit" or verb.startswith("fit_")) and parameters[:2] == ["x", "y"]
    return fits and verb != "fit_dual"  # which returns no params


def cases_of(name: str) -> list[Case]:
    """The examples of a function that is no fit."""
    return CASES.get(name) or [_usual(FUNCTIONS[name], name.split(".")[0])]


def has_cases(name: str) -> bool:
    """Whether there are examples; `test_api` insists that a function of arrays has some."""
    try:
        return not is_fit(name) and bool(cases_of(name))
    except LookupError:
        return False


def thorough(*values: Any) -> Any:
    """Parameters of a test that is thorough."""
    return pytest.param(*values, marks=pytest.mark.thorough)


def seldom(names: Iterable[str], which: set[str]) -> list:
    """Parameters of a test, of which these are thorough."""
    return [thorough(n) if n in which else n for n in names]


# Those whose programs are another's, but for a few lines that tests of their own see.
SECOND = {
    "inference.firth_intervals",
    "gaussian.fit_from_moments",
    "gaussian.fit_tied_from_moments",
    "least_squares.regress",
    "least_squares.regress_from_moments",
    "solvers.from_optax",
    "solvers.gradient_descent",
    "svm.farkas",
    "svm.fit_dual",
}
CALLABLE = [
    name
    for name in FUNCTIONS
    if name not in HOST_ONLY and (name in CASES or name not in COMBINATORS) and has_cases(name)
]


# --- fits ----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Fit:
    """A fit with what is static about it.

    call: `fit(x, y, *, ...)`
    num_classes: of the example's labels
    weights_count: whether a weight of 2 is the row twice
    scale_free: whether all weights twice as large change nothing
    whole: whether all laws are checked; some suffice for a variant, whose front end is the same
    of_x: what makes of an example's x one that the fit takes
    """

    call: Callable
    num_classes: int
    weights_count: bool
    whole: bool
    scale_free: bool = True
    of_x: Callable = np.asarray

    def __call__(self, x: Any, y: Any, weight: Any, mask: Any, **options: Any) -> tuple:
        return self.call(x, y, sample_weight=weight, feature_mask=mask, **options)

    def draw(self, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        x, y = overlapping(rng, self.num_classes)
        return self.of_x(x), y, some_weights(rng), np.ones(D, bool)


# Fits to counts, and what makes such of numbers. What they are told has no other origin or units.
COUNTS: dict[str, Callable] = {
    "naive_bayes.fit_bernoulli": lambda x: (x > 0).astype(float),
    "naive_bayes.fit_multinomial": np.abs,
    "naive_bayes.fit_categorical": np.abs,
    "naive_bayes.fit_complement": np.abs,
}


def _fits() -> dict[str, Fit]:
    fits = {}
    for name in filter(is_fit, FUNCTIONS):
        f = FUNCTIONS[name]
        known = inspect.signature(f).parameters
        many = "num_classes" in known
        # Given from the start, so that a sweep over it needs no other program.
        options: dict[str, Any] = {"max_steps": 1000} if "max_steps" in known else {}
        if "l2" in known and known["l2"].default is inspect.Parameter.empty:
            options["l2"] = 0.1
        if name == "naive_bayes.fit_categorical":
            options |= {"groups": np.array([0, 0, 1]), "num_groups": 2}
        fits[name] = Fit(
            call=functools.partial(f, **options, **({"num_classes": K} if many else {})),
            num_classes=K if many else 2,
            weights_count=not name.startswith("perceptron."),
            # A Gaussian is what lda and qda are made of.
            whole=not name.startswith("gaussian."),
            scale_free=name not in ("logistic.fit_firth", "centroids.fit", *COUNTS),
            of_x=COUNTS.get(name, np.asarray),
        )
    fits[LBFGS] = Fit(
        functools.partial(logistic.fit, solver=solvers.lbfgs, max_steps=1000), 2, True, False
    )
    fits[L1] = Fit(functools.partial(logistic.fit, l1=0.02, max_steps=1000), 2, True, True)
    fits["softmax.fit l1"] = Fit(
        functools.partial(softmax.fit, l1=0.02, num_classes=K, max_steps=1000), K, True, True
    )
    fits["one_vs_rest(perceptron.fit)"] = Fit(
        functools.partial(multiclass.one_vs_rest(perceptron.fit), num_classes=K), K, False, True
    )
    fits["one_vs_one(perceptron.fit)"] = Fit(
        functools.partial(multiclass.one_vs_one(perceptron.fit), num_classes=K), K, False, True
    )
    fits["on_standardized(logistic.fit)"] = Fit(
        resample.on_standardized(logistic.fit), 2, True, False
    )
    fits["on_balanced(lda.fit)"] = Fit(
        functools.partial(resample.on_balanced(lda.fit), num_classes=K), K, True, False
    )
    return fits


LBFGS, L1 = "logistic.fit lbfgs", "logistic.fit l1"
FITS = _fits()
# For parametrize: what shares its engine with another fit is tried with the thorough tests.
TWINS = {
    LBFGS,
    "softmax.fit l1",
    "logistic.fit_firth",
    "gaussian.fit",
    "gaussian.fit_tied",
    "on_standardized(logistic.fit)",
    "on_balanced(lda.fit)",
    "svm.fit_hard_margin",
}
NAMES = seldom(FITS, TWINS)


@functools.cache
def lanes_of(name: str) -> Callable:
    """The fit as lanes of one program, each with its own data."""
    return jax.jit(jax.vmap(FITS[name].__call__))


@functools.cache
def weighted_lanes_of(name: str) -> Callable:
    """The fit as lanes of one program that differ in their weights only."""
    return jax.jit(jax.vmap(FITS[name].__call__, in_axes=(None, None, 0, None)))


# --- comparisons ---------------------------------------------------------------------------------


def stack(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(a) for a in leaves]), *trees)


def lane(tree: Any, i: int) -> Any:
    return jax.tree.map(lambda a: a[i], tree)


def without(tree: Any, i: int) -> Any:
    return jax.tree.map(lambda a: np.delete(np.asarray(a), i, axis=0), tree)


def assert_identical(a: Any, b: Any) -> None:
    """Bit for bit, NaN being equal to NaN."""
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for left, right in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(np.asarray(left), np.asarray(right))


def assert_close(a: Any, b: Any, rtol: float = 1e-10) -> None:
    """To rounding; integers exactly, but for the count of an iteration that ends at the floor."""
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for left, right in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_allclose(np.asarray(left), np.asarray(right), rtol=rtol, atol=rtol)

"""Every method on every hard problem: what it says is what is true.

`problems` holds the catalogue. Here its tags are proved in rational arithmetic; every status is
held to what is expected; and whatever the status, what it claims is checked by other means than the
method's own: separation in rational arithmetic, optima by gradients and closed forms to 50 digits.
The problems are lanes of one program between clean neighbours, which must not feel them; the
thorough tests add single calls, jitted and not, derivatives and single precision.
"""

import functools

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from jaxlin._base import _checks
from jaxlin.types import Status
from tests import exact, problems
from tests.problems import METHODS, SHAPES
from tests.public import assert_identical, lane, thorough

CLEAN = {"flat": "noise", "wide": "twice as many columns as rows", "tall": "many rows"}
DTYPES = [np.float64, thorough(np.float32)]
DIFFERENTIABLE = [
    "least_squares.fit",
    "fisher.fit",
    "lda.fit",
    "qda.fit",
    "gaussian.fit",
    "logistic.fit",
    "softmax.fit",
    "svm.fit squared",
]


@functools.cache
def catalogue(dtype):
    return problems.catalogue(dtype)


def chosen(name, size, dtype):
    """The problems of a size that concern a method, by name."""
    found = catalogue(dtype).items()
    return {n: p for n, p in found if p.size == size and problems.applies(METHODS[name], p)}


def stack(trees):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


@functools.cache
def lanes_of(name):
    return jax.jit(jax.vmap(functools.partial(problems.call, METHODS[name])))


@functools.cache
def results(name, size, dtype):
    """Every problem's result, each the odd lanes of a batch of which the even ones are clean."""
    here = chosen(name, size, dtype)
    clean = catalogue(dtype)[CLEAN[size]]
    lanes = [clean]
    for problem in here.values():
        lanes += [problem, clean]
    batch = stack([problems.arguments(METHODS[name], p, dtype) for p in lanes])
    return dict(zip(here, range(1, len(lanes), 2), strict=True)), lanes_of(name)(*batch)


# --- the catalogue itself ------------------------------------------------------------------------


def test_there_are_enough():
    assert len(catalogue(np.float64)) >= 60


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_classes_lie_as_the_catalogue_says(dtype):
    for name, problem in catalogue(dtype).items():
        if problem.kind == problems.NO_DATA:
            assert problem.invalid == "data", name
        elif problem.kind == problems.ONE_CLASS:
            assert len(np.unique(problem.rows[1])) == 1, name
        else:
            x, y, _ = problem.rows
            assert exact.kind(*few(x, y)) == problem.kind, name


def few(x, y):
    """Of many rows those of each class that are nearest to the others, and some all over."""
    if len(x) < 100:
        return x, y
    order = np.argsort(x[:, 0])
    inner = [order[:: len(x) // 20]]
    for c in np.unique(y):
        own, others = np.flatnonzero(y == c), x[y != c].mean(axis=0)
        inner.append(own[np.argsort(np.linalg.norm(x[own] - others, axis=1))[:40]])
    inner = np.unique(np.concatenate(inner))
    return x[inner], y[inner]


# --- what is said --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SHAPES)
@pytest.mark.parametrize("name", METHODS)
def test_every_status_is_the_expected_one(name, size, dtype):
    where, (_, info) = results(name, size, dtype)
    wrong = {}
    for problem, i in where.items():
        said = Status(int(info.status[i]))
        fine = problems.expected(name, problem, catalogue(dtype)[problem])
        fine |= halved(catalogue(dtype)[problem], dtype)
        if said not in fine:
            wrong[problem] = (said.name, sorted(s.name for s in fine), float(info.residual[i]))
    assert not wrong, wrong


def halved(problem, dtype):
    """What else half the digits may leave to say: they cannot tell such columns or rows apart."""
    if dtype == np.float64:
        return set()
    unclear = {Status.STALLED, Status.MAX_STEPS}
    if problem.tags & {"near collinear", "leverage", "far"}:
        unclear |= {Status.RANK_DEFICIENT}
    return unclear | ({Status.QUASI_SEPARABLE} if "leverage" in problem.tags else set())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SHAPES)
@pytest.mark.parametrize("name", METHODS)
def test_no_neighbour_feels_it(name, size, dtype):
    where, result = results(name, size, dtype)
    clean = problems.arguments(METHODS[name], catalogue(dtype)[CLEAN[size]], dtype)
    alone = lanes_of(name)(*stack([clean] * (2 * len(where) + 1)))
    even = jax.tree.map(lambda a: a[::2], result)
    assert_identical(even, jax.tree.map(lambda a: a[::2], alone))


# --- what is claimed -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SHAPES)
@pytest.mark.parametrize("name", METHODS)
def test_what_is_claimed_is_so(name, size, dtype):
    where, (params, info) = results(name, size, dtype)
    for problem_name, i in where.items():
        problem = catalogue(dtype)[problem_name]
        status = Status(int(info.status[i]))
        found = jax.tree.map(np.asarray, lane(params, i))
        told = not any(np.any(np.isnan(a)) for a in found)
        assert told or status >= Status.CLASS_TOO_SMALL, problem_name
        with mpmath.workdps(40):
            assert_claimed(name, problem, status, found, dtype, problem_name)


def assert_claimed(name, problem, status, params, dtype, words):
    """Each status is a claim about params and data; what fails claims nothing."""
    family = METHODS[name].family
    succeeded = status <= Status.RANK_DEFICIENT
    walked = family in ("perceptron", "hard margin") and status == Status.CONVERGED
    if (status == Status.SEPARABLE and family == "smooth") or walked:
        assert separates(params, problem), words
    separable = {Status.SEPARABLE, Status.QUASI_SEPARABLE} - halved(problem, dtype)
    if status in separable and family == "smooth":
        assert problem.kind == status.name.lower().replace("_", "-"), words
    if status == Status.NOT_SEPARABLE and family == "hard margin":
        assert problem.kind != problems.SEPARABLE, words
    if succeeded and name in SLOPES:
        given = problem.options.get("tol") if "tol" in METHODS[name].options else None
        tol = float(_checks.tolerance(given, dtype))
        if family == "svm":  # whose gap is a square
            tol = 2 * np.sqrt(tol)
        if family == "least squares":  # whose weights are as near as they can be written
            terms = (
                np.max(np.abs(problem.rows[0]), axis=0, initial=0) * np.abs(params.weights).max()
            )
            tol += 8 * np.finfo(dtype).eps * terms.sum()
        slope = largest_slope(name, problem, params)
        assert slope <= 1.1 * tol, (words, float(slope))
    if succeeded and family in ("tied", "per class") and problem.size != "tall":
        assert_solved(name, problem, params, dtype, words)


def separates(params, problem):
    """In rational arithmetic: every row scores highest, strictly, in its own class."""
    x, y, _ = problem.rows
    weights = np.atleast_2d(params.weights)[:, problem.mask]
    bias = np.atleast_1d(params.bias)
    rows = exact.fractions(np.column_stack([x, np.ones(len(x), x.dtype)]))
    planes = exact.fractions(np.column_stack([weights, bias])[np.isfinite(bias)])
    scores = [[exact.dot(row, plane) for plane in planes] for row in rows]
    if len(planes) == 1:
        return all(
            (s[0] > 0) if label == 1 else (s[0] < 0) for s, label in zip(scores, y, strict=True)
        )
    place = np.cumsum(np.isfinite(bias)) - 1
    return all(
        s[place[label]] > max(s[: place[label]] + s[place[label] + 1 :])
        for s, label in zip(scores, y, strict=True)
    )


# --- slopes to 40 digits -------------------------------------------------------------------------

LEAST = mpmath.mpf(10) ** -60  # where everything is 0 but for the rounding of 40 digits
exactly = np.vectorize(lambda a: mpmath.mpf(float(a)), otypes=[object])
exp = np.vectorize(mpmath.exp, otypes=[object])
sqrt = np.vectorize(mpmath.sqrt, otypes=[object])


def product(a, b):
    return np.array([[mpmath.fdot(row, column) for column in b.T] for row in a], object)


def _one_hot(y, k):
    return exactly(np.eye(k)[y])


def _softmax_pull(scores, y):
    raised = exp(scores - scores.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True) - _one_hot(y, scores.shape[1])


def _logistic_pull(scores, y):
    return 1 / (1 + exp(-scores)) - exactly(y)[:, None]


def _squared_hinge_pull(scores, y):
    sign = exactly(2 * y - 1)[:, None]
    return -2 * sign * np.maximum(exactly(0), 1 - sign * scores)


SLOPES = {
    "least_squares.fit": lambda scores, y: scores - _one_hot(y, scores.shape[1]),
    "logistic.fit": _logistic_pull,
    "logistic.fit lbfgs": _logistic_pull,
    "softmax.fit": _softmax_pull,
    "svm.fit squared": _squared_hinge_pull,
}


def largest_slope(name, problem, params):
    """The largest entry of the gradient, the columns centred and of unit variance."""
    x, y, weight = problem.rows
    here = np.isfinite(np.atleast_1d(params.bias))
    y = (np.cumsum(here) - 1)[y] if here.size > 1 else y
    x, weights = exactly(x), exactly(np.atleast_2d(params.weights)[here][:, problem.mask])
    weight = exactly(weight) / exactly(weight).sum()
    bias = exactly(np.atleast_1d(params.bias)[here])
    pull = SLOPES[name](product(x, weights.T) + bias[None, :], y) * weight[:, None]
    apart = x - product(weight[None, :], x)
    spread = product(weight[None, :], apart * apart)[0]
    seen = np.array([v > 0 for v in spread], bool)
    d = int(problem.mask.sum())
    l2 = exactly(np.broadcast_to(problem.options.get("l2", METHODS[name].options["l2"]), d))
    slope = product(pull.T, apart) + l2[None, :] * weights
    slope = slope[:, seen] / sqrt(spread[seen])[None, :]
    return max([abs(v) for v in slope.ravel()] + [abs(v) for v in pull.sum(axis=0)])


# --- closed forms to 40 digits -------------------------------------------------------------------


def assert_solved(name, problem, params, dtype, words):
    """The params solve their equations, with exact statistics, to the rounding of the terms.

    S w_c = m_c (as a difference of two classes), S w ~ m_1 - m_0, (-2 Q_c) S_c = P, S_c = S_c.
    """
    x, y, weight = problem.rows
    means, scatters, share = statistics(exactly(x), y, exactly(weight))
    here, keep = sorted(means), np.ix_(problem.mask, problem.mask)
    pooled = sum(share[c] * scatters[c] for c in here)
    eps = 64 * len(x) * float(np.finfo(dtype).eps)
    size = exactly(np.max(np.abs(x), axis=0, initial=0))

    def close(found, wanted, terms):
        assert np.all(np.abs(found - wanted) <= eps * terms + LEAST), words

    def spread(matrix):
        return sqrt(np.outer(np.diag(matrix), np.diag(matrix)))

    def close_on_range(w, means_apart, large):
        # A singular S gives the part of the means on its range, which S keeps.
        terms = spread(pooled) @ (spread(pooled) @ large + size)
        close(pooled @ (pooled @ w), pooled @ means_apart, terms)

    if name == "fisher.fit":
        w = exactly(params.weights[problem.mask])
        close_on_range(w, means[1] - means[0], np.abs(w))
    elif name == "lda.fit":
        w = exactly(params.weights[:, problem.mask])
        for c, first in ((c, here[0]) for c in here[1:]):
            close_on_range(w[c] - w[first], means[c] - means[first], abs(w[c]) + abs(w[first]))
    elif name == "gaussian.fit_tied":
        close(exactly(params.covariance[keep]), pooled, np.outer(size, size))
    elif name == "gaussian.fit":
        for c in here:
            close(exactly(params.covariances[c][keep]), scatters[c], np.outer(size, size))
    elif name == "qda.fit":
        for c in here:
            q = exactly(-2 * params.quadratic[c][keep])
            rounded_by = spread(scatters[c]) + np.outer(size, size)
            terms = spread(scatters[c]) @ np.abs(q) @ rounded_by + rounded_by
            close(scatters[c] @ q @ scatters[c], scatters[c], terms)


def statistics(x, y, weight):
    """Of each class its mean, its covariance over n, and its part of the weight."""
    means, scatters, share = {}, {}, {}
    for c in np.unique(y):
        own = weight[y == c] / weight[y == c].sum()
        means[c] = own @ x[y == c]
        apart = x[y == c] - means[c]
        scatters[c] = (apart * own[:, None]).T @ apart
        share[c] = weight[y == c].sum() / weight.sum()
    return means, scatters, share


# --- other ways to call --------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", METHODS)
def test_a_single_call_says_what_the_lane_said(name, dtype):
    """Jitted, and eager, where bad data raise instead."""
    method = METHODS[name]
    jitted = jax.jit(functools.partial(problems.call, method))
    for size in SHAPES:
        where, (_, info) = results(name, size, dtype)
        for problem_name, i in where.items():
            problem = catalogue(dtype)[problem_name]
            arguments = problems.arguments(method, problem, dtype)
            fine = problems.expected(name, problem_name, problem) | {int(info.status[i])}
            fine |= halved(problem, dtype)
            _, single = jitted(*arguments)
            assert int(single.status) in fine, (problem_name, single)
            try:
                with np.errstate(all="ignore"):
                    _, eager = problems.call(method, *arguments)
            except ValueError as error:
                assert int(single.status) == Status.INVALID_DATA, (problem_name, error)
            else:
                assert int(eager.status) in fine, (problem_name, eager)


@pytest.mark.thorough
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_are_finite_where_there_is_an_optimum_and_nan_where_there_is_none(name):
    """With respect to the weights: NaN where a failure is used, 0 where it is masked, by lane."""
    method = METHODS[name]

    def total(weight, data, options, masked):
        x, y, _, mask = data
        params, info = problems.call(method, (x, y, weight, mask), options)
        keep = ~masked | (info.status <= Status.RANK_DEFICIENT)
        params = jax.tree.map(lambda a: jnp.where(keep & jnp.isfinite(a), a, 0), params)
        # No sum: softmax's is always 0.
        return sum(leaf.ravel() @ jnp.arange(1.0, 1 + leaf.size) for leaf in params), info

    slopes = jax.jit(jax.vmap(jax.grad(total, has_aux=True), in_axes=(0, 0, 0, None)))
    for size in ("flat", "wide"):
        here = chosen(name, size, np.float64)
        data, options = stack([problems.arguments(method, p, np.float64) for p in here.values()])
        used, info = slopes(data[2], data, options, np.bool_(False))
        masked, _ = slopes(data[2], data, options, np.bool_(True))
        for i, problem_name in enumerate(here):
            status = Status(int(info.status[i]))
            # By weights of 1e-200 derivatives are 1e200, and what they are made of overflows.
            moderate = np.max(data[2][i]) > 1e-100
            if status == Status.CONVERGED and moderate:
                assert np.all(np.isfinite(used[i])), problem_name
            elif status in (Status.SEPARABLE, Status.QUASI_SEPARABLE):
                assert np.all(np.isnan(used[i][data[2][i] != 0])), problem_name
            if status > Status.MAX_STEPS:
                assert not np.any(masked[i]), (problem_name, status)

"""The closed forms against each other, scikit-learn, R, and the textbook's identities."""

import functools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.linear_model import Ridge

import jaxlin
from jaxlin import (
    _linalg,
    datasets,
    fisher,
    gaussian,
    lda,
    least_squares,
    linear,
    moments,
    qda,
    quadratic,
)
from jaxlin._moments import _statistics
from jaxlin.types import Hyperplane, Status
from tests.public import assert_close, stack, thorough

N, D, K = 60, 4, 3


@pytest.fixture
def iris():
    x, y, _, _ = datasets.iris()
    return np.asarray(x, float), np.asarray(y)


def drawn(seed=0, k=K, spread=1.0):
    rng = np.random.default_rng(seed)
    y = np.arange(N) % k
    x = rng.normal(size=(N, D)) @ rng.normal(size=(D, D)) + spread * rng.normal(size=(k, D))[y]
    return x, y, rng.choice([0.0, 0.5, 1.0, 2.0], size=N)


# --- R's numbers on the iris data ----------------------------------------------------------------


def test_iris_against_r(iris):
    x, y = iris
    axes = fisher.directions(x, y, divisor="n-k")
    first = np.array([0.8293776, 1.5344731, -2.2012117, -2.8104603])
    assert_close(axes[:, 0] / axes[0, 0] * first[0], first, 1e-7)
    quotient = fisher.rayleigh_quotient(axes, x, y)
    assert_close(quotient, np.array([32.19192920, 0.28539104]), 1e-8)
    quotient = fisher.rayleigh_quotient(axes, x, y, divisor="n-k")
    assert_close(np.sqrt(quotient), np.array([48.642644, 4.579983]), 1e-6)
    params, _ = lda.fit(x, y, divisor="n-k")
    expected = np.array([-85.2098577, -71.7539951, -103.2697077])
    assert_close(params.bias + np.log(3), expected, 1e-9)
    assert list(np.flatnonzero(jaxlin.predict(params, x) != y) + 1) == [71, 84, 134]
    bent, _ = qda.fit(x, y)
    assert np.sum(jaxlin.predict(bent, x) != y) == 3
    classes, _ = gaussian.fit(10 * x, y, divisor="n_k-1")
    logs = np.linalg.slogdet(classes.covariances)[1]
    assert_close(logs, np.array([5.3533204, 7.5463557, 9.4936223]), 1e-8)


def test_iris_to_eleven_digits(iris):
    """Against rational arithmetic on the decimals as they are written."""
    x, y = iris
    exact = [[Fraction(str(round(v, 1))) for v in row] for row in x.tolist()]
    means = [
        [sum(r[j] for r, c in zip(exact, y, strict=True) if c == k) / 50 for j in range(4)]
        for k in range(3)
    ]
    within = [
        [
            sum((r[i] - means[c][i]) * (r[j] - means[c][j]) for r, c in zip(exact, y, strict=True))
            / 147
            for j in range(4)
        ]
        for i in range(4)
    ]
    expected = np.array([[float(v) for v in _solve(within, mean)] for mean in means])
    params, _ = lda.fit(x, y, divisor="n-k")
    np.testing.assert_allclose(params.weights, expected, rtol=1e-11)


def _solve(a, b):
    """Gauss's elimination in rationals."""
    rows = [[*row, value] for row, value in zip(a, b, strict=True)]
    n = len(rows)
    for i in range(n):
        rows[i] = [v / rows[i][i] for v in rows[i]]
        for j in range(n):
            if j != i:
                rows[j] = [u - rows[j][i] * v for u, v in zip(rows[j], rows[i], strict=True)]
    return [row[-1] for row in rows]


# --- scikit-learn --------------------------------------------------------------------------------


def centred(scores):
    """Scores less what all classes share."""
    return scores - np.mean(scores, axis=1, keepdims=True)


def test_lda_is_scikit_learns():
    x, y, _ = drawn()
    priors = np.array([0.2, 0.5, 0.3])
    theirs = LinearDiscriminantAnalysis(solver="lsqr").fit(x, y)
    ours, info = lda.fit(x, y)
    assert info.status == Status.CONVERGED and info.residual == 0
    assert_close(ours.weights, theirs.coef_, 1e-11)
    assert_close(ours.bias, theirs.intercept_, 1e-11)
    for shrinkage in (0.1, 0.9):
        theirs = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage).fit(x, y)
        ours, _ = lda.fit(x, y, shrinkage=shrinkage)
        assert_close(ours.weights, theirs.coef_, 1e-11)
    # With priors given its solvers differ: lsqr's covariance is weighted by them.
    theirs = LinearDiscriminantAnalysis(solver="svd", priors=priors).fit(x, y)
    ours, _ = lda.fit(x, y, priors=priors * 7)
    assert_close(centred(linear.scores(ours, x)), centred(theirs.decision_function(x)), 1e-10)


def test_qda_is_scikit_learns():
    x, y, _ = drawn()
    priors = np.array([0.2, 0.5, 0.3])
    theirs = QuadraticDiscriminantAnalysis(priors=priors).fit(x, y)
    ours, _ = qda.fit(x, y, priors=priors)
    assert_close(jaxlin.probabilities(ours, x), theirs.predict_proba(x), 1e-10)


def test_ridge_is_scikit_learns():
    x, y, weight = drawn()
    targets = np.eye(K)[y]
    alpha = 0.3 * weight.sum()
    theirs = Ridge(alpha=alpha, solver="cholesky").fit(x, targets, sample_weight=weight)
    ours, _ = least_squares.fit(x, y, l2=0.3, sample_weight=weight)
    assert_close(ours.weights, theirs.coef_, 1e-11)
    assert_close(ours.bias, theirs.intercept_, 1e-11)
    line, _ = least_squares.regress(x, y.astype(float), l2=0.3, sample_weight=weight, bias=False)
    theirs = Ridge(alpha=alpha, solver="cholesky", fit_intercept=False)
    theirs.fit(x, y.astype(float), sample_weight=weight)
    assert_close(line.weights, theirs.coef_, 1e-11)


def test_ridge_of_targets_that_a_line_explains():
    """What is left of them is less than the normal equations keep, and is looked at in the rows."""
    x, _, weight = drawn()
    targets = x @ np.arange(1.0, D + 1) + 3
    line, _ = least_squares.regress(x, targets, l2=1e-3, sample_weight=weight)
    share = weight / weight.sum()
    z, t = x - share @ x, targets - share @ targets
    expected = np.linalg.solve((z * share[:, None]).T @ z + 1e-3 * np.eye(D), (z.T * share) @ t)
    assert_close(line.weights, expected, 1e-11)


def test_ledoit_wolf_is_scikit_learns():
    x, y, _ = drawn()
    z = x - np.stack([x[y == c].mean(0) for c in range(K)])[y]
    expected = ledoit_wolf_shrinkage(z, assume_centered=True)
    assert_close(lda.ledoit_wolf(x, y), np.asarray(expected), 1e-12)
    by_function, _ = lda.fit(x, y, shrinkage=lda.ledoit_wolf)
    by_number, _ = lda.fit(x, y, shrinkage=expected)
    assert_close(by_function, by_number, 1e-11)


def test_ledoit_wolf_knows_no_units_of_single_precision():
    """It is made of fourth powers, which of teslas (1e-13) or of 1e9 leave the range of float32."""
    x, y, _ = drawn()
    z = x - np.stack([x[y == c].mean(0) for c in range(K)])[y]
    expected = ledoit_wolf_shrinkage(z, assume_centered=True)
    plain = lda.ledoit_wolf(x.astype(np.float32), y)
    for power in (-60, -43, 30, 55):
        assert lda.ledoit_wolf((x * 2.0**power).astype(np.float32), y) == plain
    for unit in (1e-13, 1e-10, 1e-9, 1.0, 1e9, 1e12):
        found = lda.ledoit_wolf((x * unit).astype(np.float32), y)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


# --- identities ----------------------------------------------------------------------------------


def test_two_classes_have_one_direction():
    """Least squares with targets n/n_1 and -n/n_2, Fisher and LDA."""
    x, y, _ = drawn(k=2)
    targets = np.where(y == 0, N / np.sum(y == 0), -N / np.sum(y == 1))
    line, _ = least_squares.regress(x, targets)
    plane, _ = fisher.fit(x, y)
    both = linear.between(lda.fit(x, y)[0], 0, 1)
    axis = fisher.directions(x, y)[:, 0]

    def unit(w):
        w = np.asarray(w)
        return w / np.linalg.norm(w) * np.sign(w[0])

    for other in (line.weights, both.weights, axis):
        np.testing.assert_allclose(unit(other), unit(plane.weights), rtol=1e-12, atol=1e-14)
    assert_close(plane.weights, both.weights, 1e-12)
    same, _ = fisher.fit(x, y, threshold=fisher.equal_variance, sample_weight=1.0 + 2 * y)
    uneven, _ = lda.fit(x, y, sample_weight=1.0 + 2 * y)
    assert_close(same, linear.between(uneven, 0, 1), 1e-11)


def test_no_cut_has_less_error():
    rng = np.random.default_rng(0)
    for _ in range(5):
        place, y = rng.integers(-5, 6, size=20) / 2, rng.integers(2, size=20)
        weight = rng.choice([0.0, 1.0, 2.0], size=20)
        cut = fisher.least_error(*map(jnp.asarray, (place, y)), sample_weight=jnp.asarray(weight))
        seen = np.unique(place[weight > 0])
        middles = (seen[1:] + seen[:-1]) / 2
        cuts = np.concatenate([seen[:1] - 1, middles, seen[-1:] + 1])
        errors = np.sum(weight * ((place > cuts[:, None]) != (y > 0)), axis=1)
        lowest = np.argmin(errors)
        if 0 < lowest < len(cuts) - 1:
            assert cut == cuts[lowest]
        else:
            assert cut < seen[0] if lowest == 0 else cut > seen[-1]


def test_numbers_are_rounded_to_classes():
    scores = np.array([-3.0, 0.5, 0.6, 1.5, 1.6, 2.5, 9.0])
    line = Hyperplane(weights=np.ones(1), bias=np.zeros(()))
    found = least_squares.round_predict(line, scores[:, None], num_classes=4)
    np.testing.assert_array_equal(found, [0, 0, 1, 1, 2, 2, 3])


def test_fishers_direction_is_the_best():
    x, y, weight = drawn(k=2)
    params, info = fisher.fit(x, y, sample_weight=weight)
    best = fisher.criterion(params.weights, x, y, sample_weight=weight)
    assert_close(-info.objective / weight.sum(), best, 1e-12)
    slope = jax.grad(fisher.criterion)(params.weights, x, y, sample_weight=weight)
    assert_close(slope, np.zeros(D), 1e-10)


def test_directions_whiten_the_classes():
    x, y, weight = drawn()
    axes = fisher.directions(x, y, sample_weight=weight)
    assert axes.shape == (D, 2)
    within = lda_covariance(x, y, weight)
    assert_close(axes.T @ within @ axes, np.eye(2), 1e-11)
    assert np.all(axes[np.argmax(np.abs(axes), axis=0), [0, 1]] > 0)
    quotient = fisher.rayleigh_quotient(axes, x, y, sample_weight=weight)
    assert quotient[0] > quotient[1] > 0


def lda_covariance(x, y, weight):
    means = np.stack([np.average(x[y == c], axis=0, weights=weight[y == c]) for c in range(K)])
    z = x - means[y]
    return (z * weight[:, None]).T @ z / weight.sum()


def test_quadratic_with_equal_covariances_is_linear():
    x, y, _ = drawn()
    pooled, _ = qda.fit(x, y, pooling=1.0)
    straight, _ = lda.fit(x, y)
    ours, theirs = quadratic.scores(pooled, x), linear.scores(straight, x)
    assert_close(centred(ours), centred(theirs), 1e-10)


def test_equal_priors_are_the_nearest_mean():
    x, y, _ = drawn()
    params, _ = lda.fit(x, y, priors=np.ones(K))
    model, _ = gaussian.fit_tied(x, y, priors=np.ones(K))
    inverse = np.linalg.inv(model.covariance)
    apart = x[:, None, :] - np.asarray(model.means)[None]
    nearest = np.argmin(np.einsum("nkd,de,nke->nk", apart, inverse, apart), axis=1)
    np.testing.assert_array_equal(jaxlin.predict(params, x), nearest)


def test_the_generative_model_is_the_classifiers():
    x, y, weight = drawn()
    for model, form, fit in (
        (gaussian.fit_tied, gaussian.to_linear, lda.fit),
        (gaussian.fit, gaussian.to_quadratic, qda.fit),
    ):
        params, info = model(x, y, sample_weight=weight)
        direct, direct_info = fit(x, y, sample_weight=weight)
        assert_close(form(params), direct, 1e-10)
        assert_close(info.objective, direct_info.objective, 1e-12)
        assert_close(jaxlin.probabilities(params, x), jaxlin.probabilities(direct, x), 1e-10)
        joint = np.asarray(gaussian.log_joint(params, x))[np.arange(N), y]
        assert_close(info.objective, -np.average(joint, weights=weight), 1e-12)
        density = gaussian.log_density(params, x)
        assert_close(density, np.log(np.exp(gaussian.log_joint(params, x)).sum(1)), 1e-10)


def test_samples_have_the_models_moments():
    x, y, _ = drawn()
    for model in (gaussian.fit, gaussian.fit_tied):
        params, _ = model(x, y, priors=np.array([0.2, 0.5, 0.3]))
        drawn_x, drawn_y = gaussian.sample(jax.random.key(0), params, 40_000)
        again, _ = model(drawn_x, drawn_y, num_classes=K)
        # Five standard errors of 8,000 rows, in units of the largest entry.
        for found, true in zip(again, params, strict=True):
            assert np.max(np.abs(found - true)) < 0.08 * np.max(np.abs(true))


# --- moments -------------------------------------------------------------------------------------

KINDS = [
    functools.partial(moments.tied, num_classes=K),
    functools.partial(moments.per_class, num_classes=K),
    lambda x, y, **options: moments.regression(x, 1.0 * y, **options),
]


@pytest.mark.parametrize("of", KINDS)
def test_any_split_in_any_order_is_the_whole(of):
    x, y, weight = drawn()
    whole = of(x, y, sample_weight=weight)
    for seed in range(3):
        part = np.random.default_rng(seed).integers(4, size=N)
        pieces = [of(x, y, sample_weight=np.where(part == i, weight, 0)) for i in (0, 1, 2, 3)]
        left = functools.reduce(moments.merge, pieces)
        right = functools.reduce(lambda a, b: moments.merge(b, a), pieces)
        assert_close(left, whole, 1e-12)
        assert_close(right, whole, 1e-12)
        rest = moments.subtract(whole, pieces[0])
        assert_close(rest, functools.reduce(moments.merge, pieces[1:]), 1e-11)


@pytest.mark.parametrize("value", [0.1, 1e6 + 0.1, 3.3e-5])
@pytest.mark.parametrize("dtype", [np.float32, thorough(np.float64)])
def test_parts_know_a_column_of_one_value_in_each_class(dtype, value):
    """Their means of it are rounded each by itself, of many rows or few; that is no scatter."""
    rng = np.random.default_rng(0)
    n, cuts = 20_000, (9_000, 9_300)
    y = rng.integers(0, 2, n)
    x = np.stack([rng.normal(size=n) + y, value * (1 + 2.3 * y)], axis=1).astype(dtype)
    tol = 256 * float(np.finfo(dtype).eps)
    for of_classes, method in ((moments.tied, lda), (moments.per_class, qda)):
        pieces = zip(np.split(x, cuts), np.split(y, cuts), strict=True)
        parts = [of_classes(*piece, num_classes=2) for piece in pieces]
        whole = functools.reduce(moments.merge, parts)
        held, info = method.fit(x, y)
        found, same = method.fit_from_moments(whole)
        assert info.status == same.status == Status.SEPARABLE
        assert_close(found, held, tol)
        found, same = method.fit_from_moments(moments.subtract(whole, parts[0]))
        assert same.status == Status.SEPARABLE
        assert_close(found, method.fit(x[cuts[0] :], y[cuts[0] :])[0], tol)


def test_a_fold_is_left_out_by_subtraction():
    x, y, _ = drawn()
    whole = moments.per_class(x, y)
    for i in range(4):
        fold = np.arange(N) % 4 == i
        rest = moments.subtract(whole, moments.per_class(x[fold], y[fold], num_classes=K))
        for from_moments, fit in (
            (lda.fit_from_moments, lda.fit),
            (qda.fit_from_moments, qda.fit),
            (gaussian.fit_from_moments, gaussian.fit),
            (gaussian.fit_tied_from_moments, gaussian.fit_tied),
            (least_squares.fit_from_moments, least_squares.fit),
        ):
            refit = fit(x, y, sample_weight=1.0 * ~fold, num_classes=K)
            assert_close(from_moments(rest), refit, 1e-9)
    line, _ = least_squares.regress(x, 1.0 * y, l2=0.1)
    merged, _ = least_squares.regress_from_moments(moments.regression(x, 1.0 * y), l2=0.1)
    assert_close(merged, line, 1e-11)


def many_rows(seed=0, n=6_000, d=40):
    """Several row blocks; the last class is two rows far away, which no sample of rows holds."""
    rng = np.random.default_rng(seed)
    y = rng.integers(K - 1, size=n)
    x = rng.normal(size=(n, d)) + y[:, None]
    y[[4_001, 5_003]] = K - 1
    x[4_001] += 1e3
    weight = rng.choice([0.0, 0.5, 1.0, 2.0], size=n)
    weight[[4_001, 5_003]] = 1.0
    return x, y, weight


def test_many_row_blocks_are_one():
    x, y, weight = many_rows()
    broken = x.copy()
    broken[weight == 0, 0] = np.nan
    tied = moments.tied(broken, y, num_classes=K, sample_weight=weight)
    found = moments.per_class(broken, y, num_classes=K, sample_weight=weight)
    whole = 0.0
    for c in range(K):
        w, rows = weight[y == c], x[y == c]
        mean = w @ rows / w.sum()
        scatter = ((rows - mean) * w[:, None]).T @ (rows - mean)
        whole = whole + scatter
        np.testing.assert_allclose(found.scatter[c], scatter, rtol=1e-11, atol=1e-7)
        np.testing.assert_allclose(found.mean[c], mean, atol=1e-12)
        assert int(found.rows[c]) == np.sum(w > 0)
    np.testing.assert_allclose(tied.scatter, whole, rtol=1e-11, atol=1e-7)
    np.testing.assert_allclose(tied.mean, found.mean, atol=1e-12)


def test_a_rare_class_far_from_zero_keeps_its_digits():
    x, y, weight = many_rows()
    far = x + 1e8
    near, found = (
        moments.per_class(a, y, num_classes=K, sample_weight=weight) for a in (far - 1e8, far)
    )
    np.testing.assert_allclose(found.scatter, near.scatter, rtol=1e-9, atol=1e-4)


@pytest.mark.parametrize("of", [moments.tied, moments.per_class])
def test_labels_in_turn_keep_their_digits(of):
    """A sample of every so many rows holds one class only; the others lie far from it."""
    rng = np.random.default_rng(0)
    n, d = 30_000, 40
    y = np.arange(n) % 14  # 30,000 rows are sampled one in 14
    x = (rng.normal(size=(n, d)) + 1e3 * (y[:, None] % 2)).astype(np.float32)
    exact = of(x.astype(float), y, num_classes=14)
    found = of(x, y, num_classes=14)
    exact, found = (np.asarray(m.scatter, float) for m in (exact, found))
    np.testing.assert_allclose(found, exact, atol=1e-5 * np.abs(exact).max())


@pytest.mark.thorough
@pytest.mark.parametrize("fit", [lda.fit, qda.fit])
def test_derivatives_over_many_row_blocks(fit):
    x, y, weight = (a[1_000:] for a in many_rows())
    rng = np.random.default_rng(1)
    weight = weight + (y == K - 1)  # three in all: enough for a covariance that is pooled
    move, direction = rng.normal(size=x.shape), rng.normal(size=len(y)) * (weight > 0)
    options = {"pooling": 0.5} if fit is qda.fit else {}

    def bias(step):
        moved = fit(
            x + step * move,
            y,
            num_classes=K,
            sample_weight=weight + step * 0.1 * direction,
            **options,
        )[0]
        return moved.bias[:2]

    _, slope = jax.jvp(bias, (jnp.array(0.0),), (jnp.array(1.0),))
    back = jax.jacrev(bias)(jnp.array(0.0))
    h = 1e-4
    measured = (bias(jnp.array(h)) - bias(jnp.array(-h))) / (2 * h)
    np.testing.assert_allclose(slope, measured, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(back, slope, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_mahalanobis_forms_of_many_rows(dtype):
    """The size at which a version of jaxlib silently gets such forms wrong, row by row."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(33_000, 3)).astype(dtype)
    y = np.arange(len(x)) % K
    params, _ = gaussian.fit(x, y, num_classes=K)
    means, covariances, priors = (np.asarray(a, float) for a in params)
    z = x[:, None, :].astype(float) - means
    forms = np.einsum("nkd,kde,nke->nk", z, np.linalg.inv(covariances), z)
    constant = np.log(priors) - (np.linalg.slogdet(covariances)[1] + 3 * np.log(2 * np.pi)) / 2
    tolerance = 200 * np.finfo(dtype).eps
    found = jax.jit(gaussian.log_joint)(params, x)
    np.testing.assert_allclose(found, constant - forms / 2, rtol=tolerance, atol=tolerance)
    curved, _ = qda.fit(x, y, num_classes=K)
    scores = jax.jit(quadratic.scores)(curved, x)
    away = np.asarray(scores - scores[:, :1]) - (found - found[:, :1])
    np.testing.assert_allclose(away, 0, atol=10 * tolerance)


@pytest.mark.cpu
@pytest.mark.parametrize("d", [20, _statistics.PLAIN_SHARE * 6])
@pytest.mark.parametrize("fit", [lda.fit, qda.fit, least_squares.fit])
def test_temporaries_are_a_part_of_x(fit, d):
    n = 100_000
    x, y = jax.ShapeDtypeStruct((n, d), np.float32), jax.ShapeDtypeStruct((n,), np.int32)
    program = jax.jit(functools.partial(fit, num_classes=5)).lower(x, y).compile()
    assert program.memory_analysis().temp_size_in_bytes < 0.3 * n * d * 4


@pytest.mark.parametrize("dtype, shift, tolerance", [(np.float32, 1e6, 1e-4), (float, 1e8, 1e-7)])
def test_data_far_from_zero_keep_their_digits(dtype, shift, tolerance):
    """Multiples of 1/8 of the spacing of numbers there: what is stored is exact."""
    rng = np.random.default_rng(0)
    grain = np.spacing(dtype(shift))
    z = np.round(rng.normal(size=(N, D)) * 100) * float(grain)
    y = np.arange(N) % K
    x = (z + shift).astype(dtype)
    near, far = moments.tied(z.astype(dtype), y), moments.tied(x, y)
    np.testing.assert_allclose(far.scatter, near.scatter, rtol=tolerance, atol=1e-5 * grain**2 * N)


# --- bad input -----------------------------------------------------------------------------------

FITS = {
    "lda": functools.partial(lda.fit, num_classes=K),
    "qda": functools.partial(qda.fit, num_classes=K),
    "gaussian": functools.partial(gaussian.fit, num_classes=K),
    "tied": functools.partial(gaussian.fit_tied, num_classes=K),
    "least_squares": functools.partial(least_squares.fit, num_classes=K),
}
COMMON = ("lda", "tied", "least_squares")


def troubles(name):
    """Arguments that are legal but awkward, the status, and whether params are finite."""
    x, y, weight = drawn()
    one = np.ones(N)
    constant, twin = x.copy(), x.copy()
    constant[:, 1], twin[:, 3] = 5.0, twin[:, 0]
    yield "constant column", (constant, y, one), Status.RANK_DEFICIENT
    yield "duplicated column", (twin, y, one), Status.RANK_DEFICIENT
    few = np.where(np.arange(N) < D, one, 0)
    small = Status.SEPARABLE if name in COMMON else Status.CLASS_TOO_SMALL
    small = Status.RANK_DEFICIENT if name == "least_squares" else small
    yield "n < d", (x, y, few), small
    lone = np.where((y != 2) | (np.arange(N) == 2), one, 0)
    yield "one row in a class", (x, y, lone), Status.CONVERGED if name in COMMON else small
    yield "an absent class", (x, y, np.where(y != 2, one, 0)), Status.CONVERGED
    yield "one class", (x, y, np.where(y == 1, one, 0)), Status.CLASS_TOO_SMALL
    holed = x.copy()
    holed[weight == 0] = np.nan
    yield "NaN without weight", (holed, y, weight), Status.CONVERGED


@pytest.mark.parametrize("name", FITS)
def test_troubles_have_their_status_alone_and_as_a_lane(name):
    cases = list(troubles(name))
    fit = FITS[name]
    lanes = jax.jit(jax.vmap(lambda x, y, w: fit(x, y, sample_weight=w)))
    together = lanes(*stack([arguments for _, arguments, _ in cases]))
    for i, (words, (x, y, weight), status) in enumerate(cases):
        params, info = fit(x, y, sample_weight=weight)
        assert info.status == status, words
        assert together[1].status[i] == status, words
        assert_close(jax.tree.map(lambda a, i=i: a[i], together[0]), params, 1e-6)
        if status <= Status.RANK_DEFICIENT:
            chosen = jaxlin.predict(params, np.where(np.isnan(x), 0, x))
            assert set(np.unique(chosen)) <= set(y[weight > 0]), words


@pytest.mark.parametrize("name", FITS)
def test_params_of_data_that_are_not_valid_are_nan(name):
    x, y, _ = drawn()
    x[3, 1] = np.nan
    params, info = jax.jit(lambda x, w: FITS[name](x, y, sample_weight=w))(x, np.ones(N))
    assert info.status == Status.INVALID_DATA
    assert all(np.all(np.isnan(leaf)) for leaf in params)


def test_moments_of_data_that_are_not_valid_are_nan():
    x, y, _ = drawn()
    x[3, 1] = np.nan
    found = jax.jit(lambda x: moments.tied(x, y, num_classes=K))(x)
    assert np.all(np.isnan(found.weight)) and np.all(np.isnan(found.scatter))


@pytest.mark.parametrize("fit", [lda.fit, qda.fit, least_squares.fit])
def test_an_absent_class_is_never_predicted(fit):
    x, y, _ = drawn()
    params, _ = fit(x, y, num_classes=K + 1)
    assert np.isneginf(params.bias[K]) and not np.any(params.weights[K])


def test_a_duplicated_column_changes_nothing_but_the_status():
    x, y, _ = drawn()
    wide = np.concatenate([x, x[:, :1]], axis=1)
    for fit in (lda.fit, qda.fit, least_squares.fit, gaussian.fit, gaussian.fit_tied):
        narrow, _ = fit(x, y)
        params, info = fit(wide, y)
        assert info.status == Status.RANK_DEFICIENT
        ours, theirs = jaxlin.scores(params, wide), jaxlin.scores(narrow, x)
        assert_close(centred(np.asarray(ours)), centred(np.asarray(theirs)), 1e-8)


def test_the_least_norm_of_least_squares():
    """Whatever the units of the columns, as numpy's lstsq in the user's own."""
    x, y, _ = drawn()
    wide = np.concatenate([x, x[:, :1], 3 * x[:, 1:2]], axis=1)
    params, info = least_squares.fit(wide, y)
    assert info.status == Status.RANK_DEFICIENT
    z = wide - wide.mean(0)
    expected = np.linalg.lstsq(z, np.eye(K)[y] - np.eye(K)[y].mean(0), rcond=1e-12)[0].T
    assert_close(params.weights, expected, 1e-9)


def test_a_small_class_is_mended_by_pooling_or_shrinkage():
    x, y, _ = drawn()
    keep = np.where((y != 2) | (np.arange(N) < 9), 1.0, 0.0)
    assert qda.fit(x, y, sample_weight=keep)[1].status == Status.CLASS_TOO_SMALL
    for options in ({"pooling": 0.1}, {"shrinkage": 0.1}, {"shrinkage": lda.ledoit_wolf}):
        params, info = qda.fit(x, y, sample_weight=keep, **options)
        assert info.status == Status.CONVERGED
        assert all(np.all(np.isfinite(leaf)) for leaf in params)


def test_as_many_rows_as_features_are_too_few():
    x, y, _ = drawn()
    for fit in (qda.fit, gaussian.fit):
        for count, status in ((D, Status.CLASS_TOO_SMALL), (D + 1, Status.CONVERGED)):
            keep = np.where((y != 2) | (np.arange(N) < K * count), 1.0, 0.0)
            assert fit(x, y, sample_weight=keep)[1].status == status


@pytest.mark.parametrize("fit", [lda.fit, qda.fit, gaussian.fit, gaussian.fit_tied])
def test_priors(fit):
    x, y, _ = drawn()
    once, _ = fit(x, y, priors=np.array([0.1, 0.2, 0.7]))
    assert_close(fit(x, y, priors=np.array([1.0, 2.0, 7.0]))[0], once, 1e-12)
    for bad, words in (
        ([0.5, -0.1, 0.6], "priors: 1 of 3 entries are negative"),
        ([0.0, 0.0, 0.0], "not valid"),
        ([np.nan] * 3, "priors: 3 of 3 entries"),
    ):
        with pytest.raises(ValueError, match=words):
            fit(x, y, priors=np.array(bad))
    with pytest.raises(ValueError, match=r"priors: expected shape \(3,\), got \(2,\)"):
        fit(x, y, priors=np.ones(2))
    priors = np.array([[1.0, 1, 1], [1, -1, 1], [2, 1, 1]])
    params, info = jax.vmap(lambda p: fit(x, y, num_classes=K, priors=p))(priors)
    assert list(info.status) == [0, Status.INVALID_DATA, 0]
    assert all(np.all(np.isnan(leaf[1])) for leaf in params)


def test_an_absent_class_has_no_prior():
    x, y, _ = drawn()
    given = np.array([0.2, 0.3, 0.1, 9.0])
    for fit in (gaussian.fit, gaussian.fit_tied):
        params, _ = fit(x, y, num_classes=K + 1, priors=given)
        assert_close(params.priors, np.append(given[:K] / given[:K].sum(), 0), 1e-15)


@pytest.mark.parametrize("fit", [lda.fit, qda.fit])
def test_a_masked_column_does_not_shrink_the_others(fit):
    x, y, _ = drawn()
    keep = np.arange(D) != 1
    whole, _ = fit(x, y, shrinkage=0.3, feature_mask=keep)
    few, _ = fit(x[:, keep], y, shrinkage=0.3)
    assert_close(whole.weights[:, keep], few.weights, 1e-10)
    assert_close(whole.bias, few.bias, 1e-10)


def test_numbers_outside_their_range_name_the_argument():
    x, y, _ = drawn()
    for fit, option in ((lda.fit, "shrinkage"), (qda.fit, "shrinkage"), (qda.fit, "pooling")):
        for value in (-0.1, 1.1, np.nan):
            with pytest.raises(ValueError, match=rf"{option}: 1 of 1 entries are not in \[0, 1\]"):
                fit(x, y, **{option: value})
    with pytest.raises(ValueError, match="l2"):
        least_squares.fit(x, y, l2=-1.0)
    with pytest.raises(ValueError, match=r"divisor: expected one of \('n', 'n-k'\), got 'n-1'"):
        lda.fit(x, y, divisor="n-1")
    with pytest.raises(ValueError, match="num_directions: expected from 1 to 2, got 3"):
        fisher.directions(x, y, num_directions=3)
    with pytest.raises(TypeError, match="expected ClassMoments, got TiedMoments"):
        qda.fit_from_moments(moments.tied(x, y))


# --- derivatives ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fit",
    [
        lda.fit,
        qda.fit,
        least_squares.fit,
        fisher.fit,
        thorough(gaussian.fit),
        thorough(gaussian.fit_tied),
    ],
    ids=lambda fit: fit.__module__,
)
def test_derivatives_in_the_data_and_weights(fit):
    k = 2 if fit is fisher.fit else K
    x, y, _ = drawn(k=k)
    options = {} if fit is fisher.fit else {"num_classes": k}
    rng = np.random.default_rng(1)
    moved, more = rng.normal(size=x.shape), rng.normal(size=N)

    @jax.jit
    def along(t):
        params, _ = fit(x + t * moved, y, sample_weight=1 + t * more, **options)
        return params

    step = 1e-5
    numeric = jax.tree.map(lambda a, b: (a - b) / (2 * step), along(step), along(-step))
    forward = jax.jvp(along, (0.0,), (1.0,))[1]
    backward = jax.jacrev(along)(0.0)
    assert_close(forward, numeric, 1e-6)
    assert_close(backward, forward, 1e-10)


@pytest.mark.parametrize("fit", [lda.fit, qda.fit, least_squares.fit, fisher.fit])
def test_the_derivative_at_a_row_of_weight_zero_is_the_true_one(fit):
    k = 2 if fit is fisher.fit else K
    x, y, _ = drawn(k=k)
    options = {} if fit is fisher.fit else {"num_classes": k}

    @jax.jit
    def at(weight):
        return fit(x, y, sample_weight=jnp.ones(N).at[7].set(weight), **options)[0]

    step = 1e-6  # to one side, the only one there is: the error is of its order
    numeric = jax.tree.map(lambda a, b: (a - b) / step, at(step), at(0.0))
    slope = jax.jacfwd(at)(0.0)
    assert max(float(jnp.max(jnp.abs(leaf))) for leaf in slope) > 1e-3
    assert_close(slope, numeric, 1e-4)


def test_derivatives_of_what_failed():
    """NaN where they are used, and 0 where they were masked before."""
    x, y, _ = drawn()

    def total(x, masked):
        params, info = lda.fit(x, y, num_classes=K, sample_weight=jnp.full(N, -1.0))
        if masked:
            params = jax.tree.map(lambda a: jnp.where(info.status <= 1, a, 0), params)
        return sum(jnp.sum(leaf) for leaf in params)

    assert np.all(np.isnan(jax.jit(jax.grad(functools.partial(total, masked=False)))(x)))
    assert not np.any(jax.jit(jax.grad(functools.partial(total, masked=True)))(x))


@pytest.mark.parametrize("n", [30, 20_001])
@pytest.mark.parametrize("fit", [lda.fit, qda.fit, gaussian.fit, gaussian.fit_tied, fisher.fit])
def test_one_value_a_class_has_no_spread_whatever_its_sums_round_to(fit, n):
    """Values whose sums round: a scatter of 1e-33 is no reason to call it regular."""
    y = np.arange(n) % 2
    x = np.where(y == 1, 1 / 3, 0.7)[:, None]
    options = {} if fit is fisher.fit else {"num_classes": 2}
    for weight in (None, np.random.default_rng(0).uniform(0.1, 3, size=n)):
        assert fit(x, y, sample_weight=weight, **options)[1].status == Status.SEPARABLE
        least = x + 1e-9 * np.random.default_rng(1).normal(size=(n, 1))
        assert fit(least, y, sample_weight=weight, **options)[1].status == Status.CONVERGED


@pytest.mark.parametrize("n", [30, 20_001])
@pytest.mark.parametrize("fit", [least_squares.fit, least_squares.regress])
def test_a_constant_column_is_the_bias_whatever_its_sums_round_to(fit, n):
    rng = np.random.default_rng(0)
    x = np.column_stack([np.full(n, 1 / 3), rng.normal(size=n)])
    y = (x[:, 1] + rng.normal(size=n) > 0).astype(int)
    y, options = (y, {"num_classes": 2}) if fit is least_squares.fit else (y.astype(float), {})
    for weight in (None, rng.uniform(0.1, 3, size=n)):
        params, info = fit(x, y, sample_weight=weight, **options)
        assert info.status == Status.RANK_DEFICIENT
        assert not np.any(np.asarray(params.weights)[..., 0])


OFFSETS = [(0.0, 1.0), (1e3, 1.0), (101_325.0, 20.0), (5.4e6, 500.0), (1e6, 1.0), (1.7e9, 1000.0)]


@pytest.mark.parametrize("fit", [least_squares.fit, fisher.fit, lda.fit, qda.fit])
def test_success_is_right_far_from_zero(fit):
    """In single precision scores cancel: the same rows fitted near 0 in double tell what is right.

    Wherever the fit says that it succeeded; and no linear one gives up at a pressure in pascals.
    """
    rng, y = np.random.default_rng(0), np.arange(400) % 2
    z = rng.normal(size=(400, 2)) + 1.5 * y[:, None]
    for offset, spread in OFFSETS:
        x = (z * np.array([spread, 1.0]) + np.array([offset, 0.0])).astype(np.float32)
        centred = x.astype(float) - x.astype(float).mean(axis=0)[None, :]
        params, info = fit(x, y)
        near, _ = fit(centred, y)
        if info.status <= Status.RANK_DEFICIENT:
            found, right = jaxlin.predict(params, x), jaxlin.predict(near, centred)
            assert np.mean(np.asarray(found) != np.asarray(right)) <= 0.005, offset
        else:
            assert info.status == Status.STALLED
            assert offset > (0 if fit is qda.fit else 1e5 * spread), offset


def test_a_tied_model_far_from_zero_has_a_plane():
    rng, y = np.random.default_rng(1), np.arange(100) % 3
    x = rng.normal(size=(100, 2)) + y[:, None]
    model, _ = gaussian.fit_tied((x + 1e5).astype(np.float32), y)
    plane = gaussian.to_linear(model)
    right = np.asarray(jaxlin.predict(lda.fit(x, y)[0], x))
    found = np.asarray(jaxlin.predict(plane, (x + 1e5).astype(np.float32)))
    assert np.mean(found != right) <= 0.03  # of data rounded to 0.008


@pytest.mark.parametrize("fit", [lda.fit, least_squares.fit])
def test_a_combination_of_columns_is_told_in_any_units(fit):
    """Of integers, so exactly dependent; now and then the least pivot is far above rounding."""
    rng, p = np.random.default_rng(1), 8
    x = rng.integers(-9, 10, size=(2000, 30, p)).astype(float)
    x[..., -1] = np.einsum("bnp,bp->bn", x[..., :-1], rng.integers(-3, 4, size=(2000, p - 1)))
    x = x[..., rng.permutation(p)] * 10.0 ** rng.integers(-3, 4, size=(2000, 1, p))
    y = rng.integers(0, 2, size=(2000, 30))
    _, info = jax.jit(jax.vmap(functools.partial(fit, num_classes=2)))(x, y)
    assert (info.status == Status.RANK_DEFICIENT).all()


def test_many_lanes_that_have_no_factor():
    """Later compilers than those of jax 0.10 drop NaN from the maxima of large arrays."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(64, 8, 24)), np.tile(np.arange(8) % 2, (64, 1))
    for fit in (lda.fit, least_squares.fit):
        params, info = jax.jit(jax.vmap(functools.partial(fit, num_classes=2)))(x, y)
        # A plane tells classes of few rows apart, which tells nothing of their least squares.
        status = Status.SEPARABLE if fit is lda.fit else Status.RANK_DEFICIENT
        assert (info.status == status).all()
        assert not np.isnan(params.weights).any()
    gaps = np.ones((1000, 10))
    gaps[1:, 5] = np.nan
    assert np.isnan(jax.jit(jax.vmap(_linalg.largest))(gaps)[1:]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_matrix_that_holds_nan_has_no_pivot(dtype):
    """Wherever it stands, in lanes so many that a minimum would lose it."""
    p, lanes = 12, 500
    whole = np.tile(np.eye(p, dtype=dtype), (lanes, 1, 1))
    at = np.tril_indices(p)
    for lane, (i, j) in enumerate(zip(*at, strict=True)):
        whole[lane, i, j] = whole[lane, j, i] = np.nan
    pivot = jax.jit(jax.vmap(lambda a: _linalg.factor(a).pivot))(whole)
    np.testing.assert_array_equal(np.isnan(pivot), np.arange(lanes) < len(at[0]))


@pytest.mark.parametrize("fit", [lda.fit, qda.fit, gaussian.fit, least_squares.fit])
def test_without_features_the_classes_are_their_shares(fit):
    _, y, weight = drawn()
    share = np.bincount(y, weight) / np.sum(weight)
    params, info = fit(np.zeros((N, 0)), y, sample_weight=weight)
    assert info.status == Status.CONVERGED
    found = jaxlin.scores(params, np.zeros((1, 0)))[0]
    if fit is not least_squares.fit:
        found = jax.nn.softmax(found)
    assert_close(found, share, 1e-12)

"""The reference sets: every digit that was published, and nine of the fifty of the oracle.

`python -m tests.reference` prints what these tests hold to their thresholds.
"""

import functools

import numpy as np
import pytest
from mpmath import mp

from jaxlin import Status, solvers, svm
from tests.public import thorough
from tests.reference import answers, fits, multiclass, oracle, published
from tests.reference.catalogue import BINARY, FIRTH, MULTICLASS, PROBLEMS, REGRESSION
from tests.reference.margins import MARGINS

ITERATED = [*BINARY, *MULTICLASS]
CLASSIFIERS = [*ITERATED, *FIRTH]
PRINTED = [name for name, problem in PROBLEMS.items() if problem.published]

NINE, FOUR = 9, 4  # digits of float64 and of float32
MOST_CONDITION = 1e4  # to which four digits are asked of float32
ERROR_RTOL = 1e-8  # of standard errors: second derivatives, at estimates of nine digits
LOSS_RTOL = 1e-13  # of likelihoods: their error is of second order, and what a sum loses
SMALL = ["spector_offset", "beetles", "newton_breaker", "afterlife", "glmnet_three", "noint2"]


@functools.cache
def fitted(name, dtype=np.float64):
    return fits.fit(name, dtype)


def status(fit):
    return Status(int(fit.info.status))


# --- against the oracle --------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_nine_digits_in_float64(name):
    fit = fitted(name)
    assert status(fit) == Status.CONVERGED
    assert oracle.digits(fit.coefficients, answers.stored(name).coefficients) >= NINE


@pytest.mark.thorough
@pytest.mark.parametrize("solver", [solvers.newton, solvers.lbfgs])
@pytest.mark.parametrize("name", ITERATED)
def test_nine_digits_by_every_solver(name, solver):
    fit = fits.fit(name, np.float64, solver)
    assert status(fit) == Status.CONVERGED
    assert oracle.digits(fit.coefficients, answers.stored(name).coefficients) >= NINE


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_four_digits_in_float32(name):
    """Of the answer for the data as float32 has them: rounded data are other data."""
    fit, answer = fitted(name, np.float32), answers.stored(name)
    if answer.condition <= MOST_CONDITION:
        assert status(fit) == Status.CONVERGED
        assert oracle.digits(fit.coefficients, answer.float32) >= FOUR
    else:
        assert status(fit) in (Status.CONVERGED, Status.STALLED)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_standard_errors(name):
    errors = fits.standard_errors(name, fitted(name))
    exact = np.array(answers.stored(name).errors, float)
    np.testing.assert_allclose(errors, exact, rtol=ERROR_RTOL)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_likelihoods(name):
    found = fits.neg_log_likelihood(name, fitted(name))
    np.testing.assert_allclose(found, float(answers.stored(name).loss), rtol=LOSS_RTOL)


# --- against what was published ------------------------------------------------------------------


@pytest.mark.parametrize("name", PRINTED)
def test_the_oracle_has_every_published_digit(name):
    problem, answer, table = PROBLEMS[name], answers.stored(name), published.parsed(name)
    right, printed = published.tally(name, answer.coefficients, problem.trust)
    assert right == printed
    has_every_digit_of_errors(table, answer.errors)
    has_every_digit_of_likelihoods(name, table, answer.loss)


@pytest.mark.parametrize("name", [name for name in PRINTED if name not in REGRESSION])
def test_the_fits_have_every_published_digit(name):
    problem, fit, table = PROBLEMS[name], fitted(name), published.parsed(name)
    right, printed = published.tally(name, fit.coefficients, problem.trust)
    assert right == printed
    has_every_digit_of_errors(table, fits.standard_errors(name, fit))
    has_every_digit_of_likelihoods(name, table, fits.neg_log_likelihood(name, fit))


def has_every_digit_of_errors(table, errors):
    for texts, values in zip(table.errors, errors, strict=len(table.errors) > 0):
        for text, value in zip(texts, values, strict=True):
            if text != published.ABSENT:
                trusted = min(published.printed(text), published.ERROR_DIGITS)
                assert published.right(text, value, trusted) == trusted


def has_every_digit_of_likelihoods(name, table, loss):
    said = []
    if table.loss:
        said.append((table.loss, loss))
    if table.deviance:
        said.append((table.deviance, published.deviance(name, loss)))
    for text, value in said:
        trusted = min(published.printed(text), published.LOSS_DIGITS)
        assert published.right(text, value, trusted) == trusted


def test_glmnet_of_three_classes_as_it_prints_them():
    """Scores that sum to zero over the classes; glmnet stops by the change of the deviance."""
    params = fitted("glmnet_three").params
    rows = np.column_stack([params.weights, params.bias])[:, [0, 1, -1]]
    printed = [line.split() for line in multiclass.GLMNET_THREE.strip().splitlines()]
    np.testing.assert_allclose(rows, np.array(printed, float), atol=5e-8, rtol=0)


def test_published_digits_are_counted():
    assert published.right("-0.03443", "-0.034433") == 4
    assert published.right("-0.03443", "-0.03444") == 3
    assert published.right(".5", "0.46") == 1 and published.right("12", "30") == 0
    assert published.right("0.429796848199937E-03", "0.00042979684819993712") == 15


# --- least squares -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REGRESSION)
def test_least_squares(name):
    """Nine digits, or as many as LAPACK's from columns of unit length, but for one."""
    fit, answer = fitted(name), answers.stored(name)
    assert np.all(np.isfinite(fit.coefficients))
    if answer.condition <= 1 / np.finfo(float).eps:
        enough = min(NINE, digits_of_lapack(name, answer.coefficients) - 1)
        assert status(fit) == Status.CONVERGED
        assert oracle.digits(fit.coefficients, answer.coefficients) >= enough
    else:
        assert status(fit) != Status.CONVERGED


@pytest.mark.parametrize("name", REGRESSION)
def test_least_squares_in_float32(name):
    """Four digits, or a hundredth of the standard error: an intercept may be next to nothing."""
    fit, answer = fitted(name, np.float32), answers.stored(name)
    assert np.all(np.isfinite(fit.coefficients))
    if answer.condition <= MOST_CONDITION:
        exact, errors = (np.array(a, float) for a in (answer.float32, answer.errors))
        allowed = np.maximum(10.0**-FOUR * np.abs(exact), 0.01 * errors)
        assert np.all(np.abs(fit.coefficients - exact) <= allowed)


def digits_of_lapack(name, coefficients):
    """The median over some orders of the rows: the rounding of one is luck, by a digit and more."""
    problem, data = PROBLEMS[name], answers.data_of(name)
    x, target, weight = (
        np.array(a, dtype=object).astype(float) for a in (data.x, data.target, data.counts)
    )
    root = np.sqrt(weight)
    design = root * (np.column_stack([x, np.ones(len(x))]) if problem.bias else x)
    unit = np.linalg.norm(design, axis=0)

    def digits(order):
        wanted = root[order, 0] * target[order]
        found = np.linalg.lstsq(design[order] / unit[None, :], wanted, rcond=None)[0] / unit
        return oracle.digits(found, coefficients)

    return np.median([digits(np.random.default_rng(i).permutation(len(x))) for i in range(9)])


# --- hard margins --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MARGINS)
def test_hard_margins_are_the_rational_ones(name):
    margin = MARGINS[name]()
    assert oracle.is_widest(margin.x, margin.y, margin.weights, margin.bias)
    is_fitted(margin, np.float64, rtol=1e-9)


def test_a_hard_margin_in_float32():
    is_fitted(MARGINS["setosa_versicolor"](), np.float32, rtol=3e-4)


def is_fitted(margin, dtype, rtol):
    """Padded to one shape, for one program."""
    x, y = np.array(margin.x, dtype=object).astype(dtype), np.array(margin.y)
    (n, d), (rows, columns) = x.shape, (100, 4)
    wide = np.pad(x, ((0, rows - n), (0, columns - d)), constant_values=np.nan)
    params, info = svm.fit_hard_margin(
        wide,
        np.pad(y, (0, rows - n)),
        sample_weight=(np.arange(rows) < n).astype(dtype),
        feature_mask=np.arange(columns) < d,
    )
    assert info.status == Status.CONVERGED
    params = params._replace(weights=params.weights[:d])
    np.testing.assert_allclose(params.weights, np.array(margin.weights, float), rtol=rtol)
    np.testing.assert_allclose(params.bias, float(margin.bias), rtol=rtol, atol=rtol)
    squared = 1 / float(sum(w * w for w in margin.weights))
    np.testing.assert_allclose(1 / np.sum(np.square(params.weights)), squared, rtol=rtol)


def test_the_oracle_of_margins_refuses_other_planes():
    margin = MARGINS["six"]()
    wider = [2 * w for w in margin.weights]
    assert not oracle.is_widest(margin.x, margin.y, wider, margin.bias)
    assert not oracle.is_widest(margin.x, margin.y, margin.weights, margin.bias + 1)


# --- the oracle ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name if name in SMALL else thorough(name) for name in PROBLEMS])
def test_the_stored_answers_are_the_oracles(name):
    assert answers.entry_of(name) == answers.file()[name]


def test_every_set_has_an_answer():
    assert list(answers.file()) == list(PROBLEMS)


def test_the_oracle_from_any_start_and_of_any_form():
    """From 0 and from the answer; rows merged or apart; another reference class."""
    problem, data = PROBLEMS["afterlife"], answers.data_of("afterlife")
    merged = answers.compute(problem, data)
    halves = [[v / 2 for v in row] for row in data.counts]
    apart = data._replace(x=data.x * 2, counts=halves * 2)
    again = answers.compute(problem, apart, answers.stored("afterlife").coefficients)
    assert answers.texts(again.coefficients) == answers.texts(merged.coefficients)
    other = answers.compute(problem._replace(reference=0), data)
    with mp.workdps(oracle.DIGITS):
        back = [-a for a in other.coefficients[1]]
    assert answers.texts(back) == answers.texts(merged.coefficients[0])
    assert answers.texts(other.loss) == answers.texts(merged.loss)

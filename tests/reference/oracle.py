"""The answers to fifty digits: exact rational numbers in, damped Newton in mpmath, no float.

What is minimised is the package's objective, sum_i c_i loss_i + l2/2 |w|^2, c being the weights
over their sum W and the bias free. Coefficients are those of the classes other than the reference,
whose scores are 0; the penalty is that of the weights that sum to zero over the classes, as in
`softmax`.
"""

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import mpmath
import numpy as np
from mpmath import mp

DIGITS = 50
GUARD = 20  # digits that the sums and the solution may lose
MOST_STEPS = 60
MOST_FIRTH_STEPS = 3000  # of linear convergence


class Answer(NamedTuple):
    """Numbers of mpmath.

    coefficients: a list for each class but the reference, the bias last
    errors: likewise, the standard errors: roots of the diagonal of (W Hessian)^-1
    loss: sum over the rows of the loss; with Firth's penalty, without a ridge
    hessian: of W times the objective, class by class
    """

    coefficients: list
    errors: list
    loss: Any
    hessian: list


class Design(NamedTuple):
    """Rows z_i with the bias column; counts (n, k); offsets (n, k); the ridge of every column."""

    rows: list
    counts: list
    offset: list
    ridge: list
    reference: int


# --- multinomial and logistic regression ---------------------------------------------------------


def multinomial(
    x: Sequence,
    counts: Sequence,
    *,
    l2: Any = 0,
    offset: Sequence | None = None,
    bias: bool = True,
    reference: int = 0,
    half: bool = False,
    start: Sequence | None = None,
) -> Answer:
    """Minimise the objective.

    Args:
      x: `(n, d)` exact numbers: Fractions, or floats for what they are.
      counts: `(n, k)`, how much of each class a row holds.
      l2: `()` or `(d,)`.
      offset: `(n, k)`, or `(n,)` of class 1 against class 0.
      bias: False for none.
      reference: the class of score 0.
      half: of two classes, penalise w' w and not the half of it: `logistic` and not `softmax`.
      start: coefficients to start from; 0 by default.
    """
    with mp.workdps(DIGITS + GUARD):
        design = _design(x, counts, l2, offset, bias, reference)
        free, p = len(design.counts[0]) - 1, len(design.rows[0])
        shared = mp.zero if half else mp.one / (free + 1)
        gauge = [[(a == b) - shared for b in range(free)] for a in range(free)]
        theta = _numbers(start) if start is not None else [[mp.zero] * p for _ in range(free)]
        pairs = _pairs(design.rows)
        for _ in range(MOST_STEPS):
            grad, hess = _derivatives(design, gauge, pairs, theta)
            step = solve(hess, grad)
            theta = _descend(design, gauge, theta, step)
            if max(map(abs, step)) < mp.mpf(10) ** (-DIGITS):
                loss, _ = _loss(design, gauge, theta)
                return Answer(theta, _errors(hess, free), loss, hess)
    raise AssertionError("the oracle did not converge: there may be no finite optimum")


def logistic(x: Any, y: Any, weight: Any = None, l2: Any = 0.0, start: Any = None) -> tuple:
    """Of floats, taken for what they are: `(coefficients, Hessian of the mean)`, bias last."""
    weight = np.ones(len(x)) if weight is None else np.asarray(weight)
    soft = [Fraction(float(v)) for v in np.asarray(y)]
    counts = [
        [Fraction(float(w)) * (1 - v), Fraction(float(w)) * v]
        for w, v in zip(weight, soft, strict=True)
    ]
    ridge = [Fraction(float(v)) for v in np.broadcast_to(l2, np.shape(x)[1])]
    rows = [[Fraction(float(v)) for v in row] for row in np.asarray(x)]
    start = None if start is None else [start]
    answer = multinomial(rows, counts, l2=ridge, half=True, start=start)
    total = float(weight.sum())
    return answer.coefficients[0], [[v / total for v in row] for row in answer.hessian]


def _design(x, counts, l2, offset, bias, reference) -> Design:
    d, k = len(x[0]), len(counts[0])
    one = [mp.one] if bias else []
    ridge = list(l2) if np.ndim(l2) else [l2] * d
    if offset is not None and not np.ndim(offset[0]):
        offset = [[0, v] for v in offset]
    return Design(
        rows=[[*_vector(row), *one] for row in x],
        counts=_numbers(counts),
        offset=_numbers(offset) if offset is not None else [[mp.zero] * k] * len(x),
        ridge=_vector(ridge) + [mp.zero] * len(one),
        reference=reference,
    )


def _pairs(rows) -> dict:
    """The products of columns i <= j, made once."""
    columns = list(zip(*rows, strict=True))
    p = len(columns)
    return {
        (i, j): [a * b for a, b in zip(columns[i], columns[j], strict=True)]
        for i in range(p)
        for j in range(i, p)
    }


def _free(design: Design) -> list[int]:
    return [c for c in range(len(design.counts[0])) if c != design.reference]


def _chances(design: Design, theta) -> Iterator:
    """Of each row: the chances of all classes and minus their logarithms."""
    free = _free(design)
    for row, known in zip(design.rows, design.offset, strict=True):
        scores = list(known)
        for c, coefficients in zip(free, theta, strict=True):
            scores[c] += mp.fdot(row, coefficients)
        top = max(scores)
        terms = [mp.exp(s - top) for s in scores]
        total = mp.fsum(terms)
        yield [t / total for t in terms], [top + mp.log(total) - s for s in scores]


def _loss(design: Design, gauge, theta) -> tuple:
    """The sum of the rows' losses, and W times the objective."""
    loss = mp.fsum(
        mp.fdot(count, minus_log)
        for count, (_, minus_log) in zip(design.counts, _chances(design, theta), strict=True)
    )
    total = mp.fsum(map(mp.fsum, design.counts))
    quadratic = mp.fsum(
        gauge[a][b] * r * theta[a][i] * theta[b][i]
        for i, r in enumerate(design.ridge)
        for a in range(len(theta))
        for b in range(len(theta))
        if r
    )
    return loss, loss + total * quadratic / 2


def _derivatives(design: Design, gauge, pairs, theta) -> tuple:
    """Of W times the objective: the gradient and the Hessian, class by class."""
    chances = [chance for chance, _ in _chances(design, theta)]
    weight = [mp.fsum(count) for count in design.counts]
    total = mp.fsum(weight)
    free, p = _free(design), len(design.rows[0])
    columns = list(zip(*design.rows, strict=True))
    size = len(free) * p
    grad, hess = [mp.zero] * size, [[mp.zero] * size for _ in range(size)]
    for a, c in enumerate(free):
        pull = [w * q[c] - n[c] for w, q, n in zip(weight, chances, design.counts, strict=True)]
        for i in range(p):
            slope = mp.fsum(gauge[a][b] * theta[b][i] for b in range(len(free)))
            grad[a * p + i] = mp.fdot(pull, columns[i]) + total * design.ridge[i] * slope
        for b, other in enumerate(free):
            curve = [
                w * q[c] * ((c == other) - q[other]) for w, q in zip(weight, chances, strict=True)
            ]
            for (i, j), product in pairs.items():
                value = mp.fdot(curve, product)
                if i == j:
                    value += total * design.ridge[i] * gauge[a][b]
                hess[a * p + i][b * p + j] = hess[a * p + j][b * p + i] = value
    return grad, hess


def _descend(design: Design, gauge, theta, step) -> list:
    """Newton's step, halved until the objective does not rise."""
    p = len(theta[0])
    _, before = _loss(design, gauge, theta)
    for halvings in range(MOST_STEPS):
        moved = [
            [v - step[a * p + i] / 2**halvings for i, v in enumerate(row)]
            for a, row in enumerate(theta)
        ]
        _, after = _loss(design, gauge, moved)
        if after <= before + abs(before) * mp.mpf(10) ** (-DIGITS - GUARD // 2):
            return moved
    raise AssertionError("no step makes the objective smaller")


def _errors(hess, classes: int) -> list:
    """The roots of the inverse's diagonal."""
    roots = [mp.sqrt(row[i]) for i, row in enumerate(inverse(hess))]
    p = len(hess) // classes
    return [roots[a * p : (a + 1) * p] for a in range(classes)]


# --- Firth's penalty -----------------------------------------------------------------------------


def firth(x: Sequence, counts: Sequence, *, start: Sequence | None = None) -> Answer:
    """Solve Firth's (1993) modified score equations by scoring: theta += I^-1 U*(theta).

    U* = sum_i (n_i1 - w_i p_i + h_i (1/2 - p_i)) z_i, with h_i = w_i p_i (1 - p_i) z_i' I^-1 z_i.
    """
    with mp.workdps(DIGITS + GUARD):
        design = _design(x, counts, 0, None, True, 0)
        p, pairs = len(design.rows[0]), _pairs(design.rows)
        theta = _vector(start[0]) if start is not None else [mp.zero] * p
        for _ in range(MOST_FIRTH_STEPS):
            grad, hess = _derivatives(design, [[1]], pairs, [theta])
            chances = [q[1] for q, _ in _chances(design, [theta])]
            weight = [mp.fsum(count) for count in design.counts]
            unscaled = inverse(hess)
            score = [-g for g in grad]
            for row, q, w in zip(design.rows, chances, weight, strict=True):
                spread = mp.fdot(row, [mp.fdot(line, row) for line in unscaled])
                pull = w * q * (1 - q) * spread * (mp.mpf(1) / 2 - q)
                score = [s + pull * z for s, z in zip(score, row, strict=True)]
            step = [mp.fdot(line, score) for line in unscaled]
            theta = [a + b for a, b in zip(theta, step, strict=True)]
            if max(map(abs, step)) < mp.mpf(10) ** (-DIGITS):
                loss, _ = _loss(design, [[1]], [theta])
                loss -= mp.log(_determinant(hess)) / 2
                return Answer([theta], _errors(hess, 1), loss, hess)
    raise AssertionError("the oracle did not converge")


def _determinant(matrix) -> Any:
    return mp.det(mpmath.matrix(matrix))


# --- least squares, in rational numbers ----------------------------------------------------------


def least_squares(x: Sequence, target: Sequence, weight: Sequence, *, bias: bool = True) -> Answer:
    """Solve the normal equations in rational numbers; errors by the residuals' variance.

    `loss` is the weighted sum of squares of the residuals.
    """
    rows = [[*row, Fraction(1)] if bias else list(row) for row in x]
    p = len(rows[0])
    share = list(zip(rows, target, weight, strict=True))
    gram = [[sum(w * r[i] * r[j] for r, _, w in share) for j in range(p)] for i in range(p)]
    moment = [sum(w * r[i] * t for r, t, w in share) for i in range(p)]
    theta = solve(gram, moment)
    rest = sum(
        w * (t - sum(a * b for a, b in zip(r, theta, strict=True))) ** 2 for r, t, w in share
    )
    variance = rest / (len(rows) - p)
    with mp.workdps(DIGITS + GUARD):
        errors = [mp.sqrt(_number(variance * row[i])) for i, row in enumerate(inverse(gram))]
        return Answer([_vector(theta)], [errors], _number(rest), _numbers(gram))


# --- hard margins, in rational numbers -----------------------------------------------------------


def is_widest(x: Sequence, y: Sequence, weights: Sequence, bias: Fraction) -> bool:
    """Whether the plane is that of the hard margin, by the conditions of Karush, Kuhn and Tucker.

    Every row has t (w . x + b) >= 1, and w is a combination of t x of rows for which it is 1, with
    multipliers that are not negative and for which sum alpha t = 0.
    """
    signs = [2 * int(v) - 1 for v in y]
    slack = [
        t * (sum(a * b for a, b in zip(weights, row, strict=True)) + bias)
        for t, row in zip(signs, x, strict=True)
    ]
    on = sorted({(t, *row) for t, row, s in zip(signs, x, slack, strict=True) if s == 1})
    goal = [*weights, Fraction(0)]
    return min(slack) == 1 and any(
        _combines([[t * v for v in (*row, 1)] for t, *row in some], goal)
        for size in range(2, len(weights) + 2)
        for some in itertools.combinations(on, size)
    )


def _combines(vectors, goal) -> bool:
    """Whether multipliers >= 0 of independent vectors give the goal, exactly."""
    gram = [[sum(a * b for a, b in zip(u, v, strict=True)) for v in vectors] for u in vectors]
    try:
        share = solve(gram, [sum(a * b for a, b in zip(u, goal, strict=True)) for u in vectors])
    except ZeroDivisionError:
        return False
    found = [sum(s * v[i] for s, v in zip(share, vectors, strict=True)) for i in range(len(goal))]
    return min(share) >= 0 and found == goal


# --- numbers -------------------------------------------------------------------------------------


def digits(estimate: Any, exact: Any) -> float:
    """The least number of correct digits: -log10 of the relative error, at most 16.

    The error is absolute where the exact number is 0.
    """
    flat = [v for row in exact for v in row] if isinstance(exact[0], list) else list(exact)
    pairs = list(zip(np.ravel(np.asarray(estimate, float)), flat, strict=True))
    if not all(np.isfinite(a) for a, _ in pairs):
        return 0.0
    with mp.workdps(DIGITS):
        errors = [abs((mp.mpf(float(a)) - b) / (b or 1)) for a, b in pairs]
        return float(min(-mp.log10(max(e, mp.mpf("1e-16"))) for e in errors))


def solve(matrix: Sequence, vector: Sequence) -> list:
    """Of mpmath's numbers or Fractions."""
    rows = [[*row, b] for row, b in zip(matrix, vector, strict=True)]
    return [row[0] for row in _eliminate(rows)]


def inverse(matrix: Sequence) -> list:
    one = matrix[0][0] * 0 + 1
    units = [[one * (i == j) for j in range(len(matrix))] for i in range(len(matrix))]
    return _eliminate([[*row, *unit] for row, unit in zip(matrix, units, strict=True)])


def _eliminate(rows: list) -> list:
    """Gauss and Jordan, with partial pivoting: what is right of the square, times its inverse."""
    p = len(rows)
    for i in range(p):
        pivot = max(range(i, p), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [v / rows[i][i] for v in rows[i]]
        for r in range(p):
            factor = rows[r][i]
            if r != i and factor:
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[i], strict=True)]
    return [row[p:] for row in rows]


def _number(value) -> Any:
    if isinstance(value, Fraction):
        return mp.mpf(value.numerator) / value.denominator
    return mp.mpf(float(value) if isinstance(value, np.floating) else value)


def _vector(values) -> list:
    return [_number(v) for v in values]


def _numbers(values) -> list:
    return [_vector(row) for row in values]

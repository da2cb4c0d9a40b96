"""Logistic regression to 50 digits, in the decimal arithmetic of the standard library."""

from decimal import Decimal, localcontext

import numpy as np


def logistic(x, y, weight=None, l2=0.0, start=None, digits=50):
    """Minimise the objective, bias last; returns `(coefficients, Hessian)` as Decimals."""
    with localcontext() as context:
        context.prec = digits + 20
        n, d = np.shape(x)
        rows = [[Decimal(float(v)) for v in row] + [Decimal(1)] for row in np.asarray(x)]
        target = [Decimal(float(v)) for v in np.asarray(y)]
        weight = [Decimal(float(v)) for v in (np.ones(n) if weight is None else weight)]
        weight = [w / sum(weight) for w in weight]
        ridge = [Decimal(float(v)) for v in np.broadcast_to(l2, d)] + [Decimal(0)]
        theta = [Decimal(float(v)) for v in (np.zeros(d + 1) if start is None else start)]
        for _ in range(60):
            grad, hess = _derivatives(rows, target, weight, ridge, theta)
            step = _solve(hess, grad)
            theta = [a - b for a, b in zip(theta, step, strict=True)]
            if max(abs(b) for b in step) < Decimal(10) ** -digits:
                return theta, hess
    raise AssertionError("the oracle did not converge: start it near the optimum")


def digits(estimate, exact):
    """The least number of correct digits, -log10 of the relative error (capped at 17)."""
    errors = [
        abs((Decimal(float(a)) - b) / b) for a, b in zip(np.ravel(estimate), exact, strict=True)
    ]
    return float(min(-(max(e, Decimal("1e-17"))).log10() for e in errors))


def _derivatives(rows, target, weight, ridge, theta):
    p = len(theta)
    grad = [r * t for r, t in zip(ridge, theta, strict=True)]
    hess = [[ridge[i] if i == j else Decimal(0) for j in range(p)] for i in range(p)]
    for row, y, c in zip(rows, target, weight, strict=True):
        score = sum(a * b for a, b in zip(row, theta, strict=True))
        chance = 1 / (1 + (-score).exp())
        pull, curve = c * (chance - y), c * chance * (1 - chance)
        for i in range(p):
            grad[i] += pull * row[i]
            for j in range(p):
                hess[i][j] += curve * row[i] * row[j]
    return grad, hess


def _solve(matrix, vector):
    """Gaussian elimination with partial pivoting."""
    rows = [[*row, b] for row, b in zip(matrix, vector, strict=True)]
    p = len(rows)
    for i in range(p):
        pivot = max(range(i, p), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(i + 1, p):
            factor = rows[r][i] / rows[i][i]
            rows[r] = [a - factor * b for a, b in zip(rows[r], rows[i], strict=True)]
    solution = [Decimal(0)] * p
    for i in reversed(range(p)):
        known = sum(rows[i][j] * solution[j] for j in range(i + 1, p))
        solution[i] = (rows[i][p] - known) / rows[i][i]
    return solution

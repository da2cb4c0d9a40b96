"""Separability in rational arithmetic: proves, or refutes, what a certificate claims."""

from fractions import Fraction

import numpy as np


def demands(x, y):
    """Rows t_i (x_i, 1) as Fractions."""
    sign = 2 * np.asarray(y) - 1
    rows = np.column_stack([np.asarray(x), np.ones(len(y), int)]) * sign[:, None]
    return fractions(rows)


def fractions(rows):
    """Of floats, which are rational numbers."""
    return [[Fraction(v.item()) for v in row] for row in np.asarray(rows)]


def proves_separation(x, y, on_plane, multipliers, direction):
    """Whether the named rows prove that exactly those `on_plane` lie on every plane.

    That is, by Stiemke's lemma, a positive combination of those with multipliers is 0, they span
    all that are on the plane, and some direction is 0 on these and positive on all others. Floats
    only nominate: the combination and the direction are projected on the exact solutions.
    """
    rows = demands(x, y)
    support = [row for row, value in zip(rows, multipliers, strict=True) if value > 0]
    held = [row for row, on in zip(rows, on_plane, strict=True) if on]
    others = [row for row, on in zip(rows, on_plane, strict=True) if not on]
    if any(value > 0 and not on for value, on in zip(multipliers, on_plane, strict=True)):
        return False
    if held:
        if not support or rank(support) != rank(held):
            return False
        weight = [Fraction(float(value)) for value in multipliers if value > 0]
        if min(project(weight, [list(column) for column in zip(*support, strict=True)])) <= 0:
            return False
    if others:
        along = project([Fraction(float(value)) for value in direction], support)
        return all(dot(row, along) > 0 for row in others)
    return bool(held)


def kind(x, y):
    """How classes lie, decided: "separable", "quasi-separable" or "overlapping".

    Maximises sum u over 0 <= u <= min(1, A v), where A v >= 0 asks every score of a row's own class
    to be no less than any other's: by scaling v every u that can be positive is 1 at the optimum,
    so all are 1 where scores separate the classes, and all 0 where none even touches. Of two
    classes A is `demands`.
    """
    rows = [list(row) for row in {tuple(row) for row in _wishes(x, np.asarray(y))}]
    n, p = len(rows), len(rows[0])
    unit = [[Fraction(int(i == j)) for j in range(n)] for i in range(n)]
    below = [unit[i] + [-a for a in rows[i]] + rows[i] for i in range(n)]  # u - A v <= 0
    capped = [unit[i] + [Fraction(0)] * (2 * p) for i in range(n)]  # u <= 1
    gain = [Fraction(1)] * n + [Fraction(0)] * (2 * p)
    most = maximum(below + capped, [Fraction(0)] * n + [Fraction(1)] * n, gain)
    return {0: "overlapping", n: "separable"}.get(most, "quasi-separable")


def _wishes(x, y):
    """Rows (x, 1) (x) (e_y - e_c) for every other class c there is; of two classes t (x, 1)."""
    present = np.unique(y)
    if len(present) == 2:
        return demands(x, y == present[1])
    whole = demands(x, np.ones(len(y), int))
    rows = []
    for row, own in zip(whole, y, strict=True):
        for other in present[present != own]:
            signs = [int(c == own) - int(c == other) for c in present]
            rows.append([sign * value for sign in signs for value in row])
    return rows


def maximum(matrix, bounds, gain):
    """max gain . z over matrix z <= bounds, z >= 0, with bounds >= 0, by the simplex method.

    Bland's rule, which cannot cycle.
    """
    m = len(matrix)
    slack = [[Fraction(int(i == j)) for j in range(m)] for i in range(m)]
    rows = [[*matrix[i], *slack[i], bounds[i]] for i in range(m)]
    cost = [-g for g in gain] + [Fraction(0)] * (m + 1)
    basis = [len(gain) + i for i in range(m)]
    while True:
        enter = next((j for j, c in enumerate(cost[:-1]) if c < 0), None)
        if enter is None:
            return cost[-1]
        leaves = [
            (row[-1] / row[enter], basis[i], i) for i, row in enumerate(rows) if row[enter] > 0
        ]
        _, _, pivot = min(leaves)
        basis[pivot] = enter
        scale = rows[pivot][enter]
        rows[pivot] = [a / scale if a else a for a in rows[pivot]]
        held = [(j, a) for j, a in enumerate(rows[pivot]) if a]
        for row in [*(r for i, r in enumerate(rows) if i != pivot), cost]:
            factor = row[enter]
            if factor:
                for j, a in held:
                    row[j] -= factor * a


def project(vector, rows):
    """`vector` less its part in the span of `rows`, exactly."""
    for unit in orthogonal(rows):
        share = dot(vector, unit) / dot(unit, unit)
        vector = [a - share * b for a, b in zip(vector, unit, strict=True)]
    return vector


def rank(rows):
    return len(orthogonal(rows))


def rank_about_means(x, groups):
    """The rank of the rows less the mean of their group."""
    rows = fractions(x)
    apart = []
    for group in np.unique(groups):
        own = [row for row, g in zip(rows, groups, strict=True) if g == group]
        # Differences from one of them span what differences from their mean do.
        apart += [[a - b for a, b in zip(row, own[0], strict=True)] for row in own[1:]]
    return rank(apart)


def orthogonal(rows):
    """Gram and Schmidt, without roots."""
    basis = []
    for row in rows:
        if len(basis) == len(row):
            break
        for unit in basis:
            share = dot(row, unit) / dot(unit, unit)
            row = [a - share * b for a, b in zip(row, unit, strict=True)]
        if any(row):
            basis.append(row)
    return basis


def dot(a, b):
    return sum(u * v for u, v in zip(a, b, strict=True))

"""Separability in rational arithmetic: proves, or refutes, what a certificate claims."""

import functools
import itertools
import math
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


def _once(function):
    """Of arrays of numbers: the same ones are not looked at twice."""
    known = {}

    @functools.wraps(function)
    def looked_up(*arrays):
        arrays = [np.asarray(a) for a in arrays]
        assert not any(a.dtype.hasobject for a in arrays)  # whose bytes are addresses
        key = tuple((a.dtype.str, a.shape, a.tobytes()) for a in arrays)
        if key not in known:
            known[key] = function(*arrays)
        return known[key]

    return looked_up


@_once
def kind(x, y):
    """How classes lie, decided: "separable", "quasi-separable" or "overlapping".

    Maximises sum u over 0 <= u <= min(1, A v), where A v >= 0 asks every score of a row's own class
    to be no less than any other's: by scaling v every u that can be positive is 1 at the optimum,
    so all are 1 where scores separate the classes, and all 0 where none even touches. Of two
    classes A is `demands`.
    """
    rows = np.array([_whole(row) for row in {tuple(row) for row in _wishes(x, np.asarray(y))}])
    n, p = rows.shape
    unit = np.eye(n, dtype=object)
    below = np.column_stack([unit, -rows, rows])  # u - A v <= 0
    capped = np.column_stack([unit, np.zeros((n, 2 * p), object)])  # u <= 1
    most = maximum(np.concatenate([below, capped]), [0] * n + [1] * n, [1] * n + [0] * 2 * p)
    return {0: "overlapping", n: "separable"}.get(most, "quasi-separable")


def _whole(row):
    """The row times what makes whole numbers of Fractions."""
    factor = math.lcm(*(value.denominator for value in row))
    return np.array([int(value * factor) for value in row], object)


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
    """max gain . z over matrix z <= bounds, z >= 0, with integers and bounds >= 0, exactly.

    The simplex method in whole numbers: the tableau is the integers over the last pivot, which
    divides what comes of them (Edmonds, 1967). Bland's rule, which cannot cycle.
    """
    m, last = len(matrix), 1
    slack = np.eye(m, dtype=object)
    rows = np.column_stack([np.array(matrix, object), slack, np.array(bounds, object)])
    cost = np.array([-g for g in gain] + [0] * (m + 1), object)
    basis = [len(gain) + i for i in range(m)]
    while True:
        enter = next((j for j, c in enumerate(cost[:-1]) if c < 0), None)
        if enter is None:
            return Fraction(cost[-1], last)
        _, _, leave = min(
            (Fraction(row[-1], row[enter]), basis[i], i)
            for i, row in enumerate(rows)
            if row[enter] > 0
        )
        basis[leave] = enter
        row, pivot = rows[leave].copy(), rows[leave, enter]
        rows = (pivot * rows - np.outer(rows[:, enter], row)) // last
        cost = (pivot * cost - cost[enter] * row) // last
        rows[leave], last = row, pivot


def project(vector, rows):
    """`vector` less its part in the span of `rows`, exactly."""
    for unit in orthogonal(rows):
        share = dot(vector, unit) / dot(unit, unit)
        vector = [a - share * b for a, b in zip(vector, unit, strict=True)]
    return vector


def rank(rows):
    return len(orthogonal(rows))


@_once
def rank_about_means(x, groups):
    """The rank of the rows less the mean of their group."""
    return rank(about_means(x, groups))


def about_means(x, groups):
    """What spans the rows less the mean of their group: differences from one of each."""
    return [row for group in np.unique(groups) for row in differences(x[groups == group])]


def differences(x):
    first, *others = fractions(x)
    return [[a - b for a, b in zip(row, first, strict=True)] for row in others]


@_once
def pairs_told_apart(x, y):
    """Of pairs of classes, whether a direction in which no class varies tells them apart."""
    within, first = orthogonal(about_means(x, y)), [x[y == c][:1] for c in np.unique(y)]
    pairs = itertools.combinations(first, 2)
    return [any(project(*differences(np.concatenate(pair)), within)) for pair in pairs]


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

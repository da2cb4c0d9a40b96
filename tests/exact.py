"""Separability in rational arithmetic: proves, or refutes, what a certificate claims."""

from fractions import Fraction

import numpy as np


def demands(x, y):
    """Rows t_i (x_i, 1) as Fractions."""
    sign = 2 * np.asarray(y) - 1
    rows = np.column_stack([np.asarray(x), np.ones(len(y), int)]) * sign[:, None]
    return [[Fraction(int(v)) for v in row] for row in rows]


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


def project(vector, rows):
    """`vector` less its part in the span of `rows`, exactly."""
    for unit in orthogonal(rows):
        share = dot(vector, unit) / dot(unit, unit)
        vector = [a - share * b for a, b in zip(vector, unit, strict=True)]
    return vector


def rank(rows):
    return len(orthogonal(rows))


def orthogonal(rows):
    """Gram and Schmidt, without roots."""
    basis = []
    for row in rows:
        for unit in basis:
            share = dot(row, unit) / dot(unit, unit)
            row = [a - share * b for a, b in zip(row, unit, strict=True)]
        if any(row):
            basis.append(row)
    return basis


def dot(a, b):
    return sum(u * v for u, v in zip(a, b, strict=True))

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
import numpy as np
import pytest

from jaxlin.types import Status
from tests import exact, problems
from tests.problems import METHODS, SHAPES
from tests.public import assert_identical, lane, thorough

CLEAN = {"flat": "noise", "wide": "twice as many columns as rows", "tall": "many rows"}
DTYPES = [np.float64, thorough(np.float32)]


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
            assert exact.kind(*few(x.astype(dtype), y)) == problem.kind, name


def few(x, y):
    """Of many rows those that decide: rows of each class alike, or the extremes of a column."""
    if len(x) < 100:
        return x, y
    order = np.argsort(x[:, 0])
    inner = [i for c in np.unique(y) for i in order[y[order] == c][[0, 1, 2, -3, -2, -1]]]
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
        if dtype == np.float32:
            fine |= {Status.STALLED, Status.MAX_STEPS}  # half the digits
        if said not in fine:
            wrong[problem] = (said.name, sorted(s.name for s in fine), float(info.residual[i]))
    assert not wrong, wrong


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SHAPES)
@pytest.mark.parametrize("name", METHODS)
def test_no_neighbour_feels_it(name, size, dtype):
    where, result = results(name, size, dtype)
    clean = problems.arguments(METHODS[name], catalogue(dtype)[CLEAN[size]], dtype)
    alone = lanes_of(name)(*stack([clean] * (2 * len(where) + 1)))
    even = jax.tree.map(lambda a: a[::2], result)
    assert_identical(even, jax.tree.map(lambda a: a[::2], alone))

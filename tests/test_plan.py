"""Which solver runs when: the plan as a table."""

import numpy as np
import pytest

from jaxlin import logistic, softmax, solvers
from jaxlin._smooth import _plan
from jaxlin._smooth._plan import Method, Space, Units
from jaxlin._smooth._record import Spec


def spec_of(*, solver=None, penalised=None, bias=True, joint=False):
    return Spec((softmax if joint else logistic)._LOSS, solver, bias, penalised=penalised)


@pytest.mark.parametrize(
    ("shape", "m", "penalised", "method", "space"),
    [
        # One score: Newton's method while a Hessian costs little beside the rest.
        ((300, 10), 1, None, Method.NEWTON, Space.FEATURES),
        ((900, 100), 1, True, Method.NEWTON, Space.FEATURES),
        ((9_000, 100), 1, False, Method.NEWTON, Space.FEATURES),
        ((1_001, 100), 1, True, Method.LBFGS, Space.FEATURES),
        ((50_000, 50), 1, None, Method.SAMPLED, Space.FEATURES),
        ((50_000, 50), 1, True, Method.SAMPLED, Space.FEATURES),
        ((2_000_000, 1), 1, None, Method.SAMPLED, Space.FEATURES),
        ((20_000, 255), 1, None, Method.LBFGS, Space.FEATURES),
        ((5_000, 500), 1, None, Method.LBFGS, Space.FEATURES),
        # Several: products with the Hessian.
        ((300, 10), 2, None, Method.NEWTON, Space.FEATURES),
        ((100_000, 60), 7, None, Method.NEWTON_CG, Space.FEATURES),
        ((100_000, 20), 2, True, Method.NEWTON_CG, Space.FEATURES),
        # Few rows: in their space where a penalty sees to it, in both where that is not known.
        ((72, 7_129), 1, True, Method.LBFGS, Space.ROWS),
        ((72, 7_129), 1, None, Method.LBFGS, Space.EITHER),
        ((72, 7_129), 1, False, Method.LBFGS, Space.FEATURES),
        ((72, 200), 1, True, Method.NEWTON, Space.FEATURES),
        ((500, 1_000), 7, True, Method.NEWTON_CG, Space.FEATURES),
    ],
)
def test_the_default_by_size(shape, m, penalised, method, space):
    found = _plan.plan(spec_of(penalised=penalised, joint=m > 1), shape, m)
    assert (found.method, found.space) == (method, space)


@pytest.mark.parametrize(
    ("facts", "method"),
    [
        ({}, Method.SAMPLED),
        ({"begun": True}, Method.LBFGS),
        ({"counted": True}, Method.NEWTON),
        ({"dealt": True}, Method.NEWTON),
        ({"devices": 4}, Method.NEWTON),
        ({"streamed": True}, Method.NEWTON),
        ({"shared": True}, Method.NEWTON),
        ({"shared": False}, Method.NEWTON),
    ],
)
def test_steps_that_count_and_rows_that_are_dealt_are_newtons(facts, method):
    assert _plan.plan(spec_of(), (50_000, 50), 1, **facts).method is method


@pytest.mark.parametrize(
    ("shared", "d", "newton"), [(True, 50, True), (True, 100, False), (False, 50, False)]
)
def test_penalised_lanes_of_a_large_x_share_products_where_it_is_narrow(shared, d, newton):
    found = _plan.plan(spec_of(penalised=True), (20_000, d), 1, shared=shared)
    assert (found.method is Method.NEWTON) == newton


def test_the_users_solver_is_the_users():
    for shape in ((300, 10), (72, 7_129), (2_000_000, 50)):
        newton = _plan.plan(spec_of(solver=solvers.newton), shape, 1)
        other = _plan.plan(spec_of(solver=solvers.lbfgs, penalised=True), shape, 1)
        assert newton.method is Method.NEWTON and other.method is Method.LBFGS
        assert newton.space is other.space is Space.FEATURES
        assert not newton.doubtful and not other.doubtful


@pytest.mark.parametrize(
    ("shape", "solver", "units"),
    [
        ((5_000, 500), None, Units.DIAGONAL_FIRST),
        ((5_000, 500), solvers.lbfgs, Units.MATRIX),
        ((5_000, 1_024), solvers.lbfgs, Units.DIAGONAL),
        ((100, 500), None, Units.DIAGONAL),
        ((600_000, 50), None, Units.MATRIX),
    ],
)
def test_units_are_of_a_sample_that_has_rows_for_them(shape, solver, units):
    assert _plan.plan(spec_of(solver=solver), shape, 1).units is units


@pytest.mark.parametrize(
    ("shape", "penalised", "facts", "steps", "more", "doubtful", "finished"),
    [
        ((300, 10), None, {}, 100, 0, True, True),
        ((50_000, 50), None, {}, 50, 100, True, True),
        ((50_000, 50), True, {}, 1000, 100, False, True),
        ((50_000, 50), None, {"counted": True, "begun": True}, 100, 0, True, True),
        ((5_000, 2_000), None, {}, 1000, 0, False, False),
        ((5_000, 500), None, {"streamed": True}, 1000, 100, False, True),
    ],
)
def test_what_may_have_no_optimum_is_left_early(
    shape, penalised, facts, steps, more, doubtful, finished
):
    found = _plan.plan(spec_of(penalised=penalised), shape, 1, **facts)
    assert (found.steps, found.more) == (steps, more)
    assert (found.doubtful, found.finished) == (doubtful, finished)


def test_a_program_is_lean_where_few_fits_take_the_rest():
    assert _plan.plan(spec_of(), (300, 10), 1).lean
    assert _plan.plan(spec_of(penalised=True), (5_000, 2_000), 1).lean
    assert _plan.plan(spec_of(), (50_000, 50), 1).lean
    assert not _plan.plan(spec_of(), (1_000, 500), 1).lean


def test_lanes_of_one_x_go_together_where_the_axes_are_worth_their_finding():
    def together(n, p, dtype, **facts):
        return _plan.together(spec_of(), (n, p), np.dtype(dtype), **facts)

    assert together(2_000, 257, np.float32, labels=True)
    assert together(500, 16, np.float32, labels=False)
    assert not together(500, 15, np.float32, labels=False)
    assert not together(500, 47, np.float64, labels=False)
    assert together(500, 9, np.float64, labels=True)
    assert not together(100, 257, np.float32, labels=True)
    # Columns, and one for the bias.
    assert together(5_000, 4_097, np.float32, labels=True)
    assert not together(5_000, 4_098, np.float32, labels=True)
    assert together(9_000, 8_193, np.float32, labels=True, streamed=True)
    assert not together(9_000, 8_194, np.float32, labels=True, streamed=True)


def test_what_a_lane_holds_is_told_by_the_fit():
    def many(n, d, dtype, **options):
        return _plan.many_together((n, d), np.dtype(dtype), options)

    assert many(2_000, 256, np.float32) and many(500, 15, np.float32)
    assert not many(500, 14, np.float32) and not many(500, 15, np.float32, bias=False)
    assert not many(2_000, 256, np.float32, solver=solvers.newton)
    assert not many(2_000, 256, np.float32, max_steps=3)


def test_steps_in_single_precision_are_for_many_lanes_of_double():
    def single(lanes, n, dtype, **facts):
        return _plan.in_single(lanes, (n, 10), np.dtype(dtype), **facts)

    assert single(1_000, 100, np.float64, shared=False)
    assert not single(1_000, 100, np.float32, shared=False)
    assert not single(7, 100_000, np.float64, shared=True)
    assert not single(8, 200_000, np.float64, shared=False)
    assert single(8, 200_000, np.float64, shared=True)

"""Lanes of smooth fits that share x, found together where that pays; see `_axes`.

Whatever maps a fit, however often, comes here: lanes of lanes are more lanes, and x is never one
for each. Lanes that are left go on by Newton's method, one by one. Shapes as in `_passes`, `L`
lanes before them.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxlin._base import _batched, _loops, _mesh
from jaxlin._batch import _lanes
from jaxlin._data import _rows
from jaxlin._smooth import _axes, _plan
from jaxlin._smooth._axes import Shared, apart, joined
from jaxlin._smooth._frame import Problem
from jaxlin._smooth._newton import Outcome
from jaxlin._smooth._record import Spec

# Of what a chunk of lanes holds: scores and slopes of a block, and steps.
CHUNK_BYTES = 64 * 2**20


def solve(
    spec: Spec, problem: Problem, start, tol, alone: Callable, finish: Callable, turns: int
) -> Outcome:
    """`alone(problem, start, tol)`; of lanes that share x all at once, where that pays.

    Args:
      spec: the loss and the static choices.
      problem: of stopped gradients.
      start: `(m, p)`.
      tol: bound on the residual.
      alone: finds one lane, or lanes that do not share x.
      finish: `finish(problem, start, tol, steps)`, one lane from where it is after so many steps.
      turns: after which what is left is for that.
    """

    @jax.custom_batching.custom_vmap
    def either(problem, start, tol):
        return alone(problem, start, tol)

    @either.def_vmap
    def _(axis_size, in_batched, *operands):
        if _pays(spec, operands[0], in_batched[0]):
            shared, own = apart(operands[0])
            own_axes = apart(in_batched[0])[1], *in_batched[1:]
            lanes = _spread(axis_size, (own, *operands[1:]), own_axes)
            found = _together(spec, finish, turns)(shared, lanes)
        else:
            found = _batched.each(alone, axis_size, in_batched)(*operands)
        return found, _batched.all_of(found)

    return either(problem, start, tol)


def _pays(spec: Spec, problem: Problem, batched: Problem) -> bool:
    rows = problem.rows
    if isinstance(rows, _rows.Streamed) or any(jax.tree.leaves(apart(batched)[0])):
        return False
    if _loops.varies(problem, rows.axis.name):
        return False  # lanes that devices have of their own would wait for each other
    shape = rows.x.shape[0] * _mesh.devices(rows.axis), problem.spread.shape[-1]
    return _plan.together(spec, shape, problem.spread.dtype, labels=bool(batched.rows.ok))


def _spread(axis_size: int, operands, batched):
    """The operands with a leading axis, those that are not `batched` again and again."""

    def one(a, here):
        return a if here else jnp.broadcast_to(a[None], (axis_size, *a.shape))

    return jax.tree.map(one, operands, batched)


def _together(spec: Spec, finish: Callable, turns: int) -> Callable:
    """The Outcome of all `lanes`, `(problem, start, tol)`, of what is `shared`.

    Lanes of such lanes are more lanes where they share x too; else they come in turn.
    """

    @jax.custom_batching.custom_vmap
    def together(shared, lanes):
        return _in_chunks(spec, finish, turns, shared, lanes)

    @together.def_vmap
    def _(axis_size, in_batched, shared, lanes):
        lanes = _spread(axis_size, lanes, in_batched[1])
        if any(jax.tree.leaves(in_batched[0])):
            shared = _spread(axis_size, shared, in_batched[0])
            found = jax.lax.map(lambda each: together(*each), (shared, lanes))
        else:
            flat = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), lanes)
            found = together(shared, flat)
            found = jax.tree.map(lambda a: a.reshape(axis_size, -1, *a.shape[1:]), found)
        return found, _batched.all_of(found)

    return together


def _in_chunks(spec: Spec, finish: Callable, turns: int, shared: Shared, lanes) -> Outcome:
    problem, start, _ = lanes
    count, m, p = start.shape
    # Of x alone: a row whose label is none is without weight where lanes share its columns.
    alike = _rows.alike(shared.rows, shared.rows.feature_mask)
    shared = shared._replace(rows=shared.rows._replace(ok=alike.ok))
    found = _axes.principal(shared._replace(rows=alike), p)
    k = m if problem.basis is None else m + 1
    bytes_each = _axes.lane_bytes((len(alike.x), p), m, k, start.dtype)
    solved = functools.partial(_solved, spec, finish, turns, shared, found)
    most = max(1, min(count, CHUNK_BYTES // bytes_each))
    return solved(lanes) if most >= count else _lanes.in_turn(solved, lanes, most)


def _solved(spec, finish, turns, shared: Shared, found, lanes) -> Outcome:
    """A chunk of lanes: found, judged by a pass of their own, and those that are left finished."""
    problem, start, tol = lanes
    run = _axes.descended(spec, turns, _axes.hold(spec, shared, found, problem, tol), start)
    outcome, left = _axes.judged(spec, shared, problem, tol, run)
    if not spec.complete:
        return outcome._replace(unsettled=left)
    order, count = jnp.argsort(~left, stable=True), jnp.sum(left, dtype=jnp.int32)

    def one(carry):
        i, found = carry
        at = order[i]
        own, tol, point = jax.tree.map(lambda a: a[at], (problem, lanes[2], found.point))
        # Far out in a tail Newton's method would pass before its proof does; from 0 it does not.
        first = jnp.where(run.near[at], point.theta, 0)
        ended = finish(joined(shared, own), first, tol, found.steps[at])
        return i + 1, jax.tree.map(lambda a, b: a.at[at].set(b), found, ended)

    init = jnp.int32(0), outcome
    return jax.lax.while_loop(lambda carry: carry[0] < count, one, init)[1]

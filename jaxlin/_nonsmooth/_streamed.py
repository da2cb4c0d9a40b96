"""Proximal Newton over a stream, turn by turn, as `_kinked` takes them in one program.

A turn is a pass, and between two the host has a `State` of `_descent`. Shapes as in `_passes`.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlin._base import _checks, _platform, _traits
from jaxlin._nonsmooth import _kinked, _proximal, _working
from jaxlin._nonsmooth._kinks import Kinks
from jaxlin._nonsmooth._size import Size
from jaxlin._smooth import _descent, _frame
from jaxlin._smooth._frame import Problem


class _Posed(NamedTuple):
    """What stays as it is during a run."""

    problem: Problem
    size: Size
    kinks: Kinks
    tol: jax.Array
    cap: jax.Array


def fit(
    fit,
    source,
    k,
    kept,
    bar,
    *,
    l1,
    l2=0.0,
    groups=None,
    num_groups=None,
    solver=None,
    bias=True,
    feature_mask=None,
    tol=None,
    max_steps=None,
):
    """As `_descent.fit`, with kinks."""
    loss = _traits.of(fit).loss
    with _descent.opened(source, k, loss.joint, feature_mask, kept) as (found, reader, rows):
        dtype = rows.scale.dtype
        coefficients = (found.k if loss.joint else 1) * (found.d + bool(bias))
        if coefficients > _working.AFTER_ALL:
            raise ValueError(
                f"l1: a stream takes it with at most {_working.AFTER_ALL:,} coefficients, and has "
                f"{coefficients:,}"
            )
        penalty = _checks.penalty(l2, found.d, dtype)
        spec = _descent.spec_of(loss, solver, bias, None, tol)
        given = l1, groups, num_groups, tol, max_steps
        spec, (size, tolerance, cap) = _kinked.arranged(spec, penalty, *given)
        _descent.check_numbers(l1=size.l1, l2=penalty, tol=tolerance, max_steps=max_steps)
        present = found.classes > 0
        posed = _posed(spec, rows, penalty, size, tolerance, cap, present)
        sizes = [a if a is None else a.tolist() for a in size]
        options = [bias, "l1", float(tolerance), *sizes]
        about = _descent.about(fit, found, dtype, l2, feature_mask, options)
        run = _descent.Drive(kept, about, bar, reader).through(
            "l1",
            functools.partial(_turn, spec, posed),
            lambda run: bool(_proximal.unfinished(run, posed.problem, posed.cap)),
            _begun(spec, posed),
            lambda run: (run.steps, jnp.sqrt(jnp.maximum(run.promised / run.value, 0))),
        )
        return _returned(spec, posed, run, present)


@functools.partial(_platform.jit, static_argnums=0)
def _posed(spec, rows, l2, size, tol, cap, present):
    usable, basis = jnp.sum(present) > 1, None
    if spec.loss.joint:
        basis = _kinked.own_scores(spec, present, l2.dtype)
    problem = _kinked.posed(spec, rows, l2, size, basis)
    problem = problem._replace(used=problem.used & usable)
    return _Posed(problem, size, _kinked.kinks_of(problem, size), tol, jnp.asarray(cap))


@functools.partial(_platform.jit, static_argnums=0)
def _begun(spec, posed):
    start = jnp.zeros(_shape(posed), posed.tol.dtype)
    return _proximal.begin(_proximal.measured(spec, posed.problem, start.shape), start)


@functools.partial(_platform.jit, static_argnums=0)
def _turn(spec, posed, run):
    measure = _proximal.measured(spec, posed.problem, _shape(posed))
    return _proximal.advance(run, measure, posed.kinks, posed.tol)


@functools.partial(_platform.jit, static_argnums=0)
def _returned(spec, posed, run, present):
    problem, size, kinks, tol, cap = posed
    found = _working.of_all(problem, kinks, _shape(posed), run)
    theta, _, info, _ = _kinked.judged(spec, problem, kinks, tol, cap, found)
    params = _frame.left(problem, theta, spec.bias)
    if spec.loss.joint:
        params = _kinked.of_least_norm(params, present, size)
    return _descent.placed(spec, params, info, present)


def _shape(posed: _Posed) -> tuple[int, int]:
    return posed.problem.used.size, posed.problem.spread.size

"""Many smooth fits to one stream, of all targets and penalties, by the same passes over it.

The lanes move together in the principal axes of x, as those of `_axes` do in one program; here each
step is a program of its own, which asks the host for block after block, once for all lanes. A lane
that is not settled so is fitted by itself. Shapes as in `_passes`, `L` lanes before them: targets,
and the penalties of each.
"""

import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin._base import _archive, _checks, _platform, _traits
from jaxlin._data import _rows
from jaxlin._files import _source
from jaxlin._smooth import _axes, _descent, _frame, _plan, _risk

# Of what lanes hold that go together; more come after them.
LANES_BYTES = 512 * 2**20


class Target(_source.Source):
    """One column of the labels of a source, and of its weights where they are as many."""

    def __init__(self, source: _source.Source, target: int):
        self._source, self._target = source, target

    def blocks(self) -> Iterator[_source.Block]:
        for block in self._source.blocks():
            yield self._of(block)

    def fetch(self, size: int, start: int) -> Iterator[_source.Block]:
        for block in self._source.fetch(size, start):
            yield self._of(block)

    def _of(self, block: _source.Block) -> _source.Block:
        x, y, weight = block
        own = weight if weight is None or weight.ndim == 1 else weight[:, self._target]
        return x, y[:, self._target], own


def fit(
    fit,
    source,
    k,
    kept,
    bar,
    *,
    l2,
    solver=None,
    bias=True,
    feature_mask=None,
    tol=None,
    max_steps=None,
):
    """`(params, info)` of `fit`, which has a loss, to a source, with leading axes as `probes` has.

    Args:
      l2: `(p,)`.
      others: as `_descent.fit` takes them.
    """
    loss = _traits.of(fit).loss
    found = _source.index(
        source, k if loss.joint else 2, feature_mask, soft=True, targets=True, digest=kept.known
    )
    _descent.check_kind(found, loss.joint)
    dtype = _source.working(found.dtype)
    l2 = _checks.real(l2, "l2").astype(dtype)
    spec = _descent.spec_of(loss, solver, bias, _risk.penalised(l2, dtype), tol)
    tolerance = _checks.tolerance(tol, dtype)
    _descent.check_numbers(l2=l2, tol=tolerance, max_steps=max_steps)
    shares = jnp.asarray(found.classes if found.targets else found.classes[None], dtype)
    count = len(shares) * len(l2)
    target, each = np.divmod(np.arange(count), len(l2))
    lanes = (target if found.targets else None), shares[target], l2[each]
    shape = found.n, found.d + spec.bias
    if max_steps is None and _plan.together(spec, shape, dtype, labels=True, streamed=True):
        about = _descent.about(fit, found, dtype, l2, feature_mask, [bias, None, float(tolerance)])
        with _source.reader_of(source, found, feature_mask) as reader:
            drive = _descent.Drive(kept, about, bar, reader)
            rows = _descent.streamed(reader, found, feature_mask)
            *settled, left = _in_chunks(spec, rows, lanes, tolerance, drive)
    elif kept.known:
        raise ValueError(
            "checkpoint: not where lanes go one by one, as with `solver`, `max_steps`, or more "
            "columns than rows"
        )
    else:
        settled, left = None, np.ones(count, bool)
    options = {"solver": solver, "bias": bias, "feature_mask": feature_mask}
    options |= {"tol": tol, "max_steps": max_steps}

    def alone(lane):
        own = Target(source, target[lane]) if found.targets else source
        kept = _archive.Kept()
        return _descent.fit(fit, own, found.k, kept, bar, l2=l2[each[lane]], **options)

    settled = _with_those(alone, np.flatnonzero(left), count, settled)
    lead = (found.targets, len(l2)) if found.targets else (len(l2),)
    return jax.tree.map(lambda a: a.reshape(*lead, *a.shape[1:]), tuple(settled))


def _with_those(alone, left, count, settled):
    """The params and Infos of all lanes, those that are left found `alone(lane)`."""
    for lane in left.tolist():
        one = alone(lane)
        if settled is None:
            settled = jax.tree.map(lambda a: jnp.zeros((count, *a.shape), a.dtype), one)
        put = functools.partial(lambda lane, a, b: a.at[lane].set(b), lane)
        settled = jax.tree.map(put, tuple(settled), one)
    return settled


def _in_chunks(spec, rows, lanes, tol, drive):
    """As `_together`, so many lanes at a time as have room."""
    form, (_, shares, _) = rows.x.form, lanes
    k = shares.shape[1] if spec.loss.joint else 1
    each = _axes.lane_bytes((form.n, form.d + spec.bias), max(k - 1, 1), k, tol.dtype)
    most = max(1, LANES_BYTES // each)
    parts = []
    for start in range(0, len(shares), most):
        some = jax.tree.map(lambda a, at=start: a[at : at + most], lanes)
        parts.append(_together(spec, rows, some, tol, drive, start))
    return jax.tree.map(lambda *a: jnp.concatenate(a), *parts)


def _together(spec, rows, lanes, tol, drive, start):
    """The params and Infos of lanes, the first of them `start`, and which are not settled."""
    shared, problem = _lanes(spec, rows, *lanes)
    held = _held(spec, shared, problem, jnp.full(len(lanes[1]), tol))
    run = drive.through(
        f"axes, from lane {start}",
        functools.partial(_advance, spec, held),
        lambda run: bool(_axes.is_unfinished(_axes.TURNS[False], run)),
        _begin(held),
        lambda run: (jnp.max(run.steps), jnp.max(jnp.where(run.done, 0, run.residual))),
    )
    # Before the reader is closed.
    return jax.block_until_ready(_settled(spec, held, run, lanes[1]))


@functools.partial(_platform.jit, static_argnums=0)
def _lanes(spec, rows, target, shares, l2):
    d = rows.x.form.d

    def of_lane(target, share, l2):
        mine = rows._replace(classes=share, target=target)
        present = share > 0
        basis = _frame.class_basis(present, share.dtype) if spec.loss.joint else None
        problem = _frame.make(mine, jnp.full(d, l2), spec.bias, basis)
        problem = problem._replace(used=problem.used & (jnp.sum(present) > 1))
        nothing: Any = None
        return _axes.apart(problem._replace(rows=mine._replace(some=nothing)))

    return jax.vmap(of_lane, out_axes=(None, 0))(target, shares, l2)


@functools.partial(_platform.jit, static_argnums=0)
def _held(spec, shared, problem, tol):
    alike = _rows.alike(shared.rows, shared.rows.feature_mask)
    axes = _axes.principal(shared._replace(rows=alike), problem.spread.shape[1])
    return _axes.hold(spec, shared, axes, problem, tol)


@_platform.jit
def _begin(held):
    (count, p), m = held.problem.spread.shape, held.problem.used.shape[1]
    run = _axes.begin(held, jnp.zeros((count, m, p), held.tol.dtype))
    # Where there may be no optimum a lane would take all others along, pass after pass.
    return run._replace(done=run.done | ~_axes.are_coercive(held.shared, held.problem))


@functools.partial(_platform.jit, static_argnums=0)
def _advance(spec, held, run):
    return _axes.advance(spec, held, run)


@functools.partial(_platform.jit, static_argnums=0)
def _settled(spec, held, run, shares):
    outcome, left = _axes.judged(spec, held.shared, held.problem, held.tol, run)

    def of_lane(own, outcome, tol, share):
        problem, last = _axes.joined(held.shared, own), jnp.int32(_axes.TURNS[False] + 1)
        return _descent.returned(spec, problem, outcome, tol, last, share > 0)

    return *jax.vmap(of_lane)(held.problem, outcome, held.tol, shares), left

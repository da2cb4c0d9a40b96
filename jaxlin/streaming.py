"""Fits to data larger than memory: from disk, or from any iterable, block by block.

A source is one of
- `arrays(x, y, sample_weight)`: arrays, memory maps of `.npy` files, or paths of such files;
- `csv(path, target)`: a text file of numbers;
- any iterable that can be gone through again, of `(x, y)` or `(x, y, sample_weight)`, numpy arrays
  of some rows each. (A generator can be gone through once: pass what makes it, a function without
  arguments.)

`fit` finds the params that a fit in memory would: for the closed forms in one pass, by statistics
that merge; for `logistic` and `softmax` by the same Newton's method and L-BFGS, certificate
included, a pass or little more per step. Every row is looked at first, and what is wrong with one
is said with its block and row, both counted from 0. Reading overlaps computing. `run` drives the
online rules of `updates` instead.

Between passes all that a run knows is its `State`, a pytree: `jaxlin.save` writes it, and a run that
starts from it ends where the whole run would have. `fit(..., checkpoint=path)` does both.

Shapes: `n` rows, `d` features, `k` classes.
"""

import csv as text
import functools
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin import (
    _archive,
    _checks,
    _frame,
    _iterate,
    _newton,
    _passes,
    _risk,
    _rows,
    _stream,
    gaussian,
    lda,
    least_squares,
    moments,
    qda,
    solvers,
    updates,
)
from jaxlin.types import Hyperplane, Info, Linear

# Of x in a block.
BLOCK_BYTES = 4 * 2**20
# Rows kept in memory, of which the frame and the preconditioner are made.
SAMPLE_ROWS = 4096

Block = tuple[np.ndarray, np.ndarray, np.ndarray | None]
# What the closed forms are fitted from.
CLOSED = {
    lda.fit: (moments.tied, lda.fit_from_moments),
    qda.fit: (moments.per_class, qda.fit_from_moments),
    gaussian.fit: (moments.per_class, gaussian.fit_from_moments),
    gaussian.fit_tied: (moments.tied, gaussian.fit_from_moments),
    least_squares.fit: (moments.tied, least_squares.fit_from_moments),
}


class State(NamedTuple):
    """A run between two passes.

    about: what it is a run of: the data's shape and weight, and the options
    stage: "lbfgs" or "newton"
    leaves: the arrays of the solver's own state
    steps: `()`
    residual: `()`, as in Info
    """

    about: dict[str, Any]
    stage: str
    leaves: list[Any]
    steps: Any
    residual: Any


class Source:
    """Blocks of rows that can be gone through again."""

    def __init__(self, make: Callable[[], Iterable]):
        self._make = make

    def blocks(self, size: int) -> Iterator[Block]:
        """All rows, in blocks of any length; about `size` where that can be chosen."""
        for block in self._make():
            if not (isinstance(block, tuple | list) and len(block) in (2, 3)):
                raise TypeError("source: expected blocks (x, y) or (x, y, sample_weight)")
            x, y = (np.asarray(a) for a in block[:2])
            given = block[2] if len(block) == 3 else None
            yield x, y, None if given is None else np.asarray(given)

    def fetch(self, size: int, start: int) -> Iterator[Block]:
        """Blocks of exactly `size` rows but for the last, from block `start` on."""
        left: list[Block] = []
        held, skip = 0, start * size
        for block in self.blocks(size):
            n = len(block[0])
            dropped = min(skip, n)
            skip -= dropped
            if dropped == n:
                continue
            left.append(tuple(None if a is None else a[dropped:] for a in block))  # type: ignore
            held += n - dropped
            while held >= size:
                whole = _joined(left)
                yield _cut(whole, 0, size)
                left, held = [_cut(whole, size, held)], held - size
        if held:
            yield _joined(left)


class _Arrays(Source):
    def __init__(self, *given: Any):
        self._given = given

    def blocks(self, size: int) -> Iterator[Block]:
        return self.fetch(size, 0)

    def fetch(self, size: int, start: int) -> Iterator[Block]:
        x, y, weight = self._given
        for at in range(start * size, len(x), size):
            here = slice(at, at + size)
            yield (
                np.asarray(x[here]),
                np.asarray(y[here]),
                None if weight is None else np.asarray(weight[here]),
            )


class _Csv(Source):
    def __init__(self, path: str, target: str | int, classes: Any):
        self._path, self._target, self.classes = path, target, classes
        self._places: dict[tuple[int, int], tuple[int, int]] = {}

    def blocks(self, size: int) -> Iterator[Block]:
        return self.fetch(size, 0)

    def fetch(self, size: int, start: int) -> Iterator[Block]:
        with open(self._path, newline="", encoding="utf-8") as file:
            names, header = self._heading(file)
            column = _column_of(self._path, names, self._target)
            place, line = self._places.get((size, start), (header, int(header > 0)))
            skip = 0 if (size, start) in self._places else start
            file.seek(place)
            block = start - skip
            while True:
                self._places[size, block] = file.tell(), line
                rows, line = _lines(file, size, line)
                if not rows:
                    return
                if block >= start:
                    yield self._numbers(rows, len(names), column)
                block += 1

    def _heading(self, file: Any) -> tuple[list[str], int]:
        first = next(text.reader([file.readline()]), [])
        names = [cell.strip() for cell in first]
        if any(_is_number(name) for name in names):
            return [f"column {i + 1}" for i in range(len(names))], 0
        return names, file.tell()

    def _numbers(self, rows: list[tuple[int, list[str]]], width: int, column: int) -> Block:
        for line, cells in rows:
            if len(cells) != width:
                raise ValueError(
                    f"{self._path}: line {line} has {len(cells)} cells, expected {width}"
                )
        labels = [cells.pop(column) for _, cells in rows]
        try:
            x = np.array([cells for _, cells in rows], dtype=np.float64)
        except ValueError:
            line, cell = next(
                (line, cell) for line, cells in rows for cell in cells if not _is_number(cell)
            )
            raise ValueError(f"{self._path}: line {line}: {cell!r} is no number") from None
        if self.classes is None:
            return x, np.array(labels), None
        try:
            y = np.array([self.classes[label] for label in labels], np.int32)
        except KeyError as error:
            line = rows[labels.index(error.args[0])][0]
            raise ValueError(
                f"{self._path}: line {line}: {error.args[0]!r} is none of the classes"
            ) from None
        return x, y, None


def arrays(x: Any, y: Any, sample_weight: Any = None) -> Source:
    """Arrays as a source; of a memory map only what is read is in memory.

    Args:
      x: `(n, d)`, an array, a memory map, or the path of an `.npy` file.
      y: `(n,)` or `(n, k)`, likewise.
      sample_weight: `(n,)`, likewise, or None.

    Returns:
      A Source.

    Raises:
      ValueError: lengths that differ, or a file that is cut off.

    Example:
      >>> import numpy as np
      >>> from jaxlin import lda, streaming
      >>> x, y = np.array([[-1.0], [1.0], [3.0], [5.0]]), np.array([0, 0, 1, 1])
      >>> params, info = streaming.fit(lda.fit, streaming.arrays(x, y))
      >>> params.weights.round(3).tolist(), info.status.item()
      ([[0.0], [4.0]], 0)
    """
    given = [None if a is None else _mapped(a) for a in (x, y, sample_weight)]
    for name, a in zip(("y", "sample_weight"), given[1:], strict=True):
        if a is not None and len(a) != len(given[0]):
            raise ValueError(f"{name}: expected {len(given[0])} rows, as x has, got {len(a)}")
    return _Arrays(*given)


def csv(path: str | os.PathLike, target: str | int = -1, *, classes: Any = None) -> Source:
    """A comma separated file of numbers as a source, a header or none.

    Args:
      path: of the file.
      target: the column of the labels, by name or number; by default the last.
      classes: what the labels say, in the order of their indices; by default the file is gone
        through once, and they are sorted.

    Returns:
      A Source with `classes`, a dict from what the label says to its index.

    Raises:
      ValueError: no such column; while it is read: a cell that is no number, or a line of another
        length, by its number.

    Example:
      >>> import os, tempfile
      >>> from jaxlin import lda, streaming
      >>> path = os.path.join(tempfile.mkdtemp(), "small.csv")
      >>> _ = open(path, "w").write("size,kind\\n-1,a\\n1,a\\n3,b\\n5,b\\n")
      >>> source = streaming.csv(path, "kind")
      >>> source.classes
      {'a': 0, 'b': 1}
      >>> params, info = streaming.fit(lda.fit, source)
      >>> params.weights.round(3).tolist()
      [[0.0], [4.0]]
    """
    source = _Csv(os.fspath(path), target, None)
    if classes is None:
        seen: set[str] = set()
        for _, labels, _ in source.blocks(10_000):
            seen.update(labels.tolist())
        classes = sorted(
            seen, key=lambda s: (not _is_number(s), float(s) if _is_number(s) else 0, s)
        )
    source.classes = {str(name): i for i, name in enumerate(classes)}
    return source


def fit(
    fit: Callable,
    source: Any,
    *,
    num_classes: int | None = None,
    state: State | None = None,
    each: Callable[[State], Any] | None = None,
    checkpoint: str | os.PathLike | None = None,
    progress: bool = False,
    **options: Any,
) -> tuple[Any, Info]:
    """Fit to a source as the fit does to arrays.

    Args:
      fit: `logistic.fit`, `softmax.fit`, `lda.fit`, `qda.fit`, `least_squares.fit`, `gaussian.fit`
        or `gaussian.fit_tied`.
      source: see the module.
      num_classes: k; by default 1 + the largest label with weight.
      state: of a run that was interrupted, to go on from.
      each: called with the State after each step of a solver.
      checkpoint: a path, to which the State is written after each step; if it is there already, the
        run goes on from it.
      progress: whether to show a bar of passes and residual, which takes tqdm.
      **options: of the fit. Those of `logistic` and `softmax` are `l2`, `solver`, `bias`,
        `feature_mask`, `tol` and `max_steps`.

    Returns:
      `(params, info)`, as the fit returns them; least squares without its refinement.

    Raises:
      ValueError: data or options that are not valid, with block and row; a state of another run.
      TypeError: a fit that cannot be streamed.

    Example:
      >>> import numpy as np
      >>> from jaxlin import logistic, streaming
      >>> blocks = [(np.array([[0.0], [1.0]]), np.array([0, 1])),
      ...           (np.array([[2.0], [3.0]]), np.array([0, 1]))]
      >>> params, info = streaming.fit(logistic.fit, blocks, l2=0.1)
      >>> params.weights.round(3).tolist(), info.status.item()
      ([0.562], 0)
    """
    source = _as_source(source)
    if fit in CLOSED:
        return _closed(fit, source, num_classes, progress, options)
    if fit not in _risk.SMOOTH:
        raise TypeError(
            f"fit: {getattr(fit, '__module__', '')}.{getattr(fit, '__name__', fit)} cannot be "
            "streamed; logistic, softmax, lda, qda, least_squares and gaussian can"
        )
    if checkpoint is not None and state is None and os.path.exists(checkpoint):
        state = _archive.load(checkpoint)

    def after(state: State) -> None:
        if checkpoint is not None:
            _archive.save(checkpoint, state)
        if each is not None:
            each(state)

    return _smooth(fit, source, num_classes, state, after, progress, **options)


def moments_of(
    of: Callable, source: Any, *, num_classes: int | None = None, **options: Any
) -> moments.Moments:
    """The moments of a source, in one pass: those of its blocks, merged.

    Args:
      of: `moments.tied`, `moments.per_class` or `moments.regression`.
      source: see the module.
      num_classes: k; by default 1 + the largest label with weight, by a pass of its own.
      **options: `feature_mask`.

    Returns:
      Moments, which merge with those of other sources, and can be saved.

    Raises:
      ValueError: data that are not valid, with block and row.

    Example:
      >>> import numpy as np
      >>> from jaxlin import moments, streaming
      >>> blocks = [(np.array([[0.0], [2.0]]), np.array([0, 0])), (np.array([[5.0]]), np.array([1]))]
      >>> streaming.moments_of(moments.tied, blocks).weight.tolist()
      [2.0, 1.0]
    """
    source = _as_source(source)
    regression = of is moments.regression
    if num_classes is None and not regression:
        num_classes = _index(source, None, options.get("feature_mask"), False).k
    return _merged(of, source, num_classes, _Bar(False), options)


def run(
    rule: Callable,
    params: Any,
    source: Any,
    *,
    progress: bool = False,
    **options: Any,
) -> tuple[Any, int]:
    """Visit the rows of a source once, in order, with an online rule: `updates.run`, on and on.

    Args:
      rule: of `updates`, or your own.
      params: to start from.
      source: see the module; a generator will do.
      progress: whether to show a bar, which takes tqdm.
      **options: of `updates.run`, `order` excepted.

    Returns:
      `(params, mistakes)`: params to go on from, and how many rows were mistaken before their
      update.

    Example:
      >>> import jax.numpy as jnp
      >>> import numpy as np
      >>> from jaxlin import streaming, updates
      >>> from jaxlin.types import Hyperplane
      >>> plane = Hyperplane(weights=jnp.zeros(1), bias=jnp.zeros(()))
      >>> blocks = ((np.array([[x]]), np.array([y])) for x, y in ((1.0, 1), (-1.0, 0)))
      >>> plane, mistakes = streaming.run(updates.perceptron, plane, blocks)
      >>> plane.weights.tolist(), mistakes
      ([2.0], 2)
    """
    source = source if isinstance(source, Source) else Source(lambda given=source: given)
    total, bar = 0, _Bar(progress)
    for i, (x, y, weight) in enumerate(source.blocks(_size(64, 4))):
        _judge(i, x, y, weight, None, None, None)
        params, mistakes = updates.run(rule, params, x, y, sample_weight=weight, **options)
        total += int(mistakes)
        bar.moved(mistakes=total)
    bar.close()
    return params, total


# --- closed forms --------------------------------------------------------------------------------


def _closed(fit, source, k, progress, options):
    of, finish = CLOSED[fit]
    bar = _Bar(progress)
    mask = {n: options.pop(n) for n in ("feature_mask",) if n in options}
    if mask:
        raise TypeError("feature_mask: not for closed forms of a stream; leave the columns out")
    if k is None:
        k = _index(source, None, None, False).k
    found = _merged(of, source, k, bar, {})
    bar.close()
    return finish(found, **options)


def _merged(of, source, k, bar, options):
    whole, shape = None, None
    classes = {} if of is moments.regression else {"num_classes": k}
    for i, (x, y, weight) in enumerate(source.blocks(_size(64, 8))):
        _judge(i, x, y, weight, shape, k, options.get("feature_mask"), real=not classes)
        shape = x.shape[1], x.dtype
        if weight is not None and not np.any(weight > 0):
            continue
        part = of(x, y, sample_weight=weight, **classes, **options)
        whole = part if whole is None else moments.merge(whole, part)
        bar.moved()
    if whole is None:
        raise ValueError("source: no row has weight")
    return whole


# --- smooth fits ---------------------------------------------------------------------------------


class _Index(NamedTuple):
    """What a first look at all rows says."""

    n: int
    d: int
    dtype: Any
    labels: int
    k: int
    total: float
    classes: np.ndarray
    first: np.ndarray
    some: Block


class _Run(NamedTuple):
    """What stays as it is during a run: `tol`, `cap` on the steps, and `last` of those that prove."""

    problem: _frame.Problem
    lower: jax.Array | None
    tol: jax.Array
    cap: jax.Array
    last: jax.Array


def _smooth(
    fit,
    source,
    k,
    state,
    after,
    progress,
    *,
    l2=0.0,
    solver=None,
    bias=True,
    feature_mask=None,
    tol=None,
    max_steps=None,
):
    kind = _risk.SMOOTH[fit]
    found = _index(source, k if kind.joint else 2, feature_mask, True)
    k, d, dtype = found.k, found.d, _checks.working_dtype(found.first)
    spec = _passes.Spec(
        loss=kind.loss,
        curvature=kind.curvature,
        agreement=kind.agreement,
        solver=_risk.check_solver(solver),
        bias=_checks.static(bias, bool, "bias"),
        penalised=_risk.penalised(l2, dtype),
    )
    if spec.solver not in (None, solvers.newton, solvers.lbfgs):
        raise TypeError("solver: a stream takes solvers.newton or solvers.lbfgs")
    penalty = _checks.penalty(l2, d, dtype)
    tolerance = _checks.tolerance(tol, dtype)
    for name, value in {"l2": penalty, "tol": tolerance, "max_steps": max_steps}.items():
        if value is not None and not np.all((np.asarray(value) >= 0) & np.isfinite(value)):
            raise ValueError(f"{name}: expected finite numbers >= 0, got {np.asarray(value)}")
    reader = _reader(source, found)
    bar = _Bar(progress)
    try:
        rows = _streamed(reader, found, feature_mask)
        present = found.classes if kind.joint else None
        m = max(k - 1, 1)
        newton = _risk.is_newton(spec, (found.n, d), m)
        default = _risk.NEWTON_STEPS if newton else _risk.OTHER_STEPS
        cap = _checks.count(default if max_steps is None else max_steps, "max_steps")
        problem = _problem(spec, rows, penalty, present)
        more = max_steps is None and not newton and m * (d + bias) <= _risk.DENSE_LIMIT
        last = cap + _risk.NEWTON_STEPS if more else cap
        lower = None if newton else _lower(spec, problem)
        about = {
            "fit": f"{fit.__module__}.{fit.__name__}",
            "shape": [found.n, d, k],
            "weight": found.total,
            "l2": np.asarray(penalty, float).tolist() if np.ndim(l2) else float(penalty[0]),
            "options": [bias, str(getattr(solver, "__name__", None)), float(tolerance)],
        }
        run = _Run(problem, lower, tolerance, np.int32(cap), np.int32(last))
        outcome = _solved(spec, run, newton, state, about, after, bar, reader)
        params, info = _returned(spec, kind.joint, problem, outcome, run, present, found.classes)
        return params, info
    except Exception:
        if reader.error is not None:
            raise reader.error from None
        raise
    finally:
        bar.close()
        reader.close()


def _solved(spec, run, newton, state, about, after, bar, reader) -> _newton.Outcome:
    """Step by step, each a State: L-BFGS if it is to be, then Newton's method, which proves."""
    if state is not None and dict(state.about) != about:
        raise ValueError(f"state: of another run, {dict(state.about)}, and this is {about}")
    nothing = jnp.zeros((run.problem.used.size, run.problem.spread.size), run.tol.dtype)
    outcome, trials = None, np.int32(0)

    def advance(stage, step, more, carry, residual):
        resumed = state is not None and state.stage == stage
        if resumed:
            carry = jax.tree.unflatten(jax.tree.structure(carry), state.leaves)
        while more(carry):
            carry = jax.block_until_ready(step(carry))
            steps, left = residual(carry)
            after(State(about, stage, jax.tree.leaves(carry), steps, left))
            bar.moved(reader.passes, residual=float(left))
        return carry

    start = nothing
    if not newton:
        carry = _lbfgs_first(spec, run)
        if state is None or state.stage == "lbfgs":
            carry = advance(
                "lbfgs",
                functools.partial(_lbfgs_step, spec, run),
                functools.partial(_lbfgs_unfinished, spec, run),
                carry,
                functools.partial(_lbfgs_said, spec, run),
            )
            outcome = _lbfgs_outcome(spec, run, carry)
            if nothing.size > _risk.DENSE_LIMIT or not _risk.is_open(outcome, run.tol):
                return outcome
            start, trials = outcome.point.theta, outcome.trials
    doubted = not newton
    begun = _begun(spec, doubted, run, start, trials)
    carry = advance(
        "newton",
        lambda carry: (_newton_step(spec, doubted, run, carry[1], carry[0]), carry[1]),
        lambda carry: bool(_newton.unfinished(carry[0], run.last)),
        (begun, jnp.asarray(trials)),
        lambda carry: (carry[0].steps, carry[0].point.residual),
    )
    return _proved(spec, run, carry[0])


@functools.partial(jax.jit, static_argnums=0)
def _problem(spec, rows, l2, present):
    basis = None if present is None else _frame.class_basis(present, l2.dtype)
    return _frame.make(rows, l2, spec.bias, basis)


@functools.partial(jax.jit, static_argnums=0)
def _lower(spec, problem):
    theta = jnp.zeros((problem.used.size, problem.spread.size), problem.spread.dtype)
    precondition = _risk.preconditioner(spec, problem, theta)
    return None if precondition is None else jnp.linalg.cholesky(precondition)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _begun(spec, doubted, run, start, trials):
    unknown = jnp.full((), jnp.inf, start.dtype)
    origin = _passes.value_at_origin(spec, run.problem) if doubted else unknown
    return _newton.begin(run.problem, start, origin, trials)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _newton_step(spec, doubted, run, before, carry):
    return _newton.advance(spec, doubted, run.problem, run.tol, before, carry)


@functools.partial(jax.jit, static_argnums=0)
def _proved(spec, run, carry):
    carry = carry._replace(trials=jnp.minimum(carry.trials, run.last + 1))
    return _newton.prove(spec, run.problem, carry, run.tol)


def _loop(spec, run):
    """L-BFGS on flat thetas, as `_risk` runs it."""
    method = _iterate.METHODS[solvers.lbfgs]
    start = jnp.zeros(run.problem.used.size * run.problem.spread.size, run.tol.dtype)
    frame = _iterate.Frame.of(
        _passes.objective(spec), start, (run.problem,), _passes.hessian(spec), None
    )._replace(lower=run.lower)
    options = {name: jnp.asarray(value, start.dtype) for name, value in method.defaults}
    tol = run.tol / _risk.slack(run.problem.used.size)
    return frame, _iterate.loop_of(method, frame, options, tol, run.cap)


@functools.partial(jax.jit, static_argnums=0)
def _lbfgs_first(spec, run):
    return _loop(spec, run)[1][2]()


@functools.partial(jax.jit, static_argnums=0)
def _lbfgs_step(spec, run, carry):
    return _loop(spec, run)[1][1](carry)


@functools.partial(jax.jit, static_argnums=0)
def _lbfgs_unfinished(spec, run, carry):
    return _loop(spec, run)[1][0](carry)


@functools.partial(jax.jit, static_argnums=0)
def _lbfgs_said(spec, run, carry):
    return carry[1], _loop(spec, run)[0].residual(carry[0].grad)


@functools.partial(jax.jit, static_argnums=0)
def _lbfgs_outcome(spec, run, carry):
    frame, _ = _loop(spec, run)
    theta = frame.leave(carry[0].point).reshape(run.problem.used.size, -1)
    return _risk.without_hessian(spec, run.problem, theta, carry[1])


@functools.partial(jax.jit, static_argnums=(0, 1))
def _returned(spec, joint, problem, outcome, run, present, classes):
    theta, info = _risk.said(problem, outcome, run.tol, run.last)
    params = _frame.leave(problem, theta, spec.bias)
    usable, valid = jnp.sum(classes) > 1, jnp.bool_(True)
    dtype = theta.dtype
    if joint:
        limit = jax.tree.map(jnp.zeros_like, params)
        params, info = _risk.in_place(params, info, limit, valid, usable)
        absent = jnp.where(present, 0, -jnp.inf).astype(dtype)
        return Linear(weights=params.weights, bias=params.bias + absent), info
    plane = Hyperplane(weights=params.weights[0], bias=params.bias[0])
    return _risk.in_place(plane, info, _risk.limit_of(classes[1], spec.bias, dtype), valid, usable)


# --- reading -------------------------------------------------------------------------------------


def _as_source(source: Any) -> Source:
    if isinstance(source, Source):
        return source
    if isinstance(source, Iterator):
        raise TypeError(
            "source: an iterator can be gone through once; pass a list, a Source, or the function "
            "without arguments that makes it"
        )
    return Source(source if callable(source) else lambda: source)


def _mapped(a: Any) -> Any:
    if not isinstance(a, str | os.PathLike):
        return a
    try:
        return np.load(a, mmap_mode="r")
    except ValueError as error:
        raise ValueError(f"{os.fspath(a)}: not a whole .npy file: {error}") from None


def _size(d: int, itemsize: int) -> int:
    return max(_rows.MIN_BLOCK_ROWS, BLOCK_BYTES // (max(d, 1) * itemsize))


def _reader(source: Source, found: _Index) -> _stream.Reader:
    n, d, dtype = found.n, found.d, found.dtype
    size = min(n, _size(d, np.dtype(dtype).itemsize))
    form = _stream.Form(n=n, d=d, size=size, dtype=dtype, labels=found.labels)
    working = np.dtype(_checks.working_dtype(found.first))

    def fetch(start: int) -> Iterator[_stream.Block]:
        for x, y, weight in source.fetch(size, start):
            part = np.full(len(x), 1 / found.total) if weight is None else weight / found.total
            columns = (
                x.astype(dtype, copy=False),
                y.astype(working if found.labels else np.int32, copy=False),
                part.astype(working),
            )
            yield tuple(_filled_up(a, size) for a in columns)  # type: ignore[misc]

    return _stream.Reader(form, fetch)


def _filled_up(a: np.ndarray, size: int) -> np.ndarray:
    missing = size - len(a)
    return np.pad(a, [(0, missing)] + [(0, 0)] * (a.ndim - 1)) if missing else a


def _streamed(reader: _stream.Reader, found: _Index, feature_mask: Any) -> _rows.Streamed:
    x, y, weight = found.some
    mask = _checks.mask_of(feature_mask, found.d)
    data = _checks.table(
        x, y, sample_weight=weight, feature_mask=mask, soft=True, num_classes=_columns(y)
    )
    some, *_ = _rows.prepare(data, num_classes=found.k)
    first = jnp.asarray(found.first)
    return _rows.Streamed(
        x=reader.stream(),
        scale=jnp.ones((), _checks.working_dtype(first)),
        classes=jnp.asarray(found.classes),
        first=first if mask is None else jnp.where(mask, first, 0),
        some=some,
        feature_mask=mask,
    )


def _columns(y: np.ndarray) -> int | None:
    return y.shape[1] if y.ndim == 2 else None


def _index(source: Source, k: int | None, feature_mask: Any, soft: bool) -> _Index:
    """Look at every row once: count, judge, and keep a sample."""
    n, total, shape, first = 0, 0.0, None, None
    kept: list[Block] = []
    of_class: dict[int, Block] = {}
    labels, largest, stride = 0, -1, 1
    for i, (x, y, weight) in enumerate(source.blocks(_size(64, 8))):
        _judge(i, x, y, weight, shape, k, feature_mask, soft=soft)
        if shape is None:
            labels = 0 if y.dtype.kind != "f" else (_columns(y) or 1)
        elif labels != (0 if y.dtype.kind != "f" else (_columns(y) or 1)):
            raise TypeError(f"block {i}: y is {y.dtype} {y.shape}, and was of another kind before")
        shape = x.shape[1], x.dtype
        weight = np.ones(len(x)) if weight is None else np.asarray(weight, float)
        here = weight > 0
        n, total = n + len(x), total + float(weight.sum())
        if here.any() and first is None:
            first = x[np.argmax(here)]
        if not labels and here.any():
            largest = max(largest, int(y[here].max()))
            for c in set(np.unique(y[here]).tolist()) - of_class.keys():
                at = np.flatnonzero(here & (y == c))[:1]
                of_class[c] = x[at], y[at], weight[at]
        elif here.any():
            columns = y if y.ndim == 2 else np.stack([1 - y, y], axis=1)
            for c in (
                set(np.flatnonzero((columns[here] > 0).any(axis=0)).tolist()) - of_class.keys()
            ):
                at = np.flatnonzero(here & (columns[:, c] > 0))[:1]
                of_class[c] = x[at], y[at], weight[at]
        # Evenly spread, and never more than twice what is kept at the end.
        picked = slice(-(n - len(x)) % stride, None, stride)
        kept.append((x[picked].copy(), y[picked].copy(), weight[picked].copy()))
        while sum(len(a[0]) for a in kept) > 2 * SAMPLE_ROWS:
            joined = _joined(kept)
            kept, stride = [tuple(a[::2] for a in joined)], 2 * stride  # type: ignore[misc]
    if not n:
        raise ValueError("source: it holds no rows")
    if not 0 < total < np.inf:
        raise ValueError("source: no row has weight, or the sum of the weights is not finite")
    if labels > 1 or (labels and k is None):
        k = max(labels, 2)
    k = max(largest + 1, 2) if k is None else k
    some = _joined([*kept, *of_class.values()])
    dtype = jax.dtypes.canonicalize_dtype(shape[1] if shape[1].kind in "fV" else np.float64)
    return _Index(
        n=n,
        d=shape[0],
        dtype=dtype,
        labels=labels,
        k=k,
        total=total,
        classes=np.isin(np.arange(k), list(of_class)),
        first=first.astype(_checks.working_dtype(jnp.zeros(0, dtype))),
        some=(some[0].astype(dtype), some[1], some[2]),
    )


def _judge(i, x, y, weight, shape, k, feature_mask, *, soft=True, real=False):
    """Raise what is wrong with block i, with its row."""
    if x.ndim != 2:
        raise ValueError(f"block {i}: expected x of shape (rows, d), got {x.shape}")
    if shape is not None and x.shape[1] != shape[0]:
        raise ValueError(f"block {i}: x has {x.shape[1]} columns, and had {shape[0]} before")
    if shape is not None and x.dtype != shape[1]:
        raise TypeError(f"block {i}: x is {x.dtype}, and was {shape[1]} before")
    if len(y) != len(x) or (weight is not None and weight.shape != (len(x),)):
        raise ValueError(
            f"block {i}: {len(x)} rows of x, but y of shape {y.shape} and weights of "
            f"{None if weight is None else weight.shape}"
        )
    if x.dtype.kind not in "fiubV" or y.dtype.kind not in "fiub":
        raise TypeError(f"block {i}: expected numbers, got x {x.dtype} and y {y.dtype}")
    if y.dtype.kind == "f" and not (soft or real):
        raise TypeError(f"block {i}: y: expected integer class indices, got {y.dtype}")
    here = np.ones(len(x), bool) if weight is None else weight != 0
    if weight is not None:
        bad = ~((weight >= 0) & np.isfinite(weight))
        _refuse(i, bad, lambda r: f"the weight is {weight[r]}")
    wide = x if x.dtype.kind != "V" else x.astype(np.float32)
    limit = _checks.safe_range(_checks.working_dtype(jnp.zeros(0, x.dtype)))
    if x.dtype.kind not in "iub":
        fine = np.abs(wide) <= limit
        if feature_mask is not None:
            fine |= ~np.asarray(feature_mask)[None, :]
        fine = fine.all(axis=1)
        _refuse(i, ~fine & here, lambda r: _worst(wide[r], limit))
    if real:
        _refuse(i, ~np.isfinite(y) & here, lambda r: f"the target is {y[r]}")
    elif y.dtype.kind == "f":
        rows = y.reshape(len(y), -1)
        off = ~((rows >= 0) & (rows <= 1)).all(axis=1)
        if y.ndim == 2:
            off |= ~(np.abs(rows.sum(axis=1) - 1) <= 1e-3)
        _refuse(i, off & here, lambda r: f"y is {y[r]}, no probabilities")
    else:
        off = (y < 0) if k is None else (y < 0) | (y >= k)
        top = "a class index" if k is None else f"in 0..{k - 1}"
        _refuse(i, off & here, lambda r: f"y is {y[r]}, not {top}")


def _worst(row: np.ndarray, limit: float) -> str:
    j = int(np.argmax(~(np.abs(row) <= limit)))
    return f"x in column {j} is {row[j]}"


def _refuse(i: int, bad: np.ndarray, what: Callable[[int], str]) -> None:
    if bad.any():
        r = int(np.argmax(bad))
        raise ValueError(f"block {i}, row {r}: {what(r)}")


def _joined(blocks: list[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    x, y, weights = zip(*blocks, strict=True)
    if any(w is None for w in weights):
        weights = tuple(
            np.ones(len(a)) if w is None else w for a, w in zip(x, weights, strict=True)
        )
        if all(w is None for *_, w in blocks):
            return np.concatenate(x), np.concatenate(y), None
    return np.concatenate(x), np.concatenate(y), np.concatenate(weights)


def _cut(block: Block, start: int, stop: int) -> Block:
    x, y, weight = block
    return x[start:stop], y[start:stop], None if weight is None else weight[start:stop]


def _lines(file: Any, size: int, line: int) -> tuple[list[tuple[int, list[str]]], int]:
    """So many lines with something in them, each with its number."""
    rows = []
    while len(rows) < size:
        whole = file.readline()
        if not whole:
            break
        line += 1
        if whole.strip():
            rows.append((line, [cell.strip() for cell in next(text.reader([whole]))]))
    return rows, line


def _column_of(path: str, names: list[str], target: str | int) -> int:
    if isinstance(target, int):
        if -len(names) <= target < len(names):
            return target % len(names)
        raise ValueError(f"target: {path} has {len(names)} columns, none of number {target}")
    if target not in names:
        raise ValueError(f"target: {path} has no column {target!r}, but {', '.join(names)}")
    return names.index(target)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


class _Bar:
    """A bar by tqdm, or nothing."""

    def __init__(self, shown: bool):
        self._bar = None
        if shown:
            try:
                import tqdm
            except ImportError:
                raise ImportError('progress: takes tqdm: pip install "jaxlin[progress]"') from None
            self._bar = tqdm.tqdm(unit="pass")

    def moved(self, done: int | None = None, **said: Any) -> None:
        if self._bar is not None:
            self._bar.update(1 if done is None else done - self._bar.n)
            self._bar.set_postfix(
                {n: f"{v:.1e}" if isinstance(v, float) else v for n, v in said.items()}
            )

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()

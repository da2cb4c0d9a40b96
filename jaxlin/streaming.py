"""Fits to data larger than memory: from disk, or from any iterable, block by block.

A source is one of
- `arrays(x, y, sample_weight=None)`: arrays, memory maps of `.npy` files, paths of such files, or
  lists of paths, whose rows follow each other;
- `csv(path, target=-1)`: a delimited text file of numbers;
- any iterable that can be gone through again, and gives the same rows each time, of `(x, y)` or
  `(x, y, sample_weight)`, numpy arrays of some rows each. (A generator can be gone through once:
  pass what makes it, a function without arguments.)

`fit` finds the params that a fit in memory would: for the closed forms in one pass, by statistics
that merge; for `logistic` and `softmax` by the same methods, certificate included, a pass or little
more per step. Every row is looked at first, and what is wrong with one
is said with its block and row, both counted from 0. Reading overlaps computing. `run` drives the
online rules of `updates` instead.

Between passes all that a run knows is its `State`, a pytree: `jaxlin.save` writes it, and a run
that starts from it ends where the whole run would have. `fit(..., checkpoint=path)` does both.

Shapes: `n` rows, `d` features, `k` classes.
"""

import contextlib
import os
from collections.abc import Callable, Iterable
from typing import Any

from jaxlin import moments, updates
from jaxlin._base import _archive, _traits
from jaxlin._files import _bar, _sheet, _source
from jaxlin._files._source import Source
from jaxlin._moments import _merged
from jaxlin._nonsmooth import _size, _streamed
from jaxlin._smooth import _descent
from jaxlin._smooth._descent import State
from jaxlin.types import Info


def arrays(x: Any, y: Any, *, sample_weight: Any = None) -> Source:
    """Arrays as a source; of a memory map only what is read is in memory.

    Args:
      x: `(n, d)`, an array, a memory map, the path of an `.npy` file, or a list of such paths, of
        parts whose rows follow each other.
      y: `(n,)` or `(n, k)`, likewise; for `probes` also `(n, t)` targets in {0, 1}.
      sample_weight: `(n,)`, likewise, or None; for `probes` also `(n, t)`.

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
    return _source.arrays(x, y, sample_weight)


def csv(
    path: str | os.PathLike,
    *,
    target: str | int = -1,
    classes: Any = None,
    separator: str | None = None,
    encoding: str | None = None,
    header: bool | None = None,
    decimal: str | None = None,
    missing: Iterable[str] = _sheet.MISSING,
    drop: Iterable[str] = (),
) -> Source:
    """A delimited text file of numbers as a source, compressed by gzip or not.

    How it is written is found out where it is not said: from its top the separator (tab, `;`, `,`,
    `|` or blanks) and the header, from all cells whether it has a decimal comma. A first column
    without a name that numbers the rows is left out.

    Args:
      path: of the file.
      target: the column of the labels, by name or number; by default the last.
      classes: what the labels say, in the order of their indices; by default they are sorted.
      separator: a character, `"tab"` or `"space"`.
      encoding: by default that of a byte order mark, else UTF-8, else Latin-1.
      header: whether the first row names the columns.
      decimal: `"."` or `","`.
      missing: labels of rows that are left out.
      drop: names of columns that are left out.

    Returns:
      A Source with `classes`, a dict from what the label says to its index; `features`, the names
      of its columns; and `notes`, what else was done on the way, one sentence each.

    Raises:
      ValueError: no such column; numbers that may have a decimal comma or not; a cell that is no
        number, or a row of another length, by its line.

    Example:
      >>> import pathlib, tempfile
      >>> from jaxlin import lda, streaming
      >>> path = pathlib.Path(tempfile.mkdtemp(), "small.csv")
      >>> _ = path.write_text("size,kind\\n-1,a\\n1,a\\n3,b\\n5,b\\n")
      >>> source = streaming.csv(path, target="kind")
      >>> source.classes
      {'a': 0, 'b': 1}
      >>> params, info = streaming.fit(lda.fit, source)
      >>> params.weights.round(3).tolist()
      [[0.0], [4.0]]
    """
    notes: list[str] = []
    options = _sheet.Options(separator, encoding, header, decimal, missing, drop)
    name = target if isinstance(target, str) else None
    sheet = _sheet.find(os.fspath(path), options, name, notes)
    column = sheet.column(target)
    look = _sheet.Look(sheet, column)
    seen = {row.cells[column] for row in look.rows()} - sheet.missing
    sheet = look.settled(notes)
    given = sorted(seen, key=_source.rank) if classes is None else map(str, classes)
    source = _source.Csv(sheet, column, {name: i for i, name in enumerate(given)})
    source.notes = notes
    for _ in source.blocks():
        pass  # what is no number is told of now, not after hours
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
      num_classes: k; by default 1 + the largest label with weight, for which closed forms go
        through the source once more.
      state: of a run that was interrupted, to go on from.
      each: called with the State after each step of a solver.
      checkpoint: a path, to which the State is written after each step; if it is there already, the
        run goes on from it.
      progress: whether to show a bar of passes and residual, which takes tqdm.
      **options: of the fit. Those of `logistic` and `softmax` are `l2`, `solver`, `bias`,
        `feature_mask`, `tol` and `max_steps`; and, of at most 2,048 coefficients, `l1`, `groups`
        and `num_groups`.

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
      ([0.637], 0)
    """
    source = _source.as_source(source)
    fit, options = _traits.bare(fit, options)
    if num_classes is None:
        num_classes = options.pop("num_classes", None)
    traits = _traits.of(fit)
    if traits.moments is not None:
        if options.pop("l1", None) is not None:
            raise TypeError("l1: not for closed forms; of a stream logistic and softmax take it")
        for name, given in {"state": state, "each": each, "checkpoint": checkpoint}.items():
            if given is not None:
                raise ValueError(f"{name}: a closed form takes one pass; save `moments_of` instead")
        with contextlib.closing(_bar.Bar(progress)) as bar:
            return _merged.fit(traits.moments, source, num_classes, bar, **options)
    if traits.loss is None:
        raise TypeError(
            f"fit: {getattr(fit, '__module__', '')}.{getattr(fit, '__name__', fit)} cannot be "
            "streamed; logistic, softmax, lda, qda, least_squares, gaussian and naive_bayes can"
        )
    kinks = {name: options.pop(name, None) for name in ("l1", "groups", "num_groups")}
    kept = _archive.Kept(checkpoint, state, each)
    with contextlib.closing(_bar.Bar(progress)) as bar:
        if _size.is_asked(**kinks):
            return _streamed.fit(fit, source, num_classes, kept, bar, **kinks, **options)
        return _descent.fit(fit, source, num_classes, kept, bar, **options)


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
      >>> blocks = [(np.array([[0.0], [2.0]]), np.array([0, 0]))]
      >>> blocks += [(np.array([[5.0]]), np.array([1]))]
      >>> streaming.moments_of(moments.tied, blocks).weight.tolist()
      [2.0, 1.0]
    """
    source = _source.as_source(source)
    regression = of is moments.regression
    if num_classes is None and not regression:
        num_classes = _source.index(source, None, options.get("feature_mask"), soft=False).k
    return _merged.moments_of(of, source, num_classes, _bar.Bar(False), **options)


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
    once = source if isinstance(source, Source) else Source(lambda: source)
    total = 0
    with contextlib.closing(_bar.Bar(progress)) as bar:
        for i, (x, y, weight) in enumerate(once.blocks()):
            _source.judge(i, x, y, weight, None, None, None)
            params, mistakes = updates.run(rule, params, x, y, sample_weight=weight, **options)
            total += int(mistakes)
            bar.moved(mistakes=total)
    return params, total

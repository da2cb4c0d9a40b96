"""From a binary fit to a fit of k classes: combinators that take a fit and return a fit.

`one_vs_rest` fits one plane per class against all others, `one_vs_one` one per pair of classes.

Reach for these where a method is binary by nature (the perceptron, the support vector machine);
`softmax` and `lda` treat k classes as one problem, and their probabilities are the better for it.
Each binary fit is one lane of a vmap: every option goes to each (numbers are traced;
`functools.partial(fit, ...)` keeps them static), and one Info speaks for all: the worst status, the
largest residual and number of steps, the sum of the objectives, over the classes that are present.
Weights tell the rows of a pair from the others, so x is shared and never
copied. But where labels are known when a program is made, and pairs are a small part of all rows,
lanes of this package's fits see no more than their own: as many pairs at a time as fit in a cache.
Shapes: `n` examples, `d` features, `k` classes, `p` = k (k - 1) / 2 pairs.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin import linear, pairwise
from jaxlin._base import _checks, _invalid, _mesh, _options, _platform, _traits, _words
from jaxlin._batch import _lanes
from jaxlin._data import _prepare
from jaxlin.types import Hyperplane, Info, Linear, Pairwise, Status

Fit = Callable[..., tuple[Any, Info]]

# What fits take for each row.
PER_ROW = ("offset",)
# Room for the rows of a pair, over what it has on average: the first that all fit in, if it is no
# more than this part of all rows.
ROOMS, SMALL_PART = (1.1, 1.4, 2.0), 0.5


def one_vs_rest(fit: Fit) -> Fit:
    """Make a k-class fit of a binary one: one plane per class, against all others.

    The largest of the k scores wins. Scores of different classes are compared as they are, so
    they should share a scale: log-odds do, a perceptron's scores only roughly.

    Args:
      fit: `fit(x, y, *, ...) -> (Hyperplane, Info)`, of this package or your own. It is called
        under `jax.vmap`, with `sample_weight=` and `key=` only where the caller gives them.

    Returns:
      `fit(x, y, *, num_classes=None, sample_weight=None, key=None, **options)`, which returns
      `(Linear, Info)`. A key is split, one part per class. A class without weight is absent:
      weights 0, bias -inf, never predicted, and no part of the Info. The same function is
      returned for the same `fit`, so that a second call compiles nothing.

    Raises:
      TypeError: (from the returned fit) `fit` returns params of another type.
      ValueError: (from the returned fit, eagerly) the data or an option are invalid.

    Example:
      >>> import jax.numpy as jnp
      >>> import jaxlin
      >>> from jaxlin import multiclass, perceptron
      >>> x = jnp.array([[0.0, 4.0], [4.0, 0.0], [-4.0, -4.0]])
      >>> params, info = multiclass.one_vs_rest(perceptron.fit)(x, jnp.array([0, 1, 2]))
      >>> jaxlin.predict(params, x).tolist()
      [0, 1, 2]
    """
    return _combined(_one_vs_rest, fit, "one_vs_rest")


def one_vs_one(fit: Fit) -> Fit:
    """Make a k-class fit of a binary one: one plane per pair of classes.

    Every plane votes, see `pairwise`. A pair's fit sees the rows of its two classes only: those of
    others have weight 0. Scores of different planes need not share a scale, and where a class lies
    between others it is found, which one plane against all others may not do. A class of few rows
    may lose every pair and never be predicted, and the status be CONVERGED:
    `one_vs_one(resample.on_balanced(fit))` gives both classes of a pair the same total weight.

    Args:
      fit: `fit(x, y, *, sample_weight, ...) -> (Hyperplane, Info)`, of this package or your own. It
        is called under `jax.vmap`, with `key=` only where the caller gives one.

    Returns:
      `fit(x, y, *, num_classes=None, sample_weight=None, key=None, **options)`, which returns
      `(Pairwise, Info)`. A key is split, one part per pair. A class without weight is absent: it
      loses against every class that is not, and is no part of the Info; with fewer than two classes
      that is CLASS_TOO_SMALL. The same function is returned for the same `fit`, so that a second
      call compiles nothing.

    Raises:
      TypeError: (from the returned fit) `fit` returns params of another type.
      ValueError: (from the returned fit, eagerly) the data or an option are invalid.

    Example:
      >>> import jax.numpy as jnp
      >>> import jaxlin
      >>> from jaxlin import multiclass, perceptron
      >>> x, y = jnp.array([[1.0], [2.0], [5.0], [6.0], [9.0]]), jnp.array([0, 0, 1, 1, 2])
      >>> params, info = multiclass.one_vs_one(perceptron.fit)(x, y)
      >>> jaxlin.predict(params, x).tolist()
      [0, 0, 1, 1, 2]
    """
    return _combined(_one_vs_one, fit, "one_vs_one")


@functools.cache
def _combined(program: Callable, fit: Fit, name: str) -> Fit:
    """The fit of k classes of this name; its params are what the program returns."""
    _words.refuse_no_fit(fit)

    def combined(
        x: Any,
        y: Any,
        *,
        num_classes: int | None = None,
        sample_weight: Any = None,
        key: jax.Array | None = None,
        axis_name: str | None = None,
        **options: Any,
    ) -> tuple[Any, Info]:
        return _run(program, fit, x, y, num_classes, sample_weight, key, axis_name, options)

    combined.__name__ = combined.__qualname__ = f"fit_{name}"
    combined.__doc__ = f"Binary fits as one: see `multiclass.{name}`."
    return _options.with_arguments_of(fit, combined, but=("init",))


@_options.explained
def _run(program, fit, x, y, num_classes, sample_weight, key, axis_name, options):
    mask = options.get("feature_mask")
    data = _checks.table(
        x,
        y,
        sample_weight=sample_weight,
        feature_mask=mask,
        axis_name=axis_name,
        sparse=True,
    )
    if key is not None:
        _words.refuse_other_than_key(key)
    if axis_name is not None:
        options = {**options, "axis_name": axis_name}
    k = _checks.number_of_classes(num_classes, y, sample_weight)
    options = _options.with_groups(fit, options)
    split = _options.split(options, _checks.working_dtype(data.x))
    own = {}
    if program is _one_vs_one and key is None and _may_gather(fit, options):
        own = {"own": _rows_of_pairs(data.y, k)}
    params, info = program(fit, k, split.static, data, key, split.traced, **own)
    _raise_if_invalid(fit, info, data, k, key, options)
    return params, info


def probabilities(params: Linear, x: Any) -> jax.Array:
    """The probabilities of one-vs-rest: the sigmoid of each score, divided by their sum.

    Meaningful where each binary fit's scores are log-odds, as after `logistic`.

    Args:
      params: a Linear, as a fit of `one_vs_rest` returns it.
      x: `(..., d)`.

    Returns:
      `(..., k)`, rows summing to 1; 0 for an absent class.

    Raises:
      TypeError: the params are no Linear.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import multiclass
      >>> from jaxlin.types import Linear
      >>> params = Linear(weights=jnp.zeros((4, 1)), bias=jnp.zeros(4))
      >>> multiclass.probabilities(params, jnp.array([5.0])).tolist()
      [0.25, 0.25, 0.25, 0.25]
    """
    if not isinstance(params, Linear):
        raise TypeError(f"params: expected a Linear, got {type(params).__name__}")
    # In logarithms, so that k scores far below 0 do not all underflow.
    return jax.nn.softmax(jax.nn.log_sigmoid(linear.scores(params, x)), axis=-1)


def _may_gather(fit: Fit, options: dict[str, Any]) -> bool:
    """Whether a fit is the same without the rows of weight 0."""
    fit, options = _traits.bare(fit, options)
    given = {name for name, value in options.items() if value is not None}
    return _traits.of(fit).skips and given.isdisjoint((*PER_ROW, "axis_name"))


def _rows_of_pairs(y: jax.Array, k: int) -> np.ndarray | None:
    """The rows of each pair in their order, `(p, room)`, and n beyond; or None: not known, or many.

    The shapes leave few rooms to choose from, so that labels of many kinds share a program.
    """
    n = y.shape[0]
    rooms = [math.ceil(room * 2 * n / max(k, 1)) for room in ROOMS]
    rooms = [room for room in rooms if room <= SMALL_PART * n]
    if not rooms or not _checks.concrete(y):
        return None
    labels = np.asarray(y)
    own = [np.flatnonzero(labels == c) for c in range(k)]
    both = zip(*pairwise.pairs(k), strict=True)
    pairs = [np.sort(np.concatenate([own[i], own[j]])) for i, j in both]
    largest = max(len(rows) for rows in pairs)
    room = next((room for room in rooms if largest <= room), None)
    if room is None:
        return None
    return np.stack([np.append(r, np.full(room - len(r), n)) for r in pairs]).astype(np.int32)


@functools.partial(_platform.jit, static_argnums=(0, 1, 2))
def _one_vs_rest(fit, k, static, data, key, traced):
    rows, _, valid = _prepare.prepare(data, num_classes=k)
    members = rows.y[None, :] == jnp.arange(k, dtype=rows.y.dtype)[:, None]
    present = _mesh.any_rows(members.T & (rows.weight > 0)[:, None], rows.axis)
    options = _options.join(_options.Options(static, traced))
    if data.sample_weight is not None:
        options["sample_weight"] = data.sample_weight

    def binary(member, key):
        return fit(data.x, member, **options, **({} if key is None else {"key": key}))

    keys = None if key is None else jax.random.split(key, k)
    result = jax.vmap(binary, in_axes=(0, None if key is None else 0))(
        members.astype(jnp.int32), keys
    )
    planes, infos = _checked(result)
    info = _summary(infos, present, valid)
    return _gather(planes, present, info.status != Status.INVALID_DATA), info


@functools.partial(_platform.jit, static_argnums=(0, 1, 2))
def _one_vs_one(fit, k, static, data, key, traced, own=None):
    """`own`: the rows of each pair, see `_rows_of_pairs`."""
    if k < 2:
        raise ValueError(f"num_classes: expected at least 2, got {k}")
    rows, _, valid = _prepare.prepare(data, num_classes=k)
    first, second = (jnp.asarray(a, rows.y.dtype) for a in pairwise.pairs(k))
    classes = jnp.arange(k, dtype=rows.y.dtype)
    seen = (rows.y[None, :] == classes[:, None]) & (rows.weight > 0)[None, :]
    present = _mesh.any_rows(seen.T, rows.axis)
    options = _options.join(_options.Options(static, traced))
    dtype = _checks.working_dtype(data.x)
    given = data.sample_weight
    weight = jnp.ones(rows.weight.shape, dtype) if given is None else given

    def binary(x, label, weight, key=None):
        keys = {} if key is None else {"key": key}
        return fit(x, label.astype(jnp.int32), sample_weight=weight, **options, **keys)

    def of_all(pair):
        # A row of another class may hold anything.
        first, second, key = pair
        inside = (rows.y == first) | (rows.y == second)
        return binary(data.x, rows.y == second, jnp.where(inside, weight, 0), key)

    def of_own(pair):
        _, second, own = pair
        n = rows.y.size
        at = jnp.minimum(own, n - 1)
        return binary(data.x[at], rows.y[at] == second, jnp.where(own < n, weight[at], 0))

    if own is None:
        keys = None if key is None else jax.random.split(key, len(first))
        result = jax.vmap(of_all)((first, second, keys))
    else:
        size = _lanes.even_size(len(own), own.shape[1] * data.x.shape[1], dtype)
        result = _lanes.chunked(of_own, (first, second, own), size)
    planes, infos = _checked(result)
    here, there = present[first], present[second]
    info = _summary(infos, here & there, valid)
    few = valid & (jnp.sum(present) < 2)
    info = info._replace(status=jnp.where(few, jnp.int32(Status.CLASS_TOO_SMALL), info.status))
    alone = _checks.safe_range(dtype) * (there.astype(dtype) - here.astype(dtype))
    weights, bias = planes
    weights = jnp.where((here & there)[:, None], weights, jnp.zeros((), weights.dtype))
    bias = jnp.where(here & there, bias, alone)
    usable = info.status != Status.INVALID_DATA
    return Pairwise(*(jnp.where(usable, a, jnp.nan) for a in (weights, bias))), info


def _checked(result: Any) -> tuple[Hyperplane, Info]:
    """The result of a user's fit, if it is what a binary fit returns."""
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Info)):
        raise TypeError(
            f"fit: expected a binary fit that returns (Hyperplane, Info), got {_kind(result)}"
        )
    if not isinstance(result[0], Hyperplane):
        raise TypeError(
            "fit: expected a binary fit that returns a Hyperplane, "
            f"got params of type {_kind(result[0])}"
        )
    return result


def _kind(value: Any) -> str:
    return type(value).__name__


def _gather(planes: Hyperplane, present: jax.Array, usable: jax.Array) -> Linear:
    weights, bias = planes
    weights = jnp.where(present[:, None], weights, jnp.zeros((), weights.dtype))
    bias = jnp.where(present, bias, -jnp.inf)
    return Linear(
        weights=jnp.where(usable, weights, jnp.nan), bias=jnp.where(usable, bias, jnp.nan)
    )


def _summary(infos: Info, present: jax.Array, valid: jax.Array) -> Info:
    def largest(values, floor):
        return jnp.max(jnp.where(present, values, jnp.asarray(floor, values.dtype)))

    status = largest(infos.status, Status.CONVERGED)
    invalid = jnp.asarray(Status.INVALID_DATA, status.dtype)
    nan = jnp.asarray(jnp.nan, infos.residual.dtype)
    return Info(
        status=jnp.where(valid, status, invalid),
        steps=largest(infos.steps, 0),
        objective=jnp.where(valid, jnp.sum(jnp.where(present, infos.objective, 0)), nan),
        residual=jnp.where(valid, largest(infos.residual, 0), nan),
    )


def _raise_if_invalid(fit, info, data, k, key, options):
    """Let the first binary fit that finds fault say so in its own words, then judge the labels."""
    if not _checks.concrete(info.status) or info.status != Status.INVALID_DATA:
        return
    weights = {} if data.sample_weight is None else {"sample_weight": data.sample_weight}
    keys = {} if key is None else {"key": key}
    fit(data.x, (data.y == data.y[0]).astype(jnp.int32), **weights, **keys, **options)
    _invalid.raise_if_invalid(info, data, num_classes=k)

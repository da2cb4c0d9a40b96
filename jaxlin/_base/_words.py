"""What is said of an argument that is of another kind than asked for: the words, and where to turn.

Each is one line that names the argument, what was expected, what came, and what makes the one of
the other. It is looked at on the host, once it is known that it is wrong.
"""

import datetime
import functools
import inspect
import numbers
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np

P = ParamSpec("P")
R = TypeVar("R")

# Arguments that tell rows apart, so that any values can be numbered.
OF_CLASSES = ("y", "groups", "strata", "clusters")
ENCODE = "jaxlin.labels.encode numbers any values"
# Arguments that others have: what ours is called, and what is said of it.
OF_OTHERS = {
    "C": ("l2", "l2=losses.l2_from_C(C, number_of_rows) is the same penalty"),
    "class_weight": ("sample_weight", "resample.on_balanced(fit) balances the classes"),
    "fit_intercept": ("bias", "bias=False fits none"),
    "max_iter": ("max_steps", "the cap is max_steps"),
    "random_state": ("key", "key=jax.random.key(0) is drawn from"),
}


def keyed(f: Callable[P, R]) -> Callable[P, R]:
    """A function whose first argument is a PRNG key, which says so where that was forgotten."""

    @functools.wraps(f)
    def call(*arguments: P.args, **options: P.kwargs) -> R:
        if arguments or "key" in options:
            refuse_other_than_key(arguments[0] if arguments else options["key"])
        return f(*arguments, **options)

    return call


def refuse_other_than_key(key: Any) -> None:
    """Raise a TypeError unless it is a PRNG key, or an array of the integers of an old one."""
    dtype = getattr(key, "dtype", None)
    old = dtype == np.uint32 and np.ndim(key) == 1
    if not old and (dtype is None or not jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)):
        got = f"{key!r:.60}" if dtype is None else f"{dtype} of shape {np.shape(key)}"
        raise TypeError(f"key: expected a PRNG key, as of jax.random.key(0), got {got}")


def a_fit(f: Callable[P, R]) -> Callable[P, R]:
    """A fit that names what it has instead of what others have, and for rows in many places."""
    known = frozenset(inspect.signature(f).parameters)

    @functools.wraps(f)
    def call(*arguments: P.args, **options: P.kwargs) -> R:
        for name in options.keys() - known:
            ours, way_out = OF_OTHERS.get(name, ("", ""))
            said = f"; {way_out}" if ours in known else f"; it takes {', '.join(sorted(known))}"
            where = f"{f.__module__.removeprefix('jaxlin.')}.{f.__name__}()"
            raise TypeError(f"{where} got an unexpected keyword argument {name!r}{said}")
        x = arguments[0] if arguments else options.get("x")
        if isinstance(x, jax.Array) and options.get("axis_name") is None:
            _refuse_dealt(x)
        return f(*arguments, **options)

    return call


def _refuse_dealt(x: jax.Array) -> None:
    """Raise a ValueError where rows are dealt over a mesh axis that their type tells."""
    axis = next(iter(jax.typeof(x).sharding.spec), None)
    if axis is not None:
        raise ValueError(
            f"x: its rows are dealt over the mesh axis {axis!r}, and this fit needs them in one "
            "place: distributed.data_parallel(fit, mesh) is the same fit over rows that are dealt"
        )


def refuse_no_fit(fit: Any) -> None:
    """Raise a TypeError unless it can be called as a fit: a module or an estimator cannot."""
    if not callable(fit) or isinstance(fit, type):
        words = "expected a function fit(x, y, *, ...) -> (params, Info), as logistic.fit"
        raise TypeError(f"fit: {words}, got {fit!r:.60}")


def refuse_other_metric(metric: Any) -> None:
    """Raise a TypeError for the name of a metric, and for scikit-learn's, whose truth is first."""
    if callable(metric):
        try:
            if "y_true" not in inspect.signature(metric).parameters:
                return
        except (TypeError, ValueError):  # a callable that hides its signature
            return
    words = "expected a function of (scores, y, *, sample_weight) in jax.numpy, as metrics.accuracy"
    raise TypeError(f"metric: {words}, got {getattr(metric, '__name__', metric)!r:.60}")


def refuse_splits(weights: Any, name: str) -> None:
    """Raise a TypeError for scikit-learn's folds: a number, a splitter, or pairs (train, test)."""
    pairs = isinstance(weights, list | tuple) and any(
        isinstance(pair, list | tuple) and [np.ndim(a) for a in pair] == [1, 1] for pair in weights
    )
    others = isinstance(weights, int) or hasattr(weights, "split") or hasattr(weights, "__next__")
    if pairs or others:
        raise TypeError(
            f"{name}: expected weights (folds, n), 1 where a row trains, as resample.kfold makes "
            f"them, got {'(train, test) indices' if pairs else type(weights).__name__}; of such, "
            "[np.isin(np.arange(n), train) for train, test in splits]"
        )


def no_numbers(given: Any, host: np.ndarray, name: str) -> str:
    """Of an array, or what numpy made `host` of, that holds something else than numbers."""
    said = f"{name}: expected numbers, got dtype {host.dtype}"
    if hasattr(given, "tocsr"):
        kind = type(given).__name__
        return (
            f"{name}: expected an array, got a {kind}; jaxlin.sparse.from_scipy({name}) stands in "
            f"its place, and {name}.toarray() is dense"
        )
    if hasattr(given, "todense"):
        kind = type(given).__name__
        return f"{name}: expected an array, got a {kind}; {name}.todense() is one"
    if name in OF_CLASSES:
        return f"{said}; {ENCODE}"
    odd = next((at for at, value in np.ndenumerate(host) if not _is_number(value)), None)
    if odd is None:
        return f"{said} (columns of mixed kinds become numbers by .astype(float))"
    value = host[odd]
    what = "dates" if isinstance(value, _DATES) else "text"
    what = what if isinstance(value, (str, bytes, *_DATES)) else type(value).__name__
    if len(odd) != 2:
        return f"{said}: {what}, as {value!s:.40}" if odd else said
    column = list(getattr(given, "columns", range(host.shape[1])))[odd[1]]
    return (
        f"{said}: column {column!r} holds {what}, as {value!s:.40}; pandas.get_dummies(frame, "
        "dtype=float) makes columns of 0 and 1 of categories, and dates become numbers as you say"
    )


_DATES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


def _is_number(value: Any) -> bool:
    """Whether `.astype(float)` makes it one; a missing value is NaN."""
    missing = value is None or type(value).__name__ == "NAType"
    return missing or isinstance(value, numbers.Number | np.bool_)

"""How functions of fits hand on `**options`: functions and switches static, numbers traced.

A combinator jits once at module level, so what a fit was asked for must be split into what the
program is made of (a solver, a loss, `bias=False`) and what it may be called with again and again
(`l2`, `tol`, `max_steps`), for which one compile serves all values.
"""

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin._base import _checks

ALWAYS_STATIC = ("num_classes", "num_groups")
# What jax raises where a value is asked for that is not known while a program is made.
UNKNOWN = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
P = ParamSpec("P")
R = TypeVar("R")


class Options(NamedTuple):
    """The keyword arguments of a fit, split.

    static: `(name, value)` pairs, hashable: functions, bools, strings and None
    traced: numbers, arrays and pytrees of them, by name
    """

    static: tuple[tuple[str, Any], ...]
    traced: dict[str, Any]


def split(options: dict[str, Any], dtype: Any) -> Options:
    """Tell the static options from the traced ones, whose Python floats become `dtype`."""
    options = {name: _as_array(value) for name, value in options.items()}
    traced = {
        name: jax.tree.map(functools.partial(_number, dtype=dtype), value)
        for name, value in options.items()
        if name not in ALWAYS_STATIC and _is_numeric(value)
    }
    static = tuple(sorted((n, _hashable(n, v)) for n, v in options.items() if n not in traced))
    return Options(static=static, traced=traced)


def explained(f: Callable[P, R]) -> Callable[P, R]:
    """A function of a fit and its options, which names the option whose value the fit asks for."""

    @functools.wraps(f)
    def call(*arguments: P.args, **options: P.kwargs) -> R:
        try:
            return f(*arguments, **options)
        except UNKNOWN as error:
            names = re.findall(r"value of the argument \w+(?:\[\d\])?\['(\w+)'\]", str(error))
            if names:
                said = (
                    f"{names[0]}: the fit asks for its value, but numbers among the options are "
                    f"traced, so that one program serves all; hand on "
                    f"functools.partial(fit, {names[0]}=...), which keeps it static"
                )
            elif isinstance(error, jax.errors.TracerArrayConversionError):
                said = "a fit or metric of numpy: they are traced, so write them in jax.numpy"
            else:
                raise
            raise TypeError(said) from error

    return call


def join(options: Options) -> dict[str, Any]:
    """The keyword arguments again."""
    return {**dict(options.static), **options.traced}


def with_classes(fit: Callable, options: dict[str, Any], y: Any, sample_weight: Any) -> dict:
    """`options`, with `num_classes` and `num_groups` inferred if a fit has them and they are open.

    Inside a combinator's vmap a fit cannot see the largest label; here it can still be looked up.
    """
    options = with_groups(fit, options)
    if options.get("num_classes") is None and not _leaves_classes_open(fit):
        return options
    k = _checks.number_of_classes(options.get("num_classes"), y, sample_weight)
    return {**options, "num_classes": k}


def with_groups(fit: Callable, options: dict[str, Any]) -> dict:
    """`options`, with `num_groups` inferred likewise."""
    groups = options.get("groups")
    open_ = groups is not None and options.get("num_groups") is None and takes(fit, "num_groups")
    if not (open_ and _checks.concrete(groups)):
        return options
    return {**options, "num_groups": 1 + int(np.max(np.asarray(groups), initial=0))}


def number_of_classes(fit: Callable, options: dict[str, Any]) -> int:
    """k of a fit with these options, or 2 of one that has no such argument."""
    k = options.get("num_classes")
    if k is None and takes(fit, "num_classes"):
        k = inspect.signature(fit).parameters["num_classes"].default
    return 2 if k is None else k


@functools.cache
def takes(fit: Callable, name: str, *, among_others: bool = False) -> bool:
    """Whether a fit has an argument of this name, or, `among_others`, one of any name."""
    try:
        parameters = inspect.signature(fit).parameters
    except (TypeError, ValueError):  # a callable that hides its signature
        return False
    open_to = {p.kind for p in parameters.values()}
    return name in parameters or (among_others and inspect.Parameter.VAR_KEYWORD in open_to)


def with_arguments_of(fit: Callable, made: Callable, *, but: tuple[str, ...] = ()) -> Callable:
    """`made`, which hands its `**options` to `fit`, says by its signature what it takes.

    So a combinator of a combinator finds `l2` or `num_classes` there. `but`: what is not handed on.
    """
    try:
        theirs = inspect.signature(fit).parameters
    except (TypeError, ValueError):  # a callable that hides its signature
        return made
    *own, others = inspect.signature(made).parameters.values()
    known = {p.name for p in own} | set(but)
    added = [p for p in theirs.values() if p.kind is p.KEYWORD_ONLY and p.name not in known]
    open_to = [others] if any(p.kind is p.VAR_KEYWORD for p in theirs.values()) else []
    # `inspect` reads it; the type of functions does not declare it.
    made.__signature__ = inspect.Signature([*own, *added, *open_to])  # type: ignore[attr-defined]
    return made


@functools.cache
def _leaves_classes_open(fit: Callable) -> bool:
    try:
        parameter = inspect.signature(fit).parameters.get("num_classes")
    except (TypeError, ValueError):  # a callable that hides its signature
        return False
    # A default other than None was bound by functools.partial.
    return parameter is not None and parameter.default in (None, inspect.Parameter.empty)


def _as_array(value: Any) -> Any:
    """A list of numbers is an array, not a tree of scalars."""
    if type(value) not in (list, tuple) or not value:
        return value
    if any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(value)):
        return value
    try:
        array = np.asarray(value)
    except ValueError:  # ragged: let the fit say so
        return value
    return array if array.dtype.kind in "biuf" else value


def _is_numeric(value: Any) -> bool:
    leaves = jax.tree.leaves(value)
    return bool(leaves) and all(
        isinstance(leaf, jax.Array | np.ndarray | np.generic | int | float)
        and not isinstance(leaf, bool | np.bool_)
        for leaf in leaves
    )


def _number(leaf: Any, dtype: Any) -> Any:
    """Strongly typed, so that 0.1 and an array of 0.1 share one compile; ints fit in 32 bits."""
    if isinstance(leaf, jax.Array):
        if leaf.ndim or leaf.dtype == jnp.bool_:
            return leaf
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            return leaf.astype(dtype)
        return jnp.minimum(leaf, np.iinfo(np.int32).max).astype(jnp.int32)
    if np.ndim(leaf) or isinstance(leaf, bool | np.bool_):
        return leaf
    if isinstance(leaf, float | np.floating) or np.asarray(leaf).dtype.kind == "f":
        return np.asarray(leaf, dtype)
    limits = np.iinfo(np.int32)
    return np.int32(min(max(int(leaf), limits.min), limits.max))


def _hashable(name: str, value: Any) -> Any:
    if name in ALWAYS_STATIC and isinstance(value, jax.core.Tracer):
        return _checks.static(value, int, name)
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"{name}: expected numbers, arrays, or a static value that can be hashed, "
            f"got {type(value).__name__}"
        ) from None
    return value

"""What a fit or a solver offers beside itself, declared by its module in one line.

A `functools.partial` of it by keywords offers the same.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple


class Traits(NamedTuple):
    """None, or False, is what is not offered.

    loss: a `_record.Loss`, of a fit that the engine for smooth losses finds
    many: a `_closed_form.Offer`, of many fits to the same rows at once
    moments: `(of, finish)`, what makes statistics that merge, and what finds the params of them
    skips: whether rows of weight 0 may as well be left out, so that rows can be gathered
    method: an `_iterate.Method`, of a solver
    nothing: `(k, d, dtype)` -> zeros in the place of the params
    lean: whether it is one of those that `_lean` may make so
    counts: whether no entry of x may be negative
    log_odds: whether the scores are log-odds, so that probabilities mean something
    together: `(shape, dtype, options)` -> whether lanes of one x of this shape are found together,
      in products with x, so that none holds a matrix
    """

    loss: Any = None
    many: Any = None
    moments: tuple[Callable, Callable] | None = None
    skips: bool = False
    method: Any = None
    nothing: Callable[[int, int, Any], Any] | None = None
    lean: bool = False
    counts: bool = False
    log_odds: bool = False
    together: Callable[[tuple[int, ...], Any, dict[str, Any]], bool] | None = None


_DECLARED: dict[Callable, Traits] = {}


def declare(*functions: Callable, **traits: Any) -> None:
    for f in functions:
        _DECLARED[f] = Traits(**traits)


def of(f: Callable) -> Traits:
    return _DECLARED.get(bare(f, {})[0], Traits())


def passed_on(fit: Callable) -> dict[str, Any]:
    """What a fit made of another offers as that does."""
    traits = of(fit)
    names = ("nothing", "lean", "counts", "log_odds", "together")
    return {name: getattr(traits, name) for name in names}


def bare(f: Callable, options: dict[str, Any]) -> tuple[Callable, dict[str, Any]]:
    """f without what a `functools.partial` binds by name, and `options` with that."""
    held: Any = f
    while isinstance(held, functools.partial) and not held.args:
        held, options = held.func, held.keywords | options
    return held, options

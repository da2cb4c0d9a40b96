"""Functions that are traced once for all the places of a program that call them."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax

P = ParamSpec("P")
R = TypeVar("R")


def once(*static: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: calls of the same shapes and `static` arguments share one trace.

    A rule of `custom_vmap` is traced beside what it is a rule for, and its lanes as one of them, so
    the engine would be gone through five times for a fit in two vmaps: most of what a first call
    takes before it is compiled.
    """

    def decorate(f: Callable[P, R]) -> Callable[P, R]:
        return functools.wraps(f)(anywhere(jax.jit(f, static_argnames=static)))

    return decorate


def anywhere(program: Callable[P, R]) -> Callable[P, R]:
    """A jitted program, whose trace is the same outside of a vmap and inside.

    For jax no mesh is something else there than here.
    """

    def call(*arguments: P.args, **options: P.kwargs) -> R:
        with jax.sharding.use_abstract_mesh(jax.sharding.get_abstract_mesh()):
            return program(*arguments, **options)

    return call

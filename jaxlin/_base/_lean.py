"""Programs that hold only what most fits need, for many fits at once.

What a program holds is compiled whether it is used or not, and few fits need the proofs for optima
that are at infinity, or are many, or the steps for those that are hard to find. So whoever has
concrete data first runs a program whose fits are lean, and the whole one only where a lane could
not be settled, which it says in the place of its status; from then on that one at once.
"""

import contextvars
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin._base import _checks, _traits
from jaxlin.types import Info

# In the place of a status: the largest of any that it is among.
UNSETTLED = 100
# Programs that once have left a lane unsettled, with the shapes that they are for.
_LEFT: set[Any] = set()
_HOW: contextvars.ContextVar[bool | None] = contextvars.ContextVar("how", default=None)


class Lean(functools.partial):
    """A fit, lean wherever it is traced: a partial, so that it offers what the fit does.

    penalised: whether every l2 that it will be called with is positive
    """

    penalised: bool

    def __call__(self, /, *arguments: Any, **options: Any) -> Any:
        before = _HOW.set(self.penalised)
        try:
            return super().__call__(*arguments, **options)
        finally:
            _HOW.reset(before)


def how() -> bool | None:
    """Whether every l2 of the fit that is being traced is positive, or None if it is not lean."""
    return _HOW.get()


def told(info: Info, unsettled: jax.Array) -> Info:
    """The Info of a lean fit."""
    return info._replace(status=jnp.where(unsettled, UNSETTLED, info.status))


@functools.cache
def of(fit: Callable, penalised: bool | None) -> Callable:
    """The fit, lean unless `penalised` is None; the same function for the same fit."""
    if penalised is None:
        return fit
    lean = Lean(fit)
    lean.penalised = penalised
    return lean


def first(run: functools.partial, fit: Callable, together: bool, l2: Any, arguments: Any) -> Any:
    """`run(penalised, arguments)`, a program of many fits, lean where that settles all of them.

    Args:
      run: a jitted function, bound to what is static of it, that makes its fits by `of`; all that
        it returns of their status is in its Infos.
      fit: what it runs.
      together: whether its lanes are found together, which without a penalty settles none.
      l2: all that the fits are called with.
      arguments: of the program.
    """
    if not (_traits.of(fit).lean and _checks.concrete((l2, arguments))):
        return run(None, arguments)
    given = np.asarray(l2)  # what is no number the fit is to name
    penalised = given.dtype.kind in "biuf" and bool(np.all(given > 0))
    leaves, structure = jax.tree.flatten(arguments)
    program = run.func, run.args, structure, *((np.shape(a), jnp.result_type(a)) for a in leaves)
    if program not in _LEFT and (penalised or not together):
        found = run(penalised, arguments)
        if not _is_unsettled(found):
            return found
        _LEFT.add(program)
    return run(None, arguments)


def _is_unsettled(found: Any) -> bool:
    parts = jax.tree.leaves(found, is_leaf=lambda part: isinstance(part, Info))
    known = [part.status for part in parts if isinstance(part, Info)]
    return any(not _checks.concrete(s) or np.any(np.asarray(s) == UNSETTLED) for s in known)

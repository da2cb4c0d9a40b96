"""The vocabulary: what a classifier is, and what a fit says about itself.

Parameters are NamedTuples of arrays and nothing else, one type per meaning, so that they travel
through every JAX transformation. Shapes: `d` features, `k` classes. Build them by keyword.

Every fit returns `(params, Info)`. `Info.status` is data, not an exception: under `jax.vmap` each
lane has its own. `raise_if_failed` and `describe` turn it into words on the host.
"""

import enum
import functools
import importlib
import operator
from collections import Counter
from typing import Any, NamedTuple

import jax
import numpy as np


class Hyperplane(NamedTuple):
    """A binary linear classifier: class 1 where `weights . x + bias > 0`.

    weights: `(d,)`
    bias: `()`
    """

    weights: jax.Array
    bias: jax.Array


class Linear(NamedTuple):
    """A linear classifier of k classes: the largest of `weights @ x + bias` wins.

    weights: `(k, d)`, a row per class
    bias: `(k,)`
    """

    weights: jax.Array
    bias: jax.Array


class Quadratic(NamedTuple):
    """A quadratic classifier: the largest of `x' quadratic[c] x + weights[c] . x + bias[c]` wins.

    quadratic: `(k, d, d)`, symmetric
    weights: `(k, d)`
    bias: `(k,)`
    """

    quadratic: jax.Array
    weights: jax.Array
    bias: jax.Array


class Gaussian(NamedTuple):
    """Gaussian classes, each with its own covariance.

    means: `(k, d)`
    covariances: `(k, d, d)`
    priors: `(k,)`, sum 1
    """

    means: jax.Array
    covariances: jax.Array
    priors: jax.Array


class TiedGaussian(NamedTuple):
    """Gaussian classes that share one covariance.

    means: `(k, d)`
    covariance: `(d, d)`
    priors: `(k,)`, sum 1
    """

    means: jax.Array
    covariance: jax.Array
    priors: jax.Array


class DiagonalGaussian(NamedTuple):
    """Gaussian classes whose columns are independent; a column of variance 0 is not seen.

    means: `(k, d)`
    variances: `(k, d)`
    priors: `(k,)`, sum 1
    """

    means: jax.Array
    variances: jax.Array
    priors: jax.Array


class Ordinal(NamedTuple):
    """Classes in order along one score: P(y <= j) = sigmoid(thresholds[j] - weights . x).

    weights: `(d,)`; the higher `weights . x`, the higher classes are likely
    thresholds: `(k - 1,)`, in ascending order
    """

    weights: jax.Array
    thresholds: jax.Array


class Pairwise(NamedTuple):
    """One hyperplane per pair of classes i < j in lexicographic order, positive for j.

    weights: `(k (k - 1) / 2, d)`
    bias: `(k (k - 1) / 2,)`
    """

    weights: jax.Array
    bias: jax.Array


class Status(enum.IntEnum):
    """How a fit ended: fixed numbers, ascending in severity; the largest that holds is told."""

    meaning: str

    def __new__(cls, value: int, meaning: str = "") -> "Status":
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    @classmethod
    def _missing_(cls, value: Any) -> Any:
        """The status of an array's number, which some Pythons look for by its hash alone."""
        try:
            return cls._value2member_map_.get(operator.index(value))
        except TypeError:
            return None

    CONVERGED = 0, "the optimum: residual <= tol, and a finite optimum is proved"
    RANK_DEFICIENT = 1, "many optima: that of least norm unless l1; inference.aliased names columns"
    STALLED = 2, "at the floor of this dtype above tol, or without a proof; best so far"
    MAX_STEPS = 3, "ran out of steps; best so far"
    QUASI_SEPARABLE = 4, "the optimum is at infinity: a plane splits the classes, some rows on it"
    SEPARABLE = 5, "the optimum is at infinity: a plane strictly separates the classes"
    NOT_SEPARABLE = 6, "a separating plane was asked for, and to rounding none exists"
    CLASS_TOO_SMALL = 7, "fewer than two classes have weight, or a class has too little"
    INVALID_DATA = 8, "NaN or Inf, a label outside the classes, or a negative or missing weight"


class Info(NamedTuple):
    """What a fit says about itself.

    status: `()` int32, a `Status`
    steps: `()` int32, the number of updates or iterations
    objective: `()`, what was minimised, at the returned params; its derivative is that at fixed
      params, as at an optimum it is, and NaN where that of the params is
    residual: `()`, a unit-free measure of optimality that each module states; it has no derivative:
      NaN where one is used

    Those of the perceptron and of the hinge are derivatives of their steps, and numbers of the
    residual too; the hinge's, whose steps leave rows of weight 0 out, are NaN in such a weight.
    """

    status: jax.Array
    steps: jax.Array
    objective: jax.Array
    residual: jax.Array


class FitError(RuntimeError):
    """A fit did not succeed, and `raise_if_failed` was asked to insist."""


def raise_if_failed(info: Info, *, params: Any = None, x: Any = None, y: Any = None) -> None:
    """Raise unless every lane succeeded, that is unless `status <= Status.RANK_DEFICIENT`.

    A host-side helper: call it outside of `jit`.

    Args:
      info: of any shape; a vmapped fit has one entry per lane.
      params, x, y: of one linear fit, if its columns are to be named.

    Raises:
      FitError: names the first lane that failed and what its status means. STALLED in float32,
        as of columns that depend on each other or lie far from 0 (years), float64 mostly ends. Of
        which columns a separable fit has no finite coefficients, `inference.separation` says, and
        the error, if it is given the data.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin.types import Info, Status, raise_if_failed
      >>> good = Info(jnp.int32(0), jnp.int32(5), jnp.float32(0.3), jnp.float32(0.0))
      >>> raise_if_failed(good)
      >>> raise_if_failed(good._replace(status=jnp.int32(Status.MAX_STEPS)))
      Traceback (most recent call last):
      ...
      jaxlin.types.FitError: MAX_STEPS: ran out of steps; best so far (steps 5, residual 0)
    """
    status = _concrete(info.status, "raise_if_failed")
    failed = np.argwhere(status > Status.RANK_DEFICIENT)
    if not len(failed):
        return
    lane = tuple(int(i) for i in failed[0])
    worst = Status(int(status[lane]))
    steps, residual = np.asarray(info.steps)[lane], np.asarray(info.residual)[lane]
    where = f"lane {', '.join(map(str, lane))} of {status.size} ({len(failed)} failed): "
    raise FitError(
        f"{where if lane else ''}{worst.name}: {worst.meaning} "
        f"(steps {int(steps)}, residual {float(residual):.3g}){_way_out(worst, info, params, x, y)}"
    )


def describe(info: Info, *, params: Any = None, x: Any = None, y: Any = None) -> str:
    """Count the lanes by status, the most severe first.

    A host-side helper: call it outside of `jit`.

    Args:
      info: of any shape; a vmapped fit has one entry per lane.
      params, x, y: of one linear fit, if its columns are to be named: those of infinite
        coefficients, or of x alone those that others give.

    Returns:
      One line per status that occurs: its name, the number of lanes, and what it means.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin.types import Info, describe
      >>> lanes = Info(jnp.array([0, 0, 3]), jnp.zeros(3, int), jnp.zeros(3), jnp.zeros(3))
      >>> print(describe(lanes))
      MAX_STEPS: 1 of 3 lanes, ran out of steps; best so far
      CONVERGED: 2 of 3 lanes, the optimum: residual <= tol, and a finite optimum is proved
    """
    status = _concrete(info.status, "describe")
    counts = sorted(Counter(status.ravel().tolist()).items(), reverse=True)
    return "\n".join(
        f"{Status(code).name}: {count} of {status.size} lane{'s' * (status.size != 1)}, "
        f"{Status(code).meaning}{_way_out(Status(code), info, params, x, y)}"
        for code, count in counts
    )


def _way_out(status: Status, info: Info, params: Any, x: Any, y: Any) -> str:
    """What to do about a fit without an optimum, or where float32 has no more digits."""
    # The data's words are found where the data's functions are, far above this module.
    inference = functools.partial(importlib.import_module, "jaxlin.inference")
    if status == Status.RANK_DEFICIENT and x is not None:
        return f"; those before them give {_columns(inference().aliased(x), x)}"
    if status in (Status.QUASI_SEPARABLE, Status.SEPARABLE) and params is not None:
        weights = np.atleast_2d(inference().separation(params, x, y).coefficients.weights)
        return f"; {_columns(np.any(np.isinf(weights), axis=0), x)} have infinite coefficients"
    if status in (Status.QUASI_SEPARABLE, Status.SEPARABLE):
        return "; inference.separation(params, x, y).coefficients says which columns' are infinite"
    if status != Status.STALLED or np.asarray(info.residual).dtype.itemsize > 4:
        return ""
    return (
        '; float64 has the digits that float32 lacks: jax.config.update("jax_enable_x64", True), '
        "and x in float64"
    )


def _columns(which: Any, x: Any) -> str:
    """In words, by their names if they have some."""
    names = getattr(x, "columns", range(len(which)))
    return "columns " + ", ".join(str(n) for n, here in zip(names, which, strict=True) if here)


def _concrete(status: Any, caller: str) -> np.ndarray:
    if isinstance(status, jax.core.Tracer):
        raise TypeError(
            f"{caller} reads concrete values: call it outside of jit, vmap and grad, "
            "or test `info.status <= Status.RANK_DEFICIENT` inside"
        )
    return np.asarray(status)

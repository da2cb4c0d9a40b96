"""How a smooth fit is found and proved: one function of what is static about it.

Nothing else asks how large x is. The default, of n rows and m p coordinates, p = d + 1 of each of m
degrees of freedom, is the first of these that holds:

| a fit | is found by |
|---|---|
| m p > 256, n < d, every l2 > 0 | Newton's method in the space of the rows |
| m p <= 256, few entries of x | Newton's method with a Hessian, whose factor is the proof |
| m = 1, m p <= 256, n >= 512 p | BFGS from the optimum of a sample of the rows |
| m > 1, or x a table of `sparse` | Newton's method by conjugate gradients |
| any other | optax's L-BFGS, in units of a sample's Hessian |

Few entries of x are 100,000 where every l2 is known to be positive, or any number in lanes that
share fewer than 64 columns; and elsewhere a million, or any number in lanes, of streams, and where
steps are counted or rows or lanes are dealt. Of the last three, that every l2 is positive is the
proof; where it is not, the Hessian of some of the rows may be, or of all; and up to 1,024
coordinates Newton's method goes on from what is not proved. Lanes that share x go together where
`together` says so, see `_axes`. Shapes as in `_passes`.
"""

import enum
import math
from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxlin import solvers
from jaxlin._smooth._frame import HELD_ENTRIES
from jaxlin._smooth._passes import SHARED_LIMIT
from jaxlin._smooth._record import Spec

# Up to this many coordinates the default is Newton's method, and another beyond.
NEWTON_LIMIT = 256
# With more entries of x than this a solver without Hessian is 2 to 4 times as fast.
NEWTON_ENTRIES = 100_000
# Or with more than this where no penalty is known to see to an optimum: its proof is compiled too.
DOUBTFUL_ENTRIES = 1_000_000
# Up to this many, an optimum found without a Hessian is finished and proved with one.
DENSE_LIMIT = 1024
# Rows per coordinate from which the sample that an optimum is found of is a small part of all.
SPARED_ROWS = 512
# Columns of a row up to which the curvature of a sample is a matrix.
MATRIX_LIMIT = 1024
# Caps on the steps unless the user gives one; and, where there may be no optimum, of the default
# before it turns to Newton's method, which tells. That is twice what other fits need.
NEWTON_STEPS, OTHER_STEPS, DOUBTFUL_STEPS = 100, 1000, 50
# Coordinates from which the axes are worth their finding, by the bytes of a number (in float64
# Newton's steps are of float32 where lanes are many); where lanes are of other labels, which share
# no products of columns in a Hessian; and coordinates up to which.
LEAST_AXES, LEAST_OF_LABELS, MOST_AXES = {4: 16, 8: 48}, 8, 4097
# And of a stream, of which each lane alone would take as many passes as all.
MOST_STREAMED = 8193
# Lanes from which steps in float32 are worth a longer program, and entries of x in all of them.
LANES, LANE_ENTRIES = 8, 200_000


class Method(enum.Enum):
    """What finds an optimum."""

    NEWTON = "Newton's method with a Hessian"
    SAMPLED = "BFGS from the optimum of a sample"
    NEWTON_CG = "Newton's method by conjugate gradients"
    LBFGS = "L-BFGS, or the user's solver"


class Space(enum.Enum):
    """Where Newton's method works: EITHER where only l2 tells, which is traced."""

    FEATURES = "features"
    ROWS = "rows"
    EITHER = "either"


class Units(enum.Enum):
    """In which L-BFGS starts: those of a sample's Hessian or its diagonal, or this one first."""

    MATRIX = "matrix"
    DIAGONAL = "diagonal"
    DIAGONAL_FIRST = "diagonal, then matrix"


class Plan(NamedTuple):
    """How a fit is found and proved.

    doubtful: whether there may be no optimum, which the solver alone does not tell
    finished: whether Newton's method goes on from what a solver without Hessian has left
    steps: the default's cap, and more of them for a proof of its own
    lean: whether an eager call first tries a program without the paths that few fits take
    """

    method: Method
    space: Space
    units: Units
    doubtful: bool
    finished: bool
    steps: int
    more: int
    lean: bool


def plan(
    spec: Spec,
    shape: tuple[int, ...],
    m: int,
    *,
    devices: int | None = None,
    counted: bool = False,
    dealt: bool = False,
    streamed: bool = False,
    begun: bool = False,
    shared: bool | None = None,
    sparse: bool = False,
) -> Plan:
    """The plan of a fit to x of this `shape`, of m degrees of freedom a row.

    Args:
      devices: of a mesh axis over which the rows are dealt, each with so many, or None.
      counted: whether the user caps the steps, of which Newton's method makes the most.
      dealt: whether lanes are dealt over a mesh axis.
      streamed: whether x is read from a source, pass by pass.
      begun: whether the user gives a start.
      shared: None for one fit; else of lanes, whether they are of one x.
      sparse: whether x is a table whose zeros are not held.
    """
    (n, d), p = shape, shape[1] + spec.bias
    size, rows = m * p, n * (devices or 1)
    default, held = spec.solver is None, bool(spec.penalised)
    if shared is not None:
        # Lanes of one narrow x share the products of its columns, and Newton's is the quickest.
        large = held and not (shared and m == 1 and d < SHARED_LIMIT)
    else:
        large = held or not (counted or dealt or streamed or devices)
    entries = NEWTON_ENTRIES if held else DOUBTFUL_ENTRIES
    newton = size <= NEWTON_LIMIT and not (large and n * d > entries)
    newton = newton if default else spec.solver is solvers.newton
    sampled = default and m == 1 and size <= NEWTON_LIMIT and not streamed and spares(rows, p)
    dense = size <= DENSE_LIMIT
    # Each is a pass, of which a stream takes few.
    products = (spec.loss.bend is not None or sparse) and not streamed
    doubtful = default and not held and dense and not streamed
    wide = default and size > NEWTON_LIMIT and n < d and m * (n + spec.bias) <= DENSE_LIMIT
    wide &= devices is None and spec.penalised is not False and not sparse
    if newton:
        method = Method.NEWTON
    elif sampled and not begun:
        method = Method.SAMPLED
    else:
        method = Method.NEWTON_CG if default and products else Method.LBFGS
    units = Units.MATRIX if has_matrix(rows, p) and not sparse else Units.DIAGONAL
    if units is Units.MATRIX and default and not (streamed or sampled):
        units = Units.DIAGONAL_FIRST
    if newton:
        steps = NEWTON_STEPS
    elif doubtful:
        steps = DOUBTFUL_STEPS
    else:
        steps = NEWTON_STEPS if default and products else OTHER_STEPS
    return Plan(
        method=method,
        space=(Space.ROWS if held else Space.EITHER) if wide else Space.FEATURES,
        units=units,
        doubtful=doubtful,
        finished=dense,
        steps=steps,
        more=NEWTON_STEPS if dense and not newton and not counted else 0,
        lean=held or newton or (default and n * d > DOUBTFUL_ENTRIES),
    )


def spares(n: int, p: int) -> bool:
    """Whether the sample that an optimum is found of is a small part of all n rows."""
    return n >= SPARED_ROWS * p and has_matrix(n, p)


def has_matrix(n: int, p: int) -> bool:
    """Whether the curvature of a sample of n rows is a matrix, and not its diagonal."""
    return p <= min(MATRIX_LIMIT, n)


def together(
    spec: Spec, shape: tuple[int, ...], dtype: jnp.dtype, *, labels: bool, streamed: bool = False
) -> bool:
    """Whether lanes of one x of p columns are found together in its axes; `labels`: of other y.

    Those of a stream always are where it has as many rows: a pass serves all.
    """
    (n, p), least = shape, LEAST_OF_LABELS if labels else LEAST_AXES[dtype.itemsize]
    least, most = (1, MOST_STREAMED) if streamed else (least, MOST_AXES)
    return spec.solver is None and least <= p <= min(n, most)


def many_together(shape: tuple[int, ...], dtype: jnp.dtype, options: dict[str, Any]) -> bool:
    """Whether lanes of a fit with these options are, whatever tells them apart."""
    n, p = shape[0], shape[1] + (options.get("bias") is not False)
    default = all(options.get(name) is None for name in ("solver", "max_steps", "l1"))
    return default and LEAST_AXES[dtype.itemsize] <= p <= min(n, MOST_AXES)


def in_single(lanes: int, shape: tuple[int, ...], dtype: jnp.dtype, *, shared: bool) -> bool:
    """Whether the steps of lanes of float64 are taken in float32, in which columns are held."""
    entries = math.prod(shape)
    held = entries if shared else lanes * entries
    if dtype != jnp.float64 or held > HELD_ENTRIES:
        return False
    return lanes >= LANES and lanes * entries >= LANE_ENTRIES

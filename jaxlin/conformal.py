"""Sets of classes that hold the true one as often as is asked for, whatever the model.

Split conformal prediction (Vovk et al., 2005; Papadopoulos et al., 2002): how strange is each class
for a new row, among rows of known class that the model was not fitted to? A class is in the set
unless it is stranger than nearly all of them. If new rows are exchangeable with those, a set of
coverage 0.9 holds the true class with probability at least 0.9, and not much more.

`params, info = fit(probabilities, y)` takes the probabilities of rows that were left out (of a
split, or `resample.held_out_scores`); `sets(params, probabilities, coverage=0.9)` and
`p_values(params, probabilities)` those of new rows. How strange a class is, `score=`:

- `lac`, 1 - p_c: the smallest sets on average; they may be empty (Sadinle et al., 2019).
- `aps`, the probability of all classes that are at least as probable: larger sets where the model
  is in doubt (Romano et al., 2020). With a `key` a drawn part of the class itself counts, and the
  coverage is exact; without one all of it, and it is more than was asked for.

`by_class=True` compares a class with rows of its own only, so that each is covered as often.
Weights count rows; under covariate shift give the likelihood ratios of the calibration rows as
`sample_weight` and of the new ones as `weight` (Tibshirani et al., 2019).

A row of weight 0 is absent, whatever it holds. Shapes: `n` calibration rows, `k` classes.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlin._base import _checks
from jaxlin._scores import _conformal, _judged
from jaxlin.types import Info


class Lac(NamedTuple):
    """What `fit` learns for `lac`.

    levels: `(1, n)`, or `(k, n)` by class: how strange its rows were, from the least
    reached: of the same shape, the weight of the rows that were so strange or more
    classes: `(k,)` int32, those whose probabilities are given; [1] where it is class 1 alone
    """

    levels: jax.Array
    reached: jax.Array
    classes: jax.Array


class Aps(NamedTuple):
    """What `fit` learns for `aps`.

    levels: `(1, n)`, or `(k, n)` by class: how strange its rows were, from the least
    reached: of the same shape, the weight of the rows that were so strange or more
    classes: `(k,)` int32, those whose probabilities are given; [1] where it is class 1 alone
    """

    levels: jax.Array
    reached: jax.Array
    classes: jax.Array


def lac(probabilities: Any, *, key: jax.Array | None = None) -> jax.Array:
    """1 - p_c: how strange a class is by its own probability.

    Args:
      probabilities: `(..., k)`.
      key: not used.

    Returns:
      `(..., k)`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import conformal
      >>> conformal.lac(jnp.array([0.75, 0.25])).tolist()
      [0.25, 0.75]
    """
    return _conformal.least_ambiguous(_checks.real(probabilities, "probabilities"), None)


def aps(probabilities: Any, *, key: jax.Array | None = None) -> jax.Array:
    """The probability of the classes that are more probable, and of the class itself.

    Args:
      probabilities: `(..., k)`.
      key: a PRNG key; with it a part of the class's own probability counts, drawn for each row.

    Returns:
      `(..., k)`; of equal probabilities the lower class is taken to be more probable.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import conformal
      >>> conformal.aps(jnp.array([0.25, 0.5, 0.25])).tolist()
      [0.75, 0.5, 1.0]
    """
    p = _checks.real(probabilities, "probabilities")
    drawn = None if key is None else jax.random.uniform(key, p.shape[:-1], p.dtype)
    return _conformal.adaptive(p, drawn)


_SCORES: dict[Callable, tuple[type, Callable]] = {
    lac: (Lac, _conformal.least_ambiguous),
    aps: (Aps, _conformal.adaptive),
}


def fit(
    probabilities: Any,
    y: Any,
    *,
    score: Callable[..., jax.Array] = lac,
    by_class: bool = False,
    key: jax.Array | None = None,
    sample_weight: Any = None,
) -> tuple[Lac | Aps, Info]:
    """Learn how strange the true class of rows is that the model was not fitted to.

    Args:
      probabilities: `(n, k)`, or `(n,)` of class 1.
      y: `(n,)` class indices.
      score: static, `lac` or `aps`.
      by_class: static, whether each class is compared with its own rows only.
      key: a PRNG key, for `aps` with exact coverage; then `sets` takes one too.
      sample_weight: `(n,)`, how many rows each is, or its likelihood ratio.

    Returns:
      `(params, info)`. The status is CLASS_TOO_SMALL where a class that is to be compared with its
      own rows has none: it is in every set. The residual and objective are 0.

    Raises:
      TypeError: another score, or labels that are no integers.
      ValueError: shapes do not agree; eagerly also where probabilities, labels or weights are
        invalid.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import conformal
      >>> p, y = jnp.array([0.1, 0.3, 0.6, 0.9]), jnp.array([0, 0, 1, 1])
      >>> params, info = conformal.fit(p, y)
      >>> conformal.sets(params, jnp.array([0.2, 0.5]), coverage=0.6).tolist()
      [[True, False], [False, False]]
    """
    if score not in _SCORES:
        raise TypeError(f"score: expected conformal.lac or conformal.aps, got {score}")
    kind, strangeness = _SCORES[score]
    given = _checks.real(probabilities, "probabilities")
    p, y, weight = _judged.checked(_of_classes(given, given.ndim == 1), y, sample_weight)
    *found, info = _conformal.fit(strangeness, p, y, weight, key, bool(by_class))
    _judged.raise_if_invalid(info, p, y, weight, name="probabilities", most=1.0)
    first = int(given.ndim == 1)
    return kind(*found, classes=jnp.arange(first, p.shape[1], dtype=jnp.int32)), info


def p_values(
    params: Lac | Aps,
    probabilities: Any,
    *,
    key: jax.Array | None = None,
    weight: Any = 1.0,
) -> jax.Array:
    """How much of the calibration rows is as strange as each class, the new row among them.

    Where class c is the true one, the chance that its p-value is at most alpha is at most alpha.

    Args:
      params: as `fit` returned them.
      probabilities: `(..., k)` of new rows; `(...)` of class 1 where `fit` was given those.
      key: a PRNG key, where `fit` had one.
      weight: `()` or `(...)`, the likelihood ratios of the new rows.

    Returns:
      `(..., k)`, (weight of the rows at least as strange + weight) / (weight of all + weight).

    Raises:
      TypeError: params of another type.
      ValueError: probabilities of another number of classes.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import conformal
      >>> params, _ = conformal.fit(jnp.array([0.1, 0.3, 0.6, 0.9]), jnp.array([0, 0, 1, 1]))
      >>> conformal.p_values(params, jnp.array([0.2])).round(3).tolist()
      [[0.6, 0.2]]
    """
    known = {kind: strangeness for kind, strangeness in _SCORES.values()}
    if type(params) not in known:
        raise TypeError(f"params: expected those of conformal.fit, got {type(params).__name__}")
    given, k = _checks.real(probabilities, "probabilities"), len(params.classes)
    if k > 1 and given.shape[-1:] != (k,):
        raise ValueError(f"probabilities: expected shape (..., {k}), got {given.shape}")
    p = _of_classes(given, k == 1)
    p = p.astype(_checks.working_dtype(p))
    weight = jnp.broadcast_to(_checks.real(weight, "weight").astype(p.dtype), p.shape[:-1])
    *found, _ = params
    return _conformal.p_values(known[type(params)], *found, p, weight, key)


def sets(
    params: Lac | Aps,
    probabilities: Any,
    *,
    coverage: Any,
    key: jax.Array | None = None,
    weight: Any = 1.0,
) -> jax.Array:
    """The classes that are not too strange: those whose p-value is more than 1 - coverage.

    Args:
      params, probabilities, key, weight: as in `p_values`.
      coverage: `()`, how often the set is to hold the true class.

    Returns:
      bool `(..., k)`; all classes with fewer than coverage / (1 - coverage) calibration rows, of a
      row that holds NaN, and of params of invalid data.

    Raises:
      TypeError: params of another type.
      ValueError: a coverage outside of (0, 1), eagerly.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import conformal
      >>> params, _ = conformal.fit(jnp.array([0.1, 0.3, 0.6, 0.9]), jnp.array([0, 0, 1, 1]))
      >>> conformal.sets(params, jnp.array([0.2]), coverage=0.75).tolist()
      [[True, False]]
    """
    coverage = _checks.real(coverage, "coverage")
    if _checks.concrete(coverage) and not bool(jnp.all((coverage > 0) & (coverage < 1))):
        raise ValueError(f"coverage: expected more than 0 and less than 1, got {coverage}")
    values = p_values(params, probabilities, key=key, weight=weight)
    return _conformal.sets(values, coverage.astype(values.dtype))


def _of_classes(p: jax.Array, of_one: bool) -> jax.Array:
    return jnp.stack([1 - p, p], axis=-1) if of_one else p

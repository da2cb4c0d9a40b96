"""Scores and labels in which nothing can hurt, for `metrics`, `calibration` and `conformal`.

Shapes: `n` examples, `k` classes.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin._base import _checks, _invalid
from jaxlin._base._mesh import where_rows
from jaxlin.types import Info, Status


class Judged(NamedTuple):
    """Scores and labels in which nothing can hurt.

    scores: `(n,)`, `(n, k)`, or predicted classes; 0 in rows that are not sound
    y: `(n,)` int32, 0 in rows that are not sound
    weight: `(n,)`, 0 in rows that are not sound
    valid: `()`, whether the rows of weight are sound and there are some
    """

    scores: jax.Array
    y: jax.Array
    weight: jax.Array
    valid: jax.Array


def judged(scores, y, sample_weight, num_classes=None) -> Judged:
    dtype = jnp.result_type(float) if are_classes(scores) else scores.dtype
    weight = jnp.ones(len(y), dtype) if sample_weight is None else sample_weight
    sound = _label_in(y, num_classes or width(scores))
    if are_classes(scores):
        sound &= _label_in(scores, num_classes) if num_classes else True
        scores = _int32(scores)
    else:
        is_nan = jnp.isnan(scores)
        sound &= ~(is_nan if scores.ndim == 1 else jnp.any(is_nan, axis=1))
        sound &= predicted(scores) < num_classes if num_classes else True
    fine = jnp.where(weight != 0, sound & (weight > 0) & jnp.isfinite(weight), True)
    return Judged(
        scores=where_rows(sound, scores),
        y=where_rows(sound, _int32(y)),
        weight=where_rows(sound, weight),
        valid=jnp.all(fine) & jnp.any(weight > 0),
    )


def mean(values: jax.Array, rows: Judged) -> jax.Array:
    """The weighted mean of values that may be infinite where there is no weight."""
    values = jnp.where((rows.weight > 0) | jnp.isfinite(values), values, 0)
    weight = scaled(rows.weight)
    total = jnp.where(rows.valid, jnp.sum(weight), 1)
    return jnp.where(rows.valid, jnp.sum(weight * values) / total, jnp.nan)


def scaled(weight: jax.Array) -> jax.Array:
    """Divided by the largest, so that sums and their products stay within the dtype."""
    largest = jnp.max(weight, initial=0)
    return weight / jnp.where(largest > 0, largest, 1)


def predicted(scores: jax.Array) -> jax.Array:
    if are_classes(scores):
        return scores
    return (scores > 0 if scores.ndim == 1 else jnp.argmax(scores, axis=1)).astype(jnp.int32)


def are_classes(scores: jax.Array) -> bool:
    return not jnp.issubdtype(scores.dtype, jnp.floating)


def width(scores: jax.Array) -> int | None:
    """k as the scores have it, or None for predicted classes."""
    if are_classes(scores):
        return None
    return 2 if scores.ndim == 1 else scores.shape[1]


def _label_in(y: jax.Array, num_classes: int | None) -> jax.Array:
    y = _int32(y)
    return (y >= 0) & (y < num_classes) if num_classes else y >= 0


def _int32(y: jax.Array) -> jax.Array:
    """Saturated first: a plain cast could wrap a large label into the classes."""
    if y.dtype == jnp.bool_:
        return y.astype(jnp.int32)
    own, limits = jnp.iinfo(y.dtype), np.iinfo(np.int32)
    return jnp.clip(y, max(own.min, limits.min), min(own.max, limits.max)).astype(jnp.int32)


def checked(
    scores: Any, y: Any, sample_weight: Any, *, classes: bool = False
) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    """Shapes and dtypes, in Python; scores in their working dtype."""
    _checks.refuse_other_rows(scores=scores, y=y, sample_weight=sample_weight)
    scores = _checks.array(scores, "scores")
    if not are_classes(scores):
        scores = scores.astype(_checks.working_dtype(scores))
    elif not classes:
        raise TypeError(
            f"scores: expected floats, got dtype {scores.dtype}; "
            "predicted classes are for metrics.accuracy and metrics.confusion"
        )
    if scores.ndim not in ((1,) if are_classes(scores) else (1, 2)):
        expected = "(n,), predicted classes" if are_classes(scores) else "(n,) or (n, k)"
        raise ValueError(f"scores: expected shape {expected}, got {scores.shape}")
    n = len(scores)
    dtype = jnp.result_type(float) if are_classes(scores) else scores.dtype
    y = _checks.array(y, "y")
    _checks.refuse_inexact(y)
    if y.shape != (n,):
        raise ValueError(f"y: expected shape ({n},), one class index per score, got {y.shape}")
    return scores, y, _checks.optional(sample_weight, (n,), dtype, "sample_weight")


def raise_if_invalid(
    info: Info, scores: Any, y: Any, sample_weight: Any, *, name: str = "scores", most: Any = None
) -> None:
    """Raise a ValueError that says what is wrong, if all is concrete and the status INVALID_DATA.

    Args:
      name: what the scores are called.
      most: what they may be at most, and then at least 0.
    """
    given = (info.status, scores, y, sample_weight)
    if not _checks.concrete(given) or np.all(np.asarray(info.status) != Status.INVALID_DATA):
        return
    k = width(scores) or 0
    scores, y = np.asarray(scores), np.asarray(y)
    weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
    here = weight != 0
    fine = np.isfinite(scores) if most is None else (scores >= 0) & (scores <= most)
    wild = ~fine & here.reshape(-1, *(1,) * (scores.ndim - 1))
    bad = ~(weight >= 0) | np.isinf(weight)
    problems = [
        _invalid.offences("sample_weight", weight, bad, "negative or not finite"),
        _invalid.offences(
            name, scores, wild, "not finite" if most is None else f"not in 0..{most}"
        ),
        _invalid.offences("y", y, ((y < 0) | (y >= k)) & here, f"outside 0..{k - 1}"),
        "" if here.any() else "sample_weight: no row has weight",
    ]
    raise ValueError("; ".join(filter(None, problems)))

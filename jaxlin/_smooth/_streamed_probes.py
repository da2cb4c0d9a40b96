"""Linear probes of a stream: every pass over it serves all targets and penalties.

A selection takes the folds one after the other, and judges each by a pass more, for so many targets
at a time that the scores of the rows held out have a bound. Shapes: `n` rows, `t` targets, `p`
penalties; of labels that are no columns one target.
"""

import functools
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin._base import _archive, _checks, _dispatch, _options, _platform, _traits
from jaxlin._batch import _draws, _folds
from jaxlin._files import _source
from jaxlin._moments import _merged
from jaxlin._smooth import _many_descents

# Of the scores that are held of the rows of a fold.
SCORES_BYTES = 256 * 2**20


class Folded(_source.Source):
    """A source whose rows weigh, besides, what `weights (n,)` says, or have the labels `y`."""

    def __init__(self, source: _source.Source, weights: Any = None, y: Any = None):
        self._source, self._weights, self._y = source, weights, y

    def blocks(self) -> Iterator[_source.Block]:
        return self._of(self._source.blocks(), 0)

    def fetch(self, size: int, start: int) -> Iterator[_source.Block]:
        return self._of(self._source.fetch(size, start), size * start)

    def _of(self, blocks: Iterator[_source.Block], at: int) -> Iterator[_source.Block]:
        for x, y, weight in blocks:
            here, at = slice(at, at + len(x)), at + len(x)
            if self._weights is not None:
                part = self._weights[here]
                self._refuse(at > len(self._weights))
                held = part if weight is None or weight.ndim == 1 else part[:, None]
                weight = part if weight is None else weight * held
            yield x, y if self._y is None else self._y[here], weight
        self._refuse(self._weights is not None and at < len(self._weights))

    def _refuse(self, wrong: bool) -> None:
        if wrong:
            n = len(self._weights)
            raise ValueError(f"weights: expected shape (folds, n), got n = {n}, not that of x")


def source_of(x: Any, y: Any, sample_weight: Any) -> _source.Source | None:
    """The stream that x is, or None of what is in memory."""
    if isinstance(x, _source.Source):
        if y is not None or sample_weight is not None:
            raise TypeError("y, sample_weight: a source brings its own; pass None")
        return x
    on_disk = isinstance(x, str | os.PathLike) or _source.is_paths(x)
    on_disk |= isinstance(x, np.memmap) and x.ndim == 2
    return _source.arrays(x, y, sample_weight) if on_disk else None


def sweep(
    fit, source: _source.Source, swept: str, values: jax.Array, kept, bar, options: dict[str, Any]
) -> tuple[Any, Any]:
    """`(params, info)` of a fit to a stream, by every value of the option that is `swept`."""
    bare, options = _traits.bare(fit, options)
    traits, options = _traits.of(bare), {**options, swept: jnp.atleast_1d(values)}
    k = options.pop("num_classes", None)
    if traits.moments is not None:
        if kept.known:
            raise ValueError("checkpoint: a closed form takes one pass for each target")
        found = _of_moments(traits.moments, source, k, bar, options, options.pop(swept), swept)
    elif traits.loss is not None:
        _refuse_inexact(source, traits.loss.joint)
        found = _many_descents.fit(bare, source, k, kept, bar, **options)
    else:
        name = f"{getattr(bare, '__module__', '')}.{getattr(bare, '__name__', bare)}"
        raise TypeError(f"fit: {name} cannot be streamed; see `streaming.fit`")
    axis = found[1].status.ndim - 1
    return found if values.ndim else jax.tree.map(lambda a: jnp.squeeze(a, axis), found)


def _first(source: _source.Source) -> tuple[np.ndarray, np.ndarray]:
    """x and y of the first block."""
    first = next(source.blocks(), None)
    if first is None:
        raise ValueError("source: it holds no rows")
    return first[0], first[1]


def _targets(y: np.ndarray) -> int:
    """Columns of labels, or 0 for labels that are no columns."""
    return y.shape[1] if y.ndim == 2 and y.dtype.kind != "f" else 0


def _refuse_inexact(source, joint: bool) -> None:
    _, y = _first(source)
    if y.ndim == 2 and y.dtype.kind == "f" and not joint:
        raise TypeError(f"y: expected labels of several targets as integers, got {y.dtype}")


def _of_moments(parts, source, k, bar, options, values, swept):
    if options.pop("feature_mask", None) is not None:
        raise TypeError("feature_mask: not for closed forms of a stream; leave the columns out")
    _, y = _first(source)

    def of(own, k):
        found = _merged.moments_of(parts[0], own, k, bar)
        return _stacked([parts[1](found, **options, **{swept: value}) for value in values])

    if y.dtype.kind == "f":
        return of(source, k)
    known = _source.index(source, k, None, soft=False, targets=True)
    if not known.targets:
        return of(source, known.k)
    each = range(known.targets)
    return _stacked([of(_many_descents.Target(source, target), 2) for target in each])


def _stacked(each: list[Any]) -> Any:
    return jax.tree.map(lambda *a: jnp.stack(a), *each)


class Choice(NamedTuple):
    """How penalties are chosen: see `probes.select`.

    weights: `(folds, n)`
    rule: whether larger values are better, and whether one standard error decides
    """

    metric: _folds.Metric
    weights: np.ndarray
    rule: tuple[bool, bool]
    key: jax.Array | None


def select(
    fit, source: _source.Source, swept: str, values: jax.Array, choice: Choice, bar, options
) -> tuple[_folds.Selected, _folds.Selected | None]:
    """The choice for each target, and the same for labels dealt at random."""
    _, first = _first(source)
    targets = _targets(first)
    if choice.key is not None and first.dtype.kind == "f":
        raise TypeError(f"key: labels that are dealt at random are integers, got {first.dtype}")
    if not targets and _options.takes(fit, "num_classes"):
        known = options.get("num_classes")
        k = _source.index(source, known, options.get("feature_mask"), soft=True).k
        options = options | {"num_classes": k}

    def chosen(source):
        swept_by = functools.partial(_swept_by, fit, swept, values, bar, options)
        scored, infos = [], []
        for weight in choice.weights:
            params, info = swept_by(Folded(source, weight))
            scored.append(_judged(choice.metric, source, weight, len(values), params, info))
            infos.append(info)
        whole, info = swept_by(source)
        said = jax.tree.map(lambda *a: jnp.stack(a, -1), *infos, info)
        each = jnp.stack([*scored, scored[0]], -1)  # of the last, of all rows, nothing is asked
        choose = functools.partial(_folds.chosen, choice.rule, {swept: values})
        return (jax.vmap(choose) if targets else choose)(whole, each, said)

    if choice.key is None:
        return chosen(source), None
    return chosen(source), chosen(Folded(source, y=_dealt(choice.key, source)))


def _swept_by(fit, swept, values, bar, options, source):
    return sweep(fit, source, swept, values, _archive.Kept(), bar, options)


def _judged(metric, source, weight, p, params, info) -> jax.Array:
    """The metric on the rows that a fold holds out, of each fit: `(t, p)`, or `(p,)`."""
    lead, held = info.status.shape, weight == 0
    if not held.any():
        return jnp.full(lead, jnp.nan, info.objective.dtype)
    lanes = jax.tree.map(lambda a: a.reshape(-1, *a.shape[len(lead) :]), params)
    x, _ = _first(source)
    size = min(len(held), _source.rows_in_block(x.shape[1], x.dtype.itemsize))
    one = jax.eval_shape(_scores, lanes, x[:1])
    each = one.dtype.itemsize * one.size // info.status.size * max(size, int(held.sum()))
    most = p * max(1, SCORES_BYTES // (p * each))
    values = []
    for start in range(0, info.status.size, most):
        some = jax.tree.map(lambda a, start=start: a[start : start + most], lanes)
        scores, y, weights = _held_out(source, held, some, size)
        for lane in range(scores.shape[1]):
            target = (start + lane) // p
            of_target = y if y.ndim == 1 or y.dtype.kind == "f" else y[:, target]
            own = weights if weights.ndim == 1 else weights[:, target]
            values.append(_value(metric, scores[:, lane], of_target, own))
    return jnp.stack(values).reshape(lead)


def _held_out(source, held, lanes, size) -> tuple[np.ndarray, ...]:
    """Scores `(rows, lanes, ...)`, labels and weights of the rows that are held out."""
    at, found = 0, []
    for x, y, weight in source.fetch(size, 0):
        here, at = held[at : at + len(x)], at + len(x)
        if here.any():
            (padded,) = _source.filled_up((x,), size)  # one length, one program
            scores = np.asarray(_scores(lanes, padded)).swapaxes(0, 1)[: len(x)]
            given = np.ones(len(x)) if weight is None else weight
            found.append((scores[here], y[here], given[here]))
    return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))


@_platform.jit
def _scores(lanes, x):
    """`(lanes, rows, ...)`, NaN in rows that hold what is no number."""
    finite = jnp.all(jnp.isfinite(x), axis=1)
    clean = jnp.where(finite[:, None], x, 0)
    scores = jax.vmap(_dispatch.scores, in_axes=(0, None))(lanes, clean)
    return jnp.where(finite.reshape(1, -1, *(1,) * (scores.ndim - 2)), scores, jnp.nan)


@functools.partial(_platform.jit, static_argnums=0)
def _value(metric, scores, y, weight):
    value = metric(scores, y, sample_weight=weight.astype(scores.dtype))
    value = _checks.real(value, "metric")
    if value.ndim:
        raise ValueError(f"metric: expected one number to choose by, got shape {value.shape}")
    return jnp.where(jnp.any(weight != 0), value, jnp.nan)


def _dealt(key: jax.Array, source: _source.Source) -> np.ndarray:
    """The labels of each target dealt anew among its rows that have weight."""
    blocks = [(y, weight) for _, y, weight in source.blocks()]
    y = np.concatenate([y for y, _ in blocks])
    weight = np.concatenate([np.ones(len(y)) if w is None else w for y, w in blocks])
    many = y.T if y.ndim == 2 else y[None]
    absent = np.broadcast_to((weight == 0).T, many.shape).astype(np.int32)
    given = jnp.asarray(many), jnp.asarray(absent)
    dealt = jax.vmap(_draws.permuted)(jax.random.split(key, len(many)), *given)
    return np.asarray(dealt.T if y.ndim == 2 else dealt[0])

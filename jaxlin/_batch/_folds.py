"""Fits to many weights of rows, labellings or penalties, and what they predict, as one program."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin import metrics
from jaxlin._base import _checks, _dispatch, _lean, _options, _platform, _traits, _words
from jaxlin._batch import _draws, _lanes, _paths
from jaxlin._data import _rows
from jaxlin._moments import _closed_form
from jaxlin.types import Info, Status

# And at most so many of different ones, which take a path in longer pieces.
SIDE_BY_SIDE = 24
# With fewer lanes a closed form saves less than the compiler takes for it.
FEW_LANES = 256
Fit = Callable[..., tuple[Any, Info]]
Metric = Callable[..., Any]
LOSSES = (metrics.log_loss, metrics.brier, metrics.expected_cost, metrics.calibration_error)


class Given(NamedTuple):
    """What a fit is run on.

    data: `(x, y, sample_weight, the traced options)`
    weights: `(lanes, n)`, or None
    together: whether lanes of these options are found together, and hold no Hessian
    """

    static: tuple[tuple[str, Any], ...]
    data: tuple[jax.Array, jax.Array, jax.Array | None, dict[str, Any]]
    weights: jax.Array | None
    options: dict[str, Any]
    dtype: Any
    together: bool

    @property
    def folds(self) -> int:
        return 0 if self.weights is None else len(self.weights)


def given(fit, x, y, weights, sample_weight, options, penalties=None) -> Given:
    """The arguments, checked: `x (n, d)`, `y (n,)`, `weights (lanes, n)`, `sample_weight (n,)`.

    `penalties`: what the lanes have beside the options, by name.
    """
    _words.refuse_no_fit(fit)
    _checks.refuse_other_rows(x=x, y=y, sample_weight=sample_weight)
    x = _checks.matrix(x, sparse=True)
    n, _ = x.shape
    dtype = _checks.working_dtype(x)
    y = _checks.array(y, "y")
    if y.shape[:1] != (n,):
        raise ValueError(f"y: expected one label per row of x, shape ({n},), got {y.shape}")
    if weights is not None:
        weights = per_lane(weights, n, dtype, "weights")
    sample_weight = _checks.optional(sample_weight, (n,), dtype, "sample_weight")
    options = _options.with_classes(fit, options, y, sample_weight)
    split = _options.split(options, dtype)
    data = (x, y, sample_weight, split.traced)
    together = goes_together(fit, x, options | (penalties or {}))
    return Given(split.static, data, weights, options, dtype, together)


def goes_together(fit: Fit, x: jax.Array, options: dict[str, Any]) -> bool:
    """Whether lanes of a fit to one `x (..., n, d)` are found together, whatever they differ in."""
    bare, options = _traits.bare(fit, options)
    together = _traits.of(bare).together
    return together is not None and together(x.shape[-2:], _checks.working_dtype(x), options)


def at_once(problem: Given, fits: int, batch_size: Any) -> int:
    """How many of so many fits a program holds at a time."""
    room = _lanes.PROGRAMS_BYTES[False] if problem.together else _lanes.CHUNK_BYTES
    return _lanes.chunk_size(batch_size, fits, _lane_bytes(problem), room)


def _lane_bytes(problem: Given) -> int:
    n, d = problem.data[0].shape
    return _lanes.lane_bytes(n, d, problem.dtype, together=problem.together)


def run(function, static, problem: Given, at_once: int, closed: bool, *others, l2=None):
    """`function(*static, data, *others)`, which does so many fits at once, as one program.

    Args:
      static: the fit first.
      closed: whether by closed forms, which derivatives do without.
      l2: what the fits are called with, unless that is among the options.
    """
    size = at_once * _lane_bytes(problem)
    program = functools.partial(_compiled, function, static, size, closed)
    if l2 is None:
        l2 = _traits.bare(static[0], problem.options)[1].get("l2", 0.0)
    return _lean.first(program, static[0], problem.together, l2, (problem.data, *others))


@functools.partial(_platform.jit, static_argnums=(0, 1, 2, 3, 4))
def _compiled(function, static, size, closed, penalised, arguments):
    fit, *static = static
    program = functools.partial(function, _lean.of(fit, penalised), *static)
    plain = functools.partial(program, closed=False) if closed else None
    return _lanes.bounded(program, size, plain)(*arguments)


def refit(fit, static, size, data, weights, *, closed=True):
    x, y, _, traced = data
    options = _options.join(_options.Options(static, traced))
    quick = _quick_fit(fit, x, y, None, options, weights, closed)
    return _lanes.chunked(lambda w: fit(x, y, sample_weight=w, **options), weights, size, quick)


def by_weights(fit, options, x, lanes):
    """What a closed form of fits in many weights offers, if that pays; see `_closed_form`."""
    pays = lanes >= FEW_LANES and _closed_form.fits_in(x)
    return _closed_form.offered(fit, options, labels=False) if pays else None


def by_labels(fit, options, x):
    """What a closed form of fits to many labellings offers, if it is one, and x not too large."""
    small = x.size <= _closed_form.MOST_ENTRIES
    return _closed_form.offered(fit, options, labels=True) if small else None


def _quick_fit(fit, x, y, sample_weight, options, weights, closed):
    """The closed form of a fit in other weights: `weight -> ((params, info), sound)`, or None.

    None too unless `closed`.
    """
    offered = by_weights(fit, options, x, len(weights)) if closed else None
    if offered is None:
        return None
    offer, options = offered
    seen = _seen(weights, sample_weight)
    shared = _closed_form.shared(x, y, seen, options["num_classes"])

    def quick(weight):
        s, total, valid, sound = _closed_form.scatter_of(shared, x, y, weight, offer.per_class)
        total = jnp.where(valid, total, 0)
        s = s._replace(weight=s.weight * total, scatter=s.scatter * total)
        params, info, exact = offer.reweighed(s, valid, (x, weight), **options)
        return (params, info), sound & exact

    return quick


def cross_validate(fit, metric, static, size, data, weights, held_out, *, closed=True):
    x, y, sample_weight, traced = data
    options = _options.join(_options.Options(static, traced))
    of_weight = _quick_fit(fit, x, y, sample_weight, options, weights, closed)

    def usual(lane):
        return _one_fold(fit, metric, x, y, sample_weight, options, *lane)[1:]

    def quick(lane):
        weight, judged = parts(lane[0], sample_weight, lane[1])
        (params, info), sound = of_weight(weight)
        return (_valid_value(metric, params, info, x, y, judged), info), sound

    lanes = (weights, held_out)
    return _lanes.chunked(usual, lanes, size, None if of_weight is None else quick)


def held_out_scores(fit, static, size, data, weights, held_out, *, closed=True):
    """The mean of what those folds say that held a row out, `(n,)` or `(n, k)`; and their Infos."""
    lanes = (weights, held_out)
    scores, info = cross_validate(fit, _scores_of, static, size, data, *lanes, closed=closed)
    _, judged = jax.vmap(lambda *lane: parts(lane[0], None, lane[1]))(*lanes)
    return _pooled(scores, judged), info


def _scores_of(scores, y, *, sample_weight):
    """What a fold says of all rows, as if it were a metric."""
    return scores


def _pooled(scores: jax.Array, judged: jax.Array) -> jax.Array:
    """The mean of the scores `(folds, n, ...)` of the folds that judge a row, NaN of none."""
    judged = (judged != 0).reshape(*judged.shape, *(1,) * (scores.ndim - 2))
    times = jnp.sum(judged, axis=0).astype(scores.dtype)
    total = jnp.sum(jnp.where(judged, scores, 0), axis=0)
    return jnp.where(times > 0, total / jnp.where(times > 0, times, 1), jnp.nan)


def _values_of_pooled(metric, y, sample_weight, weights, scores):
    """`scores (m, folds, n, ...) -> (m,)`: the metric of each row's mean score."""
    ones = jnp.ones(weights.shape[1:], weights.dtype)
    weight = ones if sample_weight is None else sample_weight
    judged = jax.vmap(lambda weight: parts(weight, sample_weight)[1])(weights)
    weight = jnp.where(jnp.any(judged != 0, axis=0), weight, 0)

    def value(scores):
        return _checks.real(metric(_pooled(scores, judged), y, sample_weight=weight), "metric")

    return jax.vmap(value)(scores)


def _one_fold(fit, metric, x, y, sample_weight, options, weight, held_out=None):
    """The params of a fit, their metric on the rows that it did not see, and its Info."""
    weight, judged = parts(weight, sample_weight, held_out)
    params, info = fit(x, y, sample_weight=weight, **options)
    value = _valid_value(metric, params, info, x, y, judged, options.get("offset"))
    return params, value, info


def _valid_value(metric, params, info, x, y, judged, offset=None):
    """The metric of params, NaN where the data were not valid."""
    values = metric_of(metric, params, x, y, judged, offset)
    return _where(info.status != Status.INVALID_DATA, values)


def parts(weight, sample_weight, held_out=None):
    """The weights of the rows that a fold trains on, and of those that judge it."""
    judged = (weight == 0 if held_out is None else held_out != 0).astype(weight.dtype)
    if sample_weight is None:
        return weight, judged
    return weight * sample_weight, judged * sample_weight


def _seen(weights, sample_weight):
    """The rows `(n,)` that some lane trains on."""
    seen = jnp.any(weights > 0, axis=0)
    return seen if sample_weight is None else seen & (sample_weight > 0)


def metric_of(metric, params, x, y, judged, offset=None):
    """The metric of params on the rows with weight in `judged`, NaN if there are none."""
    # Of a row that holds NaN the score is NaN, but not its derivative in the params.
    finite = _rows.finite(x)
    found = _dispatch.scores(params, _rows.only(x, finite))
    found = jnp.where(finite.reshape(-1, *(1,) * (found.ndim - 1)), found, jnp.nan)
    scores = _with_offset(found, offset)
    found = metric(scores, y, sample_weight=judged)
    values = jax.tree.map(lambda value: _checks.real(value, "metric"), found)
    return _where(jnp.any(judged != 0), values)


def _where(known, values):
    """The values of a metric, NaN where they are not known."""
    return jax.tree.map(lambda value: jnp.where(known, value, jnp.nan), values)


def _mean_of(values):
    """Their mean over the folds, of each."""
    return jax.tree.map(lambda value: _lanes.mean_of(value)[0], values)


def permutation_test(
    fit, metric, static, draws, size, data, weights, key, strata, groups, *, closed=True
):
    """The values and Infos `(draws + 1, ...)`, those of the labels that were given first."""
    x, y, sample_weight, traced = data
    options = _options.join(_options.Options(static, traced))
    if sample_weight is not None:
        # A row without weight has no label to give.
        absent = (sample_weight == 0).astype(jnp.int32)
        strata = absent if strata is None else 2 * _draws.ranks(strata) + absent

    def values_of(y):
        one_fold = functools.partial(_one_fold, fit, metric, x, y, sample_weight, options)
        return jax.vmap(one_fold)(weights)[1:]

    def labels(given, key):
        return jnp.where(given, y, _draws.permuted(key, y, strata, groups))

    def usual(lane):
        values, info = values_of(labels(*lane))
        return _mean_of(values), info

    def quick(lane):
        found, sound = of_labels(labels(*lane))
        return (_mean_of(found), valid), jnp.all(sound)

    # The labels that were given are one lane more, so that the fit is compiled once. Data that are
    # not valid no closed form is sound for.
    keys, folds = jax.random.split(key, draws), (len(weights),)
    real = jnp.zeros(folds, weights.dtype)
    valid = Info(jnp.zeros(folds, jnp.int32), jnp.zeros(folds, jnp.int32), real, real)
    lanes = jnp.arange(draws + 1) == 0, jnp.concatenate([keys[:1], keys])
    of_labels = _quick_folds(fit, metric, data, options, weights, closed)
    return _lanes.chunked(usual, lanes, size, None if of_labels is None else quick)


def _quick_folds(fit, metric, data, options, weights, closed):
    """The closed form of all folds of a labelling: `y -> (values, sound)`, or None."""
    x, y, sample_weight, _ = data
    offered = by_labels(fit, options, x) if closed else None
    if offered is None:
        return None
    offer, options = offered
    k = options["num_classes"]
    held = _closed_form.centred(x, y, _seen(weights, sample_weight), k)

    def known_of(weight):
        trained, judged = parts(weight, sample_weight)
        at = _closed_form.still(held, x, y, trained, k)
        return judged, at, offer.factors(at, held, k, **options)

    known = jax.vmap(known_of)(weights)

    def quick(y):
        def fold(known):
            judged, at, factors = known
            sums = _closed_form.sums(at, held, y, k)
            params, _, sound = offer.relabelled(at, held, factors, sums, **options)
            return metric_of(metric, params, x, y, judged), sound

        return jax.vmap(fold)(known)

    return quick


def path(fit, static, size, data, penalties):
    x, y, sample_weight, traced = data
    options = _options.join(_options.Options(static, traced))
    if sample_weight is not None:
        options["sample_weight"] = sample_weight
    warm = is_warm(fit, options)

    def one(penalty, start):
        init = {"init": start} if warm else {}
        params, info = fit(x, y, **penalty, **init, **options)
        return (params if warm else ()), (params, info)

    start = _nothing(fit, x, y, options | _first(penalties)) if warm else ()
    return _paths.from_strong_to_weak(jax.vmap(one), start, penalties, size)


def _first(penalties: dict[str, jax.Array]) -> dict[str, jax.Array]:
    return jax.tree.map(lambda a: a[0], penalties)


def is_warm(fit, options) -> bool:
    """Whether fits may begin where others ended."""
    return "init" not in options and _options.takes(fit, "init")


def _nothing(fit, x, y, options):
    """Zeros in the place of a fit's params."""
    bare, known = _traits.bare(fit, options)
    nothing = _traits.of(bare).nothing
    if nothing is not None:
        k = y.shape[1] if y.ndim == 2 else _options.number_of_classes(bare, known)
        return nothing(k, x.shape[1], _checks.working_dtype(x))
    # To trace a fit takes as long as many a fit.
    shapes, _ = jax.eval_shape(lambda: fit(x, y, **options))
    return jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)


class Selected(NamedTuple):
    """What a choice among m penalties has found.

    params, info: of the fit to all rows with the penalty chosen
    penalty: by name; NaN where nothing could be judged, as the params are
    values: `(m, folds)`, of the metric
    infos: `(m, folds + 1)`, the last of all rows
    judged: `()` bool
    """

    params: Any
    info: Info
    penalty: dict[str, jax.Array]
    values: jax.Array
    infos: Info
    judged: jax.Array


def select(
    fit, metric, static, rule, most, at_once, data, weights, penalties, *, pooled=False
) -> Selected:
    """The penalty chosen by folds, and the fit to all rows with it.

    Args:
      rule: as of `chosen`.
      pooled: whether the scores of all folds are judged together.
    """
    x, y, sample_weight, traced = data
    options = _options.join(_options.Options(static, traced))
    of_folds, weights = weights, jnp.concatenate([weights, jnp.ones_like(weights[:1])])
    count, folds = len(jax.tree.leaves(penalties)[0]), len(weights)
    side = min(count, max(1, at_once // (folds - 1)))
    warm = side < count and is_warm(fit, options)

    def one(lane):
        penalty, weight, start = lane
        given = options | penalty | ({"init": start} if warm else {})
        judge = _scores_of if pooled else metric
        return _one_fold(fit, judge, x, y, sample_weight, given, weight)

    def some(penalties, starts):
        # As one axis of lanes, because each further vmap goes through the whole fit once more.
        own = jax.tree.map(lambda a: jnp.repeat(a, folds, axis=0), penalties)
        each = own, jnp.tile(weights, (len(jax.tree.leaves(penalties)[0]), 1))
        lanes = *each, jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), starts)
        found = _lanes.chunked(one, lanes, min(most, len(each[1])))
        found = jax.tree.map(lambda a: a.reshape(-1, folds, *a.shape[1:]), found)
        params, *judged = found
        whole = jax.tree.map(lambda a: a[:, -1], params)
        return (params if warm else ()), (whole, *judged)

    start = _nothing(fit, x, y, options | _first(penalties)) if warm else ()
    start = jax.tree.map(lambda a: jnp.broadcast_to(a, (folds, *a.shape)), start)
    whole, values, infos = _paths.from_strong_to_weak(some, start, penalties, side)
    if pooled:
        value = _values_of_pooled(metric, y, sample_weight, of_folds, values[:, :-1])
        values = jnp.stack([value, value], axis=1)
    return chosen(rule, penalties, whole, values, infos)


# The same by the scores of all folds, judged together.
select_by_pooled = functools.partial(select, pooled=True)


def chosen(rule, penalties, whole, values, infos) -> Selected:
    """The choice by the values `(m, folds + 1)`, of which the last are of all rows.

    Args:
      rule: whether larger values are better, and whether one standard error decides.
      penalties: `(m,)` or `(m, d)` by name.
      whole: params of the fits to all rows, `(m, ...)`.
      infos: `(m, folds + 1)`.
    """
    if not isinstance(values, jax.Array) or values.ndim > 2:
        got = jax.tree.map(lambda value: value.shape[2:], values)
        raise ValueError(f"metric: expected one number to choose by, got shape {got}")
    values = values[:, :-1]
    at, judged = _paths.strongest_of_the_best(values, _paths.strength(penalties), *rule)
    info = jax.tree.map(lambda a: a[at, -1], infos)
    # A class that is too small is why nothing could be judged, where it is.
    known = judged | (info.status == Status.CLASS_TOO_SMALL)
    status = jnp.where(known, info.status, Status.INVALID_DATA).astype(info.status.dtype)
    return Selected(
        params=jax.tree.map(lambda a: jnp.where(known, a[at], jnp.nan * a[at]), whole),
        info=info._replace(status=status),
        penalty=jax.tree.map(lambda a: jnp.where(judged, a[at], jnp.nan), penalties),
        values=values,
        infos=infos,
        judged=judged,
    )


def larger_is_better(metric: Metric, given: Any) -> Any:
    """Whether more of the metric is better: as given, or as those of `metrics` have it."""
    if given is not None:
        return given
    while isinstance(metric, functools.partial):
        metric = metric.func
    return metric not in LOSSES


def _with_offset(scores: jax.Array, offset: jax.Array | None) -> jax.Array:
    if offset is None:
        return scores
    return scores + (offset[:, None] if offset.ndim < scores.ndim else offset)


def per_lane(weights: Any, n: int, dtype: Any, name: str) -> jax.Array:
    _words.refuse_splits(weights, name)
    weights = _checks.real(weights, name)
    if weights.ndim != 2 or weights.shape[1] != n:
        raise ValueError(f"{name}: expected shape (folds, {n}), got {weights.shape}")
    return weights.astype(dtype)


def raise_if_invalid(fit, info, problem, penalties=None):
    """Let the fit of the first invalid lane say in its own words what is wrong."""
    status = info.status
    if not _checks.concrete(status):
        return
    invalid = np.flatnonzero(np.ravel(status) == Status.INVALID_DATA)
    if not invalid.size:
        return
    lane, (x, y, sample_weight, _) = int(invalid[0]), problem.data
    options = dict(problem.options)
    for name, values in (penalties or {}).items():
        options[name] = values[lane]
    weight, what = sample_weight, "penalty"
    if problem.weights is not None:
        what = "fold"
        weight = problem.weights[lane % len(problem.weights)]
        weight = weight if sample_weight is None else weight * sample_weight
    given = {} if weight is None else {"sample_weight": weight}
    try:
        fit(x, y, **given, **options)
    except ValueError as error:
        raise ValueError(f"{what} {lane} of {status.size}: {error}") from None
    raise ValueError(f"{what} {lane} of {status.size}: the data are not valid")

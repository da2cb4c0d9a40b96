"""Fits of many targets and penalties to one x, or to that of each layer, for `probes`.

Layers come one after the other, as each is an x of its own. The targets of a layer are lanes, so
many at a time that what they hold has a bound, and each asks for all its penalties and folds at
once: whatever shares x is one product with it. Where a closed form is sound the statistics of x are
made once for all targets.

Shapes: `n` rows, `t` targets, `p` penalties.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlin._base import _lean, _options, _platform
from jaxlin._batch import _draws, _folds, _lanes
from jaxlin._moments import _closed_form
from jaxlin.types import Info, Status

# Of the scores that a chunk of targets by closed forms holds.
SCORES_BYTES = 64 * 2**20


class Job(NamedTuple):
    """What is static of a sweep.

    swept: the name of the option that the penalties are
    closed: whether by a closed form where that is sound
    together: whether lanes of the fit are found together, and hold no Hessian
    targets: at a time
    size: bytes that these hold
    metric, rule: of a selection; see `_folds.select`
    """

    fit: _folds.Fit
    options: tuple[tuple[str, Any], ...]
    swept: str
    closed: bool
    together: bool
    targets: int = 1
    size: int = 1
    metric: _folds.Metric | None = None
    rule: tuple[bool, bool] = (True, False)


class Given(NamedTuple):
    """What a sweep is run on.

    x: `(n, d)`, or `(layers, n, d)`
    y: `(n,)`, or `(t, n)`
    sample_weight: None, `(n,)` or `(t, n)`
    values: `(p,)`, the penalties
    traced: the other options that are numbers
    weights: `(folds, n)`, of a selection
    key: for labels dealt at random, or None
    """

    x: jax.Array
    y: jax.Array
    sample_weight: jax.Array | None
    values: jax.Array
    traced: dict[str, Any]
    weights: jax.Array | None = None
    key: jax.Array | None = None


def of_size(job: Job, given: Given) -> Job:
    """The job, so many targets at a time that what they hold has a bound."""
    (n, d), dtype = given.x.shape[-2:], given.values.dtype
    folds = 1 if given.weights is None else len(given.weights) + 1
    if job.closed:
        each, room = 2 * n * dtype.itemsize, SCORES_BYTES
    else:
        each = _lanes.lane_bytes(n, d, dtype, together=job.together)
        room = _lanes.PROGRAMS_BYTES[False]
    each *= len(given.values) * folds
    count = (1 if given.y.ndim == 1 else len(given.y)) * (1 if given.key is None else 2)
    targets = max(1, min(count, _platform.enlarged(room) // each))
    return job._replace(targets=targets, size=targets * each)


def sweep(job: Job, given: Given) -> tuple[Any, Info]:
    """`(params, info)` of each layer, target and penalty."""
    return _first(_sweep, job, given)


def select(job: Job, given: Given) -> tuple[_folds.Selected, _folds.Selected | None]:
    """The choice for each layer and target, and the same for labels dealt at random."""
    return _first(_select, job, given)


def _first(function, job, given):
    l2 = given.values if job.swept == "l2" else given.traced.get("l2", 0.0)
    run = functools.partial(_run, function, job)
    return _lean.first(run, job.fit, job.together, l2, (given,))


@functools.partial(_platform.jit, static_argnums=(0, 1, 2))
def _run(function, job, penalised, arguments):
    job = job._replace(fit=_lean.of(job.fit, penalised))
    plain = functools.partial(function, job._replace(closed=False)) if job.closed else None
    return _lanes.bounded(functools.partial(function, job), job.size, plain)(*arguments)


def _sweep(job, given):
    options = _options.join(_options.Options(job.options, given.traced))

    def of_layer(x):
        def usual(lane):
            y, weight = lane
            held = options if weight is None else options | {"sample_weight": weight}
            return jax.vmap(lambda value: job.fit(x, y, **{job.swept: value}, **held))(given.values)

        def quick(lane):
            params, infos, _, sound = of_labels(lane[0])
            return jax.tree.map(lambda a: a[-1], (params, infos)), sound

        of_labels = _by_labels(job, given, options, x)
        return _over_targets(job, given, usual, quick, given.y)

    return _over_layers(of_layer, given.x)


def _select(job, given):
    labels = given.y
    if given.key is not None:
        labels = jnp.concatenate([jnp.atleast_2d(labels), _shuffled(given.key, given)])

    def of_layer(x):
        def usual(lane):
            y, weight = lane
            data = (x, y, weight, given.traced)
            lanes = len(given.values) * (len(given.weights) + 1)
            static = job.fit, job.metric, job.options, job.rule, lanes, lanes
            return _folds.select(*static, data, given.weights, {job.swept: given.values})

        def quick(lane):
            params, infos, values, sound = of_labels(lane[0])
            whole = jax.tree.map(lambda a: a[-1], params)
            values, infos = jax.tree.map(lambda a: a.swapaxes(0, 1), (values, infos))
            return _folds.chosen(job.rule, {job.swept: given.values}, whole, values, infos), sound

        of_labels = _by_labels(job, given, options, x)
        return _over_targets(job, given, usual, quick, labels)

    options = _options.join(_options.Options(job.options, given.traced))
    found = _over_layers(of_layer, given.x)
    if given.key is None:
        return found, None
    axis, count = given.x.ndim - 2, len(labels) // 2

    def part(start):
        def of(a):
            half = jax.lax.slice_in_dim(a, start, start + count, axis=axis)
            return half if given.y.ndim == 2 else jnp.squeeze(half, axis)

        return jax.tree.map(of, found)

    return part(0), part(count)


def _over_layers(of_layer, x):
    return of_layer(x) if x.ndim == 2 else jax.lax.map(of_layer, x)


def _over_targets(job, given, usual, quick, labels):
    """`usual` of each target, or `quick` where that is sound."""
    weight, one = given.sample_weight, labels.ndim == 1
    if one and not job.closed:
        return usual((labels, weight))
    labels = jnp.atleast_2d(labels)
    if weight is not None and weight.ndim == 2:
        weight = jnp.tile(weight, (len(labels) // len(weight), 1))
        lanes = labels, weight
        run = usual
    else:
        lanes = labels

        def run(y):
            return usual((y, weight))

    closed = (lambda y: quick((y, weight))) if job.closed else None
    found = _lanes.chunked(run, lanes, job.targets, closed)
    return jax.tree.map(lambda a: a[0], found) if one else found


def _shuffled(key: jax.Array, given: Given) -> jax.Array:
    """The labels of each target dealt anew among its rows that have weight: `(t, n)`."""
    y, weight = jnp.atleast_2d(given.y), given.sample_weight
    weight = jnp.ones(y.shape[1:]) if weight is None else weight
    absent = jnp.broadcast_to(weight == 0, y.shape).astype(jnp.int32)
    return jax.vmap(_draws.permuted)(jax.random.split(key, len(y)), y, absent)


def _by_labels(job: Job, given: Given, options, x):
    """The closed form of a labelling, or None unless the job has one.

    Returns:
      `y -> (params, infos, values, sound)`, axes folds and penalties: the last fold is of all rows,
      and of that alone a sweep is; no values without a metric.
    """
    offered = _closed_form.offered(job.fit, options, labels=True) if job.closed else None
    if offered is None:
        return None
    offer, options = offered
    factored: Any = offer.factors
    relabelled: Any = offer.relabelled
    k, n = options["num_classes"], x.shape[0]
    every = jnp.ones((1, n), given.values.dtype)
    weights = every if given.weights is None else jnp.concatenate([given.weights, every])
    nothing = jnp.zeros(n, jnp.int32)
    seen = jnp.ones(n, bool) if given.sample_weight is None else given.sample_weight > 0
    held = _closed_form.centred(x, nothing, seen, k)

    def known_of(weight):
        trained, judged = _folds.parts(weight, given.sample_weight)
        at = _closed_form.still(held, x, nothing, trained, k)

        def factors(value):
            return factored(at, held, k, **options, **{job.swept: value})

        if job.swept in offer.late:
            return judged, at, factors(jnp.max(given.values))
        return judged, at, jax.vmap(factors)(given.values)

    known = jax.vmap(known_of)(weights)
    axes = (0, None if job.swept in offer.late else 0)

    def of_labels(y):
        legal = jnp.all((y >= 0) & (y < k) | ~seen)

        def of_fold(known):
            judged, at, factors = known
            sums = _closed_form.sums(at, held, y, k)

            def of_value(value, factors):
                held_to = options | {job.swept: value}
                params, objective, sound = relabelled(at, held, factors, sums, **held_to)
                zero = jnp.int32(Status.CONVERGED)
                info = Info(zero, jnp.int32(0), objective, jnp.zeros_like(objective))
                value = None
                if job.metric is not None:
                    value = _folds.metric_of(job.metric, params, x, y, judged)
                return params, info, value, sound

            return jax.vmap(of_value, axes)(given.values, factors)

        params, infos, values, sound = jax.vmap(of_fold)(known)
        return params, infos, values, jnp.all(sound) & legal

    return of_labels

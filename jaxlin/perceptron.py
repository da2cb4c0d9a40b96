"""The perceptron: Rosenblatt's mistake-driven loop, its average, and the pocket.

The rows are visited one after the other, and each mistake, t s <= 0 with s = w . x + b and
t = 2 y - 1, moves the plane by w += step t x, b += step t (Rosenblatt, 1958). If any plane
separates the classes strictly, the loop ends after finitely many updates (Novikoff, 1962, see
`mistake_bound`), at *some* plane that separates them, not a distinguished one. A sample weight
scales the update; a row of weight 0 is absent.

Choose `fit` for data that are separable, or to see the textbook's loop: from w = 0 with integer
data its updates and their count are those of the integer loop, bit for bit. `fit_averaged` gives
a steadier plane from the same visits, `fit_pocket` the best plane that the loop has met, for data
that no plane separates; `svm` and `logistic` there find an optimum instead.

How it fails: on data that no plane separates the loop never ends by itself, and stops at
`max_epochs` with `MAX_STEPS`; that is no proof that no plane exists, since a narrow margin takes
as long. Columns of very different size make it slow: standardise them. `steps` is the number of
updates, `residual` the number of rows that the returned plane mistakes, `objective` the weighted
mean of the losses max(0, -t s), or for the pocket the weighted share of mistakes. `CONVERGED`
says that no mistakes are left when all scores are computed afresh, and that each is clear of 0 by
more than rounding could explain; a clean pass short of that is `STALLED`.

There is no useful derivative: the plane is a sum of the rows that were mistaken, and jumps when
another row is. Forward mode gives the derivative at fixed mistakes, reverse mode through the
weights raises. A visit costs O(d), about 40 ns at d = 20.

Shapes: `n` examples, `d` features.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin._base import _checks, _invalid, _loops, _platform, _traits, _words
from jaxlin._batch import _visits
from jaxlin._data import _fold, _prepare, _rows
from jaxlin._linalg import _implicit, dot, power_of_two
from jaxlin.types import Hyperplane, Info, Status


@_words.a_fit
def fit(
    x: Any,
    y: Any,
    *,
    key: Any = None,
    init: Hyperplane | None = None,
    step_size: Any = 1.0,
    max_epochs: Any = 1000,
    sample_weight: Any = None,
    feature_mask: Any = None,
    bias: bool = True,
) -> tuple[Hyperplane, Info]:
    """Rosenblatt's perceptron: w += step t x at each mistake, until a clean pass.

    Args:
      x: `(n, d)`.
      y: `(n,)` in {0, 1}.
      key: a PRNG key visits n rows drawn at random in each epoch; by default each in its turn.
      init: a Hyperplane to start from; by default 0.
      step_size: `()`; from w = 0 it only scales the result.
      max_epochs: `()`, the most passes.
      sample_weight: `(n,)`, scales the update; a row of weight 0 is absent.
      feature_mask: `(d,)` bool; False: the coefficient is 0, whatever the column holds.
      bias: static; False fixes the bias at 0.

    Returns:
      `(Hyperplane, Info)`; `steps` is the number of updates, `residual` the mistakes left.

    Raises:
      ValueError: the data are not valid (eagerly; under a transformation `INVALID_DATA`).
      TypeError: float labels.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import perceptron
      >>> x = jnp.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
      >>> plane, info = perceptron.fit(x, jnp.array([0, 0, 0, 1]))
      >>> plane.weights.tolist(), plane.bias.item(), int(info.status)
      ([3.0, 2.0], -4.0, 0)
    """
    options = (key, init, step_size, max_epochs, sample_weight, feature_mask, bias)
    return _checked_fit(_PLAIN, x, y, *options)


@_words.a_fit
def fit_averaged(
    x: Any,
    y: Any,
    *,
    key: Any = None,
    init: Hyperplane | None = None,
    step_size: Any = 1.0,
    max_epochs: Any = 1000,
    sample_weight: Any = None,
    feature_mask: Any = None,
    bias: bool = True,
) -> tuple[Hyperplane, Info]:
    """The averaged perceptron: the mean of the weights after every visit so far.

    Each plane votes for as long as it survived (Freund and Schapire, 1999). Stops at the first
    epoch at whose end the mean itself makes no mistake, `CONVERGED`, or at `max_epochs`,
    `MAX_STEPS`, the usual end on data that no plane separates.

    Args:
      x: `(n, d)`.
      y: `(n,)` in {0, 1}.
      key: a PRNG key visits n rows drawn at random in each epoch; by default each in its turn.
      init: a Hyperplane to start from; by default 0.
      step_size: `()`; from w = 0 it only scales the result.
      max_epochs: `()`, the most passes.
      sample_weight: `(n,)`, scales the update; a row of weight 0 is absent.
      feature_mask: `(d,)` bool; False: the coefficient is 0, whatever the column holds.
      bias: static; False fixes the bias at 0.

    Returns:
      `(Hyperplane, Info)`; `steps` is the number of updates, `residual` the mistakes left.

    Raises:
      ValueError: the data are not valid (eagerly; under a transformation `INVALID_DATA`).
      TypeError: float labels.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import perceptron
      >>> x, y = jnp.array([[1.0], [-1.0]]), jnp.array([1, 0])
      >>> plane, info = perceptron.fit_averaged(x, y)
      >>> plane.weights.tolist(), plane.bias.item(), int(info.status)
      ([1.5], 0.5, 0)
    """
    options = (key, init, step_size, max_epochs, sample_weight, feature_mask, bias)
    return _checked_fit(_AVERAGED, x, y, *options)


@_words.a_fit
def fit_pocket(
    x: Any,
    y: Any,
    *,
    key: Any = None,
    init: Hyperplane | None = None,
    step_size: Any = 1.0,
    max_epochs: Any = 1000,
    sample_weight: Any = None,
    feature_mask: Any = None,
    bias: bool = True,
) -> tuple[Hyperplane, Info]:
    """The pocket algorithm with ratchet: the best plane that the perceptron has met.

    Gallant (1990). In each epoch the plane with the longest run of right answers (the largest sum
    of their weights) is remembered; at its end that plane and the current one are tried on all
    rows, and the better goes into the pocket if its mistakes weigh strictly less than those of
    the plane there. Stops when the pocket makes no mistake, or at `max_epochs`.

    Args:
      x: `(n, d)`.
      y: `(n,)` in {0, 1}.
      key: a PRNG key visits n rows drawn at random in each epoch, as Gallant does; by default
        each in its turn.
      init: a Hyperplane to start from; by default 0.
      step_size: `()`; from w = 0 it only scales the result.
      max_epochs: `()`, the most passes.
      sample_weight: `(n,)`, scales the update and counts the mistakes; a row of weight 0 is
        absent.
      feature_mask: `(d,)` bool; False: the coefficient is 0, whatever the column holds.
      bias: static; False fixes the bias at 0.

    Returns:
      `(Hyperplane, Info)`; `steps` is the number of updates, `residual` the number of mistakes of
      the pocket, `objective` their weighted share.

    Raises:
      ValueError: the data are not valid (eagerly; under a transformation `INVALID_DATA`).
      TypeError: float labels.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import perceptron
      >>> x, y = jnp.array([[1.0], [2.0], [3.0], [4.0]]), jnp.array([0, 1, 0, 1])
      >>> plane, info = perceptron.fit_pocket(x, y, max_epochs=50)
      >>> info.residual.item(), info.objective.item(), int(info.status)
      (1.0, 0.25, 3)
    """
    options = (key, init, step_size, max_epochs, sample_weight, feature_mask, bias)
    return _checked_fit(_POCKET, x, y, *options)


def criterion(params: Hyperplane, x: Any, y: Any, *, sample_weight: Any = None) -> jax.Array:
    """The perceptron criterion: J = -sum over the mistakes of t s (Duda and Hart, 1973).

    Args:
      params: a Hyperplane.
      x: `(n, d)`.
      y: `(n,)` in {0, 1}.
      sample_weight: `(n,)`; a row of weight 0 is absent.

    Returns:
      `()`, 0 where there are no mistakes; NaN where the data are not valid. Its derivative in the
      params counts a tie, s = 0, as a mistake.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import perceptron
      >>> from jaxlin.types import Hyperplane
      >>> plane = Hyperplane(weights=jnp.array([2.0]), bias=jnp.array(0.0))
      >>> perceptron.criterion(plane, jnp.array([[3.0], [-1.0]]), jnp.array([0, 0])).item()
      6.0
    """
    data = _checks.table(x, y, sample_weight=sample_weight)
    return _criterion(_cast(params, data, "params"), data)


def distance_criterion(
    params: Hyperplane, x: Any, y: Any, *, sample_weight: Any = None
) -> jax.Array:
    """The distances of the mistakes to the plane, summed: -sum over the mistakes of t s / |w|.

    Args:
      params: a Hyperplane.
      x: `(n, d)`.
      y: `(n,)` in {0, 1}.
      sample_weight: `(n,)`; a row of weight 0 is absent.

    Returns:
      `()`, in the units of x; NaN where w = 0 or the data are not valid.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import perceptron
      >>> from jaxlin.types import Hyperplane
      >>> plane = Hyperplane(weights=jnp.array([2.0]), bias=jnp.array(0.0))
      >>> x, y = jnp.array([[3.0], [-1.0]]), jnp.array([0, 0])
      >>> perceptron.distance_criterion(plane, x, y).item()
      3.0
    """
    data = _checks.table(x, y, sample_weight=sample_weight)
    params = _cast(params, data, "params")
    return _criterion(params, data) / jnp.linalg.norm(params.weights)


def mistake_bound(
    params: Hyperplane, x: Any, y: Any, *, sample_weight: Any = None, bias: bool = True
) -> jax.Array:
    """The most updates that `fit` can need from w = 0: R^2 / gamma^2 (Novikoff, 1962).

    Measured in the space that the loop walks in, where the bias is one more weight: R^2 is the
    largest |x|^2 + 1, gamma the least t s / |(w, b)|. With the margin of `linear`, t s / |w|, the
    theorem is false: x = 10, 12 with y = 0, 1 takes 233 updates, not 144. Any plane that separates
    gives a bound, the one of largest margin the tightest. Unequal weights, which scale the
    updates, loosen it by the ratio of the largest to the least.

    Args:
      params: a Hyperplane that separates the classes.
      x: `(n, d)`.
      y: `(n,)` in {0, 1}.
      sample_weight: `(n,)`; a row of weight 0 is absent.
      bias: static; False for a fit with `bias=False`: |x|^2, |w|, and b taken as 0.

    Returns:
      `()`: infinity where the plane does not separate, NaN where the data are not valid.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import perceptron
      >>> from jaxlin.types import Hyperplane
      >>> plane = Hyperplane(weights=jnp.array([1.0]), bias=jnp.array(-11.0))
      >>> x, y = jnp.array([[10.0], [12.0]]), jnp.array([0, 1])
      >>> round(perceptron.mistake_bound(plane, x, y).item())
      17690
      >>> int(perceptron.fit(x, y)[1].steps)
      233
    """
    data = _checks.table(x, y, sample_weight=sample_weight)
    _checks.static(bias, bool, "bias")
    return _mistake_bound(_cast(params, data, "params"), data, bias=bias)


class _Task(NamedTuple):
    """What a run is of.

    rows: of the weights that its visits have
    listed: `(n,)`, the rows with weight first, or None
    present: `()` int32, how many these are
    key: what rows are drawn by, or None: each in its turn
    """

    rows: _rows.Rows
    visits: _visits.Visits
    listed: jax.Array | None
    present: jax.Array
    key: Any


class _State(NamedTuple):
    """Where a fit stands between two epochs.

    params: the plane that the loop moves
    answer: the plane that would be returned
    epoch: `()` int32
    steps: `()` int32, updates so far
    done: `()` bool
    """

    params: Hyperplane
    answer: Hyperplane
    epoch: jax.Array
    steps: jax.Array
    done: jax.Array


class _Verdict(NamedTuple):
    """One vectorised look at a plane.

    mistakes: `()` int32, rows with t s <= 0
    unclear: `()` int32, rows whose t s does not exceed the rounding error of s
    share: `()`, the weight of the mistakes over that of all rows
    loss: `()`, the weighted mean of max(0, -t s)
    """

    mistakes: jax.Array
    unclear: jax.Array
    share: jax.Array
    loss: jax.Array


class _Method(NamedTuple):
    """epoch: `f(walk, task, state) -> (state, mistakes)`, objective: `f(verdict)`."""

    epoch: Callable[[Callable, _Task, _State], tuple[_State, jax.Array]]
    objective: Callable[[_Verdict], jax.Array]


def _checked_fit(method, x, y, key, init, step_size, max_epochs, sample_weight, feature_mask, bias):
    data = _checks.table(x, y, sample_weight=sample_weight, feature_mask=feature_mask)
    step_size = _checks.scalar(step_size, _checks.working_dtype(data.x), "step_size")
    max_epochs = _checks.count(max_epochs, "max_epochs")
    _checks.static(bias, bool, "bias")
    if key is not None:
        _words.refuse_other_than_key(key)
    finite: dict[str, Any] = {}
    if init is not None:
        init = _cast(init, data, "init")
        finite = {"init.weights": init.weights, "init.bias": init.bias}
    params, info = _fit(method, data, key, init, step_size, max_epochs, bias=bias)
    nonnegative = {"step_size": step_size, "max_epochs": max_epochs}
    _invalid.raise_if_invalid(info, data, nonnegative=nonnegative, finite=finite)
    return params, info


@partial(_platform.jit, static_argnames=("method", "bias"))
def _fit(method, data, key, init, step_size, max_epochs, *, bias):
    rows, _, valid = _prepare.prepare(data, num_classes=2)
    start, usable = _start(data, init, bias)
    valid &= usable & (max_epochs >= 0) & (step_size >= 0) & jnp.isfinite(step_size)
    task = _task(rows, valid, data, key, step_size, bias)
    state = _loop(method, task, start, max_epochs, valid)
    verdict = _verdict(task.rows, state.answer)
    return _report(method, task, state, verdict, valid)


def _start(data, init, bias):
    dtype = _checks.working_dtype(data.x)
    if init is None:
        return Hyperplane(
            weights=jnp.zeros(data.x.shape[1], dtype), bias=jnp.zeros((), dtype)
        ), True
    mask = data.feature_mask
    weights = init.weights if mask is None else jnp.where(mask, init.weights, 0)
    start = Hyperplane(weights=weights, bias=init.bias if bias else jnp.zeros_like(init.bias))
    return start, _finite(start)


def _task(rows, valid, data, key, step_size, bias):
    given = _given_weight(data)
    weight = jnp.where(valid, given / power_of_two(jnp.max(given)), 0)
    sign = jnp.where(weight != 0, 2 * rows.y.astype(weight.dtype) - 1, 0)
    visits = _visits.Visits(
        x=rows.x,
        weight=weight,
        sign=sign,
        rate=step_size * given * sign,
        feature_mask=rows.feature_mask,
        bias=jnp.asarray(bias),
    )
    return _Task(
        rows=rows._replace(weight=weight),
        visits=visits,
        listed=None if key is None else jnp.argsort(weight == 0, stable=True),
        present=jnp.sum(weight != 0, dtype=jnp.int32),
        key=key,
    )


def _loop(method, task, start, max_epochs, valid):
    operands = (task.visits, task._replace(visits=None), start, max_epochs, valid)
    loop = _visits.lanes_last(partial(_epochs, method, _visits.walk))
    found = loop(*jax.lax.stop_gradient(operands))
    each_alone = partial(_epochs, method, _visits.each_alone)
    return _implicit.derived(each_alone, found, operands, by_steps=True)


def _epochs(method, walk, visits, task, start, max_epochs, valid):
    task = task._replace(visits=visits)

    def more(state):
        return (state.epoch < max_epochs) & ~state.done

    def body(state):
        new, mistakes = method.epoch(walk, task, state)
        # An overflow ends the loop before the epoch in which it happened.
        sound = _finite(new.params) & _finite(new.answer)
        kept = jax.tree.map(lambda a, b: jnp.where(sound, a, b), new, state)
        room = np.iinfo(np.int32).max - state.steps
        return kept._replace(
            epoch=state.epoch + 1,
            steps=state.steps + jnp.where(sound, jnp.minimum(mistakes, room), 0),
            done=new.done | ~sound,
        )

    zero = jnp.zeros((), jnp.int32)
    return jax.lax.while_loop(more, *_loops.steady(body, _State(start, start, zero, zero, ~valid)))


def _plain_epoch(walk, task, state):
    params, mistakes, _ = _walked(walk, task, state, lambda seen, *_: seen, ())
    # Random picks miss rows: only a look at all of them tells a clean pass.
    left = mistakes if task.key is None else _verdict(task.rows, params).mistakes
    return state._replace(params=params, answer=params, done=left == 0), mistakes


def _averaged_epoch(walk, task, state):

    def drifted(drift, start, params, wrong, weight):
        moved = jax.tree.map(lambda s, a, b: s + (a - b), drift, params, start)
        return _visits.either(weight != 0, moved, drift)

    # Summed as distance from the epoch's start, and by epoch: a sum of 1e8 planes would stagnate.
    zero = jax.tree.map(jnp.zeros_like, state.params)
    params, mistakes, drift = _walked(walk, task, state, drifted, zero)
    visits, turn = (a.astype(task.visits.rate.dtype) for a in (task.present, state.epoch + 1))
    mean = jax.tree.map(lambda b, s: b + s / visits, state.params, drift)
    answer = jax.tree.map(lambda a, m: a + (m - a) / turn, state.answer, mean)
    left = _verdict(task.rows, answer).mistakes
    return state._replace(params=params, answer=answer, done=left == 0), mistakes


def _pocket_epoch(walk, task, state):
    def longest(seen, start, params, wrong, weight):
        run, best, candidate = seen
        run = jnp.where(wrong, 0, run + weight)
        longer = run > best
        candidate = _visits.either(longer, params, candidate)
        return run, jnp.maximum(run, best), candidate

    zero = jnp.zeros((), task.visits.rate.dtype)
    seen = (zero, zero, state.params)
    params, mistakes, (_, _, candidate) = _walked(walk, task, state, longest, seen)
    # argmin takes the first of equals, so the pocket changes only for the strictly better.
    planes = jax.tree.map(lambda *a: jnp.stack(a), state.answer, candidate, params)
    verdicts = jax.vmap(partial(_verdict, task.rows))(planes)
    best = jnp.argmin(verdicts.share)
    answer = jax.tree.map(lambda a: a[best], planes)
    return state._replace(params=params, answer=answer, done=verdicts.mistakes[best] == 0), mistakes


_PLAIN = _Method(epoch=_plain_epoch, objective=lambda verdict: verdict.loss)
_AVERAGED = _Method(epoch=_averaged_epoch, objective=lambda verdict: verdict.loss)
_POCKET = _Method(epoch=_pocket_epoch, objective=lambda verdict: verdict.share)


def _walked(walk, task, state, observe, seen):
    picks = None if task.key is None else _picks(task, state.epoch)
    return walk(observe, task.visits, state.params, seen, picks)


def _picks(task, epoch):
    """As many draws as rows have weight, from these; in the other places rows that have none."""
    n = task.listed.shape[0]
    key = jax.random.fold_in(task.key, epoch)
    drawn = jax.random.randint(key, (n,), 0, jnp.maximum(task.present, 1), jnp.int32)
    return jnp.where(jnp.arange(n, dtype=jnp.int32) < task.present, task.listed[drawn], task.listed)


def _verdict(rows, params):
    def judge(block):
        d = block.x.shape[1]
        if d <= _rows.FEW_COLUMNS:
            # Of so few a sum makes its terms as it goes; for products the rows are written, twice.
            terms = block.x * params.weights[None, :]
            score, reach = jnp.sum(terms, axis=1), jnp.sum(jnp.abs(terms), axis=1)
        else:
            score = dot(block.x, params.weights)
            reach = dot(jnp.abs(block.x), jnp.abs(params.weights))
        agreement = (2 * block.y.astype(block.x.dtype) - 1) * (score + params.bias)
        reach = reach + jnp.abs(params.bias)
        slack = (d + 2) * jnp.finfo(reach.dtype).eps * reach
        present = block.weight != 0
        wrong = present & ~(agreement > 0)
        return _Verdict(
            mistakes=jnp.sum(wrong, dtype=jnp.int32),
            unclear=jnp.sum(present & ~(agreement > slack), dtype=jnp.int32),
            share=jnp.sum(jnp.where(wrong, block.weight, 0)),
            loss=jnp.sum(jnp.where(wrong, -block.weight * agreement, 0)),
        ), ()

    sums, _ = _fold.fold(judge, rows)
    total = jnp.sum(rows.weight)
    total = jnp.where(total > 0, total, 1)
    return sums._replace(share=sums.share / total, loss=sums.loss / total)


def _report(method, task, state, verdict, valid):
    clean = verdict.mistakes == 0
    status = jnp.where(
        verdict.unclear == 0,
        Status.CONVERGED,
        jnp.where(state.done | clean, Status.STALLED, Status.MAX_STEPS),
    )
    both = jnp.any(task.visits.sign > 0) & jnp.any(task.visits.sign < 0)
    status = jnp.where(both, status, Status.CLASS_TOO_SMALL)
    params = jax.tree.map(lambda a: jnp.where(valid, a, jnp.nan), state.answer)
    residual = verdict.mistakes.astype(task.visits.rate.dtype)
    info = Info(
        status=jnp.where(valid, status, Status.INVALID_DATA).astype(jnp.int32),
        steps=jnp.where(valid, state.steps, 0),
        objective=jnp.where(valid, method.objective(verdict), jnp.nan),
        residual=jnp.where(valid, residual, jnp.nan),
    )
    return params, info


@_platform.jit
def _criterion(params, data):
    # Not masked by weight, so that the derivative with respect to a weight of 0 is the true one.
    def block_sum(block):
        agreement = (2 * block.y.astype(block.x.dtype) - 1) * _scores(block.x, params)
        return jnp.sum(block.weight * jnp.where(agreement <= 0, -agreement, 0)), ()

    total, _ = _fold.fold(block_sum, _unscaled(data))
    return jnp.where(_prepare.prepare(data, num_classes=2)[2], total, jnp.nan)


@partial(_platform.jit, static_argnames="bias")
def _mistake_bound(params, data, *, bias):
    extra = 1 if bias else 0
    params = params._replace(bias=extra * params.bias)
    length = jnp.sum(params.weights**2) + params.bias**2

    def extremes(block):
        agreement = (2 * block.y.astype(block.x.dtype) - 1) * _scores(block.x, params)
        size = jnp.sum(block.x**2, axis=1) + extra
        each = (size, -agreement, block.weight, -block.weight)
        return (), tuple(jnp.max(jnp.where(block.weight != 0, a, -jnp.inf)) for a in each)

    _, (size, short, heaviest, lightest) = _fold.fold(extremes, _unscaled(data))
    bound = size * length / short**2 * (heaviest / -lightest)
    valid = _prepare.prepare(data, num_classes=2)[2]
    return jnp.where(valid, jnp.where(short < 0, bound, jnp.inf), jnp.nan)


def _unscaled(data):
    """Rows that keep the given weights, and the labels of rows without any."""
    rows, _, _ = _prepare.prepare(data, num_classes=2)
    return rows._replace(weight=_given_weight(data), y=(data.y > 0).astype(jnp.int32))


def _given_weight(data):
    n, _ = data.x.shape
    dtype = _checks.working_dtype(data.x)
    return jnp.ones(n, dtype) if data.sample_weight is None else data.sample_weight


def _scores(x, params):
    return dot(x, params.weights) + params.bias


def _finite(params):
    return jnp.all(jnp.isfinite(params.weights)) & jnp.isfinite(params.bias)


def _cast(params, data, name):
    d, dtype = data.x.shape[1], _checks.working_dtype(data.x)
    return Hyperplane(
        weights=_checks.shaped(params.weights, (d,), dtype, f"{name}.weights"),
        bias=_checks.shaped(params.bias, (), dtype, f"{name}.bias"),
    )


_traits.declare(fit, fit_averaged, fit_pocket, skips=True)

"""Losses of one example as functions of its scores, and the objective that every fit minimises.

Each loss is `f(scores, y)`, elementwise over leading axes. Binary losses take scores `(...,)` and
`y: (...,)` in {0, 1}, a score being the signed, unnormalised distance to the plane, and
`t = 2 y - 1`. Losses of k classes take scores `(..., k)` and class indices `(...,)`. `logistic`
and `softmax` also take soft labels: a float probability, `(...,)` or `(..., k)`. `squared` and
`zero_one` take both kinds of scores, told apart by their rank.

All are jitted, and differentiable as often as their mathematics allows. Labels are not checked
for being classes: a fit does that. Shapes: `n` examples, `d` features, `k` classes.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jaxlin import _linalg, linear, solvers
from jaxlin._base import _checks, _codes, _mesh
from jaxlin._data import _fold, _rows
from jaxlin._nonsmooth import _size
from jaxlin.types import Hyperplane, Linear

Loss = Callable[[jax.Array, jax.Array], jax.Array]
# Of rounding, beside the root of the number of rows: by what slopes of one x may differ.
ULPS = 32


@_codes.jit
def squared(scores: jax.Array, y: jax.Array) -> jax.Array:
    """Half the squared error: (s - t)^2 / 2, or over k classes |s - e_y|^2 / 2.

    Args:
      scores: `(...,)`, or `(..., k)` against one-hot rows.
      y: class indices `(...,)`.

    Returns:
      `(...,)`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import losses
      >>> float(losses.squared(0.5, 1)), float(losses.squared(jnp.array([1.0, 0.0]), 1))
      (0.125, 1.0)
    """
    scores, y, binary = _hard(scores, y)
    if binary:
        return (scores - _sign(y, scores)) ** 2 / 2
    return jnp.sum((scores - _one_hot(y, scores)) ** 2, axis=-1) / 2


@_codes.jit
def perceptron(scores: jax.Array, y: jax.Array) -> jax.Array:
    """The perceptron criterion of one example: max(0, -t s) (Rosenblatt, 1958).

    At a tie, s = 0, the derivative is that of a mistake, -t, so that learning can start from 0.

    Args:
      scores: `(...,)`.
      y: `(...,)` in {0, 1}.

    Returns:
      `(...,)`.

    Example:
      >>> from jaxlin import losses
      >>> float(losses.perceptron(-2.0, 1)), float(losses.perceptron(-2.0, 0))
      (2.0, 0.0)
    """
    scores, y = _binary(scores, y)
    agreement = _sign(y, scores) * scores
    return jnp.where(agreement <= 0, -agreement, 0)


@_codes.jit
def hinge(scores: jax.Array, y: jax.Array) -> jax.Array:
    """The soft margin's loss: max(0, 1 - t s) (Cortes and Vapnik, 1995).

    At the kink, t s = 1, the derivative is 0.

    Args:
      scores: `(...,)`.
      y: `(...,)` in {0, 1}.

    Returns:
      `(...,)`.

    Example:
      >>> from jaxlin import losses
      >>> float(losses.hinge(0.25, 1)), float(losses.hinge(0.25, 0))
      (0.75, 1.25)
    """
    scores, y = _binary(scores, y)
    short = 1 - _sign(y, scores) * scores
    return jnp.where(short > 0, short, 0)


@_codes.jit
def squared_hinge(scores: jax.Array, y: jax.Array) -> jax.Array:
    """max(0, 1 - t s)^2, the smooth relative of `hinge`.

    Args:
      scores: `(...,)`.
      y: `(...,)` in {0, 1}.

    Returns:
      `(...,)`.

    Example:
      >>> from jaxlin import losses
      >>> float(losses.squared_hinge(0.5, 1)), float(losses.squared_hinge(2.0, 1))
      (0.25, 0.0)
    """
    return hinge(scores, y) ** 2


@_codes.jit
def zero_one(scores: jax.Array, y: jax.Array) -> jax.Array:
    """1 where the prediction is wrong; ties go to the lower class, as in every `predict`.

    Args:
      scores: `(...,)`, or `(..., k)`.
      y: class indices `(...,)`.

    Returns:
      `(...,)`, of derivative 0.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import losses
      >>> float(losses.zero_one(0.0, 1)), float(losses.zero_one(jnp.array([3.0, 3.0]), 0))
      (1.0, 0.0)
    """
    scores, y, binary = _hard(scores, y)
    predicted = scores > 0 if binary else jnp.argmax(scores, axis=-1)
    wrong = predicted != (_sign(y, scores) > 0) if binary else ~_is_class(predicted, y)
    return wrong.astype(scores.dtype)


@_codes.jit
def logistic(scores: jax.Array, y: jax.Array) -> jax.Array:
    """Minus the log likelihood of a logistic model: log(1 + exp(-t s)).

    For a probability y in [0, 1]: y log(1 + exp(-s)) + (1 - y) log(1 + exp(s)). Value, first and
    second derivative keep full relative accuracy for scores of any size.

    Args:
      scores: `(...,)`, log-odds of class 1.
      y: `(...,)` in {0, 1}, or a float probability.

    Returns:
      `(...,)`, in nats.

    Example:
      >>> import jax
      >>> from jaxlin import losses
      >>> round(float(losses.logistic(0.0, 1)), 6)
      0.693147
      >>> float(jax.grad(losses.logistic)(0.0, 0.25))
      0.25
    """
    scores, y = _float(scores), _checks.array(y, "y")
    _same_shape(scores, y)
    if jnp.issubdtype(y.dtype, jnp.floating):
        y = y.astype(scores.dtype)
        return y * _softplus(-scores) + (1 - y) * _softplus(scores)
    return _softplus(-_sign(y, scores) * scores)


@_codes.jit
def softmax(scores: jax.Array, y: jax.Array) -> jax.Array:
    """Minus the log likelihood of a softmax model: log sum_c exp(s_c) - s_y.

    For probabilities y: sum_c y_c (log sum_j exp(s_j) - s_c). A score of -inf is a class of
    probability 0.

    Args:
      scores: `(..., k)`.
      y: class indices `(...,)`, or float probabilities `(..., k)`.

    Returns:
      `(...,)`, in nats.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import losses
      >>> round(float(losses.softmax(jnp.zeros(3), 2)), 6)
      1.098612
    """
    scores, y = _float(scores), _checks.array(y, "y")
    if jnp.issubdtype(y.dtype, jnp.floating):
        _same_shape(scores, y)
        target = y.astype(scores.dtype)
    else:
        _same_shape(scores[..., 0], y)
        target = _one_hot(y, scores)
    # Around the largest score, a variable like the others: what its derivatives would be 1 less is
    # then the sum of what the others are, and keeps its digits where a row is all but certain.
    is_top = _one_hot(jnp.argmax(scores, axis=-1), scores) > 0
    peak = jnp.sum(jnp.where(is_top, scores, 0), axis=-1, keepdims=True)
    below = jnp.where(is_top, 0, scores - peak)
    rest = jnp.sum(jnp.where(is_top, 0, jnp.exp(below)), axis=-1)
    gap = jnp.sum(jnp.where(target > 0, -target * jnp.where(target > 0, below, 0), 0), axis=-1)
    return gap + jnp.sum(target, axis=-1) * jnp.log1p(rest)


@_codes.jit
def multiclass_perceptron(scores: jax.Array, y: jax.Array) -> jax.Array:
    """max_c s_c - s_y: how far the right class is from the top (Collins, 2002).

    Args:
      scores: `(..., k)`.
      y: class indices `(...,)`.

    Returns:
      `(...,)`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import losses
      >>> float(losses.multiclass_perceptron(jnp.array([1.0, 3.0]), 0))
      2.0
    """
    scores, y = _multiclass(scores, y)
    return jnp.max(scores, axis=-1) - jnp.sum(_one_hot(y, scores) * scores, axis=-1)


@_codes.jit
def multiclass_hinge(scores: jax.Array, y: jax.Array) -> jax.Array:
    """max_c (s_c + [c != y]) - s_y (Crammer and Singer, 2001).

    Args:
      scores: `(..., k)`.
      y: class indices `(...,)`.

    Returns:
      `(...,)`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import losses
      >>> float(losses.multiclass_hinge(jnp.array([1.0, 0.5]), 0))
      0.5
    """
    scores, y = _multiclass(scores, y)
    truth = _one_hot(y, scores)
    return jnp.max(scores + (1 - truth), axis=-1) - jnp.sum(truth * scores, axis=-1)


def objective(
    loss: Loss,
    params: Hyperplane | Linear,
    x: Any,
    y: Any,
    *,
    l2: Any = 0.0,
    l1: Any = 0.0,
    groups: Any = None,
    num_groups: int | None = None,
    sample_weight: Any = None,
    offset: Any = None,
) -> jax.Array:
    """What every penalised fit minimises: mean loss + l2/2 |weights|^2 + l1 |weights|_1.

    The mean is weighted, sum_i w_i loss_i / sum_i w_i; the bias is never penalised. Rows are
    evaluated block by block, so that the scores are never held at once.

    Args:
      loss: `f(scores, y)` per example, of this module or your own.
      params: a Hyperplane or a Linear.
      x: `(n, d)`.
      y: `(n,)`, or what the loss takes.
      l2, l1: a scalar, or one penalty per feature `(d,)`.
      groups, num_groups: as of the fits: with groups the last term is sum_g l1_g |weights_g|, l1 a
        scalar or `(g,)`.
      sample_weight: `(n,)`; a row of weight 0 is absent.
      offset: `(n,)`, or `(n, k)` for a Linear, added to the scores.

    Returns:
      A scalar; NaN where no row has weight.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import losses
      >>> from jaxlin.types import Hyperplane
      >>> plane = Hyperplane(weights=jnp.array([2.0]), bias=jnp.array(0.0))
      >>> x, y = jnp.array([[1.0], [-1.0]]), jnp.array([1, 1])
      >>> float(losses.objective(losses.hinge, plane, x, y, l2=0.5))
      2.5
    """
    _checks.refuse_other_rows(x=x, y=y, sample_weight=sample_weight)
    x = _checks.matrix(x, sparse=True)
    n, d = x.shape
    dtype = _checks.working_dtype(x)
    k = None if jnp.ndim(params.weights) == 1 else jnp.shape(params.weights)[0]
    return _objective(
        loss,
        jax.tree.map(lambda a: _checks.real(a, "params").astype(dtype), params),
        x,
        _one_per_row(y, n),
        _checks.penalty(l2, d, dtype),
        _size.of(l1, groups, num_groups, d, dtype),
        _checks.optional(sample_weight, (n,), dtype, "sample_weight"),
        _checks.optional(offset, (n,) if k is None else (n, k), dtype, "offset"),
    )


def l1_max(
    loss: Loss,
    x: Any,
    y: Any,
    *,
    num_classes: int | None = None,
    groups: Any = None,
    num_groups: int | None = None,
    sample_weight: Any = None,
    offset: Any = None,
    bias: bool = True,
) -> jax.Array:
    """The smallest `l1` at which every weight of a fit is 0, to rounding.

    It is the largest size of the gradient of the mean loss in the weights, or its norm in those of
    a group, where these are 0 and the biases fit best. A path of penalties goes from it to a
    hundredth or a thousandth.

    Args:
      loss: `f(scores, y)` per example, smooth and convex.
      x: `(n, d)`.
      y: `(n,)`, or what the loss takes.
      num_classes: k, static, of a loss of k scores; None for one score.
      groups, num_groups: as of the fits.
      sample_weight: `(n,)`; a row of weight 0 is absent.
      offset: `(n,)`, or `(n, k)`, added to the scores.
      bias: static, as of the fit.

    Returns:
      `()`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import logistic, losses
      >>> x = jnp.array([[0.0, 1.0], [1.0, 0.0], [2.0, 0.0], [3.0, 1.0]])
      >>> y = jnp.array([0, 1, 0, 1])
      >>> most = losses.l1_max(losses.logistic, x, y)
      >>> round(most.item(), 4), logistic.fit(x, y, l1=most)[0].weights.tolist()
      (0.25, [0.0, 0.0])
    """
    _checks.refuse_other_rows(x=x, y=y, sample_weight=sample_weight)
    x = _checks.matrix(x)
    n, dtype = len(x), _checks.working_dtype(x)
    k = None if num_classes is None else _checks.number_of_classes(num_classes, 0)
    lead = () if k is None else (k,)
    groups = _size.of(1.0, groups, num_groups, x.shape[1], dtype).groups
    return _l1_max(
        loss,
        lead,
        _checks.static(bias, bool, "bias"),
        groups,
        x,
        _one_per_row(y, n),
        _checks.optional(sample_weight, (n,), dtype, "sample_weight"),
        _checks.optional(offset, (n, *lead), dtype, "offset"),
    )


def l2_from_C(C: Any, total_weight: Any) -> jax.Array:
    """The l2 of this package for scikit-learn's C: l2 = 1 / (C total_weight).

    Args:
      C: inverse strength of the penalty, against the *sum* of the losses.
      total_weight: the sum of the sample weights; n without weights.

    Returns:
      l2, against the *mean* of the losses.

    Example:
      >>> from jaxlin import losses
      >>> float(losses.l2_from_C(2.0, 100))
      0.005
    """
    return 1 / (jnp.asarray(C) * jnp.asarray(total_weight))


def C_from_l2(l2: Any, total_weight: Any) -> jax.Array:
    """scikit-learn's C for an l2 of this package: C = 1 / (l2 total_weight).

    Args:
      l2: strength of the penalty, against the *mean* of the losses.
      total_weight: the sum of the sample weights; n without weights.

    Returns:
      C, against the *sum* of the losses.

    Example:
      >>> from jaxlin import losses
      >>> float(losses.C_from_l2(0.005, 100))
      2.0
    """
    return 1 / (jnp.asarray(l2) * jnp.asarray(total_weight))


def _one_per_row(y: Any, n: int) -> jax.Array:
    y = _checks.array(y, "y")
    if y.ndim == 0 or y.shape[0] != n:
        raise ValueError(f"y: expected {n} rows, as x has, got shape {y.shape}")
    return y


@partial(jax.jit, static_argnums=0)
def _objective(loss, params, x, y, l2, size, sample_weight, offset):
    n, _ = x.shape
    dtype = _checks.working_dtype(x)
    weight = jnp.ones(n, dtype) if sample_weight is None else sample_weight
    finite = _rows.finite(x)
    if offset is not None:
        finite &= jnp.isfinite(offset) if offset.ndim == 1 else jnp.all(jnp.isfinite(offset), 1)
        offset = _mesh.where_rows(finite, offset)
    weight = jnp.where(finite, weight, jax.lax.stop_gradient(weight))
    rows = _rows.Rows(
        x=x,
        y=y,
        weight=weight / jnp.sum(weight),
        offset=offset,
        ok=finite,
        feature_mask=None,
    )

    def block_sum(block):
        scores = linear.scores(params, block.x if block.entries is None else block.entries)
        if block.offset is not None:
            scores = scores + block.offset
        each = jax.vmap(loss)(scores, block.y)
        absent = (block.weight == 0) & ~(block.ok & jnp.isfinite(each))
        return jnp.sum(jnp.where(absent, 0, block.weight * jnp.where(absent, 0, each))), ()

    mean, _ = _fold.fold(block_sum, rows, _rows.pass_entries(x))
    mean = jnp.where(jnp.any((weight != 0) & ~finite), jnp.nan, mean)
    weights = params.weights.astype(dtype)
    # An infinite weight that no penalty sees must not make NaN.
    squares, sizes = (jnp.broadcast_to(a, weights.shape) for a in (l2, size.l1))
    unseen = (squares == 0) & (sizes == 0) & ~jnp.isfinite(weights)
    weights = jnp.where(unseen, 0, weights)
    return mean + jnp.sum(squares * weights**2) / 2 + _size.value(size, weights)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _l1_max(loss, lead, bias, groups, *data):
    (n, d), dtype = data[0].shape, _checks.working_dtype(data[0])
    weights, objective = jnp.zeros((*lead, d), dtype), partial(_at_level, loss, lead)
    eps = float(jnp.finfo(dtype).eps)
    # All classes' biases alike change nothing: the first is 0.
    level = jnp.zeros(max(lead[0] - 1, 0) if lead else 1, dtype)
    if bias:
        # By as much as the biases are off the slopes are too, so they are found to rounding.
        level, _ = solvers.newton(objective, level, (weights, *data), tol=eps)
    slope = jax.grad(objective, 1)(level, weights, *data)
    # A fit sums in another order, and may find slopes that are larger by rounding.
    return _linalg.largest(_size.norms(groups, slope)) * (1 + (ULPS + n**0.5) * eps)


def _at_level(loss, lead, level, weights, x, y, sample_weight, offset):
    """The mean loss; `level (k - 1,)`, or `(1,)` of one score."""
    zero = jnp.zeros(x.shape[1], weights.dtype)
    params: Any = Hyperplane(weights, level[0])
    if lead:
        params = Linear(weights, jnp.concatenate([jnp.zeros_like(weights[:1, 0]), level]))
    return _objective(loss, params, x, y, zero, _size.Size(zero), sample_weight, offset)


@jax.custom_jvp
def _softplus(u: jax.Array) -> jax.Array:
    """log(1 + exp(u)), its derivatives free of cancellation for large |u|."""
    return jnp.maximum(u, 0) + _linalg.log1p_of_share(jnp.exp(-jnp.abs(u)))


# The loss and its derivatives are of one exponential and one quotient: a compiler takes them once.


@jax.custom_jvp
def _sigmoid(u: jax.Array) -> jax.Array:
    small = jnp.exp(-jnp.abs(u))
    return jnp.where(u < 0, small, 1) * (1 / (1 + small))


@jax.custom_jvp
def _bell(u: jax.Array) -> jax.Array:
    """sigmoid(u) sigmoid(-u), the sigmoid's derivative.

    Not s (1 - s): 1 - s cancels for large u, and with it the curvature.
    """
    small = jnp.exp(-jnp.abs(u))
    share = 1 / (1 + small)
    return small * share * share


@_softplus.defjvp
def _softplus_jvp(primals, tangents):
    return _softplus(*primals), _sigmoid(*primals) * tangents[0]


@_sigmoid.defjvp
def _sigmoid_jvp(primals, tangents):
    return _sigmoid(*primals), _bell(*primals) * tangents[0]


@_bell.defjvp
def _bell_jvp(primals, tangents):
    (u,) = primals
    return _bell(u), _bell(u) * (1 - 2 * _sigmoid(u)) * tangents[0]


def _is_class(predicted: jax.Array, y: jax.Array) -> jax.Array:
    # In y's own dtype if that is the wider: a cast of a large label could wrap into the range.
    wide = y.dtype if y.dtype.itemsize > predicted.dtype.itemsize else predicted.dtype
    return predicted.astype(wide) == y.astype(wide)


def _float(scores: Any) -> jax.Array:
    scores = _checks.real(scores, "scores")
    return scores.astype(_checks.working_dtype(scores))


def _sign(y: jax.Array, like: jax.Array) -> jax.Array:
    """t = 2y - 1; cast first, since 2y - 1 of an unsigned 0 is not -1."""
    return 2 * y.astype(like.dtype) - 1


def _one_hot(y: jax.Array, scores: jax.Array) -> jax.Array:
    return jax.nn.one_hot(y, scores.shape[-1], dtype=scores.dtype)


def _binary(scores: Any, y: Any) -> tuple[jax.Array, jax.Array]:
    scores, y, binary = _hard(scores, y)
    if not binary:
        raise ValueError(f"scores: expected the shape of y, {y.shape}, got {scores.shape}")
    return scores, y


def _multiclass(scores: Any, y: Any) -> tuple[jax.Array, jax.Array]:
    scores, y, binary = _hard(scores, y)
    if binary:
        raise ValueError(f"scores: expected shape {(*y.shape, 'k')}, got {scores.shape}")
    return scores, y


def _hard(scores: Any, y: Any) -> tuple[jax.Array, jax.Array, bool]:
    scores, y = _float(scores), _checks.array(y, "y")
    if jnp.issubdtype(y.dtype, jnp.floating):
        raise TypeError(
            f"y: expected integer or bool class indices, got dtype {y.dtype}; "
            "only losses.logistic and losses.softmax take soft labels"
        )
    binary = scores.ndim == y.ndim
    _same_shape(scores if binary else scores[..., 0], y)
    return scores, y, binary


def _same_shape(scores: jax.Array, y: jax.Array) -> None:
    if scores.shape != y.shape:
        raise ValueError(f"y: expected shape {scores.shape}, that of the scores, got {y.shape}")

"""Learning from one example: the textbooks' update rules, and a loop that drives any of them.

A rule is `f(params, x, y, *, step_size, ...)` for one example `x: (d,)`, `y: ()`, and returns the
new params. Symbols: s = w . x + b, t = 2 y - 1. The bias is one more weight, of a feature that is
always 1; `bias=False` leaves it alone. Rules of two classes act on a `Hyperplane`, `softmax` and
`multiclass_perceptron` on a `Linear`.

`run` visits the rows of a table with any rule of this call shape, yours included. There is no
stopping rule and no `Info` here: a step too large diverges, as it does in the textbook, and the
fits (`perceptron.fit`, `logistic.fit`, ...) say whether they succeeded. Labels are not checked for
being classes: a fit does that. Params keep their dtype, and x is cast to it.

Shapes: `n` examples, `d` features, `k` classes, `m` visits.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxlin._base import _checks, _codes, _loops
from jaxlin._linalg import dot
from jaxlin.types import Hyperplane, Linear

Params = TypeVar("Params", Hyperplane, Linear)
Rule = Callable[..., Any]


@partial(_codes.jit, static_argnames="bias")
def perceptron(
    params: Hyperplane, x: Any, y: Any, *, step_size: Any = 1.0, bias: bool = True
) -> Hyperplane:
    """Rosenblatt's rule: w += step t x where t s <= 0 (Rosenblatt, 1958).

    Away from ties this is step (y - [s > 0]) x. A tie, s = 0, is a mistake, so that learning can
    start from w = 0.

    Args:
      params: a Hyperplane.
      x: `(d,)`.
      y: `()` in {0, 1}.
      step_size: `()`.
      bias: static; False leaves the bias as it is.

    Returns:
      A Hyperplane.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import updates
      >>> from jaxlin.types import Hyperplane
      >>> plane = Hyperplane(weights=jnp.zeros(2), bias=jnp.zeros(()))
      >>> updates.perceptron(plane, jnp.array([1.0, 2.0]), 0).weights.tolist()
      [-1.0, -2.0]
    """
    params, x, s = _plane(params, x)
    t = _sign(y, s)
    return _add(params, x, jnp.where(t * s <= 0, _number(step_size, s) * t, 0), bias)


@partial(_codes.jit, static_argnames="bias")
def logistic(
    params: Hyperplane, x: Any, y: Any, *, step_size: Any = 1.0, bias: bool = True
) -> Hyperplane:
    """Gradient ascent on one example's log likelihood: w += step (y - sigmoid(s)) x.

    The perceptron's rule with another activation.

    Args:
      params: a Hyperplane.
      x: `(d,)`.
      y: `()` in {0, 1}, or a float probability.
      step_size: `()`.
      bias: static; False leaves the bias as it is.

    Returns:
      A Hyperplane.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import updates
      >>> from jaxlin.types import Hyperplane
      >>> plane = Hyperplane(weights=jnp.zeros(2), bias=jnp.zeros(()))
      >>> updates.logistic(plane, jnp.array([1.0, 2.0]), 1, step_size=2.0).weights.tolist()
      [1.0, 2.0]
    """
    params, x, s = _plane(params, x)
    error = _scalar(y).astype(s.dtype) - jax.nn.sigmoid(s)
    return _add(params, x, _number(step_size, s) * error, bias)


@partial(_codes.jit, static_argnames="bias")
def adaline(
    params: Hyperplane, x: Any, y: Any, *, step_size: Any = 1.0, bias: bool = True
) -> Hyperplane:
    """Least mean squares: w += step (t - s) x (Widrow and Hoff, 1960).

    Stable for step sizes below 2 / (|x|^2 + 1).

    Args:
      params: a Hyperplane.
      x: `(d,)`.
      y: `()` in {0, 1}.
      step_size: `()`.
      bias: static; False leaves the bias as it is.

    Returns:
      A Hyperplane.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import updates
      >>> from jaxlin.types import Hyperplane
      >>> plane = Hyperplane(weights=jnp.array([0.5]), bias=jnp.zeros(()))
      >>> updates.adaline(plane, jnp.array([1.0]), 1, step_size=0.5).weights.tolist()
      [0.75]
    """
    params, x, s = _plane(params, x)
    return _add(params, x, _number(step_size, s) * (_sign(y, s) - s), bias)


@partial(_codes.jit, static_argnames="bias")
def hinge(
    params: Hyperplane,
    x: Any,
    y: Any,
    *,
    step_size: Any = 1.0,
    l2: Any = 0.0,
    bias: bool = True,
) -> Hyperplane:
    """Pegasos: w = (1 - step l2) w + step t x [t s < 1] (Shalev-Shwartz et al., 2007).

    A subgradient step on one example's hinge loss + l2/2 |w|^2. The bias is not shrunk. Pegasos'
    own step at visit i = 1, 2, ... is 1 / (l2 i): `run` takes one step size per visit.

    Args:
      params: a Hyperplane.
      x: `(d,)`.
      y: `()` in {0, 1}.
      step_size: `()`.
      l2: `()`, or one penalty per feature `(d,)`.
      bias: static; False leaves the bias as it is.

    Returns:
      A Hyperplane.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import updates
      >>> from jaxlin.types import Hyperplane
      >>> plane = Hyperplane(weights=jnp.array([4.0]), bias=jnp.zeros(()))
      >>> updates.hinge(plane, jnp.array([1.0]), 1, step_size=0.5, l2=0.5).weights.tolist()
      [3.0]
    """
    params, x, s = _plane(params, x)
    step, t = _number(step_size, s), _sign(y, s)
    shrink = 1 - step * _checks.penalty(l2, x.shape[0], s.dtype)
    shrunk = params._replace(weights=shrink * params.weights)
    return _add(shrunk, x, jnp.where(t * s < 1, step * t, 0), bias)


@partial(_codes.jit, static_argnames="bias")
def passive_aggressive(
    params: Hyperplane,
    x: Any,
    y: Any,
    *,
    step_size: Any = 1.0,
    aggressiveness: Any = jnp.inf,
    bias: bool = True,
) -> Hyperplane:
    """The least change that gives t s = 1: w += step tau t x (Crammer et al., 2006).

    tau = min(C, max(0, 1 - t s) / (|x|^2 + 1)), without the 1 where `bias=False`. C is the
    `aggressiveness` of their PA-I, which keeps noisy labels from moving the plane too far; at the
    default, infinity, it is plain PA.

    Args:
      params: a Hyperplane.
      x: `(d,)`.
      y: `()` in {0, 1}.
      step_size: `()`; 1 is the textbook's.
      aggressiveness: `()`, C.
      bias: static; False leaves the bias as it is.

    Returns:
      A Hyperplane.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import updates
      >>> from jaxlin.types import Hyperplane
      >>> plane = Hyperplane(weights=jnp.zeros(1), bias=jnp.zeros(()))
      >>> updates.passive_aggressive(plane, jnp.array([1.0]), 1).weights.tolist()
      [0.5]
    """
    return _passive(params, x, y, (step_size, 0.0, aggressiveness), bias)


@partial(_codes.jit, static_argnames="bias")
def passive_aggressive_ii(
    params: Hyperplane,
    x: Any,
    y: Any,
    *,
    step_size: Any = 1.0,
    aggressiveness: Any = jnp.inf,
    bias: bool = True,
) -> Hyperplane:
    """PA-II: the least change and C times the squared loss it leaves (Crammer et al., 2006).

    w += step tau t x, tau = max(0, 1 - t s) / (|x|^2 + 1 + 1 / (2 C)), without the first 1 where
    `bias=False`. It never stops at a bound as PA-I does, which is `passive_aggressive`.

    Args:
      params: a Hyperplane.
      x: `(d,)`.
      y: `()` in {0, 1}.
      step_size: `()`; 1 is the textbook's.
      aggressiveness: `()`, C; at infinity it is plain PA.
      bias: static; False leaves the bias as it is.

    Returns:
      A Hyperplane.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import updates
      >>> from jaxlin.types import Hyperplane
      >>> plane = Hyperplane(weights=jnp.zeros(1), bias=jnp.zeros(()))
      >>> rule = updates.passive_aggressive_ii
      >>> rule(plane, jnp.array([1.0]), 1, aggressiveness=0.25).weights.tolist()
      [0.25]
    """
    return _passive(params, x, y, (step_size, 1 / (2 * aggressiveness), jnp.inf), bias)


@partial(_codes.jit, static_argnames="bias")
def softmax(params: Linear, x: Any, y: Any, *, step_size: Any = 1.0, bias: bool = True) -> Linear:
    """Gradient ascent on one example's log likelihood: w_c += step ([y = c] - p_c) x.

    p = softmax(s), s_c = w_c . x + b_c.

    Args:
      params: a Linear.
      x: `(d,)`.
      y: `()` in 0..k-1, or float probabilities `(k,)`.
      step_size: `()`.
      bias: static; False leaves the bias as it is.

    Returns:
      A Linear.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import updates
      >>> from jaxlin.types import Linear
      >>> params = Linear(weights=jnp.zeros((2, 1)), bias=jnp.zeros(2))
      >>> updates.softmax(params, jnp.array([2.0]), 1).weights.tolist()
      [[-1.0], [1.0]]
    """
    params, x, s = _linear(params, x)
    error = _truth(y, s) - jax.nn.softmax(s)
    return _add(params, x, _number(step_size, s) * error, bias)


@partial(_codes.jit, static_argnames="bias")
def multiclass_perceptron(
    params: Linear, x: Any, y: Any, *, step_size: Any = 1.0, bias: bool = True
) -> Linear:
    """w_y += step x, w_r -= step x where a rival r has s_r >= s_y (Duda and Hart, 1973).

    r is the class with the highest score among the others, the lowest of them at a tie. A tie
    with the true class is a mistake, so that learning can start from w = 0.

    Args:
      params: a Linear of at least two classes.
      x: `(d,)`.
      y: `()` in 0..k-1.
      step_size: `()`.
      bias: static; False leaves the bias as it is.

    Returns:
      A Linear.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import updates
      >>> from jaxlin.types import Linear
      >>> params = Linear(weights=jnp.zeros((3, 1)), bias=jnp.zeros(3))
      >>> updates.multiclass_perceptron(params, jnp.array([2.0]), 0).weights.tolist()
      [[2.0], [-2.0], [0.0]]
    """
    params, x, s = _linear(params, x)
    _refuse_soft(y)
    truth = _truth(y, s)
    rival, wrong = _rival(s, truth)
    change = truth - jax.nn.one_hot(rival, s.shape[0], dtype=s.dtype)
    return _add(params, x, jnp.where(wrong, _number(step_size, s) * change, 0), bias)


def run(
    rule: Rule,
    params: Params,
    x: Any,
    y: Any,
    *,
    order: Any = None,
    sample_weight: Any = None,
    step_size: Any = 1.0,
    **options: Any,
) -> tuple[Params, jax.Array]:
    """Visit rows one after the other with any update rule.

    Compiled once per rule and shapes; a lambda made anew compiles anew.

    Args:
      rule: `f(params, x, y, *, step_size, **options)`, of this module or your own.
      params: a Hyperplane or a Linear to start from; cast to the working dtype of x.
      x: `(n, d)`.
      y: `(n,)`, or what the rule takes.
      order: `(m,)` integers in 0..n-1, the rows to visit; by default each once, in order.
      sample_weight: `(n,)`, scales the updates: params + weight (new - params). A row of weight 0
        is skipped, whatever it holds.
      step_size: `()`, or one per visit `(m,)`.
      **options: for the rule. Booleans are static, all else is traced.

    Returns:
      `(params, mistakes)`, the latter `()` int32: how many of the visited rows of positive weight
      were mistaken *before* their update, t s <= 0 or a rival's score >= that of the true class.
      Params are NaN where `order` leaves 0..n-1, a weight is negative, or a visited row with
      weight is not finite.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import updates
      >>> from jaxlin.types import Hyperplane
      >>> plane = Hyperplane(weights=jnp.zeros(1), bias=jnp.zeros(()))
      >>> x, y = jnp.array([[1.0], [-1.0]]), jnp.array([1, 0])
      >>> plane, mistakes = updates.run(updates.perceptron, plane, x, y)
      >>> plane.weights.tolist(), int(mistakes)
      ([2.0], 2)
    """
    classes = None if np.ndim(y) < 2 else np.shape(y)[1]
    data = _checks.table(x, y, sample_weight=sample_weight, soft=True, num_classes=classes)
    order = jnp.arange(data.x.shape[0]) if order is None else _order(order)
    steps = _checks.real(step_size, "step_size").astype(_checks.working_dtype(data.x))
    if steps.shape not in ((), order.shape):
        raise ValueError(f"step_size: expected shape () or {order.shape}, got {steps.shape}")
    constants = tuple((k, v) for k, v in sorted(options.items()) if isinstance(v, bool))
    traced = {k: v for k, v in options.items() if not isinstance(v, bool)}
    return _run(rule, constants, params, data, order, steps, traced)


@partial(jax.jit, static_argnums=(0, 1))
def _run(rule, constants, params, data, order, steps, options):
    dtype = _checks.working_dtype(data.x)
    n, _ = data.x.shape
    weight = jnp.ones(n, dtype) if data.sample_weight is None else data.sample_weight
    params = jax.tree.map(lambda a: jnp.asarray(a).astype(dtype), params)
    options = {**options, **dict(constants)}

    def visit(carry, now):
        params, mistakes = carry
        i, step = now
        row, label = _row(data.x, i).astype(dtype), _row(data.y, i)
        wrong = (_row(weight, i) != 0) & _mistaken(params, row, label)
        new = rule(params, row, label, step_size=step, **options)
        new = jax.tree.map(partial(_scaled, _row(weight, i)), params, new)
        return (new, mistakes + wrong.astype(jnp.int32)), None

    init = (params, jnp.zeros((), jnp.int32))
    visits = order, jnp.broadcast_to(steps, order.shape)
    visit, init = _loops.steady_scan(visit, init, visits)
    (params, mistakes), _ = jax.lax.scan(visit, init, visits)
    bad = ~(weight >= 0) | ((weight != 0) & ~jnp.all(jnp.isfinite(data.x), axis=1))
    bad = jnp.any(bad[order] | (order < 0) | (order >= n))
    return jax.tree.map(lambda a: jnp.where(bad, jnp.nan, a), params), mistakes


def _scaled(weight: jax.Array, old: jax.Array, new: jax.Array) -> jax.Array:
    new = new.astype(old.dtype)
    # Equal values stay as they are: old + 1 (new - old) would round, and inf - inf is NaN.
    exact = (weight == 1) | (new == old)
    return jnp.where(weight == 0, old, jnp.where(exact, new, old + weight * (new - old)))


def _mistaken(params: Any, x: jax.Array, y: jax.Array) -> jax.Array:
    if isinstance(params, Linear):
        _, _, s = _linear(params, x)
        return _rival(s, _truth(y, s))[1]
    _, _, s = _plane(params, x)
    return (2 * y.astype(s.dtype) - 1) * s <= 0


def _rival(s: jax.Array, truth: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The highest-scoring class but the true one, and whether it reaches the true one's score."""
    true = jnp.argmax(truth)
    others = jnp.where(jnp.arange(s.shape[0]) == true, -jnp.inf, s)
    return jnp.argmax(others), jnp.max(others) >= s[true]


def _passive(params: Hyperplane, x: Any, y: Any, numbers: tuple, bias: bool) -> Hyperplane:
    """A step that ends the loss; `numbers`: its size, what is added to |x|^2, the largest tau."""
    params, x, s = _plane(params, x)
    step_size, more, most = (_number(a, s) for a in numbers)
    t = _sign(y, s)
    length = dot(x, x) + (1 if bias else 0) + more
    loss = jnp.maximum(1 - t * s, 0)
    tau = jnp.where(length > 0, loss / jnp.where(length > 0, length, 1), 0)
    return _add(params, x, step_size * jnp.minimum(tau, most) * t, bias)


def _plane(params: Hyperplane, x: Any) -> tuple[Hyperplane, jax.Array, jax.Array]:
    return _scored(params, x, 1, "a Hyperplane of weights (d,)")


def _linear(params: Linear, x: Any) -> tuple[Linear, jax.Array, jax.Array]:
    return _scored(params, x, 2, "a Linear of weights (k, d)")


def _scored(params: Any, x: Any, rank: int, expected: str) -> tuple[Any, jax.Array, jax.Array]:
    """Params as float arrays, the example in their dtype, and its scores."""
    weights = _checks.real(params.weights, "params.weights")
    if weights.ndim != rank:
        raise ValueError(f"params: expected {expected}, got {weights.shape}")
    weights = weights.astype(_checks.working_dtype(weights))
    bias = _checks.shaped(params.bias, weights.shape[:-1], weights.dtype, "params.bias")
    x = _checks.shaped(x, weights.shape[-1:], weights.dtype, "x")
    return params._replace(weights=weights, bias=bias), x, dot(weights, x) + bias


def _add(params: Params, x: jax.Array, amount: jax.Array, bias: bool) -> Params:
    """w += amount x, b += amount, the amount one per class."""
    return params._replace(
        weights=params.weights + (amount * x if amount.ndim == 0 else jnp.outer(amount, x)),
        bias=params.bias + amount if bias else params.bias,
    )


def _sign(y: Any, s: jax.Array) -> jax.Array:
    """t = 2y - 1; cast first, since 2y - 1 of an unsigned 0 is not -1."""
    _refuse_soft(y)
    return 2 * _scalar(y).astype(s.dtype) - 1


def _truth(y: Any, s: jax.Array) -> jax.Array:
    """`(k,)`: one-hot for a class index, probabilities as they are."""
    y = _checks.array(y, "y")
    if jnp.issubdtype(y.dtype, jnp.floating):
        return _checks.shaped(y, s.shape, s.dtype, "y")
    return jax.nn.one_hot(_scalar(y), s.shape[0], dtype=s.dtype)


def _scalar(y: Any) -> jax.Array:
    y = _checks.array(y, "y")
    if y.shape != ():
        raise ValueError(f"y: expected shape (), one example's label, got {y.shape}; see run")
    return y


def _refuse_soft(y: Any) -> None:
    if jnp.issubdtype(_checks.array(y, "y").dtype, jnp.floating):
        raise TypeError(
            "y: expected an integer or bool class index, got a float; labels.encode numbers any "
            "values, and only updates.logistic and updates.softmax take soft labels"
        )


def _number(value: Any, s: jax.Array) -> jax.Array:
    return jnp.asarray(value).astype(s.dtype)


def _order(order: Any) -> jax.Array:
    order = _checks.array(order, "order")
    if not jnp.issubdtype(order.dtype, jnp.integer) or order.ndim != 1:
        raise ValueError(
            f"order: expected integers (m,), row indices, got {order.dtype} of shape {order.shape}"
        )
    return order


def _row(a: jax.Array, i: jax.Array) -> jax.Array:
    return jax.lax.dynamic_index_in_dim(a, i, keepdims=False)

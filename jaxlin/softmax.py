"""Softmax regression: P(class c | x) = exp(s_c) / sum_j exp(s_j), s_c = w_c . x + b_c.

Logistic regression for k classes at once, by maximum likelihood; also known as multinomial logistic
regression. The fit minimises the weighted mean of `losses.softmax` + l2/2 |W|^2 by Newton's method,
each example's k x k curvature being `jax.hessian` of its loss in its scores, where there are many
coefficients by conjugate gradients, or by optax's L-BFGS.

The form is symmetric: scores are fixed up to a number added to all, and the fit chooses the
one where weights and biases sum to zero over the classes present, which is where a penalty puts
them anyway. `to_reference` gives the form in which one class has score 0. Two classes at `l2` are
`logistic` at `l2 / 2`, the plane's weights being w_1 - w_0.

Choose it when you want probabilities of several classes. It fails, and says so, where no optimum
exists: without a penalty, classes that some scores separate (SEPARABLE, or QUASI_SEPARABLE if only
some of them, or with rows on a tie) push the weights to infinity; collinear columns leave many
optima (RANK_DEFICIENT: the one of least norm).

`residual` is the largest absolute entry of the gradient of the mean objective in the k scores'
params, for columns centred (with a bias) and scaled to unit mean square; `objective` is the
mean objective, 0 when SEPARABLE. Shapes: `n` examples, `d` features, `k` classes.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from jaxlin import _linalg, losses, solvers
from jaxlin._base import _checks, _codes, _invalid, _platform, _traits, _words
from jaxlin._data import _prepare
from jaxlin._nonsmooth import _conjugates, _kinked, _size
from jaxlin._smooth import _frame, _plan, _record, _risk
from jaxlin.types import Info, Linear


@_words.a_fit
def fit(
    x: Any,
    y: Any,
    *,
    num_classes: int | None = None,
    l2: Any = 0.0,
    l1: Any = None,
    groups: Any = None,
    num_groups: int | None = None,
    sample_weight: Any = None,
    feature_mask: Any = None,
    offset: Any = None,
    init: Linear | None = None,
    solver: solvers.Solver | None = None,
    bias: bool = True,
    tol: Any = None,
    max_steps: Any = None,
    axis_name: str | None = None,
) -> tuple[Linear, Info]:
    """Fit a softmax regression: min_W,b sum_i c_i losses.softmax(s_i, y_i) + l2/2 |W|^2.

    s_i = W x_i + b + offset_i, and c are the weights divided by their sum; the biases are not
    penalised. scikit-learn's C is 1 / (l2 sum of weights): `losses.l2_from_C`.

    The solver is chosen from the shapes and from what is known of l2; the optimum is the same. Few
    coefficients, (k - 1)(d + 1), take Newton's method, O(n k^2 d^2) a step; many, or many rows,
    take it by conjugate gradients, O(n k d) for each of some products a step. With fewer rows than
    features and every l2 positive a fit costs O(n^2 d). Many fits to one x, a vmap over labels,
    weights or penalties, are found together in O(n k d) a step for each, and x is not copied: pass
    x as it is, and map the others.

    Args:
      x: `(n, d)`, in any units, or a table of `sparse`; half precision stays so in memory.
      y: `(n,)` class indices, or float probabilities `(n, k)` whose rows sum to one.
      num_classes: k, static; eagerly by default 1 + the largest label with weight.
      l2: penalty, a scalar or one per feature `(d,)`; 0 is maximum likelihood.
      l1: penalty on sizes, a scalar or one per feature `(d,)`, which makes some weights of
        some classes exactly 0; they then need not sum to zero over the classes. With it the fit has
        a solver of its own, `residual` is the relative duality gap at the params returned, and
        `tol` bounds that, by default 1e-8, or 1e-5 in float32.
      groups: `(d,)` integers in 0..g-1, which group each feature is of. The penalty is then
        sum_g l1_g |W_g|, Euclid's norm of the weights that all classes have for a group, l1 a
        scalar or `(g,)`, and a group is 0 as a whole: `jnp.arange(d)` selects features.
      num_groups: g, static; eagerly by default 1 + the largest.
      sample_weight: `(n,)`, nonnegative; a row of weight 0 is absent whatever it holds.
      feature_mask: `(d,)` bool; a masked column has weights 0 whatever it holds.
      offset: `(n, k)`, added to the scores.
      init: params to start from, or 0 where J is less there; by default 0.
      solver: `solvers.newton`, `solvers.lbfgs`, or any function like them; by default by size.
      bias: static; False fixes the biases of the classes present at 0.
      tol: bound on the residual, at which the fit ends; by default eps^(2/3), 4e-11, or 2e-5 in
        float32, and Newton's method then takes a step more, to the floor of the dtype.
      max_steps: cap on the steps; by default 100 for Newton's method, else 1000, or 50 where no
        penalty proves that there is an optimum, and 100 more for the proof. A step of Newton's
        method that is taken back counts here, but not in `info.steps`; by conjugate gradients also
        20 products for each step are the most.
      axis_name: static; the mesh axis over which the rows are dealt, inside `jax.shard_map`: see
        `distributed`.

    Returns:
      `(params, info)`, a Linear and an Info. The status can be any but NOT_SEPARABLE. `info.steps`
      are those of the solver, and not of one size: one of Newton's method by conjugate gradients is
      up to 20 products with x, one of L-BFGS is one or two. An absent class has weights 0 and bias
      -inf, and so a probability of exactly 0. With fewer than two classes present it is
      CLASS_TOO_SMALL, and the present one has probability 1.

    Raises:
      ValueError: shapes that do not fit; eagerly also data that are not valid.
      TypeError: dtypes or static arguments of the wrong kind.

    By conjugate gradients and L-BFGS, with a penalty on every weight, CONVERGED is said by the
    residual alone, as there is an optimum; next to no penalty leaves it far away even so, where
    Newton's method with a Hessian asks for more.

    Differentiable by the implicit function theorem in x, soft y, l2, sample_weight and offset; with
    l1 in that too, what is 0 staying so, and NaN where it is not proved that it does.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import softmax
      >>> x = jnp.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
      >>> y = jnp.array([0, 0, 1, 0, 2, 2])
      >>> params, info = softmax.fit(x, y, l2=0.1)
      >>> params.weights.round(3).tolist(), info.status.item()
      ([[-0.711], [-0.319], [1.03]], 0)
    """
    k = _checks.number_of_classes(num_classes, y, sample_weight)
    if k < 2:
        raise ValueError(f"num_classes: expected at least 2, got {k}")
    data = _checks.table(
        x,
        y,
        sample_weight=sample_weight,
        feature_mask=feature_mask,
        soft=True,
        num_classes=k,
        axis_name=axis_name,
        sparse=not _size.is_asked(l1, groups, num_groups),
    )
    n, d = data.x.shape
    dtype = _checks.working_dtype(data.x)
    penalty = _checks.penalty(l2, d, dtype)
    spec = _record.Spec(
        loss=_LOSS,
        solver=_risk.check_solver(solver),
        bias=_checks.bias_of(bias, data),
        penalised=_risk.penalised(l2, dtype),
        polished=tol is None,
    )
    offset_of = _checks.optional(offset, (n, k), dtype, "offset")
    start = _risk.check_init(init, Linear, (k,), d, dtype)
    given = k, data, penalty, offset_of, start
    if _size.is_asked(l1, groups, num_groups):
        spec, rest = _kinked.arranged(spec, penalty, l1, groups, num_groups, tol, max_steps)
        params, info = _kinked.run(_kinked.planes, spec, *given, *rest)
    else:
        steps = None if max_steps is None else _checks.count(max_steps, "max_steps")
        params, info = _risk.run(_fit, spec, *given, _checks.tolerance(tol, dtype), steps)
    _invalid.raise_if_invalid(
        info,
        data,
        num_classes=k,
        nonnegative={"l2": l2, "l1": l1, "tol": tol, "max_steps": max_steps},
        finite={"offset": offset, **_risk.named(init)},
    )
    return params, info


def to_reference(params: Linear, reference: Any) -> Linear:
    """The same model in the form in which one class has score 0.

    Args:
      params: a Linear of k classes.
      reference: index of that class, `()`.

    Returns:
      A Linear whose row `reference` is 0; NaN throughout if that class is absent.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import softmax
      >>> from jaxlin.types import Linear
      >>> params = Linear(weights=jnp.array([[1.0], [-1.0]]), bias=jnp.array([0.5, -0.5]))
      >>> softmax.to_reference(params, 0).weights.tolist()
      [[0.0], [-2.0]]
    """
    weights, bias = jnp.asarray(params.weights), jnp.asarray(params.bias)
    reference, lost = _codes.class_index(reference, weights.shape[0], "reference")
    lost = jnp.where(jnp.isneginf(bias[reference]), jnp.nan, lost).astype(bias.dtype)
    return Linear(
        weights=weights - weights[reference][None, :] + lost,
        bias=bias - bias[reference] + lost,
    )


def from_reference(params: Linear) -> Linear:
    """The same model in the symmetric form, as `fit` returns it.

    Args:
      params: a Linear of k classes, in the form of any reference.

    Returns:
      A Linear whose weights and biases sum to zero over the classes present; an absent one, of bias
      -inf, has weights 0.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import softmax
      >>> from jaxlin.types import Linear
      >>> params = Linear(weights=jnp.array([[0.0], [-2.0]]), bias=jnp.array([0.0, -1.0]))
      >>> softmax.from_reference(params).weights.tolist()
      [[1.0], [-1.0]]
    """
    weights, bias = jnp.asarray(params.weights), jnp.asarray(params.bias)
    present = ~jnp.isneginf(bias)
    share = present.astype(bias.dtype) / jnp.maximum(jnp.sum(present), 1).astype(bias.dtype)
    live = jnp.where(present, bias, 0)
    middle = jnp.sum(share[:, None] * weights, axis=0)
    return Linear(
        weights=jnp.where(present[:, None], weights - middle[None, :], 0),
        bias=jnp.where(present, live - jnp.sum(share * live), -jnp.inf),
    )


@functools.partial(_platform.jit, static_argnums=(0, 1))
def _fit(spec, k, data, l2, offset, init, tol, max_steps):
    rows, valid = _risk.prepare(spec, data, k, offset, l2, tol, max_steps)
    present = _prepare.present(rows, k)
    if init is not None:
        init = Linear(
            weights=jnp.where(present[:, None], init.weights, 0),
            bias=jnp.where(present, init.bias, 0),
        )
    valid, init = _risk.begin(spec, rows, valid, init)
    usable = jnp.sum(present) > 1
    params, info, unsettled = _risk.fit(
        spec,
        rows,
        usable=usable,
        l2=l2,
        init=init,
        tol=tol,
        max_steps=max_steps,
        basis=_frame.class_basis(present, l2.dtype),
    )
    nothing = jax.tree.map(jnp.zeros_like, params)
    params, info = _risk.in_place(params, info, nothing, valid, usable, (data, l2, offset))
    bias = jnp.where(present, 0, -jnp.inf).astype(l2.dtype) + params.bias
    return (params._replace(bias=bias), info), unsettled


def _curvature(scores: jax.Array, y: jax.Array) -> jax.Array:
    p = jax.nn.softmax(scores)
    return jnp.sum(p * (1 - p))


def _sides(scores: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """As `_record.Bend` has it: kept are the probabilities, and of the largest its distance to 1.

    That is negative, and keeps its digits, as all that is made of it does.
    """
    classes = jnp.arange(scores.shape[0], dtype=jnp.int32)[:, None]
    peak = jnp.max(scores, axis=0)
    first = jnp.min(jnp.where(scores == peak[None, :], classes, len(scores)), axis=0)
    top, below = classes == first[None, :], scores - peak[None, :]
    share = jnp.where(top, 0, jnp.exp(below))
    rest = jnp.sum(share, axis=0)
    kept = jnp.where(top, -rest[None, :], share) / (1 + rest[None, :])
    target = y.T if y.ndim == 2 else (classes == y[None, :]).astype(scores.dtype)
    whole = jnp.sum(target, axis=0)
    others = jnp.sum(jnp.where(top, 0, target), axis=0)
    slope = whole[None, :] * kept + jnp.where(top, others[None, :], -target)
    small = _linalg.log1p_of_share(jnp.minimum(rest, 1))
    value = whole * jnp.where(rest < 1, small, jnp.log(1 + rest))
    gap = jnp.sum(jnp.where(target > 0, -target * below, 0), axis=0)
    return value + gap, slope, kept


def _product(kept: jax.Array, moved: jax.Array) -> jax.Array:
    """(diag(p) - p p') moved, from what all others have beside the largest."""
    top = kept < 0
    beside = moved - jnp.sum(jnp.where(top, moved, 0), axis=0)[None, :]
    mean = jnp.sum(jnp.where(top, 0, kept * beside), axis=0)[None, :]
    return jnp.where(top, -mean * (1 + kept), kept * (beside - mean))


def _diagonal(kept: jax.Array) -> jax.Array:
    size = jnp.abs(kept)
    return size * (1 - size)


def _agreement(scores: jax.Array, y: jax.Array) -> _record.Agreement:
    """How far the label's score is above each; of several labels, all are to be equal and above."""
    classes = jnp.arange(scores.shape[0], dtype=jnp.int32)
    hard = y.ndim == 0
    label = y.astype(jnp.int32) if hard else jnp.argmax(y).astype(jnp.int32)
    tight = jnp.zeros(classes.shape, bool) if hard else (y > 0) & (classes != label)
    return _record.Agreement(
        value=scores[label] - scores,
        sign=-jnp.ones_like(scores),
        tight=tight,
        inert=(classes == label) | (scores <= _frame.NEVER / 2),
    )


_LOSS = _conjugates.SOFTMAX.beside(
    _record.Loss(
        losses.softmax,
        _curvature,
        _agreement,
        _record.Bend(_sides, _product, _diagonal),
        joint=True,
    )
)


def _nothing(k: int, d: int, dtype: Any) -> Linear:
    return Linear(weights=jnp.zeros((k, d), dtype), bias=jnp.zeros(k, dtype))


_traits.declare(
    fit, loss=_LOSS, log_odds=True, nothing=_nothing, lean=True, together=_plan.many_together
)

"""Logistic regression: P(class 1 | x) = sigmoid(w . x + b), by maximum likelihood.

The model is a `Hyperplane` whose score is the log-odds. The fit minimises the weighted mean of
`losses.logistic` + l2/2 |w|^2 by Newton-Raphson, each example's curvature being `jax.hessian` of
its loss in its score, or by optax's L-BFGS.

Choose it when you want probabilities. It fails, and says so, where no optimum exists: without a
penalty, classes that a plane separates (SEPARABLE, or QUASI_SEPARABLE if some rows lie on it) push
the weights to infinity; collinear columns leave many optima (RANK_DEFICIENT: the one of least
norm); data whose offset dwarfs their spread, as years do in float32, can not be solved to `tol` in
their own units (STALLED: standardise first, see `features.standardizer`, or use float64, which has
the digits for columns that nearly depend on each other too).

`residual` is the largest absolute entry of the gradient of the mean objective, for columns centred
(with a bias) and scaled to unit mean square; `objective` is the mean objective, 0 when SEPARABLE.

A penalty for every feature, by gradient descent on the loss of rows held out:

>>> import jax
>>> import jax.numpy as jnp
>>> from jaxlin import logistic, losses
>>> x = jax.random.normal(jax.random.key(0), (80, 5))
>>> y = x[:, 0] + jax.random.normal(jax.random.key(1), (80,)) > 0
>>> def held_out(log_l2):
...     params, info = logistic.fit(x[:40], y[:40], l2=jnp.exp(log_l2))
...     return losses.objective(losses.logistic, params, x[40:], y[40:])
>>> step = jax.jit(lambda log_l2: log_l2 - 50 * jax.grad(held_out)(log_l2))
>>> log_l2 = jnp.full(5, -3.0)
>>> for _ in range(30):
...     log_l2 = step(log_l2)
>>> (log_l2[0] < -3).item(), (held_out(log_l2) < held_out(jnp.full(5, -3.0))).item()
(True, True)

Shapes: `n` examples, `d` features.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from jaxlin import solvers
from jaxlin._base import _checks, _invalid, _platform, _traits, _words
from jaxlin._data import _prepare
from jaxlin._nonsmooth import _conjugates, _kinked, _size
from jaxlin._smooth import _firth, _plan, _record, _risk
from jaxlin.types import Hyperplane, Info, Linear


@_words.a_fit
def fit(
    x: Any,
    y: Any,
    *,
    l2: Any = 0.0,
    l1: Any = None,
    groups: Any = None,
    num_groups: int | None = None,
    sample_weight: Any = None,
    feature_mask: Any = None,
    offset: Any = None,
    init: Hyperplane | None = None,
    solver: solvers.Solver | None = None,
    bias: bool = True,
    tol: Any = None,
    max_steps: Any = None,
    axis_name: str | None = None,
) -> tuple[Hyperplane, Info]:
    """Fit a logistic regression: min_w,b sum_i c_i log(1 + exp(-t_i s_i)) + l2/2 |w|^2 + l1 |w|_1.

    s_i = w . x_i + b + offset_i, t = 2 y - 1, and c are the weights divided by their sum; the bias
    is not penalised. scikit-learn's C is 1 / (l2 sum of weights): `losses.l2_from_C`.

    The solver is chosen from the shapes and from what is known of l2; the optimum is the same. Few
    coefficients take Newton's method, O(n d^2) a step, and many, or many rows, L-BFGS, O(n d) a
    step. With fewer rows than features and every l2 positive a fit costs O(n^2 d). Many fits to one
    x, a vmap over labels, weights or penalties, are found together in O(n d) a step for each, and x
    is not copied: pass x as it is, and map the others. A start where J is more than at 0 is left
    for 0.

    Args:
      x: `(n, d)`, in any units, or a table of `sparse`; half precision stays so in memory.
      y: `(n,)` in {0, 1}, or float probabilities in [0, 1].
      l2: penalty, a scalar or one per feature `(d,)`; 0 is maximum likelihood.
      l1: penalty on sizes, a scalar or one per feature `(d,)`, which makes some weights exactly 0.
        With it the fit has a solver of its own, `residual` is the relative duality gap at the
        params returned, and `tol` bounds that, by default 1e-8, or 1e-5 in float32.
      groups: `(d,)` integers in 0..g-1, which group each feature is of. The penalty is then
        sum_g l1_g |w_g|, Euclid's norm of a group's weights, l1 a scalar or `(g,)`, and a group is
        0 as a whole.
      num_groups: g, static; eagerly by default 1 + the largest.
      sample_weight: `(n,)`, nonnegative; a row of weight 0 is absent whatever it holds.
      feature_mask: `(d,)` bool; a masked column has coefficient 0 whatever it holds.
      offset: `(n,)`, added to the scores.
      init: params to start from; by default 0, or what is said above.
      solver: `solvers.newton`, `solvers.lbfgs`, or any function like them; by default by size.
      bias: static; False fixes it at 0.
      tol: bound on the residual, at which the fit ends; by default eps^(2/3), 4e-11, or 2e-5 in
        float32, and Newton's method then takes a step more, to the floor of the dtype.
      max_steps: cap on the steps; by default 100 for Newton's method, else 1000, or 50 where no
        penalty proves that there is an optimum, and 100 more for the proof. A step of Newton's
        method that is taken back counts here, but not in `info.steps`.
      axis_name: static; the mesh axis over which the rows are dealt, inside `jax.shard_map`: see
        `distributed`.

    Returns:
      `(params, info)`, a Hyperplane and an Info. The status can be any but NOT_SEPARABLE. With
      fewer than two classes it is CLASS_TOO_SMALL, and the params are their limit: weights 0 and
      an infinite bias, or NaN without a bias.

    Raises:
      ValueError: shapes that do not fit; eagerly also data that are not valid.
      TypeError: dtypes or static arguments of the wrong kind.

    With L-BFGS and a penalty on every weight CONVERGED is said by the residual alone, as there is
    an optimum; next to no penalty leaves it far away even so, where Newton's method asks for more.

    Differentiable by the implicit function theorem in x, soft y, l2, sample_weight and offset; with
    l1 in that too, what is 0 staying so, and NaN where it is not proved that it does.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import logistic
      >>> x = jnp.array([[0.0], [1.0], [2.0], [3.0]])
      >>> y = jnp.array([0, 1, 0, 1])
      >>> params, info = logistic.fit(x, y)
      >>> params.weights.round(3).tolist(), params.bias.round(3).item(), info.status.item()
      ([0.908], -1.362, 0)
    """
    data = _checks.table(
        x,
        y,
        sample_weight=sample_weight,
        feature_mask=feature_mask,
        soft=True,
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
    offset_of = _checks.optional(offset, (n,), dtype, "offset")
    start = _risk.check_init(init, Hyperplane, (), d, dtype)
    given = 2, data, penalty, offset_of, start
    if _size.is_asked(l1, groups, num_groups):
        spec, rest = _kinked.arranged(spec, penalty, l1, groups, num_groups, tol, max_steps)
        params, info = _kinked.run(_kinked.plane, spec, *given, *rest)
    else:
        steps = None if max_steps is None else _checks.count(max_steps, "max_steps")
        params, info = _risk.run(_fit, spec, *given, _checks.tolerance(tol, dtype), steps)
    _invalid.raise_if_invalid(
        info,
        data,
        nonnegative={"l2": l2, "l1": l1, "tol": tol, "max_steps": max_steps},
        finite={"offset": offset, **_risk.named(init)},
    )
    return params, info


@_words.a_fit
def fit_firth(
    x: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    feature_mask: Any = None,
    offset: Any = None,
    held: Any = None,
    bias: bool = True,
    tol: Any = None,
    max_steps: Any = 100,
    axis_name: str | None = None,
) -> tuple[Hyperplane, Info]:
    """Fit by maximum likelihood with Jeffreys' prior: finite where a plane separates the classes.

    Minimises sum_i w_i log(1 + exp(-t_i s_i)) - log det(I) / 2, with the information
    I = sum_i w_i p_i (1 - p_i) z_i z_i', z_i = (x_i, 1). That also takes away the estimate's bias
    of order 1/n (Firth 1993; Heinze and Schemper 2002), and knows no units of x. By Newton-Raphson
    on all of it: O(n d^3) a step, by `jax.hessian`, or O(n^2 d) where rows are fewer than d^2.

    Args:
      x: `(n, d)`, in any units.
      y: `(n,)` in {0, 1}, or float probabilities in [0, 1].
      sample_weight: `(n,)`, nonnegative, counts of rows: their sum says how much the prior weighs.
      feature_mask: `(d,)` bool; a masked column has coefficient 0 whatever it holds.
      offset: `(n,)`, added to the scores.
      held: `(d,)` bool, columns whose coefficients are fixed at 0, but which are part of the
        information: the null of `inference.firth_test`. To leave a column out is another model.
      bias: static; False fixes it at 0.
      tol: bound on the residual; by default eps^(2/3), 4e-11, or 2e-5 in float32.
      max_steps: cap on the steps.
      axis_name: static; the mesh axis over which the rows are dealt, inside `jax.shard_map`: see
        `distributed`.

    Returns:
      `(params, info)`, a Hyperplane and an Info of status CONVERGED, RANK_DEFICIENT (collinear
      columns: the optimum of least norm), STALLED, MAX_STEPS or INVALID_DATA. `objective` is what
      is minimised over the sum of the weights, `residual` as in `fit`. One class is enough.

    Raises:
      ValueError: shapes that do not fit; eagerly also data that are not valid.
      TypeError: dtypes or static arguments of the wrong kind.

    For standard errors, `inference.covariance(losses.logistic, params, x, y, check=False)`. Its
    probabilities lie toward 1/2. The constant of maximum likelihood beside these weights (FLIC:
    Puhr, Heinze, Nold, Lusa and Geroldinger 2017) makes their mean that of y: the bias of
    `logistic.fit(x, y, feature_mask=jnp.zeros(d, bool), offset=x @ params.weights)`.
    Differentiable by the implicit function theorem in x, soft y, sample_weight and offset.

    Example: the classes are separable, and of infinite likelihood.
      >>> import jax.numpy as jnp
      >>> from jaxlin import logistic
      >>> x, y = jnp.array([[0.0], [1.0], [2.0], [3.0]]), jnp.array([0, 0, 1, 1])
      >>> params, info = logistic.fit_firth(x, y)
      >>> params.weights.round(3).tolist(), params.bias.round(3).item(), info.status.item()
      ([1.31], -1.965, 0)
    """
    data = _checks.table(
        x, y, sample_weight=sample_weight, feature_mask=feature_mask, soft=True, axis_name=axis_name
    )
    n, d = data.x.shape
    dtype = _checks.working_dtype(data.x)
    arguments = (
        data,
        _checks.optional(offset, (n,), dtype, "offset"),
        _checks.mask_of(held, d, "held"),
        _checks.tolerance(tol, dtype),
        _checks.count(max_steps, "max_steps"),
    )
    bias = _checks.bias_of(bias, data)
    # Most data have full rank: an eager call tries the program that assumes it first.
    complete = not _checks.concrete(arguments)
    (params, info), deficient, _ = _firth.fit(bias, complete, *arguments)
    if not complete and deficient:
        (params, info), *_ = _firth.fit(bias, True, *arguments)
    _invalid.raise_if_invalid(
        info,
        data,
        nonnegative={"tol": tol, "max_steps": max_steps},
        finite={"offset": offset},
    )
    return params, info


@functools.partial(_platform.jit, static_argnums=(0, 1))
def _fit(spec, k, data, l2, offset, init, tol, max_steps):
    rows, valid = _risk.prepare(spec, data, k, offset, l2, tol, max_steps)
    start = None if init is None else jax.tree.map(lambda a: a[None], Linear(*init))
    valid, start = _risk.begin(spec, rows, valid, start)
    zero, one = _prepare.present(rows, 2)
    found, info, unsettled = _risk.fit(
        spec,
        rows,
        usable=zero & one,
        l2=l2,
        init=start,
        tol=tol,
        max_steps=max_steps,
    )
    params = Hyperplane(weights=found.weights[0], bias=found.bias[0])
    limit = _risk.limit_of(one, spec.bias, l2.dtype)
    return _risk.in_place(params, info, limit, valid, zero & one, (data, l2, offset)), unsettled


_LOSS = _conjugates.LOGISTIC.beside(_record.LOGISTIC)


def _nothing(k: int, d: int, dtype: Any) -> Hyperplane:
    return Hyperplane(weights=jnp.zeros(d, dtype), bias=jnp.zeros((), dtype))


_traits.declare(
    fit,
    loss=_LOSS,
    log_odds=True,
    skips=True,
    nothing=_nothing,
    lean=True,
    together=_plan.many_together,
)
_traits.declare(fit_firth, log_odds=True, skips=True)

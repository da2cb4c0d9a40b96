"""What params prove of a fit with kinks: the duality gap, and which weights are 0 at the optimum.

With scores s = z . theta + o the fit is min sum_i c_i f(s_i) + sum_g h_g(theta_g), of groups g of
coordinates, mostly of one: h_g(t) = l1_g |t| + sum_j penalty_j t_j^2 / 2. Slopes a_i in the domain
of the conjugate f* bound it from below: with v = - sum_i c_i a_i z_i = u + r, u held by the kinks,
|u_g| <= l1_g, and r_j = 0 where there is no penalty, the difference is at most

  sum_i c_i (f(s_i) + f*(a_i) - s_i a_i)  +  sum_g (l1_g |theta_g| - u_g . theta_g)
    +  sum_j (r_j - penalty_j theta_j)^2 / (2 penalty_j),

terms that cannot be negative, so nothing cancels. So the slopes at theta take the step that
Newton's method would give to what is free, which leaves their v at 0, and are then made shorter,
all alike, until no |v_g| without a penalty is beyond its l1_g.

Two pairs of slopes differ by at most sqrt(2 L gap), L the bound of f''. What is 0 for all in that
ball is 0 at the optimum (Fercoq, Gramfort and Salmon 2015, "Mind the duality gap: safer rules for
the lasso").
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlin import _linalg
from jaxlin._data import _fold
from jaxlin._linalg import dot
from jaxlin._nonsmooth import _kinks
from jaxlin._nonsmooth._kinks import Kinks
from jaxlin._nonsmooth._proximal import Run
from jaxlin._smooth import _frame, _newton, _proof, _scoring
from jaxlin._smooth._frame import Problem
from jaxlin._smooth._record import Spec


class Bound(NamedTuple):
    """What is proved.

    gap: `()`, primal less dual, relative to the primal
    primal: `()`
    zero: `(m p,)`, whether a coordinate is 0 at every optimum
    """

    gap: jax.Array
    primal: jax.Array
    zero: jax.Array


class Ground(NamedTuple):
    """What is known of what is free, of a run's last Hessian.

    moved: `(m p,)`, Newton's next step of it
    attained: whether it has a finite optimum
    """

    moved: jax.Array
    attained: jax.Array


def ground(spec: Spec, problem: Problem, theta: jax.Array, run: Run) -> Ground:
    """What is known at theta `(m, p)`, in which the run has ended."""
    flat, free = theta.reshape(-1), _free(problem, theta)
    # Near enough: what it is wrong by counts for the gap.
    grad = run.point.grad.reshape(-1) + dot(run.hess, flat - run.theta)
    hess = _grounded(spec, problem, run.hess, free)
    root = _linalg.inverse_root(_linalg.factor(_among(hess, free)))
    root = jnp.where(free[:, None] & free[None, :], root, 0)
    half = dot(root, jnp.where(free, grad, 0))
    moved = -dot(half, root)
    attained = jnp.bool_(True)
    if not (spec.loss.attained or spec.penalised):
        distance = jnp.linalg.norm(half) * _proof.leverage_bound(problem, root)
        attained = distance <= _newton.CERTIFICATE
    return Ground(jnp.where(jnp.all(jnp.isfinite(moved)), moved, 0), attained)


class Support(NamedTuple):
    """What is known of the coordinates that may be other than 0.

    deficient: whether they depend on each other, so that there may be many optima
    away: `(m p,)`, which are of groups that are not 0 at the optimum; alone, of their sign there
    """

    deficient: jax.Array
    away: jax.Array


def support(
    spec: Spec,
    problem: Problem,
    kinks: Kinks,
    theta: jax.Array,
    run: Run,
    zero: jax.Array,
    gap: jax.Array,
) -> Support:
    """What is known at theta `(m p,)`, where coordinates but those `zero` may be other than 0.

    `gap ()`, primal less dual. What all classes may have alike makes none deficient.
    """
    hess, curve = run.hess, _kinks.curvature(kinks, theta)
    hess = _grounded(spec, problem, hess if curve is None else hess + curve, jnp.ones_like(zero))
    hess = _among(hess, ~zero)
    factor = _linalg.factor(hess)
    least = _newton.RANK_ULPS * zero.size * float(jnp.finfo(hess.dtype).eps)
    # In units of the Hessian the optimum is as near as the root of twice what J may still fall.
    variance = jnp.sum(_linalg.inverse_root(factor) ** 2, axis=0)
    away = jnp.abs(theta) > jnp.sqrt(2 * gap * variance)
    return Support(~(factor.pivot > least), _kinks.any_of(kinks, away))


def proved(spec: Spec, problem: Problem, kinks: Kinks, theta: jax.Array, moved: jax.Array) -> Bound:
    """What theta `(m, p)` proves; `moved (m p,)`, a step of what is free."""
    flat, moved = theta.reshape(-1), moved.reshape(theta.shape)
    penalty = jnp.broadcast_to(problem.penalty, theta.shape).reshape(-1)
    inert, free = _frame.inert(problem).reshape(-1), _free(problem, theta)

    def slopes(block):
        z = _frame.columns(problem, block)
        scores = _scoring.live(block, _scoring.scores_of(problem, block, z, theta))
        along = _frame.of_basis(problem, moved)[None]
        along = _scoring.live(block, dot(z, _scoring.spread_rows(problem, along)))

        def of_row(scores, y, along):
            return jax.jvp(lambda s: jax.grad(spec.loss.value)(s, y), (scores,), (along,))

        slope, bend = jax.vmap(of_row)(scores, block.y, along)
        return z, scores, slope + bend

    def sums(block):
        z, scores, slope = slopes(block)
        value = jax.vmap(spec.loss.value)(scores, block.y)
        pull = _frame.in_basis(problem, block.weight[:, None] * slope)
        return (_linalg.inner(block.weight, value), dot(pull.T, z)), ()

    (value, pulled), _ = _fold.fold(sums, problem.rows)
    v = jnp.where(inert, 0, -(pulled * problem.spread[None, :]).reshape(-1))
    l1 = kinks.l1
    firm = penalty == 0
    pulls = _kinks.pulls(kinks, jnp.where(firm, v, 0))
    beyond = jnp.where(l1 > 0, pulls / jnp.where(l1 > 0, l1, 1), 0)
    share = 1 / jnp.maximum(jnp.max(beyond, initial=0), 1)

    excess_of: Any = spec.loss.excess

    def excess(block):
        _, scores, slope = slopes(block)
        each = jax.vmap(excess_of)(scores, share * slope, block.y)
        return _linalg.inner(block.weight, jnp.maximum(each, 0)), ()

    rows, _ = _fold.fold(excess, problem.rows)
    v = share * v
    held = _kinks.held(kinks, v - penalty * flat, firm)
    edge = _kinks.slope(kinks, flat)
    sharp = jnp.where(free, jnp.abs(v * flat), (edge - held) * flat)
    rest = (v - held - penalty * flat) ** 2 / jnp.where(penalty > 0, 2 * penalty, 1)
    ridge = jnp.where(penalty > 0, rest, 0)
    gap = rows + jnp.maximum(jnp.sum(sharp), 0) + jnp.sum(ridge)
    primal = value + jnp.sum(penalty * flat**2 / 2 + edge * flat)
    # A gap is known to rounding of the primal.
    known = gap + float(jnp.finfo(gap.dtype).eps) * jnp.abs(primal)
    reach = jnp.sqrt(2 * spec.loss.steepest * known)
    columns = jnp.broadcast_to(_size_of_columns(problem), theta.shape).reshape(-1)
    columns = _kinks.pulls(kinks, columns)
    relative = jnp.where(gap > 0, gap / jnp.where(primal > 0, primal, 1), 0)
    return Bound(
        gap=jnp.where(jnp.isfinite(gap), relative, jnp.inf),
        primal=primal,
        zero=inert | ((l1 > 0) & (_kinks.pulls(kinks, v) + reach * columns < l1)),
    )


def _free(problem, theta):
    return (problem.free[None, :] & ~_frame.inert(problem)).reshape(theta.size)


def _grounded(spec: Spec, problem: Problem, hess: jax.Array, free: jax.Array) -> jax.Array:
    """The Hessian, with curvature for what all classes have alike of what is free.

    That changes nothing, and so is no other optimum.
    """
    if not spec.loss.joint:
        return hess
    m, p = problem.used.size, problem.spread.size
    alike = jnp.kron(jnp.ones((m, m), hess.dtype), jnp.eye(p, dtype=hess.dtype))
    lent = jnp.trace(hess) / len(hess) * alike
    return hess + jnp.where(free[:, None] & free[None, :], lent, 0)


def _among(hess: jax.Array, some: jax.Array) -> jax.Array:
    """The Hessian of `some` coordinates, and of the others the identity."""
    return jnp.where(some[:, None] & some[None, :], hess, jnp.eye(some.size, dtype=hess.dtype))


def _size_of_columns(problem: Problem) -> jax.Array:
    """The root of the weighted mean square of each column that theta sees, `(p,)`.

    Beside a bias that of the centred column: slopes of sum 0 see no more.
    """
    seen = problem.unit > 0
    deviation = jnp.where(seen, 1 / jnp.where(seen, problem.unit, 1), 0)
    bias = problem.spread.size > problem.centre.size
    return deviation if bias else jnp.hypot(deviation, problem.shift)

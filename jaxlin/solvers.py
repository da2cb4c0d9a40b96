"""Minimisers of smooth convex functions of any pytree, each with a truthful status.

Every solver is `solver(objective, init, args=(), *, hessian=None, precondition=None, tol=None,
max_steps=...) -> (params, info)` and minimises `objective(params, *args)`. Data travel in `args`,
so an objective defined at module level compiles once, and the answer is differentiable with
respect to `args` by the implicit function theorem; a fresh lambda compiles anew.

- `newton`: tens of parameters; a few steps, each a Hessian. Damped, so that on a convex function
  no start makes it diverge.
- `lbfgs`: hundreds of parameters and more; optax's L-BFGS with a stopping rule.
- `gradient_descent`: the textbook's loop. `from_optax`: any optax optimizer in the same loop.
- `stochastic`: minibatches of rows.

`residual` is the largest absolute entry of the gradient, in the units of the params. CONVERGED
needs more than a small residual, because a function without a minimum has small gradients too: at
the returned params the Newton step must be so short that the curvature along it holds (at least
0.9 of itself). Along exp(-x) and 1/x, whose infimum is at infinity, it falls to 0.37 and 0.30.
Without this proof the status is STALLED. Shapes: `p` parameters in all.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from jaxlin import _linalg
from jaxlin._base import _checks, _platform, _traits, _words
from jaxlin._linalg import _implicit
from jaxlin._smooth import _iterate
from jaxlin.types import Info, Status

Objective = Callable[..., jax.Array]
# `solver(objective, init, args=(), *, hessian, precondition, tol, max_steps) -> (params, info)`
Solver = Callable[..., tuple[Any, Info]]


def newton(
    objective: Objective,
    init: Any,
    args: tuple = (),
    *,
    hessian: Callable[..., jax.Array] | None = None,
    precondition: jax.Array | None = None,
    tol: Any = None,
    max_steps: Any = 100,
) -> tuple[Any, Info]:
    """Newton-Raphson, damped: solve (H + c |g| I) p = -g, with c adapted to what the step achieved.

    c falls after a good step and rises tenfold after a rejected one, so that the steps are
    Newton's near the minimum and short, safe ones far from it (Li, Fukushima, Qi and Yamashita,
    2004). O(p^3) a step, and one Hessian.

    Args:
      objective: `objective(params, *args) -> ()`, convex and twice differentiable.
      init: a pytree of params to start from.
      args: what else the objective takes; derivatives of the answer are with respect to these.
      hessian: `hessian(params, *args) -> (p, p)` in the order of `ravel_pytree`; by default
        `jax.hessian` of the objective.
      precondition: ignored; Newton's method needs none.
      tol: bound on the largest absolute gradient entry; by default eps^(2/3).
      max_steps: the most steps to take.

    Returns:
      `(params, info)`; info is CONVERGED, STALLED, MAX_STEPS, or INVALID_DATA.

    Raises:
      ValueError: eagerly, if the objective is not finite at `init`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import solvers
      >>> def bowl(params, target):
      ...     return jnp.sum(jnp.cosh(params - target))
      >>> params, info = solvers.newton(bowl, jnp.zeros(2), (jnp.array([1.0, -2.0]),))
      >>> params.round(4).tolist(), int(info.status)
      ([1.0, -2.0], 0)
    """
    del precondition
    return _solve(_iterate.NEWTON, objective, init, args, hessian, None, tol, max_steps, {})


def lbfgs(
    objective: Objective,
    init: Any,
    args: tuple = (),
    *,
    hessian: Callable[..., jax.Array] | None = None,
    precondition: jax.Array | None = None,
    tol: Any = None,
    max_steps: Any = 1000,
) -> tuple[Any, Info]:
    """Limited-memory BFGS with a zoom line search, by optax, with a stopping rule (Nocedal, 1980).

    Args:
      objective: `objective(params, *args) -> ()`, convex and differentiable.
      init: a pytree of params to start from.
      args: what else the objective takes; derivatives of the answer are with respect to these.
      hessian: as for `newton`; used for the proof only.
      precondition: `(p, p)`, a positive definite approximation of the Hessian, in the order of
        `ravel_pytree`; the run is in the coordinates in which it is the identity.
      tol: bound on the largest absolute gradient entry; by default eps^(2/3).
      max_steps: the most steps to take.

    Returns:
      `(params, info)`; info is CONVERGED, STALLED, MAX_STEPS, or INVALID_DATA.

    Raises:
      ValueError: eagerly, if the objective is not finite at `init`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import solvers
      >>> def bowl(params, target):
      ...     return jnp.sum(jnp.cosh(params - target))
      >>> params, info = solvers.lbfgs(bowl, jnp.zeros(2), (jnp.array([1.0, -2.0]),))
      >>> params.round(4).tolist(), int(info.status)
      ([1.0, -2.0], 0)
    """
    return _solve(_iterate.LBFGS, objective, init, args, hessian, precondition, tol, max_steps, {})


def gradient_descent(
    objective: Objective,
    init: Any,
    args: tuple = (),
    *,
    hessian: Callable[..., jax.Array] | None = None,
    precondition: jax.Array | None = None,
    tol: Any = None,
    max_steps: Any = 10_000,
    step_size: Any = 0.1,
    theta: Any = 0.0,
) -> tuple[Any, Info]:
    """The textbook's gradient descent: a <- a - eta(k) grad J(a) until |eta(k) grad J(a)| < theta.

    Duda, Hart and Stork, Pattern Classification, algorithm 1 of chapter 5, k counting from 1. The
    threshold theta ends the loop but proves nothing: the status is CONVERGED only if the gradient
    is below tol too.

    Args:
      objective: `objective(params, *args) -> ()`.
      init: a pytree of params to start from.
      args: what else the objective takes; derivatives of the answer are with respect to these.
      hessian: as for `newton`; used for the proof only.
      precondition: as for `lbfgs`.
      tol: bound on the largest absolute gradient entry; by default eps^(2/3).
      max_steps: the most steps to take.
      step_size: eta, a number (traced) or a schedule eta(k) (static).
      theta: the textbook's threshold; 0 leaves the stop to tol.

    Returns:
      `(params, info)`; info is CONVERGED, STALLED (theta reached first, or no longer finite),
      MAX_STEPS, or INVALID_DATA.

    Raises:
      ValueError: eagerly, if the objective is not finite at `init`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import solvers
      >>> def bowl(params):
      ...     return jnp.sum((params - 1.0) ** 2)
      >>> params, info = solvers.gradient_descent(bowl, jnp.zeros(2), step_size=0.4)
      >>> params.round(3).tolist(), info.status.item()
      ([1.0, 1.0], 0)
    """
    schedule = step_size if callable(step_size) else None
    options = {"theta": theta} if schedule else {"theta": theta, "step_size": step_size}
    method = _iterate.descent(schedule)
    return _solve(method, objective, init, args, hessian, precondition, tol, max_steps, options)


@functools.cache
def from_optax(optimizer: Any) -> Solver:
    """Any optax optimizer as a solver: its updates, with this module's stopping rule and proof.

    Args:
      optimizer: an `optax.GradientTransformation`. Keep the object: a new one compiles anew.

    Returns:
      A solver; its default is 10,000 steps.

    Example:
      >>> import jax.numpy as jnp
      >>> import optax
      >>> from jaxlin import solvers
      >>> adam = solvers.from_optax(optax.adam(0.1))
      >>> params, info = adam(lambda p: jnp.sum((p - 1.0) ** 2), jnp.zeros(2), tol=1e-4)
      >>> params.round(3).tolist(), info.status.item()
      ([1.0, 1.0], 0)
    """
    method = _iterate.updates_of(optimizer)

    def solver(
        objective: Objective,
        init: Any,
        args: tuple = (),
        *,
        hessian: Callable[..., jax.Array] | None = None,
        precondition: jax.Array | None = None,
        tol: Any = None,
        max_steps: Any = 10_000,
    ) -> tuple[Any, Info]:
        return _solve(method, objective, init, args, hessian, precondition, tol, max_steps, {})

    _traits.declare(solver, method=method)
    return solver


@_words.keyed
def stochastic(
    key: jax.Array,
    objective: Objective,
    init: Any,
    rows: Any,
    *,
    batch_size: int,
    steps: int,
    optimizer: Any,
    tol: Any = None,
) -> tuple[Any, Info]:
    """Stochastic gradient descent: optax updates on random minibatches (Robbins and Monro, 1951).

    Each step draws `batch_size` rows with replacement. At the end the objective and its gradient
    are evaluated once on all rows, and the status is what they prove.

    Args:
      key: a PRNG key.
      objective: `objective(params, rows) -> ()`, a mean over the rows given.
      init: a pytree of params to start from.
      rows: a pytree of arrays with a leading axis of n rows.
      batch_size: rows a step.
      steps: how many steps, static.
      optimizer: an `optax.GradientTransformation`.
      tol: bound on the largest absolute entry of the full gradient; by default eps^(2/3).

    Returns:
      `(params, info)`; info is CONVERGED, MAX_STEPS or INVALID_DATA, its objective and residual
      those of all rows.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> import optax
      >>> from jaxlin import solvers
      >>> def spread(params, rows):
      ...     return jnp.mean((rows - params) ** 2)
      >>> key = jax.random.key(0)
      >>> params, info = solvers.stochastic(
      ...     key, spread, jnp.array(9.0), jnp.array([1.0, 1.0, 1.0]),
      ...     batch_size=2, steps=200, optimizer=optax.sgd(0.1))
      >>> round(float(params), 4)
      1.0
    """
    flat, _ = ravel_pytree(_as_floats(init))
    params, info = _stochastic(
        key,
        objective,
        _as_floats(init),
        rows,
        batch_size,
        steps,
        optimizer,
        _checks.tolerance(tol, flat.dtype),
    )
    _refuse_bad_start(info)
    return params, info


def trace(
    solver: Solver,
    objective: Objective,
    init: Any,
    args: tuple = (),
    *,
    num_steps: int,
    **options: Any,
) -> tuple[Any, jax.Array, jax.Array]:
    """The history of a run, for plotting: every point that a solver visits, by `lax.scan`.

    Args:
      solver: `newton`, `lbfgs`, `gradient_descent` or what `from_optax` returns.
      objective: `objective(params, *args) -> ()`.
      init: a pytree of params to start from.
      args: what else the objective takes.
      num_steps: how many steps, static.
      **options: what the solver takes: `hessian`, `precondition`, `step_size`. A run that can go
        no further stays where it is.

    Returns:
      `(params, objective, residual)`, each with a leading axis of `num_steps + 1`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxlin import solvers
      >>> def bowl(params):
      ...     return (params - 1.0) ** 2
      >>> params, value, residual = solvers.trace(
      ...     solvers.gradient_descent, bowl, jnp.array(0.0), num_steps=2, step_size=0.25)
      >>> params.tolist()
      [0.0, 0.5, 0.75]
    """
    options = dict(options)
    hessian, precondition = options.pop("hessian", None), options.pop("precondition", None)
    if callable(options.get("step_size")):
        method = _iterate.descent(options.pop("step_size"))
    else:
        method = _iterate.method_of(solver)
        if solver is gradient_descent:
            options.setdefault("step_size", 0.1)
    if solver is gradient_descent:
        options.setdefault("theta", 0.0)
    init = _as_floats(init)
    flat, _ = ravel_pytree(init)
    options = {name: _checks.scalar(value, flat.dtype, name) for name, value in options.items()}
    return _trace(method, objective, init, args, hessian, precondition, num_steps, options)


_traits.declare(newton, method=_iterate.NEWTON)
_traits.declare(lbfgs, method=_iterate.LBFGS)
_traits.declare(gradient_descent, method=_iterate.descent(None))


def _solve(method, objective, init, args, hessian, precondition, tol, max_steps, options):
    init = _as_floats(init)
    flat, _ = ravel_pytree(init)
    dtype = flat.dtype
    params, info = _solve_core(
        method,
        objective,
        init,
        tuple(args),
        hessian,
        None
        if precondition is None
        else _checks.shaped(precondition, (flat.size, flat.size), dtype, "precondition"),
        _checks.tolerance(tol, dtype),
        _checks.count(max_steps, "max_steps"),
        {name: _checks.scalar(value, dtype, name) for name, value in options.items()},
    )
    _refuse_bad_start(info)
    return params, info


@functools.partial(_platform.jit, static_argnums=(0, 1, 4))
def _solve_core(method, objective, init, args, hessian, precondition, tol, max_steps, options):
    stopped = jax.lax.stop_gradient(args)
    frame = _iterate.Frame.of(objective, init, stopped, hessian, precondition)
    frame = frame._replace(start=jax.lax.stop_gradient(frame.start))
    state, steps = _iterate.iterate(method, frame, options, tol, max_steps)
    residual = frame.residual(state.grad)
    point = frame.leave(state.point)
    proved = state.proved
    if not method.proves:
        proved = _linalg.when(
            residual <= tol,
            lambda at: _iterate.curvature_holds(frame, at),
            jnp.bool_(False),
            (point,),
        )
    status = jnp.where(
        (residual <= tol) & proved,
        Status.CONVERGED,
        jnp.where(steps < max_steps, Status.STALLED, Status.MAX_STEPS),
    )
    valid = jnp.isfinite(state.value) & jnp.all(jnp.isfinite(state.grad))
    valid &= (tol >= 0) & (max_steps >= 0)
    status = jnp.where(valid, status, Status.INVALID_DATA).astype(jnp.int32)

    def gradient(at):
        return ravel_pytree(jax.grad(objective)(frame.unravel(at), *args))[0]

    point = _implicit.root_of_closure(gradient, point, valid)
    value = _implicit.envelope(
        lambda args, at: objective(frame.unravel(at), *args), args, point, state.value, valid
    )
    info = Info(status, steps, *(jnp.where(valid, a, jnp.nan) for a in (value, residual)))
    params = _implicit.guarded(point, valid, args)
    return frame.unravel(params), _implicit.told(info, valid, args)


def _proved(frame, passed, point):
    prove = functools.partial(_iterate.curvature_holds, frame)
    return _linalg.when(passed, prove, jnp.bool_(False), (point,))


@functools.partial(_platform.jit, static_argnums=(0, 1, 4, 6))
def _trace(method, objective, init, args, hessian, precondition, num_steps, options):
    frame = _iterate.Frame.of(objective, init, args, hessian, precondition)
    problem = frame.problem(options)

    def advance(state, _):
        moved = method.step(problem, state)
        following = jax.tree.map(lambda new, old: jnp.where(state.stalled, old, new), moved, state)
        return following, (state.point, state.value, state.grad)

    first = method.start(problem, frame.enter(frame.start))
    last, history = jax.lax.scan(advance, first, length=num_steps)
    points, values, grads = jax.tree.map(
        lambda many, one: jnp.concatenate([many, one[None]]),
        history,
        (last.point, last.value, last.grad),
    )
    return (
        jax.vmap(lambda z: frame.unravel(frame.leave(z)))(points),
        values,
        jax.vmap(frame.residual)(grads),
    )


@functools.partial(_platform.jit, static_argnums=(1, 4, 5, 6))
def _stochastic(key, objective, init, rows, batch_size, steps, optimizer, tol):
    n = jax.tree.leaves(rows)[0].shape[0]

    def advance(carry, key):
        params, state = carry
        picked = jax.random.randint(key, (batch_size,), 0, n)
        batch = jax.tree.map(lambda a: a[picked], rows)
        updates, state = optimizer.update(jax.grad(objective)(params, batch), state, params)
        return (jax.tree.map(jnp.add, params, updates), state), None

    keys = jax.random.split(key, steps)
    (params, _), _ = jax.lax.scan(advance, (init, optimizer.init(init)), keys)
    value, grad = jax.value_and_grad(objective)(params, rows)
    residual = _iterate.residual_of(ravel_pytree(grad)[0])
    frame = _iterate.Frame.of(objective, params, (rows,), None, None)
    proved = _linalg.when(
        residual <= tol,
        lambda at: _iterate.curvature_holds(frame, at),
        jnp.bool_(False),
        (frame.start,),
    )
    status = jnp.where((residual <= tol) & proved, Status.CONVERGED, Status.MAX_STEPS)
    valid = jnp.isfinite(value) & jnp.isfinite(residual) & (tol >= 0)
    status = jnp.where(valid, status, Status.INVALID_DATA).astype(jnp.int32)
    return params, Info(status, jnp.int32(steps), value, residual)


def _as_floats(init: Any) -> Any:
    def widened(leaf):
        leaf = _checks.real(leaf, "init")
        return leaf.astype(_checks.working_dtype(leaf))

    return jax.tree.map(widened, init)


def _refuse_bad_start(info: Info) -> None:
    if _checks.concrete(info.status) and (info.status == Status.INVALID_DATA).any():
        raise ValueError(
            "objective: not finite where the run began or ended, or tol or max_steps is negative "
            "or NaN"
        )

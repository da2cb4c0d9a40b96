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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from jaxlin import _checks, _implicit, _linalg
from jaxlin.types import Info, Status

Objective = Callable[..., jax.Array]
# `solver(objective, init, args=(), *, hessian, precondition, tol, max_steps) -> (params, info)`
Solver = Callable[..., tuple[Any, Info]]

# The curvature that must be left after a Newton step for the step to count as short.
CURVATURE_HELD = 0.9
# Newton steps at a residual below tol without that proof, after which there is none to come.
PATIENCE = 5
# The least damping of a Newton step, relative to the gradient: negligible unless curvature is.
LEAST_DAMPING = 1e-3
# Differences of objectives below this many units of rounding say nothing.
NOISE_ULPS = 32
# Up to this many parameters the proof uses a dense Hessian, beyond it conjugate gradients.
DENSE_LIMIT = 512
CG_STEPS = 200


class State(NamedTuple):
    """One point of a run.

    point: `(p,)`; value: `()`; grad: `(p,)`
    proved: whether the curvature held; stalled: whether no further step can help
    memory: what the method keeps
    """

    point: jax.Array
    value: jax.Array
    grad: jax.Array
    proved: jax.Array
    stalled: jax.Array
    memory: Any


class _Problem(NamedTuple):
    """The objective on flat points, in the coordinates that the method walks in."""

    value: Callable[[jax.Array], jax.Array]
    hessian: Callable[[jax.Array], jax.Array]
    options: dict[str, jax.Array]


class _Method(NamedTuple):
    start: Callable[[_Problem, jax.Array], State]
    step: Callable[[_Problem, State], State]
    proves: bool


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
    return _solve(_NEWTON, objective, init, args, hessian, None, tol, max_steps, {})


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
    return _solve(_LBFGS, objective, init, args, hessian, precondition, tol, max_steps, {})


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
    method = _descent(schedule)
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
    method = _updates_of(optimizer)

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

    _METHODS[solver] = method
    return solver


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
        method = _descent(options.pop("step_size"))
    else:
        method = method_of(solver)
        if solver is gradient_descent:
            options.setdefault("step_size", 0.1)
    if solver is gradient_descent:
        options.setdefault("theta", 0.0)
    init = _as_floats(init)
    flat, _ = ravel_pytree(init)
    options = {name: _checks.scalar(value, flat.dtype, name) for name, value in options.items()}
    return _trace(method, objective, init, args, hessian, precondition, num_steps, options)


def method_of(solver: Solver) -> _Method:
    """The start and step behind one of this module's solvers."""
    if solver not in _METHODS:
        raise TypeError(
            "solver: expected solvers.newton, lbfgs, gradient_descent or from_optax(...), "
            f"got {solver!r}"
        )
    return _METHODS[solver]


def warm_up(
    solver: Solver,
    objective: Objective,
    init: jax.Array,
    args: tuple,
    *,
    hessian: Callable[..., jax.Array],
    precondition: jax.Array | None,
    tol: jax.Array,
    max_steps: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Run a solver for a fit that proves its own optimum: `(point (p,), steps)`, no verdict."""
    if solver not in _METHODS:
        point, info = solver(
            objective,
            init,
            args,
            hessian=hessian,
            precondition=precondition,
            tol=tol,
            max_steps=max_steps,
        )
        return point, info.steps
    method = _METHODS[solver]
    options: dict[str, Any] = {}
    if solver is gradient_descent:
        options = {"step_size": jnp.asarray(0.1, init.dtype), "theta": jnp.zeros((), init.dtype)}
    frame = _Frame.of(objective, init, args, hessian, precondition)
    state, steps = _iterate(method, frame, options, tol, max_steps)
    return frame.leave(state.point), steps


def newton_step(hess: jax.Array, grad: jax.Array, damping: jax.Array) -> jax.Array:
    """-(H + damping |g| I)^-1 g, with |g| the largest absolute entry; NaN if H is indefinite."""
    p = grad.shape[0]
    shift = damping * jnp.max(jnp.abs(grad), initial=0)
    ridge = float(jnp.finfo(grad.dtype).eps) * p
    return -_linalg.solve(_linalg.factor(hess + shift * jnp.eye(p, dtype=hess.dtype), ridge), grad)


class Verdict(NamedTuple):
    """What a trial step achieved: take it or not, the next damping, and whether to give up."""

    accept: jax.Array
    damping: jax.Array
    stalled: jax.Array


def judge(
    before: tuple[jax.Array, jax.Array],
    after: tuple[jax.Array, jax.Array],
    predicted: jax.Array,
    damping: jax.Array,
    floor: jax.Array | float = 0.0,
) -> Verdict:
    """Accept a trial `(value, residual)` by its decrease, or by its residual within rounding.

    A decrease that rounding could have made says nothing: there the residual must fall, or be
    below `floor`, its own rounding bound, where the step may still improve the directions of little
    curvature, which the residual hardly sees. A residual that does not fall ends the run.
    """
    (value, residual), (trial_value, trial_residual) = before, after
    finite = jnp.isfinite(trial_value) & jnp.isfinite(trial_residual)
    noise = (
        NOISE_ULPS * jnp.finfo(value.dtype).eps * jnp.maximum(jnp.abs(value), jnp.abs(trial_value))
    )
    decrease = value - trial_value
    telling = finite & (jnp.abs(decrease) > noise)
    fell = trial_residual < residual
    accept = jnp.where(telling, decrease >= 1e-3 * predicted, fell | (trial_residual <= floor))
    accept &= finite
    good = accept & (~telling | (decrease >= 0.5 * predicted))
    # Down slowly and up fast took the fewest steps on 20,000 hard problems.
    lower = jnp.maximum(0.3 * damping, LEAST_DAMPING)
    damping = jnp.where(good, lower, jnp.where(accept, damping, 10 * damping))
    return Verdict(accept, damping, finite & ~telling & ~fell)


class _NewtonMemory(NamedTuple):
    hess: jax.Array
    damping: jax.Array
    unproved: jax.Array


def _newton_start(problem: _Problem, point: jax.Array) -> State:
    value, grad = jax.value_and_grad(problem.value)(point)
    damping = jnp.full((), LEAST_DAMPING, value.dtype)
    memory = _NewtonMemory(problem.hessian(point), damping, jnp.int32(0))
    return State(point, value, grad, jnp.bool_(False), jnp.bool_(False), memory)


def _newton_step(problem: _Problem, state: State) -> State:
    hess, damping, unproved = state.memory
    step = newton_step(hess, state.grad, damping)
    trial = state.point + step
    value, grad = jax.value_and_grad(problem.value)(trial)
    trial_hess = problem.hessian(trial)
    curvature = step @ hess @ step
    verdict = judge(
        (state.value, _residual(state.grad)),
        (value, _residual(grad)),
        -(state.grad @ step) - curvature / 2,
        damping,
    )
    # Without curvature in every direction nothing holds the point where it is.
    sound = _linalg.factor(trial_hess).pivot > step.size * jnp.finfo(step.dtype).eps
    held = sound & (step @ trial_hess @ step >= CURVATURE_HELD * curvature)
    memory = _NewtonMemory(
        jnp.where(verdict.accept, trial_hess, hess),
        verdict.damping,
        jnp.where(held, 0, unproved + 1),
    )
    return State(
        point=jnp.where(verdict.accept, trial, state.point),
        value=jnp.where(verdict.accept, value, state.value),
        grad=jnp.where(verdict.accept, grad, state.grad),
        proved=held,
        stalled=verdict.stalled,
        memory=memory,
    )


class _LbfgsMemory(NamedTuple):
    optax: Any
    best: jax.Array
    idle: jax.Array


@functools.cache
def _lbfgs_optimizer() -> Any:
    import optax  # here, because importing it takes longer than the rest of the package

    return optax.lbfgs(linesearch=optax.scale_by_zoom_linesearch(max_linesearch_steps=20))


def _lbfgs_start(problem: _Problem, point: jax.Array) -> State:
    value, grad = jax.value_and_grad(problem.value)(point)
    memory = _LbfgsMemory(_lbfgs_optimizer().init(point), _residual(grad), jnp.int32(0))
    return State(point, value, grad, jnp.bool_(False), jnp.bool_(False), memory)


def _lbfgs_step(problem: _Problem, state: State) -> State:
    updates, optax_state = _optax_update(_lbfgs_optimizer(), problem, state, state.memory.optax)
    trial = state.point + updates
    search = optax_state[-1]  # the line search has evaluated the trial
    value, grad = search.value, search.grad
    # optax takes the last trial even when its search fails: such a step is refused here.
    noise = NOISE_ULPS * jnp.finfo(value.dtype).eps * jnp.abs(state.value)
    accept = jnp.isfinite(value) & jnp.all(jnp.isfinite(grad)) & (value <= state.value + noise)
    residual = _residual(grad)
    progress = (value < state.value - noise) | (residual < state.memory.best)
    idle = jnp.where(accept & progress, 0, state.memory.idle + 1)
    memory = _LbfgsMemory(optax_state, jnp.minimum(state.memory.best, residual), idle)
    return State(
        point=jnp.where(accept, trial, state.point),
        value=jnp.where(accept, value, state.value),
        grad=jnp.where(accept, grad, state.grad),
        proved=jnp.bool_(False),
        stalled=~accept | (idle >= PATIENCE),
        memory=memory,
    )


def _first_order_start(memory: Callable[[jax.Array], Any]) -> Callable[..., State]:
    def start(problem: _Problem, point: jax.Array) -> State:
        value, grad = jax.value_and_grad(problem.value)(point)
        return State(point, value, grad, jnp.bool_(False), jnp.bool_(False), memory(point))

    return start


def _moved(problem: _Problem, state: State, update: jax.Array, memory: Any) -> State:
    """Take the update; a point that is no longer finite is refused and ends the run."""
    trial = state.point + update
    value, grad = jax.value_and_grad(problem.value)(trial)
    finite = jnp.isfinite(value) & jnp.all(jnp.isfinite(grad))
    return State(
        point=jnp.where(finite, trial, state.point),
        value=jnp.where(finite, value, state.value),
        grad=jnp.where(finite, grad, state.grad),
        proved=jnp.bool_(False),
        stalled=~finite,
        memory=memory,
    )


@functools.cache
def _descent(schedule: Callable[[jax.Array], Any] | None) -> _Method:
    def step(problem: _Problem, state: State) -> State:
        k = state.memory + 1
        eta = schedule(k) if schedule else problem.options["step_size"]
        update = -jnp.asarray(eta, state.grad.dtype) * state.grad
        moved = _moved(problem, state, update, k)
        done = jnp.linalg.norm(update) < problem.options["theta"]
        return moved._replace(stalled=moved.stalled | done)

    return _Method(_first_order_start(lambda _: jnp.int32(0)), step, proves=False)


def _updates_of(optimizer: Any) -> _Method:
    def step(problem: _Problem, state: State) -> State:
        return _moved(problem, state, *_optax_update(optimizer, problem, state, state.memory))

    return _Method(_first_order_start(optimizer.init), step, proves=False)


def _optax_update(optimizer: Any, problem: _Problem, state: State, memory: Any) -> tuple[Any, Any]:
    """An optimizer's update, also where the user has made jax strict: optax is not written so."""
    import optax

    optimizer = optax.with_extra_args_support(optimizer)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        return optimizer.update(
            state.grad,
            memory,
            state.point,
            value=state.value,
            grad=state.grad,
            value_fn=problem.value,
        )


_NEWTON = _Method(_newton_start, _newton_step, proves=True)
_LBFGS = _Method(_lbfgs_start, _lbfgs_step, proves=False)
_METHODS: dict[Any, _Method] = {
    newton: _NEWTON,
    lbfgs: _LBFGS,
    gradient_descent: _descent(None),
}


class _Frame(NamedTuple):
    """The objective on flat points, in preconditioned coordinates z = L' point.

    lower: L, the Cholesky factor of the preconditioner, or None.
    """

    value: Callable[[jax.Array], jax.Array]
    hessian: Callable[[jax.Array], jax.Array]
    start: jax.Array
    lower: jax.Array | None
    unravel: Callable[[jax.Array], Any]

    @classmethod
    def of(cls, objective, init, args, hessian, precondition) -> "_Frame":
        flat, unravel = ravel_pytree(init)

        def value(point):
            return objective(unravel(point), *args)

        def curvature(point):
            return jax.hessian(value)(point) if hessian is None else hessian(unravel(point), *args)

        lower = None if precondition is None else jnp.linalg.cholesky(precondition)
        return cls(value, curvature, flat, lower, unravel)

    def problem(self, options) -> _Problem:
        return _Problem(lambda z: self.value(self.leave(z)), self.hessian, options)

    def enter(self, point):
        return point if self.lower is None else _linalg.dot(self.lower.T, point)

    def leave(self, z):
        if self.lower is None:
            return z
        return jax.scipy.linalg.solve_triangular(self.lower, z, lower=True, trans=1)

    def residual(self, grad):
        return _residual(grad if self.lower is None else _linalg.dot(self.lower, grad))


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


@functools.partial(jax.jit, static_argnums=(0, 1, 4))
def _solve_core(method, objective, init, args, hessian, precondition, tol, max_steps, options):
    stopped = jax.lax.stop_gradient(args)
    frame = _Frame.of(objective, init, stopped, hessian, precondition)
    frame = frame._replace(start=jax.lax.stop_gradient(frame.start))
    state, steps = _iterate(method, frame, options, tol, max_steps)
    residual = frame.residual(state.grad)
    point = frame.leave(state.point)
    proved = state.proved
    if not method.proves:
        proved = _linalg.when(
            residual <= tol, lambda at: _curvature_holds(frame, at), jnp.bool_(False), (point,)
        )
        point = _linalg.after(proved, point)
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

    point = _implicit.root(gradient, point, valid)
    info = Info(status, steps, *(jnp.where(valid, a, jnp.nan) for a in (state.value, residual)))
    return frame.unravel(jnp.where(valid, point, jnp.nan)), info


def _iterate(method, frame, options, tol, max_steps):
    """The one loop: until proved, or below tol where the method cannot prove, or stalled."""
    problem = frame.problem(options)

    def unfinished(carry):
        state, steps = carry
        passed = frame.residual(state.grad) <= tol
        if method.proves:
            passed &= state.proved | (state.memory.unproved >= PATIENCE)
        return (steps < max_steps) & ~passed & ~state.stalled & jnp.isfinite(state.value)

    def advance(carry):
        state, steps = carry
        return method.step(problem, state), steps + 1

    first = method.start(problem, frame.enter(frame.start))
    return jax.lax.while_loop(unfinished, advance, (first, jnp.int32(0)))


def _curvature_holds(frame, point):
    """Whether the Newton step at `point` keeps the curvature along itself."""
    grad = jax.grad(frame.value)

    def curved(at, v):
        return jax.jvp(grad, (at,), (v,))[1]

    slope = grad(point)
    if point.size <= DENSE_LIMIT:
        hess = frame.hessian(point)
        step = newton_step(hess, slope, jnp.zeros((), point.dtype))
        sound = _linalg.factor(hess).pivot > point.size * jnp.finfo(point.dtype).eps
    else:
        step, _ = jax.scipy.sparse.linalg.cg(
            functools.partial(curved, point), -slope, maxiter=CG_STEPS
        )
        left = jnp.linalg.norm(curved(point, step) + slope)
        sound = (left <= 0.1 * jnp.linalg.norm(slope)) & (step @ curved(point, step) > 0)
    before, after = step @ curved(point, step), step @ curved(point + step, step)
    return sound & jnp.all(jnp.isfinite(step)) & (after >= CURVATURE_HELD * before)


@functools.partial(jax.jit, static_argnums=(0, 1, 4, 6))
def _trace(method, objective, init, args, hessian, precondition, num_steps, options):
    frame = _Frame.of(objective, init, args, hessian, precondition)
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


@functools.partial(jax.jit, static_argnums=(1, 4, 5, 6))
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
    residual = _residual(ravel_pytree(grad)[0])
    frame = _Frame.of(objective, params, (rows,), None, None)
    proved = _linalg.when(
        residual <= tol, lambda at: _curvature_holds(frame, at), jnp.bool_(False), (frame.start,)
    )
    status = jnp.where((residual <= tol) & proved, Status.CONVERGED, Status.MAX_STEPS)
    valid = jnp.isfinite(value) & jnp.isfinite(residual) & (tol >= 0)
    status = jnp.where(valid, status, Status.INVALID_DATA).astype(jnp.int32)
    return params, Info(status, jnp.int32(steps), value, residual)


def _residual(grad: jax.Array) -> jax.Array:
    return jnp.max(jnp.abs(grad), initial=0)


def _as_floats(init: Any) -> Any:
    def widened(leaf):
        leaf = _checks.real(leaf, "init")
        return leaf.astype(_checks.working_dtype(leaf))

    return jax.tree.map(widened, init)


def _refuse_bad_start(info: Info) -> None:
    status = info.status
    if isinstance(status, jax.core.Tracer) or not status.is_fully_addressable:
        return
    if (status == Status.INVALID_DATA).any():
        raise ValueError(
            "objective: not finite where the run began or ended, or tol or max_steps is negative "
            "or NaN"
        )

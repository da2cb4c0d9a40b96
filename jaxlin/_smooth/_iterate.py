"""The one loop behind every solver: methods as a start and a step, stopping rule, and proof.

A method sees a `Problem`, functions of a flat point, and moves a `State`. `iterate` runs it; the
fits' own engine shares its Newton step and its judgement of a trial. Shapes: `p` parameters.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from jaxlin import _linalg
from jaxlin._base import _loops, _traits
from jaxlin.types import Status

# The curvature that must be left after a Newton step for the step to count as short.
CURVATURE_HELD = 0.9
# Newton steps at a residual below tol without that proof, after which there is none to come.
PATIENCE = 5
# The first damping of a Newton step, relative to the gradient: negligible unless curvature is.
FIRST_DAMPING = 1e-3
# The least, after good steps: with more, directions of curvature 1e-12 are crept along.
LEAST_DAMPING = 1e-9
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


class Problem(NamedTuple):
    """The objective on flat points, in the coordinates that the method walks in."""

    value: Callable[[jax.Array], jax.Array]
    hessian: Callable[[jax.Array], jax.Array]
    options: dict[str, jax.Array]


class Method(NamedTuple):
    start: Callable[[Problem, jax.Array], State]
    step: Callable[[Problem, State], State]
    proves: bool
    defaults: tuple[tuple[str, float], ...] = ()


def newton_step(
    hess: jax.Array, grad: jax.Array, damping: jax.Array
) -> tuple[jax.Array, _linalg.Factor]:
    """-(H + damping |g| I)^-1 g, with |g| the largest absolute entry, and that matrix's factor.

    The step is NaN if H is indefinite.
    """
    shift = damping * _linalg.largest(jnp.abs(grad))
    ridge = float(jnp.finfo(grad.dtype).eps) * grad.shape[0]
    whole = _linalg.factor(_linalg.raised(hess, shift), ridge)
    return -_linalg.solve(whole, grad), whole


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
    least = jnp.maximum(damping, FIRST_DAMPING)
    damping = jnp.where(good, lower, jnp.where(accept, least, 10 * least))
    return Verdict(accept, damping, finite & ~telling & ~fell)


class _NewtonMemory(NamedTuple):
    hess: jax.Array
    damping: jax.Array
    unproved: jax.Array


def _newton_start(problem: Problem, point: jax.Array) -> State:
    value, grad = jax.value_and_grad(problem.value)(point)
    damping = jnp.full((), FIRST_DAMPING, value.dtype)
    hess = problem.hessian(point)
    memory = _NewtonMemory(hess, damping, jnp.int32(0))
    return State(point, value, grad, jnp.bool_(False), jnp.bool_(False), memory)


def _newton_step(problem: Problem, state: State) -> State:
    hess, damping, unproved = state.memory
    step, _ = newton_step(hess, state.grad, damping)
    trial = state.point + step
    value, grad = jax.value_and_grad(problem.value)(trial)
    trial_hess = problem.hessian(trial)
    curvature = step @ hess @ step
    verdict = judge(
        (state.value, residual_of(state.grad)),
        (value, residual_of(grad)),
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


def _lbfgs_start(problem: Problem, point: jax.Array) -> State:
    value, grad = jax.value_and_grad(problem.value)(point)
    memory = _LbfgsMemory(_lbfgs_optimizer().init(point), residual_of(grad), jnp.int32(0))
    return State(point, value, grad, jnp.bool_(False), jnp.bool_(False), memory)


def _lbfgs_step(problem: Problem, state: State) -> State:
    updates, optax_state = optax_update(_lbfgs_optimizer(), problem, state, state.memory.optax)
    trial = state.point + updates
    search = optax_state[-1]  # the line search has evaluated the trial
    value, grad = search.value, search.grad
    # optax takes the last trial even when its search fails: such a step is refused here.
    noise = NOISE_ULPS * jnp.finfo(value.dtype).eps * jnp.abs(state.value)
    accept = jnp.isfinite(value) & jnp.all(jnp.isfinite(grad)) & (value <= state.value + noise)
    residual = residual_of(grad)
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
    def start(problem: Problem, point: jax.Array) -> State:
        value, grad = jax.value_and_grad(problem.value)(point)
        return State(point, value, grad, jnp.bool_(False), jnp.bool_(False), memory(point))

    return start


def _moved(problem: Problem, state: State, update: jax.Array, memory: Any) -> State:
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
def descent(schedule: Callable[[jax.Array], Any] | None) -> Method:
    def step(problem: Problem, state: State) -> State:
        k = state.memory + 1
        eta = schedule(k) if schedule else problem.options["step_size"]
        update = -jnp.asarray(eta, state.grad.dtype) * state.grad
        moved = _moved(problem, state, update, k)
        done = jnp.linalg.norm(update) < problem.options["theta"]
        return moved._replace(stalled=moved.stalled | done)

    defaults = (("theta", 0.0),) if schedule else (("theta", 0.0), ("step_size", 0.1))
    return Method(_first_order_start(lambda _: jnp.int32(0)), step, False, defaults)


def updates_of(optimizer: Any) -> Method:
    def step(problem: Problem, state: State) -> State:
        return _moved(problem, state, *optax_update(optimizer, problem, state, state.memory))

    return Method(_first_order_start(optimizer.init), step, proves=False)


def optax_update(optimizer: Any, problem: Problem, state: State, memory: Any) -> tuple[Any, Any]:
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


NEWTON = Method(_newton_start, _newton_step, proves=True)
LBFGS = Method(_lbfgs_start, _lbfgs_step, proves=False)


class Frame(NamedTuple):
    """The objective on flat points, in preconditioned coordinates z = L' point.

    lower: `(q, q)` L, the Cholesky factor of the preconditioner, or `(q,)`, a diagonal one, or
      None; q divides p, and each run of q parameters is transformed alike
    size: `f(grad (p,))` -> `()`, what is to be small, of the gradient in points
    """

    value: Callable[[jax.Array], jax.Array]
    hessian: Callable[[jax.Array], jax.Array]
    start: jax.Array
    lower: jax.Array | None
    unravel: Callable[[jax.Array], Any]
    size: Callable[[jax.Array], jax.Array]

    @classmethod
    def of(cls, objective, init, args, hessian, precondition, size=None) -> "Frame":
        flat, unravel = ravel_pytree(init)

        def value(point):
            return objective(unravel(point), *args)

        def curvature(point):
            return jax.hessian(value)(point) if hessian is None else hessian(unravel(point), *args)

        lower = None if precondition is None else jnp.linalg.cholesky(precondition)
        return cls(value, curvature, flat, lower, unravel, residual_of if size is None else size)

    def problem(self, options) -> Problem:
        return Problem(lambda z: self.value(self.leave(z)), self.hessian, options)

    def enter(self, point):
        if self.lower is None:
            return point
        return _times(_runs(point, self.lower), self.lower).reshape(-1)

    def leave(self, z):
        if self.lower is None:
            return z
        if self.lower.ndim == 1:
            return (_runs(z, self.lower) / self.lower[None, :]).reshape(-1)
        return jax.scipy.linalg.solve_triangular(
            self.lower, _runs(z, self.lower).T, lower=True, trans=1
        ).T.reshape(-1)

    def residual(self, grad):
        if self.lower is None:
            return self.size(grad)
        return self.size(_times(_runs(grad, self.lower), self.lower.T).reshape(-1))


def _times(runs: jax.Array, lower: jax.Array) -> jax.Array:
    return runs * lower[None, :] if lower.ndim == 1 else _linalg.dot(runs, lower)


def _runs(flat: jax.Array, lower: jax.Array) -> jax.Array:
    return flat.reshape(-1, lower.shape[0])


def iterate(method, frame, options, tol, max_steps):
    """The one loop: until proved, or below tol where the method cannot prove, or stalled."""
    unfinished, advance, first = loop_of(method, frame, options, tol, max_steps)
    return jax.lax.while_loop(unfinished, *_loops.steady(advance, first()))


def loop_of(method, frame, options, tol, max_steps):
    """The loop's condition and body, and how to make what it carries, `(state, steps)`."""
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

    def first():
        return method.start(problem, frame.enter(frame.start)), jnp.int32(0)

    return unfinished, advance, first


def curvature_holds(frame, point):
    """Whether the Newton step at `point` keeps the curvature along itself."""
    grad = jax.grad(frame.value)

    def curved(at, v):
        return jax.jvp(grad, (at,), (v,))[1]

    slope = grad(point)
    if point.size <= DENSE_LIMIT:
        hess = frame.hessian(point)
        step, _ = newton_step(hess, slope, jnp.zeros((), point.dtype))
        sound = _linalg.factor(hess).pivot > point.size * jnp.finfo(point.dtype).eps
    else:
        step, _ = jax.scipy.sparse.linalg.cg(
            functools.partial(curved, point), -slope, maxiter=CG_STEPS
        )
        left = jnp.linalg.norm(curved(point, step) + slope)
        sound = (left <= 0.1 * jnp.linalg.norm(slope)) & (step @ curved(point, step) > 0)
    before, after = step @ curved(point, step), step @ curved(point + step, step)
    return sound & jnp.all(jnp.isfinite(step)) & (after >= CURVATURE_HELD * before)


def method_of(solver: Callable) -> Method:
    """The start and step behind one of this module's solvers."""
    method = _traits.of(solver).method
    if method is None:
        raise TypeError(
            "solver: expected solvers.newton, lbfgs, gradient_descent or from_optax(...), "
            f"got {solver!r}"
        )
    return method


def warm_up(
    solver: Callable,
    objective: Callable,
    init: jax.Array,
    args: tuple,
    *,
    hessian: Callable[..., jax.Array],
    precondition: jax.Array | None = None,
    lower: jax.Array | None = None,
    size: Callable[[jax.Array], jax.Array],
    slack: float,
    tol: jax.Array,
    max_steps: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Run a solver for a fit that proves its own optimum: `(point (p,), steps, arrived)`.

    Until the `size` of the gradient `(p,)` is at most tol; for a solver of the user's, which knows
    of its entries alone, until the largest is at most tol / slack. For one of this module's `lower`
    may be given, the factor of what is to precondition.
    """
    method = _traits.of(solver).method
    if method is None:
        point, info = solver(
            objective,
            init,
            args,
            hessian=hessian,
            precondition=precondition,
            tol=tol / slack,
            max_steps=max_steps,
        )
        return point, info.steps, info.status == Status.CONVERGED
    options = {name: jnp.asarray(value, init.dtype) for name, value in method.defaults}
    frame = Frame.of(objective, init, args, hessian, precondition, size)
    frame = frame if lower is None else frame._replace(lower=lower)
    state, steps = iterate(method, frame, options, tol, max_steps)
    return frame.leave(state.point), steps, frame.residual(state.grad) <= tol


def residual_of(grad: jax.Array) -> jax.Array:
    return _linalg.largest(jnp.abs(grad))

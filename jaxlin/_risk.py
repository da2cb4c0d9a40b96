"""The engine behind every smooth loss of linear scores: frame, solver, certificate, derivative.

A fit minimises J = sum_i c_i loss(x_i . w + b + o_i, y_i) + 1/2 sum_j l2_j w_j^2, the weights c
summing to one. It runs in a frame where columns are centred (with a bias) and scaled by powers of
two to about unit variance, both exact to undo, so raw units of any size are solved alike.

Newton's loop carries its own proof. If a direction existed along which J falls for ever, then at
every point decrement * max_i |x_i|_{H^-1} >= 1, decrement^2 = g' H^-1 g; so a product of at most
1/10 proves a finite optimum. Where the Hessian is singular because the *columns* are (checked on
the data, not on the Hessian, whose tails vanish under separation too), the proof is given on their
range, and the answer is the minimiser of least norm.

`residual`: the largest absolute entry of J's gradient for centred columns of unit variance, never
less than the rounding bound of that sum at the returned params.
Shapes: `n` rows, `d` features, `p` = d + 1 coordinates with a bias, else d.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlin import _frame, _implicit, _iterate, _linalg, _rows, solvers
from jaxlin._frame import Problem
from jaxlin._linalg import dot
from jaxlin.types import Hyperplane, Info, Status

Margins = Callable[[jax.Array, jax.Array], jax.Array]

# A finite optimum is proved below 1; the rest is for rounding.
CERTIFICATE = 0.1
# The pulls of rows on a separating plane cancel to this part of their size.
BALANCE = 0.01
# Scores of this size are certain of their class; a start of such scores is poor unless optimal.
FAR = 10.0
# Up to this many coordinates the default is Newton's method, and L-BFGS beyond.
NEWTON_LIMIT = 256
# Up to this many, an optimum found without a Hessian is finished and proved with one.
DENSE_LIMIT = 1024
# A squared pivot below this many units of p * eps may be rounding: the columns are looked at.
PIVOT_ULPS = 16
# Products of p terms are trusted beyond this many units of p * eps of their magnitude.
ROUNDING_ULPS = 16
# The sums of a pass, and the scores they are made of, are trusted to so many units of rounding.
NOISE_ULPS = 4


class Spec(NamedTuple):
    """What is static about a fit.

    loss: `f(score, y)` of one example, smooth and convex in its score
    margins: `f(scores, y)`, at least 0 where the score agrees with every class that y allows
    solver: of `solvers`, or None for the default by size
    bias: whether there is one
    """

    loss: Callable[[jax.Array, jax.Array], jax.Array]
    margins: Margins
    solver: solvers.Solver | None
    bias: bool


class _Point(NamedTuple):
    """J at theta.

    noise: `()`, the rounding bound of the residual
    margin: `()`, the least margin of the unpenalised part of theta, less its rounding
    curve: `()`, the mean second derivative of the loss
    reach: `()`, the largest size of a score, offsets left out
    """

    theta: jax.Array
    value: jax.Array
    grad: jax.Array
    residual: jax.Array
    noise: jax.Array
    margin: jax.Array
    curve: jax.Array
    reach: jax.Array


class _Outcome(NamedTuple):
    """What a run came to, and what was proved about it.

    steps, trials: points that were taken, and all that were tried, which the cap is on
    """

    point: _Point
    steps: jax.Array
    trials: jax.Array
    certified: jax.Array
    deficient: jax.Array
    separated: jax.Array
    quasi: jax.Array


def fit(
    spec: Spec,
    rows: _rows.Rows,
    *,
    usable: jax.Array,
    l2: jax.Array,
    init: Hyperplane | None,
    tol: jax.Array,
    max_steps: jax.Array | None,
) -> tuple[Hyperplane, Info]:
    """Minimise J from `init` (or 0) and prove it.

    Args:
      spec: the loss and the static choices.
      rows: prepared data.
      usable: whether there is a problem at all; if not, what comes back is replaced.
      l2: `(d,)`, nonnegative.
      init: params in the user's units, or None.
      tol: bound on `residual`.
      max_steps: cap on the steps, or None for the solver's default.

    Returns:
      `(params, info)`, of status CONVERGED to SEPARABLE; a lane of no weight returns quickly.
    """
    newton = _is_newton(spec, rows.x.shape[1])
    cap = jnp.int32(100 if newton else 1000) if max_steps is None else max_steps
    problem = _frame.make(jax.lax.stop_gradient(rows), jax.lax.stop_gradient(l2), spec.bias)
    start = _frame.enter(problem, init, spec.bias)
    if newton:
        unknown = jnp.full((), jnp.inf, start.dtype)
        origin = unknown if init is None else _value_at_origin(spec, problem)
        outcome = _newton(spec, problem, start, origin, tol, cap, jnp.int32(0))
    else:
        outcome = _finish(spec, problem, start, tol, cap)
    # Where the optimum is at infinity the penalised weights vanish beside the others.
    found = jnp.where(outcome.separated & ~problem.free, 0, outcome.point.theta)
    found = _linalg.after(outcome.certified, found)
    info = _info(outcome, tol, cap)
    live = problem._replace(rows=rows, penalty=_frame.penalty(l2, problem.scale, problem.spread))
    proper = usable & (info.status <= Status.MAX_STEPS)
    theta = _implicit.root(lambda at: _gradient(spec, live, at), found, proper)
    return _frame.leave(problem, theta, spec.bias), info


def _info(outcome: _Outcome, tol: jax.Array, cap: jax.Array) -> Info:
    point = outcome.point
    residual = jnp.maximum(point.residual, point.noise)
    # Where the run saw a separation the penalised weights were dropped: no longer what was proved.
    passed = (residual <= tol) & outcome.certified & ~outcome.separated
    status = jnp.where(outcome.deficient, Status.RANK_DEFICIENT, Status.CONVERGED)
    unproved = jnp.where(outcome.trials < cap, Status.STALLED, Status.MAX_STEPS)
    status = jnp.where(passed, status, unproved)
    status = jnp.where(outcome.quasi & ~passed, Status.QUASI_SEPARABLE, status)
    status = jnp.where(outcome.separated, Status.SEPARABLE, status)
    objective = jnp.where(outcome.separated, 0, point.value)
    return Info(status.astype(jnp.int32), outcome.steps, objective, residual)


def _is_newton(spec: Spec, d: int) -> bool:
    if spec.solver is None:
        return d + spec.bias <= NEWTON_LIMIT
    return spec.solver is solvers.newton


# --- passes over the data ------------------------------------------------------------------------


def _scored(block: _rows.Rows, scores: jax.Array) -> jax.Array:
    """Scores with their offset; 0 in rows without weight, where they could overflow."""
    if block.offset is not None:
        scores = scores + block.offset
    return jnp.where(block.weight > 0, scores, 0)


def _per_row(spec: Spec, block: _rows.Rows, scores: jax.Array) -> tuple[jax.Array, ...]:
    """Weighted slope and curvature of each row's loss, and its terms `(rows, 3)` of three sums.

    The sums are J's loss, the square of the gradient's rounding, and how far scores tilt it.
    """
    value, slope = jax.vmap(jax.value_and_grad(spec.loss))(scores, block.y)
    curve = block.weight * jax.vmap(jax.hessian(spec.loss))(scores, block.y)
    pull = block.weight * slope
    terms = jnp.stack([block.weight * value, pull * slope, curve * jnp.abs(scores)], axis=1)
    return pull, curve, terms


def _worst(spec: Spec, block: _rows.Rows, scores: jax.Array) -> jax.Array:
    """For q sets of scores `(rows, q)`: minus the least margin, and the largest size, `(2, q)`."""
    margins = jax.vmap(spec.margins, in_axes=(1, None), out_axes=1)(scores, block.y)
    both = jnp.stack([-margins, jnp.abs(scores)])
    return jnp.max(jnp.where((block.weight > 0)[None, :, None], both, -jnp.inf), axis=1)


def _measure(spec: Spec, problem: Problem, theta: jax.Array, step: jax.Array):
    """J with its Hessian X'DX, in one pass.

    Args:
      step: `(p,)`, the step that led to theta.

    Returns:
      `(point, hessian (p, p), drop, reach)`: the least margin and the largest size of the scores
      of `step` alone, its penalised coordinates left out.
    """

    def sums(block):
        z = _frame.columns(problem, block)
        freed = jnp.where(problem.free[None, :], jnp.stack([theta, step]), 0)
        thetas = jnp.concatenate([theta[None], freed]) * problem.spread[None, :]
        s = dot(z, thetas.T)
        pull, curve, terms = _per_row(spec, block, _scored(block, s[:, 0]))
        # All sums in one product: each reduction of its own is compiled for as long as it.
        left = jnp.concatenate([z * curve[:, None], pull[:, None], terms, curve[:, None]], axis=1)
        return dot(left.T, _with_ones(spec, z)), _worst(spec, block, s)

    product, worst = _rows.fold(sums, problem.rows)
    p = theta.size
    # A coordinate out of play has curvature 1 and stands alone.
    diagonal = jnp.where(problem.spread > 0, problem.penalty, 1)
    hess = product[:p, :p] * problem.spread[:, None] * problem.spread[None, :] + jnp.diag(diagonal)
    point = _assemble(problem, theta, product[p, :p], product[p + 1 :, -1], worst)
    return point, hess, -worst[0, 2], worst[1, 2]


def _with_ones(spec: Spec, z: jax.Array) -> jax.Array:
    """The columns with one of ones behind, which the bias has already."""
    return z if spec.bias else jnp.concatenate([z, jnp.ones_like(z[:, :1])], axis=1)


def _light(spec: Spec, problem: Problem, theta: jax.Array) -> _Point:
    """J without its Hessian, in one pass."""

    def sums(block):
        z = _frame.columns(problem, block)
        thetas = jnp.stack([theta, jnp.where(problem.free, theta, 0)]) * problem.spread[None, :]
        s = dot(z, thetas.T)
        pull, curve, terms = _per_row(spec, block, _scored(block, s[:, 0]))
        terms = jnp.concatenate([terms, curve[:, None]], axis=1)
        return (jnp.sum(terms, axis=0), dot(pull, z)), _worst(spec, block, s)

    (terms, columns), worst = _rows.fold(sums, problem.rows)
    return _assemble(problem, theta, columns, terms, worst)


def _assemble(problem, theta, columns, terms, worst) -> _Point:
    value, square, tilt, curve = terms
    grad = columns * problem.spread + problem.penalty * theta
    eps = jnp.finfo(theta.dtype).eps
    size = jnp.abs(theta)[None, :]
    each = jnp.concatenate([size * problem.sizes, problem.penalty[None, :] * size**2 / 2])
    moved, largest, penalty = jnp.sum(each, axis=1)
    return _Point(
        theta=theta,
        value=value + penalty,
        grad=grad,
        residual=_residual(problem, grad),
        noise=NOISE_ULPS * eps * (jnp.sqrt(square) + tilt + curve * moved),
        # Twice the rounding of the frame, of a score in it, and of the bias that leaves it.
        margin=-worst[0, 1] - (theta.size + 4) * eps * largest,
        curve=curve,
        reach=worst[1, 0],
    )


def _residual(problem: Problem, grad: jax.Array) -> jax.Array:
    d = problem.centre.size
    # Moving a weight of a centred column moves the bias against it.
    centred = grad - problem.shift * (grad[d] if grad.size > d else 0)
    return jnp.max(jnp.abs(centred * problem.unit), initial=0)


def _gradient(spec: Spec, problem: Problem, theta: jax.Array) -> jax.Array:
    """dJ/dtheta, differentiable in everything; coordinates out of play give themselves back."""

    def sums(block):
        # Masked by what a row holds, not by its weight, whose derivative is wanted at 0 too.
        z = _frame.columns(problem, block)
        scores = dot(z, theta * problem.spread)
        if block.offset is not None:
            scores = scores + block.offset
        slope = jax.vmap(jax.grad(spec.loss))(jnp.where(block.ok, scores, 0), block.y)
        return dot(block.weight * jnp.where(block.ok, slope, 0), z), ()

    columns, _ = _rows.fold(sums, problem.rows)
    inert = problem.spread == 0
    return columns * problem.spread + jnp.where(inert, theta, problem.penalty * theta)


@functools.cache
def _objective(spec: Spec) -> Callable[[jax.Array, Problem], jax.Array]:
    """J as a solver takes it, value and gradient from the same pass. Not differentiable in data."""

    @jax.custom_jvp
    def objective(theta, problem):
        return _light(spec, problem, theta).value

    @objective.defjvp
    def _(primals, tangents):
        point = _light(spec, primals[1], primals[0])
        return point.value, jnp.sum(point.grad * tangents[0])

    return objective


@functools.cache
def _hessian(spec: Spec) -> Callable[[jax.Array, Problem], jax.Array]:
    def hessian(theta, problem):
        return _measure(spec, problem, theta, jnp.zeros_like(theta))[1]

    return hessian


# --- Newton's method with its proof --------------------------------------------------------------


class _Run(NamedTuple):
    """Newton's loop: the best point so far, and the step from it to try next.

    whole: the factor of the Hessian there, damped
    """

    point: _Point
    hess: jax.Array
    whole: _linalg.Factor
    step: jax.Array
    damping: jax.Array
    steps: jax.Array
    trials: jax.Array
    passed: jax.Array
    done: jax.Array
    quasi: jax.Array


def _newton(spec, problem, start, origin, tol, cap, before) -> _Outcome:
    """Damped Newton steps until the optimum is proved, or shown to be at infinity.

    The first trial is the start, taken if it is no worse than 0, where J is `origin`. After the
    residual has passed, one more step is tried: the method converges quadratically, so it ends at
    the floor of the dtype. `before` are steps that led to the start, and count.
    """
    # In the tail a step is the direction to infinity up to the larger of exp(-score) and
    # eps exp(score): at best the root of eps.
    tail = 4 * jnp.sqrt(jnp.finfo(start.dtype).eps)
    never = jnp.bool_(False)

    def advance(run: _Run) -> _Run:
        point, step = run.point, run.step
        trial, hess, drop, reach = _measure(spec, problem, point.theta + step, step)
        curvature = _linalg.form(run.hess, step)
        verdict = _iterate.judge(
            (point.value, point.residual),
            (trial.value, trial.residual),
            -jnp.sum(point.grad * step) - curvature / 2,
            run.damping,
            trial.noise,
        )
        held = _linalg.form(hess, step) >= _iterate.CURVATURE_HELD * curvature
        # Far out the loss is a polyhedron, on which Newton's method zigzags: not a place to start.
        wild = (trial.reach > FAR) & (trial.residual > jnp.sqrt(tol)) & (run.trials == before)
        # The barrier keeps the compiler from computing the verdict anew for every field.
        accept = jax.lax.optimization_barrier(verdict.accept & ~wild)
        point, hess = _where(accept, (trial, hess), (point, run.hess))
        small = point.residual <= tol
        following, whole = _iterate.newton_step(hess, point.grad, verdict.damping)
        quasi = _linalg.when(
            _linalg.after(following, small & ~held & (reach > 0) & (drop >= -tail * reach)),
            functools.partial(_recedes, spec),
            never,
            (problem, point, step, tail),
        )
        passed = small & held
        done = verdict.stalled | (passed & run.passed) | quasi | (point.margin > 0)
        done |= point.residual == 0
        return _Run(
            point=point,
            hess=hess,
            whole=whole,
            step=following,
            damping=verdict.damping,
            # The start itself is no step.
            steps=run.steps + (accept & (run.trials > before)).astype(jnp.int32),
            trials=run.trials + 1,
            passed=passed,
            done=done,
            quasi=quasi,
        )

    nothing = jnp.zeros((start.size, start.size), start.dtype)
    run = _Run(
        point=_unseen_origin(problem, origin),
        hess=nothing,
        whole=_linalg.Factor(nothing, jnp.zeros_like(start), jnp.zeros_like(origin)),
        step=start,
        damping=jnp.full((), _iterate.LEAST_DAMPING, start.dtype),
        steps=before,
        trials=before,
        passed=never,
        done=never,
        quasi=never,
    )

    def unfinished(run: _Run) -> jax.Array:
        # A start that is refused leaves the origin unmeasured: one trial more than there are steps.
        unknown = jnp.isinf(run.point.residual).astype(jnp.int32)
        return ~run.done & (run.trials <= cap + unknown)

    run = jax.lax.while_loop(unfinished, advance, run)
    return _prove(spec, problem, run._replace(trials=jnp.minimum(run.trials, cap + 1)), tol)


def _value_at_origin(spec: Spec, problem: Problem) -> jax.Array:
    """J where theta is 0, which needs no pass over x."""
    rows = problem.rows
    each = jax.vmap(spec.loss)(_scored(rows, jnp.zeros_like(rows.weight)), rows.y)
    return jnp.sum(rows.weight * each)


def _unseen_origin(problem: Problem, value: jax.Array) -> _Point:
    """theta = 0 before anything but its objective is known; infinite: any other is better."""
    unknown = jnp.full((), jnp.inf, problem.spread.dtype)
    return _Point(
        theta=jnp.zeros_like(problem.spread),
        value=value,
        grad=jnp.zeros_like(problem.spread),
        residual=unknown,
        noise=unknown,
        margin=-unknown,
        curve=unknown,
        reach=unknown,
    )


def _prove(spec: Spec, problem: Problem, run: _Run, tol: jax.Array) -> _Outcome:
    """The certificate at the last point, and, of many optima, the one of least norm."""
    p, point = run.step.size, run.point
    separated = point.margin > 0
    # The loop's own factor will do if neither rounding nor damping can be felt in it.
    least = PIVOT_ULPS * p * jnp.finfo(run.hess.dtype).eps
    damped = run.damping * jnp.max(jnp.abs(point.grad), initial=0) * jnp.max(run.whole.scale**2)
    sound = run.whole.pivot >= least + PIVOT_ULPS * damped
    proof = _linalg.when(
        ~sound & ~separated & (point.residual <= tol),
        functools.partial(_prove_on_range, least=least),
        _Proof(
            whole=run.whole,
            decrement=jnp.sqrt(jnp.maximum(-jnp.sum(point.grad * run.step), 0)),
            sound=sound,
            excess=jnp.zeros_like(point.theta),
            noise=jnp.zeros_like(point.noise),
            deficient=jnp.bool_(False),
        ),
        (problem, point, run.hess),
    )
    leverage = _leverage(problem, _linalg.after(proof.excess, proof.whole))
    certified = (proof.decrement * leverage <= CERTIFICATE) & proof.sound
    point = point._replace(theta=point.theta - proof.excess, noise=point.noise + proof.noise)
    deficient = proof.deficient | jnp.any(problem.idle)
    return _Outcome(
        point=point,
        steps=run.steps,
        trials=run.trials - 1,
        certified=certified,
        deficient=deficient,
        separated=separated,
        quasi=run.quasi,
    )


class _Proof(NamedTuple):
    """What the certificate needs: a factor of the Hessian on the range of the columns.

    whole, decrement, sound: the factor, sqrt(g' H^-1 g), and whether they are more than rounding
    excess, noise: the part of theta that no row sees, and what leaving it adds to the noise
    deficient: whether there are directions that no row sees
    """

    whole: _linalg.Factor
    decrement: jax.Array
    sound: jax.Array
    excess: jax.Array
    noise: jax.Array
    deficient: jax.Array


def _prove_on_range(problem: Problem, point: _Point, hess: jax.Array, *, least) -> _Proof:
    """The proof where the Hessian is nearly singular: curvature is lent to what no row sees."""
    p, d = point.theta.size, problem.centre.size
    null = _null_space(problem)
    size = jnp.sum(null * null, axis=0)
    lifted = null * jnp.sqrt(jnp.trace(hess) / p / jnp.where(size > 0, size, 1))[None, :]
    whole = _linalg.factor(hess + dot(lifted, lifted.T))
    decrement = jnp.linalg.norm(_linalg.half_solve(whole, point.grad))
    excess = _least_norm_excess(problem, point.theta, _linalg.after(decrement, null))
    moved = jnp.linalg.norm(excess[:d] / jnp.where(problem.unit[:d] > 0, problem.unit[:d], 1))
    eps = jnp.finfo(hess.dtype).eps
    return _Proof(
        whole=whole,
        decrement=decrement,
        sound=whole.pivot >= least,
        excess=excess,
        # What no row sees beyond rounding changes the scores by rounding.
        noise=ROUNDING_ULPS * d * eps * moved * point.curve,
        deficient=jnp.any(size > 0),
    )


def _recedes(spec, problem, point, step, tail) -> jax.Array:
    """Whether `step`, cleaned, is a direction along which J falls for ever, some rows on its plane.

    The rows whose score along it is within `tail` of the sum of its terms' sizes are put on the
    plane exactly: the direction is projected on their null space. Then no row may oppose it, and
    the rows on the plane must balance by themselves, in proportion to their own pull: if they do
    not, they are still being separated.
    """
    step = jnp.where(problem.free, step, 0)
    eps = jnp.finfo(step.dtype).eps

    def along(block, *directions):
        """Scores along directions and the sums of their terms' sizes, and the columns."""
        z = jnp.where(problem.free[None, :], _frame.columns(problem, block), 0)
        z = z * problem.spread[None, :]
        terms = z[None, :, :] * jnp.stack(directions)[:, None, :]
        return z, jnp.sum(jnp.concatenate([terms, jnp.abs(terms)]), axis=2)

    def on_plane(block):
        z, (score, size) = along(block, step)
        near = (block.weight > 0) & (jnp.abs(score) <= tail * size)
        scores = dot(_frame.columns(problem, block), point.theta * problem.spread)
        pull = jnp.where(near, _per_row(spec, block, _scored(block, scores))[0], 0)
        square = jnp.where(near, jnp.sum(z * z, axis=1), 1)
        unit = jnp.where(near[:, None], z, 0) / jnp.sqrt(jnp.where(square > 0, square, 1))[:, None]
        pulls = pull[:, None] * z
        sums = jnp.sum(jnp.stack([pulls, jnp.abs(pulls)]), axis=1)
        return (dot(unit.T, unit), sums), jnp.max(near.astype(z.dtype))

    (square, (force, size)), some = _rows.fold(on_plane, problem.rows)
    held = jnp.where(problem.free, 0, 1).astype(step.dtype)
    values, vectors = _linalg.eigh(square + jnp.diag(held))
    null = jnp.where(values <= ROUNDING_ULPS * step.size * eps * jnp.max(values, initial=0), 1, 0)
    cleaned = dot(vectors, null * dot(vectors.T, step))

    def opposition(block):
        _, (score, cleaned_score, size, cleaned_size) = along(block, step, cleaned)
        slack = tail * size
        agreed = spec.margins(cleaned_score, block.y)
        rounding = ROUNDING_ULPS * step.size * eps * cleaned_size
        far = jnp.abs(score) > slack
        worst = jnp.where(far, slack / 2 - agreed, jnp.abs(agreed) - rounding)
        return (), jnp.max(jnp.where(block.weight > 0, worst, -jnp.inf))

    _, worst = _rows.fold(opposition, problem.rows)
    balanced = jnp.max(jnp.abs(force), initial=0) <= BALANCE * jnp.max(size, initial=0)
    return (worst <= 0) & balanced & (some > 0)


def _where(condition: jax.Array, this: Any, that: Any) -> Any:
    return jax.tree.map(functools.partial(jnp.where, condition), this, that)


def _leverage(problem: Problem, whole: _linalg.Factor) -> jax.Array:
    """max_i |x_i|_{H^-1} over the rows with weight, x_i with the column of ones."""

    def maxima(block):
        z = _frame.columns(problem, block) * problem.spread[None, :]
        square = jnp.sum(_linalg.half_solve(whole, z.T) ** 2, axis=0)
        return (), jnp.max(jnp.where(block.weight > 0, square, 0))

    _, largest = _rows.fold(maxima, problem.rows)
    return jnp.sqrt(largest)


def _null_space(problem: Problem) -> jax.Array:
    """Directions of theta that no row and no penalty sees, as columns `(p, d)`, the others 0.

    Small eigenvalues of X'X only nominate a direction, because X'X has the square of the data's
    condition. It is then cleaned of the other directions by a product with the data themselves,
    and kept if no row sees more of it than its own rounding.
    """
    d = problem.centre.size
    eps = jnp.finfo(problem.centre.dtype).eps
    unit, spread, shift = problem.unit[:d], problem.spread[:d], problem.shift[:d]
    held = jnp.where((spread > 0) & (problem.penalty[:d] == 0), 0, 1).astype(unit.dtype)

    def scatter(block):
        z = _frame.standard(problem, block)
        return dot((z * block.weight[:, None]).T, z), ()

    square, _ = _rows.fold(scatter, problem.rows)
    values, vectors = _linalg.eigh(square + jnp.diag(held))
    small = values <= ROUNDING_ULPS * d * eps * jnp.max(values, initial=0)
    null = jnp.where(small[None, :], vectors, 0)

    def seen(block):
        z = _frame.standard(problem, block)
        return dot((z * block.weight[:, None]).T, dot(z, null)), ()

    image, _ = _rows.fold(seen, problem.rows)
    inverse = jnp.where(small, 0, 1 / jnp.where(small, 1, values))
    cleaned = dot(vectors.T, image + held[:, None] * null)
    null = null - dot(vectors, inverse[:, None] * cleaned)

    def excess(block):
        z = _frame.standard(problem, block)
        raw = jnp.abs(block.x) * (problem.scale * spread * unit)[None, :]
        # Each entry of `null` is itself rounded with the largest of its column.
        size = jnp.sum(raw + jnp.abs(z), axis=1)[:, None]
        bound = ROUNDING_ULPS * d * eps * size * jnp.max(jnp.abs(null), axis=0, initial=0)[None, :]
        over = jnp.where((block.weight > 0)[:, None], jnp.abs(dot(z, null)) - bound, 0)
        return (), jnp.max(over, axis=0)

    _, over = _rows.fold(excess, problem.rows)
    null = jnp.where((small & (over <= 0))[None, :], null, 0) * unit[:, None]
    last = -dot(shift, null)[None, :]
    return jnp.concatenate([null, last]) if problem.spread.size > d else null


def _least_norm_excess(problem: Problem, theta: jax.Array, null: jax.Array) -> jax.Array:
    """The part of theta whose weights, in the user's units, lie in the null space."""
    d = problem.centre.size
    factor = _frame.unscaled(problem)
    raw = null[:d] * factor[:, None]
    size = jnp.linalg.norm(raw, axis=0)
    size = jnp.where(size > 0, size, 1)
    raw = raw / size[None, :]
    gram = dot(raw.T, raw) + jnp.diag(jnp.where(jnp.any(raw != 0, axis=0), 0, 1).astype(raw.dtype))
    amount = _linalg.solve(_linalg.factor(gram), dot(raw.T, theta[:d] * factor))
    return dot(null, amount / size)


# --- other solvers -------------------------------------------------------------------------------


def _finish(spec, problem, start, tol, cap) -> _Outcome:
    """Run the solver, then prove its point; with a Hessian, if it takes one and one fits."""
    p = start.size
    solver = solvers.lbfgs if spec.solver is None else spec.solver
    dense = p <= DENSE_LIMIT
    theta, steps = _iterate.warm_up(
        solver,
        _objective(spec),
        start,
        (problem,),
        hessian=_hessian(spec),
        precondition=_first_curvature(spec, problem, start) if dense else None,
        tol=tol,
        max_steps=cap,
    )
    point = _light(spec, problem, theta)
    never = jnp.bool_(False)
    # A penalty on every weight leaves only the bias free, which two classes hold.
    coercive = ~jnp.any(problem.free[: problem.centre.size]) & ~jnp.any(problem.idle)
    outcome = _Outcome(point, steps, steps, coercive, never, point.margin > 0, never)
    if not dense:
        return outcome
    # Far out in the tail of separable data rounding hides the direction that Newton's method shows
    # on the way there; hence twice: from the solver's point, and if that proves nothing, from afar.
    starts, origin = jnp.stack([theta, start]), _value_at_origin(spec, problem)

    def attempt(carry):
        outcome, i = carry
        return _newton(spec, problem, starts[i], origin, tol, cap, outcome.trials), i + 1

    def more(carry):
        outcome, i = carry
        return _open(outcome, tol) & (outcome.trials < cap) & (i < 2)

    return jax.lax.while_loop(more, attempt, (outcome, jnp.int32(0)))[0]


def _open(outcome: _Outcome, tol: jax.Array) -> jax.Array:
    """Whether nothing is proved yet."""
    passed = outcome.certified & (outcome.point.residual <= tol)
    return ~(passed | outcome.separated | outcome.quasi) & jnp.isfinite(outcome.point.value)


def _first_curvature(spec: Spec, problem: Problem, theta: jax.Array) -> jax.Array:
    """The Hessian where every score is 0, whose curvature bounds the logistic loss's."""
    eps = jnp.finfo(theta.dtype).eps
    bare = problem._replace(rows=problem.rows._replace(offset=None))
    hess = _hessian(spec)(jnp.zeros_like(theta), bare)
    return hess + jnp.diag(jnp.sqrt(eps) * jnp.diagonal(hess) + jnp.finfo(theta.dtype).tiny)

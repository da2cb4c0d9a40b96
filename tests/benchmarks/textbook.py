"""Times jaxlin beside the dozen lines that a JAX user writes, and prints a Markdown table.

    python tests/benchmarks/textbook.py [x64] [NAME ...]     (parts of rows' names)

Both are compiled for the same arguments, the penalty among them. Compile: tracing, lowering and
XLA. Second call: medians of nine in turn. Gradient: the largest entry, in float64, of that of the
objective where each has ended. The textbook's programs say nothing of convergence, weights, bad
data or separable classes.
"""

import statistics
import sys
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.linalg import cho_factor, cho_solve

from jaxlin import lda, least_squares, logistic, losses, softmax

HEADER = (
    "program",
    "compile, s",
    "textbook's",
    "ratio",
    "second call, ms",
    "textbook's",
    "ratio",
    "gradient",
    "textbook's",
)
REPEATS, MOST_STEPS = 9, 500


# --- the textbook's ------------------------------------------------------------------------------


def beside_ones(x):
    return jnp.concatenate([x, jnp.ones((len(x), 1), x.dtype)], axis=1)


def by_newton(x, y, l2, weight=None):
    """Logistic regression by Newton's method."""
    z, penalty = beside_ones(x), l2 * jnp.append(jnp.ones(x.shape[1], x.dtype), 0)
    weight = jnp.ones(len(x), x.dtype) if weight is None else weight
    weight, tol = weight / jnp.sum(weight), 1e3 * float(jnp.finfo(x.dtype).eps) ** 0.75

    def step(carry):
        theta, _, i = carry
        p = jax.nn.sigmoid(z @ theta)
        grad = z.T @ (weight * (p - y)) + penalty * theta
        hess = (z.T * (weight * p * (1 - p))) @ z + jnp.diag(penalty)
        return theta - cho_solve(cho_factor(hess), grad), jnp.max(jnp.abs(grad)), i + 1

    def more(carry):
        return (carry[1] > tol) & (carry[2] < MOST_STEPS)

    start = jnp.zeros(z.shape[1], x.dtype), jnp.asarray(jnp.inf, x.dtype), 0
    theta, _, _ = jax.lax.while_loop(more, step, start)
    return theta[:-1], theta[-1]


def by_lbfgs(x, y, l2, k):
    """Softmax regression by optax's L-BFGS."""
    z, tol = beside_ones(x), 10 * float(jnp.finfo(x.dtype).eps) ** 0.5

    def objective(theta):
        loss = optax.softmax_cross_entropy_with_integer_labels(z @ theta.T, y)
        return jnp.mean(loss) + l2 / 2 * jnp.sum(theta[:, :-1] ** 2)

    method = optax.lbfgs()
    value_and_grad = optax.value_and_grad_from_state(objective)

    def step(carry):
        theta, state, _, i = carry
        value, grad = value_and_grad(theta, state=state)
        update, state = method.update(
            grad, state, theta, value=value, grad=grad, value_fn=objective
        )
        return optax.apply_updates(theta, update), state, jnp.max(jnp.abs(grad)), i + 1

    def more(carry):
        return (carry[2] > tol) & (carry[3] < MOST_STEPS)

    theta = jnp.zeros((k, z.shape[1]), x.dtype)
    start = theta, method.init(theta), jnp.asarray(jnp.inf, x.dtype), 0
    theta, *_ = jax.lax.while_loop(more, step, start)
    return theta[:, :-1], theta[:, -1]


def by_moments(x, y, k):
    """Linear discriminants from the classes' means and their common covariance."""
    own = jax.nn.one_hot(y, k, dtype=x.dtype)
    count = jnp.sum(own, axis=0)
    means = own.T @ x / count[:, None]
    centred = x - own @ means
    weights = cho_solve(cho_factor(centred.T @ centred / len(x)), means.T).T
    return weights, jnp.log(count / len(x)) - jnp.sum(weights * means, axis=1) / 2


def by_ridge(x, y, l2, k):
    """Least squares of one column per class by the normal equations."""
    own = jax.nn.one_hot(y, k, dtype=x.dtype)
    centre, level = jnp.mean(x, axis=0), jnp.mean(own, axis=0)
    z = x - centre
    square = z.T @ z / len(x) + l2 * jnp.eye(x.shape[1], dtype=x.dtype)
    weights = cho_solve(cho_factor(square), z.T @ (own - level) / len(x)).T
    return weights, level - weights @ centre


# --- the rows ------------------------------------------------------------------------------------


def drawn(rng, *shape, k=2, size=None):
    """x, and y of logits of about this `size` in each column."""
    x = rng.normal(size=shape)
    size = 1 / np.sqrt(shape[-1]) if size is None else size
    scores = x @ (size * rng.normal(size=(shape[-1], k)))
    y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=-1)
    return jnp.asarray(x, float), jnp.asarray(y, jnp.int32)


def rows():
    """`(name, ours, the textbook's, arguments, the loss that both minimise or None)`."""
    rng = np.random.default_rng(0)

    def ours(x, y, l2, weight=None):
        return tuple(logistic.fit(x, y, l2=l2, sample_weight=weight)[0])

    def loss_after(x, y, l2):
        return losses.objective(losses.logistic, logistic.fit(x, y, l2=l2)[0], x, y)

    little, l2 = jnp.asarray(1e-3, float), jnp.asarray(1e-2, float)
    for n, d in ((300, 10), (50_000, 50), (200_000, 100)):
        data = drawn(rng, n, d)
        yield f"logistic {n:,} x {d}", ours, by_newton, (*data, little), losses.logistic
    for lanes, n, d in ((10_000, 100, 10), (1_000, 200, 50)):
        both = (jax.vmap(f, (0, 0, None)) for f in (ours, by_newton))
        yield f"logistic, {lanes:,} of {n} x {d}", *both, (*drawn(rng, lanes, n, d), l2), None
    weights = rng.multinomial(500, np.ones(500) / 500, size=10_000)
    both = (jax.vmap(f, (None, None, None, 0)) for f in (ours, by_newton))
    given = (*drawn(rng, 500, 10), l2, jnp.asarray(weights, float))
    yield "logistic, 10,000 bootstraps of 500 x 10", *both, given, None
    slope = jax.grad(loss_after, argnums=2)
    yield "slope in l2, logistic 500 x 10", slope, by_newton, (*drawn(rng, 500, 10), little), None
    for n, d, k, size in ((300, 10, 3, 0.3), (100_000, 60, 8, 1.0), (100_000, 60, 8, 0.26)):
        fit, other = partial(softmax.fit, num_classes=k), partial(by_lbfgs, k=k)
        name = f"softmax {n:,} x {d}, k = {k}, weights of {size}"
        given = (*drawn(rng, n, d, k=k, size=size), jnp.asarray(1e-4, float))
        yield name, lambda x, y, l2, f=fit: tuple(f(x, y, l2=l2)[0]), other, given, losses.softmax
    for n, d, k in ((300, 10, 3), (100_000, 50, 5)):
        x, y = drawn(rng, n, d, k=k)
        bayes = partial(lda.fit, num_classes=k), partial(by_moments, k=k)
        yield f"lda {n:,} x {d}", *bayes, (x, y), None
        fit, other = partial(least_squares.fit, num_classes=k), partial(by_ridge, k=k)
        ridge = lambda x, y, l2, f=fit: f(x, y, l2=l2)[0]  # noqa: E731
        yield f"least squares {n:,} x {d}", ridge, other, (x, y, little), None
    lanes = drawn(rng, 10_000, 100, 10, k=3)
    both = (jax.vmap(f) for f in (partial(lda.fit, num_classes=3), partial(by_moments, k=3)))
    yield "lda, 10,000 of 100 x 10", *both, lanes, None


def gradient(params, loss, x, y, l2) -> float:
    """The largest entry of that of the objective, on the host in float64."""
    weights, bias = (np.asarray(a, np.float64) for a in params)
    x, y = np.asarray(x, np.float64), np.asarray(y)
    scores = x @ weights.T + bias
    if loss is losses.logistic:
        left = 1 / (1 + np.exp(-scores)) - y
    else:
        left = np.exp(scores - scores.max(1, keepdims=True))
        left = left / left.sum(1, keepdims=True) - np.eye(len(bias))[y]
    slope = left.T @ x / len(x) + float(l2) * weights
    return max(np.abs(slope).max(), np.abs(left.mean(0)).max())


def measured(ours, textbook, given, loss) -> tuple[str, ...]:
    seconds, programs = [], []
    for f in (ours, textbook):
        start = time.perf_counter()
        programs.append(jax.jit(f).lower(*given).compile())
        seconds.append(time.perf_counter() - start)
    times, found = ([], []), [None, None]
    for turn in range(REPEATS + 1):
        for i, program in enumerate(programs):
            start = time.perf_counter()
            found[i] = jax.block_until_ready(program(*given))
            if turn:  # the first warms up
                times[i].append(1e3 * (time.perf_counter() - start))
    a, b = map(statistics.median, times)
    ends = ["-" if loss is None else f"{gradient(f, loss, *given):.0e}" for f in found]
    ratios = f"{seconds[0] / seconds[1]:.1f}", f"{b / a:.2f}"
    return (
        *(f"{s:.2f}" for s in seconds),
        ratios[0],
        *(f"{t:.2f}" for t in (a, b)),
        ratios[1],
        *ends,
    )


def main(words: list[str]) -> None:
    jax.config.update("jax_enable_x64", "x64" in words)
    words = [word for word in words if word != "x64"]
    jax.block_until_ready(jax.jit(lambda a: a @ a.T)(jnp.ones((3, 3))))
    print("| " + " | ".join(HEADER) + " |")
    print("|" + " --- |" * len(HEADER))
    for name, *work in rows():
        if not words or any(word in name for word in words):
            print("| " + " | ".join((name, *measured(*work))) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

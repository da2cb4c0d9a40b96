"""No two LAPACK calls of a compiled program run beside each other.

Batched, two that do not wait for each other can lock up the CPU runtime of jax 0.10: see
`jaxlin._linalg.after`. Whether they do is a matter of luck, so the compiled program is read: of any
two instructions that call LAPACK one must depend on the other.
"""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlin import (
    _lanes,
    _linalg,
    _platform,
    fisher,
    lda,
    logistic,
    losses,
    metrics,
    qda,
    resample,
    softmax,
    svm,
)

pytestmark = pytest.mark.cpu

COMPUTATION = re.compile(r"(?:ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{$")
INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?([\w.\-]+) = (.*)$")
# What an instruction runs: a loop's body, a branch, a function.
RUNS = re.compile(r"(?:to_apply|body|condition|calls|\w+_computation)=%?([\w.\-]+)")
BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")

LANES, N = 7, 40
# Of more columns triangles are inverted by LAPACK too.
COLUMNS = (4, _linalg.FEW_SIDES + 2)


def computations(text: str) -> dict[str, dict[str, str]]:
    """Per computation of a program its instructions, by name."""
    found: dict[str, dict[str, str]] = {}
    body: dict[str, str] = {}
    for line in text.splitlines():
        if head := COMPUTATION.match(line):
            body = found.setdefault(head.group(1), {})
        elif instruction := INSTRUCTION.match(line):
            body[instruction.group(1)] = instruction.group(2)
    return found


def beside_each_other(text: str) -> tuple[int, list[tuple[str, str]]]:
    """How many instructions call LAPACK, and the pairs of which neither waits for the other."""
    program = computations(text)
    known: dict[str, bool] = {}

    def calls(instruction: str) -> bool:
        if 'custom_call_target="lapack_' in instruction:
            return True
        names = RUNS.findall(instruction)
        for branches in BRANCHES.findall(instruction):
            names += [name.strip(" %") for name in branches.split(",")]
        return any(holds(name) for name in names)

    def holds(name: str) -> bool:
        if name not in known:
            known[name] = any(map(calls, program.get(name, {}).values()))
        return known[name]

    count, pairs = 0, []
    for body in program.values():
        mine = [name for name, instruction in body.items() if calls(instruction)]
        count += len(mine)
        for i, name in enumerate(mine):
            before = _needed(body, name)
            pairs += [
                (a, name) for a in mine[:i] if a not in before and name not in _needed(body, a)
            ]
    return count, pairs


def _needed(body: dict[str, str], name: str) -> set[str]:
    """All that an instruction waits for."""
    found: set[str] = set()
    left = [name]
    while left:
        for operand in re.findall(r"%([\w.\-]+)", body[left.pop()]):
            if operand in body and operand not in found:
                found.add(operand)
                left.append(operand)
    return found


def _data(d):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(LANES, N, d)).astype(np.float32)
    return jnp.asarray(x), jnp.asarray(rng.integers(0, 2, (LANES, N)))


FITS = {
    "lda": partial(lda.fit, num_classes=2),
    "qda": partial(qda.fit, num_classes=2),
    "fisher": fisher.fit,
    "logistic": logistic.fit,
    "firth": logistic.fit_firth,
    "softmax": partial(softmax.fit, num_classes=2),
    "hard margin": svm.fit_hard_margin,
    "squared hinge": partial(svm.fit, l2=0.1, loss=losses.squared_hinge),
}


@pytest.mark.parametrize("d", COLUMNS)
@pytest.mark.parametrize("name", FITS)
def test_lanes_of_a_fit(name, d):
    _check(jax.vmap(FITS[name]), *_data(d))


# Of the rest, Firth's derivatives have calls beside each other.
DERIVED = ("lda", "qda", "fisher", "logistic", "softmax", "squared hinge")


@pytest.mark.parametrize("d", COLUMNS)
@pytest.mark.parametrize("name", DERIVED)
def test_lanes_of_a_derivative(name, d):
    def size(x, y):
        return sum(jnp.sum(a**2) for a in jax.tree.leaves(FITS[name](x, y)[0]))

    _check(jax.vmap(jax.grad(size)), *_data(d))


def test_lanes_of_a_derivative_in_the_penalty_where_rows_are_few():
    """Whether a penalty is 0, and the fit by features, is not known when it is traced."""

    def weights(l2, x, y):
        return jax.vmap(lambda x, y: logistic.fit(x, y, l2=l2)[0].weights)(x, y)

    x, y = _data(300)
    _check(jax.jacrev(weights), jnp.float32(0.1), x[:, :6], y[:, :6])


# By features, by rows, and a closed form.
CHUNKED = {
    "logistic": (FITS["logistic"], COLUMNS[0]),
    "logistic, by rows": (partial(logistic.fit, l2=0.1), 300),
    "lda": (FITS["lda"], COLUMNS[0]),
}


@pytest.mark.parametrize("name", CHUNKED)
def test_lanes_in_chunks_that_do_not_divide_them(name, monkeypatch):
    fit, d = CHUNKED[name]
    x, y = _data(d)
    jax.clear_caches()
    monkeypatch.setattr(_lanes, "OWN_BYTES", 4 * N * d * x.dtype.itemsize)
    monkeypatch.setattr(_platform, "on_one_cpu", lambda: True)
    assert f"[4,{N},{d}]" in str(jax.make_jaxpr(jax.vmap(fit))(x, y))
    _check(jax.vmap(fit), x, y)
    jax.clear_caches()


def _permutations(x, y):
    key = jax.random.key(0)
    folds = resample.kfold(key, N, folds=5)
    test = partial(resample.permutation_test, key, lda.fit, metrics.accuracy)
    return test(x, y, folds, draws=20, num_classes=2)


def _selected(x, y):
    folds = resample.kfold(jax.random.key(0), N, folds=5)
    penalties = jnp.asarray([0.1, 0.01])
    return resample.select(logistic.fit, metrics.accuracy, x, y, folds, l2=penalties)


@pytest.mark.parametrize("function", [_permutations, _selected])
def test_functions_of_fits(function):
    x, y = _data(COLUMNS[0])
    _check(function, x[0], y[0])


def _check(function, *arguments):
    count, pairs = beside_each_other(jax.jit(function).lower(*arguments).compile().as_text())
    assert count > 1
    assert not pairs


def test_calls_beside_each_other_are_seen():
    def both(a):
        return jnp.linalg.cholesky(a), jnp.linalg.eigh(a)[0]

    a = jnp.broadcast_to(jnp.eye(3), (LANES, 3, 3))
    text = jax.jit(jax.vmap(both)).lower(a).compile().as_text()
    assert len(beside_each_other(text)[1]) == 1

"""The stored answers, and the oracle that made them.

`answers.json` has of every set the estimates, their standard errors and the loss to 25 digits, a
list a class, the bias last. "condition" is that of the Hessian in the coefficients, bias included,
scaled to a diagonal of ones: of X'DX for columns of unit length. "float32" are the estimates for
the same data rounded to float32, which are other data, and what a fit in float32 is held to; absent
where rounding changes nothing.
"""

import functools
import json
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mpmath import mp

from tests.reference import oracle
from tests.reference.catalogue import PROBLEMS
from tests.reference.sets import Data, Problem

FILE = Path(__file__).parent / "answers.json"
STORED_DIGITS = 25


class Stored(NamedTuple):
    """As in the file, as numbers of mpmath.

    coefficients, errors: a list a class
    loss: see `oracle.Answer`
    condition: a float
    float32: coefficients for the data in float32
    """

    coefficients: list
    errors: list
    loss: Any
    condition: float
    float32: list


@functools.cache
def data_of(name: str) -> Data:
    return PROBLEMS[name].load()


def rounded(data: Data) -> Data:
    """The data as float32 holds them. Counts are small integers, or weights of regressions."""

    def single(rows):
        return [[Fraction(float(np.float32(float(v)))) for v in row] for row in rows]

    return data._replace(
        x=single(data.x),
        counts=single(data.counts),
        target=single([data.target])[0] if data.target else None,
        offset=single([data.offset])[0] if data.offset else None,
    )


def compute(problem: Problem, data: Data, start: list | None = None) -> oracle.Answer:
    """By the oracle alone."""
    if problem.fit == "regress":
        weight = [row[0] for row in data.counts]
        return oracle.least_squares(data.x, data.target, weight, bias=problem.bias)
    if problem.fit == "firth":
        return oracle.firth(data.x, data.counts, start=start)
    return oracle.multinomial(
        data.x,
        data.counts,
        l2=problem.l2,
        offset=data.offset,
        bias=problem.bias,
        reference=problem.reference,
        half=problem.fit == "logistic",
        start=start,
    )


def texts(value: Any) -> Any:
    """Numbers to as many digits as are stored, in lists as they are."""
    if isinstance(value, list):
        return [texts(v) for v in value]
    return mp.nstr(value, STORED_DIGITS, strip_zeros=True)


@functools.cache
def file() -> dict:
    return json.loads(FILE.read_text()) if FILE.exists() else {}


@functools.cache
def stored(name: str) -> Stored:
    entry = file()[name]
    with mp.workdps(oracle.DIGITS):
        return Stored(
            coefficients=_numbers(entry["coefficients"]),
            errors=_numbers(entry["errors"]),
            loss=mp.mpf(entry["loss"]),
            condition=float(entry["condition"]),
            float32=_numbers(entry.get("float32", entry["coefficients"])),
        )


def entry_of(name: str) -> dict:
    """What the oracle says now, from the stored answer if there is one, else from 0."""
    problem, data = PROBLEMS[name], data_of(name)
    known = file().get(name)
    start = None
    if known and problem.fit != "regress":
        start = [[float(v) for v in row] for row in known["coefficients"]]
    answer = compute(problem, data, start)
    entry = {
        "coefficients": texts(answer.coefficients),
        "errors": texts(answer.errors),
        "loss": texts(answer.loss),
        "condition": f"{condition(answer.hessian):.3g}",
    }
    narrow = rounded(data)
    if narrow != data:
        entry["float32"] = texts(compute(problem, narrow, answer.coefficients).coefficients)
    return entry


def condition(hessian: list) -> float:
    """Of a Hessian scaled to a diagonal of ones."""
    h = np.array([[float(v) for v in row] for row in hessian])
    scale = 1 / np.sqrt(np.diag(h))
    return float(np.linalg.cond(h * scale[:, None] * scale[None, :]))


def store(names: list[str]) -> None:
    """Write what the oracle says of these sets."""
    entries = {**file(), **{name: entry_of(name) for name in names}}
    ordered = {name: entries[name] for name in PROBLEMS if name in entries}
    FILE.write_text(json.dumps(ordered, indent=1) + "\n")


def _numbers(rows: list) -> list:
    return [[mp.mpf(v) for v in row] for row in rows]

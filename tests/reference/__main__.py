"""`python -m tests.reference`: how many digits each solver finds, in some minutes of compiling.

`python -m tests.reference --oracle` reruns the oracle and says whether the stored answers hold.
"""

import argparse
import time

import jax
import numpy as np

from jaxlin import solvers
from jaxlin.types import Status
from tests.reference import answers, fits, oracle, published
from tests.reference.catalogue import PROBLEMS

SOLVERS = {"default": None, "newton": solvers.newton, "lbfgs": solvers.lbfgs}
DTYPES = (np.float64, np.float32)
ITERATED = ("logistic", "softmax")  # the fits that a solver can be given to
LEGEND = """\
LRE: log relative error, -log10 of the largest relative error of a coefficient, at most 16, with the
status where it is not CONVERGED; of float32 against the answer for the data rounded to float32.
cond: of the Hessian in the coefficients, bias included, scaled to a diagonal of ones (X'DX for
columns of unit length). published: digits of the estimates that are right, of those that were
printed.
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.reference", description=__doc__)
    parser.add_argument("names", nargs="*", help="sets; all by default")
    parser.add_argument("--oracle", action="store_true", help="rerun the oracle")
    parser.add_argument("--store", action="store_true", help="rerun it and store what it says")
    options = parser.parse_args()
    unknown = set(options.names) - set(PROBLEMS)
    if unknown:
        parser.error(f"no such set: {', '.join(sorted(unknown))}; there are {', '.join(PROBLEMS)}")
    names = options.names or list(PROBLEMS)
    jax.config.update("jax_enable_x64", True)
    if options.store:
        answers.store(names)
    elif options.oracle:
        raise SystemExit(not rerun(names))
    else:
        digits(names)


def rerun(names: list[str]) -> bool:
    """Print of each set whether the oracle still says what is stored."""
    holding = []
    for name in names:
        start = time.perf_counter()
        holds = answers.entry_of(name) == answers.file()[name]
        said = f"holds to {answers.STORED_DIGITS} digits" if holds else "IS ANOTHER"
        print(f"{name:25} {said} ({time.perf_counter() - start:.1f} s)", flush=True)
        holding.append(holds)
    return all(holding)


def digits(names: list[str]) -> None:
    """Print the table."""
    print(LEGEND)
    kinds = [f"{solver} {np.dtype(dtype).name}" for dtype in DTYPES for solver in SOLVERS]
    print(f"{'set':25}{'fit':10}{'cond':>8}{'published':>11}", *(f"{k:>20}" for k in kinds))
    for name in names:
        answer = answers.stored(name)
        right, printed = published.tally(name, answer.coefficients)
        told = f"{right}/{printed}" if printed else "-"
        cells = [cell(name, solver, dtype) for dtype in DTYPES for solver in SOLVERS.values()]
        start = f"{name:25}{PROBLEMS[name].fit:10}{answer.condition:>8.1e}{told:>11}"
        print(start, *(f"{c:>20}" for c in cells), flush=True)


def cell(name: str, solver, dtype) -> str:
    if solver is not None and PROBLEMS[name].fit not in ITERATED:
        return ""
    fitted = fits.fit(name, dtype, solver)
    answer = answers.stored(name)
    exact = answer.coefficients if dtype == np.float64 else answer.float32
    status = Status(int(fitted.info.status))
    said = "" if status == Status.CONVERGED else f" {status.name}"
    return f"{oracle.digits(fitted.coefficients, exact):.1f}{said}"


if __name__ == "__main__":
    main()

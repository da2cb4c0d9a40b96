"""Times jaxlin against its peers on the same arrays, in one process, and prints a Markdown table.

    python tests/benchmarks/run.py [NAME ...]      (--list shows the names; --repeats N)

First call: trace, compile and run, with no compiled program kept. Second call and peers: medians
of alternating runs, each right after a tenth of a second of the same where one takes less than a
second; but a peer three times slower than another, or of over a minute, runs once. A peer counts if
it comes as near to the optimum as the workload asks, and is run at the loosest of its tolerances
that does, with all BLAS threads and with one, which on few cores can be ten times as quick.
`excess` is the objective less the best that anyone found, in float64; `LRE` the number of digits in
which the coefficients, taken together, agree with a float64 reference. `floor` is the time over
that of the one product that the method cannot avoid.
"""

import argparse
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
import workloads
from threadpoolctl import ThreadpoolController
from workloads import Run, Workload

# Seconds before each run: the threads of the library before spin for a while after their work.
# Threads that have slept for so long may all wake up on one core, and stay there for some 30 ms. So
# a run shorter than the second number is timed right after others of the same, as in a loop of it,
# that are not timed and together take at least the third.
PAUSE, BRIEF, WARM = 0.2, 1.0, 0.1
# A peer this many times slower than another, or of so many seconds, is run once.
HOPELESS, LONG = 3, 60

# Of the libraries that are loaded by now; XLA's own threads are none of them.
THREADS = ThreadpoolController()
SINGLE = ", one thread"

HEADER = (
    "workload",
    "precision",
    "first call, s",
    "second call, ms",
    "best peer",
    "its ms",
    "ratio",
    "residual",
    "excess",
    "LRE",
    "floor",
)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="parts of workloads' names")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--repeats", type=int, default=7, help="runs of each, at least 5")
    parser.add_argument("--verbose", action="store_true", help="also print every peer")
    options = parser.parse_args(argv)
    chosen = [
        name
        for name in workloads.ALL
        if not options.names or any(part in name for part in options.names)
    ]
    if not chosen:
        parser.error(f"no workload is named like {options.names}; --list shows them")
    if options.list:
        print("\n".join(chosen))
        return 0
    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")  # peers warn of what the table shows
    print("| " + " | ".join(HEADER) + " |")
    print("|" + " --- |" * len(HEADER))
    for name in chosen:
        for dtype in (np.float32, np.float64):
            jax.clear_caches()
            row = measure(workloads.ALL[name](dtype), max(5, options.repeats), options.verbose)
            print("| " + " | ".join((name, dtype.__name__, *row)) + " |", flush=True)
    return 0


def measure(work: Workload, repeats: int, verbose: bool) -> tuple[str, ...]:
    jax.clear_caches()  # the reference may have called the same programs
    first, found = clock(work.ours)
    tried = {
        name + threads: loosest(work, runs, threads)
        for name, runs in work.peers.items()
        for threads in ("", SINGLE)
    }
    peers = {name: each for name, each in tried.items() if each is not None}
    timed: dict[str, Run] = {"": work.ours, **{name: each.run for name, each in peers.items()}}
    if work.floor is not None:
        timed[" floor"] = work.floor
    long = {name: each.seconds for name, each in peers.items() if each.seconds > LONG}
    times = {name: [long.get(name) or clock(run, name)[0]] for name, run in timed.items()}
    fastest = min([times[name][0] for name in peers], default=0)
    for _ in range(repeats - 1):
        for name, run in timed.items():
            slow = name in long or times[name][0] > HOPELESS * fastest
            if name not in peers or not slow:
                times[name].append(clock(run, name, warm=times[name][0] < BRIEF)[0])
    medians = {name: statistics.median(each) for name, each in times.items()}
    best = min(peers, key=medians.__getitem__) if peers else None
    if verbose:
        for name in peers:
            print(f"    {name}: {1e3 * medians[name]:.1f} ms", file=sys.stderr)
    ours = medians[""]
    found = work.unfold(found)
    objectives = [work.objective(each.found) for each in peers.values()]
    least = min([work.objective(found), *objectives, work.objective(work.reference)])
    return (
        f"{first:.2f}",
        f"{1e3 * ours:.1f}",
        best or "none is as near",
        f"{1e3 * medians[best]:.1f}" if best else "-",
        f"{medians[best] / ours:.1f}" if best else "-",
        number(work.residual(found)),
        number(work.objective(found) - least),
        digits(found, work.reference),
        f"{ours / medians[' floor']:.2f}" if work.floor else "-",
    )


class Peer(NamedTuple):
    """A run, how long it took, and the coefficients that it found."""

    run: Run
    seconds: float
    found: np.ndarray


def loosest(work: Workload, runs: tuple[Run, ...], threads: str) -> Peer | None:
    """The first of a peer's runs, from loose to tight, that is near enough to the optimum."""
    for run in runs:
        seconds, found = clock(run, threads)
        found = work.unfold(found)
        residual = work.residual(found)
        if math.isnan(residual) or residual <= work.near:
            return Peer(run, seconds, found)
    return None


def clock(run: Callable[[], object], name: str = "", warm: bool = False) -> tuple[float, object]:
    time.sleep(PAUSE)
    with THREADS.limit(limits=1 if name.endswith(SINGLE) else None):
        until = time.perf_counter() + WARM
        while warm and time.perf_counter() < until:
            jax.block_until_ready(run())
        start = time.perf_counter()
        found = jax.block_until_ready(run())
        return time.perf_counter() - start, found


def number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.0e}"


def digits(found: np.ndarray, reference: np.ndarray) -> str:
    error = np.max(np.abs(found - reference)) / np.max(np.abs(reference))
    return f"{-math.log10(max(error, np.finfo(float).eps)):.1f}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

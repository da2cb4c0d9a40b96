"""A logistic fit over a file against the same fit in memory: wall time and anonymous memory.

    python tests/benchmarks/streaming.py [GIGABYTES] [FOLDER]
    python tests/benchmarks/streaming.py --probes [GIGABYTES] [FOLDER] [FEATURES]

The second is of `probes.sweep`, 24 concepts and 10 penalties, over a file of float16.

Each runs in a process of its own, twice: the first call compiles. Anonymous memory is sampled from
/proc, mapped pages of the file not counted. The file is read once before, so that it is in the page
cache if that has room.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

FEATURES = 50
CHUNK = 200_000
CONCEPTS, PENALTIES = 24, 10


def make(folder: str, gigabytes: float) -> tuple[str, str]:
    n = int(gigabytes * 1e9) // (4 * FEATURES) // CHUNK * CHUNK or CHUNK
    names = os.path.join(folder, "x.npy"), os.path.join(folder, "y.npy")
    x = np.lib.format.open_memmap(names[0], "w+", np.float32, (n, FEATURES))
    y = np.lib.format.open_memmap(names[1], "w+", np.int8, (n,))
    weights = np.random.default_rng(0).normal(size=FEATURES) / 7
    for at in range(0, n, CHUNK):
        rng = np.random.default_rng(at + 1)
        block = rng.standard_normal((CHUNK, FEATURES), np.float32)
        x[at : at + CHUNK] = block
        y[at : at + CHUNK] = block @ weights + rng.logistic(size=CHUNK) > 0
    return names


def make_probes(folder: str, gigabytes: float, d: int) -> tuple[str, str]:
    """Features of which few axes hold most, in half precision, and 24 columns of labels."""
    chunk = 10_000
    n = max(1, int(gigabytes * 1e9) // (2 * d) // chunk) * chunk
    names = os.path.join(folder, "x.npy"), os.path.join(folder, "y.npy")
    x = np.lib.format.open_memmap(names[0], "w+", np.float16, (n, d))
    y = np.lib.format.open_memmap(names[1], "w+", np.int8, (n, CONCEPTS))
    rng = np.random.default_rng(0)
    some = rng.standard_normal((64, d), np.float32)
    weights = rng.standard_normal((d, CONCEPTS), np.float32) / np.sqrt(64 * d)
    for at in range(0, n, chunk):
        block = rng.standard_normal((chunk, d), np.float32)
        block += rng.standard_normal((chunk, 64), np.float32) @ some
        x[at : at + chunk] = block
        y[at : at + chunk] = block @ weights + rng.logistic(size=(chunk, CONCEPTS)) > 0
    return names


def anonymous() -> float:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon")) / 1e3


def measured(way: str, x: str, y: str) -> None:
    import jax

    from jaxlin import logistic, probes, streaming

    peak, done = [anonymous()], threading.Event()

    def watch():
        while not done.wait(0.02):
            peak[0] = max(peak[0], anonymous())

    threading.Thread(target=watch, daemon=True).start()
    for call in ("first", "second"):
        began = time.perf_counter()
        if way == "stream":
            params, info = streaming.fit(logistic.fit, streaming.arrays(x, y), l2=1e-4)
        elif way == "probes":
            l2 = np.logspace(-4, 0, PENALTIES)
            params, info = probes.sweep(logistic.fit, x, y, l2=l2)
            info = jax.tree.map(lambda a: a.max(), info)
            params = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:])[0], params)
        else:
            whole = np.load(x), np.load(y)
            began = time.perf_counter()
            params, info = logistic.fit(*whole, l2=1e-4)
        jax.block_until_ready(params)
        seconds = time.perf_counter() - began
        print(
            f"| {way} | {call} | {seconds:.1f} s | {peak[0]:.0f} MB | {int(info.steps)} | "
            f"{int(info.status)} | {float(info.objective):.9f} | {float(params.weights[0]):.7f} |",
            flush=True,
        )
    done.set()


def main() -> None:
    given = sys.argv[1:]
    of_probes = given[:1] == ["--probes"]
    gigabytes, folder, d, *_ = [*given[of_probes:], *[None] * 3]
    size, d = float(gigabytes or 4), int(d or 2_048) if of_probes else FEATURES
    with tempfile.TemporaryDirectory(dir=folder) as place:
        x, y = make_probes(place, size, d) if of_probes else make(place, size)
        np.load(x, mmap_mode="r").max()
        held = np.load(x, mmap_mode="r")
        print(f"{os.path.getsize(x) / 1e9:.1f} GB, {held.dtype}, {held.shape[1]} features")
        print("| fit | call | wall | peak anonymous | steps | status | objective | weight 0 |")
        print("|---|---|---|---|---|---|---|---|", flush=True)
        for way in ("probes",) if of_probes else ("stream", "memory"):
            subprocess.run([sys.executable, __file__, "--measure", way, x, y], check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measured(*sys.argv[2:])
    else:
        main()

"""A logistic fit over a file against the same fit in memory: wall time and anonymous memory.

    python tests/benchmarks/streaming.py [GIGABYTES] [FOLDER]

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


def anonymous() -> float:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon")) / 1e3


def measured(way: str, x: str, y: str) -> None:
    import jax

    from jaxlin import logistic, streaming

    peak, done = [anonymous()], threading.Event()

    def watch():
        while not done.wait(0.02):
            peak[0] = max(peak[0], anonymous())

    threading.Thread(target=watch, daemon=True).start()
    for call in ("first", "second"):
        began = time.perf_counter()
        if way == "stream":
            params, info = streaming.fit(logistic.fit, streaming.arrays(x, y), l2=1e-4)
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
    gigabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 4.0
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as folder:
        x, y = make(folder, gigabytes)
        np.load(x, mmap_mode="r").max()
        print(f"{os.path.getsize(x) / 1e9:.1f} GB, float32, {FEATURES} features")
        print("| fit | call | wall | peak anonymous | steps | status | objective | weight 0 |")
        print("|---|---|---|---|---|---|---|---|", flush=True)
        for way in ("stream", "memory"):
            subprocess.run([sys.executable, __file__, "--measure", way, x, y], check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measured(*sys.argv[2:])
    else:
        main()

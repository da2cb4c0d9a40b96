"""Strict settings for every test: 64 bits, no silent broadcasting or promotion of dtypes.

The tests compile thousands of programs and run each once, so the compiler is asked for speed of
its own, not of the code: half of the suite's time. Flags that the caller has set stay as they are:
`XLA_FLAGS=--xla_backend_optimization_level=3 pytest` tests what a user runs, as `.ci/run` does.

`--thorough` adds what repeats a law for another solver or dtype at the price of large programs;
`.ci/run` asks for it.

Tracing keeps one core busy, so the whole suite runs in two processes where pytest-xdist is
installed; `pytest -n 0`, or naming the tests to run, keeps to one.
"""

import gc
import itertools
import os
import pathlib
from importlib.metadata import version

FAST = ["--xla_backend_optimization_level=0", "--xla_cpu_parallel_codegen_split_count=1"]
OLD = version("jaxlib").startswith("0.9.")
if OLD:
    FAST.append("--xla_cpu_use_fusion_emitters=false")  # a flag that later versions refuse
os.environ.setdefault("XLA_FLAGS", " ".join(FAST))

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # two processes, one GPU

# Later versions of XLA have crashed in processes that had compiled most of the programs.
WORKERS = 2 if OLD else 4
FIRST = {"wide": 0, "compile_once": 1, "api": 2, "transforms": 2}

import jax  # noqa: E402
import pytest  # noqa: E402

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")


def pytest_addoption(parser):
    parser.addoption("--thorough", action="store_true", help="also the tests marked thorough")


def pytest_collection_modifyitems(config, items):
    # The longest first, so that at the end neither process waits for the other; and together what
    # uses the same programs, which is what is about the same fit.
    def place(item):
        return FIRST.get(item.path.stem.removeprefix("test_"), len(FIRST))

    items.sort(key=lambda item: (place(item), _fit_of(item)))
    skipped = {}
    if not config.getoption("--thorough"):
        skipped["thorough"] = "needs --thorough"
    if jax.default_backend() != "cpu":
        skipped["cpu"] = "looks at what is compiled for a CPU"
    for item in items:
        for name in filter(item.get_closest_marker, skipped):
            item.add_marker(pytest.mark.skip(reason=skipped[name]))


def _fit_of(item):
    """The fit that a law is tried on, or nothing."""
    given = item.callspec.params if hasattr(item, "callspec") else {}
    name = given.get("name", given.get("whole", ""))
    return name if ".fit" in str(name) else ""


def pytest_collection_finish(session):
    """Tracing makes much garbage of few cycles: search for them less often, and not in modules."""
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


MAPS = pathlib.Path("/proc/self/maps")
# A test may add thousands.
MOST_MAPS = 40_000
tests_run = itertools.count(1)


def pytest_runtest_teardown(item):
    """Forget compiled programs in time: they map memory, and Linux allows a process 65,530 maps."""
    if next(tests_run) % 10 == 0 and MAPS.exists():
        with MAPS.open("rb") as maps:
            many = sum(1 for _ in maps) > MOST_MAPS
        if many:
            jax.clear_caches()
            gc.collect()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Workers for the whole suite. A worker reads this file too, and must start none."""
    worker = hasattr(config, "workerinput") or "PYTEST_XDIST_WORKER" in os.environ
    whole = config.args_source == pytest.Config.ArgsSource.TESTPATHS
    unset = getattr(config.option, "numprocesses", 0) is None  # absent without pytest-xdist
    free = not (config.option.collectonly or config.option.usepdb)
    if unset and whole and free and not worker:
        config.option.tx, config.option.dist = ["popen"] * WORKERS, "worksteal"

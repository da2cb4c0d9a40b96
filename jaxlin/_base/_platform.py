"""What the machine is that a program is traced for.

A CPU is quick where what a pass makes of x stays in a core's cache. An accelerator has no such
cache, and takes about as long to start a small product as a large one takes.
"""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
import jaxlib

P = ParamSpec("P")
R = TypeVar("R")

# Batched LAPACK takes the threads of XLA's pool in jaxlib 0.10.0 to 0.11.0: where as many such
# calls as it has threads run beside each other, none ends. 0.10.2 is wrong besides, and 0.11.1 was
# withdrawn.
OLDEST = (0, 9, 2)
EXCLUDED = ((0, 10), (0, 11, 0), (0, 11, 1))


def check_version(name: str, version: str) -> None:
    """An ImportError where programs of ours could stop for ever or be wrong on that version."""
    numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
    if numbers < OLDEST or any(numbers[: len(known)] == known for known in EXCLUDED):
        raise ImportError(
            f"jaxlin does not run on {name} {version}, whose programs can stop for ever or be "
            "wrong on a CPU: install jax and jaxlib 0.9.2, or 0.11.2 and later"
        )


check_version("jax", jax.__version__)
check_version("jaxlib", jaxlib.__version__)


# Of its two ways to make loops XLA compiles the older in half the time; later versions have one.
OLDER = {"xla_cpu_use_fusion_emitters": False} if jax.__version_info__ < (0, 10) else {}
# With more entries in an argument a program runs too long for that: some loops are slower so.
MOST_ENTRIES = 2**20
# What tells XLA to compile quickly, not well.
QUICKLY: dict[str, str | bool] = {"xla_backend_optimization_level": "0", **OLDER}
# A block, or a chunk of lanes, is as many times as large on an accelerator. On an H100 a Newton fit
# of 200,000 x 100 in float32 took 53 ms in the blocks of a CPU, and 4 ms as one.
ENLARGED = 64


def on_cpu() -> bool:
    """Whether programs run on a CPU, where nothing tells otherwise."""
    device = getattr(jax.config, "jax_default_device", None) or jax.default_backend()
    return (device if isinstance(device, str) else device.platform).startswith("cpu")


def on_one_cpu() -> bool:
    """Whether, besides, there is no other device that could hold some of the lanes."""
    return on_cpu() and jax.device_count() == 1


def enlarged(size: int) -> int:
    """The size of a block or chunk that is `size` on a CPU."""
    return size if on_cpu() else ENLARGED * size


def jit(f: Callable[P, R], **options: Any) -> Callable[P, R]:
    """`jax.jit`, whose program is compiled by OLDER where it is a program of its own."""
    plain = jax.jit(f, **options)
    if not OLDER:
        return plain
    own = jax.jit(f, compiler_options=OLDER, **options)

    @functools.wraps(f)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        alone = jax.core.trace_ctx.is_top_level() and on_cpu()
        sizes = (getattr(a, "size", 0) for a in jax.tree.leaves((arguments, keywords)))
        quick = alone and max(sizes, default=0) <= MOST_ENTRIES
        return (own if quick else plain)(*arguments, **keywords)

    return call


@functools.cache
def quickly(program: Callable) -> Callable:
    """A jitted `program(static, static, ...)` compiled so, for data that are soon gone through.

    Called eagerly: inside another program it is that one's to say how it is compiled.
    """
    plain = program.__wrapped__  # type: ignore[attr-defined]
    return jax.jit(plain, static_argnums=(0, 1), compiler_options=QUICKLY)

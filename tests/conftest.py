"""Strict settings for every test: 64 bits, no silent broadcasting or promotion of dtypes.

The tests compile thousands of programs and run each once, so the compiler is asked for speed of
its own, not of the code: half of the suite's time. Flags that the caller has set stay as they are:
`XLA_FLAGS=--xla_backend_optimization_level=3 pytest` tests what a user runs, as `.ci/run` does.
"""

import os
from importlib.metadata import version

FAST = ["--xla_backend_optimization_level=0"]
if version("jaxlib").startswith("0.10."):
    FAST.append("--xla_cpu_use_fusion_emitters=false")  # a flag that later versions refuse
os.environ.setdefault("XLA_FLAGS", " ".join(FAST))

import jax  # noqa: E402

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

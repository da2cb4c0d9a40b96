"""Strict settings for every test: 64 bits, no silent broadcasting or promotion of dtypes."""

import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

"""Cases that a version of jax or jaxlib has computed wrongly: they must be right where we run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_vmapped_products_over_rows(dtype):
    """jaxlib 0.10.2 on CPU is wrong here by half, silently; hence `!=0.10.2`."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(33_000, 3)).astype(dtype)
    m = rng.normal(size=(3, 3)).astype(dtype)
    squares = jax.jit(jax.vmap(lambda r: jnp.sum((m @ r) ** 2)))(rows)
    expected = np.sum((rows.astype(np.float64) @ m.T.astype(np.float64)) ** 2, axis=1)
    np.testing.assert_allclose(squares, expected, rtol=20 * np.finfo(dtype).eps)


def test_the_excluded_versions_are_not_these():
    import jaxlib

    assert jax.__version__ not in ("0.10.2", "0.11.1")
    assert jaxlib.__version__ not in ("0.10.2", "0.11.1")

"""Cases that a version of jax or jaxlib has computed wrongly: they must be right where we run."""

import pathlib
import subprocess
import sys
from functools import partial

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
    product = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
    squares = jax.jit(jax.vmap(lambda r: jnp.sum(product(m, r) ** 2)))(rows)
    expected = np.sum((rows.astype(np.float64) @ m.T.astype(np.float64)) ** 2, axis=1)
    np.testing.assert_allclose(squares, expected, rtol=20 * np.finfo(dtype).eps)


MANY_SOLVES = """
import jax, jax.numpy as jnp
solve = jax.vmap(lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True))
a = jnp.eye(256) + jnp.zeros((10, 8, 1, 256))
b = jnp.ones((10, 8, 256, 256))
many = jax.jit(lambda a, b: [solve(a[:, i], b[:, i]) for i in range(8)])
for _ in range(5):
    jax.block_until_ready(many(a, b))
"""


@pytest.mark.cpu
def test_batched_solves_beside_each_other_end():
    """Of jaxlib 0.10.0 to 0.11.0 each holds a thread of the pool and waits for another's."""
    subprocess.run([sys.executable, "-c", MANY_SOLVES], timeout=120, check=True)


@pytest.mark.parametrize("version", ["0.9.1", "0.10.0", "0.10.1", "0.10.2", "0.11.0", "0.11.1"])
def test_an_excluded_version_is_refused_in_one_line(version):
    from jaxlin._base import _platform

    with pytest.raises(ImportError, match=rf"jaxlib {version}, .* 0\.11\.2 and later$") as error:
        _platform.check_version("jaxlib", version)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("version", ["0.9.2", "0.11.2", "0.12.0.1", "0.13.0.dev20270101", "1.0.0"])
def test_a_version_that_is_not_excluded_is_not_refused(version):
    from jaxlin._base import _platform

    _platform.check_version("jax", version)


def test_what_is_excluded_is_what_an_installer_excludes():
    from jaxlin._base import _platform

    oldest = ".".join(map(str, _platform.OLDEST))
    excluded = [".".join(map(str, v)) + (".*" if len(v) == 2 else "") for v in _platform.EXCLUDED]
    needed = ",".join([f">={oldest}", *(f"!={v}" for v in excluded)])
    project = (pathlib.Path(__file__).parents[1] / "pyproject.toml").read_text()
    for name in ("jax", "jaxlib"):
        assert f'"{name}{needed}"' in project


def test_an_accelerators_program_finds_the_same(monkeypatch):
    """Its blocks and its inverses are others than a CPU's; here both run on what there is."""
    from jaxlin import logistic
    from jaxlin._base import _platform
    from jaxlin._data import _rows

    rng = np.random.default_rng(0)
    n, d = 4 * _rows.BLOCK_ENTRIES // 3, 3
    x = rng.normal(size=(n, d))
    y = (x[:, 0] + rng.logistic(size=n) > 0).astype(int)
    found = []
    for cpu in (True, False):
        monkeypatch.setattr(_platform, "on_cpu", lambda cpu=cpu: cpu)
        jax.clear_caches()
        assert (n >= 2 * _rows.block_rows(d)) == cpu
        found.append(logistic.fit(x, y, l2=1e-3))
    jax.clear_caches()
    (params, info), (others, said) = found
    assert info.status == said.status == 0
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9), params, others)


@pytest.mark.cpu
@pytest.mark.parametrize("k", [2, 3])
def test_a_call_of_few_entries_is_compiled_quickly_and_finds_the_same(k, monkeypatch):
    """Not one of many, nor one in a program of the user's."""
    from jaxlin import logistic, softmax
    from jaxlin._base import _platform
    from jaxlin._smooth import _risk

    d = 4
    rng = np.random.default_rng(0)
    x = rng.normal(size=(_risk.FEW_ENTRIES // d + 1, d))
    y = np.argmax(x[:, :k] + rng.gumbel(size=(len(x), k)), axis=1)
    fit = partial(logistic.fit, l2=1e-3) if k == 2 else partial(softmax.fit, num_classes=k, l2=1e-3)
    asked = []
    quickly = _platform.quickly
    monkeypatch.setattr(_platform, "quickly", lambda f: asked.append(f) or quickly(f))
    params, info = fit(x[1:], y[1:])
    assert len(asked) == 1
    jitted = jax.jit(fit)(x[1:], y[1:])
    fit(x, y)
    assert len(asked) == 1
    assert info.status == jitted[1].status == 0
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9), params, jitted[0])


def test_the_device_that_is_asked_for_tells():
    from jaxlin._base import _platform

    with jax.default_device(jax.devices("cpu")[0]):
        assert _platform.on_cpu()


def test_a_null_space_known_to_some_hundred_ulps_is_one(monkeypatch):
    """Eigenvectors of rotations on a GPU; here of LAPACK, turned by that much."""
    from jaxlin import _linalg, qda
    from jaxlin._base import _platform
    from jaxlin.types import Status

    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    x, y = np.concatenate([x, x[:, :1]], axis=1), np.arange(60) % 2
    turn = 256 * np.finfo(np.float64).eps * rng.normal(size=(4, 4))
    turned, eigh = jnp.eye(4) + turn - turn.T, _linalg.eigh

    def rough(a):
        values, vectors = eigh(a)
        return values, vectors @ turned

    for place in (_linalg, _linalg._dense):
        monkeypatch.setattr(place, "eigh", rough)
    for cpu, status in ((True, Status.STALLED), (False, Status.RANK_DEFICIENT)):
        monkeypatch.setattr(_platform, "on_cpu", lambda cpu=cpu: cpu)
        jax.clear_caches()
        assert qda.fit(x, y)[1].status == status
    jax.clear_caches()


def test_a_program_is_the_same_wherever_it_is_called():
    """Alone, where some versions have options for it, and inside others, which refuse options."""
    from jaxlin._base import _platform

    traces = []

    @partial(_platform.jit, static_argnums=0)
    def power(k, a):
        traces.append(k)
        return jnp.sum(a**k)

    a = jnp.arange(4.0)
    assert power(2, a) == power(2, a) == 14 and traces == [2]
    assert jax.jit(lambda: power(2, a))() == 14  # of constants
    assert jax.jit(lambda a: power(2, a))(a) == jax.vmap(lambda a: power(2, a))(a[None])[0] == 14
    np.testing.assert_array_equal(jax.grad(lambda a: power(2, a))(a), 2 * a)
    np.testing.assert_array_equal(jax.jit(jax.hessian(lambda a: power(2, a)))(a), 2 * np.eye(4))
    large = jnp.ones(_platform.MOST_ENTRIES + 1)
    assert power(2, large) == large.size


@pytest.mark.cpu
@pytest.mark.skipif(jax.__version_info__ >= (0, 10), reason="later versions have one way")
def test_a_program_alone_is_compiled_the_older_way(monkeypatch):
    from jaxlin._base import _platform

    seen = []
    plain = jax.jit

    def jit(f, **options):
        program = plain(f, **options)

        def call(*arguments):
            seen.append(options.get("compiler_options"))
            return program(*arguments)

        return call

    monkeypatch.setattr(jax, "jit", jit)
    double = _platform.jit(lambda a: 2 * a)
    monkeypatch.undo()
    double(jnp.ones(3))
    jax.jit(double)(jnp.ones(3))
    double(jnp.ones(_platform.MOST_ENTRIES + 1))
    assert seen == [_platform.OLDER, None, None] and _platform.OLDER

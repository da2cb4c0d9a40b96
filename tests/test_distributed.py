"""Fits over rows that are dealt over a mesh: eight devices in one process, and two processes.

A process has the devices that it started with: what needs eight is run again by a process of its
own, by `test_on_eight_devices`.
"""

import functools
import os
import re
import socket
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxlin import (
    centroids,
    distributed,
    fisher,
    gaussian,
    lda,
    least_squares,
    logistic,
    losses,
    moments,
    multiclass,
    ordinal,
    perceptron,
    qda,
    resample,
    softmax,
    solvers,
    svm,
)
from jaxlin._data import _rows
from jaxlin._smooth import _plan, _sampled
from jaxlin.types import Status
from tests.public import thorough

DEVICES = 8
on_mesh = pytest.mark.skipif(jax.device_count() < DEVICES, reason="run on eight devices below")


@pytest.mark.skipif(jax.device_count() >= DEVICES, reason="this is that run")
@pytest.mark.parametrize("more", [[], thorough(["--thorough", "-m", "thorough"])])
def test_on_eight_devices(more):
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={DEVICES}"
    command = [sys.executable, "-m", "pytest", "-n", "0", "-rfp", __file__, *more]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    run = subprocess.run(
        command,
        env={**environment, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert run.returncode == 0, run.stdout[-10_000:]
    assert run.stdout.count("PASSED") > 10, run.stdout[-1000:]


def draw(n=1003, d=4, dtype=np.float64):
    """Classes that overlap, a number of rows that eight does not divide, and weights."""
    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)) / np.sqrt(d)) + 3
    y = (x[:, 0] - 3 + 2 * rng.normal(size=n) > 0).astype(int)
    k3 = y + (rng.random(n) < 0.3)
    return x.astype(dtype), y, k3, rng.choice([0.5, 1.0, 2.0], size=n).astype(dtype)


def mesh_of(*shape, kind=AxisType.Auto):
    names = ("rows", "lanes")[: len(shape)]
    return jax.make_mesh(shape, names, axis_types=(kind,) * len(shape))


def difference(a, b):
    """The largest, relative to the larger of an entry and 1."""
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return max(float(jnp.max(jnp.abs(p - q) / (1 + jnp.abs(q)))) for p, q in pairs)


FITS = {
    "logistic": (logistic.fit, 2, {}),
    "logistic, penalised": (logistic.fit, 2, {"l2": 0.1}),
    "logistic, l1": (logistic.fit, 2, {"l1": 0.05}),
    "logistic, L-BFGS": (functools.partial(logistic.fit, solver=solvers.lbfgs), 2, {"l2": 0.1}),
    "firth": (logistic.fit_firth, 2, {}),
    "softmax": (softmax.fit, 3, {}),
    "softmax, by products": (functools.partial(softmax.fit, num_classes=53), 3, {"l2": 0.1}),
    "softmax, l1": (softmax.fit, 3, {"l1": 0.05}),
    "least_squares": (least_squares.fit, 3, {}),
    "fisher": (fisher.fit, 2, {}),
    "fisher, equal_variance": (
        functools.partial(fisher.fit, threshold=fisher.equal_variance),
        2,
        {},
    ),
    "lda": (lda.fit, 3, {}),
    "lda, ledoit_wolf": (functools.partial(lda.fit, shrinkage=lda.ledoit_wolf), 3, {}),
    "centroids": (functools.partial(centroids.fit, threshold=1.0), 3, {}),
    "ordinal": (ordinal.fit, 3, {"l2": 0.01}),
    "ordinal, separable or not": (ordinal.fit, 3, {}),
    "qda": (qda.fit, 3, {}),
    "gaussian": (gaussian.fit, 3, {}),
    "gaussian, tied": (gaussian.fit_tied, 3, {}),
    "svm": (functools.partial(svm.fit, loss=losses.squared_hinge), 2, {"l2": 0.01}),
    "on_standardized": (resample.on_standardized(logistic.fit), 2, {"l2": 0.1}),
    "on_balanced": (resample.on_balanced(lda.fit), 3, {}),
    "one_vs_rest": (multiclass.one_vs_rest(logistic.fit), 3, {"l2": 0.1}),
    "one_vs_one": (multiclass.one_vs_one(logistic.fit), 3, {"l2": 0.1}),
}
COMMON = ("logistic", "logistic, l1", "lda", "least_squares", "svm")


@on_mesh
@pytest.mark.parametrize("name", [n if n in COMMON else thorough(n) for n in FITS])
@pytest.mark.parametrize("dtype", [np.float64, thorough(np.float32)])
def test_sharded_is_single(name, dtype):
    fit, k, options = FITS[name]
    x, y, k3, weight = draw(dtype=dtype)
    y = y if k == 2 else k3
    mesh = mesh_of(DEVICES, kind=AxisType.Explicit if name in COMMON else AxisType.Auto)
    params, info = distributed.data_parallel(fit, mesh)(x, y, sample_weight=weight, **options)
    single, single_info = fit(x, y, sample_weight=weight, **options)
    assert info.status == single_info.status == Status.CONVERGED
    loose = "L-BFGS" in name  # to its tolerance
    tolerance = (1e-8 if loose else 1e-12) if dtype == np.float64 else (1e-4 if loose else 1e-5)
    assert difference(params, single) < tolerance
    assert difference(info.objective, single_info.objective) < tolerance


@on_mesh
def test_sets_of_features_where_rows_are_dealt_and_lanes():
    x, y, _, _ = draw(n=60, d=600)
    params, info = logistic.fit(x, y, l1=0.05)
    dealt, its = distributed.data_parallel(logistic.fit, mesh_of(DEVICES))(x, y, l1=0.05)
    assert info.status == its.status == Status.CONVERGED and difference(dealt, params) < 1e-9
    weights = np.random.default_rng(0).integers(1, 3, (DEVICES, 60)).astype(float)
    lanes = jax.vmap(lambda w: logistic.fit(x[:, :8], y, l1=0.05, sample_weight=w)[0])
    spec = P("rows")
    each = jax.jit(jax.shard_map(lanes, mesh=mesh_of(DEVICES), in_specs=spec, out_specs=spec))
    assert difference(each(weights), lanes(weights)) < 1e-9


@on_mesh
def test_blocks_and_devices():
    """Shards of several blocks of rows, in half precision too."""
    x, y, _, weight = draw(n=40_001, d=30, dtype=np.float32)
    fit = functools.partial(lda.fit, num_classes=2)
    mesh = mesh_of(DEVICES)
    whole, _ = fit(x, y, sample_weight=weight)
    dealt, info = distributed.data_parallel(fit, mesh)(x, y, sample_weight=weight)
    assert info.status == Status.CONVERGED and difference(dealt, whole) < 1e-5
    half = jnp.asarray(x, jnp.bfloat16)
    whole, _ = fit(half, y)
    dealt, _ = distributed.data_parallel(fit, mesh)(half, y)
    assert difference(dealt, whole) < 1e-5


@on_mesh
@pytest.mark.parametrize("solver", [None, solvers.newton])
def test_shards_of_all_blocks(solver):
    """Of so many rows that what is found of each, and each fold, is by blocks on each device."""
    x, y, _, weight = draw(n=26_001, d=32)
    x[7], weight[7] = np.nan, 0
    assert 8 * _rows.BLOCK_ENTRIES < 13_000 * 32
    mesh = jax.make_mesh((2,), ("rows",), (AxisType.Auto,), devices=jax.devices()[:2])
    fit = functools.partial(logistic.fit, solver=solver)
    params, info = distributed.data_parallel(fit, mesh)(x, y, sample_weight=weight, l2=0.1)
    single, _ = fit(x, y, sample_weight=weight, l2=0.1)
    assert info.status == Status.CONVERGED and difference(params, single) < 1e-8


@on_mesh
def test_products_over_a_part_of_all_rows(monkeypatch):
    """A part of each shard's, and the same for all: as of one device's rows, to the tolerance."""
    monkeypatch.setattr(_plan, "NEWTON_LIMIT", 0)
    monkeypatch.setattr(_sampled, "ROUGH_ROWS", 4)
    x, _, y, weight = draw(n=4003)
    fit = functools.partial(softmax.fit, num_classes=3)
    options = {"sample_weight": weight, "l2": 0.01}
    whole, info = fit(x, y, **options)
    dealt, dealt_info = distributed.data_parallel(fit, mesh_of(DEVICES))(x, y, **options)
    assert info.status == dealt_info.status == Status.CONVERGED
    assert difference(dealt, whole) < 1e-8


@on_mesh
def test_moments():
    x, _, k3, _ = draw()
    mesh = mesh_of(DEVICES)
    for of_rows in (moments.tied, moments.per_class):
        dealt = jax.shard_map(
            functools.partial(of_rows, num_classes=3, axis_name="rows"),
            mesh=mesh,
            in_specs=P("rows"),
            out_specs=P(),
        )
        whole = of_rows(x[:1000], k3[:1000])
        assert difference(dealt(x[:1000], k3[:1000]), whole) < 1e-12
        np.testing.assert_array_equal(whole.rows, dealt(x[:1000], k3[:1000]).rows)


@on_mesh
def test_statuses_are_those_of_one_device():
    x, y, _, _ = draw(n=100)
    fit = distributed.data_parallel(logistic.fit, mesh_of(DEVICES))
    apart = np.where(y[:, None] > 0, 1.0, -1.0) * (1 + np.abs(x))
    twice = np.where(np.arange(4) == 3, x[:, :1], x)
    hole = np.where(np.arange(100)[:, None] == 70, np.nan, x)
    all_rows, few = np.ones(100), (np.arange(100) % 33 == 0).astype(float)
    seen = set()
    sharded, whole = (
        jax.jit(lambda x, y, w, f=f: f(x, y, sample_weight=w)) for f in (fit, logistic.fit)
    )
    for data, labels, weight in (
        (apart, y, all_rows),
        (twice, y, all_rows),
        (x, 0 * y, all_rows),
        (x, np.arange(100) % 2, few),
        (x, y, 0 * few),
    ):
        (params, info), (single, single_info) = (f(data, labels, weight) for f in (sharded, whole))
        assert info.status == single_info.status
        seen.add(int(info.status))
        if info.status <= Status.RANK_DEFICIENT:
            assert difference(params, single) < 1e-9
    assert {Status.SEPARABLE, Status.RANK_DEFICIENT, Status.CLASS_TOO_SMALL} < seen
    params, info = sharded(hole, y, all_rows)
    assert info.status == Status.INVALID_DATA and np.isnan(params.weights).all()
    with pytest.raises(ValueError, match=r"x: 4 of 400 entries are not finite.*\(70, 0\)"):
        fit(hole, y)
    # Where there is no weight nobody looks.
    params, info = fit(hole, y, sample_weight=np.isfinite(hole[:, 0]).astype(float))
    assert info.status == Status.CONVERGED


COLLECTIVE = re.compile(
    r"= (.*?) (all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)(?:-start)?\("
)


@on_mesh
@pytest.mark.parametrize(
    "name", ["lda", "logistic", thorough("softmax"), thorough("logistic, L-BFGS"), thorough("qda")]
)
def test_only_statistics_travel(name):
    """Collectives of the compiled program: all-reduces, none of the size of x or of its rows."""
    n, d, k = 8 * 5000, 10, 3
    fit, classes, options = FITS[name]
    fit = distributed.data_parallel(fit, mesh_of(DEVICES))
    x, y = jnp.zeros((n, d)), jnp.zeros(n, int)
    sharding = NamedSharding(mesh_of(DEVICES), P("rows"))
    x, y = (jax.device_put(a, sharding) for a in (x, y))
    if "num_classes" in str(FITS[name][0]) or name not in ("logistic", "logistic, L-BFGS"):
        options = {**options, "num_classes": classes}
    program = jax.jit(lambda x, y: fit(x, y, **options)).lower(x, y).compile()
    text = program.as_text()
    found = COLLECTIVE.findall(text)
    assert found and {kind for _, kind in found} == {"all-reduce"}
    # At most what a pass sums: a Hessian or a scatter per class, and little of every device.
    assert max(map(_entries, found)) <= max(k * (d + 2) ** 2, 64 * d) + DEVICES * (d + 8)
    if name == "lda":
        # What the weights add up to is a few numbers; a point near each class, and the statistics.
        # What looks at the rows again is in loops, which turn where the statistics leave a doubt.
        always = COLLECTIVE.findall(text[text.index("\nENTRY ") :])
        assert sum(_entries(one) > 3 * DEVICES for one in always) == 2


def _entries(collective):
    shape, _ = collective
    each = re.findall(r"\[([\d,]*)\]", shape)
    return sum(np.prod([int(i) for i in sizes.split(",") if i]) for sizes in each)


@on_mesh
@pytest.mark.parametrize("kind", [AxisType.Explicit, thorough(AxisType.Auto)])
def test_lanes_on_one_axis_and_rows_on_another(kind):
    x, y, _, _ = draw(n=1000)
    weights = np.random.default_rng(0).exponential(size=(6, 1000))
    mesh = mesh_of(4, 2, kind=kind)

    def fit(x, y, weights, **options):
        return jax.vmap(lambda w: logistic.fit(x, y, sample_weight=w, **options))(weights)

    both = jax.shard_map(
        functools.partial(fit, axis_name="rows"),
        mesh=mesh,
        in_specs=(P("rows"), P("rows"), P("lanes", "rows")),
        out_specs=P("lanes"),
    )
    laid = (
        jax.device_put(a, NamedSharding(mesh, spec))
        for a, spec in ((x, P("rows")), (y, P("rows")), (weights, P("lanes", "rows")))
    )
    params, info = jax.jit(both)(*laid)
    single, single_info = fit(x, y, weights)
    assert difference(params, single) < 1e-12
    np.testing.assert_array_equal(info.status, single_info.status)


@on_mesh
def test_lanes_over_dealt_rows_are_found_together():
    """By the steps in the axes of x that lanes take on one device."""
    x, y, _, _ = draw(d=50)
    fit = distributed.data_parallel(logistic.fit, mesh_of(DEVICES))
    l2 = jnp.geomspace(1e-3, 1, 3)
    params, info = jax.jit(jax.vmap(lambda l2: fit(x, y, l2=l2)))(l2)
    single, said = jax.jit(jax.vmap(lambda l2: logistic.fit(x, y, l2=l2)))(l2)
    assert difference(params, single) < 1e-10
    np.testing.assert_array_equal(info.status, said.status)
    # As of lanes found together: more than Newton's, and few. How many more turns the last digits
    # take is for rounding to say: 9 to 14, by how it was compiled.
    for steps in (info.steps, said.steps):
        assert np.all((steps > 6) & (steps < 20))


@on_mesh
def test_lanes_alone():
    """Whole fits, so many on each device: every fit, for none of them talks."""
    x, y, _, _ = draw(n=60)
    weights = np.random.default_rng(0).exponential(size=(DEVICES, 60))
    mesh = mesh_of(DEVICES)

    def fit(weights):
        return jax.vmap(lambda w: perceptron.fit(x, y, sample_weight=w, max_epochs=20)[0].weights)(
            weights
        )

    dealt = jax.shard_map(fit, mesh=mesh, in_specs=P("rows"), out_specs=P("rows"))
    put = jax.device_put(weights, NamedSharding(mesh, P("rows")))
    assert difference(jax.jit(dealt)(put), fit(weights)) == 0


@on_mesh
@pytest.mark.thorough
def test_derivatives():
    x, y, _, weight = draw(n=101)
    fit = distributed.data_parallel(logistic.fit, mesh_of(DEVICES))

    def loss(fit, l2, x, weight):
        return jnp.sum(jnp.sin(fit(x, y, l2=l2, sample_weight=weight)[0].weights))

    for derivative in (jax.grad, jax.jacfwd):
        found, expected = (
            derivative(functools.partial(loss, each), (0, 1, 2))(0.1, x, weight)
            for each in (fit, logistic.fit)
        )
        assert difference(found, expected) < 1e-12
    second = [jax.hessian(functools.partial(loss, f))(0.1, x, weight) for f in (fit, logistic.fit)]
    assert difference(*second) < 1e-12


@on_mesh
def test_shard_fills_up():
    x, y, _, weight = draw(n=13)
    mesh = mesh_of(DEVICES)
    laid = distributed.shard(x, y, mesh, sample_weight=weight)
    assert [len(a) for a in laid] == [16, 16, 16]
    assert all(a.sharding.spec == P("rows") for a in laid)
    np.testing.assert_array_equal(laid[2], np.concatenate([weight, np.zeros(3)]))


def test_what_is_no_sum_over_rows_is_refused():
    x, y, _, _ = draw(n=16)
    mesh = jax.make_mesh((jax.device_count(),), ("rows",), axis_types=(AxisType.Auto,))
    with pytest.raises(TypeError, match=r"fit of jaxlin.perceptron takes no axis_name"):
        distributed.data_parallel(perceptron.fit, mesh)
    with pytest.raises(ValueError, match=r"axis: expected one of \('rows',\), got 'lanes'"):
        distributed.data_parallel(lda.fit, mesh, axis="lanes")
    with pytest.raises(ValueError, match=r"losses\.squared_hinge only"):
        distributed.data_parallel(svm.fit, mesh)(x, y, l2=0.1)
    with pytest.raises(TypeError, match="least_error has no argument axis_name"):
        fit = functools.partial(fisher.fit, threshold=fisher.least_error)
        distributed.data_parallel(fit, mesh)(x, y)
    with pytest.raises(ValueError, match="no axis 'rows' here"):
        lda.fit(x, y, axis_name="rows")
    with pytest.raises(ValueError, match="y: expected 16 rows"):
        distributed.data_parallel(lda.fit, mesh)(x, y[:5])


# --- two processes -------------------------------------------------------------------------------

PROCESS = """
import os, sys
rank, port, dies = int(sys.argv[1]), sys.argv[2], sys.argv[3] == "dies"
import jax
jax.config.update("jax_enable_x64", True)
patience = 10 if dies else 100
jax.distributed.initialize(f"localhost:{port}", 2, rank, heartbeat_timeout_seconds=patience)
import numpy as np
from jaxlin import distributed, lda, logistic
from tests.test_distributed import draw

x, y, _, weight = draw()
mine = slice(0, 400) if rank == 0 else slice(400, None)
mesh = jax.make_mesh((jax.device_count(),), ("rows",))
x, y, weight = distributed.shard(x[mine], y[mine], mesh, sample_weight=weight[mine])
if dies and rank == 1:
    os._exit(7)
for fit, options in ((logistic.fit, {"l2": 0.1}), (lda.fit, {"num_classes": 2})):
    found = distributed.data_parallel(fit, mesh)(x, y, sample_weight=weight, **options)
    print("found", *(float(a).hex() for leaf in jax.tree.leaves(found) for a in np.ravel(leaf)))
"""


def start(way):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    flags = re.sub(r"--xla_force_host_platform_device_count=\d+", "", os.environ["XLA_FLAGS"])
    environment = {
        **os.environ,
        "XLA_FLAGS": f"{flags} --xla_force_host_platform_device_count=2",
        "JAX_PLATFORMS": "cpu",
    }
    return [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(rank), port, way],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]


@pytest.fixture
def processes():
    started = []

    def begin(way):
        started.extend(start(way))
        return started

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.skipif(jax.device_count() >= DEVICES, reason="has processes of its own")
def test_two_processes(processes):
    outputs = [process.communicate(timeout=240)[0] for process in processes("lives")]
    lines = [[s for s in o.splitlines() if s.startswith("found")] for o in outputs]
    assert len(lines[0]) == 2 and lines[0] == lines[1], outputs
    x, y, _, weight = draw()
    fits = (functools.partial(logistic.fit, l2=0.1), functools.partial(lda.fit, num_classes=2))
    for line, fit in zip(lines[0], fits, strict=True):
        values = np.array([float.fromhex(a) for a in line.split()[1:]])
        single = jax.tree.leaves(fit(x, y, sample_weight=weight)[:2])
        params = np.concatenate([np.ravel(a) for a in single])
        np.testing.assert_allclose(values[:-1], params[:-1], rtol=1e-12, atol=1e-12)


@pytest.mark.skipif(jax.device_count() >= DEVICES, reason="has processes of its own")
def test_a_process_that_dies_ends_the_other(processes):
    began = time.monotonic()
    survivor, dead = processes("dies")
    assert dead.wait(timeout=120) == 7
    assert survivor.wait(timeout=120) != 0
    assert time.monotonic() - began < 120

"""The vocabulary: fixed numbers, plain data, and words that name the lane."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlin
from jaxlin import logistic, resample, types
from jaxlin.types import FitError, Info, Status, describe, raise_if_failed

NUMBERS = {
    "CONVERGED": 0,
    "RANK_DEFICIENT": 1,
    "STALLED": 2,
    "MAX_STEPS": 3,
    "QUASI_SEPARABLE": 4,
    "SEPARABLE": 5,
    "NOT_SEPARABLE": 6,
    "CLASS_TOO_SMALL": 7,
    "INVALID_DATA": 8,
}
FIELDS = {
    "Hyperplane": ("weights", "bias"),
    "Linear": ("weights", "bias"),
    "Quadratic": ("quadratic", "weights", "bias"),
    "Gaussian": ("means", "covariances", "priors"),
    "TiedGaussian": ("means", "covariance", "priors"),
    "Pairwise": ("weights", "bias"),
    "DiagonalGaussian": ("means", "variances", "priors"),
    "Ordinal": ("weights", "thresholds"),
    "Info": ("status", "steps", "objective", "residual"),
}


def info(*statuses, shape=None):
    status = np.array(statuses, np.int32).reshape(len(statuses) if shape is None else shape)
    steps = np.arange(status.size, dtype=np.int32).reshape(status.shape)
    return Info(status=status, steps=steps, objective=0.5 + steps, residual=0.25 * steps)


def test_status_numbers_are_fixed_for_ever():
    assert {status.name: int(status) for status in Status} == NUMBERS


def test_every_status_says_what_it_means():
    meanings = [status.meaning for status in Status]
    assert all(meanings) and len(set(meanings)) == len(meanings)


def test_a_status_is_a_number_to_jax():
    codes = jnp.where(jnp.array([True, False]), Status.STALLED, Status.SEPARABLE)
    assert codes.tolist() == [2, 5]
    assert bool(jax.jit(lambda s: s <= Status.RANK_DEFICIENT)(jnp.int32(1)))
    assert Status(5) is Status.SEPARABLE


@pytest.mark.parametrize("name", FIELDS)
def test_params_are_named_tuples_of_these_fields(name):
    kind = getattr(types, name)
    assert kind._fields == FIELDS[name]
    assert getattr(jaxlin, name) is kind
    value = kind(*(np.full(2, float(i)) for i in range(len(kind._fields))))
    doubled = jax.jit(lambda p: jax.tree.map(lambda a: 2 * a, p))(value)
    assert type(doubled) is kind
    chex.assert_trees_all_close(doubled, jax.tree.map(lambda a: 2 * a, value))


def test_success_raises_nothing():
    assert raise_if_failed(info(0, shape=())) is None
    assert raise_if_failed(info(0, 1, 0, 1)) is None
    assert raise_if_failed(info(shape=(0,))) is None


@pytest.mark.parametrize("status", [s for s in Status if s > Status.RANK_DEFICIENT])
def test_failure_is_named(status):
    with pytest.raises(FitError, match=f"^{status.name}: ") as error:
        raise_if_failed(info(status, shape=()))
    assert status.meaning in str(error.value)
    assert isinstance(error.value, RuntimeError)


def test_the_first_failed_lane_is_named():
    with pytest.raises(FitError, match=r"^lane 2 of 4 \(2 failed\): STALLED: .*steps 2, .* 0\.5\)"):
        raise_if_failed(info(0, 1, 2, 8))
    with pytest.raises(FitError, match=r"^lane 1, 0 of 4 \(1 failed\): SEPARABLE"):
        raise_if_failed(info(0, 0, 5, 0, shape=(2, 2)))


def test_describe_counts_lanes_the_worst_first():
    lines = describe(info(0, 3, 0, 8, 3, 0)).splitlines()
    assert [line.split(",")[0] for line in lines] == [
        "INVALID_DATA: 1 of 6 lanes",
        "MAX_STEPS: 2 of 6 lanes",
        "CONVERGED: 3 of 6 lanes",
    ]
    assert describe(info(0, shape=())).startswith("CONVERGED: 1 of 1 lane, ")


@pytest.mark.parametrize("helper", [raise_if_failed, describe])
def test_helpers_say_that_they_belong_outside(helper):
    def inside(status):
        helper(info(0, shape=())._replace(status=status))
        return status

    for transform in (jax.jit, jax.vmap):
        with pytest.raises(TypeError, match=f"{helper.__name__} reads concrete values.*outside"):
            transform(inside)(jnp.zeros(2, jnp.int32))


def test_what_stalls_in_single_precision_is_sent_to_double():
    """Of a column of years no bias in float32 is as near as `tol`; one of float64 is."""
    rng = np.random.default_rng(0)
    years = np.round(1993 + rng.normal(size=(100, 1)))
    y = (rng.uniform(size=100) < 1 / (1 + np.exp(1993 - years[:, 0]))).astype(int)
    for fit in (logistic.fit, resample.on_standardized(logistic.fit)):
        _, info = fit(years.astype(np.float32), y)
        assert ("float64" in describe(info)) == (info.status == Status.STALLED)
        stalled = info._replace(status=np.int32(Status.STALLED))
        with pytest.raises(FitError, match=r"STALLED: .*jax_enable_x64.*x in float64"):
            raise_if_failed(stalled)
        _, info = fit(years, y)
        assert info.status == Status.CONVERGED
    # Where float64 has stalled, or float32 has ended otherwise, it is no advice.
    for other in (info._replace(status=jnp.int32(Status.STALLED)), info._replace(status=4)):
        assert "float64" not in describe(other)


def test_what_stalls_in_single_precision_ends_in_double():
    """California's schools (Gill 2000): 20 columns of condition 361, squared in the Hessian."""
    sm = pytest.importorskip("statsmodels.api")
    data = sm.datasets.star98.load_pandas()
    x, both = data.exog.to_numpy(float), data.endog.to_numpy(float)
    total = both.sum(axis=1)
    expected = sm.GLM(both, sm.add_constant(x), family=sm.families.Binomial()).fit(tol=1e-14).params
    for dtype, status, rtol in ((np.float32, 2, 2e-2), (np.float64, 0, 1e-9)):
        params, info = logistic.fit(x.astype(dtype), both[:, 0] / total, sample_weight=total)
        assert info.status in (0, status)
        assert ("float64" in describe(info)) == (info.status == 2)
        np.testing.assert_allclose(params.weights, expected[1:], rtol=rtol)


@pytest.mark.parametrize("number", [3, np.int32(3), np.array(3), jnp.int32(3)])
def test_a_status_is_found_of_the_number_that_an_info_holds(number):
    """Some Pythons look only for what has a hash."""
    assert Status(number) is Status._missing_(number) is Status.MAX_STEPS


def test_what_is_no_status_says_so():
    for wrong in (9, jnp.int32(9), "CONVERGED", 3.0j):
        with pytest.raises(ValueError, match="not a valid Status"):
            Status(wrong)


def test_columns_are_named_where_the_data_are_given():
    """Of infinite coefficients, a treatment that nobody died of; and of those that others give."""
    pandas = pytest.importorskip("pandas")
    age = [31.0, 45, 52, 60, 38, 41, 70, 29, 55, 47]
    frame = pandas.DataFrame({"age": age, "treated": [0.0, 0, 0, 0, 0, 0, 1, 1, 1, 1]})
    died = np.array([0, 1, 0, 1, 1, 0, 0, 0, 0, 0])
    for x, name in ((frame, "treated"), (frame.to_numpy(), "1")):
        params, info = logistic.fit(x, died)
        with pytest.raises(FitError, match=f"QUASI_SEPARABLE: .*; columns {name} have infinite"):
            raise_if_failed(info, params=params, x=x, y=died)
        assert f"columns {name} have infinite" in describe(info, params=params, x=x, y=died)
    twice = frame[["age"]].assign(twice=2 * frame["age"])
    params, info = logistic.fit(twice, died)
    assert info.status == Status.RANK_DEFICIENT
    assert describe(info, x=twice).endswith("those before them give columns twice")
    assert raise_if_failed(info, params=params, x=twice, y=died) is None

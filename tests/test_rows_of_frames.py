"""Rows are paired by position: two frames whose indexes differ are refused, by reflection."""

import jax
import numpy as np
import pytest

from jaxlin import datasets, distributed, resample, streaming
from tests import public
from tests.public import N

pandas = pytest.importorskip("pandas")
INDEX = np.arange(100, 100 + N)


def framed(a, index):
    """What has a row for each of N as a frame or a Series, anything else as it is."""
    if not isinstance(a, np.ndarray) or a.ndim not in (1, 2) or len(a) != N:
        return a
    return (pandas.DataFrame if a.ndim == 2 else pandas.Series)(a, index=index)


def pairs():
    """`(call, arguments)` of whatever takes x or scores, and y: the places of these two."""
    for name in public.CALLABLE:
        names = list(public.inspect.signature(public.FUNCTIONS[name]).parameters)
        if name.split(".")[0] not in ("updates", "losses") or name == "losses.objective":
            for first in {"x", "scores"} & set(names):
                if "y" in names:
                    yield name, first


@pytest.mark.parametrize("name, first", list(pairs()))
def test_other_rows_are_refused(name, first):
    tried = 0
    for case in public.cases_of(name):
        arguments = list(case.draw(np.random.default_rng(0)))
        rows = [i for i, a in enumerate(arguments) if isinstance(a, np.ndarray) and len(a) == N]
        if len(rows) < 2:
            continue
        tried += 1
        one, two, *_ = rows
        arguments[one] = framed(arguments[one], INDEX)
        case.call(*[framed(a, INDEX) if i == two else a for i, a in enumerate(arguments)])
        for index in (INDEX[::-1], INDEX + 1):
            wrong = [framed(a, index) if i == two else a for i, a in enumerate(arguments)]
            with pytest.raises(ValueError, match=f"its index is not that of {first}, and rows"):
                case.call(*wrong)
    assert tried or name in ("svm.farkas", "resample.pad")


@pytest.mark.parametrize("name", public.NAMES)
def test_every_fit_refuses_other_rows(name):
    x, y, weight, mask = public.FITS[name].draw(0)
    frame, fit = framed(x, INDEX), public.FITS[name]
    for bad, words in (
        ((framed(y, INDEX[::-1]), weight), "^y: its index"),
        ((y, framed(weight, INDEX + 1)), "^sample_weight: its index"),
    ):
        with pytest.raises(ValueError, match=words):
            fit(frame, *bad, mask)
    plain = jax.eval_shape(lambda: fit(frame, framed(y, INDEX), framed(weight, INDEX), mask))
    assert plain[1].status.shape == ()


def test_a_slope_is_not_that_of_other_rows():
    x, y, *_ = datasets.breast_cancer()
    frame = pandas.DataFrame(x).sample(frac=1, random_state=0)
    series = pandas.Series(y)
    fit = resample.on_balanced(public.FUNCTIONS["lda.fit"])
    for call in (
        lambda x, y: fit(x, y),
        lambda x, y: resample.pad([(x, y)]),
        lambda x, y: streaming.arrays(x, y),
        lambda x, y: distributed.shard(x, y, jax.make_mesh((1,), ("rows",))),
    ):
        with pytest.raises(ValueError, match=r"y: its index is not that of x.*y\.loc\[x\.index\]"):
            call(frame, series)
        call(frame, series.loc[frame.index])

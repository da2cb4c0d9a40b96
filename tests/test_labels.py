"""Labels of any kind become 0..k-1, and come back as they were."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from jaxlin import labels

KINDS = [
    ["cat", "dog", "cat", "ant"],
    [-1, 1, 1, -1],
    [-1.0, 1.0, 1.0, -1.0],
    [True, False, False, True],
    [2**62, -(2**62), 5, 2**62],
    ["10", "9", "1e1", "9"],
    np.array([3, 1, 2, 1], np.uint8),
    np.array(["a", "b", "a", "c"], object),
    np.array(["2020-01-02", "2020-01-01", "2020-01-02", "2020-01-03"], "datetime64[D]"),
]


@pytest.mark.parametrize("raw", KINDS, ids=lambda raw: str(raw[0]))
def test_round_trip(raw):
    y, classes = labels.encode(raw)
    assert y.dtype == np.int32 and y.shape == (4,)
    assert sorted(set(y.tolist())) == list(range(len(classes)))
    assert isinstance(classes, np.ndarray)
    assert np.all(classes[:-1] < classes[1:])
    back = labels.decode(y, classes)
    assert back.dtype == classes.dtype
    assert back.tolist() == np.asarray(raw).tolist()


@hypothesis.given(st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=20))
@hypothesis.settings(deadline=None, max_examples=50)
def test_any_integers(raw):
    y, classes = labels.encode(raw)
    assert labels.decode(y, classes).tolist() == raw
    assert classes.tolist() == sorted(set(raw))


@pytest.mark.parametrize("ordered", [True, False])
def test_categories_keep_their_order(ordered):
    pandas = pytest.importorskip("pandas")
    sizes, raw = ["small", "medium", "large"], ["large", "small", "large", "small", "medium"]
    kinds = pandas.Categorical(raw, categories=["tiny", *sizes], ordered=ordered)
    for given in (kinds, pandas.Series(kinds, index=range(5, 10)), pandas.CategoricalIndex(kinds)):
        y, classes = labels.encode(given)
        assert classes.tolist() == sizes and y.tolist() == [2, 0, 2, 0, 1]
        assert labels.decode(y, classes).tolist() == raw
    numbers = pandas.Categorical([1, 10, 2, 10], categories=[10, 2, 1], ordered=ordered)
    y, classes = labels.encode(numbers)
    assert classes.tolist() == [10, 2, 1] and y.tolist() == [2, 0, 1, 0]
    holes = pandas.Series(pandas.Categorical(["b", None, "a"], categories=["b", "a"]))
    with pytest.raises(ValueError, match="raw: 1 of 3 labels are missing, the first at 1"):
        labels.encode(holes)
    assert labels.encode(pandas.Series(raw))[1].tolist() == sorted(sizes)


def test_decode_keeps_the_shape():
    assert labels.decode([[0, 1], [1, 1]], ["a", "b"]).tolist() == [["a", "b"], ["b", "b"]]
    assert labels.decode(1, ["a", "b"]) == "b"


@pytest.mark.parametrize(
    "raw", [["a", None, "b"], [1.0, np.nan, 2.0], np.array(["a", None, "b"], object)]
)
def test_missing_labels_are_counted_and_placed(raw):
    with pytest.raises(ValueError, match="raw: 1 of 3 labels are missing, the first at 1"):
        labels.encode(raw)


def test_missing_dates_are_missing():
    raw = np.array(["2020-01-01", "NaT"], "datetime64[D]")
    with pytest.raises(ValueError, match="raw: 1 of 2 labels are missing, the first at 1"):
        labels.encode(raw)


@pytest.mark.parametrize("raw, shape", [([[1, 2], [3, 4]], r"\(2, 2\)"), ("cat", r"\(\)")])
def test_one_dimension_is_expected(raw, shape):
    with pytest.raises(ValueError, match=rf"raw: expected shape \(n,\), got {shape}"):
        labels.encode(raw)


@pytest.mark.parametrize("index", [-1, 2])
def test_decode_refuses_what_encode_never_gave(index):
    words = rf"y: 1 indices lie outside 0\.\.1, the first at \(1,\): {index}"
    with pytest.raises(ValueError, match=words):
        labels.decode([0, index, 1], ["a", "b"])

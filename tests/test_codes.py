"""Ids, labels and numbers of classes keep their meaning, however large, and in 32 bits too.

By reflection over every public argument that is one.
"""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlin import inference, labels, linear, logistic, losses, metrics, resample, softmax
from jaxlin.types import Hyperplane, Linear
from tests import public

N = 24
KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(N, 2)).astype(np.float32), np.arange(N) % 2
FOLDS = resample.kfold(KEY, N, folds=3)
PLANE, _ = logistic.fit(X, Y, l2=0.1)


def validated(**ids):
    given = (public.mean_difference, metrics.accuracy, X, Y, FOLDS)
    return resample.permutation_test(KEY, *given, draws=5, **ids)


def clustered(clusters):
    options = {"l2": 0.1, "check": False}
    return inference.sandwich(losses.logistic, PLANE, X, Y, clusters=clusters, **options)


# What takes ids, by argument; a new one is to get a line.
IDS = {
    ("resample.group_kfold", "groups"): functools.partial(resample.group_kfold, folds=3),
    ("resample.stratified_kfold", "y"): lambda y: resample.stratified_kfold(KEY, y, folds=3),
    ("resample.permutations", "strata"): lambda s: resample.permutations(KEY, Y, draws=3, strata=s),
    ("resample.permutations", "groups"): lambda g: resample.permutations(KEY, Y, draws=3, groups=g),
    ("resample.permutation_test", "strata"): lambda s: validated(strata=s),
    ("resample.permutation_test", "groups"): lambda g: validated(groups=g),
    ("resample.stratified_group_kfold", "groups"): lambda g: resample.stratified_group_kfold(
        KEY, Y, g, folds=3
    ),
    ("resample.bootstrap", "groups"): lambda g: resample.bootstrap(KEY, N, draws=3, groups=g),
    ("resample.bayesian_bootstrap", "groups"): lambda g: resample.bayesian_bootstrap(
        KEY, N, draws=3, groups=g
    ),
    ("inference.sandwich", "clusters"): clustered,
    ("inference.score_bootstrap", "clusters"): lambda c: inference.score_bootstrap(
        KEY, losses.logistic, PLANE, X, Y, columns=0, draws=9, clusters=c, check=False
    ),
}
FEW = np.array([4, 0, 2, 5, 1, 3] * 4)
WIDE = {
    "beyond 32 bits": 3_000_000_000 + FEW,
    "that wrap to the same": FEW * 2**32 + 7,
    "negative": FEW - 5_000_000_000,
    "at the end of 64 bits": 2**63 - 1 - FEW[::-1].max() + FEW,
    "unsigned": np.uint64(2**64 - 6) + FEW.astype(np.uint64),
    "of Python": [2**70 + int(a) for a in FEW],
    "of Python, both signs": [(-1) ** int(a % 2) * (2**63 + int(a)) for a in FEW],
    "narrow": (FEW * 40 - 100).astype(np.int8),
    "small": FEW - 3,
}


def test_every_argument_of_ids_is_tried():
    names = {"groups", "strata", "clusters"}
    found = {
        (name, argument)
        for name, f in public.FUNCTIONS.items()
        for argument in names & set(inspect.signature(f).parameters)
        # Groups of features are numbers below num_groups, as classes are below num_classes.
        if "num_groups" not in inspect.signature(f).parameters
    }
    assert found == {key for key in IDS if key[1] in names}


def ranks(ids):
    """In arithmetic without end."""
    ids = [int(a) for a in ids]
    return np.array([sorted(set(ids)).index(a) for a in ids])


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("name", IDS, ids=lambda name: name[0])
def test_ids_are_their_ranks(name, wide):
    with jax.enable_x64(wide):
        for kind, ids in WIDE.items():
            assert len(set(ranks(ids))) == 6
            found, expected = IDS[name](ids), IDS[name](ranks(ids))
            assert np.isfinite(jax.tree.leaves(expected)[0]).all()
            for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
                np.testing.assert_array_equal(np.asarray(a), np.asarray(b), err_msg=kind)


def test_groups_that_wrap_to_one_are_dealt_apart():
    with jax.enable_x64(False):
        weights = resample.group_kfold(2**33 * np.arange(6), folds=3)
    assert np.asarray(weights.sum(axis=1)).tolist() == [4, 4, 4]


# --- clusters ------------------------------------------------------------------------------------


def test_clusters_are_of_any_numbers():
    clusters = np.array([-3, 7, 3_000_000_000, -3, 7, 0] * 4)
    plain = clustered(np.array([0, 1, 2, 0, 1, 3] * 4))
    assert np.isfinite(plain).all()
    public.assert_close(clustered(clusters), plain, 1e-5)
    sandwich = functools.partial(inference.sandwich, losses.logistic, PLANE, X, Y, l2=0.1)
    for number in (4, 24):
        public.assert_close(
            sandwich(clusters=clusters, num_clusters=number, check=False), plain, 1e-5
        )
    traced = jax.jit(lambda c: sandwich(clusters=c, num_clusters=4, check=False))
    public.assert_close(traced(np.array([-3, 7, 99, -3, 7, 0] * 4)), plain, 1e-5)
    assert np.isnan(traced(np.arange(N))).all()
    public.assert_close(jax.jit(lambda: clustered(clusters))(), plain, 1e-5)
    with pytest.raises(ValueError, match=r"num_clusters: expected at least 4, .*, got 3"):
        sandwich(clusters=clusters, num_clusters=3)
    with pytest.raises(TypeError, match="clusters: expected integers, got float"):
        sandwich(clusters=clusters / 2)
    with pytest.raises(
        ValueError, match=r"clusters: expected shape \(24,\) or \(24, r\), got \(23,\)"
    ):
        sandwich(clusters=clusters[1:])


def test_clusters_without_weight_are_not_there():
    clusters, weight = np.arange(N) % 4, np.ones(N)
    clusters[:3], weight[:3] = [50, -7, 2**40], 0
    options = {"sample_weight": weight, "l2": 0.1, "check": False}
    sandwich = functools.partial(inference.sandwich, losses.logistic, PLANE, X, Y, **options)
    found = sandwich(clusters=clusters, num_clusters=4)
    public.assert_close(found, sandwich(clusters=np.arange(N) % 4), 1e-5)


# --- labels --------------------------------------------------------------------------------------

# What returns labels, and so can but refuse those that it cannot hold.
RETURNED = {
    "resample.permutations": lambda y: resample.permutations(KEY, y, draws=2),
    "resample.pad": lambda y: resample.pad([(X, y)]),
}


@pytest.mark.parametrize("name", RETURNED)
def test_labels_that_would_come_back_as_others_are_refused(name):
    y = Y + 2**40
    with jax.enable_x64(False):
        with pytest.raises(ValueError, match=r"y: 24 of 24 entries are beyond int32, the first 1"):
            RETURNED[name](y)
        RETURNED[name](Y)
    RETURNED[name](y)


def labelled():
    """The functions of class indices, and where among the arguments these are."""
    return [
        name
        for name in public.CALLABLE
        if "y" in inspect.signature(public.FUNCTIONS[name]).parameters
        and name not in {*RETURNED, "resample.stratified_kfold"}
    ]


def outcome(call, arguments):
    try:
        return [np.asarray(leaf) for leaf in jax.tree.leaves(call(*arguments))]
    except ValueError:
        return None


@pytest.mark.parametrize("name", labelled())
def test_no_label_wraps_into_the_classes(name):
    """2^32 and the class are the same 32 bits: refused, or what 2^31 - 1 is, which is no class."""
    for case in public.cases_of(name):
        arguments = case.draw(np.random.default_rng(0))
        narrow = [single(a) for a in arguments]
        kinds = [np.asarray(a).dtype.kind if isinstance(a, np.ndarray) else "" for a in narrow]
        if "i" not in kinds:
            continue
        at = kinds.index("i")
        wide, most = list(narrow), list(narrow)
        wide[at] = narrow[at].astype(np.int64) + 2**32
        most[at] = np.full_like(narrow[at], 2**31 - 1, np.int32)
        with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
            found, expected = outcome(case.call, wide), outcome(case.call, most)
        if expected is None:
            assert found is None
            continue
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)


def single(a):
    if not isinstance(a, np.ndarray):
        return a
    return a.astype(np.float32) if a.dtype.kind == "f" else a


@pytest.mark.parametrize("name", public.NAMES)
def test_no_fit_takes_a_label_that_wraps(name):
    x, y, weight, mask = public.FITS[name].draw(0)
    with jax.enable_x64(False), pytest.raises(ValueError, match=r"y: 21 of 24 entries are outside"):
        public.FITS[name](x.astype(np.float32), y + 2**32, weight.astype(np.float32), mask)


def test_whole_numbers_that_floats_would_merge_are_classes_of_their_own():
    for raw in ([2**53 + 1, 2**53, 0.5], [-1, 2**63, 2**63 + 1], [12345678901234567, 2**70, 0]):
        y, classes = labels.encode(raw)
        assert [classes[i] for i in y] == raw and len(classes) == 3
        assert labels.decode(y, classes).tolist() == raw


def test_a_class_that_is_none_is_no_other():
    params = Linear(np.eye(3), np.arange(3.0))
    for wrong in (3, -1, 2**32 + 1, np.int64(2**32 + 1), np.array(7), jnp.int32(3)):
        for call in (
            lambda c: linear.between(params, 0, c),
            lambda c: linear.between(params, c, 0),
            lambda c: softmax.to_reference(params, c),
        ):
            with jax.enable_x64(False), pytest.raises(ValueError, match=r"expected a class in 0"):
                call(wrong)
    traced = jax.jit(lambda c: (linear.between(params, 0, c), softmax.to_reference(params, c)))
    assert all(np.isnan(leaf).all() for leaf in jax.tree.leaves(traced(3)))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(traced(2)))
    assert isinstance(traced(2)[0], Hyperplane)

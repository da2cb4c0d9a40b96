"""Every example in every docstring runs and prints what it says."""

import doctest
import importlib
import pkgutil

import jax
import pytest

import jaxlin

MODULES = [
    name
    for _, name, _ in pkgutil.walk_packages(jaxlin.__path__, "jaxlin.")
    if not name.endswith("__main__")
]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


# `.ci/run` has them in the code that a reader gets.
@pytest.mark.thorough
@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    # A reader has jax's own defaults, not this suite's strictness.
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        results = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert results.failed == 0

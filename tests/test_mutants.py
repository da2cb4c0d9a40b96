"""The faults of `tests/mutants.py` are faults of the present source; they are tried by hand."""

import ast

import pytest

from tests import mutants


@pytest.mark.parametrize("fault", mutants.FAULTS, ids=lambda f: f"{f.file}: {f.name}")
def test_every_fault_is_one(fault):
    assert ast.dump(ast.parse(mutants.changed(fault))) != ast.dump(ast.parse(mutants.source(fault)))


def test_names_tell_faults_apart():
    assert len({(fault.file, fault.name) for fault in mutants.FAULTS}) == len(mutants.FAULTS)


def test_every_named_test_is_there():
    named = {test.partition("[")[0] for fault in mutants.FAULTS for test in fault.tests}
    for test in named - {mutants.THOROUGH}:
        module, _, function = test.partition("::")
        tree = ast.parse((mutants.ROOT / module).read_text())
        assert any(isinstance(f, ast.FunctionDef) and f.name == function for f in tree.body), test

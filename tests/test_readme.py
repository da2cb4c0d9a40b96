"""The README keeps its word: its Python runs as a reader would run it, and prints what it says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import jaxlin
from jaxlin import _evaluate

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
# A block of Python, and the block of text after it, if that is what it prints.
EXAMPLE = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)


@pytest.mark.thorough
def test_examples_run_and_print_what_they_say():
    examples = EXAMPLE.findall(README)
    assert len(examples) >= 5
    # One process for all, with jax's own defaults and not this suite's; it stops at an error.
    source = "\nprint('\\f', end='')\n".join(code for code, _ in examples)
    run = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    printed = run.stdout.split("\f")
    for (code, expected), output in zip(examples, printed, strict=True):
        assert output == expected, code


def test_the_table_of_statuses_is_complete():
    rows = re.findall(r"^\| (\d) \| (\w+) \|", README, re.MULTILINE)
    assert rows == [(str(int(status)), status.name) for status in jaxlin.Status]


def test_the_printed_table_names_every_method():
    for method in _evaluate.methods(2):
        assert re.search(rf"^{re.escape(method.name)} {{2,}}0\.\d{{4}}", README, re.MULTILINE)


def test_the_methods_of_the_readme_exist():
    table = README.split("## Which method, when")[1].split("##")[0]
    calls = re.findall(r"^\| `(\w+)\.(\w+)", table, re.MULTILINE)
    assert calls
    for module, name in calls:
        assert callable(getattr(getattr(jaxlin, module), name))

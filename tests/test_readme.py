"""The README keeps its word: its Python runs as a reader would run it, and prints what it says."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jaxlin
from jaxlin._cli import _evaluate

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
# A block of Python, and the block of text after it, if that is what it prints.
EXAMPLE = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)


@pytest.mark.thorough
def test_examples_run_and_print_what_they_say():
    examples = EXAMPLE.findall(README)
    assert len(examples) >= 5
    # One process for all, with jax's own defaults and not this suite's; it stops at an error.
    source = "\nprint('\\f', end='')\n".join(code for code, _ in examples)
    run = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=900
    )
    assert run.returncode == 0, run.stderr
    printed = run.stdout.split("\f")
    for (code, expected), output in zip(examples, printed, strict=True):
        assert output == expected, code


def a_port():
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return one.getsockname()[1]


@pytest.mark.thorough
def test_the_program_of_several_processes_runs(tmp_path):
    """As it is saved and started there, but for the port."""
    (program,) = re.findall(r"```py\n(.*?)```", README, re.DOTALL)
    (commands,) = re.findall(r"```bash\n(.*?)```", README, re.DOTALL)
    (tmp_path / "fit.py").write_text(program, encoding="utf-8")
    x, y = np.random.default_rng(0).normal(size=(21, 3)), np.arange(21) % 2
    for rank, rows in enumerate([slice(0, 12), slice(12, 21)]):
        np.save(tmp_path / f"x{rank}.npy", x[rows].astype(np.float32))
        np.save(tmp_path / f"y{rank}.npy", y[rows])
    lines = [line.removesuffix(" &").split() for line in commands.strip().splitlines()]
    address, environment = f"localhost:{a_port()}", os.environ | {"PYTHONPATH": str(ROOT)}
    runs = [
        subprocess.Popen(
            [sys.executable, file, address, *numbers],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _, file, _, *numbers in lines
    ]
    # Gloo, which carries the sums, has lines of its own.
    printed = [run.communicate(timeout=300)[0].partition("Hyperplane") for run in runs]
    assert [before.split()[-1] for before, *_ in printed] == ["0", "1"]
    assert printed[0][1:] == printed[1][1:] and "status=Array(0" in printed[0][-1]


def test_the_picture_is_there():
    ((words, path),) = re.findall(r"^!\[(.*?)\]\((.*?)\)$", README, re.MULTILINE)
    assert len(words) > 40 and (ROOT / path).read_bytes().startswith(b"\x89PNG")


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

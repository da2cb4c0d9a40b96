"""README and guide keep their word: their Python runs as a reader would run it, and prints that."""

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
from tests import public

ROOT = Path(__file__).parent.parent
GUIDE = ROOT / "notebooks" / "guide"
# A block of Python, and the block of text after it, if that is what it prints.
EXAMPLE = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)


PAGES = {path.stem: path for path in [ROOT / "README.md", *sorted(GUIDE.glob("*.md"))]}
TEXTS = {name: path.read_text(encoding="utf-8") for name, path in PAGES.items()}


@pytest.mark.thorough
@pytest.mark.parametrize("page", [name for name, text in TEXTS.items() if EXAMPLE.search(text)])
def test_examples_run_and_print_what_they_say(page):
    if page == "start":  # frames in a scikit-learn pipeline
        pytest.importorskip("pandas")
    examples = EXAMPLE.findall(TEXTS[page])
    # One process for all, with jax's own defaults and not this suite's; it stops at an error.
    source = "\nprint('\\f', end='')\n".join(code for code, _ in examples)
    run = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=900
    )
    assert run.returncode == 0, run.stderr
    printed = run.stdout.split("\f")
    for (code, expected), output in zip(examples, printed, strict=True):
        assert output == expected, code


def test_the_readme_is_short():
    assert len(TEXTS["README"].splitlines()) <= 150


def anchors(text):
    """What GitHub makes of headings."""
    return {
        re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in text.splitlines()
        if line.startswith("#")
    }


@pytest.mark.parametrize("page", TEXTS)
def test_every_link_leads_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", TEXTS[page]):
        path = (PAGES[page].parent / target).resolve() if target else PAGES[page]
        assert path.is_file(), (page, target)
        assert not anchor or anchor in anchors(path.read_text(encoding="utf-8")), (page, anchor)


def test_every_page_is_linked_from_the_readme():
    linked = set(re.findall(r"notebooks/guide/([\w-]+)\.md", TEXTS["README"]))
    assert linked == set(TEXTS) - {"README"}


def named(text):
    """What is called `module.name` in a text."""
    return {
        (module, name)
        for code in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text)
        for module, name in re.findall(r"\b([a-z_]+)\.(\w+)", code)
        if module in public.MODULES and name != "py"
    }


@pytest.mark.parametrize("page", TEXTS)
def test_what_is_named_exists(page):
    for module, name in named(re.sub(r"```.*?```", "", TEXTS[page], flags=re.DOTALL)):
        assert hasattr(public.MODULES[module], name), f"{module}.{name}"


def a_port():
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return one.getsockname()[1]


@pytest.mark.thorough
def test_the_program_of_several_processes_runs(tmp_path):
    """As it is saved and started there, but for the port."""
    (program,) = re.findall(r"```py\n(.*?)```", TEXTS["scale"], re.DOTALL)
    (commands,) = re.findall(r"```bash\n(.*?)```", TEXTS["scale"], re.DOTALL)
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
    ((words, path),) = re.findall(r"^!\[(.*?)\]\((.*?)\)$", TEXTS["README"], re.MULTILINE)
    assert len(words) > 40 and (ROOT / path).read_bytes().startswith(b"\x89PNG")


def test_the_table_of_statuses_is_complete():
    rows = re.findall(r"^\| (\d) \| (\w+) \|", TEXTS["conventions"], re.MULTILINE)
    assert rows == [(str(int(status)), status.name) for status in jaxlin.Status]


def test_the_printed_table_names_every_method():
    for method in _evaluate.methods(2):
        row = rf"^{re.escape(method.name)} {{2,}}0\.\d{{4}}"
        assert re.search(row, TEXTS["command-line"], re.MULTILINE)


def test_every_fit_is_among_the_methods():
    """By name, or by that of its module."""
    table = TEXTS["methods"]
    for name in public.FUNCTIONS:
        if public.is_fit(name) and not name.startswith("calibration."):
            module = name.split(".")[0]
            assert f"`{name}" in table or f"`{module}." in table, name

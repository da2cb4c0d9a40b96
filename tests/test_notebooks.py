"""The notebooks: what is committed has been run, and runs again from clean without a warning."""

import json
import os
import pathlib
import re
import subprocess
import sys
import time
import warnings

import pytest

FOLDER = pathlib.Path(__file__).parent.parent / "notebooks"
PATHS = sorted(FOLDER.glob("*.ipynb"))
# A notebook takes at most so many times what eight programs of a dozen lines take from clean in the
# same minutes: a machine can be three times as slow at compiling as another, or as itself. The
# slowest takes 16.5 times, 124 s where those take 7.5.
LIMIT = 20
TEXTBOOK = """
import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)


def newton(x, y):
    def step(carry):
        w, _, i = carry
        p = jax.nn.sigmoid(x @ w)
        grad = x.T @ (p - y) / len(y) + 0.1 * w
        hessian = (x.T * (p * (1 - p))) @ x / len(y) + 0.1 * jnp.eye(len(w))
        move = jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(hessian), grad)
        return w - move, jnp.abs(grad).max(), i + 1

    def more(carry):
        return (carry[1] > 1e-8) & (carry[2] < 50)

    return jax.lax.while_loop(more, step, (jnp.zeros(x.shape[1]), jnp.inf, 0))[0]


x = jax.random.normal(jax.random.key(0), (200, 10))
for d in range(1, 9):
    jax.block_until_ready(jax.jit(newton)(x[:, :d], (x[:, 0] > 0).astype(float)))
"""
A_FOLDER = re.compile(r"(?<![\w./:])/(tmp|home|root|usr|var|opt|mnt|work|private|Users)\b")


def by_name(path):
    return path.stem


def code_cells(notebook):
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [(cell, "".join(cell["source"])) for cell in cells]


def printed(outputs):
    """All text that a cell's outputs show."""
    for output in outputs:
        yield "".join(output.get("text", []))
        yield "".join(output.get("data", {}).get("text/plain", []))


def unwanted(outputs):
    """Errors, and what went to stderr, such as warnings."""
    return [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"]


def reader():
    """A reader's settings, not this suite's; a notebook sets its own."""
    return {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}


@pytest.fixture(scope="module")
def pace():
    """Seconds of the eight programs, now."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", TEXTBOOK], env=reader(), check=True, timeout=600)
    return time.monotonic() - began


def test_there_are_notebooks():
    assert PATHS


@pytest.mark.parametrize("path", PATHS, ids=by_name)
def test_what_is_committed_has_been_run(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = code_cells(notebook)
    assert [cell["execution_count"] for cell, _ in cells] == list(range(1, len(cells) + 1))
    assert any(cell["outputs"] for cell, _ in cells)
    assert "image/png" in json.dumps(notebook), "no picture"
    for cell, source in cells:
        assert not unwanted(cell["outputs"]), source
        for text in [source, *printed(cell["outputs"])]:
            assert not A_FOLDER.search(text), f"a folder of one machine: {text}"
    assert re.search(r"^assert ", cells[-1][1], re.MULTILINE), "nothing is checked at the end"


@pytest.mark.thorough
@pytest.mark.parametrize("path", PATHS, ids=by_name)
def test_runs_from_clean(path, tmp_path, pace):
    pytest.importorskip("ipykernel")
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=round(2 * LIMIT * pace), resources={"metadata": {"path": str(tmp_path)}}
    )
    began = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the client; those of the notebook are in its outputs
        client.execute(env=reader())
    took = time.monotonic() - began
    for cell in notebook.cells:
        assert not unwanted(cell.get("outputs", [])), cell.source
    assert took < LIMIT * pace, f"{took:.0f} s, {took / pace:.1f} times the textbook's"

"""The notebooks: what is committed has been run, and runs again from clean without a warning."""

import json
import os
import pathlib
import re
import warnings

import pytest

FOLDER = pathlib.Path(__file__).parent.parent / "notebooks"
PATHS = sorted(FOLDER.glob("*.ipynb"))
SECONDS = 900  # a cell that takes so long hangs
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
def test_runs_from_clean(path, tmp_path):
    pytest.importorskip("ipykernel")
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.read(path, as_version=4)
    folder = {"metadata": {"path": str(tmp_path)}}
    client = nbclient.NotebookClient(notebook, timeout=SECONDS, resources=folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the client; those of the notebook are in its outputs
        client.execute(env=reader())
    for cell in notebook.cells:
        assert not unwanted(cell.get("outputs", [])), cell.source

"""Imports go downward only, and the package needs no more than it says."""

import ast
import pathlib
import subprocess
import sys

import jaxlin

PACKAGE = pathlib.Path(jaxlin.__file__).parent

# Each module imports only from lines above its own and from its left; a method, only from above.
BELOW = [
    "types",
    "_archive",
    "_words",
    "_checks",
    "_codes",
    "labels",
    "_options",
    "_platform",
    "_loops",
    "_stream",
    "_rows",
    "_linalg",
    "_implicit",
    "_lanes",
    "_draws",
    "_paths",
    "_visits",
    "_scatter",
    "_statistics",
    "_closed_form",
    "_flat",
    "_bayes",
    "linear",
    "quadratic",
    "pairwise",
    "losses",
    "updates",
    "features",
    "metrics",
    "moments",
    "gaussian",
    "datasets",
    "_dispatch",
    "_iterate",
    "solvers",
    "_frame",
    "_passes",
    "_plan",
    "_proof",
    "_newton",
    "_mixed",
    "_sampled",
    "_quasi",
    "_truncated",
    "_dual",
    "_wide",
    "_gap",
    "_interior",
    "_crammer_singer",
    "_margin",
    "_matrix_free",
    "_axes",
    "_risk",
]
METHODS = ["perceptron", "least_squares", "fisher", "lda", "qda", "logistic", "softmax", "svm"]
OF_FITS = ["multiclass", "_prepared", "resample", "_estimate", "_separation", "inference"]
OF_FITS += ["distributed", "_numerals", "_text", "_sheet", "_source", "_descent", "streaming"]
PICTURES = ["plot"]  # some are of one method: the street is svm's
COMMAND_LINE = ["_table", "_evaluate", "_report", "_large", "__main__"]
ORDER = [*BELOW, *METHODS, *OF_FITS, *PICTURES, *COMMAND_LINE]
ALLOWED = {"jax", "jaxlib", "jaxlin", "optax", "numpy"} | sys.stdlib_module_names
MODULES = sorted(path.stem for path in PACKAGE.glob("*.py") if path.stem != "__init__")


def imports(name):
    """`(node, names, at module level)` of each import; jaxlin's own as the modules' bare names."""
    tree = ast.parse((PACKAGE / f"{name}.py").read_text())
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield node, [alias.name for alias in node.names], id(node) in top
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: relative import in line {node.lineno}"
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            yield node, inside if node.module == "jaxlin" else [node.module], id(node) in top


def own_imports(name):
    for node, names, _ in imports(name):
        for full in names:
            if full.split(".")[0] == "jaxlin":
                assert "." in full, f"{name} imports jaxlin itself in line {node.lineno}"
                yield full.split(".")[1]


def test_every_module_has_its_place():
    unplaced = [name for name in MODULES if name not in ORDER]
    assert not unplaced, f"put these into a layer of tests/test_layers.py: {unplaced}"


def test_imports_go_downward():
    wrong = [
        f"{name} imports {other}"
        for name in MODULES
        for other in own_imports(name)
        if other not in ORDER or ORDER.index(other) >= ORDER.index(name)
    ]
    assert not wrong, wrong


def test_no_method_imports_another():
    wrong = [
        f"{name} imports {other}"
        for name in METHODS
        if name in MODULES
        for other in own_imports(name)
        if other in METHODS
    ]
    assert not wrong, wrong


def test_functions_of_fits_know_no_method():
    """They take fits as arguments; a method by name is the command line's business."""
    wrong = [
        f"{name} imports {other}"
        for name in OF_FITS
        if name in MODULES
        for other in own_imports(name)
        if other in METHODS
    ]
    assert not wrong, wrong


def test_nothing_but_the_declared_dependencies():
    for name in [*MODULES, "__init__"]:
        for node, names, top in imports(name):
            for full in names:
                root = full.split(".")[0]
                if root in ("matplotlib", "tqdm"):
                    assert not top, f"{name}, line {node.lineno}: {root} at module level"
                else:
                    assert root in ALLOWED, f"{name}, line {node.lineno}: {full}"


def test_no_private_part_of_jax():
    wrong = [
        f"{name}: {full}"
        for name in MODULES
        for _, names, _ in imports(name)
        for full in names
        if full.startswith(("jax._", "jax.experimental"))
    ]
    assert not wrong, wrong


def test_import_is_light():
    """Neither optax nor matplotlib, which take longer than the package, nor any computation."""
    program = (
        "import sys, jaxlin\n"
        "heavy = {'optax', 'matplotlib', 'sklearn', 'chex', 'pandas', 'scipy.stats'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "from jax._src import xla_bridge\n"
        "print(xla_bridge.backends_are_initialized())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["[]", "False"]


def test_package_is_typed():
    assert (PACKAGE / "py.typed").exists()

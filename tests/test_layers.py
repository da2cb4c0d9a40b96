"""Imports go downward only, and the package needs no more than it says."""

import ast
import graphlib
import pathlib
import subprocess
import sys

import jaxlin

PACKAGE = pathlib.Path(jaxlin.__file__).parent

# Private code lives in folders that are its layers: each imports from those above it here, and from
# the public vocabulary.
LAYERS = ["_base", "_linalg", "_scores", "_data", "_files", "_moments", "_batch", "_smooth"]
LAYERS += ["_nonsmooth", "_margin", "_infer", "_cli"]
VOCABULARY = [
    "types",
    "sparse",
    "labels",
    "linear",
    "quadratic",
    "pairwise",
    "losses",
    "updates",
    "features",
]
VOCABULARY += ["metrics", "moments", "gaussian", "ordinal", "datasets", "solvers"]
METHODS = [
    "naive_bayes",
    "perceptron",
    "least_squares",
    "fisher",
    "centroids",
    "lda",
    "qda",
    "logistic",
    "softmax",
    "svm",
]
OF_FITS = ["multiclass", "resample", "probes", "inference", "distributed", "streaming"]
OF_FITS += ["calibration", "conformal", "effects", "estimators"]
# Pictures are of fits, some of one method: the street is svm's.
AT_THE_END = ["plot", "__main__"]
PUBLIC = [*VOCABULARY, *METHODS, *OF_FITS, *AT_THE_END]
ALLOWED = {"jax", "jaxlib", "jaxlin", "optax", "numpy"} | sys.stdlib_module_names
PATHS = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
MODULES = [name for name in PATHS if name != "__init__"]


def imports(name):
    """`(node, full names, at module level)` of each import."""
    tree = ast.parse(PATHS[name].read_text())
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield node, [alias.name for alias in node.names], id(node) in top
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: relative import in line {node.lineno}"
            yield node, [f"{node.module}.{alias.name}" for alias in node.names], id(node) in top


def own_imports(name, *, top_only=False):
    """The modules of jaxlin that one imports, by their names inside it."""
    for node, names, top in imports(name):
        for full in names:
            if full.split(".")[0] == "jaxlin" and (top or not top_only):
                inside = full.removeprefix("jaxlin.")
                found = inside if inside in PATHS else inside.rpartition(".")[0]
                assert found in MODULES, f"{name} imports jaxlin itself in line {node.lineno}"
                yield found


def layer(name):
    return name.split(".")[0]


def test_every_module_has_its_place():
    unplaced = [name for name in MODULES if layer(name) not in (*LAYERS, *PUBLIC)]
    assert not unplaced, f"put these into a layer of tests/test_layers.py: {unplaced}"


def test_layers_import_from_those_above_and_from_the_vocabulary():
    wrong = [
        f"{name} imports {other}"
        for name in MODULES
        if layer(name) in LAYERS[:-1]  # the command line is of everything
        for other in own_imports(name)
        if other not in VOCABULARY and layer(other) not in LAYERS[: LAYERS.index(layer(name)) + 1]
    ]
    assert not wrong, wrong


def test_the_vocabulary_knows_no_fit():
    allowed = [*VOCABULARY, *LAYERS]
    wrong = [
        f"{name} imports {other}"
        for name in VOCABULARY
        for other in own_imports(name)
        if layer(other) not in allowed
    ]
    assert not wrong, wrong


def test_no_modules_import_each_other():
    graph = {name: set(own_imports(name, top_only=True)) - {name} for name in MODULES}
    order = tuple(graphlib.TopologicalSorter(graph).static_order())  # or a CycleError
    assert len(order) == len(MODULES)


def test_no_method_imports_another():
    wrong = [
        f"{name} imports {other}"
        for name in METHODS
        for other in own_imports(name)
        if other in METHODS
    ]
    assert not wrong, wrong


def test_functions_of_fits_know_no_method():
    """They take fits as arguments; a method by name is the command line's business."""
    wrong = [
        f"{name} imports {other}"
        for name in OF_FITS
        for other in own_imports(name)
        if other in METHODS
    ]
    assert not wrong, wrong


def test_nothing_but_the_declared_dependencies():
    for name in [*MODULES, "__init__"]:
        for node, names, top in imports(name):
            for full in names:
                root = full.split(".")[0]
                if root == "sklearn":
                    assert name == "estimators", f"{name}, line {node.lineno}: {full}"
                elif root in ("matplotlib", "tqdm"):
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

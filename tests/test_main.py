"""The command line: every bad file gets one line that names the place, every good one a table."""

import io
import json
import re
import subprocess
import sys

import numpy as np
import pytest

import jaxlin
from jaxlin import (
    datasets,
    inference,
    lda,
    logistic,
    losses,
    metrics,
    perceptron,
    qda,
    resample,
    softmax,
)
from jaxlin.__main__ import main
from jaxlin._base import _traits
from jaxlin._cli import _evaluate, _large, _report, _table
from jaxlin._files._sheet import BadInput
from jaxlin.types import Status

GOOD = "a,b,kind\n1,2,x\n3,4,y\n5,7,x\n8,8,y\n"


@pytest.fixture
def write(tmp_path):
    def write_file(content, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write_file


@pytest.fixture
def quick(monkeypatch):
    """One cheap method in place of all."""
    methods = (_evaluate.Method("perceptron", perceptron.fit, lambda n: {"max_epochs": 20}),)
    monkeypatch.setattr(_evaluate, "METHODS", methods)


@pytest.fixture(autouse=True)
def no_cache(monkeypatch):
    """Programs of a test are not kept, in this process and in those that it starts."""
    monkeypatch.setattr("jaxlin.__main__._keep_programs", lambda: None)
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/none")


# Bad input: exit code 2, one line on stderr, nothing on stdout

BAD = {
    "empty": ("", ["the file is empty"]),
    "blank lines only": ("\n\n  \n", ["the file is empty"]),
    "header only": ("a,b,kind\n", ["a header but no rows"]),
    "one column": ("kind\nx\ny\n", ["only one column found"]),
    "ragged, short": (GOOD + "1,x\n", ["row 5 (line 6) has 2 cells, expected 3", "'kind'"]),
    "ragged, long": (GOOD + "1,2,3,x\n", ["row 5 (line 6) has 4 cells", "after column 'kind'"]),
    "ragged after blank": (GOOD + "\n\n1,x\n", ["row 5 (line 8)"]),
    "not a number": (
        "a,b,kind\n1,2,x\n3,oops,y\n5,7,x\n",
        ["row 2 (line 3), column 'b'", "'oops' is not a number"],
    ),
    "not a number, no header": (
        "1,2,x\n3,oops,y\n5,7,x\n2,2,x\n",
        ["row 2 (line 2), column 'column 2' (no header found", "'oops'"],
    ),
    "infinite": ("a,b,kind\n1,2,x\n3,-inf,y\n5,7,x\n", ["row 2", "'b'", "'-inf' is not finite"]),
    "too large": ("a,b,kind\n1,2,x\n3,1e300,y\n5,7,x\n", ["row 2", "'b'", "too large"]),
    "one class": ("a,kind\n1,x\n2,x\n", ["target 'kind' holds one class only, 'x' (2 rows)"]),
    "one class written twice": ("a,kind\n1,1\n2,1.0\n", ["one class only, '1'"]),
    "a class per row": ("a,kind\n1,x\n2,y\n3,z\n", ["3 distinct values in 3 rows", "--target"]),
    "regression": (
        "a,price\n" + "".join(f"{i % 3},{i * 1.5}\n" for i in range(40)),
        ["target 'price' holds 40 distinct numbers in 40 rows", "regression", "--target"],
    ),
    "no target anywhere": ("a,kind\n1,\n2,?\n", ["target 'kind' is missing in every row"]),
    "nothing to learn from": ("a,kind\n1,x\n1,y\n1,x\n", ["no column besides", "'a' (constant)"]),
    "line break in a name": ('"a\nb",kind\n1,x\n,\n1,x,3\n', ["row 2 (line 5)"]),
    "open quote": ('a,kind\n1,"x\n2,y\n', ["line 3", "check the quotes"]),
    "binary": (b"\x00\x01\x02,\n", ["not a text file"]),
    "workbook": (b"PK\x03\x04abc", ["export it as CSV"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_file(case, write, capsys):
    content, expected = BAD[case]
    assert_refused([write(content)], expected, capsys)


def assert_refused(argv, expected, capsys):
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("jaxlin: ")
    for words in expected:
        assert words in err


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--target", "king"], ["no column 'king', did you mean 'kind'?", "'a', 'b', 'kind'"]),
        (["--target", "zzz"], ["no column 'zzz'; columns: 'a', 'b', 'kind'"]),
        (["--folds", "1"], ["--folds: expected at least 2, got 1"]),
        (["--folds", "many"], ["argument --folds: invalid int value: 'many'"]),
        (["--seed", "-1"], ["--seed: expected from 0"]),
        (["--colour"], ["unrecognized arguments: --colour"]),
        (["--stream", "--summary"], ["--summary: looks at all rows at once"]),
        (["--json", "/nowhere/out.json"], ["--json /nowhere/out.json: no such folder"]),
        (["--json", "/"], ["expected the name of a file"]),
    ],
)
def test_bad_option(argv, expected, write, capsys):
    assert_refused([write(GOOD), *argv], expected, capsys)


def test_files_that_cannot_be_read(tmp_path, capsys):
    assert_refused([str(tmp_path / "none.csv")], ["none.csv: no such file"], capsys)
    assert_refused([str(tmp_path)], [f"{tmp_path}: Is a directory"], capsys)
    assert_refused(["--target", "a"], ["no file was given"], capsys)


def test_without_matplotlib(write, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    expected = ['pip install "jaxlin[plot]"']
    assert_refused([write(GOOD), "--plot", "out.png"], expected, capsys)


def test_a_kind_of_picture_that_cannot_be_drawn(write, capsys):
    pytest.importorskip("matplotlib")
    expected = ["--plot out.abc: expected a name ending in one of", ".png"]
    assert_refused([write(GOOD), "--plot", "out.abc"], expected, capsys)


def test_interrupt(write, capsys, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_evaluate, "folds", interrupt)
    assert main([write(GOOD)]) == 130
    assert capsys.readouterr().err == "jaxlin: interrupted\n"


# Good input: what is made of it, and what is said about it


def test_header_and_names(write):
    data = _table.read(write(GOOD))
    np.testing.assert_array_equal(data.x, [[1, 2], [3, 4], [5, 7], [8, 8]])
    assert data.features == ["a", "b"] and data.classes == ["x", "y"] and data.target == "kind"
    assert data.y.tolist() == [0, 1, 0, 1]
    assert data.notes == ["target: 'kind', the last column (--target chooses another)"]


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace(",", ";"),
        GOOD.replace(",", "\t"),
        GOOD.replace(",", "|"),
        GOOD.replace("\n", "\r\n"),
        GOOD.replace("\n", "\n\n"),
        "\ufeff" + GOOD,
        GOOD.replace("kind", '"kind"').replace("x", '" x"'),
        GOOD.replace(",", " , "),
        "".join(f"{line},\n" for line in GOOD.splitlines()),
        GOOD.rstrip("\n"),
        GOOD + ",,\n",
    ],
)
def test_dialects(text, write):
    data, plain = _table.read(write(text)), _table.read(write(GOOD, "plain.csv"))
    np.testing.assert_array_equal(data.x, plain.x)
    np.testing.assert_array_equal(data.y, plain.y)
    assert data.features == plain.features and data.classes == plain.classes


def test_decimal_comma(write):
    data = _table.read(write("a;b;kind\n1,5;2;x\n-3,25;4;y\n5;7;x\n"))
    np.testing.assert_array_equal(data.x, [[1.5, 2], [-3.25, 4], [5, 7]])


def test_no_header(write):
    data = _table.read(write("5.1,3.5,setosa\n4.9,3.0,setosa\n6.3,3.3,virginica\n"))
    assert data.features == ["column 1", "column 2"] and len(data.y) == 3
    assert any("no header" in note for note in data.notes)
    letters = _table.read(write("p,x,e\np,y,f\nq,x,e\nq,y,f\np,x,f\n"))
    assert len(letters.y) == 5
    assert _table.read(write("1,0\n2,1\n3,0\n")).classes == ["0", "1"]


def test_target_by_name(write):
    path = write("Label,a,b\n0,1,5\n1,2,5.5\n0,3,7\n")
    data = _table.read(path)
    assert data.target == "Label" and data.features == ["a", "b"] and data.classes == ["0", "1"]
    assert "by its name" in data.notes[0]
    path = write("a,B,c\n1,x,3\n2,y,4\n3,x,5\n")
    assert _table.read(path, "b").target == "B"


def test_numeric_classes_are_numbers(write):
    data = _table.read(write("a,y\n1,10\n2,9.0\n3,9\n4,-1\n"))
    assert data.classes == ["-1", "9", "10"] and data.y.tolist() == [2, 1, 1, 0]


def test_missing_values(write):
    text = "a,c,kind\n1,red,x\n,red,y\n6,NA,x\nNaN,blue,y\n2,?,?\n5,blue,\n2,red,x\n"
    data = _table.read(write(text))
    np.testing.assert_allclose(data.x, [[1, 1], [3, 1], [6, 1], [3, 0], [2, 1]])
    assert data.features == ["a", "c=red"]
    assert "2 rows without a target dropped (first: row 5)" in data.notes
    assert any(
        "'a' (2, by the mean 3), 'c' (1, by the most frequent, 'red')" in n for n in data.notes
    )


def test_place_is_that_of_the_file_after_dropped_rows(write):
    text = "a,kind\n1,\n\n2,x\n3,y\noops,x\n4,y\n"
    with pytest.raises(BadInput, match=r"row 4 \(line 6\), column 'a'"):
        _table.read(write(text))


def test_categories_and_useless_columns(write):
    rows = [f"name{i},{'abc'[i % 3]},{i},7,,{'xy'[i % 2]}" for i in range(12)]
    data = _table.read(write("\n".join(["who,c,a,same,void,kind", *rows])))
    assert data.features == ["c=b", "c=c", "a"]
    np.testing.assert_array_equal(data.x[:3], [[0, 0, 0], [1, 0, 1], [0, 1, 2]])
    assert any("'c' (3)" in note for note in data.notes)
    dropped = "'who' (text, 12 distinct values), 'same' (constant), 'void' (empty)"
    assert any(dropped in note for note in data.notes)


def test_a_category_may_have_many_levels(write):
    rows = [f"state{i % 52},{i},{'xy'[i % 3 == 0]}" for i in range(156)]
    data = _table.read(write("\n".join(["state,a,kind", *rows])))
    assert len(data.features) == 52
    assert data.x[:, :51].sum() == 153
    assert any("'state' (52)" in note for note in data.notes)


def test_repeated_and_nameless_columns(write):
    data = _table.read(write("a,a,,kind\n1,2,3,x\n3,4,4,y\n5,7,9,x\n"))
    assert data.features == ["a", "a (2)", "column 3"]
    assert any("second 'a'" in note for note in data.notes)


# The whole run


@pytest.fixture(scope="module")
def breast_cancer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    out, err, before = io.StringIO(), io.StringIO(), (sys.stdout, sys.stderr)
    sys.stdout, sys.stderr = out, err
    try:
        code = main(["--folds", "4", "--json", f"{folder}/out.json"])
    finally:
        sys.stdout, sys.stderr = before
    return code, out.getvalue(), folder


@pytest.mark.thorough
def test_embedded_data_with_every_method(breast_cancer):
    code, out, _ = breast_cancer
    assert code == 0
    for method in _evaluate.methods(2):
        (line,) = [row for row in out.splitlines() if row.startswith(f"{method.name}  ")]
        assert float(line.split("+-")[0].split()[-1]) > 0.9
        told = _traits.of(method.fit).log_odds
        assert ("-  " in line.split("+-")[1]) != told
        if told:
            assert "converged (4 of 4)" in line
    assert "569 rows, 30 features, 2 classes" in out and "4-fold cross-validation" in out


@pytest.mark.thorough
def test_json_is_strict_and_complete(breast_cancer):
    content = json.loads((breast_cancer[2] / "out.json").read_text(), parse_constant=pytest.fail)
    assert content["rows"] == 569 and content["folds"] == 4 and len(content["classes"]) == 2
    assert [m["name"] for m in content["methods"]] == [m.name for m in _evaluate.methods(2)]
    for record, method in zip(content["methods"], _evaluate.methods(2), strict=True):
        assert (record["log_loss"] is not None) == method.log_odds
        assert (record["fold_features_kept"] is not None) == method.chooses
        assert len(record["fold_accuracy"]) == 4 and sum(record["status"].values()) == 4


def test_plot_is_an_image(quick, write, tmp_path):
    pytest.importorskip("matplotlib")
    assert main([write(GOOD), "--folds", "2", "--plot", str(tmp_path / "out.png")]) == 0
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


def test_three_classes_go_through_one_vs_rest(write, capsys, monkeypatch):
    methods = [m for m in _evaluate.METHODS if m.name == "logistic, Newton"]
    monkeypatch.setattr(_evaluate, "METHODS", methods)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2)) + 4 * np.eye(3, 2)[np.arange(60) % 3]
    lines = [f"{a},{b},{'xyz'[i % 3]}" for i, (a, b) in enumerate(x)]
    assert main([write("\n".join(["a,b,kind", *lines])), "--folds", "3"]) == 0
    out, _ = capsys.readouterr()
    (line,) = [row for row in out.splitlines() if row.startswith("logistic")]
    assert "3 classes (x 20, y 20, z 20)" in out and "converged (3 of 3)" in line
    assert float(line.split()[2]) > 0.9 and float(line.split()[5]) < 0.4


def test_the_summary_of_all_rows(quick, write, capsys):
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=(90, 2)), rng.normal(size=90)
    three = np.digitize(x[:, 0] + noise, [-0.7, 0.7])
    for names, y in (("ab", three > 0), ("abc", three)):
        rows = zip(x[:, 0], 2 * x[:, 0], x[:, 1], y, strict=True)
        lines = [f"{a!r},{b!r},{c!r},{names[int(d)]}" for a, b, c, d in rows]
        table = "\n".join(["age,twice,dose,kind", *lines]).replace("np.float64(", "")
        assert main([write(table.replace(")", "")), "--folds", "2", "--summary"]) == 0
        out = capsys.readouterr().out.split("regression, ")[1].splitlines()
        fit, loss = (
            (logistic.fit, losses.logistic) if names == "ab" else (softmax.fit, losses.softmax)
        )
        mask = np.array([True, False, True])
        whole = np.column_stack([x[:, 0], 2 * x[:, 0], x[:, 1]])
        params, _ = fit(whole, y.astype(int), feature_mask=mask)
        options = {"feature_mask": mask} | ({} if names == "ab" else {"reference": 0})
        known = inference.summary(loss, params, whole, y.astype(int), **options)
        shown = known.table(names=["age", "twice", "dose"], classes=list(names)).splitlines()
        assert out[2:-1] == shown
        assert out[-1] == "given by the columns before them, and left out: twice"
        assert [row.split()[2] for row in shown if row.startswith("twice")] == ["-"] * (
            len(names) - 1
        )


def test_fewer_folds_and_rare_classes_are_said(quick, write, capsys):
    text = "a,b,kind\n1,1,x\n2,2,y\n3,1,x\n5,2,y\n5,1,x\n0,7,z\n"
    assert main([write(text)]) == 0
    out, _ = capsys.readouterr()
    assert "3 folds instead of 10: no class has more rows than that" in out
    assert "fewer rows than folds in the classes: 'y' (2), 'z' (1)" in out
    assert "3-fold cross-validation" in out


def test_seed_deals_other_folds(quick, write, capsys):
    rng = np.random.default_rng(1)
    lines = [f"{a},{b},{'xy'[i % 2]}" for i, (a, b) in enumerate(rng.normal(size=(40, 2)))]
    path = write("\n".join(["a,b,kind", *lines]))
    accuracy = []
    for seed in ("0", "1"):
        assert main([path, "--seed", seed]) == 0
        out = capsys.readouterr().out
        accuracy.append(
            next(r for r in out.splitlines() if r.startswith("perceptron")).split()[1:4]
        )
    assert accuracy[0] != accuracy[1]


def test_progress_goes_to_stderr(quick, write, capsys, monkeypatch):
    monkeypatch.setattr("jaxlin.__main__.LOG_SECONDS", 0)
    assert main([write(GOOD), "--folds", "2"]) == 0
    out, err = capsys.readouterr()
    lines = ["compiling: 1 of 1", "perceptron: fold 1 of 2", "perceptron: fold 2 of 2"]
    assert err.splitlines() == lines and "fold 1" not in out


def test_table_words():
    outcome = _evaluate.Outcome(
        name="m",
        accuracy=np.array([0.5, 1.0, np.nan]),
        log_loss=np.array([0.1, np.inf, np.nan]),
        status=np.array([Status.CONVERGED, Status.SEPARABLE, Status.SEPARABLE]),
        fit_seconds=0.002,
        compile_seconds=1.5,
    )
    lines = _report.table([outcome]).splitlines()
    cells = [
        "m",
        "(0.7500 of 2 folds)",
        "(inf of 2 folds)",
        "2.0 ms",
        "1.5 s",
        "separable (2 of 3)",
    ]
    assert re.split(r"  +", lines[2]) == cells
    assert lines[-1] == f"separable: {Status.SEPARABLE.meaning}"
    assert np.isnan(_report.mean_and_error(np.array([np.nan]))[0])
    *_, status = _report._cells(outcome._replace(kept=np.array([8, 9, 9])))
    assert status == "separable (2 of 3), 8.67 features kept"


def test_features_that_an_l1_keeps_are_counted(write, tmp_path, monkeypatch):
    """Of each fold those of a fit to its standardised training rows."""
    methods = [m for m in _evaluate.METHODS if m.chooses]
    monkeypatch.setattr(_evaluate, "METHODS", methods)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 6))
    y = x[:, 0] - x[:, 1] + 0.5 * rng.logistic(size=300) > 0
    lines = [",".join([*map(repr, row.tolist()), "ab"[t]]) for row, t in zip(x, y * 1, strict=True)]
    path = write("\n".join(["u,v,w,p,q,r,kind", *lines]))
    out = tmp_path / "out.json"
    assert main([path, "--folds", "3", "--json", str(out)]) == 0
    (found,) = json.loads(out.read_text())["methods"]
    weights, _ = _evaluate.folds(_table.read(path), 3, 0)
    for weight, kept in zip(weights, found["fold_features_kept"], strict=True):
        rows = x[weight > 0]
        z = (x - rows.mean(axis=0)) / rows.std(axis=0)
        params, _ = logistic.fit(z, y.astype(int), l1=_evaluate.L1, sample_weight=weight)
        assert kept == np.sum(params.weights != 0) < 6


def outcome(name, accuracy):
    status = np.where(np.isnan(accuracy), Status.CLASS_TOO_SMALL, Status.CONVERGED)
    return _evaluate.Outcome(name, np.array(accuracy), None, status, 0.001, 1.0)


def test_a_method_without_a_model_in_every_fold_is_not_taken_for_better(tmp_path):
    """1.0 of one fold is judged on other rows than 0.8 of ten."""
    nan = [np.nan] * 9
    outcomes = [
        outcome("few", [1.0, *nan]),
        outcome("all", [0.8] * 10),
        outcome("no", [nan[0], *nan]),
    ]
    lines = _report.table(outcomes).splitlines()
    assert [line.split("  ")[0] for line in lines[2:5]] == ["all", "few", "no"]
    assert "0.8000 +- 0.0000" in lines[2] and "(1.0000 of 1 fold)" in lines[3]
    assert "+-" not in lines[3] and "none" in lines[4]
    data = _table.Data("a", np.zeros((10, 1)), np.arange(10) % 2, ["a"], ["x", "y"], "y", [])
    _report.write_json(str(tmp_path / "out.json"), data, outcomes)
    few, every, none = json.loads((tmp_path / "out.json").read_text())["methods"]
    assert few["accuracy"] is none["accuracy"] is None and abs(every["accuracy"] - 0.8) < 1e-12
    assert [m["folds_with_model"] for m in (few, every, none)] == [1, 10, 0]
    assert few["fold_accuracy"] == [1.0, *[None] * 9]


def test_as_a_process(write):
    def run(*argv):
        command = [sys.executable, "-m", "jaxlin", *argv]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    shown = run("--help")
    assert shown.returncode == 0 and "--target COLUMN" in shown.stdout and not shown.stderr
    refused = run(write("a,kind\n1\n"))
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1


# A file larger than memory


def iris(rows=150):
    x, y, features, classes = datasets.iris()
    lines = [",".join([*map(str, row), classes[c]]) for row, c in zip(x, y, strict=True)]
    return "\n".join([",".join([*features, "class"]), *lines[:rows]]) + "\n"


def test_stream(write, capsys, tmp_path):
    found = tmp_path / "found.json"
    assert main([write(iris()), "--stream", "--folds", "3", "--json", str(found)]) == 0
    out = capsys.readouterr().out
    assert "150 rows, 4 features, 3 classes (setosa 50, versicolor 50, virginica 50)" in out
    assert "3-fold cross-validation, folds drawn row by row" in out
    content = json.loads(found.read_text())
    methods = {m["name"]: m for m in content["methods"]}
    assert methods.keys() == {"least squares", "LDA", "QDA", "softmax"}
    assert all(m["status"] == {"CONVERGED": 3} for m in methods.values())
    assert methods["LDA"]["accuracy"] > 0.95 and methods["softmax"]["log_loss"] < 0.2
    assert methods["least squares"]["log_loss"] is None


def test_streamed_folds_are_those_of_fits_in_memory():
    """The closed forms by moments, and a smooth fit over blocks, on the same folds."""
    x, y, *_ = datasets.iris()
    data = _table.Data("iris", x, y.astype(np.int64), list("abcd"), list("xyz"), "y", [])
    outcomes = {o.name: o for o in _large.evaluate(data, 2, 0, lambda _: None)}
    fold = np.random.default_rng((0, 0)).integers(2, size=150)
    for name, fit in (("LDA", lda.fit), ("QDA", qda.fit)):
        for f in range(2):
            params, _ = fit(x[fold != f], y[fold != f])
            scores = jaxlin.scores(params, x[fold == f])
            assert abs(metrics.log_loss(scores, y[fold == f]) - outcomes[name].log_loss[f]) < 1e-8
    scaled = resample.on_standardized(softmax.fit)
    params, _ = scaled(x[fold != 0], y[fold != 0], l2=_evaluate.L2)
    scores = jaxlin.scores(params, x[fold == 0])
    found = outcomes["softmax"].log_loss[0]
    assert abs(metrics.log_loss(scores, y[fold == 0]) - found) < 1e-8


@pytest.mark.parametrize(
    "text, expected",
    [
        (iris() + "1,2,3\n", "row 151 (line 152) has 3 cells, expected 5"),
        (
            iris() + "1,2,oops,4,setosa\n",
            "'petal length (cm)': 'oops' is no number",
        ),
        (iris() + "1,2,nan,4,setosa\n", "(line 152), column 'petal length (cm)': 'nan'"),
        (iris(40), "target 'class' holds one class only, 'setosa' (40 rows)"),
        ("a,class\n", "a header but no rows"),
    ],
)
def test_stream_names_what_is_wrong(text, expected, write, capsys):
    assert_refused([write(text), "--stream"], [expected], capsys)


def test_stream_needs_a_file(capsys):
    assert_refused(["--stream"], ["--stream: reads a file"], capsys)
    assert_refused(["none.csv", "--stream"], ["none.csv: no such file"], capsys)

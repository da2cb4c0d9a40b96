"""The one reader of delimited text: what it finds out by itself, in memory and as a stream."""

import gzip
import itertools
import math
import os
import threading

import numpy as np
import pytest

from jaxlin import streaming
from jaxlin._cli import _large, _table
from jaxlin._files._numerals import convention, number
from jaxlin._files._sheet import BadInput, Options

PLAIN = "a,b,kind\n1.5,2,x\n3,4.25,y\n5,7,x\n8,8.125,y\n"
X = [[1.5, 2], [3, 4.25], [5, 7], [8, 8.125]]


@pytest.fixture(params=["in memory", "stream"])
def read(request, tmp_path):
    """A text or bytes as data, by either way."""
    names = itertools.count()

    def read_text(content, target=None, **options):
        path = tmp_path / f"data{next(names)}.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        if request.param == "in memory":
            return _table.read(str(path), target, Options(**options))
        return _large.read(str(path), target, Options(**options), str(tmp_path), lambda _: None)

    return read_text


def said(data, words):
    return any(words in note for note in data.notes)


def with_decimal_comma(separator):
    return PLAIN.replace(",", separator).replace(".", ",")


def test_a_pipe_is_read_once(tmp_path):
    for content in (PLAIN.encode(), gzip.compress(PLAIN.encode())):
        pipe = tmp_path / f"pipe{len(content)}"
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_bytes, args=(content,))
        writer.start()
        assert _table.read(str(pipe)).x.tolist() == X
        writer.join()


# How a file is written


WRITTEN = {
    "as it is": PLAIN,
    "gzip": gzip.compress(PLAIN.encode()),
    "utf-16": PLAIN.encode("utf-16"),
    "utf-16, big end first": b"\xfe\xff" + PLAIN.encode("utf-16-be"),
    "byte order mark": PLAIN.encode("utf-8-sig"),
    "gzip of utf-16": gzip.compress(PLAIN.encode("utf-16")),
    "tab": PLAIN.replace(",", "\t"),
    "bar": PLAIN.replace(",", "|"),
    "semicolon": PLAIN.replace(",", ";"),
    "blanks": PLAIN.replace(",", "   ").replace("\n", "  \n  "),
    "semicolon, decimal comma": with_decimal_comma(";"),
    "tab, decimal comma": with_decimal_comma("\t"),
    "blanks, decimal comma": with_decimal_comma("  "),
    "excel": "sep=;\r\n" + with_decimal_comma(";"),
    "excel, quoted, tab": '"sep=\t"\n' + PLAIN.replace(",", "\t"),
    "comments": "# made by hand\n#, a, b, c\n\n" + PLAIN,
    "the header is a comment": "# of numpy\n# " + PLAIN,
    "title": "Sales of the north\n\n" + PLAIN,
    "title of commas": "Sales, 2020\n" + PLAIN.replace(",", ";"),
    "title as a spreadsheet writes it": "Sales,,\n" + PLAIN,
    "two titles": "Sales\nof 2020\n" + PLAIN,
    "separator at the end": PLAIN.replace("\n", ",\n"),
    "two of them, not in the header": PLAIN.replace("\n", ",,\n").replace("kind,,", "kind"),
    "blank after separators": PLAIN.replace(",", ", ").replace("x", '"x"'),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_written(case, read):
    data = read(WRITTEN[case])
    np.testing.assert_array_equal(data.x, X)
    assert data.features == ["a", "b"] and data.classes == ["x", "y"]
    assert data.y.tolist() == [0, 1, 0, 1] and data.target == "kind"
    assert said(data, "title above the header skipped") == ("title" in case)


def test_latin_1(read):
    data = read("größe,b,kind\n1.5,2,café\n3,4.25,thé\n5,7,café\n".encode("latin-1"))
    assert data.features == ["größe", "b"] and data.classes == ["café", "thé"]
    assert said(data, "line 1 is not UTF-8: read as Latin-1")
    euro = "a,b,kind\n1,2,5 €\n3,4,6 €\n5,7,6 €\n".encode("cp1252")
    assert read(euro, encoding="cp1252").classes == ["5", "6"]  # numbers are classes as numbers
    with pytest.raises(BadInput, match=r"not utf-8 .*--encoding names another"):
        read(euro, encoding="utf-8")
    with pytest.raises(BadInput, match="--encoding klingon: no such encoding"):
        read(PLAIN, encoding="klingon")


def test_a_damaged_archive_says_so(read):
    whole = gzip.compress((PLAIN + "8,8.125,y\n" * 1000).encode())
    with pytest.raises(BadInput, match="the gzip archive is cut off or damaged"):
        read(whole[: len(whole) // 2])


def test_blanks_inside_quotes(read):
    data = read('name, "b, c", kind\n1, 2, "x, 1"\n3, 4, y\n5, 7, "x, 1"\n')
    assert data.features == ["name", "b, c"] and data.classes == ["x, 1", "y"]
    data = read('a "b c" kind\n1 2 "x y"\n3 4 z\n5 7 z\n')
    assert data.features == ["a", "b c"] and data.classes == ["x y", "z"]


def test_separator_by_option(read):
    data = read(PLAIN.replace(",", ":"), separator=":")
    np.testing.assert_array_equal(data.x, X)
    np.testing.assert_array_equal(read(PLAIN.replace(",", "\t"), separator="tab").x, X)
    np.testing.assert_array_equal(read(PLAIN.replace(",", "  "), separator="space").x, X)
    with pytest.raises(BadInput, match="--separator ab: expected one character"):
        read(PLAIN, separator="ab")


# Header or not


def test_a_header_with_numbers_in_it(read):
    """Text over numbers decides, and a name that equals the target's."""
    for text, target in (
        ("0,1,2,target\n5.1,3.5,1.4,0\n4.9,3.0,1.5,0\n6.3,3.3,6.0,1\n", None),
        ("class,900,910,920\n0,5.1,3.5,1.4\n0,4.9,3.0,1.5\n1,6.3,3.3,6.0\n", None),
        ("0,1,2,3\n5.1,3.5,1.4,0\n4.9,3.0,1.5,0\n6.3,3.3,6.0,1\n", "3"),
        ("900,910,sort\n5.1,3.5,oak\n4.9,3.0,oak\n6.3,3.3,elm\n6.4,3,elm\n", None),
    ):
        data = read(text, target)
        assert data.x.shape[0] == text.count("\n") - 1, text
        assert said(data, "names the columns, though with numbers")
    assert read("0,1,2,3\n5,3,1,0\n4,3,1,0\n6,3,6,1\n").x.shape[0] == 4  # nothing says a header


def test_a_numbered_header_over_classes_that_hardly_recur(read):
    """As pandas writes a frame without names: the class is text, and so is what it is called."""
    rows = "1.5,2,3,oak\n2,3,4,elm\n4,4,4,ash\n5,4,3,oak\n"
    for header in ("0,1,2,target\n", "0,1,2,kind\n"):
        data = read(header + rows)
        assert data.features == ["0", "1", "2"] and data.classes == ["ash", "elm", "oak"]
        assert said(data, "names the columns, though with numbers")
    assert read("target,0,1\noak,1,2\nelm,3,4\nash,4,4\noak,5,4\n", "target").x.shape == (4, 2)
    indexed = read(",0,1,target\n0,1,2,oak\n1,3,4,elm\n2,4,4,ash\n3,5,4,oak\n")
    assert indexed.features == ["0", "1"] and indexed.x.shape == (4, 2)
    # A class of another row, other numbers, or one alone: these are data.
    for first in ("0,1,2,elm\n", "0,1,3,fir\n", "1.5,1,2,fir\n", "3,2,1,fir\n"):
        assert read(first + rows).x.shape == (5, 3), first
    assert read("0,fir\n1,oak\n2,elm\n4,ash\n5,oak\n").x.shape == (5, 1)


def test_no_header(read):
    data = read("5.1,3.5,setosa\n4.9,3.0,setosa\n6.3,3.3,virginica\n")
    assert data.x.shape == (3, 2) and said(data, "no header")
    # A mark for a missing number, unknown to us, is no name where the other cells recur.
    rows = "-,3.5,setosa\n4.9,3.0,setosa\n6.3,3.3,virginica\n1,2,virginica\n"
    with pytest.raises(BadInput, match=r"row 1 \(line 1\), column 'column 1'"):
        read(rows)


def test_header_by_option(read):
    rows = "1,2,x\n3,4,y\n5,7,x\n8,8,y\n"
    data = read(rows, header=True)
    assert data.features == ["1", "2"] and data.x.shape == (3, 2)
    data = read(
        "0,1,target\n5.1,3.5,0\n4.9,3.0,0\n6.3,3.3,1\n".replace("target", "7"), header=False
    )
    assert data.x.shape == (4, 2)


# Numbers


@pytest.mark.parametrize(
    "cell, mark, value",
    [
        ("1,665", "?,", (1665, 1.665)),
        ("1.665", "?.", (1.665, 1665)),
        ("7,50", ",", (None, 7.5)),
        ("0,125", ",", (None, 0.125)),
        ("0.125", ".", (0.125, None)),
        ("1.200,50", ",", (None, 1200.5)),
        ("1,200.50", ".", (1200.5, None)),
        ("1,234,567", ".", (1234567, None)),
        ("1234,567", ",", (None, 1234.567)),
        ("-$10.50", ".", (-10.5, None)),
        ("$1,100", "?,", (1100, 1.1)),
        ("10,50 \u20ac", ",", (None, 10.5)),
        ("5%", "", (0.05, 0.05)),
        ("2.5 %", ".", (0.025, None)),
        ("1'200.50", ".", (1200.5, None)),
        ("1\u2019200", "", (1200, 1200)),
        ("1\u00a0200,5", ",", (None, 1200.5)),
        ("\u22123.5", ".", (-3.5, None)),
        ("1e-3", "", (0.001, 0.001)),
        (".5", ".", (0.5, None)),
        ("5.", ".", (5, None)),
        ("1,23,456", "", (None, None)),
        ("1.2.3", "", (None, None)),
        ("1_000", "", (None, None)),
        ("", "", (None, None)),
        ("$", "", (None, None)),
        ("nan", "", (None, None)),
        ("-inf", "", (-math.inf, -math.inf)),
        ("--5", "", (None, None)),
        ("\u0663", "", (None, None)),
    ],
)
def test_one_cell(cell, mark, value):
    assert convention(cell) == mark
    assert (number(cell, "."), number(cell, ",")) == value


def test_the_decimal_mark_is_that_of_all_cells(read):
    tail = "8;9;y\n9;11;x\n"
    data = read("a;b;kind\n1.665;7,50;x\n2;3;y\n" + tail)
    np.testing.assert_array_equal(data.x[0], [1665, 7.5])
    data = read(("a;b;kind\n1,665;7.50;x\n2;3;y\n" + tail).replace(";", "\t"))
    np.testing.assert_array_equal(data.x[0], [1665, 7.5])
    data = read('a,b,kind\n"1,100",7,x\n2,3,y\n$10.50,5%,y\n"1\'200.50",6,x\n')
    np.testing.assert_allclose(data.x, [[1100, 7], [2, 3], [10.5, 0.05], [1200.5, 6]])
    data = read('a,b,kind\n"1,5",7,x\n2,3,y\n"3,25",5,y\n')
    np.testing.assert_array_equal(data.x[:, 0], [1.5, 2, 3.25])
    # Only the last row tells.
    body = "".join(f"1.{i:03};{i};{'xy'[i % 2]}\n" for i in range(100, 500))
    assert read("a;b;kind\n" + body + "2;2,5;x\n").x[0, 0] == 1100
    assert read("a;b;kind\n" + body + "2;2.5;x\n").x[0, 0] == 1.1


@pytest.mark.parametrize("separator", ["\t", ";", "  "])
@pytest.mark.parametrize("cell, values", [("1,665", (1665, 1.665)), ("1.665", (1.665, 1665))])
def test_what_nothing_decides_is_refused(separator, cell, values, read):
    text = "a,b,kind\n2,3,x\n{},5,y\n5,7,x\n".replace(",", separator).format(cell)
    with pytest.raises(
        BadInput, match=rf"row 2 \(line 3\), column 'a': '{cell}' may be .*--decimal"
    ):
        read(text)
    for decimal, value in zip(".,", values, strict=True):
        assert read(text, decimal=decimal).x[1, 0] == value


def test_marks_that_contradict_are_refused(read):
    with pytest.raises(BadInput, match=r"'7,50' has a decimal comma, and '2\.5'.*--decimal"):
        read("a;b;kind\n2.5;7,50;x\n2;3;y\n4;4;x\n")


def test_thousands_are_said(read):
    assert said(read('a,kind\n"1,100",x\n2,y\n3,x\n'), "'1,100' is read as 1100")
    assert said(read("a;kind\n1,5;x\n2;y\n3;x\n"), "decimal comma, such as '1,5'")


def test_one_and_one_point_nought_are_one_class(read):
    data = read("a,b,kind\n1,2,1\n3,5,1.0\n2,7,0\n8,1,0.0\n4,4,1.00\n")
    assert data.y.tolist() == [1, 1, 0, 0, 1] and len(data.classes) == 2


def test_separators_at_the_end_of_rows_under_a_header(read):
    """Empty cells behind the last name are no cells, in some of the rows or in all."""
    for rows in ("1,2,x,\n3,4,y,\n5,7,x,\n", "1,2,x\n3,4,y,,\n5,7,x\n", "1,2,x,,\n3,4,y\n5,7,x,\n"):
        data = read("a,b,kind\n" + rows)
        assert data.features == ["a", "b"] and data.x.tolist() == [[1, 2], [3, 4], [5, 7]]
    words = r"row 2 \(line 3\) has 5 cells, expected 3: nothing is named after column 'kind'"
    with pytest.raises(BadInput, match=words):
        read("a,b,kind\n1,2,x\n3,4,y,,9\n5,7,x\n")


# Columns that number the rows


def numbered(first, name, header=True):
    rng = np.random.default_rng(0)
    cells = [
        f"{i},{a:.3f},{'xy'[int(a > 0)]}" for i, a in zip(first, rng.normal(size=20), strict=True)
    ]
    return "\n".join([f"{name}a,kind", *cells]) + "\n"


@pytest.mark.parametrize("name", [",", '"",', "Unnamed: 0,", ""])
@pytest.mark.parametrize(
    "first", [range(20), range(1, 21), range(19, -1, -1)], ids=["pandas", "R", "sorted"]
)
def test_row_names_are_dropped(name, first, read):
    """With a header of as many names as cells, or one less, as R's write.table makes it."""
    data = read(numbered(first, name))
    assert data.features == ["a"] and said(data, "numbers the rows: dropped")
    assert data.x.shape == (20, 1)


def test_what_is_no_row_name_stays(read):
    for first in ([*range(19), 18], [2 * i for i in range(20)], range(2, 22)):
        assert len(read(numbered(first, ",")).features) == 2
    data = read(numbered(range(100, 120), "id,"))
    assert data.features == ["id", "a"] and said(data, "'id' numbers the rows, and is a feature")
    assert read(numbered(range(100, 120), "id,"), drop=["id"]).features == ["a"]
    with pytest.raises(BadInput, match="--drop: no column 'ID'"):
        read(PLAIN, drop=["ID"])
    with pytest.raises(BadInput, match="--drop: 'kind' is the target"):
        read(PLAIN, "kind", drop=["kind"])


# Labels


def test_a_class_called_none(read):
    text = "a,kind\n1,None\n2,NA\n3,None\n4,NA\n5,\n6,y\n8,y\n"
    with pytest.raises(BadInput, match="one class only, 'y'"):
        read(text)
    data = read(text, missing=[])
    assert data.classes == ["NA", "None", "y"] and len(data.y) == 6
    assert said(data, "1 row without a target dropped") and not said(data, "taken for a missing")
    data = read(text, missing=["NA"])
    assert data.classes == ["None", "y"] and said(data, "taken for a missing target: 'NA'")


def test_large_labels_do_not_merge(read):
    ids = "a,kind\n1,12345678901234567\n2,12345678901234568\n3,12345678901234567\n"
    data = read(ids)
    assert data.classes == ["12345678901234567", "12345678901234568"]
    assert read("a,y\n1,10\n2,9.0\n3,9\n4,-1\n6,-1.00\n").y.tolist() == [2, 1, 1, 0, 0]


def test_each_number_of_a_target_is_a_class(read):
    lines = [f"{i % 7},{i % 15}" for i in range(90)]
    assert said(
        read("\n".join(["a,b", *lines]), "b"), "'b' holds 15 numbers, each of which is a class"
    )
    many = [f"{i % 7},{i / 8}" for i in range(90)]
    with pytest.raises(BadInput, match="90 distinct numbers in 90 rows, each of which would be"):
        read("\n".join(["a,b", *many]), "b")


# The public source


def test_csv_takes_the_same_options(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("no\tsize\tkind\n7\t1.665\ta\n8\t2\tb\n1\t3\tNA\n")
    with pytest.raises(ValueError, match=r"'1\.665' may be 1\.665 or 1665"):
        streaming.csv(path)
    source = streaming.csv(path, decimal=",", drop=["no"], missing=[])
    ((x, y, _),) = source.blocks()
    assert x.tolist() == [[1665], [2], [3]] and y.tolist() == [1, 2, 0]
    assert source.classes == {"NA": 0, "a": 1, "b": 2} and source.features == ["size"]
    source = streaming.csv(path, decimal=".")
    assert [x.shape for x, _, _ in source.blocks()] == [(2, 2)] and source.notes == []
    with pytest.raises(FileNotFoundError):
        streaming.csv(tmp_path / "none.csv")

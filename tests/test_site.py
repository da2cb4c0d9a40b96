"""The pages of `python -m tests.site`: all that is public is there, as a reader knows it."""

import html
import inspect
import pathlib
import re

import pytest

from tests.public import FUNCTIONS, MODULES

pytest.importorskip("pdoc")
pytest.importorskip("matplotlib")

from tests import site

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    site.build(folder)
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_text("utf-8") for path in files}


def read(body):
    return html.unescape(re.sub("<.*?>", "", body))


def letters(text):
    """Without what Markdown may take for its own: spaces and signs."""
    return re.sub(r"\W", "", re.sub("^Args:$", "Arguments:", text, flags=re.MULTILINE))


def test_every_public_module_has_a_page_and_no_other(pages):
    modules = {f"jaxlin/{name}.html" for name in MODULES}
    guide = {f"guide/{path.stem}.html" for path in site.GUIDE.glob("*.md")}
    alone = {"index.html", "guide.html", "jaxlin.html", "search.js"}
    assert set(pages) == modules | guide | alone


def test_the_guide_is_whole_and_can_be_searched(pages):
    for name in site.PAGES:
        text = (site.GUIDE / f"{name}.md").read_text(encoding="utf-8")
        page = pages[f"guide/{name}.html"]
        assert f"<title>{site.heading(name)} · jaxlin</title>" in html.unescape(page), name
        # Each paragraph that is plain text.
        for line in text.splitlines():
            if re.fullmatch(r"[\w ,.:;()-]{40,}", line):
                assert letters(line) in letters(read(page)), (name, line)
        assert f'href="guide/{name}.html"' in pages["guide.html"], name
        assert f"guide.{name}" in pages["search.js"], name
    assert '<a href="../jaxlin/logistic.html#fit">logistic.fit</a>' in pages["guide/methods.html"]


def test_every_public_function_has_signature_and_docstring(pages):
    for name, function in FUNCTIONS.items():
        module, short = name.split(".")
        page = pages["jaxlin.html" if module == "jaxlin" else f"jaxlin/{module}.html"]
        found = re.search(rf'<section id="{short}">.*?</section>', page, re.DOTALL)
        assert found, name
        section = found[0]
        assert '<div class="attr function">' in section, name
        assert f'<span class="name">{short}</span><span class="signature' in section, name
        head, body = section.split('<div class="docstring">')
        assert all(parameter in head for parameter in inspect.signature(function).parameters), name
        assert letters(inspect.getdoc(function)) == letters(read(body)), name


def test_every_module_docstring_is_whole(pages):
    for name, module in MODULES.items():
        body = pages[f"jaxlin/{name}.html"].split('<div class="docstring">')[1]
        body = re.split('<input id="mod-|</div>\\s*<input', body)[0]
        assert letters(read(body)).startswith(letters(inspect.getdoc(module))), name


def test_no_page_shows_what_only_python_knows(pages):
    addresses = re.compile(r"0x[0-9a-f]{6,}|PjitFunction|&lt;</span><span class=.n.>function")
    for path, page in pages.items():
        assert not addresses.search(page), (path, addresses.search(page))
        assert "Alias for field number" not in page, path
        assert str(pathlib.Path(__file__).parents[1]) not in page, path
        shown = re.sub("<.*?>", "", "".join(re.findall('<span class="signature.*', page)))
        assert not re.search(r"\w\._\w", shown), path


def test_every_link_between_pages_leads_somewhere(pages):
    for path, page in pages.items():
        if not path.startswith(("jaxlin", "guide")):
            continue
        for target, anchor in re.findall(r'<a [^>]*href="([\w./]*)(?:#([\w.]+))?"', page):
            other = (pathlib.PurePosixPath(path).parent / target).as_posix() if target else path
            other = re.sub(r"^(jaxlin|guide)/\.\./", "", other)
            assert other in pages, (path, target)
            assert not anchor or f'id="{anchor}"' in pages[other], (path, target, anchor)

"""The guide and the reference, a static site of both: `python -m tests.site [FOLDER]`.

The guide is `notebooks/guide`, a page a file; the reference is made of the docstrings. They share
navigation and search, and what the guide names in `code` is a link to its docstring. pdoc does
nearly all of it. Its own command shows a few things as Python holds them and not as a reader knows
them, and no setting changes that. So they are put right here, in pdoc's objects,
before the pages are written: the default `<PjitFunction of <function hinge>>`, the type
`jax.jaxlib._jax.Array`, fields of NamedTuples said to be "Alias for field number 0" while the lines
on them in the docstring run together, the members of an enumeration without their meaning, lines
whose start, `[x, 1]:` or `0. `, is Markdown for something else and so vanishes, and `losses.hinge`,
which only a longer `jaxlin.losses.hinge` would make a link.
"""

import enum
import inspect
import pathlib
import re
import sys
import types
from typing import Any

import jinja2
import markupsafe
import pdoc
from pdoc.render_helpers import linkify as link_full_names

import jaxlin

GUIDE = pathlib.Path(__file__).parent.parent / "notebooks" / "guide"
# In the order in which they are read.
PAGES = ["start", "methods", "conventions", "many", "choosing", "inference", "derivatives", "scale"]
PAGES += ["recipes", "scikit-learn", "r", "command-line", "faq", "benchmarks", "contributing"]
PAGES += ["changes"]
PRIVATE_NAMES = {
    r"(jax\.)?jaxlib\._jax\.": "jax.",
    r"jax\._src\.mesh\.": "jax.sharding.",
    r"matplotlib\.axes\._axes\.": "matplotlib.axes.",
    r"jaxlin\._\w+\.": "",
    r"(typing|collections\.abc)\.": "",
}
FIELD = re.compile(r"^(\w+): (.+(?:\n +.+)*)\n?", re.MULTILINE)
MARKDOWN = re.compile(r"^( *)(?=\[[^]]+\]:)|^( *\d+)(?=\. )", re.MULTILINE)
SHORT_NAME = re.compile(r"<code>(\w+)(?:\.(\w+))?(\(.*?\))?</code>")


class Written:
    """What stands in a signature as this text."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


def readable(text: str) -> str:
    """The names of types as a user writes them."""
    for private, public in PRIVATE_NAMES.items():
        text = re.sub(rf"\b{private}", public, text)
    return text


def annotation(value: Any) -> Any:
    if value is inspect.Signature.empty:
        return value
    return Written(readable(inspect.formatannotation(value)))


def default(value: Any) -> Any:
    """A function by its name; pdoc makes a link of a name in jaxlin."""
    if value is inspect.Parameter.empty or isinstance(value, type) or not callable(value):
        return value
    ours = value.__module__.startswith("jaxlin.")
    return Written(f"{value.__module__}.{value.__name__}" if ours else value.__name__)


def mend_function(function: pdoc.doc.Function) -> None:
    signature = function.signature
    function.signature = signature.replace(
        parameters=[
            p.replace(annotation=annotation(p.annotation), default=default(p.default))
            for p in signature.parameters.values()
        ],
        return_annotation=annotation(signature.return_annotation),
    )


def mend_class(cls: pdoc.doc.Class) -> None:
    if hasattr(cls.obj, "_fields"):
        described = dict(FIELD.findall(cls.docstring))
        for name in cls.obj._fields:
            cls.members[name].docstring = described.get(name, "")
        cls.members["__init__"].docstring = ""
        cls.docstring = FIELD.sub("", cls.docstring).strip()
    if issubclass(cls.obj, enum.Enum):
        for member in cls.obj:
            cls.members[member.name].docstring = getattr(member, "meaning", "")
            cls.members[member.name].default_value_str = repr(member.value)


def mend(scope: pdoc.doc.Namespace) -> None:
    constants = [name for name in scope.members if name.isupper()]
    if isinstance(scope, pdoc.doc.Module):
        for name in constants:  # of the implementation; what a caller needs has a docstring
            if not scope.members[name].docstring:
                del scope.members[name]
    for doc in [scope, *scope.members.values()]:
        doc.docstring = MARKDOWN.sub(r"\1\2\\", doc.docstring)
    for doc in scope.members.values():
        if isinstance(doc, pdoc.doc.Function):
            mend_function(doc)
        elif isinstance(doc, pdoc.doc.Variable):
            doc.annotation_str = readable(doc.annotation_str)
            doc.default_value_str = readable(doc.default_value_str)
        elif isinstance(doc, pdoc.doc.Class):
            mend(doc)
            mend_class(doc)


@jinja2.pass_context
def linkify(
    context: Any, text: str, namespace: str = "", shorten: bool = True
) -> markupsafe.Markup:
    """Link `module` and `module.name` too, as docstrings call them."""
    here, modules = context["module"].modulename, context["all_modules"]

    def link(match: re.Match) -> str:
        short, name, rest = match.groups(default="")
        page = modules.get(f"jaxlin.{short}")
        if page is None or (name and name not in page.members):
            return match[0]
        folder = {"jaxlin": "jaxlin/", "guide": "jaxlin/"}.get(here, "")
        folder = "../jaxlin/" if here.startswith("guide.") else folder
        anchor, label = (f"#{name}", f"{short}.{name}") if name else ("", short)
        return f'<code><a href="{folder}{short}.html{anchor}">{label}</a>{rest}</code>'

    linked = link_full_names(context, text, namespace, shorten)
    return markupsafe.Markup(SHORT_NAME.sub(link, linked))


def heading(name: str) -> str:
    """The title of a page of the guide."""
    return (GUIDE / f"{name}.md").read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")


def guide() -> dict[str, pdoc.doc.Module]:
    """The pages of the guide, as modules that hold nothing but a docstring."""

    def page(name: str, text: str) -> pdoc.doc.Module:
        module = types.ModuleType(name, re.sub(r"\]\(([\w-]+)\.md", r"](\1.html", text))
        module.__dict__["__docformat__"] = "markdown"
        return pdoc.doc.Module(module)

    contents = "\n".join(f"- [{heading(name)}](guide/{name}.html)" for name in PAGES)
    first = (
        "# jaxlin\n\nLinear classifiers as pure JAX functions: every fit can be jitted, vmapped, "
        "differentiated and sharded, and says, as data, whether it succeeded.\n\n## Guide\n\n"
        f"{contents}\n\n## Reference\n\n[All modules](jaxlin.html), a page each.\n"
    )
    texts = {name: (GUIDE / f"{name}.md").read_text(encoding="utf-8") for name in PAGES}
    return {"guide": page("guide", first)} | {
        f"guide.{name}": page(f"guide.{name}", text) for name, text in texts.items()
    }


def as_guide(name: str, text: str) -> str:
    """A page of the guide, without what pdoc says of a module."""
    title = heading(name.removeprefix("guide.")) if "." in name else "jaxlin"
    text = text.replace(f"{name} API documentation", f"{title} · jaxlin" if "." in name else title)
    return re.sub(r'<h1 class="modulename">.*?</h1>', "", text, flags=re.DOTALL)


def build(folder: pathlib.Path) -> None:
    """Write the site, as `pdoc.pdoc` does, of objects that were put right."""
    pdoc.render.configure(docformat="google", footer_text=f"jaxlin {jaxlin.__version__}")
    pdoc.render.env.filters["linkify"] = linkify
    names = pdoc.extract.walk_specs(["jaxlin", "jaxlin.estimators"])
    modules = {name: pdoc.doc.Module.from_name(name) for name in names}
    for module in modules.values():
        mend(module)
    contents = [f"- `{n}`: {m.docstring.splitlines()[0]}" for n, m in modules.items() if "." in n]
    modules["jaxlin"].docstring += "\n\n" + "\n".join(contents)
    modules = guide() | modules

    pages = {
        f"{n.replace('.', '/')}.html": pdoc.render.html_module(m, modules)
        for n, m in modules.items()
    }
    for name in modules:
        if name.startswith("guide"):
            path = f"{name.replace('.', '/')}.html"
            pages[path] = as_guide(name, pages[path])
    pages["index.html"] = '<meta http-equiv="refresh" content="0; url=guide.html"/>\n'
    pages["search.js"] = pdoc.render.search_index(modules)
    for path, text in pages.items():
        page = folder / path
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")
    print(f"{len(pages)} files in {folder}, to be read from {folder / 'index.html'}")


if __name__ == "__main__":
    build(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "site"))

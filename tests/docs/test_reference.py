"""The reference is complete, and what lies around the documentation is as it says."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import raptor

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DOCUMENTED = {
    name for path in (DOCS / "reference").glob("*.md") for name in re.findall(r"^::: (\S+)", path.read_text(), re.M)
}


def found_at(name: str):
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute)
    except AttributeError:
        return importlib.import_module(name)


def described(thing: object) -> set[str]:
    """Return the names in the section Parameters of a docstring."""
    _, _, after = inspect.cleandoc(thing.__doc__ or "").partition("Parameters\n----------\n")
    section = re.split(r"\n[^\n]+\n---+\n", f"{after}")[0]
    lines = [line for line in section.splitlines() if line and not line.startswith(" ")]
    return {name.strip(" *") for line in lines for name in line.split(",")}


def undescribed(thing: object) -> list[str]:
    """Return what a reader of the reference would miss: a docstring, a parameter, a type."""
    if not (thing.__doc__ or "").strip():
        return ["docstring"]
    if inspect.ismodule(thing):
        own = [one for one in vars(thing).values() if isinstance(one, type) and one.__module__ == thing.__name__]
        return [f"{one.__name__}: {missing}" for one in own for missing in undescribed(one)]
    if getattr(thing, "_is_protocol", False) or (isinstance(thing, type) and issubclass(thing, Exception)):
        return []
    parameters = [p for p in inspect.signature(thing).parameters.values() if p.name != "self"]
    if isinstance(thing, type) and not dataclasses.is_dataclass(thing) and thing.__init__ is object.__init__:
        parameters = []
    untyped = [f"type of {p.name}" for p in parameters if p.annotation is inspect.Parameter.empty]
    bases = [base for base in getattr(thing, "__mro__", (thing,)) if dataclasses.is_dataclass(base) or base is thing]
    documented = set().union(*map(described, bases))  # a dataclass has the fields of its bases
    return [p.name for p in parameters if p.name not in documented] + untyped


@pytest.mark.parametrize("name", sorted(set(raptor.__all__) - {"__version__"}))
def test_every_public_name_is_in_the_reference(name):
    thing = getattr(raptor, name)
    if inspect.ismodule(thing):
        assert thing.__name__ in DOCUMENTED
    else:
        assert {thing.__module__, f"{thing.__module__}.{thing.__qualname__}"} & DOCUMENTED


@pytest.mark.parametrize("name", sorted(DOCUMENTED))
def test_the_reference_describes_what_it_names(name):
    assert undescribed(found_at(name)) == []


def test_what_the_reference_would_miss_is_found():
    def half(one: int, two, *three: int) -> None: ...

    assert undescribed(half) == ["docstring"]
    half.__doc__ = (
        "Halve.\n\nParameters\n----------\none, three\n    Two of them.\n\nReturns\n-------\ntwo\n    Not that."
    )
    assert undescribed(half) == ["two", "type of two"]


def test_every_verb_is_in_the_reference():
    import typer

    from raptor.cli import app

    text = (DOCS / "reference" / "index.md").read_text().partition("## The command line")[2]
    assert set(re.findall(r"^\| `([a-z0-9]+)`", text, re.M)) == set(typer.main.get_command(app).commands)


def test_the_navigation_has_every_page():
    text = (ROOT / "mkdocs.yml").read_text()
    nav = re.findall(r"^\s+- (?:[^#\n]*: )?(\S+\.md)$", text.partition("\nnav:")[2], re.M)
    assert sorted(nav) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def test_every_dependency_is_explained():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    names = {re.split(r"[\[<>=]", line)[0].removesuffix("-python") for line in lines} - {project["name"]}
    text = (DOCS / "dependencies.md").read_text().lower()
    assert [name for name in sorted(names) if not re.search(rf"\b{re.escape(name)}\b", text)] == []


def test_the_citation_is_of_the_paper():
    paper = yaml.safe_load((ROOT / "CITATION.cff").read_text())["preferred-citation"]
    assert paper["title"] == "Block-Recurrent Dynamics in Vision Transformers"
    assert "2512.19941" in paper["url"]
    assert [author["family-names"] for author in paper["authors"]] == [
        "Jacobs", "Fel", "Hakim", "Brondetta", "Ba", "Keller",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("page", "loaded"),
    [
        ('<a href="https://a.org/x">a</a><img src="x.png"><script src="y.js"></script>', []),
        ('<script src="https://a.org/x.js"></script>', ["https://a.org/x.js"]),
        ('<link rel="stylesheet" href="//a.org/x.css">', ["//a.org/x.css"]),
        ('<img src="HTTP://a.org/x.png">', ["HTTP://a.org/x.png"]),
        ("<style>@import 'https://a.org/x.css';</style>", ["https://a.org/x.css"]),
        ('<p style="background: url(https://a.org/x.png)">', ["https://a.org/x.png"]),
        ('<pre class="mermaid"><code>graph</code></pre>', ["a script for mermaid"]),
    ],
)
def test_what_a_page_would_load_from_a_network_is_found(page, loaded, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    assert importlib.import_module("offline_site").loads_from_outside(page) == loaded


def test_parameters_that_are_described_together_are_read_apart(monkeypatch):
    """Each then has its own type and default in the reference; what is no parameter stays."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    monkeypatch.setitem(sys.modules, "griffe", SimpleNamespace(Extension=object))  # there with the extra `docs` alone
    apart = importlib.import_module("parameter_each").parameter_each
    ends = "\nReturns\n-------\nx, y\n    Both."
    start = "One, two.\n\nParameters\n----------\n"
    given = f"{start}a, **b\n    Two lines\n    of text.\nc\n    Alone.\n{ends}"
    wanted = f"{start}a\n    Two lines\n    of text.\n**b\n    Two lines\n    of text.\nc\n    Alone.\n{ends}"
    assert apart(given) == wanted
    assert apart(wanted) == wanted

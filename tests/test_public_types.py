"""Type checkers know every public name: no part of the documented code is Any or Unknown."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import raptor
from doc_blocks import DOCS, ROOT, blocks

SOURCE = Path(raptor.__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
# A package with the same public names that are found by `__getattr__` alone: Any for every checker.
UNTYPED = "from typing import Any\ndef __getattr__(name: str) -> Any: ...\n"
PYRIGHT = shutil.which("basedpyright", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")

MYPY_LINE = re.compile(r'^(?P<file>[^:]+):(?P<line>\d+): note: Revealed type is "(?P<type>.*)"$')
PYRIGHT_LINE = re.compile(r'^\s*(?P<file>\S+?):(?P<line>\d+):\d+ - information: Type of ".*" is "(?P<type>.*)"$')


class Revealed(ast.NodeTransformer):
    """Wrap every `raptor.NAME` that is not an annotation or a base class, and the result of every call of one."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        public = isinstance(node.value, ast.Name) and node.value.id == "raptor" and isinstance(node.ctx, ast.Load)
        return _reveal(node) if public else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        public = isinstance(node.func, ast.Attribute) and ast.unparse(node.func).startswith("raptor.")
        self.generic_visit(node)
        return _reveal(node) if public else node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.value = None if node.value is None else self.visit(node.value)
        return node


def _reveal(node: ast.expr) -> ast.Call:
    return ast.Call(ast.Name("reveal_type", ast.Load()), [node], [])


def revealed(code: str) -> str:
    """Return a source that asks a checker for the types of its public names and of what they return."""
    return ast.unparse(ast.fix_missing_locations(Revealed().visit(ast.parse(code)))) + "\n"


def unknown(kind: str) -> bool:
    """Return whether a type says nothing, or is a function that returns such a type; a generic class is known."""
    kind = re.sub(r"^type\[\w+\[Unknown\]\]$", "", kind)
    return bool(re.search(r"(^|-> )(Any|object|builtins\.object)\)?$", kind)) or "Unknown" in kind


@cache
def sources() -> dict[str, str]:
    """Return the files to check, by name."""
    names = [name for name in raptor.__all__ if name != "__version__"]
    files = {
        f"{path.stem}_{index}.py".replace("-", "_").lower(): revealed(block)
        for path in PAGES
        for index, block in enumerate(blocks(path, "python"))
        if "raptor" in block
    }
    asked = "".join(f"reveal_type(raptor.{name})\n" for name in names)
    files["every_name.py"] = f"import raptor\n{asked}"
    files["planted.py"] = f"import untyped\n{asked.replace('raptor.', 'untyped.')}".replace("raptor", "untyped")
    files["untyped.py"] = UNTYPED
    return files


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("public_types")
    for name, code in sources().items():
        (made / name).write_text(code)
    return made


def types_by_file(lines: list[str], form: re.Pattern[str]) -> dict[str, list[tuple[str, str]]]:
    """Return, for each file, the asked expression and its type."""
    found: dict[str, list[tuple[str, str]]] = {}
    for match in filter(None, map(form.match, lines)):
        name = Path(match["file"]).name
        code = sources()[name].splitlines()[int(match["line"]) - 1]
        found.setdefault(name, []).append((code.strip(), match["type"]))
    return found


def check(found: dict[str, list[tuple[str, str]]]) -> None:
    """Raise where a public name is unknown to a checker, or a planted one is known."""
    planted = found.pop("planted.py")
    assert all(unknown(kind) for _, kind in planted), "the check does not see what is Any"
    assert len(planted) == len(found["every_name.py"]) == len(raptor.__all__) - 1
    expected = {name for name, code in sources().items() if "reveal_type" in code} - {"planted.py"}
    assert set(found) == expected
    bad = [f"{name}: {code}: {kind}" for name, pairs in found.items() for code, kind in pairs if unknown(kind)]
    assert not bad, "\n".join(bad)


def run(command: list[str], folder: Path, **environment: str) -> list[str]:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    return done.stdout.splitlines()


@pytest.mark.long
def test_mypy_knows_every_public_name(folder):
    files = [name for name in sources() if name != "untyped.py"]
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
    cache_of = ["--cache-dir", str(ROOT / ".mypy_cache")]
    lines = run([*command, *cache_of, *files], folder, MYPYPATH=f"{SOURCE}{os.pathsep}{folder}")
    check(types_by_file(lines, MYPY_LINE))


@pytest.mark.skipif(PYRIGHT is None, reason="basedpyright is not installed: pip install 'raptor-vit[test]'")
@pytest.mark.long
def test_pyright_knows_every_public_name(folder):
    (folder / "pyrightconfig.json").write_text(f'{{"extraPaths": ["{SOURCE}"], "include": ["*.py"]}}')
    lines = run([str(PYRIGHT), "--pythonpath", sys.executable], folder)
    check(types_by_file(lines, PYRIGHT_LINE))


def test_the_lazy_table_and_the_typed_imports_have_the_same_names():
    tree = ast.parse(Path(raptor.__file__).read_text())
    typed = {
        alias.asname: node.module if alias.name != "toy" else f"{node.module}.toy"
        for branch in tree.body
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for node in branch.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == raptor._HOME
    assert raptor.__all__ == ["__version__", *raptor._HOME]


def test_what_is_asked_of_a_checker():
    code = "import raptor\n\nclass A(raptor.Teacher):\n    x: raptor.Phases = raptor.Phases((1,))\n"
    assert revealed(code).splitlines() == [
        "import raptor",
        "",
        "class A(raptor.Teacher):",
        "    x: raptor.Phases = reveal_type(reveal_type(raptor.Phases)((1,)))",
    ]
    assert [unknown(kind) for kind in ("Any", "def (x: Any) -> Any", "(x: int) -> Unknown", "def (x: Any) -> int")] == [
        True, True, True, False,
    ]  # fmt: skip

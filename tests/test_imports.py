"""The layout of the package: who may import whom, what is where, and what `import raptor` costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "raptor"

# Level of each package or module at the root; an import may go down or stay, never up.
LEVELS = {
    "errors": 0, "core": 1, "runtime": 2, "models": 3, "data": 3, "render": 4, "training": 5,
    "phases": 6, "distillation": 6, "evaluation": 6, "probes": 6, "dynamics": 6, "interventions": 6, "film": 6,
    "inspection": 6, "reporting": 7, "studies": 8, "pipeline": 8, "benchmarks": 8, "cli": 9, "__main__": 10,
}  # fmt: skip
ROOT_FILES = {"__init__.py", "__main__.py", "errors.py", "py.typed"}
SURFACE = ("command", "text", "figures")  # modules of a feature that show or start something
MOST_FILES, MOST_LINES = 20, 260
SELF_CONTAINED = "modeling_raptor.py"  # one file by the convention of the hub; raptor saves it and never imports it

# The stages of the pipeline are commands: it runs the verbs one after another, each in its own directory.
RUNS_COMMANDS = ("pipeline/stages.py",)


def imports_of(code: str) -> set[str]:
    """Return the modules and names of raptor that a source imports, anywhere in it, as paths within raptor."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.removeprefix("raptor.") for name in found if name.startswith("raptor.")}


def uphill(path: str, code: str) -> set[str]:
    """Return the packages that a source imports although they are above it."""
    own = LEVELS[path.split("/")[0].removesuffix(".py")]
    return {part for part in (name.split(".")[0] for name in imports_of(code)) if LEVELS.get(part, -1) > own}


def role(parts: list[str]) -> str | None:
    """Return `command`, `text` or `figures` for a module of a feature's surface (`export_command` is a command)."""
    return next((kind for part in parts[1:] for kind in SURFACE if part == kind or part.endswith(f"_{kind}")), None)


def surface_imports(path: str, code: str) -> set[str]:
    """Return the surface modules that a source imports although only commands and the page may.

    Text may show figures of its own package, in notebooks; figures may share parts within their package.
    """
    own = path.removesuffix(".py").split("/")
    if role(own) == "command" or own[0] in ("reporting", "__init__") or path in RUNS_COMMANDS:
        return set()
    found = set()
    for name in imports_of(code):
        parts = name.split(".")
        modules = [".".join(parts[:depth]) for depth in range(2, len(parts) + 1) if is_module(parts[:depth])]
        kind = role(modules[-1].split(".")) if modules else None
        same_figures = kind == "figures" and role(own) in ("figures", "text") and parts[0] == own[0]
        if kind and not same_figures:
            found.add(modules[-1])
    return found


def is_module(parts: list[str]) -> bool:
    """Tell a module or package of raptor from a name inside one."""
    where = SOURCE.joinpath(*parts)
    return where.is_dir() or where.with_suffix(".py").is_file()


def misplaced(root: Path) -> set[str]:
    """Return what is at the root of the package and is neither a package nor one of the few modules there."""
    files = {path.name for path in root.iterdir() if path.is_file()} - ROOT_FILES
    return files | {path.name for path in root.iterdir() if path.is_dir()} - set(LEVELS) - {"__pycache__"}


def crowded(root: Path) -> set[str]:
    """Return the folders with too many files."""
    folders = [root, *(path for path in root.rglob("*") if path.is_dir() and path.name != "__pycache__")]
    return {str(one) for one in folders if sum(path.is_file() for path in one.iterdir()) > MOST_FILES}


def long_files(root: Path) -> set[str]:
    """Return the source files with too many lines."""
    return {
        str(path)
        for path in root.rglob("*.py")
        if len(path.read_text().splitlines()) > MOST_LINES and path.name != SELF_CONTAINED
    }


SOURCES = {str(path.relative_to(SOURCE)): path for path in sorted(SOURCE.rglob("*.py"))}


def test_every_part_has_a_level():
    assert {path.split("/")[0].removesuffix(".py") for path in SOURCES} - {"__init__"} == set(LEVELS)


@pytest.mark.parametrize("path", [path for path in SOURCES if path != "__init__.py"])
def test_imports_go_down(path):
    assert not uphill(path, SOURCES[path].read_text())


@pytest.mark.parametrize("path", SOURCES)
def test_only_commands_and_the_page_import_what_shows_results(path):
    assert not surface_imports(path, SOURCES[path].read_text())


def test_the_root_has_packages_and_three_modules():
    assert not misplaced(SOURCE)


def test_no_folder_is_crowded():
    assert not crowded(SOURCE)


def test_no_file_is_long():
    assert not long_files(SOURCE)


def test_an_import_that_goes_up_is_found():
    assert uphill("core/flow.py", "from raptor.models.vit import ViT") == {"models"}
    assert uphill("data/load.py", "def f():\n    import raptor.cli") == {"cli"}
    assert not uphill("cli/app.py", "from raptor import core")


@pytest.mark.parametrize(
    ("path", "code", "found"),
    [
        ("phases/find.py", "from raptor.phases.text import show_phases", {"phases.text"}),
        ("probes/run.py", "def f():\n    from raptor.inspection import figures", {"inspection.figures"}),
        ("studies/models.py", "import raptor.distillation.command", {"distillation.command"}),
        ("dynamics/text.py", "from raptor.phases.figures import of_model", {"phases.figures.of_model"}),
        ("phases/text.py", "from raptor.inspection.text import show_inspect", {"inspection.text"}),
        ("phases/text.py", "def f():\n    from raptor.phases.figures.of_model import gallery", set()),
        ("film/figures.py", "from raptor.inspection.figures import norms", {"inspection.figures"}),
        ("dynamics/figures/further.py", "from raptor.dynamics.figures.updates import ranks", set()),
        ("phases/command.py", "from raptor.phases.text import show_phases", set()),
        ("reporting/page.py", "from raptor.phases import figures", set()),
        ("phases/find.py", "from raptor.core.phases import text", set()),
    ],
)
def test_an_import_of_a_surface_module_is_found(path, code, found):
    assert surface_imports(path, code) == found


def test_a_wrong_layout_is_found(tmp_path):
    (tmp_path / "core").mkdir()
    (tmp_path / "errors.py").touch()
    assert (misplaced(tmp_path), crowded(tmp_path), long_files(tmp_path)) == (set(), set(), set())
    (tmp_path / "helpers.py").touch()
    (tmp_path / "utils").mkdir()
    for number in range(21):
        (tmp_path / "core" / f"file{number}.py").touch()
    (tmp_path / "core" / "file0.py").write_text("x = 1\n" * 261)
    assert misplaced(tmp_path) == {"helpers.py", "utils"}
    assert crowded(tmp_path) == {str(tmp_path / "core")}
    assert long_files(tmp_path) == {str(tmp_path / "core" / "file0.py")}


def loaded_by(code: str, *modules: str) -> list[str]:
    """Run code in a process of its own; return which of the modules it has imported."""
    asked = f"{code}; import sys; print(*[m for m in {modules!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_importing_raptor_imports_nothing_heavy_or_optional():
    code = "import raptor; from raptor import TokenLayout, Phases"
    assert loaded_by(code, "torch", "numpy", "transformers", "timm", "datasets", "altair", "typer") == []
    assert loaded_by("import torch", "torch", "timm") == ["torch"]


def test_flows_and_loaders_import_nothing_optional():
    code = "import raptor; raptor.rollout, raptor.toy, raptor.load_model, raptor.load_images, raptor.layer_norms"
    assert loaded_by(code, "transformers", "timm", "datasets", "altair") == []


def test_every_public_name_is_there():
    import raptor

    for name in raptor.__all__:
        assert getattr(raptor, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = raptor.nothing

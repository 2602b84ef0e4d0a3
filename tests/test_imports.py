"""Who may import whom, and what importing the package costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"

# Level of each module or package of raptor; an import may go down or stay, never up.
LEVELS = {
    # values
    "errors": 0, "processes": 0, "tokens": 0, "phases": 0, "trajectory": 0, "flow": 0, "toy": 0, "preprocessing": 0,
    "device": 0, "hub": 0, "faults": 0, "files": 0, "memory": 0, "sharded": 0, "display": 0,
    # mathematics
    "resampling": 1, "complexity": 1, "levin": 1, "fidelity_by_layer": 1, "dynamics": 1, "cka": 1, "matrix": 1,
    "useful_k": 1,
    "accuracy": 1, "rewiring": 1, "interventions": 1, "film": 1,
    "similarity": 1, "solvers": 1, "segmentation": 1, "drift": 1, "structure": 1, "selection": 1,
    # models and data
    "models": 2, "data": 2,
    # training and evaluation
    "training": 3, "probes": 3, "inspection": 3, "evaluation": 3,
    # surface
    "run": 4, "progress": 4, "options": 4, "formatting": 4, "reporting": 4, "doctor": 4,
    "benchmarks": 4, "phase_result": 4, "probe_result": 4, "dynamics_result": 4, "dynamics_claims": 4,
    "published": 4, "fidelity_result": 4, "model_card": 4,
    "printing": 4, "probe_printing": 4, "dynamics_printing": 4,
    "study_printing": 4, "pipeline_printing": 4, "notebook": 4, "studies": 4, "commands": 4, "cli": 4, "__main__": 4,
}  # fmt: skip


def imports_of(code: str) -> set[str]:
    """Return the parts of raptor that a source imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.split(".")[1] for name in found if name.startswith("raptor.")} & set(LEVELS)


def uphill(part: str, code: str) -> set[str]:
    """Return the imports of a source that go up."""
    return {other for other in imports_of(code) if LEVELS[other] > LEVELS[part]}


def sources() -> dict[Path, str]:
    """Return every source file with the part that it belongs to."""
    files = [path for path in (SOURCE / "raptor").rglob("*.py") if path.relative_to(SOURCE).parts[1] != "__init__.py"]
    return {path: path.relative_to(SOURCE).parts[1].removesuffix(".py") for path in files}


def test_every_part_has_a_level():
    assert set(sources().values()) == set(LEVELS)


@pytest.mark.parametrize(("path", "part"), sources().items(), ids=lambda value: getattr(value, "name", value))
def test_imports_go_down(path, part):
    assert not uphill(part, path.read_text())


def test_this_test_can_fail():
    assert uphill("tokens", "from raptor.models.vit import ViT") == {"models"}
    assert uphill("data", "def f():\n    import raptor.cli") == {"cli"}
    assert not uphill("cli", "from raptor import tokens")


def test_importing_raptor_imports_nothing_heavy_or_optional():
    code = (
        "import sys, raptor; from raptor import TokenLayout, Phases; "
        "print([m for m in ('torch', 'transformers', 'timm', 'datasets', 'altair', 'typer') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_flows_and_loaders_import_nothing_optional():
    code = (
        "import sys, raptor; raptor.rollout, raptor.toy, raptor.load_teacher, raptor.load_images, raptor.layer_norms; "
        "print([m for m in ('transformers', 'timm', 'datasets', 'altair') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there():
    import raptor

    for name in raptor.__all__:
        assert getattr(raptor, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = raptor.nothing

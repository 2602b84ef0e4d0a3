"""The environment that `make demo` makes: raptor and its requirements, and no package that only the tests need."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

PYTHON = Path(__file__).parents[1] / ".venv" / "bin" / "python"
TEST_ONLY = ("atheris", "basedpyright", "hypothesis", "mypy", "playwright", "pytest", "timm", "torchvision")

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="there is no .venv here: `make demo` makes it")


def run_in_venv(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in `.venv`; `-I` keeps out this directory and the variables that add to the path."""
    return subprocess.run([PYTHON, "-I", "-c", code], capture_output=True, text=True, check=False)


def test_no_test_package_is_installed():
    code = f"from importlib.util import find_spec; print([name for name in {TEST_ONLY} if find_spec(name)])"
    done = run_in_venv(code)
    assert done.stdout.strip() == "[]", f"run `make clean`, or uninstall them from .venv: {done.stdout}{done.stderr}"


@pytest.mark.parametrize(
    "first", [pytest.param("", marks=pytest.mark.long), "import raptor; "], ids=["alone", "after raptor"]
)
def test_transformers_imports_a_vit(first):
    code = f"{first}from transformers import Dinov2WithRegistersModel; print(Dinov2WithRegistersModel.__name__)"
    done = run_in_venv(code)
    assert done.stdout.strip() == "Dinov2WithRegistersModel", done.stderr

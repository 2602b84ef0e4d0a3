"""The notebooks of `examples/` run without a network, their outputs are small, and the documentation shows them."""

from __future__ import annotations

import importlib.util
import re
import time
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
MOST_BYTES = 30_000
MOST_SECONDS = 180  # for all of them


def code_cells(book):
    """Return the cells with code."""
    return [cell for cell in book.cells if cell.cell_type == "code"]


def printed(cell) -> str:
    """Return what a cell prints, without numbers, which may differ by rounding between machines."""
    text = "".join(output.get("text", "") for output in cell.outputs if output.get("name") == "stdout")
    return re.sub(r"-?\d+(\.\d+)?(e-?\d+)?", "#", text)


def test_there_are_four():
    assert len(NOTEBOOKS) == 4


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_there_small_and_without_traces_of_a_machine(path):
    book = nbformat.read(path, 4)
    nbformat.validate(book)
    assert all(cell.execution_count for cell in code_cells(book))
    assert any(cell.outputs for cell in code_cells(book))
    assert path.stat().st_size < MOST_BYTES
    assert not re.search(r"/(home|root|work|tmp)/|stderr", path.read_text())


@pytest.mark.filterwarnings("ignore")  # of the kernel's own libraries
def test_they_run(tmp_path):
    """All together within three minutes; what they print is what is stored, up to numbers."""
    started = time.monotonic()
    for path in NOTEBOOKS:
        stored, book = nbformat.read(path, 4), nbformat.read(path, 4)
        place = {"metadata": {"path": str(tmp_path)}}
        nbclient.NotebookClient(book, timeout=MOST_SECONDS, kernel_name="python3", resources=place).execute()
        for old, new in zip(code_cells(stored), code_cells(book), strict=True):
            assert printed(new) == printed(old), path.name
    assert time.monotonic() - started < MOST_SECONDS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_documentation_shows_them(path):
    tool = importlib.util.spec_from_file_location("write_examples", ROOT / "tools" / "write_examples.py")
    module = importlib.util.module_from_spec(tool)
    tool.loader.exec_module(module)
    page_of = module.page_of
    assert (ROOT / "docs" / "examples" / f"{path.stem}.md").read_text() == page_of(path)
    assert f"examples/{path.stem}.md" in (ROOT / "mkdocs.yml").read_text()

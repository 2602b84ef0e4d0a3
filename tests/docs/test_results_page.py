"""The page of results says what the kept files say."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
written = runpy.run_path(str(DOCS.parent / "tools" / "write_results.py"))


def test_the_page_is_written_from_the_files():
    assert (DOCS / "results.md").read_text() == written["page"]()


def test_a_table_of_partitions_counts_the_found_cut_once():
    """A cut that was found is none of the others, and the best of those is named."""
    rows = [
        {"k": 2, "phases": "6-6", "found": True, "r2": 0.8, "recovered": 0.9},
        {"k": 2, "phases": "6-6", "found": True, "r2": 0.6, "recovered": 0.8},
        {"k": 2, "phases": "6-6", "found": False, "r2": 0.8, "recovered": 0.9},
        {"k": 2, "phases": "5-7", "found": False, "r2": 0.5, "recovered": 0.7},
        {"k": 2, "phases": "4-8", "found": False, "r2": 0.3, "recovered": 0.5},
    ]
    line = written["TABLES"]["partitions"](rows).splitlines()[-1]
    assert line == (
        "| 2 | 6-6 | 0.700 (0.600 to 0.800) | 85.0% (80.0% to 90.0%) | 2 | 0.400 (0.300 to 0.500) "
        "| 60.0% (50.0% to 70.0%) | 5-7, 0.500 |"
    )


@pytest.mark.parametrize("file", sorted((DOCS / "results").rglob("*.json")), ids=lambda file: file.stem)
def test_kept_files_name_no_place_of_a_machine(file):
    text = file.read_text()
    json.loads(text)
    assert not re.search(r'"/|[A-Za-z]:\\\\', text)

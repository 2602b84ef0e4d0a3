"""Every Python block of the documentation runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
BLOCKS = [
    pytest.param(block, id=f"{path.name}-{index}")
    for path in sorted(DOCS.glob("*.md"))
    for index, block in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_the_documentation_runs(block, monkeypatch, tmp_path):
    from raptor.models.teachers import adapt

    monkeypatch.setattr(adapt, "ADAPTERS", dict(adapt.ADAPTERS))  # what an example registers stays in it
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "docs", "exec"), {"__name__": "docs"})


def test_there_is_something_to_run():
    assert len(BLOCKS) >= 2

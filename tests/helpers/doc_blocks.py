"""Code blocks of the documentation."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FENCED = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)


def blocks(path: Path, language: str | None = None) -> list[str]:
    """Return the fenced blocks of a page, of one language or all."""
    return [text for named, text in FENCED.findall(path.read_text()) if language in (None, named)]

"""Numbers and tables as Markdown."""

from __future__ import annotations

import math

NOT_YET = "not measured yet"


def number(value: float, low: float | None, high: float | None) -> str:
    """Return a number with its interval, if it has one."""
    if low is None or high is None or math.isnan(low):
        return f"{value:.3f}"
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"

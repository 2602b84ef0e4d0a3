"""Numbers, verdicts and rows as text."""

from __future__ import annotations

from typing import Any

HELD = {True: "holds", False: "does not hold", None: "cannot be told"}


def number(value: float | None, form: str = ".3f") -> str:
    """Return a number as text; what is null in JSON is no number."""
    return "nan" if value is None else format(value, form)


def cells(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows without what is a matrix, a list or a tree: what fits into cells."""
    return [{key: value for key, value in row.items() if not isinstance(value, (list, dict))} for row in rows]

"""Numbers as text."""

from __future__ import annotations


def number(value: float | None, form: str = ".3f") -> str:
    """Return a number as text; what is null in JSON is no number."""
    return "nan" if value is None else format(value, form)

"""Numbers on the page: each carries its full value, and names the file and the key that it comes from."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from raptor.reporting.collect import Piece


def lookup(result: dict[str, Any], key: str) -> Any:
    """Return what stands under a key such as `fidelity/r2/cls/-1`; None where there is nothing."""
    found: Any = result
    for part in key.split("/"):
        try:
            found = found[int(part)] if isinstance(found, list) else found[part]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    return found


def number(piece: Piece, key: str, form: str = "") -> Markup:
    """Return a number of a run as the page shows it; an em dash where there is none."""
    value = lookup(piece.result, key)
    if value is None:
        return Markup("&mdash;")
    shown = format(value, form) if form else str(value)
    return Markup('<data value="{}" data-run="{}" data-key="{}">{}</data>').format(value, piece.folder.name, key, shown)


def interval(piece: Piece, key: str, form: str = "") -> Markup:
    """Return a number with its interval, where it has one."""
    shown, low, high = number(piece, key, form), number(piece, f"{key}_ci/0", form), number(piece, f"{key}_ci/1", form)
    known = lookup(piece.result, f"{key}_ci") is not None
    return Markup("{} [{}, {}]").format(shown, low, high) if known else shown

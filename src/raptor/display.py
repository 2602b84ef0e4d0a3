"""Results show themselves in notebooks."""

from __future__ import annotations

import importlib


class Displayed:
    """A result with a rich display."""

    def _repr_html_(self) -> str:
        # Values and mathematics stand below the surface and import nothing of it: what draws them is found by name.
        html: str = importlib.import_module("raptor.notebook").html(self)
        return html

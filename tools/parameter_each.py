"""Split docstring entries that describe several parameters, as a griffe extension.

griffe reads `lr, muon_lr` on one line as two parameters with the type and default of the first. Separate entries are
read correctly.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

TOGETHER = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)+)\n((?:(?: {4}.*)?\n)*(?: {4}.*)?)", re.MULTILINE)


def parameter_each(docstring: str) -> str:
    """Return a docstring with one entry per name in its Parameters section."""
    before, heading, after = docstring.partition("Parameters\n----------\n")
    section = re.split(r"(?m)^(?=\w+\n---+$)", after, maxsplit=1)

    def apart(match: re.Match[str]) -> str:
        return (
            "\n".join(f"{name}\n{match[2].rstrip()}" for name in match[1].split(", "))
            + match[2][len(match[2].rstrip()) :]
        )

    return before + heading + TOGETHER.sub(apart, section[0]) + "".join(section[1:])


class ParameterEach(griffe.Extension):
    """Rewrites docstrings when griffe loads them."""

    def on_instance(self, *, obj: Any, **kwargs: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = parameter_each(obj.docstring.value)

"""Typeset formulas in an mkdocs hook, when the site is built: the pages hold MathML and load nothing.

`$...$` and `$$...$$` outside of code become elements with the class `arithmatex` (pymdownx.arithmatex), and this hook
replaces each by MathML, which browsers display without a script.
"""

from __future__ import annotations

import html
import re
from typing import Any

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def typeset(page: str) -> str:
    """Return a page with every formula as MathML."""
    from latex2mathml.converter import convert

    def formula(found: re.Match[str]) -> str:
        tag, kind, text = found.groups()
        typeset_text = convert(html.unescape(text).strip(), display="block" if kind == "[" else "inline")
        return f'<{tag} class="formula">{typeset_text}</{tag}>'

    return FORMULA.sub(formula, page)


def on_page_content(content: str, /, **_: Any) -> str:
    """Typeset the formulas of a page."""
    return typeset(content)

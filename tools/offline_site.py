"""Check in an mkdocs hook that the built site loads nothing from a network, and fail the build otherwise.

Links that a reader clicks may lead anywhere. Resources that a browser loads by itself must be local.
"""

from __future__ import annotations

import logging
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

LOG = logging.getLogger("mkdocs.hooks.offline_site")
OUTSIDE = re.compile(r"\s*(?:https?:)?//", re.IGNORECASE)
# Attributes whose address a browser loads for any element. `href` counts only for `link`, because `a` needs a click.
LOADED = ("src", "srcset", "poster", "data", "background", "xlink:href")
IN_STYLES = re.compile(r"(?:@import\s+|url\()\s*[\"']?\s*((?:https?:)?//[^\"')\s]+)", re.IGNORECASE)
# Classes that make the theme fetch a script.
FETCHING = ("mermaid", "arithmatex")


class _Loads(HTMLParser):
    """Collects the external addresses that a browser loads for a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        for name, value in given.items():
            if (name in LOADED or (name == "href" and tag == "link")) and OUTSIDE.match(value):
                self.found.append(value)
            if name == "style":
                self.found += IN_STYLES.findall(value)
        self.found += [f"a script for {name}" for name in FETCHING if name in given.get("class", "").split()]

    def handle_data(self, data: str) -> None:
        if self.lasttag == "style":
            self.found += IN_STYLES.findall(data)


def loads_from_outside(page: str) -> list[str]:
    """Return the external addresses that a browser loads when it opens a page."""
    parser = _Loads()
    parser.feed(page)
    return parser.found


def on_post_build(config: Any) -> None:
    """Check every built page and style sheet. A warning fails a strict build."""
    site = Path(config["site_dir"])
    for path in sorted(site.rglob("*")):
        if path.suffix == ".html":
            found = loads_from_outside(path.read_text(encoding="utf-8"))
        elif path.suffix == ".css":
            found = IN_STYLES.findall(path.read_text(encoding="utf-8"))
        else:
            continue
        for address in found:
            LOG.warning("%s loads %s from a network", path.relative_to(site), address)

"""A hook of mkdocs: the site that was built asks nothing of any network, or the build fails.

Links are for people to click and may lead anywhere; what a browser loads on its own may not.
"""

from __future__ import annotations

import logging
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

LOG = logging.getLogger("mkdocs.hooks.offline_site")
OUTSIDE = re.compile(r"\s*(?:https?:)?//", re.IGNORECASE)
# Attributes whose address a browser loads, whatever the element; `href` only of `link`, since `a` waits for a click.
LOADED = ("src", "srcset", "poster", "data", "background", "xlink:href")
IN_STYLES = re.compile(r"(?:@import\s+|url\()\s*[\"']?\s*((?:https?:)?//[^\"')\s]+)", re.IGNORECASE)
# Drawn by a script that the theme would fetch; a page without either never asks for it.
FETCHING = ("mermaid", "arithmatex")


class _Loads(HTMLParser):
    """Collects what a page makes a browser load from elsewhere."""

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
    """Return what a browser would load from a network when it opens a page."""
    parser = _Loads()
    parser.feed(page)
    return parser.found


def on_post_build(config: Any) -> None:
    """Look at every page and style sheet that was built; a warning fails a strict build."""
    site = Path(config["site_dir"])
    for path in sorted(site.rglob("*")):
        if path.suffix == ".html":
            found = loads_from_outside(path.read_text(encoding="utf-8"))
        elif path.suffix == ".css":
            found = IN_STYLES.findall(path.read_text(encoding="utf-8"))
        else:
            continue
        for address in found:
            LOG.warning("%s loads %s, which is not here without a network", path.relative_to(site), address)

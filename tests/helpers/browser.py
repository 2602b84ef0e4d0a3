"""Pages in a headless browser."""

from __future__ import annotations

import shutil
from contextlib import contextmanager

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextmanager
def opened(file, width=1440, scheme="light", ready="drawn"):
    """Open a page; what it says to the console and asks of a network is kept."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
        page.errors, page.asked = [], []
        page.on("console", lambda message: page.errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.on("request", lambda one: page.asked.append(one.url))
        page.goto(f"file://{file}")
        page.wait_for_function(f"document.documentElement.dataset.{ready} === 'yes'", timeout=120_000)
        yield page
        browser.close()

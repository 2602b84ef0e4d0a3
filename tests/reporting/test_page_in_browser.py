"""The demo's page in a real browser; skipped, with the reason, where there is none."""

from __future__ import annotations

import csv
import shutil
from contextlib import contextmanager

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium: apt-get install chromium")
DEPTH = "[id$='phases-depth']"


@pytest.fixture
def page_file(demo_run):
    return demo_run / "report.html"


@contextmanager
def opened(file, width=1440, scheme="light"):
    """Open a page; what it says to the console and asks of a network is kept."""
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
        page.errors, page.asked = [], []
        page.on("console", lambda message: page.errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.on("request", lambda one: page.asked.append(one.url))
        page.goto(f"file://{file}")
        page.wait_for_function("document.documentElement.dataset.drawn === 'yes'", timeout=120_000)
        yield page
        browser.close()


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (1440, "light"),
        pytest.param(900, "dark", marks=pytest.mark.long),
        pytest.param(1440, "dark", marks=pytest.mark.long),
        pytest.param(900, "light", marks=pytest.mark.long),
    ],
)
def test_it_loads_without_errors_or_requests(page_file, width, scheme):
    with opened(page_file, width, scheme) as page:
        assert page.errors == []
        assert [url for url in page.asked if not url.startswith(("file:", "data:", "blob:"))] == []
        assert page.evaluate("document.documentElement.dataset.theme") == scheme
        # Nothing is wider than the window, and every figure is drawn.
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        charts = page.query_selector_all(".chart")
        assert len(charts) > 12
        assert all(chart.query_selector("svg") for chart in charts)
        # Of the two themes each has its own ink, also in figures.
        page.click("#theme")
        page.wait_for_function(f"document.documentElement.dataset.theme !== '{scheme}'")
        assert page.errors == []


def cuts(page):
    """Return where the cuts of the linked figure are drawn."""
    lines = page.query_selector_all(f"{DEPTH} g.mark-rule line")
    return [(line.get_attribute("transform"), line.get_attribute("x2"), line.get_attribute("y2")) for line in lines]


def slide(page, k):
    page.eval_on_selector(
        f"{DEPTH} .binds input[type=range]",
        f"(slider) => {{ slider.value = {k}; slider.dispatchEvent(new Event('input')); }}",
    )
    page.wait_for_timeout(300)


def test_the_slider_and_the_choice_of_tokens_move_the_cuts(page_file):
    with opened(page_file) as page:
        slide(page, 2)
        two = cuts(page)
        assert len(two) >= 2  # one cut, upright and level; certainty and descriptions have rules of their own
        slide(page, 4)
        assert len(cuts(page)) == len(two) + 4
        before = page.inner_html(f"{DEPTH} svg")  # the cells too: groups may have the same boundaries
        page.select_option(f"{DEPTH} .binds select", "cls")
        page.wait_for_timeout(300)
        assert page.inner_html(f"{DEPTH} svg") != before
        assert page.errors == []


def pixels(page):
    return page.eval_on_selector_all(".film canvas", "(all) => all.map((one) => one.toDataURL())")


@pytest.mark.long
def test_the_film_moves_and_patches_can_be_chosen(page_file):
    with opened(page_file) as page:
        start = pixels(page)
        page.eval_on_selector(
            ".film input[type=range]", "(slider) => { slider.value = 7; slider.dispatchEvent(new Event('input')); }"
        )
        later = pixels(page)
        assert all(one != other for one, other in zip(start, later, strict=True))
        assert "layer 7 of 12" in page.inner_text(".film .controls")
        page.click(".film canvas", position={"x": 10, "y": 10})
        assert "row 1, column 1" in page.inner_text(".film")
        page.press(".film canvas", "ArrowDown")
        assert "row 2, column 1" in page.inner_text(".film")
        page.click(".film button:has-text('Play')")
        page.wait_for_function("document.querySelector('.film .controls').innerText.includes('layer 9')", timeout=5000)
        page.click(".film .thumbs button >> nth=1")
        assert page.get_attribute(".film .thumbs button >> nth=1", "aria-pressed") == "true"
        assert page.errors == []


@pytest.mark.long
def test_figures_can_be_taken_away(page_file, tmp_path):
    with opened(page_file) as page:
        for kind, start in (("png", b"\x89PNG"), ("svg", b"<svg"), ("csv", b"group")):
            with page.expect_download() as waiting:
                page.click(f"figure[id$='dynamics-speed'] button[data-save={kind}]")
            waiting.value.save_as(tmp_path / f"speed.{kind}")
            assert waiting.value.suggested_filename == f"speed.{kind}"
            assert (tmp_path / f"speed.{kind}").read_bytes().startswith(start)
        for kind, start in (("png", b"\x89PNG"), ("svg", b"<svg"), ("csv", b"flow,image,layer")):
            with page.expect_download() as waiting:
                page.click(f".film button[data-film-save={kind}]")
            waiting.value.save_as(tmp_path / f"film.{kind}")
            assert (tmp_path / f"film.{kind}").read_bytes().startswith(start)
        # What a page gives is what lies beside it, but for how finely differences are kept.
        taken, beside = (
            list(csv.DictReader(file.read_text().splitlines()))
            for file in (tmp_path / "film.csv", page_file.parent / "figures" / "film-film.csv")
        )
        assert len(taken) == len(beside)
        for one, other in zip(taken, beside, strict=True):
            assert (
                "#{:02x}{:02x}{:02x}".format(*(int(one[name]) for name in ("red", "green", "blue"))) == other["colour"]
            )
        assert page.errors == []


@pytest.mark.long
def test_it_can_be_used_by_keyboard(page_file):
    with opened(page_file) as page:
        reached = set()
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.tagName"))
        assert {"A", "BUTTON", "INPUT", "SELECT", "CANVAS"} <= reached

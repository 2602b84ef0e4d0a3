"""Where numbers and phases on the page come from, in a real browser."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from browser import CHROMIUM, opened
from test_numbers import stored

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium: apt-get install chromium")


@pytest.fixture
def page_file(demo_run):
    return demo_run / "report.html"


def test_a_number_leads_to_its_result_file(page_file):
    with opened(page_file, ready="ready") as page:
        number = page.locator("[data-tile=recovered] data").first
        run, key, value = (number.get_attribute(name) for name in ("data-run", "data-key", "value"))
        number.click()
        shown = page.inner_text("#source")
        assert key in shown
        assert value in shown
        with page.expect_popup() as waiting:
            page.click("#source a")
        file = waiting.value
        assert file.url == (page_file.parent / run / "result.json").as_uri()
        assert stored(json.loads(file.inner_text("body")), key) == pytest.approx(float(value), rel=1e-12)
        page.keyboard.press("Escape")
        assert page.is_hidden("#source")
        assert page.errors == []


@pytest.mark.long
def test_the_keyboard_reaches_every_number(page_file):
    with opened(page_file, ready="ready") as page:
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        place = "(all) => all.indexOf(document.activeElement)"
        wanted = page.locator("data[data-key]").count()
        groups = page.eval_on_selector_all("data[data-key]", "(all) => all.filter((one) => one.tabIndex === 0).length")
        assert 20 < groups < wanted / 3  # one stop of the tab key in each tile, table or paragraph
        reached, before = set(), page.inner_text("#layer-said")
        page.focus("[data-tile=phases] data")
        for _ in range(groups + 400):
            at = page.eval_on_selector_all("data[data-key]", place)
            while at >= 0 and at not in reached:  # the arrow keys go through the numbers of a group
                reached.add(at)
                page.keyboard.press("ArrowRight")
                at = page.eval_on_selector_all("data[data-key]", place)
            page.keyboard.press("Tab")
            if len(reached) == wanted:
                break
        missed = wanted - len(reached)
        above = page.eval_on_selector_all(
            "data[data-key]", "(all) => all.findIndex((one) => one.closest('[data-tile=phases]'))"
        )
        assert missed <= above  # those that stand before the place of the start
        assert page.inner_text("#layer-said") == before  # and leave the ruler alone
        page.focus("[data-tile=parameters] data")
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.closest('#source') !== null")
        page.keyboard.press("Escape")
        assert page.evaluate("document.activeElement.closest('[data-tile=parameters]') !== null")


def test_a_page_that_lies_alone_stays_as_it_is(page_file, tmp_path):
    alone = tmp_path / "alone.html"
    shutil.copy(page_file, alone)
    with opened(alone, ready="ready") as page:
        page.locator("[data-tile=phases] data").first.click()
        with page.expect_popup():
            page.click("#source a")
        assert page.url == alone.as_uri()
        assert page.inner_text(".headline")
        assert page.errors == []


def test_figures_of_a_surrogate_have_its_phases(page_file, tmp_path):
    """Where they differ from the phases that were found, both are shown and said."""
    text = page_file.read_text()
    found = re.search(r'"surrogates":\{"2":\[[\d,]+\],"3":\[([\d,]+)\]\}', text)
    other = text.replace(found[0], found[0].replace(f'"3":[{found[1]}]', '"3":[1,1,10]'))
    (tmp_path / "page.html").write_text(other)

    def cuts(page, name):
        return page.eval_on_selector_all(
            f"figure[data-name={name}] .chart:first-of-type svg.ruler line.cut",
            "(all) => all.map((one) => Number(one.getAttribute('x1')))",
        )

    with opened(page_file) as page:
        page.check("#k-3")
        same, depth = cuts(page, "speed"), cuts(page, "depth")
        assert page.is_hidden(".strip.tied")
        assert "Boundaries" not in page.inner_text("figure[data-name=speed] .status")
    with opened(tmp_path / "page.html") as page:
        page.check("#k-3")
        assert cuts(page, "depth") == depth  # the phases that were found
        assert cuts(page, "speed") != same
        assert "1-1-10" in page.inner_text("figure[data-name=speed] .status")
        assert "1-1-10" in page.inner_text("#layer-said")
        assert page.is_visible(".strip.tied")
        page.check("#flow-teacher")
        page.wait_for_function("document.querySelector('figure[data-name=speed] .status').textContent === ''")
        assert cuts(page, "speed") == same
        assert page.errors == []


# Colours of the text of charts, the widths of the page and of its window, and how far rulers are from their charts.
PRINTED = """() => {
  const boxOf = (chart, name) => { const one = chart.querySelector(name); return one && one.getBoundingClientRect(); };
  const apart = [...document.querySelectorAll(".chart")].flatMap((chart) => {
    const svg = boxOf(chart, ".canvas svg"), ruler = boxOf(chart, "svg.ruler");
    return ruler ? ["left", "top", "width", "height"].map((side) => Math.abs(svg[side] - ruler[side])) : [];
  });
  const inks = new Set([...document.querySelectorAll(".canvas svg text")].map((one) => getComputedStyle(one).fill));
  const { scrollWidth, dataset } = document.documentElement;
  return { inks: [...inks], wide: scrollWidth, apart: Math.max(...apart), theme: dataset.theme };
}"""


def test_it_prints_in_dark_ink_with_rulers_in_place(page_file, tmp_path):
    with opened(page_file, scheme="dark") as page:
        page.evaluate("redraw = () => {}")  # paper is not a window: nothing is drawn again
        page.emulate_media(media="print", color_scheme="dark")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.set_viewport_size({"width": 718, "height": 1000})
        found = page.evaluate(PRINTED)
        assert found["inks"] == ["rgb(27, 29, 33)"]
        assert found["theme"] == "light"
        assert found["wide"] <= 718
        assert found["apart"] < 2
        assert page.eval_on_selector_all("details", "(all) => all.every((one) => one.open)")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.pdf(path=tmp_path / "page.pdf", format="A4")
        assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
        assert page.errors == []

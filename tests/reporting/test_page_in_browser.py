"""The demo's page in a real browser; skipped, with the reason, where there is none."""

from __future__ import annotations

import csv
import subprocess
from pathlib import Path

import pytest

from browser import CHROMIUM, opened

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium: apt-get install chromium")
CHECKS = Path(__file__).parent.parent / "helpers" / "checks.js"
LAYOUTS = [(360, "dark"), (800, "dark"), (1100, "light"), (1440, "dark"), (2560, "light")]
CONTROLS = "a[href], button, input, summary, canvas, .scroll"


def checked(page, name):
    """Return what a check of `checks.js` finds."""
    return page.evaluate(f"(() => {{ {CHECKS.read_text()} return checks.{name}(); }})()")


@pytest.fixture
def page_file(demo_run):
    return demo_run / "report.html"


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (1440, "light"),
        (390, "light"),
        *(pytest.param(width, scheme, marks=pytest.mark.long)
          for width, scheme in LAYOUTS),
    ],
)  # fmt: skip
def test_everything_fits_and_can_be_read(page_file, width, scheme):
    with opened(page_file, width, scheme) as page:
        assert page.errors == []
        assert [url for url in page.asked if not url.startswith(("file:", "data:", "blob:"))] == []
        assert page.evaluate("document.documentElement.dataset.theme") == scheme
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        charts = page.query_selector_all(".chart")
        assert len(charts) > 25
        assert all(chart.query_selector(".canvas svg") for chart in charts)
        assert checked(page, "narrow") == []
        assert checked(page, "clipped") == []
        assert checked(page, "overlapping") == []
        assert checked(page, "small") == []
        page.click("#theme")
        page.wait_for_function(f"document.documentElement.dataset.theme !== '{scheme}'")
        assert page.errors == []


def test_a_narrow_screen_has_a_small_bar_and_tables_without_scrolling(page_file):
    """Every choice of the bar is in view, and every row of a wide table is as wide as the screen."""
    with opened(page_file, 390) as page:
        bar = page.locator("#controls").bounding_box()
        assert bar["height"] < page.viewport_size["height"] / 6
        for option in page.locator("#controls .option").all():
            box = option.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
        wide = page.eval_on_selector_all(
            ".scroll:has(.many)", "(all) => all.filter((one) => one.scrollWidth > one.clientWidth + 1).length"
        )
        assert wide == 0
        labels = page.eval_on_selector_all(
            ".many td:not(:first-child):not(:empty)",
            "(all) => all.map((one) => getComputedStyle(one, '::before').content)",
        )
        assert len(labels) > 20
        assert all(len(label) > 2 for label in labels)


def test_the_unit_circle_is_round(page_file):
    with opened(page_file) as page:
        for width in (390, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_timeout(1500)
            box = page.eval_on_selector(
                "figure[data-name=dmd] .mark-line path", "(one) => [one.getBBox().width, one.getBBox().height]"
            )
            assert box[0] / box[1] == pytest.approx(1, abs=0.04)


def test_the_checks_of_boxes_can_fail(page_file):
    with opened(page_file) as page:
        page.evaluate("document.querySelector('.tile .value').style.cssText = 'width: 20px; white-space: nowrap'")
        page.evaluate("document.querySelector('.detail').style.fontSize = '9px'")
        page.evaluate("document.querySelector('.canvas svg').style.width = '60%'")
        page.evaluate(
            "(() => { const [a, b] = document.querySelectorAll('.canvas svg')[1].querySelectorAll('text');"
            " b.setAttribute('transform', a.getAttribute('transform')); a.textContent = b.textContent = 'overlap'; })()"
        )
        assert any("phases" in one for one in checked(page, "clipped"))
        assert checked(page, "small")
        assert checked(page, "overlapping")


def ruler(page):
    """Return where the ruler stands in each panel that has depth, by panel."""
    return page.eval_on_selector_all("svg.ruler .marked", "(all) => all.map((one) => one.outerHTML)")


def slide(page, layer):
    page.eval_on_selector("#layer", f"(one) => {{ one.value = {layer}; one.dispatchEvent(new Event('input')); }}")


# Pixels between the ruler and the label of its layer on the axis, for the panels that label it.
FROM_LABEL = """() => {
  const centre = (one) => { const box = one.getBoundingClientRect(); return box.left + box.width / 2; };
  return [...document.querySelectorAll(".chart")].flatMap((chart) => {
    const line = chart.querySelector("svg.ruler .marked line.now");
    const axis = [...chart.querySelectorAll("g[aria-label^='X-axis'] .role-axis-label text")];
    const label = axis.find((one) => one.textContent === chart.dataset.layer);
    return line && label ? [Math.abs(centre(line) - centre(label))] : [];
  });
}"""


def test_the_ruler_stands_at_its_layer(page_file):
    with opened(page_file) as page:
        slide(page, 6)
        away = page.evaluate(FROM_LABEL)
        assert len(away) > 10
        assert max(away) < 2


def test_the_ruler_moves_every_figure_and_the_film(page_file):
    with opened(page_file) as page:
        slide(page, 3)
        before, films = ruler(page), pixels(page)
        assert len(before) > 20
        slide(page, 9)
        after = ruler(page)
        assert all(one != other for one, other in zip(before, after, strict=True))
        assert all(one != other for one, other in zip(films, pixels(page), strict=True))
        assert set(page.eval_on_selector_all(".chart[data-layer]", "(all) => all.map((one) => one.dataset.layer)")) == {
            "9"
        }
        assert "layer 9 of 12" in page.inner_text("#layer-said")
        # Pointing at a layer highlights it everywhere; a click chooses it.
        chart = page.locator("figure[data-name=speed] .chart").first
        chart.scroll_into_view_if_needed()
        chart.hover(position={"x": 300, "y": 120})
        assert page.locator("svg.ruler line.hover").count() >= len(after)
        chart.click(position={"x": 300, "y": 120})
        assert "layer 9 of" not in page.inner_text("#layer-said")
        assert page.errors == []


def test_choices_at_the_top_change_figures(page_file):
    with opened(page_file) as page:
        assert page.eval_on_selector("#controls", "(one) => getComputedStyle(one).position") == "sticky"
        cuts = page.locator("figure[data-name=depth] line.cut").count()
        page.check("#k-2")
        assert page.locator("figure[data-name=depth] line.cut").count() < cuts
        speed = "figure[data-name=speed] .canvas"
        both = page.inner_html(speed)
        page.check("#flow-teacher")
        page.wait_for_function("([at, old]) => document.querySelector(at).innerHTML !== old", arg=[speed, both])
        teacher = page.inner_html(speed)
        page.check("#group-cls")
        page.wait_for_function("([at, old]) => document.querySelector(at).innerHTML !== old", arg=[speed, teacher])
        cls = page.inner_html(speed)
        page.check("#flow-difference")
        page.wait_for_function("([at, old]) => document.querySelector(at).innerHTML !== old", arg=[speed, cls])
        assert page.errors == []


def pixels(page):
    return page.eval_on_selector_all(".film canvas", "(all) => all.map((one) => one.toDataURL())")


@pytest.mark.long
def test_the_film_moves_and_patches_can_be_chosen(page_file):
    with opened(page_file) as page:
        slide(page, 7)
        assert "layer 7 of 12" in page.inner_text(".film")
        widths = page.eval_on_selector_all(
            ".film canvas", "(all) => all.map((one) => one.getBoundingClientRect().width)"
        )
        assert min(widths) >= 300
        page.click(".film canvas", position={"x": 10, "y": 10})
        assert "row 1, column 1" in page.inner_text(".film")
        page.press(".film canvas", "ArrowDown")
        assert "row 2, column 1" in page.inner_text(".film")
        before = pixels(page)[0]
        page.check(".film input[type=checkbox]")
        assert pixels(page)[0] != before  # smooth
        page.click(".film button:has-text('Play')")
        page.wait_for_function("document.querySelector('.film').innerText.includes('layer 9')", timeout=5000)
        page.click(".film .thumbs button >> nth=1")
        assert page.get_attribute(".film .thumbs button >> nth=1", "aria-pressed") == "true"
        assert page.errors == []


@pytest.mark.long
def test_figures_can_be_taken_away(page_file, tmp_path):
    with opened(page_file) as page:
        for kind, start in (("png", b"\x89PNG"), ("svg", b"<svg"), ("csv", b"role")):
            with page.expect_download() as waiting:
                page.click(f"figure[data-name=speed] button[data-save={kind}]")
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
        page.click("button[data-copy]")
        page.wait_for_function("document.querySelector('button[data-copy]').textContent === 'Copied'")
        assert page.errors == []


@pytest.mark.long
def test_the_keyboard_reaches_everything(page_file):
    with opened(page_file) as page:
        shown = "(one) => one.checkVisibility() && (one.type !== 'radio' || one.checked)"
        wanted = page.eval_on_selector_all(CONTROLS, f"(all) => all.filter({shown}).length")
        place = "(all) => all.indexOf(document.activeElement)"
        reached = set()
        for _ in range(wanted + 40):
            page.keyboard.press("Tab")
            reached.add(page.eval_on_selector_all(CONTROLS, place))
        assert len(reached - {-1}) >= wanted
        page.focus("#layer")
        before = page.inner_text("#layer-said")
        page.keyboard.press("ArrowRight")
        assert page.inner_text("#layer-said") != before
        # A claim leads to the figure that shows it.
        page.focus("a[data-figure=speed]")
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.dataset.name") == "speed"


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(page_file, tmp_path, scheme):
    done = subprocess.run(["npm", "pack", "axe-core", "--silent"], cwd=tmp_path, capture_output=True, timeout=120)
    if done.returncode:
        pytest.skip("npm cannot provide axe-core")
    subprocess.run(["tar", "xf", next(tmp_path.glob("*.tgz")), "package/axe.min.js"], cwd=tmp_path, check=True)
    with opened(page_file, 1440, scheme) as page:
        page.evaluate((tmp_path / "package" / "axe.min.js").read_text())
        told = "(one) => [one.id, ...one.nodes.map((node) => node.html.slice(0, 120))]"
        assert page.evaluate(f"axe.run().then((found) => found.violations.map({told}))") == []


@pytest.mark.long
def test_it_can_be_used_within_two_seconds(page_file):
    with opened(page_file, ready="ready") as page:
        assert page.evaluate("performance.getEntriesByName('ready')[0].startTime") < 2000
        assert page_file.stat().st_size < 8_000_000

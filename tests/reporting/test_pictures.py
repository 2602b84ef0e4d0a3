"""Every figure of the pipeline can be rendered as svg, pdf and png. Other tests write stand-ins for pictures."""

from __future__ import annotations

import io
import math
import re

import pytest
from PIL import Image

from raptor.render.charts import DOUBLE, SINGLE, SPEC, log_ticks, pictures
from raptor.render.panels import for_paper


def test_a_logarithmic_axis_has_labels_at_powers_of_ten_and_between_them():
    assert log_ticks([0.03, 0.4]) == [0.05, 0.1, 0.2]
    assert log_ticks([0.045, 0.0485]) == [0.045, 0.046, 0.047, 0.048]
    assert log_ticks([0.4, 0.95]) == [0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    assert log_ticks([0.05, -1, 0, 1.0]) == [0.05, 0.1, 0.2, 0.5, 1.0]
    assert log_ticks([0.005, 2]) == [0.01, 0.1, 1.0]
    assert log_ticks([2e-7, 0.5]) == [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1]
    assert log_ticks([0.0]) == []
    assert log_ticks([0.03, None, math.nan, math.inf, 0.4]) == [0.05, 0.1, 0.2]  # a training that diverged


def test_panels_of_a_paper_share_a_scale_and_have_room_for_every_row():
    colour = {"field": "value", "type": "quantitative", "title": "cosine", "scale": {"scheme": "cividis"}}
    matrix = {"layer": [{"mark": "rect", "encoding": {"x": {"field": "left"}, "color": colour}}, {"mark": "rule"}]}
    other = {"mark": "rect", "encoding": {"color": {**colour, "title": "KL"}}}
    rows = {"mark": "point", "height": {"step": 22}, "encoding": {"color": {"field": "of", "type": "nominal"}}}
    found = for_paper({"hconcat": [matrix, matrix, other, rows]}, DOUBLE, narrow=False)["concat"]
    legends = [one["encoding"]["color"].get("legend", "its own") for one in (*(part["layer"][0] for part in found[:2]),
                                                                             *found[2:])]  # fmt: skip
    assert legends == ["its own", None, "its own", "its own"]
    assert found[0]["width"] == found[0]["height"]
    assert found[3]["height"] == {"step": 22}
    assert "legend" not in matrix["layer"][0]["encoding"]["color"]


SHORT = (
    "phases",
    "dynamics",
    "fidelity-1",
)  # of the others, the long suite renders the first figure and all later ones


def rendered(spec):
    found = pictures(spec.read_text())
    assert found[".svg"].startswith(b"<svg")
    assert found[".pdf"].startswith(b"%PDF")
    assert b"/FontFile" in found[".pdf"] or b"/Font" not in found[".pdf"]  # fonts are embedded
    single, double = (float(re.search(rb'width="([\d.]+)', found[name])[1]) for name in ("-single.svg", ".svg"))
    assert (single, double) == (SINGLE, DOUBLE)
    # Type stays readable: the picture is scaled down by little.
    drawn = [float(re.search(rb'viewBox="0 0 ([\d.]+)', found[name])[1]) for name in ("-single.svg", ".svg")]
    assert drawn[0] < 1.4 * SINGLE
    assert drawn[1] < 1.25 * DOUBLE
    picture = Image.open(io.BytesIO(found[".png"])).convert("L")
    assert min(picture.size) > 100
    assert len(set(picture.tobytes())) > 10, spec  # it shows something


@pytest.mark.pictures
@pytest.mark.parametrize("stage", SHORT)
def test_one_figure_of_a_stage(demo_run, stage):
    rendered(min((demo_run / stage / "figures").glob(f"*.{SPEC}")))


@pytest.mark.long
@pytest.mark.pictures
def test_every_figure(demo_run):
    specs = sorted(demo_run.glob(f"*/figures/*.{SPEC}"))
    assert len(specs) > 20
    for spec in specs:
        rendered(spec)

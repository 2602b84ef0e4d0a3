"""Shared settings of figures, and their export to png, svg, pdf, csv and Vega-Lite."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raptor.core.serialize import to_json
from raptor.render.panels import for_paper
from raptor.render.registry import figures_of
from raptor.runtime.rundir import Run

# The palette of Okabe and Ito, which colour-blind readers can distinguish.
GROUP_COLOURS = {"cls": "#D55E00", "register": "#009E73", "outlier": "#CC79A7", "patch": "#0072B2"}
PALETTE = ("#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#0072B2", "#D55E00", "#F0E442")
WIDTH, HEIGHT = 420, 260
SPEC = "vl.json"  # suffix of the Vega-Lite specification of a figure
SINGLE, DOUBLE = 252, 516  # points of one and of two columns of a paper (3.5 and 7.17 inches)
SEQUENTIAL, DIVERGING = "cividis", "blueorange"  # safe for colour-blind readers

# One mark of a chart: text and numbers by the names that the chart encodes.
Row = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """A figure.

    Parameters
    ----------
    chart
        Altair chart.
    rows
        Its data, one row per mark, for the csv file; None to write none.
    """

    chart: Any
    rows: list[Row] | None = None


def chart_of(rows: Iterable[Row]) -> Any:
    """Return an Altair chart of some rows.

    Altair copies lists with everything in them at every step of building a chart; a tuple it leaves as it is.
    """
    import altair as alt

    return alt.Chart(alt.Data(values=tuple(rows)))


def log_ticks(values: Iterable[float | None]) -> list[float]:
    """Return the ticks of a logarithmic axis: the powers of ten that lie among some positive values.

    Where they are fewer than three, there are multiples between them, too. Left to itself, the renderer hides the label
    of a power of ten that is next to a tick without one.

    Parameters
    ----------
    values
        Numbers on the axis; those that are not positive or not finite are left out.
    """
    known = [value for value in values if value is not None and 0 < value < math.inf]
    if not known:
        return []
    low, high = min(known), max(known)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks: list[float] = []
    for steps in ([10], [10, 20, 50], range(10, 100, 10), range(10, 100)):
        ticks = [float(f"{step}e{power - 1}") for power in powers for step in steps]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) > 2:
            break
    return ticks


def spec_of(chart: Any) -> Any:
    """Return the Vega-Lite specification of a chart. Altair's check is slow and left out: tests render all figures."""
    return chart.to_dict(validate=False)


def draw(run: Run, verb: str, result: Any, name: str, prefix: str = "") -> list[str]:
    """Draw all registered figures of a verb into the run directory; return their paths relative to it.

    Parameters
    ----------
    run
        The run; nothing is drawn if it has no directory.
    verb
        Name of the verb; the `figures` module of its package must have been imported.
    result
        The result to draw.
    name
        Name of the model, for titles.
    prefix
        Start of the file names, for runs with figures of several models.
    """
    if run.out is None:
        return []
    run.begin()
    drawn = ((entry.name, entry.draw(result, name)) for entry in figures_of(verb))
    return [save(one.chart, run, prefix + stem, one.rows) for stem, one in drawn if one is not None]


def save(chart: Any, run: Run, name: str, rows: list[Row] | None = None) -> str:
    """Write a figure into `figures/` of the run; return the path of its png relative to the run.

    The files are a png, svg and pdf at the width of two columns of a paper, an svg and a pdf at that of one
    (`NAME-single`), the Vega-Lite specification for the page, and a csv file of the rows.
    """
    spec = to_json(spec_of(chart))  # the renderer reads strict JSON, without NaN
    versions = {**pictures(spec), f".{SPEC}": spec.encode()}
    if rows is not None:
        versions[".csv"] = table(rows).encode()
    for ending, content in versions.items():
        with run.file(f"figures/{name}{ending}") as file:
            file.write(content)
    return str(Path("figures") / f"{name}.png")


def pictures(spec: str) -> dict[str, bytes]:
    """Render a Vega-Lite specification for papers, by the ending of the file's name; see `save`.

    The slow layout is done once for each width, for the svg. The renderer embeds the fonts of a pdf.
    """
    import vl_convert

    declared = json.loads(spec)
    double = _at_width(vl_convert.vegalite_to_svg(for_paper(declared, DOUBLE, narrow=False)), DOUBLE)
    single = _at_width(vl_convert.vegalite_to_svg(for_paper(declared, SINGLE, narrow=True)), SINGLE)
    return {
        ".svg": double.encode(),
        ".pdf": vl_convert.svg_to_pdf(double),
        ".png": vl_convert.svg_to_png(double, scale=2.0),
        "-single.svg": single.encode(),
        "-single.pdf": vl_convert.svg_to_pdf(single),
    }


def _at_width(svg: str, width: int) -> str:
    """Return a picture scaled to exactly a width in points; its axes and legends take a little more or less."""
    sizes = re.search(r'width="([\d.]+)" height="([\d.]+)"', svg)
    if sizes is None:
        return svg
    own, high = float(sizes[1]), float(sizes[2])
    return svg.replace(sizes[0], f'width="{width}" height="{high * width / own:.1f}"', 1)


def rows_in(spec: Any) -> list[Row]:
    """Return the distinct data rows of a Vega-Lite specification, including those of its parts."""
    found: dict[str, Row] = {}
    for part in spec if isinstance(spec, list) else [spec]:
        if not isinstance(part, dict):
            continue
        data = part.get("data")
        rows = list(data.get("values", [])) if isinstance(data, dict) else []
        for inner in ("layer", "hconcat", "vconcat", "concat", "spec"):
            rows += rows_in(part.get(inner))
        found |= {json.dumps(row, sort_keys=True): row for row in rows}
    return list(found.values())


def table(rows: list[Row]) -> str:
    """Return rows as csv text, with the union of their keys as columns."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()

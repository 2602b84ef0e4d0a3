"""What all figures share: sizes, colours, and how one declaration becomes png, svg, pdf and a part of the report."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raptor.run import Run, to_json

# Okabe and Ito's palette: told apart by colour-blind readers too.
GROUP_COLOURS = {"cls": "#D55E00", "register": "#009E73", "patch": "#0072B2"}
PALETTE = ("#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#0072B2", "#D55E00", "#F0E442")
WIDTH, HEIGHT = 420, 260
SPEC = "vl.json"  # ending of the declaration of a figure
SEQUENTIAL, DIVERGING = "cividis", "blueorange"  # both read the same with any colour vision


@dataclass(frozen=True)
class Figure:
    """A chart, and its numbers: one row a mark."""

    chart: Any
    rows: list[dict[str, Any]]


def save(chart: Any, run: Run, name: str, rows: list[dict[str, Any]] | None = None) -> str:
    """Write a figure as png, svg and pdf into the run's `figures/`; return the png's path within the run.

    Its declaration, from which the report draws it anew, lies beside it; rows become a table, .csv.
    """
    spec = to_json(chart.to_dict())  # with null for what is not finite: the renderer reads JSON proper
    versions = {**pictures(spec), SPEC: spec.encode()}
    if rows is not None:
        versions["csv"] = table(rows).encode()
    for ending, content in versions.items():
        with run.file(f"figures/{name}.{ending}") as file:
            file.write(content)
    return str(Path("figures") / f"{name}.png")


def pictures(spec: str) -> dict[str, bytes]:
    """Return a declaration as svg, pdf and png."""
    import vl_convert

    return {
        "svg": vl_convert.vegalite_to_svg(spec).encode(),
        "pdf": vl_convert.vegalite_to_pdf(spec),
        "png": vl_convert.vegalite_to_png(spec, scale=2.0),
    }


def rows_in(spec: Any) -> list[dict[str, Any]]:
    """Return the rows that a declaration draws, those of all its parts, each once."""
    found: dict[str, dict[str, Any]] = {}
    for part in spec if isinstance(spec, list) else [spec]:
        if not isinstance(part, dict):
            continue
        data = part.get("data")
        rows = list(data.get("values", [])) if isinstance(data, dict) else []
        for inner in ("layer", "hconcat", "vconcat", "concat", "spec"):
            rows += rows_in(part.get(inner))
        found |= {json.dumps(row, sort_keys=True): row for row in rows}
    return list(found.values())


def table(rows: list[dict[str, Any]]) -> str:
    """Return rows as comma-separated values, under all names that any row has."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()

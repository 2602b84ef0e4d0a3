"""Draw docs/figures/scaling.png from docs/data/scaling.jsonl, and print the slopes table of docs/scaling.md.

python tools/draw_scaling.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import vl_convert

DOCS = Path(__file__).parents[1] / "docs"
AXES = ("images", "layers", "tokens", "width", "processes")
TASKS = ("phases", "dynamics", "distill")
MEASURED = {"seconds": "CPU seconds", "peak_mb": "peak memory, MB"}


def points() -> list[dict[str, Any]]:
    """Return the points that `tools/measure_scaling.py` measured."""
    return [json.loads(line) for line in (DOCS / "data" / "scaling.jsonl").read_text().splitlines()]


def slope(task: str, axis: str, measure: str) -> float:
    """Return the growth exponent: the least-squares slope in log-log scale."""
    own = [point for point in points() if point["task"] == task and point["axis"] == axis]
    return float(np.polyfit(*(np.log([point[key] for point in own]) for key in (axis, measure)), 1)[0])


def table() -> str:
    """Return the slopes of time and memory as a Markdown table."""
    lines = ["| | " + " | ".join(f"{task}: time, memory" for task in TASKS) + " |", "|---" * (len(TASKS) + 1) + "|"]
    for axis in AXES:
        cells = [", ".join(f"{slope(task, axis, measure):.2f}" for measure in MEASURED) for task in TASKS]
        lines.append(f"| {axis} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def chart() -> alt.VConcatChart:
    """Return log-log plots of time and memory against every axis, with one line per task."""
    rows = []
    for measure, title in MEASURED.items():
        panels = []
        for axis in AXES:
            own = [point for point in points() if point["axis"] == axis]
            log = alt.Scale(type="log", nice=False)
            panels.append(
                alt.Chart(alt.Data(values=own))
                .mark_line(point=True)
                .encode(
                    x=alt.X(
                        f"{axis}:Q",
                        scale=log,
                        axis=alt.Axis(values=sorted({point[axis] for point in own}), labelFlush=True, labelFontSize=9),
                    ),
                    y=alt.Y(f"{measure}:Q", title=title, scale=log),
                    color=alt.Color("task:N", sort=list(TASKS), title=None),
                )
                .properties(width=160, height=150)
            )
        rows.append(alt.hconcat(*panels))
    return alt.vconcat(*rows)


if __name__ == "__main__":
    (DOCS / "figures" / "scaling.png").write_bytes(vl_convert.vegalite_to_png(json.dumps(chart().to_dict()), scale=1.5))
    print(table())

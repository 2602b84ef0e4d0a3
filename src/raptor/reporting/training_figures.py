"""Figures of trainings: losses by step, from their logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import altair as alt

from raptor.reporting.drawing import HEIGHT, WIDTH
from raptor.training.distill import STAGES
from raptor.training.loop import METRICS

NAMES = ("blocks apart", "blocks joined")
KEPT = 200  # points a stage that a figure shows


def logged(out: Path) -> list[dict[str, Any]]:
    """Return the logs of both stages of a distillation, thinned to what a figure can show."""
    rows = []
    for stage, name in zip(STAGES, NAMES, strict=True):
        file = out / stage / METRICS
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        for line in lines[:: max(1, len(lines) // KEPT)]:
            rows.append({"stage": name, **{key: line[key] for key in ("step", "loss", "seconds")}})
    return rows


def losses(rows: list[dict[str, Any]], title: str) -> alt.Chart:
    """Draw the loss of each stage by step; they are different losses."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("step:Q"),
            y=alt.Y("loss:Q", scale=alt.Scale(type="log", nice=False, padding=12), title="loss (each stage its own)"),
            color=alt.Color("stage:N", title=None, scale=alt.Scale(range=["#0072B2", "#D55E00"])),
            tooltip=["stage:N", "step:Q", alt.Tooltip("loss:Q", format=".4f"), alt.Tooltip("seconds:Q", format=".0f")],
        )
        .properties(width=WIDTH, height=HEIGHT, title=title)
    )

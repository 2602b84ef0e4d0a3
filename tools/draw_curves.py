"""Draw the figures of docs/surrogates.md and docs/complexity.md from docs/data into docs/figures.

python tools/draw_curves.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

DOCS = Path(__file__).parents[1] / "docs"
ENDS = {5: "end of phase 1", 9: "end of phase 2", 12: "last layer"}


def _lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DOCS / "data" / name).read_text().splitlines()]


def _step(point: dict[str, Any], steps: int) -> int:
    """Return the number of steps since the start of stage 1."""
    return int(point["step"]) + steps * (point["stage"] == "stage2")


def tied() -> alt.FacetChart:
    """Draw R2 at the phase ends for surrogates of a teacher with three tied blocks, trained from random weights."""
    rows = []
    for point in _lines("tied_curves.jsonl"):
        k = point["phases"].count("-") + 1
        for layer, where in ENDS.items():
            label = f"{point['kind']}, k = {k}"
            rows.append(
                {"label": label, "where": where, "step": _step(point, point["steps"]), "r2": point["r2"][layer - 1]}
            )
    chart = alt.Chart(alt.Data(values=rows)).mark_line(point=True, clip=True)
    chart = chart.encode(
        x=alt.X("step:Q", title="steps of 32 images, stage 1 then stage 2"),
        y=alt.Y("r2:Q", title="held-out R2", scale=alt.Scale(domain=[0, 1])),
        color=alt.Color("label:N", title="blocks"),
    )
    return chart.properties(width=240, height=200).facet(
        alt.Column(
            "where:N", sort=list(ENDS.values()), title="A teacher with three tied blocks, learned from random weights"
        )
    )


def recipes() -> alt.VConcatChart:
    """Draw R2 against steps and seconds for `released` and for `default` with a quarter of the steps, one line per run.

    Seconds are the number of steps times the seconds per step. The latter are measured separately, because concurrent
    runs slow each other down.
    """
    a_step = {point["recipe"]: point for point in _lines("step_seconds.jsonl")}
    rows = []
    for point in _lines("recipe_curves.jsonl"):
        timed, first = a_step[point["recipe"]], point["steps"][0]
        seconds = min(_step(point, first), first) * timed["stage1"]
        seconds += int(point["step"]) * timed["stage2"] * (point["stage"] == "stage2")
        name = point["recipe"] + (f", {point['lr']:g}" if point["recipe"] == "released" else "")
        rows += [
            {"name": f"{name}, {first} + {point['steps'][1]} steps", "run": f"{name} {point['seed']}",
             "step": _step(point, first), "seconds": seconds, "r2": point[key], "what": what}
            for key, what in (("r2_last", "last layer"), ("r2_mean", "mean over layers"))
        ]  # fmt: skip
    base = alt.Chart(alt.Data(values=rows)).mark_line(clip=True)
    panels = [
        base.encode(
            x=alt.X(f"{x}:Q", title=title),
            y=alt.Y("r2:Q", title="held-out R2", scale=alt.Scale(domain=[0, 1])),
            color=alt.Color("name:N", title="recipe", legend=alt.Legend(labelLimit=240)),
            detail="run:N",
        )
        .properties(width=280, height=200)
        .facet(alt.Column("what:N", title=None))
        for x, title in (("step", "steps of 32 images, both stages"), ("seconds", "seconds on one core"))
    ]
    return alt.vconcat(*panels, title="`default` against `released`, k = 3, three seeds")


def levin() -> alt.Chart:
    """Draw the description length in bits of the teacher's blocks and of the weight-tied blocks."""
    found = _lines("levin_bits.jsonl")
    rows = [{"what": "the teacher's 12 blocks", "stored": "32 bits per parameter",
             "bits": 32 * found[0]["teacher_parameters"]}]  # fmt: skip
    for one in found:
        what = f"{one['k']} tied blocks, {one['phases']}"
        rows += [
            {"what": what, "stored": "32 bits per parameter", "bits": one["at_32_bits"]},
            {
                "what": what,
                "stored": f"{one['bits_a_parameter']} bits, epsilon within 1%",
                "bits": one["at_fewest_bits"],
            },
        ]
    chart = alt.Chart(alt.Data(values=rows), title="Description length: scenes").mark_bar()
    return chart.encode(
        x=alt.X("bits:Q", title="bits", axis=alt.Axis(format="~s")),
        y=alt.Y("what:N", title=None, sort=None, axis=alt.Axis(labelLimit=240)),
        yOffset=alt.YOffset("stored:N", sort=None),
        color=alt.Color("stored:N", title="precision", legend=alt.Legend(labelLimit=240)),
    ).properties(width=420, height=150)


def save(chart: Any, name: str) -> None:
    """Save a chart as png."""
    (DOCS / "figures" / f"{name}.png").write_bytes(vl_convert.vegalite_to_png(json.dumps(chart.to_dict()), scale=1.5))


if __name__ == "__main__":
    save(tied(), "tied")
    save(recipes(), "recipes")
    save(levin(), "levin")

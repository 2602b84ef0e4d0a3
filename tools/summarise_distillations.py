"""Summarise finished distillations of one teacher: a table, their curves, and the law of the budget.

    python tools/summarise_distillations.py OUT RUN RUN ... --law RUN RUN RUN --ahead 20000000

Writes OUT/distillations.json and OUT/distillations.svg, and prints the table as Markdown. Paths, weights and images of
the runs are not part of any.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from raptor.core.serialize import to_plain
from raptor.distillation.distill import STAGES
from raptor.distillation.planning.law import finished_runs, fit_law
from raptor.distillation.result import DistillResult
from raptor.distillation.validation import CURVE
from raptor.render.charts import PALETTE
from raptor.runtime.records import read_result

MEASURES = {
    "cosine": "cosine at the last layer",
    "skill": "skill at the last layer",
    "agreement": "images with the teacher's class",
}
BUDGETS = {"images": "images seen", "seconds": "seconds of training"}


def row_of(run: Path) -> dict[str, Any]:
    """Return what a run was, and what it reached on its held-out images."""
    record = read_result(run, DistillResult)
    result = record.result
    fidelity = to_plain(result.fidelity)
    last = {name: {group: values[-1] for group, values in fidelity[name].items()} for name in ("cosine", "skill", "r2")}
    return {
        "run": run.name,
        "phases": str(result.phases),
        "recipe": result.recipe,
        "steps": result.steps,
        "seed": record.seed,
        "images_seen": round(result.images_per_second * result.train_seconds),
        "train_seconds": result.train_seconds,
        "held_out_images": record.images,
        "parameters": fidelity["parameters"]["ratio"],
        **{name: fidelity[name] for name in ("teacher_top1", "surrogate_top1", "recovered", "recovered_ci")},
        **last,
    }


def curve_of(run: Path) -> list[dict[str, Any]]:
    """Return the validation curve over both stages, with the images and seconds of both."""
    rows, images, seconds = [], 0, 0.0
    for stage in STAGES:
        file = run / stage / CURVE
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        rows += [
            {"run": run.name, "stage": stage, **line, "images": images + line["images"],
             "seconds": round(seconds + line["seconds"])}
            for line in lines
        ]  # fmt: skip
        end = json.loads((run / stage / "metrics.jsonl").read_text().splitlines()[-1])
        images += round(end["step"] * (lines[-1]["images"] / lines[-1]["step"])) if lines else 0
        seconds += end["seconds"]
    return rows


def law_of(runs: list[Path], ahead: list[float]) -> dict[str, Any]:
    """Return what the law expects of larger budgets."""
    found = {}
    for name, finished in finished_runs(runs).items():
        law = fit_law(finished)
        found[name] = {
            "runs": [to_plain(run) for run in finished],
            "expected": [{"images": images, **to_plain(law.predict(images))} for images in ahead],
            "images_for": {str(share): to_plain(law.images_for(share)) for share in (0.5, 0.9)},
        }
    return found


def table_of(rows: list[dict[str, Any]]) -> str:
    """Return the runs as a table in Markdown, with the last layer's cosine, skill and R2 over all tokens."""
    heads = ["run", "phases", "images seen", "minutes of training", "held-out images", "top-1 (teacher)",
             "accuracy recovered", "cosine; of cls", "skill", "R2"]  # fmt: skip
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in rows:
        low, high = row["recovered_ci"]
        cells = [
            row["run"], row["phases"], f"{row['images_seen']:,}", f"{row['train_seconds'] / 60:.0f}",
            f"{row['held_out_images']:,}", f"{row['surrogate_top1']:.1%} ({row['teacher_top1']:.1%})",
            f"{row['recovered']:.1%} [{100 * low:.1f}, {100 * high:.1f}]",
            f"{row['cosine']['all']:.3f}; {row['cosine']['cls']:.3f}",
            f"{row['skill']['all']:.3f}", f"{row['r2']['all']:.2f}",
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(curves: list[dict[str, Any]], rows: list[dict[str, Any]]) -> alt.VConcatChart:
    """Draw the curves of all runs against images and seconds, and the accuracy that each run recovered in the end."""
    color = alt.Color("run:N", title=None, sort=[row["run"] for row in rows], scale=alt.Scale(range=list(PALETTE)))

    def panel(budget: str, measure: str) -> alt.Chart:
        return (
            alt.Chart(alt.Data(values=[row for row in curves if measure in row]))
            .mark_line(point=True)
            .encode(
                x=alt.X(f"{budget}:Q", title=BUDGETS[budget], scale=alt.Scale(type="log")),
                y=alt.Y(f"{measure}:Q", title=MEASURES[measure], scale=alt.Scale(zero=False)),
                color=color,
                detail="stage:N",
            )
            .properties(width=320, height=200)
        )

    def recovered(budget: str, field: str) -> alt.LayerChart:
        values = [
            {"run": row["run"], budget: row[field], "low": row["recovered_ci"][0], "high": row["recovered_ci"][1],
             "recovered": row["recovered"]}
            for row in rows
        ]  # fmt: skip
        x = alt.X(f"{budget}:Q", title=BUDGETS[budget], scale=alt.Scale(type="log"))
        chart = alt.Chart(alt.Data(values=values)).properties(width=320, height=200)
        title = "accuracy recovered, test photographs"
        return alt.layer(
            chart.mark_rule().encode(x=x, y=alt.Y("low:Q", title=title), y2="high:Q", color=color),
            chart.mark_point(filled=True, size=60).encode(x=x, y="recovered:Q", color=color),
        )

    panels = [alt.hconcat(*(panel(budget, measure) for budget in BUDGETS)) for measure in MEASURES]
    return alt.vconcat(*panels, alt.hconcat(recovered("images", "images_seen"), recovered("seconds", "train_seconds")))


def main() -> None:
    """Write both files."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("out", type=Path)
    options.add_argument("runs", type=Path, nargs="+")
    options.add_argument("--law", type=Path, nargs="*", default=[])
    options.add_argument("--ahead", type=float, nargs="*", default=[])
    given = options.parse_args()
    curves = [row for run in given.runs for row in curve_of(run)]
    content = {"runs": [row_of(run) for run in given.runs], "curves": curves}
    print(table_of(content["runs"]))
    if given.law:
        content["law"] = law_of(given.law, given.ahead)
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "distillations.json").write_text(json.dumps(to_plain(content), indent=1) + "\n")
    (given.out / "distillations.svg").write_text(vl_convert.vegalite_to_svg(draw(curves, content["runs"]).to_json()))


if __name__ == "__main__":
    main()

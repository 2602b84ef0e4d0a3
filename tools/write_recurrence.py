"""Write docs/recurrence.md, the results of all studies, from the files of `raptor study all`.

    python tools/keep_results.py runs/studies docs/recurrence
    python tools/write_recurrence.py

No number on that page is typed by hand: means and intervals are those of the rows of `result.json`.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from write_results import PAPER

from raptor.render.tables import HELD
from raptor.studies.analysis import mean_interval

DOCS = Path(__file__).parents[1] / "docs"

HEAD = """# Where does recurrence come from?

This page has the results of the [small-scale studies](studies.md), one question after another: what the paper says,
what was found here, and what remains open. `python tools/write_recurrence.py` generates it from the files in
`docs/recurrence`. Values in tables are means over teachers with 95% t-intervals.
"""

# For each study: the question, the column of groups, and the columns of measures.
CONDITION = ("top1", "excess", "skill", "null_skill", "recovered", "r2", "within")
SECTIONS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "controls": ("Can the outcome be trusted?", "condition", CONDITION),
    "stochastic-depth": ("Does stochastic depth make depth more recurrent?", "condition", CONDITION),
    "emergence": ("Does training make depth more recurrent?", "condition", (*CONDITION, "r2_cls")),
    "overfitting": ("Does overfitting make depth less recurrent?", "condition", CONDITION),
    "partitions": ("Does it matter where phases begin?", "by", ("skill", "r2", "recovered")),
    "ablation": ("What does each part of the recipe add?", "row", ("top1", "recovered", "skill", "r2")),
    "k-curve": ("How many blocks are enough?", "k", ("skill", "r2", "recovered")),
    "gallery": ("Do all teachers have phases?", "model", ("top1", "within", "between")),
}
OPEN = {
    None: "The interval contains both 0 and the smallest effect of interest: more teachers would be needed.",
    True: "Whether this also holds for larger models and other data.",
    False: "Whether larger models or other data would show an effect of interest.",
}


def page(kept: Path) -> str:
    """Return the page for the result files in a folder."""
    found = {name: kept / name / "result.json" for name in SECTIONS}
    results = {name: json.loads(file.read_text()) for name, file in found.items() if file.exists()}
    seconds = {job["job"]: job["seconds"] or 0.0 for one in results.values() for job in one["jobs"]}
    hours = f"{len(seconds)} jobs took {sum(seconds.values()) / 3600:.1f} hours in total.\n"
    return "\n".join((HEAD, hours, *(_section(name, kept, result) for name, result in results.items())))


def _section(name: str, kept: Path, result: dict[str, Any]) -> str:
    question, group, measures = SECTIONS[name]
    claim, size = result["claim"], result["size"]
    evidence = claim["evidence"]
    students = f"{size['student_steps']} + {size['student_steps']} steps of {size['student_batch']}"
    verdict = HELD[claim["held"]] if claim["held"] is not None else f"is {HELD[None]}"
    return "\n".join(
        (
            f"## {question}\n",
            f"**The paper.** {PAPER[name]}\n",
            f'**raptor.** The claim "{claim["text"]}" {verdict}. {evidence[0].upper()}{evidence[1:]}.\n',
            table(result["summary"], group, measures),
            f"![{question}]({kept.name}/{name}/{name}.svg)\n",
            f"**Open.** {OPEN[claim['held']]}\n",
            f"`raptor study {name} --size {size['name']} --data {result['data']} --out runs/studies`: {size['depth']}-"
            f"layer ViTs of width {size['width']}, {size['teacher_steps']:,} steps of {size['teacher_batch']} images; "
            f"students of {students}; n = {result['images']:,} held-out images, seeds "
            f"{', '.join(map(str, size['seeds']))}.\n",
        )
    )


def table(rows: list[dict[str, Any]], group: str, measures: tuple[str, ...]) -> str:
    """Return means over the rows of each group, with t-intervals where there are several."""
    head = [group, "n", *(name.replace("_", " ") for name in measures)]
    lines = [head, ["---"] * len(head)]
    for value in dict.fromkeys(row[group] for row in rows):
        own = [row for row in rows if row[group] == value]
        cells = [_cell([math.nan if row[name] is None else row[name] for row in own]) for name in measures]
        lines.append([str(value), str(len(own)), *cells])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _cell(values: list[float]) -> str:
    found = mean_interval(values)
    return f"{found.value:.3f}" if math.isnan(found.low) else f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"


if __name__ == "__main__":
    (DOCS / "recurrence.md").write_text(page(DOCS / "recurrence"))

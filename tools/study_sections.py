"""Sections of docs/results.md on the studies, from the results that `tools/keep_results.py` wrote.

No number is typed by hand: means and intervals are those of the rows of `result.json`, and what has no result is "not
measured yet".
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from paper_statements import LIMITS, PAPER
from study_power import power, sensitivity
from study_tables import NOT_YET, markdown, number

from raptor.render.tables import HELD
from raptor.studies.analysis import mean_interval
from raptor.studies.options import STUDY_ORDER

Rows = list[dict[str, Any]]

# For each study: the question, the column of groups, and the columns of measures.
CONDITION = ("top1", "excess", "skill", "null_skill", "error_ratio", "recovered", "r2", "within")
SECTIONS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "controls": ("Can the outcome be trusted?", "condition", CONDITION),
    "stochastic-depth": ("Does stochastic depth make depth more recurrent?", "condition", CONDITION),
    "emergence": ("Does training make depth more recurrent?", "condition", (*CONDITION, "r2_cls")),
    "overfitting": ("Does overfitting make depth less recurrent?", "condition", CONDITION),
    "partitions": ("Does it matter where phases begin?", "by", ("skill", "r2", "recovered")),
    "k-curve": ("How many blocks are enough?", "k", ("skill", "r2", "recovered")),
    "ablation": ("What does each part of the recipe add?", "row", ("top1", "recovered", "skill", "r2")),
    "gallery": ("Do all teachers have phases?", "model", ("top1", "within", "between")),
}
OPEN = {
    None: "More teachers would be needed for a verdict.",
    True: "Whether this also holds for larger models and other data.",
    False: "Whether larger models or other data would show an effect of interest.",
}
OPPOSITE = "Whether larger models or other data would show the claimed effect in place of its opposite."
# Words in the result files, and how the page shows them.
SHOWN = {"paced drift": "non-uniform drift", "joined stage": "end-to-end stage"}


def read_results(kept: Path) -> dict[str, dict[str, Any]]:
    """Return the results of the studies in a folder, by name and in the order of the page."""
    files = {name: kept / name / "result.json" for name in STUDY_ORDER}
    return {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}


def study_pages(kept: Path) -> str:
    """Return an overview, a section for each study, and the section on power, for the files in a folder."""
    results = read_results(kept)
    sections = (section(name, kept, results.get(name)) for name in SECTIONS)
    return "\n".join((overview(results), *sections, power(results), sensitivity(results)))


def overview(results: dict[str, dict[str, Any]]) -> str:
    """Return the verdicts of all studies in one table, and what they took."""
    rows = []
    for name, (question, *_) in SECTIONS.items():
        claim = results[name]["claim"] if name in results else None
        rows.append([f"[{question}](#{anchor(question)})", f"`{name}`", *_verdict_cells(claim)])
    seconds = {job["job"]: job["seconds"] for one in results.values() for job in one["jobs"]}
    done = [taken for taken in seconds.values() if taken is not None]
    missing = len(seconds) - len(done)
    hours = f"{len(done)} jobs took {sum(done) / 3600:.1f} hours in total, each on one core"
    left = f"; {missing} more are {NOT_YET}" if missing else ""
    table = markdown(["question", "study", "claim", "verdict", "effect"], rows)
    return f"## Overview\n\n{table}\n{hours if done else 'No job has a result yet'}{left}.\n"


def anchor(title: str) -> str:
    """Return the anchor of a heading."""
    return "".join(letter for letter in title.lower().replace(" ", "-") if letter.isalnum() or letter == "-")


def measured(claim: dict[str, Any] | None) -> bool:
    """Return whether a claim has an effect or a verdict at all."""
    return claim is not None and (claim["held"] is not None or claim.get("effect") is not None)


def _verdict_cells(claim: dict[str, Any] | None) -> list[str]:
    if claim is None or not measured(claim):
        return ["" if claim is None else claim["text"], NOT_YET, ""]
    effect = "" if claim.get("effect") is None else number(claim["effect"], *claim["ci"])
    return [claim["text"], HELD[claim["held"]], effect]


def section(name: str, kept: Path, result: dict[str, Any] | None) -> str:
    """Return the section of a study; without a result it has the paper's statement alone."""
    question, group, measures = SECTIONS[name]
    head = f"## {question}\n\n**The paper.** {PAPER[name]}\n"
    if result is None or not result["summary"]:
        return f"{head}\n**raptor.** {NOT_YET.capitalize()}.\n\n**Open.** {LIMITS[name]}\n"
    claim = result["claim"]
    figure = kept / name / f"{name}.svg"
    return "\n".join(
        (
            head,
            f"**raptor.** {_finding(claim)}\n",
            *_missing(result["jobs"]),
            table(result["summary"], group, measures),
            f"![{question}]({kept.name}/{name}/{name}.svg)\n" if figure.exists() else f"The figure is {NOT_YET}.\n",
            f"**Open.** {f'{_open(claim)} {LIMITS[name]}'.strip()}\n",
            _command(name, result),
        )
    )


def _open(claim: dict[str, Any]) -> str:
    """Return what remains open whatever was measured: more teachers, other models, or why the sign is another."""
    if claim.get("effect") is None:
        return "Whether this also holds for larger models and other data." if claim["held"] else ""
    return OPPOSITE if claim["held"] is False and claim["ci"][1] < 0 else OPEN[claim["held"]]


def _finding(claim: dict[str, Any]) -> str:
    text, evidence = claim["text"], shown(claim["evidence"])
    if not measured(claim):
        return f'The claim "{text}" is {NOT_YET}; the table has what there is.'
    verdict = HELD[claim["held"]] if claim["held"] is not None else f"is {HELD[None]}"
    effect, _, parts = evidence.partition(". ")
    said = f'The claim "{text}" {verdict}. {effect[:1].upper()}{effect[1:]}.'
    if claim.get("mixed") is not None:
        said += (
            f" Mixed model with the seed of the teacher as random effect: {number(claim['mixed'], *claim['mixed_ci'])}."
        )
    return "\n".join([said, "", *(f"- {part}" for part in parts.split("; "))]) if parts else said


def _missing(jobs: Rows) -> list[str]:
    """Return a sentence on the jobs without a result, and on those that failed."""
    failed = [f"{job['job']} ({job['failed']})" for job in jobs if job["failed"] not in (None, NOT_YET)]
    missing = sum(job["failed"] == NOT_YET for job in jobs)
    said = [f"{missing} of {len(jobs)} jobs are {NOT_YET}, so these numbers are preliminary.\n"] if missing else []
    return [*said, *([f"Failed jobs: {', '.join(failed)}.\n"] if failed else [])]


def _command(name: str, result: dict[str, Any]) -> str:
    size = result["size"]
    students = f"{size['student_steps']} + {size['student_steps']} steps of {size['student_batch']}"
    return (
        f"`raptor study {name} --size {size['name']} --data {result['data']} --out runs/studies`: {size['depth']}-"
        f"layer ViTs of width {size['width']}, {size['teacher_steps']:,} steps of {size['teacher_batch']} images; "
        f"students of {students} images; n = {result['images']:,} held-out images, seeds "
        f"{', '.join(map(str, size['seeds']))}.\n"
    )


def table(rows: Rows, group: str, measures: tuple[str, ...]) -> str:
    """Return means over the teachers of each group, with t-intervals; students of one teacher are averaged first."""
    lines = []
    for value in dict.fromkeys(row[group] for row in rows):
        own = [row for row in rows if row[group] == value]
        seeds = [row.get("seed", number) for number, row in enumerate(own)]
        by_seed = [[row for row, one in zip(own, seeds, strict=True) if one == seed] for seed in dict.fromkeys(seeds)]
        found = [mean_interval([_mean(row[name] for row in one) for one in by_seed]) for name in measures]
        cells = [number(one.value, one.low, one.high) for one in found]
        lines.append([shown(str(value)), str(len(by_seed)), *cells])
    return markdown([group, "teachers", *(name.replace("_", " ") for name in measures)], lines)


def _mean(values: Iterable[float | None]) -> float:
    known = [math.nan if value is None else value for value in values]
    return sum(known) / len(known)


def shown(text: str) -> str:
    """Return a text of a result file in the words of the documentation."""
    for stored, shown in SHOWN.items():
        text = text.replace(stored, shown)
    return text

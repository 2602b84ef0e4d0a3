"""What `raptor table1` does: a teacher, its surrogates and their controls on all tasks that there are labels for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from raptor.commands.distilling import distill_model
from raptor.commands.probing import probe_with_bars
from raptor.complexity import count_parameters
from raptor.data import data_for
from raptor.data.three_sets import ThreeSets, load_three_sets
from raptor.errors import OptionError
from raptor.fidelity_by_layer import trajectory_fidelity
from raptor.models.pretrained import RaptorModel, with_teacher
from raptor.models.teachers import SHIPPED_SURROGATES, load_teacher
from raptor.models.teachers.teacher import Teacher
from raptor.options import Common
from raptor.probe_result import describe_probe
from raptor.probes.plan import Plan
from raptor.probes.probe import Column, Probed
from raptor.probes.tasks import tasks_of
from raptor.published import TABLE1
from raptor.resampling import percentile_interval
from raptor.run import Run

# The columns of the paper: of which task, and whether more is better.
COMPARED = {"top1": ("classify", True), "miou": ("segment", True), "rmse": ("depth", False)}


@dataclass(frozen=True)
class Row:
    """A model of the table.

    Parameters
    ----------
    label, kind
        What it is called, and whether it is the teacher, a surrogate, an untied control or a baseline.
    source
        What to load.
    teacher
        The model.
    """

    label: str
    kind: str
    source: str
    teacher: Teacher

    @property
    def k(self) -> int | None:
        """Number of blocks of a surrogate."""
        return self.teacher.module.phases.k if isinstance(self.teacher.module, RaptorModel) else None


def table1(
    model: str,
    data: str | None,
    ks: Sequence[int],
    common: Common,
    *,
    surrogates: Sequence[str],
    baseline: str | None,
    untied: Sequence[int],
    steps: int,
    plan: Plan,
    eval_data: str | None,
    eval_images: int,
    weights: Path | None,
    head: Path | None,
    loading: dict[str, Any],
) -> dict[str, Any]:
    """Probe the teacher, the surrogates (given, shipped or distilled first) and the baseline."""
    data = data_for(model, data, "the table is made on labelled images")
    config = common.config(
        model=model, data=data, k=list(ks), surrogates=list(surrogates), baseline=baseline, untied=list(untied),
        steps=steps, eval_data=eval_data, eval_images=eval_images, rates=list(plan.rates), seeds=list(plan.seeds),
        epochs=plan.epochs, weights=weights, head=head, **loading,
    )  # fmt: skip
    with Run("table1", config, common.out, common.seed) as run:
        teacher = load_teacher(model, common.size, weights, head, common.device)
        rows = [Row(f"teacher, {model}", "teacher", model, teacher)]
        given = [_surrogate(source, common) for source in surrogates]
        have = {(row.k, row.kind) for row in given}
        for kind, wanted in (("surrogate", ks), ("untied", untied)):
            for k in wanted:
                if (k, kind) not in have:
                    source = _shipped(model, k, kind) or _distilled(
                        model, data, k, kind, common, steps, eval_data, eval_images, weights, head, loading
                    )
                    given.append(_surrogate(source, common))
        rows += sorted(given, key=lambda row: (row.kind, row.k or 0))
        if baseline is not None:
            small = load_teacher(baseline, common.size, device=common.device)
            rows.append(Row(f"baseline, {baseline}", "baseline", baseline, small))
        run.begin()
        found, described, images = [], [], 0
        for row in rows:
            began = time.perf_counter()
            sets = load_three_sets(
                data, row.teacher, eval_data, common.images, eval_images, batch_size=common.batch, seed=common.seed,
                **loading,
            )  # fmt: skip
            found.append(probe_with_bars(row.teacher, sets, tasks_of(sets.train), plan, common.progress))
            body = _described(row, found[-1], found[0]) | _fidelity(row, teacher, sets, common)
            described.append({**body, "seconds": round(time.perf_counter() - began, 1)})
            images = next(iter(found[-1].values())).images["report"]
            run.save("rows.json", described)  # what is done is there should the rest fail
        body = {"model": model, "data": data, "rows": described, "published": list(TABLE1), "notes": _notes(rows)}
        body["figures"] = _draw(run, described)
        return run.finish(body, images=images, layers=teacher.depth)


def _surrogate(source: str, common: Common) -> Row:
    teacher = load_teacher(source, common.size, device=common.device)
    if not isinstance(teacher.module, RaptorModel):
        raise OptionError(f"{source!r} is no surrogate; give a directory that 'raptor distill --out' wrote")
    kind = "untied" if teacher.module.surrogate.raptor.untied else "surrogate"
    phases = teacher.module.phases
    label = f"Raptor, k = {phases.k}" if kind == "surrogate" else f"{phases.k} layers, untied"
    return Row(f"{label} ({phases})", kind, source, teacher)


def _shipped(model: str, k: int, kind: str) -> str | None:
    name = f"{model}:k{k}"
    return name if kind == "surrogate" and name in SHIPPED_SURROGATES else None


def _distilled(
    model: str,
    data: str,
    k: int,
    kind: str,
    common: Common,
    steps: int,
    eval_data: str | None,
    eval_images: int,
    weights: Path | None,
    head: Path | None,
    loading: dict[str, Any],
) -> str:
    """Distil what was not given into the run's own directory; what is there already is used."""
    if common.out is None:
        raise OptionError(f"a surrogate with k = {k} must be distilled first: give --out, or --surrogates DIR")
    out = common.out / f"{'k' if kind == 'surrogate' else 'untied-k'}{k}"
    if not (out / "result.json").exists():
        options = {"name": "default", "steps": steps, "lr": None, "muon_lr": None, "kind": None}
        distill_model(
            model, data, k, None, replace(common, out=out, images=None),
            recipe=options | ({"untied": True} if kind == "untied" else {}),
            launch={"precision": "no", "accumulate": 1, "recompute": False, "trackers": ()},
            eval_data=eval_data, eval_images=eval_images, weights=weights, head=head, resume=out.exists(), cache=None,
            loading=loading,
        )  # fmt: skip
    return str(out)


def _described(row: Row, found: dict[str, Probed], teacher: dict[str, Probed]) -> dict[str, Any]:
    body: dict[str, Any] = {
        "row": row.label, "kind": row.kind, "model": row.source, "k": row.k,
        "parameters": count_parameters(row.teacher.module),
        "tasks": {name: describe_probe(probed) for name, probed in found.items()}, "recovered": {},
    }  # fmt: skip
    for metric, (task, _) in COMPARED.items():
        body[metric], body[f"{metric}_ci"] = None, None
        if task not in found:
            continue
        for head, column in found[task].columns.items():
            if head == "fine-tuned":
                body[metric], body[f"{metric}_ci"] = column.value[metric], list(column.ci[metric])
            whole = teacher[task].columns.get(head)
            if head != "constant" and whole is not None:
                name = metric if head == "fine-tuned" else f"{metric}_{head}"
                body["recovered"][name] = _share(column, whole, metric)
    return body


def _share(part: Column, whole: Column, metric: str) -> dict[str, Any]:
    """Return the share of the teacher's that is recovered; of an error, the teacher's over the surrogate's."""

    def ratio(ours: Any, theirs: Any) -> Any:
        return ours / theirs if COMPARED[metric][1] else theirs / ours

    drawn: Tensor = ratio(part.draws[metric], whole.draws[metric])
    low, high = percentile_interval(drawn)
    return {"value": ratio(part.value[metric], whole.value[metric]), "ci": [low.item(), high.item()]}


def _fidelity(row: Row, teacher: Teacher, sets: ThreeSets, common: Common) -> dict[str, Any]:
    """Return R2 at the last layer for surrogates: the other axis of Figure 5."""
    if not isinstance(row.teacher.module, RaptorModel):
        return {"r2": None, "r2_ci": None}
    surrogate = with_teacher(row.teacher.module, teacher)
    found = trajectory_fidelity(teacher, surrogate, sets.select, surrogate.phases, common.seed)
    ends = [found.low["r2"]["all"][-1], found.high["r2"]["all"][-1]]
    return {"r2": found.mean["r2"]["all"][-1], "r2_ci": ends}


def _notes(rows: Sequence[Row]) -> list[str]:
    kinds = {row.kind for row in rows}
    missing = {
        "untied": "no untied control: --untied K distils one, or give its directory with --surrogates",
        "baseline": "no small baseline: --baseline MODEL adds one",
    }
    return [note for kind, note in missing.items() if kind not in kinds]


def _draw(run: Run, rows: list[dict[str, Any]]) -> list[str]:
    if run.out is None or rows[0]["top1"] is None:
        return []
    from raptor.report import drawing, table_figures

    return [drawing.save(table_figures.figure5(rows), run, "figure5")]

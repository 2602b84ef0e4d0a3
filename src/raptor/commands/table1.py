"""What `raptor table1` does: a teacher, its surrogates and their controls on all tasks that there are labels for."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from raptor.commands.distilling import LAUNCH, default_recipe, distill_model
from raptor.commands.probing import check_eigen, probe_with_bars
from raptor.commands.resuming import check_same
from raptor.complexity import count_parameters
from raptor.data import data_for, parse_source
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
from raptor.run import Run, plain

SCENES = 2000  # images of scenes to train heads on where nobody says
DEFAULT_KS = (2, 3)  # where nobody says, and none are given or ship
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
    ks: Sequence[int] | None,
    common: Common,
    *,
    surrogates: Sequence[str],
    baseline: str | None,
    untied: Sequence[int],
    steps: int,
    plan: Plan,
    eval_data: str | None,
    eval_images: int,
    fit: str,
    eigen_crop: bool,
    weights: Path | None,
    head: Path | None,
    loading: dict[str, Any],
) -> dict[str, Any]:
    """Probe the teacher, the surrogates (given, shipped or distilled first) and the baseline.

    Without `ks` the table has the surrogates that are given, or else those that ship with the model.
    """
    data = data_for(model, data, "the table is made on labelled images")
    config = common.config(
        model=model, data=data, k=ks, surrogates=list(surrogates), baseline=baseline, untied=list(untied),
        steps=steps, eval_data=eval_data, eval_images=eval_images, rates=plan.rates, seeds=list(plan.seeds),
        epochs=plan.epochs, fit=fit, eigen_crop=eigen_crop, weights=weights, head=head, **loading,
    )  # fmt: skip
    with Run("table1", config, common.out, common.seed) as run:
        teacher = load_teacher(model, common.size, weights, head, common.device)
        rows = [Row(f"teacher, {model}", "teacher", model, teacher)]
        if baseline is not None:
            small = load_teacher(baseline, common.size, device=common.device)
            rows.append(Row(f"baseline, {baseline}", "baseline", baseline, small))

        def sets_of(row: Row) -> ThreeSets:
            check_eigen(row.teacher, fit, eigen_crop)
            return load_three_sets(
                data, row.teacher.preprocessing.fitted(fit), eval_data, common.images or few, eval_images,
                batch_size=common.batch, seed=common.seed, **loading,
            )  # fmt: skip

        few = SCENES if parse_source(data)[0] == "scenes" else None  # which have no end
        # All that can be wrong with what was given is found before anything is distilled.
        for row in rows:
            tasks_of(sets_of(row).train, eigen_crop=eigen_crop)
        given = [_surrogate(source, teacher, common) for source in surrogates]
        have = {(row.k, row.kind) for row in given}
        wanted = [(k, "surrogate") for k in _wanted(model, ks, given)] + [(k, "untied") for k in untied]
        for k, kind in wanted:
            if (k, kind) not in have:
                source = _shipped(model, k, kind) or _distilled(
                    model, data, k, kind, common, steps, eval_data, eval_images, weights, head, loading
                )
                given.append(_surrogate(source, teacher, common))
        rows[1:1] = sorted(given, key=lambda row: (row.kind, row.k or 0))
        run.begin()
        found: list[dict[str, Probed]] = []
        described: list[dict[str, Any]] = []
        damaged: list[dict[str, str]] = []
        for row in rows:
            began, sets = time.perf_counter(), sets_of(row)
            tasks = tasks_of(sets.train, eigen_crop=eigen_crop)
            found.append(probe_with_bars(row.teacher, sets, tasks, plan, common.progress))
            body = _described(row, found[-1], found[0]) | _fidelity(row, teacher, sets, common)
            described.append({**body, "seconds": round(time.perf_counter() - began, 1)})
            damaged = damaged or [damage for images in sets for damage in images.damaged]
            run.save("rows.json", described)  # what is done is there should the rest fail
        images = next(iter(found[0].values())).images["report"]
        body = {"model": model, "data": data, "rows": described, "published": list(TABLE1), "notes": _notes(rows)}
        body["damaged"] = damaged
        body["figures"] = _draw(run, described)
        return run.finish(body, images=images, layers=teacher.depth)


def _surrogate(source: str, teacher: Teacher, common: Common) -> Row:
    alone = load_teacher(source, common.size, device=common.device)
    if not isinstance(alone.module, RaptorModel):
        raise OptionError(f"{source!r} is no surrogate; give a directory that 'raptor distill --out' wrote")
    with_teacher(alone.module, teacher)  # one of another teacher is an error
    kind = "untied" if alone.module.surrogate.raptor.untied else "surrogate"
    phases = alone.module.phases
    label = f"Raptor, k = {phases.k}" if kind == "surrogate" else f"{phases.k} layers, untied"
    return Row(f"{label} ({phases})", kind, source, alone)


def _wanted(model: str, ks: Sequence[int] | None, given: Sequence[Row]) -> Sequence[int]:
    """Return the numbers of blocks that the table shall have."""
    if ks is not None:
        return ks
    shipped = [k for k in range(1, 10) if _shipped(model, k, "surrogate")]
    return [] if given else shipped or DEFAULT_KS


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
    options = default_recipe(steps)
    options |= {"untied": True} if kind == "untied" else {}
    check_same(out, plain({"model": model, "data": data, "k": k, "seed": common.seed, "recipe": options}))
    if not (out / "result.json").exists():
        distill_model(
            model, data, k, None, replace(common, out=out, images=None), recipe=options, launch=LAUNCH,
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

    over, under = (part, whole) if COMPARED[metric][1] else (whole, part)
    drawn = torch.where(under.draws[metric] > 0, over.draws[metric] / under.draws[metric], torch.nan)
    low, high = percentile_interval(drawn)
    value = over.value[metric] / under.value[metric] if under.value[metric] else math.nan
    return {"value": value, "ci": [low.item(), high.item()]}


def _fidelity(row: Row, teacher: Teacher, sets: ThreeSets, common: Common) -> dict[str, Any]:
    """Return R2 at the last layer for surrogates: the other axis of Figure 5."""
    if row.kind not in ("surrogate", "untied"):
        return {"r2": None, "r2_ci": None}
    assert isinstance(row.teacher.module, RaptorModel)
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
    from raptor.reporting import drawing, table_figures

    return [drawing.save(table_figures.figure5(rows), run, "figure5")]

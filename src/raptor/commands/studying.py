"""What `raptor study` does."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from raptor.commands.resuming import check_same
from raptor.commands.study_plan import plan_study
from raptor.commands.training import training_preprocessing
from raptor.data import parse_source
from raptor.data.three_sets import check_classes
from raptor.device import resolve_device
from raptor.errors import OptionError, OutputError
from raptor.files import discard
from raptor.formatting import cells
from raptor.options import Common
from raptor.run import Run, plain
from raptor.studies import STUDIES
from raptor.studies.jobs import Done, run_jobs
from raptor.studies.models import Setting
from raptor.studies.size import SIZES, Size
from raptor.studies.study import Summary


def study(
    name: str, data: str, size: str, resume: bool, plan: bool, common: Common, loading: dict[str, Any]
) -> dict[str, Any]:
    """Run a study's jobs that have no result yet, and say what all of them say together; or say what they cost."""
    if name not in STUDIES:
        raise OptionError(f"there is no study {name!r}; there are {', '.join(STUDIES)}")
    if size not in SIZES:
        raise OptionError(f"a study is of size {', '.join(SIZES)}, not {size!r}")
    source, split = parse_source(data)
    if split is not None:
        raise OptionError(f"a study takes the train and the held-out images itself: leave out {split!r}")
    chosen = _chosen(SIZES[size], common, plan)

    preprocessing = training_preprocessing(source, chosen.image_size)
    out = common.out or Path()
    device = str(resolve_device(common.device))
    setting = Setting(source, preprocessing, loading, chosen, out, out / name / "states", device, common.announce)
    if plan:
        return plan_study(name, size, setting, common)
    if common.out is None:
        raise OptionError("a study takes long and keeps what is done: give --out DIR")
    config = common.config(study=name, data=data, size=size, **loading)
    with Run("study", config, out / name, common.seed) as run:
        assert run.out is not None
        if not resume and (run.out / "config.json").exists():
            raise OutputError(f"{str(run.out)!r} holds this study already: go on with --resume, or use another --out")
        check_same(run.out, {**plain(config), "seed": common.seed})
        run.begin()
        check_classes(setting.train(1), held_out := setting.held_out(), "report", whole=False)
        jobs = STUDIES[name].jobs(setting)
        done = run_jobs(jobs, setting.root, common.announce)
        discard(setting.states)
        summary = STUDIES[name].summarise(setting, done)
        body = {
            "study": name,
            "data": data,
            "size": {"name": size, **asdict(chosen)},
            "jobs": [_row(job.name, done) for job in jobs],
            "summary": summary.rows,
            "claim": asdict(summary.claim),
            "figures": _draw(run, name, summary),
        }
        return run.finish(body, images=len(held_out), layers=chosen.depth)


def _chosen(size: Size, common: Common, plan: bool) -> Size:
    """Return a size with what the options say otherwise; the batch of a plan is that of its few steps."""
    changes: dict[str, Any] = {"seeds": tuple(common.seed + seed for seed in size.seeds)}
    if common.images is not None:
        changes["eval_images"] = common.images
    if common.batch_size is not None and not plan:
        changes.update(teacher_batch=common.batch_size, student_batch=common.batch_size)
    if common.size is not None:
        side = common.size[0]
        if common.size != (side, side) or side % size.patch_size:
            raise OptionError(f"images of a study are squares of whole patches of {size.patch_size}, not {common.size}")
        changes["image_size"] = side
    return replace(size, **changes)


def _row(name: str, done: Done) -> dict[str, Any]:
    return {"job": name, "seconds": done.seconds.get(name), "failed": done.failed.get(name)}


def _draw(run: Run, name: str, summary: Summary) -> list[str]:
    if not summary.rows:
        return []
    from raptor.reporting import drawing, study_figures

    chart = study_figures.DRAWN[name](summary.rows)
    return [drawing.save(chart, run, name, cells(summary.rows))]

"""Run one small-scale study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from raptor.core.serialize import Key, to_plain
from raptor.data.load import parse_source
from raptor.data.options import LoadOptions
from raptor.data.train_val_test import check_classes
from raptor.errors import OptionError, OutputError
from raptor.render.charts import draw
from raptor.render.notebook import HtmlRepr
from raptor.runtime.device import resolve_device
from raptor.runtime.files import discard, read_json
from raptor.runtime.options import RunOptions
from raptor.runtime.rundir import Record, Run
from raptor.studies.jobs import Done, Job, run_jobs
from raptor.studies.options import StudyOptions
from raptor.studies.registry import Claim, Study, find_study
from raptor.studies.setting import Memory, StudySetting
from raptor.studies.size import SIZES, Scale
from raptor.training.resuming import check_same
from raptor.training.train import training_preprocessing

Row = TypeVar("Row")


@dataclass(frozen=True)
class StudySize:
    """A size, with what the options changed of it.

    Parameters
    ----------
    name
        `smoke`, `laptop` or `paper`.
    scale
        All numbers.
    """

    name: str
    scale: Annotated[Scale, Key(inline=True)]


@dataclass(frozen=True)
class JobReport:
    """What became of a job.

    Parameters
    ----------
    job
        Its name.
    seconds
        Seconds that it took when it ran; None where it failed.
    failed
        Why it has no result; None where it has one.
    """

    job: str
    seconds: float | None
    failed: str | None


@dataclass(frozen=True)
class StudyResult(HtmlRepr, Generic[Row]):
    """What a study found.

    Parameters
    ----------
    study, data, size
        Its name, the images, and all sizes.
    jobs
        One entry per job.
    summary
        One row per model or condition; the study's module says what a row has.
    claim
        The paper's claim, and whether it holds here.
    """

    study: str
    data: str
    size: StudySize
    jobs: list[JobReport]
    summary: list[Row]
    claim: Claim


def run_study(
    name: str,
    options: StudyOptions,
    loading: LoadOptions,
    run_options: RunOptions,
    announce: Callable[[str], None] | None = None,
    memory: Memory | None = None,
    only: Callable[[Study[Any], StudySetting], Sequence[Job[Any]]] | None = None,
) -> Record[StudyResult[Any]]:
    """Run a study in `run_options.out`; return its record.

    Parameters
    ----------
    name, options, loading, run_options
        As in `study`.
    announce
        Called with a line when a job starts or fails; by default it is printed.
    memory
        Images that other studies have loaded.
    only
        Returns the jobs of a study to run; the others count if they have a result. None runs all.
    """
    chosen, out = find_study(name), run_options.out
    scale = scale_of(options, run_options)
    if out is None:
        raise OptionError("a study takes long and keeps the results of its jobs: give --out DIR")
    setting = setting_of(name, options.data, scale, out, loading, run_options, memory)
    config = run_options.config(loading, study=name, data=options.data, size=options.size)
    with Run("study", config, out / name, run_options.seed) as run:
        assert run.out is not None
        if not options.resume and (run.out / "config.json").exists():
            raise OutputError(
                f"{str(run.out)!r} already has this study: continue it with --resume, or use another --out"
            )
        check_same(run.out, {**to_plain(config), "seed": run_options.seed})
        run.begin()
        held_out = setting.held_out()
        check_classes(setting.train(1), held_out, "report", whole=False)
        jobs = chosen.jobs(setting)
        chosen_jobs = None if only is None else {job.name for job in only(chosen, setting)}
        done = run_jobs(jobs, setting.root, announce or run_options.announce, chosen_jobs)
        discard(setting.states)
        result = _summarised(name, options, setting, jobs, done)
        return run.record(result, images=len(held_out), layers=scale.depth, figures=draw(run, "study", result, name))


def summarise_stored(out: Path, name: str) -> StudyResult[Any]:
    """Summarise a study from the jobs that have a result, without running any and without writing anything.

    Parameters
    ----------
    out
        Directory of all studies, in which this one was started.
    name
        The study.
    """
    started = read_json(out / name / "config.json")
    options = StudyOptions(started["data"], started["size"])
    loading = LoadOptions(started["image_column"], started["label_column"], started["allow_damaged"])
    run_options = RunOptions(
        quiet=True, seed=started["seed"], images=started["images"], batch_size=started["batch_size"],
        image_size=started["image_size"],
    )  # fmt: skip
    setting = setting_of(name, options.data, scale_of(options, run_options), out, loading, run_options)
    jobs = find_study(name).jobs(setting)
    return _summarised(name, options, setting, jobs, run_jobs(jobs, out, only=()))


def _summarised(
    name: str, options: StudyOptions, setting: StudySetting, jobs: Sequence[Job[Any]], done: Done
) -> StudyResult[Any]:
    summary = find_study(name).summarise(setting, done)
    return StudyResult(
        study=name,
        data=options.data,
        size=StudySize(options.size, setting.size),
        jobs=[JobReport(job.name, done.seconds.get(job.name), done.failed.get(job.name)) for job in jobs],
        summary=summary.rows,
        claim=summary.claim,
    )


def setting_of(
    name: str,
    data: str,
    scale: Scale,
    out: Path,
    loading: LoadOptions,
    run_options: RunOptions,
    memory: Memory | None = None,
) -> StudySetting:
    """Return what all jobs of a study share."""
    preprocessing = training_preprocessing(data, scale.image_size)
    device = str(resolve_device(run_options.device))
    announce: Callable[[str], None] = run_options.announce
    return StudySetting(
        data, preprocessing, loading, scale, out, out / name / "states", device, announce,
        {} if memory is None else memory,
    )  # fmt: skip


def scale_of(options: StudyOptions, run_options: RunOptions, batch: bool = True) -> Scale:
    """Return the size of a study, with what the shared options change of it; the batch size only with `batch`."""
    if options.size not in SIZES:
        raise OptionError(f"the size of a study is {', '.join(SIZES)}, not {options.size!r}")
    if (split := parse_source(options.data)[1]) is not None:
        raise OptionError(f"a study uses the train and the held-out images of --data: leave out {split!r}")
    scale = SIZES[options.size]
    scale = replace(scale, seeds=tuple(run_options.seed + seed for seed in scale.seeds))
    if run_options.images is not None:
        scale = replace(scale, eval_images=run_options.images)
    if run_options.batch_size is not None and batch:
        scale = replace(scale, teacher_batch=run_options.batch_size, student_batch=run_options.batch_size)
    if run_options.size is not None:
        height, width = run_options.size
        if height != width or height % scale.patch_size:
            raise OptionError(
                f"images of a study are squares of whole patches of {scale.patch_size} pixels, not {height}x{width}"
            )
        scale = replace(scale, image_size=height)
    return scale

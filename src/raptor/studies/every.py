"""`raptor.study`: one study, or every study in one directory, with shared jobs and the time that is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, overload

from raptor.data.options import LoadOptions
from raptor.errors import OptionError
from raptor.render.notebook import HtmlRepr
from raptor.runtime.options import RunOptions
from raptor.runtime.rundir import Record, Run
from raptor.studies.cost import job_seconds, jobs_of
from raptor.studies.options import ALL, STUDY_ORDER, StudyOptions
from raptor.studies.registry import Claim
from raptor.studies.setting import Memory
from raptor.studies.study import StudyResult, run_study, scale_of, setting_of


@dataclass(frozen=True)
class StudyVerdict:
    """A study and its claim.

    Parameters
    ----------
    study, claim
        Name of the study, and the paper's claim with its verdict.
    """

    study: str
    claim: Claim


@dataclass(frozen=True)
class AllStudies(HtmlRepr):
    """What all studies found; each has its own directory with its result.

    Parameters
    ----------
    data, size
        The images, and the name of the size.
    studies
        The claim of each study.
    finished, failed
        Number of jobs with a result, each counted once, and names of those without.
    job_hours
        Hours that the finished jobs took, by the clock: core-hours if each ran on one core.
    """

    data: str
    size: str
    studies: list[StudyVerdict]
    finished: int
    failed: list[str]
    job_hours: float


class Countdown:
    """Announces jobs with their number and the time that is left.

    The estimate is scaled by what the jobs so far took, so it follows the speed of the machine.

    Parameters
    ----------
    seconds
        Estimated seconds of each job that has no result yet.
    announce
        Called with each line.
    clock
        Returns seconds.
    """

    def __init__(
        self, seconds: Mapping[str, float], announce: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ):
        self.seconds, self.announce, self.clock = dict(seconds), announce, clock
        self.n, self.began, self.past = len(self.seconds), clock(), 0.0
        self.current = ""

    def __call__(self, text: str) -> None:
        """Announce a line; if it is the name of a job, the job starts and those before it are done."""
        if text not in self.seconds:
            self.announce(text)
            return
        if text != self.current:
            self.past += self.seconds.pop(self.current, 0.0)
            self.current = text
        pace = (self.clock() - self.began) / self.past if self.past > 0 else 1.0
        left = pace * sum(self.seconds.values())
        self.announce(f"{text}: job {self.n - len(self.seconds) + 1} of {self.n}, about {left / 3600:.1f} h left")


@overload
def study(  # type: ignore[overload-overlap]  # "all" is a str too
    name: Literal["all"],
    options: StudyOptions | None = None,
    out: str | Path = "runs/studies",
    loading: LoadOptions | None = None,
    run_options: RunOptions | None = None,
) -> AllStudies: ...


@overload
def study(
    name: str,
    options: StudyOptions | None = None,
    out: str | Path = "runs/studies",
    loading: LoadOptions | None = None,
    run_options: RunOptions | None = None,
) -> StudyResult[Any]: ...


def study(
    name: str,
    options: StudyOptions | None = None,
    out: str | Path = "runs/studies",
    loading: LoadOptions | None = None,
    run_options: RunOptions | None = None,
) -> StudyResult[Any] | AllStudies:
    """Run the jobs of a study that have no result yet, and summarise all of them.

    Parameters
    ----------
    name
        `stochastic-depth`, `partitions`, `emergence`, `controls`, `overfitting`, `ablation`, `k-curve`, `gallery`, one
        that you registered, or `all` for every study that comes with raptor.
    options
        Images and size of the study, and whether to continue one.
    out
        Directory of all studies on these images: they share teachers and students. The study writes to `out/name`.
    loading
        How images are read.
    run_options
        Seed and device; number and size of held-out images, and batch size, where they differ from the size's.

    Returns
    -------
    StudyResult or AllStudies
        What the study found; with `all`, the claim of each study.
    """
    shared = replace(run_options or RunOptions(quiet=True), out=Path(out))
    chosen, images = options or StudyOptions(), loading or LoadOptions()
    if name == ALL:
        return run_all(chosen, images, shared).result
    return run_study(name, chosen, images, shared).result


def run_all(options: StudyOptions, loading: LoadOptions, run_options: RunOptions) -> Record[AllStudies]:
    """Run every study in `run_options.out`; return the record of their claims.

    The jobs that the claims need come first, study by study, and each study then has a preliminary result. So a run
    that is interrupted has answered some questions.

    Parameters
    ----------
    options, loading, run_options
        As in `study`; with `resume`, studies that the directory has are continued.
    """
    if run_options.out is None:
        raise OptionError("studies take long and keep the results of their jobs: give --out DIR")
    scale = scale_of(options, run_options)
    setting = setting_of(ALL, options.data, scale, run_options.out, loading, run_options)
    missing = [job for job in jobs_of(ALL, setting) if not (setting.root / f"{job.name}.json").exists()]
    countdown = Countdown(job_seconds(setting, missing, scale.student_batch), run_options.announce)
    config = run_options.config(loading, study=ALL, data=options.data, size=options.size)
    memory: Memory = {}
    with Run("study", config, None, run_options.seed) as run:
        for name in STUDY_ORDER:
            run_study(
                name, options, loading, run_options, countdown, memory, lambda study, own: study.primary_jobs(own)
            )
        again = replace(options, resume=True)
        found = [run_study(name, again, loading, run_options, countdown, memory) for name in STUDY_ORDER]
        reports = {job.job: job for one in found for job in one.result.jobs}.values()
        result = AllStudies(
            data=options.data,
            size=options.size,
            studies=[StudyVerdict(one.result.study, one.result.claim) for one in found],
            finished=sum(job.failed is None for job in reports),
            failed=[job.job for job in reports if job.failed is not None],
            job_hours=sum(job.seconds or 0.0 for job in reports) / 3600,
        )
        return run.record(result, images=found[0].images, layers=scale.depth)

"""Cost of a study, from a few steps on the device at hand."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from raptor.core.flow import trajectory_size
from raptor.core.phases import Phases
from raptor.data.options import LoadOptions
from raptor.distillation.planning.cost import ROUNDS, Timed, calibrate, time_steps
from raptor.distillation.recipes import distillation_named
from raptor.models.complexity import count_flops
from raptor.models.load import load_model
from raptor.models.surrogate import build_surrogate
from raptor.models.vit import ViT
from raptor.render.notebook import HtmlRepr
from raptor.runtime.options import RunOptions
from raptor.runtime.random_state import preserve_random_state
from raptor.studies.jobs import Cost, Job
from raptor.studies.options import ALL, STUDY_ORDER, StudyOptions
from raptor.studies.phase_summary import K
from raptor.studies.registry import find_study
from raptor.studies.setting import StudySetting
from raptor.studies.size import Scale
from raptor.studies.study import scale_of, setting_of
from raptor.studies.teachers import MUON_LR, unique, vit_of
from raptor.training.config import TrainConfig, build_optimizers

# Measuring a student on an image takes as long as training it on so many: about 4.5 and 2.9 ms with `laptop`.
MEASURING = 1.5


@dataclass(frozen=True)
class Calibration:
    """What the estimate is made from.

    Parameters
    ----------
    batch_size, rounds
        Images of a step, and number of steps that were timed.
    """

    batch_size: int
    rounds: int


@dataclass(frozen=True)
class JobEstimate:
    """Estimated cost of a job.

    Parameters
    ----------
    job
        Its name.
    core_seconds
        Seconds of computing, summed over cores; 0 where another job trains the same model.
    """

    job: str
    core_seconds: float


@dataclass(frozen=True)
class StudyPlan(HtmlRepr):
    """Cost of all jobs of a study, as if none had a result yet.

    Parameters
    ----------
    study, size, data
        The study, the name of its size, and the images.
    teachers, students
        How many of each it trains; teachers that other studies share are counted, and a model that several jobs ask for
        is counted once.
    device
        Device on which steps were timed.
    flops, seconds, core_seconds
        Operations of all trainings; estimated time of all jobs on this device, as busy as it is now; and the part of it
        in which this process computes, summed over cores.
    disk
        Bytes of the states of every teacher that has students, while the study runs.
    calibration
        What the estimate is made from.
    jobs
        The core-seconds of each job.
    """

    study: str
    size: str
    data: str
    teachers: int
    students: int
    device: str
    flops: float
    seconds: float
    core_seconds: float
    disk: int
    calibration: Calibration
    jobs: list[JobEstimate]


def plan_study(
    name: str, options: StudyOptions, loading: LoadOptions, run_options: RunOptions
) -> tuple[StudyPlan, int]:
    """Estimate the cost of all jobs of a study, or of all studies; return it with the layers of its models."""
    scale = scale_of(options, run_options, batch=False)  # --batch-size is that of the steps that are timed
    setting = setting_of(name, options.data, scale, Path(), loading, run_options)
    jobs = jobs_of(name, setting)
    costs = _costs(jobs)
    price = _price(setting, run_options.batch)
    seconds = {name: price.seconds(cost, scale) for name, cost in costs.items()}
    teachers = {job.needs[0] for job in jobs if costs[job.name].student_images}
    plan = StudyPlan(
        study=name,
        size=options.size,
        data=options.data,
        teachers=sum(cost.teacher_images > 0 for cost in costs.values()),
        students=sum(cost.student_images > 0 for cost in costs.values()),
        device=setting.device,
        flops=sum(price.flops(cost) for cost in costs.values()),
        seconds=sum(seconds.values()),
        core_seconds=sum(seconds.values()) * price.cores,
        disk=len(teachers) * (scale.student_images or 0) * price.states,
        calibration=Calibration(run_options.batch, ROUNDS),
        jobs=[JobEstimate(one, taken * price.cores) for one, taken in seconds.items()],
    )
    return plan, scale.depth


def jobs_of(name: str, setting: StudySetting) -> list[Job[Any]]:
    """Return the jobs of a study, or of all studies, each once."""
    names = STUDY_ORDER if name == ALL else (name,)
    return unique([job for one in names for job in find_study(one).jobs(setting)])


def job_seconds(setting: StudySetting, jobs: Sequence[Job[Any]], batch: int) -> dict[str, float]:
    """Estimate the seconds of each job from a few steps on this device; 0 where another job trains the same model.

    Parameters
    ----------
    setting, jobs
        The setting, and jobs of it.
    batch
        Images of the steps that are timed.
    """
    if not any(job.cost for job in jobs):
        return {job.name: 0.0 for job in jobs}
    price = _price(setting, batch)
    return {name: price.seconds(cost, setting.size) for name, cost in _costs(jobs).items()}


def _costs(jobs: Sequence[Job[Any]]) -> dict[str, Cost]:
    """Return the cost of each job by name; nothing for a job whose model an earlier one trains."""
    costs, trained = dict[str, Cost](), set[str]()
    for job in jobs:
        cost = job.cost or Cost()
        name = cost.trains or job.name
        costs[job.name] = Cost() if name in trained else cost
        trained.add(name)
    return costs


@dataclass(frozen=True)
class _Price:
    """Cost of one model.

    Parameters
    ----------
    teacher_flops, student_flops
        Operations of training on one image.
    states
        Bytes of the states of one image.
    teacher, student, batch
        Seconds of a training step, and its number of images.
    cores
        Mean number of cores that computed while steps were timed; below 1 if other processes had them.
    """

    teacher_flops: float
    student_flops: float
    states: int
    teacher: Timed
    student: Timed
    batch: int
    cores: float

    def flops(self, cost: Cost) -> float:
        computed = cost.teacher_images * (1 - cost.drop_path)
        return computed * self.teacher_flops + cost.student_images * self.student_flops

    def seconds(self, cost: Cost, size: Scale) -> float:
        one_teacher, one_student = (timed.passes / self.batch for timed in (self.teacher, self.student))
        teacher = (1 - cost.drop_path) * one_teacher + self.teacher.optimizer / size.teacher_batch
        student = one_student + self.student.optimizer / size.student_batch
        measured = MEASURING * one_student
        return cost.teacher_images * teacher + cost.student_images * student + cost.measured_images * measured


@preserve_random_state()
def _price(setting: StudySetting, batch: int) -> _Price:
    torch.manual_seed(0)
    model = ViT(vit_of(setting))
    teacher = load_model(model, device=setting.device)
    pixels = torch.randn(batch, 3, *teacher.image_size, device=teacher.device)
    label = torch.zeros(batch, dtype=torch.long, device=teacher.device)
    chosen = distillation_named("default")
    surrogate = build_surrogate(teacher, Phases.even(teacher.depth, K), chosen.kind, **chosen.block)
    one = {name: count_flops(flow, pixels[:1]) for name, flow in (("student", surrogate), ("teacher", teacher))}
    began, computed = time.perf_counter(), time.process_time()
    student, _ = calibrate(teacher, surrogate.raptor, pixels, chosen)
    trained = copy.deepcopy(model).requires_grad_(True).to(teacher.device)
    optimizers = build_optimizers(trained, TrainConfig(1, batch, muon_lr=MUON_LR))
    taught = time_steps(trained, lambda: cross_entropy(trained(pixels), label).backward(), optimizers, teacher.device)
    cores = (time.process_time() - computed) / (time.perf_counter() - began)
    live = setting.size.student_images is None
    return _Price(
        teacher_flops=3 * one["teacher"],
        student_flops=3 * one["student"] + one["teacher"] * live,
        states=2 * trajectory_size(teacher),
        teacher=taught,
        student=student,
        batch=batch,
        cores=cores,
    )

"""What `raptor study --plan` does: the cost of a study, from a few steps on the device at hand."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from raptor.commands.planning import ROUNDS, Timed, calibrate, even_phases, time_steps
from raptor.complexity import count_flops
from raptor.flow import trajectory_size
from raptor.models.surrogate import build_surrogate
from raptor.models.teachers import load_teacher
from raptor.models.vit import ViT
from raptor.options import Common
from raptor.run import Run
from raptor.studies import STUDIES
from raptor.studies.jobs import Cost
from raptor.studies.models import MUON_LR, Setting, vit_of
from raptor.studies.size import Size
from raptor.training.recipe import Recipe, build_optimizers
from raptor.training.recipes import distillation_named

K = 3  # what a step costs hardly depends on it


def plan_study(name: str, size: str, setting: Setting, common: Common) -> dict[str, Any]:
    """Estimate all jobs of a study as if none were done; teachers that other studies share are counted."""
    jobs = STUDIES[name].jobs(setting)
    costs = [job.cost for job in jobs if job.cost is not None]
    with Run("study", common.config(study=name, size=size, data=setting.data), None, common.seed) as run:
        each = {width: _price(setting, width, common.batch) for width in {cost.width for cost in costs}}
        teachers = {job.needs[0] for job in jobs if job.cost is not None and job.cost.student_images}
        body = {
            "study": name,
            "size": size,
            "data": setting.data,
            "teachers": sum(cost.teacher_images > 0 for cost in costs),
            "students": sum(cost.student_images > 0 for cost in costs),
            "device": setting.device,
            "flops": sum(each[cost.width].flops(cost) for cost in costs),
            "seconds": sum(each[cost.width].seconds(cost, setting.size) for cost in costs),
            # States of every teacher that has students, kept until the study ends.
            "disk": len(teachers) * (setting.size.student_images or 0) * max(one.states for one in each.values()),
            "calibration": {"batch_size": common.batch, "rounds": ROUNDS},
        }
        return run.finish(body, images=0, layers=setting.size.depth)


@dataclass(frozen=True)
class _Price:
    """Of an image: operations of training on it, bytes of its states; and seconds of a step on `batch` images."""

    teacher_flops: float
    student_flops: float
    states: int
    teacher: Timed
    student: Timed
    batch: int

    def flops(self, cost: Cost) -> float:
        return cost.teacher_images * self.teacher_flops + cost.student_images * self.student_flops

    def seconds(self, cost: Cost, size: Size) -> float:
        parts = (
            (cost.teacher_images, size.teacher_batch, self.teacher),
            (cost.student_images, size.student_batch, self.student),
        )
        return sum(images * (timed.passes / self.batch + timed.optimizer / own) for images, own, timed in parts)


def _price(setting: Setting, width: int, batch: int) -> _Price:
    torch.manual_seed(0)
    model = ViT(vit_of(setting, width))
    teacher = load_teacher(model, device=setting.device)
    pixels = torch.randn(batch, 3, *teacher.image_size, device=teacher.device)
    label = torch.zeros(batch, dtype=torch.long, device=teacher.device)
    chosen = distillation_named("default")
    surrogate = build_surrogate(teacher, even_phases(teacher.depth, K), chosen.kind, **chosen.block)
    one = {name: count_flops(flow, pixels[:1]) for name, flow in (("student", surrogate), ("teacher", teacher))}
    student, _ = calibrate(teacher, surrogate.raptor, pixels, chosen)
    trained = copy.deepcopy(model).requires_grad_(True).to(teacher.device)
    optimizers = build_optimizers(trained, Recipe(1, batch, muon_lr=MUON_LR))
    live = setting.size.student_images is None
    return _Price(
        teacher_flops=3 * one["teacher"],
        student_flops=3 * one["student"] + one["teacher"] * live,
        states=2 * trajectory_size(teacher),
        teacher=time_steps(
            trained, lambda: cross_entropy(trained(pixels), label).backward(), optimizers, teacher.device
        ),
        student=student,
        batch=batch,
    )

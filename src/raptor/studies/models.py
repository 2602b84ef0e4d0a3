"""Teachers and students of studies: trained and measured."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from raptor.core.accuracy import top1
from raptor.core.estimate import Estimate
from raptor.core.phases import Phases
from raptor.core.serialize import to_json
from raptor.data.train_val_test import load_train_val_test
from raptor.distillation.activation_cache import open_states
from raptor.distillation.distill import STAGES, train_surrogate
from raptor.distillation.recipes import Distillation
from raptor.evaluation.accuracy import AccuracyMeasure
from raptor.evaluation.fidelity import trajectory_fidelity
from raptor.models.checkpoints import save_vit
from raptor.models.complexity import count_parameters
from raptor.models.surrogate import Surrogate
from raptor.models.teachers.teacher import Teacher
from raptor.models.vit import ViT, ViTConfig
from raptor.models.weights import fingerprint
from raptor.probes.run import probe
from raptor.studies.jobs import Cost, Job, Results, cached
from raptor.studies.setting import StudentResult, StudySetting, TeacherResult
from raptor.training import checkpoint
from raptor.training.config import TrainConfig
from raptor.training.vit import Augmentation, train_vit

MUON_LR = 2e-3


def vit_of(setting: StudySetting, width: int, drop_path: float = 0.0) -> ViTConfig:
    """Return the architecture of a teacher."""
    size = setting.size
    return ViTConfig(
        image_size=size.image_size, patch_size=size.patch_size, width=width, depth=size.depth, heads=size.heads,
        n_register=size.registers, drop_path=drop_path, n_classes=len(setting.train(1).classes or ()),
    )  # fmt: skip


def student_cache_key(setting: StudySetting, recipe: Distillation, **more: Any) -> dict[str, Any]:
    """Return the cache key of a student, apart from its teacher and its phases."""
    return {**setting.cache_key, "images": setting.size.student_images, "recipe": recipe.to_config(), **more}


def student_cost(setting: StudySetting, width: int | None = None) -> Cost:
    """Return the cost of distilling a student in two stages."""
    size = setting.size
    return Cost(width or size.width, student_images=2 * size.student_steps * size.student_batch)


def teacher_job(setting: StudySetting, drop_path: float = 0.0, width: int | None = None) -> Job[TeacherResult]:
    """Return the job that trains a teacher, with the setting's width unless another is given."""
    size, wide = setting.size, width or setting.size.width
    vit = vit_of(setting, wide, drop_path)
    warmup = min(200, size.teacher_steps // 10)
    recipe = TrainConfig(size.teacher_steps, size.teacher_batch, muon_lr=MUON_LR, warmup=warmup, seed=size.seed)

    def work(results: Results, out: Path) -> TeacherResult:
        images = setting.train()
        at = {round(share * size.teacher_steps): out / f"at-{share:g}" for share in size.checkpoints if share < 1}

        def save_checkpoint(step: int, model: ViT) -> None:
            if step in at:
                save_vit(model, setting.preprocessing, at[step])

        resume = (out / checkpoint.NAME).exists()
        model, seconds = train_vit(
            images, vit, recipe, Augmentation(), out, resume, setting.device, before=save_checkpoint
        )
        save_vit(model, setting.preprocessing, out / "model")
        right = top1(setting.teacher(f"teachers/{out.name}"), setting.held_out())
        return TeacherResult(
            top1=Estimate(right.top1, *right.ci, right.n),
            n=right.n,
            train_seconds=seconds,
            drop_path=drop_path,
            seed=size.seed,
            parameters=count_parameters(model),
        )

    cache_key = {**setting.cache_key, "vit": vit.to_config(), "recipe": asdict(recipe), "checkpoints": size.checkpoints}
    other = "" if wide == size.width else f"-w{wide}"
    cost = Cost(wide, teacher_images=size.teacher_steps * size.teacher_batch)
    return Job(f"teachers/p{drop_path:g}-s{size.seed}{other}", cache_key, TeacherResult, work, cost=cost)


def distill_student(setting: StudySetting, teacher: Teacher, phases: Phases, recipe: Distillation) -> StudentResult:
    """Distil and measure a student; one that any study of this directory has distilled is not distilled again."""
    cache_key = student_cache_key(setting, recipe, teacher=fingerprint(teacher.module), phases=str(phases))
    file = _student_file(setting, cache_key)
    result, _ = cached(file, cache_key, lambda: _measure(setting, teacher, phases, recipe), StudentResult)
    assert isinstance(result, StudentResult)
    return result


def distill_probed_student(
    setting: StudySetting, teacher: Teacher, phases: Phases, recipe: Distillation
) -> StudentResult:
    """Distil a student, and replace its accuracy by that of a linear probe on its own features."""
    result = distill_student(setting, teacher, phases, recipe)
    size = setting.size
    n = size.student_steps * size.student_batch
    sets = load_train_val_test(setting.data, setting.preprocessing, None, n, size.eval_images, loading=setting.loading)
    surrogate = _distilled(setting, teacher, phases, recipe)
    right = probe(surrogate, *sets, ["classify"], progress=False)["classify"].reported["top1"]
    share = right.value / result.teacher.value if result.teacher.value else math.nan
    return replace(result, surrogate=right, recovered=Estimate(share, math.nan, math.nan))


def _student_file(setting: StudySetting, cache_key: dict[str, Any]) -> Path:
    digest = sha256(to_json(cache_key).encode()).hexdigest()
    return setting.root / "students" / f"{cache_key['phases']}-{digest[:16]}.json"


def _distilled(setting: StudySetting, teacher: Teacher, phases: Phases, recipe: Distillation) -> Surrogate:
    """Distil a student, or continue from its last checkpoint, which may be the end."""
    cache_key = student_cache_key(setting, recipe, teacher=fingerprint(teacher.module), phases=str(phases))
    out = _student_file(setting, cache_key).with_suffix("")
    images = setting.train(setting.size.student_images)
    states = None
    if setting.size.student_images is not None:
        # The images are part of the name: if the data was copied anew between two runs, old states are left alone.
        name = f"{cache_key['teacher'][:16]}-{images.identity()[:16]}"
        states = open_states(setting.states / name, teacher, images, setting.announce)
    resume = any((out / stage / checkpoint.NAME).exists() for stage in STAGES)
    return train_surrogate(teacher, images, phases, recipe, out, resume, cache=states)


def _measure(setting: StudySetting, teacher: Teacher, phases: Phases, recipe: Distillation) -> StudentResult:
    surrogate, held_out = _distilled(setting, teacher, phases, recipe), setting.held_out()
    measure = AccuracyMeasure(surrogate)
    found = trajectory_fidelity(teacher, surrogate, held_out, phases, observe=measure.update, updates=False)
    right = measure.compute()
    assert surrogate.record is not None
    return StudentResult(
        phases=phases,
        n=found["r2"].n,
        parameters=count_parameters(surrogate.raptor),
        r2=found["r2"],
        pearson2=found["pearson2"],
        cosine=found["cosine"],
        teacher=right.teacher,
        surrogate=right.surrogate,
        recovered=right.recovered,
        train_seconds=surrogate.record["seconds"],
        seed=recipe.blockwise.seed,
    )

"""Students of studies: distilled and measured."""

from __future__ import annotations

import math
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from raptor.core.estimate import Estimate
from raptor.core.phases import Phases
from raptor.core.serialize import to_json
from raptor.data.train_val_test import load_train_val_test
from raptor.distillation.activation_cache import open_states
from raptor.distillation.distill import STAGES, train_surrogate
from raptor.distillation.hyperparameters import Distillation
from raptor.distillation.recipes import distillation_named
from raptor.evaluation.accuracy import AccuracyMeasure
from raptor.evaluation.fidelity import trajectory_fidelity
from raptor.models.complexity import count_parameters
from raptor.models.surrogate import Surrogate
from raptor.models.teachers.teacher import Teacher
from raptor.models.weights import fingerprint
from raptor.probes.run import probe
from raptor.runtime.files import discard
from raptor.studies.jobs import Cost, cached
from raptor.studies.setting import StudentResult, StudySetting
from raptor.training import checkpoint


def student_cache_key(setting: StudySetting, recipe: Distillation, **more: Any) -> dict[str, Any]:
    """Return the cache key of a student, apart from its teacher and its phases."""
    return {**setting.cache_key, "images": setting.size.student_images, "recipe": recipe.to_config(), **more}


def student_cost(setting: StudySetting, trains: str = "") -> Cost:
    """Return the cost of distilling and measuring a student in two stages.

    Parameters
    ----------
    setting
        The setting of the study.
    trains
        Name of the job that distils the same student, where there is one.
    """
    size = setting.size
    images = 2 * size.student_steps * size.student_batch
    return Cost(student_images=images, measured_images=size.eval_images, trains=trains)


def student_recipe(setting: StudySetting, seed: int) -> Distillation:
    """Return the recipe of students: `default`, with copies of the teacher's blocks as the start for every partition.

    A start by least squares needs contiguous phases, and students of shuffled assignments are compared with others. The
    loss is the same for every teacher: relative to the variance of each layer.
    """
    size = setting.size
    recipe = distillation_named("default", size.student_steps, size.student_batch, seed, crop=1.0, window=1.0)
    return replace(recipe, fit_images=0, per_token=False)


def distill_student(
    setting: StudySetting, teacher: Teacher, phases: Phases, recipe: Distillation, keep_states: bool = True
) -> StudentResult:
    """Distil and measure a student; one that any study of this directory has distilled is not distilled again.

    Parameters
    ----------
    setting, teacher, phases, recipe
        What is distilled, and how.
    keep_states
        Whether the teacher's states stay on disk for further students, until the study ends.
    """
    cache_key = student_cache_key(setting, recipe, teacher=fingerprint(teacher.module), phases=str(phases))
    file = _student_file(setting, cache_key)
    result, _ = cached(file, cache_key, lambda: _measure(setting, teacher, phases, recipe), StudentResult)
    assert isinstance(result, StudentResult)
    if not keep_states:
        discard(_states(setting, teacher))
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
        states = open_states(_states(setting, teacher), teacher, images, setting.announce)
    resume = any((out / stage / checkpoint.NAME).exists() for stage in STAGES)
    return train_surrogate(teacher, images, phases, recipe, out, resume, cache=states)


def _states(setting: StudySetting, teacher: Teacher) -> Path:
    # The images are part of the name: if the data was copied anew between two runs, old states are left alone.
    images = setting.train(setting.size.student_images)
    return setting.states / f"{fingerprint(teacher.module)[:16]}-{images.identity()[:16]}"


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
        skill=found["skill"],
        r2=found["r2"],
        pearson2=found["pearson2"],
        cosine=found["cosine"],
        teacher=right.teacher,
        surrogate=right.surrogate,
        recovered=right.recovered,
        train_seconds=surrogate.record["seconds"],
        seed=recipe.blockwise.seed,
    )

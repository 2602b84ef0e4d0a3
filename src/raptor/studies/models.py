"""Teachers and students of studies: trained, measured, and kept in a few numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from raptor.accuracy import top1
from raptor.complexity import count_parameters
from raptor.data import HELD_OUT, load_images, training_split
from raptor.data.images import Images
from raptor.data.scene_images import SceneImages
from raptor.data.three_sets import load_three_sets
from raptor.evaluation import accuracies
from raptor.fidelity_by_layer import trajectory_fidelity
from raptor.models.store import save_vit
from raptor.models.surrogate import Surrogate
from raptor.models.teachers import load_teacher
from raptor.models.teachers.teacher import Teacher
from raptor.models.vit import ViT, ViTConfig
from raptor.models.weights import fingerprint
from raptor.phases import Phases
from raptor.preprocessing import Preprocessing
from raptor.probes.run import probe
from raptor.run import to_json
from raptor.studies.jobs import Cost, Job, Results, once
from raptor.studies.size import Size
from raptor.training import checkpoint
from raptor.training.distill import STAGES, distill
from raptor.training.recipe import Recipe
from raptor.training.recipes import Distillation
from raptor.training.states_cache import open_states
from raptor.training.vit import Augmentation, train_vit

MUON_LR = 2e-3
MEASURED = ("r2", "pearson2", "cosine")


@dataclass(frozen=True)
class Setting:
    """What all jobs of a study share.

    Parameters
    ----------
    data, preprocessing, loading
        Labelled images, how they become pixels, and how they are loaded.
    size
        Of everything.
    root
        Directory of all studies on this data; teachers in it are shared.
    states
        Directory for the states of teachers that students learn from, for as long as the study runs.
    device
        Where to train.
    announce
        Told what is about to be written to disk, and how large it is.
    """

    data: str
    preprocessing: Preprocessing
    loading: dict[str, Any]
    size: Size
    root: Path
    states: Path
    device: str = "cpu"
    announce: Callable[[str], None] = lambda text: None

    @cached_property
    def about(self) -> dict[str, Any]:
        """What everything is measured on; what teachers of another seed than 0 give is none of theirs."""
        seed = {"seed": self.size.seed} if self.size.seed else {}
        return {"data": self.data, "eval_images": self.size.eval_images, **seed, **self.loading}

    def train(self, images: int | None = None) -> Images | SceneImages:
        """Return the images to train on."""
        split = training_split(None, None)
        return load_images(self.data, self.preprocessing, split, images, **self.loading)

    def held_out(self) -> Images | SceneImages:
        """Return the images that everything is measured on."""
        return load_images(
            self.data, self.preprocessing, HELD_OUT, self.size.eval_images, batch_size=64, **self.loading
        )

    def teacher(self, name: str, share: float = 1.0) -> Teacher:
        """Load what a teacher's job kept, at its end or after a share of its steps."""
        folder = "model" if share == 1 else f"at-{share:g}"
        return load_teacher(self.root / name / folder, device=self.device)


def vit_of(setting: Setting, width: int, drop_path: float = 0.0) -> ViTConfig:
    """Return what a teacher is."""
    size = setting.size
    return ViTConfig(
        image_size=size.image_size, patch_size=size.patch_size, width=width, depth=size.depth, heads=size.heads,
        n_register=size.registers, drop_path=drop_path, n_classes=len(setting.train(1).classes or ()),
    )  # fmt: skip


def student_about(setting: Setting, recipe: Distillation, **more: Any) -> dict[str, Any]:
    """Return what decides a student beside its teacher and its phases."""
    return {**setting.about, "images": setting.size.student_images, "recipe": asdict(recipe), **more}


def student_cost(setting: Setting, width: int | None = None) -> Cost:
    """Return what it costs to distil a student in two stages."""
    size = setting.size
    return Cost(width or size.width, student_images=2 * size.student_steps * size.student_batch)


def teacher_job(setting: Setting, drop_path: float = 0.0, width: int | None = None) -> Job:
    """Return the job that trains a ViT, of another width where one is given."""
    size, wide = setting.size, width or setting.size.width
    vit = vit_of(setting, wide, drop_path)
    warmup = min(200, size.teacher_steps // 10)
    recipe = Recipe(size.teacher_steps, size.teacher_batch, muon_lr=MUON_LR, warmup=warmup, seed=size.seed)

    def work(results: Results, out: Path) -> dict[str, Any]:
        pictures = setting.train()
        at = {round(share * size.teacher_steps): out / f"at-{share:g}" for share in size.checkpoints if share < 1}

        def keep(step: int, model: ViT) -> None:
            if step in at:
                save_vit(model, setting.preprocessing, at[step])

        model, seconds = train_vit(
            pictures, vit, recipe, Augmentation(), out, (out / checkpoint.NAME).exists(), setting.device, before=keep
        )
        save_vit(model, setting.preprocessing, out / "model")
        found = top1(setting.teacher(f"teachers/{out.name}"), setting.held_out())
        return {"top1": found.top1, "top1_ci": list(found.ci), "n": found.n, "train_seconds": seconds,
                "drop_path": drop_path, "seed": size.seed, "parameters": count_parameters(model)}  # fmt: skip

    about = {**setting.about, "vit": asdict(vit), "recipe": asdict(recipe), "checkpoints": size.checkpoints}
    other = "" if wide == size.width else f"-w{wide}"
    cost = Cost(wide, teacher_images=size.teacher_steps * size.teacher_batch)
    return Job(f"teachers/p{drop_path:g}-s{size.seed}{other}", about, work, cost=cost)


def student_of(setting: Setting, teacher: Teacher, phases: Phases, recipe: Distillation) -> dict[str, Any]:
    """Distil a surrogate and measure it; one that any study of this directory has distilled is not distilled again."""
    about = student_about(setting, recipe, teacher=fingerprint(teacher.module), phases=str(phases))
    return once(_student_file(setting, about), about, lambda: _measured(setting, teacher, phases, recipe))[0]


def tuned_student_of(setting: Setting, teacher: Teacher, phases: Phases, recipe: Distillation) -> dict[str, Any]:
    """Do the same, with the accuracy of a linear classifier that is fitted to the surrogate's own features."""
    found = student_of(setting, teacher, phases, recipe)
    size = setting.size
    n = size.student_steps * size.student_batch
    sets = load_three_sets(setting.data, setting.preprocessing, None, n, size.eval_images, **setting.loading)
    surrogate = _distilled(setting, teacher, phases, recipe)
    column = probe(surrogate, *sets, ["classify"])["classify"].columns["fine-tuned"]
    right, ci = column.value["top1"], list(column.ci["top1"])
    return {
        **found,
        "surrogate": right,
        "surrogate_ci": ci,
        "recovered": right / found["teacher"] if found["teacher"] else math.nan,
        "recovered_ci": None,
    }


def _student_file(setting: Setting, about: dict[str, Any]) -> Path:
    digest = sha256(to_json(about).encode()).hexdigest()
    return setting.root / "students" / f"{about['phases']}-{digest[:16]}.json"


def _distilled(setting: Setting, teacher: Teacher, phases: Phases, recipe: Distillation) -> Surrogate:
    """Distil a surrogate, or go on with what is kept of it, be it the end."""
    about = student_about(setting, recipe, teacher=fingerprint(teacher.module), phases=str(phases))
    out = _student_file(setting, about).with_suffix("")
    pictures = setting.train(setting.size.student_images)
    states = None
    if setting.size.student_images is not None:
        # Named by its images too: where data was copied anew between two runs, old states are left, not an error.
        name = f"{about['teacher'][:16]}-{pictures.identity[:16]}"
        states = open_states(setting.states / name, teacher, pictures, setting.announce)
    resume = any((out / stage / checkpoint.NAME).exists() for stage in STAGES)
    return distill(teacher, pictures, phases, recipe, out, resume, cache=states)


def _measured(setting: Setting, teacher: Teacher, phases: Phases, recipe: Distillation) -> dict[str, Any]:
    surrogate, held_out = _distilled(setting, teacher, phases, recipe), setting.held_out()
    found, right = trajectory_fidelity(teacher, surrogate, held_out, phases), accuracies(surrogate, held_out)
    body: dict[str, Any] = {"phases": str(phases), "n": found.n, "parameters": count_parameters(surrogate.raptor)}
    for name in MEASURED:
        body[name] = found.mean[name]
        body[f"{name}_ci"] = {group: [found.low[name][group], found.high[name][group]] for group in found.mean[name]}
    for name in ("teacher", "surrogate", "recovered"):
        share = getattr(right, name)
        body[name], body[f"{name}_ci"] = share.value, list(share.ci)
    assert surrogate.record is not None
    return {**body, "train_seconds": surrogate.record["seconds"], "seed": recipe.apart.seed}

"""Teachers of studies: conditions under which ViTs are trained, and networks made from trained ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from raptor.core.accuracy import top1
from raptor.core.estimate import Estimate
from raptor.core.phases import Phases
from raptor.evaluation.nulls import null_teacher
from raptor.models.checkpoints import save_vit
from raptor.models.complexity import count_parameters
from raptor.models.load import load_model
from raptor.models.teachers.teacher import Teacher
from raptor.models.vit import ViT, ViTConfig
from raptor.studies.jobs import Cost, Job, Results
from raptor.studies.phase_summary import K
from raptor.studies.setting import StudySetting, TeacherResult
from raptor.training import checkpoint
from raptor.training.config import TrainConfig
from raptor.training.vit import Augmentation, train_vit

MUON_LR = 2e-3
STANDARD, TIED, SUBSET = "standard", "tied", "subset"
UNTRAINED, EARLY, RANDOM = "untrained", "early", "random"


@dataclass(frozen=True)
class Recipe:
    """How a teacher is trained.

    Parameters
    ----------
    name
        The condition.
    drop_path
        Rate of stochastic depth.
    tied
        Whether layers share one block within each of three even phases.
    images
        Number of images to train on, each seen many times; None for all.
    """

    name: str
    drop_path: float = 0.0
    tied: bool = False
    images: int | None = None


def dropped(rate: float) -> Recipe:
    """Return the recipe with a rate of stochastic depth; a rate of 0 is the standard."""
    return Recipe(STANDARD) if rate == 0 else Recipe(f"drop{rate:g}", rate)


def vit_of(setting: StudySetting, recipe: Recipe | None = None) -> ViTConfig:
    """Return the architecture of a teacher; its classifier reads cls and the mean patch."""
    size, recipe = setting.size, recipe or Recipe(STANDARD)
    return ViTConfig(
        image_size=size.image_size, patch_size=size.patch_size, width=size.width, depth=size.depth, heads=size.heads,
        n_register=size.registers, drop_path=recipe.drop_path, n_classes=len(setting.train(1).classes or ()),
        pool="cls+patch", tied=str(Phases.even(size.depth, K)) if recipe.tied else None,
    )  # fmt: skip


def trained_job(setting: StudySetting, recipe: Recipe, seed: int) -> Job[TeacherResult]:
    """Return the job that trains a teacher. The standard one is saved along the way too."""
    size, vit = setting.size, vit_of(setting, recipe)
    training = TrainConfig(
        size.teacher_steps, size.teacher_batch, muon_lr=MUON_LR, warmup=min(200, size.teacher_steps // 10), seed=seed
    )
    shares = sorted({*size.checkpoints, *size.stops}) if recipe.name == STANDARD else []

    def work(results: Results, out: Path) -> TeacherResult:
        at = {round(share * size.teacher_steps): out / f"at-{share:g}" for share in shares if share < 1}

        def save_checkpoint(step: int, model: ViT) -> None:
            if step in at:
                save_vit(model, setting.preprocessing, at[step])

        resume = (out / checkpoint.NAME).exists()
        model, seconds = train_vit(
            setting.train(recipe.images), vit, training, Augmentation(), out, resume, setting.device,
            before=save_checkpoint,
        )  # fmt: skip
        return _finish(setting, model, out, recipe.name, recipe.drop_path, seed, seconds)

    cache_key = {**setting.cache_key, "vit": vit.to_config(), "recipe": asdict(training), "checkpoints": shares}
    if recipe.images is not None:
        cache_key["images"] = recipe.images
    cost = Cost(teacher_images=size.teacher_steps * size.teacher_batch, drop_path=recipe.drop_path)
    return Job(teacher_name(recipe.name, seed), cache_key, TeacherResult, work, cost=cost)


def checkpoint_job(setting: StudySetting, seed: int, share: float) -> Job[TeacherResult]:
    """Return the job that takes the standard teacher after a share of its training; a share of 0 is untrained."""
    standard = teacher_name(STANDARD, seed)
    name = UNTRAINED if share == 0 else f"at{share:g}"

    def work(results: Results, out: Path) -> TeacherResult:
        model = setting.teacher(standard, share).module
        return _finish(setting, model, out, name, 0.0, seed, share=share)

    cache_key = {**setting.cache_key, "seed": seed, "share": share}
    return Job(teacher_name(name, seed), cache_key, TeacherResult, work, (standard,))


def early_job(setting: StudySetting, seed: int) -> Job[TeacherResult]:
    """Return the job that stops the standard teacher at the accuracy of those with stochastic depth.

    Of the checkpoints of the standard teacher, it takes the one whose accuracy is nearest to their mean accuracy.
    """
    standard, stops = teacher_name(STANDARD, seed), setting.size.stops
    others = [teacher_name(dropped(setting.size.drop_path).name, one) for one in setting.size.seeds]

    def work(results: Results, out: Path) -> TeacherResult:
        target = sum(results.of(name, TeacherResult).top1.value for name in others) / len(others)
        accuracy = {share: top1(setting.teacher(standard, share), setting.held_out()).top1 for share in stops}
        share = nearest(accuracy, target)
        model = setting.teacher(standard, share).module
        return _finish(setting, model, out, EARLY, 0.0, seed, share=share)

    cache_key = {**setting.cache_key, "seed": seed, "stops": stops, "drop_path": setting.size.drop_path}
    return Job(teacher_name(EARLY, seed), cache_key, TeacherResult, work, (standard, *others))


def random_job(setting: StudySetting, seed: int) -> Job[TeacherResult]:
    """Return the job that makes a random network with the norms of the standard teacher."""
    standard = teacher_name(STANDARD, seed)

    def work(results: Results, out: Path) -> TeacherResult:
        model = random_network(setting.teacher(standard), seed).module
        return _finish(setting, model, out, RANDOM, 0.0, seed)

    return Job(teacher_name(RANDOM, seed), {**setting.cache_key, "seed": seed}, TeacherResult, work, (standard,))


def random_network(teacher: Teacher, seed: int) -> Teacher:
    """Return an untied random network whose weights have the norms of a teacher's.

    Parameters
    ----------
    teacher
        One of raptor's own ViTs. If its layers are tied, each layer gets noise of its own: tied noise is recurrent too.
    seed
        Seed of the noise.
    """
    assert isinstance(teacher.module, ViT)
    return null_teacher(load_model(untied(teacher.module), preprocessing=teacher.preprocessing), "random", seed)


def untied(vit: ViT) -> ViT:
    """Return a copy of a ViT that computes the same with a block per layer."""
    copied = ViT(replace(vit.config, tied=None)).to(next(vit.parameters()))
    state: dict[str, Any] = {name: value for name, value in vit.state_dict().items() if not name.startswith("blocks.")}
    for layer, block in enumerate(vit.block_of):
        state |= {f"blocks.{layer}.{name}": value for name, value in vit.blocks[block].state_dict().items()}
    copied.load_state_dict(state)
    return copied.eval()


def nearest(accuracy: dict[float, float], target: float) -> float:
    """Return the share of the training whose accuracy is nearest to a target; the earliest of equals."""
    return min(sorted(accuracy), key=lambda share: abs(accuracy[share] - target))


def teacher_name(condition: str, seed: int) -> str:
    """Return the name of the job of a teacher."""
    return f"teachers/{condition}-s{seed}"


def unique(jobs: Sequence[Job[Any]]) -> list[Job[Any]]:
    """Return jobs in their order, each name once."""
    return list({job.name: job for job in jobs}.values())


def _finish(
    setting: StudySetting, model: Any, out: Path, condition: str, drop_path: float, seed: int, seconds: float = 0.0,
    share: float = 1.0,
) -> TeacherResult:  # fmt: skip
    save_vit(model, setting.preprocessing, out / "model")
    right = top1(setting.teacher(f"teachers/{out.name}"), setting.held_out())
    return TeacherResult(
        condition, Estimate(right.top1, *right.ci, right.n), right.n, seconds, drop_path, seed, share,
        count_parameters(model),
    )  # fmt: skip

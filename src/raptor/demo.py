"""The main job on the embedded default."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from raptor.commands.distilling import distill_with_bar
from raptor.commands.dynamics import side_by_side
from raptor.commands.intervening import change_layers
from raptor.commands.phases import phases_of
from raptor.data import load_images
from raptor.evaluation import Evaluation, fidelity
from raptor.fidelity_result import describe_fidelity
from raptor.inspection import inspect
from raptor.models.pretrained import load_surrogate, with_teacher
from raptor.models.surrogate import Surrogate
from raptor.models.teachers import SHIPPED_SURROGATES, load_teacher
from raptor.models.teachers.teacher import Teacher
from raptor.options import Common
from raptor.phases import Phases
from raptor.progress import Tracked
from raptor.report import drawing, fidelity_figures
from raptor.run import Run
from raptor.training.recipes import distillation_named

IMAGES = 256
LIVE_K, LIVE_STEPS, LIVE_BATCH = 3, 30, 16  # under half a minute of two cores
BESIDE = "scenes:k3"  # the surrogate whose dynamics are laid beside those of its teacher
PUSHED, STRETCHED = 4, 1  # images of the dear measures
CHANGED, ORDERS = 32, 2  # images and orders of either kind of the experiments on layers


def run_demo(out: Path, common: Common) -> dict[str, Any]:
    """Inspect the ViT that ships, find its phases, rewrite it as tied blocks, and say what each is worth."""
    images = common.images or IMAGES
    loading = {"images": images, "batch_size": common.batch}
    with Run("demo", {**common.config(data="scenes"), "images": images}, out, common.seed) as run:
        teacher = load_teacher("scenes", device=common.device)
        inspected = inspect(teacher)
        phases, found = phases_of(run, teacher, "scenes", common.progress, {}, loading)
        figures = phases.pop("figures")
        made = {f"live, {LIVE_STEPS} + {LIVE_STEPS} steps": _live(teacher, found.segmentation.by_k[LIVE_K][0], common)}
        for name, folder in SHIPPED_SURROGATES.items():
            made[f"shipped, {name}"] = with_teacher(load_surrogate(folder), teacher)
        measured = {label: _measured(label, surrogate, images, common) for label, surrogate in made.items()}
        by_layer = {label: one.by_layer for label, one in measured.items()}
        chart = fidelity_figures.side_by_side(by_layer, "Surrogates of the ViT that ships")
        figures.append(drawing.save(chart, run, "surrogates"))
        surrogates = [_described(label, made[label].phases, one) for label, one in measured.items()]
        dynamics = _dynamics(run, teacher, images, common)
        changed = _changed(run, teacher, found.segmentation.by_k[LIVE_K][0], common)
        figures += [*dynamics.pop("figures"), *changed.pop("figures")]
        more = {"surrogates": surrogates, "dynamics": dynamics, "interventions": changed}
        body = {**inspected, **phases, "figures": figures, **more}
        return run.finish(body, images, teacher.depth)


def _dynamics(run: Run, teacher: Teacher, images: int, common: Common) -> dict[str, Any]:
    """Depth as a dynamical system, of the teacher and of a surrogate beside it; pushes and exponents on few images."""
    flows = {"scenes": teacher, BESIDE: load_teacher(BESIDE, device=common.device)}
    pictures = load_images("scenes", teacher, None, images, batch_size=common.batch)
    return side_by_side(run, flows, pictures, None, common, PUSHED, STRETCHED)


def _changed(run: Run, teacher: Teacher, phases: Phases, common: Common) -> dict[str, Any]:
    pictures = load_images("scenes", teacher, None, CHANGED, batch_size=common.batch)
    return change_layers(run, teacher, pictures, phases, ORDERS, common)


def _live(teacher: Teacher, phases: Phases, common: Common) -> Surrogate:
    """Train a surrogate for a moment: far from done, but it shows how fast it goes."""
    recipe = distillation_named("default", LIVE_STEPS, LIVE_BATCH, common.seed)
    pictures = load_images("scenes", teacher, "train", LIVE_STEPS * LIVE_BATCH)
    return distill_with_bar(teacher, pictures, phases, recipe, common.progress)


def _measured(label: str, surrogate: Surrogate, images: int, common: Common) -> Evaluation:
    pictures = load_images("scenes", surrogate.teacher, "test", images, batch_size=common.batch)
    return fidelity(surrogate, Tracked(pictures, f"fidelity of {label}", common.progress), common.seed)


def _described(label: str, phases: Phases, measured: Evaluation) -> dict[str, Any]:
    """Say what a surrogate is worth in a few numbers."""
    body = describe_fidelity(measured)
    kept = ("r2", "r2_ci", "teacher_top1", "surrogate_top1", "recovered", "recovered_ci", "recovered_above_chance",
            "parameters", "flops")  # fmt: skip
    return {"label": label, "phases": str(phases), "images": measured.by_layer.n,
            **{name: body[name] for name in kept}}  # fmt: skip

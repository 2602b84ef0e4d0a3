"""What `raptor distill` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from raptor.commands.fidelity import draw_fidelity
from raptor.commands.inspecting import LOOK
from raptor.commands.resuming import check_fresh
from raptor.data import HELD_OUT, Images, data_for, load_images, parse_source, training_split
from raptor.data.scene_images import SceneImages
from raptor.errors import DataError, OptionError
from raptor.evaluation import fidelity
from raptor.fidelity_by_layer import FEWEST
from raptor.fidelity_result import describe_fidelity
from raptor.files import replacing
from raptor.hub import silence
from raptor.model_card import model_card
from raptor.models.pretrained import standalone
from raptor.models.surrogate import Surrogate
from raptor.models.teachers import load_teacher
from raptor.models.teachers.skeleton import describe
from raptor.models.teachers.teacher import Teacher
from raptor.options import Common
from raptor.phases import Phases
from raptor.processes import is_first_process
from raptor.progress import Bar, Tracked, track
from raptor.run import Run, plain, versions
from raptor.selection import find_phases
from raptor.training.distill import STAGES, distill
from raptor.training.recipes import BATCH_SIZE, Distillation, distillation_named
from raptor.training.states_cache import open_states
from raptor.training.workers import Launch

# How a distillation that is a part of another verb is laid out.
LAUNCH: dict[str, Any] = {"precision": "no", "accumulate": 1, "recompute": False, "trackers": ()}


def default_recipe(steps: int) -> dict[str, Any]:
    """Return the options of the default recipe for a distillation that is a part of another verb."""
    return {"name": "default", "steps": steps, "lr": None, "muon_lr": None, "kind": None}


def distill_model(
    model: str,
    data: str | None,
    k: int | str | None,
    phases: str | None,
    common: Common,
    *,
    recipe: dict[str, Any],
    launch: dict[str, Any],
    eval_data: str | None,
    eval_images: int,
    weights: Path | None,
    head: Path | None,
    resume: bool,
    cache: Path | None,
    loading: dict[str, Any],
) -> dict[str, Any] | None:
    """Train a surrogate on the train split, measure it on the held-out one, keep it in the run directory.

    Of several processes the first alone measures, keeps and returns.
    """
    if (k is None) == (phases is None):
        raise OptionError("a surrogate has the phases of --phases 7-3-2, or as many as --k says: give one of the two")
    given = None if phases is None else Phases.parse(phases)
    data = data_for(model, data, f"a surrogate of {model!r} is trained on images")
    chosen = distillation_named(**recipe, batch_size=common.batch_size or BATCH_SIZE, seed=common.seed)
    layout = Launch(**launch)
    first = is_first_process()
    teacher = load_teacher(model, common.size, weights, head, common.device)
    if given is not None:
        given.check_depth(teacher.depth)
    source, split = parse_source(data)
    # Everything that could be found missing after the training is looked at before it.
    pictures = _training_images(teacher, source, training_split(split, eval_data), chosen, common, loading)
    reported = eval_data or source
    held_out = load_images(
        reported, teacher, None if eval_data else HELD_OUT, eval_images, batch_size=common.batch, **loading
    )
    if len(held_out) < FEWEST:
        raise DataError(f"{reported!r} holds out {len(held_out)} image; fidelity needs at least {FEWEST}")
    if common.out is not None:
        describe(teacher)
    config = common.config(
        model=model, data=data, k=k, phases=phases, recipe=recipe, launch=launch, eval_data=eval_data,
        eval_images=eval_images, weights=weights, head=head, cache=cache, **loading,
    )  # fmt: skip
    with Run("distill", config, common.out, common.seed) as run:
        check_fresh(common.out, resume, {**plain(config), "seed": common.seed}, STAGES)
        kept_states = None if cache is None else open_states(cache, teacher, pictures, common.announce)
        run.begin()
        found = given or _found(teacher, source, split, k, common, loading)
        about = {"data": data, "images": len(pictures), "recipe": recipe["name"], "loading": loading}
        surrogate = distill_with_bar(
            teacher, pictures, found, chosen, common.progress, out=common.out, resume=resume, about=about,
            launch=layout, cache=kept_states,
        )  # fmt: skip
        if not first:
            return None
        where = {"data": f"{reported}:held-out" if eval_data is None else reported, "seed": common.seed}
        kept = {"data": data, "seed": common.seed}
        save_surrogate(surrogate, run.out, kept)  # before it is measured: nothing is lost should that fail
        measured = fidelity(surrogate, Tracked(held_out, "fidelity", common.progress), common.seed)
        body = describe_fidelity(measured)
        save_surrogate(surrogate, run.out, {**kept, "fidelity": {**body, **where, "images": measured.by_layer.n}})
        seconds = surrogate.record["seconds"]
        result = {
            "model": teacher.name,
            "data": data,
            "eval_data": where["data"],
            "phases": str(found),
            "recipe": recipe["name"],
            "steps": [chosen.apart.steps, chosen.joined.steps],
            "train_images": len(pictures),
            "train_seconds": seconds,
            "images_per_second": _seen(chosen) / max(seconds, 1e-9),
            "fidelity": body,
            "damaged": [*pictures.damaged, *held_out.damaged],
            "figures": [*draw_fidelity(run, measured, surrogate), *_draw_training(run)],
        }
        return run.finish(result, images=measured.by_layer.n, layers=teacher.depth)


def _draw_training(run: Run) -> list[str]:
    """Draw the losses of both stages, from their logs."""
    if run.out is None:
        return []
    from raptor.reporting import drawing, training_figures

    rows = training_figures.logged(run.out)
    return [drawing.save(training_figures.losses(rows, "Training of the surrogate"), run, "training", rows)]


def _seen(chosen: Distillation) -> int:
    return sum(recipe.steps * recipe.batch_size for recipe in (chosen.apart, chosen.joined))


def _training_images(
    teacher: Teacher, source: str, split: str, chosen: Distillation, common: Common, loading: dict[str, Any]
) -> Images | SceneImages:
    """Load the images to train on; scenes are made as they are needed."""
    n = common.images
    if source == "scenes" and n is None:
        n = max(recipe.steps * recipe.batch_size for recipe in (chosen.apart, chosen.joined))  # both see the same
    return load_images(source, teacher, split, n, seed=common.seed, **loading)


def distill_with_bar(
    teacher: Teacher,
    pictures: Images | SceneImages,
    phases: Phases,
    chosen: Distillation,
    progress: Console,
    **training: Any,
) -> Surrogate:
    """Train, with a bar over both stages; `training` is more arguments of `distill`."""
    batch = chosen.apart.batch_size
    with Bar(_seen(chosen), f"surrogate {phases}", progress) as bar:

        def watch(stage: str, line: dict[str, float]) -> None:
            done = chosen.apart.steps * (stage == STAGES[1]) + int(line["step"])
            bar.move(done * batch, f"{stage} loss {line['loss']:.4f}")

        return distill(teacher, pictures, phases, chosen, watch=watch, **training)


def _found(
    teacher: Teacher, source: str, split: str | None, k: int | str | None, common: Common, loading: dict[str, Any]
) -> Phases:
    """Find the phases on images of the training split."""
    assert k is not None
    look = load_images(
        source, teacher, split or "train", common.images or LOOK, batch_size=common.batch, seed=common.seed, **loading
    )
    batches = track(look, len(look), "phases", common.progress)
    return find_phases(teacher, batches, k=k, seed=common.seed).segmentation.phases


def save_surrogate(surrogate: Surrogate, out: Path | None, provenance: dict[str, Any]) -> None:
    """Write a surrogate that stands alone, with its model card, as `model` of a run directory: whole or not at all."""
    if out is None:
        return
    about = plain({**provenance, "versions": versions()})
    model = standalone(surrogate, surrogate.record["kind"], surrogate.record["block"], about)
    with silence(), replacing(out / "model") as folder:
        model.save_pretrained(folder)
        (folder / "README.md").write_text(model_card(model.config), encoding="utf-8")

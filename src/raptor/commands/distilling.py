"""What `raptor distill` does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from raptor.commands.inspecting import LOOK
from raptor.data import load_images, parse_source
from raptor.errors import OptionError, OutputError
from raptor.evaluation import fidelity
from raptor.fidelity_result import describe_fidelity
from raptor.model_card import model_card
from raptor.models.pretrained import standalone
from raptor.models.surrogate import Surrogate
from raptor.models.teachers import load_teacher
from raptor.models.teachers.teacher import Teacher
from raptor.options import Common
from raptor.phases import Phases
from raptor.progress import Bar, Tracked, track
from raptor.run import Run, plain, versions
from raptor.selection import find_phases
from raptor.training.distill import distill
from raptor.training.recipes import distillation_named
from raptor.training.workers import Launch


def distill_model(
    model: str,
    data: str | None,
    k: int | str | None,
    phases: str | None,
    common: Common,
    *,
    recipe: dict[str, Any],
    launch: dict[str, Any],
    eval_images: int,
    weights: Path | None,
    head: Path | None,
    resume: bool,
    loading: dict[str, Any],
) -> dict[str, Any]:
    """Train a surrogate on the train split, measure it on the held-out one, keep it in the run directory."""
    if (k is None) == (phases is None):
        raise OptionError("a surrogate has the phases of --phases 7-3-2, or as many as --k says: give one of the two")
    given = None if phases is None else Phases.parse(phases)
    data = data or ("scenes" if model == "scenes" else None)
    if data is None:
        raise OptionError(f"a surrogate of {model!r} is trained on images: name some with --data")
    chosen = distillation_named(**recipe, batch_size=common.batch_size, seed=common.seed)
    layout = Launch(**launch)
    teacher = load_teacher(model, common.size, weights, head, common.device)
    if given is not None:
        given.check_depth(teacher.depth)
    source, split = parse_source(data)
    seen = (chosen.apart.steps + chosen.joined.steps) * common.batch_size
    n = seen if source == "scenes" and common.images is None else common.images
    pictures = load_images(source, teacher, split or "train", n, seed=common.seed, **loading)
    config = common.config(
        model=model, data=data, k=k, phases=phases, recipe=recipe, launch=launch, weights=weights, head=head, **loading
    )
    # Of several processes the first keeps the run.
    first = int(os.environ.get("RANK", "0")) == 0
    with Run("distill", config, common.out if first else None, common.seed) as run:
        _check_fresh(common.out, resume)
        run.begin()
        found = given or _found(teacher, source, split, k or "auto", common, loading)
        with Bar(seen, f"surrogate {found}", common.progress) as bar:
            surrogate = distill(
                teacher, pictures, found, chosen, common.out, resume, launch=layout,
                watch=lambda stage, line: bar.move(
                    (chosen.apart.steps * (stage == "stage2") + int(line["step"])) * common.batch_size,
                    f"{stage} loss {line['loss']:.4f}",
                ),
                about={"data": data, "images": len(pictures), "recipe": recipe["name"]},
            )  # fmt: skip
        held_out = load_images(source, teacher, "test", eval_images, batch_size=common.batch_size, **loading)
        measured = fidelity(surrogate, Tracked(held_out, "fidelity", common.progress), common.seed)
        body = describe_fidelity(measured)
        result = {
            "model": teacher.name,
            "data": data,
            "phases": str(found),
            "recipe": recipe["name"],
            "steps": [chosen.apart.steps, chosen.joined.steps],
            "train_images": len(pictures),
            "train_seconds": surrogate.record["seconds"],
            "images_per_second": seen / max(surrogate.record["seconds"], 1e-9),
            "fidelity": body,
            "damaged": [*pictures.damaged, *held_out.damaged],
        }
        if run.out is not None:
            about = {**body, "images": measured.by_layer.n, "data": f"{source}:test", "seed": common.seed}
            save_surrogate(surrogate, run.out / "model", {"data": data, "seed": common.seed, "fidelity": about})
        return run.finish(result, images=measured.by_layer.n, layers=teacher.depth)


def _found(
    teacher: Teacher, source: str, split: str | None, k: int | str, common: Common, loading: dict[str, Any]
) -> Phases:
    """Find the phases on images of the training split."""
    look = load_images(
        source, teacher, split or "train", common.images or LOOK, batch_size=common.batch_size, seed=common.seed,
        **loading,
    )  # fmt: skip
    batches = track(look, len(look), "phases", common.progress)
    return find_phases(teacher, batches, k=k, seed=common.seed).segmentation.phases


def save_surrogate(surrogate: Surrogate, folder: Path, provenance: dict[str, Any]) -> None:
    """Write a surrogate that stands alone, with its model card."""
    record = surrogate.record
    about = plain({**provenance, "versions": versions()})
    model = standalone(surrogate, record["kind"], record["block"], about)
    model.save_pretrained(folder)
    (folder / "README.md").write_text(model_card(model.config), encoding="utf-8")


def _check_fresh(out: Path | None, resume: bool) -> None:
    """Refuse to train over a run that is there, unless it is to go on."""
    if out is not None and not resume and (out / "stage1" / "checkpoint.pt").exists():
        raise OutputError(f"{str(out)!r} holds a training already: go on with --resume, or use another --out")

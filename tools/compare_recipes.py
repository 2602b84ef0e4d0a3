"""Measure held-out fidelity during a distillation, one JSON line per point, for the curves in docs/surrogates.md.

python tools/compare_recipes.py --recipe released --lr 3e-4 --phases 4-4-4 --steps 1000 --seed 0 >> curves.jsonl
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace

import torch

import raptor
from raptor.core.phases import Phases
from raptor.distillation.distill import train_surrogate
from raptor.distillation.recipes import distillation_named
from raptor.evaluation.fidelity import trajectory_fidelity
from raptor.models.surrogate import build_surrogate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="scenes")
    parser.add_argument("--train", default="scenes:train", help="Training images.")
    parser.add_argument("--held-out", default="scenes:validation", help="Evaluation images.")
    parser.add_argument("--phases", required=True)
    parser.add_argument("--recipe", default="default")
    parser.add_argument("--lr", type=float)
    parser.add_argument("--muon-lr", type=float, help="Peak rate of Muon in stage 1; the recipe scales it for stage 2.")
    parser.add_argument("--joined-muon-lr", type=float, help="Peak learning rate of Muon in stage 2.")
    parser.add_argument("--kind")
    parser.add_argument("--block", type=json.loads, default={})
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--apart-steps", type=int, help="Steps of the blockwise stage (stage 1); default: --steps.")
    parser.add_argument("--forcing", type=float, help="Initial weight of teacher forcing.")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=60, help="Steps between points; must be a multiple of 20.")
    parser.add_argument("--images", type=int, default=256, help="Number of evaluation images per point.")
    given = parser.parse_args()
    teacher = raptor.load_model(given.model)
    phases = Phases.parse(given.phases)
    recipe = distillation_named(
        given.recipe, given.steps, given.batch_size, given.seed, given.lr, given.muon_lr, given.kind, **given.block
    )
    if given.apart_steps is not None:
        recipe = replace(recipe, blockwise=replace(recipe.blockwise, steps=given.apart_steps))
    if given.joined_muon_lr is not None:
        recipe = replace(recipe, end_to_end=replace(recipe.end_to_end, muon_lr=given.joined_muon_lr))
    if given.forcing is not None:
        recipe = replace(recipe, forcing=given.forcing)
    torch.manual_seed(given.seed)
    student = build_surrogate(teacher, phases, recipe.kind, **recipe.block)
    held_out = raptor.load_images(given.held_out, teacher, images=given.images, batch_size=64)
    measuring = 0.0
    about = {
        "recipe": given.recipe, "lr": recipe.end_to_end.lr,
        "muon_lr": [recipe.blockwise.muon_lr, recipe.end_to_end.muon_lr],
        "kind": recipe.kind, "block": recipe.block, "phases": given.phases, "seed": given.seed,
        "batch_size": given.batch_size, "steps": [recipe.blockwise.steps, recipe.end_to_end.steps],
        "forcing": recipe.forcing,
    }  # fmt: skip

    def watch(stage: str, line: dict[str, float]) -> None:
        nonlocal measuring
        step = int(line["step"])
        last = (recipe.blockwise if stage == "stage1" else recipe.end_to_end).steps
        if step % given.every and step != last:
            return
        start = time.perf_counter()
        found = trajectory_fidelity(teacher, student, held_out, phases, draws=2)
        r2 = found["r2"].mean["all"]
        measuring += time.perf_counter() - start
        point = {
            **about, "stage": stage, "step": step, "seconds": round(time.perf_counter() - began - measuring, 1),
            "loss": line["loss"], "r2_last": r2[-1], "r2_mean": sum(r2) / len(r2), "images": found["r2"].n,
        }  # fmt: skip
        print(json.dumps(point), flush=True)

    pictures = raptor.load_images(given.train, teacher, images=2 * given.steps * given.batch_size)
    began = time.perf_counter()
    train_surrogate(teacher, pictures, phases, recipe, watch=watch, start=student)


if __name__ == "__main__":
    main()

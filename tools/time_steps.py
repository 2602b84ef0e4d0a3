"""Time one step of each recipe, alternating in one run: the seconds for docs/figures/recipes.png.

OMP_NUM_THREADS=1 python tools/time_steps.py > docs/data/step_seconds.jsonl
OMP_NUM_THREADS=1 python tools/time_steps.py --model DIR --data cifar100:train --phases 3-4-5 --batch-size 64
"""

from __future__ import annotations

import argparse
import json
import statistics

import raptor
from raptor.core.phases import Phases
from raptor.distillation.distill import train_surrogate
from raptor.distillation.recipes import distillation_named

STEPS = 40


def seconds_a_step(recipe: str, given: argparse.Namespace) -> dict[str, float]:
    """Train for a few steps, and return the seconds per step of each stage without the first twenty steps."""
    teacher = raptor.load_model(given.model)
    images = raptor.load_images(given.data, teacher, images=STEPS * given.batch_size)
    at: dict[tuple[str, int], float] = {}

    def watch(stage: str, line: dict[str, float]) -> None:
        at[stage, int(line["step"])] = line["seconds"]

    chosen = distillation_named(recipe, STEPS, given.batch_size)
    train_surrogate(teacher, images, Phases.parse(given.phases), chosen, watch=watch)
    return {stage: (at[stage, STEPS] - at[stage, 20]) / (STEPS - 20) for stage in ("stage1", "stage2")}


def main() -> None:
    """Time both recipes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--model", default="scenes")
    parser.add_argument("--data", default="scenes:train")
    parser.add_argument("--phases", default="5-5-2")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {"default": [], "released": []}
    for _ in range(given.rounds):
        for name, rounds in found.items():
            rounds.append(seconds_a_step(name, given))
    for name, rounds in found.items():
        medians = {stage: statistics.median(one[stage] for one in rounds) for stage in rounds[0]}
        print(json.dumps({"recipe": name, "batch_size": given.batch_size, "rounds": given.rounds, **medians}))


if __name__ == "__main__":
    main()

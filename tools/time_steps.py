"""How long a step of each recipe takes, alternating in one run: the seconds of docs/figures/recipes.png.

OMP_NUM_THREADS=1 python tools/time_steps.py > docs/data/step_seconds.jsonl
"""

from __future__ import annotations

import json
import statistics

import raptor
from raptor.phases import Phases
from raptor.training.distill import distill
from raptor.training.recipes import distillation_named

STEPS, ROUNDS = 40, 2


def seconds_a_step(recipe: str) -> dict[str, float]:
    """Train for a few steps; return the seconds of one in either stage, the first twenty left out."""
    teacher = raptor.load_teacher("scenes")
    images = raptor.load_images("scenes:train", teacher, images=STEPS * 32)
    at: dict[tuple[str, int], float] = {}

    def watch(stage: str, line: dict[str, float]) -> None:
        at[stage, int(line["step"])] = line["seconds"]

    distill(teacher, images, Phases.parse("5-5-2"), distillation_named(recipe, STEPS, 32), watch=watch)
    return {stage: (at[stage, STEPS] - at[stage, 20]) / (STEPS - 20) for stage in ("stage1", "stage2")}


if __name__ == "__main__":
    found: dict[str, list[dict[str, float]]] = {"default": [], "released": []}
    for _ in range(ROUNDS):
        for name, rounds in found.items():
            rounds.append(seconds_a_step(name))
    for name, rounds in found.items():
        medians = {stage: statistics.median(one[stage] for one in rounds) for stage in rounds[0]}
        print(json.dumps({"recipe": name, "batch_size": 32, "rounds": ROUNDS, **medians}))

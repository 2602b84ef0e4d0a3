"""Do partitions by similarity, function or fit make better surrogates? Distil every partition briefly and compare.

python tools/compare_cuts.py MODEL OUT.jsonl --data D --k 2,3      # one line for each distillation; continues a file
python tools/compare_cuts.py MODEL OUT.jsonl --summary             # rank correlations, as JSON
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

import raptor
from raptor.core.phases import Phases
from raptor.core.placements import placements
from raptor.distillation.distill import train_surrogate
from raptor.distillation.recipes import distillation_named
from raptor.evaluation.accuracy import AccuracyMeasure
from raptor.evaluation.fidelity import trajectory_fidelity
from raptor.phases.function.fit import segment_costs
from raptor.phases.function.local import functional_similarity
from raptor.phases.segment import segment_values
from raptor.phases.solvers import total_value

MIN_LENGTH, BEST, SEEDS = 2, 5, (0, 1, 2)
OUTCOMES = ("skill", "mean_skill", "top1")
CRITERIA = ("similarity", "function", "fit", "even")


def ends(phases: Phases) -> tuple[int, ...]:
    """Return the last layer of each phase."""
    return (*phases.boundaries, phases.depth)


def criteria(teacher: raptor.Teacher, train: object, images: int) -> dict[str, np.ndarray]:
    """Return the value of every segment by each method."""
    some = train.sample(images)
    similarity = raptor.layer_similarity(teacher, some).without_embedding().mean().numpy()
    function = functional_similarity(teacher, some.sample(64)).symmetric().mean().numpy()
    values = {
        name: segment_values(matrix[None], "weighted", MIN_LENGTH)[0]
        for name, matrix in (("similarity", similarity), ("function", function))
    }
    return {**values, "fit": -segment_costs(teacher, some)}


def evenness(phases: Phases) -> float:
    """Return minus the variance of the lengths: 0 for an even split."""
    return -float(np.var(phases.lengths))


def outcome(teacher: raptor.Teacher, train: object, test: object, phases: Phases, seed: int, given: object) -> dict:
    """Distil briefly; return skill and accuracy on held-out images."""
    recipe = distillation_named("default", given.steps, given.batch_size, seed)
    surrogate = train_surrogate(teacher, train, phases, recipe)
    right = AccuracyMeasure(surrogate)
    found = trajectory_fidelity(teacher, surrogate, test, phases, draws=2, observe=right.update)
    skill = found["skill"].mean["all"]
    return {
        "skill": skill[-1], "mean_skill": float(np.mean(skill)), "r2": found["r2"].mean["all"][-1],
        "top1": right.compute().surrogate.value,
    }  # fmt: skip


def summary(rows: list[dict]) -> dict:
    """Return the rank correlation of each criterion with each outcome, over partitions, by k."""
    found = {}
    for k in sorted({row["k"] for row in rows}):
        own = [row for row in rows if row["k"] == k and row["seed"] == 0]
        found[k] = {
            outcome: {
                name: round(float(spearmanr([row[name] for row in own], [row[outcome] for row in own]).statistic), 3)
                for name in CRITERIA
            }
            for outcome in OUTCOMES
        }
        found[k]["n"] = len(own)
        best = sorted(own, key=lambda row: -row["skill"])[:BEST]
        found[k]["best"] = {
            row["phases"]: [
                [round(other[name], 3) for name in OUTCOMES] for other in rows if other["phases"] == row["phases"]
            ]
            for row in best
        }
        top = {name: max(own, key=lambda row, name=name: row[name]) for name in CRITERIA}
        found[k]["chosen"] = {
            name: f"{row['phases']}: skill {row['skill']:.3f}, top-1 {row['top1']:.3f}" for name, row in top.items()
        }
        skills = [row["skill"] for row in own]
        found[k]["lowest, median, highest skill"] = [round(float(q), 3) for q in np.quantile(skills, (0, 0.5, 1))]
    return found


def main() -> None:
    """Read the options, distil what is missing, and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", default="scenes")
    parser.add_argument("--k", default="2,3")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--image-size", type=int)
    parser.add_argument("--summary", action="store_true")
    given = parser.parse_args()
    rows = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    if not given.summary:
        teacher = raptor.load_model(given.model, given.image_size)
        train = raptor.load_images(f"{given.data}:train", teacher)
        test = raptor.load_images(f"{given.data}:test", teacher, images=given.images)
        values = criteria(teacher, train, given.images)
        done = {(row["phases"], row["seed"]) for row in rows}

        def add(phases: Phases, seed: int) -> None:
            if (str(phases), seed) in done:
                return
            scores = {name: total_value(table, ends(phases)) for name, table in values.items()}
            row = {"k": phases.k, "phases": str(phases), "seed": seed, **scores, "even": evenness(phases)}
            rows.append({**row, **outcome(teacher, train, test, phases, seed, given)})
            with given.out.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")

        for k in map(int, given.k.split(",")):
            partitions = [Phases(lengths) for lengths in placements(teacher.depth, k, MIN_LENGTH)]
            random.Random(0).shuffle(partitions)  # what is there when time runs out is a random sample
            for phases in partitions:
                add(phases, SEEDS[0])
            own = sorted((row for row in rows if row["k"] == k and row["seed"] == 0), key=lambda row: -row["skill"])
            for row in own[:BEST]:
                for seed in SEEDS[1:]:
                    add(Phases.parse(row["phases"]), seed)
    print(json.dumps(summary(rows), indent=1))


if __name__ == "__main__":
    main()

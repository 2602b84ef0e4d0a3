"""A teacher that *is* three tied blocks, and noise to look at: what a surrogate must be able to find.

python tests/helpers/tied.py teacher 5-4-3 --steps 1200      # kind, phases; prints held-out R2 by layer as JSON lines
"""

from __future__ import annotations

import argparse
import copy
import json
import time

import torch

import raptor
from raptor.core.batches import Batch
from raptor.core.phases import Phases
from raptor.data.scenes.images import SceneImages
from raptor.distillation.distill import train_surrogate
from raptor.distillation.recipes import distillation_named
from raptor.evaluation.fidelity import trajectory_fidelity
from raptor.models.surrogate import build_surrogate
from raptor.models.vit import ViT, ViTConfig
from raptor.runtime.distributed import SINGLE_PROCESS

TIED = Phases((5, 4, 3))
SIDE = 16


class Noise(SceneImages):
    """Images of white noise, each a function of its number; to train on there are as many as one likes."""

    def __init__(self, n=10**9, seed=0):
        self.n, self.seed, self.batch_size, self.first, self.process_group = n, seed, 64, 0, SINGLE_PROCESS

    def batch(self, indices):
        """Draw the images with these numbers."""
        draws = (torch.Generator().manual_seed(self.seed * 10**9 + int(index)) for index in indices)
        pixels = torch.stack([torch.randn(3, SIDE, SIDE, generator=draw) for draw in draws])
        return Batch(pixels, None, None, None, [""] * len(pixels))


def tied_teacher(width=32, gain=7.0):
    """Return a ViT of 12 layers, equal within the phases 5-4-3, in which the identity is a poor baseline."""
    torch.manual_seed(0)
    sizes = {"image_size": SIDE, "patch_size": 4, "depth": 12, "width": width, "heads": 4, "n_register": 1}
    model = ViT(ViTConfig(**sizes, n_classes=4))
    with torch.no_grad():
        model.patch_embed.proj.weight.mul_(10)
        for phase, span in enumerate(TIED.ranges):
            first = model.blocks[span[0] - 1]
            for parameter in first.parameters():
                if parameter.ndim == 2:
                    parameter.mul_(gain * (1 + 0.3 * phase))  # the stream grows, so that later blocks must write more
            for layer in span[1:]:
                model.blocks[layer - 1] = copy.deepcopy(first)
    return raptor.load_model(model)


def random_surrogate(teacher, phases, kind, seed=1, **options):
    """Return a surrogate that knows nothing of its teacher's blocks, whatever its kind."""
    torch.manual_seed(seed)
    surrogate = build_surrogate(teacher, phases, kind, **options)
    if kind == "teacher":
        for name, module in surrogate.raptor.named_modules():
            if isinstance(module, torch.nn.Linear) and "depth_scale" not in name:
                torch.nn.init.trunc_normal_(module.weight, std=0.06)
                torch.nn.init.zeros_(module.bias)
    return surrogate


def trained(teacher, phases, kind, steps, batch_size=32, watch=None, seed=1):
    """Train one from random weights by the default recipe."""
    options = {"layer_scale": 0.1} if kind == "swiglu" else {}
    start = random_surrogate(teacher, phases, kind, seed, **options)
    recipe = distillation_named("default", steps, batch_size, seed, kind=kind, **options)
    call = None if watch is None else lambda stage, line: watch(start, stage, line)
    return train_surrogate(teacher, Noise(), phases, recipe, start=start, watch=call)


def r2_by_layer(teacher, surrogate, images=512):
    """Return held-out R2 of all tokens at the layers 1..12, and that of the identity baseline for the phases 5-4-3."""
    found = trajectory_fidelity(teacher, surrogate, Noise(images, seed=1), TIED, draws=2)
    return found["r2"].mean["all"], found["r2_identity"].mean["all"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind")
    parser.add_argument("phases")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    teacher, began = tied_teacher(), time.perf_counter()

    def show(surrogate, stage, line):
        """Print a point of the curve."""
        if int(line["step"]) % 100 == 0 or int(line["step"]) == given.steps:
            r2, still = r2_by_layer(teacher, surrogate)
            seconds = round(time.perf_counter() - began, 1)
            point = {
                "kind": given.kind,
                "phases": given.phases,
                "seed": given.seed,
                "steps": given.steps,
                "stage": stage,
                "step": line["step"],
            }
            print(json.dumps({**point, "seconds": seconds, "r2": r2, "identity": still}), flush=True)

    trained(teacher, Phases.parse(given.phases), given.kind, given.steps, watch=show, seed=given.seed)

"""Small random ViTs whose recurrence is known: tied blocks with noise, and networks without phases.

python tests/helpers/recurrent.py --seeds 50        # rates of right cuts and of verdicts, as JSON lines
"""

from __future__ import annotations

import argparse
import copy
import json
import random

import torch

import raptor
from raptor.core.phases import Phases
from raptor.core.toy import SMALL, ToyFlow
from raptor.models.vit import ViT, ViTConfig

SIDE, WIDTH, GAIN = 16, 32, 7.0
IMAGES = 32


def noise_images(n=IMAGES, seed=0):
    """Return one batch of white noise."""
    return [torch.randn(n, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(seed))]


def random_phases(depth, seed):
    """Draw 2 to 4 phases of at least 2 layers."""
    return Phases.random(depth, random.Random(seed).randint(2, 4), seed, min_length=2)


def _matrices(block):
    return [parameter for parameter in block.parameters() if parameter.ndim == 2]


def _fresh(depth, seed):
    """Return a ViT with independent random blocks, whose updates are not small."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        sizes = {"image_size": SIDE, "patch_size": 4, "width": WIDTH, "heads": 4, "n_register": 1}
        model = ViT(ViTConfig(**sizes, depth=depth, n_classes=4))
    with torch.no_grad():
        model.patch_embed.proj.weight.mul_(10)
        for block in model.blocks:
            for parameter in _matrices(block):
                parameter.mul_(GAIN)
    return model


def tied(depth, phases, sigma, seed):
    """Return W_l = W_phase + sigma x noise, with noise of the size of the weights."""
    model, draw = _fresh(depth, seed), torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for span in phases.ranges:
            first = copy.deepcopy(model.blocks[span[0] - 1])
            for layer in span:
                block = copy.deepcopy(first)
                for parameter in _matrices(block):
                    parameter += sigma * parameter.std() * torch.randn(parameter.shape, generator=draw)
                model.blocks[layer - 1] = block
    return raptor.load_model(model)


def independent(depth, seed):
    """Return independent random weights at every layer."""
    return raptor.load_model(_fresh(depth, seed))


def interpolated(depth, seed):
    """Return weights that change smoothly along depth, from one random block to another, at constant size."""
    model = _fresh(depth, seed)
    ends = copy.deepcopy(model.blocks[0]), copy.deepcopy(model.blocks[-1])
    with torch.no_grad():
        for layer, block in enumerate(model.blocks):
            angle = torch.tensor(layer / (depth - 1)) * torch.pi / 2
            for parameter, one, other in zip(block.parameters(), *(end.parameters() for end in ends), strict=True):
                parameter.copy_(angle.cos() * one + angle.sin() * other if parameter.ndim == 2 else one)
    return raptor.load_model(model)


class RandomWalk(ToyFlow):
    """Every layer adds a random vector of its own to each token, the same for all images."""

    def __init__(self, depth, seed, width=WIDTH):
        super().__init__(depth, width, SMALL)
        draw = torch.Generator().manual_seed(seed)
        self.steps = torch.randn(depth, SMALL.n_tokens, width, generator=draw)

    def step(self, tokens, layer):
        return tokens + self.steps[layer].to(tokens)


KINDS = {"independent": independent, "interpolated": interpolated, "random walk": RandomWalk}


def verdict(flow, k="auto", seed=0, images=IMAGES):
    """Return phases by function, and whether layers of a phase are interchangeable."""
    options = raptor.PhasesOptions(k=k, by="function", function_images=images)
    found = raptor.find_phases(flow, noise_images(images, seed), options=options, progress=False)
    return found.phases, found.interchangeable


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--sigmas", default="0,0.1,0.2,0.3,0.5,0.7,1")
    given = parser.parse_args()
    for depth in (12, 24):
        for sigma in map(float, given.sigmas.split(",")):
            right = held = both = inconclusive = 0
            for seed in range(given.seeds):
                phases = random_phases(depth, seed)
                found, test = verdict(tied(depth, phases, sigma, 1000 + seed), seed=seed)
                right, held = right + (found == phases), held + (test.held is True)
                both, inconclusive = both + (found == phases and test.held is True), inconclusive + (test.held is None)
            row = {"depth": depth, "sigma": sigma, "seeds": given.seeds, "right cuts": right, "interchangeable": held}
            print(json.dumps({**row, "both": both, "inconclusive": inconclusive}), flush=True)
        for kind, make in KINDS.items():
            tests = [verdict(make(depth, 1000 + seed), seed=seed)[1] for seed in range(given.seeds)]
            held, inconclusive = (sum(one.held is wanted for one in tests) for wanted in (True, None))
            row = {"depth": depth, "kind": kind, "seeds": given.seeds, "interchangeable": held}
            print(json.dumps({**row, "inconclusive": inconclusive}), flush=True)

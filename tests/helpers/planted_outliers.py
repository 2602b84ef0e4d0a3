"""A toy flow with planted outliers, and which of its patches are ordinary, by the rule in plain Python."""

from __future__ import annotations

import torch

from raptor.core.toy import SMALL, ToyFlow

N, WIDTH, DEPTH, PLANTED_AT, PATCHES = 12, 12, 6, 3, 16
MIXED = WIDTH - 2  # features that move; the last two hold the number of the image and of the patch


class PlantedOutliers(ToyFlow):
    """Every layer turns all tokens; the step to layer 3 adds 500 to one feature of the planted patches.

    They shrink after it, so that layer 3 is the one at which they hold most. Tokens do not interact: without the
    planted patches, all others are the same.

    Parameters
    ----------
    planted
        Pairs of image and patch.
    seed
        Seed of the rotations; the embedding is always the same.
    """

    def __init__(self, planted, seed=0):
        super().__init__(DEPTH, WIDTH)
        generator = torch.Generator().manual_seed(seed)
        self.turns = torch.linalg.qr(torch.randn(DEPTH, MIXED, MIXED, generator=generator))[0]
        self.planted = torch.zeros(N, PATCHES + 1, dtype=torch.bool)
        for image, patch in planted:
            self.planted[image, patch] = True

    def embed(self, pixels):
        images = pixels[:, 0, 0, 0].long()
        states = torch.randn(N, SMALL.n_tokens, WIDTH, generator=torch.Generator().manual_seed(7))[images]
        numbers = torch.tensor([PATCHES] * SMALL.n_prefix + list(range(PATCHES)))
        states[..., -2], states[..., -1] = images[:, None] / 100, numbers / 100
        return states

    def step(self, tokens, layer):
        moved = tokens[..., :MIXED] @ self.turns[layer].to(tokens)
        image, patch = (100 * tokens[..., -2:]).round().long().unbind(dim=-1)
        # Perturbations change the numbers too.
        planted = self.planted[image.clamp(0, N - 1), patch.clamp(0, PATCHES)][..., None].to(tokens)
        if layer == PLANTED_AT - 1:
            moved = moved + 500 * planted * torch.eye(MIXED)[4].to(tokens)
        if layer >= PLANTED_AT:
            moved = moved * (1 - 0.1 * planted)
        return torch.cat([moved, tokens[..., MIXED:]], dim=-1)


def numbered(batch=5):
    """Return the images, whose pixels are their number."""
    numbers = torch.arange(N, dtype=torch.float32)
    return list(numbers[:, None, None, None].expand(-1, 3, 4, 4).split(batch))


def two_of_each():
    """Return two planted patches in each image, at positions that differ between images."""
    return [(image, patch) for image in range(N) for patch in {(5 * image) % PATCHES, (3 * image + 13) % PATCHES}]


def ordinary(planted, count=2):
    """Return, for each image, the patches at the places 0, 1, ... of the group `patch`."""
    rows = []
    for image in range(N):
        outliers = [patch for one, patch in planted if one == image]
        assert len(outliers) == count
        spare = [patch for patch in range(PATCHES - count, PATCHES) if patch not in outliers]
        rows.append([spare.pop(0) if place in outliers else place for place in range(PATCHES - count)])
        assert not spare
    return torch.tensor(rows)


def patches_of(states, rows):
    """Return the patches of each image that `rows` names, at all layers: (images, layers, rows, width)."""
    patches = states[:, :, SMALL.where("patch")]
    return torch.stack([one[:, row] for one, row in zip(patches, rows, strict=True)])

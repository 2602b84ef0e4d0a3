"""Rollout through the adapter against the model's own forward pass."""

from __future__ import annotations

import copy

import torch

from raptor import load_teacher, rollout
from raptor.benchmarks.ratio import Ratio, compare
from raptor.hub import import_transformers


def rollout_against_forward() -> Ratio:
    """DINOv2-S with registers at 224 pixels, random weights, four images; every layer's states are kept."""
    transformers = import_transformers()
    torch.manual_seed(0)
    config = transformers.Dinov2WithRegistersConfig(
        hidden_size=384, num_attention_heads=6, image_size=518, patch_size=14, num_register_tokens=4
    )
    # Asking a model for hidden states leaves hooks on it: the other side gets one that nobody asked.
    own = transformers.Dinov2WithRegistersModel(config).eval()
    teacher = load_teacher(copy.deepcopy(own), image_size=224)
    pixels = torch.randn(4, 3, 224, 224)

    def ours() -> object:
        with torch.no_grad():
            trajectory = rollout(teacher, teacher.embed(pixels))
            return teacher.readout(trajectory.at(teacher.depth))

    def theirs() -> object:
        with torch.no_grad():
            return own(pixels).last_hidden_state

    return compare("rollout of DINOv2-S against its own forward pass", ours, theirs, limit=1.05, rounds=31)

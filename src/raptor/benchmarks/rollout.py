"""Rollout through the adapter against the model's own forward pass."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from raptor.core.flow import rollout
from raptor.models.load import load_model
from raptor.models.teachers.teacher import Teacher
from raptor.runtime.optional_imports import import_transformers
from raptor.runtime.timing import Ratio, compare


def dinov2_small() -> tuple[nn.Module, Teacher, Tensor]:
    """Return a DINOv2-S with registers of random weights, a teacher made of a copy of it, and four images of 224."""
    transformers = import_transformers()
    torch.manual_seed(0)
    config = transformers.Dinov2WithRegistersConfig(
        hidden_size=384, num_attention_heads=6, image_size=518, patch_size=14, num_register_tokens=4
    )
    # Asking a model for hidden states leaves hooks on it: the other side gets one that nobody asked.
    own = transformers.Dinov2WithRegistersModel(config).eval()
    return own, load_model(copy.deepcopy(own), image_size=224), torch.randn(4, 3, 224, 224)


def rollout_against_forward() -> Ratio:
    """Every layer's states are kept, against the model's own forward pass that keeps the last."""
    own, teacher, pixels = dinov2_small()

    def ours() -> object:
        with torch.no_grad():
            trajectory = rollout(teacher, teacher.embed(pixels))
            return teacher.readout(trajectory.at(teacher.depth))

    def theirs() -> object:
        with torch.no_grad():
            return own(pixels).last_hidden_state

    return compare("rollout of DINOv2-S against its own forward pass", ours, theirs, limit=1.05, rounds=31)

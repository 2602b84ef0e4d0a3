"""A small saved ViT, and options that make a distillation of it short."""

from __future__ import annotations

import pytest
import torch

from raptor.core.preprocessing import Preprocessing
from raptor.models.checkpoints import save_vit
from raptor.models.vit import ViT, ViTConfig

SMALL = ViTConfig(depth=4, width=16, heads=2, n_register=1)
QUICK = ("--steps", 4, "--batch-size", 4, "--eval-images", 12, "--device", "cpu", "--quiet")


@pytest.fixture(scope="session")
def vit(tmp_path_factory):
    """A saved ViT with random weights, large enough ones that its layers do something."""
    torch.manual_seed(0)
    model = ViT(SMALL)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    folder = tmp_path_factory.mktemp("vit")
    save_vit(model, Preprocessing((64, 64), None), folder)
    return folder

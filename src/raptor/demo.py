"""The main job on the embedded default."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from raptor.commands.inspecting import look
from raptor.commands.training import training_preprocessing
from raptor.data import scene_atlas, scene_layout
from raptor.models.teachers import load_teacher
from raptor.models.vit import ViT, ViTConfig
from raptor.options import Common
from raptor.run import Run

IMAGES = 256


def run_demo(out: Path, common: Common) -> dict[str, Any]:
    """Inspect a small ViT of random weights, measure its norms on scenes, draw them."""
    with Run("demo", {"data": "scenes", "images": common.images or IMAGES}, out, common.seed) as run:
        torch.manual_seed(common.seed)
        teacher = load_teacher(ViT(ViTConfig(n_classes=len(scene_atlas.CLASSES))), device=common.device)
        teacher.name = "a small ViT of random weights"
        teacher.preprocessing = training_preprocessing("scenes", scene_layout.SIZE)
        return look(run, teacher, "scenes", progress=common.progress, images=common.images or IMAGES,
                    batch_size=common.batch_size)  # fmt: skip

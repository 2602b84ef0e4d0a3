"""What training our ViT on scenes costs beside the matrix products that it cannot do without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode

from raptor.core.preprocessing import Preprocessing
from raptor.data.scenes.images import SceneImages
from raptor.data.scenes.layout import SIZE
from raptor.models.vit import ViT, ViTConfig
from raptor.runtime.malloc import keep_freed_memory
from raptor.runtime.timing import Ratio, compare
from raptor.training.config import TrainConfig, build_optimizers

BATCH = 64


def _images() -> SceneImages:
    return SceneImages(Preprocessing((SIZE, SIZE), None), "train", 10_000, BATCH)


def _training_step() -> Callable[[], object]:
    """Return one whole step: forward, backward, clipping, optimisers; memory as the training loop keeps it."""
    keep_freed_memory()
    torch.manual_seed(0)
    model = ViT(ViTConfig()).train()
    optimizers = build_optimizers(model, TrainConfig(steps=1, muon_lr=5e-3))
    batch = _images().batch(np.arange(BATCH))
    assert batch.label is not None
    pixels, label = batch.pixels, batch.label

    def step() -> None:
        model.zero_grad()
        cross_entropy(model(pixels), label).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()

    return step


class _Products(TorchDispatchMode):
    """Collects the matrix products of whatever runs inside, with their own operands, to be run again alone."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Callable[[], object]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in ("mm", "addmm", "bmm", "convolution", "convolution_backward"):
            operands = [value.detach() if isinstance(value, Tensor) else value for value in args]
            self.calls.append(lambda: func(*operands))
        elif name.startswith("_scaled_dot_product") and "backward" not in name:
            q, k, v = (value.detach() for value in args[:3])
            scores = torch.empty(*q.shape[:3], k.shape[2])
            # Forward: scores and mixture. Backward: of the values, the scores, the queries and the keys.
            self.calls += [lambda: q @ k.mT, lambda: scores @ v, lambda: scores.mT @ q, lambda: q @ v.mT]
            self.calls += [lambda: scores @ k, lambda: scores.mT @ q]
        return func(*args, **(kwargs or {}))


def _products_alone() -> Callable[[], object]:
    """Return the matrix products of one step and nothing else, the optimiser's included."""
    step = _training_step()
    step()
    with _Products() as collected:
        step()
    calls = collected.calls

    def products_alone() -> None:
        with torch.no_grad():
            for call in calls:
                call()

    return products_alone


def generation_against_step() -> Ratio:
    """Rendering a batch of scenes against one training step on it."""
    images = _images()
    name = "rendering a batch of scenes against a training step"
    return compare(name, lambda: images.batch(np.arange(BATCH)), _training_step(), limit=0.05)


def step_against_products() -> Ratio:
    """A training step against its own matrix products."""
    return compare("a training step against its own matrix products", _training_step(), _products_alone(), limit=1.3)

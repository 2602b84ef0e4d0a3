"""Adapters for raptor's own models: the ViT, saved surrogates, and stitched models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from raptor.core.preprocessing import Size
from raptor.errors import ImageSizeError
from raptor.models.teachers.teacher import Adapter, Parts
from raptor.models.vit import ViT


def vit(model: nn.Module, image_size: Size | None) -> Parts:
    """Adapt raptor's ViT, which supports one image size."""
    assert isinstance(model, ViT)
    config = model.config
    size = (config.image_size, config.image_size)
    if image_size not in (None, size):
        raise ImageSizeError(f"image size {image_size} is not supported; this ViT needs images of {size[0]}x{size[1]}")
    return Parts(
        family="raptor-vit",
        embed=model.embed,
        blocks=model.blocks if config.tied is None else nn.ModuleList(model.blocks[at] for at in model.block_of),
        norm=model.norm,
        layout=model.layout,
        width=model.width,
        heads=config.heads,
        image_size=size,
        patch_size=(config.patch_size, config.patch_size),
        classify=model.classify,
    )


def surrogate(model: Any, image_size: Size | None) -> Parts:
    """Adapt a saved surrogate; the tied blocks are repeated to the depth of its teacher."""
    flow = model.surrogate
    teacher, raptor, phases = flow.teacher, flow.raptor, flow.phases
    if image_size not in (None, teacher.image_size):
        height, width = teacher.image_size
        raise ImageSizeError(
            f"image size {image_size} is not supported; this surrogate needs images of {height}x{width}"
        )

    return replace(
        teacher.parts,
        family=f"Raptor {phases} of {teacher.parts.family}",
        embed=flow.embed,
        blocks=nn.ModuleList(raptor.blocks[phases.block_of(layer)] for layer in range(1, phases.depth + 1)),
        call=raptor.apply_block,
        module=model,
    )


class StitchedModel(nn.Module):
    """A surrogate up to a layer, and its teacher from there on.

    Parameters
    ----------
    surrogate
        The surrogate, with its teacher.
    at
        Last layer that the surrogate computes.
    """

    def __init__(self, surrogate: Any, at: int):
        super().__init__()
        self.surrogate, self.at = surrogate, at
        self.register_buffer("stitched_at", torch.tensor(at))  # so that it is part of the fingerprint of the weights


def stitched(model: Any, image_size: Size | None) -> Parts:
    """Adapt a stitched model."""
    before, teacher, at = surrogate(model, image_size), model.surrogate.teacher, model.at

    def call(block: nn.Module, tokens: Tensor, layer: int) -> Tensor:
        return (before if layer < at else teacher.parts).call(block, tokens, layer)

    return replace(
        before,
        family=f"{before.family} up to layer {at}",
        blocks=nn.ModuleList([*list(before.blocks)[:at], *list(teacher.parts.blocks)[at:]]),
        call=call,
    )


ADAPTERS: dict[str, Adapter] = {
    "raptor.ViT": vit,
    "raptor.RaptorModel": surrogate,
    "raptor.StitchedModel": stitched,
}

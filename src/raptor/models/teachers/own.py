"""Our own ViT as a teacher."""

from __future__ import annotations

from torch import nn

from raptor.errors import ImageSizeError
from raptor.models.teachers.teacher import Adapter, Parts
from raptor.models.vit import ViT
from raptor.preprocessing import Size


def vit(model: nn.Module, image_size: Size | None) -> Parts:
    """Our ViT has learned positions for one grid alone."""
    assert isinstance(model, ViT)
    config = model.config
    size = (config.image_size, config.image_size)
    if image_size not in (None, size):
        raise ImageSizeError(f"this ViT was trained on images of {size[0]}x{size[1]} and takes no others")
    return Parts(
        family="raptor-vit",
        embed=model.embed,
        blocks=model.blocks,
        norm=model.norm,
        layout=model.layout,
        width=model.width,
        heads=config.heads,
        image_size=size,
        patch_size=(config.patch_size, config.patch_size),
        classify=lambda tokens: model.classifier(tokens[:, 0]),
    )


ADAPTERS: dict[str, Adapter] = {"raptor.ViT": vit}

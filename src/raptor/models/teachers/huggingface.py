"""Adapters for the ViTs of transformers.

There is one function per architecture and one row of `ADAPTERS` per class. An adapter calls the parts of the library's
model as its forward pass does; nothing is reimplemented.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from raptor.core.preprocessing import Size
from raptor.core.tokens import TokenLayout
from raptor.errors import ImageSizeError
from raptor.models.teachers.positions import cached, shared_bias
from raptor.models.teachers.teacher import Adapter, Parts, patch_grid


def as_size(value: int | list[int] | tuple[int, int]) -> Size:
    """Return (height, width) for a number or a pair in a configuration."""
    return (value, value) if isinstance(value, int) else (value[0], value[1])


def _parts(
    model: Any,
    image_size: Size | None,
    *,
    blocks: nn.ModuleList,
    embed: Callable[[Tensor], Tensor],
    norm: Callable[[Tensor], Tensor],
    n_cls: int = 1,
    n_register: int = 0,
    **rest: Any,
) -> Parts:
    """Fill in the parts that have the same name in every configuration."""
    config = model.config
    size = image_size or as_size(config.image_size)
    patch = as_size(config.patch_size)
    return Parts(
        family=config.model_type.removesuffix("_vision_model"),
        embed=embed,
        blocks=blocks,
        norm=norm,
        layout=TokenLayout(n_cls, n_register, patch_grid(size, patch)),
        width=config.hidden_size,
        heads=config.num_attention_heads,
        image_size=size,
        patch_size=patch,
        **rest,
    )


def _flagged(model: Any, image_size: Size | None) -> dict[str, bool]:
    """Return the flag that makes the library resize its position embedding, set only if necessary."""
    return {"interpolate_pos_encoding": image_size not in (None, as_size(model.config.image_size))}


def vit(model: Any, image_size: Size | None, **rest: Any) -> Parts:
    """Adapt ViT: a cls token, and learned positions that are resized with a flag."""
    flag = _flagged(model, image_size)
    return _parts(
        model,
        image_size,
        blocks=model.layers,
        embed=lambda pixels: model.embeddings(pixels, **flag),
        norm=model.layernorm,
        **rest,
    )


def ijepa(model: Any, image_size: Size | None) -> Parts:
    """Adapt I-JEPA: a ViT with only patch tokens."""
    return vit(model, image_size, n_cls=0)


def deit(model: Any, image_size: Size | None) -> Parts:
    """Adapt DeiT: a ViT with a distillation token after cls, which counts as a register."""
    return vit(model, image_size, n_register=1, notes=("the distillation token counts as a register",))


def dinov2(model: Any, image_size: Size | None) -> Parts:
    """Adapt DINOv2 with or without registers; positions are always resized."""
    return _parts(
        model,
        image_size,
        blocks=model.encoder.layer,
        embed=model.embeddings,
        norm=model.layernorm,
        n_register=getattr(model.config, "num_register_tokens", 0),
    )


def dinov3(model: Any, image_size: Size | None) -> Parts:
    """Adapt DINOv3: rotary positions in every block, which depend only on the image size."""
    size = image_size or as_size(model.config.image_size)
    positions = cached(
        lambda tokens: model.rope_embeddings(
            torch.empty(1, model.config.num_channels, *size, device=tokens.device, dtype=tokens.dtype)
        )
    )
    return _parts(
        model,
        image_size,
        blocks=model.model.layer,
        embed=model.embeddings,
        norm=model.norm,
        n_register=model.config.num_register_tokens,
        call=lambda block, tokens, layer: block(tokens, position_embeddings=positions(tokens)),
    )


def _masked_call(block: nn.Module, tokens: Tensor, layer: int) -> Tensor:
    """Call a block with its required attention mask argument, which is None."""
    return block(tokens, None)


def clip(model: Any, image_size: Size | None) -> Parts:
    """Adapt the vision tower of CLIP: a norm before the first block, and none on the tokens after the last."""
    flag = _flagged(model, image_size)
    return _parts(
        model,
        image_size,
        blocks=model.encoder.layers,
        embed=lambda pixels: model.pre_layrnorm(model.embeddings(pixels, **flag)),
        norm=nn.Identity(),
        call=_masked_call,
        notes=("the library norms only the pooled cls token, so readout is the identity",),
    )


def siglip(model: Any, image_size: Size | None) -> Parts:
    """Adapt the vision tower of SigLIP: only patch tokens."""
    flag = _flagged(model, image_size)
    return _parts(
        model,
        image_size,
        blocks=model.encoder.layers,
        embed=lambda pixels: model.embeddings(pixels, **flag),
        norm=model.post_layernorm,
        n_cls=0,
        call=_masked_call,
    )


def aimv2(model: Any, image_size: Size | None) -> Parts:
    """Adapt the vision tower of AIMv2: only patch tokens; only native checkpoints support other image sizes."""
    trained = as_size(model.config.image_size)
    if image_size not in (None, trained) and not model.config.is_native:
        raise ImageSizeError(
            f"image size {image_size} is not supported; this AIMv2 has positions only for {trained[0]}x{trained[1]}. "
            "Use that size, or a 'native' checkpoint"
        )
    return _parts(
        model,
        image_size,
        blocks=model.encoder.layers,
        embed=model.embeddings,
        norm=model.rms_norm,
        n_cls=0,
    )


def mae(model: Any, image_size: Size | None) -> Parts:
    """Adapt the encoder of MAE, with all patches in order; `noise` prevents its shuffling and masking."""
    flag = _flagged(model, image_size)

    def embed(pixels: Tensor) -> Tensor:
        rows, columns = patch_grid((pixels.shape[-2], pixels.shape[-1]), as_size(model.config.patch_size))
        order = torch.arange(rows * columns, device=pixels.device).expand(pixels.shape[0], -1)
        # The library reads the ratio only from the configuration, so change it during the call.
        ratio, model.config.mask_ratio = model.config.mask_ratio, 0.0
        try:
            return model.embeddings(pixels, noise=order, **flag)[0]
        finally:
            model.config.mask_ratio = ratio

    return _parts(
        model,
        image_size,
        blocks=model.layers,
        embed=embed,
        norm=model.layernorm,
        notes=("all patches are shown, in their order: nothing is masked",),
    )


def beit(model: Any, image_size: Size | None) -> Parts:
    """Adapt BEiT: relative positions per block or shared; no token norm with mean pooling."""
    size = image_size or as_size(model.config.image_size)
    shared = shared_bias(model.shared_position_bias, size, as_size(model.config.patch_size))
    return _parts(
        model,
        image_size,
        blocks=model.layers,
        embed=model.embeddings,
        norm=model.layernorm,
        call=lambda block, tokens, layer: block(
            tokens, attention_mask=shared(tokens), interpolate_pos_encoding=False, resolution=size
        ),
    )


def data2vec(model: Any, image_size: Size | None) -> Parts:
    """Adapt Data2Vec: the design of BEiT with other names; blocks return a tuple."""
    size = image_size or as_size(model.config.image_size)
    bias = getattr(model.encoder, "relative_position_bias", None)
    shared = shared_bias(bias, size, as_size(model.config.patch_size))
    return _parts(
        model,
        image_size,
        blocks=model.encoder.layer,
        embed=lambda pixels: model.embeddings(pixels)[0],
        norm=model.layernorm,
        call=lambda block, tokens, layer: block(
            tokens, relative_position_bias=shared(tokens), interpolate_pos_encoding=False, resolution=size
        )[0],
    )


ADAPTERS: dict[str, Adapter] = {
    "transformers.ViTModel": vit,
    "transformers.DeiTModel": deit,
    "transformers.Dinov2Model": dinov2,
    "transformers.Dinov2WithRegistersModel": dinov2,
    "transformers.DINOv3ViTModel": dinov3,
    "transformers.CLIPVisionModel": clip,
    "transformers.SiglipVisionModel": siglip,
    "transformers.BeitModel": beit,
    "transformers.Data2VecVisionModel": data2vec,
    "transformers.ViTMAEModel": mae,
    "transformers.IJepaModel": ijepa,
    "transformers.Aimv2VisionModel": aimv2,
}

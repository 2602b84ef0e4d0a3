"""Adapters: where the ViTs of `transformers` keep their parts.

One function for each way of keeping them, one row of `ADAPTERS` for each class. The model is the
library's own, called as its own forward pass calls it; nothing is re-implemented.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from raptor.errors import ImageSizeError
from raptor.models.teachers.teacher import Adapter, Parts, patch_grid
from raptor.preprocessing import Size
from raptor.tokens import TokenLayout


def as_size(value: int | list[int] | tuple[int, int]) -> Size:
    """Return (height, width) of a configuration's number or pair."""
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
    """Fill in what every configuration of the library names alike."""
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
    """Return the flag that makes the library resize its position embedding, only where it must."""
    return {"interpolate_pos_encoding": image_size not in (None, as_size(model.config.image_size))}


def vit(model: Any, image_size: Size | None, **rest: Any) -> Parts:
    """ViT: a cls token, learned positions that are resized when asked."""
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
    """I-JEPA: a ViT of patches only."""
    return vit(model, image_size, n_cls=0)


def deit(model: Any, image_size: Size | None) -> Parts:
    """DeiT: a ViT with a distillation token after cls, which counts as a register."""
    return vit(model, image_size, n_register=1, notes=("the distillation token counts as a register",))


def dinov2(model: Any, image_size: Size | None) -> Parts:
    """DINOv2 with or without registers; positions are resized without being asked."""
    return _parts(
        model,
        image_size,
        blocks=model.encoder.layer,
        embed=model.embeddings,
        norm=model.layernorm,
        n_register=getattr(model.config, "num_register_tokens", 0),
    )


def dinov3(model: Any, image_size: Size | None) -> Parts:
    """DINOv3: rotary positions in every block, a function of the image size alone."""
    size = image_size or as_size(model.config.image_size)
    positions = _kept(
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
    """Call a block whose attention mask must be given, though there is none."""
    return block(tokens, None)


def clip(model: Any, image_size: Size | None) -> Parts:
    """CLIP's vision tower: a norm before the first block, none on the tokens after the last."""
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
    """SigLIP's vision tower: patches only."""
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
    """AIMv2's vision tower: patches only; other sizes only with the native checkpoints' fixed positions."""
    trained = as_size(model.config.image_size)
    if image_size not in (None, trained) and not model.config.is_native:
        raise ImageSizeError(
            f"this AIMv2 has learned positions for {trained[0]}x{trained[1]} alone, so it cannot take "
            f"{image_size}; use that size or a 'native' checkpoint"
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
    """MAE's encoder on all patches in their order: without this noise it would shuffle them."""
    flag = _flagged(model, image_size)

    def embed(pixels: Tensor) -> Tensor:
        rows, columns = patch_grid((pixels.shape[-2], pixels.shape[-1]), as_size(model.config.patch_size))
        order = torch.arange(rows * columns, device=pixels.device).expand(len(pixels), -1)
        # The library reads the ratio from the configuration alone; it is put back before anybody can see it.
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
    """BEiT: relative positions in every block, of its own or shared; no token norm with mean pooling."""
    size = image_size or as_size(model.config.image_size)
    shared = _shared_bias(model.shared_position_bias, size, as_size(model.config.patch_size))
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
    """Data2Vec: BEiT's design with its parts in other places; blocks return a tuple."""
    size = image_size or as_size(model.config.image_size)
    bias = getattr(model.encoder, "relative_position_bias", None)
    shared = _shared_bias(bias, size, as_size(model.config.patch_size))
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


def _kept(build: Callable[[Tensor], Any], learned: nn.Module | None = None) -> Callable[[Tensor], Any]:
    """Keep what `build` gives for tokens of one device and dtype, until the weights that it is made of change."""
    kept: dict[str, Any] = {"key": None}

    def get(tokens: Tensor) -> Any:
        weights = [] if learned is None else list(learned.parameters())
        key = (tokens.device, tokens.dtype, *((weight.data_ptr(), weight._version) for weight in weights))
        if kept["key"] != key:
            # Ordinary tensors even inside inference mode: a later call may need gradients through the step.
            with torch.inference_mode(False), torch.no_grad():
                kept.update(key=key, value=build(tokens))
        return kept["value"]

    return get


def _shared_bias(bias: nn.Module | None, size: Size, patch: Size) -> Callable[[Tensor], Tensor | None]:
    """Return the relative position bias that all blocks share, or None where each has its own."""
    if bias is None:
        return lambda tokens: None
    grid = patch_grid(size, patch)
    return _kept(lambda tokens: bias(grid, dim_size=tokens.shape[1]), learned=bias)


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

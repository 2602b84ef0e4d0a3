"""timm's ViTs: where they keep their parts, and how one is loaded by name."""

from __future__ import annotations

import copy
import difflib
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor, nn

from raptor.errors import ImageSizeError, MissingDependencyError, ModelNotFoundError
from raptor.models.teachers.teacher import Adapter, Parts, patch_grid, plain_call
from raptor.models.weights import load_strictly, read_weights
from raptor.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing, Size
from raptor.tokens import TokenLayout

MISFIT = (
    "timm needs torchvision, and the one installed does not fit this torch; install the torchvision that belongs to it"
)
RESAMPLE = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3}


def _sized(model: Any, image_size: Size | None) -> Any:
    """Return the model for this image size: itself, or a copy with its positions resampled by timm."""
    if image_size in (None, tuple(model.patch_embed.img_size)):
        return model
    patch_grid(image_size, tuple(model.patch_embed.patch_size))
    if not hasattr(model, "set_input_size"):
        raise ImageSizeError(f"this timm model takes images of {model.patch_embed.img_size} only, not {image_size}")
    model = copy.deepcopy(model)
    model.set_input_size(img_size=image_size)
    return model.eval()


def _parts(model: Any, **rest: Any) -> Parts:
    """Fill in what timm's ViTs name alike."""
    n_cls = int(getattr(model, "cls_token", None) is not None)
    distilled = getattr(model, "dist_token", None) is not None
    return Parts(
        family=type(model).__name__,
        blocks=model.blocks,
        norm=model.norm,
        layout=TokenLayout(n_cls, model.num_prefix_tokens - n_cls, tuple(model.patch_embed.grid_size)),
        width=model.embed_dim,
        # Some blocks hold several attentions side by side; they have the same number of heads.
        heads=next(part.num_heads for part in model.blocks[0].modules() if hasattr(part, "num_heads")),
        image_size=tuple(model.patch_embed.img_size),
        patch_size=tuple(model.patch_embed.patch_size),
        classify=model.forward_head if model.num_classes > 0 else None,
        module=model,
        notes=("the distillation token counts as a register",) if distilled else (),
        **rest,
    )


def vision_transformer(model: Any, image_size: Size | None) -> Parts:
    """VisionTransformer, DeiT's distilled one included."""
    model = _sized(model, image_size)

    def embed(pixels: Tensor) -> Tensor:
        return model.norm_pre(model.patch_drop(model._pos_embed(model.patch_embed(pixels))))

    return _parts(model, embed=embed)


def eva(model: Any, image_size: Size | None) -> Parts:
    """Eva, which is also timm's DINOv3 and Perception Encoder: rotary positions, of all blocks or of each."""
    model = _sized(model, image_size)

    def embed(pixels: Tensor) -> Tensor:
        return model.norm_pre(model._pos_embed(model.patch_embed(pixels))[0])

    def rotary_call(block: nn.Module, tokens: Tensor, layer: int) -> Tensor:
        # The embedding of a fixed grid lies in a buffer; only models of any size make it anew.
        rope = model.rope.get_embed(**({"shape": model.patch_embed.grid_size} if model.dynamic_img_size else {}))
        return block(tokens, rope=rope[layer] if model.rope_mixed else rope)

    return _parts(model, embed=embed, call=plain_call if model.rope is None else rotary_call)


ADAPTERS: dict[str, Adapter] = {"timm.VisionTransformer": vision_transformer, "timm.Eva": eva}


def preprocessing_of(model: Any) -> Preprocessing:
    """Return what a timm model's own configuration says about its images."""
    config = getattr(model, "pretrained_cfg", None) or {}
    size = tuple(model.patch_embed.img_size)
    scale = config.get("crop_pct") or 0.875
    return Preprocessing(
        crop=size,
        resize=(math.floor(size[0] / scale), math.floor(size[1] / scale)),
        fit="squash" if config.get("crop_mode") == "squash" else "cover",
        resample=RESAMPLE.get(config.get("interpolation", "bicubic"), 3),
        mean=tuple(config.get("mean") or IMAGENET_MEAN),
        std=tuple(config.get("std") or IMAGENET_STD),
        rounding="nearest",
        source="the timm model's pretrained_cfg" if config else Preprocessing.source,
    )


def import_timm() -> ModuleType:
    """Import timm, or say how to install it."""
    if "torchvision" in sys.modules and sys.modules["torchvision"] is None:  # hidden by `import_transformers`
        raise MissingDependencyError(MISFIT)
    try:
        import timm
    except ImportError as error:
        raise MissingDependencyError(
            f"timm models need the package timm ({error}); install it with: pip install 'raptor-vit[timm]'"
        ) from error
    except (RuntimeError, AttributeError) as error:
        raise MissingDependencyError(MISFIT) from error
    return timm


def load(name: str, weights: Path | None) -> nn.Module:
    """Build a timm model by name, with its pretrained weights or those of a file."""
    timm = import_timm()
    known = timm.list_models(module=["vision_transformer", "deit", "eva"])
    if name.partition(".")[0] not in known:
        close = difflib.get_close_matches(name.partition(".")[0], known, n=3, cutoff=0.0)
        raise ModelNotFoundError(f"timm has no ViT named {name!r}; its names are such as {', '.join(close)}")
    if weights is not None:
        state = read_weights(weights)
        return load_strictly(timm.create_model(name.partition(".")[0]), state, weights)
    try:
        return timm.create_model(name, pretrained=True)
    except Exception as error:
        # timm and the hub raise many kinds here: no such weights, no network, a damaged cache.
        reason = str(error).strip().partition("\n")[0]
        raise ModelNotFoundError(
            f"the weights of timm:{name} could not be fetched ({reason}); without a network, "
            "give a local copy with weights=FILE (--weights FILE)"
        ) from error

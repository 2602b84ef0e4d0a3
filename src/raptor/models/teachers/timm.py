"""Adapters and a loader for timm's ViTs."""

from __future__ import annotations

import copy
import difflib
import math
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor, nn

from raptor.core.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing, Size
from raptor.core.tokens import TokenLayout
from raptor.errors import ImageSizeError, MissingDependencyError, ModelNotFoundError
from raptor.models.teachers.teacher import Adapter, Parts, patch_grid, plain_call
from raptor.models.weights import load_strictly, read_weights

BROKEN = (
    "timm needs torchvision, and the installed torchvision was built for another version of torch; install the "
    "torchvision that matches your torch"
)
RESAMPLE = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3}


def _sized(model: Any, image_size: Size | None) -> Any:
    """Return the model at this image size: itself, or a copy whose position embedding timm has resampled."""
    if image_size in (None, tuple(model.patch_embed.img_size)):
        return model
    patch_grid(image_size, tuple(model.patch_embed.patch_size))
    if not hasattr(model, "set_input_size"):
        raise ImageSizeError(f"this timm model supports only images of {model.patch_embed.img_size}, not {image_size}")
    model = copy.deepcopy(model)
    model.set_input_size(img_size=image_size)
    return model.eval()


def _parts(model: Any, **rest: Any) -> Parts:
    """Fill in the parts that have the same name in all of timm's ViTs."""
    n_cls = int(getattr(model, "cls_token", None) is not None)
    distilled = getattr(model, "dist_token", None) is not None
    return Parts(
        family=type(model).__name__,
        blocks=model.blocks,
        norm=model.norm,
        layout=TokenLayout(n_cls, model.num_prefix_tokens - n_cls, tuple(model.patch_embed.grid_size)),
        width=model.embed_dim,
        # A block may have several parallel attention modules; all have the same number of heads.
        heads=next(part.num_heads for part in model.blocks[0].modules() if hasattr(part, "num_heads")),
        image_size=tuple(model.patch_embed.img_size),
        patch_size=tuple(model.patch_embed.patch_size),
        classify=model.forward_head if model.num_classes > 0 else None,
        module=model,
        notes=("the distillation token counts as a register",) if distilled else (),
        **rest,
    )


def vision_transformer(model: Any, image_size: Size | None) -> Parts:
    """Adapt VisionTransformer, including the distilled DeiT."""
    model = _sized(model, image_size)

    def embed(pixels: Tensor) -> Tensor:
        return model.norm_pre(model.patch_drop(model._pos_embed(model.patch_embed(pixels))))

    return _parts(model, embed=embed)


def eva(model: Any, image_size: Size | None) -> Parts:
    """Adapt Eva, also used for DINOv3 and Perception Encoder; rotary positions are shared or per block."""
    model = _sized(model, image_size)

    def embed(pixels: Tensor) -> Tensor:
        return model.norm_pre(model._pos_embed(model.patch_embed(pixels))[0])

    def rotary_call(block: nn.Module, tokens: Tensor, layer: int) -> Tensor:
        # A model with a fixed grid stores this embedding in a buffer; a model with a dynamic size recomputes it.
        rope = model.rope.get_embed(**({"shape": model.patch_embed.grid_size} if model.dynamic_img_size else {}))
        return block(tokens, rope=rope[layer] if model.rope_mixed else rope)

    return _parts(model, embed=embed, call=plain_call if model.rope is None else rotary_call)


ADAPTERS: dict[str, Adapter] = {"timm.VisionTransformer": vision_transformer, "timm.Eva": eva}


def preprocessing_of(model: Any) -> Preprocessing:
    """Return the preprocessing that a timm model's configuration describes."""
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
    """Import timm; raise an error with installation instructions if it is missing."""
    try:
        import timm
    except ImportError as error:
        raise MissingDependencyError(
            f"timm models need the package timm ({error}); install it with: pip install 'raptor-vit[timm]'"
        ) from error
    except (RuntimeError, AttributeError) as error:
        raise MissingDependencyError(BROKEN) from error
    return timm


def load(name: str, weights: Path | None) -> nn.Module:
    """Create a timm model by name, with its pretrained weights or with those in a file."""
    timm = import_timm()
    known = timm.list_models(module=["vision_transformer", "deit", "eva"])
    if name.partition(".")[0] not in known:
        close = difflib.get_close_matches(name.partition(".")[0], known, n=3, cutoff=0.0)
        raise ModelNotFoundError(f"timm has no ViT named {name!r}; similar names: {', '.join(close)}")
    if weights is not None:
        state = read_weights(weights)
        return load_strictly(timm.create_model(name.partition(".")[0]), state, weights)
    try:
        return timm.create_model(name, pretrained=True)
    except Exception as error:
        # timm and the hub raise many classes here: missing weights, no network, a damaged cache.
        reason = str(error).strip().partition("\n")[0]
        raise ModelNotFoundError(
            f"the weights of timm:{name} could not be downloaded ({reason}); without a network, "
            "use a local file: weights=FILE (--weights FILE)"
        ) from error

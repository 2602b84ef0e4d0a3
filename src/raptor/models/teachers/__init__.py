"""Teachers: any ViT behind one call, `load_teacher`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import SupportsIndex

import torch
from torch import nn

from raptor.device import resolve_device
from raptor.errors import ImageSizeError, OptionError
from raptor.models.store import SURROGATE_TYPE, is_of_type, load_vit
from raptor.models.teachers.adapt import parts_of, register_adapter
from raptor.models.teachers.heads import read_linear, with_head
from raptor.models.teachers.own import StitchedModel
from raptor.models.teachers.teacher import Parts, Teacher, as_image_size
from raptor.preprocessing import Preprocessing

__all__ = ["Parts", "Teacher", "load_teacher", "register_adapter"]

Loaded = tuple[nn.Module, Preprocessing | None]

MODELS = Path(__file__).parents[1]
SHIPPED = MODELS / "scenes_vit"
# Surrogates of that ViT, by name.
SHIPPED_SURROGATES = {
    f"scenes:{folder.name.split('_')[-1]}": folder for folder in sorted(MODELS.glob("scenes_raptor_k*"))
}


def _from_timm(name: str, weights: Path | None, dtype: torch.dtype) -> Loaded:
    from raptor.models.teachers import timm

    model = timm.load(name, weights)
    return model, timm.preprocessing_of(model)


def _from_dinov2(name: str, weights: Path | None, dtype: torch.dtype) -> Loaded:
    from raptor.models.teachers import dinov2_official

    size = dinov2_official.EVALUATED_SIZE
    used = Preprocessing(crop=(size, size), resize=(256, 256), source="the released DINOv2 evaluation")
    return dinov2_official.load(name, weights), used


def _own(folder: Path, weights: Path | None) -> Loaded:
    """Load a ViT of ours; its weights lie beside its configuration."""
    if weights is not None:
        raise OptionError(f"{str(folder)!r} has its weights beside it and takes no others")
    return load_vit(folder)


def _from_hub(source: str, weights: Path | None, dtype: torch.dtype) -> Loaded:
    from raptor.models.teachers import hub, processors

    model = hub.load(source, weights, dtype)
    if model.config.model_type == SURROGATE_TYPE:
        return model, model.surrogate.teacher.preprocessing
    return model, processors.preprocessing_of(source, getattr(model.config, "vision_config", model.config))


def _stitched(name: str, weights: Path | None, dtype: torch.dtype) -> Loaded:
    """Load `SURROGATE@LAYER`: the surrogate up to that layer, its teacher after it."""
    from raptor.models.pretrained import RaptorModel, with_teacher

    folder, _, layer = name.rpartition("@")
    counted = layer.isascii() and layer.isdigit() and len(layer) < 5
    alone = load_teacher(folder, dtype=dtype) if folder and counted and not folder.startswith("stitch:") else None
    if alone is None or not isinstance(alone.module, RaptorModel) or int(layer) > alone.depth:
        raise OptionError(
            f"a stitched model is stitch:SURROGATE@LAYER, a directory that distill wrote and a layer from 0 to its "
            f"depth, not {name[:200]!r}"
        )
    teacher = load_teacher(alone.module.teacher_name, alone.image_size, weights, alone.linear, dtype=dtype)
    return StitchedModel(with_teacher(alone.module, teacher), int(layer)), teacher.preprocessing


# What stands before the colon of a source -> how it is loaded.
SOURCES: dict[str, Callable[[str, Path | None, torch.dtype], Loaded]] = {
    "timm": _from_timm,
    "dinov2": _from_dinov2,
    "stitch": _stitched,
}


def _load(source: str, weights: Path | None, dtype: torch.dtype) -> Loaded:
    scheme, colon, name = source.partition(":")
    if colon and scheme in SOURCES:
        return SOURCES[scheme](name, weights, dtype)
    if source == "scenes":
        return _own(SHIPPED, weights)
    source = str(SHIPPED_SURROGATES.get(source, source))
    # A run directory keeps its model in a folder of its own: config.json beside it is the run's.
    for folder in (Path(source) / "model", Path(source)):
        if is_of_type(folder):
            return _own(folder, weights)
        if is_of_type(folder, SURROGATE_TYPE):
            return _from_hub(str(folder), weights, dtype)
    return _from_hub(source, weights, dtype)


def _of_module(module: nn.Module) -> Preprocessing | None:
    """Return what a module in hand tells of its images; only timm's models tell anything."""
    if getattr(module, "pretrained_cfg", None):
        from raptor.models.teachers.timm import preprocessing_of

        return preprocessing_of(module)
    return None


def load_teacher(
    source: str | Path | nn.Module,
    image_size: SupportsIndex | Sequence[int] | None = None,
    weights: str | Path | None = None,
    head: nn.Linear | str | Path | None = None,
    device: str | torch.device | None = None,
    dtype: torch.dtype | None = None,
) -> Teacher:
    """Load a ViT as a depth flow.

    Parameters
    ----------
    source
        `scenes` (the ViT that ships), `scenes:k2`, `scenes:k3` (surrogates of it), a hub id, a directory that
        `save_pretrained` or `raptor train` wrote, `timm:NAME`, `dinov2:ARCH` (with `weights`), a directory that
        `raptor distill` wrote, `stitch:SURROGATE@LAYER` (the surrogate up to that layer, its teacher after it), or a
        module in hand. A module is put into evaluation mode and used as it is; only a timm model at another image size
        is copied, because its positions are resampled.
    image_size
        Pixels, one number or (height, width); by default what the model's own preprocessing crops to.
    weights
        File of a state dict (.safetensors or .pth of plain tensors) to use instead of the checkpoint's.
    head
        Linear classifier to use instead of the model's own: an `nn.Linear`, or a file with its weight and
        bias. It takes cls (or the mean patch where there is no cls), or concat(cls, mean patch).
    device
        `cpu`, `cuda`, `mps`, `auto`; by default `cpu`, or where the module is.
    dtype
        By default float32, or what the module has.

    Returns
    -------
    Teacher
        With `embed`, `step`, `readout`, `head`, `layout` and `preprocessing`.
    """
    size = as_image_size(image_size)
    if isinstance(source, nn.Module):
        if weights is not None:
            raise OptionError("a module in hand has its weights already: load them into it first")
        module, preprocessing, name = source, _of_module(source), type(source).__name__
    else:
        name = str(source)
        module, preprocessing = _load(name, Path(weights) if weights else None, dtype or torch.float32)
        module.requires_grad_(False)
        device = device or "cpu"
    module = module.to(device=None if device is None else resolve_device(device), dtype=dtype)
    linear = head if head is None or isinstance(head, nn.Linear) else read_linear(Path(head))
    wanted = size or (preprocessing.crop if preprocessing else None)
    try:
        return Teacher(
            module, lambda model: with_head(parts_of(model, wanted), linear), preprocessing or Preprocessing(), name
        )
    except ImageSizeError as error:
        if size is None and preprocessing is not None:
            raise ImageSizeError(f"{error} (the size is that of {preprocessing.source})") from error
        raise

"""Load any model with one call, `load_model`."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, SupportsIndex

import torch
from torch import nn

from raptor.core.phases import Phases
from raptor.core.preprocessing import Preprocessing, Size
from raptor.errors import ImageSizeError, OptionError
from raptor.models.checkpoints import SURROGATE_TYPE, is_of_type, load_vit
from raptor.models.teachers.check import check_parts
from raptor.models.teachers.heads import read_linear, with_head
from raptor.models.teachers.own import StitchedModel
from raptor.models.teachers.registry import is_built_in, parts_of
from raptor.models.teachers.teacher import Teacher, as_image_size
from raptor.models.teachers.user_code import call_function
from raptor.runtime.device import resolve_device
from raptor.runtime.random_state import preserve_random_state

Loaded = tuple[nn.Module, Preprocessing | None]

GIVEN = "load_model(preprocessing=...)"  # where a preprocessing comes from that the user passed
MODELS = Path(__file__).parent
SHIPPED = MODELS / "scenes_vit"
# Bundled surrogates of that ViT, by name.
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
    """Load a directory that `raptor train` wrote."""
    if weights is not None:
        raise OptionError(f"weights= (--weights) cannot be used with {str(folder)!r}: this model has its own weights")
    return load_vit(folder)


def _from_hub(source: str, weights: Path | None, dtype: torch.dtype, teacher: nn.Module | None = None) -> Loaded:
    from raptor.models.teachers import hub, processors

    model = hub.load(source, weights, dtype, teacher)
    if model.config.model_type == SURROGATE_TYPE:
        return model, model.surrogate.teacher.preprocessing
    return model, processors.preprocessing_of(source, getattr(model.config, "vision_config", model.config))


def _stitched(name: str, weights: Path | None, dtype: torch.dtype) -> Loaded:
    """Load `SURROGATE@LAYER`: the surrogate up to that layer, its teacher from there on."""
    from raptor.models.pretrained import RaptorModel, with_teacher

    folder, _, layer = name.rpartition("@")
    is_layer = layer.isascii() and layer.isdigit() and len(layer) < 5
    saved = load_model(folder, dtype=dtype) if folder and is_layer and not folder.startswith("stitch:") else None
    if saved is None or not isinstance(saved.module, RaptorModel) or int(layer) > saved.depth:
        raise OptionError(
            "a stitched model is stitch:SURROGATE@LAYER, with a directory that raptor distill wrote and a layer from "
            f"0 to the model's depth, not {name[:200]!r}"
        )
    teacher = load_model(saved.module.teacher_name, saved.image_size, weights, saved.linear, dtype=dtype)
    return StitchedModel(with_teacher(saved.module, teacher), int(layer)), teacher.preprocessing


def _half_steps(name: str, weights: Path | None, dtype: torch.dtype) -> Loaded:
    """Load `half:MODEL`: a model whose layers are attention and MLP half-steps."""
    from raptor.models.half_steps import HalfStepModel

    if not name or name.startswith("half:"):
        raise OptionError(f"half-steps are half:MODEL, with a model that is not cut already, not {name[:200]!r}")
    teacher = load_model(name, weights=weights, dtype=dtype)
    return HalfStepModel(teacher), teacher.preprocessing


def _elastic(name: str, weights: Path | None, dtype: torch.dtype) -> Loaded:
    """Load `elastic:SURROGATE@STEPS`: a surrogate that is run for another number of steps."""
    from raptor.models.elastic import ElasticModel
    from raptor.models.pretrained import RaptorModel

    folder, _, steps = name.rpartition("@")
    is_steps = re.fullmatch(r"\d{1,4}(-\d{1,4})*", steps, flags=re.ASCII) is not None
    saved = load_model(folder, dtype=dtype) if folder and is_steps else None
    if weights is not None or saved is None or not isinstance(saved.module, RaptorModel):
        raise OptionError(
            "a surrogate of elastic depth is elastic:SURROGATE@STEPS, with a directory that raptor distill wrote and a "
            f"number of steps (or those of each phase, such as 6-6-4), and has its own weights; not {name[:200]!r}"
        )
    chosen = Phases.parse(steps) if "-" in steps else int(steps)
    return ElasticModel(saved.module.surrogate, chosen), saved.preprocessing


def _from_python(name: str, weights: Path | None, dtype: torch.dtype) -> Loaded:
    if weights is not None:
        raise OptionError("weights= (--weights) cannot be used with python:...; load the weights in your function")
    return call_function(name)


# Loader for each prefix of a source, as in `timm:NAME`.
SOURCES: dict[str, Callable[[str, Path | None, torch.dtype], Loaded]] = {
    "timm": _from_timm,
    "dinov2": _from_dinov2,
    "stitch": _stitched,
    "half": _half_steps,
    "elastic": _elastic,
    "python": _from_python,
}


def _load(source: str, weights: Path | None, dtype: torch.dtype, teacher: nn.Module | None) -> Loaded:
    scheme, colon, name = source.partition(":")
    if colon and scheme in SOURCES:
        return SOURCES[scheme](name, weights, dtype)
    if source == "scenes":
        return _own(SHIPPED, weights)
    source = str(SHIPPED_SURROGATES.get(source, source))
    # The config.json of a run directory describes the run; its model is in the sub-folder `model`.
    for folder in (Path(source) / "model", Path(source)):
        if is_of_type(folder):
            return _own(folder, weights)
        if is_of_type(folder, SURROGATE_TYPE):
            return _from_hub(str(folder), weights, dtype, teacher)
    return _from_hub(source, weights, dtype, teacher)


def _of_module(module: nn.Module) -> Preprocessing | None:
    """Return the preprocessing that a module declares, or None; only timm's models declare one."""
    if getattr(module, "pretrained_cfg", None):
        from raptor.models.teachers.timm import preprocessing_of

        return preprocessing_of(module)
    return None


@preserve_random_state()
def load_model(
    source: str | Path | nn.Module,
    image_size: SupportsIndex | Sequence[int] | None = None,
    weights: str | Path | None = None,
    head: nn.Linear | str | Path | None = None,
    device: str | torch.device | None = None,
    dtype: torch.dtype | None = None,
    preprocessing: Preprocessing | None = None,
    teacher: str | nn.Module | None = None,
) -> Teacher:
    """Load a ViT, a surrogate or a stitched model as a depth flow.

    Parameters
    ----------
    source
        One of: `scenes` (the bundled ViT); `scenes:k2` or `scenes:k3` (bundled surrogates of it); a hub id; a
        directory written by `save_pretrained`, `raptor train` or `raptor distill`; `timm:NAME`; `dinov2:ARCH`, which
        needs `weights`; `stitch:SURROGATE@LAYER` (the surrogate up to that layer, its teacher from there on);
        `elastic:SURROGATE@STEPS` (the surrogate in another number of steps); `half:MODEL` (its half-steps);
        `python:package.module:function` (calls your function, which returns a module, a depth flow, or a pair of one
        of them and its preprocessing); or an `nn.Module`. A module is put into evaluation mode and used in place. Only
        a timm model at another image size is copied, because its position embedding is resampled.
    image_size
        Image size in pixels: one number, or (height, width). By default, the crop size of the model's preprocessing.
    weights
        File with a state dict (.safetensors, or .pth that holds only tensors), used in place of the checkpoint's
        weights.
    head
        Linear classifier to use in place of the model's own: an `nn.Linear`, or a file with its weight and bias. Its
        input is the cls token (the mean patch token if the model has no cls), or concat(cls, mean patch).
    device
        `cpu`, `cuda`, `mps` or `auto`. By default, `cpu`; a module stays where it is.
    dtype
        Data type of the weights. By default, float32; a module keeps its own.
    preprocessing
        Preprocessing of images. By default the model's own; for a module that declares none, a resize to 8/7 of the
        image size, a centre crop, and the mean and standard deviation of ImageNet.
    teacher
        Teacher of a surrogate that was distilled from a model of your own: a module, or `python:...`. Its code is
        needed to load the surrogate; its weights are not.

    Returns
    -------
    Teacher
        The model with `embed`, `step`, `readout`, `head`, `layout` and `preprocessing`.
    """
    if "transformers" in sys.modules:  # where it is not, whatever imports it through raptor registers surrogates
        from raptor.models.pretrained import register_auto_classes

        register_auto_classes()
    size = as_image_size(image_size)
    own_code = load_model(teacher) if isinstance(teacher, str) else teacher
    if isinstance(own_code, Teacher):
        own_code = own_code.module
    if isinstance(source, nn.Module):
        if weights is not None:
            raise OptionError("weights= cannot be used with a module; call module.load_state_dict(...) first")
        module, declared, name = source, _of_module(source), type(source).__name__
    else:
        name = str(source)
        module, declared = _load(name, Path(weights) if weights else None, dtype or torch.float32, own_code)
        module.requires_grad_(False)
        device = device or "cpu"
    if preprocessing is not None:
        preprocessing = replace(preprocessing, source=GIVEN)
    preprocessing = preprocessing or declared
    module = module.to(device=None if device is None else resolve_device(device), dtype=dtype)
    if isinstance(module, Teacher):
        return _as_loaded(module, name, size, head)
    linear = head if head is None or isinstance(head, nn.Linear) else read_linear(Path(head))
    wanted = size or (preprocessing.crop if preprocessing else None)
    try:
        loaded = Teacher(
            module, lambda model: with_head(parts_of(model, wanted), linear), preprocessing or Preprocessing(), name
        )
    except ImageSizeError as error:
        if size is None and preprocessing is not None:
            raise ImageSizeError(f"{error} (this size comes from {preprocessing.source})") from error
        raise
    if not is_built_in(module):
        check_parts(loaded)
    return loaded


def _as_loaded(teacher: Teacher, name: str, size: Size | None, head: object) -> Teacher:
    """Return a teacher that a user's function loaded."""
    if head is not None or size not in (None, teacher.image_size):
        raise OptionError(f"{name} loads its model by itself: pass image_size= and head= to load_model there")
    teacher.name = name
    return teacher


def load_teacher(source: str | Path | nn.Module, *args: Any, **kwargs: Any) -> Teacher:
    """Load a model: the old name of `load_model`, which gives a FutureWarning.

    Parameters
    ----------
    source
        As in `load_model`.
    *args, **kwargs
        Further arguments of `load_model`.
    """
    warnings.warn("raptor.load_teacher is deprecated: use raptor.load_model", FutureWarning, stacklevel=2)
    return load_model(source, *args, **kwargs)

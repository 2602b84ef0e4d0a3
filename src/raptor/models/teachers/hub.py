"""Models in the format of transformers, from a local directory or a hub id."""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

from raptor.errors import ModelNotFoundError, OptionError, RaptorError, UnsupportedModelError, WeightsError, one_line
from raptor.models.checkpoints import SURROGATE_TYPE
from raptor.models.teachers.classifiers import CLASSIFIERS
from raptor.models.teachers.registry import ADAPTERS, supported
from raptor.models.teachers.untrusted import check_config, check_shards
from raptor.models.weights import read_weights
from raptor.runtime.optional_imports import HUB_ID, import_transformers, reachable, silence

# Models of images and text; only the vision tower is used.
TWO_TOWERS = frozenset({"CLIPModel", "CLIPVisionModelWithProjection", "SiglipModel", "Aimv2Model"})
# Weights of the blocks of the ViT; those of text towers and decoders may be unused.
VIT_BLOCK = re.compile(r"^(?!.*(?:text|decoder)).*?\blayers?\.(\d+)\.")


def check_source(source: str) -> bool:
    """Return whether only local files can be used; raise a ModelNotFoundError if the source cannot be a model."""
    if os.path.isdir(source):
        if not os.path.isfile(os.path.join(source, "config.json")):
            raise ModelNotFoundError(
                f"the directory {source!r} does not contain a model: it has no readable config.json; "
                "save a model with model.save_pretrained(DIR)"
            )
        return True
    if os.path.exists(source) or not HUB_ID.fullmatch(source):
        raise ModelNotFoundError(
            f"{source[:200]!r} is neither a directory with a model nor a hub id; use a directory written by "
            "save_pretrained, a hub id such as facebook/dinov2-base, timm:NAME, dinov2:ARCH or scenes"
        )
    return not reachable()


def load(source: str, weights: Path | None, dtype: torch.dtype, teacher: nn.Module | None = None) -> Any:
    """Load a model.

    Parameters
    ----------
    source
        Directory or hub id.
    weights
        File with other weights than those of the checkpoint, or None.
    dtype
        Data type of the weights.
    teacher
        The module of a surrogate's teacher, if it is the user's own code.
    """
    from raptor.models.pretrained import load_surrogate  # registers surrogates with transformers

    local = check_source(source)
    config = _config(source, local)
    if weights is None:
        check_shards(source, local)
    if config.model_type == SURROGATE_TYPE:
        if weights is not None:
            raise OptionError(f"weights= (--weights) cannot be used with {source!r}: a surrogate has its own weights")
        return load_surrogate(source, dtype, local, teacher)
    kind = _model_class(config)
    state = None if weights is None else read_weights(weights)
    origin = str(weights or source)
    with silence(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Detected pickle protocol")  # unreadable files are an error below
        try:
            model, info = kind.from_pretrained(
                None if state is not None else source,
                config=config,
                state_dict=state,
                local_files_only=local,
                dtype=dtype,
                ignore_mismatched_sizes=True,
                output_loading_info=True,
            )
        except OSError as error:
            raise ModelNotFoundError(_not_loaded(source, local, error)) from error
        except Exception as error:
            # Invalid configurations and damaged weights raise almost any class.
            raise WeightsError(
                f"the model {source!r} cannot be built from its config.json and the weights in {origin!r}: "
                f"{one_line(error)}"
            ) from error
    _check_keys(model, info, origin)
    return model.vision_model if type(model).__name__ in TWO_TOWERS else model


def _config(source: str, local: bool) -> Any:
    """Read the configuration; code in a repository is never run."""
    transformers = import_transformers()
    try:
        with silence():
            check_config(transformers.PreTrainedConfig.get_config_dict(source, local_files_only=local)[0], source)
            return transformers.AutoConfig.from_pretrained(source, local_files_only=local, trust_remote_code=False)
    except RaptorError:
        raise
    except OSError as error:
        raise ModelNotFoundError(_not_loaded(source, local, error)) from error
    except Exception as error:
        raise UnsupportedModelError(
            f"the config.json of {source!r} does not describe a model that transformers can read ({one_line(error)}); "
            f"supported are {supported()}"
        ) from error


def _model_class(config: Any) -> Any:
    """Return the class to load: with a classifier if the checkpoint has one, else the bare ViT."""
    transformers = import_transformers()
    written = config.architectures
    named = str(written[0]) if isinstance(written, list) and written else ""
    if not _is_known(named):
        mapping = transformers.AutoModel._model_mapping
        named = mapping[type(config)].__name__ if type(config) in mapping else ""
    if not _is_known(named):
        raise UnsupportedModelError(
            f"models of type {config.model_type!r} have no adapter; supported are {supported()}. You can add an "
            "adapter with raptor.register_adapter: see docs/adapters.md"
        )
    return getattr(transformers, named)


def _is_known(name: str) -> bool:
    return name in CLASSIFIERS or name in TWO_TOWERS or f"transformers.{name}" in ADAPTERS


def _check_keys(model: Any, info: dict[str, Any], origin: str) -> None:
    """Raise a WeightsError if a weight of the model is missing, or if a layer in the file is unused."""
    foreign = f"the weights in {origin!r} do not match the model's config.json: "
    for key, theirs, ours in sorted(info["mismatched_keys"]):
        raise WeightsError(f"{foreign}{key!r} has shape {tuple(theirs)}, the model needs {tuple(ours)}")
    # The pooler of a bare model is not used; a classifier may use it.
    pooled = type(model).__name__ in CLASSIFIERS
    missing = sorted(key for key in info["missing_keys"] if pooled or "pooler." not in key)
    if missing:
        raise WeightsError(f"{foreign}{missing[0]!r} is missing")
    present = {match[1] for key in model.state_dict() if (match := VIT_BLOCK.match(key))}
    for key in sorted(info["unexpected_keys"]):
        if (match := VIT_BLOCK.match(key)) and match[1] not in present:
            raise WeightsError(f"{foreign}{key!r} is not in the model")


def _not_loaded(source: str, local: bool, error: Exception) -> str:
    if os.path.isdir(source):
        return f"the model in {source!r} cannot be loaded: {one_line(error)}"
    if local:
        return (
            f"the directory {source!r} does not exist, and a model with this hub id is not in the local cache; the hub "
            f"cannot be reached. On a machine with a network, run 'hf download {source} --local-dir DIR', copy DIR "
            "here and use its path"
        )
    return f"the directory {source!r} does not exist, and the hub has no model with this id: {one_line(error)}"

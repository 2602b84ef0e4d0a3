"""Models in the format of `transformers`: a local directory or a hub id."""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path
from typing import Any

import torch

from raptor.errors import ModelNotFoundError, OptionError, RaptorError, UnsupportedModelError, WeightsError, one_line
from raptor.hub import HUB_ID, import_transformers, reachable, silence
from raptor.models.store import SURROGATE_TYPE
from raptor.models.teachers.adapt import ADAPTERS, supported
from raptor.models.teachers.classifiers import CLASSIFIERS
from raptor.models.teachers.untrusted import check_config, check_shards
from raptor.models.weights import read_weights

# Image and text in one: only the vision tower is kept.
TWO_TOWERS = frozenset({"CLIPModel", "CLIPVisionModelWithProjection", "SiglipModel", "Aimv2Model"})
# A block of the ViT itself; text towers and decoders have blocks too, and may be left over.
VIT_BLOCK = re.compile(r"^(?!.*(?:text|decoder)).*?\blayers?\.(\d+)\.")


def check_source(source: str) -> bool:
    """Return whether the files must be local; raise where there is nothing to load."""
    if os.path.isdir(source):
        if not os.path.isfile(os.path.join(source, "config.json")):
            raise ModelNotFoundError(
                f"the directory {source!r} holds no model: it has no config.json that can be read; "
                "save one there with model.save_pretrained(DIR)"
            )
        return True
    if os.path.exists(source) or not HUB_ID.fullmatch(source):
        raise ModelNotFoundError(
            f"{source[:200]!r} is neither a directory with a model nor a hub id; give a directory that "
            "save_pretrained wrote, a hub id such as facebook/dinov2-base, timm:NAME, dinov2:ARCH or scenes"
        )
    return not reachable()


def load(source: str, weights: Path | None, dtype: torch.dtype) -> Any:
    """Load a model with its weights, from the checkpoint or from a file of their own."""
    from raptor.models.pretrained import load_surrogate  # makes transformers know surrogates

    local = check_source(source)
    config = _config(source, local)
    if weights is None:
        check_shards(source, local)
    if config.model_type == SURROGATE_TYPE:
        if weights is not None:
            raise OptionError(f"{source!r} has its weights beside it and takes no others")
        return load_surrogate(source, dtype, local)
    kind = _model_class(config)
    state = None if weights is None else read_weights(weights)
    origin = str(weights or source)
    with silence(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Detected pickle protocol")  # what cannot be read is an error below
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
            # Nonsense in the configuration and damaged weights come as almost any kind.
            raise WeightsError(
                f"the model of {source!r} cannot be built from its config.json and the weights of {origin!r}: "
                f"{one_line(error)}"
            ) from error
    _check_keys(model, info, origin)
    return model.vision_model if type(model).__name__ in TWO_TOWERS else model


def _config(source: str, local: bool) -> Any:
    """Read the configuration; code that a repository brings is never run."""
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
            f"the config.json of {source!r} describes no model that transformers can read ({one_line(error)}); "
            f"supported are {supported()}"
        ) from error


def _model_class(config: Any) -> Any:
    """Return the class to load: with its classifier where the checkpoint has one, else the bare ViT."""
    transformers = import_transformers()
    written = config.architectures
    named = str(written[0]) if isinstance(written, list) and written else ""
    if not _is_known(named):
        mapping = transformers.AutoModel._model_mapping
        named = mapping[type(config)].__name__ if type(config) in mapping else ""
    if not _is_known(named):
        raise UnsupportedModelError(
            f"no adapter knows models of type {config.model_type!r}; supported are {supported()}. "
            "raptor.register_adapter teaches it a new one in about 20 lines: see docs/adapters.md"
        )
    return getattr(transformers, named)


def _is_known(name: str) -> bool:
    return name in CLASSIFIERS or name in TWO_TOWERS or f"transformers.{name}" in ADAPTERS


def _check_keys(model: Any, info: dict[str, Any], origin: str) -> None:
    """Raise where a weight would silently be a random one, or a layer of the file left out."""
    foreign = f"the weights of {origin!r} are of another architecture than the model's config.json: "
    for key, theirs, ours in sorted(info["mismatched_keys"]):
        raise WeightsError(f"{foreign}{key!r} has shape {tuple(theirs)}, the model wants {tuple(ours)}")
    # A bare model's pooler is used by nobody here; a classifier may stand on its own.
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
            f"there is no directory {source!r}, and no model of that hub id is on this machine while the hub cannot "
            f"be reached; on a machine with a network run 'hf download {source} --local-dir DIR', copy DIR here and "
            "give its path instead"
        )
    return f"there is no directory {source!r}, and the hub has no model of that id: {one_line(error)}"

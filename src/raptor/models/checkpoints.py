"""Saving and loading of raptor's own ViT: a JSON configuration and safetensors, without code."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from raptor.core.preprocessing import Preprocessing
from raptor.errors import OptionError, PhaseError, WeightsError
from raptor.models.vit import ViT, ViTConfig
from raptor.models.weights import check_fit, load_strictly, read_weights
from raptor.runtime.files import explained, read_json, writing

MODEL_TYPE = "raptor-vit"
SURROGATE_TYPE = "raptor"


def save_vit(model: ViT, preprocessing: Preprocessing, folder: Path, dtype: torch.dtype = torch.float32) -> None:
    """Write `config.json` and `model.safetensors`.

    Parameters
    ----------
    model, preprocessing
        The model and its preprocessing.
    folder
        Folder to write to; created if it does not exist.
    dtype
        Data type of the stored weights.
    """
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
    config = {"model_type": MODEL_TYPE, **model.config.to_config(), "preprocessing": asdict(preprocessing)}
    with writing(folder / "config.json") as file:
        file.write(json.dumps(config, indent=2).encode() + b"\n")
    tensors = {name: value.to(dtype).contiguous() for name, value in model.state_dict().items()}
    with writing(folder / "model.safetensors") as file:
        file.write(save(tensors, metadata={"format": "pt"}))


def is_of_type(folder: Path, model_type: str = MODEL_TYPE) -> bool:
    """Return whether the config.json in a folder has this `model_type`."""
    path = folder / "config.json"
    try:
        config = read_json(path) if os.path.isfile(path) else None
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("model_type") == model_type


def load_vit(folder: Path) -> tuple[ViT, Preprocessing]:
    """Load a ViT and its preprocessing from a folder that `save_vit` wrote."""
    try:
        content: dict[str, Any] = read_json(folder / "config.json")
        known = {field.name for field in fields(ViTConfig)}
        config = ViTConfig(**{name: value for name, value in content.items() if name in known})
        preprocessing = Preprocessing.from_json(content["preprocessing"])
    except (ValueError, TypeError, KeyError, AttributeError, OptionError, PhaseError) as error:
        raise WeightsError(f"{str(folder / 'config.json')!r} does not describe a ViT of raptor: {error}") from error
    weights = folder / "model.safetensors"
    state = {name: value.float() for name, value in read_weights(weights).items()}
    with torch.device("meta"):
        check_fit(ViT(config), state, weights)  # before memory is allocated for the sizes in the configuration
    model = load_strictly(ViT(config), state, weights)
    assert isinstance(model, ViT)
    return model, preprocessing

"""Weights from files, without ever running code that a file brings."""

from __future__ import annotations

import hashlib
import os
import pickle
import warnings
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from raptor.errors import ModelNotFoundError, WeightsError, one_line

# What training scripts wrap their state dict in.
WRAPPERS = ("model", "state_dict", "teacher", "module")


def read_weights(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a .safetensors or .pth file; anything else in it is refused."""
    if not os.path.isfile(path):  # which a name that is too long is not either
        raise ModelNotFoundError(f"there is no weights file {str(path)!r}")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of pickle protocols: what cannot be read is an error below
            content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise WeightsError(
            f"{str(path)!r} holds code or objects beside plain tensors, or is damaged, and is not read; save a state "
            "dict as .safetensors, or with torch.save(model.state_dict(), ...)"
        ) from error
    except Exception as error:
        # The restricted unpickler raises almost anything on hostile or damaged bytes.
        raise WeightsError(
            f"{str(path)!r} is not a readable file of plain tensors ({one_line(error)}); "
            "save a state dict as .safetensors, or with torch.save(model.state_dict(), ...)"
        ) from error
    for name in WRAPPERS:
        if isinstance(content, dict) and isinstance(content.get(name), dict):
            content = content[name]
    named = isinstance(content, dict) and all(isinstance(name, str) for name in content)
    if not named or not all(isinstance(value, Tensor) and _is_plain(value) for value in content.values()):
        raise WeightsError(f"{str(path)!r} does not hold a state dict: names with tensors")
    return content


def _is_plain(value: Tensor) -> bool:
    """Whether a tensor is numbers that the file holds: one number may claim to be a tensor of any shape."""
    if value.is_meta or value.is_quantized or value.layout != torch.strided:
        return False
    return value.numel() * value.element_size() <= value.untyped_storage().nbytes()


def check_fit(model: nn.Module, state: dict[str, Tensor], source: Path) -> None:
    """Raise where a state dict does not fit a model exactly, with the first key that does not."""
    wanted = model.state_dict()
    for key, value in wanted.items():
        if key not in state:
            raise WeightsError(f"weights {str(source)!r} are of another architecture: {key!r} is missing")
        if state[key].shape != value.shape:
            raise WeightsError(
                f"weights {str(source)!r} are of another architecture: {key!r} has shape "
                f"{tuple(state[key].shape)}, the model wants {tuple(value.shape)}"
            )
    for key in state:
        if key not in wanted:
            raise WeightsError(f"weights {str(source)!r} are of another architecture: {key!r} is not in the model")


def load_strictly(model: nn.Module, state: dict[str, Tensor], source: Path) -> nn.Module:
    """Load a state dict that must fit exactly; otherwise name the first key that does not."""
    check_fit(model, state, source)
    model.load_state_dict(state)
    return model


def fingerprint(module: nn.Module) -> str:
    """Return the sha256 of all weights with their names, in single precision so that the stored one does not matter.

    A pooler is left out: a checkpoint may lack it, and it is then random at every load.
    """
    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        if "pooler." not in name:
            digest.update(f"{name} {tuple(value.shape)}\n".encode())
            digest.update(value.detach().cpu().float().contiguous().numpy().tobytes())
    return digest.hexdigest()

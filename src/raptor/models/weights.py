"""Reading of weight files without running code in them."""

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

# Keys under which training scripts store a state dict.
WRAPPERS = ("model", "state_dict", "teacher", "module")


def read_weights(path: Path) -> dict[str, Tensor]:
    """Return the tensors in a .safetensors or .pth file; raise a WeightsError if it has other objects."""
    if not os.path.isfile(path):  # also false for a name that is too long
        raise ModelNotFoundError(f"the weights file {str(path)!r} does not exist")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickle protocols; unreadable files are an error below
            content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise WeightsError(
            f"{str(path)!r} contains code or objects other than tensors, or is damaged; save a state dict as "
            ".safetensors, or with torch.save(model.state_dict(), ...)"
        ) from error
    except Exception as error:
        # The restricted unpickler raises almost any class for hostile or damaged bytes.
        raise WeightsError(
            f"{str(path)!r} cannot be read as a file of tensors ({one_line(error)}); "
            "save a state dict as .safetensors, or with torch.save(model.state_dict(), ...)"
        ) from error
    for name in WRAPPERS:
        if isinstance(content, dict) and isinstance(content.get(name), dict):
            content = content[name]
    named = isinstance(content, dict) and all(isinstance(name, str) for name in content)
    if not named or not all(isinstance(value, Tensor) and _is_plain(value) for value in content.values()):
        raise WeightsError(f"{str(path)!r} does not contain a state dict, a mapping of names to tensors")
    return content


def _is_plain(value: Tensor) -> bool:
    """Return whether all values of a tensor are in the file; a hostile file may claim a larger shape."""
    if value.is_meta or value.is_quantized or value.layout != torch.strided:
        return False
    return value.numel() * value.element_size() <= value.untyped_storage().nbytes()


def check_fit(model: nn.Module, state: dict[str, Tensor], source: Path) -> None:
    """Raise a WeightsError that names the first key of a state dict that does not match the model."""
    wanted = model.state_dict()
    for key, value in wanted.items():
        if key not in state:
            raise WeightsError(f"weights {str(source)!r} do not match the model: {key!r} is missing")
        if state[key].shape != value.shape:
            raise WeightsError(
                f"weights {str(source)!r} do not match the model: {key!r} has shape "
                f"{tuple(state[key].shape)}, the model needs {tuple(value.shape)}"
            )
    for key in state:
        if key not in wanted:
            raise WeightsError(f"weights {str(source)!r} do not match the model: {key!r} is not in the model")


def load_strictly(model: nn.Module, state: dict[str, Tensor], source: Path) -> nn.Module:
    """Load a state dict that must match the model exactly."""
    check_fit(model, state, source)
    model.load_state_dict(state)
    return model


def fingerprint(module: nn.Module) -> str:
    """Return the SHA-256 of all weights with their names, in single precision.

    A pooler is left out, because it is random if the checkpoint does not contain it.
    """
    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        if "pooler." not in name:
            digest.update(f"{name} {tuple(value.shape)}\n".encode())
            digest.update(value.detach().cpu().float().contiguous().numpy().tobytes())
    return digest.hexdigest()

"""Weights from files, without ever running code that a file brings."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from raptor.errors import ModelNotFoundError, WeightsError

# What training scripts wrap their state dict in.
WRAPPERS = ("model", "state_dict", "teacher", "module")


def read_weights(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a .safetensors or .pth file; anything else in it is refused."""
    if not path.is_file():
        raise ModelNotFoundError(f"there is no weights file {str(path)!r}")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of pickle protocols: what cannot be read is an error below
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        # The restricted unpickler raises almost anything on hostile or damaged bytes.
        reason = str(error).strip().partition("\n")[0]
        raise WeightsError(
            f"{str(path)!r} is not a readable file of plain tensors ({reason}); "
            "save a state dict as .safetensors, or with torch.save(model.state_dict(), ...)"
        ) from error
    for name in WRAPPERS:
        if isinstance(content, dict) and isinstance(content.get(name), dict):
            content = content[name]
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise WeightsError(f"{str(path)!r} does not hold a state dict: names with tensors")
    return content


def load_strictly(model: nn.Module, state: dict[str, Tensor], source: Path) -> nn.Module:
    """Load a state dict that must fit exactly; otherwise name the first key that does not."""
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
    model.load_state_dict(state)
    return model

"""Surrogates in the naming of the released training code."""

from __future__ import annotations

import re
from pathlib import Path

from torch import Tensor

from raptor.errors import WeightsError
from raptor.models.surrogate import Surrogate, build_surrogate
from raptor.models.teachers.teacher import Teacher
from raptor.models.weights import load_strictly, read_weights
from raptor.phases import Phases

# Released name of a part of a block -> ours; the others are called alike.
NAMES = {
    "attn.in_proj_weight": "attn.qkv.weight",
    "attn.in_proj_bias": "attn.qkv.bias",
    "attn.out_proj.weight": "attn.proj.weight",
    "attn.out_proj.bias": "attn.proj.bias",
}
PREFIX = re.compile(r"^(?:.*\.)?(blocks\.\d+)\.(.+)$")


def translate(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rename released weights; unknown names stay, for the strict loader to report."""
    renamed = {}
    for key, value in state.items():
        if match := PREFIX.match(key):
            block, part = match.groups()
            part = f"depth_scale.{part}" if part.startswith("t_proj.") else NAMES.get(part, part)
            key = f"{block}.{part}"
        renamed[key] = value
    return renamed


def load_released(source: str | Path | dict[str, Tensor], teacher: Teacher, phases: Phases) -> Surrogate:
    """Read a surrogate that the released code trained.

    Parameters
    ----------
    source
        File of a state dict (.safetensors, or .pth of plain tensors), or the state dict itself.
    teacher
        Its embedding and norm are not in the file.
    phases
        Not in the file either.
    """
    state = translate(source if isinstance(source, dict) else read_weights(Path(source)))
    hidden = state.get("blocks.0.mlp.2.weight")
    if hidden is None or hidden.ndim != 2:
        raise WeightsError(f"no Raptor in the released naming: {str(source)[:200]!r} has no blocks.0.mlp.2.weight")
    surrogate = build_surrogate(teacher, phases, "swiglu", mlp_ratio=hidden.shape[1] / teacher.width)
    load_strictly(surrogate.raptor, state, Path("state dict" if isinstance(source, dict) else source))
    return surrogate

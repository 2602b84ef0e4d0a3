"""Surrogates with the parameter names of the released training code."""

from __future__ import annotations

import re
from pathlib import Path

from torch import Tensor

from raptor.core.phases import Phases
from raptor.errors import WeightsError
from raptor.models.surrogate import Surrogate, build_surrogate
from raptor.models.teachers.teacher import Teacher
from raptor.models.weights import load_strictly, read_weights
from raptor.runtime.random_state import preserve_random_state

# Parameter names in the released code and ours, where they differ.
NAMES = {
    "attn.in_proj_weight": "attn.qkv.weight",
    "attn.in_proj_bias": "attn.qkv.bias",
    "attn.out_proj.weight": "attn.proj.weight",
    "attn.out_proj.bias": "attn.proj.bias",
}
PREFIX = re.compile(r"^(?:.*\.)?(blocks\.\d+)\.(.+)$")


def translate(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rename released weights; the strict loader reports unknown names."""
    renamed = {}
    for key, value in state.items():
        if match := PREFIX.match(key):
            block, part = match.groups()
            part = f"depth_scale.{part}" if part.startswith("t_proj.") else NAMES.get(part, part)
            key = f"{block}.{part}"
        renamed[key] = value
    return renamed


@preserve_random_state()
def load_released(source: str | Path | dict[str, Tensor], teacher: Teacher, phases: Phases) -> Surrogate:
    """Load a surrogate that was trained with the released code.

    Parameters
    ----------
    source
        File with a state dict (.safetensors, or .pth that holds only tensors), or the state dict itself.
    teacher
        The teacher, whose embedding and norm are not in the file.
    phases
        Phases of the surrogate, which are not in the file either.
    """
    state = translate(source if isinstance(source, dict) else read_weights(Path(source)))
    hidden = state.get("blocks.0.mlp.2.weight")
    if hidden is None or hidden.ndim != 2:
        raise WeightsError(
            f"{str(source)[:200]!r} is not a surrogate of the released code: it has no blocks.0.mlp.2.weight"
        )
    surrogate = build_surrogate(teacher, phases, "swiglu", mlp_ratio=hidden.shape[1] / teacher.width)
    load_strictly(surrogate.raptor, state, Path("state dict" if isinstance(source, dict) else source))
    return surrogate

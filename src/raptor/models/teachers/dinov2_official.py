"""The official DINOv2 state dicts, loaded into the models of transformers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from raptor.errors import ModelNotFoundError
from raptor.models.weights import load_strictly, read_weights
from raptor.runtime.optional_imports import import_transformers

TRAINED_SIZE = 518  # pixels; the position embeddings are for 37x37 patches of 14 pixels
EVALUATED_SIZE = 224  # pixels; crop size of the released evaluation


@dataclass(frozen=True)
class Architecture:
    """Sizes of one released DINOv2."""

    width: int
    depth: int
    heads: int
    swiglu: bool = False


ARCHITECTURES = {
    "vits14": Architecture(384, 12, 6),
    "vitb14": Architecture(768, 12, 12),
    "vitl14": Architecture(1024, 24, 16),
    "vitg14": Architecture(1536, 40, 24, swiglu=True),
}


def build(architecture: Architecture, n_register: int, image_size: int = TRAINED_SIZE) -> nn.Module:
    """Build a model with random weights.

    Parameters
    ----------
    architecture
        Sizes of the model.
    n_register
        Number of register tokens.
    image_size
        Pixels of the position embedding.
    """
    transformers = import_transformers()
    sizes: dict[str, int] = {
        "hidden_size": architecture.width,
        "num_hidden_layers": architecture.depth,
        "num_attention_heads": architecture.heads,
        "use_swiglu_ffn": architecture.swiglu,
        "image_size": image_size,
        "patch_size": 14,
    }
    if n_register:
        config = transformers.Dinov2WithRegistersConfig(num_register_tokens=n_register, **sizes)
        return transformers.Dinov2WithRegistersModel(config)
    return transformers.Dinov2Model(transformers.Dinov2Config(**sizes))


# Official parameter names and their names in transformers, which splits some into two or three.
OUTSIDE = {
    "cls_token": "embeddings.cls_token",
    "mask_token": "embeddings.mask_token",
    "pos_embed": "embeddings.position_embeddings",
    "register_tokens": "embeddings.register_tokens",
    "patch_embed.proj": "embeddings.patch_embeddings.projection",
    "norm": "layernorm",
}
INSIDE = {
    "norm1": ("norm1",),
    "attn.qkv": ("attention.q_proj", "attention.k_proj", "attention.v_proj"),
    "attn.proj": ("attention.o_proj",),
    "ls1.gamma": ("layer_scale1.lambda1",),
    "norm2": ("norm2",),
    "mlp.fc1": ("mlp.fc1",),
    "mlp.fc2": ("mlp.fc2",),
    "mlp.w12": ("mlp.gate_proj", "mlp.up_proj"),
    "mlp.w3": ("mlp.down_proj",),
    "ls2.gamma": ("layer_scale2.lambda1",),
}


def translate(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rename official weights to the names of transformers; the strict loader reports unknown names."""
    renamed: dict[str, Tensor] = {}
    for key, value in state.items():
        for name, part in _renamed(key):
            # A tensor that cannot be split stays whole, so that the strict loader reports its shape.
            cut = part is not None and value.ndim > 0 and len(value) % part[1] == 0
            renamed[name] = value.chunk(part[1])[part[0]] if part is not None and cut else value
    return renamed


def _renamed(key: str) -> list[tuple[str, tuple[int, int] | None]]:
    """Return the new names of one key, each with (index, count) of its chunk, or None for the whole tensor."""
    head, _, leaf = key.rpartition(".")
    if key in OUTSIDE:
        return [(OUTSIDE[key], None)]
    if head in OUTSIDE:
        return [(f"{OUTSIDE[head]}.{leaf}", None)]
    if key.startswith("blocks."):
        index, _, rest = key.removeprefix("blocks.").partition(".")
        part, ending = (rest, "") if rest in INSIDE else (rest.rpartition(".")[0], f".{leaf}")
        names = INSIDE.get(part, ())
        chunks = [None] if len(names) == 1 else [(i, len(names)) for i in range(len(names))]
        if names:
            return [(f"encoder.layer.{index}.{name}{ending}", chunk) for name, chunk in zip(names, chunks, strict=True)]
    return [(key, None)]


def load(name: str, weights: Path | None) -> nn.Module:
    """Load `vits14`, `vitb14_reg`, ... from an official weights file."""
    arch, _, registers = name.removeprefix("dinov2_").partition("_")
    if arch not in ARCHITECTURES or registers not in ("", "reg", "reg4"):
        known = ", ".join(f"{arch}, {arch}_reg" for arch in ARCHITECTURES)
        raise ModelNotFoundError(f"unknown DINOv2 model {name!r}; use {known}")
    if weights is None:
        raise ModelNotFoundError(f"dinov2:{name} needs the official weights file; use weights=FILE (--weights FILE)")
    model = build(ARCHITECTURES[arch], n_register=4 if registers else 0)
    return load_strictly(model, translate(read_weights(weights)), weights)

"""Tiny ViTs of every supported family, built from their configurations with random weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers as tf
from torch import Tensor, nn

SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
}
DINO = {**{k: v for k, v in SMALL.items() if k != "intermediate_size"}, "mlp_ratio": 2}


@dataclass(frozen=True)
class Family:
    """How to build one family, and how its own forward pass is called at another image size."""

    name: str
    build: Callable[[], nn.Module]
    prefix: dict[str, int]
    resized: dict[str, Any] | None = None  # None: this model takes one size alone
    call: dict[str, Any] | None = None

    def own_states(self, model: nn.Module, pixels: Tensor, resized: bool = False) -> Any:
        """Return the library's own output with all hidden states."""
        extra = dict(self.call or {})
        if self.name == "mae":
            n_patch = pixels.shape[-2] * pixels.shape[-1] // 64
            extra["noise"] = torch.arange(n_patch).expand(len(pixels), -1)
        if resized:
            extra.update(self.resized or {})
        return model(pixels, output_hidden_states=True, **extra)


FLAG = {"interpolate_pos_encoding": True}
CLS, REGISTERS = {"cls": 1}, {"cls": 1, "register": 4}


def _scrambled(model: nn.Module) -> nn.Module:
    """Give every parameter that starts constant (norms, scales, biases, position tables) random values.

    Fresh models hide mistakes: zero biases and zero position tables make a forgotten part invisible.
    """
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def _family(name: str, config: Any, model: Any, prefix: dict[str, int], **rest: Any) -> Family:
    def build() -> nn.Module:
        torch.manual_seed(0)
        return _scrambled(model(config()))

    return Family(name, build, prefix, **rest)


FAMILIES = [
    _family("vit", lambda: tf.ViTConfig(**SMALL), tf.ViTModel, CLS, resized=FLAG),
    _family("deit", lambda: tf.DeiTConfig(**SMALL), tf.DeiTModel, {"cls": 1, "register": 1}, resized=FLAG),
    _family("dinov2", lambda: tf.Dinov2Config(**DINO), tf.Dinov2Model, CLS, resized={}),
    _family("dinov2-swiglu", lambda: tf.Dinov2Config(**DINO, use_swiglu_ffn=True), tf.Dinov2Model, CLS, resized={}),
    _family(
        "dinov2-registers",
        lambda: tf.Dinov2WithRegistersConfig(**DINO, num_register_tokens=4),
        tf.Dinov2WithRegistersModel,
        REGISTERS,
        resized={},
    ),
    _family(
        "dinov3",
        lambda: tf.DINOv3ViTConfig(**SMALL, num_register_tokens=4),
        tf.DINOv3ViTModel,
        REGISTERS,
        resized={},
    ),
    _family(
        "dinov3-gated",
        lambda: tf.DINOv3ViTConfig(**SMALL, num_register_tokens=0, use_gated_mlp=True),
        tf.DINOv3ViTModel,
        CLS,
        resized={},
    ),
    _family("clip", lambda: tf.CLIPVisionConfig(**SMALL), tf.CLIPVisionModel, CLS, resized=FLAG),
    _family("siglip", lambda: tf.SiglipVisionConfig(**SMALL), tf.SiglipVisionModel, {}, resized=FLAG),
    _family("beit", lambda: tf.BeitConfig(**SMALL), tf.BeitModel, CLS, resized={}),
    _family(
        "beit-shared",
        lambda: tf.BeitConfig(
            **SMALL,
            use_shared_relative_position_bias=True,
            use_absolute_position_embeddings=True,
            use_mean_pooling=False,
        ),
        tf.BeitModel,
        CLS,
        resized={},
    ),
    _family(
        "beit-own",
        lambda: tf.BeitConfig(**SMALL, use_relative_position_bias=True),
        tf.BeitModel,
        CLS,
        resized={},
    ),
    _family(
        "data2vec",
        lambda: tf.Data2VecVisionConfig(**SMALL, use_mean_pooling=False),
        tf.Data2VecVisionModel,
        CLS,
        resized={},
    ),
    _family(
        "data2vec-shared",
        lambda: tf.Data2VecVisionConfig(**SMALL, use_shared_relative_position_bias=True),
        tf.Data2VecVisionModel,
        CLS,
        resized={},
    ),
    _family(
        "data2vec-own",
        lambda: tf.Data2VecVisionConfig(**SMALL, use_relative_position_bias=True),
        tf.Data2VecVisionModel,
        CLS,
        resized={},
    ),
    _family(
        "mae",
        lambda: tf.ViTMAEConfig(
            **SMALL,
            mask_ratio=0.0,
            decoder_hidden_size=32,
            decoder_num_attention_heads=4,
            decoder_num_hidden_layers=1,
        ),
        tf.ViTMAEModel,
        CLS,
        resized=FLAG,
    ),
    _family("ijepa", lambda: tf.IJepaConfig(**SMALL), tf.IJepaModel, {}, resized=FLAG),
    _family("aimv2", lambda: tf.Aimv2VisionConfig(**SMALL), tf.Aimv2VisionModel, {}),
    _family(
        "aimv2-native",
        lambda: tf.Aimv2VisionConfig(**SMALL, is_native=True),
        tf.Aimv2VisionModel,
        {},
        resized={},
    ),
]


def family(name: str) -> Family:
    """Return one family by name."""
    return next(family for family in FAMILIES if family.name == name)


def pixels(*size: int, batch: int = 2, seed: int = 0) -> Tensor:
    """Return random images."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, 3, *size, generator=generator)

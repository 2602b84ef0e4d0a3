"""A Raptor surrogate of a Vision Transformer. This file needs torch and transformers alone.

The model is the embedding of a teacher, k weight-tied blocks that are applied at every layer of their phase, and the
final norm of the teacher. `hidden_states` are those of layers 0..L, before the final norm. The method is that of
arXiv 2512.19941; the file is part of raptor-vit, which trains, loads and measures the same models.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, cast

import torch
import transformers
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

Call = Callable[[nn.Module, Tensor, Any], Tensor]

# Number of cls and register tokens of each supported class; a number in its configuration is added to the registers.
PREFIX = {
    "ViTModel": (1, 0), "DeiTModel": (1, 1), "Dinov2Model": (1, 0), "Dinov2WithRegistersModel": (1, 0),
    "DINOv3ViTModel": (1, 0), "CLIPVisionModel": (1, 0), "SiglipVisionModel": (0, 0), "BeitModel": (1, 0),
    "Data2VecVisionModel": (1, 0), "ViTMAEModel": (1, 0), "IJepaModel": (0, 0), "Aimv2VisionModel": (0, 0),
}  # fmt: skip
# What each classifier reads of the tokens after the final norm.
CLASSIFIERS = {
    "ViTForImageClassification": "cls", "DeiTForImageClassification": "cls",
    "DeiTForImageClassificationWithTeacher": "two heads", "Dinov2ForImageClassification": "cls and patches",
    "Dinov2WithRegistersForImageClassification": "cls and patches", "CLIPForImageClassification": "patches",
    "SiglipForImageClassification": "patches", "IJepaForImageClassification": "patches",
    "BeitForImageClassification": "pooler", "Data2VecVisionForImageClassification": "pooler",
}  # fmt: skip


class RaptorConfig(transformers.PreTrainedConfig):
    """The configuration of a surrogate: its phases, its blocks, and a description of its teacher."""

    model_type = "raptor"

    def __init__(
        self, phases: str = "", kind: str = "teacher", block: Any = None, teacher: Any = None,
        preprocessing: Any = None, provenance: Any = None, names: int = 2, **rest: Any,
    ):  # fmt: skip
        self.phases, self.kind, self.block, self.names = phases, kind, block or {}, names
        self.teacher, self.preprocessing, self.provenance = teacher or {}, preprocessing or {}, provenance or {}
        super().__init__(**rest)


class Parts:
    """The embedding, blocks and norm of a model of transformers, for one image size.

    `context(tokens)` is what every block needs besides tokens (rotary positions, a shared bias), and
    `call(block, tokens, context)` runs a block.
    """

    def __init__(self, module: Any, size: tuple[int, int]):
        model: Any = next(each for each in (module, *module.children()) if type(each).__name__ in PREFIX)
        kind, config = type(model).__name__, model.config
        native, patch = _pair(config.image_size), _pair(config.patch_size)
        flag = {} if kind.startswith(("Dino", "DINO", "Beit", "Data", "Aim")) else {
            "interpolate_pos_encoding": size != native
        }  # fmt: skip
        grid = (size[0] // patch[0], size[1] // patch[1])
        nested = next((model.get_submodule(n) for n in ("encoder", "model") if hasattr(model, n)), model)
        self.blocks: nn.ModuleList = nested.layers if hasattr(nested, "layers") else nested.layer
        norms = ("rms_norm", "layernorm", "post_layernorm", "norm")
        self.norm: nn.Module = next(
            (model.get_submodule(name) for name in norms if hasattr(model, name)), nn.Identity()
        )
        self.embed: Callable[[Tensor], Tensor] = lambda pixels: model.embeddings(pixels, **flag)
        self.context: Callable[[Tensor], Any] = lambda tokens: None
        self.call: Call = lambda block, tokens, context: block(tokens)
        if kind in ("CLIPVisionModel", "SiglipVisionModel"):
            self.call = lambda block, tokens, context: block(tokens, None)
        if kind == "CLIPVisionModel":
            self.embed, self.norm = lambda pixels: model.pre_layrnorm(model.embeddings(pixels, **flag)), nn.Identity()
        elif kind == "ViTMAEModel":
            config.mask_ratio = 0.0
            self.embed = lambda pixels: model.embeddings(
                pixels, noise=torch.arange(grid[0] * grid[1], device=pixels.device).expand(len(pixels), -1), **flag
            )[0]
        elif kind == "DINOv3ViTModel":
            self.context = lambda tokens: model.rope_embeddings(tokens.new_empty(1, config.num_channels, *size))
            self.call = lambda block, tokens, context: block(tokens, position_embeddings=context)
        elif kind in ("BeitModel", "Data2VecVisionModel"):
            beit = kind == "BeitModel"
            bias = model.shared_position_bias if beit else getattr(model.encoder, "relative_position_bias", None)
            self.context = lambda tokens: None if bias is None else bias(grid, dim_size=tokens.shape[1])
            name = "attention_mask" if beit else "relative_position_bias"
            rest = {"interpolate_pos_encoding": False, "resolution": size}
            if beit:
                self.call = lambda block, tokens, context: block(tokens, **{name: context}, **rest)
            else:
                self.embed = lambda pixels: model.embeddings(pixels)[0]
                self.call = lambda block, tokens, context: block(tokens, **{name: context}, **rest)[0]
        self.pooler: Any = getattr(model, "pooler", None)
        self.n_cls, registers = PREFIX[kind]
        self.n_register = registers + (getattr(config, "num_register_tokens", 0) or 0)


class DepthScale(nn.Module):
    """Three factors per feature that depend on the target layer: on attention, on the MLP and on the output."""

    def __init__(self, width: int):
        super().__init__()
        self.t_proj = nn.Sequential(nn.Linear(1, 16), nn.SiLU(), nn.Linear(16, 3 * width))

    def forward(self, target: int) -> tuple[Tensor, ...]:
        first, activation, last = cast(Any, self.t_proj)
        hidden = activation(first(last.weight.new_full((1, 1), float(target))))
        scales = (last.weight * hidden).sum(dim=-1)[None] + last.bias
        return (1 + scales)[:, None].chunk(3, dim=-1)


class Called(nn.Module):
    """A block of the teacher with the function that calls it."""

    def __init__(self, block: nn.Module, call: Call):
        super().__init__()
        self.block, self.call = block, call

    def forward(self, tokens: Tensor, context: Any) -> Tensor:
        return self.call(self.block, tokens, context)


class TeacherBlock(nn.Module):
    """A tied copy of a block of the teacher, with depth scaling."""

    def __init__(self, block: nn.Module, call: Call, width: int, depth_scale: bool = True):
        super().__init__()
        self.called = Called(block, call)
        self.depth_scale = DepthScale(width) if depth_scale else None
        linears = {n: m for n, m in block.named_modules() if isinstance(m, nn.Linear) and m.out_features == width}
        attention = [name for name, linear in linears.items() if linear.in_features == width]
        mlp = [name for name, linear in linears.items() if linear.in_features != width]
        self.projections = (attention[-1], mlp[-1]) if attention and mlp else ()

    def forward(self, tokens: Tensor, target: int, context: Any) -> Tensor:
        if self.depth_scale is None:
            return self.called(tokens, context)
        *branches, output = self.depth_scale(target)
        weights: dict[str, Tensor] = {}
        for name, factor in zip(self.projections, branches, strict=False):
            rows, linear = factor.flatten(), cast(nn.Linear, self.called.block.get_submodule(name))
            weights[f"block.{name}.weight"] = rows[:, None] * linear.weight
            if linear.bias is not None:
                weights[f"block.{name}.bias"] = rows * linear.bias
        return output * functional_call(self.called, weights, (tokens, context))


class Attention(nn.Module):
    """The two linear maps of multi-head self-attention."""

    def __init__(self, width: int):
        super().__init__()
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)


class LayerScale(nn.Module):
    """A learned factor per feature."""

    def __init__(self, width: int, init: float):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((width,), init))


class SwiGLUBlock(nn.Module):
    """The paper's block: pre-norm attention and a gated (`swiglu`) or plain (`gelu`) MLP, with depth scaling."""

    def __init__(
        self, width: int, heads: int, mlp_ratio: float = 4.0, layer_scale: float | None = 1e-5,
        depth_scale: bool = True, activation: str = "swiglu",
    ):  # fmt: skip
        super().__init__()
        hidden, self.heads, self.gated = int(mlp_ratio * width), heads, activation == "swiglu"
        # The order of the modules is part of the format: corrections of a relaxed block are numbered in it.
        self.norm1, self.attn = nn.LayerNorm(width), Attention(width)
        self.ls1 = None if layer_scale is None else LayerScale(width, layer_scale)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.ModuleDict({"0": nn.Linear(width, hidden * (1 + self.gated)), "2": nn.Linear(hidden, width)})
        self.ls2 = None if layer_scale is None else LayerScale(width, layer_scale)
        self.depth_scale = DepthScale(width) if depth_scale else None

    def forward(self, tokens: Tensor, target: int, context: Any) -> Tensor:
        batch, n, width = tokens.shape
        factors: list[Any] = [1.0 if ls is None else ls.gamma for ls in (self.ls1, self.ls2)] + [None]
        if self.depth_scale is not None:
            scales = [scale.flatten() for scale in self.depth_scale(target)]
            factors = [scales[0] * factors[0], scales[1] * factors[1], scales[2]]
        parts = self.attn.qkv(self.norm1(tokens)).view(batch, n, 3, self.heads, width // self.heads)
        mixed = F.scaled_dot_product_attention(*parts.permute(2, 0, 3, 1, 4).unbind(0)).transpose(1, 2).flatten(2)
        tokens = tokens + _scaled(self.attn.proj, mixed, factors[0])
        hidden = self.mlp["0"](self.norm2(tokens))
        if self.gated:
            gate, value = hidden.chunk(2, dim=-1)
            hidden = F.silu(gate) * value
        else:
            hidden = F.gelu(hidden)
        tokens = tokens + _scaled(cast(nn.Linear, self.mlp["2"]), hidden, factors[1])
        return tokens if factors[2] is None else factors[2] * tokens


class RelaxedBlock(nn.Module):
    """A tied block whose parameters have a correction for each layer of the phase."""

    def __init__(self, block: nn.Module, span: range, rank: int):
        super().__init__()
        self.block, self.first = block, span[0]
        shapes = {name: value for name, value in block.named_parameters() if "depth_scale." not in name}
        self.names = [name for name, value in shapes.items() if value.ndim == 2]
        self.vectors = [name for name in shapes if name not in self.names]
        self.corrections = nn.ModuleList(_correction(shapes[name], len(span), rank) for name in self.names)
        self.offsets = nn.ParameterList(torch.zeros(len(span), *shapes[name].shape) for name in self.vectors)

    def forward(self, tokens: Tensor, target: int, context: Any) -> Tensor:
        layer, weights = target - self.first, {}
        for name, each in zip(self.names, self.corrections, strict=True):
            low_rank = each.get_parameter("up")[layer] @ each.get_parameter("down")[layer]
            weights[name] = self.block.get_parameter(name) + low_rank
        for name, offset in zip(self.vectors, self.offsets, strict=True):
            weights[name] = self.block.get_parameter(name) + offset[layer]
        return functional_call(self.block, weights, (tokens, target, context))


class RaptorModel(transformers.PreTrainedModel):
    """A surrogate. `model(pixel_values, output_hidden_states=True).hidden_states` are the states of layers 0..L."""

    config_class = RaptorConfig
    base_model_prefix = "raptor"
    main_input_name = "pixel_values"
    _supports_sdpa = True

    def __init__(self, config: RaptorConfig):
        super().__init__(config)
        described, block = config.teacher, dict(config.block)
        if described.get("library") != "transformers" or described["class"] not in {*PREFIX, *CLASSIFIERS}:
            raise ValueError("this surrogate needs raptor: pip install raptor-vit, then raptor.load_model(DIRECTORY)")
        lengths = [int(length) for length in config.phases.split("-")]
        self.ends = [sum(lengths[: number + 1]) for number in range(len(lengths))]
        self.size: tuple[int, int] = tuple(described["image_size"])
        kind = getattr(transformers, described["class"])
        with torch.device("cpu"):  # `from_pretrained` builds on the meta device, which leaves other tensors unset
            module = kind(kind.config_class.from_dict(described["config"]))
            parts = Parts(module, self.size)
            self.untied, rank = block.pop("untied", False), block.pop("relax_rank", 0)
            blocks = nn.ModuleList()
            for end, length in zip(self.ends, lengths, strict=True):
                middle = end - length + (length - 1) // 2
                made: nn.Module
                if config.kind == "teacher":
                    own = copy.deepcopy(parts.blocks[middle])
                    made = TeacherBlock(own, parts.call, config.hidden_size, **block)
                else:
                    made = SwiGLUBlock(config.hidden_size, config.num_attention_heads, activation=config.kind, **block)
                blocks.append(RelaxedBlock(made, range(end - length + 1, end + 1), rank) if rank else made)
            linear = None if described["linear"] is None else nn.Linear(*described["linear"])
        del parts.blocks[:]
        self.surrogate: Any = nn.ModuleDict({
            "teacher": nn.ModuleDict({"module": module, **({} if linear is None else {"linear": linear})}),
            "raptor": nn.ModuleDict({"blocks": blocks}),
        })  # fmt: skip
        for each in self.modules():
            each._non_persistent_buffers_set.clear()  # all buffers are in the file
        self.eval()
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Keep the weights from construction."""

    def forward(
        self, pixel_values: Tensor, output_hidden_states: bool | None = None, return_dict: bool | None = None
    ) -> Any:
        wanted = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        parts = Parts(self.surrogate["teacher"]["module"], self.size)
        tokens = parts.embed(pixel_values.to(next(self.parameters()))).contiguous()
        context, states, blocks = parts.context(tokens), [tokens], self.surrogate["raptor"]["blocks"]
        for target in range(1, self.ends[-1] + 1):
            if not self.untied or target in self.ends:
                number = next(i for i, end in enumerate(self.ends) if target <= end)
                tokens = blocks[number](tokens, target, context)
            states.append(tokens)
        output = transformers.modeling_outputs.BaseModelOutput(
            last_hidden_state=parts.norm(tokens), hidden_states=tuple(states) if wanted else None
        )
        return output if return_dict is not False else output.to_tuple()

    def classify(self, tokens: Tensor) -> Tensor:
        """Return the logits of the teacher's classifier for `last_hidden_state`."""
        module = self.surrogate["teacher"]["module"]
        parts = Parts(module, self.size)
        reads = CLASSIFIERS.get(type(module).__name__)
        if "linear" in self.surrogate["teacher"]:
            linear = self.surrogate["teacher"]["linear"]
            wide = linear.in_features == 2 * tokens.shape[-1]
            reads = "cls and patches" if wide else "cls" if parts.n_cls else "patches"
        elif reads is None:
            raise ValueError("this surrogate has no classifier")
        elif reads == "two heads":
            return (module.cls_classifier(tokens[:, 0]) + module.distillation_classifier(tokens[:, 1])) / 2
        else:
            linear = module.classifier
        if reads == "pooler":
            return linear(parts.pooler(tokens))
        pooled = {"cls": tokens[:, 0], "patches": tokens[:, parts.n_cls + parts.n_register :].mean(dim=1)}
        return linear(torch.cat([pooled[name] for name in reads.split(" and ")], dim=1))


def _scaled(linear: nn.Linear, tokens: Tensor, factor: Any) -> Tensor:
    rows = factor[:, None] if isinstance(factor, Tensor) else factor
    return F.linear(tokens, rows * linear.weight, factor * linear.bias)


def _correction(weight: Tensor, n_layers: int, rank: int) -> nn.Module:
    rank = min(rank, *weight.shape)
    each = nn.ParameterDict({"down": torch.zeros(n_layers, rank, weight.shape[1])})
    each["up"] = torch.zeros(n_layers, weight.shape[0], rank)
    return each


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])

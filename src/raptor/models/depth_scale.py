"""Depth scaling: factors on the outputs of a tied block that depend on the target layer."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

# Target layer, 1..L: one for all samples, or one per sample.
Target = Float[Tensor, " targets"]

HIDDEN = 16  # hidden width of the MLP, as in the released code
DEPTH_STD = 1e-4  # initial standard deviation of its last layer, as in the released code


class DepthScale(nn.Module):
    """Three factors per feature that depend on the target layer: on attention, on the MLP, and on the whole output.

    The factors are 1 + MLP(layer), with an MLP 1 -> 16 -> 3d.

    Parameters
    ----------
    width
        Features per token, d.
    std
        Initial standard deviation of the last layer; with 0 all factors start at exactly 1.
    """

    def __init__(self, width: int, std: float = DEPTH_STD):
        super().__init__()
        self.t_proj = nn.Sequential(nn.Linear(1, HIDDEN), nn.SiLU(), nn.Linear(HIDDEN, 3 * width))
        last = self.t_proj[2]
        assert isinstance(last, nn.Linear)
        nn.init.normal_(last.weight, std=std)
        nn.init.normal_(last.bias, std=std)

    def forward(self, target: Target) -> tuple[Tensor, Tensor, Tensor]:
        """Return three tensors of factors, (targets, 1, width) each."""
        first, activation, last = self.t_proj
        hidden = activation(first(target[:, None]))
        # A matrix-vector product may round differently depending on memory alignment; an explicit sum does not.
        scales = last(hidden) if target.shape[0] > 1 else (last.weight * hidden).sum(dim=-1)[None] + last.bias
        attention, mlp, output = (1 + scales)[:, None].chunk(3, dim=-1)
        return attention, mlp, output


def scaled(linear: nn.Module, x: Tensor, scale: Float[Tensor, "targets 1 width"]) -> Tensor:
    """Return linear(x) * scale; a scale that all samples share is multiplied into the weights, which is cheaper."""
    if isinstance(linear, nn.Linear) and scale.shape[0] == 1:
        factor = scale.flatten()
        bias = None if linear.bias is None else factor * linear.bias
        return F.linear(x, factor[:, None] * linear.weight, bias)
    return linear(x) * scale


class Scaled(nn.Module):
    """A linear map whose output is multiplied by `scale`, a buffer that `functional_call` replaces."""

    scale: Tensor

    def __init__(self, linear: nn.Module):
        super().__init__()
        self.linear = linear
        self.register_buffer("scale", torch.ones(1, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scaled output."""
        return scaled(self.linear, x, self.scale)

"""How a tied block is told which layer it makes: factors on what it writes, functions of the layer's number."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

# The layer that is to be made, 1..L: one for all samples, or one each.
Target = Float[Tensor, " targets"]

HIDDEN = 16  # width of the map from a layer's number to its scales, as released
DEPTH_STD = 1e-4  # of its last layer, as released


class DepthScale(nn.Module):
    """Three factors a feature, functions of the target layer: on attention, on the MLP, on the whole output.

    An MLP 1 -> 16 -> 3d of the layer's number, plus one.

    Parameters
    ----------
    width
        Features of a token, d.
    std
        Of the last layer's start; 0 starts at exactly one.
    """

    def __init__(self, width: int, std: float = DEPTH_STD):
        super().__init__()
        self.t_proj = nn.Sequential(nn.Linear(1, HIDDEN), nn.SiLU(), nn.Linear(HIDDEN, 3 * width))
        last = self.t_proj[2]
        assert isinstance(last, nn.Linear)
        nn.init.normal_(last.weight, std=std)
        nn.init.normal_(last.bias, std=std)

    def forward(self, target: Target) -> tuple[Tensor, Tensor, Tensor]:
        """Return the three factors, (targets, 1, width) each."""
        first, activation, last = self.t_proj
        hidden = activation(first(target[:, None]))
        # A product of a matrix with one vector rounds by where its weights lie in memory; a sum does not.
        scales = last(hidden) if target.shape[0] > 1 else (last.weight * hidden).sum(dim=-1)[None] + last.bias
        attention, mlp, output = (1 + scales)[:, None].chunk(3, dim=-1)
        return attention, mlp, output


def scaled(linear: nn.Module, x: Tensor, scale: Float[Tensor, "targets 1 width"]) -> Tensor:
    """Return linear(x) * scale; where all samples share the scale it goes into the weights, which are far fewer."""
    if isinstance(linear, nn.Linear) and scale.shape[0] == 1:
        factor = scale.flatten()
        bias = None if linear.bias is None else factor * linear.bias
        return F.linear(x, factor[:, None] * linear.weight, bias)
    return linear(x) * scale


class Scaled(nn.Module):
    """A linear map whose output is multiplied by `scale`, a buffer that a call may replace."""

    scale: Tensor

    def __init__(self, linear: nn.Module):
        super().__init__()
        self.linear = linear
        self.register_buffer("scale", torch.ones(1, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Scale the features of the output."""
        return scaled(self.linear, x, self.scale)

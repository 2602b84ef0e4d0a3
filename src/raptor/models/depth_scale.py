"""Depth scaling: factors on the outputs of a tied block that depend on the target layer."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

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

    def forward(self, target: float) -> tuple[Tensor, Tensor, Tensor]:
        """Return three tensors of factors, (1, 1, width) each, for a target layer, 1..L, or one in between."""
        first, activation, last = self.t_proj
        hidden = activation(first(next(self.parameters()).new_full((1, 1), float(target))))
        # A matrix-vector product may round differently depending on memory alignment; an explicit sum does not.
        scales = (last.weight * hidden).sum(dim=-1)[None] + last.bias
        attention, mlp, output = (1 + scales)[:, None].chunk(3, dim=-1)
        return attention, mlp, output


def scaled_weights(
    weight: Float[Tensor, "width inputs"], bias: Float[Tensor, " width"] | None, factor: Float[Tensor, "1 1 #width"]
) -> tuple[Tensor, Tensor | None]:
    """Return the weight and bias of a linear map whose output is multiplied by `factor`.

    The factor is the same for all tokens, so scaling the weights is cheaper than scaling the output.
    """
    rows = factor.flatten()
    return rows[:, None] * weight, None if bias is None else rows * bias

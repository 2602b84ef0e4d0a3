"""Depth flows that are not ViTs of a library, such as toy flows, as models."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from raptor.core.flow import DepthFlow
from raptor.core.preprocessing import Size
from raptor.errors import ImageSizeError
from raptor.models.teachers.teacher import Adapter, Parts


class _Step(nn.Module):
    """One step of a flow, as a block."""

    def __init__(self, flow: DepthFlow, layer: int):
        super().__init__()
        self.flow, self.layer = flow, layer

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the states at the next layer."""
        return self.flow.step(tokens, self.layer)


class FlowModel(nn.Module):
    """A depth flow as a module.

    Parameters
    ----------
    flow
        The flow. Its images are as large as its preprocessing says, or 224 x 224.
    """

    def __init__(self, flow: DepthFlow):
        super().__init__()
        self.flow = flow
        # Device and precision of a flow without parameters.
        self.anchor = nn.Parameter(torch.zeros(()), requires_grad=False)
        self.steps = nn.ModuleList(_Step(flow, layer) for layer in range(flow.depth))


def flow_parts(model: nn.Module, image_size: Size | None) -> Parts:
    """Adapt a flow; the side of a patch follows from the image size and the grid."""
    assert isinstance(model, FlowModel)
    flow, size = model.flow, image_size or (224, 224)
    grid = flow.layout.grid
    if any(pixels % patches for pixels, patches in zip(size, grid, strict=True)):
        raise ImageSizeError(f"images of {size[0]}x{size[1]} cannot be cut into {grid[0]}x{grid[1]} patches")
    return Parts(
        family=type(flow).__name__,
        embed=flow.embed,
        blocks=model.steps,
        norm=flow.readout,
        layout=flow.layout,
        width=flow.width,
        heads=1,
        image_size=size,
        patch_size=(size[0] // grid[0], size[1] // grid[1]),
        head=flow.head,
    )


ADAPTERS: dict[str, Adapter] = {"raptor.FlowModel": flow_parts}

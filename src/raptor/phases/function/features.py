"""What the output of a block is linear in: the inputs of the linear maps that end its branches.

A block writes to the residual stream through two linear maps, one after attention and one after the MLP. Their inputs
are captured while the block runs, so that the best weights of both maps follow from least squares.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from raptor.core.flow import DepthFlow
from raptor.models.raptor import find_output_projections
from raptor.models.teachers.teacher import Teacher


def output_projections(flow: DepthFlow, layer: int) -> list[nn.Linear]:
    """Return the linear maps that end the branches of a teacher's block; none for other flows.

    Parameters
    ----------
    flow
        Any depth flow.
    layer
        Index of the block, 0..L-1.
    """
    if not isinstance(flow, Teacher):
        return []
    block = flow.parts.blocks[layer]
    names = flow.parts.output_projections
    modules = [block.get_submodule(name) for name in names or find_output_projections(block, flow.width)]
    return [module for module in modules if isinstance(module, nn.Linear)]


@contextmanager
def captured_inputs(modules: Sequence[nn.Module]) -> Iterator[dict[int, Tensor]]:
    """Collect the input of each module, by its position, while the body runs.

    A module whose weights are used without calling it, as in `nn.MultiheadAttention`, has no entry.
    """
    inputs: dict[int, Tensor] = {}

    def keep(at: int) -> Any:
        def hook(module: nn.Module, given: tuple[Tensor, ...]) -> None:
            inputs[at] = given[0]

        return hook

    hooks = [module.register_forward_pre_hook(keep(at)) for at, module in enumerate(modules)]
    try:
        yield inputs
    finally:
        for hook in hooks:
            hook.remove()


def block_features(
    flow: DepthFlow, states: Float[Tensor, "batch tokens width"], block: int
) -> Float[Tensor, "batch tokens features"]:
    """Run a block on some states; return the inputs of its output projections, and a constant.

    If none is captured (toys, fused blocks), the feature is the block's own update: a segment is then fitted by linear
    maps of it.

    Parameters
    ----------
    flow
        Any depth flow.
    states
        States that the block is applied to.
    block
        Index of the block, 0..L-1.
    """
    with captured_inputs(output_projections(flow, block)) as inputs:
        reached = flow.step(states, block)
    parts = [inputs[at] for at in sorted(inputs)] or [reached - states]
    return torch.cat([*parts, torch.ones_like(states[..., :1])], dim=-1)

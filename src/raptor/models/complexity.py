"""Cost of a flow: parameters and floating-point operations."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from raptor.core.flow import DepthFlow, last_state


def count_parameters(module: nn.Module) -> int:
    """Return the number of distinct parameters; a tied parameter counts once."""
    return sum(parameter.numel() for parameter in module.parameters())


def count_flops(flow: DepthFlow, pixels: Tensor) -> int:
    """Return the floating-point operations of one forward pass, from embedding to readout.

    A multiply-add counts as two. Matrix products, convolutions and attention are counted, as is usual; norms,
    activations and sums, about 1% of a ViT, are not.

    Parameters
    ----------
    flow
        The model.
    pixels
        (batch, 3, height, width); the result is for the whole batch.
    """
    counter = FlopCounterMode(display=False)
    # The counter has no formula for some fused attention kernels, so use plain matrix products.
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        flow.readout(last_state(flow, flow.embed(pixels)))
    return counter.get_total_flops()

"""What a flow costs: parameters and floating-point operations."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from raptor.flow import DepthFlow, last_state


def count_parameters(module: nn.Module) -> int:
    """Return the number of distinct parameters; a tied one counts once."""
    return sum(parameter.numel() for parameter in module.parameters())


def count_flops(flow: DepthFlow, pixels: Tensor) -> int:
    """Return the operations of one pass over `pixels`, embedding to readout: a multiply-add is two.

    Matrix products, convolutions and attention are counted, as everybody does; norms, activations and sums,
    some 1% of a ViT, are not.
    """
    counter = FlopCounterMode(display=False)
    # The fused attention kernels of some devices have no formula in the counter; plain products have.
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        flow.readout(last_state(flow, flow.embed(pixels)))
    return counter.get_total_flops()

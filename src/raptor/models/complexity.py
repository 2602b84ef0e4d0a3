"""Cost of a flow: parameters and floating-point operations."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from raptor.core.flow import DepthFlow


def count_parameters(module: nn.Module) -> int:
    """Return the number of distinct parameters; a tied parameter counts once."""
    return sum(parameter.numel() for parameter in module.parameters())


def count_flops(flow: DepthFlow, pixels: Tensor, keep: Callable[[Tensor], Tensor] | None = None) -> int:
    """Return the floating-point operations of one forward pass, from embedding to readout.

    A multiply-add counts as two. Matrix products, convolutions and attention are counted, as is usual; norms,
    activations and sums, about 1% of a ViT, are not.

    Parameters
    ----------
    flow
        The model.
    pixels
        (batch, 3, height, width); the result is for the whole batch.
    keep
        Returns the tokens of layer 0 that the blocks see; all by default.
    """
    counter = FlopCounterMode(display=False)
    # The counter has no formula for some fused attention kernels, so use plain matrix products.
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        tokens = flow.embed(pixels) if keep is None else keep(flow.embed(pixels))
        for layer in range(flow.depth):
            tokens = flow.step(tokens, layer)
        flow.readout(tokens)
    return counter.get_total_flops()

"""Levin's bound on the length of a description of a surrogate, in bits.

b bits for each parameter of the tied blocks, including depth scaling; the lengths of the phases in Elias gamma code;
and log2 of the operations of one pass, which is negligible (some 30 bits). Constants are dropped. The bound is for an
approximation of the teacher with error epsilon, not for the teacher itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from raptor.core.phases import Phases

FULL = 32  # bits per parameter in single precision
TOLERANCE = 0.01  # relative growth of epsilon that is allowed when parameters have fewer bits


def elias_gamma_bits(number: int) -> int:
    """Return the length of a positive number's Elias gamma code: 2 floor(log2 n) + 1."""
    return 2 * (number.bit_length() - 1) + 1


def levin_bits(parameters: int, phases: Phases, flops: int, bits: int = FULL) -> float:
    """Return the bound: b x parameters + codes of the phase lengths + log2 of the operations.

    Where a block comes again, each phase also needs the number of its block: log2 k bits.
    """
    runs = len(phases.lengths)
    order = runs * math.log2(phases.k) if runs > phases.k else 0.0
    return bits * parameters + sum(map(elias_gamma_bits, phases.lengths)) + order + math.log2(flops)


def rounded(values: Tensor, bits: int) -> Tensor:
    """Round values to an even grid of 2^bits points between their minimum and maximum."""
    low, high = values.min(), values.max()
    if bits >= FULL or high == low:
        return values
    step = (high - low) / (2**bits - 1)
    return low + ((values - low) / step).round() * step


@contextmanager
def stored_in(module: nn.Module, bits: int) -> Iterator[None]:
    """Round the parameters of a module to `bits` bits, tensor by tensor, and restore them at the end."""
    kept = [parameter.detach().clone() for parameter in module.parameters()]
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(rounded(parameter, bits))
    try:
        yield
    finally:
        with torch.no_grad():
            for parameter, before in zip(module.parameters(), kept, strict=True):
                parameter.copy_(before)


def fewest_bits(module: nn.Module, epsilon: Callable[[], float]) -> int:
    """Return the smallest number of bits per parameter for which epsilon grows by at most 1%.

    Parameters
    ----------
    module
        The tied blocks.
    epsilon
        Measures the error with the current parameters of the module.
    """
    limit = (1 + TOLERANCE) * epsilon()
    low, high = 1, FULL  # `high` is good enough; more bits are never worse beyond noise, so bisection works
    while low < high:
        middle = (low + high) // 2
        with stored_in(module, middle):
            good = epsilon() <= limit
        low, high = (low, middle) if good else (middle + 1, high)
    return high

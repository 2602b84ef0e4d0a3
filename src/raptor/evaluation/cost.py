"""What a surrogate costs: parameters, operations, run time and length of a description."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch

from raptor.core.batches import ImageSource, pixels_of
from raptor.core.flow import DepthFlow, last_state
from raptor.evaluation.description_length import FULL, fewest_bits, levin_bits
from raptor.models.surrogate import Surrogate
from raptor.runtime.device import synchronise
from raptor.runtime.timing import Ratio, compare

QUANTISATION_IMAGES = 32  # images on which the smallest number of bits per parameter is found
TIMING_ROUNDS = 5


@dataclass(frozen=True)
class CostRatio:
    """What the surrogate and its teacher cost.

    Parameters
    ----------
    surrogate, teacher
        Number of parameters, or of operations.
    ratio
        Surrogate over teacher.
    """

    surrogate: int
    teacher: int
    ratio: float


@dataclass(frozen=True)
class DescriptionLength:
    """Levin's bound on the length of a description of the surrogate, in bits.

    Parameters
    ----------
    at_32_bits
        With 32 bits per parameter.
    bits_a_parameter, at_fewest_bits
        The smallest number of bits per parameter that keeps epsilon within 1%, and the bound with it.
    """

    at_32_bits: float
    bits_a_parameter: int
    at_fewest_bits: float


def cost_ratio(surrogate: int, teacher: int) -> CostRatio:
    """Return both numbers with their ratio."""
    return CostRatio(surrogate, teacher, surrogate / teacher)


@torch.no_grad()
def runtime_ratio(surrogate: Surrogate, batch_size: int, rounds: int = TIMING_ROUNDS) -> Ratio:
    """Time one pass of the surrogate and of its teacher in turn; return the ratio of medians, and those of the rounds.

    Parameters
    ----------
    surrogate
        With its teacher.
    batch_size
        Images per batch.
    rounds
        Number of timed passes of either.
    """
    pixels = torch.zeros(batch_size, 3, *surrogate.teacher.image_size, device=surrogate.device)

    def run(flow: DepthFlow) -> None:
        flow.readout(last_state(flow, flow.embed(pixels)))
        synchronise(pixels.device)

    return compare("", partial(run, surrogate), partial(run, surrogate.teacher), limit=1.0, rounds=rounds)


@torch.no_grad()
def description_length(surrogate: Surrogate, images: ImageSource, parameters: int, flops: int) -> DescriptionLength:
    """Return the bound with 32 bits per parameter, and with the fewest that keep the error.

    Parameters
    ----------
    surrogate
        With its teacher.
    images
        The first of them measure the error.
    parameters, flops
        Parameters of the tied blocks, and operations of one pass.
    """
    some, n = [], 0
    for pixels in pixels_of(images):
        some.append(pixels)
        n += len(pixels)
        if n >= QUANTISATION_IMAGES:
            break
    tokens = surrogate.embed(torch.cat(some)[:QUANTISATION_IMAGES])
    truth = last_state(surrogate.teacher, tokens)

    def epsilon() -> float:
        return (last_state(surrogate, tokens) - truth).norm(dim=-1).mean().item()

    bits = fewest_bits(surrogate.raptor, epsilon)
    return DescriptionLength(
        at_32_bits=levin_bits(parameters, surrogate.phases, flops, FULL),
        bits_a_parameter=bits,
        at_fewest_bits=levin_bits(parameters, surrogate.phases, flops, bits),
    )

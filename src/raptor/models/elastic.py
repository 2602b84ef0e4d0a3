"""Elastic depth: a surrogate that is run for another number of steps than it was trained for.

A tied block may be applied any number of times. The steps of a phase are spread evenly over its layers: depth scaling,
which is a function of the target layer, gets the layer in between. At the trained number of steps nothing changes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from raptor.core.phases import Phases
from raptor.core.preprocessing import Size
from raptor.errors import OptionError
from raptor.models.surrogate import Surrogate
from raptor.models.teachers.own import surrogate as surrogate_parts
from raptor.models.teachers.teacher import Parts


def scaled_phases(phases: Phases, steps: int) -> Phases:
    """Return the number of steps of each phase for a total of `steps`, in proportion to its length.

    Parameters
    ----------
    phases
        Phases of the surrogate.
    steps
        Total number of steps, at least one for each phase.
    """
    if steps < phases.k:
        raise OptionError(f"{steps} steps are too few for the {phases.k} blocks of {phases}; use at least {phases.k}")
    exact = [steps * length / phases.depth for length in phases.lengths]
    lengths = [max(1, int(value)) for value in exact]
    while sum(lengths) != steps:
        sign = 1 if sum(lengths) < steps else -1
        allowed = [number for number, length in enumerate(lengths) if sign > 0 or length > 1]
        lengths[max(allowed, key=lambda number: (sign * (exact[number] - lengths[number]), -number))] += sign
    return Phases(tuple(lengths))


def target_layers(phases: Phases, steps: Phases) -> list[tuple[int, float]]:
    """Return the block of every step, and the layer of the trained surrogate that the step leads to.

    Parameters
    ----------
    phases
        Phases of the surrogate.
    steps
        Steps of each phase.
    """
    found, start = [], 0
    for number, (length, n) in enumerate(zip(phases.lengths, steps.lengths, strict=True)):
        for step in range(1, n + 1):
            layer = start + step * length / n
            found.append((number, int(layer) if layer == int(layer) else layer))
        start += length
    return found


class ElasticModel(nn.Module):
    """A surrogate that is run for another number of steps.

    Parameters
    ----------
    surrogate
        The surrogate.
    steps
        Total number of steps, or the steps of each phase.
    """

    def __init__(self, surrogate: Surrogate, steps: int | Phases):
        super().__init__()
        if surrogate.raptor.untied:
            raise OptionError("the blocks of this surrogate are applied once each (untied), so its depth is fixed")
        phases = surrogate.phases
        self.steps = scaled_phases(phases, steps) if isinstance(steps, int) else steps
        if self.steps.k != phases.k:
            raise OptionError(f"steps {self.steps} are for {self.steps.k} blocks, but the surrogate has {phases}")
        self.surrogate = surrogate
        self.targets = target_layers(phases, self.steps)
        self.register_buffer("elastic_steps", torch.tensor(self.steps.lengths))  # part of the fingerprint


def elastic_parts(model: Any, image_size: Size | None) -> Parts:
    """Adapt a surrogate of elastic depth."""
    before, raptor = surrogate_parts(model, image_size), model.surrogate.raptor

    def call(block: nn.Module, tokens: Tensor, step: int) -> Tensor:
        return raptor.call(block, tokens, model.targets[step][1])

    return replace(
        before,
        family=f"{before.family} in {model.steps.depth} steps",
        blocks=nn.ModuleList(raptor.blocks[number] for number, _ in model.targets),
        call=call,
        module=model,
    )

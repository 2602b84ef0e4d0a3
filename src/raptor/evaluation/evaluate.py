"""`raptor.fidelity`: how close a surrogate is to its teacher, how often it is right, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch

from raptor.core.accuracy import no_accuracy
from raptor.core.batches import ImageSource, as_image_set, pixels_of
from raptor.core.estimate import Estimate, LayerEstimates
from raptor.core.flow import DepthFlow, last_state
from raptor.core.phases import Phases
from raptor.core.serialize import Key, key
from raptor.evaluation.accuracy import AccuracyMeasure, StitchedAccuracy
from raptor.evaluation.description_length import FULL, fewest_bits, levin_bits
from raptor.evaluation.fidelity import trajectory_fidelity
from raptor.models.complexity import count_flops, count_parameters
from raptor.models.surrogate import Surrogate
from raptor.render.notebook import HtmlRepr
from raptor.runtime.device import synchronise
from raptor.runtime.progress import ProgressLike
from raptor.runtime.timing import compare
from raptor.runtime.tracked import tracked

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


@dataclass(frozen=True)
class FidelityResult(HtmlRepr):
    """How close a surrogate is to its teacher on held-out images, and what it costs.

    Parameters
    ----------
    by_layer
        Every measure of `measures.MEASURES`, such as `by_layer["r2"]`, by token group at the layers 1..L.
    teacher_top1, surrogate_top1
        Top-1 accuracy with the teacher's classifier; None without a classifier or labels, as the next three.
    recovered, recovered_above_chance
        Share of the teacher's accuracy that the surrogate reaches, and the same of what is above chance.
    stitched
        By the last layer of each phase: accuracy of the surrogate up to there and the teacher after it.
    parameters, flops
        Parameters of the blocks; operations of one image from embedding to readout.
    levin_bits
        Length of a description of the surrogate.
    notes
        Why something was not measured.
    phases
        Phases of the surrogate; None where the result is part of a `DistillResult`, which has them.
    runtime_ratio, runtime_rounds
        Time of one pass, surrogate over teacher, and the number of timed rounds; None where it was not timed.
    """

    teacher_top1: Estimate[float] | None
    surrogate_top1: Estimate[float] | None
    recovered: Estimate[float] | None
    recovered_above_chance: Estimate[float] | None
    stitched: dict[int, StitchedAccuracy] | None
    parameters: CostRatio
    flops: CostRatio
    levin_bits: DescriptionLength
    notes: list[str]
    by_layer: Annotated[dict[str, LayerEstimates], Key(inline=True)]
    phases: Phases | None = key(None, omit_none=True)
    runtime_ratio: float | None = key(None, omit_none=True)
    runtime_rounds: int | None = key(None, omit_none=True)

    @property
    def n(self) -> int:
        """Number of images."""
        return self.by_layer["r2"].n

    def __str__(self) -> str:
        r2 = self.by_layer["r2"].mean["all"]
        mean = sum(r2) / len(r2)
        text = f"R2 {r2[-1]:.3f} at the last layer, {mean:.3f} on average over layers ({self.n} images)"
        if self.recovered is None or self.teacher_top1 is None:
            return text
        return f"{text}; {self.recovered.value:.1%} of the teacher's accuracy of {self.teacher_top1.value:.1%}"


def fidelity(
    surrogate: Surrogate,
    images: ImageSource,
    seed: int = 0,
    runtime_batch_size: int | None = None,
    progress: ProgressLike = True,
) -> FidelityResult:
    """Measure a surrogate against its teacher.

    Parameters
    ----------
    surrogate
        A surrogate with its teacher.
    images
        Held-out images, on which neither was trained. They are iterated over more than once.
    seed
        Seed of the bootstrap over images.
    runtime_batch_size
        Images per batch of the comparison of run times; None skips it.
    progress
        As in `measure_dynamics`.
    """
    images = as_image_set(images)
    first = next(iter(images))
    reason = no_accuracy(surrogate, first, images.classes)
    measure = AccuracyMeasure(surrogate) if reason is None else None
    by_layer = trajectory_fidelity(
        surrogate.teacher, surrogate, tracked(images, "fidelity", progress), surrogate.phases, seed,
        observe=None if measure is None else measure.update,
    )  # fmt: skip
    right = None if measure is None else measure.compute(seed)
    flops = _ratio(count_flops(surrogate, first.pixels[:1]), count_flops(surrogate.teacher, first.pixels[:1]))
    parameters = _ratio(count_parameters(surrogate.raptor), sum(map(count_parameters, surrogate.teacher.parts.blocks)))
    return FidelityResult(
        by_layer=by_layer,
        teacher_top1=None if right is None else right.teacher,
        surrogate_top1=None if right is None else right.surrogate,
        recovered=None if right is None else right.recovered,
        recovered_above_chance=None if right is None else right.above_chance,
        stitched=None if right is None else right.stitched,
        parameters=parameters,
        flops=flops,
        levin_bits=_description_length(surrogate, images, parameters.surrogate, flops.surrogate),
        notes=[] if reason is None else [f"no accuracy: {reason}"],
        phases=surrogate.phases,
        runtime_ratio=None if runtime_batch_size is None else runtime_ratio(surrogate, runtime_batch_size),
        runtime_rounds=None if runtime_batch_size is None else TIMING_ROUNDS,
    )


def _ratio(surrogate: int, teacher: int) -> CostRatio:
    return CostRatio(surrogate, teacher, surrogate / teacher)


@torch.no_grad()
def runtime_ratio(surrogate: Surrogate, batch_size: int, rounds: int = TIMING_ROUNDS) -> float:
    """Time one pass of the surrogate and of its teacher in turn; return the ratio of medians.

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

    return compare("", partial(run, surrogate), partial(run, surrogate.teacher), limit=1.0, rounds=rounds).ratio


@torch.no_grad()
def _description_length(surrogate: Surrogate, images: ImageSource, parameters: int, flops: int) -> DescriptionLength:
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

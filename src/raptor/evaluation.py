"""What a surrogate is worth: how close it is, how often it is right, what it costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from raptor.accuracy import head_and_label, no_accuracy
from raptor.complexity import count_flops, count_parameters
from raptor.data.batch import Batch
from raptor.display import Displayed
from raptor.fidelity_by_layer import Fidelity, trajectory_fidelity
from raptor.flow import DepthFlow, Head, is_right, last_state, layers_of, pixels_of
from raptor.levin import FULL, fewest_bits, levin_bits
from raptor.models.surrogate import Surrogate
from raptor.resampling import BinnedMean, percentile_interval

FEW = 64  # images on which bits a parameter are counted


@dataclass(frozen=True)
class Share:
    """A number with its 95% bootstrap interval over images.

    Parameters
    ----------
    value
        The number.
    ci
        Low and high end of the interval.
    """

    value: float
    ci: tuple[float, float]


@dataclass(frozen=True)
class Correct:
    """How often teacher and surrogate are right with the teacher's own classifier.

    Parameters
    ----------
    teacher, surrogate
        Top-1 of either.
    recovered, above_chance
        Surrogate over teacher, and the same of what is above one over the number of classes; intervals resample the
        same images for both.
    stitched
        For the last layer of each phase: top-1 of the surrogate up to there and the teacher after it.
    """

    teacher: Share
    surrogate: Share
    recovered: Share
    above_chance: Share
    stitched: dict[int, Share]


@dataclass(frozen=True)
class Evaluation(Displayed):
    """All that is said about a surrogate on held-out images.

    Parameters
    ----------
    by_layer
        Fidelity at the layers 1..L.
    correct
        None where there is no classifier or there are no labels.
    parameters, flops
        Of surrogate and teacher: of the blocks, and of one image from embedding to readout.
    levin_bits
        Levin's bound with 32 bits a parameter, and with the fewest bits that keep epsilon within 1%.
    notes
        Why something is not there.
    """

    by_layer: Fidelity
    correct: Correct | None
    parameters: dict[str, int]
    flops: dict[str, int]
    levin_bits: dict[str, float]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        r2 = self.by_layer.mean["r2"]["all"]
        mean = sum(r2) / len(r2)
        text = f"R2 {r2[-1]:.3f} at the last layer, {mean:.3f} on average over layers ({self.by_layer.n} images)"
        if self.correct is None:
            return text
        recovered, teacher = self.correct.recovered.value, self.correct.teacher.value
        return f"{text}; {recovered:.1%} of the teacher's accuracy of {teacher:.1%}"


def fidelity(surrogate: Surrogate, images: Iterable[Any], seed: int = 0) -> Evaluation:
    """Measure a surrogate against its teacher.

    Parameters
    ----------
    surrogate
        With its teacher.
    images
        Held out: neither was trained on them. Iterated over more than once.
    seed
        Of the bootstrap over images.
    """
    by_layer = trajectory_fidelity(surrogate.teacher, surrogate, images, surrogate.phases, seed)
    first = next(iter(images))
    (pixels,) = pixels_of([first])
    reason = no_accuracy(surrogate, first, getattr(images, "classes", None))
    flops = {name: count_flops(flow, pixels[:1]) for name, flow in _both(surrogate).items()}
    parameters = {
        "surrogate": count_parameters(surrogate.raptor),
        "teacher": sum(map(count_parameters, surrogate.teacher.parts.blocks)),
    }
    return Evaluation(
        by_layer,
        accuracies(surrogate, images, seed) if reason is None else None,
        parameters,
        flops,
        _levin(surrogate, images, parameters["surrogate"], flops["surrogate"]),
        () if reason is None else (f"no accuracy: {reason}",),
    )


def _both(surrogate: Surrogate) -> dict[str, DepthFlow]:
    return {"surrogate": surrogate, "teacher": surrogate.teacher}


@torch.no_grad()
def accuracies(surrogate: Surrogate, batches: Iterable[Batch], seed: int = 0) -> Correct:
    """Count in one pass how often the teacher, the surrogate and every stitched flow are right."""
    teacher = surrogate.teacher
    ends = [span[-1] for span in surrogate.phases.ranges]
    right: dict[Any, BinnedMean] = {name: BinnedMean() for name in ("teacher", *ends)}
    n_classes = 0
    for batch in batches:
        head, label = head_and_label(surrogate, batch)

        def count(name: Any, last: Tensor, head: Head = head, label: Tensor = label) -> int:
            logits = head(last)
            right[name].add(is_right(logits, label))
            return logits.shape[1]

        tokens = teacher.embed(batch.pixels)
        n_classes = count("teacher", last_state(teacher, tokens))
        for layer, states in layers_of(surrogate, tokens):
            if layer in ends:
                count(layer, last_state(teacher, states, layer))
    return _shares(right, ends, n_classes, seed)


def _shares(right: dict[Any, BinnedMean], ends: list[int], n_classes: int, seed: int) -> Correct:
    # The same seed draws the same images for all, so that ratios are of one resample.
    drawn = {name: (mean.mean(), mean.resample(seed=seed)) for name, mean in right.items()}
    (taught, taughts), (found, founds) = drawn["teacher"], drawn[ends[-1]]
    chance = 1 / n_classes
    return Correct(
        teacher=_share(taught, taughts),
        surrogate=_share(found, founds),
        recovered=_share(_over(found, taught), _over(founds, taughts)),
        above_chance=_share(_over(found - chance, taught - chance), _over(founds - chance, taughts - chance)),
        stitched={end: _share(*drawn[end]) for end in ends},
    )


def _over(part: Tensor, whole: Tensor) -> Tensor:
    """Return the ratio, and no number where there is nothing to recover."""
    return torch.where(whole > 0, part / whole, torch.nan)


def _share(value: Tensor, resampled: Tensor) -> Share:
    low, high = percentile_interval(resampled)
    return Share(value.item(), (low.item(), high.item()))


@torch.no_grad()
def _levin(surrogate: Surrogate, images: Iterable[Any], parameters: int, flops: int) -> dict[str, float]:
    some, n = [], 0
    for pixels in pixels_of(images):
        some.append(pixels)
        n += len(pixels)
        if n >= FEW:
            break
    tokens = surrogate.embed(torch.cat(some)[:FEW])
    truth = last_state(surrogate.teacher, tokens)

    def epsilon() -> float:
        return (last_state(surrogate, tokens) - truth).norm(dim=-1).mean().item()

    bits = fewest_bits(surrogate.raptor, epsilon)
    return {
        "at_32_bits": levin_bits(parameters, surrogate.phases, flops, FULL),
        "bits_a_parameter": bits,
        "at_fewest_bits": levin_bits(parameters, surrogate.phases, flops, bits),
    }

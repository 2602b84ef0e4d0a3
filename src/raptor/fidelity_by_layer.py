r"""How close a surrogate's trajectory is to its teacher's, layer by layer.

With y a teacher's token and s the surrogate's, at one layer, over images i, token positions t and features d:

- r2 = 1 - sum (y - s)^2 / sum (y - mean_i y)^2. The mean is over images for each position and feature, so that what
  only depends on the position explains nothing; sums are taken before dividing.
- r2_identity: the same where s is the teacher's own state at the input of the phase, the surrogate that does nothing.
- pearson2: squared correlation of the two vectors over features, the R2 of the paper's appendix (the best scale and
  shift for every token); pearson2_shuffled: that of y with the token of the image before it at the same position.
- cosine, epsilon = |y - s|, relative_epsilon = |y - s| / |y|, all averaged over tokens and images.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cosine_similarity

from raptor.device import doubled
from raptor.errors import DataError, LayoutError
from raptor.flow import DepthFlow, layers_of, pixels_of
from raptor.phases import Phases
from raptor.resampling import DRAWS, BinnedMean, percentile_interval

FEWEST = 2  # images
AROUND = 64  # first images, about whose mean squares are summed
MEANS = ("pearson2", "pearson2_shuffled", "cosine", "epsilon", "relative_epsilon")
SHARES = ("r2", "r2_identity")
States = Float[Tensor, "batch tokens width"]


@dataclass(frozen=True)
class Fidelity:
    """Measures by group for the layers 1..L: `mean[measure][group]` has L numbers, as have `low` and `high`.

    Parameters
    ----------
    mean, low, high
        The measure and its 95% bootstrap interval over images.
    n, seed
        Number of images; seed of the bootstrap.
    """

    mean: dict[str, dict[str, list[float]]]
    low: dict[str, dict[str, list[float]]]
    high: dict[str, dict[str, list[float]]]
    n: int
    seed: int


class _Layer:
    """Everything that one layer needs, streamed over images."""

    def __init__(self, groups: Iterable[str], centre: Float[Tensor, "tokens width"]):
        names = (*MEANS, "error", "identity_error", "spread")
        self.sums = {group: {name: BinnedMean() for name in names} for group in groups}
        self.centre = centre  # a fixed point near the mean: sums of squares about it do not cancel
        self.offset = torch.zeros_like(centre)
        self.before: Tensor | None = None
        self.n = 0

    def add(self, y: States, s: States, at_input: States, slices: dict[str, slice]) -> None:
        y, s, at_input = doubled(y), doubled(s), doubled(at_input)
        self.offset += (y - self.centre).sum(dim=0)
        self.n += len(y)
        gap = (y - s).norm(dim=-1)
        by_token = {
            "pearson2": _pearson2(y, s),
            "cosine": cosine_similarity(y, s, dim=-1),
            "epsilon": gap,
            "relative_epsilon": gap / y.norm(dim=-1).clamp(min=1e-300),
            "error": gap**2,
            "identity_error": (y - at_input).square().sum(dim=-1),
            "spread": (y - self.centre).square().sum(dim=-1),
        }
        # Each image is compared with the one before it, across batches too; the first of all has none.
        earlier = y[:-1] if self.before is None else torch.cat([self.before, y[:-1]])
        by_token["pearson2_shuffled"] = _pearson2(s[-len(earlier) :], earlier) if len(earlier) else y.new_empty(0)
        self.before = y[-1:]
        for group, where in slices.items():
            for name, values in by_token.items():
                if len(values):
                    self.sums[group][name].add(values[:, where].mean(dim=1))

    def measures(self, group: str, where: slice, draws: int, seed: int) -> dict[str, tuple[float, float, float]]:
        """Return (value, low, high) of every measure."""
        sums = self.sums[group]
        found = {
            name: _with_interval(sums[name].mean(), sums[name].resample(draws, seed)) for name in MEANS if sums[name].n
        }
        # About the mean instead of the fixed point; the mean itself is not resampled.
        shift = (self.offset[where] / self.n).square().sum(dim=-1).mean()
        spread, spreads = sums["spread"].mean() - shift, sums["spread"].resample(draws, seed) - shift
        for name, error in zip(SHARES, ("error", "identity_error"), strict=True):
            found[name] = _with_interval(
                1 - sums[error].mean() / spread, 1 - sums[error].resample(draws, seed) / spreads
            )
        return found


def _pearson2(a: Float[Tensor, "*n width"], b: Float[Tensor, "*n width"]) -> Float[Tensor, "*n"]:
    a, b = a - a.mean(dim=-1, keepdim=True), b - b.mean(dim=-1, keepdim=True)
    return cosine_similarity(a, b, dim=-1).square()


def _with_interval(value: Tensor, resampled: Tensor) -> tuple[float, float, float]:
    low, high = percentile_interval(resampled)
    return value.item(), low.item(), high.item()


@torch.no_grad()
def trajectory_fidelity(
    teacher: DepthFlow, surrogate: DepthFlow, images: Iterable[Any], phases: Phases, seed: int = 0, draws: int = DRAWS
) -> Fidelity:
    """Measure how close a surrogate is to its teacher at the layers 1..L, both rolled out from layer 0.

    Parameters
    ----------
    teacher, surrogate
        Flows of the same tokens, width and depth.
    images
        Batches of pixels, or whatever `load_images` gives; one layer of one batch is held at a time.
    phases
        Those of the surrogate; the identity baseline stands still at the input of each.
    seed, draws
        Of the bootstrap over images.
    """
    if (teacher.layout, teacher.width, teacher.depth) != (surrogate.layout, surrogate.width, surrogate.depth):
        raise LayoutError(
            f"a surrogate has the tokens, width and depth of its teacher: {surrogate.layout}, {surrogate.width}, "
            f"{surrogate.depth} are not {teacher.layout}, {teacher.width}, {teacher.depth}"
        )
    phases.check_depth(teacher.depth)
    slices = {**teacher.layout.slices, "all": slice(0, teacher.layout.n_tokens)}
    batches = iter(pixels_of(images))
    first, centres = _first_mean(teacher, batches)
    layers = [_Layer(slices, centre) for centre in centres]
    starts = {span[0] - 1 for span in phases.ranges}
    for pixels in chain(first, batches):
        at_input = tokens = teacher.embed(pixels)
        both = zip(layers_of(teacher, tokens), layers_of(surrogate, surrogate.embed(pixels)), strict=True)
        for (layer, y), (_, s) in both:
            if layer:
                layers[layer - 1].add(y, s, at_input, slices)
            if layer in starts:
                at_input = y
    n = layers[0].n if layers else 0
    if n < FEWEST:
        raise DataError(f"fidelity explains the variance over images: at least {FEWEST} are needed, not {n}")
    found = {group: [layer.measures(group, where, draws, seed) for layer in layers] for group, where in slices.items()}
    mean, low, high = (
        {
            name: {group: [one[name][column] for one in by_layer] for group, by_layer in found.items()}
            for name in found["all"][0]
        }
        for column in range(3)
    )
    return Fidelity(mean, low, high, n, seed)


def _first_mean(teacher: DepthFlow, batches: Iterator[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Take the first batches; return them, and the mean states of their images at the layers 1..L.

    It is of as many images whatever the batch size is: intervals depend on the point that squares are taken about.
    """
    taken: list[Tensor] = []
    sums: list[Tensor] = []
    n = 0
    while n < AROUND and (pixels := next(batches, None)) is not None:
        taken.append(pixels)
        some = pixels[: AROUND - n]
        n += len(some)
        found = [doubled(y).sum(dim=0) for layer, y in layers_of(teacher, teacher.embed(some)) if layer]
        sums = [one + other for one, other in zip(sums, found, strict=True)] if sums else found
    return taken, [total / n for total in sums]

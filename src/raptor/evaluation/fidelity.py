r"""How close a surrogate's trajectory is to its teacher's, layer by layer.

With y a teacher's token and s the surrogate's, at one layer, over images i, token positions t and features d:

- r2 = 1 - sum (y - s)^2 / sum (y - mean_i y)^2. The mean is over images for each position and feature, so that what
  depends only on the position explains nothing. Sums are taken before dividing.
- r2_identity: the same where s is the teacher's own state at the input of the phase (the identity baseline).
- pearson2: squared correlation of the two vectors over features, the R2 of the paper's appendix (with the best scale
  and shift for every token). pearson2_shuffled: that of s with the teacher's token of the image before, at the
  same position.
- cosine, epsilon = |y - s| and relative_epsilon = |y - s| / |y|, averaged over tokens and images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import torch
from jaxtyping import Float
from torch import Tensor

from raptor.core.batches import Batch, ImageSource
from raptor.core.bootstrap import DRAWS, BinnedMean
from raptor.core.estimate import Estimate, LayerEstimates
from raptor.core.flow import DepthFlow, layers_of
from raptor.core.phases import Phases
from raptor.errors import DataError, LayoutError
from raptor.evaluation.measures import MEASURES, States, TokenStates, token_cosine
from raptor.runtime.device import doubled

# What else is measured in the same pass: a batch, a layer, and the states of the teacher and of the surrogate there.
Observe = Callable[[Batch | Tensor, int, Tensor, Tensor], None]

MIN_IMAGES = 2
CENTRE_IMAGES = 64  # first images, about whose mean squares are summed
SHUFFLED = "pearson2_shuffled"
ERRORS = {"r2": "error", "r2_identity": "identity_error"}  # which sum of squared errors belongs to which R2


class _Layer:
    """Running sums of one layer over images."""

    def __init__(self, groups: Iterable[str], centre: Float[Tensor, "tokens width"]):
        names = (*MEASURES, *ERRORS.values(), "squares")
        self.sums = {group: {name: BinnedMean() for name in names} for group in groups}
        self.centre = centre  # a fixed point near the mean: sums of squares about it do not cancel
        self.offset = torch.zeros_like(centre)
        self.before: Tensor | None = None
        self.n = 0

    def add(self, y: States, s: States, at_input: States, slices: dict[str, slice]) -> None:
        y, s, at_input = doubled(y), doubled(s), doubled(at_input)
        self.offset += (y - self.centre).sum(dim=0)
        self.n += len(y)
        states = TokenStates(y, s, at_input)
        by_token = {name: one.by_token(states) for name, one in MEASURES.items() if one.by_token is not None}
        by_token["error"] = states.error**2
        by_token["identity_error"] = (y - at_input).square().sum(dim=-1)
        by_token["squares"] = (y - self.centre).square().sum(dim=-1)
        # Each image is compared with the one before it, across batches too; the first has none.
        centred = states.centred_teacher
        earlier = centred[:-1] if self.before is None else torch.cat([self.before, centred[:-1]])
        ours = states.centred_surrogate[len(y) - len(earlier) :]
        by_token[SHUFFLED] = token_cosine(ours, earlier).square()
        self.before = centred[-1:]
        for group, where in slices.items():
            for name, values in by_token.items():
                if len(values):
                    self.sums[group][name].add(values[:, where].mean(dim=1))

    def estimates(self, group: str, where: slice, draws: int, seed: int) -> dict[str, Estimate[float]]:
        """Return every measure of a token group with its interval."""
        sums = self.sums[group]
        found = {}
        # About the mean instead of the fixed point; the mean itself is not resampled.
        shift = (self.offset[where] / self.n).square().sum(dim=-1).mean()
        variance, variances = sums["squares"].mean() - shift, sums["squares"].resample(draws, seed) - shift
        for name in MEASURES:
            if name in ERRORS:
                error = sums[ERRORS[name]]
                value, drawn = 1 - error.mean() / variance, 1 - error.resample(draws, seed) / variances
            else:
                value, drawn = sums[name].mean(), sums[name].resample(draws, seed)
            found[name] = Estimate.from_draws(value, drawn, self.n)
        return found


@torch.no_grad()
def trajectory_fidelity(
    teacher: DepthFlow,
    surrogate: DepthFlow,
    images: ImageSource,
    phases: Phases,
    seed: int = 0,
    draws: int = DRAWS,
    observe: Observe | None = None,
) -> dict[str, LayerEstimates]:
    """Measure how close a surrogate is to its teacher at the layers 1..L, both rolled out from layer 0.

    Parameters
    ----------
    teacher, surrogate
        Flows with the same tokens, width and depth.
    images
        Batches of pixels, or what `load_images` returns. One layer of one batch is held in memory at a time.
    phases
        Phases of the surrogate; the identity baseline repeats the teacher's state at the input of each phase.
    seed, draws
        Seed and number of draws of the bootstrap over images.
    observe
        Called with each batch, layer, and the states of both, for what else is measured in the same pass.

    Returns
    -------
    dict[str, LayerEstimates]
        Every measure of `measures.MEASURES` by token group and layer: index 0 is layer 1.
    """
    if (teacher.layout, teacher.width, teacher.depth) != (surrogate.layout, surrogate.width, surrogate.depth):
        raise LayoutError(
            f"the surrogate has {surrogate.layout}, width {surrogate.width} and depth {surrogate.depth}; its teacher "
            f"has {teacher.layout}, width {teacher.width} and depth {teacher.depth}: they must have the same tokens, "
            "width and depth"
        )
    phases.check_depth(teacher.depth)
    slices = {**teacher.layout.slices, "all": slice(0, teacher.layout.n_tokens)}
    batches = iter(images)
    first, centres = _first_mean(teacher, batches)
    layers = [_Layer(slices, centre) for centre in centres]
    starts = {span[0] - 1 for span in phases.ranges}
    for batch in chain(first, batches):
        pixels = _pixels(batch)
        at_input = tokens = teacher.embed(pixels)
        both = zip(layers_of(teacher, tokens), layers_of(surrogate, surrogate.embed(pixels)), strict=True)
        for (layer, y), (_, s) in both:
            if observe is not None:
                observe(batch, layer, y, s)
            if layer:
                layers[layer - 1].add(y, s, at_input, slices)
            if layer in starts:
                at_input = y
    n = layers[0].n if layers else 0
    if n < MIN_IMAGES:
        raise DataError(f"fidelity measures variance over images: at least {MIN_IMAGES} are needed, not {n}")
    by_group = {
        group: [layer.estimates(group, where, draws, seed) for layer in layers] for group, where in slices.items()
    }
    return {name: _by_layer(name, by_group, n, seed) for name in MEASURES}


def _by_layer(name: str, by_group: dict[str, list[dict[str, Estimate[float]]]], n: int, seed: int) -> LayerEstimates:
    """Gather one measure of all groups and layers."""
    return LayerEstimates(
        mean={group: [one[name].value for one in layers] for group, layers in by_group.items()},
        low={group: [one[name].low for one in layers] for group, layers in by_group.items()},
        high={group: [one[name].high for one in layers] for group, layers in by_group.items()},
        n=n,
        seed=seed,
    )


def _pixels(batch: Batch | Tensor) -> Tensor:
    return batch if isinstance(batch, Tensor) else batch.pixels


def _first_mean(teacher: DepthFlow, batches: Iterator[Batch | Tensor]) -> tuple[list[Batch | Tensor], list[Tensor]]:
    """Take the first batches; return them, and the mean states of their images at the layers 1..L.

    The mean is over the same number of images whatever the batch size is: intervals depend on the point that squares
    are taken about.
    """
    taken: list[Batch | Tensor] = []
    sums: list[Tensor] = []
    n = 0
    while n < CENTRE_IMAGES and (batch := next(batches, None)) is not None:
        taken.append(batch)
        some = _pixels(batch)[: CENTRE_IMAGES - n]
        n += len(some)
        added = [doubled(y).sum(dim=0) for layer, y in layers_of(teacher, teacher.embed(some)) if layer]
        sums = [one + other for one, other in zip(sums, added, strict=True)] if sums else added
    return taken, [total / n for total in sums]

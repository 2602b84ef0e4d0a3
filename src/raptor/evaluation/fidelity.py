r"""How close a surrogate's trajectory is to its teacher's, layer by layer.

With y a teacher's token and s the surrogate's, at layer l, over images i, token positions t and features d:

- r2 = 1 - sum (y - s)^2 / sum (y - mean_i y)^2. The mean is over images for each position and feature, so that what
  depends only on the position explains nothing. Sums are taken before dividing.
- robust_r2: the same with features in units of a robust spread (1.4826 times the median absolute deviation over the
  tokens of the first 8 images), about the mean of the position, clipped at 5 spreads. R2 may be a statement about a few
  tokens with massive activations; here no token and no feature can outweigh all others.
- r2_identity: the R2 where s is the teacher's own state at the input of the phase (the identity baseline).
- skill = 1 - sum (y - s)^2 / sum (y - y_0)^2: the error relative to that of holding layer 0 constant, which is the same
  for every number of phases. phase_skill: relative to holding the teacher's state at the input of the phase constant.
- update_r2: the R2 of one-step updates. The surrogate takes one step from the teacher's own state at layer l - 1, and
  its update is compared with the teacher's, y_l - y_(l-1). A residual stream carries states along, but not updates.
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
from raptor.core.bootstrap import DRAWS
from raptor.core.estimate import Estimate, LayerEstimates
from raptor.core.flow import DepthFlow, layers_of
from raptor.core.phases import Phases
from raptor.errors import DataError, LayoutError
from raptor.evaluation.first_images import first_images, pixels_of_batch
from raptor.evaluation.measures import MEASURES, States, TokenStates, squared_distance, squared_norm, token_cosine
from raptor.evaluation.token_means import TokenMeans, at_least_single, layer_estimates
from raptor.runtime.device import doubled

# What else is measured in the same pass: a batch, a layer, and the states of the teacher and of the surrogate there.
Observe = Callable[[Batch | Tensor, int, Tensor, Tensor], None]

MIN_IMAGES = 2
CLIP = 5.0  # robust spreads at which features are clipped
SHUFFLED = "pearson2_shuffled"
UPDATES = "update_r2"
# Measures of the form 1 - sum / sum: what is summed in the numerator and in the denominator.
RATIOS = {
    "r2": ("error", "variance"),
    "robust_r2": ("robust_error", "robust_variance"),
    "r2_identity": ("phase_change", "variance"),
    "skill": ("error", "change"),
    "phase_skill": ("error", "phase_change"),
    UPDATES: ("step_error", "update_variance"),
}


class _Layer:
    """Running sums of one layer over images.

    Parameters
    ----------
    slices
        Positions of the token groups.
    centre
        A fixed point near the mean: sums of squares about it do not cancel.
    spread
        Robust spread of each feature.
    before
        The layer before; None for layer 0.
    """

    def __init__(
        self,
        slices: dict[str, slice],
        centre: Float[Tensor, "tokens width"],
        spread: Float[Tensor, " width"],
        before: _Layer | None,
    ):
        self.means, self.shuffled = TokenMeans(slices), TokenMeans(slices)
        self.slices, self.centre, self.spread, self.before = slices, centre, spread, before
        self.offset, self.robust_offset = (torch.zeros_like(doubled(centre)) for _ in range(2))
        self.centred: Tensor | None = None  # of the current batch
        self.last: Tensor | None = None  # the last image of the batch before
        self.n = 0

    def centre_states(self, y: States) -> None:
        """Add the teacher's states to the mean."""
        self.centred = y - self.centre.to(y)
        self.offset += doubled(self.centred.sum(dim=0))
        self.n += len(y)

    def add(self, states: TokenStates) -> None:
        """Add the images of a batch to all sums; the states of the layer before must have been centred."""
        assert self.before is not None
        assert self.centred is not None
        assert self.before.centred is not None
        y = states.teacher
        by_token = {name: one.by_token(states) for name, one in MEASURES.items() if one.by_token is not None}
        by_token["error"] = states.squared_error
        by_token["change"] = squared_distance(y, states.embedding)
        same = states.at_input is states.embedding
        by_token["phase_change"] = by_token["change"] if same else squared_distance(y, states.at_input)
        by_token["squares"] = squared_norm(self.centred)
        clipped, ours = (self._clipped(one) for one in (self.centred, states.surrogate - self.centre.to(y)))
        self.robust_offset += doubled(clipped.sum(dim=0))
        by_token["robust_error"], by_token["robust_squares"] = squared_distance(clipped, ours), squared_norm(clipped)
        if states.one_step is not None:
            # Both updates start from the same state, so their difference is that of the states after the step.
            same = states.one_step is states.surrogate
            by_token["step_error"] = states.squared_error if same else squared_distance(y, states.one_step)
            by_token["update_squares"] = squared_distance(self.centred, self.before.centred)
        self.means.add(by_token)
        # Each image is compared with the one before it, across batches too; the first has none.
        centred = states.centred_teacher
        earlier = centred[:-1] if self.last is None else torch.cat([self.last, centred[:-1]])
        if len(earlier):
            later = states.centred_surrogate[len(y) - len(earlier) :]
            self.shuffled.add({SHUFFLED: token_cosine(later, earlier).square()})
        self.last = centred[-1:]

    def _clipped(self, centred: States) -> States:
        return (centred / self.spread.to(centred)).clamp(-CLIP, CLIP)

    def estimates(self, group: str, draws: int, seed: int) -> dict[str, Estimate[float]]:
        """Return every measure of a token group with its interval."""
        assert self.before is not None
        sums = self.means.of(group, draws, seed)
        # About the mean instead of the fixed point; the mean itself is not resampled.
        where = self.slices[group]
        for name, squares, offset in (
            ("variance", "squares", self.offset),
            ("robust_variance", "robust_squares", self.robust_offset),
            ("update_variance", "update_squares", self.offset - self.before.offset),
        ):
            if squares in sums:
                shift = (offset[where] / self.n).square().sum(dim=-1).mean().cpu()
                sums[name] = (sums[squares][0] - shift, sums[squares][1] - shift)
        found = {}
        for name in MEASURES:
            if name in RATIOS:
                above, below = RATIOS[name]
                if above not in sums:
                    continue
                value, drawn = (1 - part / whole for part, whole in zip(sums[above], sums[below], strict=True))
            else:
                value, drawn = self.shuffled.of(group, draws, seed)[name] if name == SHUFFLED else sums[name]
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
    updates: bool = True,
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
    updates
        Whether to measure `update_r2`, which takes one more pass of the surrogate.

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
    first, centres, spreads = first_images(teacher, batches)
    layers: list[_Layer] = []
    for centre, spread in zip(centres, spreads, strict=True):
        layers.append(_Layer(slices, centre, spread, layers[-1] if layers else None))
    starts = {span[0] - 1 for span in phases.ranges}
    for batch in chain(first, batches):
        for layer, y, s, states in _layers(teacher, surrogate, pixels_of_batch(batch), starts, updates):
            if observe is not None:
                observe(batch, layer, y, s)
            layers[layer].centre_states(states.teacher)
            if layer:
                layers[layer].add(states)
    n = layers[0].n if layers else 0
    if n < MIN_IMAGES:
        raise DataError(f"fidelity measures variance over images: at least {MIN_IMAGES} are needed, not {n}")
    by_group = {group: [layer.estimates(group, draws, seed) for layer in layers[1:]] for group in slices}
    return {name: layer_estimates(by_group, name, n, seed) for name in MEASURES if updates or name != UPDATES}


def _layers(
    teacher: DepthFlow, surrogate: DepthFlow, pixels: Tensor, starts: Iterable[int], updates: bool
) -> Iterator[tuple[int, Tensor, Tensor, TokenStates]]:
    """Yield the layers 0..L with the states of both flows, as they are and as they are measured."""
    before, ours = teacher.embed(pixels), surrogate.embed(pixels)
    same_start = torch.equal(before, ours)
    embedding = at_input = at_least_single(before)
    both = zip(layers_of(teacher, before), layers_of(surrogate, ours), strict=True)
    for (layer, y), (_, s) in both:
        measured, one_step = (at_least_single(y), at_least_single(s)), None
        if updates and layer:
            # From the same layer 0, the first step of the rollout is the step that is needed.
            first = layer == 1 and same_start
            one_step = measured[1] if first else at_least_single(surrogate.step(before, layer - 1))
        yield layer, y, s, TokenStates(*measured, at_input, embedding, one_step)
        before = y
        if layer and layer in starts:
            at_input = measured[0]

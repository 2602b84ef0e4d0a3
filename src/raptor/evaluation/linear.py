"""Linear baselines of each phase: how much of a tied block a linear map can do.

With y_a the teacher's state at the input of a phase and y_b at its end, b - a = n layers later:

- operator: one affine map for all tokens and layers of the phase, y_(l+1) ~ A y_l + c, applied n times to y_a;
- endpoint: one affine map from y_a to y_b;
- identity: y_a itself;
- raptor: the surrogate's own block, applied n times to y_a.

Maps are fitted by least squares on one half of the images, from streamed second moments, and all four are evaluated on
the other half. A ridge of 1e-10 of the mean variance of a feature makes singular second moments solvable.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from raptor.core.accuracy import head_and_label
from raptor.core.batches import Batch, BatchList, ImageSet, LoadedImageSet
from raptor.core.bootstrap import DRAWS, BinnedMean
from raptor.core.estimate import Estimate, LayerEstimates
from raptor.core.flow import DepthFlow, is_right, last_state, layers_of
from raptor.core.phases import Phases
from raptor.evaluation.affine import RIDGE, PhaseMaps, fit_maps
from raptor.evaluation.measures import States, squared_distance, squared_norm
from raptor.evaluation.token_means import TokenMeans, at_least_single, layer_estimates
from raptor.runtime.device import doubled

MIN_IMAGES = 2  # in the evaluation half, for a variance over images
NAMES = ("operator", "endpoint", "identity", "raptor")


@dataclass(frozen=True)
class PhaseScores:
    """How well one kind of map gives the end of each phase from its true input.

    Parameters
    ----------
    r2
        R2 at the end of the phase, by token group; one number per phase.
    top1
        Accuracy of the map for one phase, from the teacher's state at its input, and the teacher's own layers and
        classifier after it; one number per phase. None without a classifier or labels.
    """

    r2: LayerEstimates
    top1: Estimate[list[float]] | None


@dataclass(frozen=True)
class LinearBaselines:
    """Linear maps in place of the tied block of each phase, and the block itself.

    Parameters
    ----------
    operator
        One affine map per layer step, the same for all layers of the phase.
    endpoint
        One affine map from the input of the phase to its end.
    identity
        The input of the phase itself.
    raptor
        The surrogate's block, from the same input.
    fit_images, n
        Number of images that the maps are fitted on, and that all are evaluated on.
    ridge
        Ridge of the least squares, as a share of the mean variance of a feature.
    """

    operator: PhaseScores
    endpoint: PhaseScores
    identity: PhaseScores
    raptor: PhaseScores
    fit_images: int
    n: int
    ridge: float


class _Scores:
    """Running scores of all kinds of map at the end of one phase."""

    def __init__(self, maps: PhaseMaps, slices: dict[str, slice]):
        self.maps, self.slices, self.means = maps, slices, TokenMeans(slices)
        self.offset = torch.zeros_like(maps.mean)

    def add(self, surrogate: DepthFlow, at_input: States, y: States) -> dict[str, States]:
        """Add the images of a batch; return the predictions."""
        found = self.maps.predictions(surrogate, at_input)
        truth = at_least_single(y)
        centred = truth - self.maps.mean.to(truth)
        self.offset += doubled(centred.sum(dim=0))
        errors = {name: squared_distance(truth, at_least_single(one)) for name, one in found.items()}
        self.means.add({**errors, "squares": squared_norm(centred)})
        return found

    def r2(self, group: str, draws: int, seed: int) -> dict[str, Estimate[float]]:
        """Return the R2 of every kind of map in a token group, as in `trajectory_fidelity`."""
        n = self.means.n
        shift = (self.offset[self.slices[group]] / n).square().sum(dim=-1).mean().cpu()
        sums = self.means.of(group, draws, seed)
        value, drawn = (squares - shift for squares in sums["squares"])
        return {name: Estimate.from_draws(1 - sums[name][0] / value, 1 - sums[name][1] / drawn, n) for name in NAMES}


@torch.no_grad()
def linear_baselines(
    teacher: DepthFlow,
    surrogate: DepthFlow,
    images: ImageSet,
    phases: Phases,
    accuracy: bool = False,
    seed: int = 0,
    draws: int = DRAWS,
) -> LinearBaselines | None:
    """Fit linear maps of each phase on half of the images, and compare them with the surrogate on the other half.

    Parameters
    ----------
    teacher, surrogate
        Flows with the same tokens, width and depth.
    images
        Images on which neither was trained; `fit_eval_split` splits them.
    phases
        Phases of the surrogate.
    accuracy
        Whether to measure accuracy too: the teacher has a classifier and the images have labels for it.
    seed, draws
        Seed and number of draws of the bootstrap over images.

    Returns
    -------
    LinearBaselines | None
        None if the evaluation half has fewer than two images.
    """
    fitted_on, evaluated_on = images.fit_eval_split()
    if len(evaluated_on) < MIN_IMAGES:
        return None
    maps, n_fitted = fit_maps(teacher, fitted_on, phases)
    slices = {**teacher.layout.slices, "all": slice(0, teacher.layout.n_tokens)}
    scores = {one.last: _Scores(one, slices) for one in maps}
    right = BinnedMean()
    for batch in evaluated_on:
        at_input = teacher.embed(batch.pixels)
        rights = []
        for layer, y in layers_of(teacher, at_input):
            if layer not in scores:
                continue
            found = scores[layer].add(surrogate, at_input, y)
            if accuracy:
                rights.append(_right(teacher, batch, found, layer))
            at_input = y
        if accuracy:
            right.add(torch.stack(rights, dim=1))
    n = next(iter(scores.values())).means.n
    if n < MIN_IMAGES:
        return None
    by_group = {group: [one.r2(group, draws, seed) for one in scores.values()] for group in slices}
    top1 = (right.mean(), right.resample(draws, seed)) if accuracy else None
    kinds = {
        name: PhaseScores(
            layer_estimates(by_group, name, n, seed),
            None if top1 is None else Estimate.from_draws(top1[0][:, place], top1[1][:, :, place], n),
        )
        for place, name in enumerate(NAMES)
    }
    return LinearBaselines(**kinds, fit_images=n_fitted, n=n, ridge=RIDGE)


def _right(teacher: DepthFlow, batch: Batch, found: dict[str, States], layer: int) -> Float[Tensor, "batch maps"]:
    """Return whether the teacher's remaining layers and its classifier are right, after each kind of map."""
    head, label = head_and_label(teacher, batch)
    return torch.stack([is_right(head(last_state(teacher, found[name], layer)), label) for name in NAMES], dim=1)


def take(images: ImageSet, n: int) -> ImageSet:
    """Return at most n of the images; of plain batches the first ones."""
    if isinstance(images, LoadedImageSet):
        return images.sample(n)
    taken: list[Batch] = []
    for batch in images:
        label = None if batch.label is None else batch.label[:n]
        taken.append(Batch(batch.pixels[:n], label, None, None, batch.path[:n]))
        n -= len(taken[-1])
        if n <= 0:
            break
    return BatchList(taken)

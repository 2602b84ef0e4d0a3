"""Affine maps between the states of a phase, fitted by least squares from streamed second moments."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from raptor.core.batches import ImageSource, pixels_of
from raptor.core.flow import DepthFlow, last_state, layers_of
from raptor.core.phases import Phases
from raptor.evaluation.measures import States
from raptor.evaluation.token_means import at_least_single
from raptor.runtime.device import doubled

RIDGE = 1e-10  # as a share of the mean variance of a feature: singular second moments must be solvable


@dataclass(frozen=True)
class AffineMap:
    """The map x -> x W + c of row vectors.

    Parameters
    ----------
    weight, constant
        W, shape (width, width), and c.
    """

    weight: Float[Tensor, "width width"]
    constant: Float[Tensor, " width"]

    def __call__(self, tokens: Tensor, times: int = 1) -> Tensor:
        """Apply the map a number of times; computed in single precision or better, in the dtype of the tokens."""
        states = at_least_single(tokens)
        weight, constant = self.weight.to(states), self.constant.to(states)
        for _ in range(times):
            states = states @ weight + constant
        return states.to(tokens.dtype)


class AffineFit:
    """Least squares of an affine map from streamed second moments, in double precision.

    Parameters
    ----------
    near
        Some vector near the inputs, which is subtracted from inputs and outputs: moments about it do not cancel.
    """

    def __init__(self, near: Float[Tensor, " width"]):
        self.near = doubled(near)
        self.n = 0
        self.sum_in, self.sum_out = torch.zeros_like(self.near), torch.zeros_like(self.near)
        self.within, self.across = (self.near.new_zeros(len(near), len(near)) for _ in range(2))

    def add(self, inputs: Float[Tensor, "*n width"], outputs: Float[Tensor, "*n width"]) -> None:
        """Add pairs of vectors."""
        x, z = (doubled(one).flatten(0, -2) - self.near for one in (inputs, outputs))
        self.n += len(x)
        self.sum_in += x.sum(dim=0)
        self.sum_out += z.sum(dim=0)
        self.within.addmm_(x.T, x)
        self.across.addmm_(x.T, z)

    def solve(self, ridge: float = RIDGE) -> AffineMap:
        """Return the map with the smallest sum of squared errors.

        Parameters
        ----------
        ridge
            Penalty on the squared weights, as a share of the mean variance of a feature.
        """
        mean_in, mean_out = self.sum_in / self.n, self.sum_out / self.n
        within = self.within / self.n - torch.outer(mean_in, mean_in)
        across = self.across / self.n - torch.outer(mean_in, mean_out)
        least = torch.finfo(torch.float64).tiny  # inputs that are all equal have no variance
        within.diagonal().add_((ridge * within.diagonal().mean()).clamp(min=least))
        weight = torch.linalg.solve(within, across)
        return AffineMap(weight, mean_out + self.near - (mean_in + self.near) @ weight)


@dataclass(frozen=True)
class PhaseMaps:
    """The fitted maps of one phase.

    Parameters
    ----------
    first, last
        Layer of the input of the phase, and its last layer.
    operator, endpoint
        The map of one layer step, and the map from input to end.
    mean
        Mean state at the end over the images that were fitted.
    """

    first: int
    last: int
    operator: AffineMap
    endpoint: AffineMap
    mean: Float[Tensor, "tokens width"]

    def predictions(self, surrogate: DepthFlow, at_input: States) -> dict[str, States]:
        """Return the states at the end of the phase by every kind of map, from the teacher's states at its input."""
        return {
            "operator": self.operator(at_input, self.last - self.first),
            "endpoint": self.endpoint(at_input),
            "identity": at_input,
            "raptor": last_state(surrogate, at_input, self.first, self.last),
        }


@torch.no_grad()
def fit_maps(teacher: DepthFlow, images: ImageSource, phases: Phases) -> tuple[list[PhaseMaps], int]:
    """Fit the linear maps of every phase in one pass; return them, and the number of images.

    Parameters
    ----------
    teacher
        The model to fit.
    images
        Images to fit on.
    phases
        Phases of the surrogate.
    """
    fits: dict[int, tuple[AffineFit, AffineFit, Tensor]] = {}
    n = 0
    for pixels in pixels_of(images):
        before = at_input = teacher.embed(pixels)
        n += len(pixels)
        for layer, y in layers_of(teacher, before):
            if layer == 0:
                continue
            phase = phases.phase_of(layer)
            if phase not in fits:
                near = doubled(before[0]).mean(dim=0)
                fits[phase] = (AffineFit(near), AffineFit(near), torch.zeros_like(doubled(y[0])))
            operator, endpoint, total = fits[phase]
            operator.add(before, y)
            if layer == phases.ranges[phase][-1]:
                endpoint.add(at_input, y)
                total += doubled(y).sum(dim=0)
                at_input = y
            before = y
    maps = []
    for phase, span in enumerate(phases.ranges):
        operator, endpoint, total = fits[phase]
        maps.append(PhaseMaps(span[0] - 1, span[-1], operator.solve(), endpoint.solve(), total / n))
    return maps, n

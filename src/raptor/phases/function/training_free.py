r"""A surrogate without gradient descent: tied blocks whose output projections are fitted by least squares.

Each block starts as a copy of the middle block of its phase. Its output projections (after attention and after the MLP)
are fitted to the teacher's next states: first on the teacher's own states, then on these together with the states that
the fitted blocks reach themselves, rolled out from layer 0 (dataset aggregation: Ross, Gordon and Bagnell 2011). Errors
of earlier steps are then part of what is fitted. Layers have equal weight: each counts relative to the squared norm of
its updates.
"""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Iterator
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from raptor.core.batches import ImageSource, as_image_set, pixels_of
from raptor.core.flow import last_state, layers_of
from raptor.core.phases import PhasesLike, as_phases
from raptor.errors import DataError, UnsupportedModelError
from raptor.models.raptor import TeacherBlock
from raptor.models.surrogate import Surrogate, build_surrogate
from raptor.models.teachers.teacher import Teacher
from raptor.phases.function.features import captured_inputs
from raptor.phases.function.moments import Moments
from raptor.runtime.progress import ProgressLike
from raptor.runtime.tracked import tracked

ROUNDS = 2  # on the teacher's states, then on the surrogate's own too
RIDGE = 1e-3  # penalty, as a share of the mean square of the features
LINEAR = 1e-3  # relative error up to which a projection's effect on the output counts as a factor per feature

Tokens = Float[Tensor, "batch tokens width"]


@torch.no_grad()
def fit_surrogate(
    teacher: Teacher, images: ImageSource, phases: PhasesLike, rounds: int = ROUNDS, progress: ProgressLike = True
) -> Surrogate:
    """Build a surrogate by least squares, without training.

    Parameters
    ----------
    teacher
        The model to reproduce.
    images
        Images to fit on; labels are not used. Each phase and round passes over them twice.
    phases
        One tied block per phase: `Phases`, `"7-3-2"`, or what `find_phases` returned.
    rounds
        1 fits on the teacher's states only; each further round adds the states of the surrogate's own rollout.
    progress
        As in `measure_dynamics`.

    Returns
    -------
    Surrogate
        Can be measured, saved, and passed to `distill` as `start`.
    """
    phases = as_phases(phases).check_depth(teacher.depth)
    if len(phases.lengths) != phases.k:
        raise UnsupportedModelError(f"least squares needs contiguous phases such as 7-3-2, not the layer map {phases}")
    surrogate = build_surrogate(teacher, phases)
    images = tracked(as_image_set(images).unsharded(), f"fit {phases}", progress)
    for number, span in enumerate(phases.ranges):
        block = surrogate.raptor.blocks[number]
        assert isinstance(block, TeacherBlock)
        projections = _fittable(block, teacher, images, span)
        for again in range(rounds):
            reached_by = copy.deepcopy(block) if again else None  # what is fitted must not move its own inputs
            # The map after attention changes what the MLP reads: fit both together, then the last one again.
            for fitted in (projections, projections[-1:]) if len(projections) > 1 else (projections,):
                _refit(surrogate, block, span, fitted, images, reached_by)
    surrogate.record = {"phases": str(phases), "recipe": "least squares", "rounds": rounds}
    return surrogate.eval()


class _Projection:
    """A linear map of a block, and the factor per feature between its output and the block's output (LayerScale)."""

    def __init__(self, linear: nn.Linear, scale: Float[Tensor, " width"]):
        self.linear, self.scale = linear, scale

    def contribution(self, features: Tensor) -> Tensor:
        """Return what the map adds to the block's output."""
        return self.scale * F.linear(features, self.linear.weight, self.linear.bias)

    def install(self, weights: Float[Tensor, "inputs width"], constant: Float[Tensor, " width"]) -> None:
        """Set the weights so that the map adds `features @ weights + constant` to the output."""
        inverse = torch.where(self.scale == 0, 0.0, 1 / self.scale).cpu().double()
        self.linear.weight.copy_(weights.mT * inverse[:, None])
        if self.linear.bias is not None:
            self.linear.bias.copy_(constant * inverse)


def _refit(
    surrogate: Surrogate,
    block: TeacherBlock,
    span: range,
    fitted: list[_Projection],
    images: ImageSource,
    reached_by: nn.Module | None,
) -> None:
    """Fit some projections of a block to the teacher's next states at all layers of a phase, and install them.

    The block is applied to the teacher's states, or to those that `reached_by` reaches in the surrogate's own rollout.
    """
    moments: dict[int, Moments] = {}
    energy: dict[int, float] = dict.fromkeys(span, 1e-30)
    with_bias = [at for at, one in enumerate(fitted) if one.linear.bias is not None]
    for truth, inputs in _states(surrogate, images, span, reached_by):
        for layer in span:
            with captured_inputs([one.linear for one in fitted]) as captured:
                reached = block(inputs[layer - 1], layer)
            features = [captured[at] for at in range(len(fitted))]
            target = truth[layer] - reached
            for one, given in zip(fitted, features, strict=True):
                target += one.contribution(given)
            constant = [torch.ones_like(reached[..., :1])] if with_bias else []
            added = Moments.of(torch.cat([*features, *constant], dim=-1), target)
            moments[layer] = moments[layer] + added if layer in moments else added
            energy[layer] += float((truth[layer] - truth[layer - 1]).double().square().sum())
    if not moments:
        raise DataError("fitting a surrogate needs images")
    relative = [moments[layer] * (1 / energy[layer]) for layer in span]
    weights = functools.reduce(operator.add, relative).solve(RIDGE)
    parts = weights.split([*(one.linear.in_features for one in fitted), *([1] if with_bias else [])])
    for at, one in enumerate(fitted):
        one.install(parts[at], parts[-1][0] if with_bias[-1:] == [at] else torch.zeros(weights.shape[1]).double())


def _states(
    surrogate: Surrogate, images: ImageSource, span: range, reached_by: nn.Module | None
) -> Iterator[tuple[dict[int, Tensor], dict[int, Tensor]]]:
    """Yield the teacher's states from a phase's input to its end, and the states that the block is applied to."""
    first = span[0] - 1
    for pixels in pixels_of(images):
        tokens = surrogate.embed(pixels.to(surrogate.device))
        truth = {layer: states for layer, states in layers_of(surrogate.teacher, tokens, 0, span[-1]) if layer >= first}
        if reached_by is None:
            yield truth, truth
            continue
        yield truth, truth  # both: on its own states alone, a block that changes loses what it was fitted to
        inputs = {first: last_state(surrogate, tokens, 0, first)}
        for layer in span[:-1]:
            inputs[layer] = reached_by(inputs[layer - 1], layer)
        yield truth, inputs


def _fittable(block: TeacherBlock, teacher: Teacher, images: ImageSource, span: range) -> list[_Projection]:
    """Return the projections of a block that are called as modules and act on its output by a factor per feature."""
    pixels = next(pixels_of(images), None)
    if pixels is None:
        raise DataError("fitting a surrogate needs images")
    tokens = last_state(teacher, teacher.embed(pixels[:2].to(teacher.device)), 0, span[0] - 1)
    names = [name for name in block.projections if isinstance(block.called.block.get_submodule(name), nn.Linear)]
    linears = [cast(nn.Linear, block.called.block.get_submodule(name)) for name in names]
    zeros = [
        {f"block.{name}.{kind}": torch.zeros_like(value) for kind, value in linear.named_parameters()}
        for name, linear in zip(names, linears, strict=True)
    ]
    found: list[_Projection] = []
    for at, linear in enumerate(linears):
        later = {name: value for parameters in zeros[at + 1 :] for name, value in parameters.items()}
        with captured_inputs([linear]) as captured:
            whole = functional_call(block.called, later, (tokens, span[0]))
        if not captured:
            continue
        added = whole - functional_call(block.called, {**later, **zeros[at]}, (tokens, span[0]))
        own = F.linear(captured[0], linear.weight, linear.bias)
        scale = (added * own).sum(dim=(0, 1)) / own.square().sum(dim=(0, 1)).clamp(min=1e-30)
        if (added - scale * own).norm() <= LINEAR * added.norm():
            found.append(_Projection(linear, scale))
    if not found:
        raise UnsupportedModelError(
            "no linear map that ends a branch of this model's blocks can be fitted; name them in "
            "Parts.output_projections, or train a surrogate with distill"
        )
    return found

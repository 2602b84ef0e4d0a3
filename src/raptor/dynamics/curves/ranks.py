"""Effective ranks of updates (Figure 10 of the paper)."""

from __future__ import annotations

import copy

import torch
from jaxtyping import Float
from torch import Tensor

from raptor.core.estimate import LayerEstimates
from raptor.core.processes import Processes
from raptor.dynamics.curves.registry import measure
from raptor.dynamics.jackknife import half_width, n_parts, n_used, part_of
from raptor.dynamics.measures import StateBatch
from raptor.runtime.device import doubled
from raptor.runtime.distributed import SINGLE_PROCESS

FEW = 8  # tokens; moments of smaller groups are summed in double precision, because few rows lose small directions
BLOCK = 128  # rows of a second moment that are added at a time
CENTRED = "centred_"
KINDS = ("stable_rank", "entropy_rank", "participation_ratio")
NAMES = (*KINDS, *(CENTRED + kind for kind in KINDS))


def ranks(
    second_moment: Float[Tensor, "*parts width width"],
    noise: float = 0.0,
    largest: Float[Tensor, " *parts"] | None = None,
) -> dict[str, Float[Tensor, " *parts"]]:
    """Return three effective ranks of a matrix U of updates.

    `stable_rank` is |U|_F^2 / |U|_2^2. `entropy_rank` is the exponential of the entropy of the normalised singular
    values (Roy and Vetterli 2007). `participation_ratio` is (sum s^2)^2 / sum s^4.

    Parameters
    ----------
    second_moment
        U^T U, of shape (..., width, width). Only its lower triangle is read.
    noise
        Eigenvalues of U^T U up to this share of `largest` count as 0.
    largest
        What rounding errors are relative to; the largest eigenvalue by default.
    """
    return _ranks_of(_eigenvalues(second_moment), noise, largest)


def _eigenvalues(second_moment: Float[Tensor, "*parts width width"]) -> Float[Tensor, "*parts width"]:
    return torch.linalg.eigvalsh(second_moment, UPLO="L").clamp(min=0)


def _ranks_of(
    squares: Float[Tensor, "*parts width"], noise: float, largest: Float[Tensor, " *parts"] | None = None
) -> dict[str, Float[Tensor, " *parts"]]:
    """Return the ranks, given the eigenvalues of U^T U."""
    scale = squares.amax(dim=-1) if largest is None else largest
    squares = torch.where(squares > noise * scale[..., None], squares, 0.0)
    values = squares.sqrt()
    shares = values / values.sum(dim=-1, keepdim=True)
    entropy = -torch.special.xlogy(shares, shares).sum(dim=-1)
    return {
        "stable_rank": squares.sum(dim=-1) / squares.amax(dim=-1),
        "entropy_rank": entropy.exp(),
        "participation_ratio": squares.sum(dim=-1).square() / squares.square().sum(dim=-1),
    }


class Moments:
    """First and second moments of the updates of one token group, by part of the images and step.

    Of second moments, which are symmetric, only the lower triangle is summed.

    Parameters
    ----------
    shape
        Parts, steps, width.
    exact
        Whether to sum in double precision, on the CPU: not every device has it.
    device
        Where to sum otherwise.
    """

    def __init__(self, shape: tuple[int, int, int], exact: bool, device: torch.device):
        kind: dict = {"dtype": torch.float64} if exact else {"device": device}
        self.second, self.first = torch.zeros(*shape, shape[-1], **kind), torch.zeros(shape, **kind)
        self.rows = torch.zeros(shape[0], dtype=torch.float64)
        # Of eigenvalues, which are squares of singular values. Sums in single precision were measured to err by at most
        # 0.15 of its epsilon, for widths of 64 to 768.
        epsilon = torch.finfo(torch.float32).eps
        self.noise = (shape[-1] * epsilon) ** 2 if exact else epsilon

    def add(self, part: int, step: int, rows: Float[Tensor, "rows width"]) -> None:
        """Add updates of one part at one step."""
        rows, second = rows.to(self.second), self.second[part, step]
        for start in range(0, len(second), BLOCK):  # the lower triangle is enough
            block, before = slice(start, start + BLOCK), slice(start + BLOCK)
            second[block, before].addmm_(rows[:, block].T, rows[:, before])
        self.first[part, step] += rows.sum(dim=0)
        if step == 0:
            self.rows[part] += len(rows)

    def over(self, process_group: Processes) -> Moments:
        """Return the sums of all processes."""
        whole = copy.copy(self)
        whole.second, whole.first, whole.rows = map(process_group.all_reduce, (self.second, self.first, self.rows))
        return whole

    def ranks(self, without: int | None = None) -> dict[str, Float[Tensor, " steps"]]:
        """Return the ranks by name, as they are and centred, of all images or of those outside a part."""
        sums = [doubled(one).cpu() for one in (self.second, self.first, self.rows)]
        second, first, rows = (one.sum(dim=0) - (0 if without is None else one[without]) for one in sums)
        centred = second - first[:, :, None] * first[:, None] / rows
        both = {"": _eigenvalues(second), CENTRED: _eigenvalues(centred)}
        largest = both[""].amax(dim=-1)  # centring leaves rounding errors of this size
        return {
            prefix + name: values
            for prefix, squares in both.items()
            for name, values in _ranks_of(squares, self.noise, largest).items()
        }

    def ranks_without(self, parts: int) -> dict[str, Float[Tensor, "parts steps"]]:
        """Return the ranks without each of the first parts in turn."""
        found = [self.ranks(part) for part in range(parts)]
        nothing = torch.zeros(0, self.first.shape[1], dtype=torch.float64)
        return {name: torch.stack([one[name] for one in found]) if found else nothing for name in NAMES}


@measure("participation_ratio", of="steps", label="participation ratio", column=None, figure=False)
@measure("entropy_rank", of="steps", label="entropy rank", column=None, figure=False)
@measure(
    "centred_participation_ratio", of="steps", label="participation ratio, centred", column=None,
    figure=False,
)  # fmt: skip
@measure("centred_entropy_rank", of="steps", label="entropy rank, centred", column=None, figure=False)
@measure("centred_stable_rank", of="steps", label="stable rank, centred", column="centred rank", figure=False)
@measure("stable_rank", of="steps", label="stable rank", figure=False)
class UpdateRanks:
    """Ranks of the matrix of all updates of a token group, over tokens and images, at each step.

    Centred ranks are those of the updates minus their mean. Where tokens start equal in all images, as cls and
    registers do, the first update is nearly the same for all images, and only the centred rank says how many
    directions differ.

    The measure sums one second moment (width x width) per step and group, for each part of the images.
    """

    def __init__(self) -> None:
        self.n, self.parts = 0, 0
        self.process_group: Processes = SINGLE_PROCESS
        self.moments: dict[str, Moments] = {}
        self.found: dict[str, dict[str, Tensor]] = {}  # after `compute`: by group and name
        self.without: dict[str, dict[str, Tensor]] = {}  # the same without each part, for a jackknife

    def update(self, batch: StateBatch) -> None:
        """Add a batch."""
        groups, steps, width = batch.layout.slices, len(batch.updates), batch.updates[0].shape[-1]
        if not self.parts:
            exact = {group: batch.layout.counts[group] <= FEW for group in groups}
            self.parts = n_parts(sum(8 if double else 4 for double in exact.values()) * steps * width**2)
            shape, at = (self.parts, steps, width), batch.updates[0].device
            self.moments = {group: Moments(shape, double, at) for group, double in exact.items()}
        part = part_of(self.n + batch.first, batch.own, self.parts)
        for number in part.unique().tolist():
            of_part = (part == number).to(batch.updates[0].device)
            for step, update in enumerate(batch.updates):
                own = update[: batch.own] if of_part.all() else update[: batch.own][of_part]
                for group, where in groups.items():
                    self.moments[group].add(number, step, own[:, where].flatten(0, 1))
        self.n, self.process_group = self.n + batch.n, batch.process_group

    def compute(self, seed: int = 0) -> dict[str, LayerEstimates]:
        """Return the ranks by name, with jackknife intervals; NaN where fewer than four parts fit."""
        moments = {group: own.over(self.process_group) for group, own in self.moments.items()}
        self.found = {group: own.ranks() for group, own in moments.items()}
        self.without = {group: own.ranks_without(n_used(self.n, self.parts)) for group, own in moments.items()}
        results = {}
        for name in NAMES:
            mean = {group: values[name] for group, values in self.found.items()}
            wide = {group: half_width(self.without[group][name]) for group in mean}
            results[name] = LayerEstimates(
                mean={group: value.tolist() for group, value in mean.items()},
                low={group: (value - wide[group]).tolist() for group, value in mean.items()},
                high={group: (value + wide[group]).tolist() for group, value in mean.items()},
                n=self.n,
                seed=seed,
            )
        return results

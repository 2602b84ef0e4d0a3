"""Effective ranks of updates (Figure 10 of the paper)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from scipy.special import stdtrit
from torch import Tensor

from raptor.core.bootstrap import LEVEL
from raptor.core.estimate import LayerEstimates
from raptor.core.processes import Processes
from raptor.dynamics.curves.registry import measure
from raptor.dynamics.measures import StateBatch
from raptor.runtime.device import doubled
from raptor.runtime.distributed import SINGLE_PROCESS

BUDGET = 2**30  # bytes of second moments in memory; decides the number of parts
MOST_PARTS, FEWEST_PARTS = 8, 4  # parts of the images that the jackknife leaves out; with fewer there is no interval
FEW = 8  # tokens; moments of smaller groups are summed in double precision, because few rows lose small directions
TOGETHER = 4  # consecutive images that go to the same part: fewer and larger matrix products


def ranks(
    second_moment: Float[Tensor, "*parts width width"], noise: float = 0.0
) -> dict[str, Float[Tensor, " *parts"]]:
    """Return three effective ranks of a matrix U of updates.

    `stable_rank` is |U|_F^2 / |U|_2^2. `entropy_rank` is the exponential of the entropy of the normalised singular
    values (Roy and Vetterli 2007). `participation_ratio` is (sum s^2)^2 / sum s^4.

    Parameters
    ----------
    second_moment
        U^T U, of shape (..., width, width).
    noise
        Eigenvalues of U^T U up to this share of the largest count as 0.
    """
    squares = torch.linalg.eigvalsh(second_moment).clamp(min=0)
    squares = torch.where(squares > noise * squares.amax(dim=-1, keepdim=True), squares, 0.0)
    values = squares.sqrt()
    shares = values / values.sum(dim=-1, keepdim=True)
    entropy = -torch.special.xlogy(shares, shares).sum(dim=-1)
    return {
        "stable_rank": squares.sum(dim=-1) / squares.amax(dim=-1),
        "entropy_rank": entropy.exp(),
        "participation_ratio": squares.sum(dim=-1).square() / squares.square().sum(dim=-1),
    }


@measure("participation_ratio", of="steps", label="participation ratio", column=None, compared=False, figure=False)
@measure("entropy_rank", of="steps", label="entropy rank", column=None, compared=False, figure=False)
@measure("stable_rank", of="steps", label="stable rank", figure=False)
class UpdateRanks:
    """Ranks of the matrix of all updates of a token group, over tokens and images, at each step.

    The measure sums one second moment (width x width) per step and group. It divides the images into parts for the
    jackknife: as many as fit into a gigabyte, at most eight.
    """

    def __init__(self) -> None:
        self.n, self.parts = 0, 0
        self.process_group: Processes = SINGLE_PROCESS
        self.sums: dict[str, Tensor] = {}

    def update(self, batch: StateBatch) -> None:
        """Add a batch."""
        groups, steps, width = batch.layout.slices, len(batch.updates), batch.updates[0].shape[-1]
        if not self.parts:
            exact = {group: batch.layout.counts[group] <= FEW for group in groups}
            one = sum(8 if double else 4 for double in exact.values()) * steps * width**2
            self.parts = max(1, min(MOST_PARTS, BUDGET // one))
            shape, at = (self.parts, steps, width, width), batch.updates[0].device
            # Double precision is on the CPU: not every device has it.
            self.sums = {
                group: torch.zeros(shape, dtype=torch.float64) if double else torch.zeros(shape, device=at)
                for group, double in exact.items()
            }
        first = self.n + batch.first
        part = torch.arange(first, first + batch.own) // TOGETHER % self.parts
        for number in part.unique().tolist():
            of_part = (part == number).to(batch.updates[0].device)
            for step, update in enumerate(batch.updates):
                own = update[: batch.own] if of_part.all() else update[: batch.own][of_part]
                for group, where in groups.items():
                    rows = own[:, where].flatten(0, 1).to(self.sums[group])
                    self.sums[group][number, step].addmm_(rows.T, rows)
        self.n, self.process_group = self.n + batch.n, batch.process_group

    def compute(self, seed: int = 0) -> dict[str, LayerEstimates]:
        """Return the three ranks by name; intervals are NaN where fewer than four parts fit.

        Intervals come from a jackknife that leaves out one part at a time. A bootstrap would repeat images, which
        lowers ranks.
        """
        sums = {group: self.process_group.all_reduce(own) for group, own in self.sums.items()}
        found = {group: self._ranks(parts.sum(dim=0)) for group, parts in sums.items()}
        errors = {group: self._errors(parts) for group, parts in sums.items()}
        results = {}
        for name in next(iter(found.values())):
            mean = {group: values[name] for group, values in found.items()}
            results[name] = LayerEstimates(
                mean={group: value.tolist() for group, value in mean.items()},
                low={group: (value - errors[group][name]).tolist() for group, value in mean.items()},
                high={group: (value + errors[group][name]).tolist() for group, value in mean.items()},
                n=self.n,
                seed=seed,
            )
        return results

    def _ranks(self, sums: Float[Tensor, "steps width width"]) -> dict[str, Float[Tensor, " steps"]]:
        return ranks(doubled(sums).cpu(), noise=len(sums[0]) * torch.finfo(torch.float32).eps)

    def _errors(self, sums: Float[Tensor, "parts steps width width"]) -> dict[str, Float[Tensor, " steps"]]:
        """Return half the width of each jackknife interval."""
        used = min(-(-self.n // TOGETHER), self.parts)
        if used < FEWEST_PARTS:
            return {name: torch.full((sums.shape[1],), torch.nan) for name in ranks(torch.eye(2))}
        whole = sums.sum(dim=0)
        without = [self._ranks(whole - sums[part]) for part in range(used)]
        wide = float(stdtrit(used - 1, (1 + LEVEL) / 2)) * (used - 1) ** 0.5
        return {
            name: wide * torch.stack([one[name] for one in without]).std(dim=0, correction=0) for name in without[0]
        }

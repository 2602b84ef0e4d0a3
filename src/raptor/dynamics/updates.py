"""Low-rank collective motion: how many directions updates take, and how far tokens move together (Figure 10)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from scipy.special import stdtrit
from torch import Tensor

from raptor.device import doubled
from raptor.dynamics.by_layer import ByLayer
from raptor.dynamics.motion import Motion
from raptor.processes import ALONE
from raptor.resampling import LEVEL, BinnedMean

BUDGET = 2**30  # bytes of second moments that are kept, in as many parts as fit
MOST_PARTS, FEWEST_PARTS = 8, 4  # parts of the images that intervals come from; below there are none
FEW = 8  # tokens of a group whose moments are summed in double precision: few rows leave small directions to rounding
TOGETHER = 4  # images that follow one another go to one part: fewer and larger products


def ranks(
    second_moment: Float[Tensor, "*parts width width"], noise: float = 0.0
) -> dict[str, Float[Tensor, " *parts"]]:
    """Return three effective ranks of a matrix U of updates, from U^T U; shares of it up to `noise` count as none.

    `stable_rank` is |U|_F^2 / |U|_2^2; `entropy_rank` the exponential of the entropy of the singular values' shares
    (Roy and Vetterli 2007); `participation_ratio` (sum s^2)^2 / sum s^4.
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


class UpdateRanks:
    """Ranks of the matrix of all updates of a group, of all tokens and images, at each step.

    One second moment streams, d x d, for each step and group; images are parted so that intervals can leave some out,
    in as many parts as fit into a gigabyte.
    """

    def __init__(self) -> None:
        self.n, self.parts, self.team = 0, 0, ALONE
        self.sums: dict[str, Tensor] = {}

    def add(self, motion: Motion) -> None:
        """Take in a batch."""
        groups, steps, width = motion.layout.slices, len(motion.updates), motion.updates[0].shape[-1]
        if not self.parts:
            exact = {group: motion.layout.counts[group] <= FEW for group in groups}
            one = sum(8 if double else 4 for double in exact.values()) * steps * width**2
            self.parts = max(1, min(MOST_PARTS, BUDGET // one))
            shape, at = (self.parts, steps, width, width), motion.updates[0].device
            # Double precision is on the CPU: not every device has it.
            self.sums = {
                group: torch.zeros(shape, dtype=torch.float64) if double else torch.zeros(shape, device=at)
                for group, double in exact.items()
            }
        first = self.n + motion.first
        part = torch.arange(first, first + motion.own) // TOGETHER % self.parts
        for number in part.unique().tolist():
            of_part = (part == number).to(motion.updates[0].device)
            for step, update in enumerate(motion.updates):
                own = update[: motion.own] if of_part.all() else update[: motion.own][of_part]
                for group, where in groups.items():
                    rows = own[:, where].flatten(0, 1).to(self.sums[group])
                    self.sums[group][number, step].addmm_(rows.T, rows)
        self.n, self.team = self.n + motion.n, motion.team

    def result(self, seed: int = 0) -> dict[str, ByLayer]:
        """Return the three ranks; there are no intervals where too few parts fit.

        Intervals are the jackknife's, by leaving out a part: a bootstrap would repeat images, which lowers ranks.
        """
        sums = {group: self.team.summed(own) for group, own in self.sums.items()}
        found = {group: self._ranks(parts.sum(dim=0)) for group, parts in sums.items()}
        errors = {group: self._errors(parts) for group, parts in sums.items()}
        results = {}
        for name in next(iter(found.values())):
            mean = {group: values[name] for group, values in found.items()}
            results[name] = ByLayer(
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
        """Return half the width of each interval."""
        used = min(-(-self.n // TOGETHER), self.parts)
        if used < FEWEST_PARTS:
            return {name: torch.full((sums.shape[1],), torch.nan) for name in ranks(torch.eye(2))}
        whole = sums.sum(dim=0)
        without = [self._ranks(whole - sums[part]) for part in range(used)]
        wide = float(stdtrit(used - 1, (1 + LEVEL) / 2)) * (used - 1) ** 0.5
        return {
            name: wide * torch.stack([one[name] for one in without]).std(dim=0, correction=0) for name in without[0]
        }


class Coherence:
    """kappa_l: the mean cosine of the tokens' updates of an image with their mean; groups of one token have none.

    Independent updates of N tokens have 1 / sqrt(N): `floor`.
    """

    def __init__(self) -> None:
        self.means: dict[str, BinnedMean] = {}
        self.floor: dict[str, float] = {}

    def add(self, motion: Motion) -> None:
        """Take in a batch."""
        for group, where in motion.layout.slices.items():
            n = motion.layout.counts[group]
            if n == 1:
                continue
            cosines = []
            for step, update in enumerate(motion.updates):
                tokens = update[:, where]
                mean = tokens.mean(dim=1)
                # The mean of <u_i, m> / |u_i| is <mean of u_i / |u_i|, m>.
                lengths = motion.update_norms[:, step, where].clamp(min=torch.finfo(tokens.dtype).tiny)
                along = torch.einsum("bt,btd->bd", 1 / lengths, tokens) / n
                cosines.append((along * mean).sum(dim=-1) / mean.norm(dim=-1).clamp(min=torch.finfo(mean.dtype).tiny))
            self.means.setdefault(group, BinnedMean()).add(motion.whole(torch.stack(cosines, dim=1)))
            self.floor[group] = n**-0.5

    def result(self, seed: int = 0) -> ByLayer:
        """Return means over images."""
        return ByLayer.of(self.means, seed)

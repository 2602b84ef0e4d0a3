"""Angular speed of tokens."""

from __future__ import annotations

from torch import Tensor

from raptor.core.bootstrap import percentile_interval
from raptor.core.estimate import LayerEstimates
from raptor.dynamics.curves.group_means import GroupMeans
from raptor.dynamics.curves.registry import measure
from raptor.dynamics.measures import StateBatch
from raptor.runtime.device import doubled


@measure(
    "speed_std", of="steps", label="standard deviation of speed (radians)", column="speed std",
    figure=False, method="standard_deviation",
)  # fmt: skip
@measure("speed", of="steps", label="angle between layers (radians)", figure=False)
class Speed:
    """s_l, the angle between the directions at the layers l and l + 1, at the steps 0..L-1 (Figure 9 of the paper)."""

    def __init__(self) -> None:
        self.first, self.second = GroupMeans(), GroupMeans()

    def update(self, batch: StateBatch) -> None:
        """Add a batch."""
        angles = doubled(batch.angles)  # a variance is a small difference of large squares
        self.first.add(batch, angles)
        self.second.add(batch, angles.square())

    def compute(self, seed: int = 0) -> LayerEstimates:
        """Return mean angles in radians."""
        return self.first.compute(seed)

    def standard_deviation(self, seed: int = 0) -> LayerEstimates:
        """Return the standard deviation over tokens and images, in radians."""
        mean, low, high = {}, {}, {}
        for group in self.first.means:
            first, second = self.first.means[group], self.second.means[group]
            mean[group] = _deviation(first.mean(), second.mean()).tolist()
            # The same seed draws the same images for both moments.
            ends = percentile_interval(_deviation(first.resample(seed=seed), second.resample(seed=seed)))
            low[group], high[group] = (end.tolist() for end in ends)
        return LayerEstimates(mean, low, high, next(iter(self.first.means.values())).n, seed)


def _deviation(first: Tensor, second: Tensor) -> Tensor:
    return (second - first.square()).clamp(min=0).sqrt()

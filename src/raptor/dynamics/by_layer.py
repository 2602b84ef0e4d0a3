"""Numbers by layer and token group, with their intervals."""

from __future__ import annotations

from dataclasses import dataclass

from raptor.resampling import BinnedMean


@dataclass(frozen=True)
class ByLayer:
    """A measure by layer and token group: its mean over images and tokens, with a 95% interval over images.

    Parameters
    ----------
    mean, low, high
        By group, one number a layer.
    n, seed
        Number of images; seed of the bootstrap.
    """

    mean: dict[str, list[float]]
    low: dict[str, list[float]]
    high: dict[str, list[float]]
    n: int
    seed: int

    @property
    def ci(self) -> dict[str, list[list[float]]]:
        """Intervals as the JSON has them: `[lows, highs]` by group."""
        return {group: [self.low[group], self.high[group]] for group in self.mean}

    @classmethod
    def of(cls, means: dict[str, BinnedMean], seed: int = 0) -> ByLayer:
        """Summarise running means, one a group."""
        intervals = {group: mean.interval(seed=seed) for group, mean in means.items()}
        return cls(
            mean={group: mean.mean().tolist() for group, mean in means.items()},
            low={group: low.tolist() for group, (low, _) in intervals.items()},
            high={group: high.tolist() for group, (_, high) in intervals.items()},
            n=max((mean.n for mean in means.values()), default=0),  # a measure may have no group here
            seed=seed,
        )

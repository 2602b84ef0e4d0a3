"""A number with its interval, and the same by layer and token group."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:  # results can be read and shown without torch
    from torch import Tensor

    from raptor.core.bootstrap import BinnedMean

T = TypeVar("T")


@dataclass(frozen=True)
class Estimate(Generic[T]):
    """A measured value with its 95% bootstrap interval over images.

    Parameters
    ----------
    value
        The number, or nested lists of numbers (by layer, by phase, ...).
    low, high
        Ends of the interval, of the same shape; NaN if there is none, as for a single image.
    n
        Number of images; 0 if it was not recorded.
    """

    value: T
    low: T
    high: T
    n: int = 0

    @property
    def ci(self) -> list[T]:
        """The interval as in result.json: `[low, high]`."""
        return [self.low, self.high]

    def map(self, change: Callable[[T], T]) -> Estimate[T]:
        """Apply a function that never falls, such as a change of units, to the value and to the interval."""
        return Estimate(change(self.value), change(self.low), change(self.high), self.n)

    @classmethod
    def from_draws(cls, value: Tensor, draws: Tensor, n: int = 0) -> Estimate[Any]:
        """Summarise a value and its resampled values, whose first axis is the draw."""
        from raptor.core.bootstrap import percentile_interval

        low, high = percentile_interval(draws)
        return Estimate(value.tolist(), low.tolist(), high.tolist(), n)

    @classmethod
    def from_mean(cls, mean: BinnedMean, seed: int = 0) -> Estimate[Any]:
        """Summarise a running mean over images."""
        low, high = mean.interval(seed=seed)
        return Estimate(mean.mean().tolist(), low.tolist(), high.tolist(), mean.n)


@dataclass(frozen=True)
class LayerEstimates:
    """A measure by layer and token group: its mean over images and tokens, with a 95% interval over images.

    Parameters
    ----------
    mean, low, high
        By group, one number per layer.
    n, seed
        Number of images; seed of the bootstrap.
    """

    mean: dict[str, list[float]]
    low: dict[str, list[float]]
    high: dict[str, list[float]]
    n: int = 0
    seed: int = 0

    @property
    def ci(self) -> dict[str, list[list[float]]]:
        """Intervals as in result.json: `[lows, highs]` by group."""
        return {group: [self.low[group], self.high[group]] for group in self.mean}

    @property
    def groups(self) -> Iterable[str]:
        """Names of the token groups."""
        return self.mean.keys()

    def at(self, group: str, index: int) -> Estimate[float]:
        """Return the estimate of one group at one layer or step (an index into the lists)."""
        return Estimate(self.mean[group][index], self.low[group][index], self.high[group][index], self.n)

    @classmethod
    def of(cls, means: dict[str, BinnedMean], seed: int = 0) -> LayerEstimates:
        """Summarise running means, one per group."""
        estimates = {group: Estimate.from_mean(mean, seed) for group, mean in means.items()}
        return cls(
            mean={group: one.value for group, one in estimates.items()},
            low={group: one.low for group, one in estimates.items()},
            high={group: one.high for group, one in estimates.items()},
            n=max((mean.n for mean in means.values()), default=0),  # a measure may have no group here
            seed=seed,
        )

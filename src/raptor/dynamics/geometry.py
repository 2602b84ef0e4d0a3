"""The geometry of depth: what a token's state does from layer to layer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from raptor.flow import DepthFlow, pixels_of, rollout
from raptor.resampling import BinnedMean


@dataclass(frozen=True)
class ByLayer:
    """A measure by layer and token group: its mean over images and tokens, with a 95% interval over images.

    `mean[group]`, `low[group]` and `high[group]` have one number a layer.
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


def layer_norms(flow: DepthFlow, images: Iterable[Any], seed: int = 0) -> ByLayer:
    """Return the mean norm |x_l| of each token group at the layers 0..L (the paper's Figure 7).

    Parameters
    ----------
    flow
        Teacher, surrogate or toy.
    images
        Batches of pixels, (batch, 3, height, width) each, or whatever `load_images` gives; one batch and one layer
        are held at a time.
    seed
        Of the bootstrap over images.
    """
    means = {group: BinnedMean() for group in flow.layout.slices}
    for pixels in pixels_of(images):
        norms: list[Tensor] = []
        with torch.no_grad():
            rollout(flow, flow.embed(pixels), on_state=lambda layer, states: norms.append(states.norm(dim=-1)))  # noqa: B023
        stacked = torch.stack(norms, dim=1)
        for group, where in flow.layout.slices.items():
            means[group].add(stacked[:, :, where].mean(dim=-1))
    intervals = {group: mean.interval(seed=seed) for group, mean in means.items()}
    return ByLayer(
        mean={group: mean.mean().tolist() for group, mean in means.items()},
        low={group: low.tolist() for group, (low, _) in intervals.items()},
        high={group: high.tolist() for group, (_, high) in intervals.items()},
        n=next(iter(means.values())).n,
        seed=seed,
    )

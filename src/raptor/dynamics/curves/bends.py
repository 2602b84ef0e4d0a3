"""How straight trajectories are: the cosine of consecutive updates, and curvature beside that of shuffled layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from raptor.core.bootstrap import BinnedMean
from raptor.core.estimate import LayerEstimates
from raptor.dynamics.curves.registry import measure
from raptor.dynamics.measures import StateBatch
from raptor.runtime.device import doubled

MOST = 64  # images
SHUFFLES = 8


@measure(
    "curvature_shuffled", of="bends", label="curvature of shuffled layers (radians)", column=None,
    figure=False,
)  # fmt: skip
@measure(
    "curvature", of="bends", label="angle between consecutive updates (radians)", column=None,
    caption="Curvature: the angle between the updates of two consecutive steps. It is 0 on a straight path, and pi / 2 "
    "if updates are unrelated.", chapter="reorient", title="How much do paths bend?",
)  # fmt: skip
@measure(
    "update_cosine", of="bends", label="cosine of consecutive updates", column="update cosine", figure=False
)  # fmt: skip
class Bends:
    """Cosine and angle between the updates x_{l+1} - x_l of the steps l and l + 1, l = 0..L-2, of the first images."""

    def __init__(self) -> None:
        self.n = 0
        self.means: dict[str, dict[str, BinnedMean]] = {}

    def update(self, batch: StateBatch) -> None:
        """Add a batch, until there are enough images."""
        kept = min(batch.n, MOST - self.n)
        if kept <= 0:
            return
        self.n += kept
        own = max(0, min(batch.own, kept - batch.first))  # images of this process; at least one is computed
        layers, generator = len(batch.states), torch.Generator().manual_seed(0)
        drawn = torch.stack([torch.randperm(layers, generator=generator) for _ in range(SHUFFLES)])
        distances = squared_distances([states[: max(1, own)] for states in batch.states])
        cosines = consecutive_cosines(distances, torch.arange(layers))
        values = {
            "update_cosine": cosines,
            "curvature": angle_of(cosines),
            "curvature_shuffled": angle_of(consecutive_cosines(distances, drawn)).mean(dim=0),
        }
        for name, found in values.items():
            for group, where in batch.layout.slices.items():
                mean = found[:, :own, where].mean(dim=-1).T
                self.means.setdefault(name, {}).setdefault(group, BinnedMean()).add(
                    batch.process_group.all_gather(mean)
                )

    def compute(self, seed: int = 0) -> dict[str, LayerEstimates]:
        """Return means over tokens and images, by name."""
        return {name: LayerEstimates.of(means, seed) for name, means in self.means.items()}


def angle_of(cosines: Tensor) -> Tensor:
    """Return angles in radians; cosines may be outside [-1, 1] by rounding."""
    return cosines.clamp(-1, 1).arccos()


def squared_distances(
    states: Sequence[Float[Tensor, "batch tokens width"]],
) -> Float[Tensor, "layers layers batch tokens"]:
    """Return |x_l - x_m|^2 for the states of each token at any two layers (one tensor each), in double precision.

    They come from inner products of states about their mean over layers: differences do not depend on the mean, and
    lose fewer digits without it.
    """
    centred = torch.stack(list(states))
    centred -= centred.mean(dim=0)
    rows = centred.permute(1, 2, 0, 3)
    products = doubled(rows @ rows.mT).permute(2, 3, 0, 1).contiguous()
    squares = products.diagonal().permute(2, 0, 1)
    return (squares[:, None] + squares - 2 * products).clamp(min=0)


def consecutive_cosines(
    distances: Float[Tensor, "layers layers batch tokens"], order: Int[Tensor, "*draws layers"]
) -> Float[Tensor, "*draws steps batch tokens"]:
    """Return the cosines between consecutive updates for an order of the layers; NaN where a state does not move.

    By the law of cosines: 2 <b - a, c - b> = |c - a|^2 - |b - a|^2 - |c - b|^2.

    Parameters
    ----------
    distances
        From `squared_distances`.
    order
        One order of the layers, or several.
    """
    a, b, c = order[..., :-2], order[..., 1:-1], order[..., 2:]
    one, other = distances[a, b], distances[b, c]
    return (distances[a, c] - one - other) / (2 * (one * other).sqrt())

"""How straight trajectories are: the cosine of consecutive updates, and curvature beside that of shuffled layers."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from raptor.core.bootstrap import BinnedMean
from raptor.core.estimate import LayerEstimates
from raptor.dynamics.curves.registry import measure
from raptor.dynamics.measures import StateBatch
from raptor.runtime.device import doubled

MOST = 64  # images
SHUFFLES = 8


@measure(
    "curvature_shuffled", of="steps", label="curvature of shuffled layers (radians)", column=None, compared=False,
    figure=False,
)  # fmt: skip
@measure(
    "curvature", of="steps", label="angle between consecutive updates (radians)", column=None, compared=False,
    caption="Curvature: the angle between the updates of the steps l and l + 1.",
)  # fmt: skip
@measure(
    "update_cosine", of="steps", label="cosine of consecutive updates", column="update cosine", figure=False
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
        states = torch.stack([states[: max(1, own)] for states in batch.states], dim=2)
        generator = torch.Generator().manual_seed(0)
        drawn = [torch.randperm(states.shape[2], generator=generator) for _ in range(SHUFFLES)]
        products = layer_products(states)
        cosines = consecutive_cosines(products)
        shuffled = [angle_of(consecutive_cosines(products[..., one, :][..., one])) for one in drawn]
        values = {
            "update_cosine": cosines,
            "curvature": angle_of(cosines),
            "curvature_shuffled": torch.stack(shuffled).mean(0),
        }
        for name, found in values.items():
            for group, where in batch.layout.slices.items():
                mean = found[:own, where].mean(dim=1)
                self.means.setdefault(name, {}).setdefault(group, BinnedMean()).add(
                    batch.process_group.all_gather(mean)
                )

    def compute(self, seed: int = 0) -> dict[str, LayerEstimates]:
        """Return means over tokens and images, by name."""
        return {name: LayerEstimates.of(means, seed) for name, means in self.means.items()}


def angle_of(cosines: Tensor) -> Tensor:
    """Return angles in radians; cosines may be outside [-1, 1] by rounding."""
    return cosines.clamp(-1, 1).arccos()


def layer_products(states: Float[Tensor, "batch tokens layers width"]) -> Float[Tensor, "batch tokens layers layers"]:
    """Return the inner products of a token's states at all layers, about their mean, in double precision.

    Any order of layers needs only these. Differences of states do not depend on the mean, and lose fewer digits
    without it.
    """
    centred = states - states.mean(dim=2, keepdim=True)
    return doubled(centred @ centred.mT)


def consecutive_cosines(
    products: Float[Tensor, "batch tokens layers layers"],
) -> Float[Tensor, "batch tokens steps"]:
    """Return the cosines between consecutive updates, given `layer_products`; NaN where a state does not move."""
    # <x_{l+1} - x_l, x_{m+1} - x_m> for all steps l, m.
    updates = products.diff(dim=-1).diff(dim=-2)
    squares = updates.diagonal(dim1=-2, dim2=-1)
    lengths = squares.clamp(min=0).sqrt()
    return updates.diagonal(offset=1, dim1=-2, dim2=-1) / (lengths[..., :-1] * lengths[..., 1:])

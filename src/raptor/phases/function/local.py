r"""Functional similarity: what block m does to the input of layer l, against what layer l does to it.

With x_l the state before layer l + 1, f_m the step of the model at layer m and u_m(x) = f_m(x) - x its update:

- update_cosine[l, m] is the cosine of u_m(x_l) and u_l(x_l), averaged over the tokens of a group and over images;
- relative_error[l, m] is |u_m(x_l) - u_l(x_l)| / |u_l(x_l)|, the median over the tokens of a group, averaged over
  images. It is 0 if block m can stand in for layer l, and 1 for a block that does nothing.

Rows are the layers 1..L whose input is used, columns the layers 1..L whose block is applied.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from raptor.core.batches import ImageSource
from raptor.core.bootstrap import BinnedMean
from raptor.core.flow import DepthFlow, layers_of
from raptor.errors import MatrixError
from raptor.phases.similarity import ALL, check_group
from raptor.runtime.distributed import sharded_pixels

NEGLIGIBLE = 1e-6  # updates smaller than this share of the state count as that share, so that errors stay finite

States = Float[Tensor, "batch tokens width"]


@dataclass
class FunctionalSimilarity:
    """How far each block can stand in for each layer, by token group; means over images of matrices (L, L).

    Parameters
    ----------
    cosines, errors
        By group: running means over images of the update cosine and of the relative error.
    """

    cosines: dict[str, BinnedMean] = field(default_factory=dict)
    errors: dict[str, BinnedMean] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Number of images."""
        return max((mean.n for mean in self.cosines.values()), default=0)

    @property
    def groups(self) -> list[str]:
        """Names of the token groups."""
        return list(self.cosines)

    def update_cosine(self, group: str = ALL) -> Float[Tensor, "layers layers"]:
        """Return the mean update cosine; the diagonal is 1."""
        return self.cosines[check_group(group, self.groups)].mean()

    def relative_error(self, group: str = ALL) -> Float[Tensor, "layers layers"]:
        """Return the mean relative error; the diagonal is 0."""
        return self.errors[check_group(group, self.groups)].mean()

    def symmetric(self, group: str = ALL) -> BinnedMean:
        """Return the update cosine averaged over both directions, which can be partitioned like a similarity."""
        return self.cosines[check_group(group, self.groups)].symmetrised()


@torch.no_grad()
def functional_similarity(flow: DepthFlow, images: ImageSource) -> FunctionalSimilarity:
    """Apply every block to the input of every layer, and compare its update with the layer's own.

    Parameters
    ----------
    flow
        A teacher, a surrogate or a toy.
    images
        Batches of pixels, or what `load_images` returned. One batch is in memory at a time, with its states at all
        layers. The cost is that of L forward passes.
    """
    found = FunctionalSimilarity()
    for pixels, gathered in sharded_pixels(images):
        states = [states for _, states in layers_of(flow, flow.embed(pixels))]
        slices = {**flow.layout.slices, ALL: slice(None)}
        cosine = {name: states[0].new_zeros(len(pixels), flow.depth, flow.depth) for name in slices}
        error = {name: torch.zeros_like(values) for name, values in cosine.items()}
        for layer in range(flow.depth):
            own = states[layer + 1] - states[layer]
            size = own.norm(dim=-1)
            least = torch.maximum(size, NEGLIGIBLE * states[layer].norm(dim=-1)).clamp(min=1e-30)
            for block in range(flow.depth):
                if block == layer:
                    alike, off = torch.ones_like(size), torch.zeros_like(size)
                else:
                    alike, off = _compare(flow.step(states[layer], block), states[layer], states[layer + 1], own, size)
                for name, where in slices.items():
                    cosine[name][:, layer, block] = alike[:, where].mean(dim=1)
                    error[name][:, layer, block] = (off / least)[:, where].median(dim=1).values
        for name in slices:
            if not torch.isfinite(cosine[name]).all():
                raise MatrixError("updates are not finite at some layer: check the weights, or compute in float32")
            found.cosines.setdefault(name, BinnedMean()).add(gathered(cosine[name]))
            found.errors.setdefault(name, BinnedMean()).add(gathered(error[name]))
    if not found.n:
        raise MatrixError("functional similarity needs at least one image")
    return found


def _compare(
    reached: States, state: States, truth: States, own: States, size: Float[Tensor, "batch tokens"]
) -> tuple[Float[Tensor, "batch tokens"], Float[Tensor, "batch tokens"]]:
    """Return the cosine of an update with the layer's own, 0 where one is zero, and the norm of their difference."""
    off = (reached - truth).norm(dim=-1)
    update = reached.sub_(state)  # in place: the state that a step returns is new
    product = torch.einsum("...d,...d->...", update, own)
    return product / (update.norm(dim=-1) * size).clamp(min=1e-30), off

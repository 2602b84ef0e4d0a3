"""Layer-layer similarity in one pass over images, in memory that does not depend on their number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from raptor.core.batches import ImageSource
from raptor.core.bootstrap import BinnedMean
from raptor.core.flow import DepthFlow, layers_of
from raptor.core.tokens import TokenLayout
from raptor.core.trajectory import Trajectory
from raptor.errors import LayoutError, MatrixError
from raptor.phases.cka import StreamedCKA
from raptor.runtime.distributed import sharded_pixels

ALL = "all"
RECIPE = "cls+mean-patch"  # the released recipe: the cls token and the mean patch


def groups_of(layout: TokenLayout) -> list[str]:
    """Return the names of the token groups that have a similarity matrix."""
    recipe = [RECIPE] if {"cls", "patch"} <= set(layout.slices) else []
    return [*layout.slices, ALL, *recipe]


def check_group(group: str, present: list[str]) -> str:
    """Return the group if it is present; raise otherwise."""
    if group not in present:
        raise LayoutError(f"this model has no token group {group!r}; it has {', '.join(present)}")
    return group


@dataclass
class Similarity:
    """Mean cosine between layers, by token group.

    Parameters
    ----------
    first_layer
        The layer of the first row: 0 is the embedding, which is in no phase.
    cosines
        By group: running mean over images of the cosine between a token at one layer and the same token at another,
        averaged over the tokens of the group. Shape (layers, layers).
    ckas
        By group: unbiased linear CKA of the group's mean token.
    """

    first_layer: int = 0
    cosines: dict[str, BinnedMean] = field(default_factory=dict)
    ckas: dict[str, StreamedCKA] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Number of images."""
        return max((mean.n for mean in self.cosines.values()), default=0)

    @property
    def groups(self) -> list[str]:
        """Names of the token groups."""
        return list(self.cosines)

    def matrix(self, group: str = ALL) -> Float[np.ndarray, "layers layers"]:
        """Return S for all measured layers, `first_layer` to L."""
        return self._binned(group).mean().numpy()

    def without_embedding(self, group: str = ALL) -> BinnedMean:
        """Return the running mean of S over images for the layers 1..L: layer 0 is in no phase."""
        deep = slice(max(0, 1 - self.first_layer), None)
        return self._binned(group).part((deep, deep))

    def _binned(self, group: str) -> BinnedMean:
        return self.cosines[check_group(group, self.groups)]

    def cka(self, group: str = ALL) -> Float[np.ndarray, "layers layers"] | None:
        """Return CKA for all measured layers; None with fewer than four images and for `cls+mean-patch`."""
        found = self.ckas[group].matrix() if check_group(group, self.groups) in self.ckas else None
        return None if found is None else found.numpy()

    def add(
        self,
        states: Float[Tensor, "batch tokens layers width"],
        layout: TokenLayout | None,
        all_gather: Callable[[Tensor], Tensor] = lambda rows: rows,
    ) -> None:
        """Add a batch of trajectories.

        Parameters
        ----------
        states
            States of all layers, with the layers of a token side by side.
        layout
            Token groups; None makes all tokens one group.
        all_gather
            With several processes, each holds a part of the batch: returns the rows of all of them.
        """
        slices = {} if layout is None else layout.slices
        states = states.to(torch.promote_types(states.dtype, torch.float32))
        grams = states @ states.mT
        if not torch.isfinite(grams).all():
            raise MatrixError("states are not finite at some layer: check the weights, or compute in float32")
        cosine = _cosine(grams)
        by_group = {name: cosine[:, where].mean(dim=1) for name, where in slices.items()}
        by_group[ALL] = cosine.mean(dim=1)
        means = {name: states[:, where].mean(dim=1) for name, where in {**slices, ALL: slice(None)}.items()}
        if {"cls", "patch"} <= set(slices):
            patch = means["patch"]
            by_group[RECIPE] = (by_group["cls"] + _cosine(patch @ patch.mT)) / 2
        for name, values in by_group.items():
            self.cosines.setdefault(name, BinnedMean()).add(all_gather(values))
        for name, vectors in means.items():
            self.ckas.setdefault(name, StreamedCKA()).add(all_gather(vectors))

    def add_states(self, states: Tensor, layout: TokenLayout | None) -> None:
        """Add states (images, layers, tokens, width) that are in memory, a few images at a time."""
        if states.ndim != 4 or not states.is_floating_point():
            raise MatrixError(
                f"states are floating-point (images, layers, tokens, width), not {states.dtype} {tuple(states.shape)}"
            )
        for batch in states.split(32):
            self.add(batch.transpose(1, 2), layout)


def _cosine(grams: Float[Tensor, "*n layers layers"]) -> Float[Tensor, "*n layers layers"]:
    """Divide products by norms in double precision; the cosine of a zero vector is 0."""
    grams = grams.cpu().double()  # to the CPU first: not every device has double precision
    norm = grams.diagonal(dim1=-2, dim2=-1).clamp(min=0).sqrt()
    inverse = torch.where(norm > 0, 1 / norm, torch.zeros_like(norm))
    return (grams * inverse[..., :, None] * inverse[..., None, :]).clamp(-1, 1)


def layer_similarity(
    source: DepthFlow | Trajectory | NDArray[Any] | Tensor, images: ImageSource | None = None
) -> Similarity:
    """Measure the similarity between the states of every two layers.

    Parameters
    ----------
    source
        A flow (teacher, surrogate, toy), a trajectory, or an array of states (images, layers, tokens, width) or
        (images, layers, width), whose first layer is 0, the embedding.
    images
        For a flow: batches of pixels, or what `load_images` returned. One batch is in memory at a time.

    Returns
    -------
    Similarity
        Of each token group of the flow, of `all` tokens and of the released recipe `cls+mean-patch`.
    """
    similarity = Similarity()
    if isinstance(source, DepthFlow):
        if images is None:
            raise MatrixError("the similarity of a model's layers needs images: pass images=")
        for pixels, gathered in sharded_pixels(images):
            similarity.add(_trajectory(source, pixels), source.layout, gathered)
    elif isinstance(source, Trajectory):
        similarity.first_layer = source.first_layer
        similarity.add_states(source.states, source.layout)
    elif isinstance(source, (np.ndarray, Tensor)):
        states = torch.as_tensor(np.ascontiguousarray(source) if isinstance(source, np.ndarray) else source)
        similarity.add_states(states[:, :, None] if states.ndim == 3 else states, None)
    else:
        raise MatrixError(f"similarity takes a flow, a trajectory or an array, not {type(source).__name__}")
    if not similarity.n:
        raise MatrixError("similarity needs at least one image")
    return similarity


@torch.no_grad()
def _trajectory(flow: DepthFlow, pixels: Tensor) -> Float[Tensor, "batch tokens layers width"]:
    """Return the states of a batch at all layers, with the layers of a token side by side."""
    whole: Tensor | None = None
    for layer, states in layers_of(flow, flow.embed(pixels)):
        if whole is None:
            whole = states.new_empty((*states.shape[:2], flow.depth + 1, states.shape[2]))
        whole[:, :, layer] = states
    assert whole is not None
    return whole

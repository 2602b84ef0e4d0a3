"""Layer-layer similarity in one pass over images, in memory that does not grow with their number."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from raptor.cka import StreamedCKA
from raptor.errors import LayoutError, MatrixError
from raptor.flow import DepthFlow, layers_of, shared_pixels
from raptor.resampling import BinnedMean
from raptor.tokens import TokenLayout
from raptor.trajectory import Trajectory

ALL = "all"
RECIPE = "cls+mean-patch"  # what the released code compares: the cls token and the mean patch


def groups_of(layout: TokenLayout) -> list[str]:
    """Return the groups of tokens that have a similarity matrix."""
    recipe = [RECIPE] if {"cls", "patch"} <= set(layout.slices) else []
    return [*layout.slices, ALL, *recipe]


def check_group(group: str, present: list[str]) -> str:
    """Return the group if it is there; an absent one is an error that lists those present."""
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
        By group: the mean over its tokens of the cosine of a token at one layer with itself at another; one
        matrix an image, binned so that images can be resampled.
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
        """The token groups that there are."""
        return list(self.cosines)

    def matrix(self, group: str = ALL) -> Float[np.ndarray, "layers layers"]:
        """Return S for all layers that were seen, from `first_layer` to L."""
        return self._binned(group).mean().numpy()

    def without_embedding(self, group: str = ALL) -> BinnedMean:
        """Return S of the layers 1..L with the images that it is the mean of: layer 0 is in no phase."""
        deep = slice(max(0, 1 - self.first_layer), None)
        return self._binned(group).part((deep, deep))

    def _binned(self, group: str) -> BinnedMean:
        return self.cosines[check_group(group, self.groups)]

    def cka(self, group: str = ALL) -> Float[np.ndarray, "layers layers"] | None:
        """Return CKA for all layers that were seen; None with fewer than four images, and for the released recipe."""
        found = self.ckas[group].matrix() if check_group(group, self.groups) in self.ckas else None
        return None if found is None else found.numpy()

    def add(
        self,
        states: Float[Tensor, "batch tokens layers width"],
        layout: TokenLayout | None,
        whole: Callable[[Tensor], Tensor] = lambda rows: rows,
    ) -> None:
        """Add a batch of trajectories; without a layout all tokens are one group.

        Of several processes each has a part of the batch, and `whole` gives the rows of all.
        """
        slices = {} if layout is None else layout.slices
        states = states.to(torch.promote_types(states.dtype, torch.float32))
        grams = states @ states.mT
        if not torch.isfinite(grams).all():
            raise MatrixError(
                "states are not finite at some layer, so there is no cosine: check the weights, or compute in float32"
            )
        cosine = _cosine(grams)
        by_group = {name: cosine[:, where].mean(dim=1) for name, where in slices.items()}
        by_group[ALL] = cosine.mean(dim=1)
        means = {name: states[:, where].mean(dim=1) for name, where in {**slices, ALL: slice(None)}.items()}
        if {"cls", "patch"} <= set(slices):
            patch = means["patch"]
            by_group[RECIPE] = (by_group["cls"] + _cosine(patch @ patch.mT)) / 2
        for name, values in by_group.items():
            self.cosines.setdefault(name, BinnedMean()).add(whole(values))
        for name, vectors in means.items():
            self.ckas.setdefault(name, StreamedCKA()).add(whole(vectors))

    def add_states(self, states: Tensor, layout: TokenLayout | None) -> None:
        """Add states that are all in memory, (images, layers, tokens, width), a few images at a time."""
        if states.ndim != 4 or not states.is_floating_point():
            raise MatrixError(
                f"states are real numbers (images, layers, tokens, width), not {states.dtype} of {tuple(states.shape)}"
            )
        for batch in states.split(32):
            self.add(batch.transpose(1, 2), layout)


def _cosine(grams: Float[Tensor, "*n layers layers"]) -> Float[Tensor, "*n layers layers"]:
    """Divide products by norms, in double precision; the cosine of a zero vector is nought."""
    grams = grams.cpu().double()  # on the CPU first: not every device has double precision
    norm = grams.diagonal(dim1=-2, dim2=-1).clamp(min=0).sqrt()
    inverse = torch.where(norm > 0, 1 / norm, torch.zeros_like(norm))
    return (grams * inverse[..., :, None] * inverse[..., None, :]).clamp(-1, 1)


def layer_similarity(
    source: DepthFlow | Trajectory | NDArray[Any] | Tensor, images: Iterable[Any] | None = None
) -> Similarity:
    """Measure how alike the states of any two layers are.

    Parameters
    ----------
    source
        A flow (teacher, surrogate, toy); or a trajectory; or states, an array (images, layers, tokens, width) or, for
        one vector an image, (images, layers, width), whose first layer is 0, the embedding.
    images
        For a flow: batches of pixels, or whatever `load_images` gives. One batch is held at a time.

    Returns
    -------
    Similarity
        For each token group of the flow, for `all` tokens and for the released recipe `cls+mean-patch`.
    """
    similarity = Similarity()
    if isinstance(source, DepthFlow):
        if images is None:
            raise MatrixError("the similarity of a model's layers is measured on images: give some")
        for pixels, whole in shared_pixels(images):
            similarity.add(_trajectory(source, pixels), source.layout, whole)
    elif isinstance(source, Trajectory):
        similarity.first_layer = source.first_layer
        similarity.add_states(source.states, source.layout)
    elif isinstance(source, (np.ndarray, Tensor)):
        states = torch.as_tensor(np.ascontiguousarray(source) if isinstance(source, np.ndarray) else source)
        similarity.add_states(states[:, :, None] if states.ndim == 3 else states, None)
    else:
        raise MatrixError(f"similarity is measured on a flow, a trajectory or an array, not on {type(source).__name__}")
    if not similarity.n:
        raise MatrixError("similarity needs at least one image")
    return similarity


@torch.no_grad()
def _trajectory(flow: DepthFlow, pixels: Tensor) -> Float[Tensor, "batch tokens layers width"]:
    """Return all states of a batch with the layers of a token side by side, written there as they come."""
    whole: Tensor | None = None
    for layer, states in layers_of(flow, flow.embed(pixels)):
        if whole is None:
            whole = states.new_empty((*states.shape[:2], flow.depth + 1, states.shape[2]))
        whole[:, :, layer] = states
    assert whole is not None
    return whole

"""Outliers as a token group of their own: a flow whose tokens are in another order in each image."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from raptor.core.flow import DepthFlow, Head, ReorderedFlow, last_state
from raptor.errors import LayoutError

Tokens = Float[Tensor, "batch tokens width"]
Places = Int[Tensor, "batch tokens"]


class OutlierOrder:
    """The order of tokens in which the patches of largest norm come before all other patches.

    The rule: in each image, the `count` patches of largest norm at a layer are its outliers, the largest first. All
    other patches stay where they are, except that those of the last `count` positions fill the places that outliers
    leave, in order.

    Parameters
    ----------
    decided_by
        The flow whose norms decide, such as the teacher.
    layer
        Layer of the norms.
    count
        Number of outliers in every image.
    """

    def __init__(self, decided_by: DepthFlow, layer: int, count: int):
        self.decided_by, self.layer, self.count = decided_by, layer, count
        self.layout = replace(decided_by.layout, n_outlier=count)
        self._pixels: Tensor | None = None
        self._places: Places | None = None

    def decide(self, pixels: Float[Tensor, "batch 3 height width"]) -> None:
        """Find the outliers of a batch of images; `separated` and `restored` then take states of these images."""
        if self._pixels is pixels:  # another flow of the same images
            return
        # Ordinary tensors, not those of inference mode: gradients go through the reordering.
        with torch.inference_mode(False), torch.no_grad():
            states = last_state(self.decided_by, self.decided_by.embed(pixels), stop=self.layer)
            norms = states[:, self.decided_by.layout.where("patch")].float().norm(dim=-1)
            prefix = torch.arange(self.layout.n_prefix, device=norms.device).expand(len(norms), -1)
            patches = places_by_norm(norms, self.count) + self.layout.n_prefix
            self._pixels, self._places = pixels, torch.cat([prefix, patches], dim=1)

    def separated(self, tokens: Tokens) -> Tokens:
        """Return tokens with outliers as a group of their own."""
        return _take(tokens, self._places_of(tokens))

    def restored(self, tokens: Tokens) -> Tokens:
        """Return separated tokens in the order of the model."""
        return _take(tokens, self._places_of(tokens).argsort(dim=1))

    def _places_of(self, tokens: Tokens) -> Places:
        """Return the places of the tokens; the states may be several copies of each image, one after the other."""
        if self._places is None or len(tokens) % len(self._places):
            known = 0 if self._places is None else len(self._places)
            raise LayoutError(
                f"outliers are known for the {known} images that were embedded last; {len(tokens)} states are not "
                "copies of these"
            )
        return self._places.repeat_interleave(len(tokens) // len(self._places), dim=0)


def places_by_norm(norms: Float[Tensor, "batch patches"], count: int) -> Int[Tensor, "batch patches"]:
    """Return the positions of patches in the order of `OutlierOrder`: outliers, then all others.

    Parameters
    ----------
    norms
        Norms of the patches of each image.
    count
        Number of outliers.
    """
    n = norms.shape[1]
    outliers = norms.argsort(dim=1, descending=True, stable=True)[:, :count]
    outlying = torch.zeros_like(norms, dtype=torch.bool).scatter(1, outliers, True)
    # Both have one entry for each outlier before the last `count` positions, in each image.
    left, fill = outlying[:, : n - count], ~outlying[:, n - count :]
    positions = torch.arange(n, device=norms.device).expand_as(norms)
    others = positions[:, : n - count].clone()
    others[left] = positions[:, n - count :][fill]
    return torch.cat([outliers, others], dim=1)


def _take(tokens: Tokens, places: Places) -> Tokens:
    return tokens.gather(1, places[..., None].expand(-1, -1, tokens.shape[-1]))


class SeparatedOutliers:
    """A flow whose outliers are a token group of their own; the states are those of the original flow, reordered.

    Unlike other flows, it depends on the images that were embedded last: `step`, `readout` and `head` take states of
    those images, in the same order, or several copies of each.

    Parameters
    ----------
    flow
        The original flow. Blocks may depend on positions: every step is made in the original order.
    order
        Decides which patches are outliers. Flows that share it have the same outliers.
    """

    def __init__(self, flow: DepthFlow, order: OutlierOrder):
        self.flow, self.order = flow, order
        self.depth, self.width, self.layout = flow.depth, flow.width, replace(flow.layout, n_outlier=order.count)

    @property
    def head(self) -> Head | None:
        """The classifier of the original flow, for separated tokens."""
        head = self.flow.head
        return None if head is None else lambda tokens: head(self.order.restored(tokens))

    def embed(self, pixels: Tensor) -> Tensor:
        """Decide which patches are outliers, and embed."""
        self.order.decide(pixels)
        return self.order.separated(self.flow.embed(pixels))

    def step(self, tokens: Tensor, layer: int) -> Tensor:
        """Make the step of the original flow."""
        return self.order.separated(self.flow.step(self.order.restored(tokens), layer))

    def readout(self, tokens: Tensor) -> Tensor:
        """Apply the norm of the original flow."""
        return self.order.separated(self.flow.readout(self.order.restored(tokens)))


def unseparated(flow: DepthFlow) -> DepthFlow:
    """Return a flow as it was before its outliers became a group."""
    if isinstance(flow, SeparatedOutliers):
        return flow.flow
    if isinstance(flow, ReorderedFlow) and flow.flow is not (original := unseparated(flow.flow)):
        return ReorderedFlow(original, flow.order)
    return flow

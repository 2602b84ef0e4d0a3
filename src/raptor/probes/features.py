"""What a probe reads: the tokens of one layer after the frozen final norm, with what is known about each image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import grid_sample

from raptor.data.batch import Batch
from raptor.data.order import endless
from raptor.device import halved
from raptor.flow import DepthFlow, counted, last_state
from raptor.processes import team_of
from raptor.sharded import Filling, Row, Sharded


@dataclass(frozen=True)
class Features:
    """Of some images.

    Parameters
    ----------
    cls
        The cls token, or None where the model has none.
    patch
        Patch tokens on their grid; None where nothing but `mean` is kept.
    mean
        The mean patch.
    own
        Logits of the model's own head, or None.
    label, mask, depth
        As in `Batch`.
    at_pixels
        Whether `patch` holds features of single pixels, those that `mask` and `depth` are of, in one row.
    spare
        As in `Batch`.
    """

    cls: Float[Tensor, "batch width"] | None
    patch: Float[Tensor, "batch rows columns width"] | None
    mean: Float[Tensor, "batch width"]
    own: Float[Tensor, "batch classes"] | None = None
    label: Int[Tensor, " batch"] | None = None
    mask: Int[Tensor, "batch height columns_of_pixels"] | None = None
    depth: Float[Tensor, "batch height columns_of_pixels"] | None = None
    at_pixels: bool = False
    spare: bool = False

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def pooled(self) -> Float[Tensor, "batch features"]:
        """The image as one vector: concat(cls, mean patch), or the mean patch alone where there is no cls."""
        return self.mean if self.cls is None else torch.cat([self.cls, self.mean], dim=1)

    def drawn(self, target: str, a_patch: int = 1) -> Features:
        """Return the features and the target of pixels drawn at random, as many an image as `a_patch` a patch.

        Features are interpolated bilinearly, which a linear map commutes with: logits are those that upsampling the
        whole map would give at these pixels, at a fraction of its cost, and the interpolation is shared by all heads.
        """
        assert self.patch is not None
        truth: Tensor = getattr(self, target)
        batch, height, width = truth.shape
        n = a_patch * self.patch.shape[1] * self.patch.shape[2]
        place = torch.randint(height * width, (batch, n), device=truth.device)
        rows, columns = place // width, place % width
        points = torch.stack([(2 * columns + 1) / width - 1, (2 * rows + 1) / height - 1], dim=-1)
        # Up to the centres of the outermost patches, as upsampling does beyond them.
        most = 1 - 1 / points.new_tensor([self.patch.shape[2], self.patch.shape[1]])
        points = points.clamp(-most, most)
        found = grid_sample(self.patch.movedim(-1, 1), points[:, None], align_corners=False)
        at = truth.flatten(1).gather(1, place)[:, None]
        maps: dict[str, Any] = {"mask": None, "depth": None, target: at}
        return replace(self, patch=found.movedim(1, -1), at_pixels=True, **maps)


@runtime_checkable
class Source(Protocol):
    """Where features come from: in order once, or shuffled without end."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Features]: ...

    def shuffled(self, first_step: int, batch_size: int, seed: int, part: tuple[int, int]) -> Iterator[Features]:
        """Yield training batches from a step on."""


class Live:
    """Features as the flow computes them, each time that they are asked for; no gradient reaches the flow.

    Parameters
    ----------
    flow
        Any depth flow.
    images
        A set that `load_images` gave.
    layer
        Whose states are read, 0..L; by default the last.
    """

    def __init__(self, flow: DepthFlow, images: Any, layer: int | None = None):
        self.flow, self.images = flow, images
        self.layer = flow.depth if layer is None else layer
        self.team = team_of(images)

    def __len__(self) -> int:
        return len(self.images)

    def __iter__(self) -> Iterator[Features]:
        return map(self.of, self.images)

    def shuffled(
        self, first_step: int, batch_size: int, seed: int, part: tuple[int, int] = (0, 1)
    ) -> Iterator[Features]:
        """Yield training batches without end, from a step on."""
        if (batch := getattr(self.images, "batch", None)) is not None:  # scenes come in one order whatever the seed
            order = endless(len(self), first_step, batch_size, seed, part)
            return (self.of(batch(np.array(indices))) for indices in order)
        return map(self.of, self.images.shuffled(first_step, batch_size, seed, part))

    @torch.no_grad()
    def of(self, batch: Batch) -> Features:
        """Run the flow on a batch."""
        flow = self.flow
        states = last_state(flow, flow.embed(batch.pixels), stop=self.layer)
        own = flow.head(states).float() if flow.head is not None and self.layer == flow.depth else None
        tokens, layout = flow.readout(states).float(), flow.layout
        patch = tokens[:, layout.where("patch")]
        label, mask, depth = (_to(value, tokens.device) for value in (batch.label, batch.mask, batch.depth))
        cls = tokens[:, 0] if layout.n_cls else None
        spare, grid = batch.spare, patch.unflatten(1, layout.grid)
        return Features(cls, grid, patch.mean(dim=1), own, label, mask, depth, spare=spare)


def _to(value: Tensor | None, device: torch.device) -> Tensor | None:
    return None if value is None else value.to(device)


class Kept:
    """Features that were computed once, in memory or on disk, in half precision.

    Parameters
    ----------
    arrays
        From `filling`.
    batch_size
        Images of a batch where they are gone through in order.
    device
        Where the batches shall be.
    """

    def __init__(self, arrays: Sharded, batch_size: int, device: torch.device):
        self.arrays, self.batch_size, self.device = arrays, batch_size, device

    def __len__(self) -> int:
        return len(self.arrays)

    def __iter__(self) -> Iterator[Features]:
        for first in range(0, len(self), self.batch_size):
            yield self._batch(range(first, min(first + self.batch_size, len(self))))

    def shuffled(
        self, first_step: int, batch_size: int, seed: int, part: tuple[int, int] = (0, 1)
    ) -> Iterator[Features]:
        """Yield training batches without end, from a step on."""
        return map(self._batch, endless(len(self), first_step, batch_size, seed, part))

    def _batch(self, indices: Any) -> Features:
        found: dict[str, Any] = {"cls": None, "patch": None}
        for name, array in self.arrays.rows(indices).items():
            value = torch.from_numpy(array)
            found[name] = (value.float() if value.dtype == torch.float16 else value).to(self.device)
        if "mask" in found:
            found["mask"] = found["mask"].long()
        return Features(**found)


def filling(live: Live, fields: set[str], first: Features) -> Filling:
    """Say how kept features are made: which fields, and of what size, as `first` tells."""

    def rows() -> Iterator[Row]:
        for features in live:
            n = counted(features)
            arrays = {
                name: live.team.whole(torch.from_numpy(array[:n])).numpy()
                for name, array in _compact(features, fields).items()
            }
            for index in range(len(next(iter(arrays.values())))):
                yield {name: array[index] for name, array in arrays.items()}

    each = sum(array.nbytes for array in _compact(first, fields).values()) // len(first)
    return Filling(rows, len(live), each, "features", "keep none (live): the model then runs on every batch")


def _compact(features: Features, fields: set[str]) -> Row:
    """Return the fields that there are: numbers in half precision, class ids of pixels as bytes."""
    found: Row = {}
    for name in sorted(fields):
        value: Tensor | None = getattr(features, name)
        if name == "mask" and value is not None:
            found[name] = value.to(torch.uint8).cpu().numpy()
        elif value is not None and value.is_floating_point():
            found[name] = halved(value, f"{name} features", "keep none: --live").numpy()
        elif value is not None:
            found[name] = value.cpu().numpy()
    return found

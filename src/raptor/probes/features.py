"""Features of a probe: tokens of one layer after the frozen final norm, with the annotations of the images."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import grid_sample

from raptor.core.batches import Batch, ImageSource, LoadedImageSet, as_image_set, n_real
from raptor.core.flow import DepthFlow, last_state
from raptor.core.processes import Processes
from raptor.data.order import endless
from raptor.runtime.array_cache import Filling, Row, Sharded
from raptor.runtime.device import halved
from raptor.runtime.distributed import SINGLE_PROCESS


@dataclass(frozen=True)
class Features:
    """Features of a batch of images, and their annotations.

    Parameters
    ----------
    cls
        The cls token; None if the model has none.
    patch
        Patch tokens on their grid; None if only `mean` is kept.
    mean
        The mean patch token.
    own
        Logits of the model's pretrained head; None if it has none.
    label, mask, depth
        Annotations, as in `Batch`.
    at_pixels
        Whether `patch` holds interpolated features of single pixels in one row, matching `mask` and `depth`.
    spare
        Whether the images only fill up a batch, as in `Batch`.
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
        """One vector per image: concat(cls, mean patch), or the mean patch if there is no cls."""
        return self.mean if self.cls is None else torch.cat([self.cls, self.mean], dim=1)

    def drawn(self, target: str, a_patch: int = 1) -> Features:
        """Return the features and the target of random pixels, `a_patch` pixels per patch.

        Features are interpolated bilinearly. This commutes with a linear head, so the logits are those of the upsampled
        map at these pixels, at a fraction of its cost, and all heads share the interpolation.

        Parameters
        ----------
        target
            `mask` or `depth`.
        a_patch
            Number of pixels per patch.
        """
        assert self.patch is not None
        truth: Tensor = getattr(self, target)
        batch, height, width = truth.shape
        n = a_patch * self.patch.shape[1] * self.patch.shape[2]
        place = torch.randint(height * width, (batch, n), device=truth.device)
        rows, columns = place // width, place % width
        points = torch.stack([(2 * columns + 1) / width - 1, (2 * rows + 1) / height - 1], dim=-1)
        # Clamp to the centres of the outermost patches, as upsampling does.
        most = 1 - 1 / points.new_tensor([self.patch.shape[2], self.patch.shape[1]])
        points = points.clamp(-most, most)
        found = grid_sample(self.patch.movedim(-1, 1), points[:, None], align_corners=False)
        at = truth.flatten(1).gather(1, place)[:, None]
        maps: dict[str, Any] = {"mask": None, "depth": None, target: at}
        return replace(self, patch=found.movedim(1, -1), at_pixels=True, **maps)


@runtime_checkable
class Source(Protocol):
    """A source of features: in order, or shuffled without end."""

    @property
    def process_group(self) -> Processes:
        """The processes that share each batch."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Features]: ...

    def shuffled(self, first_step: int, batch_size: int, seed: int, part: tuple[int, int]) -> Iterator[Features]:
        """Yield training batches without end, starting at a step."""


class Live:
    """Features that the flow computes on every pass; no gradient reaches the flow.

    Parameters
    ----------
    flow
        Any depth flow.
    images
        Images from `load_images`, or batches.
    layer
        Layer whose states are read, 0..L; by default the last.
    """

    def __init__(self, flow: DepthFlow, images: ImageSource, layer: int | None = None):
        self.flow, self.images = flow, as_image_set(images)
        self.layer = flow.depth if layer is None else layer
        self.process_group = self.images.process_group

    def __len__(self) -> int:
        return len(self.images)

    def __iter__(self) -> Iterator[Features]:
        return map(self.of, self.images)

    def shuffled(
        self, first_step: int, batch_size: int, seed: int, part: tuple[int, int] = (0, 1)
    ) -> Iterator[Features]:
        """Yield training batches without end, starting at a step."""
        assert isinstance(self.images, LoadedImageSet)
        return map(self.of, self.images.shuffled_epochs(first_step, batch_size, seed, part))

    @torch.no_grad()
    def of(self, batch: Batch) -> Features:
        """Compute the features of a batch."""
        flow = self.flow
        states = last_state(flow, flow.embed(batch.pixels), stop=self.layer)
        own = flow.head(states).float() if flow.head is not None and self.layer == flow.depth else None
        tokens, layout = flow.readout(states).float(), flow.layout
        patch = tokens[:, layout.where("patch")]
        label, mask, depth = (_to(value, tokens.device) for value in (batch.label, batch.mask, batch.depth))
        cls = tokens[:, 0] if layout.n_cls else None
        spare, grid = batch.spare, patch.unflatten(1, layout.full_grid)
        return Features(cls, grid, patch.mean(dim=1), own, label, mask, depth, spare=spare)


def _to(value: Tensor | None, device: torch.device) -> Tensor | None:
    return None if value is None else value.to(device)


class CachedFeatures:
    """Features that were computed once and are kept in memory or on disk, in half precision.

    Parameters
    ----------
    arrays
        The stored arrays, made by `filling`.
    batch_size
        Images per batch when they are read in order.
    device
        Device of the batches.
    """

    def __init__(self, arrays: Sharded, batch_size: int, device: torch.device):
        self.arrays, self.batch_size, self.device = arrays, batch_size, device
        self.process_group = SINGLE_PROCESS

    def __len__(self) -> int:
        return len(self.arrays)

    def __iter__(self) -> Iterator[Features]:
        for first in range(0, len(self), self.batch_size):
            yield self._batch(range(first, min(first + self.batch_size, len(self))))

    def shuffled(
        self, first_step: int, batch_size: int, seed: int, part: tuple[int, int] = (0, 1)
    ) -> Iterator[Features]:
        """Yield training batches without end, starting at a step."""
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
    """Return how cached features are computed, and their size.

    Parameters
    ----------
    live
        Computes the features.
    fields
        Fields of `Features` to keep.
    first
        The first batch, which gives the size of an image's features.
    """

    def rows() -> Iterator[Row]:
        for features in live:
            n = n_real(features)
            arrays = {
                name: live.process_group.all_gather(torch.from_numpy(array[:n])).numpy()
                for name, array in _compact(features, fields).items()
            }
            for index in range(len(next(iter(arrays.values())))):
                yield {name: array[index] for name, array in arrays.items()}

    each = sum(array.nbytes for array in _compact(first, fields).values()) // len(first)
    return Filling(rows, len(live), each, "features", "use --live, which keeps none and runs the model on every batch")


def _compact(features: Features, fields: set[str]) -> Row:
    """Return the fields that are not None as arrays: floats in half precision, class ids of pixels as bytes."""
    found: Row = {}
    for name in sorted(fields):
        value: Tensor | None = getattr(features, name)
        if name == "mask" and value is not None:
            found[name] = value.to(torch.uint8).cpu().numpy()
        elif value is not None and value.is_floating_point():
            found[name] = halved(value, f"{name} features", "use --live, which keeps none").numpy()
        elif value is not None:
            found[name] = value.cpu().numpy()
    return found

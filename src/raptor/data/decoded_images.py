"""Images that are decoded and preprocessed one by one, as worker processes do."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import Dataset

from raptor.core.preprocessing import Preprocessing
from raptor.data.annotations import read_depth, read_mask
from raptor.data.decode import DamagedImage, decode
from raptor.data.records import Records
from raptor.errors import DataError


@dataclass(frozen=True)
class DecodedImage:
    """One preprocessed image with its annotations, or the reason why it could not be read.

    Parameters
    ----------
    index, name
        Position in the records, and name for messages.
    label, pixels, mask, depth
        As in `Batch`, for one image; None if absent.
    damage
        Why the image cannot be decoded; such images are skipped.
    mistake
        What is wrong with its annotations; this stops the run.
    """

    index: int
    name: str
    label: int | None = None
    pixels: Tensor | None = None
    mask: Tensor | None = None
    depth: Tensor | None = None
    damage: str = ""
    mistake: str = ""


class DecodedImages(Dataset):
    """A torch dataset of decoded images.

    Parameters
    ----------
    records
        The images, not yet decoded.
    preprocessing
        Preprocessing of the model.
    """

    def __init__(self, records: Records, preprocessing: Preprocessing):
        self.records, self.preprocessing = records, preprocessing

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> DecodedImage:
        name = self.records.name_of(index)
        try:
            record = self.records[index]
            image = decode(record.image)
            size, used = (image.height, image.width), self.preprocessing
            mask = None if record.mask is None else read_mask(record.mask, size, used, name)
            depth = None if record.depth is None else read_depth(record.depth, size, used, name)
            return DecodedImage(index, name, record.label, used(image), mask, depth)
        except DamagedImage as error:
            return DecodedImage(index, name, damage=str(error))
        except DataError as error:  # raised in a worker, it would arrive as a traceback
            return DecodedImage(index, name, mistake=str(error))


def stacked(values: list[Tensor | None]) -> Tensor | None:
    """Stack the values of all images; None if one of them is None."""
    present = [value for value in values if value is not None]
    return torch.stack(present) if len(present) == len(values) else None

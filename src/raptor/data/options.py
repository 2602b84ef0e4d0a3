"""Options for reading images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from raptor.core.options import Option
from raptor.core.serialize import Key
from raptor.runtime.distributed import SINGLE_PROCESS, ProcessGroup

if TYPE_CHECKING:
    from raptor.core.batches import LoadedImageSet
    from raptor.core.preprocessing import Preprocessing
    from raptor.models.teachers.teacher import Teacher


@dataclass(frozen=True)
class LoadOptions:
    """How images are read, for every verb with --data.

    Parameters
    ----------
    image_column, label_column
        Columns of a table, if they cannot be detected.
    allow_damaged
        Skip any number of damaged images instead of at most 1%.
    stream
        Read parquet files and dataset ids in order, without copying them to disk, and shuffle training images within
        a buffer of this many; None copies tables into the cache of `datasets` first. Tar shards are always read in
        this way, with a buffer of 1,000 by default.
    cache_images
        Directory for resized and cropped images, which are then decoded only once; None for no cache.
    """

    image_column: Annotated[
        str | None, Option("Column with the images, if --data is parquet files or a dataset id.")
    ] = None
    label_column: Annotated[
        str | None, Option("Column with the labels, if --data is parquet files or a dataset id.")
    ] = None
    allow_damaged: Annotated[
        bool, Option("Skip all damaged images. By default it is an error if more than 1% of the images are damaged.",
                     flags=("--allow-damaged",))
    ] = False  # fmt: skip
    stream: Annotated[
        int | None,
        Option("Read parquet files or a dataset id in order, without copying them to disk first. Training then "
               "shuffles within a buffer of this many images, such as 1000.", min=1),
        Key(omit_none=True),
    ] = None  # fmt: skip
    cache_images: Annotated[
        Path | None,
        Option("Directory for resized and cropped images, so that they are decoded only once. Default: no cache."),
        Key(omit_none=True),
    ] = None

    def load(
        self,
        source: str,
        teacher: Teacher | Preprocessing,
        split: str | None = None,
        images: int | None = None,
        batch_size: int = 32,
        seed: int = 0,
        process_group: ProcessGroup = SINGLE_PROCESS,
        workers: int | None = None,
    ) -> LoadedImageSet:
        """Load images with these options; the parameters are those of `load_images`."""
        from raptor.data.load import load_images

        return load_images(
            source, teacher, split, images, batch_size, seed, workers, allow_damaged=self.allow_damaged,
            image_column=self.image_column, label_column=self.label_column, process_group=process_group,
            stream=self.stream, cache=self.cache_images,
        )  # fmt: skip

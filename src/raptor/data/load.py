"""Load images from any source with one call, `load_images`."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING

from raptor.core.batches import LoadedImageSet
from raptor.core.deprecation import renamed_keywords
from raptor.core.preprocessing import GUESSED, Preprocessing
from raptor.data.image_cache import cache_images
from raptor.data.images import Images
from raptor.data.records import Subset
from raptor.data.scenes.images import DEFAULT_IMAGES, SceneImages
from raptor.data.scenes.layout import SPLITS
from raptor.data.sources import open_splits
from raptor.data.splits import HELD_OUT, choose, hold_out, known_split
from raptor.data.streaming.images import StreamedImages, shards_of
from raptor.data.streaming.tables import BUFFER
from raptor.errors import DataError, OptionError
from raptor.runtime.distributed import SINGLE_PROCESS, ProcessGroup
from raptor.runtime.notes import note

if TYPE_CHECKING:
    from raptor.models.teachers.teacher import Teacher

__all__ = ["HELD_OUT", "load_images"]


def default_data(model: str) -> str | None:
    """Return `scenes` for the bundled models; None for other models."""
    inner = re.sub(r"^(stitch:|elastic:|half:)+", "", model)
    return "scenes" if re.split("[:@]", inner)[0] == "scenes" else None


def data_for(model: str, data: str | None, purpose: str) -> str:
    """Return the named data, or the default data of a bundled model; raise an OptionError if there is neither.

    Parameters
    ----------
    model
        Source of the model.
    data
        Value of --data, or None.
    purpose
        Start of the message, such as "phases needs images".
    """
    found = default_data(model) if data is None else data
    if found is None:
        raise OptionError(f"{purpose}: add --data (only the bundled models have default images)")
    return found


def parse_source(text: str) -> tuple[str, str | None]:
    """Split `DATA[:SPLIT]` into both parts; an existing path with a colon is not split."""
    base, colon, split = text.rpartition(":")
    if not text or (colon and not split):
        raise DataError(f"data {text!r} is not of the form DATA or DATA:SPLIT")
    if not colon or not base or os.path.exists(text) or "/" in split:
        return text, None
    return base, split


def split_names(source: str) -> list[str]:
    """Return the names of the splits of a dataset; [''] if it has none."""
    return list(SPLITS) if source == "scenes" else list(open_splits(source, None, None))


def training_split(split: str | None, eval_data: str | None) -> str:
    """Return the split to train on; raise an OptionError if no held-out split remains to report on."""
    if split is not None and known_split(split) != "train" and eval_data is None:
        raise OptionError(
            f"with the split {split!r} as training data there is no held-out split to report on; use --eval-data"
        )
    return split or "train"


@renamed_keywords(team="process_group")
def load_images(
    source: str | Path,
    teacher: Teacher | Preprocessing,
    split: str | None = None,
    images: int | None = None,
    batch_size: int = 32,
    seed: int = 0,
    workers: int | None = None,
    allow_damaged: bool = False,
    image_column: str | None = None,
    label_column: str | None = None,
    process_group: ProcessGroup = SINGLE_PROCESS,
    stream: int | None = None,
    cache: str | Path | None = None,
) -> LoadedImageSet:
    """Load images with the preprocessing of a model.

    Parameters
    ----------
    source
        `scenes`, a folder of images, a folder of class folders, a parquet file or a folder of them, tar shards in the
        format of webdataset or a folder of them, or a dataset id.
        With masks: a folder with `images` and `annotations` (or `masks`), ADE20k, or Pascal VOC. With depth: NYU Depth
        v2 (the labelled .mat file, or folders of .h5 files). `SOURCE:SPLIT` names a split. Folders or files named
        `train`, `val` and `test` are splits.
    teacher
        A model whose preprocessing to use, or a `Preprocessing`.
    split
        Name of the split, if it is not part of `source`. By default, the validation split, else test, else train. A
        dataset without splits gives all its images by default; for `train` or `test`, a fifth of the images, always the
        same, is held out as `test`. `held-out` means test, else validation.
    images
        Number of images, drawn at random. By default, all images; for `scenes`, the first 10,000.
    seed
        Seed of that draw.
    batch_size
        Images per batch.
    workers
        Number of worker processes that decode images. By default, one per core up to 8, and none for few images.
    allow_damaged
        Skip any number of damaged images instead of at most 1%.
    image_column, label_column
        Names of the columns of a table, if they cannot be detected.
    process_group
        Processes that share the images: `raptor.runtime.distributed.process_group()` in a script under torchrun.
    stream
        Read parquet files and dataset ids in order, without copying them to disk; training shuffles within a buffer of
        this many images. Tar shards are always read in this way, with a buffer of 1,000 by default.
    cache
        Directory for resized and cropped images, so that images are decoded only once. By default, none.

    Returns
    -------
    LoadedImageSet
        A set of images that yields `Batch`es and can be iterated over any number of times.
    """
    text, named = parse_source(str(source))
    if named and split and known_split(named) != known_split(split):
        raise OptionError(f"{str(source)!r} names the split {named!r}, but split= is {split!r}")
    wanted = named or split
    if batch_size < 1 or (workers or 0) < 0:
        raise OptionError(f"batch_size {batch_size} must be at least 1, and workers {workers} at least 0")
    preprocessing = teacher if isinstance(teacher, Preprocessing) else teacher.preprocessing
    if not isinstance(teacher, Preprocessing) and preprocessing.source == GUESSED:
        note(
            f"{teacher.name} declares no preprocessing, so {preprocessing.in_words()}; pass preprocessing= to "
            "load_model to change this"
        )
    if images is not None and images < 1:
        raise OptionError(f"images {images} must be at least 1")
    if stream is not None and stream < 1:
        raise OptionError(f"stream {stream} must be at least 1: the number of images to shuffle within")
    if text == "scenes" and (stream is not None or cache is not None):
        raise OptionError(
            "scenes are drawn when they are needed: stream= and cache= (--stream, --cache-images) do not apply"
        )
    if text == "scenes":
        chosen = choose(list(SPLITS), wanted, text)
        return SceneImages(preprocessing, chosen, images or DEFAULT_IMAGES, batch_size, process_group=process_group)
    splits = open_splits(text, image_column, label_column, stream)
    if list(splits) == [""]:
        records = splits[""]()
        if wanted is not None:
            records = Subset(records, hold_out(len(records), wanted, text))
    else:
        records = splits[choose(list(splits), wanted, text)]()
    if images is not None and images < len(records):
        records = Subset(records, sorted(random.Random(seed).sample(range(len(records)), images)))
    if len(records) == 0:
        raise DataError(f"{str(source)!r} has no images")
    in_shards = shards_of(records) is not None
    if stream is not None and not in_shards:
        raise OptionError(f"--stream is for parquet files, dataset ids and tar shards; {text!r} is none of them")
    if cache is not None:
        records, preprocessing = cache_images(records, preprocessing, Path(cache))
    if not in_shards:
        return Images(records, preprocessing, batch_size, workers, allow_damaged, process_group)
    streamed = StreamedImages(records, preprocessing, batch_size, workers, allow_damaged, process_group)
    streamed.buffer = stream or BUFFER
    return streamed

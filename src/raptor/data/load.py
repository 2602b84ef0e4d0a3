"""Load images from any source with one call, `load_images`."""

from __future__ import annotations

import glob
import os
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raptor.core.batches import LoadedImageSet
from raptor.core.deprecation import renamed_keywords
from raptor.core.preprocessing import GUESSED, Preprocessing
from raptor.data.folders import read_folder, split_folders
from raptor.data.images import Images
from raptor.data.nyu import open_files, open_labelled
from raptor.data.pairs import open_pairs
from raptor.data.records import Records, Subset
from raptor.data.scenes.images import DEFAULT_IMAGES, SceneImages
from raptor.data.scenes.layout import SPLITS
from raptor.data.splits import HELD_OUT, choose, hold_out, known_split
from raptor.errors import DataError, OptionError
from raptor.runtime.distributed import SINGLE_PROCESS, ProcessGroup
from raptor.runtime.notes import note
from raptor.runtime.optional_imports import HUB_ID

if TYPE_CHECKING:
    from raptor.models.teachers.teacher import Teacher

__all__ = ["HELD_OUT", "load_images"]


def default_data(model: str) -> str | None:
    """Return `scenes` for the bundled models; None for other models."""
    return "scenes" if model.removeprefix("stitch:").partition(":")[0] == "scenes" else None


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
    return list(SPLITS) if source == "scenes" else list(_open(source, None, None))


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
) -> LoadedImageSet:
    """Load images with the preprocessing of a model.

    Parameters
    ----------
    source
        `scenes`, a folder of images, a folder of class folders, a parquet file or a folder of them, or a dataset id.
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
    if text == "scenes":
        chosen = choose(list(SPLITS), wanted, text)
        return SceneImages(preprocessing, chosen, images or DEFAULT_IMAGES, batch_size, process_group=process_group)
    splits = _open(text, image_column, label_column)
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
    return Images(records, preprocessing, batch_size, workers, allow_damaged, process_group)


def _open(text: str, image_column: str | None, label_column: str | None) -> dict[str, Any]:
    """Return a function that reads each split, by name; a dataset without splits has the name ''."""
    path = Path(text)

    def table(files: list[Path]) -> Any:
        def read() -> Records:
            from raptor.data.tables import open_parquet, read_table

            return read_table(open_parquet(files), text, image_column, label_column, (files[0].parent,))

        return read

    if os.path.isdir(text):
        if parquet := sorted(path.glob("*.parquet")) or sorted(path.glob("data/*.parquet")):
            return {name: table(files) for name, files in _by_split(parquet, text).items()}
        if pairs := open_pairs(path) or open_files(path):
            return dict(pairs)
        if folders := split_folders(path):
            every = folders.values()
            return {name: lambda folder=folder: read_folder(folder, every) for name, folder in folders.items()}
        return {"": lambda: read_folder(path)}
    if path.suffix == ".mat" and os.path.isfile(text):
        return dict(open_labelled(path))
    if files := [path] if os.path.isfile(text) else _matching(text):
        if any(file.suffix != ".parquet" for file in files):
            raise DataError(f"{text!r} is neither a folder of images nor a parquet file")
        return {"": table(files)}
    if not HUB_ID.fullmatch(text):
        raise DataError(f"no folder, parquet file or dataset {text[:200]!r} exists")
    return _open_dataset(text, image_column, label_column)


def _matching(pattern: str) -> list[Path]:
    """Return the files that match a pattern; an empty list for text that cannot be a pattern."""
    try:
        return sorted(map(Path, glob.glob(pattern)))
    except (ValueError, RecursionError):
        return []


def _open_dataset(name: str, image_column: str | None, label_column: str | None) -> dict[str, Any]:
    from raptor.data.tables import cache_folders, open_dataset, read_table

    where = cache_folders()
    return {
        known_split(split) or split: lambda table=table: read_table(table, name, image_column, label_column, where)
        for split, table in open_dataset(name).items()
    }


def _by_split(files: list[Path], source: str) -> dict[str, list[Path]]:
    """Group parquet files by the split that their names begin with (`train-00000-of-00005.parquet`)."""
    groups: dict[str, list[Path]] = {}
    for file in files:
        groups.setdefault(known_split(re.split(r"[-_.]", file.name)[0]) or "", []).append(file)
    if "" in groups and len(groups) > 1:
        raise DataError(
            f"some parquet files of {source!r} are named after splits, but {groups[''][0].name!r} is not; select files "
            f"with a pattern such as '{source}/train-*.parquet'"
        )
    return groups

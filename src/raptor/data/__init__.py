"""Images behind one call, `load_images`."""

from __future__ import annotations

import glob
import os
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raptor.data.batch import Batch
from raptor.data.folders import read_folder, split_folders
from raptor.data.images import Images
from raptor.data.nyu import open_files, open_labelled
from raptor.data.pairs import open_pairs
from raptor.data.records import Records, Subset
from raptor.data.scene_images import DEFAULT_IMAGES, SceneImages
from raptor.data.scene_layout import SPLITS
from raptor.data.splits import HELD_OUT, choose, hold_out, known_split
from raptor.errors import DataError, OptionError
from raptor.hub import HUB_ID
from raptor.preprocessing import Preprocessing
from raptor.processes import ALONE, Team

if TYPE_CHECKING:
    from raptor.models.teachers.teacher import Teacher

__all__ = ["HELD_OUT", "Batch", "Images", "load_images"]


def default_data(model: str) -> str | None:
    """Return `scenes` for the models that ship with them; no other model has images of its own."""
    return "scenes" if model.removeprefix("stitch:").partition(":")[0] == "scenes" else None


def data_for(model: str, data: str | None, purpose: str) -> str:
    """Return the images that were named, or those that the model ships with; or say what they are for."""
    found = default_data(model) if data is None else data
    if found is None:
        raise OptionError(f"{purpose}: name some with --data")
    return found


def parse_source(text: str) -> tuple[str, str | None]:
    """Split `DATA[:SPLIT]`; a path that exists with its colon is a path."""
    base, colon, split = text.rpartition(":")
    if not text or (colon and not split):
        raise DataError(f"data are named as DATA or DATA:SPLIT, not {text!r}")
    if not colon or not base or os.path.exists(text) or "/" in split:
        return text, None
    return base, split


def split_names(source: str) -> list[str]:
    """Return the splits that a set brings; [''] where it brings none."""
    return list(SPLITS) if source == "scenes" else list(_open(source, None, None))


def training_split(split: str | None, eval_data: str | None) -> str:
    """Return the split to train on; one that would also be reported on is refused."""
    if split is not None and known_split(split) != "train" and eval_data is None:
        raise OptionError(
            f"training on the split {split!r} leaves none that is known to be held out: name the images to report on "
            "with --eval-data"
        )
    return split or "train"


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
    team: Team = ALONE,
) -> Images | SceneImages:
    """Load images, preprocessed as a teacher wants them.

    Parameters
    ----------
    source
        `scenes`, a folder of images, a folder of class folders, a parquet file or a folder of them, a dataset id; with
        masks: a folder with `images` and `annotations` (or `masks`), ADE20k, Pascal VOC; with depth: NYU Depth v2 (the
        labelled .mat, or folders of .h5). `SOURCE:SPLIT` names a split. `train`, `val` and `test` folders or files are
        splits.
    teacher
        Whose preprocessing to use, or a `Preprocessing`.
    split
        The split, where `source` does not name it. By default a set with splits gives validation, else test,
        else train; a set without gives all its images, or, asked for `train` or `test`, one of both parts
        of a split that is always the same. `held-out` is what a training is reported on: test, else validation.
    images
        How many to use, drawn at random by `seed`; by default all, of `scenes` (the first) 10,000.
    seed
        Of that draw.
    batch_size, workers, allow_damaged
        As in `Images`.
    image_column, label_column
        Columns of a table, where they cannot be guessed.
    team
        As in `Images`: `processes.team()` in a script that torchrun starts.
    """
    text, named = parse_source(str(source))
    if named and split and known_split(named) != known_split(split):
        raise OptionError(f"{str(source)!r} names the split {named!r}, but split={split!r} was asked for")
    wanted = named or split
    if batch_size < 1 or (workers or 0) < 0:
        raise OptionError(f"a batch has at least 1 image and workers are 0 or more, not {batch_size} and {workers}")
    preprocessing = teacher if isinstance(teacher, Preprocessing) else teacher.preprocessing
    if images is not None and images < 1:
        raise OptionError(f"at least one image must be used, not {images}")
    if text == "scenes":
        chosen = choose(list(SPLITS), wanted, text)
        return SceneImages(preprocessing, chosen, images or DEFAULT_IMAGES, batch_size, team=team)
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
        raise DataError(f"{str(source)!r} holds no images")
    return Images(records, preprocessing, batch_size, workers, allow_damaged, team)


def _open(text: str, image_column: str | None, label_column: str | None) -> dict[str, Any]:
    """Return how to read each split; the one of a set without splits is called ''."""
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
            raise DataError(f"{text!r} is neither a folder of images nor parquet")
        return {"": table(files)}
    if not HUB_ID.fullmatch(text):
        raise DataError(f"there is no folder or parquet file {text[:200]!r}")
    return _open_dataset(text, image_column, label_column)


def _matching(pattern: str) -> list[Path]:
    """Return the files of a pattern; what no file can be called has none."""
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
            f"some parquet files of {source!r} are named for splits, but {groups[''][0].name!r} is not; name the files "
            f"that you mean, such as '{source}/train-*.parquet'"
        )
    return groups

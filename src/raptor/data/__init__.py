"""Images behind one call, `load_images`."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raptor.data import scenes
from raptor.data.batch import Batch
from raptor.data.folders import read_folder
from raptor.data.images import Images
from raptor.data.records import Records, Subset
from raptor.data.scene_images import DEFAULT_IMAGES, SceneImages
from raptor.data.splits import choose, hold_out, known_split
from raptor.errors import DataError, OptionError
from raptor.preprocessing import Preprocessing

if TYPE_CHECKING:
    from raptor.models.teachers.teacher import Teacher

__all__ = ["Batch", "Images", "load_images"]


def parse_source(text: str) -> tuple[str, str | None]:
    """Split `DATA[:SPLIT]`; a path that exists with its colon is a path."""
    base, colon, split = text.rpartition(":")
    if not colon or not base or Path(text).exists() or "/" in split:
        return text, None
    return base, split


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
) -> Images | SceneImages:
    """Load images, preprocessed as a teacher wants them.

    Parameters
    ----------
    source
        `scenes`, a folder of images, a folder of class folders, a parquet file or a folder of them, a dataset id;
        `SOURCE:SPLIT` names a split. `train`, `val` and `test` folders or files are splits.
    teacher
        Whose preprocessing to use, or a `Preprocessing`.
    split
        The split, where `source` does not name it. By default a set with splits gives validation, else test,
        else train; a set without gives all its images, or, asked for `train` or `test`, one of both parts
        of a split that is always the same.
    images
        How many to use, drawn at random by `seed`; by default all, of `scenes` (the first) 10,000.
    seed
        Of that draw.
    batch_size, workers, allow_damaged
        As in `Images`.
    image_column, label_column
        Columns of a table, where they cannot be guessed.
    """
    text, named = parse_source(str(source))
    wanted = named or split
    preprocessing = teacher if isinstance(teacher, Preprocessing) else teacher.preprocessing
    if images is not None and images < 1:
        raise OptionError(f"at least one image must be used, not {images}")
    if text == "scenes":
        chosen = choose(list(scenes.SPLITS), wanted, text)
        return SceneImages(preprocessing, chosen, images or DEFAULT_IMAGES, batch_size)
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
    return Images(records, preprocessing, batch_size, workers, allow_damaged)


def _open(text: str, image_column: str | None, label_column: str | None) -> dict[str, Any]:
    """Return how to read each split; the one of a set without splits is called ''."""
    path = Path(text)

    def table(files: list[Path]) -> Any:
        def read() -> Records:
            from raptor.data.tables import open_parquet, read_table

            return read_table(open_parquet(files), text, image_column, label_column)

        return read

    if path.is_file():
        if path.suffix != ".parquet":
            raise DataError(f"{text!r} is a file, but neither a folder of images nor a parquet file")
        return {"": table([path])}
    if path.is_dir():
        if parquet := sorted(path.glob("*.parquet")) or sorted(path.glob("data/*.parquet")):
            return {name: table(files) for name, files in _by_split(parquet).items()}
        folders = {known_split(entry.name): entry for entry in sorted(path.iterdir()) if entry.is_dir()}
        named = {name: folder for name, folder in folders.items() if name is not None}
        if named and None not in folders:
            return {name: lambda folder=folder: read_folder(folder) for name, folder in named.items()}
        return {"": lambda: read_folder(path)}
    if path.is_absolute() or text.startswith((".", "~")) or text.count("/") > 1:
        raise DataError(f"there is no folder or parquet file {text!r}")
    return _open_dataset(text, image_column, label_column)


def _open_dataset(name: str, image_column: str | None, label_column: str | None) -> dict[str, Any]:
    from raptor.data.tables import open_dataset, read_table

    return {
        known_split(split) or split: lambda table=table: read_table(table, name, image_column, label_column)
        for split, table in open_dataset(name).items()
    }


def _by_split(files: list[Path]) -> dict[str, list[Path]]:
    """Group parquet files by the split that their names begin with (`train-00000-of-00005.parquet`)."""
    groups: dict[str, list[Path]] = {}
    for file in files:
        groups.setdefault(known_split(file.stem.partition("-")[0]) or "", []).append(file)
    return groups if "" not in groups else {"": files}

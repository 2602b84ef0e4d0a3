"""Folders of images: flat, or with one sub-folder per class, optionally inside one folder per split."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn

from raptor.data.records import FolderRecords
from raptor.data.splits import known_split
from raptor.errors import DataError

# File suffixes of images.
ENDINGS = frozenset(
    {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".jp2", ".avif"}
)


def image_files(folder: Path) -> tuple[Path, ...]:
    """Return all image files below a folder, sorted; hidden files and folders are skipped."""
    return tuple(_images_below(folder))


def _images_below(folder: Path) -> Iterator[Path]:
    entered = set()
    for directory, folders, files in os.walk(folder, followlinks=True, onerror=_refuse):
        # Do not follow a symbolic link that leads back up.
        if (real := os.path.realpath(directory)) in entered:
            folders.clear()
            continue
        entered.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        names = (name for name in sorted(files) if not name.startswith("."))
        yield from (Path(directory, name) for name in names if Path(name).suffix.lower() in ENDINGS)


def _class_names(split: Path) -> list[str]:
    """Return the names of the sub-folders with images; an empty list if the folder itself has images."""
    try:
        inside = [path for path in split.iterdir() if not path.name.startswith(".")]
    except OSError as error:
        _refuse(error)
    if any(path.suffix.lower() in ENDINGS and path.is_file() for path in inside):
        return []
    return [path.name for path in inside if path.is_dir() and next(_images_below(path), None) is not None]


def _refuse(error: OSError) -> NoReturn:
    raise DataError(f"the folder {str(error.filename)!r} cannot be read: {error.strerror}") from error


def split_folders(folder: Path) -> dict[str, Path]:
    """Return the folder of each split; an empty dict if the sub-folders are classes.

    `train`, `val` and `test` are splits if no other sub-folder has images. A single one of these names among other
    folders is a class (of vehicles, for example). Several of them among other folders are ambiguous, and a DataError.
    """
    try:
        folders = [path for path in sorted(folder.iterdir()) if path.is_dir() and not path.name.startswith(".")]
    except OSError as error:
        _refuse(error)
    named = [path for path in folders if known_split(path.name)]
    others = [path for path in folders if path not in named and image_files(path)]
    splits = {known_split(path.name) or "": path for path in named}
    if not named or (others and len(splits) == 1):
        return {}
    if others or len(splits) < len(named):
        names = ", ".join(path.name for path in [*named, *others])
        raise DataError(
            f"the folders of {str(folder)!r} ({names}) are neither classes nor one folder per split; use one of these "
            "folders as data"
        )
    return splits


def read_folder(folder: Path, splits: Iterable[Path] = ()) -> FolderRecords:
    """List the images of one folder: without labels if it contains images itself, else with one class per sub-folder.

    Parameters
    ----------
    folder
        The folder.
    splits
        Folders of all splits of the dataset, so that class numbers are the same in each.
    """
    files = image_files(folder)
    if not files:
        raise DataError(
            f"the folder {str(folder)!r} has no images; supported suffixes are {', '.join(sorted(ENDINGS))}"
        )
    if any(path.parent == folder for path in files):
        return FolderRecords(folder, files)
    names = [path.relative_to(folder).parts[0] for path in files]
    classes = tuple(sorted({*names, *(name for split in splits for name in _class_names(split))}))
    number = {name: index for index, name in enumerate(classes)}
    return FolderRecords(folder, files, tuple(number[name] for name in names), classes)

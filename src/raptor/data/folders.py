"""Folders of images: flat, or one folder a class, with or without folders for splits above."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn

from raptor.data.records import FolderRecords
from raptor.data.splits import known_split
from raptor.errors import DataError

# Endings of what PIL reads and people keep photographs in.
ENDINGS = frozenset(
    {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".jp2", ".avif"}
)


def image_files(folder: Path) -> tuple[Path, ...]:
    """Return every image file below a folder, sorted; hidden files and folders are passed over."""
    return tuple(_images_below(folder))


def _images_below(folder: Path) -> Iterator[Path]:
    entered = set()
    for directory, folders, files in os.walk(folder, followlinks=True, onerror=_refuse):
        # A link that leads back up would be followed for ever.
        if (real := os.path.realpath(directory)) in entered:
            folders.clear()
            continue
        entered.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        names = (name for name in sorted(files) if not name.startswith("."))
        yield from (Path(directory, name) for name in names if Path(name).suffix.lower() in ENDINGS)


def _class_names(split: Path) -> list[str]:
    """Return the sub-folders that hold an image, where a look at the first one is enough; of a flat split none."""
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
    """Return the folders of a set that has its splits in folders; none where its folders are classes.

    `train` with `val` or `test` beside it, or one of them alone, are splits. `train` among other names is a
    class (of vehicles, say). Splits with other folders of images beside them are refused, since either
    reading would mix what must stay apart.
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
            f"the folders of {str(folder)!r} ({names}) are neither classes nor one folder for each split; name the "
            "folder that you mean"
        )
    return splits


def read_folder(folder: Path, splits: Iterable[Path] = ()) -> FolderRecords:
    """Read one folder: an image of its own means no labels, otherwise each sub-folder is a class.

    Classes have the same numbers in all `splits` of a set, also where one of them has no image of some.
    """
    files = image_files(folder)
    if not files:
        raise DataError(f"the folder {str(folder)!r} holds no images; what counts ends in {', '.join(sorted(ENDINGS))}")
    if any(path.parent == folder for path in files):
        return FolderRecords(folder, files)
    names = [path.relative_to(folder).parts[0] for path in files]
    classes = tuple(sorted({*names, *(name for split in splits for name in _class_names(split))}))
    number = {name: index for index, name in enumerate(classes)}
    return FolderRecords(folder, files, tuple(number[name] for name in names), classes)

"""Folders of images: flat, or one folder a class, with or without folders for splits above."""

from __future__ import annotations

import os
from pathlib import Path

from raptor.data.records import FolderRecords
from raptor.errors import DataError

# Endings of what PIL reads and people keep photographs in.
ENDINGS = frozenset(
    {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".jp2", ".avif"}
)


def image_files(folder: Path) -> tuple[Path, ...]:
    """Return every image file below a folder, sorted; hidden files and folders are passed over."""
    found = []
    for directory, folders, files in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        names = (name for name in sorted(files) if not name.startswith("."))
        found += [Path(directory, name) for name in names if Path(name).suffix.lower() in ENDINGS]
    return tuple(found)


def read_folder(folder: Path) -> FolderRecords:
    """Read one folder: an image of its own means no labels, otherwise each sub-folder is a class."""
    files = image_files(folder)
    if not files:
        raise DataError(f"the folder {str(folder)!r} holds no images; what counts ends in {', '.join(sorted(ENDINGS))}")
    if any(path.parent == folder for path in files):
        return FolderRecords(folder, files)
    names = [path.relative_to(folder).parts[0] for path in files]
    classes = tuple(sorted(set(names)))
    number = {name: index for index, name in enumerate(classes)}
    return FolderRecords(folder, files, tuple(number[name] for name in names), classes)

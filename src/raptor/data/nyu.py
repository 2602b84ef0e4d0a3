"""NYU Depth v2: the labelled .mat file, or folders with one .h5 file per image."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from raptor.data.records import Files, Record
from raptor.data.splits import known_split
from raptor.errors import DataError, MissingDependencyError, one_line

SPLITS = "splits.mat"  # next to the .mat file: the images of each split
MOST_VALUES = 2**32  # largest allowed array; the labelled file has 1.3e9 values


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        import h5py
    except ImportError as error:
        raise MissingDependencyError("NYU Depth v2 needs the package h5py: pip install 'raptor-vit[nyu]'") from error
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, LookupError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise DataError(f"{str(path)!r} cannot be read as a file of NYU Depth v2: {one_line(error)}") from error


def _dataset(file: Any, name: str) -> Any:
    """Return an array of a file; raise a ValueError for HDF5 links to other files and for oversized arrays."""
    found = file[name]
    if found.file.filename != file.filename or found.external or found.is_virtual:
        raise ValueError(f"its {name!r} is stored in another file")
    if found.size > MOST_VALUES:
        raise ValueError(f"its {name!r} has {found.size:,} values, more than {MOST_VALUES:,}")
    return found


def _record(image: Any, depth: Any, name: str) -> Record:
    """Return a record of an image (height, width, 3) and its depth (height, width) in metres."""
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise ValueError(f"an image is {image.dtype} of shape {image.shape}, not uint8 of shape (height, width, 3)")
    if depth.shape != image.shape[:2] or depth.dtype.kind not in "fiu":
        raise ValueError(f"a depth map is {depth.dtype} of shape {depth.shape}, not one number per pixel")
    return Record(np.ascontiguousarray(image), None, name, None, np.ascontiguousarray(depth))


@dataclass(frozen=True)
class LabelledRecords:
    """Images and depths of the labelled .mat file, which is opened for each image so that processes can share it.

    The 894 classes of its labels do not fit into 8-bit masks, so labels are not used.
    """

    path: Path
    indices: tuple[int, ...]
    classes: None = None
    mask_classes: None = None
    n_mask_classes: None = None

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Record:
        where = self.indices[index]
        with _opened(self.path) as file:
            # MATLAB is column-major: (images, channels, width, height).
            image, depth = _dataset(file, "images")[where].transpose(2, 1, 0), _dataset(file, "depths")[where].T
            return _record(image, depth, self.name_of(index))

    def name_of(self, index: int) -> str:
        """Return the file name and the index in it."""
        return f"{self.path.name}[{self.indices[index]}]"

    def key_of(self, index: int) -> str:
        """Return the absolute path of the file and the index in it."""
        return f"{os.path.abspath(self.path)}[{self.indices[index]}]"


@dataclass(frozen=True)
class FileRecords(Files):
    """One .h5 file per image, with `rgb` (3, height, width) and `depth` (height, width)."""

    classes: None = None
    mask_classes: None = None
    n_mask_classes: None = None

    def __getitem__(self, index: int) -> Record:
        with _opened(self.files[index]) as file:
            image, depth = _dataset(file, "rgb")[:].transpose(1, 2, 0), _dataset(file, "depth")[:]
            return _record(image, depth, self.name_of(index))


def open_labelled(path: Path) -> dict[str, Callable[[], LabelledRecords]]:
    """Return a function that reads each split of the labelled file; `splits.mat` next to it defines them."""
    with _opened(path) as file:
        n = len(_dataset(file, "images"))
    listed = path.parent / SPLITS
    if not listed.is_file():
        return {"": partial(LabelledRecords, path, tuple(range(n)))}
    from scipy.io import loadmat

    try:
        content = loadmat(listed, variable_names=["trainNdxs", "testNdxs"])
        parts = {name: content[f"{name}Ndxs"].ravel().astype(int) - 1 for name in ("train", "test")}
    except Exception as error:  # the reader raises almost any class for hostile bytes
        raise DataError(f"{str(listed)!r} does not define splits: {one_line(error)}") from error
    for indices in parts.values():
        if indices.size and not 0 <= indices.min() <= indices.max() < n:
            raise DataError(f"{str(listed)!r} has an image number outside 1..{n}, the images of {str(path)!r}")
    return {name: partial(LabelledRecords, path, tuple(indices.tolist())) for name, indices in parts.items()}


def open_files(root: Path) -> dict[str, Callable[[], FileRecords]]:
    """Return a function that reads each split of a folder with .h5 files below `train` and `val`."""
    found: dict[str, Callable[[], FileRecords]] = {}
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        if (split := known_split(folder.name)) and (files := tuple(sorted(folder.rglob("*.h5")))):
            found[split] = partial(FileRecords, root, files)
    return found

"""Parquet files and dataset ids, through `datasets`: which column is the image, which the label."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from raptor.data.records import Records, TableRecords, check_column
from raptor.errors import DataError, one_line
from raptor.hub import reachable

# Guesses, in this order, where a table does not say which column is which.
IMAGE_NAMES = ("image", "img", "jpg", "png", "picture", "photo")
LABEL_NAMES = ("label", "labels", "fine_label", "class", "target", "cls")
MOST_CLASSES = 100_000  # larger numbers are no classes but ids of something else


def open_parquet(files: list[Path]) -> Any:
    """Open parquet files as one table; `datasets` keeps a memory-mapped copy in its cache."""
    import datasets

    try:
        with _silence():
            return datasets.load_dataset("parquet", data_files=[os.path.abspath(file) for file in files], split="train")
    except Exception as error:
        # Arrow and datasets raise their own kinds for a damaged or foreign file.
        what = repr(str(files[0])) if len(files) == 1 else f"one of {len(files)} files from {str(files[0])!r} on"
        raise DataError(f"{what} is not a readable parquet file, or has no rows ({_reason(error)})") from error


def open_dataset(name: str) -> dict[str, Any]:
    """Open a dataset id: its splits, by name."""
    import datasets

    if "/" not in name and name in datasets.packaged_modules._PACKAGED_DATASETS_MODULES:
        raise DataError(f"{name!r} is a format, not a data set: give the path of a folder or of parquet files")
    try:
        # Without a network the cache is used at once instead of after half a minute of retries.
        config = datasets.DownloadConfig(local_files_only=not reachable())
        return dict(datasets.load_dataset(name, download_config=config))
    except Exception as error:
        raise DataError(
            f"{name!r} is no local path, and no data set of that id can be loaded ({_reason(error)}); without a "
            "network give a folder of images or parquet files"
        ) from error


def cache_folders() -> tuple[Path, ...]:
    """Return where data sets of the hub have their files on this machine."""
    import datasets
    from huggingface_hub import constants

    return Path(datasets.config.HF_DATASETS_CACHE), Path(constants.HF_HUB_CACHE)


def _reason(error: Exception) -> str:
    return one_line(error.__cause__ or error)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keep the library's bars and reports away from local files; downloads keep theirs."""
    import datasets

    before = datasets.logging.get_verbosity()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        datasets.logging.set_verbosity(before)
        datasets.enable_progress_bars()


def read_table(
    table: Any, name: str, image_column: str | None, label_column: str | None, folders: tuple[Path, ...]
) -> Records:
    """Find the columns of a table, and leave its images undecoded; files that it names lie in one of `folders`."""
    import datasets

    columns = list(table.column_names)
    image = check_column(image_column, columns, "image") if image_column else _guess_image(table, name)
    label = check_column(label_column, columns, "label") if label_column else _guess_label(table)
    classes = None if label is None else _classes(table, label)
    if label_column and classes is None:
        raise DataError(
            f"the label column {label!r} of {name!r} holds {table.features[label]} or gaps, not class numbers from 0 "
            f"on, {MOST_CLASSES:,} at most, or names"
        )
    if isinstance(table.features[image], datasets.Image):
        table = table.cast_column(image, datasets.Image(decode=False))
    elif not _holds_images(table.features[image]):
        raise DataError(f"the column {image!r} of {name!r} holds {table.features[image]}, not images")
    # A guess that turns out to hold no classes is no label.
    return TableRecords(table, image, None if classes is None else label, classes, name, folders)


def _holds_images(feature: Any) -> bool:
    """Tell an image column: an Image, bytes, or a struct with bytes."""
    import datasets

    if isinstance(feature, datasets.Image):
        return True
    if isinstance(feature, dict):
        feature = feature.get("bytes")
    return isinstance(feature, datasets.Value) and "binary" in feature.dtype


def _guess_image(table: Any, name: str) -> str:
    candidates = [column for column in table.column_names if _holds_images(table.features[column])]
    if not candidates:
        raise DataError(
            f"{name!r} has no image column; its columns are {', '.join(table.column_names)}: name the one that "
            "holds encoded images with --image-column"
        )
    named = [column for column in IMAGE_NAMES if column in candidates]
    if not named and len(candidates) > 1:
        raise DataError(f"{name!r} has several image columns, {', '.join(candidates)}: choose with --image-column")
    return (named or candidates)[0]


def _guess_label(table: Any) -> str | None:
    import datasets

    known = [name for name, feature in table.features.items() if isinstance(feature, datasets.ClassLabel)]
    named = [name for name in LABEL_NAMES if name in table.column_names]
    return next((name for name in named if name in known), next(iter(known + named), None))


def _classes(table: Any, column: str) -> tuple[str, ...] | None:
    """Return the class names: those of the table, the sorted strings, or the numbers up to the largest.

    None where the column holds anything else, or has gaps.
    """
    import datasets

    feature = table.features[column]
    if not isinstance(feature, (datasets.ClassLabel, datasets.Value)):
        return None
    values = table.unique(column)
    if values and all(isinstance(value, str) for value in values):
        return tuple(sorted(values))
    if not values or not all(isinstance(value, int) and 0 <= value < MOST_CLASSES for value in values):
        return None
    if isinstance(feature, datasets.ClassLabel):
        if max(values) >= len(feature.names):
            raise DataError(
                f"the column {column!r} has the label {max(values)}, but names for {len(feature.names)} classes alone, "
                "from 0 on"
            )
        return tuple(feature.names)
    return tuple(str(number) for number in range(max(values) + 1))

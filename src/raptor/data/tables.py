"""Parquet files and dataset ids, read with `datasets`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from raptor.data.records import Records, TableRecords, check_column
from raptor.errors import DataError, one_line
from raptor.runtime.optional_imports import reachable

# Column names to look for, in this order.
IMAGE_NAMES = ("image", "img", "jpg", "png", "picture", "photo")
LABEL_NAMES = ("label", "labels", "fine_label", "class", "target", "cls")
MOST_CLASSES = 100_000  # larger numbers are ids, not classes


def open_parquet(files: list[Path]) -> Any:
    """Open parquet files as one table; `datasets` stores a memory-mapped copy in its cache."""
    import datasets

    try:
        with silence_datasets():
            return datasets.load_dataset("parquet", data_files=[os.path.abspath(file) for file in files], split="train")
    except Exception as error:
        # Arrow and datasets raise many classes for a damaged file.
        what = (
            repr(str(files[0])) if len(files) == 1 else f"one of {len(files)} files, starting with {str(files[0])!r},"
        )
        raise DataError(f"{what} is not a readable parquet file, or has no rows: {_reason(error)}") from error


def open_dataset(name: str) -> dict[str, Any]:
    """Open a dataset id; return its splits by name."""
    import datasets

    if "/" not in name and name in datasets.packaged_modules._PACKAGED_DATASETS_MODULES:
        raise DataError(f"{name!r} is a format, not a dataset; use the path of a folder or of parquet files")
    try:
        # Without a network, use the cache at once instead of retrying for half a minute.
        config = datasets.DownloadConfig(local_files_only=not reachable())
        return dict(datasets.load_dataset(name, download_config=config))
    except Exception as error:
        raise DataError(
            f"{name!r} is not a local path, and no dataset with this id can be loaded ({_reason(error)}); without a "
            "network, use a folder of images or parquet files"
        ) from error


def cache_folders() -> tuple[Path, ...]:
    """Return the folders in which datasets of the hub are cached."""
    import datasets
    from huggingface_hub import constants

    return Path(datasets.config.HF_DATASETS_CACHE), Path(constants.HF_HUB_CACHE)


def _reason(error: Exception) -> str:
    return one_line(error.__cause__ or error)


@contextlib.contextmanager
def silence_datasets() -> Iterator[None]:
    """Turn off the log messages and progress bars of `datasets`, and restore both at the end."""
    import datasets

    verbosity, bars = datasets.logging.get_verbosity(), datasets.is_progress_bar_enabled()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        datasets.logging.set_verbosity(verbosity)
        if bars:
            datasets.enable_progress_bars()


def read_table(
    table: Any, name: str, image_column: str | None, label_column: str | None, folders: tuple[Path, ...]
) -> Records:
    """Return the records of a table, with undecoded images.

    Parameters
    ----------
    table, name
        The table, and its name for messages.
    image_column, label_column
        Names of the columns, or None to detect them.
    folders
        Folders with the files that the table may name.
    """
    import datasets

    image, label, classes = choose_columns(table, name, image_column, label_column)
    if isinstance(table.features[image], datasets.Image):
        table = table.cast_column(image, datasets.Image(decode=False))
    return TableRecords(table, image, label, classes, name, folders)


def choose_columns(
    table: Any, name: str, image_column: str | None, label_column: str | None
) -> tuple[str, str | None, tuple[str, ...] | None]:
    """Return the columns of images and of labels, and the class names; None without labels.

    Parameters
    ----------
    table
        A table with `column_names`, `features` and `unique(column)`.
    name, image_column, label_column
        As in `read_table`.
    """
    columns = list(table.column_names)
    image = check_column(image_column, columns, "image") if image_column else _guess_image(table, name)
    label = check_column(label_column, columns, "label") if label_column else _guess_label(table)
    classes = None if label is None else _classes(table, label)
    if label_column and classes is None:
        raise DataError(
            f"the label column {label!r} of {name!r} has values of {table.features[label]} or missing values; labels "
            f"must be names, or class numbers from 0 to {MOST_CLASSES - 1:,}"
        )
    if not _holds_images(table.features[image]):
        raise DataError(f"the column {image!r} of {name!r} has values of {table.features[image]}, not images")
    # A detected column without valid classes is not a label column.
    return image, None if classes is None else label, classes


def content_of(value: Any) -> bytes:
    """Return the bytes of an image in a row; empty where there are none, which the decoder reports as damaged."""
    content = value.get("bytes") if isinstance(value, dict) else value
    return content if isinstance(content, bytes) else b""


def _holds_images(feature: Any) -> bool:
    """Return whether a column has images: an Image, bytes, or a struct with bytes."""
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
            f"{name!r} has no image column; its columns are {', '.join(table.column_names)}. Name the column with "
            "encoded images with --image-column"
        )
    named = [column for column in IMAGE_NAMES if column in candidates]
    if not named and len(candidates) > 1:
        raise DataError(f"{name!r} has several image columns: {', '.join(candidates)}; choose one with --image-column")
    return (named or candidates)[0]


def _guess_label(table: Any) -> str | None:
    import datasets

    known = [name for name, feature in table.features.items() if isinstance(feature, datasets.ClassLabel)]
    named = [name for name in LABEL_NAMES if name in table.column_names]
    return next((name for name in named if name in known), next(iter(known + named), None))


def _classes(table: Any, column: str) -> tuple[str, ...] | None:
    """Return the class names: those of the table, the sorted strings, or the numbers up to the largest.

    None if the column has other values or missing values.
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
                f"the column {column!r} has the label {max(values)}, but only {len(feature.names)} class names; labels "
                f"must be from 0 to {len(feature.names) - 1}"
            )
        return tuple(feature.names)
    return tuple(str(number) for number in range(max(values) + 1))

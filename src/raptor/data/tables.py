"""Parquet files and dataset ids, through `datasets`: which column is the image, which the label."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from raptor.data.records import Records, TableRecords, check_column
from raptor.errors import DataError
from raptor.hub import reachable

# Guesses, in this order, where a table does not say which column is which.
IMAGE_NAMES = ("image", "img", "jpg", "png", "picture", "photo")
LABEL_NAMES = ("label", "labels", "fine_label", "class", "target", "cls")


def open_parquet(files: list[Path]) -> Any:
    """Open parquet files as one table; `datasets` keeps a memory-mapped copy in its cache."""
    import datasets

    for file in files:
        if not file.is_file():
            raise DataError(f"there is no parquet file {str(file)!r}")
    try:
        return datasets.load_dataset("parquet", data_files=[str(file) for file in files], split="train")
    except Exception as error:
        # Arrow and datasets raise their own kinds for a damaged or foreign file.
        raise DataError(f"{str(files[0])!r} is not a readable parquet file ({_reason(error)})") from error


def open_dataset(name: str) -> dict[str, Any]:
    """Open a dataset id: its splits, by name."""
    import datasets

    if not reachable() and not datasets.config.HF_HUB_OFFLINE:
        datasets.config.HF_HUB_OFFLINE = True  # use the cache at once instead of waiting for a network
    try:
        return dict(datasets.load_dataset(name))
    except Exception as error:
        raise DataError(
            f"{name!r} is no local path, and no data set of that id can be loaded ({_reason(error)}); without a "
            "network give a folder of images or parquet files"
        ) from error


def _reason(error: Exception) -> str:
    cause = error.__cause__ or error
    return f"{type(cause).__name__}: {str(cause).strip().partition(chr(10))[0]}"


def read_table(table: Any, name: str, image_column: str | None, label_column: str | None) -> Records:
    """Find the columns of a table, and leave its images undecoded."""
    import datasets

    columns = list(table.column_names)
    image = check_column(image_column, columns, "image") if image_column else _guess_image(table, name)
    label = check_column(label_column, columns, "label") if label_column else _guess_label(table)
    if isinstance(table.features[image], datasets.Image):
        table = table.cast_column(image, datasets.Image(decode=False))
    elif not _holds_images(table.features[image]):
        raise DataError(f"the column {image!r} of {name!r} holds {table.features[image]}, not images")
    return TableRecords(table, image, label, _classes(table, label, name), name)


def _holds_images(feature: Any) -> bool:
    """Tell an image column: an Image, bytes, or a struct with bytes."""
    import datasets

    if isinstance(feature, datasets.Image):
        return True
    if isinstance(feature, dict):
        return "bytes" in feature
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


def _classes(table: Any, column: str | None, name: str) -> tuple[str, ...] | None:
    """Return the class names: those of the table, the sorted strings, or the numbers up to the largest."""
    import datasets

    if column is None:
        return None
    feature = table.features[column]
    if isinstance(feature, datasets.ClassLabel):
        return tuple(feature.names)
    values = table.unique(column)
    if all(isinstance(value, str) for value in values):
        return tuple(sorted(values))
    if all(isinstance(value, int) and value >= 0 for value in values):
        return tuple(str(number) for number in range(max(values) + 1))
    raise DataError(f"the label column {column!r} of {name!r} holds {feature}, not class numbers or names")

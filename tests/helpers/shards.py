"""The same noise pictures as a folder, as tar shards and as parquet files."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import datasets
import numpy as np
import pytest
from PIL import Image

SIDE, N = 24, 60  # of the pictures, and of the data of the fixture


def noise(number: int) -> bytes:
    """Return a PNG of noise that is different for every number."""
    pixels = np.random.default_rng(number).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "png", compress_level=1)
    return buffer.getvalue()


def as_folder(root: Path, n: int, classes: int = 3) -> Path:
    """Write class folders whose order of files is the order of numbers within each class."""
    for number in range(n):
        folder = root / str(number % classes)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:06d}.png").write_bytes(noise(number))
    return root


def as_tars(root: Path, n: int, shards: int = 4, classes: int = 3, name: str = "part", content=noise) -> Path:
    """Write tar shards in the format of webdataset."""
    root.mkdir(parents=True, exist_ok=True)
    for shard in range(shards):
        with tarfile.open(root / f"{name}-{shard:03d}.tar", "w") as archive:
            for number in range(shard, n, shards):
                for ending, value in (("png", content(number)), ("cls", str(number % classes).encode())):
                    info = tarfile.TarInfo(f"{number:06d}.{ending}")
                    info.size = len(value)
                    archive.addfile(info, io.BytesIO(value))
    return root


def as_parquet(root: Path, n: int, shards: int = 4, classes: int = 3) -> Path:
    """Write parquet files with an image and a label column."""
    root.mkdir(parents=True, exist_ok=True)
    for shard in range(shards):
        numbers = range(shard, n, shards)
        rows = {"image": [{"bytes": noise(number), "path": None} for number in numbers],
                "label": [number % classes for number in numbers]}  # fmt: skip
        table = datasets.Dataset.from_dict(rows).cast_column("image", datasets.Image())
        table.to_parquet(root / f"part-{shard:03d}.parquet", batch_size=8)
    return root


def by_content(images):
    """Return the label of every image, by its pixels."""
    return {
        pixels.numpy().tobytes(): int(label)
        for batch in images
        for pixels, label in zip(batch.pixels, batch.label, strict=True)
    }


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """The same images in three forms."""
    root = tmp_path_factory.mktemp("shards")
    return {
        "folder": as_folder(root / "folder", N), "tar": as_tars(root / "tar", N),
        "parquet": as_parquet(root / "parquet", N),
    }  # fmt: skip

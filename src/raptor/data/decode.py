"""From a file or its bytes to an RGB image; whatever is wrong with it becomes one kind of error."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError


class DamagedImage(Exception):
    """An image that cannot be decoded; the message says why."""


def decode(source: Path | bytes | NDArray[np.uint8]) -> Image.Image:
    """Return an image in RGB, upright as its EXIF orientation says; an array (height, width, 3) is one already.

    Transparency is dropped, 16-bit greys are scaled to 8 bits, of an animation the first frame is taken.
    """
    if isinstance(source, np.ndarray):
        return Image.fromarray(source)
    try:
        with warnings.catch_warnings():
            # A decompression bomb is a warning up to twice the limit and an error above: refuse both.
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            warnings.filterwarnings("ignore", message=".*EXIF.*")
            with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as image:
                return _to_rgb(ImageOps.exif_transpose(image))
    except (FileNotFoundError, PermissionError) as error:
        raise DamagedImage(error.strerror or str(error)) from error
    except UnidentifiedImageError as error:
        raise DamagedImage("not an image") from error
    except Exception as error:
        # Decoders of some thirty formats raise almost anything on hostile bytes.
        raise DamagedImage(f"{type(error).__name__}: {error}") from error


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I;16") or image.mode == "I":
        grey = np.asarray(image).astype(np.int64)
        return Image.fromarray(np.clip(grey // 257, 0, 255).astype(np.uint8)).convert("RGB")
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("RGB")

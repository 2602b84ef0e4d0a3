"""From a file or its bytes to an RGB image; whatever is wrong with it becomes one kind of error."""

from __future__ import annotations

import contextlib
import io
import stat
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from raptor.errors import one_line

# What photographs and masks are kept in. PIL reads some forty formats, whatever a file is called, and one of them,
# EPS, is a program that it hands to Ghostscript.
FORMATS = frozenset({"JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM", "JPEG2000", "AVIF"})


class DamagedImage(Exception):
    """An image that cannot be decoded; the message says why."""


@cache
def _formats() -> tuple[str, ...]:
    """Return those of the formats that the installed PIL reads."""
    Image.init()
    return tuple(sorted(FORMATS & set(Image.OPEN)))


@contextlib.contextmanager
def opened(source: Path | bytes) -> Iterator[Image.Image]:
    """Open an image that may come from anybody; whatever goes wrong in it becomes a `DamagedImage`."""
    try:
        with warnings.catch_warnings():
            # Decoders warn of metadata that nobody asked for. A decompression bomb is a warning up to twice the limit
            # and an error above: refuse both.
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            if isinstance(source, Path) and not stat.S_ISREG(source.stat().st_mode):
                raise DamagedImage("not a file")  # a pipe would be waited for
            with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=_formats()) as image:
                yield image
    except DamagedImage:
        raise
    except (FileNotFoundError, PermissionError) as error:
        raise DamagedImage(error.strerror or str(error)) from error
    except UnidentifiedImageError as error:
        raise DamagedImage("not an image") from error
    except Exception as error:
        # Decoders of many formats raise almost anything on hostile bytes.
        raise DamagedImage(one_line(error)) from error


def decode(source: Path | bytes | NDArray[np.uint8]) -> Image.Image:
    """Return an image in RGB, upright as its EXIF orientation says; an array (height, width, 3) is one already.

    Transparency is dropped, 16-bit greys are scaled to 8 bits, of an animation the first frame is taken.
    """
    if isinstance(source, np.ndarray):
        return Image.fromarray(source)
    with opened(source) as image:
        return _to_rgb(ImageOps.exif_transpose(image))


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I;16") or image.mode == "I":
        grey = np.asarray(image).astype(np.int64)
        return Image.fromarray(np.clip(grey // 257, 0, 255).astype(np.uint8)).convert("RGB")
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("RGB")

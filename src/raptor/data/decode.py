"""Decoding of image files and bytes to RGB; every failure becomes a `DamagedImage`."""

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

# Formats of photographs and masks. PIL reads about forty formats, whatever the suffix of a file; one of them, EPS, is a
# program that it passes to Ghostscript.
FORMATS = frozenset({"JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM", "JPEG2000", "AVIF"})


class DamagedImage(Exception):
    """An image that cannot be decoded; the message says why."""


@cache
def _formats() -> tuple[str, ...]:
    """Return the formats that the installed PIL supports."""
    Image.init()
    return tuple(sorted(FORMATS & set(Image.OPEN)))


@contextlib.contextmanager
def opened(source: Path | bytes) -> Iterator[Image.Image]:
    """Open an untrusted image; any error while it is open becomes a `DamagedImage`."""
    try:
        with warnings.catch_warnings():
            # Ignore warnings about metadata. PIL warns of a decompression bomb up to twice its limit and raises above:
            # reject both.
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            if isinstance(source, Path) and not stat.S_ISREG(source.stat().st_mode):
                raise DamagedImage("not a file")  # opening a pipe would block
            with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=_formats()) as image:
                yield image
    except DamagedImage:
        raise
    except (FileNotFoundError, PermissionError) as error:
        raise DamagedImage(error.strerror or str(error)) from error
    except UnidentifiedImageError as error:
        raise DamagedImage("not an image") from error
    except Exception as error:
        # Decoders raise almost any class for damaged or hostile bytes.
        raise DamagedImage(one_line(error)) from error


def decode(source: Path | bytes | NDArray[np.uint8]) -> Image.Image:
    """Decode an image to RGB and apply its EXIF orientation.

    Transparency is dropped, 16-bit grey values are scaled to 8 bits, and the first frame of an animation is used.

    Parameters
    ----------
    source
        File, encoded bytes, or an RGB array (height, width, 3).
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

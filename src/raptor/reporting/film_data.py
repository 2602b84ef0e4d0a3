"""The depth film as the page holds it: bytes of colours and similarities in base64, and the images themselves."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from raptor.errors import OutputError, one_line
from raptor.film import Film

ARRAYS = "film.npz"
LARGEST = 500_000_000  # bytes of its arrays
SIDE = 160  # pixels of an image beside its film


def film_arrays(film: Film, pictures: NDArray[np.uint8]) -> dict[str, NDArray[Any]]:
    """Return what the film's file holds."""
    return {**film.arrays(), "pictures": pictures}


def film_data(file: Path, phases: str) -> dict[str, Any]:
    """Read a film for the page."""
    try:
        return _read(file, phases)
    except Exception as error:  # a damaged or foreign file raises almost anything
        raise OutputError(f"the film {str(file)!r} cannot be read: {one_line(error)}") from error


def _read(file: Path, phases: str) -> dict[str, Any]:
    with np.load(file, allow_pickle=False) as stored:
        if (size := sum(entry.file_size for entry in stored.zip.infolist())) > LARGEST:
            raise ValueError(f"it has {size:,} bytes, too many")
        arrays = {name: stored[name] for name in stored.files}
    pictures = arrays.pop("pictures")
    by_kind: dict[str, dict[str, NDArray[Any]]] = {"colours": {}, "cosines": {}, "apart": {}}
    for name, array in arrays.items():
        kind, flow = name.split("/", 1)
        by_kind[kind][flow] = array
    first = next(iter(by_kind["colours"].values()))
    images, layers, rows, columns = first.shape[:4]
    lengths = [int(length) for length in phases.split("-")] if phases else []
    most = max((float(array.max()) for array in by_kind["apart"].values()), default=0.0)
    apart = {
        flow: np.round(array / max(most, 1e-12) * 255).clip(0, 255).astype(np.uint8)
        for flow, array in by_kind["apart"].items()
    }
    return {
        "flows": list(by_kind["colours"]), "images": images, "layers": layers, "rows": rows, "columns": columns,
        "phases": lengths, "most_apart": most,
        "colours": {flow: _text(array) for flow, array in by_kind["colours"].items()},
        "cosines": {flow: _text(array) for flow, array in by_kind["cosines"].items()},
        "apart": {flow: _text(array) for flow, array in apart.items()},
        "pictures": [_picture(picture) for picture in pictures],
    }  # fmt: skip


def _text(array: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def _picture(pixels: NDArray[np.uint8]) -> str:
    """Return an image as a data address."""
    image = Image.fromarray(pixels)
    image.thumbnail((SIDE, SIDE))
    file = io.BytesIO()
    image.save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()

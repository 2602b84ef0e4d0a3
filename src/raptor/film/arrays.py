"""The depth film as a file, and as the page holds it: colours and similarities in base64, and the images."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from raptor.errors import OutputError, one_line
from raptor.film.film import BUDGET, Film

ARRAYS = "film.npz"
KINDS = ("colours", "directions", "apart", "outliers", "cosines")  # arrays by flow; cosines in older films
LARGEST = 500_000_000  # bytes of its arrays
SIDE = 336  # pixels of an image under its film
SMALL = 160  # pixels up to which a picture is kept without loss


@dataclass(frozen=True)
class PageFilm:
    """A depth film as the page's script reads it.

    Parameters
    ----------
    flows
        Names, the teacher first.
    images, layers, rows, columns
        Sizes; layers include the embedding.
    phases
        Number of layers of each phase; empty if they are not known.
    most_apart
        Largest difference from the teacher, which is 255 in `apart`.
    colours, directions, apart, outliers
        By flow, bytes in base64.
    cosines
        As in films of older versions, which had no directions.
    components
        Number of coordinates of a direction.
    blocks
        By flow, the number of blocks of a surrogate.
    pictures
        The images, as data URLs.
    left_out
        Number of further images that the film has, for which a page of several films has no room.
    """

    flows: list[str]
    images: int
    layers: int
    rows: int
    columns: int
    phases: list[int]
    most_apart: float
    colours: dict[str, str]
    directions: dict[str, str]
    apart: dict[str, str]
    outliers: dict[str, str]
    cosines: dict[str, str]
    components: int
    blocks: dict[str, int]
    pictures: list[str]
    left_out: int


def film_bytes(film: Film, pictures: NDArray[np.uint8]) -> bytes:
    """Return the content of film.npz.

    Parameters
    ----------
    film
        The film.
    pictures
        The images, (images, height, width, 3).
    """
    buffer = io.BytesIO()  # numpy seeks in the file that it writes
    arrays: dict[str, Any] = {**film.arrays(), "pictures": pictures}
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def film_data(file: Path, phases: str, blocks: Mapping[str, int] | None = None, films: int = 1) -> PageFilm:
    """Read a film for the page.

    Parameters
    ----------
    file
        film.npz of a run directory.
    phases
        Text such as `7-3-2`, or nothing.
    blocks
        Numbers of blocks of the surrogates, by flow.
    films
        Number of films of the page. They share its size, so that each has fewer images.
    """
    try:
        return _read(file, phases, dict(blocks or {}), films)
    except Exception as error:  # a damaged or foreign file raises almost anything
        raise OutputError(f"the film {str(file)!r} cannot be read: {one_line(error)}") from error


def _read(file: Path, phases: str, blocks: dict[str, int], films: int) -> PageFilm:
    with np.load(file, allow_pickle=False) as stored:
        if (size := sum(entry.file_size for entry in stored.zip.infolist())) > LARGEST:
            raise ValueError(f"it has {size:,} bytes; at most {LARGEST:,} are read")
        arrays = {name: stored[name] for name in stored.files}
    size = sum(array.nbytes for name, array in arrays.items() if name.partition("/")[0] in ("directions", "cosines"))
    images = len(arrays["pictures"])
    kept = min(images, max(1, images * BUDGET // (films * max(1, size))))
    kept = images if films == 1 else kept
    arrays = {name: array[:kept] for name, array in arrays.items()}
    left_out = images - kept
    pictures = arrays.pop("pictures")
    by_kind: dict[str, dict[str, NDArray[Any]]] = {kind: {} for kind in KINDS}
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
    return PageFilm(
        flows=list(by_kind["colours"]),
        images=images,
        layers=layers,
        rows=rows,
        columns=columns,
        phases=lengths,
        most_apart=most,
        colours={flow: _text(array) for flow, array in by_kind["colours"].items()},
        directions={flow: _text(array) for flow, array in by_kind["directions"].items()},
        apart={flow: _text(array) for flow, array in apart.items()},
        outliers={flow: _text(array) for flow, array in by_kind["outliers"].items()},
        cosines={flow: _text(array) for flow, array in by_kind["cosines"].items()},
        components=next((array.shape[-1] for array in by_kind["directions"].values()), 0),
        blocks=blocks,
        pictures=[_picture(picture) for picture in pictures],
        left_out=left_out,
    )


def _text(array: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def _picture(pixels: NDArray[np.uint8]) -> str:
    """Return an image as a data URL."""
    image = Image.fromarray(pixels)
    image.thumbnail((SIDE, SIDE))
    file, kind = io.BytesIO(), "png" if max(image.size) <= SMALL else "jpeg"
    image.save(file, kind.upper(), **({} if kind == "png" else {"quality": 88}))
    return f"data:image/{kind};base64," + base64.b64encode(file.getvalue()).decode()

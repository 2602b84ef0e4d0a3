"""A sheet of scenes: picture, mask and depth side by side."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from raptor.data.scenes.atlas import CLASSES
from raptor.data.scenes.draw import BACKGROUND_DEPTH, Scenes
from raptor.data.scenes.layout import SIZE

GAP = 2  # pixels between pictures
# One grey for the background, then hues as far apart as twelve can be, alternately light and dark.
_HUES = [(int(255 * k / len(CLASSES)), 200, 255 if k % 2 else 170) for k in range(len(CLASSES))]


def _palette() -> NDArray[np.uint8]:
    """Return the colour of each id of a mask, (classes + 1, 3)."""
    hues = Image.frombytes("HSV", (len(_HUES), 1), np.array(_HUES, dtype=np.uint8).tobytes()).convert("RGB")
    return np.concatenate([[[40, 40, 40]], np.asarray(hues)[0]]).astype(np.uint8)


def contact_sheet(scenes: Scenes, columns: int = 4, scale: int = 2) -> Image.Image:
    """Return a sheet of triples: the picture, its mask in one colour a class, its depth (near is bright)."""
    near = 1 - (scenes.depth - 1) / (BACKGROUND_DEPTH - 1)
    grey = np.clip(255 * near, 0, 255).astype(np.uint8)[..., None].repeat(3, axis=3)
    triples = [scenes.pixels.transpose(0, 2, 3, 1), _palette()[scenes.mask], grey]
    rows = -(-len(scenes.label) // columns)
    cell = 3 * SIZE + GAP
    sheet = np.full((rows * (SIZE + GAP), columns * (cell + GAP), 3), 255, dtype=np.uint8)
    for index in range(len(scenes.label)):
        top, left = (index // columns) * (SIZE + GAP), (index % columns) * (cell + GAP)
        for place, images in enumerate(triples):
            sheet[top : top + SIZE, left + place * SIZE : left + (place + 1) * SIZE] = images[index]
    image = Image.fromarray(sheet)
    return image.resize((image.width * scale, image.height * scale), Image.Resampling.NEAREST)

"""Procedural scenes: labelled images of textured shapes that occlude one another.

A scene has 64x64 pixels and shows 3 or 4 overlapping objects at different distances in a dark haze, in front of a
textured background. A class is a pair of outline and texture ("striped star"); the label is the class of the nearest
object. Radius and contrast of an object at distance d are proportional to 1/d, so distance is visible. Sizes and
brightness at distance 1 vary, however, so that both together identify the nearest object in only about 70% of the
scenes. Occlusion always identifies it: every other object is partly behind a nearer one. Colour is independent of the
class, and other objects may share the outline or the texture of the nearest one, so both must be read from the same
object.

Every scene is a pure function of (seed, split, index). All random numbers are hashes of this triple, and pixels are
computed with integer arithmetic, so the result does not depend on the batch, the number of threads or the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raptor.data.scenes.atlas import BAND, EXTENT, SIDE, backgrounds, surfaces
from raptor.data.scenes.layout import MAX_OBJECTS, SIZE, Layout, compose, largest_radius, scene_keys

BACKGROUND_DEPTH = 4.0
MEAN = (0.3037, 0.3037, 0.3037)
STD = (0.1805, 0.1805, 0.1805)
"""Mean and standard deviation of pixels / 255 over the training split, the same by channel."""

_CHUNK = 32
_FRACTION = 16  # bits behind the point of outline coordinates


@dataclass(frozen=True)
class Scenes:
    """A batch of n scenes.

    Attributes
    ----------
    pixels
        (n, 3, 64, 64) uint8.
    label
        (n,) int64, index into ``CLASSES`` of the nearest object.
    mask
        (n, 64, 64) uint8; 0 is background, k + 1 is class k.
    depth
        (n, 64, 64) float32 distances, nearest about 1, background ``BACKGROUND_DEPTH``.
    """

    pixels: NDArray[np.uint8]
    label: NDArray[np.int64]
    mask: NDArray[np.uint8]
    depth: NDArray[np.float32]


def _fixed(values: NDArray[np.float64]) -> NDArray[np.int32]:
    """Convert to fixed point; rounding removes the last bits, in which the sines of machines differ."""
    return np.floor(values * (1 << _FRACTION) + 0.5).astype(np.int32)


def _paint_ground(scene: Layout) -> NDArray[np.int32]:
    """Return the background of the scenes, (n * 64 * 64, 3)."""
    n = len(scene.count)
    line = np.arange(SIZE)
    rows = ((scene.ground_map[:, 1:2] + line) & (SIDE - 1)) * SIDE
    rows += scene.ground_map[:, :1] * SIDE * SIDE
    cols = (scene.ground_map[:, 2:3] + line) & (SIDE - 1)
    level = backgrounds()[rows[:, :, None] + cols[:, None, :]]
    entry = level + (64 * np.arange(n))[:, None, None]
    return np.take(scene.ground.reshape(-1, 3), entry.reshape(-1), axis=0)


def _paint_object(scene: Layout, rank: int, canvas: NDArray[np.int32], owner: NDArray[np.uint8]) -> None:
    """Paint the objects of one rank into every scene that has them.

    Only a square window around the object is visited. Near the border the window is shifted into the frame, where it
    still covers the visible part of the object.
    """
    who = np.flatnonzero(scene.count > rank)
    if not len(who):
        return
    x, y, radius = scene.x[who, rank], scene.y[who, rank], scene.radius[who, rank]
    window = min(SIZE, 2 * int(np.ceil(largest_radius(rank))) + 3)
    left = np.clip(np.floor(x).astype(np.int64) - window // 2, 0, SIZE - window)
    top = np.clip(np.floor(y).astype(np.int64) - window // 2, 0, SIZE - window)
    line = np.arange(window)
    # Rotation into outline coordinates, split into a part of the column and one of the row.
    scale = SIDE / (2 * EXTENT * radius)
    cosine, sine = scale * np.cos(scene.angle[who, rank]), scale * np.sin(scene.angle[who, rank])
    dx = left[:, None] + line + 0.5 - x[:, None]
    dy = top[:, None] + line + 0.5 - y[:, None]
    half = SIDE / 2
    u = _fixed(cosine[:, None] * dx + half)[:, None, :] + _fixed(sine[:, None] * dy)[:, :, None]
    v = _fixed(-sine[:, None] * dx + half)[:, None, :] + _fixed(cosine[:, None] * dy)[:, :, None]
    limit = (SIDE << _FRACTION) - 1
    np.clip(u, 0, limit, out=u)
    np.clip(v, 0, limit, out=v)
    u >>= _FRACTION
    v >>= _FRACTION
    v *= SIDE
    u += v
    entry = scene.kind[who, rank] * (SIDE * SIDE)
    cell = np.take(surfaces(), u + entry[:, None, None])
    # Coverage 0..256 of a pixel by a straight edge at distance s: clip(1/2 + s * radius).
    gain = np.floor(256 * BAND / 127 * radius * 64 + 0.5).astype(np.int32)
    cover = (cell >> 8).astype(np.int32)
    cover -= 128
    cover *= gain[:, None, None]
    cover >>= 6
    cover += 128
    np.clip(cover, 0, 256, out=cover)
    seen = np.flatnonzero(cover)
    cover = cover.reshape(-1)[seen]
    place = (who * SIZE * SIZE)[:, None, None] + ((top[:, None] + line) * SIZE)[:, :, None]
    place = (place + (left[:, None] + line)[:, None, :]).reshape(-1)[seen]
    shade = cell.reshape(-1)[seen] & np.uint16(15)
    entry = (who * MAX_OBJECTS + rank)[seen // (window * window)] * 16 + shade
    colour = np.take(scene.palette.reshape(-1, 3), entry, axis=0)
    below = np.take(canvas, place, axis=0)
    colour -= below
    colour *= cover[:, None]
    colour += 128
    colour >>= 8
    colour += below
    canvas[place] = colour
    owner[place[cover >= 128]] = rank + 1


def _render_chunk(keys: NDArray[np.uint64]) -> Scenes:
    n = len(keys)
    scene = compose(keys)
    canvas = _paint_ground(scene)
    owner = np.zeros(n * SIZE * SIZE, dtype=np.uint8)
    for rank in reversed(range(MAX_OBJECTS)):
        _paint_object(scene, rank, canvas, owner)
    entry = owner.reshape(n, -1) + (np.arange(n) * (MAX_OBJECTS + 1))[:, None]
    ids = np.zeros((n, MAX_OBJECTS + 1), dtype=np.uint8)
    ids[:, 1:] = scene.kind + 1
    far = np.full((n, MAX_OBJECTS + 1), BACKGROUND_DEPTH, dtype=np.float32)
    far[:, 1:] = scene.depth
    shape = (n, SIZE, SIZE)
    return Scenes(
        pixels=canvas.astype(np.uint8).reshape(*shape, 3).transpose(0, 3, 1, 2),
        label=scene.kind[:, 0],
        mask=np.take(ids, entry).reshape(shape),
        depth=np.take(far, entry).reshape(shape),
    )


def render(indices: Sequence[int] | NDArray[np.int64], split: str = "train", seed: int = 0) -> Scenes:
    """Render the scenes with the given indices.

    Parameters
    ----------
    indices
        (n,) integers in [0, 2^60), in any order.
    split
        One of ``SPLITS``. Splits have no scene in common.
    seed
        Seed of all scenes; each seed gives different scenes.
    """
    keys = scene_keys(np.asarray(indices, dtype=np.int64).reshape(-1), split, seed)
    n = len(keys)
    out = Scenes(
        pixels=np.empty((n, 3, SIZE, SIZE), dtype=np.uint8),
        label=np.empty(n, dtype=np.int64),
        mask=np.empty((n, SIZE, SIZE), dtype=np.uint8),
        depth=np.empty((n, SIZE, SIZE), dtype=np.float32),
    )
    # Small chunks keep the working arrays in the CPU cache; they do not change the result.
    for start in range(0, n, _CHUNK):
        part = slice(start, min(start + _CHUNK, n))
        chunk = _render_chunk(keys[part])
        out.pixels[part], out.label[part] = chunk.pixels, chunk.label
        out.mask[part], out.depth[part] = chunk.mask, chunk.depth
    return out

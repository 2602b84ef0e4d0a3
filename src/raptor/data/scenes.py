"""Procedural scenes: labelled pictures of textured shapes that occlude one another.

A scene is 64x64 pixels with 3 or 4 objects at different distances in a dark haze, in front of
a textured background. A class is a pair of outline and texture ("striped star"); the label is
the class of the nearest object. An object at distance d is painted with radius proportional to
1/d and with contrast to the haze proportional to 1/d, so distance can be seen, but size and
brightness at distance 1 vary from object to object: telling the nearest one takes both, and
who covers whom. Colour says nothing about the class, and other objects may share the outline
or the texture of the nearest one, so the two have to be read off the same object.

Every scene is a pure function of (seed, split, index). All random numbers are hashes of that
triple and everything per pixel is integer arithmetic, so neither the batch nor the number of
threads nor the machine can change a byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raptor.data.scene_atlas import (
    BACKGROUNDS,
    BAND,
    CLASSES,
    EXTENT,
    SIDE,
    backgrounds,
    surfaces,
)
from raptor.errors import OptionError

SIZE = 64
SPLITS = ("train", "validation", "test")
MIN_OBJECTS, MAX_OBJECTS = 3, 4
RADIUS = 18.0
"""Mean radius in pixels of an object at distance 1."""
RADIUS_SPREAD = 0.15
"""Radii at distance 1 lie within this share of ``RADIUS``."""
NEAREST = (1.0, 1.2)
"""Range of the distance of the nearest object."""
GAP = (0.15, 0.45)
"""Range of the steps in distance from one object to the next behind it."""
BACKGROUND_DEPTH = 4.0
MEAN = (0.3018, 0.3018, 0.3018)
STD = (0.1741, 0.1741, 0.1741)
"""Mean and standard deviation of pixels / 255 over the training split, the same by channel."""

_CHUNK = 32
_MAX_INDEX = 1 << 60
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


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Finaliser of splitmix64, a bijection of 64-bit words."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def scene_keys(indices: NDArray[np.int64], split: str, seed: int) -> NDArray[np.uint64]:
    """One 64-bit key a scene; for a given seed no two (split, index) pairs share a key.

    The counter ``split * 2^60 + index`` is distinct for distinct pairs, and both the shift by
    the hashed seed and the mix are bijections.
    """
    if split not in SPLITS:
        raise OptionError(f"split {split!r} is not one of {', '.join(SPLITS)}")
    if indices.size and (indices.min() < 0 or indices.max() >= _MAX_INDEX):
        raise OptionError("indices of scenes must lie in [0, 2^60)")
    counter = indices.astype(np.uint64) + np.uint64(SPLITS.index(split) * _MAX_INDEX)
    shift = _mix(np.array([seed % (1 << 64)], dtype=np.uint64))
    return _mix(counter + shift)


class _Draws:
    """Uniform numbers in [0, 1) of a batch of keys, consumed column by column."""

    def __init__(self, keys: NDArray[np.uint64]) -> None:
        self.keys = keys
        self.used = 0

    def uniform(self, low: float = 0.0, high: float = 1.0, n: int = MAX_OBJECTS) -> NDArray[np.float64]:
        """(scenes, n) numbers in [low, high)."""
        stream = np.arange(self.used + 1, self.used + n + 1, dtype=np.uint64)
        self.used += n
        word = _mix(self.keys[:, None] + stream * np.uint64(0x9E3779B97F4A7C15))
        return low + (high - low) * ((word >> np.uint64(11)).astype(np.float64) * 2.0**-53)

    def integer(self, bound: int, n: int = MAX_OBJECTS) -> NDArray[np.int64]:
        """(scenes, n) integers in [0, bound)."""
        return (self.uniform(n=n) * bound).astype(np.int64)


@dataclass(frozen=True)
class _Layout:
    """What is in n scenes; arrays (n, MAX_OBJECTS) list objects from near to far.

    ``count`` (n,) says how many of them exist; ``palette`` (n, MAX_OBJECTS, 16, 3) and ``ground``
    (n, 64, 3) are colours by texture level; ``ground_map`` (n, 3) is kind and offset of the background.
    """

    count: NDArray[np.int64]
    kind: NDArray[np.int64]
    depth: NDArray[np.float64]
    radius: NDArray[np.float64]
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    angle: NDArray[np.float64]
    palette: NDArray[np.int32]
    ground: NDArray[np.int32]
    ground_map: NDArray[np.int64]


def _compose(keys: NDArray[np.uint64]) -> _Layout:
    """Draw everything that is random about the scenes of these keys."""
    draw = _Draws(keys)
    count = MIN_OBJECTS + draw.integer(MAX_OBJECTS - MIN_OBJECTS + 1, 1)[:, 0]
    kind = draw.integer(len(CLASSES) - 1)
    kind[:, :1] = draw.integer(len(CLASSES), 1)
    # No distractor has the label's class: recognising just any object is of no use.
    kind[:, 1:] = (kind[:, :1] + 1 + kind[:, 1:]) % len(CLASSES)
    steps = draw.uniform(*GAP)
    steps[:, :1] = draw.uniform(*NEAREST, n=1)
    depth = np.cumsum(steps, axis=1)
    radius = RADIUS / depth * draw.uniform(1 - RADIUS_SPREAD, 1 + RADIUS_SPREAD)
    # The nearest object is whole inside the frame; others may stick out of it.
    margin = radius * 0.6
    margin[:, 0] = radius[:, 0]
    x = margin + draw.uniform() * (SIZE - 2 * margin)
    y = margin + draw.uniform() * (SIZE - 2 * margin)
    angle = draw.uniform(0, 2 * np.pi)
    palette, ground = _colours(draw, depth)
    kinds = draw.integer(len(BACKGROUNDS), 1)
    ground_map = np.concatenate([kinds, draw.integer(SIDE, 2)], axis=1)
    return _Layout(count, kind, depth, radius, x, y, angle, palette, ground, ground_map)


def _colours(draw: _Draws, depth: NDArray[np.float64]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Colour tables of objects (n, MAX_OBJECTS, 16, 3) and background (n, 64, 3), 0..255.

    All colours are ``haze + contrast / d``. Objects are always brighter than the haze, so
    that nearness shows in brightness itself and not only in its absolute difference.
    """
    n = len(depth)
    haze = draw.uniform(40, 75, 1) + draw.uniform(-22, 22, 3)
    tint = draw.uniform(-70, 70, 3 * MAX_OBJECTS).reshape(n, MAX_OBJECTS, 3)
    first = draw.uniform(120, 170)[:, :, None] + tint
    second = 0.4 * first + draw.uniform(-30, 30, 3 * MAX_OBJECTS).reshape(n, MAX_OBJECTS, 3)
    level = np.arange(16)[:, None] / 15.0
    contrast = first[:, :, None, :] + level * (second - first)[:, :, None, :]
    objects = haze[:, None, None, :] + contrast / depth[:, :, None, None]
    wave = draw.uniform(-26, 26, 3) + np.where(draw.uniform(n=1) < 0.5, -16.0, 16.0)
    shade = np.arange(64)[:, None] / 63.0 - 0.5
    ground = haze[:, None, :] + shade * wave[:, None, :]
    return _to_byte(objects), _to_byte(ground)


def _to_byte(values: NDArray[np.float64]) -> NDArray[np.int32]:
    """Round and clip to 0..255, still as wide integers for the blending."""
    return np.clip(np.floor(values + 0.5), 0, 255).astype(np.int32)


def _fixed(values: NDArray[np.float64]) -> NDArray[np.int32]:
    """To fixed point; rounding hides the last bits in which sine tables of machines differ."""
    return np.floor(values * (1 << _FRACTION) + 0.5).astype(np.int32)


def _paint_ground(scene: _Layout) -> NDArray[np.int32]:
    """Background of the scenes, (n * 64 * 64, 3)."""
    n = len(scene.count)
    line = np.arange(SIZE)
    rows = ((scene.ground_map[:, 1:2] + line) & (SIDE - 1)) * SIDE
    rows += scene.ground_map[:, :1] * SIDE * SIDE
    cols = (scene.ground_map[:, 2:3] + line) & (SIDE - 1)
    level = backgrounds()[rows[:, :, None] + cols[:, None, :]]
    entry = level + (64 * np.arange(n))[:, None, None]
    return np.take(scene.ground.reshape(-1, 3), entry.reshape(-1), axis=0)


def _paint_object(scene: _Layout, rank: int, canvas: NDArray[np.int32], owner: NDArray[np.uint8]) -> None:
    """Paint the objects of one rank into every scene that has them.

    Only a square window around the object is visited; near the border it is shifted into the
    frame, where it still covers everything that can be seen of the object.
    """
    who = np.flatnonzero(scene.count > rank)
    if not len(who):
        return
    x, y, radius = scene.x[who, rank], scene.y[who, rank], scene.radius[who, rank]
    window = min(SIZE, 2 * int(np.ceil(_largest_radius(rank))) + 3)
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


def _largest_radius(rank: int) -> float:
    """Radius that no object of this rank (0 is nearest) exceeds."""
    return RADIUS * (1 + RADIUS_SPREAD) / (NEAREST[0] + rank * GAP[0])


def _render_chunk(keys: NDArray[np.uint64]) -> Scenes:
    n = len(keys)
    scene = _compose(keys)
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
    """Paint the scenes with the given indices.

    Parameters
    ----------
    indices
        (n,) integers in [0, 2^60), in any order; a split has no end.
    split
        One of ``SPLITS``. Splits share no scene.
    seed
        Another seed is another world of scenes.
    """
    keys = scene_keys(np.asarray(indices, dtype=np.int64).reshape(-1), split, seed)
    n = len(keys)
    out = Scenes(
        pixels=np.empty((n, 3, SIZE, SIZE), dtype=np.uint8),
        label=np.empty(n, dtype=np.int64),
        mask=np.empty((n, SIZE, SIZE), dtype=np.uint8),
        depth=np.empty((n, SIZE, SIZE), dtype=np.float32),
    )
    # Small chunks keep the working arrays in the cache; they cannot change the result.
    for start in range(0, n, _CHUNK):
        part = slice(start, min(start + _CHUNK, n))
        chunk = _render_chunk(keys[part])
        out.pixels[part], out.label[part] = chunk.pixels, chunk.label
        out.mask[part], out.depth[part] = chunk.mask, chunk.depth
    return out

"""The content of a scene: its objects with positions, distances and colours, as a function of a key."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raptor.data.scenes.atlas import BACKGROUNDS, CLASSES, SIDE
from raptor.errors import OptionError

SIZE = 64
SPLITS = ("train", "validation", "test")
MIN_OBJECTS, MAX_OBJECTS = 3, 4
RADIUS = 18.0
"""Mean radius in pixels of an object at distance 1."""
RADIUS_SPREAD = 0.3
"""Radii at distance 1 lie within this share of ``RADIUS``."""
NEAREST = (1.0, 1.2)
"""Range of the distance of the nearest object."""
GAP = (0.08, 0.25)
"""Range of the differences in distance between consecutive objects."""
REACH = (0.3, 0.55)
"""Distance of an object's centre from that of an object in front of it, as a share of the sum of radii."""

_MAX_INDEX = 1 << 60


def mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply the finaliser of splitmix64, a bijection of 64-bit words."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def scene_keys(indices: NDArray[np.int64], split: str, seed: int) -> NDArray[np.uint64]:
    """Return one 64-bit key per scene; for a given seed, all (split, index) pairs have different keys.

    The counter ``split * 2^60 + index`` is different for different pairs, and the shift by the hashed seed and the mix
    are bijections.
    """
    if split not in SPLITS:
        raise OptionError(f"unknown split {split!r}; use {', '.join(SPLITS)}")
    if indices.size and (indices.min() < 0 or indices.max() >= _MAX_INDEX):
        raise OptionError("indices of scenes must lie in [0, 2^60)")
    counter = indices.astype(np.uint64) + np.uint64(SPLITS.index(split) * _MAX_INDEX)
    shift = mix(np.array([seed % (1 << 64)], dtype=np.uint64))
    return mix(counter + shift)


class _Draws:
    """Streams of uniform random numbers in [0, 1), one per key."""

    def __init__(self, keys: NDArray[np.uint64]) -> None:
        self.keys = keys
        self.used = 0

    def uniform(self, low: float = 0.0, high: float = 1.0, n: int = MAX_OBJECTS) -> NDArray[np.float64]:
        """Return (scenes, n) numbers in [low, high)."""
        stream = np.arange(self.used + 1, self.used + n + 1, dtype=np.uint64)
        self.used += n
        word = mix(self.keys[:, None] + stream * np.uint64(0x9E3779B97F4A7C15))
        return low + (high - low) * ((word >> np.uint64(11)).astype(np.float64) * 2.0**-53)

    def integer(self, bound: int, n: int = MAX_OBJECTS) -> NDArray[np.int64]:
        """Return (scenes, n) integers in [0, bound)."""
        return (self.uniform(n=n) * bound).astype(np.int64)


@dataclass(frozen=True)
class Layout:
    """The content of n scenes; arrays (n, MAX_OBJECTS) list objects from near to far.

    ``count`` (n,) is the number of objects; ``palette`` (n, MAX_OBJECTS, 16, 3) and ``ground``
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


def compose(keys: NDArray[np.uint64]) -> Layout:
    """Draw the content of the scenes with these keys."""
    draw = _Draws(keys)
    count = MIN_OBJECTS + draw.integer(MAX_OBJECTS - MIN_OBJECTS + 1, 1)[:, 0]
    kind = draw.integer(len(CLASSES) - 1)
    kind[:, :1] = draw.integer(len(CLASSES), 1)
    # No other object has the class of the label, so recognising any object is not enough.
    kind[:, 1:] = (kind[:, :1] + 1 + kind[:, 1:]) % len(CLASSES)
    steps = draw.uniform(*GAP)
    steps[:, :1] = draw.uniform(*NEAREST, n=1)
    depth = np.cumsum(steps, axis=1)
    radius = RADIUS / depth * draw.uniform(1 - RADIUS_SPREAD, 1 + RADIUS_SPREAD)
    # The nearest object is completely inside the frame. Each other object is partly behind a nearer one, so only the
    # nearest object is not occluded.
    margin = radius * 0.6
    margin[:, 0] = radius[:, 0]
    x = margin + draw.uniform() * (SIZE - 2 * margin)
    y = margin + draw.uniform() * (SIZE - 2 * margin)
    towards, reach, whom = draw.uniform(0, 2 * np.pi), draw.uniform(*REACH), draw.uniform()
    every = np.arange(len(x))
    for rank in range(1, MAX_OBJECTS):
        front = (whom[:, rank] * rank).astype(np.int64)
        away = reach[:, rank] * (radius[:, rank] + radius[every, front])
        x[:, rank] = np.clip(x[every, front] + away * np.cos(towards[:, rank]), margin[:, rank], SIZE - margin[:, rank])
        y[:, rank] = np.clip(y[every, front] + away * np.sin(towards[:, rank]), margin[:, rank], SIZE - margin[:, rank])
    angle = draw.uniform(0, 2 * np.pi)
    palette, ground = _colours(draw, depth)
    kinds = draw.integer(len(BACKGROUNDS), 1)
    ground_map = np.concatenate([kinds, draw.integer(SIDE, 2)], axis=1)
    return Layout(count, kind, depth, radius, x, y, angle, palette, ground, ground_map)


def _colours(draw: _Draws, depth: NDArray[np.float64]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return colour tables of objects (n, MAX_OBJECTS, 16, 3) and background (n, 64, 3), 0..255.

    All colours are ``haze + contrast / d``. Objects are always brighter than the haze, so that near objects are bright.
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
    """Round and clip to 0..255, as int32 for blending."""
    return np.clip(np.floor(values + 0.5), 0, 255).astype(np.int32)


def largest_radius(rank: int) -> float:
    """Return the largest possible radius of an object of this rank (0 is the nearest)."""
    return RADIUS * (1 + RADIUS_SPREAD) / (NEAREST[0] + rank * GAP[0])

"""Look-up tables for scenes: outlines, textures, background patterns.

Each table is a small integer array, computed once per process from closed-form geometry. Rendering an image is then
integer arithmetic and one look-up per pixel.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

SIDE = 128
"""Cells along one side of every table (a power of two, so that patterns wrap with a bit mask)."""

EXTENT = 1.12
"""Outline tables cover [-EXTENT, EXTENT]^2; outlines lie within the unit circle."""

BAND = 0.25
"""Signed distances are clipped at this value, in outline radii."""

# A class is a pair. Knowing only the outline gives an accuracy of 1/3, knowing only the texture 1/4.
SHAPES = ("disc", "triangle", "star", "cross")
TEXTURES = ("striped", "checked", "dotted")
CLASSES = tuple(f"{texture} {shape}" for shape in SHAPES for texture in TEXTURES)
BACKGROUNDS = ("clouds", "coarse clouds", "waves", "weave")

Loop = NDArray[np.float64]
"""A closed polyline, (n, 2) points in order."""


def _polar(radii: NDArray[np.float64]) -> Loop:
    """Corners at equal angles with the given distances from the origin."""
    angle = 2 * np.pi * np.arange(len(radii)) / len(radii)
    return radii[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def outlines() -> dict[str, list[Loop]]:
    """Closed outlines of every shape within the unit circle; inside is by the even-odd rule."""
    bar, tip = 0.32, 0.94
    arm = np.array([(bar, bar), (bar, tip), (-bar, tip)])
    quarter = np.array([(0.0, 1.0), (-1.0, 0.0)])
    return {
        "disc": [0.92 * _polar(np.ones(48))],
        "triangle": [_polar(np.ones(3))],
        "star": [_polar(np.tile([1.0, 0.42], 5))],
        "cross": [np.concatenate([arm @ np.linalg.matrix_power(quarter, n) for n in range(4)])],
    }


def signed_distance(loops: list[Loop], points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distance of points (n, 2) to the outline, positive inside (even-odd rule).

    For a segment a -> b the nearest point is a + h (b - a), h = clip(<p - a, b - a> / |b - a|^2).
    """
    best = np.full(len(points), np.inf)
    inside = np.zeros(len(points), dtype=bool)
    x, y = points.T
    for loop in loops:
        for (ax, ay), (bx, by) in zip(loop, np.roll(loop, -1, axis=0), strict=True):
            ex, ey = bx - ax, by - ay
            h = np.clip(((x - ax) * ex + (y - ay) * ey) / (ex * ex + ey * ey), 0.0, 1.0)
            best = np.minimum(best, (x - ax - h * ex) ** 2 + (y - ay - h * ey) ** 2)
            if ay != by:
                crosses = (ay > y) != (by > y)
                inside ^= crosses & (x < ax + (y - ay) * ex / ey)
    return np.where(inside, 1.0, -1.0) * np.sqrt(best)


def _grid(extent: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    line = extent * ((np.arange(SIDE) + 0.5) * 2 / SIDE - 1)
    y, x = np.meshgrid(line, line, indexing="ij")
    return x, y


def _clouds(octaves: tuple[int, ...], seed: int) -> NDArray[np.float64]:
    """Sum of periodic waves with random directions and phases, about in [0, 1]."""
    rng = np.random.Generator(np.random.Philox(seed))
    y, x = np.meshgrid(np.arange(SIDE), np.arange(SIDE), indexing="ij")
    total = np.zeros((SIDE, SIDE))
    for top in octaves:
        for _ in range(6):
            fx, fy = rng.integers(-top, top + 1, 2)
            phase = rng.random()
            total += np.cos(2 * np.pi * ((fx * x + fy * y) / SIDE + phase)) / top**0.5
    total = total / (4 * total.std()) + 0.5
    return np.clip(total, 0, 1)


def _soft_step(wave: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.clip(0.5 + 2.0 * wave, 0, 1)


def texture_values() -> NDArray[np.float64]:
    """Surface patterns in outline coordinates, (len(TEXTURES), SIDE, SIDE) in [0, 1]."""
    x, y = _grid(EXTENT)
    return np.stack(
        [
            _soft_step(np.sin(5 * np.pi * y)),
            _soft_step(np.sin(2.7 * np.pi * x) * np.sin(2.7 * np.pi * y) * 2),
            _soft_step(1.5 * (np.sin(4 * np.pi * x) * np.sin(4 * np.pi * y) - 0.3)),
        ]
    )


@cache
def surfaces() -> NDArray[np.uint16]:
    """Outline and texture of every (class, texture) pair in one table.

    Returns
    -------
    NDArray[np.uint16]
        (classes * SIDE * SIDE,). High byte: signed distance to the outline,
        ``round(128 + 127 * clip(s / BAND, -1, 1))``; low byte: texture level 0..15.
    """
    x, y = _grid(EXTENT)
    points = np.stack([x.ravel(), y.ravel()], axis=1)
    shapes = outlines()
    distance = np.stack([signed_distance(shapes[name], points) for name in SHAPES])
    edge = np.round(128 + 127 * np.clip(distance / BAND, -1, 1)).astype(np.uint16)
    level = np.round(15 * np.clip(texture_values(), 0, 1)).astype(np.uint16).reshape(len(TEXTURES), -1)
    table = (edge[:, None, :] << np.uint16(8)) | level[None, :, :]
    table.setflags(write=False)
    return table.reshape(-1)


@cache
def backgrounds() -> NDArray[np.uint8]:
    """Periodic background patterns, (kinds * SIDE * SIDE,), levels 0..63."""
    y, x = np.meshgrid(np.arange(SIDE), np.arange(SIDE), indexing="ij")
    turn = 2 * np.pi / SIDE
    values = np.stack(
        [
            _clouds((2, 5, 10), seed=21),
            _clouds((1, 2, 4), seed=22),
            0.5 + 0.5 * np.sin(turn * (6 * y + 2 * x) + 1.5 * np.sin(turn * 3 * x)),
            0.5 + 0.25 * (np.sin(turn * 9 * x) + np.sin(turn * 9 * y)),
        ]
    )
    table = np.round(63 * np.clip(values, 0, 1)).astype(np.uint8).reshape(-1)
    table.setflags(write=False)
    return table

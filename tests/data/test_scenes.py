"""Scenes: the same bytes everywhere, disjoint splits, and labels that mean what they say."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raptor.data.scenes import atlas as scene_atlas
from raptor.data.scenes import layout as scene_layout
from raptor.data.scenes.atlas import CLASSES
from raptor.data.scenes.draw import BACKGROUND_DEPTH, MEAN, STD, render
from raptor.data.scenes.layout import SIZE, SPLITS
from raptor.errors import OptionError

FROZEN = {
    "pixels": "d0504a15022b1b639db38fbb5ecf68150b0bbcce59f816530996550e4c87999c",
    "label": "23ffcd83a6a872a644d4c9939083bdd16e600028777c1d371454b05db3890e3b",
    "mask": "dacdff725f4f39bc3541cf31c3f15c174dc7eb8cbd2c7793c4e3afd6dad632e5",
    "depth": "7c84f06a59955f08e1573cfc26ae5cf31d2fbf56d721c08b2165c5be8491bb0a",
}
PLACES = {"train": [0, 1, 2, 63, 10**6, 2**59], "validation": [0, 1, 5, 2**40], "test": [0, 1, 9999]}


def digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def test_bytes_are_frozen() -> None:
    """Later results rest on these pictures: a change of one byte must be seen."""
    batches = [render(places, split) for split, places in PLACES.items()]
    found = {name: digest(np.concatenate([getattr(b, name) for b in batches])) for name in FROZEN}
    assert found == FROZEN


def test_a_scene_does_not_depend_on_its_batch() -> None:
    order = np.random.default_rng(0).permutation(200)
    together = render(order)
    for name in FROZEN:
        alone = np.concatenate([getattr(render([i]), name) for i in order[:40].tolist()])
        assert np.array_equal(getattr(together, name)[:40], alone)


@pytest.mark.parametrize("threads", ["1", "2"])
def test_bytes_do_not_depend_on_processes_or_threads(threads: str) -> None:
    code = (
        "import hashlib, numpy as np\n"
        "from raptor.data.scenes.draw import render\n"
        "b = render(np.arange(100), 'test')\n"
        "h = [hashlib.sha256(x.tobytes()).hexdigest() for x in (b.pixels, b.label, b.mask, b.depth)]\n"
        "print(*h)"
    )
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    env = {**os.environ, **dict.fromkeys(names, threads)}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    here = render(np.arange(100), "test")
    assert out.stdout.split() == [digest(getattr(here, name)) for name in FROZEN]


@pytest.mark.long
def test_splits_share_no_scene_among_100_000() -> None:
    seen: Counter[bytes] = Counter()
    sizes = {"train": 60_000, "validation": 20_000, "test": 20_000}
    for split, n in sizes.items():
        for start in range(0, n, 1000):
            pixels = render(np.arange(start, start + 1000), split).pixels
            seen.update(hashlib.blake2b(image.tobytes(), digest_size=16).digest() for image in pixels)
    assert len(seen) == 100_000


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**60 - 1), st.sampled_from(SPLITS), st.integers(0, 2**63))
def test_label_is_the_class_of_the_least_depth(index: int, split: str, seed: int) -> None:
    scene = render([index], split, seed)
    mask, depth, label = scene.mask[0], scene.depth[0], int(scene.label[0])
    nearest = depth == depth.min()
    assert set(mask[nearest].tolist()) == {label + 1}
    assert nearest.sum() >= 60
    # Nothing else has the label's class, and the background is behind everything.
    assert np.array_equal(mask == label + 1, nearest)
    assert np.array_equal(mask == 0, depth == np.float32(BACKGROUND_DEPTH))
    assert depth[mask > 0].max(initial=0.0) < BACKGROUND_DEPTH
    assert mask.max() <= len(CLASSES)


def test_keys_of_splits_are_disjoint_even_at_the_ends() -> None:
    ends = np.concatenate([np.arange(1000), 2**60 - 1 - np.arange(1000)])
    keys = np.concatenate([scene_layout.scene_keys(ends, split, seed=3) for split in SPLITS])
    assert len(np.unique(keys)) == len(keys)


def test_hash_equals_the_reference_splitmix64() -> None:
    """Published first outputs of splitmix64 with seed 1234567."""
    gamma = 0x9E3779B97F4A7C15
    states = np.array([(1234567 + i * gamma) % 2**64 for i in (1, 2, 3)], dtype=np.uint64)
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert scene_layout.mix(states).tolist() == expected


def test_labels_are_balanced_and_all_classes_occur() -> None:
    counts = np.bincount(render(np.arange(6000), "validation").label, minlength=len(CLASSES))
    expected = 6000 / len(CLASSES)
    # Chi-squared with 11 degrees of freedom exceeds 31.3 once in a thousand.
    assert ((counts - expected) ** 2 / expected).sum() < 31.3


def test_nearer_objects_are_larger_and_of_higher_contrast() -> None:
    keys = scene_layout.scene_keys(np.arange(4000), "train", 0)
    world = scene_layout.compose(keys)
    assert (np.diff(world.depth, axis=1) > 0).all()
    assert (np.diff(world.radius.mean(axis=0)) < 0).all()
    haze = world.ground.mean(axis=1)[:, None, None, :]
    contrast = np.abs(world.palette - haze).mean(axis=(0, 2, 3))
    assert (np.diff(contrast) < 0).all()
    # Radius times depth is what an object measures at distance 1: no trend is left in it.
    own = (world.radius * world.depth).mean(axis=0)
    assert np.ptp(own) < 0.02 * own.mean()


def inside(world: scene_layout.Layout, scene: int, rank: int) -> np.ndarray:
    """Signed distance in pixels of every pixel centre to the outline of one object, positive inside it."""
    y, x = np.mgrid[:SIZE, :SIZE] + 0.5
    turn, radius = world.angle[scene, rank], world.radius[scene, rank]
    dx, dy = (x - world.x[scene, rank]) / radius, (y - world.y[scene, rank]) / radius
    points = np.stack([np.cos(turn) * dx + np.sin(turn) * dy, np.cos(turn) * dy - np.sin(turn) * dx], axis=-1)
    outline = scene_atlas.outlines()[CLASSES[world.kind[scene, rank]].split()[-1]]
    return radius * scene_atlas.signed_distance(outline, points.reshape(-1, 2)).reshape(SIZE, SIZE)


def test_only_the_nearest_object_is_covered_by_none() -> None:
    """Whatever can be seen of another object, some of it is hidden by a nearer one."""
    world = scene_layout.compose(scene_layout.scene_keys(np.arange(300), "test", 0))
    for scene in range(300):
        front = inside(world, scene, 0) > 0
        for rank in range(1, world.count[scene]):
            own = inside(world, scene, rank) > 0
            assert (own & front).sum() >= 5
            front |= own


def test_size_and_brightness_do_not_settle_which_is_nearest() -> None:
    """What the module says: seven scenes of ten, by the best linear mix of log radius and brightness."""
    world = scene_layout.compose(scene_layout.scene_keys(np.arange(20_000), "test", 0))
    exists = np.arange(scene_layout.MAX_OBJECTS) < world.count[:, None]
    size, light = np.log(world.radius), world.palette.mean(axis=(2, 3)) / 25
    right = [
        (np.where(exists, weight * size / scene_layout.RADIUS_SPREAD + light, -np.inf).argmax(axis=1) == 0).mean()
        for weight in np.linspace(0, 4, 17)
    ]
    assert 0.65 < max(right) < 0.8


def test_nearest_object_lies_inside_the_frame() -> None:
    world = scene_layout.compose(scene_layout.scene_keys(np.arange(4000), "train", 0))
    for place in (world.x[:, 0], world.y[:, 0]):
        assert (place >= world.radius[:, 0]).all()
        assert (place <= SIZE - world.radius[:, 0]).all()


def test_painted_outline_equals_the_geometry() -> None:
    """The mask of the nearest object against the signed distance at every pixel centre."""
    keys = scene_layout.scene_keys(np.arange(50), "train", 0)
    world, batch = scene_layout.compose(keys), render(np.arange(50))
    for i in range(50):
        distance = inside(world, i, 0)
        painted = batch.depth[i] == batch.depth[i].min()
        # A cell of the outline table is at most half a pixel wide.
        clear = np.abs(distance) > 0.5
        assert np.array_equal(painted[clear], distance[clear] > 0)


def test_signed_distance_of_a_square_is_the_closed_form() -> None:
    square = [np.array([(1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0), (1.0, -1.0)])]
    points = np.array([(0.0, 0.0), (0.5, 0.2), (2.0, 0.0), (2.0, 2.0), (0.0, -1.5)])
    expected = [1.0, 0.5, -1.0, -(2.0**0.5), -0.5]
    np.testing.assert_allclose(scene_atlas.signed_distance(square, points), expected, atol=1e-12)


def test_pixel_statistics_are_those_stated() -> None:
    pixels = render(np.arange(3000), "train").pixels / 255.0
    np.testing.assert_allclose(pixels.mean(axis=(0, 2, 3)), MEAN, atol=0.01)
    np.testing.assert_allclose(pixels.std(axis=(0, 2, 3)), STD, atol=0.01)


def test_unknown_split_and_impossible_index_are_refused() -> None:
    with pytest.raises(OptionError, match="train, validation, test"):
        render([0], "val")
    with pytest.raises(OptionError, match="2\\^60"):
        render([-1])

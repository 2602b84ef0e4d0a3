"""Kept states: the same as live ones to half precision, announced, whole or not there, of one teacher and set."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest
import torch
from PIL import Image

import raptor
from raptor.core.phases import Phases
from raptor.data.load import load_images
from raptor.distillation.activation_cache import open_states
from raptor.distillation.distill import train_surrogate
from raptor.distillation.recipes import distillation_named
from raptor.errors import DataError, OutputError, ResumeError
from raptor.models.vit import ViT, ViTConfig
from raptor.runtime import array_cache as sharded

TOKENS, LAYERS, WIDTH, IMAGES = 1 + 1 + 64, 5, 16, 22


def small_teacher(seed=0):
    torch.manual_seed(seed)
    return raptor.load_model(ViT(ViTConfig(depth=4, width=WIDTH, heads=2, n_register=1)))


def scenes(teacher, images=IMAGES):
    return load_images("scenes", teacher, "train", images, batch_size=8)


@pytest.fixture
def small_shards(monkeypatch):
    """Five images a file, so that batches and files do not end together."""
    monkeypatch.setattr(sharded, "SHARD_BYTES", 5 * 2 * LAYERS * TOKENS * WIDTH + 1)


def test_what_is_kept_is_what_the_teacher_computes(tmp_path, small_shards):
    teacher, said = small_teacher(), []
    cache = open_states(tmp_path, teacher, scenes(teacher), said.append)
    assert [len(shard["states"]) for shard in cache.arrays.shards] == [5, 5, 5, 5, 2]
    pixels = torch.cat([batch.pixels for batch in scenes(teacher)])
    with torch.no_grad():
        truth = raptor.rollout(teacher, teacher.embed(pixels)).states
    for index in range(IMAGES):
        assert np.array_equal(cache[index], truth[index].half().numpy())
    # What was announced is what the files hold.
    held = sum(shard["states"].nbytes for shard in cache.arrays.shards)
    assert said == [s for s in said if f"{held / 1e9:.3g} GB of states of {IMAGES} images" in s]
    assert len(said) == 1


def test_every_image_comes_once_an_epoch_and_a_step_is_the_same_from_anywhere(tmp_path, small_shards):
    teacher = small_teacher()
    cache = open_states(tmp_path, teacher, scenes(teacher), lambda text: None)
    drawn = cache.shuffled(0, 11, seed=3)
    first, second, third = (next(drawn) for _ in range(3))
    # The last layer of a patch: cls of layer 0 is the same for all images.
    epoch = sorted(map(tuple, torch.cat([first, second])[:, -1, -1].tolist()))
    assert epoch == sorted(map(tuple, np.stack([cache[i][-1, -1] for i in range(IMAGES)]).astype(np.float32).tolist()))
    assert len(set(epoch)) == IMAGES
    assert torch.equal(next(cache.shuffled(2, 11, seed=3)), third)
    parts = [next(cache.shuffled(2, 11, 3, (i, 2))) for i in range(2)]
    assert torch.equal(parts[0], third[0::2])
    assert torch.equal(parts[1], third[1::2])


def test_training_from_kept_states_needs_no_teacher_and_a_second_run_writes_nothing(tmp_path, monkeypatch):
    teacher = small_teacher()
    cache = open_states(tmp_path, teacher, scenes(teacher), lambda text: None)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    said = []
    open_states(tmp_path, teacher, scenes(teacher), said.append)
    assert said == []
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}

    def never(*_):
        raise AssertionError("the teacher ran")

    monkeypatch.setattr(type(teacher), "step", never)
    losses = []
    recipe = distillation_named("paper", steps=20, batch_size=4)
    train_surrogate(teacher, scenes(teacher), Phases((2, 2)), recipe, watch=lambda _, line: losses.append(line["loss"]),
            cache=cache)  # fmt: skip
    assert len(losses) == 40  # a short training logs every step
    assert all(loss > 0 for loss in losses)


def test_live_and_kept_states_give_the_same_training(tmp_path):
    """On a folder both draw in the same order; half precision is the only difference."""
    for index in range(6):
        pixels = np.random.default_rng(index).integers(0, 255, (64, 64, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{index}.png")
    teacher = small_teacher()
    pictures = load_images(str(tmp_path), teacher, batch_size=4)
    cache = open_states(tmp_path / "cache", teacher, pictures, lambda text: None)
    recipe = distillation_named("default", steps=5, batch_size=3, crop=1.0)  # cached states are those of whole images
    runs = [train_surrogate(teacher, pictures, Phases((2, 2)), recipe, cache=kept) for kept in (None, cache)]
    live, kept = (torch.cat([p.detach().flatten() for p in run.raptor.parameters()]) for run in runs)
    start = torch.cat([p.detach().flatten() for p in train_surrogate(
        teacher, pictures, Phases((2, 2)), distillation_named("default", steps=0, batch_size=3)
    ).raptor.parameters()])  # fmt: skip
    assert (live - start).norm() > 0
    assert (live - kept).norm() < 0.05 * (live - start).norm()


def test_a_cache_of_another_teacher_or_other_images_is_named(tmp_path):
    teacher = small_teacher()
    open_states(tmp_path, teacher, scenes(teacher), lambda text: None)
    other = small_teacher(seed=1)
    with pytest.raises(ResumeError, match="has teacher = "):
        open_states(tmp_path, other, scenes(other))
    with pytest.raises(ResumeError, match="images = 22, not 9"):
        open_states(tmp_path, teacher, scenes(teacher, 9))
    with pytest.raises(ResumeError, match="has set = "):
        open_states(tmp_path, teacher, load_images("scenes", teacher, "test", IMAGES, batch_size=8))


def test_another_choice_of_as_many_images_of_a_folder_is_another_set(tmp_path):
    for index in range(12):
        Image.new("RGB", (64, 64), (20 * index, 0, 0)).save(tmp_path / f"{index:02d}.png")
    teacher = small_teacher()
    sets = [load_images(str(tmp_path), teacher, images=9, seed=seed) for seed in (0, 0, 1)]
    assert sets[0].identity() == sets[1].identity() != sets[2].identity()


@pytest.mark.parametrize("damage", ["shard", "missing", "text", "list"])
def test_a_damaged_cache_is_one_line(tmp_path, damage):
    teacher = small_teacher()
    open_states(tmp_path, teacher, scenes(teacher), lambda text: None)
    shard, about = tmp_path / "raptor-states-00000.npy", tmp_path / sharded.ABOUT
    {
        "shard": lambda: shard.write_bytes(shard.read_bytes()[:500]),
        "missing": shard.unlink,
        "text": lambda: about.write_text("{"),
        "list": lambda: about.write_text("[]"),
    }[damage]()
    with pytest.raises(ResumeError, match="is damaged") as caught:
        open_states(tmp_path, teacher, scenes(teacher))
    assert "\n" not in str(caught.value)


def test_what_a_killed_process_left_is_removed(tmp_path):
    (tmp_path / "raptor-states-00007.npy").write_bytes(b"old")
    (tmp_path / "part-00001.npy").write_bytes(b"somebody's")
    (tmp_path / ".raptor-states-00001.npy.abc").write_bytes(b"old")
    teacher = small_teacher()
    open_states(tmp_path, teacher, scenes(teacher), lambda text: None)
    assert {path.name for path in tmp_path.iterdir()} == {
        ".lock",
        "part-00001.npy",
        "raptor-states-00000.npy",
        sharded.ABOUT,
    }


def test_of_two_processes_one_fills(tmp_path):
    """The second waits for the lock and then reads; nothing is written twice."""
    teacher, said = small_teacher(), []

    def use():
        cache = open_states(tmp_path, teacher, scenes(teacher), said.append)
        lengths.append(len(cache))

    lengths = []
    users = [threading.Thread(target=use) for _ in range(3)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert lengths == [IMAGES] * 3
    assert len(said) == 1


def test_what_does_not_fit_is_said_before_anything_is_written(tmp_path, monkeypatch):
    teacher = small_teacher()
    usage = sharded.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(sharded.shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(OutputError, match="use fewer images"):
        open_states(tmp_path, teacher, scenes(teacher), lambda text: None)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]
    monkeypatch.undo()
    with torch.no_grad():
        list(teacher.parts.blocks[3].mlp.parameters())[-1].fill_(1e6)
    with pytest.raises(DataError, match="too large for half precision"):
        open_states(tmp_path, teacher, scenes(teacher), lambda text: None)
    assert not (tmp_path / sharded.ABOUT).exists()


def test_from_the_command_line(call, tmp_path):
    command = (
        "distill",
        "scenes",
        "--phases",
        "6-6",
        "--steps",
        2,
        "--batch-size",
        2,
        "--images",
        4,
        "--device",
        "cpu",
    )
    code, out, err = call(*command, "--eval-images", 4, "--cache", tmp_path / "kept", "--json")
    assert code == 0, err
    assert "GB of states of 4 images" in err
    assert json.loads(out)["phases"] == "6-6"
    assert np.load(tmp_path / "kept" / "raptor-states-00000.npy").shape == (4, 13, 69, 128)


def test_states_that_are_split_off_are_not_trained_on(tmp_path):
    teacher = small_teacher()
    cache = open_states(tmp_path, teacher, scenes(teacher), lambda text: None)
    rest, off = cache.split_off(5)
    assert sorted([*rest.indices, *off.indices]) == list(range(IMAGES))
    assert (len(rest), len(off)) == (IMAGES - 5, 5)
    assert torch.equal(
        torch.cat(list(off)), torch.stack([torch.from_numpy(cache[int(i)]).float() for i in off.indices])
    )
    seen = {float(one.sum()) for _, batch in zip(range(20), rest.shuffled(0, 4, 0), strict=False) for one in batch}
    assert not seen & {float(one.sum()) for batch in off for one in batch}

"""Checkpoints and caches of plain numbers that no training wrote: refused in one line, and left as they are."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest
import torch

import raptor
from hostile import SMALL, TRAIN, TRAPS, Trap, check_refused, vit  # noqa: F401
from raptor.distillation.activation_cache import open_states
from raptor.runtime import array_cache as sharded


@pytest.fixture(scope="module")
def kept(tmp_path_factory, vit):  # noqa: F811
    """Caches of states and of features, each with the command that filled it."""
    root = tmp_path_factory.mktemp("kept")
    teacher = raptor.load_model(vit)
    pictures = raptor.load_images("scenes", teacher, "train", 8)
    open_states(root / "states", teacher, pictures, lambda text: None)
    return root


CACHE = ("--images", 8, "--eval-images", 4, *SMALL)


def cached(vit, folder):  # noqa: F811
    return ("distill", vit, "--data", "scenes", "--phases", "2-1", "--steps", 2, "--cache", folder, *CACHE)


def about(folder, **changes):
    found = json.loads((folder / sharded.ABOUT).read_text())
    (folder / sharded.ABOUT).write_text(json.dumps({**found, **changes}))


SHARD = "raptor-states-00000.npy"
CACHES = {
    **{kind: (lambda folder, trap, make=make: make(trap, folder / SHARD)) for kind, make in TRAPS.items()},
    "elsewhere": lambda folder, trap: about(folder, shards=[{"states": f"../{SHARD}"}]),
    "absolute": lambda folder, trap: about(folder, shards=[{"states": str((folder / SHARD).resolve())}]),
    "no shards": lambda folder, trap: about(folder, shards=[]),
    "no names": lambda folder, trap: about(folder, shards=[{}]),
    "numbers": lambda folder, trap: about(folder, shards=[{"states": 5}]),
    "words": lambda folder, trap: np.save(folder / SHARD, np.full(8, "a" * 9999)),
    "flat": lambda folder, trap: np.save(folder / SHARD, np.zeros(8, np.float16)),
    "empty": lambda folder, trap: np.save(folder / SHARD, np.load(folder / SHARD)[:0]),
    "twice": lambda folder, trap: about(folder, shards=[{"states": SHARD}] * 2),
    "nested": lambda folder, trap: (folder / sharded.ABOUT).write_text('{"a":' * 100_000),
    "pipe": lambda folder, trap: ((folder / sharded.ABOUT).unlink(), os.mkfifo(folder / sharded.ABOUT)),
}


@pytest.mark.parametrize("kind", CACHES)
def test_a_cache_that_is_none_is_one_line(call, tmp_path, vit, kept, kind):  # noqa: F811
    folder = shutil.copytree(kept / "states", tmp_path / "cache")
    shutil.copy(folder / SHARD, tmp_path)
    CACHES[kind](folder, Trap(tmp_path / "executed"))
    check_refused(call(*cached(vit, folder)), "is damaged", "remove it")
    assert not (tmp_path / "executed").exists()


def test_the_cache_itself_is_taken(call, tmp_path, vit, kept):  # noqa: F811
    code, _, err = call(*cached(vit, shutil.copytree(kept / "states", tmp_path / "cache")))
    assert code == 0, err


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A training that has ended."""
    from raptor.__main__ import main

    out = tmp_path_factory.mktemp("trained") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["raptor", *map(str, (*TRAIN, *SMALL)), "--quiet", "--out", str(out)])
        with pytest.raises(SystemExit) as stop:
            main()
    assert not stop.value.code
    return out


def shrunk(state):
    return {name: value[:1] if value.ndim else value for name, value in state.items()}


CHECKPOINTS = {
    "a list": lambda found: [found],
    "no model": lambda found: {name: value for name, value in found.items() if name != "model"},
    "more": lambda found: {**found, "more": 1},
    "config": lambda found: {**found, "config": ["a"]},
    "step as text": lambda found: {**found, "step": "x"},
    "step below 0": lambda found: {**found, "step": -3},
    "step beyond": lambda found: {**found, "step": 10**12},
    "no seconds": lambda found: {**found, "seconds": None},
    "other shapes": lambda found: {**found, "model": shrunk(found["model"])},
    "other names": lambda found: {**found, "model": {f"x.{n}": value for n, value in found["model"].items()}},
    "text": lambda found: {**found, "model": dict.fromkeys(found["model"], "x")},
    "no optimisers": lambda found: {**found, "optimizers": []},
    "text as optimiser": lambda found: {**found, "optimizers": ["x"] * len(found["optimizers"])},
    "empty optimisers": lambda found: {**found, "optimizers": [{}] * len(found["optimizers"])},
    "shapes of the optimiser": lambda found: {
        **found,
        "optimizers": [
            {**one, "state": {at: shrunk(values) for at, values in one["state"].items()}} for one in found["optimizers"]
        ],
    },
    "groups of the optimiser": lambda found: {
        **found,
        "optimizers": [
            {**one, "param_groups": [{"params": group["params"]} for group in one["param_groups"]]}
            for one in found["optimizers"]
        ],
    },
}


@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_a_checkpoint_of_plain_tensors_must_fit_too(call, tmp_path, trained, kind):
    out = shutil.copytree(trained, tmp_path / "out")
    found = torch.load(out / "checkpoint.pt", weights_only=True)
    torch.save(CHECKPOINTS[kind](found), out / "checkpoint.pt")
    before = (out / "checkpoint.pt").read_bytes()
    check_refused(call(*TRAIN, *SMALL, "--resume", "--out", out), "checkpoint", "remove it")
    assert (out / "checkpoint.pt").read_bytes() == before


def test_the_checkpoint_itself_is_taken(call, tmp_path, trained):
    code, _, err = call(*TRAIN, *SMALL, "--resume", "--out", shutil.copytree(trained, tmp_path / "out"))
    assert code == 0, err

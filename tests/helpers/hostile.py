"""Malicious files, and a check of how they are refused."""

from __future__ import annotations

import os
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import raptor
from raptor.core.phases import Phases
from raptor.core.preprocessing import Preprocessing
from raptor.models.checkpoints import save_vit
from raptor.models.standalone import standalone
from raptor.models.surrogate import build_surrogate
from raptor.models.vit import ViT, ViTConfig
from raptor.runtime.optional_imports import silence
from vits import family

CONFIG = ViTConfig(image_size=16, patch_size=4, depth=3, width=16, heads=2, n_register=1, n_classes=12)


class Trap:
    """An object whose pickle makes a directory when it is loaded as code."""

    def __init__(self, target: Path):
        self.target = target

    def __reduce__(self):
        return os.mkdir, (str(self.target),)


def zipped(trap: Trap, path: Path) -> None:
    """As torch saves."""
    torch.save({"x": trap}, path)


def old(trap: Trap, path: Path) -> None:
    """As torch saved before."""
    torch.save({"x": trap}, path, _use_new_zipfile_serialization=False)


def plain(trap: Trap, path: Path) -> None:
    """As Python does."""
    path.write_bytes(pickle.dumps(trap))


def objects(trap: Trap, path: Path) -> None:
    """As numpy does, an array."""
    with path.open("wb") as file:
        np.save(file, np.array([trap], dtype=object))


def several(trap: Trap, path: Path) -> None:
    """As numpy does, several."""
    with path.open("wb") as file:
        np.savez(file, states=np.array([trap], dtype=object))


TRAPS = {"zipped": zipped, "old": old, "plain": plain, "objects": objects, "several": several}


def small_vit(folder: Path) -> Path:
    """Save a ViT that takes images of 16x16."""
    torch.manual_seed(0)
    save_vit(ViT(CONFIG), Preprocessing((16, 16), (16, 16)), folder)
    return folder


@pytest.fixture(scope="session")
def vit(tmp_path_factory) -> Path:
    """A saved ViT, which tests leave as it is."""
    return small_vit(tmp_path_factory.mktemp("hostile") / "vit")


@pytest.fixture(scope="session")
def surrogate(tmp_path_factory, vit) -> Path:
    """A saved surrogate of it."""
    folder = tmp_path_factory.mktemp("hostile") / "surrogate"
    with silence():
        standalone(build_surrogate(raptor.load_model(vit), Phases((2, 1))), "teacher").save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory) -> Path:
    """A saved model of transformers."""
    folder = tmp_path_factory.mktemp("hostile") / "checkpoint"
    with silence():
        family("vit").build().save_pretrained(folder)
    return folder


def check_refused(answer: tuple[int, str, str], *hints: str) -> None:
    """Make sure that a command gave one line of error on stderr, exit code 2, and nothing else.

    Work that has begun may have said so before, in a line of progress, and what it assumed.
    """
    code, out, err = answer
    assert (code, out) == (2, ""), (code, out[:500], err[-2000:])
    *before, error = err.removesuffix("\n").split("\n")
    assert error.startswith("error: "), err
    assert all(re.fullmatch(r"note: .*|[^:]+(: \w+)?: (step )?0/[\d,]+( images)?", line) for line in before), err
    assert all(letter.isprintable() for letter in error), err
    for hint in hints:
        assert hint in err, err


# What makes commands small.
SMALL = ("--batch-size", 4, "--device", "cpu", "--json")
TRAIN = ("train", "--data", "scenes", "--steps", 4, "--depth", 2, "--width", 8, "--heads", 1, "--eval-images", 8)

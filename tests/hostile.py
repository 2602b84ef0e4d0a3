"""What somebody who means harm would put into files, and how its refusal is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from raptor.models.store import save_vit
from raptor.models.vit import ViT, ViTConfig
from raptor.preprocessing import Preprocessing

CONFIG = ViTConfig(image_size=16, patch_size=4, depth=3, width=16, heads=2, n_register=1, n_classes=3)


class Trap:
    """An object whose pickle makes a directory when it is loaded as code."""

    def __init__(self, target: Path):
        self.target = target

    def __reduce__(self):
        return os.mkdir, (str(self.target),)


def small_vit(folder: Path) -> Path:
    """Save a ViT that takes images of 16x16."""
    torch.manual_seed(0)
    save_vit(ViT(CONFIG), Preprocessing((16, 16), (16, 16)), folder)
    return folder


@pytest.fixture(scope="session")
def vit(tmp_path_factory) -> Path:
    """A saved ViT, which tests leave as it is."""
    return small_vit(tmp_path_factory.mktemp("hostile") / "vit")


def check_refused(answer: tuple[int, str, str], *hints: str) -> None:
    """Make sure that a command gave one line on stderr, exit code 2, and nothing else."""
    code, out, err = answer
    assert (code, out) == (2, ""), (code, out[:500], err[-2000:])
    assert err.startswith("error: "), err
    assert err.count("\n") == 1, err
    assert all(letter.isprintable() for letter in err[:-1]), err
    for hint in hints:
        assert hint in err, err

"""Linear classifiers from files, and official files with keys that cannot be."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from raptor.errors import WeightsError
from raptor.models.teachers.dinov2_official import translate
from raptor.models.teachers.heads import read_linear


def test_a_linear_layer_is_read_as_it_was_saved(tmp_path):
    linear = nn.Linear(6, 4)
    torch.save({"linear.weight": linear.weight.data, "linear.bias": linear.bias.data}, tmp_path / "head.pth")
    read = read_linear(tmp_path / "head.pth")
    assert torch.equal(read.weight, linear.weight)
    assert torch.equal(read.bias, linear.bias)
    torch.save({"weight": linear.weight.data}, tmp_path / "plain.pth")
    assert read_linear(tmp_path / "plain.pth").bias is None


@pytest.mark.parametrize(
    "state",
    [
        {"weight": torch.zeros(4, 6), "bias": torch.zeros(3)},
        {"weight": torch.zeros(4)},
        {"bias": torch.zeros(4)},
        {"a.weight": torch.zeros(4, 6), "b.weight": torch.zeros(4, 6)},
        {"weight": torch.zeros(4, 6), "other": torch.zeros(1)},
        {},
    ],
    ids=["bias of another size", "a vector", "no weight", "a whole model", "something else too", "nothing"],
)
def test_what_is_no_linear_layer_is_refused(state, tmp_path):
    torch.save(state, tmp_path / "head.pth")
    with pytest.raises(WeightsError, match="the head"):
        read_linear(tmp_path / "head.pth")


def test_odd_keys_of_official_files_are_left_for_the_strict_loader():
    state = {
        "blocks.0": torch.zeros(2),
        "blocks.0.attn.qkv.bias": torch.zeros(()),
        "blocks.1.mlp.w12.bias": torch.zeros(3),
    }
    renamed = translate(state)
    assert "blocks.0" in renamed
    assert renamed["encoder.layer.0.attention.q_proj.bias"].shape == ()
    assert renamed["encoder.layer.1.mlp.gate_proj.bias"].shape == (3,)

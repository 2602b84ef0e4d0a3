"""Surrogates that stand alone: saved, read again, and the same function bit by bit."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from torch import nn

from raptor import load_model, rollout
from raptor.core.phases import Phases
from raptor.core.preprocessing import Preprocessing
from raptor.errors import RaptorError, UnsupportedModelError, WeightsError
from raptor.models.pretrained import RaptorModel, load_surrogate
from raptor.models.standalone import standalone
from raptor.models.surrogate import build_surrogate
from raptor.models.teachers.skeleton import rebuild
from raptor.models.vit import ViT, ViTConfig
from round_trip import check_round_trip, scrambled
from vits import FAMILIES, family, pixels

SMALL = ViTConfig(image_size=16, patch_size=4, depth=3, width=16, heads=2, n_register=2, n_classes=5)


@pytest.mark.parametrize("case", FAMILIES, ids=lambda case: case.name)
@pytest.mark.parametrize("kind", ["teacher", "swiglu"])
def test_a_surrogate_of_every_family_is_read_as_it_was_saved(case, kind, tmp_path):
    check_round_trip(load_model(case.build()), kind, tmp_path)


@pytest.mark.parametrize(
    "block",
    [
        {"kind": "teacher", "relax_rank": 2},
        {"kind": "swiglu", "relax_rank": 2, "mlp_ratio": 8 / 3, "layer_scale": 0.1},
        {"kind": "gelu", "depth_scale": False, "layer_scale": None},
    ],
)
def test_options_of_blocks_are_kept(block, tmp_path):
    torch.manual_seed(0)
    check_round_trip(load_model(ViT(SMALL)), folder=tmp_path, **block)


def test_a_classifier_that_was_brought_is_inside(tmp_path):
    torch.manual_seed(0)
    teacher = load_model(family("dinov2").build(), head=nn.Linear(64, 7))
    model = check_round_trip(teacher, "teacher", tmp_path)
    tokens = torch.randn(2, 17, 32)
    torch.testing.assert_close(model.head(tokens), teacher.head(tokens))


def test_it_is_small_and_without_the_blocks_of_its_teacher(tmp_path):
    torch.manual_seed(0)
    teacher = load_model(ViT(SMALL))
    surrogate = build_surrogate(teacher, Phases((3,)))
    model = standalone(surrogate, "teacher")
    outside = sum(p.numel() for name, p in teacher.module.named_parameters() if not name.startswith("blocks."))
    inside = sum(p.numel() for p in surrogate.raptor.parameters())
    assert sum(p.numel() for p in model.parameters()) == outside + inside
    assert len(teacher.module.blocks) == 3  # the teacher itself is left alone


def test_a_saved_surrogate_is_a_teacher_like_any_other(tmp_path):
    torch.manual_seed(0)
    teacher = load_model(ViT(SMALL))
    surrogate = scrambled(build_surrogate(teacher, Phases((2, 1))))
    standalone(surrogate, "teacher").save_pretrained(tmp_path / "model")
    again = load_model(tmp_path)  # a run directory keeps its model in a folder of its own
    images = pixels(16, 16)
    with torch.no_grad():
        assert torch.equal(again(images), surrogate.readout(rollout(surrogate, surrogate.embed(images)).at(3)))
    assert again.preprocessing == teacher.preprocessing
    assert again.depth == 3


def test_a_surrogate_is_read_by_its_hub_id(tmp_path, monkeypatch):
    """From the cache of the hub, laid out as its client does."""
    torch.manual_seed(0)
    surrogate = scrambled(build_surrogate(load_model(ViT(SMALL)), Phases((2, 1))))
    cached = tmp_path / "models--somebody--raptor"
    standalone(surrogate, "teacher").save_pretrained(cached / "snapshots" / "0123")
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("0123")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    again = load_model("somebody/raptor")
    images = pixels(16, 16)
    with torch.no_grad():
        assert torch.equal(again(images), surrogate.readout(rollout(surrogate, surrogate.embed(images)).at(3)))
    with pytest.raises(RaptorError, match="cannot be used with"):
        load_model("somebody/raptor", weights=tmp_path / "other.safetensors")


def test_damaged_files_are_one_line(tmp_path):
    torch.manual_seed(0)
    model = standalone(build_surrogate(load_model(ViT(SMALL)), Phases((2, 1))), "teacher")
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    for changed in ({"phases": "1-1"}, {"phases": "1-2-1-x"}, {"teacher": None}, {"kind": "other"}):
        (tmp_path / "config.json").write_text(json.dumps({**config, **changed}))
        with pytest.raises(RaptorError) as caught:
            load_surrogate(tmp_path)
        assert "\n" not in str(caught.value)
    (tmp_path / "config.json").write_text(json.dumps({**config, "phases": "1-1-1"}))
    with pytest.raises(WeightsError, match="missing keys"):
        load_surrogate(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(WeightsError, match="cannot be read"):
        load_surrogate(tmp_path)


def test_a_description_cannot_make_timm_load_anything_else():
    for changed in ({"name": "hf-hub:somebody/x"}, {"options": {"checkpoint_path": "x"}}):
        description = {"library": "timm", "name": "vit_tiny_patch16_224", "image_size": [32, 32], "linear": None,
                       "options": {"img_size": 32, "num_classes": 5, "global_pool": "token"}, **changed}  # fmt: skip
        with pytest.raises(WeightsError, match="a plain name with the options global_pool, img_size, num_classes"):
            rebuild(description, Preprocessing((32, 32), None), "x")


def test_what_is_saved_holds_no_code(tmp_path):
    torch.manual_seed(0)
    standalone(build_surrogate(load_model(ViT(SMALL)), Phases((3,))), "teacher").save_pretrained(tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} <= {".json", ".safetensors"}
    assert isinstance(load_surrogate(tmp_path), RaptorModel)


def test_a_copy_is_a_model_of_its_own():
    torch.manual_seed(0)
    model = standalone(build_surrogate(load_model(ViT(SMALL)), Phases((3,))), "teacher")
    twin = copy.deepcopy(model)
    images = pixels(16, 16)
    with torch.no_grad():
        wanted = model(images).last_hidden_state
        assert torch.equal(twin(images).last_hidden_state, wanted)
        next(iter(twin.surrogate.raptor.parameters())).add_(1.0)
        assert torch.equal(model(images).last_hidden_state, wanted)


def test_options_that_a_library_does_not_keep_are_found_when_saving():
    torch.manual_seed(0)
    vit = ViT(SMALL)
    teacher = load_model(vit)
    for block in vit.blocks:
        block.norm1.eps = 0.5  # nothing in the configuration or in a shape tells
    with pytest.raises(UnsupportedModelError, match="computes different states"):
        standalone(build_surrogate(teacher, Phases((3,)), "teacher"), "teacher")

"""The official DINOv2 files, with timm's reading of the same weights as the oracle."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import raptor
from raptor.errors import ModelNotFoundError, WeightsError
from raptor.models.teachers import dinov2_official as official
from vits import _scrambled, pixels

timm = pytest.importorskip("timm", reason="timm cannot be had here", exc_type=ImportError)

SIZES = {"img_size": 70, "patch_size": 14, "embed_dim": 48, "depth": 3, "num_heads": 4, "init_values": 1.0}


def official_state(model):
    """Return a timm model's weights under the names of the official files."""
    renamed = {"reg_token": "register_tokens", "mlp.fc1": "mlp.w12", "mlp.fc2": "mlp.w3"}
    gated = any(block.mlp.fc1.out_features != block.mlp.fc2.in_features for block in model.blocks)
    state = {"mask_token": torch.zeros(1, 48)}
    for key, value in model.state_dict().items():
        for old, new in renamed.items():
            if old in key and (gated or old == "reg_token"):
                key = key.replace(old, new)
        if key == "pos_embed" and model.no_embed_class:
            # timm leaves out the position of cls and folds it into the token; the official files keep it apart.
            value = torch.cat([torch.full((1, 1, 48), 0.25), value], dim=1)
        if key == "cls_token" and model.no_embed_class:
            value = value - 0.25
        state[key] = value
    return state


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("n_register", [0, 4])
def test_translated_weights_give_the_same_states(n_register, gated):
    swiglu = {"mlp_layer": timm.layers.SwiGLUPacked, "act_layer": torch.nn.SiLU, "mlp_ratio": 2 * 128 / 48}
    mlp = swiglu if gated else {}
    registers = {"reg_tokens": n_register, "no_embed_class": True} if n_register else {}
    torch.manual_seed(0)
    own = _scrambled(timm.models.VisionTransformer(**SIZES, **mlp, **registers, num_classes=0))
    sizes = official.Architecture(48, 3, 4, swiglu=gated)
    model = official.build(sizes, n_register, image_size=70)
    model = official.load_strictly(model, official.translate(official_state(own)), Path("timm"))
    teacher = raptor.load_model(model)
    images = pixels(70, 70)
    with torch.no_grad():
        final, states = own.forward_intermediates(images, output_fmt="NLC")
        trajectory = raptor.rollout(teacher, teacher.embed(images))
        for layer, state in enumerate(states, start=1):
            torch.testing.assert_close(trajectory.at(layer)[:, 1 + n_register :], state, atol=2e-5, rtol=1e-5)
        torch.testing.assert_close(teacher.readout(trajectory.at(3)), final, atol=2e-5, rtol=1e-5)


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A file in the released format: ViT-S/14 with registers, random weights."""
    torch.manual_seed(0)
    own = timm.create_model("vit_small_patch14_reg4_dinov2")
    state = {("register_tokens" if key == "reg_token" else key): value for key, value in own.state_dict().items()}
    state["pos_embed"] = torch.cat([torch.zeros(1, 1, 384), state["pos_embed"]], dim=1)
    state["mask_token"] = torch.zeros(1, 384)
    path = tmp_path_factory.mktemp("dinov2") / "dinov2_vits14_reg4_pretrain.pth"
    torch.save(state, path)
    return path, own.eval()


def test_a_released_file_loads_and_computes_what_timm_computes(released):
    path, own = released
    teacher = raptor.load_model("dinov2:vits14_reg", weights=path, image_size=518)
    assert teacher.layout.counts == {"cls": 1, "register": 4, "patch": 37 * 37}
    images = pixels(518, 518, batch=1)
    with torch.no_grad():
        torch.testing.assert_close(teacher(images), own.forward_features(images), atol=2e-5, rtol=1e-4)


def test_the_default_size_is_that_of_the_released_evaluation(released):
    teacher = raptor.load_model("dinov2:vits14_reg", weights=released[0])
    assert teacher.image_size == (224, 224)
    assert teacher.layout.grid == (16, 16)


def test_weights_of_another_architecture_name_the_first_key(released):
    with pytest.raises(WeightsError, match=r"embeddings\.cls_token.*\(1, 1, 384\).*\(1, 1, 768\)"):
        raptor.load_model("dinov2:vitb14_reg", weights=released[0])
    with pytest.raises(WeightsError, match=r"'embeddings\.register_tokens' is not in the model"):
        raptor.load_model("dinov2:vits14", weights=released[0])


def test_a_linear_head_file_is_taken(released, tmp_path):
    linear = torch.nn.Linear(2 * 384, 10)
    torch.save(linear.state_dict(), tmp_path / "head.pth")
    teacher = raptor.load_model("dinov2:vits14_reg", weights=released[0], head=tmp_path / "head.pth", image_size=28)
    with torch.no_grad():
        last = raptor.rollout(teacher, teacher.embed(pixels(28, 28))).at(12)
        tokens = teacher.readout(last)
        expected = linear(torch.cat([tokens[:, 0], tokens[:, 5:].mean(dim=1)], dim=1))
        torch.testing.assert_close(teacher.head(last), expected)


def test_names_are_checked_before_files():
    with pytest.raises(ModelNotFoundError, match="vits14, vits14_reg"):
        raptor.load_model("dinov2:vitx14", weights="nowhere.pth")
    with pytest.raises(ModelNotFoundError, match="--weights FILE"):
        raptor.load_model("dinov2:vits14")
    with pytest.raises(ModelNotFoundError, match=r"weights file 'nowhere\.pth'"):
        raptor.load_model("dinov2:vits14", weights="nowhere.pth")

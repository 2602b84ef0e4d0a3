"""Surrogates that stand alone: saved, read again, and the same function bit by bit."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from torch import nn
from transformers import AutoModel

from raptor import load_teacher, rollout
from raptor.errors import RaptorError, UnsupportedModelError, WeightsError
from raptor.models.pretrained import RaptorModel, load_surrogate, standalone
from raptor.models.released import load_released
from raptor.models.surrogate import build_surrogate
from raptor.models.vit import ViT, ViTConfig
from raptor.phases import Phases
from vits import FAMILIES, family, pixels

SMALL = ViTConfig(image_size=16, patch_size=4, depth=3, width=16, heads=2, n_register=2, n_classes=5)


def scrambled(surrogate, seed=3):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in surrogate.raptor.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return surrogate


def check_round_trip(teacher, kind, folder, **block):
    surrogate = scrambled(build_surrogate(teacher, Phases((2, 1)), kind, **block))
    images = pixels(*teacher.image_size)
    with torch.no_grad():
        wanted = rollout(surrogate, surrogate.embed(images)).states
        standalone(surrogate, kind, block).save_pretrained(folder)
        model = AutoModel.from_pretrained(folder)
        found = model(images, output_hidden_states=True)
        assert torch.equal(torch.stack(found.hidden_states, dim=1), wanted)
        assert torch.equal(found.last_hidden_state, surrogate.readout(wanted[:, -1]))
        if surrogate.head is not None:
            assert torch.equal(model.head(wanted[:, -1]), surrogate.head(wanted[:, -1]))
    return model


@pytest.mark.parametrize("case", FAMILIES, ids=lambda case: case.name)
@pytest.mark.parametrize("kind", ["teacher", "swiglu"])
def test_a_surrogate_of_every_family_is_read_as_it_was_saved(case, kind, tmp_path):
    check_round_trip(load_teacher(case.build()), kind, tmp_path)


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
    check_round_trip(load_teacher(ViT(SMALL)), folder=tmp_path, **block)


def test_a_classifier_that_was_brought_is_inside(tmp_path):
    torch.manual_seed(0)
    teacher = load_teacher(family("dinov2").build(), head=nn.Linear(64, 7))
    model = check_round_trip(teacher, "teacher", tmp_path)
    assert model.head(torch.zeros(2, 17, 32)).shape == (2, 7)


def test_it_is_small_and_without_the_blocks_of_its_teacher(tmp_path):
    torch.manual_seed(0)
    teacher = load_teacher(ViT(SMALL))
    surrogate = build_surrogate(teacher, Phases((3,)))
    model = standalone(surrogate, "teacher")
    outside = sum(p.numel() for name, p in teacher.module.named_parameters() if not name.startswith("blocks."))
    inside = sum(p.numel() for p in surrogate.raptor.parameters())
    assert sum(p.numel() for p in model.parameters()) == outside + inside
    assert len(teacher.module.blocks) == 3  # the teacher itself is left alone


def test_a_saved_surrogate_is_a_teacher_like_any_other(tmp_path):
    torch.manual_seed(0)
    teacher = load_teacher(ViT(SMALL))
    surrogate = scrambled(build_surrogate(teacher, Phases((2, 1))))
    standalone(surrogate, "teacher").save_pretrained(tmp_path / "model")
    again = load_teacher(tmp_path)  # a run directory keeps its model in a folder of its own
    images = pixels(16, 16)
    with torch.no_grad():
        assert torch.equal(again(images), surrogate.readout(rollout(surrogate, surrogate.embed(images)).at(3)))
    assert again.preprocessing == teacher.preprocessing
    assert again.depth == 3


def test_damaged_files_are_one_line(tmp_path):
    torch.manual_seed(0)
    model = standalone(build_surrogate(load_teacher(ViT(SMALL)), Phases((2, 1))), "teacher")
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


def test_a_class_of_no_known_library_says_so():
    torch.manual_seed(0)

    class Mine(ViT):
        """A class outside the libraries."""

    Mine.__module__ = "mine"
    teacher = load_teacher(ViT(SMALL))
    teacher.module = Mine(SMALL)
    with pytest.raises(UnsupportedModelError, match=r"mine\.Mine"):
        standalone(build_surrogate(teacher, Phases((3,))), "teacher")


def test_the_released_naming_is_read(tmp_path):
    """Against the same step written with torch's own attention, which is what the released names are of."""
    torch.manual_seed(0)
    teacher = load_teacher(ViT(SMALL))
    d, state = 16, {}
    for j in range(2):
        attention = nn.MultiheadAttention(d, 2, batch_first=True)
        parts = {
            "norm1": nn.LayerNorm(d), "attn": attention, "norm2": nn.LayerNorm(d),
            "mlp.0": nn.Linear(d, 8 * d), "mlp.2": nn.Linear(4 * d, d),
            "t_proj.0": nn.Linear(1, 16), "t_proj.2": nn.Linear(16, 3 * d),
        }  # fmt: skip
        for name, part in parts.items():
            state |= {
                f"blocks.{j}.{name}.{key}": 0.2 * torch.randn_like(value) for key, value in part.state_dict().items()
            }
        state |= {f"blocks.{j}.ls{i}.gamma": torch.randn(d) for i in (1, 2)}
    torch.save(state, tmp_path / "raptor.pth")
    surrogate = load_released(tmp_path / "raptor.pth", teacher, Phases((2, 1)))
    x = torch.randn(3, 23, d)
    for layer, j in ((0, 0), (1, 0), (2, 1)):
        own = {
            key.removeprefix(f"blocks.{j}."): value for key, value in state.items() if key.startswith(f"blocks.{j}.")
        }
        wanted = released_step(own, x, layer + 1)
        with torch.no_grad():
            torch.testing.assert_close(surrogate.step(x, layer), wanted, rtol=1e-5, atol=1e-5)
    with pytest.raises(WeightsError, match="no Raptor"):
        load_released({"weight": torch.zeros(2)}, teacher, Phases((2, 1)))
    with pytest.raises(WeightsError, match=r"blocks\.2"):
        load_released(tmp_path / "raptor.pth", teacher, Phases((1, 1, 1)))


def released_step(state, x, target):
    """FACTS: gate first, LayerNorm eps 1e-5, three scales plus one, the last on the whole output."""
    d = x.shape[-1]
    norm = lambda name, y: nn.functional.layer_norm(y, (d,), state[f"{name}.weight"], state[f"{name}.bias"], 1e-5)  # noqa: E731
    linear = lambda name, y: nn.functional.linear(y, state[f"{name}.weight"], state[f"{name}.bias"])  # noqa: E731
    attention = nn.MultiheadAttention(d, 2, batch_first=True)
    attention.load_state_dict({k.removeprefix("attn."): v for k, v in state.items() if k.startswith("attn.")})
    scales = 1 + linear("t_proj.2", nn.functional.silu(linear("t_proj.0", torch.tensor([float(target)]))))
    first, second, whole = scales.chunk(3)
    with torch.no_grad():
        h = norm("norm1", x)
        x = x + first * state["ls1.gamma"] * attention(h, h, h)[0]
        gate, value = linear("mlp.0", norm("norm2", x)).chunk(2, dim=-1)
        return whole * (x + second * state["ls2.gamma"] * linear("mlp.2", nn.functional.silu(gate) * value))


def test_what_is_saved_holds_no_code(tmp_path):
    torch.manual_seed(0)
    standalone(build_surrogate(load_teacher(ViT(SMALL)), Phases((3,))), "teacher").save_pretrained(tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} <= {".json", ".safetensors"}
    assert isinstance(load_surrogate(tmp_path), RaptorModel)


def test_a_copy_is_a_model_of_its_own():
    torch.manual_seed(0)
    model = standalone(build_surrogate(load_teacher(ViT(SMALL)), Phases((3,))), "teacher")
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
    teacher = load_teacher(vit)
    for block in vit.blocks:
        block.norm1.eps = 0.5  # nothing in the configuration or in a shape tells
    with pytest.raises(UnsupportedModelError, match="computes something else"):
        standalone(build_surrogate(teacher, Phases((3,)), "teacher"), "teacher")

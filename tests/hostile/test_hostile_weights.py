"""Weights that do not fit, that the file does not hold, or that are not numbers."""

from __future__ import annotations

import json
import shutil

import pytest
import safetensors.torch
import torch

import raptor
from hostile import CONFIG, SMALL, check_refused, surrogate, vit  # noqa: F401
from raptor.core.phases import Phases
from raptor.core.preprocessing import Preprocessing
from raptor.errors import WeightsError
from raptor.models.checkpoints import save_vit
from raptor.models.standalone import standalone
from raptor.models.surrogate import build_surrogate
from raptor.models.vit import ViT


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(1).expand(10**6, 10**6),  # one number that claims to be a terabyte
        torch.zeros(2, 3, device="meta"),
        torch.eye(3).to_sparse(),
    ],
    ids=["expanded", "meta", "sparse"],
)
def test_tensors_that_the_file_does_not_hold_are_refused(tmp_path, vit, tensor):  # noqa: F811
    torch.save({"weight": tensor, "blocks.0.mlp.2.weight": tensor}, tmp_path / "w.pth")
    for read in (
        lambda: raptor.load_model(vit, head=tmp_path / "w.pth"),
        lambda: raptor.load_released(tmp_path / "w.pth", raptor.load_model(vit), Phases((2, 1))),
    ):
        with pytest.raises(WeightsError, match=r"state dict|plain tensors"):
            read()


@pytest.mark.parametrize("which", ["vit", "surrogate"])
@pytest.mark.parametrize("change", ["shape", "missing", "more", "header"])
def test_safetensors_that_do_not_fit_name_what_does_not(call, tmp_path, request, which, change):
    folder = shutil.copytree(request.getfixturevalue(which), tmp_path / "model")
    found = safetensors.torch.load_file(folder / "model.safetensors")
    name = min(name for name in found if name.endswith("qkv.weight"))
    if change == "shape":
        found[name] = found[name][:-1].contiguous()
    elif change == "missing":
        del found[name]
    elif change == "more":
        name = "something.else"
        found[name] = torch.zeros(2)
    safetensors.torch.save_file(found, folder / "model.safetensors", metadata={"format": "pt"})
    if change == "header":
        content = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes((2**62).to_bytes(8, "little") + content[8:])
        name = "header"
    check_refused(call("inspect", folder), name)


NOT_NUMBERS = {
    "inspect": (("--data", "scenes", "--images", 4), None),
    "phases": (("--data", "scenes", "--images", 4), "states are not finite"),
    "dynamics": (("--data", "scenes", "--images", 8), "states are not finite"),
    "distill": (("--data", "scenes", "--phases", "2-1", "--steps", 2, "--eval-images", 4), "loss of step 0 is nan"),
    "probe": (
        ("--data", "scenes", "--images", 8, "--task", "classify", "--eval-images", 4, "--live"),
        "features of this model are not finite",
    ),
    "intervene": (("--data", "scenes", "--phases", "2-1", "--images", 4), None),
}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 3e38], ids=str)
@pytest.mark.parametrize("verb", NOT_NUMBERS)
def test_weights_that_are_not_numbers_never_give_any(call, tmp_path, verb, value):
    torch.manual_seed(0)
    model = ViT(CONFIG)
    with torch.no_grad():
        for name in ("fc1", "fc2"):
            getattr(model.blocks[1].mlp, name).weight.fill_(value)
    save_vit(model, Preprocessing((16, 16), (16, 16)), tmp_path / "model")
    options, said = NOT_NUMBERS[verb]
    answer = call(verb, tmp_path / "model", *options, *SMALL, "--quiet")
    if said is not None:
        check_refused(answer, said)
        return
    code, out, err = answer
    assert code == 0, err
    result = json.loads(out)
    if verb == "inspect":
        assert result["norm"]["patch"][0] is not None
        assert result["norm"]["patch"][2:] == [None, None]
    else:
        # Not the share of images whose class happens to be the first.
        assert result["untouched"]["mean"] is None
        assert result["untouched"]["cosine"] is None


def test_a_surrogate_of_no_numbers_recovers_nothing(call, tmp_path, vit):  # noqa: F811
    model = standalone(build_surrogate(raptor.load_model(vit), Phases((2, 1))), "teacher")
    with torch.no_grad():
        for parameter in model.surrogate.raptor.parameters():
            parameter.fill_(float("nan"))
    model.save_pretrained(tmp_path / "s")
    command = ("fidelity", tmp_path / "s", "--data", "scenes", "--images", 8)
    code, out, err = call(*command, *SMALL)
    assert code == 0, err
    result = json.loads(out)
    assert result["surrogate_top1"] is None
    assert result["recovered"] is None
    assert result["r2"]["all"] == [None] * 3
    assert call(*command)[0] == 0
    broken = build_surrogate(raptor.load_model(vit), Phases((2, 1)))
    with torch.no_grad():
        next(broken.raptor.parameters()).fill_(float("nan"))
    with pytest.raises(WeightsError, match="not finite"):
        standalone(broken, "teacher")

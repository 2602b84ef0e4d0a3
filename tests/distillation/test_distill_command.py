"""`raptor distill` and `raptor fidelity` from the command line, and what they refuse."""

from __future__ import annotations

import json

import pytest
import torch
from PIL import Image

from raptor import load_model
from raptor.core.flow import rollout, stitch
from raptor.core.phases import Phases
from raptor.core.preprocessing import Preprocessing
from raptor.data.load import load_images
from raptor.evaluation.accuracy import AccuracyMeasure
from raptor.evaluation.evaluate import fidelity
from raptor.evaluation.fidelity import trajectory_fidelity
from raptor.models.checkpoints import save_vit
from raptor.models.surrogate import build_surrogate
from raptor.models.vit import ViT
from small_vit import QUICK, SMALL


def test_a_surrogate_is_trained_saved_and_measured(call, vit, tmp_path):
    command = ("distill", vit, "--data", "scenes", "--phases", "2-2", "--out", tmp_path / "a", "--json")
    code, out, err = call(*command, *QUICK)
    assert code == 0, err
    result = json.loads(out)
    assert result == json.loads((tmp_path / "a/result.json").read_text())
    assert (result["phases"], result["recipe"], result["steps"], result["layers"]) == ("2-2", "default", [4, 4], 4)
    assert len(result["fidelity"]["r2"]["all"]) == 4
    code, out, err = call(
        "fidelity", tmp_path / "a", "--data", "scenes:test", "--images", 12, "--batch-size", 4, "--json"
    )
    assert code == 0, err
    again = json.loads(out)
    for key in ("r2", "r2_ci", "teacher_top1", "recovered", "stitched", "parameters", "flops", "levin_bits"):
        assert again[key] == result["fidelity"][key], key
    assert again["runtime_ratio"] > 0
    card = (tmp_path / "a/model/README.md").read_text()
    assert "Raptor 2-2" in card
    assert "| R2 |" in card
    assert result["figures"] == ["figures/fidelity.png", "figures/training.png"]
    assert (tmp_path / "a/figures/fidelity.png").read_bytes().startswith(b"\x89PNG")
    # Weights are as readable as the card beside them.
    modes = {path.stat().st_mode for path in (tmp_path / "a/model").iterdir()}
    assert len(modes) == 1
    # A surrogate is a MODEL like any other.
    code, out, _ = call("inspect", tmp_path / "a", "--json")
    assert (code, json.loads(out)["layers"]) == (0, 4)


def test_it_is_told_to_a_person_too(call, vit, tmp_path):
    loud = [word for word in QUICK if word != "--quiet"]
    code, out, err = call("distill", vit, "--data", "scenes", "--phases", "2-2", "--out", tmp_path / "a", *loud)
    assert code == 0, err
    assert "surrogate 2-2" in out
    assert "R2" in out
    code, out, err = call("fidelity", tmp_path / "a", "--images", 12, "--data", "scenes")
    assert code == 0, err
    assert "runtime" in out


def test_the_teacher_is_not_overwritten(call, vit, tmp_path):
    assert call("train", "--data", "scenes", "--steps", 1, "--depth", 2, "--width", 8, "--heads", 2, "--batch-size", 2,
                "--eval-images", 4, "--out", tmp_path / "vit", "--quiet")[0] == 0  # fmt: skip
    code, _, err = call("distill", tmp_path / "vit", "--data", "scenes", "--k", 1, "--out", tmp_path / "vit", *QUICK)
    assert code == 2
    assert "the run of another command" in err


def test_a_set_with_validation_alone_is_reported_on_it(call, vit, tmp_path):
    for split in ("train", "val"):
        for name in ("a", "b"):
            (tmp_path / "set" / split / name).mkdir(parents=True)
            for index in range(3):
                Image.new("RGB", (70, 70), (40 * index, 80, 120)).save(tmp_path / "set" / split / name / f"{index}.png")
    code, out, err = call("distill", vit, "--data", tmp_path / "set", "--phases", "2-2", "--json", *QUICK)
    assert code == 0, err
    result = json.loads(out)
    assert result["images"] == 6
    assert result["fidelity"]["recovered"] is None
    assert "12 classes, but the dataset has 2" in result["fidelity"]["notes"][0]


def test_an_interrupted_run_goes_on(call, vit, tmp_path):
    command = ("distill", vit, "--data", "scenes", "--phases", "2-2", *QUICK)
    assert call(*command, "--out", tmp_path / "a")[0] == 0
    code, _, err = call(*command, "--out", tmp_path / "a")
    assert code == 2
    assert "--resume" in err
    assert call(*command, "--out", tmp_path / "a", "--resume")[0] == 0
    kept = {name: (tmp_path / "a" / name).read_text() for name in ("result.json", "config.json")}
    code, _, err = call(*command, "--out", tmp_path / "a", "--resume", "--lr", 0.1)
    assert code == 2
    assert "was started with lr = None, not 0.1" in err
    # What was refused has taken nothing away.
    assert kept == {name: (tmp_path / "a" / name).read_text() for name in kept}
    # What is reported after the training may change.
    assert call(*command, "--out", tmp_path / "a", "--resume", "--eval-images", 14)[0] == 0


def test_phases_can_be_found_first(call, vit, tmp_path):
    code, out, err = call("distill", vit, "--data", "scenes", "--k", 2, "--images", 64, "--json", *QUICK)
    assert code == 0, err
    assert json.loads(out)["phases"].count("-") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--phases", "2-3"), "have 5 layers in total, but the model has 4"),
        (("--phases", "2-x"), "lengths joined by"),
        ((), "distill needs either --k"),
        (("--k", "2", "--phases", "2-2"), "distill needs either --k"),
        (("--phases", "2-2", "--recipe", "best"), "default, paper, released"),
        (("--phases", "2-2", "--kind", "magic"), "teacher, swiglu, gelu"),
        (("--phases", "2-2", "--precision", "int8"), "no, bf16, fp16"),
        (("--phases", "2-2", "--accumulate", "3"), "does not divide"),
        (("--phases", "2-2", "--track", "paper"), "tensorboard, wandb"),
        (("--k", "0"), "at least 1"),
        (("--phases", "2-2", "--lr", "-1"), "above 0"),
    ],
)
def test_mistakes_are_one_line(call, vit, arguments, message):
    code, out, err = call("distill", vit, "--data", "scenes", *QUICK, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_what_is_trained_on_is_not_reported_on(call, vit):
    code, _, err = call("distill", vit, "--data", "scenes:test", "--phases", "2-2", *QUICK)
    assert code == 2
    assert "--eval-data" in err


def test_a_surrogate_of_another_teacher_is_refused(call, vit, tmp_path):
    assert call("distill", vit, "--data", "scenes", "--phases", "4", "--out", tmp_path / "a", *QUICK)[0] == 0
    torch.manual_seed(1)
    save_vit(ViT(SMALL), Preprocessing((64, 64), None), tmp_path / "other")
    code, _, err = call("fidelity", tmp_path / "a", "--data", "scenes", "--teacher", tmp_path / "other")
    assert code == 2
    assert "whose weights differ" in err
    code, _, err = call("fidelity", vit, "--data", "scenes")
    assert code == 2
    assert "not a surrogate" in err


def test_accuracies_equal_those_of_stitched_flows(vit):
    teacher = load_model(vit)
    surrogate = build_surrogate(teacher, Phases((1, 2, 1)))
    images = load_images("scenes", teacher, "test", 20, batch_size=8)
    measure = AccuracyMeasure(surrogate)
    trajectory_fidelity(surrogate.teacher, surrogate, images, surrogate.phases, observe=measure.update)
    found = measure.compute()
    label = torch.cat([batch.label for batch in images])

    def top1(flow):
        with torch.no_grad():
            last = [rollout(flow, flow.embed(batch.pixels)).at(4) for batch in images]
            return (flow.head(torch.cat(last)).argmax(dim=1) == label).double().mean().item()

    assert found.teacher.value == pytest.approx(top1(teacher))
    assert found.surrogate.value == pytest.approx(top1(surrogate))
    for layer, stitched in found.stitched.items():
        assert stitched.top1.value == pytest.approx(top1(stitch(surrogate, teacher, layer)))
    if found.teacher.value:
        assert found.recovered.value == pytest.approx(found.surrogate.value / found.teacher.value)


def test_a_stitched_model_is_a_model(call, vit, tmp_path):
    assert call("distill", vit, "--data", "scenes", "--phases", "2-2", "--out", tmp_path / "a", *QUICK)[0] == 0
    surrogate, teacher = load_model(tmp_path / "a"), load_model(vit)
    pixels = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        for at in (0, 2, 3, 4):
            model = load_model(f"stitch:{tmp_path / 'a'}@{at}")
            wanted = rollout(stitch(surrogate, teacher, at), teacher.embed(pixels)).states
            assert torch.equal(rollout(model, model.embed(pixels)).states, wanted)
            assert torch.equal(model.head(wanted[:, -1]), teacher.head(wanted[:, -1]))
    for wrong in ("a", f"{tmp_path / 'a'}@5", f"{vit}@2", "@2"):
        code, _, err = call("inspect", f"stitch:{wrong}")
        assert code == 2
        assert err.count("\n") == 1


def test_the_teacher_as_its_own_surrogate_is_perfect(vit):
    teacher = load_model(vit)
    surrogate = build_surrogate(teacher, Phases((1, 1, 1, 1)))
    measured = fidelity(surrogate, load_images("scenes", teacher, "test", 12, batch_size=8))
    assert measured.by_layer["r2"].mean["all"] == [1.0] * 4
    assert measured.recovered.value == 1.0
    assert measured.recovered.ci == [1.0, 1.0]
    assert measured.flops.surrogate >= measured.flops.teacher
    assert "R2 1.000" in str(measured)


def test_an_interrupt_keeps_the_surrogate_marked_unfinished_and_exits_with_130(call, vit, tmp_path, monkeypatch):
    import signal

    from raptor.runtime.progress import Bar

    moved = Bar.move

    def interrupt(bar, done, stage=None, loss=None):
        moved(bar, done, stage, loss)
        if done == 2 and bar.unit == "step":
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Bar, "move", interrupt)
    out = tmp_path / "a"
    loud = [word for word in QUICK if word != "--quiet"]
    code, _, err = call("distill", vit, "--data", "scenes", "--phases", "4", "--out", out, *loud)
    assert code == 130
    assert "note: interrupted at step 3 of stage1" in err
    assert load_model(out).module.config.provenance["training"]["unfinished"]["step"] == 3
    assert "**Unfinished**" in (out / "model" / "README.md").read_text()
    monkeypatch.setattr(Bar, "move", moved)
    assert call("distill", vit, "--data", "scenes", "--phases", "4", "--out", out, *QUICK, "--resume")[0] == 0
    assert "unfinished" not in load_model(out).module.config.provenance["training"]

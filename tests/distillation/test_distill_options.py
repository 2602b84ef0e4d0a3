"""Options of distill: one dataclass for Python and the command line; old calls work with a warning."""

from __future__ import annotations

import json
import logging

import pytest
import torch

import raptor
from raptor.core.deserialize import from_plain
from raptor.core.phases import Phases
from raptor.core.serialize import to_plain
from raptor.data.load import load_images
from raptor.distillation.distill import distill, train_surrogate
from raptor.distillation.export import ExportResult, export
from raptor.distillation.options import DistillOptions, ExportOptions
from raptor.distillation.planning.cost import PlanResult, plan
from raptor.distillation.planning.options import PlanOptions
from raptor.distillation.recipes import distillation_named
from raptor.distillation.result import DistillResult
from raptor.models.vit import ViT, ViTConfig
from raptor.runtime.rundir import Record
from raptor.training.accelerate import LaunchOptions


@pytest.fixture
def teacher():
    torch.manual_seed(0)
    return raptor.load_model(ViT(ViTConfig(depth=4, width=16, heads=2, n_register=1)))


def images(teacher, n=16):
    return load_images("scenes", teacher, "train", n)


def weights_of(surrogate):
    return torch.cat([parameter.detach().flatten() for parameter in surrogate.raptor.parameters()])


def test_options_are_the_named_recipe():
    options = DistillOptions("paper", steps=7, lr=0.01, kind="gelu", relax_rank=2, untied=True, batch_size=3, seed=5)
    wanted = distillation_named("paper", 7, 3, 5, lr=0.01, kind="gelu", relax_rank=2, untied=True)
    assert options.distillation() == wanted
    assert DistillOptions().distillation() == distillation_named("default")


def test_what_config_json_has_does_not_change():
    assert DistillOptions().recipe_config() == {
        "name": "default", "steps": 2000, "lr": None, "muon_lr": None, "kind": None,
    }  # fmt: skip
    assert DistillOptions(untied=True).recipe_config()["untied"] is True
    options = DistillOptions(gradient_accumulation_steps=2, gradient_checkpointing=True, track=())
    assert options.launch_config() == {"precision": "no", "accumulate": 2, "recompute": True, "trackers": ()}
    assert options.launch() == LaunchOptions(gradient_accumulation_steps=2, gradient_checkpointing=True)


def test_old_calls_work_with_a_warning(teacher):
    recipe = distillation_named("default", steps=2, batch_size=4)
    new = distill(teacher, images(teacher), "2-2", DistillOptions(steps=2, batch_size=4))
    with pytest.warns(FutureWarning, match="DistillOptions"):
        old = distill(teacher, images(teacher), "2-2", recipe)
    with pytest.warns(FutureWarning, match="distill"):
        keyword = distill(teacher, images(teacher), "2-2", distillation=recipe)
    with pytest.warns(FutureWarning, match="launch"):
        launched = distill(
            teacher, images(teacher), "2-2", DistillOptions(steps=2, batch_size=4), launch=LaunchOptions()
        )
    low = train_surrogate(teacher, images(teacher), Phases((2, 2)), recipe)
    for other in (old, keyword, launched, low):
        assert torch.equal(weights_of(new), weights_of(other))


def test_the_global_generator_is_left_alone(teacher):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    distill(teacher, images(teacher), "2-2", DistillOptions(steps=2, batch_size=4))
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(("old", "new"), [
    (("--accumulate", 2, "--recompute"), ("--gradient-accumulation-steps", 2, "--gradient-checkpointing")),
])  # fmt: skip
def test_old_option_names_are_aliases(call, tmp_path, old, new, teacher):
    from raptor.core.preprocessing import Preprocessing
    from raptor.models.checkpoints import save_vit

    save_vit(teacher.module, Preprocessing((64, 64), None), tmp_path / "vit")
    command = ("distill", tmp_path / "vit", "--data", "scenes", "--phases", "2-2", "--steps", 2, "--batch-size", 4,
               "--eval-images", 4, "--device", "cpu", "--json")  # fmt: skip
    found = []
    for name, options in (("old", old), ("new", new)):
        code, _, err = call(*command, *options, "--out", tmp_path / name)
        assert code == 0, err
        text = (tmp_path / name / "result.json").read_text()
        record = from_plain(Record[DistillResult], json.loads(text))
        assert to_plain(record) == json.loads(text)
        config = json.loads((tmp_path / name / "config.json").read_text())
        assert config["launch"] == {"precision": "no", "accumulate": 2, "recompute": True, "trackers": []}
        found.append(json.loads(text)["fidelity"])
    assert found[0] == found[1]
    assert "phases" not in found[0]


def test_plan_and_export_from_python(teacher, tmp_path):
    planned = plan(teacher, PlanOptions(1000, k=2, batch_size=2))
    assert planned.phases == Phases((2, 2))
    assert from_plain(PlanResult, to_plain(planned)) == planned
    assert "hours" in planned._repr_html_()
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    written = export(teacher, tmp_path, ExportOptions("onnx"))
    assert logger.level == before
    assert (tmp_path / written.file).stat().st_size > 1000
    assert from_plain(ExportResult, to_plain(written)) == written

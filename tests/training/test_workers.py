"""One process or two, a batch whole or in parts: the same training."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from raptor.errors import MissingDependencyError, OptionError
from raptor.training.accelerate import LaunchOptions
from raptor.training.config import TrainConfig
from raptor.training.loop import fit

RECIPE = TrainConfig(steps=12, batch_size=8, lr=0.02, warmup=3, seed=2)


def trained(launch):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 1))

    def batches(first, size, part):
        place = first * size
        while True:
            rows = [torch.randn(6, generator=torch.Generator().manual_seed(place + i)) for i in range(size)]
            yield torch.stack(rows[part[0] :: part[1]])
            place += size

    losses = []
    fit(
        model,
        lambda batch, step: ((model(batch) - batch.sum(dim=1, keepdim=True)).square().mean(), {}),
        batches,
        RECIPE,
        log_every=1,
        watch=lambda line: losses.append(line["loss"]),
        launch=launch,
    )
    return losses, model


@pytest.mark.parametrize("accumulate", [2, 8])
def test_a_batch_in_parts_is_the_same_step(accumulate):
    whole, model = trained(LaunchOptions())
    parts, other = trained(LaunchOptions(gradient_accumulation_steps=accumulate))
    assert parts == pytest.approx(whole, rel=1e-5)
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_half_precision_trains_nearly_the_same():
    whole, _ = trained(LaunchOptions())
    half, model = trained(LaunchOptions(precision="bf16"))
    assert half != whole
    assert half == pytest.approx(whole, rel=0.05)
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())


SCRIPT = """
import json, sys
from dataclasses import replace
from pathlib import Path
import raptor, torch
import raptor.distillation.distill as module
from raptor.data.load import load_images
from raptor.models.vit import ViT, ViTConfig
from raptor.distillation.recipes import distillation_named
out, which = sys.argv[1:]
torch.manual_seed(0)
if which == "adamw":
    teacher = raptor.load_model(ViT(ViTConfig(depth=4, width=16, heads=2, n_register=1, image_size=64)))
    phases, recipe = "2-2", distillation_named("default", steps=10, batch_size=8, muon_lr=0)
else:  # the first steps of a run of the usual length
    teacher = raptor.load_model("scenes")
    phases, recipe = "5-5-2", distillation_named("default", batch_size=8)
    steps = {stage: replace(getattr(recipe, stage), steps=10) for stage in ("blockwise", "end_to_end")}
    recipe = replace(recipe, **steps)
images = load_images("scenes", teacher, "train", 512)
lines, fit = [], module.fit
module.fit = lambda *given, **named: fit(*given, **{**named, "log_every": 1})
module.train_surrogate(teacher, images, phases, recipe, watch=lambda stage, line: lines.append(line))
if lines:
    Path(out).write_text(json.dumps([line["loss"] for line in lines]))
"""


@pytest.mark.parametrize(
    ("which", "n"),
    [
        pytest.param("default", 2, marks=pytest.mark.long),
        pytest.param("adamw", 2, marks=pytest.mark.long),
        pytest.param("default", 4, marks=pytest.mark.long),
    ],
)
def test_several_processes_are_one(tmp_path, which, n):
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    one = [sys.executable, tmp_path / "script.py", tmp_path / "one.json", which]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(n)]
    several = [*launcher, tmp_path / "script.py", tmp_path / "several.json", which]
    for command in (one, several):
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
    alone, together = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("one", "several"))
    assert len(alone) == len(together) == 20
    assert together == pytest.approx(alone, rel=1e-5)


def test_what_cannot_be_is_named():
    with pytest.raises(OptionError, match="no, bf16, fp16"):
        LaunchOptions(precision="int8")
    with pytest.raises(OptionError, match="at least 1"):
        LaunchOptions(gradient_accumulation_steps=0)
    with pytest.raises(OptionError, match="tensorboard, wandb"):
        LaunchOptions(trackers=("paper",))
    with pytest.raises(OptionError, match="does not divide"):
        trained(LaunchOptions(gradient_accumulation_steps=3))
    if importlib.util.find_spec("wandb") is None:
        with pytest.raises(MissingDependencyError, match="pip install wandb"):
            LaunchOptions(trackers=("wandb",))

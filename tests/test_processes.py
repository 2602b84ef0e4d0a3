"""Several processes that measure together find what one finds."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from pictures import picture
from raptor.processes import ALONE, Team, team_of

SCRIPT = """
import json, sys
from dataclasses import asdict
from pathlib import Path
import numpy as np, torch
import raptor
from raptor.data import load_images
from raptor.data.three_sets import load_three_sets
from raptor.dynamics.survey import measure_dynamics
from raptor.dynamics_result import describe_dynamics
from raptor.models.vit import ViT, ViTConfig
from raptor.phase_result import describe_phases
from raptor.probe_result import describe_probe
from raptor.probes.plan import Plan
from raptor.probes.run import probe
from raptor.processes import is_first_process, team

out, folder = sys.argv[1:]
torch.manual_seed(0)
config = ViTConfig(depth=4, width=16, heads=2, n_register=1, image_size=64, n_classes=12)
teacher = raptor.load_teacher(ViT(config))
# Last batches that leave some processes without an image, and a batch of which all images are damaged.
pictures = load_images(folder, teacher, batch_size=3, workers=0, allow_damaged=True, team=team())
found = {"phases": describe_phases(raptor.find_phases(teacher, pictures, seed=1)), "damaged": pictures.damaged}
scenes = load_images("scenes", teacher, images=34, batch_size=4, team=team())
measured = measure_dynamics(teacher, scenes, "2-2", pushed=2, stretched=1, seed=1)
found["dynamics"] = describe_dynamics(measured, scenes.classes)
sets = load_three_sets("scenes", teacher, images=34, eval_images=17, batch_size=4, team=team())
plan = Plan(rates=(1e-2, 1e-3), seeds=(0, 1), epochs=2)
found["probes"] = {task: describe_probe(one) for task, one in probe(teacher, *sets, plan=plan).items()}
live = probe(teacher, *sets, ["classify"], plan=plan, live=True)
found["live"] = describe_probe(live["classify"])
if is_first_process():
    Path(out).write_text(json.dumps(found))
"""
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def launched(n):
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(n)]


def numbers(value, path=()):
    """Yield (path, number or text) of all leaves."""
    if isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers(item, (*path, key))
    else:
        yield path, value


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run the script in n processes; return what the first found."""
    base = tmp_path_factory.mktemp("processes")
    folder = base / "pictures"
    folder.mkdir()
    for index in range(26):
        picture(index * 9).save(folder / f"{index:02}.png")
    for index in (6, 7, 8, 25):
        (folder / f"{index:02}.png").write_bytes(b"")
    (base / "script.py").write_text(SCRIPT)

    def one(n):
        out = base / f"{n}.json"
        if not out.exists():
            command = [*([sys.executable] if n == 1 else launched(n)), base / "script.py", out, folder]
            done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(out.read_text())

    return one


@pytest.mark.parametrize("n", [2, pytest.param(4, marks=pytest.mark.long)])
def test_what_is_measured_together_is_what_one_measures(run, n):
    alone, together = dict(numbers(run(1))), dict(numbers(run(n)))
    assert alone.keys() == together.keys()
    assert len(alone) > 1000
    for path, value in alone.items():
        if isinstance(value, float):
            assert together[path] == pytest.approx(value, rel=1e-6, abs=1e-6, nan_ok=True), path
        else:
            assert together[path] == value, path


def test_one_process_of_several_writes_and_speaks(tmp_path):
    arguments = ["phases", "scenes", "--images", "5", "--batch-size", "2", "--json", "--out", tmp_path / "out"]
    done = subprocess.run([*launched(2), "-m", "raptor", *arguments], env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == json.loads((tmp_path / "out" / "result.json").read_text())
    assert json.loads(done.stdout)["images"] == 5


def test_what_runs_in_one_process_says_so(call, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    code, out, err = call("fidelity", "scenes:k2", "--images", "4")
    assert (code, out) == (2, "")
    assert "fidelity runs in one process: start it without torchrun or accelerate launch" in err


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_parts_follow_one_another_and_are_as_equal_as_can_be(n):
    for length in range(20):
        parts = [list(Team(index, n).own(range(length))) for index in range(n)]
        assert [item for part in parts for item in part] == list(range(length))
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_plain_batches_are_gone_through_alone():
    assert team_of([1, 2]) == ALONE

"""Several processes that measure together find what one finds."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from pictures import picture
from raptor.runtime.distributed import SINGLE_PROCESS, ProcessGroup, group_of

SCRIPT = """
import json, sys
from dataclasses import asdict, replace
from pathlib import Path
import numpy as np, torch
import raptor
from raptor.data.load import load_images
from raptor.data.train_val_test import load_train_val_test
from raptor.dynamics.survey import measure_dynamics
from raptor.dynamics.options import DynamicsOptions
from raptor.core.serialize import to_plain
from raptor.models.vit import ViT, ViTConfig
from raptor.core.serialize import to_plain
from raptor.probes.options import ProbeOptions
from raptor.probes.run import probe
from raptor.runtime.distributed import is_main_process, process_group

out, folder = sys.argv[1:]
torch.manual_seed(0)
config = ViTConfig(depth=4, width=16, heads=2, n_register=1, image_size=64, n_classes=12)
teacher = raptor.load_model(ViT(config))
# Last batches that leave some processes without an image, and a batch of which all images are damaged.
pictures = load_images(folder, teacher, batch_size=3, workers=0, allow_damaged=True, process_group=process_group())
found = {"phases": to_plain(raptor.find_phases(teacher, pictures, seed=1)), "damaged": pictures.damaged}
scenes = load_images("scenes", teacher, images=34, batch_size=4, process_group=process_group())
options = DynamicsOptions(perturbation_images=2, lyapunov_images=1, seed=1)
found["dynamics"] = to_plain(replace(measure_dynamics(teacher, scenes, "2-2", options), claims=[]))
sets = load_train_val_test("scenes", teacher, images=34, eval_images=17, batch_size=4, process_group=process_group())
options = ProbeOptions(lrs=(1e-2, 1e-3), seeds=(0, 1), epochs=2)
found["probes"] = {task: to_plain(one) for task, one in probe(teacher, *sets, options=options).items()}
live = probe(teacher, *sets, ["classify"], options=replace(options, live=True))
found["live"] = to_plain(live["classify"])
if is_main_process():
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


@pytest.mark.long
@pytest.mark.parametrize("n", [2, 4])
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
    assert "fidelity supports only one process" in err


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_parts_follow_one_another_and_are_as_equal_as_can_be(n):
    for length in range(20):
        parts = [list(ProcessGroup(index, n).shard(range(length))) for index in range(n)]
        assert [item for part in parts for item in part] == list(range(length))
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_plain_batches_are_gone_through_alone():
    assert group_of([]) == SINGLE_PROCESS

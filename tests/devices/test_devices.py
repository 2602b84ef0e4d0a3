"""What is for GPUs, tested for correctness on a CPU: prefetching, autocast, TF32, compilation, the comparison."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

import raptor
from raptor.errors import TrainingError
from raptor.models.vit import Block, ViT, ViTConfig
from raptor.runtime.device import matmul_precision
from raptor.runtime.prefetch import on_device, prefetched
from raptor.training import loop
from raptor.training.accelerate import LaunchOptions
from raptor.training.config import TrainConfig

CPU = torch.device("cpu")
COMPILED = Path(__file__).parents[1] / "helpers" / "compiled.py"
SMALL = ViTConfig(image_size=64, patch_size=16, depth=4, width=16, heads=2, n_register=2, n_classes=5)


@dataclass(frozen=True)
class Pair:
    first: Tensor
    name: str


def test_prefetched_batches_are_the_same_in_the_same_order():
    batches = [Pair(torch.full((2,), float(number)), str(number)) for number in range(20)]
    found = list(prefetched(iter(batches), CPU, always=True))
    assert [batch.name for batch in found] == [str(number) for number in range(20)]
    assert all(torch.equal(one.first, other.first) for one, other in zip(found, batches, strict=True))
    assert [list(prefetched(iter(range(3)), CPU, always=each)) for each in (True, False)] == [[0, 1, 2]] * 2


def test_prefetching_passes_errors_on_and_stops_its_thread():
    def broken():
        yield torch.zeros(1)
        raise ValueError("no more")

    source = prefetched(broken(), CPU, always=True)
    next(source)
    with pytest.raises(ValueError, match="no more"):
        next(source)

    def endless():
        while True:
            yield torch.zeros(1)

    before = threading.active_count()
    source = prefetched(endless(), CPU, always=True)
    next(source)
    source.close()
    assert threading.active_count() == before


def test_tensors_move_and_the_rest_stays():
    moved = on_device(Pair(torch.zeros(3), "a"), torch.device("meta"))
    assert (moved.first.device.type, moved.name) == ("meta", "a")


class PretendedGPU(TorchFunctionMode):
    """Records how tensors would move to a GPU; they stay where they are."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        if function is Tensor.pin_memory:
            self.calls.append("pin")
            return arguments[0].clone()
        if function is Tensor.to and torch.device("cuda") in arguments:
            self.calls.append(keywords)
            return arguments[0]
        return function(*arguments, **(keywords or {}))


def test_tensors_reach_a_gpu_through_pinned_memory():
    batch = Pair(torch.arange(3.0), "a")
    with PretendedGPU() as gpu:
        moved = on_device(batch, torch.device("cuda"))
    assert gpu.calls == ["pin", {"non_blocking": True}]
    assert torch.equal(moved.first, batch.first)


# Attention, and the products that training in bfloat16 on a CPU computes it by.
ATTENTION = {torch.nn.functional.scaled_dot_product_attention, torch.Tensor.matmul, torch.Tensor.__matmul__}


class Products(TorchFunctionMode):
    """Records the precision of every attention, and that of products of single precision while it runs."""

    def __init__(self):
        super().__init__()
        self.seen, self.matmul = [], set()

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        result = function(*arguments, **(keywords or {}))
        if function in ATTENTION:
            self.seen.append(result.dtype)
            self.matmul.add(torch.get_float32_matmul_precision())
        return result


def trained(**options):
    torch.manual_seed(0)
    teacher = raptor.load_model(ViT(SMALL), preprocessing=raptor.Preprocessing((64, 64), None))
    images = raptor.load_images("scenes:train", teacher, images=24)
    chosen = raptor.DistillOptions(steps=2, batch_size=4, crop=1, window=1, **options)
    return raptor.distill(teacher, images, "3-1", chosen, progress=False)


def weights(student):
    return torch.cat([value.detach().flatten() for value in student.raptor.parameters()])


def test_autocast_is_for_teacher_and_surrogate():
    with Products() as single:
        exact = weights(trained())
    with Products() as half:
        rounded = weights(trained(precision="bf16"))
    assert torch.bfloat16 not in single.seen
    # One training step has 4 layers of the teacher and at least 4 of the surrogate, each with two products.
    assert sum(kind == torch.bfloat16 for kind in half.seen) >= 2 * 2 * 2 * 8
    assert not torch.equal(exact, rounded)
    assert torch.nn.functional.cosine_similarity(exact, rounded, dim=0) > 0.999


def test_tf32_is_restored_and_changes_little():
    before = torch.get_float32_matmul_precision()
    with matmul_precision(True):
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == before
    with Products() as used:
        fast = weights(trained(tf32=True))
    assert "high" in used.matmul
    torch.testing.assert_close(fast, weights(trained()), rtol=1e-2, atol=1e-3)
    assert torch.get_float32_matmul_precision() == before


def test_gradient_checkpointing_computes_the_same_weights():
    found, calls = {}, {}
    for used in (False, True):
        seen = []
        hook = register_module_forward_pre_hook(lambda module, _, seen=seen: seen.append(type(module)))
        found[used] = weights(trained(gradient_checkpointing=used))
        hook.remove()
        calls[used] = seen.count(Block)
    torch.testing.assert_close(found[True], found[False])
    # Every layer of the surrogate runs once more for its gradient: 4 layers, 2 steps, 2 stages.
    assert calls[True] == calls[False] + 4 * 2 * 2


def test_training_on_prefetched_batches_is_the_same_to_the_last_bit(monkeypatch):
    wanted, threads = weights(trained()), threading.active_count()
    used = []
    monkeypatch.setattr(
        loop, "prefetched", lambda source, device: used.append(device) or prefetched(source, device, always=True)
    )
    assert torch.equal(weights(trained()), wanted)
    assert used == [CPU, CPU]  # both stages
    assert threading.active_count() == threads


def test_a_training_that_fails_stops_prefetching(monkeypatch):
    before = threading.active_count()
    monkeypatch.setattr(loop, "prefetched", lambda source, device: prefetched(source, device, always=True))
    model = torch.nn.Linear(2, 1)
    objective = lambda batch, step: (model(batch).sum() * float("nan"), {})  # noqa: E731
    batches = lambda *_: itertools.repeat(torch.ones(1, 2))  # noqa: E731
    with pytest.raises(TrainingError, match="the loss of step 0 is nan") as caught:
        loop.fit(model, objective, batches, TrainConfig(2, 1))
    assert caught.tb is not None  # the frame of the training is still there
    assert threading.active_count() == before


@pytest.mark.long
def test_compiled_training_and_saved_surrogates_compute_the_same():
    """In a process of its own; `fullgraph=True` raises at a graph break."""
    done = subprocess.run([sys.executable, COMPILED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    differences = json.loads(done.stdout)
    assert len(differences) == 12
    assert max(differences.values()) < 1e-4


@pytest.mark.long
def test_a_machine_without_a_compiler_is_one_line():
    short = ("--phases", "5-7", "--steps", "1", "--batch-size", "2", "--eval-images", "2", "--device", "cpu", "--quiet")
    done = subprocess.run(
        [sys.executable, "-m", "raptor", "distill", "scenes", "--compile", *short],
        capture_output=True, text=True, env={**os.environ, "CXX": "no-such-compiler"},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr[-3000:]
    assert "leave out --compile" in done.stderr


def test_the_options_are_in_the_configuration_only_where_they_are_set():
    assert not {"compile", "tf32"} & set(LaunchOptions().to_config())
    assert LaunchOptions.from_config(LaunchOptions(compile=True, tf32=True).to_config()).compile


def test_the_doctor_compares_the_work_of_a_device(call, monkeypatch):
    from raptor.cli import device_check

    code, out, _ = call("doctor", "--device", "cpu", "--json")
    checks = json.loads(out)["checks"]
    assert (code, set(checks)) == (0, {"rollout", "similarity", "dmd", "training step"})
    assert all(check["difference"] == 0 and check["ok"] for check in checks.values())
    calls = iter(range(2))
    odd = lambda teacher, images: torch.ones(2) + 1e-2 * next(calls)  # noqa: E731
    monkeypatch.setattr(device_check, "CHECKS", {"rollout": (device_check._rollout, 1e-5), "dmd": (odd, 1e-3)})
    code, out, _ = call("doctor", "--device", "cpu")
    assert code == 1
    assert "DIFFERS FROM the CPU" in out


def test_a_device_that_is_not_there_is_one_line(call):
    if not torch.cuda.is_available():
        code, out, err = call("doctor", "--device", "cuda")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "this machine has no cuda" in err

"""What is for GPUs, tested for correctness on a CPU: prefetching, autocast, TF32, compilation, the comparison."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

import raptor
from raptor.models.vit import ViT, ViTConfig
from raptor.runtime.device import matmul_precision
from raptor.runtime.prefetch import on_device, prefetched
from raptor.training.accelerate import LaunchOptions

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


class Products(TorchFunctionMode):
    """Records the precision of every attention."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        result = function(*arguments, **(keywords or {}))
        if function is torch.nn.functional.scaled_dot_product_attention:
            self.seen.append(result.dtype)
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
    # One training step has 4 layers of the teacher and at least 4 of the surrogate.
    assert sum(kind == torch.bfloat16 for kind in half.seen) >= 2 * 2 * 8
    assert not torch.equal(exact, rounded)
    assert torch.nn.functional.cosine_similarity(exact, rounded, dim=0) > 0.999


def test_tf32_is_restored_and_changes_little():
    before = torch.get_float32_matmul_precision()
    with matmul_precision(True):
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == before
    torch.testing.assert_close(weights(trained(tf32=True)), weights(trained()), rtol=1e-2, atol=1e-3)
    assert torch.get_float32_matmul_precision() == before


def test_gradient_checkpointing_computes_the_same_weights():
    torch.testing.assert_close(weights(trained(gradient_checkpointing=True)), weights(trained()))


@pytest.mark.long
def test_compiled_training_and_saved_surrogates_compute_the_same():
    """In a process of its own; `fullgraph=True` raises at a graph break."""
    done = subprocess.run([sys.executable, COMPILED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    differences = json.loads(done.stdout)
    assert len(differences) == 12
    assert max(differences.values()) < 1e-4


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

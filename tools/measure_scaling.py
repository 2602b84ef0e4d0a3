"""Measure how time and memory grow. Prints one JSON line per point; `tools/draw_scaling.py` draws them.

    python tools/measure_scaling.py > docs/data/scaling.jsonl

Every point runs in its own processes with one thread each. Time is the CPU time of the measured work, which other work
on the machine hardly changes. Memory is the increase of the peak memory of the process during the work.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BASE = {"images": 256, "layers": 12, "tokens": 65, "width": 128, "processes": 1}
AXES = {
    "images": (128, 256, 512, 1024, 2048, 4096),
    "layers": (6, 12, 24, 48),
    "tokens": (17, 65, 145, 257),
    "width": (64, 128, 256, 512),
    "processes": (1, 2, 4),
}
BATCH = 16
PATCH = 8


def _peak() -> float:
    return 1024.0 * int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])


def _work(task: str, point: dict[str, int]) -> Callable[[], object]:
    """Prepare the inputs, and return the function to measure."""
    import torch

    from raptor.data.load import load_images
    from raptor.distillation.distill import train_surrogate
    from raptor.distillation.recipes import distillation_named
    from raptor.dynamics.survey import Pooled
    from raptor.models.load import load_model
    from raptor.models.vit import ViT, ViTConfig
    from raptor.phases.similarity import layer_similarity
    from raptor.runtime.distributed import process_group

    torch.manual_seed(0)
    side = round((point["tokens"] - 1) ** 0.5)
    config = ViTConfig(image_size=PATCH * side, patch_size=PATCH, depth=point["layers"], width=point["width"],
                       heads=point["width"] // 32, n_register=0)  # fmt: skip
    teacher = load_model(ViT(config))
    share = BATCH // point["processes"]  # of a batch, so that all processes together have the same ones
    images = load_images("scenes", teacher, images=point["images"], batch_size=share, process_group=process_group())
    if task == "phases":
        return lambda: layer_similarity(teacher, images)
    if task == "dynamics":
        return lambda: Pooled(labelled=True).run(teacher, images.fit_eval_split())
    recipe = distillation_named("default", point["images"] // (2 * BATCH), BATCH)
    third = point["layers"] // 3
    return lambda: train_surrogate(teacher, images.unsharded(), "-".join([str(third)] * 3), recipe)


def measure(task: str, point: dict[str, int]) -> dict[str, Any]:
    """Measure one point in this process."""
    work = _work(task, point)
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak to the current memory
    before, began = _peak(), time.process_time()
    work()
    return {"seconds": round(time.process_time() - began, 3), "peak_mb": round((_peak() - before) / 1e6, 1)}


def _alone(task: str, axis: str, point: dict[str, int]) -> dict[str, Any]:
    """Measure one point in new processes. Return the maximum time and memory over the processes."""
    n = point["processes"]
    start = [sys.executable] if n == 1 else [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(n),
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [*start, __file__, task, json.dumps(point)], env=environment, capture_output=True, text=True, check=True
    )
    found = [json.loads(one) for one in re.findall(r"\{[^{}]*\}", done.stdout)]  # processes may print on the same line
    return {"task": task, "axis": axis, **point, **{name: max(one[name] for one in found) for name in found[0]}}


def main() -> None:
    """Measure all points."""
    for axis, values in AXES.items():
        for value in values:
            for task in ("phases", "dynamics", "distill"):
                print(json.dumps(_alone(task, axis, {**BASE, axis: value})), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1], json.loads(sys.argv[2]))), flush=True)
    else:
        main()

"""Make the old artefacts: run directories, checkpoints, surrogates and caches that later code must still read.

python tests/golden/make_artefacts.py DIRECTORY

The committed ones come from the code before the restructuring. Do not replace them: add new ones beside them.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from commands import call

SCENES = ("--data", "scenes", "--device", "cpu")
TRAIN = (
    "train", *SCENES, "--image-size", 32, "--patch-size", 8, "--steps", 60, "--batch-size", 4, "--depth", 4,
    "--width", 8, "--heads", 2, "--registers", 1, "--drop-path", 0.1, "--muon-lr", 0.003, "--warmup", 5,
    "--eval-images", 48, "--pool", "cls",
)  # fmt: skip
DISTILL = (
    "distill", "train", *SCENES, "--phases", "3-1", "--steps", 30, "--batch-size", 4, "--eval-images", 8,
)  # fmt: skip
CACHED = (
    "distill", "train", *SCENES, "--phases", "2-2", "--steps", 4, "--batch-size", 4, "--eval-images", 8,
    "--images", 8, "--cache", "states",
)  # fmt: skip
PROBE = (
    "probe", "train", *SCENES, "--task", "classify", "--images", 24, "--eval-images", 24, "--epochs", 2, "--seeds", 1,
    "--lrs", "1e-2,1e-1", "--cache", "features",
)  # fmt: skip
PHASES = ("phases", "train", *SCENES, "--images", 16, "--batch-size", 8)


def _run(root: Path, name: str, *arguments: object) -> None:
    code, _, err = call(root, *arguments, "--out", name)
    assert code == 0, err


def _run_half(root: Path, name: str, log: str, *arguments: object) -> None:
    """Run a training and end it by SIGTERM once its log has a few lines: it writes a checkpoint and stops."""
    command = [sys.executable, "-m", "raptor", *map(str, arguments), "--out", name]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(command, cwd=root, env=environment, stderr=subprocess.DEVNULL)
    file = root / name / log
    while process.poll() is None and not (file.exists() and file.read_text().count("\n") >= 4):
        time.sleep(0.002)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 128 + signal.SIGTERM, "it ended before it could be stopped"


def make(root: Path) -> None:
    """Write all artefacts into a directory."""
    import raptor

    root.mkdir(parents=True)
    _run(root, "train", *TRAIN)
    _run_half(root, "train-half", "metrics.jsonl", *TRAIN)
    _run(root, "phases", *PHASES)
    _run(root, "distill", *DISTILL)
    _run_half(root, "distill-half", "stage2/metrics.jsonl", *DISTILL)
    _run(root, "distill-cached", *CACHED)
    _run(root, "probe", *PROBE)
    raptor.RaptorModel.from_pretrained(root / "distill" / "model").save_pretrained(root / "surrogate")
    for name in ("stage1", "stage2", "model", "figures"):
        shutil.rmtree(root / "distill-cached" / name)
    # What the half-done trainings hold as well.
    for name in ("train", "distill/stage1", "distill/stage2"):
        (root / name / "checkpoint.pt").unlink()
    for path in root.rglob("*"):
        if path.name == ".lock" or path.suffix in (".png", ".svg", ".pdf"):
            path.unlink()


if __name__ == "__main__":
    make(Path(sys.argv[1]).resolve())

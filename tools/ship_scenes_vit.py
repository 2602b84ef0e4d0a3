"""Put a trained run into the package as the ViT of `scenes`: float16 weights and how they came to be.

    python tools/ship_scenes_vit.py runs/scenes-vit

The accuracy is measured on the float16 file itself, on 10,000 test images, after it was written.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import torch

from raptor.accuracy import top1
from raptor.data import load_images
from raptor.models.store import load_vit, save_vit
from raptor.models.teachers import SHIPPED, load_teacher

TEST_IMAGES = 10_000


def main(run: Path) -> None:
    """Convert, measure, record."""
    config, result = (json.loads((run / name).read_text()) for name in ("config.json", "result.json"))
    model, preprocessing = load_vit(run / "model")
    save_vit(model, preprocessing, SHIPPED, torch.float16)
    teacher = load_teacher("scenes")
    measured = top1(teacher, load_images("scenes", teacher, "test", TEST_IMAGES, batch_size=250), seed=0)
    record = {
        # Resuming changes no bit of a run.
        "command": "raptor " + " ".join(word for word in config["command"] if word != "--resume"),
        "seed": config["seed"],
        "steps": result["steps"],
        "train_images": result["train_images"],
        "train_seconds": result["train_seconds"],
        "cores": 2,
        "versions": config["versions"],
        "test": f"scenes:test, {TEST_IMAGES} images, the float16 file",
        "top1": measured.top1,
        "top1_ci": list(measured.ci),
        "sha256": hashlib.sha256((SHIPPED / "model.safetensors").read_bytes()).hexdigest(),
    }
    (SHIPPED / "training.json").write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Bundle a trained run as the `scenes` ViT: float16 weights and a training record.

    python tools/ship_scenes_vit.py runs/scenes-vit

The tool measures the accuracy of the written float16 file on 10,000 test images.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import torch

from raptor.core.accuracy import top1
from raptor.data.load import load_images
from raptor.models.checkpoints import load_vit, save_vit
from raptor.models.load import SHIPPED, load_model

TEST_IMAGES = 10_000


def main(run: Path) -> None:
    """Convert the weights, measure the accuracy and write the record."""
    config, result = (json.loads((run / name).read_text()) for name in ("config.json", "result.json"))
    model, preprocessing = load_vit(run / "model")
    save_vit(model, preprocessing, SHIPPED, torch.float16)
    teacher = load_model("scenes")
    measured = top1(teacher, load_images("scenes", teacher, "test", TEST_IMAGES, batch_size=250), seed=0)
    record = {
        # A resumed run is bit-identical to an uninterrupted one.
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

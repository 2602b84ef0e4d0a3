"""Put a surrogate of the scenes ViT into the package: float16 weights, measured as they ship, with a model card.

python tools/ship_surrogate.py runs/raptor scenes:k3
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from raptor.commands.fidelity import IMAGES
from raptor.data import HELD_OUT, load_images
from raptor.evaluation import fidelity
from raptor.fidelity_result import describe_fidelity
from raptor.model_card import model_card
from raptor.models.pretrained import load_surrogate, with_teacher
from raptor.models.teachers import MODELS, load_teacher
from raptor.run import plain


def main(run: Path, name: str) -> None:
    """Convert, measure what was written, record."""
    folder = MODELS / name.replace("scenes:", "scenes_raptor_")
    load_surrogate(run / "model", torch.float16).save_pretrained(folder)
    model, teacher = load_surrogate(folder), load_teacher("scenes")
    images = load_images("scenes", teacher, HELD_OUT, IMAGES, batch_size=250)
    measured = fidelity(with_teacher(model, teacher), images, seed=0)
    about = {**describe_fidelity(measured), "data": f"scenes:{HELD_OUT}, the float16 file", "seed": 0, "images": IMAGES}
    model.config.provenance["fidelity"] = plain(about)
    model.half().save_pretrained(folder)
    (folder / "README.md").write_text(model_card(model.config), encoding="utf-8")
    print(measured)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

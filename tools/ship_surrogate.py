"""Bundle a surrogate of the scenes ViT: float16 weights, their measured fidelity and a model card.

python tools/ship_surrogate.py runs/raptor scenes:k3
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import torch

from raptor.core.serialize import to_plain
from raptor.data.load import HELD_OUT, load_images
from raptor.distillation.model_card import SavedFidelity, model_card
from raptor.evaluation.command import DEFAULT_IMAGES
from raptor.evaluation.evaluate import fidelity
from raptor.models.load import MODELS, load_model
from raptor.models.pretrained import load_surrogate, with_teacher


def main(run: Path, name: str) -> None:
    """Convert the weights, measure the written file and save the model card."""
    folder = MODELS / name.replace("scenes:", "scenes_raptor_")
    load_surrogate(run / "model", torch.float16).save_pretrained(folder)
    model, teacher = load_surrogate(folder), load_model("scenes")
    images = load_images("scenes", teacher, HELD_OUT, DEFAULT_IMAGES, batch_size=250)
    measured = fidelity(with_teacher(model, teacher), images, seed=0)
    saved = SavedFidelity(f"scenes:{HELD_OUT}, the float16 file", 0, DEFAULT_IMAGES, replace(measured, phases=None))
    model.config.provenance["fidelity"] = to_plain(saved)
    model.half().save_pretrained(folder)
    (folder / "README.md").write_text(model_card(model.config), encoding="utf-8")
    print(measured)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

"""Run in a process of its own, where shapes are not checked on every call: compiled against plain computation.

Prints one JSON object: the largest relative differences.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch

import raptor
from raptor.core.phases import Phases
from raptor.models.standalone import standalone
from raptor.models.surrogate import build_surrogate
from raptor.models.vit import ViT, ViTConfig
from raptor.runtime import compiled

SMALL = ViTConfig(image_size=64, patch_size=16, depth=4, width=16, heads=2, n_register=2, n_classes=5)


def trained(**options):
    """Return the weights of a surrogate after two steps of each stage, and the blocks."""
    torch.manual_seed(0)
    teacher = raptor.load_model(ViT(SMALL), preprocessing=raptor.Preprocessing((64, 64), None))
    images = raptor.load_images("scenes:train", teacher, images=24)
    chosen = raptor.DistillOptions(steps=2, batch_size=4, crop=1, window=1, **options)
    student = raptor.distill(teacher, images, "3-1", chosen, progress=False)
    assert all(block._compiled_call_impl is None for block in [*student.raptor.blocks, *teacher.parts.blocks])
    return torch.cat([value.detach().flatten() for value in student.raptor.parameters()])


def saved(name, kind, **block):
    """Return the largest relative difference of a whole surrogate in one graph."""
    raptor.register_auto_classes()  # imports transformers past a torchvision that is broken
    from round_trip import scrambled
    from vits import family, pixels

    surrogate = scrambled(build_surrogate(raptor.load_model(family(name).build()), Phases((2, 1)), kind, **block))
    model, images = standalone(surrogate, kind, block), pixels(32, 32)
    torch._dynamo.reset()
    with torch.no_grad():
        wanted = model(images, output_hidden_states=True).hidden_states
        found = torch.compile(model, fullgraph=True, backend="aot_eager")(images, output_hidden_states=True)
    return max(
        float((one - other).abs().max() / one.abs().max())
        for one, other in zip(wanted, found.hidden_states, strict=True)
    )


def main():
    """Compare."""
    compiled.BACKEND = "aot_eager"
    plain = trained()
    differences = {"training": float((trained(compile=True) - plain).abs().max() / plain.abs().max())}
    for name in ("vit", "dinov2-registers", "clip", "siglip", "beit-own"):
        for kind in ("teacher", "swiglu"):
            differences[f"{name} {kind}"] = saved(name, kind)
    differences["vit relaxed"] = saved("vit", "teacher", relax_rank=2)
    print(json.dumps(differences))


if __name__ == "__main__":
    main()

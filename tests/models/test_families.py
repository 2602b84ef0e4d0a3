"""Every supported family, and the adapter of the docs: distilled, saved, read again and exported."""

from __future__ import annotations

import pytest
import torch

import raptor
from doc_blocks import DOCS, blocks
from raptor.distillation.saving import save_surrogate
from vits import FAMILIES, pixels

SHORT = raptor.DistillOptions(steps=2, batch_size=4)


def check(teacher, folder, **loading):
    """Check that a distilled surrogate is the same function after saving and reading, and after an export."""
    images = raptor.load_images("scenes", teacher, images=8)
    surrogate = raptor.distill(teacher, images, f"2-{teacher.depth - 2}", SHORT)
    save_surrogate(surrogate, folder, "scenes", 0)
    again = raptor.load_model(folder, **loading)
    batch = pixels(*teacher.image_size)
    with torch.no_grad():
        wanted, found = (raptor.rollout(flow, flow.embed(batch)).states for flow in (surrogate, again))
    torch.testing.assert_close(found, wanted)
    assert raptor.export(again, folder / "export").max_difference < 1e-4


@pytest.mark.parametrize("case", FAMILIES, ids=lambda case: case.name)
def test_every_family(case, tmp_path):
    check(raptor.load_model(case.build()), tmp_path)


def test_every_timm_model(tmp_path):
    timm = pytest.importorskip("timm", reason="timm cannot be had here", exc_type=ImportError)
    small = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 3, "num_heads": 4, "num_classes": 7}
    models = {
        "vit": timm.models.VisionTransformer(**small, reg_tokens=4),
        "eva": timm.models.Eva(**small, use_rot_pos_emb=True),
    }
    for name, module in models.items():
        check(raptor.load_model(module), tmp_path / name)


def test_the_adapter_of_the_docs(tmp_path):
    page: dict = {}
    exec(next(text for text in blocks(DOCS / "adapters.md", "python") if "register_adapter" in text), page)
    check(page["teacher"], tmp_path, teacher=page["MyViT"]())

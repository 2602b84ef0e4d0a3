"""Every supported family, and the adapter of the docs: distilled, saved, read again and exported."""

from __future__ import annotations

import pytest
import torch

import raptor
from doc_blocks import DOCS, blocks
from raptor.distillation.saving import save_surrogate
from vits import FAMILIES, pixels

SHORT = raptor.DistillOptions(steps=2, batch_size=4)


def check(teacher, folder, loading=None):
    """Check that a distilled surrogate is the same function after saving and reading, and after an export."""
    folder.mkdir(exist_ok=True)
    images = raptor.load_images("scenes", teacher, images=8)
    surrogate = raptor.distill(teacher, images, f"2-{teacher.depth - 2}", SHORT)
    save_surrogate(surrogate, folder, "scenes", 0)
    again = raptor.load_model(folder, **(loading or {}))
    batch = pixels(*teacher.image_size)
    with torch.no_grad():
        wanted, found = (raptor.rollout(flow, flow.embed(batch)).states for flow in (surrogate, again))
    torch.testing.assert_close(found, wanted)
    assert raptor.export(again, folder / "export").max_difference < 1e-4


QUICK = ("vit", "dinov2-registers", "beit-shared", "mae")
CASES = [pytest.param(case, id=case.name, marks=[] if case.name in QUICK else pytest.mark.long) for case in FAMILIES]


@pytest.mark.parametrize("case", CASES)
def test_every_family(case, tmp_path):
    check(raptor.load_model(case.build()), tmp_path)


@pytest.mark.long
def test_timm_models(tmp_path):
    timm = pytest.importorskip("timm", reason="timm cannot be had here", exc_type=ImportError)
    for name in ("vit_tiny_patch16_224", "eva02_tiny_patch14_224"):
        size = 32 if name.startswith("vit") else 28
        check(raptor.load_model(timm.create_model(name, img_size=size, num_classes=5)), tmp_path / name)


def test_the_adapter_of_the_docs(tmp_path):
    page: dict = {}
    exec(next(text for text in blocks(DOCS / "adapters.md", "python") if "register_adapter" in text), page)
    check(page["teacher"], tmp_path, {"teacher": page["MyViT"]()})

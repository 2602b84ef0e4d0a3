"""What tests of the hub share."""

from __future__ import annotations

import pytest
import torch

import raptor
from hub import hub  # noqa: F401
from vits import family


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """A surrogate of a tiny ViT of transformers that states its licence, distilled by the command line's function."""
    root = tmp_path_factory.mktemp("push")
    torch.manual_seed(0)
    family("vit").build().save_pretrained(root / "teacher")
    (root / "teacher" / "README.md").write_text("---\nlicense: apache-2.0\n---\n# A ViT\n")
    from raptor.runtime.verbs import VERBS, import_features

    import_features("command")
    VERBS["distill"].function(
        str(root / "teacher"), data="scenes", k=None, phases="2-1", eval_images=4,
        options=raptor.DistillOptions(steps=1), loading=raptor.LoadOptions(),
        run_options=raptor.RunOptions(out=root / "run", device="cpu", batch_size=2, quiet=True),
    )  # fmt: skip
    return root / "run"

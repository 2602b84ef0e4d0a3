"""`raptor export`: exported surrogates compute the same."""

from __future__ import annotations

import json

import pytest

from small_vit import QUICK


@pytest.mark.parametrize("form", ["torch-export", "onnx"])
@pytest.mark.parametrize(
    "blocks",
    [("--relax-rank", 2), *(pytest.param(("--kind", kind), marks=pytest.mark.long) for kind in ("teacher", "swiglu"))],
)
def test_exports_equal_eager(call, vit, tmp_path, form, blocks):
    command = ("distill", vit, "--data", "scenes", "--phases", "2-2", "--out", tmp_path / "a", *blocks)
    assert call(*command, *QUICK)[0] == 0
    code, out, err = call("export", tmp_path / "a", "--format", form, "--out", tmp_path / "b", "--json")
    assert code == 0, err
    result = json.loads(out)
    assert result["max_difference"] < 1e-4
    assert (tmp_path / "b" / result["file"]).stat().st_size > 1000


def test_an_export_of_no_known_format_is_refused(call, vit, tmp_path):
    code, _, err = call("export", vit, "--format", "pickle", "--out", tmp_path / "b")
    assert code == 2
    assert "torch-export, onnx" in err
    code, _, err = call("export", vit)
    assert code == 2
    assert "--out" in err

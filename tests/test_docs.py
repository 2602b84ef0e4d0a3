"""Every Python block of the documentation runs."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
BLOCKS = [
    pytest.param(block, id=f"{path.name}-{index}")
    for path in sorted(DOCS.glob("*.md"))
    for index, block in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_the_documentation_runs(block, monkeypatch, tmp_path):
    from raptor.models.teachers import adapt

    monkeypatch.setattr(adapt, "ADAPTERS", dict(adapt.ADAPTERS))  # what an example registers stays in it
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "docs", "exec"), {"__name__": "docs"})


def test_the_readme_runs(monkeypatch, tmp_path):
    """Its lines on a hub model, with a small model of the same family in a directory of that name."""
    import importlib

    from transformers import Dinov2WithRegistersConfig, Dinov2WithRegistersModel

    from pictures import picture

    training = importlib.import_module("raptor.training.distill")
    page = importlib.import_module("raptor.commands.python_report")
    monkeypatch.chdir(tmp_path)
    config = Dinov2WithRegistersConfig(
        hidden_size=16, num_hidden_layers=6, num_attention_heads=2, image_size=28, patch_size=14, num_register_tokens=2
    )
    Dinov2WithRegistersModel(config).save_pretrained("facebook/dinov2-with-registers-base")
    (tmp_path / "photos").mkdir()
    for value in range(30):
        picture(value * 5).save(tmp_path / "photos" / f"{value}.png")
    named = training.distillation_named
    monkeypatch.setattr(training, "distillation_named", lambda name: named(name, steps=2, batch_size=4))
    monkeypatch.setattr(page.report, "__defaults__", (0, 1, 1))
    survey = importlib.import_module("raptor.dynamics.survey")
    monkeypatch.setattr(survey, "expansion", partial(survey.expansion, vectors=2, iterations=1))
    (block,) = re.findall(r"```python\n(.*?)```", (DOCS.parent / "README.md").read_text(), flags=re.DOTALL)
    exec(compile(block, "README", "exec"), {"__name__": "README"})
    assert "Depth film" in (tmp_path / "report.html").read_text()


def test_there_is_something_to_run():
    assert len(BLOCKS) >= 2

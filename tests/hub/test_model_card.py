"""The model card: metadata that the hub's client reads and validates."""

from __future__ import annotations

import json

import pytest
import yaml
from huggingface_hub import ModelCard, constants

import raptor
from hub import Hub, problems
from raptor.distillation.model_card import model_card
from raptor.models.remote.metadata import Score, front_matter, hub_dataset, hub_model, licence_of


def test_the_card_is_what_the_hub_reads(run):
    """Parsed by the hub's client, which raises for metadata in another form."""
    text = (run / "model" / "README.md").read_text()
    card = ModelCard(text, ignore_metadata_errors=False)
    data = card.data
    fidelity = json.loads((run / "result.json").read_text())["fidelity"]
    r2 = fidelity["r2"]["all"]
    assert (data.license, data.library_name, data.pipeline_tag) == (
        "apache-2.0", "transformers", "image-feature-extraction"
    )  # fmt: skip
    assert data.base_model is None  # the teacher is a local directory
    values = {result.metric_name: result.metric_value for result in data.eval_results}
    assert values == pytest.approx({
        "R2 of the states at the last layer": r2[-1], "R2 of the states, mean over layers": sum(r2) / len(r2),
    })  # fmt: skip
    assert all(result.dataset_name == "scenes:held-out" for result in data.eval_results)
    raw = yaml.safe_load(text.split("---")[1])
    assert raw["model-index"][0]["results"][0]["task"]["type"] == "image-feature-extraction"


def test_a_card_with_everything_is_valid(tmp_path, hub, monkeypatch):
    """By the client's own call, `ModelCard.validate`; the stand-in checks the rules of the hub's documentation."""
    monkeypatch.setattr(constants, "ENDPOINT", hub)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    scores = [Score("r2", "R2", 0.9), Score("accuracy", "top-1", 0.5, "image-classification")]
    text = front_matter(
        "Raptor 2-1", "transformers", "apache-2.0", "facebook/dinov2-base", ["ILSVRC/imagenet-1k:train"],
        "ILSVRC/imagenet-1k:test", scores,
    )  # fmt: skip
    card = ModelCard(text, ignore_metadata_errors=False)
    card.validate()
    assert Hub.validated == 1
    assert (card.data.base_model, card.data.datasets) == ("facebook/dinov2-base", ["ILSVRC/imagenet-1k"])
    assert [(one.task_type, one.metric_type, one.metric_value, one.dataset_type) for one in card.data.eval_results] == [
        ("image-feature-extraction", "r2", 0.9, "ILSVRC/imagenet-1k"),
        ("image-classification", "accuracy", 0.5, "ILSVRC/imagenet-1k"),
    ]
    for wrong in (text.replace("apache-2.0", "GPL 3"), text.replace("image-feature-extraction", "feelings"),
                  text.replace("value: 0.9", "value: .nan"), "# No metadata"):  # fmt: skip
        with pytest.raises(ValueError, match="message"):
            ModelCard(wrong).validate()


def test_every_kind_of_saved_surrogate_has_a_valid_card(run, tmp_path):
    """With and without measures, unfinished, of a model that only raptor loads, and with an R2 that is undefined."""
    config = raptor.RaptorConfig.from_pretrained(run / "model")
    measured = config.provenance["fidelity"]
    bare = {name: value for name, value in config.provenance.items() if name != "fidelity"}
    undefined = json.loads(json.dumps(measured))
    undefined["r2"]["all"][-1] = None  # how NaN is written
    for provenance, teacher, n in (
        (config.provenance, config.teacher, 2),
        (bare, config.teacher, 0),
        ({**bare, "training": {"unfinished": {"step": 1, "steps": 2, "stage": "stage1"}}}, config.teacher, 0),
        (config.provenance, {"library": "timm"}, 2),
        ({**bare, "fidelity": undefined}, config.teacher, 0),
    ):
        saved = raptor.RaptorConfig(phases="2-1", teacher=teacher, provenance=provenance, num_hidden_layers=3)
        text = model_card(saved, "a/b")
        assert problems(text) == []
        card = ModelCard(text, ignore_metadata_errors=False)
        assert len(card.data.eval_results or []) == n
        assert card.data.library_name == ("raptor-vit" if teacher["library"] == "timm" else "transformers")


def test_sources_on_the_hub_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "photos").mkdir()
    assert hub_model("facebook/dinov2-base") == "facebook/dinov2-base"
    assert hub_model("timm:vit_tiny_patch16_224.augreg_in21k") == "timm/vit_tiny_patch16_224.augreg_in21k"
    assert [hub_model(name) for name in ("scenes", "local/photos", "/x/y/z", "python:a.b:c")] == [None] * 4
    assert hub_dataset("ILSVRC/imagenet-1k:train") == "ILSVRC/imagenet-1k"
    assert [hub_dataset(name) for name in ("scenes", "local/photos:train", "a/b/c.parquet")] == [None] * 3


def test_a_teacher_without_a_licence_is_unknown(tmp_path):
    assert [licence_of(name) for name in (str(tmp_path), "scenes", "nobody/nothing", "timm:x")] == ["unknown"] * 4
    (tmp_path / "README.md").write_text("---\nlicense: [: broken\n---\n")
    assert licence_of(str(tmp_path)) == "unknown"
    (tmp_path / "README.md").write_text("---\nlicense: cc-by-nc-4.0\n---\n")
    assert licence_of(str(tmp_path)) == "cc-by-nc-4.0"


def test_timm_knows_its_own_ids_and_licences():
    pytest.importorskip("timm")
    assert hub_model("timm:vit_tiny_patch16_224") == "timm/vit_tiny_patch16_224.augreg_in21k_ft_in1k"
    assert licence_of("timm:vit_tiny_patch16_224") == "apache-2.0"
    assert hub_model("timm:nonesuch") is None

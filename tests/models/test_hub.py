"""Models from directories and hub ids: what loads equals what was saved, and nothing else loads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings

import pytest
import safetensors.torch
import torch
import transformers as tf

import raptor
from hostile import Trap
from raptor.errors import ModelNotFoundError, UnsupportedModelError, WeightsError
from vits import DINO, FAMILIES, SMALL, family, pixels

TEXT = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}


@pytest.fixture(autouse=True)
def _no_grad():
    with torch.no_grad():
        yield


@pytest.mark.parametrize("case", FAMILIES, ids=lambda case: case.name)
def test_a_saved_model_loads_with_the_same_states(case, tmp_path):
    model = case.build()
    model.save_pretrained(tmp_path)
    teacher = raptor.load_model(tmp_path)
    images = pixels(32, 32)
    expected = raptor.load_model(model)(images)
    torch.testing.assert_close(teacher(images), expected, atol=1e-6, rtol=1e-6)
    assert not any(parameter.requires_grad for parameter in teacher.parameters())


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (tf.CLIPModel, lambda: tf.CLIPConfig(vision_config=SMALL, text_config=TEXT)),
        (tf.SiglipModel, lambda: tf.SiglipConfig(vision_config=SMALL, text_config=TEXT)),
        (tf.Aimv2Model, lambda: tf.Aimv2Config(vision_config=SMALL, text_config=TEXT)),
        (tf.CLIPVisionModelWithProjection, lambda: tf.CLIPVisionConfig(**SMALL)),
        (
            tf.ViTMAEForPreTraining,
            lambda: tf.ViTMAEConfig(**SMALL, decoder_hidden_size=32, decoder_num_hidden_layers=1),
        ),
        (tf.ViTForMaskedImageModeling, lambda: tf.ViTConfig(**SMALL)),
        (tf.BeitForMaskedImageModeling, lambda: tf.BeitConfig(**SMALL, vocab_size=16, use_mask_token=True)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_checkpoints_of_larger_models_give_their_vit(kind, config, tmp_path):
    torch.manual_seed(0)
    model = kind(config()).eval()
    model.save_pretrained(tmp_path)
    images = pixels(32, 32)
    expected = raptor.load_model(model)(images)
    torch.testing.assert_close(raptor.load_model(tmp_path)(images), expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (tf.Dinov2ForImageClassification, lambda: tf.Dinov2Config(**DINO, num_labels=7)),
        (tf.BeitForImageClassification, lambda: tf.BeitConfig(**SMALL, num_labels=7)),
        (tf.DeiTForImageClassificationWithTeacher, lambda: tf.DeiTConfig(**SMALL, num_labels=7)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_saved_classifier_keeps_its_head(kind, config, tmp_path):
    torch.manual_seed(0)
    model = kind(config()).eval()
    model.save_pretrained(tmp_path)
    teacher = raptor.load_model(str(tmp_path))
    images = pixels(32, 32)
    last = raptor.rollout(teacher, teacher.embed(images)).at(teacher.depth)
    torch.testing.assert_close(teacher.head(last), model(images).logits, atol=1e-5, rtol=1e-5)


def test_half_precision_checkpoints_load_as_float32_unless_told(tmp_path):
    family("vit").build().half().save_pretrained(tmp_path)
    assert next(raptor.load_model(tmp_path).parameters()).dtype == torch.float32
    assert next(raptor.load_model(tmp_path, dtype=torch.float16).parameters()).dtype == torch.float16


def test_the_preprocessor_decides_the_size_and_the_normalisation(tmp_path):
    family("dinov2").build().save_pretrained(tmp_path)
    written = {"size": {"shortest_edge": 56}, "do_center_crop": True, "crop_size": {"height": 48, "width": 48},
               "image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6], "resample": 3}  # fmt: skip
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(written))
    teacher = raptor.load_model(tmp_path)
    assert (teacher.image_size, teacher.layout.grid) == ((48, 48), (6, 6))
    assert teacher.preprocessing.mean == (0.1, 0.2, 0.3)
    assert teacher.preprocessing.resize == (56, 56)
    assert raptor.load_model(tmp_path, image_size=96).preprocessing.resize == (112, 112)


def test_weights_from_a_file_replace_the_checkpoints(tmp_path):
    model = family("vit").build()
    model.save_pretrained(tmp_path / "model")
    other = {name: value + 1 for name, value in model.state_dict().items()}
    safetensors.torch.save_file(other, tmp_path / "other.safetensors")
    teacher = raptor.load_model(tmp_path / "model", weights=tmp_path / "other.safetensors")
    assert torch.equal(teacher.module.layernorm.bias, model.layernorm.bias + 1)
    del other["layers.1.mlp.fc1.bias"]
    torch.save(other, tmp_path / "less.pth")
    with pytest.raises(WeightsError, match=r"'layers\.1\.mlp\.fc1\.bias' is missing"):
        raptor.load_model(tmp_path / "model", weights=tmp_path / "less.pth")


def test_a_checkpoint_of_another_architecture_names_the_first_missing_key(tmp_path):
    family("dinov2").build().save_pretrained(tmp_path)
    weights = safetensors.torch.load_file(tmp_path / "model.safetensors")
    kept = {name: value for name, value in weights.items() if not name.startswith("encoder.layer.1.")}
    safetensors.torch.save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(WeightsError, match=r"do not match.*'encoder\.layer\.1\."):
        raptor.load_model(tmp_path)


@pytest.mark.parametrize("name", ["vit", "deit", "dinov2", "dinov3", "clip", "siglip", "beit", "mae", "ijepa", "aimv2"])
def test_the_file_of_a_checkpoint_is_taken_as_weights(name, tmp_path):
    """Files on disk have names of their own, which the library translates when it loads them."""
    model = family(name).build()
    model.save_pretrained(tmp_path)
    teacher = raptor.load_model(tmp_path, weights=tmp_path / "model.safetensors")
    images = pixels(32, 32)
    torch.testing.assert_close(teacher(images), raptor.load_model(model)(images), atol=1e-6, rtol=1e-6)


def edit_config(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


def test_a_configuration_that_leaves_layers_out_names_the_first(tmp_path):
    family("vit").build().save_pretrained(tmp_path)
    edit_config(tmp_path, num_hidden_layers=2)
    with pytest.raises(WeightsError, match=r"layer.*2\..* is not in the model"):
        raptor.load_model(tmp_path)


def test_weights_of_another_width_name_the_first_key_and_both_shapes(tmp_path, capfd):
    family("dinov2").build().save_pretrained(tmp_path)
    edit_config(tmp_path, hidden_size=64)
    capfd.readouterr()
    with pytest.raises(WeightsError, match=r"'embeddings\.cls_token' has shape \(1, 1, 32\).*\(1, 1, 64\)"):
        raptor.load_model(tmp_path)
    assert capfd.readouterr() == ("", "")


def test_a_classifier_whose_pooler_is_missing_is_refused(tmp_path):
    model = tf.BeitForImageClassification(tf.BeitConfig(**SMALL, num_labels=3))
    model.save_pretrained(tmp_path)
    weights = safetensors.torch.load_file(tmp_path / "model.safetensors")
    kept = {name: value for name, value in weights.items() if "pooler" not in name}
    assert len(kept) < len(weights)
    safetensors.torch.save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(WeightsError, match=r"pooler\.layernorm.* is missing"):
        raptor.load_model(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_size": "abc"}, {"hidden_size": None}, {"hidden_size": -32}, {"hidden_size": 0}, {"image_size": None},
        {"image_size": 32.5}, {"image_size": [32]}, {"patch_size": 0}, {"num_hidden_layers": 0}, {"dtype": "nonsense"},
        {"num_hidden_layers": -1}, {"num_attention_heads": -4}, {"hidden_act": "nonsense"}, {"layer_norm_eps": "x"},
    ],
    ids=str,
)  # fmt: skip
def test_nonsense_in_a_configuration_is_a_named_error(changes, tmp_path):
    family("vit").build().save_pretrained(tmp_path)
    edit_config(tmp_path, **changes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, about tensors without elements
        with pytest.raises(raptor.RaptorError):
            raptor.load_model(tmp_path)


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", '"x"', '{"image_processor": 5}', '{"size": "x"}', '{"size": {}}', '{"size": [32, 32]}',
     '{"size": {"shortest_edge": "a"}}', '{"image_mean": 0.5}', '{"image_std": ["a", "b", "c"]}', '{"resample": 77}',
     '{"resample": "bicubic"}', '{"do_center_crop": true, "crop_size": {"height": 32}}'],
)  # fmt: skip
def test_a_preprocessor_file_that_cannot_be_used_is_named(content, tmp_path):
    family("vit").build().save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(content)
    with pytest.raises(UnsupportedModelError, match=r"preprocessor_config\.json of .* is invalid"):
        raptor.load_model(tmp_path)


def test_code_that_a_repository_brings_is_never_run(tmp_path, capfd):
    (tmp_path / "evil.py").write_text(
        f"import os\nos.mkdir({str(tmp_path / 'executed')!r})\n"
        "from transformers import PretrainedConfig\nclass Evil(PretrainedConfig):\n    model_type = 'evil'\n"
    )
    config = {"model_type": "evil", "auto_map": {"AutoConfig": "evil.Evil", "AutoModel": "evil.Evil"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnsupportedModelError):
        raptor.load_model(tmp_path)
    assert not (tmp_path / "executed").exists()
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("where", ["weights", "head", "checkpoint"])
def test_pickles_are_never_executed(where, tmp_path):
    target = tmp_path / "executed"
    family("vit").build().save_pretrained(tmp_path / "model")
    evil = tmp_path / "evil.pth"
    torch.save({"x": Trap(target)}, evil)
    options = {} if where == "checkpoint" else {where: evil}
    if where == "checkpoint":
        (tmp_path / "model" / "model.safetensors").unlink()
        evil.rename(tmp_path / "model" / "pytorch_model.bin")
    with pytest.raises(WeightsError):
        raptor.load_model(tmp_path / "model", **options)
    assert not target.exists()


@pytest.mark.parametrize("content", [b"", b"text", b"\x80\x04", b"PK\x03\x04 broken zip"])
@pytest.mark.parametrize("ending", ["pth", "safetensors"])
def test_files_that_are_not_weights_are_refused(content, ending, tmp_path):
    family("vit").build().save_pretrained(tmp_path / "model")
    (tmp_path / f"weights.{ending}").write_bytes(content)
    with pytest.raises(WeightsError, match="tensors"):
        raptor.load_model(tmp_path / "model", weights=tmp_path / f"weights.{ending}")


def test_places_without_a_model(tmp_path):
    with pytest.raises(ModelNotFoundError, match=r"does not contain a model.*config\.json.*save_pretrained"):
        raptor.load_model(tmp_path)
    with pytest.raises(ModelNotFoundError, match="neither a directory with a model nor a hub id"):
        raptor.load_model(tmp_path / "nowhere")
    (tmp_path / "file").write_text("x")
    with pytest.raises(ModelNotFoundError, match="neither a directory"):
        raptor.load_model(tmp_path / "file")


def test_a_hub_id_without_a_network_says_how_to_go_on():
    with pytest.raises(ModelNotFoundError, match=r"'some/model'.*hf download some/model --local-dir DIR"):
        raptor.load_model("some/model")


@pytest.mark.parametrize(
    "config", [{"model_type": "bert"}, {"model_type": "no-such-model"}, {"no": "type"}], ids=lambda c: str(c)
)
def test_other_architectures_are_told_what_is_supported(config, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnsupportedModelError, match=r"supported are.*transformers\.Dinov2Model"):
        raptor.load_model(tmp_path)


def test_a_configuration_that_is_not_json(tmp_path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises((ModelNotFoundError, UnsupportedModelError)):
        raptor.load_model(tmp_path)


@pytest.mark.long
def test_a_torchvision_that_does_not_fit_is_worked_around(tmp_path):
    """A torchvision built for another torch stops transformers itself; with raptor the model loads."""
    family("vit").build().save_pretrained(tmp_path / "model")
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text(
        "raise RuntimeError('operator torchvision::nms does not exist')"
    )
    code = f"import raptor; print(raptor.load_model({str(tmp_path / 'model')!r}).depth)"
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "3", done.stderr

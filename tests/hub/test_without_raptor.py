"""Saved surrogates in a process that has transformers and no raptor: the same states, readout and logits."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as tf
from PIL import Image
from safetensors.torch import load_file

import raptor
from raptor import load_model, rollout
from raptor.core.phases import Phases
from raptor.core.preprocessing import Preprocessing
from raptor.models.pretrained import with_teacher
from raptor.models.remote.files import processor_config
from raptor.models.standalone import standalone
from raptor.models.surrogate import build_surrogate
from raptor.models.teachers.processors import from_processor
from raptor.models.teachers.registry import parts_of
from raptor.models.vit import ViT, ViTConfig
from round_trip import scrambled
from vits import DINO, FAMILIES, SMALL, _scrambled, family, pixels

SCRIPT = Path(__file__).parents[1] / "helpers" / "without_raptor.py"
OWN = ViTConfig(image_size=16, patch_size=4, depth=3, width=16, heads=2, n_register=2, n_classes=5)
RESIZED = Preprocessing(crop=(32, 32), resize=(40, 40), resample=3, source="a test")
CLASSIFIERS = {
    "vit-classifier": lambda: tf.ViTForImageClassification(tf.ViTConfig(**SMALL, num_labels=7)),
    "deit-two-heads": lambda: tf.DeiTForImageClassificationWithTeacher(tf.DeiTConfig(**SMALL, num_labels=7)),
    "dinov2-classifier": lambda: tf.Dinov2ForImageClassification(tf.Dinov2Config(**DINO, num_labels=7)),
    "beit-classifier": lambda: tf.BeitForImageClassification(tf.BeitConfig(**SMALL, num_labels=7)),
    "ijepa-classifier": lambda: tf.IJepaForImageClassification(tf.IJepaConfig(**SMALL, num_labels=7)),
}


def saved(module, folder, kind="teacher", phases=(2, 1), head=None, **block):
    """Save a surrogate with scrambled weights, and beside it what raptor computes with it."""
    teacher = load_model(module, head=head, preprocessing=RESIZED)
    surrogate = scrambled(build_surrogate(teacher, Phases(phases), kind, **block))
    images = pixels(*teacher.image_size)
    surrogate.save_pretrained(folder)
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (50, 61, 3), dtype=np.uint8))
    noise.save(folder / "picture.png")
    with torch.no_grad():
        states = rollout(surrogate, surrogate.embed(images)).states
        wanted = {
            "pixels": images, "states": states, "readout": surrogate.readout(states[:, -1]),
            "logits": None if surrogate.head is None else surrogate.head(states[:, -1]),
            "picture": teacher.preprocessing(noise),
        }  # fmt: skip
    torch.save(wanted, folder / "wanted.pt")
    return folder


def loaded_elsewhere(folders, tmp_path):
    """Load directories in a process that cannot import raptor; return the differences."""
    environment = {**os.environ, "HF_HOME": str(tmp_path / "home"), "PYTHONPATH": ""}
    done = subprocess.run(
        [sys.executable, SCRIPT, *map(str, folders)], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_family_runs_without_raptor(tmp_path):
    torch.manual_seed(0)
    folders = [saved(case.build(), tmp_path / case.name) for case in FAMILIES]
    folders += [saved(_scrambled(build()), tmp_path / name) for name, build in CLASSIFIERS.items()]
    vit = family("vit").build
    folders.append(saved(vit(), tmp_path / "swiglu", "swiglu", layer_scale=0.1, mlp_ratio=8 / 3))
    folders.append(saved(vit(), tmp_path / "gelu", "gelu", depth_scale=False, layer_scale=None))
    folders.append(saved(vit(), tmp_path / "relaxed", relax_rank=2))
    folders.append(saved(vit(), tmp_path / "relaxed-swiglu", "swiglu", phases=(1, 2), relax_rank=3))
    folders.append(saved(vit(), tmp_path / "untied", untied=True))
    folders.append(saved(family("dinov2").build(), tmp_path / "linear", head=torch.nn.Linear(64, 5)))
    found = loaded_elsewhere(folders, tmp_path)
    assert set(found) == {folder.name for folder in folders}
    assert {"logits", "states"} <= set(found["linear"])
    assert all("logits" in found[name] for name in CLASSIFIERS)
    assert max(value for differences in found.values() for value in differences.values()) <= 1e-6


def test_another_weight_is_seen(tmp_path):
    """The comparison can fail."""
    folder = saved(family("vit").build(), tmp_path / "vit")
    wanted = torch.load(folder / "wanted.pt", weights_only=True)
    wanted["states"][:, -1] += 1e-3
    torch.save(wanted, folder / "wanted.pt")
    assert loaded_elsewhere([folder], tmp_path)["vit"]["states"] > 9e-4


@pytest.mark.parametrize("own", [True, False])
def test_only_raptor_loads_other_surrogates_and_saving_says_so(own, tmp_path, caplog):
    if own:
        surrogate = build_surrogate(load_model(ViT(OWN)), Phases((2, 1)))
    else:
        timm = pytest.importorskip("timm")
        model = timm.create_model("vit_tiny_patch16_224", img_size=32, num_classes=3)
        surrogate = build_surrogate(load_model(model), Phases((6, 6)))
    with caplog.at_level(logging.WARNING, "raptor"):
        standalone(surrogate, "teacher").save_pretrained(tmp_path)
    assert not (tmp_path / "modeling_raptor.py").exists()
    assert "auto_map" not in json.loads((tmp_path / "config.json").read_text())
    assert load_model(tmp_path).depth == surrogate.depth
    assert [("a timm model" in text, "raptor is installed" in text) for text in caplog.messages] == (
        [] if own else [(True, True)]
    )


def test_auto_model_needs_no_remote_code_where_raptor_is(tmp_path):
    folder = saved(family("dinov2").build(), tmp_path / "model")
    raptor.register_auto_classes()
    raptor.register_auto_classes()  # it may be called again
    (folder / "modeling_raptor.py").write_text("raise RuntimeError('code of a repository was run')")
    for model in (tf.AutoModel.from_pretrained(folder), load_model(folder).module):
        assert isinstance(model, raptor.RaptorModel)


def test_loading_any_model_of_transformers_registers_surrogates(tmp_path):
    """In a process of its own, where transformers is imported by the first model that is loaded."""
    folder = saved(family("vit").build(), tmp_path / "model")
    family("vit").build().save_pretrained(tmp_path / "vit")
    script = (
        "import sys, raptor; raptor.load_model(sys.argv[1]); from transformers import AutoModel; "
        "print(type(AutoModel.from_pretrained(sys.argv[2])).__module__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "vit", folder], capture_output=True, text=True, input=""
    )
    assert done.stdout.strip() == "raptor.models.pretrained", done.stderr


class OwnViT(torch.nn.Module):
    """A model of a user's own."""

    def __init__(self):
        super().__init__()
        self.vit = ViT(OWN)


def test_saving_a_surrogate_of_users_own_code_says_that_raptor_is_needed(tmp_path, caplog):
    raptor.register_adapter(OwnViT, lambda model, size: replace(parts_of(model.vit, size), head=None))
    surrogate = build_surrogate(load_model(OwnViT(), preprocessing=Preprocessing((16, 16), None)), Phases((2, 1)))
    with caplog.at_level(logging.WARNING, "raptor"):
        standalone(surrogate, "teacher").save_pretrained(tmp_path)
    assert not (tmp_path / "modeling_raptor.py").exists()
    assert [("a model of your own code" in text, "pip install raptor-vit" in text) for text in caplog.messages] == [
        (True, True)
    ]


def test_what_was_loaded_and_saved_again_is_complete(tmp_path):
    """As a model of transformers, and as a surrogate with its teacher; with the options of its blocks."""
    vit = family("vit").build()
    folder = saved(vit, tmp_path / "model", "swiglu", layer_scale=0.1)
    model = raptor.RaptorModel.from_pretrained(folder)
    model.save_pretrained(tmp_path / "again")
    with_teacher(model, load_model(vit, preprocessing=RESIZED)).save_pretrained(tmp_path / "third")
    for name in ("again", "third"):
        assert {path.name for path in (tmp_path / name).iterdir()} == {
            "config.json", "model.safetensors", "modeling_raptor.py", "preprocessor_config.json"
        }  # fmt: skip
        for one, other in zip(load_file(tmp_path / name / "model.safetensors").items(),
                              load_file(folder / "model.safetensors").items(), strict=True):  # fmt: skip
            assert one[0] == other[0]
            assert torch.equal(one[1], other[1])
    first, third = (raptor.RaptorConfig.from_pretrained(tmp_path / name) for name in ("model", "third"))
    assert (third.kind, third.block, third.provenance) == (first.kind, first.block, first.provenance)


@pytest.mark.parametrize(
    "used",
    [
        RESIZED,
        Preprocessing(crop=(32, 32), resize=None),
        Preprocessing(crop=(24, 32), resize=(24, 32), fit="squash", resample=2, mean=(0.5,) * 3, scale=1.0),
    ],
)
def test_the_image_processor_is_read_back_as_the_same_preprocessing(used):
    again = from_processor(processor_config(used), None)
    assert (again.crop, again.resize, again.fit, again.resample, again.mean, again.std, again.scale) == (
        used.crop, used.resize, used.fit if used.resize else again.fit, used.resample, used.mean, used.std, used.scale,
    )  # fmt: skip


def test_preprocessing_without_an_image_processor_has_none():
    assert processor_config(Preprocessing(crop=(24, 32), resize=(30, 40))) is None
    assert processor_config(Preprocessing(rounding="nearest")) is None

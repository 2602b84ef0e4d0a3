"""Configurations of models from anybody: no code, no files of elsewhere, no sizes that memory cannot hold."""

from __future__ import annotations

import json
import os
import shutil

import pytest
import safetensors.torch

from hostile import check_refused, checkpoint, surrogate, vit  # noqa: F401

DEEP = ("[" * 100_000, '{"a":' * 100_000)


def changed(source, target, **changes):
    """Copy a model with other values in its configuration; `a__b` is b within a."""
    folder = shutil.copytree(source, target)
    found = json.loads((folder / "config.json").read_text())
    for name, value in changes.items():
        *above, last = name.split("__")
        inner = found
        for key in above:
            inner = inner[key]
        inner[last] = value
    (folder / "config.json").write_text(json.dumps(found))
    return folder


OURS = [
    {"patch_size": 0}, {"patch_size": 10**9}, {"depth": "abc"}, {"depth": 0}, {"depth": -1}, {"depth": 10**9},
    {"depth": 1000}, {"width": 10**12}, {"width": 99_996}, {"width": [1]}, {"width": 6}, {"heads": 0}, {"heads": 3},
    {"n_classes": -1}, {"n_classes": 10**12}, {"n_register": -1}, {"n_register": None}, {"image_size": 10**9},
    {"image_size": 17}, {"drop_path": "x"}, {"drop_path": 2}, {"mlp_ratio": -3}, {"mlp_ratio": 1e300},
    {"layer_scale": "x"}, {"preprocessing": []}, {"preprocessing": "x"}, {"preprocessing": None},
    {"preprocessing__crop": "ab"}, {"preprocessing__crop": [-1, -1]}, {"preprocessing__crop": [16]},
    {"preprocessing__crop": [16.5, 16]}, {"preprocessing__crop": [10**9] * 2}, {"preprocessing__resize": [10**9] * 2},
    {"preprocessing__resize": 0}, {"preprocessing__resample": 77}, {"preprocessing__resample": None},
    {"preprocessing__mean": [1]}, {"preprocessing__mean": ["a", "b", "c"]}, {"preprocessing__std": [1, 2, 1e999]},
    {"preprocessing__fit": 5}, {"preprocessing__rounding": "up"}, {"preprocessing__scale": "x"},
    {"preprocessing__other": 1},
]  # fmt: skip


@pytest.mark.parametrize("changes", OURS, ids=str)
def test_our_own(call, vit, tmp_path, changes):  # noqa: F811
    check_refused(call("inspect", changed(vit, tmp_path / "model", **changes), "--data", "scenes", "--images", 2))


SURROGATES = [
    {"provenance": {}}, {"provenance": []}, {"provenance": "x"}, {"provenance": {"teacher": 5}},
    {"provenance": {"teacher": {"name": "../../../etc/passwd"}}}, {"provenance": {"teacher": {"name": 5}}},
    {"provenance__teacher__sha256": "0"}, {"phases": 5}, {"phases": "9999-" * 2000 + "1"}, {"phases": "1-1-1-1"},
    {"kind": []}, {"block": [1]}, {"block": {"relax_rank": 10**9}}, {"block": {"mlp_ratio": 1e12}},
    {"block": {"evil": 1}}, {"teacher": []}, {"teacher": "x"}, {"teacher__image_size": 5},
    {"teacher__image_size": [10**9] * 2}, {"teacher__library": "os"},
    {"teacher__linear": [10**9, 10**9, True]}, {"teacher__linear": "x"}, {"teacher__config__depth": 10**9},
    {"teacher__config__patch_size": 0}, {"teacher__config__evil": 1}, {"preprocessing": {"crop": 5}},
    {"teacher": {"library": "transformers", "class": "os", "config": {}, "image_size": [16, 16], "linear": None}},
    {"teacher": {"library": "transformers", "class": "ViTModel", "config": {"num_hidden_layers": 10**9},
                 "image_size": [16, 16], "linear": None}},
    {"teacher": {"library": "transformers", "class": "ViTModel", "config": {"attn_implementation": "evil/kernel"},
                 "image_size": [16, 16], "linear": None}},
    {"teacher": {"library": "timm", "name": "hf-hub:a/b", "options": {}, "image_size": [16, 16], "linear": None}},
    {"dtype": "evil"}, {"transformers_weights": "../../x.safetensors"}, {"model_type": 5},
]  # fmt: skip


@pytest.mark.parametrize("changes", SURROGATES, ids=lambda changes: str(changes)[:60])
def test_surrogates(call, surrogate, tmp_path, changes):  # noqa: F811
    folder = changed(surrogate, tmp_path / "model", **changes)
    check_refused(call("fidelity", folder, "--data", "scenes", "--images", 4, "--json"))
    check_refused(call("inspect", f"stitch:{folder}@1", "--json"))


OTHERS = [
    ({"num_hidden_layers": 10**9}, "num_hidden_layers = 1000000000"),
    ({"hidden_size": 2**40}, "more than the limit"),
    ({"image_size": 2**40}, "more than the limit"),
    ({"image_size": [32, 10**9]}, "more than the limit"),
    ({"num_labels": 10**12}, "more than the limit"),
    ({"attn_implementation": "evil/kernel"}, "may download and run code"),
    ({"attn_implementation": "kernels-community/flash-attn"}, "may download and run code"),
    ({"attn_implementation": {"": "evil/kernel"}}, "may download and run code"),
    ({"_attn_implementation": "evil/kernel"}, "may download and run code"),
    ({"experts_implementation": "evil/kernel"}, "may download and run code"),
    ({"vision_config": {"attn_implementation": "evil/kernel"}}, "may download and run code"),
    ({"transformers_weights": "../../../x.safetensors"}, "inside the model directory"),
    ({"transformers_weights": "/etc/passwd"}, "cannot be built"),
    ({"quantization_config": 5}, ""),
    ({"model_type": "../vit"}, "supported are"),
    ({"model_type": "\x1b[31mred\n"}, "supported are"),
    ({"per_layer_config": {"a": 1}}, ""),
]


@pytest.mark.parametrize(("changes", "said"), OTHERS, ids=str)
def test_those_of_transformers(call, checkpoint, tmp_path, changes, said):  # noqa: F811
    answer = call("inspect", changed(checkpoint, tmp_path / "model", **changes))
    check_refused(answer, said)


PASSED_OVER = [
    {"architectures": 5}, {"architectures": {"a": 1}}, {"architectures": []},
    {"auto_map": {"AutoModel": "../evil.Evil"}}, {"_name_or_path": "/etc/passwd"}, {"id2label": {"0": "<script>"}},
    {"quantization_config": {"quant_method": "evil"}},
]  # fmt: skip


@pytest.mark.parametrize("changes", PASSED_OVER, ids=str)
def test_what_nothing_is_made_of_is_passed_over(call, checkpoint, tmp_path, changes):  # noqa: F811
    (tmp_path / "evil.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'executed')!r})\n")
    code, _, err = call("inspect", changed(checkpoint, tmp_path / "model", **changes))
    assert (code, err) == (0, "")
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("file", ["config.json", "preprocessor_config.json", "model.safetensors.index.json"])
@pytest.mark.parametrize("content", [*DEEP, "", "[]", "5", "\ufeff", '{"size": {"height": 8000000, "width": 8000000}}'],
                         ids=lambda content: ascii(content)[:20])  # fmt: skip
def test_json_of_a_model(call, checkpoint, tmp_path, file, content):  # noqa: F811
    folder = shutil.copytree(checkpoint, tmp_path / "model")
    (folder / file).write_text(content)
    check_refused(call("inspect", folder))


SHARDS = ["../outside.safetensors", "{root}/outside.safetensors", "a/../../outside.safetensors", "../../etc/passwd",
          "a\0b", 5, None, ["a"], "x" * 5000, "missing.safetensors"]  # fmt: skip


@pytest.mark.parametrize("name", SHARDS, ids=lambda name: ascii(name)[:30])
@pytest.mark.parametrize("which", ["checkpoint", "surrogate"])
def test_lists_of_weights_name_no_files_of_elsewhere(call, tmp_path, request, which, name):
    folder = shutil.copytree(request.getfixturevalue(which), tmp_path / "model")
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    os.rename(folder / "model.safetensors", tmp_path / "outside.safetensors")
    (folder / "a").mkdir()
    named = name.format(root=tmp_path) if isinstance(name, str) else name
    listed = {"metadata": {}, "weight_map": dict.fromkeys(weights, named)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(listed))
    check_refused(call("inspect", folder))


@pytest.mark.parametrize("which", ["checkpoint", "surrogate"])
def test_lists_of_weights_beside_them_are_taken(call, tmp_path, request, which):
    folder = shutil.copytree(request.getfixturevalue(which), tmp_path / "model")
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    os.rename(folder / "model.safetensors", folder / "part.safetensors")
    listed = {"metadata": {}, "weight_map": dict.fromkeys(weights, "part.safetensors")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(listed))
    code, _, err = call("inspect", folder)
    assert (code, err) == (0, "")

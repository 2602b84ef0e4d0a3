"""The command line as a person and a script meet it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest
import torch
from PIL import Image

from raptor.__main__ import main
from raptor.runtime.rundir import Run
from vits import family

ENVELOPE = {"schema", "verb", "version", "seed", "images", "layers", "seconds"}
PROMISED = {
    "family", "layers", "width", "heads", "tokens", "grid", "parameters", "flops", "image_size", "mean", "std"
}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    family("dinov2-registers").build().save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    path = tmp_path_factory.mktemp("photos")
    for name in ("ant", "bee"):
        (path / name).mkdir()
        for index in range(60):
            colour = tuple(int(c) for c in torch.randint(256, (3,), generator=torch.Generator().manual_seed(index)))
            Image.new("RGB", (40, 50), colour).save(path / name / f"{index}.png")
    return path


def test_inspect_prints_one_json_object_with_the_promised_keys(call, model):
    code, out, _ = call("inspect", model, "--json")
    result = json.loads(out)
    assert code == 0
    assert set(result) >= ENVELOPE | PROMISED
    assert (result["verb"], result["images"], result["layers"], result["seed"]) == ("inspect", 0, 3, 0)
    assert result["tokens"] == {"cls": 1, "register": 4, "patch": 16}


@pytest.mark.pictures
def test_inspect_with_data_measures_norms_and_writes_a_run(call, model, photos, tmp_path):
    code, out, _ = call("inspect", model, "--data", photos, "--json", "--out", tmp_path / "run", "--seed", "3")
    result = json.loads(out)
    assert code == 0
    assert (result["images"], result["classes"], result["damaged"], result["seed"]) == (120, 2, [], 3)
    assert {group: len(values) for group, values in result["norm"].items()} == {"cls": 4, "register": 4, "patch": 4}
    assert [len(ends) for ends in result["norm_ci"]["patch"]] == [4, 4]
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == result
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["data"] == str(photos)
    assert config["versions"]["torch"] == torch.__version__
    for ending in ("png", "svg", "pdf"):
        assert (tmp_path / "run" / "figures" / f"norms.{ending}").stat().st_size > 1000


def test_results_repeat(call, model, photos):
    first, second = (json.loads(call("inspect", model, "--data", photos, "--images", 20, "--json")[1]) for _ in "ab")
    assert first["images"] == 20
    assert (first["norm"], first["norm_ci"]) == (second["norm"], second["norm_ci"])


def test_a_person_gets_text_and_quiet_gets_none(call, model, photos):
    code, out, err = call("inspect", model, "--data", photos)
    guessed, started = err.splitlines()
    assert (code, started) == (0, "norms: 0/120 images")
    assert guessed.startswith(f"note: {model} declares no preprocessing, so images are resized to 37x37")
    assert "1 cls, 4 register, 16 patch" in out
    assert "n = 120 images" in out
    assert call("inspect", model, "--quiet") == (0, "", "")


def test_another_image_size(call, model):
    assert json.loads(call("inspect", model, "--json", "--image-size", "48x64")[1])["grid"] == [6, 8]


def test_one_damaged_image_is_skipped_and_listed(call, model, photos, tmp_path):
    many = tmp_path / "many"
    many.mkdir()
    for index in range(110):
        (many / f"{index:03}.png").symlink_to(photos / "ant" / f"{index % 60}.png")
    (many / "bad.jpg").write_text("this is text")
    result = json.loads(call("inspect", model, "--data", many, "--json", "--out", tmp_path / "run")[1])
    assert result["images"] == 110
    assert result["damaged"] == [{"path": "bad.jpg", "reason": "not an image"}]
    assert json.loads((tmp_path / "run" / "result.json").read_text())["damaged"] == result["damaged"]


def another_width(tmp_path, model):
    """A model whose configuration wants another width than its weights have: transformers reports it at length."""
    folder = shutil.copytree(model, tmp_path / "another")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "hidden_size": 64}))
    return folder


def mistakes(tmp_path, model, photos):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.jpg").write_text("this is text")
    (tmp_path / "weights.pth").write_bytes(b"")
    torch.save({"other": torch.zeros(2)}, tmp_path / "other.pth")
    (tmp_path / "file").write_text("x")
    return {
        "no such path": (["inspect", tmp_path / "nowhere"], "nowhere"),
        "no model there": (["inspect", tmp_path / "empty"], "config.json"),
        "no network": (["inspect", "some/model"], "hf download some/model"),
        "text named .jpg": (["inspect", model, "--data", tmp_path / "text"], "a.jpg (not an image)"),
        "only text, allowed": (["inspect", model, "--data", tmp_path / "text", "--allow-damaged"], "none of the 1"),
        "empty folder": (["inspect", model, "--data", tmp_path / "empty"], "has no images"),
        "impossible size": (["inspect", model, "--image-size", "33"], "32x32"),
        "size that is none": (["inspect", model, "--image-size", "big"], "480x640"),
        "damaged weights": (["inspect", model, "--weights", tmp_path / "weights.pth"], "weights.pth"),
        "foreign weights": (["inspect", model, "--weights", tmp_path / "other.pth"], "embeddings.cls_token"),
        "no such device": (["inspect", model, "--device", "tpu"], "auto, cpu, cuda or mps"),
        "no such option": (["inspect", model, "--nothing"], "there is no option --nothing"),
        "misspelt option": (["inspect", model, "--jsn"], "did you mean --json?"),
        "no such verb": (["nothing"], "nothing"),
        "no argument": (["inspect"], "MODEL"),
        "images below one": (["inspect", model, "--data", photos, "--images", "0"], "images"),
        "out is a file": (["inspect", model, "--out", tmp_path / "file"], "cannot write"),
        "seed too large": (["inspect", model, "--seed", "99999999999999999999"], "seed"),
        "model with a long name": (["inspect", "x" * 300], "neither a directory"),
        "out is the model": (["inspect", model, "--out", model], "the run of another command"),
        "out is the data": (["inspect", model, "--data", photos, "--out", photos / "run"], "is inside the data"),
        "out is a split of the data": (
            ["inspect", model, "--data", f"{photos}:train", "--out", photos / "run"],
            "is inside the data",
        ),
        "size of a verb without": (["doctor", "--image-size", "big"], "480x640"),
        "another width": (["inspect", another_width(tmp_path, model)], "'embeddings.cls_token' has shape"),
        "out below a file": (["inspect", model, "--out", tmp_path / "file" / "x"], "cannot write"),
    }


def test_mistakes_are_one_line_and_exit_2(call, model, photos, tmp_path):
    unnamed = {}
    for name, (arguments, hint) in mistakes(tmp_path, model, photos).items():
        code, out, err = call(*arguments, *([] if name in ("no such verb",) else ["--json", "--quiet"]))
        assert (code, out) == (2, ""), name
        assert err.startswith("error: "), name
        assert err.count("\n") == 1, f"{name}: {err}"
        if hint not in err:
            unnamed[name] = err
    assert not unnamed, "".join(f"{name}: {err}" for name, err in unnamed.items())


def test_parquet_without_an_image_column(call, model, tmp_path, capfd):
    import datasets

    datasets.Dataset.from_dict({"text": ["a"]}).to_parquet(tmp_path / "no.parquet")
    capfd.readouterr()
    code, out, err = call("inspect", model, "--data", tmp_path / "no.parquet", "--json")
    assert (code, out) == (2, "")
    assert re.fullmatch(r"error: .*its columns are text.*\n", err)


def test_debug_shows_the_traceback(monkeypatch, tmp_path):
    from raptor.errors import ModelNotFoundError

    monkeypatch.setattr(sys, "argv", ["raptor", "inspect", str(tmp_path), "--debug"])
    with pytest.raises(ModelNotFoundError):
        main()


def test_a_directory_is_held_by_one_run_at_a_time(call, model, tmp_path):
    with Run("other", {}, tmp_path, seed=0):
        code, _, err = call("inspect", model, "--out", tmp_path)
    assert code == 2
    assert "another run is writing" in err
    assert call("inspect", model, "--out", tmp_path, "--quiet")[0] == 0


def test_a_failed_run_leaves_no_half_written_result(tmp_path):
    def fail(run):
        with run.file("array.bin") as file:
            file.write(b"half")
            raise ZeroDivisionError

    with Run("test", {}, tmp_path, 0) as run, pytest.raises(ZeroDivisionError):
        fail(run)
    assert {path.name for path in tmp_path.iterdir()} <= {".lock", "config.json"}


def test_a_failed_run_leaves_the_result_of_the_last_alone(call, model, tmp_path):
    assert call("inspect", model, "--out", tmp_path / "run", "--quiet")[0] == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    assert call("inspect", tmp_path / "nowhere", "--out", tmp_path / "run")[0] == 2
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_weights_that_are_not_numbers_are_reported_as_such(call, photos, tmp_path):
    broken = family("vit").build()
    with torch.no_grad():
        broken.layers[1].mlp.fc1.weight.fill_(float("nan"))
    broken.save_pretrained(tmp_path / "broken")
    arguments = ["inspect", tmp_path / "broken", "--data", photos, "--images", 8, "--out", tmp_path / "run"]
    code, out, _ = call(*arguments)
    assert code == 0
    assert "nan [nan, nan]" in out
    assert json.loads((tmp_path / "run" / "result.json").read_text())["norm"]["patch"][2:] == [None, None]


@dataclass(frozen=True)
class Numbers:
    """A result."""

    a: float
    b: list[float]


def test_numbers_that_are_not_are_null(tmp_path):
    with Run("test", {}, tmp_path, 0) as run:
        record = run.record(Numbers(float("nan"), [1.0, float("inf")]), images=1, layers=2)
    result = json.loads(record.to_json())
    assert (result["a"], result["b"]) == (None, [1.0, None])
    assert json.loads((tmp_path / "result.json").read_text()) == result


def test_doctor(call):
    code, out, _ = call("doctor", "--json", "--device", "cpu")
    result = json.loads(out)
    assert code == 0
    assert set(result) >= ENVELOPE
    assert (result["ok"], result["max_difference"], result["device"]) == (True, 0.0, "cpu")
    assert result["bf16_speed"] > 0
    assert "agrees with the CPU" in call("doctor")[1]


@pytest.mark.parametrize(("speed", "said"), [(4.0, True), (0.3, False)])
def test_doctor_says_where_bf16_pays(call, monkeypatch, speed, said):
    monkeypatch.setattr("raptor.cli.doctor._bf16_speed", lambda device: speed)
    _, out, _ = call("doctor")
    assert f"{speed} times" in out
    assert ("--precision bf16 is faster" in out) == said


def test_version_and_help_need_no_torch():
    code = (
        "import sys; sys.argv = ['raptor']\n"
        "from raptor.__main__ import main\n"
        "try: main()\n"
        "except SystemExit as stop: print(stop.code, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("0 False")
    assert "inspect" in done.stdout


def test_help_lists_every_verb_by_section_with_its_whole_summary(call):
    from raptor.runtime.verbs import VERBS

    _, out, _ = call("--help")
    assert re.findall(r"^(\S.*):$", out, re.MULTILINE)[1:] == [
        "Get started", "Look at a model", "Build a surrogate", "Measure", "Whole pipeline and report",
        "Studies and benchmarks",
    ]  # fmt: skip
    text = " ".join(out.split())
    for name, verb in VERBS.items():
        summary = " ".join(verb.function.__doc__.split("\n\n")[0].split())
        assert f"{name} {summary}" in text
    assert "..." not in text.replace("[ARGS]...", "")


def test_usage_shows_arguments_in_capitals(call):
    assert call("inspect", "--help")[1].startswith("Usage: raptor inspect [OPTIONS] MODEL\n")
    assert call("phases", "--help")[1].startswith("Usage: raptor phases [OPTIONS] [MODEL]...\n")
    assert call("report", "--help")[1].startswith("Usage: raptor report [OPTIONS] RUN...\n")


@pytest.mark.parametrize("after", [0.2, pytest.param(1.5, marks=pytest.mark.long)])
def test_interrupting_gives_130_and_no_traceback(after, model):
    child = subprocess.Popen(
        [sys.executable, "-m", "raptor", "inspect", model, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    time.sleep(after)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    # Before our first line and after our last the interpreter answers by itself.
    assert child.returncode in (130, 0, -signal.SIGINT)
    if child.returncode == 130:
        assert err == b""


@pytest.mark.long
def test_the_installed_command_runs(model):
    command = os.path.join(os.path.dirname(sys.executable), "raptor")
    done = subprocess.run([command, "inspect", model, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["family"] == "dinov2_with_registers"

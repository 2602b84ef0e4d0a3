"""What older code wrote is still read: run directories, checkpoints, surrogates and caches."""

from __future__ import annotations

import pickletools
import shutil
import zipfile
from pathlib import Path

import pytest

from cases import ARTEFACTS, of_artefacts
from commands import call
from comparer import differences, prose_differences, read_prose, read_values, report
from extraction import of_folder
from make_artefacts import CACHED, DISTILL, PROBE, TRAIN

CHECKPOINTS = sorted(path.relative_to(ARTEFACTS).as_posix() for path in ARTEFACTS.rglob("checkpoint.pt"))


@pytest.fixture
def old(tmp_path):
    """Return a copy of the artefacts."""
    return Path(shutil.copytree(ARTEFACTS, tmp_path / "old"))


def run(root, *arguments):
    """Run a command that must succeed; return what it printed."""
    code, out, err = call(root, *arguments)
    assert code == 0, err
    return out


def check(frozen, fresh, name):
    """Fail where values differ; what older code did not measure may be added."""
    changed = [line for line in differences(frozen, fresh) if ": added (" not in line]
    assert not changed, report(name, changed)


def result_of(folder):
    """Return the comparable values of a result."""
    return of_folder(folder, skip=("figures", "model", "stage1", "stage2")).values["result.json"]


def weights_of(folder):
    """Return digests of a model's weights by their present names: scaled linear maps were wrapped once."""
    stored = of_folder(folder / "model").values["model.safetensors"]
    return {name.replace(".linear.", "."): one for name, one in stored.items() if not name.endswith(".scale")}


def written(folder):
    """Return when each file of a cache was written."""
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir() if path.name != ".lock"}


@pytest.mark.parametrize(("name", "command"), [("train", TRAIN), ("distill", DISTILL)])
def test_a_training_that_was_stopped_goes_on_to_the_same_numbers(old, name, command):
    half = old / f"{name}-half"
    before = {path: path.read_text().splitlines() for path in half.rglob("metrics.jsonl")}
    run(old, *command, "--out", half.name, "--resume")
    check(result_of(old / name), result_of(half), f"result of {half.name}")
    check(weights_of(old / name), weights_of(half), f"weights of {half.name}")
    # It has gone on: lines of the log that were there are there still.
    for path, lines in before.items():
        assert path.read_text().splitlines()[: len(lines)] == lines
    for path in before:
        fresh, frozen = (of_folder(folder).values["metrics.jsonl"] for folder in (path.parent, _whole(old, name, path)))
        check(frozen, fresh, f"log of {half.name}")


def _whole(old, name, path):
    """Return the directory of the whole training that belongs to a log of the stopped one."""
    return old / name / path.parent.relative_to(old / f"{name}-half")


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_checkpoint_names_no_class_of_ours(name):
    """Modules may move: nothing in a checkpoint says where they were."""
    with zipfile.ZipFile(ARTEFACTS / name) as archive:
        (pickled,) = (entry for entry in archive.namelist() if entry.endswith("data.pkl"))
        named = [argument for code, argument, _ in pickletools.genops(archive.read(pickled)) if code.name == "GLOBAL"]
    assert named
    assert {text.partition(" ")[0].partition(".")[0] for text in named} <= {"torch", "collections"}


def test_models_are_loaded_and_a_page_is_made(old):
    found = of_artefacts(old)
    check(read_values("artefacts"), found.values, "models and page")
    told = list(prose_differences(read_prose("artefacts"), found.texts))
    assert not told, report("prose of a page of old runs", told)


@pytest.mark.parametrize(("run_name", "cache", "command"), [
    ("distill-cached", "states", CACHED), ("probe", "features", PROBE),
])  # fmt: skip
def test_a_cache_is_read_and_not_written_again(old, run_name, cache, command):
    before = written(old / cache)
    run(old, *command, "--out", "again")
    assert written(old / cache) == before
    check(result_of(old / run_name), result_of(old / "again"), f"result with the cache {cache}")


def test_a_surrogate_is_measured_against_its_teacher(old):
    run(old, "fidelity", "distill", "--data", "scenes", "--images", 8, "--device", "cpu", "--out", "fidelity")
    frozen, fresh = result_of(old / "distill")["fidelity"], result_of(old / "fidelity")
    check({key: frozen[key] for key in ("r2", "cosine", "epsilon")}, {k: fresh[k] for k in ("r2", "cosine", "epsilon")},
          "fidelity of an old surrogate")  # fmt: skip

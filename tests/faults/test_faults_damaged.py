"""Files of a run that were cut short by somebody else: named, never taken for whole, never silently begun anew."""

from __future__ import annotations

import json
import shutil

import pytest

import small_commands
from intact import files, outcome
from warm import run


def lengths(size):
    """Nothing, less than a header, half, and all but the last byte."""
    return 0, 1, 100, size // 2, size - 1


def cut(path, length):
    """Cut a file short; return what was in it."""
    whole = path.read_bytes()
    path.write_bytes(whole[:length])
    return whole


def refused(arguments, out, file):
    """Check that a command names the file and what to do, and that it left everything as it was."""

    def now():
        return {path: path.stat().st_mtime_ns for path in files(out)}

    before = now()
    code, said = run(*arguments, "--out", out)
    assert code == 2, said
    assert said.startswith("error: ")
    assert said.count("\n") == 1, said
    assert str(file) in said
    assert "remove it" in said
    if arguments[0] == "study":  # its own result is of its jobs, and is gathered anew
        before = {path: time for path, time in before.items() if path.parent.name != "partitions"}
    assert before.items() <= now().items()


def test_a_checkpoint_that_was_cut_is_named_and_without_it_training_begins_anew(trained, tmp_path):
    out = shutil.copytree(trained, tmp_path / "out")
    checkpoint, arguments = out / "checkpoint.pt", (*small_commands.TRAIN, "--resume")
    size = checkpoint.stat().st_size
    for length in lengths(size):
        whole = cut(checkpoint, length)
        refused(arguments, out, checkpoint)
        checkpoint.write_bytes(whole)
    cut(checkpoint, size // 2)
    checkpoint.unlink()
    assert run(*arguments, "--out", out) == (0, "")
    assert outcome(out) == outcome(trained)


@pytest.mark.long
@pytest.mark.parametrize("stage", ["stage1", "stage2"])
def test_so_is_that_of_either_stage_of_a_distillation(trained, tmp_path, stage):
    out, arguments = tmp_path / "out", (*small_commands.distill(trained), "--resume")
    assert run(*arguments, "--out", out) == (0, "")
    expected, checkpoint = outcome(out), out / stage / "checkpoint.pt"
    for length in lengths(checkpoint.stat().st_size):
        whole = cut(checkpoint, length)
        refused(arguments, out, checkpoint)
        checkpoint.write_bytes(whole)
    cut(checkpoint, 100)
    checkpoint.unlink()
    assert run(*arguments, "--out", out) == (0, "")
    assert outcome(out) == expected


@pytest.mark.long
def test_files_of_a_study_that_were_cut_are_named_and_made_again(tmp_path):
    out, arguments = tmp_path / "out", (*small_commands.STUDY, "--resume")
    assert run(*arguments, "--out", out) == (0, "")
    expected = outcome(out)
    student = next((out / "students").glob("*.json"))
    cut(student, 10)
    asked = [path for path in (out / "partitions").glob("*.json") if path.name not in ("config.json", "result.json")]
    for path in asked:
        path.unlink()  # only then is a student looked for
    refused(arguments, out, student)
    student.unlink()
    checkpoint, job = out / "teachers" / "standard-s0" / "checkpoint.pt", out / "teachers" / "standard-s0.json"
    for length in (job.stat().st_size // 2, 100, 0):
        cut(job, length)
        refused(arguments, out, job)
    job.unlink()
    cut(checkpoint, 1000)
    refused(arguments, out, checkpoint)
    checkpoint.unlink()
    assert run(*arguments, "--out", out) == (0, "")
    assert outcome(out) == expected


@pytest.mark.long
def test_a_result_that_was_cut_has_its_stage_done_again(trained, tmp_path):
    out, arguments = tmp_path / "out", small_commands.pipeline(trained)
    assert run(*arguments, "--out", out, smallest=True) == (0, "")
    expected = outcome(out)
    cut(out / "phases" / "result.json", 200)
    code, said = run(*arguments, "--out", out, smallest=True)
    assert (code, said) == (0, "")
    assert outcome(out) == expected
    done = {stage["stage"]: stage["skipped"] for stage in json.loads((out / "result.json").read_text())["stages"]}
    # With it all that reads it: another result could have other phases.
    again = {"phases", "distill", "fidelity-1", "probe-2", "dynamics", "intervene", "film"}
    assert {name for name, skipped in done.items() if not skipped} == again
    checkpoint = out / "distill" / "stage2" / "checkpoint.pt"
    (out / "distill" / "result.json").unlink()
    cut(checkpoint, 1000)
    code, said = run(*arguments, "--out", out, smallest=True)
    assert code == 2
    assert said.count("\n") == 1
    assert str(checkpoint) in said
    shutil.rmtree(out / "distill")
    assert run(*arguments, "--out", out, smallest=True) == (0, "")
    assert outcome(out) == expected

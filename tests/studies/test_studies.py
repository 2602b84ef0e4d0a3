"""Every study in its smallest size, through the real code."""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
import time

import pytest

import raptor
from raptor.core.deserialize import from_plain
from raptor.core.serialize import to_plain
from raptor.render.tables import print_parts
from raptor.runtime.options import screen
from raptor.runtime.rundir import Record
from raptor.studies.cost import jobs_of
from raptor.studies.options import ALL, STUDY_NAMES, STUDY_ORDER
from raptor.studies.registry import Claim, load_studies
from raptor.studies.size import SIZES
from raptor.studies.study import StudyResult, StudySize
from raptor.studies.text import show_study
from study_results import setting

STUDIES = load_studies()


SMOKE = ("--size", "smoke", "--device", "cpu")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("studies")


@pytest.fixture(scope="module")
def everything(root):
    """Run all studies in one directory; return their claims."""
    used = raptor.RunOptions(device="cpu", quiet=True)
    return raptor.study("all", raptor.StudyOptions(size="smoke"), out=root, run_options=used)


def test_all_studies_share_their_jobs(call, everything, root):
    result = everything
    assert isinstance(result, raptor.AllStudies)
    assert [one.study for one in result.studies] == list(STUDY_ORDER)
    assert sorted(STUDY_ORDER) == sorted(STUDY_NAMES)
    assert result.failed == []
    names = {job.name for job in jobs_of(ALL, setting())}
    assert result.finished == len(names)
    code, out, err = call("study", "all", *SMOKE, "--out", root, "--resume")
    assert code == 0, err
    assert all(one.claim.text.split()[0] in out for one in result.studies)
    assert f"{len(names)} jobs took" in out
    kept = [json.loads(file.read_text()) for file in (root / "students").glob("*.json")]
    assert len({json.dumps(one["about"], sort_keys=True) for one in kept}) == len(kept)
    students = sum(job.cost is not None and job.cost.student_images > 0 for job in jobs_of(ALL, setting()))
    assert len(kept) < students  # some are asked for by several studies
    default = json.loads((root / "ablation" / "10-s0.json").read_text())
    shared = json.loads((root / "conditions" / "student-standard-s0.json").read_text())
    assert default["result"] == shared["result"]
    joined, tuned = (json.loads((root / "ablation" / f"{row}-s0.json").read_text()) for row in ("04", "05"))
    assert joined["result"]["r2"] == tuned["result"]["r2"]


@pytest.mark.parametrize("name", STUDY_NAMES)
def test_smoke(call, everything, root, name):
    """Each study of the directory has its result, its figure, and a claim that follows from an interval."""
    result = json.loads((root / name / "result.json").read_text())
    assert result["verb"] == "study"
    assert all(job["failed"] is None for job in result["jobs"])
    assert result["summary"]
    effect = set() if name == "gallery" else {"effect", "ci", "smallest_effect"}
    assert set(result["claim"]) == {"text", "held", "evidence"} | effect
    assert (root / name / "figures" / f"{name}.svg").exists()
    assert not (root / name / "states").exists()
    # Rows have the study's type, and are written as they were read.
    rows = type(STUDIES[name]).__orig_bases__[0].__args__[0]
    read = from_plain(Record[StudyResult[rows]], result)
    assert type(read.result.summary[0]) is rows
    assert to_plain(read) == result
    # What is done is not done again, and says the same.
    code, out, err = call("study", name, *SMOKE, "--out", root, "--resume", "--json")
    assert code == 0, err
    again = json.loads(out)
    assert (again["summary"], again["claim"], again["jobs"]) == (result["summary"], result["claim"], result["jobs"])


def test_mistakes_are_one_line(call, tmp_path):
    (tmp_path / "partitions").mkdir()
    (tmp_path / "partitions" / "config.json").write_text('{"verb": "study"}')
    for arguments, said in (
        (("weather", "--out", tmp_path), "there is no study 'weather'"),
        (("partitions", "--size", "huge", "--out", tmp_path), "smoke, laptop, paper"),
        (("partitions",), "give --out"),
        (("partitions", "--data", "scenes:train", "--out", tmp_path), "leave out 'train'"),
        (("partitions", "--size", "smoke", "--out", tmp_path), "--resume"),
    ):
        code, out, err = call("study", *arguments)
        assert (code, out) == (2, "")
        assert said in err
        assert err.count("\n") == 1


def test_options_change_the_size_and_what_is_told(call, tmp_path):
    options = ("--size", "smoke", "--seed", 3, "--images", 10, "--batch-size", 2, "--image-size", 16, "--device", "cpu")
    code, out, err = call("study", "overfitting", *options, "--out", tmp_path, "--json")
    assert code == 0, err
    result = json.loads(out)
    assert (result["seed"], result["images"]) == (3, 10)
    assert {job["job"] for job in result["jobs"] if job["job"].startswith("teachers/")} == {
        "teachers/standard-s3", "teachers/subset-s3", "teachers/standard-s4", "teachers/subset-s4"
    }  # fmt: skip
    assert sorted({row["seed"] for row in result["summary"]}) == [3, 4]
    used = json.loads((tmp_path / "teachers/standard-s3.json").read_text())
    assert (used["result"]["n"], used["about"]["recipe"]["batch_size"], used["about"]["recipe"]["seed"]) == (10, 2, 3)
    assert used["about"]["vit"]["image_size"] == 16
    code, _, err = call("study", "partitions", "--size", "smoke", "--image-size", 20, "--out", tmp_path)
    assert code == 2
    assert "whole patches of 8" in err


@pytest.mark.long
def test_killed_and_resumed_gives_the_same_table(call, tmp_path):
    """The process dies twice, each time soon after another job has been finished."""
    options = ("study", "overfitting", "--size", "smoke", "--device", "cpu", "--json")
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    code, out, err = call(*options, "--out", whole)
    assert code == 0, err
    expected = json.loads(out)
    rng = random.Random(0)
    command = [sys.executable, "-m", "raptor", *options, "--out", broken, "--resume"]
    environment = {**os.environ, "RAPTOR_SAVE_EVERY": "1"}

    def finished():
        return sum((broken / f"{job['job']}.json").exists() for job in expected["jobs"])

    for _ in range(2):
        before = finished()
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and finished() == before:
            time.sleep(0.02)
        time.sleep(rng.random() / 5)
        assert process.poll() is None, "it ended before it could be killed"
        process.kill()
        process.wait()
    assert 2 <= finished() < len(expected["jobs"])
    code, out, err = call(*options, "--out", broken, "--resume")
    assert code == 0, err
    found = json.loads(out)
    assert (found["summary"], found["claim"]) == (expected["summary"], expected["claim"])
    assert not (broken / "overfitting" / "states").exists()


def test_a_narrow_terminal_shows_fewer_columns_and_cuts_none():
    row = {"drop_path": 0.25, "verdict": "paced drift", "recovered": 0.5, "phases": "3-4-5", "similarity": [[1.0]]}
    claim = Claim("all is well", True, "it is")
    result = StudyResult("gallery", "scenes", StudySize("smoke", SIZES["smoke"]), [], [row], claim)
    record = Record(1, "study", "", 0, 24, 6, 1.0, result)
    shown = {}
    for width in (40, 200):
        console = screen(width=width, record=True, file=io.StringIO())  # as the command line has it
        print_parts(console, show_study(record))
        shown[width] = console.export_text()
        assert "…" not in shown[width]
    assert "│ paced drift │" in shown[40]
    assert "3-4-5" not in shown[40]
    assert "1 more column did not fit" in shown[40]
    assert "3-4-5" in shown[200]
    assert "did not fit" not in shown[200]


def test_the_plan_counts_what_would_be_trained(call, tmp_path):
    code, out, err = call("study", "k-curve", "--size", "smoke", "--plan", "--device", "cpu", "--json")
    assert code == 0, err
    plan, size = json.loads(out), SIZES["smoke"]
    seeds = len(size.seeds)
    assert (plan["teachers"], plan["students"]) == (seeds, seeds * len(size.ks))
    tokens, width = 1 + size.registers + (size.image_size // size.patch_size) ** 2, size.width
    # Of a layer: qkv, projection and both maps of the MLP; scores and their use. Students have the teacher's blocks.
    layer = 2 * tokens * 12 * width**2 + 4 * tokens**2 * width
    patches = 2 * (size.image_size // size.patch_size) ** 2 * 3 * size.patch_size**2 * width
    distilled = len(size.ks) * 2 * size.student_steps * size.student_batch
    seen = seeds * (size.teacher_steps * size.teacher_batch + distilled)
    assert plan["flops"] == pytest.approx(3 * seen * (size.depth * layer + patches), rel=0.01)  # without the head
    assert plan["seconds"] > 0
    assert plan["core_seconds"] > 0
    assert plan["disk"] == seeds * 2 * size.student_images * (size.depth + 1) * tokens * width
    assert not list(tmp_path.iterdir())

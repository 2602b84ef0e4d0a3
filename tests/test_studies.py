"""Every study in its smallest size, through the real code; and what summaries say of results that are known."""

from __future__ import annotations

import io
import json
import math
import os
import random
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from raptor.data import scenes
from raptor.options import Screen
from raptor.preprocessing import Preprocessing
from raptor.studies import STUDIES, ablation, emergence, gallery, k_curve, partitions, stochastic_depth
from raptor.studies.jobs import Done
from raptor.studies.models import Setting
from raptor.studies.size import SIZES
from raptor.study_printing import print_study


def setting(**size):
    used = Preprocessing((32, 32), None, mean=scenes.MEAN, std=scenes.STD)
    return Setting("scenes", used, {}, replace(SIZES["smoke"], **size), Path(), Path())


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("studies")


@pytest.mark.parametrize("name", STUDIES)
def test_smoke(call, root, name):
    """Teachers are shared: the first study trains them."""
    options = ("--size", "smoke", "--out", root, "--device", "cpu")
    code, out, err = call("study", name, *options, "--json")
    assert code == 0, err
    result = json.loads(out)
    assert result["verb"] == "study"
    assert all(job["failed"] is None for job in result["jobs"])
    assert result["summary"]
    assert set(result["claim"]) == {"text", "held", "evidence"}
    assert (root / name / "figures" / f"{name}.svg").exists()
    teachers = [job for job in result["jobs"] if job["job"].startswith("teachers/")]
    assert teachers
    # What is done is not done again, and says the same.
    code, out, err = call("study", name, *options, "--resume", "--json")
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
    code, out, err = call("study", "stochastic-depth", *options, "--out", tmp_path, "--json")
    assert code == 0, err
    result = json.loads(out)
    assert (result["seed"], result["images"]) == (3, 10)
    assert {job["job"] for job in result["jobs"] if job["job"].startswith("teachers/")} == {
        "teachers/p0-s3", "teachers/p0.4-s3"
    }  # fmt: skip
    assert sorted({row["seed"] for row in result["summary"]}) == [3, 4]
    used = json.loads((tmp_path / "teachers/p0-s3.json").read_text())
    assert (used["result"]["n"], used["about"]["recipe"]["batch_size"], used["about"]["recipe"]["seed"]) == (10, 2, 3)
    assert used["about"]["vit"]["image_size"] == 16
    code, _, err = call("study", "partitions", "--size", "smoke", "--image-size", 20, "--out", tmp_path)
    assert code == 2
    assert "whole patches of 8" in err


def test_a_teacher_that_is_never_right_stops_no_summary():
    """A share of nothing is not a number, and null in the file of a job."""
    none = {**student("2-2-2", 0.5), "recovered": None, "train_seconds": 1.0}
    for study, results in (
        (ablation, {f"ablation/{number:02}-s0": none for number in range(13)}),
        (
            partitions,
            {"partitions/found-k2-s0": {**none, "phases": "3-3"}, "partitions/2-4": {**none, "phases": "2-4"}},
        ),
    ):
        summary = study.summarise(setting(), Done(results, {}, {}))
        assert summary.rows
        assert "0.5" in str(summary.rows)


def student(phases, r2, seed=0):
    return {"phases": phases, "r2": {"all": [r2], "cls": [r2], "patch": [r2]}, "pearson2": {}, "recovered": r2,
            "seed": seed, "surrogate": r2, "teacher": 0.5}  # fmt: skip


def test_found_partitions_stand_where_they_stand():
    found = {f"partitions/found-k2-s{seed}": student("3-3", value, seed) for seed, value in ((0, 0.8), (1, 0.7))}
    others = {f"partitions/{cut}": student(cut, value) for cut, value in (("1-5", 0.5), ("2-4", 0.9), ("3-3", 0.1))}
    summary = partitions.summarise(setting(), Done({**found, **others}, {}, {}))
    # The found one among the others is not counted against itself.
    assert "R2 0.750 (n = 2 seeds, 0.700 to 0.800), above 1 of 2 others (best 0.900" in summary.claim.evidence
    assert summary.claim.held is False  # half is not most
    more = {**found, **others, "partitions/4-2": student("4-2", 0.4)}
    assert partitions.summarise(setting(), Done(more, {}, {})).claim.held is True
    worse = {**found, "partitions/1-5": student("1-5", 0.9), "partitions/2-4": student("2-4", 0.9)}
    assert partitions.summarise(setting(), Done(worse, {}, {})).claim.held is False


@pytest.mark.parametrize(
    ("within", "r2", "held"), [(0.9, 0.8, True), (0.4, 0.8, False), (0.9, 0.52, False)], ids=["both", "alike", "close"]
)
def test_training_must_change_both_and_by_more_than_the_images_say(within, r2, held):
    def at(within, r2):
        found = {**student("2-2-2", r2), "r2_ci": {"cls": [[r2 - 0.05], [r2 + 0.05]]}, "cosine": {"cls": [r2]}}
        return {"within": within, "between": 0.3, "verdict": "paced drift", "suggested_k": 1, "phases": "2-2-2",
                "similarity": [[1.0]], "student": found}  # fmt: skip

    results = {"emergence/at-0": at(0.5, 0.5), "emergence/at-1": at(within, r2)}
    claim = emergence.summarise(setting(), Done(results, {}, {})).claim
    assert claim.held is held
    assert "untrained: cosine 0.500 within phases and 0.300 between, R2 of cls 0.500 [0.450, 0.550]" in claim.evidence


def test_a_rise_with_the_rate_must_be_more_than_chance():
    """Four teachers in the order of their rates are evidence, by one pairing in 24; two are not."""
    rates, seeds = (0.0, 0.2, 0.4, 0.6), (0, 1, 2)
    results = {}
    for rate in rates:
        results[f"teachers/p{rate:g}-s0"] = {"top1": 0.5 - rate / 10}
        results[f"stochastic-depth/look-p{rate:g}"] = {
            "within": 0.8 + rate**2, "between": 0.5, "verdict": "blocks", "phases": "2-2-2", "similarity": [[1.0]],
        }  # fmt: skip
        for seed in seeds:
            results[f"stochastic-depth/student-p{rate:g}-s{seed}"] = student("2-2-2", 0.5 + rate / 2 + 0.01 * seed)
    summary = stochastic_depth.summarise(setting(drop_paths=rates, seeds=seeds), Done(results, {}, {}))
    assert len(summary.rows) == 12
    assert summary.claim.held is True
    assert "R2 at the last layer with the rate 1.00 (0.042)" in summary.claim.evidence
    assert "R2 with the teacher's accuracy -1.00 (1.000)" in summary.claim.evidence
    # Fisher's z of four pairs has a standard error of one.
    x, y = (np.array([f(rate) for rate in rates]) for f in (lambda rate: rate**2, lambda rate: rate / 2))
    r = float(np.corrcoef(x, y)[0, 1])
    low, high = (math.tanh(math.atanh(r) + sign * 1.959964) for sign in (-1, 1))
    assert f"similarity within phases {r:.2f} [{low:.2f}, {high:.2f}]" in summary.claim.evidence
    few = setting(drop_paths=(0.0, 0.2), seeds=(0,))
    assert not stochastic_depth.summarise(few, Done(results, {}, {})).claim.held


@pytest.mark.parametrize(("useful", "held"), [(3, True), (2, False), (4, False), (1, False)])
def test_where_blocks_stop_paying_is_told_to_the_next_number_that_was_tried(useful, held):
    r2 = {1: 0.5, 2: 0.8, 3: 0.9, 4: 0.905}
    results = {
        f"k-curve/w16-k{k}": {
            **student("-".join("1" * k), value),
            "parameters": k,
            "suggested_k": 1,
            "useful_k": useful,
        }
        for k, value in r2.items()
    }
    summary = k_curve.summarise(setting(ks=tuple(r2)), Done(results, {}, {}))
    assert summary.claim.held is held
    assert f"a block more adds below 0.01 from k = 3 on (useful k: {useful}, suggested: 1)" in summary.claim.evidence


def test_untrained_teachers_do_not_count_among_those_with_phases():
    def look(verdict):
        return {"phases": "3-3", "verdict": verdict, "suggested_k": 2, "within": 0.9, "between": 0.5,
                "similarity": [[1.0]], "n": 24}  # fmt: skip

    used = setting(widths=(8, 16))
    results = {job.name: {"top1": 0.5} for job in gallery.jobs(used) if job.name.startswith("teachers/")}
    looks = {job.name: look("blocks") for job in gallery.jobs(used) if job.name not in results}
    assert len(looks) == 4
    looks["gallery/untrained"] = look("drift")
    summary = gallery.summarise(used, Done({**results, **looks}, {}, {}))
    assert summary.claim.held is True
    assert summary.claim.evidence.startswith("3 of 3 trained teachers are blocks; drop path 0: blocks (3-3)")
    assert [row["model"] for row in summary.rows] == ["drop path 0", "drop path 0.4", "width 8", "untrained"]
    looks["gallery/w8"] = look("paced drift")
    assert gallery.summarise(used, Done({**results, **looks}, {}, {})).claim.held is False


def test_a_student_of_two_studies_is_distilled_once(call, tmp_path):
    """Of one teacher, the found phases are asked for by two studies; so is what fine-tuning starts from."""
    options = ("--size", "smoke", "--out", tmp_path, "--device", "cpu", "--json")
    for name in ("stochastic-depth", "ablation"):
        code, _, err = call("study", name, *options)
        assert code == 0, err
    kept = [json.loads(file.read_text()) for file in (tmp_path / "students").glob("*.json")]
    assert len({json.dumps(one["about"], sort_keys=True) for one in kept}) == len(kept)
    default = json.loads((tmp_path / "ablation" / "10-s0.json").read_text())
    shared = json.loads((tmp_path / "stochastic-depth" / "student-p0-s0.json").read_text())
    assert default["result"] == shared["result"]
    joined, tuned = (json.loads((tmp_path / "ablation" / f"{row}-s0.json").read_text()) for row in ("04", "05"))
    assert joined["result"]["r2"] == tuned["result"]["r2"]
    rows, size = 13, SIZES["smoke"]
    asked = len(size.seeds) * (len(size.drop_paths) + rows)
    assert len(kept) == asked - len(size.seeds) * 2  # what fine-tuning starts from, and `default` of the first teacher


def test_killed_and_resumed_gives_the_same_table(call, tmp_path):
    """The process dies twice, each time soon after another job has been finished."""
    options = ("study", "emergence", "--size", "smoke", "--device", "cpu", "--json")
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
    assert not (broken / "emergence" / "states").exists()


def test_a_narrow_terminal_shows_fewer_columns_and_cuts_none():
    row = {"drop_path": 0.25, "verdict": "paced drift", "recovered": 0.5, "phases": "3-4-5", "similarity": [[1.0]]}
    result = {"study": "gallery", "size": {"name": "smoke"}, "images": 24, "summary": [row], "jobs": [],
              "claim": {"text": "all is well", "held": True, "evidence": "it is"}}  # fmt: skip
    shown = {}
    for width in (40, 200):
        console = Screen(width=width, record=True, file=io.StringIO())  # as the command line has it
        print_study(console, result, None)
        shown[width] = console.export_text()
        assert "…" not in shown[width]
    assert "│ paced drift │" in shown[40]
    assert "3-4-5" not in shown[40]
    assert "further columns, 1 of them" in shown[40]
    assert "3-4-5" in shown[200]
    assert "further columns" not in shown[200]


def test_the_plan_counts_what_would_be_trained(call, tmp_path):
    code, out, err = call("study", "k-curve", "--size", "smoke", "--plan", "--device", "cpu", "--json")
    assert code == 0, err
    plan, size = json.loads(out), SIZES["smoke"]
    assert (plan["teachers"], plan["students"]) == (1, len(size.ks))
    tokens, width = 1 + size.registers + (size.image_size // size.patch_size) ** 2, size.width
    # Of a layer: qkv, projection and both maps of the MLP; scores and their use. Students have the teacher's blocks.
    layer = 2 * tokens * 12 * width**2 + 4 * tokens**2 * width
    patches = 2 * (size.image_size // size.patch_size) ** 2 * 3 * size.patch_size**2 * width
    seen = size.teacher_steps * size.teacher_batch + len(size.ks) * 2 * size.student_steps * size.student_batch
    assert plan["flops"] == pytest.approx(3 * seen * (size.depth * layer + patches), rel=0.01)  # without the head
    assert plan["seconds"] > 0
    assert plan["disk"] == 2 * size.student_images * (size.depth + 1) * tokens * width
    assert not list(tmp_path.iterdir())

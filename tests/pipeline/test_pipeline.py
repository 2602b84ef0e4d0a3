"""The whole pipeline on the ViT that ships, in its smallest size, and the page that it ends in."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from demo_run import OPTIONS, tiny
from raptor.data.load import load_images
from raptor.models.load import SHIPPED_SURROGATES, load_model

STAGES = ["inspect", "phases", "distill", "fidelity-1", "fidelity-2", "fidelity-3", "probe-1", "probe-2", "dynamics",
          "intervene", "film"]  # fmt: skip
LARGEST = 8_000_000  # bytes of a page


def test_the_demo_does_every_stage_once(call, demo_run, tmp_path, monkeypatch):
    # A copy, because it is written to while other processes read the run; its paths are relative.
    demo_run = shutil.copytree(demo_run, tmp_path / demo_run.name)
    monkeypatch.chdir(tmp_path)
    result = json.loads((demo_run / "result.json").read_text())
    assert (result["verb"], result["model"], result["preset"]) == ("run", "scenes", "quick")
    assert [stage["stage"] for stage in result["stages"]] == STAGES
    assert not any(stage["skipped"] or stage["error"] or stage["not_done"] for stage in result["stages"])
    assert Path(result["report"]).stat().st_size < LARGEST
    # What ships is measured beside what was trained here.
    sources = [json.loads((demo_run / f"fidelity-{n}" / "result.json").read_text())["surrogate"] for n in (1, 2, 3)]
    assert sources == ["run/distill", *SHIPPED_SURROGATES]
    # A second time nothing is left to do, and what is missing alone is done again.
    shutil.rmtree(demo_run / "inspect")
    with tiny():
        code, out, err = call("demo", "--out", demo_run.name, *OPTIONS, "--json")
    assert code == 0, err
    result = json.loads(out)
    assert json.loads((demo_run / "result.json").read_text()) == result
    assert [stage["stage"] for stage in result["stages"] if not stage["skipped"]] == ["inspect"]


def test_numbers_on_the_page_are_those_of_the_results(demo_run):
    page = (demo_run / "report.html").read_text()
    shown = re.findall(r'<data value="([^"]*)" data-run="([^"]*)" data-key="([^"]*)">', page)
    assert len(shown) > 60
    for value, run, key in shown:
        found = json.loads((demo_run / run / "result.json").read_text())
        for part in key.split("/"):
            found = found[int(part)] if isinstance(found, list) else found[part]
        assert str(found) == value, (run, key)


def test_other_options_are_refused_and_mistakes_are_one_line(call, demo_run, tmp_path_factory, flat):
    tmp_path = tmp_path_factory.mktemp("mistakes")
    for arguments, said in (
        (
            ("run", "scenes", "--preset", "quick", *OPTIONS, "--seed", 1, "--out", demo_run),
            "started with seed = 0, not 1",
        ),
        (("run", "scenes", "--preset", "huge", "--out", tmp_path / "a"), "quick, standard, measure, full"),
        (("run", "scenes", "--preset", "quick"), "needs --out"),
        (("run", "nowhere/nothing", "--data", flat, "--out", tmp_path / "b"), "nowhere/nothing"),
        (("report", tmp_path / "none"), "no run directory"),
        (("report", flat), "is not a run directory"),
        (("run", "scenes", "--data", "scenes:test", "--out", tmp_path / "c"), "leave out the split"),
    ):
        code, out, err = call(*arguments)
        assert (code, out) == (2, ""), arguments
        assert said in err
        assert err.count("\n") == 1


def test_a_page_of_damaged_runs_says_what_is_missing(call, demo_run, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(demo_run, broken)
    (broken / "phases" / "result.json").write_text('{"k": 3,')
    (broken / "dynamics" / "result.json").unlink()
    (broken / "intervene" / "figures" / "interventions.vl.json").write_bytes(b"\xff\xfe")
    (broken / "film" / "film.npz").write_bytes(b"PK")
    (broken / "inspect" / "config.json").write_text("[]")
    older = json.loads((broken / "probe-1" / "result.json").read_text())
    (broken / "probe-1" / "result.json").write_text(json.dumps({**older, "tasks": {"classify": None}}))
    code, out, err = call("report", broken, "--out", tmp_path / "page.html", "--json")
    assert code == 0, err
    missing = " ".join(json.loads(out)["missing"])
    for part in ("phases (phases) has no result", "dynamics (dynamics) has no result", "the figure interventions",
                 "inspect: config.json is not a JSON object", "the film", "probe-1: "):  # fmt: skip
        assert part in missing
    page = (tmp_path / "page.html").read_text()
    assert "What is missing" in page
    assert "Accuracy and cost of the surrogates" in page  # the table of fidelity


@pytest.mark.long
def test_strings_from_outside_stay_strings(call, demo_run, tmp_path):
    evil = "<script>alert(1)</script>"
    hostile = tmp_path / "hostile"
    shutil.copytree(demo_run, hostile)
    for file in hostile.rglob("*.json"):
        file.write_text(file.read_text().replace("scenes:k3", evil).replace("scenes", evil))
    code, _, err = call("report", hostile, "--out", tmp_path / "page.html")
    assert code == 0, err
    page = (tmp_path / "page.html").read_text()
    assert "alert(1)" in page
    assert evil not in page


@pytest.mark.long
def test_runs_of_one_model_are_shown_each_by_itself(call, demo_run, tmp_path):
    code, _, err = call("report", demo_run, demo_run, "--out", tmp_path)
    assert code == 0, err
    page = (tmp_path / "report.html").read_text()
    ids = re.findall(r'<figure id="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert page.count('class="film"') == 2
    # Their figures are beside the page, and none is written over another.
    for name in ("phases-depth", "phases-2-depth", "dynamics-speed", "dynamics-2-speed", "fidelity-1-fidelity"):
        for ending in ("png", "svg", "pdf"):
            assert (tmp_path / "figures" / f"{name}.{ending}").stat().st_size > 1000


@pytest.mark.long
def test_a_stage_is_done_again_with_what_it_reads(call, demo_run, tmp_path):
    """A new surrogate has a fidelity of its own."""
    again = tmp_path / "again"
    shutil.copytree(demo_run, again)
    shutil.rmtree(again / "distill")
    with tiny():
        code, out, err = call("demo", "--out", again, *OPTIONS, "--json")
    assert code == 0, err
    done = [stage["stage"] for stage in json.loads(out)["stages"] if not stage["skipped"]]
    assert done == ["distill", "fidelity-1"]  # the rest reads a surrogate that ships
    (again / "config.json").unlink()
    with tiny():
        code, out, err = call("demo", "--out", again, *OPTIONS)
    assert (code, out) == (2, "")
    assert "not of a pipeline" in err


@pytest.mark.long
def test_several_models_stand_side_by_side(call, demo_run, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(demo_run, other)
    for file in other.glob("*/config.json"):
        file.write_text(file.read_text().replace('"model": "scenes"', '"model": "another"'))
    (other / "config.json").write_text((other / "config.json").read_text().replace('"scenes"', '"another"'))
    code, _, err = call("report", demo_run, other, "--out", tmp_path)
    assert code == 0, err
    page = (tmp_path / "report.html").read_text()
    assert "Side by side" in page
    assert page.count('<article id="m') == 2


def test_phases_are_found_on_images_that_nothing_is_measured_on(demo_run):
    """Otherwise a surrogate would be measured on images that chose its phases."""
    used = {stage: json.loads((demo_run / stage / "config.json").read_text())["data"] for stage in STAGES[:5]}
    assert used["phases"] == "scenes:train"
    teacher = load_model("scenes")
    found, measured = (load_images("scenes", teacher, split, 64) for split in ("train", "held-out"))
    assert not found.image_keys() & measured.image_keys()
    assert json.loads((demo_run / "fidelity-1" / "result.json").read_text())["data"] == "scenes"  # its held-out split


@pytest.mark.parametrize(
    ("surrogates", "measured"), [(["scenes:k2"], ["fidelity-1", "probe-1", "probe-2"]), ([], ["probe-1"])]
)
def test_the_preset_measure_trains_nothing(surrogates, measured, tmp_path):
    from raptor.data.options import LoadOptions
    from raptor.pipeline.presets import PRESETS
    from raptor.pipeline.stages import Stages
    from raptor.runtime.options import RunOptions

    stages = Stages(
        "scenes", "scenes", 3, PRESETS["measure"], surrogates, None, LoadOptions(),
        RunOptions(quiet=True, device="cpu"), tmp_path,
    ).all()  # fmt: skip
    assert [stage.name for stage in stages] == ["inspect", "phases", *measured, "dynamics", "intervene", "film"]
    named = {stage.name for stage in stages}
    assert all(set(stage.reads) <= named for stage in stages)
    if surrogates:
        assert stages[2].work.args == ("scenes:k2",)

"""Run directories from anybody: the page shows what they hold, and nothing of what lies elsewhere on this machine."""

from __future__ import annotations

import copy
import json
import os
import pickle
import random
import shutil
import zipfile

import numpy as np
import pytest

from hostile import Trap, check_refused
from raptor.errors import RaptorError
from raptor.reporting.collect import collect
from raptor.reporting.page import render
from test_hostile_names import Elements

SECRET = "what-nobody-may-see"


@pytest.fixture
def stage(demo_run, tmp_path):
    """Copy a stage of the demo, to be changed."""

    def copied(name: str):
        return shutil.copytree(demo_run / name, tmp_path / "runs" / name)

    return copied


def report(call, run, tmp_path):
    """Make the page of a run; return what is missing of it, and all that was written."""
    out = tmp_path / "out"
    code, printed, err = call("report", run, "--out", out, "--json")
    assert code == 0, err
    written = b"".join(file.read_bytes() for file in out.rglob("*") if file.is_file())
    return json.loads(printed)["missing"], written.decode(errors="replace")


def test_what_lies_beside_figures_reaches_the_page(call, stage, tmp_path):
    """The tests below would mean nothing if this did not."""
    run = stage("inspect")
    (run / "figures" / "norms.csv").write_text(SECRET)
    assert report(call, run, tmp_path)[1].count(SECRET) == 2  # on the page and beside it


@pytest.mark.parametrize("ending", ["csv", "png", "svg", "pdf", "vl.json"])
def test_links_out_of_a_run_are_not_followed(call, stage, tmp_path, ending):
    run = stage("inspect")
    (tmp_path / "secret").write_text(json.dumps({"description": SECRET}))
    (run / "figures" / f"norms.{ending}").unlink()
    (run / "figures" / f"norms.{ending}").symlink_to(tmp_path / "secret")
    _, written = report(call, run, tmp_path)
    assert SECRET not in written


@pytest.mark.parametrize("file", ["config.json", "result.json", "figures"])
def test_nor_are_links_in_place_of_its_own_files(call, stage, tmp_path, file):
    run = stage("inspect")
    shutil.move(run / file, tmp_path / "elsewhere")
    if file != "figures":
        content = json.loads((tmp_path / "elsewhere").read_text())
        (tmp_path / "elsewhere").write_text(json.dumps({**content, "model": SECRET}))
    (run / file).symlink_to(tmp_path / "elsewhere")
    if file == "config.json":
        check_refused(call("report", run, "--out", tmp_path / "out", "--json"), "config.json is not a file of this")
    else:
        missing, written = report(call, run, tmp_path)
        assert any("is not a file of this directory" in note for note in missing)
        assert SECRET not in written
    # A run that is a link itself is whose it is.
    run.rename(tmp_path / "real")
    (tmp_path / "real" / file).unlink()
    shutil.move(tmp_path / "elsewhere", tmp_path / "real" / file)
    run.symlink_to(tmp_path / "real")
    assert report(call, run, tmp_path)[0] == []


PLACES = ["../../secret.png", "{root}/secret.png", "figures/../../../secret.png", "secret", "\0", "x" * 5000, "..", "",
          5, None, ["a"]]  # fmt: skip


@pytest.mark.parametrize("where", PLACES, ids=lambda value: ascii(value)[:30])
def test_figures_are_named_not_placed(call, stage, tmp_path, where):
    run = stage("inspect")
    (tmp_path / "secret.vl.json").write_text(json.dumps({"description": SECRET}))
    (tmp_path / "secret.png").write_text(SECRET)
    result = json.loads((run / "result.json").read_text())
    named = where.format(root=tmp_path) if isinstance(where, str) else where
    (run / "result.json").write_text(json.dumps({**result, "figures": [named]}))
    missing, written = report(call, run, tmp_path)
    assert len(missing) == 1 + (not isinstance(where, str))  # a name that is no text is wrong in the result, too
    assert "is missing" in missing[-1]
    assert SECRET not in written


@pytest.mark.parametrize("file", ["result.json", "figures/norms.vl.json", "figures/norms.csv", "figures/norms.png"])
def test_pipes_are_not_waited_for(call, stage, tmp_path, file):
    run = stage("inspect")
    (run / file).unlink()
    os.mkfifo(run / file)
    missing, _ = report(call, run, tmp_path)
    assert len(missing) == ("json" in file)


@pytest.mark.parametrize(
    "content", ["[" * 100_000, '{"a":' * 100_000, "\ufeff{}", "\ud800", '{"a": 1e999, "b": NaN}', "0"]
)
@pytest.mark.parametrize("file", ["config.json", "result.json"])
def test_json_that_is_none_is_noted_or_one_line(call, stage, tmp_path, content, file):
    run = stage("probe-1")
    (run / file).write_bytes(content.encode(errors="surrogatepass"))
    code, out, err = call("report", run, "--out", tmp_path / "out", "--json")
    if code:
        check_refused((code, out, err), "config.json")
    else:
        assert file == "result.json" or "NaN" in content
        assert json.loads(out)["missing"] or "NaN" in content


def claim(path):
    """Write a few bytes that say that they are many, as a film."""
    header = b"v\0{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999,), }"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("pictures.npy", np.lib.format.magic(1, 0) + header.ljust(120))


def zeros(path):
    """Write three megabytes in three kilobytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pictures.npy", bytes(3_000_000))


def one_array(path):
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


FILMS = {
    "objects": lambda path, trap: np.savez(path, pictures=np.array([trap], dtype=object)),
    "pickle": lambda path, trap: path.write_bytes(pickle.dumps(trap)),
    "claims to be huge": lambda path, trap: claim(path),
    "is huge when unpacked": lambda path, trap: zeros(path),
    "one array": lambda path, trap: one_array(path),
    "names": lambda path, trap: np.savez(path, pictures=np.zeros((1, 4, 4, 3), np.uint8), **{"a/b": np.zeros(3)}),
    "words": lambda path, trap: np.savez(path, pictures=np.array(["a"]), **{"colours/a": np.array([[[["b"]]]])}),
    "numbers": lambda path, trap: np.savez(path, pictures=np.zeros((1, 4, 4, 7)), **{"colours/a": np.zeros((1,) * 4)}),
}


@pytest.mark.parametrize("kind", FILMS)
def test_a_film_that_is_none_is_noted_and_never_run(call, stage, tmp_path, monkeypatch, kind):
    monkeypatch.setattr("raptor.film.arrays.LARGEST", 2_000_000)
    run = stage("film")
    (run / "film.npz").unlink()
    FILMS[kind](run / "film.npz", Trap(tmp_path / "executed"))
    missing, _ = report(call, run, tmp_path)
    assert len(missing) == 1
    assert "film" in missing[0]
    assert not (tmp_path / "executed").exists()


HOSTILE = [
    None, True, -1, 0, 1e308, float("nan"), float("inf"), 2**70, "", "</script><script>alert(1)</script>", "\ud800",
    "a" * 9999, [], {}, [[]], {"a": {}}, [None], "9999-9999", "\0", [1, "a", None], "{0.__class__}",
]  # fmt: skip


def mutated(value, draw: random.Random):
    """Return a JSON value with one of its parts gone or replaced."""
    value, places = copy.deepcopy(value), [()]
    for place in places:  # grows as it is gone through
        inner = value
        for key in place:
            inner = inner[key]
        if len(place) < 6 and len(places) < 3000:
            keys = inner if isinstance(inner, dict) else range(len(inner)) if isinstance(inner, list) else ()
            places += [(*place, key) for key in keys]
    near = [place for place in places if len(place) < 3]
    place = draw.choice(near if draw.random() < 0.5 else places)
    if not place:
        return draw.choice(HOSTILE)
    inner = value
    for key in place[:-1]:
        inner = inner[key]
    if draw.random() < 0.2:
        del inner[place[-1]]
    else:
        inner[place[-1]] = draw.choice(HOSTILE)
    return value


STAGES = ["inspect", "phases", "distill", "fidelity-2", "probe-1", "dynamics", "intervene", "film"]


@pytest.mark.parametrize("rounds", [4, pytest.param(250, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", STAGES)
def test_results_with_anything_in_them_make_a_page_or_one_line(stage, monkeypatch, name, rounds):
    # The drawing library is the same on every page, and takes longer than all the rest.
    monkeypatch.setattr("vl_convert.javascript_bundle", lambda: "")
    run, draw = stage(name), random.Random(f"{name} {rounds}")
    files = [run / "result.json", run / "config.json", *run.glob("figures/*.vl.json")]
    whole = {file: file.read_text() for file in files}
    # A figure of depth is drawn anew for each, which takes a second.
    for _ in range(rounds // 5 if name == "phases" and rounds > 5 else rounds):
        file = draw.choice(files[:2] if draw.random() < 0.8 else files)
        file.write_text(json.dumps(mutated(json.loads(whole[file]), draw)))
        try:
            text = render(collect([run]))
        except RaptorError as error:
            assert "\n" not in str(error)  # noqa: PT017
        else:
            page = Elements(text.encode(errors="backslashreplace").decode())
            assert [tag for tag, _ in page.found].count("script") == 3
            json.loads(page.scripts[0], parse_constant=lambda constant: 1 / 0)
        file.write_text(whole[file])

"""The verb `phases`, from the command line to its files."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import raptor
from raptor.core.deserialize import from_plain
from raptor.core.preprocessing import Preprocessing
from raptor.core.serialize import to_plain
from raptor.models.checkpoints import save_vit
from raptor.models.vit import ViT, ViTConfig
from raptor.phases.comparison import AnyPhasesResult, PhasesComparison
from raptor.phases.figures.linked import phases_by_k
from raptor.phases.result import PhasesResult
from raptor.runtime.rundir import Record

MATRIX = "tests/data/dinov2b_reg_cosine_distance.csv"
KEYS = {
    "k", "suggested_k", "useful_k", "phases", "boundaries", "score", "runner_up", "near_optimal", "by_k", "bootstrap",
    "structure", "verdict", "groups",
}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("vit") / "small"
    torch.manual_seed(0)
    save_vit(ViT(ViTConfig(depth=6, width=32, heads=2)), Preprocessing((64, 64), None), path)
    return path


def test_the_published_matrix(call):
    code, out, _ = call("phases", "--matrix", MATRIX, "--distance", "--json", "--k", "3")
    result = json.loads(out)
    assert code == 0
    assert set(result) >= KEYS
    assert (result["phases"], result["boundaries"], result["layers"], result["images"]) == ("7-3-2", [7, 10], 12, 0)
    assert result["runner_up"]["phases"] == "6-4-2"
    assert result["runner_up"]["gap"] == pytest.approx(0.0002, abs=5e-5)
    assert [result["by_k"][k]["phases"] for k in ("2", "3", "4")] == ["7-5", "7-3-2", "4-3-3-2"]
    assert result["by_k"]["2"]["gain"] == pytest.approx(0.199, abs=1e-3)
    assert (result["verdict"], result["suggested_k"], result["useful_k"]) == ("paced drift", 1, 2)
    structure = result["structure"]
    assert structure["paced_drift"]["residual"] <= 0.058
    assert set(structure["paced_drift"]["clocks"]) == {"log cosine", "arc length"}
    assert {k: round(one["residual"], 3) for k, one in structure["blocks"].items() if k in "234"} == {
        "2": 0.219, "3": 0.168, "4": 0.147
    }  # fmt: skip
    assert structure["drift"]["held_out"] is None
    assert "no images" in structure["why_not_held_out"]
    assert result["bootstrap"] is None
    assert to_plain(from_plain(Record[AnyPhasesResult], result)) == result
    words = " ".join(result["words"])
    assert "changes smoothly with depth" in words
    assert "neither shows nor excludes that a few blocks can replace the layers" in words


def test_a_model_gives_all_groups_and_figures(call, model, tmp_path):
    run = tmp_path / "run"
    code, out, _ = call("phases", model, "--data", "scenes", "--images", "40", "--k", "2", "--json", "--out", run)
    result = json.loads(out)
    assert code == 0
    assert (result["images"], result["layers"], result["k"], result["bootstrap"]["n"]) == (40, 6, 2, 1000)
    assert set(result["groups"]) == {"cls", "register", "patch", "all", "cls+mean-patch"}
    for name, group in result["groups"].items():
        matrix = np.array(group["similarity"])
        assert matrix.shape == (7, 7)
        np.testing.assert_allclose(np.diagonal(matrix), 1, atol=1e-6)
        assert (group["cka"] is None) == (name == "cls+mean-patch")
    assert sum(result["bootstrap"]["boundary_frequency"].values()) == pytest.approx(1)
    low, high = result["structure"]["drift"]["held_out_ci"]
    assert low <= result["structure"]["drift"]["held_out"] <= high
    assert json.loads((run / "result.json").read_text()) == result
    record = from_plain(Record[AnyPhasesResult], result)
    assert isinstance(record.result, PhasesResult)
    assert to_plain(record) == result
    for figure in ("similarity", "remains", "descriptions", "scores", "certainty"):
        assert "vega-lite" in json.loads((run / "figures" / f"{figure}.vl.json").read_text())["$schema"]
        for ending, start in (("png", b"\x89PNG"), ("svg", b"<svg"), ("pdf", b"%PDF")):
            assert (run / "figures" / f"{figure}.{ending}").read_bytes().startswith(start)


def test_results_repeat(call, model):
    arguments = ("phases", model, "--data", "scenes", "--images", "24", "--json")
    first, second = (json.loads(call(*arguments)[1]) for _ in range(2))
    assert {**first, "seconds": 0} == {**second, "seconds": 0}


def test_several_models_make_a_gallery(call, model, tmp_path):
    arguments = ("phases", model, model, "--data", "scenes", "--images", "16", "--json", "--out", tmp_path / "run")
    code, out, _ = call(*arguments)
    result = json.loads(out)
    assert code == 0
    assert [set(one) >= KEYS | {"images", "layers"} for one in result["models"]] == [True, True]
    assert result["figures"] == ["figures/gallery.png"]
    assert (tmp_path / "run/figures/gallery.svg").exists()
    assert (tmp_path / "run/figures/2-similarity.png").exists()
    record = from_plain(Record[AnyPhasesResult], result)
    assert isinstance(record.result, PhasesComparison)
    assert to_plain(record) == result


def test_a_person_reads_which_number_of_phases_was_taken(call):
    code, out, _ = call("phases", "--matrix", MATRIX, "--distance")
    assert code == 0
    assert "2 (taken, useful)" in out
    assert "suggested" not in out  # the form of similarity is no answer
    assert "The best partition into 2 phases is 7-5" in " ".join(out.split())


def test_a_solver_that_is_not_exact_says_so(call, tmp_path):
    rng = np.random.default_rng(3)
    for _ in range(30):
        x = rng.normal(size=(10, 5))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        np.savetxt(tmp_path / "matrix.csv", x @ x.T, delimiter=",")
        arguments = ("phases", "--matrix", tmp_path / "matrix.csv", "--k", "3", "--solver", "recursive", "--json")
        result = json.loads(call(*arguments)[1])
        assert ("is not exact" in result["words"][0]) == (result["runner_up"]["gap"] < 0)


def written(path, text):
    path.write_text(text)
    return path


def test_mistakes_are_one_line_and_exit_2(call, model, tmp_path):
    good = "1,0.5\n0.5,1\n"
    cases = [
        ((), "--matrix"),
        ((model, "--matrix", MATRIX), "--matrix"),
        ((model,), "--data"),
        ((model, "--data", "scenes", "--k", "4"), "6 layers cannot be split into 4"),
        ((model, "--data", "scenes", "--k", "0"), "at least 1"),
        ((model, "--data", "scenes", "--k", "some"), "'auto', not 'some'"),
        ((model, "--data", "scenes", "--k", "-1"), "'auto', not '-1'"),
        ((model, "--data", "scenes", "--group", "window"), "no token group 'window'"),
        ((model, "--data", "scenes", "--distance"), "--distance needs --matrix"),
        (("--matrix", MATRIX), "--distance"),
        (("--matrix", MATRIX, "--distance", "--k", "7"), "k is at most 6"),
        (("--matrix", MATRIX, "--distance", "--group", "cls"), "leave out --group"),
        (("--matrix", MATRIX, "--distance", "--images", "3"), "leave out --images"),
        ((model, "--data", "scenes", "--objective", "worst"), "weighted, mean, cut"),
        (("--matrix", written(tmp_path / "same.csv", "1,0.5\n0.5,1\n"), "--distance"), "--distance"),
        (("--matrix", MATRIX, "--distance", "--objective", "worst"), "weighted, mean, cut"),
        (("--matrix", MATRIX, "--distance", "--solver", "worst"), "dp, recursive, exhaustive"),
        (("--matrix", tmp_path / "none.csv"), "No such file"),
        (("--matrix", tmp_path), "cannot read"),
        (("--matrix", written(tmp_path / "oblong.csv", "1,0.5,0\n0.5,1,0\n")), "square"),
        (("--matrix", written(tmp_path / "ragged.csv", "1,0.5\n0.5\n")), "length"),
        (("--matrix", written(tmp_path / "empty.csv", "")), "length"),
        (("--matrix", written(tmp_path / "skew.csv", "1,0.5\n0.1,1\n")), "symmetric"),
        (("--matrix", written(tmp_path / "nan.csv", "1,nan\nnan,1\n")), "NaN"),
        (("--matrix", written(tmp_path / "big.csv", "1,7\n7,1\n")), "[-1, 1]"),
        (("--matrix", written(tmp_path / "words.csv", "a,b\nc,d\n")), "cannot read a matrix of numbers"),
        (("--matrix", written(tmp_path / "good.csv", good), "--k", "2"), "2 layers cannot be split into 2"),
    ]
    for arguments, message in cases:
        code, out, err = call("phases", *arguments)
        assert (code, out) == (2, ""), arguments
        assert err.startswith("error: "), arguments
        assert err.count("\n") == 1, arguments
        assert message in err, (arguments, err)


def test_a_matrix_has_a_figure_of_depth_without_certainty(call):
    _, out, _ = call("phases", "--matrix", MATRIX, "--distance", "--json")
    result = from_plain(Record[AnyPhasesResult], json.loads(out)).result
    drawn = json.dumps(phases_by_k(result, "").chart.to_dict())
    assert "too few images to resample" in drawn
    assert "boundary:N" not in drawn


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("scenes", "--by", "magic"), "magic"),
        (("scenes", "--by", "function", "--function-images", "1"), "function-images"),
        (("scenes", "--by", "fit", "--fit-images", "x"), "fit-images"),
        (("--matrix", MATRIX, "--distance", "--by", "fit"), "similarity alone"),
        (("--matrix", MATRIX, "--distance", "--function-images", "8"), "similarity alone"),
    ],
)
def test_mistakes_about_methods_are_one_line(call, arguments, says):
    code, out, err = call("phases", *arguments, "--quiet")
    assert (code, out) == (2, "")
    assert says in err
    assert err.startswith("error: ")


def test_by_function_on_the_command_line(call, trained, tmp_path):
    code, _, err = call(
        "phases", trained, "--data", "scenes", "--by", "fit", "--images", 16, "--function-images", 4, "--fit-images", 8,
        "--device", "cpu", "--out", tmp_path / "out",
    )  # fmt: skip
    assert code == 0, err
    found = json.loads((tmp_path / "out" / "result.json").read_text())
    layers = found["layers"]
    assert found["by"] == "fit"
    assert set(found["agreement"]) >= {"similarity", "function", "fit", "even"}
    assert np.shape(found["function"]["update_cosine"]["all"]) == (layers, layers)
    assert np.shape(found["function"]["relative_error"]["cls"]) == (layers, layers)
    assert set(found["explained"]) == {"drift", "paced_drift", "hybrid", "blocks"}
    assert {"held", "within", "across", "p"} <= set(found["interchangeable"])
    assert len(found["fit"]["surrogate"]["r2"]["all"]) == layers
    read = raptor.read_result(tmp_path / "out")
    assert str(read.result.phases) == found["phases"]

"""The comparison itself: what it must report, it reports."""

from __future__ import annotations

import copy
import json

import pytest

from comparer import compact, differences, prose_differences, report
from extraction import Extract, of_folder, table_in
from helptext import parsed

FROZEN = {
    "layers": 12,
    "phases": "7-3-2",
    "verdict": "paced drift",
    "held": None,
    "ok": True,
    "r2": {"cls": [0.1234567890123456, 0.5], "patch": [1e-9, None]},
    "rows": [{"name": "a", "value": 1.5}, {"name": "b", "value": 2.5}],
    "long": [index / 7 for index in range(500)],
}


@pytest.fixture(params=["0", "1"], ids=["tolerant", "exact"])
def exact(request, monkeypatch):
    """Compare with tolerance, then to the last digit."""
    monkeypatch.setenv("RAPTOR_GOLDEN_EXACT", request.param)
    return request.param == "1"


def changed(change):
    """Return the lines about a change of the frozen values."""
    fresh = copy.deepcopy(FROZEN)
    change(fresh)
    return list(differences(compact(FROZEN), compact(fresh)))


def test_the_same_has_no_differences(exact):
    assert changed(lambda fresh: None) == []


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda f: f["r2"]["cls"].__setitem__(1, 0.51), "$.r2.cls[1]: frozen 0.5, fresh 0.51"),
        (lambda f: f["r2"]["cls"].__setitem__(1, -0.5), "$.r2.cls[1]: frozen 0.5, fresh -0.5"),
        (lambda f: f["r2"]["patch"].__setitem__(1, 0.0), "$.r2.patch[1]: frozen None, fresh 0.0"),
        (lambda f: f.__setitem__("layers", 13), "$.layers: frozen 12, fresh 13"),
        (lambda f: f.__setitem__("ok", 1), "$.ok: frozen True, fresh 1"),
        (lambda f: f.__setitem__("held", False), "$.held: frozen None, fresh False"),
        (lambda f: f.pop("phases"), "$.phases: missing (frozen '7-3-2')"),
        (lambda f: f["r2"].pop("patch"), "$.r2.patch: missing (frozen [1e-09, None])"),
        (lambda f: f.__setitem__("more", 1), "$.more: added (fresh 1)"),
        (lambda f: f.__setitem__("verdict", "drift"), "$.verdict: frozen 'paced drift', fresh 'drift'"),
        (lambda f: f["rows"][1].__setitem__("value", 3.5), "$.rows[1].value: frozen 2.5, fresh 3.5"),
        (lambda f: f["rows"][1].__setitem__("name", "c"), "$.rows[1].name: frozen 'b', fresh 'c'"),
        (lambda f: f["rows"].pop(), "$.rows: frozen has 2 items, fresh has 1"),
        (lambda f: f["long"].pop(), "$.long.length: frozen 500, fresh 499"),
        (lambda f: f["long"].__setitem__(0, 1.0), "$.long.first[0]: frozen 0.0, fresh 1.0"),
        (lambda f: f["long"].__setitem__(250, 99.0), "$.long.sum: frozen "),
    ],
)
def test_a_change_is_reported_with_its_path(exact, change, line):
    lines = changed(change)
    assert any(found.startswith(line) for found in lines), lines


def test_the_last_digit_counts_in_exact_mode_alone(exact):
    lines = changed(lambda f: f["r2"]["cls"].__setitem__(0, 0.1234567890123457))
    assert lines == (["$.r2.cls[0]: frozen 0.1234567890123456, fresh 0.1234567890123457"] if exact else [])
    lines = changed(lambda f: f["long"].__setitem__(250, f["long"][250] * (1 + 1e-15)))
    assert any("sha256" in line for line in lines) == exact
    assert bool(lines) == exact


def test_a_message_names_the_first_difference():
    lines = [f"$.a[{index}]: frozen 0, fresh 1" for index in range(30)]
    assert report("values of probe", lines).startswith(
        "values of probe: 30 differences, the first: $.a[0]: frozen 0, fresh 1"
    )


def test_texts_are_compared_word_by_word_and_number_by_number(exact):
    frozen = {"words": "R2 0.123 on 1,000 images"}
    assert list(prose_differences(frozen, dict(frozen))) == []
    for text in ("R2 0.123 of 1,000 images", "R2 0.133 on 1,000 images", "R2 0.123 on 1,010 images", ""):
        assert list(prose_differences(frozen, {"words": text})), text
    assert list(prose_differences(frozen, {})) == ["words: missing"]
    assert next(prose_differences({}, frozen)).startswith("words: added")
    # Another machine may round the last digit otherwise.
    assert bool(list(prose_differences(frozen, {"words": "R2 0.124 on 1,000 images"}))) == exact


def test_values_and_texts_are_parted_and_times_left_out():
    found = Extract()
    found.add("result.json", {"seconds": 1.0, "claim": {"text": "it holds", "held": True}, "notes": [], "r2": 0.5})
    assert found.values == {"result.json": {"claim": {"text": "(text)", "held": True}, "notes": "(text)", "r2": 0.5}}
    assert found.texts == {"result.json.claim.text": "it holds"}


def test_a_changed_cell_of_a_table_is_reported():
    frozen = "group,layer,value\ncls,0,0.5\ncls,1,nan\n"
    for fresh in (frozen.replace("0.5", "0.6"), frozen.replace("cls,1", "patch,1"), frozen.replace("nan", "0"),
                  frozen.replace("value", "size"), frozen.replace("cls,1,nan\n", "")):  # fmt: skip
        assert list(differences(table_in(frozen), table_in(fresh))), fresh


def test_a_changed_figure_or_file_is_reported(tmp_path):
    def extracted(value, name):
        folder = tmp_path / name
        folder.mkdir()
        spec = {"title": "Norms", "hconcat": [{"data": {"values": [{"x": 0, "y": value}]}}]}
        (folder / "norms.vl.json").write_text(json.dumps(spec))
        return of_folder(folder)

    one, same, other = extracted(1.0, "a"), extracted(1.0, "b"), extracted(2.0, "c")
    assert list(differences(one.values, same.values)) == []
    assert list(differences(one.values, other.values)) == [
        "$.norms.vl.json[0].columns.y[0]: frozen 1.0, fresh 2.0",
    ]
    assert one.texts == {"norms.vl.json": "Norms"}
    (tmp_path / "b" / "more.csv").write_text("a\n1\n")
    assert list(differences(one.values, of_folder(tmp_path / "b").values))


def test_options_of_a_help_text_are_parsed():
    text = """Usage: raptor plan [OPTIONS] {model}

  What it would cost.

Arguments:
  model <str>  scenes, or a directory.  [required]

Options:
  --dataset-size <int range>  Training images.  [x>=1; required]
  --epochs <float range>      Of each of the two
                              stages.  [default: 20.0;
                              x>=0]
  --out <path>                Directory for figures/.
  --json                      Print JSON.
"""
    assert parsed(text) == {
        "usage": "Usage: raptor plan [OPTIONS] {model}",
        "arguments": {"model": {"metavar": "<str>", "default": None, "said": ["required"]}},
        "options": {
            "--dataset-size": {"metavar": "<int range>", "default": None, "said": ["x>=1", "required"]},
            "--epochs": {"metavar": "<float range>", "default": "20.0", "said": ["x>=0"]},
            "--out": {"metavar": "<path>", "default": None, "said": []},
            "--json": {"metavar": "", "default": None, "said": []},
        },
    }
    changed_default = parsed(text.replace("20.0", "10.0"))
    assert list(differences(parsed(text), changed_default)) == [
        "$.options.--epochs.default: frozen '20.0', fresh '10.0'"
    ]

"""What comes from elsewhere: numbers that the paper printed, and exponents that come with the bundled ViT."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from raptor.core.estimate import Estimate
from raptor.core.phases import Phases
from raptor.core.serialize import to_plain
from raptor.dynamics.claims.claim import Claim
from raptor.dynamics.figures.further import expansion
from raptor.dynamics.lyapunov import LyapunovResult
from raptor.dynamics.references import shipped
from raptor.dynamics.references.published import RANK, beside_the_paper
from raptor.dynamics.text import claims, unresolved
from raptor.reporting.collect import collect
from raptor.runtime.rundir import Record


@pytest.fixture(scope="module")
def measured(demo_run):
    (subject,) = collect([demo_run])
    (run,) = subject.of("dynamics")
    return run.record.result


def test_the_paper_stands_beside_the_model_and_its_surrogate(measured):
    table = beside_the_paper(measured)
    (surrogate,) = measured.against.models.items()
    assert surrogate[0] in table.columns
    rows = {(row[0], row[1]): row for row in table.rows}
    last = rows["stable rank of the updates, last step", "patch"]
    curve = measured.curves["stable_rank"]
    assert last[2].value.value == curve.mean["patch"][-1]
    assert last[3].value.value == surrogate[1].curves["stable_rank"].mean["patch"][-1]
    assert last[-1] == "about 6"
    label = "cosine with the last layer (layer L - 1 for tokens that the classifier does not read), one layer before it"
    for group in ("cls", "patch"):  # the cosine of a layer with itself would be 1 by definition
        gamma = rows[label, group][2]
        assert gamma.value.value == measured.curves["gamma"].mean[group][measured.last_layer[group] - 1] < 1
    radius = rows["largest modulus of DMD eigenvalues", "cls"]
    largest = max(abs(one) for one in measured.dmd["cls"].eigenvalues)
    assert radius[2].value.value == pytest.approx(largest, rel=1e-6)


def test_the_figure_of_ranks_has_the_line_of_the_paper(demo_run):
    spec = json.loads((demo_run / "dynamics" / "figures" / "ranks.vl.json").read_text())
    lines = [
        [row["value"] for part in panel["layer"] for row in _values(part, spec) if set(row) == {"value"}]
        for panel in spec["hconcat"]
    ]
    assert lines == [[RANK], [], [RANK]]  # the paper has no centred rank


def _values(part, spec):
    data = part.get("data", {"values": []})
    return data["values"] if "values" in data else spec["datasets"][data["name"]]


def test_a_claim_that_is_not_above_its_null_has_no_tick(measured):
    held = Claim("tokens turn", True, "measured", beyond_null=True)
    found = replace(measured, claims=[held, replace(held, text="tokens move", beyond_null=False)])
    marks = [row[1].html() for row in claims(found).rows]
    assert 'data-held="yes"' in marks[0]
    assert 'data-held="not above its null"' in marks[1]
    record = Record(1, "dynamics", "0", 0, 8, 12, 1.0, found)
    assert unresolved(record) == ["Tokens move: holds, not significantly above its null."]


def test_stored_exponents_are_used_for_the_same_phases_and_said(measured, tmp_path, monkeypatch):
    exponents = LyapunovResult(Estimate([[0.1], [-0.2]], [[0.0], [-0.3]], [[0.2], [-0.1]], 8), 8)
    stored = {"command": "raptor dynamics scenes", "phases": "5-7", "lyapunov": to_plain(exponents)}
    (tmp_path / shipped.NAME).write_text(json.dumps(stored))
    monkeypatch.setattr(shipped, "SHIPPED", tmp_path)
    bare = replace(measured, lyapunov=None, phases=Phases((5, 7)))
    found = shipped.with_shipped_exponents(bare, "scenes")
    assert found.lyapunov.mean.value == exponents.mean.value
    assert found.lyapunov_from == "raptor dynamics scenes"
    assert "Not measured in this run" in json.dumps(expansion(found, "scenes").chart.to_dict()["title"])
    assert "Not measured" not in json.dumps(
        expansion(replace(found, lyapunov_from=None), "scenes").chart.to_dict()["title"]
    )
    for other, model in ((replace(bare, phases=Phases((6, 6))), "scenes"), (bare, "photos"), (found, "scenes")):
        assert shipped.with_shipped_exponents(other, model) is other

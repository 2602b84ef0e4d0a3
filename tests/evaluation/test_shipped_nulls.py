"""Nulls that come with a bundled surrogate."""

from __future__ import annotations

import json

from raptor.core.estimate import LayerEstimates
from raptor.core.serialize import to_plain
from raptor.evaluation import shipped
from raptor.evaluation.cost import CostRatio, DescriptionLength
from raptor.evaluation.evaluate import FidelityResult
from raptor.evaluation.nulls import NullFidelity

ONE = LayerEstimates({"all": [0.1]}, {"all": [0.0]}, {"all": [0.2]}, 8)
COST, LENGTH = CostRatio(1, 2, 0.5), DescriptionLength(1.0, 2, 1.0)
EMPTY = FidelityResult(None, None, None, None, None, COST, COST, LENGTH, [], {"r2": ONE})


def test_they_are_added_with_the_command_that_measured_them(tmp_path, monkeypatch):
    nulls = {"random": NullFidelity(ONE, ONE, ONE, 8, [2, 2])}
    (tmp_path / "nulls.json").write_text(json.dumps({"command": "raptor fidelity", "nulls": to_plain(nulls)}))
    monkeypatch.setattr(shipped, "SHIPPED_SURROGATES", {"scenes:k9": tmp_path})
    found = shipped.with_shipped_nulls(EMPTY, "scenes:k9")
    assert found.nulls_from == "raptor fidelity"
    assert found.nulls["random"].skill.mean == ONE.mean
    assert found.nulls["random"].steps == [2, 2]
    assert shipped.with_shipped_nulls(EMPTY, "runs/raptor") is EMPTY
    assert shipped.with_shipped_nulls(found, "scenes:k9") is found

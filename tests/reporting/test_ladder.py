"""The ladder of evidence: its rules, and what people read."""

from __future__ import annotations

import math

import pytest

from raptor.core.estimate import Estimate, LayerEstimates
from raptor.core.phases import Phases
from raptor.evaluation.nulls import NullFidelity
from raptor.evaluation.rewritable import rewritable_rung
from raptor.render.registry import RUNGS, Rung
from raptor.reporting.ladder import headline, ladder, lines, mark


def layers(value, wide=0.02):
    return LayerEstimates({"all": [0.0, value]}, {"all": [0.0, value - wide]}, {"all": [0.0, value + wide]}, 64)


class Measured:
    """What the rule reads of a result of fidelity."""

    def __init__(self, skill, nulls=None, wide=0.02):
        self.by_layer, self.phases, self.n, self.nulls_from = (
            {"skill": layers(skill, wide)},
            Phases((5, 5, 2)),
            64,
            None,
        )
        self.nulls = nulls and {
            name: NullFidelity(layers(one), layers(one), layers(one), 64, [100, 100]) for name, one in nulls.items()
        }


@pytest.mark.parametrize(
    ("measured", "held"),
    [
        (Measured(0.9, {"random": 0.3, "untrained": -2.0, "shuffled": 0.5}), True),
        (Measured(0.9, {"random": 0.85}), False),  # not above the best null
        (Measured(0.9, {"random": 0.77}), None),  # by about the margin
        (Measured(0.4, {"random": 0.1}), False),  # too little for any null
        (Measured(0.5, {"random": 0.1}), None),
        (Measured(0.95, {"teacher": 0.6, "random": 0.55}), False),  # like with like: as many steps for both
        (Measured(0.95, {"teacher": 0.8, "random": 0.55}), True),
        (Measured(0.95, {"random": 0.95}), None),  # skill is at most 1: the margin cannot be reached
        (Measured(0.85, {"random": 0.95}), False),  # but the control can be ahead
        (Measured(0.9), None),  # no null
        (Measured(0.3), False),
    ],
)
def test_rewritable(measured, held):
    rung = rewritable_rung(measured, 64)
    assert (rung.rung, rung.held) == ("rewritable", held)
    assert "3 blocks" in rung.text
    assert (rung.null is None) == (measured.nulls is None)


def test_the_best_null_is_the_one_that_counts():
    rung = rewritable_rung(Measured(0.9, {"random": 0.3, "untrained": -2.0, "shuffled": 0.5}), 64)
    assert rung.null == 0.5
    worse = rewritable_rung(Measured(0.9, {"random": 0.95, "shuffled": 0.5}), 64)
    assert worse.short == "3 blocks can replace the layers, but 3 blocks can also replace those of a control network"
    assert rewritable_rung(Measured(0.4, {"random": 0.1}), 64).short == "3 blocks are not enough"
    assert rung.value.value == 0.9


RUNG = Rung("interchangeable", False, Estimate(1.2, 1.1, 1.3, 64), 1.0, "Text.", short="layers not interchangeable")


def test_words_are_as_measured():
    rewritable = Rung("rewritable", True, Estimate(0.9, 0.8, 1.0, 64), 0.3, "More.", short="rewritable by 3 blocks")
    form = Rung("form", None, Estimate(0.98, math.nan, math.nan, 64), None, "Drift.")
    assert headline([form, RUNG, rewritable]) == (
        "Is depth a recurrence? In part: rewritable by 3 blocks, but layers not interchangeable."
    )
    assert headline([form]) is None
    assert [mark(rung) for rung in (form, RUNG, rewritable)] == ["description only", "no", "yes"]
    assert lines([form, RUNG])[1:] == [
        f"{RUNGS['form']} Description only. Drift.", f"{RUNGS['interchangeable']} No. Text.",
    ]  # fmt: skip
    assert set(RUNGS) == {"form", "interchangeable", "rewritable", "same_system"}


@pytest.mark.parametrize(
    ("rewritable", "interchangeable", "said"),
    [
        (True, True, "Yes: a, and b."),
        (True, False, "In part: a, but b."),
        (True, None, "In part: a; b."),
        (False, True, "In part: a; b."),
        (False, False, "Not shown: a; b."),
        (False, None, "Inconclusive: a; b."),
        (None, False, "Inconclusive: a; b."),
        (None, None, "Inconclusive: a; b."),
    ],
)
def test_one_sentence_says_the_verdict(rewritable, interchangeable, said):
    rungs = [Rung("interchangeable", interchangeable, short="b"), Rung("rewritable", rewritable, short="a")]
    assert headline(rungs) == f"Is depth a recurrence? {said}"
    same = Rung("same_system", True, short="c")
    assert headline([*rungs, same]) == f"Is depth a recurrence? {said} C."
    alone = {True: "In part", False: "Inconclusive", None: "Inconclusive"}[rewritable]
    assert headline(rungs[1:]) == f"Is depth a recurrence? {alone}: a."
    assert headline([same]) == "C."


def test_the_demo_tells_the_ladder_first(demo_run):
    from raptor.reporting.collect import collect
    from raptor.runtime.verbs import import_features

    import_features("command", "text")
    (subject,) = collect([demo_run])
    rungs = ladder(subject)
    assert [rung.rung for rung in rungs] == list(RUNGS)
    assert all(rung.value is not None and rung.text for rung in rungs)
    assert not any("n = 0" in rung.text for rung in rungs)
    assert all(rung.model == "scenes" for rung in rungs)
    page = (demo_run / "report.html").read_text()
    assert page.index(headline(rungs)) < page.index('id="m0-depth"')

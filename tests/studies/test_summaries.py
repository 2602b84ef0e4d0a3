"""What studies conclude from results that are known."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from raptor.core.estimate import Estimate, LayerEstimates
from raptor.core.phases import Phases
from raptor.core.preprocessing import Preprocessing
from raptor.data.options import LoadOptions
from raptor.data.scenes import draw as scenes
from raptor.studies.experiments.emergence import CheckpointResult
from raptor.studies.experiments.k_curve import BlocksResult
from raptor.studies.jobs import Done, Results
from raptor.studies.phase_summary import PhaseSummary
from raptor.studies.registry import load_studies
from raptor.studies.setting import StudentResult, StudySetting, TeacherResult
from raptor.studies.size import SIZES

STUDIES = load_studies()


def setting(**size):
    used = Preprocessing((32, 32), None, mean=scenes.MEAN, std=scenes.STD)
    return StudySetting("scenes", used, LoadOptions(), replace(SIZES["smoke"], **size), Path(), Path())


def done(results):
    return Done(Results(results), {}, {})


def estimate(value, width=0.0):
    return Estimate(value, value - width, value + width)


def student(phases, r2, seed=0, recovered=None):
    layers = LayerEstimates(
        *({group: [value] for group in ("all", "cls", "patch")} for value in (r2, r2 - 0.05, r2 + 0.05))
    )
    share = r2 if recovered is None else recovered
    return StudentResult(
        phases=Phases.parse(phases), n=24, parameters=10, r2=layers, pearson2=layers, cosine=layers,
        teacher=estimate(0.5), surrogate=estimate(r2), recovered=estimate(share), train_seconds=1.0, seed=seed,
    )  # fmt: skip


def summary_of(verdict="blocks", within=0.9, between=0.5, phases="3-3"):
    return PhaseSummary(Phases.parse(phases), verdict, 2, [[1.0]], within, between, 24)


def trained(top1):
    return TeacherResult(estimate(top1), 24, 1.0, 0.0, 0, 10)


def test_a_teacher_that_is_never_right_stops_no_summary():
    """The share that is recovered of nothing is not a number, and null in the file of a job."""

    def none(phases):
        return student(phases, 0.5, recovered=math.nan)

    for name, results in (
        ("ablation", {f"ablation/{number:02}-s0": none("2-2-2") for number in range(13)}),
        ("partitions", {"partitions/found-k2-s0": none("3-3"), "partitions/2-4": none("2-4")}),
    ):
        summary = STUDIES[name].summarise(setting(), done(results))
        assert summary.rows
        assert "0.5" in str(summary.rows)


def test_found_partitions_stand_where_they_stand():
    found = {f"partitions/found-k2-s{seed}": student("3-3", value, seed) for seed, value in ((0, 0.8), (1, 0.7))}
    others = {f"partitions/{cut}": student(cut, value) for cut, value in (("1-5", 0.5), ("2-4", 0.9), ("3-3", 0.1))}
    summary = STUDIES["partitions"].summarise(setting(), done({**found, **others}))
    # The found one among the others is not counted against itself.
    assert "R2 0.750 (n = 2 seeds, 0.700 to 0.800), above 1 of 2 others (best 0.900" in summary.claim.evidence
    assert summary.claim.held is False  # half is not most
    more = {**found, **others, "partitions/4-2": student("4-2", 0.4)}
    assert STUDIES["partitions"].summarise(setting(), done(more)).claim.held is True
    worse = {**found, "partitions/1-5": student("1-5", 0.9), "partitions/2-4": student("2-4", 0.9)}
    assert STUDIES["partitions"].summarise(setting(), done(worse)).claim.held is False


@pytest.mark.parametrize(
    ("within", "r2", "held"), [(0.9, 0.8, True), (0.4, 0.8, False), (0.9, 0.52, False)], ids=["both", "alike", "close"]
)
def test_training_must_change_both_and_by_more_than_the_images_say(within, r2, held):
    def at(within, r2):
        return CheckpointResult(summary_of("paced drift", within, 0.3, "2-2-2"), student("2-2-2", r2))

    results = {"emergence/at-0": at(0.5, 0.5), "emergence/at-1": at(within, r2)}
    claim = STUDIES["emergence"].summarise(setting(), done(results)).claim
    assert claim.held is held
    assert "untrained: cosine 0.500 within phases and 0.300 between, R2 of cls 0.500 [0.450, 0.550]" in claim.evidence


def test_a_rise_with_the_rate_must_be_more_than_chance():
    """Four teachers in the order of their rates are evidence, by one pairing in 24; two are not."""
    rates, seeds = (0.0, 0.2, 0.4, 0.6), (0, 1, 2)
    results = {}
    for rate in rates:
        results[f"teachers/p{rate:g}-s0"] = trained(0.5 - rate / 10)
        results[f"stochastic-depth/look-p{rate:g}"] = summary_of(within=0.8 + rate**2, phases="2-2-2")
        for seed in seeds:
            results[f"stochastic-depth/student-p{rate:g}-s{seed}"] = student("2-2-2", 0.5 + rate / 2 + 0.01 * seed)
    study = STUDIES["stochastic-depth"]
    summary = study.summarise(setting(drop_paths=rates, seeds=seeds), done(results))
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
    assert not study.summarise(few, done(results)).claim.held


@pytest.mark.parametrize(("useful", "held"), [(3, True), (2, False), (4, False), (1, False)])
def test_where_blocks_stop_paying_is_told_to_the_next_number_that_was_tried(useful, held):
    r2 = {1: 0.5, 2: 0.8, 3: 0.9, 4: 0.905}
    results = {
        f"k-curve/w16-k{k}": BlocksResult(student("-".join("1" * k), value), 1, useful) for k, value in r2.items()
    }
    summary = STUDIES["k-curve"].summarise(setting(ks=tuple(r2)), done(results))
    assert summary.claim.held is held
    assert f"a block more adds below 0.01 from k = 3 on (useful k: {useful}, suggested: 1)" in summary.claim.evidence


def test_untrained_teachers_do_not_count_among_those_with_phases():
    gallery, used = STUDIES["gallery"], setting(widths=(8, 16))
    results = {job.name: trained(0.5) for job in gallery.jobs(used) if job.name.startswith("teachers/")}
    looks = {job.name: summary_of() for job in gallery.jobs(used) if job.name not in results}
    assert len(looks) == 4
    looks["gallery/untrained"] = summary_of("drift")
    summary = gallery.summarise(used, done({**results, **looks}))
    assert summary.claim.held is True
    assert summary.claim.evidence.startswith("3 of 3 trained teachers are blocks; drop path 0: blocks (3-3)")
    assert [row.model for row in summary.rows] == ["drop path 0", "drop path 0.4", "width 8", "untrained"]
    looks["gallery/w8"] = summary_of("paced drift")
    assert gallery.summarise(used, done({**results, **looks})).claim.held is False


def test_phases_are_found_on_images_that_nothing_is_measured_on():
    one = setting()
    assert len(one.for_phases()) == len(one.held_out())
    assert not one.for_phases().image_keys() & one.held_out().image_keys()

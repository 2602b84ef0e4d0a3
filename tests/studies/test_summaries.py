"""What studies conclude from results that are known."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from raptor.studies.analysis import smallest_detected
from raptor.studies.experiments.ablation import HYPOTHESIS as STEPS
from raptor.studies.experiments.ablation import RecipeRow, judge_steps
from raptor.studies.experiments.k_curve import elbow
from raptor.studies.options import STUDY_NAMES
from raptor.studies.registry import load_studies
from study_results import condition, done, look, setting, student, teacher

STUDIES = load_studies()
SEEDS = (0, 1, 2)


def claim_of(name, results, **size):
    return STUDIES[name].summarise(setting(seeds=SEEDS, **size), done(results)).claim


@pytest.mark.parametrize("name", STUDY_NAMES)
def test_no_results_are_inconclusive(name):
    summary = STUDIES[name].summarise(setting(), done({}))
    assert summary.rows == []
    assert summary.claim.held is None


def two_conditions(one, other, excess, noise=(0.0, 0.01, 0.02)):
    results = {}
    for name, value in zip((one, other), excess, strict=True):
        for seed in SEEDS:
            results |= condition(name, seed, 0.5 + value + noise[seed], 0.5)
    return results


@pytest.mark.parametrize(
    ("study", "one", "other"),
    [("emergence", "standard", "untrained"), ("overfitting", "standard", "subset"), ("controls", "tied", "random"),
     ("stochastic-depth", "drop0.4", "standard")],
)  # fmt: skip
@pytest.mark.parametrize(
    ("excess", "held"), [((0.2, 0.0), True), ((0.0, 0.2), False), ((0.03, 0.0), None)], ids=["more", "less", "unclear"]
)
def test_the_outcome_is_the_skill_beyond_a_random_network(study, one, other, excess, held):
    """Differences of 0.03 with a deviation of 0.01 are neither surely above 0 nor surely below the smallest effect."""
    noise = (0.0, 0.01, 0.02) if held is not None else (0.0, 0.02, 0.05)
    claim = claim_of(study, two_conditions(one, other, excess, noise))
    assert claim.held is held
    groups = [[value + extra for extra in noise] for value in excess]
    expected = stats.ttest_ind(*groups).confidence_interval(0.95)
    assert claim.effect.value == pytest.approx(excess[0] - excess[1])
    assert claim.effect.ci == pytest.approx([expected.low, expected.high])


def test_controls_are_counted_seed_by_seed():
    results = two_conditions("tied", "random", (0.3, 0.0), (0.0, 0.01, -0.08))  # errors of 0.2, 0.19 and 0.28 of 0.5
    evidence = claim_of("controls", results).evidence
    assert "tied: excess" in evidence
    assert "a random network's 0.45 [" in evidence
    assert "in 2 of 3 seeds; standard" in evidence
    assert evidence.endswith("in 0 of 3 seeds")


def test_learning_less_is_separated_from_dropping_layers():
    """Teachers that were stopped early have the same outcome as those with stochastic depth: no effect of its own."""
    results = two_conditions("drop0.4", "standard", (0.2, 0.0))
    for seed in SEEDS:
        results |= condition("early", seed, 0.7 + 0.01 * seed, 0.5, top1=0.3, share=0.2)
    summary = STUDIES["stochastic-depth"].summarise(setting(seeds=SEEDS), done(results))
    assert "against standard teachers stopped at the same accuracy 0.000 [-0.0" in summary.claim.evidence
    smallest = smallest_detected(0.01, 3)
    assert f"detects in 80% of simulations {smallest:.3f}" in summary.claim.evidence
    assert summary.claim.smallest_effect == 0.06
    assert {(row.condition, row.share) for row in summary.rows} == {("standard", 1), ("drop0.4", 1), ("early", 0.2)}
    assert [row.excess for row in summary.rows if row.condition == "early"] == pytest.approx([0.2, 0.21, 0.22])


def partition_results(similarity, random):
    results = {}
    for seed in SEEDS:
        for by, cut, value in (
            ("similarity", "3-2-2", similarity[seed]), ("random0", "2-3-2", random[seed]),
            ("random1", "2-2-3", random[seed] + 0.2), ("shuffled0", "1,2,1,3,2,1,3", 0.1),
        ):  # fmt: skip
            results[f"partitions/{by}-s{seed}"] = student(cut, value, seed)
    return results


@pytest.mark.parametrize(
    ("similarity", "held"), [((0.9, 0.91, 0.92), True), ((0.5, 0.51, 0.52), False), ((0.9, 0.5, 0.7), None)]
)
def test_found_cuts_are_compared_with_the_random_ones_of_the_same_teacher(similarity, held):
    random = (0.6, 0.61, 0.62)
    claim = claim_of("partitions", partition_results(similarity, random), others=2, shuffled=1)
    assert claim.held is held
    differences = [own - (other + 0.1) for own, other in zip(similarity, random, strict=True)]
    assert claim.effect.value == pytest.approx(sum(differences) / 3)
    if held is not None:
        assert "shuffled less random: skill -0.610 [-0.635, -0.585], n = 3" in claim.evidence


def rows_of(changes):
    """Return rows of steps whose accuracy changes by these values, a list by seed for each step."""
    rows = [RecipeRow("0", seed, 0.1, 0.1, 0.0, 0.0, 0.0, 1.0) for seed in SEEDS]
    for step, by_seed in enumerate(changes, start=1):
        for seed in SEEDS:
            before = next(row.top1 for row in rows if (row.row, row.seed) == (str(step - 1), seed))
            rows.append(RecipeRow(str(step), seed, before + by_seed[seed], 0.1, 0.0, 0.0, 0.0, 1.0))
    return rows


@pytest.mark.parametrize(
    ("changes", "held", "weakest"),
    [
        ([(0.1, 0.11, 0.12), (0.05, 0.06, 0.05)], True, 0.16 / 3),
        ([(0.1, 0.11, 0.12), (0.001, 0.002, 0.001)], False, 0.004 / 3),
        ([(0.1, 0.11, 0.12), (0.05, -0.01, 0.02)], None, 0.02),
        ([(0.05, -0.01, 0.02), (0.03, -0.03, -0.003)], None, -0.001),
        ([(0.05, -0.01, 0.02), (-0.1, -0.11, -0.12)], False, -0.11),
    ],
    ids=["all rise", "one stands still", "one is unclear", "two are unclear", "one falls"],
)
def test_every_step_must_add_accuracy(changes, held, weakest):
    claim = judge_steps(rows_of(changes), ["0", "1", "2"])
    assert claim.held is held
    assert claim.effect.value == pytest.approx(weakest)
    assert claim.smallest_effect == STEPS.smallest


def test_teachers_are_paired_by_their_seed():
    """The early stop of the first seed failed: the others are compared with theirs, not with the next ones."""
    results = two_conditions("drop0.4", "standard", (0.2, 0.0), (0.0, 0.05, 0.2))
    for seed, skill in ((1, 0.7), (2, 0.75)):
        results |= condition("early", seed, skill, 0.5, top1=0.3, share=0.2)
    evidence = claim_of("stochastic-depth", results).evidence
    low, high = stats.ttest_1samp((0.05, 0.15), 0).confidence_interval()
    assert f"paired by seed 0.100 [{low:.3f}, {high:.3f}], n = 2" in evidence


def test_a_null_without_any_error_has_no_error_ratio():
    results = two_conditions("tied", "random", (0.1, 0.0))
    results |= condition("tied", 0, 1.0, 1.0)
    summary = STUDIES["controls"].summarise(setting(seeds=SEEDS), done(results))
    ratios = [row.error_ratio for row in summary.rows if row.condition == "tied"]
    assert math.isnan(ratios[0])
    assert ratios[1:] == pytest.approx([0.39 / 0.5, 0.38 / 0.5])


def test_recipes_of_the_ablation_have_equal_steps():
    from raptor.studies.experiments.ablation import recipes

    used = setting(student_steps=10)
    steps = {label: (one.blockwise.steps, one.end_to_end.steps) for label, one in recipes(used, 0).items()}
    assert {sum(both) for both in steps.values()} == {20}
    assert steps["+ weighted cls"] == (20, 0)
    assert steps["+ joined stage"] == (10, 10)


def test_the_elbow_is_the_farthest_point_above_the_chord():
    assert elbow({1: 0.0, 2: 0.7, 3: 0.9, 4: 0.95, 12: 1.0}) == 3
    assert elbow({1: 0.0, 2: 0.25, 4: 0.75}) == 1  # a straight line has none, and one block is as good
    by_k = {k: 1 - math.exp(-k) for k in range(1, 13)}
    line = {k: by_k[1] + (by_k[12] - by_k[1]) * (k - 1) / 11 for k in by_k}
    assert elbow(by_k) == max(by_k, key=lambda k: by_k[k] - line[k])


@pytest.mark.parametrize(("suggested", "held"), [((2, 2, 2), True), ((7, 7, 7), False), ((2, 2, 3), None)])
def test_the_elbow_is_compared_with_what_similarity_suggests(suggested, held):
    results = {}
    for seed in SEEDS:
        for k, value in ((1, 0.5), (2, 0.8), (3, 0.81), (6, 0.82)):
            results[f"k-curve/k{k}-s{seed}"] = student("-".join("1" * k), value, seed)
        results[f"k-curve/suggested-s{seed}"] = {"similarity": suggested[seed], "function": 1, "fit": 4}
    claim = claim_of("k-curve", results, ks=(1, 2, 3, 6))
    assert claim.held is held
    assert "elbow of the skill at k = 2.0 [2.0, 2.0], n = 3" in claim.evidence
    assert "useful k by fit 4.0 [4.0, 4.0], n = 3" in claim.evidence


def test_untrained_teachers_do_not_count_among_those_with_phases():
    gallery, used = STUDIES["gallery"], setting()
    names = ["standard", "drop0.4", "tied", "subset", "untrained", "random"]
    results = {f"teachers/{name}-s0": teacher(name) for name in names}
    looks = {f"conditions/look-{name}-s0": look("drift" if name in names[4:] else "blocks") for name in names}
    summary = gallery.summarise(used, done({**results, **looks}))
    assert summary.claim.held is True
    assert summary.claim.evidence.startswith("3 of 3 trained teachers are blocks; standard: blocks (3-2-2)")
    assert [row.model for row in summary.rows] == names
    looks["conditions/look-standard-s0"] = look("paced drift")
    assert gallery.summarise(used, done({**results, **looks})).claim.held is False
    looks["conditions/look-tied-s0"] = look("paced drift")  # the positive control: without it nothing follows
    claim = gallery.summarise(used, done({**results, **looks})).claim
    assert claim.held is None
    assert "not recognised either" in claim.evidence


def test_phases_are_found_on_images_that_nothing_is_measured_on():
    one = setting()
    assert len(one.for_phases()) == len(one.held_out())
    assert not one.for_phases().image_keys() & one.held_out().image_keys()

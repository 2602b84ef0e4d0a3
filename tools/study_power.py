"""Sections of docs/results.md on what the design can detect, and on other intervals than those of the verdicts."""

from __future__ import annotations

import math
import warnings
from typing import Any

from paper_statements import PAPER_EFFECT
from scipy import stats
from study_tables import NOT_YET, markdown

from raptor.studies.analysis import pooled_deviation, smallest_detected, teachers_needed


def power(results: dict[str, dict[str, Any]]) -> str:
    """Return the section on what the design can detect, with the measured variances between teachers."""
    rows = []
    for name, treated, control, measure in _comparisons(results):
        result = results.get(name)
        groups = [
            [row[measure] for row in (result["summary"] if result else []) if row["condition"] == condition]
            for condition in (treated, control)
        ]
        n = min(map(len, groups))
        deviation = pooled_deviation(*groups)
        label = [f"`{name}`", f"{measure.replace('_', ' ')} of {treated} less {control}"]
        if n < 2 or math.isnan(deviation):
            rows.append([*label, NOT_YET, "", "", ""])
            continue
        smallest = PAPER_EFFECT if measure == "r2" else result["claim"]["smallest_effect"] if result else math.nan
        needed = teachers_needed(deviation, smallest)
        rows.append(
            [*label, f"{deviation:.4f}", f"{smallest_detected(deviation, n):.3f} (n = {n})", f"{smallest:g}",
             "more than 100" if needed is None else str(needed)]
        )  # fmt: skip
    head = ["study", "effect", "standard deviation between teachers", "detected in 80% of simulations",
            "smallest effect of interest", "teachers per condition that it needs"]  # fmt: skip
    return (
        "## Power\n\nThe smallest effect that the design detects in 80% of simulated experiments, with the variance "
        "between teachers that was measured on three of each condition, and is therefore uncertain itself. An "
        "experiment detects an effect if its 95% t-interval is above 0. The "
        f"paper's change of R2 with stochastic depth is {PAPER_EFFECT:g}.\n\n" + markdown(head, rows)
    )


def sensitivity(results: dict[str, dict[str, Any]]) -> str:
    """Return the section on other intervals: of unequal variances, and of differences between teachers of one seed."""
    rows = []
    rate = f"drop{results['stochastic-depth']['size']['drop_path']:g}" if "stochastic-depth" in results else ""
    compared = [*_comparisons(results), *([("stochastic-depth", rate, "early", "excess")] if rate else [])]
    for name, treated, control, measure in compared:
        found = [{row["seed"]: row[measure] for row in (results[name]["summary"] if name in results else [])
                  if row["condition"] == condition} for condition in (treated, control)]  # fmt: skip
        seeds = sorted(found[0].keys() & found[1].keys())
        if len(seeds) < 2:
            continue
        one, other = (list(own.values()) for own in found)
        pairs = [[own[seed] for seed in seeds] for own in found]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of values that are nearly the same
            tests = (
                stats.ttest_ind(one, other), stats.ttest_ind(one, other, equal_var=False), stats.ttest_rel(*pairs),
            )  # fmt: skip
        value = sum(one) / len(one) - sum(other) / len(other)
        ends = [f"[{low:.3f}, {high:.3f}]" for low, high in (test.confidence_interval() for test in tests)]
        rows.append([f"`{name}`", f"{measure.replace('_', ' ')} of {treated} less {control}", f"{value:.3f}", *ends])
    if not rows:
        return ""
    head = ["study", "effect", "value", "equal variances (used)", "unequal variances (Welch)", "paired by seed"]
    return (
        "## Other intervals\n\nThe intervals above assume equal variances and independent teachers. Teachers of one "
        "seed share initial weights and the order of images, and some are checkpoints of the same training. These are "
        "the intervals without those assumptions.\n\n" + markdown(head, rows)
    )


def _comparisons(results: dict[str, dict[str, Any]]) -> list[tuple[str, str, str, str]]:
    """Return the comparisons of two conditions: study, treated, control and measure."""
    rate = results["stochastic-depth"]["size"]["drop_path"] if "stochastic-depth" in results else 0.3
    return [
        ("controls", "tied", "random", "excess"),
        ("stochastic-depth", f"drop{rate:g}", "standard", "excess"),
        ("stochastic-depth", f"drop{rate:g}", "standard", "r2"),
        ("emergence", "standard", "untrained", "excess"),
        ("overfitting", "standard", "subset", "excess"),
    ]

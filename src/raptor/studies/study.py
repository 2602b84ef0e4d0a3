"""What a study is: its jobs, what they say together, and whether a claim of the paper holds here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from raptor.studies.jobs import Done, Job
from raptor.studies.models import Setting


@dataclass(frozen=True)
class Claim:
    """Something that the paper says.

    Parameters
    ----------
    text
        What it says, in our words.
    held
        Whether it holds here; None where it cannot be told.
    evidence
        The numbers that say so.
    """

    text: str
    held: bool | None
    evidence: str


@dataclass(frozen=True)
class Summary:
    """What the jobs of a study say together.

    Parameters
    ----------
    rows
        A table, one row a model or condition.
    claim
        Of the paper.
    """

    rows: list[dict[str, Any]]
    claim: Claim


def mean(values: Iterable[float | None]) -> float:
    """Return the mean of the numbers that are known; a share of nothing is not."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else math.nan


@dataclass(frozen=True)
class Study:
    """One file of this package.

    Parameters
    ----------
    about
        One line on what it asks.
    jobs
        The table of jobs at a setting.
    summarise
        What their results say; results of failed jobs are missing.
    """

    about: str
    jobs: Callable[[Setting], Sequence[Job]]
    summarise: Callable[[Setting, Done], Summary]

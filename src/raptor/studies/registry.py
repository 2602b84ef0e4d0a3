"""What a study is, and the registry that modules of `experiments` add theirs to."""

from __future__ import annotations

import importlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from raptor.core.estimate import Estimate
from raptor.core.serialize import key
from raptor.errors import OptionError
from raptor.render.charts import Figure
from raptor.render.registry import FIGURES, FigureEntry
from raptor.studies.jobs import Done, Job
from raptor.studies.options import ALL, STUDY_NAMES
from raptor.studies.setting import StudySetting

SECTION = "studies"  # of the page

Row = TypeVar("Row")


@dataclass(frozen=True)
class Claim:
    """Something that the paper claims.

    Parameters
    ----------
    text
        The claim, in our words.
    held
        Whether it holds here; None where the results are inconclusive.
    evidence
        The numbers behind the verdict.
    effect, smallest_effect
        The effect with its interval over teachers, and the smallest effect of interest.
    mixed
        The effect in a mixed model with the seed of the teacher as random effect; None without statsmodels, and where
        the study has no such model.
    """

    text: str
    held: bool | None
    evidence: str
    effect: Estimate[float] | None = key(None, ci="ci", omit_none=True)
    smallest_effect: float | None = key(None, omit_none=True)
    mixed: Estimate[float] | None = key(None, ci="mixed_ci", omit_none=True)


@dataclass(frozen=True)
class Summary(Generic[Row]):
    """What the jobs of a study say together.

    Parameters
    ----------
    rows
        A table: one dataclass per model or condition.
    claim
        The paper's claim and whether it holds.
    """

    rows: list[Row]
    claim: Claim


class Study(ABC, Generic[Row]):
    """A study: its jobs, what their results say, and its figure."""

    @abstractmethod
    def jobs(self, setting: StudySetting) -> Sequence[Job[Any]]:
        """Return the jobs; a job comes after those that it needs."""

    def primary_jobs(self, setting: StudySetting) -> Sequence[Job[Any]]:
        """Return the jobs that the claim needs; `study all` runs those of every study first. By default all jobs."""
        return self.jobs(setting)

    @abstractmethod
    def summarise(self, setting: StudySetting, done: Done) -> Summary[Row]:
        """Summarise the results of the jobs; results of failed jobs are missing."""

    @abstractmethod
    def draw(self, rows: list[Row]) -> Figure:
        """Draw at least one row."""


STUDIES: dict[str, Study[Any]] = {}
S = TypeVar("S", bound=type[Study[Any]])


def study(name: str, caption: str, paper: str | None = None, wide: bool = False) -> Callable[[S], S]:
    """Register a subclass of `Study`, with its figure.

    Parameters
    ----------
    name
        How `raptor study` calls it; the figure's files have the same name.
    caption, paper, wide
        How to read the figure, its number in the paper, and whether it takes the page's whole width.
    """

    def register(cls: S) -> S:
        one = STUDIES[name] = cls()

        def draw(result: Any, model: str) -> Figure | None:
            return one.draw(result.summary) if result.study == name and result.summary else None

        FIGURES["study", name] = FigureEntry(name, "study", draw, SECTION, caption, paper, wide)
        return cls

    return register


def load_studies() -> dict[str, Study[Any]]:
    """Import all studies that come with raptor; return all that are registered, by name."""
    for name in STUDY_NAMES:
        importlib.import_module(f"raptor.studies.experiments.{name.replace('-', '_')}")
    return STUDIES


def find_study(name: str) -> Study[Any]:
    """Return a study by its name."""
    studies = load_studies()
    if name not in studies:
        raise OptionError(f"there is no study {name!r}; the studies are {', '.join(sorted(studies))}, or {ALL}")
    return studies[name]


def mean(values: Iterable[float]) -> float:
    """Return the mean of the values that are not NaN; NaN where there are none."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan

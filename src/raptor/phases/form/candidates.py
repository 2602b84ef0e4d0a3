"""Candidate models of a similarity matrix, and which of them is the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from numpy.typing import NDArray

from raptor.core.estimate import Estimate
from raptor.core.phases import Phases
from raptor.core.serialize import Key, key

# Kinds of candidate models, as result.json has them.
DRIFT, NONUNIFORM_DRIFT, BLOCKS = "drift", "paced drift", "blocks"

# What people read for each kind.
KIND_NAMES = {DRIFT: "uniform drift", NONUNIFORM_DRIFT: "non-uniform drift", BLOCKS: "constant phases"}


@dataclass(frozen=True, kw_only=True, eq=False)
class CandidateFit:
    """How well a candidate model fits a similarity matrix.

    Parameters
    ----------
    residual
        Root mean square of the residuals, over pairs of layers.
    held_out
        The same on images that it was not fitted to, with a 95% interval over folds; None without images.
    parameters
        Number of parameters, boundaries included.
    fitted
        The fitted matrix (layers, layers), whose diagonal is 1; None where the result was read from a file.
    """

    residual: float
    held_out: Estimate[float] | None
    parameters: int
    fitted: NDArray[Any] | None = key(None, skip=True)

    @property
    def error(self) -> float:
        """The error on held-out images; the residual where no images were held out."""
        return self.residual if self.held_out is None else self.held_out.value


@dataclass(frozen=True, kw_only=True, eq=False)
class NonUniformDriftFit(CandidateFit):
    """A drift in the time parameterisation that fits best, and in all others.

    Parameters
    ----------
    residual, held_out, parameters, fitted
        As in `CandidateFit`, of the best one.
    time_parameterisation
        Name of the best one.
    by_time_parameterisation
        Fits of all of them, by name.
    """

    time_parameterisation: Annotated[str, Key(name="clock")]
    by_time_parameterisation: Annotated[dict[str, CandidateFit], Key(name="clocks")]


@dataclass(frozen=True, kw_only=True, eq=False)
class BlocksFit(CandidateFit):
    """Blocks: one constant for each pair of phases.

    Parameters
    ----------
    residual, held_out, parameters, fitted
        As in `CandidateFit`.
    phases
        The partition into blocks.
    """

    phases: Phases


@dataclass(frozen=True)
class CandidateModel:
    """A candidate model with its name.

    Parameters
    ----------
    kind
        `drift`, `paced drift` (a non-uniform drift) or `blocks`.
    detail
        Time parameterisation of a non-uniform drift, number of blocks, or None.
    fit
        How well it fits.
    """

    kind: str
    detail: str | int | None
    fit: CandidateFit

    @property
    def name(self) -> str:
        """Kind and detail in words, with the kind as result.json has it."""
        if self.kind == BLOCKS:
            return f"{self.detail} block" + ("" if self.detail == 1 else "s")
        return self.kind if self.detail is None else f"{self.kind} ({self.detail})"


@dataclass(frozen=True, kw_only=True, eq=False)
class Structure:
    """All candidate models of one matrix, and which of them is the verdict.

    Parameters
    ----------
    drift
        A uniform drift.
    nonuniform_drift
        A drift in a time parameterisation of the model's own.
    blocks
        Blocks, by their number.
    spread
        Root mean square of the off-diagonal part around its mean.
    floor
        Held-out error of the mean over the other images, without any model; None without images.
    why_not_held_out
        Why there are no held-out errors, or None.
    verdict_from
        What the verdict is based on.
    verdict
        The candidate with the fewest parameters that no other beats on held-out images in a paired t-test over folds.
        Without held-out images, the candidate of lowest BIC over pairs of layers, which is weaker. None where the
        result was read from a file.
    """

    drift: CandidateFit
    nonuniform_drift: Annotated[NonUniformDriftFit, Key(name="paced_drift")]
    blocks: dict[int, BlocksFit]
    spread: float
    floor: Annotated[float | None, Key(name="held_out_floor")]
    why_not_held_out: str | None
    verdict_from: str
    verdict: CandidateModel | None = key(None, skip=True)

    @property
    def candidates(self) -> tuple[CandidateModel, ...]:
        """All candidate models, sorted by number of parameters."""
        by_time = self.nonuniform_drift.by_time_parameterisation
        listed = [
            CandidateModel(DRIFT, None, self.drift),
            *(CandidateModel(NONUNIFORM_DRIFT, name, fit) for name, fit in by_time.items()),
            *(CandidateModel(BLOCKS, k, fit) for k, fit in self.blocks.items()),
        ]
        return tuple(sorted(listed, key=lambda one: one.fit.parameters))

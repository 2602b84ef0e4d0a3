"""What the structure of a similarity matrix is: a drift, a drift of uneven pace, or blocks.

Any smooth path can be cut into pieces that are alike inside, so that a cut is there is no evidence of phases. What
tells them from a drift is the form of the matrix: inside a phase similarity does not decay with distance. Three
kinds of description are fitted and compared on images that they were not fitted to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.special import stdtrit

from raptor.drift import CLOCKS, PARAMETERS, Matrices, Pairs, clock_between, fit_drift, layers_between, pairs_of
from raptor.phases import Phases
from raptor.resampling import LEVEL, BinnedMean
from raptor.segmentation import segment_values
from raptor.solvers import best_boundaries, best_suffixes
from raptor.useful_k import most_phases

FOLDS = 8  # parts that the images fall into; each is held out once
FEWEST = 2 * FOLDS  # images without which nothing is resampled
MATTERS = 1e-6  # mean squared error that counts as a difference: similarities are read to a thousandth

Name = tuple[str, str | int | None]


@dataclass(frozen=True)
class Description:
    """One way to describe a similarity matrix, and how well it does.

    Parameters
    ----------
    kind
        `drift`, `paced drift` or `blocks`.
    detail
        The clock of a paced drift, the number of blocks.
    parameters
        How many numbers it is made of, boundaries included.
    residual
        Root mean square of what it leaves, over pairs of layers.
    held_out, held_out_ci
        The same on images that it was not fitted to, with a 95% interval over folds; None without images.
    fitted
        The matrix as described; its diagonal is one.
    phases
        Of blocks: where they are cut.
    """

    kind: str
    detail: str | int | None
    parameters: int
    residual: float
    held_out: float | None
    held_out_ci: tuple[float, float] | None
    fitted: NDArray[Any]
    phases: Phases | None = None


@dataclass(frozen=True)
class Structure:
    """All descriptions of one matrix, simplest first, and which of them is enough.

    Parameters
    ----------
    descriptions
        By number of parameters.
    verdict
        The simplest one that no other beats on held-out images beyond resampling error. Without images to hold
        out, the one of least residual with a price on parameters (BIC over pairs of layers), which is weaker.
    floor
        Held-out error of the mean of the other images itself, with no description in between.
    spread
        Root mean square of the off-diagonal part about its mean.
    why_not_held_out
        Why there are no held-out errors, or None.
    """

    descriptions: tuple[Description, ...]
    verdict: Description
    floor: float | None
    spread: float
    why_not_held_out: str | None

    @property
    def suggested_k(self) -> int:
        """The number of blocks where the verdict is blocks, else 1."""
        return int(self.verdict.detail or 1) if self.verdict.kind == "blocks" else 1

    def of_kind(self, kind: str) -> list[Description]:
        """Return the descriptions of one kind; the best one first by held-out error, or by residual."""
        found = [description for description in self.descriptions if description.kind == kind]
        return sorted(found, key=lambda one: one.residual if one.held_out is None else one.held_out)


def _block_fit(similarities: Pairs, block: NDArray[Any]) -> Pairs:
    """Return the mean over each pair of blocks; `block[n, layer]` is the block that a layer is in."""
    rows, columns = np.triu_indices(block.shape[1], 1)
    count = block.max() + 1
    cell = block[:, rows] * count + block[:, columns] + np.arange(len(block))[:, None] * count**2
    sums = np.bincount(cell.ravel(), weights=similarities.ravel(), minlength=len(block) * count**2)
    sizes = np.bincount(cell.ravel(), minlength=len(block) * count**2)
    return (sums / np.maximum(sizes, 1))[cell]


@dataclass(frozen=True)
class _Fit:
    """A description fitted to every matrix of a batch; what is said of parameters and phases is about the first."""

    parameters: int
    fitted: Pairs
    phases: Phases | None = None


def _fits(matrices: Matrices, objective: str, min_length: int) -> dict[Name, _Fit]:
    """Fit every description to every matrix, the ones of fewest parameters first."""
    layers = matrices.shape[1]
    similarities = pairs_of(matrices)
    fits: dict[Name, _Fit] = {("drift", None): _Fit(PARAMETERS, fit_drift(layers_between(matrices), similarities))}
    for clock in CLOCKS:
        fitted = fit_drift(clock_between(matrices, clock), similarities)
        fits["paced drift", clock] = _Fit(PARAMETERS + layers - 1, fitted)
    values = segment_values(matrices, objective, min_length)
    most = most_phases(layers, min_length)
    table = best_suffixes(values, most)
    for k in range(1, most + 1):
        ends = best_boundaries(values, table, k)
        block = np.sum(np.arange(layers)[None, :, None] >= ends[:, None, :], axis=2)
        phases = Phases.from_boundaries(ends[0, :-1].tolist(), layers)
        # A phase of one layer has no pair of layers inside, hence no number of its own.
        parameters = k * (k + 1) // 2 - phases.lengths.count(1) + k - 1
        fits["blocks", k] = _Fit(parameters, _block_fit(similarities, block), phases)
    return dict(sorted(fits.items(), key=lambda item: item[1].parameters))


def describe_structure(
    similarity: Float[np.ndarray, "layers layers"],
    images: BinnedMean | None = None,
    objective: str = "weighted",
    min_length: int = 2,
    seed: int = 0,
) -> Structure:
    """Fit all descriptions to a similarity matrix of the layers 1..L, and choose.

    Parameters
    ----------
    similarity
        The mean over all images.
    images
        Where the mean came from, to hold images out; None if there is only the matrix.
    objective, min_length
        How blocks are cut, always exactly; as many are tried as `most_phases` says.
    seed
        Decides which images are held out together.
    """
    target = pairs_of(similarity[None])[0]
    errors, floor, reason = _held_out(images, objective, min_length, seed)
    descriptions = []
    for (kind, detail), fit in _fits(similarity[None], objective, min_length).items():
        error = None if errors is None else errors[kind, detail]
        descriptions.append(
            Description(
                kind=kind,
                detail=detail,
                parameters=fit.parameters,
                residual=float(np.sqrt(np.mean((fit.fitted[0] - target) ** 2))),
                held_out=None if error is None else float(np.sqrt(error.mean())),
                held_out_ci=None if error is None else _interval(error),
                fitted=_square(fit.fitted[0], len(similarity)),
                phases=fit.phases,
            )
        )
    if errors is None:
        verdict = min(descriptions, key=lambda one: _bic(one, len(target)))
    else:
        verdict = next(one for one in descriptions if _unbeaten(errors[one.kind, one.detail], list(errors.values())))
    return Structure(tuple(descriptions), verdict, floor, float(target.std()), reason)


def _held_out(
    images: BinnedMean | None, objective: str, min_length: int, seed: int
) -> tuple[dict[Name, NDArray[Any]] | None, float | None, str | None]:
    """Return mean squared errors on each fold by description, that of the plain mean, or why there are none."""
    if images is None:
        return None, None, "a matrix alone has no images that could be held out"
    if images.n < FEWEST:
        return None, None, f"{images.n} images are too few to hold some out: at least {FEWEST} are needed"
    rest, fold = (means.numpy() for means in images.folds(FOLDS, seed))
    truth = pairs_of(fold)
    fits = _fits(rest, objective, min_length)
    errors = {name: np.mean((fit.fitted - truth) ** 2, axis=1) for name, fit in fits.items()}
    return errors, float(np.sqrt(np.mean((pairs_of(rest) - truth) ** 2))), None


def _bic(description: Description, pairs: int) -> float:
    """Return the Bayesian information criterion, as if pairs of layers were independent."""
    error = max(description.residual**2, MATTERS)
    return float(pairs * np.log(error) + description.parameters * np.log(pairs))


def _unbeaten(errors: NDArray[Any], others: list[NDArray[Any]]) -> bool:
    """Whether no other description has smaller errors beyond what folds differ by.

    A paired t-test over folds, one-sided, its level shared among the comparisons (Bonferroni).
    """
    allowed = float(stdtrit(FOLDS - 1, 1 - (1 - LEVEL) / max(len(others) - 1, 1)))
    for other in others:
        gain = errors - other
        if gain.mean() > max(MATTERS, allowed * gain.std(ddof=1) / np.sqrt(FOLDS)):
            return False
    return True


def _interval(errors: NDArray[Any]) -> tuple[float, float]:
    """Return the root of the t-interval of the mean squared error over folds."""
    half = float(stdtrit(FOLDS - 1, (1 + LEVEL) / 2)) * errors.std(ddof=1) / np.sqrt(FOLDS)
    return float(np.sqrt(max(errors.mean() - half, 0.0))), float(np.sqrt(errors.mean() + half))


def _square(pairs: NDArray[Any], layers: int) -> NDArray[Any]:
    matrix = np.eye(layers)
    rows, columns = np.triu_indices(layers, 1)
    matrix[rows, columns] = matrix[columns, rows] = pairs
    return matrix

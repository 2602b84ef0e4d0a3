"""Whether a similarity matrix shows a drift or phases: candidate models, fitted and compared.

Any smooth path can be split into pieces that are similar inside, so a good partition is not evidence of phases. The
form of the matrix distinguishes the two: inside a phase, similarity does not decay with distance. Three kinds of
candidate models are fitted, and compared on images that they were not fitted to.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.special import stdtrit

from raptor.core.bootstrap import LEVEL, BinnedMean
from raptor.core.estimate import Estimate
from raptor.core.phases import Phases
from raptor.phases.choose_k import most_phases
from raptor.phases.form.candidates import (
    BLOCKS,
    DRIFT,
    NONUNIFORM_DRIFT,
    BlocksFit,
    CandidateFit,
    NonUniformDriftFit,
    Structure,
)
from raptor.phases.form.drift import (
    PARAMETERS,
    TIME_PARAMETERISATIONS,
    Matrices,
    Pairs,
    fit_drift,
    layers_between,
    pairs_of,
    time_between,
)
from raptor.phases.segment import segment_values
from raptor.phases.solvers import best_boundaries, best_suffixes

FOLDS = 8  # number of folds for cross-validation
FEWEST = 2 * FOLDS  # minimum number of images for cross-validation and the bootstrap
MATTERS = 1e-6  # smaller differences in mean squared error are ignored

Name = tuple[str, str | int | None]


def _block_fit(similarities: Pairs, block: NDArray[Any]) -> Pairs:
    """Return the mean over each pair of blocks; `block[n, layer]` is the index of a layer's block."""
    rows, columns = np.triu_indices(block.shape[1], 1)
    count = block.max() + 1
    cell = block[:, rows] * count + block[:, columns] + np.arange(len(block))[:, None] * count**2
    sums = np.bincount(cell.ravel(), weights=similarities.ravel(), minlength=len(block) * count**2)
    sizes = np.bincount(cell.ravel(), minlength=len(block) * count**2)
    return (sums / np.maximum(sizes, 1))[cell]


@dataclass(frozen=True)
class _Fit:
    """A candidate model fitted to each matrix of a batch; parameters and phases are those of the first matrix."""

    parameters: int
    fitted: Pairs
    phases: Phases | None = None


def _fits(matrices: Matrices, objective: str, min_length: int) -> dict[Name, _Fit]:
    """Fit every candidate model to every matrix, sorted by number of parameters."""
    layers = matrices.shape[1]
    similarities = pairs_of(matrices)
    fits: dict[Name, _Fit] = {(DRIFT, None): _Fit(PARAMETERS, fit_drift(layers_between(matrices), similarities))}
    for parameterisation in TIME_PARAMETERISATIONS:
        fitted = fit_drift(time_between(matrices, parameterisation), similarities)
        fits[NONUNIFORM_DRIFT, parameterisation] = _Fit(PARAMETERS + layers - 1, fitted)
    values = segment_values(matrices, objective, min_length)
    most = most_phases(layers, min_length)
    table = best_suffixes(values, most)
    for k in range(1, most + 1):
        ends = best_boundaries(values, table, k)
        block = np.sum(np.arange(layers)[None, :, None] >= ends[:, None, :], axis=2)
        phases = Phases.from_boundaries(ends[0, :-1].tolist(), layers)
        # A phase of one layer has no pair of layers inside, so it has no parameter of its own.
        parameters = k * (k + 1) // 2 - phases.lengths.count(1) + k - 1
        fits[BLOCKS, k] = _Fit(parameters, _block_fit(similarities, block), phases)
    return dict(sorted(fits.items(), key=lambda item: item[1].parameters))


def describe_structure(
    similarity: Float[np.ndarray, "layers layers"],
    images: BinnedMean | None = None,
    objective: str = "weighted",
    min_length: int = 2,
    seed: int = 0,
) -> Structure:
    """Fit all candidate models to a similarity matrix of the layers 1..L, and choose one.

    Parameters
    ----------
    similarity
        Mean over all images.
    images
        The running mean that `similarity` is the mean of, for holding images out; None for a matrix alone.
    objective, min_length
        How blocks are partitioned, always exactly.
    seed
        Assigns images to folds.
    """
    errors, floor, reason = _held_out(images, objective, min_length, seed)
    target, n = pairs_of(similarity[None])[0], 0 if images is None else images.n
    fits: dict[Name, CandidateFit] = {}
    for name, fit in _fits(similarity[None], objective, min_length).items():
        own = CandidateFit(
            parameters=fit.parameters,
            residual=float(np.sqrt(np.mean((fit.fitted[0] - target) ** 2))),
            held_out=None if errors is None else _estimate(errors[name], n),
            fitted=_square(fit.fitted[0], len(similarity)),
        )
        fits[name] = own if fit.phases is None else BlocksFit(**vars(own), phases=fit.phases)
    by_time = {name: fits[NONUNIFORM_DRIFT, name] for name in TIME_PARAMETERISATIONS}
    best = min(by_time, key=lambda name: by_time[name].error)
    structure = Structure(
        drift=fits[DRIFT, None],
        nonuniform_drift=NonUniformDriftFit(
            **vars(by_time[best]), time_parameterisation=best, by_time_parameterisation=by_time
        ),
        blocks={k: fit for (_, k), fit in fits.items() if isinstance(fit, BlocksFit) and isinstance(k, int)},
        spread=float(target.std()),
        floor=floor,
        why_not_held_out=reason,
        verdict_from="residuals and parameters (BIC)" if floor is None else "held-out images",
    )
    if errors is None:
        verdict = min(structure.candidates, key=lambda one: _bic(one.fit, len(target)))
    else:
        every = list(errors.values())
        verdict = next(one for one in structure.candidates if _unbeaten(errors[one.kind, one.detail], every))
    return replace(structure, verdict=verdict)


def explained_variance(
    similarity: Float[np.ndarray, "layers layers"], structure: Structure, k: int
) -> dict[str, float]:
    """Return the share of the variance of S over pairs of layers that each description explains, fitted to all images.

    Parameters
    ----------
    similarity
        S for the layers 1..L.
    structure
        Its candidate models.
    k
        Number of phases of `blocks`, and of `hybrid`: a uniform drift inside each phase with jumps between phases.
    """
    target = pairs_of(similarity[None])[0]
    blocks = structure.blocks[min(k, max(structure.blocks))]
    fits = [
        fit_drift(time_between(similarity[None], name, blocks.phases), target[None]) for name in TIME_PARAMETERISATIONS
    ]
    residuals = {
        "drift": structure.drift.residual,
        "paced_drift": structure.nonuniform_drift.residual,
        "hybrid": min(float(np.sqrt(np.mean((fit[0] - target) ** 2))) for fit in fits),
        "blocks": blocks.residual,
    }
    spread = float(target.std())
    return {name: 1 - (residual / spread) ** 2 if spread > 0 else np.nan for name, residual in residuals.items()}


def _held_out(
    images: BinnedMean | None, objective: str, min_length: int, seed: int
) -> tuple[dict[Name, NDArray[Any]] | None, float | None, str | None]:
    """Return the mean squared error of each candidate by fold, the error of the plain mean, or why there are none."""
    if images is None:
        return None, None, "a matrix alone has no images to hold out"
    if images.n < FEWEST:
        return None, None, f"{images.n} images are too few to hold some out (minimum {FEWEST})"
    rest, fold = (means.numpy() for means in images.folds(FOLDS, seed))
    truth = pairs_of(fold)
    fits = _fits(rest, objective, min_length)
    errors = {name: np.mean((fit.fitted - truth) ** 2, axis=1) for name, fit in fits.items()}
    return errors, float(np.sqrt(np.mean((pairs_of(rest) - truth) ** 2))), None


def _bic(fit: CandidateFit, pairs: int) -> float:
    """Return the Bayesian information criterion, as if pairs of layers were independent."""
    error = max(fit.residual**2, MATTERS)
    return float(pairs * np.log(error) + fit.parameters * np.log(pairs))


def _unbeaten(errors: NDArray[Any], others: list[NDArray[Any]]) -> bool:
    """Return whether no other candidate has significantly smaller errors.

    This is a one-sided paired t-test over folds with a Bonferroni correction.
    """
    allowed = float(stdtrit(FOLDS - 1, 1 - (1 - LEVEL) / max(len(others) - 1, 1)))
    for other in others:
        gain = errors - other
        if gain.mean() > max(MATTERS, allowed * gain.std(ddof=1) / np.sqrt(FOLDS)):
            return False
    return True


def _estimate(errors: NDArray[Any], n: int) -> Estimate[float]:
    """Return the root mean squared error with the root of its t-interval over folds."""
    half = float(stdtrit(FOLDS - 1, (1 + LEVEL) / 2)) * errors.std(ddof=1) / np.sqrt(FOLDS)
    low, high = (float(np.sqrt(max(errors.mean() + side, 0.0))) for side in (-half, half))
    return Estimate(float(np.sqrt(errors.mean())), low, high, n)


def _square(pairs: NDArray[Any], layers: int) -> NDArray[Any]:
    matrix = np.eye(layers)
    rows, columns = np.triu_indices(layers, 1)
    matrix[rows, columns] = matrix[columns, rows] = pairs
    return matrix

"""The law of a budget: what more training images would give, from finished distillations of different lengths.

A share such as the cosine at the last layer, or the accuracy that is recovered, follows a logistic curve in the
logarithm of the number of images, up to a ceiling that is not known:

    share = ceiling * sigmoid(level + slope * log(images))

Far below the ceiling the share grows as a power of the images; near it, the gap to it falls as a power of them.
For a given ceiling the law is a linear regression, whose predictive distribution is a Student t. Ceilings from the
highest share up to 1 are weighted by how well they explain the runs, so that an interval also covers what is not known
about the ceiling. The distillations must be finished: in the middle of a training, learning rates are still high.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from raptor.core.estimate import Estimate
from raptor.distillation.result import DistillResult
from raptor.errors import OptionError
from raptor.runtime.records import read_result

FEWEST = 3  # runs, with as many different numbers of images
CEILINGS = 200
DRAWS = 20_000
LARGEST = 1e15  # images; more are not a plan

Array = NDArray[np.float64]


@dataclass(frozen=True)
class FinishedRun:
    """A finished distillation.

    Parameters
    ----------
    images
        Number of images that both stages saw, repetitions included.
    share
        What was reached: a number between 0 and 1.
    """

    images: int
    share: float


def finished_runs(directories: Sequence[str | Path]) -> dict[str, list[FinishedRun]]:
    """Read finished distillations; return them by measure: the last layer's `cosine`, and `recovered` accuracy.

    A measure that some run lacks, or that is not between 0 and 1, is left out.

    Parameters
    ----------
    directories
        Run directories of `raptor distill`: one recipe, one number of blocks, different numbers of images.
    """
    found: dict[str, list[FinishedRun]] = {"cosine": [], "recovered": []}
    kinds = set()
    for directory in directories:
        result = read_result(directory, DistillResult).result
        kinds.add(f"recipe {result.recipe} with phases {result.phases}")
        images = round(result.images_per_second * result.train_seconds)
        shares = {"cosine": result.fidelity.by_layer["cosine"].mean["all"][-1]}
        if result.fidelity.recovered is not None:
            shares["recovered"] = result.fidelity.recovered.value
        for name, share in shares.items():
            found[name].append(FinishedRun(images, share))
    if len(kinds) > 1:
        raise OptionError(f"a law needs runs with the same recipe and phases; these have {', '.join(sorted(kinds))}")
    complete = {name: runs for name, runs in found.items() if len(runs) == len(directories)}
    return {name: runs for name, runs in complete.items() if all(0 < run.share < 1 for run in runs)}


@dataclass(frozen=True)
class Law:
    """Draws of the law's parameters from their posterior distribution.

    Parameters
    ----------
    ceiling, level, slope, noise
        One value per draw. `noise` is the standard deviation between runs, on the scale of the regression.
    n
        Number of runs.
    """

    ceiling: Array
    level: Array
    slope: Array
    noise: Array
    n: int

    def predict(self, images: float, seed: int = 0) -> Estimate[float]:
        """Return the share that one more run would reach: its median and 95% predictive interval.

        Parameters
        ----------
        images
            Number of images that both stages see, repetitions included.
        seed
            Seed of the differences between runs.
        """
        between = self.noise * np.random.default_rng(seed).standard_normal(self.noise.shape)
        return self._summary(self.ceiling * expit(self.level + self.slope * np.log(images) + between))

    def images_for(self, share: float) -> Estimate[float]:
        """Return the number of images at which the law reaches a share; infinite where its ceiling is lower.

        Parameters
        ----------
        share
            A number between 0 and 1.
        """
        if not 0 < share < 1:
            raise OptionError(f"a target is a share between 0 and 1, not {share}")
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            needed = np.exp((logit(share / self.ceiling) - self.level) / self.slope)
        return self._summary(np.where((self.ceiling > share) & (needed < LARGEST), needed, np.inf))

    def _summary(self, draws: Array) -> Estimate[float]:
        # "nearest" does not interpolate, which infinite draws would not allow.
        low, high = (float(np.quantile(draws, q, method="nearest")) for q in (0.025, 0.975))
        return Estimate(float(np.quantile(draws, 0.5, method="nearest")), low, high, self.n)


def fit_law(runs: Sequence[FinishedRun], ceilings: Sequence[float] | None = None, seed: int = 0) -> Law:
    """Fit the law to finished distillations.

    Parameters
    ----------
    runs
        Distillations of one teacher with one recipe and one number of blocks, of different lengths.
    ceilings
        Ceilings to consider; by default from just above the highest share to 1.
    seed
        Seed of the draws.
    """
    shares = np.array([run.share for run in runs], dtype=float)
    images = np.array([run.images for run in runs], dtype=float)
    if len(set(images)) < FEWEST:
        raise OptionError(f"a law needs runs of at least {FEWEST} different numbers of images, not {len(set(images))}")
    if not ((shares > 0) & (shares < 1)).all():
        raise OptionError("a law needs shares between 0 and 1: leave out runs that recovered nothing")
    if ceilings is None:
        highest = shares.max()
        ceilings = list(highest + (1 - highest) * np.linspace(0.01, 1, CEILINGS))
    centre = np.log(images).mean()
    x = np.log(images) - centre
    fits, weights = [], []
    degrees = len(runs) - 2
    for ceiling in ceilings:
        y = logit(shares / ceiling)
        slope = (x @ y) / (x @ x)
        squares = float(np.square(y - y.mean() - slope * x).sum()) + 1e-12
        fits.append((y.mean(), slope, squares))
        # The derivative of the regression's scale makes ceilings comparable: each rescales the shares.
        density = np.log(ceiling / (shares * (ceiling - shares))).sum()
        weights.append(density - degrees / 2 * np.log(squares))
    chances = np.exp(np.array(weights) - max(weights))
    generator = np.random.default_rng(seed)
    chosen = generator.choice(len(fits), DRAWS, p=chances / chances.sum())
    means, slopes, left = (np.array(column)[chosen] for column in zip(*fits, strict=True))
    noise = np.sqrt(left / generator.chisquare(degrees, DRAWS))
    means = means + noise / np.sqrt(len(runs)) * generator.standard_normal(DRAWS)
    slopes = slopes + noise / np.sqrt(x @ x) * generator.standard_normal(DRAWS)
    more = slopes > 0  # more images do no harm
    if more.mean() < 0.5:
        raise OptionError("the runs with more images reached less: no law can be fitted")
    top = np.array(ceilings, dtype=float)[chosen]
    return Law(top[more], (means - slopes * centre)[more], slopes[more], noise[more], len(runs))

"""Drift or blocks: the fits against an independent optimiser and the published residuals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import least_squares

from depths import arc, planted, walk
from raptor.core.bootstrap import BinnedMean
from raptor.phases.form.drift import TIME_PARAMETERISATIONS, fit_drift, layers_between, pairs_of, time_between
from raptor.phases.form.structure import FEWEST, FOLDS, describe_structure

PUBLISHED = 1 - np.loadtxt("tests/data/dinov2b_reg_cosine_distance.csv", delimiter=",")


def residual(target, fitted):
    return np.sqrt(np.mean((target - fitted) ** 2))


def test_the_published_residuals():
    structure = describe_structure(PUBLISHED)
    found = {(one.kind, one.detail): round(one.fit.residual, 3) for one in structure.candidates}
    assert found["drift", None] <= 0.185
    assert found["paced drift", "log cosine"] <= 0.058
    assert [found["blocks", k] for k in (2, 3, 4)] == [0.219, 0.168, 0.147]
    assert round(structure.spread, 3) == 0.309
    parameters = {(one.kind, one.detail): one.fit.parameters for one in structure.candidates}
    assert parameters["drift", None] == 4
    assert parameters["paced drift", "arc length"] == 4 + 11
    assert [parameters["blocks", k] for k in (1, 2, 3, 4)] == [1, 4, 8, 13]


def best_by_scipy(times, target):
    """Fit the four parameters from many starts."""

    def function(p):
        return (1 - p[3]) * ((1 + p[2]) * np.exp(-((np.exp(p[0]) * times) ** np.exp(p[1]))) - p[2])

    starts = [(np.log(pace / times.max()), np.log(shape), 0.2, 0.1) for pace in (0.5, 2, 8) for shape in (0.5, 1, 2)]
    fits = [least_squares(lambda p: function(p) - target, start, max_nfev=400) for start in starts]
    return min(residual(target, function(fit.x)) for fit in fits)


@pytest.mark.parametrize("time", ["layers", *TIME_PARAMETERISATIONS])
def test_the_fit_is_as_good_as_scipys(time):
    rng = np.random.default_rng(0)
    states = [walk(rng, rng.uniform(0.1, 0.8, 11)), arc(rng, rng.uniform(0.05, 0.3, 11))]
    matrices = np.stack([PUBLISHED, *(np.einsum("nld,nmd->lm", x, x) / len(x) for x in states)])
    times = layers_between(matrices) if time == "layers" else time_between(matrices, time)
    fitted = fit_drift(times, pairs_of(matrices))
    for row, target in enumerate(pairs_of(matrices)):
        assert residual(target, fitted[row]) <= best_by_scipy(times[row], target) + 2e-4


def test_a_function_of_its_own_form_is_fitted_exactly():
    between = np.abs(np.subtract.outer(np.arange(10.0), np.arange(10.0)))
    matrix = 0.95 * (1.3 * np.exp(-((0.2 * between) ** 1.4)) - 0.3)
    np.fill_diagonal(matrix, 1.0)
    fitted = fit_drift(layers_between(matrix[None]), pairs_of(matrix[None]))
    assert residual(pairs_of(matrix[None]), fitted) < 1e-3


def test_a_walk_is_an_exponential_along_the_logarithmic_clock_and_an_arc_a_cosine_along_the_other():
    rng = np.random.default_rng(0)
    speeds = np.array([0.1, 0.5, 0.02, 0.3, 0.2])
    matrix = np.einsum("nld,nmd->lm", *[arc(rng, speeds)] * 2)[None] / 64
    np.testing.assert_allclose(np.cos(time_between(matrix, "arc length")), pairs_of(matrix), atol=1e-9)
    steps = np.exp(-np.cumsum([0, *speeds]))
    matrix = np.minimum.outer(steps, steps) / np.maximum.outer(steps, steps)
    np.testing.assert_allclose(np.exp(-time_between(matrix[None], "log cosine")), pairs_of(matrix[None]))


def test_blocks_leave_what_their_means_leave():
    rng = np.random.default_rng(0)
    x = planted(rng, (4, 3, 5), 0.5)
    matrix = np.einsum("nld,nmd->lm", x, x) / len(x)
    block = np.repeat([0, 1, 2], [4, 3, 5])
    left = []
    for a in range(3):
        for b in range(a, 3):
            cell = [matrix[i, j] for i in range(12) for j in range(i + 1, 12) if (block[i], block[j]) == (a, b)]
            left += [value - np.mean(cell) for value in cell]
    structure = describe_structure(matrix)
    three = structure.blocks[3]
    assert three.residual == pytest.approx(np.sqrt(np.mean(np.square(left))))
    np.testing.assert_allclose(three.fitted, three.fitted.T)


def binned(states):
    import torch

    mean = BinnedMean()
    mean.add(torch.from_numpy(np.einsum("nld,nmd->nlm", states, states)))
    return mean


def test_held_out_errors_are_those_of_fits_to_the_other_images():
    images = binned(planted(np.random.default_rng(0), (6, 6), 0.5))
    structure = describe_structure(images.mean().numpy(), images)
    rest, fold = images.folds(FOLDS)
    held_out = structure.blocks[1].held_out
    seen, unseen = pairs_of(rest.numpy()), pairs_of(fold.numpy())
    errors = np.mean((unseen - seen.mean(axis=1, keepdims=True)) ** 2, axis=1)
    assert held_out.value == pytest.approx(np.sqrt(np.mean(errors)))
    assert held_out.low < held_out.value < held_out.high
    assert structure.floor < held_out.value


def test_too_few_images_are_not_held_out():
    images = binned(planted(np.random.default_rng(0), (6, 6), 0.5)[: FEWEST - 1])
    structure = describe_structure(images.mean().numpy(), images)
    assert (structure.floor, structure.verdict.fit.held_out) == (None, None)
    assert f"{FEWEST - 1} images are too few" in structure.why_not_held_out
    assert structure.verdict.kind == "blocks"

"""Fidelity: every measure against its definition in memory, and where its answer is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import median_abs_deviation, pearsonr
from sklearn.metrics import r2_score

import raptor
from raptor.core.phases import Phases
from raptor.errors import DataError, LayoutError, PhaseError
from raptor.evaluation.fidelity import trajectory_fidelity
from raptor.evaluation.measures import MEASURES

PHASES = Phases((2, 3))
ANGLES = [0.1, 0.4, 0.2, 0.3, 0.25]


def images(n=11):
    return torch.rand(n, 3, 16, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def flows():
    return raptor.toy.Rotation(ANGLES), raptor.toy.Rotation([0.12, 0.35, 0.2, 0.3, 0.4])


def states_of(flow, pixels):
    return raptor.rollout(flow, flow.embed(pixels)).states


@pytest.fixture(scope="module")
def measured():
    return trajectory_fidelity(*flows(), images().split(4), PHASES)


@pytest.mark.parametrize("group", ["cls", "register", "patch", "all"])
def test_all_measures_equal_their_definitions(measured, group):
    teacher, surrogate = flows()
    where = slice(None) if group == "all" else teacher.layout.where(group)
    y, s = (states_of(flow, images())[:, :, where].numpy() for flow in (teacher, surrogate))
    for layer in range(1, 6):
        truth, guess, start = y[:, layer], s[:, layer], y[:, 0 if layer <= 2 else 2]
        flat = [a.reshape(len(a), -1) for a in (truth, guess, start)]
        # scikit-learn's R2 with features weighted by their variance is the sum before dividing.
        r2 = [r2_score(flat[0], other, multioutput="variance_weighted") for other in flat[1:]]
        gap = np.linalg.norm(truth - guess, axis=-1)
        norm = np.linalg.norm(truth, axis=-1)
        pairs = [(truth, guess), (truth[:-1], guess[1:])]
        pearson = [
            np.mean([pearsonr(a, b).statistic ** 2 for a, b in zip(x.reshape(-1, 8), z.reshape(-1, 8), strict=True)])
            for x, z in pairs
        ]
        cosine = np.mean((truth * guess).sum(-1) / norm / np.linalg.norm(guess, axis=-1))
        expected = {
            "r2": r2[0], "r2_identity": r2[1], "pearson2": pearson[0], "pearson2_shuffled": pearson[1],
            "cosine": cosine, "epsilon": gap.mean(), "relative_epsilon": (gap / norm).mean(),
        }  # fmt: skip
        expected |= {
            "skill": 1 - (gap**2).sum() / ((truth - y[:, 0]) ** 2).sum(),
            "phase_skill": 1 - (gap**2).sum() / ((truth - start) ** 2).sum(),
        }
        whole = states_of(teacher, images())[:, layer].numpy()
        spread = median_abs_deviation(whole[:8].reshape(-1, 8), axis=0, scale="normal")
        centre = y[:64, layer].mean(axis=0)
        clipped = [np.clip((a - centre) / spread, -5, 5).reshape(len(a), -1) for a in (truth, guess)]
        expected["robust_r2"] = r2_score(*clipped, multioutput="variance_weighted")
        for name, value in expected.items():
            assert measured[name].mean[group][layer - 1] == pytest.approx(value, abs=1e-9), (name, layer)


def test_a_surrogate_that_is_the_teacher_is_perfect():
    teacher = flows()[0]
    found = trajectory_fidelity(teacher, teacher, [images()], PHASES)
    for name, value in {"r2": 1, "pearson2": 1, "cosine": 1, "epsilon": 0, "relative_epsilon": 0}.items():
        np.testing.assert_allclose(found[name].mean["all"], value, atol=1e-12)
    assert max(found["r2_identity"].mean["all"]) < 1


def test_one_massive_token_decides_r2_but_not_robust_r2():
    teacher, surrogate = flows()

    class Massive(type(teacher)):
        def __init__(self, angles, factor):
            super().__init__(angles)
            self.factor = factor

        def step(self, tokens, layer):
            states = super().step(tokens, layer)
            if layer == 4:  # the last step
                states = states.clone()
                states[:, -1] *= self.factor
            return states

    plain = trajectory_fidelity(teacher, surrogate, [images()], PHASES)
    # The surrogate has the massive token right, and all others wrong.
    found = trajectory_fidelity(
        Massive(ANGLES, 1000.0), Massive([*surrogate.angles[:4], sum(ANGLES) - sum(surrogate.angles[:4])], 1000.0),
        [images()], PHASES,
    )  # fmt: skip
    assert found["r2"].mean["all"][-1] > 0.999
    other = trajectory_fidelity(Massive(ANGLES, 1000.0), Massive(surrogate.angles, 1.0), [images()], PHASES)
    assert other["r2"].mean["all"][-1] < 0.01  # it misses the massive token alone
    assert other["robust_r2"].mean["all"][-1] > plain["robust_r2"].mean["all"][-1] - 0.2


def test_the_mean_of_all_images_explains_nothing():
    teacher, pixels = flows()[0], images()
    mean = states_of(teacher, pixels).mean(dim=0)

    class Constant(raptor.toy.Rotation):
        def step(self, tokens, layer):
            return mean[layer + 1].expand_as(tokens)

    found = trajectory_fidelity(teacher, Constant(ANGLES), pixels.split(3), PHASES)
    np.testing.assert_allclose(found["r2"].mean["patch"], 0, atol=1e-9)


def test_the_batch_size_does_not_matter(measured):
    for size in (1, 11):
        other = trajectory_fidelity(*flows(), images().split(size), PHASES)
        for name in MEASURES:
            np.testing.assert_allclose(other[name].mean["all"], measured[name].mean["all"], atol=1e-12)


def test_intervals_hold_the_value_and_shrink_with_images():
    few, many = (trajectory_fidelity(*flows(), [images(n)], PHASES) for n in (12, 192))
    for found in (few, many):
        for name in MEASURES:
            one = found[name].at("patch", 3)
            assert one.low - 1e-12 <= one.value <= one.high + 1e-12
    width = [found["epsilon"].high["patch"][4] - found["epsilon"].low["patch"][4] for found in (few, many)]
    assert width[1] < width[0] / 2


def test_what_does_not_fit_together_is_named():
    teacher = flows()[0]
    with pytest.raises(LayoutError, match="tokens, width and depth"):
        trajectory_fidelity(teacher, raptor.toy.Rotation([0.1] * 4), [images()], PHASES)
    with pytest.raises(PhaseError, match=r"2-2.*have 4 layers"):
        trajectory_fidelity(teacher, teacher, [images()], Phases((2, 2)))
    for few in ([], [images(1)]):
        with pytest.raises(DataError, match="at least 2 are needed"):
            trajectory_fidelity(teacher, teacher, few, PHASES)

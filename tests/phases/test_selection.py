"""How many phases: planted ones are found, drifts are not taken for phases."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import raptor
from depths import PACES, called_one, drifting_phases, planted, random_lengths, recovered
from raptor.core.phases import Phases
from raptor.errors import LayoutError, MatrixError, OptionError, PhaseError
from raptor.phases.choose_k import useful_k
from raptor.phases.options import PhasesOptions

SEEDS = 200


def long(*values):
    return pytest.param(*values, marks=pytest.mark.long)


@pytest.mark.parametrize("sigma", [long(0.5), long(1.0)])
def test_planted_phases_of_three_layers_or_more_are_found(sigma):
    assert recovered(SEEDS, sigma) >= 0.9


@pytest.mark.parametrize(
    ("kind", "pace"),
    [
        long("arc", "constant"),
        long("arc", "uneven"),
        *(long("walk", pace) for pace in PACES),
    ],
)
def test_a_drift_is_not_taken_for_phases(kind, pace):
    assert called_one(SEEDS, kind, pace) >= 0.95


def planted_flow(lengths):
    return raptor.toy.Planted(raptor.toy.phase_similarity(Phases(lengths)))


def test_a_flow_with_planted_phases():
    images = torch.rand(48, 3, 16, 16, generator=torch.Generator().manual_seed(0)).split(10)
    found = raptor.find_phases(planted_flow((4, 5, 3)), images)
    assert str(found.phases) == "4-5-3"
    assert (found.suggested_k, found.useful_k, found.verdict, found.n) == (3, 3, "blocks", 48)
    assert found.bootstrap.boundary_frequency == {4: 1.0, 9: 1.0}
    assert found.bootstrap.k_frequency == {3: 1.0}


def test_a_flow_that_turns_evenly_is_a_drift():
    images = torch.rand(32, 3, 16, 16, generator=torch.Generator().manual_seed(0)).split(8)
    found = raptor.find_phases(raptor.toy.Rotation([0.15] * 12), images, k=3)
    assert (found.suggested_k, found.verdict, found.k) == (1, "drift", 3)


def test_the_published_matrix_is_a_drift_that_two_phases_serve():
    matrix = 1 - np.loadtxt("tests/data/dinov2b_reg_cosine_distance.csv", delimiter=",")
    found = raptor.find_phases(matrix)
    assert (found.k, str(found.phases), found.suggested_k, found.verdict) == (2, "7-5", 1, "paced drift")
    assert found.bootstrap is None
    assert all(one.fit.held_out is None for one in found.structure.candidates)
    assert "matrix alone" in found.structure.why_not_held_out


SHORT = ["2-2", "3-2", "4-2", "2-2-2", "2-2-4", "2-2-2-2-2-2"]
LONG = ["3-4", "5-3", "6-6-6-6", "3-3-3-3-3-3-3-3", "12", "24", "4-8", "4-4-4-4-4-4-4-4-4-4-4-4"]


# Phases of two layers differ from a non-uniform drift only if their layers are very similar.
@pytest.mark.parametrize(
    ("lengths", "within"), [*((text, 0.9) for text in SHORT + LONG), *((text, 0.6) for text in LONG[:-1])]
)
def test_the_useful_k_of_planted_phases_is_their_number(lengths, within):
    phases = Phases.parse(lengths)
    matrix = raptor.toy.phase_similarity(phases, within=within, between=0.3)[1:, 1:].numpy()
    found = raptor.find_phases(matrix)
    assert (found.useful_k, found.phases) == (phases.k, phases)


@pytest.mark.parametrize(("layers", "k"), [(12, 2), (12, 3), (12, 4), (24, 3), (40, 3), (40, 4)])
def test_phases_with_a_drift_inside_are_not_split_further(layers, k):
    """Ever shorter segments of a drift are ever more alike; the elbow of the cost is where phases end."""
    right = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        states = drifting_phases(rng, random_lengths(rng, layers, k, 3), speed=0.05, jump=0.6)
        matrix = np.einsum("nid,njd->ij", states, states) / len(states)
        np.fill_diagonal(matrix, 1.0)
        right += int(useful_k(matrix[None])[0]) == k
    assert right >= 9


@pytest.mark.parametrize("noise", [0.0, 1e-9])
def test_layers_that_are_all_alike_are_one_phase(noise):
    matrix = np.ones((12, 12)) - noise * np.abs(np.random.default_rng(0).normal(size=(12, 12)))
    matrix = (matrix + matrix.T) / 2
    np.fill_diagonal(matrix, 1.0)
    assert raptor.find_phases(matrix).useful_k == 1


def test_few_images_are_not_resampled():
    found = raptor.find_phases(np.random.default_rng(0).normal(size=(15, 9, 8)), k=2)
    assert found.bootstrap is None
    assert "15 images are too few" in found.structure.why_not_held_out


def test_uncertain_boundaries_are_said_to_be_uncertain():
    # Two phases whose boundary layer belongs half to each: images disagree on where the cut is.
    rng = np.random.default_rng(0)
    early, late = planted(rng, (5, 7), 0.3)[:32], planted(rng, (6, 6), 0.3)[:32]
    states = np.concatenate([early, late])
    found = raptor.find_phases(np.concatenate([states[:, :1], states], axis=1), k=2)
    frequency = found.bootstrap.boundary_frequency
    assert set(frequency) == {5, 6}
    assert min(frequency.values()) > 0.1
    assert frequency[5] + frequency[6] == pytest.approx(1)


def test_the_bootstrap_repeats_by_seed():
    rng = np.random.default_rng(0)
    states = rng.normal(size=(40, 9, 5, 8))
    first, again, other = (raptor.find_phases(states, k=3, seed=seed).bootstrap for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_impossible_requests_fail_before_any_work():
    class Untouchable(raptor.toy.Rotation):
        def embed(self, pixels):
            raise AssertionError("work was done")

    flow = Untouchable([0.1] * 6)
    pixels = [torch.rand(2, 3, 16, 16)]
    with pytest.raises(PhaseError, match="6 layers cannot be split into 4 phases of at least 2 layers: k is at most 3"):
        raptor.find_phases(flow, pixels, k=4)
    with pytest.raises(LayoutError, match="no token group 'window'; it has cls, register, patch, all, cls"):
        raptor.find_phases(flow, pixels, options=PhasesOptions(group="window"))
    with pytest.raises(OptionError, match="'many'"):
        raptor.find_phases(flow, pixels, k="many")
    with pytest.raises(OptionError, match="weighted, mean, cut"):
        raptor.find_phases(flow, pixels, options=PhasesOptions(objective="worst"))
    with pytest.raises(OptionError, match="dp, recursive, exhaustive"):
        raptor.find_phases(flow, pixels, options=PhasesOptions(solver="worst"))
    with pytest.raises(MatrixError, match="at least two layers, not 1"):
        raptor.find_phases(Untouchable([0.1]), pixels, options=PhasesOptions(min_length=1))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.zeros((3, 4)), "square"),
        (np.array([[1.0]]), "at least two are needed"),
        (np.array([[1, np.nan], [np.nan, 1]]), "NaN"),
        (np.array([[1, 1.5], [1.5, 1]]), r"\[-1, 1\]"),
        (np.array([[1, 0.5], [0.2, 1]]), "symmetric"),
        (np.array([[0.0, 0.5], [0.5, 0.0]]), "diagonal"),
    ],
)
def test_what_is_no_similarity_matrix_is_refused(matrix, message):
    with pytest.raises(MatrixError, match=message):
        raptor.find_phases(matrix, options=PhasesOptions(min_length=1))


def test_old_keywords_still_work_with_a_warning():
    matrix = raptor.toy.phase_similarity(Phases((4, 5, 3)))[1:, 1:].numpy()
    with pytest.warns(FutureWarning, match="min_length"):
        found = raptor.find_phases(matrix, k=3, min_length=3)
    assert (found.k, found.min_length) == (3, 3)
    assert raptor.find_phases(matrix, options=PhasesOptions(k=2)).k == 2

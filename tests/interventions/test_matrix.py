"""Single layers changed, all pairs: against the flow itself, least squares of another library, and an exhaustive "
"rank."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import entropy

import raptor
from raptor.core import toy
from raptor.core.bootstrap import BinnedMean
from raptor.core.flow import ReorderedFlow
from raptor.core.phases import Phases
from raptor.interventions.matrix import contrast_weights, phase_contrast, single_orders
from raptor.interventions.options import InterveneOptions
from raptor.models.vit import ViT, ViTConfig
from vits import pixels

TINY = ViTConfig(image_size=16, depth=5, width=16, heads=2, n_register=1, n_classes=3)


@pytest.fixture(scope="module")
def vit():
    torch.manual_seed(0)
    model = ViT(TINY)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape))
    return raptor.load_model(model.eval())


def test_matrices_are_those_of_reordered_flows(vit):
    images = pixels(16, 16, batch=6)
    result = raptor.intervene(vit, [images[:4], images[4:]], "2-3", InterveneOptions(most=1, matrix_images=5))
    found, kept = result.matrix, images[:5]
    assert found.n == 5
    assert found.accuracy is None
    with torch.no_grad():
        truth = raptor.rollout(vit, vit.embed(kept)).at(5)
        own = vit.head(truth).softmax(-1).numpy()
        for (kind, one, other), order in single_orders(5).items():
            flow = ReorderedFlow(vit, order)
            last = raptor.rollout(flow, flow.embed(kept)).states[:, -1]
            cosine = torch.cosine_similarity(last, truth, dim=-1).mean().item()
            divergence = entropy(own, vit.head(last).softmax(-1).numpy(), axis=1).mean()
            for harm, value in ((found.state, 1 - cosine), (found.logits, divergence)):
                stored = harm.skip[one] if kind == "skip" else getattr(harm, kind)[one][other]
                assert stored == pytest.approx(value, abs=1e-5)
            assert found.state.interchange[one][other] == found.state.interchange[other][one]
    worse = np.mean([found.state.replace[i][j] > found.state.skip[i] for i, j in itertools.permutations(range(5), 2)])
    assert found.worse_than_skipping["state"] == pytest.approx(worse)


def planted(depth, phases, effect, seed=0):
    """Return cosines of replacements in which layer, signed distance and phases each play a part."""
    drawn = np.random.default_rng(seed)
    by_layer, by_distance = drawn.random(depth) / 9, {d: drawn.random() / 9 for d in range(-depth, depth)}
    means = {}
    for one, other in itertools.permutations(range(depth), 2):
        across = phases.block_of(one + 1) != phases.block_of(other + 1)
        harm = by_layer[one] + by_distance[other - one] + effect * across
        mean = BinnedMean()
        mean.add(torch.tensor([[0.0, 1 - harm + noise, 0.0] for noise in (-0.01, 0.01)], dtype=torch.float64))
        means[one, other] = mean
    return means


def test_a_planted_contrast_is_found_exactly_and_is_the_largest():
    phases = Phases((3, 4, 2))
    found = phase_contrast(planted(9, phases, 0.2), phases)
    assert found.value.value == pytest.approx(0.2, abs=1e-9)
    every = [one for one in itertools.product(range(2, 6), repeat=3) if sum(one) == 9]
    assert (found.rank, found.of) == (1, len(every))
    assert found.smallest_p == 1 / found.of
    assert phase_contrast(planted(9, phases, 0.0), phases).value.value == pytest.approx(0.0, abs=1e-9)


def test_weights_are_those_of_least_squares():
    phases = Phases((2, 3))
    pairs = list(itertools.permutations(range(5), 2))
    across = np.array([float((one < 2) != (other < 2)) for one, other in pairs])
    others = [[float(one == layer) for layer in range(5)] for one, _ in pairs]
    distances = sorted({other - one for one, other in pairs})
    design = np.column_stack([across, others, [[float(b - a == d) for d in distances] for a, b in pairs]])
    harm = np.random.default_rng(0).random(len(pairs))
    assert contrast_weights(pairs, phases) @ harm == pytest.approx(np.linalg.pinv(design)[0] @ harm)


def test_one_phase_has_no_contrast():
    assert phase_contrast(planted(6, Phases((6,)), 0.0), Phases((6,))) is None
    result = raptor.intervene(toy.Rotation([0.1] * 4), [pixels(32, 32)], "4", InterveneOptions(most=1))
    assert result.matrix.contrast is None
    assert result.matrix.logits is None
    none = raptor.intervene(toy.Rotation([0.1] * 4), [pixels(32, 32)], "4", InterveneOptions(most=1, matrix_images=0))
    assert none.matrix is None

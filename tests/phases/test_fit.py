"""Costs of segments by least squares, and surrogates that follow from them without training."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import raptor
from raptor.core.flow import rollout
from raptor.core.phases import Phases
from raptor.errors import DataError
from raptor.evaluation.fidelity import trajectory_fidelity
from raptor.models.surrogate import build_surrogate
from raptor.phases.function import fit as fitting
from raptor.phases.function.features import block_features
from raptor.phases.function.fit import fitted_partition, layers_around, segment_costs
from raptor.phases.function.moments import Moments
from raptor.phases.function.training_free import fit_surrogate
from recurrent import noise_images, random_phases, tied
from test_function import Linear, pixels
from tied import TIED, tied_teacher


def test_segments_are_nested_around_their_middle_block():
    """The same middle block as a surrogate's."""
    for depth in (5, 6):
        order = {middle: layers_around(middle, depth) for middle in range(depth)}
        for start in range(depth):
            for stop in range(start + 1, depth + 1):
                middle = list(range(start, stop))[(stop - start - 1) // 2]
                assert sorted(order[middle][: stop - start]) == list(range(start, stop))


def test_costs_equal_least_squares_in_memory():
    """One map for all layers of a segment, fitted to the even images and evaluated on the odd ones."""
    torch.manual_seed(0)
    teacher, images = tied_teacher(width=8), noise_images(12)[0]
    teacher.module.double()
    with torch.no_grad():
        costs = segment_costs(teacher, images.double().split(5))
        states = rollout(teacher, teacher.embed(images.double())).states
    for first, last in ((0, 3), (4, 8), (10, 12)):
        span = list(range(first, last))
        block = span[(len(span) - 1) // 2]
        xs, ys = [], []
        with torch.no_grad():
            for layer in span:
                features = block_features(teacher, states[:, layer], block).numpy()
                update = (states[:, layer + 1] - states[:, layer]).numpy()
                xs.append(features), ys.append(update)
        weights = [1 / np.sqrt(np.square(y[::2]).sum()) for y in ys]
        x = np.concatenate([w * x[::2].reshape(-1, x.shape[-1]) for x, w in zip(xs, weights, strict=True)])
        y = np.concatenate([w * y[::2].reshape(-1, y.shape[-1]) for y, w in zip(ys, weights, strict=True)])
        penalty = np.sqrt(1e-6 * np.mean(np.square(x).sum(0))) * np.eye(x.shape[1])
        map_, *_ = np.linalg.lstsq(
            np.vstack([x, penalty]), np.vstack([y, np.zeros((len(penalty), y.shape[1]))]), rcond=None
        )
        left = sum(
            np.square(y[1::2] - x[1::2] @ map_).sum() / np.square(y[1::2]).sum() for x, y in zip(xs, ys, strict=True)
        )
        assert np.isclose(costs[first, last], left, rtol=1e-5, atol=1e-9)


def test_a_tied_linear_flow_is_fitted_exactly():
    phases = Phases((3, 4, 2))
    costs = segment_costs(Linear(phases), [pixels(24)])
    for start, stop in ((0, 3), (3, 7), (7, 9)):
        assert costs[start, stop] < 1e-6
    assert costs[0, 7] > 1e-3
    assert fitted_partition(costs, 3, 2).phases == phases


def test_memory_bounds_the_blocks_of_a_pass(monkeypatch):
    flow, images = Linear(Phases((2, 3))), [pixels(8)]
    whole = segment_costs(flow, images)
    monkeypatch.setattr(fitting, "MEMORY", 1)
    assert np.array_equal(segment_costs(flow, images), whole)


def test_only_some_tokens_are_used_where_there_are_many(monkeypatch):
    flow = Linear(Phases((2, 3)))
    whole = segment_costs(flow, [pixels(64)])
    monkeypatch.setattr(fitting, "TOKENS", 4)
    fewer = segment_costs(flow, [pixels(64)])
    assert not np.array_equal(whole, fewer)
    assert np.allclose(whole, fewer, rtol=0.3, atol=1e-6)


def test_one_image_is_too_few():
    with pytest.raises(DataError, match="at least 2"):
        segment_costs(Linear(Phases((2, 3))), [pixels(1)])


def test_moments_add_up_and_weigh():
    draw = torch.Generator().manual_seed(0)
    x, y = torch.randn(9, 4, generator=draw).double(), torch.randn(9, 2, generator=draw).double()
    both = Moments.of(x[:5], y[:5]) * 2.0 + Moments.of(x[5:], y[5:])
    rows = torch.tensor([2.0] * 5 + [1.0] * 4).double().sqrt()[:, None]
    wanted = torch.linalg.lstsq(rows * x, rows * y).solution
    assert torch.allclose(both.solve(ridge=0.0), wanted)
    assert np.isclose(both.error(wanted), float((rows * (y - x @ wanted)).square().sum()))


@pytest.mark.parametrize("seed", [0, 1])
def test_cuts_of_tied_networks(seed):
    phases = random_phases(12, seed)
    found = fitted_partition(segment_costs(tied(12, phases, 0.0, 1000 + seed), noise_images()), phases.k, 2)
    assert found.phases == phases
    assert found.score > 0.999


def test_a_surrogate_of_a_tied_network_is_exact():
    teacher = tied_teacher()
    surrogate = fit_surrogate(teacher, noise_images(96), TIED, progress=False)
    r2 = trajectory_fidelity(teacher, surrogate, noise_images(16, seed=1), TIED)["r2"].mean["all"]
    assert min(r2) > 0.999


def test_fitting_on_the_own_rollout_helps_and_the_teacher_stays():
    phases, teacher = Phases((5, 5, 2)), raptor.load_model("scenes")
    fit, held_out = (list(raptor.load_images(f"scenes:{split}", teacher, images=48)) for split in ("train", "test"))
    before = [parameter.clone() for parameter in teacher.parameters()]
    surrogates = [build_surrogate(teacher, phases), *(fit_surrogate(teacher, fit, phases, n, False) for n in (1, 2))]
    r2 = [trajectory_fidelity(teacher, one, held_out, phases, draws=2)["r2"].mean["all"][4] for one in surrogates]
    assert r2[0] < 0 < r2[1] < r2[2]
    assert all(torch.equal(one, other) for one, other in zip(before, teacher.parameters(), strict=True))


def test_by_fit_reports_all_methods():
    phases = random_phases(12, 0)
    options = raptor.PhasesOptions(by="fit", k=phases.k, function_images=16, fit_images=64)
    found = raptor.find_phases(tied(12, phases, 0.0, 1000), noise_images(64), options=options, progress=False)
    assert found.phases == found.agreement.fit == found.agreement.function == phases
    assert found.agreement.even == Phases.even(12, phases.k)
    assert set(found.methods) == {"similarity", "function", "fit"}
    assert found.fit.surrogate["r2"].mean["all"][-1] > 0.99

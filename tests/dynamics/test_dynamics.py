"""Dynamics of toys whose every number is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import raptor
from raptor.core import toy
from raptor.core.tokens import TokenLayout
from raptor.dynamics.angles import angle
from raptor.dynamics.curves.coherence import Coherence
from raptor.dynamics.curves.convergence import Convergence
from raptor.dynamics.curves.norms import Norms
from raptor.dynamics.curves.ranks import UpdateRanks, ranks
from raptor.dynamics.curves.speed import Speed
from raptor.dynamics.dmd.pooled import DMDError, PooledDMD, fit
from raptor.dynamics.dmd.random_walk import RandomWalkMeasure, random_walk
from raptor.dynamics.measures import StateBatch, run_measures
from vits import family, pixels


def batches(n=24, size=7, dtype=torch.float64):
    return pixels(32, 32, batch=n).to(dtype).split(size)


def state_batch(*layers, layout=None):
    states = [torch.as_tensor(layer, dtype=torch.float64) for layer in layers]
    return StateBatch(states, layout or TokenLayout(0, 0, (1, states[0].shape[1])))


@pytest.mark.parametrize("theta", [1e-4, 1e-2, 1.0, 3.0])
def test_a_rotation_has_its_angle_as_speed_in_single_precision(theta):
    flow, speed, gamma = toy.Rotation([theta] * 5), Speed(), Convergence()
    run_measures(flow, batches(dtype=torch.float32), speed, gamma)
    for group in flow.layout.slices:
        assert speed.compute().mean[group] == pytest.approx([theta] * 5, abs=1e-6)
        assert speed.standard_deviation().mean[group] == pytest.approx([0.0] * 5, abs=1e-5)
        expected = [math.cos((5 - layer) * theta) for layer in range(6)]
        assert gamma.compute().mean[group] == pytest.approx(expected, abs=1e-5)


def test_arccos_would_have_lost_small_angles():
    x = torch.nn.functional.normalize(torch.tensor([[1.0, 1.0, 1.0]]), dim=-1)
    y = torch.nn.functional.normalize(x + torch.tensor([[1e-4, -1e-4, 0.0]]), dim=-1)
    truth = math.sqrt(2) * 1e-4
    assert angle(x, y).item() == pytest.approx(truth, rel=1e-3)
    assert torch.arccos((x * y).sum(dim=-1).clamp(max=1)).item() != pytest.approx(truth, rel=1e-1)


def test_the_spread_of_speeds_is_over_tokens_and_images():
    """Two images, two tokens, angles 0.1, 0.2, 0.3, 0.4 in one step."""
    angles = torch.tensor([[0.1, 0.2], [0.3, 0.4]], dtype=torch.float64)
    before = torch.tensor([1.0, 0.0], dtype=torch.float64).expand(2, 2, 2)
    after = torch.stack([angles.cos(), angles.sin()], dim=-1)
    speed = Speed()
    speed.update(state_batch(before, 5 * after))
    assert speed.compute().mean["patch"] == pytest.approx([0.25])
    assert speed.standard_deviation().mean["patch"] == pytest.approx([np.std([0.1, 0.2, 0.3, 0.4])])


def test_the_layer_that_settles_is_the_first_above_nine_tenths():
    flow, gamma = toy.Rotation([0.3] * 6), Convergence()
    run_measures(flow, batches(), gamma)
    first = next(layer for layer in range(7) if math.cos((6 - layer) * 0.3) > 0.9)
    converged = gamma.converged_layer()["patch"]
    assert (converged.value, converged.low, converged.high) == (first, first, first)


def test_ranks_by_hand():
    """Singular values 2, 1, 1: stable rank 6/4, participation 36/18, entropy of 1/2, 1/4, 1/4."""
    found = ranks(torch.diag(torch.tensor([4.0, 1.0, 1.0, 0.0], dtype=torch.float64)))
    assert found["stable_rank"].item() == pytest.approx(1.5)
    assert found["participation_ratio"].item() == pytest.approx(2.0)
    assert found["entropy_rank"].item() == pytest.approx(math.exp(0.5 * math.log(2) + 0.5 * math.log(4)))


@pytest.mark.parametrize("rank", [1, 3])
def test_updates_of_a_rank_have_it(rank):
    """Updates are along `rank` orthogonal axes, all as often: every rank says so; their mean takes one away."""
    torch.manual_seed(0)
    layout, measure = TokenLayout(0, 0, (2, rank)), UpdateRanks()
    axes = torch.eye(8, dtype=torch.float64)[:rank].repeat(2, 1)
    for _ in range(6):
        one = StateBatch([torch.zeros(3, 2 * rank, 8)] * 2, layout)
        one.updates = [axes.expand(3, -1, -1)]
        measure.update(one)
    for name, found in measure.compute().items():
        if rank == 1 and name.startswith("centred"):
            continue  # nothing is left
        expected = rank - name.startswith("centred")
        assert found.mean["patch"] == pytest.approx([expected])
        assert found.low["patch"] == pytest.approx([expected])
        assert found.n == 18


def test_streamed_ranks_are_those_of_the_whole_matrix():
    flow, measure, speed = toy.Contraction(3, 0.4), UpdateRanks(), Speed()
    run_measures(flow, batches(), measure, speed)
    with torch.no_grad():
        states = raptor.rollout(flow, flow.embed(torch.cat(batches()))).directions()
    whole = (states[:, 2] - states[:, 1])[:, flow.layout.where("patch")].flatten(0, 1)
    values = torch.linalg.svdvals(whole)
    expected = (values.square().sum() / values[0] ** 2).item()
    assert measure.compute()["stable_rank"].mean["patch"][1] == pytest.approx(expected, rel=1e-4)


def test_intervals_of_ranks_are_the_jackknifes():
    flow, measure = toy.Contraction(3, 0.4), UpdateRanks()
    images = pixels(32, 32, batch=20).double()
    run_measures(flow, images.split(7), measure)
    updates = raptor.rollout(flow, flow.embed(images)).updates()[:, 1, flow.layout.where("patch")]
    without = []
    for part in range(5):
        left = torch.cat([updates[: 4 * part], updates[4 * part + 4 :]]).flatten(0, 1)
        squares = torch.linalg.svdvals(left).square()
        without.append((squares.sum() / squares[0]).item())
    error = math.sqrt(4 / 5 * sum((value - np.mean(without)) ** 2 for value in without))
    found = measure.compute()["stable_rank"]
    half = (found.high["patch"][1] - found.low["patch"][1]) / 2
    assert half == pytest.approx(2.7764451 * error, rel=1e-3)  # the 97.5% point of Student's t with 4 degrees


def test_a_common_shift_is_coherent_and_independent_ones_are_at_the_floor():
    torch.manual_seed(0)
    n, images, width = 64, 40, 128
    layout, both = TokenLayout(0, 0, (8, 8)), {}
    for name, updates in (("common", torch.randn(images, 1, width).expand(-1, n, -1)),
                          ("independent", torch.randn(images, n, width))):  # fmt: skip
        one = StateBatch([torch.zeros(images, n, width)] * 2, layout)
        one.updates = [updates]
        both[name] = Coherence()
        both[name].update(one)
    assert both["common"].compute().mean["patch"] == pytest.approx([1.0], abs=1e-5)
    floor = both["independent"].floor["patch"]
    assert floor == 1 / 8
    found = both["independent"].compute()
    error = (found.high["patch"][0] - found.low["patch"][0]) / (2 * 1.96)
    assert found.mean["patch"][0] == pytest.approx(floor, abs=3 * error + 0.002)


def test_coherence_is_its_definition():
    torch.manual_seed(1)
    updates = torch.randn(3, 5, 4, dtype=torch.float64)
    measure, one = Coherence(), StateBatch([torch.zeros(3, 5, 4)] * 2, TokenLayout(0, 0, (1, 5)))
    one.updates = [updates]
    measure.update(one)
    mean = updates.mean(dim=1, keepdim=True)
    kappa = torch.cosine_similarity(updates, mean, dim=-1).mean(dim=1)
    assert measure.compute().mean["patch"] == pytest.approx([kappa.mean().item()])


def test_dmd_finds_the_eigenvalues_of_a_diagonal_flow():
    """Not on the sphere, where a diagonal flow is not linear."""
    values = [1.1, 0.9, -0.7, 0.4]
    flow, pooled = toy.Diagonal(6, values), PooledDMD(normalised=False)
    run_measures(flow, batches(), pooled)
    for modes in pooled.compute().values():
        assert sorted(modes.eigenvalues.real.tolist()) == pytest.approx(sorted(values), abs=1e-8)
    trajectory = raptor.rollout(flow, flow.embed(batches()[0])).states
    one = StateBatch(list(trajectory.unbind(1)), flow.layout).group_means["cls"][0]
    modes = fit(one[:-1].T, one[1:].T)
    assert sorted(modes.eigenvalues.real.tolist()) == pytest.approx(sorted(values), abs=1e-8)
    later = (modes.modes @ (modes.eigenvalues**5 * modes.amplitudes())).real
    torch.testing.assert_close(later, one[5], rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(modes.step(one[:-1]), one[1:], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("normalised", [True, False])
def test_dmd_finds_a_rotation_either_way(normalised):
    flow, pooled = toy.Rotation([0.4] * 6), PooledDMD(normalised=normalised)
    run_measures(flow, batches(), pooled)
    for modes in pooled.compute().values():
        assert modes.eigenvalues.abs().tolist() == pytest.approx([1.0] * len(modes.eigenvalues), abs=1e-8)
        assert modes.eigenvalues.angle().abs().tolist() == pytest.approx([0.4] * len(modes.eigenvalues), abs=1e-8)
        assert modes.spectral_radius == pytest.approx(1.0)


def test_dmd_is_pydmds():
    pydmd = pytest.importorskip("pydmd")
    torch.manual_seed(0)
    states = torch.randn(20, 9, dtype=torch.float64).cumsum(dim=1)
    for rank in (3, 8):
        ours = fit(states[:, :-1], states[:, 1:], rank)
        theirs = pydmd.DMD(svd_rank=rank, exact=True, opt=False).fit(states.numpy())
        assert np.sort_complex(ours.eigenvalues.numpy()) == pytest.approx(np.sort_complex(theirs.eigs), abs=1e-8)
        amplitudes = np.abs(ours.amplitudes().numpy()) * np.linalg.norm(ours.modes.numpy(), axis=0)
        expected = np.abs(theirs.amplitudes) * np.linalg.norm(theirs.modes, axis=0)
        assert np.sort(amplitudes) == pytest.approx(np.sort(expected), rel=1e-6)


def test_streamed_dmd_is_that_of_all_pairs():
    teacher, pooled = raptor.load_model(family("dinov2-registers").build()), PooledDMD(rank=4)
    images = pixels(32, 32, batch=12)
    run_measures(teacher, images.split(5), pooled)
    with torch.no_grad():
        trajectory = raptor.rollout(teacher, teacher.embed(images)).states
    states = StateBatch(list(trajectory.unbind(1)), teacher.layout).unit_means["patch"]
    whole = fit(states[:, :-1].flatten(0, 1).T, states[:, 1:].flatten(0, 1).T, rank=4)
    found = pooled.compute()["patch"]
    assert np.sort_complex(found.eigenvalues.numpy()) == pytest.approx(
        np.sort_complex(whole.eigenvalues.numpy()), abs=1e-6
    )
    torch.testing.assert_close(found.singular[:4], whole.singular[:4], rtol=1e-6, atol=1e-8)


def test_rank_is_capped_where_the_data_has_less():
    flow, pooled = toy.Diagonal(6, [0.9, 0.5, 0.0, 0.0, 0.0]), PooledDMD(normalised=False)
    run_measures(flow, [torch.rand(1, 3, 32, 32, dtype=torch.float64)], pooled)
    found = pooled.compute()["cls"].eigenvalues.abs().tolist()
    assert found == pytest.approx([0.9, 0.5, 0.0], abs=1e-9)  # what vanishes at once is one direction of one image


def test_no_measure_depends_on_how_images_are_batched(monkeypatch):
    from raptor.dynamics import measures as module

    teacher = raptor.load_model(family("dinov2-registers").build())
    images = pixels(32, 32, batch=12)
    found = []
    for held, size in ((2**28, 12), (2**28, 5), (1, 12)):
        monkeypatch.setattr(module, "STATE_BYTES", held)
        measures = Norms(), Convergence(), Speed(), Coherence()
        run_measures(teacher, images.split(size), *measures)
        found.append([measure.compute().mean for measure in measures])
    for other in found[1:]:
        for one, same in zip(found[0], other, strict=True):
            for group, values in one.items():
                assert same[group] == pytest.approx(values, rel=1e-5, abs=1e-6)


def test_a_map_is_judged_on_the_images_that_it_was_not_fitted_to():
    """A rotation is linear: no error on others."""
    flow, pooled = toy.Rotation([0.4] * 6), PooledDMD()
    run_measures(flow, batches()[:2], pooled)
    assert pooled.n == 14
    judged = DMDError(pooled.compute())
    run_measures(flow, batches()[2:], judged)
    for group in flow.layout.slices:
        assert judged.one_step[group].n == 10
        assert judged.one_step[group].mean().tolist() == pytest.approx([0.0] * 6, abs=1e-6)
        assert judged.rollout[group].mean().tolist() == pytest.approx([0.0] * 6, abs=1e-5)


def test_a_random_walk_moves_as_fast_and_remembers_nothing():
    speeds = [0.3, 0.1, 0.5]
    starts = torch.randn(200, 64, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    states = random_walk(starts, speeds)
    for before, after, speed in zip(states, states[1:], speeds, strict=False):
        torch.testing.assert_close(angle(before, after), torch.full((200,), speed, dtype=torch.float64))
    first, second = states[1] - states[0], states[2] - states[1]
    assert torch.cosine_similarity(first, second, dim=-1).mean().item() == pytest.approx(0.0, abs=0.05)


def test_the_walk_beside_a_flow_starts_where_it_does_and_is_as_fast():
    """A rotation and its walk share starts and speed; the map of the one is exact, that of the other is not."""
    flow, walk = toy.Rotation([0.4] * 6), RandomWalkMeasure()
    run_measures(flow, batches(40), walk)
    for group, mean in walk.speeds.items():
        assert mean.mean().tolist() == pytest.approx([0.4] * 6, abs=1e-9)
        starts = torch.cat(walk.starts[group])
        torch.testing.assert_close(random_walk(starts, [0.4])[0], starts)
    found = walk.compute()["cls"]
    assert found.n == 40
    assert found.one_step_error > 0.1


def test_modes_are_not_made_of_rounding():
    """A rotation of one image has rank 2, in single precision too."""
    flow, pooled = toy.Rotation([0.4] * 6), PooledDMD()
    run_measures(flow, [pixels(32, 32, batch=1)], pooled)
    for modes in pooled.compute().values():
        assert len(modes.eigenvalues) == 2
        assert modes.spectral_radius == pytest.approx(1.0, abs=1e-5)


def test_ranks_are_not_made_of_rounding():
    """Updates of rank 5 with equal singular values, summed in single precision at width 512."""
    axes = torch.linalg.qr(torch.randn(512, 5, generator=torch.Generator().manual_seed(0)))[0].T
    layout, measure = TokenLayout(0, 0, (1, 5)), UpdateRanks()
    one = StateBatch([torch.zeros(40, 5, 512)] * 2, layout)
    one.updates = [axes.expand(40, -1, -1)]
    measure.update(one)
    assert measure.compute()["entropy_rank"].mean["patch"] == pytest.approx([5.0], rel=1e-3)

"""All of section 4 in one pass: halves, paths, single images, likeness and claims, each against what is known."""

from __future__ import annotations

import math
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import raptor
from raptor import toy
from raptor.data.batch import Batch
from raptor.dynamics.halves import in_halves
from raptor.dynamics.image_dmd import ImageDMD
from raptor.dynamics.image_ranks import ImageRanks
from raptor.dynamics.likeness import distances
from raptor.dynamics.motion import Motion, observe
from raptor.dynamics.paths import PathsMeasure, PrincipalMeasure
from raptor.dynamics.perturbation import push
from raptor.dynamics.survey import Pooled
from raptor.dynamics_claims import claims
from raptor.errors import DataError
from raptor.phases import Phases
from vits import family, pixels


def batch(n, first=0):
    images = pixels(32, 32, batch=first + n)[first:]
    return Batch(images, torch.arange(first, first + n) % 3, None, None, [str(first + i) for i in range(n)])


def numbers(half):
    return [int(path) for one in half for path in one.path]


def test_halves_share_no_image_and_leave_none_out():
    first, second = in_halves([batch(4, 4 * i) for i in range(3)])
    assert numbers(first) == numbers(first)
    once = in_halves(batch(4, 4 * i) for i in range(3))
    assert [numbers(half) for half in once] == [numbers(first), numbers(second)]
    assert (numbers(first), numbers(second)) == ([0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7])
    first, second = in_halves([batch(5)])
    assert (numbers(first), numbers(second)) == ([0, 1, 2], [3, 4])
    assert second[0].label.tolist() == [0, 1]
    first, second = in_halves([torch.zeros(3, 3, 8, 8)])
    assert (len(first[0]), len(second[0])) == (2, 1)


def test_halves_of_folders_are_drawn_and_those_of_scenes_are_other_scenes(flat):
    teacher = raptor.load_teacher("scenes")
    for images in (raptor.load_images(flat, teacher), raptor.load_images("scenes", teacher, images=10)):
        first, second = images.halves()
        paths = [[path for one in half for path in one.path] for half in (first, second)]
        assert len(first) == len(second) == 5
        assert paths[0] != sorted(paths[0]) or "scenes:" in paths[0][0]  # the first of a half are of any class
        assert len({*paths[0], *paths[1]}) == 10
        assert (first.keys | second.keys, first.keys & second.keys) == (images.keys, set())


@pytest.mark.parametrize("images", [[torch.zeros(1, 3, 8, 8)], []])
def test_one_image_has_no_halves(images):
    with pytest.raises(DataError, match="two"):
        in_halves(images)


def motion_of(flow, images, label=None):
    with torch.no_grad():
        states = raptor.rollout(flow, flow.embed(images)).states
    return Motion(list(states.unbind(1)), flow.layout, label)


def test_streamed_directions_are_scikit_learns():
    decomposition = pytest.importorskip("sklearn.decomposition")
    flow, measure = toy.Contraction(4, 0.6), PrincipalMeasure()
    images = pixels(32, 32, batch=20).double()
    observe(flow, images.split(6), measure)
    whole = motion_of(flow, images).unit_means["patch"]
    expected = decomposition.PCA(3).fit(whole.flatten(0, 1).numpy())
    found = measure.result()["patch"]
    assert found.explained == pytest.approx(expected.explained_variance_ratio_.tolist())
    along = np.abs(found.components.numpy() @ expected.components_.T)
    assert along == pytest.approx(np.eye(3), abs=1e-6)
    coordinates = np.abs(found(whole).flatten(0, 1).numpy())
    assert coordinates == pytest.approx(np.abs(expected.transform(whole.flatten(0, 1).numpy())), abs=1e-8)


def test_paths_are_means_of_classes():
    flow, principal = toy.Contraction(4, 0.6), PrincipalMeasure()
    images, label = pixels(32, 32, batch=20).double(), torch.arange(20) % 3
    whole = motion_of(flow, images, label)
    principal.add(whole)
    measure = PathsMeasure(principal.result())
    for part in torch.arange(20).split(6):
        measure.add(Motion([states[part] for states in whole.states], flow.layout, label[part]))
    found = measure.result()["cls"]
    at = principal.result()["cls"](whole.unit_means["cls"])
    for number in range(3):
        own = at[label == number]
        assert np.array(found.classes[number]) == pytest.approx(own.mean(dim=0).numpy())
        assert np.array(found.spread[number]) == pytest.approx(own.std(dim=0, correction=0).numpy(), abs=1e-7)
        assert found.count[number] == len(own)
    assert [number for number, _ in found.examples] == label.tolist()
    assert np.array(found.examples[7][1]) == pytest.approx(at[7].numpy())


def test_single_images_are_fitted_as_pydmd_fits_them():
    pydmd = pytest.importorskip("pydmd")
    teacher, measure = raptor.load_teacher(family("dinov2-registers").build()), ImageDMD(rank=2, most=5)
    images = pixels(32, 32, batch=8)
    observe(teacher, images.split(3), measure)
    found = measure.result()["patch"]
    radii, medians = [], []
    for states in motion_of(teacher, images).unit_means["patch"][:5]:
        moduli = np.abs(pydmd.DMD(svd_rank=2, exact=True, opt=False).fit(states.T.numpy()).eigs)
        radii.append(moduli.max())
        medians.append(np.sort(moduli)[(len(moduli) - 1) // 2])
    assert found.n == 5
    assert found.rank == 2
    assert found.spectral_radius == pytest.approx(np.mean(radii), rel=1e-6)
    assert found.median_modulus == pytest.approx(np.mean(medians), rel=1e-6)


def test_ranks_of_single_images_are_those_of_their_singular_values():
    flow, measure = toy.Contraction(3, 0.4), ImageRanks(most=4)
    images = pixels(32, 32, batch=6).double()
    observe(flow, images.split(3), measure)
    updates = motion_of(flow, images).updates[1][:4, flow.layout.where("patch")]
    values = torch.linalg.svdvals(updates).square()
    expected = (values.sum(dim=-1) / values.amax(dim=-1)).mean().item()
    found = measure.result()["stable_rank"]
    assert found.mean["patch"][1] == pytest.approx(expected, rel=1e-6)
    assert found.n == 4
    assert "cls" not in found.mean


def test_return_times_are_ranked_against_gamma():
    flow = toy.Contraction(8, 0.6)
    pushed = push(flow, [pixels(32, 32, batch=4).double()], draws=1)
    gamma = [0.1 * layer for layer in range(9)]
    times = [pushed.return_time(("cls", "cls"), layer, 0.1) for layer in range(8)]
    assert math.inf in times
    back = [layer for layer in range(8) if times[layer] < math.inf]
    expected = spearmanr([times[layer] for layer in back], [gamma[layer] for layer in back])
    # What late pushes have no time for says nothing of them.
    assert pushed.basin_depth("cls", gamma, 0.1) == pytest.approx((expected.statistic, expected.pvalue, len(back)))
    assert all(map(math.isnan, pushed.basin_depth("cls", [0.5] * 9, 0.1)[:2]))


@pytest.fixture(scope="module")
def measured():
    """A rotation and a faster one, with labels."""
    images = [batch(8, 8 * i) for i in range(4)]
    images = [SimpleNamespace(pixels=one.pixels.double(), label=one.label) for one in images]
    phases = Phases((3, 3))
    flows = {theta: toy.Rotation([theta] * 6) for theta in (0.2, 0.3)}
    return {
        theta: raptor.measure_dynamics(flow, images, phases, beyond=True, pushed=4, stretched=1)
        for theta, flow in flows.items()
    }


def test_everything_of_a_rotation(measured):
    found = measured[0.2]
    assert found.n == 32
    assert found.curves["speed"].mean["patch"] == pytest.approx([0.2] * 6, abs=1e-9)
    for modes in found.modes.values():
        assert modes.spectral_radius == pytest.approx(1.0, abs=1e-8)
    assert found.dmd_error.one["cls"].n == 16
    assert found.dmd_error.one["cls"].mean().tolist() == pytest.approx([0.0] * 6, abs=1e-6)
    assert found.image_modes["cls"].spectral_radius == pytest.approx(1.0, abs=1e-6)
    assert found.settled["cls"][0] == next(layer for layer in range(7) if math.cos(0.2 * (6 - layer)) > 0.9)
    assert np.ravel(found.expansion.mean) == pytest.approx(np.zeros(32), abs=1e-6)
    assert found.basins["cls"].n == 16
    # A rotation goes on for ever.
    assert found.beyond.speed.mean["patch"] == pytest.approx([0.2] * 48, abs=1e-6)
    assert set(found.boundaries["cls"]) == {"given"}


def test_distances_are_of_the_curves(measured):
    found = distances(measured[0.2], measured[0.3])
    speed = found["speed"]["patch"]
    assert (speed.mean, speed.most) == pytest.approx((0.1, 0.1))
    assert math.isnan(speed.relative)  # the first curve has no range
    gaps = [abs(math.cos(0.2 * (6 - layer)) - math.cos(0.3 * (6 - layer))) for layer in range(7)]
    assert found["gamma"]["cls"].mean == pytest.approx(np.mean(gaps))
    assert found["gamma"]["cls"].relative == pytest.approx(np.mean(gaps) / (1 - math.cos(1.2)))
    same = distances(measured[0.2], measured[0.2])
    assert max(one.most for groups in same.values() for one in groups.values()) == 0


def test_claims_say_what_does_not_hold(measured):
    """All groups of a rotation are alike: there is no order to speak of."""
    found = {claim["text"]: claim for claim in claims(measured[0.2])}
    assert found["pushed trajectories bend back"]["held"] is False
    assert found["directions settle in the order registers, patches, cls"]["held"] is None
    assert found["cls has the longest memory, then registers, then patches"]["held"] is None
    assert found["eigenvalues of depth as one linear map lie in the unit disc"]["held"] is True
    boundary = found["tokens are faster where phases meet"]
    assert boundary["held"] is None  # one of five placements: no test of six layers can tell
    assert "0.200" in boundary["evidence"]
    assert all(set(claim) == {"text", "held", "evidence"} for claim in found.values())


def test_streaming_two_thousand_images_is_what_memory_gives():
    teacher = raptor.load_teacher(family("dinov2-registers").build())
    images, label = pixels(32, 32, batch=2000), torch.arange(2000) % 5
    batches = [Batch(part, own, None, None, []) for part, own in zip(images.split(64), label.split(64), strict=True)]
    streamed = Pooled(labelled=True)
    streamed.run(teacher, (batches[:16], batches[16:]))
    whole = motion_of(teacher, images, label)
    where = teacher.layout.where("patch")
    directions = torch.stack(whole.directions, dim=1)[:, :, where].double()
    curves = {name: torch.tensor(values.mean["patch"]) for name, values in streamed.curves(0).items()}
    cosines = (directions * directions[:, -1:]).sum(dim=-1).mean(dim=(0, 2))
    angles = torch.stack(
        [
            2 * torch.atan2((one - two).norm(dim=-1), (one + two).norm(dim=-1))
            for one, two in zip(directions.unbind(1), directions.unbind(1)[1:], strict=False)
        ],
        dim=1,
    )
    values = torch.stack([torch.linalg.svdvals(update.flatten(0, 1)) for update in directions.diff(dim=1).unbind(1)])
    updates = directions.diff(dim=1)
    expected = {
        "norm": torch.stack(whole.states, dim=1)[:, :, where].norm(dim=-1).mean(dim=(0, 2)),
        "gamma": cosines,
        "speed": angles.mean(dim=(0, 2)),
        "speed_std": angles.transpose(1, 2).flatten(0, 1).std(dim=0, correction=0),
        "stable_rank": values.square().sum(dim=1) / values[:, 0].square(),
        "coherence": torch.cosine_similarity(updates, updates.mean(dim=2, keepdim=True), dim=-1).mean(dim=(0, 2)),
    }
    for name, value in expected.items():
        torch.testing.assert_close(curves[name].double(), value.double(), rtol=1e-5, atol=1e-5)


PEAK = """
import sys, torch
import raptor
from raptor import toy
from raptor.data.batch import Batch
n = int(sys.argv[1])
flow = toy.Contraction(6, 0.8, width=64)
def batches(n):
    for i in range(n // 50):
        draw = torch.Generator().manual_seed(i)
        yield Batch(torch.rand(50, 3, 32, 32, generator=draw), torch.arange(50) % 5, None, None, [])
from raptor.dynamics.survey import Pooled
pooled = Pooled(True)
pooled.run(flow, (batches(n // 2), batches(n // 2)))
pooled.curves(0)
print(int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are told by Linux")
def test_memory_does_not_grow_with_the_number_of_images():
    few, many = (
        int(subprocess.run([sys.executable, "-c", PEAK, str(n)], capture_output=True, text=True, check=True).stdout)
        for n in (1100, 6600)  # both more than the bins of the bootstrap
    )
    assert many < few + 20_000  # kilobytes; the states of 5,500 images would be 170,000

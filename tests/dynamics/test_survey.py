"""All of section 4 in one pass: halves, paths, single images, curve distances, claims, each against what is known."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import raptor
from raptor.core import toy
from raptor.core.batches import Batch, as_image_set
from raptor.core.phases import Phases
from raptor.dynamics.compare import curve_distances
from raptor.dynamics.curves.image_ranks import ImageRanks
from raptor.dynamics.dmd.single_images import ImageDMD
from raptor.dynamics.measures import StateBatch, run_measures
from raptor.dynamics.options import DynamicsOptions
from raptor.dynamics.paths import PathsMeasure, PrincipalMeasure
from raptor.dynamics.perturbations.perturb import perturb
from raptor.dynamics.survey import Pooled
from raptor.errors import DataError
from vits import family, pixels


def batch(n, first=0):
    images = pixels(32, 32, batch=first + n)[first:]
    return Batch(images, torch.arange(first, first + n) % 3, None, None, [str(first + i) for i in range(n)])


def numbers(half):
    return [int(path) for one in half for path in one.path]


def fit_eval_split(images):
    return as_image_set(images).fit_eval_split()


def test_halves_share_no_image_and_leave_none_out():
    first, second = fit_eval_split([batch(4, 4 * i) for i in range(3)])
    assert numbers(first) == numbers(first)
    once = fit_eval_split(batch(4, 4 * i) for i in range(3))
    assert [numbers(half) for half in once] == [numbers(first), numbers(second)]
    assert (numbers(first), numbers(second)) == ([0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7])
    first, second = fit_eval_split([batch(5)])
    assert (numbers(first), numbers(second)) == ([0, 1, 2], [3, 4])
    assert next(iter(second)).label.tolist() == [0, 1]
    first, second = fit_eval_split([torch.zeros(3, 3, 8, 8)])
    assert (len(first), len(second)) == (2, 1)


def test_halves_of_folders_are_drawn_and_those_of_scenes_are_other_scenes(flat):
    teacher = raptor.load_model("scenes")
    for images in (raptor.load_images(flat, teacher), raptor.load_images("scenes", teacher, images=10)):
        first, second = images.fit_eval_split()
        paths = [[path for one in half for path in one.path] for half in (first, second)]
        assert len(first) == len(second) == 5
        assert paths[0] != sorted(paths[0]) or "scenes:" in paths[0][0]  # the first of a half are of any class
        assert len({*paths[0], *paths[1]}) == 10
        assert first.image_keys() | second.image_keys() == images.image_keys()
        assert not first.image_keys() & second.image_keys()


@pytest.mark.parametrize("images", [[torch.zeros(1, 3, 8, 8)], []])
def test_one_image_has_no_halves(images):
    with pytest.raises(DataError, match="at least 2"):
        fit_eval_split(images)


def states_of(flow, images, label=None):
    with torch.no_grad():
        states = raptor.rollout(flow, flow.embed(images)).states
    return StateBatch(list(states.unbind(1)), flow.layout, label)


def test_streamed_directions_are_scikit_learns():
    decomposition = pytest.importorskip("sklearn.decomposition")
    flow, measure = toy.Contraction(4, 0.6), PrincipalMeasure()
    images = pixels(32, 32, batch=20).double()
    run_measures(flow, images.split(6), measure)
    whole = states_of(flow, images).unit_means["patch"]
    expected = decomposition.PCA(3).fit(whole.flatten(0, 1).numpy())
    found = measure.compute()["patch"]
    assert found.explained == pytest.approx(expected.explained_variance_ratio_.tolist())
    along = np.abs(found.components.numpy() @ expected.components_.T)
    assert along == pytest.approx(np.eye(3), abs=1e-6)
    coordinates = np.abs(found(whole).flatten(0, 1).numpy())
    assert coordinates == pytest.approx(np.abs(expected.transform(whole.flatten(0, 1).numpy())), abs=1e-8)


def test_paths_are_means_of_classes():
    flow, principal = toy.Contraction(4, 0.6), PrincipalMeasure()
    images, label = pixels(32, 32, batch=20).double(), torch.arange(20) % 3
    whole = states_of(flow, images, label)
    principal.update(whole)
    measure = PathsMeasure(principal.compute())
    for part in torch.arange(20).split(6):
        measure.update(StateBatch([states[part] for states in whole.states], flow.layout, label[part]))
    found = measure.compute()["cls"]
    at = principal.compute()["cls"](whole.unit_means["cls"])
    for number in range(3):
        own = at[label == number]
        assert np.array(found.classes[str(number)]) == pytest.approx(own.mean(dim=0).numpy())
        assert np.array(found.spread[str(number)]) == pytest.approx(own.std(dim=0, correction=0).numpy(), abs=1e-7)
        assert found.count[str(number)] == len(own)
    assert [int(example.class_name) for example in found.examples] == label.tolist()
    assert np.array(found.examples[7].path) == pytest.approx(at[7].numpy())


def test_single_images_are_fitted_as_pydmd_fits_them():
    pydmd = pytest.importorskip("pydmd")
    teacher, measure = raptor.load_model(family("dinov2-registers").build()), ImageDMD(rank=2, most=5)
    images = pixels(32, 32, batch=8)
    run_measures(teacher, images.split(3), measure)
    found = measure.compute()["patch"]
    radii, medians = [], []
    for states in states_of(teacher, images).unit_means["patch"][:5]:
        moduli = np.abs(pydmd.DMD(svd_rank=2, exact=True, opt=False).fit(states.T.numpy()).eigs)
        radii.append(moduli.max())
        medians.append(np.median(moduli))
    assert found.n == 5
    assert found.rank == 2
    assert found.spectral_radius.value == pytest.approx(np.mean(radii), rel=1e-6)
    assert found.median_modulus.value == pytest.approx(np.mean(medians), rel=1e-6)


def test_ranks_of_single_images_are_those_of_their_singular_values():
    flow, measure = toy.Contraction(3, 0.4), ImageRanks(most=4)
    images = pixels(32, 32, batch=6).double()
    run_measures(flow, images.split(3), measure)
    updates = states_of(flow, images).updates[1][:4, flow.layout.where("patch")]
    values = torch.linalg.svdvals(updates).square()
    expected = (values.sum(dim=-1) / values.amax(dim=-1)).mean().item()
    found = measure.compute().image_stable_rank
    assert found.mean["patch"][1] == pytest.approx(expected, rel=1e-6)
    assert found.n == measure.compute().image_ranks_of == 4
    assert "cls" not in found.mean


def test_return_times_are_ranked_against_gamma():
    flow = toy.Contraction(8, 0.6)
    perturbed = perturb(flow, [pixels(32, 32, batch=4).double()], draws=1)
    gamma = [0.1 * layer for layer in range(9)]
    at = perturbed.epsilons.index(0.1)
    found = perturbed.correction(dict.fromkeys(flow.layout.slices, gamma)).by_group["cls"]
    times = [row[at] for row in found.return_time]
    assert math.inf in times
    back = [layer for layer in range(8) if times[layer] < math.inf]
    expected = spearmanr([times[layer] for layer in back], [gamma[layer] for layer in back])
    # Late perturbations, which have no time to return, are excluded.
    assert found.return_time_and_gamma[at] == pytest.approx(expected.statistic)
    assert found.return_time_and_gamma_p[at] == pytest.approx(expected.pvalue)
    assert found.return_time_and_gamma_layers[at] == len(back)
    flat = perturbed.correction(dict.fromkeys(flow.layout.slices, [0.5] * 9)).by_group["cls"]
    assert math.isnan(flat.return_time_and_gamma[at])
    assert math.isnan(flat.return_time_and_gamma_p[at])


OPTIONS = DynamicsOptions(beyond=True, perturbation_images=4, lyapunov_images=1)


@pytest.fixture(scope="module")
def measured():
    """A rotation and a faster one, with labels."""
    images = [batch(8, 8 * i) for i in range(4)]
    images = [replace(one, pixels=one.pixels.double()) for one in images]
    phases = Phases((3, 3))
    flows = {theta: toy.Rotation([theta] * 6) for theta in (0.2, 0.3)}
    return {theta: raptor.measure_dynamics(flow, images, phases, OPTIONS) for theta, flow in flows.items()}


def test_everything_of_a_rotation(measured):
    found = measured[0.2]
    assert found.n == 32
    assert found.curves["speed"].mean["patch"] == pytest.approx([0.2] * 6, abs=1e-9)
    for dmd in found.dmd.values():
        assert dmd.spectral_radius.value == pytest.approx(1.0, abs=1e-8)
    assert found.dmd["cls"].one_step_error.n == 16
    assert found.dmd["cls"].one_step_error.value == pytest.approx([0.0] * 6, abs=1e-6)
    assert found.dmd["cls"].single_images.spectral_radius.value == pytest.approx(1.0, abs=1e-6)
    assert found.converged_layer["cls"].value == next(layer for layer in range(7) if math.cos(0.2 * (6 - layer)) > 0.9)
    assert np.ravel(found.lyapunov.mean.value) == pytest.approx(np.zeros(32), abs=1e-6)
    assert found.basins["cls"].n == 16
    # A rotation goes on for ever.
    assert found.beyond.speed.mean["patch"] == pytest.approx([0.2] * 48, abs=1e-6)
    assert found.stationarity is None  # speed is constant


def test_distances_are_of_the_curves(measured):
    found = curve_distances(measured[0.2], measured[0.3])
    speed = found["speed"]["patch"]
    assert (speed.mean, speed.most) == pytest.approx((0.1, 0.1))
    assert math.isnan(speed.relative)  # the first curve has no range
    gaps = [abs(math.cos(0.2 * (6 - layer)) - math.cos(0.3 * (6 - layer))) for layer in range(7)]
    assert found["gamma"]["cls"].mean == pytest.approx(np.mean(gaps))
    assert found["gamma"]["cls"].relative == pytest.approx(np.mean(gaps) / (1 - math.cos(1.2)))
    same = curve_distances(measured[0.2], measured[0.2])
    assert max(one.most for groups in same.values() for one in groups.values()) == 0


def test_claims_say_what_does_not_hold(measured):
    """All groups of a rotation are alike, and nothing grows, converges or corrects."""
    found = {claim.name: claim for claim in measured[0.2].claims}
    assert {name for name, claim in found.items() if claim.held} == {"disc"}
    for name in ("norms", "order", "self-correction", "late-cls", "registers", "memory", "basins"):
        assert found[name].held is False, name
    assert found["phases"].held is None
    assert len(found) == 14


def test_streaming_two_thousand_images_is_what_memory_gives():
    teacher = raptor.load_model(family("dinov2-registers").build())
    images, label = pixels(32, 32, batch=2000), torch.arange(2000) % 5
    batches = [Batch(part, own, None, None, []) for part, own in zip(images.split(64), label.split(64), strict=True)]
    streamed = Pooled(labelled=True)
    streamed.run(teacher, (batches[:16], batches[16:]))
    whole = states_of(teacher, images, label)
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
from raptor.core import toy
from raptor.core.batches import Batch
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


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from Linux")
def test_memory_does_not_grow_with_the_number_of_images():
    few, many = (
        int(subprocess.run([sys.executable, "-c", PEAK, str(n)], capture_output=True, text=True, check=True).stdout)
        for n in (1100, 6600)  # both more than the bins of the bootstrap
    )
    assert many < few + 20_000  # kilobytes; the states of 5,500 images would be 170,000

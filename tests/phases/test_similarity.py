"""Similarity between layers: closed forms, streaming against memory, CKA against its definition."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.nn.functional import cosine_similarity

import raptor
from raptor.core.phases import Phases
from raptor.core.tokens import TokenLayout
from raptor.errors import MatrixError
from raptor.models.vit import ViT, ViTConfig
from raptor.phases.cka import MINIBATCH, StreamedCKA, hsic
from raptor.phases.similarity import RECIPE


def images(n=20, seed=0):
    return torch.rand(n, 3, 32, 32, generator=torch.Generator().manual_seed(seed))


def small_vit():
    torch.manual_seed(0)
    model = ViT(ViTConfig(image_size=32, depth=5, width=24, heads=2, n_register=3))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return raptor.load_model(model)


def test_a_rotation_has_the_cosine_of_the_angle_between():
    angles = [0.1, 0.3, 0.05, 0.7]
    measured = raptor.layer_similarity(raptor.toy.Rotation(angles), [images()])
    turned = np.concatenate([[0], np.cumsum(angles)])
    truth = np.cos(turned[:, None] - turned[None, :])
    for group in ("cls", "register", "patch", "all", RECIPE):
        np.testing.assert_allclose(measured.matrix(group), truth, atol=1e-6)


def test_a_planted_matrix_comes_back():
    truth = raptor.toy.phase_similarity(Phases((3, 4, 2)), within=0.9, between=0.3)
    measured = raptor.layer_similarity(raptor.toy.Planted(truth), images().split(7))
    np.testing.assert_allclose(measured.matrix("patch"), truth, atol=1e-6)


def test_streaming_equals_the_definition_in_memory():
    teacher, pixels = small_vit(), images(37)
    measured = raptor.layer_similarity(teacher, pixels.split(8))
    with torch.no_grad():
        states = raptor.rollout(teacher, teacher.embed(pixels)).states.double()
    pairs = cosine_similarity(states[:, :, None], states[:, None, :], dim=-1)  # images, layers, layers, tokens
    for group, where in {**teacher.layout.slices, "all": slice(None)}.items():
        truth = pairs[..., where].mean(dim=(0, 3))
        np.testing.assert_allclose(measured.matrix(group), truth, atol=1e-6)
    mean_patch = states[:, :, teacher.layout.where("patch")].mean(dim=2)
    recipe = (pairs[..., 0] + cosine_similarity(mean_patch[:, :, None], mean_patch[:, None, :], dim=-1)) / 2
    np.testing.assert_allclose(measured.matrix(RECIPE), recipe.mean(dim=0), atol=1e-6)


def test_the_batch_size_does_not_matter():
    teacher, pixels = small_vit(), images(40)
    one, many = (raptor.layer_similarity(teacher, pixels.split(size)) for size in (1, 40))
    for group in one.groups:
        np.testing.assert_allclose(one.matrix(group), many.matrix(group), atol=1e-5)
        if one.cka(group) is not None:
            np.testing.assert_allclose(one.cka(group), many.cka(group), atol=1e-5)


def test_arrays_of_states_are_measured_as_flows_are():
    teacher, pixels = small_vit(), images(12)
    with torch.no_grad():
        states = raptor.rollout(teacher, teacher.embed(pixels)).states
    flow, array = raptor.layer_similarity(teacher, [pixels]), raptor.layer_similarity(states.numpy())
    np.testing.assert_allclose(array.matrix(), flow.matrix(), atol=1e-6)
    assert array.groups == ["all"]
    vectors = raptor.layer_similarity(states[:, :, 0].numpy())
    np.testing.assert_allclose(vectors.matrix(), flow.matrix("cls"), atol=1e-6)


def test_groups_that_a_model_lacks_are_absent():
    layout = TokenLayout(n_cls=0, n_register=0, grid=(4, 4))
    measured = raptor.layer_similarity(raptor.toy.Rotation([0.1] * 3, layout=layout), [images(4)])
    assert measured.groups == ["patch", "all"]


def test_a_token_that_is_nought_is_like_nothing():
    states = np.zeros((4, 3, 2, 5))
    states[:, :, 0] = 1.0
    np.testing.assert_allclose(raptor.layer_similarity(states).matrix(), np.full((3, 3), 0.5))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_states_that_are_not_finite_are_named(value):
    states = np.ones((4, 3, 2, 5))
    states[2, 1, 0, 3] = value
    with pytest.raises(MatrixError, match="not finite"):
        raptor.layer_similarity(states)


def test_half_precision_is_not_multiplied_as_such():
    states = 10 * np.random.default_rng(0).normal(size=(8, 5, 4, 768))
    half = raptor.layer_similarity(states.astype(np.float16))
    np.testing.assert_allclose(half.matrix(), raptor.layer_similarity(states).matrix(), atol=1e-4)


def test_a_trajectory_knows_its_first_layer():
    teacher, pixels = small_vit(), images(12)
    whole = raptor.layer_similarity(teacher, [pixels])
    with torch.no_grad():
        later = raptor.layer_similarity(raptor.rollout(teacher, teacher.step(teacher.embed(pixels), 0), start=1))
    for group in whole.groups:
        np.testing.assert_allclose(later.matrix(group), whole.matrix(group)[1:, 1:], atol=1e-5)
        np.testing.assert_allclose(later.without_embedding(group).mean(), later.matrix(group))


def test_turned_arrays_are_taken():
    states = np.random.default_rng(0).normal(size=(6, 5, 4, 8))
    turned = raptor.layer_similarity(states[:, ::-1]).matrix()
    np.testing.assert_allclose(turned, raptor.layer_similarity(states).matrix()[::-1, ::-1], atol=1e-9)


def test_wrong_arrays_are_named():
    with pytest.raises(MatrixError, match=r"images, layers, tokens, width"):
        raptor.layer_similarity(np.ones((3, 4)))
    with pytest.raises(MatrixError, match="at least one image"):
        raptor.layer_similarity(np.ones((0, 4, 2, 5)))
    with pytest.raises(MatrixError, match="images="):
        raptor.layer_similarity(raptor.toy.Rotation([0.1]))


def hsic_by_definition(k, q):
    """Unbiased HSIC as a mean over distinct quadruples' terms, written with sums over distinct indices."""
    n = len(k)
    pairs = sum(k[i, j] * q[i, j] for i in range(n) for j in range(n) if i != j) / (n * (n - 1))
    triples = sum(k[i, j] * q[i, m] for i in range(n) for j in range(n) for m in range(n) if len({i, j, m}) == 3) / (
        n * (n - 1) * (n - 2)
    )
    quadruples = sum(
        k[i, j] * q[m, p]
        for i in range(n) for j in range(n) for m in range(n) for p in range(n) if len({i, j, m, p}) == 4
    ) / (n * (n - 1) * (n - 2) * (n - 3))  # fmt: skip
    return pairs - 2 * triples + quadruples


def test_hsic_equals_its_definition_over_distinct_images():
    x = torch.randn(6, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    grams = x.transpose(0, 1) @ x.transpose(0, 1).mT
    truth = [[hsic_by_definition(a.numpy(), b.numpy()) for b in grams] for a in grams]
    torch.testing.assert_close(hsic(x), torch.tensor(truth))


def streamed(features, batch):
    cka = StreamedCKA()
    for part in features.split(batch):
        cka.add(part)
    return cka


def test_cka_of_independent_layers_is_nought_and_of_rotated_ones_is_one():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2048, 32, dtype=torch.float64, generator=generator)
    rotation = torch.linalg.qr(torch.randn(32, 32, dtype=torch.float64, generator=generator))[0]
    other = torch.randn(2048, 32, dtype=torch.float64, generator=generator)
    found = streamed(torch.stack([x, 3 * x @ rotation, other], dim=1), 100).matrix()
    assert found[0, 1] == pytest.approx(1, abs=1e-9)
    assert abs(found[0, 2]) < 0.02
    assert abs(found[1, 2]) < 0.02


def test_minibatches_do_not_depend_on_batches_and_the_last_is_dropped_and_counted():
    x = torch.randn(2 * MINIBATCH + 9, 3, 8, generator=torch.Generator().manual_seed(0))
    one, other = streamed(x, 50), streamed(x, 301)
    torch.testing.assert_close(one.matrix(), other.matrix())
    assert (one.minibatches, one.dropped) == (2, 9)
    by_hand = (hsic(x[:MINIBATCH]) + hsic(x[MINIBATCH : 2 * MINIBATCH])) / 2
    scale = by_hand.diagonal().sqrt()
    torch.testing.assert_close(one.matrix(), by_hand / torch.outer(scale, scale))


def test_a_layer_that_is_the_same_for_all_images_has_no_cka():
    x = torch.randn(40, 3, 8, generator=torch.Generator().manual_seed(0))
    x[:, 0] = torch.randn(8, generator=torch.Generator().manual_seed(1))
    found = streamed(x, 16).matrix()
    assert found[0].isnan().all()
    assert found[:, 0].isnan().all()
    torch.testing.assert_close(found[1:, 1:], streamed(x[:, 1:], 16).matrix())


@pytest.mark.parametrize(("n", "dropped", "there"), [(3, 3, False), (4, 0, True), (30, 0, True)])
def test_few_images_are_one_minibatch(n, dropped, there):
    cka = streamed(torch.randn(n, 3, 8, generator=torch.Generator().manual_seed(0)), 2)
    assert (cka.dropped, cka.matrix() is not None) == (dropped, there)


MEMORY = """
import resource, sys, torch, raptor
from raptor.models.vit import ViT, ViTConfig
torch.manual_seed(0)
teacher = raptor.load_model(ViT(ViTConfig(image_size=32, depth=6, width=64, heads=2)))
generator = torch.Generator().manual_seed(0)
batches = (torch.rand(50, 3, 32, 32, generator=generator) for _ in range(int(sys.argv[1]) // 50))
raptor.find_phases(teacher, batches)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.long
def test_memory_does_not_grow_with_images():
    def peak(n):
        done = subprocess.run([sys.executable, "-c", MEMORY, str(n)], capture_output=True, text=True, check=True)
        return int(done.stdout)

    assert peak(5000) <= 1.05 * peak(500)

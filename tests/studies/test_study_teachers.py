"""Teachers of studies: what distinguishes their conditions, and how partitions to compare with are drawn."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

import raptor
from raptor.core.flow import rollout
from raptor.core.phases import LayerMap, Phases
from raptor.core.placements import placements
from raptor.models.vit import ViT, ViTConfig
from raptor.studies.conditions import condition_jobs
from raptor.studies.every import Countdown
from raptor.studies.experiments.partitions import random_cuts, shuffled_maps
from raptor.studies.jobs import run_jobs
from raptor.studies.setting import TeacherResult
from raptor.studies.teachers import nearest, random_network, untied
from study_results import setting


def tied_vit():
    torch.manual_seed(0)
    return ViT(ViTConfig(image_size=32, depth=7, width=16, heads=2, n_register=1, tied="2-3-2")).eval()


def states(flow):
    pixels = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    return rollout(flow, flow.embed(pixels)).states


def test_untied_copies_compute_the_same_with_weights_of_their_own():
    vit = tied_vit()
    copied = untied(vit)
    assert torch.equal(states(raptor.load_model(copied)), states(raptor.load_model(vit)))
    assert len({id(block) for block in raptor.load_model(copied).parts.blocks}) == 7


def test_a_random_network_of_a_tied_teacher_is_not_tied_and_has_its_norms():
    teacher = raptor.load_model(tied_vit())
    null = random_network(teacher, 3)
    for layer, (own, noise) in enumerate(zip(teacher.parts.blocks, null.parts.blocks, strict=True)):
        for name, parameter in own.named_parameters():
            torch.testing.assert_close(noise.get_parameter(name).norm(), parameter.norm())
        if layer:
            assert not torch.equal(noise.attn.qkv.weight, null.parts.blocks[layer - 1].attn.qkv.weight)


def test_the_early_stop_is_the_checkpoint_of_nearest_accuracy():
    assert nearest({0.2: 0.1, 0.5: 0.3, 0.8: 0.29, 1.0: 0.5}, 0.31) == 0.5
    assert nearest({0.5: 0.75, 0.2: 0.25}, 0.5) == 0.2  # the earliest of equals


def test_conditions_are_what_they_say(tmp_path):
    """Teachers as they are saved: tied layers, the untouched start, the early stop, noise of equal norms."""
    used = setting(tmp_path, seeds=(0,), eval_images=8, student_images=8)
    names = ("standard", "drop0.4", "tied", "untrained", "early", "random", "subset")
    jobs = [job for job in condition_jobs(used, names, (0,)) if job.name.startswith("teachers/")]
    assert [job.name for job in jobs] == [f"teachers/{name}-s0" for name in names]
    results = run_jobs(jobs, tmp_path).results
    of = {name: used.teacher(f"teachers/{name}-s0") for name in names}
    found = {name: results.of(f"teachers/{name}-s0", TeacherResult) for name in names}
    assert all(of[name].module.config.pool == "cls+patch" for name in names)
    assert of["drop0.4"].module.config.drop_path == found["drop0.4"].drop_path == 0.4
    blocks = of["tied"].parts.blocks
    assert [blocks[layer] is blocks[layer + 1] for layer in range(6)] == [True, False, True, True, False, True]
    assert found["tied"].parameters < found["standard"].parameters
    torch.manual_seed(0)
    start = ViT(of["standard"].module.config).state_dict()
    assert all(torch.equal(value, start[name]) for name, value in of["untrained"].module.state_dict().items())
    assert found["early"].share in used.size.stops
    same = used.teacher("teachers/standard-s0", found["early"].share).module.state_dict()
    assert all(torch.equal(value, same[name]) for name, value in of["early"].module.state_dict().items())
    matrices = [one.module.blocks[2].mlp.fc1.weight for one in (of["standard"], of["random"])]
    torch.testing.assert_close(matrices[0].norm(), matrices[1].norm())
    assert not torch.allclose(*matrices)
    weights = [of[name].module.blocks[0].attn.qkv.weight for name in ("standard", "subset", "drop0.4")]
    assert not torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize(("depth", "k", "least"), [(7, 3, 2), (8, 2, 2), (9, 3, 1)])
def test_random_cuts_are_uniform_over_all_partitions_of_the_same_minimum_length(depth, k, least):
    every = {Phases(lengths) for lengths in placements(depth, k, least)}
    found = min(every, key=str)
    by_hand = {
        Phases((a, b, depth - a - b)[:k] if k == 3 else (a, depth - a))
        for a in range(least, depth)
        for b in range(least, depth)
        if (depth - a - b >= least if k == 3 else depth - a >= least)
    }
    assert every == by_hand
    n = 2000
    drawn = Counter(cut for seed in range(n) for cut in random_cuts(found, 2, seed, least))
    others = every - {found}
    assert set(drawn) == others
    expected = min(2, len(others)) * n / len(others)
    assert all(abs(count - expected) <= 4.5 * expected**0.5 for count in drawn.values())
    whole = random_cuts(found, 1000, 0, least)
    assert sorted(whole, key=str) == sorted(others, key=str)


def test_shuffled_assignments_are_different_and_keep_block_sizes():
    maps = shuffled_maps(Phases((5, 4, 3)), 3, 1)
    assert len(set(maps)) == 3
    for one in maps:
        assert isinstance(one, LayerMap)
        assert sorted(len(own) for own in one.layers) == [3, 4, 5]
    assert maps == shuffled_maps(Phases((5, 4, 3)), 3, 1)
    assert not set(maps) & set(shuffled_maps(Phases((5, 4, 3)), 3, 2))
    assert len(shuffled_maps(Phases((1, 2)), 3, 0)) == 1  # there is only one


def test_the_time_left_follows_what_jobs_take():
    now, said = [0.0], []
    countdown = Countdown({"a": 3600.0, "b": 7200.0, "c": 0.0, "d": 3600.0}, said.append, lambda: now[0])
    for at, text in ((0, "a"), (1800, "note"), (7200, "b"), (21600, "c"), (21600, "d"), (21700, "d")):
        now[0] = at
        countdown(text)
    assert said == [
        "a: job 1 of 4, about 4.0 h left",
        "note",
        "b: job 2 of 4, about 6.0 h left",  # everything takes twice as long as estimated
        "c: job 3 of 4, about 2.0 h left",
        "d: job 4 of 4, about 2.0 h left",
        "d: job 4 of 4, about 2.0 h left",  # tried once more
    ]

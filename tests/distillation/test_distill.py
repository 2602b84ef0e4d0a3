"""Distillation as a run: apart against alone, repeated, resumed, on a full disk."""

from __future__ import annotations

import multiprocessing
import resource
import signal
from functools import partial

import pytest
import torch

import raptor
import raptor.distillation.distill as distill_module
from raptor.core.phases import Phases
from raptor.data.load import load_images
from raptor.distillation.distill import train_surrogate
from raptor.distillation.hyperparameters import Distillation
from raptor.distillation.options import DistillOptions
from raptor.errors import LayerError, OptionError, OutputError, PhaseError, ResumeError
from raptor.models.surrogate import build_surrogate
from raptor.models.vit import ViT, ViTConfig
from raptor.training.accelerate import LaunchOptions
from raptor.training.config import TrainConfig
from vits import family


def scenes(teacher):
    return load_images("scenes", teacher, "train", 64, batch_size=8)


def small_teacher():
    torch.manual_seed(0)
    return raptor.load_model(ViT(ViTConfig(depth=4, width=16, heads=2, n_register=1)))


def plan(**changes):
    blockwise = TrainConfig(steps=6, batch_size=4, lr=1e-3, warmup=2)
    return Distillation(
        **{"blockwise": blockwise, "end_to_end": blockwise, "kind": "swiglu", "block": {"layer_scale": 0.1}, **changes}
    )


def weights_of(surrogate):
    return torch.cat([parameter.detach().flatten() for parameter in surrogate.raptor.parameters()])


def test_blocks_trained_together_are_blocks_trained_alone():
    # The second block's stage 1 does not depend on what the first block is.
    teacher = small_teacher()
    # Without depth scaling, whose first layer starts at random: both start alike.
    stage_1 = plan(end_to_end=TrainConfig(steps=0), kind="teacher", block={"depth_scale": False})
    one = train_surrogate(teacher, scenes(teacher), Phases((2, 2)), stage_1)
    other = train_surrogate(teacher, scenes(teacher), Phases((1, 1, 2)), stage_1)
    for a, b in zip(one.raptor.blocks[1].parameters(), other.raptor.blocks[2].parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_training_repeats_and_goes_on_where_it_stopped(tmp_path):
    teacher = small_teacher()
    whole = weights_of(train_surrogate(teacher, scenes(teacher), Phases((2, 2)), plan()))
    again = weights_of(train_surrogate(teacher, scenes(teacher), Phases((2, 2)), plan(), out=tmp_path / "a"))
    assert torch.equal(whole, again)
    resumed = train_surrogate(teacher, scenes(teacher), Phases((2, 2)), plan(), out=tmp_path / "a", resume=True)
    assert torch.equal(whole, weights_of(resumed))
    assert (tmp_path / "a/stage1/metrics.jsonl").exists()
    assert (tmp_path / "a/stage2/checkpoint.pt").exists()


def test_the_teacher_stays_as_it_is():
    teacher = small_teacher()
    before = [parameter.clone() for parameter in teacher.parameters()]
    train_surrogate(teacher, scenes(teacher), Phases((2, 2)), plan(kind="teacher", block={}))
    assert all(torch.equal(a, b) for a, b in zip(before, teacher.parameters(), strict=True))


def test_what_cannot_be_is_named():
    teacher = small_teacher()
    with pytest.raises(PhaseError, match="have 5 layers in total, but the model has 4"):
        build_surrogate(teacher, Phases((2, 3)))
    with pytest.raises(OptionError, match="teacher, swiglu, gelu"):
        build_surrogate(teacher, Phases((2, 2)), "magic")
    with pytest.raises(LayerError, match=r"step 4 is outside 0\.\.3"):
        build_surrogate(teacher, Phases((2, 2))).step(torch.zeros(1, 66, 16), 4)


def test_a_full_disk_keeps_the_checkpoint_before(tmp_path, monkeypatch):
    """A limit on the size of files stands for the disk: the first checkpoint fits, what comes later does not."""
    monkeypatch.setattr(distill_module, "fit", partial(distill_module.fit, save_every=2))
    teacher = small_teacher()
    first = plan(blockwise=TrainConfig(steps=2, batch_size=4, warmup=1), end_to_end=TrainConfig(steps=0))
    train_surrogate(teacher, scenes(teacher), Phases((2, 2)), first, out=tmp_path)
    kept = (tmp_path / "stage1/checkpoint.pt").read_bytes()

    def child(queue):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(kept) // 2, len(kept) // 2))
        try:
            train_surrogate(teacher, scenes(teacher), Phases((2, 2)), first, out=tmp_path)
        except OutputError as error:
            queue.put(str(error))

    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    message = queue.get(timeout=60)
    process.join()
    assert "cannot write" in message
    assert "\n" not in message
    assert (tmp_path / "stage1/checkpoint.pt").read_bytes() == kept
    assert [path.name for path in (tmp_path / "stage1").iterdir() if path.suffix not in (".pt", ".jsonl")] == []


def test_a_run_of_another_teacher_is_not_resumed(tmp_path):
    teacher = small_teacher()
    train_surrogate(teacher, scenes(teacher), Phases((2, 2)), plan(), out=tmp_path)
    torch.manual_seed(5)
    other = raptor.load_model(ViT(ViTConfig(depth=4, width=16, heads=2, n_register=1)))
    with pytest.raises(ResumeError, match="was started with teacher"):
        train_surrogate(other, scenes(other), Phases((2, 2)), plan(), out=tmp_path, resume=True)
    layout = LaunchOptions(gradient_accumulation_steps=2)
    with pytest.raises(ResumeError, match="was started with launch"):
        train_surrogate(teacher, scenes(teacher), Phases((2, 2)), plan(), out=tmp_path, resume=True, launch=layout)


def test_training_never_returns_what_is_worse_than_its_start(caplog):
    """As many blocks as layers are exact before training; steps can only add noise."""
    teacher = small_teacher()
    recipe = raptor.distillation_named("default", steps=4, batch_size=4)
    kept = train_surrogate(teacher, scenes(teacher), Phases((1, 1, 1, 1)), recipe)
    pixels = next(iter(scenes(teacher))).pixels
    with torch.no_grad():
        own, truth = (raptor.rollout(flow, flow.embed(pixels)).states for flow in (kept, teacher))
    torch.testing.assert_close(own, truth)
    found = kept.record["validation"]
    assert (found["kept"], found["images"]) == ("start", 2)
    assert found["end"] > found["start"]
    assert "worse" in caplog.text


def test_an_improvement_is_kept():
    teacher = small_teacher()
    recipe = raptor.distillation_named("default", steps=30, batch_size=8)
    found = train_surrogate(teacher, scenes(teacher), Phases((2, 2)), recipe).record["validation"]
    assert found["kept"] == "end"
    assert found["end"] < found["start"]


def test_a_loss_on_classes_needs_a_classifier():
    teacher = raptor.load_model(family("mae").build())
    images = raptor.load_images("scenes", teacher, "train", 8, batch_size=4)
    with pytest.raises(OptionError, match="needs a model with a classifier"):
        raptor.distill(
            teacher,
            images,
            Phases((teacher.depth,)),
            DistillOptions(steps=1, batch_size=4, head_weight=0.1),
            progress=False,
        )

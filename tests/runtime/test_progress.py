"""Progress: a bar in a terminal after two seconds, lines in a log, a function of one's own, or nothing."""

from __future__ import annotations

import io
import re
import signal

import pytest
import torch
from rich.console import Console

import raptor
from raptor.models.vit import ViT, ViTConfig
from raptor.runtime import progress
from raptor.runtime.progress import Progress, ProgressState

BATCHES = [[0] * 30, [0] * 30, [0] * 40]
SMALL = ViTConfig(image_size=64, patch_size=16, depth=4, width=16, heads=2, n_register=1, n_classes=12)


@pytest.fixture
def clock(monkeypatch):
    """Let every look at the clock take so many seconds."""

    def tick(seconds):
        times = iter(seconds * index for index in range(10_000))
        monkeypatch.setattr(progress.time, "monotonic", lambda: next(times))

    return tick


def shown_on(terminal, **how):
    written = io.StringIO()
    return written, Progress(Console(file=written, force_terminal=terminal, width=100), **how)


@pytest.mark.parametrize(("seconds", "appears"), [(0.1, False), (3.0, True)])
def test_a_bar_appears_only_for_long_work(clock, seconds, appears):
    clock(seconds)
    written, where = shown_on(True)
    assert list(where.track(BATCHES, 100, "norms")) == BATCHES
    assert ("norms" in written.getvalue()) is appears
    assert ("100/100" in written.getvalue()) is appears


def test_a_log_has_a_line_at_the_start_and_then_one_every_thirty_seconds(clock):
    clock(10)  # the bar looks at the clock once when it is made, and once in every move
    written, where = shown_on(False)
    with where.bar(1000, "distill 5-5-2, stage1", "step", images_per_step=32) as bar:
        for step in range(1, 13):
            bar.move(step, loss=1 / step)
    lines = written.getvalue().splitlines()
    assert lines[0] == "distill 5-5-2, stage1: step 0/1,000"
    assert [re.search(r"step (\d+)", line)[1] for line in lines] == ["0", "3", "6", "9", "12"]
    # 10 seconds a step since the first one: 32 images in 10 s, 10 s for each of 994 steps.
    assert lines[2] == "distill 5-5-2, stage1: step 6/1,000, loss 0.1667, 3.2 images/s, 2:45:40 left"


def test_work_that_is_resumed_has_the_speed_of_what_was_done_now(clock):
    clock(10)
    seen = []
    with Progress(Console(quiet=True), callback=seen.append).bar(100, "train", "step", 8) as bar:
        bar.move(61)
        bar.move(62)
    assert (seen[1].done, seen[1].images_per_second, seen[1].seconds_left) == (62, 0.8, 380)


def test_lines_can_be_more_frequent_and_control_characters_are_escaped(clock):
    clock(1)
    written, where = shown_on(False, log_every=1)
    assert list(where.track(BATCHES, 100, "a\x1b[31mb")) == BATCHES
    lines = written.getvalue().splitlines()
    assert len(lines) == 4
    assert "\x1b" not in written.getvalue()


def test_true_false_and_a_function():
    assert Progress.of(True).console.quiet is False
    assert Progress.of(False).console.quiet is True
    assert Progress.of(print).callback is print
    where = Progress(Console())
    assert Progress.of(where) is where


@pytest.fixture(scope="module")
def teacher():
    torch.manual_seed(0)
    return raptor.load_model(ViT(SMALL), preprocessing=raptor.Preprocessing((64, 64), None))


@pytest.fixture(scope="module")
def images(teacher):
    return raptor.load_images("scenes", teacher, images=16, batch_size=8)


def test_every_python_call_that_takes_long_tells_a_function_how_far_it_is(teacher, images):
    def calls():
        student = raptor.distill(
            teacher, images, "2-2", raptor.DistillOptions(steps=3, batch_size=4), progress=seen.append
        )
        yield "distill 2-2, stage1", "distill 2-2, stage2"
        raptor.find_phases(teacher, images, progress=seen.append)
        yield ("similarity of layers",)
        raptor.fidelity(student, images, progress=seen.append)
        yield "fidelity", "linear baselines"
        few = raptor.DynamicsOptions(perturbation_images=2, lyapunov_images=1)
        raptor.measure_dynamics(teacher, images, "2-2", few, progress=seen.append)
        yield "dynamics", "perturbations", "mixtures", "Lyapunov exponents"
        raptor.intervene(teacher, images, "2-2", progress=seen.append)
        yield ("interventions",)

    seen: list[ProgressState] = []
    for stages in calls():
        assert {state.stage for state in seen} == set(stages)
        assert all(seen[-1].total >= state.done for state in seen if state.stage == seen[-1].stage)
        seen.clear()


def test_steps_are_those_of_both_stages_with_their_loss(teacher, images):
    seen: list[ProgressState] = []
    raptor.distill(teacher, images, "2-2", raptor.DistillOptions(steps=3, batch_size=4), progress=seen.append)
    assert [(state.done, state.total, state.unit) for state in seen] == [(n, 6, "step") for n in range(1, 7)]
    assert all(state.loss > 0 for state in seen)


def interrupt_at(step):
    """Return a function that presses Ctrl-C at a step."""

    def watch(state):
        if state.done == step:
            signal.raise_signal(signal.SIGINT)

    return watch


def test_an_interrupted_distillation_returns_what_there_is_and_goes_on(teacher, images, tmp_path, caplog):
    options = raptor.DistillOptions(steps=4, batch_size=4)
    whole = raptor.distill(teacher, images, "2-2", options, progress=False)
    part = raptor.distill(teacher, images, "2-2", options, tmp_path, progress=interrupt_at(6))
    assert part.record["unfinished"] == {"stage": "stage2", "step": 3, "steps": 4}
    assert "unfinished" in caplog.text
    again = raptor.distill(teacher, images, "2-2", options, tmp_path, resume=True, progress=False)
    assert "unfinished" not in again.record
    for name, value in whole.raptor.state_dict().items():
        assert torch.equal(value, again.raptor.state_dict()[name])


def test_without_a_directory_an_interrupted_distillation_is_returned_too(teacher, images):
    options = raptor.DistillOptions(steps=4, batch_size=4)
    part = raptor.distill(teacher, images, "2-2", options, progress=interrupt_at(1))
    assert part.record["unfinished"] == {"stage": "stage1", "step": 2, "steps": 4}
    assert raptor.fidelity(part, images, progress=False).n == 16


def test_the_second_interrupt_does_not_wait(teacher, images):
    def watch(state):
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        raptor.distill(teacher, images, "2-2", raptor.DistillOptions(steps=4, batch_size=4), progress=watch)

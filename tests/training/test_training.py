"""The training loop: schedules by hand, AdamW by another path, and runs that stop and go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from torch import nn

from pictures import picture
from raptor.__main__ import main
from raptor.errors import ResumeError, TrainingError
from raptor.training import loop
from raptor.training.augment import flip, shift
from raptor.training.checkpoint import NAME
from raptor.training.config import TrainConfig
from raptor.training.log import METRICS
from raptor.training.loop import fit
from raptor.training.muon import Muon, orthogonalised
from raptor.training.schedules import warmup_cosine


def test_warmup_and_cosine_by_hand():
    factors = [warmup_cosine(step, 12, 4) for step in range(12)]
    assert factors[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert factors[8] == pytest.approx(0.5)
    assert factors[4:] == sorted(factors[4:], reverse=True)
    assert warmup_cosine(12, 12, 4) == pytest.approx(0.0)
    assert warmup_cosine(12, 12, 4, floor=0.1) == pytest.approx(0.1)
    assert warmup_cosine(0, 5, 0) == 1.0


def test_schedule_equals_torchs_schedulers():
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    torchs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20, eta_min=0.05)
    for step in range(20):
        assert warmup_cosine(step, 20, 0, floor=0.05) == pytest.approx(optimizer.param_groups[0]["lr"])
        optimizer.step()
        torchs.step()


def problem(recipe):
    """A linear regression with dropout: its noise makes a resumed run differ unless it is seeded alike."""
    torch.manual_seed(recipe.seed)
    model = nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.3), nn.Linear(5, 1))

    def batches(first, size=recipe.batch_size, part=(0, 1)):
        place = first * size
        while True:
            rows = [torch.randn(6, generator=torch.Generator().manual_seed(1000 + place + i)) for i in range(size)]
            yield torch.stack(rows[part[0] :: part[1]])
            place += size

    def objective(batch, step):
        loss = (model(batch) - batch.sum(dim=1, keepdim=True)).square().mean()
        return loss, {"size": batch.abs().mean()}

    return model, objective, batches


def test_the_loop_equals_a_plain_one():
    recipe = TrainConfig(steps=30, batch_size=8, lr=0.02, warmup=5, weight_decay=0.1, clip=0.5, seed=4)
    model, objective, batches = problem(recipe)
    fit(model, objective, batches, recipe)
    other, objective, batches = problem(recipe)
    matrices, rest = [other[0].weight, other[2].weight], [other[0].bias, other[2].bias]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98))
    other.train()
    for step, batch in zip(range(30), batches(0), strict=False):
        for group in optimizer.param_groups:
            group["lr"] = 0.02 * warmup_cosine(step, 30, 5)
        torch.manual_seed((4 << 32) + step)
        loss, _ = objective(batch, step)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(other.parameters(), 0.5)
        optimizer.step()
    for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 20, 8), (2, 8, 33)])
def test_orthogonalised_keeps_singular_vectors_and_levels_their_values(shape):
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    u, _, vh = torch.linalg.svd(matrices, full_matrices=False)
    inner = u.mT @ orthogonalised(matrices) @ vh.mT
    values = inner.diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(inner, torch.diag_embed(values), atol=1e-9, rtol=0)
    assert values.min() > 0.6
    assert values.max() < 1.3


@pytest.mark.filterwarnings("ignore")
def test_muon_equals_torchs_up_to_its_bfloat16():
    """Three steps on two shapes; torch's orthogonalises in bfloat16, which has 8 bits."""

    def run(optimizer_of):
        torch.manual_seed(0)
        weights = [nn.Parameter(torch.randn(12, 8)), nn.Parameter(torch.randn(8, 8)), nn.Parameter(torch.randn(12, 8))]
        optimizer = optimizer_of(weights)
        for step in range(3):
            for index, weight in enumerate(weights):
                generator = torch.Generator().manual_seed(10 * step + index)
                weight.grad = torch.randn(weight.shape, generator=generator)
            optimizer.step()
        return weights

    ours = run(lambda weights: Muon(weights, lr=0.1, momentum=0.9, weight_decay=0.2))
    theirs = run(
        lambda weights: torch.optim.Muon(
            weights, lr=0.1, momentum=0.9, weight_decay=0.2, adjust_lr_fn="match_rms_adamw"
        )
    )
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, atol=0.01, rtol=0.02)


def test_fused_matrices_are_made_orthogonal_piece_by_piece():
    torch.manual_seed(0)
    fused, gradient = nn.Parameter(torch.zeros(12, 4)), torch.randn(12, 4)
    fused.grad = gradient
    Muon([{"params": [fused], "pieces": 3}], lr=1.0).step()
    for piece, part in zip(fused.split(4), gradient.split(4), strict=True):
        alone = nn.Parameter(torch.zeros(4, 4))
        alone.grad = part.clone()
        Muon([alone], lr=1.0).step()
        torch.testing.assert_close(piece, alone)


def test_stopping_and_going_on_changes_no_bit_and_no_line_of_the_log(tmp_path):
    recipe = TrainConfig(steps=40, batch_size=8, lr=0.01, warmup=5, seed=1)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    whole.mkdir(), cut.mkdir()
    model, objective, batches = problem(recipe)
    fit(model, objective, batches, recipe, whole, save_every=7, log_every=3)

    class Stop(Exception):
        pass

    for stop_at in (5, 17, 18, 33):
        partial, objective, batches = problem(recipe)

        def watch(line, stop_at=stop_at):
            if line["step"] >= stop_at:
                raise Stop

        with pytest.raises(Stop):
            fit(partial, objective, batches, recipe, cut, resume=True, save_every=7, log_every=3, watch=watch)
    resumed, objective, batches = problem(recipe)
    fit(resumed, objective, batches, recipe, cut, resume=True, save_every=7, log_every=3)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), resumed.parameters(), strict=True))

    def lines(folder):
        parsed = [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]
        return [{k: v for k, v in line.items() if k not in ("seconds", "images_per_second")} for line in parsed]

    assert lines(whole) == lines(cut)


def test_another_configuration_is_not_resumed(tmp_path):
    recipe = TrainConfig(steps=4, batch_size=8, warmup=1)
    model, objective, batches = problem(recipe)
    fit(model, objective, batches, recipe, tmp_path, extra_config={"data": "a"})
    with pytest.raises(ResumeError, match="started with data = 'a', not 'b'"):
        fit(model, objective, batches, recipe, tmp_path, resume=True, extra_config={"data": "b"})
    with pytest.raises(ResumeError, match=r"lr = 0\.001, not 0\.1"):
        fit(
            model,
            objective,
            batches,
            TrainConfig(4, 8, lr=0.1, warmup=1),
            tmp_path,
            resume=True,
            extra_config={"data": "a"},
        )


def test_a_damaged_checkpoint_is_named(tmp_path):
    recipe = TrainConfig(steps=4, batch_size=8, warmup=1)
    (tmp_path / NAME).write_bytes(b"half a checkp")
    with pytest.raises(ResumeError, match=NAME):
        fit(*problem(recipe), recipe, tmp_path, resume=True)


def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_checkpoint(tmp_path):
    recipe = TrainConfig(steps=20, batch_size=8, warmup=1)
    model, objective, batches = problem(recipe)

    def breaking(first, size, part):
        for step, batch in zip(range(first, 20), batches(first, size, part), strict=False):
            yield batch * float("nan") if step == 13 else batch

    with pytest.raises(TrainingError, match="step 13 is nan"):
        fit(model, objective, breaking, recipe, tmp_path, save_every=5)
    assert torch.load(tmp_path / NAME, weights_only=True)["step"] == 10


def test_flip_mirrors_about_half():
    torch.manual_seed(0)
    pixels = torch.arange(4.0).expand(400, 3, 2, 4)
    flipped = flip(pixels)[:, 0, 0, 0] == 3
    assert 160 < flipped.sum() < 240
    assert set(map(tuple, flip(pixels)[:, 0, 0].tolist())) == {(0.0, 1.0, 2.0, 3.0), (3.0, 2.0, 1.0, 0.0)}


def test_shift_moves_whole_images():
    torch.manual_seed(0)
    pixels = torch.arange(25.0).reshape(1, 1, 5, 5).expand(300, 3, 5, 5)
    moved = shift(pixels, 1)
    padded = nn.functional.pad(pixels[:1], (1, 1, 1, 1), mode="replicate")[0]
    allowed = {tuple(padded[:, r : r + 5, c : c + 5].flatten().tolist()) for r in range(3) for c in range(3)}
    assert {tuple(image.flatten().tolist()) for image in moved} == allowed
    assert shift(pixels, 0) is pixels


SMALL = [
    "train", "--data", "scenes", "--steps", "120", "--batch-size", "4", "--depth", "2", "--width", "16", "--heads", "2",
    "--drop-path", "0.2", "--muon-lr", "0.003", "--registers", "1", "--warmup", "10", "--eval-images", "50", "--quiet",
]  # fmt: skip


@pytest.mark.parametrize(("seconds", "kept"), [(0.0, [1, 2, 3, 4]), (1e9, [4])])
def test_checkpoints_are_written_by_time_as_well_as_by_step(tmp_path, monkeypatch, seconds, kept):
    monkeypatch.setattr(loop, "SAVE_SECONDS", seconds)
    written = []
    save = loop.checkpoint.save
    monkeypatch.setattr(loop.checkpoint, "save", lambda one, out: (written.append(one.step), save(one, out)))
    recipe = TrainConfig(steps=4, batch_size=8, lr=0.02, warmup=1, seed=2)
    model, objective, batches = problem(recipe)
    fit(model, objective, batches, recipe, tmp_path, save_every=100)
    assert written == kept


def command(*arguments):
    return [sys.executable, "-m", "raptor", *map(str, arguments)]


@pytest.fixture
def saving_often(monkeypatch):
    """Children save every third step, so that a kill can fall between any two states; one thread is enough."""
    monkeypatch.setenv("RAPTOR_SAVE_EVERY", "3")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def test_sigterm_saves_before_it_stops(tmp_path, saving_often):
    long = ["100000" if word == "120" else word for word in SMALL]
    child = subprocess.Popen(command(*long, "--out", tmp_path))
    while not (tmp_path / METRICS).exists() or not (tmp_path / METRICS).read_text():
        time.sleep(0.1)
        assert child.poll() is None
    child.terminate()
    assert child.wait(timeout=60) == 128 + signal.SIGTERM
    assert torch.load(tmp_path / NAME, weights_only=True)["step"] >= 20


@pytest.mark.long
def test_sigterm_to_all_processes_of_a_job_saves_too(tmp_path, saving_often):
    """A scheduler tells the workers that decode images as well; they leave it to the training to end."""
    for number in range(200):
        folder = tmp_path / "photos" / f"class{number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        picture(number).save(folder / f"{number}.png")
    words = {"120": "100000", "scenes": tmp_path / "photos"}
    long = command(*(words.get(word, word) for word in SMALL), "--image-size", "32", "--out", tmp_path / "out")
    said = tmp_path / "said"
    with said.open("w") as file:
        child = subprocess.Popen(long, start_new_session=True, stderr=file)
    while not (tmp_path / "out" / METRICS).exists() or not (tmp_path / "out" / METRICS).read_text():
        time.sleep(0.1)
        assert child.poll() is None
    os.killpg(child.pid, signal.SIGTERM)
    assert child.wait(timeout=60) == 128 + signal.SIGTERM
    assert "Traceback" not in said.read_text()
    saved = torch.load(tmp_path / "out" / NAME, weights_only=True)["step"]
    assert saved >= json.loads((tmp_path / "out" / METRICS).read_text().splitlines()[-1])["step"]


def call(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["raptor", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    return stop.value.code or 0


def test_train_reports_what_the_interface_promises_and_is_a_model(monkeypatch, capfd, tmp_path):
    short = [word for word in SMALL if word != "--quiet"]
    assert call(monkeypatch, *short, "--json", "--out", tmp_path) == 0
    result = json.loads(capfd.readouterr().out)
    assert {"top1", "top1_ci", "epochs", "images_per_second", "drop_path"} <= set(result)
    assert (result["drop_path"], result["epochs"], result["images"], result["layers"]) == (0.2, 1.0, 50, 2)
    assert result["top1_ci"][0] <= result["top1"] <= result["top1_ci"][1]
    assert call(monkeypatch, "inspect", tmp_path, "--json") == 0
    assert json.loads(capfd.readouterr().out)["tokens"] == {"cls": 1, "register": 1, "patch": 64}
    assert call(monkeypatch, *SMALL, "--out", tmp_path) == 2
    assert "--resume" in capfd.readouterr().err
    assert call(monkeypatch, *SMALL, "--lr", "0.1", "--resume", "--out", tmp_path) == 2
    assert "lr = 0.001, not 0.1" in capfd.readouterr().err

"""The same seed gives the same numbers: run to run, whoever decodes the images, in whatever batches."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import raptor
import small_commands
from intact import outcome
from raptor.core.phases import Phases
from raptor.core.serialize import to_plain
from raptor.data.load import load_images
from raptor.data.options import LoadOptions
from raptor.data.train_val_test import load_train_val_test
from raptor.dynamics.dmd import pooled
from raptor.dynamics.options import DynamicsOptions
from raptor.dynamics.survey import measure_dynamics
from raptor.evaluation.evaluate import fidelity
from raptor.models.surrogate import build_surrogate
from raptor.models.vit import ViT, ViTConfig
from raptor.probes.options import ProbeOptions
from raptor.probes.run import probe
from raptor.runtime import device
from raptor.runtime.device import varies
from raptor.runtime.options import RunOptions
from raptor.runtime.rundir import Run
from raptor.training.config import TrainConfig
from raptor.training.vit import train_vit
from test_processes import numbers
from warm import run

FEW = DynamicsOptions(perturbation_images=2, lyapunov_images=1, seed=1)
CONFIG = ViTConfig(depth=4, width=16, heads=2, n_register=1, image_size=32, n_classes=2)


@pytest.fixture(scope="module")
def teacher():
    """A ViT with random weights, large enough ones that its layers do something."""
    torch.manual_seed(0)
    model = ViT(CONFIG)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return raptor.load_model(model)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Forty images of noise in two classes, one of them damaged."""
    folder, chance = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for number in range(40):
        path = folder / f"class{number % 2}" / f"{number:02}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(chance.integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(path)
    (folder / "class0" / "06.png").write_bytes(b"")
    return folder


@pytest.mark.parametrize("verb", ["train", *(pytest.param(v, marks=pytest.mark.long) for v in ("phases", "run"))])
def test_two_runs_on_a_cpu_say_the_same(trained, tmp_path, verb):
    """The whole pipeline is all other verbs."""
    found = []
    for name in ("one", "other"):
        arguments = small_commands.every(trained)[verb]
        assert run(*arguments, "--out", tmp_path / name, smallest=verb == "run") == (0, "")
        found.append(outcome(tmp_path / name))
    assert found[0] == found[1]
    assert json.loads((tmp_path / "one" / "config.json").read_text())["determinism"] is None


def test_amplitudes_of_modes_do_not_depend_on_what_was_in_memory():
    torch.manual_seed(0)
    states = torch.randn(16, 40, dtype=torch.float64)
    modes, kept = pooled.fit(states[:, :-1], states[:, 1:]), []
    found = set()
    for size in range(1, 100):
        kept.append(torch.full((7 * size,), float(size)))  # moves what is allocated next
        found.add(modes.amplitudes().numpy().tobytes())
    assert len(found) == 1


def trained_on(folder, workers):
    pictures = load_images(folder, raptor.Preprocessing((32, 32), None), workers=workers, allow_damaged=True)
    model, _ = train_vit(pictures, CONFIG, TrainConfig(steps=12, batch_size=6, warmup=2, seed=3))
    return {name: value.tolist() for name, value in model.state_dict().items()}, pictures.damaged


def phases_on(folder, workers, teacher):
    pictures = load_images(folder, teacher, batch_size=7, workers=workers, allow_damaged=True)
    return to_plain(raptor.find_phases(teacher, pictures, seed=1)), pictures.damaged


def dynamics_on(folder, workers, teacher):
    pictures = load_images(folder, teacher, batch_size=7, workers=workers, allow_damaged=True)
    return dynamics(teacher, pictures), pictures.damaged


def probes_on(folder, workers, teacher):
    sets = load_train_val_test(
        str(folder), teacher, batch_size=7, workers=workers, loading=LoadOptions(allow_damaged=True)
    )
    found = probe(teacher, *sets, options=ProbeOptions(lrs=(1e-2, 1e-3), seeds=(0, 1), epochs=2))
    return {task: to_plain(one) for task, one in found.items()}, [one.damaged for one in sets]


@pytest.mark.parametrize(
    "measure", [trained_on, phases_on, *(pytest.param(one, marks=pytest.mark.long) for one in (dynamics_on, probes_on))]
)
def test_whoever_decodes_the_images_the_numbers_are_the_same(photos, teacher, measure):
    more = () if measure is trained_on else (teacher,)
    alone, *helped = (measure(photos, workers, *more) for workers in (0, 1, 2))
    assert "06.png" in str(alone[1])
    for other in helped:
        assert to_plain(list(other)) == to_plain(list(alone))


@pytest.mark.parametrize("workers", [0, 2])
def test_decoding_draws_nothing_that_a_training_draws_from(photos, workers):
    """Otherwise a step would have other noise in a run that goes on with it than in one that came to it."""
    pictures = load_images(photos, raptor.Preprocessing((32, 32), None), workers=workers, allow_damaged=True)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    next(pictures.shuffled(0, 4, seed=0))
    assert torch.equal(torch.rand(3), expected)


def similarity(teacher, images):
    return to_plain(raptor.find_phases(teacher, images, seed=1))


def dynamics(teacher, images):
    # Sentences about claims round the same numbers.
    return to_plain(replace(measure_dynamics(teacher, images, "2-2", FEW), claims=[]))


def kept(teacher, images):
    torch.manual_seed(1)
    surrogate = build_surrogate(teacher, Phases((2, 2)))
    with torch.no_grad():
        for parameter in surrogate.raptor.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    return fidelity(surrogate, images, seed=1)


@pytest.mark.parametrize(
    "measure", [similarity, *(pytest.param(one, marks=pytest.mark.long) for one in (dynamics, kept))]
)
def test_in_whatever_batches_the_numbers_are_the_same(teacher, measure):
    first, *others = (
        dict(numbers(to_plain(measure(teacher, load_images("scenes", teacher, images=66, batch_size=size)))))
        for size in (64, 1, 7)
    )
    assert len(first) > 50
    for other in others:
        assert other.keys() == first.keys()
        for path, value in first.items():
            if isinstance(value, float):
                assert other[path] == pytest.approx(value, rel=1e-5, abs=1e-5), path
            else:
                assert other[path] == value, path


def test_what_a_device_cannot_promise_is_said(monkeypatch, tmp_path, capfd):
    assert varies(torch.device("cpu")) is None
    for kind in ("cuda", "mps"):
        assert varies(torch.device(kind)).startswith(f"{kind.upper()} results are not bit-reproducible")
    # A machine whose fastest device is no CPU; nothing runs on it here.
    monkeypatch.setattr(device, "available_devices", lambda: ["mps", "cpu"])
    said = varies(torch.device("mps"))
    for name, kept in (("auto", said), ("mps", said), ("cpu", None)):
        with Run("phases", {"device": name}, tmp_path / name, 0) as held:
            held.begin()
        assert json.loads((tmp_path / name / "config.json").read_text())["determinism"] == kept
        RunOptions(device=name).warn()
        assert " ".join(capfd.readouterr().err.split()) == ("" if kept is None else f"note: {said}")
        RunOptions(device=name, quiet=True).warn()
        assert capfd.readouterr().err == ""

"""ViTs that raptor has never met: everything works with them, or says at once what does not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import raptor
import strangers
from raptor.distillation.saving import save_surrogate
from raptor.errors import ModelNotFoundError, OptionError, UnsupportedModelError, WeightsError
from raptor.models.surrogate import build_surrogate
from strangers import SIDE, STRANGERS

NAMES = list(STRANGERS)
PLAIN = raptor.Preprocessing(crop=(SIDE, SIDE), resize=(SIDE, SIDE))
SHORT = raptor.DistillOptions(steps=2, batch_size=4)


def images_for(teacher, n=12):
    return raptor.load_images("scenes", teacher, images=n)


def load(name, **how):
    module = strangers.build(name)
    return raptor.load_model(module, preprocessing=raptor.Preprocessing(crop=module.size, resize=module.size), **how)


def states(flow, pixels):
    return raptor.rollout(flow, flow.embed(pixels)).states


@pytest.fixture(scope="module")
def distilled():
    """Return each teacher with a short surrogate of it; made once."""
    made = {}

    def of(name):
        if name not in made:
            teacher = load(name)
            made[name] = teacher, raptor.distill(teacher, images_for(teacher), "2-2", SHORT)
        return made[name]

    return of


@pytest.mark.parametrize("name", NAMES)
def test_the_flow_is_the_model(name):
    teacher = load(name)
    pixels = torch.randn(2, 3, *teacher.image_size, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(teacher.head(states(teacher, pixels)[:, -1]), teacher.module(pixels))


@pytest.mark.parametrize("name", NAMES)
def test_as_many_tied_blocks_as_layers_are_the_model(name):
    teacher = load(name)
    surrogate = build_surrogate(teacher, raptor.Phases((1,) * 4))
    pixels = torch.randn(2, 3, *teacher.image_size, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(states(surrogate, pixels), states(teacher, pixels))


@pytest.mark.parametrize("name", [*NAMES[:4], *(pytest.param(one, marks=pytest.mark.long) for one in NAMES[4:])])
def test_training_moves_every_block_and_improves_it(name):
    teacher = load(name)
    images = images_for(teacher, 24)
    start = build_surrogate(teacher, raptor.Phases((2, 2)))
    trained = raptor.distill(teacher, images, "2-2", raptor.DistillOptions(steps=20, batch_size=8))
    r2 = [raptor.fidelity(one, images).by_layer["r2"].mean["all"][-1] for one in (start, trained)]
    assert r2[1] > r2[0]
    moved = dict(trained.raptor.named_parameters())
    assert [name for name, value in start.raptor.named_parameters() if torch.equal(value, moved[name])] == []


@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_measured(name):
    teacher = load(name)
    images = images_for(teacher)
    assert raptor.find_phases(teacher, images, k=2).phases.depth == 4
    found = raptor.measure_dynamics(
        teacher, images, options=raptor.DynamicsOptions(perturbation_images=2, lyapunov_images=1)
    )
    assert set(found.curves["norm"].mean) == set(teacher.layout.slices)
    assert raptor.intervene(teacher, images, "2-2").untouched.score.n == 12


@pytest.mark.parametrize("name", NAMES)
def test_a_saved_surrogate_needs_its_teacher_s_code_and_not_its_weights(name, distilled, tmp_path):
    teacher, surrogate = distilled(name)
    save_surrogate(surrogate, tmp_path, "scenes", 0)
    with pytest.raises(WeightsError, match="teacher="):
        raptor.load_model(tmp_path)
    again = raptor.load_model(tmp_path, teacher=strangers.build(name, seed=1))
    pixels = torch.randn(2, 3, *teacher.image_size, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(states(again, pixels), states(surrogate, pixels))
    other = next(one for one in NAMES if STRANGERS[one] is not STRANGERS[name])
    with pytest.raises(WeightsError, match=STRANGERS[other].__name__):
        raptor.load_model(tmp_path, teacher=strangers.build(other))


@pytest.mark.parametrize("name", ["nn.MultiheadAttention", pytest.param("parallel, fused", marks=pytest.mark.long)])
@pytest.mark.parametrize("form", ["torch-export", pytest.param("onnx", marks=pytest.mark.long)])
def test_it_can_be_exported(name, form, distilled, tmp_path):
    save_surrogate(distilled(name)[1], tmp_path, "scenes", 0)
    again = raptor.load_model(tmp_path, teacher=strangers.build(name))
    assert raptor.export(again, tmp_path / "export", raptor.ExportOptions(form)).max_difference < 1e-4


def test_a_batch_size_that_the_code_fixes_is_named(tmp_path):
    class Fixed(strangers.Vit):
        def tokens(self, pixels):
            patches = self.patchify(pixels).flatten(2).transpose(1, 2)
            return torch.cat([self.extra.expand(len(patches), -1, -1), patches], dim=1) + self.where

    raptor.register_adapter(strangers.Vit, strangers.parts)
    with pytest.raises(UnsupportedModelError, match=r"shape\[0\]"):
        raptor.export(raptor.load_model(Fixed()), tmp_path)


class Odd(strangers.Vit):
    """Something is wrong with it."""


def wrong(**changes):
    """Load a model whose adapter is wrong in one thing."""

    def adapter(model, image_size):
        return replace(strangers.parts(model, image_size), **{name: make(model) for name, make in changes.items()})

    raptor.register_adapter(Odd, adapter)
    torch.manual_seed(0)
    return raptor.load_model(Odd())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"layout": lambda model: raptor.TokenLayout(1, 4, model.grid)}, r"\(2, 17, 24\), not \(2, 21, 24\)"),
        ({"call": lambda model: lambda block, tokens, layer: (block(tokens),)}, "returns a tuple"),
        ({"call": lambda model: lambda block, tokens, layer: torch.rand_like(tokens)}, "different states"),
        ({"call": lambda model: lambda block, tokens, layer: tokens - tokens.mean(dim=0)}, "batch_first=True"),
        ({"norm": lambda model: lambda tokens: tokens[:, 0]}, "norm of Odd"),
        ({"classify": lambda model: lambda tokens: tokens}, "classify of Odd"),
        ({"embed": lambda model: lambda pixels: pixels @ torch.ones(7, 7)}, "embed of Odd fails: RuntimeError"),
        ({"output_projections": lambda model: ("mha.out_proj", "nothing")}, "'nothing'"),
        ({"output_projections": lambda model: ("mha.out_proj", "ff.0")}, "'ff.0'"),
    ],
)
def test_a_wrong_adapter_is_named_when_the_model_is_loaded(changes, said):
    with pytest.raises(UnsupportedModelError, match=said):
        wrong(**changes)


def test_an_adapter_that_returns_something_else_is_named():
    raptor.register_adapter(Odd, lambda model, image_size: None)
    with pytest.raises(UnsupportedModelError, match="NoneType"):
        raptor.load_model(Odd())


def test_named_output_projections_are_the_ones_that_are_scaled():
    teacher = wrong(output_projections=lambda model: ("ff.3", "mha.out_proj"))
    surrogate = raptor.distill(teacher, images_for(teacher), "2-2", SHORT)
    assert {block.projections for block in surrogate.raptor.blocks} == {("ff.3", "mha.out_proj")}


def test_blocks_of_the_library_s_fast_path_are_the_same_blocks():
    # nn.TransformerEncoderLayer has another implementation for evaluation without gradients.
    teacher = load("nn.TransformerEncoder")
    surrogate = raptor.distill(teacher, images_for(teacher), "2-2", SHORT)
    pixels = torch.randn(3, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        fast = states(surrogate, pixels)
    torch.testing.assert_close(states(surrogate, pixels).detach(), fast, rtol=1e-4, atol=1e-5)


# Preprocessing


def test_a_guessed_preprocessing_is_announced_when_images_are_read(caplog):
    images_for(raptor.load_model(strangers.build("post-norm")))
    (said,) = caplog.messages
    assert all(part in said for part in ("PostNormVit", "37x37", "32x32", "ImageNet", "preprocessing="))


def test_a_given_preprocessing_is_used_and_nothing_is_announced(caplog):
    teacher = raptor.load_model(strangers.build("post-norm"), preprocessing=PLAIN)
    images_for(teacher)
    assert caplog.messages == []
    assert teacher.preprocessing == replace(PLAIN, source=teacher.preprocessing.source)


# python:package.module:function


@pytest.fixture
def code(tmp_path, monkeypatch):
    """Write a module of the user's into the current directory; return its name."""
    monkeypatch.chdir(tmp_path)

    def write(name, text):
        Path(f"{name}.py").write_text(text)
        return name

    return write


def test_a_function_of_the_user_s_is_a_model(call, tmp_path):
    out = tmp_path / "raptor"
    given = ("python:strangers:distilled", "--data", "scenes", "--device", "cpu")
    code, text, err = call("inspect", *given, "--images", 4, "--json")
    assert (code, err) == (0, "norms: 0/4 images\n")
    found = json.loads(text)
    assert (found["layers"], found["mean"], found["tokens"]) == (4, [0.5] * 3, {"cls": 1, "register": 1, "patch": 16})
    steps = ("--steps", 1, "--batch-size", 4, "--images", 8, "--eval-images", 4)
    assert call("distill", *given, "--phases", "2-2", *steps, "--out", out, "--quiet")[0] == 0
    code, _, err = call("fidelity", out, "--data", "scenes", "--images", 4, "--quiet")
    assert code == 2
    assert "--teacher python:" in err  # what code runs is the user's choice, not that of a file
    named = ("--teacher", "python:strangers:distilled")
    assert call("fidelity", out, "--data", "scenes", *named, "--images", 4, "--quiet")[0] == 0


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("def make(): return 3", UnsupportedModelError, "returned a int"),
        ("def make(): return 3, 4", UnsupportedModelError, "second part is a int"),
        ("def make(): raise KeyError('x')", ModelNotFoundError, "failed: KeyError"),
        ("import nothing_of_this_name", ModelNotFoundError, "cannot be imported: ModuleNotFoundError"),
        ("x = 1", ModelNotFoundError, "has no function 'make'"),
        ("def make(x): return x", ModelNotFoundError, "failed: TypeError"),
    ],
)
def test_mistakes_in_it_are_one_line(code, text, kind, said, request):
    name = code(f"mine_{abs(hash(request.node.name))}", text)
    with pytest.raises(kind, match=said):
        raptor.load_model(f"python:{name}:make")


@pytest.mark.parametrize("source", ["python:", "python:os", "python:os:", "python:a b:c", "python:os.path:x.y"])
def test_a_malformed_source_is_named(source):
    with pytest.raises(OptionError, match=r"python:package\.module:function"):
        raptor.load_model(source)


def test_a_flow_of_one_s_own_is_a_model(code):
    name = code("toy_flow_code", (
        "import raptor\n"
        "def flow():\n"
        "    return raptor.toy.Rotation([0.3] * 6), raptor.Preprocessing(crop=(32, 32), resize=(32, 32))\n"
    ))  # fmt: skip
    model = raptor.load_model(f"python:{name}:flow")
    images = images_for(model)
    found = raptor.measure_dynamics(
        model, images, options=raptor.DynamicsOptions(perturbation_images=2, lyapunov_images=1)
    )
    assert found.curves["speed"].mean["patch"] == pytest.approx([0.3] * 6, abs=1e-5)
    with pytest.raises(UnsupportedModelError, match="no parameters"):
        raptor.distill(model, images, "3-3", SHORT)


def test_a_model_that_the_function_loaded_stays_as_it_is(code):
    name = code("loaded_code", "import raptor\ndef make(): return raptor.load_model('scenes')\n")
    model = raptor.load_model(f"python:{name}:make")
    assert (model.name, model.depth) == (f"python:{name}:make", 12)
    with pytest.raises(OptionError, match="image_size="):
        raptor.load_model(f"python:{name}:make", image_size=128)


def test_a_module_without_an_adapter_says_how_to_write_one():
    with pytest.raises(UnsupportedModelError, match=r"docs/adapters\.md"):
        raptor.load_model(nn.Sequential(nn.Conv2d(3, 8, 8, 8)))


@pytest.mark.long
@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_every_verb_and_the_page(call, tmp_path, number):
    """What the table in the docs says of a model: every verb works from the command line, and the page shows it."""
    given = (f"python:strangers:number_{number}", "--data", "scenes", "--device", "cpu", "--quiet")
    few = ("--images", 12, "--batch-size", 4)
    assert call("phases", *given, *few, "--k", 2, "--out", tmp_path / "runs" / "phases")[0] == 0
    steps = ("--steps", 1, "--batch-size", 4, "--images", 8, "--eval-images", 4)
    assert call("distill", *given, "--phases", "2-2", *steps, "--out", tmp_path / "runs" / "distill")[0] == 0
    assert call("dynamics", *given, *few, "--phases", "2-2", "--out", tmp_path / "runs" / "dynamics")[0] == 0
    assert call("intervene", *given, *few, "--phases", "2-2", "--out", tmp_path / "runs" / "intervene")[0] == 0
    code, _, err = call("report", tmp_path / "runs", "--out", tmp_path / "page.html")
    assert code == 0, err
    page = (tmp_path / "page.html").read_text()
    assert f"number_{number}" in page
    assert "layers correct perturbations" in page

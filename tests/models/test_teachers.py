"""Every family, layer by layer, against its own library's forward pass."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import transformers as tf

import raptor
from raptor.errors import ImageSizeError, LayerError, OptionError, UnsupportedModelError, WeightsError
from raptor.models.teachers.teacher import as_image_size
from vits import DINO, FAMILIES, SMALL, Family, _scrambled, family, pixels

CLOSE = {"atol": 1e-5, "rtol": 1e-5}


@pytest.fixture(autouse=True)
def _no_grad():
    with torch.no_grad():
        yield


def check_against_library(case: Family, size: tuple[int, int], resized: bool):
    images = pixels(*size)
    own = case.own_states(case.build(), images, resized)
    teacher = raptor.load_model(case.build(), image_size=size if resized else None)
    trajectory = raptor.rollout(teacher, teacher.embed(images))
    assert trajectory.states.shape[1] == len(own.hidden_states) == teacher.depth + 1
    for layer, state in enumerate(own.hidden_states):
        torch.testing.assert_close(trajectory.at(layer), state, **CLOSE)
    torch.testing.assert_close(teacher.readout(trajectory.at(teacher.depth)), own.last_hidden_state, **CLOSE)
    # The oracle has teeth only if every layer does something.
    assert (trajectory.states.diff(dim=1).abs().amax(dim=(0, 2, 3)) > 1e-3).all()


@pytest.mark.parametrize("case", FAMILIES, ids=lambda case: case.name)
def test_states_and_readout_equal_the_librarys(case):
    check_against_library(case, (32, 32), resized=False)


@pytest.mark.parametrize("size", [(48, 48), (24, 40), (64, 16)])
@pytest.mark.parametrize("case", [c for c in FAMILIES if c.resized is not None], ids=lambda case: case.name)
def test_other_image_sizes_equal_the_librarys(case, size):
    check_against_library(case, size, resized=True)


@pytest.mark.parametrize("case", FAMILIES, ids=lambda case: case.name)
def test_starting_in_the_middle_continues_identically(case):
    teacher = raptor.load_model(case.build())
    whole = raptor.rollout(teacher, teacher.embed(pixels(32, 32)))
    rest = raptor.rollout(teacher, whole.at(1), start=1)
    assert (rest.first_layer, rest.last_layer) == (1, teacher.depth)
    assert torch.equal(rest.states, whole.states[:, 1:])


@pytest.mark.parametrize("case", FAMILIES, ids=lambda case: case.name)
def test_token_groups_and_names(case):
    teacher = raptor.load_model(case.build())
    assert teacher.layout.counts == {**case.prefix, "patch": 16}
    assert (teacher.depth, teacher.width, teacher.parts.heads) == (3, 32, 4)
    assert isinstance(teacher, raptor.DepthFlow)


def test_cls_group_is_the_token_that_the_library_calls_cls():
    model = family("dinov2-registers").build()
    teacher = raptor.load_model(model)
    images = pixels(32, 32)
    cls = teacher(images)[:, teacher.layout.where("cls")]
    torch.testing.assert_close(cls[:, 0], model(images).pooler_output, **CLOSE)


WRAPPED = [
    (tf.ViTForImageClassification, lambda: tf.ViTConfig(**SMALL, num_labels=7)),
    (tf.DeiTForImageClassification, lambda: tf.DeiTConfig(**SMALL, num_labels=7)),
    (tf.DeiTForImageClassificationWithTeacher, lambda: tf.DeiTConfig(**SMALL, num_labels=7)),
    (tf.Dinov2ForImageClassification, lambda: tf.Dinov2Config(**DINO, num_labels=7)),
    (
        tf.Dinov2WithRegistersForImageClassification,
        lambda: tf.Dinov2WithRegistersConfig(**DINO, num_register_tokens=4, num_labels=7),
    ),
    (tf.CLIPForImageClassification, lambda: tf.CLIPConfig(vision_config=SMALL, num_labels=7)),
    (tf.SiglipForImageClassification, lambda: tf.SiglipConfig(vision_config=SMALL, num_labels=7)),
    (tf.BeitForImageClassification, lambda: tf.BeitConfig(**SMALL, num_labels=7)),
    (tf.Data2VecVisionForImageClassification, lambda: tf.Data2VecVisionConfig(**SMALL, num_labels=7)),
    (tf.IJepaForImageClassification, lambda: tf.IJepaConfig(**SMALL, num_labels=7)),
]


@pytest.mark.parametrize(("kind", "config"), WRAPPED, ids=lambda value: getattr(value, "__name__", ""))
def test_head_gives_the_librarys_logits(kind, config):
    torch.manual_seed(0)
    model = _scrambled(kind(config()))
    teacher = raptor.load_model(model)
    images = pixels(32, 32)
    last = raptor.rollout(teacher, teacher.embed(images)).at(teacher.depth)
    torch.testing.assert_close(teacher.head(last), model(images).logits, **CLOSE)


@pytest.mark.parametrize("name", ["clip", "siglip", "aimv2"])
def test_two_tower_models_give_their_vision_tower(name):
    text = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}
    config, kind = {
        "clip": (tf.CLIPConfig, tf.CLIPModel),
        "siglip": (tf.SiglipConfig, tf.SiglipModel),
        "aimv2": (tf.Aimv2Config, tf.Aimv2Model),
    }[name]
    model = kind(config(vision_config=SMALL, text_config=text)).eval()
    teacher = raptor.load_model(model)
    images = pixels(32, 32)
    torch.testing.assert_close(teacher(images), model.vision_model(images).last_hidden_state, **CLOSE)


def test_models_without_a_classifier_have_no_head():
    assert raptor.load_model(family("mae").build()).head is None


def test_given_linear_head_pools_by_its_width():
    teacher = raptor.load_model(family("vit").build())
    last = raptor.rollout(teacher, teacher.embed(pixels(32, 32))).at(3)
    tokens = teacher.readout(last)
    both = torch.nn.Linear(64, 5)
    expected = both(torch.cat([tokens[:, 0], tokens[:, 1:].mean(dim=1)], dim=1))
    torch.testing.assert_close(raptor.load_model(teacher.module, head=both).head(last), expected)
    one = torch.nn.Linear(32, 5)
    torch.testing.assert_close(raptor.load_model(teacher.module, head=one).head(last), one(tokens[:, 0]))
    with pytest.raises(WeightsError, match="32 or 64"):
        raptor.load_model(teacher.module, head=torch.nn.Linear(33, 5))


def test_mae_shows_all_patches_in_order_whatever_its_configuration_masks():
    model = family("mae").build()
    expected = family("mae").own_states(model, pixels(32, 32)).last_hidden_state
    model.config.mask_ratio = 0.75
    teacher = raptor.load_model(model)
    torch.testing.assert_close(teacher(pixels(32, 32)), expected, **CLOSE)
    assert model.config.mask_ratio == 0.75


def test_a_module_in_hand_keeps_its_weights_and_their_gradients():
    model = family("vit").build().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    teacher = raptor.load_model(model)
    teacher(pixels(32, 32))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert not teacher.train().module.training


def test_steps_keep_no_state_between_calls():
    teacher = raptor.load_model(family("dinov3").build())
    a, b = teacher.embed(pixels(32, 32)), teacher.embed(pixels(32, 32, seed=5, batch=3))
    first = teacher.step(a, 0)
    teacher.step(b, 2)
    assert torch.equal(teacher.step(a, 0), first)


@pytest.mark.parametrize("name", ["beit-shared", "data2vec-shared", "dinov3"])
def test_weights_that_change_later_are_followed(name):
    model = family(name).build()
    teacher = raptor.load_model(model)
    images = pixels(32, 32)
    teacher(images)
    for parameter in model.parameters():
        parameter.mul_(1.5)
    torch.testing.assert_close(teacher(images), model(images).last_hidden_state, **CLOSE)


def test_a_copy_of_a_teacher_is_a_teacher_of_its_own():
    teacher = raptor.load_model(family("dinov2-registers").build(), head=torch.nn.Linear(32, 5))
    other = copy.deepcopy(teacher)
    images = pixels(32, 32)
    expected = teacher(images)
    for parameter in teacher.module.parameters():
        parameter.zero_()
    assert torch.equal(other(images), expected)
    assert other.head(other.embed(images)).shape == (2, 5)


def test_a_given_head_is_left_alone():
    head = torch.nn.Linear(32, 5).double()
    raptor.load_model(family("vit").build(), head=head)
    assert head.weight.dtype == torch.float64
    assert head.weight.requires_grad


def test_gradients_after_inference_mode():
    teacher = raptor.load_model(family("dinov3").build())
    with torch.inference_mode():
        teacher(pixels(32, 32))
    with torch.enable_grad():
        tokens = teacher.embed(pixels(32, 32)).detach().requires_grad_()
        teacher.step(tokens, 0).square().sum().backward()
        fresh = raptor.load_model(family("dinov3").build())  # that has seen no inference mode
        again = tokens.detach().requires_grad_()
        fresh.step(again, 0).square().sum().backward()
    torch.testing.assert_close(tokens.grad, again.grad)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile's own imports
@pytest.mark.parametrize("shell", [torch.nn.DataParallel, torch.compile], ids=["DataParallel", "compile"])
def test_shells_around_a_model_are_seen_through(shell):
    torch.manual_seed(0)
    model = tf.ViTForImageClassification(tf.ViTConfig(**SMALL, num_labels=7)).eval()
    teacher = raptor.load_model(shell(model))
    images = pixels(32, 32)
    last = raptor.rollout(teacher, teacher.embed(images)).at(3)
    torch.testing.assert_close(teacher.head(last), model(images).logits, **CLOSE)


@pytest.mark.parametrize("size", [32.0, "32", (32,), (32, 32, 32), (32.0, 32.0), 0, (-8, 8)])
def test_what_is_no_image_size_is_refused(size):
    with pytest.raises(OptionError, match="number of pixels or"):
        as_image_size(size)


@pytest.mark.parametrize("size", [[48, 48], 48, np.int64(48), torch.Size([48, 48])])
def test_image_sizes_of_every_kind(size):
    teacher = raptor.load_model(family("vit").build(), image_size=size)
    assert teacher.image_size == (48, 48)
    assert teacher(pixels(48, 48)).shape == (2, 37, 32)


def test_gradients_pass_through_steps():
    teacher = raptor.load_model(family("dinov3").build())
    with torch.enable_grad():
        tokens = teacher.embed(pixels(32, 32)).detach().requires_grad_()
        teacher.step(tokens, 0).square().sum().backward()
    assert tokens.grad.abs().amin(dim=-1).max() > 0


@pytest.mark.parametrize(
    ("name", "size", "message"),
    [
        ("vit", (33, 32), "nearest supported size is 32x32"),
        ("dinov2", (4, 4), "not a multiple of the patch size 8x8"),
        ("aimv2", (48, 48), "native"),
    ],
)
def test_impossible_image_sizes_are_named_errors(name, size, message):
    with pytest.raises(ImageSizeError, match=message):
        raptor.load_model(family(name).build(), image_size=size)


def test_pixels_of_another_size_say_how_to_load():
    teacher = raptor.load_model(family("vit").build())
    with pytest.raises(ImageSizeError, match=r"image_size=\(48, 48\)"):
        teacher.embed(pixels(48, 48))


def test_a_step_beyond_the_last_is_an_error():
    teacher = raptor.load_model(family("vit").build())
    with pytest.raises(LayerError, match=r"outside 0\.\.2"):
        teacher.step(teacher.embed(pixels(32, 32)), 3)


def test_unsupported_modules_are_told_what_is_supported():
    with pytest.raises(UnsupportedModelError, match=r"torch\.Linear.*transformers\.ViTModel.*docs/adapters\.md"):
        raptor.load_model(torch.nn.Linear(2, 2))

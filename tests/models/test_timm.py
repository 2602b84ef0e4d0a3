"""timm's ViTs against timm's own forward pass."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

import raptor
from raptor.errors import ModelNotFoundError, WeightsError
from raptor.models.teachers.timm import preprocessing_of
from round_trip import check_round_trip
from vits import _scrambled, pixels

timm = pytest.importorskip("timm", reason="timm cannot be had here", exc_type=ImportError)

TINY = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 3, "num_heads": 4}
ROPE = {**TINY, "use_rot_pos_emb": True, "rope_grid_offset": 0.0}
CASES = {
    "vit": lambda: timm.models.VisionTransformer(**TINY, num_classes=7),
    "vit-registers": lambda: timm.models.VisionTransformer(**TINY, reg_tokens=4, no_embed_class=True, num_classes=7),
    "vit-gap": lambda: timm.models.VisionTransformer(
        **TINY, class_token=False, global_pool="avg", reg_tokens=4, num_classes=7
    ),
    "vit-siglip": lambda: timm.models.VisionTransformer(**TINY, class_token=False, global_pool="map", num_classes=7),
    "vit-clip": lambda: timm.models.VisionTransformer(**TINY, pre_norm=True, num_classes=7),
    "vit-layer-scale": lambda: timm.models.VisionTransformer(**TINY, init_values=0.5, num_classes=7),
    "vit-dynamic": lambda: timm.models.VisionTransformer(**TINY, dynamic_img_size=True, num_classes=7),
    "deit-distilled": lambda: timm.models.deit.VisionTransformerDistilled(**TINY, num_classes=7),
    "eva": lambda: timm.models.Eva(**TINY, num_classes=7),
    "eva-rope": lambda: timm.models.Eva(**ROPE, num_classes=7),
    "eva-rope-mixed": lambda: timm.models.Eva(**ROPE, rope_type="mixed", attn_type="rope", num_classes=7),
    "eva-dynamic": lambda: timm.models.Eva(**ROPE, dynamic_img_size=True, num_classes=7),
    "eva-dinov3": lambda: timm.models.Eva(
        **ROPE, rope_type="dinov3", num_reg_tokens=4, use_abs_pos_emb=False, num_classes=7
    ),
}
PREFIX = {
    "vit-registers": (1, 4),
    "vit-gap": (0, 4),
    "vit-siglip": (0, 0),
    "deit-distilled": (1, 1),
    "eva-dinov3": (1, 4),
}


def build(name):
    torch.manual_seed(0)
    return _scrambled(CASES[name]())


def check(teacher, own, images):
    with torch.no_grad():
        # timm returns the prefix tokens beside the patches.
        final, states = own.forward_intermediates(images, output_fmt="NLC", return_prefix_tokens=True)
        trajectory = raptor.rollout(teacher, teacher.embed(images))
        for layer, state in enumerate(states, start=1):
            patches, prefix = state if isinstance(state, tuple) else (state, None)
            n_prefix = teacher.layout.n_prefix
            torch.testing.assert_close(trajectory.at(layer)[:, n_prefix:], patches, atol=1e-5, rtol=1e-5)
            if n_prefix:
                torch.testing.assert_close(trajectory.at(layer)[:, :n_prefix], prefix, atol=1e-5, rtol=1e-5)
        last = trajectory.at(teacher.depth)
        torch.testing.assert_close(teacher.readout(last), final, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(teacher.head(last), own(images), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_states_readout_and_logits_equal_timms(name):
    teacher = raptor.load_model(build(name))
    check(teacher, build(name), pixels(32, 32))
    assert (teacher.layout.n_cls, teacher.layout.n_register) == PREFIX.get(name, (1, 0))


@pytest.mark.parametrize("name", CASES)
def test_starting_in_the_middle_continues_identically(name):
    teacher = raptor.load_model(build(name))
    with torch.no_grad():
        whole = raptor.rollout(teacher, teacher.embed(pixels(32, 32)))
        rest = raptor.rollout(teacher, whole.at(2), start=2)
    assert torch.equal(rest.states, whole.states[:, 2:])


@pytest.mark.parametrize("size", [(48, 48), (24, 40)])
@pytest.mark.parametrize("name", CASES)
def test_other_image_sizes_equal_timms_and_leave_the_model_alone(name, size):
    given = build(name)
    before = {key: value.clone() for key, value in given.state_dict().items()}
    teacher = raptor.load_model(given, image_size=size)
    own = build(name)
    own.set_input_size(img_size=size)
    check(teacher, own, pixels(*size))
    after = given.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)


def test_a_model_in_training_mode_becomes_one_function_at_any_size():
    model = timm.models.VisionTransformer(**TINY, drop_path_rate=0.5, proj_drop_rate=0.3)
    for size in (32, 64):
        teacher = raptor.load_model(model.train(), image_size=size)
        images = pixels(size, size)
        with torch.no_grad():
            assert torch.equal(teacher(images), teacher(images))
            assert teacher.to(torch.float64)(images.double()).dtype == torch.float64
        model.float()


def test_blocks_with_attentions_side_by_side():
    teacher = raptor.load_model(timm.create_model("vit_small_patch16_18x2_224", depth=2, img_size=32))
    assert (teacher.depth, teacher.parts.heads) == (2, 6)


def test_weights_from_a_file(tmp_path):
    torch.manual_seed(3)
    own = timm.create_model("vit_tiny_patch16_224", num_classes=1000).eval()
    path = tmp_path / "weights.pth"
    torch.save(own.state_dict(), path)
    teacher = raptor.load_model("timm:vit_tiny_patch16_224", weights=path)
    check(teacher, own, pixels(224, 224, batch=1))
    with pytest.raises(WeightsError, match="'cls_token' has shape"):
        raptor.load_model("timm:vit_small_patch16_224", weights=path)


def test_unknown_names_and_missing_network_are_explained():
    with pytest.raises(ModelNotFoundError, match="vit_tiny_patch16_224"):
        raptor.load_model("timm:vit_tinny_patch16_224")
    with pytest.raises(ModelNotFoundError, match="--weights FILE"):
        raptor.load_model("timm:vit_tiny_patch16_224")


@pytest.mark.parametrize(
    "name",
    [
        "vit_tiny_patch16_224",
        "vit_base_patch16_clip_224",
        "vit_so400m_patch14_siglip_384",
        "vit_small_patch14_dinov2",
    ],
)
def test_preprocessing_equals_timms(name):
    from timm.data import create_transform, resolve_data_config

    with torch.device("meta"):
        model = timm.create_model(name)
    noise = np.random.default_rng(0).integers(0, 256, (301, 457, 3), dtype=np.uint8)
    image = Image.fromarray(noise)
    transform = create_transform(**resolve_data_config({}, model=model))
    # One grey level: torchvision's centre crop and PIL's resize are used with the same arguments.
    torch.testing.assert_close(preprocessing_of(model)(image), transform(image), atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["teacher", "swiglu"])
@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "deit_tiny_distilled_patch16_224", "eva02_tiny_patch14_224"])
def test_a_surrogate_is_read_as_it_was_saved(name, kind, tmp_path):
    torch.manual_seed(0)
    side = 28 if "patch14" in name else 32
    teacher = raptor.load_model(_scrambled(timm.create_model(name, img_size=side, num_classes=5)))
    phases = raptor.Phases((teacher.depth - 1, 1))
    check_round_trip(teacher, kind, tmp_path, phases)

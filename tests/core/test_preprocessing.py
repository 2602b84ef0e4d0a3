"""Preprocessing against the image processors of transformers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from transformers.models.beit.image_processing_pil_beit import BeitImageProcessorPil
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

from raptor.core.preprocessing import Preprocessing
from raptor.models.teachers.processors import from_processor

NO_CONFIG = None  # a processor that says everything needs nothing of the model's configuration
PROCESSORS = {
    "vit": ViTImageProcessorPil,
    "clip": CLIPImageProcessorPil,
    "siglip": SiglipImageProcessorPil,
    "beit": BeitImageProcessorPil,
}


def noise(height, width, seed=0):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


@pytest.mark.parametrize("size", [(301, 457), (457, 300), (224, 224), (50, 70), (1000, 225)])
@pytest.mark.parametrize("name", PROCESSORS)
def test_equals_the_image_processor_of_the_library(name, size):
    processor = PROCESSORS[name]()
    ours = from_processor(processor.to_dict(), NO_CONFIG)
    theirs = processor(noise(*size), return_tensors="pt")["pixel_values"][0]
    torch.testing.assert_close(ours(noise(*size)), theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize("edge", [96, 384])
def test_other_sizes_equal_a_processor_configured_for_them(name, edge):
    default = PROCESSORS[name]().to_dict()
    resize = dict(default["size"])
    old = (default.get("crop_size") or resize)["height"]
    scaled = PROCESSORS[name](
        size={key: round(value * edge / old) for key, value in resize.items()},
        **({"crop_size": {"height": edge, "width": edge}} if default.get("do_center_crop") else {}),
    )
    ours = from_processor(default, NO_CONFIG).at((edge, edge))
    theirs = scaled(noise(301, 457), return_tensors="pt")["pixel_values"][0]
    torch.testing.assert_close(ours(noise(301, 457)), theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["ViT", "CLIP", "Siglip", "Beit", "DeiT"])
@pytest.mark.parametrize(
    "written",
    [
        {},
        {"size": 96},
        {"size": 96, "crop_size": 80},
        {"resample": 0},
        {"do_normalize": False},
        {"do_rescale": False},
        {"rescale_factor": 0.01},
        {"size": {"shortest_edge": 90}, "do_center_crop": True, "crop_size": {"height": 64, "width": 80}},
    ],
    ids=str,
)
def test_incomplete_and_old_files_mean_what_their_class_means(kind, written):
    """Old files say "size": 224 and leave fields out; what that means depends on the processor's class."""
    if kind == "Siglip" and isinstance(written.get("size"), int):
        pytest.skip("SigLIP's own processor then gives an oblong, which its model cannot take")
    processor = getattr(transformers, f"{kind}ImageProcessorPil")(**written)
    ours = from_processor({"image_processor_type": f"{kind}ImageProcessor", **written}, NO_CONFIG)
    theirs = processor(noise(200, 300), return_tensors="pt")["pixel_values"][0]
    torch.testing.assert_close(ours(noise(200, 300)), theirs.float(), atol=1e-4, rtol=1e-5)


def test_normalisation_by_hand():
    white = Image.new("RGB", (4, 4), (255, 0, 51))
    ours = Preprocessing(crop=(2, 2), resize=None, mean=(0.5, 0.5, 0.1), std=(0.5, 0.25, 0.1))
    torch.testing.assert_close(ours(white)[:, 0, 0], torch.tensor([1.0, -2.0, 1.0]))


@given(st.integers(1, 400), st.integers(1, 400), st.integers(8, 64), st.integers(8, 64))
def test_any_image_becomes_exactly_the_crop(height, width, rows, columns):
    ours = Preprocessing().at((rows, columns))
    assert ours(Image.new("RGB", (width, height), (9, 9, 9))).shape == (3, rows, columns)
    resized = ours.resized((height, width))
    assert resized[0] >= rows
    assert resized[1] >= columns

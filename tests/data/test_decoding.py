"""Images as pixels: every mode and orientation, and what is done about damaged ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

import raptor
from pictures import PLAIN, encoded, levels, picture
from raptor.data.decode import DamagedImage, decode
from raptor.errors import DamagedDataError, DataError


def test_one_damaged_image_among_many_is_skipped_counted_and_listed(tmp_path):
    for value in range(200):
        picture(value).save(tmp_path / f"{value:03}.png")
    (tmp_path / "007.png").write_bytes(encoded(7)[:40])
    images = raptor.load_images(tmp_path, PLAIN, workers=2)
    assert levels(images) == [value for value in range(200) if value != 7]
    assert [damage["path"] for damage in images.damaged] == ["007.png"]
    assert levels(images) == [value for value in range(200) if value != 7]
    assert len(images.damaged) == 1


def test_too_many_damaged_images_are_an_error_unless_allowed(flat):
    (flat / "3.png").write_text("a text file named .png")
    with pytest.raises(DamagedDataError, match=r"1 of 10 images.*3\.png \(not an image\).*--allow-damaged"):
        list(raptor.load_images(flat, PLAIN))
    assert len(levels(raptor.load_images(flat, PLAIN, allow_damaged=True))) == 9


def test_only_damaged_images_are_an_error_even_if_allowed(tmp_path):
    (tmp_path / "a.jpg").write_text("text")
    with pytest.raises(DataError, match=r"none of the 1 images can be read.*a\.jpg"):
        list(raptor.load_images(tmp_path, PLAIN, allow_damaged=True))


def test_workers_change_nothing(tmp_path):
    for value in range(30):
        picture(value).save(tmp_path / f"{value:02}.png")
    alone = list(raptor.load_images(tmp_path, PLAIN, workers=0, batch_size=7))
    helped = list(raptor.load_images(tmp_path, PLAIN, workers=2, batch_size=7))
    assert [batch.path for batch in alone] == [batch.path for batch in helped]
    assert all(torch.equal(a.pixels, b.pixels) for a, b in zip(alone, helped, strict=True))


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK", "1", "LA"])
def test_every_mode_becomes_rgb(tmp_path, mode):
    path = tmp_path / ("a.jpg" if mode == "CMYK" else "a.png")
    picture(255, mode).save(path)
    decoded = np.asarray(decode(path))
    assert decoded.shape == (8, 8, 3)
    assert decoded.min() >= 254


def test_sixteen_bits_are_scaled_not_clipped(tmp_path):
    Image.fromarray(np.full((8, 8), 32896, dtype=np.uint16)).save(tmp_path / "a.png")
    assert np.asarray(decode(tmp_path / "a.png")).flatten().tolist() == [128] * 192


def test_exif_orientation_is_applied(tmp_path):
    image = Image.new("RGB", (8, 4))
    exif = image.getexif()
    exif[0x0112] = 6
    image.save(tmp_path / "a.jpg", exif=exif)
    assert decode(tmp_path / "a.jpg").size == (4, 8)


@pytest.mark.parametrize("content", [b"", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\xff\xd8\xff\xe0" + bytes(50)])
def test_damage_has_a_reason(content):
    with pytest.raises(DamagedImage, match=r"."):
        decode(content)


def test_decompression_bombs_are_refused(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 40)
    with pytest.raises(DamagedImage, match="DecompressionBomb"):
        decode(encoded(1))

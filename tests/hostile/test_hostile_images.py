"""Images from anybody: intact ones are read, damaged ones are reported, and none runs code, hangs or fills memory."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import EpsImagePlugin, Image

import raptor
from hostile import Trap, check_refused, vit  # noqa: F401
from pictures import encoded, picture
from raptor.core import preprocessing
from raptor.core.preprocessing import Preprocessing
from raptor.data.decode import DamagedImage, decode
from raptor.errors import DataError

FORMATS = ["PNG", "JPEG", "WEBP", "GIF", "TIFF", "BMP", "PPM", "JPEG2000", "AVIF"]


def noise(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def saved(image: Image.Image, kind: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def png_header(width: int, height: int) -> bytes:
    """A PNG of a few bytes that claims to be of any size."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(99))) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("kind", FORMATS)
def test_what_is_cut_off_anywhere_is_whole_or_damaged(kind):
    content = saved(Image.fromarray(noise(12, 10)), kind)
    with Image.open(io.BytesIO(content)) as whole:
        wanted = np.asarray(whole.convert("RGB"))
    assert np.array_equal(np.asarray(decode(content)), wanted)
    damaged = 0
    for end in range(0, len(content), max(1, len(content) // 60)):
        try:
            found = decode(content[:end])
        except DamagedImage:
            damaged += 1
        else:
            assert found.size == (10, 12)  # an ending that nothing depends on
    assert damaged > 20


@pytest.mark.parametrize("kind", FORMATS)
def test_bytes_that_were_changed_are_an_image_or_damaged(kind):
    content, draw = saved(Image.fromarray(noise(12, 10)), kind), np.random.default_rng(1)
    for _ in range(60):
        changed = bytearray(content)
        for place in draw.integers(0, len(content), 4):
            changed[place] = draw.integers(0, 256)
        with contextlib.suppress(DamagedImage):
            assert decode(bytes(changed)).mode == "RGB"


# What each EXIF orientation does to the pixels that a file holds.
UPRIGHT = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
    8: lambda a: np.rot90(a),
}


@pytest.mark.parametrize("orientation", [*UPRIGHT, 0, 9, 65535])
def test_every_orientation_is_turned_upright_and_others_are_left(orientation):
    pixels = noise(4, 7)
    exif = Image.Exif()
    exif[0x0112] = orientation
    found = np.asarray(decode(saved(Image.fromarray(pixels), "PNG", exif=exif)))
    assert np.array_equal(found, UPRIGHT.get(orientation, UPRIGHT[1])(pixels))


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF", "AVIF"])
def test_of_an_animation_the_first_frame_is_taken(kind):
    first, *others = [picture(value) for value in (200, 100, 10)]
    content = saved(first, kind, save_all=True, append_images=others)
    with Image.open(io.BytesIO(content)) as image:
        assert image.n_frames == 3
    assert abs(np.asarray(decode(content)).astype(int) - 200).max() <= 2


@pytest.mark.parametrize(("order", "kind"), [("<u2", "PNG"), ("<u2", "TIFF"), (">u2", "TIFF")])
def test_sixteen_bits_of_either_byte_order(order, kind):
    greys = np.array([[0, 257, 32896, 65535]], dtype=order)
    image = Image.frombytes("I;16" if order == "<u2" else "I;16B", (4, 1), greys.tobytes())
    assert np.asarray(decode(saved(image, kind)))[0].tolist() == [[value] * 3 for value in (0, 1, 128, 255)]


def test_a_palette_and_inks_become_the_colours_that_they_mean():
    colours = Image.new("P", (2, 1))
    colours.putpalette([255, 0, 0, 0, 0, 255])
    colours.putpixel((1, 0), 1)
    assert np.asarray(decode(saved(colours, "PNG", transparency=0)))[0].tolist() == [[255, 0, 0], [0, 0, 255]]
    inks = Image.new("CMYK", (8, 8), (0, 255, 255, 0))  # no cyan: red
    assert abs(np.asarray(decode(saved(inks, "TIFF"))).astype(int) - [255, 0, 0]).max() == 0


@pytest.mark.parametrize("size", [(60_000, 60_000), (2**31 - 1, 2**31 - 1), (1, 2**31 - 1), (12_000, 12_000)])
def test_a_few_bytes_that_claim_to_be_huge_are_refused_before_memory_is_taken(size):
    with pytest.raises(DamagedImage, match="DecompressionBomb"):
        decode(png_header(*size))


@pytest.mark.parametrize("size", [(1, 1), (20_000, 10), (10, 20_000), (60_000, 1), (1, 60_000)])
@pytest.mark.parametrize("fit", ["cover", "squash"])
def test_images_of_any_shape_become_pixels(size, fit):
    """Flat ones stay flat; a longer edge of 15 million pixels is never made."""
    used = Preprocessing((224, 224), (256, 256), fit=fit, mean=(0, 0, 0), std=(1, 1, 1))
    pixels = used(Image.new("RGB", size, (51, 102, 204)))
    assert pixels.shape == (3, 224, 224)
    assert all((pixels[channel] * 255).round().eq(value).all() for channel, value in enumerate((51, 102, 204)))


sizes = st.integers(1, 80), st.integers(1, 80), st.integers(1, 40), st.integers(1, 40)


def both(used: Preprocessing, image: Image.Image) -> tuple[np.ndarray, np.ndarray]:
    """Resize and crop an image as a whole, and by the window that the crop shows."""
    whole = np.asarray(used.box(image)).astype(int)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preprocessing, "LARGEST", 0)
        return whole, np.asarray(used.box(image)).astype(int)


@given(*sizes, st.sampled_from([2, 3]), st.sampled_from(["down", "nearest"]), st.integers(0, 5))
def test_a_long_image_gives_what_resizing_all_of_it_would(height, width, box, crop, resample, rounding, seed):
    used = Preprocessing((crop, crop + 3), (box, box), resample=resample, rounding=rounding)
    # Greys that bicubic resizing leaves between 0 and 255, where nothing is cut off between its two passes.
    whole, window = both(used, Image.fromarray(64 + noise(height, width, seed) // 2))
    # PIL keeps the window in single precision and rounds after each pass.
    assert np.abs(whole - window).max() <= 2


@given(*sizes)
def test_a_long_mask_keeps_its_ids_in_their_place(height, width, box, crop):
    """Ids that grow along the image show from where each was taken."""
    ids = np.add.outer(1000 * np.arange(1, height + 1), np.arange(1, width + 1)).astype(np.int32)
    whole, window = both(Preprocessing((crop, crop), (box, box), resample=0), Image.fromarray(ids))
    assert np.abs(whole - window).max() <= 1001  # at most the next row and the next column, where both are as near
    assert set(np.unique(window)) <= {0, *ids.ravel().tolist()}


def eps_program() -> bytes:
    return saved(Image.new("RGB", (8, 8)), "EPS")


@pytest.fixture
def ghostscript(tmp_path, monkeypatch):
    """A program called gs that leaves a file behind; and PIL, which has not looked for it yet."""
    folder, ran = tmp_path / "bin", tmp_path / "gs-ran"
    folder.mkdir()
    (folder / "gs").write_text(f"#!/bin/sh\ntouch {ran}\n")
    (folder / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)
    return ran


def test_an_image_that_is_a_program_is_not_run(tmp_path, ghostscript):
    (tmp_path / "a.jpg").write_bytes(eps_program())
    with pytest.raises(DamagedImage, match="not an image"):
        decode(tmp_path / "a.jpg")
    assert not ghostscript.exists()
    with Image.open(tmp_path / "a.jpg") as image, pytest.raises(OSError, match="image file"):
        image.load()
    assert ghostscript.exists()  # PIL by itself runs it


GOOD = {
    "wrong-ending.jpg": encoded(10),
    "one-pixel.png": saved(Image.new("RGB", (1, 1)), "PNG"),
    "long.png": saved(Image.new("RGB", (20_000, 10)), "PNG"),
    "inks.jpg": saved(picture(9, "CMYK"), "JPEG"),
    "deep.png": saved(Image.fromarray(np.full((9, 9), 5000, dtype=np.uint16)), "PNG"),
    "palette.gif": saved(picture(9, "P"), "GIF"),
    "moves.gif": saved(picture(9), "GIF", save_all=True, append_images=[picture(90)]),
}
BAD = {
    "empty.png": (b"", "not an image"),
    "cut.jpg": (saved(Image.fromarray(noise(64, 64)), "JPEG")[:900], "truncated"),
    "bomb.png": (png_header(60_000, 60_000), "DecompressionBomb"),
    "program.jpg": (eps_program(), "not an image"),
    "text.webp": (b"<script>alert(1)</script>", "not an image"),
}


def test_a_folder_of_everything(call, vit, tmp_path):  # noqa: F811
    folder = tmp_path / "photos"
    folder.mkdir()
    for name, content in GOOD.items():
        (folder / name).write_bytes(content)
    reasons = {name: reason for name, (_, reason) in BAD.items()}
    for name, (content, _) in BAD.items():
        (folder / name).write_bytes(content)
    (folder / "trap.png").write_bytes(pickle.dumps(Trap(tmp_path / "executed")))
    os.mkfifo(folder / "pipe.png")
    (folder / "endless.png").symlink_to("/dev/zero")
    (folder / "nowhere.png").symlink_to(folder / "nothing")
    (folder / "folder.png").mkdir()
    with open(os.fsencode(folder) + b"/\xff\x1b[31m\n.png", "wb") as file:
        file.write(b"a name that is not UTF-8, with a colour of the terminal in it")
    reasons |= {"trap.png": "not an image", "pipe.png": "not a file", "endless.png": "not a file",
                "nowhere.png": "No such file", "\udcff\x1b[31m\n.png": "not an image"}  # fmt: skip
    check_refused(call("inspect", vit, "--data", folder, "--json"), f"of {len(GOOD) + len(reasons)} images cannot")
    arguments = ("inspect", vit, "--data", folder, "--allow-damaged")
    code, out, err = call(*arguments, "--json", "--out", tmp_path / "run")
    assert code == 0, err
    result = json.loads(out)
    assert result == json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["images"] == len(GOOD)
    told = {damage["path"]: damage["reason"] for damage in result["damaged"]}
    assert set(told) == set(reasons)
    for name, reason in reasons.items():
        assert reason in told[name]
    assert not (tmp_path / "executed").exists()
    # A terminal gets no codes from names.
    code, out, err = call(*arguments)
    assert code == 0, err
    assert "\x1b[31m" not in out + err
    assert r"\udcff\x1b[31m" in out


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not an image"),
        (saved(Image.fromarray(noise(64, 64)[..., 0]), "PNG")[:400], "cannot be read"),
        (png_header(60_000, 60_000), "DecompressionBomb"),
        (eps_program(), "not an image"),
        (saved(Image.fromarray(np.full((8, 8), 40_000, dtype=np.uint16)), "PNG"), "class id 40000"),
        (saved(Image.fromarray(np.full((8, 8), 0.5, dtype=np.float32)), "TIFF"), "mode F"),
        (saved(Image.new("L", (1, 1)), "PNG"), "is a mask of 1x1"),
    ],
)
def test_masks_are_met_with_the_same_care(tmp_path, content, reason):
    for name in ("images", "masks"):
        (tmp_path / name).mkdir()
    picture(5).save(tmp_path / "images" / "a.png")
    (tmp_path / "masks" / "a.png").write_bytes(content)
    with pytest.raises(DataError, match=reason) as caught:
        list(raptor.load_images(tmp_path, Preprocessing((8, 8), None)))
    assert "a.png" in str(caught.value)
    assert "\n" not in str(caught.value)

"""Preprocessed images on disk: decoded once, and again only where the file is another one."""

from __future__ import annotations

import shutil

import raptor
from raptor.data.streaming.images import StreamedImages
from shards import SIDE, N, as_tars, by_content, noise


def test_images_are_decoded_once_with_a_cache(data, tmp_path, monkeypatch):
    used = raptor.Preprocessing(crop=(16, 16), resize=(20, 20))
    wanted = by_content(raptor.load_images(data["folder"], used, workers=0))
    from raptor.data import image_cache

    decoded = []
    monkeypatch.setattr(
        image_cache, "decode", lambda image, original=image_cache.decode: decoded.append(1) or original(image)
    )
    for kind in ("folder", "tar"):
        for _ in range(2):
            cached = raptor.load_images(data[kind], used, cache=tmp_path / kind, workers=0)
            assert by_content(cached) == wanted
            assert len(decoded) == N
        decoded.clear()
        assert by_content(cached.sample(9)).items() <= wanted.items()
        assert not decoded
        assert isinstance(cached, StreamedImages) == (kind == "tar")
    other = raptor.load_images(
        data["folder"], raptor.Preprocessing(crop=(8, 8), resize=(20, 20)), cache=tmp_path / "folder"
    )
    assert next(iter(other)).pixels.shape[-1] == 8  # another size is another cache


def test_a_file_that_was_replaced_is_decoded_again(data, tmp_path):
    used = raptor.Preprocessing(crop=(SIDE, SIDE), resize=None)
    folder, tars = tmp_path / "folder", as_tars(tmp_path / "tar", 8)
    shutil.copytree(data["folder"], folder)
    picture = min(folder.rglob("*.png"))
    for source, change in (
        (folder, lambda: picture.write_bytes(noise(N))),
        (tars, lambda: as_tars(tars, 8, content=lambda number: noise(number + N))),
    ):
        before = by_content(raptor.load_images(source, used, cache=tmp_path / "cache", workers=0))
        change()
        cached, plain = (
            by_content(raptor.load_images(source, used, workers=0, **where))
            for where in ({"cache": tmp_path / "cache"}, {})
        )
        assert cached == plain != before

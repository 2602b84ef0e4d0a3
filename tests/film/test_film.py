"""The depth film against scikit-learn and against flows whose pictures are known."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from probed import assert_read_back, scenes, small_vit
from raptor.core.principal import principal_of
from raptor.core.tokens import TokenLayout
from raptor.core.toy import Diagonal
from raptor.film.arrays import film_data
from raptor.film.command import film_stage
from raptor.film.figures import film_figure
from raptor.film.film import MOST_SIDE, STEPS, FilmResult, depth_film
from raptor.reporting.collect import collect
from raptor.reporting.page import render
from raptor.runtime.rundir import Run


def flow(scale, **more):
    return Diagonal(3, [scale**power for power in range(6)], **more)


def test_directions_are_those_of_an_independent_pca():
    rows = torch.randn(200, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * torch.arange(1.0, 7)
    centre = rows.mean(dim=0)
    found = principal_of(centre, (rows - centre).T @ (rows - centre))
    theirs = PCA(3).fit(rows.numpy())
    np.testing.assert_allclose(found(rows).abs(), np.abs(theirs.transform(rows.numpy())))
    np.testing.assert_allclose(np.abs((found.components.numpy() * theirs.components_).sum(axis=1)), 1)
    np.testing.assert_allclose(found.explained, theirs.explained_variance_ratio_)


def test_pictures_are_what_tokens_are():
    teacher, other = flow(0.8), flow(-0.8)
    pixels = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(2))
    film = depth_film({"teacher": teacher, "twin": teacher, "other": other}, pixels)
    tokens = teacher.embed(pixels)
    for _ in range(2):
        tokens = teacher.step(tokens, 0)
    patches = torch.nn.functional.normalize(tokens[1, teacher.layout.where("patch")], dim=-1)
    rows, columns = teacher.layout.grid
    # Layer 2 of image 1.
    expected = (patches @ patches.T).numpy()
    stored = film.directions["teacher"][1, 2].reshape(len(patches), -1) / STEPS  # all six axes: only rounding is lost
    np.testing.assert_allclose(stored @ stored.T, expected, atol=3 / STEPS)
    assert 0 < film.cosine_error < 2 / STEPS
    assert film.outliers == {}
    assert film.colours["teacher"].shape == (2, 4, rows, columns, 3)
    np.testing.assert_array_equal(film.colours["twin"], film.colours["teacher"])
    np.testing.assert_allclose(film.apart["twin"], 0, atol=1e-6)
    assert film.apart["other"][:, 0].max() < 1e-6  # the same embedding
    assert film.apart["other"][:, 1:].max() > 0.1
    # A percent at either end of all coordinates has no or full colour.
    shares = [(film.colours["teacher"][..., c] == end).mean() for c in range(3) for end in (0, 255)]
    assert max(abs(share - 0.01) for share in shares) < 0.03


def test_large_grids_are_averaged():
    wide = flow(0.8, layout=TokenLayout(1, 0, (2 * MOST_SIDE, 2 * MOST_SIDE)))
    film = depth_film({"teacher": wide}, torch.randn(1, 3, 64, 64))
    assert film.colours["teacher"].shape == (1, 4, MOST_SIDE, MOST_SIDE, 3)
    assert film.apart == {}


def test_directions_of_many_images_stay_small(monkeypatch):
    monkeypatch.setattr("raptor.film.film.BUDGET", 300_000)
    wide = flow(0.8, layout=TokenLayout(1, 0, (16, 16)))
    film = depth_film({"teacher": wide, "twin": wide}, torch.randn(32, 3, 32, 32))
    assert sum(array.nbytes for array in film.directions.values()) <= 300_000
    assert film.directions["teacher"].shape[2:] == (16, 16, 4)  # of six axes
    assert film.cosine_error > 2 / STEPS  # and the error says so


def test_outlier_tokens_are_marked():
    class Bright(Diagonal):
        def embed(self, pixels):
            tokens = super().embed(pixels).clone()
            tokens[:, -1] *= 50  # the last patch
            return tokens

    film = depth_film({"teacher": Bright(3, [1.0] * 6)}, torch.randn(2, 3, 32, 32))
    marked = film.outliers["teacher"]
    assert marked[:, :, -1, -1].all()
    assert marked.sum() == marked[:, :, -1, -1].size


def test_the_film_on_paper_has_every_patch_where_it_belongs():
    pixels = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(3))
    film = depth_film({"teacher": flow(0.8), "other": flow(-0.8)}, pixels)
    figure = film_figure(film)
    of = {(row["flow"], row["image"], row["layer"], row["row"], row["column"]): row for row in figure.rows}
    rows, columns = film.colours["other"].shape[2:4]
    assert len(figure.rows) == len(of) == film.colours["other"][..., 0].size * 2
    place = (1, 2, rows - 1, 0)
    assert of["other", 2, 2, rows, 1]["colour"] == "#" + bytes(film.colours["other"][place].tolist()).hex()
    assert of["other", 2, 2, rows, 1]["apart"] == pytest.approx(film.apart["other"][place], abs=1e-6)
    assert of["teacher", 1, 0, 1, 1]["apart"] is None
    # Three strips of four layers, none upon another.
    drawn = [one for part in figure.chart.to_dict()["layer"] for one in part["data"]["values"] if "x2" in one]
    assert len({(one["x"], one["y"]) for one in drawn}) == len(drawn) == 3 * 4 * rows * columns


def test_the_stage_writes_what_the_page_reads(tmp_path):
    teacher, other = small_vit(), small_vit(seed=1)
    pixels = next(iter(scenes(teacher))).pixels[:2]
    with Run("film", {"model": "vit"}, tmp_path, seed=0) as run:
        record = film_stage(run, {"teacher": teacher, "other": other}, teacher, pixels, "1-1")
    plain = json.loads((tmp_path / "result.json").read_text())
    assert_read_back(FilmResult, plain)
    assert (plain["flows"], plain["phases"], plain["images"]) == (["teacher", "other"], "1-1", 2)
    assert plain["apart"]["other"] == pytest.approx(record.result.film.apart["other"].mean(axis=(0, 2, 3)))
    assert plain["figures"] == ["figures/film.png"]
    shown = film_data(tmp_path / "film.npz", plain["phases"])
    assert (shown.flows, shown.images, shown.layers, shown.phases) == (["teacher", "other"], 2, 3, [1, 1])
    many = film_data(tmp_path / "film.npz", plain["phases"], films=10**9)  # films of one page share its size
    assert (many.images, len(many.pictures), many.left_out, shown.left_out) == (1, 1, 1, 0)
    assert many.colours["other"] == shown.colours["other"][: len(many.colours["other"])]
    assert "principal components" in record.result._repr_html_()
    page = render(subjects := collect([tmp_path]))
    assert [subject.missing for subject in subjects] == [[]]
    assert "principal components" in page
    assert 'class="film"' in page

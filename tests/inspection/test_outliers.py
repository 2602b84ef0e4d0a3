"""Outlier tokens: planted ones are found exactly, with the share of the variance that they hold."""

from __future__ import annotations

import pytest
import torch

from raptor.core.toy import Rotation
from raptor.errors import DataError
from raptor.inspection.figures import draw_outliers
from raptor.inspection.outliers import find_outliers
from raptor.inspection.text import outlier_sentence
from raptor.render.charts import spec_of
from raptor.render.panels import is_matrix, panels
from raptor.runtime.device import doubled

N, WIDTH, DEPTH = 12, 16, 6


class Planted(Rotation):
    """From layer 3 on, some patches of some images have 500 added to one feature; norms are below 20 otherwise."""

    def __init__(self, where):
        super().__init__([0.1] * DEPTH, WIDTH)
        self.where = where  # image, patch

    def embed(self, pixels):
        numbers = pixels[:, 0, 0, 0].long()  # the image's number, so that batches may be of any size
        tokens = torch.randn(N, self.layout.n_tokens, WIDTH, generator=torch.Generator().manual_seed(0))
        return torch.cat([tokens[numbers], numbers[:, None, None].expand(-1, self.layout.n_tokens, 1)], dim=2)

    def step(self, tokens, layer):
        states = tokens.clone()
        if layer == 2:
            for image, patch in self.where:
                states[states[:, 0, -1].long() == image, self.layout.n_prefix + patch, 7] += 500
        return states


def images(batch):
    numbers = torch.arange(N, dtype=torch.float32)
    return list(numbers[:, None, None, None].expand(-1, 3, 4, 4).split(batch))


@pytest.mark.parametrize("batch", [12, 5])
def test_planted_outliers_are_found_exactly(batch):
    where = [(0, 3), (0, 9), (4, 9), (11, 0)]
    flow = Planted(where)
    flow.width = WIDTH + 1
    found = find_outliers(flow, images(batch))
    assert found.n == N
    assert found.first_layer == found.worst_layer == 3
    share = len(where) / (N * 16)
    assert found.share_of_tokens == pytest.approx([0, 0, 0, *[share] * 4])
    expected = torch.zeros(16)
    for _, patch in where:
        expected[patch] += 1 / N
    torch.testing.assert_close(torch.tensor(found.where).flatten(), expected, check_dtype=False)
    assert found.features[0] == 7
    # The same by definition, on all states at once.
    states = doubled(flow.embed(torch.cat(images(N))))
    for layer in range(3):
        states = flow.step(states, layer)
    patches = states[:, flow.layout.where("patch")]
    squares = (patches - patches.mean(dim=0)).square()
    planted = sum(squares[image, patch].sum() for image, patch in where)
    assert found.share_of_variance[3] == pytest.approx(float(planted / squares.sum()))
    assert found.share_of_features[0] == pytest.approx(float(squares[..., 7].sum() / squares.sum()))
    assert found.massive


def test_a_flow_without_outliers_has_none():
    flow = Planted([])
    flow.width = WIDTH + 1
    found = find_outliers(flow, images(4))
    assert not found.massive
    assert found.first_layer is None
    assert found.share_of_tokens == [0.0] * (DEPTH + 1)


def test_one_image_is_too_few():
    with pytest.raises(DataError, match="at least 2"):
        find_outliers(Rotation([0.1]), [torch.rand(1, 3, 8, 8)])


def test_a_sentence_says_from_which_layer_where_and_how_much():
    flow = Planted([(image, 0) for image in range(0, N, 2)])  # the upper left corner, in half of the images
    flow.width = WIDTH + 1
    text = outlier_sentence(find_outliers(flow, images(4)))
    assert "from layer 3 on" in text
    assert "3.1% of the patches" in text  # one of 16 in half of the images
    assert "100% of them lie on the border of the image, which has 75% of the patches" in text
    flow.where = []
    assert "No massive activations" in outlier_sentence(find_outliers(flow, images(4)))


def test_the_figure_shows_where_they_are_and_what_they_hold_at_each_layer():
    flow = Planted([(image, 0) for image in range(0, N, 2)])
    flow.width = WIDTH + 1
    found = find_outliers(flow, images(4))
    drawn = draw_outliers(found, "toy")
    shown = {
        of: [row["value"] for row in drawn.rows if row.get("of") == of]
        for of in ("of the variance", "of the patches", "largest norm", "median norm")
    }
    assert list(shown.values()) == [
        found.share_of_variance,
        found.share_of_tokens,
        found.largest_norm,
        found.median_norm,
    ]
    assert [row["share"] for row in drawn.rows if "share" in row] == [0.5] + [0.0] * 15
    # The grid of patches stays square, on the page and in papers.
    assert [is_matrix(panel) for panel in panels(spec_of(drawn.chart))] == [True, False, False]

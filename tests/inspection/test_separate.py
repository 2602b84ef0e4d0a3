"""The rule of separate outliers: planted ones are found exactly, and the numbers that describe the group are right."""

from __future__ import annotations

import pytest
import torch

from planted_outliers import PLANTED_AT, N, PlantedOutliers, numbered, two_of_each
from raptor.core.batches import BatchList
from raptor.core.flow import last_state
from raptor.core.tokens import OUTLIER
from raptor.errors import DataError
from raptor.inspection.outliers import find_outliers
from raptor.inspection.separate import separation


def separated_patches(flow, found):
    """Return the numbers of the patches in the group, by image."""
    separated = found.of(flow)
    where = separated.layout.where(OUTLIER)
    states = torch.cat([last_state(separated, separated.embed(pixels))[:, where] for pixels in numbered()])
    return [{round(100 * float(token[-1])) for token in image} for image in states]


def test_planted_outliers_are_the_group_exactly():
    planted = two_of_each()
    flow = PlantedOutliers(planted)
    found = separation("separate", flow, numbered())
    group = found.group
    assert (group.layer, group.count, group.share_of_images, group.share_of_group) == (PLANTED_AT, 2, 1.0, 1.0)
    assert (group.factor, group.n) == (5.0, N)
    wanted = [{patch for image, patch in planted if image == one} for one in range(N)]
    assert separated_patches(flow, found) == wanted
    assert "the 2 patches of largest norm at layer 3" in str(group)


def test_the_count_covers_95_percent_of_images():
    """11 of 12 images are 92%: the one with three outliers counts. Of 24 images they are 96%."""
    planted = [(image, patch) for image in range(1, N - 1) for patch in (image % 3,)] + [(N - 1, p) for p in (0, 7, 15)]
    flow = PlantedOutliers(planted)
    found = separation("separate", flow, numbered())
    assert (found.group.count, found.group.share_of_images) == (3, 1.0)
    assert found.group.share_of_group == pytest.approx(len(planted) / (3 * N))
    patches = separated_patches(flow, found)
    assert patches[N - 1] == {0, 7, 15}
    assert all({image % 3} < patches[image] for image in range(1, N - 1))
    many = [*numbered(), *numbered(11)[:1], *numbered(1)[:1]]
    assert find_outliers(flow, many).per_image == [0, *[1] * 10, 3, 0, *[1] * 10, 0]
    found = separation("separate", flow, many)
    assert (found.group.count, found.group.share_of_images) == (1, pytest.approx(23 / 24))
    assert found.group.share_of_group == pytest.approx(21 / 24)


def test_rare_outliers_have_a_group_of_one():
    found = separation("separate", PlantedOutliers([(0, 3)]), [*numbered()] * 3)
    assert (found.group.count, found.group.share_of_group) == (1, pytest.approx(1 / N))


def test_without_massive_activations_there_is_a_note(caplog):
    assert separation("separate", PlantedOutliers([]), numbered()) is None
    assert "no massive activations" in caplog.text


def test_together_reads_no_image():
    assert separation("together", PlantedOutliers(two_of_each()), []) is None


def test_images_that_can_be_read_once_are_refused():
    for images in (iter(numbered()), BatchList(iter(numbered()))):
        with pytest.raises(DataError, match="more than once"):
            separation("separate", PlantedOutliers([]), images)

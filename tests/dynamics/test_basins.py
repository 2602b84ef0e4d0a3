"""Classes that part at a known layer."""

from __future__ import annotations

import math

import pytest
import torch

from raptor.core.tokens import TokenLayout
from raptor.dynamics.basins import BasinMeasure, ClassMeans
from raptor.dynamics.measures import StateBatch
from raptor.errors import DataError

LAYOUT = TokenLayout(1, 0, (1, 2))


def planted(n=300, apart=(0.0, 0.0, 1.2), noise=0.05, seed=0):
    """Three classes whose directions are `apart` radians from a common axis at each layer, with noise."""
    draw = torch.Generator().manual_seed(seed)
    label = torch.arange(n) % 3
    states = []
    for radians in apart:
        centre = torch.zeros(3, 8, dtype=torch.float64)
        centre[:, 0] = math.cos(radians)
        centre[torch.arange(3), 1 + torch.arange(3)] = math.sin(radians)
        one = centre[label] + noise * torch.randn(n, 8, generator=draw, dtype=torch.float64)
        states.append(7 * one[:, None].expand(-1, 3, -1).clone())
    return states, label


def measured(states, label, size=16):
    """Take means of every other image, and judge those between."""
    means = ClassMeans()
    halves = [torch.arange(first, len(label), 2) for first in (0, 1)]
    for part in halves[0].split(size):
        means.update(StateBatch([state[part] for state in states], LAYOUT, label[part]))
    found = BasinMeasure(means)
    for part in halves[1].split(size):
        found.update(StateBatch([state[part] for state in states], LAYOUT, label[part]))
    return found.compute()


def test_classes_part_where_they_were_planted():
    found = measured(*planted())["cls"]
    assert found.n == 150
    assert found.nearest.value[2] == 1.0
    assert found.nearest.value[0] < 0.7
    assert found.separated == {"0": 2, "1": 2, "2": 2}
    # Directions at 1.2 radians from the axis, in planes at right angles: cos = cos(1.2)^2.
    assert found.between.value[2] == pytest.approx(math.acos(math.cos(1.2) ** 2), abs=0.03)
    assert found.within.value[2] == pytest.approx(found.within.value[0], abs=0.05)
    for name in ("within", "between", "nearest"):
        curve = getattr(found, name)
        ends = zip(curve.low, curve.value, curve.high, strict=True)
        assert all(low <= value <= high for low, value, high in ends)


@pytest.mark.parametrize("size", [1, 7, 64])
def test_where_all_images_are_the_same_a_class_is_nearest_by_chance(size):
    """So are cls tokens before the first layer: rounding must not decide."""
    states, label = planted(apart=(0.0, 1.2), noise=0.0)
    states[0][:] = torch.randn(8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = measured(states, label, size)["cls"]
    assert found.nearest.value == pytest.approx([1 / 3, 1.0])
    assert found.separated == {"0": 1, "1": 1, "2": 1}


def test_an_image_is_not_compared_with_a_mean_that_holds_it():
    """Pure noise has no classes: with its own image in the mean, nearest would be far above chance."""
    draw = torch.Generator().manual_seed(1)
    states = [torch.randn(40, 3, 64, generator=draw, dtype=torch.float64)]
    found = measured(states, torch.arange(40) // 2 % 10)["patch"]
    assert found.nearest.value[0] < 0.3
    assert found.within.value[0] == pytest.approx(found.between.value[0], abs=0.1)


def test_a_class_that_falls_back_is_separate_only_from_its_last_rise_on():
    found = measured(*planted(apart=(1.2, 0.0, 1.2, 1.2)))["cls"]
    assert set(found.separated.values()) == {2}
    found = measured(*planted(apart=(1.2, 0.0), noise=0.5))["cls"]
    assert None in found.separated.values()


def test_an_image_of_a_class_that_the_other_half_lacks_is_left_out():
    states, label = planted(n=31)
    label[29] = 3
    found = measured(states, label)["cls"]
    assert found.n == 14
    assert "3" not in found.separated


def test_one_class_has_no_other_to_be_apart_from():
    states, label = planted(n=20)
    found = measured(states, torch.zeros_like(label))["cls"]
    assert all(math.isnan(value) for value in found.between.value)


def test_batches_do_not_matter():
    one, other = (measured(*planted(), size=size)["cls"] for size in (16, 7))
    assert one.within.value == pytest.approx(other.within.value)
    assert one.nearest == other.nearest


def test_labels_are_needed():
    with pytest.raises(DataError, match="labels"):
        ClassMeans().update(StateBatch([torch.randn(2, 3, 4)] * 2, LAYOUT))


def test_without_two_images_of_a_class_there_are_no_basins():
    states, _ = planted(n=3)
    assert measured(states, torch.arange(3)) == {}

"""Token layouts, phases and trajectories against hand-written answers and exhaustive enumeration."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from raptor import Phases, TokenLayout, Trajectory
from raptor.core.phases import as_phases
from raptor.errors import LayerError, LayoutError, PhaseError

PAPER = [("7-5", (7,)), ("7-3-2", (7, 10)), ("4-3-3-2", (4, 7, 10))]


def test_layout_of_dinov2_with_registers():
    layout = TokenLayout(1, 4, (16, 16))
    assert (layout.n_prefix, layout.n_patch, layout.n_tokens) == (5, 256, 261)
    assert layout.slices == {"cls": slice(0, 1), "register": slice(1, 5), "patch": slice(5, 261)}


def test_absent_groups_are_absent():
    layout = TokenLayout(0, 0, (2, 3))
    assert layout.counts == {"patch": 6}
    with pytest.raises(LayoutError, match="no token group 'cls'; it has patch"):
        layout.where("cls")


@given(st.integers(0, 2), st.integers(0, 5), st.integers(1, 5), st.integers(1, 5))
def test_groups_tile_the_sequence(n_cls, n_register, rows, columns):
    layout = TokenLayout(n_cls, n_register, (rows, columns))
    tokens = list(range(layout.n_tokens))
    assert [token for where in layout.slices.values() for token in tokens[where]] == tokens


@pytest.mark.parametrize(("text", "boundaries"), PAPER)
def test_phases_of_the_paper(text, boundaries):
    phases = Phases.parse(text)
    assert str(phases) == text
    assert phases.boundaries == boundaries
    assert Phases.from_boundaries(boundaries, 12) == phases


def test_phase_of_each_layer_as_the_papers_table_3_lists_it():
    phases = Phases.parse("7-3-2")
    assert [phases.block_of(layer) for layer in range(1, 13)] == [0] * 7 + [1] * 3 + [2] * 2
    assert [list(layers) for layers in phases.ranges][1:] == [[8, 9, 10], [11, 12]]
    for outside in (0, 13):
        with pytest.raises(PhaseError, match=r"1\.\.12"):
            phases.block_of(outside)


@pytest.mark.parametrize("text", ["", "7-", "-3", "7--2", "0-3", "a", "7-3-x", "1e3", "7 - 3", "٣-٤", "99999-1"])
def test_what_is_not_phases_is_refused(text):
    with pytest.raises(PhaseError):
        Phases.parse(text)


def test_phases_of_another_depth_are_refused():
    with pytest.raises(PhaseError, match=r"7-3-2. have 12 layers.*model has 24"):
        Phases.parse("7-3-2").check_depth(24)


@pytest.mark.parametrize(("depth", "k", "shortest"), [(6, 3, 1), (8, 3, 2), (5, 1, 1), (6, 3, 2)])
def test_random_phases_reach_every_partition_equally(depth, k, shortest):
    """Chi-squared over all partitions, listed by brute force over cuts."""
    cuts = (Phases.from_boundaries(cut, depth) for cut in combinations(range(1, depth), k - 1))
    partitions = [phases for phases in cuts if min(phases.lengths) >= shortest]
    draws = Counter(Phases.random(depth, k, seed, shortest) for seed in range(4000))
    assert set(draws) == set(partitions)
    expected = 4000 / len(partitions)
    chi2 = sum((draws[phases] - expected) ** 2 / expected for phases in partitions)
    freedom = len(partitions) - 1
    assert chi2 <= freedom + 4 * (2 * freedom) ** 0.5


def test_impossible_random_phases_are_refused():
    with pytest.raises(PhaseError, match="5 layers cannot be divided into 3 phases of at least 2"):
        Phases.random(5, 3, 0, min_length=2)


def example() -> Trajectory:
    states = torch.arange(2 * 3 * 6 * 2, dtype=torch.float32).reshape(2, 3, 6, 2) + 1
    return Trajectory(states, TokenLayout(1, 1, (2, 2)), first_layer=4)


def test_trajectory_knows_its_layers_and_groups():
    trajectory = example()
    assert trajectory.last_layer == 6
    assert trajectory.at(5).tolist() == trajectory.states[:, 1].tolist()
    assert trajectory.group("register").tolist() == trajectory.states[:, :, 1:2].tolist()
    assert {name: part.shape[2] for name, part in trajectory.groups().items()} == {
        "cls": 1,
        "register": 1,
        "patch": 4,
    }
    with pytest.raises(LayerError, match=r"layer 3 is outside 4\.\.6"):
        trajectory.at(3)
    with pytest.raises(LayoutError, match="6 tokens"):
        Trajectory(trajectory.states, TokenLayout(1, 0, (2, 2)))


def test_directions_and_updates_by_hand():
    layout = TokenLayout(0, 0, (1, 1))
    trajectory = Trajectory(torch.tensor([[[[3.0, 4.0]], [[0.0, 2.0]]]]), layout)
    torch.testing.assert_close(trajectory.directions(), torch.tensor([[[[0.6, 0.8]], [[0.0, 1.0]]]]))
    torch.testing.assert_close(trajectory.updates(), torch.tensor([[[[-0.6, 0.2]]]]))


def test_phases_are_accepted_in_every_form():
    phases = Phases.parse("7-3-2")
    assert as_phases("7-3-2") == as_phases(phases) == as_phases(SimpleNamespace(phases=phases)) == phases
    with pytest.raises(PhaseError, match="SimpleNamespace"):
        as_phases(SimpleNamespace(phases="7-3-2"))

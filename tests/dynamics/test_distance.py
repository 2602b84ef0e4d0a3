"""Distance of linear maps up to rotation: zero for rotated copies, and closed forms of normal maps."""

from __future__ import annotations

import pytest
import torch

from raptor.dynamics.dmd.distance import operator_distance
from raptor.dynamics.dmd.pooled import Modes
from raptor.dynamics.dmd.same_system import same_system


def random_map(size, seed):
    return torch.randn(size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rotation(size, seed):
    return torch.linalg.qr(random_map(size, seed))[0]


@pytest.mark.parametrize("size", [2, 5, 10])
@pytest.mark.parametrize("seed", range(3))
def test_a_rotated_copy_has_distance_zero(size, seed):
    one, turn = random_map(size, seed), rotation(size, seed + 10)
    assert operator_distance(one, turn @ one @ turn.T) == pytest.approx(0.0, abs=1e-5)


def test_symmetric_maps_differ_by_their_sorted_eigenvalues():
    """The nearest rotated copy of a symmetric map has its eigenvalues in the same order (Hoffman and Wielandt)."""
    one, other = torch.tensor([0.9, 0.5, 0.1]), torch.tensor([0.7, 0.6, 0.2])
    first, second = (
        turn @ torch.diag(values.double()) @ turn.T for turn, values in ((rotation(3, 0), one), (rotation(3, 1), other))
    )
    expected = (one - other).norm() / ((one.norm() + other.norm()) / 2)
    assert operator_distance(first, second) == pytest.approx(float(expected), abs=1e-6)


def test_a_smaller_map_is_padded_and_the_order_does_not_matter():
    one, other = random_map(3, 0), random_map(5, 1)
    assert operator_distance(one, other) == pytest.approx(operator_distance(other, one), rel=1e-3)
    assert operator_distance(torch.zeros(2, 2), torch.zeros(3, 3)) == 0.0


@pytest.mark.parametrize(("size", "seed", "same"), [(3, 0, True), (5, 2, True), (5, 1, False)])
def test_it_is_at_most_what_the_authors_package_finds(size, seed, same):
    """dsa-metric searches from one start, so that it may end above the minimum; where it does not, both agree."""
    simdist = pytest.importorskip("DSA.simdist")
    generator = torch.Generator().manual_seed(seed)
    one, other = (torch.randn(size, size, generator=generator, dtype=torch.float64) for _ in range(2))
    one, other = one / one.norm(), other / other.norm()  # it compares maps of norm 1
    torch.manual_seed(0)
    theirs = simdist.SimilarityTransformDist(iters=500, lr=0.01, score_method="euclidean")
    theirs.fit(one.float(), other.float())
    found = min(theirs.losses) ** 0.5
    ours = operator_distance(one, other)
    assert ours <= found + 1e-4
    assert (ours == pytest.approx(found, abs=2e-3)) == same


def test_the_same_system_in_other_coordinates_is_found_and_another_is_not():
    """Models whose maps are rotated copies, and one whose maps are drawn anew."""
    draw = torch.Generator().manual_seed(0)

    def modes(operator, basis):
        values, vectors = torch.linalg.eig(operator)
        nothing = torch.zeros(len(basis), dtype=torch.float64)
        return Modes(values, basis.to(vectors) @ vectors, nothing, basis @ operator, basis, nothing)

    def results(operators, noise=0.0):
        found = {}
        for group, operator in operators.items():
            basis = torch.linalg.qr(torch.randn(12, 4, generator=draw, dtype=torch.float64))[0]
            parts = [operator + noise * torch.randn(4, 4, generator=draw, dtype=torch.float64) for _ in range(5)]
            found[group] = [modes(one, basis) for one in (operator, *parts)]
        return found

    def turned(operator):
        turn = torch.linalg.qr(torch.randn(4, 4, generator=draw, dtype=torch.float64))[0]
        return turn @ operator @ turn.T

    maps = {group: torch.randn(4, 4, generator=draw, dtype=torch.float64) for group in ("cls", "patch")}
    others = {group: torch.randn(4, 4, generator=draw, dtype=torch.float64) for group in maps}
    same = same_system(results(maps), results({group: turned(one) for group, one in maps.items()}), 8)
    assert (same.held, round(same.distance.value, 5)) == (True, 0.0)
    assert same.null == pytest.approx(operator_distance(*maps.values()))
    other = same_system(results(maps, 0.01), results(others, 0.01), 8)
    assert other.held is False
    assert other.distance.low < other.distance.value < other.distance.high
    assert same_system({}, {}, 8) is None

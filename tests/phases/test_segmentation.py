"""The exact cut: against exhaustive search, against ruptures, against the published partitions."""

from __future__ import annotations

import pickle
from itertools import combinations

import numpy as np
import pytest
import torch

from raptor import segment, segment_batch
from raptor.benchmarks.phases import cuts_by_ruptures
from raptor.errors import MatrixError, OptionError, PhaseError

PUBLISHED = 1 - np.loadtxt("tests/data/dinov2b_reg_cosine_distance.csv", delimiter=",")


def random_similarity(rng, layers):
    x = np.cumsum(rng.normal(size=(layers, 5)), axis=0) if rng.random() < 0.5 else rng.normal(size=(layers, 5))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x @ x.T


@pytest.mark.parametrize("options", [{}, {"solver": "recursive"}, {"objective": "cut", "solver": "recursive"}])
@pytest.mark.parametrize(("k", "phases"), [(2, "7-5"), (3, "7-3-2"), (4, "4-3-3-2")])
def test_the_published_partitions(k, phases, options):
    assert str(segment(PUBLISHED, k, **options).phases) == phases


@pytest.mark.parametrize(
    ("objective", "min_length", "partitions"),
    [
        ("mean", 1, ["11-1", "10-1-1", "9-1-1-1"]),
        ("mean", 2, ["2-10", "2-2-8", "2-2-2-6"]),
        ("weighted", 1, ["7-5", "7-4-1", "4-3-4-1"]),
        ("cut", 1, ["7-5", "5-4-3", "4-3-3-2"]),
        ("cut", 2, ["7-5", "5-4-3", "4-3-3-2"]),
    ],
)
def test_the_other_objectives_on_the_published_matrix(objective, min_length, partitions):
    found = segment(PUBLISHED, 4, objective, min_length)
    assert [str(found.by_k[k].phases) for k in (2, 3, 4)] == partitions


def test_scores_and_the_near_tie_of_the_published_matrix():
    found = segment(PUBLISHED, 4)
    assert [round(found.by_k[k].score, 4) for k in range(1, 5)] == [0.5286, 0.7280, 0.7995, 0.8468]
    three = segment(PUBLISHED, 3)
    assert str(three.runner_up.phases) == "6-4-2"
    assert three.gap == pytest.approx(0.0002, abs=5e-5)
    assert [str(one.phases) for one in three.near_optimal] == ["7-3-2", "6-4-2"]


def segment_value(block, objective):
    """Value of one segment, straight from the definition; of `cut`, minus the distance inside."""
    n = len(block)
    return {"weighted": block.sum() / n, "mean": block.sum() / n**2, "cut": block.sum() - n**2}[objective]


def score_of(total, k, matrix, objective):
    scale = {"weighted": lambda: total / len(matrix), "mean": lambda: total / k}
    return scale.get(objective, lambda: 1 + total / (1 - matrix).sum())()


@pytest.mark.parametrize(("objective", "matrices"), [("weighted", 500), ("mean", 100), ("cut", 100)])
def test_dynamic_programming_equals_exhaustive_search(objective, matrices):
    rng = np.random.default_rng(0)
    for _ in range(matrices):
        layers, least = int(rng.integers(2, 13)), int(rng.integers(1, 3))
        matrix = random_similarity(rng, layers)
        value = {(a, b): segment_value(matrix[a:b, a:b], objective) for b in range(layers + 1) for a in range(b)}
        found = segment(matrix, layers // least, objective, least)
        for k, (phases, score) in found.by_k.items():
            totals = {}
            for cuts in combinations(range(1, layers), k - 1):
                edges = [*zip((0, *cuts), (*cuts, layers), strict=True)]
                if all(b - a >= least for a, b in edges):
                    totals[cuts] = sum(value[edge] for edge in edges)
            assert score == pytest.approx(score_of(max(totals.values()), k, matrix, objective), abs=1e-9)
            assert score == pytest.approx(score_of(totals[phases.boundaries], k, matrix, objective), abs=1e-9)


def test_the_ranking_equals_that_of_all_partitions():
    rng = np.random.default_rng(1)
    for _ in range(60):
        matrix = random_similarity(rng, int(rng.integers(6, 13)))
        layers, k = len(matrix), int(rng.integers(1, 4))
        scores = {}
        for cuts in combinations(range(1, layers), k - 1):
            edges = [*zip((0, *cuts), (*cuts, layers), strict=True)]
            if all(b - a >= 2 for a, b in edges):
                scores[cuts] = sum(segment_value(matrix[a:b, a:b], "weighted") for a, b in edges) / layers
        order = sorted(scores, key=lambda cuts: -scores[cuts])
        found = segment(matrix, k)
        near = [cuts for cuts in order if scores[cuts] >= scores[order[0]] - 0.005]
        assert [one.phases.boundaries for one in found.near_optimal] == near[:100]
        assert found.near_optimal_truncated == (len(near) > 100)
        if len(order) > 1:
            assert found.runner_up.phases.boundaries == order[1]
            assert found.gap == pytest.approx(scores[order[0]] - scores[order[1]], abs=1e-9)
        assert segment(matrix, k, solver="exhaustive").by_k == found.by_k


@pytest.mark.parametrize(("value", "layers"), [(0.637, 8), (0.6978935706830813, 20), (1.0, 9)])
def test_ties_that_rounding_hides_are_ties(value, layers):
    flat = np.full((layers, layers), value)
    np.fill_diagonal(flat, 1.0)
    found = segment(flat, 2)
    assert found.phases.boundaries == (2,)
    assert found.runner_up.phases.boundaries == (3,)
    assert found.gap == 0
    assert [one.phases.boundaries for one in found.near_optimal] == [(cut,) for cut in range(2, layers - 1)]


@pytest.mark.parametrize(("layers", "least"), [(12, 2), (24, 1), (31, 3), (48, 2)])
def test_dynamic_programming_equals_ruptures(layers, least):
    rng = np.random.default_rng(layers)
    for _ in range(5):
        gram = random_similarity(rng, layers)
        most = min(12, layers // least)
        found = segment(gram, most, min_length=least)
        ours = {k: list(phases.boundaries) for k, (phases, _) in found.by_k.items() if k > 1}
        assert ours == cuts_by_ruptures(gram, most, least)


def test_ties_go_to_the_earliest_boundaries():
    flat = np.ones((6, 6))
    assert str(segment(flat, 3).phases) == "2-2-2"
    assert str(segment(flat, 2, min_length=1).phases) == "1-5"
    assert str(segment(flat, 2, min_length=1, solver="recursive").phases) == "1-5"
    assert str(segment(flat, 2, min_length=1, solver="exhaustive").phases) == "1-5"
    assert [str(one.phases) for one in segment(flat, 2).near_optimal] == ["2-4", "3-3", "4-2"]


def test_a_batch_is_cut_matrix_by_matrix():
    rng = np.random.default_rng(2)
    batch = np.stack([random_similarity(rng, 10) for _ in range(7)])
    together = [one.phases for one in segment_batch(torch.from_numpy(batch), 3)]
    assert together == [segment(matrix, 3).phases for matrix in batch]
    with pytest.warns(FutureWarning, match="segment_batch"):
        assert [one.phases for one in segment(batch, k=3)] == together


def test_a_partition_that_is_alone_has_no_runner_up():
    found = segment(PUBLISHED, 1)
    assert (str(found.phases), found.runner_up, found.gap) == ("12", None, None)


def test_the_list_of_near_optimal_partitions_is_bounded():
    found = segment(np.ones((48, 48)), 6)
    assert (len(found.near_optimal), found.near_optimal_truncated) == (100, True)


def test_a_segmentation_can_be_sent_to_another_process():
    found = segment(PUBLISHED, 3)
    assert pickle.loads(pickle.dumps(found)).near_optimal == found.near_optimal


def test_a_solver_that_is_not_exact_may_have_a_better_runner_up():
    rng = np.random.default_rng(3)
    matrices = [random_similarity(rng, 10) for _ in range(30)]
    gaps = [segment(matrix, 3, solver="recursive").gap for matrix in matrices]
    assert min(gaps) < 0 < max(gaps)
    for matrix, gap in zip(matrices, gaps, strict=True):
        found, best = segment(matrix, 3, solver="recursive"), segment(matrix, 3)
        assert (found.phases == best.phases) == (gap > 0)
        assert best.phases in (found.phases, found.runner_up.phases)


@pytest.mark.parametrize(
    ("matrix", "options", "error", "message"),
    [
        (
            PUBLISHED,
            {"k": 7},
            PhaseError,
            "12 layers cannot be split into 7 phases",
        ),
        (PUBLISHED, {"k": 0}, PhaseError, "at least 1, not 0"),
        (PUBLISHED, {"k": 2, "min_length": 0}, PhaseError, "at least 1, not 2 and 0"),
        (PUBLISHED, {"k": 2, "objective": "best"}, OptionError, "objective 'best' is none of weighted, mean, cut"),
        (PUBLISHED, {"k": 2, "solver": "magic"}, OptionError, "solver 'magic' is none of dp, recursive, exhaustive"),
        (np.ones((48, 48)), {"k": 12, "solver": "exhaustive"}, OptionError, "too many"),
        (np.ones((40, 40)), {"k": 40, "min_length": 1, "solver": "exhaustive"}, OptionError, "too many"),
        (np.ones((1001, 1001)), {"k": 2}, MatrixError, "at most 1000 layers"),
        (PUBLISHED[:5], {"k": 2}, MatrixError, "square"),
        (np.triu(PUBLISHED), {"k": 2}, MatrixError, "symmetric"),
        (np.full((4, 4), np.nan), {"k": 2}, MatrixError, "NaN"),
    ],
)
def test_impossible_requests_are_named(matrix, options, error, message):
    with pytest.raises(error, match=message):
        segment(matrix, **options)


def test_the_recursive_solver_says_where_it_gets_stuck():
    # 3-3 leaves no part that can be split into phases of two.
    matrix = np.kron(np.eye(2), np.ones((3, 3)))
    with pytest.raises(PhaseError, match="solver 'dp'"):
        segment(matrix, 3, solver="recursive")

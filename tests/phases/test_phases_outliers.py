"""Phases with separate outliers: the similarity of each group is that of its tokens alone."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

import raptor
from planted_outliers import PlantedOutliers, numbered, ordinary, patches_of, two_of_each
from raptor.core.deserialize import from_plain
from raptor.core.serialize import to_plain
from raptor.errors import LayoutError, OptionError
from raptor.inspection.outliers import find_outliers
from raptor.phases.find import find_phases
from raptor.phases.options import PhasesOptions
from raptor.phases.result import PhasesResult
from raptor.phases.similarity import layer_similarity
from vits import family, pixels

SEPARATE = PhasesOptions(outliers="separate")


@pytest.fixture(scope="module")
def flow():
    return PlantedOutliers(two_of_each())


def test_similarity_of_each_group_is_that_of_its_tokens_alone(flow):
    found = find_phases(flow, numbered(), options=SEPARATE, progress=False)
    states = raptor.rollout(flow, flow.embed(torch.cat(numbered()))).states
    alone = layer_similarity(patches_of(states, ordinary(two_of_each())))
    np.testing.assert_allclose(found.groups["patch"].similarity, alone.matrix(), atol=1e-6)
    np.testing.assert_allclose(found.groups["patch"].cka, alone.cka(), atol=1e-5)
    norms = states[:, 3, flow.layout.where("patch")].norm(dim=-1)
    outlying = layer_similarity(patches_of(states, norms.argsort(dim=1, descending=True)[:, :2]))
    np.testing.assert_allclose(found.groups["outlier"].similarity, outlying.matrix(), atol=1e-6)
    together = find_phases(flow, numbered(), progress=False)
    assert found.phases == together.phases
    np.testing.assert_array_equal(found.groups["cls"].similarity, together.groups["cls"].similarity)
    np.testing.assert_allclose(found.groups["all"].similarity, together.groups["all"].similarity, atol=1e-12)
    assert "outlier" not in together.groups
    assert "outliers" not in to_plain(together)


def test_the_rule_is_in_the_result_and_in_words(flow):
    found = find_phases(flow, numbered(), options=SEPARATE, progress=False)
    assert (found.outliers.layer, found.outliers.count) == (3, 2)
    assert found.words[-1] == str(found.outliers)
    assert from_plain(PhasesResult, to_plain(found)).outliers == found.outliers


def test_outliers_can_be_partitioned_and_compared_by_function(flow):
    options = PhasesOptions(outliers="separate", group="outlier", by="function")
    found = find_phases(flow, numbered(), options=options, progress=False)
    assert found.group == "outlier"
    assert "outlier" in found.function.update_cosine


def test_fits_report_the_group(monkeypatch):
    monkeypatch.setattr("raptor.inspection.separate.find_outliers", partial(find_outliers, factor=1.05))
    model, images = raptor.load_model(family("vit").build()), [pixels(32, 32, batch=4, seed=seed) for seed in (0, 1)]
    options = PhasesOptions(outliers="separate", by="fit", min_length=1)
    found = find_phases(model, images, options=options, progress=False)
    assert list(found.fit.surrogate["r2"].mean) == ["cls", "outlier", "patch", "all"]


def test_without_outliers_there_is_no_such_group(caplog):
    found = find_phases(PlantedOutliers([]), numbered(), options=SEPARATE, progress=False)
    assert "no massive activations" in caplog.text
    assert found.outliers is None
    assert "outlier" not in found.groups
    with pytest.raises(LayoutError, match="'outlier'"):
        find_phases(PlantedOutliers([]), numbered(), options=PhasesOptions(outliers="separate", group="outlier"))


def test_a_matrix_has_no_outliers(call, tmp_path):
    with pytest.raises(OptionError, match="a model and images"):
        find_phases(np.eye(6), options=SEPARATE)
    with pytest.raises(OptionError, match="'apart'"):
        PhasesOptions(outliers="apart")
    file = tmp_path / "matrix.csv"
    np.savetxt(file, np.eye(6), delimiter=",")
    code, _, error = call("phases", "--matrix", file, "--outliers", "separate")
    assert code != 0
    assert "--outliers" in error

"""A task that somebody registers appears in result.json, in the terminal, on the page, and in Table 1."""

from __future__ import annotations

import json
from unittest import mock

import pytest
from torch import nn

from probed import scenes, small_vit
from raptor.errors import OptionError
from raptor.probes.options import ProbeOptions
from raptor.probes.run import probe
from raptor.probes.table1 import columns_of_table
from raptor.probes.task import TASKS, HeadTraining, Metric, Task, small_linear, task
from raptor.reporting.collect import collect
from raptor.reporting.page import render

QUICK = ("--images", 16, "--eval-images", 16, "--epochs", 1, "--seeds", 1, "--lrs", "1e-2", "--device", "cpu")


class Pooled(nn.Module):
    def __init__(self, width, start):
        super().__init__()
        self.linear, self.start = small_linear(width, 1), start

    def forward(self, features):
        return self.start + self.linear(features.pooled)[:, 0]


class Distance(Task):
    """Mean depth of an image."""

    name, target = "distance", "depth"
    reads = frozenset({"cls", "mean"})
    metrics = (Metric("rmse", "distance error", ".5f", higher_is_better=False),)
    training = HeadTraining(epochs=20, batch_size=32, lrs=(1e-3, 1e-2))

    def __init__(self, mean):
        self.mean = mean

    @classmethod
    def from_targets(cls, targets):
        return cls(targets.depths.mean)

    def truth(self, features):
        return features.depth.mean(dim=(1, 2))

    def head(self, like):
        return Pooled(like.pooled.shape[1], self.mean)

    def constant(self, like):
        return like.mean.new_full((len(like),), self.mean)

    def loss(self, prediction, truth):
        return nn.functional.mse_loss(prediction, truth)

    def scores(self, prediction, truth):
        return (prediction - truth).square()[:, None]

    def summary(self, mean):
        return {"rmse": mean[..., 0].sqrt()}


@pytest.fixture
def registered():
    with mock.patch.dict(TASKS):
        yield task("distance", needs="depths")(Distance)


def page_of(folder):
    subjects = collect([folder])
    page = render(subjects)
    assert [subject.missing for subject in subjects] == [[]]
    return page


def test_it_is_in_json_terminal_and_page(call, tmp_path, registered):
    code, out, err = call("probe", "scenes", *QUICK, "--out", tmp_path / "run")
    assert code == 0, err
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["task"] == "classify,segment,depth,distance"
    rmse = result["tasks"]["distance"]["rmse"]
    page = page_of(tmp_path / "run")
    assert 'data-key="tasks/distance/heads/fine-tuned/rmse"' in page
    for text in (out, page):
        assert "distance error" in text
        assert f"{rmse:.5f}" in text
        assert "linear probe" in text


def test_a_page_of_a_run_whose_task_nobody_knows_still_has_the_table(call, tmp_path):
    with mock.patch.dict(TASKS):
        task("distance", needs="depths")(Distance)
        code, _, err = call("probe", "scenes", "--task", "distance", *QUICK, "--out", tmp_path / "run", "--quiet")
    assert code == 0, err
    assert "distance" not in TASKS
    assert 'data-key="heads/fine-tuned/rmse"' in page_of(tmp_path / "run")


def test_it_is_a_column_of_table1(call, registered):
    assert columns_of_table()["distance_rmse"] == ("distance", Distance.metrics[0])
    code, out, err = call("table1", "scenes", "--surrogates", "scenes:k3", *QUICK, "--json")
    assert code == 0, err
    teacher, surrogate = json.loads(out)["rows"]
    ratio = teacher["distance_rmse"] / surrogate["distance_rmse"]
    assert surrogate["recovered"]["distance_rmse"]["value"] == pytest.approx(ratio)
    assert surrogate["rmse"] == surrogate["tasks"]["depth"]["rmse"]


def test_from_python_it_needs_no_registration():
    teacher = small_vit()
    sets = [scenes(teacher, split, 16) for split in ("train", "validation", "test")]
    found = probe(teacher, *sets, tasks=[Distance(2.0)], options=ProbeOptions(seeds=[0], epochs=1))["distance"]
    assert "distance error" in found._repr_html_()
    with pytest.raises(OptionError, match="'distance'"):
        probe(teacher, *sets, tasks=["distance"])


def test_the_order_of_tasks_does_not_depend_on_imports():
    with mock.patch.dict(TASKS, clear=True):
        for name, order in (("c", 3), ("z", 100), ("a", 1), ("y", 100)):
            task(name, needs="labels", order=order)(type(name, (Distance,), {}))
        assert list(TASKS) == ["a", "c", "z", "y"]


def test_needs_that_nothing_has_are_refused():
    with pytest.raises(ValueError, match="'flow'; targets have labels, masks, depths"):
        task("motion", needs="flow")


def test_metrics_as_names_still_work():
    with pytest.warns(FutureWarning, match="use Metric"):

        class Old(Distance):
            metrics, best = ("rmse",), ("rmse", -1.0)

    assert (Old.headline().name, Old.headline().higher_is_better, Old.best) == ("rmse", False, "rmse")


def test_a_task_that_cannot_be_built_is_refused_when_it_is_registered():
    class Unbuilt(Distance):
        from_targets = Task.from_targets

    with mock.patch.dict(TASKS), pytest.raises(TypeError, match="Unbuilt"):
        task("unbuilt", needs="depths")(Unbuilt)

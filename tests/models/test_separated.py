"""Separated outliers: the order of tokens against the rule in plain Python, and the same function as before."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import raptor
from planted_outliers import PlantedOutliers, numbered, two_of_each
from raptor.core.flow import ReorderedFlow, last_state
from raptor.core.tokens import TokenLayout
from raptor.errors import LayoutError
from raptor.film.film import depth_film
from raptor.models.load import load_model
from raptor.models.separated import OutlierOrder, SeparatedOutliers, places_by_norm, unseparated
from vits import FAMILIES, pixels


@given(st.lists(st.integers(0, 5), min_size=2, max_size=9), st.data())
def test_outliers_come_first_and_the_others_keep_their_places(norms, data):
    n, count = len(norms), data.draw(st.integers(1, len(norms) - 1))
    found = places_by_norm(torch.tensor([norms], dtype=torch.float32), count)[0].tolist()
    outliers = sorted(range(n), key=lambda patch: -norms[patch])[:count]  # stable: ties in the order of patches
    assert found[:count] == outliers
    spare = [patch for patch in range(n - count, n) if patch not in outliers]
    assert found[count:] == [spare.pop(0) if place in outliers else place for place in range(n - count)]


@pytest.mark.parametrize("case", FAMILIES, ids=lambda case: case.name)
def test_a_separated_model_is_the_same_function(case):
    """Of every family, also of those whose blocks depend on positions."""
    teacher, images = load_model(case.build()), pixels(32, 32, batch=3)
    order = OutlierOrder(teacher, 2, 3)
    separated = SeparatedOutliers(teacher, order)
    assert separated.layout.counts == {**case.prefix, "outlier": 3, "patch": 13}
    with torch.no_grad():
        truth, found = (raptor.rollout(flow, flow.embed(images)) for flow in (teacher, separated))
        for layer in range(teacher.depth + 1):
            assert torch.equal(order.restored(found.at(layer)), truth.at(layer))
        assert torch.equal(order.restored(separated.readout(found.at(3))), teacher.readout(truth.at(3)))
        norms = truth.at(2)[:, teacher.layout.where("patch")].norm(dim=-1)
    outliers = found.at(2)[:, separated.layout.where("outlier")].norm(dim=-1)
    torch.testing.assert_close(outliers, norms.sort(dim=1, descending=True).values[:, :3])
    for group in case.prefix:
        assert torch.equal(found.states[:, :, separated.layout.where(group)], truth.group(group))


def test_copies_of_images_keep_their_order_and_other_states_are_refused():
    flow = PlantedOutliers(two_of_each())
    separated = SeparatedOutliers(flow, OutlierOrder(flow, 3, 2))
    first, second, _ = numbered()
    with pytest.raises(LayoutError, match="0 images"):
        separated.step(flow.embed(first), 0)
    tokens = separated.embed(first)
    once, twice = separated.step(tokens, 0), separated.step(tokens.repeat_interleave(2, dim=0), 0)
    assert torch.equal(twice, once.repeat_interleave(2, dim=0))
    with pytest.raises(LayoutError, match="5 images"):
        separated.step(tokens[:3], 0)
    assert not torch.equal(separated.embed(second), separated.order.restored(separated.embed(second)))


def test_flows_with_one_order_have_the_outliers_of_the_one_that_decides():
    teacher, other = PlantedOutliers(two_of_each()), PlantedOutliers([], seed=1)
    order = OutlierOrder(teacher, 3, 2)
    (images,) = numbered(12)
    states = [SeparatedOutliers(flow, order).embed(images) for flow in (teacher, other)]
    assert torch.equal(*states)


def test_the_head_gives_the_same_logits():
    torch.manual_seed(0)
    teacher = load_model("scenes")
    images = pixels(*teacher.image_size, batch=2)
    separated = SeparatedOutliers(teacher, OutlierOrder(teacher, 4, 5))
    with torch.no_grad():
        ends = [last_state(flow, flow.embed(images)) for flow in (teacher, separated)]
        assert torch.equal(teacher.head(ends[0]), separated.head(ends[1]))
    assert SeparatedOutliers(PlantedOutliers([]), separated.order).head is None


def test_the_original_flow_comes_back():
    flow = PlantedOutliers([])
    separated = SeparatedOutliers(flow, OutlierOrder(flow, 3, 2))
    assert unseparated(separated) is flow
    assert unseparated(flow) is flow
    plain, longer = ReorderedFlow(flow, [0, 0, 1]), unseparated(ReorderedFlow(separated, [0, 0, 1]))
    assert unseparated(plain) is plain
    assert (longer.flow, longer.order) == (flow, (0, 0, 1))


def test_what_needs_the_whole_grid_says_so():
    layout = TokenLayout(1, 2, (4, 4), n_outlier=3)
    assert (layout.n_patch, layout.n_tokens, layout.where("outlier"), layout.where("patch")) == (
        13, 19, slice(3, 6), slice(6, 19),
    )  # fmt: skip
    with pytest.raises(LayoutError, match="no full grid"):
        _ = layout.full_grid
    assert TokenLayout(1, 2, (4, 4)).full_grid == (4, 4)
    for wrong in (-1, 16):
        with pytest.raises(LayoutError, match="outliers"):
            TokenLayout(1, 2, (4, 4), n_outlier=wrong)
    flow = PlantedOutliers([])
    with pytest.raises(LayoutError, match="no full grid"):
        depth_film({"toy": SeparatedOutliers(flow, OutlierOrder(flow, 3, 2))}, numbered()[0])

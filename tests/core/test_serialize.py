"""Results as JSON and back."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

import numpy as np
import pytest
import torch

from raptor.core.deserialize import from_plain
from raptor.core.estimate import Estimate, LayerEstimates
from raptor.core.json_values import ResultFormatError
from raptor.core.phases import Phases
from raptor.core.serialize import Key, key, to_json, to_plain

R = TypeVar("R")


@dataclass(frozen=True)
class Inner:
    score: float
    phases: Phases
    best: Estimate[float] | None = None


@dataclass(frozen=True)
class Outer:
    top1: Estimate[float]
    mean: Annotated[Estimate[list[float]], Key(ci="ci")]
    norm: LayerEstimates
    by_k: dict[int, Inner]
    recovered: Annotated[dict[str, Estimate[float]], Key(split=False)]
    heads: dict[str, dict[str, Estimate[float]]]
    matrix: np.ndarray
    values: tuple[complex, ...]
    array: object = key(default=None, skip=True)
    inner: Inner | None = key(default=None, inline=True)
    curves: dict[str, LayerEstimates] = key(default=None, inline=True)
    note: str | None = key(default=None, omit_none=True)


def outer() -> Outer:
    curve = LayerEstimates({"cls": [1.0, 2.0]}, {"cls": [0.5, 1.5]}, {"cls": [1.5, 2.5]})
    return Outer(
        top1=Estimate(0.5, 0.4, 0.6),
        mean=Estimate([1.0, 2.0], [0.0, 1.0], [2.0, 3.0]),
        norm=curve,
        by_k={1: Inner(0.25, Phases((3,))), 2: Inner(0.75, Phases((2, 1)), Estimate(1.0, 0.9, 1.1))},
        recovered={"top1": Estimate(0.9, 0.8, 1.0)},
        heads={"own": {"top1": Estimate(0.7, 0.6, 0.8)}},
        matrix=np.eye(2),
        values=(1 + 2j, 3 - 1j),
        array=torch.ones(3),
        inner=Inner(2.0, Phases((1, 2))),
        curves={"speed": curve, "gamma": curve},
    )


PLAIN = {
    "top1": 0.5, "top1_ci": [0.4, 0.6], "mean": [1.0, 2.0], "ci": [[0.0, 1.0], [2.0, 3.0]],
    "norm": {"cls": [1.0, 2.0]}, "norm_ci": {"cls": [[0.5, 1.5], [1.5, 2.5]]},
    "by_k": {
        "1": {"score": 0.25, "phases": "3", "best": None, "best_ci": None},
        "2": {"score": 0.75, "phases": "2-1", "best": 1.0, "best_ci": [0.9, 1.1]},
    },
    "recovered": {"top1": {"value": 0.9, "ci": [0.8, 1.0]}},
    "heads": {"own": {"top1": 0.7}}, "heads_ci": {"own": {"top1": [0.6, 0.8]}},
    "matrix": [[1.0, 0.0], [0.0, 1.0]], "values": [[1.0, 2.0], [3.0, -1.0]],
    "score": 2.0, "phases": "1-2", "best": None, "best_ci": None,
    "speed": {"cls": [1.0, 2.0]}, "speed_ci": {"cls": [[0.5, 1.5], [1.5, 2.5]]},
    "gamma": {"cls": [1.0, 2.0]}, "gamma_ci": {"cls": [[0.5, 1.5], [1.5, 2.5]]},
}  # fmt: skip


def test_a_result_becomes_the_keys_of_the_contract():
    assert to_plain(outer()) == PLAIN


def test_reading_back_gives_the_same_result():
    read = from_plain(Outer, json.loads(to_json(outer())))
    assert to_plain(read) == PLAIN
    assert read.by_k == outer().by_k
    assert read.curves["speed"].at("cls", 1) == Estimate(2.0, 1.5, 2.5)
    assert read.array is None


def test_numbers_that_are_not_finite_are_null_and_come_back_as_nan():
    assert to_plain(Inner(math.nan, Phases((1,))))["score"] is None
    assert math.isnan(from_plain(Inner, {"score": None, "phases": "1"}).score)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"score": "high"}, "score"),
        ({"score": True}, "score"),
        ({"phases": 3}, "phases"),
        ({"best": 1.0, "best_ci": [1.0]}, "best"),
        ({"best": {"a": 1}}, "best"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_its_key(change, named):
    with pytest.raises(ResultFormatError, match=named):
        from_plain(Inner, {"score": 1.0, "phases": "2-1", **change})


def test_a_missing_key_is_named():
    with pytest.raises(ResultFormatError, match="phases is missing"):
        from_plain(Inner, {"score": 1.0})
    with pytest.raises(ResultFormatError, match="by_k/2/phases is missing"):
        from_plain(Outer, PLAIN | {"by_k": {"2": {"score": 1.0}}})


@dataclass(frozen=True)
class Wrapped(Generic[R]):
    verb: str
    result: Annotated[R, Key(inline=True)]
    about: dict[str, str | None] = key(default=None, inline=True)


def test_a_generic_wrapper_reads_its_inner_result_and_what_is_left():
    plain = to_plain(Wrapped("phases", Inner(1.0, Phases((2,))), {"model": "scenes", "data": None}))
    assert plain == {
        "verb": "phases", "score": 1.0, "phases": "2", "best": None, "best_ci": None, "model": "scenes", "data": None,
    }  # fmt: skip
    read = from_plain(Wrapped[Inner], plain)
    assert read == Wrapped("phases", Inner(1.0, Phases((2,))), {"model": "scenes", "data": None})

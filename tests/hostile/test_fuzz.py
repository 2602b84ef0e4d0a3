"""Parsers given anything: what is valid comes back, everything else is a named error, in the suite and at length."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parsers import PARSERS, SEEDS, check

# Pieces that the parsers know, from which texts are put together that nearly are something.
PIECES = {
    "phases": ["-", "0", "1", "7", "12", "99999", " ", "--", "٣", "²", "+", "e", "\n", "\0", "0x1", "1_0"],
    "matrices": [",", "\n", "\r", "1", "0", "0.5", "-1", "nan", "inf", "1e999", "1_0", " ", "\t", "\ufeff", "\0", "x",
                 ";", "٣", "'"],
    "models": ["scenes", ":", "k2", "stitch:", "@", "3", "²", "timm:", "dinov2:", "vits14", "_reg", "/", "..", ".",
               "a", "-", "~", "\0", "\n", "\udcff", "hf-hub:", "%", "x" * 100],
    "data": ["scenes", ":", "train", "test", "validation", "held-out", "/", "..", "*", "?", "[", "]", "**", ".parquet",
             ".mat", "a", " ", "\0", "\n", "\udcff", "csv", "parquet", "imagefolder", "x" * 100],
    "options": [",", "x", "1", "0", "224", "-", "+", ".", "e", "e9", "nan", "inf", "auto", " ", "_", "٣", "²", "\n",
                "9" * 400, "\0"],
}  # fmt: skip


def texts(name: str) -> st.SearchStrategy[str]:
    """Anything at all, pieces put together, and valid texts with something put into them."""
    anything = st.text(st.characters(codec=None), max_size=40)
    pieces = st.lists(st.sampled_from(PIECES[name]) | st.text(max_size=2), max_size=12).map("".join)
    seeds = st.sampled_from(SEEDS[name])
    changed = st.builds(
        lambda seed, at, cut, put: seed[: at % (len(seed) + 1)] + put + seed[at % (len(seed) + 1) + cut :],
        seeds, st.integers(0, 40), st.integers(0, 3), st.sampled_from(PIECES[name]) | st.text(max_size=3),
    )  # fmt: skip
    return st.one_of(pieces, changed, anything)


def cosines(size: int, seed: int) -> str:
    """A matrix that is one of cosines, as a file."""
    import numpy as np

    states = np.random.default_rng(seed).normal(size=(size, 4))
    states /= np.linalg.norm(states, axis=1, keepdims=True)
    matrix = states @ states.T
    np.fill_diagonal(matrix, 1.0)
    return "\n".join(",".join(map(repr, row)) for row in ((matrix + matrix.T) / 2).clip(-1, 1).tolist())


VALID = {
    "phases": st.lists(st.integers(1, 9999), min_size=1, max_size=50).map(lambda some: "-".join(map(str, some))),
    "matrices": st.builds(cosines, st.integers(2, 12), st.integers(0, 10_000)),
    "models": st.sampled_from(["scenes", "scenes:k2", "scenes:k3", "stitch:scenes:k2@0", "stitch:scenes:k3@12"]),
    "data": st.builds(
        lambda split: "scenes" + split, st.sampled_from(["", ":train", ":val", ":TEST", ":validation", ":held-out"])
    ),
    "options": st.lists(st.integers(1, 10**6), min_size=1, max_size=20).map(lambda some: ",".join(map(str, some)))
    | st.lists(st.floats(allow_nan=True), min_size=1, max_size=9).map(lambda some: ",".join(map(repr, some)))
    | st.builds(lambda h, w: f"{h}x{w}", st.integers(1, 99_999), st.integers(1, 99_999)),
}


def fuzz(name: str, examples: int) -> tuple[int, int]:
    """Give a parser as many texts; return how many there were, and how many of them were valid."""
    seen = [0, 0]

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), database=None)
    @given(texts(name))
    def anything(text):
        seen[0] += 1
        seen[1] += check(name, text)

    @settings(max_examples=max(5, examples // 100), suppress_health_check=list(HealthCheck), database=None)
    @given(VALID[name])
    def valid(text):
        seen[0] += 1
        seen[1] += 1
        assert check(name, text), text

    anything()
    valid()
    return seen[0], seen[1]


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize("examples", [200, pytest.param(20_000, marks=pytest.mark.long)])
def test_a_parser_takes_what_is_valid_and_refuses_the_rest(name, examples):
    seen, valid = fuzz(name, examples)
    print(f"{name}: {seen:,} texts, {valid:,} of them valid")  # with -s
    assert seen >= examples
    assert valid >= math.ceil(examples / 1000)


@pytest.mark.long
@pytest.mark.parametrize("name", PARSERS)
def test_coverage_guides_to_no_text_that_fails(name):
    pytest.importorskip("atheris")
    tool = Path(__file__).parents[2] / "tools" / "fuzz.py"
    done = subprocess.run([sys.executable, tool, name], capture_output=True, text=True, check=False)
    print(done.stdout)  # with -s
    assert done.returncode == 0, done.stderr

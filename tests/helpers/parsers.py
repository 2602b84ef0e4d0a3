"""Parsers of what users write, each as a function of one text that fails where the parser does not keep its promise.

A text is valid, and then it comes back from what was made of it; or it is not, and that is one of the named errors.
Anything else, an exception of any other kind above all, is a failure.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from raptor.core.options import parse_counts, parse_numbers
from raptor.core.phases import Phases
from raptor.core.preprocessing import Preprocessing
from raptor.data.load import load_images, parse_source
from raptor.errors import RaptorError
from raptor.models.load import load_model
from raptor.phases.matrix import as_matrices, check_cosines, read_matrix
from raptor.phases.options import parse_k
from raptor.runtime.options import parse_size

PLAIN = Preprocessing((8, 8), None)


def check_phases(text: str) -> None:
    """Lengths such as 7-3-2."""
    phases = Phases.parse(text)
    assert Phases.parse(str(phases)) == phases
    assert Phases.from_boundaries(phases.boundaries, phases.depth) == phases
    assert [layer for layers in phases.ranges for layer in layers] == list(range(1, phases.depth + 1))


@cache
def folder() -> Path:
    """An empty directory that everything happens in."""
    made = Path(tempfile.mkdtemp(prefix="parsers-"))
    (made / "empty").mkdir()
    return made


def check_matrix(text: str) -> None:
    """Numbers separated by commas, as `phases --matrix` reads them."""
    file = folder() / "matrix.csv"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))  # what is no UTF-8 is a file too
    found = read_matrix(file)
    written = "\n".join(",".join(map(repr, row)) for row in found.tolist())
    file.write_text(written)
    assert np.array_equal(read_matrix(file), found, equal_nan=True)
    (matrix,) = as_matrices(found)
    assert np.array_equal(matrix, matrix.T)
    assert np.abs(np.diagonal(check_cosines(matrix)) - 1).max() < 1e-2


def _here(make: Callable[[], None]) -> None:
    """Do something where no path leads to a model or to images by chance."""
    before = os.getcwd()
    os.chdir(folder() / "empty")
    try:
        make()
    finally:
        os.chdir(before)


@cache
def _name_of(text: str) -> str:
    return load_model(text).name


def check_model(text: str) -> None:
    """MODEL: scenes, a hub id, timm:NAME, dinov2:ARCH, stitch:SURROGATE@LAYER, a directory."""

    def make() -> None:
        assert _name_of(text) == text

    _here(make)


def check_data(text: str) -> None:
    """DATA or DATA:SPLIT."""
    source, split = parse_source(text)
    assert text == (source if split is None else f"{source}:{split}")
    if not text.startswith("/") and ".." not in text:  # which would be searched for images, however large
        _here(lambda: _load(text))


def _load(text: str) -> None:
    assert len(load_images(text, PLAIN, images=1)) == 1


def check_options(text: str) -> None:
    """Lists of numbers, image sizes, numbers of phases: a text that is none of them is refused by each."""
    errors = []
    for parse, show in (
        (lambda: parse_counts(text, "--k"), lambda found: ",".join(map(str, found))),
        (lambda: parse_numbers(text, "--lrs"), lambda found: ",".join(map(repr, found))),
        (lambda: parse_size(text), lambda found: "x".join(map(str, found))),
        (lambda: parse_k(text), str),
    ):
        try:
            found = parse()
        except RaptorError as error:
            errors.append(error)
        else:
            _comes_back(found, show(found))
    if len(errors) == 4:
        raise errors[0]


def _comes_back(found: object, text: str) -> None:
    for parse in (
        lambda: parse_counts(text, "--k"),
        lambda: parse_numbers(text, "--lrs"),
        lambda: parse_size(text),
        lambda: parse_k(text),
    ):
        try:
            if repr(parse()) == repr(found):  # which not-a-number equals too
                return
        except RaptorError:
            continue
    raise AssertionError(f"{found!r} does not come back from {text!r}")


PARSERS: dict[str, Callable[[str], None]] = {
    "phases": check_phases,
    "matrices": check_matrix,
    "models": check_model,
    "data": check_data,
    "options": check_options,
}

# Valid texts to begin from.
SEEDS = {
    "phases": ["7-3-2", "1", "12", "4-3-3-2", "9999-1", "0007-3"],
    "matrices": ["1,0.5\n0.5,1\n", "1,0.9,0.8\n0.9,1,0.9\n0.8,0.9,1", "\ufeff1,0\r\n0,1", "1,-1\n-1,1"],
    "models": ["scenes", "scenes:k2", "stitch:scenes:k2@3", "timm:vit_x", "dinov2:vitb14_reg", "facebook/dinov2-base",
               "./a/b"],
    "data": ["scenes", "scenes:train", "scenes:validation", "photos/:train", "some/set:test", "a*.parquet", "x.mat",
             "C:/x"],
    "options": ["2,3,4", "1e-4,1e-3", "224", "480x640", "auto", "3", "nan", "1e400"],
}  # fmt: skip


def check(name: str, text: str) -> bool:
    """Give a text to a parser; return whether it was valid."""
    try:
        PARSERS[name](text)
    except RaptorError as error:
        told = str(error)
        assert told.strip(), "an error without words"
        assert len(told) < 20_000 + 2 * len(text), "an error that is longer than what was given"
        return False
    return True

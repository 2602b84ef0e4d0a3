"""Checks of untrusted model files, before a library builds anything from them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

from raptor.errors import UnsupportedModelError, WeightsError
from raptor.runtime.files import read_json
from raptor.runtime.optional_imports import import_transformers

# Attention implementations of torch; transformers might download and run code for any other name.
ATTENTION = (None, "eager", "sdpa")
# Limits that are larger than in any ViT; without them, a library would allocate any size in the file.
MOST = {"num_hidden_layers": 1000, "depth": 1000, "image_size": 10_000, "num_labels": 1_000_000}
MOST_OF_ALL = 100_000_000
INDICES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")


def check_config(found: Any, source: str) -> None:
    """Raise an UnsupportedModelError if a configuration requests code, or sizes beyond any real model."""
    for key, value in _entries(found):
        if key.removeprefix("_") in ("attn_implementation", "experts_implementation") and value not in ATTENTION:
            raise UnsupportedModelError(
                f"the config.json of {source!r} has {key} = {str(value)[:100]!r}, which may download and run code; "
                "only eager and sdpa are supported"
            )
        most = MOST.get(key, MOST_OF_ALL)
        if isinstance(value, (int, float)) and abs(value) > most:
            raise UnsupportedModelError(
                f"the config.json of {source!r} has {key} = {str(value)[:100]}, more than the limit of {most:,}"
            )


def _entries(found: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value with its key, at any depth."""
    yield key, found if isinstance(found, (str, int, float, type(None))) else ""
    for inner, value in found.items() if isinstance(found, dict) else ():
        if inner != "provenance":  # of a surrogate; nothing is built from it
            yield from _entries(value, str(inner))
    for value in found if isinstance(found, list) else ():
        yield from _entries(value, key)


def check_shards(source: str, local: bool) -> None:
    """Raise a WeightsError if the index of a checkpoint names a file outside its folder."""
    quiet = {"_raise_exceptions_for_missing_entries": False, "_raise_exceptions_for_connection_errors": False}
    for name in INDICES:
        path = import_transformers().utils.cached_file(source, name, local_files_only=local, **quiet)
        if not path:
            continue
        try:
            files = set(read_json(Path(path))["weight_map"].values())
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise WeightsError(f"the {name} of {source!r} is invalid: it does not list weight files") from error
        for file in files:
            if not isinstance(file, str) or os.path.isabs(file) or ".." in PurePath(file).parts:
                raise WeightsError(
                    f"the {name} of {source!r} names the file {str(file)[:200]!r}, which is outside its folder"
                )

"""What a model's own files may say, checked before a library builds anything from them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

from raptor.errors import UnsupportedModelError, WeightsError
from raptor.files import read_json
from raptor.hub import import_transformers

# Attention that comes with torch; any other name may be that of code, which transformers would fetch and run.
ATTENTION = (None, "eager", "sdpa")
# More than any ViT has: a library would count up to whatever is written there.
MOST = {"num_hidden_layers": 1000, "depth": 1000, "image_size": 10_000, "num_labels": 1_000_000}
MOST_OF_ALL = 100_000_000
INDICES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")


def check_config(found: Any, source: str) -> None:
    """Raise where a configuration asks for code, or for a model that no machine can hold."""
    for key, value in _entries(found):
        if key.removeprefix("_") in ("attn_implementation", "experts_implementation") and value not in ATTENTION:
            raise UnsupportedModelError(
                f"the config.json of {source!r} asks for the {key} {str(value)[:100]!r}, which may be code that is "
                "fetched and run; eager and sdpa are taken: correct or remove it"
            )
        most = MOST.get(key, MOST_OF_ALL)
        if isinstance(value, (int, float)) and abs(value) > most:
            raise UnsupportedModelError(
                f"the config.json of {source!r} describes no model: {key} is {str(value)[:100]}, more than {most:,}"
            )


def _entries(found: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value with the key that it stands under, at any depth."""
    yield key, found if isinstance(found, (str, int, float, type(None))) else ""
    for inner, value in found.items() if isinstance(found, dict) else ():
        if inner != "provenance":  # of a surrogate: what it was measured to be, which nothing is built from
            yield from _entries(value, str(inner))
    for value in found if isinstance(found, list) else ():
        yield from _entries(value, key)


def check_shards(source: str, local: bool) -> None:
    """Raise where the list of a checkpoint's files names one that lies elsewhere."""
    quiet = {"_raise_exceptions_for_missing_entries": False, "_raise_exceptions_for_connection_errors": False}
    for name in INDICES:
        path = import_transformers().utils.cached_file(source, name, local_files_only=local, **quiet)
        if not path:
            continue
        try:
            files = set(read_json(Path(path))["weight_map"].values())
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise WeightsError(f"the {name} of {source!r} cannot be used; it lists no files of weights") from error
        for file in files:
            if not isinstance(file, str) or os.path.isabs(file) or ".." in PurePath(file).parts:
                raise WeightsError(
                    f"the {name} of {source!r} names the file {str(file)[:200]!r}; files of weights lie beside it"
                )

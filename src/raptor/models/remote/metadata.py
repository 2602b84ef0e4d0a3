"""Metadata of a model card, in the form that the hub reads: licence, base model, data sets, evaluation results."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raptor.errors import OptionError
from raptor.runtime.optional_imports import HUB_ID, import_transformers

TASK = "image-feature-extraction"
TIMM = "timm:"
UNKNOWN = "unknown"  # licence of a teacher that does not say its own; the hub knows this word
LICENCE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,63}")


@dataclass(frozen=True)
class Score:
    """One evaluation result.

    Parameters
    ----------
    kind, name, value
        Kind of the metric, such as `accuracy`; its name for a reader; its value.
    task
        Task on the hub.
    """

    kind: str
    name: str
    value: float
    task: str = TASK


def front_matter(
    name: str, library: str, licence: str, teacher: str, data: Sequence[str], evaluated: str, scores: Sequence[Score]
) -> str:
    """Return the YAML at the top of a model card, between its lines `---`.

    Parameters
    ----------
    name, library
        Name of the model, and the library that loads it.
    licence
        Identifier of the licence.
    teacher
        Source of the teacher: `base_model` where the hub has it.
    data
        Sources of the training images; those on the hub are named.
    evaluated, scores
        Source of the evaluation images, and the results.
    """
    from huggingface_hub import EvalResult, ModelCardData

    results = [
        EvalResult(
            task_type=score.task, dataset_name=evaluated, dataset_type=hub_dataset(evaluated) or "local",
            metric_type=score.kind, metric_name=score.name, metric_value=score.value,
        )
        for score in scores
    ]  # fmt: skip
    card = ModelCardData(
        base_model=hub_model(teacher),
        datasets=[found for found in map(hub_dataset, data) if found] or None,
        eval_results=results or None,
        library_name=library,
        license=licence,
        model_name=name,
        pipeline_tag=TASK,
        tags=["vision", "block-recurrent", "weight-tying"],
    )
    return f"---\n{card.to_yaml()}\n---\n"


def check_licence(licence: str) -> str:
    """Return a licence; raise an OptionError if it is not an identifier as the hub has them."""
    if not LICENCE.fullmatch(licence):
        raise OptionError(f"licence {licence!r} is not an identifier of the hub, such as apache-2.0, mit or cc-by-4.0")
    return licence


def licence_of(source: str) -> str:
    """Return the licence that a transformers model's card states, or that timm knows; `unknown` without one.

    Only local files are read: the model's directory, or the cache of the hub.
    """
    from huggingface_hub import ModelCard

    if source.startswith(TIMM):
        return _valid(getattr(_timm_config(source), "license", None))
    if not os.path.isdir(source) and not HUB_ID.fullmatch(source):
        return UNKNOWN
    quiet = {"_raise_exceptions_for_missing_entries": False, "_raise_exceptions_for_connection_errors": False}
    path = import_transformers().utils.cached_file(source, "README.md", local_files_only=True, **quiet)
    try:
        data: Any = (
            ModelCard(Path(path).read_text(encoding="utf-8"), ignore_metadata_errors=True).data if path else None
        )
    except Exception:  # of a card that is not YAML, whatever the parser raises
        return UNKNOWN
    return _valid(getattr(data, "license", None))


def _valid(licence: object) -> str:
    """Return a licence, `unknown` if it is not an identifier."""
    found = str(licence or UNKNOWN)
    return found if LICENCE.fullmatch(found) else UNKNOWN


def _timm_config(source: str) -> Any:
    """Return what timm knows of the weights of `timm:NAME`; None where it cannot be imported or knows none."""
    try:
        import timm

        return timm.get_pretrained_cfg(source.removeprefix(TIMM))
    except Exception:  # of an installation that is broken, whatever it raises
        return None


def hub_model(source: str) -> str | None:
    """Return the hub id of a model that was loaded from the hub, or None.

    A name of timm without a tag, such as `timm:vit_tiny_patch16_224`, has the id of its default weights.
    """
    if source.startswith(TIMM):
        known = getattr(_timm_config(source), "hf_hub_id", None)
        source = known or (source.replace(TIMM, "timm/", 1) if "." in source else "")
    return source if "/" in source and HUB_ID.fullmatch(source) and not os.path.exists(source) else None


def hub_dataset(source: str) -> str | None:
    """Return the hub id of a data set `ID[:SPLIT]`, or None."""
    name = source.split(":")[0]
    return name if "/" in name and HUB_ID.fullmatch(name) and not os.path.exists(name) else None

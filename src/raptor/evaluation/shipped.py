"""Nulls of the bundled surrogates: measured before, because they take longer than a demo may."""

from __future__ import annotations

import json
from dataclasses import replace

from raptor.core.deserialize import from_plain
from raptor.evaluation.evaluate import FidelityResult
from raptor.evaluation.nulls import NullFidelity
from raptor.models.load import SHIPPED_SURROGATES

NAME = "nulls.json"  # beside the surrogate: `command`, and `nulls` as in result.json


def with_shipped_nulls(result: FidelityResult, source: str) -> FidelityResult:
    """Return a result with the nulls that come with a bundled surrogate; others are returned as they are.

    Parameters
    ----------
    result
        Fidelity of a surrogate.
    source
        Name of the surrogate, such as `scenes:k3`.
    """
    file = SHIPPED_SURROGATES[source] / NAME if source in SHIPPED_SURROGATES else None
    if result.nulls is not None or file is None or not file.exists():
        return result
    stored = json.loads(file.read_text())
    return replace(result, nulls=from_plain(dict[str, NullFidelity], stored["nulls"]), nulls_from=stored["command"])

"""Lyapunov exponents of the bundled ViT: measured before, because they take longer than a demo may."""

from __future__ import annotations

import json
from dataclasses import replace

from raptor.core.deserialize import from_plain
from raptor.dynamics.lyapunov import LyapunovResult
from raptor.dynamics.result import DynamicsResult
from raptor.models.load import SHIPPED

NAME = "lyapunov.json"  # beside the model: `command`, `phases`, and `lyapunov` as in result.json


def with_shipped_exponents(result: DynamicsResult, model: str) -> DynamicsResult:
    """Return a result with the exponents that come with the bundled ViT, where none were measured in the same phases.

    Parameters
    ----------
    result
        Dynamics of a model.
    model
        Name of the model, such as `scenes`.
    """
    file = SHIPPED / NAME
    if model != "scenes" or result.lyapunov is not None or not file.exists():
        return result
    stored = json.loads(file.read_text())
    if result.phases is None or str(result.phases) != stored["phases"]:
        return result
    found = from_plain(LyapunovResult, stored["lyapunov"])
    return replace(result, lyapunov=found, lyapunov_from=stored["command"])

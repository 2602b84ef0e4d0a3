"""Figures of `raptor fidelity`."""

from __future__ import annotations

from raptor.evaluation.evaluate import FidelityResult
from raptor.evaluation.fidelity_chart import CAPTION, fidelity_chart
from raptor.render.charts import Figure
from raptor.render.registry import figure


@figure("fidelity", "fidelity", "surrogate", CAPTION, wide=True)
def fidelity(result: FidelityResult, name: str) -> Figure | None:
    """Draw fidelity by layer; `name` is the teacher's."""
    if result.phases is None:
        return None
    return Figure(fidelity_chart(result.by_layer, result.phases, f"Surrogate {result.phases} of {name}"))

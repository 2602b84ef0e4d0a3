"""The similarity matrix of a result with its partition, for figures and notebooks."""

from __future__ import annotations

from raptor.phases.result import PhasesResult
from raptor.render.matrix_charts import Panel


def panel(result: PhasesResult, title: str) -> Panel:
    """Return the similarity matrix that was partitioned, with its boundaries."""
    return Panel(title, subtitle(result), result.first_layer, result.own_group.similarity, result.phases)


def subtitle(result: PhasesResult) -> str:
    """Say what was measured and which partition is drawn."""
    measured = f"tokens: {result.group}; n = {result.n} images" if result.n else "the matrix as given"
    return f"{measured}; phases {result.phases}"

"""Figures of `raptor inspect`."""

from __future__ import annotations

from raptor.inspection.inspect import InspectResult
from raptor.render.charts import Figure
from raptor.render.layer_charts import NORM, by_layer
from raptor.render.registry import figure


@figure(
    "inspect", "norms", "depth", "Mean norm of tokens by layer, with 95% intervals over images.", "Figure 7", order=90
)
def norms(result: InspectResult, name: str) -> Figure | None:
    """Draw the norms by layer and token group."""
    return None if result.norm is None else by_layer(result.norm, f"Norms by layer: {name}", NORM)

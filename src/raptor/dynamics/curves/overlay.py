"""Rows of a measure for a model and its surrogates, which figures lay over one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raptor.core.estimate import LayerEstimates

if TYPE_CHECKING:
    from raptor.dynamics.result import DynamicsResult, ModelDynamics
    from raptor.render.charts import Row


def surrogates_of(result: DynamicsResult) -> dict[int, ModelDynamics]:
    """Return the surrogates that a result compares its model with, by their number of blocks; the first of each."""
    found: dict[int, ModelDynamics] = {}
    for model in () if result.against is None else result.against.models.values():
        found.setdefault(0 if model.phases is None else model.phases.k, model)
    return found


def overlaid(result: DynamicsResult, name: str, **more: Any) -> list[Row]:
    """Return the rows of a registered curve for the model, its surrogates and their differences.

    Parameters
    ----------
    result
        Dynamics of the model.
    name
        Name of the curve.
    more
        Further columns.
    """
    return overlaid_by(result, lambda model: model.curves.get(name), **more)


def overlaid_by(
    result: DynamicsResult, get: Callable[[ModelDynamics], LayerEstimates | None], **more: Any
) -> list[Row]:
    """Return the rows of any measure by layer; `get` reads it from the dynamics of one model."""
    from raptor.render.layer_charts import rows_of_roles  # which imports altair: measuring needs no charts

    own = get(result)
    others = {k: values for k, model in surrogates_of(result).items() if (values := get(model)) is not None}
    return [] if own is None else rows_of_roles(own, others, **more)

"""Measures with one number per layer or step, registered by name.

A class that is registered with `@measure` appears in `DynamicsResult.curves`, in result.json, in the terminal table, in
the distances of `--against` and as a figure with a caption on the page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from raptor.core.estimate import LayerEstimates
from raptor.dynamics.measures import Measure
from raptor.render.registry import figure as register_figure

if TYPE_CHECKING:
    from raptor.render.charts import Figure

MeasureClass = TypeVar("MeasureClass", bound=type)


@dataclass(frozen=True)
class Curve:
    """A registered measure with one number per layer or step.

    Parameters
    ----------
    name
        Key in `DynamicsResult.curves` and in result.json.
    of
        `states` (layers 0..L), `steps` (0..L-1; step l goes from layer l to l + 1) or `bends` (0..L-2; where the steps
        l and l + 1 meet, at layer l + 1).
    label
        What the number is, with its unit: the title of the axis.
    column
        Title of the column in the terminal; None leaves it out.
    measure, method
        The class, and its method that takes the seed of the bootstrap and returns `LayerEstimates`, or several by name.
    """

    name: str
    of: Literal["states", "steps", "bends"]
    label: str
    column: str | None
    measure: type
    method: str


CURVES: dict[str, Curve] = {}
FURTHER = 60  # order of these figures in a chapter: after those of the paper


def measure(
    name: str,
    *,
    of: Literal["states", "steps", "bends"],
    label: str,
    caption: str = "",
    paper: str | None = None,
    column: str | None = "",
    figure: bool = True,
    method: str = "compute",
    chapter: str = "further",
    title: str | None = None,
) -> Callable[[MeasureClass], MeasureClass]:
    """Register a class with `update(batch)` and `compute(seed) -> LayerEstimates` as a measure of `raptor dynamics`.

    Several decorators on one class register several curves, which one instance computes.

    Parameters
    ----------
    name, of, label, method
        As in `Curve`.
    caption, paper
        Caption of its figure on the page, and the number of the paper's figure, if there is one.
    column
        Title of the column in the terminal: the name by default, None for no column.
    figure
        Whether to draw the curve in a figure of its own; False where another figure shows it.
    chapter, title
        Chapter of the page's section on dynamics that the figure belongs to, and its heading; the name by default.
    """

    def register(cls: MeasureClass) -> MeasureClass:
        shown = name.replace("_", " ") if column == "" else column
        CURVES[name] = Curve(name, of, label, shown, cls, method)
        if figure:
            said = caption or f"{label} by layer."
            register_figure("dynamics", name, "dynamics", said, paper, order=FURTHER, chapter=chapter, title=title)(
                _drawing(name)
            )
        return cls

    return register


def _drawing(name: str) -> Callable[..., Figure | None]:
    """Return the function that draws a curve."""

    def draw(result: Any, model: str) -> Figure | None:
        from raptor.dynamics.curves.overlay import overlaid
        from raptor.render.layer_charts import AXES, by_layer

        if name not in result.curves:
            return None
        title, rows = f"{name.replace('_', ' ').capitalize()}: {model}", overlaid(result, name)
        return by_layer(result.curves[name], title, CURVES[name].label, AXES[CURVES[name].of], rows=rows)

    return draw


class RegisteredMeasures:
    """One instance of every registered measure."""

    def __init__(self) -> None:
        self.by_class: dict[type, Any] = {curve.measure: curve.measure() for curve in CURVES.values()}

    def __iter__(self) -> Iterator[Measure]:
        return iter(self.by_class.values())

    def compute(self, seed: int) -> dict[str, LayerEstimates]:
        """Return every curve by name; each method is called once."""
        methods = dict.fromkeys((curve.measure, curve.method) for curve in CURVES.values())
        found = {(cls, method): getattr(self.by_class[cls], method)(seed) for cls, method in methods}
        results = {name: found[curve.measure, curve.method] for name, curve in CURVES.items()}
        return {name: one[name] if isinstance(one, dict) else one for name, one in results.items()}

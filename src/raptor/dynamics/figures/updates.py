"""Figures 9 and 10 of the paper: speed, ranks and coherence of updates."""

from __future__ import annotations

import altair as alt

from raptor.dynamics.curves.overlay import overlaid
from raptor.dynamics.curves.registry import CURVES
from raptor.dynamics.references.published import PUBLISHED, RANK, SOURCE
from raptor.dynamics.result import DynamicsResult
from raptor.render.charts import Figure
from raptor.render.layer_charts import STEPS, TEACHER, about, by_layer, curves, of_groups
from raptor.render.registry import figure

PANEL = 220  # pixels
RANKS = ("stable_rank", "centred_stable_rank", "entropy_rank")


@figure(
    "dynamics",
    "speed",
    "dynamics",
    "Speed: the angle between the directions of a token at two consecutive layers. A peak is where tokens turn. The "
    "claim on cls leaves out the first step, at which cls is the same in all images.",
    "Figure 9",
    wide=True,
    chapter="reorient",
    title="Where do tokens turn?",
    beside="Where do tokens turn?",
)
def speed(result: DynamicsResult, name: str) -> Figure:
    """Draw the mean speed; the table of the figure has its standard deviation too."""
    ends = () if result.phases is None else result.phases.boundaries
    title, label = f"Angular speed and phases: {name}", CURVES["speed"].label
    rows, deviation = overlaid(result, "speed"), result.curves["speed_std"].mean
    drawn = by_layer(result.curves["speed"], title, label, STEPS, [end + 0.5 for end in ends], rows=rows)
    table = [{**row, "std": deviation[row["group"]][row["layer"]] if row["role"] == TEACHER else None} for row in rows]
    return Figure(drawn.chart, table)


@figure(
    "dynamics",
    "ranks",
    "dynamics",
    "Effective rank of the updates. Stable rank: squared Frobenius norm / squared spectral norm; "
    "centred: after subtracting the mean update over tokens and images. Entropy rank: exponential of the entropy of "
    f"the normalised singular values. Grey line: about {RANK:g}, which the paper printed for the final phase of its "
    f"model ({SOURCE}).",
    "Figure 10",
    wide=True,
    chapter="together",
    title="In how many directions do tokens move?",
)
def ranks(result: DynamicsResult, name: str) -> Figure:
    """Draw three effective ranks side by side."""
    first = result.curves["stable_rank"]
    panels, rows = [], []
    for rank in RANKS:
        own = overlaid(result, rank, measure=rank)
        rows += own
        colour = of_groups(list(first.mean))
        printed = [{"value": RANK}] if rank in PUBLISHED else []
        chart = curves(own, STEPS, CURVES[rank].label, colour, levels=printed, width=PANEL, height=PANEL)
        panels.append(chart.properties(title=CURVES[rank].label))
    subtitle = about(first.n, first.seed)
    title = alt.Title(f"Ranks of the updates: {name}", subtitle=subtitle)
    return Figure(alt.hconcat(*panels).properties(title=title), rows)


@figure(
    "dynamics",
    "coherence",
    "dynamics",
    "Coherence: the cosine between the update of a token and the mean update of its group in the same image. Dotted "
    "lines: independent random updates. A group of one token, such as cls, has none.",
    "Figure 10",
    wide=True,
    chapter="together",
    title="Do tokens move in the same direction?",
)
def coherence(result: DynamicsResult, name: str) -> Figure:
    """Draw coherence by step, with the level of independent updates."""
    floor = [{"group": group, "value": value} for group, value in result.coherence_floor.items()]
    label = CURVES["coherence"].label
    rows = overlaid(result, "coherence")
    return by_layer(result.curves["coherence"], f"Coherence of updates: {name}", label, STEPS, levels=floor, rows=rows)

"""The first screen of the page: tiles, what was measured on, and a citation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from raptor import __version__
from raptor.errors import one_line
from raptor.render.tables import Number, to_html
from raptor.render.tiles import TILES, Tile
from raptor.reporting.collect import SavedRun, Subject, command_of

ORDER = ("phases", "recovered", "trajectory", "parameters", "runtime")
MEASURED = {"probe": "probes", "intervene": "interventions"}  # of verbs: what their number of images is of


@dataclass(frozen=True)
class ShownTile:
    """A tile of the page.

    Parameters
    ----------
    tile
        What was registered.
    value, detail
        Both as html.
    """

    tile: Tile
    value: Markup
    detail: Markup


def top_tiles(subject: Subject) -> list[ShownTile]:
    """Return the tiles of a model in order; of several runs, the one with the largest strength.

    Parameters
    ----------
    subject
        A model of the page; notes on what cannot be read are added to its own.
    """
    best: dict[str, tuple[Tile, str]] = {}
    for verb, make in TILES:
        for run in subject.of(verb):
            try:
                made = [] if run.record is None else list(make(run.record))
            except Exception as error:  # results may come from anybody and hold anything
                subject.missing.append(
                    f"{run.name}: its result lacks something that the page shows ({one_line(error)})"
                )
                continue
            for tile in made:
                if tile.name not in best or tile.strength > best[tile.name][0].strength:
                    best[tile.name] = (tile, run.name)
    names = sorted(best, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))
    shown = [best[name] for name in names]
    return [ShownTile(tile, to_html(tile.value, run), to_html(tile.detail, run)) for tile, run in shown]


def measured_on(subject: Subject) -> Markup:
    """Return the model, the data, and the numbers of images, with their keys."""
    parts = []
    for run in subject.runs:
        layers, data = run.result.get("layers"), run.result.get("data")
        if isinstance(layers, int) and layers and isinstance(data, str) and data:
            shown = Number(layers, "", "layers").html(run.name)
            name = Path(data).name if Path(data).is_absolute() else data
            parts.append(
                Markup("{} layers; data: {}").format(shown, Number(data, "", "data", shown=name).html(run.name))
            )
            break
    counts: dict[int, list[SavedRun]] = {}
    for run in subject.runs:
        if isinstance(n := run.result.get("images"), int) and n:
            counts.setdefault(n, []).append(run)
    # The number that most runs share comes first; those of the others name what they are of.
    first, others = Markup(""), []
    for runs in sorted(counts.values(), key=len, reverse=True):
        shown = Number(runs[0].result["images"], ",", "images").html(runs[0].name)
        kinds = ", ".join(dict.fromkeys(MEASURED.get(run.verb, run.verb) for run in runs))
        if first:
            others.append(Markup("{}: {}").format(kinds, shown))
        else:
            first = Markup("{} images").format(shown)
    if first:
        parts.append(Markup("{} ({})").format(first, Markup("; ").join(others)) if others else first)
    return Markup("; ").join(parts)


def citation(subject: Subject, tiles: Sequence[ShownTile]) -> str:
    """Return a citation with the numbers at the top and the command that made them."""
    numbers = "; ".join(f"{one.tile.title.lower()}: {one.tile.value}" for one in tiles)
    commands = [subject.command] if subject.command else [command_of(run.config) for run in subject.runs]
    about = str(measured_on(subject).striptags())
    return (
        f"{subject.title} ({about}), measured with raptor {__version__}. {numbers}. Numbers in brackets are 95% "
        f"intervals, those of the run time its range. Command: {' && '.join(commands)}. Method: Block-Recurrent "
        "Dynamics in Vision Transformers, arXiv 2512.19941."
    )

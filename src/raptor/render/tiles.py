"""The registry of the numbers at the top of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raptor.render.registry import Function
from raptor.render.tables import Cell

if TYPE_CHECKING:
    from raptor.runtime.rundir import Record


@dataclass(frozen=True)
class Tile:
    """One of the numbers at the top of the page.

    Parameters
    ----------
    name
        `phases`, `recovered`, `trajectory`, `parameters` or `runtime`; the page has one tile of each name.
    title
        What the number is.
    value
        The number, with its interval.
    detail
        A sentence below: what it is compared with, and the number of images.
    strength
        Which of several is shown: the one with the largest strength.
    ribbon
        Lengths of phases that are drawn as a coloured strip of the layers.
    paper
        The value that the paper printed for its own model, with where.
    """

    name: str
    title: str
    value: Cell
    detail: Cell
    strength: tuple[float, ...] = (0.0,)
    ribbon: tuple[int, ...] = ()
    paper: str | None = None


TILES: list[tuple[str, Callable[[Record[Any]], Iterable[Tile]]]] = []


def tiles(verb: str) -> Callable[[Function], Function]:
    """Register a function from a record of a verb to its `Tile`s at the top of the page."""

    def register(make: Function) -> Function:
        TILES.append((verb, make))
        return make

    return register

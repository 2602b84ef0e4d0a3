"""Trajectories of classes and of single images, in the principal directions of all unit group means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from raptor.core.principal import Principal, principal_of
from raptor.core.serialize import Key
from raptor.dynamics.measures import StateBatch

EXAMPLES = 60  # images whose trajectories are stored


class PrincipalMeasure:
    """Principal directions of each token group, from the first two moments over the first half of the images."""

    def __init__(self) -> None:
        self.n = 0
        self.first: dict[str, Tensor] = {}
        self.second: dict[str, Tensor] = {}

    def update(self, batch: StateBatch) -> None:
        """Add a batch."""
        for group, means in batch.unit_means.items():
            rows = means.flatten(0, 1)
            self.first[group] = self.first.get(group, 0) + rows.sum(dim=0)
            self.second[group] = self.second.get(group, 0) + rows.T @ rows
        self.n += len(batch.states) * batch.n

    def compute(self) -> dict[str, Principal]:
        """Return the principal directions of each token group."""
        found = {}
        for group, total in self.first.items():
            centre = total / self.n
            found[group] = principal_of(centre, self.second[group] / self.n - torch.outer(centre, centre))
        return found


@dataclass(frozen=True)
class Example:
    """Trajectory of one image: its coordinates at the layers 0..L, and its class."""

    path: list[list[float]]
    class_name: Annotated[str, Key(name="class")]


@dataclass(frozen=True)
class Paths:
    """Trajectories of one token group, in the coordinates of its first three principal directions.

    Parameters
    ----------
    explained
        Share of the variance along each direction.
    classes
        By class, its mean trajectory at the layers 0..L; without labels, one trajectory called `all`.
    spread
        By class, the standard deviation over images in each coordinate.
    count
        By class, the number of images.
    examples
        Trajectories of some images.
    """

    explained: list[float]
    classes: dict[str, list[list[float]]]
    spread: dict[str, list[list[float]]]
    count: dict[str, int]
    examples: list[Example]


def class_name(number: int, classes: Sequence[str] | None) -> str:
    """Return the name of a class: `all` for -1 (no labels), and the number where there are no names."""
    if number < 0:
        return "all"
    return str(number) if classes is None else classes[number]


class PathsMeasure:
    """Trajectories of classes and of some images, from the second half of the images.

    Parameters
    ----------
    principal
        Principal directions of each token group, from the other images.
    """

    def __init__(self, principal: dict[str, Principal]):
        self.principal = principal
        self.count: dict[int, int] = {}
        self.first: dict[tuple[str, int], Tensor] = {}
        self.second: dict[tuple[str, int], Tensor] = {}
        self.examples: dict[str, list[tuple[int, list[list[float]]]]] = {group: [] for group in principal}

    def update(self, batch: StateBatch) -> None:
        """Add a batch."""
        label = torch.full((batch.n,), -1) if batch.label is None else batch.label.cpu()
        for group, principal in self.principal.items():
            at = principal(batch.unit_means[group])
            for number in label.unique().tolist():
                own = at[label == number]
                self.first[group, number] = self.first.get((group, number), 0) + own.sum(dim=0)
                self.second[group, number] = self.second.get((group, number), 0) + own.square().sum(dim=0)
            room = EXAMPLES - len(self.examples[group])
            self.examples[group] += list(zip(label.tolist()[:room], at[:room].tolist(), strict=True))
        for number in label.tolist():
            self.count[number] = self.count.get(number, 0) + 1

    def compute(self, classes: Sequence[str] | None = None) -> dict[str, Paths]:
        """Return the trajectories of each token group.

        Parameters
        ----------
        classes
            Names of the classes; their numbers by default.
        """
        names = {number: class_name(number, classes) for number in sorted(self.count)}
        results = {}
        for group, principal in self.principal.items():
            means = {number: self.first[group, number] / self.count[number] for number in names}
            squares = {number: self.second[group, number] / self.count[number] for number in names}
            results[group] = Paths(
                explained=principal.explained,
                classes={names[number]: mean.tolist() for number, mean in means.items()},
                spread={
                    names[number]: (squares[number] - mean.square()).clamp(min=0).sqrt().tolist()
                    for number, mean in means.items()
                },
                count={name: self.count[number] for number, name in names.items()},
                examples=[Example(path, names[number]) for number, path in self.examples[group]],
            )
        return results

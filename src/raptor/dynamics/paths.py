"""Trajectories in the plane: the principal directions of all states on the sphere, and the paths of classes in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from raptor.dynamics.motion import Motion
from raptor.dynamics.principal import Principal, principal_of

EXAMPLES = 60  # paths of single images that are kept


class PrincipalMeasure:
    """First half of the images: two moments of each group stream, d and d x d."""

    def __init__(self) -> None:
        self.n = 0
        self.first: dict[str, Tensor] = {}
        self.second: dict[str, Tensor] = {}

    def add(self, motion: Motion) -> None:
        """Take in a batch."""
        for group, means in motion.unit_means.items():
            rows = means.flatten(0, 1)
            self.first[group] = self.first.get(group, 0) + rows.sum(dim=0)
            self.second[group] = self.second.get(group, 0) + rows.T @ rows
        self.n += len(motion.states) * motion.n

    def result(self) -> dict[str, Principal]:
        """Return the directions of each group."""
        found = {}
        for group, total in self.first.items():
            centre = total / self.n
            found[group] = principal_of(centre, self.second[group] / self.n - torch.outer(centre, centre))
        return found


@dataclass(frozen=True)
class Paths:
    """Of one token group, in the coordinates of its principal directions.

    Parameters
    ----------
    classes
        By class, its mean at the layers 0..L; with no labels, one path under -1.
    spread
        By class, the standard deviation over images in each coordinate.
    count
        By class, how many images.
    examples
        Class and path of some images.
    explained
        Share of the variance along each direction.
    """

    classes: dict[int, list[list[float]]]
    spread: dict[int, list[list[float]]]
    count: dict[int, int]
    examples: list[tuple[int, list[list[float]]]]
    explained: list[float]


def class_name(number: int, classes: Sequence[str] | None) -> str:
    """Return what a class of paths or basins is called."""
    if number < 0:
        return "all"
    return str(number) if classes is None else classes[number]


class PathsMeasure:
    """Second half: the paths of classes, and of some images.

    Parameters
    ----------
    principal
        Directions of each group, of the other images.
    """

    def __init__(self, principal: dict[str, Principal]):
        self.principal = principal
        self.count: dict[int, int] = {}
        self.first: dict[tuple[str, int], Tensor] = {}
        self.second: dict[tuple[str, int], Tensor] = {}
        self.examples: dict[str, list[tuple[int, list[list[float]]]]] = {group: [] for group in principal}

    def add(self, motion: Motion) -> None:
        """Take in a batch."""
        label = torch.full((motion.n,), -1) if motion.label is None else motion.label.cpu()
        for group, principal in self.principal.items():
            at = principal(motion.unit_means[group])
            for number in label.unique().tolist():
                own = at[label == number]
                self.first[group, number] = self.first.get((group, number), 0) + own.sum(dim=0)
                self.second[group, number] = self.second.get((group, number), 0) + own.square().sum(dim=0)
            room = EXAMPLES - len(self.examples[group])
            self.examples[group] += list(zip(label.tolist()[:room], at[:room].tolist(), strict=True))
        for number in label.tolist():
            self.count[number] = self.count.get(number, 0) + 1

    def result(self) -> dict[str, Paths]:
        """Return the paths of each group."""
        found = {}
        for group, principal in self.principal.items():
            means = {number: self.first[group, number] / n for number, n in sorted(self.count.items())}
            spread = {
                number: (self.second[group, number] / self.count[number] - mean.square()).clamp(min=0).sqrt().tolist()
                for number, mean in means.items()
            }
            classes = {number: mean.tolist() for number, mean in means.items()}
            found[group] = Paths(classes, spread, dict(self.count), self.examples[group], principal.explained)
        return found

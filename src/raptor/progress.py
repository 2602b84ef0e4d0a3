"""Lines on what goes on, and a progress bar for whatever takes longer than two seconds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sized
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from raptor.errors import printable
from raptor.processes import team_of

PATIENCE = 2.0  # seconds before a bar appears

Item = TypeVar("Item", bound=Sized)


def say(console: Console, text: str) -> None:
    """Print a line on what goes on; brackets in it are brackets."""
    console.print(text, markup=False, highlight=False)


class _Rate(ProgressColumn):
    """Images a second."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:.0f}/s")


class Bar:
    """A bar over images that appears only when the work has taken two seconds; use as a context."""

    def __init__(self, total: int, description: str, console: Console):
        self._bar = Progress(
            TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), _Rate(),
            TimeRemainingColumn(), console=console, transient=True,
        )  # fmt: skip
        self._task = self._bar.add_task(printable(description), total=total)
        self._since, self._shown = time.monotonic(), False

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._bar.stop()

    def move(self, completed: int, description: str | None = None) -> None:
        """Say how many images are done, and what they are done for."""
        self._bar.update(self._task, completed=completed, description=description)
        if not self._shown and time.monotonic() - self._since > PATIENCE:
            self._bar.start()
            self._shown = True


def track(batches: Iterable[Item], total: int, description: str, console: Console) -> Iterator[Item]:
    """Yield batches; after two seconds show how many of `total` images are done, the rate and the time left."""
    done = 0
    with Bar(total, description, console) as bar:
        for batch in batches:
            yield batch
            done += len(batch)
            bar.move(done)


class Tracked:
    """Images that show progress each time they are gone through."""

    def __init__(self, images: Any, description: str, console: Console):
        self.images, self.description, self.console = images, description, console

    def __getattr__(self, name: str) -> Any:
        """Return what the images have."""
        return getattr(self.images, name)

    def __len__(self) -> int:
        return len(self.images)

    def halves(self) -> tuple[Tracked, Tracked]:
        """Return both halves of the images, each with progress of its own."""
        first, second = (Tracked(half, self.description, self.console) for half in self.images.halves())
        return first, second

    def in_batches(self, most: int) -> Tracked:
        """Return the same images in batches that are no larger."""
        return Tracked(self.images.in_batches(most), self.description, self.console)

    def alone(self) -> Tracked:
        """Return the same images, all of them for this process."""
        return Tracked(self.images.alone(), self.description, self.console)

    def __iter__(self) -> Iterator[Any]:
        total = len(self.images) // team_of(self.images).n  # what this process sees of them
        return track(self.images, total, self.description, self.console)

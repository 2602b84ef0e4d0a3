"""Status lines, and progress bars for work that takes longer than two seconds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from raptor.errors import printable

if TYPE_CHECKING:  # `raptor --help` needs no torch
    from raptor.core.batches import Batch, LoadedImageSet
    from raptor.core.processes import Processes

PATIENCE = 2.0  # seconds before a bar appears

Item = TypeVar("Item", bound=Sized)


def say(console: Console, text: str) -> None:
    """Print a status line without interpreting markup in it."""
    console.print(text, markup=False, highlight=False)


class _Rate(ProgressColumn):
    """Images per second."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:.0f}/s")


class Bar:
    """A progress bar over images, shown after two seconds; a context manager.

    Parameters
    ----------
    total
        Number of images.
    description
        Text before the bar.
    console
        Where the bar is printed.
    """

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
        """Set the number of images that are done, and optionally the text before the bar."""
        self._bar.update(self._task, completed=completed, description=description)
        if not self._shown and time.monotonic() - self._since > PATIENCE:
            self._bar.start()
            self._shown = True


def track(batches: Iterable[Item], total: int, description: str, console: Console) -> Iterator[Item]:
    """Yield batches and show a progress bar over `total` images."""
    done = 0
    with Bar(total, description, console) as bar:
        for batch in batches:
            yield batch
            done += len(batch)
            bar.move(done)


class Tracked:
    """A set of images that shows a progress bar during every iteration.

    Parameters
    ----------
    images
        The set of images.
    description, console
        As in `Bar`.
    """

    def __init__(self, images: LoadedImageSet, description: str, console: Console):
        self.images, self.description, self.console = images, description, console

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Class names, or None if the images have no labels."""
        return self.images.classes

    @property
    def mask_classes(self) -> tuple[str, ...] | None:
        """Names of the mask classes, or None if there are no masks or no names."""
        return self.images.mask_classes

    @property
    def n_mask_classes(self) -> int | None:
        """Number of mask classes, or None if it is not known."""
        return self.images.n_mask_classes

    @property
    def damaged(self) -> Sequence[dict[str, str]]:
        """Damaged images found so far."""
        return self.images.damaged

    @property
    def process_group(self) -> Processes:
        """The processes that share the images."""
        return self.images.process_group

    @property
    def batch_size(self) -> int:
        """Images per batch and process."""
        return self.images.batch_size

    def image_keys(self) -> set[str]:
        """Return a unique key for each image."""
        return self.images.image_keys()

    def identity(self) -> str:
        """Return a text that identifies the images and their preprocessing."""
        return self.images.identity()

    def __len__(self) -> int:
        return len(self.images)

    def __iter__(self) -> Iterator[Batch]:
        total = len(self.images) // self.process_group.world_size  # images of this process
        return track(self.images, total, self.description, self.console)

    def fit_eval_split(self) -> tuple[Tracked, Tracked]:
        """Split the images in two halves, each with its own progress bar."""
        first, second = self.images.fit_eval_split()
        return self._of(first), self._of(second)

    def with_batch_size(self, most: int) -> Tracked:
        """Return the same images in batches of at most `most`."""
        return self._of(self.images.with_batch_size(most))

    def unsharded(self) -> Tracked:
        """Return the same images without sharding: all of them in this process."""
        return self._of(self.images.unsharded())

    def sample(self, n: int) -> LoadedImageSet:
        """Return at most n of the images, without a progress bar."""
        return self.images.sample(n)

    def shuffled(self, first_step: int, batch_size: int, seed: int, part: tuple[int, int] = (0, 1)) -> Iterator[Batch]:
        """Yield training batches indefinitely, without a progress bar."""
        return self.images.shuffled(first_step, batch_size, seed, part)

    def shuffled_epochs(
        self, first_step: int, batch_size: int, seed: int, part: tuple[int, int] = (0, 1)
    ) -> Iterator[Batch]:
        """Yield training batches indefinitely, without a progress bar."""
        return self.images.shuffled_epochs(first_step, batch_size, seed, part)

    def _of(self, images: LoadedImageSet) -> Tracked:
        return Tracked(images, self.description, self.console)

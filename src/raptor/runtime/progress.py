"""Progress of work that takes longer than two seconds: bars in a terminal or a notebook, lines in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

from raptor.errors import printable

if TYPE_CHECKING:  # `raptor --help` needs no torch
    from raptor.core.batches import Batch, ImageSource, LoadedImageSet
    from raptor.core.processes import Processes

PATIENCE = 2.0  # seconds before a bar appears
LOG_EVERY = 30.0  # seconds between lines of a log

Item = TypeVar("Item", bound=Sized)


@dataclass(frozen=True)
class ProgressState:
    """How far a piece of work is.

    Parameters
    ----------
    stage
        What is being done.
    done, total, unit
        Finished and all units of work; the unit is `image` or `step`.
    loss
        Training loss, if there is one.
    images_per_second, seconds_left
        Speed and estimated time; None at the start.
    """

    stage: str
    done: int
    total: int
    unit: str
    loss: float | None = None
    images_per_second: float | None = None
    seconds_left: float | None = None

    def __str__(self) -> str:
        parts = [
            f"step {self.done:,}/{self.total:,}" if self.unit == "step" else f"{self.done:,}/{self.total:,} images"
        ]
        if self.loss is not None:
            parts.append(f"loss {self.loss:.4g}")
        if self.images_per_second is not None:
            parts.append(f"{self.images_per_second:.3g} images/s")
        if self.seconds_left is not None:
            parts.append(f"{_duration(self.seconds_left)} left")
        return printable(f"{self.stage}: {', '.join(parts)}")


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Progress:
    """Where progress is shown.

    Parameters
    ----------
    console
        A terminal or a notebook gets bars; any other output gets a line at the start and then one every `log_every`
        seconds.
    log_every
        Seconds between lines.
    callback
        Called with a `ProgressState` at every change, besides.
    """

    def __init__(
        self,
        console: Console,
        log_every: float = LOG_EVERY,
        callback: Callable[[ProgressState], None] | None = None,
    ):
        self.console, self.log_every, self.callback = console, log_every, callback

    @classmethod
    def of(cls, progress: ProgressLike) -> Progress:
        """Return what a `progress=` argument means: True shows progress on stderr, False shows none."""
        if isinstance(progress, Progress):
            return progress
        shown = Console(stderr=True, quiet=progress is not True)
        return cls(shown, callback=None if isinstance(progress, bool) else progress)

    def bar(self, total: int, stage: str, unit: str = "image", images_per_step: int = 1) -> Bar:
        """Return a bar over images, or over steps of so many images each; a context manager."""
        return Bar(self, total, stage, unit, images_per_step)

    def images(self, images: LoadedImageSet, stage: str) -> Tracked:
        """Return the same images, which show a bar whenever they are iterated over."""
        return Tracked(images, stage, self)

    def track(self, batches: Iterable[Item], total: int, stage: str) -> Iterator[Item]:
        """Yield batches and show a bar over `total` images."""
        done = 0
        with self.bar(total, stage) as bar:
            for batch in batches:
                yield batch
                done += len(batch)
                bar.move(done)

    def announce(self, text: str) -> None:
        """Print a status line without interpreting markup in it."""
        self.console.print(text, markup=False, highlight=False)


ProgressLike = bool | Callable[[ProgressState], None] | Progress


def tracked(images: ImageSource, stage: str, progress: ProgressLike) -> ImageSource:
    """Return images that show a bar whenever they are iterated over; batches without a length stay as they are.

    Parameters
    ----------
    images
        Batches, or what `load_images` returned.
    stage
        What is being done with them.
    progress
        True shows progress on stderr, False shows none, and a function is called with a `ProgressState`.
    """
    from raptor.core.batches import LoadedImageSet

    return Progress.of(progress).images(images, stage) if isinstance(images, LoadedImageSet) else images


class _Rate(ProgressColumn):
    """Images per second."""

    def render(self, task: Task) -> Text:
        speed = None if task.speed is None else task.speed * task.fields["images_per_step"]
        return Text("" if speed is None else f"{speed:.0f}/s")


class Bar:
    """Progress of one stage; a context manager.

    Parameters
    ----------
    progress
        Where it is shown.
    total, stage, unit
        As in `ProgressState`.
    images_per_step
        Images per unit of work.
    """

    def __init__(self, progress: Progress, total: int, stage: str, unit: str, images_per_step: int):
        self.progress, self.total, self.stage, self.unit = progress, total, stage, unit
        self.images_per_step = images_per_step
        console = progress.console
        self._live = console.is_terminal or console.is_jupyter
        self._bar = RichProgress(
            TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), _Rate(),
            TimeRemainingColumn(), console=console, transient=True,
        )  # fmt: skip
        self._task = self._bar.add_task(printable(stage), total=total, images_per_step=images_per_step)
        self._since = self._said = time.monotonic()
        self._first: tuple[float, int] | None = None  # time and number of the first units; work may be resumed
        self._shown = False

    def __enter__(self) -> Bar:
        if not self._live:
            self.progress.announce(str(ProgressState(self.stage, 0, self.total, self.unit)))
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._bar.stop()

    def move(self, done: int, stage: str | None = None, loss: float | None = None) -> None:
        """Set how much is done, and optionally the stage and the training loss."""
        self.stage = stage or self.stage
        now = time.monotonic()
        self._first = self._first or (now, done)
        state = self._state(done, loss, now - self._first[0], done - self._first[1])
        if self.progress.callback is not None:
            self.progress.callback(state)
        if self._live:
            text = self.stage if loss is None else f"{self.stage} loss {loss:.4f}"
            self._bar.update(self._task, completed=done, description=printable(text))
            if not self._shown and now - self._since > PATIENCE:
                self._bar.start()
                self._shown = True
        elif now - self._said >= self.progress.log_every:
            self.progress.announce(str(state))
            self._said = now

    def _state(self, done: int, loss: float | None, seconds: float, more: int) -> ProgressState:
        """Return the state; `more` units were done in the last `seconds`."""
        if more <= 0 or seconds <= 0:
            return ProgressState(self.stage, done, self.total, self.unit, loss)
        left = (self.total - done) * seconds / more
        return ProgressState(
            self.stage, done, self.total, self.unit, loss, more * self.images_per_step / seconds, max(0.0, left)
        )


class Tracked:
    """A set of images that shows a progress bar during every iteration.

    Parameters
    ----------
    images
        The set of images.
    stage
        What is being done with them.
    progress
        Where that is shown.
    """

    def __init__(self, images: LoadedImageSet, stage: str, progress: Progress):
        self.images, self.stage, self.progress = images, stage, progress

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
        return self.progress.track(self.images, total, self.stage)

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
        return Tracked(images, self.stage, self.progress)

"""Progress of work that takes longer than two seconds: bars in a terminal or a notebook, lines in a log."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from raptor.errors import printable
from raptor.runtime.notes import flush_notes

if TYPE_CHECKING:
    from rich.console import Console

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
        with _preserved_random():
            from rich.console import Console
        shown = Console(stderr=True, quiet=progress is not True)
        return cls(shown, callback=None if isinstance(progress, bool) else progress)

    def bar(self, total: int, stage: str, unit: str = "image", images_per_step: int = 1) -> Bar:
        """Return a bar over images, or over steps of so many images each; a context manager."""
        return Bar(self, total, stage, unit, images_per_step)

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


@contextmanager
def _preserved_random() -> Iterator[None]:
    """Restore Python's random state: rich draws random numbers when it is imported."""
    before = random.getstate()
    yield
    random.setstate(before)


def _rich_bar(console: Console, images_per_step: int) -> Any:
    """Return a bar with a column of images per second."""
    with _preserved_random():
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            ProgressColumn,
            TextColumn,
            TimeRemainingColumn,
        )  # fmt: skip
        from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Any) -> Text:
            return Text("" if task.speed is None else f"{task.speed * images_per_step:.0f}/s")

    return Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), Rate(),
        TimeRemainingColumn(), console=console, transient=True,
    )  # fmt: skip


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
        if self._live:
            self._bar = _rich_bar(console, images_per_step)
            self._task = self._bar.add_task(printable(stage), total=total)
        self._since = self._said = time.monotonic()
        self._first: tuple[float, int] | None = None  # time and number of the first units; work may be resumed
        self._shown = False

    def __enter__(self) -> Bar:
        flush_notes()
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

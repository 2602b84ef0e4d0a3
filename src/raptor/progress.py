"""A progress bar for whatever takes longer than two seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

PATIENCE = 2.0  # seconds before a bar appears

Item = TypeVar("Item", bound=Sized)


class _Rate(ProgressColumn):
    """Images a second."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:.0f}/s")


def track(batches: Iterable[Item], total: int, description: str, console: Console) -> Iterator[Item]:
    """Yield batches; after two seconds show how many of `total` images are done, the rate and the time left."""
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn(),
        console=console, transient=True,
    )  # fmt: skip
    task = bar.add_task(description, total=total)
    started, shown = time.monotonic(), False
    try:
        for batch in batches:
            yield batch
            bar.advance(task, len(batch))
            if not shown and time.monotonic() - started > PATIENCE:
                bar.start()
                shown = True
    finally:
        if shown:
            bar.stop()


def watcher(steps: int, console: Console) -> Callable[[dict[str, float]], None]:
    """Return what shows a training's last loss, its rate and the time left, one line a minute at most."""
    last = [time.monotonic() - 60]

    def watch(line: dict[str, float]) -> None:
        now = time.monotonic()
        if now - last[0] < 60 and line["step"] < steps:
            return
        last[0] = now
        left = line["seconds"] / line["step"] * (steps - line["step"])
        numbers = ", ".join(f"{name} {line[name]:.3f}" for name in ("loss", "accuracy") if name in line)
        console.print(
            f"step {line['step']:.0f} of {steps}: {numbers}, {line['images_per_second']:.0f} images/s, "
            f"{left / 60:.0f} min left"
        )

    return watch

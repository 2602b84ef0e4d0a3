"""Notes to the user: what raptor assumed. Python's logging prints them, under the name `raptor`."""

from __future__ import annotations

import logging
import sys

LOGGER = logging.getLogger("raptor")


def note(text: str) -> None:
    """Tell the user something that is not an error; `logging.getLogger("raptor").setLevel("ERROR")` silences it."""
    LOGGER.warning(text)


class NoteHandler(logging.Handler):
    """Prints notes on stderr when work begins, each once, as the command line does.

    A command that ends in an error before that prints the error alone.

    Parameters
    ----------
    quiet
        Print nothing.
    """

    def __init__(self, quiet: bool):
        super().__init__(logging.WARNING)
        self.quiet, self.waiting, self.printed = quiet, list[str](), set[str]()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a note until work begins."""
        text = record.getMessage()
        if not self.quiet and text not in self.printed:
            self.printed.add(text)
            self.waiting.append(text)

    def flush(self) -> None:
        """Print the notes that wait."""
        for text in self.waiting:
            print(f"note: {text}", file=sys.stderr)
        self.waiting.clear()


def flush_notes() -> None:
    """Print the notes that wait: work begins, or has ended."""
    for handler in LOGGER.handlers:
        handler.flush()

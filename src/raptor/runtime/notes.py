"""Notes to the user: what raptor assumed, said once. Python's logging prints them, under the name `raptor`."""

from __future__ import annotations

import logging
import sys

LOGGER = logging.getLogger("raptor")


def note(text: str) -> None:
    """Tell the user something that is not an error; `logging.getLogger("raptor").setLevel("ERROR")` silences it."""
    LOGGER.warning(text)


def print_notes(quiet: bool) -> logging.Handler:
    """Print notes on stderr, each once, as the command line does; return the handler, which the caller removes."""
    handler, said = logging.StreamHandler(sys.stderr), set[str]()

    def is_new(record: logging.LogRecord) -> bool:
        new = record.getMessage() not in said
        said.add(record.getMessage())
        return new

    handler.addFilter(is_new)
    handler.setFormatter(logging.Formatter("note: %(message)s"))
    handler.setLevel(logging.ERROR if quiet else logging.WARNING)
    LOGGER.addHandler(handler)
    return handler

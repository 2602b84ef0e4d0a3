"""Messages for system failures such as a full disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

RETRY = "run the command again, with --resume if it has that option"


def explain_failure(error: BaseException) -> str | None:
    """Return what failed in the system and what to do about it; None for any other error."""
    for one in chain(error):
        text, number = str(one), one.errno if isinstance(one, OSError) else None
        # safetensors reports the text of a system error without its number.
        if number in (errno.ENOSPC, errno.EDQUOT) or os.strerror(errno.ENOSPC) in text:
            return f"the disk is full; finished results are kept. Free some space and {RETRY}"
        if isinstance(one, MemoryError) or type(one).__name__ == "OutOfMemoryError":
            return f"out of memory; use a smaller --batch-size, fewer --images or a smaller model, then {RETRY}"
        if number == errno.EROFS or os.strerror(errno.EROFS) in text:
            return "the file system is read-only; use another directory"
        # gloo raises a RuntimeError that names its source file; other backends have their own classes.
        if isinstance(one, RuntimeError) and ("/gloo/" in text or type(one).__name__.startswith("Dist")):
            return (
                "another process of this run has ended or cannot be reached; look for its error message. Finished "
                f"results are kept; {RETRY}"
            )
    return None


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its cause, the cause of that, and so on."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or found.__context__

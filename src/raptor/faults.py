"""What a machine does to a command that is right, such as a full disk, in words that say what to do."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

AGAIN = "give the command again, with --resume where it has that option"


def what_happened(error: BaseException) -> str | None:
    """Return what the machine did and what to do about it; None for an error that the program made."""
    for one in chain(error):
        text, number = str(one), one.errno if isinstance(one, OSError) else None
        # safetensors tells what the system said, but not its number.
        if number in (errno.ENOSPC, errno.EDQUOT) or os.strerror(errno.ENOSPC) in text:
            return f"the disk is full; what was finished is kept: make room and {AGAIN}"
        if isinstance(one, MemoryError) or type(one).__name__ == "OutOfMemoryError":
            return f"memory is full: use a smaller --batch-size, fewer --images or a smaller model; then {AGAIN}"
        if number == errno.EROFS or os.strerror(errno.EROFS) in text:
            return "the file system is read-only: use a directory that can be written to"
        # gloo raises plain errors that name its source file; other backends have classes of their own.
        if isinstance(one, RuntimeError) and ("/gloo/" in text or type(one).__name__.startswith("Dist")):
            return (
                "another of the processes that work together has ended or cannot be reached: look at what it said. "
                f"What was finished is kept: {AGAIN}"
            )
    return None


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those that it came from."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or found.__context__

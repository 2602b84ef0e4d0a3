"""The command `raptor`: exit codes and errors; everything else is imported inside, so that Ctrl-C is met at once."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line: 0 success, 2 a user's mistake in one line on stderr, 130 Ctrl-C."""
    if hasattr(sys.stdout, "reconfigure"):  # names of files may hold what the terminal's encoding does not
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _run(sys.argv[1:] or ["--help"])
    except BaseException as error:
        if not _is_interrupt(error):
            raise
        code = 130
    sys.exit(code)


def _is_interrupt(error: BaseException | None) -> bool:
    """Tell Ctrl-C, also where it fell into an import that wrapped it in an error of its own."""
    return error is not None and (
        isinstance(error, KeyboardInterrupt) or _is_interrupt(error.__cause__ or error.__context__)
    )


def _run(arguments: list[str]) -> int:
    import typer

    from raptor.cli import run_command
    from raptor.errors import RaptorError, printable
    from raptor.faults import what_happened

    # What typer raises for a wrong call, found through its public child: it has moved between typer's releases.
    usage_error: type[Exception] = typer.BadParameter.__mro__[1]
    try:
        code = run_command(arguments)
        sys.stdout.flush()
        return code
    except typer.Exit as stop:
        return stop.exit_code
    except typer.Abort:
        return 130
    except BrokenPipeError:  # who reads has enough, as `head` does; nothing more can be told, as typer has it too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (RaptorError, usage_error, OSError, RuntimeError, MemoryError) as error:
        if isinstance(error, (OSError, RuntimeError, MemoryError)):
            message = what_happened(error)
        else:
            message = getattr(error, "format_message", error.__str__)()
        if message is None or "--debug" in arguments:
            raise
        print(f"error: {printable(' '.join(message.split()))}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    main()

"""The command `raptor`: exit codes and error messages. Imports are inside, so that Ctrl-C works from the start."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line and exit: 0 for success, 2 for an error in one line on stderr, 130 for Ctrl-C."""
    if hasattr(sys.stdout, "reconfigure"):  # file names may have characters that the terminal cannot encode
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _run(sys.argv[1:] or ["--help"])
    except BaseException as error:
        if not _is_interrupt(error):
            raise
        code = 130
    sys.exit(code)


def _is_interrupt(error: BaseException | None) -> bool:
    """Return whether an error is Ctrl-C, possibly wrapped by an import that it interrupted."""
    return error is not None and (
        isinstance(error, KeyboardInterrupt) or _is_interrupt(error.__cause__ or error.__context__)
    )


def _run(arguments: list[str]) -> int:
    import typer

    from raptor.cli import run_command
    from raptor.errors import RaptorError, printable
    from raptor.runtime.faults import explain_failure
    from raptor.runtime.malloc import keep_freed_memory
    from raptor.runtime.notes import LOGGER, NoteHandler
    from raptor.runtime.threads import thread_settings

    # The base class of typer's usage errors; its module differs between releases of typer.
    usage_error: type[Exception] = typer.BadParameter.__mro__[1]
    if not {"--help", "--version"} & {*arguments}:
        os.environ.update(thread_settings(os.environ))  # before torch is imported
    keep_freed_memory()  # a setting of the whole process, which a library call must not change
    notes = NoteHandler(quiet="--quiet" in arguments)
    LOGGER.addHandler(notes)
    try:
        code = run_command(arguments)
        notes.flush()
        sys.stdout.flush()
        return code
    except typer.Exit as stop:
        return stop.exit_code
    except typer.Abort:
        return 130
    except BrokenPipeError:  # the reader of a pipe, such as `head`, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (RaptorError, usage_error, OSError, RuntimeError, MemoryError) as error:
        if isinstance(error, (OSError, RuntimeError, MemoryError)):
            message = explain_failure(error)
        else:
            message = _usage_message(error)
        if message is None or "--debug" in arguments:
            raise
        print(f"error: {printable(' '.join(message.split()))}", file=sys.stderr)
        return 2
    finally:
        LOGGER.removeHandler(notes)


def _usage_message(error: Exception) -> str:
    """Return the message of an error in a user's input; of an unknown option, with the options like it."""
    unknown, known = getattr(error, "option_name", None), getattr(error, "possibilities", None)
    if unknown is not None and hasattr(error, "possibilities"):
        return f"there is no option {unknown}" + (f"; did you mean {' or '.join(sorted(known))}?" if known else "")
    message: str = getattr(error, "format_message", error.__str__)()
    return message


if __name__ == "__main__":
    main()

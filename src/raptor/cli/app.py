"""The application that verbs register with, and its own options."""

from __future__ import annotations

from typing import Annotated

import typer

from raptor import __version__

app = typer.Typer(add_completion=False, no_args_is_help=False, pretty_exceptions_enable=False, rich_markup_mode=None)


def _print_version(wanted: bool) -> bool:
    if wanted:
        print(__version__)
        raise typer.Exit
    return wanted


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """See a Vision Transformer's depth as what it is: a few blocks applied again and again."""
